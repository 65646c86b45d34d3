package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet/wire"
	"descartes/internal/oscall"
	"descartes/internal/proc"
	"descartes/internal/terminal"
)

// Worker makes attempts in slots of this machine.
type Worker struct {
	Program string   // descartes
	Cache   string   // folder of its repositories
	Slots   int      // attempts at a time
	Repos   []string // patterns of the URLs that it works for, as path.Match has them; a final * also matches slashes
	Confine bool     // agents run in a sandbox only
	Grants  wire.Grants
	Labels  []string // what it has that tasks may need
	Account string   // with which its agents are logged in
	Least   int64    // free bytes below which it begins no attempt
	Log     io.Writer

	slots  *slots
	report reporter
	quota  quotas
	room   func() string // why the disk has no room for an attempt, "" where it has
	said   sync.Mutex

	lacked atomic.Int64 // when an attempt last found the disk full, in nanoseconds
}

// quotas knows the accounts whose quota is used up.
type quotas interface {
	out(ctx context.Context, account, backend string) (wire.Limit, bool)
	note(ctx context.Context, l wire.Limit) error
}

// Check says what is wrong with a worker's settings, and sorts its labels.
func (w *Worker) Check() (err error) {
	if w.Labels, err = wire.Labels(w.Labels); err != nil {
		return err
	}
	if !accountName.MatchString(w.Account) {
		return fmt.Errorf("%q is no name of an account: letters, digits, - _ . and @ make one, at most 64 of them", w.Account)
	}
	return nil
}

// Serve works until ctx ends. What is under way then is given back: another worker begins it anew.
func (w *Worker) Serve(ctx context.Context, at Server) error {
	c, conv, err := at.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	w.quota, w.report = &accounts{client: c, converter: conv}, c.RecordActivityHeartbeat
	w.room = w.full
	w.slots = newSlots(w.Slots, w.room)
	host, _ := os.Hostname()
	id := identity{Name: fmt.Sprintf("%s@%d", host, os.Getpid()), Slots: w.Slots, Account: w.Account, Labels: w.Labels}
	var all []worker.Worker
	defer func() {
		var ending sync.WaitGroup
		for _, k := range all {
			ending.Go(k.Stop)
		}
		ending.Wait()
	}()
	for i, queue := range queues(w.Labels) {
		tuner, err := w.slots.tuner()
		if err != nil {
			return err
		}
		pollers := 1
		if i == 0 {
			pollers = min(w.Slots, 4)
		}
		k := worker.New(c, queue, worker.Options{Identity: id.String(), Tuner: tuner, MaxConcurrentActivityTaskPollers: pollers, WorkerStopTimeout: stopFor, DisableWorkflowWorker: true,
			MaxHeartbeatThrottleInterval: throttle, DefaultHeartbeatThrottleInterval: throttle, DisableEagerActivities: true})
		k.RegisterActivityWithOptions(w.make, activity.RegisterOptions{Name: makeActivity})
		if err := k.Start(); err != nil {
			return fmt.Errorf("start working: %w", err)
		}
		all = append(all, k)
	}
	fmt.Fprintf(w.Log, "ready: %s, account %s, repositories in %s; Ctrl-C ends it\n", terminal.Count(w.Slots, "slot"), w.Account, w.Cache)
	return w.present(ctx, c, id)
}

// present lets the server know what the worker is, until ctx ends: that is the identity of who asks for something to decide, which is free to
// change.
func (w *Worker) present(ctx context.Context, c client.Client, id identity) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	look := func() {
		full := w.room()
		switch {
		case full != "" && id.Paused == "":
			id.Paused = fullDisk
			w.tell("no attempt begins here now: %s", full)
		case full == "" && id.Paused != "":
			id.Paused = ""
			w.tell("there is room on the disk again: attempts begin here")
		}
	}
	for look(); ctx.Err() == nil; {
		k := worker.New(c, Queue, worker.Options{Identity: id.String(), LocalActivityWorkerOnly: true})
		workflows(k)
		if err := k.Start(); err != nil {
			return fmt.Errorf("start working: %w", err)
		}
		for was := id.Paused; ctx.Err() == nil && id.Paused == was; {
			select {
			case <-ctx.Done():
			case <-tick.C:
				look()
			}
		}
		k.Stop()
	}
	return nil
}

// fullDisk is why a worker makes no attempt.
const fullDisk = "its disk is full"

