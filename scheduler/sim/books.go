package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"descartes/scheduler"
)

// books are what the world knows of a run from the events alone. They know no stages, no transitions and no machine:
// facts are noted one by one, and every law is asked of them. What git has is the world's own; books are told of it
// when a run is resumed.
type books struct {
	set       scheduler.Settings
	lim       scheduler.Limits
	list      []scheduler.Listed
	notes     map[string]*note
	all       []*note // in the order in which they came
	ours      int     // tasks that the run added
	lanes     []scheduler.Lane
	until     map[string]time.Time
	rest      map[string]time.Time
	faults    map[string]int
	refused   map[string]bool
	row       time.Time // when the first wait for quota was to be over since an agent last got past one
	chain     []scheduler.Entry
	mergedIDs map[string]bool // tasks in it
	in        map[string]bool // tasks that the branch has
	branch    []string        // its own commits
	refusedTo int             // of these
	gone      []string        // tasks whose commits the branch lost, when the run was resumed
	aside     bool
	busy      string
	checks    []*check
	line      []string                   // who is merged next, and then, if their checks pass
	seen      map[string]map[string]bool // by name of a check of waves or the end: tasks that it saw pass
	wave      *scheduler.WaveCheck       // that is at work
	redOnce   *scheduler.WaveCheck       // that failed once
	owed      map[string]bool            // checks of the end that an earlier run left failing
	committed int
	upto      int // of a step: its wave
	paused    bool
	stopped   bool
	now       bool
	cutCommit bool // by a request to end at once
	term      bool
	lost      []string
	unpushed  bool
	trouble   scheduler.Trouble
	noChecks  bool // nothing more is checked, whatever else is said
	noCommits bool
	moved     int // how often in a row the branch was another one when it was to get a commit
	attempts  int
	usd       float64
	worked    bool
	failures  []failure // in a row, by the rules of the breaker
	half      failure   // one more like it opens the breaker
	open      failure   // what opened it; no signature: it is not open
	doubt     failure
	baseline  scheduler.Result
	known     map[string]bool
	turns     int
	ended     bool
	renumber  bool

	version int // of the facts
	today   *day
}

// check is one of a commit that is at work, or is over and waits for those before it.
type check struct {
	task   string // "": it is of the tip itself
	base   []scheduler.Entry
	review scheduler.ReviewIf
	ahead  int  // how many of these were not merged when it was started
	void   bool // what it stands on was given up
	said   *scheduler.CheckEnded
}

type failure struct {
	task, signature string
	byAgent, byTip  bool
}

// note is what is known of a task.
type note struct {
	id        string
	at        int               // its place in the books
	ours      int               // the how-manyth task is it that the run added; 0: it is listed
	now       *scheduler.Listed // as the list has it
	row       int               // there
	last      *scheduler.Listed // as the list had it
	check     string            // that it is to mend
	takes     string            // the commit up to which it takes the branch in
	waveNo    int
	floor     int
	number    int
	spent     int
	crashed   int
	cuts      int
	usd       float64
	maker     string // account of the agent that worked on it last
	work      string // where its work is: "", lane, made, check, review
	lane      int    // -1
	account   string
	worker    string
	from      int // entries that its agent found in the trunk
	purpose   scheduler.Purpose
	turn      int
	again     bool
	look      bool
	kept      bool
	approved  bool
	passedOn  []scheduler.Entry // what its commit passed on, last; nil: nothing
	stuck     bool              // blocked
	asks      bool
	accepted  bool
	overruled bool // a person opened it, and the list calls it blocked
	shown     bool // nothing was to be done, and a person has to say so
	unchanged bool
	obeyed    bool // a person's word in the list holds
	byHand    bool // and it was: done
	dropped   bool // ours, and not needed any more
	paths     map[string]bool
	listed    string // blocked or done: the branch's list says so, and no commit
	writing   string
	before    *note // a person tried it again, since the run was started
}

// takeBack: the run was refused, and it is as it was before a person tried it again.
func (n *note) takeBack() {
	is := *n
	*n = *n.before
	n.now, n.row, n.last, n.waveNo, n.floor = is.now, is.row, is.last, is.waveNo, is.floor
	n.listed, n.writing, n.before = is.listed, is.writing, nil
}

// inList is what the list says of a task that is in no commit, "" where it is open or has one.
func (b *books) inList(n *note) string {
	switch {
	case b.is(n) == "blocked":
		return "blocked"
	case n.unchanged:
		return "done"
	}
	return ""
}

func newBooks() *books {
	return &books{notes: map[string]*note{}, until: map[string]time.Time{}, in: map[string]bool{},
		mergedIDs: map[string]bool{}, seen: map[string]map[string]bool{}, owed: map[string]bool{},
		known: map[string]bool{}}
}

