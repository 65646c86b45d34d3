package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/tasks"
)

func newTasksImportCmd() *cobra.Command {
	s := &settings{}
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Make a task file from the tasks in a Markdown plan",
		Long: `Make a task file from the tasks in a Markdown plan.

Tasks are found in headings "Task 1: Title", in phases with their items, in tables and in checklists,
where [x] is done; dependencies in "Depends on: 1, 2", "(blocked by 3)", "blocks 4" and tables. Phases
wait for the phase before them, unless the plan says what their tasks wait for.

A tag that has tasks already is never written to.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return importPlan(cmd, s, dryRun, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Dir, "working-dir", ".", "work as if started in this `directory`")
	f.StringVar(&s.Scud.PlanPath, "plan", "", "plan `file`")
	f.StringVar(&s.Scud.Tag, "scud-tag", "", "`tag` that the tasks get (default: the one in the plan's front matter)")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	f.BoolVar(&asJSON, "json", false, "print the tasks as JSON")
	return cmd
}

type importJSON struct {
	Tag      string        `json:"tag"`
	Plan     string        `json:"plan"`
	File     string        `json:"file"`
	Written  bool          `json:"written"`
	Tasks    []detailJSON  `json:"tasks"`
	Findings []findingJSON `json:"findings"`
}

func importPlan(cmd *cobra.Command, s *settings, dryRun, asJSON bool) error {
	root, err := findRoot(s.Dir)
	if err != nil {
		return err
	}
	if s.Scud.PlanPath == "" {
		return badInput("--plan plan.md", "which plan?")
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
		return badInput("--scud-tag, or tag: in the plan's front matter", "which tag do the tasks get?")
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
	b, err := newBoard(job)
	if err != nil {
		return err
	}
	if !dryRun {
		if err := unowned(loop.NewHome(root), job.File); err != nil {
			return err
		}
		_, err := tasks.WriteTagFile(atomicfile.OS(), root, s.Scud.Tag, job.Import)
		if errors.Is(err, fs.ErrExist) {
			return taken(root, s.Scud.Tag, job.File.Path())
		}
		if err != nil {
			return err
		}
	}
	file := shown(root, job.File.Path())
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), importJSON{s.Scud.Tag, s.Scud.PlanPath, file, !dryRun, b.details(), b.planFindings(job.Import)})
	}
	var out strings.Builder
	out.WriteString(b.text(colours(isTerminal(cmd.OutOrStdout()))) + "\n")
	for _, f := range job.Import.Findings() {
		fmt.Fprintf(&out, "warning: %s\n", clean(placed(s.Scud.PlanPath, f)))
	}
	c := b.graph.Counts()
	done := ""
	if c.Done > 0 {
		done = fmt.Sprintf(", %d of them done", c.Done)
	}
	verb := "wrote"
	if dryRun {
		verb = "dry run: would write"
	}
	fmt.Fprintf(&out, "%s %s: %s of %s%s\n", verb, clean(file), count(c.Total, "task"), clean(s.Scud.PlanPath), done)
	return write(cmd.OutOrStdout(), out.String())
}

func taken(root, tag, path string) error {
	return badInput("choose another --scud-tag, or move that file away: an import never changes a task list", "tag %q has tasks already, in %s", tag, shown(root, path))
}

// planFindings is what was odd about a plan.
func (b *board) planFindings(p *tasks.PlanTasks) []findingJSON {
	out := []findingJSON{}
	for _, f := range p.Findings() {
		out = append(out, b.finding(f))
	}
	return out
}
