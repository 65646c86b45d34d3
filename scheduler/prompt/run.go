// Package prompt says what a loop over one prompt does next. It is a pure state machine: events go in, actions come
// out, and there is no clock, file, process, goroutine or lock in it.
//
//	journal --Apply--> Run --Next(now)--> actions --(executor)--> events, each journaled, then applied
//
// An iteration's way: idle -> running (its agent works) -> made (its commit is under its ref) -> checking (merged onto
// the tip, hooks, checks) -> checked -> reviewing (where a review is asked for) -> ready -> delivering (to the branch,
// or to the user's tree) -> idle. Before the first of them the untouched tree may be checked, after the last what is
// done. One thing at a time is under way.
//
// What comes in events is the executor's: what an agent said in its own final message, what it left and why it ended,
// what checks and commands of criteria found, whether the plan is there and open, whose answer it is; the texts of
// prompts, context and questions, the session that --continue goes on with, documents and ticks of a plan, files,
// flags and locks. An agent's own commits, and files that follow, are inside a delivery; one that a kill cut short is
// finished before the Resumed that tells of it.
//
// Accounts, bounds and the breaker are those of package scheduler, where a run over tasks is decided. This is a package
// beside it and no type in it: nearly each of its words (stage, limits, resumed, started, made) means another thing
// there, and neither machine knows the other.
//
// The laws, which the simulator judges at every step by the world's own books:
//   - the number of an iteration is in the journal before its agent starts, never goes back and never passes the limit
//   - no agent starts after a stop, pause, deadline, cost or limit, into a known limit, while a question or a breaker
//     is open
//   - the gate hears of every try that ended by itself, once, and before the next agent starts
//   - done is only what a try said that passed its checks and whose work is where it belongs
//   - what did not pass is in no commit; it is under its ref, the next try goes on from it, and the commit that passes
//     has both
//   - a commit is what was checked, on the tip on which it was checked
//   - an agent's finished work is neither made again nor forgotten because of a kill; a kill costs at most the step
//     that it cut
//   - no agent starts before the baseline passed, where one is asked for; done is said only after the checks of the end
//   - a question waits for its answer, a breaker for its time or a person
//   - the run ends when a reason is there, with the first of the reasons, and never without one
//   - the journal folded again gives the same run
package prompt

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"descartes/scheduler"
)

// Stage is where the iteration at hand stands.
type Stage string

const (
	Idle        Stage = "idle" // the next iteration, a question, or the end
	Running     Stage = "running"
	Made        Stage = "made"
	Checking    Stage = "checking"
	Checked     Stage = "checked" // it passed, and a review is to look at it
	Reviewing   Stage = "reviewing"
	Ready       Stage = "ready" // it passed, and is not yet where it belongs
	Delivering  Stage = "delivering"
	Asking      Stage = "asking"       // a person, or a pre-check
	CheckingAll Stage = "checking all" // the untouched tree, or what is done
)

var stages = map[Stage][]Stage{
	Idle:        {Running, Asking, CheckingAll},
	Running:     {Made, Idle}, // idle: it counts for nothing, failed before any check, or a kill cut it
	Made:        {Checking},
	Checking:    {Checked, Ready, Made, Idle}, // made: cut; idle: it failed or clashed, or nothing is to be delivered
	Checked:     {Reviewing, Ready, Idle},     // not reviewing: nobody is to review any more
	Reviewing:   {Ready, Checked, Idle},       // checked: cut, or its account has no quota; idle: it objects, or as above
	Ready:       {Delivering},
	Delivering:  {Idle, Ready, Made}, // ready: cut; made: the branch moved, so it is checked again
	Asking:      {Idle},
	CheckingAll: {Idle},
}

// Cause is why a try failed. It decides how a run ends that has no tries left.
type Cause string

const (
	ByTests Cause = "tests"
	ByAgent Cause = "agent"
	ByGit   Cause = "git"
	ByPlan  Cause = "plan" // it ends without one
)

