package specbuild

import (
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
	"descartes/tasks/plan"
	"descartes/tasks/prose"
)

// Criterion is one thing that must be true before a task is accepted.
type Criterion struct {
	Text   string
	Shared bool // it belongs to the user story, of which the task is only a part
}

// Criteria returns the acceptance criteria of a request's task, in the order of its checklist: from the task's own
// lists, from its section of the plan, and from its user story.
func Criteria(req Request) []Criterion {
	var out []Criterion
	for _, g := range newDraft(req).accept {
		for _, text := range g.Texts {
			out = append(out, Criterion{Text: text, Shared: g.Story != ""})
		}
	}
	return out
}

// Limits of a checklist: what a task lists beyond them stays in place as text.
const (
	maxCriterionList = 50
	maxCriterion     = 600 // bytes of one from a plan or a story
)

// criteriaGroup is the criteria of one origin, as the checklist names it.
type criteriaGroup struct {
	Texts  []string
	Source Source
	Story  string // "" for criteria of the task alone
	First  bool   // in the checklist
}

// gather finds the criteria of the task. Criteria in its own texts are removed there, so that the spec says nothing
// twice.
func (d *draft) gather() {
	t := &d.Task
	own := criteriaGroup{Source: Source{Part: "acceptance"}}
	take := func(text *string, all, only bool) {
		if rest, l := readCriteria(*text, all, maxCriterionList-len(own.Texts)); l != nil && (!only || rest == "") {
			*text, own.Texts = rest, append(own.Texts, l.found...)
		}
	}
	take(&t.Acceptance, true, false)
	if len(own.Texts) == 0 && strings.Count(t.Acceptance, "\n") < maxCriterionList { // no list: each line is one
		own.Texts, t.Acceptance = strings.Split(t.Acceptance, "\n"), ""
	}
	take(&t.TestStrategy, true, true) // with prose around it, a list may say anything
	take(&t.TestStrategy, false, false)
	take(&t.Details, false, false)
	take(&t.Description, false, false)
	d.add(own)
	if s := d.section; s != nil && s.Rule != plan.RuleParent {
		for _, part := range s.Parts {
			if _, l := readCriteria(part.Text, false, maxCriterionList); l != nil {
				d.add(criteriaGroup{Texts: l.found, Source: Source{Part: "acceptance", File: d.Plan.Name,
					FirstLine: part.FirstLine - 1 + l.first, LastLine: part.FirstLine - 1 + l.last, Rule: d.rule(),
					Heading: part.Heading}})
			}
		}
	}
	if s := d.Story; s != nil {
		d.add(criteriaGroup{Texts: s.Scenarios, Source: Source{Part: "acceptance", File: s.File,
			FirstLine: s.FirstLine, LastLine: s.LastLine}, Story: s.Name})
	}
}

