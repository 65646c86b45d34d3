package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/agent"
	"descartes/internal/config"
	"descartes/loop/attempt"
	"descartes/loop/journal"
)

// newReviewWorld has a reviewer whose answers come one after the other, the last one again and again.
func newReviewWorld(t *testing.T, answers ...agent.Result) (w *world, asked *[]string) {
	w = newWorld(t, `{"tag": "x", "tasks": [{"id": 1, "title": "One", "status": "pending"}]}`)
	w.cfg.Review = config.ReviewConfig{Backend: "judge"}
	w.cfg.Backend.Type = "claude"
	w.looks = attempt.Looks()
	asked = &[]string{}
	w.agent = func(q agent.Request, env map[string]string) agent.Result {
		if env["DESCARTES_REVIEW"] == "" {
			w.write("one.txt", env["DESCARTES_ATTEMPT"]+"\n")
			return agent.Result{End: agent.Finished, Complete: true}
		}
		n := min(len(*asked), len(answers)-1)
		*asked = append(*asked, q.Backend)
		return answers[n]
	}
	return w, asked
}

func says(verdict string) agent.Result {
	usd := 0.25
	return agent.Result{End: agent.Finished, Final: `{"verdict": "` + verdict + `", "reasons": ["so it is"]}`, Cost: &agent.Cost{USD: &usd}}
}

// A reviewer whose answer is in the journal is not paid again by the run that takes the loop up, and its cost counts once.
func TestReviewPaidOnce(t *testing.T) {
	w, asked := newReviewWorld(t, says("approve"))
	looks := w.looks
	at := slices.IndexFunc(looks, func(l attempt.Look) bool { return l.Name == lookReview })
	dies := looks[at]
	dies.At = func(ctx context.Context, s *attempt.Subject) (*attempt.Objection, error) {
		_, err := looks[at].At(ctx, s)
		return nil, errors.Join(err, errors.New("the machine is gone"))
	}
	w.looks = []attempt.Look{dies}
	if _, err := w.run(StartOptions{}); err == nil || !strings.Contains(err.Error(), "the machine is gone") {
		t.Fatalf("got %v", err)
	}
	w.looks, w.recall = looks, func() agent.Result { return agent.Result{End: agent.Finished, Complete: true} }
	w.mustRun(StartOptions{}, journal.AllDone)
	st, err := LoadState(NewHome(w.dir).Default())
	if err != nil {
		t.Fatal(err)
	}
	if len(*asked) != 1 || len(w.runs) != 2 || st.Cost.USD == nil || *st.Cost.USD != 0.25 {
		t.Errorf("the reviewer was asked %d times, agents ran %q, and it cost %+v", len(*asked), w.runs, st.Cost)
	}
	w.clean()
}

// A reviewer that is out of quota is waited for, or the next backend takes over; with on_limit stop the run ends, and the attempt waits for its
// review.
func TestReviewLimited(t *testing.T) {
	limited := agent.Result{End: agent.Limited, Reason: "quota used up", Until: time.Now().Add(time.Hour)}
	w, asked := newReviewWorld(t, limited, says("approve"))
	w.cfg.OnLimit, w.cfg.Fallback = OnLimitFallback, []string{"codex"}
	w.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(*asked, []string{"judge", "codex"}) || len(w.runs) != 3 {
		t.Errorf("asked %q, runs %q", *asked, w.runs)
	}

	w, asked = newReviewWorld(t, limited)
	w.cfg.OnLimit = OnLimitStop
	if out := w.mustRun(StartOptions{}, journal.QuotaUsedUp); out.Until.IsZero() {
		t.Errorf("got %+v", out)
	}
	w.cfg.OnLimit = OnLimitStop
	w.cfg.Review.Backend = "other"
	w.recall = func() agent.Result { return agent.Result{End: agent.Finished, Complete: true} }
	w.agent = func(_ agent.Request, env map[string]string) agent.Result { return says("approve") }
	w.mustRun(StartOptions{}, journal.AllDone)
	if len(w.runs) != 3 {
		t.Errorf("the agent was paid again: runs %q", w.runs)
	}
	_ = asked
}

// An attempt that is rejected as often as a task may be tried blocks the task.
func TestReviewRejects(t *testing.T) {
	w, asked := newReviewWorld(t, says("reject"))
	w.cfg.Scud.MaxIterationsPerTask = 2
	w.mustRun(StartOptions{}, journal.TasksBlocked)
	if len(*asked) != 2 || len(w.runs) != 4 {
		t.Errorf("asked %q, runs %q", *asked, w.runs)
	}
}
