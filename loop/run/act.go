package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
	"descartes/specbuild"
)

// What the deciding goroutine does around each action: the values that go in, the event that comes out.

// begin begins what the machine wants begun.
func (r *Run) begin(a prompt.Action) error {
	if a.Account != "" {
		if met, err := r.metElsewhere(); met || err != nil {
			return err
		}
	}
	switch a.Do {
	case prompt.Iterate:
		return r.iterate(a)
	case prompt.Baseline:
		return r.baseline()
	case prompt.Check:
		return r.check()
	case prompt.Review:
		return r.review(a.Account)
	case prompt.Last:
		return r.last()
	case prompt.Deliver:
		return r.deliver()
	case prompt.Ask:
		return r.ask(a.What)
	case prompt.Precheck:
		return r.precheck(a.Account)
	}
	return fmt.Errorf("nothing does %q", a.Do)
}

// iterate prepares the place for a try, and starts its agent once that is done and the machine still wants it.
func (r *Run) iterate(a prompt.Action) error {
	if t := r.next; t != nil && t.Try == a.Try && t.from == a.From && t.plans == a.Plans {
		r.next = nil
		return r.started(t, a.Account)
	}
	if why := r.noRoom(); why != "" {
		r.ends.full, r.ends.message = true, why
		return r.happened(prompt.Broken{Why: prompt.OwnError})
	}
	t := r.newTry(a.Try, a.From, a.Plans)
	w, err := r.words()
	if err != nil {
		return err
	}
	t.since = r.since(a.From)
	if a.Plans {
		r.ends.made = r.ends.plans
	}
	ctx, p, job, shown := r.asks.now, r.place, r.job, r.tools.Shown
	r.start(func() func() error {
		lacks, err := prepare(ctx, p, job, t, w, shown)
		return func() error {
			if err := errors.Join(r.notes(), r.broke(err)); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			if lacks != nil {
				return r.lacks(lacks)
			}
			r.next = t
			return nil
		}
	})
	return nil
}

// newTry is a try before anything of it is known.
func (r *Run) newTry(number, from prompt.Try, plans bool) *try {
	t := &try{Try: number, from: from, plans: plans, it: &loop.Iteration{Number: number.Number, Try: number.Try,
		Max: r.job.Config.MaxIterations}}
	t.in = input(&r.job.Config, r.place, r.home, number, config.Choice{})
	if list := r.book.history.Attempts; len(list) > 0 && list[0].Begin != nil {
		t.hooks = list[0].Begin.Commit
	}
	return t
}

// since is when the first try began whose work is in no commit; zero if there is none.
func (r *Run) since(from prompt.Try) (first time.Time) {
	if from == (prompt.Try{}) {
		return first
	}
	for _, a := range slices.Backward(r.book.history.Attempts) {
		if a.Commit != "" {
			break
		}
		first = a.Started
	}
	return first
}

// words gathers what the next agent is told.
func (r *Run) words() (w words, err error) {
	b := &r.book.history.Prompt
	w = words{next: loop.JoinText(b.Next...), failing: b.Failing, first: r.first()}
	if b.Last != nil && b.Last.Detail != nil {
		w.denied = b.Last.Detail.Denied
	}
	if w.hand, err = r.hand(); err != nil {
		return w, err
	}
	answers, err := r.home.Answers(store.LoopKey(r.ID()))
	for _, a := range answers {
		w.answers = append(w.answers, specbuild.Answer{Question: a.Question, Text: a.Text})
	}
	return w, err
}

// lacks takes what an iteration would have needed.
func (r *Run) lacks(out *loop.Outcome) error {
	r.ends.lacks = out
	switch out.Ending {
	case journal.PlanMissing:
		return r.happened(prompt.Unprepared{Why: prompt.NoPlan})
	case journal.GateDone:
		return r.happened(prompt.Unprepared{Why: prompt.Nothing})
	}
	return r.happened(prompt.Broken{Why: prompt.OwnError})
}

// choice is what an account runs with.
func (r *Run) choice(account string) config.Choice {
	for _, c := range r.job.Config.Choices(nil) {
		if c.Backend == account {
			return c
		}
	}
	return config.Choice{Backend: account}
}

