// Package specbuild owns the text of an attempt: it takes a task, the part of the plan about it, extra files and the
// last failure, and writes one prompt, with a map of where each part came from.
//
// It reads no file, no clock and no environment: the same request gives the same bytes.
package specbuild

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/plan"
	"descartes/tasks/prose"
)

// Request is everything that an attempt's text is made of. Only Task is required; empty parts are left out.
type Request struct {
	Tag          string
	Task         tasks.Task
	Parents      []tasks.Task   // the containers of the task, outermost first
	Dependencies []Dependency   // what the task builds on
	Plan         *plan.Document // nil: no plan
	Story        *Story         // the story the task belongs to; nil: unknown
	Beside       *Beside        // documents beside the list; nil: none
	Files        []File         // extra files, most important first
	Handoff      string
	Answers      []Answer // oldest first

	Attempt Attempt

	Promise  string // the word of <promise>word</promise> that claims completion; "" is COMPLETE
	Verify   string // the verify command; "" where there are several checks, or the agent's own word is all there is
	Checks   []Check
	Known    []string // tests that already fail and may keep failing; nil if none may
	NoTask   bool     // leave out what the list says about the task, except its title
	Alone    bool     // its agent must not use agents of its own
	Template string   // "" for the built-in layout, see Build
	Budget   Budget
}

// Attempt says which attempt the text is for, and what happened before it.
type Attempt struct {
	Number   int      // from 1; 0: not mentioned
	Max      int      // 0: not mentioned
	Failure  *Failure // the attempt before, nil for the first
	CutShort *Failure // an attempt since then that was interrupted, not by its agent's fault, and left something
}

// Budget limits the length of the text.
type Budget struct {
	Tokens int  // 0: any length
	Cut    bool // keep to it by leaving out the least specific parts
}

// Dependency is a finished task that the task depends on.
type Dependency struct {
	ID, Title string
	Delivered string // what its agent said at the end, or the files it changed; may be empty
}

// File is an extra document, included whole.
type File struct{ Name, Text string }

// Check is one of several commands that decide whether the task is done.
type Check struct {
	Name, Run string
	Later     string // the later point at which it runs; "" after each attempt
}

// Failure is what the next attempt should know about the one before.
type Failure struct {
	Attempt  int
	Verdict  string // "failed", "crashed", "timeout" ...
	Clash    bool   // it conflicts with what others did meanwhile, which git has marked
	Reason   string
	Look     string    // the look that objected after verify passed; "" if verify failed
	Checks   []Checked // of several checks: those that ran, in order
	Output   string    // end of the verify command's output, or what that look says
	Words    string    // the agent's last words
	DiffStat string    // what the attempt changed
	Question string    // what the agent asked at its end
	Hidden   []string  // source files that it wrote and git ignores
	Denied   []string  // what the sandbox refused, each with the setting that allows it
	Ref      string    // ref that keeps the work, for an attempt of an earlier run
}

// Checked is the result of one of several checks.
type Checked struct {
	Name   string
	Passed bool
	Reason string
	Output string // end of a failed check's output, unless Failure.Output has it
}

// Answer is a person's answer to a question of the task's agent.
type Answer struct {
	Question string // "": nobody had asked
	Text     string
}

// Spec is the complete text for one attempt.
type Spec struct {
	Text    string   `json:"text"`
	Tokens  int      `json:"tokens"`  // estimated, see Tokens
	Over    bool     `json:"over"`    // Tokens exceeds Budget.Tokens, if that is not 0
	Thin    bool     `json:"thin"`    // there is only a title to go by
	Cut     []string `json:"cut"`     // what was left out or shortened for the budget, in that order
	Sources []Source `json:"sources"` // where each part came from, in the order of the text
}

// Source is the origin of one part of a spec.
type Source struct {
	// task, acceptance, parents, answers, plan, criteria, general, outline, beside, file, handoff, failure,
	// verification, report
	Part      string `json:"part"`
	File      string `json:"file,omitempty"`       // "" for what is not from a document
	FirstLine int    `json:"first_line,omitempty"` // from 1; 0 where there is no file
	LastLine  int    `json:"last_line,omitempty"`  // the last one included
	Tokens    int    `json:"tokens"`               // estimated
	// for plan, criteria, general and outline: which rule matched, and what
	Rule string `json:"rule,omitempty"`
	// for plan, criteria, general and outline: the enclosing headings, its own last
	Heading []string `json:"heading,omitempty"`
}

// Tokens estimates the tokens of a text as a quarter of its bytes, rounded up. It is meant for warnings
// and budgets: for English and code it is within a fifth of what tokenizers count, for other scripts it
// is too high.
func Tokens(text string) int { return (len(text) + 3) / 4 }

