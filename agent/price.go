package agent

import (
	"cmp"
	"strings"

	"descartes/agent/stream"
)

// Price is a model's price in dollars per million tokens. Input is what is neither read from a cache nor written to
// one; a nil price means that those cost as much as Input.
type Price struct {
	Input       float64  `json:"input"`
	CachedInput *float64 `json:"cached_input,omitempty"`
	CacheWrite  *float64 `json:"cache_write,omitempty"`
	Output      float64  `json:"output"`
}

// Prices are the prices of models, by the beginnings of their names.
type Prices map[string]Price

// For returns the price of a model: that of the longest matching beginning of its name. A provider in front, as in
// openai/gpt-5, is ignored if nothing matches with it. Case does not matter.
func (p Prices) For(model string) (Price, bool) {
	model = strings.ToLower(model)
	if price, ok := p.longest(model); ok {
		return price, true
	}
	return p.longest(model[strings.LastIndexByte(model, '/')+1:])
}

func (p Prices) longest(model string) (best Price, ok bool) {
	length := -1
	for name, price := range p {
		if name = strings.ToLower(name); len(name) > length && name != "" && strings.HasPrefix(model, name) {
			best, length, ok = price, len(name), true
		}
	}
	return best, ok
}

// Of is the cost of tokens in dollars.
func (p Price) Of(t Tokens) float64 {
	or := func(price *float64) float64 {
		if price == nil {
			return p.Input
		}
		return *price
	}
	plain := max(0, t.Input-t.CacheRead-t.CacheWrite)
	sum := float64(plain)*p.Input + float64(t.CacheRead)*or(p.CachedInput) + float64(t.CacheWrite)*or(p.CacheWrite) +
		float64(t.Output)*p.Output
	return sum / 1e6
}

// priced computes a run's cost from the prices, unless the client reported dollars, which it knows better. model is
// what the client reported, asked what was requested.
func (b Backend) priced(c *Cost, model, asked string) {
	if c == nil || c.USD != nil || c.Tokens == nil {
		return
	}
	if p, ok := b.Prices.For(cmp.Or(model, asked)); ok {
		usd := p.Of(*c.Tokens)
		c.USD, c.Estimated = &usd, true
	}
}

// TellsCost reports whether the cost in dollars of a run with that model can be known; "" is the backend's own choice,
// and why says what is missing.
func (b Backend) TellsCost(model string) (ok bool, why string) {
	if _, priced := b.Prices.For(model); priced && model != "" && b.Format != stream.FormatText &&
		b.Format != stream.FormatCopilot {
		return true, ""
	}
	switch {
	case b.Format == stream.FormatText:
		return false, b.title() + " prints plain text, without a cost"
	case b.Format == stream.FormatCopilot:
		return false, b.title() + " reports no cost"
	case b.Format == stream.FormatClaude && b.Name != "qwen", b.Format == stream.FormatOpencode,
		b.Format == stream.FormatCline:
		return true, ""
	case model == "":
		return false, b.title() + " reports only tokens, and their price is not known without --model"
	}
	return false, b.title() + " reports only tokens, and the settings have no price for " + model
}

// TellsAtEnd reports whether the backend only reports its cost when a run ends by itself: the cost of a run cut short
// is unknown then.
func (b Backend) TellsAtEnd() bool { return b.Format != stream.FormatOpencode }

// WithPrices returns the backend with prices for models that it has none for.
func (b Backend) WithPrices(p Prices) Backend {
	b.Prices = overlaid(p, b.Prices)
	return b
}
