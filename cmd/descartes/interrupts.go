package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"descartes/loop"
	"descartes/loop/journal"
)

// interrupts turns signals into the two ways to stop a run.
type interrupts struct {
	soft     chan struct{} // closed by the first Ctrl-C: finish the running attempt
	ch       chan os.Signal
	run      *journal.State // what this run has recorded
	underway atomic.Bool    // an attempt is running
	unit     string         // what people call one: attempt or iteration
}

// saw takes in an event.
func (i *interrupts) saw(e journal.Event) {
	if i.run == nil {
		i.run = journal.NewState()
	}
	i.run.Apply(&e)
	i.underway.Store(i.run.Underway())
}

// press is Ctrl-C as a key: a view's terminal sends no signal.
func (i *interrupts) press() {
	select {
	case i.ch <- syscall.SIGINT:
	default: // enough of them wait
	}
}

// watch catches signals until stop is called. The second Ctrl-C or SIGTERM ends the context. Losing the terminal ends
// nothing: output is lost, but the journal has it. A signal that our parent made us ignore stays ignored.
func (i *interrupts) watch(ctx context.Context, say func(string)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i.soft = make(chan struct{})
	ch := make(chan os.Signal, 4)
	i.ch = ch
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	if !signal.Ignored(syscall.SIGHUP) { // nor does it end what follows the run: the summary, and the exit code
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	// A reader that goes away must not end the run: writes fail, and that is all.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	quit, done := make(chan struct{}), make(chan struct{})
	var saying sync.WaitGroup // whoever reads it may take his time, and the next signal counts meanwhile
	tell := func(text string) { saying.Go(func() { say(text) }) }
	go func() {
		defer close(done)
		asked, hungUp := false, false
		for {
			select {
			case <-quit:
				return
			case s := <-ch:
				switch {
				case s == syscall.SIGHUP && !hungUp:
					hungUp = true
					tell("the terminal is gone: the run continues without it; descartes watch --plain follows it")
				case s == syscall.SIGHUP:
				case s == syscall.SIGINT && !asked:
					asked = true
					underway := i.underway.Load() // it ends once soft is closed
					close(i.soft)
					if underway {
						tell("interrupted: the running " + i.unit + " is finished first; Ctrl-C again interrupts it")
					} else {
						tell("interrupted: no " + i.unit + " is running, the state is saved")
					}
				case s == syscall.SIGTERM:
					tell("stopping: the agent is interrupted, the state is saved")
					cancel(loop.ErrTerminated)
				default:
					tell("stopping: the agent is interrupted, the state is saved")
					cancel(nil)
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		signal.Stop(broken)
		close(quit)
		<-done
		saying.Wait()
		cancel(nil)
	}
}

// cutShort is the error of a run that was stopped, for cause, before it began.
func cutShort(cause, err error) error {
	switch {
	case cause == nil || err == nil:
		return err
	case errors.Is(cause, loop.ErrTerminated):
		return &failure{code: exitTerminated, err: fmt.Errorf("terminated while starting, nothing was started: %w",
			err)}
	}
	return &failure{code: exitInterrupted, err: fmt.Errorf("interrupted while starting, nothing was started: %w", err)}
}
