package agent

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"descartes/agent/process"
	"descartes/agent/quota"
	"descartes/agent/stream"
)

const (
	// headStart is how long a program runs before it is followed. One that has
	// ended by then costs a timer that never fired.
	headStart = 100 * time.Millisecond
	// lookEvery is how often a program that prints nothing is looked after.
	lookEvery = 100 * time.Millisecond
)

// watchdog reads what an agent prints while it runs, and ends the run where
// that says that waiting is no use. It is the reader of the agent's transcript:
// Read waits for more until the run is over, so the same code reads the same
// output live and afterwards, and afterwards only the rest is left.
//
// Everything happens on its one goroutine. The timeouts of the whole run and of
// silence need no look at the output: internal/proc's server keeps them.
type watchdog struct {
	transcript *transcript
	clock      clocks
	errs       *errorWatch      // nil where nothing is looked for
	end        func(why error)  // ends the run
	over       <-chan struct{}  // closed when the run is
	tick       <-chan time.Time // of a ticker, but for tests

	file   *os.File
	begin  int64 // where this run's output begins
	at     int64 // up to where it is read
	lost   bool  // the file is not what it was: read it once more at the end
	looked time.Duration
	why    *cutoff // why it ended the run; nothing counts after that
	err    error
}

// follow begins to follow a run once it has lasted for a while. stop waits for
// the watchdog and returns it, nil where the run was too short for one.
func (r *Runner) follow(q Request, end func(why error)) (stop func() *watchdog) {
	began := time.Now()
	over, done := make(chan struct{}), make(chan *watchdog, 1)
	start := time.AfterFunc(headStart, func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		f := r.watchdog(q, began, end)
		f.over, f.tick = over, t.C
		f.run()
		done <- f
	})
	return func() *watchdog {
		if start.Stop() {
			return nil
		}
		close(over)
		return <-done
	}
}

func (r *Runner) watchdog(q Request, began time.Time, end func(why error)) *watchdog {
	return &watchdog{transcript: newTranscript(r.backend.Format, q), clock: newClocks(r.backend.Format, q.Clocks, q.Idle, began),
		errs: r.backend.errorWatch(q), end: end}
}

// run reads until the run is over, or ended.
func (f *watchdog) run() {
	defer f.close()
	f.err = f.transcript.take(f, pieceSize)
	if f.why == nil && !f.same() {
		f.lost = true
	}
}

func (f *watchdog) close() {
	if f.file != nil {
		f.file.Close()
	}
	f.errs.close()
}

