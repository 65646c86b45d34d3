package main

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"descartes/agent"
	"descartes/loop"
)

// fileRow is one backend in descartes.yaml: what it says goes over what is built in.
type fileRow struct {
	Command   string            `yaml:"command"`
	Args      []string          `yaml:"args"`
	Prompt    string            `yaml:"prompt"`
	StdinArgs []string          `yaml:"stdin_args"`
	Parser    string            `yaml:"parser"`
	Env       map[string]string `yaml:"env"`
	UnsetEnv  []string          `yaml:"unset_env"`
	EnvPass   []string          `yaml:"env_pass"`
	ModelArgs []string          `yaml:"model_args"`
	Session   []string          `yaml:"session_args"`
	ExitCodes map[int]string    `yaml:"exit_codes"`
	Prices    filePrices        `yaml:"prices"`

	Model      string            `yaml:"model"` // where nothing else names one
	ModelTiers map[string]string `yaml:"model_tiers"`

	StderrLimit []string `yaml:"stderr_limit"`
}

// backendRows reads the file's rows and checks them against the built-in table.
func backendRows(file map[string]fileRow) (map[string]agent.Row, error) {
	if len(file) == 0 {
		return nil, nil
	}
	rows := make(map[string]agent.Row, len(file))
	for _, name := range slices.Sorted(maps.Keys(file)) {
		f := file[name]
		command, err := splitCommand(fmt.Sprintf("backends.%s.command", name), f.Command)
		if err != nil {
			return nil, err
		}
		prices, err := f.Prices.table("backends." + name + ".prices")
		if err != nil {
			return nil, err
		}
		rows[name] = agent.Row{Prices: prices, Command: command, Args: f.Args, Prompt: f.Prompt, StdinArgs: f.StdinArgs, Format: f.Parser,
			Env: f.Env, UnsetEnv: f.UnsetEnv, EnvPass: f.EnvPass, ModelArgs: f.ModelArgs, SessionArgs: f.Session, ExitCodes: f.ExitCodes, StderrLimit: f.StderrLimit}
	}
	if _, err := agent.NewTable(rows); err != nil {
		return nil, fmt.Errorf("backends: %w", err)
	}
	return rows, nil
}

// resolveBackend finds the agent to run, and says in the words of the state file what it is.
func resolveBackend(cfg loop.Config) (agent.Backend, loop.BackendConfig, error) {
	saved := cfg.Backend
	table, err := agent.NewTable(cfg.Backends)
	if err != nil {
		return agent.Backend{}, saved, badInput("", "%w", err)
	}
	command, err := commandLine(cfg)
	if err != nil {
		return agent.Backend{}, saved, err
	}
	if saved.Type == "" {
		saved.Type = "claude"
		if len(command) > 0 {
			saved.Type = "generic"
			if b, ok := table.Lookup(path.Base(filepath.ToSlash(command[0]))); ok {
				saved.Type = b.Name
			}
		}
	}
	b, ok := table.Lookup(saved.Type)
	if !ok {
		return b, saved, badInput("with --backend generic, any program can be the agent", "no backend %q: there are %s", saved.Type, strings.Join(table.Names(), ", "))
	}
	if len(command) > 0 {
		b = b.With(command)
	}
	if len(b.Command) == 0 {
		return b, saved, badInput("", "backend %s needs --command", b.Name)
	}
	if saved.PromptMode != "" {
		mode, ok := agent.ParsePromptMode(saved.PromptMode)
		if !ok {
			return b, saved, badInput("", "--prompt-mode %q is none of stdin, arg, env, file", saved.PromptMode)
		}
		b.Prompt = mode
	}
	if b.Prompt != agent.ByFile && slices.ContainsFunc(command, func(arg string) bool { return strings.Contains(arg, "{prompt_file}") }) {
		return b, saved, badInput("--prompt-mode file", "{prompt_file} in --command stands for the prompt's file, and the prompt is handed over by %s", b.Prompt)
	}
	switch saved.OutputFormat {
	case "", "json", "text":
	case "stream-json":
		if b.Name == "generic" { // a program that prints as Claude Code does; text is still read as text
			b.Format = agent.FormatClaude
		}
	default:
		return b, saved, badInput("", "output_format %q is none of stream-json, json, text", saved.OutputFormat)
	}
	b = b.WithEnv(saved.Environment).WithPrices(cfg.Prices)
	saved.PromptMode = string(b.Prompt)
	if saved.OutputFormat == "" {
		saved.OutputFormat = "text"
		if b.Format != agent.FormatText {
			saved.OutputFormat = "stream-json"
		}
	}
	return b, saved, nil
}

// commandLine is the command and the arguments that the settings give.
func commandLine(cfg loop.Config) ([]string, error) {
	words, err := splitCommand("--command", cfg.Command)
	if err != nil || words == nil {
		return nil, err
	}
	return append(words, cfg.Args...), nil
}

// savedCommand is a command as the state file has it: the program, quoted where commandLine would split it, and the rest.
func savedCommand(words []string) (program string, args []string) {
	return quote(words[0]), slices.Clone(words[1:])
}

// wholeCommand is what a state file says is run.
func wholeCommand(cfg loop.Config) string {
	words := []string{cfg.Command}
	if cfg.Command == "" {
		words[0] = cfg.Backend.Type
	}
	for _, a := range cfg.Args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

// splitCommand splits a command line as a shell would, and expands nothing in it. A blank one is nil.
func splitCommand(setting, line string) ([]string, error) {
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	p := shellwords.NewParser()
	p.ParseEnv, p.ParseBacktick, p.ParseComment = false, false, false
	words, err := p.Parse(line)
	if err != nil {
		return nil, badInput("quote it as for a shell; for pipes and variables use "+setting+" \"sh -c '...'\"", "%s %q: %w", setting, line, err)
	}
	if p.Position >= 0 || len(words) == 0 {
		return nil, badInput("for pipes and variables use "+setting+" \"sh -c '...'\"", "%s %q: one program with its arguments is wanted", setting, line)
	}
	return words, nil
}
