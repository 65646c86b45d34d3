package tui

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/gofrs/flock"

	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

var update = flag.Bool("update", false, "write the golden frames anew")

// world is a loop on the disk, and the clock of its journal.
type world struct {
	t     testing.TB
	root  string
	saved store.Saved
	log   *journal.Journal
	now   time.Time
	asked []string // of Options
	lock  *flock.Flock

	follow map[*model]*journal.Follower
}

func newWorld(t testing.TB, s store.State) *world {
	t.Helper()
	w := &world{t: t, follow: map[*model]*journal.Follower{}, root: filepath.Join(t.TempDir(), "shelf"),
		now: time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)}
	home := store.NewHome(w.root)
	s.Version, s.ID, s.StartedAt, s.ExitReason = store.StateVersion, "loop-1a2b", w.now,
		store.ExitReason{Type: "running"}
	w.saved = store.Saved{Path: home.Default(), State: &s}
	b, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	w.write(".descartes/loop-state.json", string(b))
	if err := os.MkdirAll(home.Run(s.ID), 0o755); err != nil {
		t.Fatal(err)
	}
	if w.log, _, err = journal.Open(atomicfile.OS(), home.Events(s.ID), s.ID,
		func() time.Time { return w.now }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.log.Close() })
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// then appends events, each so much later than the one before.
func (w *world) then(after time.Duration, events ...*journal.Event) {
	w.t.Helper()
	for _, e := range events {
		w.now = w.now.Add(after)
		if err := w.log.Append(e); err != nil {
			w.t.Fatal(err)
		}
	}
}

// lives has somebody run the loop, or nobody.
func (w *world) lives(yes bool) {
	w.t.Helper()
	if w.lock == nil {
		w.lock = flock.New(w.saved.Path + ".lock")
		w.t.Cleanup(func() { w.lock.Close() })
	}
	do := w.lock.Unlock
	if yes {
		do = w.lock.Lock
	}
	if err := do(); err != nil {
		w.t.Fatal(err)
	}
}

// read has a model take in what was written since.
func (w *world) read(m *model) {
	w.t.Helper()
	events, err := w.follow[m].Next()
	if m.see(events); err != nil {
		w.t.Fatal(err)
	}
}

// model is a view of the world as if the loop ran.
func (w *world) model(width, height int) *model {
	w.t.Helper()
	m := newModel(Options{Root: w.root, Find: func() (*store.Saved, error) { return &w.saved, nil },
		Now: func() time.Time { return w.now },
		Request: func(r store.Request, now bool) (string, error) {
			w.asked = append(w.asked, string(r)+map[bool]string{true: " now"}[now])
			return "it is asked", nil
		},
		TakeBack: func(r store.Request) (string, error) {
			w.asked = append(w.asked, "undo "+string(r))
			return "it keeps running", nil
		},
		Answer: func(task, text string) (string, error) {
			w.asked = append(w.asked, task+": "+text)
			return "task " + task + " is tried again", nil
		},
		Proceed: func() (string, error) {
			w.asked = append(w.asked, "proceed")
			return "it continues in the background", nil
		},
		Spec: func(_ context.Context, a *journal.Attempt) (string, error) { return "# Task " + a.Task, nil },
		Diff: func(context.Context, *journal.Attempt) (string, error) { return "", errors.New("git refused") },
		Log: func(a *journal.Attempt, _ int) (string, error) {
			return strings.Repeat("• Bash go test ./...\n", 30*a.Number) + "the end", nil
		},
	}, true)
	w.lives(true)
	l, err := view.Of(w.root, w.saved)
	if m.Update(seenMsg{loop: l}); err != nil {
		w.t.Fatal(err)
	}
	w.follow[m] = journal.Follow(store.NewHome(w.root).Events("loop-1a2b"))
	w.read(m)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return m
}

const shelf = `{"tag":"shelf","tasks":[
{"id":1,"title":"Bookmark type and line parser","status":"pending"},
{"id":2,"title":"Slugs","status":"pending"},
{"id":3,"title":"JSON store","status":"pending","dependencies":[1]},
{"id":4,"title":"Filter by tag","status":"pending","dependencies":[1]},
{"id":5,"title":"Search with ranking","status":"pending","dependencies":[2]},
{"id":6,"title":"Import Netscape bookmark files exported by Firefox, Chrome and all the others","status":"pending","dependencies":[2]},
{"id":10,"title":"Usage text","status":"pending","dependencies":[5]},
{"id":11,"title":"Übersetzung 日本語","status":"pending","dependencies":[3,4]}]}`