// say is what the list says of a task: "", done, aside (also: gone from it).
func (n *note) say() scheduler.Word {
	if n.now != nil {
		return n.now.Word
	}
	if n.isOurs() && !n.dropped {
		return ""
	}
	return scheduler.PutAside
}

func (n *note) isOurs() bool { return n.ours > 0 }

func (n *note) forget() {
	*n = note{id: n.id, at: n.at, ours: n.ours, now: n.now, row: n.row, last: n.last, check: n.check, takes: n.takes,
		waveNo: n.waveNo, floor: n.floor, number: n.number, lane: -1, kept: n.kept, from: n.from, paths: n.paths,
		listed: n.listed, writing: n.writing, obeyed: n.obeyed, byHand: n.byHand, dropped: n.dropped}
}

func (b *books) merged(id string) bool { return b.mergedIDs[id] }

func (b *books) setChain(chain []scheduler.Entry) {
	b.chain, b.mergedIDs = slices.Clone(chain), map[string]bool{}
	for _, x := range chain {
		if x.Task != "" {
			b.mergedIDs[x.Task] = true
		}
	}
}

func (b *books) grow(x scheduler.Entry) {
	b.chain = append(slices.Clip(b.chain), x)
	if x.Task != "" {
		b.mergedIDs[x.Task] = true
	}
	if b.isHis(x) { // what failed once may be mended
		b.redOnce = nil
	}
}

// after brings a person's words into force where nobody works.
func (b *books) after() {
	for _, n := range b.all {
		if n.work != "" || b.merged(n.id) || n.unchanged {
			continue
		}
		switch w := n.say(); {
		case w == scheduler.ByHand, w == scheduler.PutAside:
			b.renumber = b.renumber || !n.obeyed || n.byHand != (w == scheduler.ByHand)
			n.obeyed, n.byHand = true, w == scheduler.ByHand
		case n.obeyed:
			n.obeyed, n.byHand, b.renumber = false, false, true
			n.forget()
		}
		if n.isCalledBlocked() && !n.stuck {
			n.stuck, n.listed = true, "blocked"
		}
	}
}

// isCalledBlocked: the list said so before the run came to it, and nobody opened it.
func (n *note) isCalledBlocked() bool {
	return n.say() == scheduler.Stuck && n.number == 0 && !n.overruled
}

func (b *books) take(list []scheduler.Listed) {
	for _, n := range b.all {
		if n.now != nil {
			n.last, n.now = n.now, nil
		}
	}
	for i := range list {
		l := &list[i]
		n := b.notes[l.ID]
		if n == nil {
			n = b.newNote(l.ID)
			n.floor = b.committed + 1
		}
		n.now, n.last, n.row, n.overruled = l, l, i, false
	}
	b.list, b.renumber = list, true
}

func (b *books) newNote(id string) *note {
	n := &note{id: id, at: len(b.all), lane: -1, paths: map[string]bool{}}
	b.notes[id] = n
	b.all = append(b.all, n)
	return n
}

// number: the depth over the list, and never below what its order says and the first wave that was open when it came. What is in the trunk
// keeps its own.
func (b *books) number() {
	for _, n := range b.all {
		n.waveNo = max(n.waveNo, n.floor)
	}
	done := make([]bool, len(b.all))
	b.deepenAll(done)
	for _, n := range b.all { // what stands on a circle has a depth only when a person opened the circle
		done[n.at] = done[n.at] || b.is(n) != "open"
	}
	b.deepenAll(done)
}

func (b *books) deepenAll(done []bool) {
	waits := func(x string) bool { return b.notes[x] != nil && !done[b.notes[x].at] }
	for again := true; again; {
		again = false
		for _, n := range b.all {
			if !done[n.at] && n.last != nil && !slices.ContainsFunc(n.last.Needs, waits) {
				done[n.at], again = true, true
				b.deepen(n, n.last)
			}
		}
	}
}

func (b *books) deepen(n *note, l *scheduler.Listed) {
	if b.merged(n.id) {
		return
	}
	n.waveNo = max(n.floor, l.Earliest)
	for _, x := range l.Needs {
		if b.notes[x] != nil {
			n.waveNo = max(n.waveNo, b.notes[x].waveNo+1)
		}
	}
}

func (b *books) add(id, check, takes string, wave int) {
	n := b.notes[id]
	if n == nil {
		n = b.newNote(id)
		b.ours++
		n.check, n.takes, n.ours = check, takes, b.ours
	}
	n.dropped, n.waveNo = false, wave
}

