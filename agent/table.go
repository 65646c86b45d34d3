package agent

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
)

// opencodeLimit is what opencode logs of a used-up quota, its free models' included: "Rate limit exceeded. Please try
// again later."
const opencodeLimit = `AI_APICallError: .*((?i:usage limit|quota)|Rate limit exceeded\. Please try again later)`

// opencodeTries are what it logs before it tries again, which its events do not tell. After 429 it sleeps for as long
// as the provider asks; a title, which its small model writes, keeps nobody waiting.
func opencodeTries() []Try {
	return []Try{{Words: `\bsmall=false\b.*AI_APICallError: (?:Cannot connect to API|Unable to connect)`, Away: true,
		Sleeps: []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second}},
		{Words: `\bsmall=false\b.*AI_APICallError: .*(?i:rate.?limit|too many requests|\b429\b|exhausted|quota)`,
			Status: 429}}
}

// geminiTries are what gemini prints before it tries again. It waits for 5, 10, 20, then 30 seconds, give or take 30 %.
func geminiTries() []Try {
	sleeps := []time.Duration{3500 * time.Millisecond, 7 * time.Second, 14 * time.Second, 21 * time.Second}
	return []Try{
		{Words: `(?P<try>Attempt \d+) failed\. Retrying with backoff\.\.\. .*\bfetch failed\b`, Away: true,
			Sleeps: sleeps},
		{Words: `(?P<try>Attempt \d+) failed with status 429\. Retrying with backoff`, Status: 429, Sleeps: sleeps}}
}

