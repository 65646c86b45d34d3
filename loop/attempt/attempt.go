// Package attempt runs one attempt at a piece of work: an agent, the verify command, and the verdict. Its input and
// result are plain data, so that another machine can run it. It knows no other attempt and no journal.
package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/redact"
	"descartes/loop/slot"
	"descartes/verify"
)

// Agent runs one coding agent, of the kind the request names, once.
type Agent interface {
	Run(ctx context.Context, r agent.Request) (agent.Result, error)
}

// Verifier runs the verify command, once.
type Verifier interface {
	Run(ctx context.Context, r verify.Request) (verify.Result, error)
}

// Workspace is where an attempt runs; see package workspace.
type Workspace interface {
	Dir() string
	Files() string // where the files of Dir really are
	Repair(ctx context.Context, who string) (notes []string, err error)
	Look(ctx context.Context) (slot.Result, error)
	Result(ctx context.Context, verified bool) (slot.Result, error)
	Restore(ctx context.Context, to gitops.Tree) error
}

// Clocks limit how long a run takes; 0 is no limit.
type Clocks struct {
	Timeout, Idle time.Duration
	Start, Exit   time.Duration // of an agent: time until its first event, and from its last event to its exit
	Spin          int           // an agent's steps in a row that accomplish nothing
}

// Input is everything an attempt needs. It survives JSON.
type Input struct {
	Name    string // of the attempt's processes, in errors
	Backend string
	Model   string
	Promise string
	Session string        // a conversation to continue; "" starts a new one
	Spent   *agent.Tokens // what that conversation has used so far
	Keep    bool          // the conversation may be continued later
	Prompt  string
	Words   int // how many bytes of the agent's last message to keep; 0: the default
	Env     []string
	Log     string
	Agent   Clocks

	Needs   []string    // labels of the machines that may make it
	Checks  []Command   // checks of the work, in this order
	All     bool        // run the remaining checks after one has failed
	Again   bool        // another attempt follows a failure: one that used no tool and only asks is one
	Better  bool        // fail unless a test went from red to green or was added, if that is known
	Always  bool        // verify whatever an agent that ended well did and said
	Clocks  Clocks      // of the checks
	Guard   *Guard      // what it must not do to its checks; nil: anything
	Holdout *Holdout    // checks that no agent sees; nil: none
	Prove   bool        // the tests it adds must fail without the rest of its work
	Careful bool        // and something has to be red without its work, also where it adds no test
	Review  *Review     // what to ask a second agent; nil: nothing
	Base    gitops.Tree // before the first attempt at the same work: looks judge everything since; "" without git
	First   gitops.Tree // before the run's first attempt; "" where later work may take back earlier work
}

// Result is the result of an attempt. It survives JSON.
type Result struct {
	Agent   agent.Result
	Verify  *verify.Result // the deciding check: the first that failed, else the last; nil: none ran
	Checks  []Ran          // all that ran, in order
	Work    slot.Result
	Changed int // files that differed when the agent ended: later build output is not work
	Verdict verify.Verdict
	// of one that met a limit: whoever made it keeps the next one from asking the same account too early
	Paced bool
	// why what another machine sent cannot be taken: its work is nothing, then
	Untaken string
	Grade   verify.Grade // of verified work; "" is the best grade, or unknown
	Reason  string
	Proof   string // what its tests came to, in words; "" where no single results are known from before

	Looks     []Looked   // the looks that examined it, in order
	Objection *Objection // the last look's objection, or nil
}

// Moment is the kind of a step.
type Moment int

// The moments of an attempt, in order. Ended may occur twice, Started and Checked once per command.
const (
	Waits     Moment = iota - 1 // no other machine has it yet
	Placed                      // another machine has it
	Ended                       // the processes of a part of it are dead
	Answered                    // the agent's result is known
	Started                     // a command begins
	Checked                     // it has ended
	Looking                     // a look runs something
	Consulted                   // an agent that a look asked has ended
	Noted                       // something a person should know
)

// Step is one moment of an attempt, reported while it runs.
type Step struct {
	Moment Moment
	Number int    // of a step that another machine reports: from 1
	Ref    string // of Placed: tells what that machine reports from what another one did
	// of Waits: what for; of Placed: the machine; of Ended: the part of it; of Looking, Consulted and of what a look
	// notes: the look
	Who     string
	Until   time.Time // of Waits; zero where nobody knows
	Lines   []string  // Noted
	Command Command   // Started, Checked
	Result  *Result   // so far
	Verify  verify.Result
	Agent   *agent.Result // Consulted
	With    With          // Consulted: what the agent ran with
	Tree    gitops.Tree   // Consulted: the tree it was asked about
	Log     string        // Consulted: the agent's log
}

