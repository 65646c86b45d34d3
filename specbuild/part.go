package specbuild

import (
	"fmt"
	"slices"
	"strings"

	"descartes/tasks"

	"descartes/internal/markdown"
)

// header is the first line: # Task 3: Title (tag feature-x, attempt 2 of 3)
func (d *draft) header() string {
	var b strings.Builder
	b.WriteString("# " + taskName(d.req.Task))
	var about []string
	if d.req.Tag != "" {
		about = append(about, "tag "+oneLine(d.req.Tag))
	}
	switch {
	case d.req.Attempt.Number > 0 && d.req.Attempt.Max > 0:
		about = append(about, fmt.Sprintf("attempt %d of %d", d.req.Attempt.Number, d.req.Attempt.Max))
	case d.req.Attempt.Number > 0:
		about = append(about, fmt.Sprintf("attempt %d", d.req.Attempt.Number))
	}
	if len(about) > 0 {
		b.WriteString(" (" + strings.Join(about, ", ") + ")")
	}
	b.WriteString("\n")
	return b.String()
}

// taskName is "Task 3: Title".
func taskName(t tasks.Task) string {
	if title := oneLine(t.Title); title != "" {
		return "Task " + oneLine(t.ID) + ": " + title
	}
	return "Task " + oneLine(t.ID)
}

// task is what the task file says: the task itself, what it builds on, what it is a part of.
func (d *draft) task(w *writer) {
	at := w.Len()
	t := d.req.Task
	w.WriteString("\nDo this one task in the current directory, and no other task of the list.\n")
	if !d.req.NoTask {
		paragraph(w, "", t.Description)
		paragraph(w, "## Details", t.Details)
		paragraph(w, "## Test strategy", t.TestStrategy)
		paragraph(w, "## Acceptance", t.Acceptance)
	}
	d.dependencies(w)
	w.from(at, Source{Part: "task"})
	d.acceptance(w)
	d.parents(w)
}

func (d *draft) dependencies(w *writer) {
	if len(d.req.Dependencies) == 0 {
		return
	}
	w.WriteString("\n## What it builds on\n\nThese tasks are done; their work is in the tree:\n\n")
	for _, dep := range d.req.Dependencies {
		text := dep.Delivered
		if d.noDelivered {
			text = ""
		}
		entry(w, tasks.Task{ID: dep.ID, Title: dep.Title}, text)
	}
}

// entry writes a task of a list with what there is to say of it.
func entry(w *writer, t tasks.Task, text string) {
	w.WriteString("- " + taskName(t) + "\n")
	if text = clean(text); text != "" {
		w.WriteString("\n" + indent(text, "  ") + "\n")
	}
}

func (d *draft) parents(w *writer) {
	if len(d.req.Parents) == 0 {
		return
	}
	at := w.Len()
	w.WriteString("\n## What it is a part of\n\nFor context only; the other parts are other tasks.\n\n")
	for _, p := range d.req.Parents {
		entry(w, p, p.Description)
	}
	w.from(at, Source{Part: "parents"})
}

// answers is what a person answered to questions of earlier agents.
func (d *draft) answers(w *writer) {
	if len(d.req.Answers) == 0 {
		return
	}
	at := w.Len()
	w.WriteString("\n" + Answered(d.req.Answers))
	w.from(at, Source{Part: "answers"})
}

// Answered tells an agent what a person has decided.
func Answered(list []Answer) string {
	var s strings.Builder
	s.WriteString("## Questions and answers\n\nThe person who wants this task done has decided:\n")
	for _, a := range list {
		if q := clean(a.Question); q != "" {
			s.WriteString("\nQuestion:\n\n" + indent(q, "> ") + "\n\nAnswer:\n")
		}
		s.WriteString("\n" + indent(clean(a.Text), "> ") + "\n")
	}
	return s.String()
}

// plan is the task's section of the plan, or the outline if none was found.
func (d *draft) plan(w *writer) {
	s := d.section
	if s == nil {
		return
	}
	if s.Rule == RuleOutline {
		d.outline(w)
		return
	}
	if len(s.General) > 0 {
		w.WriteString("\n## What the plan says of every task\n")
	}
	for _, part := range s.General {
		d.planPart(w, "general", "it concerns every task", part)
	}
	if len(s.Parts) > 0 {
		w.WriteString("\n## From the plan\n")
	}
	for _, part := range s.Parts {
		d.planPart(w, "plan", d.rule(), part)
	}
	for i, part := range s.Criteria {
		if i == 0 {
			w.WriteString("\nSuccess criteria of its phase, as far as they concern this task:\n")
		}
		d.planPart(w, "criteria", d.rule(), part)
	}
}

