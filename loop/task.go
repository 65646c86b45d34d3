package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// unit is one attempt at a task: what it begins with, and what came of it.
type unit struct {
	task    *tasks.Task
	number  int         // of the attempt, within the loop
	base    gitops.Tree // before the task's first attempt: what a blocked task goes back to
	before  gitops.Tree // before this one
	log     string
	with    Choice
	started time.Time
	tuned   bool // a person chose its spec
	res     attempt.Result
	denied  []string // what the sandbox refused it
}

// task gives one task its attempts, until it is done or blocked. An outcome says that the run ends here;
// later that the others of its wave are to be tried before it is again.
func (l *Loop) task(ctx context.Context, stop *stopper, id string, others []string) (_ *Outcome, later bool, _ error) {
	t, ok := l.job.Graph.Task(id)
	if !ok {
		return nil, false, fmt.Errorf("task %s vanished from the graph", id)
	}
	base, err := l.taskBase(ctx, t)
	if err != nil {
		return nil, false, err
	}
	for again := false; ; again = true {
		if again || l.history.Counted[id] > 0 {
			if out := l.limits(ctx, stop); out != nil {
				return out, false, nil
			}
		}
		with, out, err := l.chosen(ctx, stop, t)
		if out != nil || err != nil {
			return out, false, err
		}
		if l.job.Config.Scud.AutoTune {
			if err := l.refine(ctx, stop, t, with); err != nil {
				return nil, false, err
			}
			if out := l.limits(ctx, stop); out != nil { // it took a while, and may have cost something
				return out, false, nil
			}
		}
		u, err := l.attempt(ctx, stop, t, base, with)
		if err != nil {
			return nil, false, err
		}
		out, again, err := l.conclude(ctx, stop, u)
		l.spent(u)
		if out != nil || err != nil || !again {
			return out, false, err
		}
		if l.putOff(others) {
			if u.res.Work.After != base {
				if _, err := l.takeBack(context.WithoutCancel(ctx), id); err != nil {
					return nil, false, err
				}
			}
			l.shelve()
			return nil, true, nil
		}
	}
}

// chosen is what a task's next attempt is run with. It waits where the providers ask for that.
func (l *Loop) chosen(ctx context.Context, stop *stopper, t *tasks.Task) (Choice, *Outcome, error) {
	l.pacer.tell = func(e *journal.Event) error {
		if e.Type == journal.LimitWaiting {
			e.Wave, e.Task, e.Title, e.Attempt = l.job.Graph.Wave(t.ID), t.ID, t.Title, l.history.Begun[t.ID]
		}
		return l.record(e)
	}
	with, waited, out, err := l.pacer.before(ctx, stop, l.job.Config.Choices(t))
	if waited {
		l.ws.Stale() // nobody knows what the hours brought
		if out == nil && err == nil {
			out = l.limits(ctx, stop)
		}
	}
	return with, out, err
}

// taskBase is the tree that a blocked task goes back to: what stood before its first attempt.
func (l *Loop) taskBase(ctx context.Context, t *tasks.Task) (gitops.Tree, error) {
	if b := l.history.Bases[t.ID]; b != "" && l.history.Current == t.ID {
		return gitops.Tree(b), nil
	}
	return l.ws.Holds(ctx)
}

// attempt runs agent and verification once. It knows no other task.
func (l *Loop) attempt(ctx context.Context, stop *stopper, t *tasks.Task, base gitops.Tree, with Choice) (*unit, error) {
	u := &unit{task: t, with: with, number: l.history.Begun[t.ID] + 1, base: base, before: gitops.Tree(l.history.Tree), started: l.tools.Now()}
	if l.history.Counted[t.ID] == 0 {
		u.before = base
	}
	u.log = l.home.Log(l.state.ID, t.ID, u.number)
	if err := l.saver.absorb(t.ID, l.job.Graph.Status(t.ID)); err != nil {
		return nil, err
	}
	spec, err := l.spec(u)
	if err != nil {
		return nil, err
	}
	stand, err := l.ws.Prepare(ctx, l.start(u))
	if err != nil {
		return nil, err
	}
	begun := l.event(journal.AttemptStarted, u)
	begun.Detail = &journal.Detail{SpecTokens: spec.Tokens, Tuned: u.tuned, Log: l.relative(u.log), Backend: with.Backend, Model: with.Model}
	begun.Tree, begun.Branch, begun.Commit = string(u.before), stand.Head.Branch, stand.Head.Hash
	events := []*journal.Event{begun}
	if l.history.Current != t.ID {
		first := l.event(journal.TaskStarted, u)
		first.Attempt, first.Base, first.Commit = 0, string(base), stand.Head.Hash
		events = slices.Insert(events, 0, first)
	}
	if err := l.record(events...); err != nil {
		return nil, err
	}
	l.spare.become(u.log)
	actx, done := stop.watch(ctx)
	defer done()
	if u.res, err = l.runner.Run(actx, l.ws, l.input(u, spec.Text), l.observe(u)); err != nil {
		return nil, fmt.Errorf("task %s: %w", t.ID, err)
	}
	return u, nil
}

