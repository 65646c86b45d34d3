package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"descartes/internal/plainfile"
	"descartes/tasks/plan"

	"github.com/spf13/cobra"

	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/tasks"
)

// newRunCmd is start for somebody who names what is to be run in the way that comes first to mind.
func newRunCmd() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "run [tag | file]",
		Short: "Run a task list, a plan or a prompt",
		Long: `Run the tasks of a tag, of a list in a file, or of a plan in Markdown, until they
are verified and committed; or repeat the prompt in a file.

  descartes run                     the only list, or a choice at a terminal
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
			return startRun(cmd, s, loop.Scope{})
		},
	}
	s.register(cmd, ofRun)
	return cmd
}

// importsPlan reports whether the plan may stand in for a missing list: it was named for this run, or the tag is the settings file's own. Where only the
// tag was named it may be mistyped.
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
	path := absolute(s.dirPath(), what)
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
	list, listed := loop.OpenTasks(root, loop.ScudConfig{TasksFile: path})
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
	doc, err := plan.Parse(what, text)
	if err == nil {
		_, err = doc.Tasks()
	}
	if err != nil {
		if err := s.repeats(cmd, what); err != nil {
			return err
		}
		return f.Set("prompt-file", what)
	}
	if front, _ := plan.ReadFrontMatter(text); front.Tag == "" {
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

// repeats makes sure that a file without tasks is meant as a prompt: its name says so, or a person at the terminal.
func (s *settings) repeats(cmd *cobra.Command, file string) error {
	if strings.Contains(strings.ToLower(filepath.Base(file)), "prompt") {
		return nil
	}
	h := s.asks(cmd)
	if h == nil || cmd.Flags().Changed("detach") {
		return badInput("descartes tasks plan "+terminal.Quote(file)+" has an agent write them; to repeat it as a prompt: descartes run --prompt-file "+terminal.Quote(file), "%s has no tasks", file)
	}
	if yes, _ := h.yes(cmd.Context(), file+" has no tasks. Repeat it as a prompt?", false); !yes {
		return &failure{code: exitInterrupted, err: errors.New("nothing was started")}
	}
	return nil
}

// chooseTag completes what is run where nobody said it: the only list of the project, or the one that a person at the terminal chooses.
func (s *settings) chooseTag(cmd *cobra.Command, root string) error {
	known := tasks.Known(root)
	if len(known) < 2 {
		s.Scud.Tag = strings.Join(known, "")
		if onlyPlan(root, s.Scud) {
			return chooseSource(cmd.ErrOrStderr(), root, &s.Scud)
		}
		return nil
	}
	h, hint := s.asks(cmd), "known tags: "+strings.Join(known, ", ")
	if h == nil {
		return badInput(hint, "which tag? give --tag")
	}
	active, _, _ := tasks.Active(root)
	usual := max(0, slices.Index(known, active))
	for i, tag := range known {
		fmt.Fprintf(h.out, "  %d  %s\n", i+1, terminal.Clean(tag))
	}
	for range 5 {
		line, ok := h.line(cmd.Context(), fmt.Sprintf("Which one? A number or a name; q leaves [%d]", usual+1))
		n, err := strconv.Atoi(cmp.Or(line, strconv.Itoa(usual+1)))
		switch {
		case !ok:
			return badInput(hint, "no tag was chosen")
		case slices.Contains(known, line):
			s.Scud.Tag = line
			return nil
		case line == "q":
			return &failure{code: exitInterrupted, err: errors.New("nothing was started")}
		case err == nil && n >= 1 && n <= len(known):
			s.Scud.Tag = known[n-1]
			return nil
		}
		fmt.Fprintln(h.out, terminal.Clean(strings.TrimRight(fmt.Sprintf("There is no tag %q; %s", line, didYouMean(line, known)), "; ")))
	}
	return badInput(hint, "no tag was chosen")
}
