package view

import (
	"strings"
	"time"

	"descartes/config"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
)

// Stale says why the receipt of a done task is about something else by now.
type Stale struct {
	Changed []string       `json:"changed,omitempty"` // since it was verified: task, plan, policy
	Behind  []store.TaskID `json:"behind,omitempty"`  // stale tasks that it depends on
	Commit  string         `json:"commit"`            // that the receipt is about
}

func (s *Stale) String() string {
	var parts []string
	if len(s.Changed) > 0 {
		parts = append(parts, strings.Join(s.Changed, ", ")+" changed since")
	}
	if len(s.Behind) > 0 {
		parts = append(parts, "it depends on "+IDList(s.Behind))
	}
	return strings.Join(parts, "; ")
}

func (b *Board) isStale(id string) *Stale {
	if s, ok := b.stale[id]; ok {
		return &s
	}
	return nil
}

// MarkStale compares what the receipts of done tasks were about with the tasks, the plan and the settings of now.
// Notes are by commit; confirmed are the rechecks that held. A task without a receipt is not stale.
func (b *Board) MarkStale(notes map[string][]byte, confirmed []receipt.Confirmed) {
	last := map[string]receipt.Receipt{}
	for _, text := range notes {
		for _, r := range receipt.Held(text) {
			if old, ok := last[r.Task]; r.Tag == b.File.Tag() && (!ok || r.Finished.After(old.Finished)) {
				last[r.Task] = r
			}
		}
	}
	since, at := map[string]journal.Inputs{}, map[string]time.Time{}
	for _, c := range confirmed {
		if r, ok := last[c.Task]; ok && c.Tag == b.File.Tag() && c.Commit == r.Commit.Hash {
			since[c.Task], at[c.Task] = c.Inputs, c.At
		}
	}
	plans := map[string]*source.Job{b.Scud.PlanPath: b.job}
	b.stale, b.receipts, b.rechecked = map[string]Stale{}, last, at
	for _, w := range b.Graph.Waves() {
		for _, id := range w.Tasks {
			r, ok := last[id]
			if !ok || b.Graph.Status(id) != tasks.Done {
				continue
			}
			then := r.Inputs
			if known, ok := since[id]; ok {
				then = known
			}
			one := Stale{Changed: receipt.Changed(then, b.inputs(plans, id, r.Inputs.PlanPath)), Commit: r.Commit.Hash}
			for _, on := range b.Graph.Deps(id) {
				if _, stale := b.stale[on]; stale {
					one.Behind = append(one.Behind, b.ID(on))
				}
			}
			if len(one.Changed)+len(one.Behind) > 0 {
				b.stale[id] = one
			}
		}
	}
}

// inputs are a task's as they are now, with the plan that its receipt names: another command may name none.
func (b *Board) inputs(plans map[string]*source.Job, id, plan string) journal.Inputs {
	job, ok := plans[plan]
	if !ok {
		job, _ = source.Load(b.Root, config.Config{Scud: config.ScudConfig{Tag: b.File.Tag(), TasksFile: b.Scud.TasksFile,
			PlanPath: plan}})
		plans[plan] = job
	}
	if job == nil {
		job = b.job
	}
	return job.Inputs(id)
}
