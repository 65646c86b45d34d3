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
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet/wire"
	"descartes/internal/proc"
)

// Worker makes attempts in slots of this machine.
type Worker struct {
	Program string   // descartes
	Cache   string   // folder of its repositories
	Slots   int      // attempts at a time
	Repos   []string // patterns of the URLs that it works for, as path.Match has them; a final * also matches slashes
	Confine bool     // agents run in a sandbox only
	Log     io.Writer
}

// Serve works until ctx ends. What is under way then is given back: another worker begins it anew.
func (w *Worker) Serve(ctx context.Context, c client.Client) error {
	k := worker.New(c, Queue, worker.Options{MaxConcurrentActivityExecutionSize: w.Slots, MaxConcurrentActivityTaskPollers: min(w.Slots, 4), WorkerStopTimeout: stopFor,
		MaxHeartbeatThrottleInterval: throttle, DefaultHeartbeatThrottleInterval: throttle, DisableEagerActivities: true})
	workflows(k)
	k.RegisterActivityWithOptions(w.make, activity.RegisterOptions{Name: makeActivity})
	if err := k.Start(); err != nil {
		return fmt.Errorf("start working: %w", err)
	}
	<-ctx.Done()
	k.Stop()
	return nil
}

// stopFor is how long a worker that is asked to end waits for its agents to end.
const stopFor = 20 * time.Second

// workflows registers what decides. It needs no slot: every program of a fleet can do it.
func workflows(k worker.Worker) {
	k.RegisterWorkflowWithOptions(Attempt, workflow.RegisterOptions{Name: attemptWorkflow})
	k.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: runWorkflow})
}

// beat is what a worker says of an attempt while it makes it.
type beat struct {
	Host string     `json:"host"`
	Live *wire.Kept `json:"live,omitempty"`
}

// make makes one attempt, in a program of its own.
func (w *Worker) make(ctx context.Context, a wire.Ask) (kept wire.Kept, err error) {
	if !w.accepts(a.Remote) {
		return kept, temporal.NewNonRetryableApplicationError(fmt.Sprintf("no worker may work for %s: --repo names those that it works for", a.Remote), refused, nil)
	}
	info := activity.GetInfo(ctx)
	host, _ := os.Hostname()
	fmt.Fprintf(w.Log, "%s task %s, attempt %d of loop %s\n", time.Now().Format(time.TimeOnly), a.Task, a.Try, a.Loop)
	defer func() {
		word := "made"
		if err != nil {
			word = "ended without a result: " + err.Error()
		}
		fmt.Fprintf(w.Log, "%s task %s, attempt %d of loop %s %s\n", time.Now().Format(time.TimeOnly), a.Task, a.Try, a.Loop, word)
	}()
	var said tail
	p, err := proc.StartCompanion([]string{w.Program, wire.Command}, os.Environ(), &said)
	if err != nil {
		return kept, err
	}
	work := wire.Work{Ask: a, Cache: w.Cache, Run: fmt.Sprintf("%s-%d-%s", info.ActivityID, info.Attempt, short(info.WorkflowExecution.RunID)), Confine: w.Confine}
	if err = json.NewEncoder(p.In).Encode(work); err != nil {
		_, _ = p.End(0)
		return kept, fmt.Errorf("%s has ended: %s", w.Program, said.text())
	}
	lines := make(chan wire.Line)
	go func() {
		defer close(lines)
		for r := wire.NewReader(p.Out); ; {
			l, err := r.Next()
			if err != nil {
				return
			}
			lines <- l
		}
	}()
	now := beat{Host: host}
	activity.RecordHeartbeat(ctx, now)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	cancelled, stopped, gone := ctx.Done(), activity.GetWorkerStopChannel(ctx), false
	var deadline <-chan time.Time
	for open := true; open; {
		select {
		case <-tick.C:
			activity.RecordHeartbeat(ctx, now)
		case <-cancelled: // its agent is ended, and what it left is sent all the same
			cancelled, deadline = nil, time.After(stopFor)
			_ = p.In.Close() // it may have ended
		case <-stopped: // another worker begins it anew
			stopped, gone = nil, true
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
				activity.RecordHeartbeat(ctx, now)
			}
		}
	}
	code, err := p.Wait()
	switch {
	case kept.Commit != "":
		return kept, nil
	case gone:
		return kept, errors.New("the worker was stopped")
	case ctx.Err() != nil:
		return kept, ctx.Err()
	case err != nil:
		return kept, err
	}
	return kept, fmt.Errorf("%s could not make the attempt (exit status %d): %s", host, code, said.text())
}

func short(id string) string { return id[:min(len(id), 8)] }

// accepts reports whether the worker works for a repository.
func (w *Worker) accepts(url string) bool {
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
