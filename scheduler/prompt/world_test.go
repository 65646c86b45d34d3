package prompt

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// world is git, a folder, agents, providers, gates, and a person. It keeps books of its own and asks the machine
// nothing but what to do next: what the machine should have said is computed from the books.
type world struct {
	*rand.Rand
	t       *testing.T
	seed    uint64
	now     time.Time
	set     Settings
	names   []string
	kind    string // of the gate
	journal []Entry
	run     *Run
	ear     *ear
	night   stats

	// git and the user's folder: pieces of work, and the user's own commits
	branch []string
	tree   []string // what arrived in the user's tree or folder
	refs   map[Try][]string
	users  int

	// books
	limits    Limits
	maker     string // account of the last agent that worked
	phase     string // idle, running, made, checking, ready, delivering, asking
	number    int    // the highest that was begun
	cur       *try
	tries     []*try
	again     bool
	owed      []string // pieces that ended tries made and that are nowhere but under a ref
	gone      []string // set aside with a person's knowledge: they never come back by themselves
	usd       float64
	known     map[string]time.Time
	quota     map[string]time.Time // the truth
	rest      map[string]time.Time
	faults    map[string]int
	unusable  map[string]bool
	row       time.Time // when the first wait for quota was to be over since an agent last got past one
	failures  int
	cause     Cause
	crashes   int
	refusals  int
	half      bool
	request   Request
	apart     bool
	clash     bool
	lacks     Why
	broken    Why
	plans     bool
	baseline  Verdict
	last      Verdict // of the end
	ended     Why
	begun     bool
	open      Question // that waits for a person
	word      Word     // of the gate, by its own rules
	until     time.Time
	alone     bool
	heard     []Heard // what the gate has to have heard
	spec      spec
	busy      func() Event
	doing     Action
	ends      time.Time
	lostLeft  *Left // an agent ended, its commit is under its ref, and the run died before it wrote that down
	lostLand  bool
	merged    Try // what a person merged by hand
	checkedOn int
	checked   []string
}

// try is what the world knows of one.
type try struct {
	id      Try
	base    []string
	plans   bool
	piece   string
	left    *Left
	found   Found
	verdict Verdict // of its check
	landed  bool
	checks  int

	approved bool
}

// ear is the gate that the machine gets: it writes down what it hears.
type ear struct {
	Gate
	Heard []Heard
}

func (e *ear) Hear(h *Heard) Say {
	e.Heard = append(e.Heard, *h)
	return e.Gate.Hear(h)
}

// liar is a gate that says done when it should not.
type liar struct{ Gate }

func (l *liar) Hear(h *Heard) Say {
	if s := l.Gate.Hear(h); h.Said.Promise && !h.Passed {
		return Say{Word: Done}
	} else {
		return s
	}
}

type stats struct {
	iterations, kills, commits, heard int
	ends                              map[string]int
}

func (w *world) gate() Gate {
	var g Gate
	switch w.kind {
	case "promise", "liar":
		g = &Promise{}
	case "exit":
		g = &Promise{Any: true}
	case "status":
		g = &Status{}
	default:
		g = &Criteria{Count: w.spec.count, Colleague: w.spec.colleague, Hard: w.spec.hard, Command: w.spec.command}
	}
	if w.kind == "liar" {
		g = &liar{g}
	}
	w.ear = &ear{Gate: g}
	return w.ear
}

func (w *world) failf(f string, a ...any) {
	w.t.Helper()
	for i := range w.journal {
		w.t.Logf("%3d %s", i, line(w.journal[i]))
	}
	w.t.Logf("%+v", *w.run)
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(f, a...))
}

func line(l Entry) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", l.Event), "prompt.")
	return fmt.Sprintf("+%-5.0f %-16s %+v", l.When.Sub(midnight).Seconds(), kind, l.Event)
}

var midnight = time.Unix(1e6, 0)

func (w *world) record(e Event) {
	w.journal = append(w.journal, Entry{w.now, e})
	w.run.Apply(w.journal[len(w.journal)-1])
	if got, want := len(w.ear.Heard), len(w.heard); got != want {
		w.failf("the gate heard of %d tries, and %d ended by themselves", got, want)
	}
	if n := len(w.heard); n > 0 && !reflect.DeepEqual(w.ear.Heard[n-1], w.heard[n-1]) {
		w.failf("the gate heard %+v\nwhere it was %+v", w.ear.Heard[n-1], w.heard[n-1])
	}
}

