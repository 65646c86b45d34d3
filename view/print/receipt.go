package print

import (
	"cmp"
	"fmt"
	"strings"

	"descartes/internal/receipt"
	"descartes/internal/terminal"
	"descartes/verify"
	"descartes/view"
)

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
