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

// tagView is a tag over all of its runs: tasks by runs, and what the agents cost.
type tagView struct {
	Tag    string
	Runs   []*view.Loop
	Rows   []nightRow
	Agents []agentRow
	Left   int // tasks that no run has tried
}

// nightRow is a task, with its last attempt in each run.
type nightRow struct {
	*view.Task
	Cells []*view.Attempt
}

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
	all = slices.DeleteFunc(all, func(one store.Saved) bool {
		return one.State == nil || one.State.Tag != tag || one.State.Kind != store.KindTag
	})
	if len(all) == 0 {
		return nil, notFound("no run was over the tag " + terminal.Clean(tag))
	}
	slices.SortFunc(all, func(a, b store.Saved) int { return a.State.StartedAt.Compare(b.State.StartedAt) })
	runs := view.All(s.opt.Root, all)
	agents, tried := map[[2]string]*agentRow{}, map[string][]*view.Attempt{}
	for i, one := range runs {
		if one.Err != nil {
			return nil, one.Err
		}
		v.Runs = append(v.Runs, one.Loop)
		for _, w := range one.Waves {
			for k := range w.Tasks {
				t := &w.Tasks[k]
				if tried[t.ID.ID] == nil {
					tried[t.ID.ID] = make([]*view.Attempt, len(runs))
				}
				tried[t.ID.ID][i] = t.Last()
				for _, a := range t.Attempts {
					count(agents, a)
				}
			}
		}
	}
	for _, w := range v.Runs[len(v.Runs)-1].Waves {
		for k := range w.Tasks {
			row := nightRow{&w.Tasks[k], tried[w.Tasks[k].ID.ID]}
			if !slices.ContainsFunc(row.Cells, func(a *view.Attempt) bool { return a != nil }) {
				v.Left++
			}
			v.Rows = append(v.Rows, row)
		}
	}
	for _, a := range agents {
		a.Took, a.Cost = terminal.Duration(a.time), view.Money(&a.cost)
		v.Agents = append(v.Agents, *a)
	}
	slices.SortFunc(v.Agents, func(a, b agentRow) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Model, b.Model))
	})
	return v, nil
}

func count(agents map[[2]string]*agentRow, a *view.Attempt) {
	if a.Outcome == string(journal.Accepted) { // no agent ran
		return
	}
	key := [2]string{a.Backend, a.Model}
	if agents[key] == nil {
		agents[key] = &agentRow{Backend: a.Backend, Model: a.Model}
	}
	row := agents[key]
	row.Attempts++
	if a.Done() {
		row.Verified++
	}
	if !a.Ended.IsZero() {
		row.time += a.Ended.Sub(a.Started)
	}
	row.cost = row.cost.Plus(a.Cost)
}
