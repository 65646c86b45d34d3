package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxStreams = 1000 // that are served at a time
	lookEvery  = 300 * time.Millisecond
	sendWithin = 20 * time.Second // a reader that takes longer has gone away
	beatEvery  = 15 * time.Second // so that nobody in between takes a quiet stream for a dead one
)

// eventStream is a connection that is kept open: Server-Sent Events.
type eventStream struct {
	w    http.ResponseWriter
	ctx  context.Context
	last time.Time // something was sent
}

// open begins a stream; nil where there are too many, which the reader is told. The caller calls done.
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

// wait pauses, and reports whether anybody still reads.
func (s *eventStream) wait(d time.Duration) bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-time.After(d):
	}
	return s.beat()
}

func (s *eventStream) beat() bool { return time.Since(s.last) < beatEvery || s.write(":\n\n") }

// feeds are the loops that somebody watches. Each is read once, however many watch.
type feeds struct {
	mu      sync.Mutex
	all     map[string]*feed
	streams int
}

// feed is what has changed on the page of a loop since somebody has watched it. A reader keeps the number of the last change that he has
// seen, so one who reads slowly or never costs nothing here.
type feed struct {
	mu      sync.Mutex
	readers int
	stop    context.CancelFunc
	change  int           // counts them
	changed chan struct{} // closed with the next one
	view    *view
	cards   map[int]int       // the change in which each card became what it is
	parts   map[string]int    // and each other part
	html    map[string]string // what those are
	err     error
}

// follow is the feed of a loop; the caller calls leave.
func (s *Server) follow(id string) *feed {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	f := s.feeds.all[id]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &feed{stop: stop, changed: make(chan struct{}), cards: map[int]int{}, parts: map[string]int{}, html: map[string]string{}}
		if s.feeds.all == nil {
			s.feeds.all = map[string]*feed{}
		}
		s.feeds.all[id] = f
		f.look(s, id)
		go f.watch(ctx, s, id)
	}
	f.readers++
	return f
}

func (s *Server) leave(id string, f *feed) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if f.readers--; f.readers == 0 {
		f.stop()
		if s.feeds.all[id] == f {
			delete(s.feeds.all, id)
		}
	}
}

// watch looks again whenever one of the loop's files has changed, and a running one every two seconds, as its lanes grow. A look that takes
// long is not repeated at once.
func (f *feed) watch(ctx context.Context, s *Server, id string) {
	was := s.marks(id, f.view)
	next := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(lookEvery, time.Until(next))):
		}
		now := s.marks(id, f.view)
		if now == was && !(f.view != nil && f.view.Live && time.Since(next) > 2*time.Second) {
			continue
		}
		began := time.Now()
		f.look(s, id)
		was, next = now, time.Now().Add(10*time.Since(began))
	}
}

// marks are size and time of the files that a page is made of.
func (s *Server) marks(id string, v *view) string {
	var b strings.Builder
	list := []string{s.home.Events(id), s.home.Named(id), s.home.Default(), s.home.Run(id)}
	if v != nil && v.file != "" {
		list = append(list, v.file)
	}
	for _, path := range list {
		fi, err := os.Stat(path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				b.WriteString(err.Error())
			}
			continue
		}
		fmt.Fprintf(&b, "%d %d;", fi.Size(), fi.ModTime().UnixNano())
	}
	return b.String()
}

// look reads the loop again and notes what is different.
func (f *feed) look(s *Server, id string) {
	v, err := s.look(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = err; err != nil {
		f.tell()
		return
	}
	first := f.view == nil
	was := f.view
	f.view = v
	f.change++
	different := false
	for _, name := range parts() {
		var b bytes.Buffer
		if err := s.pages.ExecuteTemplate(&b, name, v); err != nil {
			f.err = err
			break
		}
		if text := b.String(); text != f.html[name] {
			f.html[name], f.parts[name], different = text, f.change, true
		}
	}
	switch {
	case first:
		clear(f.parts)
	case was.shape != v.shape: // nobody can follow that
		different = true
	default:
		for i, c := range v.Columns {
			for k, one := range c.Cards {
				if one != was.Columns[i].Cards[k] {
					f.cards[one.N], different = f.change, true
				}
			}
		}
	}
	if different {
		f.tell()
	}
}

// parts are the pieces of a loop's page that are replaced as they change, cards aside.
func parts() []string { return []string{"head", "running", "stuck", "lanes", "waves", "history"} }

func (f *feed) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// begin is the change that a page shows which was made at an event of the journal; -1, so that it gets everything, where it is an older one.
func (f *feed) begin(seq string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view != nil && seq == strconv.FormatInt(f.view.seq, 10) {
		return f.change
	}
	return -1
}

// since is the page's patch for a reader who has seen everything up to a change, the change it leads to, and what announces the next one.
func (f *feed) since(s *Server, seen int, shape string) (event, patch string, change int, next <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.view == nil {
		return "", "", f.change, f.changed, f.err
	}
	if f.view.Shape() != shape { // the list itself is another
		return "reload", "", f.change, f.changed, nil
	}
	var b bytes.Buffer
	for _, name := range parts() {
		if f.parts[name] > seen || seen < 0 {
			b.WriteString(f.html[name])
		}
	}
	for _, c := range f.view.Columns {
		for _, one := range c.Cards {
			if f.cards[one.N] > seen || seen < 0 {
				if err := s.pages.ExecuteTemplate(&b, "card", patched{one, true}); err != nil {
					return "", "", f.change, f.changed, err
				}
			}
		}
	}
	return "patch", b.String(), f.change, f.changed, nil
}

// streamLoop sends the parts of a loop's page that change.
func (s *Server) streamLoop(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	saved, err := s.home.Find(id)
	if err != nil || saved == nil {
		s.fail(w, r, notFound("there is no such loop"))
		return
	}
	f := s.follow(id)
	defer s.leave(id, f)
	seen := f.begin(r.URL.Query().Get("seq"))
	out := s.feeds.open(w, r)
	if out == nil {
		return
	}
	defer s.feeds.done()
	for {
		event, patch, change, next, err := f.since(s, seen, r.URL.Query().Get("shape"))
		if err != nil {
			out.send("trouble", err.Error())
			return
		}
		if (event == "reload" || patch != "") && !out.send(event, patch) || event == "reload" {
			return
		}
		seen = change
		select {
		case <-r.Context().Done():
			return
		case <-next:
		case <-time.After(beatEvery):
			if !out.beat() {
				return
			}
		}
	}
}
