package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/verify"
)

// after records a trial's verdict and does what it asks for. again says that the task gets another attempt.
func (l *Loop) after(ctx context.Context, stop *stopper, tr *trial) (_ *Outcome, again bool, _ error) {
	gctx, done := linger(ctx)
	defer done()
	ref, err := l.keep(gctx, tr)
	if err != nil {
		return nil, false, err
	}
	l.at = tr.after
	end := l.event(journal.AttemptFinished, tr)
	end.Verdict, end.Reason, end.Tree, end.Ref = journal.Verdict(tr.verdict), tr.reason, string(tr.after), ref
	end.Detail = &journal.Detail{End: string(tr.result.End), Cause: string(tr.result.Cause), Backend: tr.with.Backend, Model: l.history.OpenAgent.Detail.Model, Code: tr.result.Code, Signal: tr.result.Signal, Changed: len(tr.changed), Claimed: tr.result.Complete,
		Seconds: l.tools.Now().Sub(tr.started).Seconds(), Log: l.relative(tr.log), Left: tr.left, Taken: tr.taken}
	if end.Detail.Until, err = l.pacer.after(tr.with, tr.result, tr.reason); err != nil {
		return nil, false, err
	}
	var over *Outcome
	switch tr.verdict {
	case verify.Failed, verify.Crashed, verify.TimedOut: // not its fault, where the disk is full
		if why := roomFor(&l.job.Config, l.tools.Free, l.job.Root); why != "" {
			over = &Outcome{Ending: journal.DiskFull, Message: why}
			tr.verdict, tr.reason = verify.Cancelled, "the disk is full ("+tr.reason+")"
			end.Verdict, end.Reason = journal.Verdict(tr.verdict), tr.reason
		}
	}
	switch tr.verdict {
	case verify.Verified:
		end.Message, end.Detail.Words = delivered(tr.changed), preview(tr.result.Final)
		done := l.event(journal.TaskDone, tr)
		done.Ref = ref
		return nil, false, l.record(end, done)
	case verify.Cancelled:
		if err := l.describe(gctx, tr, end); err != nil {
			return nil, false, err
		}
		if err := l.record(end); err != nil {
			return nil, false, err
		}
		if n := l.history.Interruptions[tr.task.ID]; n >= mostCutOff {
			tr.verdict, tr.reason = verify.Failed, fmt.Sprintf("%d attempts in a row were interrupted before their end", n)
			if err := l.block(gctx, tr); err != nil {
				return nil, false, err
			}
		}
		if over != nil {
			return over, false, nil
		}
		return stop.outcome(ctx), false, nil
	}
	if err := l.describe(gctx, tr, end); err != nil {
		return nil, false, err
	}
	if err := l.record(end); err != nil {
		return nil, false, err
	}
	if note := l.tools.Withheld.missing(l.missing, tr.result, tr.check); note != "" {
		if err := l.warn(tr, note); err != nil {
			return nil, false, err
		}
	}
	if over := l.overpaid(tr.task.ID); over != "" && tr.verdict != verify.Blocked && tr.result.End != agent.Refused {
		return nil, false, l.blockOverpaid(gctx, tr, over)
	}
	if tr.verdict == verify.Blocked || l.history.Counted[tr.task.ID] >= l.job.Config.Scud.MaxIterationsPerTask {
		return nil, false, l.block(gctx, tr)
	}
	out, err := l.pacer.over(l.job.Config.Choices(tr.task))
	return out, true, err
}

// mostCutOff is how many attempts of a task in a row may be interrupted: none of them counts as an attempt, but
// one that takes the machine down each time has to end somewhere.
const mostCutOff = 10

// describe adds to a failed attempt's event what the next attempt is told.
func (l *Loop) describe(ctx context.Context, tr *trial, end *journal.Event) error {
	end.Detail.Words, end.Detail.Question = tail(tr.result.Final, maxWords), tail(tr.result.Question, maxWords)
	tr.denied = deniedBy(&l.job.Config, l.job.Root, tr.log, l.tools.refused())
	end.Detail.Denied = tr.denied
	if tr.check != nil {
		end.Detail.Output, end.Detail.Code = tr.check.Tail, tr.check.Code
		end.Detail.TimedOut = tr.check.TimedOut
	}
	if len(tr.changed) == 0 {
		return nil
	}
	stat, err := l.tools.Repo.DiffStat(ctx, tr.before, tr.after)
	if err != nil {
		return gitErr("compare the work on task "+tr.task.ID, err)
	}
	end.Message = stat
	return nil
}

