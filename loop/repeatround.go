package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/verify"
)

// turn is one iteration under way: what stood before it, and what its steps found.
type turn struct {
	Round
	log     string
	with    Choice
	started time.Time
	footing      // before is "" where nobody looks; base is the tree before what its commit is to hold
	alone   bool // nobody else worked in the tree when it began
	check   *verify.Result
	tuned   bool        // a person chose its prompt
	refused string      // why git did not take the commit, where the iteration can be repeated
	seen    gitops.Tree // when the agent had ended; "" where nobody looked
	after   gitops.Tree
	left    []string // files that only the verification made
	taken   []string // those of earlier ones that the agent made its own
	changed []gitops.Change
	commit  string
	edits   map[string]int // of each file, as the agent's stream tells
	checks  []gate.Check   // of the commands that the gate asks for
	file    []byte         // .loop/state.json as the agent left it
	ref     string         // of the checkpoint
}

// round runs one iteration. An outcome says that the run ends here. The counter is on the disk before the
// agent starts: whatever happens then, this number is used up.
func (r *Repeat) round(ctx context.Context, stop *stopper) (*Outcome, error) {
	with, waited, out, err := r.pacer.before(ctx, stop, r.job.Config.Choices(nil))
	if out == nil && err == nil && waited {
		out = r.limits(ctx, stop)
	}
	if out != nil || err != nil {
		return out, err
	}
	t, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	t.with = with
	if f := r.job.Mode.Before; f != nil {
		if out := f(t.Turn); out != nil {
			return out, nil
		}
	}
	r.include(t)
	prompt, err := r.prompt(t)
	if err != nil {
		return nil, err
	}
	e := r.event(journal.IterationStarted, t)
	e.Tree, e.Branch, e.Commit = string(t.base), t.git.Head().Branch, t.git.Head().Hash
	e.Detail = &journal.Detail{Log: r.relative(t.log), Tuned: t.tuned, Backend: with.Backend, Model: with.Model}
	if f := r.job.Mode.About; f != nil {
		e.Title = f()
	}
	if c := r.criteria(); c != nil {
		e.Lines = []string{c.Before(t.Iteration, t.Max, r.costSoFar())}
	}
	if err := r.record(e); err != nil {
		return nil, err
	}
	if err := r.save(); err != nil {
		return nil, err
	}
	crash.Point("iteration-saved")
	actx, done := stop.watch(ctx)
	defer done()
	if t.Result, err = r.tools.Agent.Run(actx, r.request(t, prompt)); err != nil {
		return nil, fmt.Errorf("run the agent: %w", err)
	}
	return r.conclude(ctx, actx, stop, t)
}

// costSoFar is what the loop has cost so far; nil where that is unknown.
func (r *Repeat) costSoFar() *float64 {
	if r.history.Cost.Runs == 0 {
		return new(float64)
	}
	return r.history.Cost.USD
}

// turn is the iteration that comes next.
func (r *Repeat) turn(ctx context.Context) (*turn, error) {
	b := r.history
	t := &turn{started: r.tools.Now()}
	t.Iteration, t.Try, t.Max, t.Next = b.Iteration+1, 1, r.job.Config.MaxIterations, joinText(b.Prompt.Next...)
	t.Failing = b.Prompt.Failing
	if b.Prompt.Again {
		t.Iteration, t.Try = b.Iteration, b.Prompt.Try+1
	}
	t.log = r.home.TurnLog(r.state.ID, t.Iteration, t.Try)
	return t, r.lookBefore(ctx, t)
}

// include makes what no commit holds so far part of the iteration's work.
func (r *Repeat) include(t *turn) {
	t.base = t.before
	apart := r.job.Mode.Apart != nil && r.job.Mode.Apart()
	if owed := r.history.Prompt.Owed; r.job.Config.Git.AutoCommit && owed != "" && t.before != "" && !apart {
		t.base = gitops.Tree(owed)
	}
}

