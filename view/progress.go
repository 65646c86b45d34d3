package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// Number is one of a run's: what is counted, and how many there are, for a table and for a line.
type Number struct {
	Stand             Stand
	Name, Value, Text string
}

// Numbers are the run in numbers, what waits for a person first.
func (l *Loop) Numbers() (list []Number) {
	count := func(s Stand, n int, name, text string) {
		if n > 0 {
			list = append(list, Number{s, name, strconv.Itoa(n), text})
		}
	}
	c := l.Tasks
	count(Asks, c.Questions, "Questions", terminal.Count(c.Questions, "question"))
	if l.Prompt() {
		return append(list, Number{Done, "Iterations", fmt.Sprintf("%d of %d", l.Iteration, l.MaxIteration),
			fmt.Sprintf("iteration %d of %d", l.Iteration, l.MaxIteration)})
	}
	count(Blocked, c.Blocked, "Blocked", fmt.Sprintf("%d blocked", c.Blocked))
	count(Running, len(l.Running), "Running", fmt.Sprintf("%d running", len(l.Running)))
	list = append(list, Number{Done, "Tasks done", fmt.Sprintf("%d of %d", c.Done, c.Total),
		fmt.Sprintf("%d/%d done", c.Done, c.Total)})
	count(Held, c.Held, "Held", fmt.Sprintf("%d held", c.Held))
	if l.Board == nil {
		list = append(list, Number{Held, "Tasks", "the list cannot be read", "the task list cannot be read"})
	}
	return list
}

// Times say until when attempts start, and when the rest may be done; nothing of a run that is over.
func (l *Loop) Times(now time.Time) (list []string) {
	if l.Over() {
		return nil
	}
	if end := l.Run.State.Config.Deadline; end != nil {
		list = append(list, "no attempt after "+end.In(now.Location()).Format("15:04"))
	}
	switch d, late, ok := l.Left(now); {
	case late:
		list = append(list, "longer than usual")
	case ok:
		left := "less than a minute"
		if d >= time.Minute {
			left = map[bool]string{true: "at most ", false: "about "}[l.Prompt()] +
				terminal.Duration(d.Round(time.Minute))
		}
		list = append(list, left+" left, until "+now.Add(d).Format("15:04"))
	case l.Board != nil:
		list = append(list, "no estimate before a task is done")
	}
	return list
}

// Elapsed is how long the last run took, or has taken until now.
func (l *Loop) Elapsed(now time.Time) time.Duration {
	switch h := l.Run.History; {
	case h.Begun.IsZero():
		return l.LastActivity.Sub(l.StartedAt)
	case h.Finished != nil && h.Finished.Event != nil:
		return h.Finished.Event.TS.Sub(h.Begun)
	case l.Run.Live:
		return now.Sub(h.Begun)
	default:
		return l.LastActivity.Sub(h.Begun)
	}
}

// Over reports whether nobody runs it, or its run has ended.
func (l *Loop) Over() bool { return !l.Run.Live || l.Run.History.Finished != nil }

// GateAsks is what the gate of a prompt loop that has stopped asks, to be answered with yes or no; "" for nothing.
func (l *Loop) GateAsks() string {
	// which wants words
	if out := l.Run.Outcome; l.Prompt() && !l.Run.Live && out.Ending == journal.GateAsks && out.Question == "" {
		return terminal.Clean(out.Message)
	}
	return ""
}

// Meanwhile is what is asked of a live run, or what it does before its first attempt.
func (l *Loop) Meanwhile() string {
	if text := l.Run.Asked.Text(); text != "" {
		return text
	}
	if since := l.Run.History.Baseline; !since.IsZero() {
		return "baseline: verify has run on the untouched tree since " + terminal.Clock(since)
	}
	return ""
}

// Share is how far a prompt loop has come in the iterations that it may have.
func (l *Loop) Share() float64 {
	n := l.Iteration
	if l.Run.State.Completed { // nothing is left, whatever the limit was
		return 1
	}
	if !l.Over() {
		n = max(0, n-1) // the last one runs
	}
	return min(1, float64(n)/float64(max(1, l.MaxIteration)))
}

// Share is how much of a wave is done.
func (n Bar) Share() float64 {
	if n.All == 0 {
		return 1
	}
	return float64(n.Done) / float64(n.All)
}

// Wave is the wave that it is at; 0 if all are done.
func (l *Loop) Wave() int {
	at := slices.IndexFunc(l.Waves, func(w *Wave) bool { b := w.Bar(); return b.Done < b.All }) + 1
	if at > 0 && l.CurrentWave > 0 && l.CurrentWave <= len(l.Waves) {
		return l.CurrentWave
	}
	return at
}

