package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is the one account of a loop: the fold of its events. Both replay and the live run change it only through Apply, so that a resumed loop knows
// exactly what the first one knew.
type State struct {
	Run
	Tasks     map[string]*Task // those that events are about; Task answers for others too
	Attempts  []*Attempt       // in the order in which they began
	Ended     []*Attempt       // in the order in which they ended
	Running   []*Attempt       // begun, and neither integrated nor otherwise ended
	Checks    Checks           // in the order of their first run
	Flaky     []Flaky          // most frequent first
	Waits     []*Wait          // in the order in which they began
	Prompt    Prompt
	Providers Providers

	applied int // events
	waves   []*Wave
	changes []*Task        // those with a new status since TakeChanges
	retried []*BlockedTask // those that this run retries, until an attempt begins
}

// Run is what belongs to the whole loop.
type Run struct {
	Seq         int64     // last event
	At          time.Time // its time
	Started     time.Time
	Stopping    time.Time // when Ctrl-C asked the run to end after its running attempts; zero if it did not, or the run is over
	Finished    *End      // end of the last run; nil during a run
	Branch      string    // of a run in slots: the ref that receives the commits; "" if unknown
	Current     string    // the task started last, if neither done nor blocked
	Wave        int
	Iteration   int
	Tree        string
	WaveCommits []WaveCommit
	Approved    []string // trees that a wave's review, or a person, approved
	Cost        Cost
	Agents      []AgentUse // what attempts ran with, in the order of first use

	Baseline       time.Time // start of the current verification before any task; zero if none
	BaselineOutput string    // end of the output of the last one, if it failed

	BreakerOpenings []int // how many attempts had ended at each opening of the breaker
	Rewound         int   // how many attempts had ended when a person last went back
}

// NewState is the state of a loop without events.
func NewState() *State { return &State{Tasks: map[string]*Task{}, Providers: NewProviders()} }

// Fold folds a journal's events.
func Fold(events []Event) *State {
	s := NewState()
	for i := range events {
		s.Apply(&events[i])
	}
	return s
}

// Apply applies one event.
func (s *State) Apply(e *Event) {
	s.followWaits(e, s.At)
	s.Seq, s.At, s.applied = e.Seq, e.TS, s.applied+1
	s.follow(e)
	t := s.record(e.Task)
	if e.Tree != "" {
		s.Tree = e.Tree
		if t.Open() && e.Round == 0 {
			t.Tree = e.Tree
		}
	}
	s.Providers.apply(e)
	if e.Iteration > 0 {
		s.Iteration = e.Iteration
		s.Prompt.apply(e)
	}
	switch e.Type {
	case Warning:
		if e.Reason == ReasonGone {
			for _, t := range s.records(e.Tasks) {
				t.Gone = true
				s.close(t, StandIdle)
			}
		}
	case LoopStarted:
		s.Started, s.Branch = e.TS, e.Branch
		s.resume(e)
	case LoopResumed:
		s.Prompt.Failed = 0
		s.resume(e)
	case ListChanged:
		for _, t := range s.records(e.Tasks) {
			if t.Wave = cmp.Or(t.Wave, e.Wave); t.Stand == StandBlocked {
				t.Stand = StandIdle
			}
			t.Blocked = nil
		}
	case WaveStarted:
		s.Wave = e.Wave
	case TaskStarted:
		s.Current, t.Wave = e.Task, e.Wave
		t.Ground = Ground{Base: e.Base, Tree: e.Base, Started: e.TS, bar: s.known()}
		s.change(t, StandUnderway)
	case AttemptStarted:
		s.beginAttempt(t, e)
	case AgentFinished:
		s.spend(e)
		s.addUse(e.Detail)
	case LookAnswered:
		if s.spend(e); e.Task == "" && e.Wave > 0 && e.Detail != nil {
			w := s.wave(e.Wave)
			w.Answers = append(w.Answers, e.Detail)
		}
	case VerifyFinished:
		if d := e.Detail; d != nil && d.Command != "" {
			s.noteCheck(e)
		}
	case IterationFinished:
		if !e.Decision.Failed() && e.Detail != nil && e.Detail.Passed {
			s.integrateTests(e)
		}
	case AttemptFinished:
		s.finishAttempt(t, e)
	case TaskDone:
		s.keepSession(t, e)
		s.integrateTests(e)
		if t.Grade = ""; e.Detail != nil {
			t.Grade = e.Detail.Grade
		}
		s.close(t, StandDone)
	case TaskBlocked:
		s.close(t, StandBlocked)
		t.Blocked = blockedTask(e, s.applied)
		t.GivenUp = t.Blocked
	case Integrated:
		s.integrate(t, e)
	case WaveCommitted:
		s.WaveCommits = append(s.WaveCommits, WaveCommit{e.Wave, e.Commit, e.TS, e.Tasks})
		for _, t := range s.Tasks { // every commit contains the whole task file
			t.GivenUp = nil
		}
		for _, t := range s.records(e.Tasks) {
			t.Verified = nil
		}
	case GateSpoke:
		switch {
		case e.Wave == 0:
			s.Prompt.record(e)
		case e.Decision == Done && e.Detail != nil: // of a wave's review
			s.Approved = append(s.Approved, e.Detail.Tree)
		}
	case LoopRewound:
		s.rewind(e)
	case LoopPaused, LoopFinished:
		s.Finished = &End{Ending: Ending(e.Reason), Message: e.Message, Event: e}
		s.notRetried(e)
		for _, t := range s.records(e.Tasks) {
			if !s.attempted(t.ID) { // else the next run ends the attempt, and needs the task's base for that
				s.close(t, StandIdle)
			}
		}
		for _, t := range s.OpenTasks() { // nobody works on them now
			s.change(t, StandShelved)
		}
	}
}

