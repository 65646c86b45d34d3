package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"descartes/config"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// A prompt that is repeated: what is asked of it, and the texts that its agents are given besides. Package run repeats
// it.

// PromptJob is a prompt ready to be repeated.
type PromptJob struct {
	Dir    string // where the agent works
	Kind   string // prompt, plan, build
	Config Config
	Gate   Gate  // nil: the first iteration that exits with status 0 ends the loop
	Rules  Rules // nil: Plain
	Yes    bool  // a person's answer to the gate's question
}

// Gate is the rule that ends a prompt loop: one of package gate, as a pointer. Its state encodes to JSON, is recorded
// in the journal with each iteration, and is restored when the loop is resumed.
type Gate interface {
	Decide(gate.Facts) gate.Decision
	Instructions() string
}

// The gates of a prompt loop, as Config.Gate names them. "" is the promise.
const (
	GatePromise  = "promise"
	GateStatus   = "status"
	GateCriteria = "criteria"
)

// NewGate returns the gate for these settings. Without a promise to look for it is nil: the first iteration that exits
// with status 0 is the last. A spec too vague for the criteria gate is a *gate.VagueError.
func NewGate(c Config) (Gate, error) {
	switch c.Gate {
	case "", GatePromise:
		if strings.TrimSpace(c.CompletionPromise) == "" {
			return nil, nil
		}
		return &gate.Promise{Word: c.CompletionPromise}, nil
	case GateStatus:
		return &gate.Status{Limits: statusLimits(&c)}, nil
	case GateCriteria:
		g, err := gate.NewCriteria(criteriaOptions(&c))
		if err != nil {
			return nil, err
		}
		return g, nil
	}
	return nil, fmt.Errorf("unknown gate %q: the gates are promise, status and criteria", c.Gate)
}

// statusLimits returns the limits of the status gate's breaker. "off" switches them all off; a number limits the
// iterations without progress.
func statusLimits(c *Config) gate.Limits {
	l := gate.Limits{Cooldown: seconds(c.CooldownSecs), NoProgress: c.Breaker}
	if c.Breaker < 0 {
		l.SameError, l.Shrink = config.BreakerOff, config.BreakerOff
	}
	return l
}

func criteriaOptions(c *Config) gate.Options {
	o := gate.Options{Spec: c.Prompt, Asked: gate.Asked{Criteria: c.Criteria, MustNot: c.MustNot}, Shape: c.Shape,
		Reversibility: gate.Reversibility(c.Reversibility), Freely: c.NoConfirm || gate.Freely(c.Prompt)}
	o.Caps.Iterations, o.Caps.BudgetUSD, o.Caps.FileEdits = c.MaxIterations, c.MaxCostUSD, c.MaxFileEdits
	if c.MaxCostUSD == 0 {
		o.Caps.BudgetUSD = -1 // cmd has already put the default into the settings
	}
	return o
}

// Deciding returns the gate that decides, without a wrapper around it.
func Deciding(g Gate) Gate {
	for {
		outer, ok := g.(interface{ Within() Gate })
		if !ok {
			return g
		}
		g = outer.Within()
	}
}

// PrecheckAgent makes the loop's own agent do the pre-check.
const PrecheckAgent = "agent"

func PrecheckPrompt(spec string) string {
	return `# Adversarial pre-check

The work below is hard to undo. Change nothing. Look for reasons not to do it: data that would be lost, users that would break, no way back, a forgotten step, a smaller change that would do.

If there are none, end your message with this line:

<promise>AGREED</promise>

Otherwise say in a few lines what must be settled first.

## The work

` + spec + "\n"
}

// IterationContext tells the agent of a later iteration where it stands. Without a promise it mentions none.
func IterationContext(iteration, most int, promise string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nITERATION CONTEXT:\n- This is iteration %d of %d\n", iteration, most)
	b.WriteString("- Your previous work persists in files and git history\n- Review what you've done and continue improving\n")
	if promise != "" {
		fmt.Fprintf(&b, "- Output <promise>%s</promise> when the task is completely finished\n", promise)
	}
	b.WriteString("---\n")
	return b.String()
}

// MostBeside is the largest size, in bytes, of what is added to the settings' prompt: where the iteration stands, and
// how the verification failed. What a gate adds has no limit.
func MostBeside(c Config) int {
	n := 2
	if c.IterationContext {
		n += len(IterationContext(c.MaxIterations, c.MaxIterations, c.CompletionPromise)) + 2
	}
	longest := 0
	for _, one := range c.ChecksOf(false) {
		longest = max(longest, len(one.Run)+MaxWords+256)
	}
	n += longest
	if c.Confined() {
		n += attempt.MaxDenied*(attempt.MaxDeniedLine+4) + 128
	}
	return n
}

// FailureText tells the next iteration's agent how the verification failed, or what a look objects to.
func FailureText(res *attempt.Result) string {
	v := res.Verify
	if why := res.Work.TookBack; why != "" {
		return "The changes of the last iteration were not taken: " + why + "\n"
	}
	if o := res.Objection; o != nil {
		text := fmt.Sprintf("After the last iteration the %s objected: %s", o.By, o.Reason)
		if o.Detail == "" {
			return text + "\n"
		}
		return text + ":\n\n" + fenced(o.Detail)
	}
	if v == nil || v.Passed {
		return ""
	}
	return fmt.Sprintf("After the last iteration `%s` did not pass (%s). The end of its output:\n\n%s", v.Command,
		v.Reason(), fenced(v.Tail))
}

// fenced returns the end of a text as a block of code.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("%s\n%s\n%s\n", fence, strings.TrimRight(Tail(text, MaxWords), "\n"), fence)
}

// JoinText joins parts of a prompt with blank lines.
func JoinText(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimRight(p, "\n"); strings.TrimSpace(p) != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n")
}

// EachLine splits texts into their lines.
func EachLine(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, strings.Split(strings.TrimRight(t, "\n"), "\n")...)
	}
	return out
}

// IterationPrompt returns the text an iteration's agent got, or gets now; if it was not kept, the loop's own prompt.
func IterationPrompt(h store.Home, pool string, s *store.State, a *journal.Attempt) (string, error) {
	path := h.KeptPrompt(s.ID, a.Iteration, a.Number)
	if !a.Over() {
		path = (&attempt.Runner{Dir: h.SlotFiles(pool, s.ID, a.Slot)}).PromptFile()
	}
	b, err := plainfile.Read("", path, store.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s.Config.Prompt, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the prompt of iteration %d: %w", a.Iteration, err)
	}
	return string(b), nil
}

// MaxChanged limits the changed paths of an iteration in the journal.
const MaxChanged = 100
