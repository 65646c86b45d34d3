package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/safename"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/lab"
	"descartes/loop/slot"
	"descartes/scheduler/prompt"
)

// place is where the run's agents and checks work, and where what passed goes: a slot and a branch, a slot and the
// user's tree, or a folder without git. One action at a time has it.
type place struct {
	kind   prompt.Place
	id     string       // of the run
	root   string       // of the project
	dir    string       // where commands run in it
	repo   *gitops.Repo // nil: a folder
	branch string       // ref that receives the commits; "" for a detached HEAD
	named  []string     // files that every attempt has as the user has them
	ahead  []string     // but those where the branch has gone on from what is checked out
	made   bool         // the branch was asked for by name: that it is not checked out is no news
	takes  string       // the branch that is made, or brought up to date, before the first try; "" for none
	inTree func(ctx context.Context, do func() error) error
	pool   *slot.Pool                      // nil: a folder
	open   func(*slot.Slot) (seats, error) // what works in a slot
	bench  *lab.Lab                        // for looks that run commands on trees; nil: none does
	seats
	checker   *seats // in the check tree; nil while nothing needed it
	leadsBack bool   // it cannot be had: something in it leads into the user's tree

	holds  prompt.Try // whose files the slot has; zero: nobody's
	strays bool       // it was said that the branch is not checked out any more
}

// seats are the slot and what works in it.
type seats struct {
	slot   *slot.Slot // nil: a folder
	ws     preparable
	runner *attempt.Runner
	end    func() error
}

func gitErr(what string, err error) error { return &slot.GitError{What: what, Err: err} }

func isGit(err error) bool {
	_, git := errors.AsType[*slot.GitError](err)
	return git
}

// number is the slot's; 0 for a folder.
func (p *place) number() int {
	if p.slot == nil {
		return 0
	}
	return p.slot.Number
}

// input is what an attempt gets here.
func (s *seats) input(in attempt.Input) attempt.Input {
	if s.slot != nil {
		in.Env = append(slices.Clip(in.Env), s.slot.Env()...)
	}
	return in
}

// tryRef keeps what a try left; iterationRef names the last try of an iteration.
func (p *place) tryRef(t prompt.Try) string {
	return fmt.Sprintf("refs/descartes/%s/iteration-%d-%d", p.id, t.Number, t.Try)
}

func (p *place) iterationRef(n int) string {
	return fmt.Sprintf("refs/descartes/%s/iteration-%d", p.id, n)
}

// last is the ref of the last commit that was made for the branch, set before the branch moves.
func (p *place) last() string { return "refs/descartes/" + p.id + "/commit" }

// aside is the branch for commits that the user's own tree cannot follow.
func (p *place) aside() string { return "refs/heads/descartes/" + safename.Of(p.id) }

