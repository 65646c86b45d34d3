package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load are settings of a command line over a settings file, and the environment.
func load(t *testing.T, file string, env map[string]string, args ...string) (*Settings, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	base, err := ReadFile(path, true)
	if err != nil {
		t.Fatal(err)
	}
	base.Name = "descartes.yaml"
	s := New()
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Bind(f, func(*Setting) bool { return true })
	if err := f.Parse(args); err != nil {
		return &s, err
	}
	return &s, s.Load(base, func(name string) string { return env[name] }, nil)
}

// shown is where config show says that a setting comes from.
func (s *Settings) shown(key string) string {
	for _, v := range s.Show() {
		if v.Key == key {
			return strings.TrimSpace(v.Text() + " " + v.Source + " " + v.From)
		}
	}
	return ""
}

// A flag goes over --set, that over the environment, that over descartes.yaml, that over the default; and each value
// says where it is from.
func TestLoad(t *testing.T) {
	t.Parallel()
	file := "git: {hooks: skip, hook_timeout: 5m}\nspin_limit: 3\nscud:\n  max_iterations_per_task: 4\nverify: make file\n"
	env := map[string]string{"DESCARTES_MAX_ATTEMPTS": "5", "DESCARTES_SPIN_LIMIT": "4", "DESCARTES_BASELINE": "warn"}
	s, err := load(t, file, env, "--set", "git.hooks=fail", "--set", "scud.max_iterations_per_task=6",
		"--max-attempts=7", "--set", "pool.keep=[a, b]", "--set", "pool.setup=echo a: b # c", "--set",
		"backends.mine={command: my agent, prompt: stdin, parser: text}", "--set", "max_memory=4G", "--set",
		"verify=[{name: lint, run: make lint}]")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"git.hooks": "fail flag --set git.hooks", "git.hook_timeout_secs": "",
		"git.hook_timeout": "300 file descartes.yaml:1", "scud.max_iterations_per_task": "7 flag --max-attempts",
		"spin_limit": "4 environment DESCARTES_SPIN_LIMIT", "baseline": "warn environment DESCARTES_BASELINE",
		"breaker": "0 default", "max_memory": "4294967296 flag --set max_memory",
		"pool.keep": `["a","b"] flag --set pool.keep`, "pool.setup": "echo a: b # c flag --set pool.setup",
		"scud.verification_command": "- default",
	} {
		if got := s.shown(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if got := s.ChecksOf(true); len(got) != 1 || got[0].Name != "lint" ||
		strings.Join(s.Backends["mine"].Command, " ") != "my agent" {
		t.Errorf("got %+v, %+v", got, s.Backends)
	}
	if typed := s.TypedFlags("", ""); len(typed["set"]) != 7 || typed["max-attempts"][0] != "7" || len(typed) != 2 {
		t.Errorf("typed: %v", typed)
	}
	if s, err := load(t, file, map[string]string{"DESCARTES_GUARD": "{tests: warn}",
		"DESCARTES_BACKEND_ENVIRONMENT": "{A: b}"}); err != nil || s.Guard["tests"] != "warn" ||
		s.Backend.Environment["A"] != "b" {
		t.Errorf("the environment: %+v, %v", s.Guard, err)
	}
	if _, err := load(t, file, map[string]string{"DESCARTES_BACKENDS": "x"}); err == nil ||
		!strings.HasPrefix(err.Error(), "DESCARTES_BACKENDS=x: there is `x`, where") {
		t.Errorf("the environment: %v", err)
	}
	if s, err := load(t, file, nil, "--verify", "true"); err != nil || s.Scud.VerificationCommand != "true" ||
		s.VerificationCommand != "true" {
		t.Errorf("--verify: %+v, %v", s.Scud, err)
	}
	if s, err := load(t, "git: {auto_commit: false}", nil); err != nil || s.Scud.AutoCommitWaves {
		t.Errorf("git.auto_commit is not that of a tag too: %v", err)
	}
}

// Each key has one setting, and its value survives the state file.
func TestEverySetting(t *testing.T) {
	t.Parallel()
	keys, variables := map[string]bool{}, map[string]bool{}
	for _, one := range All() {
		if one.Key != "" && keys[one.Key] || one.Variable() != "" && variables[one.Variable()] {
			t.Errorf("two settings have the key %s or the variable %s", one.Key, one.Variable())
		}
		if keys[one.Key], variables[one.Variable()] = true, true; one.Help == "" {
			t.Errorf("%s%s has no help", one.Key, one.Flag)
		}
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
		"--max-iterations=0":        "--max-iterations 0: must be at least 1",
		"--set=spin_limit=-1":       "spin_limit: -1: must be at least 0",
		"--max-cost=-1":             "--max-cost -1: give a sum of dollars",
		"--max-cost=NaN":            "--max-cost NaN: give a sum of dollars",
		"--on-limit=never":          `"never" is not one of wait, stop, fallback`,
		"--breaker=0":               `"0" is neither a number of tasks nor off`,
		"--set=cooldown_secs=0":     "must be at least 1",
		"--max-attempts=x":          `"x" is not a number`,
		"--max-cost=abc":            `"abc" is not a number`,
		"--timeout=-5m":             "out of range",
		"--set=max_memory=much":     "not a size like 512M or 4G",
		"--set=max_memory":          `--set "max_memory": give KEY=VALUE`,
		"--set=spin_limt=3":         "--set spin_limt=3: unknown setting spin_limt",
		"--set=in_place=true":       "--set in_place=true: in_place is gone: every agent works in a copy of the project; leave it out",
		"--set=mutants=2":           "--set mutants=2: mutants is gone: holdout and prove find more; leave it out",
		"--set=scud.spec=x":         "where settings, each with a name, are wanted",
		"--set=verify=[{name: a}]":  "run, the command to run, is missing",
		"--set=prices.m={input: 1}": "prices.m: give input and output",
	} {
		if _, err := load(t, "", nil, arg); err == nil || !strings.Contains(err.Error(), want) {
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
		"in_place: true\n":                     "line 1: in_place is gone: every agent works in a copy of the project; leave it out",
		"a: 1\nmutants: 2\n":                   "line 1: unknown setting a; line 2: mutants is gone: holdout and prove find more; leave it out",
		"a: 1\nb: 2\n":                         "line 1: unknown setting a; line 2: unknown setting b",
		"command: a\ncommand: b\n":             `line 2: mapping key "command" already defined at line 1`,
		"git: run\n":                           "line 1: there is `run`, where settings, each with a name, are wanted",
		"fallback: {a: b}\n":                   "line 1: there are settings, each with a name, where a list is wanted",
		"sandbox_read: x\n":                    "line 1: there is `x`, where a list is wanted",
		"command: [a]\n":                       "line 1: there is a list, where a text is wanted",
		"verify_network: perhaps\n":            "line 1: there is `perhaps`, where true or false is wanted",
		"max_cost_usd: much\n":                 "line 1: there is `much`, where a number is wanted",
		"max_cost_usd: -1\n":                   "max_cost_usd: -1: give a sum of dollars",
		"idle_timeout_secs: -1\n":              `line 1: "-1" is out of range`,
		"git: {hook_timeout: soon}\n":          `line 1: "soon" is neither a number of seconds`,
		"max_memory: much\n":                   `line 1: "much" is not a size`,
		"breaker: 0\n":                         `line 1: "0" is neither`,
		"mask: x\n":                            "mask: give a list of variables",
		"criteria: it works\n":                 "line 1: criteria: expected a list",
		"backends: {x: {comand: y}}\n":         "line 1: unknown setting comand",
		"backends: {x: {command: \"a 'b\"}}\n": "backends.x.command",
		"backends: {x: {model_tiers: [a]}}\n":  "line 1: there is a list, where settings, each with a name, are wanted",
		"a: &a {<<: *a}\n":                     "line 1",
		"git: &a {<<: *a}\n":                   "contains itself",
		"[":                                    "line 1",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	file, err := read("backends:\n  a: &a {command: x, prompt: stdin, parser: text, env: {K: v}}\n  b: {<<: *a, command: y z}\ncommand:\nmask: off\nfallback: a, b\n")
	if err != nil {
		t.Fatal(err)
	}
	if b := file.Backends["b"]; strings.Join(b.Command, " ") != "y z" || b.Env["K"] != "v" || file.Mask[0] != "off" ||
		strings.Join(file.Fallback, " ") != "a b" || file.Lines["mask"] != 5 {
		t.Errorf("got %+v, %v", file.Config, file.Lines)
	}
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
	for text, want := range map[string]int64{"": 0, "512": 512, "4G": 4 << 30, "1.5MiB": 3 << 19, "2 kb": 2048} {
		if n, err := ParseSize(text); err != nil || n != want {
			t.Errorf("%q: got %d, %v, want %d", text, n, err, want)
		}
	}
}

// Whatever a file holds, reading it ends, with settings or with an error.
func FuzzFile(f *testing.F) {
	for _, text := range []string{"command: x\n", "git: &a {<<: *a}\n", "criteria: &a [*a]\n",
		"backends: {x: &a {prices: *a, exit_codes: {1: fatal}}}\n", "mask: off\nfallback: a, b\n",
		"scud: {spec: {additional_specs: [a]}}\n", "max_memory: 1e99\nbreaker: off\n", "? [a]\n: b\n",
		"a: !!binary x\n", "prices: {m: {input: .nan, output: 1}}\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := New()
		lines, err := s.read(text)
		if err != nil {
			return
		}
		for key, line := range lines {
			if line < 1 {
				t.Errorf("%s stands on line %d", key, line)
			}
		}
		if _, err := json.Marshal(s.Config); err != nil {
			t.Error(err)
		}
	})
}