// note folds one event.
func (b *books) note(e scheduler.Event) {
	b.version++
	switch e := e.(type) {
	case scheduler.Resumed:
		b.resume(e)
	case scheduler.AttemptStarted:
		n := b.notes[e.Task]
		n.lane, n.account, n.worker, n.purpose = e.Lane, e.Account, b.workerOf(e.Lane), e.Purpose
		if n.work = "lane"; e.Purpose == scheduler.Review {
			n.work = "review"
		} else {
			n.number++
			n.accepted, n.approved, n.passedOn, n.from = false, false, nil, len(b.chain)
			n.maker = e.Account
		}
		if e.Purpose == scheduler.Work {
			b.attempts++
		}
	case scheduler.AttemptEnded:
		b.agentEnded(b.notes[e.Task], e)
	case scheduler.CheckStarted:
		b.checkStarted(e)
	case scheduler.CheckEnded:
		b.checked(e)
	case scheduler.WaveCheckStarted:
		b.wave = &scheduler.WaveCheck{Wave: e.Wave, Tip: e.Tip, Checks: e.Checks}
	case scheduler.WaveCheckEnded:
		b.waveChecked(e)
	case scheduler.TakeInStarted:
		b.busy = "take in"
	case scheduler.TakeInEnded:
		switch b.busy = ""; e.Result {
		case scheduler.Passed:
			b.grow(scheduler.Entry{Commit: e.Commit})
			for _, c := range b.checks {
				b.notes[c.task].work = "made"
			}
			b.line, b.checks = nil, nil
			b.drop(func(n *note) bool { return n.isOurs() })
		case scheduler.Clashed:
			b.refusedTo = b.branchAt(e.Commit)
			wave := 0
			for _, n := range b.all {
				if b.merged(n.id) && !b.in[n.id] && n.waveNo < scheduler.EndWave {
					wave = earliest(wave, n.waveNo)
				}
			}
			b.add("take-in-"+e.Commit, "", e.Commit, cmp.Or(wave, b.committed, 1))
		case scheduler.Failed:
			b.refusedTo = b.branchAt(e.Commit)
		}
	case scheduler.CutStarted:
		b.busy = "cut"
	case scheduler.CommitStarted:
		b.busy = "commit"
		for _, n := range b.all {
			n.writing = b.inList(n)
		}
	case scheduler.Committed:
		switch b.busy = ""; e.Result {
		case scheduler.Passed:
			for _, x := range b.chain[:e.Tip] {
				if x.Task != "" {
					b.in[x.Task] = true
				}
			}
			for _, n := range b.all {
				n.listed = n.writing
			}
			b.aside = b.aside || e.Aside
			if e.Wave < scheduler.EndWave {
				b.committed = max(b.committed, e.Wave)
			}
		case scheduler.Cut:
			b.cutCommit = b.cutCommit || b.now // else what cut it short is taken back
		case scheduler.Failed:
			for _, x := range b.chain {
				if !b.in[x.Task] {
					b.unsee(x.Task)
				}
			}
		}
		if b.moved++; e.Result != scheduler.Moved {
			b.moved = 0
		} else if b.moved > 50 {
			b.meet(scheduler.Trouble{Code: 5, Checks: true, Commits: true})
		}
	case scheduler.BranchMoved:
		for _, c := range e.Commits {
			if b.branchAt(c) == 0 {
				b.branch = append(slices.Clip(b.branch), c)
			}
		}
		for _, id := range e.Lost {
			if !slices.Contains(b.lost, id) {
				b.lost = append(slices.Clip(b.lost), id)
			}
		}
	case scheduler.ListChanged:
		b.take(e.List)
		for _, n := range b.byList() {
			b.unreviewed(n)
		}
	case scheduler.LimitsChanged:
		b.limit(e.Limits)
	case scheduler.LaneCame:
		b.lanes = append(slices.Clone(b.lanes), e.Lane)
	case scheduler.LaneGone:
		b.lanes = slices.DeleteFunc(slices.Clone(b.lanes), func(l scheduler.Lane) bool { return l.Number == e.Number })
		for _, n := range b.all {
			if n.lane == e.Number {
				b.cut(n)
			}
		}
	case scheduler.LimitMet:
		login := e.Account
		if e.Worker != "" {
			login += "@" + e.Worker
		}
		b.exhausted(login, e.Until)
	case scheduler.LimitCleared:
		login := e.Account
		if e.Worker != "" {
			login += "@" + e.Worker
		}
		delete(b.until, login)
	case scheduler.Pushed:
		b.unpushed = e.Result != scheduler.Passed
	case scheduler.Trouble:
		b.meet(e)
	case scheduler.Requested:
		b.asked(e)
	case scheduler.Rewound:
		b.rewound(e)
	case scheduler.Ended:
		b.ended = true
		for _, n := range b.all {
			if n.before != nil && e.Why == "baseline" && b.is(n) == "open" && !n.accepted {
				n.takeBack()
			}
			n.before = nil
		}
	}
	if b.after(); b.renumber {
		b.number()
		b.renumber = false
	}
	for _, n := range b.byList() { // a person's word, and the trunk has what it needs
		if n.accepted && b.is(n) == "open" && b.hasAll(n) {
			n.from = len(b.chain)
			b.made(n)
		}
	}
}

