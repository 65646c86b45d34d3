package guard

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"descartes/internal/lazyregexp"
)

// checks is what the commands run, found in the files as they were before.
type checks struct {
	base    func(string) ([]byte, bool)
	scripts map[string]string // of the checks: path to what runs it, for people
	product map[string]string // programs of the project itself, that the checks run: path to what runs it
	// what did not exist, and is sourced or would be a script of the checks: path to what runs it
	missing  map[string]string
	targets  map[string][]string // path of a makefile to the targets that are asked for
	packages map[string][]string // path of a package.json to the scripts that are run
	programs map[string]bool     // first words
	texts    int                 // that were read
}

// mostFollowed bounds the files that are read, and deepest how far one leads to another.
const (
	mostFollowed = 200
	mostTexts    = 2000
	deepest      = 8
	mostShell    = 64 << 10 // bytes of a shell text: its parser takes up to a kilobyte of stack for each, and cannot give up
)

// follow finds the scripts, targets and package scripts that decide whether the commands pass. A command whose output
// is piped into another one, or substituted, does not decide: it is what is checked.
func follow(commands []string, base func(string) ([]byte, bool)) *checks {
	c := &checks{base: base, scripts: map[string]string{}, product: map[string]string{}, missing: map[string]string{},
		targets: map[string][]string{}, packages: map[string][]string{}, programs: map[string]bool{}}
	for _, command := range commands {
		c.shell(command, ".", "", "the check", 0)
	}
	return c
}

// place is where a command of a shell text stands.
type place struct {
	dir  string // that the shell is in
	self string // the script's own folder; "" for a command
	by   string
	deep int
}

// shell follows a text for sh.
func (c *checks) shell(src, dir, self, by string, deep int) {
	if c.texts++; c.texts > mostTexts || deep > deepest || len(src) > mostShell {
		return
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if err != nil {
		return // the shell will not run it either
	}
	c.walk(f, subjects(f, src), &place{dir: dir, self: self, by: by, deep: deep})
}

// walk follows the calls in a part of a shell text, except in subjects.
func (c *checks) walk(part syntax.Node, subject map[*syntax.Stmt]bool, at *place) {
	syntax.Walk(part, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.Subshell: // a cd in it ends with it
			inside := *at
			for _, s := range n.Stmts {
				c.walk(s, subject, &inside)
			}
			return false
		case *syntax.Stmt:
			return !subject[n]
		case *syntax.CallExpr:
			c.call(n.Args, at)
		}
		return true
	})
}

// subjects are the statements whose output is looked at, and not their exit status.
func subjects(f *syntax.File, src string) map[*syntax.Stmt]bool {
	out := map[*syntax.Stmt]bool{}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				right, ok := n.Y.Cmd.(*syntax.CallExpr)
				out[n.X] = !ok || len(right.Args) == 0 || !slices.Contains([]string{"tee", "cat", "tail"},
					right.Args[0].Lit())
			}
		case *syntax.Stmt:
			for _, r := range n.Redirs {
				if to := r.Word.Lit(); r.Op != syntax.RdrIn && r.Op != syntax.DplOut && to != "" &&
					!strings.HasPrefix(to, "/dev/") && strings.Count(src, to) > 1 {
					out[n] = true
				}
			}
		}
		return true
	})
	return out
}

// literal is a word without its quotes; of one with variables, what stands after the last of them.
func literal(w *syntax.Word) (s string, whole bool) {
	whole = true
	var parts func([]syntax.WordPart)
	parts = func(list []syntax.WordPart) {
		for _, p := range list {
			switch p := p.(type) {
			case *syntax.Lit:
				s += p.Value
			case *syntax.SglQuoted:
				s += p.Value
			case *syntax.DblQuoted:
				parts(p.Parts)
			default:
				s, whole = "", false
			}
		}
	}
	parts(w.Parts)
	return s, whole
}

// Words that run what follows them, and what reads its script from its first argument.
var (
	wrapper = lazyregexp.New(
		`^(?:env|time|timeout|exec|command|nice|nohup|sudo|xvfb-run|npx|bunx|then|do|if|eval|builtin|stdbuf|caffeinate|\w+=.*)$`)
	interpreter = lazyregexp.New(
		`^(?:sh|bash|dash|zsh|ksh|source|\.|python[\d.]*|pypy3?|node|nodejs|ruby|perl|php|deno|bun|ts-node|tsx|lua|Rscript|pwsh|babel-node)$`)
	option    = lazyregexp.New(`^(?:-|\d|[^/]*=)`)
	runs      = lazyregexp.New(`^(?:(?:poetry|uv|pipenv|pdm|hatch) run|bundle exec|(?:yarn|pnpm) exec)$`)
	shellName = lazyregexp.New(`^(?:sh|bash|dash|zsh|ksh)$`)
)

