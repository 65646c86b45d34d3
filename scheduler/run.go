package scheduler

import (
	"slices"
	"time"
)

// Settings are how a run goes; they hold until it ends.
type Settings struct {
	Barrier       bool   // a wave ends before the next one starts
	Step          bool   // one wave
	Only          string // of step --task: no other task starts, but those that the run adds
	PerTask       bool   // commit: task
	Careful       bool   // care: careful: a person says whether a task is done for which nothing had to be done
	OtherReviewer bool   // care: paranoid: whose account made the work does not review it
	RespectScope  bool
	WaveChecks    []string // checks with when: wave, by name
	EndChecks     []string // checks with when: end
	ChecksAtOnce  int      // how many commits are checked at a time, each on what those before it would be; 0 is 1
	Breaker       int      // tasks in a row; 0: off
	Baseline      string   // require, warn, known; "" or off
	Accounts      []string // of tasks that the run adds
}

// interruptions of one task in a row after which a person has to look.
const maxInterruptions = 10

// Lane is a place for one attempt at a time: a slot, or one on a worker's machine.
type Lane struct {
	Number int
	Labels []string
	Worker string // its machine, which has accounts of its own; "": this one
	Checks bool   // its worker takes checks, too
}

// Run says what a run over the tasks of a tag does next. It is a pure state machine, as etcd's raft is one: events go
// in, actions come out, and there is no clock, file, process, goroutine or lock in it. Only Apply changes it.
//
//	journal --Apply--> Run --Next(now)--> actions --(executor)--> events, each journaled, then applied
//
// A task's way: pending -> running -> made -> checking (-> reviewing -> made) -> merged -> done; task.go has the
// table.
//
// Laws, which a simulator holds at every step by books of its own (scheduler/sim):
//
//   - one attempt a lane; a task starts only from a trunk that has all that it needs, and the branch's own commits;
//   - no agent starts into a known limit, beyond a limit, after a stop, pause, deadline, cost or open breaker;
//   - no lane stands idle that a task may have, no check tree that a commit may have, no commit is late or early;
//   - a more urgent task is never passed over;
//   - one thing at a time at the trunk; nothing merged leaves it but by a rewind; every tip was checked, or accepted;
//   - every task is in the branch once; done is what the branch has, or a person's word, or was shown;
//   - a kill costs at most the step that it cut; an agent's finished work is never made again by it;
//   - at an end nothing is at work, what was merged is committed or the reason is said, nothing that could run is left;
//   - the journal folded again gives the same run.
//
// What comes in events, because it needs git, a clock, processes or text, is the executor's: whether an agent claims
// or changed something, asks, gives up or was cut short; that its work merges cleanly by now, or has markers left
// (Failed); what its check said, with hooks, holdout, old judges and every command of it in one (the signature of a
// failure has no numbers, times and paths); how long an account rests, with its jitter; which files a merge changed;
// what of the branch is ours, by trailers, or by a merge that changes nothing; on which branch the run is, on a
// detached HEAD and with --branch; that a worker is gone; that pause --now cuts agents short and checks not; pushes,
// receipts, handoff, notes and files of the run.
//
// What the list says is its source's: parts and containers, which statuses are a person's words and which are an
// older copy of ours, a list that cannot be read, brings a command that nobody trusts, or gives a task at work parts
// or a circle (it stays as last read until that is over), scopes as paths, labels, which tasks have a review, and the
// order.
//
// What a command refuses before anything starts (2) never comes here: a tag that runs, a missing plan, a task for a
// step that is not ready, an accept of what has no kept commit, a rewind of what was pushed, work that another branch
// of the tag has. It asks whether a red task shall be accepted, and looks at the checks first.
//
// And there is none of this: several candidates of one task, a review of a whole wave, checks when something is merged
// besides those of the attempt, merged work that is taken out again, an agent that works where the user does.
type Run struct {
	Settings Settings
	Limits   Limits
	Tasks    []*Task // in the order of the list, then what the run added
	Lanes    []Lane
	Accounts Accounts
	Breaker  Breaker
	Trunk    Trunk
	Waves    WaveCommits
	Stops    Stops
	Attempts int
	USD      float64
	Worked   bool     // an agent of this run has done something
	Baseline Result   // of the branch's tip; "": not known
	Known    []string // failures of the trunk that count for nothing
	Accepted []string // of these: what a person accepted brought them; they are known from then on, in later runs too
	Ended    string

	retried  []retried
	turns    int
	byID     map[string]*Task
	links    links
	renumber bool // stages or needs changed by which waves have their numbers
}

func NewRun() *Run {
	return &Run{byID: map[string]*Task{}, Accounts: NewAccounts()}
}

// Task is the task with an id, nil for none.
func (r *Run) Task(id string) *Task { return r.byID[id] }

