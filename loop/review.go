package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// Reviews by agents, of attempts and of waves.

// reviews has agents review what attempts and waves changed.
type reviews struct {
	run        *Loop
	tag        *tagWork
	yes        bool     // a person's answer to a wave's review
	unapproved *Outcome // a review keeps a wave from being committed
}

// of is the review of some tasks; number is their wave's, or 0 for one task's attempt. known are the answers so far.
func (w *reviews) of(number int, ids []string, known []*journal.Detail) *attempt.Review {
	r := w.run.worker.newReview(known)
	r.Opinion.Tag, r.Opinion.Wave = w.run.state.Tag, number
	for _, id := range ids {
		r.Opinion.Tasks = append(r.Opinion.Tasks, w.run.job.Reviewed(id))
	}
	return r
}

// newReview is a review by the reviewers from the settings; known are the answers recorded before.
func (l *worker) newReview(known []*journal.Detail) *attempt.Review {
	r := &attempt.Review{Opinion: specbuild.Opinion{Ask: l.run.config.Review.Prompt}, Team: l.run.config.Review.Team}
	for _, c := range l.run.config.Reviewers() {
		r.Among = append(r.Among, attempt.With(c))
	}
	for _, d := range known {
		if d.Look == journal.LookReview && d.End == journal.EndFinished {
			r.Known = append(r.Known, attempt.Known{Tree: d.Tree, Words: d.Words})
		}
	}
	return r
}

// ask asks for a review of a unit's attempt if the settings want one.
func (w *reviews) ask(u *unit, in *attempt.Input) {
	if w.run.config.Reviews() != config.ReviewTask {
		return
	}
	in.Review = w.of(0, []string{u.task.ID}, nil)
}

// errWaits says that a wave is not committed: its review asks a person, or did not happen.
var errWaits = errors.New("the wave waits for its review")

// approve has a second agent review what a wave is about to commit, if the settings want that. A person can overrule a
// rejection: the work was verified task by task, and other tasks build on it. Work that a person or the agent approved
// is not reviewed again. It is slow.
func (w *reviews) approve(ln *lane, number int, done []*journal.VerifiedTask) error {
	if w.run.config.Reviews() != config.ReviewWave || len(done) == 0 {
		return nil
	}
	from, err := w.run.tools.Repo.CommitTree(w.run.trunk.On)
	if err != nil {
		return gitErr("take together what the wave changes", err)
	}
	to := w.run.trunk.Tree
	u := &unit{lane: ln, task: &tasks.Task{Title: fmt.Sprintf("Wave %d", number)}, wave: number,
		started: w.run.tools.Now(),
		log:     w.run.home.NamedLog(w.run.state.ID, fmt.Sprintf("wave-%d", number))}
	approved := false
	w.run.say(func() {
		switch {
		case slices.Contains(w.run.history.Approved, string(to)):
			approved = true
		case w.unapproved != nil:
			err = errWaits
		case w.yes:
			w.yes, approved = false, true
			err = w.tell(number, to, journal.Done, "a person approved it")
		default:
			if w.unapproved = w.run.stop.asked(); w.unapproved != nil {
				err = errWaits
			}
		}
	})
	if approved || err != nil {
		return err
	}
	if u.stand, err = w.run.lanes.prepare(w.run.ctx, ln, workspace.Start{Base: to,
		Aside: strings.TrimSuffix(u.log, ".log")}); err != nil {
		return err
	}
	var in attempt.Input
	w.run.say(func() {
		in = w.tag.run.worker.input(u, "")
		ids := make([]string, len(done))
		for i, v := range done {
			ids[i] = v.Task
		}
		in.Review = w.of(number, ids, w.run.history.Reviews[number])
		for _, c := range w.run.checks.at(verify.AtAttempt) {
			in.Review.Opinion.Checks = append(in.Review.Opinion.Checks,
				specbuild.PassedCheck{Name: c.Name, Command: c.Run})
		}
	})
	ln.runner.Choose = w.run.worker.chooser(u)
	j, err := ln.runner.Review(w.run.stop.now, ln.ws, in, from, to, w.run.worker.observe(u))
	w.run.say(func() { err = w.judge(u, to, j, err) })
	return err
}

// judge acts on a wave's review.
func (w *reviews) judge(u *unit, to gitops.Tree, j attempt.Judgement, err error) error {
	number := u.wave
	switch {
	case errors.Is(err, attempt.ErrRunEnds):
		w.unapproved = u.over
		return errWaits
	case errors.Is(err, context.Canceled) && w.run.stop.now.Err() != nil:
		w.unapproved = w.run.stop.outcome()
		return errWaits
	case err != nil:
		return fmt.Errorf("review wave %d: %w", number, err)
	case j.Verdict == attempt.Approve:
		return w.tell(number, to, journal.Done, "the review approves it")
	}
	what := "the review asks: "
	if j.Verdict == attempt.Reject {
		what = "the review rejects it: "
	}
	if err := w.tell(number, to, journal.Asks, append([]string{what + j.Reasons[0]},
		j.Reasons[1:]...)...); err != nil {
		return err
	}
	w.unapproved = &Outcome{Ending: journal.GateAsks, Message: fmt.Sprintf("wave %d is not committed, %s%s", number,
		what, j.Reasons[0])}
	return errWaits
}

// tell records the result of a wave's review.
func (w *reviews) tell(number int, tree gitops.Tree, d journal.Verdict, lines ...string) error {
	message := fmt.Sprintf("wave %d: %s", number, lines[0])
	e := &journal.Event{Type: journal.GateSpoke, Unit: journal.Unit{Wave: number}, Verdict: d, Reason: journal.LookReview,
		Message: message, Detail: &journal.Detail{Files: journal.Files{Tree: string(tree)}}, Lines: []string{message}}
	for _, line := range lines[1:] {
		e.Lines = append(e.Lines, "  "+line)
	}
	return w.run.record(e)
}

// CheckReview returns what makes a reviewer useless: it never replaces the checks, and a wave that is not committed
// has no review.
func CheckReview(c *Config) []source.Problem {
	switch what := c.Reviews(); {
	case what == "":
		return nil
	// if no command was found, that is reported elsewhere
	case c.Scud.VerificationCommand != "" && len(c.ChecksOf(true)) == 0:
		return []source.Problem{{Message: "a review needs a verify command, and --verify none turns it off",
			Hint: `--verify "make test", or --review off`}}
	case what == config.ReviewWave && !c.Scud.AutoCommitWaves:
		return []source.Problem{{Message: "review.on: wave reads a wave before its commit, and with --no-commit there is none", Hint: "review.on: task, or --review off"}}
	}
	return nil
}
