//go:build crashpoints

package main

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"descartes/loop/journal"
)

// kills is what the random kill loop counts, over all its runs.
type kills struct {
	runs, kills     atomic.Int64
	ended, repeated atomic.Int64 // attempts whose agent had ended when the kill came, and those of them run again
}

// TestCrashRandom kills the program 500 times (DESCARTES_CRASH_KILLS), one to eight times a run, at
// any moment at all. DESCARTES_CRASH_SEED repeats the choices, if not the machine's timing.
func TestCrashRandom(t *testing.T) {
	seed := uint64(number(t, "DESCARTES_CRASH_SEED", int(time.Now().UnixNano()&(1<<40-1))))
	wanted := int64(number(t, "DESCARTES_CRASH_KILLS", 500))
	t.Logf("DESCARTES_CRASH_SEED=%d", seed)
	f := newField(t, smallPlan(), randomFlags()...)
	r := f.begin(t, "start")
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("undisturbed: exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
	whole := time.Since(r.began)
	var k kills
	t.Run("kills", func(t *testing.T) {
		for worker := range 2 {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(worker)))
				for n := 1; k.kills.Load() < wanted && !t.Failed(); n++ {
					t.Run(fmt.Sprint(n), func(t *testing.T) { k.run(t, random, whole) })
				}
			})
		}
	})
	t.Logf("%d kills over %d runs; an undisturbed run takes %v", k.kills.Load(), k.runs.Load(), whole.Round(time.Millisecond))
	t.Logf("%d times the agent had ended when the kill came; it was run again %d times, %.3f for each such kill", k.ended.Load(), k.repeated.Load(),
		float64(k.repeated.Load())/float64(max(1, k.ended.Load())))
	// About one in twenty is killed between its last line and its exit, more on a busy machine.
	if n := k.ended.Load(); n > 20 && k.repeated.Load()*4 > n {
		t.Error("adoption does not work")
	}
}

// randomFlags give a task so many attempts that kills alone do not use them up.
func randomFlags() []string { return []string{"--max-attempts", "12", "--max-iterations", "1000"} }

// run is one run with its kills.
func (k *kills) run(t *testing.T, random *rand.Rand, whole time.Duration) {
	f := newField(t, smallPlan(), randomFlags()...)
	k.runs.Add(1)
	ended := map[note]bool{} // attempts that were open in the journal with their agent's end in the ledger
	for range 1 + random.IntN(8) {
		if f.over(t) {
			break
		}
		r := f.begin(t, f.goOn(t, random.IntN(2)))
		select {
		case <-r.ended:
		case <-time.After(time.Duration(random.Int64N(int64(whole / 3)))):
			_ = r.p.Kill()
		}
		switch code := r.wait(t); code {
		case -int(syscall.SIGKILL):
			k.kills.Add(1)
		case exitBlocked:
		default:
			t.Fatalf("exit %d\n%s", code, r.errors(t))
		}
		f.checkFiles(t)
		f.promise(t, r)
		f.unfinished(t, ended)
	}
	f.finish(t, f.goOn(t, random.IntN(2)))
	f.checkEnd(t)
	k.ended.Add(int64(len(ended)))
	for _, e := range f.journal(t) {
		n := note{"end", e.Task, e.Attempt}
		if e.Type == journal.AttemptFinished && e.Verdict == "cancelled" && ended[n] {
			k.repeated.Add(1)
			t.Logf("attempt %d of task %s had ended and was not adopted", e.Attempt, e.Task)
		}
	}
}

// unfinished adds the attempts whose agent has come to its end, of which the journal knows only the beginning.
func (f *field) unfinished(t *testing.T, into map[note]bool) {
	t.Helper()
	open := map[note]bool{}
	for _, e := range f.journal(t) {
		n := note{"end", e.Task, e.Attempt}
		switch e.Type {
		case journal.AttemptStarted:
			open[n] = true
		case journal.AttemptFinished:
			delete(open, n)
		}
	}
	for _, n := range f.ledger(t) {
		if open[n] {
			into[n] = true
		}
	}
}