func (d *draft) planPart(w *writer, name, rule string, part Part) {
	d.documentPart(w, d.req.Plan, name, rule, part)
}

func (d *draft) documentPart(w *writer, of *Plan, name, rule string, part Part) {
	at := w.Len()
	file := of.Name()
	fmt.Fprintf(w, "\n%s, lines %d-%d", file, part.FirstLine, part.LastLine)
	if len(part.Heading) > 1 {
		above := strings.Join(part.Heading[:len(part.Heading)-1], " > ")
		fmt.Fprintf(w, ", under %s", strings.ReplaceAll(strings.TrimSuffix(above, ":"), ": > ", " > "))
	}
	w.WriteString(":\n\n")
	enclose(w, "plan", "", part.Text)
	w.from(at, Source{
		Part: name, File: file, FirstLine: part.FirstLine, LastLine: part.LastLine,
		Rule: rule, Heading: part.Heading,
	})
}

func (d *draft) rule() string { return d.section.Rule + ": " + d.section.Why }

func (d *draft) outline(w *writer) {
	s, file := d.section, d.req.Plan.Name()
	if s.Overview == nil && s.Outline == "" {
		return
	}
	fmt.Fprintf(w, "\n## The plan\n\nNo section of %s is clearly about this task. Here are its overview and headings; read the parts that concern you.\n", file)
	if s.Overview != nil {
		d.planPart(w, "outline", d.rule(), *s.Overview)
	}
	if s.Outline != "" {
		at := w.Len()
		w.WriteString("\n" + s.Outline + "\n")
		w.from(at, Source{Part: "outline", File: file, FirstLine: 1, LastLine: len(d.req.Plan.doc.Lines), Rule: d.rule()})
	}
}

// custom is the extra files.
func (d *draft) custom(w *writer) {
	if len(d.req.Files) == 0 {
		return
	}
	w.WriteString("\n## Further documents\n")
	for _, f := range d.req.Files {
		at := w.Len()
		text := strings.TrimRight(lineEnds(strings.TrimPrefix(f.Text, markdown.BOM)), "\n")
		w.WriteString("\n")
		enclose(w, "document", fmt.Sprintf(" name=%q", f.Name), text)
		w.from(at, Source{Part: "file", File: f.Name, FirstLine: 1, LastLine: 1 + strings.Count(text, "\n")})
	}
}

func (d *draft) handoff(w *writer) {
	text := clean(d.req.Handoff)
	if text == "" {
		return
	}
	at := w.Len()
	w.WriteString("\n## Handoff\n\n")
	enclose(w, "handoff", "", text)
	w.from(at, Source{Part: "handoff"})
}

// maxWords is how much of the agent's last words is repeated; their end says most.
const maxWords = 4 << 10

func (d *draft) failure(w *writer) {
	defer d.cutShort(w)
	f := d.req.Attempt.Failure
	if f == nil {
		return
	}
	at := w.Len()
	heading, verdict, find := "did not succeed", ": "+oneLine(f.Verdict), "find the cause before you change more"
	if f.Unfit {
		heading, verdict, find = "could not be integrated", " was verified, and could not be integrated", "redo the rest on the tree as it is"
	}
	fmt.Fprintf(w, "\n## The last attempt %s\n\n", heading)
	name, look := fmt.Sprintf("Attempt %d", f.Attempt), "Look at the tree first: what that attempt wrote may still be there."
	if ref := oneLine(f.Ref); ref != "" {
		name, look = "An earlier run's attempt", fmt.Sprintf("What it wrote may not be in the tree; `git diff HEAD %s` shows it.", ref)
	} else if f.Unfit {
		look, find = "The tree is what is verified by now, merged with what that attempt had done.", "find the cause before you change more"
		if f.Clash {
			find = "resolve the conflicts that git has marked"
		}
	}
	w.WriteString(name + verdict)
	if reason := oneLine(f.Reason); reason != "" {
		fmt.Fprintf(w, " (%s)", reason)
	}
	fmt.Fprintf(w, ". %s Keep what is good, and %s.\n", look, find)
	if !d.noOutput {
		if len(f.Checks) > 0 {
			d.checked(w, f.Checks)
		}
		quoted(w, outputOf(f), clean(f.Output))
		for _, c := range f.Checks {
			quoted(w, "The end of what "+c.Name+" printed:", clean(c.Output))
		}
		quoted(w, "It asked this, and nobody answered; decide yourself:", clean(f.Question))
		quoted(w, "The last words of that attempt's agent:", tail(clean(f.Words), maxWords))
	}
	quoted(w, "What it had changed:", clean(f.DiffStat))
	quoted(w, "Source files that it wrote and git ignores; no commit will have them, so put them elsewhere, change .gitignore, or git add -f them:", clean(strings.Join(f.Hidden, "\n")))
	quoted(w, "What the sandbox refused; only a person can allow that, so do without it or say that you are blocked:", clean(strings.Join(f.Denied, "\n")))
	w.from(at, Source{Part: "failure"})
}