// night is a loop over a tag in the middle of its second wave.
func night(t *testing.T) *world {
	w := newWorld(t, store.State{Kind: store.KindTag, Tag: "shelf", Config: config.Config{Parallel: 2}})
	w.write(".scud/tasks/shelf.json", shelf)
	usd := 0.43
	agent := &journal.Detail{Exit: journal.Exit{End: journal.EndFinished}, Spent: journal.Spent{USD: &usd}}
	w.then(time.Second, &journal.Event{Type: journal.LoopStarted},
		&journal.Event{Type: journal.WaveStarted, Unit: journal.Unit{Wave: 1, Of: 2}})
	attempt := func(task, title string, wave, number, slot int, end ...*journal.Event) {
		if number == 1 {
			w.then(0, &journal.Event{Type: journal.TaskStarted,
				Unit: journal.Unit{Task: task, Title: title, Wave: wave}})
		}
		w.then(0, &journal.Event{Type: journal.AttemptStarted,
			Unit: journal.Unit{Task: task, Title: title, Wave: wave, Attempt: number, Of: 3, Slot: slot}, Tree: "t0"})
		for _, e := range end {
			e.Task, e.Title, e.Wave, e.Attempt = task, title, wave, number
			w.then(time.Minute, e)
		}
	}
	done := func() []*journal.Event {
		return []*journal.Event{{Type: journal.AgentFinished, Detail: agent},
			{Type: journal.AttemptFinished, Verdict: journal.Verified, Tree: "t1"}, {Type: journal.TaskDone}}
	}
	attempt("1", "Bookmark type and line parser", 1, 1, 1, done()...)
	attempt("2", "Slugs", 1, 1, 2, done()...)
	w.then(0, &journal.Event{Type: journal.WaveCommitted, Unit: journal.Unit{Wave: 1, Of: 4}, Commit: "a1b2c3d4e5f6",
		Tasks: []string{"1", "2"}})
	w.then(0, &journal.Event{Type: journal.WaveStarted, Unit: journal.Unit{Wave: 2, Of: 4}})
	attempt("5", "Search with ranking", 2, 1, 1, &journal.Event{Type: journal.AttemptFinished,
		Verdict: journal.Blocked, Reason: "it asks: Count words?"},
		&journal.Event{Type: journal.TaskBlocked, Reason: "it asks: Count words?",
			Detail: &journal.Detail{
				Speech: journal.Speech{Question: "Should words in the URL's\nquery string count for the ranking?"}}})
	attempt("6", "Import", 2, 1, 1, &journal.Event{Type: journal.AttemptFinished, Verdict: journal.Failed,
		Reason: "netscape_test.go:6: nested folder lost"},
		&journal.Event{Type: journal.TaskBlocked, Reason: "netscape_test.go:6: nested folder lost"})
	attempt("3", "JSON store", 2, 1, 1, &journal.Event{Type: journal.AttemptFinished, Verdict: journal.Failed,
		Reason: "x"})
	attempt("3", "JSON store", 2, 2, 1)
	w.then(30*time.Second, &journal.Event{Type: journal.AgentFinished, Unit: journal.Unit{Task: "3", Attempt: 2},
		Detail: agent}, &journal.Event{Type: journal.VerifyStarted, Unit: journal.Unit{Task: "3", Attempt: 2}})
	attempt("4", "Filter by tag", 2, 1, 2)
	w.now = w.now.Add(12 * time.Second)
	return w
}

// repetition is a loop over a prompt.
func repetition(t *testing.T) *world {
	w := newWorld(t, store.State{Kind: store.KindPrompt, Config: config.Config{
		Prompt: "Make the tests less flaky\nand fast", MaxIterations: 20}})
	w.then(time.Second, &journal.Event{Type: journal.LoopStarted})
	for n, words := range []string{"Created user model and its first tests, which fail on a machine with one core",
		"Implemented JWT middleware"} {
		w.then(0, &journal.Event{Type: journal.IterationStarted,
			Unit: journal.Unit{Iteration: n + 1, Attempt: 1, Of: 20}})
		w.then(time.Minute, &journal.Event{Type: journal.IterationFinished,
			Unit: journal.Unit{Iteration: n + 1, Attempt: 1}, Verdict: journal.Continue,
			Detail: &journal.Detail{Exit: journal.Exit{End: journal.EndFinished, Code: n, Seconds: 60},
				Speech: journal.Speech{Words: words}}})
	}
	w.then(0, &journal.Event{Type: journal.IterationStarted, Unit: journal.Unit{Iteration: 3, Attempt: 1, Of: 20}})
	w.now = w.now.Add(75 * time.Second)
	return w
}

