package specbuild

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
	"descartes/tasks/prose"
)

// Criterion is one thing that must be true before a task is accepted.
type Criterion struct {
	Text   string
	Shared bool // it belongs to the user story, of which the task is only a part
}

// Criteria returns the acceptance criteria of a request's task, in the order of its checklist: from the task's own lists, from its section of the
// plan, and from its user story.
func Criteria(req Request) []Criterion {
	var out []Criterion
	for _, g := range newDraft(req).accept {
		for _, text := range g.texts {
			out = append(out, Criterion{Text: text, Shared: g.story != nil})
		}
	}
	return out
}

// Limits of a checklist: what a task lists beyond them stays in place as text.
const (
	maxCriterionList = 50
	maxCriterion     = 600 // bytes of one from a plan or a story
)

// criteriaGroup is the criteria of one origin.
type criteriaGroup struct {
	texts  []string
	source Source
	story  *Story
}

// gather finds the criteria of the task. Criteria in its own texts are removed there, so that the spec says nothing twice.
func (d *draft) gather() {
	t := &d.req.Task
	own := criteriaGroup{source: Source{Part: "acceptance"}}
	take := func(text *string, all bool) {
		rest, found := splitCriteria(*text, all, maxCriterionList-len(own.texts))
		*text, own.texts = rest, append(own.texts, found...)
	}
	take(&t.Acceptance, true)
	if len(own.texts) == 0 && strings.Count(t.Acceptance, "\n") < maxCriterionList { // no list: each line is one
		own.texts, t.Acceptance = strings.Split(t.Acceptance, "\n"), ""
	}
	take(&t.TestStrategy, onlyList(t.TestStrategy))
	take(&t.Details, false)
	take(&t.Description, false)
	d.add(own)
	if s := d.section; s != nil && s.Rule != RuleOutline && s.Rule != RuleParent {
		for _, part := range s.Parts {
			lines := &listing{doc: d.req.Plan.doc, to: part.LastLine, most: maxCriterionList}
			lines.read(part.FirstLine - 1)
			d.add(criteriaGroup{texts: lines.found, source: Source{Part: "acceptance", File: d.req.Plan.Name(),
				FirstLine: lines.first, LastLine: lines.last, Rule: d.rule(), Heading: part.Heading}})
		}
	}
	if s := d.req.Story; s != nil {
		d.add(criteriaGroup{texts: s.Scenarios, source: Source{Part: "acceptance", File: s.File, FirstLine: s.FirstLine, LastLine: s.LastLine}, story: s})
	}
}