func (b *books) meet(t scheduler.Trouble) {
	b.trouble, b.now = t, b.now || t.Checks
	b.noChecks, b.noCommits = b.noChecks || t.Checks, b.noCommits || t.Commits
}

func (b *books) asked(e scheduler.Requested) {
	n := b.notes[e.Task]
	switch e.Request {
	case scheduler.Pause:
		b.paused = true
	case scheduler.PauseNow:
		b.paused, b.now = true, true
	case scheduler.Go:
		if b.paused = false; !b.stopped && !b.noChecks {
			b.now = false
		}
		b.cutCommit = b.cutCommit && b.stopped
	case scheduler.Stop:
		b.stopped = true
	case scheduler.StopNow, scheduler.Term:
		b.stopped, b.now, b.term = true, true, b.term || e.Request == scheduler.Term
	case scheduler.Retry:
		if b.is(n) == "blocked" {
			was := *n
			n.forget()
			n.before = &was
			n.overruled = true
			b.number()
			if n.waveNo < b.upto {
				b.upto = n.waveNo
			}
		}
	case scheduler.Accept:
		switch {
		case b.is(n) == "blocked" && n.shown:
			n.stuck, n.asks, n.unchanged = false, false, true
		case b.is(n) == "blocked" || b.is(n) == "open":
			if n.kept || e.Kept {
				n.forget()
				n.accepted, n.kept, n.number = true, true, n.number+1
			}
		}
	}
}

func (b *books) made(n *note) {
	b.turns++
	n.work, n.lane, n.turn = "made", -1, b.turns
}

func (b *books) limit(l scheduler.Limits) {
	b.lim = l
	for _, n := range b.all {
		if b.is(n) == "open" && b.usedUp(n) {
			n.stuck = true
		}
	}
}

func (b *books) usedUp(n *note) bool {
	return n.spent >= b.lim.Attempts || n.cuts >= 10 || b.broke(n)
}

func (b *books) broke(n *note) bool { return b.lim.TaskUSD > 0 && n.usd >= b.lim.TaskUSD }

func (b *books) agentEnded(n *note, e scheduler.AttemptEnded) {
	if n == nil || n.lane < 0 {
		return
	}
	b.usd, n.usd, n.kept = b.usd+e.USD, n.usd+e.USD, n.kept || e.Kept
	switch e.Outcome {
	case scheduler.OutOfQuota, scheduler.Fault, scheduler.Refused, scheduler.Cancelled, scheduler.Clean:
	default:
		b.row = time.Time{}
	}
	free, login := false, n.account
	if n.worker != "" {
		login += "@" + n.worker
	}
	switch e.Outcome {
	case scheduler.OutOfQuota:
		b.exhausted(login, e.Until)
		free = true
	case scheduler.Fault:
		b.rest[login], free = e.Until, true
		b.faults[login]++
	case scheduler.Refused:
		b.refused[login], free = true, true
	case scheduler.Clean:
		free = true
	case scheduler.Unchanged:
		delete(b.faults, login)
	case scheduler.Finished, scheduler.Shown, scheduler.GaveUp, scheduler.Asks, scheduler.Approved, scheduler.Rejected:
		delete(b.faults, login)
		if b.worked = true; len(b.failures) > 0 && b.failures[0].byAgent {
			b.failures = nil
		}
		if b.half.byAgent {
			b.half = failure{}
		}
	}
	if free && n.purpose == scheduler.Work {
		b.attempts--
	}
	p := n.purpose
	n.lane, n.account, n.worker, n.purpose = -1, "", "", ""
	switch o := e.Outcome; {
	case o == scheduler.Finished, o == scheduler.Clean:
		n.cuts, n.look, n.kept = 0, false, true
		b.made(n)
	case o == scheduler.Approved:
		n.cuts, n.approved = 0, true
		b.made(n)
	case o == scheduler.Rejected:
		b.fail(n, failure{task: n.id})
	case o == scheduler.Shown:
		n.work, n.look = "", false
		if n.unchanged = !b.set.Careful; b.set.Careful {
			n.stuck, n.shown, n.asks = true, true, true
		}
	case o == scheduler.Unchanged && p == scheduler.Work && !n.isOurs():
		n.cuts, n.look = 0, true
		b.reopen(n)
	case p == scheduler.Review && o == scheduler.Asks:
		n.work, n.stuck, n.asks = "", true, true
	case p == scheduler.Review && free:
		n.work = "review"
		b.unreviewed(n)
	case p == scheduler.Review:
		b.cut(n)
	case o == scheduler.Unchanged:
		n.look = false
		b.fail(n, failure{task: n.id, signature: e.Signature, byAgent: true})
	case o == scheduler.Crashed, o == scheduler.Nothing, o == scheduler.TimedOut, o == scheduler.Unstorable:
		n.look = false
		b.fail(n, failure{task: n.id, signature: e.Signature,
			byAgent: o == scheduler.Crashed || o == scheduler.Nothing})
	case free:
		b.reopen(n)
	case o == scheduler.Mute && p == scheduler.Work && n.spent == 0 && b.lim.Attempts > 1 && !b.broke(n):
		n.look = false
		b.fail(n, failure{task: n.id, signature: e.Signature, byAgent: true})
	case o == scheduler.Mute:
		n.work, n.stuck, n.asks, n.look = "", true, true, false
	case o == scheduler.GaveUp, o == scheduler.Asks, o == scheduler.TooLong:
		n.work, n.stuck, n.asks, n.look = "", true, o == scheduler.Asks, false
		if e.Signature != "" {
			b.inRow(failure{task: n.id, signature: e.Signature})
		}
	default:
		if p == scheduler.Work {
			b.attempts--
		}
		b.cut(n)
	}
}

