package gate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
)

// Criteria is the gate that ends a loop when every criterion is met with evidence and the agent signals that it is
// done. A criterion with a command is met when the command says so, whatever the agent says. Make one with
// NewCriteria; call Begin before the first iteration, and Answer after a Decision that waits for a person.
type Criteria struct {
	Spec     string        `json:"spec"`
	Asked    Asked         `json:"asked"`
	Shape    Shape         `json:"shape"`
	Score    int           `json:"score"`
	Workflow Workflow      `json:"workflow"`
	Class    Reversibility `json:"reversibility"`
	Caps     Caps          `json:"caps,omitzero"`
	Freely   bool          `json:"proceed_without_confirmation,omitempty"` // G1, G2 and G3 do not ask

	Steps     []string       `json:"steps,omitempty"`
	Completed []string       `json:"completed_steps,omitempty"`
	Status    map[string]Met `json:"criteria_status"` // by a criterion's text
	Signal    bool           `json:"exit_signal,omitempty"`
	Iteration int            `json:"iteration,omitempty"`
	State     string         `json:"status,omitempty"`
	Next      string         `json:"next,omitempty"` // what the agent says it does next
	Count     Counts         `json:"counts,omitzero"`
	Waiting   string         `json:"waiting,omitempty"` // gate or breaker that waits for an answer
	Begun     bool           `json:"begun,omitempty"`   // G1 has passed
	Agreed    bool           `json:"agreed,omitempty"`  // the pre-check agreed
	// .loop/state.json as it was last read, for fields of others
	Others json.RawMessage `json:"others_state,omitempty"`
}

// Options are the settings of a criteria loop.
type Options struct {
	Spec          string
	Asked         Asked
	Shape         string        // auto, tool, colleague or intent; "" is auto
	Reversibility Reversibility // "": derive it from the spec
	Caps          Caps
	Freely        bool
}

// NewCriteria makes the gate. A spec too vague to start with is a *VagueError.
func NewCriteria(o Options) (*Criteria, error) {
	if len(o.Asked.Criteria) == 0 {
		return nil, errors.New("a criteria loop needs at least one criterion")
	}
	if err := CheckCriteria(o.Asked.Criteria); err != nil {
		return nil, err
	}
	clarity := Score(o.Spec, o.Asked)
	shape, err := SelectShape(o.Shape, clarity)
	if err != nil {
		return nil, err
	}
	if o.Reversibility == "" {
		o.Reversibility = Classify(o.Spec)
	}
	c := &Criteria{Spec: o.Spec, Asked: o.Asked, Shape: shape, Score: clarity.Total(),
		Workflow: DetectWorkflow(o.Spec), Class: o.Reversibility,
		Caps: o.Caps.orDefault(), Freely: o.Freely, Steps: StepsOf(o.Spec, o.Asked), Status: map[string]Met{},
		State: "in_progress"}
	for _, k := range o.Asked.Criteria {
		c.Status[k.Text] = Met{Verification: k.Verification}
	}
	c.Count.LastUnmet = strings.Join(c.Unmet(), ", ")
	return c, nil
}

// StepsOf returns the steps that a spec lists, or else one for each criterion.
func StepsOf(spec string, a Asked) []string {
	var steps []string
	doc := document(oneline.Clip(spec, 256<<10))
	for n := range doc.Lines {
		if doc.Lines[n].Kind == markdown.Entry && len(steps) < maxCriteria {
			steps = append(steps, oneLine(doc.Words(n), 200))
		}
	}
	if len(steps) > 1 {
		return steps
	}
	steps = nil
	for _, c := range a.Criteria {
		steps = append(steps, c.Text)
	}
	return steps
}

// Command is a command that the loop runs after an iteration. Its result goes into Facts.Checks under Name.
type Command struct{ Name, Run string }

// mustNotName is the name of a mustNot condition's command.
func mustNotName(c Criterion) string { return "mustNot: " + c.Text }

