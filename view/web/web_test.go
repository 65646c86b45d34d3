package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"descartes/agent/render"
	"descartes/agent/stream"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// project is a folder with a list and a loop over it, and the page that shows it.
type project struct {
	t       testing.TB
	root    string
	home    store.Home
	server  *Server
	http    *httptest.Server
	journal *journal.Journal
	ran     [][]string // commands that buttons ran
	specs   []string   // that were asked for
	stdin   string
	refuse  error
}

const evil = `<script>alert("x")</script>`

func newProject(t testing.TB, tasks int) *project {
	t.Helper()
	p := &project{t: t, root: t.TempDir()}
	p.home = store.NewHome(p.root)
	p.list(tasks)
	p.write(".descartes/loop-state.json", &store.State{Version: store.StateVersion, ID: "loop-1234",
		Kind: store.KindTag, Tag: "x", StartedAt: time.Now(), TotalWaves: 10,
		ExitReason: store.ExitReason{Type: "running"}})
	if err := os.MkdirAll(p.home.Run("loop-1234")+"/logs", 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.journal, _, err = journal.Open(atomicfile.OS(), p.home.Events("loop-1234"), "loop-1234",
		time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.journal.Close() })
	p.append(&journal.Event{Type: journal.LoopStarted})
	p.server, err = New(Options{Root: p.root, Host: "127.0.0.1", Repo: patcher{}, Run: p.run,
		Read: func(_ *store.State, _ string, show func(render.Item)) (io.WriteCloser, error) {
			return closing{render.New(stream.FormatText, show)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	p.http = httptest.NewServer(p.server.Handler())
	t.Cleanup(p.http.Close)
	t.Cleanup(p.http.CloseClientConnections)
	return p
}

// list writes a task list of chains of ten.
func (p *project) list(n int) {
	p.t.Helper()
	type task struct {
		ID     int    `json:"id"`
		Title  string `json:"title"`
		Status string `json:"status"`
		Deps   []int  `json:"dependencies"`
	}
	var list []task
	for i := range n {
		one := task{ID: i + 1, Title: fmt.Sprintf("Task %d", i+1), Status: "pending", Deps: []int{}}
		if i == 0 {
			one.Title = evil
		}
		if i%10 > 0 {
			one.Deps = []int{i}
		}
		list = append(list, one)
	}
	p.write(".scud/tasks/x.json", map[string]any{"x": map[string]any{"tasks": list}})
}

type closing struct{ *render.Renderer }

func (c closing) Close() error { c.Renderer.Close(); return nil }

type patcher struct{}

func (patcher) Patch(context.Context, gitops.Tree, gitops.Tree, int) (string, error) {
	return "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+" + evil + "\x1b[31m\n", nil
}

func (p *project) run(_ context.Context, stdin string, args ...string) (string, error) {
	if args[0] == "spec" {
		p.specs = append(p.specs, strings.Join(args, " "))
		return "the spec " + evil, nil
	}
	p.ran, p.stdin = append(p.ran, args), stdin
	return "it is asked\n", p.refuse
}

func (p *project) write(name string, v any) {
	p.t.Helper()
	b, err := json.Marshal(v)
	path := filepath.Join(p.root, name)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o600)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) append(events ...*journal.Event) {
	p.t.Helper()
	if err := p.journal.Append(events...); err != nil {
		p.t.Fatal(err)
	}
}

// attempt begins and ends an attempt at a task.
func (p *project) attempt(task string, verdict journal.Verdict, reason string) {
	p.t.Helper()
	p.append(&journal.Event{Type: journal.TaskStarted, Unit: journal.Unit{Task: task, Wave: 1}},
		&journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Task: task, Wave: 1, Attempt: 1, Of: 3},
			Tree: "a"},
		&journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Task: task, Wave: 1, Attempt: 1},
			Verdict: verdict, Reason: reason, Tree: "b", Detail: &journal.Detail{
				Checked: journal.Checked{Output: evil}}})
	if verdict == journal.Verified {
		p.append(&journal.Event{Type: journal.TaskDone, Unit: journal.Unit{Task: task, Wave: 1}})
	}
}

