package gitops

import (
	"slices"
	"strings"
)

// protection is the list of paths that attempts may not change; directories end in a slash.
type protection []string

func newProtection(paths []string) protection {
	var p protection
	for _, s := range paths {
		dir := strings.HasSuffix(s, "/")
		s = strings.Trim(strings.TrimPrefix(s, "./"), "/")
		if s == "" || s == "." {
			continue
		}
		if dir {
			s += "/"
		}
		p = append(p, s)
	}
	return p
}

// covers says whether a path, or a directory that ends in a slash, is protected.
func (p protection) covers(path string) bool {
	return slices.ContainsFunc(p, func(s string) bool {
		return path == s || strings.HasSuffix(s, "/") && strings.HasPrefix(path, s)
	})
}

// within says whether something directly in dir ("" or "a/b/") is protected.
func (p protection) within(dir string) bool {
	return slices.ContainsFunc(p, func(s string) bool {
		rest, ok := strings.CutPrefix(s, dir)
		return ok && rest != "" && !strings.Contains(strings.TrimSuffix(rest, "/"), "/")
	})
}

// safeName says whether a path component may be created, opened or stored: git refuses the same ones.
// It covers what Windows and macOS take for ".git", because trees travel.
func safeName(name string) bool {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return false
	}
	if name[0] != '.' && name[0] != 'g' && name[0] != 'G' {
		return true
	}
	base, _, _ := strings.Cut(name, ":") // an NTFS stream
	base, _, _ = strings.Cut(base, "\\")
	base = strings.TrimRight(base, " .")
	return !strings.EqualFold(base, ".git") && !strings.EqualFold(base, "git~1")
}

// safePath checks every component of a repository path.
func safePath(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if !safeName(name) {
			return false
		}
	}
	return path != ""
}