func frame(m *model) string {
	lines := strings.Split(ansi.Strip(m.View().Content), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestFrames(t *testing.T) {
	tag, prompt := night(t), repetition(t)
	act := func(m *model) *model {
		for _, k := range m.loop.Run.History.Running {
			m.actions[k.Key] = "• Edit src/" + k.Task + ".go"
		}
		return m
	}
	frames := map[string]*model{
		"tag-80x24":     act(tag.model(80, 24)),
		"tag-120x40":    act(tag.model(120, 40)),
		"tag-40x24":     act(tag.model(40, 24)),
		"tag-ascii":     act(tag.model(80, 24)),
		"tag-pause":     act(tag.model(80, 24)),
		"tag-answer":    act(tag.model(80, 24)),
		"tag-leave":     act(tag.model(80, 24)),
		"tag-asks":      act(tag.model(80, 24)),
		"tag-log":       act(tag.model(80, 12)),
		"tag-help":      act(tag.model(80, 40)),
		"tag-over":      act(tag.model(80, 24)),
		"prompt-80x24":  act(prompt.model(80, 24)),
		"prompt-120x30": act(prompt.model(120, 30)),
		"prompt-60x20":  act(prompt.model(60, 20)),
		"prompt-help":   act(prompt.model(80, 24)),
		"prompt-stops":  act(prompt.model(80, 24)),
		"tag-60x20":     act(tag.model(60, 20)),
	}
	frames["tag-ascii"].unicode = false
	frames["tag-pause"].loop.Run.Asked = view.Pending{Asked: store.RequestPause, Kind: store.KindTag, Underway: true}
	frames["prompt-stops"].loop.Run.Asked = view.Pending{Stopping: true, Kind: store.KindPrompt, Underway: true}
	press(frames["prompt-help"], "?")
	frames["tag-leave"].opt.Here = true
	frames["tag-asks"].Update(askMsg{"Here are 2 steps. Proceed?", make(chan bool, 1)})
	press(frames["tag-answer"], "a", "N", "o")
	press(frames["tag-leave"], "q")
	press(frames["tag-log"], "l")
	press(frames["tag-help"], "?")
	ended := night(t)
	frames["tag-over"] = ended.model(80, 24)
	ended.then(0, &journal.Event{Type: journal.LoopPaused, Reason: string(journal.Paused),
		Message: "paused by request"})
	ended.lives(false)
	ended.read(frames["tag-over"])
	limited := night(t)
	until := limited.now.Add(2*time.Hour + 20*time.Minute)
	for _, task := range []string{"3", "4"} {
		limited.then(time.Second, &journal.Event{Type: journal.AttemptFinished,
			Unit: journal.Unit{Task: task, Attempt: map[string]int{"3": 2, "4": 1}[task]}, Verdict: journal.Limited,
			Reason: "Claude's 5-hour limit"},
			&journal.Event{Type: journal.LimitWaiting, Unit: journal.Unit{Task: task}, Reason: "Claude's 5-hour limit",
				Detail: &journal.Detail{Client: journal.Client{Backend: "claude"}, Exit: journal.Exit{Until: &until}}})
	}
	frames["tag-waiting"] = limited.model(80, 24)
	frames["tag-waiting"].said = nil // which has times of this machine's place
	for name, m := range frames {
		golden := filepath.Join("testdata", name+".txt")
		got := frame(m)
		if name == "tag-80x24" { // the docs show it
			if page, err := os.ReadFile("../../docs/running.md"); err != nil || !strings.Contains(string(page), got) {
				t.Errorf("docs/running.md does not show the live view as it is, %v:\n%s", err, got)
			}
		}
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestFits draws at every size: a line that is too long, or one too many, would break the screen.
func TestFits(t *testing.T) {
	for _, w := range []*world{night(t), repetition(t)} {
		m := w.model(80, 24)
		for width := 1; width <= 130; width += 7 {
			for height := 1; height <= 40; height += 4 {
				for _, keys := range []string{"", "l", "a", "p", "?"} {
					m.page, m.entry, m.choice = nil, nil, nil
					m.Update(tea.WindowSizeMsg{Width: width, Height: height})
					press(m, strings.Split(keys, "")...)
					lines := strings.Split(m.View().Content, "\n")
					if len(lines) > height {
						t.Errorf("%dx%d %q: %d lines", width, height, keys, len(lines))
					}
					if at := slices.IndexFunc(lines, func(l string) bool {
						return ansi.StringWidth(l) > width
					}); at >= 0 {
						t.Errorf("%dx%d %q: too wide: %q", width, height, keys, lines[at])
					}
				}
			}
		}
	}
}

// press hands keys to a model and runs what they start.
func press(m *model, keys ...string) (quit bool) {
	for _, k := range keys {
		var msg tea.KeyPressMsg
		switch k {
		case "":
			continue
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		default:
			msg = tea.KeyPressMsg{Code: rune(k[0]), Text: k}
		}
		_, cmd := m.Update(msg)
		if cmd == nil || m.entry != nil { // the cursor of an entry blinks
			continue
		}
		switch out := cmd().(type) {
		case tea.QuitMsg:
			quit = true
		default:
			m.Update(out)
		}
	}
	return quit
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		keys  string
		asked []string
		quit  bool
		shows string
	}{
		{keys: "p", shows: "Pause the run?"},
		{keys: "p p", asked: []string{"pause"}},
		{keys: "p n", asked: []string{"pause now"}},
		{keys: "p t"}, // nothing was asked
		{keys: "p esc"},
		{keys: "c enter", asked: []string{"cancel"}},
		{keys: "c n", asked: []string{"cancel now"}},
		{keys: "a Y e s enter", asked: []string{"5: Yes"}, shows: "task 5 is tried again"},
		{keys: "a enter", shows: "the answer is empty"},
		{keys: "a Y esc"},
		{keys: "down down r", shows: "choose a blocked task"},
		{keys: "down r enter", asked: []string{"6: "}, shows: "task 6 is tried again"},
		{keys: "down r U s e enter", asked: []string{"6: Use"}},
		{keys: "down down s", shows: "# Task 3"},
		{keys: "down down d", shows: "git refused"},
		{keys: "d q d esc", shows: " shelf"},
		{keys: "down down l", shows: "log of task 3, attempt 2"},
		{keys: "down down l [", shows: "log of task 3, attempt 1"},
		{keys: "down down l [ [ ] ]", shows: "log of task 3, attempt 2"},
		{keys: "down down s [", shows: "spec of task 3, attempt 1"},
		{keys: "G l", shows: "log of task 1, attempt 1"},
		{keys: "q", quit: true},
		{keys: "ctrl+c", quit: true},
	} {
		w := night(t)
		m := w.model(80, 24)
		quit := press(m, strings.Fields(c.keys)...)
		if quit != c.quit || !slices.Equal(w.asked, c.asked) {
			t.Errorf("%s: asked %q, quit %v; want %q, %v", c.keys, w.asked, quit, c.asked, c.quit)
		}
		if got := frame(m); !strings.Contains(got, c.shows) {
			t.Errorf("%s: %q is not shown:\n%s", c.keys, c.shows, got)
		}
	}
}

// TestTakesBack takes back what the loop was asked for.
func TestTakesBack(t *testing.T) {
	w := night(t)
	m := w.model(80, 24)
	for _, c := range []struct {
		pending view.Pending
		keys    string
		asked   []string
		shows   string
	}{
		{view.Pending{Asked: store.RequestCancel}, "c", nil, "take it back"},
		{view.Pending{Asked: store.RequestCancel}, "c c", []string{"undo cancel"}, "it keeps running"},
		{view.Pending{Asked: store.RequestPause}, "p p", []string{"undo pause"}, "it keeps running"},
		{view.Pending{Asked: store.RequestPause}, "p n", []string{"pause now"}, "it is asked"},
		{view.Pending{Asked: store.RequestPause}, "c c", []string{"cancel"}, "it is asked"},
		{view.Pending{Stopping: true}, "c n", []string{"cancel now"}, "it is asked"},
		{view.Pending{Stopping: true, Asked: store.RequestPause}, "p", nil, "after the running attempt"},
	} {
		m.loop.Run.Asked, m.choice, w.asked = c.pending, nil, nil
		press(m, strings.Fields(c.keys)...)
		if !slices.Equal(w.asked, c.asked) {
			t.Errorf("%+v, %s: asked %q", c.pending, c.keys, w.asked)
		}
		if !strings.Contains(frame(m), c.shows) {
			t.Errorf("%+v, %s: %q is not shown:\n%s", c.pending, c.keys, c.shows, frame(m))
		}
	}
}

// TestShowsTheChosen shows the whole name of the chosen task on a small screen, whatever else gives way.
func TestShowsTheChosen(t *testing.T) {
	w := night(t)
	for width := 30; width <= 80; width += 10 {
		for height := 8; height <= 24; height += 2 {
			m := w.model(width, height)
			for range m.rows {
				want := []rune(m.row().task.Title)
				if got := strings.Join(strings.Fields(frame(m)), " "); !strings.Contains(got,
					string(want[:min(len(want), 20)])) {
					t.Errorf("%dx%d: %q is not shown:\n%s", width, height, string(want), frame(m))
				}
				press(m, "down")
			}
		}
	}
}

// TestLeavesItsOwnLoop leaves a loop of this process: a key says what becomes of it, and Ctrl-C is what it is without
// a view.
func TestLeavesItsOwnLoop(t *testing.T) {
	w := night(t)
	m := w.model(80, 24)
	stops := 0
	m.opt.Here, m.opt.Interrupt = true, func() { stops++ }
	if press(m, "q") || m.choice == nil {
		t.Error("it left without a question")
	}
	if press(m, "esc", "q", "c") || !slices.Equal(w.asked, []string{"cancel"}) {
		t.Errorf("asked %q", w.asked)
	}
	if press(m, "ctrl+c", "ctrl+c") || stops != 2 {
		t.Errorf("%d times Ctrl-C", stops)
	}
	m.stops = 1
	if text := m.View().Content; !strings.Contains(text, "ends it now") {
		t.Errorf("what the next Ctrl-C does is cut off:\n%s", text)
	}
	if !press(m, "q", "k") {
		t.Error("it did not leave")
	}
	w.lives(false)
	w.read(m)
	if !press(m, "q") {
		t.Error("a loop that is over asks for nothing")
	}
}

// TestAsks answers the questions of a run one after the other.
func TestAsks(t *testing.T) {
	m := night(t).model(80, 24)
	first, second := make(chan bool, 1), make(chan bool, 1)
	m.Update(askMsg{"Proceed?", first})
	m.Update(askMsg{"Really?", second})
	press(m, "q", "y", "n")
	if yes, no := <-first, <-second; !yes || no {
		t.Errorf("got %v, %v", yes, no)
	}
	if strings.Contains(frame(m), "asks\n") && len(m.asked) > 0 {
		t.Error("it still asks")
	}
}

// TestGateOfAStoppedLoop answers what the gate of a loop asks that has stopped for it.
func TestGateOfAStoppedLoop(t *testing.T) {
	for _, c := range []struct {
		keys, asked string
		question    string
		shows       string
	}{
		{keys: "a", shows: "G2: step done, continue?"},
		{keys: "a y", asked: "proceed", shows: "it continues in the background"},
		{keys: "a n"},
		{keys: "a y", question: "Which colour?", shows: "nobody waits for an answer"},
	} {
		w := repetition(t)
		w.then(0, &journal.Event{Type: journal.IterationFinished, Unit: journal.Unit{Iteration: 3, Attempt: 1},
			Verdict: journal.Continue, Detail: &journal.Detail{Speech: journal.Speech{Question: c.question}}},
			&journal.Event{Type: journal.LoopFinished, Reason: string(journal.GateAsks),
				Message: "G2: step done, continue?", Detail: &journal.Detail{
					Exit: journal.Exit{End: string(journal.GateAsks)}}})
		m := w.model(80, 24)
		w.lives(false)
		w.read(m)
		for _, key := range strings.Fields(c.keys) {
			press(m, key)
		}
		if got := strings.Join(w.asked, " "); got != c.asked || !strings.Contains(frame(m), c.shows) {
			t.Errorf("%s: asked %q\n%s", c.keys, got, frame(m))
		}
	}
}

// TestLate says of what takes much longer than all before that nobody knows when it ends, and until when anything is
// begun.
func TestLate(t *testing.T) {
	w := repetition(t)
	end := w.now.Add(3 * time.Hour)
	w.saved.State.Config.MaxIterations, w.saved.State.Config.Deadline = 3, &end
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, "less than a minute left"}, {20 * time.Minute, "longer than usual"}} {
		w.now = w.now.Add(c.after)
		got := frame(w.model(100, 24))
		if !strings.Contains(got, c.want) || !strings.Contains(got, "no attempt after "+end.Format("15:04")) {
			t.Errorf("after %v it shows\n%s", c.after, got)
		}
	}
}

// TestFollows reads on while the journal grows: what was chosen stays chosen, and a log leads on to the next attempt.
func TestFollows(t *testing.T) {
	w := night(t)
	m := w.model(80, 24)
	press(m, "down", "down", "down", "l") // task 4
	w.then(time.Minute, &journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Task: "4", Attempt: 1},
		Verdict: journal.Failed, Reason: "x"},
		&journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "4", Title: "Filter by tag", Wave: 2,
			Attempt: 2, Of: 3, Slot: 2}})
	for range 4 {
		w.read(m)
		if cmd := m.reload(); cmd != nil {
			m.Update(cmd())
		}
	}
	if got := frame(m); !strings.Contains(got, "log of task 4, attempt 2") || !strings.Contains(got, "the end") {
		t.Errorf("it shows\n%s", got)
	}
	press(m, "q")
	if r := m.row(); r == nil || r.task.ID.ID != "4" {
		t.Errorf("chosen is %+v", r)
	}
}

