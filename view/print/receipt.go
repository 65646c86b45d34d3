package print

import (
	"fmt"
	"strings"

	"descartes/internal/terminal"
	"descartes/loop/receipt"
	"descartes/verify"
)

// RecheckHead says by what receipts are rechecked.
func RecheckHead(checks []verify.Check, from string, signed bool) string {
	p := &text{}
	for _, c := range checks {
		p.say("%s", strings.Join(terminal.Hang(fmt.Sprintf("check: %s: %s (from %s)", c.Title(), terminal.Clean(c.Run),
			from), width, 2), "\n"))
	}
	if signed {
		p.say("signatures: by an allowed signer, or the receipt does not hold")
	}
	return p.String()
}

// RecheckText is what became of one commit's receipts.
func RecheckText(l receipt.Looked) string { return draw("recheck", l) }

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
