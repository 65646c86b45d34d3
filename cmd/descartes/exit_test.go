package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"descartes/gitops"
	"descartes/loop"
	"descartes/tasks"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ending  loop.Ending
		crashed bool
		blocked int
		want    int
	}{
		{loop.AllDone, false, 0, 0},
		{loop.StepDone, false, 0, 0},
		{loop.TasksBlocked, false, 1, 3},
		{loop.TasksBlocked, false, 0, 3}, // blocked by an earlier loop
		{loop.TasksBlocked, true, 2, 4},
		{loop.AgentUnusable, false, 0, 4},
		{loop.AgentUnusable, false, 3, 4},
		{loop.ProviderFails, false, 1, 4},
		{loop.GitRefused, true, 3, 5},
		{loop.LimitReached, false, 0, 6},
		{loop.LimitReached, false, 1, 3},
		{loop.LimitReached, true, 1, 4},
		{loop.DeadlinePast, false, 0, 6},
		{loop.CostReached, false, 0, 6},
		{loop.Paused, false, 0, 7},
		{loop.Paused, false, 1, 3},
		{loop.QuotaUsedUp, true, 1, 75},
		{loop.Cancelled, false, 0, 130},
		{loop.Cancelled, true, 3, 130},
		{loop.Interrupted, false, 1, 143},
		{loop.OwnError, false, 1, 1},
		{"something new", false, 0, 1},
	} {
		got := exitCode(loop.Outcome{Ending: c.ending, Crashed: c.crashed}, c.blocked)
		if got != c.want {
			t.Errorf("%s, crashed %v, %d blocked: got %d, want %d", c.ending, c.crashed, c.blocked, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	agent := loop.Problem{Message: "no program", Err: &failure{code: exitAgent, err: errors.New("no program")}}
	input := loop.Problem{Message: "no plan", Hint: "write one"}
	for _, c := range []struct {
		err  error
		want int
		text string
	}{
		{nil, 0, ""},
		{quiet(6), 6, ""},
		{io.ErrUnexpectedEOF, 1, "error: unexpected EOF\n"},
		{badInput("do it", "%q is bad", "x\x1b[31m"), 2, "error: \"x\\x1b[31m\" is bad\nhint: do it\n"},
		{fmt.Errorf("open: %w", gitops.ErrBare), 2, "error: open: a bare repository has no working tree\nhint: work in a clone, or in a git worktree, of it\n"},
		{&tasks.FormatError{Path: "a.json", Line: 3, Reason: "odd\nmore"}, 2, "error: a.json:3: odd more\n"},
		{fmt.Errorf("save x: %w", tasks.ErrLocked), 2, "error: save x: another program (scud?) holds its lock\nhint: wait until scud"},
		{problems{agent}, 4, "error: no program\n"},
		{problems{agent, input}, 2, "error: no program\nerror: no plan\nhint: write one\n"},
		{&loop.BusyError{Holder: loop.Holder{Loop: "l", Tag: "x"}}, 2, "error: loop l over tag \"x\" is running in this working tree"},
		{&loop.BusyError{Holder: loop.Holder{Loop: "l"}}, 2, "error: loop l is running (pid"},
	} {
		var b strings.Builder
		if got := report(&b, c.err); got != c.want || !strings.HasPrefix(b.String(), c.text) {
			t.Errorf("%v: got %d and %q, want %d and %q", c.err, got, b.String(), c.want, c.text)
		}
	}
}