// Build writes the spec of one attempt.
//
// The text begins with a header line of our own, whatever follows, because agents take a prompt that
// begins with - or / for an option or a command. Then come the task, its acceptance criteria, its containers, answers,
// the plan section, extra files, handoff, the last failure, the verify command and how to report.
//
// With Request.Template the parts are put where the template names them: {task} (with its criteria and containers),
// {answers}, {plan}, {custom} (the extra files), {handoff}, {failure}, {verification} and {report}. {report},
// {failure}, {handoff} and {answers} are added at the end where the template does not name them: without them a
// second attempt would know nothing of the first, and no attempt could report. Other braces are left
// alone, and what a part contains is not looked at again.
//
// Budget.Tokens alone only sets Over. With Cut the least specific parts are left out until the text fits:
// the outline of the plan, what it and the documents beside the list say of every task, extra files from the last on,
// what the documents beside the list say of the task, the end of the plan section, the success criteria, the handoff,
// the containers, what dependencies delivered, acceptance criteria that a document holds too, the last failure's
// output. The text says what was left out, so that the agent can read it itself. What remains is never cut: Over may
// still be set.
//
// A file that is not UTF-8 text is an error.
func Build(req Request) (Spec, error) {
	for _, f := range req.Files {
		if err := checkString(f.Text); err != nil {
			return Spec{}, fmt.Errorf("spec file %s %w", f.Name, err)
		}
	}
	d := newDraft(req)
	spec := d.render()
	if req.Budget.Tokens > 0 && req.Budget.Cut {
		spec = d.fit(spec)
	}
	spec.Thin = d.thin()
	spec.Over = req.Budget.Tokens > 0 && spec.Tokens > req.Budget.Tokens
	return spec, nil
}

// thin reports whether neither the task nor a document says more than the title.
func (d *draft) thin() bool {
	t := &d.Task
	return clean(t.Description+t.Details+t.TestStrategy+t.Acceptance) == "" && len(d.accept) == 0 &&
		len(d.Files)+len(d.Answers) == 0 &&
		(d.section == nil || len(d.section.Parts) == 0) && len(d.besideOwn) == 0
}

func checkString(s string) error {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return nil
	}
	return markdown.CheckText([]byte(s))
}

// draft is a request becoming a text: what is still in it may be cut.
type draft struct {
	Request
	section *plan.Section // nil without a plan
	accept  []criteriaGroup

	besideOwn, besideGeneral []besidePart

	noted []string // names of what was left out
}

func newDraft(req Request) *draft {
	d := &draft{Request: req}
	if req.Plan != nil {
		s := req.Plan.Section(req.Task, req.Parents)
		d.section = &s
	}
	d.readBeside()
	d.gather()
	if s := d.section; s != nil { // a list that was made of the plan has the plan's text in its tasks
		s.Parts = slices.DeleteFunc(s.Parts, func(p plan.Part) bool { return says(&req.Task, p.Text) })
	}
	return d
}

