package mode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/journal"
)

// Retries is how often an iteration is run again that failed.
const Retries = 3

// Run is one run of a mode: it makes the prompts of its iterations and says which have failed. It is
// made once for a loop and not safe for concurrent use.
type Run struct {
	Kind    Kind
	Project Project
	Text    string // the mode's prompt, with its variables
	Plan    string // the prompt that plans; only of a Build that plans again
	Test    string // the command that decides whether an iteration of a Build passes; "" for none
	Promise string
	Gate    loop.Gate // nil for a Prompt
	Now     func() time.Time
	Alone   bool   // its agents may not use agents of their own
	Shown   string // the project's folder as prompts name it; "" for where the agent finds it

	here   Project // as the iteration at hand finds it
	at     Kind    // what that does
	task   string
	spec   string
	before *gate.Plan
	choice gate.Choice
	first  *gate.Plan // as the loop began, or without git as the iteration found it: whose checks count
	ticked []string   // by this try, with checks of their own that did not run
	owed   []string   // those of the try before, which this one has to pass
}

// Replans reports whether a build may plan again.
func (r *Run) Replans() bool { return r.Kind == Build && r.Plan != "" }

// Retries is how often a failed iteration is repeated: a prompt that is run once is not.
func (r *Run) Retries() int {
	if r.Kind == Prompt {
		return 0
	}
	return Retries
}

// Apart says that what a build plans is committed without what it built and did not pass.
func (r *Run) Apart() bool { return r.Kind == Build && r.at == Plan }

// First reports whether the first iteration of a build that plans again plans.
func (r *Run) First(t *loop.Iteration) (bool, error) {
	a, ok := r.Gate.(*Alternate)
	if !ok {
		return false, nil
	}
	project := r.Project.in(t)
	plan, err := project.ReadPlan()
	if err != nil {
		return false, err
	}
	a.Plans, a.Why = a.Planner.Replan(plan, false, project.Specs())
	return a.Plans, nil
}

// Again reports whether one plans after an iteration, and why.
func (r *Run) Again(t *loop.Iteration) (bool, string) {
	a, ok := r.Gate.(*Alternate)
	if !ok {
		return false, ""
	}
	f := t.Facts
	return a.Planner.Replan(f.After, f.Verify != nil && !f.Verify.Passed, a.specs())
}

// Planning says whether the next iteration plans.
func (r *Run) Planning(plans bool) {
	if a, ok := r.Gate.(*Alternate); ok {
		a.Plans, a.told = plans, true
	}
}

// Task is what the iteration at hand is about, and the spec that goes with it.
func (r *Run) Task() (kind Kind, task, spec string) { return r.at, r.task, r.spec }

// Before reads the plan and chooses what the iteration is about. One that is repeated stays with it, though
// its agent may have checked it off.
func (r *Run) Before(t *loop.Iteration) *loop.Outcome {
	if r.owed, r.ticked = r.ticked, nil; t.Try > 1 && r.task != "" {
		return nil
	}
	r.owed = nil
	r.here = r.Project.in(t)
	if r.Kind == Prompt { // which is about itself
		r.at, r.task = Prompt, ""
		r.task = title(r.variables(t).Expand(r.Text))
		return nil
	}
	plan, err := r.here.ReadPlan()
	if err != nil {
		return &loop.Outcome{Ending: journal.OwnError, Message: err.Error()}
	}
	r.before, r.at, r.task, r.spec, r.first = plan, r.Kind, "", "", plan
	if src := t.Was(r.Project.Plan); src != nil {
		first := gate.ParsePlan(string(src))
		r.first = &first
	}
	r.choice = gate.Choice{}
	if a, ok := r.Gate.(*Alternate); ok && a.plans(t, plan, r.here.Specs()) {
		r.at = Plan
	}
	switch r.at {
	case Plan:
		r.task = "update " + r.Project.Plan
		if plan == nil {
			r.task = "write " + r.Project.Plan
		}
	case Build:
		if plan == nil {
			return &loop.Outcome{Ending: journal.PlanMissing,
				Message: "Implementation plan not found. Run 'descartes plan' first."}
		}
		specs := r.here.Specs()
		c := gate.Choose(plan, gate.Situation{TestsFail: t.Failing && t.Try == 1, Specs: specs})
		r.choice = c
		switch {
		case c.Row == gate.RowNothing && len(plan.Items) > 0 && t.Number == 1 && t.Try == 1 && r.promised() &&
			!r.Replans():
			return &loop.Outcome{Ending: journal.GateDone, Message: "every item of " +
				r.Project.Plan + " is checked off; no test was run, so nothing was verified"}
		case c.Item != nil:
			r.task, r.spec = c.Item.Text, SpecOf(c.Item.Text+" "+strings.Join(c.Item.Detail, " "), specs)
		default:
			r.task = c.Reason
		}
	case Prompt:
	}
	return nil
}

