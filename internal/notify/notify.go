// Package notify notifies a person when a run needs one: it is over, a task is blocked, somebody asks, a quota is
// used up, the breaker opened. It follows the run's journal; a run never waits for it, and does not end because
// nobody could be reached.
package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"descartes/internal/redact"
	"descartes/loop/journal"
)

// Options say whom to notify of what.
type Options struct {
	Targets []string // commands, URLs, desktop, bell
	On      []string // events; none means all
	Env     []string // variables that URLs may name
	Project string
	Tag     string
	Redact  *redact.Redactor // of what is sent; the journal of a run is masked already
	Bell    func()
	Warn    func(text string) // reports once for each target that it cannot be reached
}

func (o *Options) lookup(name string) (string, bool) {
	for _, kv := range slices.Backward(o.Env) {
		if n, v, ok := strings.Cut(kv, "="); ok && n == name {
			return v, v != ""
		}
	}
	return "", false
}

// Notifier notifies people of one run's events.
type Notifier struct {
	opt     Options
	on      []Event
	targets []target
	queues  []chan Notice
	cuts    []context.CancelCauseFunc
	pause   func(try int) time.Duration // before another try

	over context.Context // ends with the run
	stop context.CancelFunc
	once sync.Once
	work sync.WaitGroup
}

// New refuses unknown targets and events. Without targets it is nil, which notifies nobody.
func New(opt Options) (*Notifier, error) {
	n := &Notifier{opt: opt, pause: func(try int) time.Duration { return time.Duration(try*try) * time.Second }}
	if n.opt.Bell == nil {
		n.opt.Bell = func() {}
	}
	if n.opt.Warn == nil {
		n.opt.Warn = func(string) {}
	}
	for _, word := range opt.On {
		if !slices.Contains(Events(), Event(word)) {
			return nil, fmt.Errorf("notify_on: %q is not one of %s", word, strings.Join(words(Events()), ", "))
		}
		n.on = append(n.on, Event(word))
	}
	for _, text := range opt.Targets {
		t, err := parse(text, &n.opt)
		if err != nil {
			return nil, err
		}
		n.targets = append(n.targets, t)
	}
	if len(n.targets) == 0 {
		return nil, nil
	}
	n.over, n.stop = context.WithCancel(context.Background())
	return n, nil
}

// String names the targets and the events. It contains no secret.
func (n *Notifier) String() string {
	var names []string
	for _, t := range n.targets {
		names = append(names, t.name)
	}
	on := "everything"
	if len(n.on) > 0 {
		on = strings.Join(words(n.on), ", ")
	}
	return strings.Join(names, ", ") + ", for " + on
}

func words(list []Event) (out []string) {
	for _, e := range list {
		out = append(out, string(e))
	}
	return out
}

const (
	tries   = 4
	waiting = 100 // notices that may wait for a target that does not answer
)

// Begin follows the journal at path from the run on that began last in it. It is called once.
func (n *Notifier) Begin(path string) {
	if n == nil {
		return
	}
	n.once.Do(func() {
		for _, t := range n.targets {
			queue := make(chan Notice, waiting)
			ctx, cut := context.WithCancelCause(context.Background())
			n.queues, n.cuts = append(n.queues, queue), append(n.cuts, cut)
			n.work.Go(func() { n.deliver(ctx, t, queue) })
		}
		n.work.Go(func() { n.follow(path) })
	})
}

// End is for when the run is over: it returns when everything is sent, and waits for no target longer than its patience.
func (n *Notifier) End() {
	if n == nil {
		return
	}
	n.once.Do(func() {}) // the run may never have started
	n.stop()
	for i, cut := range n.cuts {
		t := &n.targets[i]
		timer := time.AfterFunc(t.most, func() { cut(t.gone(" of the run's end")) })
		defer timer.Stop()
	}
	n.work.Wait()
}

// follow makes notices of what is written, until the run is over.
func (n *Notifier) follow(path string) {
	defer func() {
		for _, q := range n.queues {
			close(q)
		}
	}()
	c, first := newCaller(&n.opt), true
	for events, err := range journal.Watch(n.over, path) {
		if err != nil {
			n.opt.Warn("notices: " + err.Error())
			return
		}
		from := 0
		if first { // earlier runs had their own
			from = max(0, slices.IndexFunc(events, func(e journal.Event) bool { return e.Seq == lastBegin(events) }))
		}
		for i := range events {
			if notice, ok := c.see(&events[i]); ok && i >= from && n.wanted(notice.Event) {
				n.put(notice)
			}
		}
		first = false
	}
}

// lastBegin is the number of the event that the last run of a journal begins with.
func lastBegin(events []journal.Event) int64 {
	for _, e := range slices.Backward(events) {
		if e.Begins() {
			return e.Seq
		}
	}
	return 0
}

func (n *Notifier) wanted(e Event) bool { return len(n.on) == 0 || slices.Contains(n.on, e) }

// put hands a notice to every target. A target with a full queue has not answered for a long time.
func (n *Notifier) put(notice Notice) {
	if n.opt.Redact != nil {
		for _, text := range []*string{&notice.Heading, &notice.Message, &notice.Title} {
			*text = n.opt.Redact.Text(*text)
		}
	}
	for _, q := range n.queues {
		select {
		case q <- notice:
		default:
		}
	}
}

// deliver sends a target's notices one after the other, until the end of ctx.
func (n *Notifier) deliver(ctx context.Context, t target, queue <-chan Notice) {
	warned := false
	for notice := range queue {
		if err := n.send(ctx, t, &notice); err != nil && !warned {
			warned = true
			text := "nobody was notified by " + t.name + ": " + err.Error()
			if n.opt.Redact != nil {
				text = n.opt.Redact.Text(text)
			}
			n.opt.Warn(text)
		}
	}
}

// send tries a few times. A try that the end of ctx cut off says less than the one before it.
func (n *Notifier) send(ctx context.Context, t target, notice *Notice) (err error) {
	for try := 1; ; try++ {
		one, done := context.WithTimeoutCause(ctx, t.most, t.gone(""))
		failed := t.send(one, notice)
		if late := context.Cause(one); failed != nil && late != nil {
			failed = late
		}
		done()
		if failed == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil {
			err = failed
		}
		var final finalError
		var later laterError
		if errors.As(err, &final) || try == tries || ctx.Err() != nil {
			return err
		}
		wait := n.pause(try)
		if errors.As(err, &later) {
			wait = max(wait, later.after)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
