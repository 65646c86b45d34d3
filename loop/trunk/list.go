package trunk

import (
	"context"
	"path/filepath"
	"strings"

	"descartes/gitops"
	"descartes/tasks"
)

// maxList is how large a task list in a commit may be.
const maxList = 64 << 20

// ListOn is a task list as a branch has it whose statuses are in its commits alone; ahead is false where these are in
// the user's files too: it is checked out, HEAD has all of it, or it is to be made.
func ListOn(ctx context.Context, repo *gitops.Repo, list *tasks.File, branch string) (there []tasks.Task, ahead bool,
	err error) {
	head, err := repo.Head(ctx)
	if err != nil || head.Branch == branch {
		return nil, false, err
	}
	tip, err := repo.RefCommit(branch)
	if err != nil || tip == "" || head.Hash != "" && (repo.LeadsTo(ctx, head.Hash, tip) || Holds(ctx, repo, head.Hash, tip)) {
		return nil, false, err
	}
	return ListAt(ctx, repo, list, tip), true, nil
}

// IsElsewhere reports whether a branch's list is another one than that of the working tree: this has another branch, and
// the list in its commits.
func IsElsewhere(ctx context.Context, repo *gitops.Repo, list *tasks.File, branch string) bool {
	head, err := repo.Head(ctx)
	return err == nil && branch != "" && branch != head.Branch && HasList(ctx, repo, list, head.Hash)
}

// ListAt is a task list as a commit has it, nil where it has none that can be read.
func ListAt(ctx context.Context, repo *gitops.Repo, list *tasks.File, commit string) []tasks.Task {
	rel, below := inRepo(repo, list)
	if !below {
		return nil
	}
	b, err := repo.FileAt(ctx, commit, rel, maxList)
	if err != nil || b == nil {
		return nil
	}
	was, err := list.Reread(b)
	if err != nil {
		return nil
	}
	return was.Tasks()
}

// HasList reports whether a commit has a task list's file.
func HasList(ctx context.Context, repo *gitops.Repo, list *tasks.File, commit string) bool {
	rel, below := inRepo(repo, list)
	if !below || commit == "" {
		return false
	}
	b, err := repo.FileAt(ctx, commit, rel, maxList)
	return err == nil && b != nil
}

// inRepo is where a task list is in the repository.
func inRepo(repo *gitops.Repo, list *tasks.File) (rel string, below bool) {
	rel, err := filepath.Rel(repo.Root(), list.Target())
	return filepath.ToSlash(rel), err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
