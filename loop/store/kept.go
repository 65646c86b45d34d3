package store

import (
	"fmt"
	"strconv"

	"descartes/gitops"
	"descartes/loop/journal"
)

// KeptWork returns the trees before and after an attempt whose work is kept: before its task's first attempt, or, in a
// clone that lacks the journal, before that attempt. It is an error if the attempt kept none.
func (h Home) KeptWork(repo *gitops.Repo, loop, task string, attempt int) (base, work gitops.Tree, err error) {
	if err := ValidID(loop); err != nil {
		return "", "", err
	}
	name := RefPrefix(loop, task) + strconv.Itoa(attempt)
	commit, err := repo.RefCommit(name)
	if err == nil && commit == "" {
		err = fmt.Errorf("attempt %d at task %s left no work: there is no %s", attempt, task, name)
	}
	if err != nil {
		return "", "", err
	}
	if work, err = repo.CommitTree(commit); err != nil {
		return "", "", err
	}
	if known, err := journal.Load(h.Events(loop)); err == nil {
		if a := known.Attempt(journal.Key{Task: task, Number: attempt}); a != nil && a.Base != "" {
			return gitops.Tree(a.Base), work, nil
		}
	}
	made, err := repo.ReadCommit(commit)
	if err == nil && made.Parent() == "" {
		err = fmt.Errorf("%s does not say what attempt %d at task %s started from", name, attempt, task)
	}
	if err == nil {
		base, err = repo.CommitTree(made.Parent())
	}
	return base, work, err
}
