package config

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/agent/stream"
	"descartes/internal/terminal"
)

// ResolveBackend finds the agent to run, and describes it as the state file does.
func ResolveBackend(cfg Config) (agent.Backend, BackendConfig, error) {
	saved := cfg.Backend
	table, err := agent.NewTable(cfg.Backends)
	if err != nil {
		return agent.Backend{}, saved, Wrong("", "%w", err)
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
		e := Wrong("with --backend generic, any program can be the agent", "unknown backend %q: the backends are %s",
			saved.Type, strings.Join(table.Names(), ", "))
		e.Unknown, e.Known = saved.Type, table.Names()
		return b, saved, e
	}
	if len(command) > 0 {
		b = b.With(command)
	}
	if len(b.Command) == 0 {
		return b, saved, Wrong("", "backend %s needs --command", b.Name)
	}
	if saved.PromptMode != "" {
		mode, ok := agent.ParsePromptMode(saved.PromptMode)
		if !ok {
			return b, saved, Wrong("", "backend.prompt_mode %q is not one of stdin, arg, env, file", saved.PromptMode)
		}
		b.Prompt = mode
	}
	if b.Prompt != agent.ByFile && slices.ContainsFunc(command,
		func(arg string) bool { return strings.Contains(arg, "{prompt_file}") }) {
		return b, saved, Wrong("--set backend.prompt_mode=file",
			"{prompt_file} in --command needs the prompt mode file, and the prompt mode is %s", b.Prompt)
	}
	switch saved.OutputFormat {
	case "", "json", "text":
	case "stream-json":
		if b.Name == "generic" { // it prints as Claude Code does; plain text is read too
			b.Format = stream.FormatClaude
		}
	default:
		return b, saved, Wrong("", "output_format %q is not one of stream-json, json, text", saved.OutputFormat)
	}
	if err := agent.CheckEnv(saved.Environment); err != nil {
		return b, saved, Wrong("", "backend.environment: %w", err)
	}
	b = b.WithEnv(saved.Environment).WithPrices(cfg.Prices)
	saved.PromptMode = string(b.Prompt)
	if saved.OutputFormat == "" {
		saved.OutputFormat = "text"
		if b.Format != stream.FormatText {
			saved.OutputFormat = "stream-json"
		}
	}
	return b, saved, nil
}

// commandLine is the configured command with its arguments.
func commandLine(cfg Config) ([]string, error) {
	words, err := SplitCommand("--command", cfg.Command)
	if err != nil {
		return nil, err
	}
	if words == nil {
		return nil, nil
	}
	return append(words, cfg.Args...), nil
}

// SavedCommand is a command as the state file has it: the program, quoted where commandLine would split it, and the
// rest.
func SavedCommand(words []string) (program string, args []string) {
	return terminal.Quote(words[0]), slices.Clone(words[1:])
}

// OtherBackends lists the backends that tasks or fallbacks name besides the usual one.
func OtherBackends(cfg Config) (out []agent.Backend, err error) {
	table, err := agent.NewTable(cfg.Backends)
	if err != nil {
		return nil, Wrong("", "%w", err)
	}
	add := func(where, name string) error {
		known := func(b agent.Backend) bool { return b.Name == name }
		if name == "" || name == cfg.Backend.Type || slices.ContainsFunc(out, known) {
			return nil
		}
		b, ok := table.Lookup(name)
		switch {
		case !ok:
			return Wrong("", "%s: unknown backend %q: the backends are %s", where, name,
				strings.Join(table.Names(), ", "))
		case len(b.Command) == 0:
			return Wrong("give backends."+name+".command in descartes.yaml", "%s: backend %s has no command", where,
				name)
		}
		out = append(out, b.WithPrices(cfg.Prices))
		return nil
	}
	for _, name := range cfg.Fallback {
		if err := add("fallback", name); err != nil {
			return nil, err
		}
	}
	if cfg.Reviews() {
		if err := add("review", cfg.Review.Backend); err != nil {
			return nil, err
		}
	}
	for _, word := range slices.Sorted(maps.Keys(cfg.AgentTypes)) {
		if err := add("agent_types."+word, cfg.AgentTypes[word].Backend); err != nil {
			return nil, err
		}
	}
	return out, nil
}
