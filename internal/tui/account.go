package tui

import (
	"cmp"
	"slices"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/view"
)

// account is a loop so far, from its journal, and its tag.
type account struct {
	root   string
	saved  store.Saved
	home   store.Home
	follow *journal.Follower
	state  *journal.State
	board  *view.Board // nil for a prompt loop, and where the list cannot be read
	events *view.Events
	said   []said

	live  bool
	asked view.Pending
	begun time.Time // when this run started
	ended time.Time // of the last run

	waves []wave
	rows  []row
	ids   int // columns of the widest id in rows, within reason
}

// said is a line of what happened.
type said struct {
	at   time.Time
	text string
}

// maxIDs is how wide the column of ids gets.
const maxIDs = 8

// maxSaid is how many lines of what happened are kept.
const maxSaid = 50

type wave struct {
	number int
	bar    view.Bar
	commit string
}

// section is a part of the list of tasks, in the order in which they are shown.
type section int

const (
	running section = iota
	waiting         // for a provider
	asks
	blocked
	next
	later
	held
	done
	history // iterations of a prompt loop
)

// row is one line of the list that a person can choose.
type row struct {
	in      section
	task    string
	title   string
	cause   string           // why it is not done
	attempt *journal.Attempt // the last; nil where there was none
	wait    *journal.Wait
	blocked *journal.BlockedTask
}

func newAccount(root string, saved store.Saved) (*account, error) {
	a := &account{root: root, saved: saved, home: store.NewHome(root), state: journal.NewState(), events: view.NewEvents(false)}
	if err := a.list(); err != nil {
		return nil, err
	}
	a.events.Usual = saved.State.Config.Backend.Type
	a.follow = journal.Follow(a.home.Events(saved.State.ID))
	return a, a.read()
}

// list reads the task list.
func (a *account) list() error {
	st, err := view.NewStatus(a.root, a.saved)
	if err != nil {
		return err
	}
	if a.board = st.Board; a.board != nil {
		a.events.Waves = len(a.board.Graph.Waves())
	}
	return nil
}

// read takes in what was written since the last call.
func (a *account) read() error {
	was := a.live
	a.live = a.home.IsLive(a.saved)
	first := a.state.Seq == 0
	events, err := a.follow.Next()
	defer a.request()
	if err != nil || len(events) == 0 && !first && a.live == was {
		return err
	}
	for i := range events {
		a.see(&events[i])
		if events[i].Type == journal.ListChanged {
			if err := a.list(); err != nil {
				return err
			}
		}
	}
	from := int64(0)
	if first { // the task file may have been changed by hand since
		from = a.saved.State.Seq
	}
	for id, status := range a.state.TakeChanges(from) {
		if a.board != nil {
			a.board.Know(id, tasks.Status(status))
		}
	}
	a.arrange()
	return nil
}

// request notes what the loop is asked to do.
func (a *account) request() {
	a.asked = view.Pending{}
	if a.live {
		a.asked = view.Pending{Stopping: !a.state.Stopping.IsZero(), Kind: a.saved.State.Kind, Underway: a.state.Underway()}
		a.asked.Asked, a.asked.Now = a.home.Asked(a.saved.State.ID)
	}
}

func (a *account) see(e *journal.Event) {
	a.state.Apply(e)
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

func (a *account) say(at time.Time, text string) {
	for _, line := range linesOf(text) {
		a.said = append(a.said, said{at, line})
	}
	if n := len(a.said) - maxSaid; n > 0 {
		a.said = slices.Delete(a.said, 0, n)
	}
}

// tag reports whether the loop is over a tag.
func (a *account) tag() bool { return a.saved.State.Kind == store.KindTag }

// working are the attempts that somebody works on, the oldest first.
func (a *account) working() (out []*journal.Attempt) {
	if a.live {
		out = a.state.Working()
	}
	slices.SortFunc(out, func(x, y *journal.Attempt) int {
		return cmp.Or(x.Started.Compare(y.Started), cmp.Compare(x.Task, y.Task), cmp.Compare(x.Number, y.Number))
	})
	return out
}

// arrange orders what there is for the list.
func (a *account) arrange() {
	a.rows, a.waves = nil, nil
	if !a.tag() {
		a.iterations()
		return
	}
	last := map[string]*journal.Attempt{}
	for _, at := range a.state.Attempts {
		last[at.Task] = at
	}
	by := make([][]row, history)
	put := func(r row) { by[r.in] = append(by[r.in], r) }
	seen := map[string]bool{}
	for _, at := range a.working() {
		put(row{in: running, task: at.Task, title: at.Title, attempt: at})
		seen[at.Task] = true
	}
	commits := map[int]string{}
	for _, c := range a.state.WaveCommits {
		commits[c.Wave] = c.Commit
	}
	if a.board != nil {
		for _, w := range a.board.Waves() {
			a.waves = append(a.waves, wave{w.Number, view.BarOf(w), commits[w.Number]})
			for _, t := range w.Tasks {
				if id := t.ID.ID; !seen[id] {
					put(a.rowOf(t, last[id]))
				}
			}
		}
	}
	slices.SortStableFunc(by[done], func(x, y row) int { return endOf(y.attempt).Compare(endOf(x.attempt)) })
	for _, rows := range by {
		a.rows = append(a.rows, rows...)
	}
	a.ids = 0
	for i := range a.rows {
		if n := terminal.Width(terminal.Clean(a.rows[i].task)); n <= maxIDs {
			a.ids = max(a.ids, n)
		}
	}
}

func endOf(a *journal.Attempt) time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.Ended
}

