package loop

import (
	"cmp"
	"slices"

	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// What an attempt's spec says of earlier ones.

// NextSpec returns what the journal says for the spec of a task's next attempt, or of the attempt with that number:
// the failure before it, and what earlier tasks had delivered by then. The next attempt at a blocked task is the one
// --retry-blocked makes; any other attempt after a loop's end belongs to a new loop, which knows the refs of earlier
// ones. With an empty id it is the first attempt of the tag's first loop here.
func NextSpec(home store.Home, id, tag, task string, attempt int, refs []gitops.Ref) (r SpecRequest, err error) {
	defer func() { r.tellEarlier(refs, tag, id) }()
	if id == "" {
		return SpecRequest{Task: task, Attempt: attempt}, nil
	}
	events, err := journal.ReadEvents(home.Events(id))
	if err != nil {
		return SpecRequest{Task: task, Attempt: attempt}, err
	}
	b := journal.NewState()
	for i := range events {
		e := &events[i]
		if e.Type == journal.AttemptStarted && e.Task == task && e.Attempt == attempt {
			r := request(b, task)
			r.Attempt, r.Of, r.Before = cmp.Or(e.Round, e.Attempt), e.Of, e.TS
			return r, nil
		}
		b.Apply(e)
	}
	r = request(b, task)
	switch {
	case b.Task(task).Blocked != nil:
		r.Counted = 0
	case b.Finished != nil && b.Finished.Ending.Final():
		r, id = SpecRequest{Task: task, Attempt: 1}, ""
	}
	if more := attempt - r.Attempt; more > 0 {
		r.Attempt, r.Counted, r.Failure = attempt, r.Counted+more, nil
	}
	return r, nil
}

// request returns what a task's next attempt learns from earlier ones.
func request(h *journal.State, task string) SpecRequest {
	t := h.Task(task)
	r := SpecRequest{Task: task, Attempt: t.Attempts + 1, Counted: t.Counted,
		Delivered: func(id string) string { return h.Task(id).Delivered }}
	if a := h.RunningOf(journal.Key{Task: task, Number: t.Attempts}); a != nil && a.Round == 0 && !a.Over() &&
		a.Phase != journal.PhaseOpen {
		r.Counted++
	}
	if t.Failure.Verdict != "" {
		r.Failure = failure(t.Failure)
	}
	if t.CutShort.Verdict != "" {
		r.Cut = failure(t.CutShort)
	}
	for _, c := range slices.SortedFunc(slices.Values(h.Checks),
		func(a, b *journal.Check) int { return cmp.Compare(a.Check, b.Check) }) {
		if k := c.Known; k != nil && k.Failed {
			r.Known = append(r.Known, k.Fails...)
		}
	}
	return r
}