// Commands are the commands to run after each iteration. The command of a mustNot condition tests the condition: exit
// status 0 means that it has become true.
func (c *Criteria) Commands() []Command {
	var out []Command
	for _, k := range c.Asked.Criteria {
		if k.Command != "" {
			out = append(out, Command{k.Text, k.Command})
		}
	}
	for _, k := range c.Asked.MustNot {
		if k.Command != "" {
			out = append(out, Command{mustNotName(k), k.Command})
		}
	}
	return out
}

// Unmet returns the criteria that do not count as met, in order.
func (c *Criteria) Unmet() []string {
	var out []string
	for _, k := range c.Asked.Criteria {
		if m := c.Status[k.Text]; !m.Met || assumed(m.Verification) {
			out = append(out, k.Text)
		}
	}
	return out
}

// Decide says what the loop does after an iteration.
func (c *Criteria) Decide(f Facts) Decision {
	var d Decision
	d.oneItem(f)
	before := len(c.done())
	step := c.Step()
	said := c.listen(f, &d)
	c.check(f, &d)
	c.Iteration, c.Waiting, c.State = f.Iteration, "", "in_progress"
	unmet := c.Unmet()
	missing := c.notDone(f, said, unmet)
	c.Signal = missing == ""
	breaker, why := c.Count.add(f, unmet, c.Caps)
	if said.blocked == "" {
		d.Show = append(d.Show, c.after(step, before))
	}
	switch violated := c.violated(f); {
	case violated != "":
		c.open(&d, BreakMustNot, "what must not happen has happened: "+violated)
	case said.blocked != "":
		d.Kind, d.Reason, c.State = Blocked, "the agent is blocked: "+said.blocked, "blocked"
	case missing == "":
		c.finish(&d)
	case breaker != "":
		c.open(&d, breaker, why)
	default:
		d.Kind, d.Reason = Continue, missing
		if said.signal {
			d.Prompt += "You signalled that you are done, but the loop continues: " + d.Reason + "\n"
		}
		c.g2(&d, step, before)
	}
	d.Prompt += c.ahead(f, unmet)
	return d
}

// notDone says what keeps the loop from being done, or returns "".
func (c *Criteria) notDone(f Facts, said statement, unmet []string) string {
	switch {
	case f.Err != "":
		return "the iteration had an error: " + oneLine(f.Err, 300)
	case len(unmet) > 0:
		verb := "is"
		if len(unmet) > 1 {
			verb = "are"
		}
		return fmt.Sprintf("%s %s not met: %s", criteria(len(unmet)), verb, list(unmet, 5))
	case f.Verify != nil && !f.Verify.Passed:
		return "every criterion is met, but " + f.Verify.failure()
	case !said.signal:
		return "every criterion is met, but exit_signal is false"
	}
	return ""
}

func criteria(n int) string {
	if n == 1 {
		return "1 criterion"
	}
	return fmt.Sprintf("%d criteria", n)
}

func (c *Criteria) finish(d *Decision) {
	d.Reason = "every criterion is met and exit_signal is true"
	if c.Shape == Colleague && !c.Freely {
		d.Kind, d.Gate, d.Question = Ask, "G3", "All criteria met. Confirm done?"
		c.Waiting, c.State = "G3", "paused"
		return
	}
	d.Kind, c.State = Done, "complete"
	d.Show = append(d.Show, c.Finished())
}

func (c *Criteria) open(d *Decision, breaker, why string) {
	d.Kind, d.Breaker, d.Reason = Open, breaker, why
	switch breaker {
	case BreakBudget:
		d.Question = fmt.Sprintf("The budget of %s is used up. Continue with as much again?", money(c.Caps.BudgetUSD))
	case BreakIterations:
		d.Question = why + ". Continue with as many again?"
	default:
		d.Question = "Help is needed. Continue?"
	}
	c.Waiting, c.State = breaker, "paused"
}

// g2 asks after each iteration of a loop with the shape colleague.
func (c *Criteria) g2(d *Decision, step string, before int) {
	if c.Shape != Colleague || c.Freely {
		return
	}
	d.Kind, d.Gate, d.Question = Ask, "G2", fmt.Sprintf("Step %q complete. Continue?", step)
	if len(c.done()) == before {
		d.Question = fmt.Sprintf("Step %q is not complete yet. Continue?", step)
	}
	c.Waiting, c.State = "G2", "paused"
}

