package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ending  journal.Ending
		crashed bool
		blocked int
		want    int
	}{
		{journal.AllDone, false, 0, 0},
		{journal.StepDone, false, 0, 0},
		{journal.TasksBlocked, false, 1, 3},
		{journal.TasksBlocked, false, 0, 3}, // blocked by an earlier loop
		{journal.TasksBlocked, true, 2, 4},
		{journal.AgentUnusable, false, 0, 4},
		{journal.AgentUnusable, false, 3, 4},
		{journal.ProviderFails, false, 1, 4},
		{journal.GitRefused, true, 3, 5},
		{journal.LimitReached, false, 0, 6},
		{journal.LimitReached, false, 1, 3},
		{journal.LimitReached, true, 1, 4},
		{journal.DeadlinePast, false, 0, 6},
		{journal.CostReached, false, 0, 6},
		{journal.Paused, false, 0, 7},
		{journal.Paused, false, 1, 3},
		{journal.BreakerOpen, false, 0, 7},
		{journal.BreakerOpen, false, 1, 3},
		{journal.BreakerOpen, true, 3, 4},
		{journal.QuotaUsedUp, true, 1, 75},
		{journal.UserCancelled, false, 0, 130},
		{journal.UserCancelled, true, 3, 130},
		{journal.Interrupted, false, 1, 143},
		{journal.OwnError, false, 1, 1},
		{"something new", false, 0, 1},
	} {
		got := exitCode(loop.Outcome{Ending: c.ending, Crashed: c.crashed}, c.blocked)
		if got != c.want {
			t.Errorf("%s, crashed %v, %d blocked: got %d, want %d", c.ending, c.crashed, c.blocked, got, c.want)
		}
		want := 5
		if c.want == 130 || c.want == 143 {
			want = c.want
		}
		if got := exitCode(loop.Outcome{Ending: c.ending, Crashed: c.crashed, Unpushed: "git push"},
			c.blocked); got != want {
			t.Errorf("%s, not pushed: got %d, want %d", c.ending, got, want)
		}
	}
}

// TestExitTable finds each exit code in the help.
func TestExitTable(t *testing.T) {
	t.Parallel()
	for _, code := range []int{exitDone, exitError, exitInput, exitBlocked, exitAgent, exitGit, exitLimit, exitWaits,
		exitQuota, exitInterrupted, exitTerminated} {
		if !strings.Contains(exitTable, fmt.Sprintf("\n  %-3d  ", code)) {
			t.Errorf("the help does not say what exit code %d means", code)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	agent := source.Problem{Message: "no program", Err: &failure{code: exitAgent, err: errors.New("no program")}}
	input := source.Problem{Message: "no plan", Hint: "write one"}
	for _, c := range []struct {
		err  error
		want int
		text string
	}{
		{nil, 0, ""},
		{quiet(6), 6, ""},
		{io.ErrUnexpectedEOF, 1, "error: unexpected EOF\n"},
		{badInput("do it", "%q is bad", "x\x1b[31m"), 2, "error: \"x\\x1b[31m\" is bad\nhint: do it\n"},
		{fmt.Errorf("open: %w", gitops.ErrBare), 2,
			"error: open: a bare repository has no working tree\nhint: work in a clone, or in a git worktree, of it\n"},
		{&tasks.FormatError{Path: "a.json", Line: 3, Reason: "odd\nmore"}, 2, "error: a.json:3: odd more\n"},
		{fmt.Errorf("save x: %w", tasks.ErrLocked), 2,
			"error: save x: another program (scud?) holds its lock\nhint: wait until scud"},
		{problems{agent}, 4, "error: no program\n"},
		{problems{agent, input}, 2, "error: no program\nerror: no plan\nhint: write one\n"},
		{&store.BusyError{Holder: store.Holder{Loop: "l", Tag: "x"}}, 2,
			"error: run l over tag \"x\" is running in this working tree"},
		{&store.BusyError{Holder: store.Holder{Loop: "l"}}, 2, "error: run l is running (pid"},
		{&store.BusyError{Holder: store.Holder{PID: 7, Tag: "x"}}, 2,
			"error: another command over tag \"x\" is running in this working tree (pid 7"},
		{&store.BusyError{Path: "lock"}, 2, "error: lock is locked by another process\nhint: try again"},
	} {
		var b strings.Builder
		if got := printError(&b, c.err); got != c.want || !strings.HasPrefix(b.String(), c.text) {
			t.Errorf("%v: got %d and %q, want %d and %q", c.err, got, b.String(), c.want, c.text)
		}
	}
}
