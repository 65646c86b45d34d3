package journal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// State is the one account of a run: the fold of its events. Both replay and the live run change it only through Apply, so that a resumed loop knows
// exactly what the first one knew. Maps are by task id unless they say otherwise.
type State struct {
	Begun         map[string]int     // attempts begun, for numbering across the whole loop
	Counted       map[string]int     // attempts that count against the limit; --retry-blocked resets it
	Interruptions map[string]int     // attempts in a row that a person, a reboot or a kill ended
	Failures      map[string]Failure // of the last attempt that counted, or of its integration
	OtherEnds     map[string]bool    // tasks with an attempt that failed other than by an agent's crash
	Blocked       []BlockedTask
	KeptRefs      map[string]string // last ref of each task's attempts
	Delivered     map[string]string
	Verified      []VerifiedTask // tasks whose work is uncommitted
	GivenUp       []BlockedTask  // tasks whose status is uncommitted
	Work          []Work
	Noticed       []Notice
	WaveCommits   []WaveCommit
	Bases         map[string]string    // tree before each running task's first attempt
	Starts        map[string]time.Time // and the time
	Sessions      map[string]Session   // sessions in which tasks were done
	WaveAnswers   map[int][]*Detail    // results of each wave's reviewers, in order
	Approved      map[string]bool      // trees that a wave's review, or a person, approved
	Current       string               // the task started last, if neither done nor blocked
	Tasks         map[string]*Task
	Waves         map[string]int // the wave of each task that began or was added; the task stays in it, or comes later
	Wave          int
	Iteration     int
	Tree          string
	Gone          map[string]bool     // tasks whose commits somebody took away from the branch, which was said
	Clashes       map[string][]string // paths at which a task's verified work ever conflicted with that of others
	Back          []string            // tasks that were done and come in again, in the order in which they do: each builds on those before it
	Branch        string              // of a run in slots: the ref that receives the commits; "" if unknown
	Started       time.Time
	Cost          Cost
	Costs         Costs
	Finished      *End      // end of the last run; nil during a run
	Stopping      time.Time // when Ctrl-C asked the run to end after its running attempts; zero if it did not, or the run is over
	Prompt        Prompt
	Providers     Providers
	CutShort      map[string]Failure // a task's last attempt that its provider cut short and that had changed something
	Agents        []AgentUse         // what attempts ran with, in the order of first use
	Passes        map[string]Pass    // the tree on which each check last passed; "" is the only check
	Known         map[string]*Known  // by check
	Checks        []Tally            // of named checks, in the order of their first run
	Flaky         []Flaky            // most frequent first
	Grades        Grades             // of done tasks; "" is left out

	Attempts        []*Attempt       // in the order in which they began
	Ended           []*Attempt       // in the order in which they ended
	Running         map[Key]*Attempt // begun, and neither integrated nor otherwise ended
	Waiting         map[string]Wait  // waits for a provider, by task; "" for a prompt loop
	BaselineOutput  string           // end of the output of the last verification before any task, if it failed
	Baseline        time.Time        // start of the current verification before any task; zero if none
	Waits           []*Waited        // in the order in which they began
	BreakerOpenings []int            // how many attempts had ended at each opening of the breaker
	Rewound         int              // how many attempts had ended when a person last went back
	Seq             int64            // last event
	At              time.Time        // its time

	changes   []statusChange
	waitsOver int                          // how many of Waits, from the start, have ended
	bars      map[string]map[string]*Known // what was known about the checks when each running task began
	checked   map[Key]map[string]*Detail   // checks that running attempts have passed
	retried   []BlockedTask                // blocked tasks that this run retries, until an attempt begins
}

// Task is a task that was started and is neither done nor blocked.
type Task struct {
	Tree string   // tree after its last attempt, or after the best of several candidates; or the base
	Open []*Event // starts of attempts that have not ended: one, or several candidates

	shelved bool // the run stopped in the middle of the task: the task file calls it pending
	counted int  // the round of candidates last counted as an attempt
	cut     int  // the round last interrupted
}

// Left are the starts of the attempts that have not ended: what a killed run was at.
func (s *State) Left() (open []*Event) {
	if s.Prompt.Open != nil {
		open = append(open, s.Prompt.Open)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Tasks)) {
		open = append(open, s.Tasks[id].Open...)
	}
	return open
}

// Fold folds a journal's events.
func Fold(events []Event) *State {
	s := NewState()
	for i := range events {
		s.Apply(&events[i])
	}
	return s
}

// statusChange is a task's new status, and the event that set it.
type statusChange struct {
	task, status string
	seq          int64
}

