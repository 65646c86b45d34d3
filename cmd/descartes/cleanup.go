package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent/process"
	"descartes/gitops"
	"descartes/launch"
	"descartes/loop/store"
	"descartes/loop/trunk"
)

func newCleanupCmd() *cobra.Command {
	var a app
	var older string
	var dry bool
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what old runs left: logs, kept refs, unused copies of the project",
		Long: `Remove what old runs left: the logs and kept refs of runs that are over, refs of runs that are gone,
unused copies of the project, and at any age those of projects whose folder is gone. What a live run, one that can be resumed, or the last one of a tag needs stays. No file of
yours, no branch and no commit on a branch is touched.`,
		Args: takes(0, 0, ""),
		RunE: a.does(func([]string) error {
			age, err := days(older)
			if err != nil {
				return err
			}
			repo, err := a.repo()
			if err != nil && !errors.Is(err, gitops.ErrNotRepo) {
				return err
			}
			now, unused := time.Now(), age
			if !a.cmd.Flags().Changed("older-than") {
				unused = 7 * 24 * time.Hour
			}
			list, err := a.home.Leftovers(a.ctx(), repo, launch.PoolOf(a.root), now.Add(-age), now.Add(-unused),
				trunk.HoldsWork)
			switch {
			case err != nil:
				return err
			case len(list) == 0:
				return a.print("nothing to remove that was not used for " + older + "\n")
			case dry:
				return a.print(leftovers(list) + "\nnothing is removed: --dry-run\n")
			}
			left, err := a.home.Remove(a.ctx(), repo, launch.PoolOf(a.root), list,
				store.Holder{PID: os.Getpid(), Loop: "cleanup", At: now})
			if err != nil {
				return err
			}
			freed, still := int64(0), ""
			for _, l := range list {
				freed += l.Size
			}
			if len(left) > 0 {
				still = ", less what is in use by now and stays: " + strings.Join(left, ", ")
			}
			return a.print(leftovers(list) + "\nremoved: " + process.Size(freed) + still + "\n")
		}),
	}
	a.flags(cmd, "")
	cmd.Flags().StringVar(&older, "older-than", "14d",
		"remove what has not been used for this long: 14d, 36h; 0 for all; slots go after 7d where it is not given")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list it and remove nothing")
	return cmd
}

// days parses a duration that may be in days.
func days(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var f float64
		f, err = strconv.ParseFloat(n, 64)
		d = time.Duration(min(f, 36500) * 24 * float64(time.Hour))
	}
	if err != nil || d < 0 {
		return 0, badInput("--older-than 14d, or 36h", "%q is not a time span", s)
	}
	return d, nil
}

func leftovers(list []store.Leftover) string {
	rows := [][]string{{"WHAT", "NAME", "LAST USED", "SIZE", "REFS", "WHY"}}
	for _, l := range list {
		last := "-"
		if !l.Last.IsZero() {
			last = l.Last.Local().Format(time.DateTime)
		}
		rows = append(rows, []string{l.Kind, l.Name, last, process.Size(l.Size), fmt.Sprint(len(l.Refs)), l.Why})
	}
	return table(rows)
}