// Begin says whether an iteration may start: before the first one, and when the loop is resumed. Class 1 needs its
// pre-check first, a colleague's loop its G1; Show announces the loop. A question that was open when the loop stopped
// is still open.
func (c *Criteria) Begin(time.Time) Decision {
	if c.Waiting != "" && c.Begun {
		return Decision{Kind: Ask, Gate: c.Waiting, Reason: "the loop waits for an answer at " + c.Waiting,
			Question: "It stopped at: " + c.Waiting + ". Continue?"}
	}
	d := Decision{Kind: Continue, Reason: c.Starting(), Show: []string{c.Starting()}}
	switch {
	case c.Class.Precheck() && !c.Agreed:
		d.Kind, d.Gate = Ask, "precheck"
		d.Reason = "this work is of class " + c.Class.Text()
		d.Question = "This is hard to undo, and no pre-check has agreed. Proceed?"
		c.Waiting, c.State = "precheck", "paused"
	case c.Shape == Colleague && !c.Freely && !c.Begun:
		d.Kind, d.Gate = Ask, "G1"
		d.Question = fmt.Sprintf("Here are %d steps. Proceed?", len(c.Steps))
		if len(c.Steps) == 1 {
			d.Question = "Here is 1 step. Proceed?"
		}
		d.Show = append(d.Show, c.decomposed()...)
		c.Waiting, c.State = "G1", "paused"
	default:
		c.Begun, c.Waiting, c.State = true, "", "in_progress"
	}
	return d
}

// Precheck takes the result of the pre-check that class 1 needs. If it does not agree, the loop does not start, and
// its words say why.
func (c *Criteria) Precheck(r Check) Decision {
	if !r.Passed {
		return Decision{Kind: Blocked, Reason: "the pre-check does not agree: " +
			cmp.Or(oneLine(r.Output, 500), "missing")}
	}
	c.Agreed = true
	return c.Begin(time.Time{})
}

// Answer takes a person's answer to the last question: of Begin, or of a Decision that asked or opened a breaker.
// Without an open question it returns Continue.
func (c *Criteria) Answer(yes bool) Decision {
	waited := c.Waiting
	c.Waiting, c.State = "", "in_progress"
	switch {
	case waited == "G3" && yes:
		c.State = "complete"
		return Decision{Kind: Done, Reason: "every criterion is met and a person confirmed it",
			Show: []string{c.Finished()}}
	case waited == "G3":
		c.Signal = false
		return Decision{Kind: Continue, Reason: "a person says that it is not done",
			Prompt: "A person looked at the result and says that it is not done yet. Verify each criterion again, by running it.\n"}
	case waited != "" && !yes:
		c.Waiting, c.State = waited, "paused"
		return Decision{Kind: Blocked, Reason: "a person said no at " + waited}
	case waited == "precheck":
		c.Agreed = true
		return c.Begin(time.Time{})
	case waited == "G1":
		c.Begun = true
	case waited == BreakBudget:
		c.Caps.BudgetUSD += max(c.Caps.Step.BudgetUSD, 0)
	case waited == BreakIterations:
		c.Caps.Iterations += max(c.Caps.Step.Iterations, 0)
	case waited != "":
		c.Count.Stuck, c.Count.SameError = 0, 0
	}
	return Decision{Kind: Continue, Reason: "a person said yes"}
}

// done are the complete steps: those that the agent reports, and those that are met criteria.
func (c *Criteria) done() []string {
	unmet := c.Unmet()
	var out []string
	for _, s := range c.Steps {
		if _, criterion := c.Status[s]; criterion && !slices.Contains(unmet, s) || !criterion &&
			slices.Contains(c.Completed, s) {
			out = append(out, s)
		}
	}
	return out
}

// Step is the first incomplete step, or "".
func (c *Criteria) Step() string {
	done := c.done()
	for _, s := range c.Steps {
		if !slices.Contains(done, s) {
			return s
		}
	}
	return ""
}

