package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"descartes/internal/atomicfile"
)

// tagFile is .scud/tasks/<tag>.json as WriteTagFile makes it.
type tagFile struct {
	Tag   string    `json:"tag"`
	Tasks []tagTask `json:"tasks"`
}

type tagTask struct {
	ID           json.RawMessage   `json:"id"`
	Title        string            `json:"title"`
	Description  string            `json:"description,omitempty"`
	TestStrategy string            `json:"test_strategy,omitempty"`
	Status       Status            `json:"status"`
	Complexity   json.RawMessage   `json:"complexity"` // some readers of this format want it always
	Priority     string            `json:"priority"`
	DependsOn    []json.RawMessage `json:"depends_on"`
	ParentID     json.RawMessage   `json:"parent_id,omitempty"`
	Phase        string            `json:"phase,omitempty"`
}

// TagPath is where the task list of one tag has its own file.
func TagPath(root, tag string) string { return filepath.Join(root, ".scud", "tasks", tag+".json") }

// WriteTagFile makes the file .scud/tasks/<tag>.json of the project at root from a plan and returns its path. Where a task file has the
// tag already, wherever that is, nothing is written and the error is an fs.ErrExist.
func WriteTagFile(fsys atomicfile.FS, root, tag string, p *PlanTasks) (string, error) {
	if err := plainTag(tag); err != nil {
		return "", err
	}
	path := TagPath(root, tag)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("import tasks to %s: %w", path, fs.ErrExist)
	} else if !os.IsNotExist(err) {
		return "", err
	}
	if f, err := Open(root, tag); err == nil {
		return "", fmt.Errorf("import tasks to %s: the tag is in %s: %w", path, f.Path(), fs.ErrExist)
	}
	out, err := p.encode(tag)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := atomicfile.Write(fsys, path, out, 0o644); err != nil {
		return "", fmt.Errorf("import tasks to %s: %w", path, err)
	}
	return path, nil
}

// List is the task file that WriteTagFile would make, before it is there.
func (p *PlanTasks) List(root, tag string) (*File, error) {
	if err := plainTag(tag); err != nil {
		return nil, err
	}
	out, err := p.encode(tag)
	if err != nil {
		return nil, err
	}
	return decode(TagPath(root, tag), tag, string(out))
}

// encode writes the list as a task file of one tag.
func (p *PlanTasks) encode(tag string) ([]byte, error) {
	if p.limit != nil {
		return nil, p.limit
	}
	numeric := map[string]bool{}
	for i := range p.tasks {
		numeric[p.tasks[i].ID] = p.tasks[i].Numeric
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
	doc := tagFile{Tag: tag, Tasks: make([]tagTask, 0, len(p.tasks))}
	for i := range p.tasks {
		t := &p.tasks[i]
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
		return nil, fmt.Errorf("write the tasks of %s: %w", p.Name, err)
	}
	return b.Bytes(), nil
}
