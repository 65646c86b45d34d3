package journal

import (
	"encoding/json"
	"slices"
	"time"
)

// Prompt is what a prompt loop's journal says about its iterations. Only State.Apply changes it.
type Prompt struct {
	Try     int       // of the last iteration
	Open    *Event    // iteration_started without its end
	Last    *Event    // the last iteration_finished
	Base    string    // the tree before the last iteration, and before those whose work is uncommitted
	Since   time.Time // when Base was taken
	Failing bool      // the last run of the verify command did not pass
	Owed    string    // the tree before the first iteration with uncommitted work, or ""
	Again   bool      // the last iteration will be repeated
	Failed  int       // how often it was repeated because it failed
	Crashes int       // iterations in a row that crashed
	Gate    json.RawMessage
	Next    []string // what is added to the next iteration's prompt, in parts
	Kept    []string // the parts of Next for every try of the iteration
	Session string   // the conversation that the next one may continue
	Spent   Tokens   // on it so far
	Asked   int      // iterations in a row that ended with a question
	Commits int
}

func (p *Prompt) start(e *Event) {
	if e.Attempt == 1 {
		p.Failed = 0
	}
	if p.Base = e.Tree; p.Owed == "" || p.Owed != e.Tree {
		p.Since = e.TS
	}
	p.Try, p.Open, p.Again = e.Attempt, e, false
}

func (p *Prompt) agentFinished(d *Detail) {
	if p.Asked++; d.Question == "" {
		p.Asked = 0
	}
	if d.Session == "" {
		return
	}
	if p.Session != d.Session {
		p.Session, p.Spent = d.Session, Tokens{}
	}
	p.Spent = Tokens{p.Spent.Input + d.InputTokens, p.Spent.CacheRead + d.CacheRead, p.Spent.CacheWrite + d.CacheWrite,
		p.Spent.Output + d.OutputTokens}
}

// Tokens are what runs of an agent were charged for.
type Tokens struct{ Input, CacheRead, CacheWrite, Output int64 }

// record records what a gate said between iterations.
func (p *Prompt) record(e *Event) {
	p.Gate, p.Next, p.Kept = e.Gate, append(slices.Clone(p.Next), e.Next), append(slices.Clone(p.Kept), e.Next)
}

func (p *Prompt) finish(e *Event) {
	p.Open, p.Last = nil, e
	if e.Commit != "" {
		p.Commits++
	}
	switch {
	case e.Commit != "":
		p.Owed = e.Base
	case e.Commit == "" && p.Owed == "" && e.Tree != "" && e.Tree != p.Base:
		p.Owed = p.Base
	}
	p.Again = e.Verdict == Limited || e.Verdict == Retry || e.Reason == Killed || e.Reason == NotCommitted
	if e.Verdict == Retry {
		p.Failed++
	}
	if len(e.Gate) > 0 {
		p.Gate = e.Gate
	}
	switch {
	case e.Verdict == Limited || e.Verdict == Cancelled:
		return // says nothing about the agent
	case e.Detail != nil && e.Detail.End == EndCrashed:
		p.Crashes++
	default:
		p.Crashes = 0
	}
	p.Next = []string{e.Next}
	if e.Verdict != Retry {
		p.Kept = p.Next
	}
}