// Iteration is the try of one that is at hand, or the last.
type Iteration struct {
	Try      Try
	Account  string // of the agent that has it, or had it last
	By       string // of the agent that did the work
	From     Try    // whose work it goes on from
	Plans    bool   // it is a planning iteration of a build
	Left     Left
	Found    Found
	Approved bool // by a review: it is not looked at again where only the branch moved
}

// Following is what is known of the next one.
type Following struct {
	Again bool // it has the same number
	Plans bool
	Owed  Try // whose ref has work that is in no commit: the next one goes on from it
}

// Rows count what failed.
type Rows struct {
	Tries    int // of the iteration
	Cause    Cause
	Crashes  scheduler.Breaker // of the tries whose agents crashed
	Refusals int               // commits since one was taken
}

// Halt is what keeps the next agent from being started, besides limits and what the gate says.
type Halt struct {
	Request Request
	Clashed bool // with what the user committed: a person merges, or it is made again
	Apart   bool // the user's tree could not take it
	Lacks   Why  // what an iteration would have needed
	Broken  Why  // what could not be done
	Alone   bool // nobody was there to answer, or he said no
}

// Whole is what the checks came to that look at no try: "" for nothing yet.
type Whole struct {
	Baseline Verdict // of the untouched tree
	Last     Verdict // of the end
}

// Run is a prompt loop. Only Apply changes it.
type Run struct {
	Settings Settings
	Limits   Limits
	Accounts scheduler.Accounts
	Names    []string // of the accounts, in the order in which they are tried
	Gate     Gate
	Say      Say // the gate's last word

	Stage Stage
	At    Iteration
	Then  Following
	Rows  Rows
	Halt  Halt
	Whole Whole
	USD   float64
	Ended Why
}

// New is a run before its first event. The gate is its own: a run that folds the journal again gets a new one.
func New(s Settings, accounts []string, g Gate) *Run {
	return &Run{Settings: s, Accounts: scheduler.NewAccounts(), Names: accounts, Gate: g, Stage: Idle,
		Say: Say{Word: Continue}}
}

// move is the only writer of the stage.
func (r *Run) move(to Stage) {
	if !slices.Contains(stages[r.Stage], to) {
		panic(fmt.Sprintf("iteration %d.%d: %s -> %s", r.At.Try.Number, r.At.Try.Try, r.Stage, to))
	}
	r.Stage = to
}

// Apply folds one line of the journal.
func (r *Run) Apply(l Entry) {
	switch e := l.Event.(type) {
	case Resumed:
		r.resumed(e, l.When)
	case Started:
		r.started(e)
	case Unprepared:
		r.Halt.Lacks = e.Why
	case AgentEnded:
		r.agentEnded(e.Left, l.When)
	case CheckStarted:
		r.move(Checking)
	case CheckEnded:
		r.checkEnded(e, l.When)
	case ReviewStarted:
		r.At.Account = e.Account
		r.move(Reviewing)
	case Reviewed:
		r.judged(e.Opinion, l.When)
	case BaselineStarted, LastStarted:
		r.move(CheckingAll)
	case BaselineEnded:
		r.allChecked(&r.Whole.Baseline, e.Verdict)
	case LastEnded:
		r.allChecked(&r.Whole.Last, e.Verdict)
	case DeliverStarted:
		r.move(Delivering)
	case Delivered:
		r.delivered(e, l.When)
	case PrecheckStarted:
		r.At.Account = e.Account
		r.move(Asking)
	case Prechecked:
		r.prechecked(e.Opinion, l.When)
	case AskStarted:
		r.move(Asking)
	case Answered:
		r.answered(e.Answer, l.When)
	case LimitMet:
		r.Accounts.Exhaust(e.Account, e.Until)
	case LimitCleared:
		r.Accounts.Clear(e.Account)
	case Asked:
		r.asked(e.Request)
	case LimitsChanged:
		r.Limits = e.Limits
	case Broken:
		r.Halt.Broken = e.Why
		r.recover(Resumed{}, l.When)
	case Ended:
		r.Ended = e.Why
	}
}

