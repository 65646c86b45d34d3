package loop

import (
	"fmt"
	"strings"

	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
)

// Delivered says in one line what a task changed, for the specs of those that depend on it.
func Delivered(changed []gitops.Change) string {
	if len(changed) == 0 {
		return ""
	}
	names := make([]string, 0, 8)
	for _, c := range changed[:min(8, len(changed))] {
		names = append(names, string(rune(c.Op))+" "+c.Path)
	}
	s := strings.Join(names, ", ")
	if n := len(changed) - len(names); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// Output is what an attempt failed with: the end of the failed verify command's output, or the look's objection. What
// a check printed that passed is no failure.
func Output(res *attempt.Result) string {
	switch {
	case res.Objection != nil && res.Objection.Ask:
		return ""
	case res.Objection != nil:
		return Tail(res.Objection.Detail, MaxWords)
	case res.Verify != nil && !res.Verify.Passed:
		return res.Verify.Tail
	}
	return ""
}

// Looked are the looks at an attempt, for the journal.
func Looked(res *attempt.Result) (list []journal.Look) {
	for _, l := range res.Looks {
		kept := journal.Look{Name: l.Name, Objects: l.Objects, Said: l.Said[:min(len(l.Said), maxNotes)],
			Shown: l.Shown[:min(len(l.Shown), maxNotes)], Seconds: l.Took.Seconds()}
		if l.Agent != nil {
			kept.Agent = agentDetail(*l.Agent, Choice(l.With), 0)
		}
		list = append(list, kept)
	}
	return list
}