// TestKilled shows a loop that was killed as one that nobody runs: nothing is worked on, and no clock goes on.
func TestKilled(t *testing.T) {
	for name, c := range map[string]struct {
		w     *world
		shows []string
	}{
		"tag":    {night(t), []string{"killed 12m", "○ 4   Filter by tag"}},
		"prompt": {repetition(t), []string{"killed 2m", "3     -          -          interrupted"}},
	} {
		m := c.w.model(80, 40)
		before := frame(m)
		c.w.lives(false)
		c.w.now = c.w.now.Add(time.Hour)
		c.w.read(m)
		got := frame(m)
		for _, want := range c.shows {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not shown:\n%s", name, want, got)
			}
		}
		if !strings.Contains(before, "Running") || strings.Contains(got, "Running") || strings.Contains(got, "1h") {
			t.Errorf("%s: before\n%s\nkilled\n%s", name, before, got)
		}
	}
}

// TestNoRun: without a run to show, be it that it has not begun or that its journal is damaged, the view says so, and
// takes keys.
func TestNoRun(t *testing.T) {
	for _, c := range []struct {
		msg  tea.Msg
		want string
	}{{nil, "waiting for the run to start"}, {seenMsg{err: errors.New("events.ndjson: line 3 is damaged")},
		"line 3 is damaged"}} {
		m := newModel(Options{Root: t.TempDir()}, true)
		m.Update(c.msg)
		for _, key := range []string{"a", "r", "l", "s", "d", "p", "c", "down", "G", "[", "enter", "?", "q"} {
			if quit := press(m, key); m.loop != nil || quit != (key == "q" && m.page == nil) {
				t.Errorf("%s: quit %v", key, quit)
			}
			if m.page != nil {
				press(m, "esc")
			}
			if got := frame(m); !strings.Contains(got, c.want) {
				t.Errorf("%q after %s is not shown:\n%s", c.want, key, got)
			}
		}
	}
}

