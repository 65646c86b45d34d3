package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/agent/quota"
	"descartes/agent/stream"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/store"
	"descartes/loop/workspace"
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

func newLimitsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "List the accounts whose quota is remembered as used up: by which loop, and until when",
		Long: `List the accounts whose quota is remembered as used up: by which loop, and until when. Every loop of yours on this
machine waits for them without asking, or ends with 75. descartes limits clear [ACCOUNT] forgets them.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := accounts(nil, "", os.Getenv).List(time.Now())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), asJSON, append([]quota.Record{}, list...), limitTable(list))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the accounts as JSON")
	cmd.AddCommand(&cobra.Command{
		Use:   "clear [account]",
		Short: "Forget what is remembered of an account, or of all",
		Args:  takes(0, 1, "at most one account"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cleared, err := accounts(nil, "", os.Getenv).Clear(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if len(args) == 1 && len(cleared) == 0 {
				return badInput("descartes limits", "nothing is remembered of an account %q", args[0])
			}
			return write(cmd.OutOrStdout(), fmt.Sprintf("forgotten: %s\n", cmp.Or(terminal.Clean(strings.Join(cleared, ", ")), "nothing was remembered")))
		},
	})
	return cmd
}

func limitTable(list []quota.Record) string {
	if len(list) == 0 {
		return "no account is remembered as used up\n"
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tUSED UP UNTIL\tMET BY\tREASON")
	for _, l := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", terminal.Clean(l.Account), terminal.Moment(l.Until), terminal.Clean(l.By()), terminal.Clean(l.Reason))
	}
	w.Flush() // into memory
	s.WriteString("\ndescartes limits clear forgets them: the next loop asks the provider\n")
	return s.String()
}

// warnLimits reports each backend whose account is remembered as used up: until when, who met that, and how to forget it. A run started anew ignores
// all of it.
func (p *printer) warnLimits(root string, backends []agent.Backend, anew bool) {
	if anew {
		return
	}
	a := accounts(backends, root, os.Getenv)
	for _, b := range backends {
		if l, ok := a.Known(b.Name, time.Now()); ok {
			p.warn(fmt.Sprintf("%s's quota is used up until %s: %s; %s", b.Name, terminal.Moment(l.Until), l.Reason, l.Forget()))
		}
	}
}

// limits are the accounts that no loop asks before a time.
func (d *doctor) limits() {
	list, err := accounts(nil, "", os.Getenv).List(time.Now())
	if err != nil {
		d.lacking("quota", err.Error(), "")
	}
	for _, l := range list {
		d.lacking("quota", fmt.Sprintf("%s is used up until %s: %s; remembered from %s", l.Account, terminal.Moment(l.Until), l.Reason, l.By()), "descartes limits clear "+l.Account+" forgets it")
	}
}

// stateDir is our folder in the user's state directory, "" without one.
func stateDir(env func(string) string) string {
	dir := env("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		if !filepath.IsAbs(env("HOME")) {
			return ""
		}
		dir = filepath.Join(env("HOME"), ".local", "state")
	}
	return filepath.Join(dir, "descartes")
}

// poolOf is the folder with the slots of a project, "" without a state directory.
func poolOf(root string) string {
	state := stateDir(os.Getenv)
	if state == "" {
		return ""
	}
	return workspace.PlaceOf(state, root)
}

// checkPool refuses to make slots where the user's tools would find them.
func checkPool(root string) error {
	const hint = "set XDG_STATE_HOME to a folder outside the project"
	pool := poolOf(root)
	if pool == "" {
		return badInput(hint, "HOME and XDG_STATE_HOME name no folder for the copies of the project that agents work in")
	}
	if _, inside := below(root, pool); inside {
		return badInput(hint, "agents work in copies of the project, and their folder %s is in the project", pool)
	}
	return nil
}

// accounts is what is recorded, under the user's state directory, about the quotas of a run's backends; root is its project.
func accounts(backends []agent.Backend, root string, env func(string) string) *quota.Accounts {
	dir := stateDir(env)
	if dir == "" {
		return nil
	}
	ids := map[string]string{}
	for _, b := range backends {
		if b.Format != stream.FormatText { // whose limits nobody can tell
			ids[b.Name] = b.Account(env("HOME"), os.Environ())
		}
	}
	return &quota.Accounts{Dir: filepath.Join(dir, "limits"), For: root, IDs: ids}
}

func newRewindCmd() *cobra.Command {
	var look tagFlags
	wave := -1
	var force, dry bool
	cmd := &cobra.Command{
		Use:   "rewind --to-wave N",
		Short: "Go back to the state after a wave: commits, files, statuses and loops together",
		Long: `Go back to the state after a wave of a tag. The branch and its files go back to where they were when the wave was
