package loop

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/internal/oneline"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/verify"
)

// judge asks the gate about an iteration, records its end, and says whether the run ends with it.
func (r *Repeat) judge(ctx context.Context, stop *stopper, t *turn) (*Outcome, error) {
	end := r.event(journal.IterationFinished, t)
	end.Reason, end.Tree, end.Commit, end.Ref = t.Result.Reason, string(t.after), t.commit, t.ref
	end.Detail = &journal.Detail{End: string(t.Result.End), Cause: string(t.Result.Cause), Backend: t.with.Backend, Model: t.with.Model, Code: t.Result.Code, Signal: t.Result.Signal, Changed: len(t.changed),
		Words: preview(t.Result.Final), Seconds: max(0, r.tools.Now().Sub(t.started).Seconds()), Log: r.relative(t.log), Left: t.left, Taken: t.taken}
	if v := t.check; v != nil {
		end.Detail.Passed = v.Passed
	}
	if denied := deniedBy(&r.job.Config, r.job.Root, t.log, r.tools.refused()); t.Result.End != agent.Finished || t.check != nil && !t.check.Passed {
		end.Detail.Denied = denied
	}
	for _, c := range t.changed[:min(len(t.changed), maxChanged)] {
		end.Paths = append(end.Paths, c.Path)
	}
	var err error
	if end.Detail.Until, err = r.pacer.after(t.with, t.Result, t.Result.Reason); err != nil {
		return nil, err
	}
	switch t.Result.End {
	case agent.Limited: // uses up no iteration
		end.Decision, end.Next = journal.NoQuota, t.Next
		return r.paced(end)
	case agent.Cancelled:
		end.Decision = journal.CutShort
		return stop.outcome(ctx), r.close(end)
	case agent.Refused:
		end.Decision = journal.Retry
		return r.paced(end)
	}
	if t.Result.End != agent.Finished || t.check != nil && !t.check.Passed {
		if why := roomFor(&r.job.Config, r.tools.Free, r.job.Root); why != "" { // nothing can be said of the agent
			end.Decision = journal.CutShort
			return &Outcome{Ending: journal.DiskFull, Message: why}, r.close(end)
		}
	}
	if note := r.tools.Withheld.missing(r.missing, t.Result, t.check); note != "" {
		if err := r.warn(note); err != nil {
			return nil, err
		}
	}
	question := r.question(t)
	if question == "" {
		if out, done, err := r.repeats(t, end); done || err != nil {
			return out, err
		}
	}
	d, err := r.decide(t, end)
	if err != nil {
		return nil, err
	}
	if d.Kind == gate.Continue && question != "" {
		end.Detail.Question, end.Message = question, verify.Asks+oneline.Text(question)
		return &Outcome{Ending: journal.GateAsks, Message: "the agent asks: " + oneline.Text(question), Question: question}, r.close(end)
	}
	if err := r.close(end); err != nil {
		return nil, err
	}
	if err := r.writeLoopFile(); err != nil {
		return nil, err
	}
	return r.consult(ctx, d)
}

// question is what the agent asks and waits for: one that ended well, claimed nothing and changed nothing. Asking it again
// is no use. Where nobody looks at what changes, it has to ask twice in a row.
func (r *Repeat) question(t *turn) string {
	res := t.Result
	if res.End != agent.Finished || res.Complete || len(t.changed) > 0 || t.after == "" && r.history.Prompt.Asked < 2 {
		return ""
	}
	return tail(res.Question, maxWords)
}

// maxChanged bounds the changed paths that the journal keeps of an iteration.
const maxChanged = 100

// close records an iteration's end and saves the state.
func (r *Repeat) close(end *journal.Event) error {
	if err := r.record(end); err != nil {
		return err
	}
	return r.save()
}

// decide lets the mode and the gate judge, and puts what they say into the iteration's end.
func (r *Repeat) decide(t *turn, end *journal.Event) (gate.Decision, error) {
	if f := r.job.Mode.Facts; f != nil {
		if err := f(&t.Round); err != nil {
			return gate.Decision{}, err
		}
	}
	d := r.ask(t)
	end.Decision, end.Lines, end.Message = journal.Decision(d.Kind), eachLine(d.Show), d.Reason
	var err error
	if end.Gate, err = r.gateState(); err != nil {
		return d, err
	}
	end.Next = joinText(d.Prompt, r.failureText(t))
	for _, w := range d.Warnings {
		if err := r.warn(w); err != nil {
			return d, err
		}
	}
	return d, nil
}

