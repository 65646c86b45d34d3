package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/view"
)

func newTasksImportCmd() *cobra.Command {
	s := &settings{}
	var dryRun, asJSON, force bool
	cmd := &cobra.Command{
		Use:   "import [plan]",
		Short: "Make a task file from the tasks in a Markdown plan",
		Long: `Make a task file from the tasks in a Markdown plan.

Tasks are found in headings "Task 1: Title", in phases with their items, in tables and in checklists,
where [x] is done; dependencies in "Depends on: 1, 2", "(blocked by 3)", "blocks 4" and tables. Phases
wait for the phase before them, unless the plan says what their tasks wait for.

Items that are numbered on from phase to phase keep their numbers.

A tag that already has tasks is never changed. A dependency on a task that the plan does not have is an error.`,
		Args: takes(0, 1, "one plan"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if s.Scud.PlanPath != "" {
					return badInput("leave one of them out", "%q and --plan both name the plan", args[0])
				}
				s.Scud.PlanPath = args[0]
			}
			return importPlan(cmd, s, dryRun, asJSON, force)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Dir, "working-dir", ".", "work as if started in this `directory`")
	f.StringVar(&s.Scud.PlanPath, "plan", "", "plan `file`")
	f.StringVar(&s.Scud.Tag, "tag", "", "`tag` that the tasks get (default: the one in the plan's front matter, else the plan's name)")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	f.BoolVar(&asJSON, "json", false, "print the tasks as JSON")
	f.BoolVar(&force, "force", false, "import it even if dependencies name missing tasks; the tasks that need those are held")
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

func importPlan(cmd *cobra.Command, s *settings, dryRun, asJSON, force bool) error {
	root, err := findRoot(s.Dir)
	if err != nil {
		return err
	}
	if s.Scud.PlanPath == "" {
		return badInput("descartes tasks import plan.md", "which plan?")
	}
	s.Scud.PlanPath = inProject(root, s.dirPath(), s.Scud.PlanPath)
	if _, err := loop.PlanText(root, s.Scud.PlanPath); err != nil {
		return badInput("", "%w", err)
	}
	s.fromPlan(root)
	if err := s.frontProblem(); err != nil {
		return err
	}
	if s.Scud.Tag == "" {
		if s.Scud.Tag, err = tagOfPlan(s.Scud.PlanPath); err != nil {
			return err
		}
	}
	if err := tasks.ValidTag(s.Scud.Tag); err != nil {
		return err
	}
	job, found := loop.LoadOrImport(root, loop.Config{Scud: loop.ScudConfig{Tag: s.Scud.Tag, PlanPath: s.Scud.PlanPath}})
	switch {
	case job == nil || len(found) > 0:
		return problems(found)
	case job.Import == nil:
		return taken(root, s.Scud.Tag, job.File.Path())
	}
	b, err := view.NewBoard(job)
	if err != nil {
		return err
	}
	if missing := missingOf(job.Graph.Problems()); len(missing) > 0 && !force {
		return append(missing, loop.Problem{Message: "nothing is imported", Hint: "correct the plan, or import it as it is with --force: such tasks are held"})
	}
	if !dryRun {
		if err := unowned(store.NewHome(root), job.File); err != nil {
			return err
		}
		_, err := job.Import.Write(root, s.Scud.Tag)
		if errors.Is(err, fs.ErrExist) {
			return taken(root, s.Scud.Tag, job.File.Path())
		}
		if err != nil {
			return err
		}
	}
	file, odd := view.Relative(root, job.File.Path()), slices.Concat(s.front, job.Import.Findings())
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), importJSON{s.Scud.Tag, s.Scud.PlanPath, file, !dryRun, b.Details(), b.PlanFindings(odd)})
	}
	var out strings.Builder
	out.WriteString(b.Text(terminal.Colours(terminal.IsTerminal(cmd.OutOrStdout())), terminal.Columns(cmd.OutOrStdout())) + "\n")
	for _, f := range odd {
		fmt.Fprintf(&out, "warning: %s\n", terminal.Clean(placed(s.Scud.PlanPath, f)))
	}
	c := b.Graph.Counts()
	done := ""
	if c.Done > 0 {
		done = fmt.Sprintf(", %d of them done", c.Done)
	}
	verb := "wrote"
	if dryRun {
		verb = "dry run: would write"
	}
	fmt.Fprintf(&out, "%s %s: %s of %s%s\n", verb, terminal.Clean(file), terminal.Count(c.Total, "task"), terminal.Clean(s.Scud.PlanPath), done)
	return write(cmd.OutOrStdout(), out.String())
}

// missingOf are the dependencies on tasks that a list does not have.
func missingOf(found []scheduler.Problem) (list problems) {
	for _, p := range found {
		if p.Kind == "missing" {
			list = append(list, loop.Problem{Message: p.Message})
		}
	}
	return list
}

// tagOfPlan is the tag of a plan that names none: its file's name.
func tagOfPlan(path string) (string, error) {
	tag := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if err := tasks.ValidTag(tag); err != nil {
		return "", badInput("name the tag with --tag, or with tag: in the plan's front matter", "the plan's name makes no tag: %w", err)
	}
	return tag, nil
}

func taken(root, tag, path string) error {
	return badInput("choose another --tag, or move that file away: an import never changes a task list", "tag %q has tasks already, in %s", tag, view.Relative(root, path))
}
