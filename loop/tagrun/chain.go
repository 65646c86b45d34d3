package tagrun

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
)

// trunkState is what git has of a run: its trunk, and what the branch has of that.
type trunkState struct {
	now    standing
	chain  []scheduler.Entry
	in     int      // how many of them the branch has
	branch []string // commits of the branch that are not the run's, and that the trunk lacks
	lost   []string // tasks whose commits are gone from the branch
	aside  bool     // the run's branch is the one aside
	wave   int      // the highest wave of which the branch has a commit of the run's
	lines  []*journal.Event
	other  string // commit of the branch checked out that clashes with the run's own, which lacks it
}

// begins says where a run is to begin.
type begins struct {
	branch string               // ref that is to get the commits; "" for a detached HEAD
	takes  string               // the branch that was asked for by name, brought up to what is checked out; "" for none
	files  map[string][]byte    // that the run writes whatever the two have of them
	made   trunk.Made           // what the list says of tasks
	commit []journal.WaveCommit // that the journal knows
}

// readTrunk reads the trunk of a resumed run, or plans where that of a new one begins: at the branch, at the branch
// aside, or where the last run over the tag left what no branch has. What a killed run made and did not write down is
// finished, and in lines.
func readTrunk(ctx context.Context, g *ground, b begins, v voice) (t trunkState, err error) {
	t.now = standing{of: b.branch, branch: b.branch,
		chain: trunk.Chain{Repo: g.repo, Ref: store.TrunkRef(g.id), Now: g.tools.Now}}
	if b.takes != "" {
		err := g.inTree(ctx, v, func() error { return g.repo.TakeBranch(ctx, b.takes, b.files) })
		if clash, ok := errors.AsType[*gitops.ClashError](err); ok {
			t.other = clash.Commit
		} else if err != nil {
			return t, gitErr("take the branch "+b.takes, err)
		}
	}
	found, err := t.now.chain.Read(ctx)
	if err != nil {
		return t, gitErr("read what is verified", err)
	}
	to, err := trunk.To(ctx, g.repo, b.branch, g.list.Key(), t.now.chain.On)
	if err != nil {
		return t, gitErr("read what is verified", err)
	}
	if t.now.branch, t.now.aside, t.now.other = to.Ref, to.Aside, to.Else; t.now.branch == "" {
		t.now.branch = t.now.aside
	}
	switch {
	case !found && len(b.commit) > 0:
		return t, &trunkGone{t.now.chain.Ref}
	case !found:
		err = t.now.plan(ctx, g, b.made, v)
	default:
		err = t.now.finish(ctx, g, v)
	}
	if err != nil {
		return t, err
	}
	return t, t.read(ctx, g, b)
}

// trunkGone is why a run cannot go on: the ref with the work that it merged is gone. Another run begins at the branch.
type trunkGone struct{ ref string }

func (e *trunkGone) Error() string {
	return e.ref + ", which has the work that this run merged, is gone: what the branch does not have is to be made again"
}

// read derives the rest from the chain and the branch.
func (t *trunkState) read(ctx context.Context, g *ground, b begins) error {
	s := &t.now
	if err := t.record(ctx, g, b); err != nil {
		return err
	}
	news, err := s.news(ctx, g)
	if err != nil {
		return err
	}
	t.chain, t.in, t.branch, t.lost, t.wave = entriesOf(&s.chain), s.chain.In(), news.foreign, news.lost, news.wave
	t.aside = s.isAside() && b.branch != ""
	if t.other != "" && len(t.branch) == 0 && !g.repo.LeadsTo(ctx, s.chain.Tip, t.other) {
		t.branch = []string{t.other}
	}
	return nil
}

// plan sets where the trunk of a new run begins.
func (s *standing) plan(ctx context.Context, g *ground, made trunk.Made, v voice) error {
	last, err := trunk.LeftBy(ctx, g.repo, s.of, g.list.Key(), made)
	if err == nil && last != nil {
		last.Ref, last.Now, last.Saved = s.chain.Ref, s.chain.Now, false
		at, err := g.repo.RefCommit(s.branch)
		if err == nil && at == "" { // it is to be made
			if at, err = trunk.TipOf(ctx, g.repo, s.branch); err == nil && at != "" {
				err = g.repo.MoveRef(ctx, s.branch, "", at, "descartes: made")
			}
		}
		if err == nil {
			s.chain = *last
			err = s.chain.GoOn(ctx, g.id)
		}
		return wrapped("begin where the last run ended", err)
	}
	if err != nil {
		return wrapped("start", err)
	}
	on := ""
	err = g.inTree(ctx, v, func() (err error) {
		tip, ahead, err := trunk.GroundOf(ctx, g.repo, s.branch, s.aside)
		if on = tip; err != nil || ahead == "" || s.branch == s.aside {
			return err
		}
		on = ahead
		f, err := s.to().Follow(ctx, g.repo, tip, ahead, false)
		if err == nil && len(f.Left) > 0 {
			s.branch, s.aside = f.Ref, f.Ref
		}
		return err
	})
	if err == nil {
		err = s.chain.Plan(ctx, on)
	}
	return wrapped("start", err)
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return gitErr(what, err)
}

