package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"descartes/fleet/wire"
)

// Dispatcher carries the orders of one run to the workers, and what becomes of them back.
type Dispatcher struct {
	Client    client.Client
	Converter converter.DataConverter
	Out       io.Writer
	Silent    time.Duration // after which a worker is given up; 0 for the usual one

	say *wire.Writer

	around sync.Mutex
	looked time.Time // when seen was
	seen   Status    // workers and accounts

	inFlight   atomic.Int64 // attempts that the server has
	unsearched atomic.Bool  // the server does not know the search attributes
}

// mostInFlight is how many attempts are handed to the server at a time.
const mostInFlight = 500

// Serve serves one run, until in ends.
func (d *Dispatcher) Serve(ctx context.Context, in io.Reader) error {
	d.say = wire.NewWriter(d.Out)
	lines := wire.NewReader(in)
	first, err := lines.Next()
	if err != nil || first.Hello == nil {
		return errors.New("descartes dispatch is for descartes itself: start a run with --fleet")
	}
	k := worker.New(d.Client, Queue, worker.Options{LocalActivityWorkerOnly: true})
	workflows(k)
	if err := k.Start(); err != nil {
		return fmt.Errorf("start deciding: %w", err)
	}
	defer k.Stop()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over, err := d.claim(ctx, *first.Hello, stop)
	if err != nil {
		_, taken := errors.AsType[*TakenError](err)
		return d.say.Say(wire.Line{Error: err.Error(), Taken: taken})
	}
	defer over()
	if err := d.say.Say(wire.Line{Ready: true}); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	slots := make(chan struct{}, mostInFlight)
	var mu sync.Mutex
	cancels := map[int]context.CancelFunc{}
	for {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		if cancel := cancels[l.ID]; l.Cancel && cancel != nil {
			cancel()
		}
		if l.Ask != nil {
			asked, cancel := context.WithCancel(context.Background()) // the end of this program ends no attempt
			cancels[l.ID], l.Ask.Silent = cancel, int(d.Silent.Seconds())
			wg.Go(func() {
				select {
				case slots <- struct{}{}:
					d.attempt(ctx, asked, l)
					<-slots
				case <-asked.Done():
					d.tell(l.ID, wire.Kept{}, temporal.NewCanceledError())
				case <-ctx.Done():
				}
				mu.Lock()
				defer mu.Unlock()
				cancel()
				delete(cancels, l.ID)
			})
		}
		mu.Unlock()
	}
}

// claim makes this the only run of its tag. Of a run that was killed and is resumed it takes over. Where the claim is lost, the run ends.
func (d *Dispatcher) claim(ctx context.Context, h wire.Hello, lost func()) (over func(), err error) {
	id := claimID(h.Remote, h.Tag)
	if err := d.own(ctx, id, h); err != nil {
		return nil, err
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		heard, missed := time.Now(), false
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			actx, end := context.WithTimeout(context.WithoutCancel(ctx), aliveEvery)
			err := d.Client.SignalWorkflow(actx, id, "", aliveSignal, nil)
			if _, none := errors.AsType[*serviceerror.NotFound](err); none { // the server was away for longer than a claim lasts
				err = d.own(actx, id, h)
			}
			end()
			switch {
			case err == nil && missed:
				missed = false
				_ = d.say.Say(wire.Line{Note: fmt.Sprintf("the Temporal server answers again, after %v", time.Since(heard).Round(time.Second))})
				fallthrough
			case err == nil:
				heard = time.Now()
			case !away(err):
				_ = d.say.Say(wire.Line{Error: err.Error()})
				lost()
				return
			case !missed:
				missed = true
				_ = d.say.Say(wire.Line{Note: "the Temporal server does not answer: waiting for it; attempts under way go on for a minute without it"})
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		octx, end := context.WithTimeout(context.WithoutCancel(ctx), connectFor)
		defer end()
		_ = d.Client.SignalWorkflow(octx, id, "", overSignal, nil) // else it ends by itself
	}, nil
}

// own starts the workflow that keeps others from the tag, and sees that it is this run's.
func (d *Dispatcher) own(ctx context.Context, id string, h wire.Hello) error {
	_, err := d.start(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: Queue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary: fmt.Sprintf("run of %s by %s, loop %s", h.Tag, h.Host, h.Loop)}, []temporal.SearchAttributeUpdate{byTag.ValueSet(h.Tag), byLoop.ValueSet(h.Loop)}, runWorkflow, h)
	if err != nil {
		return err
	}
	who, err := d.who(ctx, id, h.Tag)
	if err == nil && who.Loop != h.Loop {
		err = &TakenError{who}
	}
	return err
}

// TakenError says that somebody runs a tag already.
type TakenError struct{ wire.Hello }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s runs %s already (loop %s); if that run was killed, resume it there, or wait %v", e.Host, e.Tag, wire.LoopName(e.Loop), aliveFor)
}

func claimID(remote, tag string) string {
	sum := sha256.Sum256([]byte(remote + "\n" + tag))
	return "run/" + tag + "/" + hex.EncodeToString(sum[:8])
}

// who has a claim.
func (d *Dispatcher) who(ctx context.Context, id, tag string) (who wire.Hello, err error) {
	said, err := d.Client.QueryWorkflow(ctx, id, "", whoQuery)
	if err != nil {
		return who, fmt.Errorf("ask who runs %s: %w", tag, err)
	}
	return who, said.Get(&who)
}

