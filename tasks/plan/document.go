// Package plan owns Markdown plans, each read once: the tasks in one, what they depend on, and what it says about a
// task of any list.
package plan

import (
	"fmt"

	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/outline"
)

// MaxBytes is how large a plan may be. Beyond it a plan is a data file.
const MaxBytes = 8 << 20

// Document is a plan: its outline, the tasks in it, and which of its sections are about which task. It does not change
// after Parse.
type Document struct {
	*outlined
	marks    map[string][]span // by task id: what an explicit marker names
	general  []Part            // what is said of every task
	overview *Part             // nil if there is none
	contents string            // the headings, one per line
	titles   titles

	tasks    []task
	index    map[string]int // id to place among tasks
	findings []tasks.Finding
	fault    error // why there are no tasks
}

type outlined = outline.Choice

// Parse reads a plan; name is used in messages. One that is larger than MaxBytes or is not text is a
// *tasks.FormatError; one without tasks is not.
func Parse(name string, src []byte) (*Document, error) {
	if len(src) > MaxBytes {
		return nil, &tasks.FormatError{Path: name, Reason: fmt.Sprintf("larger than %d MiB", MaxBytes>>20)}
	}
	err := markdown.CheckText(src)
	var o *outline.Document
	if err == nil {
		o, err = outline.Read(name, markdown.EndLines(src))
	}
	if err != nil {
		return nil, &tasks.FormatError{Path: name, Reason: "the file " + err.Error()}
	}
	d := &Document{outlined: o.Choose()}
	d.readTasks()
	d.findMarkers()
	d.findGeneral()
	d.indexTitles()
	return d, nil
}

// Tasks returns the tasks in the order of the plan, or a *tasks.FormatError if it has none or too many. Their lists
// are shared: the caller must not change them. See rules for what is a task. Phases wait for the phase before them,
// except where the plan states dependencies.
func (d *Document) Tasks() ([]tasks.Task, error) {
	if d.fault != nil {
		return nil, d.fault
	}
	list := make([]tasks.Task, len(d.tasks))
	for i := range d.tasks {
		list[i] = d.tasks[i].Task
	}
	return list, nil
}

// Findings returns what the reader of tasks had to assume, such as a dependency on a missing task.
func (d *Document) Findings() []tasks.Finding { return d.findings }
