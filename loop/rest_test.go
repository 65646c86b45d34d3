package loop

import (
	"testing"
	"time"

	"descartes/agent"
	"descartes/loop/journal"
)

// How long an account rests after what its provider said, and how much longer from one time to the next. What many
// processes wait for they do not begin in the same moment.
func TestRest(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	limited := func(until time.Time) agent.Result { return agent.Result{End: agent.Limited, Until: until} }
	fault := agent.Result{End: agent.Crashed, Cause: agent.Transient}
	for name, c := range map[string]struct {
		was         journal.Provider
		said        agent.Result
		least, most time.Duration
	}{
		"a reset":                      {said: limited(in(2 * time.Hour)), least: 2 * time.Hour, most: 2*time.Hour + 30*time.Second},
		"a reset that is near":         {said: limited(in(10 * time.Second)), least: 10 * time.Second, most: 13 * time.Second},
		"one that is past":             {said: limited(in(-time.Hour)), least: time.Second, most: 3 * time.Second},
		"past, for the second time":    {was: journal.Provider{Limits: 1}, said: limited(in(-time.Hour)), least: 30 * time.Second, most: 32 * time.Second},
		"past, for the third time":     {was: journal.Provider{Limits: 2}, said: limited(in(-time.Hour)), least: 5 * time.Minute, most: 5*time.Minute + 2*time.Second},
		"past, again and again":        {was: journal.Provider{Limits: 9}, said: limited(in(-time.Hour)), least: time.Hour, most: time.Hour + 2*time.Second},
		"no reset":                     {said: limited(time.Time{}), least: 15 * time.Minute, most: 15*time.Minute + 30*time.Second},
		"no reset, for the third time": {was: journal.Provider{Limits: 2}, said: limited(time.Time{}), least: time.Hour, most: time.Hour + 30*time.Second},
		"the same limit, met by another agent": {was: journal.Provider{Limits: 1, Until: in(time.Hour)},
			said: limited(in(time.Minute)), least: time.Hour, most: time.Hour},
		"a fault":                 {said: fault, least: 3 * time.Second, most: 7 * time.Second},
		"a second one":            {was: journal.Provider{Faults: 1}, said: fault, least: 22 * time.Second, most: 38 * time.Second},
		"a third one":             {was: journal.Provider{Faults: 2}, said: fault, least: 90 * time.Second, most: 150 * time.Second},
		"more of them":            {was: journal.Provider{Faults: 3}, said: fault, least: 15 * time.Minute, most: 16 * time.Minute},
		"a client that is killed": {said: agent.Result{End: agent.Crashed, Cause: agent.Transient, Signal: 9}, least: -1, most: -1},
		"work":                    {said: agent.Result{End: agent.Finished}, least: -1, most: -1},
	} {
		for range 20 { // it is drawn
			until := Rest(&c.was, c.said, now)
			if c.least < 0 != until.IsZero() {
				t.Fatalf("%s: until %v", name, until)
			}
			if d := until.Sub(now); c.least >= 0 && (d < c.least || d > c.most) {
				t.Fatalf("%s: %v, want %v to %v", name, d, c.least, c.most)
			}
		}
	}
}