func (r *Run) started(e Started) {
	if e.Try.Try == 1 {
		r.Rows.Tries, r.Rows.Cause = 0, ""
	}
	r.At = Iteration{Try: e.Try, Account: e.Account, By: e.Account, From: r.Then.Owed, Plans: r.Then.Plans}
	r.Then.Again = false
	r.move(Running)
}

// agentEnded takes what a try's agent left. Whatever its end, what it changed is under its ref, and owed.
func (r *Run) agentEnded(left Left, at time.Time) {
	r.At.Left = left
	r.USD += left.USD
	if left.Changed && !left.Undid && r.Settings.Place != Folder {
		r.Then.Owed = r.At.Try
	}
	switch left.Verdict {
	case Limited, Faulty, Refused, Cancelled:
	default:
		r.Accounts.Served()
	}
	switch left.Verdict {
	case Limited, Faulty, Refused:
		r.account(left.Verdict, left.Until)
		r.Then.Again = true
		r.move(Idle)
	case Cancelled: // it has had its number, and says nothing about the agent; the last one has it again
		r.Then.Again = r.At.Try.Number >= r.Limits.Iterations
		r.move(Idle)
	case Crashed, Failed:
		r.crashed(left.Verdict == Crashed)
		r.fail(ByAgent, at)
	default:
		r.crashed(false)
		r.Accounts.Worked(r.At.Account)
		if left.Undid { // nothing is left to check
			r.fail(ByAgent, at)
			return
		}
		r.move(Made)
	}
}

// allChecked takes what a check of the whole came to. One that was cut says nothing.
func (r *Run) allChecked(of *Verdict, v Verdict) {
	if r.move(Idle); v != Cancelled {
		*of = v
	}
}

// crashed keeps the row of tries whose agents crashed. Every one of them is a name of its own.
func (r *Run) crashed(is bool) {
	if !is {
		r.Rows.Crashes.Passed()
		return
	}
	r.Rows.Crashes.Failed(fmt.Sprintf("%d.%d", r.At.Try.Number, r.At.Try.Try), "crash", true, r.Limits.Crashes)
}

// account takes an end that counts for nothing: it is the account's.
func (r *Run) account(v Verdict, until time.Time) {
	switch v {
	case Limited:
		r.Accounts.Exhaust(r.At.Account, until)
	case Faulty:
		r.Accounts.Fault(r.At.Account, until)
	case Refused:
		r.Accounts.Refuse(r.At.Account)
	}
}

func (r *Run) checkEnded(e CheckEnded, at time.Time) {
	switch e.Verdict {
	case Cancelled:
		r.move(Made)
	case Clashed: // its work stays under its ref: a person merges it, or it is made again on what he committed
		r.Halt.Clashed, r.Then.Again, r.Then.Owed = true, true, r.At.From
		r.move(Idle)
	case Failed:
		r.At.Found = e.Found
		r.fail(ByTests, at)
	case Passed:
		r.At.Found = e.Found
		r.passed(at)
	}
}

// passed says what becomes of work whose checks pass.
func (r *Run) passed(at time.Time) {
	said, last := r.At.Left.Said, r.At.Try.Number >= r.Limits.Iterations
	switch {
	case r.Settings.Mode == Plan && r.At.Found.NoPlan && (said.Promise || last):
		r.fail(ByPlan, at)
	case r.Settings.Claims && !r.delivers() && !said.Promise && (!said.Question || r.lost()):
		r.fail(ByAgent, at)
	case r.reviewed():
		r.approved(at)
	default:
		r.move(Checked)
	}
}

// reviewed reports whether the try that passed needs no agent's judgement any more. In a loop it is asked for once the
// agent says that all is done, in plan and build of all that is delivered.
func (r *Run) reviewed() bool {
	switch {
	case len(r.Settings.Reviewers) == 0, r.Settings.Place == Folder, r.At.Plans, r.At.Approved:
		return true
	case r.Settings.Mode == Loop:
		return !r.At.Left.claims()
	}
	return !r.delivers()
}