// Runner runs attempts, one after the other.
type Runner struct {
	Agent   Agent
	Verify  Verifier
	Redact  *redact.Redactor  // secrets never to print or record; nil: none
	Dir     string            // folder for the prompt and the running agent's standard error
	Grace   time.Duration     // the time a process has to end before it is killed; 0 is Grace
	Observe func(*Step) error // called with each step; an error ends the attempt without a result

	Looks []Look       // examine what the verify command passed
	Repo  *gitops.Repo // has the trees they read; nil without git
	Lab   Lab          // nil without git
	Below string       // folder commands run in, below the repository's top; "." is the top

	// Choose picks what a consulted agent runs with now; among is sorted best first. It waits if the providers require
	// it, and returns ErrRunEnds if the run ends instead. If nil, the first is taken.
	Choose func(ctx context.Context, among []With) (With, error)
}

// Grace is the time a process has to end before it is killed, unless a Runner says otherwise.
const Grace = 5 * time.Second

// PromptFile holds the prompt of the current attempt.
func (r *Runner) PromptFile() string { return filepath.Join(r.Dir, "prompt.md") }

func (r *Runner) errors() string { return filepath.Join(r.Dir, "stderr") }

// run is the current attempt.
type run struct {
	*Runner
	ws      Workspace
	in      *Input
	observe func(*Step) error
	res     Result
}

// Run runs an attempt in a prepared workspace: Make, then Judge.
func (r *Runner) Run(ctx context.Context, ws Workspace, in Input, observe func(*Step) error) (Result, error) {
	res, err := r.Make(ctx, ws, in, observe)
	if err != nil {
		return res, err
	}
	return r.Judge(ctx, ws, in, res, observe)
}

// Make runs an attempt's agent in a prepared workspace. Cancelling ctx interrupts its processes; what they left is
// still examined. observe is called with each step; its error ends the attempt without a result.
func (r *Runner) Make(ctx context.Context, ws Workspace, in Input, observe func(*Step) error) (Result, error) {
	a := &run{Runner: r, ws: ws, in: &in, observe: observe}
	if err := a.agent(ctx); err != nil {
		return a.res, err
	}
	gctx, done := Linger(ctx) // keep the work, whatever stopped the agent
	defer done()
	if err := a.over(gctx, "attempt"); err != nil {
		return a.res, err
	}
	return a.res, a.answered(gctx)
}

// Judge runs the checks and the looks on what an agent made, and reaches the verdict. ctx and observe are as in Make.
func (r *Runner) Judge(ctx context.Context, ws Workspace, in Input, made Result, observe func(*Step) error) (Result,
	error) {
	a := &run{Runner: r, ws: ws, in: &in, observe: observe, res: made}
	gctx, done := Linger(ctx)
	defer done()
	ran, err := a.commands(ctx)
	if err != nil {
		return a.res, err
	}
	if ran {
		if err := a.over(gctx, "verification"); err != nil {
			return a.res, err
		}
	}
	if a.res.Work, err = ws.Result(gctx, ran); err != nil {
		return a.res, err
	}
	a.conclude()
	if err := a.looks(ctx); err != nil {
		return a.res, err
	}
	if why := a.res.Unfit(); why != "" && a.res.Verdict == verify.Verified {
		a.res.Verdict, a.res.Reason = verify.Failed, why
	}
	return a.res, a.noted()
}

// agent runs the agent.
func (a *run) agent(ctx context.Context) (err error) {
	q := a.request(a.in, "agent", a.PromptFile())
	q.Dir = a.ws.Dir()
	a.res.Agent, err = a.Agent.Run(ctx, q)
	if err == nil && a.res.Agent.Gone {
		err = a.anew(ctx, q)
	}
	if err != nil {
		return fmt.Errorf("run the agent: %w", err)
	}
	return a.gather(q)
}

// Killed completes the log of an attempt whose run was killed before it could mask its prompt and the agent's standard
// error, which it adds to the log. Who resumes the run has masked that.
func (r *Runner) Killed(log string) error {
	for _, path := range []string{r.PromptFile(), r.errors()} {
		if _, err := r.Redact.Log(path, 0, 0); err != nil {
			return err
		}
	}
	return r.gather(agent.Request{Log: log, ErrLog: r.errors()})
}

// anew runs a fresh agent, because the client no longer has the session that was to continue.
func (a *run) anew(ctx context.Context, q agent.Request) (err error) {
	if err := a.gather(q); err != nil {
		return err
	}
	if err := a.tell(Step{Moment: Noted,
		Lines: []string{"a fresh agent: its client no longer has the session to continue (" +
			oneline.Text(a.res.Agent.Reason) + ")"}}); err != nil {
		return err
	}
	if fi, err := os.Stat(q.Log); err == nil {
		q.Offset = fi.Size()
	}
	q.Session = ""
	a.res.Agent, err = a.Agent.Run(ctx, q)
	a.res.Agent.Gone = true
	return err
}

// request is the agent's part of an attempt; part says what the agent is run for.
func (r *Runner) request(in *Input, part, file string) agent.Request {
	return agent.Request{Label: in.Name + " " + part, Backend: in.Backend, Model: in.Model, Promise: in.Promise,
		Session: in.Session, Spent: in.Spent, Keep: in.Keep, Words: in.Words,
		Prompt: in.Prompt, PromptFile: file, Env: r.environment(in), Log: in.Log, ErrLog: r.errors(), Redact: r.Redact,
		Timeout: in.Agent.Timeout, Idle: in.Agent.Idle, Grace: cmp.Or(r.Grace, Grace),
		Clocks: agent.Clocks{Start: in.Agent.Start, Exit: in.Agent.Exit, Spin: in.Agent.Spin}}
}

