package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// TestPulse: a server that is away costs an attempt nothing, until another worker may have it.
func TestPulse(t *testing.T) {
	gone, busy := serviceerror.NewNotFound("timed out"), serviceerror.NewUnavailable("away")
	const silent = 60 * time.Second
	for _, c := range []struct {
		name      string
		says      func(after time.Duration) error
		lost      time.Duration // 0: not within five minutes
		cancelled time.Duration
	}{
		{"there", func(time.Duration) error { return nil }, 0, 0},
		{"away for a while", func(d time.Duration) error {
			if d > 10*time.Second && d < 65*time.Second {
				return busy
			}
			return nil
		}, 0, 0},
		{"away", func(d time.Duration) error {
			if d > 9*time.Second {
				return busy
			}
			return nil
		}, 8*time.Second + silent, 0},
		{"never there", func(time.Duration) error { return context.DeadlineExceeded }, silent, 0},
		{"timed out", func(d time.Duration) error {
			if d >= 20*time.Second {
				return gone
			}
			return nil
		}, 20 * time.Second, 0},
		{"cancelled", func(d time.Duration) error {
			if d >= 20*time.Second {
				return temporal.NewCanceledError()
			}
			return nil
		}, 0, 20 * time.Second},
		{"paused", func(time.Duration) error { return activity.ErrActivityPaused }, 0, 0},
		{"reset", func(d time.Duration) error {
			if d >= 20*time.Second {
				return activity.ErrActivityReset
			}
			return nil
		}, 20 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pulse{cancelled: make(chan struct{}), lost: make(chan struct{})}
				began := time.Now()
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
				defer stop()
				p.wg.Go(func() {
					p.run(ctx, silent, func(context.Context, beat) error { return c.says(time.Since(began)) })
				})
				at := map[string]time.Duration{}
				for lost, cancelled := p.lost, p.cancelled; ctx.Err() == nil; {
					select {
					case <-lost:
						lost, at["lost"] = nil, time.Since(began)
					case <-cancelled:
						cancelled, at["cancelled"] = nil, time.Since(began)
					case <-ctx.Done():
					}
				}
				p.wg.Wait()
				if at["lost"].Truncate(2*time.Second) != c.lost.Truncate(2*time.Second) || at["cancelled"] != c.cancelled {
					t.Errorf("got %v, want lost after %v, cancelled after %v", at, c.lost, c.cancelled)
				}
			})
		})
	}
}

// TestPatiently: what the server answers ends the asking, and what it does not answer is asked again.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, no := 0, errors.New("no")
		err := patiently(t.Context(), func() error {
			if asked++; asked < 20 {
				return serviceerror.NewUnavailable("away")
			}
			return no
		})
		if asked != 20 || !errors.Is(err, no) {
			t.Errorf("asked %d times: %v", asked, err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := patiently(ctx, func() error { return serviceerror.NewUnavailable("away") }); !away(err) {
			t.Errorf("got %v", err)
		}
		if away(serviceerror.NewNotFound("x")) || away(serviceerror.NewPermissionDenied("x", "")) || away(no) || away(nil) {
			t.Error("an answer counts as none")
		}
	})
}
