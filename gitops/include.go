package gitops

import (
	"os"
	"path/filepath"
	"strings"
)

// included reports whether the value of key, met in file from, names a file to include.
func (ld *configLoader) included(key, from string) bool {
	if key == "include.path" {
		return true
	}
	cond, ok := strings.CutPrefix(key, "includeif.")
	if !ok {
		return false
	}
	if cond, ok = strings.CutSuffix(cond, ".path"); !ok {
		return false
	}
	kind, pattern, ok := strings.Cut(cond, ":")
	if !ok {
		return false // git takes a condition that it does not know for false
	}
	switch kind {
	case "gitdir":
		return ld.gitDirMatches(pattern, from, false)
	case "gitdir/i":
		return ld.gitDirMatches(pattern, from, true)
	case "onbranch":
		return ld.onBranch(pattern)
	case "hasconfig":
		return ld.hasURL(pattern)
	}
	return false
}

// gitDirMatches compares the git directory, as it is and with symbolic links resolved, with a pattern.
func (ld *configLoader) gitDirMatches(pattern, from string, fold bool) bool {
	p, ok := ld.c.expand(pattern)
	if !ok {
		ld.c.unclear = append(ld.c.unclear, "includeIf condition "+pattern)
		return false
	}
	switch {
	case strings.HasPrefix(p, "./"):
		dir, err := filepath.EvalSymlinks(filepath.Dir(from))
		if err != nil {
			return false
		}
		p = dir + p[1:]
	case !filepath.IsAbs(p):
		p = "**/" + p
	}
	if strings.HasSuffix(pattern, "/") {
		p = strings.TrimSuffix(p, "/") + "/**" // expansion may have lost the slash
	}
	texts := []string{ld.l.gitDir}
	if real, err := filepath.EvalSymlinks(ld.l.gitDir); err == nil {
		texts = append(texts, real)
	}
	for _, t := range texts {
		if fold {
			p, t = strings.ToLower(p), strings.ToLower(t)
		}
		if wildmatch(p, t, true) {
			return true
		}
	}
	return false
}

func (ld *configLoader) onBranch(pattern string) bool {
	b, err := os.ReadFile(filepath.Join(ld.l.gitDir, "HEAD"))
	if err != nil {
		return false
	}
	ref, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "ref:")
	if !ok {
		return false
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(ref), "refs/heads/")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return ok && wildmatch(pattern, name, true)
}

// hasURL is the one hasconfig condition there is; the first reading only collects the addresses.
func (ld *configLoader) hasURL(cond string) bool {
	pattern, ok := strings.CutPrefix(cond, "remote.*.url:")
	if !ok {
		return false
	}
	ld.asked = true
	if !ld.second {
		return false
	}
	for _, u := range ld.urls {
		if wildmatch(pattern, u, true) {
			return true
		}
	}
	return false
}
