// Package tasks owns task files: their formats, ids, statuses and the legal changes of these, and saving a status
// without touching any other byte. It knows no graph, no git and no process.
package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"descartes/tasks/prose"
)

// Task is one entry of a task list, whatever format it was read from.
type Task struct {
	ID           string // as text, without the prefix of its own tag
	Title        string
	Description  string
	Details      string
	TestStrategy string
	Acceptance   string // Markdown: what must hold before it is done, one list entry each
	Verify       string // a command that checks it, besides the project's
	Story        string // the user story it belongs to, as spec-kit marks it: US1

	Status Status // a known status, or RawStatus where the word is unknown
	// the word in the file, or the word that an SCG letter stands for; "" where it is missing (then Status is Pending)
	RawStatus string

	Priority   string // "medium" where the file says nothing
	Complexity string // literal text of the number or word; "" where missing
	AgentType  string
	ModelTier  string
	Scope      []string // paths and patterns of the files that the task is to change, where the file names them
	Allow      []string // what it may do to the checks that the guard finds otherwise: rules and groups
	Needs      []string // labels of the workers of a fleet that may do it
	Candidates int      // attempts at a time, of which one is taken; 0 where the file says nothing

	Prove string // "red-without" or "off"; "" where the file says nothing

	// DependsOn holds ids in file order, each once. The prefix of the own tag is removed; ids of other tags stay
	// "tag:id".
	DependsOn []string
	Parent    string   // id of the container that holds this task, or ""; always a task of the list
	Children  []string // ids of the tasks in this container; always tasks of the list

	Numeric bool // the id is a number in the file, and is one in JSON reports too
	Line    int  // of the task in the file, from 1
}

// Container reports whether the task holds others. A container never runs.
func (t *Task) Container() bool { return len(t.Children) > 0 }

// attribute reads what a list says about how to run the task; false: it makes no sense, and is ignored.
func (t *Task) attribute(name, text string) bool {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	switch name {
	case "scope":
		t.Scope = names
	case "allow":
		t.Allow = names
	case "needs":
		t.Needs = names
	case "candidates":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return false
		}
		t.Candidates = n
	case "prove":
		if text != "red-without" && text != "off" {
			return false
		}
		t.Prove = text
	}
	return true
}

// Finding is something that a reader met and went on from, but that a person should hear of.
type Finding struct {
	Line int    // 0: not about one place
	ID   string // the task, "" if none
	// Kind is "duplicate", "unknown-status", "dependency", "family", "member", "line", "tag", "source", "gone",
	// "box", "label" or KindLeft.
	Kind    string
	Message string
	Closed  bool // of KindLeft: nobody waits for it, since its box is ticked or it is optional
}

// KindLeft is the kind of findings about lines that look like work and are no tasks. See LeftOut.
const KindLeft = "left"

// NoTask is the finding about a line, counted from 0, that looks like work and is no task; closed where nobody waits
// for it.
func NoTask(line int, text, reason string, closed bool) Finding {
	return Finding{Line: line + 1, Kind: KindLeft, Closed: closed,
		Message: fmt.Sprintf("%q is not a task: %s", prose.Short(strings.TrimSpace(text)), reason)}
}

// Second is the finding about the second thing with an id, in a line from 1; what is "task" or a word for a phase.
func Second(line int, what, id, own string, first int) Finding {
	return Finding{Line: line, ID: own, Kind: "line",
		Message: fmt.Sprintf("a second %s %s: it is %s here, and the first one is in line %d", what, id, own, first)}
}

// UnknownMark is the finding about a mark in a box that nobody knows.
func UnknownMark(line int, id, text string) Finding {
	task := ""
	if id != "" {
		task = "task " + id + ": "
	}
	return Finding{Line: line, ID: id, Kind: "box",
		Message: fmt.Sprintf("%sthe mark in its box is not known (%s): it counts as open", task, prose.Short(text))}
}

// Status is what a task file says about a task. The nine constants are all that SCUD knows; a file may hold other
// words, which are kept as they are and are never written.
//
//	            ┌─────────── reopened ───────────┐
//	            v                                │
//	pending ─> in-progress ─> done, review, blocked, failed
//	   │            ^             (review, blocked and failed may also be resumed directly)
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
	word := strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(strings.TrimSpace(s)))
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

// Open reports whether a task of that status is to be worked on.
func (s Status) Open() bool { return s == Pending || s == InProgress }

