package journal

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Task is all that a loop's events say about one of its tasks.
type Task struct {
	ID       string
	Wave     int // in which it began, or was added: it stays in it, or comes later
	Stand    Stand
	Attempts int           // begun in the whole loop, for their numbers
	Failure  Failure       // of the last attempt that counted, or clashed; kept until the task is done
	CutShort Failure       // the last attempt, if its provider cut it short and it had changed something
	Verified *VerifiedTask // its work, while no commit has it
	Blocked  *Event        // if it is blocked
	GivenUp  *Event        // if it was, and no commit has its status
	Ref      string        // last one of its attempts
	Cost     Cost

	Tries
	Ground
	Gain

	since int64 // the event that set Stand
}

// Tries are what counts against a task's limits since it last got new attempts.
type Tries struct {
	Counted       int     // attempts
	Interruptions int     // attempts in a row that a person, a reboot or a kill ended
	OtherEnds     bool    // an attempt failed other than by an agent's crash
	USD           float64 // dollars
}

// Ground is what a task that has begun stands on, until it is done or blocked.
type Ground struct {
	Base    string    // tree before its first attempt
	Tree    string    // tree after its last attempt, or the base
	Started time.Time // its beginning

	bar []*Known // what was known about the checks then
}

// Gain is what others have of a task's verified work.
type Gain struct {
	Worked    bool // there is some, committed or not
	Delivered string
	Grade     Grade // of a done task
}

// Task returns what is known about a task, never nil.
func (s *State) Task(id string) *Task {
	if t := s.Tasks[id]; t != nil {
		return t
	}
	return &Task{ID: id}
}

// record returns a task's record to change it. That of an event without a task is thrown away.
func (s *State) record(id string) *Task {
	t := s.Task(id)
	if id != "" {
		s.Tasks[id] = t
	}
	return t
}

func (s *State) records(ids []string) (list []*Task) {
	for _, id := range ids {
		list = append(list, s.record(id))
	}
	return list
}

// inOrder returns what tasks have of something, in the order in which that came to be.
func inOrder[T interface {
	comparable
	at() int64
}](s *State, of func(*Task) T) (list []T) {
	var none T
	for _, t := range s.Tasks {
		if v := of(t); v != none {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(a.at(), b.at()) })
	return list
}

// OpenTasks are those that were started and are neither done nor blocked, by id.
func (s *State) OpenTasks() []*Task {
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.Tasks)), func(t *Task) bool { return !t.Open() })
	slices.SortFunc(list, func(a, b *Task) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Verified are the tasks with verified work that no commit has, in the order of verification.
func (s *State) Verified() []*VerifiedTask {
	return inOrder(s, func(t *Task) *VerifiedTask { return t.Verified })
}

// Uncommitted are their ids.
func (s *State) Uncommitted() (ids []string) {
	for _, v := range s.Verified() {
		ids = append(ids, v.Task)
	}
	return ids
}

// Blocked are the blocked tasks, in the order in which they were given up.
func (s *State) Blocked() []*Event {
	return inOrder(s, func(t *Task) *Event { return t.Blocked })
}

// GivenUp are those that were blocked since the last commit, even if they are not any more.
func (s *State) GivenUp() []*Event {
	return inOrder(s, func(t *Task) *Event { return t.GivenUp })
}

// Waves are the waves of the tasks that began or were added.
func (s *State) Waves() map[string]int {
	waves := map[string]int{}
	for id, t := range s.Tasks {
		if t.Wave > 0 {
			waves[id] = t.Wave
		}
	}
	return waves
}

// Grades are those of done tasks.
func (s *State) Grades() Grades {
	grades := Grades{}
	for id, t := range s.Tasks {
		if t.Grade != "" {
			grades[id] = t.Grade
		}
	}
	return grades
}

// Worked reports whether any task has verified work.
func (s *State) Worked() bool {
	for _, t := range s.Tasks {
		if t.Worked {
			return true
		}
	}
	return false
}

// ForgetWave drops what a wave has to commit: its commit would be empty.
func (s *State) ForgetWave(wave int) {
	for _, t := range s.Tasks {
		if v := t.Verified; v != nil && v.Wave == wave {
			t.Verified = nil
		}
		if b := t.GivenUp; b != nil && b.Wave == wave {
			t.GivenUp = nil
		}
	}
}

// finishAttempt applies the end of an attempt.
func (s *State) finishAttempt(t *Task, e *Event) {
	t.Ref = cmp.Or(e.Ref, t.Ref)
	d := e.Detail
	switch e.Verdict {
	case Unchanged:
		return
	case Cancelled:
		t.Interruptions++
	case Clashed: // the next attempt begins on the trunk as it is
		t.Interruptions, t.CutShort = 0, Failure{}
		t.Failure, t.OtherEnds, t.Base, t.bar = s.failure(e), true, e.Base, s.known()
		return
	default:
		t.Interruptions = 0
	}
	nobodys := e.Verdict.Nobodys(d)
	if nobodys && (!e.Verdict.Counts() || d.End != EndRefused) { // it may have cost something all the same
		if !e.Verdict.Counts() {
			s.Iteration--
		}
		if d != nil && d.Changed > 0 {
			t.CutShort = s.failure(e)
		}
		return
	}
	if !nobodys {
		t.Counted++
	}
	t.CutShort = Failure{}
	if e.Verdict == Verified {
		s.passAttempt(e)
		t.Tree, t.Verified = e.Tree, verifiedTask(t, e)
		if t.Verified.Ref = e.Ref; d != nil {
			t.Verified.Files = d.Files
		}
		t.Worked, t.Delivered = true, cmp.Or(e.Message, t.Delivered)
		return
	}
	t.OtherEnds = t.OtherEnds || e.Verdict != Crashed
	t.Failure = s.failure(e)
}

// Failure is an attempt that was not verified. Without a verdict it is none.
type Failure struct {
	Attempt          int
	Verdict          Verdict
	Reason, DiffStat string
	Checks           []*Detail // of several named checks: those that ran
	Result           *Detail   // nil if nothing was measured
}

func (s *State) failure(e *Event) Failure {
	f := Failure{Attempt: e.Attempt, Verdict: e.Verdict, Reason: e.Reason, DiffStat: e.Message,
		Result: e.Detail}
	if a := s.Attempt(e.Key()); a != nil {
		for _, c := range a.Checks {
			if c.Check != "" {
				f.Checks = append(f.Checks, c)
			}
		}
	}
	return f
}

// VerifiedTask is a task with verified work: the trees before and after it.
type VerifiedTask struct {
	Task       string
	Attempt    int
	Wave       int
	Base, Tree string
	Ref        string // ref that keeps it

	Files
	seq int64 // the event that says so
}

func (v *VerifiedTask) at() int64 { return v.seq }

func verifiedTask(t *Task, e *Event) *VerifiedTask {
	return &VerifiedTask{Task: e.Task, Attempt: e.Attempt, Wave: e.Wave, Base: t.Base, Tree: e.Tree, Ref: t.Ref,
		seq: e.Seq}
}
