package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"descartes/scheduler"
	"time"
)

// books are what the world knows of a run from the events alone. They know no stages, no transitions and no machine:
// facts are noted one by one, and every law is asked of them. What git has is the world's own; books are told of it
// when a run is resumed.
type books struct {
	set       scheduler.Settings
	lim       scheduler.Limits
	list      []scheduler.Listed
	notes     map[string]*note
	ours      []string // tasks that the run added, in the order in which it did
	lanes     []scheduler.Lane
	until     map[string]time.Time
	rest      map[string]time.Time
	faults    map[string]int
	refused   map[string]bool
	chain     []scheduler.Entry
	in        map[string]bool // tasks that the branch has
	moved     int
	refusedTo int
	aside     bool
	busy      string
	seen      map[string]bool // tasks that a check of a wave saw pass
	seenEnd   map[string]bool
	wave      scheduler.WaveCheck // that is at work
	redOnce   scheduler.WaveCheck // that failed once
	committed int
	upto      int // of a step: its wave
	paused    bool
	stopped   bool
	now       bool
	term      bool
	lost      bool
	unpushed  bool
	trouble   scheduler.Trouble
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
}

type failure struct {
	task, signature string
	byAgent         bool
}

// note is what is known of a task.
type note struct {
	id        string
	last      *scheduler.Listed // of one that the list no longer has
	check     int               // of a check of this wave
	takes     int
	waveNo    int
	floor     int
	number    int
	spent     int
	crashed   int
	cuts      int
	usd       float64
	place     string // where its work is: "", lane, made, check, review
	lane      int    // -1
	account   string
	purpose   scheduler.Purpose
	turn      int
	again     bool
	look      bool
	kept      bool
	approved  bool
	passedOn  int
	stuck     bool // blocked
	asks      bool
	accepted  bool
	unchanged bool
	obeyed    bool // a person's word in the list holds
	byHand    bool // and it was: done
	dropped   bool // ours, and not needed any more
	paths     map[string]bool
	listed    bool // the branch's list says so
	writing   bool
}

func newBooks() *books {
	return &books{notes: map[string]*note{}, until: map[string]time.Time{}, in: map[string]bool{}, seen: map[string]bool{}, seenEnd: map[string]bool{}, known: map[string]bool{}}
}

func (b *books) listed(id string) *scheduler.Listed {
	for i := range b.list {
		if b.list[i].ID == id {
			return &b.list[i]
		}
	}
	return nil
}

// say is what the list says of a task: "", done, aside (also: gone from it).
func (b *books) say(n *note) scheduler.Word {
	if l := b.listed(n.id); l != nil {
		return l.Word
	}
	if n.isOurs() && !n.dropped {
		return ""
	}
	return scheduler.PutAside
}

func (n *note) isOurs() bool { return n.check > 0 || n.takes > 0 }

func (n *note) forget() {
	*n = note{id: n.id, last: n.last, check: n.check, takes: n.takes, waveNo: n.waveNo, floor: n.floor, number: n.number, lane: -1, kept: n.kept, paths: n.paths,
		listed: n.listed, writing: n.writing, obeyed: n.obeyed, byHand: n.byHand, dropped: n.dropped, passedOn: -1}
}

func (b *books) merged(id string) bool {
	return slices.ContainsFunc(b.chain, func(x scheduler.Entry) bool { return x.Task == id })
}

// after brings a person's words into force where nobody works.
func (b *books) after() {
	for _, n := range b.notes {
		if n.place != "" || b.merged(n.id) || n.unchanged {
			continue
		}
		switch w := b.say(n); {
		case w != "":
			b.renumber = b.renumber || !n.obeyed || n.byHand != (w == scheduler.ByHand)
			n.obeyed, n.byHand = true, w == scheduler.ByHand
		case n.obeyed:
			n.obeyed, n.byHand, b.renumber = false, false, true
			n.forget()
		}
	}
}

func (b *books) take(list []scheduler.Listed) {
	for _, n := range b.notes {
		if l := b.listed(n.id); l != nil {
			n.last = l
		}
	}
	b.list = list
	for _, l := range list {
		if b.notes[l.ID] == nil {
			b.notes[l.ID] = &note{id: l.ID, lane: -1, floor: b.committed + 1, passedOn: -1, paths: map[string]bool{}}
		}
	}
	b.renumber = true
}

