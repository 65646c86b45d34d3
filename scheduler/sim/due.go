package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"descartes/scheduler"
)

// is says how a task stands: "in", "merged", "work", "blocked", "done", "aside", "held", "open".
func (b *books) is(n *note) string {
	switch {
	case b.in[n.id]:
		return "in"
	case b.merged(n.id):
		return "merged"
	case n.unchanged:
		return "done"
	case n.work != "":
		return "work"
	case n.say() == scheduler.ByHand, n.say() == scheduler.PutAside:
		return string(n.say())
	case n.stuck:
		return "blocked"
	}
	return "open"
}

func (n *note) needs() []string {
	if n.last != nil && !n.isOurs() {
		return n.last.Needs
	}
	return nil
}

func (b *books) hasNeeds(n *note) bool { return b.hasAll(n) && !b.held(n, 0) }

// hasAll reports whether the trunk has all that a task needs.
func (b *books) hasAll(n *note) bool {
	for _, x := range n.needs() {
		if o := b.notes[x]; o == nil || !b.merged(x) && b.is(o) != "done" {
			return false
		}
	}
	return true
}

// held reports whether an open task waits for what does not come by itself, or for itself.
func (b *books) held(n *note, depth int) bool {
	if b.is(n) != "open" {
		return false
	}
	return depth > len(b.notes) || slices.ContainsFunc(n.needs(), func(x string) bool {
		o := b.notes[x]
		return o == nil || b.is(o) == "blocked" || b.is(o) == "aside" || b.held(o, depth+1)
	})
}

// circular reports whether a task needs what there is not, or itself, through others too.
func (b *books) circular(n *note, depth int) bool {
	return b.is(n) == "open" && (depth > len(b.notes) || slices.ContainsFunc(n.needs(), func(x string) bool {
		return b.notes[x] == nil || b.circular(b.notes[x], depth+1)
	}))
}

// key orders tasks: turn, rank, hours of work behind it, place in the list.
type key [4]float64

// day is what follows from the books at one moment, worked out once. Slices go by the notes' places.
type day struct {
	now     time.Time
	version int
	is      []string
	held    []bool
	open    int // the first wave of which more comes
	going   int // the first that is not whole in the branch
	taken   int
	taking  bool // a task takes in what clashes
	keys    []key
	halt    bool
	out     bool // on-limit stop
}

func (b *books) day(now time.Time) *day {
	if d := b.today; d != nil && d.version == b.version && d.now.Equal(now) {
		return d
	}
	d := &day{now: now, version: b.version, is: make([]string, len(b.all)), held: make([]bool, len(b.all)),
		open: math.MaxInt, going: math.MaxInt}
	b.today = d
	for i, n := range b.all {
		d.is[i] = b.is(n)
	}
	b.holds(d)
	for i, n := range b.all {
		switch is := d.is[i]; {
		case is == "open" && d.held[i]:
		case is == "open", is == "work":
			d.open, d.going = min(d.open, n.waveNo), min(d.going, n.waveNo)
			d.taking = d.taking || n.takes != ""
		case is == "merged":
			d.going = min(d.going, n.waveNo)
		}
	}
	for _, x := range b.chain {
		if x.Commit != "" {
			d.taken = max(d.taken, b.branchAt(x.Commit))
		} else if n := b.notes[x.Task]; n != nil && n.takes != "" {
			d.taken = max(d.taken, b.branchAt(n.takes))
		}
	}
	for i, n := range b.all {
		if d.is[i] == "open" && !d.held[i] && (b.set.Only == "" || b.set.Only == n.id || n.isOurs()) || n.work == "review" {
			d.out = d.out || b.quota(n, now).isOut()
		}
	}
	d.halt = b.halted(now) || b.lim.OnLimitStop && d.out
	if d.halt || len(b.freeLanes()) == 0 {
		return d // nobody asks who comes first
	}
	b.order(d)
	return d
}

