package print

import (
	"strings"
	"testing"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/view"
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
		s := &text{}
		s.task(&view.Task{ID: store.TaskID{ID: c.id}, Title: c.title, Stand: view.Stand(c.state), Cause: c.cause},
			false, 4, c.width)
		if s.String() != c.want {
			t.Errorf("%+v: got %q", c, s.String())
		}
		if n := terminal.Width(strings.TrimSpace(s.String())); c.width >= 60 && n > c.width {
			t.Errorf("%+v: %d columns", c, n)
		}
	}
}
