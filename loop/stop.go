package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"descartes/internal/atomicfile"
)

// Request is what another terminal can ask of a live loop.
type Request string

// The requests. A request is honoured before the next attempt; one made with now interrupts the agent.
const (
	RequestCancel Request = "cancel"
	RequestPause  Request = "pause"
)

const nowWord = "now"

// Ask leaves a request for the loop of that id. The loop takes it away when it has ended by it.
func (h Home) Ask(fsys atomicfile.FS, id string, r Request, now bool) error {
	text := string(r)
	if now {
		text += " " + nowWord
	}
	if err := os.MkdirAll(filepath.Dir(h.control(id)), 0o755); err != nil {
		return fmt.Errorf("ask loop %s: %w", id, err)
	}
	if err := atomicfile.Write(fsys, h.control(id), []byte(text+"\n"), 0o644); err != nil {
		return fmt.Errorf("ask loop %s: %w", id, err)
	}
	return nil
}

// asked reads the request left for a loop; none is "".
func (h Home) asked(id string) (r Request, now bool) {
	b, err := os.ReadFile(h.control(id))
	if err != nil {
		return "", false
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	return Request(word), rest == nowWord
}

func (h Home) clearRequest(id string) error {
	if err := os.Remove(h.control(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear request: %w", err)
	}
	return nil
}

// stopper gathers everything that can end a run between two attempts or in the middle of one.
type stopper struct {
	soft <-chan struct{}
	ask  func() (Request, bool)
}

// pollEvery is how often a running attempt looks for a request to stop at once.
const pollEvery = 300 * time.Millisecond

// watch gives a context that ends when another terminal asks to stop at once. done waits for the watcher.
func (s *stopper) watch(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if _, now := s.ask(); now {
					cancel()
				}
			}
		}
	})
	return ctx, func() { cancel(); wg.Wait() }
}

// asked tells between two attempts whether the run is to end here.
func (s *stopper) asked(ctx context.Context) *Outcome {
	select {
	case <-s.soft:
		return &Outcome{Ending: Cancelled, Message: "interrupted"}
	default:
	}
	if r, _ := s.ask(); r != "" {
		return requested(r)
	}
	if ctx.Err() != nil {
		return &Outcome{Ending: Cancelled, Message: "interrupted"}
	}
	return nil
}

// outcome is the end of a run whose agent was interrupted.
func (s *stopper) outcome(ctx context.Context) *Outcome {
	if out := s.asked(ctx); out != nil {
		return out
	}
	return &Outcome{Ending: Cancelled, Message: "interrupted"}
}

func requested(r Request) *Outcome {
	if r == RequestPause {
		return &Outcome{Ending: Paused, Message: "paused by request"}
	}
	return &Outcome{Ending: Cancelled, Message: "cancelled by request"}
}
