package tagrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/verify"
)

// The check is the merge: an attempt's commit is merged onto the tip (merge.go), checked out in the check tree and
// checked. What passes is the next tip.

func gitErr(what string, err error) error { return &slot.GitError{What: what, Err: err} }

// commands are the checks for some points of a run, each with its bar by what the journal knows, and those that a
// task asks for itself; nil: no task's.
func commands(g *ground, h *journal.State, task *tasks.Task, fewer bool, when ...verify.When) (list []attempt.Command) {
	for _, c := range g.config.ChecksOf(true) {
		if !slices.ContainsFunc(when, c.At) {
			continue
		}
		bar := loop.Bar(g.config, h, "", &c, g.tools.Redact.Text)
		bar.Fewer = fewer
		list = append(list, attempt.Command{Check: c, Bar: bar})
	}
	if task != nil && slices.Contains(when, verify.AtAttempt) {
		for _, c := range source.OwnChecks(task) {
			list = append(list, attempt.Command{Check: c})
		}
	}
	return list
}

// allowing are commands that what is known to fail in the trunk does not fail.
func allowing(known []string, list []attempt.Command) []attempt.Command {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Bar != nil {
			bar := *list[i].Bar
			bar.Red, list[i].Bar = known, &bar
		}
	}
	return list
}