// started writes down that a try begins, and starts its agent.
func (r *Run) started(t *try, account string) error {
	c, with := &r.job.Config, r.choice(account)
	t.in.Backend, t.in.Model, t.began = with.Backend, with.Model, r.tools.Now()
	if t.since.IsZero() {
		t.since = t.began
	}
	r.judgedBy(t)
	if t.in.Keep = c.ContinueSession; t.in.Keep && with.Backend == c.Backend.Type {
		if b := &r.book.history.Prompt; b.Session != "" { // another backend does not know that conversation
			spent := agent.Tokens(b.Spent)
			t.in.Session, t.in.Spent = b.Session, &spent
		}
	}
	if err := r.takesOver(account); err != nil {
		return err
	}
	lines := []*journal.Event{}
	if n, most := specbuild.Tokens(t.in.Prompt), c.Scud.Spec.MaxSpecTokens; most > 0 && n > most && !r.told.large {
		r.told.large = true
		lines = append(lines, warning(r.unit(), fmt.Sprintf("the prompt has about %d tokens, over --max-spec-tokens %d",
			n, most)))
	}
	line := &journal.Event{Type: journal.IterationStarted, Unit: t.unit(), Tree: string(t.base),
		Lines: r.job.Rules.Announce(t.it), Branch: t.stand.Head.Branch,
		Commit: t.stand.Head.Hash, Detail: &journal.Detail{SpecTokens: specbuild.Tokens(t.in.Prompt),
			Client: journal.Client{Log: r.book.relative(t.in.Log), Backend: with.Backend, Model: with.Model}}}
	line.Title, line.Slot = r.job.Rules.About(), r.place.number()
	if t.before != t.base {
		line.Base = string(t.before)
	}
	if g, ok := loop.Deciding(r.job.Gate).(*gate.Criteria); ok {
		line.Lines = append(line.Lines, g.Before(t.Number, t.it.Max, r.costSoFar()))
		lines = append(lines, r.writeLoopFile()...)
	}
	r.at = t
	if err := r.happened(prompt.Started{Try: t.Try, Account: account}, append(lines, line)...); err != nil {
		return err
	}
	if err := r.book.save(); err != nil { // its number is on disk before its agent starts
		return err
	}
	crash.Point("iteration-saved")
	ctx, p, job, usd, mask := r.asks.now, r.place, r.job, r.book.history.Cost.USD, r.tools.Redact.Bytes
	r.start(func() func() error {
		err := made(ctx, p, job, t, usd, mask, r.tell)
		return func() error {
			if err := r.broke(err); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			return r.agentEnded(t)
		}
	})
	return nil
}

// judgedBy sets what a try's work is judged by.
func (r *Run) judgedBy(t *try) {
	t.in.Checks = checks(r.job, t.it, r.book.history, r.tools.Redact.Text)
	// what earlier iterations did to the checks counts, committed or not
	t.in.Base = cmp.Or(r.first(), t.base)
}

// costSoFar is the loop's cost so far; nil if unknown.
func (r *Run) costSoFar() *float64 {
	if r.book.history.Cost.Runs == 0 {
		return new(float64)
	}
	return r.book.history.Cost.USD
}

// agentEnded takes what a try's agent left.
func (r *Run) agentEnded(t *try) error {
	with := config.Choice{Backend: t.in.Backend, Model: t.in.Model}
	left := machineLeft(r.job, t)
	asked := r.book.history.Prompt.Asked
	if t.res.Agent.Question != "" {
		asked++
	}
	t.question = asksPerson(t, asked)
	left.Said.Question = t.question != ""
	until, err := r.rests(with, &t.res.Agent)
	if err != nil {
		return err
	}
	if until != nil {
		left.Until = *until
	}
	if why := r.noRoom(); why != "" && left.Verdict != prompt.Passed { // a full disk says nothing about the agent
		r.ends.full, r.ends.message, left.Verdict = true, why, prompt.Cancelled
	}
	r.voice.facts, r.voice.unfit = t.it.Facts, t.it.Unfit
	r.ends.failure = r.job.Rules.Fails(t.it)
	line := agentLine(t, with)
	line.Ref = t.kept.ref
	lines := loop.WithNotes(line)
	if left.Undid {
		lines = append([]*journal.Event{r.undid(t)}, lines...)
	}
	if err := r.happened(prompt.AgentEnded{Left: left}, lines...); err != nil {
		return err
	}
	if r.ends.full {
		return r.happened(prompt.Broken{Why: prompt.OwnError})
	}
	return r.settled()
}

// undid says that a try's work is not taken.
func (r *Run) undid(t *try) *journal.Event {
	return warning(t.unit(), fmt.Sprintf("iteration %d is not taken: %s; it is kept as %s", t.Number,
		t.res.Work.TookBack, r.place.iterationRef(t.Number)))
}

// check has the work at hand checked.
func (r *Run) check() error {
	if err := r.happened(prompt.CheckStarted{}); err != nil {
		return err
	}
	t, ctx, p, with := r.at, r.asks.now, r.place, r.aids()
	r.judgedBy(t)
	r.start(func() func() error {
		c, err := check(ctx, p, t, with)
		return func() error {
			if err := errors.Join(r.notes(), r.broke(err)); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			return r.checked(t, &c)
		}
	})
	return nil
}

