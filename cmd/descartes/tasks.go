package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/tasks"
)

func newTasksListCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks of a tag",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			for _, message := range b.elsewhere() {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(message))
			}
			if look.json {
				return writeJSON(cmd.OutOrStdout(), b.details())
			}
			return write(cmd.OutOrStdout(), b.table())
		},
	}
	look.register(cmd, "print the tasks as JSON")
	look.registerGraph(cmd)
	return cmd
}

// detailJSON is everything about one task. A container has no state.
type detailJSON struct {
	taskJSON
	Description  string        `json:"description,omitempty"`
	Details      string        `json:"details,omitempty"`
	TestStrategy string        `json:"test_strategy,omitempty"`
	Priority     string        `json:"priority,omitempty"`
	Complexity   measure       `json:"complexity,omitempty"`
	Parent       *loop.TaskID  `json:"parent_id,omitempty"`
	Children     []loop.TaskID `json:"subtasks,omitempty"`
	Wave         int           `json:"wave,omitempty"`
	Line         int           `json:"line"`
}

// measure is a number in JSON where its text is one, and text elsewhere.
type measure string

func (m measure) MarshalJSON() ([]byte, error) {
	if m != "" && (m[0] == '-' || m[0] >= '0' && m[0] <= '9') && json.Valid([]byte(m)) {
		return []byte(m), nil
	}
	return json.Marshal(string(m))
}

// details lists every task in the file's order, containers included, each id once.
func (b *board) details() []detailJSON {
	out := []detailJSON{}
	seen := map[string]bool{}
	for i := range b.file.Tasks() {
		t := &b.file.Tasks()[i]
		if !seen[t.ID] {
			seen[t.ID] = true
			out = append(out, b.detail(t))
		}
	}
	return out
}

func (b *board) detail(t *tasks.Task) detailJSON {
	d := detailJSON{Description: t.Description, Details: t.Details, TestStrategy: t.TestStrategy, Priority: t.Priority,
		Complexity: measure(t.Complexity), Children: b.fileIDs(t.Children), Line: t.Line}
	d.taskJSON = taskJSON{ID: loop.TaskID{ID: t.ID, Numeric: t.Numeric}, Title: t.Title, Status: t.Status, DependsOn: b.dependsOn(t), Agent: b.agent(t)}
	if t.Parent != "" {
		d.Parent = &b.fileIDs([]string{t.Parent})[0]
	}
	if t.Container() {
		d.State = "container"
		return d
	}
	d.Status = b.graph.Status(t.ID)
	state, cause := b.graph.State(t.ID)
	d.State, d.Cause, d.Wave = string(state), cause, b.graph.Wave(t.ID)
	return d
}

// fileIDs gives ids, containers' too, the form that they have in the file.
func (b *board) fileIDs(list []string) []loop.TaskID {
	out := make([]loop.TaskID, 0, len(list))
	for _, id := range list {
		t, ok := b.file.Task(id)
		out = append(out, loop.TaskID{ID: id, Numeric: ok && t.Numeric})
	}
	return out
}

// table is the list for a person: containers stand before the tasks in them.
func (b *board) table() string {
	var s strings.Builder
	list := b.details()
	ids, states := 0, 0
	for _, t := range list {
		ids, states = max(ids, terminal.Width(terminal.Clean(t.ID.ID))), max(states, terminal.Width(terminal.Clean(string(t.Status))))
	}
	for _, t := range list {
		id, status := terminal.Clean(t.ID.ID), terminal.Clean(string(t.Status))
		title := terminal.Clean(t.Title)
		if len(t.Children) > 0 {
			title += fmt.Sprintf("  (%s)", terminal.Count(len(t.Children), "subtask"))
		} else if t.State == "held" && t.Cause != "" {
			title += fmt.Sprintf("  (held: %s)", terminal.Clean(t.Cause))
		}
		fmt.Fprintf(&s, "%s%s  %s%s  %s\n", id, strings.Repeat(" ", ids-terminal.Width(id)), status, strings.Repeat(" ", states-terminal.Width(status)), title)
	}
	return s.String()
}

func newTasksShowCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "show <task>",
		Short: "Show everything about one task",
		Args:  takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			t, err := b.need(args[0])
			if err != nil {
				return err
			}
			d := b.detail(t)
			if look.json {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return write(cmd.OutOrStdout(), d.text())
		},
	}
	look.register(cmd, "print the task as JSON")
	look.registerGraph(cmd)
	look.completeTask(cmd)
	return cmd
}

