package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent/process"
	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/store"
)

func newCleanupCmd() *cobra.Command {
	var older string
	var dry bool
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what old runs left: their logs and kept refs, and slots that nobody uses",
		Long: `Remove what old runs left: the logs and kept refs of loops that are over, refs of loops that are gone, slots that
nobody uses, and at any age those of projects whose folder is gone. What a live loop, one that can be resumed, or the last one of a tag needs stays. No file of
yours, no branch and no commit on a branch is touched.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			age, err := days(older)
			if err != nil {
				return err
			}
			root, err := findRoot(".")
			if err != nil {
				return err
			}
			repo, err := gitops.Open(cmd.Context(), gitops.Options{Dir: root, Env: os.Environ()})
			if err != nil && !errors.Is(err, gitops.ErrNotRepo) {
				return err
			}
			if err == nil {
				defer repo.Close()
			} else {
				repo = nil
			}
			home := store.NewHome(root)
			unused := age
			if !cmd.Flags().Changed("older-than") {
				unused = 7 * 24 * time.Hour
			}
			list, err := home.Leftovers(cmd.Context(), repo, poolOf(root), time.Now().Add(-age), time.Now().Add(-unused), loop.HoldsWork)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(list) == 0 {
				return write(out, "nothing to remove that was not used for "+older+"\n")
			}
			if dry {
				return write(out, leftoverTable(list)+"\nnothing is removed: --dry-run\n")
			}
			left, err := home.Remove(cmd.Context(), repo, poolOf(root), list, store.Holder{PID: os.Getpid(), Loop: "cleanup", At: time.Now()})
			if err != nil {
				return err
			}
			freed := int64(0)
			for _, l := range list {
				freed += l.Size
			}
			text := leftoverTable(list) + "\nremoved: " + process.Size(freed)
			if len(left) > 0 {
				text += ", less what is in use by now and stays: " + strings.Join(left, ", ")
			}
			return write(out, text+"\n")
		},
	}
	cmd.Flags().StringVar(&older, "older-than", "14d", "remove what has not been used for this long: 14d, 36h; 0 for all; slots go after 7d where it is not given")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list it and remove nothing")
	return cmd
}

// days parses a duration that may be in days.
func days(s string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		if f, err := strconv.ParseFloat(n, 64); err == nil && f >= 0 && f < 36500 {
			return time.Duration(f * 24 * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return d, nil
	}
	return 0, badInput("--older-than 14d, or 36h", "%q is not a time span", s)
}

func leftoverTable(list []store.Leftover) string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tNAME\tLAST USED\tSIZE\tREFS\tWHY")
	for _, l := range list {
		last := "-"
		if !l.Last.IsZero() {
			last = l.Last.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", l.Kind, terminal.Clean(l.Name), last, process.Size(l.Size), len(l.Refs), l.Why)
	}
	w.Flush() // into memory
	return s.String()
}
