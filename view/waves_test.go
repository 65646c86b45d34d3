package view

import (
	"strings"
	"testing"

	"descartes/internal/terminal"
	"descartes/loop/store"
)

// TestTaskLine keeps what a line says of a task, and lets its title give way: a long id moves its own line alone.
func TestTaskLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long title ", 10)
	for _, c := range []struct {
		id, title, state, cause string
		width                   int
		want                    string
	}{
		{"2", "Two", "ready", "", 80, "  2     ready    Two\n"},
		{"2", "Two", "interrupted", "", 80, "  2     interrupted  Two\n"},
		{"auth-service-refresh-token", "Two", "ready", "", 80, "  auth-service-refresh-token  ready    Two\n"},
		{"2", long, "waiting", "waits for 1", 60, "  2     waiting  a long title a long title a…  (waits for 1)\n"},
		{"2", long, "waiting", "waits for 1", 20, "  2     waiting  a long title a…  (waits for 1)\n"},
		{"2", "Two", "held", "blocked by 1", 0, "  2     held     Two  (blocked by 1)\n"},
	} {
		var s strings.Builder
		writeTaskLine(&s, false, Task{ID: store.TaskID{ID: c.id}, Title: c.title, State: c.state, Cause: c.cause}, 4, c.width)
		if s.String() != c.want {
			t.Errorf("%+v: got %q", c, s.String())
		}
		if n := terminal.Width(strings.TrimSpace(s.String())); c.width >= 60 && n > c.width {
			t.Errorf("%+v: %d columns", c, n)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	wave := func(states ...string) Wave {
		w := Wave{Number: 1}
		for _, s := range states {
			w.Tasks = append(w.Tasks, Task{State: s})
		}
		return w
	}
	for _, c := range []struct {
		wave Wave
		want string
	}{
		{wave("done", "done", "done"), "████████████████ Complete (3 tasks)"},
		{wave("done", "ready", "done", "waiting"), "████████░░░░░░░░ In Progress (2/4 tasks)"},
		{wave("running"), "░░░░░░░░░░░░░░░░ In Progress (0/1 task)"},
		{wave("ready", "waiting"), "░░░░░░░░░░░░░░░░ Pending (2 tasks)"},
		{wave("blocked", "done"), "████████░░░░░░░░ Blocked (1/2 tasks)"},
		{wave("held", "held"), "░░░░░░░░░░░░░░░░ Held (0/2 tasks)"},
	} {
		b := BarOf(c.wave)
		if got := b.blocks() + " " + b.Words(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
