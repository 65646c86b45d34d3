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
	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/verify"
	"descartes/view"
)

// acceptance is a person's decision, by flags.
type acceptance struct {
	reason string
	number int
	yes    bool
}

func (by *acceptance) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&by.reason, "reason", "", "why, for the journal, the reports and the receipt")
	cmd.Flags().IntVar(&by.number, "attempt", 0, "`number` of the attempt (default: the last one that left work)")
	cmd.Flags().BoolVarP(&by.yes, "yes", "y", false, "accept it whatever the checks say, which do not run now")
}

// maxReason limits, in bytes, why a person accepts something.
const maxReason = 1 << 10

// accept keeps a person's decision about the last attempt that left work, or the one that is named, and makes the task
// pending.
func (a *app) accept(id string, by acceptance) error {
	if err := byPerson("accept"); err != nil {
		return err
	}
	if len(by.reason) > maxReason || !utf8.ValidString(by.reason) {
		return badInput("", "--reason: at most %d bytes of UTF-8 text are kept", maxReason)
	}
	b, t, err := a.task(id)
	if err == nil {
		err = brought(a.ctx(), a.root)
	}
	if err == nil {
		_, err = a.repo()
	}
	if err != nil {
		return err
	}
	all, err := a.kept(b.File)
	if err != nil {
		return err
	}
	list, err := b.Attempts(t.ID, all)
	if err != nil {
		return err
	}
	var chosen *view.Attempt
	for _, one := range list {
		if one.Kept != nil && !one.Done() && (by.number == 0 || one.N == by.number) &&
			(chosen == nil || !one.At.Before(chosen.At)) {
			chosen = one
		}
	}
	if chosen == nil {
		return badInput("descartes why "+terminal.Quote(t.ID)+b.Named()+" lists what is kept",
			"task %s has no kept attempt to accept", t.ID)
	}
	base, work, err := a.home.KeptWork(a.git, chosen.Loop, t.ID, chosen.N)
	if err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	kept := &store.Accept{Loop: chosen.Loop, Attempt: chosen.N, Reason: strings.TrimSpace(by.reason)}
	d, err := a.decide(b.Scud, b.File, t, store.Answer{Task: t.ID, At: time.Now(), Accept: kept}, func() error {
		if by.yes {
			return nil
		}
		return a.acceptable(t.ID, chosen, base, work)
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("task %s: attempt %d of run %s is accepted; the next run takes its work\n",
		terminal.Clean(t.ID), kept.Attempt, kept.Loop)
	if d.by != "" {
		text = fmt.Sprintf("task %s: attempt %d is accepted; run %s is running and takes its work\n",
			terminal.Clean(t.ID), kept.Attempt, d.by)
	}
	return a.show(struct {
		*decided
		Loop    string `json:"loop"`
		Attempt int    `json:"attempt"`
		Reason  string `json:"reason,omitempty"`
	}{d, kept.Loop, kept.Attempt, kept.Reason}, text+d.next())
}

// acceptable runs the checks of the attempt's loop on what the merge of its work makes. Where they fail, a person
// decides.
func (a *app) acceptable(task string, chosen *view.Attempt, base, work gitops.Tree) (err error) {
	saved, err := a.home.Find(chosen.Loop)
	if err != nil {
		return err
	}
	now, err := a.git.RefCommit(store.TrunkRef(chosen.Loop))
	if err != nil || now == "" {
		head, err := a.git.Head(a.ctx())
		if err != nil {
			return err
		}
		now = head.Hash
	}
	tree, err := a.git.CommitTree(now)
	if err != nil {
		return err
	}
	merged, met, err := a.git.MergeTrees(a.ctx(), base, tree, work)
	if err != nil || len(met) > 0 { // the next run says what it conflicts with
		return err
	}
	a.Config = saved.State.Config
	bench, run, err := a.bench(a.ctx(), &a.Config)
	if err != nil {
		return fmt.Errorf("run the checks on it: %w", err)
	}
	defer func() { err = errors.Join(err, bench.Close()) }()
	for _, c := range a.ChecksOf(true) {
		if c.At(verify.AtEnd) {
			continue
		}
		res, err := run(a.ctx(), merged, c, verify.How{})
		if err != nil {
			return recheckError(a.ctx(), err)
		}
		if res.Passed {
			continue
		}
		what := fmt.Sprintf("%s fails with the work of attempt %d on task %s: %s", c.Title(), chosen.N,
			terminal.Clean(task), terminal.Clean(cmp.Or(res.Why, res.Reason())))
		if yes, answered := a.person().yes(a.ctx(), what+"\nLater tasks start from it. Accept it all the same?",
			false); !answered {
			return badInput("--yes accepts it all the same; later tasks start from it", "%s", what)
		} else if !yes {
			return &failure{code: exitInterrupted, err: errors.New("nothing was accepted")}
		}
		return nil
	}
	return nil
}
