package view

import (
	"testing"

	"descartes/config"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// The end says how long checks took beside agents, and names checks_at_once where lanes stood still for them.
func TestTimed(t *testing.T) {
	t.Parallel()
	attempt := func(agent, check float64) *journal.Attempt {
		d := func(s float64) *journal.Detail { return &journal.Detail{Exit: journal.Exit{Seconds: s}} }
		return &journal.Attempt{Progress: journal.Progress{Agent: d(agent), Checks: []*journal.Detail{d(check / 2), d(check / 2)}}}
	}
	const hint = "; 4 agents waited for checks: checks_at_once: 2 would have helped, if two can run side by side"
	for _, tc := range []struct {
		name         string
		tag          string
		lanes, check int
		attempts     []*journal.Attempt
		want         string
	}{
		{"short", "x", 4, 0, []*journal.Attempt{attempt(10, 20)}, ""},
		{"agents take longer", "x", 4, 0, []*journal.Attempt{attempt(600, 60), attempt(600, 60)}, "agents 20m, checks 2m"},
		{"checks take longer", "x", 4, 0, []*journal.Attempt{attempt(60, 60), attempt(60, 60)}, "agents 2m, checks 2m" + hint},
		{"two at a time", "x", 4, 2, []*journal.Attempt{attempt(60, 60)}, "agents 1m, checks 1m"},
		{"one lane", "x", 1, 0, []*journal.Attempt{attempt(60, 600)}, "agents 1m, checks 10m"},
		{"a prompt loop", "", 4, 0, []*journal.Attempt{attempt(60, 600)}, "agents 1m, checks 10m"},
		{"no check", "x", 4, 0, []*journal.Attempt{{Progress: journal.Progress{Agent: attempt(600, 0).Agent}}}, ""},
		{"at work", "x", 4, 0, []*journal.Attempt{{}, attempt(60, 60)}, "agents 1m, checks 1m" + hint},
	} {
		r := Run{State: &store.State{Tag: tc.tag, Config: config.Config{Parallel: tc.lanes, ChecksAtOnce: tc.check}},
			History: &journal.State{Attempts: tc.attempts}}
		if got := r.timed(); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
