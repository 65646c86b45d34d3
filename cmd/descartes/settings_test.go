package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/sandbox"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/store"
)

// parsed gives what a command line makes of the settings in a project.
func parsed(t *testing.T, dir string, args ...string) (*settings, error) {
	t.Helper()
	s := &settings{}
	cmd := &cobra.Command{Use: "x"}
	s.register(cmd, ofRun)
	if err := cmd.ParseFlags(append([]string{"--working-dir", dir}, args...)); err != nil {
		return s, err
	}
	_, err := s.load()
	return s, err
}

func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	yaml := `command: from file
iteration_timeout_secs: 60
on_limit: stop
backend:
  model: file-model
  environment: {A: b}
scud:
  max_iterations_per_task: 7
  verification_command: make file
  spec:
    additional_specs: [A.md]
    max_spec_tokens: 9000
`
	if err := os.WriteFile(filepath.Join(dir, "descartes.yaml"), []byte(yaml), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DESCARTES_MODEL", "env-model")
	t.Setenv("DESCARTES_VERIFY", "make env")
	s, err := parsed(t, dir, "--verify", "make flag", "--spec-file", "B.md", "--spec-file", "C.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"command", s.Command, "from file"},
		{"model", s.Backend.Model, "env-model"},
		{"verify", s.Scud.VerificationCommand, "make flag"},
		{"on-limit", s.OnLimit, "stop"},
		{"hooks", s.Git.Hooks, "run"},
		{"environment", s.Backend.Environment["A"], "b"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
	if s.TimeoutSecs != 60 || s.Scud.MaxIterationsPerTask != 7 || s.Scud.Spec.MaxSpecTokens != 9000 ||
		!s.Scud.AutoCommitWaves {
		t.Errorf("got %+v", s.Config)
	}
	if got := s.Scud.Spec.AdditionalSpecs; !slices.Equal(got, []string{"B.md", "C.md"}) {
		t.Errorf("spec files: got %q", got)
	}
}

// A command that is typed is called in its own way, and not as the agent of descartes.yaml.
func TestTypedCommand(t *testing.T) {
	for _, c := range []struct {
		yaml         string
		args         []string
		backend, out string
	}{
		{"backend:\n  backend_type: claude\n", nil, "claude", "stream-json"},
		{"backend:\n  backend_type: claude\n", []string{"--command", "sh agent.sh"}, "generic", "text"},
		{"backend:\n  backend_type: codex\n", []string{"--command", "claude -p"}, "claude", "stream-json"},
		{"args: [--fast]\nbackend:\n  backend_type: claude\n  output_format: json\n",
			[]string{"--command", "sh agent.sh"}, "generic", "text"},
		{"backend:\n  backend_type: claude\n", []string{"--command", "sh agent.sh", "--backend", "codex"}, "codex",
			"stream-json"},
		{"command: sh agent.sh\nbackend:\n  backend_type: claude\n", nil, "claude", "stream-json"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "descartes.yaml"), []byte(c.yaml), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := parsed(t, dir, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		b, saved, err := config.ResolveBackend(s.Config)
		if err != nil || b.Name != c.backend || saved.OutputFormat != c.out {
			t.Errorf("%q with %q: got backend %s that prints %s, error %v; want %s, %s", c.yaml, c.args, b.Name,
				saved.OutputFormat, err, c.backend, c.out)
		}
		if typed := len(c.args) > 0; typed && slices.Contains(b.Command, "--fast") {
			t.Errorf("%q with %q: got the file's arguments: %q", c.yaml, c.args, b.Command)
		}
	}
}

func TestSettingsFileErrors(t *testing.T) {
	for yaml, want := range map[string]string{
		"comand: x\n":                                  "line 1: unknown setting comand",
		"scud:\n  tag: x\n  verify: make\n":            "line 3: unknown setting verify",
		"iteration_timeout_secs: soon\n":               `line 1: "soon" is neither a number of seconds`,
		"command: [a\n":                                "line 1",
		"on_limit: never\n":                            "on_limit: \"never\" is not one of wait, stop",
		"verify_timeout_secs: -1\n":                    `line 1: "-1" is out of range`,
		"git:\n  hooks: maybe\n":                       "git.hooks",
		"scud:\n  max_iterations_per_task: 0":          "scud.max_iterations_per_task: 0: must be at least 1",
		"scud:\n  spec:\n    spec_template: layout.md": `scud.spec.spec_template "layout.md" has none of {task}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "descartes.yaml"), []byte(yaml), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := parsed(t, dir)
		if err == nil || !strings.Contains(err.Error(), want) || codeOf(err) != exitInput {
			t.Errorf("%q: got %v, want %q and exit code 2", yaml, err, want)
		}
	}
	if _, err := parsed(t, t.TempDir(), "--config", "none.yaml"); err == nil || codeOf(err) != exitInput {
		t.Errorf("a missing --config: got %v", err)
	}
	if _, err := parsed(t, t.TempDir()); err != nil {
		t.Errorf("no settings file: got %v", err)
	}
}

func TestNoCommit(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{{nil, true}, {[]string{"--auto-commit"}, true}, {[]string{"--no-commit"}, false},
		{[]string{"--auto-commit=false"}, false}} {
		s, err := parsed(t, t.TempDir(), c.args...)
		if err != nil || s.Scud.AutoCommitWaves != c.want {
			t.Errorf("%q: got %v, %v, want %v", c.args, s.Scud.AutoCommitWaves, err, c.want)
		}
	}
}

// The defaults of the settings are those of the packages that have some of their own.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s := config.New()
	s.Fill()
	secs := func(d time.Duration) int { return int(d.Seconds()) }
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"start", s.StartTimeoutSecs, secs(agent.DefaultStart)},
		{"idle", s.IdleTimeoutSecs, secs(agent.DefaultIdle)},
		{"exit", s.ExitGraceSecs, secs(agent.DefaultExit)},
		{"spin", s.SpinLimit, agent.DefaultSpin},
		{"breaker", s.Breaker, config.DefaultBreaker},
		{"cooldown", s.CooldownSecs, secs(gate.DefaultCooldown)},
		{"iterations", s.MaxIterations, launch.PromptIterations},
		{"attempts", s.Scud.MaxTotalIterations, config.DefaultTotalIterations(0)},
		{"subject", s.Git.CommitTemplate, config.DefaultCommitTemplate},
		{"branch", s.Git.BranchTemplate, config.DefaultBranchTemplate},
		{"baseline", s.Baseline, config.BaselineRequire},
		{"limit", s.OnLimit, config.OnLimitWait},
		{"gate", s.Gate, loop.GatePromise},
		{"env", s.Env, config.EnvOpen},
		{"state", s.StateFile, strings.TrimPrefix(store.NewHome("").Default(), "/")},
	} {
		if c.got != c.want {
			t.Errorf("%s: the setting is %v, the package has %v", c.what, c.got, c.want)
		}
	}
	for _, one := range config.All() {
		if one.Key == "sandbox" && strings.Join(one.Words, "|") != sandbox.Modes {
			t.Errorf("sandbox: %v", one.Words)
		}
	}
}

// TestAction checks that the steps of the action for GitHub use inputs that there are; TestTyped reads what they type.
func TestAction(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]any
		Runs   struct {
			Steps []struct{ Env map[string]string }
		}
	}
	if err := yaml.Unmarshal(text, &action); err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, step := range action.Runs.Steps {
		for _, value := range step.Env {
			name, input := strings.CutPrefix(value, "${{ inputs.")
			if !input {
				continue
			}
			used++
			if name = strings.TrimSuffix(name, " }}"); action.Inputs[name] == nil {
				t.Errorf("no input %q", name)
			}
		}
	}
	if used == 0 {
		t.Error("no step uses an input")
	}
}

// TestHelpGroups: every command of the first list belongs to a group.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	root := newRootCmd()
	shown := offered(root)
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && !slices.Contains(shown, c) {
			t.Errorf("%s is in no group", c.Name())
		}
	}
}

// TestHelpScreen: a command's help fits a terminal of 80 columns and 24 lines; only run lists its thirty flags there.
func TestHelpScreen(t *testing.T) {
	t.Parallel()
	for _, c := range commandTree() {
		var text bytes.Buffer
		c.SetOut(&text)
		help(c, nil)
		lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
		most := 24
		if c.CommandPath() == "descartes run" {
			most = 40
		}
		if len(lines) > most {
			t.Errorf("%s --help has %d lines:\n%s", c.CommandPath(), len(lines), text.String())
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s --help has a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
	}
}

// TestFlagCount: about fifty settings have a flag; the rest are keys of --set.
func TestFlagCount(t *testing.T) {
	t.Parallel()
	n, shown := 0, 0
	for _, one := range config.All() {
		if one.Flag != "" {
			n++
		}
	}
	for _, g := range flagGroups() {
		shown += slices.Index(append(g, "|"), "|") - 1
	}
	if n > 60 || shown > 30 {
		t.Errorf("%d settings have a flag, and help shows %d of them", n, shown)
	}
}

// A variable for a flag that has none is refused by every command with that flag, and one for a setting by none; what
// tells an agent its task stops no command that the agent types.
func TestTypedOnly(t *testing.T) {
	t.Parallel()
	root := newRootCmd()
	for words, refused := range map[string]string{
		"run":          "DESCARTES_DRY_RUN DESCARTES_JSON DESCARTES_YES DESCARTES_DETACH DESCARTES_NAME DESCARTES_WORKING_DIR",
		"loop start":   "DESCARTES_DRY_RUN DESCARTES_STATE_FILE",
		"build":        "DESCARTES_DRY_RUN",
		"tasks import": "DESCARTES_DRY_RUN DESCARTES_FORCE",
		"cleanup":      "DESCARTES_DRY_RUN",
		"report":       "DESCARTES_FORMAT",
	} {
		cmd, _, err := root.Find(strings.Fields(words))
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(refused + " DESCARTES_VERIFY DESCARTES_TAG DESCARTES_VERSION") {
			env := func(asked string) string { return map[string]string{name: "true"}[asked] }
			err, want := typedOnly(cmd, env), strings.Contains(refused, name)
			if (err != nil) != want || err != nil && codeOf(err) != exitInput {
				t.Errorf("%s with %s: got %v", words, name, err)
			}
		}
	}
}

// A word that a message names as unknown is never offered as the one that is meant.
func TestMisplacedSetting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "descartes.yaml"),
		[]byte("backends:\n  x: {command: ./x.sh, prompt_mode: stdin}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := parsed(t, dir)
	var near interface{ Near() (string, []string) }
	if !errors.As(err, &near) {
		t.Fatalf("got %v", err)
	}
	if wrong, known := near.Near(); wrong != "" || len(known) > 0 {
		t.Errorf("%q may be one of %q", wrong, known)
	}
}

// The action's shell ends a step where a program writes into a pipe that nobody reads: it has no head behind a pipe.
func TestActionPipes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if cut := regexp.MustCompile(`descartes [^\n|]*\|[^|]`).FindString(string(text)); cut != "" {
		t.Errorf("%q ends with 141 where the rest of the pipe reads less", cut)
	}
}
