// Package notify sends the notices of a run to people. It follows the run's journal; a run never waits for it, and
// does not end because nobody could be reached.
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
	"descartes/loop/store"
	"descartes/view"
)

// Options say whom to notify of what.
type Options struct {
	Targets []string         // commands, URLs, desktop, bell
	On      []string         // events; none means all
	Env     []string         // variables that URLs may name
	Redact  *redact.Redactor // of what is sent; the journal of a run is masked already
	Bell    func()
	// how a command of the shell runs that is not to run as it stands: argv is nil for one that is. nil: all are
	Confine func(line string) (argv, env []string, done func(), err error)
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
	targets []target
	queues  []chan view.Notice
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
		if !slices.Contains(view.NoticeEvents(), word) {
			return nil, fmt.Errorf("notify_on: %q is not one of %s", word, strings.Join(view.NoticeEvents(), ", "))
		}
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
	if len(n.opt.On) > 0 {
		on = strings.Join(n.opt.On, ", ")
	}
	return strings.Join(names, ", ") + ", for " + on
}

const (
	tries   = 4
	waiting = 100 // notices that may wait for a target that does not answer
)

// Begin follows a run, from its last begin on. It is called once.
func (n *Notifier) Begin(root, id string) {
	if n == nil {
		return
	}
	n.once.Do(func() {
		for _, t := range n.targets {
			queue := make(chan view.Notice, waiting)
			ctx, cut := context.WithCancelCause(context.Background())
			n.queues, n.cuts = append(n.queues, queue), append(n.cuts, cut)
			n.work.Go(func() { n.deliver(ctx, t, queue) })
		}
		n.work.Go(func() { n.follow(root, id) })
	})
}

// End is for when the run is over: it returns when everything is sent, and waits for no target longer than its
// patience.
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
func (n *Notifier) follow(root, id string) {
	defer func() {
		for _, q := range n.queues {
			close(q)
		}
	}()
	first, last, quotas := true, "", map[string]bool{} // what was reported last
	view.Follow(n.over, root, func() (*store.Saved, error) { return store.NewHome(root).Find(id) },
		func(l *view.Loop, events []journal.Event, err error) {
			if err != nil {
				n.opt.Warn("notices: " + err.Error())
				return
			}
			if l.See(events); first { // earlier runs had their own
				events = events[max(0, slices.IndexFunc(events,
					func(e journal.Event) bool { return e.Seq == lastBegin(events) })):]
			}
			first = false
			for i := range events {
				e := &events[i]
				if e.Type == journal.IterationStarted || e.Begins() { // what was asked is answered
					last = ""
				}
				one := l.Notice(e)
				// that said it
				known := one.ExitCode != nil && one.Event == last && (last == "question" || last == "breaker")
				if e.Type == journal.LimitWaiting {
					what := one.Message + one.Until.String()
					known, quotas[what] = quotas[what], true // another task waits for the same
				}
				if one.Event != "" && !known {
					if last = one.Event; len(n.opt.On) == 0 || slices.Contains(n.opt.On, one.Event) {
						n.put(one)
					}
				}
			}
		})
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

// put hands a notice to every target. A target with a full queue has not answered for a long time.
func (n *Notifier) put(notice view.Notice) {
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
func (n *Notifier) deliver(ctx context.Context, t target, queue <-chan view.Notice) {
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
func (n *Notifier) send(ctx context.Context, t target, notice *view.Notice) (err error) {
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
		if _, final := errors.AsType[finalError](err); final || try == tries {
			return err
		}
		select {
		case <-time.After(n.pause(try)):
		case <-ctx.Done():
			return err
		}
	}
}