func (b *books) reopen(n *note) {
	n.work, n.lane, n.again = "", -1, true
	n.stuck = b.usedUp(n)
}

func (b *books) cut(n *note) {
	if n.work == "lane" && n.purpose == scheduler.Work { // and it counts for nothing
		b.attempts--
	}
	n.lane, n.account = -1, ""
	if n.cuts++; n.work == "review" && n.cuts < 10 {
		b.unreviewed(n)
		return
	}
	b.reopen(n)
}

// fail counts an attempt, and keeps the row of failures: by one signature, all of them.
func (b *books) fail(n *note, f failure) {
	n.cuts = 0
	if n.spent++; f.byAgent {
		n.crashed++
	}
	b.inRow(f)
	b.reopen(n)
}

func (b *books) inRow(f failure) {
	if f.signature == "" || len(b.failures) > 0 && b.failures[0].signature != f.signature {
		b.failures = nil
	}
	if b.half.signature != f.signature {
		b.half = failure{}
	}
	if f.signature != "" && b.set.Breaker > 0 {
		b.failures = append(slices.Clone(b.failures), f)
		for i := range b.failures {
			b.failures[i].byAgent = f.byAgent
		}
		tasks := map[string]bool{}
		for _, x := range b.failures {
			tasks[x.task] = true
		}
		if len(tasks) >= b.set.Breaker || b.half.signature == f.signature {
			b.opens(f)
		}
	}
}

func (b *books) opens(f failure) {
	if b.open.signature == "" {
		b.open = f
	}
}

// branchAt is the place of a commit of the branch's own, from 1 on; 0: it is none.
func (b *books) branchAt(commit string) int { return slices.Index(b.branch, commit) + 1 }

func (b *books) workerOf(lane int) string {
	for _, l := range b.lanes {
		if l.Number == lane {
			return l.Worker
		}
	}
	return ""
}

// over is the chain with the merges of these tasks behind it.
func (b *books) over(tasks []string) []scheduler.Entry {
	base := append([]scheduler.Entry{}, b.chain...)
	for _, id := range tasks {
		base = append(base, scheduler.Entry{Task: id})
	}
	return base
}

func (b *books) checkStarted(e scheduler.CheckStarted) {
	b.busy = "check"
	c := &check{task: e.Task, base: b.over(e.On), ahead: len(e.On), review: e.Review}
	if b.checks = append(slices.Clip(b.checks), c); e.Purpose != scheduler.OfAttempt {
		c.task = ""
		return
	}
	n := b.notes[e.Task]
	n.work = "check"
	if !slices.Equal(n.passedOn, c.base) {
		n.passedOn = nil
	}
	if c.review != scheduler.Always && !slices.Contains(b.line, n.id) {
		b.line = append(slices.Clip(b.line), n.id)
	}
}

// merges: a check that says so has its commit merged, and nobody looks at it before.
func (c *check) merges(e *scheduler.CheckEnded) bool {
	return e.Result == scheduler.Passed && (c.review == "" || c.review == scheduler.IfChanged && !e.Changed)
}

