package prompt

import (
	"slices"
	"time"
)

// Why is how a run ends.
type Why string

const (
	IsDone     Why = "done"
	Nothing    Why = "nothing to do" // of a build whose plan has no open item
	Stopped    Why = "stopped"
	Terminated Why = "terminated"
	IsApart    Why = "apart"   // the user's tree could not take it
	IsClash    Why = "clash"   // the user's commits and ours do not go together
	GitRefuses Why = "git"     // the last try's commit was refused, by git or by a hook
	Quota      Why = "quota"   // used up, and the wait is too long
	Crashing   Why = "crashes" // in a row
	NobodyCan  Why = "nobody can"
	OwnError   Why = "error"
	AgentFails Why = "agent fails"
	TestsFail  Why = "tests fail"
	NoPlan     Why = "no plan"
	BaseFails  Why = "baseline fails"
	LastFails  Why = "last checks fail" // those of the end
	AtLimit    Why = "limit"
	AtCost     Why = "cost"
	AtDeadline Why = "deadline"
	Paused     Why = "paused"
	Asks       Why = "asks"
	IsBlocked  Why = "blocked"
	IsOpen     Why = "breaker"
)

// Code is the exit code of an ending.
func Code(why Why, m Mode) int {
	switch why {
	case IsDone, Nothing:
		return 0
	case Stopped:
		return 130
	case Terminated:
		return 143
	case IsApart, IsClash, GitRefuses:
		return 5
	case Quota:
		return 75
	case Crashing, NobodyCan, AgentFails:
		return 4
	case TestsFail, LastFails:
		return 3
	case NoPlan, BaseFails:
		return 2
	case AtLimit:
		if m == Plan || m == Build { // their seed says so
			return 0
		}
		return 6
	case AtCost, AtDeadline:
		return 6
	case Paused, Asks, IsBlocked, IsOpen:
		return 7
	}
	return 1
}

// Next is what is to begin now; nothing while something is under way, or while an account rests.
func (r *Run) Next(now time.Time) (a Action, ok bool) {
	if r.Ended != "" {
		return a, false
	}
	switch r.Stage {
	case Running, Checking, Reviewing, Delivering, Asking, CheckingAll:
		return a, false
	}
	if why := r.Halt.Broken; why != "" { // what it left stays where it is; a resume does it again
		return r.end([]Why{why}), true
	}
	switch r.Stage {
	case Ready: // what passed is delivered, whatever was asked
		return Action{Do: Deliver, Try: r.At.Try, Apart: r.At.Plans, From: r.At.From}, true
	case Made:
		if why := r.atOnce(); why != "" { // it stays under its ref; a resume checks it without an agent
			return r.end([]Why{why}), true
		}
		return Action{Do: Check, Try: r.At.Try, Apart: r.At.Plans, From: r.At.From}, true
	}
	list := r.endings(now)
	switch { // of the rest none starts where the run ends
	case r.owesLast() && !r.stops(now):
		return Action{Do: Last}, true
	case len(list) > 0:
		return r.end(list), true
	case r.owesBaseline():
		return Action{Do: Baseline}, true
	case r.asks():
		return Action{Do: Ask, What: r.Say.What}, true
	}
	account, wake, why := r.pick(now)
	switch {
	case why != "":
		return r.end([]Why{why}), true
	case !wake.IsZero():
		return a, false
	case r.Stage == Checked:
		return Action{Do: Review, Try: r.At.Try, Account: account}, true
	case r.Say.Word == First:
		return Action{Do: Precheck, Account: account}, true
	}
	return Action{Do: Iterate, Try: r.following(), Account: account, From: r.Then.Owed, Plans: r.Then.Plans}, true
}

func (r *Run) following() Try {
	if r.Then.Again {
		return Try{r.At.Try.Number, r.At.Try.Try + 1}
	}
	return Try{r.At.Try.Number + 1, 1}
}

// asks reports whether a person has to be asked, and was not yet.
func (r *Run) asks() bool {
	return r.Stage == Idle && (r.Say.Word == Wait || r.Say.Word == Open) && !r.Halt.Alone
}

func (r *Run) end(list []Why) Action {
	return Action{Do: End, Why: list[0], Also: list[1:], Code: Code(list[0], r.Settings.Mode)}
}

// atOnce is a request after which nothing more is checked.
func (r *Run) atOnce() Why {
	switch r.Halt.Request {
	case PauseNow:
		return Paused
	case StopNow:
		return Stopped
	case Terminate:
		return Terminated
	}
	return ""
}