// NewState is the state of a loop without events.
func NewState() *State {
	return &State{Tasks: map[string]*Task{}, Waves: map[string]int{}, Begun: map[string]int{}, Counted: map[string]int{}, Interruptions: map[string]int{}, Failures: map[string]Failure{}, OtherEnds: map[string]bool{}, KeptRefs: map[string]string{},
		Delivered: map[string]string{}, Bases: map[string]string{}, Starts: map[string]time.Time{},
		Sessions: map[string]Session{}, CutShort: map[string]Failure{}, Providers: NewProviders(),
		Running: map[Key]*Attempt{}, Waiting: map[string]Wait{},
		Passes: map[string]Pass{}, checked: map[Key]map[string]*Detail{}, Known: map[string]*Known{}, bars: map[string]map[string]*Known{}, Grades: Grades{}, WaveAnswers: map[int][]*Detail{}, Approved: map[string]bool{}, Clashes: map[string][]string{}, Gone: map[string]bool{}}
}

// Apply applies one event.
func (s *State) Apply(e *Event) {
	s.followWaits(e, s.At)
	s.Seq, s.At = e.Seq, e.TS
	s.follow(e)
	if e.Tree != "" {
		s.Tree = e.Tree
		if u := s.Tasks[e.Task]; u != nil && e.Round == 0 {
			u.Tree = e.Tree
		}
	}
	s.Providers.apply(e)
	if e.Iteration > 0 {
		s.Iteration = e.Iteration
		s.Prompt.apply(e)
		if e.Type == IterationFinished && e.Commit != "" && s.Prompt.Base != "" {
			s.Work = append(s.Work, Work{Iteration: e.Iteration, Base: s.Prompt.Base, Tree: e.Tree, Committed: true})
		}
	}
	if e.Type == GateSpoke && e.Wave > 0 { // of a wave's review
		if e.Decision == Done && e.Detail != nil {
			s.Approved[e.Detail.Tree] = true
		}
	} else if e.Type == GateSpoke {
		s.Prompt.record(e)
	}
	switch e.Type {
	case Warning:
		if e.Reason == ReasonGone {
			for _, id := range e.Tasks {
				s.Gone[id] = true
				s.close(&Event{Task: id, Seq: e.Seq}, "pending")
			}
		}
	case LoopStarted:
		s.Started, s.Branch = e.TS, e.Branch
		s.resume(e)
	case LoopResumed:
		s.Prompt.Failed = 0
		s.resume(e)
	case ListChanged:
		for _, id := range e.Tasks {
			s.Waves[id] = cmp.Or(s.Waves[id], e.Wave)
		}
		s.Blocked = slices.DeleteFunc(s.Blocked, func(b BlockedTask) bool { return slices.Contains(e.Tasks, b.Task) })
	case WaveStarted:
		s.Wave = e.Wave
	case TaskStarted:
		s.Waves[e.Task] = e.Wave
		s.Current, s.Bases[e.Task], s.Starts[e.Task] = e.Task, e.Base, e.TS
		s.Tasks[e.Task] = &Task{Tree: e.Base}
		s.bars[e.Task] = maps.Clone(s.Known)
		s.change(e, "in-progress")
	case AttemptStarted:
		s.Begun[e.Task], s.retried = max(e.Attempt, s.Begun[e.Task]), nil
		if e.Base != "" {
			s.Bases[e.Task] = e.Base
		}
		s.Iteration++
		if e.Round == 0 { // otherwise when the round has a result
			s.Counted[e.Task]++
		}
		if u := s.Tasks[e.Task]; u != nil {
			if u.Open = append(u.Open, e); e.Round == 0 {
				u.Open = u.Open[len(u.Open)-1:]
			}
			if u.shelved {
				s.change(e, "in-progress")
			}
			u.shelved = false
		}
	case AgentFinished:
		s.spend(e)
		s.addUse(e.Detail)
	case LookAnswered:
		if s.spend(e); e.Task == "" && e.Wave > 0 && e.Detail != nil {
			s.WaveAnswers[e.Wave] = append(s.WaveAnswers[e.Wave], e.Detail)
		}
	case VerifyFinished:
		if d := e.Detail; d != nil && d.Command != "" {
			s.noteCheck(e)
		}
	case IterationFinished:
		s.notice(e)
		if !e.Decision.Failed() && e.Detail != nil && e.Detail.Passed {
			s.integrateTests(e)
		}
		delete(s.checked, keyOf(e))
	case AttemptFinished:
		s.notice(e)
		s.finishAttempt(e)
	case TaskDone:
		s.keepSession(e)
		s.integrateTests(e)
		if delete(s.Grades, e.Task); e.Detail != nil && e.Detail.Grade != "" {
			s.Grades[e.Task] = e.Detail.Grade
		}
		s.close(e, "done")
		s.Blocked = slices.DeleteFunc(s.Blocked, func(b BlockedTask) bool { return b.Task == e.Task })
	case TaskBlocked:
		s.close(e, "blocked")
		s.Blocked = slices.DeleteFunc(s.Blocked, func(b BlockedTask) bool { return b.Task == e.Task }) // answered, and blocked again
		b := blockedTask(e)
		s.Blocked, s.GivenUp = append(s.Blocked, b), append(s.GivenUp, b)
	case Integrated:
		s.integrate(e)
	case WaveCommitted:
		s.WaveCommits, s.GivenUp = append(s.WaveCommits, WaveCommit{e.Wave, e.Commit, e.TS, e.Tasks}), nil // every commit contains the whole task file
		s.Verified = slices.DeleteFunc(s.Verified, func(v VerifiedTask) bool { return slices.Contains(e.Tasks, v.Task) })
	case LoopRewound:
		s.rewind(e)
	case LoopPaused, LoopFinished:
		s.Finished = &End{Ending: Ending(e.Reason), Message: e.Message, Event: e}
		s.notRetried(e)
		for _, id := range e.Tasks {
			if u := s.Tasks[id]; u != nil && len(u.Open) > 0 {
				continue // an attempt is open: the next run ends it, and needs the task's base for that
			}
			s.close(&Event{Task: id, Seq: e.Seq}, "pending")
		}
		for _, id := range slices.Sorted(maps.Keys(s.Tasks)) { // nobody works on them now
			s.change(&Event{Task: id, Seq: e.Seq}, "pending")
			s.Tasks[id].shelved = true
		}
	}
}

