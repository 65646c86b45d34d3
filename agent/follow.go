package agent

import (
	"io"
	"os"
	"time"

	"descartes/internal/proc"
)

const (
	// headStart is how long a program runs before it is followed. One that has
	// ended by then costs a timer that never fired.
	headStart = 100 * time.Millisecond
	// lookEvery is how often a program that prints nothing is looked after.
	lookEvery = 100 * time.Millisecond
)

// follower reads what an agent prints while it runs, and ends the run where
// that says that waiting is no use. It is the reader of the agent's hearing:
// Read waits for more until the run is over, so the same code reads the same
// output live and afterwards, and afterwards only the rest is left.
//
// Everything happens on its one goroutine.
type follower struct {
	hear  *hearing
	clock clocks
	errs  *errorWatch      // nil where nothing is looked for
	end   func(why error)  // ends the run
	over  <-chan struct{}  // closed when the run is
	tick  <-chan time.Time // of a ticker, but for tests

	file   *os.File
	begin  int64 // where this run's output begins
	at     int64 // up to where it is read
	lost   bool  // the file is not what it was: read it once more at the end
	looked time.Duration
	why    *halt // why it ended the run; nothing counts after that
	err    error
}

// follow begins to follow a run once it has lasted for a while. stop waits for
// the follower and returns it, nil where the run was too short for one.
func (r *Runner) follow(q Request, end func(why error)) (stop func() *follower) {
	began := time.Now()
	over, done := make(chan struct{}), make(chan *follower, 1)
	start := time.AfterFunc(headStart, func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		f := r.follower(q, began, end)
		f.over, f.tick = over, t.C
		f.run()
		done <- f
	})
	return func() *follower {
		if start.Stop() {
			return nil
		}
		close(over)
		return <-done
	}
}

func (r *Runner) follower(q Request, began time.Time, end func(why error)) *follower {
	return &follower{hear: newHearing(r.backend.Format, q), clock: newClocks(r.backend.Format, q.Clocks, q.Idle, began),
		errs: r.backend.errorWatch(q), end: end}
}

// run reads until the run is over, or ended.
func (f *follower) run() {
	defer f.close()
	f.err = f.hear.take(f, pieceSize)
	if f.why == nil && !f.same() {
		f.lost = true
	}
}

func (f *follower) close() {
	if f.file != nil {
		f.file.Close()
	}
	f.errs.close()
}

// Read waits for a piece of the output.
func (f *follower) Read(p []byte) (int, error) {
	for {
		if f.why != nil {
			return 0, io.EOF
		}
		over := f.isOver() // asked first: what is printed later is read too
		n, err := f.read(p)
		f.look(over, n == 0)
		switch {
		case n > 0:
			return n, nil
		case err != nil && err != io.EOF:
			return 0, err
		case over:
			return 0, io.EOF
		case f.why != nil:
			continue
		}
		select {
		case <-f.over:
		case <-f.tick:
		}
	}
}

func (f *follower) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// read reads what is there.
func (f *follower) read(p []byte) (int, error) {
	if f.lost || f.file == nil && !f.open() {
		return 0, io.EOF
	}
	n, err := f.file.Read(p)
	f.at += int64(n)
	if n == 0 && err == io.EOF {
		info, serr := f.file.Stat()
		f.lost = serr != nil || info.Size() < f.at
	}
	return n, err
}

// open is false as long as the log is not there.
func (f *follower) open() bool {
	file, size, err := openLog(f.hear.q.Log)
	if err != nil {
		return false
	}
	if f.file = file; size >= f.hear.q.Offset {
		f.begin = f.hear.q.Offset
	}
	f.at, err = file.Seek(f.begin, io.SeekStart)
	f.lost = err != nil
	return true
}

// same reports whether the log is still the file that was read, to its end.
func (f *follower) same() bool {
	if f.file == nil || f.lost {
		return false
	}
	mine, err := f.file.Stat()
	if err != nil || mine.Size() != f.at {
		return false
	}
	now, err := os.Stat(f.hear.q.Log)
	return err == nil && os.SameFile(mine, now)
}

// look asks the clocks, all of them where everything is read that was printed,
// and at most every lookEvery or so.
func (f *follower) look(over, all bool) {
	now := time.Since(f.clock.began)
	if over || now-f.looked < lookEvery/2 {
		return
	}
	f.looked = now
	s := &f.hear.story
	if all && !(s.ended && s.end.ok) { // a run that ended well met no limit
		f.why = f.errs.look()
	}
	if f.why == nil && !f.lost {
		f.why = f.clock.check(s, now, !all || f.hear.started())
	}
	if f.why != nil {
		f.end(f.why)
	}
}

// heard is what was heard of a run that ended so, and why the follower ended
// it, nil where it did not. It is nil where all has to be read afterwards.
func (f *follower) heard(exit proc.Exit) (*heard, *halt) {
	switch {
	case f == nil || f.err != nil:
		return nil, nil
	case f.why != nil && exit.Why != proc.Cancelled: // it ended by itself just then, or something else came first
		return nil, nil
	case f.lost:
		return nil, f.why
	}
	out := f.hear.heard()
	out.bytes = f.at - f.begin
	return out, f.why
}
