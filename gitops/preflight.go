package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// finding is one thing about a repository that go-git would not treat as git does.
type finding struct {
	reason string
	hint   string
	refuse bool // git cannot do it either, or it must not be done; else the git program makes the commits
}

// inspect looks at everything that can be known before anything is done.
func inspect(ctx context.Context, git *cli, c *gitConfig, opt Options) ([]finding, error) {
	out := append(progressFindings(git.l), settingFindings(c)...)
	out = append(out, hookFindings(git.l, c, opt.Hooks)...)
	unmerged, err := git.run(ctx, gitCall{args: []string{"ls-files", "-u", "-z"}})
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	if lines := nulSplit(unmerged); len(lines) > 0 {
		_, name, _ := strings.Cut(lines[0], "\t")
		out = append(out, finding{reason: "the index holds unresolved conflicts (" + name + ")", hint: "resolve them and git add the files", refuse: true})
	}
	return out, nil
}

// refusal is the error of all findings that refuse, nil where none does.
func refusal(found []finding) error {
	var reasons []string
	hint := ""
	for _, f := range found {
		if f.refuse {
			reasons = append(reasons, f.reason)
			hint = f.hint
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return &RefusedError{Reason: strings.Join(reasons, "; "), Hint: hint}
}

// formatFindings looks at what the repository says of its own format, as far as git itself accepts it.
func formatFindings(c *gitConfig) []finding {
	var out []finding
	version, _ := c.get("core.repositoryformatversion")
	for _, k := range c.keys("extensions.") {
		name := strings.TrimPrefix(k, "extensions.")
		value, _ := c.get(k)
		switch name {
		case "noop", "noop-v1", "worktreeconfig", "preciousobjects", "partialclone", "relativeworktrees":
			// go-git adds objects all the same
		case "objectformat":
			if value != "sha1" {
				out = append(out, finding{reason: "its objects are " + value})
			}
		case "refstorage": // git alone reads refs
		default:
			// git ignores them in a repository of version 0
			if version == "1" {
				out = append(out, finding{reason: "repository extension " + name + " is not known", refuse: true})
			}
		}
	}
	return out
}

// progressStates are git's operations that stop half-way, by the file or directory that says so.
var progressStates = []struct{ file, what, hint string }{
	{"MERGE_HEAD", "a merge is in progress", "git merge --continue, or git merge --abort"},
	{"rebase-merge", "a rebase is in progress", "git rebase --continue, or git rebase --abort"},
	{"rebase-apply", "a rebase or git am is in progress", "git rebase --continue (or --abort), git am --continue (or --abort)"},
	{"CHERRY_PICK_HEAD", "a cherry-pick is in progress", "git cherry-pick --continue, or git cherry-pick --abort"},
	{"REVERT_HEAD", "a revert is in progress", "git revert --continue, or git revert --abort"},
	{"sequencer", "a cherry-pick or revert of several commits is in progress", "git cherry-pick --continue (or --abort), git revert --continue (or --abort)"},
}

func progressFindings(l layout) []finding {
	for _, s := range progressStates {
		if _, err := os.Lstat(filepath.Join(l.gitDir, s.file)); err == nil {
			return []finding{{reason: s.what, hint: s.hint, refuse: true}}
		}
	}
	return nil
}

// Underway says which operation of git's stopped half-way in the working tree, such as a rebase; "" for none.
func (r *Repo) Underway() string {
	if found := progressFindings(r.l); len(found) > 0 {
		return found[0].reason
	}
	return ""
}

// settingFindings looks at the settings that change how a commit is made.
func settingFindings(c *gitConfig) []finding {
	var out []finding
	if c.boolean("commit.gpgsign", false) {
		out = append(out, finding{reason: "commit.gpgSign is true"})
	}
	if v, ok := c.get("i18n.commitencoding"); ok && !strings.EqualFold(v, "utf-8") && !strings.EqualFold(v, "utf8") {
		out = append(out, finding{reason: "i18n.commitEncoding is " + v})
	}
	return out
}

// commitHooks are those that a commit runs.
var commitHooks = []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction", "post-index-change"}

// hookFindings hands the commit to git where hooks are to run. Policy "skip" leaves them alone, "fail" refuses.
func hookFindings(l layout, c *gitConfig, policy string) []finding {
	names := liveHooks(l, c)
	if len(names) == 0 || policy == "skip" {
		return nil
	}
	what := "hook " + names[0]
	if len(names) > 1 {
		what = "hooks " + strings.Join(names, ", ")
	}
	if policy == "fail" {
		return []finding{{reason: what + " would run at each commit, and the policy is to fail then",
			hint: "choose hooks run or skip", refuse: true}}
	}
	return []finding{{reason: what + " to run"}}
}

// liveHooks names the executable commit hooks, and those that git takes from its configuration.
func liveHooks(l layout, c *gitConfig) []string {
	dir, ok := hooksDir(l, c)
	var out []string
	if ok {
		for _, h := range commitHooks {
			if fi, err := os.Stat(filepath.Join(dir, h)); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				out = append(out, h)
			}
		}
	}
	for _, k := range c.keys("hook.") {
		if strings.HasSuffix(k, ".command") {
			out = append(out, strings.TrimSuffix(k, ".command"))
		}
	}
	return out
}

// HooksDir is where git looks for the repository's hooks.
func (r *Repo) HooksDir() string {
	dir, _ := hooksDir(r.l, r.cfg)
	return dir
}

// hooksDir is where git looks for hooks; false if core.hooksPath cannot be read.
func hooksDir(l layout, c *gitConfig) (string, bool) {
	if _, set := c.get("core.hookspath"); !set {
		return filepath.Join(l.commonDir, "hooks"), true
	}
	p, ok := c.pathname("core.hookspath")
	if !filepath.IsAbs(p) {
		p = filepath.Join(l.root, p)
	}
	return p, ok
}