// ForgetWave drops what a wave has to commit: its commit would be empty.
func (s *State) ForgetWave(wave int) {
	s.Verified = slices.DeleteFunc(s.Verified, func(v VerifiedTask) bool { return v.Wave == wave })
	s.GivenUp = slices.DeleteFunc(s.GivenUp, func(b BlockedTask) bool { return b.Wave == wave })
}

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
	again := func(task string) bool { return slices.Contains(e.Tasks, task) }
	ofTask := func(x BlockedTask) bool { return again(x.Task) }
	s.WaveCommits = s.WaveCommits[:len(s.WaveCommits)-len(After(s.WaveCommits, e.Wave))]
	s.Verified = slices.DeleteFunc(s.Verified, func(v VerifiedTask) bool { return again(v.Task) })
	s.Blocked, s.GivenUp = slices.DeleteFunc(s.Blocked, ofTask), slices.DeleteFunc(s.GivenUp, ofTask)
	s.Work = slices.DeleteFunc(s.Work, func(w Work) bool { return again(w.Task) })
	for _, id := range e.Tasks {
		delete(s.Counted, id)
		delete(s.Interruptions, id)
		delete(s.OtherEnds, id)
		delete(s.Failures, id)
		delete(s.Delivered, id)
		delete(s.Grades, id)
		delete(s.Sessions, id)
		delete(s.Costs.Fresh, id)
		s.close(&Event{Task: id, Seq: e.Seq}, "pending")
	}
	s.Wave, s.Passes, s.Rewound, s.BreakerOpenings = min(s.Wave, e.Wave), map[string]Pass{}, len(s.Ended), nil
	s.Finished = &End{Ending: Rewound, Message: fmt.Sprintf("went back to the state after wave %d", e.Wave)}
}

func (s *State) resume(e *Event) {
	s.Finished, s.retried = nil, nil
	if e.Reason != ReasonRetry && e.Reason != ReasonAnswered {
		return
	}
	for _, id := range e.Tasks {
		delete(s.Counted, id)
		delete(s.Interruptions, id)
		delete(s.OtherEnds, id)
		delete(s.Costs.Fresh, id)
		s.changes = append(s.changes, statusChange{id, "pending", e.Seq})
		if e.Reason == ReasonRetry {
			s.retried = append(s.retried, s.blockedAs(id))
		}
	}
	s.Blocked = slices.DeleteFunc(s.Blocked, func(b BlockedTask) bool { return slices.Contains(e.Tasks, b.Task) })
}

// blockedAs returns a blocked task; if an earlier loop blocked it, only the id is known.
func (s *State) blockedAs(id string) BlockedTask {
	if at := slices.IndexFunc(s.Blocked, func(b BlockedTask) bool { return b.Task == id }); at >= 0 {
		return s.Blocked[at]
	}
	return BlockedTask{Task: id}
}

