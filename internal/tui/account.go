package tui

import (
	"slices"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/print"
)

// account is the loop that is shown, with what was said of it.
type account struct {
	*view.Loop
	saved  store.Saved
	events *print.Events
	said   []said
	begun  time.Time // when this run started
	ended  time.Time // of the last run
	rows   []row
	ids    int // columns of the widest id in rows, within reason
}

// said is a line of what happened.
type said struct {
	at   time.Time
	text string
}

// row is a line of the list that a person can choose.
type row struct {
	in      view.Stand
	task    *view.Task    // nil for a prompt loop
	attempt *view.Attempt // the last; nil if there was none
	limit   *view.Limit   // of a wait, for all tasks that wait for the same
}

// past is where the iterations of a prompt loop stand that are over.
const past view.Stand = "past"

func newAccount(root string, saved store.Saved) (*account, error) {
	l, err := view.Of(root, saved)
	if err != nil {
		return nil, err
	}
	a := &account{Loop: l, saved: saved, events: print.NewEvents(false)}
	a.events.Waves, a.events.Usual = len(l.Waves), saved.State.Config.Backend.Type
	a.arrange()
	return a, nil
}

// see takes in what was written, and how the loop is now.
func (a *account) see(events []journal.Event) error {
	for i := range events {
		e := &events[i]
		switch {
		case e.Begins():
			a.begun, a.ended = e.TS, time.Time{}
		case e.Type == journal.LoopFinished || e.Type == journal.LoopPaused:
			a.ended = e.TS
		}
		if line := a.events.Line(e); line != "" {
			a.say(e.TS, line)
		}
	}
	if slices.ContainsFunc(events, func(e journal.Event) bool { return e.Type == journal.ListChanged && e.Seq > a.Run.History.Seq }) {
		l, err := view.Of(a.Run.Root, a.saved)
		if err != nil {
			return err
		}
		a.Loop = l
	} else if !a.See(events) {
		return nil
	}
	a.arrange()
	return nil
}

func (a *account) say(at time.Time, text string) {
	const most = 50 // lines that are kept
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" {
			a.said = append(a.said, said{at, line})
		}
	}
	if n := len(a.said) - most; n > 0 {
		a.said = slices.Delete(a.said, 0, n)
	}
}

// arrange orders what there is for the list: what waits for a person first.
func (a *account) arrange() {
	const widest = 8 // columns of ids
	a.rows, a.ids = nil, 0
	by := map[view.Stand][]row{}
	for _, l := range a.Limits {
		by[view.Limited] = append(by[view.Limited], row{in: view.Limited, limit: l})
	}
	if a.Prompt() {
		for _, at := range a.Working() {
			by[view.Running] = append(by[view.Running], row{in: view.Running, attempt: at})
		}
		for _, at := range slices.Backward(a.Iterations) {
			if at.Stand != view.Running {
				by[past] = append(by[past], row{in: past, attempt: at})
			}
		}
	}
	for _, w := range a.Waves {
		for i := range w.Tasks {
			t := &w.Tasks[i]
			if r := (row{in: t.Stand, task: t, attempt: t.Last()}); t.Stand != view.Limited {
				by[t.Stand] = append(by[t.Stand], r)
			} else if at := slices.IndexFunc(by[t.Stand], func(r row) bool { return slices.Contains(r.limit.Tasks, t.ID.ID) }); at >= 0 {
				by[t.Stand][at].task, by[t.Stand][at].attempt = t, t.Last()
			}
			if n := terminal.Width(terminal.Clean(t.ID.ID)); n <= widest {
				a.ids = max(a.ids, n)
			}
		}
	}
	slices.SortStableFunc(by[view.Running], func(x, y row) int { return x.attempt.Started.Compare(y.attempt.Started) })
	slices.SortStableFunc(by[view.Done], func(x, y row) int { return endOf(y.attempt).Compare(endOf(x.attempt)) })
	for _, in := range append(view.Stands(), past) {
		a.rows = append(a.rows, by[in]...)
	}
}

func endOf(a *view.Attempt) time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.Ended
}

// over reports whether nobody runs it, or its run has ended.
func (a *account) over() bool { return !a.Run.Live || a.Run.History.Finished != nil }

// gateAsks is what the gate of a prompt loop that has stopped asks, to be answered with yes or no; "" for nothing.
func (a *account) gateAsks() string {
	if out := a.Run.Outcome; a.Prompt() && !a.Run.Live && out.Ending == journal.GateAsks && out.Question == "" { // which wants words
		return terminal.Clean(out.Message)
	}
	return ""
}
