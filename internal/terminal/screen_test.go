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

// A pipe gets everything, however long it takes; when its reader is not to be waited for any more, nobody is held up.
func TestPipeGetsAll(t *testing.T) {
	t.Parallel()
	until := make(chan struct{})
	w := &stalled{free: make(chan struct{})}
	s, line := &Screen{W: w, Until: until}, []byte("line\n")
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 3 {
			_, _ = s.Write(line)
		}
	}()
	close(w.free)
	<-written
	if s.Wait(); w.got.String() != "line\nline\nline\n" {
		t.Errorf("got %q", w.got.String())
	}
	s.W = &stalled{free: make(chan struct{})}
	close(until)
	_, _ = s.Write(line)
	s.Wait()
	_, _ = s.Write(line)
	s.Wait()
}
