//go:build crashpoints

package main

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// slotsPlan is the small plan in slots, where no two tasks write the same file: each is done once, whatever happens.
func slotsPlan() fieldPlan {
	p := smallPlan()
	p.apart, p.slots = true, 3
	return p
}

// meetingPlan is one where all tasks that run at once write the same file, so that most are made again.
func meetingPlan() fieldPlan {
	p := slotsPlan()
	p.apart = false
	return p
}

// TestCrashSlots kills a run with slots at points of each kind.
func TestCrashSlots(t *testing.T) {
	t.Run("apart", func(t *testing.T) { crashEach(t, slotsPlan(), 1, asItIs, randomFlags()...) })
	t.Run("meeting", func(t *testing.T) { crashEach(t, meetingPlan(), 2, asItIs, randomFlags()...) })
	t.Run("dirty", func(t *testing.T) { crashEach(t, slotsPlan(), 4, dirtied, randomFlags()...) })
	t.Run("hook", func(t *testing.T) { crashEach(t, slotsPlan(), 4, hooked, randomFlags()...) })
}

// TestCrashSlotsStory is a tag of 60 tasks in 6 waves, in which some meet, two do not go together and one hangs,
// killed five times.
func TestCrashSlotsStory(t *testing.T) {
	slotsLikeSerial(t, fieldPlan{size: 60, width: 10, apart: true, slots: 4, meeting: []int{1, 2, 3, 31, 32},
		clashing: []int{14, 15}, hanging: []int{25}, flaky: []int{8, 47}}, 5)
}

// TestCrashSlotsMany kills a run of 200 tasks in 8 slots at any moment, 20 times: nothing is lost and nothing is done
// twice.
func TestCrashSlotsMany(t *testing.T) {
	seed := uint64(number(t, "DESCARTES_CRASH_SEED", int(time.Now().UnixNano()&(1<<40-1))))
	t.Logf("DESCARTES_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newField(t, fieldPlan{size: 200, width: 40, apart: true, slots: 8, meeting: []int{5, 6, 7},
		refused: []int{40}, flaky: []int{11, 90}, strays: []int{3, 60}, committers: []int{9}}, randomFlags()...)
	for k := range 20 {
		if f.over(t) {
			break
		}
		r := f.begin(t, f.goOn(t, k))
		had := f.done(t) // each run gets somewhere
		until(t, "a task that is done", func() bool { return !r.alive() || f.done(t) > had })
		select {
		case <-r.ended:
		case <-time.After(time.Duration(random.Int64N(int64(2 * time.Second)))):
			_ = r.p.Kill()
		}
		if code := r.wait(t); code != -int(syscall.SIGKILL) && code != exitBlocked {
			t.Fatalf("run %d: exit %d\n%s", f.runs, code, r.errors(t))
		}
		f.checkFiles(t)
		f.promise(t, r)
	}
	t.Logf("%d tasks were done when the last kill came", f.done(t))
	f.finish(t, "resume")
	f.checkEnd(t)
	f.checkSlots(t)
	if t.Failed() {
		f.tell(t)
	}
}
