package gitops

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// scanner brings a worktree up to date with the file system. One scan has three steps: a parallel walk that
// reads directories and stats files but changes no entry, the parallel hashing of what differs, and the
// update. The walk enters no ignored directory.
type scanner struct {
	root   *rootDir
	guard  protection
	global []*ruleFile // info/exclude, then core.excludesFile: the first has the say
	store  *objectStore
	ends   string                   // why git would make CRLF line ends LF, "" if it would not
	attrs  func(text []byte) string // says which line of a .gitattributes only git can follow, "" if none

	strict bool // git would refuse names that only Windows takes for .git

	outMu sync.Mutex
	out   []LeftOut // what the last scan passed over

	workers []*walker
	started time.Time

	mu      sync.Mutex
	more    sync.Cond
	queue   []visit
	active  int // workers that may still add to the queue
	running int
	err     error
}

// visit is a folder to be looked into.
type visit struct {
	d      *folder
	retest bool // rules above it changed: what is not tracked is to be tested again
}

// work is a file that has to be read.
type work struct {
	d    *folder
	at   int    // in d.files, -1 for a new one
	name string // of a new one
	info fileInfo

	id     objectID
	gone   bool // it vanished meanwhile
	passed bool // it is there, and left out
	unread bool // it is left to the next scan
	stored bool // its content is new in the store
	wanted bool // its content is not in the store
}

// walker is the state of one worker of the walk.
type walker struct {
	buf   []byte
	names []dirent
	next  []visit
	seen  []bool

	works []work
	gone  []work    // known files that are not there any more
	lost  []*folder // known folders that are not there any more
	tidy  []*folder // folders with new names
}

// Below this many waiting folders a second worker costs more than it saves.
const shareAt = 24

// scan updates w. It reports an unsupportedError for what only git treats rightly.
func (s *scanner) scan(ctx context.Context, w *worktree, how reading) error {
	now, err := scanClock()
	if err != nil {
		return err
	}
	s.started = now
	if err := s.root.renew(); err != nil {
		return err
	}
	s.out = s.out[:0:0]
	retest := !w.scanned
	for _, g := range s.global {
		g.refresh()
		retest = g.news || retest
		g.news = false
	}
	if err := s.walk(visit{w.root, retest}); err != nil {
		return err
	}
	works := s.collect()
	if err := s.hashAll(ctx, works, how); err != nil {
		return err
	}
	s.apply(works)
	w.scanned = true
	return nil
}

// walk visits first and all that it leads to, on the calling goroutine and, in large trees, on more.
func (s *scanner) walk(first visit) error {
	if s.workers == nil {
		s.more.L = &s.mu
		for range max(1, min(runtime.GOMAXPROCS(0), 8)) {
			s.workers = append(s.workers, &walker{buf: make([]byte, 0, 32<<10)})
		}
	}
	for _, w := range s.workers {
		w.works, w.gone, w.lost, w.tidy = w.works[:0], w.gone[:0], w.lost[:0], w.tidy[:0]
	}
	s.queue, s.err = append(s.queue[:0], first), nil
	s.active, s.running = 1, 1
	var extra sync.WaitGroup
	s.drain(s.workers[0], &extra)
	extra.Wait()
	return s.err
}

// drain visits folders until none is left and nobody can add any.
func (s *scanner) drain(w *walker, extra *sync.WaitGroup) {
	s.mu.Lock()
	for {
		for len(s.queue) == 0 && s.active > 1 {
			s.active--
			s.more.Wait()
			s.active++
		}
		if len(s.queue) == 0 {
			break
		}
		v := s.queue[len(s.queue)-1]
		s.queue = s.queue[:len(s.queue)-1]
		if len(s.queue) > shareAt && s.running == 1 {
			for _, other := range s.workers[1:] {
				s.running++
				s.active++
				extra.Go(func() { s.drain(other, extra) })
			}
		}
		s.mu.Unlock()
		w.next = w.next[:0]
		err := s.visit(w, v)
		s.mu.Lock()
		if err != nil && s.err == nil {
			s.err = err
		}
		if s.err != nil {
			s.queue = s.queue[:0]
			continue
		}
		s.queue = append(s.queue, w.next...)
		if len(w.next) > 0 && s.running > 1 {
			s.more.Broadcast()
		}
	}
	s.active--
	s.mu.Unlock()
	s.more.Broadcast()
}
