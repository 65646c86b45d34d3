package config

import (
	"cmp"
	"slices"

	"descartes/tasks"
)

// Choice is what an attempt runs with.
type Choice struct {
	Backend string // kind of agent; "" is the run's
	Model   string // "" is the program's own choice
}

// AgentType is what a task's agent_type stands for. An empty field is as for any other task.
type AgentType struct {
	Backend string `json:"backend,omitempty"`
	Model   string `json:"model,omitempty"`
	Tier    string `json:"tier,omitempty"` // of tasks that name none
}

// Models are the models of one backend.
type Models struct {
	Default string            `json:"default,omitempty"`
	Tiers   map[string]string `json:"tiers,omitempty"` // by a task's model_tier
}

// Choices lists what a task's attempts may run with, best first: the backend of its agent type, else the run's, then
// the fallbacks. t is nil for a run without tasks.
//
// The model of each is, in this order: the agent type's own, for the backend that it names; the tier's model for that
// backend; then the tier's model for all. The last is for the run's backend only, as --model is: no program knows
// another's models.
func (c *Config) Choices(t *tasks.Task) []Choice {
	var typ AgentType
	tier := ""
	if t != nil {
		typ = c.AgentTypes[t.AgentType]
		tier = cmp.Or(t.ModelTier, typ.Tier)
	}
	return c.chain(typ.Backend, typ.Model, tier)
}

// chain is what is tried first, the run's backend where none is named, and then the fallbacks.
func (c *Config) chain(backend, model, tier string) []Choice {
	first := cmp.Or(backend, c.Backend.Type)
	out := []Choice{{first, cmp.Or(model, c.model(first, tier))}}
	if len(c.Fallback) == 0 {
		return out
	}
	for _, name := range append(slices.Clone(c.Fallback), c.Backend.Type) {
		if !slices.ContainsFunc(out, func(o Choice) bool { return o.Backend == name }) {
			out = append(out, Choice{name, c.model(name, tier)})
		}
	}
	return out
}

// model is a tier's model with a backend.
func (c *Config) model(backend, tier string) string {
	own := c.Models[backend]
	if m := own.Tiers[tier]; m != "" {
		return m
	}
	if backend != c.Backend.Type {
		return own.Default
	}
	return cmp.Or(c.ModelTiers[tier], c.Backend.Model, own.Default)
}

// Mapped reports whether tasks of this loop may run with different backends or models.
func (c *Config) Mapped() bool {
	if len(c.AgentTypes)+len(c.ModelTiers) > 0 {
		return true
	}
	for _, m := range c.Models {
		if len(m.Tiers) > 0 {
			return true
		}
	}
	return false
}

// Unmapped lists, sorted, the tiers and agent types of tasks that the settings leave out, where they map others.
func (c *Config) Unmapped(list []tasks.Task) (tiers, types []string) {
	if !c.Mapped() {
		return nil, nil
	}
	for i := range list {
		t := &list[i]
		if t.Container() {
			continue
		}
		first := c.Choices(t)[0]
		_, all := c.ModelTiers[t.ModelTier]
		_, own := c.Models[first.Backend].Tiers[t.ModelTier]
		known := own || all && first.Backend == c.Backend.Type || c.AgentTypes[t.AgentType].Model != ""
		if t.ModelTier != "" && !known && !slices.Contains(tiers, t.ModelTier) {
			tiers = append(tiers, t.ModelTier)
		}
		if _, ok := c.AgentTypes[t.AgentType]; t.AgentType != "" && len(c.AgentTypes) > 0 && !ok &&
			!slices.Contains(types, t.AgentType) {
			types = append(types, t.AgentType)
		}
	}
	slices.Sort(tiers)
	slices.Sort(types)
	return tiers, types
}