func (b *books) checked(e scheduler.CheckEnded) {
	task := e.Task
	if e.Purpose != scheduler.OfAttempt {
		task = ""
	}
	c := b.checks[slices.IndexFunc(b.checks, func(c *check) bool { return c.task == task && c.said == nil })]
	others := func(o *check) bool { return o != c && o.said == nil }
	if b.busy = ""; slices.ContainsFunc(b.checks, others) {
		b.busy = "check"
	}
	n := b.notes[task]
	switch {
	case task != "" && e.Result != scheduler.Cut && !c.void && len(c.base) > len(b.chain): // of what will be merged first
		c.said = &e
		if !c.merges(&e) {
			b.giveUp(n)
		}
		return
	}
	b.checks = slices.DeleteFunc(slices.Clone(b.checks), func(o *check) bool { return o == c })
	switch {
	case e.Result == scheduler.Cut || c.void:
		if n != nil {
			n.work = "made"
			b.giveUp(n)
		}
	case e.Purpose == scheduler.Baseline:
		if b.baseline = e.Result; b.set.Baseline == "known" {
			for _, k := range e.Known {
				b.known[k] = true
			}
		}
	case e.Purpose == scheduler.Recheck:
		if e.Result == scheduler.Failed && e.Signature == b.doubt.signature {
			b.doubt.byTip = true
			b.opens(b.doubt)
		}
		b.doubt = failure{}
	default:
		b.counts(n, c, e)
		b.countWaiting()
	}
}

// countWaiting: what was said of commits counts when those before them are merged, first made first.
func (b *books) countWaiting() {
	var due []*check
	for _, c := range b.checks {
		if c.said != nil && len(c.base) <= len(b.chain) {
			due = append(due, c)
		}
	}
	slices.SortFunc(due, func(x, y *check) int { return b.notes[x.task].turn - b.notes[y.task].turn })
	for _, c := range due {
		if slices.Contains(b.checks, c) {
			b.checks = slices.DeleteFunc(slices.Clone(b.checks), func(o *check) bool { return o == c })
			b.counts(b.notes[c.task], c, *c.said)
		}
	}
}

// giveUp: it is not merged next, so what stands on that is checked again.
func (b *books) giveUp(n *note) {
	i := slices.Index(b.line, n.id)
	if i < 0 {
		return
	}
	b.line = b.line[:i]
	for _, c := range slices.Clone(b.checks) {
		if !slices.Contains(c.base[min(len(b.chain), len(c.base)):], scheduler.Entry{Task: n.id}) {
			continue
		}
		if c.void = true; c.said != nil {
			b.notes[c.task].work = "made"
			b.checks = slices.DeleteFunc(slices.Clone(b.checks), func(o *check) bool { return o == c })
		}
	}
}

// counts is what follows from a check of a commit.
func (b *books) counts(n *note, c *check, e scheduler.CheckEnded) {
	switch {
	case e.Result == scheduler.Clashed:
		for _, p := range e.Paths {
			n.paths[p] = true
		}
		if b.reopen(n); n.accepted {
			n.accepted, n.again, n.stuck = false, false, true
		}
	case n.accepted:
		for _, k := range e.Known {
			b.known[k] = true
		}
		b.merge(n)
		return
	case e.Result == scheduler.Passed:
		b.failures, b.half = nil, failure{}
		before := n.passedOn
		n.passedOn = c.base
		switch {
		case c.merges(&e):
			for _, k := range e.Mended {
				delete(b.known, k)
			}
			if before == nil && c.ahead > 0 {
				n.work = "made" // and only has to be merged
			} else {
				b.merge(n)
			}
			return
		case b.broke(n) && b.reviewed(n):
			n.work, n.stuck, n.approved = "", true, false
		default:
			n.work, n.approved = "review", false
			b.unreviewed(n)
		}
	case e.Result == scheduler.Failed && e.Ask:
		n.work, n.stuck, n.asks = "", true, true
	case e.Result == scheduler.Failed:
		b.fail(n, failure{task: n.id, signature: e.Signature})
		if b.is(n) == "blocked" && n.check == "" && b.set.Breaker > 0 && b.open.signature == "" && e.Signature != "" &&
			!slices.ContainsFunc(b.failures, func(f failure) bool { return f.task != n.id }) && b.tipPassed() {
			b.doubt = failure{task: n.id, signature: e.Signature}
		}
	}
	b.giveUp(n)
}

// tipPassed: what stands in the trunk has passed there, and the baseline has, or what fails of it is known.
func (b *books) tipPassed() bool {
	return len(b.mergedIDs) > 0 || b.baseline == scheduler.Passed ||
		b.set.Baseline == "known" && b.baseline == scheduler.Failed
}

func (b *books) reviewed(n *note) bool {
	return n.last != nil && len(n.last.Review) > 0
}

// unreviewed: what waits for a reviewer that the list asks for no more is as good as approved.
func (b *books) unreviewed(n *note) {
	if n.work == "review" && n.lane < 0 && !b.reviewed(n) {
		n.approved = true
		b.made(n)
	}
}

