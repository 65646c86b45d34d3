package agent

import (
	"math"
	"testing"

	"descartes/agent/stream"
)

func TestPrices(t *testing.T) {
	t.Parallel()
	tenth, none := 0.125, 0.0
	p := Prices{"gpt-5": {Input: 5, Output: 20}, "GPT-5.1-codex": {Input: 1.25, CachedInput: &tenth, CacheWrite: &none,
		Output: 10}, "local/": {}, "": {Input: 99}}
	for _, tt := range []struct {
		model string
		t     Tokens
		want  float64 // negative: no price
	}{
		{"gpt-5", Tokens{Input: 1e6}, 5},
		{"gpt-5-mini", Tokens{Input: 1e6, CacheRead: 2e5, Output: 1e6}, 25},
		{"gpt-5.1-codex-max", Tokens{Input: 1e6, CacheRead: 4e5, CacheWrite: 1e5, Output: 1e5}, 0.625 + 0.05 + 1},
		{"openai/gpt-5.1-codex", Tokens{Output: 1e6}, 10},
		{"local/gpt-5", Tokens{Input: 1e9}, 0},
		{"gpt-4", Tokens{Input: 1}, -1},
		{"", Tokens{Input: 1}, -1},
		{"gpt-5", Tokens{Input: 1, CacheRead: 1e6}, 5}, // a client that counts cached tokens beside the others
	} {
		price, ok := p.For(tt.model)
		if ok != (tt.want >= 0) || ok && math.Abs(price.Of(tt.t)-tt.want) > 1e-9 {
			t.Errorf("%s: %v, %v costs %g, want %g", tt.model, ok, tt.t, price.Of(tt.t), tt.want)
		}
	}
}

func TestPriced(t *testing.T) {
	t.Parallel()
	told, tokens := 0.5, &Tokens{Input: 1e6}
	b := Backend{Prices: Prices{"m": {Input: 2}, "asked": {Input: 3}}}
	for name, tt := range map[string]struct {
		c            *Cost
		model, asked string
		want         float64 // 0: unknown
		estimated    bool
	}{
		"nothing known":           {nil, "m", "", 0, false},
		"the client knows better": {&Cost{USD: &told, Tokens: tokens}, "m", "", 0.5, false},
		"by the model told":       {&Cost{Tokens: tokens}, "m-1", "asked", 2, true},
		"by the model asked for":  {&Cost{Tokens: tokens}, "", "asked", 3, true},
		"no price for it":         {&Cost{Tokens: tokens}, "other", "asked", 0, false},
		"no tokens":               {&Cost{}, "m", "", 0, false},
	} {
		b.priced(tt.c, tt.model, tt.asked)
		got := 0.0
		if tt.c != nil && tt.c.USD != nil {
			got = *tt.c.USD
		}
		if got != tt.want || tt.c != nil && tt.c.Estimated != tt.estimated {
			t.Errorf("%s: got %g, want %g", name, got, tt.want)
		}
	}
}

func TestTellsCost(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]Row{"codex": {Prices: Prices{"own": {Input: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		backend, model string
		want           bool
	}{
		{"claude", "", true}, {"opencode", "x", true}, {"qwen", "qwen3", false}, {"gemini", "", false},
		{"gemini", "gemini-3", true},
		{"codex", "own-model", true}, {"codex", "gemini-3", true}, {"codex", "other", false}, {"codex", "", false},
		{"copilot", "gemini-3", false},
	} {
		b, _ := table.Lookup(tt.backend)
		ok, why := b.WithPrices(Prices{"gemini-3": {Input: 1}}).TellsCost(tt.model)
		if ok != tt.want || ok == (why != "") {
			t.Errorf("%s with model %q: %v %q", tt.backend, tt.model, ok, why)
		}
	}
	if ok, _ := (Backend{Format: stream.FormatText}).TellsCost("gemini-3"); ok {
		t.Error("plain text reports no cost")
	}
}
