package loop

import (
	"slices"
	"testing"
	"time"

	"descartes/agent"
	"descartes/config"
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
	return agent.Result{End: agent.Finished, Final: `{"verdict": "` + verdict + `", "reasons": ["so it is"]}`,
		Cost: &agent.Cost{USD: &usd}}
}

// A reviewer that is out of quota is waited for, or the next backend takes over; with on_limit stop the run ends, and
// with it the attempt, which does not count.
func TestReviewLimited(t *testing.T) {
	limited := agent.Result{End: agent.Limited, Reason: "quota used up", Until: time.Now().Add(time.Hour)}
	w, asked := newReviewWorld(t, limited, says("approve"))
	w.cfg.OnLimit, w.cfg.Fallback = config.OnLimitFallback, []string{"codex"}
	w.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(*asked, []string{"judge", "codex"}) || len(w.runs) != 3 {
		t.Errorf("asked %q, runs %q", *asked, w.runs)
	}

	w, asked = newReviewWorld(t, limited, says("approve"))
	w.cfg.OnLimit = config.OnLimitStop
	if out := w.mustRun(StartOptions{}, journal.QuotaUsedUp); out.Until.IsZero() {
		t.Errorf("got %+v", out)
	}
	w.cfg.OnLimit = config.OnLimitStop
	w.cfg.Review.Backend = "other"
	w.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(*asked, []string{"judge", "other"}) || len(w.runs) != 4 {
		t.Errorf("asked %q, runs %q", *asked, w.runs)
	}
}
