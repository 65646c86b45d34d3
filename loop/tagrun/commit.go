package tagrun

import (
	"context"
	"fmt"
	"slices"

	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/verify"
)

// isAside reports whether the commits go to another branch than the one that the run began at.
func (s *standing) isAside() bool { return s.branch == s.aside && s.of != s.aside }

// last is the ref that keeps the last commit that was made for the branch, set before the branch moves.
func (g *ground) last() string { return "refs/descartes/" + g.id + "/commit" }

// to is the branch that gets the commits.
func (s *standing) to() trunk.Branch {
	return trunk.Branch{Ref: s.branch, Aside: s.aside, Else: s.other}
}

// head is the commit of the branch.
func (s *standing) head(ctx context.Context, g *ground) (string, error) {
	if !s.chain.Saved { // the branch may be to be made
		head, err := trunk.TipOf(ctx, g.repo, s.branch)
		return head, wrapped("read the branch", err)
	}
	head, err := s.to().Head(ctx, g.repo, s.chain.On)
	if err != nil {
		return "", gitErr("read the branch", err)
	}
	return head, nil
}

// bringsOf are the tasks that a commit of the trunk up to an entry brings to the branch.
func bringsOf(now *standing, tip int) []string { return now.chain.Loose(tip) }

// commitWave commits the trunk up to an entry, with the list, and moves the branch, which the user's files follow.
// Where they cannot, or the branch has commits that the trunk cannot have, the commit goes to the branch aside. by are
// the attempts that receipts are about, by task.
func commitWave(ctx context.Context, g *ground, now standing, a scheduler.Commit, w trunk.Wave, files map[string][]byte,
	by map[string]journal.Attempt, checks []attempt.Command, at *tree, v voice) (r result, err error) {
	e := scheduler.Committed{Wave: a.Wave, Tip: a.Tip, Result: scheduler.Passed}
	gctx := context.WithoutCancel(ctx)
	what := fmt.Sprintf("commit wave %d", a.Wave)
	next := now
	next.chain = now.chain.Clone()
	c := &next.chain
	if a.Aside {
		next.branch = next.aside
	}
	head, err := next.base(gctx, g, a.Aside)
	if err != nil {
		return r, err
	}
	if !a.Aside && head != c.On {
		if slices.ContainsFunc(c.Links, func(l trunk.Link) bool { return l.Branch == head }) { // it came in before
			return r, gitErr(what, &gitops.RefusedError{Reason: fmt.Sprintf("%s went back to commit %.12s meanwhile",
				trunk.ShortRef(now.branch), head), Hint: "resume the run"})
		}
		e.Result = scheduler.Moved
		return result{event: e}, nil
	}
	onto, met, err := c.Onto(gctx, a.Tip)
	if err != nil {
		return r, gitErr(what, err)
	}
	if len(met) > 0 {
		e.Result = scheduler.Failed
		return result{event: e, why: conflicts(&trunk.Clash{Conflicts: met})}, nil
	}
	if e.Result, err = checkOnto(ctx, g, &next, a.Tip, onto, files, checks, at, v); err != nil ||
		e.Result != scheduler.Passed {
		return result{event: e}, err
	}
	units := bringsOf(&now, a.Tip)
	crash.Point("before-wave-commit")
	hash, made, err := makeCommit(ctx, g, &now, at, v, gitops.Wave{Message: g.tools.Redact.Text(w.Message()), Tree: onto,
		On: head, Began: c.Links[0].Head, Files: files})
	if err != nil {
		return r, gitErr(what, err)
	}
	if made.Empty && (len(units) == 0 || head == "") {
		return result{event: e}, nil
	}
	tree, err := g.repo.CommitTree(hash)
	if err != nil {
		return r, gitErr(what, err)
	}
	tip, err := next.joined(gctx, g, a.Tip, head, hash, tree)
	if err != nil {
		return r, gitErr(what, err)
	}
	under, met, err := c.Under(gctx, onto, tree)
	if err == nil && len(met) > 0 {
		err = &gitops.RefusedError{Reason: conflicts(&trunk.Clash{Conflicts: met})}
	}
	if err == nil {
		err = g.repo.SetRef(gctx, g.last(), tip, "descartes: made")
	}
	if err != nil {
		return r, gitErr(what, err)
	}
	if !made.Empty {
		if err := next.advance(gctx, g, head, tip, false, v); err != nil {
			// another run or program committed meanwhile
			if now, herr := next.head(gctx, g); herr == nil && now != head && now != tip {
				e.Result = scheduler.Moved
				return result{event: e}, nil
			}
			return r, gitErr(what, err)
		}
	}
	crash.Point("wave-committed")
	if err := c.Committed(gctx, tip, under, units); err != nil {
		return r, gitErr(what, err)
	}
	e.Aside = a.Aside || next.branch != now.branch
	r = result{event: e, now: &next}
	if made.Empty {
		return r, nil
	}
	line := &journal.Event{Type: journal.WaveCommitted, Unit: journal.Unit{Wave: a.Wave, Of: len(made.Paths)},
		Commit: hash, Tree: string(tree), Tasks: w.Does(), Message: w.Line()}
	if w.PerTask && len(units) == 1 {
		line.Task = units[0]
	}
	r.lines = append(r.lines, line)
	if err := v.note(made.Notes...); err != nil {
		return r, err
	}
	brought := journal.WaveCommit{Wave: a.Wave, Commit: hash, Tasks: line.Tasks}
	return r, writeReceipts(ctx, g, []journal.WaveCommit{brought}, by, v)
}

