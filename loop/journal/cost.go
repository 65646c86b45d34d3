package journal

import (
	"fmt"
	"math"
	"strconv"
)

// Cost is the cost of agents' runs, as far as they reported it. Unknown costs are counted, never taken as zero: if
// Unknown is not 0, the true sum of dollars is larger.
type Cost struct {
	USD          *float64 `json:"usd"` // nil if no run reported it
	InputTokens  *int64   `json:"input_tokens"`
	OutputTokens *int64   `json:"output_tokens"`
	// some of the dollars are computed from tokens at the settings' prices
	Estimated     bool `json:"estimated,omitempty"`
	Runs          int  `json:"runs,omitempty"`                    // agent runs
	Unknown       int  `json:"unknown_attempts,omitempty"`        // runs with unknown dollars
	UnknownTokens int  `json:"unknown_tokens_attempts,omitempty"` // runs with unknown tokens
}

// Add adds one run of an agent. A run that was refused without a token cost nothing.
func (c *Cost) Add(d *Detail) {
	if d == nil || d.End == EndRefused && d.USD == nil && d.InputTokens+d.OutputTokens == 0 {
		return
	}
	one := Cost{USD: d.USD, Estimated: d.Estimated && d.USD != nil, Runs: 1}
	if d.USD == nil || d.Partial {
		one.Unknown = 1
	}
	if d.InputTokens+d.OutputTokens == 0 || d.Partial {
		one.UnknownTokens = 1
	}
	if d.InputTokens+d.OutputTokens > 0 {
		one.InputTokens, one.OutputTokens = &d.InputTokens, &d.OutputTokens
	}
	*c = c.Plus(one)
}

// dollarSum adds, rounded to a billionth, so that ten times $0.10 reach a limit of $1.00.
func dollarSum(spent *float64, more float64) float64 {
	if spent != nil {
		more += *spent
	}
	return math.Round(more*1e9) / 1e9
}

// Plus returns the sum of both.
func (c Cost) Plus(o Cost) Cost {
	if o.USD != nil {
		sum := dollarSum(c.USD, *o.USD)
		c.USD = &sum
	}
	if o.InputTokens != nil {
		in, out := *o.InputTokens, *o.OutputTokens
		if c.InputTokens != nil {
			in, out = in+*c.InputTokens, out+*c.OutputTokens
		}
		c.InputTokens, c.OutputTokens = &in, &out
	}
	c.Estimated = c.Estimated || o.Estimated
	c.Runs, c.Unknown, c.UnknownTokens = c.Runs+o.Runs, c.Unknown+o.Unknown, c.UnknownTokens+o.UnknownTokens
	return c
}

// Text is what is known, money and tokens, in words.
func (c *Cost) Text() string {
	if c == nil || c.USD == nil && c.InputTokens == nil {
		return "unknown"
	}
	s := c.Dollars()
	if c.USD == nil {
		s = "dollars unknown"
	}
	if c.InputTokens == nil {
		return s
	}
	least := ""
	if c.UnknownTokens > 0 {
		least = "at least "
	}
	return s + fmt.Sprintf(", %s%d tokens in, %d out", least, *c.InputTokens, *c.OutputTokens)
}

// Dollars is the known sum in words: "$1.20", "at least $1.20, 2 attempts unknown", "unknown".
func (c Cost) Dollars() string {
	if c.USD == nil {
		return "unknown"
	}
	s := Dollars(*c.USD)
	if c.Estimated {
		s += " (estimated)"
	}
	if c.Unknown > 0 {
		return "at least " + s + ", " + attempts(c.Unknown) + " unknown"
	}
	return s
}

// Dollars formats a sum so that a tiny one does not look like zero.
func Dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("$%.4f", max(usd, 0.0001))
	}
	return fmt.Sprintf("$%.2f", usd)
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return strconv.Itoa(n) + " attempts"
}

// spend adds an agent's run to the loop and its task.
func (s *State) spend(e *Event) {
	s.Cost.Add(e.Detail)
	t := s.record(e.Task)
	if t.Cost.Add(e.Detail); e.Detail != nil && e.Detail.USD != nil {
		t.USD = dollarSum(&t.USD, *e.Detail.USD)
	}
}