func (b *books) merge(n *note) {
	b.grow(scheduler.Entry{Task: n.id})
	n.work = ""
	b.line = slices.DeleteFunc(slices.Clone(b.line), func(id string) bool { return id == n.id })
	b.sees(n, len(b.chain))
	if n.takes != "" {
		b.drop(func(o *note) bool { return o.takes != "" })
	}
}

// see: a check saw what the chain has up to a tip.
func (b *books) see(check string, tip int) {
	if b.seen[check] == nil {
		b.seen[check] = map[string]bool{}
	}
	delete(b.owed, check)
	for _, x := range b.chain[:tip] {
		b.seen[check][x.Task] = true
	}
	if r := b.redOnce; r != nil && slices.Contains(r.Checks, check) {
		left := slices.DeleteFunc(slices.Clone(r.Checks), func(name string) bool { return name == check })
		if b.redOnce = nil; len(left) > 0 {
			b.redOnce = &scheduler.WaveCheck{Wave: r.Wave, Tip: r.Tip, Checks: left}
		}
	}
}

func (b *books) unsee(task string) {
	for _, tasks := range b.seen {
		delete(tasks, task)
	}
}

// sees: what passed with a CHECK besides shows all up to it.
func (b *books) sees(n *note, tip int) {
	if n.check == "" {
		return
	}
	b.see(n.check, tip)
	if n.waveNo == scheduler.EndWave {
		for _, name := range b.set.WaveChecks {
			b.see(name, tip)
		}
	}
}

func (b *books) drop(which func(*note) bool) {
	for _, n := range b.all {
		if which(n) && b.is(n) == "blocked" {
			n.dropped = true
		}
	}
	b.after()
}

func (b *books) waveChecked(e scheduler.WaveCheckEnded) {
	ran := b.wave.Checks
	if b.wave = nil; e.Result == scheduler.Cut {
		return
	}
	once := b.redOnce
	var again []string
	for _, name := range ran {
		if !slices.Contains(e.Failed, name) {
			b.see(name, e.Tip)
			continue
		}
		if slices.ContainsFunc(b.chain[min(e.Tip, len(b.chain)):], b.isHis) {
			continue
		}
		if once == nil || !slices.Contains(once.Checks, name) {
			again = append(again, name)
			continue
		}
		id := fmt.Sprintf("check-%d-%s", e.Wave, name)
		if e.Wave == scheduler.EndWave {
			id = "check-end-" + name
		}
		base := id
		for k := 2; b.merged(id); k++ {
			id = fmt.Sprintf("%s-%d", base, k)
		}
		b.add(id, name, "", e.Wave)
	}
	if b.redOnce = nil; len(again) > 0 {
		b.redOnce = &scheduler.WaveCheck{Wave: e.Wave, Tip: e.Tip, Checks: again}
	}
}

// isHis reports whether an entry of the trunk brings commits of the branch's own.
func (b *books) isHis(x scheduler.Entry) bool {
	return x.Commit != "" || b.notes[x.Task] != nil && b.notes[x.Task].takes != ""
}

func (b *books) exhausted(login string, until time.Time) {
	b.until[login] = later(b.until[login], until)
	if delete(b.faults, login); b.row.IsZero() {
		b.row = until
	}
}

