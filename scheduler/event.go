package scheduler

import "time"

// Event is what happened, as the journal has it. Each is durable before an action that follows from it is started.
type Event interface{ event() }

// Resumed starts or resumes a run: what is in force now, and what git has. It is the only recovery; a start resumes
// nothing.
type Resumed struct {
	Settings Settings
	Limits   Limits
	List     []Listed
	Lanes    []Lane
	Chain    []Entry  // the trunk, in order
	In       int      // how many of its entries the branch has
	Moved    int      // commits of the branch that are not ours
	Aside    bool     // the run's branch is descartes/<tag>
	Wave     int      // the highest wave of which the branch has a commit
	Listed   []string // tasks that the branch's list calls blocked or done without a commit
	Alive    []string // attempts that a fleet still makes
	Kept     []Kept   // attempts whose agents ended: their commits are under their refs
}

// Kept is an attempt whose end the journal may have lost; its commit says what it cost.
type Kept struct {
	Task string
	USD  float64
}

type AttemptStarted struct {
	Task    string
	Lane    int
	Account string
	Purpose Purpose
}

type AttemptEnded struct {
	Task      string
	Outcome   Outcome
	Signature string    // how it failed, without numbers, times and paths
	Until     time.Time // of OutOfQuota and Fault: until when the account rests
	USD       float64
	Kept      bool // what it left is under its ref, although it failed
}

type CheckStarted struct {
	Purpose Purpose
	Task    string
}

type CheckEnded struct {
	Purpose   Purpose
	Task      string
	Result    Result
	Signature string
	Paths     []string // of Clashed
	Changed   bool     // the merge changed files of the attempt: what a review approved is another thing now
	Known     []string // failures of a red baseline, or of accepted work: from now on they are the trunk's
}

type WaveCheckStarted struct{ Wave, Tip int }

type WaveCheckEnded struct {
	Wave, Tip int
	Result    Result
}

type TakeInStarted struct{ Upto int }

type TakeInEnded struct {
	Upto   int
	Result Result
}

type CommitStarted struct{ Wave, Tip int }

type Committed struct {
	Wave, Tip int
	Result    Result // Passed, or Moved: the branch is another one than we knew, and nothing was done
	Aside     bool   // on descartes/<tag>
}

type BranchMoved struct {
	Upto int  // how many commits it has that are not ours
	Lost bool // one of ours is gone from it
}

type ListChanged struct{ List []Listed }

type LimitsChanged struct{ Limits Limits }

type LaneCame struct{ Lane Lane }

type LaneGone struct{ Number int }

type LimitMet struct { // by another run, or remembered
	Account string
	Until   time.Time
}

// Pushed is how a push ended. It comes before the Committed of what was pushed, or before Ended, which asks Next again.
type Pushed struct{ Result Result }

// Trouble is what cannot be done: disk full, git refused. The run ends with its code, and nothing is started.
type Trouble struct {
	Why  string
	Code int
}

type Requested struct {
	Request Request
	Task    string
}

// Rewound is a person's, while no run is live. Open are the tasks whose work stood on what was cut, or that he opened
// with it.
type Rewound struct {
	Chain []Entry
	In    int
	Moved int
	Wave  int
	Open  []string
}

type Ended struct {
	Why  string
	Code int
}

func (Resumed) event()          {}
func (AttemptStarted) event()   {}
func (AttemptEnded) event()     {}
func (CheckStarted) event()     {}
func (CheckEnded) event()       {}
func (WaveCheckStarted) event() {}
func (WaveCheckEnded) event()   {}
func (TakeInStarted) event()    {}
func (TakeInEnded) event()      {}
func (CommitStarted) event()    {}
func (Committed) event()        {}
func (BranchMoved) event()      {}
func (ListChanged) event()      {}
func (LimitsChanged) event()    {}
func (LaneCame) event()         {}
func (LaneGone) event()         {}
func (LimitMet) event()         {}
func (Pushed) event()           {}
func (Trouble) event()          {}
func (Requested) event()        {}
func (Rewound) event()          {}
func (Ended) event()            {}

type Purpose string

const (
	Work       Purpose = "work"
	SecondLook Purpose = "second look"
	Review     Purpose = "review"

	Baseline  Purpose = "baseline"
	OfAttempt Purpose = "attempt"
	Recheck   Purpose = "recheck"
)

// Outcome is how an agent's run ended.
type Outcome string

const (
	Finished   Outcome = "finished"   // it claims or changed something
	Clean      Outcome = "clean"      // no agent ran: the task's own work merges cleanly by now
	Unchanged  Outcome = "unchanged"  // it claims to be done and changed nothing; of a second look: and names nothing
	Shown      Outcome = "shown"      // a second look found nothing to do, and names what shows it
	Crashed    Outcome = "crashed"    //
	TimedOut   Outcome = "timed out"  //
	Nothing    Outcome = "nothing"    // changed nothing and claims nothing
	Unstorable Outcome = "unstorable" // left what no commit can hold
	OutOfQuota Outcome = "out of quota"
	Fault      Outcome = "fault"   // a provider's passing one
	Refused    Outcome = "refused" // login, command line
	Cancelled  Outcome = "cancelled"
	GaveUp     Outcome = "gave up"
	Asks       Outcome = "asks"
	TooLong    Outcome = "too long" // its client takes no prompt of this length
	Approved   Outcome = "approved"
	Rejected   Outcome = "rejected"
)

// Result is what came of an action at the trunk.
type Result string

const (
	Passed  Result = "passed"
	Failed  Result = "failed"
	Clashed Result = "clashed"
	Cut     Result = "cut"   // short: it is repeated
	Moved   Result = "moved" // the branch is another one by now
)

type Request string

const (
	Pause   Request = "pause"
	Go      Request = "go"
	Stop    Request = "stop"     // start no agent
	StopNow Request = "stop now" // a second Ctrl-C, cancel --now: check nothing more
	Term    Request = "term"     // SIGTERM
	Retry   Request = "retry"    // or answered
	Accept  Request = "accept"
)

// Action is what the executor does next. It journals the event that says so before it starts.
type Action interface{ action() }

type Attempt struct {
	Task    string
	Lane    int
	Account string
	Purpose Purpose
}

type Check struct {
	Purpose Purpose
	Task    string
	Checked bool // the merge of this commit and this tip has passed already (before its review): it is only merged
	Known   []string
}

type TakeIn struct{ Upto int }

type WaveCheck struct{ Wave, Tip int }

type Commit struct {
	Wave, Tip int
	Continued bool // the branch has a commit of this wave
	Aside     bool
}

type End struct {
	Why  string
	Code int
}

func (Attempt) action()   {}
func (Check) action()     {}
func (TakeIn) action()    {}
func (WaveCheck) action() {}
func (Commit) action()    {}
func (End) action()       {}
