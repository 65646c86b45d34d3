package gitops

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"descartes/internal/oscall"
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

// Patterns are the lines of a .gitignore, in order.
type Patterns struct{ rules *ignoreRules }

// NewPatterns parses lines.
func NewPatterns(lines []string) Patterns {
	return Patterns{parseIgnore([]byte(strings.Join(lines, "\n")), "")}
}

// Match says what the last pattern that applies to a file says: that it matches or, where the pattern begins with
// "!", that it is excepted. A pattern for a folder applies to all files in it.
func (p Patterns) Match(path string) (meant, excepted bool) {
	said := unsaid
	for i, c := range path + "/" {
		if c != '/' {
			continue
		}
		part := path[:i]
		if v := p.rules.match(part, part[strings.LastIndexByte(part, '/')+1:], i < len(path)); v != unsaid {
			said = v
		}
	}
	return said == ignored, said == included
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
	fd, err := oscall.Openat(dirfd, name, syscall.O_RDONLY|oscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
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

// pathIgnored applies the ignore rules on the disk to one path, which need not exist.
func (r *Repo) pathIgnored(path string) bool {
	d := &scope{}
	for _, g := range r.scanner.global {
		g.refresh()
	}
	for {
		if fd, err := r.root.open(d.path, openDirFlags, 0); err == nil {
			d.rules = readIgnoreAt(fd, d.path)
			oscall.Close(fd)
		}
		name, _, below := strings.Cut(path[len(d.path):], "/")
		if !below {
			return d.ignores(r.scanner, name)
		}
		if r.scanner.verdict(d, d.path+name, name, true) == ignored {
			return true
		}
		d = &scope{path: d.path + name + "/", up: d}
	}
}

// TreeWithout returns a tree in which some paths are as in base: what an attempt left there is not part of its work.
func (r *Repo) TreeWithout(base, tree Tree, paths []string) (Tree, error) {
	if len(paths) == 0 || base == tree {
		return tree, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	from, err := parseID(string(base))
	if err != nil {
		return "", err
	}
	id, err := parseID(string(tree))
	if err != nil {
		return "", err
	}
	before := &treeView{store: r.store, root: from}
	edits := map[string]treeItem{}
	for _, path := range paths {
		if edits[path], err = before.file(path); err != nil {
			return "", err
		}
	}
	e := treeEditor{objects: r.store}
	if id, err = e.edit("", &id, edits); err != nil {
		return "", fmt.Errorf("leave files out of a tree: %w", err)
	}
	return Tree(id.String()), r.store.writeOut()
}

// TreeWith returns a tree with some paths as in another one; paths that the other lacks are removed.
func (r *Repo) TreeWith(tree, from Tree, paths []string) (Tree, error) {
	return r.TreeWithout(from, tree, paths)
}

// wildmatch is git's own pattern matcher. In a path, "*" and "?" do not match a slash, and "**" does where it
// is a whole component.
func wildmatch(pattern, text string, path bool) bool {
	m := matcher{whole: pattern, path: path, budget: 1 << 20}
	return m.match(0, text) == matchYes
}

type matchResult int8

const (
	matchNo      matchResult = iota
	matchYes                 //
	matchAbort               // no start further right can match either
	matchToSlash             // nor can one before the next slash
)

type matcher struct {
	whole  string
	path   bool
	budget int // steps left: hostile patterns are exponential, and then match nothing
}

// match compares the pattern from at on with text.
func (m *matcher) match(at int, text string) matchResult {
	p := m.whole
	for ; at < len(p); at++ {
		if m.budget--; m.budget < 0 {
			return matchAbort
		}
		if text == "" && p[at] != '*' {
			return matchAbort
		}
		switch p[at] {
		case '\\':
			at++
			if at == len(p) || text[0] != p[at] {
				return matchNo
			}
		case '?':
			if m.path && text[0] == '/' {
				return matchNo
			}
		case '*':
			next, rest, r, done := m.star(at, text)
			if done {
				return r
			}
			at, text = next, rest
			continue // both stand behind the slash already
		case '[':
			ok, n := matchClass(p[at:], text[0])
			if n == 0 {
				return matchAbort
			}
			if !ok || m.path && text[0] == '/' {
				return matchNo
			}
			at += n - 1
		default:
			if text[0] != p[at] {
				return matchNo
			}
		}
		text = text[1:]
	}
	if text != "" {
		return matchNo
	}
	return matchYes
}

// star deals with the "*" or "**" at position at. Unless done, matching goes on behind position next with rest.
func (m *matcher) star(at int, text string) (next int, rest string, r matchResult, done bool) {
	p := m.whole
	first := at
	for at+1 < len(p) && p[at+1] == '*' {
		at++
	}
	across := !m.path // whether it matches slashes
	if m.path && at > first && (first == 0 || p[first-1] == '/') {
		tail := p[at+1:]
		if tail == "" || tail[0] == '/' || strings.HasPrefix(tail, `\/`) {
			// "**/" also matches nothing at all
			if tail != "" && tail[0] == '/' && m.match(at+2, text) == matchYes {
				return 0, "", matchYes, true
			}
			across = true
		}
	}
	at++
	if at == len(p) {
		if !across && strings.IndexByte(text, '/') >= 0 {
			return 0, "", matchToSlash, true
		}
		return 0, "", matchYes, true
	}
	if !across && p[at] == '/' {
		i := strings.IndexByte(text, '/')
		if i < 0 {
			return 0, "", matchAbort, true
		}
		return at, text[i+1:], 0, false
	}
	return 0, "", m.anywhere(at, text, across), true
}

// anywhere tries the rest of the pattern at every place of text that the star before it may reach.
func (m *matcher) anywhere(at int, text string, across bool) matchResult {
	for ; text != ""; text = text[1:] {
		r := m.match(at, text)
		if r != matchNo {
			if !across || r != matchToSlash {
				return r
			}
		} else if !across && text[0] == '/' {
			return matchToSlash
		}
	}
	return matchAbort
}

// matchClass compares c with the bracket expression at the start of p; n is its length, 0 if it is not closed.
func matchClass(p string, c byte) (ok bool, n int) {
	i := 1
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	var prev byte // the start of a possible range
	for first := true; ; first = false {
		if i >= len(p) {
			return false, 0
		}
		ch := p[i]
		switch {
		case ch == ']' && !first:
			return ok != negated, i + 1
		case ch == '\\':
			if i++; i >= len(p) {
				return false, 0
			}
			ch = p[i]
			ok = ok || c == ch
		case ch == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']':
			if i++; p[i] == '\\' {
				i++
			}
			if i >= len(p) {
				return false, 0
			}
			ok = ok || c >= prev && c <= p[i]
			ch = 0
		case ch == '[' && i+1 < len(p) && p[i+1] == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return false, 0
			}
			if end == 0 || p[i+1+end] != ':' { // no class after all: a plain bracket
				ok = ok || c == '['
				break
			}
			in, known := posixClass(p[i+2:i+1+end], c)
			if !known {
				return false, 0
			}
			ok = ok || in
			i += 2 + end
			ch = 0
		default:
			ok = ok || c == ch
		}
		prev = ch
		i++
	}
}

func posixClass(name string, c byte) (in, known bool) {
	upper, lower, digit := c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9'
	switch name {
	case "alnum":
		return upper || lower || digit, true
	case "alpha":
		return upper || lower, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 32 || c == 127, true
	case "digit":
		return digit, true
	case "graph":
		return c > 32 && c < 127, true
	case "lower":
		return lower, true
	case "print":
		return c >= 32 && c < 127, true
	case "punct":
		return c > 32 && c < 127 && !upper && !lower && !digit, true
	case "space":
		return c == ' ' || c >= 9 && c <= 13, true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F', true
	}
	return false, false
}
