// Package trunk owns the chain of commits of everything that a run merged, and the branch that gets them: what comes in,
// what becomes of it, where a run begins, and how one goes back. It knows no run.
package trunk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/safename"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// HoldsWork reports whether a loop's trunk has verified work that no branch has.
func HoldsWork(ctx context.Context, repo *gitops.Repo, trunk string) (bool, error) {
	c := Chain{Repo: repo, Ref: trunk}
	_, err := c.Read(ctx)
	return len(c.Units) > 0, err
}

// Made is what a list says of a task: that its work is made, done or begun and not in the branch yet; and whether the list
// has it.
type Made func(task string) (made, listed bool)

// CanBegin reports, as a RefusedError, why a new run, over the list name or a prompt loop of that name, cannot begin at
// a branch, "" being a detached HEAD, because of what an earlier one left. made is nil for a prompt loop. A list is named by gitops.Named.Key, here as everywhere.
func CanBegin(ctx context.Context, repo *gitops.Repo, branch, name string, made Made) error {
	aside := AsideOf(name)
	if made != nil {
		last, err := LeftBy(ctx, repo, branch, name, made)
		if err != nil || last != nil {
			return err
		}
		if aside, err = AsideFor(ctx, repo, branch, name); err != nil {
			return err
		}
	}
	_, _, err := GroundOf(ctx, repo, branch, aside)
	return err
}

// Elsewhere is the ref with the work of runs over a list that a branch, "" being a detached HEAD, lacks, "" for none:
// the branch aside, or the trunk with work that was not committed, whose tasks are named.
func Elsewhere(ctx context.Context, repo *gitops.Repo, branch, list string) (ref string, loose []string, err error) {
	last, err := LeftBy(ctx, repo, branch, list, func(string) (bool, bool) { return true, true })
	if err != nil {
		return "", nil, err
	}
	if last != nil {
		return last.Ref, last.Units, nil
	}
	on, err := TipOf(ctx, repo, branch)
	if err != nil {
		return "", nil, err
	}
	aside, err := AsideFor(ctx, repo, branch, list)
	if err != nil {
		return "", nil, err
	}
	if _, ours, err := aheadOf(ctx, repo, on, aside); err != nil || !ours {
		return "", nil, err
	}
	return ShortRef(aside), nil, nil
}

// AsideFor is the branch aside of runs over a list that commit to a branch: the one that has their commits, else the
// first that no other list's or branch's runs have. What a run leaves as its tag's trunk says whose it is.
func AsideFor(ctx context.Context, repo *gitops.Repo, branch, list string) (string, error) {
	names := asides(branch, list)
	on, err := TipOf(ctx, repo, branch)
	if err != nil {
		return "", err
	}
	own := store.TagTrunkRef(list, branch)
	free := names[len(names)-1]
	for _, name := range slices.Backward(names) {
		at, err := repo.RefCommit(name)
		if err != nil {
			return "", err
		}
		var of []string
		if at != "" {
			if of, err = onto(ctx, repo, on, at); err != nil {
				return "", err
			}
		}
		switch {
		case slices.Contains(of, own):
			return name, nil
		case len(of) == 0:
			free = name
		}
	}
	return free, nil
}

// MakeAside makes the branch aside that a trunk of a list, for a branch, went to in another clone: where that has
// commits that the branch lacks, and there is none here. tip is its commit, "" where there is nothing to make.
func MakeAside(ctx context.Context, repo *gitops.Repo, branch, list, ref string) (aside, tip string, err error) {
	c := Chain{Repo: repo}
	if found, err := c.ReadAt(ctx, ref); err != nil || !found || c.On == "" {
		return "", "", err
	}
	on, err := TipOf(ctx, repo, branch)
	if err != nil || on == "" {
		return "", "", err
	}
	if err := repo.Meet(ctx, on, c.On); err != nil {
		return "", "", err
	}
	if repo.LeadsTo(ctx, on, c.On) || Holds(ctx, repo, on, c.On) {
		return "", "", nil
	}
	if ours, err := repo.News(ctx, on, c.On, "Descartes-Loop", ""); err != nil || len(ours) == 0 {
		return "", "", err // commits of the user's that he has not fetched
	}
	if aside, err = AsideFor(ctx, repo, branch, list); err != nil {
		return "", "", err
	}
	if at, err := repo.RefCommit(aside); err != nil || at != "" {
		return "", "", err
	}
	return aside, c.On, repo.MoveRef(ctx, aside, "", c.On, "descartes: fetched")
}

