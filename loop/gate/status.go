package gate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
)

// NeedIndicators is how often a final message must say that the work is done.
const NeedIndicators = 2

// Status is the gate with two conditions: the final message says at least twice that the work is done, and its
// ---RALPH_STATUS--- block has EXIT_SIGNAL: true. Both only count if what can be checked agrees: no unchecked item in
// IMPLEMENTATION_PLAN.md, verify passes, no error in the iteration. A circuit breaker stops a loop without progress.
type Status struct {
	Limits  Limits  `json:"limits,omitzero"`
	Breaker Breaker `json:"breaker,omitzero"`
	Missed  int     `json:"missed,omitempty"` // iterations in a row without a status block
}

// Decide says what the loop does after an iteration.
func (s *Status) Decide(f Facts) Decision {
	r, ok := ParseReport(f.Final)
	open := s.Breaker.Add(f, s.Limits)
	var d Decision
	for _, p := range r.Problems {
		d.warn("status block: %s", p)
	}
	d.oneItem(f)
	if ok {
		s.Missed = 0
	} else {
		s.Missed++
		d.warn("the final message has no ---RALPH_STATUS--- block")
		d.Prompt += "Your last message had no ---RALPH_STATUS--- block. End every message with it, in exactly the format below.\n"
	}
	done, why := s.exit(r, ok, f)
	switch {
	case r.Status == IsBlocked:
		d.Kind, d.Reason = Blocked, "the agent is blocked: "+s.Blocked(f.Final)
	case done:
		d.Kind, d.Reason = Done, why
	case open:
		d.Kind, d.Until = Open, s.Breaker.OpenedAt.Add(s.Limits.orDefault().Cooldown)
		d.Reason, d.Question = "the circuit breaker opened: "+s.Breaker.Evidence, tryAgain
	default:
		d.Kind, d.Reason = Continue, why
		if r.ExitSignal {
			d.Prompt += "You signalled EXIT_SIGNAL: true, but the loop continues: " + why + "\n"
		}
	}
	d.Show = append(d.Show, "[status] "+d.Reason)
	return d
}

const tryAgain = "The circuit breaker is open. Let one iteration try?"

// Begin says whether an iteration may start: before the first one, and when the loop is resumed. An open breaker
// prevents it until its cooldown is over.
func (s *Status) Begin(now time.Time) Decision {
	if ok, until := s.Breaker.Ready(now, s.Limits); !ok {
		return Decision{Kind: Open, Until: until, Reason: "the circuit breaker is open: " + s.Breaker.Evidence,
			Question: tryAgain}
	}
	return Decision{Kind: Continue, Reason: "the circuit breaker is " + string(s.Breaker.state())}
}

// Answer takes what a person says while the breaker is open: yes allows one iteration at once.
func (s *Status) Answer(yes bool) Decision {
	if !yes && s.Breaker.State == BreakerOpen {
		return Decision{Kind: Open, Until: s.Breaker.OpenedAt.Add(s.Limits.orDefault().Cooldown),
			Reason: "the circuit breaker stays open: " + s.Breaker.Evidence}
	}
	s.Breaker.HalfOpen()
	return Decision{Kind: Continue, Reason: "the circuit breaker is " + string(s.Breaker.state())}
}

// exit checks the conditions in the order of the two decision tables and returns the one that fails.
func (s *Status) exit(r Report, ok bool, f Facts) (bool, string) {
	said := Indicators(f.Final)
	open := f.After.Open()
	tests := Tests(r, f.Verify)
	switch {
	case f.Err != "":
		return false, "the iteration had an error: " + oneLine(f.Err, 300)
	case !ok:
		return false, "there is no status block"
	case r.ExitSignal && said < NeedIndicators:
		return false, fmt.Sprintf(
			"EXIT_SIGNAL is true, but the message says only %s that the work is done: a signal without evidence",
			times(said))
	case !r.ExitSignal && said >= NeedIndicators:
		return false, fmt.Sprintf("the message says %s that the work is done, but EXIT_SIGNAL is false", times(said))
	case !r.ExitSignal:
		return false, "EXIT_SIGNAL is false"
	case len(open) > 0:
		return false, fmt.Sprintf("IMPLEMENTATION_PLAN.md has %s: %s", count(len(open), "unchecked item"),
			list(texts(open), 3))
	case f.Verify != nil && !f.Verify.Passed:
		return false, f.Verify.failure() + ": fix that first"
	case tests == Failing:
		return false, "the status block says that tests fail: fix that first"
	case tests != Passing:
		return false, "nothing shows that tests pass: there is no verify command, and TESTS_STATUS is not PASSING"
	}
	plan := "no item is unchecked"
	if f.After == nil {
		plan = "there is no IMPLEMENTATION_PLAN.md"
	}
	return true, fmt.Sprintf("the message says %s that the work is done, EXIT_SIGNAL is true, %s and tests pass",
		times(said), plan)
}