// same folds the journal again.
func (w *world) same() {
	mine := w.ear
	r := New(w.set, w.names, w.gate())
	w.ear = mine
	for i := range w.journal {
		r.Apply(w.journal[i])
	}
	if !reflect.DeepEqual(r, w.run) {
		w.failf("folded again:\n%+v\nhere:\n%+v", *r, *w.run)
	}
}

func union(a, b []string) []string {
	a = slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

func (w *world) lacking(all, some []string) (out []string) {
	for _, x := range some {
		if !slices.Contains(all, x) {
			out = append(out, x)
		}
	}
	return out
}

// place is what an agent finds that goes on from nothing.
func (w *world) place() []string {
	if w.set.Place == Branch {
		return w.branch
	}
	return w.tree
}

// pick is who may work, by the books.
func (w *world) pick() (account string, wake time.Time, why Why) {
	d, names := w.limits.Deadline, w.names
	if w.phase == "checked" {
		names = w.set.Reviewers
	}
	for _, a := range names {
		switch {
		case w.phase == "checked" && w.set.OtherReviewer && a == w.maker:
		case w.unusable[a], w.faults[a] > 3:
		case w.known[a].After(w.now):
			if wake.IsZero() || w.known[a].Before(wake) {
				wake = w.known[a]
			}
		case w.rest[a].After(w.now):
			for _, other := range []time.Time{w.rest[a], d} {
				if !other.IsZero() && (wake.IsZero() || other.Before(wake)) {
					wake = other
				}
			}
			return "", wake, ""
		default:
			return a, time.Time{}, ""
		}
	}
	if wake.IsZero() {
		return "", wake, NobodyCan
	}
	long := w.limits.MaxWait > 0 && (wake.Sub(w.now) > w.limits.MaxWait ||
		!w.row.IsZero() && wake.Sub(w.row) > w.limits.MaxWait)
	if w.limits.OnLimitStop || long || !d.IsZero() && !wake.Before(d) {
		return "", time.Time{}, Quota
	}
	return "", wake, ""
}

func (w *world) mode3() bool { return w.set.Mode == Plan || w.set.Mode == Build }

// reasons to end, by the books, in the order of the exit codes: 0, 130 and 143, 5, 75, 4, 3, 2, 6, 7.
func (w *world) reasons() (list []Why) {
	add := func(is bool, why Why) {
		if is {
			list = append(list, why)
		}
	}
	out := w.spent()
	limit := w.number >= w.limits.Iterations && !w.again && w.word != Done && w.lacks != Nothing
	idle := w.phase == "idle" // else a review would start
	add(idle && w.baseline == Failed, BaseFails)
	passed := idle && (!w.set.Last || w.last == Passed)
	add(passed && w.word == Done, IsDone)
	add(passed && w.lacks == Nothing, Nothing)
	add(w.request == Terminate, Terminated)
	add(w.request == Stop || w.request == StopNow, Stopped)
	before := len(list)
	add(idle && (w.apart), IsApart)
	add(idle && (w.clash), IsClash)
	add(idle && (out && w.cause == ByGit || w.refusals > 3), GitRefuses)
	add(idle && (w.crashOpen() || limit && w.crashes >= w.limits.Iterations), Crashing)
	add(idle && (out && w.cause == ByAgent), AgentFails)
	add(idle && (out && w.cause == ByTests), TestsFail)
	add(idle && w.last == Failed, LastFails)
	add(idle && (w.lacks == NoPlan || out && w.cause == ByPlan), NoPlan)
	add(idle && (limit), AtLimit)
	add(!w.limits.Deadline.IsZero() && !w.now.Before(w.limits.Deadline), AtDeadline)
	add(w.limits.USD > 0 && w.usd >= w.limits.USD, AtCost)
	add(w.request == Pause, Paused)
	add(idle && (w.word == Blocked), IsBlocked)
	add(idle && (w.word == Open && w.alone), IsOpen)
	add(idle && (w.word == Wait && w.alone), Asks)
	if len(list) > 0 && w.cause == ByGit && !slices.Contains(list, GitRefuses) {
		list = slices.Insert(list, before, GitRefuses)
	}
	return list
}

func (w *world) spent() bool {
	return !w.again && (w.mode3() && w.failures > 3 || w.set.Mode == Once && w.failures > 0)
}

func (w *world) crashOpen() bool {
	n := w.limits.Crashes
	return n > 0 && (w.crashes >= n || w.half && w.crashes > 0)
}

// should is what the machine has to do now, by the books; nothing with the time to look again.
func (w *world) should() (do Verb, list []Why, wake time.Time) {
	switch w.phase {
	case "idle", "made", "checked", "ready":
		if w.broken != "" {
			return End, []Why{w.broken}, wake
		}
	}
	switch w.phase {
	case "ready":
		return Deliver, nil, wake
	case "made":
		if w.request == StopNow {
			return End, []Why{Stopped}, wake
		}
		if w.request == Terminate {
			return End, []Why{Terminated}, wake
		}
		return Check, nil, wake
	case "idle", "checked":
	default:
		return "", nil, wake
	}
	late := !w.limits.Deadline.IsZero() && !w.now.Before(w.limits.Deadline)
	if over := w.word == Done || w.lacks == Nothing; over && w.phase == "idle" && w.set.Last && w.last == "" &&
		w.request == "" && !late {
		return Last, nil, wake
	}
	if list = w.reasons(); len(list) > 0 {
		return End, list, wake
	}
	if w.set.Baseline && w.baseline == "" && w.number == 0 {
		return Baseline, nil, wake
	}
	if w.phase == "idle" && (w.word == Wait || w.word == Open) && !w.alone {
		return Ask, nil, wake
	}
	account, wake, why := w.pick()
	switch {
	case why != "":
		return End, []Why{why}, wake
	case account == "":
		return "", nil, wake
	case w.phase == "checked":
		return Review, nil, wake
	case w.word == First:
		return Precheck, nil, wake
	}
	return Iterate, nil, wake
}

// begin is the executor's: it begins an action, after the laws have been looked at.
func (w *world) begin(a Action) {
	if w.busy != nil {
		w.failf("%s begins, and %s is under way", a.Do, w.doing.Do)
	}
	if w.ended != "" {
		w.failf("%s begins after the end", a.Do)
	}
	do, list, _ := w.should()
	if a.Do != do {
		w.failf("it does %s %v (%s), and should do %s %v", a.Do, a.Try, a.Why, do, list)
	}
	if account, _, _ := w.pick(); (a.Do == Iterate || a.Do == Precheck || a.Do == Review) && a.Account != account {
		w.failf("it takes account %q, not %q", a.Account, account)
	}
	w.doing, w.ends = a, w.now.Add(time.Duration(1+w.IntN(100))*time.Second)
	switch a.Do {
	case Iterate:
		w.iterate(a)
	case Precheck:
		w.precheck(a)
	case Check:
		w.check(a)
	case Review:
		w.review(a)
	case Deliver:
		w.deliver(a)
	case Ask:
		w.ask(a)
	case Baseline:
		w.checkAll(BaselineStarted{}, func(v Verdict) Event { return BaselineEnded{v} })
	case Last:
		w.checkAll(LastStarted{}, func(v Verdict) Event { return LastEnded{v} })
	case End:
		if a.Why != list[0] || !slices.Equal(a.Also, list[1:]) {
			w.failf("ended with %s %v, not %v", a.Why, a.Also, list)
		}
		w.end(a)
	}
}

func (w *world) iterate(a Action) {
	want := Try{w.number + 1, 1}
	if w.again {
		want = Try{w.number, w.cur.id.Try + 1}
	}
	if a.Try != want {
		w.failf("iteration %v begins, not %v", a.Try, want)
	}
	if a.Try.Number > w.limits.Iterations {
		w.failf("iteration %d of %d", a.Try.Number, w.limits.Iterations)
	}
	if a.Plans != w.plans {
		w.failf("it plans: %v", a.Plans)
	}
	if w.set.Baseline && w.baseline != Passed {
		w.failf("iteration %v begins, and the untouched tree did not pass", a.Try)
	}
	base := w.place()
	if a.From != (Try{}) {
		if w.refs[a.From] == nil {
			w.failf("%v begins from %v, which no ref has", a.Try, a.From)
		}
		base = union(w.refs[a.From], base)
	}
	if lost := w.lacking(base, w.owed); len(lost) > 0 {
		w.failf("%v begins without %v, which is in no commit", a.Try, lost)
	}
	for _, x := range w.gone {
		if slices.Contains(base, x) && !slices.Contains(w.place(), x) {
			w.failf("%v begins with %s, which was set aside", a.Try, x)
		}
	}
	if w.set.Mode == Build && w.IntN(120) == 0 {
		w.lacks = []Why{NoPlan, Nothing}[w.IntN(2)]
		w.record(Unprepared{w.lacks})
		return
	}
	w.cur = &try{id: a.Try, base: base, plans: a.Plans, piece: fmt.Sprintf("%d.%d", a.Try.Number, a.Try.Try)}
	w.tries = append(w.tries, w.cur)
	if a.Try.Try == 1 {
		w.failures, w.cause = 0, ""
	}
	w.number, w.again, w.phase = a.Try.Number, false, "running"
	w.night.iterations++
	w.maker = a.Account
	w.record(Started{a.Try, a.Account})
	w.busy = func() Event {
		left := w.agent(a)
		if left.Changed && w.set.Place == Folder {
			w.tree = append(w.tree, w.cur.piece)
		} else if left.Changed {
			w.refs[a.Try] = append(slices.Clone(base), w.cur.piece)
		} else if w.set.Place != Folder {
			w.refs[a.Try] = base
		}
		return AgentEnded{*left}
	}
}

// agent works. What it says has nothing to do with what it did.
func (w *world) agent(a Action) *Left {
	l := &Left{Verdict: Passed, Changed: w.IntN(4) > 0, USD: float64(w.IntN(3))}
	if w.IntN(6) == 0 {
		l.Changed = false
	}
	s := &l.Said
	s.Promise, s.Block, s.Signal, s.Indicators = w.IntN(5) == 0, w.IntN(5) > 0, w.IntN(3) == 0, w.IntN(4)
	s.Blocked, s.Question = w.IntN(20) == 0, w.IntN(10) == 0
	for range w.spec.count {
		s.Met = append(s.Met, []Proof{Unmet, Assumed, Observed, Observed, Observed}[w.IntN(5)])
	}
	l.Bytes, l.Edits = []int{100, 600, 1000, 1000, 1000, 1500, 2000, 3000}[w.IntN(8)], w.IntN(5)+w.IntN(12)/11
	if l.Undid = w.IntN(20) == 0 && w.set.Place != Folder; l.Undid {
		l.Error = "took back"
	}
	l.Idle = !l.Changed && w.IntN(2) == 0
	switch n := w.IntN(24); {
	case w.quota[a.Account].After(w.now):
		l.Verdict, l.Until = Limited, w.quota[a.Account]
	case w.request == StopNow && n < 20, w.request == Terminate && n < 20:
		l.Verdict = Cancelled
	case n == 0 || n == 1 || w.spec.bad && n < 14:
		l.Verdict, l.Error = Crashed, "exit status 1"
	case n == 2:
		l.Verdict, l.Error = Failed, "out of time"
	case n == 3 || w.spec.dry && n < 18:
		w.quota[a.Account] = w.now.Add(time.Duration(1+w.IntN(4000)) * time.Second)
		l.Verdict, l.Until = Limited, w.quota[a.Account]
	case n == 4 || w.spec.faulty && n < 16:
		l.Verdict, l.Until = Faulty, w.now.Add(time.Duration(5+w.IntN(900))*time.Second)
	case n == 5 && w.IntN(4) == 0:
		l.Verdict = Refused
	case n == 6 && w.IntN(3) == 0:
		l.Verdict = Cancelled // its machine went
	}
	return l
}

func (w *world) precheck(a Action) {
	w.phase = "asking"
	w.record(PrecheckStarted{a.Account})
	w.busy = func() Event {
		e := Opinion{Verdict: Passed, USD: 1}
		switch n := w.IntN(10); {
		case w.quota[a.Account].After(w.now):
			e.Verdict, e.Until = Limited, w.quota[a.Account]
		case w.request == StopNow || w.request == Terminate:
			e.Verdict = Cancelled
		case n < 2:
			e.Verdict = Failed
		case n == 2:
			e.Verdict, e.Until = Faulty, w.now.Add(30*time.Second)
		case n == 3:
			w.quota[a.Account] = w.now.Add(time.Duration(1+w.IntN(4000)) * time.Second)
			e.Verdict, e.Until = Limited, w.quota[a.Account]
		}
		return Prechecked{e}
	}
}

func (w *world) review(a Action) {
	if t := w.cur; a.Try != t.id || t.verdict != Passed || t.approved {
		w.failf("%v is reviewed", a.Try)
	}
	w.phase = "reviewing"
	w.record(ReviewStarted{a.Account})
	w.busy = func() Event {
		e := Opinion{Verdict: Passed, USD: 1}
		switch n := w.IntN(10); {
		case w.quota[a.Account].After(w.now):
			e.Verdict, e.Until = Limited, w.quota[a.Account]
		case w.request == StopNow || w.request == Terminate:
			e.Verdict = Cancelled
		case n < 2:
			e.Verdict, e.Asks = Failed, w.IntN(3) == 0
		case n == 2:
			e.Verdict, e.Until = Faulty, w.now.Add(30*time.Second)
		case n == 3 && w.IntN(4) == 0:
			e.Verdict = Refused
		}
		return Reviewed{e}
	}
}

func (w *world) check(a Action) {
	t := w.cur
	if a.Try != t.id || t.left == nil || t.left.Verdict != Passed {
		w.failf("%v is checked", a.Try)
	}
	if t.verdict == Passed && len(w.branch) == w.checkedOn {
		w.failf("%v is checked again, on the same tip", a.Try)
	}
	w.phase = "checking"
	t.checks++
	w.record(CheckStarted{})
	tip := len(w.branch) // checked out now; what he commits meanwhile is not in it
	w.busy = func() Event {
		e := CheckEnded{Verdict: Passed}
		f := &e.Found
		f.PlanOpen, f.NoPlan = w.IntN(3) == 0, w.IntN(8) == 0
		f.Replan = w.set.Replan && w.IntN(3) == 0
		f.MustNot = w.kind == "criteria" && w.IntN(25) == 0
		if w.kind == "criteria" {
			for range w.spec.count {
				f.Commands = append(f.Commands, []Proof{"", "", ByCommand, NotCommand}[w.IntN(4)])
			}
		}
		news := w.lacking(t.base, w.branch[:tip]) // committed since its base
		switch n := w.IntN(10); {
		case (w.request == StopNow || w.request == Terminate) && n < 8:
			e.Verdict = Cancelled
		case w.set.Place == Branch && len(news) > 0 && n < 4:
			e.Verdict = Clashed
		case n < 4 && w.spec.checks && !t.plans || w.spec.red && n < 8:
			e.Verdict, f.Error = Failed, []string{"tests", "tests", "lint"}[w.IntN(3)]
		default:
			t.verdict, w.checkedOn, w.checked = Passed, tip, union(w.branch[:tip], w.refs[a.Try])
			if a.Apart { // what is committed, and no more
				w.checked = union(w.branch[:tip], w.lacking(w.refs[a.From], w.refs[a.Try]))
			}
		}
		return e
	}
}

func (w *world) deliver(a Action) {
	t := w.cur
	switch {
	case w.set.Place == Folder:
		w.failf("something is delivered where there is no git")
	case a.Try != t.id || t.verdict != Passed:
		w.failf("%v is delivered, and did not pass", a.Try)
	case t.landed:
		w.failf("%v is delivered twice", a.Try)
	case w.reviewDue():
		w.failf("%v is delivered, and nobody reviewed it", a.Try)
	case a.Apart != t.plans:
		w.failf("%v is delivered apart: %v", a.Try, a.Apart)
	}
	w.phase = "delivering"
	w.record(DeliverStarted{})
	w.busy = func() Event {
		e := Delivered{Verdict: Passed}
		switch n := w.IntN(12); {
		case w.set.Place == Branch && len(w.branch) != w.checkedOn:
			e.Verdict = Moved // its old value is another one
		case w.request == StopNow && n < 3:
			e.Verdict = Cancelled
		case n == 3 && w.set.Place == Branch || w.spec.hook && n < 7 && w.set.Place == Branch:
			e.Verdict, e.Error = Failed, "hook"
		case n < 6 && w.set.Place == Tree:
			e.Verdict = Refused
		default:
			w.land(a)
		}
		return e
	}
}

// land is git's: the work is where it belongs.
func (w *world) land(a Action) {
	t := w.cur
	t.landed = true
	w.night.commits++
	all := w.checked
	if w.set.Place == Tree {
		all = w.refs[a.Try]
	}
	if lost := w.lacking(all, []string{t.piece}); t.left.Changed && len(lost) > 0 {
		w.failf("%v is committed without its own work", a.Try)
	}
	if t.plans {
		for _, x := range w.owed {
			if x != t.piece && slices.Contains(all, x) {
				w.failf("what %v planned is committed with %s, which did not pass", a.Try, x)
			}
		}
	} else if lost := w.lacking(all, w.owed); len(lost) > 0 {
		w.failf("%v is committed without %v", a.Try, lost)
	}
	for _, x := range all {
		if at := slices.Contains(w.gone, x); at && !slices.Contains(w.place(), x) {
			w.failf("%v is committed with %s, which was set aside", a.Try, x)
		}
	}
	if w.set.Place == Tree {
		w.tree = union(w.tree, all)
	} else {
		w.branch = union(w.branch, all)
		w.checkedOn = len(w.branch)
	}
}

// checkAll is a check of the untouched tree, or of the end.
func (w *world) checkAll(started Event, ended func(Verdict) Event) {
	w.phase = "checking all"
	w.record(started)
	w.busy = func() Event {
		switch {
		case w.request == StopNow || w.request == Terminate || w.request == PauseNow:
			return ended(Cancelled)
		case w.IntN(4) == 0:
			return ended(Failed)
		}
		return ended(Passed)
	}
}

func (w *world) ask(a Action) {
	if a.What != w.open {
		w.failf("it asks %s, and %s is open", a.What, w.open)
	}
	w.phase = "asking"
	w.record(AskStarted{})
	w.busy = func() Event {
		return Answered{[]Answer{Nobody, Nobody, Yes, No}[w.IntN(4)]}
	}
}

func (w *world) end(a Action) {
	w.ended = a.Why
	w.night.ends[fmt.Sprintf("%s %d", a.Why, a.Code)]++
	codes := map[Why]int{IsDone: 0, Nothing: 0, Stopped: 130, Terminated: 143, IsApart: 5, IsClash: 5, GitRefuses: 5,
		Quota: 75, Crashing: 4, NobodyCan: 4, AgentFails: 4, TestsFail: 3, NoPlan: 2, AtLimit: 6, AtDeadline: 6,
		BaseFails: 2, LastFails: 3, OwnError: 1, AtCost: 6, Paused: 7, Asks: 7, IsBlocked: 7, IsOpen: 7}
	code := codes[a.Why]
	if a.Why == AtLimit && w.mode3() {
		code = 0
	}
	if a.Code != code {
		w.failf("ended %s with code %d, not %d", a.Why, a.Code, code)
	}
	if a.Why == IsDone {
		t := w.cur
		if t.left == nil || t.left.Verdict != Passed || t.verdict != Passed {
			w.failf("done, and %v did not pass", t.id)
		}
		if len(w.owed) > 0 {
			w.failf("done, and %v is in no commit", w.owed)
		}
		if w.set.Last && w.last != Passed {
			w.failf("done, and the checks of the end did not pass")
		}
		if w.kind != "exit" && w.reviewDue() {
			w.failf("done, and nobody reviewed it")
		}
		if t.left.Changed && !slices.Contains(w.place(), t.piece) {
			w.failf("done, and the work of %v is not where it belongs", t.id)
		}
	}
	refs := slices.Concat(slices.Collect(maps.Values(w.refs))...)
	if lost := w.lacking(refs, w.owed); len(lost) > 0 {
		w.failf("ended, and no ref has %v", lost)
	}
	w.record(Ended{a.Why})
	w.same()
}
