package loop

import (
	"encoding/json"
	"time"

	"descartes/agent"
)

// turns is what a prompt loop's journal says of its iterations. The ledger's apply alone fills it.
type turns struct {
	try      int       // of the last iteration
	open     *Event    // iteration_started without its end
	agent    *Event    // agent_finished of the open iteration
	last     *Event    // the last iteration_finished
	base     string    // the tree before the last iteration, and before those whose work no commit holds
	since    time.Time // when base was taken
	reviewed int       // the last iteration that was reviewed
	troubled bool      // the last iteration failed, or its verification
	failing  bool      // the verify command did not pass when it was run last
	words    string    // of the last iteration's agent
	owed     string    // the tree before the first iteration whose work no commit holds, "" for none
	again    bool      // the last iteration is to be repeated
	failed   int       // times that it was repeated because it had failed
	crashes  int       // iterations in a row that ended by the agent's crash
	gate     json.RawMessage
	next     string
	kept     string // of next what holds for every try of the iteration
	session  string
	asked    int // iterations in a row that ended with a question
}

// Verdicts of an iteration that is repeated under its number.
const (
	verdictCancelled = "cancelled"
	verdictRetry     = "retry"
	verdictGoesOn    = "continue"
)

func (t *turns) apply(e *Event) {
	switch e.Type {
	case IterationStarted:
		if e.Attempt == 1 {
			t.failed = 0
		}
		if t.base = e.Tree; t.owed == "" || t.owed != e.Tree {
			t.since = e.TS
		}
		t.try, t.open, t.agent, t.again = e.Attempt, e, nil, false
	case SpecRefined:
		t.reviewed = e.Iteration
	case AgentFinished:
		t.agent = e
		if e.Detail != nil {
			t.words = e.Detail.Words
			t.troubled = e.Detail.End != string(agent.Finished)
			if t.asked++; e.Detail.Question == "" {
				t.asked = 0
			}
		}
		if e.Detail != nil && e.Detail.Session != "" {
			t.session = e.Detail.Session
		}
	case VerifyFinished:
		if e.Title == "" && e.Detail != nil { // else it is the command of a criterion
			t.troubled, t.failing = !e.Detail.Passed, !e.Detail.Passed
		}
	case IterationFinished:
		t.finish(e)
	}
}

// hear takes over what a gate said between iterations.
func (t *turns) hear(e *Event) {
	t.gate, t.next, t.kept = e.Gate, joinText(t.next, e.Next), joinText(t.kept, e.Next)
}

func (t *turns) finish(e *Event) {
	t.open, t.agent, t.last = nil, nil, e
	switch {
	case e.Commit != "" && (t.owed == "" || t.owed == t.base): // else it was committed without what is owed
		t.owed = ""
	case e.Commit == "" && t.owed == "" && e.Tree != "" && e.Tree != t.base:
		t.owed = t.base
	}
	t.again = e.Verdict == verdictLimited || e.Verdict == verdictRetry
	if e.Verdict == verdictRetry {
		t.failed++
	}
	if len(e.Gate) > 0 {
		t.gate = e.Gate
	}
	switch {
	case e.Verdict == verdictLimited || e.Verdict == verdictCancelled:
		return // says nothing of the agent
	case e.Detail != nil && e.Detail.End == "crashed":
		t.crashes++
	default:
		t.crashes = 0
	}
	t.next = e.Next
	if e.Verdict != verdictRetry {
		t.kept = e.Next
	}
}

// turnSummary is an iteration as the state file lists it, from 0.
func turnSummary(e *Event) IterationSummary {
	s := IterationSummary{Iteration: e.Iteration - 1, CompletedAt: e.TS, Verdict: e.Verdict, PromiseSeen: e.Verdict == verdictGoesOn || e.Verdict == verdictDone, Commit: e.Commit}
	if e.Attempt > 1 {
		s.Attempt = e.Attempt
	}
	if d := e.Detail; d != nil {
		s.ExitCode, s.StartedAt = d.exitCode(e.Verdict), e.TS.Add(-time.Duration(d.Seconds*float64(time.Second)))
		s.OutputPreview = preview(d.Words)
	}
	return s
}

const verdictDone = "done"
