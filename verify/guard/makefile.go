package guard

import (
	"cmp"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// makeText is a makefile or justfile, as far as it says what a target does.
type makeText struct {
	rules   map[string]*makeRule
	vars    map[string][]line // assignments by name
	phony   map[string]bool
	special []line // what holds for all rules
	first   string // the default target
	files   int    // that were included
}

type makeRule struct {
	prereqs []string
	recipe  []line
	bodies  int // how often a recipe is given
	at      int
}

// withParameters is how just names a recipe that has them: serve port='80' *args.
const withParameters = `@?[\w-]+(?:\s+[*+$]?\w+(?:=(?:'[^']*'|"[^"]*"|\w+))?)+`

var (
	ruleLine   = lazyregexp.New(`^(@?[^\s:=#][^:=#]*?|` + withParameters + `)\s*::?(?:\s+([^=].*)?)?$`)
	assignment = lazyregexp.New(
		`^(?:export\s+|override\s+|private\s+)*(?:define\s+([\w.]+)|([\w.]+)\s*(?:\?|\+|:{1,3}|!)?=)`)
	ownVariable = lazyregexp.New(
		`^[^\s:=#][^:=#]*::?\s*((?:(?:export|override|private)\s+)*[\w.]+\s*(?:\?|\+|:{1,3}|!)?=.*)$`)
	included   = lazyregexp.New(`^[-s]?include\s+(.+)$`)
	reference  = lazyregexp.New(`\$[({]([\w.]+)[)}]|\{\{\s*(\w+)`)
	evaluated  = lazyregexp.New(`^\$[({](?:call|foreach|shell|if|or|and)\b|\$[({]eval\b`)
	globalMake = lazyregexp.New(
		`^(?:\.SHELLFLAGS|SHELL|MAKEFLAGS|GNUMAKEFLAGS|\.IGNORE|\.DEFAULT\w*|\.ONESHELL|(?:export\s+)?PATH|unexport|(?:export\s+)?(?:GOFLAGS|PYTEST_ADDOPTS|BASH_ENV|ENV|PYTHONPATH|NODE_OPTIONS))\b`)
)

// readMake reads a makefile with those that it includes.
func readMake(src string, read func(string) (string, bool)) *makeText {
	m := &makeText{rules: map[string]*makeRule{}, vars: map[string][]line{}, phony: map[string]bool{}}
	m.read(src, read, 0)
	return m
}

func (m *makeText) read(src string, read func(string) (string, bool), deep int) {
	const joined = "\x00" // lines of which the first ends with a backslash
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\\\n", joined)
	var now []*makeRule // whose recipe may follow
	next := 1
	for raw := range strings.SplitSeq(src, "\n") {
		at := next
		next += strings.Count(raw, joined) + 1
		raw = strings.ReplaceAll(raw, joined, " ")
		s := strings.TrimSpace(raw)
		inRecipe := len(now) > 0 && s != "" && (raw[0] == '\t' || raw[0] == ' ')
		switch {
		case s == "" || strings.HasPrefix(s, "#"):
		case inRecipe:
			for _, r := range now {
				r.add(line{n: at, text: s})
			}
		default:
			now = m.statement(line{n: at, text: s}, now, read, deep)
		}
	}
}

// add adds a line to the recipe that stands below the rule's last line; where it is the first there, that is one more
// body.
func (r *makeRule) add(l line) {
	if len(r.recipe) == 0 || r.recipe[len(r.recipe)-1].indent != r.at {
		r.bodies++
	}
	l.indent = r.at
	r.recipe = append(r.recipe, l)
}

// statement takes a line that is no recipe's, and returns the rules whose recipe may follow it: now, where the line
// ends none.
func (m *makeText) statement(l line, now []*makeRule, read func(string) (string, bool), deep int) []*makeRule {
	if globalMake.MatchString(l.text) || evaluated.MatchString(l.text) {
		m.special = append(m.special, l)
	}
	if inc := included.FindStringSubmatch(l.text); inc != nil {
		m.include(l, inc[1], read, deep)
		return now
	}
	own := firstGroup(ownVariable, l.text) // of a target
	if name := firstGroup(assignment, cmp.Or(own, l.text)); name != "" {
		m.vars[name] = append(m.vars[name], l)
		if globalMake.MatchString(own) {
			m.special = append(m.special, l)
		}
		return nil
	}
	if r := ruleLine.FindStringSubmatch(l.text); r != nil {
		return m.rule(r[1], r[2], l.n)
	}
	if strings.HasPrefix(l.text, "if") || l.text == "else" || l.text == "endif" {
		return now
	}
	return nil
}

// include reads the files that a line includes.
func (m *makeText) include(l line, names string, read func(string) (string, bool), deep int) {
	for name := range strings.FieldsSeq(names) {
		if m.files++; m.files > mostFollowed || deep >= deepest {
			return
		}
		if text, ok := read(name); ok {
			m.read(text, read, deep+1)
		} else if strings.ContainsAny(name, "*?[") && !strings.HasSuffix(strings.TrimRight(name, ")}"), ".d") {
			m.special = append(m.special, l) // which files it reads is not known
		}
	}
}

// rule notes a line that begins a rule, and returns the rules that its recipe belongs to.
func (m *makeText) rule(names, rest string, at int) (now []*makeRule) {
	prereqs, inline, _ := strings.Cut(rest, ";")
	prereqs, _, _ = strings.Cut(prereqs, "#")
	if strings.TrimSpace(names) == ".PHONY" {
		for p := range strings.FieldsSeq(prereqs) {
			m.phony[p] = true
		}
		return nil
	}
	list := strings.Fields(names)
	if strings.HasPrefix(names, "@") || len(list) > 1 && strings.ContainsAny(names, "*='\"") { // just: parameters
		list = list[:1]
	}
	for _, name := range list {
		name = strings.TrimPrefix(name, "@")
		r := m.rules[name]
		if r == nil {
			r = &makeRule{}
			m.rules[name] = r
		}
		r.at = at
		r.prereqs = append(r.prereqs, strings.Fields(strings.ReplaceAll(prereqs, "|", " "))...)
		if inline = strings.TrimSpace(inline); inline != "" {
			r.bodies++
			r.recipe = append(r.recipe, line{at, inline, at})
		}
		now = append(now, r)
		if m.first == "" && !strings.HasPrefix(name, ".") && !strings.Contains(name, "%") {
			m.first = name
		}
	}
	return now
}

// uses lists the targets that goals need, themselves included.
func (m *makeText) uses(goals []string) (out []string) {
	seen := map[string]bool{}
	for i, list := 0, slices.Clone(goals); i < len(list); i++ {
		if seen[list[i]] {
			continue
		}
		seen[list[i]] = true
		out = append(out, list[i])
		if r := m.rules[list[i]]; r != nil {
			list = append(list, r.prereqs...)
			for _, l := range r.recipe {
				list = append(list, called(l.text)...)
			}
		}
	}
	return out
}

var recursive = lazyregexp.New(`\$[({]MAKE[)}]((?:\s+[\w./=-]+)+)`)

// called are targets that a recipe's line makes by make itself.
func called(text string) (out []string) {
	for _, m := range recursive.FindAllStringSubmatch(text, -1) {
		for w := range strings.FieldsSeq(m[1]) {
			if strings.HasPrefix(w, "-C") {
				return out
			}
			if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
				out = append(out, w)
			}
		}
	}
	return out
}

