package web

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// tagView is a tag over all of its loops: tasks by nights, and what the agents cost.
type tagView struct {
	Tag    string
	Nights []night
	Rows   []nightRow
	Agents []agentRow
	Left   int // tasks that no loop has tried
}

type night struct {
	ID, Ending string
	Started    time.Time
	Took       string
	Cost       string
}

type nightRow struct {
	Task, Title, State, Word string
	Cells                    []cell // one for each night
}

type cell struct {
	State, Title, Href string
	Attempts           int
}

// Shape is what became of the task for those who do not see colours.
func (c cell) Shape() string { return shape(c.State) }

type agentRow struct {
	Backend, Model     string
	Attempts, Verified int
	Took               string
	Cost               string

	time time.Duration
	cost journal.Cost
}

func (s *Server) showTag(w http.ResponseWriter, r *http.Request) {
	v, err := s.tag(r.PathValue("tag"))
	s.page(w, r, "tag.html", v, err)
}

func (s *Server) tag(tag string) (*tagView, error) {
	all, err := s.home.List()
	if err != nil {
		return nil, err
	}
	v := &tagView{Tag: tag}
	var runs []store.Saved
	for _, one := range all {
		if one.State != nil && one.State.Tag == tag && one.State.Kind == store.KindTag {
			runs = append(runs, one)
		}
	}
	if len(runs) == 0 {
		return nil, notFound("no loop has run over the tag " + terminal.Clean(tag))
	}
	slices.SortFunc(runs, func(a, b store.Saved) int { return a.State.StartedAt.Compare(b.State.StartedAt) })
	agents := map[[2]string]*agentRow{}
	tried := map[string][]cell{}
	for i, one := range runs {
		st, err := view.NewStatus(s.opt.Root, one)
		if err != nil {
			return nil, err
		}
		h := st.View.History
		n := night{ID: one.State.ID, Started: st.View.State.StartedAt, Ending: "running", Cost: st.View.State.Cost.Text()}
		if !st.View.Live {
			n.Ending = journal.Ending(st.View.State.ExitReason.Type).Words()
		}
		if !h.At.IsZero() {
			n.Took = terminal.Duration(h.At.Sub(n.Started))
		}
		v.Nights = append(v.Nights, n)
		for _, a := range h.Attempts {
			cells := tried[a.Task]
			if cells == nil {
				cells = make([]cell, len(runs))
				tried[a.Task] = cells
			}
			c := &cells[i]
			c.Attempts++
			c.State, c.Title, c.Href = cmp.Or(a.Outcome(), "running"), cmp.Or(a.Reason, a.Outcome()), taskPath(one.State.ID, a)
			count(agents, a)
		}
		for _, b := range st.View.State.BlockedTasks {
			if cells := tried[b.Task.ID]; cells != nil {
				cells[i].State, cells[i].Title = "blocked", b.Reason
			}
		}
		if i == len(runs)-1 && st.Board != nil {
			for _, id := range st.Board.Graph.Leaves() {
				t, _ := st.Board.Graph.Task(id)
				state, _ := st.Board.Graph.State(id)
				row := nightRow{id, t.Title, string(state), word(string(state)), tried[id]}
				if row.Cells == nil {
					row.Cells = make([]cell, len(runs))
					v.Left++
				}
				v.Rows = append(v.Rows, row)
			}
		}
	}
	for _, a := range agents {
		a.Took, a.Cost = terminal.Duration(a.time), a.cost.Text()
		v.Agents = append(v.Agents, *a)
	}
	slices.SortFunc(v.Agents, func(a, b agentRow) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Model, b.Model))
	})
	return v, nil
}

func count(agents map[[2]string]*agentRow, a *journal.Attempt) {
	d := cmp.Or(a.Result, a.Agent)
	if d == nil || a.Outcome() == string(journal.Accepted) { // no agent ran
		return
	}
	key := [2]string{d.Backend, d.Model}
	if agents[key] == nil {
		agents[key] = &agentRow{Backend: d.Backend, Model: d.Model}
	}
	row := agents[key]
	row.Attempts++
	if a.Verdict == journal.Verified {
		row.Verified++
	}
	if !a.Ended.IsZero() {
		row.time += a.Ended.Sub(a.Started)
	}
	row.cost = row.cost.Plus(a.Cost)
}
