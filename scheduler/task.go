package scheduler

import "fmt"

// Stage is where a task stands.
type Stage string

const (
	Pending   Stage = "pending"
	Running   Stage = "running"   // an agent works at it, in a lane
	Made      Stage = "made"      // its commit is under its ref, the lane is free
	Checking  Stage = "checking"  // merged onto the trunk's tip, and that commit checked
	Reviewing Stage = "reviewing" // it passed; a reviewer has it in a lane, or it waits for one
	Merged    Stage = "merged"    // it is in the trunk
	Done      Stage = "done"      // the branch has it
	Blocked   Stage = "blocked"   // a person must act
	Aside     Stage = "aside"     // the list says deferred, cancelled, or no longer has it
)

// stages is every way that a task may take. Done straight from pending, blocked and aside is a person's word, and so is
// made from pending; merged from pending is what a start finds in the trunk of an earlier run, and from done what the
// branch lost; blocked from pending is a limit that was lowered.
var stages = map[Stage]string{
	Pending:   "running made blocked merged done aside",
	Running:   "made pending blocked done",
	Made:      "checking pending merged",
	Checking:  "merged reviewing made pending blocked",
	Reviewing: "reviewing made pending blocked",
	Merged:    "done pending",
	Done:      "pending aside merged",
	Blocked:   "pending merged done aside",
	Aside:     "pending merged done",
}

var ways = func() map[[2]Stage]bool {
	m := map[[2]Stage]bool{}
	for from, list := range stages {
		for len(list) > 0 {
			var to Stage
			n, _ := fmt.Sscan(list, &to)
			if n == 0 {
				break
			}
			m[[2]Stage{from, to}] = true
			list = list[min(len(list), len(to)+1):]
		}
	}
	return m
}()

// Word is what a person says of a task in the list. What we wrote there ourselves is none; telling them apart is the
// source's.
type Word string

const (
	ByHand   Word = "done"
	PutAside Word = "aside" // deferred, cancelled
	Stuck    Word = "stuck" // blocked, before this run came to it
)

// Listed is a task as the list has it.
type Listed struct {
	ID       string
	Needs    []string
	Rank     int      // 0 is most urgent
	Earliest int      // no wave below this one, by the order of the list
	Hours    float64  // how long it took before, or is expected to take; 0: unknown
	Scope    []string // paths that it will change
	Accounts []string // whose quota its agents may use, in this order
	Review   []string // accounts of its reviewers; none: it has no review
	Labels   []string // what a lane must have
	Word     Word
	Asking   bool // stuck, as its agent asked something in an earlier run
}

// Task is a leaf of the list, or one that the run added: a CHECK that fails, commits that clash.
type Task struct {
	Listed
	Stage   Stage
	Lane    int // -1: none
	Account string
	Worker  string  // whose account that is
	Purpose Purpose // of the agent that has it
	Wave    int
	Floor   int    // likewise, as it came later
	Turn    int    // of what is made: first made, first checked
	Check   string // the check that fails, which it is to mend
	Takes   string // it takes in the branch's commits up to this one

	Facts
	Clashes []string // paths at which it clashed

	at int // its place in Run.Tasks
}

// Facts is what is known of the attempts at a task. They are forgotten when a person opens it again.
type Facts struct {
	Number        int
	Spent         int     // attempts that count
	Crashed       int     // of these, whose agents crashed or did nothing
	Interruptions int     // in a row
	USD           float64 // since it was opened
	Again         bool    // it was started, and its turn is kept
	Look          bool    // its agent found nothing to do: a second one looks
	Kept          bool    // a commit of its stands under its ref
	By            string  // account of the agent that worked on it last
	Reviewed      bool    // what is made was approved
	From          int     // how many entries the trunk had that its last agent started from
	On            Basis   // what its commit was checked on, last
	Asks          bool
	Accepted      bool  // a person took its kept work for its result, which is checked when the trunk has what it needs
	Shown         bool  // nothing had to be done, and a person says whether that is done
	Unchanged     bool  // done, and nothing had to be
	ByHand        bool  // done, says the list
	Gone          bool  // the list no longer has it
	Listed        Stage // what the branch's list calls it, if it has no commit: blocked, or done
	Writing       Stage // what it will, by the commit that is made now
}

