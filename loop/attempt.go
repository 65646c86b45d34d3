package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// trial is one attempt under way: what stood before it, and what its steps found.
type trial struct {
	task   *tasks.Task
	number int
	footing
	edited  bool // somebody outside the sandbox changed the task list meanwhile
	log     string
	with    Choice
	started time.Time
	tuned   bool // a person chose its spec
	result  agent.Result
	denied  []string // what the sandbox refused it
	check   *verify.Result
	after   gitops.Tree
	changed []gitops.Change
	left    []string // files that only the verification made
	taken   []string // those of earlier ones that the agent made its own
	verdict verify.Verdict
	reason  string
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
		tr, err := l.attempt(ctx, stop, t, base, with)
		if err != nil {
			return nil, false, err
		}
		out, again, err := l.after(ctx, stop, tr)
		l.spent(tr)
		if out != nil || err != nil || !again {
			return out, false, err
		}
		if l.putOff(others) {
			if tr.after != base {
				if err := l.takeBack(context.WithoutCancel(ctx), id); err != nil {
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
		l.at = "" // nobody knows what the hours brought
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
	if l.at != "" { // the state after one attempt is the state before the next
		return l.at, nil
	}
	tree, err := l.tools.Repo.Snapshot(ctx)
	if err != nil {
		return "", gitErr("snapshot the working tree", err)
	}
	return tree, nil
}

// attempt runs agent and verification once and records the verdict. It knows no other task.
func (l *Loop) attempt(ctx context.Context, stop *stopper, t *tasks.Task, base gitops.Tree, with Choice) (*trial, error) {
	tr := &trial{task: t, with: with, number: l.history.Begun[t.ID] + 1, footing: footing{base: base, before: gitops.Tree(l.history.Tree)}, started: l.tools.Now()}
	if l.history.Counted[t.ID] == 0 {
		tr.before = base
	}
	tr.log = l.home.Log(l.state.ID, t.ID, tr.number)
	if err := l.saver.absorb(t.ID, l.job.Graph.Status(t.ID)); err != nil {
		return nil, err
	}
	l.rememberLists()
	spec, err := l.spec(tr)
	if err != nil {
		return nil, err
	}
	if tr.git, err = l.tools.Repo.Guard(ctx); err != nil {
		return nil, gitErr("read the state of the repository", err)
	}
	if err := l.guard.keepSettings(l.home, l.state.ID, tr.git); err != nil {
		return nil, err
	}
	events := []*journal.Event{l.event(journal.AttemptStarted, tr)}
	events[0].Detail = &journal.Detail{SpecTokens: spec.Tokens, Tuned: tr.tuned, Log: l.relative(tr.log), Backend: with.Backend, Model: with.Model}
	events[0].Tree, events[0].Branch, events[0].Commit = string(tr.before), tr.git.Head().Branch, tr.git.Head().Hash
	if l.history.Current != t.ID {
		start := l.event(journal.TaskStarted, tr)
		start.Attempt, start.Base, start.Commit = 0, string(base), tr.git.Head().Hash
		events = slices.Insert(events, 0, start)
	}
	if err := l.record(events...); err != nil {
		return nil, err
	}
	l.spare.become(tr.log)
	actx, done := stop.watch(ctx)
	defer done()
	tr.result, err = l.tools.Agent.Run(actx, l.request(tr, spec.Text))
	if err != nil {
		return nil, fmt.Errorf("run the agent on task %s: %w", t.ID, err)
	}
	if err := l.gatherErrors(tr); err != nil {
		return nil, err
	}
	return tr, l.judge(actx, tr)
}

// judge takes a trial from the end of its agent to its verdict. The verification runs what the
// agent wrote, so the repository is repaired after it too.
func (l *Loop) judge(ctx context.Context, tr *trial) error {
	gctx, done := linger(ctx) // the work is kept, whatever stopped the agent
	defer done()
	l.at = ""
	if err := l.repair(gctx, tr, "attempt"); err != nil {
		return err
	}
	if err := l.look(gctx, tr); err != nil {
		return err
	}
	if l.history.OpenAgent == nil { // else a loop that died since had recorded it
		if err := l.record(withNotes(l.agentEvent(tr))...); err != nil {
			return err
		}
	}
	worked := l.history.OpenAgent.Detail.Changed > 0 // what a build leaves behind is no work
	if l.verifies(tr, worked) {
		if err := l.verify(ctx, tr); err != nil {
			return err
		}
		if err := l.repair(gctx, tr, "verification"); err != nil {
			return err
		}
		if err := l.lookAgain(gctx, tr); err != nil {
			return err
		}
	}
	facts := verify.Facts{AgentEnd: string(tr.result.End), AgentReason: tr.result.Reason, Blocked: tr.result.Blocked,
		Question: oneLine(tail(tr.result.Question, maxWords)), Complete: tr.result.Complete, Changed: worked, Verify: tr.check, None: l.job.verify() == ""}
	tr.verdict, tr.reason = verify.Judge(facts)
	if err := l.tellNested(gctx, tr, tr.started, "the attempt edited files inside a submodule, which no commit here will hold: "); err != nil {
		return err
	}
	if err := l.leaveUncovered(tr); err != nil {
		return err
	}
	return l.judgeLeftOut(tr)
}

// leaveUncovered keeps files out of the attempt's work that were there before it, ignored by git: it changed the rules, or
// staged them by force.
func (l *Loop) leaveUncovered(tr *trial) error {
	old := uncovered(l.tools.Repo, tr.changed, l.began(tr.task.ID))
	if len(old) == 0 {
		return nil
	}
	tr.left = append(tr.left, old...)
	tr.changed = slices.DeleteFunc(tr.changed, func(c gitops.Change) bool { return slices.Contains(old, c.Path) })
	return l.warn(tr, uncoveredStay+few(old))
}

// tellNested warns of edits inside submodules and the like, which are neither committed nor restored.
func (l *Loop) tellNested(ctx context.Context, tr *trial, since time.Time, what string) error {
	edits, err := l.tools.Repo.NestedEdits(ctx, since)
	if err != nil {
		return gitErr("look into the submodules", err)
	}
	if len(edits) == 0 {
		return nil
	}
	return l.warn(tr, what+few(edits))
}

// judgeLeftOut fails an attempt that made what no commit can hold. What was there before is only named, once.
func (l *Loop) judgeLeftOut(tr *trial) error {
	recent, old := l.tools.Repo.LeftOut(l.began(tr.task.ID))
	if len(recent) > 0 && (tr.verdict == verify.Verified || tr.reason == verify.NoSignal) {
		tr.verdict, tr.reason = verify.Failed, "it left what no commit can hold: "+fewOf(recent)
	}
	var untold []gitops.LeftOut
	for _, x := range old {
		if l.passed[x.Path] {
			continue
		}
		if l.passed == nil {
			l.passed = map[string]bool{}
		}
		l.passed[x.Path] = true
		untold = append(untold, x)
	}
	if len(untold) == 0 {
		return nil
	}
	return l.warn(tr, "in no snapshot and no commit: "+fewOf(untold))
}

// lingering is how long a run that was told to stop goes on to look at what its attempt left. What takes longer, such
// as files of many gigabytes, is left to the run that resumes it.
const lingering = 10 * time.Second

// linger gives a context that outlasts ctx by that time.
func linger(ctx context.Context) (_ context.Context, done func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-out.Done():
		case <-time.After(lingering):
			cancel()
		}
	})
	return out, func() { stop(); cancel() }
}

