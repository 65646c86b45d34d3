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
	// headStart is how long a program runs before the watchdog follows it. A program that ends earlier only costs a
	// timer that never fired.
	headStart = 100 * time.Millisecond
	// lookEvery is how often a silent program is checked.
	lookEvery = 100 * time.Millisecond
)

// watchdog reads what an agent prints while it runs, and ends the run once that says that waiting is useless. The
// result is read anew after the run, as far as the watchdog let it run.
//
// Everything happens on its one goroutine. The timeouts of the whole run and of silence need no look at the output:
// internal/proc's server keeps them.
type watchdog struct {
	transcript *transcript
	clock      clocks
	errs       *errorWatch      // nil if there is nothing to look for
	end        func(why error)  // ends the run
	over       <-chan struct{}  // closed when the run is
	tick       <-chan time.Time // of a ticker, but for tests

	file   *os.File
	read   int64 // of this run's output
	looked time.Duration
	why    *cutoff // why it ended the run
}

// cutoff is why the watchdog ended the run; nil if it did not.
func (f *watchdog) cutoff() *cutoff {
	if f == nil {
		return nil
	}
	return f.why
}

// follow starts following a run after headStart. stop waits for the watchdog and returns it, nil if it never followed
// the run.
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
	return &watchdog{transcript: newTranscript(r.backend.Format, q),
		clock: newClocks(r.backend.Format, q.Clocks, q.Idle, began),
		errs:  r.backend.errorWatch(q), end: end}
}

// run reads until the run is over, or ended.
func (f *watchdog) run() {
	_ = f.transcript.take(f, pieceSize) // a read error is reported after the run
	if f.file != nil {
		f.file.Close()
	}
}