// add keeps a group, except what an earlier one already says.
func (d *draft) add(g criteriaGroup) {
	var texts []string
	for _, text := range g.texts {
		if text = oneLine(text); g.source.File != "" {
			text = oneline.Clip(text, maxCriterion)
		}
		known := slices.ContainsFunc(d.accept, func(o criteriaGroup) bool { return slices.Contains(o.texts, text) })
		if text != "" && !known && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if g.texts = texts; len(texts) > 0 {
		d.accept = append(d.accept, g)
	}
}

// acceptance is the checklist of what has to hold.
func (d *draft) acceptance(w *writer) {
	for i, g := range d.accept {
		at := w.Len()
		if i == 0 {
			w.WriteString("\n## Acceptance criteria\n\nThe work is accepted when all of these are met. Go through them one by one before you report.\n")
		}
		switch s := g.story; {
		case s != nil:
			fmt.Fprintf(w, "\nScenarios of %s in %s, of which this task is a part; meet what belongs to this task:\n", oneLine(s.Name), s.File)
		case g.source.File != "":
			fmt.Fprintf(w, "\nFrom %s:\n", g.source.File)
		}
		w.WriteString("\n")
		for _, text := range g.texts {
			w.WriteString("- [ ] " + text + "\n")
		}
		w.from(at, g.source)
	}
}

// splitCriteria takes the criteria out of a text: all lists of a text about nothing else; otherwise lists called criteria, and scenarios. Without
// any, the text stays byte for byte as it is.
func splitCriteria(text string, all bool, most int) (rest string, found []string) {
	if most <= 0 || text == "" || !all && !mentions(text) {
		return text, nil
	}
	doc, err := markdown.Parse(lineEnds(text))
	if err != nil {
		return text, nil // too large a text stays as it is
	}
	l := &listing{doc: doc, to: len(doc.Lines), all: all, open: all, most: most}
	if l.read(0); len(l.found) == 0 {
		return text, nil
	}
	var kept []string
	said := false // something other than a heading
	for n := range doc.Lines {
		if !l.used[n] {
			kept = append(kept, doc.Line(n))
			said = said || doc.Lines[n].Kind != markdown.Blank && doc.Lines[n].Kind != markdown.Heading && !lead(doc.Words(n))
		}
	}
	if !said {
		return "", l.found
	}
	return strings.Trim(strings.Join(kept, "\n"), "\n"), l.found
}

// onlyList reports whether a text is a list and no more, headings aside: with prose around it, a list may say anything.
func onlyList(text string) bool {
	doc, err := markdown.Parse(lineEnds(text))
	if err != nil {
		return false
	}
	for n := 0; n < len(doc.Lines); {
		switch doc.Lines[n].Kind {
		case markdown.Entry:
			n = doc.EntryEnd(n, len(doc.Lines))
			continue
		case markdown.Text, markdown.Hidden:
			if !lead(doc.Words(n)) {
				return false
			}
		}
		n++
	}
	return true
}

// mentions is a quick check for possible criteria.
func mentions(text string) bool {
	return strings.Contains(text, "cceptance") || strings.Contains(text, "CCEPTANCE") || wholeScenario.MatchString(text)
}

// lead recognises the line over a list of criteria: a heading, a line in bold, or one that ends with a colon.
func lead(words string) bool {
	switch prose.Fold(strings.Trim(markdown.Bare(words), "*_: ")) {
	case "acceptance criteria", "acceptance criterion", "acceptance scenarios", "acceptance scenario", "acceptance tests", "acceptance":
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

// listing reads the criteria of a range of lines.
type listing struct {
	doc   *markdown.Document
	to    int
	all   bool // every list is of criteria
	open  bool // the lists here are
	level int  // of the heading that says so; 0: a line does
	most  int

	found       []string
	used        map[int]bool
	first, last int // from 1: the lines that hold what was found
}

func (l *listing) read(from int) {
	l.used = map[int]bool{}
	for n := from; n < l.to && len(l.found) < l.most; {
		words := markdown.Bare(l.doc.Words(n))
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
				end := l.doc.EntryEnd(n, l.to)
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

// scenario reads the lines from n on as one scenario: its name or its Given, and the steps that follow. It returns n where they are none.
func (l *listing) scenario(n int) (end int, text string) {
	parts := []string{markdown.Inline(l.doc.Words(n))}
	end = n + 1
	for k := n + 1; k < l.to; k++ {
		line := &l.doc.Lines[k]
		words := markdown.Inline(l.doc.Words(k))
		whole := wholeScenario.MatchString(strings.Join(parts, "\n"))
		switch {
		case line.Kind == markdown.Blank:
			continue
		case scenarioStep.MatchString(words) && !(whole && scenarioGiven.MatchString(words)):
		case line.Kind == markdown.Text && l.doc.Lines[k-1].Kind != markdown.Blank && line.Indent > l.doc.Lines[n].Indent && len(parts) > 0:
		default:
			k = l.to
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

var storyHeading = lazyregexp.New(`(?i)^user story (\d+)\b(.*)$`)

// ParseStories reads the user stories of a spec-kit spec.md by the marks that its tasks have: US1. Stories without scenarios are left out.
func ParseStories(name string, src []byte) (map[string]*Story, error) {
	p, err := ParsePlan(name, src)
	if err != nil {
		return nil, err
	}
	out := map[string]*Story{}
	for _, h := range p.heads {
		m := storyHeading.FindStringSubmatch(h.text)
		if m == nil || out["US"+m[1]] != nil {
			continue
		}
		l := &listing{doc: p.doc, to: len(p.doc.Lines), most: maxCriterionList}
		if h.end < len(p.src) {
			l.to = p.doc.LineAt(h.end)
		}
		if l.read(p.doc.LineAt(h.body-1) + 1); len(l.found) > 0 {
			title, _, _ := strings.Cut(h.text, " (Priority")
			out["US"+m[1]] = &Story{Name: title, File: name, FirstLine: l.first, LastLine: l.last, Scenarios: l.found}
		}
	}
	return out, nil
}