// rowOf is a task that nobody works on.
func (a *account) rowOf(t view.Task, last *journal.Attempt) row {
	r := row{task: t.ID.ID, title: t.Title, cause: t.Cause, attempt: last}
	if w := a.state.WaitOf(r.task); w != nil {
		r.in, r.wait = waiting, w
		return r
	}
	switch scheduler.State(t.State) {
	case scheduler.StateDone:
		r.in = done
	case scheduler.StateBlocked:
		r.in = blocked
		r.blocked = a.state.Task(r.task).Blocked
		if r.blocked != nil && r.blocked.Question != "" {
			r.in = asks
		}
	case scheduler.StateReady, scheduler.StateRunning: // one that only seems to run is tried again
		r.in = next
	case scheduler.StateWaiting:
		r.in = later
	default:
		r.in = held
		if t.Cause == "" {
			r.cause = "status " + string(t.Status)
		}
	}
	return r
}

// iterations are the rows of a prompt loop, the latest first.
func (a *account) iterations() {
	for _, at := range a.working() {
		a.rows = append(a.rows, row{in: running, attempt: at})
	}
	if w := a.state.WaitsUntil(); w != nil {
		a.rows = append(a.rows, row{in: waiting, wait: w})
	}
	for _, at := range a.state.Running { // one that its run did not bring to an end
		if !a.live || at.Phase == journal.PhaseOpen {
			a.rows = append(a.rows, row{in: history, attempt: at})
		}
	}
	for _, at := range slices.Backward(a.state.Ended) {
		a.rows = append(a.rows, row{in: history, attempt: at})
	}
}

// word is the state of the loop in a word or two; times are those of a place.
func (a *account) word(in *time.Location) (text, colour string) {
	end := a.state.Finished
	switch {
	case a.live && end == nil:
		if w := a.state.WaitsUntil(); w != nil {
			if w.Until.IsZero() {
				return "waiting", terminal.Yellow
			}
			return "waiting until " + w.Until.In(in).Format("15:04"), terminal.Yellow
		}
		return "running", terminal.Green
	case end == nil:
		return "killed", terminal.Red
	case end.Ending == journal.Paused:
		return "paused", terminal.Yellow
	case end.Ending.Final() && end.Ending != journal.TasksBlocked:
		return "finished", terminal.Green
	case end.Ending.Final():
		return "finished, tasks blocked", terminal.Red
	}
	return end.Ending.Words(), terminal.Yellow
}

// gateAsks is what the gate of a prompt loop that has stopped asks, to be answered with yes or no; "" for nothing.
func (a *account) gateAsks() string {
	end, last := a.state.Finished, a.state.Prompt.Last
	if a.live || a.tag() || end == nil || end.Ending != journal.GateAsks || last != nil && last.Detail != nil && last.Detail.Question != "" { // which wants words
		return ""
	}
	return cmp.Or(terminal.Clean(end.Message), "The loop waits for an answer.")
}

// nobodyAsks says why there is nothing to answer, or where that is done: a prompt loop that asks has ended.
func (a *account) nobodyAsks() string {
	switch end := a.state.Finished; {
	case a.tag():
		return "no task waits for an answer"
	case end != nil && end.Ending == journal.GateAsks:
		return "descartes answer --edit --name " + a.saved.State.ID + " answers it"
	}
	return "the loop has no question"
}

// slots is how many tasks the loop runs at the same time.
func (a *account) slots() int { return max(1, a.saved.State.Config.Slots()) }

// left is when the loop will be over, as far as anybody can say.
func (a *account) left(now time.Time) (left time.Duration, late, ok bool) {
	switch {
	case !a.live || a.state.Finished != nil:
		return 0, false, false
	case !a.tag():
		return view.EstimateIterations(a.state, a.saved.State.Config.MaxIterations, now)
	case a.board == nil:
		return 0, false, false
	}
	return view.Estimate(a.state, a.board.Graph, a.saved.State.Config.TasksAtOnce(), now)
}