// adopt brings to its end the iteration that a dead loop had begun: its agent may have finished meanwhile.
func (r *Repeat) adopt(ctx context.Context, stop *stopper) (*Outcome, error) {
	open := r.history.Prompt.Open
	t := &turn{started: open.TS, footing: footing{base: gitops.Tree(open.Tree), before: gitops.Tree(open.Tree)}}
	t.Iteration, t.Try, t.Max, t.Next = open.Iteration, open.Attempt, r.job.Config.MaxIterations, joinText(r.history.Prompt.Next...)
	t.log = r.home.TurnLog(r.state.ID, t.Iteration, t.Try)
	if err := maskFiles(r.tools.Mask, t.log, r.errLog(), r.promptFile()); err != nil {
		return nil, err
	}
	t.with = r.job.Config.Choices(nil)[0]
	t.tuned = open.Detail != nil && open.Detail.Tuned
	if d := open.Detail; d != nil && d.Backend != "" {
		t.with = Choice{Backend: d.Backend, Model: d.Model}
	}
	if f := r.job.Mode.Adopt; f != nil {
		f(t.Turn, open.Title)
	}
	res, ok := r.tools.Agent.Recall(r.request(t, ""), r.home.ExitFile(r.state.ID))
	switch e := r.history.Prompt.Agent; {
	case ok:
		t.Result = res
	case e != nil && e.Detail != nil:
		t.Result = recalled(e)
	default:
		t.Result = agent.Result{End: agent.Cancelled, Code: -1, Reason: "descartes was stopped during this iteration"}
	}
	if err := r.standAt(ctx, t, *open); err != nil {
		return nil, err
	}
	actx, done := stop.watch(ctx)
	defer done()
	out, err := r.conclude(ctx, actx, stop, t)
	if err != nil || t.Result.End != agent.Cancelled {
		return out, err
	}
	if len(t.changed) > 0 { // the run that goes on with it has not been told to stop
		return nil, r.warn("the interrupted iteration left changes, which the next one goes on from: " + workspace.Paths(t.changed))
	}
	return nil, nil
}

// conclude takes an iteration from the end of its agent to what it is followed by. ctx is the run's, actx
// ends also when somebody asks to stop at once.
func (r *Repeat) conclude(ctx, actx context.Context, stop *stopper, t *turn) (*Outcome, error) {
	if err := r.gatherErrors(t.log); err != nil {
		return nil, err
	}
	if err := r.mend(t.log, "attempt"); err != nil {
		return nil, err
	}
	if err := r.repair(ctx, t, "attempt"); err != nil {
		return nil, err
	}
	if e := r.history.Prompt.Agent; e != nil { // a loop that died since had recorded it
		if e.Detail != nil {
			t.seen = gitops.Tree(e.Detail.Tree)
		}
	} else {
		if err := r.lookBetween(context.WithoutCancel(ctx), t); err != nil {
			return nil, err
		}
		e := r.event(journal.AgentFinished, t)
		e.Reason = t.Result.Reason
		e.Detail = agentDetail(t.Result, t.with, maxFinal)
		e.Detail.Tree = string(t.seen)
		if err := r.record(withNotes(e)...); err != nil {
			return nil, err
		}
	}
	if err := r.countEdits(t); err != nil {
		return nil, err
	}
	if err := r.verify(actx, t); err != nil {
		return nil, err
	}
	if err := r.runChecks(actx, t); err != nil {
		return nil, err
	}
	if err := r.mend(t.log, "verification"); err != nil {
		return nil, err
	}
	if t.check != nil || t.checks != nil || t.Result.Reason == verifyCancelled {
		if err := r.repair(ctx, t, "verification"); err != nil {
			return nil, err
		}
	}
	if err := r.takeLoopFile(t); err != nil {
		return nil, err
	}
	gctx := context.WithoutCancel(ctx) // the work is kept, whatever stopped the agent
	if err := r.lookAfter(ctx, stop, t); err != nil {
		return nil, err
	}
	if err := r.checkpoint(gctx, t); err != nil {
		return nil, err
	}
	t.Facts, t.Watched = r.facts(t), t.after != ""
	out, err := r.judge(ctx, stop, t)
	r.spent(t)
	return out, err
}

// maxFinal bounds, in bytes, what the journal keeps of the final message, which a resumed loop looks for
// the promise in: all that is read of it.
const maxFinal = 16 << 10

// verifies reports whether the verify command is run after an iteration.
func (r *Repeat) verifies(t *turn) bool {
	f, command := r.job.Mode.Checks, r.job.Config.VerificationCommand
	return (f == nil || f(t.Turn)) && command != "" && command != NoVerify && t.Result.End == agent.Finished
}

func (r *Repeat) verify(ctx context.Context, t *turn) error {
	command := r.job.Config.VerificationCommand
	if !r.verifies(t) {
		return nil
	}
	if err := r.record(r.event(journal.VerifyStarted, t)); err != nil {
		return err
	}
	r.guard.repaired = false
	res, err := r.tools.Verify.Run(ctx, Timed(&r.job.Config, verify.Request{Label: label(t, "verify"), Command: command, Dir: r.job.Dir, Env: r.environment(t),
		Log: t.log, Mask: r.tools.Mask}))
	if err != nil {
		return fmt.Errorf("verify iteration %d: %w", t.Iteration, err)
	}
	if res.Cancelled { // it says nothing of the work
		t.Result.End, t.Result.Reason = agent.Cancelled, verifyCancelled
		return nil
	}
	t.check = &res
	e := r.event(journal.VerifyFinished, t)
	e.Detail = verifyDetail(res)
	return r.record(e)
}

// verifyCancelled is why an iteration is over whose verification was.
const verifyCancelled = "verify was cancelled"

