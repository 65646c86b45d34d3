package gitops

import (
	"os"
	"path/filepath"
	"strings"
)

// inspect refuses what must not be begun, and says why the git program, and not go-git, has to make the commits.
func inspect(l layout, set settings, policy string) (byGit []string, err error) {
	if what, hint := underway(l); what != "" {
		return nil, &RefusedError{Reason: what, Hint: hint}
	}
	if set.is("commit.gpgsign", false) {
		byGit = append(byGit, "commit.gpgSign is true")
	}
	if v := set["i18n.commitencoding"]; v != "" && !strings.EqualFold(v, "utf-8") && !strings.EqualFold(v, "utf8") {
		byGit = append(byGit, "i18n.commitEncoding is "+v)
	}
	names := liveHooks(l, set)
	switch {
	case len(names) == 0 || policy == "skip":
	case policy == "fail":
		return nil, &RefusedError{Reason: hooksOf(names) + " would run at each commit, and the policy is to fail then",
			Hint: "choose hooks run or skip"}
	case policy == "outside":
		byGit = append(byGit, hooksOf(names)+" to run")
	}
	return byGit, nil
}

// progressStates are git's operations that stop half-way, by the file or directory that says so.
var progressStates = []struct{ file, what, hint string }{
	{"MERGE_HEAD", "a merge is in progress", "git merge --continue, or git merge --abort"},
	{"rebase-merge", "a rebase is in progress", "git rebase --continue, or git rebase --abort"},
	{"rebase-apply", "a rebase or git am is in progress",
		"git rebase --continue (or --abort), git am --continue (or --abort)"},
	{"CHERRY_PICK_HEAD", "a cherry-pick is in progress", "git cherry-pick --continue, or git cherry-pick --abort"},
	{"REVERT_HEAD", "a revert is in progress", "git revert --continue, or git revert --abort"},
	{"sequencer", "a cherry-pick or revert of several commits is in progress",
		"git cherry-pick --continue (or --abort), git revert --continue (or --abort)"},
}

func underway(l layout) (what, hint string) {
	for _, s := range progressStates {
		if exists(filepath.Join(l.gitDir, s.file)) {
			return s.what, s.hint
		}
	}
	return "", ""
}

// Underway says which operation of git's stopped half-way in the working tree, such as a rebase; "" for none.
func (r *Repo) Underway() string {
	what, _ := underway(r.l)
	return what
}

// Switching reports whether somebody's git changes the index of the working tree just now, as it does while it checks
// another branch out.
func (r *Repo) Switching() bool {
	_, err := os.Lstat(filepath.Join(r.l.gitDir, "index.lock"))
	return err == nil
}
