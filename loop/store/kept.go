package store

import (
	"fmt"
	"strconv"

	"descartes/gitops"
	"descartes/loop/journal"
)

// KeptWork returns the trees before and after an attempt whose work is kept. It is an error if the attempt kept none.
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
	known, err := journal.Load(h.Events(loop))
	if err != nil {
		return "", "", err
	}
	a := known.Attempt(journal.Key{Task: task, Number: attempt})
	if a == nil || a.Base == "" {
		return "", "", fmt.Errorf("the journal of run %s does not say what attempt %d at task %s started from", loop,
			attempt, task)
	}
	work, err = repo.CommitTree(commit)
	return gitops.Tree(a.Base), work, err
}
