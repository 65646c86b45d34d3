package loop

import (
	"descartes/gitops"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/workspace"
)

// Gate is the rule that ends a prompt loop: one of package gate, as a pointer. Its state encodes to JSON, is recorded
// in the journal with each iteration, and is restored when the loop is resumed.
type Gate interface {
	Decide(gate.Facts) gate.Decision
	Instructions() string
}

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

	Slot    *workspace.Slot          // slot it runs in; nil: a folder without git
	Mounted bool                     // a sandbox mounts the slot at the project's path
	Began   func(name string) []byte // a file as it was when the loop began; nil without git

	base    gitops.Tree // the tree that its commit is compared with
	owed    gitops.Tree // the tree that what its commit leaves out is compared with, or ""
	edits   map[string]int
	file    []byte // .loop/state.json as the agent left it
	commit  string
	apart   string // why its changes did not arrive in the user's tree, or ""
	own     bool   // the commits that its agent made are the branch's
	ref     string // of the checkpoint
	refused string // why git rejected the commit, if the iteration can be repeated
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
	Retries() int                     // how often one iteration is repeated after a failure
	Apart() bool                      // commit its changes without those of earlier failed iterations
	Subject(*Iteration) (line string) // first line of the commit message; "": the settings' template
}

// Plain are the rules of a prompt that is repeated as it is.
type Plain struct{}

// Failure is why an iteration is repeated, and how the run ends once it has been repeated often enough.
type Failure struct {
	Reason string // "" for none
	Ending journal.Ending
}

// PromptJob is a prompt ready to be repeated.
type PromptJob struct {
	Dir    string // where the agent works
	Kind   string // prompt, plan, build
	Config Config
	Gate   Gate  // nil: the first iteration that exits with status 0 ends the loop
	Rules  Rules // nil: Plain
	Watch  bool  // record what each iteration changes, even if nothing is committed
	Yes    bool  // a person's answer to the gate's question
}
