package main

import (
	"strings"
	"testing"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":              "plain",
		"Grüße 日本":           "Grüße 日本",
		"two\nlines\tand\r":  "two lines and ",
		"\x1b]0;evil\x07":    "\uFFFD]0;evil\uFFFD",
		"\x9b31m and \u009b": "\uFFFD31m and \uFFFD",
		"right\u202eleft":    "right\uFFFDleft",
	} {
		if got := terminal.Clean(in); got != want {
			t.Errorf("clean(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"longer text", 7, "longer…"}, {"日本語文", 5, "日本…"}} {
		if got := terminal.Fit(c.in, c.n); got != c.want || terminal.Width(got) > c.n {
			t.Errorf("fit(%q, %d): got %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestBox(t *testing.T) {
	t.Parallel()
	p := terminal.Paint(true)
	got := terminal.Box("SCUD Loop: x", []string{"Wave 1: " + p.In(terminal.Green, "████") + " Complete", strings.Repeat("very long ", 20), "日本"})
	for line := range strings.Lines(got) {
		if n := terminal.Width(terminal.Unpainted(strings.TrimSuffix(line, "\n"))); n != terminal.BoxWidth+2 {
			t.Errorf("%d columns, want %d: %q", n, terminal.BoxWidth+2, line)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	wave := func(states ...string) waveJSON {
		w := waveJSON{Number: 1}
		for _, s := range states {
			w.Tasks = append(w.Tasks, taskJSON{State: s})
		}
		return w
	}
	for _, c := range []struct {
		wave waveJSON
		want string
	}{
		{wave("done", "done", "done"), "████████████████ Complete (3 tasks)"},
		{wave("done", "ready", "done", "waiting"), "████████░░░░░░░░ In Progress (2/4 tasks)"},
		{wave("running"), "░░░░░░░░░░░░░░░░ In Progress (0/1 task)"},
		{wave("ready", "waiting"), "░░░░░░░░░░░░░░░░ Pending (2 tasks)"},
		{wave("blocked", "done"), "████████░░░░░░░░ Blocked (1/2 tasks)"},
		{wave("held", "held"), "░░░░░░░░░░░░░░░░ Held (0/2 tasks)"},
	} {
		b := barOf(c.wave)
		if got := b.blocks() + " " + b.words(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestLineHasNoControlCharacters(t *testing.T) {
	t.Parallel()
	p := &printer{began: map[string]time.Time{}}
	evil := "a\x1b[2Jb\nc"
	for _, typ := range []journal.Type{journal.LoopStarted, journal.LoopResumed, journal.WaveStarted, journal.TaskStarted, journal.AttemptStarted, journal.AttemptFinished,
		journal.TaskDone, journal.TaskBlocked, journal.TaskHeld, journal.WaveCommitted, journal.LimitWaiting, journal.Warning, journal.LoopFinished} {
		e := journal.Event{Type: typ, Loop: "loop-1", Task: evil, Title: evil, Reason: evil, Message: evil, Verdict: "failed"}
		line := strings.Replace(p.line(&e), "\n  restored: ", " ", 1) // what a block put back has a line of its own
		if strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("%s: %q", typ, line)
		}
	}
}
