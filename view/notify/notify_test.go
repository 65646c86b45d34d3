package notify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/redact"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// hook is a server that answers with a list of statuses, the last one again and again.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	bodies   []string
	requests []*http.Request
}

func newHook(t *testing.T, statuses ...int) *hook {
	h := &hook{statuses: statuses}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.bodies, h.requests = append(h.bodies, string(b)), append(h.requests, r)
		status := h.statuses[0]
		if len(h.statuses) > 1 {
			h.statuses = h.statuses[1:]
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(h.Close)
	return h
}

// night is what a run records that has everything to tell.
func night() []*journal.Event {
	until, usd := time.Date(2027, 1, 2, 3, 4, 0, 0, time.UTC), 1.5
	return []*journal.Event{
		{Type: journal.LoopStarted},
		{Type: journal.TaskBlocked, Unit: journal.Unit{Task: "0"}, Reason: "of the run before"},
		{Type: journal.LoopFinished, Reason: string(journal.TasksBlocked)},
		{Type: journal.LoopResumed},
		{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "1", Attempt: 1}},
		{Type: journal.AgentFinished, Unit: journal.Unit{Task: "1", Attempt: 1},
			Detail: &journal.Detail{Exit: journal.Exit{End: journal.EndFinished}, Spent: journal.Spent{USD: &usd}}},
		{Type: journal.TaskDone, Unit: journal.Unit{Task: "1"}},
		{Type: journal.LimitWaiting, Unit: journal.Unit{Task: "2"}, Reason: "weekly limit",
			Detail: &journal.Detail{Client: journal.Client{Backend: "claude"}, Exit: journal.Exit{Until: &until}}},
		{Type: journal.LimitWaiting, Unit: journal.Unit{Task: "3"}, Reason: "weekly limit",
			Detail: &journal.Detail{Client: journal.Client{Backend: "claude"}, Exit: journal.Exit{Until: &until}}},
		{Type: journal.LimitWaiting, Unit: journal.Unit{Task: "3"}, Reason: "a fault",
			Detail: &journal.Detail{Client: journal.Client{Backend: "claude"},
				Exit: journal.Exit{Cause: journal.CauseTransient, Until: &until}}},
		{Type: journal.TaskBlocked, Unit: journal.Unit{Task: "2", Title: "Slugs"}, Reason: "it asks: Which?",
			Detail: &journal.Detail{Speech: journal.Speech{Question: "Which?"}}},
		{Type: journal.TaskBlocked, Unit: journal.Unit{Task: "3", Title: "Store"},
			Reason: "the key is s3cr3t-value-1\x1b[2J"},
		{Type: journal.BreakerOpened, Reason: "3 tasks in a row"},
		{Type: journal.LoopFinished, Reason: string(journal.BreakerOpen)},
	}
}

// record writes a run over a tag, or over a prompt, with these events into a project called shelf.
func record(t *testing.T, tag string, events ...*journal.Event) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "shelf")
	home, kind := store.NewHome(root), store.KindPrompt
	if tag != "" {
		kind = store.KindTag
	}
	state, err := json.Marshal(&store.State{Version: store.StateVersion, ID: "loop-1", Kind: kind, Tag: tag})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{home.Default(): string(state),
		filepath.Join(home.Run("loop-1"), "x"): ""} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, _, err := journal.Open(atomicfile.OS(), home.Events("loop-1"), "loop-1", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Append(events...); err != nil {
		t.Fatal(err)
	}
	return root
}

// tell has the events of a run sent, and returns what was warned of.
func tell(t *testing.T, root string, opt Options) (warned []string) {
	t.Helper()
	var mu sync.Mutex
	opt.Warn = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, text)
	}
	n, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	n.pause = func(int) time.Duration { return 0 }
	n.Begin(root, "loop-1")
	n.Begin(root, "loop-1") // each event of a run says so
	n.End()
	return warned
}