// get asks for a page, as its script does that was given the printed address where key is true.
func (p *project) get(path string, key bool, change func(*http.Request)) (int, string) {
	p.t.Helper()
	return p.ask(http.MethodGet, path, "", key, change)
}

func (p *project) ask(method, path, body string, key bool, change func(*http.Request)) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.http.URL+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if key {
		r.Header.Set("Descartes-Key", p.server.key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range []string{"Set-Cookie", "Access-Control-Allow-Origin", "Access-Control-Allow-Headers"} {
		if v := resp.Header.Get(name); v != "" {
			p.t.Errorf("%s: %s: %s", path, name, v)
		}
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp,
		"default-src 'none'; script-src 'self'") {
		p.t.Errorf("%s: policy %q", path, csp)
	}
	return resp.StatusCode, string(b)
}

func origin(p *project) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Origin", p.http.URL) }
}

// TestPages shows what a person looks for, and never as markup what an agent or a list says.
func TestPages(t *testing.T) {
	p := newProject(t, 12)
	p.attempt("1", journal.Verified, "")
	p.attempt("2", journal.Failed, evil)
	p.append(&journal.Event{Type: journal.TaskBlocked, Unit: journal.Unit{Task: "2", Wave: 1, Title: "Task 2"},
		Verdict: journal.Failed, Reason: "a_test.go:7: " + evil + "\u202eexe.\x1b[31m"})
	for path, want := range map[string][]string{
		"/": {"loop-1234", "killed"},
		"/loops/loop-1234": {"<h1>x</h1>", "Wave 1", "1 of 12", `class="card s-done`,
			`class="card s-blocked`, `class="card s-held`, "a_test.go:7: &lt;script&gt;"},
		"/loops/loop-1234/tasks/2":        {"Attempt 1: failed", "What verify printed", "the spec &lt;script&gt;"},
		"/loops/loop-1234/tasks/2/1/diff": {`<span class="gone">-old`, `<span class="added">&#43;&lt;script&gt;`},
		"/assets/serve.js":                {"Descartes-Key"},
	} {
		code, text := p.get(path, true, nil)
		if code != http.StatusOK {
			t.Errorf("%s: got %d, %s", path, code, text)
		}
		if strings.ContainsAny(text, "\u202e\x1b") {
			t.Errorf("%s: what others wrote turns the page's text around", path)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is missing in\n%s", path, w, text)
			}
		}
		if strings.Contains(text, evil) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: words of others as they are:\n%s", path, text)
		}
	}
	for _, path := range []string{"/loops/none", "/loops/loop-1234/tasks/99", "/loops/loop-1234/tasks/2/7/diff",
		"/assets/../web.go", "/loops/loop-1234/tasks/..%2f..%2fevents.ndjson/1/log",
		"/loops/..%2f..%2fetc", "/loops/loop-1234/tasks/2/1/log"} {
		if code, text := p.get(path, true, nil); code != http.StatusNotFound {
			t.Errorf("%s: got %d, %s", path, code, text)
		}
	}
}

