//go:build crashpoints

package main

import "testing"

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

// manyAttempts are enough for a task that conflicts with all others, one after the other.
func manyAttempts(_ *testing.T, f *field) { f.flags = append(f.flags, randomFlags()...) }

// TestCrashSlots kills a run with slots at every few of its points. Which one the k-th is differs from run to run.
func TestCrashSlots(t *testing.T) {
	every := number(t, "DESCARTES_CRASH_EVERY", 9)
	t.Run("apart", func(t *testing.T) { crashEach(t, slotsPlan(), every, rotating(every), asItIs) })
	t.Run("meeting", func(t *testing.T) { crashEach(t, meetingPlan(), 2*every, rotating(2*every), manyAttempts) })
}