// holds works out who waits for what does not come by itself.
func (b *books) holds(d *day) {
	const unknown, working, no, yes = 0, 1, 2, 3
	known := make([]int8, len(b.all))
	var held func(n *note) bool
	held = func(n *note) bool {
		switch {
		case d.is[n.at] != "open" || known[n.at] == no:
			return false
		case known[n.at] == working || known[n.at] == yes: // working: it waits for itself
			return true
		}
		known[n.at] = working
		for _, x := range n.needs() {
			if o := b.notes[x]; o == nil || d.is[o.at] == "blocked" || d.is[o.at] == "aside" || held(o) {
				known[n.at] = yes
				return true
			}
		}
		known[n.at] = no
		return false
	}
	for i, n := range b.all {
		d.held[i] = held(n)
	}
}

// order gives those that could have an agent their keys.
func (b *books) order(d *day) {
	untried := map[int]bool{}
	behind := make([][]*note, len(b.all))
	for i, n := range b.all {
		if d.is[i] == "open" && !d.held[i] {
			untried[n.waveNo] = untried[n.waveNo] || n.number == 0
			for _, x := range n.needs() {
				behind[b.notes[x].at] = append(behind[b.notes[x].at], n)
			}
		}
	}
	known := make([]bool, len(b.all))
	ranks, hours := make([]float64, len(b.all)), make([]float64, len(b.all))
	var urgent func(n *note)
	urgent = func(n *note) {
		if known[n.at] {
			return
		}
		known[n.at] = true
		own := 1.0
		if n.last != nil {
			ranks[n.at], own = float64(n.last.Rank), cmp.Or(n.last.Hours, 1)
		}
		hours[n.at] = own
		for _, o := range behind[n.at] {
			urgent(o)
			ranks[n.at], hours[n.at] = min(ranks[n.at], ranks[o.at]), max(hours[n.at], own+hours[o.at])
		}
	}
	d.keys = make([]key, len(b.all))
	for i, n := range b.all {
		if d.is[i] != "open" && n.work != "review" || d.held[i] {
			continue
		}
		urgent(n)
		k := key{3, ranks[i], -hours[i], float64(n.row)}
		if n.now == nil { // the list no longer has it, and its review goes on
			k[3] = 99
		}
		switch {
		case n.work == "review":
			k[0] = 0
		case n.isOurs():
			k[0], k[3] = 1, float64(100+n.ours)
		case !b.worked && n.crashed > 0 && untried[n.waveNo]:
			k[0] = 4
		case n.again:
			k[0] = 2
		}
		if len(b.lanes) == 1 {
			k[2] = 0
		}
		d.keys[i] = k
	}
}

// halted: nobody's agent starts.
func (b *books) halted(now time.Time) bool {
	blockedCheck := false
	for _, n := range b.all {
		blockedCheck = blockedCheck || n.check != "" && b.is(n) == "blocked"
	}
	return b.trouble.Code > 0 || b.stopped || b.paused || len(b.lost) > 0 || b.open.signature != "" || blockedCheck ||
		b.late(now) || b.lim.USD > 0 && b.usd >= b.lim.USD || b.baseline == scheduler.Failed && b.set.Baseline == "require"
}

func (b *books) late(now time.Time) bool {
	return !b.lim.Deadline.IsZero() && !now.Before(b.lim.Deadline)
}

// quiet: no check starts but those of attempts.
func (b *books) quiet(now time.Time) bool {
	return b.trouble.Code > 0 || b.stopped || b.paused || len(b.lost) > 0 || b.late(now)
}

// account is whose turn it is for a task on a worker's machine, or when there will be one, and whether that is only a
// rest.
func (b *books) account(n *note, worker string, now time.Time) (account string, at time.Time, resting bool) {
	var list []string
	switch {
	case n.isOurs():
		list = b.set.Accounts
	case n.work == "review":
		list = n.last.Review
	default:
		list = n.last.Accounts
	}
	for _, a := range list {
		if b.set.OtherReviewer && n.work == "review" && a == n.maker {
			continue
		}
		login := a
		if worker != "" {
			login += "@" + worker
		}
		switch {
		case b.refused[login] || b.faults[login] > 3:
		case b.until[login].After(now):
			if at.IsZero() || b.until[login].Before(at) {
				at = b.until[login]
			}
		case b.rest[login].After(now):
			if at.IsZero() || b.rest[login].Before(at) {
				at = b.rest[login]
			}
			return "", at, true
		default:
			return a, time.Time{}, false
		}
	}
	return "", at, false
}

