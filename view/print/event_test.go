package print

import (
	"strings"
	"testing"

	"descartes/loop/journal"
)

func TestLineHasNoControlCharacters(t *testing.T) {
	t.Parallel()
	p := NewEvents(false)
	evil := "a\x1b[2Jb\nc"
	for _, typ := range []journal.Type{journal.LoopStarted, journal.LoopResumed, journal.WaveStarted,
		journal.TaskStarted, journal.AttemptStarted, journal.AttemptFinished,
		journal.TaskDone, journal.TaskBlocked, journal.TaskHeld, journal.WaveCommitted, journal.LimitWaiting,
		journal.Warning, journal.LoopFinished} {
		e := journal.Event{Type: typ, Loop: "loop-1", Unit: journal.Unit{Task: evil, Title: evil}, Reason: evil,
			Message: evil, Verdict: "failed"}
		line := strings.Replace(p.Line(&e), "\n  restored: ", " ", 1) // what a block put back has a line of its own
		if strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("%s: %q", typ, line)
		}
	}
}
