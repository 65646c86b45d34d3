// Package agent runs one coding agent once: it builds the command line, hands over the prompt, reads what the agent
// said and says why it ended. It does not judge the work.
package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
)

// PromptMode is how a program takes its prompt.
type PromptMode string

const (
	ByStdin PromptMode = "stdin" // standard input is the prompt's file
	ByArg   PromptMode = "arg"   // the last argument, or where {prompt} stands
	ByEnv   PromptMode = "env"   // the variable DESCARTES_PROMPT
	ByFile  PromptMode = "file"  // the last argument, or {prompt_file}, is the prompt file's path
)

// ParsePromptMode reads the word that a user writes.
func ParsePromptMode(s string) (PromptMode, bool) {
	switch m := PromptMode(s); m {
	case ByStdin, ByArg, ByEnv, ByFile:
		return m, true
	default:
		return "", false
	}
}

// Variables that hand over the prompt.
const (
	PromptVar     = "DESCARTES_PROMPT"
	PromptFileVar = "DESCARTES_PROMPT_FILE"
)

// Backend is one kind of agent program. {model} in ModelArgs, {prompt_file}
// and (in mode arg) {prompt} in Command are filled in, never through a shell.
type Backend struct {
	Name      string
	Command   []string
	Prompt    PromptMode
	StdinArgs []string // last arguments if the prompt comes by standard input
	Format    string
	Env       map[string]string
	UnsetEnv  []string // variables to clear in the program's environment
	EnvPass   []string // variables to pass on besides its provider's
	ModelArgs []string // added to Command if a model is requested
	ExitCodes map[int]Cause
	Prices    Prices // for a client that only reports tokens

	// Expressions for lines on standard error that mean a used-up quota. A run that prints one is ended at once.
	StderrLimit []string
	// What it prints on standard error alone of its own tries to reach its provider.
	StderrTries []Try

	// SessionArgs are added, with {session} filled in, to continue a conversation; none: it cannot.
	SessionArgs []string
	// Forgets are options of Command that keep the client from saving a conversation for later.
	Forgets []string
	// Cumulative: in a continued conversation the client counts tokens from its beginning.
	Cumulative bool

	// Subjects groups options that say the same thing, or its opposite. If the user's command has one of a group, no
	// other of the group is added. "--mode plan" is the option with that value, "-c key" a setting given with -c or
	// --config.
	Subjects [][]string
}

// Try is how a client says that it tries again: Words match a line. Of their groups, "try" tells one try from the next,
// and "delay" is how long it waits before that.
type Try struct {
	Words  string          // a regular expression
	Status int             // of the provider's answer; 0 where it is not told
	Away   bool            // there was no answer
	Known  bool            // its events tell of the try; this line, how long it waits
	Sleeps []time.Duration // how long it waits at least, if no line says so: after the first try in a row, the second...
}

// title is the program's name in a sentence.
func (b Backend) title() string {
	switch b.Name {
	case "claude", "codex", "gemini", "copilot", "qwen":
		return strings.ToUpper(b.Name[:1]) + b.Name[1:]
	case "", "generic":
		return "the agent"
	}
	return b.Name
}

// Check returns what would keep a run from starting: a missing program, or a prompt of promptLen bytes that cannot be
// handed over.
func (b Backend) Check(look func(program string) (string, error), promptLen int) error {
	if len(b.Command) == 0 || b.Command[0] == "" {
		return fmt.Errorf("backend %s: no command given", b.Name)
	}
	if _, err := look(b.Command[0]); err != nil {
		return fmt.Errorf("backend %s: %w", b.Name, err)
	}
	return b.fits(promptLen)
}

// fits rejects a prompt that the system would not accept. Cutting it is never an option.
func (b Backend) fits(promptLen int) error {
	limit := process.MaxString
	switch b.Prompt {
	case ByStdin, ByFile:
		return nil
	case ByEnv:
		limit -= len(PromptVar) + 1
	case ByArg:
		for _, arg := range b.Command {
			if strings.Contains(arg, "{prompt}") {
				limit = min(limit, process.MaxString-len(arg)+len("{prompt}"))
			}
		}
	default:
		return fmt.Errorf("backend %s: unknown prompt mode %q", b.Name, b.Prompt)
	}
	if promptLen > limit {
		return &PromptTooLongError{Backend: b.Name, Mode: b.Prompt, Len: promptLen, Limit: limit}
	}
	return nil
}

