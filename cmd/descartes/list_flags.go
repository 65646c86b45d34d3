package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/cmd/descartes/complete"
	"descartes/config"
	"descartes/internal/terminal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

// leaf is a task that an agent can be given.
func leaf(b *view.Board, id string) (*tasks.Task, error) {
	t, err := need(b, id)
	if err == nil && t.Container() {
		err = badInput("its subtasks are: "+view.IDList(b.Detail(t).Children), "task %s has subtasks and never runs",
			t.ID)
	}
	return t, err
}

// register binds the flags of a command that looks at a list; withJSON says what it prints as JSON.
func (a *app) register(cmd *cobra.Command, withJSON string) {
	a.settings.register(cmd, func(one *config.Setting) bool { return one.Is("look") })
	cmd.Flags().Lookup("tag").Usage = "tag to look at (default: the active one, or the only one)"
	cmd.Flags().BoolVar(&a.json, "json", false, withJSON)
}

// registerGraph binds what changes the graph of a list.
func (a *app) registerGraph(cmd *cobra.Command) {
	f := cmd.Flags()
	a.Bind(f, func(one *config.Setting) bool { return one.Is("graph") })
	f.Lookup("plan").Usage = "plan `file` whose dependencies count too"
}

// source is the list that is meant: by flags, else by descartes.yaml, else by the
// tag's unfinished loop.
func (a *app) source() (c config.ScudConfig, err error) {
	_, c, err = a.list(a.cmd.ErrOrStderr())
	return c, err
}

// open opens the list that source means.
func (a *app) open() (c config.ScudConfig, file *tasks.File, err error) {
	if c, err = a.source(); err == nil {
		file, err = source.OpenTasks(a.root, c)
	}
	return c, file, err
}

// listOf is the source that flags mean, without a word.
func listOf(f *pflag.FlagSet) (root string, c config.ScudConfig, err error) {
	l, own := settings{Settings: config.New()}, pflag.NewFlagSet("", pflag.ContinueOnError)
	l.Bind(own, func(one *config.Setting) bool { return one.Is("look") || one.Flag == "config" })
	own.VisitAll(func(fl *pflag.Flag) {
		if f.Changed(fl.Name) {
			err = errors.Join(err, fl.Value.Set(complete.Value(f, fl.Name)))
		}
	})
	if err != nil {
		return "", c, err
	}
	return l.list(io.Discard)
}

func (l *settings) list(say io.Writer) (root string, c config.ScudConfig, err error) {
	if root, err = l.read(); err != nil {
		return root, c, err
	}
	c = config.ScudConfig{Tag: l.Scud.Tag, TasksFile: l.Scud.TasksFile, PlanPath: l.Scud.PlanPath,
		OpenInDone: l.Scud.OpenInDone}
	if l.Given("tasks-file") && !l.Given("tag") { // the tag of the settings is that of another file
		c.Tag = ""
	}
	return root, c, chooseSource(say, root, &c)
}

// loads reads a list: of the named plan, where the project has none.
func loads(root string, cfg config.Config) (*source.Job, []source.Problem) {
	if onlyPlan(root, cfg.Scud) {
		return source.LoadOrImport(root, cfg)
	}
	return source.Load(root, cfg)
}

// onlyPlan reports whether the tasks are those of the named plan, because the project has no list.
func onlyPlan(root string, c config.ScudConfig) bool {
	return c.PlanPath != "" && c.TasksFile == "" && len(tasks.Known(root)) == 0
}

// board reads the list that the flags mean, and what its loops know of it. Nothing is changed.
func (a *app) board() (*view.Board, error) {
	c, err := a.source()
	if err != nil {
		return nil, err
	}
	job, found := loads(a.root, a.models(c))
	if job == nil || len(found) > 0 && a.Given("plan") {
		return nil, problems(found)
	}
	b, err := view.NewBoard(job)
	if err == nil {
		b.Here = fromHere(a.root, c.TasksFile)
	}
	return b, err
}

// models is the settings of a look at a list, with what tasks are run with.
func (l *settings) models(c config.ScudConfig) config.Config {
	cfg := config.Config{Scud: c, Models: l.Models, ModelTiers: l.ModelTiers, AgentTypes: l.AgentTypes}
	if _, backend, err := config.ResolveBackend(l.Config); err == nil {
		cfg.Backend = backend
	}
	return cfg
}

// lastList is the file that the last run over tasks was given as its list, "" where its list has a place of its own.
func lastList(root string) string {
	home := store.NewHome(root)
	all, _ := home.List() // of a home that cannot be read the command itself says so
	var last *store.Saved
	for i := range all {
		if s := &all[i]; s.State != nil && s.State.Kind == store.KindTag &&
			(last == nil || home.Active(s).After(home.Active(last))) {
			last = s
		}
	}
	if last == nil || last.State.Config.Scud.TasksFile == "" {
		return ""
	}
	c := view.ListOf(last.State)
	if _, err := source.OpenTasks(root, c); err != nil {
		return ""
	}
	return c.TasksFile
}