// start is what the workspace is told of a unit.
func (l *Loop) start(u *unit) workspace.Start {
	l.teach()
	return workspace.Start{Before: u.before, Base: u.base, Since: l.history.Starts[u.task.ID], Users: l.history.UserPaths, Left: l.history.VerifyLeft,
		Aside: strings.TrimSuffix(u.log, ".log")}
}

// teach tells the workspace what was verified and committed since the last time.
func (l *Loop) teach() {
	for _, w := range l.history.Work[l.taught:] {
		l.ws.Verified(workName(&w), gitops.Tree(w.Base), gitops.Tree(w.Tree), w.Left)
		if w.Committed {
			l.ws.Committed([]string{workName(&w)})
		}
	}
	l.taught = len(l.history.Work)
	for _, c := range l.history.WaveCommits[l.commits:] {
		names := make([]string, len(c.Tasks))
		for i, id := range c.Tasks {
			names[i] = taskWork(id)
		}
		l.ws.Committed(names)
	}
	l.commits = len(l.history.WaveCommits)
}

// input is what a unit's attempt is made with.
func (l *Loop) input(u *unit, prompt string) attempt.Input {
	in := inputOf(&l.job.Config, u.with)
	in.Name, in.Prompt, in.Log = fmt.Sprintf("%s %d", u.task.ID, u.number), prompt, u.log
	in.Verify.Run = l.job.verify()
	n := strconv.Itoa(u.number)
	in.Env = []string{"DESCARTES_LOOP_ID=" + l.state.ID, "DESCARTES_TAG=" + l.state.Tag, "DESCARTES_TASK_ID=" + u.task.ID,
		"SCUD_TASK_ID=" + u.task.ID, "DESCARTES_WAVE=" + strconv.Itoa(l.job.Graph.Wave(u.task.ID)), "DESCARTES_ATTEMPT=" + n,
		"DESCARTES_ITERATION=" + strconv.Itoa(l.history.Iteration)}
	return in
}

// inputOf is what the settings say of an attempt.
func inputOf(c *Config, with Choice) attempt.Input {
	return attempt.Input{Backend: with.Backend, Model: with.Model, Promise: c.CompletionPromise,
		Agent: attempt.Clocks{Timeout: seconds(c.TimeoutSecs), Idle: seconds(c.IdleTimeoutSecs), Start: seconds(c.StartTimeoutSecs), Exit: seconds(c.ExitGraceSecs),
			Spin: c.SpinLimit},
		Clocks: attempt.Clocks{Timeout: seconds(c.VerifyTimeoutSecs), Idle: seconds(c.VerifyIdleSecs)}}
}

