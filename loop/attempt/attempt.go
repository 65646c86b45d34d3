// Package attempt runs one attempt at a piece of work: an agent, the verify command, and the verdict. What it is given and what it returns
// is plain data, so that another machine can make it. It knows no other attempt and no journal.
package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/redact"
	"descartes/loop/workspace"
	"descartes/verify"
)

// Agent runs one coding agent, once: that of the kind which the request names.
type Agent interface {
	Run(ctx context.Context, r agent.Request) (agent.Result, error)
	// Recall tells how the run of a dead loop ended, if it ended by itself.
	Recall(r agent.Request, exitFile string) (agent.Result, bool)
}

// Verifier runs the verify command, once.
type Verifier interface {
	Run(ctx context.Context, r verify.Request) (verify.Result, error)
}

// Workspace is where an attempt runs, as package workspace has it.
type Workspace interface {
	Dir() string
	Files() string // where the files of Dir really are
	Running()
	Repair(ctx context.Context, who string) (notes []string, err error)
	Look(ctx context.Context) (workspace.Result, error)
	Result(ctx context.Context, verified bool) (workspace.Result, error)
	Restore(ctx context.Context, to gitops.Tree, since time.Time) (workspace.Restored, error)
}

// Clocks say after which times a run is ended; 0 is never.
type Clocks struct {
	Timeout, Idle time.Duration
	Start, Exit   time.Duration // of an agent: until its first event, and from its last one to its exit
	Spin          int           // an agent's steps in a row without anything done
}

// Input is what an attempt is made with. It survives JSON.
type Input struct {
	Name    string // of the attempt's processes, for the loop that may have to adopt it
	Backend string
	Model   string
	Promise string
	Session string        // a conversation to continue; "" starts a new one
	Spent   *agent.Tokens // that conversation's so far
	Keep    bool          // the conversation may be continued later
	Prompt  string
	Words   int // bytes of the agent's last message that are of interest; 0: as many as usual
	Env     []string
	Log     string
	Agent   Clocks

	Needs    []string    // labels of the machines that may make it
	Checks   []Command   // that look at the work, in this order
	All      bool        // run the checks that come after one that has failed, too
	Better   bool        // it fails unless it turned a test from red to green or added one, where that is known
	Always   bool        // verify whatever an agent that ended well has done and said
	Clocks   Clocks      // of those commands
	Guard    *Guard      // of the checks; nil: nobody compares them
	Holdout  *Holdout    // checks that no agent sees; nil: there are none
	Prove    bool        // tests that it brings have to fail without the rest of it
	Strength *Strength   // by what its tests are measured; nil: by nothing
	Mutants  int         // small faults in it that its tests have to notice; 0: none is tried
	Review   *Review     // what a second agent is asked; nil: nothing
	Base     gitops.Tree // before the first attempt at the same work: looks judge everything since; "" without git
	Adopted  *Adopted    // the attempt was begun by a run that was killed
}

// Adopted is the journal's account of an attempt that a killed run had begun.
type Adopted struct {
	Agent   *agent.Result // nil: its agent's end is not in the journal
	Changed int           // files that differed then
}

// Result is what an attempt came to. It survives JSON.
type Result struct {
	Agent   agent.Result
	Verify  *verify.Result // of the check that decided: the first that failed, else the last; nil: none was run
	Checks  []Ran          // all that were run, in their order
	Work    workspace.Result
	Changed int // files that differed when the agent had ended: what a build leaves behind is no work
	Verdict verify.Verdict
	Paced   bool         // of one that met a limit: whoever made it keeps the next one from asking the same account too early
	Grade   verify.Grade // of one that is verified; "" is the best, or not known
	Reason  string

	Looks     []Looked   // those that examined it, in their order
	Objection *Objection // of the last of them; nil: none objects
}

// Moment says what a step tells.
type Moment int

// The moments of an attempt, in their order. Ended and Undone may come twice, Started and Checked once for each command.
const (
	Waits     Moment = iota - 1 // no other machine has it yet
	Placed                      // another machine has it
	Ended                       // the processes of a part of it are dead
	Undone                      // what that part may not do was undone
	Answered                    // the agent's end is known
	Started                     // a command begins
	Checked                     // it has ended
	Looking                     // a look runs something
	Consulted                   // an agent that a look asks has ended
	Noted                       // a person should know
)

