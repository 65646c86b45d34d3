package view

import (
	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// Stand is how a task stands, and in what colour a run is shown. A run is Done, Running, Limited, Asks (waits for a
// person), Blocked (red) or Held (over, with work left).
type Stand string

// The stands, in the order of what a person should see first.
const (
	Asks        Stand = "asks"        // for an answer
	Blocked     Stand = "blocked"     // given up
	Running     Stand = "running"     // an attempt is worked on
	Limited     Stand = "quota"       // waits for its provider
	Merged      Stand = "merged"      // into the trunk, and the branch lacks it
	Interrupted Stand = "interrupted" // its loop was killed
	Ready       Stand = "ready"
	Waiting     Stand = "waiting" // for other tasks
	Held        Stand = "held"    // by a blocked task
	Other       Stand = "other"   // no loop runs it
	Done        Stand = "done"
)

// Stands are all of them in order.
func Stands() []Stand {
	return []Stand{Asks, Blocked, Running, Limited, Merged, Interrupted, Ready, Waiting, Held, Other, Done}
}

// looks are the sign and the colour of each stand, and the heading of a list of such tasks.
var looks = map[Stand]struct{ sign, colour, heading, help string }{
	Asks:        {"?", terminal.Yellow, "Waiting for your answer", "waits for your answer"},
	Blocked:     {"✗", terminal.Red, "Blocked", "blocked"},
	Running:     {"●", terminal.Bold, "Running", "worked on"},
	Limited:     {"…", terminal.Yellow, "Waiting for quota", "waits for its provider"},
	Merged:      {"●", terminal.Green, "Merged", "merged, and in no commit of the branch yet"},
	Interrupted: {"○", terminal.Yellow, "Interrupted", "interrupted, and tried again"},
	Ready:       {"○", terminal.Faint, "Next", "ready"},
	Waiting:     {"○", terminal.Faint, "Waiting for other tasks", "waits for other tasks"},
	Held:        {"◌", terminal.Yellow, "Held", "held by a blocked task"},
	Other:       {"–", terminal.Yellow, "Not run", "set aside"},
	Done:        {"✓", terminal.Green, "Done", "done"},
}

// Sign says without colour what Colour says.
func (s Stand) Sign() string { return looks[s].sign }

// Colour is a code of package terminal.
func (s Stand) Colour() string { return looks[s].colour }

// Heading stands over a list of them.
func (s Stand) Heading() string { return looks[s].heading }

// Help says what the sign means.
func (s Stand) Help() string { return looks[s].help }

// verdictStand is that of an attempt that has ended.
func verdictStand(v string) Stand {
	switch journal.Verdict(v) {
	case journal.Verified, journal.Verdict(journal.Accepted), journal.Verdict(journal.Done),
		journal.Verdict(journal.Continue):
		return Done
	case journal.Failed, journal.Crashed, journal.TimedOut, journal.Blocked, journal.Verdict(journal.Retry):
		return Blocked
	case journal.Limited:
		return Limited
	}
	return Other
}

// VerdictWord is a verdict as what an attempt did.
func VerdictWord(v journal.Verdict) string {
	switch v {
	case journal.Verified:
		return "done"
	case journal.TimedOut:
		return "timed out"
	case journal.Cancelled:
		return "was interrupted"
	case journal.Limited:
		return "ran out of quota"
	case journal.Clashed:
		return "was not merged"
	case journal.Blocked, journal.Crashed, journal.Failed:
	}
	return string(v)
}
