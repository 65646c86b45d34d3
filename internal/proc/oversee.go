package proc

import (
	"context"
	"sync"
	"time"
)

// answerSlack is how long after a deadline and the grace a stopped shim is
// waited for.
const answerSlack = 5 * time.Second

// stallLooks is how many times in a row a shim is found stopped before it is
// killed: it is no shim that somebody continues at once.
const stallLooks = 3

// overseer kills a shim that does not answer long after it should have. What
// runs under a shim can stop it with SIGSTOP, as often as it is continued, and
// then no deadline acts there.
type overseer struct {
	l    *link
	over chan struct{}

	mu     sync.Mutex
	closed bool
	why    Why // it was killed for this
}

// oversee also tells the shim to end command seq when ctx ends. done ends the
// watch and says why the shim was killed, "" where it was not.
func (l *link) oversee(ctx context.Context, seq uint64, c Command) (done func() Why) {
	o := &overseer{l: l, over: make(chan struct{})}
	stops := []func() bool{time.AfterFunc(l.stall, func() { o.awaitStop(ctx) }).Stop}
	if ctx.Done() != nil {
		stops = append(stops, context.AfterFunc(ctx, func() {
			_ = l.send(cancelFrame(seq)) // a dead shim shows in the reply
			o.await(c.grace(), Cancelled)
		}))
	}
	if c.Timeout > 0 {
		stops = append(stops, time.AfterFunc(c.Timeout, func() { o.await(c.grace(), TimedOut) }).Stop)
	}
	if c.Idle > 0 {
		stops = append(stops, time.AfterFunc(c.Idle, func() { o.awaitIdle(c) }).Stop)
	}
	return func() Why {
		close(o.over)
		for _, stop := range stops {
			stop()
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.closed = true
		return o.why
	}
}

// await kills the shim when the command's end does not come. One that is at
// work gets more time: a big tree takes long to end.
func (o *overseer) await(grace time.Duration, why Why) {
	if o.sleep(grace+o.l.slack) && (stopped(o.l.proc.Pid) || o.sleep(o.l.patience-o.l.slack)) {
		o.kill(why)
	}
}

// awaitIdle looks after a shim whose command may go on for as long as it
// prints: only a stopped one does not see whether it does.
func (o *overseer) awaitIdle(c Command) {
	for o.sleep(c.grace() + o.l.slack) {
		if stopped(o.l.proc.Pid) {
			o.kill(Idled)
			return
		}
		if !o.sleep(c.Idle) {
			return
		}
	}
}

// awaitStop kills a shim that is stopped and stays so: it neither sees the end
// of its command nor lets go of what that left.
func (o *overseer) awaitStop(ctx context.Context) {
	for looks := 0; looks < stallLooks; {
		if looks++; !stopped(o.l.proc.Pid) {
			looks = 0
		}
		if !o.sleep(o.l.stall) {
			return
		}
	}
	if ctx.Err() != nil {
		o.kill(Cancelled)
	}
	o.kill(Stopped)
}

// sleep is false when the command is over.
func (o *overseer) sleep(d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-o.over:
		return false
	case <-t.C:
		return true
	}
}

func (o *overseer) kill(why Why) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.why == "" {
		o.why = why
		_ = o.l.proc.Kill()
	}
}
