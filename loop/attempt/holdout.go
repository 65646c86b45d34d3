package attempt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"descartes/verify"
)

// Holdout is a command with checks that no agent sees: neither the checks nor their output.
type Holdout struct {
	Run     string // for sh -c
	Dir     string // of the checks; $DESCARTES_HOLDOUT names it
	Log     string // only for a person
	Timeout time.Duration
}

// heldOut runs the held-out checks. All that an agent ever learns is that they failed.
func heldOut(ctx context.Context, s *Subject) (*Objection, error) {
	h := s.Input.Holdout
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(h.Log), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of their log: %w", err)
	}
	env := append(s.Input.Env[:len(s.Input.Env):len(s.Input.Env)], "DESCARTES_HOLDOUT="+h.Dir)
	res, _, err := s.inLab(ctx, Experiment{Name: s.Input.Name + " holdout", Tree: tree,
		Check: verify.Check{Run: h.Run, Timeout: h.Timeout}, Env: env, Log: h.Log, Clocks: s.Input.Clocks, Held: true})
	if err != nil {
		return nil, err
	}
	objection := &Objection{Reason: "the held-out checks " + heldOutEnd(&res)}
	if !res.Passed {
		return objection, nil
	}
	switch t := res.Tests; { // the tested process can end them with status 0
	case res.NoneRan || t != nil && t.Ran() == 0:
		return objection, s.Note("the held-out checks ended with exit status 0, and none of their tests ran")
	case t == nil:
		s.Show("the held-out checks pass; they name no tests")
	case len(t.Failed) > 0:
		return objection, s.Note(fmt.Sprintf("the held-out checks ended with exit status 0, and tests of theirs failed: %d", len(t.Failed)))
	default:
		s.Show(fmt.Sprintf("the held-out checks pass; tests: %d", t.Ran()))
	}
	return nil, nil
}

// heldOutEnd says how they ended, without quoting them.
func heldOutEnd(res *verify.Result) string {
	if res.TimedOut {
		return "did not end in time"
	}
	return "failed"
}
