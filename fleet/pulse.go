package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// pulse reports to the server that an attempt is being made, and learns there whether it is still wanted. The SDK's own heartbeat cancels
// an activity as soon as one report has failed for two seconds; a pulse outlasts a server that is away, up to the moment when another
// worker may have the attempt.
type pulse struct {
	cancelled chan struct{} // closed when somebody has cancelled the attempt
	lost      chan struct{} // closed when another worker has it, or nobody wants it any more

	mu   sync.Mutex
	now  beat
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// reporter reports what a worker says of the attempt with a token.
type reporter func(ctx context.Context, token []byte, details ...any) error

// startPulse reports b, and what say says later, until end. ctx is an activity's.
func startPulse(ctx context.Context, b beat, report reporter) *pulse {
	p := &pulse{cancelled: make(chan struct{}), lost: make(chan struct{}), now: b}
	info := activity.GetInfo(ctx)
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.wg.Go(func() {
		p.run(ctx, info.HeartbeatTimeout, func(ctx context.Context, b beat) error { return report(ctx, info.TaskToken, b) })
	})
	return p
}

func (p *pulse) say(b beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = b
}

func (p *pulse) end() {
	p.stop()
	p.wg.Wait()
}

func (p *pulse) run(ctx context.Context, silent time.Duration, report func(context.Context, beat) error) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	cancelled, heard := false, time.Now()
	for {
		p.mu.Lock()
		b := p.now
		p.mu.Unlock()
		began := time.Now() // the server's clock starts later than this
		rctx, done := context.WithTimeout(ctx, min(silent, reportFor))
		err := report(rctx, b)
		done()
		_, gone := errors.AsType[*serviceerror.NotFound](err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil, errors.Is(err, activity.ErrActivityPaused): // what is under way goes on
			heard = began
		case temporal.IsCanceledError(err):
			if heard = began; !cancelled {
				cancelled = true
				close(p.cancelled)
			}
		case gone, errors.Is(err, activity.ErrActivityReset), time.Since(heard) >= silent:
			close(p.lost)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reportFor is how long one report may take.
const reportFor = 5 * time.Second