// The circuit breakers of a criteria loop, as Decision.Breaker names them.
const (
	BreakCriteria   = "same criteria unmet"
	BreakError      = "same error"
	BreakEdits      = "same file edits"
	BreakBudget     = "budget exceeded"
	BreakIterations = "iteration limit"
	BreakMustNot    = "mustNot"
)

// Caps are the breakers' limits. 0 is the default; a negative value never opens the breaker.
type Caps struct {
	Unmet      int     `json:"same_criteria,omitempty"` // iterations in a row with the same criteria unmet; 5
	SameError  int     `json:"same_error,omitempty"`    // iterations in a row with one error; 3
	FileEdits  int     `json:"file_edits,omitempty"`    // edits of one file in one iteration; 5
	BudgetUSD  float64 `json:"budget_usd,omitempty"`    // 25
	Iterations int     `json:"iterations,omitempty"`    // 10

	Step struct {
		BudgetUSD  float64 `json:"budget_usd,omitempty"`
		Iterations int     `json:"iterations,omitempty"`
	} `json:"step,omitzero"` // what a person's yes adds; set by NewCriteria
}

func (l Caps) orDefault() Caps {
	l.Unmet, l.SameError, l.FileEdits = cmp.Or(l.Unmet, 5), cmp.Or(l.SameError, 3), cmp.Or(l.FileEdits, 5)
	l.Iterations, l.BudgetUSD = cmp.Or(l.Iterations, 10), cmp.Or(l.BudgetUSD, 25)
	if l.Step.Iterations == 0 {
		l.Step.BudgetUSD, l.Step.Iterations = l.BudgetUSD, l.Iterations
	}
	return l
}

// Counts are what the breakers have counted so far.
type Counts struct {
	Stuck     int    `json:"stuck,omitempty"`
	LastUnmet string `json:"last_unmet,omitempty"`
	SameError int    `json:"same_error,omitempty"`
	LastError string `json:"last_error,omitempty"` // signature
}

// add counts one iteration and returns the breaker that it opens, and why, or "".
func (n *Counts) add(f Facts, unmet []string, l Caps) (breaker, why string) {
	l = l.orDefault()
	now := strings.Join(unmet, ", ")
	if now == n.LastUnmet && now != "" {
		n.Stuck++
	} else {
		n.Stuck = 0
	}
	n.LastUnmet = now
	signature, shown := failure(f)
	switch {
	case signature == "":
		n.SameError = 0
	case signature == n.LastError:
		n.SameError++
	default:
		n.SameError = 1
	}
	n.LastError = signature
	file, edits := mostEdited(f.Edits)
	switch {
	case l.SameError > 0 && n.SameError >= l.SameError:
		return BreakError, fmt.Sprintf("the same error came %d times in a row: %s", n.SameError, shown)
	case l.FileEdits > 0 && edits >= l.FileEdits:
		return BreakEdits, fmt.Sprintf("%s was edited %d times in one iteration, likely thrashing", file, edits)
	case l.Unmet > 0 && n.Stuck >= l.Unmet:
		return BreakCriteria, fmt.Sprintf("the same criteria were unmet after %d iterations in a row: %s", n.Stuck,
			list(unmet, 5))
	case l.BudgetUSD > 0 && f.CostUSD != nil && *f.CostUSD > l.BudgetUSD:
		return BreakBudget, fmt.Sprintf("the loop has cost %s, more than its budget of %s", money(*f.CostUSD),
			money(l.BudgetUSD))
	case l.Iterations > 0 && f.Iteration >= l.Iterations:
		if f.Iteration == 1 {
			return BreakIterations, "1 iteration is over"
		}
		return BreakIterations, fmt.Sprintf("%d iterations are over", f.Iteration)
	}
	return "", ""
}

func mostEdited(edits map[string]int) (file string, n int) {
	for _, f := range slices.Sorted(maps.Keys(edits)) {
		if edits[f] > n {
			file, n = f, edits[f]
		}
	}
	return file, n
}

