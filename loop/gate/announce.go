package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Disclosure is the question that a person gets once, at the start.
const Disclosure = "Writing state to .loop/state.json. Delete after session? [Y/n]"

// Starting announces the loop.
func (c *Criteria) Starting() string {
	budget := "none"
	if c.Caps.BudgetUSD > 0 {
		budget = money(c.Caps.BudgetUSD)
	}
	return fmt.Sprintf("[LOOP] Starting | Shape: %s (%d/10) | Workflow: %s | Steps: %d | Budget: %s", c.Shape, c.Score,
		c.Workflow, len(c.Steps), budget)
}

// Before announces an iteration, counted from 1. cost is the loop's cost so far, nil if unknown; most is the largest
// number of iterations, less than 1 for no limit.
func (c *Criteria) Before(iteration, most int, cost *float64) string {
	of, spent, step := "", "$?", cmp.Or(c.Step(), "verify all criteria")
	if most > 0 {
		of = fmt.Sprintf("/%d", most)
	}
	if cost != nil {
		spent = money(*cost)
	}
	if c.Caps.BudgetUSD > 0 {
		spent += "/" + money(c.Caps.BudgetUSD)
	}
	return fmt.Sprintf("[LOOP] Iteration %d%s | Cost: %s | Step: %s", iteration, of, spent, step)
}

// after announces an iteration's end: step was the first incomplete step, before the number of complete ones.
func (c *Criteria) after(step string, before int) string {
	done := c.done()
	next := cmp.Or(cmp.Or(c.Step(), c.Next), "none")
	if len(done) > before && slices.Contains(done, step) || step == "" && c.Signal {
		return fmt.Sprintf("[LOOP] ✓ %s complete | Progress: %d/%d | Next: %s", cmp.Or(step, "verify all criteria"),
			len(done), len(c.Steps), next)
	}
	return fmt.Sprintf("[LOOP] … %s not complete | Progress: %d/%d | Next: %s", cmp.Or(step, "verify all criteria"),
		len(done), len(c.Steps), cmp.Or(c.Next, next))
}

func (c *Criteria) decomposed() []string {
	out := []string{fmt.Sprintf("G1: Decomposed into %s:", count(len(c.Steps), "step"))}
	for i, s := range c.Steps {
		out = append(out, fmt.Sprintf("%d. %s", i+1, s))
	}
	return out
}

// Finished is the block that ends a loop whose criteria are met, with the verdict box.
func (c *Criteria) Finished() string {
	var b strings.Builder
	b.WriteString("<loop-complete>\nAll success criteria satisfied:\n")
	for _, k := range c.Asked.Criteria {
		fmt.Fprintf(&b, "- %s: ✓\n", k.Text)
	}
	b.WriteString("</loop-complete>\n")
	return b.String() + c.Box()
}

// The box's verdicts.
const (
	Ship     = "SHIP"     // every criterion is verified, and the work can be undone
	Monitor  = "MONITOR"  // verified, but by reading alone, or hard to undo
	Research = "RESEARCH" // something is not verified
)

// Verdict is what the evidence adds up to.
func (c *Criteria) Verdict() string {
	weak := c.Class == Type1
	for _, k := range c.Asked.Criteria {
		m := c.Status[k.Text]
		if !m.Met || assumed(m.Verification) {
			return Research
		}
		weak = weak || strings.Contains(strings.ToLower(m.Verification), "review")
	}
	if weak {
		return Monitor
	}
	return Ship
}

// Box shows the verdict with its evidence in a frame that is open to the right: evidence has any length.
func (c *Criteria) Box() string {
	var kinds, rest []string
	for _, k := range c.Asked.Criteria {
		m := c.Status[k.Text]
		kind := cmp.Or(m.Verification, "the agent's word")
		if !m.Met || assumed(m.Verification) {
			rest = append(rest, k.Text)
		} else if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	lines := []string{"Verified: " + cmp.Or(strings.Join(kinds, ", "), "nothing")}
	if len(rest) > 0 {
		lines = append(lines, "Unverified: "+strings.Join(rest, ", "))
	}
	lines = append(lines, fmt.Sprintf("Criteria: %d/%d met", len(c.Asked.Criteria)-len(rest), len(c.Asked.Criteria)),
		"Reversible: "+string(c.Class))
	verdict := c.Verdict()
	light := map[string]string{Ship: "🟢", Monitor: "🟡", Research: "🔴"}[verdict]
	return fmt.Sprintf("╭─ %s %s %s╮\n│ %s\n╰%s╯\n", light, verdict, strings.Repeat("─", boxWidth-6-len(verdict)),
		strings.Join(lines, "\n│ "), strings.Repeat("─", boxWidth))
}

// boxWidth is the inner width of the frame in columns.
const boxWidth = 37

// StateFile is the new text of .loop/state.json, with fields that others put into it.
func (c *Criteria) StateFile() []byte {
	st := LoopState{Spec: c.Spec, ExitSignal: c.Signal, Iteration: c.Iteration, State: c.State,
		Status: map[string]Met{},
		Steps:  append([]string{}, c.Steps...), Completed: append([]string{}, c.done()...), Remaining: []string{}}
	for _, k := range c.Asked.Criteria {
		st.Criteria = append(st.Criteria, k.Text)
		m := c.Status[k.Text]
		m.Met = m.Met && !assumed(m.Verification)
		st.Status[k.Text] = m
	}
	for _, s := range c.Steps {
		if !slices.Contains(st.Completed, s) {
			st.Remaining = append(st.Remaining, s)
		}
	}
	st.Breaker.Stuck, st.Breaker.LastUnmet = c.Count.Stuck, c.Count.LastUnmet
	return st.Encode(c.Others)
}

// Instructions is what every prompt of the loop says about its criteria and how to report.
func (c *Criteria) Instructions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Workflow %s. %s\nDo ONE logical unit of work in this iteration, then verify the criteria that it affects.\n\nSuccess criteria:\n", c.Workflow.Name(), c.Workflow.Gate())
	var status []string
	for _, k := range c.Asked.Criteria {
		how := ""
		if k.Command != "" {
			how = fmt.Sprintf(" (the loop runs `%s`; its exit status decides)", k.Command)
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

If you cannot continue without a person: <loop-blocked>what you need</loop-blocked>
`, ByExecution, ByObservation, ByMeasurement, ByReview, strings.Join(status, ", "), c.Count.Stuck)
	return b.String()
}

// ahead tells the next iteration what is missing, in the words of the failing commands.
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
