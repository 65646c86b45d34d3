package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"descartes/internal/lazyregexp"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
)

// source is where a setting's value comes from: a flag, the environment, or descartes.yaml.
type source struct{ kind, from string }

// given is a flag's value: it sets the field at once, for what decides where to load from, and keeps the texts for
// Load.
type given struct {
	setting *Setting
	to      *Settings
	texts   []string
}

// String is what was given, or the default.
func (g *given) String() string {
	switch {
	case g == nil || g.setting == nil:
		return ""
	case slices.Contains([]string{"lines", "paths", "words"}, g.setting.kind) && len(g.texts) > 0:
		return strings.Join(g.texts, ",")
	case len(g.texts) > 0:
		return g.texts[len(g.texts)-1]
	}
	return g.setting.initial
}

func (g *given) Type() string { return g.setting.typ }

func (g *given) Set(text string) error {
	texts := append(slices.Clone(g.texts), text)
	if err := g.setting.parse(g.to, texts...); err != nil {
		return err
	}
	if at := g.to.Deadline; g.setting.kind == "deadline" && at != nil { // 8h counts from now on
		texts = []string{at.Format(time.RFC3339Nano)}
	}
	g.texts = texts
	return nil
}

// Bind makes the flags of the wanted settings, and --set for all the others.
func (s *Settings) Bind(f *pflag.FlagSet, wanted func(*Setting) bool) {
	if s.flags == nil {
		s.flags = map[*Setting]*given{}
		f.StringArrayVar(&s.sets, "set", nil,
			"set a `key=value` as in descartes.yaml; may be repeated (descartes config show lists the keys)")
	}
	for _, one := range All() {
		if !wanted(one) {
			continue
		}
		g := &given{setting: one, to: s}
		if s.flags[one] = g; one.Flag == "" {
			continue
		}
		fl := f.VarPF(g, one.Flag, one.short, one.Help)
		if fl.NoOptDefVal = one.alone; one.kind == "bool" {
			fl.NoOptDefVal = "true"
		}
	}
}

// Load completes the settings: what flags say goes over the environment, that over base, which is descartes.yaml or
// what a loop has saved. at makes a typed path one of the project; nil leaves it as it is. An error is an *Error.
func (s *Settings) Load(base *File, env func(string) string, at func(path string) string) error {
	s.Config, s.from = base.Config, map[*Setting]source{}
	for _, one := range All() {
		if one.YAML {
			one.value(s).Set(one.value(&base.Settings))
		}
		if line := base.Lines[one.Key]; line > 0 {
			s.from[one] = source{"file", fmt.Sprintf("%s:%d", base.Name, line)}
		}
	}
	take := func(one *Setting, name string, texts []string, src source) error {
		texts = slices.Clone(texts)
		for i := range texts {
			if at != nil && strings.HasPrefix(one.kind, "path") && texts[i] != "" {
				texts[i] = at(texts[i])
			}
		}
		err := one.parse(s, texts...)
		if err != nil {
			return Wrong("", "%s=%q: %w", name, texts[len(texts)-1], err)
		}
		if err := one.check(name, one.value(s)); err != nil {
			return Wrong("", "%w", err)
		}
		s.from[one] = src
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		if name := "DESCARTES_" + strings.ToUpper(key); env(name) != "" {
			return Wrong("unset "+name, "%s=%q: %s", name, env(name), Gone(key))
		}
	}
	for _, one := range All() {
		name := one.Variable()
		text, err := env(name), error(nil)
		switch {
		case s.flags[one] == nil || name == "" || text == "":
		case one.Flag == "":
			err = s.takeSet(name, one.Key, text, at, source{"environment", name})
		default:
			err = take(one, name, []string{text}, source{"environment", name})
		}
		if err != nil {
			return err
		}
	}
	for _, set := range s.sets {
		key, text, ok := strings.Cut(set, "=")
		if !ok {
			return Wrong("--set max_wait=2h", "--set %q: give KEY=VALUE", set)
		}
		if err := s.takeSet("--set "+key, key, text, at, source{"flag", "--set " + key}); err != nil {
			return err
		}
	}
	for _, one := range All() {
		if g := s.flags[one]; g != nil && len(g.texts) > 0 {
			if err := take(one, "--"+one.Flag, g.texts, source{"flag", "--" + one.Flag}); err != nil {
				return err
			}
		}
	}
	return s.complete()
}

