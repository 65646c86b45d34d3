package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/verify"
	"descartes/view"
)

func newAcceptCmd() *cobra.Command {
	var look tagFlags
	var a acceptance
	cmd := &cobra.Command{
		Use:   "accept <task>",
		Short: "Accept the kept work of a task that was blocked, as your own decision",
		Long: `Accept the kept work of a task that was blocked, as your own decision.

The next run takes the kept work of the task's last attempt, merges it with what was verified since, and marks the
task done (accepted): no agent works on it. The checks run once now, on what the merge makes: where they fail, later tasks will
fail with them, so you are asked, and a script needs --yes. If it cannot be merged, the task is blocked again. The checks of a
wave and of the end run as usual.

  descartes attempts 3                               what there is, and why it was not verified
  git diff HEAD refs/descartes/<loop>/tasks/3/2            look at it first
  descartes accept 3 --reason "the test is wrong"
`,
		Args: takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error { return accept(cmd, look, args[0], a) },
	}
	look.register(cmd, "print it as JSON")
	a.register(cmd)
	return cmd
}

// acceptance is a person's decision, by flags.
type acceptance struct {
	reason string
	number int
	yes    bool
}

func (a *acceptance) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.reason, "reason", "", "why, for the journal, the reports and the receipt")
	cmd.Flags().IntVar(&a.number, "attempt", 0, "`number` of the attempt (default: the last one that left work)")
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "accept it whatever the checks say, which do not run now")
}

// maxReason limits, in bytes, why a person accepts something.
const maxReason = 1 << 10