// TestDoor lets in who has the key and names us, and lets press buttons from our own pages only.
func TestDoor(t *testing.T) {
	p := newProject(t, 2)
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, c := range []struct {
		method, path string
		key          bool
		change       func(*http.Request)
		want         int
	}{
		{"GET", "/", true, nil, 200},
		{"GET", "/assets/page.css", false, nil, 200},
		{"GET", "/", true, host("evil.example"), 421},
		{"GET", "/assets/page.css", false, host("evil.example"), 421},
		{"GET", "/", true, host("evil.example:80"), 421},
		{"GET", "/", true, host("localhost:9"), 200},
		{"GET", "/", true, host("[::1]:9"), 200},
		{"GET", "/", true, host("192.0.2.7"), 421},
		{"POST", "/loops/loop-1234/pause", false, origin(p), 403},
		{"POST", "/loops/loop-1234/pause", true, nil, 403},
		{"POST", "/loops/loop-1234/pause", true, func(r *http.Request) {
			r.Header.Set("Origin", "http://evil.example")
		}, 403},
		{"POST", "/loops/loop-1234/pause", true, func(r *http.Request) {
			origin(p)(r)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, 403},
		{"POST", "/loops/loop-1234/pause?key=" + p.server.key, false, origin(p), 403},
		{"POST", "/loops/loop-1234/pause", true, origin(p), 200},
		{"POST", "/loops/loop-1234/explode", true, origin(p), 404},
		{"POST", "/loops/none/pause", true, origin(p), 404},
		{"PUT", "/loops/loop-1234/pause", true, origin(p), 405},
	} {
		if code, text := p.ask(c.method, c.path, "", c.key, c.change); code != c.want {
			t.Errorf("%s %s (key %v): got %d, want %d: %s", c.method, c.path, c.key, code, c.want, text)
		}
	}
	if got := fmt.Sprint(p.ran); got != "[[loop pause loop-1234]]" {
		t.Errorf("commands: %s", got)
	}
	p.server.opt.Open = true
	if code, text := p.get("/", true, host("192.0.2.7")); code != http.StatusOK {
		t.Errorf("reached from another machine by an address of ours: %d %s", code, text)
	}
}

// TestKey: without the key nothing is answered but a page that is the same for everybody, whatever else a request
// carries; and no answer makes a browser send the key by itself, as it would send a cookie to every other port of this
// machine.
func TestKey(t *testing.T) {
	p := newProject(t, 2)
	p.attempt("1", journal.Verified, "")
	_, shell := p.get("/", false, nil)
	for _, path := range []string{"/", "/loops/loop-1234", "/loops/loop-1234/live", "/loops/loop-1234/tasks/1",
		"/loops/loop-1234/tasks/1/1/diff", "/loops/loop-1234/tasks/1/1/log", "/loops/none",
		"/?key=" + p.server.key, "/?token=" + p.server.key} {
		for name, change := range map[string]func(*http.Request){
			"nothing":         nil,
			"a cookie":        func(r *http.Request) { r.Header.Set("Cookie", "descartes_key="+p.server.key) },
			"a login":         func(r *http.Request) { r.SetBasicAuth("descartes", p.server.key) },
			"an empty key":    func(r *http.Request) { r.Header.Set("Descartes-Key", "") },
			"part of the key": func(r *http.Request) { r.Header.Set("Descartes-Key", p.server.key[1:]) },
			"two keys":        func(r *http.Request) { r.Header["Descartes-Key"] = []string{p.server.key, "x"} },
		} {
			code, text := p.get(path, false, change)
			if code != http.StatusForbidden {
				t.Errorf("%s with %s: got %d", path, name, code)
			}
			if text != shell && text != "open the address that descartes serve has printed: it has the key to this page\n" {
				t.Errorf("%s with %s: %s", path, name, text)
			}
		}
	}
	for _, path := range []string{"/", "/loops/loop-1234", "/assets/serve.js"} {
		_, text := p.get(path, true, func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") })
		if strings.Contains(text, p.server.key) {
			t.Errorf("%s has the key in it", path)
		}
	}
}

// TestButtons runs the commands that a person would type, and shows what they say.
func TestButtons(t *testing.T) {
	p := newProject(t, 2)
	for _, c := range []struct{ action, form, want string }{
		{"cancel", "", "loop cancel loop-1234"},
		{"cancel", "now=1", "loop cancel loop-1234 --now"},
		{"cancel", "undo=1", "loop cancel loop-1234 --undo"},
		{"pause", "undo=1", "loop pause loop-1234 --undo"},
		{"resume", "", "loop resume --name loop-1234 --detach"},
		{"retry", "", "loop resume --name loop-1234 --retry-blocked --detach"},
		{"step", "", "loop resume --name loop-1234 --step --detach"},
		{"answer", "task=-f&text=" + url.QueryEscape("Tabs & "+evil), "answer --tag x -- -f -"},
	} {
		p.ran = nil
		code, text := p.ask("POST", "/loops/loop-1234/"+c.action, c.form, true, origin(p))
		if code != 200 || len(p.ran) != 1 || strings.Join(p.ran[0], " ") != c.want ||
			!strings.Contains(text, "it is asked") {
			t.Errorf("%s: got %d, %v, %s", c.action, code, p.ran, text)
		}
	}
	if p.stdin != "Tabs & "+evil {
		t.Errorf("the answer: %q", p.stdin)
	}
	p.refuse = errors.New("no run is under way here " + evil)
	if code, text := p.ask("POST", "/loops/loop-1234/pause", "", true, origin(p)); code != 200 ||
		!strings.Contains(text, "no run is under way here &lt;script") || !strings.Contains(text, "failed") {
		t.Errorf("a refusal: %d %s", code, text)
	}
	p.ran = nil
	for _, form := range []string{"task=1&text=+", "task=1&text=" + strings.Repeat("x", store.MaxAnswer+5000)} {
		if code, _ := p.ask("POST", "/loops/loop-1234/answer", form, true, origin(p)); code != http.StatusBadRequest ||
			p.ran != nil {
			t.Errorf("answer of %d bytes: got %d, ran %v", len(form), code, p.ran)
		}
	}
}

// TestOwnList: what a button does to a task it does in the list of the run, also where another list has the same tag.
func TestOwnList(t *testing.T) {
	p := newProject(t, 2)
	p.write("lists/other.json", map[string]any{"tag": "x", "tasks": []any{
		map[string]any{"id": 1, "title": "One", "status": "blocked"}}})
	st := store.State{Version: store.StateVersion, ID: "loop-1234", Kind: store.KindTag, Tag: "x",
		StartedAt: time.Now(), TotalWaves: 1, ExitReason: store.ExitReason{Type: "running"}}
	st.Config.Scud.Tag, st.Config.Scud.TasksFile = "x", "lists/other.json"
	p.write(".descartes/loop-state.json", &st)
	for action, want := range map[string]string{"answer": "answer --tag x --tasks-file lists/other.json -- 1 -",
		"accept": "answer --accept --tag x --tasks-file lists/other.json -- 1"} {
		p.ran = nil
		if code, _ := p.ask("POST", "/loops/loop-1234/"+action, "task=1&text=SQL", true, origin(p)); code != 200 ||
			len(p.ran) != 1 || strings.Join(p.ran[0], " ") != want {
			t.Errorf("%s: got %d, %v, want %s", action, code, p.ran, want)
		}
	}
	specs := p.specs
	if p.get("/loops/loop-1234/tasks/1", true, nil); !strings.Contains(strings.Join(p.specs, "; "),
		"spec 1 --tag x --tasks-file lists/other.json") {
		t.Errorf("specs of %v, %v", specs, p.specs)
	}
}

// events reads a stream.
func (p *project) events(path string) (next func() (event, data string)) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.http.URL+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Descartes-Key", p.server.key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return func() (event, data string) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return "closed", err.Error()
			}
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "event: "):
				event = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				data += line[len("data: "):] + "\n"
			case line == "" && event != "":
				return event, data
			}
		}
	}
}

