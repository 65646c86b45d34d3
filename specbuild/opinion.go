package specbuild

import "strings"

// Opinion is what a second agent sees of work that the checks have passed. It survives JSON.
type Opinion struct {
	Tag      string
	Tasks    []Reviewed // one, or those of a wave
	Wave     int        // whose commit it is about; 0: it is about one task
	Ask      string     // what the user wants looked at besides
	Checks   []PassedCheck
	DiffStat string
	Diff     string
	Whole    bool   // Diff is all of it
	Unread   string // why an earlier answer could not be read; "" for none
}

// Reviewed is a task with what it asks for.
type Reviewed struct {
	Name     string // Task 3: Title
	Text     string // description, details and test strategy
	Criteria []Criterion
	Answers  []Answer // a person's, to earlier questions
}

// PassedCheck is a check that passed on the work.
type PassedCheck struct {
	Name, Command, Output string
}

// OpinionDiff bounds, in bytes, the diff that an opinion is shown.
const OpinionDiff = 64 << 10

// ReviewedTask is a request's task for an opinion.
func ReviewedTask(req Request) Reviewed {
	d := newDraft(req)
	text := render("said", d.Task)
	if s := d.section; s != nil {
		for _, part := range s.Parts {
			text += under("## From the plan", part.Text)
		}
	}
	return Reviewed{Name: taskName(d.Task), Text: strings.TrimSpace(text), Criteria: Criteria(req),
		Answers: req.Answers}
}

// List is the criteria as a Markdown list.
func (r Reviewed) List() string {
	var list []string
	for _, c := range r.Criteria {
		line := "- " + oneLine(c.Text)
		if c.Shared {
			line += " (of the user story that this task is only a part of)"
		}
		list = append(list, line)
	}
	return strings.Join(list, "\n")
}

// OpinionPrompt asks a second agent whether work that the checks have passed is what was asked for. Everything that
// others wrote is between tags, and is called data.
func OpinionPrompt(o Opinion) string { return prompt("opinion", o) }
