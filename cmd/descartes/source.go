package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/config"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/tasks"
)

// tagFlags holds the flags of the commands that look at a tag.
type tagFlags struct {
	settings
	json bool
}

func (l *tagFlags) register(cmd *cobra.Command, withJSON string) {
	l.settings.register(cmd, func(one *config.Setting) bool { return one.Is("look") })
	cmd.Flags().Lookup("scud-tag").Usage = "tag to look at (default: the active one, or the only one)"
	if withJSON != "" {
		cmd.Flags().BoolVar(&l.json, "json", false, withJSON)
	}
}

// registerGraph binds what changes the graph of a list.
func (l *tagFlags) registerGraph(cmd *cobra.Command) {
	f := cmd.Flags()
	l.Bind(f, func(one *config.Setting) bool { return one.Is("graph") })
	f.Lookup("plan").Usage = "plan `file` whose dependencies count too"
	f.Lookup("open-in-done").Usage = "count open subtasks of a task that is done as work to do"
}

// source is the project and which list of it is meant: by flags, else by descartes.yaml, else by the
// tag's unfinished loop.
func (l *tagFlags) source(cmd *cobra.Command) (root string, c loop.ScudConfig, err error) {
	f := cmd.Flags()
	if root, err = l.read(f); err != nil {
		return root, c, err
	}
	c = loop.ScudConfig{Tag: l.Scud.Tag, TasksFile: l.Scud.TasksFile, PlanPath: l.Scud.PlanPath, OpenInDone: l.Scud.OpenInDone}
	if f.Changed("tasks-file") && !f.Changed("scud-tag") { // the tag of the settings is that of another file
		c.Tag = ""
	}
	return root, c, chooseSource(cmd.ErrOrStderr(), root, &c)
}

// board reads the list that the flags mean, and what its loops know of it. Nothing is changed.
func (l *tagFlags) board(cmd *cobra.Command) (*report.Board, error) {
	root, c, err := l.source(cmd)
	if err != nil {
		return nil, err
	}
	job, found := loop.Load(root, l.models(c))
	if job == nil || len(found) > 0 && cmd.Flags().Changed("plan") {
		return nil, problems(found)
	}
	return report.NewBoard(job)
}

// models is the settings of a look at a list, with what tasks are run with.
func (l *tagFlags) models(c loop.ScudConfig) loop.Config {
	cfg := loop.Config{Scud: c, Models: l.Models, ModelTiers: l.ModelTiers, AgentTypes: l.AgentTypes}
	if _, backend, err := config.ResolveBackend(l.Config); err == nil {
		cfg.Backend = backend
	}
	return cfg
}

// chooseSource completes which list is meant: the file of the tag's unfinished loop, or the tag that
// is the active one, or the only one there is. Where a state file chose the tag, it is told to say.
func chooseSource(say io.Writer, root string, c *loop.ScudConfig) error {
	if c.Tag == "" && c.TasksFile != "" {
		return tagOfFile(root, c)
	}
	if c.Tag == "" {
		var err error
		if c.Tag, err = activeTag(say, root); err != nil {
			return err
		}
	}
	if err := tasks.ValidTag(c.Tag); err != nil {
		return err
	}
	if c.Tag == "master" { // which Task Master takes for the first tag where there is none of that name
		if f, err := loop.OpenTasks(root, *c); err == nil && f.Tag() != c.Tag {
			fmt.Fprintf(say, "note: there is no tag master, the first one is meant: %s\n", terminal.Clean(f.Tag()))
			c.Tag = f.Tag()
		}
	}
	if c.TasksFile == "" {
		old, err := unfinished(root, c.Tag)
		if err != nil || old == nil {
			return err
		}
		c.TasksFile = old.State.Config.Scud.TasksFile
	}
	return nil
}