// Tests says whether tests pass. A verify command that ran outranks a report that does not know, but a report of
// failing tests counts besides it.
func Tests(r Report, verify *Check) string {
	switch {
	case verify != nil && !verify.Passed, r.Tests == Failing:
		return Failing
	case verify != nil:
		return Passing
	}
	return r.Tests
}

// Instructions is what every prompt of the loop says about the status block.
func (s *Status) Instructions() string {
	return `Complete exactly ONE task of IMPLEMENTATION_PLAN.md in this iteration, and update the plan. End your final message with this block, in exactly this format:

---RALPH_STATUS---
STATUS: IN_PROGRESS | COMPLETE | BLOCKED
TASKS_COMPLETED_THIS_LOOP: <number>
FILES_MODIFIED: <number>
TESTS_STATUS: PASSING | FAILING | NOT_RUN
WORK_TYPE: IMPLEMENTATION | TESTING | DOCUMENTATION | REFACTORING
EXIT_SIGNAL: false | true
RECOMMENDATION: <one line: what to do next, or what blocks you>
---END_RALPH_STATUS---

EXIT_SIGNAL may only be true when ALL of these hold:
- IMPLEMENTATION_PLAN.md has no remaining tasks
- All tests pass
- No errors in the latest iteration
- No meaningful work remains
Then also say in words, before the block, that all tasks are done and that the work is complete. The loop checks the plan and the tests itself.
If you cannot go on without a person, set STATUS: BLOCKED and say in RECOMMENDATION what you need.
`
}

// Prompt is Instructions with the next task according to plan and tests.
func (s *Status) Prompt(c Choice) string { return c.Text() + "\n\n" + s.Instructions() }

// Blocked is what an agent says it needs that cannot continue, "" if it can.
func (s *Status) Blocked(final string) string {
	r, _ := ParseReport(final)
	if r.Status != IsBlocked {
		return ""
	}
	if r.Recommendation != "" {
		return oneLine(r.Recommendation, 500)
	}
	_, rest, _ := lastBlock(final, "RALPH_STATUS")
	if rest = strings.TrimSpace(rest); rest != "" {
		return oneLine(rest, 500)
	}
	return "it gives no reason"
}

func texts(items []Item) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.Text
	}
	return out
}

func times(n int) string {
	if n < 3 {
		return []string{"zero times", "once", "twice"}[n]
	}
	return fmt.Sprintf("%d times", n)
}

// Report is what an agent says in a ---RALPH_STATUS--- block.
type Report struct {
	Status         string // IN_PROGRESS, COMPLETE or BLOCKED; "" where missing or none of them
	Tests          string // PASSING, FAILING or NOT_RUN; "" where missing
	ExitSignal     bool
	Recommendation string
	Problems       []string // what the block lacks, and values without a meaning
}

// Words of a report's fields.
const (
	InProgress = "IN_PROGRESS"
	Complete   = "COMPLETE"
	IsBlocked  = "BLOCKED"

	Passing = "PASSING"
	Failing = "FAILING"
	NotRun  = "NOT_RUN"
)

// ParseReport reads the last ---RALPH_STATUS--- block of a message, or else the last ---LOOP_STATUS--- block with the
// same fields; ok is false without either. A block that shows the choices, as in "STATUS: IN_PROGRESS | COMPLETE |
// BLOCKED", counts as one without values: it can end nothing.
func ParseReport(message string) (r Report, ok bool) {
	f, _, ok := lastBlock(message, "RALPH_STATUS")
	if !ok {
		if f, _, ok = lastBlock(message, "LOOP_STATUS"); !ok {
			return r, false
		}
	}
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	if f.values["STATUS"] == "" {
		problem("STATUS is missing")
	}
	r.Status = f.word("STATUS", []string{InProgress, Complete, IsBlocked}, map[string]string{"COMPLETED": Complete},
		problem)
	r.Tests = f.word("TESTS_STATUS", []string{Passing, Failing, NotRun},
		map[string]string{"PASS": Passing, "PASSED": Passing, "FAIL": Failing, "FAILED": Failing, "NONE": NotRun,
			"N/A": NotRun}, problem)
	r.ExitSignal = f.signal(problem)
	r.Recommendation = f.values["RECOMMENDATION"]
	if !f.closed {
		problem("the block has no ---END_RALPH_STATUS--- line")
	}
	return r, true
}