// full says that the disk has no room for an attempt, or had none a moment ago; "" where it has.
func (w *Worker) full() string {
	if time.Since(time.Unix(0, w.lacked.Load())) < lastPause {
		return fullDisk + ": an attempt found no space on it"
	}
	free, err := oscall.Free(w.Cache)
	if err != nil || free >= w.Least {
		return ""
	}
	return fmt.Sprintf("%s: %d MiB free at %s, and attempts need %d MiB (--min-free-disk)", fullDisk, free>>20, w.Cache, w.Least>>20)
}

// tell prints what happened.
func (w *Worker) tell(format string, args ...any) {
	w.said.Lock()
	defer w.said.Unlock()
	fmt.Fprintf(w.Log, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// stopFor is how long a worker that is asked to end waits for its agents to end.
const stopFor = 20 * time.Second

// workflows registers what decides. It needs no slot: every program of a fleet can do it.
func workflows(k worker.Worker) {
	k.RegisterWorkflowWithOptions(Attempt, workflow.RegisterOptions{Name: attemptWorkflow})
	k.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: runWorkflow})
	k.RegisterWorkflowWithOptions(Account, workflow.RegisterOptions{Name: accountWorkflow})
}

// beat is what a worker says of an attempt while it makes it.
type beat struct {
	Host  string     `json:"host"`
	Tries int        `json:"tries,omitempty"` // workers that began it, this one included
	Live  *wire.Kept `json:"live,omitempty"`
}

// begin takes a slot for an attempt. Where it cannot be made here now, the error hands it back: nobody began it.
func (w *Worker) begin(ctx context.Context, a *wire.Ask) (over func(), err error) {
	queue := activity.GetInfo(ctx).TaskQueue
	host, _ := os.Hostname()
	if !w.slots.take() {
		return nil, handBack(noSlot, "all slots of "+host+" are in use", 200*time.Millisecond) // each poll that was under way brings one at most
	}
	kind, why := "", ""
	if full := w.room(); full != "" {
		kind, why = noRoom, host+" makes no attempt, "+full
	} else if l, out := w.quota.out(ctx, w.Account, a.Backend); out {
		kind, why = noQuota, fmt.Sprintf("the quota of account %s is used up until %s", w.Account, l.Until.Local().Format(untilFormat))
	}
	if kind != "" {
		w.slots.stepAside(queue)
		w.slots.give()
		return nil, handBack(kind, why, firstPause/2)
	}
	return w.slots.give, nil
}

// untilFormat is how a time is said.
const untilFormat = "Mon 2 Jan 15:04"

