package agent

import (
	"cmp"
	"strings"

	"descartes/agent/stream"
)

// Price is what a model costs, in dollars per million tokens. Input is what is neither read from a cache nor
// written to one; where a price for those is nil, they cost as much as it.
type Price struct {
	Input       float64  `json:"input"`
	CachedInput *float64 `json:"cached_input,omitempty"`
	CacheWrite  *float64 `json:"cache_write,omitempty"`
	Output      float64  `json:"output"`
}

// Prices are those of models, by the beginnings of their names.
type Prices map[string]Price

// For finds the price of a model: that of the longest name that its own begins with. A provider in front, as in
// openai/gpt-5, is passed over where no name has it. Case does not matter.
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

// Of is what tokens cost at this price, in dollars.
func (p Price) Of(t Tokens) float64 {
	or := func(price *float64) float64 {
		if price == nil {
			return p.Input
		}
		return *price
	}
	plain := max(0, t.Input-t.CacheRead-t.CacheWrite)
	sum := float64(plain)*p.Input + float64(t.CacheRead)*or(p.CachedInput) + float64(t.CacheWrite)*or(p.CacheWrite) + float64(t.Output)*p.Output
	return sum / 1e6
}

// priced completes what a run cost by the prices: a client that tells its dollars knows better. model is what the
// client told, asked what it was asked to use.
func (b Backend) priced(c *Cost, model, asked string) {
	if c == nil || c.USD != nil || c.Tokens == nil {
		return
	}
	if p, ok := b.Prices.For(cmp.Or(model, asked)); ok {
		usd := p.Of(*c.Tokens)
		c.USD, c.Estimated = &usd, true
	}
}

// TellsCost reports whether it can be known what a run of this backend costs in dollars when it is asked to use
// that model, "" for its own choice; why says what is missing.
func (b Backend) TellsCost(model string) (ok bool, why string) {
	if _, priced := b.Prices.For(model); priced && model != "" && b.Format != stream.FormatText && b.Format != stream.FormatCopilot {
		return true, ""
	}
	switch {
	case b.Format == stream.FormatText:
		return false, b.title() + " prints plain text, without a cost"
	case b.Format == stream.FormatCopilot:
		return false, b.title() + " reports no cost"
	case b.Format == stream.FormatClaude && b.Name != "qwen", b.Format == stream.FormatOpencode, b.Format == stream.FormatCline:
		return true, ""
	case model == "":
		return false, b.title() + " reports only tokens, and their price is not known without --model"
	}
	return false, b.title() + " reports only tokens, and the settings have no price for " + model
}

// TellsAtEnd reports whether a run of this backend tells what it cost only when it ends by itself: of one that is
// cut short nothing is known.
func (b Backend) TellsAtEnd() bool { return b.Format != stream.FormatOpencode }

// WithPrices is the backend with prices for the models that its own row has none for.
func (b Backend) WithPrices(p Prices) Backend {
	b.Prices = overlaid(p, b.Prices)
	return b
}
