package run

import (
	"context"
	"errors"
	"time"

	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
)

// pollEvery is how often a run looks for requests of other terminals, and at its clock.
const pollEvery = 300 * time.Millisecond

// requests are what people and signals ask of the run: Ctrl-C once (soft) and twice (the context), SIGTERM (its cause),
// cancel and pause of other terminals, and a mark in the state file.
type requests struct {
	ctx    context.Context
	soft   <-chan struct{}
	wake   <-chan struct{} // soft until it was heard
	over   <-chan struct{} // the context's end until it was heard
	tick   *time.Ticker
	now    context.Context // over when what is under way is to end at once
	atOnce context.CancelFunc
	ending context.Context // over when the run is to end at all; made anew where that is taken back
	end    context.CancelFunc
	ask    func() (store.Request, bool)
	marked func() bool
	last   request
}

// request is one of them, with its words for people.
type request struct {
	prompt.Request
	now bool // what is under way ends at once
	why string
}

func newRequests(ctx context.Context, soft <-chan struct{}, ask func() (store.Request, bool),
	marked func() bool) *requests {
	q := &requests{ctx: ctx, soft: soft, wake: soft, over: ctx.Done(), tick: time.NewTicker(pollEvery), ask: ask,
		marked: marked}
	q.now, q.atOnce = context.WithCancel(ctx)
	q.ending, q.end = context.WithCancel(q.now)
	return q
}

func (q *requests) close() {
	q.tick.Stop()
	q.atOnce()
	q.end()
}

// poll returns what is asked that was not asked before; ok is false if nothing is. A pause can be taken back.
func (q *requests) poll() (one request, ok bool) {
	one = q.current()
	if one.Request == "" && (q.last.Request == prompt.Pause || q.last.Request == prompt.PauseNow) {
		q.last = request{}
		return request{Request: prompt.Go}, true
	}
	if one == q.last || one.Request == "" {
		return one, false
	}
	q.last = one
	return one, true
}

// current is what is asked now, the strongest first.
func (q *requests) current() request {
	r, now := q.ask()
	soft := false
	select {
	case <-q.soft:
		soft, q.wake = true, nil
	default:
	}
	if q.ctx.Err() != nil {
		q.over = nil
	}
	switch {
	case errors.Is(context.Cause(q.ctx), loop.ErrTerminated):
		return request{prompt.Terminate, true, loop.ErrTerminated.Error()}
	case q.ctx.Err() != nil:
		return request{prompt.StopNow, true, "interrupted"}
	case r == store.RequestPause && now:
		return request{prompt.PauseNow, true, "paused by request"}
	case r != "" && r != store.RequestPause && now:
		return request{prompt.StopNow, true, "cancelled by request"}
	case soft:
		return request{prompt.Stop, false, "interrupted"}
	case r == store.RequestPause:
		return request{prompt.Pause, false, "paused by request"}
	case r != "":
		return request{prompt.Stop, false, "cancelled by request"}
	case q.marked():
		return request{prompt.Stop, false, "marked as cancelled in its state file"}
	}
	return request{}
}

// hears takes in what is asked. What is under way hears of it where it is to end at once.
func (r *Run) hears() error {
	q, ok := r.asks.poll()
	if !ok {
		return nil
	}
	if q.why != "" && r.ends.request == "" || q.now {
		r.ends.request = q.why
	}
	if r.asks.end(); q.Request == prompt.Go {
		r.ends.request = ""
		r.asks.ending, r.asks.end = context.WithCancel(r.asks.now)
	}
	var lines []*journal.Event
	if q.Request == prompt.Stop && q.why == "interrupted" && r.book.history.Underway() {
		lines = append(lines, &journal.Event{Type: journal.LoopStopping})
	}
	err := r.happened(prompt.Asked{Request: q.Request}, lines...)
	if q.now {
		r.asks.atOnce()
	}
	return err
}

// lastCommit is how long a commit may take that starts when the run ends, or that is under way at the deadline.
const lastCommit = 30 * time.Second

var errNoTime = errors.New("the run was about to end")

// committing is the context of a commit's hooks. A new request to stop at once ends them; an earlier one does not: an
// interrupted run still commits what it has.
func (q *requests) committing(deadline *time.Time) (context.Context, context.CancelFunc) {
	switch {
	case q.now.Err() != nil || q.ending.Err() != nil:
		return context.WithTimeoutCause(context.WithoutCancel(q.now), lastCommit, errNoTime)
	case deadline != nil:
		return context.WithTimeoutCause(q.now, lastCommit+max(0, time.Until(*deadline)), errNoTime)
	}
	return context.WithCancel(q.now)
}
