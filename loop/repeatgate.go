package loop

import (
	"encoding/json"
	"fmt"
	"strings"

	"descartes/loop/gate"
)

// The gates of a prompt loop, as Config.Gate names them. "" is the promise.
const (
	GatePromise  = "promise"
	GateStatus   = "status"
	GateCriteria = "criteria"
)

// NewGate is what ends a loop with these settings. Without a promise to look for it is nil: the first
// iteration that ends with exit status 0 is the last one. A spec that is too vague for the criteria gate is
// a *gate.VagueError.
func NewGate(c Config) (Gate, error) {
	switch c.Gate {
	case "", GatePromise:
		if strings.TrimSpace(c.CompletionPromise) == "" {
			return nil, nil
		}
		return &gate.Promise{Word: c.CompletionPromise}, nil
	case GateStatus:
		return &gate.Status{Limits: statusLimits(&c)}, nil
	case GateCriteria:
		g, err := gate.NewCriteria(criteriaOptions(&c))
		if err != nil {
			return nil, err
		}
		return g, nil
	}
	return nil, fmt.Errorf("no gate %q: there are promise, status and criteria", c.Gate)
}

// statusLimits are those of the status gate's breaker: off switches all of them off, a number is that of the iterations
// without progress.
func statusLimits(c *Config) gate.Limits {
	l := gate.Limits{Cooldown: seconds(c.CooldownSecs), NoProgress: c.Breaker}
	if c.Breaker < 0 {
		l.SameError, l.Shrink = BreakerOff, BreakerOff
	}
	return l
}

func criteriaOptions(c *Config) gate.Options {
	o := gate.Options{Spec: c.Prompt, Asked: gate.Asked{Criteria: c.Criteria, MustNot: c.MustNot}, Shape: c.Shape,
		Reversibility: gate.Reversibility(c.Reversibility), Freely: c.NoConfirm || gate.Freely(c.Prompt)}
	o.Caps.Iterations, o.Caps.BudgetUSD, o.Caps.FileEdits = c.MaxIterations, c.MaxCostUSD, c.MaxFileEdits
	if c.MaxCostUSD == 0 {
		o.Caps.BudgetUSD = -1 // whoever makes the settings has put the default there
	}
	return o
}

// deciding is the gate that decides, where another stands around it.
func deciding(g Gate) Gate {
	for {
		outer, ok := g.(interface{ Within() Gate })
		if !ok {
			return g
		}
		g = outer.Within()
	}
}

func (r *Repeat) criteria() *gate.Criteria {
	c, _ := deciding(r.job.Gate).(*gate.Criteria)
	return c
}

// restoreGate gives the gate back what it knew when the loop was left. What the loop is asked for comes from
// its settings: limits may have been given anew, and the journal has no secrets.
func (r *Repeat) restoreGate() error {
	if s, ok := deciding(r.job.Gate).(*gate.Status); ok {
		defer func(l gate.Limits) { s.Limits = l; s.Breaker.Begin(r.state.ID) }(s.Limits)
	}
	if c := r.criteria(); c != nil {
		defer func(spec string, asked gate.Asked, freely bool) { c.Spec, c.Asked, c.Freely = spec, asked, freely }(c.Spec, c.Asked, c.Freely)
		c.Asked = gate.Asked{} // what is read would be written into its lists
	}
	if known := r.history.Prompt.Gate; len(known) > 0 && r.job.Gate != nil {
		if err := json.Unmarshal(known, r.job.Gate); err != nil {
			return fmt.Errorf("give the gate back what it knew: %w", err)
		}
	}
	return nil
}

// raise gives the criteria gate limits that the settings have anew. More of what it stopped for is an answer.
func (r *Repeat) raise() {
	c, cfg := r.criteria(), &r.job.Config
	if c == nil {
		return
	}
	c.Caps.Iterations, c.Caps.BudgetUSD, c.Caps.FileEdits = cfg.MaxIterations, cfg.MaxCostUSD, cfg.MaxFileEdits
	if cfg.MaxCostUSD == 0 {
		c.Caps.BudgetUSD = -1
	}
	usd := r.history.Cost.USD
	if c.Waiting == gate.BreakIterations && r.history.Iteration < cfg.MaxIterations ||
		c.Waiting == gate.BreakBudget && (cfg.MaxCostUSD == 0 || usd != nil && *usd < cfg.MaxCostUSD) {
		c.Waiting = ""
	}
}

// raised takes over limits that a person's yes has raised.
func (r *Repeat) raised() {
	c := r.criteria()
	if c == nil {
		return
	}
	for _, cfg := range []*Config{&r.job.Config, &r.state.Config} {
		cfg.MaxIterations = max(cfg.MaxIterations, c.Caps.Iterations)
		if cfg.MaxCostUSD > 0 {
			cfg.MaxCostUSD = max(cfg.MaxCostUSD, c.Caps.BudgetUSD)
		}
	}
}
