package run

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"descartes/agent"
	"descartes/config"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/scheduler/prompt"
	"descartes/verify"
)

// ask asks a person what is open. A yes that was given with the start answers what is asked before the first
// iteration.
func (r *Run) ask(what prompt.Question) error {
	if err := r.happened(prompt.AskStarted{}); err != nil {
		return err
	}
	question, yes := r.question(what), r.job.Yes && r.options.Resume == "" && r.at == nil
	ctx, ask := r.asks.Ending, r.tools.Ask
	r.start(func() func() error {
		a := prompt.Nobody
		switch {
		case yes:
			a = prompt.Yes
		case ask != nil && question != "" && what != prompt.OfAgent:
			if said, answered := ask(ctx, question); answered && said {
				a = prompt.Yes
			} else if answered {
				a = prompt.No
			}
		}
		return func() error {
			if err := r.happened(prompt.Answered{Answer: a}); err != nil {
				return err
			}
			if err := r.raise(); err != nil {
				return err
			}
			if err := r.book.Write(r.writeLoopFile()...); err != nil {
				return err
			}
			return r.book.Save()
		}
	})
	return nil
}

// question is what a person is asked.
func (r *Run) question(what prompt.Question) string {
	if what == prompt.OfAgent {
		return r.ends.question
	}
	return cmp.Or(r.voice.last.Question, r.voice.last.Reason)
}

// raise takes over limits that a person's yes has raised.
func (r *Run) raise() error {
	c, ok := loop.Deciding(r.job.Gate).(*gate.Criteria)
	if !ok {
		return nil
	}
	for _, cfg := range []*config.Config{&r.job.Config, &r.book.State.Config} {
		cfg.MaxIterations = max(cfg.MaxIterations, c.Caps.Iterations)
		if cfg.MaxCostUSD > 0 {
			cfg.MaxCostUSD = max(cfg.MaxCostUSD, c.Caps.BudgetUSD)
		}
	}
	if l := limitsOf(&r.job.Config); l != r.machine.Limits {
		return r.happened(prompt.LimitsChanged{Limits: l})
	}
	return nil
}

// precheck asks the command, or the agent, that must agree before work that is hard to undo.
func (r *Run) precheck(account string) error {
	if err := r.happened(prompt.PrecheckStarted{Account: account}); err != nil {
		return err
	}
	c, p, ctx := &r.job.Config, r.place, r.asks.Now
	in := input(c, p, r.home, prompt.Try{}, r.choice(account))
	in.Name, in.Log = "iteration 0 0", r.home.NamedLog(r.ID(), "precheck")
	in.Prompt = loop.PrecheckPrompt(c.Prompt)
	r.start(func() func() error {
		o, words, note, res, err := precheck(ctx, p, c, in, r.tell)
		return func() error {
			if err := r.broke(err); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			var lines []*journal.Event
			if res != nil {
				lines = append(lines, loop.AgentEnd(&journal.Event{}, *res, r.choice(account), loop.MaxFinal))
			}
			if note != "" {
				lines = append(lines, book.Warning(journal.Unit{}, note))
			}
			r.voice.words = words
			return r.happened(prompt.Prechecked{Opinion: o}, lines...)
		}
	})
	return nil
}

// precheck runs it on what there is.
func precheck(ctx context.Context, p *place, c *config.Config, in attempt.Input,
	tell func(*attempt.Step) error) (o prompt.Opinion, words, note string, res *agent.Result, err error) {
	p.holds = prompt.Try{}
	start := slot.Start{Aside: strings.TrimSuffix(in.Log, ".log")}
	if _, err := p.ws.Prepare(context.WithoutCancel(ctx), start); err != nil {
		return o, "", "", nil, err
	}
	if c.Precheck != loop.PrecheckAgent {
		ran, err := p.runner.Verify.Run(ctx, loop.Timed(c, verify.Request{Label: "precheck", Command: c.Precheck,
			Dir: p.ws.Dir(), Env: in.Env, Log: in.Log, Redact: p.runner.Redact}))
		switch {
		case err != nil:
			return o, "", "", nil, fmt.Errorf("run the pre-check: %w", err)
		case ran.Cancelled:
			o.Verdict = prompt.Cancelled
		case ran.Passed:
			o.Verdict = prompt.Passed
		default:
			o.Verdict = prompt.Failed
		}
		return o, cmp.Or(endOf(ran.Tail), ran.Reason()), "", nil, nil
	}
	got, err := p.runner.Consult(ctx, p.ws, in, "pre-check", tell)
	if err != nil {
		return o, "", "", nil, err
	}
	left, err := p.ws.Look(context.WithoutCancel(ctx))
	if err != nil {
		return o, "", "", nil, err
	}
	if len(left.Changed) > 0 { // the changes stay for a person to see
		note = fmt.Sprintf("the pre-check changed files that it must not change, %d in all: %s", len(left.Changed),
			slot.Paths(left.Changed))
	}
	if o.Verdict = verdictOf(&got); o.Verdict == prompt.Passed && !gate.Promised(got.Final, "AGREED") {
		o.Verdict = prompt.Failed
	}
	if o.Until = got.Until; got.Cost != nil && got.Cost.USD != nil {
		o.USD = *got.Cost.USD
	}
	return o, cmp.Or(endOf(got.Final), cmp.Or(got.Reason, "it says nothing")), note, &got, nil
}

// endOf is the end of what was printed.
func endOf(text string) string { return strings.TrimSpace(loop.Tail(text, 500)) }
