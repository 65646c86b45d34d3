package tasks

import (
	"fmt"
	"strings"
)

// Status is what a task file says about a task. The nine constants are all that SCUD knows; a file may hold other words,
// which are kept as they are and are never written.
//
//	            ┌─────────── reopened ───────────┐
//	            v                                │
//	pending ─> in-progress ─> done, review, blocked, failed
//	   │            ^             (review, blocked and failed may also be taken up again directly)
//	   └─> deferred, cancelled ─> pending
//
// expanded is set by the program that splits a task, never by hand. CanChange has the complete table.
type Status string

// The statuses that SCUD knows.
const (
	Pending    Status = "pending"
	InProgress Status = "in-progress"
	Done       Status = "done"
	Review     Status = "review"
	Blocked    Status = "blocked"
	Deferred   Status = "deferred"
	Cancelled  Status = "cancelled"
	Expanded   Status = "expanded"
	Failed     Status = "failed"
)

const statusWords = "pending, in-progress, done, review, blocked, deferred, cancelled, failed"

// ParseStatus reads a status word or one of its aliases. For any other word it returns the word itself and false.
func ParseStatus(s string) (Status, bool) {
	if status := Status(s); status.Known() {
		return status, true
	}
	word := strings.ToLower(strings.TrimSpace(s))
	word = strings.Map(func(r rune) rune {
		if r == '_' || r == ' ' {
			return '-'
		}
		return r
	}, word)
	switch word {
	case "completed", "complete":
		return Done, true
	case "todo", "to-do":
		return Pending, true
	case "canceled":
		return Cancelled, true
	}
	if status := Status(word); status.Known() {
		return status, true
	}
	return Status(s), false
}

// Known reports whether s is one of the nine words, aliases not counted.
func (s Status) Known() bool {
	switch s {
	case Pending, InProgress, Done, Review, Blocked, Deferred, Cancelled, Expanded, Failed:
		return true
	}
	return false
}

// UnknownStatus is the sentence about a task whose status is no known word.
func UnknownStatus(id string, s Status) string {
	if s == "awaiting-tune" {
		return fmt.Sprintf("task %s has the status awaiting-tune, which an earlier loop left: it is not run, set it to pending to run it again", id)
	}
	return fmt.Sprintf("task %s has the unknown status %.40q: it is not run and does not count as done", id, string(s))
}

// CanChange says why a person may not change a status from one word to another; nil means that the change is legal.
// What a run does by itself is not asked here.
func CanChange(from, to Status) error {
	if !to.Known() {
		return fmt.Errorf("unknown status %q: use one of %s", string(to), statusWords)
	}
	if from == to {
		return nil
	}
	switch to {
	case Expanded:
		return fmt.Errorf("status expanded is for a task with subtasks, it is not set by hand")
	case Pending, Done, Cancelled, Deferred:
		if from == Done && to == Deferred {
			return reopenFirst(from, to)
		}
		return nil
	case InProgress, Review, Blocked, Failed:
		switch from {
		case Pending, InProgress, Review, Blocked, Failed:
			return nil
		case Done:
			if to == Review {
				return nil
			}
		}
	}
	return reopenFirst(from, to)
}

func reopenFirst(from, to Status) error {
	return fmt.Errorf("a task that is %s cannot become %s: set it to pending first", from, to)
}
