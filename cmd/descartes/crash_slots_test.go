//go:build crashpoints

package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// TestCrashSlots kills a run with slots at the first, at the second and at a late point of each kind, and at a second one while it is resumed. What
// happens in which order differs from run to run, so that a point is known by its name.
func TestCrashSlots(t *testing.T) {
	t.Run("apart", func(t *testing.T) { crashKinds(t, slotsPlan()) })
	t.Run("meeting", func(t *testing.T) { crashKinds(t, meetingPlan()) })
}

// varying are the parts of a point's name that are not the same in each run.
var varying = regexp.MustCompile(`loop-[0-9a-f]+|/[0-9]+`)

func crashKinds(t *testing.T, p fieldPlan) {
	f := newField(t, p, randomFlags()...)
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
	for i, kind := range kinds {
		for _, n := range slices.Compact([]int{1, min(2, times[kind]), max(1, times[kind]*2/3)}) {
			t.Run(fmt.Sprint(kind, " ", n), func(t *testing.T) {
				t.Parallel()
				f := newField(t, p, randomFlags()...)
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
