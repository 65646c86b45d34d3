package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"descartes/agent"
	"descartes/internal/proc"
	"descartes/loop"
	"descartes/tasks"
)

// defaultMaxWait is how long a run waits for a provider at most, in seconds.
const defaultMaxWait = 6 * 60 * 60

// onLimitWords are what --on-limit takes.
const onLimitWords = loop.OnLimitWait + "|" + loop.OnLimitStop + "|" + loop.OnLimitFallback

// registerProviders binds what is done when a provider gives no more.
func (s *settings) registerProviders(f *pflag.FlagSet) {
	f.Var(choice{&s.OnLimit, onLimitWords}, "on-limit", "when the provider's quota is used up: wait, stop, or fallback to the next backend (default: wait, with --fallback fallback)")
	f.Var((*secs)(&s.MaxWaitSecs), "max-wait", "longest waiting for a provider; a reset further away ends the run; 0: any")
	f.StringSliceVar(&s.Fallback, "fallback", nil, "`backends` that take over, in this order, when one is out of quota, keeps failing or cannot be used")
}

// asksAnew reports whether a person wants the providers asked, whatever is known of their quotas: by giving --on-limit
// again. It is to be called before the environment has its say.
func asksAnew(f *pflag.FlagSet) bool { return f.Changed("on-limit") }

// completeProviders says what is done at a limit where nobody did, and refuses what cannot be.
func (s *settings) completeProviders(f *pflag.FlagSet) error {
	given := f.Changed("on-limit")
	if f.Changed("fallback") && len(s.Fallback) == 0 && !given && s.OnLimit == loop.OnLimitFallback { // taken back
		s.OnLimit = ""
	}
	switch {
	case given:
	case s.ci && len(s.Fallback) == 0:
		s.OnLimit = loop.OnLimitStop
	case s.ci:
		s.OnLimit = loop.OnLimitFallback
		if !f.Changed("max-wait") { // a job waits for nobody
			s.MaxWaitSecs = 1
		}
	case len(s.Fallback) > 0 && (s.OnLimit == "" || f.Changed("fallback")):
		s.OnLimit = loop.OnLimitFallback
	case s.OnLimit == "":
		s.OnLimit = loop.OnLimitWait
	}
	if s.OnLimit == loop.OnLimitFallback && len(s.Fallback) == 0 {
		return badInput("name a backend with --fallback, e.g. --fallback codex", "--on-limit fallback: there is no backend to fall back to")
	}
	return nil
}

// fileProviders is what descartes.yaml says of providers and models.
type fileProviders struct {
	MaxWait    string               `yaml:"max_wait"`
	Fallback   fileWords            `yaml:"fallback"`
	ModelTiers map[string]string    `yaml:"model_tiers"`
	AgentTypes map[string]fileAgent `yaml:"agent_types"`
}

type fileAgent struct {
	Backend string `yaml:"backend"`
	Model   string `yaml:"model"`
	Tier    string `yaml:"tier"`
}

// fileWords is a list, or one line with commas.
type fileWords []string

// UnmarshalYAML reads either.
func (w *fileWords) UnmarshalYAML(read func(any) error) error {
	var line string
	if read(&line) == nil {
		for word := range strings.SplitSeq(line, ",") {
			if word = strings.TrimSpace(word); word != "" {
				*w = append(*w, word)
			}
		}
		return nil
	}
	return read((*[]string)(w))
}

func (f *fileProviders) check() error {
	var n secs
	if err := n.Set(f.MaxWait); err != nil {
		return fmt.Errorf("max_wait: %w", err)
	}
	return nil
}

// into puts it into c, with the models of the file's backends.
func (f *fileProviders) into(c *loop.Config, backends map[string]fileRow) {
	if f.MaxWait != "" {
		var n secs
		if n.Set(f.MaxWait) == nil { // check has looked
			c.MaxWaitSecs = int(n)
		}
	}
	c.Fallback, c.ModelTiers = f.Fallback, f.ModelTiers
	for name, t := range f.AgentTypes {
		if c.AgentTypes == nil {
			c.AgentTypes = map[string]loop.AgentType{}
		}
		c.AgentTypes[name] = loop.AgentType{Backend: t.Backend, Model: t.Model, Tier: t.Tier}
	}
	for name, row := range backends {
		if row.Model == "" && len(row.ModelTiers) == 0 {
			continue
		}
		if c.Models == nil {
			c.Models = map[string]loop.Models{}
		}
		c.Models[name] = loop.Models{Default: row.Model, Tiers: row.ModelTiers}
	}
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

// kinds are the agents of a run, each under its own name; the first is the usual one.
type kinds []*agent.Runner

func (k kinds) of(name string) *agent.Runner {
	for _, r := range k {
		if r.Name() == name {
			return r
		}
	}
	return k[0]
}

// lateAgent is the agent of a loop. Its runners come to be once the loop has an id, because the supervising process
// records each command's end in the loop's folder.
type lateAgent struct {
	kinds
	c *confined
}

func (a *lateAgent) Run(ctx context.Context, r agent.Request) (agent.Result, error) {
	k := a.of(r.Backend)
	bounds, done, err := a.c.bounds(k.Name())
	if err != nil {
		return agent.Result{}, err
	}
	r.Limits, r.Env = bounds, slices.Concat(a.c.env[k.Name()], r.Env)
	res, err := k.Run(ctx, r)
	res.Notes = append(res.Notes, done()...)
	return res, err
}

func (a *lateAgent) Recall(r agent.Request, exitFile string) (agent.Result, bool) {
	return a.of(r.Backend).Recall(r, exitFile)
}

func (a *lateAgent) use(sh *proc.Shim, c *confined, backends ...agent.Backend) {
	a.c = c
	for _, b := range backends {
		a.kinds = append(a.kinds, agent.NewRunner(sh, b))
	}
}

// otherProblems says which backends that tasks ask for cannot be run, and notes those of a fallback and the words of
// tasks that mean nothing.
func (r *ready) otherProblems(look func(string) (string, error)) (found problems) {
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
