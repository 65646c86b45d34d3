package gate

import (
	"fmt"
	"strings"
	"time"
)

// NeedIndicators is how often a final message must say that the work is done.
const NeedIndicators = 2

// Status is the gate with two conditions: the final message says at least twice that the work is
// done, and its ---RALPH_STATUS--- block has EXIT_SIGNAL: true. Both are only believed where what can
// be checked agrees: no unchecked item in IMPLEMENTATION_PLAN.md, verify passes, no error in the
// iteration. A circuit breaker stops a loop that stands still.
type Status struct {
	Limits  Limits  `json:"limits,omitzero"`
	Breaker Breaker `json:"breaker,omitzero"`
	Missed  int     `json:"missed,omitempty"` // iterations in a row without a status block
}

// Judge decides what the loop does after an iteration.
func (s *Status) Judge(f Facts) Decision {
	r, ok := ParseReport(f.Final)
	open := s.Breaker.Judge(f, s.Limits)
	var d Decision
	for _, p := range r.Problems {
		d.warn("status block: %s", p)
	}
	if fresh := NewlyChecked(f.Before, f.After); len(fresh) > 1 {
		d.warn("%d items were checked off in one iteration, where one is asked for: %s", len(fresh), list(texts(fresh), 5))
		d.Prompt = "Complete exactly ONE task per iteration. The last one checked off " + fmt.Sprint(len(fresh)) + ".\n"
	}
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
		d.Kind, d.Reason = Blocked, "the agent is blocked: "+blocker(r, f.Final)
	case done:
		d.Kind, d.Reason = Done, why
	case open:
		d.Kind, d.Until = Open, s.Breaker.OpenedAt.Add(s.Limits.orDefault().Cooldown)
		d.Reason, d.Question = "the circuit breaker opened: "+s.Breaker.Evidence, tryAgain
	default:
		d.Kind, d.Reason = Continue, why
		if r.ExitSignal {
			d.Prompt += "You signalled EXIT_SIGNAL: true, but the loop goes on: " + why + "\n"
		}
	}
	d.Show = append(d.Show, "[status] "+d.Reason)
	return d
}

const tryAgain = "The circuit breaker is open. Let one iteration try?"

// Begin says whether an iteration may start, before the first one and when the loop is taken up again:
// a breaker that is open holds it until its cooldown is over.
func (s *Status) Begin(now time.Time) Decision {
	if ok, until := s.Breaker.Ready(now, s.Limits); !ok {
		return Decision{Kind: Open, Until: until, Reason: "the circuit breaker is open: " + s.Breaker.Evidence, Question: tryAgain}
	}
	return Decision{Kind: Continue, Reason: "the circuit breaker is " + string(s.Breaker.state())}
}

// Answer takes what a person says while the breaker is open: yes lets one iteration try at once.
func (s *Status) Answer(yes bool) Decision {
	if !yes && s.Breaker.State == BreakerOpen {
		return Decision{Kind: Open, Until: s.Breaker.OpenedAt.Add(s.Limits.orDefault().Cooldown), Reason: "the circuit breaker stays open: " + s.Breaker.Evidence}
	}
	s.Breaker.HalfOpen()
	return Decision{Kind: Continue, Reason: "the circuit breaker is " + string(s.Breaker.state())}
}

// exit goes through the conditions in the order of the two decision tables and says which fails.
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
		return false, fmt.Sprintf("EXIT_SIGNAL is true, but the message says only %s that the work is done: a signal without evidence", times(said))
	case !r.ExitSignal && said >= NeedIndicators:
		return false, fmt.Sprintf("the message says %s that the work is done, but EXIT_SIGNAL is false", times(said))
	case !r.ExitSignal:
		return false, "EXIT_SIGNAL is false"
	case len(open) > 0:
		return false, fmt.Sprintf("IMPLEMENTATION_PLAN.md has %s: %s", count(len(open), "unchecked item"), list(texts(open), 3))
	case f.Verify != nil && !f.Verify.Passed:
		return false, "verify fails: fix that first"
	case tests == Failing:
		return false, "the status block says that tests fail: fix that first"
	case tests != Passing:
		return false, "nothing shows that tests pass: there is no verify command, and TESTS_STATUS is not PASSING"
	case r.Status != Complete:
		return false, fmt.Sprintf("EXIT_SIGNAL is true, but STATUS is %s, not COMPLETE", orMissing(r.Status))
	}
	plan := "no item is unchecked"
	if f.After == nil {
		plan = "there is no IMPLEMENTATION_PLAN.md"
	}
	return true, fmt.Sprintf("the message says %s that the work is done, EXIT_SIGNAL is true, %s and tests pass", times(said), plan)
}

// Tests says whether tests pass: a verify command that ran outranks a report that does not know, but
// a report of failing tests is believed beside it.
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

// Prompt is Instructions with the task that the plan and the tests say comes next.
func (s *Status) Prompt(c Choice) string { return c.Text() + "\n\n" + s.Instructions() }

// blocker is what a blocked agent says it needs.
func blocker(r Report, final string) string {
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
	switch n {
	case 0:
		return "zero times"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

func orMissing(s string) string {
	if s == "" {
		return "missing"
	}
	return s
}
