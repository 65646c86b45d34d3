package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// finding is one thing about a repository that the native path would not treat as git does.
type finding struct {
	reason string
	hint   string
	tree   bool // snapshots and restores go to the git program
	commit bool // the wave commit does
	ends   bool // so does everything once a file with CRLF line ends is met; without one there is nothing to convert
	refuse bool // neither can do it, or it must not be done
}

// inspect looks at everything that can be known before the first scan: cheap, a few dozen calls of stat. ix is
// nil where the index is one that only git can read.
func inspect(l layout, c *gitConfig, ix *index, opt Options) []finding {
	out := append(formatFindings(c), progressFindings(l)...)
	out = append(out, settingFindings(c)...)
	out = append(out, hookFindings(l, c, opt.Hooks)...)
	out = append(out, indexFindings(ix)...)
	return append(out, attributeFindings(l, c, trackedAttributes(ix), opt.Env)...)
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

// both is a finding that sends everything to the git program.
func both(format string, args ...any) finding {
	return finding{reason: fmt.Sprintf(format, args...), tree: true, commit: true}
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
			// the native path reads and adds objects, and knows config.worktree
		case "objectformat":
			if value != "sha1" {
				out = append(out, finding{reason: "its object format is " + value + "; only sha1 is supported",
					hint: "git init --object-format=sha1 makes a repository that works; git fast-export and git fast-import bring the history there", refuse: true})
			}
		case "refstorage":
			if value != "files" {
				out = append(out, finding{reason: "its refs are stored as " + value + "; only files are supported",
					hint: "git refs migrate --ref-format=files", refuse: true})
			}
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

// settingFindings looks at the settings that change what is stored.
func settingFindings(c *gitConfig) []finding {
	var out []finding
	if v, ok := c.get("core.autocrlf"); ok && strings.EqualFold(v, "input") {
		out = append(out, finding{reason: "core.autocrlf is input", ends: true})
	} else if ok && truth(v, true, true) {
		out = append(out, both("core.autocrlf is %s", v))
	}
	if v, ok := c.get("core.eol"); ok && strings.EqualFold(v, "crlf") {
		out = append(out, both("core.eol is %s", v))
	}
	for _, s := range []struct {
		key  string
		def  bool
		hits bool
	}{
		{"core.filemode", true, false},
		{"core.symlinks", true, false},
		{"core.ignorecase", false, true},
		{"core.precomposeunicode", false, true},
		{"core.protecthfs", false, true},
		{"core.sparsecheckout", false, true},
		{"index.sparse", false, true},
	} {
		if c.boolean(s.key, s.def) == s.hits {
			out = append(out, both("%s is %v", s.key, s.hits))
		}
	}
	if v, ok := c.get("core.sharedrepository"); ok && !strings.EqualFold(v, "umask") && (!isBoolean(v) || truth(v, true, true)) {
		out = append(out, both("core.sharedRepository is %s", v))
	}
	if c.boolean("core.splitindex", false) {
		out = append(out, both("core.splitIndex is true"))
	}
	if c.boolean("commit.gpgsign", false) {
		out = append(out, finding{reason: "commit.gpgSign is true", commit: true})
	}
	if v, ok := c.get("i18n.commitencoding"); ok && !strings.EqualFold(v, "utf-8") && !strings.EqualFold(v, "utf8") {
		out = append(out, finding{reason: "i18n.commitEncoding is " + v, commit: true})
	}
	return out
}

func isBoolean(v string) bool { return truth(v, true, true) == truth(v, true, false) }

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
	return []finding{{reason: what + " to run", commit: true}}
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

// indexFindings looks at the entries: conflicts, submodules.
func indexFindings(ix *index) []finding {
	if ix == nil {
		return nil
	}
	var out []finding
	modules := 0
	for i := range ix.entries {
		e := &ix.entries[i]
		if e.stage() != 0 {
			return []finding{{reason: "the index holds unresolved conflicts (" + e.name + ")",
				hint: "resolve them and git add the files", refuse: true}}
		}
		if e.mode == modeGitlink {
			if modules++; modules == 1 {
				out = append(out, both("%s is a submodule", e.name))
			}
		}
	}
	return out
}

func trackedAttributes(ix *index) []string {
	if ix == nil {
		return nil
	}
	var out []string
	for i := range ix.entries {
		e := &ix.entries[i]
		if strings.HasSuffix(e.name, ".gitattributes") && e.mode != modeGitlink &&
			(len(e.name) == len(".gitattributes") || e.name[len(e.name)-len(".gitattributes")-1] == '/') {
			out = append(out, e.name)
		}
	}
	return out
}

// conversion is what an attribute asks for between the working tree and the store.
type conversion int

const (
	noConversion conversion = iota
	lineEnds                // CRLF becomes LF on its way in, and nothing changes on its way out
	fullConversion
)

// conversionIn says which attribute of a file asks for the most, and what that is. It errs on the side of a
// conversion: a pattern that matches nothing counts.
func conversionIn(attributes []byte, c *gitConfig) (attr string, most conversion) {
	attributes = bytes.TrimPrefix(attributes, []byte("\xef\xbb\xbf"))
	for line := range strings.Lines(string(attributes)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for _, a := range strings.Fields(afterPattern(line)) {
			if k := conversionOf(a, c); k > most {
				attr, most = a, k
			}
		}
	}
	return attr, most
}

// afterPattern cuts the pattern, which may be quoted as in C, or the "[attr]name" of a macro.
func afterPattern(line string) string {
	if line[0] != '"' {
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			return line[i:]
		}
		return ""
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return line[i+1:]
		}
	}
	return ""
}