// verifies reports whether a trial's work is worth a verification. An agent that only asked did none.
func (l *Loop) verifies(tr *trial, worked bool) bool {
	r := tr.result
	return l.job.verify() != "" && r.End == agent.Finished && r.Blocked == "" && (worked || r.Complete || r.Question == "")
}

func (l *Loop) verify(ctx context.Context, tr *trial) error {
	if err := l.record(l.event(journal.VerifyStarted, tr)); err != nil {
		return err
	}
	l.guard.repaired = false
	res, err := l.tools.Verify.Run(ctx, Timed(&l.job.Config, verify.Request{Label: l.label(tr, "verify"), Command: l.job.verify(), Dir: l.job.Root,
		Env: l.environment(tr), Log: tr.log, Mask: l.tools.Mask}))
	if err != nil {
		return fmt.Errorf("verify task %s: %w", tr.task.ID, err)
	}
	tr.check = &res
	e := l.event(journal.VerifyFinished, tr)
	e.Detail = verifyDetail(res)
	e.Detail.Command = l.job.verify()
	l.recordWithNext(e)
	return nil
}

// request is the agent's side of a trial.
func (l *Loop) request(tr *trial, prompt string) agent.Request {
	c := l.job.Config
	return agent.Request{Label: l.label(tr, "agent"), Backend: tr.with.Backend, Prompt: prompt, PromptFile: l.promptFile(), Dir: l.job.Root,
		Env: l.environment(tr), Log: tr.log, ErrLog: l.errLog(), Mask: l.tools.Mask,
		Timeout: seconds(c.TimeoutSecs), Idle: seconds(c.IdleTimeoutSecs), Grace: grace,
		Clocks: agent.Clocks{Start: seconds(c.StartTimeoutSecs), Exit: seconds(c.ExitGraceSecs), Spin: c.SpinLimit},
		Model:  tr.with.Model, Promise: c.CompletionPromise}
}

// errLog takes what the running agent prints on standard error, which is not what it says.
func (l *Loop) errLog() string { return filepath.Join(l.home.Run(l.state.ID), "stderr") }

func (l *Loop) promptFile() string { return filepath.Join(l.home.Run(l.state.ID), "prompt.md") }

// label names a process in the exit file, for the loop that may have to take it up again.
func (l *Loop) label(tr *trial, what string) string {
	return fmt.Sprintf("%s %d %s", tr.task.ID, tr.number, what)
}

func (l *Loop) environment(tr *trial) []string {
	n := strconv.Itoa(tr.number)
	return []string{"DESCARTES_LOOP_ID=" + l.state.ID, "DESCARTES_TAG=" + l.state.Tag, "DESCARTES_TASK_ID=" + tr.task.ID,
		"SCUD_TASK_ID=" + tr.task.ID, "DESCARTES_WAVE=" + strconv.Itoa(l.job.Graph.Wave(tr.task.ID)), "DESCARTES_ATTEMPT=" + n,
		"DESCARTES_ITERATION=" + strconv.Itoa(l.history.Iteration), "DESCARTES_PROMPT_FILE=" + l.promptFile()}
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
