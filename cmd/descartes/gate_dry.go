package main

import (
	"descartes/loop"
	"descartes/loop/gate"
)

// gatePlan is what a criteria loop makes of its spec, before anything is run.
type gatePlan struct {
	Score         int         `json:"score"`
	Dimensions    []dimension `json:"dimensions"`
	Shape         gate.Shape  `json:"shape"`
	Workflow      string      `json:"workflow"`
	WorkflowGate  string      `json:"workflow_gate"`
	Reversibility string      `json:"reversibility"`
	Why           string      `json:"reversibility_reason"`
	Steps         []string    `json:"steps"`
	Budget        float64     `json:"budget_usd"`
	Lines         []string    `json:"-"`
}

type dimension struct {
	Name   string `json:"name"`
	Points int    `json:"points"`
	Reason string `json:"reason"`
	Ask    string `json:"clearer,omitempty"`
}

// gatePlan is nil for a loop without a criteria gate.
func (r *repetition) gatePlan() *gatePlan {
	c := r.criteria()
	if c == nil {
		return nil
	}
	clarity := gate.Score(c.Spec, c.Asked)
	out := &gatePlan{Score: clarity.Total(), Shape: c.Shape, Workflow: c.Workflow.Name(), WorkflowGate: c.Workflow.Gate(), Reversibility: c.Class.Text(),
		Why: "it was given", Steps: c.Steps, Budget: r.job.Config.MaxCostUSD, Lines: clarity.Lines()}
	if r.job.Config.Reversibility == "" {
		_, out.Why = gate.Classify(c.Spec)
	}
	for _, d := range clarity.Dimensions() {
		out.Dimensions = append(out.Dimensions, dimension{d.Name, d.Points, d.Reason, d.Ask})
	}
	return out
}

func (g *gatePlan) print(p *printer) {
	if g == nil {
		return
	}
	p.say("\nclarity: %d of 10", g.Score)
	for _, l := range g.Lines {
		p.say("  %s", clean(l))
	}
	p.say("shape: %s", g.Shape)
	p.say("workflow: %s: %s", g.Workflow, g.WorkflowGate)
	p.say("reversibility: %s, because %s", g.Reversibility, clean(g.Why))
	p.say("steps:")
	for i, s := range g.Steps {
		p.say("  %d. %s", i+1, clean(s))
	}
}

// criteria is the gate that ends the loop, where it is one by criteria.
func (r *repetition) criteria() *gate.Criteria {
	g := r.job.Gate
	if outer, ok := g.(interface{ Within() loop.Gate }); ok {
		g = outer.Within()
	}
	c, _ := g.(*gate.Criteria)
	return c
}
