package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// stalled is a terminal that takes nothing until it is let go.
type stalled struct {
	free chan struct{}
	got  bytes.Buffer
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.free
	return s.got.Write(p)
}

func TestScreenNeverHoldsUp(t *testing.T) {
	t.Parallel()
	w := &stalled{free: make(chan struct{})}
	s := &Screen{W: w}
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 3 * screenHolds / len(line) {
		if n, err := s.Write(line); n != len(line) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	close(w.free)
	s.Wait()
	if n := w.got.Len(); n < screenHolds-len(line) || n > 2*screenHolds || n%len(line) != 0 {
		t.Errorf("%d bytes were shown", n)
	}
}
