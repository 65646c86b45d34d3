package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/source"
	"descartes/loop/trunk"
)

func newRewindCmd() *cobra.Command {
	var a app
	wave := -1
	var force, dry bool
	cmd := &cobra.Command{
		Use:   "rewind --to-wave N",
		Short: "Go back to the state after a wave: commits, files, statuses and runs together",
		Long: `Go back to the state after a wave of a tag. The branch and its files go back to where they were when the wave was
committed, the tasks of later waves become pending again, and the tag's runs are updated. A branch, descartes/before-rewind-<commit>,
keeps the old state. --to-wave 0 is the state before the first wave.

It does not go back over uncommitted changes, pushed commits or commits of others, unless --force is given. Even then
it never touches a file that was changed here and differs between the two states: it refuses instead.`,
		Args: takes(0, 0, ""),
		RunE: a.does(func([]string) error { return a.rewind(wave, force, dry) }),
	}
	a.register(cmd, "print what went back as JSON")
	f := cmd.Flags()
	f.IntVar(&wave, "to-wave", -1, "the last `wave` that stays; 0 is the state before the first")
	f.BoolVar(&force, "force", false, "go back over uncommitted changes, pushed commits or commits of others")
	f.BoolVar(&dry, "dry-run", false, "print what would go back, and change nothing")
	return cmd
}

func (a *app) rewind(wave int, force, dry bool) error {
	c, err := a.source()
	if err != nil {
		return err
	}
	if wave < 0 {
		return badInput("descartes waves"+listFlags(a.root, c.Tag, c.TasksFile)+
			" shows them; 0 is the state before the first",
			"--to-wave is needed: the number of the wave to go back to")
	}
	job, found := source.Load(a.root, config.Config{Scud: c})
	if job == nil {
		return problems(found)
	}
	if err := unowned(a.home, job.File); err != nil {
		return err
	}
	if a.git, err = launch.OpenRepo(a.ctx(), a.root, &job.Config, job.File); err != nil {
		return err
	}
	w, err := trunk.PlanRewind(a.ctx(), job, a.git, wave)
	if err != nil {
		return err
	}
	refused := forced(w)
	if len(refused) > 0 && !force && !dry {
		return refused
	}
	if !dry {
		left, err := w.Do(a.ctx(), atomicfile.OS(), a.git, gitops.Now)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return badInput("commit or move them, and try again",
				"the working tree cannot go back, and nothing was touched: %s", leftText(left))
		}
	}
	to, went, kept := fmt.Sprintf("the state after wave %d", w.Wave), "is back at", "kept as"
	if w.Wave == 0 {
		to = "the state before the first wave"
	}
	if dry {
		went, kept = "would go back to", "would be kept as"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tag %s %s %s\n", w.Tag, went, to)
	fmt.Fprintf(&b, "%s: %.12s -> %.12s (%s, %s %s)\n", cmp.Or(w.Branch, "HEAD"), w.From, w.To,
		terminal.Count(len(w.Commits), "commit"), kept, w.Keep)
	if len(w.Tasks) > 0 {
		fmt.Fprintf(&b, "to do again: %s\n", strings.Join(w.Tasks, ", "))
	}
	if dry {
		for _, p := range refused {
			fmt.Fprintf(&b, "needs --force: %s\n", p.Message)
		}
		return a.show(w, terminal.CleanLines(b.String()))
	}
	last, err := a.home.LastOf(source.Key(a.root, c))
	fmt.Fprintf(&b, "next: %s\nor: git merge --ff-only %s\nnote: the merge brings it all back\n",
		startAgain(listFlags(a.root, w.Tag, c.TasksFile), last), w.Keep)
	return cmp.Or(a.show(w, terminal.CleanLines(b.String())), err)
}

// forced is everything that only --force allows.
func forced(w *trunk.Rewind) (found problems) {
	if len(w.Dirty) > 0 {
		found = append(found, source.Problem{Message: (&trunk.DirtyError{Paths: w.Dirty}).Error(),
			Hint: "commit them, or use --force: what is not in the way stays as it is"})
	}
	if len(w.Pushed) > 0 {
		found = append(found, source.Problem{Message: "the commits were pushed: " + strings.Join(w.Pushed, ", ") +
			" has them", Hint: "use git revert; --force goes back only here"})
	}
	if len(w.Foreign) > 0 {
		found = append(found, source.Problem{Hint: "--force takes them back too; " + w.Keep + " keeps them",
			Message: fmt.Sprintf("%s would go too, made by no run over tag %q: %s",
				terminal.Count(len(w.Foreign), "commit"), w.Tag, strings.Join(w.Foreign, "; "))})
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
