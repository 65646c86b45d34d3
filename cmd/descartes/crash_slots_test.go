//go:build crashpoints

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// TestCrashSlots kills a run with slots at points of each kind, some of them also while it is resumed: at the first, the second or a late one, by
// the hour, or with DESCARTES_CRASH_EVERY=1 at each of the three. What happens in which order differs from run to run, so that a point is known by
// its name.
func TestCrashSlots(t *testing.T) {
	t.Run("apart", func(t *testing.T) { crashKinds(t, slotsPlan(), 1, asItIs) })
	t.Run("meeting", func(t *testing.T) { crashKinds(t, meetingPlan(), 2, asItIs) })
	t.Run("dirty", func(t *testing.T) { crashKinds(t, slotsPlan(), 4, dirtied) })
	t.Run("hook", func(t *testing.T) { crashKinds(t, slotsPlan(), 4, hooked) })
}

// varying are the parts of a point's name that are not the same in each run.
var varying = regexp.MustCompile(`loop-[0-9a-f]+|/[0-9]+`)

// crashKinds kills at every few kinds of points.
func crashKinds(t *testing.T, p fieldPlan, every int, prepare func(*testing.T, *field)) {
	f := newField(t, p, randomFlags()...)
	prepare(t, f)
	list := filepath.Join(f.aside, "points")
	r := f.begin(t, "start", "DESCARTES_CRASH_COUNT_FILE="+list)
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("undisturbed: exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
	times := map[string]int{}
	var kinds []string
	for name := range strings.Lines(readText(t, list)) {
		kind := varying.ReplaceAllStringFunc(strings.TrimSpace(name), func(s string) string { return s[:1] + "*" })
		if times[kind]++; times[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	all := number(t, "DESCARTES_CRASH_EVERY", 0) == 1
	for i, kind := range kinds {
		if !all && (i+rotating(every))%every != 0 {
			continue
		}
		which := []int{1, min(2, times[kind]), max(1, times[kind]*2/3)}
		if !all {
			which = which[(i+rotating(3))%3:][:1]
		}
		for _, n := range slices.Compact(which) {
			t.Run(fmt.Sprint(kind, " ", n), func(t *testing.T) {
				t.Parallel()
				f := newField(t, p, randomFlags()...)
				prepare(t, f)
				f.fall(t, fmt.Sprint(n, " ", kind), "start")
				if again := kinds[(i*7+n)%len(kinds)]; n == 2 {
					f.fall(t, "1 "+again, f.goOn(t, i))
				}
				f.finish(t, f.goOn(t, i))
				f.checkEnd(t)
				if t.Failed() {
					f.tell(t)
				}
			})
		}
	}
}

// TestCrashSlotsStory is a tag of 60 tasks in 6 waves, in which some meet, two do not go together and one hangs, killed five times.
func TestCrashSlotsStory(t *testing.T) {
	slotsLikeSerial(t, fieldPlan{size: 60, width: 10, apart: true, slots: 4, meeting: []int{1, 2, 3, 31, 32}, clashing: []int{14, 15}, hanging: []int{25}, flaky: []int{8, 47}}, 5)
}

// TestCrashSlotsMany kills a run of 200 tasks in 8 slots at any moment, 20 times: nothing is lost and nothing is done twice.
func TestCrashSlotsMany(t *testing.T) {
	seed := uint64(number(t, "DESCARTES_CRASH_SEED", int(time.Now().UnixNano()&(1<<40-1))))
	t.Logf("DESCARTES_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newField(t, fieldPlan{size: 200, width: 40, apart: true, slots: 8, meeting: []int{5, 6, 7}, refused: []int{40}, flaky: []int{11, 90}, strays: []int{3, 60}, committers: []int{9}}, randomFlags()...)
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
