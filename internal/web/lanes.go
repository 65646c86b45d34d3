package web

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// lanes are who worked when on what, and who waited for what: a row for each slot, from the loop's first attempt to its last.
type lanes struct {
	Rows          []lane
	From, To      time.Time
	Width, Height int
	Ticks         []tick
	Waits         []waitKind // that are drawn, for the legend
	Left          int        // attempts that are not shown
}

type lane struct {
	Name string
	Y    int
	Bars []bar
	Gaps []bar // in which it waited; their state is a waitKind
}

type bar struct {
	X, W  float64
	State string
	Title string
	Label string
	Href  string
}

// Middle is where its label stands.
func (b bar) Middle() float64 { return b.X + b.W/2 }

// Foot is the line that the times stand on.
func (l lanes) Foot() int { return l.Height - 2 }

type tick struct {
	X    float64
	Text string
}

// Side keeps the first and the last time inside the drawing.
func (t tick) Side() string {
	switch t.X {
	case 0:
		return "first"
	case laneWidth:
		return "last"
	}
	return ""
}

// waitKind is what a slot waits for. Each has a pattern of its own.
type waitKind string

const (
	waitQuota      waitKind = "quota"
	waitPerson     waitKind = "person"
	waitDependency waitKind = "dependency"
	waitLock       waitKind = "lock"
	waitRun        waitKind = "stopped"
)

// Words are for the legend.
func (w waitKind) Words() string {
	switch w {
	case waitQuota:
		return "waits for the provider"
	case waitPerson:
		return "waits for a person"
	case waitDependency:
		return "waits for other tasks"
	case waitLock:
		return "waits to merge"
	}
	return "not running"
}

// Short is for a place that is narrow.
func (w waitKind) Short() string {
	return map[waitKind]string{waitQuota: "quota", waitPerson: "you", waitDependency: "others", waitLock: "merge", waitRun: "stopped"}[w]
}

const (
	laneWidth  = 1000 // units of the drawing
	laneHeight = 26
	laneBars   = 2000 // that are drawn at most, the last ones
	leastGap   = 2    // units below which a wait is not drawn
)

// span is a time in which a slot was busy, or waited.
type span struct {
	from, to time.Time
	kind     waitKind // of a wait
	why      string
}

// drawing is what lanes are made of. board is nil where the task list cannot be read.
type drawing struct {
	h     *journal.State
	board *view.Board
	live  bool
	now   time.Time
	slots map[*journal.Wait]int // that waited for a provider
}

// end is when an attempt ended, or how far it has come.
func (d *drawing) end(a *journal.Attempt) time.Time {
	if !a.Ended.IsZero() {
		return a.Ended
	}
	return d.edge(d.live && d.h.Runs(a))
}

// edge is the end of what has none: now or, where nobody continues it, the last time in the journal.
func (d *drawing) edge(goesOn bool) time.Time {
	if goesOn {
		return d.now
	}
	return d.h.At
}

