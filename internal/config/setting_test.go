package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// sample is a value of a setting that is not its default: as a flag and as descartes.yaml have it.
func (s *Setting) sample() (text, inFile string) {
	switch s.kind {
	case "secs", "cooldown":
		return "7m", "420"
	case "duration":
		return "7m", "7m"
	case "size":
		return "3G", "3G"
	case "breaker":
		return "off", "off"
	case "cut":
		return "cut", "true"
	case "bool":
		return "true", "true"
	case "int":
		return "17", "17"
	case "float64":
		return "1.5", "1.5"
	case "deadline":
		return "2030-01-02T03:04:05Z", ""
	case "lines", "paths", "words", "mask", "patterns":
		return "sample", "[sample]"
	case "criteria":
		return "", `["it works :: make test"]`
	case "checks":
		return "", "[{name: lint, run: make lint, timeout: 2m, retry: 1}, {name: e2e, run: make e2e, when: end, results: out/*.xml}]"
	case "guard":
		return "", "{all: warn, tests: fail, check-script: ask}"
	case "prices":
		return "", "{model: {input: 1, output: 2}}"
	case "backends":
		return "", "{mine: {command: my agent, prompt: stdin, parser: text, model: m, exit_codes: {7: fatal}, prices: {m: {input: 1, output: 2}}}}"
	case "map[string]string":
		return "", "{A: b}"
	case "map[string]config.AgentType":
		return "", "{word: {backend: codex, model: m, tier: fast}}"
	}
	if s.Words != nil {
		last := s.Words[len(s.Words)-1]
		return last, last
	}
	return "sample", "sample"
}

// bound are new settings with all their flags.
func bound(t *testing.T, args ...string) (*Settings, *pflag.FlagSet) {
	t.Helper()
	s := New()
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Bind(f, func(*Setting) bool { return true })
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &s, f
}

// A setting is the same by its key, by its flag and out of a state file, and config show tells of each.
func TestEverySetting(t *testing.T) {
	t.Parallel()
	keys, states := map[string]bool{}, map[string]bool{}
	for _, one := range All() {
		if name := one.Key; name != "" && keys[name] {
			t.Errorf("two settings have the key %s", name)
		}
		keys[one.Key] = true
		states[fmt.Sprint(one.index)] = true
		text, inFile := one.sample()
		values := map[string]reflect.Value{}
		shown := func(s *Settings, f *pflag.FlagSet, typed []string, lines map[string]int) Value {
			for _, v := range s.Show(f, typed, "descartes.yaml", lines) {
				if v.Key == one.Key {
					return v
				}
			}
			return Value{}
		}
		if one.YAML {
			file := filepath.Join(t.TempDir(), "descartes.yaml")
			doc := inFile
			for path := one.Key; path != ""; {
				at := strings.LastIndexByte(path, '.')
				doc = "{" + path[at+1:] + ": " + doc + "}"
				path = path[:max(at, 0)]
			}
			if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
				t.Fatal(err)
			}
			read, err := ReadFile(file, true)
			if err != nil {
				t.Errorf("%s: %v", one.Key, err)
				continue
			}
			s, f := bound(t)
			if err := s.Over(f, read.Config, nil); err != nil {
				t.Errorf("%s: %v", one.Key, err)
			}
			values["descartes.yaml"] = one.value(s)
			if v := shown(s, f, nil, read.Lines); v.Source != "file" || v.From != "descartes.yaml:1" {
				t.Errorf("%s in descartes.yaml is shown as %+v", one.Key, v)
			}
		}
		if one.Flag != "" {
			s, f := bound(t, "--"+one.Flag+"="+text)
			if err := s.Over(f, New().Config, nil); err != nil {
				t.Errorf("--%s: %v", one.Flag, err)
			}
			values["--"+one.Flag] = one.value(s)
			if v := shown(s, f, []string{one.Flag}, nil); one.Key != "" && (v.Source != "flag" || v.From != "--"+one.Flag) {
				t.Errorf("--%s is shown as %+v", one.Flag, v)
			}
			if v := shown(s, f, nil, nil); one.Key != "" && (v.Source != "environment" || v.From != Variable(one.Flag)) {
				t.Errorf("%s is shown as %+v", Variable(one.Flag), v)
			}
		}
		var first any
		for from, v := range values {
			if first == nil {
				first = v.Interface()
			}
			if !reflect.DeepEqual(v.Interface(), first) {
				t.Errorf("%s%s: %s gives %v, want %v", one.Key, one.Flag, from, v.Interface(), first)
			}
			if v.IsZero() {
				t.Errorf("%s%s: %s gives nothing", one.Key, one.Flag, from)
			}
			if one.Key == "" {
				continue
			}
			s := New()
			one.value(&s).Set(v)
			saved, err := json.Marshal(s.Config)
			if err != nil {
				t.Fatal(err)
			}
			var was Config
			if err := json.Unmarshal(saved, &was); err != nil {
				t.Fatal(err)
			}
			again, f := bound(t)
			if err := again.Over(f, was, nil); err != nil || !reflect.DeepEqual(one.value(again).Interface(), v.Interface()) {
				t.Errorf("%s: saved as %v, resumed as %v, %v", one.Key, v.Interface(), one.value(again).Interface(), err)
			}
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		if f.Tag.Get("flag")+f.Tag.Get("help") != "" && !states[fmt.Sprint(f.Index)] {
			t.Errorf("%s is no setting", f.Name)
		}
	}
}

