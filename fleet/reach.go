package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"descartes/gitops"
)

// Reach talks with something that may be away for a while, and reports when it does not answer and when it does again.
// It is safe for concurrent use.
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

	mu    sync.Mutex
	spent []string // refs here that nobody needs any more
}

func newRemote(repo *gitops.Repo, name string, note func(string)) *remote {
	r := &remote{Reach: Reach{Name: "the remote " + name, Away: gitops.Unreachable, Note: note}, repo: repo,
		name: name}
	r.push, r.pull = newConvoy(name, repo.Send), newConvoy(name, repo.Fetch)
	return r
}

// send pushes refs, as gitops.Repo.Send has it, and waits for a remote that is away.
func (r *remote) send(ctx context.Context, refspecs ...string) error {
	return r.Do(ctx, reachFor, func() error { return r.push.move(ctx, refspecs...) })
}

// there reports whether the remote has a ref.
func (r *remote) there(ctx context.Context, ref string) (bool, error) {
	names, err := r.repo.RemoteRefs(ctx, r.name, ref)
	return len(names) > 0, err
}

// at is the commit of a ref here, which comes from another one; where one was named, it is that.
func (r *remote) at(ctx context.Context, ref, from string, named *string) error {
	at, err := r.repo.RefCommit(ref)
	if *named = cmp.Or(*named, at); err == nil && (at != *named || !r.repo.LeadsTo(ctx, at, from)) {
		err = fmt.Errorf("%s is %.12s there, and %.12s was named", ref, at, *named)
	}
	return err
}

// mostSpent is how many refs are kept that nobody needs any more.
const mostSpent = 64

// forget removes a ref here, once there are enough of them. Nobody needs it any more, and nobody misses its end.
func (r *remote) forget(ctx context.Context, ref string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent = append(r.spent, ref); len(r.spent) >= mostSpent {
		slices.Sort(r.spent)
		_ = r.repo.DeleteRefs(ctx, slices.Compact(r.spent)...)
		r.spent = nil
	}
}

// convoy moves refs. What is to go while git is under way, or within as much time as it took, goes together in its
// next call: that takes longer the more refs a repository has.
type convoy struct {
	name string // of the remote
	do   func(ctx context.Context, remote string, refspecs ...string) error
	turn chan struct{} // full while git is under way, or rests
	rest time.Time     // until when; for whoever has the turn

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

func newConvoy(name string, do func(context.Context, string, ...string) error) convoy {
	return convoy{name: name, do: do, turn: make(chan struct{}, 1)}
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
		select {
		case <-ctx.Done(): // whoever has the next turn moves it
			<-c.turn
			return ctx.Err()
		case <-time.After(time.Until(c.rest)):
		}
		c.mu.Lock()
		all := c.next
		c.next = nil
		c.mu.Unlock()
		if len(all) > 0 {
			began := time.Now()
			c.lead(ctx, all)
			c.rest = time.Now().Add(min(time.Since(began), mostRest))
		}
		<-c.turn
		err = <-mine.over
	}
	if errors.Is(err, errAlone) {
		err = c.do(ctx, c.name, refspecs...)
	}
	return err
}

// lead moves what several callers want to.
func (c *convoy) lead(ctx context.Context, all []*load) {
	var refspecs []string
	for _, l := range all {
		refspecs = append(refspecs, l.refspecs...)
	}
	err := c.do(ctx, c.name, refspecs...)
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
	mostRest  = 2 * time.Second // of a convoy
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
