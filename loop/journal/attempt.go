package journal

import (
	"slices"
	"strconv"
	"time"
)

// Attempt is one attempt at a task, or one run of an iteration of a prompt loop, as far as it has come. Only State changes it.
type Attempt struct {
	Task      string // "" for an iteration's
	Iteration int    // 0 for a task's
	Number    int    // attempt of the task in this loop, or run of the iteration; from 1
	Of        int    // number of the last one that the task may have, or iterations the loop may have
	Title     string
	Wave      int
	Round     int    // of a candidate: number of the first attempt of its round; else 0
	Slot      int    // slot it runs in; 0 for a folder without git
	Host      string // fleet machine that has it, or had it last; "" for this one
	Waits     string // what it waits for until a machine of a fleet takes it; "" where it does not
	Reports   string // ref of what that machine reports; another ref is another worker, which starts from the beginning
	Steps     int    // of its reports: how many the journal has

	Started time.Time
	Before  string // the tree it began on
	Base    string // the tree before its task's first attempt; set at its end
	Inputs  *Inputs
	Branch  string // HEAD's branch then
	Head    string
	Log     string
	Backend string   // backend it started with
	Model   string   // model asked for; "" for the backend's own choice
	Dir     string   // where its agent runs, if another attempt may continue its session
	From    *Session // another task's session that it continues; nil for a fresh agent

	Phase  Phase
	Look   string    // look that examines it, in PhaseLook
	Since  time.Time // start of the phase
	Passed time.Time // of a candidate: when its checks passed and it began to wait for the others
	Agent  *Detail   // its agent's result; nil while the agent runs
	Checks []*Detail // checks of its work, in order
	Asked  []*Detail // agents that its looks consulted, in order
	Cost   Cost      // of its agent and of consulted ones

	Ended     time.Time // zero until its end; so are the fields below
	Verdict   Verdict   // of a task's attempt
	Decision  Decision  // of an iteration
	Reason    string
	Settled   time.Time // of a verified attempt: when it was integrated or rejected; zero before, and if integration is not a step of its own
	Unfit     bool      // verified, but not integrated: Reason says why
	Delivered string    // of a verified attempt: what it delivers to others
	DiffStat  string    // of any other: its changes
	After     string    // the tree it left
	Ref       string    // ref that keeps it
	Commit    string    // of an iteration
	Paths     []string  // of an iteration: the first paths that its agent changed
	Next      string    // of an iteration: what it adds to the next one's prompt
	Result    *Detail   // measurements of its steps; nil until its end
}

// Place says where an attempt runs; "" for a folder without git.
func (a *Attempt) Place() string {
	switch {
	case a.Waits != "":
		return "waits for " + a.Waits
	case a.Host != "":
		return "on " + a.Host
	case a.Slot > 0:
		return "slot " + strconv.Itoa(a.Slot)
	}
	return ""
}

// Phase is what an attempt is doing.
//
//	agent --the agent ended--> agent --verify began--> verify --the attempt ended--> integrating, if it is verified
//	verify --a look began--> look --the attempt ended--> integrating, if it is verified
//	verify --verify passed--> integrating, of a candidate: it waits for the others
//	any --the run ended, or another began--> open, until a run ends it
type Phase string

const (
	PhaseAgent       Phase = "agent"
	PhaseVerify      Phase = "verify"
	PhaseLook        Phase = "look"
	PhaseIntegrating Phase = "integrating"
	PhaseOpen        Phase = "open" // nobody works on it: its run has ended
)

// Key identifies an attempt within its loop.
type Key struct {
	Task              string
	Iteration, Number int
}

// Key returns the attempt's key.
func (a *Attempt) Key() Key { return Key{a.Task, a.Iteration, a.Number} }

// Over reports whether it has ended; its work may still wait to be integrated.
func (a *Attempt) Over() bool { return a.Verdict != "" || a.Decision != "" }

// Candidate is the attempt's number within its round, from 1; 0 without a round.
func (a *Attempt) Candidate() int {
	if a.Round == 0 {
		return 0
	}
	return a.Number - a.Round + 1
}

// Seconds is how long it took, according to its end.
func (a *Attempt) Seconds() float64 {
	if a.Result == nil {
		return 0
	}
	return a.Result.Seconds
}

// Wait is a wait for a provider.
type Wait struct {
	Since   time.Time
	Until   time.Time // zero if unknown
	Backend string
	Reason  string
}

