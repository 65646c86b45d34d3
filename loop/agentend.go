package loop

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"descartes/agent"
	"descartes/loop/journal"
)

// AgentEnd fills an event with how an agent's run ended, and up to words bytes of its last message.
func AgentEnd(e *journal.Event, r agent.Result, with Choice, words int) *journal.Event {
	e.Type, e.Reason, e.Detail = journal.AgentFinished, r.Reason, agentDetail(r, with, words)
	return e
}

// agentDetail is a result for the journal, with up to words bytes of the last message.
func agentDetail(r agent.Result, with Choice, words int) *journal.Detail {
	d := &journal.Detail{Exit: journal.Exit{End: string(r.End), Cause: string(r.Cause), Code: r.Code, Signal: r.Signal,
		Seconds: r.Duration.Seconds()}, Speech: journal.Speech{Claimed: r.Complete, Blocked: r.Blocked,
		Question: Tail(r.Question, MaxWords), Notes: slices.Clone(r.Notes[:min(len(r.Notes), maxNotes)]),
		Words: Tail(r.Final, words)}, Client: journal.Client{Session: r.Session, Anew: r.Gone,
		Model: cmp.Or(r.Model, with.Model), Backend: with.Backend}}
	if !r.Until.IsZero() {
		d.Until = &r.Until
	}
	if c := r.Cost; c != nil {
		d.USD, d.Estimated, d.Partial = c.USD, c.Estimated, c.Partial
		if t := c.Tokens; t != nil {
			d.InputTokens, d.OutputTokens, d.CacheRead, d.CacheWrite = t.Input, t.Output, t.CacheRead, t.CacheWrite
		}
	}
	return d
}

// WithNotes returns the event of an agent's end and a warning for each of its notes. They are written together: a
// journal that has the first has all of them.
func WithNotes(e *journal.Event) []*journal.Event {
	events := []*journal.Event{e}
	for _, note := range e.Detail.Notes {
		w := &journal.Event{Type: journal.Warning, Unit: journal.Unit{Wave: e.Wave, Task: e.Task, Title: e.Title,
			Iteration: e.Iteration, Attempt: e.Attempt, Of: e.Of}, Message: note}
		events = append(events, w)
	}
	return events
}

// maxNotes limits the notes per run in the journal.
const maxNotes = 20

// MaxWords limits, in bytes, an agent's last words in the journal; its log has all of them.
const MaxWords = 4 << 10

// MaxFinal limits, in bytes, the final message in the journal of an iteration or a review: as long as what is read of
// one.
const MaxFinal = 16 << 10

// Tail is the end of s, at most n bytes of whole characters.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
