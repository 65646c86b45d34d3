package agent

import (
	"bytes"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Host is where a client would run, as far as Preflight looks at it.
type Host struct {
	Root    bool                     // we are the superuser
	Env     func(name string) string // of the client
	Read    func(path string) []byte // the beginning of a file; nil where it cannot be read
	Dir     string                   // the project
	Version string                   // what the program says of its version; "" where it was not asked
}

// Problem is something that would keep a client from its work.
type Problem struct {
	What, Fix string
	Certain   bool // else it may work all the same
}

// Known reports whether Preflight knows the backend's program, by its name. Only such a program is sure to understand
// --version.
func (b Backend) Known() bool {
	_, ok := b.needs()
	return ok
}

// Install is the command that gets the backend's program, "" where it is not known.
func (b Backend) Install() string {
	n, _ := b.needs()
	return n.install
}

func (b Backend) needs() (needs, bool) {
	if len(b.Command) == 0 {
		return needs{}, false
	}
	program := path.Base(filepath.ToSlash(b.Command[0]))
	for _, n := range known() {
		if n.program == program {
			return n, true
		}
	}
	return needs{}, false
}

// Preflight says what would keep the program from working as it is called, and what mends that. It looks at nothing but the
// variables and the files of the place; of a program that it does not know it says nothing.
func (b Backend) Preflight(p Host) (found []Problem) {
	n, ok := b.needs()
	if !ok {
		return nil
	}
	env := func(name string) string { // as the program will find it
		if v := b.Env[name]; v != "" || slices.Contains(b.UnsetEnv, name) {
			return v
		}
		return p.Env(name)
	}
	if p.Root && n.root.applies(b.Command, env) {
		found = append(found, Problem{What: n.root.what, Fix: n.root.fix, Certain: n.root.certain})
	}
	if n.trust.applies(b.Command, env) && !n.trusted.names(p, env) {
		found = append(found, Problem{What: n.trust.what, Fix: n.trust.fix, Certain: n.trust.certain})
	}
	given := func(name string) bool { return env(name) != "" }
	holds := func(f file) bool { return f.holds(p, env) }
	if !slices.ContainsFunc(n.vars, given) && !slices.ContainsFunc(n.files, holds) {
		found = append(found, Problem{What: "no login of it is found, neither in the environment nor in its files", Fix: n.login})
	}
	for _, t := range n.troubles {
		if t.of(p.Version) {
			found = append(found, Problem{What: t.what, Fix: t.fix})
		}
	}
	return found
}

// applies reports whether a client called so would refuse.
func (r refusal) applies(command []string, env func(string) string) bool {
	if r.what == "" || r.pardon != "" && env(r.pardon) == r.value || r.unless != "" && slices.Contains(command, r.unless) {
		return false
	}
	return len(r.options) == 0 || slices.ContainsFunc(r.options, func(o string) bool { return slices.Contains(command, o) })
}

// read is the file's text.
func (f file) read(p Host, env func(string) string) []byte {
	dir := filepath.Join(env("HOME"), f.folder)
	switch {
	case f.inProject:
		dir = filepath.Join(p.Dir, f.folder)
	case f.variable != "" && env(f.variable) != "":
		dir = env(f.variable)
	case env("HOME") == "":
		return nil
	}
	return p.Read(filepath.Join(dir, f.name))
}

// holds reports whether the file is there and has one of its words.
func (f file) holds(p Host, env func(string) string) bool {
	text := f.read(p, env)
	return len(text) > 0 && (len(f.any) == 0 || slices.ContainsFunc(f.any, func(word string) bool { return bytes.Contains(text, []byte(word)) }))
}

// names reports whether the file names the project or a folder above it.
func (f file) names(p Host, env func(string) string) bool {
	if f.name == "" {
		return false
	}
	text := f.read(p, env)
	for dir := p.Dir; len(text) > 0; dir = filepath.Dir(dir) {
		if bytes.Contains(text, []byte(strconv.Quote(dir))) {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false
}

// of reports whether the trouble is one of this version.
func (t trouble) of(version string) bool {
	v := regexp.MustCompile(`\d+(\.\d+)+`).FindString(version)
	return v != "" && (t.from == "" || !older(v, t.from)) && (t.before == "" || older(v, t.before))
}

// older compares versions by their numbers; one that is missing is 0.
func older(v, than string) bool {
	a, b := strings.Split(v, "."), strings.Split(than, ".")
	for i := range max(len(a), len(b)) {
		if x, y := numberAt(a, i), numberAt(b, i); x != y {
			return x < y
		}
	}
	return false
}

func numberAt(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i])
	return n
}

// CommandLine is how the program is called for a model, for people: what it gets as its prompt is named, not quoted, and of
// the variables that the backend adds only the names are given, for some hold keys.
func (b Backend) CommandLine(model string) string {
	words := slices.Clone(b.Command)
	if model != "" {
		for _, arg := range b.ModelArgs {
			words = append(words, strings.ReplaceAll(arg, "{model}", model))
		}
	}
	line := strings.Join(words, " ")
	switch {
	case b.Format == FormatACP:
		told := "its prompt"
		if model != "" {
			told += " and the model " + model
		}
		line += ", and told " + told + " by the Agent Client Protocol"
	case b.Prompt == ByStdin:
		line = strings.Join(append(words, b.StdinArgs...), " ") + " <prompt"
	case b.Prompt == ByArg:
		if !strings.Contains(line, "{prompt}") {
			line += " {prompt}"
		}
	case b.Prompt == ByFile:
		if !strings.Contains(line, "{prompt_file}") {
			line += " {prompt_file}"
		}
	case b.Prompt == ByEnv:
		line += ", the prompt in " + PromptVar
	}
	if len(b.Env) > 0 {
		line += ", with " + strings.Join(slices.Sorted(maps.Keys(b.Env)), ", ") + " set"
	}
	return line
}

// WithEnv is the backend with a user's variables added to its own.
func (b Backend) WithEnv(env map[string]string) Backend {
	b.Env = overlaid(b.Env, env)
	return b
}