// Left are the starts of the attempts that have not ended: what a killed run was at.
func (s *State) Left() (open []*Event) {
	for _, a := range s.Running {
		if !a.Over() && a.Begin != nil {
			open = append(open, a.Begin)
		}
	}
	slices.SortStableFunc(open, func(a, b *Event) int { return strings.Compare(a.Task, b.Task) })
	return open
}

// Unfinished reports whether a dead loop left a tree that no event describes: with an open attempt, or with a given-up task's work that was not yet
// taken back.
func (s *State) Unfinished() bool { return len(s.Left()) > 0 || s.Current != "" }

// After returns the commits after a wave: those after its last commit or, without one, from a later wave's first commit on.
func After(commits []WaveCommit, wave int) []WaveCommit {
	for i := len(commits) - 1; i >= 0; i-- {
		if commits[i].Wave == wave {
			return commits[i+1:]
		}
	}
	for i, c := range commits {
		if c.Wave > wave {
			return commits[i:]
		}
	}
	return nil
}

// rewind drops what came after a wave. Attempts keep their numbers, and kept ones their refs.
func (s *State) rewind(e *Event) {
	s.WaveCommits = s.WaveCommits[:len(s.WaveCommits)-len(After(s.WaveCommits, e.Wave))]
	for _, t := range s.records(e.Tasks) {
		t.Tries, t.Gain, t.Failure = Tries{}, Gain{}, Failure{}
		t.Verified, t.Blocked, t.GivenUp = nil, nil, nil
		s.close(t, StandIdle)
	}
	for _, c := range s.Checks {
		c.Pass = Pass{}
	}
	s.Wave, s.Rewound, s.BreakerOpenings = min(s.Wave, e.Wave), len(s.Ended), nil
	s.Finished = &End{Ending: Rewound, Message: fmt.Sprintf("went back to the state after wave %d", e.Wave)}
}

func (s *State) resume(e *Event) {
	s.Finished, s.retried = nil, nil
	if e.Reason != ReasonRetry && e.Reason != ReasonAnswered {
		return
	}
	for _, t := range s.records(e.Tasks) {
		if e.Reason == ReasonRetry {
			s.retried = append(s.retried, cmp.Or(t.Blocked, &BlockedTask{Task: t.ID})) // an earlier loop blocked it: only the id is known
		}
		t.Tries, t.Blocked = Tries{}, nil
		s.change(t, StandIdle)
	}
}

// notRetried blocks the tasks again that were to be retried, if the run was rejected before any attempt.
func (s *State) notRetried(e *Event) {
	if Ending(e.Reason) != BaselineFails {
		return
	}
	for _, b := range s.retried {
		t := s.record(b.Task)
		if s.change(t, StandBlocked); !b.At.IsZero() {
			t.Blocked = b
		}
	}
}

// addUse counts an attempt by what it ran with.
func (s *State) addUse(d *Detail) {
	if d == nil {
		return
	}
	at := slices.IndexFunc(s.Agents, func(u AgentUse) bool { return u.Backend == d.Backend && u.Model == d.Model })
	if at < 0 {
		at = len(s.Agents)
		s.Agents = append(s.Agents, AgentUse{Backend: d.Backend, Model: d.Model})
	}
	s.Agents[at].Attempts++
}

// Wave is what a wave's agents said and cost.
type Wave struct {
	Number  int
	Cost    Cost
	Answers []*Detail // results of its reviewers, in order
}

// WaveOf returns what is known about a wave's agents, never nil.
func (s *State) WaveOf(number int) *Wave {
	if at := slices.IndexFunc(s.waves, func(w *Wave) bool { return w.Number == number }); at >= 0 {
		return s.waves[at]
	}
	return &Wave{Number: number}
}

func (s *State) wave(number int) *Wave {
	w := s.WaveOf(number)
	if !slices.Contains(s.waves, w) {
		s.waves = append(s.waves, w)
	}
	return w
}

// WaveCommit is one commit of a loop.
type WaveCommit struct {
	Wave   int
	Commit string
	At     time.Time
	Tasks  []string
}

// End is how a run ended.
type End struct {
	Ending  Ending // as in the state file
	Message string
	Event   *Event // its event; nil after a rewind
}

// AgentUse counts the attempts with one backend and model, including those that the provider cut short.
type AgentUse struct {
	Backend  string `json:"backend"`
	Model    string `json:"model,omitempty"`
	Attempts int    `json:"attempts"`
}

// Notice is what looks at a passed attempt want a person to know.
type Notice struct {
	Task      string   `json:"task_id,omitempty"`
	Iteration int      `json:"iteration,omitempty"`
	Attempt   int      `json:"attempt"`
	Notes     []string `json:"notes"` // one line each
}

// maxNotices limits the attempts whose notices are kept.
const maxNotices = 50

// Noticed is what looks said about attempts that passed, the first of them.
func (s *State) Noticed() (all []Notice) {
	for _, a := range s.Ended {
		if said := a.Result.Said(); len(said) > 0 && a.Result.Objector() == "" && len(all) < maxNotices {
			all = append(all, Notice{a.Task, a.Iteration, a.Number, said})
		}
	}
	return all
}