// Read waits for a piece of the output, and is at its end when the run is. It reads to the end what is too long to be
// there for the result.
func (f *watchdog) Read(p []byte) (int, error) {
	for over := false; f.why == nil; {
		select {
		case <-f.over:
			if over = f.transcript.q.long(); !over {
				return 0, io.EOF
			}
		default:
		}
		n := 0
		if f.file != nil || f.open() {
			n, _ = f.file.Read(p)
			f.read += int64(n)
		}
		if n > 0 && over {
			return n, nil
		}
		if over {
			return 0, io.EOF
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

// look checks the clocks: all of them if everything printed was read, and at most about every lookEvery.
func (f *watchdog) look(all bool) {
	now := time.Since(f.clock.began)
	if f.why != nil || now-f.looked < lookEvery/2 {
		return
	}
	f.looked = now
	s := &f.transcript.progress
	if all && !(s.ended && s.end.OK) { // a run that ended well met no limit
		f.why = f.errs.look(s)
	}
	if f.why == nil {
		f.why = f.clock.check(s, now, !all || f.transcript.started(), f.transcript.claims)
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

// Defaults. Less than ten minutes of silence would end honest runs: a long test suite is one tool call.
const (
	DefaultStart = 2 * time.Minute
	DefaultIdle  = 15 * time.Minute
	DefaultExit  = 10 * time.Second
	DefaultSpin  = 20
)

// overflowLimit is how often a client may overflow its model's context window without a tool call in between. Text
// does not count: it is the summary that the client makes each time.
const overflowLimit = 5

// refusedLimit is how often a client may try a refused key. Some try ten times, for three minutes.
const refusedLimit = 3

// A provider that did not answer awayTries is reported after awayAtFirst, or after awayAtWork by an agent that has
// something to lose. A client that sleeps after "429 Too Many Requests" and does not even try again for sleepLimit
// waits for a quota, which is used up. One that has tried is silent because its provider answers, or may be: most
// clients print nothing before an answer is whole. A try that ran for longer than longTry before it failed was
// answered too.
const (
	awayTries   = 2
	awayAtFirst = 15 * time.Second
	awayAtWork  = 2 * time.Minute
	sleepLimit  = 2 * time.Minute
	longTry     = 15 * time.Second
)

// cutoff is why the watchdog ended a run.
type cutoff struct {
	clock cutoffKind
	words string // the client's words about that
	tries int
	left  time.Duration // until a quota is renewed, 0 where not told
	read  int64         // bytes of the run's output until then: later ones do not count
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
	cutoffAway     cutoffKind = "away"
	cutoffSleeps   cutoffKind = "sleeps"
)

func (h *cutoff) Error() string { return "ended: " + string(h.clock) }

// clocks watch one run. All times are durations since its start, so that changes of the machine's clock do not matter.
type clocks struct {
	began  time.Time
	limits Clocks
	events bool          // the client tells of its steps
	idle   time.Duration // of a client that does nothing but try again
	ends   int64         // end events seen
	ended  time.Duration
	claims bool // the last of them came after words that claim a result
	tries  tryClock
}

// tryClock knows since when a client has been trying in vain.
type tryClock struct {
	count         int           // of tries
	last          time.Duration // when the last one had failed
	rows, outages int64
	row, outage   time.Duration // since when it has done nothing else, and had no answer
	delays        int64
	told, delay   time.Duration // how long it sleeps, as it said then
}

// take takes what is new.
func (t *tryClock) take(s *progress, now time.Duration) {
	if s.rows != t.rows {
		t.rows, t.row = s.rows, now
	}
	long := false
	if s.retries != t.count {
		due, told := t.due()
		long = told && now > due+longTry
		t.count, t.last = s.retries, now
	}
	if s.outages != t.outages || long {
		t.outages, t.outage = s.outages, now
	}
	if s.delays != t.delays {
		t.delays, t.told, t.delay = s.delays, now, s.delay
	}
}

// due is when the client tries again, told says whether it said that. It may say so a moment before it tells of the
// try itself, on the other one of its outputs.
func (t *tryClock) due() (at time.Duration, told bool) {
	return t.told + t.delay, t.delay > 0 && t.told > t.last-2*time.Second
}

// vain is until when the last try is known to have had no success. Who tried often without saying how long it sleeps
// is taken to go on so.
func (t *tryClock) vain(now time.Duration, tries int) time.Duration {
	if due, told := t.due(); told && now >= due || !told && tries < awayTries {
		return t.last
	}
	return now
}

// newClocks are all off for plain text.
func newClocks(format string, limits Clocks, idle time.Duration, began time.Time) clocks {
	if !stream.HasEvents(format) {
		limits, idle = Clocks{}, 0
	}
	return clocks{began: began, limits: limits, idle: idle, events: stream.HasEvents(format)}
}

// check returns whether it is time to end the run. started says that it printed something, or that its output was not
// examined yet; claims, whether its last words claim a result. While the client waits for its own work, an end without
// such words is not the last one, and only silence ends the run.
func (c *clocks) check(s *progress, now time.Duration, started bool, claims func() bool) *cutoff {
	if s.ends != c.ends {
		c.ends, c.ended, c.claims = s.ends, now, claims()
	}
	if len(s.pending) > 0 && !c.claims {
		c.ended = now
	}
	c.tries.take(s, now)
	if c.events && s.retrying != "" {
		if why := c.retrying(s, now); why != nil {
			return why
		}
	}
	l := c.limits
	switch {
	case !started && s.retrying == "" && l.Start > 0 && now >= l.Start:
		return &cutoff{clock: cutoffStart}
	case l.Spin > 0 && s.overflows >= overflowLimit:
		return &cutoff{clock: cutoffOverflow, words: s.trouble.Text}
	case s.refused >= refusedLimit:
		return &cutoff{clock: cutoffRefused, words: fmt.Sprintf("%s, status %d",
			cmp.Or(s.refusal, "its key is refused"), s.retryStatus)}
	case l.Spin > 0 && s.steps >= l.Spin:
		return &cutoff{clock: cutoffSpin}
	case l.Exit > 0 && s.ended && !s.more && !s.end.Maybe && now-c.ended >= l.Exit:
		return &cutoff{clock: cutoffExit}
	}
	return nil
}

// retrying is check for a client whose last words are that it tries again.
func (c *clocks) retrying(s *progress, now time.Duration) *cutoff {
	t := &c.tries
	due, told := t.due()
	switch {
	case s.retryStatus == 429 && told && now < due && (now-t.last >= sleepLimit || t.delay > quota.LongestFault):
		return &cutoff{clock: cutoffSleeps, left: due - now}
	case s.retryStatus == 429 && !told && now-t.last >= sleepLimit:
		return &cutoff{clock: cutoffSleeps}
	case s.away >= awayTries && t.vain(now, s.away)-t.outage >= awayLimit(s):
		return &cutoff{clock: cutoffAway, words: s.retrying, tries: s.away}
	case c.idle > 0 && t.vain(now, 1)-t.row >= c.idle: // its output alone would keep it alive forever
		if s.retryStatus == 429 {
			return &cutoff{clock: cutoffSleeps, left: max(0, due-now)}
		}
		return &cutoff{clock: cutoffRetries, words: s.retrying}
	}
	return nil
}

func awayLimit(s *progress) time.Duration {
	if s.spoke || s.acted {
		return awayAtWork
	}
	return awayAtFirst
}

// cutOff judges a run that the watchdog ended.
func (r *Runner) cutOff(res *Result, h *said, q Request, exit process.Exit, why *cutoff) {
	who := r.backend.title()
	switch why.clock {
	case cutoffStart:
		if r.waits(res, q, exit.End) {
			break
		}
		res.End, res.Cause = Idled, Transient
		res.Reason = fmt.Sprintf("%s printed nothing in its first %v", who, q.Clocks.Start)
		if line := lastLine(q.lastErrors()); line != "" {
			res.Reason += "; its last line on standard error: " + line
		}
	case cutoffExit:
		// What it said before the end counts, not how it died.
		exit.Why, exit.Code, exit.Signal = process.Exited, 0, 0
		r.conclude(res, h, q, exit)
		res.Notes = append(res.Notes,
			fmt.Sprintf("%s had reported that it was finished and was still running %v later: it was ended", who,
				q.Clocks.Exit))
	case cutoffSpin:
		res.End = Crashed // which may be the task's doing as well as the client's
		res.Reason = fmt.Sprintf(
			"%s went round in circles and was ended: %d steps in a row without a word, a tool call or a token", who,
			q.Clocks.Spin)
	case cutoffOverflow: // the task's doing
		res.End, res.Blocked = Finished, fmt.Sprintf(
			"%s's conversation grew longer than its model takes: %s (%d times without getting further)", who,
			sentence(why.words), overflowLimit)
	case cutoffRefused:
		res.End, res.Cause = Refused, Fatal
		res.Reason = fmt.Sprintf("%s cannot go on: %s (it was ended after %d tries)", who, why.words, refusedLimit)
	case cutoffRetries:
		res.End, res.Cause, res.Code, res.Signal = Crashed, Transient, 0, 0 // its provider's fault
		res.Reason = fmt.Sprintf("%s did nothing but try again for %v and was ended: %s", who, q.Idle,
			sentence(why.words))
	case cutoffAway:
		res.End, res.Cause, res.Code, res.Signal = Crashed, Transient, 0, 0
		res.Reason = fmt.Sprintf("%s cannot reach its provider: %s (%d tries)", who, sentence(why.words),
			why.tries)
	case cutoffSleeps:
		var until time.Time
		if why.left > 0 {
			until = exit.End.Add(why.left)
		}
		r.limited(res, "rate limit", until, exit.End)
	case cutoffErrors:
		r.limitFromErrors(res, why.words, exit.End)
	}
}

// limitFromErrors derives a limit from a line on standard error about a used-up quota. Waiting does not renew every
// quota.
func (r *Runner) limitFromErrors(res *Result, line string, now time.Time) {
	if name, until, known := quota.Told(line, now); known && !quota.Spent(line) {
		r.limited(res, name, until, now)
		return
	}
	if fatalWords(line) {
		res.End, res.Cause, res.Reason = Refused, Fatal, r.backend.title()+" cannot go on: "+sentence(line)
		return
	}
	r.limited(res, "usage limit", quota.Reset(line, now), now)
}

// errorWatch searches what a running client prints on standard error for lines about a used-up quota. Some clients
// then sleep until it is renewed, for hours, and say so nowhere else.
type errorWatch struct {
	path  string
	at    int64 // read up to here
	any   []*regexp.Regexp
	tries []*try
	rest  []byte // read but not examined: the beginning of a line
}

// try looks for lines about the client's own tries.
type try struct {
	Try
	words *regexp.Regexp
	last  string // of its lines, the group "try"
}

const (
	errorPiece = 1 << 20  // read at a time
	errorLine  = 16 << 10 // of a longer line only the end is examined
)

// errorWatch is nil if there is nothing to look for.
func (b Backend) errorWatch(q Request) *errorWatch {
	w := &errorWatch{path: q.ErrLog, at: q.ErrOffset, any: b.limitPatterns(), tries: b.tries()}
	if len(w.any) == 0 && len(w.tries) == 0 || q.ErrLog == "" || q.ErrLog == q.Log {
		return nil
	}
	return w
}

func (b Backend) tries() (list []*try) {
	for _, t := range b.StderrTries {
		list = append(list, &try{Try: t, words: regexp.MustCompile(t.Words)})
	}
	return list
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

// look reads on, and returns whether the run must end. It tells s of the client's tries to reach its provider.
func (w *errorWatch) look(s *progress) *cutoff {
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
	now := time.Now()
	if line, found := limitLine(w.any, text[:end]); found && !quota.Passes(line, now) {
		return &cutoff{clock: cutoffErrors, words: line}
	}
	for _, t := range w.tries {
		for rest := text[:end]; ; {
			at := t.words.FindIndex(rest)
			if at == nil {
				break
			}
			line, after, _ := bytes.Cut(rest[at[0]:], []byte{'\n'})
			if _, _, limited := quota.Told(string(line), now); limited && t.Status == 429 {
				return &cutoff{clock: cutoffErrors, words: string(line)}
			}
			t.again(string(line), s)
			rest = after
		}
	}
	return nil
}

// again tells s of a try, unless that is the one that it was told of before.
func (t *try) again(line string, s *progress) {
	m := t.words.FindStringSubmatch(line)
	group := func(name string) string {
		if at := t.words.SubexpIndex(name); at > 0 && at < len(m) {
			return m[at]
		}
		return ""
	}
	if id := group("try"); id != "" {
		if id == t.last && s.retrying != "" {
			return
		}
		t.last = id
	}
	delay, err := time.ParseDuration(group("delay"))
	if err != nil {
		delay, _ = quota.After(line)
	}
	if t.Known {
		s.apply(stream.Event{Kind: stream.Sleep, Delay: delay})
		return
	}
	if n := len(t.Sleeps); n > 0 && delay == 0 {
		delay = t.Sleeps[min(s.tries, n-1)]
	}
	s.apply(stream.Event{Kind: stream.Retry, Text: line, Status: t.Status, Away: t.Away, Delay: delay})
}

// limitLine returns the last line that matches one of the expressions, from the match on: what is before it belongs to
// the log, such as a time.
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
