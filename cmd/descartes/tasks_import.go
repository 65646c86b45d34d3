package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/view"
	"descartes/view/print"
)

func newTasksImportCmd() *cobra.Command {
	var a app
	var dryRun, force bool
	cmd := &cobra.Command{
		Use:   "import [plan]",
		Short: "Make a task file from the tasks in a Markdown plan",
		Long: `Make a task file from the tasks in a Markdown plan.

Tasks are found in headings "Task 1: Title", in phases with their items, in tables and in checklists,
where [x] is done; dependencies in "Depends on: 1, 2", "(blocked by 3)", "blocks 4" and tables. Phases
wait for the phase before them, unless the plan says what their tasks wait for. Items that are numbered on from phase to phase keep their numbers.

A tag that already has tasks is never changed. A dependency on a task that the plan does not have is an error.`,
		Args: takes(0, 1, "one plan"),
		RunE: a.does(func(args []string) error {
			if len(args) == 1 && a.Scud.PlanPath != "" {
				return badInput("leave one of them out", "%q and --plan both name the plan", args[0])
			}
			return a.importPlan(oneArg(args, a.Scud.PlanPath), dryRun, force)
		}),
	}
	a.flags(cmd, "print the tasks as JSON")
	f := cmd.Flags()
	f.StringVar(&a.Scud.PlanPath, "plan", "", "plan `file`")
	f.StringVar(&a.Scud.Tag, "tag", "",
		"`tag` that the tasks get (default: the one in the plan's front matter, else the plan's name)")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	f.BoolVar(&force, "force", false,
		"import it even if dependencies name missing tasks; the tasks that need those are held")
	return cmd
}

type importJSON struct {
	Tag      string            `json:"tag"`
	Plan     string            `json:"plan"`
	File     string            `json:"file"`
	Written  bool              `json:"written"`
	Tasks    []view.TaskDetail `json:"tasks"`
	Findings []view.Finding    `json:"findings"`
}

func (a *app) importPlan(name string, dryRun, force bool) (err error) {
	c := &a.Scud
	if name == "" {
		return badInput("descartes tasks import plan.md", "which plan?")
	}
	c.PlanPath = inProject(a.root, a.dirPath(), name)
	if _, err := source.PlanText(a.root, c.PlanPath); err != nil {
		return badInput("", "%w", err)
	}
	if err = cmp.Or(a.fromPlan(a.root), a.frontProblem()); err == nil && c.Tag == "" {
		c.Tag, err = tagOfPlan(c.PlanPath)
	}
	if err = cmp.Or(err, tasks.ValidTag(c.Tag)); err != nil {
		return err
	}
	job, found := source.LoadOrImport(a.root, config.Config{Scud: config.ScudConfig{Tag: c.Tag, PlanPath: c.PlanPath}})
	switch {
	case job == nil || len(found) > 0:
		return problems(found)
	case job.Import == nil:
		if list, err := source.OpenTasks(a.root, config.ScudConfig{TasksFile: c.PlanPath}); err == nil {
			return a.isList(list, dryRun)
		}
		return taken(a.root, job.File, "")
	}
	b, err := view.NewBoard(job)
	if err != nil {
		return err
	}
	if missing := missingOf(job.Graph.Problems()); len(missing) > 0 && !force {
		return append(missing, source.Problem{Message: "nothing is imported",
			Hint: "correct the plan, or import it as it is with --force: such tasks are held"})
	}
	verb := "dry run: would write"
	if !dryRun {
		if err := unowned(a.home, job.File); err != nil {
			return err
		}
		if _, err = job.Import.Write(a.root, c.Tag); errors.Is(err, fs.ErrExist) {
			err = taken(a.root, job.File, "")
		}
		if err != nil {
			return err
		}
		verb = "wrote"
	}
	file, odd := store.Relative(a.root, job.File.Path()), slices.Concat(a.front, job.Import.Findings())
	out := print.Waves(b, terminal.Colours(terminal.IsTerminal(a.out())), terminal.Columns(a.out())) + "\n"
	for _, f := range odd {
		out += "warning: " + terminal.Clean(launch.Placed(c.PlanPath, f)) + "\n"
	}
	n, done := b.Graph.Counts(), ""
	if n.Done > 0 {
		done = fmt.Sprintf(", %d of them done", n.Done)
	}
	out += fmt.Sprintf("%s %s: %s of %s%s\n", verb, terminal.Clean(file), terminal.Count(n.Total, "task"),
		terminal.Clean(c.PlanPath), done)
	return a.show(importJSON{c.Tag, c.PlanPath, file, !dryRun, b.Details(), b.PlanFindings(odd)}, out)
}

// isList says that a file needs no import: its boxes are the statuses of its tasks, which a dry run shows.
func (a *app) isList(list *tasks.File, dryRun bool) error {
	name, flag := a.Scud.PlanPath, "--tasks-file "
	if list.IsPlan() {
		flag = "--plan "
	}
	if !dryRun {
		return badInput("descartes waves "+flag+terminal.Quote(name)+" shows its tasks, descartes run "+
			terminal.Quote(name)+" runs them", "%s has boxes: they are its statuses, and a run ticks them", name)
	}
	job, found := source.Load(a.root, config.Config{Scud: config.ScudConfig{Tag: list.Tag(), TasksFile: name}})
	if job == nil || len(found) > 0 {
		return problems(found)
	}
	b, err := view.NewBoard(job)
	if err != nil {
		return err
	}
	out := print.Waves(b, terminal.Colours(terminal.IsTerminal(a.out())), terminal.Columns(a.out())) +
		fmt.Sprintf("\n%s runs as it is, without an import: descartes run %s\n", terminal.Clean(name), terminal.Quote(name))
	return a.show(importJSON{list.Tag(), name, name, false, b.Details(), b.PlanFindings(a.front)}, out)
}

// missingOf are the dependencies on tasks that a list does not have.
func missingOf(found []scheduler.Problem) (list problems) {
	for _, p := range found {
		if p.Kind == "missing" {
			list = append(list, source.Problem{Message: p.Message})
		}
	}
	return list
}

// tagOfPlan is the tag of a plan that names none: its file's name.
func tagOfPlan(path string) (string, error) {
	tag := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if err := tasks.ValidTag(tag); err != nil {
		return "", badInput("name the tag with --tag, or with tag: in the plan's front matter",
			"the plan's name makes no tag: %w", err)
	}
	return tag, nil
}

func taken(root string, file *tasks.File, hint string) error {
	return badInput(cmp.Or(hint, "choose another --tag, or move that file away: an import never changes a task list"),
		"tag %q has tasks already, in %s", file.Tag(), store.Relative(root, file.Path()))
}
