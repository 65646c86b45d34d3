// Package sim plays random nights of a scheduler.Run and judges each step by laws.
//
// The world has what is real: git as lists, agents, providers, a fleet, a person, other runs, kills. Its books fold
// the same events into plain facts and share no code with the machine; before an action starts they say whether it is
// the one to start, and when there is none, whether anything could be. Only what was durable is folded again after a
// kill: the end of the journal is lost, what was done stays done.
//
// A rule that is wrong in the books and in the machine is not seen. Three kinds of law ask neither: a night ends, an
// end with something left has a reason, and git itself has no commit of nothing and no task twice. A new rule wants
// one of these first, and a planted fault.
package sim

import "fmt"

// Night is what one night came to.
type Night struct {
	Attempts, Kills int
	Counts          map[string]int // of events, by kind
}

// LawError is a law that a night broke; the same seed breaks it again.
type LawError struct {
	Seed    uint64
	Law     string
	Account string // the journal, the tasks
}

func (e *LawError) Error() string { return fmt.Sprintf("seed %d: %s", e.Seed, e.Law) }

// Play plays one night.
func Play(seed uint64) (n Night, err error) {
	w := newWorld(seed)
	defer func() {
		switch x := recover().(type) {
		case nil:
			n = Night{w.attempts, w.kills, w.stats}
		case brokenLaw:
			err = &LawError{seed, x.why, w.account()}
		default: // the machine's own: a stage that no task may take from where it is
			err = &LawError{seed, fmt.Sprint(x), w.account()}
		}
	}()
	w.play()
	return n, nil
}
