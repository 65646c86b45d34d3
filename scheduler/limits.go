package scheduler

import "time"

// Bounds are what any run may use, over tasks or over one prompt. Every start and resume brings those in force, and a
// person may change them while it is on; nothing else raises them.
type Bounds struct {
	USD         float64       // 0: any
	Deadline    time.Time     // zero: none
	MaxWait     time.Duration // of one wait for a quota, and of a row of them; 0: any
	OnLimitStop bool          // a quota that is used up ends the run instead of a wait
}

// IsLate reports whether the deadline is over.
func (b *Bounds) IsLate(now time.Time) bool { return !b.Deadline.IsZero() && !now.Before(b.Deadline) }

// IsSpent reports whether that much money is all there was.
func (b *Bounds) IsSpent(usd float64) bool { return b.USD > 0 && usd >= b.USD }

// isTooLong reports whether a wait from since on is too long, or ends after the deadline.
func (b *Bounds) isTooLong(until, since time.Time) bool {
	return b.MaxWait > 0 && until.Sub(since) > b.MaxWait || !b.Deadline.IsZero() && !until.Before(b.Deadline)
}

// Limits are what a run over tasks may use.
type Limits struct {
	Bounds
	Attempts int // of a task
	Total    int
	TaskUSD  float64
}
