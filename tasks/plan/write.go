package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"descartes/internal/atomicfile"

	"descartes/tasks"
)

// tagFile is .scud/tasks/<tag>.json as Write makes it.
type tagFile struct {
	Tag   string    `json:"tag"`
	Tasks []tagTask `json:"tasks"`
}

type tagTask struct {
	ID           json.RawMessage   `json:"id"`
	Title        string            `json:"title"`
	Description  string            `json:"description,omitempty"`
	TestStrategy string            `json:"test_strategy,omitempty"`
	Status       tasks.Status      `json:"status"`
	Complexity   json.RawMessage   `json:"complexity"` // some readers of this format want it always
	Priority     string            `json:"priority"`
	DependsOn    []json.RawMessage `json:"depends_on"`
	ParentID     json.RawMessage   `json:"parent_id,omitempty"`
	Phase        string            `json:"phase,omitempty"`
}

// Write makes the file .scud/tasks/<tag>.json of the project at root and returns its path. Where a task file has the
// tag already, wherever that is, nothing is written and the error is an fs.ErrExist.
func (d *Document) Write(root, tag string) (string, error) {
	path, err := tasks.TagPath(root, tag)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("import tasks to %s: %w", path, fs.ErrExist)
	} else if !os.IsNotExist(err) {
		return "", err
	}
	if f, err := tasks.Open(root, tag); err == nil {
		return "", fmt.Errorf("import tasks to %s: the tag is in %s: %w", path, f.Path(), fs.ErrExist)
	}
	out, err := d.encode(tag)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := atomicfile.Write(atomicfile.OS(), path, out, 0o644); err != nil {
		return "", fmt.Errorf("import tasks to %s: %w", path, err)
	}
	return path, nil
}

// List is the task file that Write would make.
func (d *Document) List(root, tag string) (*tasks.File, error) {
	path, err := tasks.TagPath(root, tag)
	if err != nil {
		return nil, err
	}
	out, err := d.encode(tag)
	if err != nil {
		return nil, err
	}
	return tasks.Parse(path, tag, out)
}

// encode writes the list as a task file of one tag.
func (d *Document) encode(tag string) ([]byte, error) {
	numeric := map[string]bool{}
	for i := range d.tasks {
		numeric[d.tasks[i].ID] = d.tasks[i].Numeric
	}
	id := func(s string) json.RawMessage {
		if s == "" {
			return nil
		}
		if numeric[s] {
			return json.RawMessage(s)
		}
		text, _ := json.Marshal(s) // a string always can be
		return text
	}
	doc := tagFile{Tag: tag, Tasks: make([]tagTask, 0, len(d.tasks))}
	for i := range d.tasks {
		t := &d.tasks[i]
		x := tagTask{ID: id(t.ID), Title: t.Title, Description: t.Description, TestStrategy: t.TestStrategy, Status: t.Status,
			Complexity: json.RawMessage("0"), Priority: t.Priority, DependsOn: []json.RawMessage{}, ParentID: id(t.Parent), Phase: t.label}
		if t.Complexity != "" {
			x.Complexity = json.RawMessage(t.Complexity)
		}
		for _, on := range t.DependsOn {
			x.DependsOn = append(x.DependsOn, id(on))
		}
		doc.Tasks = append(doc.Tasks, x)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("write the tasks of %s: %w", d.Name, err)
	}
	return b.Bytes(), nil
}
