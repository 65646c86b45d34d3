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
	if work, err = repo.CommitTree(commit); err != nil {
		return "", "", err
	}
	events, err := journal.ReadEvents(h.Events(loop))
	if err != nil {
		return "", "", err
	}
	for i := range events {
		e := &events[i]
		switch {
		case e.Task != task:
		case e.Type == journal.TaskStarted:
			base = gitops.Tree(e.Base)
		case e.Type == journal.Integrated && e.Verdict != "":
			base = gitops.Tree(e.Tree)
		case e.Type == journal.AttemptFinished && e.Attempt == attempt:
			if base == "" {
				return "", "", fmt.Errorf("the journal of loop %s does not say what task %s started from", loop, task)
			}
			return base, work, nil
		}
	}
	return "", "", fmt.Errorf("the journal of loop %s knows no attempt %d at task %s", loop, attempt, task)
}