func (d *detailJSON) text() string {
	var s strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&s, "  %-13s %s\n", name+":", value)
		}
	}
	fmt.Fprintf(&s, "%s %s\n", terminal.Clean(d.ID.ID), terminal.Clean(d.Title))
	field("Status", terminal.Clean(string(d.Status)))
	state := d.State
	if d.Cause != "" {
		state += " (" + terminal.Clean(d.Cause) + ")"
	}
	field("State", state)
	if d.Wave > 0 {
		field("Wave", strconv.Itoa(d.Wave))
	}
	field("Depends on", idList(d.DependsOn))
	if d.Parent != nil {
		field("Part of", terminal.Clean(d.Parent.ID))
	}
	field("Subtasks", idList(d.Children))
	field("Priority", terminal.Clean(d.Priority))
	field("Complexity", terminal.Clean(string(d.Complexity)))
	field("Agent", d.Agent.String())
	field("Line", strconv.Itoa(d.Line))
	for _, part := range []struct{ name, text string }{{"Description", d.Description}, {"Details", d.Details}, {"Test strategy", d.TestStrategy}} {
		if part.text != "" {
			fmt.Fprintf(&s, "\n%s\n  %s\n", part.name, strings.ReplaceAll(terminal.CleanLines(strings.TrimRight(part.text, "\n")), "\n", "\n  "))
		}
	}
	return s.String()
}

func idList(list []loop.TaskID) string {
	names := make([]string, 0, len(list))
	for _, id := range list {
		names = append(names, terminal.Clean(id.ID))
	}
	return strings.Join(names, ", ")
}

func newTasksNextCmd() *cobra.Command {
	var look looking
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
			id := b.next()
			switch {
			case id == "" && look.json:
				return writeJSON(w, nil)
			case id == "":
				fmt.Fprintln(cmd.ErrOrStderr(), b.nothingReady())
				return nil
			}
			t, err := b.need(id)
			if err != nil {
				return err
			}
			d := b.detail(t)
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

// next is the first task in wave order that is ready, or "".
func (b *board) next() string {
	for _, w := range b.graph.Waves() {
		for _, id := range w.Tasks {
			if b.graph.Ready(id) {
				return id
			}
		}
	}
	return ""
}

func (b *board) nothingReady() string {
	c := b.graph.Counts()
	if c.Done == c.Total {
		return "nothing left to do: " + terminal.Count(c.Total, "task") + " done"
	}
	return fmt.Sprintf("no task is ready%s; descartes waves%s shows why", b.tally(), b.named())
}

func newTasksSetCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "set <task> <status>",
		Short: "Change the status of a task",
		Args:  takes(2, 2, "a task and a status"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setStatus(cmd, look, args[0], args[1])
		},
	}
	look.register(cmd, "print the change as JSON")
	var words []string
	for _, s := range []tasks.Status{tasks.Pending, tasks.InProgress, tasks.Done, tasks.Review, tasks.Blocked, tasks.Deferred, tasks.Cancelled, tasks.Failed} {
		words = append(words, string(s))
	}
	look.completeTask(cmd, words...)
	return cmd
}

func setStatus(cmd *cobra.Command, look looking, id, word string) error {
	root, c, err := look.source(cmd)
	if err != nil {
		return err
	}
	file, err := loop.OpenTasks(root, c)
	if err != nil {
		return err
	}
	home := loop.NewHome(root)
	t, err := ownTask(cmd.Context(), home, file, c, id)
	if err != nil {
		return err
	}
	to, _ := tasks.ParseStatus(word)
	if t.Container() && (t.Status != tasks.Done || to != tasks.Pending) {
		return badInput("set its subtasks: it is done when they are; one that is done can be set to pending", "task %s has subtasks", t.ID)
	}
	if err := tasks.CanChange(t.Status, to); err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	if !file.Holds(to) {
		return badInput("there are done and pending", "%s has no word for %s", shown(root, file.Path()), to)
	}
	change := statusChange{Task: loop.TaskID{ID: t.ID, Numeric: t.Numeric}, From: t.Status, To: to, File: shown(root, file.Path())}
	if same := change.From == to && tasks.Status(t.RawStatus) == to; !same {
		if err := file.Save(atomicfile.OS(), map[string]tasks.Status{change.Task.ID: to}); err != nil {
			return unwritable(err)
		}
	}
	if look.json {
		return writeJSON(cmd.OutOrStdout(), change)
	}
	return write(cmd.OutOrStdout(), change.text())
}

// ownTask is a task whose status may be changed by hand: no live loop owns its list, and the list has what dead
// ones could not write any more.
func ownTask(ctx context.Context, home loop.Home, file *tasks.File, c loop.ScudConfig, id string) (*tasks.Task, error) {
	if err := unowned(home, file); err != nil {
		return nil, err
	}
	if err := home.CatchUp(ctx, atomicfile.OS(), file, time.Now); err != nil {
		return nil, unwritable(err)
	}
	t, ok := file.Task(id)
	if !ok {
		return nil, badInput("descartes tasks list"+ofTag(file.Tag(), c.TasksFile), "tag %q has no task %q", file.Tag(), id)
	}
	return t, nil
}

