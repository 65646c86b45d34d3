package loop

import (
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/config"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

// An attempt takes the same steps, told in the same order, whether it is one at a task or an iteration of a prompt.
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
			for kind, w := range map[string]*world{store.KindTag: newWorld(t, threeTasks),
				store.KindPrompt: newPromptWorld(t)} {
				var steps []string
				w.cfg.OnLimit, w.cfg.VerificationCommand = config.OnLimitStop, "check"
				w.agent = func(agent.Request, map[string]string) agent.Result { return c.agent }
				w.check = func(map[string]string) verify.Result { return c.check }
				w.tell = func(e journal.Event) {
					if slices.Contains(steps, "finished") || len(steps) == 0 && e.Type != journal.AttemptStarted &&
						e.Type != journal.IterationStarted {
						return
					}
					step := strings.TrimPrefix(strings.TrimPrefix(string(e.Type), "attempt_"), "iteration_")
					steps = append(steps, strings.Replace(step, "agent_finished", "agent", 1))
				}
				if kind == store.KindTag {
					if _, err := w.run(StartOptions{}); err != nil {
						t.Fatal(err)
					}
				} else if _, _, err := w.prompt(""); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(steps, " "); got != c.want {
					t.Errorf("%s: got %q, want %q", kind, got, c.want)
				}
			}
		})
	}
}