// Specs lists the spec files as the iteration at hand finds them.
func (r *Run) Specs() []string { return r.here.Specs() }

// About says what the iteration at hand does.
func (r *Run) About() string { return string(r.at) + ": " + r.task }

// Announce says which mode a loop begins in, and what each iteration is about.
func (r *Run) Announce(t *loop.Iteration) (lines []string) {
	doing := map[Kind]string{Plan: "planning", Build: "building"}[r.at]
	if doing == "" {
		return nil
	}
	if t.Number == 1 && t.Try == 1 {
		lines = append(lines, "I'm starting the autonomous loop. Loading context and beginning "+
			strings.ToUpper(doing)+" mode.")
	}
	if t.Number == 1 && t.Try == 1 && r.at == Build && !r.Replans() {
		gap, why := new(gate.Planner).Replan(r.before, false, r.here.Specs())
		if len(r.before.Items) == 0 {
			gap, why = true, "it has no tasks"
		}
		if gap {
			lines = append(lines, "warning: the plan is not complete: "+why+"; descartes plan adds what is missing")
		}
	}
	return append(lines, doing+": "+oneline.Clip(oneline.Text(r.task), 200))
}

// title is the first line of a prompt that says something.
func title(text string) string {
	for line := range strings.Lines(text) {
		if s := strings.Trim(strings.TrimSpace(line), "#*_` "); s != "" {
			return s
		}
	}
	return ""
}

// Preview is the prompt that an iteration would get first, as the project is now; "" where there would be none.
func (r *Run) Preview(max int) string {
	t := &loop.Iteration{Number: 1, Try: 1, Max: max}
	if r.Before(t) != nil {
		return ""
	}
	text, _ := r.Compose(t)
	return text
}

// Compose makes the iteration's prompt.
func (r *Run) Compose(t *loop.Iteration) (string, bool) {
	text := r.Text
	if r.at == Plan && r.Kind == Build {
		text = r.Plan
	}
	text = r.variables(t).Expand(text)
	if !strings.HasPrefix(text, "#") { // a prompt that begins with - or / is an option or a command to some clients
		text = fmt.Sprintf("# %s, iteration %d\n\n%s", r.at, t.Number, text)
	}
	parts := []string{strings.TrimRight(text, "\n")}
	if s, ok := r.decider().(*gate.Status); ok && r.at == Build {
		parts = append(parts, strings.TrimSpace(s.Prompt(r.choice)))
	} else if !r.promised() && r.at == r.Kind {
		parts = append(parts, strings.TrimSpace(r.Gate.Instructions()))
	}
	if own := r.Own(t); len(own) > 0 {
		parts = append(parts, "Besides the tests this has to pass, as the plan says; that the plan says otherwise by then changes nothing:\n")
		for _, c := range own {
			parts[len(parts)-1] += "\n    " + strings.ReplaceAll(c.Verify, "\n", "\n    ")
		}
	}
	if t.Next != "" {
		parts = append(parts, strings.TrimRight(t.Next, "\n"))
	}
	return strings.Join(parts, "\n\n") + "\n", true
}

// variables are those of the iteration's prompt.
func (r *Run) variables(t *loop.Iteration) Variables {
	specs := ""
	if len(r.here.Specs()) > 0 {
		specs = "specs/"
	}
	return Variables{Mode: r.at, Iteration: t.Number, Max: t.Max, Try: t.Try, Task: r.task, Spec: r.spec,
		PlanFile: r.Project.Plan, Specs: specs,
		Test: r.Test, Promise: r.Promise, Root: cmp.Or(r.Shown, t.Seen(r.Project.Root)),
		Start: r.Now().Format(time.RFC3339), Alone: r.Alone}
}