// PromptTooLongError is a prompt that cannot be handed over in its mode.
type PromptTooLongError struct {
	Backend    string
	Mode       PromptMode
	Len, Limit int
}

func (e *PromptTooLongError) Error() string {
	return fmt.Sprintf("backend %s: the prompt has %d bytes, and %q can pass at most %d; use \"stdin\" or \"file\"",
		e.Backend, e.Len, e.Mode, e.Limit)
}

// command is the whole command line and environment of one run.
func (b Backend) command(r Request) (argv, env []string, err error) {
	if len(b.Command) == 0 || b.Command[0] == "" {
		return nil, nil, fmt.Errorf("backend %s: no command given", b.Name)
	}
	if err := b.fits(len(r.Prompt)); err != nil {
		return nil, nil, err
	}
	switch b.Prompt {
	case ByArg, ByEnv:
		if strings.IndexByte(r.Prompt, 0) >= 0 {
			return nil, nil, fmt.Errorf("backend %s: the prompt contains a NUL byte and cannot be passed by %q",
				b.Name, b.Prompt)
		}
	case ByStdin, ByFile:
		if r.PromptFile == "" {
			return nil, nil, errors.New("run agent: no file given for the prompt")
		}
	}
	argv = b.argv(r)
	if b.Format == stream.FormatACP {
		if argv, err = b.bridged(argv, r.Model); err != nil {
			return nil, nil, err
		}
	}
	return argv, b.environ(r), nil
}

// argv is the command with its placeholders filled in, then the arguments for model, conversation and prompt.
func (b Backend) argv(r Request) []string {
	var argv []string
	placed := false // the prompt, or its file
	for _, arg := range b.Command {
		if (r.Keep || r.Session != "") && slices.Contains(b.Forgets, arg) {
			continue
		}
		full := strings.ReplaceAll(arg, "{prompt_file}", r.PromptFile)
		placed = placed || b.Prompt == ByFile && full != arg
		if b.Prompt == ByArg && strings.Contains(full, "{prompt}") {
			full, placed = strings.ReplaceAll(full, "{prompt}", r.Prompt), true
		}
		argv = append(argv, full)
	}
	argv = append(argv, filled(b.ModelArgs, "{model}", r.Model)...)
	argv = append(argv, filled(b.SessionArgs, "{session}", r.Session)...)
	switch {
	case placed:
	case b.Prompt == ByStdin:
		argv = append(argv, b.StdinArgs...)
	case b.Prompt == ByArg:
		argv = append(argv, r.Prompt)
	case b.Prompt == ByFile:
		argv = append(argv, r.PromptFile)
	}
	return argv
}

// filled are arguments with a value in its place; none without a value.
func filled(args []string, place, value string) (out []string) {
	if value == "" {
		return nil
	}
	for _, arg := range args {
		out = append(out, strings.ReplaceAll(arg, place, value))
	}
	return out
}

// environ is what the program's environment gets beside our own.
func (b Backend) environ(r Request) (env []string) {
	for _, name := range b.UnsetEnv {
		env = append(env, name+"=")
	}
	if b.Format == stream.FormatACP {
		env = append(env, acpEnv()...)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		env = append(env, name+"="+b.Env[name])
	}
	env = append(env, r.Env...)
	if r.PromptFile != "" {
		env = append(env, PromptFileVar+"="+r.PromptFile)
	}
	if b.Prompt == ByEnv {
		env = append(env, PromptVar+"="+r.Prompt)
	}
	return env
}

// acpEnv has Claude Code run its commands and subagents to their end: by the protocol a turn ends with its answer, and
// what the agent says after that has no end that could be waited for.
func acpEnv() []string { return []string{"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1"} }

