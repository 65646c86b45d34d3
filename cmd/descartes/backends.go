package main

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/internal/config"
	"descartes/loop"
)

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

// splitCommand is config.SplitCommand, with its hint.
func splitCommand(setting, line string) ([]string, error) {
	words, err := config.SplitCommand(setting, line)
	var wrong *config.CommandError
	if errors.As(err, &wrong) {
		return nil, badInput(wrong.Hint, "%w", err)
	}
	return words, err
}