// complete derives what other settings decide, and refuses what is impossible.
func (s *Settings) complete() error {
	waves, each := Find("scud.auto_commit_waves"), Find("git.auto_commit")
	if s.Given("auto-commit") {
		s.Git.AutoCommit, s.from[each] = s.Scud.AutoCommitWaves, s.from[waves]
	} else if s.from[each].kind != "" && s.from[waves].kind == "" {
		s.Scud.AutoCommitWaves = s.Git.AutoCommit
	}
	if s.NoCommit {
		s.Git.AutoCommit, s.Scud.AutoCommitWaves = false, false
	}
	if s.Given("command") && strings.TrimSpace(s.Command) == "" {
		return Wrong("leave it out to run the backend's own program", "--command is empty")
	}
	s.forgetFileAgent()
	if text := s.Scud.Spec.SpecTemplate; text != "" && !slices.ContainsFunc([]string{"{task}", "{plan}", "{custom}",
		"{verification}"}, func(name string) bool { return strings.Contains(text, name) }) {
		return Wrong(`give the text, as in --set scud.spec.spec_template="$(cat FILE)"`,
			"scud.spec.spec_template %q has none of {task} {plan} {custom} {verification}: no spec would say its task", text)
	}
	for _, t := range [][2]string{{"commit_template", s.Git.CommitTemplate},
		{"branch_template", s.Git.BranchTemplate}} {
		if err := CheckTemplate(t[1]); err != nil {
			return Wrong("it may have {iteration} {timestamp} {tag} {wave}", "git.%s: %w", t[0], err)
		}
	}
	for _, word := range s.EnvPass {
		if !sandbox.ValidPass(word) {
			return Wrong("give names only, as in --env-pass DATABASE_URL,MYAPP_*; values go under backend.environment in descartes.yaml", "--env-pass %q is not the name of a variable", word)
		}
	}
	for _, word := range s.SandboxDomains {
		if !sandbox.ValidHost(word) {
			return Wrong("write example.org, *.example.org, or an address; with a port as example.org:8443",
				"sandbox_domains: %q is not a host", word)
		}
	}
	if 0 < s.MaxMemory && s.MaxMemory < 16<<20 {
		return Wrong("4G is four GiB", "max_memory %d: no agent runs in less than 16 MiB", s.MaxMemory)
	}
	return s.completeLimits()
}

// forgetFileAgent drops what descartes.yaml says of how its agent is called where another command was typed: the typed
// program is called in its own way, unless --backend is typed, too.
func (s *Settings) forgetFileAgent() {
	switch s.from[Find("command")].kind {
	case "flag", "environment":
	default:
		return
	}
	for _, key := range []string{"args", "backend.backend_type", "backend.prompt_mode", "backend.output_format"} {
		if one := Find(key); s.from[one].kind == "file" {
			one.value(s).SetZero()
			delete(s.from, one)
		}
	}
}

// completeLimits decides what a run does when its provider's quota is used up.
func (s *Settings) completeLimits() error {
	const stop, wait, fallback = "stop", "wait", "fallback"
	others, asked := len(s.Fallback) > 0, s.Given("on-limit")
	switch {
	case asked:
	case s.CI && !others:
		s.OnLimit = stop
	case others && (s.CI || s.OnLimit == "" || s.Given("fallback")):
		s.OnLimit = fallback
		if s.CI && !s.Given("max_wait") { // a job waits for nobody
			s.MaxWaitSecs = 1
		}
	case s.OnLimit == "" || !others && s.Given("fallback") && s.OnLimit == fallback: // taken back
		s.OnLimit = wait
	}
	if s.OnLimit == fallback && !others {
		return Wrong("name a backend with --fallback, e.g. --fallback codex",
			"--on-limit fallback: there is no backend to fall back to")
	}
	return nil
}

// TypedFor is the first flag of the settings that apply there which a person typed, or "".
func (s *Settings) TypedFor(word string, but ...string) string {
	for _, one := range All() {
		if one.Flag != "" && one.Is(word) && !slices.Contains(but, one.Flag) && s.from[one].kind == "flag" {
			return one.Flag
		}
	}
	return ""
}

var inFileLine = lazyregexp.New(`line \d+: `)

// takeSet sets a key to a value that is written as in descartes.yaml; a text needs no quotes. name is what gave it.
func (s *Settings) takeSet(name, key, text string, at func(string) string, src source) error {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	one := Find(key)
	if one == nil || one.kind != "string" && one.kind != "path" {
		var doc yaml.Node
		if yaml.Unmarshal([]byte(text), &doc) == nil && len(doc.Content) > 0 {
			node = doc.Content[0]
		}
	} else if one.kind == "path" && at != nil {
		node.Value = at(text)
	}
	for _, word := range slices.Backward(strings.Split(key, ".")) {
		node = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Tag: "!!str", Value: word}, node}}
	}
	data, err := yaml.Marshal(node)
	if err != nil {
		return Wrong("", "%s: %w", name, err)
	}
	lines, err := s.read(data)
	if err != nil {
		e := Wrong("", "%s=%s: %s", name, text, inFileLine.ReplaceAllString(err.Error(), ""))
		if found, ok := errors.AsType[*Error](err); ok {
			e.Hint, e.Unknown = found.Hint, found.Unknown
		}
		if keys := endIn(e.Unknown); e.Unknown != "" && len(keys) > 0 { // the word is right, its place is not
			e.Hint = "did you mean " + strings.Join(keys, " or ") + "?"
		}
		return e
	}
	for key := range lines {
		s.from[Find(key)] = src
	}
	return nil
}