// number: the depth over the list, and never below the first wave that was open when it came. What is in the trunk
// keeps its own.
func (b *books) number() {
	for _, n := range b.notes {
		n.waveNo = max(n.waveNo, n.floor)
	}
	done := map[string]bool{}
	for again := true; again; {
		again = false
		for id, n := range b.notes {
			l := b.lastListed(n)
			if done[id] || l == nil || slices.ContainsFunc(l.Needs, func(x string) bool { return b.notes[x] != nil && !done[x] }) {
				continue
			}
			done[id], again = true, true
			b.deepen(n, l)
		}
	}
	for id, n := range b.notes { // what stands on a circle has a depth only when a person opened the circle
		done[id] = done[id] || b.is(n) != "open"
	}
	for again := true; again; {
		again = false
		for id, n := range b.notes {
			l := b.lastListed(n)
			if !done[id] && l != nil && !slices.ContainsFunc(l.Needs, func(x string) bool { return b.notes[x] != nil && !done[x] }) {
				done[id], again = true, true
				b.deepen(n, l)
			}
		}
	}
}

func (b *books) deepen(n *note, l *scheduler.Listed) {
	if b.merged(n.id) {
		return
	}
	n.waveNo = n.floor
	for _, x := range l.Needs {
		if b.notes[x] != nil {
			n.waveNo = max(n.waveNo, b.notes[x].waveNo+1)
		}
	}
}

// lastListed is a task as the list has it, or had it.
func (b *books) lastListed(n *note) *scheduler.Listed {
	if l := b.listed(n.id); l != nil {
		return l
	}
	return n.last
}

func (b *books) add(id string, check, takes, wave int) {
	n := b.notes[id]
	if n == nil {
		n = &note{id: id, check: check, takes: takes, lane: -1, passedOn: -1, paths: map[string]bool{}}
		b.notes[id] = n
		b.ours = append(b.ours, id)
	}
	n.dropped, n.waveNo = false, wave
}

// note folds one event.
func (b *books) note(e scheduler.Event) {
	switch e := e.(type) {
	case scheduler.Resumed:
		b.resume(e)
	case scheduler.AttemptStarted:
		n := b.notes[e.Task]
		n.lane, n.account, n.purpose = e.Lane, e.Account, e.Purpose
		if n.place = "lane"; e.Purpose == scheduler.Review {
			n.place = "review"
		} else {
			n.number++
			n.accepted, n.approved, n.passedOn = false, false, -1
		}
		if e.Purpose == scheduler.Work {
			b.attempts++
		}
	case scheduler.AttemptEnded:
		b.agentEnded(b.notes[e.Task], e)
	case scheduler.CheckStarted:
		if b.busy = "check"; e.Purpose == scheduler.OfAttempt {
			b.notes[e.Task].place = "check"
		}
	case scheduler.CheckEnded:
		b.checked(e)
	case scheduler.WaveCheckStarted:
		b.wave = scheduler.WaveCheck{Wave: e.Wave, Tip: e.Tip}
	case scheduler.WaveCheckEnded:
		b.waveChecked(e)
	case scheduler.TakeInStarted:
		b.busy = "take in"
	case scheduler.TakeInEnded:
		switch b.busy = ""; e.Result {
		case scheduler.Passed:
			b.chain = append(slices.Clone(b.chain), scheduler.Entry{Upto: e.Upto})
			b.drop(func(n *note) bool { return n.isOurs() })
		case scheduler.Clashed:
			b.refusedTo = e.Upto
			wave := 0
			for id, n := range b.notes {
				if b.merged(id) && !b.in[id] && n.waveNo < scheduler.EndWave {
					wave = earliest(wave, n.waveNo)
				}
			}
			b.add(fmt.Sprint("take-in-", e.Upto), 0, e.Upto, cmp.Or(wave, b.committed, 1))
		case scheduler.Failed:
			b.refusedTo = e.Upto
		}
	case scheduler.CommitStarted:
		b.busy = "commit"
		for _, n := range b.notes {
			n.writing = b.is(n) == "blocked" || n.unchanged
		}
	case scheduler.Committed:
		switch b.busy = ""; e.Result {
		case scheduler.Passed:
			for _, x := range b.chain[:e.Tip] {
				if x.Task != "" {
					b.in[x.Task] = true
				}
			}
			for _, n := range b.notes {
				n.listed = n.writing
			}
			b.aside = b.aside || e.Aside
			if e.Wave < scheduler.EndWave {
				b.committed = max(b.committed, e.Wave)
			}
		case scheduler.Failed:
			for _, x := range b.chain {
				if !b.in[x.Task] {
					delete(b.seen, x.Task)
				}
			}
		}
	case scheduler.BranchMoved:
		b.moved, b.lost = max(b.moved, e.Upto), b.lost || e.Lost
	case scheduler.ListChanged:
		b.take(e.List)
	case scheduler.LimitsChanged:
		b.limit(e.Limits)
	case scheduler.LaneCame:
		b.lanes = append(slices.Clone(b.lanes), e.Lane)
	case scheduler.LaneGone:
		b.lanes = slices.DeleteFunc(slices.Clone(b.lanes), func(l scheduler.Lane) bool { return l.Number == e.Number })
		for _, n := range b.notes {
			if n.lane == e.Number {
				b.cut(n)
			}
		}
	case scheduler.LimitMet:
		b.until[e.Account] = later(b.until[e.Account], e.Until)
		delete(b.faults, e.Account)
	case scheduler.Pushed:
		b.unpushed = e.Result != scheduler.Passed
	case scheduler.Trouble:
		b.trouble = e
	case scheduler.Requested:
		b.asked(e)
	case scheduler.Rewound:
		b.rewound(e)
	case scheduler.Ended:
		b.ended = true
	}
	if b.after(); b.renumber {
		b.number()
		b.renumber = false
	}
}