// Read waits for a piece of the output.
func (f *watchdog) Read(p []byte) (int, error) {
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

func (f *watchdog) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// read reads what is there.
func (f *watchdog) read(p []byte) (int, error) {
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
func (f *watchdog) open() bool {
	file, size, err := openLog(f.transcript.q.Log)
	if err != nil {
		return false
	}
	if f.file = file; size >= f.transcript.q.Offset {
		f.begin = f.transcript.q.Offset
	}
	f.at, err = file.Seek(f.begin, io.SeekStart)
	f.lost = err != nil
	return true
}

// same reports whether the log is still the file that was read, to its end.
func (f *watchdog) same() bool {
	if f.file == nil || f.lost {
		return false
	}
	mine, err := f.file.Stat()
	if err != nil || mine.Size() != f.at {
		return false
	}
	now, err := os.Stat(f.transcript.q.Log)
	return err == nil && os.SameFile(mine, now)
}

// look asks the clocks, all of them where everything is read that was printed,
// and at most every lookEvery or so.
func (f *watchdog) look(over, all bool) {
	now := time.Since(f.clock.began)
	if over || now-f.looked < lookEvery/2 {
		return
	}
	f.looked = now
	s := &f.transcript.progress
	if all && !(s.ended && s.end.OK) { // a run that ended well met no limit
		f.why = f.errs.look()
	}
	if f.why == nil && !f.lost {
		f.why = f.clock.check(s, now, !all || f.transcript.started())
	}
	if f.why != nil {
		f.end(f.why)
	}
}

// said is what was heard of a run that ended so, and why the watchdog ended
// it, nil where it did not. It is nil where all has to be read afterwards.
func (f *watchdog) said(exit process.Exit) (*said, *cutoff) {
	switch {
	case f == nil || f.err != nil:
		return nil, nil
	case f.why != nil && exit.Why != process.Cancelled: // it ended by itself just then, or something else came first
		return nil, nil
	case f.lost:
		return nil, f.why
	}
	out := f.transcript.said()
	out.bytes = f.at - f.begin
	return out, f.why
}

// Clocks are the limits on a run that only a client's events can show. Zero
// switches one off. Plain text knows none of them.
type Clocks struct {
	Start time.Duration // from the start to the first event, or line of text
	Exit  time.Duration // from the event that is the end to the exit
	Spin  int           // steps in a row without a word, a tool call or tokens
}

// What to ask for where nobody says otherwise. Less than ten minutes of
// silence would end honest runs: a long test suite is one tool call.
const (
	DefaultStart = 2 * time.Minute
	DefaultIdle  = 15 * time.Minute
	DefaultExit  = 10 * time.Second
	DefaultSpin  = 20
)

// overflowLimit is how often a client may run into its model's context window
// without a tool call in between. Text is not enough: it is the summary that
// the client makes each time.
const overflowLimit = 5

// refusedLimit is how often a client may try a key that is refused. Some do it ten times, for three minutes.
const refusedLimit = 3

// cutoff is why the watchdog ended a run.
type cutoff struct {
	clock cutoffKind
	words string // of the client, about that
}

type cutoffKind string

const (
	cutoffStart    cutoffKind = "start"
	cutoffExit     cutoffKind = "exit"
	cutoffSpin     cutoffKind = "spin"
	cutoffOverflow cutoffKind = "overflow"
	cutoffErrors   cutoffKind = "stderr" // what was told there, not a time
	cutoffRefused  cutoffKind = "refused"
	cutoffRetries  cutoffKind = "retries"
)

func (h *cutoff) Error() string { return "ended: " + string(h.clock) }

// clocks watch one run. All times are durations since its start, of which no
// setting of the machine's clock changes anything.
type clocks struct {
	began  time.Time
	limits Clocks
	idle   time.Duration // without anything but a client's word that it tries again
	ends   int64         // end events seen
	ended  time.Duration
	steps  int64 // events seen that were more than such a word
	moved  time.Duration
}

// newClocks are all off for plain text.
func newClocks(format string, limits Clocks, idle time.Duration, began time.Time) clocks {
	if !stream.HasEvents(format) {
		limits, idle = Clocks{}, 0
	}
	return clocks{began: began, limits: limits, idle: idle}
}

// check says whether it is time to end the run. started tells that something
// came from it, or that what came is not looked at yet.
func (c *clocks) check(s *progress, now time.Duration, started bool) *cutoff {
	if s.ends != c.ends {
		c.ends, c.ended = s.ends, now
	}
	if s.moved != c.steps {
		c.steps, c.moved = s.moved, now
	}
	l := c.limits
	switch {
	case c.idle > 0 && s.retrying != "" && now-c.moved >= c.idle: // its output alone would keep it alive for ever
		return &cutoff{clock: cutoffRetries, words: s.retrying}
	case !started && l.Start > 0 && now >= l.Start:
		return &cutoff{clock: cutoffStart}
	case l.Spin > 0 && s.overflows >= overflowLimit:
		return &cutoff{clock: cutoffOverflow, words: s.trouble.Text}
	case s.refused >= refusedLimit:
		return &cutoff{clock: cutoffRefused, words: fmt.Sprintf("%s, status %d", or(s.refusal, "its key is refused"), s.retryStatus)}
	case l.Spin > 0 && s.steps >= l.Spin:
		return &cutoff{clock: cutoffSpin}
	case l.Exit > 0 && s.ended && !s.more && !s.end.Maybe && now-c.ended >= l.Exit:
		return &cutoff{clock: cutoffExit}
	}
	return nil
}

// cutOff judges a run that the watchdog ended.
func (r *Runner) cutOff(res *Result, h *said, q Request, exit process.Exit, why *cutoff) {
	who := r.backend.title()
	switch why.clock {
	case cutoffStart:
		res.End, res.Cause = Idled, Transient
		res.Reason = fmt.Sprintf("nothing came from %s in its first %v", who, q.Clocks.Start)
		if waits := r.waitsFor(q, exit.End); waits != "" {
			res.Reason += waits
		} else if line := lastLine(q.lastErrors()); line != "" {
			res.Reason += "; its last line on standard error: " + line
		}
	case cutoffExit:
		// What it said before the end is what counts, how it died does not.
		exit.Why, exit.Code, exit.Signal = process.Exited, 0, 0
		r.conclude(res, h, q, exit)
		res.Notes = append(res.Notes, fmt.Sprintf("%s had told that it was finished and was still running %v later: it was ended", who, q.Clocks.Exit))
	case cutoffSpin:
		res.End = Crashed // which may be the task's doing as well as the client's
		res.Reason = fmt.Sprintf("%s went round in circles and was ended: %d steps in a row without a word, a tool call or a token", who, q.Clocks.Spin)
	case cutoffOverflow:
		res.End, res.Cause = Refused, Fatal
		res.Reason = fmt.Sprintf("%s cannot go on: %s (%d times without getting further)", who, sentence(why.words), overflowLimit)
	case cutoffRefused:
		res.End, res.Cause = Refused, Fatal
		res.Reason = fmt.Sprintf("%s cannot go on: %s (it was ended after %d tries)", who, why.words, refusedLimit)
	case cutoffRetries:
		res.End, res.Cause, res.Code, res.Signal = Crashed, Transient, 0, 0 // its provider's fault
		res.Reason = fmt.Sprintf("%s did nothing but try again for %v and was ended: %s", who, q.Idle, sentence(why.words))
	case cutoffErrors:
		r.toldOnErrors(res, why.words, exit.End)
	}
}

// toldOnErrors judges a run by a line of standard error that says that a quota
// is used up. Some quotas no waiting renews.
func (r *Runner) toldOnErrors(res *Result, line string, now time.Time) {
	name, known := quota.Named(line)
	if !known && fatalWords(line) {
		res.End, res.Cause, res.Reason = Refused, Fatal, r.backend.title()+" cannot go on: "+sentence(line)
		return
	}
	until := quota.Reset(line, now)
	if !until.After(now) {
		until = time.Time{}
	}
	r.limited(res, name, until, now)
}

// errorWatch looks through what a running client prints on standard error for
// lines that say that its quota is used up. Some then sleep until it is
// renewed, for hours, and say it nowhere else.
type errorWatch struct {
	path   string
	offset int64
	any    []*regexp.Regexp
	file   *os.File
	buf    []byte // read, and not looked at: the beginning of a line
}

const (
	errorPiece = 64 << 10
	errorTurn  = 16       // pieces read at a time
	errorLine  = 16 << 10 // of a longer line the end is looked at
)

// errorWatch is nil where there is nothing to look for.
func (b Backend) errorWatch(q Request) *errorWatch {
	any := b.limitPatterns()
	if len(any) == 0 || q.ErrLog == "" || q.ErrLog == q.Log {
		return nil
	}
	return &errorWatch{path: q.ErrLog, offset: q.ErrOffset, any: any}
}

// limitPatterns are the expressions of StderrLimit, which NewTable has checked.
func (b Backend) limitPatterns() (list []*regexp.Regexp) {
	for _, text := range b.StderrLimit {
		if re, err := regexp.Compile(text); err == nil {
			list = append(list, re)
		}
	}
	return list
}

// look reads on, and says whether the run has to be ended.
func (w *errorWatch) look() *cutoff {
	if w == nil || w.file == nil && !w.open() {
		return nil
	}
	for range errorTurn {
		had := len(w.buf)
		w.buf = append(w.buf, make([]byte, errorPiece)...)
		n, err := w.file.Read(w.buf[had:])
		w.buf = w.buf[:had+n]
		end := bytes.LastIndexByte(w.buf[had:], '\n') + 1
		if end > 0 {
			if line, found := limitLine(w.any, w.buf[:had+end]); found {
				return &cutoff{clock: cutoffErrors, words: line}
			}
			w.buf = append(w.buf[:0], w.buf[had+end:]...)
		}
		w.buf = lastBytes(w.buf, errorLine)
		if n == 0 || err != nil {
			break
		}
	}
	return nil
}

func (w *errorWatch) open() bool {
	f, size, err := openLog(w.path)
	if err != nil {
		return false
	}
	if w.file = f; size >= w.offset {
		_, err = f.Seek(w.offset, io.SeekStart)
	}
	return err == nil
}

func (w *errorWatch) close() {
	if w != nil && w.file != nil {
		w.file.Close()
	}
}

// limitLine is the last line that fits one of the expressions, from where it
// does: what stands before is the log's, its time for one.
func limitLine(any []*regexp.Regexp, text []byte) (line string, found bool) {
	for _, re := range any {
		at := re.FindAllIndex(text, -1)
		if len(at) == 0 {
			continue
		}
		from, to := at[len(at)-1][0], at[len(at)-1][1]
		if end := bytes.IndexByte(text[to:], '\n'); end >= 0 {
			to += end
		} else {
			to = len(text)
		}
		return string(text[from:to]), true
	}
	return "", false
}