// Given reports whether a flag, by its name or its key, --set or the environment gave a setting; Typed whether a
// person did on the command line.
func (s *Settings) Given(name string) bool {
	kind := s.from[Find(name)].kind
	return kind == "flag" || kind == "environment"
}

// IsTyped reports whether a person gave one of these settings on the command line: which one, or "".
func (s *Settings) IsTyped(names ...string) string {
	for _, name := range names {
		if s.from[Find(name)].kind == "flag" {
			return name
		}
	}
	return ""
}

// Value is a setting's value and where it comes from.
type Value struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`         // flag, environment, file or default
	From   string `json:"from,omitempty"` // the flag, the variable, or the file and its line
}

// Show lists the settings.
func (s *Settings) Show() (list []Value) {
	for _, one := range All() {
		if one.Key == "" || !one.YAML && s.flags[one] == nil {
			continue
		}
		v, src := Value{Key: one.Key, Value: one.value(s).Interface(), Source: "default"}, s.from[one]
		if one.from != "" && s.from[Find(one.from)].kind != "" {
			src = s.from[Find(one.from)]
		}
		if src.kind != "" {
			v.Source, v.From = src.kind, src.from
		}
		if one.kind == "breaker" && one.value(s).Int() < 0 {
			v.Value = "off"
		}
		list = append(list, v)
	}
	return list
}

// Text is a value as a person writes it.
func (v Value) Text() string {
	switch r := reflect.ValueOf(v.Value); {
	case !r.IsValid(), (r.Kind() == reflect.Map || r.Kind() == reflect.Slice || r.Kind() == reflect.String) &&
		r.Len() == 0, r.Kind() == reflect.Pointer && r.IsNil():
		return "-"
	case r.Kind() == reflect.String:
		return r.String()
	}
	j, err := json.Marshal(v.Value)
	if err != nil {
		return fmt.Sprint(v.Value)
	}
	return string(j)
}

// Typed are the flags that a person gave a run, with their values: another run like it needs them again. What names
// the run itself, or is for the moment, is not among them.
type Typed map[string][]string

// momentary are the flags that say which run is meant, or how it is looked at, and not how it works.
var momentary = strings.Fields(
	"tag tasks-file name working-dir state-file dry-run retry-blocked detach yes trust json plain")

// TypedFlags are those of the flags that were given. Files are named so that they are found from elsewhere, where dir
// is not the project's folder.
func (s *Settings) TypedFlags(root, dir string) Typed {
	out := Typed{}
	for one, g := range s.flags {
		if len(g.texts) == 0 || slices.Contains(momentary, one.Flag) {
			continue
		}
		texts := slices.Clone(g.texts)
		if strings.Contains(one.Help, "`file`") && dir != root {
			for i, path := range texts {
				if path != "" && path != "none" && !filepath.IsAbs(path) {
					texts[i] = filepath.Join(dir, path)
				}
			}
		}
		if one.Flag == "prompt" && (texts[0] == "-" || len(texts[0]) > 500 || strings.Contains(texts[0], "\n")) ||
			one.Flag == "prompt-file" && texts[0] == "-" {
			continue // nobody types that again
		}
		out[one.Flag] = texts
	}
	if len(s.sets) > 0 {
		out["set"] = slices.Clone(s.sets)
	}
	return out
}

// And is these flags, and those that were given later, which take their place.
func (t Typed) And(later Typed) Typed {
	out := maps.Clone(t)
	if out == nil {
		out = Typed{}
	}
	maps.Copy(out, later)
	if len(t["set"])+len(later["set"]) > 0 {
		out["set"] = slices.Concat(t["set"], later["set"])
	}
	return out
}

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
			switch one := Find(name); {
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

// secretIn is where Hide left the value of a variable out.
var secretIn = lazyregexp.New(`\{secret:([A-Za-z_][A-Za-z0-9_]*)\}`)

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

// ListFlags is how a person names the list in another command.
func ListFlags(tag, file string) string {
	s := " --tag " + terminal.Quote(terminal.Clean(tag))
	if file != "" {
		s += " --tasks-file " + terminal.Quote(terminal.Clean(file))
	}
	return s
}

// Adopt takes those settings from what a loop has saved that nothing here says.
func (s *Settings) Adopt(saved Config, names ...string) {
	was, defaults := Settings{Config: saved}, New()
	for _, name := range names {
		one := Find(name)
		if v := one.value(s); s.from[one].kind == "" && reflect.DeepEqual(v.Interface(),
			one.value(&defaults).Interface()) {
			v.Set(one.value(&was))
		}
	}
}
