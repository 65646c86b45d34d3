package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/loop/book"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
	"descartes/verify"
)

// remains are what git and the disk have of a run that went before.
type remains struct {
	landed bool
	left   *left    // what the agent left that was at work: its end was not written down
	half   kept     // what one that was killed had written
	notes  []string // for people
	plans  bool     // the first iteration plans
}

// resumes opens the place, looks at what is left of an earlier run, and applies Resumed: the first event of every run.
func (r *Run) resumes(ctx context.Context) func() error {
	rest, t, err := r.look(ctx)
	return func() error {
		if err != nil {
			r.ends.err = err
		}
		return errors.Join(r.resumed(rest, t), r.broke(err))
	}
}

// look opens the place and finds what is left. It is slow.
func (r *Run) look(ctx context.Context) (rest remains, t *try, err error) {
	p, m := r.place, r.machine
	number := 0
	open := r.book.History.Prompt.Open
	if open != nil && m.Stage == prompt.Running {
		number = open.Slot
	}
	if err = r.seat(ctx, number); err != nil {
		return rest, nil, err
	}
	if err := r.home.Mask(r.ID(), r.tools.Redact); err != nil {
		return rest, nil, err
	}
	if m.At.Try.Try == 0 {
		rest.plans, err = r.plansFirst(ctx)
		return rest, nil, err
	}
	if t, err = r.again(ctx); err != nil {
		return rest, t, err
	}
	gctx := context.WithoutCancel(ctx)
	switch {
	case p.kind == prompt.Folder && m.Stage == prompt.Running:
		err = r.kill(t)
	case p.kind == prompt.Folder:
	case m.Stage == prompt.Running:
		err = r.killed(gctx, t, open, &rest)
	case m.Stage == prompt.Delivering && p.kind == prompt.Branch:
		rest.landed, rest.notes, err = finish(gctx, p, t)
	case m.Stage == prompt.Delivering:
		rest.landed, err = arrived(gctx, p, t)
	case m.Halt.Clashed && t.kept.commit != "":
		var head string
		if head, err = p.head(gctx); err == nil {
			rest.landed = p.repo.LeadsTo(gctx, head, t.kept.commit)
		}
	}
	if err != nil {
		return rest, t, gitErr("look at what a killed run left", err)
	}
	return rest, t, nil
}

// again makes the try at hand anew, from the journal and from its ref.
func (r *Run) again(ctx context.Context) (t *try, err error) {
	p, at := r.place, r.machine.At
	t = r.newTry(at.Try, at.From, at.Plans)
	t.began = r.tools.Now()
	a := r.book.History.Attempt(journal.Key{Iteration: at.Try.Number, Number: at.Try.Try})
	if a == nil || a.Begin == nil {
		return t, nil
	}
	if t.began, t.since = a.Started, r.since(at.From); t.since.IsZero() {
		t.since = t.began
	}
	t.in.Backend, t.in.Model = a.Backend, a.Model
	if t.in.Prompt, err = loop.IterationPrompt(r.home, r.tools.Pool, r.book.State, a); err != nil {
		return t, err
	}
	t.base = gitops.Tree(a.Begin.Tree)
	t.before = gitops.Tree(cmp.Or(a.Begin.Base, a.Begin.Tree))
	t.tip, t.stand.Head = a.Begin.Commit, gitops.Head{Branch: a.Begin.Branch, Hash: a.Begin.Commit}
	t.it.Began, t.it.Slot, t.it.Mounted = began(p, cmp.Or(r.first(), t.before)), p.slot, r.tools.Shown
	if a.Agent != nil {
		t.res.Agent = resultOf(a.Agent)
		t.question = asksPerson(t, r.book.History.Prompt.Asked)
	}
	if p.kind == prompt.Folder {
		return t, nil
	}
	if err := t.find(ctx, p); err != nil || r.job.Kind == store.KindPrompt {
		return t, err
	}
	// the rules of a mode know what an iteration is about by what it began with
	if m := r.machine.Stage; m == prompt.Idle || m == prompt.Running {
		return t, nil
	}
	if _, err := p.ws.Prepare(ctx, slot.Start{Base: t.base, Before: t.before, At: t.tip}); err != nil {
		return t, err
	}
	if pl, ok := r.job.Rules.(planner); ok {
		pl.Planning(t.plans)
	}
	r.job.Rules.Before(t.it)
	return t, nil
}

