package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/loop/workspace"
)

// guard restores what no attempt may change in the repository: the git directory, what the user had changed before
// the run, and what earlier attempts made that is verified. Loops over a tag and over a prompt use it alike.
type guard struct {
	repo    *gitops.Repo
	history *journal.State
	reworks bool // its attempts are about the same work: only leading git back undoes what an earlier one made
	work    gitops.Verified
	learned int // of the ledger's work
	commits int // and of its commits

	fs       atomicfile.FS
	kept     []byte // what keepSettings wrote last
	repaired bool   // what the attempt did to the settings is undone, and nothing of it runs any more
}

// keepSettings keeps git's configuration and hooks as they stand before an attempt for the run that follows where this
// one is killed. The sandbox lets no attempt write there.
func (g *guard) keepSettings(home Home, id string, git *gitops.Guard) error {
	g.repaired = false
	now := git.Settings()
	if bytes.Equal(now, g.kept) {
		return nil
	}
	if err := atomicfile.Write(g.fs, home.settings(id), now, 0o600); err != nil {
		return fmt.Errorf("keep git's settings: %w", err)
	}
	g.kept = now
	return nil
}

// drop removes what is kept for the run that follows on a killed one; no attempt is open.
func (g *guard) drop(home Home, id string) error {
	if err := g.repo.DropGuard(); err != nil {
		return gitErr("clean up", err)
	}
	return g.forget(home, id)
}

// leave is for an orderly end with an attempt open: what it did to the settings is undone already, so that what changes
// from here on, perhaps to correct what ended the run, is a person's.
func (g *guard) leave(home Home, id string) error {
	if !g.repaired {
		return nil
	}
	return g.forget(home, id)
}

// forget removes what keepSettings wrote.
func (g *guard) forget(home Home, id string) error {
	g.kept = nil
	if err := g.fs.Remove(home.settings(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// repairSettings is repair for where commits, branches and the index are not the loop's: it does not commit, or others
// work in the same tree.
func (g *guard) repairSettings(ctx context.Context, f *footing, who string) (notes []string, err error) {
	s, err := f.git.RepairSettings(ctx)
	if err != nil {
		return s.Notes, gitErr("put the repository back after the "+who, err)
	}
	g.repaired = true
	undone, err := g.restore(ctx, f, who, s.Back)
	return append(s.Notes, undone...), err
}

// footing is how things stood before an attempt, what its end is compared with.
type footing struct {
	git     *gitops.Guard
	base    gitops.Tree // before the task's first attempt
	before  gitops.Tree // before this one
	commits string      // tip of commits that the agent made itself
	stands  bool        // git knows where HEAD and the branch stood
	deleted []string    // verified files that it deleted, and that were told of
	left    []string    // what could not be restored, and was told of
}

// repair undoes what no attempt may do once its processes are dead, and says so; who is the part of it that did it.
// It may be called again for what was done since. With
// an error it returns what was undone before that.
func (g *guard) repair(ctx context.Context, f *footing, who string) (notes []string, err error) {
	s, err := f.git.Repair(ctx)
	if err != nil {
		return s.Notes, gitErr("put the repository back after the "+who, err)
	}
	g.repaired = true
	if s.Commits != "" {
		f.commits = s.Commits
	}
	undone, err := g.restore(ctx, f, who, s.Back)
	return append(s.Notes, undone...), err
}

// restore brings back what the attempt undid; see gitops.Repo.Undone for the rule.
func (g *guard) restore(ctx context.Context, f *footing, who string, back bool) ([]string, error) {
	g.learn()
	s := gitops.Protected{Before: f.before, Base: f.base, Users: g.history.UserPaths, Back: back}
	if !g.reworks || back {
		s.Work = &g.work
	}
	if s.Base == "" {
		s.Base = s.Before
	}
	if s.Before == "" || len(s.Users) == 0 && (g.learned == 0 || s.Work == nil) {
		return nil, nil
	}
	now, err := g.repo.Snapshot(ctx)
	if err != nil {
		return nil, gitErr("snapshot what the "+who+" left", err)
	}
	losses, err := g.repo.Undone(ctx, now, s)
	if err != nil {
		return nil, gitErr("compare what the "+who+" left", err)
	}
	losses = slices.DeleteFunc(losses, func(l gitops.Loss) bool { return l.Deleted && slices.Contains(f.deleted, l.Path) })
	var paths []string
	for _, l := range losses {
		if l.Deleted {
			f.deleted = append(f.deleted, l.Path)
		} else {
			paths = append(paths, l.Path)
		}
	}
	if len(paths) == 0 {
		return lossNotes(losses, who), nil
	}
	put, err := g.repo.RestorePaths(ctx, s.Base, paths)
	if err != nil {
		return nil, gitErr("restore what the "+who+" undid", err)
	}
	notes := lossNotes(slices.DeleteFunc(losses, func(l gitops.Loss) bool { return !l.Deleted && !slices.Contains(put.Back, l.Path) }), who)
	put.Left = slices.DeleteFunc(put.Left, func(l gitops.LeftOut) bool { return slices.Contains(f.left, l.Path) })
	if left := workspace.NotRestored(put); left != "" {
		notes = append(notes, "not everything that the "+who+" undid could be restored"+left+"; git show "+string(s.Base)+":PATH prints it")
	}
	for _, l := range put.Left {
		f.left = append(f.left, l.Path)
	}
	return notes, nil
}

// learn takes in what was verified and committed since the last time. Work of long ago whose objects were pruned
// meanwhile is passed over: commits hold it.
func (g *guard) learn() {
	for _, w := range g.history.Work[g.learned:] {
		_ = g.repo.AddVerified(&g.work, workName(&w), gitops.Tree(w.Base), gitops.Tree(w.Tree))
		g.work.Drop(w.Left)
		if w.Committed {
			g.work.Committed([]string{workName(&w)})
		}
	}
	g.learned = len(g.history.Work)
	for _, c := range g.history.WaveCommits[g.commits:] {
		names := make([]string, len(c.Tasks))
		for i, id := range c.Tasks {
			names[i] = taskWork(id)
		}
		g.work.Committed(names)
	}
	g.commits = len(g.history.WaveCommits)
}

// workName names a piece of work for people.
func workName(w *journal.Work) string {
	if w.Task == "" {
		return fmt.Sprintf("iteration %d", w.Iteration)
	}
	return taskWork(w.Task)
}

func taskWork(id string) string { return "task " + oneline.Text(id) }

// lossNotes tell what an attempt undid: one line for the user's, one for each set of tasks.
func lossNotes(losses []gitops.Loss, who string) []string {
	paths, order := map[string][]string{}, []string{}
	for _, l := range losses {
		line := "the " + who + " undid your uncommitted changes, which are restored: "
		switch of := worksOf(l.Of); {
		case l.Deleted:
			line = "the " + who + " deleted verified files of " + of + ", which counts as its own work: "
		case of != "":
			line = "the " + who + " undid verified work of " + of + ", which is restored: "
		}
		if !slices.Contains(order, line) {
			order = append(order, line)
		}
		paths[line] = append(paths[line], l.Path)
	}
	for i, line := range order {
		order[i] = line + oneline.List(paths[line])
	}
	return order
}

// worksOf names the last ones of several pieces of work.
func worksOf(names []string) string {
	last := names[max(0, len(names)-3):]
	s := strings.Join(last, ", ")
	if n := len(names) - len(last); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
