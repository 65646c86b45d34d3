package prompt

import (
	"slices"
	"time"
)

// Promise ends a loop when an iteration that passed promises; without a word to look for, with the first that passes.
type Promise struct{ Any bool }

func (p *Promise) Begin(time.Time) Say                  { return Say{Word: Continue} }
func (p *Promise) Answer(Question, bool, time.Time) Say { return Say{Word: Continue} }
func (p *Promise) Agreed(bool, time.Time) Say           { return Say{Word: Continue} }

func (p *Promise) Hear(h *Heard) Say {
	if h.Passed && (p.Any || h.Said.Promise) {
		return Say{Word: Done}
	}
	return Say{Word: Continue}
}

// Breaker opens after iterations in a row without progress, or with one error.
type Breaker struct {
	NoProgress, SameError int
	Last                  string
	Outputs               []int // bytes, of the last iterations
	Open, Half            bool
	Until                 time.Time
}

const (
	mostIdle  = 3
	mostSame  = 5
	cooldown  = 30 * time.Minute
	mostStuck = 5 // criteria
	mostError = 3
	mostEdits = 5
	leastSaid = 500 // bytes; less is too little to tell that it shrinks
	compared  = 5   // iterations
)

// add counts one iteration, and reports whether the breaker is open after it.
func (b *Breaker) add(h *Heard) bool {
	if b.NoProgress++; h.progress() {
		b.NoProgress = 0
	}
	b.SameError, b.Last = count(b.SameError, b.Last, h.Error)
	shrinks := b.shrinks(h.Bytes)
	trips := b.NoProgress >= mostIdle || b.SameError >= mostSame || shrinks && !h.progress()
	if b.Half && !trips {
		if h.progress() && h.Error == "" {
			*b = Breaker{Outputs: b.Outputs}
			return false
		}
		trips = true
	}
	if trips {
		b.Open, b.Half, b.Until = true, false, h.At.Add(cooldown)
	}
	return trips
}

// shrinks reports whether an output is smaller by 70 % than the largest of those before.
func (b *Breaker) shrinks(now int) bool {
	most := slices.Max(append([]int{0}, b.Outputs...))
	b.Outputs = append(slices.Clone(b.Outputs[max(0, len(b.Outputs)-compared+1):]), now)
	return most >= leastSaid && (most-now)*100 >= most*70
}

func (b *Breaker) half() { b.Open, b.Half = false, b.Open || b.Half }

// count is how often in a row one error came.
func count(n int, last, now string) (int, string) {
	switch {
	case now == "":
		return 0, ""
	case now == last:
		return n + 1, now
	}
	return 1, now
}

// Status wants two indicators and a signal, and that what can be checked agrees.
type Status struct{ Breaker Breaker }

func (s *Status) Begin(now time.Time) Say {
	if s.Breaker.Open && now.Before(s.Breaker.Until) {
		return Say{Word: Open, What: Help, Until: s.Breaker.Until}
	}
	s.Breaker.half()
	return Say{Word: Continue}
}

func (s *Status) Hear(h *Heard) Say {
	open := s.Breaker.add(h)
	switch x := &h.Said; {
	case x.Block && x.Blocked:
		return Say{Word: Blocked}
	case h.Passed && x.Block && x.Signal && x.Indicators >= 2 && !h.Found.PlanOpen:
		return Say{Word: Done}
	case open:
		return Say{Word: Open, What: Help, Until: s.Breaker.Until}
	}
	return Say{Word: Continue}
}

func (s *Status) Answer(_ Question, yes bool, _ time.Time) Say {
	if !yes && s.Breaker.Open {
		return Say{Word: Open, What: Help, Until: s.Breaker.Until}
	}
	s.Breaker.half()
	return Say{Word: Continue}
}

func (s *Status) Agreed(bool, time.Time) Say { return Say{Word: Continue} }

// Criteria wants every criterion met, with evidence, and a signal. A colleague's loop asks at G1, G2, G3; work that is
// hard to undo needs a pre-check.
type Criteria struct {
	Count     int // of criteria
	Colleague bool
	Hard      bool
	Command   bool // there is a pre-check to run

	Met       []Proof
	Begun     bool
	Agree     bool
	Waiting   Question
	Stuck     int
	Unmet     string
	SameError int
	Last      string
}

func (c *Criteria) Begin(time.Time) Say {
	switch {
	case c.Waiting != "" && c.Begun:
		return c.wait(c.Waiting)
	case c.Hard && !c.Agree && c.Command:
		return Say{Word: First}
	case c.Hard && !c.Agree:
		return c.wait(NoCheck)
	case c.Colleague && !c.Begun:
		return c.wait(G1)
	}
	c.Begun, c.Waiting = true, ""
	return Say{Word: Continue}
}

func (c *Criteria) wait(q Question) Say {
	c.Waiting = q
	word := Wait
	if q == Help {
		word = Open
	}
	return Say{Word: word, What: q}
}

func (c *Criteria) Agreed(yes bool, now time.Time) Say {
	if !yes {
		return Say{Word: Blocked, What: NoCheck}
	}
	c.Agree = true
	return c.Begin(now)
}

func (c *Criteria) Hear(h *Heard) Say {
	if len(c.Met) != c.Count {
		c.Met = make([]Proof, c.Count)
		for i := range c.Met {
			c.Unmet += string(rune('a' + i)) // nothing is met before the first
		}
	}
	copy(c.Met, h.Said.Met)
	for i, p := range h.Found.Commands {
		if p != "" {
			c.Met[i] = p
		}
	}
	unmet := ""
	for i, p := range c.Met {
		if p != Observed && p != ByCommand {
			unmet += string(rune('a' + i))
		}
	}
	if c.Stuck++; unmet != c.Unmet || unmet == "" {
		c.Stuck = 0
	}
	c.Unmet, c.Waiting = unmet, ""
	c.SameError, c.Last = count(c.SameError, c.Last, h.Error)
	switch {
	case h.Found.MustNot:
		return c.wait(Help)
	case h.Said.Blocked:
		return Say{Word: Blocked}
	case unmet == "" && h.Passed && h.Said.Signal:
		if c.Colleague {
			return c.wait(G3)
		}
		return Say{Word: Done}
	case c.SameError >= mostError, c.Stuck >= mostStuck, h.Edits >= mostEdits:
		return c.wait(Help)
	case c.Colleague:
		return c.wait(G2)
	}
	return Say{Word: Continue}
}

func (c *Criteria) Answer(what Question, yes bool, now time.Time) Say {
	switch {
	case what == G3 && yes:
		c.Waiting = ""
		return Say{Word: Done}
	case what == G3:
		c.Waiting = ""
		return Say{Word: Continue}
	case !yes:
		return c.wait(what)
	case what == NoCheck:
		c.Agree, c.Waiting = true, ""
		return c.Begin(now)
	case what == G1:
		c.Begun = true
	case what == Help:
		c.Stuck, c.SameError = 0, 0
	}
	c.Waiting = ""
	return Say{Word: Continue}
}