// plansFirst reports whether the first iteration plans.
func (r *Run) plansFirst(ctx context.Context) (bool, error) {
	pl, ok := r.job.Rules.(planner)
	if !ok || !pl.Replans() {
		return false, nil
	}
	t := r.newTry(prompt.Try{Number: 1, Try: 1}, prompt.Try{}, false)
	if _, err := r.place.prepare(ctx, prompt.Try{}, t.since, t.in.Log); err != nil {
		return false, err
	}
	t.it.Slot = r.place.slot
	return pl.First(t.it)
}

// find takes the work of a try from its ref.
func (t *try) find(ctx context.Context, p *place) error {
	commit, err := p.repo.RefCommit(p.tryRef(t.Try))
	if err != nil || commit == "" {
		t.res.Work.After = t.before
		return err
	}
	made, err := p.repo.ReadCommit(commit)
	if err != nil {
		return err
	}
	t.kept.ref, t.kept.commit = p.tryRef(t.Try), commit
	w := &t.res.Work
	w.Before, w.After = t.base, made.Tree
	if p.kind == prompt.Branch {
		t.tip = made.Parent()
		if t.base, err = p.repo.CommitTree(t.tip); err != nil {
			return err
		}
	}
	if n := len(made.Parents); n > 1 {
		w.Commits = made.Parents[n-1]
	}
	w.Changed, err = p.repo.Changed(ctx, t.base, made.Tree)
	t.res.Changed = len(w.Changed)
	return err
}

// resultOf is an agent's result as the journal has it.
func resultOf(d *journal.Detail) agent.Result {
	r := agent.Result{End: agent.End(d.End), Cause: agent.Cause(d.Cause), Code: d.Code, Signal: d.Signal,
		Complete: d.Claimed, Blocked: d.Blocked, Question: d.Question, Final: d.Words, Session: d.Session,
		Model: d.Model}
	if d.Until != nil {
		r.Until = *d.Until
	}
	return r
}

// kill completes the log of a try whose run was killed.
func (r *Run) kill(t *try) error { return r.place.runner.Killed(t.in.Log) }

// killed finds what is left of a try whose run was killed: all of it under its ref, or what its slot holds, which a ref
// keeps.
func (r *Run) killed(ctx context.Context, t *try, open *journal.Event, rest *remains) error {
	p := r.place
	if err := r.kill(t); err != nil {
		return err
	}
	putAside(p.runner.PromptFile(), r.home.KeptPrompt(r.ID(), t.Number, t.Try.Try))
	if t.kept.commit != "" {
		l, err := leftIn(p, t.kept.commit)
		if rest.left = l; err != nil || l != nil {
			return err
		}
	}
	t.kept = kept{}
	if open == nil || p.slot == nil || p.slot.Number != open.Slot {
		return nil
	}
	work, err := p.slot.Holds(ctx, open.TS)
	switch {
	case err != nil && !loop.DiskFull(err):
		rest.notes = append(rest.notes, fmt.Sprintf("what it left in slot %d cannot be kept: %v", open.Slot, err))
		return nil
	case err != nil || work.After == "" || work.After == t.before && work.Commits == "":
		return err
	}
	rest.half.ref, rest.half.commit, err = p.keep(ctx, t.Try, &t.ground, &work, journal.Killed, "")
	return err
}

