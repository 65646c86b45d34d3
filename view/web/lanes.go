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

// lanes are who worked when on what, and what the run waited for: a row for each slot, from the run's first attempt to
// its last.
type lanes struct {
	Rows          []lane
	Width, Height int
	Ticks         []tick
	Waits         []string // that are drawn, for the legend
	Left          int      // attempts that are not shown
}

type lane struct {
	Name string
	Y    int
	Bars []bar
	Gaps []bar // in which it waited; their state says for what
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
func (t tick) Side() string { return map[float64]string{0: "first", laneWidth: "last"}[t.X] }

const (
	laneWidth  = 1000 // units of the drawing
	laneHeight = 26
	laneBars   = 2000 // that are drawn at most, the last ones
	leastGap   = 2    // units below which a wait is not drawn
)

// drawing is what lanes are made of: an account, and a place for each moment.
type drawing struct {
	*view.Loop
	now    time.Time
	from   time.Time
	length float64 // in seconds
}

func (d *drawing) at(t time.Time) float64 {
	return min(max(t.Sub(d.from).Seconds(), 0), d.length) / d.length * laneWidth
}

// end is when something ended or, where nobody continues it, the last time in the journal.
func (d *drawing) end(ended time.Time, goesOn bool) time.Time {
	switch {
	case !ended.IsZero():
		return ended
	case goesOn:
		return d.now
	}
	return d.Run.History.At
}

// bar is a time with a name.
func (d *drawing) bar(from, to time.Time, state, label, title string) bar {
	b := bar{X: d.at(from), State: state, Label: label, Title: title + ", " + terminal.Duration(to.Sub(from))}
	if b.W = d.at(to) - b.X; b.W < 9*float64(len(label)) {
		b.Label = ""
	}
	return b
}

func newLanes(l *view.Loop, now time.Time) lanes {
	h, out := l.Run.History, lanes{Width: laneWidth}
	list := h.Attempts
	if len(list) > laneBars {
		out.Left, list = len(list)-laneBars, list[len(list)-laneBars:]
	}
	if len(list) == 0 {
		return out
	}
	d, to := &drawing{Loop: l, now: now, from: list[0].Started}, list[0].Started
	slots := map[int][]*journal.Attempt{}
	for _, a := range list {
		slots[a.Slot] = append(slots[a.Slot], a)
		if end := d.end(a.Ended, l.Run.Live && h.Runs(a)); end.After(to) {
			to = end
		}
	}
	if l.Run.Live && now.After(to) {
		to = now
	}
	d.length = max(to.Sub(d.from).Seconds(), 1)
	drawn := map[string]bool{}
	for _, n := range slices.Sorted(maps.Keys(slots)) {
		row := lane{Name: "this folder", Y: len(out.Rows) * laneHeight}
		if n > 0 {
			row.Name = fmt.Sprintf("slot %d", n)
		}
		free := d.from
		for _, a := range slots[n] {
			row.Gaps = append(row.Gaps, d.waits(n, free, a.Started)...)
			one := view.AttemptOf("", l.ID, a, l.Run.Live && h.Runs(a))
			label, end := cmp.Or(a.Task, fmt.Sprintf("#%d", a.Iteration)), d.end(a.Ended, one.Stand == view.Running)
			b := d.bar(a.Started, end, string(one.Stand), label,
				fmt.Sprintf("%s %s, attempt %d: %s", label, a.Title, a.Number, one.Outcome))
			b.W, b.Href = max(b.W, 1), taskPath(l.ID, a)
			row.Bars = append(row.Bars, b)
			if end.After(free) {
				free = end
			}
		}
		row.Gaps = append(row.Gaps, d.waits(n, free, to)...)
		for i := range row.Gaps {
			row.Gaps[i].Title = row.Name + ": " + row.Gaps[i].Title
			drawn[row.Gaps[i].State] = true
		}
		out.Rows = append(out.Rows, row)
	}
	out.Waits = slices.Sorted(maps.Keys(drawn))
	out.Height = len(out.Rows)*laneHeight + 16
	for i := range 5 {
		part := time.Duration(float64(i) / 4 * d.length * float64(time.Second))
		out.Ticks = append(out.Ticks, tick{float64(i) / 4 * laneWidth, d.from.Add(part).Local().Format("15:04:05")})
	}
	return out
}

// waits are what the journal tells of waits in a time in which a slot was free, as far as they are long enough to be
// seen.
func (d *drawing) waits(slot int, from, to time.Time) (out []bar) {
	h := d.Run.History
	for _, w := range h.Waits {
		begin, end := w.Since, d.end(w.Ended, d.Run.Live)
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if d.at(end)-d.at(begin) < leastGap || w.Task != "" && d.slotOf(w) != slot {
			continue
		}
		text := map[journal.WaitFor]string{journal.WaitProvider: "waited for the provider: ",
			journal.WaitPerson: "waited for you: ", journal.WaitRun: "was not running: "}[w.For]
		label := map[journal.WaitFor]string{journal.WaitProvider: "quota", journal.WaitPerson: "you",
			journal.WaitRun: "stopped"}[w.For]
		out = append(out, d.bar(begin, end, string(w.For), label, strings.TrimSuffix(text+w.Reason, ": ")))
		from = end
	}
	return out
}

// slotOf is the slot of a task that waited: where the attempt before was.
func (d *drawing) slotOf(w *journal.Wait) (slot int) {
	for _, a := range d.Run.History.Attempts {
		if a.Task == w.Task && !a.Started.After(w.Since) {
			slot = a.Slot
		}
	}
	return slot
}