// ask is the gate's word, or, without a gate, that of the exit status.
func (r *Repeat) ask(t *turn) gate.Decision {
	switch {
	case r.job.Gate != nil:
		return r.job.Gate.Judge(t.Facts)
	case t.Facts.Err == "":
		return gate.Decision{Kind: gate.Done, Reason: "the command succeeded"}
	}
	return gate.Decision{Kind: gate.Continue, Reason: t.Facts.Err}
}

// outcome is what the gate's decision makes of the run; nil goes on.
func (r *Repeat) outcome(d gate.Decision) *Outcome {
	switch d.Kind {
	case gate.Done:
		switch {
		case r.job.Gate == nil:
			return &Outcome{Ending: journal.CommandSucceeded, Message: d.Reason}
		case r.job.Config.Promised():
			return &Outcome{Ending: journal.PromiseSeen, Message: d.Reason}
		}
		return &Outcome{Ending: journal.GateDone, Message: d.Reason}
	case gate.Blocked:
		return &Outcome{Ending: journal.GateBlocked, Message: d.Reason}
	case gate.Open, gate.Ask:
		return asks(d)
	case gate.Continue:
	}
	return nil
}

// asks is the end of a run that a person's answer can go on with.
func asks(d gate.Decision) *Outcome {
	out := &Outcome{Ending: journal.BreakerOpen, Message: d.Reason, Until: d.Until}
	switch orElse(d.Breaker, d.Gate) {
	case gate.BreakBudget:
		out.Ending = journal.CostReached
	case gate.BreakIterations:
		out.Ending = journal.LimitReached
	default:
		if d.Kind == gate.Ask {
			out.Ending, out.Message = journal.GateAsks, orElse(d.Question, d.Reason)
		}
	}
	return out
}

// repeats has an iteration done again under its number where it failed by a passing fault of the provider, or
// where the mode says that it failed. done says that the iteration is over with this.
func (r *Repeat) repeats(t *turn, end *journal.Event) (_ *Outcome, done bool, _ error) {
	f, most := r.fails(t), r.job.Mode.Retries
	if end.Detail.Transient() { // how often is the pacer's to say
		f.Reason, most = t.Result.Reason, math.MaxInt
	}
	if f.Reason == "" || r.history.Prompt.Failed >= most && f.Ending == "" {
		return nil, false, nil
	}
	over := r.history.Prompt.Failed >= most
	end.Decision, end.Reason, end.Next = journal.Retry, f.Reason, joinText(append(slices.Clone(r.history.Prompt.Kept), r.failureText(t), t.refusedText())...)
	out, err := r.paced(end)
	if out == nil && err == nil && over {
		out = &Outcome{Ending: f.Ending, Message: fmt.Sprintf("iteration %d failed %d times: %s", t.Iteration, most+1, f.Reason)}
	}
	return out, true, err
}

// fails is what the mode makes of an iteration, or of git's refusal to commit it.
func (r *Repeat) fails(t *turn) Failure {
	switch {
	case t.refused != "":
		return Failure{t.refused, journal.GitRefused}
	case r.job.Mode.Fails != nil:
		return r.job.Mode.Fails(t.Round)
	}
	return Failure{}
}

// refusedText tells the next try's agent why git did not take the work of the last one.
func (t *turn) refusedText() string {
	if t.refused == "" {
		return ""
	}
	return "Committing the last try of this iteration was refused. Mend what it says:\n\n" + tail(t.refused, maxWords) + "\n"
}

// paced records an iteration's end, and says whether its provider ends the run with it.
func (r *Repeat) paced(end *journal.Event) (*Outcome, error) {
	if err := r.close(end); err != nil {
		return nil, err
	}
	return r.pacer.over(r.job.Config.Choices(nil))
}

// failureText tells the next iteration's agent how the verification failed.
func (r *Repeat) failureText(t *turn) string {
	v := t.check
	if v == nil || v.Passed {
		return ""
	}
	fence := "```"
	for strings.Contains(v.Tail, fence) {
		fence += "`"
	}
	return fmt.Sprintf("After the last iteration `%s` did not pass (%s). The end of its output:\n\n%s\n%s\n%s\n",
		r.job.Config.VerificationCommand, v.Reason(), fence, strings.TrimRight(tail(v.Tail, maxWords), "\n"), fence)
}

// joinText joins parts of a prompt, a blank line between them.
func joinText(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimRight(p, "\n"); strings.TrimSpace(p) != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n")
}
