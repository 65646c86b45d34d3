package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// TestConvoy: what is to go while git is under way goes together, each once; what is refused keeps no other one back.
func TestConvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls [][]string
		under := make(chan struct{})
		c := newConvoy(func(_ context.Context, refspecs []string) error {
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
		if len(got) != 4 || len(calls) != 5 || !slices.Equal(calls[0], []string{"first"}) || !slices.Equal(calls[1], []string{"a", "b", "bad"}) {
			t.Errorf("%d ended, calls: %v", len(got), calls)
		}
	})
}
