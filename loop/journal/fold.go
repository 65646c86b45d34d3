package journal

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// changes say how an event of each type changes a state.
var changes = map[Type]func(*State, *Event){
	LoopStarted:       (*State).loopBegan,
	LoopResumed:       (*State).loopBegan,
	LoopStopping:      func(s *State, e *Event) { s.Stopping = e.TS },
	LoopPaused:        (*State).loopEnded,
	LoopFinished:      (*State).loopEnded,
	LoopRewound:       (*State).loopRewound,
	WaveStarted:       func(s *State, e *Event) { s.Wave = e.Wave },
	WaveCommitted:     (*State).waveCommitted,
	ListChanged:       (*State).listChanged,
	Warning:           (*State).warned,
	BreakerOpened:     func(s *State, _ *Event) { s.BreakerOpenings = append(s.BreakerOpenings, len(s.Ended)) },
	LimitWaiting:      (*State).limitMet,
	TaskStarted:       (*State).taskStarted,
	TaskDone:          (*State).taskDone,
	TaskBlocked:       (*State).taskBlocked,
	TaskHeld:          func(*State, *Event) {},
	AttemptStarted:    (*State).attemptStarted,
	AttemptWaiting:    (*State).attemptWaiting,
	AttemptPlaced:     (*State).attemptPlaced,
	AttemptFinished:   (*State).attemptFinished,
	AgentFinished:     (*State).agentFinished,
	VerifyStarted:     (*State).verifyStarted,
	VerifyFinished:    (*State).verifyFinished,
	LookStarted:       (*State).lookStarted,
	LookAnswered:      (*State).lookAnswered,
	Integrated:        (*State).integrated,
	IterationStarted:  (*State).iterationStarted,
	IterationFinished: (*State).iterationFinished,
	GateSpoke:         (*State).gateSpoke,
	Step:              func(*State, *Event) {},
}

// Durable reports whether an event of this type must be on disk before it is announced. After a power cut another one
// is at worst repeated, never lost: an attempt that had started starts again.
func (t Type) Durable() bool {
	switch t {
	case LoopStarted, LoopPaused, LoopFinished, LoopRewound, WaveCommitted, BreakerOpened, TaskDone, TaskBlocked,
		Integrated, IterationStarted, IterationFinished, GateSpoke, Step:
		return true
	}
	return false
}

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
	e.Seq = cmp.Or(e.Seq, s.Seq+1)
	s.Seq = e.Seq
	t := s.record(e.Task)
	if a := s.running(e); a != nil && e.Step > 0 {
		a.Steps = e.Step
	}
	if e.Tree != "" {
		s.Tree = e.Tree
		if t.Open() {
			t.Tree = e.Tree
		}
	}
	s.Iteration = cmp.Or(e.Iteration, s.Iteration)
	if change := changes[e.Type]; change != nil {
		change(s, e)
	}
	s.At = e.TS
}

func (s *State) loopBegan(e *Event) {
	if e.Reason != ReasonAnswered { // else in the middle of a run
		if e.Type == LoopResumed && s.Finished == nil && !s.At.IsZero() {
			s.endWaits(s.At)
			s.wait(Wait{For: WaitRun, Since: s.At, Reason: "killed"})
			s.cutReviews()
		}
		s.Begun = e.TS
		s.endWaits(e.TS)
		s.leave(e)
	}
	s.Providers.loopBegan()
	if s.Finished, s.retried = nil, nil; e.Type == LoopStarted {
		s.Started, s.Branch = e.TS, e.Branch
	}
	s.Branch = cmp.Or(s.Branch, e.Branch) // a journal may begin with a resume: all before it was lost
	if e.Reason != ReasonRetry && e.Reason != ReasonAnswered {
		return
	}
	for _, t := range s.records(e.Tasks) {
		if e.Reason == ReasonRetry {
			// an earlier loop blocked it: only the id is known
			s.retried = append(s.retried, cmp.Or(t.Blocked, &Event{Unit: Unit{Task: t.ID}}))
		}
		t.Tries, t.Blocked = Tries{}, nil
		s.change(t, StandIdle)
	}
}

// leave notes that no run is at work, or another one begins.
func (s *State) leave(e *Event) {
	s.Stopping, s.Baseline, s.asking = time.Time{}, time.Time{}, nil
	s.Running = slices.DeleteFunc(s.Running, (*Attempt).Over)
	for _, a := range s.Running {
		a.Phase, a.Since, a.Waits = PhaseOpen, e.TS, ""
	}
}