func newLanes(id string, h *journal.State, board *view.Board, live bool, now time.Time) lanes {
	d := &drawing{h: h, board: board, live: live, now: now, slots: waitingSlots(h)}
	out := lanes{Width: laneWidth}
	list := h.Attempts
	if len(list) > laneBars {
		out.Left, list = len(list)-laneBars, list[len(list)-laneBars:]
	}
	if len(list) == 0 {
		return out
	}
	out.From, out.To = list[0].Started, list[0].Started
	if live {
		out.To = later(out.To, now)
	}
	for _, a := range list {
		out.To = later(out.To, d.end(a))
	}
	length := max(out.To.Sub(out.From).Seconds(), 1)
	at := func(t time.Time) float64 {
		return min(max(t.Sub(out.From).Seconds(), 0), length) / length * laneWidth
	}
	slots := map[int][]*journal.Attempt{}
	for _, a := range list {
		slots[a.Slot] = append(slots[a.Slot], a)
	}
	drawn := map[waitKind]bool{}
	for _, n := range slices.Sorted(maps.Keys(slots)) {
		row := lane{Name: "this folder", Y: len(out.Rows) * laneHeight}
		if n > 0 {
			row.Name = fmt.Sprintf("slot %d", n)
		}
		for _, a := range slots[n] {
			row.Bars = append(row.Bars, d.bar(id, a, at))
		}
		for _, s := range d.waits(n, slots[n], out.From, out.To) {
			b := bar{X: at(s.from), State: string(s.kind), Label: s.kind.Short(), Title: row.Name + ": " + s.why + ", " + terminal.Duration(s.to.Sub(s.from))}
			if b.W = at(s.to) - b.X; b.W < leastGap {
				continue
			}
			if b.W < 9*float64(len(b.Label)) {
				b.Label = ""
			}
			row.Gaps = append(row.Gaps, b)
			drawn[s.kind] = true
		}
		out.Rows = append(out.Rows, row)
	}
	out.Waits = slices.Sorted(maps.Keys(drawn))
	out.Height = len(out.Rows)*laneHeight + 16
	for i := range 5 {
		part := time.Duration(float64(i) / 4 * length * float64(time.Second))
		out.Ticks = append(out.Ticks, tick{float64(i) / 4 * laneWidth, out.From.Add(part).Local().Format("15:04:05")})
	}
	return out
}

// bar is an attempt.
func (d *drawing) bar(id string, a *journal.Attempt, at func(time.Time) float64) bar {
	one := view.AttemptOf("", id, a, d.live && d.h.Runs(a))
	label := cmp.Or(a.Task, fmt.Sprintf("#%d", a.Iteration))
	b := bar{X: at(a.Started), State: string(one.Stand), Label: label, Href: taskPath(id, a),
		Title: fmt.Sprintf("%s %s, attempt %d: %s, %s", label, a.Title, a.Number, one.Outcome, terminal.Duration(d.worked(a).Sub(a.Started)))}
	b.W = max(at(d.worked(a))-b.X, 1)
	if b.W < 9*float64(len(label)) {
		b.Label = ""
	}
	return b
}

// worked is when an attempt was done with its own work: a candidate then waits for the others.
func (d *drawing) worked(a *journal.Attempt) time.Time {
	if end := d.end(a); a.Passed.IsZero() || a.Passed.After(end) {
		return end
	}
	return a.Passed
}

// waits are the times in which a slot did nothing and the journal tells why, in their order, as far as they are long enough to be seen.
func (d *drawing) waits(slot int, list []*journal.Attempt, from, to time.Time) (out []span) {
	known, free, least := d.known(slot), from, to.Sub(from)*leastGap/laneWidth
	for _, a := range list {
		if a.Started.Sub(free) > least {
			out = append(out, fill(free, a.Started, append(known, d.before(a, free)))...)
		}
		if done, over := d.worked(a), d.end(a); over.Sub(done) > least {
			out = append(out, span{done, over, waitDependency, "waited for the other candidates of task " + a.Task})
		}
		if free = later(free, d.end(a)); a.Settled.Sub(a.Ended) > 0 {
			out = append(out, span{a.Ended, a.Settled, waitLock, "waited for the work on task " + a.Task + " to be merged"})
			free = later(free, a.Settled)
		}
	}
	if to.After(free) {
		out = append(out, fill(free, to, append(known, d.rest(free)))...)
	}
	return out
}