// finish has the branch follow the last commit of a killed run, if that was cut short. One that no branch got is
// forgotten: it is made again. One that the chain has was published, and a person may have taken it back.
func (s *standing) finish(ctx context.Context, g *ground, v voice) error {
	commit, err := g.repo.RefCommit(g.last())
	if err != nil {
		return gitErr("finish the last commit", err)
	}
	if at, err := g.repo.RefCommit(s.aside); err == nil && at != "" && at == commit {
		s.branch = s.aside
	}
	if commit == "" || commit == s.chain.On || slices.ContainsFunc(s.chain.Links,
		func(l trunk.Link) bool { return l.Branch == commit }) {
		return nil
	}
	head, err := s.head(ctx, g)
	if err != nil || head == "" {
		return err
	}
	_, follows, err := g.repo.History(ctx, commit, head, 2)
	if err == nil && follows {
		err = s.advance(ctx, g, head, commit, true, v)
	}
	return wrapped("finish the last commit", err)
}

// record adds to the trunk the commits that a killed run made for the branch and did not get to add, and writes down
// those that the journal lacks.
func (t *trunkState) record(ctx context.Context, g *ground, b begins) error {
	s := &t.now
	head, err := s.head(ctx, g)
	if err != nil || head == "" {
		return err
	}
	own, others, err := s.chain.News(ctx, g.repo, head, g.id)
	if err != nil {
		return gitErr("look for the commits of a killed run", err)
	}
	if len(own) == 1 && len(others) == 0 && own[0].Hash == head && own[0].Parent() == s.chain.On {
		units := own[0].TasksOf(g.tag)
		onto, met, err := s.chain.Onto(ctx, tipOf(&s.chain, units))
		if err == nil && len(met) == 0 {
			var under gitops.Tree
			if under, met, err = s.chain.Under(ctx, onto, own[0].Tree); err == nil && len(met) == 0 {
				err = s.chain.Committed(ctx, head, under, units)
			}
		}
		if err != nil {
			return gitErr("look for the commits of a killed run", err)
		}
	}
	gone := s.chain.Gone()
	for _, l := range s.chain.Links {
		if l.Branch == "" || gone[l.Branch] || slices.ContainsFunc(b.commit, func(w journal.WaveCommit) bool { return w.Commit == l.Branch }) {
			continue
		}
		made, err := g.repo.ReadCommit(l.Branch)
		if err != nil {
			return gitErr("look for the commits of a killed run", err)
		}
		number, err := strconv.Atoi(strings.Join(made.Trailers["Descartes-Wave"], ""))
		if err != nil || !slices.Contains(made.Trailers["Descartes-Loop"], g.id) {
			continue
		}
		files, err := g.repo.CommitChanges(ctx, l.Branch)
		if err != nil {
			return gitErr("look for the commits of a killed run", err)
		}
		t.lines = append(t.lines, &journal.Event{Type: journal.WaveCommitted,
			Unit: journal.Unit{Wave: number, Of: len(files)}, Commit: l.Branch, Tree: string(made.Tree),
			Tasks: made.TasksOf(g.tag), Message: made.Subject})
	}
	return nil
}

// tipOf is how many entries a commit has that names these units.
func tipOf(c *trunk.Chain, units []string) int {
	list := c.Entries()
	n := c.In()
	for i, e := range list {
		if e.Unit != "" && !e.In && slices.Contains(units, e.Unit) {
			n = max(n, i+1)
		}
	}
	for n < len(list) && list[n].In {
		n++
	}
	return n
}

// entriesOf is the chain in the machine's words.
func entriesOf(c *trunk.Chain) (list []scheduler.Entry) {
	for _, e := range c.Entries() {
		list = append(list, scheduler.Entry{Task: e.Unit, Commit: e.Commit})
	}
	return list
}

