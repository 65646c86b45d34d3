package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

const master = "master" // the tag of Task Master's lists without tags

// taskMaster is Task Master's tasks.json, known by its place: SCUD's are below .scud. A task contains its subtasks.
type taskMaster struct{ scud }

func (m taskMaster) Match(t *text) bool {
	path, err := filepath.Abs(t.path)
	return err == nil && filepath.Base(path) == manyTags && filepath.Base(
		filepath.Dir(filepath.Dir(path))) != ".scud" && m.scud.Match(t)
}

func (m taskMaster) Tags(t *text) []string {
	tags := m.scud.Tags(t)
	if tags == nil && t.flat() {
		return []string{master}
	}
	return tags
}

func (m taskMaster) Read(t *text, f *File) *problem {
	if tags := m.Tags(t); f.tag == master && !slices.Contains(tags, master) {
		f.tag = tags[0] // as Task Master does
		f.find("tag", fmt.Sprintf("there is no tag %s: the first one is read: %s", master, prose.Short(f.tag)))
	}
	return m.scud.Read(t, f)
}

// SetStatus knows no failed, as Task Master does not.
func (m taskMaster) SetStatus(t *Task, s Status) (Status, string) {
	if s == Failed && t.Status != Failed {
		s = Blocked
	}
	return m.scud.SetStatus(t, s)
}

// subtasks reads what a container holds: objects, as Task Master nests them, or ids, as SCUD lists them.
func (r *reader) subtasks(e *entry, v gjson.Result) *problem {
	if !v.IsArray() {
		if plain(v) != "" {
			return &problem{v.Index, "subtasks must be an array"}
		}
		return nil
	}
	before := len(r.tasks)
	p := r.list(v, e)
	r.explicit = r.explicit || len(r.tasks) > before || len(e.site.children) > 0
	return p
}

// nestedKey names a task by its container, as 1 + its place, and by its id as the file has it.
type nestedKey struct {
	up int
	id string
}

// nest completes the ids of tasks in containers, and the dependencies that name them.
func (r *reader) nest() *problem {
	full := map[nestedKey]string{}
	own := make([]string, len(r.tasks)) // ids as the file has them
	for i := range r.tasks {
		t, s := &r.tasks[i], &r.sites[i]
		if own[i] = t.ID; s.up == 0 {
			continue
		}
		t.Parent = r.tasks[s.up-1].ID
		t.ID = nestedID(t.Parent, own[s.up-1], t.ID)
		full[nestedKey{s.up, own[i]}] = t.ID
		if len(t.ID) > prose.MaxID {
			return &problem{s.at, prose.IDProblem(t.ID)}
		}
	}
	if len(full) > 0 {
		r.resolve(full)
	}
	return nil
}

// nestedID is the complete id of a task in a container: 12 and 3 is 12.3. Some files repeat the container's id, whole
// (12.3, also as the number 12.3) or its last part (in 1.2, 2.3 is 1.2.3).
func nestedID(parent, ownParent, id string) string {
	if strings.HasPrefix(id, parent+".") {
		return id
	}
	return parent + "." + strings.TrimPrefix(id, ownParent+".")
}

// resolve completes the dependencies of nested tasks: a task in the same container, else one in a surrounding
// container, else one of the list.
func (r *reader) resolve(full map[nestedKey]string) {
	for i := range r.tasks {
		list := r.tasks[i].DependsOn
		for k, id := range list {
			for u := r.sites[i].up; u > 0; u = r.sites[u-1].up {
				if whole, ok := full[nestedKey{u, id}]; ok {
					list[k] = whole
					break
				}
			}
		}
		r.tasks[i].DependsOn = unique(list)
	}
}