// quota is how it stands with the accounts of a task, in the lanes that it could have.
type quota struct {
	can, resting bool
	at           time.Time // the first at which one comes back
}

func (q quota) isOut() bool { return !q.can && !q.at.IsZero() && !q.resting }

func (b *books) quota(n *note, now time.Time) (q quota) {
	for _, l := range b.lanes {
		if !n.suits(l) {
			continue
		}
		a, at, resting := b.account(n, l.Worker, now)
		q.can, q.resting = q.can || a != "", q.resting || resting
		if a == "" && !at.IsZero() && (q.at.IsZero() || at.Before(q.at)) {
			q.at = at
		}
	}
	return q
}

// suits reports whether a lane has the labels that a task wants. A review wants none.
func (n *note) suits(l scheduler.Lane) bool {
	if n.last == nil || n.work == "review" {
		return true
	}
	for _, x := range n.last.Labels {
		if !slices.Contains(l.Labels, x) {
			return false
		}
	}
	return true
}

// mayStart is why a task may not start now, lanes, accounts and limits aside; "" if it may.
func (b *books) mayStart(n *note, d *day) string {
	switch {
	case n.work == "review" && n.lane < 0:
		return ""
	case d.is[n.at] != "open":
		return "it is " + d.is[n.at] + " " + n.work
	case d.held[n.at] || !b.hasAll(n):
		return "it lacks what it needs"
	case len(b.branch) > max(d.taken, b.refusedTo) && !d.taking, b.busy == "take in":
		return "the branch has new commits"
	case b.upto > 0 && n.waveNo > b.upto && !n.isOurs():
		return "it is of a later step"
	case b.set.Only != "" && b.set.Only != n.id && !n.isOurs():
		return "the step is for another task"
	case b.wantsBaseline():
		return "the baseline is not known"
	case (len(b.lanes) == 1 || b.set.Barrier || b.set.Step) && b.set.Only == "" && n.waveNo > d.going && !n.isOurs():
		return "a wave before it is not in the branch"
	}
	if len(b.lanes) == 1 && b.doubt.task != "" {
		return "with one lane, and the tip may be at fault"
	}
	for _, o := range b.all {
		if o == n || o.work == "" {
			continue
		}
		if len(b.lanes) == 1 && o.work != "lane" {
			return "with one lane, and " + o.id + " is not merged yet"
		}
		for p := range n.paths {
			if o.paths[p] {
				return "it clashed with " + o.id + " at " + p
			}
		}
		if b.set.RespectScope && n.last != nil && o.last != nil &&
			slices.ContainsFunc(n.last.Scope, func(p string) bool { return slices.ContainsFunc(o.last.Scope, haveOne(p)) }) {
			return "its files are those of " + o.id
		}
	}
	return ""
}

// haveOne: a path may have the same file as p, which is a folder where it is the other's.
func haveOne(p string) func(string) bool {
	return func(o string) bool { return o == p || strings.HasPrefix(o, p+"/") || strings.HasPrefix(p, o+"/") }
}

func (b *books) wantsBaseline() bool {
	return b.set.Baseline != "" && b.set.Baseline != "off" && b.baseline == ""
}

// purposeOf is what an agent would be for.
func (n *note) purposeOf() scheduler.Purpose {
	switch {
	case n.work == "review":
		return scheduler.Review
	case n.look:
		return scheduler.SecondLook
	}
	return scheduler.Work
}

// fits reports whether a task may start in a lane now, all told.
func (b *books) fits(n *note, l scheduler.Lane, d *day) bool {
	if d.halt || len(b.gone) > 0 || n.lane >= 0 || b.mayStart(n, d) != "" || b.beyond(n) || !n.suits(l) {
		return false
	}
	a, _, _ := b.account(n, l.Worker, d.now)
	return a != ""
}