// Checks: only what was built is tested. Planning writes documents alone (Takes), of which tests say nothing, and a
// project whose tests fail from the start can be planned.
func (r *Run) Checks(*loop.Iteration) bool { return r.at == Build }

// Own are the checks that the plan has for the task at hand, or for those that the last try ticked in its place.
func (r *Run) Own(*loop.Iteration) (list []gate.Item) {
	about := r.owed
	if len(about) == 0 && r.choice.Item != nil && r.at == Build {
		about = []string{r.choice.Item.Text}
	}
	for _, item := range about {
		if command := r.first.Check(item); command != "" {
			list = append(list, gate.Item{Text: item, Verify: command})
		}
	}
	return list
}

// Facts tells the gate of the plan, before and after.
func (r *Run) Facts(it *loop.Iteration) error {
	after, err := r.here.ReadPlan()
	if err != nil {
		return err
	}
	if it.Facts.After = after; r.at == Build { // planning may tick what it finds done
		it.Facts.Before, r.ticked = r.before, nil
		ran := r.Own(it)
		for _, item := range gate.Ticked(r.before, after) {
			command := r.first.Check(item.Text)
			if command != "" && !slices.ContainsFunc(ran, func(c gate.Item) bool { return c.Verify == command }) {
				r.ticked = append(r.ticked, item.Text)
			}
		}
	}
	if back := r.TakeBack(it); back != nil {
		plan := gate.ParsePlan(string(back[r.Project.Plan]))
		it.Facts.After = &plan
	}
	return nil
}

// unticked is the plan without the ticks of the iteration at hand; ok is false where it has none. What planning adds
// as found done keeps its tick, unless the same iteration wrote more than documents.
func (r *Run) unticked(it *loop.Iteration) (text string, ok bool) {
	was, err := r.here.planText()
	if r.at == Prompt || r.at == Build && r.before == nil || err != nil {
		return "", false
	}
	text = gate.Untick(was, cmp.Or(r.before, &gate.Plan{}), r.at == Build || it.Beside)
	return text, text != was
}

// TakeBack returns the plan without the ticks of planning, or of a build whose work is in no commit: another agent would
// take its items for done.
func (r *Run) TakeBack(it *loop.Iteration) map[string][]byte {
	if text, ok := r.unticked(it); ok && (r.at == Plan || it.Unfit != "" || r.Fails(it).Reason != "") {
		return map[string][]byte{r.Project.Plan: []byte(text)}
	}
	return nil
}

// Takes: planning writes documents, and no code.
func (r *Run) Takes(path string) bool {
	return r.at != Plan || slices.Contains([]string{".md", ".markdown", ".mdx"}, strings.ToLower(filepath.Ext(path)))
}

// Fails: an agent that failed, tests that do not pass, an iteration that changed nothing and does not
// claim that nothing was left to do.
func (r *Run) Fails(it *loop.Iteration) loop.Failure {
	f := it.Facts
	switch {
	case r.Kind == Plan && f.After == nil && f.Err == "" &&
		(it.Number >= it.Max || says(f.Final) || gate.Promised(f.Final, r.Promise)):
		return loop.Failure{Reason: "it ended without writing " + r.Project.Plan, Ending: journal.PlanMissing}
	case len(r.ticked) > 0 && r.at == Build:
		return loop.Failure{Reason: fmt.Sprintf(
			"it ticked %q, whose own check did not run: the next try has to pass it", r.ticked[0]),
			Ending: journal.TestsFailed}
	case !r.promised() && f.Blocked != "": // the gate ends the loop
	case f.Verify != nil && !f.Verify.Passed:
		ending := journal.TestsFailed
		_, ticked := r.unticked(it)
		if plan, err := r.here.ReadPlan(); err == nil && r.Replans() && len(plan.Open()) == 0 && !ticked {
			ending = "" // it is planned again, which is where the reason must be looked for
		}
		why := strings.TrimSuffix("tests fail: "+f.Verify.Name+": "+f.Verify.Why, ": ")
		return loop.Failure{Reason: cmp.Or(f.Verify.Objects, why), Ending: ending}
	case f.Err != "":
		return loop.Failure{Reason: f.Err, Ending: journal.AgentUnusable}
	case r.Kind == Prompt, !r.promised(): // a gate has its own breakers for a standstill
	case it.Watched && len(f.Changed) == 0 && !gate.Promised(f.Final, r.Promise):
		return loop.Failure{Reason: "No changes detected", Ending: journal.AgentUnusable}
	}
	return loop.Failure{}
}