// follow updates the attempt that an event belongs to.
func (s *State) follow(e *Event) {
	if a := s.Running[keyOf(e)]; a != nil && e.Step > 0 {
		a.Steps = e.Step
	}
	switch e.Type {
	case AttemptStarted, IterationStarted:
		a := &Attempt{Task: e.Task, Iteration: e.Iteration, Number: e.Attempt, Of: e.Of, Title: e.Title, Wave: e.Wave, Round: e.Round, Slot: e.Slot, Started: e.TS, Before: e.Tree,
			Branch: e.Branch, Head: e.Head, Phase: PhaseAgent, Since: e.TS}
		if d := e.Detail; d != nil {
			a.Log, a.Backend, a.Model, a.Dir, a.Inputs = d.Log, d.Backend, d.Model, d.Dir, d.Inputs
		}
		if len(e.Tasks) > 0 {
			from := s.Sessions[e.Tasks[0]]
			a.From = &from
			taken := from
			taken.By = e.Task
			s.Sessions[e.Tasks[0]] = taken
		}
		s.Attempts, s.Running[a.Key()] = append(s.Attempts, a), a
		delete(s.Waiting, e.Task)
	case LimitWaiting:
		w := Wait{Since: e.TS, Reason: e.Reason}
		if d := e.Detail; d != nil {
			w.Backend = d.Backend
			if d.Until != nil {
				w.Until = *d.Until
			}
		}
		s.Waiting[e.Task] = w
	case AttemptWaiting:
		if a := s.Running[keyOf(e)]; a != nil {
			a.Waits, a.Phase = e.Reason, PhaseAgent
		}
	case AttemptPlaced:
		s.placed(e)
	case AgentFinished:
		if a := s.Running[keyOf(e)]; a != nil && e.Detail != nil {
			if a.Agent = e.Detail; a.Phase == PhaseOpen {
				a.Phase, a.Since = PhaseAgent, e.TS
			}
			if a.Cost.Add(e.Detail); e.Detail.Anew {
				a.From = nil
			}
		}
	case VerifyStarted:
		if e.Detail.Apart() {
			s.Baseline = e.TS
		} else {
			a := s.running(e)
			a.Phase, a.Since = PhaseVerify, e.TS
		}
	case VerifyFinished:
		if e.Detail.Apart() {
			s.Baseline = time.Time{}
			return
		}
		a := s.running(e)
		a.checked(e.Detail)
		if e.Round > 0 && e.Detail != nil && e.Detail.Passed {
			a.Phase, a.Since, a.Passed = PhaseIntegrating, e.TS, e.TS
		}
	case LookStarted, LookAnswered:
		if e.Task == "" && e.Iteration == 0 { // of a wave
			return
		}
		if e.Type == LookAnswered {
			s.consulted(e)
			return
		}
		a := s.running(e)
		if a.Phase, a.Since = PhaseLook, e.TS; e.Detail != nil {
			a.Look = e.Detail.Look
		}
	case AttemptFinished, IterationFinished:
		s.ended(s.running(e), e)
	case Integrated:
		a := s.Running[keyOf(e)]
		for i := len(s.Ended) - 1; a == nil && e.Verdict != "" && i >= 0; i-- { // put back
			if s.Ended[i].Key() == keyOf(e) {
				a = s.Ended[i]
			}
		}
		if a != nil {
			if a.Settled = e.TS; e.Verdict != "" {
				a.Unfit, a.Reason = true, NotIntegrated+e.Reason
			}
			if a.Over() { // an iteration is committed before it ends
				delete(s.Running, keyOf(e))
			}
		}
	case TaskDone, TaskBlocked:
		delete(s.Waiting, e.Task)
		for k, a := range s.Running {
			if k.Task == e.Task && a.Over() {
				delete(s.Running, k)
			}
		}
	case BreakerOpened:
		s.BreakerOpenings = append(s.BreakerOpenings, len(s.Ended))
	case LoopStopping:
		s.Stopping = e.TS
	case LoopStarted, LoopResumed, LoopPaused, LoopFinished, LoopRewound:
		if e.Reason == ReasonAnswered { // in the middle of a run
			return
		}
		clear(s.Waiting)
		s.Stopping = time.Time{}
		s.Baseline = time.Time{}
		for k, a := range s.Running {
			if !a.Over() {
				a.Phase, a.Since, a.Waits = PhaseOpen, e.TS, ""
			} else {
				delete(s.Running, k)
			}
		}
	}
}

