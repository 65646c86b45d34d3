package web

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// page is a loop as its page shows it.
type page struct {
	*view.Loop
	Now   time.Time
	Lanes lanes
	Place map[string]int // of each task in the board, which names its element
	CSS   template.CSS   // of a report, which needs no other file
	JS    template.JS
}

// look reads a loop as it is now.
func (s *Server) look(id string) (*view.Loop, error) {
	saved, err := s.home.Find(id)
	if err != nil {
		return nil, err
	}
	if saved == nil {
		return nil, notFound("there is no run " + terminal.Clean(id))
	}
	return view.Of(s.opt.Root, *saved)
}

func newPage(l *view.Loop) *page {
	now := time.Now()
	p := &page{Loop: l, Now: now, Lanes: newLanes(l, now), Place: map[string]int{}}
	if l.Board != nil {
		for _, id := range l.Board.Graph.Leaves() {
			p.Place[id] = len(p.Place)
		}
	}
	return p
}

// Stuck are the tasks that wait for a person.
func (p *page) Stuck() (list []*view.Task) {
	for _, in := range []view.Stand{view.Asks, view.Blocked} {
		for _, w := range p.Waves {
			for i := range w.Tasks {
				if t := &w.Tasks[i]; t.Stand == in {
					list = append(list, t)
				}
			}
		}
	}
	return list
}

// Deps are the places of the tasks that one depends on.
func (p *page) Deps(id string) string {
	var out []string
	for _, d := range p.Board.Graph.Deps(id) {
		out = append(out, fmt.Sprint(p.Place[d]))
	}
	return strings.Join(out, " ")
}

// Latest are the iterations, the last one first.
func (p *page) Latest() []*view.Attempt {
	list := slices.Clone(p.Iterations)
	slices.Reverse(list)
	return list
}

// Href is the page of a task, or of an iteration.
func (p *page) Href(what string) string { return href(p.ID, what) }

func href(loop, what string) string { return "/loops/" + escape(loop) + "/tasks/" + escape(what) }

// taskPath is the page of what an attempt was about.
func taskPath(id string, a *journal.Attempt) string {
	if a.Iteration > 0 {
		return href(id, fmt.Sprint(a.Iteration))
	}
	return href(id, a.Task)
}

// path is the same, of one that is shown.
func path(a *view.Attempt) string { return taskPath(a.Loop, a.Attempt) }

// funcs are what the templates work with.
func funcs() template.FuncMap {
	return template.FuncMap{
		"escape": escape, "path": path, "short": view.Short, "money": view.Money, "few": terminal.Few,
		"when":   func(t time.Time) string { return t.Local().Format("2 Jan 15:04:05") },
		"minute": func(t time.Time) string { return t.Local().Format("15:04, 2 Jan") },
		"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ms":     func(t time.Time) int64 { return t.UnixMilli() },
		"badge":  func(s view.Stand, word string) badge { return badge{s, word} },
		"took":   terminal.Duration,
		"waits": func(w string) string {
			return map[string]string{"provider": "waits for the provider", "person": "waits for you",
				"run": "not running"}[w]
		},
	}
}

// badge is a word with the sign and the colour of a stand.
type badge struct {
	view.Stand
	Word string
}

func (s *Server) showLoops(w http.ResponseWriter, r *http.Request) {
	data := struct {
		Root  string
		Loops []view.Listed
		Bad   []error
	}{Root: s.opt.Root}
	all, err := s.home.List()
	if err == nil {
		for _, l := range view.All(s.opt.Root, all) {
			if l.Err != nil {
				data.Bad = append(data.Bad, l.Err)
				continue
			}
			data.Loops = append(data.Loops, l)
		}
	}
	// What waits for a person comes first, then what runs.
	rank := func(l view.Listed) int {
		return min(slices.Index(view.Stands(), l.Stand), slices.Index(view.Stands(), view.Ready))
	}
	slices.SortStableFunc(data.Loops, func(a, b view.Listed) int {
		if x, y := rank(a), rank(b); x != y && (a.Run.Live || b.Run.Live || x == 0 || y == 0) {
			return x - y
		}
		return b.LastActivity.Compare(a.LastActivity)
	})
	s.page(w, r, "loops.html", data, err)
}