// known are the waits that the journal tells of, of the slot's own tasks and of the whole loop. The more exact come first.
func (d *drawing) known(slot int) (out []span) {
	for _, w := range d.h.Waits {
		s := span{from: w.Since, to: w.Ended}
		if w.Ended.IsZero() {
			s.to = d.edge(d.live)
		}
		switch w.For {
		case journal.WaitProvider:
			if n, of := d.slots[w]; of && n != slot {
				continue
			}
			s.kind, s.why = waitQuota, "waited for the provider: "+w.Reason
		case journal.WaitPerson:
			s.kind, s.why = waitPerson, "waited for a person: "+w.Reason
		case journal.WaitRun:
			s.kind, s.why = waitRun, "was not running: "+w.Reason
		}
		s.why = strings.TrimSuffix(s.why, ": ")
		out = append(out, s)
	}
	return slices.Clip(out)
}

// waitingSlots are the slots of the tasks that waited for a provider: where the attempt before was, or the one after.
func waitingSlots(h *journal.State) map[*journal.Wait]int {
	out := map[*journal.Wait]int{}
	of := map[string][]*journal.Wait{}
	for _, w := range h.Waits {
		if w.Task != "" {
			of[w.Task] = append(of[w.Task], w)
		}
	}
	for _, a := range h.Attempts {
		for _, w := range of[a.Task] {
			if _, known := out[w]; !known || !a.Started.After(w.Since) {
				out[w] = a.Slot
			}
		}
	}
	return out
}

// before is the wait of a slot until an attempt, if it is no other: for the task that ended last before it could begin.
func (d *drawing) before(a *journal.Attempt, free time.Time) span {
	s := span{from: free, to: a.Started, kind: waitDependency}
	if a.Task == "" {
		return span{}
	}
	var deps []string
	if d.board != nil {
		deps = d.board.Graph.Deps(a.Task)
	}
	var last *journal.Attempt
	first, _ := slices.BinarySearchFunc(d.h.Ended, free, func(b *journal.Attempt, t time.Time) int { return b.Ended.Compare(t) })
	for _, b := range d.h.Ended[first:] {
		if b.Ended.After(a.Started) {
			break
		}
		if b.Task == "" || b.Task == a.Task {
			continue
		}
		if last == nil || slices.Contains(deps, b.Task) || !slices.Contains(deps, last.Task) {
			last = b
		}
	}
	if last == nil {
		return span{}
	}
	s.why = "waited for task " + last.Task
	if slices.Contains(deps, last.Task) {
		s.why += ", which task " + a.Task + " depends on"
	}
	return s
}

// rest is the wait of a slot that has nothing to do now.
func (d *drawing) rest(free time.Time) span {
	if !d.live || d.board == nil || !d.h.Underway() {
		return span{}
	}
	var on []string
	for _, a := range d.h.Working() {
		if a.Task != "" && !slices.Contains(on, a.Task) {
			on = append(on, a.Task)
		}
	}
	slices.Sort(on)
	switch c := d.board.Graph.Counts(); {
	case len(on) == 0:
	case c.Pending > 0:
		return span{free, d.now, waitDependency, "waits for task " + strings.Join(on[:min(len(on), 5)], ", ")}
	case slices.ContainsFunc(d.h.Blocked(), func(b *journal.Event) bool { return b.Spoken().Question != "" }):
		return span{free, d.now, waitPerson, "waits for an answer"}
	}
	return span{}
}

// fill is what of a time the waits take up. Where several do, the first of them counts.
func fill(from, to time.Time, waits []span) (out []span) {
	waits = slices.DeleteFunc(slices.Clone(waits), func(s span) bool { return s.kind == "" || !s.from.Before(to) || !from.Before(s.to) })
	for from.Before(to) && len(waits) > 0 {
		at := slices.IndexFunc(waits, func(s span) bool { return !s.from.After(from) && from.Before(s.to) })
		next := to
		for i, s := range waits { // the next one that counts more begins earlier than this one ends
			if (at < 0 || i < at) && s.from.After(from) && s.from.Before(next) {
				next = s.from
			}
		}
		if at >= 0 {
			if waits[at].to.Before(next) {
				next = waits[at].to
			}
			out = append(out, span{from, next, waits[at].kind, waits[at].why})
		}
		from = next
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
