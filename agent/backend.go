// Package agent runs one coding agent once: it builds the command line, hands
// over the prompt, reads what the agent said and says why it ended. It does
// not judge the work.
package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"descartes/internal/proc"
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

// Formats of what a program prints. All but text are lines of JSON events.
const (
	FormatText     = "text"   // any program: its standard output is its final message
	FormatACP      = "acp"    // the Agent Client Protocol: a conversation, had by the bridge, which prints the events
	FormatClaude   = "claude" // Claude Code's stream-json; Qwen Code, Amp and Cursor speak like it
	FormatOpencode = "opencode"
	FormatCodex    = "codex"
	FormatGemini   = "gemini"
	FormatCopilot  = "copilot"
	FormatCline    = "cline"
)

// Formats lists them.
func Formats() []string {
	return []string{FormatACP, FormatClaude, FormatCline, FormatCodex, FormatCopilot, FormatGemini, FormatOpencode, FormatText}
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
	StdinArgs []string // last arguments where the prompt comes by standard input
	Format    string
	Env       map[string]string
	UnsetEnv  []string // variables that the program gets empty
	EnvPass   []string // variables that it gets from our environment besides those of its provider
	ModelArgs []string // added to Command when a model is asked for
	ExitCodes map[int]Cause
	Prices    Prices // for a client that tells only tokens

	// Expressions for lines of standard error that say that the quota is used
	// up. A run that prints one is ended at once.
	StderrLimit []string

	// SessionArgs are added, {session} filled in, to go on with a conversation; none: it cannot.
	SessionArgs []string

	// Subjects groups the options by which the client is told the same thing, or its opposite. Where the user's
	// command has one of a group, no other of it is added. "--mode plan" is the
	// option with that value, "-c key" a setting given with -c or --config.
	Subjects [][]string
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

// Check says what would keep a run from starting: a missing program, or a
// prompt of promptLen bytes that does not fit the way it is handed over.
func (b Backend) Check(look func(program string) (string, error), promptLen int) error {
	if len(b.Command) == 0 || b.Command[0] == "" {
		return fmt.Errorf("backend %s: no command given", b.Name)
	}
	if _, err := look(b.Command[0]); err != nil {
		return fmt.Errorf("backend %s: %w", b.Name, err)
	}
	return b.fits(promptLen)
}

// fits refuses a prompt that the system would not take. Cutting it is never
// an option.
func (b Backend) fits(promptLen int) error {
	limit := proc.MaxString
	switch b.Prompt {
	case ByStdin, ByFile:
		return nil
	case ByEnv:
		limit -= len(PromptVar) + 1
	case ByArg:
		for _, arg := range b.Command {
			if strings.Contains(arg, "{prompt}") {
				limit = min(limit, proc.MaxString-len(arg)+len("{prompt}"))
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
	return fmt.Sprintf("backend %s: the prompt has %d bytes, by %q at most %d can be handed over; use \"stdin\" or \"file\"",
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
	if (b.Prompt == ByArg || b.Prompt == ByEnv) && strings.IndexByte(r.Prompt, 0) >= 0 {
		return nil, nil, fmt.Errorf("backend %s: the prompt holds a NUL byte and cannot be handed over by %q", b.Name, b.Prompt)
	}
	if (b.Prompt == ByStdin || b.Prompt == ByFile) && r.PromptFile == "" {
		return nil, nil, errors.New("run agent: no file given for the prompt")
	}
	filled := false
	for _, arg := range b.Command {
		full := strings.ReplaceAll(arg, "{prompt_file}", r.PromptFile)
		filled = filled || b.Prompt == ByFile && full != arg
		if b.Prompt == ByArg && strings.Contains(full, "{prompt}") {
			full, filled = strings.ReplaceAll(full, "{prompt}", r.Prompt), true
		}
		argv = append(argv, full)
	}
	if r.Model != "" {
		for _, arg := range b.ModelArgs {
			argv = append(argv, strings.ReplaceAll(arg, "{model}", r.Model))
		}
	}
	if r.Session != "" {
		for _, arg := range b.SessionArgs {
			argv = append(argv, strings.ReplaceAll(arg, "{session}", r.Session))
		}
	}
	switch {
	case filled:
	case b.Prompt == ByStdin:
		argv = append(argv, b.StdinArgs...)
	case b.Prompt == ByArg:
		argv = append(argv, r.Prompt)
	case b.Prompt == ByFile:
		argv = append(argv, r.PromptFile)
	}
	if b.Format == FormatACP {
		if argv, err = b.bridged(argv, r.Model); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range b.UnsetEnv {
		env = append(env, name+"=")
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
	return argv, env, nil
}