// TestNext says of a loop that nobody runs what to type.
func TestNext(t *testing.T) {
	p := newProject(t, 3)
	p.attempt("1", journal.Verified, "")
	if _, page := p.get("/loops/loop-1234", true, nil); !strings.Contains(page,
		"Next: <code>descartes resume</code>") {
		t.Errorf("a killed loop: %s", page)
	} else if !strings.Contains(page, `class="can-resume can-step "`) {
		t.Errorf("a killed loop has no button that resumes it: %s", page)
	}
	p.append(&journal.Event{Type: journal.LoopFinished, Reason: string(journal.AllDone),
		Detail: &journal.Detail{Exit: journal.Exit{End: string(journal.AllDone)}}})
	if _, page := p.get("/loops/loop-1234", true, nil); strings.Contains(page, "can-resume") ||
		strings.Contains(page, "can-step") {
		t.Errorf("an ended loop has buttons that cannot do anything: %s", page)
	}
}

// TestLive says that a page has changed, at once and then with each change, also of the list; the page fetches its
// parts.
func TestLive(t *testing.T) {
	p := newProject(t, 12)
	next := p.events("/loops/loop-1234/live")
	changed := func(what string, want ...string) {
		t.Helper()
		if event, data := next(); event != "changed" {
			t.Errorf("%s: %s\n%s", what, event, data)
		}
		_, parts := p.get("/loops/loop-1234/parts", true, nil)
		for _, w := range append(want, `id="head" hx-swap-oob="true"`) {
			if !strings.Contains(parts, w) {
				t.Errorf("%s: %q is missing in\n%s", what, w, parts)
			}
		}
	}
	changed("at once", "0 of 12")
	p.attempt("1", journal.Verified, "")
	changed("one task is done", "s-done", "1 of 12")
	p.list(13)
	changed("another list", "1 of 13")
	if code, _ := p.get("/loops/none/live", true, nil); code != http.StatusNotFound {
		t.Errorf("a loop that is not there: %d", code)
	}
}