func TestNotices(t *testing.T) {
	h := newHook(t, 200)
	secret := redact.Of([]redact.Secret{{Name: "KEY", Value: "s3cr3t-value-1"}})
	if warned := tell(t, record(t, "x", night()...), Options{Targets: []string{h.URL},
		Redact: secret}); warned != nil {
		t.Errorf("warned: %q", warned)
	}
	var got []string
	for _, b := range h.bodies {
		var n view.Notice
		if err := json.Unmarshal([]byte(b), &n); err != nil {
			t.Fatal(err)
		}
		got = append(got, n.Event+"|"+n.Heading+"|"+n.Message)
	}
	want := []string{
		"quota|shelf x: out of quota|weekly limit\nwaits until ",
		"question|shelf x: task 2 asks|Slugs\nWhich?",
		"blocked|shelf x: task 3 is blocked|Store\nthe key is ",
		"breaker|shelf x: the breaker opened|3 tasks in a row",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
	if all := strings.Join(h.bodies, ""); strings.Contains(all, "s3cr3t") || strings.Contains(all, "\\u001b") {
		t.Errorf("sent was %s", all)
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		tag    string
		before []*journal.Event
		ending journal.Ending
		want   string
	}{
		{"x", nil, journal.AllDone, "finished|shelf x: done|0 tasks done, in "},
		{"x", nil, journal.DeadlinePast, "finished|shelf x: deadline reached|said\n"},
		{"x", nil, journal.QuotaUsedUp, "quota|shelf x: quota used up|"},
		{"", nil, journal.GateBlocked, "blocked|shelf: needs you|"},
		{"", []*journal.Event{{Type: journal.IterationStarted, Unit: journal.Unit{Iteration: 1}},
			{Type: journal.IterationFinished, Unit: journal.Unit{Iteration: 1}, Verdict: journal.Asks,
				Message: "Proceed?"}},
			journal.GateAsks, "question|shelf: the run asks|Proceed?"},
		{"", nil, journal.GateAsks, "question|shelf: waits for your answer|"},
	} {
		h := newHook(t, 200)
		message := "said"
		if c.ending == journal.AllDone {
			message = ""
		}
		events := append([]*journal.Event{{Type: journal.LoopStarted}}, c.before...)
		tell(t, record(t, c.tag, append(events, &journal.Event{Type: journal.LoopFinished, Reason: string(c.ending),
			Message: message, Detail: &journal.Detail{Exit: journal.Exit{Code: 7}}})...),
			Options{Targets: []string{h.URL}})
		if len(h.bodies) != 1 {
			t.Errorf("%s: sent %q", c.ending, h.bodies)
			continue
		}
		var n view.Notice
		if err := json.Unmarshal([]byte(h.bodies[0]), &n); err != nil {
			t.Fatal(err)
		}
		if got := n.Event + "|" + n.Heading + "|" + n.Message; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.ending, got, c.want)
		}
	}
}

// TestTries counts the calls that a server gets for one notice.
func TestTries(t *testing.T) {
	for _, c := range []struct {
		statuses []int
		calls    int
		warns    bool
	}{
		{[]int{200}, 1, false},
		{[]int{500, 502, 204}, 3, false},
		{[]int{500}, tries, true},
		{[]int{404}, 1, true},
		{[]int{429, 200}, 2, false},
	} {
		h := newHook(t, c.statuses...)
		warned := tell(t, record(t, "x", &journal.Event{Type: journal.LoopStarted},
			&journal.Event{Type: journal.LoopFinished, Reason: string(journal.AllDone)}),
			Options{Targets: []string{h.URL + "/s3cr3t"}})
		if len(h.bodies) != c.calls || (len(warned) > 0) != c.warns {
			t.Errorf("%v: %d calls, warned %q", c.statuses, len(h.bodies), warned)
		}
		if strings.Contains(strings.Join(warned, ""), "s3cr3t") {
			t.Errorf("the address is shown: %q", warned)
		}
	}
}