// observe records what an attempt tells of its steps.
func (l *Loop) observe(u *unit) func(*attempt.Step) error {
	return func(s *attempt.Step) error {
		switch s.Moment {
		case attempt.Ended:
			return l.heal(u, s.Who)
		case attempt.Undone:
			return l.undone(u, s.Lines)
		case attempt.Answered:
			e := agentEnd(l.event(journal.AgentFinished, u), s.Result.Agent, u.with, maxWords)
			e.Detail.Changed, e.Detail.Tree = s.Result.Changed, string(s.Result.Work.After)
			return l.record(withNotes(e)...)
		case attempt.Started:
			return l.record(l.event(journal.VerifyStarted, u))
		case attempt.Checked:
			e := l.event(journal.VerifyFinished, u)
			e.Detail = verifyDetail(s.Verify)
			e.Detail.Command = s.Command.Run
			l.recordWithNext(e)
		case attempt.Noted:
			for _, line := range s.Lines {
				if err := l.warn(u, line); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// undone says what was undone of a unit.
func (l *Loop) undone(u *unit, lines []string) error {
	for _, line := range lines {
		e := l.event(journal.Warning, u)
		e.Reason, e.Message = journal.ReasonUndone, line
		if err := l.record(e); err != nil {
			return err
		}
	}
	return nil
}

// heal restores what is ours where the attempt changed it: the task file, the journal, the locks. who is the part of it that did it.
func (l *Loop) heal(u *unit, who string) error {
	edited, lines, err := l.healFiles(u, who)
	if err := errors.Join(err, l.undone(u, lines)); err != nil || !edited {
		return err
	}
	return l.warn(u, l.relative(l.job.File.Path())+" was changed during the "+who+", by somebody outside the sandbox: the change is kept")
}

func (l *Loop) healFiles(u *unit, who string) (edited bool, lines []string, err error) {
	l.saver.mu.Lock()
	defer l.saver.mu.Unlock()
	switch edited, err = l.keepEdit(u); {
	case err != nil:
		return false, nil, err
	case !edited && !l.saver.intact():
		if lines, err = l.restoreTasks(who, strings.TrimSuffix(u.log, ".log")+".tasks"); err != nil {
			return false, nil, err
		}
	}
	healed, err := l.journal.Heal()
	if err != nil {
		return edited, lines, err
	}
	if healed {
		if err := l.home.Make(l.tools.FS); err != nil {
			return edited, lines, err
		}
		lines = append(lines, "the "+who+" meddled with "+l.relative(l.journal.Path())+", which is put back")
	}
	return edited, lines, l.relock()
}

// keepEdit takes in a change of the task file that no attempt can have made: it is read-only in the sandbox. One that
// leaves no list of tasks is not taken in. The caller holds the saver's lock.
func (l *Loop) keepEdit(u *unit) (kept bool, err error) {
	if !l.job.Config.Confined() || l.saver.err != nil || l.saver.intact() {
		return false, nil
	}
	if fi, err := os.Lstat(l.job.File.Target()); err != nil || !fi.Mode().IsRegular() {
		return false, nil
	}
	err = l.saver.takeIn(u.task.ID, l.job.Graph.Status(u.task.ID))
	if _, bad := errors.AsType[*tasks.FormatError](err); bad {
		return false, nil
	}
	return err == nil, err
}

// restoreTasks puts the task file and its mirror back. What the attempt had made of them is kept in files aside.
func (l *Loop) restoreTasks(who, aside string) (notes []string, err error) {
	files := []workspace.File{{Look: l.saver.seen, Real: l.job.File.Target(), Data: l.job.File.Bytes()}}
	if m := l.saver.mirror; m != nil {
		files = append(files, workspace.File{Look: m.seen, Real: m.real, Data: m.data})
	}
	notes, err = workspace.NewFiles(l.job.Root, files...).PutBack(l.tools.FS, who, aside)
	l.saver.look()
	return notes, err
}

// conclude records a unit's verdict and does what it asks for. again says that the task gets another attempt.
func (l *Loop) conclude(ctx context.Context, stop *stopper, u *unit) (_ *Outcome, again bool, _ error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	res := &u.res
	ref, err := l.keep(gctx, u)
	if err != nil {
		return nil, false, err
	}
	end := l.event(journal.AttemptFinished, u)
	end.Tree, end.Ref = string(res.Work.After), ref
	end.Detail = &journal.Detail{End: string(res.Agent.End), Cause: string(res.Agent.Cause), Backend: u.with.Backend, Model: l.history.OpenAgent.Detail.Model,
		Code: res.Agent.Code, Signal: res.Agent.Signal, Changed: len(res.Work.Changed), Claimed: res.Agent.Complete,
		Seconds: l.tools.Now().Sub(u.started).Seconds(), Log: l.relative(u.log), Left: res.Work.Left, Taken: res.Work.Taken}
	if end.Detail.Until, err = l.pacer.after(u.with, res.Agent, res.Reason); err != nil {
		return nil, false, err
	}
	var over *Outcome
	switch res.Verdict {
	case verify.Failed, verify.Crashed, verify.TimedOut: // not its fault, where the disk is full
		if why := roomFor(&l.job.Config, l.tools.Free, l.job.Root); why != "" {
			over = &Outcome{Ending: journal.DiskFull, Message: why}
			res.Verdict, res.Reason = verify.Cancelled, "the disk is full ("+res.Reason+")"
		}
	}
	end.Verdict, end.Reason = journal.Verdict(res.Verdict), res.Reason
	if res.Verdict == verify.Verified {
		end.Message, end.Detail.Words = delivered(res.Work.Changed), preview(res.Agent.Final)
		done := l.event(journal.TaskDone, u)
		done.Ref = ref
		return nil, false, l.record(end, done)
	}
	if err := l.describe(gctx, u, end); err != nil {
		return nil, false, err
	}
	if err := l.record(end); err != nil {
		return nil, false, err
	}
	id := u.task.ID
	if res.Verdict == verify.Cancelled {
		if n := l.history.Interruptions[id]; n >= mostCutOff {
			res.Verdict, res.Reason = verify.Failed, fmt.Sprintf("%d attempts in a row were interrupted before their end", n)
			if err := l.block(gctx, u); err != nil {
				return nil, false, err
			}
		}
		if over != nil {
			return over, false, nil
		}
		return stop.outcome(ctx), false, nil
	}
	if note := l.tools.Withheld.missing(l.missing, res.Agent, res.Verify); note != "" {
		if err := l.warn(u, note); err != nil {
			return nil, false, err
		}
	}
	if over := l.overpaid(id); over != "" && res.Verdict != verify.Blocked && res.Agent.End != agent.Refused {
		return nil, false, l.blockOverpaid(gctx, u, over)
	}
	if res.Verdict == verify.Blocked || l.history.Counted[id] >= l.job.Config.Scud.MaxIterationsPerTask {
		return nil, false, l.block(gctx, u)
	}
	out, err := l.pacer.over(l.job.Config.Choices(u.task))
	return out, true, err
}

// mostCutOff is how many attempts of a task in a row may be interrupted: none of them counts as an attempt, but
// one that takes the machine down each time has to end somewhere.
const mostCutOff = 10

// keep stores the attempt as a commit of its own, so that nothing an agent wrote is lost. An
// attempt that changed nothing and committed nothing leaves nothing to keep.
func (l *Loop) keep(ctx context.Context, u *unit) (ref string, err error) {
	w := &u.res.Work
	if w.After == "" || w.After == u.base && w.Commits == "" {
		return "", nil
	}
	var parents []string
	head, err := l.tools.Repo.Head(ctx)
	if err != nil {
		return "", gitErr("read HEAD", err)
	}
	for _, p := range []string{head.Hash, w.Commits} {
		if p != "" && !slices.Contains(parents, p) {
			parents = append(parents, p)
		}
	}
	id := oneline.Text(u.task.ID)
	ref = RefPrefix(l.state.ID, u.task.ID) + strconv.Itoa(u.number)
	msg := fmt.Sprintf("%s: task %s attempt %d: %s\n\n%s\n\nDescartes-Loop: %s\nDescartes-Task: %s\nDescartes-Attempt: %d\nDescartes-Verdict: %s\n",
		l.state.Tag, id, u.number, u.res.Verdict, oneline.Text(u.res.Reason), l.state.ID, id, u.number, u.res.Verdict)
	if _, err := l.tools.Repo.Keep(ctx, ref, w.After, parents, l.tools.Mask.Text(msg)); err != nil {
		return "", gitErr("keep the work on task "+u.task.ID, err)
	}
	return ref, nil
}

// delivered says in one line what a task changed, for the specs of those that depend on it.
func delivered(changed []gitops.Change) string {
	if len(changed) == 0 {
		return ""
	}
	names := make([]string, 0, 8)
	for _, c := range changed[:min(8, len(changed))] {
		names = append(names, string(rune(c.Op))+" "+c.Path)
	}
	s := strings.Join(names, ", ")
	if n := len(changed) - len(names); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// describe adds to a failed attempt's event what the next attempt is told.
func (l *Loop) describe(ctx context.Context, u *unit, end *journal.Event) error {
	res := &u.res
	end.Detail.Words, end.Detail.Question = tail(res.Agent.Final, maxWords), tail(res.Agent.Question, maxWords)
	u.denied = deniedBy(&l.job.Config, l.job.Root, u.log, l.tools.refused())
	end.Detail.Denied = u.denied
	if v := res.Verify; v != nil {
		end.Detail.Output, end.Detail.Code, end.Detail.TimedOut = v.Tail, v.Code, v.TimedOut
	}
	if len(res.Work.Changed) == 0 {
		return nil
	}
	stat, err := l.tools.Repo.DiffStat(ctx, u.before, res.Work.After)
	if err != nil {
		return gitErr("compare the work on task "+u.task.ID, err)
	}
	end.Message = stat
	return nil
}

// block gives a task up: its work is kept as refs, the working tree goes back to what it was.
func (l *Loop) block(ctx context.Context, u *unit) error {
	id := u.task.ID
	put, err := l.ws.Restore(ctx, u.base, l.history.Starts[id])
	if err != nil {
		return fmt.Errorf("take back the work on task %s: %w", id, err)
	}
	if put.Tree != u.base {
		kept := RefPrefix(l.state.ID, id) + "base"
		if err := l.tools.Repo.Pin(ctx, kept, u.base); err != nil {
			return gitErr("keep what task "+id+" began with", err)
		}
		if err := l.warn(u, "not everything of the blocked task could be put back, and no commit will hold it: "+put.Unrestored()+"; what was there before is kept in "+kept); err != nil {
			return err
		}
	}
	if len(put.Nested) > 0 {
		if err := l.warn(u, "the blocked task's edits inside a submodule stay: "+oneline.List(put.Nested)); err != nil {
			return err
		}
	}
	e := l.event(journal.TaskBlocked, u)
	e.Attempt = l.history.Counted[id]
	e.Verdict, e.Reason, e.Tree = journal.Verdict(u.res.Verdict), u.res.Reason, string(put.Tree)
	if e.Verdict == journal.Crashed && l.history.OtherEnds[id] {
		e.Verdict = journal.Failed
	}
	if l.history.KeptRefs[id] != "" {
		e.Ref = RefPrefix(l.state.ID, id)
	}
	asked := u.res.Verdict == verify.Blocked && u.res.Agent.Question != ""
	if asked || len(u.denied) > 0 {
		e.Detail = &journal.Detail{Denied: u.denied}
	}
	if asked {
		e.Detail.Question = tail(u.res.Agent.Question, maxWords)
	}
	e.Message = put.Line(e.Ref)
	e.Restored, e.Removed = put.Back[:min(len(put.Back), maxListed)], put.Removed[:min(len(put.Removed), maxListed)]
	return l.record(e)
}

// maxListed bounds the paths that an event lists.
const maxListed = 1000

// takeBack brings the tree back to what it was before a task that is neither done nor blocked; its attempts' refs keep
// what it had made.
func (l *Loop) takeBack(ctx context.Context, id string) (gitops.Tree, error) {
	put, err := l.ws.Restore(ctx, gitops.Tree(l.history.Bases[id]), l.history.Starts[id])
	if err != nil {
		return "", fmt.Errorf("take back the work on task %s: %w", id, err)
	}
	line := put.Line(RefPrefix(l.state.ID, id)) + workspace.NotRestored(put.Restored)
	if line == "" {
		return put.Tree, nil
	}
	return put.Tree, l.record(&journal.Event{Type: journal.Warning, Task: id, Tree: string(put.Tree), Message: "restored: " + line})
}

// failure is the last attempt as the next one is told of it. It comes from the journal alone, so
// that a resumed loop tells the same.
func failure(e journal.Event) *specbuild.Failure {
	f := &specbuild.Failure{Attempt: e.Attempt, Verdict: string(e.Verdict), Reason: e.Reason, DiffStat: e.Message}
	if e.Detail != nil {
		f.Words, f.Output, f.Question, f.Denied = e.Detail.Words, e.Detail.Output, e.Detail.Question, e.Detail.Denied
	}
	return f
}

// event begins an event about a unit.
func (l *Loop) event(t journal.Type, u *unit) *journal.Event {
	return &journal.Event{Type: t, Wave: l.job.Graph.Wave(u.task.ID), Task: u.task.ID, Title: u.task.Title, Attempt: u.number,
		Of: l.job.Config.Scud.MaxIterationsPerTask}
}

func (l *Loop) warn(u *unit, message string) error {
	e := l.event(journal.Warning, u)
	e.Message = message
	return l.record(e)
}

func (l *Loop) title(id string) string {
	if t, ok := l.job.Graph.Task(id); ok {
		return t.Title
	}
	return ""
}
