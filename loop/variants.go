package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
)

// Variant is one attempt of a task, with all that is needed to judge its spec.
type Variant struct {
	Loop       string
	Attempt    int    // of a prompt loop its iteration
	Try        int    // of an iteration that was repeated; else 0
	Verdict    string // "" while it runs
	Reason     string
	At         time.Time // of its end
	Seconds    float64
	Tuned      bool   // a person chose its text
	Refinement string // what a second agent advised before it
	Words      string // the agent's last words
	Output     string // the end of what the verification printed
	DiffStat   string
	Before     gitops.Tree
	After      gitops.Tree
	Ref        string
	Cost       journal.Cost
	request    SpecRequest
}

// Variants are the attempts of a task in one loop, in their order.
func (h Home) Variants(id, task string) ([]Variant, error) {
	events, err := journal.ReadEvents(h.Events(id))
	if err != nil {
		return nil, err
	}
	b := journal.NewState()
	var out []Variant
	refinement := ""
	for i := range events {
		e := &events[i]
		if e.Task == task {
			switch e.Type {
			case journal.SpecRefined:
				refinement = e.Message
			case journal.AttemptStarted:
				v := Variant{Loop: id, Attempt: e.Attempt, Before: gitops.Tree(e.Tree), request: request(b, task), Refinement: refinement}
				v.request.Of, v.request.Before, refinement = e.Of, e.TS, ""
				v.Tuned = e.Detail != nil && e.Detail.Tuned
				out = append(out, v)
			case journal.AgentFinished, journal.AttemptFinished:
				if n := len(out); n > 0 && out[n-1].Attempt == e.Attempt {
					out[n-1].take(e)
				}
			}
		}
		b.Apply(e)
	}
	return out, nil
}

func (v *Variant) take(e *journal.Event) {
	d := e.Detail
	if d == nil {
		d = &journal.Detail{}
	}
	if e.Type == journal.AgentFinished {
		v.Words = d.Words
		v.Cost.Add(d)
		return
	}
	v.Verdict, v.Reason, v.At, v.Seconds, v.Ref = orElse(string(e.Verdict), string(e.Decision)), e.Reason, e.TS, d.Seconds, e.Ref
	v.Output, v.After = d.Output, gitops.Tree(e.Tree)
	if e.Type == journal.IterationFinished {
		v.Reason, v.Output = orElse(e.Reason, e.Message), e.Next
		return
	}
	if e.Verdict != journal.Verified {
		v.DiffStat = e.Message
	}
}

// Iterations are those of a prompt loop, each time that one was run.
func (h Home) Iterations(id string) ([]Variant, error) {
	events, err := journal.ReadEvents(h.Events(id))
	if err != nil {
		return nil, err
	}
	var out []Variant
	refinement := ""
	for i := range events {
		e := &events[i]
		switch e.Type {
		case journal.SpecRefined:
			refinement = e.Message
		case journal.IterationStarted:
			v := Variant{Loop: id, Attempt: e.Iteration, Before: gitops.Tree(e.Tree), Refinement: refinement}
			if e.Attempt > 1 {
				v.Try = e.Attempt
			}
			v.Tuned, refinement = e.Detail != nil && e.Detail.Tuned, ""
			out = append(out, v)
		case journal.AgentFinished, journal.IterationFinished:
			if n := len(out); n > 0 && out[n-1].Attempt == e.Iteration {
				out[n-1].take(e)
			}
		}
	}
	return out, nil
}

// IterationPrompt is the text that an iteration was given; ok is false where it was not kept.
func (h Home) IterationPrompt(v Variant) (text string, ok bool) {
	b, err := plainfile.Read("", h.keptPrompt(v.Loop, v.Attempt, max(1, v.Try)), maxKept)
	return string(b), err == nil
}

// VariantSpec is the text that an attempt was given: as it was kept, or else as its loop's journal and
// the files of now make it again; kept tells which.
func (h Home) VariantSpec(j *Job, v Variant) (text string, kept bool, err error) {
	b, err := plainfile.Read("", h.keptSpec(v.Loop, v.request.Task, v.Attempt), maxKept)
	if err == nil {
		return string(b), true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read the spec of attempt %d: %w", v.Attempt, err)
	}
	spec, err := j.Spec(v.request)
	return spec.Text, false, err
}