// With returns the backend with the user's command. Options of the backend that the command lacks are added with their
// values: without them the program would wait for a person, or print what nobody can read. Nothing is added about a
// subject that the command itself decides, in whatever words.
func (b Backend) With(command []string) Backend {
	own := b.Command
	b.Command = slices.Clone(command)
	if len(own) == 0 {
		return b
	}
	for _, group := range options(own[1:]) {
		if !b.overridden(command, group) {
			b.Command = append(b.Command, group...)
		}
	}
	if b.overridden(command, b.ModelArgs) {
		b.ModelArgs = nil
	}
	if b.overridden(command, b.SessionArgs) {
		b.SessionArgs = nil
	}
	if b.overridden(command, b.StdinArgs) {
		b.StdinArgs = nil
	}
	return b
}

// options groups arguments: an option with the values that follow it, or a
// word that stands by itself.
func options(args []string) (groups [][]string) {
	for n, arg := range args {
		last := len(groups) - 1
		if n > 0 && !strings.HasPrefix(arg, "-") && last >= 0 && strings.HasPrefix(groups[last][0], "-") &&
			takesValue(groups[last][0]) {
			groups[last] = append(groups[last], arg)
			continue
		}
		groups = append(groups, []string{arg})
	}
	return groups
}

// takesValue separates options with a value from those that a word of another meaning may follow.
func takesValue(option string) bool {
	switch option {
	case "-p", "--json", "--auto", "--yolo", "--verbose":
		return false
	}
	return true
}

// overridden reports whether a command already decides what one of our options is for: by the same option, or by
// another of the same subject.
func (b Backend) overridden(command, group []string) bool {
	if len(group) == 0 {
		return false
	}
	name := group[0]
	if name == "-c" { // settings, each a subject of its own
		name += " " + settingKey(group[1])
	}
	names := []string{name}
	for _, subject := range b.Subjects {
		if slices.Contains(subject, name) {
			names = append(names, subject...)
		}
	}
	return slices.ContainsFunc(names, func(name string) bool { return states(command, name) })
}

// states reports whether a command has an option, however it is written: --name value, --name=value, --no-name,
// --camelCase, -n value, -nvalue, or among other letters, as in -dn. With a word after its name, as in "--mode plan"
// or "-c sandbox_mode", the option must have that value, or set that key or one below it.
func states(command []string, name string) bool {
	name, value, valued := strings.Cut(name, " ")
	form := optionForm(name)
	for n := 1; n < len(command); n++ {
		arg := command[n]
		if name == "-c" && valued {
			if rest, long := strings.CutPrefix(arg, "--config"); long {
				arg = "-c" + rest
			}
		}
		m := form.FindStringSubmatch(arg)
		if m == nil {
			continue
		}
		given := m[1]
		if given == "" && n+1 < len(command) {
			given = command[n+1]
		}
		if key := settingKey(given); !valued || key == value || strings.HasPrefix(key, value+".") {
			return true
		}
	}
	return false
}

// optionForm matches the arguments that are an option, including a value written into one. Some clients also accept
// --approvalMode for --approval-mode.
func optionForm(name string) *regexp.Regexp {
	letter := regexp.QuoteMeta(strings.TrimPrefix(name, "-"))
	switch {
	case strings.HasPrefix(name, "--"):
		return regexp.MustCompile(`(?i)^--(?:no-)?` + strings.ReplaceAll(letter[1:], "-", "-?") + `(?:=(.*))?$`)
	case len(name) > 1 && name[0] == '-':
		return regexp.MustCompile(`^(?:-` + letter + `=?(.*)|-[a-zA-Z]{1,2}` + letter + `|-[a-zA-Z]` + letter +
			`[a-zA-Z])$`)
	}
	return regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `()$`)
}

// settingKey is the key of a setting such as sandbox_mode="read-only".
func settingKey(setting string) string {
	key, _, _ := strings.Cut(setting, "=")
	return strings.TrimSpace(key)
}

// ACPCommand is the hidden command that a main program maps to the bridge: it talks to an agent that speaks the Agent
// Client Protocol and prints what happens as events.
const ACPCommand = "__acp"

// bridged is the command line that has a conversation with a program instead of running it. The bridge asks for the
// model, unless the program has an option for that.
func (b Backend) bridged(argv []string, model string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	line := []string{self, ACPCommand}
	if model != "" && len(b.ModelArgs) == 0 {
		line = append(line, "--model", model)
	}
	return append(append(line, "--"), argv...), nil
}
