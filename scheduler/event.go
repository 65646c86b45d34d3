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
	Branch   []string // commits of the branch that are not ours, in order
	Lost     []string // tasks of which the trunk has a commit that was in the branch, and is gone from it
	Aside    bool     // the run's branch is descartes/<tag>
	Wave     int      // the highest wave of which the branch has a commit
	Listed   []string // tasks that the branch's list calls blocked
	Unneeded []string // and done, without a commit
	Alive    []string // attempts that a fleet still makes
	Kept     []Kept   // attempts whose agents ended: their commits are under their refs

	OtherChecks bool     // other checks decide than before
	Known       []string // failures of what a person accepted in an earlier run
	Owed        []string // checks of the end that failed in an earlier run, and whose tasks were left blocked
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
	Signature string    // how it failed, or what it asks, without numbers, times and paths
	Until     time.Time // of OutOfQuota and Fault: until when the account rests
	USD       float64
	Kept      bool // what it left is under its ref, although it failed
}

type CheckStarted struct {
	Purpose Purpose
	Task    string
	On      []string // tasks before it, of which the check is not over
	Review  ReviewIf
}

type CheckEnded struct {
	Purpose   Purpose
	Task      string
	Result    Result
	Signature string
	Paths     []string // of Clashed
	Changed   bool     // the merge changed files of the attempt: what a review approved is another thing now
	Known     []string // failures of a red baseline, or of accepted work: from now on they are the trunk's
	Mended    []string // known failures that pass by now: once it is merged they are none any more
	Ask       bool     // of Failed: a person says whether it may be so
}

type WaveCheckStarted struct {
	Wave, Tip int
	Checks    []string // by name
}

type WaveCheckEnded struct {
	Wave, Tip int
	Result    Result
	Failed    []string // which of them
}

type TakeInStarted struct{ Commit string }

type TakeInEnded struct {
	Commit string
	Result Result
}

type CutStarted struct{ Tip int } // a Rewound ends it

type CommitStarted struct{ Wave, Tip int }

type Committed struct {
	Wave, Tip int
	Result    Result // Passed; Moved: the branch is another one than we knew; Cut by a request to end at once
	Aside     bool   // on descartes/<tag>
}

type BranchMoved struct {
	Commits []string // that are not ours, and new
	Lost    []string // tasks whose commits are gone from it
}

type ListChanged struct{ List []Listed }

type LimitsChanged struct{ Limits Limits }

type LaneCame struct{ Lane Lane }

type LaneGone struct{ Number int }

type LimitMet struct { // by another run, or remembered
	Account string
	Worker  string // whose account that is; "": this machine's
	Until   time.Time
}

type LimitCleared struct { // by a person, who knows better
	Account string
	Worker  string
}

// Pushed is how a push ended. It comes before the Committed of what was pushed, or before Ended, which asks Next again.
type Pushed struct{ Result Result }

// Trouble is what cannot be done: disk full, git refused. The run ends with its code, and no agent is started. What it
// came of is not tried again: with Checks nothing more is checked, with Commits nothing more committed.
type Trouble struct {
	Why     string
	Code    int
	Checks  bool
	Commits bool
}

type Requested struct {
	Request Request
	Task    string
	Kept    bool // of Accept: an earlier run left the commit
}

// Rewound is a person's, while no run is live, or what a CutTrunk came to. Open are the tasks whose work stood on what
// was cut, or that he opened with it.
type Rewound struct {
	Chain  []Entry
	In     int
	Branch []string
	Wave   int
	Open   []string
}

type Ended struct {
	Why   string
	Code  int
	Tasks []string
	Halt  string
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
func (CutStarted) event()       {}
func (CommitStarted) event()    {}
func (Committed) event()        {}
func (BranchMoved) event()      {}
func (ListChanged) event()      {}
func (LimitsChanged) event()    {}
func (LaneCame) event()         {}
func (LaneGone) event()         {}
func (LimitMet) event()         {}
func (LimitCleared) event()     {}
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
	Mute       Outcome = "mute"     // asks, and used no tool at all: its prompt may never have come to it
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

// ReviewIf says when what passes is not merged, because a review of it comes first.
type ReviewIf string

const (
	NoReview  ReviewIf = ""
	IfChanged ReviewIf = "if changed" // it was approved: only where the merge changed files of the attempt
	Always    ReviewIf = "always"
)

type Request string

const (
	Pause    Request = "pause"
	PauseNow Request = "pause now" // check nothing more
	Go       Request = "go"
	Stop     Request = "stop"     // start no agent
	StopNow  Request = "stop now" // a second Ctrl-C, cancel --now: check nothing more
	Term     Request = "term"     // SIGTERM
	Retry    Request = "retry"    // or answered
	Accept   Request = "accept"
)

// Action is what the executor does next. It journals the event that says so before it starts.
type Action interface{ action() }

type Attempt struct {
	Task    string
	Lane    int
	Account string
	Purpose Purpose
}

// Check is of a commit, merged onto the trunk's tip. What passes is the next tip, but where the checks of others are
// not over, on whose merge it stands (On): then it is only said whether it passes, and a Check that has only to merge
// follows.
type Check struct {
	Purpose Purpose
	Task    string
	On      []string
	Review  ReviewIf
	Checked bool // this commit has passed on this tip already: it is only merged
	Known   []string
}

// TakeIn is of the branch's commits up to this one.
type TakeIn struct{ Commit string }

type WaveCheck struct {
	Wave, Tip int
	Checks    []string
}

// CutTrunk ends the trunk at an entry: what stood behind it is gone from the branch. Its Rewound opens these tasks too.
type CutTrunk struct {
	Tip  int
	Open []string
}

type Commit struct {
	Wave, Tip int
	Continued bool // the branch has a commit of this wave
	Aside     bool
}

type End struct {
	Why   string
	Code  int
	Tasks []string // whose commits are gone from the branch
	Halt  string   // why tasks are left that a resume could do, whatever the reason that counts first; "": none are
}

func (Attempt) action()   {}
func (Check) action()     {}
func (TakeIn) action()    {}
func (WaveCheck) action() {}
func (CutTrunk) action()  {}
func (Commit) action()    {}
func (End) action()       {}