// Step is one moment of an attempt, told while it runs.
type Step struct {
	Moment  Moment
	Number  int       // of a step that another machine reports: from 1
	Ref     string    // of Placed: of that machine's reports
	Who     string    // of Waits: what for; of Placed: the machine; of Ended and Undone: the part of it; of Looking, Consulted and of what a look notes: the look
	Until   time.Time // of Waits; zero where nobody knows
	Lines   []string  // of Undone and Noted
	Command Command   // of Started and Checked
	Result  *Result   // so far
	Verify  verify.Result
	Agent   *agent.Result // of Consulted
	With    With          // of Consulted: what it was run with
	Tree    gitops.Tree   // of Consulted: what it was asked about
	Log     string        // of Consulted: its own
}

// Runner makes attempts, one after the other.
type Runner struct {
	Agent   Agent
	Verify  Verifier
	Redact  *redact.Redactor  // of what is printed and recorded nowhere; nil: nothing
	Dir     string            // folder of the prompt and of what the running agent prints on standard error
	Exit    string            // file that tells how the last process ended
	Observe func(*Step) error // hears of each step; an error ends the attempt without a result

	Looks []Look       // at what the verify command has passed
	Repo  *gitops.Repo // whose trees they read; nil without git
	Lab   Lab          // nil without git
	Below string       // where commands run, below the repository's top; "." is that

	// Choose says with which of several an agent may be consulted now, best first; it waits where their providers ask for that. Where the
	// run ends instead that is ErrRunEnds. Nil: with the first.
	Choose func(ctx context.Context, among []With) (With, error)
}

// Grace is what a process is given between the request to end and the kill.
const Grace = 5 * time.Second

// PromptFile holds the prompt of the attempt under way.
func (r *Runner) PromptFile() string { return filepath.Join(r.Dir, "prompt.md") }

func (r *Runner) errors() string { return filepath.Join(r.Dir, "stderr") }

// run is one attempt under way.
type run struct {
	*Runner
	ws      Workspace
	in      *Input
	observe func(*Step) error
	res     Result
}

// Run makes an attempt in a workspace that is prepared for it, or adopts one whose agent ended while nobody ran the loop. The end of ctx
// interrupts its processes; what they left is looked at all the same. observe hears of each step, and ends the attempt without a result by
// an error.
func (r *Runner) Run(ctx context.Context, ws Workspace, in Input, observe func(*Step) error) (Result, error) {
	a := &run{Runner: r, ws: ws, in: &in, observe: observe}
	if err := a.agent(ctx); err != nil {
		return a.res, err
	}
	gctx, done := Linger(ctx) // the work is kept, whatever stopped the agent
	defer done()
	if err := a.over(gctx, "attempt"); err != nil {
		return a.res, err
	}
	if err := a.answered(gctx); err != nil {
		return a.res, err
	}
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
	return a.res, a.noted()
}

// agent runs the agent, or finds out how it ended. The exit file knows that until the verification begins, whose own end then overwrites
// it; from there on the journal knows it.
func (a *run) agent(ctx context.Context) (err error) {
	q := a.request(a.in, "agent", a.PromptFile())
	q.Dir = a.ws.Dir()
	if a.in.Adopted == nil {
		a.res.Agent, err = a.Agent.Run(ctx, q)
		if err == nil && a.res.Agent.Gone {
			err = a.anew(ctx, q)
		}
		if err != nil {
			return fmt.Errorf("run the agent: %w", err)
		}
		return a.gather(q)
	}
	for _, path := range []string{q.Log, q.ErrLog, q.PromptFile} { // whoever would have masked them was killed
		if _, err := a.Redact.File(path, 0); err != nil {
			return err
		}
	}
	res, known := a.Agent.Recall(q, a.Exit)
	switch {
	case known:
		a.res.Agent = res
	case a.in.Adopted.Agent != nil:
		a.res.Agent = *a.in.Adopted.Agent
	default:
		a.res.Agent = agent.Result{End: agent.Cancelled, Code: -1, Reason: "descartes was stopped during this attempt"}
	}
	return a.gather(q)
}

