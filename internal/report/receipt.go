package report

import (
	"cmp"
	"fmt"
	"strings"

	"descartes/internal/receipt"
	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// Receipt is a task's receipt as a person is shown it.
type Receipt struct {
	receipt.Claim
	On     string // the commit
	Signer string // "" where it is not signed, or nobody said whose signatures count
	Next   string
}

// Text is it for a person.
func (r *Receipt) Text() string {
	p, c := &page{}, &r.Receipt
	row := func(name, format string, args ...any) {
		for i, line := range terminal.Hang(fmt.Sprintf("  %-9s ", name)+terminal.Clean(fmt.Sprintf(format, args...)), whyWidth, 10) {
			if i > 0 {
				line = strings.Repeat(" ", 12) + strings.TrimLeft(line, " ")
			}
			p.say("%s", line)
		}
	}
	p.say("%s %s: receipt of tag %s\n", terminal.Clean(c.Task), terminal.Clean(c.Title), terminal.Clean(c.Tag))
	grade := "done"
	if c.Grade != "" {
		grade += " (" + string(c.Grade) + ")"
	}
	row("state", "%s, by attempt %d in loop %s", grade, c.Attempt, c.Loop)
	row("when", "%s to %s", terminal.Clock(c.Started), terminal.Clock(c.Finished))
	row("agent", "%s", strings.TrimSpace(c.Agent.Backend+" "+c.Agent.Model))
	row("cost", "%s", costWords(c.Cost))
	row("commit", "%s, wave %d", c.Commit.Hash, c.Wave)
	row("trees", "%s before, %s after", cmp.Or(Short(c.Base), "unknown"), Short(c.Result))
	for _, one := range c.Checks {
		word := "passed"
		if !one.Passed {
			word = "failed"
		}
		row("check", "%s %s in %s, exit code %d: %s%s", one.Name, word, took(one.Seconds), one.Code, one.Command, testWords(one))
	}
	if len(c.Checks) == 0 {
		row("check", "none: the agent's word")
	}
	for _, l := range c.Looks {
		said := "nothing against it"
		if l.Objects {
			said = "objects"
		}
		if len(l.Said) > 0 {
			said += ": " + strings.Join(l.Said, "; ")
		}
		row("look", "%s: %s", l.Name, said)
	}
	for _, line := range c.Policy {
		row("policy", "%s", line)
	}
	row("sandbox", "%s", c.Sandbox)
	row("spec", "sha256 %s", short12(c.Inputs.Spec))
	switch {
	case r.Signer != "":
		row("signed", "by %s", r.Signer)
	case len(r.Lines) > 0 && r.Lines[0].Envelope != nil:
		row("signed", "by a key that nobody here allows")
	default:
		row("signed", "no")
	}
	for _, what := range r.Problems {
		row("refused", "%s", what)
	}
	p.say("\nnext: %s", terminal.Clean(r.Next))
	return p.String()
}

func short12(digest string) string { return cmp.Or(digest[:min(12, len(digest))], "unknown") }

func costWords(c receipt.Cost) string {
	s := "unknown"
	if c.USD != nil {
		if s = journal.Dollars(*c.USD); c.Estimated {
			s += ", estimated"
		}
	}
	if c.Input+c.Output > 0 {
		s += fmt.Sprintf(", %d tokens in and %d out", c.Input, c.Output)
	}
	return s
}

// testWords is what is known of a check's tests, as the end of a sentence.
func testWords(c receipt.Check) string {
	if c.Ran == 0 {
		return ""
	}
	s := "; " + terminal.Count(c.Ran, "test")
	for _, x := range []struct {
		n    int
		word string
	}{{len(c.Fixed), "turned green"}, {len(c.Added), "new"}, {c.Known, "known to fail"}, {c.Skipped, "skipped"}, {len(c.Flaky), "flaky"}} {
		if x.n > 0 {
			s += fmt.Sprintf(", %d %s", x.n, x.word)
		}
	}
	return s
}