var (
	saysDone = lazyregexp.New(`(?i)\b(done|completed?|finished)\b`)
	// Other words for the same.
	donePhrase = lazyregexp.New(
		`(?i)\b(ready (for review|to (merge|ship))|nothing (is |else )?(left|remains|to do)( to (do|be done))?|` +
			`no (remaining (tasks|work)|(meaningful )?(tasks|work) (remain|remains|remaining|left)|further work))\b`)
	partlyDone = lazyregexp.New(`(?i)\byet\b|\b\d{1,2}(\.\d+)? ?%`)
	// What denies or postpones what follows it.
	denial = lazyregexp.New(
		`(?i)\b(not|never|cannot|without|until|unless|when|whenever|once|if|before|will|would|should|must|could|might|may|far|neither|nor|none|` +
			`nothing|almost|nearly|partially|partly|half|mostly|remaining)\b|n['’]t\b|\b(no(\W+\w+){0,2}|to( be| get)?|an?|the)\W+$`)
	command = lazyregexp.New(
		`(?i)^complete (the|an?|this|that|these|those|it|them|all|each|every|my|your|our|its|task|step)\b`)
	question = lazyregexp.New(`[^.!?]*\?`)
	clauses  = lazyregexp.New(`[.!;,](\s|$)|\bbut\b`)
)

// Indicators counts how often a message says that the work is done: the words done, complete, completed and finished,
// and phrases such as "ready for review" or "nothing left to do". It does not count what is denied ("not all tasks are
// done yet"), hoped for ("once it is done"), partial ("almost done", "80% complete"), asked or commanded ("complete
// the API"), in code, in an unchecked box, or in a status block, which counts by itself.
func Indicators(message string) (n int) {
	for _, name := range []string{"RALPH_STATUS", "LOOP_STATUS"} {
		_, message, _ = lastBlock(message, name)
	}
	doc := document(message)
	for i := range doc.Lines {
		if doc.Lines[i].Kind == markdown.Hidden || doc.Lines[i].Box == ' ' {
			continue
		}
		for _, clause := range clauses.Split(question.ReplaceAllString(doc.Line(i), ""), -1) {
			clause = donePhrase.ReplaceAllString(clause, "done")
			if partlyDone.MatchString(clause) {
				continue
			}
			for _, at := range saysDone.FindAllStringIndex(clause, -1) {
				if !denial.MatchString(clause[:at[0]]) && !command.MatchString(clause[at[0]:]) {
					n++
				}
			}
		}
	}
	return n
}

// BreakerState is the state of a circuit breaker.
//
//	closed --no progress, same error, output shrinks--> open --the cooldown or a person--> half-open
//	half-open --progress--> closed
//	half-open --none, or an error--> open
type BreakerState string

// The states. The zero value of a Breaker is closed.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half-open"
)

// Limits say when a breaker opens. 0 is the default; a negative value never opens it.
type Limits struct {
	NoProgress int           `json:"no_progress,omitempty"`    // iterations in a row without progress; 3
	SameError  int           `json:"same_error,omitempty"`     // iterations in a row with one error; 5
	Shrink     int           `json:"output_decline,omitempty"` // percent by which the output shrank; 70
	Cooldown   time.Duration `json:"cooldown,omitempty"`       // how long it stays open; 30 minutes
}

// DefaultCooldown is how long a breaker stays open by default.
const DefaultCooldown = 30 * time.Minute

func (l Limits) orDefault() Limits {
	l.NoProgress, l.SameError, l.Shrink = cmp.Or(l.NoProgress, 3), cmp.Or(l.SameError, 5), cmp.Or(l.Shrink, 70)
	l.Cooldown = cmp.Or(l.Cooldown, DefaultCooldown)
	return l
}

// Output below minOutput bytes is too little to tell that it shrinks; outputWindow is how many iterations are
// compared.
const (
	minOutput    = 500
	outputWindow = 5
)

