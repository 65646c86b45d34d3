package journal

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Attempt is one attempt at a task, or one run of an iteration of a prompt loop, as far as it has come. Only State
// changes it.
type Attempt struct {
	Key
	Of    int // number of the last one that the task may have, or iterations the loop may have
	Title string
	Wave  int
	Seat
	Start
	Progress
	Finish

	tested bool // its tests are part of what is known
}

// Key identifies an attempt within its loop.
type Key struct {
	Task      string // "" for an iteration's
	Iteration int    // 0 for a task's
	Number    int    // attempt of the task in this loop, or run of the iteration; from 1
}

// Seat is where an attempt runs.
type Seat struct {
	Slot    int    // 0 for a folder without git
	Host    string // fleet machine that has it, or had it last; "" for this one
	Waits   string // what it waits for until a machine of a fleet takes it; "" where it does not
	Reports string // of which try of that machine's its steps are; another one starts from the beginning
	Steps   int    // of its reports: how many the journal has
}

// Start is what an attempt begins with.
type Start struct {
	Begin   *Event // of its beginning; nil if the journal lacks it
	Started time.Time
	Before  string // the tree it began on
	Inputs  *Inputs
	Client  // as asked for
}

// Progress is how far an attempt has come.
type Progress struct {
	Phase  Phase
	Look   string    // look that examines it, in PhaseLook
	Since  time.Time // start of the phase
	Agent  *Detail   // its agent's result; nil while the agent runs
	Checks []*Detail // checks of its work, in order
	Asked  []*Detail // agents that its looks consulted, in order
	Cost   Cost      // of its agent and of consulted ones
}

// Finish is how an attempt ended: all zero until it does.
type Finish struct {
	Ended   time.Time
	Verdict Verdict
	Reason  string
	// of a verified attempt: when it was integrated; zero before, and if integration is not a step of its own
	Settled time.Time
	Changes string  // of a task's: files by name if it was verified, else a diff stat
	Base    string  // the tree before its task's first attempt
	After   string  // the tree it left
	Ref     string  // ref that keeps it
	Commit  string  // of an iteration
	Result  *Detail // measurements of its steps
}