// placed notes which worker of a fleet has an attempt. A new one starts from the beginning: what a lost one reported counts no more, apart
// from what it cost.
func (s *State) placed(e *Event) {
	a := s.Running[keyOf(e)]
	if a == nil {
		return
	}
	a.Host, a.Waits = e.Host, ""
	if e.Ref != a.Reports {
		a.Reports, a.Steps, a.Agent, a.Checks, a.Asked, a.Look, a.Passed = e.Ref, 0, nil, nil, nil, "", time.Time{}
		a.Phase, a.Since = PhaseAgent, e.TS
		delete(s.checked, a.Key())
		return
	}
	if a.Phase == PhaseOpen { // the run was resumed, and the worker is still there
		if a.Phase, a.Since = PhaseAgent, e.TS; a.Agent != nil {
			a.Phase = PhaseVerify
		}
	}
}

// checked records a check's result. A check that ran again because the run was killed counts once.
func (a *Attempt) checked(d *Detail) {
	if d == nil {
		return
	}
	if at := slices.IndexFunc(a.Checks, func(c *Detail) bool { return c.Check == d.Check && c.Command == d.Command }); at >= 0 {
		a.Checks[at] = d
		return
	}
	a.Checks = append(a.Checks, d)
}

// consulted records the result of an agent that a look asked.
func (s *State) consulted(e *Event) {
	delete(s.Waiting, e.Task)
	if a := s.running(e); e.Detail != nil {
		a.Asked = append(a.Asked, e.Detail)
		a.Cost.Add(e.Detail)
	}
}

// running returns the attempt of an event, even if the events lack its start.
func (s *State) running(e *Event) *Attempt {
	a := s.Running[keyOf(e)]
	if a == nil {
		a = &Attempt{Task: e.Task, Iteration: e.Iteration, Number: e.Attempt, Of: e.Of, Title: e.Title, Wave: e.Wave, Started: e.TS}
		s.Attempts, s.Running[a.Key()] = append(s.Attempts, a), a
	}
	return a
}

func (s *State) ended(a *Attempt, e *Event) {
	a.Base, a.Waits = s.Bases[e.Task], ""
	a.Ended, a.Verdict, a.Decision, a.Reason, a.After, a.Ref = e.TS, e.Verdict, e.Decision, e.Reason, e.Tree, e.Ref
	a.Result, a.Next, a.Paths, a.Commit = e.Detail, e.Next, e.Paths, e.Commit
	s.Ended = append(s.Ended, a)
	switch {
	case e.Type == IterationFinished:
		if a.Reason == "" {
			a.Reason = e.Message
		}
	case a.Verdict == Verified:
		a.Delivered, a.Phase, a.Since = e.Delivered, PhaseIntegrating, e.TS
		return
	default:
		a.DiffStat = e.DiffStat
	}
	delete(s.Running, a.Key())
}

// Outcome is how it ended in a word for people: its verdict, but "accepted" where a person decided and no check.
func (a *Attempt) Outcome() string {
	if a.Verdict == Verified && a.Result != nil && a.Result.Grade == Accepted {
		return string(Accepted)
	}
	return string(a.Verdict)
}

// VerifiedBy returns the task's last attempt that was verified before at, or nil. Times are compared as the journal has them: the monotonic
// readings of two calls of the coarse clock within one tick are in no order.
func (s *State) VerifiedBy(task string, at time.Time) *Attempt {
	for _, a := range slices.Backward(s.Ended) {
		if a.Task == task && a.Verdict == Verified && !a.Unfit && !a.Ended.Round(0).After(at.Round(0)) {
			return a
		}
	}
	return nil
}

// Underway reports whether an attempt or an iteration is at work.
func (s *State) Underway() bool {
	for _, a := range s.Running {
		if a.Phase != PhaseOpen {
			return true
		}
	}
	return false
}

// Interrupted counts the task attempts that a person, a reboot or a kill ended: they count for nothing else.
func (s *State) Interrupted() (n int) {
	for _, a := range s.Attempts {
		if a.Verdict == Cancelled || a.Task != "" && a.Phase == PhaseOpen && !a.Over() {
			n++
		}
	}
	return n
}

// Verifying is when the longest-running verification began, zero if none runs.
func (s *State) Verifying() time.Time {
	since := s.Baseline
	for _, a := range s.Running {
		if a.Phase == PhaseVerify && (since.IsZero() || a.Since.Before(since)) {
			since = a.Since
		}
	}
	return since
}

// WaitsUntil returns the wait that ends first; ok is false if an attempt is at work.
func (s *State) WaitsUntil() (w Wait, ok bool) {
	if s.Underway() {
		return Wait{}, false
	}
	for _, one := range s.Waiting {
		if !ok || one.Until.Before(w.Until) || one.Until.Equal(w.Until) && one.Since.Before(w.Since) {
			w, ok = one, true
		}
	}
	return w, ok
}

func keyOf(e *Event) Key { return Key{e.Task, e.Iteration, e.Attempt} }