func TestUnicode(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{[]string{"LANG=en_GB.UTF-8"}, true},
		{[]string{"LANG=C.utf8"}, true},
		{[]string{"LANG=C"}, false},
		{nil, false},
		{[]string{"LANG=en_GB.UTF-8", "LC_ALL=C"}, false},
		{[]string{"LANG=C", "LC_CTYPE=de_DE.UTF-8"}, true},
	} {
		if got := unicodeIn(c.env); got != c.want {
			t.Errorf("%q: got %v", c.env, got)
		}
	}
}

// BenchmarkTick is what the view does for an event of a loop over 10,000 tasks, and for drawing.
func BenchmarkTick(b *testing.B) {
	w := newWorld(b, store.State{Kind: store.KindTag, Tag: "shelf"})
	var list []string
	for i := range 10000 {
		deps := ""
		if i > 100 {
			deps = fmt.Sprintf(`,"dependencies":[%d]`, i-99)
		}
		list = append(list, fmt.Sprintf(`{"id":%d,"title":"Task %d","status":"pending"%s}`, i+1, i+1, deps))
	}
	w.write(".scud/tasks/shelf.json", `{"tag":"shelf","tasks":[`+strings.Join(list, ",\n")+`]}`)
	w.then(time.Second, &journal.Event{Type: journal.LoopStarted})
	m := w.model(100, 30)
	n := 0
	b.Run("event", func(b *testing.B) {
		for b.Loop() {
			n++
			w.then(time.Second, &journal.Event{Type: journal.TaskDone, Unit: journal.Unit{Task: fmt.Sprint(n)}})
			w.read(m)
		}
	})
	b.Run("draw", func(b *testing.B) {
		for b.Loop() {
			m.View()
		}
	})
}
