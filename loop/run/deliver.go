package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/trunk"
	"descartes/scheduler/prompt"
)

// deliver brings the work at hand where it belongs.
func (r *Run) deliver() error {
	if err := r.happened(prompt.DeliverStarted{}); err != nil {
		return err
	}
	t, ctx, p, job, redact := r.at, r.asks.Now, r.place, r.job, r.tools.Redact
	hooks, over := r.asks.Committing(r.job.Config.Deadline)
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
		e.Error = gate.Digest(d.why.Error())
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

// delivered is what a delivery came to.
type delivered struct {
	verdict prompt.Verdict
	why     error  // of a commit that was refused
	apart   string // why the user's tree did not take it
	notes   []string
}

// deliver brings the work of a try that passed where it belongs: into a commit of the branch, which the user's files
// follow, or into his tree, all of it or nothing.
func deliver(ctx, hooks context.Context, p *place, job *loop.PromptJob, t *try, message func(string) string) (d delivered,
	err error) {
	if p.kind == prompt.Tree {
		d, err = arrive(ctx, p, t)
	} else {
		d, err = commit(ctx, hooks, p, job, t, message)
	}
	if err != nil || d.verdict != prompt.Passed {
		return d, err
	}
	note, err := trunk.BringNamed(ctx, p.repo, p.id, &t.res.Work.Named, p.inTree)
	if note != "" {
		d.notes = append(d.notes, note)
	}
	return d, err
}

func arrive(ctx context.Context, p *place, t *try) (d delivered, err error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	why := ""
	if err := p.inTree(gctx, func() (err error) {
		why, err = p.repo.Arrive(context.WithoutCancel(ctx), t.base, t.res.Work.After)
		return err
	}); err != nil {
		return d, gitErr(fmt.Sprintf("bring the work of iteration %d into your tree", t.Number), err)
	}
	if d.verdict = prompt.Passed; why != "" {
		d.verdict = prompt.Refused
		d.apart = fmt.Sprintf("your working tree cannot take what iteration %d changed: %s; it is kept as %s", t.Number,
			why, p.iterationRef(t.Number))
	}
	return d, nil
}

// commit makes the commit, and moves the branch. hooks is over when no hook may go on.
func commit(ctx, hooks context.Context, p *place, job *loop.PromptJob, t *try, message func(string) string) (d delivered,
	err error) {
	ctx = context.WithoutCancel(ctx)
	head, err := p.head(ctx)
	if err != nil {
		return d, err
	}
	if head != t.tip {
		return delivered{verdict: prompt.Moved}, nil
	}
	own, why, err := ownCommits(ctx, p, job, t, head)
	if err != nil {
		return d, gitErr("read the commits of an iteration", err)
	}
	at := cmp.Or(own, head)
	wave := gitops.Wave{Message: message(subject(job, t.it, p.id)), Tree: t.res.Work.After, On: at, Began: t.hooks}
	heard := heardMessage(hooks, p, job, t, &wave)
	if heard == nil && p.repo.ByGit() != "" { // who makes it reads the files
		p.holds = prompt.Try{}
		base, err := p.repo.CommitTree(at)
		if err == nil {
			_, err = p.ws.Prepare(ctx, slot.Start{Base: base, Before: t.res.Work.After, At: at})
		}
		if err != nil {
			return d, err
		}
	}
	crash.Point("before-iteration-commit")
	c, err := gitops.Commit{}, heard
	if err == nil {
		c, err = p.slot.Repo().CommitWave(hooks, wave)
	}
	switch {
	case err != nil && hooks.Err() != nil:
		return d, gitErr(fmt.Sprintf("commit iteration %d", t.Number), err)
	case err != nil:
		return delivered{verdict: prompt.Failed, why: gitErr(fmt.Sprintf("commit iteration %d", t.Number), err)}, nil
	case c.Empty && at == head:
		return delivered{verdict: prompt.Passed}, nil
	}
	made := cmp.Or(c.Hash, at)
	if err := p.repo.SetRef(ctx, p.last(), made, "descartes: made"); err != nil {
		return d, gitErr(fmt.Sprintf("commit iteration %d", t.Number), err)
	}
	notes, err := advance(ctx, p, head, made, false)
	if err != nil {
		if now, herr := p.head(ctx); herr == nil && now != head && now != made { // somebody else's came first
			return delivered{verdict: prompt.Moved}, nil
		}
		return d, gitErr(fmt.Sprintf("commit iteration %d", t.Number), err)
	}
	crash.Point("iteration-committed")
	d.verdict, d.notes, t.kept.landed = prompt.Passed, append(notes, c.Notes...), made
	if tip := t.res.Work.Commits; tip != "" {
		if t.kept.own = p.repo.LeadsTo(ctx, made, tip); !t.kept.own {
			d.notes = append(d.notes, fmt.Sprintf("iteration %d: one commit has what the agent committed by itself, which %s",
				t.Number, cmp.Or(why, "is not on top of what was committed meanwhile")))
		}
	}
	return d, nil
}

// heardMessage has the user's hooks look at the message of a commit.
func heardMessage(ctx context.Context, p *place, job *loop.PromptJob, t *try, w *gitops.Wave) error {
	base, err := p.repo.CommitTree(w.On)
	if err != nil || !p.repo.ChecksMessage() || w.Tree == base {
		return err
	}
	gctx := context.WithoutCancel(ctx)
	at, err := p.judged(gctx, func(string) error { return nil }) // what it would say was said
	if err != nil {
		return err
	}
	if at == &p.seats {
		p.holds = prompt.Try{}
	}
	if _, err := at.slot.Prepare(gctx, slot.Start{Base: base, Before: w.Tree, At: w.On}); err != nil {
		return err
	}
	w.Message, err = at.runner.Message(ctx, at.slot, w.Message, t.hookLimits(job), at.input(t.in))
	return err
}

// hookLimits are the user's hooks as the run has them.
func (t *try) hookLimits(job *loop.PromptJob) attempt.Hooks {
	return attempt.Hooks{Began: t.hooks, Limit: time.Duration(job.Config.Git.HookTimeout) * time.Second}
}

// ownCommits is the tip of the agent's own commits if they can become the branch's as they are, or "" and why not.
func ownCommits(ctx context.Context, p *place, job *loop.PromptJob, t *try, tip string) (own, why string,
	err error) {
	work := &t.res.Work
	switch {
	case work.Commits == "":
		return "", "", nil
	case tip == "" || tip != t.stand.Head.Hash || !p.repo.LeadsTo(ctx, work.Commits, tip):
		return "", "is not on top of the branch", nil
	case p.repo.NotByUs() != "":
		return "", "is neither signed nor seen by hooks (" + p.repo.NotByUs() + ")", nil
	}
	paths, err := p.repo.Between(ctx, tip, work.Commits)
	if err != nil {
		return "", "", err
	}
	_, criteria := loop.Deciding(job.Gate).(*gate.Criteria)
	for _, path := range paths {
		if slices.Contains(work.Left, path) || slices.Contains(work.Named.Paths, path) || p.repo.Protects(path) ||
			criteria && loop.OfLoopFile(path) {
			return "", "contains " + path + ", which is no work", nil
		}
	}
	return work.Commits, "", nil
}

// subject is the message of an iteration's commit.
func subject(job *loop.PromptJob, it *loop.Iteration, id string) string {
	line := job.Rules.Subject(it)
	if line == "" {
		n := config.Names{Iteration: it.Number, Wave: it.Number, Tag: id, At: gitops.Now()}
		line = n.Expand(cmp.Or(job.Config.Git.CommitTemplate, config.DefaultCommitTemplate))
	}
	return fmt.Sprintf("%s\n\nDescartes-Loop: %s\nDescartes-Iteration: %d\n", strings.TrimSpace(oneline.Text(line)), id,
		it.Number)
}

// advance moves the branch to a commit, together with the user's files if it is checked out. If that is impossible,
// this and later commits go to a branch aside. again says that an earlier call was cut short.
func advance(ctx context.Context, p *place, from, to string, again bool) (notes []string, err error) {
	err = p.inTree(ctx, func() error {
		var left []gitops.LeftOut
		head, err := p.repo.Head(ctx)
		if err != nil {
			return err
		}
		if p.branch == "" && head.Branch != "" {
			left = []gitops.LeftOut{{Path: shortRef(head.Branch),
				Why: "it was checked out meanwhile, and the run began on a detached HEAD"}}
		} else if left, err = p.repo.Advance(ctx, p.branch, from, to, again); err != nil {
			return err
		}
		if len(left) > 0 {
			note, err := giveWay(ctx, p, to, left)
			notes = append(notes, note)
			return err
		}
		if head.Branch != p.branch && !p.strays && p.branch != p.aside() && !p.made {
			p.strays = true
			notes = append(notes, shortRef(p.branch)+
				" is not checked out any more: the commits of this run go there, and your files stay as they are")
		}
		return nil
	})
	return notes, err
}

// giveWay sends the commits from here on to a branch aside, which is made, or moved forward.
func giveWay(ctx context.Context, p *place, commit string, left []gitops.LeftOut) (note string, err error) {
	if p.branch == p.aside() {
		return "", &gitops.RefusedError{Reason: "the branch " + shortRef(p.branch) + " cannot get the commit: " +
			gitops.Reasons(left),
			Hint: "check out another branch, or commit or stash your changes, then resume the run"}
	}
	name := shortRef(p.aside())
	at, err := p.repo.RefCommit(p.aside())
	if err != nil {
		return "", err
	}
	if at != "" && at != commit && !p.repo.LeadsTo(ctx, commit, at) {
		return "", &gitops.RefusedError{
			Reason: fmt.Sprintf("your working tree cannot follow (%s), and the branch %s, where the commits would go, has commits that they lack", gitops.Reasons(left), name),
			Hint:   "git branch -m " + name + " ANOTHER-NAME, then resume the run"}
	}
	if at != commit {
		if err := p.repo.MoveRef(ctx, p.aside(), at, commit,
			"descartes: commits that the files cannot follow"); err != nil {
			return "", err
		}
	}
	p.branch = p.aside()
	return fmt.Sprintf("your working tree cannot follow: %s; the commits of this run are %s", gitops.Reasons(left),
		trunk.OnBranch(name, p.repo.Merging(ctx, name))), nil
}
