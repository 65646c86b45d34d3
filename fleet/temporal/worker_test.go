package temporal

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"descartes/fleet"

	"errors"
)

// TestSlots: queues are polled while a slot is free, and no poll keeps one; that of an attempt which could not be made
// is left out for a while.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		const never = time.Minute
		expect := func(what string, want time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), never)
			defer cancel()
			began := time.Now()
			_, _ = s.ReserveSlot(ctx, nil)
			if got := time.Since(began); got != want {
				t.Errorf("%s: polled after %v, want %v", what, got, want)
			}
		}
		expect("one slot", 0)
		expect("polls take none", 0)
		if !s.take() || s.take() {
			t.Error("one slot is not one attempt")
		}
		expect("no slot", never)
		time.AfterFunc(3*time.Second, func() { s.give(0) })
		expect("it becomes free", 3*time.Second)
		s.take()
		s.give(stepAside)
		expect("it could not be made here", stepAside)
	})
}

// TestHandsBack: a worker begins no attempt for which it has no slot, label or room, and hands it back as one that may
// be made elsewhere.
func TestHandsBack(t *testing.T) {
	for _, c := range []struct {
		name, kind   string
		slots, tries int
		needs        []string
		least        int64
		begins       bool
	}{
		{name: "no slot", kind: handedBack},
		{name: "no label", slots: 1, needs: []string{"go", "gpu"}, kind: handedBack},
		{name: "no room", slots: 1, least: 1 << 60, kind: handedBack},
		{name: "too many tries", slots: 1, tries: mostTries, kind: refused},
		// its names do not fit together
		{name: "no order", slots: 1, needs: []string{"go"}, kind: refused, begins: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &Worker{Repos: []string{"*"}, Labels: []string{"go"}, Least: c.least, Log: io.Discard}
			w.Cache = t.TempDir()
			w.slots = newSlots(c.slots)
			var last beat
			began := false
			w.report = func(_ context.Context, _ []byte, details ...any) error {
				last, began = details[0].(beat), true
				return nil
			}
			env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			env.RegisterActivityWithOptions(w.make, activity.RegisterOptions{Name: makeActivity})
			if c.tries > 0 {
				env.SetHeartbeatDetails(beat{Tries: c.tries})
			}
			_, err := env.ExecuteActivity(makeActivity, fleet.Ask{Remote: "/x", Loop: "l.0123abcd", Task: "3", Try: 1,
				Needs: c.needs})
			app, _ := errors.AsType[*temporal.ApplicationError](err)
			if app == nil || app.Type() != c.kind || began != c.begins || c.begins && last.Tries != 1 {
				t.Errorf("got %v, begun: %v, %d tries; want %s", err, began, last.Tries, c.kind)
			}
			if back := c.kind == handedBack; app != nil && (back != (app.NextRetryDelay() > 0) ||
				app.NonRetryable() == back) {
				t.Errorf("it is not offered again soon: %v", app.NextRetryDelay())
			}
			if c.slots > 0 { // its slot is given back
				_, _ = w.slots.ReserveSlot(t.Context(), nil)
			}
		})
	}
}

// TestPulse: the attempt ends when somebody cancels it, and has no result where another worker has it; a server that
// does not answer ends nothing.
func TestPulse(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"cancelled", temporal.NewCanceledError(), context.Canceled},
		{"another has it", activity.ErrActivityReset, fleet.ErrDropped},
		{"away", context.DeadlineExceeded, nil},
		{"heard", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			reports := make(chan struct{}, 100)
			w := &Worker{report: func(context.Context, []byte, ...any) error {
				reports <- struct{}{}
				return c.err
			}}
			env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				mctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
				var now atomic.Pointer[beat]
				now.Store(&beat{})
				stop := w.pulse(ctx, &now, end)
				<-reports
				<-reports // the second begins when the first was taken in
				if got := context.Cause(mctx); !errors.Is(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				stop()
				return nil
			}, activity.RegisterOptions{Name: makeActivity})
			if _, err := env.ExecuteActivity(makeActivity); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRank: the server begins with what is urgent, and what says nothing is in the middle.
func TestRank(t *testing.T) {
	var got []int
	for _, word := range []string{"critical", "high", "medium", "", "soon", "low"} {
		got = append(got, rank(&fleet.Ask{Rank: word}))
	}
	if want := []int{1, 2, 3, 3, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