// TestLog follows a log as text, of a bounded length.
func TestLog(t *testing.T) {
	p := newProject(t, 2)
	p.attempt("1", journal.Failed, "")
	path := p.home.Log("loop-1234", "1", 1)
	if err := os.WriteFile(path, []byte(strings.Repeat("a line of the past\n", maxTail/10)+evil+" \x1b]0;x\x07end\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	next, text := p.events("/loops/loop-1234/tasks/1/1/log"), ""
	for event, data := next(); event == "line"; event, data = next() {
		text += data
	}
	if len(text) > 4*maxTail || !strings.Contains(text, "earlier bytes are in") ||
		!strings.Contains(text, "&lt;script&gt;") || strings.Contains(text, "\x1b") {
		t.Errorf("%d bytes, ending in %q", len(text), text[max(0, len(text)-300):])
	}
}

// TestIdle keeps many streams open, among them some that nobody reads, and still answers; one too many is refused.
func TestIdle(t *testing.T) {
	p := newProject(t, 2)
	address := "/loops/loop-1234/live"
	for range 50 {
		c, err := net.Dial("tcp", p.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nDescartes-Key: %s\r\n\r\n", address, p.server.key)
	}
	for deadline := time.Now().Add(time.Minute); p.server.streams.Load() < 50; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 50 streams are open", p.server.streams.Load())
		}
	}
	p.attempt("1", journal.Verified, "")
	if code, text := p.get("/loops/loop-1234", true, nil); code != 200 || !strings.Contains(text, "1 of 2") {
		t.Errorf("with 50 idle pages: %d", code)
	}
	p.server.streams.Add(maxStreams - 50)
	if code, _ := p.get("/loops/loop-1234/live", true, nil); code != http.StatusServiceUnavailable {
		t.Errorf("one too many: got %d", code)
	}
}

// TestServe ends with its context, open streams or not.
func TestServe(t *testing.T) {
	p := newProject(t, 2)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.server.Serve(ctx, l) }()
	p.http.URL = "http://" + l.Addr().String()
	next := p.events("/loops/loop-1234/live")
	if event, _ := next(); event != "changed" {
		t.Errorf("got %s", event)
	}
	p.events("/loops/loop-1234/live")
	stop()
	if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("ended with %v", err)
	}
}

func BenchmarkBoard(b *testing.B) {
	p := newProject(b, 10_000)
	p.attempt("1", journal.Verified, "")
	for b.Loop() {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/loops/loop-1234", nil)
		r.Host = "localhost"
		r.Header.Set("Descartes-Key", p.server.key)
		if p.server.Handler().ServeHTTP(w, r); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}

// What a reviewer said stands on the task's page, as text.
func TestTaskReview(t *testing.T) {
	p := newProject(t, 2)
	p.append(&journal.Event{Type: journal.TaskStarted, Unit: journal.Unit{Task: "1", Wave: 1}},
		&journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "1", Wave: 1, Attempt: 1, Of: 3},
			Tree: "a"},
		&journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Task: "1", Wave: 1, Attempt: 1},
			Verdict: journal.Failed, Reason: "the review rejects it: no", Tree: "b",
			Detail: &journal.Detail{Checked: journal.Checked{Output: "no"},
				Looks: []journal.Look{{Name: "review", Objects: true, Shown: []string{"not met: " + evil},
					Agent: &journal.Detail{Client: journal.Client{Backend: "judge"}}}}}})
	code, page := p.get("/loops/loop-1234/tasks/1", true, nil)
	for _, want := range []string{"review, by judge", "not met: &lt;script&gt;", "What the review says"} {
		if code != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%d: no %q in\n%s", code, want, page)
		}
	}
}

