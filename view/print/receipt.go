package print

import (
	"cmp"
	"fmt"
	"strings"

	"descartes/internal/receipt"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/verify"
	"descartes/view"
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
	p, c := &text{}, &r.Receipt
	row := func(name, format string, args ...any) {
		for _, line := range terminal.Wrap(terminal.Clean(fmt.Sprintf(format, args...)), width-12) {
			p.say("  %-9s %s", name, line)
			name = ""
		}
	}
	p.say("%s %s: receipt of tag %s\n", terminal.Clean(c.Task), terminal.Clean(c.Title), terminal.Clean(c.Tag))
	grade := "done"
	if c.Grade != "" {
		grade += " (" + string(c.Grade) + ")"
	}
	row("state", "%s, by attempt %d in loop %s", grade, c.Attempt, c.Loop)
	row("when", "%s to %s", terminal.Clock(c.Started), terminal.Clock(c.Finished))
	row("agent", "%s", cmp.Or(strings.TrimSpace(c.Agent.Backend+" "+c.Agent.Model), "none"))
	row("cost", "%s", costWords(c.Cost))
	row("commit", "%s, wave %d", c.Commit.Hash, c.Wave)
	row("trees", "%s before, %s after", cmp.Or(view.Short(c.Base), "unknown"), view.Short(c.Result))
	for _, one := range c.Checks {
		word := "passed"
		if !one.Passed {
			word = "failed"
		}
		row("check", "%s %s in %s, exit code %d: %s%s", one.Name, word, seconds(one.Seconds), one.Code, one.Command, testWords(one))
	}
	if len(c.Checks) == 0 {
		row("check", "none: %s", cmp.Or(c.Accepted, "the agent's word"))
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

// RecheckHead says by what receipts are rechecked.
func RecheckHead(checks []verify.Check, from string, signed bool) string {
	p := &text{}
	for _, c := range checks {
		p.say("%s", strings.Join(terminal.Hang(fmt.Sprintf("check: %s: %s (from %s)", c.Title(), terminal.Clean(c.Run), from), width, 2), "\n"))
	}
	if signed {
		p.say("signatures: by an allowed signer, or the receipt does not hold")
	}
	return p.String()
}

// RecheckText is what became of one commit's receipts.
func RecheckText(l receipt.Looked) string {
	p := &text{}
	p.say("\n%s %s", view.Short(l.Hash), terminal.Clean(l.Subject))
	if len(l.Claims) == 0 {
		p.say("  no receipt is about it")
		return p.String()
	}
	say := func(indent int, format string, args ...any) {
		text := strings.Repeat(" ", indent) + terminal.Clean(fmt.Sprintf(format, args...))
		p.say("%s", strings.Join(terminal.Hang(text, width, 2), "\n"))
	}
	for _, c := range l.Checks {
		word := "passes"
		if !c.Passed {
			word = "does not pass: " + c.Reason
		}
		say(2, "%s %s, after %s", c.Name, word, seconds(c.Seconds))
	}
	for _, c := range l.Claims {
		who := strings.TrimSpace(c.Task + " " + terminal.FitWords(c.Title, 50))
		found := ""
		if c.Found == "patch" {
			found = ", the patch of " + view.Short(c.Written)
		}
		if c.Signer != "" {
			found += ", signed by " + c.Signer
		}
		say(2, "%s: %s%s", cmp.Or(who, "its note"), c.Verdict, found)
		for _, why := range c.Reasons {
			say(4, "%s", why)
		}
		for _, note := range c.Notes {
			say(4, "note: %s", note)
		}
	}
	return p.String()
}

// RecheckEnd counts the verdicts.
func RecheckEnd(list []receipt.Looked) string {
	n := map[receipt.Verdict]int{}
	without := 0
	for _, l := range list {
		if len(l.Claims) == 0 {
			without++
		}
		for _, c := range l.Claims {
			n[c.Verdict]++
		}
	}
	all := n[receipt.Holds] + n[receipt.HoldsNot] + n[receipt.CannotTell]
	s := fmt.Sprintf("\n%d of %d receipts hold", n[receipt.Holds], all)
	if x := n[receipt.HoldsNot]; x > 0 {
		s += fmt.Sprintf(", %d do not", x)
	}
	if x := n[receipt.CannotTell]; x > 0 {
		s += fmt.Sprintf(", %d unclear", x)
	}
	if without > 0 {
		s += "; no receipt is about " + terminal.Count(without, "commit")
	}
	return s + "\n"
}