// unowned refuses to change a list that a live loop writes to.
func unowned(home loop.Home, file *tasks.File) error {
	who, owned := home.Owner(file)
	if !owned {
		return nil
	}
	hint := "descartes loop pause " + who.Loop + " first: a running loop owns the statuses of its tag"
	if who.Tag != file.Tag() {
		hint = "descartes loop pause " + who.Loop + " first: a running loop owns its task file, which holds tag " + file.Tag() + " too"
	}
	return &failure{code: exitInput, err: &loop.BusyError{Holder: who}, hint: hint}
}

// unwritable is a list that its owner does not let us write: the user's to change.
func unwritable(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &failure{code: exitInput, err: err, hint: "make it writable first, e.g. with chmod u+w"}
}

type statusChange struct {
	Task loop.TaskID  `json:"task"`
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
	var look looking
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Name everything suspicious in a tag, with line numbers",
		Long: `Name everything suspicious in a tag, with line numbers: what a run goes on from, what it will not run
and why, statuses that contradict each other, a mirror or declared waves that are out of step, and what
SCUD would refuse or lose.

Exit codes: 0 nothing was found, 3 something was found, 2 the list cannot be read.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			found := b.findings()
			w := cmd.OutOrStdout()
			if look.json {
				err = writeJSON(w, found)
			} else {
				err = write(w, b.checkText(found))
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

type findingJSON struct {
	File    string        `json:"file,omitempty"` // where it is not the task file
	Line    int           `json:"line,omitempty"`
	Kind    string        `json:"kind"`
	Tasks   []loop.TaskID `json:"tasks"`
	Message string        `json:"message"`
}

// findings joins what the reader and the graph have to say, in the order of the file.
func (b *board) findings() []findingJSON {
	out := []findingJSON{}
	for _, f := range slices.Concat(b.file.Findings(), b.file.Lint(b.root)) {
		out = append(out, b.finding(f))
	}
	for _, f := range b.against {
		one := b.finding(f)
		one.File, one.Kind = b.scud.PlanPath, "plan"
		out = append(out, one)
	}
	for _, p := range b.graph.Problems() {
		if slices.ContainsFunc(out, func(f findingJSON) bool { return f.Kind == p.Kind && sameIDs(f.Tasks, p.Tasks) }) {
			continue
		}
		one := findingJSON{Kind: p.Kind, Tasks: b.fileIDs(p.Tasks), Message: p.Message}
		if len(p.Tasks) > 0 {
			if t, ok := b.file.Task(p.Tasks[0]); ok {
				one.Line = t.Line
			}
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(x, y findingJSON) int { return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line)) })
	return slices.CompactFunc(out, func(x, y findingJSON) bool {
		return x.File == y.File && x.Line == y.Line && x.Kind == y.Kind && x.Message == y.Message
	})
}

func (b *board) finding(f tasks.Finding) findingJSON {
	one := findingJSON{Line: f.Line, Kind: f.Kind, Tasks: []loop.TaskID{}, Message: f.Message}
	if f.ID != "" {
		one.Tasks = b.fileIDs([]string{f.ID})
	}
	return one
}

func sameIDs(list []loop.TaskID, ids []string) bool {
	return slices.EqualFunc(list, ids, func(x loop.TaskID, y string) bool { return x.ID == y })
}

func (b *board) checkText(found []findingJSON) string {
	var s strings.Builder
	list := terminal.Clean(shown(b.root, b.file.Path()))
	for _, f := range found {
		path := terminal.Clean(cmp.Or(f.File, list))
		if f.Line > 0 {
			fmt.Fprintf(&s, "%s:%d: %s: %s\n", path, f.Line, f.Kind, terminal.Clean(f.Message))
		} else {
			fmt.Fprintf(&s, "%s: %s: %s\n", path, f.Kind, terminal.Clean(f.Message))
		}
	}
	if len(found) == 0 {
		fmt.Fprintf(&s, "%s: %s, nothing suspicious\n", list, terminal.Count(b.graph.Counts().Total, "task"))
	}
	return s.String()
}

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
	out.WriteString(b.text(terminal.Colours(terminal.IsTerminal(cmd.OutOrStdout()))) + "\n")
	for _, f := range job.Import.Findings() {
		fmt.Fprintf(&out, "warning: %s\n", terminal.Clean(placed(s.Scud.PlanPath, f)))
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
	fmt.Fprintf(&out, "%s %s: %s of %s%s\n", verb, terminal.Clean(file), terminal.Count(c.Total, "task"), terminal.Clean(s.Scud.PlanPath), done)
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
