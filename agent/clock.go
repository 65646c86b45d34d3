package agent

import (
	"fmt"
	"time"

	"descartes/internal/proc"
)

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

// halt is why the follower ended a run.
type halt struct {
	clock haltClock
	words string // of the client, about that
}

type haltClock string

const (
	haltStart    haltClock = "start"
	haltExit     haltClock = "exit"
	haltSpin     haltClock = "spin"
	haltOverflow haltClock = "overflow"
	haltErrors   haltClock = "stderr" // what was told there, not a time
	haltRefused  haltClock = "refused"
	haltRetries  haltClock = "retries"
)

func (h *halt) Error() string { return "ended: " + string(h.clock) }

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
	if dialectOf(format) == nil {
		limits, idle = Clocks{}, 0
	}
	return clocks{began: began, limits: limits, idle: idle}
}

// check says whether it is time to end the run. started tells that something
// came from it, or that what came is not looked at yet.
func (c *clocks) check(s *story, now time.Duration, started bool) *halt {
	if s.ends != c.ends {
		c.ends, c.ended = s.ends, now
	}
	if s.moved != c.steps {
		c.steps, c.moved = s.moved, now
	}
	l := c.limits
	switch {
	case c.idle > 0 && s.retrying != "" && now-c.moved >= c.idle: // its output alone would keep it alive for ever
		return &halt{clock: haltRetries, words: s.retrying}
	case !started && l.Start > 0 && now >= l.Start:
		return &halt{clock: haltStart}
	case l.Spin > 0 && s.overflows >= overflowLimit:
		return &halt{clock: haltOverflow, words: s.trouble.text}
	case s.refused >= refusedLimit:
		return &halt{clock: haltRefused, words: fmt.Sprintf("%s, status %d", or(s.refusal, "its key is refused"), s.retryStatus)}
	case l.Spin > 0 && s.steps >= l.Spin:
		return &halt{clock: haltSpin}
	case l.Exit > 0 && s.ended && !s.more && !s.end.maybe && now-c.ended >= l.Exit:
		return &halt{clock: haltExit}
	}
	return nil
}

// halted judges a run that the follower ended.
func (r *Runner) halted(res *Result, h *heard, q Request, exit proc.Exit, why *halt) {
	who := r.backend.title()
	switch why.clock {
	case haltStart:
		res.End, res.Cause = Idled, Transient
		res.Reason = fmt.Sprintf("nothing came from %s in its first %v", who, q.Clocks.Start)
		if waits := r.waitsFor(q, exit.End); waits != "" {
			res.Reason += waits
		} else if line := lastLine(q.lastErrors()); line != "" {
			res.Reason += "; its last line on standard error: " + line
		}
	case haltExit:
		// What it said before the end is what counts, how it died does not.
		exit.Why, exit.Code, exit.Signal = proc.Exited, 0, 0
		r.conclude(res, h, q, exit)
		res.Notes = append(res.Notes, fmt.Sprintf("%s had told that it was finished and was still running %v later: it was ended", who, q.Clocks.Exit))
	case haltSpin:
		res.End = Crashed // which may be the task's doing as well as the client's
		res.Reason = fmt.Sprintf("%s went round in circles and was ended: %d steps in a row without a word, a tool call or a token", who, q.Clocks.Spin)
	case haltOverflow:
		res.End, res.Cause = Refused, Fatal
		res.Reason = fmt.Sprintf("%s cannot go on: %s (%d times without getting further)", who, sentence(why.words), overflowLimit)
	case haltRefused:
		res.End, res.Cause = Refused, Fatal
		res.Reason = fmt.Sprintf("%s cannot go on: %s (it was ended after %d tries)", who, why.words, refusedLimit)
	case haltRetries:
		res.End, res.Cause, res.Code, res.Signal = Crashed, Transient, 0, 0 // its provider's fault
		res.Reason = fmt.Sprintf("%s did nothing but try again for %v and was ended: %s", who, q.Idle, sentence(why.words))
	case haltErrors:
		r.toldOnErrors(res, why.words, exit.End)
	}
}

// toldOnErrors judges a run by a line of standard error that says that a quota
// is used up. Some quotas no waiting renews.
func (r *Runner) toldOnErrors(res *Result, line string, now time.Time) {
	name, known := limitWords(line)
	if !known && fatalWords(line) {
		res.End, res.Cause, res.Reason = Refused, Fatal, r.backend.title()+" cannot go on: "+sentence(line)
		return
	}
	until := resetTime(line, now)
	if !until.After(now) {
		until = time.Time{}
	}
	r.limited(res, name, until, now)
}
