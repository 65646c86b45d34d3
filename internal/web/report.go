package web

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// reportPage is a loop in one file that needs no other: its page without what only a server can do, and every attempt.
type reportPage struct {
	*loopView
	Now   time.Time
	Next  *view.Next
	Left  string // the command that does what --push could not
	Tasks []*reportTask
	CSS   template.CSS
	JS    template.JS
}

// reportTask is a task, or an iteration, with its attempts.
type reportTask struct {
	ID, Title, State string
	Attempts         []reportAttempt
}

// reportAttempt is one of them; Output is the end of what failed.
type reportAttempt struct {
	Number                             int
	Verdict, Reason, Took, Cost, Agent string
	Output, Ref                        string
	Said                               []string // what a person should look at
	Began                              time.Time
}

// Shape is the verdict for those who do not see colours.
func (a reportAttempt) Shape() string { return shape(a.Verdict) }

// Report writes a loop as one HTML file. next is what a person would do now, nil for nothing.
func Report(w io.Writer, st *view.Status, next *view.Next) error {
	pages, err := template.New("").Funcs(funcs()).ParseFS(assets, "assets/*.html")
	if err != nil {
		return err
	}
	css, err := assets.ReadFile("assets/page.css")
	if err != nil {
		return err
	}
	js, err := assets.ReadFile("assets/page.js")
	if err != nil {
		return err
	}
	now := time.Now()
	p := reportPage{loopView: newView(st, now), Now: now, Next: next, Left: st.Report(false).Unpushed, CSS: template.CSS(css), JS: template.JS(js)}
	if p.Live {
		p.Ending = ""
	}
	p.Tasks = tasksOf(st.View.History, p.loopView)
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "report.html", p); err != nil {
		return err
	}
	// What has a page of its own elsewhere has a place further down here.
	text := strings.ReplaceAll(plain(b.String()), `href="/loops/`+escape(p.ID)+`/tasks/`, `href="#task-`)
	_, err = io.WriteString(w, text)
	return err
}

// tasksOf lists what was attempted in the order of its first attempt.
func tasksOf(h *journal.State, v *loopView) (list []*reportTask) {
	states := map[string]string{}
	for _, c := range v.Columns {
		for _, one := range c.Cards {
			states[one.ID] = one.State
		}
	}
	for _, a := range h.Attempts {
		id, title := a.Task, a.Title
		if a.Iteration > 0 {
			id, title = strconv.Itoa(a.Iteration), "Iteration"
		}
		at := slices.IndexFunc(list, func(t *reportTask) bool { return t.ID == id })
		if at < 0 {
			at = len(list)
			list = append(list, &reportTask{ID: id, Title: title, State: states[id]})
		}
		one := reportAttempt{Number: a.Number, Verdict: cmp.Or(a.Outcome(), string(a.Decision)), Reason: a.Reason, Began: a.Started, Ref: a.Ref,
			Agent: strings.TrimSpace(a.Backend + " " + a.Model)}
		if a.Cost.USD != nil {
			one.Cost = a.Cost.Dollars()
		}
		if r := a.Result; r != nil {
			one.Took = terminal.Duration(time.Duration(r.Seconds * float64(time.Second)))
			one.Said = r.Said()
			if a.Verdict != journal.Verified {
				one.Output = terminal.CleanLines(strings.TrimSpace(cmp.Or(r.Output, r.Words)))
			}
		}
		if one.Verdict == "" {
			one.Verdict = fmt.Sprint(map[bool]string{true: "running", false: "interrupted"}[v.Live && a.Phase != journal.PhaseOpen])
		}
		list[at].Attempts = append(list[at].Attempts, one)
	}
	return list
}