// hasNoCommit: what becomes of it is in no commit but by the list.
func (t *Task) hasNoCommit() bool { return t.Stage == Blocked || t.Unchanged && t.Stage == Done }

// IsUnlisted reports whether the branch's list has yet to say that it is blocked, or done without a commit.
func (t *Task) IsUnlisted() bool { return t.hasNoCommit() && t.Facts.Listed != t.Stage }

// reopen forgets how a task's attempts went.
func (t *Task) reopen() {
	t.Facts = Facts{Number: t.Number, Gone: t.Gone, Listed: t.Facts.Listed, Writing: t.Writing, Kept: t.Kept, From: t.From}
}

// isAtWork reports whether somebody works on it: a person's word about it waits.
func (t *Task) isAtWork() bool {
	return t.Stage == Running || t.Stage == Made || t.Stage == Checking || t.Stage == Reviewing
}

// isStuck reports whether it is blocked by what the list said before this run came to it.
func (t *Task) isStuck() bool { return t.Stage == Blocked && t.Word == Stuck && t.Number == 0 }

// isFinal reports whether nothing more comes of it by itself, as far as the trunk goes.
func (t *Task) isFinal() bool { return t.Stage == Merged || t.isOver() }

func (t *Task) isOver() bool { return t.Stage == Done || t.Stage == Blocked || t.Stage == Aside }

// move is the only writer of stage and lane.
func (r *Run) move(t *Task, to Stage, lane int) {
	if !ways[[2]Stage{t.Stage, to}] {
		panic(fmt.Sprintf("task %s: %s -> %s", t.ID, t.Stage, to))
	}
	if other := r.inLane(lane); other != nil {
		panic(fmt.Sprintf("task %s: lane %d has task %s", t.ID, lane, other.ID))
	}
	if to == Made && t.Stage != Checking { // a check that was cut short keeps its turn
		r.turns++
		t.Turn = r.turns
	}
	if t.Stage, t.Lane = to, lane; lane < 0 {
		t.Account, t.Worker, t.Purpose = "", "", ""
	}
	if to == Pending || to == Blocked {
		r.applyWord(t) // what the list says of it holds from here on
	}
}

// block has a task wait for a person: its attempts or its money are spent, its agent gave up or asks, accepted work
// clashes, or the list says so. Whoever calls it knows which.
func (r *Run) block(t *Task) { r.move(t, Blocked, -1) }

func (r *Run) inLane(lane int) *Task {
	if lane < 0 {
		return nil
	}
	for _, t := range r.Tasks {
		if t.Lane == lane {
			return t
		}
	}
	return nil
}

// applyWord does what the list says of a task that nobody works on. What is in the trunk is in, whatever it says.
func (r *Run) applyWord(t *Task) {
	word := t.Word
	if t.Gone {
		word = PutAside
	}
	switch {
	case t.isAtWork(), t.Stage == Merged, t.Stage == Done && !t.ByHand:
	case word == ByHand && t.Stage != Done:
		t.ByHand = true
		r.renumber = true // it may open a circle
		r.move(t, Done, -1)
	case word == PutAside && t.Stage != Aside:
		t.ByHand, r.renumber = false, true
		r.move(t, Aside, -1)
	case word == Stuck && t.Stage == Pending && t.Number == 0:
		t.Facts.Listed = Blocked // where the word stands
		t.Asks = t.Asking
		r.block(t)
	case (word == "" || word == Stuck) && (t.Stage == Aside || t.Stage == Done):
		t.reopen()
		r.renumber = true
		r.move(t, Pending, -1)
	}
}