// maxSubject bounds the task's part of a commit's first line, in characters.
const maxSubject = 80

// Subject is the first line of an iteration's commit. What was checked off says more than what was
// to be done.
func (r *Run) Subject(it *loop.Iteration) string {
	task := r.task
	if after, err := r.here.ReadPlan(); err == nil && r.at == Build {
		if done := gate.NewlyChecked(r.before, after); len(done) == 1 {
			task = done[0].Text
		} else if r.choice.Row == gate.RowNothing {
			task = "beyond the plan"
		}
	}
	task = oneline.Text(strings.TrimSpace(task))
	if runes := []rune(task); len(runes) > maxSubject {
		task = strings.TrimSpace(string(runes[:maxSubject-1])) + "…"
	}
	if task == "" {
		return fmt.Sprintf("%s: iteration %d", r.at, it.Number)
	}
	return fmt.Sprintf("%s: iteration %d - %s", r.at, it.Number, task)
}

// Alternate is the gate of a build that plans again: it leaves the end to another gate, and says which
// iterations plan. What it knows is saved with the loop.
type Alternate struct {
	Inner   loop.Gate
	Planner gate.Planner
	Plans   bool   // the next iteration plans
	Why     string // and why
	specs   func() []string
	told    bool // Plans is whoever runs the loop's to say
}

// NewAlternate makes a gate around inner; specs lists the project's spec files.
func NewAlternate(inner loop.Gate, specs func() []string) *Alternate {
	return &Alternate{Inner: inner, specs: specs}
}

// plans decides about an iteration; of the first nobody has judged anything.
func (a *Alternate) plans(t *loop.Iteration, plan *gate.Plan, specs []string) bool {
	if t.Number == 1 && t.Try == 1 && !a.told {
		a.Plans, a.Why = a.Planner.Replan(plan, false, specs)
	}
	return a.Plans
}

// Decide leaves the decision about what was built to the inner gate. That a plan is complete is no end.
func (a *Alternate) Decide(f gate.Facts) gate.Decision {
	d := gate.Decision{Kind: gate.Continue, Reason: "the plan is made: " + a.Why}
	if !a.Plans {
		d = a.Inner.Decide(f)
	}
	if d.Kind != gate.Continue {
		return d
	}
	if a.Plans, a.Why = a.Planner.Replan(f.After, f.Verify != nil && !f.Verify.Passed, a.specs()); a.Plans {
		d.Show = append(d.Show, "the next iteration plans: "+a.Why)
	}
	return d
}

// Instructions are those of the inner gate.
func (a *Alternate) Instructions() string {
	if _, ok := a.Inner.(*gate.Promise); ok {
		return "" // the prompt says so
	}
	return a.Inner.Instructions()
}

type alternateJSON struct {
	Inner   json.RawMessage `json:"inner"`
	Planner gate.Planner    `json:"planner"`
	Plans   bool            `json:"plans"`
	Why     string          `json:"why,omitempty"`
}

// MarshalJSON saves both gates.
func (a *Alternate) MarshalJSON() ([]byte, error) {
	inner, err := json.Marshal(a.Inner)
	if err != nil {
		return nil, err
	}
	return json.Marshal(alternateJSON{inner, a.Planner, a.Plans, a.Why})
}

// UnmarshalJSON gives both back what they knew.
func (a *Alternate) UnmarshalJSON(b []byte) error {
	var s alternateJSON
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	a.Planner, a.Plans, a.Why = s.Planner, s.Plans, s.Why
	if len(s.Inner) == 0 {
		return nil
	}
	return json.Unmarshal(s.Inner, a.Inner)
}

// Once is the text of a prompt that is run a single time.
func (r *Run) Once() string {
	r.Before(&loop.Iteration{Number: 1, Max: 1, Try: 1})
	text, _ := r.Compose(&loop.Iteration{Number: 1, Max: 1, Try: 1}) // of a Prompt, which reads nothing
	return text
}

// OnceSubject is the first line of the commit of a prompt that is run once.
func (r *Run) OnceSubject() string {
	r.Before(&loop.Iteration{Number: 1, Max: 1, Try: 1})
	return r.Subject(&loop.Iteration{Number: 1})
}