// approved goes on with a try to which nobody objects.
func (r *Run) approved(at time.Time) {
	if r.delivers() {
		r.move(Ready)
		return
	}
	r.settle(true, at)
}

// lost reports whether the try's agent looks as if its prompt never came to it: it is the first, did nothing at all, and
// only asks. It is tried once more before a person is asked, where a try is left.
func (r *Run) lost() bool {
	return r.At.Left.Idle && r.At.Try == Try{1, 1} && (r.Limits.Iterations > 1 || r.Settings.retries() > 0)
}

// delivers reports whether the try at hand has something to deliver.
func (r *Run) delivers() bool {
	if r.At.Plans {
		return r.At.Left.Changed
	}
	return r.Then.Owed != Try{}
}

// judged takes what a review says of work that passed. An objection is as if its checks had failed.
func (r *Run) judged(o Opinion, at time.Time) {
	r.USD += o.USD
	switch o.Verdict {
	case Limited, Faulty, Refused:
		r.account(o.Verdict, o.Until)
		r.move(Checked)
	case Cancelled:
		r.move(Checked)
	case Passed:
		r.At.Approved = true
		r.approved(at)
	default:
		r.At.Found.Error, r.At.Found.Question = "review", o.Asks
		r.fail(ByTests, at)
	}
}

func (r *Run) delivered(e Delivered, at time.Time) {
	switch e.Verdict {
	case Passed:
		r.landed(at)
	case Moved:
		r.move(Made)
	case Cancelled:
		r.move(Ready)
	case Failed:
		r.Rows.Refusals++
		r.At.Found.Error = e.Error
		r.fail(ByGit, at)
	case Refused: // all of it stays under its ref, and the run ends with that; who resumes leaves it there
		r.Halt.Apart, r.Then.Owed = true, Try{}
		r.settle(false, at)
	}
}

// landed ends a try whose work is where it belongs. What a planning iteration went on from is still owed.
func (r *Run) landed(at time.Time) {
	r.Rows.Refusals, r.Then.Owed = 0, Try{}
	if r.At.Plans {
		r.Then.Owed = r.At.From
	}
	r.settle(true, at)
}

// fail ends a try that did not pass: the same number again where its mode says so, else the next one goes on from it.
func (r *Run) fail(why Cause, at time.Time) {
	r.Rows.Tries, r.Rows.Cause = r.Rows.Tries+1, why
	r.settle(false, at)
	switch n := r.Settings.retries(); {
	case n == 0:
	case r.Rows.Tries <= n:
		r.Then.Again, r.Then.Plans = true, r.At.Plans
	case r.Then.Plans: // the reason is looked for by planning again
		r.Rows.Tries = 0
	}
}

// spent reports whether the iteration has had all its tries. A loop has none: a failure is the next one's news.
func (r *Run) spent() bool {
	return r.Settings.Mode != Loop && r.Rows.Tries > r.Settings.retries()
}

// settle is the end of every try that ended by itself, and the one place where the gate hears of it.
func (r *Run) settle(passed bool, at time.Time) {
	if r.Stage != Idle {
		r.move(Idle)
	}
	r.Then.Again, r.Then.Plans = false, r.Settings.Replan && r.At.Found.Replan
	if passed {
		r.Rows.Tries, r.Rows.Cause = 0, ""
	}
	if r.At.Plans { // that a plan is complete ends no build
		return
	}
	left := &r.At.Left
	r.Say = r.Gate.Hear(&Heard{At: at, Said: left.Said, Found: r.At.Found, Changed: left.Changed, Bytes: left.Bytes,
		Edits: left.Edits, Blind: r.Settings.Place == Folder, Passed: passed, Error: cmp.Or(left.Error, r.At.Found.Error)})
	if r.Say.Word == Done && !passed { // whatever a gate is
		r.Say = Say{Word: Continue}
	}
	if r.Say.Word == Continue && (left.asks() && !r.lost() || r.At.Found.Question) {
		r.Say = Say{Word: Wait, What: OfAgent}
	}
}
