package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/internal/atomicfile"
	"descartes/internal/complete"
	"descartes/internal/config"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/scheduler"
	"descartes/tasks"
)

func newTasksListCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks of a tag",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err == nil {
				err = markStale(cmd.Context(), b)
			}
			if err != nil {
				return err
			}
			for _, message := range b.Elsewhere() {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(message))
			}
			return show(cmd.OutOrStdout(), look.json, b.Details(), b.Table())
		},
	}
	look.register(cmd, "print the tasks as JSON")
	look.registerGraph(cmd)
	return cmd
}

func newTasksShowCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "show <task>",
		Short: "Show everything about one task",
		Args:  takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, t, err := look.task(cmd, args[0])
			if err != nil {
				return err
			}
			if err := markStale(cmd.Context(), b); err != nil {
				return err
			}
			d := b.Detail(t)
			return show(cmd.OutOrStdout(), look.json, d, d.Text())
		},
	}
	look.register(cmd, "print the task as JSON")
	look.registerGraph(cmd)
	return cmd
}

func newTasksNextCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Show the task that a loop would start first",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			id := b.Next()
			switch {
			case id == "" && look.json:
				return writeJSON(w, nil)
			case id == "":
				fmt.Fprintln(cmd.ErrOrStderr(), b.NothingReady())
				return nil
			}
			t, err := need(b, id)
			if err != nil {
				return err
			}
			d := b.Detail(t)
			if look.json {
				return writeJSON(w, d)
			}
			_, err = fmt.Fprintf(w, "%s %s\n", terminal.Clean(id), terminal.Clean(t.Title))
			return err
		},
	}
	look.register(cmd, "print the task as JSON, null if there is none")
	look.registerGraph(cmd)
	return cmd
}

func newTasksSetCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "set <task> <status>",
		Short: "Change the status of a task",
		Args:  takes(2, 2, "a task and a status"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setStatus(cmd, look, args[0], args[1])
		},
	}
	look.register(cmd, "print the change as JSON")
	return cmd
}

func setStatus(cmd *cobra.Command, look tagFlags, id, word string) error {
	root, c, file, err := look.open(cmd)
	if err != nil {
		return err
	}
	to, _ := tasks.ParseStatus(word)
	t, err := settable(cmd.Context(), root, file, c, id, to)
	if err != nil {
		return err
	}
	if t.Container() && (t.Status != tasks.Done || to != tasks.Pending) {
		return badInput("set its subtasks: it is done when they are; one that is done can be set to pending", "task %s has subtasks", t.ID)
	}
	if err := tasks.CanChange(t.Status, to); err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	if !file.Holds(to) {
		return badInput("there are done and pending", "%s has no word for %s", report.Relative(root, file.Path()), to)
	}
	change := statusChange{Task: store.TaskID{ID: t.ID, Numeric: t.Numeric}, From: t.Status, To: to, File: report.Relative(root, file.Path())}
	if same := change.From == to && tasks.Status(t.RawStatus) == to; !same {
		if err := file.Save(map[string]tasks.Status{change.Task.ID: to}); err != nil {
			return unwritable(err)
		}
	}
	return show(cmd.OutOrStdout(), look.json, change, change.text())
}

// settable is a task whose status may be set by hand. A live loop takes that in when it starts its next task, like any edit of the list; it has
// the last word on a task that is under way, and on whether one that it ended is to be done again, and one in the project's folder on all.
func settable(ctx context.Context, root string, file *tasks.File, c loop.ScudConfig, id string, to tasks.Status) (*tasks.Task, error) {
	home := store.NewHome(root)
	who, live := home.Owner(file)
	if !live || workspace.Here(poolOf(root)) {
		return ownTask(ctx, home, file, c, id)
	}
	known, err := journal.Load(home.Events(who.Loop))
	if err != nil {
		return nil, err
	}
	t, ok := file.Task(id)
	switch ours := who.Tag == file.Tag(); {
	case !ok:
		return nil, noTask(home, file, c, id)
	case ours && known.Tasks[id] != nil, ours && known.Begun[id] > 0 && to == tasks.Pending:
		return nil, unowned(home, file)
	}
	return t, nil
}

func noTask(home store.Home, file *tasks.File, c loop.ScudConfig, id string) error {
	return badInput("descartes tasks list"+listFlags(filepath.Dir(string(home)), file.Tag(), c.TasksFile), "tag %q has no task %q", file.Tag(), id)
}

// ownTask is a task whose status may be changed by hand: no live loop owns its list, and the list has what dead
// ones could not write any more.
func ownTask(ctx context.Context, home store.Home, file *tasks.File, c loop.ScudConfig, id string) (*tasks.Task, error) {
	if err := unowned(home, file); err != nil {
		return nil, err
	}
	if err := home.CatchUp(ctx, atomicfile.OS(), file, time.Now); err != nil {
		return nil, unwritable(err)
	}
	t, ok := file.Task(id)
	if !ok {
		return nil, noTask(home, file, c, id)
	}
	return t, nil
}

