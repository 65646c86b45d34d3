package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
)

// iteration is one of a loop over a prompt, for reports. One that failed may have been run again under its number.
type iteration struct {
	runs    int
	seconds float64
	cost    journal.Cost
	last    *journal.Attempt
	checked bool // the loop has a verify command, and it ran
}

// iterations are those of a loop, in their order.
func (s *Summary) iterations(h *journal.State) (out []*iteration) {
	command := s.Run.State.Config.VerificationCommand
	for _, a := range h.Attempts {
		if a.Iteration == 0 {
			continue
		}
		if n := len(out); n == 0 || out[n-1].last.Iteration != a.Iteration {
			out = append(out, &iteration{})
		}
		it := out[len(out)-1]
		it.runs, it.seconds, it.cost, it.last = it.runs+1, it.seconds+a.Seconds(), it.cost.Plus(a.Cost), a
		it.checked = command != "" && command != loop.NoVerify && len(a.Checks) > 0
	}
	return out
}

func (it *iteration) name() string { return fmt.Sprintf("iteration %d", it.last.Iteration) }

// failed reports whether the agent of its last run or the verification failed. What a gate asks for besides is no failure.
func (it *iteration) failed() bool {
	a := it.last
	if !a.Over() || a.Decision == journal.CutShort || a.Decision == journal.NoQuota {
		return false
	}
	r := a.Result
	return a.Decision == journal.Retry || r != nil && (r.End != journal.EndFinished || it.checked && !r.Passed)
}

// state is how an iteration stands: nothing runs in a loop that nobody runs.
func (it *iteration) state(live, killed bool) string {
	a := it.last
	switch {
	case !a.Over() && live && a.Phase != journal.PhaseOpen:
		return "running"
	case !a.Over() && !killed: // its run ended before it could be judged
		return "not finished"
	case a.Over() && a.Reason == journal.NotCommitted:
		return a.Reason
	case !a.Over(), a.Decision == journal.CutShort:
		return "interrupted, not finished"
	case a.Decision == journal.NoQuota:
		return "out of quota: " + a.Reason
	case it.failed():
		return "failed: " + cmp.Or(a.Reason, string(a.Decision))
	}
	return strings.TrimSuffix(string(a.Decision)+": "+a.Reason, ": ")
}

// output is the end of what the verification printed where it failed, and the agent's last words.
func (it *iteration) output() string {
	if it.last.Result == nil {
		return ""
	}
	return terminal.CleanLines(strings.TrimSpace(it.last.Result.Output + "\n" + it.last.Result.Words))
}

// iterationCases are the iterations as test cases. One that failed fails only where the loop ended with it: else a later one went on from what
// it had left, and the end of the loop says what came of that.
func (s *Summary) iterationCases(h *journal.State) (cases []junitCase) {
	list := s.iterations(h)
	class := terminal.Clean(s.Run.State.Kind)
	for i, it := range list {
		c := junitCase{Name: it.name(), Class: class, seconds: it.seconds}
		state := terminal.Clean(it.state(s.Live, s.killed()))
		switch last := i == len(list)-1; {
		case it.failed() && last && !s.Live && !s.Run.Outcome.Ending.Final():
			c.Failure = &junitWords{Message: state, Text: it.output()}
		case it.failed() && !last:
			c.Skipped = &junitWords{Message: state + "; iteration " + fmt.Sprint(list[i+1].last.Iteration) + " went on from there"}
		case it.failed() || !it.last.Over() || it.last.Decision.Failed():
			c.Skipped = &junitWords{Message: state}
		default:
			c.Out = strings.TrimSpace(state + "\n" + it.output())
		}
		cases = append(cases, c)
	}
	end := junitCase{Name: "end of the loop", Class: class}
	switch text := terminal.Clean(s.ending()); {
	case s.Run.Outcome.Ending.Final() && !s.Live && s.Run.Outcome.Unpushed == "":
		end.Out = text
	case s.broke():
		end.Failure = &junitWords{Message: text}
	default:
		end.Skipped = &junitWords{Message: text}
	}
	return append(cases, end)
}

// iterationTable is the iterations as a table of a page, and folded the end of what the failed ones printed, and of what the last one said.
func (s *Summary) iterationTable(h *journal.State) string {
	list := s.iterations(h)
	if len(list) == 0 {
		return ""
	}
	var b, tails strings.Builder
	commits, priced := false, false
	for _, it := range list {
		commits, priced = commits || it.last.Commit != "", priced || it.cost.USD != nil
	}
	b.WriteString("\n| Iteration | State | Runs | Time |" + column(commits, " Commit |") + column(priced, " Cost |") + "\n|---|---|---|---|" + column(commits, "---|") + column(priced, "---|") + "\n")
	for i, it := range list {
		took := "–"
		if it.last.Over() {
			took = terminal.Duration(time.Duration(it.seconds * float64(time.Second)))
		}
		fmt.Fprintf(&b, "| %d | %s | %d | %s |%s%s\n", it.last.Iteration, mdText(it.state(s.Live, s.killed())), it.runs, took, column(commits, " "+Short(it.last.Commit)+" |"), column(priced, " "+it.cost.Dollars()+" |"))
		if text := it.output(); text != "" && (it.failed() || i == len(list)-1) {
			tails.WriteString(folded(it.name()+": "+it.state(s.Live, s.killed()), text))
		}
	}
	return b.String() + tails.String()
}
