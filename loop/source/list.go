package source

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/tasks/plan"
)

// OpenTasks opens the task list that the settings mean: the file they name, or the one that has the tag.
func OpenTasks(root string, c config.ScudConfig) (*tasks.File, error) {
	if c.TasksFile == "" {
		return tasks.Open(root, c.Tag)
	}
	f, err := plan.Open(tasksPath(&c, root), c.Tag, func(tag string) (was []tasks.Task) {
		home := store.NewHome(root)
		last, _ := home.LastOf(home.KeyAt(tasksPath(&c, root), tag))
		if last == nil {
			return nil
		}
		for _, e := range last.State.Entries {
			was = append(was, tasks.Task{ID: e.ID, Title: e.Title})
		}
		return was
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("task file %s: %w", c.TasksFile, fs.ErrNotExist)
	}
	return f, err
}

func tasksPath(c *config.ScudConfig, root string) string {
	if filepath.IsAbs(c.TasksFile) {
		return c.TasksFile
	}
	return filepath.Join(root, c.TasksFile)
}

// Key names the list that the settings mean among the files of the project, which need not be there yet.
func Key(root string, c config.ScudConfig) string {
	if c.TasksFile == "" {
		return gitops.Named{Tag: c.Tag}.Key()
	}
	return store.NewHome(root).KeyAt(tasksPath(&c, root), c.Tag)
}

// otherTags looks up tasks of other tags in their own lists, each read once, and says why a list cannot be read. It
// tries a file named in the settings first.
func otherTags(root string, c config.ScudConfig) (external func(tag, id string) (tasks.Status, bool),
	why func(tag string) error) {
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

func otherTag(root string, c config.ScudConfig, tag string) (*tasks.File, error) {
	if c.TasksFile != "" {
		// A list without tags accepts any tag. Only a file with several tags can lack a tag that no file has.
		var missing *tasks.NotFoundError
		if _, err := tasks.OpenPath(tasksPath(&c, root), "?"); errors.As(err, &missing) &&
			slices.Contains(missing.Known, tag) {
			if f, err := tasks.OpenPath(tasksPath(&c, root), tag); err == nil {
				return f, nil
			}
		}
	}
	return tasks.Open(root, tag)
}

// StaleError says that the task file changed between reading and locking it: another loop ran meanwhile, or the user
// saved it.
type StaleError struct{ Path string }

func (e *StaleError) Error() string {
	return fmt.Sprintf("%s was changed while the run was starting; look at it, and start again", e.Path)
}

// Next is what to do about it, "" where the message says that.
func (e *StaleError) Next() string { return "" }

// Unchanged reads the list again. What others write about other tags of the file is no change.
func Unchanged(f *tasks.File) error {
	before := f.Tasks()
	if err := f.Refresh(); err != nil {
		return fmt.Errorf("read task file: %w", err)
	}
	if !reflect.DeepEqual(before, f.Tasks()) {
		return &StaleError{Path: f.Path()}
	}
	return nil
}