// mended are those of the known failures that pass in an attempt's checks.
func mended(known []string, res *attempt.Result) (names []string) {
	for i := range res.Checks {
		if t := res.Checks[i].Result.Tests; t != nil {
			for _, name := range known {
				if slices.Contains(t.Passed, name) && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// mergedWork is the check tree with an attempt's commit in it. What another slot knows of the attempt is not to be seen
// there.
type mergedWork struct {
	*slot.Slot
	was slot.Result
}

func (w mergedWork) joined(r slot.Result) slot.Result {
	was := &w.was
	r.LeftOut, r.Old, r.Named, r.Nested = was.LeftOut, was.Old, was.Named, was.Nested
	r.Hidden, r.Installs, r.Beside, r.Uncovered = was.Hidden, was.Installs, was.Beside, was.Uncovered
	r.Commits, r.Lost, r.Removed, r.TookBack = was.Commits, was.Lost, was.Removed, was.TookBack
	r.Alone = true
	return r
}

func (w mergedWork) Look(ctx context.Context) (slot.Result, error) {
	r, err := w.Slot.Look(ctx)
	return w.joined(r), err
}

func (w mergedWork) Result(ctx context.Context, verified bool) (slot.Result, error) {
	r, err := w.Slot.Result(ctx, verified)
	return w.joined(r), err
}

// checkAttempt has an attempt's commit merged onto the tip and checked there, unless it has passed there already. What
// passes, and is not to be reviewed or merged after others first, is the next tip.
func checkAttempt(ctx context.Context, g *ground, now standing, a scheduler.Check, m *made, ahead []*made, at *tree,
	v voice) (r result, err error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	e := scheduler.CheckEnded{Purpose: scheduler.OfAttempt, Task: a.Task}
	g.repo.AwaitGC(gctx)
	if m.accepts != nil {
		if why, paths, err := m.take(gctx, g, &now); why != "" || err != nil {
			return m.unfit(g, why, paths), err
		}
	}
	o, err := mergeOntoTip(gctx, g, &now, m, ahead)
	if err != nil {
		return r, gitErr("merge the work on task "+a.Task, err)
	}
	res := m.res
	switch {
	case o.void:
		e.Result = scheduler.Cut
		return result{event: e}, nil
	case len(o.met) > 0:
		return clashed(gctx, g, &now, e, m, o.met)
	case a.Checked:
		e.Result = scheduler.Passed
	default:
		hook, err := hooked(ctx, g, &now, m, &o, at, v)
		if err == nil {
			res, err = judged(ctx, g, &now, a, m, o, hook, at, v)
		}
		if unset, ok := errors.AsType[*verify.SetupError](err); ok {
			res, err = m.unset(gctx, g, &now, &o, unset, at, v)
		}
		if err != nil {
			return r, err
		}
		e.Result, e.Mended = resultOf(&res), mended(a.Known, &res)
	}
	if e.Result == scheduler.Cut {
		return result{event: e}, nil
	}
	if m.accepts != nil {
		e.Known, e.Result = failing(&res), scheduler.Passed
		res.Verdict, res.Grade, res.Reason, res.Objection = verify.Verified, verify.Accepted, m.accepted, nil
	}
	e.Ask = res.Objection != nil && res.Objection.Ask
	r.res = &res
	if e.Result == scheduler.Failed {
		e.Signature = signature(&res)
		if err := rekeep(gctx, g, m, &res, nil, nil); err != nil {
			return r, err
		}
		end := finished(g, m, &res)
		if end.Message, err = g.repo.DiffStat(gctx, m.base, m.res.Work.After); err != nil {
			return r, gitErr("compare the work on task "+a.Task, err)
		}
		r.event, r.lines = e, []*journal.Event{end}
		return r, nil
	}
	if !a.Checked {
		if e.Changed, err = changedInMerge(gctx, g, m, o.tree); err != nil {
			return r, err
		}
	}
	r.event = e
	// not merged yet: its verdict is not out before the reviewer's, or it is merged when those before it are
	if a.Review == scheduler.Always || a.Review == scheduler.IfChanged && e.Changed || len(a.On) > 0 {
		return r, m.passed(gctx, g, &o, &res.Work)
	}
	tree := o.work
	if !a.Checked && res.Work.After != "" {
		tree = res.Work.After
	}
	end := finished(g, m, &res)
	if err := rekeep(gctx, g, m, &res, nil, end); err != nil {
		return r, err
	}
	if r.now, err = mergeVerified(gctx, g, now, m, tree); err != nil {
		return r, err
	}
	r.lines = []*journal.Event{end, integrated(m.unit, string(r.now.chain.Tree), r.now.chain.Tip)}
	return r, bringNamed(gctx, g, &res, v)
}

// passed makes what passed the attempt's work where hooks or checks changed it: that is what is reviewed and merged.
func (m *made) passed(ctx context.Context, g *ground, o *onTip, work *slot.Result) error {
	if work.After == "" || work.After == o.tree {
		return nil
	}
	was, err := g.repo.ReadCommit(m.commit)
	if err == nil {
		others := slices.DeleteFunc(was.Parents[1:], func(hash string) bool { return hash == o.on })
		m.commit, err = g.repo.Keep(ctx, m.ref, work.After, append([]string{o.on}, others...), was.Message)
	}
	if err != nil {
		return gitErr("keep what passed of task "+m.task.ID, err)
	}
	m.from, m.base, m.in.Base, m.res.Work = o.on, o.base, o.base, *work
	return nil
}

// start is how the check tree gets what an attempt's commit and the tip make.
func (m *made) start(now *standing, o *onTip) slot.Start {
	return slot.Start{Base: o.base, Before: o.work, At: headOf(now), Whole: true, Since: m.began,
		Tips: now.chain.Tips(), Aside: strings.TrimSuffix(m.in.Log, ".log")}
}

// hooked has the user's hooks look at what a merged commit brings; what they change of it is checked then. hook is
// nil where they let it pass.
func hooked(ctx context.Context, g *ground, now *standing, m *made, o *onTip, at *tree, v voice) (hook *attempt.Ran,
	err error) {
	if !g.repo.ChecksWork() || o.tree == o.base {
		return nil, nil
	}
	start := m.start(now, o)
	start.Whole = false
	if err := at.prepare(context.WithoutCancel(ctx), g, v, start); err != nil {
		return nil, err
	}
	in := m.in
	in.Env = append(slices.Clip(in.Env), at.slot.Env()...)
	o.work, hook, err = at.runner.PreCommit(ctx, at.slot, start, g.hooks(now), in, v.tell)
	return hook, err
}

// hooks are the user's hooks as the run has them.
func (g *ground) hooks(now *standing) attempt.Hooks {
	return attempt.Hooks{Began: now.chain.Links[0].Head, Limit: time.Duration(g.config.Git.HookTimeout) * time.Second}
}

// judged checks a merged commit, which a hook of the user's refuses unless that is nil.
func judged(ctx context.Context, g *ground, now *standing, a scheduler.Check, m *made, o onTip, hook *attempt.Ran,
	at *tree, v voice) (attempt.Result, error) {
	gctx := context.WithoutCancel(ctx)
	if hook != nil && hook.Result.Cancelled {
		res := m.res
		res.Verdict = verify.Cancelled
		return res, nil
	}
	start := m.start(now, &o)
	if err := at.prepare(ctx, g, v, start); err != nil {
		if ctx.Err() != nil { // its set-up may take long
			res := m.res
			res.Verdict = verify.Cancelled
			return res, nil
		}
		return m.res, err
	}
	w, in, res := mergedWork{at.slot, m.res.Work}, m.in, m.res
	var err error
	if res.Work, err = w.Look(gctx); err != nil {
		return res, err
	}
	in.Base, in.Checks, in.Review = o.base, allowing(a.Known, in.Checks), nil
	in.Env = append(slices.Clip(in.Env), at.slot.Env()...)
	in.All = in.All || m.accepts != nil
	res.Checks, res.Verify, res.Looks, res.Objection = nil, nil, nil, nil
	if hook != nil {
		res.Checks, res.Verify = []attempt.Ran{*hook}, &hook.Result
	}
	if res, err = at.runner.Judge(ctx, w, in, res, v.tell); err != nil {
		return res, err
	}
	if named := attempt.Lacking(res.Verify, &res.Work); named != res.Verify && res.Objection == nil {
		res.Verify, res.Reason = named, named.Reason()
	}
	return res, nil
}

// unset is what an attempt came to whose commit cannot be set up, as long as what it stands on can be, from nothing: else
// that is the run's failure.
func (m *made) unset(ctx context.Context, g *ground, now *standing, o *onTip, why *verify.SetupError, at *tree,
	v voice) (attempt.Result, error) {
	err := at.prepare(ctx, g, v, slot.Start{Base: o.base, Before: o.base, At: headOf(now), Tips: now.chain.Tips(), Cold: true})
	res := m.res
	res.Verify = &verify.Result{Code: 1, Why: why.Text}
	res.Verdict, res.Reason = verify.Failed, res.Verify.Reason()
	return res, err
}

// headOf is the commit that a check sees as HEAD.
func headOf(now *standing) string { return now.chain.Links[len(now.chain.Links)-1].Head }

// resultOf is what a check of an attempt came to.
func resultOf(res *attempt.Result) scheduler.Result {
	switch {
	case res.Verify != nil && res.Verify.Cancelled, res.Verdict == verify.Cancelled:
		return scheduler.Cut
	case res.Verdict == verify.Verified:
		return scheduler.Passed
	}
	return scheduler.Failed
}

// failing are the tests that failed in an attempt's checks.
func failing(res *attempt.Result) (names []string) {
	for i := range res.Checks {
		if t := res.Checks[i].Result.Tests; t != nil {
			names = append(names, t.Failed...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// signature tells one failure from another, without what differs from run to run.
func signature(res *attempt.Result) string {
	output := loop.Output(res)
	shown, _ := gate.Failed(output)
	return gate.Digest(shown + " " + res.Reason)
}

// rekeep says in the commit that keeps an attempt what its check came to, so that the next clone knows; the work stays
// as it is. clash says where it does not merge; else nil. end is the line of what is merged next, which a run that is
// killed before it can write that down finds there; else nil.
func rekeep(ctx context.Context, g *ground, m *made, res *attempt.Result, clash *trunk.Clash, end *journal.Event) error {
	was, err := g.repo.ReadCommit(m.commit)
	if err != nil {
		return gitErr("read the work on task "+m.task.ID, err)
	}
	k := source.Kept{Loop: g.id, Task: m.task.ID, Attempt: m.unit.Attempt, Verdict: string(res.Verdict),
		Reason: res.Reason, Same: m.res.Work.After == m.base && m.res.Work.Commits == "",
		Asks: res.Objection != nil && res.Objection.Ask}
	switch {
	case clash != nil:
		k.Verdict, k.Reason, k.Output = string(journal.Clashed), clash.Reason(), clash.Detail()
	case res.Grade == verify.Accepted:
		k.Verdict = string(verify.Accepted)
	case res.Verdict != verify.Verified:
		k.Output = loop.Output(res)
	}
	message := k.Message(g.list)
	for _, line := range strings.Split(was.Message, "\n") { // what a run that resumes needs of it
		if strings.HasPrefix(line, keptTrailer) {
			message += line + "\n"
		}
	}
	message = g.tools.Redact.Text(message)
	if end != nil {
		data, err := json.Marshal(end)
		if err != nil {
			return fmt.Errorf("encode the end of an attempt: %w", err)
		}
		message += passedTrailer + ": " + loop.Trailer(g.tools.Redact, data) + "\n"
	}
	commit, err := g.repo.Keep(ctx, m.ref, was.Tree, was.Parents, message)
	if err != nil {
		return gitErr("keep the work on task "+m.task.ID, err)
	}
	m.commit = commit
	return nil
}

// keptTrailer begins the lines of such a commit that stay when its verdict is added.
const keptTrailer = "Descartes-Left: "

// passedTrailer names, in the message of the commit that is merged, the line of the journal that says so.
const passedTrailer = "Descartes-Passed"

// finished is the line of the end of an attempt that was checked.
func finished(g *ground, m *made, res *attempt.Result) *journal.Event {
	e := &journal.Event{Type: journal.AttemptFinished, Unit: m.unit, Tree: string(m.res.Work.After), Ref: m.ref,
		Verdict: journal.Verdict(res.Verdict), Reason: res.Reason}
	d := &journal.Detail{Client: journal.Client{Backend: m.in.Backend, Model: cmp.Or(res.Agent.Model, m.in.Model),
		Log: shown(g, m.in.Log)}, Files: journal.Files{Changed: len(res.Work.Changed), Left: res.Work.Left,
		Alone: true, Hidden: res.Work.Hidden}, Looks: loop.Looked(res),
		Exit: journal.Exit{End: string(res.Agent.End), Cause: string(res.Agent.Cause), Code: res.Agent.Code,
			Signal: res.Agent.Signal, Seconds: max(0, g.tools.Now().Sub(m.began).Seconds())}}
	d.Claimed = res.Agent.Complete
	e.Detail = d
	if res.Verdict == verify.Verified {
		d.Grade, d.Proof = journal.Grade(res.Grade), res.Proof
		e.Message, d.Words = loop.Delivered(m.res.Work.Changed), store.Preview(res.Agent.Final)
		return e
	}
	d.Words, d.Output = loop.Tail(res.Agent.Final, loop.MaxWords), loop.Output(res)
	d.Question = loop.Tail(res.Agent.Question, loop.MaxWords)
	if o := res.Objection; o != nil && o.Ask {
		d.Question = loop.Tail(o.Question(), loop.MaxWords)
		e.Verdict = journal.Blocked
	}
	if res.Verify != nil {
		d.Code, d.TimedOut = res.Verify.Code, res.Verify.TimedOut
	}
	return e
}

// shown is a path as a person in the project's folder would type it.
func shown(g *ground, path string) string {
	if rel, err := filepath.Rel(g.root, path); err == nil {
		return rel
	}
	return path
}

// bringNamed brings what an attempt changed in the user's files that its spec names into his tree.
func bringNamed(ctx context.Context, g *ground, res *attempt.Result, v voice) error {
	note, err := trunk.BringNamed(ctx, g.repo, g.id, &res.Work.Named, func(ctx context.Context, do func() error) error {
		return g.inTree(ctx, v, do)
	})
	if err != nil || note == "" {
		return err
	}
	return v.note(note)
}

// exam is a check of a tree of the trunk that is no attempt's.
type exam struct {
	at     *tree
	base   gitops.Tree // what HEAD has
	tree   gitops.Tree // that is checked
	tips   []gitops.Tree
	head   string // the commit that it sees as HEAD
	when   verify.When
	label  string
	log    string
	tasks  []string
	quiet  bool // a check without a name is not recorded
	cold   bool // it begins without what the last check of the tip left
	before bool // it is the baseline, or a recheck
}

// prepare checks the tree out.
func (x *exam) prepare(ctx context.Context, g *ground, v voice) error {
	return x.at.prepare(ctx, g, v, slot.Start{Base: x.base, Before: x.tree, At: x.head, Tips: x.tips,
		Cold: x.cold})
}

func (x *exam) request(g *ground) verify.Request {
	ids := strings.Join(x.tasks, ",")
	return loop.Timed(g.config, verify.Request{Label: x.label, Dir: x.at.slot.Dir(), Files: x.at.slot.Files(),
		Env: append(x.at.slot.Env(), "DESCARTES_LOOP_ID="+g.id, "DESCARTES_TAG="+g.tag, "DESCARTES_TASK_ID="+ids,
			"SCUD_TASK_ID="+ids), Log: x.log, Redact: g.tools.Redact})
}

// started says that a check begins, and ended how it came out.
func (x *exam) started(g *ground, c *attempt.Command, task string) *journal.Event {
	d := &journal.Detail{Checked: journal.Checked{Check: c.Name, Baseline: x.before}, Files: journal.Files{Alone: true},
		Client: journal.Client{Log: shown(g, x.log)}}
	if !x.before {
		d.At = string(x.when)
	}
	return &journal.Event{Type: journal.VerifyStarted, Unit: journal.Unit{Task: task}, Detail: d}
}

func (x *exam) ended(c *attempt.Command, res *verify.Result) *journal.Event {
	e := &journal.Event{Type: journal.VerifyFinished, Tree: string(x.tree), Detail: loop.VerifyDetail(*res)}
	e.Detail.At, e.Detail.Command = string(x.when), c.Run
	if !res.Passed {
		e.Reason, e.Detail.Output = res.Reason(), res.Tail
	}
	return e
}

// tidy puts back what a check must not change; its other changes go with what the tree is prepared for next.
func (x *exam) tidy(ctx context.Context, v voice) error {
	if err := v.tell(&attempt.Step{Moment: attempt.Ended, Who: "verification"}); err != nil {
		return err
	}
	notes, err := x.at.slot.Repair(context.WithoutCancel(ctx), "verification")
	return errors.Join(err, v.note(notes...))
}

// run runs the checks in order, up to the first that fails, or all. The tree is checked out anew for each.
func (x *exam) run(ctx context.Context, g *ground, list []attempt.Command, all bool, v voice) (out []attempt.Ran,
	err error) {
	for _, c := range list {
		if err := x.prepare(context.WithoutCancel(ctx), g, v); err != nil {
			return out, err
		}
		if c.Name != "" || !x.quiet {
			if err := v.write(x.started(g, &c, "")); err != nil {
				return out, err
			}
		}
		res, err := attempt.Check(ctx, x.at.runner.Verify, x.request(g), &c)
		if err == nil {
			err = x.tidy(ctx, v)
		}
		if err != nil {
			return out, err
		}
		if !res.Cancelled && (c.Name != "" || !x.quiet) {
			if err := v.write(x.ended(&c, &res)); err != nil {
				return out, err
			}
		}
		if out = append(out, attempt.Ran{Command: c, Result: res}); res.Cancelled || !res.Passed && !all {
			break
		}
	}
	return out, nil
}

// failed are the checks that did not pass; cut says that one came to no end.
func failed(list []attempt.Ran) (names []string, first *verify.Result, cut bool) {
	for i := range list {
		switch one := &list[i]; {
		case one.Result.Cancelled:
			cut = true
		case !one.Result.Passed:
			names, first = append(names, one.Command.Name), cmp.Or(first, &one.Result)
		}
	}
	return names, first, cut
}

// baseline checks the tip as it is before any attempt. The outcome is why the run cannot start. Where the setting lets a
// run start with checks that fail and this one still cannot, the check has come to no end for the machine, and the
// outcome is trouble. own is what the run knows of its checks, key names its list.
func baseline(ctx context.Context, g *ground, now standing, a scheduler.Check, key string, own journal.Checks,
	checks []attempt.Command, at *tree,
	v voice) (r result, err error) {
	e := scheduler.CheckEnded{Purpose: scheduler.Baseline, Result: scheduler.Passed}
	x := exam{at: at, base: now.chain.Tree, tree: now.chain.Tree, tips: now.chain.Tips(), head: headOf(&now),
		label: "baseline", log: g.home.NamedLog(g.id, "baseline"), before: true}
	setting := cmp.Or(g.config.Baseline, config.BaselineRequire)
	before := loop.Earlier(g.home, key, g.id)
	decides, unproven := false, false
	var standing []*loop.Baseline
	for _, c := range checks {
		c.Bar = nil // nothing is known to pass or to fail yet, but what a person accepted
		if len(a.Known) > 0 {
			c.Bar = &verify.Bar{Red: a.Known}
		}
		mine := own.Named(c.Name)
		if before.Passed(ctx, g.repo, mine.Pass, x.tree, &c.Check, g.tools.Redact.Text) &&
			(mine.Known != nil || !before.Passes.Named(c.Name).Pass.Told) { // else the results are needed
			decides = decides || c.At(verify.AtAttempt)
			continue
		}
		b, err := x.untouched(ctx, g, &c, "", v)
		if err != nil {
			return r, err
		}
		if b.Result.Cancelled {
			e.Result = scheduler.Cut
			return result{event: e}, nil
		}
		if setting == config.BaselineKnown && b.Comparable() {
			b.New = before.Unknown(&c.Check, b.Result.Tests, g.tools.Redact.Text)
		}
		out, note := b.Outcome(setting, g.tools.Redact)
		if out != nil {
			r.out, e.Result = out, scheduler.Failed
			if setting != config.BaselineRequire {
				e.Result = scheduler.Cut
			}
			r.event = e
			return r, nil
		}
		var notes []string
		if note != "" {
			notes = append(notes, note)
		}
		if (g.config.ProveOf(nil) || g.config.ProvesSome) && !b.Result.Passed && b.Result.Tests == nil && !unproven {
			unproven = true
			notes = append(notes, loop.Unproven(&c.Check))
		}
		if err := v.note(notes...); err != nil {
			return r, err
		}
		if t := b.Result.Tests; !b.Result.Passed && setting == config.BaselineKnown && t != nil {
			e.Known = append(e.Known, t.Failed...)
		}
		if b.Standing(setting) {
			standing = append(standing, b)
		} else if c.At(verify.AtAttempt) {
			decides = true
		}
	}
	if setting == config.BaselineKnown && !decides && len(standing) > 0 {
		r.out, e.Result = loop.Blinds(standing, g.tools.Redact), scheduler.Cut
	}
	r.event = e
	return r, nil
}

// recheck runs the checks on the tip as it is, because a task failed by one of them and nobody else.
func recheck(ctx context.Context, g *ground, now standing, a scheduler.Check, checks []attempt.Command, at *tree,
	v voice) (r result, err error) {
	e := scheduler.CheckEnded{Purpose: scheduler.Recheck, Task: a.Task, Result: scheduler.Passed}
	x := exam{at: at, base: now.chain.Tree, tree: now.chain.Tree, tips: now.chain.Tips(), head: headOf(&now),
		label: "baseline", log: g.home.NamedLog(g.id, "baseline"), before: true}
	for _, c := range allowing(a.Known, checks) {
		b, err := x.untouched(ctx, g, &c, a.Task, v)
		if err != nil {
			return r, err
		}
		if b.Result.Cancelled {
			e.Result = scheduler.Cut
			return result{event: e}, nil
		}
		if !b.Result.Passed {
			res := attempt.Result{Verify: &b.Result, Reason: b.Result.Reason()}
			e.Result, e.Signature = scheduler.Failed, signature(&res)
			if x.cold = at.slot.Layers() != nil && b.Result.Overran == ""; x.cold {
				again, err := x.untouched(ctx, g, &c, a.Task, v)
				if err != nil {
					return r, err
				}
				b.Warm = again.Result.Passed
			}
			r.why = g.tools.Redact.Text(b.Reason())
			break
		}
	}
	r.event = e
	return r, nil
}

// untouched runs a check on the tip. Where it fails, and passes beside files that a fresh clone lacks, these are named;
// where it fails there too, what leads nowhere there.
func (x *exam) untouched(ctx context.Context, g *ground, c *attempt.Command, task string, v voice) (*loop.Baseline,
	error) {
	b, err := x.tryBaseline(ctx, g, c, task, v)
	if err != nil || b.Result.Passed || b.Result.Cancelled || c.At(verify.AtEnd) || task != "" {
		return b, err
	}
	if x.at.ordinary {
		return b, lacks(ctx, b, x.at.slot)
	}
	slot, err := g.pool.Take(context.WithoutCancel(ctx), 0)
	if err != nil || slot == nil {
		return b, err
	}
	s, err := g.seat(slot)
	if err != nil {
		return nil, err
	}
	y := *x
	y.at = &tree{seats: s, ordinary: true}
	beside, err := y.besides(ctx, g, v)
	if err == nil && len(beside) > 0 {
		var in *loop.Baseline
		if in, err = y.tryBaseline(ctx, g, c, task, v); err == nil && !in.Result.Cancelled {
			b, err = in.InClone(b, beside, g.config.Pool.Keep)
		}
	}
	if err == nil && !b.Result.Passed && len(b.Beside) == 0 {
		err = lacks(ctx, b, slot)
	}
	return b, errors.Join(err, s.end())
}

// lacks notes what a slot lacks of the user's tree in which a check fails.
func lacks(ctx context.Context, b *loop.Baseline, slot *slot.Slot) (err error) {
	b.Slot = slot.Number
	b.Dangling, err = slot.Dangling(context.WithoutCancel(ctx))
	return err
}

// besides is what an ordinary slot has that the check tree lacks.
func (x *exam) besides(ctx context.Context, g *ground, v voice) ([]string, error) {
	if err := x.prepare(context.WithoutCancel(ctx), g, v); err != nil {
		return nil, err
	}
	return x.at.slot.Beside(ctx)
}

func (x *exam) tryBaseline(ctx context.Context, g *ground, c *attempt.Command, task string, v voice) (*loop.Baseline,
	error) {
	if err := x.prepare(context.WithoutCancel(ctx), g, v); err != nil {
		return nil, err
	}
	start := x.started(g, c, task)
	start.Detail.Alone = !x.at.ordinary
	if err := v.write(start); err != nil {
		return nil, err
	}
	b, err := loop.TryBaseline(ctx, x.at.runner.Verify, x.request(g), c, g.tools.Withheld.Verify)
	if err == nil {
		err = x.tidy(ctx, v)
	}
	if err != nil {
		return nil, fmt.Errorf("check the tip: %w", err)
	}
	b.Task = task
	return b, v.write(b.EndLine(x.tree, g.config.Baseline, !x.at.ordinary))
}
