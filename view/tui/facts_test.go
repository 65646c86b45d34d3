package tui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/notify"
	"descartes/view/print"
	"descartes/view/web"
)

const eight = `{"tag":"shelf","tasks":[
{"id":1,"title":"Parser","status":"pending"},
{"id":2,"title":"Import","status":"pending"},
{"id":3,"title":"Usage","status":"pending","dependencies":[2]},
{"id":4,"title":"Slugs","status":"pending"},
{"id":5,"title":"Search","status":"pending"},
{"id":6,"title":"Store","status":"pending"},
{"id":7,"title":"Filter","status":"pending"},
{"id":8,"title":"Export","status":"pending"}]}`

const (
	question = "Should words in the query string count?"
	failing  = "import_test.go:6: nested folder lost"
	quota    = "Claude's 5-hour limit"
)

// fixture is a live run with a task of each kind: done, blocked after three attempts, held, accepted, with a question,
// without quota, in conflict with another, and at its second attempt.
func fixture(t *testing.T) (root string, saved store.Saved) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "shelf")
	home := store.NewHome(root)
	st := store.State{Version: store.StateVersion, ID: "loop-1a2b", Kind: store.KindTag, Tag: "shelf",
		StartedAt: time.Now(), TasksTotal: 8, TotalWaves: 2, ExitReason: store.ExitReason{Type: "running"}}
	state, err := json.Marshal(&st)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{filepath.Join(root, ".scud", "tasks", "shelf.json"): eight,
		home.Default(): string(state), filepath.Join(home.Run(st.ID), "x"): ""} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, _, err := journal.Open(atomicfile.OS(), home.Events(st.ID), st.ID, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	add := func(e journal.Event) {
		t.Helper()
		if err := j.Append(&e); err != nil {
			t.Fatal(err)
		}
	}
	unit := func(task string, n int) journal.Unit {
		return journal.Unit{Task: task, Title: map[string]string{"2": "Import", "5": "Search"}[task], Wave: 1,
			Attempt: n, Of: 3, Slot: 1}
	}
	try := func(task string, n int, v journal.Verdict, reason string, d journal.Detail) {
		t.Helper()
		if n == 1 {
			add(journal.Event{Type: journal.TaskStarted, Unit: unit(task, 0)})
		}
		add(journal.Event{Type: journal.AttemptStarted, Unit: unit(task, n), Tree: "t0"})
		if v != "" {
			add(journal.Event{Type: journal.AttemptFinished, Unit: unit(task, n), Verdict: v, Reason: reason,
				Tree: "t1", Detail: &d})
		}
	}
	add(journal.Event{Type: journal.LoopStarted})
	try("1", 1, journal.Verified, "", journal.Detail{})
	add(journal.Event{Type: journal.TaskDone, Unit: unit("1", 1)})
	for n := 1; n <= 3; n++ {
		try("2", n, journal.Failed, failing, journal.Detail{Checked: journal.Checked{Output: failing}})
	}
	add(journal.Event{Type: journal.TaskBlocked, Unit: unit("2", 3), Verdict: journal.Failed, Reason: failing})
	accepted := journal.Detail{Grade: journal.Accepted}
	try("4", 1, journal.Verified, "accepted by a person", accepted)
	add(journal.Event{Type: journal.TaskDone, Unit: unit("4", 1), Reason: "accepted by a person",
		Detail: &accepted})
	try("5", 1, journal.Blocked, "it asks: "+question, journal.Detail{})
	add(journal.Event{Type: journal.TaskBlocked, Unit: unit("5", 1), Verdict: journal.Blocked,
		Reason: "it asks: " + question, Detail: &journal.Detail{Speech: journal.Speech{Question: question}}})
	try("7", 1, journal.Clashed, "merge conflict with task 1: f.go", journal.Detail{})
	try("7", 2, "", "", journal.Detail{})
	try("8", 1, "", "", journal.Detail{})
	until := time.Now().Add(2 * time.Hour)
	try("6", 1, journal.Limited, quota, journal.Detail{})
	add(journal.Event{Type: journal.LimitWaiting, Unit: unit("6", 1), Reason: quota,
		Detail: &journal.Detail{Client: journal.Client{Backend: "claude"}, Exit: journal.Exit{Until: &until}}})
	lock := flock.New(home.Default() + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	return root, store.Saved{Path: home.Default(), State: &st}
}

// TestSameFacts: text, JSON, reports, live view, page and notice say the same of one run.
func TestSameFacts(t *testing.T) {
	root, saved := fixture(t)
	look := func() *view.Loop {
		t.Helper()
		l, err := view.Of(root, saved)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := look()
	for id, want := range map[string]view.Stand{"1": view.Done, "2": view.Blocked, "3": view.Held, "4": view.Done,
		"5": view.Asks, "6": view.Limited, "7": view.Running, "8": view.Running} {
		if got := l.Task(id).Stand; got != want {
			t.Errorf("task %s is %s, want %s", id, got, want)
		}
	}
	asJSON, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var why strings.Builder
	for _, id := range []string{"2", "4", "5", "6", "7", "8"} {
		task, _ := l.Board.File.Task(id)
		w, err := l.Board.Why(task, view.Kept{}, func(string) string { return "" }, "")
		if err != nil {
			t.Fatal(err)
		}
		why.WriteString(print.Why(w))
	}
	var page strings.Builder
	if err := web.Report(&page, l); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"html": page.String(),
		"json": string(asJSON), "status": print.Status(l, false, false, false),
		"waves": print.Waves(l.Board, false, 0), "list": print.Loops(view.All(root, []store.Saved{saved}), true),
		"why": why.String(), "markdown": string(print.Markdown(l)), "junit": string(print.JUnit(l)),
		"live view": screen(t, root, saved), "page": webPage(t, root), "notice": notices(t, root),
	}
	for name, want := range map[string][]string{
		"json": {`"done":2,"blocked":1,`, `"questions":1}`, `"held":1,`, question, failing, `"state":"running"`, quota,
			`"grade":"accepted"`},
		"status": {"Tasks: 1 question, 1 blocked, 2 running, 2/8 done, 1 held", "asks: 5 Search", question, failing,
			quota, "Accepted: 4"},
		"waves": {": 2 done, .*1 question, 1 blocked, 1 held", `5 +asks +Search`, `4 +done +Slugs  \(accepted\)`},
		"list":  {`running +2/8 `},
		"html": {`<dt>Questions</dt><dd>1`, `<dt>Blocked</dt><dd>1`, `<dt>Running</dt><dd>2`, "2 of 8", question,
			failing, quota, "done: accepted", "merge conflict with task 1: f.go"},
		"why": {"after 3 attempts", failing, question, "was accepted by a person", quota,
			`merge conflict with\s+task 1: f.go`, "attempt 2 of 3"},
		"markdown": {"# shelf: 2 of 8 tasks done", `\| done \(accepted\) \|`, "blocked: " + failing,
			"asks: " + question},
		"junit":     {`failures="2"`, failing, question, ">accepted<"},
		"live view": {"1 question", "1 blocked", "2 running", "2/8 done", "1 held", question},
		"page": {`<dt>Questions</dt><dd>1`, `<dt>Blocked</dt><dd>1`, `<dt>Running</dt><dd>2`, "2 of 8", question,
			failing, quota, "done: accepted"},
		"notice": {`"tasks_done":2,"tasks_blocked":1`, question, failing, quota},
	} {
		text := texts[name]
		if name == "page" || name == "html" {
			text = strings.ReplaceAll(text, "&#39;", "'")
		}
		for _, w := range want {
			if !regexp.MustCompile(w).MatchString(text) && !strings.Contains(text, w) {
				t.Errorf("%s: %q is missing in\n%s", name, w, text)
			}
		}
	}
	if text := texts["why"]; strings.Contains(text[strings.Index(text, "4 Slugs"):strings.Index(text, "5 Search")],
		"verified") {
		t.Errorf("accepted work is called verified:\n%s", text)
	}
}

// webPage is the run's page in a browser.
func webPage(t *testing.T, root string) string {
	t.Helper()
	s, err := web.New(web.Options{Root: root, Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/loops/loop-1a2b", nil)
	r.Host = "localhost"
	r.Header.Set("Descartes-Key", strings.TrimPrefix(s.Path(), "/#key="))
	s.Handler().ServeHTTP(w, r)
	return w.Body.String()
}

// notices are those of the run, as a command gets them.
func notices(t *testing.T, root string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "notices")
	n, err := notify.New(notify.Options{Targets: []string{"cat >> " + out}, Warn: func(text string) { t.Error(text) }})
	if err != nil {
		t.Fatal(err)
	}
	n.Begin(root, "loop-1a2b")
	n.End()
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// screen is the live view's first.
func screen(t *testing.T, root string, saved store.Saved) string {
	t.Helper()
	m := newModel(Options{Root: root}, true)
	l, err := view.Of(root, saved)
	if m.Update(seenMsg{loop: l}); err != nil {
		t.Fatal(err)
	}
	return frame(m)
}
