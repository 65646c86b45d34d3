package gitops

import (
	"bytes"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ignoreRules are the patterns of one file, with the directory that they are relative to.
type ignoreRules struct {
	dir      string // "" or "a/b/"
	patterns []pattern
}

// pattern is one line of an ignore file.
type pattern struct {
	text    string
	negated bool
	dirOnly bool
	base    bool   // no slash: only the last component is compared
	literal int    // bytes before the first special one
	suffix  string // of a base pattern that is "*" and literal bytes
}

const (
	globSpecial  = "*?[\\"
	maxRulesSize = 16 << 20 // a file beyond it is taken for no ignore file
)

// parseIgnore returns nil where the file holds no pattern.
func parseIgnore(b []byte, dir string) *ignoreRules {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	r := &ignoreRules{dir: dir}
	for line := range bytes.Lines(b) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if p, ok := parsePattern(string(line)); ok {
			r.patterns = append(r.patterns, p)
		}
	}
	if len(r.patterns) == 0 {
		return nil
	}
	return r
}

func parsePattern(s string) (pattern, bool) {
	if strings.HasPrefix(s, "#") {
		return pattern{}, false
	}
	var p pattern
	s = trimSpaces(s)
	s, p.negated = strings.CutPrefix(s, "!")
	s, p.dirOnly = strings.CutSuffix(s, "/")
	p.base = !strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	if s == "" {
		return p, false
	}
	p.text = s
	p.literal = strings.IndexAny(s, globSpecial)
	if p.literal < 0 {
		p.literal = len(s)
	}
	if p.base && s[0] == '*' && !strings.ContainsAny(s[1:], globSpecial) {
		p.suffix = s[1:]
	}
	return p, true
}

// trimSpaces cuts trailing spaces that no backslash keeps.
func trimSpaces(s string) string {
	end := len(s)
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			if end > i {
				end = i
			}
			continue
		case '\\':
			i++
		}
		end = len(s)
	}
	return s[:min(end, len(s))]
}

// verdict is what a rule says of a path.
type verdict int8

const (
	unsaid verdict = iota
	ignored
	included
)

// match finds the last pattern that speaks of path, whose last component is name.
func (r *ignoreRules) match(path, name string, isDir bool) verdict {
	if r == nil {
		return unsaid
	}
	rel := path[len(r.dir):]
	for i := len(r.patterns) - 1; i >= 0; i-- {
		p := &r.patterns[i]
		if p.dirOnly && !isDir || !p.matches(rel, name) {
			continue
		}
		if p.negated {
			return included
		}
		return ignored
	}
	return unsaid
}

func (p *pattern) matches(rel, name string) bool {
	literal := p.literal == len(p.text)
	switch {
	case p.base && literal:
		return name == p.text
	case p.base && p.suffix != "":
		return strings.HasSuffix(name, p.suffix)
	case p.base:
		return wildmatch(p.text, name, false)
	case literal:
		return rel == p.text
	}
	// git takes the literal start off both first, so that "a**/b" is left as "**/b"
	return strings.HasPrefix(rel, p.text[:p.literal]) && wildmatch(p.text[p.literal:], rel[p.literal:], true)
}

// readIgnoreAt reads the ignore file of a directory, nil where it has none.
func readIgnoreAt(dirfd int, dir string) *ignoreRules {
	b := readRulesAt(dirfd, ".gitignore")
	if b == nil {
		return nil
	}
	return parseIgnore(b, dir)
}

// readRulesAt reads a file of rules in a directory. As git does, it follows no symbolic link there; what is no
// regular file, or cannot be read, is not heeded.
func readRulesAt(dirfd int, name string) []byte {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxRulesSize {
		return nil
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	return b
}

// ruleFile is an ignore file outside the working tree, read again when it changed.
type ruleFile struct {
	path  string
	st    fileStat
	rules *ignoreRules
	news  bool // the rules may be others than at the last scan
}

// refresh reads the file if it changed.
func (f *ruleFile) refresh() {
	if f.path == "" {
		return
	}
	info, err := statPath(f.path)
	if err != nil || info.mode == modeDir || info.size > maxRulesSize {
		f.news = f.news || f.rules != nil
		f.st, f.rules = fileStat{}, nil
		return
	}
	if f.st.same(&info.st) && f.st != (fileStat{}) {
		return
	}
	b, err := readPlain(f.path, mostRules)
	if err != nil {
		b = nil
	}
	f.st, f.rules, f.news = info.st, parseIgnore(b, ""), true
}
