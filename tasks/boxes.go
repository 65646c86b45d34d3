package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"descartes/tasks/prose"
)

// BoxReader reads a document whose tasks are entries with boxes, which its caller knows to read. boxes are the places
// of each task's boxes in src, its own first.
type BoxReader func(src string) (list []Task, findings []Finding, boxes [][][2]int, err error)

// boxes is a document in which a task is done when its box is ticked.
type boxes struct{ read BoxReader }

// OpenBoxes reads the file at path as a list of the tag whose statuses are boxes. Of the tasks in was, ids and titles
// count.
func OpenBoxes(path, tag string, was []Task, read BoxReader) (*File, error) {
	src, err := readShared(path)
	if err != nil {
		return nil, err
	}
	return (&text{path: path, src: src, format: &boxes{read}, was: was}).open(tag)
}

func (*boxes) Match(*text) bool    { return false } // no file says so by itself
func (*boxes) Tags(*text) []string { return nil }

func (b *boxes) Read(t *text, f *File) *problem {
	list, findings, places, err := b.read(t.src)
	var wrong *FormatError
	if errors.As(err, &wrong) {
		return &problem{0, wrong.Reason}
	}
	if err != nil {
		return &problem{0, "the file " + err.Error()}
	}
	f.inOrder = true
	keepIDs(list, t.was)
	for i, task := range list {
		s := site{}
		for k, at := range places[i] {
			if k == 0 {
				s.span, s.at = span{at[0], at[1]}, at[0]
			} else {
				s.more = append(s.more, span{at[0], at[1]})
			}
		}
		if p := f.add(task, s); p != nil {
			return p
		}
	}
	f.findings = append(f.findings, findings...)
	return nil
}

// SetStatus ticks the boxes of a task, or takes the ticks away.
func (*boxes) SetStatus(t *Task, s Status) (Status, string) { return checklist{}.SetStatus(t, s) }

// IsPlan reports whether the list is a plan with boxes.
func (f *File) IsPlan() bool {
	_, ok := f.format.(*boxes)
	return ok
}

// Reread returns the list with other bytes. What is known about its place stays.
func (f *File) Reread(src []byte) (*File, error) { return f.reread(src) }

// again takes the bytes of a file apart that was read before.
func (f *File) again(src string) (*text, error) {
	if !f.IsPlan() {
		return takeApart(f.path, src)
	}
	t := &text{path: f.path, src: src, format: f.format, was: f.tasks}
	if p := notText(src); p != nil {
		return nil, t.refuse(p)
	}
	return t, nil
}

// keepIDs gives tasks with the titles of known ones the ids of these, equal titles in their order. Any other one whose
// place was another's gets the next free number.
func keepIDs(list, was []Task) {
	known, taken := map[string][]string{}, map[string]bool{} // by title; by id
	for _, t := range was {
		title := prose.Fold(t.Title)
		known[title], taken[t.ID] = append(known[title], t.ID), true
	}
	now := map[string]string{} // by the id that the place gives
	for i := range list {
		if title := prose.Fold(list[i].Title); len(known[title]) > 0 {
			now[list[i].ID], known[title] = known[title][0], known[title][1:]
		}
	}
	tried := map[string]int{} // by the phase
	for i := range list {
		id := list[i].ID
		if now[id] != "" {
			continue
		}
		free, phase := id, id[:1+strings.LastIndex(id, ".")]
		for taken[free] {
			tried[phase]++
			free = fmt.Sprint(phase, tried[phase])
		}
		now[id], taken[free] = free, true
	}
	for i := range list {
		t := &list[i]
		t.ID, t.DependsOn = now[t.ID], slices.Clone(t.DependsOn)
		t.Numeric = t.Numeric && prose.PlainNumber(t.ID)
		for k, on := range t.DependsOn {
			t.DependsOn[k] = cmp.Or(now[on], on)
		}
	}
}
