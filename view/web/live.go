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
	maxStreams = 100              // that are served at a time: each reads its journal
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
func (s *Server) open(w http.ResponseWriter, r *http.Request) *eventStream {
	if s.streams.Add(1) > maxStreams {
		s.done()
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := &eventStream{w: w, ctx: r.Context()}
	out.write(": descartes\n\n")
	return out
}

func (s *Server) done() { s.streams.Add(-1) }

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

// wait pauses, and reports whether anybody still reads.
func (s *eventStream) wait(d time.Duration) bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-time.After(d):
	}
	return time.Since(s.last) < beatEvery || s.write(":\n\n")
}

// watch tells of changes to the journal, to what is asked of the run, and to its list, until ctx ends.
func (s *Server) watch(ctx context.Context, l *view.Loop, changed chan<- error) {
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
	for events, err := range journal.Watch(ctx, s.home.Events(l.ID)) {
		now := list()
		if l.See(events) && !first || err != nil || now != was { // at first it is what the page has
			select {
			case changed <- err:
			default: // one that it will hear of is enough
			}
		}
		was, first = now, false
	}
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

// streamLoop says whenever a loop's page has changed, and at once if it is of another event than the last: the page
// fetches its parts then.
func (s *Server) streamLoop(w http.ResponseWriter, r *http.Request) {
	l, err := s.look(r.PathValue("id"))
	if err != nil {
		s.fail(w, r, notFound(cmp.Or(terminal.Clean(err.Error()), "there is no such run")))
		return
	}
	out := s.open(w, r)
	if out == nil {
		return
	}
	defer s.done()
	shown, changed := r.FormValue("seq") == fmt.Sprint(l.Run.History.Seq), make(chan error, 1)
	ctx, stop := context.WithCancel(r.Context())
	var work sync.WaitGroup
	work.Go(func() { s.watch(ctx, l, changed) }) // which has the run from here on
	defer work.Wait()
	defer stop()
	for ; ; shown = false {
		if !shown && (!out.send("changed", "") || !out.wait(restEvery)) {
			return
		}
		for quiet := true; quiet; {
			select {
			case err := <-changed:
				if quiet = false; err != nil {
					out.send("trouble", err.Error())
					return
				}
			case <-time.After(beatEvery):
				if !out.write(":\n\n") {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}