// notRetried blocks the tasks again that were to be retried, if the run was rejected before any attempt.
func (s *State) notRetried(e *Event) {
	if Ending(e.Reason) != BaselineFails {
		return
	}
	for _, b := range s.retried {
		s.change(&Event{Task: b.Task, Seq: e.Seq}, "blocked")
		if !b.At.IsZero() {
			s.Blocked = append(s.Blocked, b)
		}
	}
}

func (s *State) finishAttempt(e *Event) {
	if e.Verdict != Verified { // otherwise when its work is integrated
		defer delete(s.checked, keyOf(e))
	}
	u := s.Tasks[e.Task]
	if u != nil {
		u.Open = slices.DeleteFunc(u.Open, func(o *Event) bool { return e.Round == 0 || o.Attempt == e.Attempt })
	}
	if e.Ref != "" {
		s.KeptRefs[e.Task] = e.Ref
	}
	if e.Round > 0 && u != nil && !s.finishCandidate(u, e) {
		return
	}
	if e.Verdict != Cancelled {
		delete(s.Interruptions, e.Task)
	}
	switch e.Verdict {
	case Verified:
		v := VerifiedTask{Task: e.Task, Attempt: e.Attempt, Wave: e.Wave, Base: s.Bases[e.Task], Tree: e.Tree, Ref: e.Ref}
		if d := e.Detail; d != nil {
			v.Alone, v.Beside, v.Hidden = d.Alone, d.Beside, d.Hidden
		}
		s.passAttempt(e)
		s.Verified = append(s.Verified, v)
		s.Work = append(s.Work, Work{Task: e.Task, Base: v.Base, Tree: v.Tree})
		if e.Delivered != "" {
			s.Delivered[e.Task] = e.Delivered
		}
	case Cancelled: // does not count
		s.Interruptions[e.Task]++
		s.Counted[e.Task]--
		s.Iteration--
		s.cutShort(e)
		return
	case Limited: // nor does this
		s.Counted[e.Task]--
		s.Iteration--
		s.cutShort(e)
		return
	default:
		if e.Detail != nil && e.Detail.End == EndRefused { // not the task's fault
			s.Counted[e.Task]--
		}
		if e.Detail != nil && e.Detail.Transient() { // nor is this, though it may have cost something
			s.Counted[e.Task]--
			s.cutShort(e)
			return
		}
		s.Failures[e.Task] = s.failure(e)
		if e.Verdict != Crashed {
			s.OtherEnds[e.Task] = true
		}
	}
	delete(s.CutShort, e.Task)
}

// integrate applies the fate of a verified result: either it is now part of the state, or the task is retried on the state as it is.
func (s *State) integrate(e *Event) {
	if e.Verdict == "" {
		s.takeIn(e)
		return
	}
	of := func(task string) bool { return task == e.Task }
	s.Verified = slices.DeleteFunc(s.Verified, func(v VerifiedTask) bool { return of(v.Task) })
	s.Work = slices.DeleteFunc(s.Work, func(w Work) bool { return of(w.Task) && !w.Committed })
	delete(s.Delivered, e.Task)
	if s.Tasks[e.Task] == nil { // it was done: the branch got what it conflicts with, or it does not pass by itself
		s.Tasks[e.Task], s.Back = &Task{Tree: e.Tree, shelved: true}, append(s.Back, e.Task)
		delete(s.Grades, e.Task)
		s.change(e, "pending")
	}
	f := s.failure(e)
	f.Unfit, f.Clash = true, e.Paths
	if len(e.Paths) > 0 { // nobody's failure
		s.Counted[e.Task]--
		s.Clashes[e.Task] = append(s.Clashes[e.Task], e.Paths...)
	}
	s.Failures[e.Task], s.OtherEnds[e.Task] = f, true
	s.Bases[e.Task] = e.Tree
	s.bars[e.Task] = maps.Clone(s.Known)
}

// takeIn applies that a result is in: it may be one that conflicted at first.
func (s *State) takeIn(e *Event) {
	f := s.Failures[e.Task]
	if e.Task == "" || len(f.Clash) == 0 || f.Attempt != e.Attempt {
		return
	}
	v := VerifiedTask{Task: e.Task, Attempt: e.Attempt, Wave: e.Wave, Base: s.Bases[e.Task], Tree: e.Tree, Ref: s.KeptRefs[e.Task]}
	s.Verified, s.Work = append(s.Verified, v), append(s.Work, Work{Task: e.Task, Base: v.Base, Tree: v.Tree})
	for _, a := range s.Ended {
		if a.Key() == keyOf(e) {
			a.Unfit, a.Reason = false, ""
		}
	}
}

