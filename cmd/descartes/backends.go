package main

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/agent/stream"
	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/tasks"
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
			b.Format = stream.FormatClaude
		}
	default:
		return b, saved, badInput("", "output_format %q is none of stream-json, json, text", saved.OutputFormat)
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

// commandLine is the command and the arguments that the settings give.
func commandLine(cfg loop.Config) ([]string, error) {
	words, err := config.SplitCommand("--command", cfg.Command)
	if err != nil {
		return nil, wrongSetting(err)
	}
	if words == nil {
		return nil, nil
	}
	return append(words, cfg.Args...), nil
}

// savedCommand is a command as the state file has it: the program, quoted where commandLine would split it, and the rest.
func savedCommand(words []string) (program string, args []string) {
	return terminal.Quote(words[0]), slices.Clone(words[1:])
}

// otherBackends are those that tasks or a fallback name besides the usual one.
func otherBackends(cfg loop.Config) (out []agent.Backend, err error) {
	table, err := agent.NewTable(cfg.Backends)
	if err != nil {
		return nil, badInput("", "%w", err)
	}
	add := func(where, name string) error {
		known := func(b agent.Backend) bool { return b.Name == name }
		if name == "" || name == cfg.Backend.Type || slices.ContainsFunc(out, known) {
			return nil
		}
		b, ok := table.Lookup(name)
		switch {
		case !ok:
			return badInput("", "%s: no backend %q: there are %s", where, name, strings.Join(table.Names(), ", "))
		case len(b.Command) == 0:
			return badInput("give backends."+name+".command in descartes.yaml", "%s: backend %s has no command", where, name)
		}
		out = append(out, b.WithPrices(cfg.Prices))
		return nil
	}
	for _, name := range cfg.Fallback {
		if err := add("fallback", name); err != nil {
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

// continues reports whether a backend's client can go on in a session.
func (r *prepared) continues(backend string) bool {
	return slices.ContainsFunc(r.backends(), func(b agent.Backend) bool { return b.Name == backend && len(b.SessionArgs) > 0 })
}

// otherProblems says which backends that tasks ask for cannot be run, and notes those of a fallback and the words of
// tasks that mean nothing.
func (r *tagRun) otherProblems(look func(string) (string, error)) (found problems) {
	cfg := r.job.Config
	asked := map[string]string{} // backend to the first task that asks for it
	var list []tasks.Task
	for _, id := range r.job.Runnable() {
		t, _ := r.job.Graph.Task(id)
		list = append(list, *t)
		if name := cfg.Choices(t)[0].Backend; asked[name] == "" {
			asked[name] = id
		}
	}
	for _, b := range r.others {
		if err := b.Check(look, 0); err != nil && asked[b.Name] != "" {
			err = fmt.Errorf("task %s: %w", asked[b.Name], err)
			found = append(found, loop.Problem{Message: err.Error(), Hint: "install it, or give agent_types another backend", Err: &failure{code: exitAgent, err: err}})
		} else if err == nil && asked[b.Name] != "" {
			more, warnings := lacking(cfg, b, r.root)
			found, r.lacks = append(found, more...), append(r.lacks, warnings...)
		}
	}
	r.notes = append(r.notes, missingFallbacks(r.others, cfg, r.root, look)...)
	tiers, types := cfg.Unmapped(list)
	for _, words := range []struct {
		what, setting string
		list          []string
	}{{"model tier", "model_tiers", tiers}, {"agent type", "agent_types", types}} {
		if n := len(words.list); n > 0 {
			r.notes = append(r.notes, fmt.Sprintf("%s %s of tasks: %s says nothing of it, the default model is used", words.what,
				strings.Join(words.list[:min(n, 10)], ", "), words.setting))
		}
	}
	return found
}

// missingFallbacks names the backends that cannot take over.
func missingFallbacks(others []agent.Backend, cfg loop.Config, root string, look func(string) (string, error)) (notes []string) {
	for _, b := range others {
		if !slices.Contains(cfg.Fallback, b.Name) {
			continue
		}
		if err := b.Check(look, 0); err != nil {
			notes = append(notes, fmt.Sprintf("the fallback cannot take over before it is installed: %v", err))
			continue
		}
		for _, l := range b.Preflight(placeOf(cfg, b, root, "")) {
			notes = append(notes, fmt.Sprintf("the fallback may not be able to take over: %s: %s: %s", b.Name, l.What, l.Fix))
		}
	}
	return notes
}

// powerless says of the limits of money that they may not act, because what an agent costs will not be known. chosen
// is all that attempts may be run with.
func powerless(c loop.Config, backends []agent.Backend, chosen []loop.Choice) (told []string) {
	var limits, reasons, late []string
	if c.MaxCostUSD > 0 {
		limits = append(limits, "--max-cost "+journal.Dollars(c.MaxCostUSD))
	}
	if c.MaxCostPerTask > 0 {
		limits = append(limits, "--max-cost-per-task "+journal.Dollars(c.MaxCostPerTask))
	}
	if len(limits) == 0 {
		return nil
	}
	for _, with := range chosen {
		at := slices.IndexFunc(backends, func(b agent.Backend) bool { return b.Name == with.Backend })
		if at < 0 {
			continue
		}
		ok, why := backends[at].TellsCost(with.Model)
		if !ok && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		if ok && backends[at].TellsAtEnd() && !slices.Contains(late, with.Backend) {
			late = append(late, with.Backend)
		}
	}
	of := strings.Join(limits, " and ")
	if len(reasons) > 0 {
		told = append(told, of+" may not act: "+strings.Join(reasons, "; "))
	}
	if len(late) > 0 {
		told = append(told, of+" cannot see attempts that are cut short: "+strings.Join(late, " and ")+" tells its cost at the end of a run")
	}
	return told
}

// chosen is all that the attempts of a job may be run with.
func chosen(job *loop.Job) (out []loop.Choice) {
	for _, id := range job.Runnable() {
		t, _ := job.Graph.Task(id)
		for _, c := range job.Config.Choices(t) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}