func (s *State) loopEnded(e *Event) {
	end := Ending(e.Reason)
	s.leave(e)
	s.endWaits(e.TS)
	s.wait(Wait{For: end.waitsFor(), Since: e.TS, Reason: strings.TrimPrefix(end.Words(), "user ")})
	s.Providers.loopEnded(end)
	s.Finished = e.End()
	if end == BaselineFails { // the tasks that were to be retried stay blocked
		for _, b := range s.retried {
			t := s.record(b.Task)
			if s.change(t, StandBlocked); !b.TS.IsZero() {
				t.Blocked = b
			}
		}
	}
	for _, t := range s.records(e.Tasks) {
		if !s.attempted(t.ID) { // else the next run ends the attempt, and needs the task's base for that
			s.close(t, StandIdle)
		}
	}
	for _, t := range s.OpenTasks() { // nobody works on them now
		s.change(t, StandShelved)
	}
}

// loopRewound drops what came after a wave. Attempts keep their numbers, and kept ones their refs.
func (s *State) loopRewound(e *Event) {
	s.leave(e)
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
	s.Finished = e.End()
}

func (s *State) waveCommitted(e *Event) {
	s.WaveCommits = append(s.WaveCommits, WaveCommit{e.Wave, e.Commit, e.TS, e.Tasks, e.Message})
	for _, t := range s.Tasks { // every commit contains the whole task file
		t.GivenUp = nil
	}
	for _, t := range s.records(e.Tasks) {
		t.Verified = nil
	}
}

func (s *State) listChanged(e *Event) {
	for _, t := range s.records(e.Tasks) {
		if t.Wave = cmp.Or(t.Wave, e.Wave); t.Open() { // somebody took it off the list
			t.Ground, t.CutShort = Ground{}, Failure{}
			if s.Current == t.ID {
				s.Current = ""
			}
		}
		if t.Stand != StandDone {
			t.Stand = StandIdle
		}
		t.Blocked = nil
	}
}

func (s *State) warned(e *Event) {
	for _, t := range s.records(e.Tasks) {
		switch e.Reason {
		case ReasonGone:
			t.Blocked = nil
			s.close(t, StandIdle)
		case ReasonChecks:
			t.Counted = 0
		}
	}
}

func (s *State) limitMet(e *Event) {
	s.endWaitsOf(e)
	w := Wait{For: WaitProvider, Task: e.Task, Since: e.TS, Reason: e.Reason}
	if d := e.Detail; d != nil {
		if w.Backend = d.Backend; d.Until != nil {
			w.Until = *d.Until
		}
	}
	s.wait(w)
	if s.Providers.Since.IsZero() {
		s.Providers.Since = e.TS
	}
}

func (s *State) taskStarted(e *Event) {
	t := s.record(e.Task)
	s.Current, t.Wave = e.Task, e.Wave
	t.Ground = Ground{Base: e.Base, Tree: e.Base, Started: e.TS, bar: s.known()}
	s.change(t, StandUnderway)
}

func (s *State) taskDone(e *Event) {
	t := s.record(e.Task)
	s.taskEnded(e)
	s.integrateTests(e)
	if t.Grade = ""; e.Detail != nil {
		t.Grade = e.Detail.Grade
	}
	s.close(t, StandDone)
}

func (s *State) taskBlocked(e *Event) {
	t := s.record(e.Task)
	s.taskEnded(e)
	s.close(t, StandBlocked)
	t.Blocked, t.GivenUp = e, e
}

func (s *State) taskEnded(e *Event) {
	s.endWaitsOf(e)
	s.Running = slices.DeleteFunc(s.Running, func(a *Attempt) bool { return a.Task == e.Task && a.Over() })
}

func (s *State) attemptStarted(e *Event) {
	t := s.record(e.Task)
	s.endWaitsOf(e)
	s.begin(e)
	t.Attempts, s.retried = max(e.Attempt, t.Attempts), nil
	t.Base = cmp.Or(e.Base, t.Base)
	s.Iteration++
	if t.Stand == StandShelved {
		s.change(t, StandUnderway)
	}
}

func (s *State) attemptWaiting(e *Event) {
	if a := s.running(e); a != nil {
		a.Waits, a.Phase = e.Reason, PhaseAgent
	}
}

