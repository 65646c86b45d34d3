package agent

import (
	"bytes"
	"cmp"
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
// that says that waiting is no use. The
// result is read anew when the run is over, as far as the watchdog let it run.
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
	read   int64 // of this run's output
	looked time.Duration
	why    *cutoff // why it ended the run
}

// follow begins to follow a run once it has lasted for a while. stop waits for
// the watchdog and says why it ended the run, nil where it did not.
func (r *Runner) follow(q Request, end func(why error)) (stop func() *cutoff) {
	began := time.Now()
	over, done := make(chan struct{}), make(chan *cutoff, 1)
	start := time.AfterFunc(headStart, func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		f := r.watchdog(q, began, end)
		f.over, f.tick = over, t.C
		f.run()
		done <- f.why
	})
	return func() *cutoff {
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
	_ = f.transcript.take(f, pieceSize) // what cannot be read is said when the run is over
	if f.file != nil {
		f.file.Close()
	}
}

// Read waits for a piece of the output, and is at its end when the run is.
func (f *watchdog) Read(p []byte) (int, error) {
	for f.why == nil {
		select {
		case <-f.over:
			return 0, io.EOF
		default:
		}
		n := 0
		if f.file != nil || f.open() {
			n, _ = f.file.Read(p)
			f.read += int64(n)
		}
		f.look(n == 0)
		if n > 0 {
			return n, nil
		}
		select {
		case <-f.over:
		case <-f.tick:
		}
	}
	return 0, io.EOF
}

// open is false until the log exists.
func (f *watchdog) open() bool {
	file, size, err := openLog(f.transcript.q.Log)
	if err != nil {
		return false
	}
	if f.file = file; size >= f.transcript.q.Offset {
		_, err = file.Seek(f.transcript.q.Offset, io.SeekStart)
	}
	return err == nil
}

// look asks the clocks, all of them where everything is read that was printed,
// and at most every lookEvery or so.
func (f *watchdog) look(all bool) {
	now := time.Since(f.clock.began)
	if f.why != nil || now-f.looked < lookEvery/2 {
		return
	}
	f.looked = now
	s := &f.transcript.progress
	if all && !(s.ended && s.end.OK) { // a run that ended well met no limit
		f.why = f.errs.look()
	}
	if f.why == nil {
		f.why = f.clock.check(s, now, !all || f.transcript.started())
	}
	if f.why != nil {
		f.why.read = f.read
		f.end(f.why)
	}
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
	read  int64  // bytes of the run's output until then: nothing counts after that
}

type cutoffKind string

const (
	cutoffStart    cutoffKind = "start"
	cutoffExit     cutoffKind = "exit"
	cutoffSpin     cutoffKind = "spin"
	cutoffOverflow cutoffKind = "overflow"
	cutoffErrors   cutoffKind = "stderr" // found there, not a time
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
		return &cutoff{clock: cutoffRefused, words: fmt.Sprintf("%s, status %d", cmp.Or(s.refusal, "its key is refused"), s.retryStatus)}
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
		res.Reason = fmt.Sprintf("%s printed nothing in its first %v", who, q.Clocks.Start)
		if waits := r.waitsFor(q, exit.End); waits != "" {
			res.Reason += waits
		} else if line := lastLine(q.lastErrors()); line != "" {
			res.Reason += "; its last line on standard error: " + line
		}
	case cutoffExit:
		// What it said before the end is what counts, how it died does not.
		exit.Why, exit.Code, exit.Signal = process.Exited, 0, 0
		r.conclude(res, h, q, exit)
		res.Notes = append(res.Notes, fmt.Sprintf("%s had reported that it was finished and was still running %v later: it was ended", who, q.Clocks.Exit))
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
		r.limitFromErrors(res, why.words, exit.End)
	}
}

// limitFromErrors concludes from a line of standard error that says that a quota
// is used up. Some quotas no waiting renews.
func (r *Runner) limitFromErrors(res *Result, line string, now time.Time) {
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
	path string
	at   int64 // up to where it was read
	any  []*regexp.Regexp
	rest []byte // read, and not looked at: the beginning of a line
}

const (
	errorPiece = 1 << 20  // read at a time
	errorLine  = 16 << 10 // of a longer line the end is looked at
)

// errorWatch is nil where there is nothing to look for.
func (b Backend) errorWatch(q Request) *errorWatch {
	any := b.limitPatterns()
	if len(any) == 0 || q.ErrLog == "" || q.ErrLog == q.Log {
		return nil
	}
	return &errorWatch{path: q.ErrLog, at: q.ErrOffset, any: any}
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
	if w == nil {
		return nil
	}
	f, size, err := openLog(w.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if size < w.at {
		w.at = 0
	}
	more, err := io.ReadAll(io.NewSectionReader(f, w.at, errorPiece))
	if err != nil {
		return nil
	}
	w.at += int64(len(more))
	text := append(w.rest, more...)
	end := bytes.LastIndexByte(text, '\n') + 1
	w.rest = bytes.Clone(text[max(end, len(text)-errorLine):])
	if line, found := limitLine(w.any, text[:end]); found {
		return &cutoff{clock: cutoffErrors, words: line}
	}
	return nil
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