// Breaker watches a loop for lack of progress. It belongs to one run: see Begin.
type Breaker struct {
	Run        string       `json:"run,omitempty"`
	State      BreakerState `json:"state,omitempty"`
	NoProgress int          `json:"consecutive_no_progress,omitempty"`
	SameError  int          `json:"consecutive_same_error,omitempty"`
	LastError  string       `json:"last_error,omitempty"` // signature
	Outputs    []int64      `json:"outputs,omitempty"`    // bytes, of the last iterations
	OpenedAt   time.Time    `json:"opened_at,omitzero"`
	Evidence   string       `json:"evidence,omitempty"` // why it is open, in words
}

func (b *Breaker) state() BreakerState {
	if b.State == "" {
		return BreakerClosed
	}
	return b.State
}

// Begin says which run the breaker watches. It forgets other runs, so that a breaker left open by an earlier run never
// stops a new one.
func (b *Breaker) Begin(run string) {
	if b.Run != run {
		*b = Breaker{Run: run}
	}
}

// Ready reports whether an iteration may start. After its cooldown a breaker becomes half-open and allows one
// iteration; until is when that will be. A clock set back does not extend the wait beyond the cooldown.
func (b *Breaker) Ready(now time.Time, l Limits) (ok bool, until time.Time) {
	if b.State != BreakerOpen {
		return true, time.Time{}
	}
	cooldown := l.orDefault().Cooldown
	if now.Before(b.OpenedAt) {
		b.OpenedAt = now
	}
	if until = b.OpenedAt.Add(cooldown); now.Before(until) {
		return false, until
	}
	b.HalfOpen()
	return true, time.Time{}
}

// HalfOpen allows one iteration although the breaker is open: a person said so.
func (b *Breaker) HalfOpen() {
	if b.State == BreakerOpen {
		b.State = BreakerHalfOpen
	}
}

// Add counts one iteration and reports whether the breaker is open after it. Progress is a changed
// file or a newly checked item.
func (b *Breaker) Add(f Facts, l Limits) bool {
	l = l.orDefault()
	progress := len(f.Changed) > 0 || f.Unwatched && f.Err == "" || len(NewlyChecked(f.Before, f.After)) > 0
	signature, shown := failure(f)
	shrunk, from := b.shrunk(f.OutputBytes, l.Shrink)
	if b.Outputs = append(b.Outputs, f.OutputBytes); len(b.Outputs) > outputWindow {
		b.Outputs = b.Outputs[1:]
	}
	b.tally(progress, signature)
	var why []string
	if l.NoProgress > 0 && b.NoProgress >= l.NoProgress {
		why = append(why, fmt.Sprintf("%s in a row changed no file and checked off no item",
			count(b.NoProgress, "iteration")))
	}
	if l.SameError > 0 && b.SameError >= l.SameError {
		why = append(why, fmt.Sprintf("the same error came %d times in a row: %s", b.SameError, shown))
	}
	if shrunk && !progress {
		why = append(why, fmt.Sprintf(
			"without any progress the agent's output shrank by %d %% or more: from %d bytes to %d", l.Shrink, from,
			f.OutputBytes))
	}
	if b.State == BreakerHalfOpen && len(why) == 0 {
		if progress && f.Err == "" {
			*b = Breaker{Run: b.Run, Outputs: b.Outputs, LastError: b.LastError, SameError: min(b.SameError, 1)}
			return false
		}
		why = append(why, "the iteration that was to show whether it goes on again made no progress ("+b.Evidence+")")
	}
	if len(why) == 0 {
		return false
	}
	b.State, b.OpenedAt, b.Evidence = BreakerOpen, f.Now, strings.Join(why, "; ")
	return true
}

// tally counts iterations in a row.
func (b *Breaker) tally(progress bool, signature string) {
	if progress {
		b.NoProgress = 0
	} else {
		b.NoProgress++
	}
	switch {
	case signature == "":
		b.SameError, b.LastError = 0, ""
	case signature == b.LastError:
		b.SameError++
	default:
		b.SameError, b.LastError = 1, signature
	}
}

// shrunk reports whether an output is smaller by percent than the largest of the recent ones.
func (b *Breaker) shrunk(now int64, percent int) (bool, int64) {
	var most int64
	for _, n := range b.Outputs {
		most = max(most, n)
	}
	return percent > 0 && most >= minOutput && (most-now)*100 >= most*int64(percent), most
}
