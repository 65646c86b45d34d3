package web

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// loopView is a loop as its page shows it.
type loopView struct {
	Remarks       []string // what done and verified do not say by themselves
	ID, Kind, Tag string
	State         string // running, waiting, paused, finished, interrupted or dead
	Live          bool
	Asked         view.Pending // of it, and not done yet
	Ending        string       // why it is not running
	Wave, Waves   int
	Done, Total   int
	Blocked       int
	Cost          string
	Started       time.Time
	Active        time.Time
	Ends          *time.Time // as far as anybody can say
	Deadline      *time.Time
	Next          *view.Next // nil while it runs
	Can           []string   // what it can be resumed to: resume, retry, step; nothing while it runs
	Columns       []column
	Running       []running
	Stuck         []stuck
	Commits       []store.WaveCommit
	Lanes         lanes
	Iterations    []iteration
	Problems      []string
	Unreadable    string // why there is no board

	file   string // the task list
	reason string
	shape  uint64 // two views of one shape show the same tasks in the same places
}

// Colour is the state that the loop's colour and sign are of: one that has ended is not green for that.
func (v *loopView) Colour() string {
	switch {
	case v.State != "finished":
		return v.State
	case v.Columns == nil && v.Ending != "" && !journal.Ending(v.reason).Final(), v.Columns != nil && v.Done < v.Total:
		return "held"
	}
	return "done"
}

// patched is a card on the page, or one that takes its place there.
type patched struct {
	card
	OOB bool
}

// column is a wave.
type column struct {
	Number, Done int
	Commit       string
	Cards        []card
}

// card is a task on the board. Two cards that are equal look the same.
type card struct {
	N         int // its place in the board, which names its element
	ID, Title string
	State     string
	Word      string // for the state
	Note      string // why it is so
	Deps      string // places of the tasks that it depends on
	Attempt   string
	Since     int64 // when its phase began, ms
	Critical  bool  // on the longest path of what is left
	Href      string
}

// Shape is the state for those who do not see colours.
func (c card) Shape() string { return shape(c.State) }

func shape(state string) string {
	switch state {
	case "done", journal.AllDone.Words(), string(journal.Verified), string(journal.Accepted):
		return "✓"
	case "running":
		return "▶"
	case "blocked", string(journal.Failed), string(journal.Crashed), string(journal.TimedOut):
		return "✕"
	case "held":
		return "⊘"
	case "ready":
		return "○"
	case "waiting":
		return "…"
	}
	return "–"
}

// word is a state in the words of the board.
func word(state string) string {
	switch state {
	case "held":
		return "out of reach"
	case "other":
		return "set aside"
	case "dead":
		return "killed"
	}
	return state
}

// running is an attempt that is worked on.
type running struct {
	Task, Title, Phase string
	Attempt, Of        int
	Place              string
	Since              int64
	Href               string
}

// stuck is a blocked task, with what its agent asks.
type stuck struct {
	Task, Title, Reason, Question, Href string
}

// iteration is one of a prompt loop.
type iteration struct {
	Number   int
	Duration string
	Exit     int
	Preview  string
	Href     string
}

// look reads a loop as it is now.
func (s *Server) look(id string) (*loopView, error) {
	saved, err := s.home.Find(id)
	if err != nil {
		return nil, err
	}
	if saved == nil {
		return nil, notFound("there is no loop " + terminal.Clean(id))
	}
	st, err := view.NewStatus(s.opt.Root, *saved)
	if err != nil {
		return nil, err
	}
	return newView(st, time.Now()), nil
}