func (b *books) asked(e scheduler.Requested) {
	n := b.notes[e.Task]
	switch e.Request {
	case scheduler.Pause:
		b.paused = true
	case scheduler.Go:
		b.paused = false
	case scheduler.Stop:
		b.stopped = true
	case scheduler.StopNow, scheduler.Term:
		b.stopped, b.now, b.term = true, true, b.term || e.Request == scheduler.Term
	case scheduler.Retry:
		if b.is(n) == "blocked" {
			n.forget()
		}
	case scheduler.Accept:
		if b.is(n) == "blocked" && n.kept && b.hasNeeds(n) {
			n.stuck, n.asks, n.accepted, n.approved = false, false, true, false
			b.made(n)
		}
	}
}

func (b *books) made(n *note) {
	b.turns++
	n.place, n.lane, n.turn = "made", -1, b.turns
}

func (b *books) limit(l scheduler.Limits) {
	b.lim = l
	for _, n := range b.notes {
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
	free := false
	switch e.Outcome {
	case scheduler.OutOfQuota:
		b.until[n.account], free = later(b.until[n.account], e.Until), true
		delete(b.faults, n.account)
	case scheduler.Fault:
		b.rest[n.account], free = e.Until, true
		b.faults[n.account]++
	case scheduler.Refused:
		b.refused[n.account], free = true, true
	case scheduler.Clean:
		free = true
	case scheduler.Finished, scheduler.Unchanged, scheduler.Shown, scheduler.GaveUp, scheduler.Asks, scheduler.Approved, scheduler.Rejected:
		delete(b.faults, n.account)
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
	n.lane, n.account, n.purpose = -1, "", ""
	switch o := e.Outcome; {
	case o == scheduler.Finished, o == scheduler.Clean:
		n.cuts, n.look, n.kept = 0, false, true
		b.made(n)
	case o == scheduler.Approved:
		n.cuts, n.approved = 0, true
		b.made(n)
	case o == scheduler.Rejected:
		b.fail(n, failure{n.id, "", false})
	case o == scheduler.Shown:
		n.place, n.unchanged, n.look = "", true, false
	case o == scheduler.Unchanged && p == scheduler.Work && !n.isOurs():
		n.cuts, n.look = 0, true
		b.reopen(n)
	case p == scheduler.Review && free:
		n.place = "review"
	case p == scheduler.Review:
		b.cut(n)
	case o == scheduler.Unchanged:
		n.look = false
		b.fail(n, failure{n.id, e.Signature, true})
	case o == scheduler.Crashed, o == scheduler.Nothing, o == scheduler.TimedOut, o == scheduler.Unstorable:
		n.look = false
		b.fail(n, failure{n.id, e.Signature, o == scheduler.Crashed || o == scheduler.Nothing})
	case free:
		b.reopen(n)
	case o == scheduler.GaveUp, o == scheduler.Asks, o == scheduler.TooLong:
		n.place, n.stuck, n.asks, n.look = "", true, o == scheduler.Asks, false
	default:
		b.cut(n)
	}
}

func (b *books) reopen(n *note) {
	n.place, n.lane, n.again = "", -1, true
	n.stuck = b.usedUp(n)
}

func (b *books) cut(n *note) {
	n.lane, n.account = -1, ""
	if n.cuts++; n.place == "review" && n.cuts < 10 {
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
	b.reopen(n)
}

func (b *books) opens(f failure) {
	if b.open.signature == "" {
		b.open = f
	}
}

func (b *books) checked(e scheduler.CheckEnded) {
	b.busy = ""
	n := b.notes[e.Task]
	switch {
	case e.Purpose == scheduler.Baseline:
		if e.Result == scheduler.Cut {
			return
		}
		if b.baseline = e.Result; b.set.Baseline == "known" {
			for _, k := range e.Known {
				b.known[k] = true
			}
		}
	case e.Purpose == scheduler.Recheck:
		if e.Result != scheduler.Cut {
			if e.Result == scheduler.Failed && e.Signature == b.doubt.signature {
				b.opens(b.doubt)
			}
			b.doubt = failure{}
		}
	case e.Result == scheduler.Cut:
		n.place = "made"
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
	case e.Result == scheduler.Passed:
		b.failures, b.half = nil, failure{}
		switch {
		case !b.reviewed(n) || n.approved && !e.Changed:
			b.merge(n)
		case b.broke(n):
			n.place, n.stuck, n.approved = "", true, false
		default:
			n.place, n.approved, n.passedOn = "review", false, len(b.chain)
		}
	case e.Result == scheduler.Failed:
		if b.fail(n, failure{n.id, e.Signature, false}); b.is(n) == "blocked" && b.set.Breaker > 0 && b.open.signature == "" && e.Signature != "" &&
			!slices.ContainsFunc(b.failures, func(f failure) bool { return f.task != n.id }) {
			b.doubt = failure{n.id, e.Signature, false}
		}
	}
}

func (b *books) reviewed(n *note) bool {
	l := b.lastListed(n)
	return l != nil && len(l.Review) > 0
}

func (b *books) merge(n *note) {
	b.chain = append(slices.Clone(b.chain), scheduler.Entry{Task: n.id})
	n.place = ""
	b.sees(n, len(b.chain))
	if n.takes > 0 {
		b.drop(func(o *note) bool { return o.takes > 0 })
	}
}

// sees: what passed with a CHECK besides shows all up to it.
func (b *books) sees(n *note, tip int) {
	if n.check == 0 {
		return
	}
	for _, x := range b.chain[:tip] {
		b.seen[x.Task], b.seenEnd[x.Task] = true, b.seenEnd[x.Task] || n.check == scheduler.EndWave
	}
	b.redOnce = scheduler.WaveCheck{}
}

func (b *books) drop(which func(*note) bool) {
	for _, n := range b.notes {
		if which(n) && b.is(n) == "blocked" {
			n.dropped = true
		}
	}
	b.after()
}

func (b *books) waveChecked(e scheduler.WaveCheckEnded) {
	b.wave = scheduler.WaveCheck{}
	switch again := b.redOnce == (scheduler.WaveCheck{Wave: e.Wave, Tip: e.Tip}); {
	case e.Result == scheduler.Passed:
		for _, x := range b.chain[:e.Tip] {
			if b.seenEnd[x.Task] = b.seenEnd[x.Task] || e.Wave == scheduler.EndWave; e.Wave < scheduler.EndWave {
				b.seen[x.Task] = true
			}
		}
		b.redOnce = scheduler.WaveCheck{}
	case e.Result == scheduler.Failed && !again:
		b.redOnce = scheduler.WaveCheck{Wave: e.Wave, Tip: e.Tip}
	case e.Result == scheduler.Failed:
		b.redOnce = scheduler.WaveCheck{}
		id := fmt.Sprintf("check-%d-CHECK", e.Wave)
		if e.Wave == scheduler.EndWave {
			id = "check-end-CHECK"
		}
		base := id
		for k := 2; b.merged(id); k++ {
			id = fmt.Sprintf("%s-%d", base, k)
		}
		b.add(id, e.Wave, 0, e.Wave)
	}
}

func (b *books) resume(e scheduler.Resumed) {
	b.set, b.lanes, b.lim = e.Settings, slices.Clone(e.Lanes), e.Limits
	b.paused, b.stopped, b.now, b.term, b.lost, b.trouble, b.ended = false, false, false, false, false, scheduler.Trouble{}, false
	b.unpushed = false
	b.worked, b.busy, b.wave, b.redOnce, b.doubt = false, "", scheduler.WaveCheck{}, scheduler.WaveCheck{}, failure{}
	b.rest, b.faults, b.refused = map[string]time.Time{}, map[string]int{}, map[string]bool{}
	if b.open.signature != "" {
		b.half, b.open, b.failures = b.open, failure{}, nil
	}
	if b.baseline == scheduler.Failed && b.set.Baseline == "require" {
		b.baseline = ""
	}
	was := b.chain
	b.chain, b.moved, b.refusedTo, b.committed, b.aside = slices.Clone(e.Chain), e.Moved, 0, e.Wave, e.Aside
	b.in = map[string]bool{}
	for _, x := range b.chain[:e.In] {
		b.in[x.Task] = x.Task != ""
	}
	b.take(e.List)
	for i, x := range b.chain {
		if n := b.notes[x.Task]; n != nil {
			b.sees(n, i+1)
		}
	}
	kept := map[string]bool{}
	for _, k := range e.Kept {
		if n := b.notes[k.Task]; n.place == "lane" && !b.merged(k.Task) {
			kept[k.Task] = true
			b.usd, n.usd = b.usd+k.USD, n.usd+k.USD
			n.kept, n.look, n.cuts = true, false, 0
			b.made(n)
		}
	}
	for id, n := range b.notes {
		n.listed = slices.Contains(e.Listed, id)
		switch {
		case b.merged(id):
			n.place, n.lane, n.stuck, n.obeyed = "", -1, false, false
		case slices.ContainsFunc(was, func(x scheduler.Entry) bool { return x.Task == id }):
			n.forget()
		case kept[id]:
		case n.place == "check":
			n.place = "made"
		case n.lane >= 0 && slices.Contains(e.Alive, id):
		case n.lane >= 0:
			b.cut(n)
		}
	}
	b.after()
	b.limit(e.Limits)
	b.number()
	if b.upto = 0; b.set.Step {
		b.upto = b.day(time.Time{}).open
	}
}

func (b *books) rewound(e scheduler.Rewound) {
	was := b.chain
	b.chain, b.moved, b.refusedTo, b.committed, b.redOnce = slices.Clone(e.Chain), e.Moved, 0, e.Wave, scheduler.WaveCheck{}
	b.in = map[string]bool{}
	for _, x := range b.chain[:e.In] {
		b.in[x.Task] = x.Task != ""
	}
	for id, n := range b.notes {
		n.passedOn = -1
		if b.merged(id) {
			continue
		}
		delete(b.seen, id)
		delete(b.seenEnd, id)
		n.dropped = n.isOurs()
		if slices.ContainsFunc(was, func(x scheduler.Entry) bool { return x.Task == id }) || slices.Contains(e.Open, id) && !n.obeyed {
			n.forget()
		}
	}
	b.renumber = true
}

// is says how a task stands: "in", "merged", "work", "blocked", "done", "aside", "held", "open".
func (b *books) is(n *note) string {
	switch {
	case b.in[n.id]:
		return "in"
	case b.merged(n.id):
		return "merged"
	case n.unchanged:
		return "done"
	case n.place != "":
		return "work"
	case b.say(n) != "":
		return string(b.say(n))
	case n.stuck:
		return "blocked"
	}
	return "open"
}

func (b *books) needs(n *note) []string {
	if l := b.lastListed(n); l != nil && !n.isOurs() {
		return l.Needs
	}
	return nil
}

func (b *books) hasNeeds(n *note) bool {
	for _, x := range b.needs(n) {
		if o := b.notes[x]; o == nil || !b.merged(x) && b.is(o) != "done" {
			return false
		}
	}
	return !b.held(n, 0)
}

// held reports whether an open task waits for what does not come by itself, or for itself.
func (b *books) held(n *note, depth int) bool {
	if b.is(n) != "open" {
		return false
	}
	return depth > len(b.notes) || slices.ContainsFunc(b.needs(n), func(x string) bool {
		o := b.notes[x]
		return o == nil || b.is(o) == "blocked" || b.is(o) == "aside" || b.held(o, depth+1)
	})
}

// lost reports whether a task needs what there is not, or itself, through others too.
func (b *books) circular(n *note, depth int) bool {
	return b.is(n) == "open" && (depth > len(b.notes) || slices.ContainsFunc(b.needs(n), func(x string) bool {
		return b.notes[x] == nil || b.circular(b.notes[x], depth+1)
	}))
}

// day is what follows from the books at one moment, worked out once.
type day struct {
	is    map[string]string
	held  map[string]bool
	open  int // the first wave of which more comes
	going int // the first that is not whole in the branch
	taken int
	keys  map[string][4]float64
	halt  bool
	out   bool // on-limit stop
}

func (b *books) day(now time.Time) *day {
	d := &day{is: map[string]string{}, held: map[string]bool{}, open: math.MaxInt, going: math.MaxInt, keys: map[string][4]float64{}}
	for id, n := range b.notes {
		d.is[id], d.held[id] = b.is(n), b.held(n, 0)
	}
	for id, n := range b.notes {
		switch is := d.is[id]; {
		case is == "open" && d.held[id]:
		case is == "open", is == "work":
			d.open, d.going = min(d.open, n.waveNo), min(d.going, n.waveNo)
		case is == "merged":
			d.going = min(d.going, n.waveNo)
		}
	}
	for _, x := range b.chain {
		d.taken = max(d.taken, x.Upto)
		if n := b.notes[x.Task]; n != nil {
			d.taken = max(d.taken, n.takes)
		}
	}
	d.out = false
	for id, n := range b.notes {
		if d.is[id] == "open" && !d.held[id] && (b.set.Only == "" || b.set.Only == id || n.isOurs()) || n.place == "review" {
			if a, at, resting := b.account(n, now); a == "" && !at.IsZero() && !resting {
				d.out = true
			}
		}
	}
	d.halt = b.halted(now) || b.lim.OnLimitStop && d.out
	untried := map[int]bool{}
	for id, n := range b.notes {
		untried[n.waveNo] = untried[n.waveNo] || d.is[id] == "open" && n.number == 0 && !d.held[id]
	}
	var urgent func(id string) (float64, float64)
	seen := map[string][2]float64{}
	urgent = func(id string) (rank, hours float64) {
		if v, ok := seen[id]; ok {
			return v[0], v[1]
		}
		n := b.notes[id]
		seen[id] = [2]float64{0, 0}
		rank, own := 0.0, 1.0
		if l := b.lastListed(n); l != nil {
			rank, own = float64(l.Rank), cmp.Or(l.Hours, 1)
		}
		hours = own
		for other, o := range b.notes {
			if d.is[other] == "open" && !d.held[other] && slices.Contains(b.needs(o), id) {
				r, h := urgent(other)
				rank, hours = min(rank, r), max(hours, own+h)
			}
		}
		seen[id] = [2]float64{rank, hours}
		return rank, hours
	}
	for id, n := range b.notes {
		if d.is[id] != "open" && n.place != "review" || d.held[id] {
			continue
		}
		rank, hours := urgent(id)
		k := [4]float64{3, rank, -hours, float64(slices.IndexFunc(b.list, func(l scheduler.Listed) bool { return l.ID == id }))}
		if k[3] < 0 { // the list no longer has it, and its review goes on
			k[3] = 99
		}
		switch {
		case n.place == "review":
			k[0] = 0
		case n.isOurs():
			k[0], k[3] = 1, float64(100+slices.Index(b.ours, id))
		case !b.worked && n.crashed > 0 && untried[n.waveNo]:
			k[0] = 4
		case n.again:
			k[0] = 2
		}
		if len(b.lanes) == 1 {
			k[2] = 0
		}
		d.keys[id] = k
	}
	return d
}

// halted: nobody's agent starts.
func (b *books) halted(now time.Time) bool {
	blockedCheck := false
	for _, n := range b.notes {
		blockedCheck = blockedCheck || n.check > 0 && b.is(n) == "blocked"
	}
	return b.trouble.Code > 0 || b.stopped || b.paused || b.lost || b.open.signature != "" || blockedCheck || b.late(now) || b.lim.USD > 0 && b.usd >= b.lim.USD ||
		b.baseline == scheduler.Failed && b.set.Baseline == "require"
}

func (b *books) late(now time.Time) bool {
	return !b.lim.Deadline.IsZero() && !now.Before(b.lim.Deadline)
}

// quiet: no check starts but those of attempts.
func (b *books) quiet(now time.Time) bool {
	return b.trouble.Code > 0 || b.stopped || b.paused || b.lost || b.late(now)
}

// account is whose turn it is for a task, or when there will be one, and whether that is only a rest.
func (b *books) account(n *note, now time.Time) (account string, at time.Time, resting bool) {
	var list []string
	switch l := b.lastListed(n); {
	case n.isOurs():
		list = b.set.Accounts
	case n.place == "review":
		list = l.Review
	default:
		list = l.Accounts
	}
	for _, a := range list {
		switch {
		case b.refused[a] || b.faults[a] > 3:
		case b.until[a].After(now):
			if at.IsZero() || b.until[a].Before(at) {
				at = b.until[a]
			}
		case b.rest[a].After(now):
			if at.IsZero() || b.rest[a].Before(at) {
				at = b.rest[a]
			}
			return "", at, true
		default:
			return a, at, false
		}
	}
	return "", at, false
}

// mayStart is why a task may not start now, lanes, accounts and limits aside; "" if it may.
func (b *books) mayStart(n *note, d *day) string {
	switch {
	case n.place == "review" && n.lane < 0:
		return ""
	case d.is[n.id] != "open":
		return "it is " + d.is[n.id] + " " + n.place
	case n.place != "":
		return "it is in " + n.place
	case d.held[n.id] || !b.hasNeeds(n):
		return "it lacks what it needs"
	case b.moved > max(d.taken, b.refusedTo) && !b.takingOpen(d), b.busy == "take in":
		return "the branch has new commits"
	case b.upto > 0 && n.waveNo > b.upto && !n.isOurs():
		return "it is of a later step"
	case b.set.Only != "" && b.set.Only != n.id && !n.isOurs():
		return "the step is for another task"
	case b.set.Baseline != "" && b.set.Baseline != "off" && b.baseline == "":
		return "the baseline is not known"
	case (len(b.lanes) == 1 || b.set.Barrier || b.set.Step) && n.waveNo > d.going && !n.isOurs():
		return "a wave before it is not in the branch"
	}
	for _, o := range b.notes {
		if o == n || o.place == "" {
			continue
		}
		if len(b.lanes) == 1 && o.place != "lane" {
			return "with one lane, and " + o.id + " is not merged yet"
		}
		for p := range n.paths {
			if o.paths[p] {
				return "it clashed with " + o.id + " at " + p
			}
		}
		if l, ol := b.lastListed(n), b.lastListed(o); b.set.RespectScope && l != nil && ol != nil &&
			slices.ContainsFunc(l.Scope, func(p string) bool { return slices.Contains(ol.Scope, p) }) {
			return "its files are those of " + o.id
		}
	}
	return ""
}

func (b *books) takingOpen(d *day) bool {
	for id, n := range b.notes {
		if n.takes > 0 && (d.is[id] == "open" || d.is[id] == "work") {
			return true
		}
	}
	return false
}

// purposeOf is what an agent would be for.
func (n *note) purposeOf() scheduler.Purpose {
	switch {
	case n.place == "review":
		return scheduler.Review
	case n.look:
		return scheduler.SecondLook
	}
	return scheduler.Work
}

// fits reports whether a task may start in a lane now, all told.
func (b *books) fits(n *note, l scheduler.Lane, d *day, now time.Time) bool {
	if d.halt || b.mayStart(n, d) != "" || b.beyond(n) {
		return false
	}
	if a, _, _ := b.account(n, now); a == "" {
		return false
	}
	listed := b.lastListed(n)
	return listed == nil || n.place == "review" || !slices.ContainsFunc(listed.Labels, func(x string) bool { return !slices.Contains(l.Labels, x) })
}

// beyond: the total, and the wave of a step, forbid it.
func (b *books) beyond(n *note) bool {
	return n.purposeOf() == scheduler.Work && b.attempts >= b.lim.Total
}

func (b *books) freeLanes() (free []scheduler.Lane) {
	for _, l := range b.lanes {
		used := false
		for _, n := range b.notes {
			used = used || n.lane == l.Number
		}
		if !used {
			free = append(free, l)
		}
	}
	return free
}

func (b *books) atWork() bool {
	for _, n := range b.notes {
		if n.lane >= 0 {
			return true
		}
	}
	return b.busy != "" || b.wave != (scheduler.WaveCheck{})
}

// waits is the first time at which an account can be used that somebody waits for. With nothing at work a wait has
// bounds.
func (b *books) waits(d *day, now time.Time) (first time.Time) {
	for _, n := range b.notes {
		if d.halt || b.mayStart(n, d) != "" || b.beyond(n) {
			continue
		}
		a, at, _ := b.account(n, now)
		tooLong := b.lim.MaxWait > 0 && at.Sub(now) > b.lim.MaxWait || !b.lim.Deadline.IsZero() && !at.Before(b.lim.Deadline)
		if a == "" && !at.IsZero() && (b.atWork() || !tooLong) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

func (b *books) takeDue(d *day) bool {
	return b.moved > max(d.taken, b.refusedTo) && !b.takingOpen(d) && !b.now
}

// commitDue is the commit that has to be made now; a zero wave: none. last: nothing else is to be done.
func (b *books) commitDue(d *day, last bool) (c scheduler.Commit) {
	switch {
	case b.aside || d.taken == b.moved:
	case b.takingOpen(d) || b.refusedTo < b.moved:
		return scheduler.Commit{}
	default:
		c.Aside = true
	}
	gate := b.set.WaveChecks && !b.eachTask()
	due, list, waits := false, 0, false
	for i, x := range b.chain {
		n := b.notes[x.Task]
		if n == nil || b.in[x.Task] {
			continue
		}
		waits = waits || n.waveNo < d.open
		if gate && !b.seen[x.Task] {
			continue
		}
		c.Wave, c.Tip = earliest(c.Wave, n.waveNo), i+1
		due = due || gate || last || b.eachTask() || n.waveNo < d.open
	}
	for id, n := range b.notes {
		if (d.is[id] == "blocked" || n.unchanged && d.is[id] == "done") && !n.listed && (last || n.waveNo < d.open) {
			list = earliest(list, n.waveNo)
		}
	}
	switch {
	case due:
		for c.Tip < len(b.chain) && (!gate || b.chain[c.Tip].Task == "") { // what is the branch's own comes with it
			c.Tip++
		}
	case list > 0 && (last || !waits):
		c.Wave, c.Tip = list, 0
		for c.Tip < len(b.chain) && (b.chain[c.Tip].Task == "" || b.in[b.chain[c.Tip].Task]) {
			c.Tip++
		}
	default:
		return scheduler.Commit{}
	}
	c.Continued = c.Wave <= b.committed
	return c
}

// waveDue is the wave whose checks have to be started; 0: none.
func (b *books) waveDue(d *day, now time.Time) (wave, tip int) {
	if b.quiet(now) || b.wave != (scheduler.WaveCheck{}) {
		return 0, 0
	}
	if b.redOnce != (scheduler.WaveCheck{}) {
		return b.redOnce.Wave, b.redOnce.Tip
	}
	loose := false
	ended := true
	for i, x := range b.chain {
		n := b.notes[x.Task]
		if n == nil {
			continue
		}
		loose = loose || !b.in[x.Task]
		ended = ended && b.seenEnd[x.Task]
		if b.set.WaveChecks && !b.seen[x.Task] && n.waveNo < d.open && n.waveNo < scheduler.EndWave && i >= 0 {
			wave = earliest(wave, n.waveNo)
		}
	}
	if wave == 0 && b.set.EndCheck && d.open > scheduler.EndWave && !loose && !ended {
		wave = scheduler.EndWave
	}
	for id, n := range b.notes {
		if n.check == wave && d.is[id] == "blocked" {
			return 0, 0
		}
	}
	return wave, len(b.chain)
}

// checkDue is the attempt whose commit is to be checked next.
func (b *books) checkDue() (next *note) {
	for _, n := range b.notes {
		if n.place == "made" && (next == nil || n.approved && !next.approved || n.approved == next.approved && n.turn < next.turn) {
			next = n
		}
	}
	return next
}

// code is what the run has to end with, step aside.
func (b *books) code(d *day, now time.Time) int {
	left, blocked, crashed, asks := false, 0, 0, 0
	quota, agent, total := false, false, false
	for id, n := range b.notes {
		if !n.isOurs() && (b.upto > 0 && n.waveNo > b.upto || b.set.Only != "" && b.set.Only != id) {
			continue
		}
		switch is := d.is[id]; {
		case is == "blocked" && n.asks:
			asks++
		case is == "blocked":
			if blocked++; n.crashed > 0 && n.crashed == n.spent {
				crashed++
			}
		case is == "open" && d.held[id]:
			if b.circular(n, 0) {
				blocked++
			}
		case is == "open" || is == "work" || is == "merged":
			left = true
			if d.halt || b.mayStart(n, d) != "" {
				continue
			}
			a, at, _ := b.account(n, now)
			switch {
			case b.beyond(n):
				total = true
			case a == "" && !at.IsZero():
				quota = true
			default:
				agent = true
			}
		}
	}
	switch {
	case b.trouble.Code > 0:
		return b.trouble.Code
	case b.baseline == scheduler.Failed && b.set.Baseline == "require":
		return 2
	case left && b.stopped && b.term:
		return 143
	case left && b.stopped:
		return 130
	case b.aside, b.unpushed:
		return 5
	case quota || left && b.lim.OnLimitStop && d.out:
		return 75
	case agent || blocked > 0 && blocked == crashed:
		return 4
	case blocked > 0:
		return 3
	case total, left && (b.late(now) || b.lim.USD > 0 && b.usd >= b.lim.USD):
		return 6
	case left && (b.paused || b.lost || b.open.signature != ""), asks > 0:
		return 7
	case left:
		return 1
	}
	return 0
}

func (b *books) String() string {
	s := ""
	for _, id := range slices.Sorted(maps.Keys(b.notes)) {
		s += fmt.Sprintf("   %s %+v\n", b.is(b.notes[id]), *b.notes[id])
	}
	return s
}

// earliest is the lower of two wave numbers, of which 0 is none.
func earliest(a, b int) int {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// eachTask: every merge is committed at once.
func (b *books) eachTask() bool { return b.set.PerTask || b.set.Only != "" }
