package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"descartes/gitops"
)

// reach talks with a remote that may be away for a while, and reports when it does not answer and when it does again. It is safe for
// concurrent use.
type reach struct {
	name string
	note func(string)

	mu    sync.Mutex
	since time.Time // when it stopped answering
}

// How long a remote that does not answer is waited for, and how long it is left alone in between.
const (
	reachFor  = time.Hour
	fetchFor  = time.Minute // by a worker that has nothing to lose: another one may reach it
	mostReach = 30 * time.Second
)

// do repeats f until the remote answers, or refuses, for so long at most.
func (r *reach) do(ctx context.Context, most time.Duration, f func() error) error {
	began := time.Now()
	for wait := time.Second; ; wait = min(2*wait, mostReach) {
		err := f()
		if r.heard(err); !gitops.Unreachable(err) {
			return err
		}
		if time.Since(began)+wait > most {
			return fmt.Errorf("%w (waited %v for the remote)", err, most)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// heard reports what changed.
func (r *reach) heard(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch missing := gitops.Unreachable(err); {
	case missing && r.since.IsZero():
		r.since = time.Now()
		r.note(fmt.Sprintf("the remote %s does not answer, waiting for it: %v", r.name, err))
	case !missing && !r.since.IsZero():
		r.note(fmt.Sprintf("the remote %s answers again, after %v", r.name, time.Since(r.since).Round(time.Second)))
		r.since = time.Time{}
	}
}