// attempt has one attempt made. The end of asked cancels it; the end of ctx only stops looking.
func (d *Dispatcher) attempt(ctx, asked context.Context, l wire.Line) {
	var run client.WorkflowRun
	err := patiently(ctx, func() (err error) {
		run, err = d.begin(ctx, l)
		return err
	})
	if err != nil {
		d.tell(l.ID, wire.Kept{}, err)
		return
	}
	d.inFlight.Add(1)
	defer d.inFlight.Add(-1)
	over := make(chan struct{})
	var kept wire.Kept
	go func() {
		defer close(over)
		err = patiently(ctx, func() error { return run.Get(ctx, &kept) })
	}()
	d.watch(ctx, asked, l, over)
	if <-over; ctx.Err() == nil {
		d.tell(l.ID, kept, err)
	}
}

// begin starts the workflow of an attempt, or finds the one that was started before.
func (d *Dispatcher) begin(ctx context.Context, l wire.Line) (client.WorkflowRun, error) {
	id := l.Ask.ID()
	return d.start(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: Queue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, StaticSummary: summary(l.Ask),
		Priority: temporal.Priority{PriorityKey: rank(l.Ask), FairnessKey: l.Ask.Loop}, // a small run does not wait for the end of a large one
		Memo:     map[string]any{"tag": l.Ask.Tag, "task": l.Ask.Task, "wave": l.Ask.Wave, "loop": l.Ask.Loop, needsMemo: l.Ask.Needs, backendMemo: l.Ask.Backend}},
		[]temporal.SearchAttributeUpdate{byTag.ValueSet(l.Ask.Tag), byTask.ValueSet(l.Ask.Task), byWave.ValueSet(int64(l.Ask.Wave)), byLoop.ValueSet(l.Ask.Loop)}, attemptWorkflow, *l.Ask)
}

// How often an attempt is looked at while it is made. Where there are many, the server has no more than so many looks to answer.
const (
	lookEvery = 3 * time.Second
	mostLooks = 30 // a second, of all attempts
)

// watch passes on what an attempt's worker reports, and cancels the attempt where that is asked for.
func (d *Dispatcher) watch(ctx, asked context.Context, l wire.Line, over chan struct{}) {
	cancelled := asked.Done()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var seen wire.Kept
	waits := ""
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-cancelled:
			cancelled = nil
			cctx, done := context.WithTimeout(ctx, connectFor)
			err := d.Client.CancelWorkflow(cctx, l.Ask.ID(), "")
			if done(); err != nil && away(err) { // who cancels does not wait for the server
				_ = d.say.Say(wire.Line{ID: l.ID, Lost: "it was cancelled, and the Temporal server did not hear of it"})
				return
			}
		case <-tick.C:
			tick.Reset(max(lookEvery, time.Duration(d.inFlight.Load())*time.Second/mostLooks))
			b, state, ok := d.state(ctx, l.Ask.ID())
			if ok && state == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
				seen = wire.Kept{}
				if w := d.waits(ctx, l.Ask); w != nil && w.For != waits {
					waits = w.For
					_ = d.say.Say(wire.Line{ID: l.ID, Wait: w})
				}
				continue
			}
			if ok && b.Live != nil && *b.Live != seen {
				seen, waits = *b.Live, ""
				_ = d.say.Say(wire.Line{ID: l.ID, Live: b.Live}) // who reads it no more misses nothing
			}
		}
	}
}

// The memos of an attempt's workflow that say who may make it.
const (
	needsMemo   = "needs"
	backendMemo = "backend"
)

// state is how an attempt stands: whether a worker has it, and what that said last.
func (d *Dispatcher) state(ctx context.Context, id string) (b beat, state enumspb.PendingActivityState, ok bool) {
	desc, err := d.Client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return b, state, false
	}
	for _, p := range desc.GetPendingActivities() {
		b, ok = d.beatOf(p)
		return b, p.GetState(), ok || p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
	}
	return b, state, false
}

// beatOf is what a worker said last of an attempt.
func (d *Dispatcher) beatOf(p *workflowpb.PendingActivityInfo) (b beat, ok bool) {
	details := p.GetHeartbeatDetails().GetPayloads()
	return b, len(details) > 0 && d.Converter.FromPayloads(&commonpb.Payloads{Payloads: details[:1]}, &b) == nil
}

// lookAround is how long what was found out about the workers is believed.
const lookAround = 5 * time.Second

// waits says what an attempt waits for; nil where that cannot be found out.
func (d *Dispatcher) waits(ctx context.Context, a *wire.Ask) *wire.Wait {
	d.around.Lock()
	defer d.around.Unlock()
	if now := time.Now(); now.Sub(d.looked) > lookAround {
		s, err := d.look(ctx, now)
		if err != nil {
			return nil
		}
		d.seen, d.looked = s, now
	}
	return d.seen.waits(a.Needs, a.Backend)
}

// tell says what became of an attempt.
func (d *Dispatcher) tell(id int, kept wire.Kept, err error) {
	if err == nil {
		_ = d.say.Say(wire.Line{ID: id, Done: &kept})
		return
	}
	text := why(err)
	_ = d.say.Say(wire.Line{ID: id, Lost: strings.ToValidUTF8(text[:min(len(text), 1000)], "")})
}

// why says why an attempt has no result.
func why(err error) string {
	if temporal.IsCanceledError(err) {
		return "it was cancelled"
	} else if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Message()
	} else if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return "no worker made it in time"
	}
	return err.Error()
}