// make makes one attempt, in a program of its own.
func (w *Worker) make(ctx context.Context, a wire.Ask) (kept wire.Kept, err error) {
	if !w.accepts(a.Remote) {
		return kept, temporal.NewNonRetryableApplicationError(fmt.Sprintf("no worker may work for %s: --repo names those that it works for", a.Remote), refused, nil)
	}
	info := activity.GetInfo(ctx)
	host, _ := os.Hostname()
	over, err := w.begin(ctx, &a)
	if err != nil {
		return kept, err
	}
	defer over()
	var before beat // of whoever had it before, if anybody had
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &before); err != nil {
			return kept, err
		}
	}
	if before.Tries >= mostTries {
		return kept, temporal.NewNonRetryableApplicationError(fmt.Sprintf("%d workers began it, and none brought it to an end; the last was %s", before.Tries, before.Host), refused, nil)
	}
	now := beat{Host: host, Tries: before.Tries + 1}
	activity.RecordHeartbeat(ctx, now)
	tell := func(what string) {
		w.tell("task %s, attempt %d of loop %s%s", terminal.Clean(a.Task), a.Try, terminal.Clean(wire.LoopName(a.Loop)), terminal.Clean(what))
	}
	tell("")
	defer func() {
		word := " made"
		switch {
		case err != nil:
			word = " ended without a result: " + words(err)
		case kept.Limit != nil:
			word = " met a limit: " + kept.Limit.Reason
		}
		tell(word)
	}()
	var said tail
	p, err := proc.StartCompanion([]string{w.Program, wire.Command}, os.Environ(), &said)
	if err != nil {
		return kept, err
	}
	work := wire.Work{Ask: a, Cache: w.Cache, Run: fmt.Sprintf("%s-%d-%s", info.ActivityID, info.Attempt, short(info.WorkflowExecution.RunID)), Confine: w.Confine, Grants: w.Grants}
	if err = json.NewEncoder(p.In).Encode(work); err != nil {
		_, _ = p.End(0)
		return kept, fmt.Errorf("%s has ended: %s", w.Program, said.text())
	}
	lines := wire.Lines(p.Out)
	pulse := startPulse(ctx, now, w.report)
	defer pulse.end()
	cancelled, lost, ended, stopped := pulse.cancelled, pulse.lost, ctx.Done(), activity.GetWorkerStopChannel(ctx)
	var why error
	var refusal string
	var deadline <-chan time.Time
	drop := func(err error) { // its agent is ended, and nobody hears of it: another worker begins it anew
		why, cancelled, lost, ended, deadline = err, nil, nil, nil, time.After(stopFor)
		_ = p.In.Close() // it may have ended
	}
	for open := true; open; {
		select {
		case <-cancelled: // its agent is ended, and what it left is sent all the same
			cancelled, deadline = nil, time.After(stopFor)
			activity.RecordHeartbeat(ctx, now)                        // the SDK learns of it too
			_ = json.NewEncoder(p.In).Encode(wire.Line{Cancel: true}) // it may have ended
		case <-lost:
			drop(errors.New("the server has not heard of the worker for too long, or wants the attempt no more"))
		case <-ended:
			if ended = nil; !temporal.IsCanceledError(context.Cause(ctx)) { // else the pulse hears of it too
				drop(context.Cause(ctx))
			}
		case <-stopped:
			stopped, why = nil, errors.New("the worker was stopped")
			go func() { _, _ = p.End(0) }()
		case <-deadline:
			deadline = nil
			go func() { _, _ = p.End(0) }()
		case l, ok := <-lines:
			switch {
			case !ok:
				open = false
			case l.Done != nil:
				kept = *l.Done
			case l.Live != nil:
				now.Live = l.Live
				pulse.say(now)
			case l.Lost != "":
				refusal = l.Lost
			case l.Note != "":
				tell(": " + l.Note)
			}
		}
	}
	code, err := p.Wait()
	switch {
	case why != nil:
		return wire.Kept{}, why
	case kept.Commit != "":
		w.slots.made(info.TaskQueue)
		if kept.Limit != nil { // before anybody takes the next one
			kept.Limit.Account = w.Account
			if err := w.quota.note(context.WithoutCancel(ctx), *kept.Limit); err != nil {
				w.tell("the other workers of account %s do not know that it has no quota left: %v", w.Account, err)
			}
		}
		return kept, nil
	case refusal != "":
		return kept, temporal.NewNonRetryableApplicationError(refusal, refused, nil)
	case ctx.Err() != nil:
		return kept, ctx.Err()
	case err != nil:
		return kept, err
	case code == wire.NoRoom:
		activity.RecordHeartbeat(ctx, before) // it is no try
		w.lacked.Store(time.Now().UnixNano())
		return kept, handBack(noRoom, fmt.Sprintf("the disk of %s is full: %s", host, said.text()), firstPause/2)
	}
	w.slots.stepAside(info.TaskQueue) // it would fail at the next one as fast, and take them from those who can make them
	how := said.text()
	if code < 0 {
		how = "descartes fleet-attempt was killed"
	}
	return kept, temporal.NewApplicationError(fmt.Sprintf("%s could not make the attempt: %s", host, how), notMade)
}

// words is an error without its type.
func words(err error) string {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Message()
	}
	return err.Error()
}

func short(id string) string { return id[:min(len(id), 8)] }

// accepts reports whether the worker works for a repository. A URL with a way up in its path may lead out of what a pattern allows.
func (w *Worker) accepts(url string) bool {
	if slices.Contains(strings.FieldsFunc(url, func(r rune) bool { return r == '/' || r == '\\' || r == ':' }), "..") || strings.Contains(strings.ToLower(url), "%2e") {
		return false
	}
	return slices.ContainsFunc(w.Repos, func(pattern string) bool {
		if prefix, all := strings.CutSuffix(pattern, "*"); all && strings.HasPrefix(url, prefix) {
			return true
		}
		ok, err := path.Match(pattern, url)
		return ok && err == nil
	})
}

// tail keeps the end of what a program prints.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const maxTail = 1000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-maxTail):]
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.TrimPrefix(string(t.b), "error: "))
}