// builtin returns the known backends. It is a function so that nothing is built before it is needed and nobody changes
// it.
func builtin() []Backend {
	return []Backend{
		{
			Name: "claude",
			Command: []string{"claude", "-p", "--output-format", "stream-json", "--verbose",
				"--dangerously-skip-permissions"},
			Prompt:    ByStdin,
			Format:    stream.FormatClaude,
			UnsetEnv:  []string{"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"},
			ModelArgs: []string{"--model", "{model}"},

			SessionArgs: []string{"--resume", "{session}"},
			Subjects: [][]string{{"-p", "--print"},
				{"--dangerously-skip-permissions", "--permission-mode", "--allowed-tools", "--permission-prompt-tool",
					"--permission-prompts"},
				{"--resume", "-r", "--continue", "-c", "--session-id"}},
		},
		{
			Name: "opencode",
			Command: []string{"opencode", "run", "--format", "json", "--auto", "--print-logs", "--log-level",
				"WARN"},
			Prompt:    ByStdin,
			Format:    stream.FormatOpencode,
			Env:       map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1"},
			ModelArgs: []string{"-m", "{model}"},
			// It then sleeps until the quota is renewed, be it for days.
			StderrLimit: []string{opencodeLimit},
			StderrTries: opencodeTries(),
			SessionArgs: []string{"--session", "{session}"},
			Subjects: [][]string{{"--auto", "--dangerously-skip-permissions", "--yolo", "--agent plan"},
				{"-m", "--model"}, {"--session", "-s", "--continue", "-c"}},
		},
		{
			Name: "codex",
			Command: []string{"codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox",
				"--skip-git-repo-check",
				"--ephemeral", "-c", "analytics.enabled=false"},
			Prompt:    ByStdin,
			StdinArgs: []string{"-"},
			Format:    stream.FormatCodex,
			// How long it waits before it tries again is nowhere else.
			Env: map[string]string{"RUST_LOG": "error,codex_core::responses_retry=warn"},
			StderrTries: []Try{
				{Words: `retrying sampling request \(\d+/\d+ in (?P<delay>[\d.]+[a-zµ]+)\)`, Known: true},
				{Words: `stream connection failed; waiting to retry .*\bretry_delay=(?P<delay>[\d.]+[a-zµ]+)`, Known: true}},
			ModelArgs:   []string{"-m", "{model}"},
			SessionArgs: []string{"resume", "{session}"},
			Forgets:     []string{"--ephemeral"},
			Cumulative:  true,
			Subjects: [][]string{{"exec", "e"}, {"--json", "--experimental-json"}, {"-m", "--model", "-c model"},
				{"--dangerously-bypass-approvals-and-sandbox", "--yolo", "--sandbox", "-s", "--ask-for-approval", "-a",
					"--full-auto", "--approve-for-me",
					"-c sandbox_mode", "-c sandbox_workspace_write", "-c approval_policy", "-c default_permissions",
					"-c permissions"}},
		},
		{
			Name:      "gemini",
			Command:   []string{"gemini", "--output-format", "stream-json", "--yolo", "--skip-trust"},
			Prompt:    ByStdin,
			Format:    stream.FormatGemini,
			Env:       map[string]string{"GEMINI_CLI_NO_RELAUNCH": "true"},
			ModelArgs: []string{"-m", "{model}"},

			SessionArgs: []string{"--resume", "{session}"},
			Subjects: [][]string{{"--output-format", "-o"}, {"--yolo", "-y", "--approval-mode", "--allowed-tools"},
				{"-m", "--model"},
				{"--resume", "-r", "--session-id", "--session-file"}},
			ExitCodes: map[int]Cause{41: Fatal, 42: Fatal, 52: Fatal, 53: Budget, 55: Fatal,
				// HTTP statuses modulo 256
				144: Fatal, 145: Fatal, 147: Fatal, 173: Transient, 244: Transient, 247: Transient},
			StderrTries: geminiTries(),
		},
		{
			Name: "copilot",
			Command: []string{"copilot", "--output-format", "json", "--allow-all-tools", "--allow-all-paths",
				"--allow-all-urls", "--no-auto-update", "--no-ask-user"},
			Prompt:    ByStdin,
			Format:    stream.FormatCopilot,
			ModelArgs: []string{"--model", "{model}"},

			SessionArgs: []string{"--resume={session}"},
			Subjects: [][]string{
				{"--allow-all-tools", "--allow-all", "--yolo", "--allow-tool", "--assisted-approval", "--plan",
					"--mode plan"},
				{"--allow-all-paths", "--allow-all", "--yolo", "--add-dir", "--disallow-temp-dir", "--plan",
					"--mode plan"},
				{"--allow-all-urls", "--allow-all", "--yolo", "--allow-url", "--deny-url", "--plan", "--mode plan"}},
		},
		{
			Name:      "qwen",
			Command:   []string{"qwen", "--output-format", "stream-json", "--yolo"},
			Prompt:    ByStdin,
			Format:    stream.FormatClaude,
			ModelArgs: []string{"-m", "{model}"},

			SessionArgs: []string{"--resume", "{session}"},
			Cumulative:  true,
			Subjects: [][]string{{"--output-format", "-o"}, {"--yolo", "-y", "--approval-mode", "--allowed-tools"},
				{"-m", "--model"},
				{"--resume", "-r", "--continue", "-c", "--session-id"}},
			ExitCodes: map[int]Cause{41: Fatal, 42: Fatal, 52: Fatal, 53: Budget, 55: Budget},
			// Without it, it sleeps for hours and says nothing at all.
			Env:         map[string]string{"QWEN_CODE_UNATTENDED_RETRY": "1"},
			StderrLimit: []string{`\[API Error: 429 .*(usage limit|quota)`},
			StderrTries: []Try{{Words: `Waiting for API capacity\.\.\. (?P<try>attempt \d+), retry in (?P<delay>\d+s)`, Status: 429}},
		},
		{
			Name:    "gemini-acp",
			Command: []string{"gemini", "--acp", "--skip-trust"},
			Prompt:  ByStdin,
			Format:  stream.FormatACP,
			Env:     map[string]string{"GEMINI_CLI_NO_RELAUNCH": "true"},

			StderrTries: geminiTries(), // which it prints when it ends
			Subjects:    [][]string{{"--acp", "--experimental-acp"}},
		},
		{
			Name:    "opencode-acp",
			Command: []string{"opencode", "acp", "--print-logs", "--log-level", "WARN"},
			Prompt:  ByStdin,
			Format:  stream.FormatACP,
			Env:     map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1"},
			// As opencode's.
			StderrLimit: []string{opencodeLimit},
			StderrTries: opencodeTries(),
		},
		{
			Name:   "generic", // the user says which program
			Prompt: ByArg,
			Format: stream.FormatText,
		},
	}
}

// Table holds the backends that a run may use.
type Table struct{ rows []Backend }

// Row is what a user's settings say about one backend; what is empty stays as it is. A name that is not known yet
// needs Command, Prompt and Format.
type Row struct {
	Command []string `json:"command,omitempty" yaml:"-"` // the program, perhaps with first arguments
	// instead of the program's other arguments; empty and not nil for none
	Args      []string          `json:"args" yaml:"args"`
	Prompt    string            `json:"prompt,omitempty" yaml:"prompt"` // a PromptMode
	StdinArgs []string          `json:"stdin_args" yaml:"stdin_args"`   // last arguments if the prompt comes by stdin
	Format    string            `json:"parser,omitempty" yaml:"parser"` // one of Formats
	Env       map[string]string `json:"env,omitempty" yaml:"env"`       // added to the known ones
	UnsetEnv  []string          `json:"unset_env" yaml:"unset_env"`
	// further variables of ours that it gets: NAME or PREFIX_*
	EnvPass   []string `json:"env_pass,omitempty" yaml:"env_pass"`
	ModelArgs []string `json:"model_args" yaml:"model_args"`
	// a Cause for each; added to the known ones
	ExitCodes map[int]string `json:"exit_codes,omitempty" yaml:"exit_codes"`
	Prices    Prices         `json:"prices,omitempty" yaml:"-"`

	// regular expressions, instead of the known ones; empty and not nil for none
	StderrLimit []string `json:"stderr_limit" yaml:"stderr_limit"`

	SessionArgs []string `json:"session_args" yaml:"session_args"` // to continue a conversation
}

