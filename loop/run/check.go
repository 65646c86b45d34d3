package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/scheduler/prompt"
	"descartes/verify"
)

// check has the work at hand checked.
func (r *Run) check() error {
	if err := r.happened(prompt.CheckStarted{}); err != nil {
		return err
	}
	t, ctx, p, with := r.at, r.asks.Now, r.place, r.aids()
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
	if err := r.book.Write(r.warnings(t, c.notes)...); err != nil {
		return err
	}
	r.voice.facts, r.voice.unfit = t.it.Facts, t.it.Unfit
	r.ends.failure, r.ends.clash = c.Failure, c.clash
	t.question, r.ends.asker = asksPerson(t, r.book.History.Prompt.Asked), ""
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

// checked is what a check came to.
type checked struct {
	verdict prompt.Verdict
	clash   *gitops.RefusedError // with what the user committed meanwhile
	loop.Failure
	notes []string
}

// check merges a try's work onto the branch's tip and runs its checks in the check tree.
func check(ctx context.Context, p *place, t *try, with *aids) (c checked, err error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	tip, job, at := t.tip, with.job, &p.seats
	before, unset := t.res.Work.After, false
	if p.kind != prompt.Folder {
		if err := handsOver(gctx, p, job, t); err != nil {
			return c, err
		}
		if met, err := merged(gctx, p, t); err != nil || met != nil {
			return checked{verdict: prompt.Clashed, clash: met}, err
		}
		hook, err := hooked(ctx, p, t, with)
		if hook != nil && hook.Result.Cancelled {
			return checked{verdict: prompt.Cancelled}, nil
		}
		if err == nil {
			at, err = inCheckTree(gctx, p, t, with)
		}
		if why, ok := errors.AsType[*verify.SetupError](err); ok {
			unset = true
			at, err = notSetUp(gctx, p, t, with, why)
		}
		if err != nil {
			return c, err
		}
		if hook != nil && !unset {
			t.res.Checks, t.res.Verify = []attempt.Ran{*hook}, &hook.Result
		}
	}
	if !unset {
		if t.res, err = at.runner.Judge(ctx, at.ws, at.input(t.in), t.res, with.tell); err != nil {
			return c, err
		}
	}
	if at != &p.seats {
		t.res.Verify = attempt.Lacking(t.res.Verify, &t.res.Work)
	}
	if !t.wasCut() {
		if err := withoutOurs(gctx, p, job, t); err != nil {
			return c, err
		}
	}
	if t.wasCut() { // it says nothing about the work
		return checked{verdict: prompt.Cancelled}, nil
	}
	if err := facts(job, t, with.usd); err != nil {
		return c, err
	}
	c.Failure = job.Rules.Fails(t.it)
	if c.verdict = prompt.Passed; t.it.Unfit != "" || c.Ending == journal.TestsFailed {
		c.verdict = prompt.Failed // what else its rules say the machine decides by what was found
	}
	if c.notes, err = takeBack(gctx, p, job, t); err != nil {
		return c, err
	}
	c.notes = append(c.notes, t.notes...)
	t.notes = nil
	if (t.res.Work.After != before || t.tip != tip) && p.kind != prompt.Folder {
		err = keepWork(gctx, p, t, "checked", with)
	}
	return c, err
}

// notSetUp is a try whose work cannot be set up: it has failed as long as what it stands on can be, from nothing, else
// that is the run's failure.
func notSetUp(ctx context.Context, p *place, t *try, with *aids, why *verify.SetupError) (*seats, error) {
	at, err := p.judged(ctx, func(line string) error { return with.note(line) })
	if err != nil {
		return nil, err
	}
	start := t.start(p)
	start.Before, start.Cold = t.base, true
	_, err = at.ws.Prepare(ctx, start)
	t.res.Checks, t.res.Verify = nil, &verify.Result{Code: 1, Why: why.Text}
	t.res.Verdict, t.res.Reason = verify.Failed, t.res.Verify.Reason()
	return at, err
}

// handsOver takes the work out of the slot in which its agent ended, without what no commit takes.
func handsOver(ctx context.Context, p *place, job *loop.PromptJob, t *try) (err error) {
	if p.holds != t.Try { // a killed run made it, and a ref has it
		return nil
	}
	if t.res.Work, err = p.ws.Result(ctx, false); err != nil {
		return err
	}
	return withoutOurs(ctx, p, job, t)
}

// inCheckTree gives the check tree the work of a try, or the try's own slot where there is no check tree.
func inCheckTree(ctx context.Context, p *place, t *try, with *aids) (*seats, error) {
	at, err := p.judged(ctx, func(line string) error { return with.note(line) })
	if err != nil || at == &p.seats {
		return at, err
	}
	made := t.res.Work
	start := t.start(p)
	start.Made = &made
	if _, err := at.ws.Prepare(ctx, start); err != nil {
		return nil, err
	}
	if t.res.Work, err = at.ws.Look(ctx); err != nil {
		return nil, err
	}
	t.res.Changed = len(t.res.Work.Changed)
	return at, nil
}

// hooked has the user's hooks look at what a try brings to its branch; what they change of it is in its work then. hook
// is nil where they let it pass.
func hooked(ctx context.Context, p *place, t *try, with *aids) (hook *attempt.Ran, err error) {
	if p.kind != prompt.Branch || !p.repo.ChecksWork() || t.res.Work.After == t.base {
		return nil, nil
	}
	gctx := context.WithoutCancel(ctx)
	at, err := p.judged(gctx, func(line string) error { return with.note(line) })
	if err != nil {
		return nil, err
	}
	start, was := t.start(p), t.res.Work
	start.Whole = false
	if _, err := at.slot.Prepare(gctx, start); err != nil {
		return nil, err
	}
	tree, hook, err := at.runner.PreCommit(ctx, at.slot, start, t.hookLimits(with.job), at.input(t.in), with.tell)
	if err != nil {
		return nil, err
	}
	t.res.Work.After = tree
	if at == &p.seats { // its rules read there what it came to
		start = t.start(p)
		start.Made = &was
		if _, err := at.slot.Prepare(gctx, start); err != nil {
			return nil, err
		}
		t.res.Work, err = at.slot.Look(gctx)
		t.res.Changed = len(t.res.Work.Changed)
	}
	return hook, err
}

// start is how a slot gets the work of a try.
func (t *try) start(p *place) slot.Start {
	return slot.Start{Base: t.base, Before: t.res.Work.After, At: t.tip, Whole: true, Since: t.since, Named: p.named,
		But: p.ahead}
}

// wasCut reports whether the checks of the try came to no end.
func (t *try) wasCut() bool {
	v := t.res.Verify
	return v != nil && v.Cancelled || t.res.Verdict == verify.Cancelled && t.res.Agent.End == agent.Finished
}

// merged brings a try's work onto the branch's tip, where that has moved or the slot has something else.
func merged(ctx context.Context, p *place, t *try) (*gitops.RefusedError, error) {
	tip, base, tree := t.tip, t.base, t.res.Work.After
	if p.kind == prompt.Branch {
		var err error
		if tip, err = p.head(ctx); err != nil {
			return nil, err
		}
		if base, err = p.repo.CommitTree(tip); err != nil {
			return nil, gitErr("read the branch", err)
		}
		var met []gitops.Conflict
		switch {
		case t.plans: // committed without the failed work that it went on from
			tree, met, err = p.repo.MergeTrees(ctx, t.before, base, tree)
		case tip != t.tip && t.kept.commit != "":
			tree, met, err = p.onto(ctx, tip, base, work{on: t.tip, commit: t.kept.commit, tree: tree})
			if p.lost(ctx, tip, t.tip) {
				t.notes = append(t.notes, fmt.Sprintf("iteration %d began on %.12s, which the branch does not have any more: "+
					"its commit has its own change alone", t.Number, t.tip))
			}
		}
		if err != nil {
			return nil, gitErr("merge what was committed meanwhile", err)
		}
		if len(met) > 0 {
			return clashes(ctx, p, t, met), nil
		}
	}
	if tree == t.res.Work.After && p.holds == t.Try && tip == t.tip {
		return nil, nil
	}
	was := t.res.Work
	t.tip, t.base, t.res.Work.After = tip, base, tree
	start := t.start(p)
	start.Made = &was
	if _, err := p.ws.Prepare(ctx, start); err != nil { // its rules read there what it came to
		return nil, err
	}
	p.holds = t.Try
	var err error
	t.res.Work, err = p.ws.Look(ctx)
	t.res.Changed = len(t.res.Work.Changed)
	return nil, err
}

// clashes says that somebody else's commit and the work do not merge.
func clashes(ctx context.Context, p *place, t *try, met []gitops.Conflict) *gitops.RefusedError {
	list := make([]string, len(met))
	for i, c := range met {
		list[i] = c.String()
	}
	return &gitops.RefusedError{
		Reason: fmt.Sprintf("commit iteration %d: somebody committed meanwhile, and the verified work conflicts with that: merge conflict with the work merged meanwhile: %s",
			t.Number, oneline.List(list)),
		Hint: p.repo.Merging(ctx, p.tryRef(t.Try)) + ", then resume the run"}
}

// takeBack takes out of a try's work what only success may claim.
func takeBack(ctx context.Context, p *place, job *loop.PromptJob, t *try) (notes []string, err error) {
	work := &t.res.Work
	if work.After == "" {
		return nil, nil
	}
	files := map[string][]byte{}
	for name, data := range job.Rules.TakeBack(t.it) {
		rel, err := filepath.Rel(p.repo.Root(), filepath.Join(p.root, name))
		if err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("take back %s: it is not below the repository", name)
		}
		rel = filepath.ToSlash(rel)
		if slices.ContainsFunc(work.Changed, func(c gitops.Change) bool { return c.Path == rel }) {
			files[rel] = data
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	if work.After, err = p.repo.WithContent(ctx, work.After, files); err != nil {
		return nil, gitErr("take back what a failed iteration claimed", err)
	}
	if t.it.Unfit == "" && job.Rules.Fails(t.it).Reason == "" {
		notes = append(notes, fmt.Sprintf("iteration %d planned, and ticked what was not done: "+
			"it stays open until a build passes its tests", t.Number))
	}
	return notes, nil
}

// facts notes what the gate sees of a try, and its rules, which read the slot as the try left it.
func facts(job *loop.PromptJob, t *try, usd *float64) error {
	res := &t.res
	if g, ok := loop.Deciding(job.Gate).(interface{ Blocked(string) string }); ok && res.Agent.End == agent.Finished {
		res.Agent.Blocked = cmp.Or(res.Agent.Blocked, g.Blocked(res.Agent.Final))
	}
	was := t.it.Facts // what is known since its agent ended
	f := gate.Facts{Iteration: t.Number, Final: res.Agent.Final, Blocked: res.Agent.Blocked,
		OutputBytes: res.Agent.Bytes, CostUSD: usd, Unwatched: res.Work.After == "", State: was.State, Edits: was.Edits}
	for _, ran := range res.Checks {
		if ran.Command.Criterion {
			f.Checks = append(f.Checks, gate.Check{Name: ran.Command.Name, Passed: ran.Result.Passed,
				Output: ran.Result.Tail})
		}
	}
	for _, c := range res.Work.Changed {
		if !loop.OfLoopFile(c.Path) {
			f.Changed = append(f.Changed, c.Path)
		}
	}
	if n := &res.Work.Named; n.Changed() {
		f.Changed = append(f.Changed, n.Paths...)
	}
	if res.Agent.End != agent.Finished {
		f.Err = cmp.Or(res.Agent.Reason, string(res.Agent.End))
	}
	promised := job.Config.Promised()
	if v := res.Verify; v != nil {
		f.Verify = &gate.Check{Name: v.Command, Passed: v.Passed, Output: v.Tail, Why: v.Why}
		if !v.Passed && promised && f.Err == "" {
			f.Err = v.Reason()
		}
	}
	if why := res.Work.TookBack; why != "" {
		f.Err = cmp.Or(f.Err, why)
	}
	if o := res.Objection; o != nil { // as if the verification had failed
		f.Verify = &gate.Check{Name: o.By, Output: o.Detail, Objects: o.Reason}
		if promised && f.Err == "" {
			f.Err = o.Reason
		}
	}
	t.it.Facts, t.it.Unfit, t.it.Watched = f, res.Unfit(), res.Work.After != ""
	return job.Rules.Facts(t.it)
}

// found is what a check found, in the machine's words.
func found(t *try, c *checked) prompt.Found {
	o := t.res.Objection
	f := prompt.Found{NoPlan: c.Ending == journal.PlanMissing}
	// what an agent asks that did nothing else the machine knows since its end
	f.Question = o != nil && o.Ask || t.question != "" && t.res.Agent.Blocked != ""
	switch v := t.res.Verify; {
	case v != nil && !v.Passed:
		shown, _ := gate.Failed(v.Tail)
		f.Error = gate.Digest(shown)
	case c.verdict == prompt.Failed:
		f.Error = gate.Digest(cmp.Or(c.Reason, t.it.Unfit))
	}
	return f
}

// asksPerson is a question that a person has to answer before another agent is asked, or "".
func asksPerson(t *try, asked int) string {
	if o := t.res.Objection; o != nil && o.Ask {
		return loop.Tail(o.Question(), loop.MaxWords)
	}
	r, work := &t.res.Agent, &t.res.Work
	did := len(work.Changed) > 0 || work.Named.Changed() || work.After == "" && asked < 2
	if r.End != agent.Finished || r.Complete || did && r.Blocked == "" {
		return ""
	}
	return loop.Tail(r.Question, loop.MaxWords)
}
