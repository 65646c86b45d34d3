package gate

import (
	"fmt"
	"strings"
	"time"
)

// BreakerState is where a circuit breaker stands.
//
//	closed --no progress, same error, output shrinks--> open --cooldown or a person--> half-open
//	half-open --progress--> closed
//	half-open --none, or an error--> open
type BreakerState string

// The states. The zero value of a Breaker is closed.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half-open"
)

// Limits say when a breaker opens. A field that is 0 has its default; a negative one never opens it.
type Limits struct {
	NoProgress int           `json:"no_progress,omitempty"`    // iterations in a row without progress; 3
	SameError  int           `json:"same_error,omitempty"`     // iterations in a row with one error; 5
	Shrink     int           `json:"output_decline,omitempty"` // percent by which the output shrank; 70
	Cooldown   time.Duration `json:"cooldown,omitempty"`       // how long it stays open; 30 minutes
}

// DefaultCooldown is how long a breaker stays open where nothing is said.
const DefaultCooldown = 30 * time.Minute

func (l Limits) orDefault() Limits {
	pick := func(n *int, def int) {
		if *n == 0 {
			*n = def
		}
	}
	pick(&l.NoProgress, 3)
	pick(&l.SameError, 5)
	pick(&l.Shrink, 70)
	if l.Cooldown == 0 {
		l.Cooldown = DefaultCooldown
	}
	return l
}

// Output below minOutput bytes is too little to see it shrink, and so many iterations are looked back.
const (
	minOutput    = 500
	outputWindow = 5
)

// Breaker watches a loop for standstill. It belongs to one run: see Begin.
type Breaker struct {
	Run        string       `json:"run,omitempty"`
	State      BreakerState `json:"state,omitempty"`
	NoProgress int          `json:"consecutive_no_progress,omitempty"`
	SameError  int          `json:"consecutive_same_error,omitempty"`
	LastError  string       `json:"last_error,omitempty"` // signature
	Outputs    []int64      `json:"outputs,omitempty"`    // bytes, of the last iterations
	OpenedAt   time.Time    `json:"opened_at,omitzero"`
	Evidence   string       `json:"evidence,omitempty"` // why it is open, in words
}

func (b *Breaker) state() BreakerState {
	if b.State == "" {
		return BreakerClosed
	}
	return b.State
}

// Begin says which run the breaker watches from now on. What it knows of another run is forgotten, so
// that a breaker that an earlier run left open never holds up a new one.
func (b *Breaker) Begin(run string) {
	if b.Run != run {
		*b = Breaker{Run: run}
	}
}

// Ready reports whether an iteration may start. A breaker whose cooldown is over becomes half-open and
// lets one iteration try; until is when that will be. A clock that went backwards does not lengthen
// the wait beyond the cooldown.
func (b *Breaker) Ready(now time.Time, l Limits) (ok bool, until time.Time) {
	if b.State != BreakerOpen {
		return true, time.Time{}
	}
	cooldown := l.orDefault().Cooldown
	if now.Before(b.OpenedAt) {
		b.OpenedAt = now
	}
	if until = b.OpenedAt.Add(cooldown); now.Before(until) {
		return false, until
	}
	b.HalfOpen()
	return true, time.Time{}
}

// HalfOpen lets one iteration try although the breaker is open: a person said so.
func (b *Breaker) HalfOpen() {
	if b.State == BreakerOpen {
		b.State = BreakerHalfOpen
	}
}

// Judge counts one iteration and reports whether the breaker is open after it. Progress is a changed
// file or a newly checked item.
func (b *Breaker) Judge(f Facts, l Limits) bool {
	l = l.orDefault()
	progress := len(f.Changed) > 0 || f.Unwatched && f.Err == "" || len(NewlyChecked(f.Before, f.After)) > 0
	signature, shown := failure(f)
	shrunk, from := b.shrunk(f.OutputBytes, l.Shrink)
	if b.Outputs = append(b.Outputs, f.OutputBytes); len(b.Outputs) > outputWindow {
		b.Outputs = b.Outputs[1:]
	}
	b.tally(progress, signature)
	var why []string
	if l.NoProgress > 0 && b.NoProgress >= l.NoProgress {
		why = append(why, fmt.Sprintf("%s in a row changed no file and checked off no item", count(b.NoProgress, "iteration")))
	}
	if l.SameError > 0 && b.SameError >= l.SameError {
		why = append(why, fmt.Sprintf("the same error came %d times in a row: %s", b.SameError, shown))
	}
	if shrunk && !progress {
		why = append(why, fmt.Sprintf("without any progress the agent's output shrank by %d %% or more: from %d bytes to %d", l.Shrink, from, f.OutputBytes))
	}
	if b.State == BreakerHalfOpen && len(why) == 0 {
		if progress && f.Err == "" {
			*b = Breaker{Run: b.Run, Outputs: b.Outputs, LastError: b.LastError, SameError: min(b.SameError, 1)}
			return false
		}
		why = append(why, "the iteration that was to show whether it goes on again made no progress ("+b.Evidence+")")
	}
	if len(why) == 0 {
		return false
	}
	b.State, b.OpenedAt, b.Evidence = BreakerOpen, f.Now, strings.Join(why, "; ")
	return true
}

// tally counts iterations in a row.
func (b *Breaker) tally(progress bool, signature string) {
	if progress {
		b.NoProgress = 0
	} else {
		b.NoProgress++
	}
	switch {
	case signature == "":
		b.SameError, b.LastError = 0, ""
	case signature == b.LastError:
		b.SameError++
	default:
		b.SameError, b.LastError = 1, signature
	}
}

// shrunk reports whether an output is smaller by percent than the largest of the last ones.
func (b *Breaker) shrunk(now int64, percent int) (bool, int64) {
	var most int64
	for _, n := range b.Outputs {
		most = max(most, n)
	}
	return percent > 0 && most >= minOutput && (most-now)*100 >= most*int64(percent), most
}
