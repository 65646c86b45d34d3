package loop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/loop/journal"
	"descartes/loop/trunk"
	"descartes/loop/workspace"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/verify"
)

// waves commits what is verified.
type waves struct {
	run        *Loop
	tag        *tagWork
	publishing bool // a wave's commit is under way
	cut        bool // somebody ended one: it is not made again at once
}

// uncommitted reports whether a wave has verified or given-up tasks that no commit contains.
func (w *waves) uncommitted(wave int) bool {
	return slices.ContainsFunc(w.run.trunk.Units, func(id string) bool { return w.run.waveOf(id) == wave }) ||
		slices.ContainsFunc(w.run.history.GivenUp(), func(b *journal.Event) bool { return b.Wave == wave })
}

// commit commits what a wave has verified and no commit contains: the changes of its verified attempts and the task
// file, nothing else. If all its tasks were given up it commits the task file alone, so that a fresh clone does not
// pay for them again. It is slow.
func (w *waves) commit(ctx context.Context, ln *lane, wave scheduler.Wave) error {
	number, has := wave.Number, false
	if w.run.say(func() { has = w.uncommitted(number) }); !has {
		return nil
	}
	if err := w.check(ctx, ln, number); err != nil || !w.run.config.Scud.AutoCommitWaves {
		return err
	}
	if err := w.run.saveFiles(); err != nil {
		return err
	}
	if err := w.pass(ln, number); err != nil {
		return err
	}
	done := slices.Clone(w.run.trunk.Units)
	var verified []*journal.VerifiedTask
	w.run.say(func() {
		for _, v := range w.run.history.Verified() {
			if slices.Contains(done, v.Task) {
				verified = append(verified, v)
			}
		}
	})
	if err := w.tag.reviews.approve(ln, number, verified); err != nil {
		return err
	}
	var subject string
	var what gitops.Wave
	w.run.say(func() {
		says := w.says(wave, done)
		subject, what.Message = says.Line(), w.run.tools.Redact.Text(says.Message())
	})
	crash.Point("before-wave-commit")
	cctx, over := w.run.stop.committing(w.run.config.Deadline)
	defer over()
	c, err := w.run.trunk.commit(cctx, ln, what, func() map[string][]byte { return written(w.tag.run) })
	if errors.Is(err, errPutBack) {
		return err
	}
	if err != nil {
		return gitErr(fmt.Sprintf("commit wave %d", number), err)
	}
	crash.Point("wave-committed")
	for _, n := range c.Notes {
		if err := w.run.tell(&journal.Event{Type: journal.Warning, Unit: journal.Unit{Wave: number},
			Message: n}); err != nil {
			return err
		}
	}
	if c.Empty {
		w.run.say(func() { w.run.history.ForgetWave(number) })
		return nil
	}
	e := &journal.Event{Type: journal.WaveCommitted, Unit: journal.Unit{Wave: number, Of: len(c.Paths)},
		Commit: c.Hash, Tree: string(w.run.trunk.Tree), Tasks: done, Message: subject}
	if w.perTask() && len(done) == 1 {
		e.Task = done[0]
	}
	if err := w.run.tell(e); err != nil {
		return err
	}
	crash.Point("wave-recorded")
	return w.tag.receipts.write(cctx)
}

// pass runs a wave's checks on the whole state before its commit.
func (w *waves) pass(ln *lane, number int) error {
	none := false
	w.run.say(func() {
		none = len(w.run.checks.at(verify.AtMerge, verify.AtWave)) == 0 || len(w.run.history.Verified()) == 0
	})
	if none {
		return nil
	}
	err := w.run.checks.pass(ln, verify.AtWave, number, false)
	if not, ok := errors.AsType[uncheckedError](err); ok {
		return uncheckedError(fmt.Sprintf("wave %d is not committed: %s", number, not))
	}
	return err
}

// written are the task file as a commit should have it, and the mirror that follows it, if they are in the repository.
func written(l *Loop) map[string][]byte {
	files := map[string][]byte{}
	add := func(f *tasks.File) {
		path, err := filepath.EvalSymlinks(f.Path()) // a link stays a link; its target was saved
		if err != nil {
			path = f.Path()
		}
		rel, err := filepath.Rel(l.tools.Repo.Root(), path)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			l.say(func() { files[filepath.ToSlash(rel)] = l.saver.content(f) })
		}
	}
	add(l.job.File)
	if mirror, ok := l.job.File.Mirror(); ok {
		add(mirror)
	}
	return files
}

// says is what the commit of a wave says that brings the work on some tasks.
func (w *waves) says(wave scheduler.Wave, units []string) trunk.Wave {
	says := trunk.Wave{Loop: w.run.state.ID, Tag: w.run.state.Tag, List: w.run.list.List, Number: wave.Number, PerTask: w.perTask()}
	for _, id := range units {
		a := w.run.history.VerifiedBy(id, w.run.tools.Now())
		says.Brings = append(says.Brings, trunk.Item{ID: id, Title: w.run.job.Title(id),
			Accepted: a != nil && a.Outcome() == string(journal.Accepted), Proof: a.Proof()})
	}
	for _, e := range w.run.history.GivenUp() {
		if e.Wave == wave.Number && !(says.PerTask && len(units) == 1) &&
			w.run.job.Graph.Status(e.Task) == tasks.Blocked {
			says.Blocked = append(says.Blocked, trunk.Item{ID: e.Task, Title: e.Title})
		}
	}
	for _, id := range wave.Tasks {
		switch s := w.run.job.Graph.Status(id); {
		case s == tasks.Done:
			says.Done++
			says.Of++
		case !s.SetAside():
			says.Of++
		}
	}
	says.Continued = slices.ContainsFunc(w.run.history.WaveCommits,
		func(c journal.WaveCommit) bool { return c.Wave == wave.Number })
	if t := w.run.config.Git.CommitTemplate; t != "" {
		says.Subject = config.Names{Iteration: w.run.history.Iteration, Wave: wave.Number, Tag: w.run.state.Tag,
			At: w.run.tools.Now()}.Expand(t)
	}
	if w.run.config.Git.CostTrailer {
		cost := w.costOf(units)
		says.Cost = cost.Text()
	}
	return says
}

// gitErr marks an error as git's refusal, so that the run ends with that and not with an internal error.
func gitErr(what string, err error) error { return &workspace.GitError{What: what, Err: err} }

func isGit(err error) bool {
	_, git := errors.AsType[*workspace.GitError](err)
	return git
}