// attemptPlaced notes which worker of a fleet has an attempt. A new one starts from the beginning: what a lost one
// reported counts no more, apart from what it cost.
func (s *State) attemptPlaced(e *Event) {
	a := s.running(e)
	if a == nil {
		return
	}
	a.Host, a.Waits = e.Host, ""
	if e.Ref != a.Reports {
		a.Reports, a.Steps, a.Progress = e.Ref, 0, Progress{Phase: PhaseAgent, Since: e.TS, Cost: a.Cost}
		return
	}
	if a.Phase == PhaseOpen { // the run was resumed, and the worker is still there
		if a.Phase, a.Since = PhaseAgent, e.TS; a.Agent != nil {
			a.Phase = PhaseVerify
		}
	}
}

func (s *State) attemptFinished(e *Event) {
	t := s.record(e.Task)
	s.ended(e)
	s.Providers.attempt(e)
	s.finishAttempt(t, e)
}

func (s *State) agentFinished(e *Event) {
	d := e.Detail
	if a := s.running(e); a != nil && d != nil {
		if a.Agent = d; a.Phase == PhaseOpen {
			a.Phase, a.Since = PhaseAgent, e.TS
		}
		a.Cost.Add(d)
	}
	s.Providers.said = d != nil && d.Until != nil
	s.spend(e)
	if d == nil {
		return
	}
	if e.Iteration > 0 {
		s.Prompt.agentFinished(d)
	}
}

func (s *State) verifyStarted(e *Event) {
	if e.Detail.Apart() {
		s.Baseline = e.TS
		return
	}
	a := s.attemptOf(e)
	a.Phase, a.Since = PhaseVerify, e.TS
}

func (s *State) verifyFinished(e *Event) {
	d := e.Detail
	if d.Apart() {
		s.Baseline = time.Time{}
	} else if a := s.attemptOf(e); d != nil {
		a.checked(d)
	}
	if d == nil {
		return
	}
	if e.Iteration > 0 && e.Title == "" { // else it is the command of a criterion
		s.Prompt.Failing = !d.Passed
	}
	if d.Command != "" {
		s.noteCheck(e)
	}
}

func (s *State) lookStarted(e *Event) {
	if e.Detail != nil && e.Detail.Look == LookReview {
		s.asking = append(s.asking, e)
	}
	if e.Task == "" && e.Iteration == 0 { // of a wave
		return
	}
	a := s.attemptOf(e)
	if a.Phase, a.Since = PhaseLook, e.TS; e.Detail != nil {
		a.Look = e.Detail.Look
	}
}

// answered takes out the review that an event is about.
func (s *State) answered(e *Event) {
	s.asking = slices.DeleteFunc(s.asking, func(a *Event) bool { return a.Key() == e.Key() && a.Wave == e.Wave })
}

// cutReviews counts the reviewers that a killed run had at work: what they cost is unknown, not nothing.
func (s *State) cutReviews() {
	for _, asked := range s.asking {
		e := &Event{Unit: asked.Unit, Detail: &Detail{Exit: Exit{End: EndCancelled}}}
		s.spend(e)
		switch a := s.Attempt(e.Key()); {
		case e.Task == "" && e.Iteration == 0:
			s.cut[e.Wave]++
		case a != nil:
			a.Cost.Add(e.Detail)
		}
	}
}

func (s *State) lookAnswered(e *Event) {
	s.endWaitsOf(e)
	s.spend(e)
	s.answered(e)
	d := e.Detail
	if d == nil {
		return
	}
	s.Providers.said = true
	s.Providers.attempt(e)
	switch {
	case e.Task != "" || e.Iteration > 0:
		a := s.attemptOf(e)
		a.Asked = append(a.Asked, d)
		a.Cost.Add(d)
	case e.Wave > 0:
		s.Reviews[e.Wave] = append(s.Reviews[e.Wave], d)
	}
}

func (s *State) integrated(e *Event) {
	if a := s.running(e); a != nil {
		if a.Settled = e.TS; a.Over() { // an iteration is committed before it ends
			s.stop(a)
		}
	}
}

func (s *State) iterationStarted(e *Event) {
	s.endWaits(e.TS)
	s.begin(e)
	s.Prompt.start(e)
}

func (s *State) iterationFinished(e *Event) {
	s.waitForAnswer(e)
	s.ended(e)
	s.Providers.attempt(e)
	s.Prompt.finish(e)
	if !e.Verdict.Unjudged() && e.Detail != nil && e.Detail.Passed {
		s.integrateTests(e)
	}
}

func (s *State) gateSpoke(e *Event) {
	s.waitForAnswer(e)
	switch {
	case e.Wave == 0:
		s.Prompt.record(e)
	case e.Verdict == Done && e.Detail != nil: // of a wave's review
		s.Approved = append(s.Approved, e.Detail.Tree)
	}
}
