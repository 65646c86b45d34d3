package config

import (
	"fmt"
	"slices"
	"testing"

	"descartes/tasks"
)

func TestChoices(t *testing.T) {
	t.Parallel()
	c := Config{Backend: BackendConfig{Type: "claude", Model: "sonnet"}, Fallback: []string{"codex", "claude"},
		ModelTiers: map[string]string{"fast": "haiku", "smart": "opus"},
		Models:     map[string]Models{"codex": {Default: "gpt", Tiers: map[string]string{"smart": "gpt-big"}}},
		AgentTypes: map[string]AgentType{"reviewer": {Backend: "codex", Model: "gpt-r", Tier: "smart"},
			"planner": {Tier: "smart"}, "tester": {Backend: "gemini"}}}
	for _, tt := range []struct{ typ, tier, want string }{
		{"", "", "[{claude sonnet} {codex gpt}]"},
		{"", "fast", "[{claude haiku} {codex gpt}]"},
		{"builder", "smart", "[{claude opus} {codex gpt-big}]"},
		{"planner", "", "[{claude opus} {codex gpt-big}]"},
		{"planner", "fast", "[{claude haiku} {codex gpt}]"},
		{"reviewer", "fast", "[{codex gpt-r} {claude haiku}]"},
		{"reviewer", "", "[{codex gpt-r} {claude opus}]"},
		{"tester", "smart", "[{gemini } {codex gpt-big} {claude opus}]"},
		{"", "standard", "[{claude sonnet} {codex gpt}]"},
	} {
		if got := fmt.Sprint(c.Choices(&tasks.Task{AgentType: tt.typ, ModelTier: tt.tier})); got != tt.want {
			t.Errorf("type %q, tier %q: got %s, want %s", tt.typ, tt.tier, got, tt.want)
		}
	}
	if got := fmt.Sprint(c.Choices(nil)); got != "[{claude sonnet} {codex gpt}]" {
		t.Errorf("without a task: %s", got)
	}
	tiers, types := c.Unmapped([]tasks.Task{{ID: "1", ModelTier: "standard"},
		{ID: "2", ModelTier: "smart", AgentType: "builder"}, {ID: "3", ModelTier: "fast", AgentType: "tester"}})
	if !slices.Equal(tiers, []string{"fast", "standard"}) || !slices.Equal(types, []string{"builder"}) {
		t.Errorf("unmapped: %v, %v", tiers, types)
	}
}