// conversionOf is what one attribute, as written, asks for.
func conversionOf(attr string, c *gitConfig) conversion {
	name, value, assigned := strings.Cut(attr, "=")
	if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "!") {
		return noConversion
	}
	switch name {
	case "text", "crlf":
		return lineEnds
	case "eol":
		switch value {
		case "lf":
			return lineEnds
		case "crlf":
			return fullConversion
		}
	case "ident":
		return fullConversion
	case "working-tree-encoding":
		v := strings.ToLower(strings.ReplaceAll(value, "-", ""))
		if assigned && v != "" && v != "utf8" {
			return fullConversion
		}
	case "filter":
		if assigned && filterConfigured(value, c) {
			return fullConversion
		}
	}
	return noConversion
}

// filterConfigured: git leaves content alone if the filter that an attribute names is not configured.
func filterConfigured(driver string, c *gitConfig) bool {
	for _, k := range []string{"clean", "smudge", "process"} {
		if v, ok := c.get("filter." + driver + "." + k); ok && v != "" {
			return true
		}
	}
	return c.boolean("filter."+driver+".required", false)
}

// attributeFiles are the attribute files outside the working tree, in git's order of precedence from low to high.
func attributeFiles(l layout, c *gitConfig, env []string) []string {
	var out []string
	if !truth(envValue(env, "GIT_ATTR_NOSYSTEM"), true, false) {
		out = append(out, "/etc/gitattributes")
	}
	if p, ok := c.pathname("core.attributesfile"); ok {
		if !filepath.IsAbs(p) {
			p = filepath.Join(l.root, p)
		}
		out = append(out, p)
	} else if p := xdgPath(env, "attributes"); p != "" {
		out = append(out, p)
	}
	return append(out, filepath.Join(l.commonDir, "info", "attributes"))
}

// readSmall reads a file that may be missing; present is false then.
func readSmall(path string) (b []byte, present bool, err error) {
	b, err = readPlain(path, mostRules)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, errNotPlain) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// attributeFindings names the attribute files that convert: those outside the working tree, and the tracked
// ones in it. Files that are not tracked yet are met by the scan.
func attributeFindings(l layout, c *gitConfig, tracked []string, env []string) []finding {
	var out []finding
	check := func(path, name string) {
		b, present, err := readSmall(path)
		switch {
		case err != nil:
			out = append(out, finding{reason: name + " cannot be read", tree: true, commit: true})
		case present:
			switch a, k := conversionIn(b, c); k {
			case lineEnds:
				out = append(out, finding{reason: name + " asks for LF line ends (" + a + ")", ends: true})
			case fullConversion:
				out = append(out, both("%s asks for a conversion (%s)", name, a))
			}
		}
	}
	for _, f := range attributeFiles(l, c, env) {
		check(f, f)
	}
	for _, t := range tracked {
		path := filepath.Join(l.root, filepath.FromSlash(t))
		fi, err := os.Lstat(path)
		if err == nil && !fi.Mode().IsRegular() {
			continue // git does not follow a link, and nobody is to wait for a pipe
		}
		if err != nil {
			// git then reads the staged file, which is not at hand here
			out = append(out, finding{reason: t + " is tracked but missing", tree: true, commit: true})
			continue
		}
		check(path, t)
	}
	return out
}
