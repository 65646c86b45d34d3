package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestConvoy: what is to go while git is under way goes together, each once; what is refused keeps no other one back.
func TestConvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls [][]string
		under := make(chan struct{})
		c := newConvoy("there", func(_ context.Context, _ string, refspecs ...string) error {
			mu.Lock()
			calls = append(calls, slices.Sorted(slices.Values(refspecs)))
			mu.Unlock()
			<-under
			if slices.Contains(refspecs, "bad") {
				return errors.New("refused")
			}
			return nil
		})
		got := map[string]error{}
		var wg sync.WaitGroup
		move := func(spec string) {
			wg.Go(func() {
				err := c.move(t.Context(), spec)
				mu.Lock()
				defer mu.Unlock()
				got[spec] = err
			})
			synctest.Wait()
		}
		move("first")
		for _, spec := range []string{"a", "b", "bad"} {
			move(spec)
		}
		close(under)
		wg.Wait()
		for spec, err := range got {
			if (err != nil) != (spec == "bad") {
				t.Errorf("%s: %v", spec, err)
			}
		}
		if len(got) != 4 || len(calls) != 5 || !slices.Equal(calls[0], []string{"first"}) ||
			!slices.Equal(calls[1], []string{"a", "b", "bad"}) {
			t.Errorf("%d ended, calls: %v", len(got), calls)
		}
	})
}

// TestConvoyRests: after each call there is a pause of its length in which more may gather; who comes later does not
// wait.
func TestConvoyRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var calls []string
		c := newConvoy("there", func(_ context.Context, _ string, refspecs ...string) error {
			calls = append(calls, fmt.Sprint(time.Since(began), slices.Sorted(slices.Values(refspecs))))
			time.Sleep(time.Second)
			return nil
		})
		var wg sync.WaitGroup
		for _, at := range []time.Duration{0, 1100, 1500, 9000} {
			wg.Go(func() {
				time.Sleep(at * time.Millisecond)
				if err := c.move(t.Context(), at.String()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if want := []string{"0s [0s]", "2s [1.1µs 1.5µs]", "9s [9µs]"}; !slices.Equal(calls, want) {
			t.Errorf("got %q, want %q", calls, want)
		}
	})
}
