package journal

import (
	"encoding/json"
	"slices"
)

// Prompt is what a prompt loop's journal says about its iterations. Only State.Apply changes it.
type Prompt struct {
	Open    *Event // iteration_started without its end
	Last    *Event // the last iteration_finished
	Failing bool   // the last run of the verify command did not pass
	Gate    json.RawMessage
	Next    []string // what is added to the next iteration's prompt, in parts
	Kept    []string // the parts of Next for every try of the iteration
	Session string   // the conversation that the next one may continue
	Spent   Tokens   // on it so far
	Asked   int      // iterations in a row that ended with a question
	Commits int
}

func (p *Prompt) start(e *Event) { p.Open = e }

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
	if len(e.Gate) > 0 {
		p.Gate = e.Gate
	}
	if e.Verdict == Limited || e.Verdict == Cancelled { // says nothing about the agent
		return
	}
	p.Next = []string{e.Next}
	if e.Verdict != Retry {
		p.Kept = p.Next
	}
}
