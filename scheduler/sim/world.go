package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"descartes/scheduler"
)

// world is git, agents, providers, a fleet and a person. What it did and was asked stands in its books; it never asks
// the run.
type world struct {
	*rand.Rand
	seed     uint64
	now      time.Time
	run      *scheduler.Run
	b        *books
	list     []scheduler.Listed
	set      scheduler.Settings
	lim      scheduler.Limits
	lanes    []scheduler.Lane
	journal  []scheduler.Event
	durable  int // of the journal
	doing    []work
	fleet    bool
	broken   string // what every agent, or every check, dies of tonight; branch: somebody commits there all the time
	trunk    []scheduler.Entry
	branch   []string // tasks in the run's branch
	aside    bool     // it is one of our own
	waves    int      // the highest that has a commit there
	inList   []string // tasks that the branch's list calls blocked, or done without a commit, each with that
	users    []string // commits of the user
	lost     []string // tasks whose commits he took out of the branch, and the trunk still has
	moved    int      // how often in a row the branch was another one when it was to get a commit
	bad      map[string]scheduler.Result
	passed   map[string]string // of a task's commit: the tip on which its checks passed last
	quota    map[string]time.Time
	refused  map[string]bool
	stats    map[string]int
	attempts int
	kills    int
}

type work struct {
	ends   time.Time
	action scheduler.Action
	effect func() scheduler.Event
}

// brokenLaw is how a night stops that breaks one.
type brokenLaw struct{ why string }

func (w *world) failf(format string, args ...any) { panic(brokenLaw{fmt.Sprintf(format, args...)}) }

// account is what a person reads to see what went wrong: the journal, and the tasks by run and by books.
func (w *world) account() string {
	var s strings.Builder
	for i, e := range w.journal {
		fmt.Fprintf(&s, "%3d %s\n", i, short(e))
	}
	for _, t := range w.run.Tasks {
		n := w.b.notes[t.ID]
		if n == nil {
			fmt.Fprintf(&s, "%s %s, not in the books\n", t.ID, t.Stage)
			continue
		}
		fmt.Fprintf(&s, "%s %s wave %d needs %v, by the books %s:\n      %+v\n      %+v\n", t.ID, t.Stage, t.Wave, t.Needs,
			w.b.is(n), *n, t.Facts)
	}
	fmt.Fprintf(&s, "%+v\n%+v %+v\n", w.run.Trunk, w.run.Waves, w.run.Breaker)
	return s.String()
}

func short(e scheduler.Event) string {
	s := strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "scheduler.")
	for _, x := range []string{" Signature:", " Until:0001-01-01 00:00:00 +0000 UTC", " USD:0", " Kept:false", " Paths:[]",
		" Changed:false", " Known:[]", " Task:", " Aside:false", " Lost:[]", " On:[]", " Review:", " Worker:", " Failed:[]"} {
		s = strings.ReplaceAll(strings.ReplaceAll(s, x+" ", " "), x+"}", "}")
	}
	return s
}

