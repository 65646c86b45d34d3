package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"descartes/gitops"
)

// Reach talks with something that may be away for a while, and reports when it does not answer and when it does again. It is safe for concurrent use.
type Reach struct {
	Name string
	Away func(error) bool // whether asking again may help
	Note func(string)

	mu    sync.Mutex
	since time.Time // when it stopped answering
}

// remote is a git remote, for all the attempts that a process has to do with.
type remote struct {
	Reach
	repo       *gitops.Repo
	name       string // or URL
	push, pull convoy
}

func newRemote(repo *gitops.Repo, name string, note func(string)) *remote {
	r := &remote{Reach: Reach{Name: "the remote " + name, Away: gitops.Unreachable, Note: note}, repo: repo, name: name}
	r.push = newConvoy(func(ctx context.Context, refspecs []string) error { return repo.Send(ctx, name, refspecs...) })
	r.pull = newConvoy(func(ctx context.Context, refspecs []string) error { return repo.Fetch(ctx, name, refspecs...) })
	return r
}

// send pushes refs, as gitops.Repo.Send has it, and waits for a remote that is away.
func (r *remote) send(ctx context.Context, refspecs ...string) error {
	return r.Do(ctx, reachFor, func() error { return r.push.move(ctx, refspecs...) })
}

// fetch brings refs here, for a worker.
func (r *remote) fetch(ctx context.Context, refspecs ...string) error {
	return r.Do(ctx, fetchFor, func() error { return r.pull.move(ctx, refspecs...) })
}

// there reports whether the remote has a ref.
func (r *remote) there(ctx context.Context, ref string) (bool, error) {
	names, err := r.repo.RemoteRefs(ctx, r.name, ref)
	return len(names) > 0, err
}

// convoy moves refs. What is to go while git is under way goes together in its next call.
type convoy struct {
	do   func(ctx context.Context, refspecs []string) error
	turn chan struct{} // full while git is under way

	mu   sync.Mutex
	next []*load
}

// load is what one caller moves.
type load struct {
	refspecs []string
	over     chan error
}

// errAlone says that a load could not go with the others, which may be their fault.
var errAlone = errors.New("one of several refs was refused")

func newConvoy(do func(context.Context, []string) error) convoy {
	return convoy{do: do, turn: make(chan struct{}, 1)}
}

func (c *convoy) move(ctx context.Context, refspecs ...string) (err error) {
	mine := &load{refspecs, make(chan error, 1)}
	c.mu.Lock()
	c.next = append(c.next, mine)
	c.mu.Unlock()
	select {
	case err = <-mine.over:
	case <-ctx.Done():
		return ctx.Err()
	case c.turn <- struct{}{}:
		c.mu.Lock()
		all := c.next
		c.next = nil
		c.mu.Unlock()
		if len(all) > 0 {
			c.lead(ctx, all)
		}
		<-c.turn
		err = <-mine.over
	}
	if errors.Is(err, errAlone) {
		err = c.do(ctx, refspecs)
	}
	return err
}

// lead moves what several callers want to.
func (c *convoy) lead(ctx context.Context, all []*load) {
	var refspecs []string
	for _, l := range all {
		refspecs = append(refspecs, l.refspecs...)
	}
	err := c.do(ctx, refspecs)
	if err != nil && len(all) > 1 && (ctx.Err() != nil || !gitops.Unreachable(err)) {
		err = errAlone
	}
	for _, l := range all {
		l.over <- err
	}
}

// How long a remote that does not answer is waited for, and how long it is left alone in between.
const (
	reachFor  = time.Hour
	fetchFor  = time.Minute // by a worker that has nothing to lose: another one may reach it
	mostReach = 30 * time.Second
)

// Do repeats f until there is an answer, or a refusal, for so long at most; 0 is for ever.
func (r *Reach) Do(ctx context.Context, most time.Duration, f func() error) error {
	began := time.Now()
	for wait := time.Second; ; wait = min(2*wait, mostReach) {
		err := f()
		if ctx.Err() != nil {
			return err
		}
		if r.Heard(err); err == nil || !r.Away(err) {
			return err
		}
		if most > 0 && time.Since(began)+wait > most {
			return fmt.Errorf("%w (waited %v)", err, most)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// Heard reports what changed.
func (r *Reach) Heard(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch missing := err != nil && r.Away(err); {
	case missing && r.since.IsZero():
		r.since = time.Now()
		r.Note(fmt.Sprintf("%s does not answer, waiting for it: %v", r.Name, err))
	case !missing && !r.since.IsZero():
		r.Note(fmt.Sprintf("%s answers again, after %v", r.Name, time.Since(r.since).Round(time.Second)))
		r.since = time.Time{}
	}
}