// add keeps a group, except what an earlier one already says.
func (d *draft) add(g criteriaGroup) {
	var texts []string
	for _, text := range g.Texts {
		if text = oneLine(text); g.Source.File != "" {
			text = oneline.Clip(text, maxCriterion)
		}
		known := slices.ContainsFunc(d.accept, func(o criteriaGroup) bool { return slices.Contains(o.Texts, text) })
		if text != "" && !known && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if g.Texts = texts; len(texts) > 0 {
		d.accept = append(d.accept, g)
	}
}

// mayHold is a quick check for possible criteria.
var mayHold = lazyregexp.New(`(?s)cceptance|CCEPTANCE|\b(?:Given|GIVEN|When|WHEN)\b.*\b(?:Then|THEN)\b`)

// readCriteria takes the criteria out of a text: all lists if all; otherwise lists called criteria, and scenarios.
// Without any, what was read is nil. The rest is "" where nothing but headings is left.
func readCriteria(text string, all bool, most int) (rest string, l *listing) {
	if most <= 0 || text == "" || !all && !mayHold.MatchString(text) {
		return text, nil
	}
	doc, err := markdown.Parse(lineEnds(text))
	if err != nil {
		return text, nil // too large a text stays as it is
	}
	l = &listing{doc: doc, all: all, open: all, most: most, used: map[int]bool{}}
	if l.read(); len(l.found) == 0 {
		return text, nil
	}
	var kept []string
	said := false // something other than a heading
	for n := range doc.Lines {
		if !l.used[n] {
			kept = append(kept, doc.Line(n))
			said = said || doc.Lines[n].Kind != markdown.Blank && doc.Lines[n].Kind != markdown.Heading
		}
	}
	if !said {
		return "", l
	}
	return strings.Trim(strings.Join(kept, "\n"), "\n"), l
}

// lead recognises the line over a list of criteria: a heading, a line in bold, or one that ends with a colon.
func lead(words string) bool {
	switch prose.Fold(strings.Trim(markdown.Inline(words), "*_: ")) {
	case "acceptance criteria", "acceptance criterion", "acceptance scenarios", "acceptance scenario",
		"acceptance tests", "acceptance":
		return true
	}
	return false
}

// The keywords of a scenario begin with a capital, which prose about something given seldom does throughout.
var (
	wholeScenario = lazyregexp.New(`(?s)\b(Given|GIVEN|When|WHEN)\b.*\b(Then|THEN)\b`)
	scenarioName  = lazyregexp.New(`(?i)^scenario(?: outline)?(?: \d+)?:\s*(.*)$`)
	scenarioGiven = lazyregexp.New(`^(?:Given|GIVEN)\b`)
	scenarioStep  = lazyregexp.New(`^(?:Given|GIVEN|When|WHEN|Then|THEN|And|AND|But|BUT)\b`)
)

// listing reads the criteria of a text.
type listing struct {
	doc   *markdown.Document
	all   bool // every list is of criteria
	open  bool // the lists here are
	level int  // of the heading that says so; 0: a line does
	most  int

	found       []string
	used        map[int]bool
	first, last int // from 1: the lines that hold what was found
}

func (l *listing) read() {
	for n := 0; n < len(l.doc.Lines) && len(l.found) < l.most; {
		words := markdown.Inline(l.doc.Words(n))
		if scenarioName.MatchString(words) || scenarioGiven.MatchString(words) {
			if end, text := l.scenario(n); end > n {
				l.take(n, end, text)
				n = end
				continue
			}
		}
		switch line := &l.doc.Lines[n]; line.Kind {
		case markdown.Heading:
			l.heading(n, line)
		case markdown.Entry:
			if l.open {
				end := l.doc.EntryEnd(n, len(l.doc.Lines))
				if text, flat := l.entry(n, end); flat {
					l.take(n, end, text)
				} else {
					l.found = append(l.found, text) // its code stays where it is
				}
				n = end
				continue
			}
		case markdown.Text:
			switch {
			case lead(l.doc.Words(n)):
				l.open, l.level, l.used[n] = true, 0, true
			case l.level == 0 && !l.all:
				l.open = false
			}
		}
		n++
	}
}

func (l *listing) heading(n int, line *markdown.Line) {
	switch {
	case l.all:
	case lead(l.doc.Words(n)):
		l.open, l.level, l.used[n] = true, line.Level, true
	case l.level == 0 || line.Level <= l.level:
		l.open, l.level = false, 0
	}
}

// entry is a list entry with what is nested in it, on one line; false: it holds code.
func (l *listing) entry(n, end int) (text string, flat bool) {
	flat = true
	for k := n; k < end; k++ {
		switch line := &l.doc.Lines[k]; {
		case line.Kind == markdown.Hidden:
			flat = false
		case line.Kind == markdown.Blank:
		case k > n && line.Kind == markdown.Entry && !strings.HasSuffix(text, ":"):
			text += "; " + markdown.Inline(l.doc.Words(k))
		default:
			text += " " + markdown.Inline(l.doc.Words(k))
		}
	}
	return strings.TrimSpace(text), flat
}

// scenario reads the lines from n on as one scenario: its name or its Given, and the steps that follow. It returns n
// where they are none.
func (l *listing) scenario(n int) (end int, text string) {
	parts := []string{markdown.Inline(l.doc.Words(n))}
	end = n + 1
	for k := n + 1; k < len(l.doc.Lines); k++ {
		line := &l.doc.Lines[k]
		words := markdown.Inline(l.doc.Words(k))
		whole := wholeScenario.MatchString(strings.Join(parts, "\n"))
		switch {
		case line.Kind == markdown.Blank:
			continue
		case scenarioStep.MatchString(words) && !(whole && scenarioGiven.MatchString(words)):
		case line.Kind == markdown.Text && l.doc.Lines[k-1].Kind != markdown.Blank &&
			line.Indent > l.doc.Lines[n].Indent && len(parts) > 0:
		default:
			k = len(l.doc.Lines)
			continue
		}
		parts, end = append(parts, words), k+1
	}
	if text = strings.Join(parts, " "); !wholeScenario.MatchString(text) {
		return n, ""
	}
	return end, text
}

func (l *listing) take(from, to int, text string) {
	l.found = append(l.found, text)
	for n := from; n < to; n++ {
		l.used[n] = true
	}
	if l.first == 0 {
		l.first = from + 1
	}
	l.last = to
}

// Story is a user story of a spec-kit specification.
type Story struct {
	Name                string // "User Story 1 - Log in"
	File                string
	FirstLine, LastLine int // of its scenarios, from 1
	Scenarios           []string
}

var storyHeading = lazyregexp.New(`(?i)^user story (\d+)\b`)

// storyOf is the mark of a story with that heading: US1; "" for another heading.
func storyOf(heading string) string {
	if m := storyHeading.FindStringSubmatch(heading); m != nil {
		return "US" + m[1]
	}
	return ""
}

// ParseStories reads the user stories of a spec-kit spec.md by the marks that its tasks have: US1. Stories without
// scenarios are left out.
func ParseStories(name string, src []byte) (map[string]*Story, error) {
	doc, err := plan.Parse(name, src)
	if err != nil {
		return nil, err
	}
	out := map[string]*Story{}
	for _, part := range doc.Find(func(path []string) bool { return storyOf(path[len(path)-1]) != "" }) {
		heading := part.Heading[len(part.Heading)-1]
		if _, l := readCriteria(part.Text, false, maxCriterionList); l != nil && out[storyOf(heading)] == nil {
			title, _, _ := strings.Cut(heading, " (Priority")
			out[storyOf(heading)] = &Story{Name: title, File: name, FirstLine: part.FirstLine - 1 + l.first,
				LastLine: part.FirstLine - 1 + l.last, Scenarios: l.found}
		}
	}
	return out, nil
}