func newView(st *view.Status, now time.Time) *loopView {
	r, h := st.Report(true), st.View.History
	v := &loopView{Remarks: st.Remarks(), ID: r.ID, Kind: r.Kind, Tag: r.Tag, State: r.State, Live: st.View.Live, Asked: view.PendingOf(&st.View), Wave: r.CurrentWave, Waves: r.TotalWaves,
		Done: r.Tasks.Done, Total: r.Tasks.Total, Blocked: r.Tasks.Blocked, Cost: st.View.State.Cost.Text(), Started: r.StartedAt,
		Active: r.LastActivity, Commits: r.Commits, Lanes: newLanes(r.ID, h, st.Board, st.View.Live, now)}
	v.reason = r.ExitReason.Type
	if v.Live {
		v.Ends, v.Deadline = r.Ends, st.View.State.Config.Deadline
	} else {
		next := st.Summary("").Next()
		v.Next, v.Can = &next, st.Ways()
	}
	if st.Board != nil {
		v.file = st.Board.File.Path()
	}
	if !v.Live && v.State != "dead" {
		out := st.Outcome()
		if v.Ending = out.Ending.Words(); out.Message != "" {
			v.Ending += ": " + out.Message
		}
	}
	phases := map[string]*journal.Attempt{}
	for _, a := range h.Attempts {
		if st.View.Live && h.Runs(a) && a.Phase != journal.PhaseOpen {
			phases[a.Task] = a
			one := running{Task: a.Task, Title: a.Title, Phase: phaseWord(a.Phase), Attempt: a.Number, Of: a.Of, Place: a.Place(), Since: a.Since.UnixMilli(), Href: taskPath(r.ID, a)}
			if a.Iteration > 0 {
				one.Task, one.Attempt = fmt.Sprintf("iteration %d", a.Iteration), a.Iteration
			}
			v.Running = append(v.Running, one)
		}
	}
	if r.Kind != store.KindTag {
		v.Done, v.Total = r.Iteration, r.MaxIteration
		list := st.View.State.Summaries
		for i := len(list) - 1; i >= 0; i-- {
			x := list[i]
			v.Iterations = append(v.Iterations, iteration{x.Iteration + 1, terminal.Duration(x.CompletedAt.Sub(x.StartedAt)), x.ExitCode, terminal.Clean(x.OutputPreview),
				fmt.Sprintf("/loops/%s/tasks/%d", escape(r.ID), x.Iteration+1)})
		}
		return v
	}
	if st.Board == nil {
		v.Unreadable = "the task list of this loop cannot be read any more"
		return v
	}
	for _, b := range st.View.State.BlockedTasks {
		v.Stuck = append(v.Stuck, stuck{b.Task.ID, b.Title, b.Reason, b.Question, fmt.Sprintf("/loops/%s/tasks/%s", escape(r.ID), escape(b.Task.ID))})
	}
	for _, p := range st.Board.Graph.Problems() {
		v.Problems = append(v.Problems, p.Message)
	}
	v.columns(r, st.Board, phases)
	return v
}

func phaseWord(p journal.Phase) string {
	switch p {
	case journal.PhaseAgent:
		return "agent works"
	case journal.PhaseVerify:
		return "verifying"
	case journal.PhaseLook:
		return "checked further"
	case journal.PhaseIntegrating:
		return "integrating"
	}
	return string(p)
}

func (v *loopView) columns(r view.StatusJSON, b *view.Board, phases map[string]*journal.Attempt) {
	place, critical := map[string]int{}, criticalPath(b)
	for _, id := range b.Graph.Leaves() {
		place[id] = len(place)
	}
	for _, w := range r.Waves {
		c := column{Number: w.Number, Cards: make([]card, 0, len(w.Tasks))}
		if w.Commit != nil {
			c.Commit = view.Short(*w.Commit)
		}
		for _, t := range w.Tasks {
			one := card{N: place[t.ID.ID], ID: t.ID.ID, Title: t.Title, State: t.State, Word: word(t.State), Note: t.Cause, Critical: critical[t.ID.ID],
				Href: "/loops/" + escape(r.ID) + "/tasks/" + escape(t.ID.ID)}
			switch {
			case t.State == "done":
				c.Done++
				one.Note = string(t.Grade)
			case t.State == "waiting" && t.Cause != "":
				one.Word, one.Note = t.Cause, ""
			}
			if a := phases[t.ID.ID]; a != nil {
				one.State, one.Word, one.Since = "running", phaseWord(a.Phase), a.Since.UnixMilli()
				one.Attempt = fmt.Sprintf("attempt %d of %d", a.Number, a.Of)
			}
			var deps []string
			for _, d := range b.Graph.Deps(t.ID.ID) {
				deps = append(deps, fmt.Sprint(place[d]))
			}
			one.Deps = strings.Join(deps, " ")
			c.Cards = append(c.Cards, one)
		}
		v.Columns = append(v.Columns, c)
	}
	sum := fnv.New64a()
	for _, c := range v.Columns {
		for _, one := range c.Cards {
			fmt.Fprintf(sum, "%d %d %q %s\n", c.Number, one.N, one.ID, one.Deps)
		}
	}
	v.shape = sum.Sum64()
}

