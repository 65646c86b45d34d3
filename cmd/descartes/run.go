package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/config"
	"descartes/internal/plainfile"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/tasks/front"
	"descartes/tasks/plan"
)

// newRunCmd is start for somebody who names what is to be run in the way that comes first to mind.
func newRunCmd() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "run [tag | file]",
		Short: "Run a task list, a plan or a prompt",
		Long: `Run the tasks of a tag, of a list in a file, or of a plan in Markdown, until they
are verified and committed; or repeat the prompt in a file.

  descartes run                     the only list
  descartes run feature-x           a tag
  descartes run plan.md             a plan: its tasks become the tag "plan"
  descartes run specs/1/tasks.md    a task list of any known format
  descartes run prompt.md           a prompt, repeated until it is done

` + exitTable,
		Args: takes(0, 1, "one tag or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.source(cmd, args); err != nil {
				return err
			}
			return startRun(cmd, s, store.Scope{})
		},
	}
	s.register(cmd, ofRun)
	return cmd
}

// importsPlan reports whether the plan may stand in for a missing list: it was named for this run, or the tag is the
// settings file's own. Where only the tag was named it may be mistyped.
func (s *settings) importsPlan() bool { return s.Given("plan") || !s.Given("tag") }

// source sets the flag that the argument, a tag or a file, stands for.
func (s *settings) source(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	f, what := cmd.Flags(), args[0]
	for _, flag := range []string{"tag", "tasks-file", "prompt", "prompt-file"} {
		if f.Changed(flag) {
			return badInput("leave one of them out", "%q and --%s both say what to run", what, flag)
		}
	}
	root, err := findRoot(s.Dir)
	if err != nil {
		return err
	}
	known := tasks.Known(root)
	path := launch.Absolute(s.dirPath(), what)
	fi, err := os.Stat(path)
	switch {
	case slices.Contains(known, what):
		return f.Set("tag", what)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		hint := didYouMean(what, known)
		if hint == "" && len(known) > 0 {
			hint = "known tags: " + strings.Join(known, ", ")
		}
		return badInput(cmp.Or(hint, hintOfTasks(root)), "there is no tag and no file %q", what)
	case err != nil:
		return err
	case fi.IsDir():
		return badInput("name the file in it, such as "+filepath.Join(what, "tasks.md"), "%s is a directory", what)
	}
	list, listed := source.OpenTasks(root, config.ScudConfig{TasksFile: path})
	imported := false // before its boxes were read: the list has the statuses
	if listed == nil && list.IsPlan() {
		_, err := tasks.Open(root, list.Tag())
		imported = err == nil
	}
	var several *tasks.NotFoundError
	if listed == nil && !imported || errors.As(listed, &several) && len(several.Known) > 0 {
		return f.Set("tasks-file", what)
	}
	if ext := strings.ToLower(filepath.Ext(what)); ext != ".md" && ext != ".markdown" && ext != ".txt" {
		return listed
	}
	text, err := plainfile.Read(root, path, config.MaxFile)
	if err != nil {
		return badInput("", "%w", err)
	}
	return planOrPrompt(f, what, text)
}

// planOrPrompt sets the flags that a text stands for, which is a plan if it has tasks, and else a prompt if its name
// says so.
func planOrPrompt(f *pflag.FlagSet, what string, text []byte) error {
	doc, err := plan.Parse(what, text)
	if err == nil {
		_, err = doc.Tasks()
	}
	if err != nil {
		if strings.Contains(strings.ToLower(filepath.Base(what)), "prompt") {
			return f.Set("prompt-file", what)
		}
		return badInput("descartes tasks plan "+terminal.Quote(what)+
			" has an agent write them; to repeat it as a prompt: descartes run --prompt-file "+terminal.Quote(what),
			"%w", err)
	}
	if matter, _ := front.Read(text); matter.Tag == "" {
		tag, err := tagOfPlan(what)
		if err != nil {
			return err
		}
		if err := f.Set("tag", tag); err != nil {
			return err
		}
	}
	return f.Set("plan", what)
}