// TestNeverWaits has a server that does not answer: notices are made all the same, the end of the run cuts it off, and
// what is said of it holds no secret.
func TestNeverWaits(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free }))
	defer server.Close()
	defer close(free)
	var events []*journal.Event
	for range 3 * waiting {
		events = append(events, &journal.Event{Type: journal.TaskBlocked, Unit: journal.Unit{Task: "1"}})
	}
	for _, c := range []struct {
		try  time.Duration // that a try may take before the run ends
		want string
	}{
		{time.Hour, "it did not answer within 0s of the run's end"},
		{time.Nanosecond, "it did not answer within 0s"},
	} {
		warned := make(chan string, 1)
		n, err := New(Options{Targets: []string{strings.Replace(server.URL, "http://", "http://me:passw0rd@", 1) +
			"/s3cr3t?k=t0ken"}, Warn: func(text string) { warned <- text }})
		if err != nil {
			t.Fatal(err)
		}
		n.pause = func(int) time.Duration { return 0 }
		n.targets[0].most = c.try
		n.Begin(record(t, "x", events...), "loop-1")
		if c.try > time.Second {
			n.targets[0].most = time.Millisecond
			n.End()
		}
		if got, want := <-warned, "nobody was notified by webhook "+strings.TrimPrefix(server.URL, "http://")+": "+
			c.want; got != want {
			t.Errorf("warned %q, want %q", got, want)
		}
		if c.try < time.Second {
			n.End()
		}
	}
}

// TestFaults has calls that cannot be made: what is said holds nothing of the URL but its host.
func TestFaults(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	hangsUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}))
	defer hangsUp.Close()
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://[::1"+r.URL.Path)
		w.WriteHeader(http.StatusFound)
	}))
	defer strange.Close()
	for url, want := range map[string]string{closed.URL: "connection refused", hangsUp.URL: "EOF",
		strange.URL: "the call failed"} {
		warned := tell(t, record(t, "x", &journal.Event{Type: journal.LoopStarted},
			&journal.Event{Type: journal.LoopFinished, Reason: string(journal.AllDone)}),
			Options{Targets: []string{strings.Replace(url, "http://", "http://me:passw0rd@", 1) + "/s3cr3t?k=t0ken"}})
		if len(warned) != 1 || !strings.HasSuffix(warned[0], ": "+want) || strings.Contains(warned[0], "s3cr3t") ||
			strings.Contains(warned[0], "t0ken") || strings.Contains(warned[0], "passw0rd") {
			t.Errorf("%s: warned %q, want %q", url, warned, want)
		}
	}
}

// TestDesktop has scripts in the place of the desktop's programs: a notice is handed over as text, whatever it holds.
func TestDesktop(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"notify-send", "osascript"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\" >"+
			filepath.Join(dir, "args")+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	n := &view.Notice{Heading: "shelf: task 5 asks", Message: "--help \" & quit\nor `not`?"}
	for system, want := range map[string]string{
		"linux":  "notify-send\n--app-name=descartes\n--\nshelf: task 5 asks\n--help \" & quit\nor `not`?\n",
		"darwin": "osascript\n-e\non run argv\n-e\ndisplay notification (item 2 of argv) with title (item 1 of argv)\n-e\nend run\nshelf: task 5 asks\n--help \" & quit\nor `not`?\n",
	} {
		if err := run(t.Context(), desktopCommand(system, n), nil, nil); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "args"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != filepath.Join(dir, want) {
			t.Errorf("%s: got %q", system, got)
		}
	}
}

