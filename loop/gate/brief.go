package gate

import (
	"fmt"
	"slices"
	"strings"
)

// Instructions is what every prompt of the loop says about its criteria and how to report.
func (c *Criteria) Instructions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Workflow %s. %s\nDo ONE logical unit of work in this iteration, then verify the criteria that it affects.\n\nSuccess criteria:\n", c.Workflow.Name(), c.Workflow.Gate())
	var status []string
	for _, k := range c.Asked.Criteria {
		how := ""
		if k.Command != "" {
			how = fmt.Sprintf(" (the loop runs `%s` and believes its exit status)", k.Command)
		} else if k.Verification != "" {
			how = fmt.Sprintf(" (verify by %s)", k.Verification)
		}
		fmt.Fprintf(&b, "- %s%s\n", k.Text, how)
		status = append(status, string(plainJSON(k.Text))+": false")
	}
	if len(c.Asked.MustNot) > 0 {
		b.WriteString("\nThis must not become true; if it does, stop and say so in <loop-blocked>:\n")
		for _, k := range c.Asked.MustNot {
			fmt.Fprintf(&b, "- %s\n", k.Text)
		}
	}
	fmt.Fprintf(&b, `
.loop/state.json has the state of the loop. Set criteriaStatus there to what you verified, to {"met": true, "verification": "..."} with the kind of evidence: %s, %s, %s or %s. An assumption never counts. Move steps that are complete to completedSteps.

End your final message with this block, in exactly this format:

---LOOP_STATUS---
EXIT_SIGNAL: false
CRITERIA: {%s}
STUCK_COUNT: %d
NEXT: <what comes next>
---END_STATUS---

- EXIT_SIGNAL: true ONLY when ALL criteria are verified true
- CRITERIA must match criteriaStatus in .loop/state.json
- STUCK_COUNT increments when the same criteria remain unmet
- NEXT describes the next action
When all criteria are true and EXIT_SIGNAL is true, also write:

<loop-complete>
All success criteria satisfied:
- [criterion]: ✓
</loop-complete>

If you cannot go on without a person: <loop-blocked>what you need</loop-blocked>
`, ByExecution, ByObservation, ByMeasurement, ByReview, strings.Join(status, ", "), c.Count.Stuck)
	return b.String()
}

// ahead tells the next iteration what is missing, with the words of the commands that fail.
func (c *Criteria) ahead(f Facts, unmet []string) string {
	var b strings.Builder
	if len(unmet) > 0 {
		fmt.Fprintf(&b, "Not met yet: %s\n", list(unmet, 20))
	}
	for _, r := range f.Checks {
		if !r.Passed && slices.Contains(unmet, r.Name) && strings.TrimSpace(r.Output) != "" {
			fmt.Fprintf(&b, "The command of %q fails. The end of its output:\n%s\n", r.Name, end(r.Output, 2000))
		}
	}
	if step := c.Step(); step != "" {
		fmt.Fprintf(&b, "Next step: %s\n", step)
	}
	return b.String()
}

// end is the last n bytes of a text, from the start of a line.
func end(text string, n int) string {
	text = strings.TrimRight(text, " \t\n")
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	if at := strings.IndexByte(text, '\n'); at >= 0 {
		text = text[at+1:]
	}
	return strings.ToValidUTF8(text, "")
}