// TestTaskButtons: a task's page has its plan, and the buttons that do something now.
func TestTaskButtons(t *testing.T) {
	p := newProject(t, 2)
	list := func(status string) {
		p.write(".scud/tasks/x.json", map[string]any{"x": map[string]any{"tasks": []any{map[string]any{"id": 1,
			"title": "One", "status": status, "description": "What the plan says of it."}}}})
	}
	list("blocked")
	p.write(".descartes/loop-state.json", &store.State{Version: store.StateVersion, ID: "loop-1234",
		Kind: store.KindTag, Tag: "x", StartedAt: time.Now(), TotalWaves: 1, Completed: true, Seq: 100,
		ExitReason: store.ExitReason{Type: string(journal.TasksBlocked)}})
	unit := journal.Unit{Task: "1", Wave: 1, Attempt: 1, Of: 1}
	p.append(&journal.Event{Type: journal.TaskStarted, Unit: journal.Unit{Task: "1", Wave: 1}},
		&journal.Event{Type: journal.AttemptStarted, Unit: unit, Tree: "a"},
		&journal.Event{Type: journal.AttemptFinished, Unit: unit, Verdict: journal.Failed, Reason: "no", Tree: "b",
			Ref: "refs/descartes/loop-1234/tasks/1/1", Detail: &journal.Detail{}},
		&journal.Event{Type: journal.TaskBlocked, Unit: unit, Verdict: journal.Failed, Reason: "no"},
		&journal.Event{Type: journal.LoopFinished, Reason: string(journal.TasksBlocked), Detail: &journal.Detail{}})
	check := func(when string, want ...string) {
		t.Helper()
		_, page := p.get("/loops/loop-1234/tasks/1", true, nil)
		if !strings.Contains(page, "What the plan says of it.") {
			t.Errorf("%s: no plan in\n%s", when, page)
		}
		for _, button := range []string{"Retry", "Accept its work", "Answer", "Resume the run"} {
			if has := strings.Contains(page, ">"+button+"</button>"); has != slices.Contains(want, button) {
				t.Errorf("%s: button %s: %v in\n%s", when, button, has, page)
			}
		}
	}
	check("blocked", "Retry", "Accept its work")
	list("pending")
	check("to be tried again", "Resume the run")
	list("blocked")
	p.append(&journal.Event{Type: journal.TaskBlocked, Unit: unit, Verdict: journal.Blocked, Reason: "it asks: Tabs?",
		Detail: &journal.Detail{Speech: journal.Speech{Question: "Tabs?"}}})
	check("asked", "Retry", "Accept its work", "Answer")
	list("pending")
	check("answered", "Resume the run")
	list("blocked")
	lock := flock.New(p.home.Default() + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	check("asked by a run that goes on", "Retry", "Accept its work", "Answer")
	if p.ask("POST", "/loops/loop-1234/retry", "task=1", true, origin(p)); len(p.ran) != 1 ||
		strings.Join(p.ran[0], " ") != "answer --tag x -- 1 -" || p.stdin == "" {
		t.Errorf("retry in a live run ran %v", p.ran)
	}
	p.ran = nil
	if p.ask("POST", "/loops/loop-1234/accept", "task=1", true, origin(p)); len(p.ran) != 1 ||
		strings.Join(p.ran[0], " ") != "answer --accept --tag x -- 1" {
		t.Errorf("accept ran %v", p.ran)
	}
}
