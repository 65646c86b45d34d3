package report

import "testing"

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