// onto are the trunks of tags whose branch's commit is one that a branch at a commit has and another, "" being none,
// lacks.
func onto(ctx context.Context, repo *gitops.Repo, than, at string) (trunks []string, err error) {
	all, err := repo.Refs(ctx, store.TagRefs)
	if err != nil {
		return nil, err
	}
	for _, ref := range all {
		c := Chain{Repo: repo}
		if !store.IsTagTrunk(ref.Name) {
			continue
		}
		if _, err := c.ReadAt(ctx, ref.Name); err != nil {
			return nil, err
		}
		if c.On != "" && repo.LeadsTo(ctx, at, c.On) && (than == "" || !repo.LeadsTo(ctx, than, c.On)) {
			trunks = append(trunks, ref.Name)
		}
	}
	return trunks, nil
}

// Leave keeps a run's trunk for the next run over its list that is to commit to the same branch, if it has work that
// this one lacks: units in no commit, or commits that went aside. Else the list's trunk is removed where a run made it
// that mine reports to be this working tree's, or this one went on from it or has all that it had: others go on from
// theirs. removed is what was.
func (c *Chain) Leave(ctx context.Context, repo *gitops.Repo, list, branch string, aside bool,
	mine func(run string) bool) (removed []gitops.Ref, err error) {
	own, old := store.TagTrunkRef(list, branch), store.OldTrunkRef(list)
	if c.Tip == "" {
		return nil, nil
	}
	keeps := len(c.Units) > 0 || aside
	for _, ref := range []string{own, old} {
		was, err := repo.RefCommit(ref)
		if err != nil {
			return removed, err
		}
		if ref == own && keeps {
			if c.Saved && was != c.Tip { // else nothing was done
				err = repo.MoveRef(ctx, own, was, c.Tip, "descartes: the trunk of "+c.Ref)
			}
		} else if was != "" && c.follows(ctx, repo, was, mine) {
			removed = append(removed, gitops.Ref{Name: ref, Hash: was})
			err = repo.DeleteRefs(ctx, ref)
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// follows reports whether the chain goes on from a trunk or has all of it, or one of this working tree's runs made that.
func (c *Chain) follows(ctx context.Context, repo *gitops.Repo, tip string, mine func(run string) bool) bool {
	if repo.LeadsTo(ctx, c.Tip, tip) || MadeBy(ctx, repo, tip, mine) {
		return true
	}
	last := Chain{Repo: repo}
	_, err := last.readTip(ctx, tip)
	return err == nil && len(last.Units) == 0 && last.On != "" && repo.LeadsTo(ctx, c.Tip, last.On)
}

// MadeBy reports whether one of some runs made a trunk.
func MadeBy(ctx context.Context, repo *gitops.Repo, tip string, mine func(run string) bool) bool {
	refs, err := repo.RefsWith(ctx, tip, store.TrunkRef("*"))
	return err == nil && slices.ContainsFunc(refs, func(ref string) bool { return mine(strings.Split(ref, "/")[2]) })
}

// asides are the names that the branch aside of runs over a list may have, the usual one first.
func asides(branch, list string) []string {
	tag, _, _ := strings.Cut(list, ":/")
	return []string{AsideOf(tag), AsideOf(tag + "-" + cmp.Or(ShortRef(branch), "HEAD"))}
}

// IsAside reports whether a ref is the branch aside of runs over a list that commit to none.
func IsAside(ref, list string) bool { return slices.Contains(asides("", list), ref) }

// To is the branch of a run over a list that is to commit to a branch, "" being a detached HEAD. on is the last of its
// commits that the run's trunk has, "" for a new run: where a branch aside has it, that is where the run goes on.
func To(ctx context.Context, repo *gitops.Repo, branch, list, on string) (b Branch, err error) {
	names := asides(branch, list)
	b = Branch{Ref: branch, Else: names[len(names)-1]}
	for _, name := range names {
		if at, err := repo.RefCommit(name); err == nil && at != "" && at == on {
			b.Ref, b.Aside = name, name
			return b, nil
		}
	}
	b.Aside, err = AsideFor(ctx, repo, branch, list)
	return b, err
}

// CommitsOfOthers are the commits with work of a list's runs that a branch lacks, oldest first, of runs that mine does not
// report: those of other working trees, and of other clones where their refs were fetched.
func CommitsOfOthers(ctx context.Context, repo *gitops.Repo, branch, list string, mine func(run string) bool) (
	commits []journal.WaveCommit, err error) {
	head, err := TipOf(ctx, repo, branch)
	if err != nil || head == "" {
		return nil, err
	}
	refs, err := repo.Refs(ctx, "refs/descartes/")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{"": true}
	for _, ref := range refs {
		run, last, _ := strings.Cut(strings.TrimPrefix(ref.Name, "refs/descartes/"), "/")
		tip := ref.Hash
		if strings.HasPrefix(ref.Name, store.TagTrunks(list)) && store.IsTagTrunk(ref.Name) {
			c := Chain{Repo: repo}
			if _, err := c.ReadAt(ctx, ref.Name); err != nil {
				return nil, err
			}
			tip = c.On
		} else if last != "commit" || mine(run) {
			continue
		}
		if seen[tip] || repo.LeadsTo(ctx, head, tip) {
			continue
		}
		seen[tip] = true
		news, err := repo.News(ctx, head, tip, "Descartes-Task", "")
		if err != nil {
			return nil, err
		}
		for _, c := range news {
			w := journal.WaveCommit{Commit: c.Hash}
			for _, n := range c.Tasks() {
				if n.Key() == list {
					w.Tasks = append(w.Tasks, n.Task)
				}
			}
			commits = append(commits, w)
		}
	}
	return commits, nil
}

// Other is the branch that has the work of a list's runs that another branch, "" being a detached HEAD, lacks, and the
// tasks whose commits these are; "" for none. commits are those of runs, oldest first. What was reworded,
// squashed or rebased since is not lacking, nor is what the branch aside has, from which the next run goes on; what no
// branch has any more is nobody's.
func Other(ctx context.Context, repo *gitops.Repo, branch, list string, commits []journal.WaveCommit) (ref string,
	done []string, err error) {
	head, err := TipOf(ctx, repo, branch)
	if err != nil || head == "" {
		return "", nil, err
	}
	aside, err := AsideFor(ctx, repo, branch, list)
	if err != nil {
		return "", nil, err
	}
	for _, c := range slices.Backward(commits) {
		if len(c.Tasks) == 0 || repo.LeadsTo(ctx, head, c.Commit) {
			continue
		}
		at, err := repo.RefsWith(ctx, c.Commit, "refs/heads/")
		if err != nil || len(at) == 0 || slices.Contains(at, aside) { // an error: git may have deleted it by now
			continue
		}
		if tip, err := repo.RefCommit(at[0]); err != nil || Holds(ctx, repo, head, tip) {
			continue
		}
		ref, done = cmp.Or(ref, at[0]), append(done, c.Tasks...)
	}
	return ref, done, nil
}

// KeptAs says where work on tasks is that is in no commit of the user's.
func KeptAs(tasks []string, ref string) string {
	word := "tasks"
	if len(tasks) == 1 {
		word = "task"
	}
	return fmt.Sprintf("the work done on %s %s is kept as %s", word, oneline.List(tasks), ref)
}

// OnBranch says where commits are that the user's files did not follow.
func OnBranch(name, merging string) string {
	return fmt.Sprintf("on the branch %s; to bring them here: %s", name, merging)
}

// aheadOf is the commit of the branch aside if another lacks it, else "". ours says that a run made it.
func aheadOf(ctx context.Context, repo *gitops.Repo, on, aside string) (at string, ours bool, err error) {
	if at, err = repo.RefCommit(aside); err != nil || at == "" || on == "" {
		return "", false, err
	}
	if err := repo.Meet(ctx, on, at); err != nil {
		return "", false, err
	}
	if repo.LeadsTo(ctx, on, at) || Holds(ctx, repo, on, at) {
		return "", false, err
	}
	list, err := repo.News(ctx, on, at, "Descartes-Loop", "")
	return at, len(list) > 0, err
}

// LeftBy is the trunk of the last run over a list that was to commit to a branch, with the ref that names it, if a new
// one is to begin there; nil if not.
func LeftBy(ctx context.Context, repo *gitops.Repo, branch, list string, made Made) (*Chain, error) {
	last := &Chain{Repo: repo}
	for _, ref := range []string{store.TagTrunkRef(list, branch), store.OldTrunkRef(list)} {
		found, err := last.ReadAt(ctx, ref)
		if err != nil {
			return nil, err
		}
		if last.Ref = ref; found {
			break
		}
	}
	if len(last.Units) == 0 {
		return nil, nil
	}
	head, err := TipOf(ctx, repo, branch)
	// somebody merged it
	if err != nil || repo.LeadsTo(ctx, head, last.Tip) || head != "" && Holds(ctx, repo, head, last.Tip) {
		return nil, err
	}
	var again []string
	goesOn := false
	for _, id := range last.Units {
		if is, listed := made(id); is {
			goesOn = true
		} else if listed {
			again = append(again, id)
		}
	}
	switch {
	case !goesOn: // all of it is to be done again, or is asked for no more
		return nil, nil
	case len(again) > 0:
		return nil, &gitops.RefusedError{Reason: fmt.Sprintf(
			"%s holds verified work on %s that is not committed, and %s is to be done again", last.Ref,
			oneline.List(last.Units), oneline.List(again)),
			Hint: repo.Merging(ctx, last.Ref) + ", or set the others to pending too, then start again"}
	}
	if did, err := committedSince(ctx, repo, last, head, list); err != nil || did {
		return nil, err
	}
	return last, nil
}

// LeftOn is what runs over a list left for another branch: the ref of the trunk, and its units that done reports and
// that the branch has in no form. mine reports which runs shared that list.
func LeftOn(ctx context.Context, repo *gitops.Repo, branch, list string, done func(task string) bool,
	mine func(run string) bool) (ref string, units []string, err error) {
	head, err := TipOf(ctx, repo, branch)
	if err != nil || head == "" {
		return "", nil, err
	}
	own := Chain{Repo: repo}
	if _, err = own.ReadAt(ctx, store.TagTrunkRef(list, branch)); err != nil {
		return "", nil, err
	}
	all, err := repo.Refs(ctx, store.TagTrunks(list))
	if err != nil {
		return "", nil, err
	}
	for _, ref := range all {
		c := &Chain{Repo: repo}
		if !store.IsTagTrunk(ref.Name) || ref.Name == store.TagTrunkRef(list, branch) ||
			ref.Name == store.OldTrunkRef(list) || !MadeBy(ctx, repo, ref.Hash, mine) {
			continue
		}
		if _, err := c.ReadAt(ctx, ref.Name); err != nil {
			return "", nil, err
		}
		if len(c.Units) == 0 || repo.LeadsTo(ctx, head, c.Tip) || Holds(ctx, repo, head, c.Tip) {
			continue
		}
		committed, err := committedOn(ctx, repo, c, head, list)
		if err != nil {
			return "", nil, err
		}
		units = slices.DeleteFunc(slices.Clone(c.Units), func(id string) bool {
			return !done(id) || committed[oneline.Text(id)] || slices.Contains(own.Units, id)
		})
		if len(units) > 0 {
			return ref.Name, units, nil
		}
	}
	return "", nil, nil
}

// committedSince reports whether all units of a list's trunk were committed since. Trailers of earlier versions name a
// task without its tag: they count where runs made them that go on from the trunk.
func committedSince(ctx context.Context, repo *gitops.Repo, last *Chain, head, list string) (bool, error) {
	done, err := committedOn(ctx, repo, last, head, list)
	return !slices.ContainsFunc(last.Units, func(id string) bool { return !done[oneline.Text(id)] }), err
}

// committedOn are the tasks of a list that a branch's commits name which a trunk lacks.
func committedOn(ctx context.Context, repo *gitops.Repo, last *Chain, head, list string) (map[string]bool, error) {
	news, err := repo.News(ctx, last.On, head, "Descartes-Task", "")
	if err != nil || len(news) == 0 {
		return nil, err
	}
	runs, err := repo.RefsWith(ctx, last.Tip, store.TrunkRef("*"))
	if err != nil {
		return nil, err
	}
	done := map[string]bool{}
	for _, c := range news {
		ours := slices.ContainsFunc(c.Trailers["Descartes-Loop"],
			func(id string) bool { return slices.Contains(runs, store.TrunkRef(id)) })
		for _, n := range c.Tasks() {
			if n.Key() == list || n.Tag == "" && ours {
				done[n.Task] = true
			}
		}
	}
	return done, nil
}

// GroundOf is the commit of a branch that a new run is to begin at, and the one where the branch aside is ahead of it,
// "" for none.
func GroundOf(ctx context.Context, repo *gitops.Repo, branch, aside string) (on, ahead string, err error) {
	if on, err = TipOf(ctx, repo, branch); err != nil {
		return "", "", err
	}
	at, ours, err := aheadOf(ctx, repo, on, aside)
	if err != nil || at == "" {
		return on, "", err
	}
	name, here := ShortRef(aside), cmp.Or(ShortRef(branch), "HEAD")
	if !ours {
		return "", "", &gitops.RefusedError{Reason: "the branch " + name +
			", where runs put commits that your files cannot follow, was not made by a run",
			Hint: "git branch -m " + name + " ANOTHER-NAME"}
	}
	if !repo.LeadsTo(ctx, at, on) {
		return "", "", &gitops.RefusedError{Reason: fmt.Sprintf(
			"an earlier run's commits are on the branch %s, and %s has commits that it lacks", name, here),
			Hint: repo.Merging(ctx, name) + ", then start again"}
	}
	return on, at, nil
}

// TipOf is the commit of a branch, and of HEAD where it is to be made.
func TipOf(ctx context.Context, repo *gitops.Repo, branch string) (string, error) {
	if branch != "" {
		if at, err := repo.RefCommit(branch); err != nil || at != "" {
			return at, err
		}
	}
	head, err := repo.Head(ctx)
	return head.Hash, err
}

func AsideOf(name string) string { return "refs/heads/descartes/" + safename.Of(name) }

func ShortRef(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// maxTaken limits how many commits of a branch are looked at for whether it had all of another.
const maxTaken = 200

// Holds reports whether a commit has all that another brings, task lists aside, or one that leads to it had: what its
// owner removed since is to stay away.
func Holds(ctx context.Context, repo *gitops.Repo, head, commit string) bool {
	if bringsNothing(ctx, repo, head, commit) {
		return true
	}
	since, err := repo.Touching(ctx, head, commit, maxTaken)
	return err == nil && slices.ContainsFunc(since, func(c string) bool {
		return c != head && bringsNothing(ctx, repo, c, commit)
	})
}

// bringsNothing reports whether the merge of a commit changes nothing of another, task lists aside.
func bringsNothing(ctx context.Context, repo *gitops.Repo, head, commit string) bool {
	merged, met, err := repo.Merge(ctx, head, commit)
	if err != nil || len(met) > 0 {
		return false
	}
	is, err := repo.CommitTree(head)
	if err != nil {
		return false
	}
	changes, err := repo.Changed(ctx, is, merged)
	return err == nil && len(changes) == 0
}