func (c *checks) call(args []*syntax.Word, at *place) {
	words := make([]string, 0, len(args))
	for _, a := range args {
		s, whole := literal(a)
		if !whole && s != "" {
			s = "$" + s // what it begins with is not known
		}
		words = append(words, s)
	}
	for len(words) > 0 {
		switch name := path.Base(words[0]); {
		case len(words) > 2 && runs.MatchString(name+" "+words[1]):
			words = words[2:]
		case wrapper.MatchString(name):
			words = words[1:]
			for len(words) > 0 && option.MatchString(words[0]) {
				words = words[1:]
			}
		default:
			c.command(words, at)
			return
		}
	}
}

func (c *checks) command(words []string, at *place) {
	name, rest := path.Base(words[0]), words[1:]
	if !strings.Contains(words[0], "/") {
		c.programs[name] = true
	}
	switch {
	case name == "cd" || name == "pushd":
		if len(rest) == 1 && !strings.HasPrefix(rest[0], "$") && !path.IsAbs(rest[0]) {
			at.dir = path.Join(at.dir, rest[0])
		}
	case interpreter.MatchString(name):
		for i, w := range rest {
			switch {
			case shellName.MatchString(name) && strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") &&
				i+1 < len(rest):
				c.shell(rest[i+1], at.dir, at.self, at.by, at.deep+1)
				return
			case w == "-m" && i+1 < len(rest):
				c.programs[rest[i+1]] = true
				return
			case !strings.HasPrefix(w, "-") && w != "run":
				c.script(w, at, name == "." || name == "source")
				return
			}
		}
	case name == "make" || name == "gmake" || name == "just":
		c.make(name, rest, at)
	case slices.Contains([]string{"npm", "yarn", "pnpm", "bun", "npm-run-all", "run-s", "run-p"}, name):
		c.npm(name, rest, at)
	default:
		if strings.Contains(words[0], "/") {
			c.script(words[0], at, false)
		}
	}
}

// script notes a file that is run, and follows it.
func (c *checks) script(word string, at *place, sourced bool) {
	word, open := strings.CutPrefix(word, "$")
	tries := []string{path.Join(at.dir, word)}
	if at.self != "" {
		tries = append(tries, path.Join(at.self, word))
	}
	if open && !strings.HasPrefix(word, "/") || word == "" || !open && path.IsAbs(word) {
		return
	}
	for _, file := range tries {
		file = strings.TrimPrefix(file, "/")
		data, ok := c.base(file)
		if !ok && at.deep > 0 && (sourced || ofTools(file)) {
			c.missing[file] = at.by
		}
		if !ok || c.scripts[file] != "" || c.product[file] != "" {
			continue
		}
		if len(c.scripts)+len(c.product) >= mostFollowed || at.deep >= deepest {
			return
		}
		if ofTools(file) {
			c.scripts[file] = at.by
		} else {
			c.product[file] = at.by
		}
		if isShell(file, data) {
			c.shell(string(data), at.dir, path.Dir(file), file, at.deep+1)
		}
		return
	}
}

// Where projects keep what checks them, and how they name it.
var (
	toolFolder = lazyregexp.New(
		`(?i)(?:^|/)(?:tests?|specs?|__tests__|t|e2e|checks?|qa|scripts?|tools?|hack|\.?ci|build|\.github|\.gitlab|\.circleci|\.buildkite|\.husky|\.githooks|node_modules|\.?venv)/`)
	toolName = lazyregexp.New(
		`(?i)(?:^|[^a-z])(?:run|do|all)?(?:tests?|testing|checks?|verify|verification|validate|lint|specs?|ci|e2e|smoke|presubmit|precommit)(?:[^a-z]|$)`)
)

// ofTools reports whether a script that a check runs belongs to the checks by its folder or its name. Any other one is
// what is checked.
func ofTools(file string) bool {
	return toolFolder.MatchString(file) || toolName.MatchString(path.Base(file))
}