func shortRef(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// take opens the slot with a number, or with 0 the first free one; false if another run has it.
func (p *place) take(ctx context.Context, number int) (bool, error) {
	slot, err := p.pool.Take(ctx, number)
	if slot == nil || err != nil {
		return false, err
	}
	p.seats, err = p.open(slot)
	return err == nil, err
}

// judged is where a commit is checked: the check tree, which is taken when it is first needed. A folder without git has
// none. Where something in it leads back into the user's tree the try's own slot has to do.
func (p *place) judged(ctx context.Context, note func(string) error) (*seats, error) {
	if p.checker != nil {
		return p.checker, nil
	}
	if p.slot == nil || p.leadsBack {
		return &p.seats, nil
	}
	taken, err := p.pool.TakeCheck(ctx)
	if err != nil {
		return nil, err
	}
	s, err := p.open(taken)
	if err != nil {
		return nil, err
	}
	if p.checker = &s; !taken.MayLeadBack() {
		return p.checker, nil
	}
	_, err = s.ws.Prepare(ctx, slot.Start{})
	if why := slot.LeadsBack(err); why != "" {
		p.checker, p.leadsBack = nil, true
		if err := s.end(); err != nil {
			return nil, err
		}
		return &p.seats, note("no check tree, so commits are checked where agents worked: " + why)
	}
	return p.checker, err
}

// drop removes the slots of a run that ends because their disk is full: what was left there would fill it at each
// resume. What agents made is under their refs.
func (p *place) drop(t *loop.Tools, least int64) (err error) {
	if t.Free == nil || loop.Room(t.Free, max(least, 1), t.Pool) == "" {
		return nil
	}
	for _, s := range []*seats{&p.seats, p.checker} {
		if s != nil && s.slot != nil {
			err = errors.Join(err, s.slot.Drop())
		}
	}
	return err
}

// of is what works in a slot.
func (p *place) of(slot *slot.Slot) *seats {
	if p.checker != nil && p.checker.slot == slot {
		return p.checker
	}
	return &p.seats
}

// close ends the processes of the slots and releases them.
func (p *place) close() (err error) {
	for _, s := range []*seats{&p.seats, p.checker} {
		if s != nil && s.end != nil {
			err = errors.Join(err, s.end())
		}
	}
	if p.bench != nil {
		err = errors.Join(err, p.bench.Close())
	}
	return err
}

// takeBranch makes the branch that a person asked for, or brings it up to what is checked out.
func (p *place) takeBranch(ctx context.Context) error {
	if p.takes == "" {
		return nil
	}
	if err := p.inTree(ctx, func() error { return p.repo.TakeBranch(ctx, p.takes, nil) }); err != nil {
		return gitErr("take the branch "+p.takes, err)
	}
	if err := p.makeBranch(ctx, "refs/heads/"+p.takes); err != nil {
		return err
	}
	p.takes = ""
	return nil
}

// head is the commit of the branch, or what a branch begins with that is not made yet.
func (p *place) head(ctx context.Context) (string, error) {
	head, err := p.repo.Head(ctx)
	if err != nil {
		return "", gitErr("read the branch", err)
	}
	if p.branch == "" || p.branch == head.Branch {
		return head.Hash, nil
	}
	at, err := p.repo.RefCommit(p.branch)
	if err != nil {
		return "", gitErr("read the branch", err)
	}
	if at == "" && p.takes != "" {
		return head.Hash, nil
	}
	if at == "" {
		return "", gitErr("read the branch", &gitops.RefusedError{Reason: "the branch " + shortRef(p.branch) +
			", which gets the commits, is gone", Hint: "git branch " + shortRef(p.branch) + ", then resume the run"})
	}
	return at, nil
}

// makeBranch makes a branch at HEAD, if there is none.
func (p *place) makeBranch(ctx context.Context, ref string) error {
	at, err := p.repo.RefCommit(ref)
	if err == nil && at == "" {
		var head gitops.Head
		if head, err = p.repo.Head(ctx); err == nil && head.Hash != "" {
			err = p.repo.SetRef(ctx, ref, head.Hash, "descartes: made")
		}
	}
	if err != nil {
		return gitErr("make the branch "+shortRef(ref), err)
	}
	return nil
}

// ground is what a try starts from, and what its work is compared with.
type ground struct {
	tip    string      // the branch's commit
	base   gitops.Tree // what work that is in no commit is compared with: the branch's tip, or the user's tree
	before gitops.Tree // what the agent finds: base with what earlier tries left
	stand  slot.Stand
	came   bool // the rest of what a killed run was bringing into the user's tree is there now
}

// prepare gives the slot what a try starts from: the branch's tip, or the user's tree as it is, with the work of an
// earlier try where there is some that is in no commit.
func (p *place) prepare(ctx context.Context, from prompt.Try, since time.Time, log string) (g ground, err error) {
	p.holds = prompt.Try{}
	start := slot.Start{Since: since, Aside: strings.TrimSuffix(log, ".log"), Named: p.named}
	if p.kind == prompt.Folder {
		g.stand, err = p.ws.Prepare(ctx, start)
		return g, err
	}
	if p.kind == prompt.Branch {
		if g.tip, err = p.head(ctx); err != nil {
			return g, err
		}
		if g.base, err = p.repo.CommitTree(g.tip); err == nil {
			p.ahead, err = p.changedOn(ctx, g.base)
		}
	} else {
		err = p.inTree(ctx, func() (err error) {
			if g.came, err = p.repo.FinishArrival(ctx, true); err == nil {
				g.base, err = p.repo.Snapshot(ctx)
			}
			return err
		})
	}
	if err != nil {
		return g, gitErr("take what there is", err)
	}
	if g.before = g.base; from != (prompt.Try{}) {
		if err := p.continues(ctx, &g, from); err != nil {
			return g, gitErr("take what the last iteration left", err)
		}
	}
	start.But = p.ahead
	start.Base, start.Before, start.At, start.Whole = g.base, g.before, g.tip, g.base != g.before
	g.stand, err = p.ws.Prepare(ctx, start)
	return g, err
}

// changedOn are the paths that the branch, with a tree, has otherwise than what is checked out.
func (p *place) changedOn(ctx context.Context, tip gitops.Tree) (paths []string, err error) {
	if len(p.named) == 0 {
		return nil, nil
	}
	here, err := p.repo.HeadTree(ctx)
	if err != nil || here == tip {
		return nil, err
	}
	changes, err := p.repo.Changed(ctx, here, tip)
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths, err
}

// continues puts an earlier try's work on top of what there is. Where the two do not go together the agent finds the
// work as it was; that they do not, its check will say, or its arrival in the user's tree.
func (p *place) continues(ctx context.Context, g *ground, from prompt.Try) error {
	left, err := p.repo.RefCommit(p.tryRef(from))
	if err != nil || left == "" {
		return cmp.Or(err, fmt.Errorf("%s is gone", p.tryRef(from)))
	}
	made, err := p.repo.ReadCommit(left)
	if err != nil {
		return err
	}
	if p.kind == prompt.Branch {
		tree, met, err := p.onto(ctx, g.tip, g.base, work{on: made.Parent(), commit: left, tree: made.Tree})
		if err == nil && len(met) == 0 {
			g.before = tree
			return nil
		}
		g.tip = made.Parent()
		g.before = made.Tree
		g.base, err = p.repo.CommitTree(g.tip)
		return err
	}
	base, err := p.repo.CommitTree(made.Parent())
	if err != nil {
		return err
	}
	tree, met, err := p.repo.MergeTrees(ctx, base, g.base, made.Tree)
	if g.before = tree; err == nil && len(met) > 0 {
		g.base, g.before = base, made.Tree
	}
	return err
}

// work is what a try left: a commit and its tree, on the commit that it began at.
type work struct {
	on, commit string
	tree       gitops.Tree
}

// onto merges a try's work onto the branch's tip. What the branch lost since stays away: there the work is what it
// changed, and not what it stood on.
func (p *place) onto(ctx context.Context, tip string, base gitops.Tree, w work) (gitops.Tree, []gitops.Conflict, error) {
	if !p.lost(ctx, tip, w.on) {
		return p.repo.Merge(ctx, tip, w.commit)
	}
	on, err := p.repo.CommitTree(w.on)
	if err != nil {
		return "", nil, err
	}
	return p.repo.MergeTrees(ctx, on, base, w.tree)
}

// lost reports whether a branch at a tip has no more a commit that it had.
func (p *place) lost(ctx context.Context, tip, had string) bool {
	return tip != "" && had != "" && !p.repo.LeadsTo(ctx, tip, had)
}

// keep keeps what a try left under its ref. note goes into the commit's message.
func (p *place) keep(ctx context.Context, t prompt.Try, g *ground, work *slot.Result, why, note string) (ref,
	commit string, err error) {
	on := g.tip
	if p.kind == prompt.Tree { // the user's tree as it was is no commit
		if on, err = p.repo.Link(ctx, g.stand.Head.Hash, gitops.Link{Tree: g.base, When: time.Unix(0, 0).UTC(),
			Message: "descartes: your tree as it was. No branch names this commit."}); err != nil {
			return "", "", gitErr("keep what an iteration left", err)
		}
	}
	parents := slices.DeleteFunc([]string{on, work.Commits}, func(hash string) bool { return hash == "" })
	message := fmt.Sprintf("run %s: iteration %d: %s", p.id, t.Number, oneline.Text(why))
	if note != "" {
		message += "\n\n" + note
	}
	ref = p.tryRef(t)
	commit, err = p.repo.Keep(ctx, ref, work.After, slices.Compact(parents), message)
	if err == nil {
		err = p.repo.SetRef(ctx, p.iterationRef(t.Number), commit, "descartes: the last try")
	}
	if err != nil {
		return "", "", gitErr("keep what an iteration left", err)
	}
	return ref, commit, nil
}

// elsewhere is the branch that receives the commits if it is not checked out, else "".
func (p *place) elsewhere(ctx context.Context) string {
	if p.kind != prompt.Branch {
		return ""
	}
	if head, err := p.repo.Head(ctx); err != nil || head.Branch == p.branch {
		return ""
	}
	return shortRef(p.branch)
}

// preparable is where attempts run; see package workspace.
type preparable interface {
	attempt.Workspace
	Prepare(ctx context.Context, s slot.Start) (slot.Stand, error)
}
