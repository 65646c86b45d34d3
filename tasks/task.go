// Package tasks owns task files: their formats, ids, statuses and the legal changes of these, and saving a status without touching
// any other byte. It knows no graph, no git and no process.
package tasks

// Task is one entry of a task list, whatever format it was read from.
type Task struct {
	ID           string // as text, without the prefix of its own tag
	Title        string
	Description  string
	Details      string
	TestStrategy string

	Status    Status // a known status, or RawStatus where the word is unknown
	RawStatus string // the word in the file, or the word that an SCG letter stands for; "" where it is missing (then Status is Pending)

	Priority   string // "medium" where the file says nothing
	Complexity string // literal text of the number or word; "" where missing
	AgentType  string
	ModelTier  string
	Scope      []string // paths and patterns of the files that the task is to change, where the file names them

	// DependsOn holds ids in file order, each once. The prefix of the own tag is removed; ids of other tags stay "tag:id".
	DependsOn []string
	Parent    string   // id of the container that holds this task, or ""; always a task of the list
	Children  []string // ids of the tasks in this container; always tasks of the list

	Numeric bool // the id is a number in the file, and is one in JSON reports too
	Line    int  // of the task in the file, from 1
}

// Container reports whether the task holds others. A container never runs.
func (t *Task) Container() bool { return len(t.Children) > 0 }

// Finding is something that a reader met and went on from, but that a person should hear of.
type Finding struct {
	Line int    // 0: not about one place
	ID   string // the task, "" if none
	// Kind is "duplicate", "unknown-status", "dependency", "family", "member", "line", "tag", "source" or "gone".
	Kind    string
	Message string
	place   int // of the task in the list, from 1; 0 if none
}
