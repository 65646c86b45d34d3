package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"descartes/internal/terminal"
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

// open starts a stream; nil where there are too many, in which case the reader gets an error. The caller calls done.
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

// feed is a loop as its page shows it, and what has changed since somebody watches it. A page knows the number of the last change that it
// shows, so one that is read slowly or never costs nothing here.
type feed struct {
	name    string // no other has it: a page of a feed that is gone is loaded anew
	readers int    // under the lock of feeds
	left    time.Time

	mu      sync.Mutex
	marks   string        // of the files at the last look
	change  int           // counts them
	changed chan struct{} // closed with the next one
	view    *loopView
	shaped  int               // the change that no page can follow: the list itself became another
	cards   map[int]int       // the change in which each card became what it is
	parts   map[string]int    // and each other part
	html    map[string]string // what those are
	err     error
}

// linger is how long a loop is still followed when nobody watches: a page that was loaded just now is about to.
const linger = 30 * time.Second

// follow is the feed of a loop, which has seen what its files say now; the caller calls leave.
func (s *Server) follow(id string) *feed {
	s.feeds.mu.Lock()
	f := s.feeds.all[id]
	if f == nil {
		f = &feed{name: rand.Text(), changed: make(chan struct{}), cards: map[int]int{}, parts: map[string]int{}, html: map[string]string{}}
		if s.feeds.all == nil {
			s.feeds.all = map[string]*feed{}
		}
		s.feeds.all[id] = f
		go f.watch(s, id)
	}
	f.readers++
	s.feeds.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(s, id, false)
	return f
}

func (s *Server) leave(f *feed) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	f.readers--
	f.left = time.Now()
}

// over forgets a feed that nobody has watched for a while.
func (s *Server) over(id string, f *feed) bool {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if f.readers > 0 || time.Since(f.left) < linger {
		return false
	}
	delete(s.feeds.all, id)
	return true
}

// watch looks whether one of the loop's files has changed, and at a live one every two seconds in any case, as its lanes grow. A look that
// takes long is not repeated at once.
func (f *feed) watch(s *Server, id string) {
	for last, pause := time.Now(), lookEvery; ; {
		select {
		case <-s.gone:
			return
		case <-time.After(pause):
		}
		if s.over(id, f) {
			return
		}
		f.mu.Lock()
		began := time.Now()
		if f.look(s, id, f.view != nil && f.view.Live && began.Sub(last) > 2*time.Second) {
			last = began
		}
		f.mu.Unlock()
		pause = max(lookEvery, 10*time.Since(began))
	}
}

// marks are size and time of the files that a page is made of.
func (s *Server) marks(id string, v *loopView) string {
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

// look reads the loop again where its files have changed, or in any case, and notes what is different. The caller holds the lock.
func (f *feed) look(s *Server, id string, always bool) (looked bool) {
	marks := s.marks(id, f.view)
	if marks == f.marks && !always && (f.view != nil || f.err != nil) {
		return false
	}
	f.marks = marks
	v, err := s.look(id)
	if f.err = err; err != nil {
		f.tell()
		return true
	}
	was := f.view
	f.view = v
	for _, name := range parts() {
		var b bytes.Buffer
		if f.err = s.pages.ExecuteTemplate(&b, name, v); f.err != nil {
			break
		}
		if text := plain(b.String()); text != f.html[name] {
			f.html[name], f.parts[name] = text, f.change+1
		}
	}
	switch {
	case was == nil || was.shape != v.shape:
		f.shaped = f.change + 1
	default:
		for i, c := range v.Columns {
			for k, one := range c.Cards {
				if one != was.Columns[i].Cards[k] {
					f.cards[one.N] = f.change + 1
				}
			}
		}
	}
	f.tell()
	return true
}

// parts are the pieces of a loop's page that are replaced as they change, cards aside.
func parts() []string { return []string{"head", "running", "stuck", "lanes", "waves", "history"} }

func (f *feed) tell() {
	f.change++
	close(f.changed)
	f.changed = make(chan struct{})
}

// since is the patch for a page that shows everything up to a change, the change it leads to, and what announces the next one.
func (f *feed) since(s *Server, seen int) (event, patch string, change int, next <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return "", "", f.change, f.changed, f.err
	}
	if f.shaped > seen {
		return "reload", "", f.change, f.changed, nil
	}
	var b bytes.Buffer
	for _, name := range parts() {
		if f.parts[name] > seen {
			b.WriteString(f.html[name])
		}
	}
	for _, c := range f.view.Columns {
		for _, one := range c.Cards {
			if f.cards[one.N] > seen {
				if err := s.pages.ExecuteTemplate(&b, "card", patched{one, true}); err != nil {
					return "", "", f.change, f.changed, err
				}
			}
		}
	}
	return "patch", plain(b.String()), f.change, f.changed, nil
}

// showLoop is a loop's page.
func (s *Server) showLoop(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if saved, err := s.home.Find(id); err != nil || saved == nil {
		s.fail(w, r, cmp.Or(err, error(notFound("there is no loop "+terminal.Clean(id)))))
		return
	}
	f := s.follow(id)
	defer s.leave(f)
	f.mu.Lock()
	v, err := f.view, f.err
	data := loopPage{v, f.name, f.change}
	f.mu.Unlock()
	s.page(w, r, "loop.html", data, err)
}

// loopPage is a loop's page, and where the changes go on from.
type loopPage struct {
	*loopView
	Feed   string
	Change int
}

// streamLoop sends the parts of a loop's page that change.
func (s *Server) streamLoop(w http.ResponseWriter, r *http.Request) {
	id, query := r.PathValue("id"), r.URL.Query()
	if saved, err := s.home.Find(id); err != nil || saved == nil {
		s.fail(w, r, notFound("there is no such loop"))
		return
	}
	f := s.follow(id)
	defer s.leave(f)
	seen, err := strconv.Atoi(query.Get("change"))
	if err != nil || query.Get("feed") != f.name {
		seen = 0
	}
	out := s.feeds.open(w, r)
	if out == nil {
		return
	}
	defer s.feeds.done()
	for {
		event, patch, change, next, err := f.since(s, seen)
		if err != nil {
			out.send("trouble", err.Error())
			return
		}
		if (event == "reload" || patch != "") && !out.send(event, patch) || event == "reload" {
			return
		}
		for seen = change; ; {
			select {
			case <-r.Context().Done():
				return
			case <-next:
			case <-time.After(beatEvery):
				if !out.beat() {
					return
				}
				continue
			}
			break
		}
	}
}
