//go:build fleet

package temporal

import (
	"net"
	"sync"
	"testing"
)

// wall stands between two programs: it lets everything through, or nothing, or refuses connections. What it held back
// comes later, as after a partition.
type wall struct {
	l  net.Listener
	to string

	mu      sync.Mutex
	open    *sync.Cond
	mode    mode
	conns   map[net.Conn]bool
	closing bool
}

type mode int

const (
	through mode = iota
	nothing      // is forwarded
	refuses
)

func newWall(t *testing.T, to string) *wall {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wall{l: l, to: to, conns: map[net.Conn]bool{}}
	w.open = sync.NewCond(&w.mu)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		w.mu.Lock()
		w.closing = true
		for c := range w.conns {
			c.Close()
		}
		w.open.Broadcast()
		w.mu.Unlock()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil || !w.enter(a, b) {
				a.Close()
				if b != nil {
					b.Close()
				}
				continue
			}
			wg.Go(func() { w.forward(a, b) })
			wg.Go(func() { w.forward(b, a) })
		}
	})
	return w
}

func (w *wall) address() string { return w.l.Addr().String() }

func (w *wall) enter(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mode == refuses || w.closing {
		return false
	}
	for _, c := range conns {
		w.conns[c] = true
	}
	return true
}

func (w *wall) forward(from, to net.Conn) {
	defer func() {
		from.Close()
		to.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, from)
	}()
	for b := make([]byte, 32<<10); ; {
		n, err := from.Read(b)
		w.mu.Lock()
		for w.mode == nothing && !w.closing {
			w.open.Wait()
		}
		w.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// set changes what it does. Refusing ends what is connected.
func (w *wall) set(m mode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mode = m; m == refuses {
		for c := range w.conns {
			c.Close()
		}
	}
	w.open.Broadcast()
}
