package tasks

import "errors"

// BoxReader reads a document whose tasks are entries with boxes, which its caller knows to read. was are the tasks as
// known before: their ids stay. boxes are the places of each task's boxes in src, its own first.
type BoxReader func(src string, was []Task) (list []Task, findings []Finding, boxes [][][2]int, err error)

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
	list, findings, places, err := b.read(t.src, t.was)
	var wrong *FormatError
	if errors.As(err, &wrong) {
		return &problem{0, wrong.Reason}
	}
	if err != nil {
		return &problem{0, "the file " + err.Error()}
	}
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
