// Package stream reads what the clients of coding agents print while they run: lines of JSON, of which each client has
// a dialect of its own. A reader makes the same few events of all of them.
package stream

import "time"

// Event is one step of a run, whichever client reported it.
type Event struct {
	Kind   Kind
	Text   string        // of Text; the client's own words of an error or a bad end
	Whole  bool          // the text is a whole message, not a piece of one
	OK     bool          // of End: the run went well; of Pending: there is some
	Maybe  bool          // of End: another turn may follow
	Away   bool          // of Retry: the provider did not answer at all
	Delay  time.Duration // of Retry and Sleep: how long the client waits before it tries; 0 where not told
	Status int           // HTTP status of an error, 0 where not told
	Word   string        // the client's word for an error, a limit or a refused tool
	Model  string
	ID     string    // of the session
	Until  time.Time // of Limit; zero where not told
	Tokens Tokens
	USD    float64
	Add    bool // tokens and dollars are of a part of the run

	Requests int // of Usage: to the model, for these tokens; 0 where not told
}

// Kind says what happened.
type Kind int

const (
	Session   Kind = iota
	Begin          // a turn begins: an end told before was none
	Text           // the top-level agent's own words
	Tool           // what was said before is no last word any more
	Delegated      // a subagent was given work, whose cost the client leaves out of its own
	Retry          // the client tries again by itself
	Sleep          // how long it waits before the try that it told of just now, or does at once
	Trouble        // an error that need not be the end
	Limit          // the provider refused: a quota is used up
	Allowed        // it no longer does
	Denied         // the client refused the agent a tool
	Kept           // we did
	Pending        // OK: the client waits for work of its own, by the Word for it, and goes on when that ends
	Usage
	End
)

// Overflow is opencode's word for a conversation that the model cannot take.
const Overflow = "ContextOverflowError"

// Tokens are what a run was charged for. Cached ones are part of Input.
type Tokens struct {
	Input      int64
	CacheRead  int64
	CacheWrite int64
	Output     int64
}

// Plus is the sum.
func (t Tokens) Plus(o Tokens) Tokens {
	return Tokens{t.Input + o.Input, t.CacheRead + o.CacheRead, t.CacheWrite + o.CacheWrite, t.Output + o.Output}
}

// Minus is what is left without those, never less than none.
func (t Tokens) Minus(o Tokens) Tokens {
	return Tokens{max(0, t.Input-o.Input), max(0, t.CacheRead-o.CacheRead), max(0, t.CacheWrite-o.CacheWrite),
		max(0, t.Output-o.Output)}
}

// number is a JSON number that counts something; what is none counts nothing.
type number float64

func (n number) int() int64 {
	if n != n || n < 0 || n > 1<<52 {
		return 0
	}
	return int64(n)
}

// errorLimit is how much of a client's error is kept.
const errorLimit = 4 << 10

// lastOf is the end of an error.
func lastOf(s string) string { return s[max(0, len(s)-errorLimit):] }