// anew runs a fresh agent in place of one that was to go on in a session which its client does not have any more.
func (a *run) anew(ctx context.Context, q agent.Request) (err error) {
	if err := a.gather(q); err != nil {
		return err
	}
	if err := a.tell(Step{Moment: Noted, Lines: []string{"a fresh agent: its client no longer has the session to continue (" + oneline.Text(a.res.Agent.Reason) + ")"}}); err != nil {
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

// request is the agent's side of an attempt; part says what the agent is run for.
func (r *Runner) request(in *Input, part, file string) agent.Request {
	return agent.Request{Label: in.Name + " " + part, Backend: in.Backend, Model: in.Model, Promise: in.Promise, Session: in.Session, Spent: in.Spent, Keep: in.Keep, Words: in.Words,
		Prompt: in.Prompt, PromptFile: file, Env: r.environment(in), Log: in.Log, ErrLog: r.errors(), Redact: r.Redact,
		Timeout: in.Agent.Timeout, Idle: in.Agent.Idle, Grace: Grace, Clocks: agent.Clocks{Start: in.Agent.Start, Exit: in.Agent.Exit, Spin: in.Agent.Spin}}
}

func (r *Runner) environment(in *Input) []string {
	return append(in.Env[:len(in.Env):len(in.Env)], "DESCARTES_PROMPT_FILE="+r.PromptFile())
}

// gather adds what an agent printed on standard error to the attempt's log.
func (r *Runner) gather(q agent.Request) (err error) {
	fi, err := os.Stat(q.ErrLog)
	if err != nil || fi.Size() == 0 {
		return nil // an agent that was never started has none
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

// tell tells of a step.
func (a *run) tell(s Step) error {
	s.Result = &a.res
	return a.observe(&s)
}

// over undoes what a part of the attempt may not do.
func (a *run) over(ctx context.Context, who string) error {
	if err := a.tell(Step{Moment: Ended, Who: who}); err != nil {
		return err
	}
	notes, err := a.ws.Repair(ctx, who)
	if len(notes) > 0 {
		err = errors.Join(err, a.tell(Step{Moment: Undone, Who: who, Lines: notes}))
	}
	return err
}

// answered looks at what the agent left, and tells of its end, unless a run that was killed since had done so.
func (a *run) answered(ctx context.Context) (err error) {
	if a.res.Work, err = a.ws.Look(ctx); err != nil {
		return err
	}
	if a.res.Changed = len(a.res.Work.Changed); a.in.Adopted != nil && a.in.Adopted.Agent != nil {
		a.res.Changed = a.in.Adopted.Changed
		return nil
	}
	return a.tell(Step{Moment: Answered})
}

// conclude comes to the verdict, and for a task to its grade. An attempt whose work is lost fails, and so does one that made what no commit can hold.
func (a *run) conclude() {
	r := &a.res.Agent
	a.res.Verdict, a.res.Reason = verify.Judge(verify.Facts{AgentEnd: string(r.End), AgentReason: r.Reason, Blocked: r.Blocked, Question: oneline.Text(r.Question),
		Complete: r.Complete, Changed: a.res.Changed > 0, Verify: a.res.Verify, None: !a.in.decided()})
	if lost := a.res.Work.Lost; lost != "" && (a.res.Verdict == verify.Verified || a.res.Verdict == verify.Failed) {
		a.res.Verdict, a.res.Reason = verify.Failed, lost
	}
	if out := a.res.Work.LeftOut; len(out) > 0 && (a.res.Verdict == verify.Verified || a.res.Reason == verify.NoSignal) {
		a.res.Verdict, a.res.Reason = verify.Failed, "it left what no commit can contain: "+workspace.Reasons(out)
	}
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

// NotBetter is the reason of an attempt that passes and proves nothing, where that is required.
const NotBetter = "verify passed, but no test went from red to green and none was added (require: verified)"

// noted tells what a person should know of what the attempt left.
func (a *run) noted() error {
	if lines := a.res.Work.Notes(); len(lines) > 0 {
		return a.tell(Step{Moment: Noted, Lines: lines})
	}
	return nil
}

// lingering is how long a run that has to stop still looks at what its attempt left. What takes longer, such as files
// of many gigabytes, is left to the run that resumes it.
const lingering = 10 * time.Second

// Linger gives a context that outlasts ctx by that time.
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
