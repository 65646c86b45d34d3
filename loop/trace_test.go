package loop

import (
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/config"
	"descartes/loop/journal"
	"descartes/verify"
)

// The steps of an attempt, and the order in which they are told. Those of an iteration are the same: see package run.
func TestStepsOfAnAttempt(t *testing.T) {
	t.Parallel()
	said := agent.Result{End: agent.Finished, Final: "<promise>COMPLETE</promise>", Complete: true}
	passes, fails := verify.Result{Passed: true}, verify.Result{Code: 1}
	for _, c := range []struct {
		name  string
		agent agent.Result
		check verify.Result
		want  string
	}{
		{"verified", said, passes, "started agent verify_started verify_finished finished"},
		{"verify fails", said, fails, "started agent verify_started verify_finished finished"},
		{"verify is cancelled", said, verify.Result{Cancelled: true}, "started agent verify_started finished"},
		{"crashed", agent.Result{End: agent.Crashed, Code: 1, Reason: "boom"}, passes, "started agent finished"},
		{"timed out", agent.Result{End: agent.TimedOut, Reason: "too long"}, passes, "started agent finished"},
		{"limited", agent.Result{End: agent.Limited, Reason: "quota"}, passes, "started agent finished"},
		{"refused", agent.Result{End: agent.Refused, Reason: "no key"}, passes, "started agent finished"},
		{"cancelled", agent.Result{End: agent.Cancelled, Reason: "stopped"}, passes, "started agent finished"},
		{"with a note", agent.Result{End: agent.Finished, Complete: true, Final: said.Final, Notes: []string{"odd"}},
			passes,
			"started agent warning verify_started verify_finished finished"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, threeTasks)
			var steps []string
			w.cfg.OnLimit = config.OnLimitStop
			w.agent = func(agent.Request, map[string]string) agent.Result { return c.agent }
			w.check = func(map[string]string) verify.Result { return c.check }
			w.tell = func(e journal.Event) {
				if slices.Contains(steps, "finished") || len(steps) == 0 && e.Type != journal.AttemptStarted {
					return
				}
				step := strings.TrimPrefix(string(e.Type), "attempt_")
				steps = append(steps, strings.Replace(step, "agent_finished", "agent", 1))
			}
			if _, err := w.run(StartOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(steps, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