// cutShort records an attempt that does not count but whose work is in the tree.
func (s *State) cutShort(e *Event) {
	if e.Detail != nil && e.Detail.Changed > 0 {
		s.CutShort[e.Task] = s.failure(e)
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

func (s *State) close(e *Event, status string) {
	s.change(e, status)
	if status == "done" { // a later retry needs the failure for its spec
		delete(s.Failures, e.Task)
	}
	s.Back = slices.DeleteFunc(s.Back, func(id string) bool { return id == e.Task })
	delete(s.CutShort, e.Task)
	delete(s.Bases, e.Task)
	delete(s.Starts, e.Task)
	delete(s.bars, e.Task)
	delete(s.Tasks, e.Task)
	if s.Current == e.Task {
		s.Current = ""
	}
}

func (s *State) change(e *Event, status string) {
	s.changes = append(s.changes, statusChange{e.Task, status, e.Seq})
}

// TakeChanges returns the status changes since the last call that events after seq made: the last one of each task.
func (s *State) TakeChanges(seq int64) map[string]string {
	out := make(map[string]string, len(s.changes))
	for _, c := range s.changes {
		if c.seq > seq {
			out[c.task] = c.status
		}
	}
	s.changes = s.changes[:0]
	return out
}

// Failure is an attempt that was not verified, or that could not be integrated.
type Failure struct {
	Attempt          int
	Round            int // of candidates; else 0
	Verdict          Verdict
	Unfit            bool // verified, but not integrated
	Reason, DiffStat string
	Checks           []*Detail // of several named checks: those that ran
	Result           *Detail   // nil if nothing was measured
	Clash            []string  // paths at which it conflicts with what others did; then it counts for nothing
}

func (s *State) failure(e *Event) Failure {
	f := Failure{Attempt: e.Attempt, Round: e.Round, Verdict: e.Verdict, Reason: e.Reason, DiffStat: e.DiffStat, Result: e.Detail}
	for _, a := range slices.Backward(s.Ended) {
		if a.Key() == keyOf(e) {
			for _, c := range a.Checks {
				if c.Check != "" {
					f.Checks = append(f.Checks, c)
				}
			}
			break
		}
	}
	return f
}

// BlockedTask is a task that was given up.
type BlockedTask struct {
	Task, Title string
	Wave        int
	Verdict     Verdict // of its last attempt
	Reason      string
	Question    string   // what its agent asked instead of doing it
	Denied      []string // what the sandbox refused its last attempt
	Attempts    int
	Ref         string    // ref that keeps its work
	At          time.Time // zero if an earlier loop blocked it
}

func blockedTask(e *Event) BlockedTask {
	b := BlockedTask{Task: e.Task, Title: e.Title, Wave: e.Wave, Verdict: e.Verdict, Reason: e.Reason, Attempts: e.Attempt, Ref: e.Ref, At: e.TS}
	if e.Detail != nil {
		b.Question, b.Denied = e.Detail.Question, e.Detail.Denied
	}
	return b
}

// VerifiedTask is a task with verified work: the trees before and after it.
type VerifiedTask struct {
	Task       string
	Attempt    int
	Wave       int
	Base, Tree string
	Ref        string // ref that keeps it

	Alone          bool     // see Detail
	Beside, Hidden []string // see Detail
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

// Pass is a tree on which a verify command passed.
type Pass struct {
	Tree, Command string
	Told          bool // its test results were known
}

// Work is verified work of the run or, in a prompt loop, committed work.
type Work struct {
	Task       string // "" for an iteration's
	Iteration  int
	Base, Tree string
	Left       []string // made by verifications: not work
	Committed  bool
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

func (s *State) notice(e *Event) {
	d := e.Detail
	if d == nil || d.Objector() != "" || len(s.Noticed) == maxNotices {
		return
	}
	if said := d.Said(); len(said) > 0 {
		s.Noticed = append(s.Noticed, Notice{e.Task, e.Iteration, e.Attempt, said})
	}
}

// Uncommitted returns the tasks with uncommitted verified work, in the order of verification.
func (s *State) Uncommitted() (ids []string) {
	for _, v := range s.Verified {
		ids = append(ids, v.Task)
	}
	return ids
}

// Unfinished reports whether a dead loop left a tree that no event describes: with an open attempt, or with a given-up task's work that was not yet
// taken back.
func (s *State) Unfinished() bool { return len(s.Left()) > 0 || s.Current != "" }
