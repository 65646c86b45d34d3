package loop

import (
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
)

// Iteration is one iteration of a prompt loop, or one try of a repeated iteration.
type Iteration struct {
	Number  int // from 1
	Max     int
	Try     int    // from 1; higher if the iteration is repeated
	Next    string // what the iteration before it, or the gate, tells the agent
	Failing bool   // the last run of the verify command did not pass

	// set after it has ended
	Facts   gate.Facts
	Watched bool   // Facts.Changed is known
	Beside  bool   // it changed what its rules do not take
	Unfit   string // why its work is in no commit, before its rules are asked; "" for nothing

	Slot    *slot.Slot               // slot it runs in; nil: a folder without git
	Mounted bool                     // a sandbox mounts the slot at the project's path
	Began   func(name string) []byte // a file as it was when the loop began; nil without git
}

// At is the path of a project's file for the iteration, in its slot if it has one.
func (it *Iteration) At(path string) string {
	if it.Slot == nil {
		return path
	}
	return it.Slot.Host(path)
}

// Seen is At as the iteration's agent sees it.
func (it *Iteration) Seen(path string) string {
	if it.Mounted {
		return path
	}
	return it.At(path)
}

// Was is a file of the project as it was when the loop began; nil where it was not there, or there is no git.
func (it *Iteration) Was(name string) []byte {
	if it.Began == nil {
		return nil
	}
	return it.Began(name)
}

// Rules are what differs between the kinds of prompt loops. Plain has none of its own.
type Rules interface {
	Before(*Iteration) *Outcome   // may the iteration begin? An outcome ends the run
	About() string                // the iteration's subject in one line, recorded with its start
	Announce(*Iteration) []string // lines shown to people before it
	// the prompt; not ok: use the settings' prompt with its iteration context
	Compose(*Iteration) (text string, ok bool)
	Checks(*Iteration) bool     // whether to run the verify command after it
	Own(*Iteration) []gate.Item // whose own checks it has to pass besides
	Facts(*Iteration) error     // completes the facts for the gate
	Takes(path string) bool     // whether a change of a file is its work
	// files below the project as they are kept, without what only success may claim
	TakeBack(*Iteration) map[string][]byte
	Fails(*Iteration) Failure         // whether to repeat the iteration; what failed is in no commit
	Subject(*Iteration) (line string) // first line of the commit message; "": the settings' template
}

// Failure is why an iteration is repeated, and how the run ends once it has been repeated often enough.
type Failure struct {
	Reason string // "" for none
	Ending journal.Ending
}

// Plain are the rules of a prompt that is repeated as it is.
type Plain struct{}

func (Plain) Before(*Iteration) *Outcome { return nil }

func (Plain) About() string { return "" }

func (Plain) Announce(*Iteration) []string { return nil }

func (Plain) Compose(*Iteration) (string, bool) { return "", false }

func (Plain) Checks(*Iteration) bool { return true }

func (Plain) Own(*Iteration) []gate.Item { return nil }

func (Plain) Facts(*Iteration) error { return nil }

func (Plain) Takes(string) bool { return true }

func (Plain) TakeBack(*Iteration) map[string][]byte { return nil }

func (Plain) Fails(*Iteration) Failure { return Failure{} }

func (Plain) Subject(*Iteration) string { return "" }
