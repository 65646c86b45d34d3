package journal

import (
	"slices"
	"strings"
	"time"
)

// State is the one account of a loop: the fold of its events. Both replay and the live run change it only through
// Apply, so that a resumed loop knows exactly what the first one knew.
type State struct {
	Run
	Tasks     map[string]*Task // those that events are about; Task answers for others too
	Attempts  []*Attempt       // in the order in which they began
	Ended     []*Attempt       // in the order in which they ended
	Running   []*Attempt       // begun, and neither integrated nor otherwise ended
	Checks    Checks           // in the order of their first run
	Waits     []*Wait          // in the order in which they began
	Prompt    Prompt
	Providers Providers
	Reviews   map[int][]*Detail // of a wave: what its reviewers came to

	flaky   map[Flaky]int // times
	asking  []*Event      // the starts of reviews that have no answer
	cut     map[int]int   // of a wave: reviews that were killed with their run
	changes []*Task       // those with a new status since TakeChanges
	retried []*Event      // those that this run retries, until an attempt begins
}

// Run is what belongs to the whole loop.
type Run struct {
	Seq     int64     // last event
	At      time.Time // its time
	Started time.Time
	Begun   time.Time // the last run
	// when Ctrl-C asked the run to end after its running attempts; zero if it did not, or the run is over
	Stopping    time.Time
	Finished    *End   // end of the last run; nil during a run
	Branch      string // of a run in slots: the ref that receives the commits; "" if unknown
	Current     string // the task started last, if neither done nor blocked
	Wave        int
	Iteration   int
	Tree        string
	WaveCommits []WaveCommit
	Approved    []string // trees that a wave's review, or a person, approved
	Cost        Cost

	Baseline       time.Time // start of the current verification before any task; zero if none
	BaselineOutput string    // end of the output of the last one, if it failed

	BreakerOpenings []int // how many attempts had ended at each opening of the breaker
	Rewound         int   // how many attempts had ended when a person last went back
}

// NewState is the state of a loop without events.
func NewState() *State {
	return &State{Tasks: map[string]*Task{}, flaky: map[Flaky]int{}, Reviews: map[int][]*Detail{}, cut: map[int]int{},
		Providers: NewProviders()}
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

// Unfinished reports whether a dead loop left a tree that no event describes: with an open attempt, or with a given-up
// task's work that was not yet taken back.
func (s *State) Unfinished() bool { return len(s.Left()) > 0 || s.Current != "" }

// After returns the commits from the first one of a later wave on, the rest of an earlier wave among them.
func After(commits []WaveCommit, wave int) []WaveCommit {
	for i, c := range commits {
		if c.Wave > wave {
			return commits[i:]
		}
	}
	return nil
}

// Agents are what attempts ran with, in the order of first use.
func (s *State) Agents() []AgentUse {
	list := []AgentUse{}
	for _, a := range s.Attempts {
		d := a.Agent
		if d == nil {
			continue
		}
		at := slices.IndexFunc(list, func(u AgentUse) bool { return u.Backend == d.Backend && u.Model == d.Model })
		if at < 0 {
			at = len(list)
			list = append(list, AgentUse{Backend: d.Backend, Model: d.Model})
		}
		list[at].Attempts++
	}
	return list
}

// WaveCosts are what the agents of each wave cost, those of its reviews included.
func (s *State) WaveCosts() map[int]Cost {
	all := map[int]Cost{}
	for _, a := range s.Attempts {
		all[a.Wave] = all[a.Wave].Plus(a.Cost)
	}
	for wave, list := range s.Reviews {
		sum := all[wave]
		for _, d := range list {
			sum.Add(d)
		}
		all[wave] = sum
	}
	for wave, n := range s.cut {
		all[wave] = all[wave].Plus(Cost{Runs: n, Unknown: n, UnknownTokens: n})
	}
	return all
}

// WaveCommit is one commit of a loop.
type WaveCommit struct {
	Wave   int
	Commit string
	At     time.Time
	Tasks  []string

	Subject string
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