// lastTry is how many tries failed before the last one: only then does a build that fails plan again.
const lastTry = 3

// checked takes what a check came to.
func (r *Run) checked(t *try, c *checked) error {
	if err := r.book.write(r.warnings(t, c.notes)...); err != nil {
		return err
	}
	r.voice.facts, r.voice.unfit = t.it.Facts, t.it.Unfit
	r.ends.failure, r.ends.clash = c.Failure, c.clash
	t.question, r.ends.asker = asksPerson(t, r.book.history.Prompt.Asked), ""
	if o := t.res.Objection; o != nil {
		r.ends.asker = o.By
	}
	e := prompt.CheckEnded{Verdict: c.verdict}
	if c.verdict == prompt.Passed || c.verdict == prompt.Failed {
		e.Found = found(t, c)
		if pl, ok := r.job.Rules.(planner); ok && (c.verdict == prompt.Passed || r.machine.Rows.Tries >= lastTry) {
			e.Found.Replan, r.ends.plans = pl.Again(t.it)
		}
	}
	line := &journal.Event{Type: journal.Step, Unit: t.unit(), Tree: string(t.res.Work.After), Ref: t.kept.ref,
		Commit: t.tip}
	if err := r.happened(e, line); err != nil {
		return err
	}
	return r.settled()
}

// deliver brings the work at hand where it belongs.
func (r *Run) deliver() error {
	if err := r.happened(prompt.DeliverStarted{}); err != nil {
		return err
	}
	t, ctx, p, job, redact := r.at, r.asks.now, r.place, r.job, r.tools.Redact
	hooks, over := r.asks.committing(r.job.Config.Deadline)
	r.start(func() func() error {
		d, err := deliver(ctx, hooks, p, job, t, redact.Text)
		over()
		return func() error {
			if err := r.broke(err); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			return r.delivered(t, &d)
		}
	})
	return nil
}

// delivered takes what a delivery came to.
func (r *Run) delivered(t *try, d *delivered) error {
	lines := r.warnings(t, d.notes)
	e := prompt.Delivered{Verdict: d.verdict}
	switch {
	case d.why != nil:
		r.ends.refused = d.why
		r.ends.failure = loop.Failure{Reason: d.why.Error(), Ending: journal.GitRefused}
		e.Error = signature(d.why.Error())
	case d.apart != "":
		r.ends.apart = d.apart
	case d.verdict == prompt.Passed && t.kept.landed != "":
		lines = append(lines, &journal.Event{Type: journal.Integrated, Unit: t.unit(), Tree: string(t.res.Work.After),
			Commit: t.kept.landed})
	}
	if err := r.happened(e, lines...); err != nil {
		return err
	}
	return r.settled()
}

// settled saves what people see once a try has ended, and keeps its prompt.
func (r *Run) settled() error {
	if r.machine.Stage != prompt.Idle || r.at == nil {
		return nil
	}
	putAside(r.place.runner.PromptFile(), r.home.KeptPrompt(r.ID(), r.at.Number, r.at.Try.Try))
	if err := r.book.write(r.writeLoopFile()...); err != nil {
		return err
	}
	return r.book.save()
}

// broke takes an error that left an action without a result. What git refused, and what a request to stop cut short, is
// no error of ours.
func (r *Run) broke(err error) error {
	if err == nil {
		return nil
	}
	r.ends.err = err
	why := prompt.OwnError
	switch asked := r.machine.Halt.Request; {
	case asked != "" && (errors.Is(err, context.Canceled) || isStopped(err)):
		why = map[prompt.Request]prompt.Why{prompt.Terminate: prompt.Terminated, prompt.Pause: prompt.Paused,
			prompt.PauseNow: prompt.Paused}[asked]
		if why == "" {
			why = prompt.Stopped
		}
	case isGit(err) && !loop.DiskFull(err):
		why = prompt.GitRefuses
	}
	if _, edited := errors.AsType[*gitops.EditedError](err); edited {
		why = prompt.Paused
	}
	return r.happened(prompt.Broken{Why: why})
}

// isStopped reports whether git was ended before it was done.
func isStopped(err error) bool {
	_, stopped := errors.AsType[*gitops.StoppedError](err)
	return stopped
}

// notes are what the pool has to say of the slots that it made.
func (r *Run) notes() error {
	if r.place.pool == nil {
		return nil
	}
	for _, note := range r.place.pool.Notes() {
		if err := r.book.write(&journal.Event{Type: journal.Warning, Message: note}); err != nil {
			return err
		}
	}
	return nil
}

// warnings are lines that people should read of a try.
func (r *Run) warnings(t *try, texts []string) (lines []*journal.Event) {
	for _, text := range texts {
		lines = append(lines, warning(t.unit(), text))
	}
	return lines
}
