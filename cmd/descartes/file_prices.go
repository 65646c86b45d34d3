package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/loop"
	"descartes/loop/journal"
)

// filePrices are prices of models in descartes.yaml, in dollars per million tokens.
type filePrices map[string]filePrice

type filePrice struct {
	Input       *float64 `yaml:"input"`
	CachedInput *float64 `yaml:"cached_input"` // left out: as input
	CacheWrite  *float64 `yaml:"cache_write"`
	Output      *float64 `yaml:"output"`
}

// table checks the prices; setting names them in a message.
func (f filePrices) table(setting string) (agent.Prices, error) {
	if len(f) == 0 {
		return nil, nil
	}
	out := make(agent.Prices, len(f))
	for _, model := range slices.Sorted(maps.Keys(f)) {
		p := f[model]
		if strings.TrimSpace(model) == "" {
			return nil, fmt.Errorf("%s: a price without a model", setting)
		}
		if p.Input == nil || p.Output == nil {
			return nil, fmt.Errorf("%s.%s: input and output are needed, in dollars per million tokens", setting, model)
		}
		for _, v := range []*float64{p.Input, p.CachedInput, p.CacheWrite, p.Output} {
			if v != nil && (*v < 0 || math.IsNaN(*v) || math.IsInf(*v, 0)) {
				return nil, fmt.Errorf("%s.%s: %g is no price", setting, model, *v)
			}
		}
		out[model] = agent.Price{Input: *p.Input, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, Output: *p.Output}
	}
	return out, nil
}

// powerless says of the limits of money that they may not act, because what an agent costs will not be known. chosen
// is all that attempts may be run with.
func powerless(c loop.Config, backends []agent.Backend, chosen []loop.Choice) (told []string) {
	var limits, reasons, late []string
	if c.MaxCostUSD > 0 {
		limits = append(limits, "--max-cost "+journal.Dollars(c.MaxCostUSD))
	}
	if c.MaxCostPerTask > 0 {
		limits = append(limits, "--max-cost-per-task "+journal.Dollars(c.MaxCostPerTask))
	}
	if len(limits) == 0 {
		return nil
	}
	for _, with := range chosen {
		at := slices.IndexFunc(backends, func(b agent.Backend) bool { return b.Name == with.Backend })
		if at < 0 {
			continue
		}
		ok, why := backends[at].TellsCost(with.Model)
		if !ok && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		if ok && backends[at].TellsAtEnd() && !slices.Contains(late, with.Backend) {
			late = append(late, with.Backend)
		}
	}
	of := strings.Join(limits, " and ")
	if len(reasons) > 0 {
		told = append(told, of+" may not act: "+strings.Join(reasons, "; "))
	}
	if len(late) > 0 {
		told = append(told, of+" cannot see attempts that are cut short: "+strings.Join(late, " and ")+" tells its cost at the end of a run")
	}
	return told
}

// chosen is all that the attempts of a job may be run with.
func chosen(job *loop.Job) (out []loop.Choice) {
	for _, id := range job.Runnable() {
		t, _ := job.Graph.Task(id)
		for _, c := range job.Config.Choices(t) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}
