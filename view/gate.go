package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"descartes/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/store"
)

// Gate is what is shown of a gate that is not the promise.
type Gate struct {
	Kind    string          `json:"kind"`
	Breaker *Breaker        `json:"circuit_breaker,omitempty"`
	State   json.RawMessage `json:"state,omitempty"` // what the gate knows

	criteria *gate.Criteria
}

// Breaker is the circuit breaker of a gate.
type Breaker struct {
	State      string     `json:"state"`
	NoProgress int        `json:"consecutive_no_progress"`
	SameError  int        `json:"consecutive_same_error"`
	Evidence   string     `json:"evidence,omitempty"`
	Until      *time.Time `json:"half_open_at,omitempty"`
}

// gateOf reads what a loop's gate knows; nil for the promise, and for one that knows nothing.
func gateOf(s *store.State) *Gate {
	kind := s.Config.Gate
	if kind != loop.GateStatus && kind != loop.GateCriteria {
		return nil
	}
	out := &Gate{Kind: kind, State: insideGate(s.Gate)}
	switch kind {
	case loop.GateStatus:
		var g gate.Status
		if len(out.State) > 0 && json.Unmarshal(out.State, &g) != nil {
			return out
		}
		b := g.Breaker
		out.Breaker = &Breaker{State: cmp.Or(string(b.State), string(gate.BreakerClosed)), NoProgress: b.NoProgress,
			SameError: b.SameError, Evidence: b.Evidence}
		if b.State == gate.BreakerOpen {
			cooldown := time.Duration(s.Config.CooldownSecs) * time.Second
			if cooldown == 0 {
				cooldown = gate.DefaultCooldown
			}
			until := b.OpenedAt.Add(cooldown)
			out.Breaker.Until = &until
		}
	case loop.GateCriteria:
		var g gate.Criteria
		if len(out.State) > 0 && json.Unmarshal(out.State, &g) == nil {
			out.criteria = &g
		}
	}
	return out
}

// insideGate is what the gate knows that decides, of a build that plans again the one inside.
func insideGate(state json.RawMessage) json.RawMessage {
	var outer struct {
		Inner json.RawMessage `json:"inner"`
	}
	if json.Unmarshal(state, &outer) == nil && len(outer.Inner) > 0 {
		return outer.Inner
	}
	return state
}

// Facts are it for a person.
func (g *Gate) Facts() (out facts) {
	row := func(name, format string, args ...any) { out = append(out, Fact{name, fmt.Sprintf(format, args...)}) }
	row("Gate", "%s", g.Kind)
	if b := g.Breaker; b != nil {
		text := fmt.Sprintf("%s (no progress %d in a row, same error %d in a row)", b.State, b.NoProgress, b.SameError)
		if b.Until != nil {
			text += ", half-open at " + b.Until.UTC().Format(time.RFC3339)
		}
		row("Circuit breaker", "%s", text)
		if b.Evidence != "" {
			row("Evidence", "%s", b.Evidence)
		}
	}
	c := g.criteria
	if c == nil {
		return out
	}
	row("Shape", "%s (%d/10), workflow %s, reversible: %s", c.Shape, c.Score, c.Workflow.Name(), c.Class)
	unmet := map[string]bool{}
	for _, u := range c.Unmet() {
		unmet[u] = true
	}
	for _, k := range c.Asked.Criteria {
		mark, how := "x", cmp.Or(c.Status[k.Text].Verification, "the agent's word")
		if unmet[k.Text] {
			mark = " "
		}
		row("Criterion", "[%s] %s (%s)", mark, k.Text, how)
	}
	row("Stuck", "the same criteria unmet %d in a row, the same error %d in a row", c.Count.Stuck, c.Count.SameError)
	if step := c.Step(); step != "" {
		row("Step", "%s", step)
	}
	if c.Waiting != "" {
		row("Waits at", "%s", c.Waiting)
	}
	return out
}

// GatePlan is what a criteria loop makes of its spec, before anything is run.
type GatePlan struct {
	Score         int          `json:"score"`
	Dimensions    gate.Clarity `json:"dimensions"`
	Shape         gate.Shape   `json:"shape"`
	Workflow      string       `json:"workflow"`
	WorkflowGate  string       `json:"workflow_gate"`
	Reversibility string       `json:"reversibility"`
	Steps         []string     `json:"steps"`
	Budget        float64      `json:"budget_usd"`
}

// NewGatePlan is the plan of a loop with that gate and those settings.
func NewGatePlan(c *gate.Criteria, cfg config.Config) *GatePlan {
	clarity := gate.Score(c.Spec, c.Asked)
	return &GatePlan{Score: clarity.Total(), Dimensions: clarity, Shape: c.Shape, Workflow: c.Workflow.Name(),
		WorkflowGate:  c.Workflow.Gate(),
		Reversibility: c.Class.Text(), Steps: c.Steps, Budget: cfg.MaxCostUSD}
}

// Text is the plan for a person.
func (g *GatePlan) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nclarity: %d of 10\n", g.Score)
	for _, l := range g.Dimensions.Lines() {
		fmt.Fprintf(&b, "  %s\n", terminal.Clean(l))
	}
	fmt.Fprintf(&b, "shape: %s\nworkflow: %s: %s\nreversibility: %s\nsteps:\n", g.Shape, g.Workflow, g.WorkflowGate,
		g.Reversibility)
	for i, s := range g.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, terminal.Clean(s))
	}
	return b.String()
}
