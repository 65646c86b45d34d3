package loop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"descartes/config"
	"descartes/loop/attempt"
)

// What did not pass is in no commit, whatever its agent says: it is kept, and each try of it.
func TestUnfitIsInNoCommit(t *testing.T) {
	t.Parallel()
	object := func(by string) []attempt.Look {
		return []attempt.Look{{Name: by, On: func(*attempt.Input) bool { return true },
			At: func(context.Context, *attempt.Subject) (*attempt.Objection, error) {
				return &attempt.Objection{Reason: by + " objects"}, nil
			}}}
	}
	for what, looks := range map[string][]attempt.Look{"claims": nil, "claims, fails": nil, "claims, blocked": nil,
		"guard": object("guard"), "review": object("review")} {
		steps := what
		if looks != nil {
			steps = "claims"
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, listOf([]string{"1"}))
				s.world.looks = looks
				s.cfg.Breaker, s.cfg.Scud.MaxIterationsPerTask = config.BreakerOff, 1
				s.steps["1.1"] = strings.Split(steps, ", ")
				s.perform("")
				in := s.git("log", "--format=%s", "--", "1.txt")
				if passes := steps == "claims" && looks == nil; passes == (in == "") {
					t.Errorf("the commits with the work: %q", in)
				} else if ref := s.git("for-each-ref", "--format=%(refname)", "refs/descartes/*/tasks/1/1"); !passes &&
					s.git("show", ref+":1.txt") == "" {
					t.Errorf("the work is not kept: %q", ref)
				}
			})
		})
	}
}
