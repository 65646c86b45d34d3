package verify

import "testing"

func TestJudge(t *testing.T) {
	t.Parallel()
	pass, fail := &Result{Passed: true}, &Result{Code: 2}
	for _, tt := range []struct {
		name string
		f    Facts
		want Verdict
		why  string
	}{
		{"changed, passes", Facts{AgentEnd: "finished", Changed: true, Verify: pass}, Verified, "verify passed"},
		{"changed, claims, passes", Facts{AgentEnd: "finished", Changed: true, Complete: true, Verify: pass}, Verified,
			"verify passed"},
		{"claims only, passes", Facts{AgentEnd: "finished", Complete: true, Verify: pass}, Verified, "verify passed"},
		{"changed, fails", Facts{AgentEnd: "finished", Changed: true, Verify: fail}, Failed,
			"verify failed with exit status 2"},
		{"claims, fails", Facts{AgentEnd: "finished", Changed: true, Complete: true, Verify: fail}, Failed,
			"verify failed with exit status 2"},
		{"guard, passes", Facts{AgentEnd: "finished", Verify: pass}, Failed, NoSignal},
		{"guard, fails", Facts{AgentEnd: "finished", Verify: fail}, Failed, NoSignal},
		{"guard, not run", Facts{AgentEnd: "finished"}, Failed, NoSignal},
		{"guard, none", Facts{AgentEnd: "finished", None: true}, Failed, NoSignal},
		{"asks", Facts{AgentEnd: "finished", Question: "Tabs?"}, Blocked, "it asks: Tabs?"},
		{"says", Facts{AgentEnd: "finished", Question: "I need a decision."}, Blocked, "it said: I need a decision."},
		{"asks, passes", Facts{AgentEnd: "finished", Question: "Tabs?", Verify: pass}, Blocked, "it asks: Tabs?"},
		{"asks, none", Facts{AgentEnd: "finished", Question: "Tabs?", None: true}, Blocked, "it asks: Tabs?"},
		{"asks, changed, passes", Facts{AgentEnd: "finished", Question: "Tabs?", Changed: true, Verify: pass},
			Verified, "verify passed"},
		{"asks, changed, fails", Facts{AgentEnd: "finished", Question: "Tabs?", Changed: true, Verify: fail}, Failed,
			"verify failed with exit status 2"},
		{"asks, crashed", Facts{AgentEnd: "crashed", Question: "Tabs?"}, Crashed, "the agent crashed"},
		{"asks, verify cancelled", Facts{AgentEnd: "finished", Question: "Tabs?", Verify: &Result{Cancelled: true}},
			Cancelled, "verify was cancelled"},
		{"none, claims", Facts{AgentEnd: "finished", Complete: true, None: true}, Verified,
			"completion claimed; nothing verifies it"},
		{"none, claims, changed", Facts{AgentEnd: "finished", Complete: true, Changed: true, None: true}, Verified,
			"completion claimed; nothing verifies it"},
		{"none, changed", Facts{AgentEnd: "finished", Changed: true, None: true}, Failed,
			"the agent did not say it was done, and nothing else tells"},
		{"not run", Facts{AgentEnd: "finished", Changed: true}, Failed, "verify did not run"},
		{"verify slow", Facts{AgentEnd: "finished", Changed: true, Verify: &Result{TimedOut: true, Signal: 15}},
			Failed, "verify timed out"},
		{"verify slow, exits 0 on TERM", Facts{AgentEnd: "finished", Changed: true, Verify: &Result{TimedOut: true}},
			Failed, "verify timed out"},
		{"verify killed", Facts{AgentEnd: "finished", Changed: true, Verify: &Result{Signal: 9}}, Failed,
			"verify was ended by signal 9"},
		{"verify cancelled", Facts{AgentEnd: "finished", Changed: true, Verify: &Result{Cancelled: true}}, Cancelled,
			"verify was cancelled"},
		{"verify cancelled, guard", Facts{AgentEnd: "finished", Verify: &Result{Cancelled: true}}, Cancelled,
			"verify was cancelled"},
		{"blocked", Facts{AgentEnd: "finished", Blocked: "no key", Changed: true, Verify: pass}, Blocked, "no key"},
		{"blocked, mute", Facts{AgentEnd: "finished", Blocked: "no key"}, Blocked, "no key"},
		{"crashed", Facts{AgentEnd: "crashed", AgentReason: "exit status 3", Changed: true}, Crashed,
			"the agent ended with exit status 3"},
		{"crashed, passes", Facts{AgentEnd: "crashed", Changed: true, Complete: true, Verify: pass}, Crashed,
			"the agent crashed"},
		{"refused", Facts{AgentEnd: "refused"}, Crashed, "the agent could not be run"},
		{"timeout", Facts{AgentEnd: "timeout", Changed: true, Complete: true, Verify: pass}, TimedOut,
			"the agent ran out of time"},
		{"idle", Facts{AgentEnd: "idle", AgentReason: "no output for 15m0s", Blocked: "late"}, TimedOut,
			"no output for 15m0s"},
		{"limited", Facts{AgentEnd: "limited", Changed: true, Verify: pass}, Limited,
			"the provider's quota is used up"},
		{"cancelled", Facts{AgentEnd: "cancelled", Changed: true, Complete: true, Verify: pass, Blocked: "x"},
			Cancelled, "cancelled"},
		{"unknown", Facts{AgentEnd: "", Changed: true, Verify: pass}, Crashed, `the agent ended in an unknown way ""`},
	} {
		if got, why := Judge(tt.f); got != tt.want || why != tt.why {
			t.Errorf("%s: got %s %q, want %s %q", tt.name, got, why, tt.want, tt.why)
		}
	}
}

// Every combination of facts: verified is only what the rule allows.
func TestJudgeVerifiesNothingElse(t *testing.T) {
	t.Parallel()
	results := []*Result{nil, {Passed: true}, {Code: 1}, {TimedOut: true}, {Cancelled: true}, {Signal: 9}}
	for _, end := range []string{"finished", "crashed", "timeout", "idle", "limited", "refused", "cancelled", ""} {
		for bits := range 16 {
			for i, v := range append(results, results...) {
				f := Facts{AgentEnd: end, Complete: bits&1 > 0, Changed: bits&2 > 0, None: bits&4 > 0, Verify: v}
				if i >= len(results) {
					f.Question = "why?"
				}
				if bits&8 > 0 {
					f.Blocked = "reason"
				}
				if f.None {
					f.Verify = nil
				}
				passed := f.Verify != nil && f.Verify.Passed && (f.Changed || f.Complete)
				want := end == "finished" && f.Blocked == "" && (passed || f.None && f.Complete)
				got, why := Judge(f)
				if (got == Verified) != want || why == "" {
					t.Errorf("%+v: %s %q", f, got, why)
				}
			}
		}
	}
}
