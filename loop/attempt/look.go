package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/verify"
)

// Look examines an attempt that passed the verify command. The first look that objects ends the attempt.
type Look struct {
	Name string               // in journals and reports
	On   func(in *Input) bool // whether it is configured for the attempt
	At   func(ctx context.Context, s *Subject) (*Objection, error)
}

// Looks are all looks in the order in which they run, cheap ones first.
func Looks() []Look {
	return []Look{
		{Name: "guard", On: guards, At: guarded},
		{Name: "holdout", On: func(in *Input) bool { return in.Holdout != nil }, At: heldOut},
		{Name: "prove", On: func(in *Input) bool { return in.Prove }, At: prove},
		reviewLook,
	}
}

var reviewLook = Look{Name: "review", On: func(in *Input) bool { return in.Review != nil }, At: review}

// Objection is why a look does not let a verified attempt pass.
type Objection struct {
	By     string // the look's name
	Reason string // in one line; if it asks, the question
	Detail string // for the spec of the next attempt, or beside the question
	Ask    bool   // a person decides: the task is blocked until then
}

// Question is what to ask a person.
func (o *Objection) Question() string {
	if o.Detail == "" {
		return o.Reason
	}
	return o.Reason + "\n\n" + o.Detail
}

// Looked is the result of one look.
type Looked struct {
	Name    string
	Objects bool          // see Result.Objection
	Said    []string      // what a person should know, each in one line
	Shown   []string      // evidence that needs nobody's attention
	Agent   *agent.Result // the agent it consulted, or nil
	With    With          // what that agent ran with
	Took    time.Duration
}

// Subject is the attempt that a look examines.
type Subject struct {
	*Runner
	Workspace Workspace
	Input     *Input
	Result    *Result // its Work has the trees; only the framework writes here

	run    *run
	looked *Looked
	long   bool
}

// Note records a line for people with the look's result, and shows it at once.
func (s *Subject) Note(line string) error {
	line = oneline.Text(line)
	s.looked.Said = append(s.looked.Said, line)
	return s.run.tell(Step{Moment: Noted, Who: s.looked.Name, Lines: []string{line}})
}

// Show records a line of evidence with the look's result.
func (s *Subject) Show(line string) { s.looked.Shown = append(s.looked.Shown, oneline.Text(line)) }

// Working reports, once, that the look runs something slow.
func (s *Subject) Working() error {
	if s.long {
		return nil
	}
	s.long = true
	return s.run.tell(Step{Moment: Looking, Who: s.looked.Name})
}

// Tree is the work as a commit will contain it: without what only the verify command made.
func (s *Subject) Tree(ctx context.Context) (gitops.Tree, error) {
	return s.Repo.TreeWith(ctx, s.Result.Work.After, s.Result.Work.Before, s.Result.Work.Left)
}

// Lab runs commands on trees, one at a time, in a slot of its own that attempts never use. It returns the text of the
// file that the command leaves in its folder; nil: it left none.
type Lab interface {
	Run(ctx context.Context, x Experiment) (verify.Result, []byte, error)
}

// Experiment is a command for the lab to run on a tree.
type Experiment struct {
	Name   string // of its processes
	Tree   gitops.Tree
	Base   gitops.Tree // the tree in its HEAD; "" for the same
	Check  verify.Check
	Env    []string
	Log    string
	Clocks Clocks
	Held   bool // it sees the held-out checks
	Known  bool // a pass known from before is enough
	How    verify.How
	Leaves string // the file that is wanted of it, "" for none
}

// like is a check on a tree as the attempt's own ran: with its environment and clocks, and a log beside the attempt's.
func (s *Subject) like(tree gitops.Tree, c verify.Check, part string) Experiment {
	return Experiment{Name: s.Input.Name + " " + part, Tree: tree, Check: c, Env: s.Input.Env,
		Log: strings.TrimSuffix(s.Input.Log, ".log") + ".lab.log", Clocks: s.Input.Clocks}
}