func (w *world) record(e scheduler.Event) {
	w.journal = append(w.journal, e)
	w.run.Apply(e)
	w.b.note(e)
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", e), "scheduler."), "{")
	switch e := e.(type) {
	case scheduler.AttemptEnded:
		name += " " + string(e.Outcome)
	case scheduler.CheckEnded:
		name += " " + string(e.Purpose) + " " + string(e.Result)
		if e.Ask {
			name += ", asks"
		}
	case scheduler.WaveCheckEnded:
		name += " " + string(e.Result)
	case scheduler.TakeInEnded:
		name += " " + string(e.Result)
	case scheduler.Committed:
		name += " " + string(e.Result)
		if w.moved++; e.Result != scheduler.Moved {
			w.moved = 0
		} else if w.moved > 51 {
			w.failf("%+v: for the %dth time in a row the branch is another one", e, w.moved)
		}
	case scheduler.Resumed, scheduler.Rewound:
		w.moved = 0
	case scheduler.Requested:
		name += " " + string(e.Request)
		if e.Request == scheduler.Retry {
			w.overrule(e.Task)
		}
	case scheduler.Ended:
		name += fmt.Sprintf(" %s %d", e.Why, e.Code)
	}
	w.stats[name]++
}

// start does one action, and judges that it is the one to do. What led to it is durable before.
func (w *world) start(a scheduler.Action, d *day) {
	in := time.Duration(1+w.IntN(200)) * time.Second
	switch a := a.(type) {
	case scheduler.Attempt:
		w.judgeAttempt(a, d)
		w.record(scheduler.AttemptStarted(a))
		worker := w.b.workerOf(a.Lane)
		w.later(in, a, func() scheduler.Event { return w.agent(a, worker) })
	case scheduler.Check:
		w.judgeTrunk(a)
		w.record(scheduler.CheckStarted{Purpose: a.Purpose, Task: a.Task, On: a.On, Review: a.Review})
		base := content(w.trunk, a.On)
		w.later(in, a, func() scheduler.Event { return w.check(a, base) })
	case scheduler.TakeIn:
		w.judgeTrunk(a)
		w.record(scheduler.TakeInStarted(a))
		w.later(in, a, func() scheduler.Event { return w.takeIn(a) })
	case scheduler.WaveCheck:
		if due := w.b.waveDue(d); !reflect.DeepEqual(&a, due) {
			w.failf("%+v, due is %+v", a, due)
		}
		w.record(scheduler.WaveCheckStarted(a))
		w.later(3*in, a, func() scheduler.Event { return w.waveCheck(a) })
	case scheduler.CutTrunk:
		w.judgeTrunk(a)
		w.record(scheduler.CutStarted{Tip: a.Tip})
		w.later(time.Second, a, func() scheduler.Event { return w.cut(a.Tip, a.Open, true) })
	case scheduler.Commit:
		if w.b.commitDue(d, false).Wave > 0 || !w.quiet(d) {
			w.judgeTrunk(a)
		} else if due := w.b.commitDue(d, true); a != due {
			w.failf("%+v: nothing else is to be done, and due is %+v", a, due)
		}
		w.record(scheduler.CommitStarted{Wave: a.Wave, Tip: a.Tip})
		writes := w.listNow()
		w.later(time.Duration(w.IntN(5))*time.Second, a, func() scheduler.Event { return w.commit(a, writes) })
	case scheduler.End:
		w.judgeEnd(a, d)
		w.record(scheduler.Ended(a))
	}
	w.durable = len(w.journal) // before what it says is started
}

func (w *world) later(in time.Duration, a scheduler.Action, effect func() scheduler.Event) {
	w.doing = append(w.doing, work{w.now.Add(in), a, effect})
}

func (w *world) judgeAttempt(a scheduler.Attempt, d *day) {
	n := w.b.notes[a.Task]
	if n == nil {
		w.failf("%+v: there is no such task", a)
	}
	at := slices.IndexFunc(w.list, func(l scheduler.Listed) bool { return l.ID == a.Task })
	if at >= 0 && w.list[at].Word == scheduler.Stuck && !w.began(a.Task) {
		w.failf("%+v: the list calls it blocked, and nobody opened it", a)
	}
	i := slices.IndexFunc(w.b.freeLanes(), func(l scheduler.Lane) bool { return l.Number == a.Lane })
	if i < 0 {
		w.failf("%+v: the lane is not free", a)
	}
	lane := w.b.freeLanes()[i]
	if why := w.b.mayStart(n, w.b.day(w.now)); why != "" {
		w.failf("%+v: %s", a, why)
	}
	switch account, _, _ := w.b.account(n, lane.Worker, w.now); {
	case d.halt:
		w.failf("%+v: nobody may start now: open breaker %+v, stopped %v, paused %v, %v of %v", a, w.b.open, w.b.stopped,
			w.b.paused, w.b.usd, w.b.lim.USD)
	case account != a.Account:
		w.failf("%+v: it is the turn of %q", a, account)
	case w.b.beyond(n):
		w.failf("%+v: beyond the total of %d", a, w.b.lim.Total)
	case n.work == "" && w.b.usedUp(n):
		w.failf("%+v: it has used up what it may", a)
	case a.Purpose != n.purposeOf():
		w.failf("%+v: it is for %s", a, n.purposeOf())
	case !n.suits(lane):
		w.failf("%+v: not in this lane", a)
	}
	mine, today := d.keys[n.at], w.b.day(w.now)
	for _, o := range w.b.all {
		if k := d.keys[o.at]; k != (key{}) && slices.Compare(k[:], mine[:]) < 0 && w.b.fits(o, lane, today) {
			w.failf("%+v: %s comes before it: %v, %v", a, o.id, k, mine)
		}
	}
	w.attempts++
}

// judgeTrunk holds that an action is the one to be done at the trunk now.
func (w *world) judgeTrunk(a scheduler.Action) {
	if due := w.b.atTrunk(w.b.day(w.now)); !sameAction(a, due) {
		w.failf("%T%+v at the trunk, due is %T%+v; busy %q", a, a, due, due, w.b.busy)
	}
}

func sameAction(a, b scheduler.Action) bool {
	if x, ok := a.(scheduler.CutTrunk); ok {
		y, also := b.(scheduler.CutTrunk)
		return also && x.Tip == y.Tip && slices.Equal(slices.Sorted(slices.Values(x.Open)), slices.Sorted(slices.Values(y.Open)))
	}
	x, ok := a.(scheduler.Check)
	y, also := b.(scheduler.Check)
	if !ok || !also {
		return reflect.DeepEqual(a, b)
	}
	return x.Purpose == y.Purpose && x.Task == y.Task && slices.Equal(x.On, y.On) && x.Checked == y.Checked &&
		x.Review == y.Review && slices.Equal(slices.Sorted(slices.Values(x.Known)), y.Known)
}

// quiet: nothing is at work, nothing may be, nothing is waited for.
func (w *world) quiet(d *day) bool {
	return !w.b.atWork() && w.idle(d) == "" && w.b.waits(d).IsZero()
}

// idle says what could be at work and is not.
func (w *world) idle(d *day) string {
	if !d.halt {
		for _, l := range w.b.freeLanes() {
			for _, n := range w.b.all {
				if w.b.fits(n, l, d) {
					return fmt.Sprintf("lane %d is free, and %s could have it", l.Number, n.id)
				}
			}
		}
	}
	if c := w.b.waveDue(d); c != nil {
		return fmt.Sprintf("the checks of wave %d are due", c.Wave)
	}
	if a := w.b.atTrunk(d); a != nil {
		return fmt.Sprintf("due at the trunk: %T%+v", a, a)
	}
	return ""
}

func (w *world) judgeEnd(a scheduler.End, d *day) {
	if !w.quiet(d) {
		w.failf("%+v: at work: %v; %s; waits %v", a, w.b.atWork(), w.idle(d), w.b.waits(d))
	}
	if c := w.b.commitDue(d, true); c.Wave > 0 {
		w.failf("%+v, and wave %d has what is in no commit", a, c.Wave)
	}
	if code := w.b.code(d); a.Code != code {
		w.failf("%+v, should be %d", a, code)
	}
	if halt := w.b.halt(d); a.Halt != halt {
		w.failf("%+v: what stops those that are left is %q", a, halt)
	}
	if w.moved > 50 && a.Code != 5 {
		w.failf("%+v: the branch has moved %d times when it was to get a commit", a, w.moved)
	}
	if a.Why == "lost" && !slices.Equal(a.Tasks, w.b.lost) {
		w.failf("%+v, and the branch lost %v", a, w.b.lost)
	}
	if a.Code == 1 && w.b.trouble.Code == 0 {
		w.failf("%+v: something is left, and nobody knows why", a)
	}
	if a.Code == 0 {
		for _, l := range w.list {
			if n := w.b.notes[l.ID]; l.Word == "" && !slices.Contains(w.branch, l.ID) && !n.unchanged && !d.held[n.at] &&
				!(w.b.upto > 0 && n.waveNo > w.b.upto) && (w.set.Only == "" || w.set.Only == l.ID) {
				w.failf("done, and %s is not in the branch", l.ID)
			}
		}
	}
}

// login is an account as a machine has it.
func login(account, worker string) string {
	if worker == "" {
		return account
	}
	return account + "@" + worker
}

func (w *world) agent(a scheduler.Attempt, worker string) scheduler.Event {
	who := login(a.Account, worker)
	e := scheduler.AttemptEnded{Task: a.Task, Outcome: scheduler.Finished, USD: float64(w.IntN(3)), Kept: w.IntN(3) == 0}
	n := w.IntN(24)
	switch {
	case w.refused[who]:
		e.Outcome = scheduler.Refused
		return e
	case w.quota[who].After(w.now):
		e.Outcome, e.Until, e.USD = scheduler.OutOfQuota, w.quota[who], 0
		return e
	case w.broken == "agents" && n < 18, w.broken == "provider" && n < 4:
		e.Outcome, e.Signature = scheduler.Crashed, "crash"
		return e
	case w.broken == "questions" && n < 18 && a.Purpose == scheduler.Work:
		e.Outcome, e.Signature = scheduler.Asks, "words"
		return e
	case w.broken == "cuts" && n < 22:
		e.Outcome = scheduler.Cancelled
		return e
	case w.broken == "provider" && n < 20:
		e.Outcome, e.Until = scheduler.Fault, w.now.Add(oneOf[time.Duration](w, 5, 30, 120)*time.Second)
		return e
	}
	switch {
	case n == 0:
		w.quota[who] = w.now.Add(time.Duration(1+w.IntN(600)) * time.Second)
		e.Outcome, e.Until = scheduler.OutOfQuota, w.quota[who]
	case n == 1:
		e.Outcome = scheduler.Cancelled
	case n == 2 && w.IntN(3) == 0:
		e.Outcome, w.refused[who] = scheduler.Refused, true
	case n == 3:
		e.Outcome, e.Until = scheduler.Fault, w.now.Add(time.Duration(5+w.IntN(30))*time.Second)
	case a.Purpose == scheduler.Review && n < 7:
		ends := []scheduler.Outcome{scheduler.Rejected, scheduler.Crashed, scheduler.TimedOut, scheduler.Asks}
		e.Outcome = ends[max(n-3, 0)]
	case a.Purpose == scheduler.Review:
		e.Outcome = scheduler.Approved
	case n == 4:
		e.Outcome = oneOf(w, scheduler.GaveUp, scheduler.Asks, scheduler.TooLong, scheduler.Mute)
		if e.Outcome == scheduler.Mute {
			e.Signature = "nothing"
		} else if e.Outcome != scheduler.TooLong {
			e.Signature = oneOf(w, "", "words")
		}
	case n == 5, n == 6:
		e.Outcome, e.Signature = scheduler.Crashed, "crash"
		if n == 6 {
			e.Outcome, e.Signature = scheduler.Nothing, "nothing"
		}
	case n == 7:
		e.Outcome = oneOf(w, scheduler.TimedOut, scheduler.Unstorable)
	case n == 8, n == 9 && a.Purpose == scheduler.SecondLook:
		e.Outcome = scheduler.Unchanged
		if a.Purpose == scheduler.SecondLook || w.b.notes[a.Task].isOurs() {
			e.Signature = "nothing"
		}
	case n < 16 && a.Purpose == scheduler.SecondLook:
		e.Outcome = scheduler.Shown
	case n == 10 && len(w.b.notes[a.Task].paths) > 0 && a.Purpose == scheduler.Work:
		e.Outcome = scheduler.Clean
	}
	return e
}

// content is what a tip has, with merges behind it.
func content(trunk []scheduler.Entry, on []string) string {
	var s strings.Builder
	for _, x := range trunk {
		s.WriteString(x.Task + x.Commit + " ")
	}
	for _, id := range on {
		s.WriteString(id + " ")
	}
	return s.String()
}

// check merges a commit onto what its base is, and checks that. What passes on the tip is the next one, if nobody has
// to review it.
func (w *world) check(a scheduler.Check, base string) scheduler.Event {
	e := scheduler.CheckEnded{Purpose: a.Purpose, Task: a.Task, Result: scheduler.Passed}
	n := w.IntN(16)
	red := w.broken == "checks" && n < 14
	switch {
	case a.Checked:
	case n == 15 || w.b.isVoid(a.Task) && w.IntN(2) == 0:
		e.Result = scheduler.Cut
		return e
	case a.Purpose == scheduler.Baseline, a.Purpose == scheduler.Recheck:
		if red || n < 4 {
			e.Result, e.Signature, e.Known = scheduler.Failed, []string{"red 0", "red 1"}[min(n, 1)], []string{"old failure"}
		}
		return e
	case n == 14 && len(w.trunk) > 0 || w.broken == "clashes" && n < 8:
		e.Result = scheduler.Clashed
		for p := range 3 {
			if w.IntN(2) == 0 {
				e.Paths = append(e.Paths, fmt.Sprint("file ", p))
			}
		}
		return e
	case red || n < 3:
		e.Result, e.Signature = scheduler.Failed, []string{"red 0", "red 1"}[min(n, 1)]
		if !w.b.notes[a.Task].accepted {
			e.Ask = w.IntN(6) == 0
			return e
		}
		e.Known = []string{fmt.Sprint("failure of ", a.Task)}
	}
	for k := range w.b.known {
		if e.Result == scheduler.Passed && !a.Checked && len(k)%2 == 0 {
			e.Mended = append(e.Mended, k)
		}
	}
	slices.Sort(e.Mended)
	e.Changed = !a.Checked && w.IntN(2) == 0
	if a.Checked && w.passed[a.Task] != base {
		w.failf("%+v: it passed on %q, and the tip is %q", a, w.passed[a.Task], base)
	}
	if w.passed[a.Task] = ""; e.Result == scheduler.Passed {
		w.passed[a.Task] = base
	}
	reviewed := a.Review == scheduler.Always || a.Review == scheduler.IfChanged && e.Changed
	if a.Purpose == scheduler.OfAttempt && len(a.On) == 0 && !reviewed {
		switch {
		case slices.Contains(w.trunk, scheduler.Entry{Task: a.Task}):
			w.failf("%+v: the trunk has it already", a)
		case content(w.trunk, nil) != base:
			w.failf("%+v: it is merged onto a tip on which it was not checked", a)
		}
		w.trunk = append(w.trunk, scheduler.Entry{Task: a.Task}) // the trunk's ref, with its old value
	}
	return e
}

func (w *world) waveCheck(a scheduler.WaveCheck) scheduler.Event {
	e := scheduler.WaveCheckEnded{Wave: a.Wave, Tip: a.Tip, Result: scheduler.Passed}
	if w.IntN(5) == 0 {
		e.Result = scheduler.Cut
		return e
	}
	for _, name := range a.Checks {
		if w.IntN(2) == 0 {
			e.Result, e.Failed = scheduler.Failed, append(e.Failed, name)
		}
	}
	return e
}

// cut takes trunk and branch back. What the branch has besides it keeps where commits of ours were dropped out of it.
func (w *world) cut(to int, open []string, drops bool) scheduler.Event {
	gone := map[string]bool{}
	var kept []scheduler.Entry
	for _, x := range w.trunk[to:] {
		if drops && slices.Contains(w.branch, x.Task) {
			kept = append(kept, x)
			continue
		}
		gone[x.Task] = true
	}
	w.trunk, w.lost = append(slices.Clone(w.trunk[:to]), kept...), nil
	if drops && w.taken(w.trunk) < len(w.users) { // up to the branch's commit, which has all of that
		w.trunk = append(w.trunk, scheduler.Entry{Commit: w.users[len(w.users)-1]})
	}
	w.branch = slices.DeleteFunc(slices.Clone(w.branch), func(id string) bool { return gone[id] })
	w.waves = 0
	for _, id := range w.branch {
		if n := w.b.notes[id].waveNo; n < scheduler.EndWave {
			w.waves = max(w.waves, n)
		}
	}
	return scheduler.Rewound{Chain: slices.Clone(w.trunk), In: w.in(), Branch: slices.Clone(w.users), Wave: w.waves,
		Open: open}
}

// in is how much of the trunk the branch has, or had: the trunk does not say what somebody took out.
func (w *world) in() (n int) {
	for n < len(w.trunk) && (w.trunk[n].Task == "" || slices.Contains(w.branch, w.trunk[n].Task) ||
		slices.Contains(w.lost, w.trunk[n].Task)) {
		n++
	}
	return n
}

func (w *world) takeIn(a scheduler.TakeIn) scheduler.Event {
	e := scheduler.TakeInEnded{Commit: a.Commit, Result: scheduler.Passed}
	upto := slices.Index(w.users, a.Commit) + 1
	for _, c := range w.users[min(w.taken(w.trunk), upto):upto] {
		if r := w.bad[c]; r != "" && e.Result != scheduler.Clashed {
			e.Result = r
		}
	}
	if w.bad[a.Commit] == scheduler.Passed { // the newest one mends what was wrong
		e.Result = scheduler.Passed
	}
	if e.Result == scheduler.Passed {
		w.trunk = append(w.trunk, scheduler.Entry{Commit: a.Commit})
	}
	return e
}

// taken is how many of the user's commits a trunk has.
func (w *world) taken(trunk []scheduler.Entry) (n int) {
	for _, x := range trunk {
		c := x.Commit
		if of, ok := strings.CutPrefix(x.Task, "take-in-"); ok {
			c = of
		}
		if c != "" {
			n = max(n, slices.Index(w.users, c)+1)
		}
	}
	return n
}

func (w *world) listNow() (says []string) {
	for _, n := range w.b.all {
		if is := w.b.inList(n); is != "" {
			says = append(says, n.id+" "+is)
		}
	}
	slices.Sort(says)
	return says
}

// listed are the tasks that the branch's list calls that.
func (w *world) listed(what string) (ids []string) {
	for _, one := range w.inList {
		if id, is, _ := strings.Cut(one, " "); is == what {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *world) commit(a scheduler.Commit, writes []string) scheduler.Event {
	e := scheduler.Committed{Wave: a.Wave, Tip: a.Tip, Result: scheduler.Passed}
	w.aside = w.aside || a.Aside || len(w.lost) == 0 && w.IntN(40) == 0 // his files are in the way
	if e.Aside = w.aside; w.aside {
		w.lost = nil // a branch of our own has it all
	} else {
		if w.taken(w.trunk) < len(w.users) || len(w.lost) > 0 {
			e.Result = scheduler.Moved
			return e
		}
		if w.taken(w.trunk[:a.Tip]) < len(w.users) && w.IntN(4) == 0 {
			e.Result = scheduler.Failed
			return e
		}
	}
	n := 0
	for _, x := range w.trunk[:a.Tip] {
		if slices.Contains(w.lost, x.Task) {
			w.failf("%+v brings back %s, which he took out", a, x.Task)
		}
		if x.Task != "" && !slices.Contains(w.branch, x.Task) {
			w.branch = append(w.branch, x.Task)
			n++
		}
	}
	if n == 0 && slices.Equal(writes, w.inList) {
		w.failf("a commit of nothing: %+v", a)
	}
	if a.Wave < scheduler.EndWave {
		w.waves = max(w.waves, a.Wave)
	}
	w.inList = writes
	return e
}

// kill: what is not durable is lost, what was done is done.
func (w *world) kill() {
	if w.broken == "branch" && w.moved > 0 { // else nobody ever sees how often in a row that goes on
		return
	}
	w.kills++
	lost := 0
	if w.IntN(2) == 0 {
		lost = len(w.journal) - w.durable
	}
	var kept []scheduler.Kept
	var again []work
	for _, e := range w.journal[len(w.journal)-lost:] {
		e, ok := e.(scheduler.AttemptEnded)
		if ok && w.fleet { // it is told again
			a := scheduler.Attempt{Task: e.Task, Lane: w.laneOf(e.Task)}
			again = append(again, work{w.now, a, func() scheduler.Event { return e }})
		} else if ok && (e.Outcome == scheduler.Finished || e.Outcome == scheduler.Clean) {
			kept = append(kept, scheduler.Kept{Task: e.Task, USD: e.USD})
		}
	}
	for _, d := range w.doing {
		a, ok := d.action.(scheduler.Attempt)
		switch {
		case ok && w.fleet: // it goes on without us
			again = append(again, d)
		case ok && a.Purpose != scheduler.Review && w.IntN(3) == 0: // its agent ended, and nobody was told
			kept = append(kept, scheduler.Kept{Task: a.Task, USD: 1})
		case !ok && w.IntN(2) == 0:
			d.effect()
		}
	}
	w.doing = again
	w.journal = w.journal[:len(w.journal)-lost]
	w.stats["events lost"] += lost
	w.replay()
	w.resume(kept)
}

// laneOf is the lane in which a task's last attempt was started.
func (w *world) laneOf(task string) int {
	for _, e := range slices.Backward(w.journal) {
		if e, ok := e.(scheduler.AttemptStarted); ok && e.Task == task {
			return e.Lane
		}
	}
	return -1
}

func (w *world) replay() {
	w.run, w.b = scheduler.NewRun(), newBooks()
	for _, e := range w.journal {
		w.run.Apply(e)
		w.b.note(e)
	}
}

func (w *world) resume(kept []scheduler.Kept) {
	var alive []string
	for _, d := range w.doing {
		if a, ok := d.action.(scheduler.Attempt); ok {
			alive = append(alive, a.Task)
		}
	}
	var owed, known []string
	if len(w.journal) == 0 && w.IntN(8) == 0 {
		known = []string{"accepted once"}
	}
	if len(w.journal) == 0 && len(w.set.EndChecks) > 0 && w.IntN(4) == 0 {
		owed = w.set.EndChecks[:1]
	}
	w.record(scheduler.Resumed{Settings: w.set, Limits: w.lim, List: w.list, Lanes: slices.Clone(w.lanes), Owed: owed, Known: known,
		Chain: slices.Clone(w.trunk), In: w.in(), Branch: slices.Clone(w.users), Lost: slices.Clone(w.lost), Aside: w.aside,
		Wave: w.waves, Listed: w.listed("blocked"), Unneeded: w.listed("done"), Alive: alive, Kept: kept, OtherChecks: len(w.journal) > 0 && w.IntN(8) == 0 || w.mends() && w.IntN(2) == 0})
}

// mends: what mended a check of the end is merged, and in no commit: a moment that a night seldom meets.
func (w *world) mends() bool {
	if len(w.trunk) == 0 {
		return false
	}
	id := w.trunk[len(w.trunk)-1].Task
	n := w.b.notes[id]
	return n != nil && n.waveNo == scheduler.EndWave && !slices.Contains(w.branch, id)
}

// sameAgain: the journal folded again gives the same run.
func (w *world) sameAgain() {
	r := scheduler.NewRun()
	for _, e := range w.journal {
		r.Apply(e)
	}
	if !reflect.DeepEqual(r, w.run) {
		w.failf("folded again:\n%+v\nhere:\n%+v", r, w.run)
	}
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), seed: seed, now: time.Unix(1_000_000, 0),
		bad: map[string]scheduler.Result{}, quota: map[string]time.Time{}, passed: map[string]string{},
		refused: map[string]bool{}, stats: map[string]int{}}
	w.fleet = w.IntN(3) == 0
	if w.IntN(3) == 0 {
		w.broken = oneOf(w, "agents", "checks", "provider", "clashes", "cuts", "branch", "questions")
	}
	for range 1 + w.IntN(9) {
		w.list = append(w.list, w.newTask())
	}
	if w.IntN(10) == 0 {
		w.list[0].Needs = []string{oneOf(w, "ghost", w.list[len(w.list)-1].ID)}
	}
	w.set = scheduler.Settings{Barrier: w.IntN(4) == 0, Step: w.IntN(8) == 0, PerTask: w.IntN(4) == 0,
		RespectScope: w.IntN(3) == 0, Careful: w.IntN(4) == 0, OtherReviewer: w.IntN(4) == 0, Breaker: oneOf(w, 0, 2, 3),
		Baseline: oneOf(w, "", "off", "require", "warn", "known"), Accounts: []string{"b", "a"},
		ChecksAtOnce: oneOf(w, 0, 1, 2, 2, 3)}
	if w.IntN(3) == 0 {
		w.set.WaveChecks = []string{"CHECK", "LINT"}[:1+w.IntN(2)]
	}
	if w.IntN(5) == 0 {
		w.set.EndChecks = []string{"SUITE", "DOCS"}[:1+w.IntN(2)]
	}
	if w.set.Step && w.IntN(2) == 0 {
		only := w.list[w.IntN(len(w.list))]
		if w.set.Only = only.ID; len(only.Needs) > 0 && w.IntN(2) == 0 { // it stands behind what there is not
			for i := range w.list {
				switch l := &w.list[i]; l.ID {
				case only.ID:
				case only.Needs[0]:
					l.Needs = []string{"ghost"}
				default:
					l.Word = scheduler.ByHand
				}
			}
		}
	}
	w.limits()
	for i := range oneOf(w, 1, 1, 2, 3, 4) {
		w.lanes = append(w.lanes, w.newLane(i))
	}
	w.run, w.b = scheduler.NewRun(), newBooks()
	return w
}

// play is a night, and the mornings after it.
func (w *world) play() {
	w.resume(nil)
	mornings := w.IntN(4)
	for step := 0; ; step++ {
		if step > 3000 {
			w.failf("no end")
		}
		w.drain()
		if w.b.ended {
			w.sameAgain()
			if mornings == 0 {
				return
			}
			mornings--
			w.morning()
			continue
		}
		if step < 600 && w.person() {
			continue
		}
		slices.SortStableFunc(w.doing, func(a, b work) int { return a.ends.Compare(b.ends) })
		wakes := w.run.Wakes(w.now)
		if want := w.b.waits(w.b.day(w.now)); !wakes.Equal(want) {
			w.failf("asks again at %v, an account comes back at %v", wakes, want)
		}
		if len(w.doing) == 0 || !wakes.IsZero() && wakes.Before(w.doing[0].ends) {
			if wakes.IsZero() {
				w.failf("nothing at work, nothing to wait for, no end")
			}
			w.now = wakes
			continue
		}
		d := w.doing[0]
		if _, ok := d.action.(scheduler.CutTrunk); ok && w.IntN(3) == 0 { // it may be done, and nobody wrote it down
			w.kill()
			continue
		}
		w.doing, w.now = w.doing[1:], later(w.now, d.ends)
		if _, ok := d.action.(scheduler.Commit); ok && w.broken == "branch" {
			w.userCommits("")
		}
		w.record(d.effect())
		if w.IntN(60) == 0 {
			w.kill()
		}
	}
}

// drain starts all that there is to do, and judges that nothing was left out.
func (w *world) drain() {
	for range 100 {
		todo := w.run.Next(w.now)
		d := w.b.day(w.now)
		if len(todo) == 0 {
			if w.b.ended {
				return
			}
			if why := w.idle(d); why != "" {
				w.failf("%s", why)
			}
			got, want := slices.Sorted(slices.Values(w.run.Void())), slices.Sorted(slices.Values(w.b.void()))
			if !slices.Equal(got, want) {
				w.failf("%v are checked in vain, by the books %v", got, want)
			}
			if w.b.busy != "cut" && !slices.Equal(w.b.chain, w.trunk) {
				w.failf("the trunk is %v, by the books %v", w.trunk, w.b.chain)
			}
			return
		}
		for _, a := range todo {
			w.start(a, d)
		}
	}
	w.failf("there is always something to start")
}

func (w *world) limits() {
	w.lim = scheduler.Limits{Attempts: 1 + w.IntN(3), Total: 5 + w.IntN(40)}
	w.lim.OnLimitStop = w.IntN(6) == 0
	if w.IntN(4) == 0 {
		w.lim.Deadline = w.now.Add(time.Duration(w.IntN(3000)) * time.Second)
	}
	if w.IntN(5) == 0 {
		w.lim.USD = w.b.total() + float64(3+w.IntN(25))
	}
	if w.IntN(5) == 0 {
		w.lim.TaskUSD = float64(2 + w.IntN(5))
	}
	if w.IntN(3) == 0 {
		w.lim.MaxWait = time.Duration(w.IntN(400)) * time.Second
	}
}

func (b *books) total() float64 {
	if b == nil {
		return 0
	}
	return b.usd
}

func (w *world) newLane(n int) scheduler.Lane {
	l := scheduler.Lane{Number: n, Labels: []string{"any"}}
	if w.fleet && w.IntN(2) == 0 {
		l.Worker, l.Checks = oneOf(w, "w1", "w2"), w.IntN(3) == 0
	}
	if n == 0 || w.IntN(3) == 0 {
		l.Labels = append(l.Labels, "gpu")
	}
	return l
}

func (w *world) newTask() scheduler.Listed {
	l := scheduler.Listed{ID: fmt.Sprint(len(w.list) + 1), Rank: w.IntN(3), Hours: float64(w.IntN(4)),
		Accounts: []string{"a", "b"}}
	same := func(o scheduler.Listed) bool { return o.ID == l.ID }
	for slices.ContainsFunc(w.list, same) || w.b != nil && w.b.notes[l.ID] != nil {
		l.ID += "+"
	}
	switch w.IntN(4) {
	case 0:
		l.Accounts = []string{"a"}
	case 1:
		l.Accounts = []string{"b", "a"}
	}
	if w.IntN(4) == 0 {
		l.Review = []string{"a", "r"}
	}
	if w.IntN(8) == 0 {
		l.Earliest = 1 + w.IntN(4)
	}
	if w.IntN(12) == 0 {
		l.Word = scheduler.Stuck
	}
	for _, o := range w.list {
		if w.IntN(4) == 0 {
			l.Needs = append(l.Needs, o.ID)
		}
	}
	if w.IntN(3) == 0 {
		l.Scope = []string{oneOf(w, "src/a", "src/b", "src", "c")}
	}
	if w.IntN(5) == 0 {
		l.Labels = []string{"gpu"}
	}
	return l
}

// person may do something, or a machine may.
func (w *world) person() bool {
	if w.mends() && w.IntN(3) == 0 {
		w.kill()
		return true
	}
	if w.b.cutCommit && w.b.paused && w.IntN(3) > 0 { // he takes back what cut the commit short
		w.record(scheduler.Requested{Request: scheduler.Go})
		return true
	}
	if w.revertsSeen() && w.IntN(12) == 0 {
		w.takeOut()
		return true
	}
	switch w.IntN(70) {
	case 0:
		w.kill()
	case 1:
		if w.IntN(4) > 0 && w.b.busy != "commit" { // which a pause at once cuts short
			w.record(scheduler.Requested{Request: scheduler.Pause})
		} else {
			w.record(scheduler.Requested{Request: scheduler.PauseNow})
			if w.cutShort(); w.IntN(3) == 0 { // he takes that back at once
				w.record(scheduler.Requested{Request: scheduler.Go})
			}
		}
	case 2:
		w.record(scheduler.Requested{Request: scheduler.Go})
	case 3, 4: // he commits
		w.userCommits(oneOf(w, "", "", "", scheduler.Clashed, scheduler.Failed, scheduler.Passed))
	case 5, 6:
		w.edit()
	case 7: // a machine goes, and what it does with it
		if i := w.IntN(len(w.lanes)); w.fleet && len(w.lanes) > 1 {
			n := w.lanes[i].Number
			w.lanes = slices.Delete(w.lanes, i, i+1)
			w.doing = slices.DeleteFunc(w.doing, func(d work) bool {
				a, ok := d.action.(scheduler.Attempt)
				return ok && a.Lane == n
			})
			w.record(scheduler.LaneGone{Number: n})
		}
	case 8:
		if w.fleet {
			for n := range 5 {
				if !slices.ContainsFunc(w.lanes, func(l scheduler.Lane) bool { return l.Number == n }) {
					w.lanes = append(w.lanes, w.newLane(n))
					w.record(scheduler.LaneCame{Lane: w.lanes[len(w.lanes)-1]})
					break
				}
			}
		}
	case 9:
		if w.IntN(6) == 0 {
			stop := oneOf(w, scheduler.Stop, scheduler.Stop, scheduler.StopNow, scheduler.Term)
			w.record(scheduler.Requested{Request: stop})
			w.cutShort()
		}
	case 10: // another run met a limit
		until := w.now.Add(time.Duration(1+w.IntN(500)) * time.Second)
		worker := ""
		if w.fleet {
			worker = oneOf(w, "", "w1", "w2")
		}
		w.quota[login("a", worker)] = later(w.quota[login("a", worker)], until)
		w.record(scheduler.LimitMet{Account: "a", Worker: worker, Until: until})
	case 17: // he clears what is remembered
		a := oneOf(w, "a", "b")
		delete(w.quota, a)
		w.record(scheduler.LimitCleared{Account: a})
	case 18:
		w.editReview()
	case 11, 12: // he answers while it runs
		for _, id := range slices.Sorted(maps.Keys(w.b.notes)) {
			if w.answers(id) {
				break
			}
		}
	case 13:
		if w.limits(); w.IntN(2) == 0 {
			w.record(scheduler.LimitsChanged{Limits: w.lim})
		}
	case 14:
		if w.IntN(8) == 0 {
			w.record(scheduler.Trouble{Why: "disk full", Code: oneOf(w, 1, 5), Checks: w.IntN(2) == 0,
				Commits: w.IntN(2) == 0})
		}
	case 16:
		w.record(scheduler.Pushed{Result: oneOf(w, scheduler.Passed, scheduler.Failed)})
	case 15:
		if w.IntN(3) == 0 {
			w.takeOut()
		}
	default:
		return false
	}
	return true
}

// userCommits: somebody commits to the branch; as is what becomes of it.
func (w *world) userCommits(as scheduler.Result) {
	c := fmt.Sprint("u", len(w.users)+1)
	w.users = append(slices.Clip(w.users), c)
	w.bad[c] = as
	w.record(scheduler.BranchMoved{Commits: []string{c}})
}

// overrule: a person opens a task, and the list calls it blocked no longer.
func (w *world) overrule(id string) {
	w.list = slices.Clone(w.list)
	for i := range w.list {
		if l := &w.list[i]; l.ID == id && l.Word == scheduler.Stuck {
			l.Word = ""
		}
	}
}

// began reports whether a task had an agent, or a person accepted what one of an earlier run made.
func (w *world) began(id string) bool {
	return slices.ContainsFunc(w.journal, func(e scheduler.Event) bool {
		switch e := e.(type) {
		case scheduler.AttemptStarted:
			return e.Task == id
		case scheduler.Requested:
			return e.Task == id && e.Request == scheduler.Accept
		}
		return false
	})
}

// editReview asks for a review of a task, or for none any more, most of all while it matters.
func (w *world) editReview() {
	w.list = slices.Clone(w.list)
	l := &w.list[w.IntN(len(w.list))]
	for k := range w.list {
		if n := w.b.notes[w.list[k].ID]; n != nil && (n.work == "review" || n.work == "check") {
			l = &w.list[k]
		}
	}
	if len(l.Review) > 0 {
		l.Review = nil
	} else {
		l.Review = []string{"a", "r"}
	}
	w.record(scheduler.ListChanged{List: w.list})
}

// cutShort: what is at work is, when nothing more shall be checked.
func (w *world) cutShort() {
	for i := range w.doing {
		if !w.b.now {
			return
		}
		d := &w.doing[i]
		switch a := d.action.(type) {
		case scheduler.Attempt:
			d.effect = func() scheduler.Event {
				return scheduler.AttemptEnded{Task: a.Task, Outcome: scheduler.Cancelled}
			}
		case scheduler.Commit:
			if w.IntN(2) == 0 {
				d.effect = func() scheduler.Event {
					return scheduler.Committed{Wave: a.Wave, Tip: a.Tip, Result: scheduler.Cut}
				}
			}
		case scheduler.Check:
			d.effect = func() scheduler.Event {
				return scheduler.CheckEnded{Purpose: a.Purpose, Task: a.Task, Result: scheduler.Cut}
			}
		}
		d.ends = w.now
	}
}

// answers: he may say something of a task that is blocked, or that an earlier run left work of.
func (w *world) answers(id string) bool {
	is := w.b.is(w.b.notes[id])
	if is != "blocked" && is != "open" || w.IntN(2) == 0 || is == "open" && w.IntN(4) > 0 {
		return false
	}
	e := scheduler.Requested{Request: scheduler.Accept, Task: id, Kept: w.IntN(3) == 0}
	if is == "blocked" && w.IntN(3) > 0 {
		e.Request = scheduler.Retry
	}
	w.record(e)
	return true
}

func oneOf[T any](w *world, list ...T) T { return list[w.IntN(len(list))] }

func (w *world) edit() {
	w.list = slices.Clone(w.list)
	i := w.IntN(len(w.list))
	l := &w.list[i]
	switch w.IntN(6) {
	case 0:
		if len(w.list) < 14 {
			w.list = slices.Insert(w.list, i, w.newTask())
		}
	case 1:
		if id := l.ID; len(w.list) > 1 {
			w.list = slices.Delete(w.list, i, i+1)
			for k := range w.list {
				if w.IntN(4) > 0 {
					w.list[k].Needs = slices.DeleteFunc(slices.Clone(w.list[k].Needs), func(n string) bool { return n == id })
				}
			}
		}
	case 2, 3:
		l.Word = oneOf(w, "", scheduler.ByHand, scheduler.PutAside, scheduler.Stuck)
	case 4:
		l.Rank = w.IntN(3)
	case 5: // needs, without a circle
		l.Needs = nil
		for _, o := range w.list[:i] {
			if w.IntN(3) == 0 && !w.reaches(o.ID, l.ID, 0) {
				l.Needs = append(l.Needs, o.ID)
			}
		}
	}
	w.record(scheduler.ListChanged{List: w.list})
}

// reaches reports whether a task needs another one.
func (w *world) reaches(id, other string, depth int) bool {
	n := w.b.notes[id]
	further := func(x string) bool { return w.reaches(x, other, depth+1) }
	return id == other || depth > 40 || n != nil && slices.ContainsFunc(n.needs(), further)
}

// morning: he looks at what came, and resumes.
func (w *world) morning() {
	w.refused = map[string]bool{}
	if w.limits(); w.IntN(2) == 0 {
		w.lim = scheduler.Limits{Attempts: 3, Total: w.b.attempts + 30}
	}
	w.lim.Total += w.b.attempts
	if w.IntN(3) == 0 {
		w.set.Step, w.set.Only, w.broken = false, "", ""
	}
	w.replay()
	w.resume(nil)
	if len(w.lost) == 0 && w.IntN(5) == 0 {
		w.rewind()
	}
	for _, id := range slices.Sorted(maps.Keys(w.b.notes)) {
		if w.IntN(2) == 0 {
			w.answers(id)
		}
	}
}

// revertsSeen: checks of waves saw several commits pass that the branch has, and what comes behind one that he takes out
// now is to be seen again. By chance one of a thousand nights comes to that.
func (w *world) revertsSeen() bool {
	return len(w.set.WaveChecks) > 0 && len(w.branch) > 1 && len(w.lost) == 0 && !w.aside
}

// takeOut resets the branch to what it was before a commit of ours: what comes after it is gone with it. Or it reverts
// that one, and what came after it stays.
func (w *world) takeOut() {
	if w.aside || len(w.branch) == 0 || len(w.lost) > 0 {
		return
	}
	at := slices.IndexFunc(w.trunk, func(x scheduler.Entry) bool { return x.Task == w.branch[w.IntN(len(w.branch))] })
	reverts := w.IntN(2) == 0
	for _, x := range w.trunk[max(at, 0):] {
		if slices.Contains(w.branch, x.Task) && !(reverts && len(w.lost) > 0) {
			w.lost = append(w.lost, x.Task)
		}
	}
	if len(w.lost) == 0 {
		return
	}
	if reverts {
		w.users = append(w.users, fmt.Sprint("revert", len(w.users)))
	}
	w.branch = slices.DeleteFunc(slices.Clone(w.branch), func(id string) bool { return slices.Contains(w.lost, id) })
	e := scheduler.BranchMoved{Lost: slices.Clone(w.lost)}
	if reverts {
		e.Commits = w.users[len(w.users)-1:]
	}
	w.record(e)
}

// rewind is a person's: trunk and branch end at some commit.
func (w *world) rewind() {
	var open []string
	for _, n := range w.b.all {
		if n.work == "made" || n.work == "review" || (w.b.is(n) == "blocked" || n.unchanged) && w.IntN(2) == 0 {
			open = append(open, n.id)
		}
	}
	slices.Sort(open)
	w.record(w.cut(w.IntN(len(w.trunk)+1), open, false))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