// block gives a task up: its work is kept as refs, the working tree goes back to what it was.
func (l *Loop) block(ctx context.Context, tr *trial) error {
	put, err := l.tools.Repo.Restore(ctx, tr.base, l.began(tr.task.ID))
	if err != nil {
		return gitErr("take back the work on task "+tr.task.ID, err)
	}
	now, err := l.tools.Repo.Snapshot(ctx)
	if err != nil {
		return gitErr("look at the tree after task "+tr.task.ID, err)
	}
	if now != tr.base { // a submodule that moved, a repository that an agent made: nobody's to undo
		left, err := l.tools.Repo.Changed(ctx, tr.base, now)
		if err != nil {
			return gitErr("look at the tree after task "+tr.task.ID, err)
		}
		kept := RefPrefix(l.state.ID, tr.task.ID) + "base"
		if err := l.tools.Repo.Pin(ctx, kept, tr.base); err != nil {
			return gitErr("keep what task "+tr.task.ID+" began with", err)
		}
		if err := l.warn(tr, "not everything of the blocked task could be put back, and no commit will hold it: "+leftNames(left, put.Left)+"; what was there before is kept in "+kept); err != nil {
			return err
		}
	}
	if err := l.tellNested(ctx, tr, l.began(tr.task.ID), "the blocked task's edits inside a submodule stay: "); err != nil {
		return err
	}
	l.at = now
	e := l.event(journal.TaskBlocked, tr)
	e.Attempt = l.history.Counted[tr.task.ID]
	e.Verdict, e.Reason, e.Tree = journal.Verdict(tr.verdict), tr.reason, string(now)
	if e.Verdict == journal.Crashed && l.history.OtherEnds[tr.task.ID] {
		e.Verdict = journal.Failed
	}
	if l.history.KeptRefs[tr.task.ID] != "" {
		e.Ref = RefPrefix(l.state.ID, tr.task.ID)
	}
	if q := tr.result.Question; q != "" && tr.verdict == verify.Blocked || len(tr.denied) > 0 {
		e.Detail = &journal.Detail{Denied: tr.denied}
		if tr.verdict == verify.Blocked {
			e.Detail.Question = tail(q, maxWords)
		}
	}
	e.Message = restoredLine(put, e.Ref)
	e.Restored, e.Removed = put.Back[:min(len(put.Back), maxListed)], put.Removed[:min(len(put.Removed), maxListed)]
	return l.record(e)
}

// began is when a task's first attempt began, by the clock that the files of the working tree are stamped by. A time that
// has not come yet, since that clock was set back, says nothing: it is zero then.
func (l *Loop) began(id string) time.Time {
	t := l.history.Starts[id]
	if t.After(gitops.Now()) {
		return time.Time{}
	}
	return t
}

// maxListed bounds the paths that an event lists.
const maxListed = 1000

// restoredLine says in one line what a restore put back and removed, and where the attempts' own files are kept;
// "" where it touched nothing.
func restoredLine(put gitops.Restored, ref string) string {
	var parts []string
	if n := len(put.Back); n > 0 {
		parts = append(parts, fmt.Sprintf("%s put back (%s)", paths(n), few(put.Back)))
	}
	if n := len(put.Removed); n > 0 {
		parts = append(parts, fmt.Sprintf("%s removed (%s)", paths(n), few(put.Removed)))
	}
	if len(parts) > 0 && ref != "" {
		parts = append(parts, "what was there is kept in "+ref)
	}
	return strings.Join(parts, ", ")
}

func paths(n int) string {
	if n == 1 {
		return "1 path"
	}
	return fmt.Sprintf("%d paths", n)
}

// few lists the first of many names.
func few(list []string) string {
	const most = 8
	names := make([]string, 0, most)
	for _, s := range list[:min(most, len(list))] {
		names = append(names, oneLine(s))
	}
	if n := len(list) - len(names); n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), n)
	}
	return strings.Join(names, ", ")
}

// notRestored says what a restore could not put back, "" where that is nothing.
func notRestored(put gitops.Restored) string {
	if len(put.Left) == 0 {
		return ""
	}
	return "; not put back: " + fewOf(put.Left)
}

// fewOf lists the first of what was left out.
func fewOf(left []gitops.LeftOut) string {
	list := make([]string, len(left))
	for i, x := range left {
		list[i] = x.String()
	}
	return few(list)
}

// leftNames lists what differs after a restore, each with the reason where one is known.
func leftNames(differs []gitops.Change, left []gitops.LeftOut) string {
	why := map[string]string{}
	for _, x := range left {
		why[x.Path] = x.Why
	}
	var list []string
	for _, c := range differs {
		if w := why[c.Path]; w != "" {
			list = append(list, c.Path+" ("+w+")")
		} else {
			list = append(list, c.Path)
		}
	}
	return few(list)
}

// grace is what a process is given between the request to end and the kill.
const grace = 5 * time.Second

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// gitError marks what git refused, so that the run ends with that and not as an error of our own.
type gitError struct {
	what string
	err  error
}

func (e *gitError) Error() string { return e.what + ": " + e.err.Error() }
func (e *gitError) Unwrap() error { return e.err }

func gitErr(what string, err error) error { return &gitError{what, err} }

func isGit(err error) bool {
	var g *gitError
	return errors.As(err, &g)
}

// maxWords bounds, in bytes, what the journal keeps of an agent's last words; its log has all of them.
const maxWords = 4 << 10

// head is the beginning of s, at most n bytes of whole characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// tail is the end of s, at most n bytes of whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// event begins an event about a trial.
func (l *Loop) event(t journal.Type, tr *trial) *journal.Event {
	return &journal.Event{Type: t, Wave: l.job.Graph.Wave(tr.task.ID), Task: tr.task.ID, Title: tr.task.Title, Attempt: tr.number,
		Of: l.job.Config.Scud.MaxIterationsPerTask}
}

func (l *Loop) warn(tr *trial, message string) error {
	e := l.event(journal.Warning, tr)
	e.Message = message
	return l.record(e)
}

func (l *Loop) title(id string) string {
	if t, ok := l.job.Graph.Task(id); ok {
		return t.Title
	}
	return ""
}

// oneLine makes foreign text fit for one line of a commit message.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// pairOf is what a verified attempt changed, for the wave's commit.
func pairOf(e journal.Event) gitops.Pair {
	return gitops.Pair{Base: gitops.Tree(e.Base), Result: gitops.Tree(e.Tree), Head: e.Commit, Without: e.Paths}
}
