package specbuild

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/oneline"
	"descartes/tasks"
)

// Beside is the documents in the folder of a task list: a spec-kit feature, an OpenSpec change, a Kiro spec.
type Beside struct {
	Names []string // all of them, including those that are not Markdown
	Texts []*Plan  // the most important first
}

// The rules of these documents, beside those of a plan.
const (
	RuleStory       = "story"       // the user story that the task is a part of
	RuleRequirement = "requirement" // one that the task names: _Requirements: 1.2_
)

// besideHeading recognises a section of such a document that concerns every task.
var besideHeading = lazyregexp.New(`^(?:overview|summary|introduction|why|what changes|context|technical context|tech(?:nology)? stack|project structure|architecture(?: overview)?)$`)

// maxBeside limits, in bytes, what the documents together say about every task.
const maxBeside = 8 << 10

// besidePart is a piece of a document, with the rule that found it.
type besidePart struct {
	of   *Plan
	rule string
	Part
}

// besideParts returns what the documents say about a task, and about every task.
func besideParts(b *Beside, story *Story, t tasks.Task, parents, all []tasks.Task) (own, general []besidePart) {
	if b == nil {
		return nil, nil
	}
	left := maxBeside
	for _, p := range b.Texts {
		p.mu.Lock()
		f, ok := p.referred(t, parents)
		if !ok {
			if p.idx == nil || !p.idx.of(all) {
				p.idx = newTitles(p, all)
			}
			f, ok = p.find(t, parents)
		}
		if !ok {
			f = found{}
		}
		for _, at := range f.places {
			if f.rule == RuleStory && story != nil && story.File == p.name { // whose scenarios are the task's criteria already
				at.end = min(at.end, max(at.start, p.doc.Offset(story.FirstLine-1)))
			}
			part := p.part(at)
			part.Text = strings.TrimRight(scenariosLabel.ReplaceAllString(part.Text, ""), "\n ")
			own = append(own, besidePart{p, f.rule + ": " + f.why, part})
		}
		for _, at := range p.besidePlaces() {
			if left -= at.end - at.start; left >= 0 && !inside(at.extent, f.places) && !slices.ContainsFunc(f.places, func(own place) bool { return inside(own.extent, []place{at}) }) {
				general = append(general, besidePart{p, "it concerns every task", p.part(at)})
			}
		}
		p.mu.Unlock()
	}
	return own, general
}

// besidePlaces are generalPlaces, and the sections that say what the whole work is about.
func (p *Plan) besidePlaces() []place {
	places := slices.Clone(p.generalPlaces())
	for i, h := range p.heads {
		if (h.parent < 0 || p.isTitle(h.parent)) && !p.isTitle(i) && besideHeading.MatchString(h.folded) {
			at := p.headPlace(i, "")
			at.end = p.blockEnd(at.start, at.end, maxGeneral)
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b place) int { return a.start - b.start })
	return places
}

var (
	scenariosLabel      = lazyregexp.New(`(?i)\n[*_ ]*acceptance (?:scenarios|criteria)[*_: ]*$`)
	requirementsLine    = lazyregexp.New(`(?im)(?:^|[^a-z])requirements?:[ *_]*((?:\d+(?:\.\d+)*[ ,and&]*)+)`)
	requirementNumber   = lazyregexp.New(`\d+(?:\.\d+)*`)
	requirementHeading  = lazyregexp.New(`(?i)^(?:requirement )?(\d+(?:\.\d+)*)\b`)
	isRequirementsTitle = lazyregexp.New(`(?i)\brequirements?\b`)
)

// referred finds the sections that a task itself refers to: those of its user story, or of its requirements.
func (p *Plan) referred(t tasks.Task, parents []tasks.Task) (found, bool) {
	if t.Story != "" {
		for i, h := range p.heads {
			if m := storyHeading.FindStringSubmatch(h.text); m != nil && "US"+m[1] == t.Story {
				return found{RuleStory, t.Story, []place{p.headPlace(i, "")}}, true
			}
		}
	}
	wanted := requirementsOf(t)
	for n := len(parents) - 1; n >= 0 && len(wanted) == 0; n-- {
		wanted = requirementsOf(parents[n])
	}
	var f found
	var named []string
	for i, h := range p.heads {
		m := requirementHeading.FindStringSubmatch(h.text)
		if m == nil || !p.amongRequirements(i) {
			continue
		}
		for _, want := range wanted { // 1.2 is the second criterion of requirement 1, or a heading of its own
			if want == m[1] || strings.HasPrefix(want, m[1]+".") && !p.hasRequirement(want) {
				if at := p.headPlace(i, ""); !inside(at.extent, f.places) {
					f.places = append(f.places, at)
				}
				named = append(named, want)
			}
		}
	}
	f.rule, f.why = RuleRequirement, oneline.Clip(strings.Join(named, ", "), 80)
	return f, len(f.places) > 0
}

// amongRequirements reports whether a heading is about a requirement: by its own word, or by one around it.
func (p *Plan) amongRequirements(i int) bool {
	for ; i >= 0; i = p.heads[i].parent {
		if isRequirementsTitle.MatchString(p.heads[i].text) {
			return true
		}
	}
	return false
}

func (p *Plan) hasRequirement(number string) bool {
	return slices.ContainsFunc(p.heads, func(h heading) bool {
		m := requirementHeading.FindStringSubmatch(h.text)
		return m != nil && m[1] == number
	})
}

// requirementsOf are the numbers that a task names: _Requirements: 1.2, 3.1_.
func requirementsOf(t tasks.Task) (numbers []string) {
	for _, m := range requirementsLine.FindAllStringSubmatch(t.Description+"\n"+t.Details, 8) {
		numbers = append(numbers, requirementNumber.FindAllString(m[1], 32)...)
	}
	return numbers
}

// beside writes what the documents say.
func (d *draft) beside(w *writer) {
	if d.req.Beside == nil || len(d.req.Beside.Names) == 0 {
		return
	}
	at := w.Len()
	fmt.Fprintf(w, "\n## Documents of this work\n\nThese belong to the task list; read what concerns this task in them: %s.\n", strings.Join(d.req.Beside.Names, ", "))
	w.from(at, Source{Part: "beside"})
	for _, part := range slices.Concat(d.besideGeneral, d.besideOwn) {
		d.documentPart(w, part.of, "beside", part.rule, part.Part)
	}
}

func (d *draft) cutBesideGeneral() string {
	if len(d.besideGeneral) == 0 {
		return ""
	}
	d.besideGeneral = nil
	return "what the documents beside the list say of every task"
}

func (d *draft) cutBeside() string {
	if len(d.besideOwn) == 0 {
		return ""
	}
	d.besideOwn = nil
	return "what the documents beside the list say of this task"
}
