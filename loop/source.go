package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"descartes/scheduler"
	"descartes/tasks"
	"descartes/tasks/plan"
)

// open reads the task list and makes its graph. The plan's text adds the dependencies that only it states; with
// imports, it stands in for a missing list.
func (j *Job) open(text string, imports bool) error {
	c := &j.Config.Scud
	file, err := OpenTasks(j.Root, *c)
	var missing *tasks.NotFoundError
	imports = imports && c.TasksFile == "" && errors.As(err, &missing)
	if err != nil && (!imports || text == "") {
		return err
	}
	var more map[string][]string
	if text != "" {
		p, perr := plan.Parse(c.PlanPath, []byte(text))
		switch {
		case imports && perr != nil:
			return fmt.Errorf("%w; and of the plan none can be made: %w", err, perr)
		case imports:
			if file, err = p.List(j.Root, c.Tag); err != nil {
				return err
			}
			j.Import = p
		case perr == nil: // most plans have no tasks of their own
			more, j.Conflicts = p.Extra(file.Tasks())
		}
	}
	j.File, j.all = file, slices.Clone(file.Tasks())
	c.Tag = file.Tag()
	external, why := otherTags(j.Root, *c)
	j.Graph = scheduler.New(j.all, scheduler.Options{External: external, ExternalErr: why, OpenInDone: c.OpenInDone, More: more})
	return nil
}

// OpenTasks opens the task list that the settings mean: the file that they name, or where the tag is found.
func OpenTasks(root string, c ScudConfig) (*tasks.File, error) {
	if c.TasksFile == "" {
		return tasks.Open(root, c.Tag)
	}
	f, err := tasks.OpenPath(tasksPath(&c, root), c.Tag)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("task file %s: %w", c.TasksFile, fs.ErrNotExist)
	}
	return f, err
}

func tasksPath(c *ScudConfig, root string) string {
	if filepath.IsAbs(c.TasksFile) {
		return c.TasksFile
	}
	return filepath.Join(root, c.TasksFile)
}

// overlay takes from the tag's last loop which tasks are blocked, where the task file has no word for that.
func (j *Job) overlay() error {
	if j.File == nil || j.File.Holds(tasks.Blocked) {
		return nil
	}
	home := NewHome(j.Root)
	last, err := home.LastOf(j.File.Tag())
	if err != nil || last == nil {
		return err
	}
	v, err := home.View(*last, j.File)
	if err != nil {
		return err
	}
	for _, b := range v.State.BlockedTasks {
		if j.Graph.Status(b.Task.ID) == tasks.Pending {
			j.Graph.SetStatus(b.Task.ID, tasks.Blocked)
		}
	}
	return nil
}

// otherTags looks up a task of another tag in that tag's own list, each read once, and says which list
// cannot be read. A file that was named is asked first.
func otherTags(root string, c ScudConfig) (external func(tag, id string) (tasks.Status, bool), why func(tag string) error) {
	type list struct {
		file *tasks.File
		err  error
	}
	lists := map[string]list{}
	open := func(tag string) list {
		l, seen := lists[tag]
		if !seen {
			l.file, l.err = otherTag(root, c, tag)
			lists[tag] = l
		}
		return l
	}
	external = func(tag, id string) (tasks.Status, bool) {
		l := open(tag)
		if l.file == nil {
			return "", false
		}
		return l.file.Outcome(id)
	}
	why = func(tag string) error {
		err := open(tag).err
		var missing *tasks.NotFoundError
		var invalid *tasks.TagError
		if errors.As(err, &missing) && len(missing.Broken) == 0 || errors.As(err, &invalid) {
			return nil
		}
		return err
	}
	return external, why
}

func otherTag(root string, c ScudConfig, tag string) (*tasks.File, error) {
	if c.TasksFile != "" {
		// A list without tags passes for any: only a file that misses a tag that no file has holds several.
		var missing *tasks.NotFoundError
		if _, err := tasks.OpenPath(tasksPath(&c, root), "?"); errors.As(err, &missing) && slices.Contains(missing.Known, tag) {
			if f, err := tasks.OpenPath(tasksPath(&c, root), tag); err == nil {
				return f, nil
			}
		}
	}
	return tasks.Open(root, tag)
}
