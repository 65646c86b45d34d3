package plan

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
	"descartes/tasks"
	"descartes/tasks/front"
)

// maxPlan bounds, in bytes, a plan whose front matter is read.
const maxPlan = 64 << 20

// Open is tasks.OpenPath that also reads a plan whose tasks have boxes: these are their statuses. known, which may be
// nil, returns the tasks of the tag as they were known last, with ids and titles: most ids are places in the plan, and
// somebody may have added an entry since.
func Open(path, tag string, known func(tag string) []tasks.Task) (*tasks.File, error) {
	f, err := tasks.OpenPath(path, tag)
	var other *tasks.FormatError
	if err == nil || !errors.As(err, &other) || !strings.HasPrefix(strings.ToLower(filepath.Ext(path)), ".m") {
		return f, err
	}
	if tag == "" {
		src, rerr := plainfile.Read("", path, maxPlan)
		if rerr != nil { // it is no file, which err says
			return nil, err
		}
		matter, _ := front.Read(src)
		tag = cmp.Or(matter.Tag, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	}
	var was []tasks.Task
	if known != nil {
		was = known(tag)
	}
	list, notBoxed := tasks.OpenBoxes(path, tag, was, func(src string) ([]tasks.Task, []tasks.Finding, [][][2]int, error) {
		return boxed(path, src)
	})
	if notBoxed != nil {
		return nil, err
	}
	return list, nil
}

// Boxed reports whether every task of the plan is an entry with a box.
func (d *Document) Boxed() bool {
	return len(d.tasks) > 0 && !slices.ContainsFunc(d.tasks,
		func(t task) bool { return t.Container() || d.Lines[t.Line-1].Box == 0 })
}

// Within reports whether a line, from 0, belongs to a task.
func (d *Document) Within(line int) bool {
	return slices.ContainsFunc(d.tasks, func(t task) bool { return t.Line-1 <= line && line < t.last })
}

// boxed reads a plan as a list whose statuses are boxes.
func boxed(path, src string) ([]tasks.Task, []tasks.Finding, [][][2]int, error) {
	d, err := Parse(path, []byte(src))
	if err != nil {
		return nil, nil, nil, err
	}
	if !d.Boxed() {
		return nil, nil, nil, cmp.Or(d.fault, errors.New("has tasks without a box"))
	}
	list, _ := d.Tasks()
	places := make([][][2]int, len(list))
	for i := range d.tasks {
		for n := list[i].Line - 1; n < d.tasks[i].last; n++ {
			if l := &d.Lines[n]; l.Box != 0 {
				places[i] = append(places[i], [2]int{l.Mark, l.MarkEnd})
			}
		}
	}
	return list, d.findings, places, nil
}
