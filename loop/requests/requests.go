// Package requests is what people and signals ask of a run while it is on: Ctrl-C once and twice, SIGTERM, cancel and
// pause of other terminals, and a mark in the state file.
package requests

import (
	"context"
	"errors"
	"time"

	"descartes/loop"
	"descartes/loop/store"
)

// every is how often a run looks for requests of other terminals, and at its clock.
const every = 300 * time.Millisecond

// Kind is what is asked.
type Kind string

const (
	Stop      Kind = "stop"  // what is under way is finished
	Pause     Kind = "pause" // the same, to go on later
	PauseNow  Kind = "pause now"
	StopNow   Kind = "stop now" // what is under way ends at once
	Terminate Kind = "terminate"
	Go        Kind = "go" // takes back a pause
)

// Request is one of them, with its words for people.
type Request struct {
	Kind
	Now bool // what is under way ends at once
	Why string
}

// Interrupted is why the first Ctrl-C asks.
const Interrupted = "interrupted"

// Requests are those of one run. Only the goroutine that decides uses them, but for the contexts.
type Requests struct {
	Wake <-chan struct{} // the first Ctrl-C, until it was heard
	Over <-chan struct{} // the run's context has ended, until that was heard
	Tick *time.Ticker

	Now    context.Context // over when what is under way is to end at once
	Ending context.Context // over when the run is to end at all; made anew where that is taken back

	ctx    context.Context
	soft   <-chan struct{}
	atOnce context.CancelFunc
	end    context.CancelFunc
	ask    func() (store.Request, bool)
	marked func() bool
	last   Request
}

// New listens for what is asked of a run: ctx is the run's, closing soft lets what is under way finish, ask reads what
// another terminal left, and marked says whether another program marked the run as cancelled.
func New(ctx context.Context, soft <-chan struct{}, ask func() (store.Request, bool), marked func() bool) *Requests {
	q := &Requests{ctx: ctx, soft: soft, Wake: soft, Over: ctx.Done(), Tick: time.NewTicker(every), ask: ask,
		marked: marked}
	q.Now, q.atOnce = context.WithCancel(ctx)
	q.Ending, q.end = context.WithCancel(q.Now)
	return q
}

// Close ends both contexts.
func (q *Requests) Close() {
	q.Tick.Stop()
	q.atOnce()
	q.end()
}

// Poll returns what is asked that was not asked before; ok is false if nothing is. A pause can be taken back.
func (q *Requests) Poll() (one Request, ok bool) {
	one = q.current()
	if one.Kind == "" && (q.last.Kind == Pause || q.last.Kind == PauseNow) {
		q.last = Request{}
		return Request{Kind: Go}, true
	}
	if one == q.last || one.Kind == "" {
		return one, false
	}
	q.last = one
	return one, true
}

// current is what is asked now, the strongest first.
func (q *Requests) current() Request {
	r, now := q.ask()
	soft := false
	select {
	case <-q.soft:
		soft, q.Wake = true, nil
	default:
	}
	if q.ctx.Err() != nil {
		q.Over = nil
	}
	switch {
	case errors.Is(context.Cause(q.ctx), loop.ErrTerminated):
		return Request{Terminate, true, loop.ErrTerminated.Error()}
	case q.ctx.Err() != nil:
		return Request{StopNow, true, Interrupted}
	case r == store.RequestPause && now:
		return Request{PauseNow, true, "paused by request"}
	case r != "" && r != store.RequestPause && now:
		return Request{StopNow, true, "cancelled by request"}
	case soft:
		return Request{Stop, false, Interrupted}
	case r == store.RequestPause:
		return Request{Pause, false, "paused by request"}
	case r != "":
		return Request{Stop, false, "cancelled by request"}
	case q.marked():
		return Request{Stop, false, "marked as cancelled in its state file"}
	}
	return Request{}
}

// Heard ends the contexts that a request is to end, or makes that for the run's end anew where it is taken back. The
// caller has written the request down.
func (q *Requests) Heard(one Request) {
	if q.end(); one.Kind == Go {
		q.Ending, q.end = context.WithCancel(q.Now)
	}
	if one.Now {
		q.atOnce()
	}
}

// lastCommit is how long a commit may take that starts when the run ends, or that is under way at the deadline.
const lastCommit = 30 * time.Second

var errNoTime = errors.New("the run was about to end")

// Committing is the context of a commit's hooks. A new request to stop at once ends them; an earlier one does not: an
// interrupted run still commits what it has.
func (q *Requests) Committing(deadline *time.Time) (context.Context, context.CancelFunc) {
	switch {
	case q.Now.Err() != nil || q.Ending.Err() != nil:
		return context.WithTimeoutCause(context.WithoutCancel(q.Now), lastCommit, errNoTime)
	case deadline != nil:
		return context.WithTimeoutCause(q.Now, lastCommit+max(0, time.Until(*deadline)), errNoTime)
	}
	return context.WithCancel(q.Now)
}
