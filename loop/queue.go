package loop

import (
	"maps"
	"slices"
	"strings"
	"time"

	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/scheduler"
	"descartes/specbuild"
)

// Queue chooses among the job's ready tasks for so many slots. durations are those of Durations, or nil.
func (j *Job) Queue(slots int, durations map[string]time.Duration) *scheduler.Queue {
	var prints []scheduler.Footprint
	for _, id := range j.Graph.Leaves() {
		t, _ := j.Graph.Task(id)
		text := []string{t.Title, t.Description, t.Details}
		if j.plan != nil {
			if s := j.plan.Section(*t, j.Graph.Parents(id), j.all); s.Rule != specbuild.RuleOutline {
				for _, p := range s.Parts {
					text = append(text, p.Text)
				}
			}
		}
		prints = append(prints, scheduler.Footprint{Task: id, Scope: t.Scope, Text: strings.Join(text, "\n")})
	}
	return j.Graph.Queue(scheduler.QueueOptions{Slots: slots, Barrier: j.Config.Barrier, Durations: durations,
		Forecast: scheduler.NewForecast(prints), RespectScope: j.Config.RespectScope})
}

// durations are what the tasks of a run took so far, all attempts of a task together.
func durations(h *journal.State) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, a := range h.Attempts {
		if a.Task != "" && a.Ended.After(a.Started) {
			out[a.Task] += a.Ended.Sub(a.Started)
		}
	}
	return out
}

// order is the queue of a run with slots. What tasks took in the tag's last loop counts where this one is new.
func (w *tagWork) order(slots int) (*scheduler.Queue, error) {
	took := map[string]time.Duration{}
	last, err := w.home.LastOf(w.Loop.state.Tag)
	if err != nil {
		return nil, err
	}
	if last != nil && last.State.ID != w.Loop.state.ID {
		if h, err := journal.Load(w.home.Events(last.State.ID)); err == nil { // what is wrong with it is said by the commands that show that loop
			took = durations(h)
		}
	}
	maps.Copy(took, durations(w.history))
	return w.job.Queue(slots, took), nil
}

// first is the most urgent of some ready tasks, "" where each of them has to wait. A task that waits because it is likely to meet one that
// is running is told of, once.
func (s *slots) first(ready []string) (string, error) {
	now := scheduler.Now{Running: slices.Sorted(maps.Keys(s.busy)), Free: len(s.job.Graph.Leaves())}
	id := ""
	for _, next := range s.order.Next(now) {
		if slices.Contains(ready, next) {
			id = next
			break
		}
	}
	if id == "" && len(s.busy) == 0 && len(ready) > 0 { // only others than these meet any
		id = ready[0]
	}
	for _, w := range s.order.Waiting(now) {
		if w.Reason != scheduler.WaitForecast || w.Task == id || s.waiting[w.Task] || !slices.Contains(ready, w.Task) {
			continue
		}
		s.waiting[w.Task] = true
		t, _ := s.job.Graph.Task(w.Task)
		e := &journal.Event{Type: journal.Warning, Wave: s.job.Graph.Wave(w.Task), Task: w.Task, Title: t.Title,
			Message: oneline.Text(w.String())}
		if err := s.record(e); err != nil {
			return "", err
		}
	}
	return id, nil
}
