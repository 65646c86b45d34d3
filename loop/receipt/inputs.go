package receipt

import (
	"encoding/json"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/loop/journal"
	"descartes/tasks"
	"descartes/tasks/plan"
)

// TaskDigest names what a task asks for: another title, text, dependency or test is another task.
func TaskDigest(t *tasks.Task) string {
	deps := slices.Clone(t.DependsOn)
	slices.Sort(deps)
	unticked := func(text string) string { return box.ReplaceAllString(text, "$1[ ]$2") }
	parts := []string{t.Title, unticked(t.Description), unticked(t.Details), strings.Join(deps, "\x00"),
		t.TestStrategy, t.Acceptance}
	if t.Verify != "" {
		parts = append(parts, t.Verify)
	}
	return digestOf(parts...)
}

// box is a box of a checklist: its mark is no part of what a plan asks for.
var box = lazyregexp.New(`(?m)^(\s*(?:[-*+]|\d+[.)])\s+)\[[^\]\n]{0,8}\](\s|$)`)

// PlanDigest names a task's section of a plan, "" where it has none of its own.
func PlanDigest(p *plan.Document, t tasks.Task, parents []tasks.Task) string {
	if p == nil {
		return ""
	}
	s := p.Section(t, parents)
	var texts []string
	for _, part := range slices.Concat(s.Parts, s.Criteria) {
		texts = append(texts, box.ReplaceAllString(part.Text, "$1[ ]$2"))
	}
	if len(texts) == 0 {
		return ""
	}
	return digestOf(texts...)
}

// PolicyDigest names what is in force.
func PolicyDigest(lines []string) string { return digestOf(lines...) }

func digestOf(texts ...string) string {
	b, err := json.Marshal(texts)
	if err != nil {
		panic(err) // texts are always JSON
	}
	return Digest(b)
}

// Changed says what of a receipt's inputs is not what it was: task, plan or policy. What was not recorded has not
// changed.
func Changed(then, now journal.Inputs) (what []string) {
	differ := func(name, a, b string) {
		if a != "" && a != b {
			what = append(what, name)
		}
	}
	differ("task", then.Task, now.Task)
	differ("plan", then.Plan, now.Plan)
	if now.Settings != "" { // else they cannot be read
		differ("policy", then.Settings, now.Settings)
	}
	return what
}
