package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"

	"github.com/spf13/pflag"

	"descartes/internal/terminal"
)

// Typed are the flags that a person gave a run, with their values: another run like it needs them again. What names the run itself, or is for the
// moment, is not among them.
type Typed map[string][]string

// momentary are the flags that say which run is meant, or how it is looked at, and not how it works.
var momentary = strings.Fields("scud-tag tasks-file task name working-dir state-file dry-run retry-blocked detach yes trust json plain step last help")

// TypedIn are those of the flags that were given by now. Files are named so that they are found from elsewhere, where dir is not the project's folder.
func TypedIn(f *pflag.FlagSet, root, dir string) Typed {
	out := Typed{}
	f.Visit(func(fl *pflag.Flag) {
		if slices.Contains(momentary, fl.Name) || settingOf(fl.Name) == nil {
			return
		}
		texts := []string{fl.Value.String()}
		if list, ok := fl.Value.(interface{ Texts() []string }); ok {
			texts = slices.Clone(list.Texts())
		}
		if name, _ := pflag.UnquoteUsage(fl); name == "file" && dir != root {
			for i, path := range texts {
				if path != "" && path != "none" && !filepath.IsAbs(path) {
					texts[i] = filepath.Join(dir, path)
				}
			}
		}
		if fl.Name == "prompt" && (texts[0] == "-" || len(texts[0]) > 500 || strings.Contains(texts[0], "\n")) || fl.Name == "prompt-file" && texts[0] == "-" {
			return // nobody types that again
		}
		out[fl.Name] = texts
	})
	return out
}

// And is these flags, and those that were given later, which take their place.
func (t Typed) And(later Typed) Typed {
	out := maps.Clone(t)
	if out == nil {
		out = Typed{}
	}
	maps.Copy(out, later)
	return out
}

// secretIn is where Hide left the value of a variable out.
var secretIn = lazyregexp.New(`\{secret:([A-Za-z_][A-Za-z0-9_]*)\}`)

// String is the flags as a shell takes them, each after a space. The value of a secret stands there as its variable.
func (t Typed) String() string { return t.Without() }

// Without is String but for those flags.
func (t Typed) Without(names ...string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if slices.Contains(names, name) {
			continue
		}
		for _, text := range t[name] {
			switch one := settingOf(name); {
			case one == nil || one.kind != "bool":
				b.WriteString(" --" + name + " " + ShellWord(text))
			case text == "true":
				b.WriteString(" --" + name)
			default:
				b.WriteString(" --" + name + "=" + ShellWord(text))
			}
		}
	}
	return b.String()
}

// ShellWord is a text as one word of a shell. The value of a secret stands there as its variable.
func ShellWord(text string) string {
	var b strings.Builder
	at := 0
	for _, m := range secretIn.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			b.WriteString(terminal.Quote(terminal.Clean(text[at:m[0]])))
		}
		b.WriteString(`"$` + text[m[2]:m[3]] + `"`)
		at = m[1]
	}
	if at == 0 || at < len(text) {
		b.WriteString(terminal.Quote(terminal.Clean(text[at:])))
	}
	return b.String()
}

// settingOf is the setting of a flag, nil for a flag of something else.
func settingOf(flag string) *Setting {
	at := slices.IndexFunc(all, func(s *Setting) bool { return s.Flag == flag })
	if at < 0 {
		return nil
	}
	return all[at]
}

// ListFlags is how a person names the list in another command.
func ListFlags(tag, file string) string {
	s := " --scud-tag " + terminal.Quote(terminal.Clean(tag))
	if file != "" {
		s += " --tasks-file " + terminal.Quote(terminal.Clean(file))
	}
	return s
}