// joined is a commit with those of other branches joined to it that came in with the first entries, so that the branch
// has them too.
func (s *standing) joined(ctx context.Context, g *ground, tip int, head, hash string, tree gitops.Tree) (string, error) {
	for _, other := range s.chain.Others(tip) {
		if hash == head || head != "" && g.repo.LeadsTo(ctx, head, other) {
			continue
		}
		var err error
		if hash, err = g.repo.JoinBranches(ctx, tree, fmt.Sprintf("%.12s", other), trunk.ShortRef(s.branch), hash,
			other); err != nil {
			return "", err
		}
	}
	return hash, nil
}

// base is the commit that the next one has as its parent. The branch aside begins at the last commit of the branch that
// the trunk has.
func (s *standing) base(ctx context.Context, g *ground, aside bool) (string, error) {
	if !aside {
		return s.head(ctx, g)
	}
	at, err := g.repo.RefCommit(s.aside)
	if err != nil || at == "" || at == s.chain.On || g.repo.LeadsTo(ctx, s.chain.On, at) {
		return s.chain.On, err
	}
	name := trunk.ShortRef(s.aside)
	return "", gitErr("commit", &gitops.RefusedError{Reason: "the branch " + name +
		", where the commits would go, has commits that they lack",
		Hint: "git branch -m " + name + " ANOTHER-NAME, then resume the run"})
}

// checkOnto checks what a commit would have, if nobody did: some of the branch's own commits came in after the entry
// that is committed.
func checkOnto(ctx context.Context, g *ground, s *standing, tip int, onto gitops.Tree, files map[string][]byte,
	checks []attempt.Command, at *tree, v voice) (scheduler.Result, error) {
	link := s.chain.UpTo(tip)
	if onto == link.Tree || onto == s.chain.Tree {
		return scheduler.Passed, nil
	}
	changed, err := g.repo.Changed(ctx, link.Tree, onto)
	if err != nil {
		return "", gitErr("look at what is committed", err)
	}
	if !slices.ContainsFunc(changed, func(c gitops.Change) bool { _, list := files[c.Path]; return !list }) {
		return scheduler.Passed, nil
	}
	x := exam{at: at, base: onto, tree: onto, head: link.Head, when: verify.AtMerge,
		label: "integration of what was committed meanwhile", log: g.home.NamedLog(g.id, "integration"), quiet: true}
	ran, err := x.run(ctx, g, checks, false, v)
	_, first, cut := failed(ran)
	switch {
	case err != nil:
		return "", err
	case cut:
		return scheduler.Cut, nil
	case first != nil:
		return scheduler.Failed, nil
	}
	return scheduler.Passed, nil
}