func (r *Runner) environment(in *Input) []string {
	return append(in.Env[:len(in.Env):len(in.Env)], "DESCARTES_PROMPT_FILE="+r.PromptFile())
}

// gather appends the agent's standard error to the attempt's log.
func (r *Runner) gather(q agent.Request) (err error) {
	fi, err := os.Stat(q.ErrLog)
	if err != nil || fi.Size() == 0 {
		return nil // the agent never started
	}
	src, err := os.Open(q.ErrLog)
	if err != nil {
		return fmt.Errorf("read what the agent printed: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close(), os.Truncate(q.ErrLog, 0)) }()
	dst, err := os.OpenFile(q.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
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

// tell reports a step.
func (a *run) tell(s Step) error {
	s.Result = &a.res
	return a.observe(&s)
}

// over undoes forbidden changes after a part of the attempt.
func (a *run) over(ctx context.Context, who string) error {
	if err := a.tell(Step{Moment: Ended, Who: who}); err != nil {
		return err
	}
	notes, err := a.ws.Repair(ctx, who)
	if len(notes) > 0 {
		err = errors.Join(err, a.tell(Step{Moment: Noted, Lines: notes}))
	}
	return err
}

// answered examines what the agent left and reports its end.
func (a *run) answered(ctx context.Context) (err error) {
	if a.res.Work, err = a.ws.Look(ctx); err != nil {
		return err
	}
	a.res.Changed = len(a.res.Work.Changed)
	if r := &a.res.Agent; r.End == agent.Finished && a.res.Changed == 0 && !r.Complete && r.Blocked == "" &&
		r.Question == "" && !a.in.Always {
		r.Question = agent.ToReader(r.Final) // whoever did nothing has a reason
	}
	return a.tell(Step{Moment: Answered})
}

// conclude reaches the verdict, and for a task its grade.
func (a *run) conclude() {
	r := &a.res.Agent
	if a.in.Again && r.Idle && a.res.Changed == 0 && r.Blocked == "" { // its prompt may never have come to it
		r.Question = ""
	}
	a.res.Verdict, a.res.Reason, _ = a.res.verdict(a.in, a.res.Verify, !a.in.decided())
	if a.res.Verdict != verify.Verified || a.in.Always {
		return
	}
	if a.res.Grade = a.res.grade(); a.res.Grade == verify.RegressionOnly && a.in.Better {
		a.res.Verdict, a.res.Reason, a.res.Grade = verify.Failed, NotBetter, ""
		return
	}
	if text := a.res.Remarks(); text != "" {
		a.res.Reason += ": " + text
	}
}

// Made says what an agent's run came to by itself, before any check: what is verified so far is to be checked. silent:
// it failed because it did nothing and said nothing.
func (r *Result) Made(in *Input) (v verify.Verdict, why string, silent bool) {
	return r.verdict(in, &verify.Result{Passed: true}, false)
}

// verdict judges an attempt. It fails if its work is lost, if its git took back earlier work, or if it made something no
// commit can contain.
func (r *Result) verdict(in *Input, check *verify.Result, none bool) (v verify.Verdict, why string,
	silent bool) {
	facts := verify.Facts{AgentEnd: string(r.Agent.End), AgentReason: r.Agent.Reason,
		Blocked: r.Agent.Blocked, Question: oneline.Text(r.Agent.Question), Complete: r.Agent.Complete,
		Changed: r.Changed > 0, Verify: check, None: none}
	v, why = verify.Judge(facts)
	silent = v == verify.Failed && facts.IsSilent()
	if lost := cmp.Or(r.Work.Lost, r.Work.TookBack); lost != "" && (v == verify.Verified || v == verify.Failed) {
		v, why, silent = verify.Failed, lost, false
	}
	if r.Work.Removed && !in.Always {
		v, why, silent = verify.Cancelled, r.Work.Lost, false
	}
	if out := r.leftOut(); out != "" && (v == verify.Verified || silent) {
		v, why, silent = verify.Failed, out, false
	}
	if text := strings.TrimSpace(r.Agent.Final); silent && text != "" {
		why += "; " + verify.Said + oneline.Clip(oneline.Text(text[strings.LastIndexByte(text, '\n')+1:]), 200)
	}
	return v, why, silent
}

// NotBetter is the reason of an attempt that passes without proving anything although the settings require proof.
const NotBetter = "verify passed, but no test went from red to green and none was added (require: verified)"

// noted reports what a person should know about what the attempt left.
func (a *run) noted() error {
	if lines := a.res.Work.Notes(); len(lines) > 0 {
		return a.tell(Step{Moment: Noted, Lines: lines})
	}
	return nil
}

// lingering is how long a run that has to stop still examines what its attempt left. What takes longer, such as files
// of many gigabytes, is left to the run that resumes it.
const lingering = 10 * time.Second

// Linger returns a context that outlasts ctx by that time.
func Linger(ctx context.Context) (_ context.Context, done func()) {
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