var shebang = lazyregexp.New(`^#!.*\b(?:sh|bash|dash|zsh|ksh)\b`)

func isShell(file string, data []byte) bool {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	return strings.HasSuffix(file, ".sh") || strings.HasSuffix(file, ".bash") || shebang.Match(first) ||
		path.Ext(file) == "" && !bytes.HasPrefix(first, []byte("#!")) && !bytes.Contains(data, []byte{0})
}

// make follows the targets that make or just is called for.
func (c *checks) make(program string, args []string, at *place) {
	dir, file, goals := makeArgs(args)
	dir = path.Join(at.dir, dir)
	names := makefiles
	switch {
	case file != "":
		names = []string{file}
	case program == "just":
		names = []string{"justfile", "Justfile", ".justfile"}
	}
	for _, name := range names {
		if data, ok := c.base(path.Join(dir, name)); ok {
			c.goals(path.Join(dir, name), string(data), goals, dir, at)
			return
		}
	}
}

// makeArgs reads the arguments of make or just.
func makeArgs(args []string) (dir, file string, goals []string) {
	for i := 0; i < len(args); i++ {
		a, valued := args[i], i+1 < len(args)
		switch {
		case (a == "-C" || a == "--directory") && valued:
			i++
			dir = path.Join(dir, args[i])
		case (a == "-f" || a == "--file" || a == "--justfile") && valued:
			i++
			file = args[i]
		case (a == "-j" || a == "-l") && valued && strings.Trim(args[i+1], "0123456789") == "":
			i++
		case strings.HasPrefix(a, "-") || strings.Contains(a, "=") || a == "" || strings.HasPrefix(a, "$"):
		default:
			goals = append(goals, a)
		}
	}
	return dir, file, goals
}

// goals follows the recipes of a makefile, run in dir, that the goals need; without goals, those of its first target.
func (c *checks) goals(file, text string, goals []string, dir string, at *place) {
	if at.deep >= deepest {
		return
	}
	m := readMake(text, func(name string) (string, bool) {
		b, ok := c.base(path.Join(dir, name))
		return string(b), ok
	})
	if len(goals) == 0 && m.first != "" {
		goals = []string{m.first}
	}
	seen := map[string]bool{}
	for _, goal := range c.targets[file] {
		seen[goal] = true
	}
	goals = slices.DeleteFunc(slices.Clone(goals), func(goal string) bool {
		was := seen[goal]
		seen[goal] = true
		return was
	})
	c.targets[file] = append(c.targets[file], goals...)
	for _, t := range m.uses(goals) {
		for _, cmd := range m.commands(t) {
			c.shell(cmd, dir, "", file+": "+t, at.deep+1)
		}
	}
}

// makefiles are the names that make looks for, in its order.
var makefiles = []string{"GNUmakefile", "makefile", "Makefile"}

// npm follows the scripts that a package manager is called for.
func (c *checks) npm(program string, args []string, at *place) {
	var names []string
	all := program == "npm-run-all" || strings.HasPrefix(program, "run-")
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "-"):
		case a == "run" || a == "run-script":
		case a == "t" || a == "tst":
			names = append(names, "test")
		default:
			names = append(names, a)
		}
		if len(names) > 0 && !all {
			break
		}
	}
	file := path.Join(at.dir, "package.json")
	data, ok := c.base(file)
	if !ok || at.deep >= deepest {
		return
	}
	scripts := readPackage(data).Scripts
	for _, name := range names {
		for _, n := range []string{"pre" + name, name, "post" + name} {
			text, ok := scripts[n]
			if !ok && n != name || slices.Contains(c.packages[file], n) {
				continue
			}
			c.packages[file] = append(c.packages[file], n)
			c.shell(text, at.dir, "", file+": "+n, at.deep+1)
		}
	}
}

// manifest is what a package.json says.
type manifest struct {
	Scripts map[string]string          `json:"-"`
	All     map[string]json.RawMessage `json:"-"`
}

// readPackage reads a package.json; one that is no JSON says nothing.
func readPackage(data []byte) manifest {
	m := manifest{Scripts: map[string]string{}}
	if json.Unmarshal(data, &m.All) != nil {
		return m
	}
	var scripts map[string]any
	if json.Unmarshal(m.All["scripts"], &scripts) == nil {
		for name, v := range scripts {
			if s, ok := v.(string); ok {
				m.Scripts[name] = s
			}
		}
	}
	return m
}