// money formats dollars: $25, $4.50.
func money(usd float64) string {
	return "$" + strings.TrimSuffix(fmt.Sprintf("%.2f", usd), ".00")
}

// statement is what an agent says in one iteration, in whichever place.
type statement struct {
	signal  bool
	blocked string
}

// listen reads .loop/state.json, the last ---LOOP_STATUS--- block (or, in its other dialect, ---RALPH_STATUS---) and
// the tags of the final message. The block outranks the file, which the loop itself wrote before; the tag
// <loop-complete> is a signal if there is no block.
func (c *Criteria) listen(f Facts, d *Decision) statement {
	s := c.readState(f.State, d)
	done, _, inner := tags(f.Final)
	b, ok := statusBlock(f.Final)
	switch {
	case ok:
		s.signal = b.signal(func(format string, args ...any) { d.warn("status block: "+format, args...) })
		c.readBlock(&b, d)
		if done && !s.signal {
			d.warn("the message has <loop-complete>, but EXIT_SIGNAL is not true")
		}
	case done:
		s.signal = true
		c.ticks(inner)
	default:
		d.warn("the final message has no ---LOOP_STATUS--- block")
		d.Prompt += "Your last message had no ---LOOP_STATUS--- block. End every message with it, in exactly the format below.\n"
	}
	s.blocked = c.Blocked(f.Final)
	return s
}

// statusBlock is the block of a final message, in the criteria gate's format or the status gate's.
func statusBlock(final string) (b fields, ok bool) {
	if b, _, ok = lastBlock(final, "LOOP_STATUS"); !ok {
		b, _, ok = lastBlock(final, "RALPH_STATUS")
	}
	return b, ok
}

// Blocked is what an agent says it needs that cannot continue, "" if it can.
func (c *Criteria) Blocked(final string) string {
	_, blocked, inner := tags(final)
	b, ok := statusBlock(final)
	switch {
	case blocked:
		return cmp.Or(oneLine(inner, 500), "it gives no reason")
	case ok && fieldKey(b.values["STATUS"]) == IsBlocked:
		return cmp.Or(oneLine(cmp.Or(b.values["RECOMMENDATION"], b.values["NEXT"]), 500), "it gives no reason")
	}
	return ""
}

// readState takes over what the agent wrote into the file: which criteria are met, which steps are complete. The agent
// cannot change the criteria themselves.
func (c *Criteria) readState(src []byte, d *Decision) statement {
	if src == nil {
		return statement{}
	}
	st, problems, err := DecodeState(src)
	if err != nil {
		d.warn("%s; it is rewritten", err)
		return statement{}
	}
	d.Warnings = append(d.Warnings, problems...)
	c.Others = slices.Clone(src)
	for _, k := range slices.Sorted(maps.Keys(st.Status)) {
		c.state(k, st.Status[k], d)
	}
	for _, k := range c.Asked.Criteria {
		if len(st.Criteria) > 0 && !slices.ContainsFunc(st.Criteria,
			func(s string) bool { return name(s) == name(k.Text) }) {
			d.warn("the criterion %q is missing from .loop/state.json; it still counts", k.Text)
		}
	}
	if n := len(st.Steps); n > 0 && n <= maxCriteria {
		c.Steps = st.Steps
	}
	c.Completed = slices.DeleteFunc(slices.Clone(st.Completed),
		func(s string) bool { return !slices.Contains(c.Steps, s) })
	return statement{signal: st.ExitSignal}
}

