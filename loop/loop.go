// Package loop has what the executors of runs share: tagrun for those over tags, run for those of prompts.
package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"descartes/agent/quota"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/redact"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/tasks"
)

// Tools are what a run works with. Redact, Free, Observe, Accounts, Sleep, Withheld, Code and Ask are optional; Repo
// is nil for a prompt without git.
type Tools struct {
	Repo   *gitops.Repo
	Agent  attempt.Agent
	Verify attempt.Verifier
	FS     atomicfile.FS
	Now    func() time.Time                // gitops.Now: file times are compared with it
	Redact *redact.Redactor                // secrets never to print, record or commit; nil: none
	Free   func(dir string) (int64, error) // free bytes on a folder's disk; nil: not checked
	// called with each event after it is written, in order; the run waits for it
	Observe func(journal.Event)

	Looks []attempt.Look // further checks of work that passed the verify command
	// hosts the sandbox refused in these slots, or in all, since the last call; nil: unknown
	Refused func(slots ...int) []string

	Accounts *quota.Accounts // which accounts are out of quota; nil remembers nothing

	Program  string            // this program and its version, for receipts
	Withheld attempt.Withheld  // variables of the caller's that commands do not get
	Code     func(Outcome) int // an outcome's exit status; nil: always 0

	Ask func(ctx context.Context, question string) (yes, answered bool) // asks a person; nil: nobody is there

	// Slot makes the agents and the verify command of a slot, and what ends their processes; dir is for their files.
	// Shown says that a sandbox mounts a slot at the project's own path.
	Slot  func(s *slot.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error)
	Shown bool
	// Layers reports whether folders in a folder can be layers of a check slot; nil: they cannot
	Layers func(dir string) bool
	Pool   string // the folder with the project's slots
	// files that specs name, from the repository's top on: attempts have them as they are in the user's tree
	Named []string

	Away Away // runs a tag's attempts on other machines; nil: they run here
}

// Away runs attempts on other machines. It is safe for concurrent use.
type Away interface {
	// Run runs an attempt and reports its steps in order; cancelling ctx interrupts it. For an order that a killed run
	// had given before, it returns the result of that one. An attempt that no machine could finish comes back as
	// cancelled.
	Run(ctx context.Context, o Order, observe func(*attempt.Step) error) (attempt.Result, error)
}

// Order is an attempt for another machine. It survives JSON.
type Order struct {
	Loop  string `json:"loop"`
	Tag   string `json:"tag"`
	Task  string `json:"task"`
	Title string `json:"title,omitempty"`
	Wave  int    `json:"wave"`
	Rank  string `json:"rank,omitempty"` // the task's priority
	Try   int    `json:"try"`            // number of the attempt within the loop
	// it has another attempt only when the journal has the end of this one
	Slot  int           `json:"-"`
	Again bool          `json:"-"` // an earlier run gave the same order
	Ref   string        `json:"-"` // of such an order: of the machine whose steps the journal has
	Steps int           `json:"-"` // and their number
	Told  bool          `json:"-"` // they tell how its agent ended
	At    gitops.Head   `json:"at"`
	Start slot.Start    `json:"start"`
	Input attempt.Input `json:"input"`
}

// Outcome is how a run ended.
type Outcome struct {
	Ending   journal.Ending
	Message  string    // one line: what stopped it
	Crashed  bool      // every blocked task's agent crashed each time; for a prompt: every iteration crashed
	Blocked  int       // tasks that the loop gave up
	Asks     bool      // no task is blocked but those whose agents ask
	Next     string    // for a step: what the next step would do
	Question string    // what the agent waits to be answered
	Until    time.Time // with QuotaUsedUp: when the quota is back
	Unpushed string    // the command that does what --push could not, or ""
	Branch   string    // that received the commits, if it is not checked out
	Commits  int       // the branch's newest ones that have all of the loop's; 0: unknown
	Lost     []string  // with Paused: tasks whose commits are gone from the branch
	Merging  string    // what to type to have its commits here, or the work that is in no commit

	Baseline *Baseline // with BaselineFails
	Checks   *EndError // with ChecksFail
	Err      error     // with OwnError, if there is one
}

// OutcomeOf returns the outcome recorded in a loop_finished or loop_paused event.
func OutcomeOf(e *journal.Event) Outcome {
	out := Outcome{Ending: journal.Ending(e.Reason), Message: e.Message}
	if d := e.Detail; d != nil {
		out.Ending = journal.Ending(d.End)
		out.Branch, out.Commits, out.Merging, out.Unpushed = e.Branch, d.Commits, d.Merging, d.Unpushed
		out.Lost = d.Lost
		if d.Until != nil {
			out.Until = *d.Until
		}
	}
	return out
}

// NameCheck sets which command an event is about.
func NameCheck(e *journal.Event, c attempt.Command) {
	switch {
	case c.Criterion:
		e.Title = c.Name
	case c.Name != "":
		if e.Detail == nil {
			e.Detail = &journal.Detail{}
		}
		e.Detail.Check = c.Name
	}
}

// RedactEvent masks secrets in the words of others within an event.
func RedactEvent(m *redact.Redactor, e *journal.Event) {
	if m == nil {
		return
	}
	if gate := m.Bytes(bytes.Clone(e.Gate)); json.Valid(gate) {
		e.Gate = gate
	}
	for _, t := range e.Texts() {
		*t = m.Text(*t)
	}
}

// Trailer is JSON for a commit's message: without secrets, and in ASCII, so that no terminal obeys what others wrote.
func Trailer(m *redact.Redactor, data []byte) string {
	var b strings.Builder
	for _, r := range string(m.Bytes(data)) {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Hosts are those that the sandbox refused in these slots, or in all, since it was asked last.
func (t *Tools) Hosts(slots ...int) []string {
	if t.Refused == nil {
		return nil
	}
	return t.Refused(slots...)
}

// Denied lists what the sandbox refused the attempt with that log, these hosts among it.
func (t *Tools) Denied(c *Config, root string, list *tasks.File, log string, hosts []string) []string {
	if !c.Confined() {
		return nil
	}
	fixed, others := source.Protected(c, root, list)
	return attempt.Denied(root, append(fixed, others...), log, hosts)
}

// Config is what a loop was asked to do; config has each setting with its flag, key and default.
type (
	Config        = config.Config
	RepeatConfig  = config.RepeatConfig
	GateConfig    = config.GateConfig
	SafetyConfig  = config.SafetyConfig
	BackendConfig = config.BackendConfig
	GitConfig     = config.GitConfig
	ScudConfig    = config.ScudConfig
	SpecConfig    = config.SpecConfig
	AgentType     = config.AgentType
	Models        = config.Models
	Choice        = config.Choice
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