// leftIn is what an agent left by the message of the commit that keeps it; nil if it says nothing.
func leftIn(p *place, commit string) (*left, error) {
	made, err := p.repo.ReadCommit(commit)
	if err != nil {
		return nil, err
	}
	text := made.Trailers[leftTrailer]
	if len(text) == 0 {
		return nil, nil
	}
	var l left
	if json.Unmarshal([]byte(text[0]), &l) != nil || l.Detail == nil { // masked in the middle: it is made again
		return nil, nil
	}
	return &l, nil
}

// finish finishes the following of a commit that a kill cut short, and reports whether the branch has it.
func finish(ctx context.Context, p *place, t *try) (landed bool, notes []string, err error) {
	commit, err := p.repo.RefCommit(p.last())
	if err != nil || commit == "" {
		return false, nil, err
	}
	made, err := p.repo.ReadCommit(commit)
	if err != nil || !slices.Contains(made.Trailers["Descartes-Iteration"], strconv.Itoa(t.Number)) ||
		made.Tree != t.res.Work.After {
		return false, nil, err
	}
	head, err := p.head(ctx)
	if err != nil {
		return false, nil, err
	}
	if _, next, err := p.repo.History(ctx, commit, head, 1000); err != nil {
		return false, nil, err
	} else if next {
		if notes, err = advance(ctx, p, head, commit, true); err != nil {
			return false, notes, err
		}
		if head, err = p.head(ctx); err != nil {
			return false, notes, err
		}
	}
	if landed = p.repo.LeadsTo(ctx, head, commit); landed {
		t.kept.landed = commit
	}
	return landed, notes, nil
}

// arrived finishes what a kill cut short, and reports whether the user's tree has the work.
func arrived(ctx context.Context, p *place, t *try) (landed bool, err error) {
	err = p.inTree(ctx, func() error {
		if _, err := p.repo.FinishArrival(ctx, false); err != nil {
			return err
		}
		now, err := p.repo.Snapshot(ctx)
		if err != nil {
			return err
		}
		with, met, err := p.repo.MergeTrees(ctx, t.base, now, t.res.Work.After)
		landed = err == nil && len(met) == 0 && with == now
		return err
	})
	return landed, err
}

// resumed writes down that a run begins, with what was found.
func (r *Run) resumed(rest remains, t *try) error {
	h := r.book.History
	line := &journal.Event{Type: journal.LoopStarted, Branch: r.place.branch}
	if r.options.Resume != "" {
		line.Type = journal.LoopResumed
	}
	if r.place.kind == prompt.Tree && r.tools.Repo != nil {
		if head, err := r.tools.Repo.Head(r.asks.Now); err == nil {
			line.Branch = head.Branch
		}
	}
	e := prompt.Resumed{Limits: limitsOf(&r.job.Config), Plans: rest.plans, Landed: rest.landed}
	e.Yes = r.options.Resume != "" && r.job.Yes || r.answeredSince()
	e.Anew = r.options.Anew || slices.ContainsFunc(r.machine.Among(), r.known().IsCleared)
	if h.Seq == 0 && r.options.Resume != "" { // the state file is all there is
		e.Number = r.book.State.Iteration
		line.Iteration = e.Number
	}
	r.raiseGate()
	lines := []*journal.Event{line}
	if note, err := r.holdLoopFile(); err != nil {
		return err
	} else if note != "" {
		lines = append(lines, book.Warning(journal.Unit{Iteration: h.Iteration}, note))
	}
	for _, note := range rest.notes {
		lines = append(lines, book.Warning(r.unit(), note))
	}
	if r.at = t; t != nil && rest.left != nil {
		e.Left = &rest.left.Machine
		t.res.Agent, t.res.Work.TookBack = resultOf(rest.left.Detail), rest.left.TookBack
		r.voice.facts = gate.Facts{Iteration: t.Number, Final: t.res.Agent.Final, Now: r.tools.Now(),
			Err: cmp.Or(t.res.Work.TookBack, t.res.Agent.Reason)}
		if e.Left.Undid {
			lines = append(lines, r.undid(t))
		}
		told := &journal.Event{Type: journal.AgentFinished, Unit: t.unit(), Reason: "", Detail: rest.left.Detail}
		lines = append(lines, told)
	}
	if t != nil && rest.half.ref != "" {
		t.kept = rest.half
	}
	if t != nil && r.machine.Stage == prompt.Running && rest.left == nil {
		t.res.Agent = agent.Result{End: agent.Cancelled}
	}
	if e.Landed || r.hasPassed() {
		t.it.Facts = gate.Facts{Iteration: t.Number, Final: t.res.Agent.Final, Now: r.tools.Now(),
			Verify: &gate.Check{Passed: true}}
		for _, c := range t.res.Work.Changed {
			t.it.Facts.Changed = append(t.it.Facts.Changed, c.Path)
		}
		r.voice.facts, t.res.Verify = t.it.Facts, &verify.Result{Passed: true}
	}
	// the first line carries the event: a run that is folded again begins with it
	if err := errors.Join(r.happenedOn(0, e, lines...), r.raise()); err != nil {
		return err
	}
	if err := r.home.Listed(r.tools.FS, r.ID(), r.book.State.Seq); err != nil {
		return err
	}
	return r.book.Save()
}