// readBlock reads a block's CRITERIA and NEXT. CRITERIA is a JSON object, on one line or several, of booleans or of
// {"met": ..., "verification": ...}; otherwise "name: true" lines are read.
func (c *Criteria) readBlock(b *fields, d *Decision) {
	if next := cmp.Or(b.values["NEXT"], b.values["RECOMMENDATION"]); next != "" {
		c.Next = oneLine(next, 300)
	}
	body := strings.Join(b.body, "\n")
	at := strings.Index(strings.ToUpper(body), "CRITERIA")
	if at >= 0 && len(strings.ToUpper(body)) == len(body) {
		body = body[at:]
	}
	if from := strings.IndexByte(body, '{'); at >= 0 && from >= 0 {
		var status map[string]Met
		if err := json.NewDecoder(strings.NewReader(body[from:])).Decode(&status); err != nil {
			d.warn("status block: CRITERIA is not a JSON object")
			return
		}
		for _, k := range slices.Sorted(maps.Keys(status)) {
			m := status[k]
			if m.unclear {
				d.warn("status block: %q is neither true nor false", oneLine(k, 80))
				m.Met = false
			}
			c.state(k, m, d)
		}
		return
	}
	for _, k := range c.Asked.Criteria {
		if yes, ok := truth(b.values[fieldKey(k.Text)]); ok {
			c.state(k.Text, Met{Met: yes}, d)
		}
	}
}

// state records what is said about one criterion, in any spelling of its name.
func (c *Criteria) state(said string, m Met, d *Decision) {
	for _, k := range c.Asked.Criteria {
		if name(k.Text) != name(said) {
			continue
		}
		if m.Verification == "" {
			m.Verification = cmp.Or(c.Status[k.Text].Verification, k.Verification)
		}
		c.Status[k.Text] = m
		return
	}
	if unknown := fmt.Sprintf("%q is not a criterion of this loop", oneLine(said, 80)); !slices.Contains(d.Warnings,
		unknown) {
		d.warn("%s", unknown)
	}
}

// ticks reads the list inside <loop-complete>: "- tests pass: ✓".
func (c *Criteria) ticks(inner string) {
	for line := range strings.SplitSeq(inner, "\n") {
		text, _ := entry(line)
		for _, mark := range []string{"✓", "✔", "✅"} {
			if rest, ok := strings.CutSuffix(text, mark); ok {
				c.state(strings.TrimRight(rest, " :-—"), Met{Met: true}, &Decision{})
			}
		}
	}
}

// check lets commands decide about the criteria they are bound to, and warns about what rests on nothing.
func (c *Criteria) check(f Facts, d *Decision) {
	for _, k := range c.Asked.Criteria {
		m := c.Status[k.Text]
		if k.Command != "" {
			agent := m.Met
			m.Met, m.Verification = false, ByExecution
			at := slices.IndexFunc(f.Checks, func(r Check) bool { return r.Name == k.Text })
			switch {
			case at < 0:
				d.warn("the command of %q has not run", k.Text)
			case f.Checks[at].Passed:
				m.Met = true
			case agent:
				d.warn("the agent says that %q is met, but its command fails", k.Text)
			}
			c.Status[k.Text] = m
		}
		if m.Met && assumed(m.Verification) {
			d.warn("%q rests on an assumption (%s) and does not count", k.Text, oneLine(m.Verification, 80))
		}
	}
}

// violated returns the first mustNot condition whose command says that it is true.
func (c *Criteria) violated(f Facts) string {
	for _, k := range c.Asked.MustNot {
		for _, r := range f.Checks {
			if r.Name == mustNotName(k) && r.Passed {
				return k.Text
			}
		}
	}
	return ""
}

var loopTag = lazyregexp.New("^[\\s>*_]*(?:`[\\s*_]*<loop-(complete|blocked)>.*`\\s*$|<loop-(complete|blocked)>)")

// tags finds <loop-complete> and <loop-blocked> at the start of a line outside code, the last of either. inner is what
// is between the tag and its end, or the end of the message.
func tags(message string) (done, blocked bool, inner string) {
	doc := document(message)
	from, tag := -1, ""
	for n := range doc.Lines {
		if m := loopTag.FindStringSubmatch(doc.Line(n)); m != nil && doc.Lines[n].Kind != markdown.Hidden {
			tag = m[1] + m[2]
			from = doc.Lines[n].Start + strings.Index(doc.Line(n), "<loop-"+tag+">") + len("<loop->") + len(tag)
		}
	}
	if tag == "" {
		return false, false, ""
	}
	inner, _, _ = strings.Cut(message[from:], "</loop-"+tag+">")
	return tag == "complete", tag == "blocked", strings.Trim(inner, " \t\r\n*_`")
}