func (b *books) resume(e scheduler.Resumed) {
	b.set, b.lanes, b.lim = e.Settings, slices.Clone(e.Lanes), e.Limits
	b.paused, b.stopped, b.now, b.term, b.ended, b.cutCommit = false, false, false, false, false, false
	b.lost, b.trouble, b.noChecks, b.noCommits, b.moved = nil, scheduler.Trouble{}, false, false, 0
	b.unpushed = false
	for _, name := range e.Owed {
		b.owed[name] = true
	}
	for _, k := range e.Known {
		b.known[k] = true
	}
	for _, n := range b.all {
		n.before = nil
	}
	b.worked, b.busy, b.wave, b.redOnce, b.doubt = false, "", nil, nil, failure{}
	b.rest, b.faults, b.refused = map[string]time.Time{}, map[string]int{}, map[string]bool{}
	b.row = time.Time{}
	if b.open.byTip {
		b.baseline = ""
	}
	if b.open.signature != "" {
		b.half, b.open, b.failures = b.open, failure{}, nil
	}
	if b.baseline == scheduler.Failed && b.set.Baseline == "require" {
		b.baseline = ""
	}
	was := b.chain
	left := b.keeps(e.Chain)
	b.setChain(e.Chain)
	if left < len(was) { // cut, and nobody was told
		for _, n := range b.all {
			n.passedOn, n.kept = nil, n.kept && n.from <= left
			if n.from > left && (n.work == "made" || n.work == "check" || n.work == "review") && n.lane < 0 {
				n.forget()
			}
		}
	}
	b.branch, b.refusedTo, b.committed, b.aside, b.gone = e.Branch, 0, e.Wave, e.Aside, e.Lost
	b.in = map[string]bool{}
	for _, x := range b.chain[:e.In] {
		b.in[x.Task] = x.Task != ""
	}
	if b.behind() {
		b.baseline = ""
	}
	b.take(e.List)
	for i, x := range b.chain {
		if n := b.notes[x.Task]; n != nil {
			b.sees(n, i+1)
		}
	}
	kept := map[string]bool{}
	for _, k := range e.Kept {
		if n := b.notes[k.Task]; n.work == "lane" && !b.merged(k.Task) {
			kept[k.Task] = true
			b.usd, n.usd = b.usd+k.USD, n.usd+k.USD
			n.kept, n.look, n.cuts = true, false, 0
			b.made(n)
		}
	}
	for _, n := range b.all {
		id := n.id
		switch {
		case slices.Contains(e.Listed, id) || b.is(n) == "blocked" && n.isCalledBlocked():
			n.listed = "blocked"
		case slices.Contains(e.Unneeded, id):
			n.listed = "done"
		default:
			n.listed = ""
		}
		switch {
		case b.merged(id):
			n.work, n.lane, n.stuck, n.obeyed = "", -1, false, false
		case slices.Contains(was, scheduler.Entry{Task: id}):
			b.unsee(id)
			n.forget()
		case kept[id]:
		case n.work == "check":
			n.work = "made"
			for _, c := range b.checks { // over, and waiting for others
				h := c.said
				if c.task == id && h != nil && c.merges(h) {
					n.passedOn = c.base
				}
			}
		case n.lane >= 0 && slices.Contains(e.Alive, id):
		case n.lane >= 0:
			b.cut(n)
		}
	}
	if e.OtherChecks {
		b.forgetChecks()
	}
	b.checks, b.line = nil, nil
	for _, n := range b.byList() {
		b.unreviewed(n)
	}
	b.after()
	b.limit(e.Limits)
	b.number()
	if b.upto = 0; b.set.Step && b.set.Only == "" {
		b.upto = b.day(time.Time{}).open
	}
}

// behind: the branch's commits are to be taken in, and there is nothing to check them with.
func (b *books) behind() bool {
	taken := 0
	for _, x := range b.chain {
		if x.Task != "" && !b.in[x.Task] {
			return false
		}
		taken = max(taken, b.branchAt(x.Commit))
		if n := b.notes[x.Task]; n != nil {
			taken = max(taken, b.branchAt(n.takes))
		}
	}
	return taken < len(b.branch)
}

// forgetChecks: others decide from now on.
func (b *books) forgetChecks() {
	b.baseline = ""
	for _, x := range b.chain {
		if !b.in[x.Task] {
			b.unsee(x.Task)
		}
	}
	for _, n := range b.all {
		if n.passedOn = nil; !n.stuck {
			n.spent, n.crashed = 0, 0
		}
	}
}

// keeps is how many of the trunk's first entries another one has. No check has seen those that stand behind others there.
func (b *books) keeps(chain []scheduler.Entry) (n int) {
	for n < len(b.chain) && n < len(chain) && b.chain[n] == chain[n] {
		n++
	}
	for _, x := range chain[n:] {
		b.unsee(x.Task)
	}
	return n
}

func (b *books) rewound(e scheduler.Rewound) {
	was, left := b.chain, b.keeps(e.Chain)
	b.setChain(e.Chain)
	b.branch, b.refusedTo, b.committed, b.redOnce, b.busy, b.gone = e.Branch, 0, e.Wave, nil, "", nil
	b.line, b.moved = nil, 0
	b.in = map[string]bool{}
	for _, x := range b.chain[:e.In] {
		b.in[x.Task] = x.Task != ""
	}
	for _, n := range b.all {
		id := n.id
		n.passedOn = nil
		if b.merged(id) {
			continue
		}
		b.unsee(id)
		n.kept = n.kept && n.from <= left
		n.dropped = n.isOurs()
		if slices.Contains(was, scheduler.Entry{Task: id}) || slices.Contains(e.Open, id) && !n.obeyed {
			n.forget()
		}
	}
	b.renumber = true
}

// byList are all tasks as the list has them, then those that it no longer has, and ours.
func (b *books) byList() []*note {
	list := slices.Clone(b.all)
	slices.SortStableFunc(list, func(x, y *note) int { return cmp.Compare(x.order(), y.order()) })
	return list
}

func (n *note) order() int {
	if n.now != nil {
		return n.row
	}
	return 1000 + n.at
}