// accept keeps a person's decision and makes the task pending.
func accept(cmd *cobra.Command, look tagFlags, id string, by acceptance) (err error) {
	number, reason, yes := by.number, by.reason, by.yes
	if err := byPerson("accept"); err != nil {
		return err
	}
	switch {
	case len(reason) > maxReason || !utf8.ValidString(reason):
		return badInput("", "--reason: at most %d bytes of UTF-8 text are kept", maxReason)
	}
	b, t, err := look.task(cmd, id)
	if err != nil {
		return err
	}
	if err := brought(cmd.Context(), b.Root); err != nil {
		return err
	}
	if number < 0 {
		return badInput("descartes attempts "+terminal.Quote(id)+b.Named(), "--attempt %d: attempts are numbered from 1", number)
	}
	repo, err := openRepo(cmd.Context(), b.Root, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	refs, err := repo.Refs(cmd.Context(), "refs/descartes/")
	if err != nil {
		return err
	}
	list, err := b.Attempts(t.ID, refs)
	if err != nil {
		return err
	}
	var chosen *view.Attempt
	for i := range list {
		if a := &list[i]; a.Ref != nil && !a.Done() && (number == 0 || a.Attempt == number) && (chosen == nil || !a.At.Before(chosen.At)) {
			chosen = a
		}
	}
	if chosen == nil {
		return badInput("descartes attempts "+terminal.Quote(t.ID)+b.Named()+" lists what is kept", "task %s has no kept attempt to accept", t.ID)
	}
	home := store.NewHome(b.Root)
	base, work, err := home.KeptWork(repo, chosen.Loop, t.ID, chosen.Attempt)
	if err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	a := store.Answer{Task: t.ID, At: time.Now(), Accept: &store.Accept{Loop: chosen.Loop, Attempt: chosen.Attempt, Reason: strings.TrimSpace(reason)}}
	change := statusChange{Task: b.ID(t.ID), From: t.Status, To: tasks.Pending, File: view.Relative(b.Root, b.File.Path())}
	done := accepted{statusChange: change, Loop: chosen.Loop, Attempt: chosen.Attempt, Reason: a.Accept.Reason}
	if who, owned := home.Owner(b.File); owned && who.Tag == b.File.Tag() {
		if !blockedBy(home, who.Loop, t.ID) {
			return &failure{code: exitInput, err: &store.BusyError{Holder: who}, hint: "it takes decisions about tasks that it has blocked; descartes loop pause " + who.Loop + " for any other"}
		}
		if done.by = who.Loop; !yes {
			if err := look.acceptable(cmd, b.Root, repo, t.ID, chosen, base, work); err != nil {
				return err
			}
		}
		return errors.Join(home.Answer(cmd.Context(), atomicfile.OS(), b.File.Tag(), a), printAccepted(cmd, look, done))
	}
	own, err := ownTask(cmd.Context(), home, b.File, b.Scud, t.ID)
	if err == nil {
		err = answerable(b.Root, own, b.File, b.Scud)
	}
	if err == nil && !yes {
		err = look.acceptable(cmd, b.Root, repo, t.ID, chosen, base, work)
	}
	if err != nil {
		return err
	}
	if err := home.Answer(cmd.Context(), atomicfile.OS(), b.File.Tag(), a); err != nil {
		return err
	}
	if done.From = own.Status; done.From != done.To {
		if err := b.File.Save(map[string]tasks.Status{t.ID: done.To}); err != nil {
			return unwritable(err)
		}
	}
	done.Next = goOn(b.Root, b.File, b.Scud)
	return printAccepted(cmd, look, done)
}

// acceptable runs the checks of the attempt's loop on what the merge of its work makes. Where they fail, a person decides.
func (l *tagFlags) acceptable(cmd *cobra.Command, root string, repo *gitops.Repo, task string, chosen *view.Attempt, base, work gitops.Tree) (err error) {
	ctx, home := cmd.Context(), store.NewHome(root)
	saved, err := home.Find(chosen.Loop)
	if err != nil {
		return err
	}
	k := &recheckFlags{tagFlags: *l}
	k.Config = saved.State.Config
	now, err := repo.RefCommit(store.TrunkRef(chosen.Loop)) // of a loop that works in slots
	if err != nil || now == "" {
		head, err := repo.Head(ctx)
		if err != nil {
			return err
		}
		now = head.Hash
	}
	tree, err := repo.CommitTree(now)
	if err != nil {
		return err
	}
	merged, met, err := repo.MergeTrees(ctx, base, tree, work)
	if err != nil || len(met) > 0 { // the next run says what it conflicts with
		return err
	}
	bench, err := k.bench(ctx, root, repo)
	if err != nil {
		return fmt.Errorf("run the checks on it: %w", err)
	}
	defer func() { err = errors.Join(err, bench.Close()) }()
	for _, c := range k.ChecksOf(true) {
		if c.At(verify.AtEnd) {
			continue
		}
		res, err := k.runIn(bench, root)(ctx, merged, c)
		if err != nil {
			return recheckError(ctx, err)
		}
		if res.Passed {
			continue
		}
		what := fmt.Sprintf("%s fails with the work of attempt %d on task %s: %s", c.Title(), chosen.Attempt, terminal.Clean(task), terminal.Clean(cmp.Or(res.Why, res.Reason())))
		if in, out, ok := l.atTerminal(cmd); ok && !l.json {
			fmt.Fprintf(out, "%s\nLater tasks start from it. Accept it all the same? [y/N] ", what)
			if line, _ := in.ReadString('\n'); strings.EqualFold(strings.TrimSpace(line), "y") {
				return nil
			}
			return &failure{code: exitInterrupted, err: errors.New("nothing was accepted")}
		}
		return badInput("--yes accepts it all the same; later tasks start from it", "%s", what)
	}
	return nil
}

// accepted is the result of a person's decision.
type accepted struct {
	statusChange
	Loop    string `json:"loop"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
	Next    string `json:"next"`
	by      string // the loop that runs and takes it up; "" where none does
}

func printAccepted(cmd *cobra.Command, look tagFlags, a accepted) error {
	text := fmt.Sprintf("task %s: attempt %d of loop %s is accepted; the next run takes its work\n", terminal.Clean(a.Task.ID), a.Attempt, a.Loop)
	if a.by != "" {
		text = fmt.Sprintf("task %s: attempt %d is accepted; loop %s is running and takes its work\n", terminal.Clean(a.Task.ID), a.Attempt, a.by)
	}
	if a.Next != "" {
		text += "next: " + terminal.Clean(a.Next) + "\n"
	}
	return show(cmd.OutOrStdout(), look.json, a, text)
}