// hasPassed reports whether the checks of the try at hand passed, and it is not yet where it belongs.
func (r *Run) hasPassed() bool {
	switch r.machine.Stage {
	case prompt.Checked, prompt.Reviewing, prompt.Ready, prompt.Delivering:
		return true
	}
	return false
}

// raiseGate gives the criteria gate the limits that are new in the settings. A higher limit answers what it stopped
// for.
func (r *Run) raiseGate() {
	c, ok := loop.Deciding(r.job.Gate).(*gate.Criteria)
	if !ok {
		return
	}
	cfg, h := &r.job.Config, r.book.History
	c.Caps.Iterations, c.Caps.BudgetUSD, c.Caps.FileEdits = cfg.MaxIterations, cfg.MaxCostUSD, cfg.MaxFileEdits
	if cfg.MaxCostUSD == 0 {
		c.Caps.BudgetUSD = -1
	}
	if usd := h.Cost.USD; c.Waiting == gate.BreakIterations && h.Iteration < cfg.MaxIterations ||
		c.Waiting == gate.BreakBudget && (cfg.MaxCostUSD == 0 || usd != nil && *usd < cfg.MaxCostUSD) {
		c.Waiting = ""
	}
}

// holdLoopFile claims .loop/state.json for a loop with a criteria gate. What another program wrote there is moved into
// the loop's own folder, which note says.
func (r *Run) holdLoopFile() (note string, err error) {
	if _, ok := loop.Deciding(r.job.Gate).(*gate.Criteria); !ok {
		return "", nil
	}
	if err = r.locks.Take(r.asks.Now, r.home.LoopFileLock()); err != nil {
		if busy, ok := errors.AsType[*store.BusyError](err); ok {
			return "", &loop.LoopFileError{Loop: busy.Holder.Loop}
		}
		return "", err
	}
	if b := loop.ReadLoopFile(r.job.Dir); len(b) > 0 && r.options.Resume == "" {
		aside := filepath.Join(r.home.Run(r.ID()), "loop-state-before.json")
		if err := atomicfile.Write(r.tools.FS, aside, b, 0o644); err != nil {
			return "", fmt.Errorf("keep the old .loop/state.json: %w", err)
		}
		return ".loop/state.json already existed; its content is kept in " + r.book.Relative(aside), nil
	}
	return "", nil
}

// answeredSince reports whether a person answered the agent's question since it was asked.
func (r *Run) answeredSince() bool {
	last := r.book.History.Prompt.Last
	if say := r.machine.Say; last == nil || say.Word != prompt.Wait || say.What != prompt.OfAgent {
		return false
	}
	answers, err := r.home.Answers(store.LoopKey(r.ID()))
	return err == nil && slices.ContainsFunc(answers, func(a store.Answer) bool { return a.At.After(last.TS) })
}
