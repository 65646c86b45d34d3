package loop

import (
	"cmp"
	"slices"
	"time"

	"descartes/agent"
	"descartes/loop/journal"
)

// agentEnd makes an event tell how an agent's run ended, with at most words bytes of its last message. What it says is all that a resumed
// loop knows of the run: see recalled.
func agentEnd(e *journal.Event, r agent.Result, with Choice, words int) *journal.Event {
	e.Type, e.Reason, e.Detail = journal.AgentFinished, r.Reason, agentDetail(r, with, words)
	return e
}

// agentDetail is a result as the journal keeps it, with at most words bytes of the last message.
func agentDetail(r agent.Result, with Choice, words int) *journal.Detail {
	d := &journal.Detail{End: string(r.End), Cause: string(r.Cause), Code: r.Code, Signal: r.Signal, Claimed: r.Complete, Blocked: r.Blocked,
		Question: tail(r.Question, maxWords), Notes: slices.Clone(r.Notes[:min(len(r.Notes), maxNotes)]),
		Words: tail(r.Final, words), Seconds: r.Duration.Seconds(), Session: r.Session, Model: cmp.Or(r.Model, with.Model), Backend: with.Backend}
	if !r.Until.IsZero() {
		d.Until = &r.Until
	}
	if c := r.Cost; c != nil {
		d.USD, d.Estimated = c.USD, c.Estimated
		if t := c.Tokens; t != nil {
			d.InputTokens, d.OutputTokens, d.CacheRead, d.CacheWrite = t.Input, t.Output, t.CacheRead, t.CacheWrite
		}
	}
	return d
}

// withNotes are the event of an agent's end and a warning for each note in it. They are written together: a journal
// that has the first has all of them.
func withNotes(e *journal.Event) []*journal.Event {
	events := []*journal.Event{e}
	for _, note := range e.Detail.Notes {
		w := &journal.Event{Type: journal.Warning, Wave: e.Wave, Task: e.Task, Title: e.Title, Iteration: e.Iteration, Attempt: e.Attempt, Of: e.Of, Message: note}
		events = append(events, w)
	}
	return events
}

// maxNotes bounds the notes on a run that the journal keeps.
const maxNotes = 20

// recalled is the result of an agent whose end the journal tells.
func recalled(e *journal.Event) agent.Result {
	d := e.Detail
	r := agent.Result{End: agent.End(d.End), Cause: agent.Cause(d.Cause), Code: d.Code, Signal: d.Signal, Reason: e.Reason, Complete: d.Claimed,
		Blocked: d.Blocked, Question: d.Question, Notes: d.Notes, Final: d.Words, Session: d.Session, Model: d.Model,
		Duration: time.Duration(d.Seconds * float64(time.Second))}
	if d.Until != nil {
		r.Until = *d.Until
	}
	if d.USD != nil || d.InputTokens+d.OutputTokens > 0 {
		r.Cost = &agent.Cost{USD: d.USD, Estimated: d.Estimated}
		if d.InputTokens+d.OutputTokens > 0 {
			r.Cost.Tokens = &agent.Tokens{Input: d.InputTokens, CacheRead: d.CacheRead, CacheWrite: d.CacheWrite, Output: d.OutputTokens}
		}
	}
	return r
}