// inLab is Lab.Run, but a request to stop is an error, since nothing is known then.
func (s *Subject) inLab(ctx context.Context, x Experiment) (verify.Result, []byte, error) {
	if err := s.Working(); err != nil {
		return verify.Result{}, nil, err
	}
	res, text, err := s.Lab.Run(ctx, x)
	if err == nil && res.Cancelled {
		err = context.Canceled
	}
	return res, text, err
}

// Passed reports whether the verify command, if it ran, and the looks let the work pass.
func (r *Result) Passed() bool {
	return r.Objection == nil && (r.Verify == nil || r.Verify.Passed)
}

// Unfit says why an attempt's work may be in no commit, "" where it may. It decides for tasks and iterations alike, and
// with every gate: what an agent says of its work takes nothing in.
func (r *Result) Unfit() string {
	switch v := r.Verify; {
	case r.Agent.End != agent.Finished:
		return cmp.Or(r.Agent.Reason, string(r.Agent.End))
	case r.Agent.Blocked != "":
		return "the agent is blocked: " + r.Agent.Blocked
	case r.Work.Lost != "" || r.Work.TookBack != "":
		return cmp.Or(r.Work.Lost, r.Work.TookBack)
	case r.Objection != nil:
		return r.Objection.Reason
	case v != nil && !v.Passed:
		return v.Reason()
	}
	return r.leftOut()
}

// leftOut says what the attempt made, and a check may have passed with, that no commit can contain; "" for nothing.
func (r *Result) leftOut() string {
	if len(r.Work.LeftOut) == 0 {
		return ""
	}
	return "it left what no commit can contain: " + gitops.Reasons(r.Work.LeftOut)
}

// looks runs the looks on an attempt that passed. An iteration of a prompt is examined whatever its agent said: its
// gate may end the loop without the agent's word.
func (a *run) looks(ctx context.Context) error {
	r := &a.res
	if r.Verdict != verify.Verified && !(a.in.Always && r.Verdict != verify.Cancelled && r.Work.Lost == "" &&
		r.Work.TookBack == "" && r.Agent.End == agent.Finished && r.Passed()) {
		return nil
	}
	for _, look := range a.Looks {
		if !look.On(a.in) {
			continue
		}
		if ends, err := a.look(ctx, look); ends || err != nil {
			return err
		}
	}
	return nil
}

// look runs one look, and reports whether it is the last: it objects, or was stopped.
func (a *run) look(ctx context.Context, look Look) (last bool, err error) {
	r := &a.res
	s := &Subject{Runner: a.Runner, Workspace: a.ws, Input: a.in, Result: r, run: a, looked: &Looked{Name: look.Name}}
	began := time.Now()
	objection, err := look.At(ctx, s)
	stopped := errors.Is(err, context.Canceled) && ctx.Err() != nil || errors.Is(err, ErrRunEnds)
	if err != nil && !stopped {
		return true, fmt.Errorf("%s: %w", look.Name, err)
	}
	s.looked.Took, s.looked.Objects = time.Since(began), objection != nil && !stopped
	r.Looks = append(r.Looks, *s.looked)
	switch {
	case stopped:
		r.Verdict, r.Reason = verify.Cancelled, look.Name+" was cancelled"
	case objection != nil:
		a.object(look.Name, objection)
	}
	return stopped || objection != nil, nil
}

// Reviewed has only the review look at what an attempt made and its checks passed.
func (r *Runner) Reviewed(ctx context.Context, ws Workspace, in Input, made Result,
	observe func(*Step) error) (Result, error) {
	a := &run{Runner: r, ws: ws, in: &in, observe: observe, res: made}
	_, err := a.look(ctx, reviewLook)
	return a.res, err
}

func (a *run) object(by string, o *Objection) {
	o.By, o.Reason = by, oneline.Text(o.Reason)
	a.res.Objection, a.res.Verdict, a.res.Reason = o, verify.Failed, o.Reason
	if o.Ask {
		a.res.Verdict, a.res.Reason = verify.Blocked, by+" asks: "+o.Reason
	}
}