// makeCommit makes a commit that no ref names yet. Where the git program makes it, or hooks look at its message, a check
// tree has the files.
func makeCommit(ctx context.Context, g *ground, now *standing, at *tree, v voice, w gitops.Wave) (hash string,
	c gitops.Commit, err error) {
	repo := g.repo
	if repo.ByGit() != "" || repo.ChecksMessage() {
		gctx := context.WithoutCancel(ctx)
		base, err := repo.CommitTree(w.On)
		if err != nil {
			return "", c, err
		}
		start := slot.Start{Base: base, Before: w.Tree, At: w.On}
		if err := at.prepare(gctx, g, v, start); err != nil {
			return "", c, err
		}
		if repo.ChecksMessage() && w.Tree != base {
			in := attempt.Input{Name: "commit", Log: g.home.NamedLog(g.id, "commit"), Env: at.slot.Env()}
			if w.Message, err = at.runner.Message(ctx, at.slot, w.Message, g.hooks(now), in); err != nil {
				return "", c, err
			}
			if repo.ByGit() != "" {
				if err := at.prepare(gctx, g, v, start); err != nil {
					return "", c, err
				}
			}
		}
		if repo.ByGit() != "" {
			repo = at.slot.Repo()
		}
	}
	if c, err = repo.CommitWave(ctx, w); err != nil {
		return "", c, err
	}
	if c.Empty {
		return w.On, c, nil
	}
	return c.Hash, c, nil
}

// advance moves the branch to a commit, together with the user's files if it is checked out. If that is impossible, the
// branch aside is the run's from then on. again says that an earlier call was cut short.
func (s *standing) advance(ctx context.Context, g *ground, from, to string, again bool, v voice) error {
	if s.branch == s.aside { // it may be to be made
		if at, err := g.repo.RefCommit(s.branch); err != nil {
			return err
		} else if at == "" {
			return g.repo.MoveRef(ctx, s.branch, "", to, "descartes: commits that the files cannot follow")
		} else if at != from && g.repo.LeadsTo(ctx, from, at) {
			from = at
		}
	}
	var f trunk.Followed
	err := g.inTree(ctx, v, func() (err error) {
		f, err = s.to().Follow(ctx, g.repo, from, to, again)
		return err
	})
	if err != nil {
		return err
	}
	if len(f.Left) > 0 {
		s.branch, s.aside = f.Ref, f.Ref
		name := trunk.ShortRef(f.Ref)
		return v.note(fmt.Sprintf("your working tree cannot follow: %s; the commits of this run are %s",
			gitops.Reasons(f.Left), trunk.OnBranch(name, g.repo.Merging(ctx, name))))
	}
	if !f.Behind || s.away || s.branch == s.aside || g.config.Git.Branch != "" || g.config.Git.CreateBranch {
		return nil
	}
	s.away = true
	return v.note(trunk.ShortRef(s.branch) +
		" is not checked out any more: the commits of this run go there, and your files stay as they are")
}

// cutTrunk ends the trunk before what a person took out of the branch.
func cutTrunk(ctx context.Context, g *ground, now standing, a scheduler.CutTrunk, _ voice) (r result, err error) {
	ctx = context.WithoutCancel(ctx)
	next := now
	next.chain = now.chain.Clone()
	news, err := now.news(ctx, g)
	if err != nil {
		return r, err
	}
	head, err := now.head(ctx, g)
	if err == nil { // what a person dropped is not finished by the next resume
		err = g.repo.DeleteRefs(ctx, g.last())
	}
	if err == nil {
		err = next.chain.Cut(ctx, g.repo, a.Tip, head, g.tag, g.id, news.lost)
	}
	if err != nil {
		return r, gitErr("go back to what the branch has", err)
	}
	news, err = next.news(ctx, g)
	if err != nil {
		return r, err
	}
	return result{now: &next, event: scheduler.Rewound{Chain: entriesOf(&next.chain), In: next.chain.In(),
		Branch: news.foreign, Wave: news.wave, Open: a.Open}}, nil
}
