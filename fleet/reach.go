package fleet

import (
	"context"
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

// remote reaches a git remote.
func remote(name string, note func(string)) *Reach {
	return &Reach{Name: "the remote " + name, Away: gitops.Unreachable, Note: note}
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