// SetAside reports whether a person took the task off the list: nobody asks for it to be done. A container takes
// its tasks with it.
func (s Status) SetAside() bool { return s == Cancelled || s == Deferred }

// UnknownStatus is the sentence about a task whose status is no known word.
func UnknownStatus(id string, s Status) string {
	if s == "awaiting-tune" {
		return fmt.Sprintf("task %s has the status awaiting-tune, which an earlier run left: it does not run; set it to pending to run it again", id)
	}
	return fmt.Sprintf("task %s has the unknown status %.40q: it does not run and does not count as done", id,
		string(s))
}

// CanChange says why a person may not change a status from one word to another; nil means that the change is legal.
// What a run does by itself is not asked here.
func CanChange(from, to Status) error {
	active := []Status{Pending, InProgress, Review, Blocked, Failed}
	switch {
	case !to.Known():
		return fmt.Errorf("unknown status %q: use one of %s", string(to), statusWords)
	case from == to, to == Pending, to == Done, to == Cancelled, to == Deferred && from != Done, to == Review &&
		from == Done,
		slices.Contains(active, from) && slices.Contains(active, to):
		return nil
	case to == Expanded:
		return errors.New("status expanded is for a task with subtasks: it cannot be set by hand")
	}
	return fmt.Errorf("a task that is %s cannot become %s: set it to pending first", from, to)
}

const maxTagLength = 100

// CompareIDs orders ids as people count: 2 before 10, 1.9 before 1.10, numbers before words. It is a total order.
func CompareIDs(a, b string) int {
	// 1 and 01
	return cmp.Or(slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), comparePart), strings.Compare(a, b))
}

// comparePart compares the numbers that two parts begin with, then what follows: 7, 7a, 7b, 8. A part without a number
// comes last.
func comparePart(a, b string) int {
	restA, restB := strings.TrimLeft(a, "0123456789"), strings.TrimLeft(b, "0123456789")
	numberA, numberB := a[:len(a)-len(restA)], b[:len(b)-len(restB)]
	if numberA == "" || numberB == "" {
		return cmp.Or(cmp.Compare(len(numberB), len(numberA)), strings.Compare(a, b))
	}
	numberA, numberB = strings.TrimLeft(numberA, "0"), strings.TrimLeft(numberB, "0")
	return cmp.Or(cmp.Compare(len(numberA), len(numberB)), strings.Compare(numberA, numberB),
		strings.Compare(restA, restB))
}

// TagError says that a text cannot be a tag.
type TagError struct{ Tag, Want string }

func (e *TagError) Error() string {
	return fmt.Sprintf("tag %q cannot be used: a tag is %s, at most %d bytes", e.Tag, e.Want, maxTagLength)
}

// Next is what to do about it, "" where the message says that.
func (e *TagError) Next() string { return "" }

// ValidTag returns a *TagError if tag cannot name a task list. A tag becomes part of commit messages, and of file
// names unless it has a / in it as in feature/auth: SCUD's and Task Master's files of several tags may have such.
func ValidTag(tag string) error {
	bad := len(tag) > maxTagLength || !utf8.ValidString(tag) || strings.ContainsAny(tag, `\:`) ||
		strings.TrimSpace(tag) != tag || strings.HasPrefix(tag, "-") ||
		strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsPrint(r) })
	for part := range strings.SplitSeq(tag, "/") {
		bad = bad || part == "" || part[0] == '.'
	}
	if bad {
		return &TagError{tag, "a plain name of letters, digits, - _ . and the like, not a path"}
	}
	return nil
}

// plainTag returns a *TagError if tag cannot be the name of a file either.
func plainTag(tag string) error {
	if err := ValidTag(tag); err != nil || !strings.Contains(tag, "/") {
		return err
	}
	return &TagError{tag, "a plain name without / where it has a file of its own"}
}

// ownID removes the prefix of the own tag: within a tag, "tag:id" and "id" are the same task.
func ownID(tag, id string) string {
	if tag != "" && len(id) > len(tag)+1 && id[len(tag)] == ':' && id[:len(tag)] == tag {
		return id[len(tag)+1:]
	}
	return id
}

// TagPath is where the task list of one tag has its own file, and a *TagError if it cannot have one.
func TagPath(root, tag string) (string, error) {
	if err := plainTag(tag); err != nil {
		return "", err
	}
	return filepath.Join(root, ".scud", "tasks", tag+".json"), nil
}