func TestForms(t *testing.T) {
	n := &view.Notice{Event: "question", Heading: "shelf: task <5> asks", Message: "Tabs & spaces?"}
	if got, want := string(slack(n).body),
		`{"text":"*shelf: task \u0026lt;5\u0026gt; asks*\nTabs \u0026amp; spaces?"}`; got != want {
		t.Errorf("slack: %s, want %s", got, want)
	}
	if got, want := string(discord(n).body),
		`{"allowed_mentions":{"parse":[]},"content":"**shelf: task \u003c5\u003e asks**\nTabs \u0026 spaces?"}`; got != want {
		t.Errorf("discord: %s, want %s", got, want)
	}
	if got, want := string(telegram("7")(n).body),
		`{"chat_id":"7","text":"shelf: task \u003c5\u003e asks\nTabs \u0026 spaces?"}`; got != want {
		t.Errorf("telegram: %s, want %s", got, want)
	}
	m := ntfy(&view.Notice{Event: "blocked", Heading: "shelf: über\n", Message: strings.Repeat("ä", 3000)})
	if m.header["Title"] != "shelf: ?ber?" || m.header["Priority"] != "high" || len(m.body) > 4000 {
		t.Errorf("ntfy: %v, %d bytes", m.header, len(m.body))
	}
}

func TestTargets(t *testing.T) {
	env := []string{"TOKEN=12:ab", "EMPTY="}
	for _, c := range []struct{ text, name, err string }{
		{"bell", "bell", ""},
		{"desktop", "desktop", ""},
		{"mail -s x me", "command", ""},
		{"https://example.com/hook?x=$TOKEN", "webhook example.com", ""},
		{"https://hooks.slack.com/services/a/b", "slack hooks.slack.com", ""},
		{"https://discord.com/api/webhooks/1/x", "discord discord.com", ""},
		{"slack:https://mattermost.example/hooks/x", "slack mattermost.example", ""},
		{"ntfy:topic", "ntfy ntfy.sh", ""},
		{"ntfy:https://tk_x@ntfy.example/topic", "ntfy ntfy.example", ""},
		{"telegram:${TOKEN}@-100", "telegram api.telegram.org", ""},
		{"telegram:abc", "", "TOKEN@CHAT"},
		{"telegram:$TOKEN", "", "TOKEN@CHAT"},
		{"slack:$EMPTY", "", "EMPTY is not set"},
		{"discord:nowhere", "", "not a URL"},
		{"https://", "", "not a URL"},
		{" ", "", "empty"},
	} {
		opt := &Options{Env: env}
		got, err := parse(c.text, opt)
		if got.name != c.name || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %q, %v", c.text, got.name, err)
		}
	}
	if _, err := New(Options{Targets: []string{"bell"}, On: []string{"finished", "never"}}); err == nil ||
		!strings.Contains(err.Error(), `"never" is not one of finished, blocked, question, quota, breaker`) {
		t.Errorf("got %v", err)
	}
	if n, err := New(Options{}); n != nil || err != nil {
		t.Errorf("got %v, %v", n, err)
	}
}

// TestAuthorization sends what stands before the host as credentials, and only the wanted events.
func TestAuthorization(t *testing.T) {
	h := newHook(t, 200)
	address := "ntfy:" + strings.Replace(h.URL, "http://", "http://tk_x@", 1) + "/topic"
	tell(t, record(t, "x", night()...), Options{Targets: []string{address}, On: []string{"question"}})
	if len(h.requests) != 1 || h.requests[0].Header.Get("Authorization") != "Bearer tk_x" ||
		h.requests[0].URL.Path != "/topic" {
		t.Errorf("got %d requests, %v", len(h.requests), h.bodies)
	}
	if !slices.Equal(h.bodies, []string{"Slugs\nWhich?"}) {
		t.Errorf("sent %q", h.bodies)
	}
}

// A run that is over before anybody has seen its state file is told of all the same.
func TestShortRun(t *testing.T) {
	t.Parallel()
	root, looked, got := record(t, "x", night()...), 0, 0
	ctx, over := context.WithCancel(t.Context())
	over()
	find := func() (*store.Saved, error) {
		if looked++; looked == 1 {
			return nil, nil
		}
		return store.NewHome(root).Find("loop-1")
	}
	view.Follow(ctx, root, find, func(_ *view.Loop, events []journal.Event, err error) {
		if got += len(events); err != nil {
			t.Error(err)
		}
	})
	if got != len(night()) {
		t.Errorf("%d of %d events", got, len(night()))
	}
}
