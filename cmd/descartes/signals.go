package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interrupts turns signals into the two ways to stop a run.
type interrupts struct {
	soft chan struct{} // closed by the first Ctrl-C: finish the running attempt
	last atomic.Value  // os.Signal that ends the run
}

// watch catches signals until stop is called. The context ends with the second Ctrl-C, SIGTERM or SIGHUP.
// A signal that our parent had us ignore stays ignored.
func (i *interrupts) watch(ctx context.Context, say func(string)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	i.soft = make(chan struct{})
	ch := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	// A reader that goes away must not end the run in its middle: writing then fails, and that is all.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		asked := false
		for {
			select {
			case <-quit:
				return
			case s := <-ch:
				i.last.Store(s)
				if s == syscall.SIGINT && !asked {
					asked = true
					close(i.soft)
					say("interrupted: the running attempt is finished first; Ctrl-C again interrupts it")
					continue
				}
				say("stopping: the agent is interrupted, the state is saved")
				cancel()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		signal.Stop(broken)
		close(quit)
		<-done
		cancel()
	}
}

// signal is what ended the run, or nil.
func (i *interrupts) signal() os.Signal {
	s, _ := i.last.Load().(os.Signal)
	return s
}