// What a flag is given goes over a saved setting, and nothing else does.
func TestOverSaved(t *testing.T) {
	t.Parallel()
	s, f := bound(t, "--max-attempts=9", "--fallback=codex,gemini", "--fallback", "qwen", "--verify", "make", "--plan", "p.md", "--auto-commit=false")
	was := New().Config
	was.Scud.Tag, was.Scud.MaxIterationsPerTask, was.Fallback = "x", 2, []string{"claude"}
	if err := s.Over(f, was, func(p string) string { return "docs/" + p }); err != nil {
		t.Fatal(err)
	}
	if s.Scud.Tag != "x" || s.Scud.MaxIterationsPerTask != 9 || strings.Join(s.Fallback, " ") != "codex gemini qwen" || s.Scud.VerificationCommand != "make" ||
		s.VerificationCommand != "make" || s.Scud.PlanPath != "docs/p.md" || s.Git.AutoCommit || s.Scud.AutoCommitWaves {
		t.Errorf("got %+v", s.Config)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s := New()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if err := new(Settings).Check(); err != nil { // an old state file has few of them
		t.Error(err)
	}
	s.Sandbox = "perhaps"
	if err := s.Check(); err == nil || err.Error() != `sandbox: "perhaps" is not one of auto, strict, off` {
		t.Error(err)
	}
	s.Sandbox, s.MaxIterations = "off", -1
	if err := s.Check(); err == nil || err.Error() != "max_iterations: -1: must be at least 1" {
		t.Error(err)
	}
}

func TestFlagErrors(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--max-iterations=0":  "--max-iterations 0: must be at least 1",
		"--spin-limit=-1":     "--spin-limit -1: must not be negative",
		"--max-cost=-1":       "--max-cost -1: give a sum of dollars",
		"--max-cost=NaN":      "--max-cost NaN: give a sum of dollars",
		"--on-limit=never":    `"never" is not one of wait, stop, fallback`,
		"--spec-budget=burst": `"burst" is not one of warn, cut`,
		"--breaker=0":         `"0" is neither a number of tasks nor off`,
		"--cooldown=0":        "must be more than 0",
		"--max-attempts=x":    `parsing "x": invalid syntax`,
		"--timeout=-5m":       "out of range",
		"--max-memory=much":   "not a size like 512M or 4G",
	} {
		s := New()
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.Bind(f, func(*Setting) bool { return true })
		err := f.Parse([]string{arg})
		if err == nil {
			err = s.Over(f, New().Config, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", arg, err, want)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	read := func(text string) (*File, error) {
		path := filepath.Join(t.TempDir(), "descartes.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadFile(path, true)
	}
	for text, want := range map[string]string{
		"comand: x\n":                          "line 1: unknown setting comand",
		"a: 1\nb: 2\n":                         "line 1: unknown setting a; line 2: unknown setting b",
		"command: a\ncommand: b\n":             `line 2: mapping key "command" already defined at line 1`,
		"git: run\n":                           "line 1: there is `run`, where settings, each with a name, are wanted",
		"fallback: {a: b}\n":                   "line 1: there are settings, each with a name, where a list is wanted",
		"sandbox_read: x\n":                    "line 1: there is `x`, where a list is wanted",
		"command: [a]\n":                       "line 1: there is a list, where a text is wanted",
		"verify_network: perhaps\n":            "line 1: there is `perhaps`, where true or false is wanted",
		"max_cost_usd: much\n":                 "line 1: there is `much`, where a number is wanted",
		"max_cost_usd: -1\n":                   "max_cost_usd: -1: give a sum of dollars",
		"idle_timeout_secs: 20m\n":             "line 1: there is `20m`, where a whole number is wanted",
		"idle_timeout_secs: -1\n":              "idle_timeout_secs: -1 is negative",
		"git: {hook_timeout: soon}\n":          "git.hook_timeout: \"soon\" is neither a number of seconds",
		"max_memory: much\n":                   "max_memory: \"much\" is not a size",
		"breaker: 0\n":                         "breaker: \"0\" is neither",
		"mask: x\n":                            "mask: give a list of variables",
		"criteria: it works\n":                 "criteria: line 1: expected a list",
		"backends: {x: {comand: y}}\n":         "line 1: unknown setting comand",
		"backends: {x: {command: \"a 'b\"}}\n": "backends.x.command",
		"backends: {x: {model_tiers: [a]}}\n":  "line 1: there is a list, where settings, each with a name, are wanted",
		"a: &a {<<: *a}\n":                     "line 1",
		"git: &a {<<: *a}\n":                   "line 1",
		"[":                                    "line 1",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"comand: x\n":           "did you mean command?",
		"scud: {plan: p.md}\n":  "did you mean scud.plan_path?",
		"git: {hoks: run}\n":    "did you mean git.hooks?",
		"something_else: 1\n":   "",
		"max_cost_per_task: 2x": "",
	} {
		_, err := read(text)
		if wrong, ok := err.(*Error); !ok || wrong.Hint != want {
			t.Errorf("%q: got %#v, want the hint %q", text, err, want)
		}
	}
	file, err := read("backends:\n  a: &a {command: x, prompt: stdin, parser: text, env: {K: v}}\n  b: {<<: *a, command: y z}\ncommand:\nmask: off\nfallback: a, b\n")
	if err != nil {
		t.Fatal(err)
	}
	if b := file.Backends["b"]; strings.Join(b.Command, " ") != "y z" || b.Env["K"] != "v" || file.Mask[0] != "off" || strings.Join(file.Fallback, " ") != "a b" || file.Lines["mask"] != 5 {
		t.Errorf("got %+v, %v", file.Config, file.Lines)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	schema := Schema()
	for _, s := range All() {
		if !s.YAML {
			continue
		}
		at := schema
		for part := range strings.SplitSeq(s.Key, ".") {
			below, _ := at["properties"].(map[string]any)
			at, _ = below[part].(map[string]any)
		}
		if at == nil {
			t.Errorf("%s is not in the schema", s.Key)
			continue
		}
		if at["description"] == "" {
			t.Errorf("%s has no help", s.Key)
		}
		_, inFile := s.sample()
		var v any
		if err := yaml.Unmarshal([]byte(inFile), &v); err != nil {
			t.Fatal(err)
		}
		if !fits(at, v) {
			t.Errorf("%s: the schema %v refuses %v", s.Key, at, v)
		}
		if fits(at, struct{}{}) {
			t.Errorf("%s: the schema takes anything", s.Key)
		}
	}
}

// fits is as much of JSON Schema as Schema uses.
func fits(schema map[string]any, v any) bool {
	if list, ok := schema["anyOf"].([]any); ok {
		for _, one := range list {
			if fits(one.(map[string]any), v) {
				return true
			}
		}
		return false
	}
	switch words := schema["enum"].(type) {
	case []string:
		for _, w := range words {
			if w == v {
				return true
			}
		}
		return false
	case []any:
		for _, w := range words {
			if w == v {
				return true
			}
		}
		return false
	}
	if types, ok := schema["type"].([]string); ok {
		return slices.ContainsFunc(types, func(t string) bool { return fits(map[string]any{"type": t}, v) })
	}
	switch v := v.(type) {
	case string:
		return schema["type"] == "string"
	case bool:
		return schema["type"] == "boolean"
	case int:
		least, bound := schema["minimum"].(int)
		return (schema["type"] == "integer" || schema["type"] == "number") && (!bound || v >= least)
	case float64:
		return schema["type"] == "number"
	case []any:
		for _, one := range v {
			if !fits(schema["items"].(map[string]any), one) {
				return false
			}
		}
		return schema["type"] == "array"
	case map[string]any:
		for key, one := range v {
			below, ok := schema["additionalProperties"].(map[string]any)
			if !ok {
				below, ok = schema["properties"].(map[string]any)[key].(map[string]any)
			}
			if !ok || !fits(below, one) {
				return false
			}
		}
		return schema["type"] == "object"
	case map[any]any:
		return schema["type"] == "object"
	}
	return false
}

func TestParseDeadline(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-04-01T06:00:00Z": time.Date(2026, 4, 1, 6, 0, 0, 0, time.UTC),
		"23:15":                time.Date(2026, 3, 28, 23, 15, 0, 0, time.UTC),
		"06:00":                time.Date(2026, 3, 29, 6, 0, 0, 0, time.UTC),
		"22:30":                time.Date(2026, 3, 29, 22, 30, 0, 0, time.UTC),
		"90m":                  now.Add(90 * time.Minute),
	} {
		got, err := ParseDeadline(text, now)
		if err != nil || got == nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "25:00", "-1h", "0s"} {
		if got, err := ParseDeadline(text, now); err == nil && text != "" {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 0, "300": 300, "20m": 1200, "1500ms": 2} {
		if n, err := parseSeconds(text); err != nil || n != want {
			t.Errorf("%q: got %d, %v, want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"-1", "x", "-5m", "99999999999"} {
		if n, err := parseSeconds(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, n)
		}
	}
	for n, want := range map[int64]string{0: "", 10: "10s", 600: "10m", 3600: "1h", 5400: "1h30m"} {
		if got := secondsText(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for text, want := range map[string]int64{"": 0, "512": 512, "4G": 4 << 30, "1.5MiB": 3 << 19, "2 kb": 2048} {
		if n, err := ParseSize(text); err != nil || n != want {
			t.Errorf("%q: got %d, %v, want %d", text, n, err, want)
		}
	}
	for n, want := range map[int64]string{0: "", 512: "512", 4 << 30: "4G", 1536: "1536", 200 << 20: "200M"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// Whatever a file holds, reading it ends, with settings or with an error.
func FuzzFile(f *testing.F) {
	for _, text := range []string{"command: x\n", "git: &a {<<: *a}\n", "criteria: &a [*a]\n", "backends: {x: &a {prices: *a, exit_codes: {1: fatal}}}\n", "mask: off\nfallback: a, b\n",
		"scud: {spec: {additional_specs: [a]}}\n", "max_memory: 1e99\nbreaker: off\n", "? [a]\n: b\n", "a: !!binary x\n", "prices: {m: {input: .nan, output: 1}}\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := New()
		r := &reader{to: &s, lines: map[string]int{}}
		if r.read(text) != nil {
			return
		}
		for key, line := range r.lines {
			if line < 1 {
				t.Errorf("%s stands on line %d", key, line)
			}
		}
		if _, err := json.Marshal(s.Config); err != nil {
			t.Error(err)
		}
	})
}
