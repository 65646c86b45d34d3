package specbuild

import (
	"cmp"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/oneline"
	"descartes/tasks"
	"descartes/tasks/plan"
)

// Beside is the documents in the folder of a task list: a spec-kit feature, an OpenSpec change, a Kiro spec.
type Beside struct {
	Names []string         // all of them, including those that are not Markdown
	Texts []*plan.Document // the most important first
}

// The rules of these documents, beside those of a plan.
const (
	RuleStory       = "story"       // the user story that the task is a part of
	RuleRequirement = "requirement" // one that the task names: _Requirements: 1.2_
)

// Limits, in bytes, of what the documents say about every task: each section, and all together.
const (
	maxSection = 4 << 10
	maxBeside  = 8 << 10
)

// besidePart is a piece of a document, with the rule that found it.
type besidePart struct {
	plan.Part
	of   *plan.Document
	rule string
}

// besideHeading recognises a section of such a document that concerns every task.
var besideHeading = lazyregexp.New(
	`(?i)^(?:overview|summary|introduction|why|what changes|context|technical context|tech(?:nology)? stack|project structure|architecture(?: overview)?)$`)

// readBeside takes what the documents say about the task, and about every task.
func (d *draft) readBeside() {
	if d.Beside == nil {
		return
	}
	left := maxBeside
	for _, of := range d.Beside.Texts {
		rule, own := referred(of, d.Task, d.Parents)
		if own == nil {
			s := of.Section(d.Task, d.Parents)
			rule, own = s.Rule+": "+s.Why, s.Parts
		}
		for _, part := range own {
			// whose scenarios are the task's criteria already
			if s := d.Story; s != nil && s.File == of.Name && part.FirstLine <= s.FirstLine &&
				s.FirstLine <= part.LastLine {
				lines := strings.SplitAfter(part.Text, "\n")[:s.FirstLine-part.FirstLine]
				part.Text = strings.TrimSpace(scenariosLabel.ReplaceAllString(
					strings.TrimSpace(strings.Join(lines, "")), ""))
				part.LastLine = part.FirstLine + strings.Count(part.Text, "\n")
			}
			d.besideOwn = append(d.besideOwn, besidePart{part, of, rule})
		}
		general := slices.Concat(of.General(), of.Find(func(path []string) bool {
			return len(path) < 3 && besideHeading.MatchString(path[len(path)-1])
		}))
		slices.SortFunc(general, func(a, b plan.Part) int { return cmp.Compare(a.FirstLine, b.FirstLine) })
		for _, part := range general {
			part = of.Shorten(part, maxSection)
			if left -= len(part.Text); left >= 0 && !slices.ContainsFunc(own, part.Overlaps) {
				d.besideGeneral = append(d.besideGeneral, besidePart{part, of, everyTask})
			}
		}
	}
}

var (
	scenariosLabel     = lazyregexp.New(`(?i)\n[*_ ]*acceptance (?:scenarios|criteria)[*_: ]*$`)
	requirementsLine   = lazyregexp.New(`(?im)(?:^|[^a-z])requirements?:[ *_]*((?:\d+(?:\.\d+)*[ ,and&]*)+)`)
	requirementNumber  = lazyregexp.New(`\d+(?:\.\d+)*`)
	requirementHeading = lazyregexp.New(`(?i)^(?:requirement )?(\d+(?:\.\d+)*)\b`)
)

// referred finds the sections that a task itself refers to: those of its user story, or of its requirements.
func referred(of *plan.Document, t tasks.Task, parents []tasks.Task) (rule string, found []plan.Part) {
	if t.Story != "" {
		if found = of.Find(func(path []string) bool { return storyOf(path[len(path)-1]) == t.Story }); len(found) > 0 {
			return RuleStory + ": " + t.Story, found[:1]
		}
	}
	var named []string
	for n := len(parents); n >= 0 && len(named) == 0; n-- {
		from := t
		if n < len(parents) {
			from = parents[n]
		}
		for _, m := range requirementsLine.FindAllStringSubmatch(from.Description+"\n"+from.Details, 8) {
			named = append(named, requirementNumber.FindAllString(m[1], 32)...)
		}
	}
	for _, number := range named {
		// 1.2 is the second criterion of requirement 1, or a heading of its own
		for ; number != ""; number = number[:max(0, strings.LastIndexByte(number, '.'))] {
			parts := of.Find(func(path []string) bool {
				m := requirementHeading.FindStringSubmatch(path[len(path)-1])
				return m != nil && m[1] == number && strings.Contains(strings.ToLower(strings.Join(path, " ")),
					"requirement")
			})
			if parts = slices.DeleteFunc(parts, func(p plan.Part) bool {
				return slices.ContainsFunc(found, p.Overlaps)
			}); len(parts) > 0 {
				found = append(found, parts...)
				break
			}
		}
	}
	slices.SortFunc(found, func(a, b plan.Part) int { return cmp.Compare(a.FirstLine, b.FirstLine) })
	return RuleRequirement + ": " + oneline.Clip(strings.Join(named, ", "), 80), found
}

// beside writes what the documents say.
func (d *draft) beside(w *writer) {
	if d.Beside == nil || len(d.Beside.Names) == 0 {
		return
	}
	w.put("beside", d.Beside.Names, Source{Part: "beside"})
	for _, part := range slices.Concat(d.besideGeneral, d.besideOwn) {
		w.part("beside", part.of, part.rule, part.Part)
	}
}