// Apply folds one event into the run.
func (r *Run) Apply(e Event) {
	switch e := e.(type) {
	case Resumed:
		r.resumed(e)
	case AttemptStarted:
		r.attemptStarted(e)
	case AttemptEnded:
		r.attemptEnded(e)
	case CheckStarted:
		r.checkStarted(e)
	case CheckEnded:
		r.checkEnded(e)
	case WaveCheckStarted:
		r.Waves.Checking = slices.Clone(e.Checks)
	case WaveCheckEnded:
		r.waveCheckEnded(e)
	case TakeInStarted:
		r.Trunk.Busy = "take in"
	case TakeInEnded:
		r.takeInEnded(e)
	case CutStarted:
		r.Trunk.Busy = "cut"
	case CommitStarted:
		r.commitStarted()
	case Committed:
		r.committed(e)
	case BranchMoved:
		r.branchMoved(e)
	case ListChanged:
		r.changeList(e.List)
	case LimitsChanged:
		r.setLimits(e.Limits)
	case LaneCame:
		r.Lanes = append(r.Lanes, e.Lane)
	case LaneGone:
		r.Lanes = slices.DeleteFunc(r.Lanes, func(l Lane) bool { return l.Number == e.Number })
		if t := r.inLane(e.Number); t != nil {
			r.interrupt(t)
		}
	case LimitMet:
		r.Accounts.Exhaust(AccountOn(e.Worker, e.Account), e.Until)
	case LimitCleared:
		r.Accounts.Clear(AccountOn(e.Worker, e.Account))
	case Pushed:
		r.Stops.Unpushed = e.Result != Passed
	case Trouble:
		r.Stops.met(e)
	case Requested:
		r.requested(e)
	case Rewound:
		r.rewound(e)
	case Ended:
		if r.Ended = e.Why; e.Why == "baseline" {
			r.takeBackRetries()
		}
	}
	if r.renumber {
		r.numberWaves()
	}
	r.takeAccepted()
}

// setLimits puts limits in force. What has used up a lower one is blocked; what was blocked by one waits for a person.
func (r *Run) setLimits(l Limits) {
	r.Limits = l
	for _, t := range r.Tasks {
		if t.Stage == Pending && r.isSpent(t) {
			r.block(t)
		}
	}
}

// resumed takes git's word for what is in, and the journal's for the rest.
func (r *Run) resumed(e Resumed) {
	r.Settings, r.Lanes, r.retried = e.Settings, slices.Clone(e.Lanes), nil
	r.Stops, r.Ended, r.Worked = Stops{}, "", false
	r.Accounts.Forget(false)
	if r.Breaker.opened.byTip { // no agent pays for it again
		r.Baseline = ""
	}
	r.Breaker.Resumed()
	r.Waves.resumed(e.Wave, e.Owed)
	left, isCut := r.trunkResumed(e)
	if r.Baseline == Failed && r.Settings.Baseline == "require" || r.Trunk.isBehind() {
		r.Baseline = "" // he may have mended it, or broken it
	}
	r.Known, r.Accepted = union(r.Known, e.Known), union(r.Accepted, e.Known)
	r.Limits = e.Limits
	if r.relist(e.List); isCut {
		r.wasCut(left)
	}
	place := map[string]int{}
	for i, entry := range r.Trunk.Entries {
		if t := r.byID[entry.Task]; t != nil {
			place[entry.Task] = i + 1
			r.sawCheck(t, i+1)
		}
	}
	listed, unneeded, alive := set(e.Listed), set(e.Unneeded), set(e.Alive)
	kept := map[string]bool{}
	for _, k := range e.Kept { // its end is not in the journal, its commit is under its ref
		if t := r.byID[k.Task]; t.Stage == Running && place[k.Task] == 0 {
			kept[k.Task] = true
			r.USD, t.USD = r.USD+k.USD, t.USD+k.USD
			t.Kept, t.Look, t.Interruptions = true, false, 0
			r.move(t, Made, -1)
		}
	}
	for _, t := range r.Tasks {
		switch {
		case listed[t.ID] || t.isStuck() && place[t.ID] == 0:
			t.Facts.Listed = Blocked
		case unneeded[t.ID]:
			t.Facts.Listed = Done
		default:
			t.Facts.Listed = ""
		}
		in := place[t.ID]
		switch {
		case in > 0 && in <= r.Trunk.In:
			if t.Stage != Done {
				r.moveTo(t, Done)
			}
		case in > 0:
			if t.Stage != Merged {
				r.moveTo(t, Merged)
			}
		case kept[t.ID]:
		case t.Stage == Checking:
			r.keepCheck(t)
			r.move(t, Made, -1)
		case t.Lane >= 0 && alive[t.ID]:
		case t.Lane >= 0:
			r.interrupt(t)
		case t.isIn(): // a person took it out
			t.reopen()
			r.move(t, Pending, -1)
		}
	}
	if e.OtherChecks {
		r.forgetChecks()
	}
	r.applyWords()
	r.setLimits(e.Limits)
	r.numberWaves()
	r.Waves.Upto = 0
	if r.Settings.Step && r.Settings.Only == "" {
		r.Waves.Upto = r.survey(time.Time{}).open
	}
}

func set(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, x := range list {
		m[x] = true
	}
	return m
}

// moveTo moves a task to where git has it, whatever the journal knew.
func (r *Run) moveTo(t *Task, to Stage) {
	if t.Stage == Running {
		r.move(t, Pending, -1)
	}
	if to == Done && (t.Stage == Checking || t.Stage == Made) {
		r.move(t, Merged, -1)
	}
	t.ByHand = false
	r.move(t, to, -1)
}
