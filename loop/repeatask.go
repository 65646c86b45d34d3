package loop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/verify"
)

// asker is a gate that has something to say before the first iteration, and that a person can answer.
type asker interface {
	Begin(now time.Time) gate.Decision
	Answer(yes bool) gate.Decision
}

// PrecheckAgent is the pre-check that is made by the loop's own agent.
const PrecheckAgent = "agent"

// beginGate asks the gate whether an iteration may start: before the first one, and when the loop is taken up
// again. What the gate waited for when the loop stopped it still waits for.
//
// A circuit breaker that has opened ends the loop, which says when it will be half-open: nothing waits for
// that without a person. A loop that is resumed after the cooldown goes on half-open, with one iteration that
// has to make progress; before it only by a person's yes. A breaker belongs to its loop: a new one begins with
// a closed one.
func (r *Repeat) beginGate(ctx context.Context, stop *stopper) (*Outcome, error) {
	a, ok := deciding(r.job.Gate).(asker)
	if !ok {
		return nil, nil
	}
	before, err := r.gateState()
	if err != nil {
		return nil, err
	}
	d := a.Begin(r.tools.Now())
	if c := r.criteria(); c != nil && d.Gate == "precheck" && r.job.Config.Precheck != "" && !(r.resumed && r.job.Yes) {
		actx, done := stop.watch(ctx)
		check, err := r.precheck(actx)
		done()
		if err != nil {
			return nil, err
		}
		if out := stop.asked(ctx); out != nil {
			return out, nil // one that was stopped says nothing: it is made again
		}
		d = c.Precheck(check)
	}
	after, err := r.gateState()
	if err != nil {
		return nil, err
	}
	if d.Kind != gate.Continue || len(d.Show) > 0 || string(before) != string(after) {
		if err := r.tell(d); err != nil {
			return nil, err
		}
	}
	out, err := r.consult(ctx, d)
	r.job.Yes = false
	return out, err
}

// consult asks a person, where there is one, what the gate wants to know. Without an answer the run ends, and
// waits for one.
func (r *Repeat) consult(ctx context.Context, d gate.Decision) (*Outcome, error) {
	for {
		out := r.outcome(d)
		a, ok := deciding(r.job.Gate).(asker)
		if out == nil || !ok || d.Question == "" {
			return out, nil
		}
		yes, answered := r.reply(ctx, d.Question)
		if asked, _ := r.home.Asked(r.state.ID); !answered && asked != "" {
			return requested(asked), nil
		}
		if !answered {
			return out, nil
		}
		said := d.Show
		d = a.Answer(yes)
		d.Show = slices.DeleteFunc(slices.Clone(d.Show), func(line string) bool { return slices.Contains(said, line) })
		r.raised()
		if err := r.tell(d); err != nil {
			return nil, err
		}
	}
}

// reply is a person's answer: the one that was given with the command, else what a terminal says.
func (r *Repeat) reply(ctx context.Context, question string) (yes, answered bool) {
	if r.job.Yes {
		r.job.Yes = !r.resumed // a yes before the start is one to all that is asked there
		return true, true
	}
	if r.tools.Ask == nil || ctx.Err() != nil {
		return false, false
	}
	// Another terminal may ask the loop to stop meanwhile.
	stop := &stopper{ask: func() (Request, bool) { asked, _ := r.home.Asked(r.state.ID); return asked, asked != "" }}
	ctx, done := stop.watch(ctx)
	defer done()
	return r.tools.Ask(ctx, question)
}

// tell records what the gate says between iterations, and what it knows then.
func (r *Repeat) tell(d gate.Decision) error {
	e := &journal.Event{Type: journal.GateSpoke, Iteration: r.history.Iteration, Decision: journal.Decision(d.Kind), Reason: orElse(d.Gate, d.Breaker), Message: d.Reason, Next: d.Prompt, Lines: eachLine(d.Show)}
	if d.Kind == gate.Ask && d.Question != "" {
		e.Message = d.Question
	}
	var err error
	if e.Gate, err = r.gateState(); err != nil {
		return err
	}
	if err := r.record(e); err != nil {
		return err
	}
	for _, w := range d.Warnings {
		if err := r.warn(w); err != nil {
			return err
		}
	}
	if err := r.writeLoopFile(); err != nil {
		return err
	}
	return r.save()
}

