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
	"descartes/internal/oneline"
	"descartes/loop/journal"
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
	return slices.ContainsFunc(w.run.trunk.units, func(id string) bool { return w.run.waveOf(id) == wave }) ||
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
	done := slices.Clone(w.run.trunk.units)
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
		var blocked []*journal.Event
		for _, e := range w.run.history.GivenUp() {
			if e.Wave == number && !(w.perTask() && len(done) == 1) &&
				w.run.job.Graph.Status(e.Task) == tasks.Blocked {
				blocked = append(blocked, e)
			}
		}
		subject = w.subject(wave, done)
		what.Message = w.run.tools.Redact.Text(w.message(subject, number, done, blocked))
	})
	crash.Point("before-wave-commit")
	cctx, over := w.run.stop.committing(w.run.config.Deadline)
	defer over()
	c, err := w.run.trunk.commit(cctx, ln, what, "", func() map[string][]byte { return written(w.tag.run) })
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
		Commit: c.Hash, Tree: string(w.run.trunk.tree), Tasks: done, Message: subject}
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
	if l.job == nil {
		return nil
	}
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

// subject is the template from the settings, the title of the one task whose commit it is, or says how far a wave is:
// complete if all its tasks are done except those a person set aside. A commit that only records given-up tasks adds
// no feature. A wave of which something was committed before, as a run stopped, continues.
func (w *waves) subject(wave scheduler.Wave, units []string) string {
	if t := w.run.config.Git.CommitTemplate; t != "" {
		return oneline.Text(config.Names{Iteration: w.run.history.Iteration, Wave: wave.Number, Tag: w.run.state.Tag,
			At: w.run.tools.Now()}.Expand(t))
	}
	if w.perTask() && len(units) == 1 {
		return fmt.Sprintf("feat(%s): %s", w.run.state.Tag, oneline.Text(w.run.job.Title(units[0])))
	}
	done, of := 0, 0
	for _, id := range wave.Tasks {
		switch s := w.run.job.Graph.Status(id); {
		case s == tasks.Done:
			done++
			of++
		case !s.SetAside():
			of++
		}
	}
	kind, more := "feat", ""
	if len(units) == 0 {
		kind = "chore"
	}
	if slices.ContainsFunc(w.run.history.WaveCommits, func(c journal.WaveCommit) bool {
		return c.Wave == wave.Number
	}) && !w.perTask() {
		more = " continued"
	}
	switch what := fmt.Sprintf("%s(%s): ", kind, w.run.state.Tag); {
	case done == of && more != "":
		return fmt.Sprintf("%scomplete wave %d (continued)", what, wave.Number)
	case done == of:
		return fmt.Sprintf("%scomplete wave %d", what, wave.Number)
	case done == 0:
		return fmt.Sprintf("%swave %d blocked", what, wave.Number)
	default:
		return fmt.Sprintf("%swave %d%s, %d of %d tasks", what, wave.Number, more, done, of)
	}
}

func (w *waves) message(subject string, number int, done []string, blocked []*journal.Event) string {
	var b strings.Builder
	b.WriteString(subject + "\n\n")
	for _, id := range done {
		how := ""
		if a := w.run.history.VerifiedBy(id, w.run.tools.Now()); a != nil && a.Outcome() == string(journal.Accepted) {
			how = " (accepted)"
		}
		fmt.Fprintf(&b, "- %s %s%s\n", id, oneline.Text(w.run.job.Title(id)), how)
	}
	for _, e := range blocked { // why is in the report
		fmt.Fprintf(&b, "- %s %s (blocked)\n", e.Task, oneline.Text(e.Title))
	}
	b.WriteString("\n" + strings.Join(waveTrailers(w.run.state.ID, w.run.state.Tag, number, done), "\n") + "\n")
	if w.run.config.Git.CostTrailer {
		cost := w.costOf(done)
		fmt.Fprintf(&b, "Descartes-Cost: %s\n", cost.Text())
	}
	return b.String()
}

// waveTrailers are the trailers that identify a wave's commit.
func waveTrailers(loop, tag string, number int, done []string) []string {
	lines := []string{"Descartes-Loop: " + loop, fmt.Sprintf("Descartes-Wave: %d", number)}
	for _, id := range done {
		lines = append(lines, gitops.Named{Tag: tag, Task: id}.Trailer())
	}
	return lines
}

// gitErr marks an error as git's refusal, so that the run ends with that and not with an internal error.
func gitErr(what string, err error) error { return &workspace.GitError{What: what, Err: err} }

func isGit(err error) bool {
	_, git := errors.AsType[*workspace.GitError](err)
	return git
}