// commands are the lines of a target's recipe, with the variables that are plain put in, as long as that makes no line
// that is not followed anyway.
func (m *makeText) commands(target string) (out []string) {
	r := m.rules[target]
	if r == nil {
		return nil
	}
	for _, l := range r.recipe {
		s, room := strings.TrimLeft(l.text, "@-+"), mostShell
		s = reference.ReplaceAllStringFunc(s, func(ref string) string {
			v := m.value(ref)
			if room -= len(v); room < 0 {
				return ref
			}
			return v
		})
		out = append(out, strings.ReplaceAll(s, "$$", "$"))
	}
	return out
}

func (m *makeText) value(ref string) string {
	list := m.vars[firstGroup(reference, ref)]
	if len(list) != 1 {
		return ref
	}
	_, v, _ := strings.Cut(list[0].text, "=")
	return strings.TrimSpace(v)
}

// used are the variables that targets lead to.
func (m *makeText) used(targets []string) (out []string) {
	var list []string
	refs := func(s string) {
		for _, x := range reference.FindAllString(s, -1) {
			list = append(list, firstGroup(reference, x))
		}
	}
	for _, t := range targets {
		if r := m.rules[t]; r != nil {
			for _, l := range r.recipe {
				refs(l.text)
			}
			refs(strings.Join(r.prereqs, " "))
		}
	}
	seen := map[string]bool{}
	for i := 0; i < len(list); i++ {
		if seen[list[i]] {
			continue
		}
		seen[list[i]] = true
		out = append(out, list[i])
		for _, l := range m.vars[list[i]] {
			refs(l.text)
		}
	}
	return out
}