// eachLine makes one text of each line.
func eachLine(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, strings.Split(strings.TrimRight(t, "\n"), "\n")...)
	}
	return out
}

// precheck asks the command, or the agent, that must agree before work that is hard to take back.
func (r *Repeat) precheck(ctx context.Context) (gate.Check, error) {
	c := r.job.Config
	t := &turn{with: c.Choices(nil)[0], started: r.tools.Now()}
	t.log = filepath.Join(r.home.Run(r.state.ID), "logs", "precheck.log")
	check := gate.Check{Name: "precheck"}
	if c.Precheck != PrecheckAgent {
		res, err := r.tools.Verify.Run(ctx, Timed(&c, verify.Request{Label: "precheck", Command: c.Precheck, Dir: r.job.Dir, Env: r.environment(t),
			Log: t.log, Mask: r.tools.Mask}))
		if err != nil {
			return check, fmt.Errorf("run the pre-check: %w", err)
		}
		check.Passed, check.Output = res.Passed, orElse(endOf(res.Tail), res.Reason())
		return check, nil
	}
	q := r.request(t, precheckPrompt(c.Prompt))
	q.Label, q.Session = "precheck", ""
	if err := r.lookBefore(context.WithoutCancel(ctx), t); err != nil {
		return check, err
	}
	res, err := r.tools.Agent.Run(ctx, q)
	if err != nil {
		return check, fmt.Errorf("run the agent's pre-check: %w", err)
	}
	if err := errors.Join(r.gatherErrors(t.log), r.mend(t.log, "pre-check"), r.repair(ctx, t, "pre-check"), r.untouched(context.WithoutCancel(ctx), t)); err != nil {
		return check, err
	}
	e := &journal.Event{Type: journal.AgentFinished, Reason: res.Reason, Detail: agentDetail(res, t.with, maxFinal)}
	if err := r.record(e); err != nil {
		return check, err
	}
	check.Passed = res.End == agent.Finished && gate.Promised(res.Final, "AGREED")
	check.Output = orElse(endOf(res.Final), orElse(res.Reason, "it says nothing"))
	return check, nil
}

// untouched warns of what a pre-check changed, which it was told not to do. It is left for a person to see.
func (r *Repeat) untouched(ctx context.Context, t *turn) error {
	if t.before == "" {
		return nil
	}
	var after gitops.Tree
	holder, err := r.inTree(ctx, func() (err error) {
		after, err = r.tools.Repo.Snapshot(ctx)
		return err
	})
	if err != nil {
		return gitErr("snapshot the working tree", err)
	}
	if holder != "" || after == t.before {
		return nil
	}
	changed, err := r.tools.Repo.Changed(ctx, t.before, after)
	if err != nil {
		return gitErr("compare the working tree", err)
	}
	var paths []string
	for _, c := range changed[:min(len(changed), 5)] {
		paths = append(paths, c.Path)
	}
	return r.warn(fmt.Sprintf("the pre-check changed what it was to leave alone, %d in all: %s", len(changed), strings.Join(paths, ", ")))
}

// endOf is the end of what was printed.
func endOf(text string) string { return strings.TrimSpace(tail(text, 500)) }

func precheckPrompt(spec string) string {
	return `# Adversarial pre-check

The work below is hard to take back. Change nothing. Look for what speaks against doing it: data that would be lost, users that would break, a way back that is missing, a step that nobody has thought of, a smaller change that would do.

If nothing speaks against it, end your message with this line:

<promise>AGREED</promise>

Otherwise say in a few lines what has to be cleared up first.

## The work

` + spec + "\n"
}