// outputOf says what a failure's output is.
func outputOf(f *Failure) string {
	if f.Unfit {
		return "What merging it, or the verify command after that, said:"
	}
	if f.Look != "" {
		return "The verify command passed, and the " + oneLine(f.Look) + " says:"
	}
	if len(f.Checks) > 0 {
		return "The end of its output:"
	}
	return "The end of the verify command's output:"
}

// checked describes the results of several checks.
func (d *draft) checked(w *writer, list []Checked) {
	w.WriteString("\nThe checks, in the order in which they ran:\n\n")
	for _, c := range list {
		if c.Passed {
			fmt.Fprintf(w, "- %s: passed\n", c.Name)
		} else {
			fmt.Fprintf(w, "- %s: failed (%s)\n", c.Name, oneLine(c.Reason))
		}
	}
	for _, c := range d.req.Checks {
		if c.Later == "" && !slices.ContainsFunc(list, func(ran Checked) bool { return ran.Name == c.Name }) {
			fmt.Fprintf(w, "- %s: not run after that\n", c.Name)
		}
	}
}

// cutShort describes work in the tree that was never judged.
func (d *draft) cutShort(w *writer) {
	f := d.req.Attempt.CutShort
	if f == nil {
		return
	}
	at := w.Len()
	w.WriteString("\n## An attempt was cut short\n\n")
	fmt.Fprintf(w, "Attempt %d was interrupted", f.Attempt)
	if reason := oneLine(f.Reason); reason != "" {
		fmt.Fprintf(w, " (%s)", reason)
	}
	w.WriteString(". The working tree contains what it had done until then: look at that first, keep what is good, and continue from there.\n")
	quoted(w, "Its agent's last words:", tail(clean(f.Words), maxWords))
	quoted(w, "What it had changed:", clean(f.DiffStat))
	w.from(at, Source{Part: "failure"})
}

func (d *draft) verification(w *writer) {
	at := w.Len()
	w.WriteString("\n## Verification\n\n")
	if len(d.req.Checks) > 0 {
		d.checks(w)
	} else if command := clean(d.req.Verify); command != "" {
		w.WriteString("When you are finished, this command decides whether the task is done. Run it yourself before you report, and fix what it finds:\n\n")
		codeBlock(w, "sh", command)
	} else {
		w.WriteString("No command checks this task. Check your work as the project does, for example with its build and its tests.\n")
	}
	d.known(w)
	w.from(at, Source{Part: "verification"})
}

// knownShown is how many tests that fail already are named.
const knownShown = 20

// known are the tests that may go on failing.
func (d *draft) known(w *writer) {
	n := len(d.req.Known)
	if n == 0 {
		return
	}
	w.WriteString("\nThese tests already fail and may keep failing; no other test may fail, and none may be removed:\n\n")
	for _, name := range d.req.Known[:min(n, knownShown)] {
		w.WriteString("- " + oneLine(name) + "\n")
	}
	if n > knownShown {
		fmt.Fprintf(w, "- and %d more\n", n-knownShown)
	}
}

// checks lists the commands that decide, if there are several.
func (d *draft) checks(w *writer) {
	w.WriteString("When you are finished, these checks decide whether the task is done, one after the other. Run them yourself before you report, and fix what they find:\n")
	for _, c := range d.req.Checks {
		name := c.Name
		if c.Later != "" {
			name += ", run later: " + c.Later
		}
		w.WriteString("\n" + name + ":\n\n")
		codeBlock(w, "sh", clean(c.Run))
	}
}

// reportText says how to end; its %s is the promise word.
const reportText = `
## How to report

- Finished: end your last message with the line <promise>%s</promise>, or with TASK_COMPLETE on a line of its own.
- Stuck on something that you cannot solve here: write ` + "`TASK_BLOCKED: reason`" + ` on a line of its own, without the backticks, with the reason in one sentence.
- Do not edit the task file or a task's status, and do not commit: both are done for you.
- Nobody answers questions. Where something is open, decide as the surrounding code suggests, and say what you decided.
`

func (d *draft) report(w *writer) {
	at := w.Len()
	promise := clean(d.req.Promise)
	if promise == "" {
		promise = "COMPLETE"
	}
	w.WriteString(fmt.Sprintf(reportText, promise))
	if d.req.Alone {
		w.WriteString("- Do the work yourself: do not start sub-agents.\n")
	}
	w.from(at, Source{Part: "report"})
}
