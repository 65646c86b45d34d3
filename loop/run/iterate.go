package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"descartes/agent"
	"descartes/agent/render"
	"descartes/config"
	"descartes/internal/crash"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

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
	ctx, p, job, shown := r.asks.Now, r.place, r.job, r.tools.Shown
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
		if b := &r.book.History.Prompt; b.Session != "" { // another backend does not know that conversation
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
		lines = append(lines, book.Warning(r.unit(), fmt.Sprintf("the prompt has about %d tokens, over --max-spec-tokens %d",
			n, most)))
	}
	line := &journal.Event{Type: journal.IterationStarted, Unit: t.unit(), Tree: string(t.base),
		Lines: r.job.Rules.Announce(t.it), Branch: t.stand.Head.Branch,
		Commit: t.stand.Head.Hash, Detail: &journal.Detail{SpecTokens: specbuild.Tokens(t.in.Prompt),
			Client: journal.Client{Log: r.book.Relative(t.in.Log), Backend: with.Backend, Model: with.Model}}}
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
	if err := r.book.Save(); err != nil { // its number is on disk before its agent starts
		return err
	}
	crash.Point("iteration-saved")
	ctx, p, aid := r.asks.Now, r.place, r.aids()
	r.start(func() func() error {
		err := made(ctx, p, t, aid)
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
	t.in.Checks = checks(r.job, t.it, r.book.History, r.tools.Redact.Text)
	// what earlier iterations did to the checks counts, committed or not
	t.in.Base = cmp.Or(r.first(), t.base)
}

// costSoFar is the loop's cost so far; nil if unknown.
func (r *Run) costSoFar() *float64 {
	if r.book.History.Cost.Runs == 0 {
		return new(float64)
	}
	return r.book.History.Cost.USD
}

// agentEnded takes what a try's agent left.
func (r *Run) agentEnded(t *try) error {
	with := config.Choice{Backend: t.in.Backend, Model: t.in.Model}
	left := machineLeft(r.job, t)
	asked := r.book.History.Prompt.Asked
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
	return book.Warning(t.unit(), fmt.Sprintf("iteration %d is not taken: %s; it is kept as %s", t.Number,
		t.res.Work.TookBack, r.place.iterationRef(t.Number)))
}

// prepare makes the place and the text ready for a try. An outcome says what it would need and is not there.
func prepare(ctx context.Context, p *place, job *loop.PromptJob, t *try, w words,
	shown bool) (*loop.Outcome, error) {
	err := p.takeBranch(ctx)
	if err != nil {
		return nil, err
	}
	if t.ground, err = p.prepare(ctx, t.from, t.since, t.in.Log); err != nil {
		return nil, err
	}
	if t.came {
		t.notes = append(t.notes, "a run that was killed had brought a part of its changes into your tree: the rest is there "+
			"now, but for files that you changed since")
	}
	t.it.Next, t.it.Failing, t.it.Slot, t.it.Mounted = w.next, w.failing, p.slot, shown
	t.it.Began = began(p, cmp.Or(w.first, t.before))
	if pl, ok := job.Rules.(planner); ok {
		pl.Planning(t.plans)
	}
	if out := job.Rules.Before(t.it); out != nil {
		return out, nil
	}
	t.in.Prompt = text(job, t.it, &w)
	return nil, nil
}

// planner are the rules of a build that may plan again.
type planner interface {
	Replans() bool
	First(*loop.Iteration) (bool, error)  // whether the first iteration plans
	Again(*loop.Iteration) (bool, string) // whether one plans after this one, and why
	Planning(bool)                        // the next one plans, or does not
}

// input is what an attempt needs to know, but its text.
func input(c *config.Config, p *place, home store.Home, t prompt.Try, with config.Choice) attempt.Input {
	in := attempt.Input{Name: fmt.Sprintf("iteration %d %d", t.Number, t.Try), All: c.AllChecks, Always: true,
		Backend: with.Backend, Model: with.Model, Promise: c.CompletionPromise,
		Log: home.IterationLog(p.id, t.Number, t.Try),
		Agent: attempt.Clocks{Timeout: seconds(c.TimeoutSecs), Idle: seconds(c.IdleTimeoutSecs),
			Start: seconds(c.StartTimeoutSecs), Exit: seconds(c.ExitGraceSecs), Spin: c.SpinLimit},
		Clocks: attempt.Clocks{Timeout: seconds(c.VerifyTimeoutSecs), Idle: seconds(c.VerifyIdleSecs)},
		Guard:  &attempt.Guard{Levels: c.Guard, Protect: c.Protect},
		Prove:  c.ProveOf(nil)}
	if h := c.Holdout; h.Run != "" {
		in.Holdout = &attempt.Holdout{Run: h.Run, Dir: h.Folder(p.root), Log: home.HeldOutLog(p.id, in.Log),
			Timeout: seconds(cmp.Or(h.Timeout, c.VerifyTimeoutSecs))}
	}
	in.Env = []string{"DESCARTES_LOOP_ID=" + p.id, "DESCARTES_ATTEMPT=" + strconv.Itoa(t.Try),
		"DESCARTES_ITERATION=" + strconv.Itoa(t.Number),
		// not those of a loop that started this one
		"DESCARTES_TAG=", "DESCARTES_TASK_ID=", "SCUD_TASK_ID=", "DESCARTES_WAVE="}
	return in
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// checks are the commands that judge a try.
func checks(job *loop.PromptJob, it *loop.Iteration, history *journal.State, mask func(string) string) (list []attempt.Command) {
	c := &job.Config
	if job.Rules.Checks(it) {
		for _, one := range c.ChecksOf(false) {
			if one.At(verify.AtAttempt) || one.At(verify.AtWave) {
				list = append(list, attempt.Command{Check: one, Bar: loop.Bar(c, history, "", &one, mask)})
			}
		}
		for _, item := range job.Rules.Own(it) {
			for _, own := range source.OwnChecks(&tasks.Task{ID: item.Text, Verify: item.Verify}) {
				list = append(list, attempt.Command{Check: own})
			}
		}
	}
	if g, ok := loop.Deciding(job.Gate).(*gate.Criteria); ok { // commands bound to criteria outrank the agent's word
		for _, cmd := range g.Commands() {
			list = append(list, attempt.Command{Check: verify.Check{Name: cmd.Name, Run: cmd.Run}, Criterion: true})
		}
	}
	return list
}

// made runs a try's agent, and keeps what it left under the try's ref before anybody hears of its end.
func made(ctx context.Context, p *place, t *try, with *aids) (err error) {
	job := with.job
	p.holds = t.Try
	if p.kind != prompt.Folder && checkpoints(job) && t.Try == (prompt.Try{Number: 1, Try: 1}) {
		if _, err := p.repo.Keep(ctx, p.iterationRef(0), t.base, parentsOf(&t.ground, &slot.Result{}),
			"run "+p.id+": the start"); err != nil {
			return gitErr("keep a checkpoint", err)
		}
	}
	if t.res, err = p.runner.Make(ctx, p.ws, p.input(t.in), with.tell); err != nil {
		return err
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	if _, criteria := loop.Deciding(job.Gate).(*gate.Criteria); criteria {
		if t.it.Facts.Edits, err = edits(p, t.it, t.in.Log); err != nil { // what cannot be read is not counted
			if err := with.note(err.Error()); err != nil {
				return err
			}
		}
	}
	if err := keepWork(gctx, p, t, "made", with); err != nil || t.checkable() {
		return err
	}
	return facts(job, t, with.usd)
}

// edits counts the edits of each file, by the paths that a person in the project's folder would type.
func edits(p *place, it *loop.Iteration, log string) (map[string]int, error) {
	list, err := render.Edits(log)
	if err != nil {
		return nil, err
	}
	for path, n := range list {
		if rel := book.Relative(it.Seen(p.root), path); strings.HasPrefix(path, "/") && !strings.HasPrefix(rel, "..") {
			delete(list, path)
			list[rel] += n
		}
	}
	return list, nil
}
