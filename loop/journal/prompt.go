package journal

import (
	"encoding/json"
	"slices"
	"time"
)

// Prompt is what the journal of a prompt loop says of its iterations. State.Apply alone fills it.
type Prompt struct {
	Try      int       // of the last iteration
	Open     *Event    // iteration_started without its end
	Agent    *Event    // agent_finished of the open iteration
	Last     *Event    // the last iteration_finished
	Base     string    // the tree before the last iteration, and before those whose work no commit holds
	Since    time.Time // when Base was taken
	Reviewed int       // the last iteration that was reviewed
	Troubled bool      // the last iteration failed, or its verification
	Failing  bool      // the verify command did not pass when it was run last
	Words    string    // of the last iteration's agent
	Owed     string    // the tree before the first iteration whose work no commit holds, "" for none
	Again    bool      // the last iteration is to be repeated
	Failed   int       // times that it was repeated because it had failed
	Crashes  int       // iterations in a row that ended by the agent's crash
	Gate     json.RawMessage
	Next     []string // what the next iteration's prompt adds, in parts
	Kept     []string // of Next what holds for every try of the iteration
	Session  Session
	Asked    int // iterations in a row that ended with a question
	Commits  int
}

func (p *Prompt) apply(e *Event) {
	switch e.Type {
	case IterationStarted:
		if e.Attempt == 1 {
			p.Failed = 0
		}
		if p.Base = e.Tree; p.Owed == "" || p.Owed != e.Tree {
			p.Since = e.TS
		}
		p.Try, p.Open, p.Agent, p.Again = e.Attempt, e, nil, false
	case SpecRefined:
		p.Reviewed = e.Iteration
	case AgentFinished:
		p.Agent = e
		if e.Detail != nil {
			p.Words = e.Detail.Words
			p.Troubled = e.Detail.End != EndFinished
			if p.Asked++; e.Detail.Question == "" {
				p.Asked = 0
			}
		}
		if e.Detail != nil && e.Detail.Session != "" {
			before := Tokens{}
			if p.Session.ID == e.Detail.Session {
				before = p.Session.Spent
			}
			p.Session = Session{ID: e.Detail.Session, Spent: before.plus(e.Detail)}
		}
	case VerifyFinished:
		if e.Title == "" && e.Detail != nil { // else it is the command of a criterion
			p.Troubled, p.Failing = !e.Detail.Passed, !e.Detail.Passed
		}
	case IterationFinished:
		p.finish(e)
	}
}

// record notes what a gate said between iterations.
func (p *Prompt) record(e *Event) {
	p.Gate, p.Next, p.Kept = e.Gate, append(slices.Clone(p.Next), e.Next), append(slices.Clone(p.Kept), e.Next)
}

func (p *Prompt) finish(e *Event) {
	p.Open, p.Agent, p.Last = nil, nil, e
	if e.Commit != "" {
		p.Commits++
	}
	switch {
	case e.Commit != "" && (p.Owed == "" || p.Owed == p.Base): // else it was committed without what is owed
		p.Owed = ""
	case e.Commit == "" && p.Owed == "" && e.Tree != "" && e.Tree != p.Base:
		p.Owed = p.Base
	}
	p.Again = e.Decision == NoQuota || e.Decision == Retry
	if e.Decision == Retry {
		p.Failed++
	}
	if len(e.Gate) > 0 {
		p.Gate = e.Gate
	}
	switch {
	case e.Decision == NoQuota || e.Decision == CutShort:
		return // says nothing of the agent
	case e.Detail != nil && e.Detail.End == EndCrashed:
		p.Crashes++
	default:
		p.Crashes = 0
	}
	p.Next = []string{e.Next}
	if e.Decision != Retry {
		p.Kept = p.Next
	}
}