// unowned refuses to change a list that a live loop writes to.
func unowned(home store.Home, file *tasks.File) error {
	who, owned := home.Owner(file)
	if !owned {
		return nil
	}
	hint := "descartes loop pause " + who.Loop + " first: a running loop owns the statuses of its tag"
	if who.Tag != file.Tag() {
		hint = "descartes loop pause " + who.Loop + " first: a running loop owns its task file, which holds tag " + file.Tag() + " too"
	}
	return &failure{code: exitInput, err: &store.BusyError{Holder: who}, hint: hint}
}

// unwritable is a list that its owner does not let us write: the user's to change.
func unwritable(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &failure{code: exitInput, err: err, hint: "make it writable first, e.g. with chmod u+w"}
}

type statusChange struct {
	Task store.TaskID `json:"task"`
	From tasks.Status `json:"from"`
	To   tasks.Status `json:"to"`
	File string       `json:"file"`
}

func (c statusChange) text() string {
	if c.From == c.To {
		return fmt.Sprintf("task %s: %s already\n", terminal.Clean(c.Task.ID), c.To)
	}
	return fmt.Sprintf("task %s: %s -> %s\n", terminal.Clean(c.Task.ID), terminal.Clean(string(c.From)), c.To)
}

func newTasksCheckCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Name everything suspicious in a tag, with line numbers",
		Long: `Name everything suspicious in a tag, with line numbers: what a run starts from, what it will not run
and why, statuses that contradict each other, a mirror or declared waves that are out of step, and what
SCUD would refuse or lose.

Exit codes: 0 nothing was found, 3 something was found, 2 the list cannot be read.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			found := b.Findings()
			w := cmd.OutOrStdout()
			if look.json {
				err = writeJSON(w, found)
			} else {
				err = write(w, b.CheckText(found))
			}
			if err == nil && len(found) > 0 {
				return quiet(exitBlocked)
			}
			return err
		},
	}
	look.register(cmd, "print the findings as JSON")
	look.registerGraph(cmd)
	return cmd
}

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
	f.StringVar(&s.Scud.Tag, "scud-tag", "", "`tag` that the tasks get (default: the one in the plan's front matter, else the plan's name)")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	f.BoolVar(&asJSON, "json", false, "print the tasks as JSON")
	f.BoolVar(&force, "force", false, "import it even if dependencies name missing tasks; the tasks that need those are held")
	return cmd
}

type importJSON struct {
	Tag      string              `json:"tag"`
	Plan     string              `json:"plan"`
	File     string              `json:"file"`
	Written  bool                `json:"written"`
	Tasks    []report.TaskDetail `json:"tasks"`
	Findings []report.Finding    `json:"findings"`
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
	b, err := report.NewBoard(job)
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
	file, odd := report.Relative(root, job.File.Path()), slices.Concat(s.front, job.Import.Findings())
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
		return "", badInput("name the tag with --scud-tag, or with tag: in the plan's front matter", "the plan's name makes no tag: %w", err)
	}
	return tag, nil
}

func taken(root, tag, path string) error {
	return badInput("choose another --scud-tag, or move that file away: an import never changes a task list", "tag %q has tasks already, in %s", tag, report.Relative(root, path))
}

func newAttemptsCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "attempts <task>",
		Short: "List the kept attempts of a task: refs, verdicts and reasons",
		Args:  takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, t, err := look.task(cmd, args[0])
			if err != nil {
				return err
			}
			repo, err := openRepo(cmd.Context(), b.Root, nil)
			if err != nil {
				return err
			}
			defer repo.Close()
			refs, err := repo.Refs(cmd.Context(), "refs/descartes/")
			if err != nil {
				return err
			}
			list, err := b.Attempts(t.ID, refs)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), look.json, list, report.AttemptTable(t.ID, list))
		},
	}
	look.register(cmd, "print the attempts as JSON")
	return cmd
}

func newWavesCmd() *cobra.Command {
	var look tagFlags
	var dot, mermaid, explain bool
	cmd := &cobra.Command{
		Use:   "waves",
		Short: "Show the plan of a tag: waves, what is ready, what is held and why",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err == nil {
				err = markStale(cmd.Context(), b)
			}
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if explain && (look.json || dot || mermaid) {
				return badInput("", "choose one of --explain, --json, --dot and --mermaid")
			}
			switch {
			case explain:
				return write(w, b.Explain())
			case look.json && !dot && !mermaid:
				return writeJSON(w, b.Report())
			case dot && !look.json && !mermaid:
				return write(w, b.Dot())
			case mermaid && !look.json && !dot:
				return write(w, b.Mermaid())
			case look.json || dot || mermaid:
				return badInput("", "choose one of --json, --dot and --mermaid")
			}
			return write(w, b.Text(terminal.Colours(terminal.IsTerminal(w)), terminal.Columns(w)))
		},
	}
	look.register(cmd, "print waves and problems as JSON")
	look.registerGraph(cmd)
	cmd.Flags().BoolVar(&explain, "explain", false, "say what would start next, and what every other task waits for")
	cmd.Flags().BoolVar(&dot, "dot", false, "print the graph for Graphviz")
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "print the graph for Mermaid")
	return cmd
}

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
	return l.list(cmd.Flags(), cmd.ErrOrStderr())
}

// open opens the list that source means.
func (l *tagFlags) open(cmd *cobra.Command) (root string, c loop.ScudConfig, file *tasks.File, err error) {
	if root, c, err = l.source(cmd); err == nil {
		file, err = loop.OpenTasks(root, c)
	}
	return root, c, file, err
}

// listOf is the source that flags mean, without a word.
func listOf(f *pflag.FlagSet) (root string, c loop.ScudConfig, err error) {
	l := tagFlags{settings: settings{Settings: config.New()}}
	l.Dir, l.File = complete.Value(f, "working-dir"), complete.Value(f, "config")
	return l.list(f, io.Discard)
}

func (l *tagFlags) list(f *pflag.FlagSet, say io.Writer) (root string, c loop.ScudConfig, err error) {
	if root, err = l.read(f); err != nil {
		return root, c, err
	}
	c = loop.ScudConfig{Tag: l.Scud.Tag, TasksFile: l.Scud.TasksFile, PlanPath: l.Scud.PlanPath, OpenInDone: l.Scud.OpenInDone}
	if f.Changed("tasks-file") && !f.Changed("scud-tag") { // the tag of the settings is that of another file
		c.Tag = ""
	}
	if c.Tag == "" && l.onlyPlan(f, root) {
		if c.Tag, err = tagOfPlan(c.PlanPath); err != nil {
			return root, c, err
		}
	}
	return root, c, chooseSource(say, root, &c)
}

// onlyPlan reports whether the tasks are those of the named plan, because the project has no list.
func (l *tagFlags) onlyPlan(f *pflag.FlagSet, root string) bool {
	return f.Changed("plan") && l.Scud.TasksFile == "" && len(tasks.Known(root)) == 0
}

// board reads the list that the flags mean, and what its loops know of it. Nothing is changed.
func (l *tagFlags) board(cmd *cobra.Command) (*report.Board, error) {
	root, c, err := l.source(cmd)
	if err != nil {
		return nil, err
	}
	load := loop.Load
	if l.onlyPlan(cmd.Flags(), root) {
		load = loop.LoadOrImport
	}
	job, found := load(root, l.models(c))
	if job == nil || len(found) > 0 && cmd.Flags().Changed("plan") {
		return nil, problems(found)
	}
	b, err := report.NewBoard(job)
	if err == nil {
		b.Here = fromHere(root, c.TasksFile)
	}
	return b, err
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
// is the active one, or the only one there is. Where a state file chose the tag, say hears of it.
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
			fmt.Fprintf(say, "note: there is no tag master: using the first one: %s\n", terminal.Clean(f.Tag()))
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
		files, _ := os.ReadDir(filepath.Join(root, ".scud", "tasks")) // without it there are none
		for _, f := range files[:min(len(files), 100)] {
			tag, isList := strings.CutSuffix(f.Name(), ".json")
			if _, err := tasks.Open(root, tag); isList && errors.As(err, &broken) {
				return err
			}
		}
		hint := "write .scud/tasks/<tag>.json first, or make one of a plan: descartes tasks import plan.md"
		if name := planHere(root); name != "" {
			hint = "descartes tasks import " + name + " makes one of the plan"
		}
		return badInput(hint,
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

// task is one of the tag's tasks, with the tag.
func (l *tagFlags) task(cmd *cobra.Command, id string) (*report.Board, *tasks.Task, error) {
	b, err := l.board(cmd)
	if err != nil {
		return nil, nil, err
	}
	t, err := need(b, id)
	return b, t, err
}

// need is the task of that id, or an error that names it.
func need(b *report.Board, id string) (*tasks.Task, error) {
	t, ok := b.Graph.Task(id)
	if !ok {
		t, ok = b.File.Task(id)
	}
	if !ok {
		var ids []string
		for _, one := range b.File.Tasks() {
			ids = append(ids, one.ID)
		}
		return nil, badInput(cmp.Or(didYouMean(id, ids), "descartes tasks list"+b.Named()), "tag %q has no task %q", b.File.Tag(), id)
	}
	return t, nil
}