// NewTable returns the built-in table with a user's rows applied.
func NewTable(rows map[string]Row) (Table, error) {
	t := Table{rows: builtin()}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b, known := t.Lookup(name)
		if !known {
			if strings.TrimSpace(name) == "" {
				return Table{}, fmt.Errorf("a backend without a name")
			}
			b = Backend{Name: name}
			t.rows = append(t.rows, b)
		}
		b, err := b.over(rows[name])
		if err != nil {
			return Table{}, fmt.Errorf("backend %s: %w", name, err)
		}
		at := slices.IndexFunc(t.rows, func(o Backend) bool { return o.Name == name })
		t.rows[at] = b
	}
	return t, nil
}

// over returns the backend with a row applied.
func (b Backend) over(r Row) (Backend, error) {
	program, args := b.Command[:min(1, len(b.Command))], b.Command[min(1, len(b.Command)):]
	if len(r.Command) > 0 {
		program = r.Command
	}
	if r.Args != nil {
		args = r.Args
	}
	if r.Args == nil && len(r.Command) > 0 && len(b.Command) > 0 {
		b = b.With(r.Command)
	} else {
		b.Command = slices.Concat(program, args)
	}
	if r.Prompt != "" {
		mode, ok := ParsePromptMode(r.Prompt)
		if !ok {
			return b, fmt.Errorf("prompt %q is not one of stdin, arg, env, file", r.Prompt)
		}
		b.Prompt = mode
	}
	if r.Format != "" {
		if !slices.Contains(stream.Formats(), r.Format) {
			return b, fmt.Errorf("parser %q is not one of %s", r.Format, strings.Join(stream.Formats(), ", "))
		}
		b.Format = r.Format
	}
	if (len(b.Command) == 0 || b.Command[0] == "") && b.Name != "generic" {
		return b, fmt.Errorf("no command")
	}
	if b.Prompt == "" || b.Format == "" {
		return b, fmt.Errorf("a new backend needs command, prompt and parser")
	}
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&b.StdinArgs, r.StdinArgs}, {&b.UnsetEnv, r.UnsetEnv}, {&b.EnvPass, r.EnvPass}, {&b.ModelArgs, r.ModelArgs},
		{&b.StderrLimit, r.StderrLimit}, {&b.SessionArgs, r.SessionArgs}} {
		if list.from != nil {
			*list.to = slices.Clone(list.from)
		}
	}
	for _, text := range r.StderrLimit {
		if _, err := regexp.Compile(text); err != nil {
			return b, fmt.Errorf("stderr_limit: %w", err)
		}
	}
	if err := CheckEnv(r.Env); err != nil {
		return b, fmt.Errorf("env: %w", err)
	}
	b.Env, b.Prices = overlaid(b.Env, r.Env), overlaid(b.Prices, r.Prices)
	causes := map[int]Cause{}
	for code, word := range r.ExitCodes {
		switch c := Cause(word); c {
		case Transient, Budget, Fatal:
			causes[code] = c
		default:
			return b, fmt.Errorf("exit code %d: %q is not one of %s, %s, %s", code, word, Transient, Budget, Fatal)
		}
	}
	b.ExitCodes = overlaid(b.ExitCodes, causes)
	return b, nil
}

// CheckEnv refuses settings' variables that load code into programs, lead git elsewhere, or the like.
func CheckEnv(env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if process.Refused(name) || process.Loads(name) {
			return fmt.Errorf("no setting may set %s: it loads code into programs, leads git elsewhere or hands over keys; remove it", name)
		}
	}
	return nil
}

func overlaid[K comparable, V any](base, over map[K]V) map[K]V {
	if len(over) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[K]V{}
	}
	maps.Copy(out, over)
	return out
}

// Lookup finds a backend by name.
func (t Table) Lookup(name string) (Backend, bool) {
	for _, b := range t.rows {
		if b.Name == name {
			return b, true
		}
	}
	return Backend{}, false
}

// Names lists the backends in alphabetical order.
func (t Table) Names() (names []string) {
	for _, b := range t.rows {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return names
}

// Lookup finds a built-in backend by name.
func Lookup(name string) (Backend, bool) { return Table{builtin()}.Lookup(name) }

// Names lists the built-in backends in alphabetical order.
func Names() []string { return Table{builtin()}.Names() }
