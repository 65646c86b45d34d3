package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/store"
)

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
