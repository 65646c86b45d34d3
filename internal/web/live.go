package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

const (
	maxStreams = 1000             // that are served at a time
	sendWithin = 20 * time.Second // a reader that takes longer has gone away
	beatEvery  = 15 * time.Second // so that nobody in between takes a quiet stream for a dead one
	restEvery  = time.Second      // between two changes that a page is told of
)

// eventStream is a connection that is kept open: Server-Sent Events.
type eventStream struct {
	w    http.ResponseWriter
	ctx  context.Context
	last time.Time // something was sent
}

// open starts a stream; nil if there are too many, in which case the reader gets an error. The caller calls done.
func (f *feeds) open(w http.ResponseWriter, r *http.Request) *eventStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.streams >= maxStreams {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return nil
	}
	f.streams++
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, ctx: r.Context()}
	s.write(": descartes\n\n")
	return s
}

func (f *feeds) done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
}

// send sends one event. It reports whether anybody still reads.
func (s *eventStream) send(event, data string) bool {
	var b strings.Builder
	b.WriteString("event: " + event + "\n")
	for line := range strings.SplitSeq(data, "\n") {
		b.WriteString("data: " + strings.TrimSuffix(line, "\r") + "\n")
	}
	b.WriteString("\n")
	return s.write(b.String())
}

func (s *eventStream) write(text string) bool {
	if s.ctx.Err() != nil {
		return false
	}
	rc := http.NewResponseController(s.w)
	_ = rc.SetWriteDeadline(time.Now().Add(sendWithin)) // a writer without deadlines is one of tests
	_, err := s.w.Write([]byte(text))
	if err == nil {
		err = rc.Flush()
	}
	s.last = time.Now()
	return err == nil
}

// wait pauses, at most until something happens, and reports whether anybody still reads.
func (s *eventStream) wait(d time.Duration, happens <-chan struct{}) bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-happens:
	case <-time.After(d):
	}
	return time.Since(s.last) < beatEvery || s.write(":\n\n")
}

// feeds are the loops that somebody watches. Each is read once, however many watch.
type feeds struct {
	mu      sync.Mutex
	all     map[string]*feed
	streams int
}

// feed is a loop that somebody watches.
type feed struct {
	readers int // under the lock of feeds
	stop    context.CancelFunc

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	err     error
}

// follow is the feed of a loop; the caller calls leave.
func (s *Server) follow(l *view.Loop) *feed {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	f := s.feeds.all[l.ID]
	if f == nil {
		var ctx context.Context
		f = &feed{changed: make(chan struct{})}
		ctx, f.stop = context.WithCancel(context.Background())
		if s.feeds.all == nil {
			s.feeds.all = map[string]*feed{}
		}
		s.feeds.all[l.ID] = f
		go f.watch(ctx, l, s.home.Events(l.ID))
	}
	f.readers++
	return f
}

// leave ends a feed that nobody watches any more.
func (s *Server) leave(id string, f *feed) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if f.readers--; f.readers == 0 {
		f.stop()
		delete(s.feeds.all, id)
	}
}

// watch tells of changes to the journal, to what is asked of the loop, and to its list, until ctx ends.
func (f *feed) watch(ctx context.Context, l *view.Loop, path string) {
	list := func() string {
		if l.Board == nil {
			return ""
		}
		fi, err := os.Stat(l.Board.File.Path())
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(fi.Size(), fi.ModTime())
	}
	was, first := list(), true
	for events, err := range journal.Watch(ctx, path) {
		now := list()
		if l.See(events) && !first || err != nil || now != was { // at first it is what the page has
			f.mu.Lock()
			close(f.changed)
			f.changed, f.err = make(chan struct{}), err
			f.mu.Unlock()
		}
		was, first = now, false
	}
}

// next is closed at the next change.
func (f *feed) next() (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed, f.err
}

// showLoop is a loop's page, or its parts that change.
func (s *Server) showLoop(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l, err := s.look(r.PathValue("id"))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.page(w, r, name, newPage(l), nil)
	}
}

// streamLoop says whenever a loop's page has changed, and at once if it is of another event than the last: the page fetches its parts then.
func (s *Server) streamLoop(w http.ResponseWriter, r *http.Request) {
	l, err := s.look(r.PathValue("id"))
	if err != nil {
		s.fail(w, r, notFound(cmp.Or(terminal.Clean(err.Error()), "there is no such loop")))
		return
	}
	out := s.feeds.open(w, r)
	if out == nil {
		return
	}
	defer s.feeds.done()
	id, shown := l.ID, r.FormValue("seq") == fmt.Sprint(l.Run.History.Seq)
	f := s.follow(l) // whose goroutine has the loop from here on
	defer s.leave(id, f)
	for ; ; shown = false {
		next, err := f.next()
		if err != nil {
			out.send("trouble", err.Error())
			return
		}
		if !shown && (!out.send("changed", "") || !out.wait(restEvery, nil)) {
			return
		}
		for quiet := true; quiet; {
			select {
			case <-next:
				quiet = false
			default:
				if !out.wait(beatEvery, next) {
					return
				}
			}
		}
	}
}