// criticalPath is the longest chain of tasks that are neither done nor out of reach: the run cannot be shorter than it.
func criticalPath(b *view.Board) map[string]bool {
	length, next := map[string]int{}, map[string]string{}
	first := ""
	for _, w := range slices.Backward(b.Graph.Waves()) {
		for _, id := range w.Tasks {
			switch state, _ := b.Graph.State(id); state {
			case "ready", "waiting", "running":
			default:
				continue
			}
			length[id]++
			if length[id] > length[first] {
				first = id
			}
			for _, d := range b.Graph.Deps(id) {
				if length[id] > length[d] {
					length[d], next[d] = length[id], id
				}
			}
		}
	}
	out := map[string]bool{}
	if length[first] < 2 {
		return out
	}
	for id := first; id != ""; id = next[id] {
		out[id] = true
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// taskPath is the page of what an attempt was about.
func taskPath(id string, a *journal.Attempt) string {
	what := a.Task
	if a.Iteration > 0 {
		what = fmt.Sprint(a.Iteration)
	}
	return "/loops/" + escape(id) + "/tasks/" + escape(what)
}

// funcs are what the templates work with.
func funcs() template.FuncMap {
	return template.FuncMap{
		"shape": shape, "word": word, "escape": escape,
		"card":   func(c card) patched { return patched{c, false} },
		"when":   func(t time.Time) string { return t.Local().Format("2 Jan 15:04:05") },
		"minute": func(t time.Time) string { return t.Local().Format("15:04, 2 Jan") },
		"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"short":  view.Short,
	}
}

// row is a loop in the list of all.
type row struct {
	ID, Kind, Tag, State, Ending string
	Done, Total, Blocked         int
	Active                       time.Time
	Cost                         string
}

func (s *Server) showLoops(w http.ResponseWriter, r *http.Request) {
	all, err := s.home.List()
	data := struct {
		Root string
		Rows []row
		Tags []string
		Bad  []string
	}{Root: s.opt.Root}
	for _, saved := range all {
		if saved.State == nil {
			data.Bad = append(data.Bad, saved.Err.Error())
			continue
		}
		st, err := view.NewStatus(s.opt.Root, saved)
		if err != nil {
			data.Bad = append(data.Bad, saved.State.ID+": "+err.Error())
			continue
		}
		j := st.Report(false)
		one := row{ID: j.ID, Kind: j.Kind, Tag: j.Tag, State: j.State, Done: j.Tasks.Done, Total: j.Tasks.Total, Blocked: j.Tasks.Blocked, Active: j.LastActivity,
			Cost: saved.State.Cost.Text()}
		if j.Kind != store.KindTag {
			one.Done, one.Total = j.Iteration, j.MaxIteration
		}
		if !st.View.Live && j.State != "dead" {
			one.Ending = strings.ReplaceAll(j.ExitReason.Type, "_", " ")
		}
		data.Rows = append(data.Rows, one)
		if j.Tag != "" && !slices.Contains(data.Tags, j.Tag) {
			data.Tags = append(data.Tags, j.Tag)
		}
	}
	slices.SortStableFunc(data.Rows, func(a, b row) int { return b.Active.Compare(a.Active) })
	slices.Sort(data.Tags)
	s.page(w, r, "loops.html", data, err)
}