// WaveWords are it in words.
func (l *Loop) WaveWords() string {
	if n := l.Wave(); n > 0 {
		return fmt.Sprintf("wave %d of %d", n, len(l.Waves))
	}
	return "all " + terminal.Count(len(l.Waves), "wave")
}

// Title is what the run is about, for a heading: its tag, plan or build, or the first line of its prompt that is no
// heading.
func (l *Loop) Title() string {
	s := l.Run.State
	if !l.Prompt() {
		return l.Name()
	}
	if s.Kind != store.KindPrompt {
		return s.Kind
	}
	lines := strings.Split(strings.TrimSpace(s.Config.Prompt), "\n")
	at := slices.IndexFunc(lines, func(line string) bool {
		line = strings.TrimSpace(line)
		return line != "" && line[0] != '#'
	})
	return strings.TrimSpace(strings.TrimLeft(lines[max(0, at)], "# "))
}

// Left is how long the rest of a live run takes if every task, or iteration, that can still be done takes as long as
// those that it finished did. ok is false before it finished one; late says that what runs has taken much longer than
// that and nothing else is left.
func (l *Loop) Left(now time.Time) (left time.Duration, late, ok bool) {
	h, s := l.Run.History, l.Run.State
	if !l.Run.Live || l.Board == nil && s.Kind == store.KindTag {
		return 0, false, false
	}
	slots, chain, open := 1, 0, 0
	took := map[string]time.Duration{}
	for _, a := range h.Ended {
		if a.Iteration > 0 && !a.Verdict.Unjudged() || a.Task != "" {
			took[cmp.Or(a.Task, strconv.Itoa(a.Iteration))] += a.Ended.Sub(a.Started)
		}
	}
	if l.Board == nil {
		open = max(0, l.MaxIteration-len(took))
	} else {
		slots = max(1, s.Config.Slots())
		for _, w := range l.Waves {
			n := open
			for _, t := range w.Tasks {
				switch t.Stand {
				case Ready, Waiting, Running, Limited, Interrupted:
					open++
				}
				if t.Stand != Done {
					delete(took, t.ID.ID)
				}
			}
			if open > n { // waves are as many as the longest path could be
				chain++
			}
		}
	}
	var mean time.Duration
	for _, d := range took {
		mean += d / time.Duration(len(took))
	}
	if len(took) == 0 {
		return 0, false, false
	}
	left = mean * time.Duration(open)
	for _, a := range l.Working() {
		ran := now.Sub(a.Started)
		left, late = left-min(mean, ran), late || ran > mean+max(mean/2, 10*time.Second)
	}
	left = max(left/time.Duration(slots), 0)
	if slots > 1 {
		left = max(left, time.Duration(chain-1)*mean)
	}
	if w := h.WaitsUntil(); w != nil && w.Until.After(now) {
		left += w.Until.Sub(now)
	}
	return left, late && left == 0, true
}

// Now is what an attempt does, for how long, and what it has cost; place says where, too.
func (a *Attempt) Now(since string, place bool) string {
	var parts []string
	if a.Iteration == 0 || a.Number > 1 {
		parts = append(parts, a.Which())
	}
	if p := a.Place(); p != "" && place {
		parts = append(parts, terminal.Clean(p))
	}
	parts = append(parts, a.Doing()+" "+since)
	if a.Cost.USD != nil {
		parts = append(parts, a.Cost.Dollars())
	}
	return strings.Join(parts, " · ")
}

// Left says until when it waits, how long that is, and for whom.
func (w *Limit) Left(now time.Time) string {
	until := ""
	if !w.Until.IsZero() {
		until = "until " + w.Until.In(now.Location()).Format("15:04") + ", " + terminal.Spell(w.Until.Sub(now))
	}
	return strings.Trim(until+" · "+terminal.Clean(w.Backend), " ·")
}

// Came is the duration and cost of a finished task.
func (t *Task) Came() string {
	var parts []string
	if a := t.Last(); a != nil {
		if a.Number > 1 {
			parts = append(parts, fmt.Sprintf("attempt %d", a.Number))
		}
		parts = append(parts, terminal.Duration(t.Took()))
	}
	if t.Grade == journal.Accepted || t.Grade == journal.NotNeeded {
		parts = append(parts, string(t.Grade))
	}
	if t.Price != "" {
		parts = append(parts, t.Price)
	}
	return strings.Join(parts, " · ")
}