// says reports whether a task's own texts have every line of a part of the plan, but for headings and for what it waits
// for, which it has in other fields.
func says(t *tasks.Task, part string) bool {
	own := map[string]bool{"": true}
	for line := range strings.Lines(lineEnds(strings.Join([]string{t.Description, t.Details, t.TestStrategy,
		t.Acceptance}, "\n"))) {
		own[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(part) {
		order := slices.ContainsFunc(prose.Statements(line), func(s prose.Statement) bool { return s.Alone })
		if line = strings.TrimSpace(line); !own[line] && !strings.HasPrefix(line, "#") && !order {
			return false
		}
	}
	return len(own) > 1
}

// parts are the names that a template may use, in the order of the built-in layout.
var parts = []struct {
	name   string
	always bool // appended if a template does not name it
	write  func(*draft, *writer)
}{
	{"task", false, func(d *draft, w *writer) {
		w.put("task", d, Source{Part: "task"})
		for i := range d.accept {
			d.accept[i].First = i == 0
			w.put("acceptance", &d.accept[i], d.accept[i].Source)
		}
		w.put("parents", d, Source{Part: "parents"})
	}},
	{"answers", true, func(d *draft, w *writer) { w.put("answers", d.Answers, Source{Part: "answers"}) }},
	{"plan", false, func(d *draft, w *writer) { d.plan(w); d.beside(w) }},
	{"custom", false, (*draft).custom},
	{"handoff", true, func(d *draft, w *writer) { w.put("handoff", d, Source{Part: "handoff"}) }},
	{"failure", true, func(d *draft, w *writer) {
		w.put("failure", d, Source{Part: "failure"})
		w.put("cut short", d, Source{Part: "failure"})
	}},
	{"verification", false, func(d *draft, w *writer) { w.put("verification", d, Source{Part: "verification"}) }},
	{"report", true, func(d *draft, w *writer) { w.put("report", d, Source{Part: "report"}) }},
}

// writer collects the text and its sources.
type writer struct {
	strings.Builder
	sources []Source
}

// put writes a template, and records where it came from unless it is empty.
func (w *writer) put(name string, data any, from Source) {
	text := render(name, data)
	if from.Tokens = Tokens(text); text != "" {
		w.sources = append(w.sources, from)
	}
	w.WriteString(text)
}

func (d *draft) render() Spec {
	w := &writer{}
	w.WriteString(render("header", d))
	if d.Template == "" {
		for _, p := range parts {
			p.write(d, w)
		}
	} else {
		d.expand(w)
	}
	if len(d.noted) > 0 {
		fmt.Fprintf(w, "\nLeft out or shortened for length: %s. Read what you need of it yourself.\n",
			strings.Join(d.noted, "; "))
	}
	text := strings.TrimRight(w.String(), "\n") + "\n"
	return Spec{Text: text, Tokens: Tokens(text), Cut: d.noted, Sources: w.sources}
}

// named finds the parts that a template names.
var named = lazyregexp.New(`\{[a-z]+\}`)

// expand writes the template with its parts in their places.
func (d *draft) expand(w *writer) {
	text := lineEnds(d.Template)
	met := map[string]bool{}
	w.WriteString("\n")
	end := 0
	for _, at := range named.FindAllStringIndex(text, -1) {
		for _, p := range parts {
			if name := text[at[0]+1 : at[1]-1]; p.name == name {
				w.WriteString(text[end:at[0]])
				end, met[name] = at[1], true
				inner := &writer{}
				p.write(d, inner)
				w.WriteString(strings.Trim(inner.String(), "\n"))
				w.sources = append(w.sources, inner.sources...)
			}
		}
	}
	w.WriteString(strings.TrimRight(text[end:], "\n") + "\n")
	for _, p := range parts {
		if p.always && !met[p.name] {
			p.write(d, w)
		}
	}
}

// plan is the task's section of the plan, or the outline if none was found.
func (d *draft) plan(w *writer) {
	s := d.section
	if s == nil {
		return
	}
	if s.Rule == plan.RuleOutline {
		if s.Overview == nil && s.Outline == "" {
			return
		}
		fmt.Fprintf(w, "\n## The plan\n\nNo section of %s is clearly about this task. Here are its overview and headings; read the parts that concern you.\n", d.Plan.Name)
		if s.Overview != nil {
			w.part("outline", d.Plan, d.rule(), *s.Overview)
		}
		if s.Outline != "" {
			at := w.Len()
			w.WriteString("\n" + s.Outline + "\n")
			w.sources = append(w.sources, Source{Part: "outline", File: d.Plan.Name, FirstLine: 1,
				LastLine: d.Plan.Length(), Tokens: Tokens(w.String()[at:]), Rule: d.rule()})
		}
		return
	}
	for _, group := range []struct {
		lead, part, rule string
		list             []plan.Part
	}{
		{"## What the plan says of every task", "general", everyTask, s.General},
		{"## From the plan", "plan", d.rule(), s.Parts},
		{"Success criteria of its phase, as far as they concern this task:", "criteria", d.rule(), s.Criteria},
	} {
		for i, part := range group.list {
			if i == 0 {
				w.WriteString("\n" + group.lead + "\n")
			}
			w.part(group.part, d.Plan, group.rule, part)
		}
	}
}

const everyTask = "it concerns every task"

func (d *draft) rule() string { return d.section.Rule + ": " + d.section.Why }

// part writes a piece of a document.
func (w *writer) part(name string, of *plan.Document, rule string, part plan.Part) {
	above := strings.Join(part.Heading[:max(0, len(part.Heading)-1)], " > ")
	w.put("part", struct {
		plan.Part
		Name, Under string
	}{part, of.Name, strings.ReplaceAll(strings.TrimSuffix(above, ":"), ": > ", " > ")},
		Source{Part: name, File: of.Name, FirstLine: part.FirstLine, LastLine: part.LastLine, Rule: rule,
			Heading: part.Heading})
}

// custom is the extra files.
func (d *draft) custom(w *writer) {
	if len(d.Files) > 0 {
		w.WriteString("\n## Further documents\n")
	}
	for _, f := range d.Files {
		f.Text = strings.TrimRight(lineEnds(strings.TrimPrefix(f.Text, markdown.BOM)), "\n")
		w.put("document", f, Source{Part: "file", File: f.Name, FirstLine: 1,
			LastLine: 1 + strings.Count(f.Text, "\n")})
	}
}

// Answered tells an agent what a person has decided.
func Answered(list []Answer) string { return strings.TrimPrefix(render("answers", list), "\n") }
