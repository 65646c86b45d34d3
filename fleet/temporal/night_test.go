//go:build fleet

package temporal

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	runs  = flag.Int("runs", 3, "nights with kills")
	seed  = flag.Uint64("seed", 0, "of the kills; 0 draws one")
	tasks = flag.Int("tasks", 100, "of a long night")
)

// TestNight: a fleet does what one machine would, over several waves and with files that several tasks change.
func TestNight(t *testing.T) {
	w := newTown(t, plan{tasks: *tasks, width: max(1, *tasks/5), workers: 4, slots: 4, silent: "60s", agent: 1, alone: true})
	began := time.Now()
	// one whose changes conflict counts, and a task may meet others again and again
	p := w.run("--max-attempts", "20")
	for more, next := true, *tasks/10; more; next += *tasks / 10 { // what grows shows
		for n := 0; more && n < next; n = w.attempts() {
			select {
			case <-p.over:
				more = false
			case <-time.After(time.Second / 2):
			}
		}
		n := w.attempts()
		t.Logf("%d attempts in %v; %s; refs on the remote: %d", n, time.Since(began).Round(time.Second/10),
			w.figures(n, p), strings.Count(w.git(w.bare, "for-each-ref"), "\n"))
	}
	w.ends(p)
	w.whole(p, "tally", 1, *tasks)
	if n := w.journal("tally")["attempt_started"]; w.attempts() != n {
		t.Errorf("%d agents ran for %d attempts", w.attempts(), n)
	}
	out := w.start(w.project, "descartes", "loop", "logs", "7", "--attempt", "1")
	if <-out.over; !strings.Contains(out.out.String(), "task 7") {
		t.Errorf("the log of task 7: %s", out.out)
	}
}

// TestKills: whatever is killed, whenever, a night ends as it should.
func TestKills(t *testing.T) {
	t.Parallel()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	for night := range *runs {
		t.Run(strconv.Itoa(night), func(t *testing.T) {
			random := rand.New(rand.NewPCG(*seed, uint64(night)))
			n := 20 + random.IntN(21)
			t.Logf("-seed %d, night %d, %d tasks", *seed, night, n)
			w := newTown(t, plan{tasks: n, width: max(1, n/4), workers: 4, slots: 4, agent: 4})
			p := w.run()
			for kills, at := 3+random.IntN(4), 0; kills > 0; kills-- {
				at += 1 + random.IntN(2*n/(kills+3))
				for over := false; !over && w.attempts() < at; { // until so many agents have begun
					select {
					case <-p.over:
						over = true
					case <-time.After(20 * time.Millisecond):
					}
				}
				time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond) // somewhere within or after an agent
				switch what := random.IntN(4); what {
				case 0, 1:
					i := random.IntN(len(w.workers))
					t.Logf("kill worker %d", i)
					w.work(i)
				case 2:
					t.Log("kill the run")
					p.kill()
					p = w.run()
				default:
					t.Log("kill the server")
					w.server.kill()
					w.serve()
					// it began while there was none
					if exited(p) && strings.Contains(p.out.String(), "no Temporal server answers") {
						p = w.run()
					}
				}
			}
			w.ends(p)
			w.whole(p, "tally", 1, n)
			t.Logf("%d agents ran for %d tasks", w.attempts(), n)
		})
	}
}