committed, the tasks of later waves become pending again, and the tag's loops are updated. A branch, descartes/before-rewind-<commit>,
keeps the old state. --to-wave 0 is the state before the first wave.

It does not go back over uncommitted changes, pushed commits or commits of others, unless --force is given. Even then
it never touches a file that was changed here and differs between the two states: it refuses instead.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, c, err := look.source(cmd)
			if err != nil {
				return err
			}
			if wave < 0 {
				return badInput("descartes waves"+listFlags(root, c.Tag, c.TasksFile)+" shows them; 0 is the state before the first", "--to-wave is needed: the number of the wave to go back to")
			}
			job, found := loop.Load(root, loop.Config{Scud: c})
			if job == nil {
				return problems(found)
			}
			if err := unowned(store.NewHome(root), job.File); err != nil {
				return err
			}
			repo, err := openRepo(cmd.Context(), root, job)
			if err != nil {
				return err
			}
			defer repo.Close()
			w, err := loop.PlanRewind(cmd.Context(), job, repo, wave)
			if err != nil {
				return err
			}
			if err := refuseRewind(w, force); err != nil && !dry {
				return err
			}
			if !dry {
				left, err := w.Do(cmd.Context(), atomicfile.OS(), repo, gitops.Now)
				if err != nil {
					return err
				}
				if len(left) > 0 {
					return badInput("commit or move them, and try again", "the working tree cannot go back, and nothing was touched: %s", leftText(left))
				}
			}
			if look.json {
				return writeJSON(cmd.OutOrStdout(), w)
			}
			last, err := store.NewHome(root).LastOf(w.Tag)
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), rewindText(w, dry, startAgain(listFlags(root, w.Tag, c.TasksFile), last)))
		},
	}
	look.register(cmd, "print what went back as JSON")
	f := cmd.Flags()
	f.IntVar(&wave, "to-wave", -1, "the last `wave` that stays; 0 is the state before the first")
	f.BoolVar(&force, "force", false, "go back over uncommitted changes, pushed commits or commits of others")
	f.BoolVar(&dry, "dry-run", false, "print what would go back, and change nothing")
	return cmd
}

// refuseRewind returns everything that only --force allows.
func refuseRewind(w *loop.Rewind, force bool) error {
	if force {
		return nil
	}
	var found problems
	add := func(hint, format string, args ...any) {
		found = append(found, loop.Problem{Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	if len(w.Dirty) > 0 {
		add("commit them, or use --force: what is not in the way stays as it is", "%s", (&loop.DirtyError{Paths: w.Dirty}).Error())
	}
	if len(w.Pushed) > 0 {
		add("git revert is kinder to those who have them; --force goes back only here", "the commits were pushed: %s has them", strings.Join(w.Pushed, ", "))
	}
	if len(w.Foreign) > 0 {
		add("--force takes them back too; "+w.Keep+" keeps them", "%s would go too, made by no loop over tag %q: %s", terminal.Count(len(w.Foreign), "commit"), w.Tag, strings.Join(w.Foreign, "; "))
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

func leftText(left []gitops.LeftOut) string {
	var s []string
	for _, l := range left[:min(len(left), 5)] {
		s = append(s, l.String())
	}
	if n := len(left) - len(s); n > 0 {
		s = append(s, fmt.Sprintf("%d more", n))
	}
	return strings.Join(s, ", ")
}

func rewindText(w *loop.Rewind, dry bool, again string) string {
	var b strings.Builder
	to := fmt.Sprintf("the state after wave %d", w.Wave)
	if w.Wave == 0 {
		to = "the state before the first wave"
	}
	went, kept := "is back at", "kept as"
	if dry {
		went, kept = "would go back to", "would be kept as"
	}
	fmt.Fprintf(&b, "tag %s %s %s\n", terminal.Clean(w.Tag), went, to)
	fmt.Fprintf(&b, "%s: %.12s -> %.12s (%s, %s %s)\n", cmp.Or(terminal.Clean(w.Branch), "HEAD"), w.From, w.To, terminal.Count(len(w.Commits), "commit"), kept, w.Keep)
	if len(w.Tasks) > 0 {
		fmt.Fprintf(&b, "to do again: %s\n", terminal.Clean(strings.Join(w.Tasks, ", ")))
	}
	if dry {
		if err := refuseRewind(w, false); err != nil {
			var found problems
			if errors.As(err, &found) {
				for _, p := range found {
					fmt.Fprintf(&b, "needs --force: %s\n", terminal.Clean(p.Message))
				}
			}
		}
		return b.String()
	}
	fmt.Fprintf(&b, "next: %s\nor: git merge --ff-only %s\nnote: the merge brings it all back\n", again, w.Keep)
	return b.String()
}