// chooseSource completes which list is meant: the file of the last run where it has no other place, or where the tag is
// in no usual place the file of the loop over it, or the tag that is the active one, or the only one there is. Where nothing in the command
// line says so and there are others, say hears of it.
func chooseSource(say io.Writer, root string, c *config.ScudConfig) error {
	if c.Tag == "" && c.TasksFile == "" && c.PlanPath == "" {
		if c.TasksFile = lastList(root); c.TasksFile != "" && len(tasks.Known(root)) > 0 {
			fmt.Fprintf(say, "note: %s, the list of the last run\n", terminal.Clean(c.TasksFile))
		}
	}
	if c.Tag == "" && c.TasksFile != "" {
		return tagOfFile(root, c)
	}
	if c.Tag == "" {
		var err error
		if onlyPlan(root, *c) {
			c.Tag, err = tagOfPlan(c.PlanPath)
		} else {
			c.Tag, err = activeTag(say, root)
		}
		if err != nil {
			return err
		}
	}
	if err := tasks.ValidTag(c.Tag); err != nil {
		return err
	}
	if c.Tag == "master" { // which Task Master takes for the first tag where there is none of that name
		if f, err := source.OpenTasks(root, *c); err == nil && f.Tag() != c.Tag {
			fmt.Fprintf(say, "note: there is no tag master: using the first one: %s\n", terminal.Clean(f.Tag()))
			c.Tag = f.Tag()
		}
	}
	if c.TasksFile == "" {
		var missing *tasks.NotFoundError
		if _, err := tasks.Open(root, c.Tag); !errors.As(err, &missing) {
			return nil // what is wrong with it whoever opens it says
		}
		old, err := store.NewHome(root).OfTag(c.Tag)
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
		return "", badInput("name one with --tag: "+strings.Join(known, ", "),
			"%s says that the tag is %q, which no task file has", store.Relative(root, from), tag)
	case len(known) > 1:
		fmt.Fprintf(say, "note: tag %s, which %s names\n", terminal.Clean(tag),
			terminal.Clean(store.Relative(root, from)))
	}
	return tag, nil
}

// noTag says that no list is meant, or why the only one there is cannot be read.
func noTag(root string) error {
	if known := tasks.Known(root); len(known) > 0 {
		return badInput("known tags: "+strings.Join(known, ", "), "which tag? give --tag")
	}
	names := []string{"master.json"}
	files, _ := os.ReadDir(filepath.Join(root, ".scud", "tasks")) // without it there are none
	for _, f := range files[:min(len(files), 100)] {
		names = append(names, f.Name())
	}
	for _, name := range names {
		var broken *tasks.FormatError
		var missing *tasks.NotFoundError
		tag, isList := strings.CutSuffix(name, ".json")
		switch _, err := tasks.Open(root, tag); {
		case isList && errors.As(err, &broken):
			return err
		case errors.As(err, &missing) && len(missing.Empty) > 0:
			return badInput("", "%s has no tags", missing.Empty[0])
		}
	}
	hint := "write .scud/tasks/<tag>.json first, or make one of a plan: descartes tasks import plan.md"
	if name := planHere(root); name != "" {
		hint = "descartes waves --plan " + terminal.Quote(name) + " shows the tasks of that plan"
	}
	return badInput(hint, "there are no task files in %s", filepath.Join(root, ".scud", "tasks"))
}

// tagOfFile is the only tag of the file that was named, or the active one if the file has that.
func tagOfFile(root string, c *config.ScudConfig) error {
	f, err := source.OpenTasks(root, *c)
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

// task is one of the tag's tasks, with the tag.
func (a *app) task(id string) (*view.Board, *tasks.Task, error) {
	b, err := a.board()
	if err != nil {
		return nil, nil, err
	}
	t, err := need(b, id)
	return b, t, err
}

// need is the task of that id, in the list or added by a run, or an error that names it.
func need(b *view.Board, id string) (*tasks.Task, error) {
	t, ok := b.Graph.Task(id)
	if !ok {
		t, ok = b.File.Task(id)
	}
	if !ok {
		t, ok = b.Own(id)
	}
	if !ok {
		var ids []string
		for _, one := range b.File.Tasks() {
			ids = append(ids, one.ID)
		}
		return nil, badInput(cmp.Or(didYouMean(id, ids), "descartes tasks list"+b.Named()), "tag %q has no task %q",
			b.File.Tag(), id)
	}
	return t, nil
}