// facts are what the gate is told.
func (r *Repeat) facts(t *turn) gate.Facts {
	f := gate.Facts{Iteration: t.Iteration, Final: t.Result.Final, OutputBytes: t.Result.Bytes, Now: r.tools.Now(), CostUSD: r.history.Cost.USD,
		Unwatched: t.after == "", Checks: t.checks, State: t.file, Edits: t.edits}
	for _, c := range t.changed {
		if !ours(c.Path) {
			f.Changed = append(f.Changed, c.Path)
		}
	}
	if t.Result.End != agent.Finished {
		f.Err = orElse(t.Result.Reason, string(t.Result.End))
	}
	if v := t.check; v != nil {
		f.Verify = &gate.Check{Name: r.job.Config.VerificationCommand, Passed: v.Passed, Output: v.Tail}
		if !v.Passed && r.job.Config.Promised() && f.Err == "" {
			f.Err = v.Reason()
		}
	}
	return f
}

// request is the agent's side of an iteration.
func (r *Repeat) request(t *turn, prompt string) agent.Request {
	c := r.job.Config
	q := agent.Request{Label: label(t, "agent"), Backend: t.with.Backend, Prompt: prompt, PromptFile: r.promptFile(), Dir: r.job.Dir, Env: r.environment(t),
		Log: t.log, ErrLog: r.errLog(), Mask: r.tools.Mask, Timeout: seconds(c.TimeoutSecs), Idle: seconds(c.IdleTimeoutSecs), Grace: grace,
		Clocks: agent.Clocks{Start: seconds(c.StartTimeoutSecs), Exit: seconds(c.ExitGraceSecs), Spin: c.SpinLimit},
		Model:  t.with.Model, Promise: c.CompletionPromise}
	if c.ContinueSession && t.with.Backend == c.Backend.Type { // another knows nothing of that conversation
		q.Session = r.history.Prompt.Session
	}
	return q
}

func (r *Repeat) errLog() string     { return r.home.Run(r.state.ID) + "/stderr" }
func (r *Repeat) promptFile() string { return r.home.Run(r.state.ID) + "/prompt.md" }

// label names a process in the exit file, for the loop that may have to take it up again.
func label(t *turn, what string) string {
	return fmt.Sprintf("iteration %d %d %s", t.Iteration, t.Try, what)
}

func (r *Repeat) environment(t *turn) []string {
	return []string{"DESCARTES_LOOP_ID=" + r.state.ID, "DESCARTES_ITERATION=" + strconv.Itoa(t.Iteration),
		"DESCARTES_ATTEMPT=" + strconv.Itoa(t.Try), "DESCARTES_PROMPT_FILE=" + r.promptFile(),
		"DESCARTES_TAG=", "DESCARTES_TASK_ID=", "SCUD_TASK_ID=", "DESCARTES_WAVE="} // not those of a loop that we run in
}

// gatherErrors adds what the agent printed on standard error to the iteration's log.
func (r *Repeat) gatherErrors(log string) error { return gatherInto(log, r.errLog()) }

// mend puts the settings, the journal and the lock back where an agent changed them or cleared them away; who is the part of the
// iteration that may have.
func (r *Repeat) mend(log, who string) error {
	notes, err := r.fixed.putBack(r.tools.FS, who, strings.TrimSuffix(log, ".log")+".changed")
	for _, n := range notes {
		err = errors.Join(err, r.warnUndone(n))
	}
	if err != nil {
		return err
	}
	healed, err := r.journal.Heal()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(r.lock.f.Path()); err != nil {
		again, err := takeLock(context.Background(), r.lock.f.Path(), lockWait, r.who)
		if err != nil {
			return err
		}
		if err := errors.Join(r.lock.release()); err != nil {
			return err
		}
		r.lock = again
	}
	if !healed {
		return nil
	}
	if err := r.home.Make(r.tools.FS); err != nil {
		return err
	}
	return r.warnUndone("the " + who + " meddled with " + r.relative(r.journal.Path()) + ", which is put back")
}

// event begins an event about an iteration.
func (r *Repeat) event(what journal.Type, t *turn) *journal.Event {
	return &journal.Event{Type: what, Iteration: t.Iteration, Attempt: t.Try, Of: t.Max}
}

// gatherInto appends what an agent printed on standard error to a log.
func gatherInto(log string, errLog string) (err error) {
	fi, err := os.Stat(errLog)
	if err != nil || fi.Size() == 0 {
		return nil // an agent that was never started has none
	}
	src, err := os.Open(errLog)
	if err != nil {
		return fmt.Errorf("read what the agent printed: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close(), os.Truncate(errLog, 0)) }()
	dst, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write the attempt's log: %w", err)
	}
	if _, err = dst.WriteString("\n--- standard error of the agent ---\n"); err == nil {
		_, err = io.Copy(dst, src)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("write the attempt's log: %w", err)
	}
	return nil
}