// activeTag is the tag that a state file names, or the only one there is.
func activeTag(say io.Writer, root string) (string, error) {
	tag, from, ok := tasks.Active(root)
	if !ok {
		return "", noTag(root)
	}
	if base := filepath.Base(from); base != "active-tag" && !strings.HasSuffix(base, "state.json") {
		return tag, nil
	}
	known := tasks.Known(root)
	switch {
	case len(known) == 0:
		return "", noTag(root)
	case !slices.Contains(known, tag) && tag != "master":
		var missing *tasks.NotFoundError
		if _, err := tasks.Open(root, tag); err != nil && !errors.As(err, &missing) {
			return "", err
		}
		return "", badInput("name one with --scud-tag: "+strings.Join(known, ", "), "%s says that the tag is %q, which no task file has", report.Relative(root, from), tag)
	case len(known) > 1:
		fmt.Fprintf(say, "note: tag %s, which %s names\n", terminal.Clean(tag), terminal.Clean(report.Relative(root, from)))
	}
	return tag, nil
}

func noTag(root string) error {
	known := tasks.Known(root)
	if len(known) == 0 {
		var broken *tasks.FormatError // there is one, but it cannot be read
		var missing *tasks.NotFoundError
		if _, err := tasks.Open(root, "master"); errors.As(err, &broken) {
			return err
		} else if errors.As(err, &missing) && len(missing.Empty) > 0 {
			return badInput("", "%s has no tags", missing.Empty[0])
		}
		return badInput("write .scud/tasks/<tag>.json first, or make one of a plan: descartes tasks import --plan plan.md --scud-tag <tag>",
			"there are no task files in %s", filepath.Join(root, ".scud", "tasks"))
	}
	return badInput("known tags: "+strings.Join(known, ", "), "which tag? give --scud-tag")
}

// tagOfFile is the only tag of the file that was named, or the active one if the file has that.
func tagOfFile(root string, c *loop.ScudConfig) error {
	f, err := loop.OpenTasks(root, *c)
	var missing *tasks.NotFoundError
	if errors.As(err, &missing) {
		if tag, _, ok := tasks.Active(root); ok && slices.Contains(missing.Known, tag) {
			c.Tag = tag
			return nil
		}
	}
	if err == nil {
		c.Tag = f.Tag()
	}
	return err
}

// need is the task of that id, or an error that names it.
func need(b *report.Board, id string) (*tasks.Task, error) {
	t, ok := b.Graph.Task(id)
	if !ok {
		t, ok = b.File.Task(id)
	}
	if !ok {
		return nil, badInput("descartes tasks list"+b.Named(), "tag %q has no task %q", b.File.Tag(), id)
	}
	return t, nil
}

// findRoot is the project's folder: the nearest one at or above dir that has .scud, looked for up
// to the top of the git working tree; without any, that top; without git, dir itself.
func findRoot(dir string) (string, error) {
	dir, err := realDir(dir)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", err
	case !fi.IsDir():
		return "", badInput("", "working directory %s is not a directory", dir)
	}
	top := ""
	for d := dir; ; d = filepath.Dir(d) {
		if fi, err := os.Stat(filepath.Join(d, ".scud")); err == nil && fi.IsDir() {
			return d, hasRoom(d)
		}
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			top = d
			break
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	top = cmp.Or(top, dir)
	return top, hasRoom(top)
}

// hasRoom refuses a project in which something else has the place of .descartes.
func hasRoom(root string) error {
	path := filepath.Join(root, ".descartes")
	if fi, err := os.Stat(path); err == nil && !fi.IsDir() {
		return badInput("move it away: descartes keeps its files in a directory of that name", "%s is not a directory", path)
	}
	return nil
}

// realDir is dir without symbolic links, as git sees it: paths are compared with those that git knows.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	dir, err = filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", badInput("", "working directory %s: no such directory", abs)
	}
	return dir, err
}

// inProject makes a path that was typed in dir one that is relative to root, where it lies below it.
func inProject(root, dir, path string) string {
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return report.Relative(root, path)
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