// news is how the branch differs from what the trunk knows of it.
type news struct {
	foreign []string // commits that the trunk lacks, oldest first; of the run's own those that somebody rewrote
	lost    []string // tasks whose commits are gone from it
	wave    int      // the highest wave of which it has a commit of the run's
}

func (s *standing) news(ctx context.Context, g *ground) (n news, err error) {
	head, err := s.head(ctx, g)
	if err != nil {
		return n, err
	}
	if head == s.chain.On {
		head = ""
	}
	own, others, err := s.chain.News(ctx, g.repo, head, g.id)
	if err != nil {
		return n, gitErr("look at the branch", err)
	}
	for _, c := range append(own, others...) {
		n.foreign = append(n.foreign, c.Hash)
	}
	commits, err := s.commits(g)
	if err != nil {
		return n, err
	}
	if head != "" {
		if n.lost, err = s.chain.Lost(ctx, g.repo, head, g.tag, g.id, commits); err != nil {
			return n, gitErr("look at the branch", err)
		}
	}
	for _, c := range commits {
		if !slices.ContainsFunc(c.Tasks, func(id string) bool { return slices.Contains(n.lost, id) }) {
			n.wave = max(n.wave, c.Wave)
		}
	}
	if head != "" && len(n.lost) == 0 { // up to it; and where it has gone back to what it was that comes in too
		n.foreign = append(slices.DeleteFunc(n.foreign, func(c string) bool { return c == head }), head)
	}
	return n, nil
}

// commits are the run's own that the branch got, by the chain.
func (s *standing) commits(g *ground) (list []journal.WaveCommit, err error) {
	gone := s.chain.Gone()
	for _, l := range s.chain.Links {
		if l.Branch == "" || l.Unit != "" || gone[l.Branch] {
			continue
		}
		made, err := g.repo.ReadCommit(l.Branch)
		for err == nil && len(made.Parents) > 1 && len(made.Trailers["Descartes-Loop"]) == 0 { // it joins another branch
			made, err = g.repo.ReadCommit(made.Parent())
		}
		if err != nil {
			return nil, gitErr("read the commits of the run", err)
		}
		if !slices.Contains(made.Trailers["Descartes-Loop"], g.id) {
			continue
		}
		wave, _ := strconv.Atoi(strings.Join(made.Trailers["Descartes-Wave"], ""))
		list = append(list, journal.WaveCommit{Wave: wave, Commit: l.Branch, At: made.When, Tasks: made.TasksOf(g.tag),
			Subject: made.Subject})
	}
	return list, nil
}

// watchBranch says what the branch got since, besides commits that are known, and what it lost; false for nothing.
func watchBranch(ctx context.Context, g *ground, now standing, known []string) (e scheduler.BranchMoved, moved bool,
	err error) {
	head, err := now.head(ctx, g)
	if err != nil || head == now.chain.On {
		return e, false, err
	}
	n, err := now.news(ctx, g)
	if err != nil {
		return e, false, err
	}
	e.Lost = n.lost
	for _, c := range n.foreign {
		if !slices.Contains(known, c) {
			e.Commits = append(e.Commits, c)
		}
	}
	return e, len(e.Commits)+len(e.Lost) > 0, nil
}

// saveTrunk makes the branch if there is none, and the trunk's ref, before the first attempt. A run that has a trunk had its
// branch made: where it cannot be found it is gone.
func saveTrunk(ctx context.Context, g *ground, now standing) (standing, error) {
	ctx = context.WithoutCancel(ctx)
	now.chain = now.chain.Clone()
	if now.chain.On != "" && len(now.chain.Links) == 1 {
		at, err := g.repo.RefCommit(now.branch)
		if err == nil && at == "" {
			err = g.repo.MoveRef(ctx, now.branch, "", now.chain.On, "descartes: made")
		}
		if err != nil {
			return now, gitErr("make the branch "+trunk.ShortRef(now.branch), err)
		}
	}
	if now.chain.Tip != "" {
		if err := now.chain.Save(ctx); err != nil {
			return now, gitErr("begin "+now.chain.Ref, err)
		}
	}
	return now, nil
}

// leaveTrunk keeps the trunk for the next run over the list if it has work that the branch lacks. What earlier runs left
// and the branch has by now it removes.
func leaveTrunk(ctx context.Context, g *ground, now standing) (removed []gitops.Ref, err error) {
	ctx = context.WithoutCancel(ctx)
	removed, err = now.chain.Leave(ctx, g.repo, g.list.Key(), now.of, now.isAside(), func(run string) bool {
		_, err := os.Stat(g.home.Run(run))
		return err == nil
	})
	return removed, wrapped("keep the trunk", err)
}