// beyond: the total forbids it.
func (b *books) beyond(n *note) bool {
	return n.purposeOf() == scheduler.Work && b.attempts >= b.lim.Total
}

func (b *books) freeLanes() (free []scheduler.Lane) {
	for _, l := range b.lanes {
		if !slices.ContainsFunc(b.all, func(n *note) bool { return n.lane == l.Number }) {
			free = append(free, l)
		}
	}
	return free
}

func (b *books) atWork() bool {
	return b.busy != "" || b.wave != nil || slices.ContainsFunc(b.all, func(n *note) bool { return n.lane >= 0 })
}

// waits is the first time at which an account can be used that somebody waits for. With nothing at work a wait has
// bounds.
func (b *books) waits(d *day) (first time.Time) {
	if d.halt || len(b.gone) > 0 {
		return first
	}
	for _, n := range b.all {
		if b.mayStart(n, d) != "" || b.beyond(n) {
			continue
		}
		at := b.quota(n, d.now).at
		tooLong := b.lim.MaxWait > 0 && (at.Sub(d.now) > b.lim.MaxWait ||
			!b.row.IsZero() && at.Sub(b.row) > b.lim.MaxWait) || b.late(at)
		if !at.IsZero() && (b.atWork() || !tooLong) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

func (b *books) takeDue(d *day) bool {
	return len(b.branch) > max(d.taken, b.refusedTo) && !d.taking && !b.now
}

// atTrunk is the one action that has to be started there; nil: none.
func (b *books) atTrunk(d *day) scheduler.Action {
	switch {
	case len(b.gone) > 0:
		if b.atWork() {
			return nil
		}
		return b.cutDue()
	case len(b.lost) > 0, b.busy != "" && b.busy != "check", b.busy == "check" && b.checksAtWork() >= b.trees():
		return nil
	case b.takeDue(d):
		return b.whenFree(scheduler.TakeIn{Commit: b.branch[len(b.branch)-1]})
	}
	if c := b.commitDue(d, false); c.Wave > 0 {
		return b.whenFree(c)
	}
	if b.now {
		return nil
	}
	return b.checkDue(d)
}

func (b *books) whenFree(a scheduler.Action) scheduler.Action {
	if b.busy != "" {
		return nil
	}
	return a
}

// cutDue: the branch lost commits of ours, and a person resumed. What was made on them is made again.
func (b *books) cutDue() scheduler.CutTrunk {
	isGone := func(x scheduler.Entry) bool { return slices.Contains(b.gone, x.Task) }
	c := scheduler.CutTrunk{Tip: slices.IndexFunc(b.chain, isGone)}
	for _, n := range b.byList() {
		if (n.work == "made" || n.work == "review") && n.from > c.Tip {
			c.Open = append(c.Open, n.id)
		}
	}
	return c
}

func (b *books) checksAtWork() (n int) {
	for _, c := range b.checks {
		if c.said == nil {
			n++
		}
	}
	return n
}

// trees is how many checks there may be at a time.
func (b *books) trees() int {
	workers := map[string]bool{}
	for _, l := range b.lanes {
		if l.Checks && l.Worker != "" {
			workers[l.Worker] = true
		}
	}
	return max(b.set.ChecksAtOnce, len(workers), 1)
}

// checkDue is the check that has to be started next, a tree for it being there.
func (b *books) checkDue(d *day) scheduler.Action {
	for _, c := range b.checks {
		if c.said == nil && (c.task == "" || b.notes[c.task].accepted) {
			return nil // beside these there is no other
		}
	}
	known := slices.Sorted(maps.Keys(b.known))
	if b.wantsBaseline() && d.open <= scheduler.EndWave && !b.quiet(d.now) {
		return b.whenFree(scheduler.Check{Purpose: scheduler.Baseline, Known: known})
	}
	if b.doubt.task != "" && !b.quiet(d.now) {
		return b.whenFree(scheduler.Check{Purpose: scheduler.Recheck, Task: b.doubt.task, Known: known})
	}
	if len(b.line) > 0 && b.notes[b.line[0]].work == "made" {
		return scheduler.Check{Purpose: scheduler.OfAttempt, Task: b.line[0], Checked: true, Known: known}
	}
	var next *note
	for _, n := range b.all {
		if n.work == "made" && !slices.Contains(b.line, n.id) && (next == nil ||
			n.approved && !next.approved || n.approved == next.approved && n.turn < next.turn) {
			next = n
		}
	}
	if next == nil {
		return nil
	}
	c := scheduler.Check{Purpose: scheduler.OfAttempt, Task: next.id, On: b.line, Known: known}
	switch {
	case next.accepted:
		return b.whenFree(c)
	case next.passedOn != nil && slices.Equal(next.passedOn, b.over(b.line)):
		if len(b.line) > 0 {
			return nil
		}
		c.Checked = true
	case b.reviewed(next) && next.approved:
		c.Review = scheduler.IfChanged
	case b.reviewed(next):
		c.Review = scheduler.Always
	}
	return c
}

// commitDue is the commit that has to be made now; a zero wave: none. last: nothing else is to be done.
func (b *books) commitDue(d *day, last bool) (c scheduler.Commit) {
	switch {
	case len(b.lost) > 0, b.noCommits, b.cutCommit:
		return scheduler.Commit{}
	case b.aside || d.taken == len(b.branch):
	case d.taking || b.refusedTo < len(b.branch):
		return scheduler.Commit{}
	default:
		c.Aside = true
	}
	gate := len(b.set.WaveChecks) > 0 && !b.eachTask()
	unseen := func(id string) bool {
		return gate && slices.ContainsFunc(b.set.WaveChecks, func(name string) bool { return !b.seen[name][id] })
	}
	due, list, waits := false, 0, false
	for i, x := range b.chain {
		n := b.notes[x.Task]
		if n == nil || b.in[x.Task] {
			continue
		}
		waits = waits || n.waveNo < d.open
		if unseen(x.Task) {
			continue
		}
		c.Wave, c.Tip = earliest(c.Wave, n.waveNo), i+1
		due = due || gate || last || b.eachTask() || n.waveNo < d.open
	}
	for i, n := range b.all {
		if (d.is[i] == "blocked" && n.listed != "blocked" || n.unchanged && d.is[i] == "done" && n.listed != "done") && (last || n.waveNo < d.open) {
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

// waveDue are the checks of a wave that have to be started; none: nil.
func (b *books) waveDue(d *day) *scheduler.WaveCheck {
	if b.quiet(d.now) || b.wave != nil || len(b.gone) > 0 || b.takeDue(d) || b.busy == "take in" {
		return nil
	}
	if b.redOnce != nil {
		return b.redOnce
	}
	c := &scheduler.WaveCheck{Tip: len(b.chain)}
	loose := false
	for _, x := range b.chain {
		loose = loose || x.Task != "" && !b.in[x.Task]
	}
	of := func(n *note) int {
		if n.waveNo == scheduler.EndWave { // in no wave: what is committed last is the nearest
			return max(1, b.committed)
		}
		return n.waveNo
	}
	unseen := func(name string, which func(*note) bool) (wave int) {
		for _, x := range b.chain {
			if n := b.notes[x.Task]; n != nil && !b.seen[name][x.Task] && which(n) {
				wave = earliest(wave, of(n))
			}
		}
		return wave
	}
	for _, name := range b.set.WaveChecks {
		w := unseen(name, func(n *note) bool { return n.waveNo < d.open })
		if w > 0 {
			c.Wave, c.Checks = earliest(c.Wave, w), append(c.Checks, name)
		}
	}
	if c.Wave == 0 && d.open > scheduler.EndWave && !loose {
		for _, name := range b.set.EndChecks {
			if unseen(name, func(*note) bool { return true }) > 0 || b.owed[name] {
				c.Wave, c.Checks = scheduler.EndWave, append(c.Checks, name)
			}
		}
	}
	for i, n := range b.all {
		if n.check != "" && n.waveNo == c.Wave && d.is[i] == "blocked" {
			return nil
		}
	}
	if c.Wave == 0 {
		return nil
	}
	return c
}

// remains is what there is still at an end, and what keeps it from coming.
type remains struct {
	left, quota, agent, total bool
	blocked, crashed, asks    int
}

func (b *books) remains(d *day) (r remains) {
	var review *note // of another wave than the step's, which keeps the step's from starting
	why := func(n *note) {
		if d.halt {
			return
		}
		q := b.quota(n, d.now)
		switch {
		case b.beyond(n):
			r.total = true
		case !q.can && !q.at.IsZero():
			r.quota = true
		default:
			r.agent = true
		}
	}
	for i, n := range b.all {
		if b.upto > 0 && n.waveNo > b.upto && (!n.isOurs() || d.is[i] == "merged") ||
			!n.isOurs() && b.set.Only != "" && b.set.Only != n.id {
			if d.is[i] == "work" && n.work == "review" && n.lane < 0 {
				review = n
			}
			continue
		}
		switch is := d.is[i]; {
		case is == "blocked" && n.asks:
			r.asks++
		case is == "blocked":
			if r.blocked++; n.crashed > 0 && n.crashed == n.spent {
				r.crashed++
			}
		case is == "open" && d.held[i]:
			if b.circular(n, 0) {
				r.blocked++
			}
		case is == "open" || is == "work" || is == "merged":
			if r.left = true; b.mayStart(n, d) == "" {
				why(n)
			}
		}
	}
	if r.left && review != nil {
		why(review)
	}
	r.quota = r.quota || r.left && b.lim.OnLimitStop && d.out
	return r
}

// spent: all the money that there was.
func (b *books) spent() bool { return b.lim.USD > 0 && b.usd >= b.lim.USD }

// halt is what a resume would have to do with, were everything that is blocked not there.
func (b *books) halt(d *day) string {
	r := b.remains(d)
	switch {
	case !r.left, b.trouble.Code > 0:
		return ""
	case b.open.signature != "":
		return "breaker"
	case r.quota:
		return "quota"
	case b.paused:
		return "paused"
	case r.total:
		return "limit"
	case b.spent():
		return "cost"
	case b.late(d.now):
		return "deadline"
	}
	return ""
}

// code is what the run has to end with.
func (b *books) code(d *day) int {
	r := b.remains(d)
	switch {
	case b.trouble.Code > 0:
		return b.trouble.Code
	case b.baseline == scheduler.Failed && b.set.Baseline == "require":
		return 2
	case b.waitsInStep(d):
		return 2
	case r.left && b.stopped && b.term:
		return 143
	case r.left && b.stopped:
		return 130
	case b.aside && d.taken < len(b.branch), b.unpushed:
		return 5
	case r.quota:
		return 75
	case r.agent || r.blocked > 0 && r.blocked == r.crashed:
		return 4
	case r.blocked > 0:
		return 3
	case r.total, r.left && (b.late(d.now) || b.spent()):
		return 6
	case r.left && (b.paused || b.open.signature != ""), len(b.lost) > 0, r.asks > 0:
		return 7
	case r.left:
		return 1
	}
	return 0
}

// waitsInStep: the task of a step for one task needs another one first.
func (b *books) waitsInStep(d *day) bool {
	n := b.notes[b.set.Only]
	return n != nil && d.is[n.at] == "open" && !d.held[n.at] && !b.hasAll(n)
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

// isVoid reports whether a check of a task is at work in vain.
func (b *books) isVoid(task string) bool {
	return slices.ContainsFunc(b.checks, func(c *check) bool { return c.task != "" && c.task == task && c.void })
}

func (b *books) void() (ids []string) {
	for _, n := range b.byList() {
		if b.isVoid(n.id) {
			ids = append(ids, n.id)
		}
	}
	return ids
}
