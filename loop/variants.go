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
	var requests []SpecRequest
	for i := range events {
		e := &events[i]
		if e.Type == journal.AttemptStarted && e.Task == task {
			r := request(b, task)
			r.Of, r.Before = e.Of, e.TS
			requests = append(requests, r)
		}
		b.Apply(e)
	}
	var out []Variant
	for _, a := range b.Attempts {
		if a.Task == task && len(out) < len(requests) {
			v := variantOf(id, a)
			v.request = requests[len(out)]
			out = append(out, v)
		}
	}
	return out, nil
}

func variantOf(loop string, a *journal.Attempt) Variant {
	v := Variant{Loop: loop, Attempt: a.Number, Before: gitops.Tree(a.Before), Refinement: a.Refinement, Tuned: a.Tuned, Cost: a.Cost}
	if a.Iteration > 0 {
		if v.Attempt = a.Iteration; a.Number > 1 {
			v.Try = a.Number
		}
	}
	if a.Agent != nil {
		v.Words = a.Agent.Words
	}
	if !a.Over() {
		return v
	}
	v.Verdict, v.Reason, v.At, v.Seconds, v.Ref = orElse(string(a.Verdict), string(a.Decision)), a.Reason, a.Ended, a.Seconds(), a.Ref
	v.After, v.DiffStat, v.Output = gitops.Tree(a.After), a.DiffStat, a.Next
	if a.Iteration == 0 && a.Result != nil {
		v.Output = a.Result.Output
	}
	return v
}

// Iterations are those of a prompt loop, each time that one was run.
func (h Home) Iterations(id string) ([]Variant, error) {
	b, err := journal.Load(h.Events(id))
	if err != nil {
		return nil, err
	}
	var out []Variant
	for _, a := range b.Attempts {
		out = append(out, variantOf(id, a))
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