// endings are the reasons that apply to start no agent, the one that decides the exit code first. Those of a row that
// has between count between two iterations alone.
func (r *Run) endings(now time.Time) (list []Why) {
	l := &r.Limits
	atLimit := r.At.Try.Number >= l.Iterations && !r.Then.Again && !r.isOver()
	spent := r.spent() && !r.Then.Again
	const between, always = true, false
	for _, x := range []struct {
		when bool
		why  Why
		is   bool
	}{
		{between, BaseFails, r.Whole.Baseline == Failed},
		{between, IsDone, r.Say.Word == Done && !r.lacksLast()},
		{between, r.Halt.Lacks, r.Halt.Lacks == Nothing && !r.lacksLast()},
		{always, Terminated, r.Halt.Request == Terminate},
		{always, Stopped, r.Halt.Request == Stop || r.Halt.Request == StopNow},
		{between, IsApart, r.Halt.Apart},
		{between, IsClash, r.Halt.Clashed},
		{between, GitRefuses, spent && r.Rows.Cause == ByGit || r.Rows.Refusals > mostRefusals},
		{between, Crashing, r.Rows.Crashes.IsOpen() || atLimit && r.Rows.Crashes.InRow() >= l.Iterations},
		{between, AgentFails, spent && r.Rows.Cause == ByAgent},
		{between, TestsFail, spent && r.Rows.Cause == ByTests},
		{between, LastFails, r.Whole.Last == Failed},
		{between, NoPlan, r.Halt.Lacks == NoPlan || spent && r.Rows.Cause == ByPlan},
		{between, AtLimit, atLimit},
		{always, AtDeadline, l.IsLate(now)},
		{always, AtCost, l.IsSpent(r.USD)},
		{always, Paused, r.Halt.Request == Pause || r.Halt.Request == PauseNow},
		{between, IsBlocked, r.Say.Word == Blocked},
		{between, IsOpen, r.Say.Word == Open && r.Halt.Alone},
		{between, Asks, r.Say.Word == Wait && r.Halt.Alone},
	} {
		if x.is && (x.when == always || r.Stage == Idle) {
			list = append(list, x.why)
		}
	}
	// whatever else ends it, the last try's work is in no commit
	if n := len(list); n > 0 && r.Rows.Cause == ByGit && !slices.Contains(list, GitRefuses) {
		first := []Why{IsDone, Nothing, Terminated, Stopped}
		at := slices.IndexFunc(list, func(w Why) bool { return !slices.Contains(first, w) })
		if at < 0 {
			at = n
		}
		list = slices.Insert(list, at, GitRefuses)
	}
	return list
}

// owesBaseline reports whether the untouched tree has to be checked, and was not.
func (r *Run) owesBaseline() bool {
	return r.Settings.Baseline && r.Whole.Baseline == "" && r.Stage == Idle && r.At.Try.Number == 0
}

// isOver reports whether nothing is left to iterate for.
func (r *Run) isOver() bool { return r.Say.Word == Done || r.Halt.Lacks == Nothing }

// lacksLast reports whether the checks of the end did not pass yet.
func (r *Run) lacksLast() bool { return r.Settings.Last && r.Whole.Last != Passed }

// owesLast reports whether the checks of the end are to run.
func (r *Run) owesLast() bool {
	return r.Stage == Idle && r.isOver() && r.lacksLast() && r.Whole.Last != Failed
}

// stops reports whether nothing that could wait is begun any more: it is asked to end, or out of time.
func (r *Run) stops(now time.Time) bool { return r.Halt.Request != "" || r.Limits.IsLate(now) }

// Wakes is when Next may say something new without an event; zero for never.
func (r *Run) Wakes(now time.Time) time.Time {
	free := r.Ended == "" && r.Halt.Broken == "" && (r.Stage == Idle || r.Stage == Checked)
	if !free || len(r.endings(now)) > 0 || r.owesLast() || r.owesBaseline() || r.asks() {
		return time.Time{}
	}
	_, wake, _ := r.pick(now)
	return wake
}

// Among are the accounts of which one is to work next, in the order in which they are tried.
func (r *Run) Among() []string {
	if r.Stage == Checked {
		return r.reviewers()
	}
	return r.Names
}

// reviewers are the accounts whose agents may look at what passed.
func (r *Run) reviewers() []string {
	if !r.Settings.OtherReviewer {
		return r.Settings.Reviewers
	}
	return slices.DeleteFunc(slices.Clone(r.Settings.Reviewers), func(a string) bool { return a == r.At.By })
}

// pick says who works now: an account, or when to look again, or why nobody can.
func (r *Run) pick(now time.Time) (account string, wake time.Time, why Why) {
	account, wake, resting := r.Accounts.Pick(r.Among(), now)
	l := &r.Limits
	switch {
	case account != "":
		return account, time.Time{}, ""
	case wake.IsZero():
		return "", wake, NobodyCan
	case resting && !l.Deadline.IsZero() && l.Deadline.Before(wake):
		return "", l.Deadline, ""
	case !resting && (l.OnLimitStop || r.Accounts.IsTooLong(&l.Bounds, wake, now)):
		return "", time.Time{}, Quota
	}
	return "", wake, ""
}