// Place is that in words; "" for a folder without git.
func (a *Seat) Place() string {
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
//	any --the run ended, or another began--> open, until a run ends it
type Phase string

const (
	PhaseAgent       Phase = "agent"
	PhaseVerify      Phase = "verify"
	PhaseLook        Phase = "look"
	PhaseIntegrating Phase = "integrating"
	PhaseOpen        Phase = "open" // nobody works on it: its run has ended
)

// Over reports whether it has ended; its work may still wait to be integrated.
func (a *Attempt) Over() bool { return a.Verdict != "" }

// Seconds is how long it took, according to its end.
func (a *Attempt) Seconds() float64 {
	if a.Result == nil {
		return 0
	}
	return a.Result.Seconds
}

// checked records a check's result. A check that ran again because the run was killed counts once.
func (a *Attempt) checked(d *Detail) {
	if at := slices.IndexFunc(a.Checks, func(c *Detail) bool {
		return c.Check == d.Check && c.Command == d.Command
	}); at >= 0 {
		a.Checks[at] = d
		return
	}
	a.Checks = append(a.Checks, d)
}

// Attempt returns the last attempt with a key, or nil.
func (s *State) Attempt(k Key) *Attempt {
	for _, a := range slices.Backward(s.Attempts) {
		if a.Key == k {
			return a
		}
	}
	return nil
}

// Runs reports whether an attempt has begun, and is neither integrated nor otherwise ended.
func (s *State) Runs(a *Attempt) bool { return slices.Contains(s.Running, a) }

// RunningOf returns the attempt with a key that runs, or nil.
func (s *State) RunningOf(k Key) *Attempt {
	if at := slices.IndexFunc(s.Running, func(a *Attempt) bool { return a.Key == k }); at >= 0 {
		return s.Running[at]
	}
	return nil
}

// attempted reports whether an attempt at a task has not ended.
func (s *State) attempted(task string) bool {
	return slices.ContainsFunc(s.Running, func(a *Attempt) bool { return a.Task == task && !a.Over() })
}

// stop takes an attempt out of those that run.
func (s *State) stop(a *Attempt) {
	s.Running = slices.DeleteFunc(s.Running, func(b *Attempt) bool { return a == b })
}

// begin adds an attempt that an event begins.
func (s *State) begin(e *Event) {
	a := s.add(e)
	a.Begin, a.Before, a.Phase, a.Since = e, e.Tree, PhaseAgent, e.TS
	if d := e.Detail; d != nil {
		a.Client, a.Inputs = d.Client, d.Inputs
	}
}

func (s *State) add(e *Event) *Attempt {
	s.stop(s.running(e))
	a := &Attempt{Key: e.Key(), Of: e.Of, Title: e.Title, Wave: e.Wave, Seat: Seat{Slot: e.Slot},
		Start: Start{Started: e.TS}}
	s.Attempts, s.Running = append(s.Attempts, a), append(s.Running, a)
	return a
}

func (s *State) running(e *Event) *Attempt { return s.RunningOf(e.Key()) }

// attemptOf returns the running attempt of an event, even if the events lack its start. One that clashed is checked again
// where its work merges by now.
func (s *State) attemptOf(e *Event) *Attempt {
	if a := s.running(e); a != nil {
		return a
	}
	if a := s.Attempt(e.Key()); a != nil && a.Verdict == Clashed {
		a.Finish = Finish{}
		s.Ended = slices.DeleteFunc(s.Ended, func(b *Attempt) bool { return a == b })
		s.Running = append(s.Running, a)
		return a
	}
	return s.add(e)
}

// ended applies an attempt's end, or an iteration's.
func (s *State) ended(e *Event) {
	a := s.attemptOf(e)
	a.Waits = ""
	a.Finish = Finish{Ended: e.TS, Verdict: e.Verdict, Reason: e.Reason, Base: s.Task(e.Task).Base, After: e.Tree,
		Ref: e.Ref, Result: e.Detail,
		Commit: e.Commit, Changes: e.Message, Settled: a.Settled}
	s.Ended = append(s.Ended, a)
	s.answered(e)
	if a.Agent == nil && e.Detail != nil && e.Detail.Cause == CauseKilled {
		s.spend(e) // its agent could not report any more: its cost is unknown, not nothing
		a.Cost.Add(e.Detail)
	}
	if a.Verdict == Verified {
		a.Phase, a.Since = PhaseIntegrating, e.TS
		return
	}
	if e.Type == IterationFinished {
		a.Reason = cmp.Or(a.Reason, e.Message)
	}
	s.stop(a)
}

// Outcome is how it ended in a word for people: its verdict, but "accepted" where a person decided and no check.
func (a *Attempt) Outcome() string {
	if a.Verdict == Verified && a.Result != nil && a.Result.Grade == Accepted {
		return string(Accepted)
	}
	return string(a.Verdict)
}

// Grade says how much the end of an attempt proves; "" for nil.
func (a *Attempt) Grade() Grade {
	if a == nil || a.Result == nil {
		return ""
	}
	return a.Result.Grade
}

// Proof says what its tests came to; "" for nil, and where it is not known what they were before.
func (a *Attempt) Proof() string {
	if a == nil || a.Result == nil {
		return ""
	}
	return a.Result.Proof
}

// Ran is the model of its agent, as far as that ran; "" for nil.
func (a *Attempt) Ran() string {
	if a == nil || a.Agent == nil {
		return ""
	}
	return a.Agent.Model
}

// VerifiedBy returns the task's last attempt that was verified before at, or nil. Times are compared as the journal
// has them: the monotonic readings of two calls of the coarse clock within one tick are in no order.
func (s *State) VerifiedBy(task string, at time.Time) *Attempt {
	for _, a := range slices.Backward(s.Ended) {
		if a.Task == task && a.Verdict == Verified && !a.Ended.Round(0).After(at.Round(0)) {
			return a
		}
	}
	return nil
}

// Working are the running attempts and iterations that somebody works on.
func (s *State) Working() []*Attempt {
	return slices.DeleteFunc(slices.Clone(s.Running), func(a *Attempt) bool { return a.Phase == PhaseOpen })
}

// Underway reports whether there are any.
func (s *State) Underway() bool { return len(s.Working()) > 0 }

// Interrupted counts the task attempts that a person, a reboot or a kill ended: they count for nothing else.
func (s *State) Interrupted() (n int) {
	for _, a := range s.Attempts {
		if a.Task != "" && (a.Verdict == Cancelled || a.Phase == PhaseOpen && !a.Over()) {
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
