package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/specbuild"
	"descartes/tasks"
)

func newSpecCmd() *cobra.Command {
	s := &settings{}
	var explain, asJSON bool
	var attempt int
	cmd := &cobra.Command{
		Use:   "spec <task>",
		Short: "Print the exact prompt that a task's agent gets",
		Long: `Print the exact prompt that a task's agent gets.

Plan, spec files and limits come from the flags and from descartes.yaml, as for loop start; without
them, from the last loop over the tag. From the second attempt on, the prompt has what that loop
recorded of the attempt before.`,
		Args: takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := s.spec(cmd, args[0], attempt)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case asJSON:
				return writeJSON(w, jsonOf(spec))
			case explain:
				return write(w, explained(spec))
			}
			if spec.Over {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: about %d tokens, over --max-spec-tokens %d\n", spec.Tokens, s.Scud.Spec.MaxSpecTokens)
			}
			if spec.Thin {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: this spec is thin: the task has only a title, and no plan section is about it")
				fmt.Fprintln(cmd.ErrOrStderr(), "hint: give the task a description, or name a plan that has a section about it with --plan")
			}
			return write(&terminal.Writer{W: w}, spec.Text) // as the agent gets it with --json
		},
	}
	s.registerSource(cmd)
	f := cmd.Flags()
	f.IntVar(&attempt, "attempt", 0, "`number` of the attempt, as attempts lists it (default: the next one)")
	f.BoolVar(&explain, "explain", false, "print where each part came from instead")
	f.BoolVar(&asJSON, "json", false, "print text and sources as JSON")
	return cmd
}

// specSource is what specs are made of: a tag, and what its last loop knows.
type specSource struct {
	home loop.Home
	last *loop.Saved // the tag's last loop; nil if there was none
	job  *loop.Job
	refs []gitops.Ref // the attempts of all loops
	*report.Board
}

// specSource reads the tag, with what neither flag nor file says taken from its last loop.
func (s *settings) specSource(cmd *cobra.Command) (*specSource, error) {
	f := cmd.Flags()
	root, err := s.load(f)
	if err != nil {
		return nil, err
	}
	if err := chooseSource(cmd.ErrOrStderr(), root, &s.Scud); err != nil {
		return nil, err
	}
	src := &specSource{home: loop.NewHome(root)}
	if src.last, err = src.home.LastOf(s.Scud.Tag); err != nil {
		return nil, err
	}
	if src.last != nil {
		s.adopt(f.Changed, src.last.State.Config)
	}
	if s.Scud.VerificationCommand == "" && len(s.Checks) == 0 {
		s.Scud.VerificationCommand, _, _ = detect(root)
	}
	var found []loop.Problem
	if src.job, found = loop.Load(root, s.Config); len(found) > 0 {
		return nil, problems(found)
	}
	if src.refs, err = keptRefs(cmd.Context(), root); err != nil {
		return nil, err
	}
	src.Board, err = report.NewBoard(src.job)
	if err == nil {
		src.Here = fromHere(root, src.Scud.TasksFile)
	}
	return src, err
}

// keptRefs are those of a repository, if there is one.
func keptRefs(ctx context.Context, root string) ([]gitops.Ref, error) {
	repo, err := openRepo(ctx, root, nil)
	if err != nil {
		return nil, nil // nothing is kept outside a repository
	}
	defer repo.Close()
	return repo.Refs(ctx, "refs/descartes/")
}

// registerSource binds the flags that say what specs are made of.
func (s *settings) registerSource(cmd *cobra.Command) {
	s.register(cmd, func(one *config.Setting) bool { return one.Is("spec") })
	cmd.Flags().Lookup("scud-tag").Usage = "tag of the task (default: the active one, or the only one)"
}

// leaf is a task that an agent can be given.
func leaf(b *report.Board, id string) (*tasks.Task, error) {
	t, err := need(b, id)
	if err == nil && t.Container() {
		err = badInput("its subtasks are: "+report.IDList(b.FileIDs(t.Children)), "task %s has subtasks and never runs", t.ID)
	}
	return t, err
}

// spec builds the text of a task's next attempt, or of the one asked for.
func (s *settings) spec(cmd *cobra.Command, id string, attempt int) (specbuild.Spec, error) {
	var none specbuild.Spec
	src, err := s.specSource(cmd)
	if err != nil {
		return none, err
	}
	t, err := leaf(src.Board, id)
	if err != nil {
		return none, err
	}
	if attempt < 0 {
		return none, badInput("", "--attempt %d: must be at least 1", attempt)
	}
	if attempt == 0 {
		text, err := src.home.Tuned(src.File.Tag(), t.ID)
		if err != nil {
			return none, err
		}
		if text != "" {
			n := specbuild.Tokens(text)
			return specbuild.Spec{Text: text, Tokens: n, Sources: []specbuild.Source{{Part: "tuned", Tokens: n, Rule: "chosen with descartes loop tune"}}}, nil
		}
	}
	return src.next(t.ID, attempt)
}

// next is the text that is built for a task's next attempt, or for the one asked for.
func (src *specSource) next(id string, attempt int) (specbuild.Spec, error) {
	last := ""
	if src.last != nil {
		last = src.last.State.ID
	}
	req, err := src.home.NextSpec(last, src.File.Tag(), id, attempt, src.refs)
	if err != nil {
		return specbuild.Spec{}, err
	}
	return src.job.Spec(req)
}

// adopt takes from the tag's last loop what neither a flag nor the settings file says.
func (s *settings) adopt(given func(string) bool, was loop.Config) {
	c, old := &s.Scud, was.Scud
	if s.CompletionPromise == config.New().CompletionPromise && was.CompletionPromise != "" {
		s.CompletionPromise = was.CompletionPromise
	}
	for _, x := range []struct {
		to   *string
		from string
	}{{&c.PlanPath, old.PlanPath}, {&c.HandoffPath, old.HandoffPath}, {&s.Baseline, was.Baseline}, {&c.Spec.SpecTemplate, old.Spec.SpecTemplate}} {
		if *x.to == "" {
			*x.to = x.from
		}
	}
	if c.VerificationCommand == "" && len(s.Checks) == 0 {
		c.VerificationCommand, s.Checks = old.VerificationCommand, was.Checks
	}
	if len(c.Spec.AdditionalSpecs) == 0 {
		c.Spec.AdditionalSpecs = old.Spec.AdditionalSpecs
	}
	if !given("max-attempts") && old.MaxIterationsPerTask > 0 {
		c.MaxIterationsPerTask = old.MaxIterationsPerTask
	}
	if !given("max-spec-tokens") {
		c.Spec.MaxSpecTokens = old.Spec.MaxSpecTokens
	}
	if !given("spec-budget") {
		c.Spec.Cut = old.Spec.Cut
	}
}

// explained is a spec's source map: one line for each part.
func explained(spec specbuild.Spec) string {
	var s strings.Builder
	for _, src := range spec.Sources {
		fmt.Fprintf(&s, "%-12s %6d tokens", src.Part, src.Tokens)
		if src.File != "" {
			fmt.Fprintf(&s, "  %s", terminal.Clean(filepath.ToSlash(src.File)))
			if src.FirstLine > 0 {
				fmt.Fprintf(&s, ":%d-%d", src.FirstLine, src.LastLine)
			}
		}
		if src.Rule != "" {
			fmt.Fprintf(&s, "  [%s]", terminal.Clean(src.Rule))
		}
		if len(src.Heading) > 0 {
			fmt.Fprintf(&s, "  %s", terminal.Clean(strings.Join(src.Heading, " > ")))
		}
		s.WriteString("\n")
	}
	fmt.Fprintf(&s, "%-12s %6d tokens\n", "total", spec.Tokens)
	for _, c := range spec.Cut {
		fmt.Fprintf(&s, "left out: %s\n", terminal.Clean(c))
	}
	if spec.Over {
		s.WriteString("over the budget\n")
	}
	return s.String()
}

type specJSON struct {
	Text    string       `json:"text"`
	Tokens  int          `json:"tokens"`
	Over    bool         `json:"over"`
	Thin    bool         `json:"thin"`
	Cut     []string     `json:"cut"`
	Sources []sourceJSON `json:"sources"`
}

type sourceJSON struct {
	Part      string   `json:"part"`
	File      string   `json:"file,omitempty"`
	FirstLine int      `json:"first_line,omitempty"`
	LastLine  int      `json:"last_line,omitempty"`
	Tokens    int      `json:"tokens"`
	Rule      string   `json:"rule,omitempty"`
	Heading   []string `json:"heading,omitempty"`
}

func jsonOf(spec specbuild.Spec) specJSON {
	out := specJSON{Text: spec.Text, Tokens: spec.Tokens, Over: spec.Over, Thin: spec.Thin, Cut: append([]string{}, spec.Cut...), Sources: []sourceJSON{}}
	for _, src := range spec.Sources {
		out.Sources = append(out.Sources, sourceJSON(src))
	}
	return out
}

func newTuneCmd() *cobra.Command {
	t := &tune{}
	cmd := &cobra.Command{
		Use:   "tune [task]",
		Short: "Compare a task's attempts, and choose or edit the next one's spec",
		Long: `Compare a task's attempts, and choose or edit the next one's spec.

Without a task, it lists those whose attempts failed. With one, it shows each attempt beside the one before:
how its spec differed, the agent's last words, what the verification printed, what was changed, what it cost.

  descartes loop tune 5                  # look
  descartes loop tune 5 --select 2       # the next attempt gets that spec
  descartes loop tune 5 --edit           # write the next spec in $EDITOR
  descartes loop tune 5 --select 2 --edit

For a prompt loop, the last one or that of --name, it compares iterations, and chooses the next one's prompt.

A chosen text is used word for word for the next attempt, once. A blocked task becomes pending.
loop start --auto-tune has an agent do this between attempts.`,
		Args: takes(0, 1, "at most one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(args); err != nil {
				return err
			}
			saved, err := t.promptLoop(cmd, args)
			if err != nil {
				return err
			}
			if saved != nil {
				return t.runPrompt(cmd, saved)
			}
			src, err := t.specSource(cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 && (t.selected > 0 || t.edit || t.drop) {
				return badInput("descartes loop tune"+src.Named()+" lists the tasks whose attempts failed", "which task?")
			}
			if len(args) == 0 {
				return t.candidates(cmd, src)
			}
			return t.run(cmd, src, args[0])
		},
	}
	t.registerSource(cmd)
	f := cmd.Flags()
	f.StringVar(&t.name, "name", "", "`id` of a loop: for a prompt loop its iterations are compared")
	f.BoolVar(&t.show, "show-variants", false, "show the attempts, even with --select or --edit")
	f.IntVar(&t.selected, "select", 0, "`number` of the attempt whose text the next one gets")
	f.BoolVar(&t.edit, "edit", false, "edit the text of the next attempt in $EDITOR")
	f.BoolVar(&t.drop, "drop", false, "forget the text that was chosen before")
	f.StringVar(&t.format, "format", "text", "text, json or markdown")
	return cmd
}

// tune are the flags of loop tune.
type tune struct {
	settings
	show, edit, drop bool
	selected         int
	name             string
	format           string
}

func (t *tune) check(args []string) error {
	switch {
	case !slices.Contains([]string{"text", "json", "markdown"}, t.format):
		return badInput("", "--format: %q is not one of text, json, markdown", t.format)
	case t.selected < 0:
		return badInput("", "--select %d: must be at least 1", t.selected)
	case t.drop && (t.selected > 0 || t.edit):
		return badInput("", "--drop cannot be used with --select or --edit")
	}
	return nil
}

func (t *tune) run(cmd *cobra.Command, src *specSource, id string) error {
	task, err := leaf(src.Board, id)
	if err != nil {
		return err
	}
	list := []loop.PastAttempt{}
	if src.last != nil {
		if list, err = src.home.Attempts(src.last.State.ID, task.ID); err == nil {
			list, err = t.compared(cmd.Context(), src.Root, src.job, list)
		}
		if err != nil {
			return err
		}
	}
	change := t.selected > 0 || t.edit || t.drop
	if !change || t.show {
		chosen, err := src.home.Tuned(src.File.Tag(), task.ID)
		if err != nil {
			return err
		}
		text, err := t.shown(list, func(markdown bool) string { return src.AttemptsText(task, list, chosen, markdown) })
		if err != nil {
			return err
		}
		if err := write(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	if !change {
		return nil
	}
	return t.choose(cmd, src, task, list)
}

// choose keeps a text for the next attempt and makes the task pending.
func (t *tune) choose(cmd *cobra.Command, src *specSource, task *tasks.Task, list []loop.PastAttempt) error {
	tag := src.File.Tag()
	if task.Status == tasks.Done {
		return badInput(fmt.Sprintf("descartes tasks set %s pending%s", terminal.Quote(task.ID), src.Named()), "task %s is done", task.ID)
	}
	if err := unowned(src.home, src.File); err != nil {
		return err
	}
	if t.drop {
		if err := src.home.Untune(atomicfile.OS(), tag, task.ID); err != nil {
			return err
		}
		return write(cmd.ErrOrStderr(), fmt.Sprintf("task %s: its next attempt gets the usual spec\n", terminal.Clean(task.ID)))
	}
	text, err := t.text(src, task.ID, list)
	if err != nil {
		return err
	}
	if text, err = t.changed(cmd, "spec.md", text); text == "" || err != nil {
		return err
	}
	if err := src.home.CatchUp(cmd.Context(), atomicfile.OS(), src.File, time.Now); err != nil {
		return unwritable(err)
	}
	if err := src.home.Tune(atomicfile.OS(), tag, task.ID, text); err != nil {
		return badInput("", "%w", err)
	}
	from, err := reopen(src.File, task.ID)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("task %s: the next attempt gets the chosen text, word for word\n", terminal.Clean(task.ID))
	if from != tasks.Pending && from != tasks.InProgress {
		note += fmt.Sprintf("task %s: %s -> pending\n", terminal.Clean(task.ID), terminal.Clean(string(from)))
	}
	note += "next: " + goOn(filepath.Dir(string(src.home)), src.File, src.Scud) + "\nor: descartes spec " + terminal.Quote(task.ID) + src.Named() + "\n"
	return write(cmd.ErrOrStderr(), note)
}

// changed is the text as a person leaves it in the editor, where one was asked for; "" where nothing is to be done.
func (t *tune) changed(cmd *cobra.Command, name, before string) (string, error) {
	if !t.edit {
		return before, nil
	}
	text, err := edited(cmd.Context(), name, before)
	switch {
	case err != nil:
		return "", err
	case strings.TrimSpace(text) == "":
		return "", badInput("nothing was changed", "the text is empty")
	case text == before && t.selected == 0:
		return "", write(cmd.ErrOrStderr(), "the text is as it was: nothing was changed\n")
	}
	return text, nil
}

// reopen makes a task pending that is neither that nor under way, and returns what it was.
func reopen(file *tasks.File, id string) (from tasks.Status, err error) {
	now, ok := file.Task(id)
	if !ok {
		return "", fmt.Errorf("task %s vanished from %s", id, file.Path())
	}
	if now.Status == tasks.Pending || now.Status == tasks.InProgress {
		return now.Status, nil
	}
	if err := tasks.CanChange(now.Status, tasks.Pending); err != nil {
		return "", badInput("", "task %s: %w", id, err)
	}
	from = now.Status
	if err := file.Save(map[string]tasks.Status{id: tasks.Pending}); err != nil {
		return "", unwritable(err)
	}
	return from, nil
}

// text is the next attempt's spec before anybody edits it.
func (t *tune) text(src *specSource, id string, list []loop.PastAttempt) (string, error) {
	if t.selected > 0 {
		for _, v := range list {
			if v.Attempt == t.selected && v.Spec != "" {
				return v.Spec, nil
			}
		}
		return "", badInput("descartes loop tune "+terminal.Quote(id)+src.Named()+" lists them", "task %s has no attempt %d in its last loop", id, t.selected)
	}
	if text, err := src.home.Tuned(src.File.Tag(), id); text != "" || err != nil {
		return text, err
	}
	spec, err := src.next(id, 0)
	return spec.Text, err
}

// candidates lists the tasks whose last attempt was not verified.
func (t *tune) candidates(cmd *cobra.Command, src *specSource) error {
	type row struct {
		ID       loop.TaskID `json:"id"`
		Title    string      `json:"title"`
		Status   string      `json:"status"`
		Attempts int         `json:"attempts"`
		Reason   string      `json:"reason"`
		Tuned    bool        `json:"tuned"`
	}
	rows := []row{}
	for _, id := range src.Graph.Leaves() {
		if src.last == nil || src.Graph.Status(id) == tasks.Done {
			continue
		}
		list, err := src.home.Attempts(src.last.State.ID, id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		task, _ := src.Graph.Task(id)
		text, err := src.home.Tuned(src.File.Tag(), id)
		if err != nil {
			return err
		}
		rows = append(rows, row{src.ID(id), task.Title, string(src.Graph.Status(id)), len(list), list[len(list)-1].Reason, text != ""})
	}
	if t.format == "json" {
		return writeJSON(cmd.OutOrStdout(), rows)
	}
	if len(rows) == 0 {
		return write(cmd.OutOrStdout(), "no task of tag "+terminal.Clean(src.File.Tag())+" has an attempt that failed\n")
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tSTATUS\tATTEMPTS\tTITLE\tLAST REASON")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", terminal.Clean(r.ID.ID), terminal.Clean(r.Status), r.Attempts, terminal.Fit(terminal.Clean(r.Title), 40), terminal.Fit(terminal.Clean(r.Reason), 60))
	}
	w.Flush() // into memory
	fmt.Fprintf(&s, "\nnext: descartes loop tune %s%s\n", terminal.Quote(rows[0].ID.ID), src.Named())
	return write(cmd.OutOrStdout(), s.String())
}

// promptLoop is the prompt loop that is meant: the named one, or the last one where that is neither over a
// tag nor a tag or a task is named. nil is a tag.
func (t *tune) promptLoop(cmd *cobra.Command, args []string) (*loop.Saved, error) {
	f := cmd.Flags()
	if t.name == "" && (len(args) > 0 || f.Changed("scud-tag") || f.Changed("tasks-file")) {
		return nil, nil
	}
	root, err := findRoot(t.Dir)
	if err != nil {
		return nil, err
	}
	if t.name == "" {
		s, err := loop.NewHome(root).Last()
		if err != nil || s == nil || s.State.Kind == loop.KindTag {
			return nil, nil // the tag's own commands say what is wrong
		}
		return s, nil
	}
	s, err := lookUp(root, t.Dir, t.name, "")
	if err != nil {
		return nil, err
	}
	if s.State.Kind != loop.KindTag {
		if len(args) > 0 {
			return nil, badInput("leave the task out", "loop %s repeats a prompt, it has no task %q", s.State.ID, args[0])
		}
		return s, nil
	}
	return nil, f.Set("scud-tag", s.State.Tag)
}

// runPrompt shows the iterations of a prompt loop, or chooses the text of its next one.
func (t *tune) runPrompt(cmd *cobra.Command, s *loop.Saved) error {
	root, err := findRoot(t.Dir)
	if err != nil {
		return err
	}
	home := loop.NewHome(root)
	list, err := home.Iterations(s.State.ID)
	if err == nil {
		list, err = t.compared(cmd.Context(), root, nil, list)
	}
	if err != nil {
		return err
	}
	chosen, err := home.TunedPrompt(s.State.ID)
	if err != nil {
		return err
	}
	change := t.selected > 0 || t.edit || t.drop
	if !change || t.show {
		text, err := t.shown(list, func(markdown bool) string { return report.IterationsText(s.State, list, chosen, markdown) })
		if err == nil {
			err = write(cmd.OutOrStdout(), text)
		}
		if err != nil || !change {
			return err
		}
	}
	if s.State.Completed {
		return badInput("start another one", "loop %s has ended (%s)", s.State.ID, journal.Ending(s.State.ExitReason.Type).Words())
	}
	if t.drop {
		if err := home.TunePrompt(atomicfile.OS(), s.State.ID, ""); err != nil {
			return err
		}
		return write(cmd.ErrOrStderr(), fmt.Sprintf("loop %s: its next iteration gets the usual prompt\n", s.State.ID))
	}
	return t.choosePrompt(cmd, home, s, list, chosen)
}

func (t *tune) choosePrompt(cmd *cobra.Command, home loop.Home, s *loop.Saved, list []loop.PastAttempt, chosen string) error {
	text := cmp.Or(chosen, s.State.Config.Prompt)
	if n := len(list); n > 0 && chosen == "" && list[n-1].Spec != "" {
		text = list[n-1].Spec
	}
	if t.selected > 0 {
		text = ""
		for _, v := range list {
			if v.Attempt == t.selected && v.Spec != "" {
				text = v.Spec
			}
		}
		if text == "" {
			return badInput("descartes loop tune --name "+s.State.ID+" shows those that there are", "loop %s has no text of an iteration %d", s.State.ID, t.selected)
		}
	}
	text, err := t.changed(cmd, "prompt.md", text)
	if text == "" || err != nil {
		return err
	}
	if err := home.TunePrompt(atomicfile.OS(), s.State.ID, text); err != nil {
		return badInput("", "%w", err)
	}
	note := fmt.Sprintf("loop %s: its next iteration gets the chosen text, word for word\n", s.State.ID)
	if !home.IsLive(*s) {
		note += "next: " + resumeOf(filepath.Dir(string(home)), s.State.ID, s.Path) + "\n"
	}
	return write(cmd.ErrOrStderr(), note)
}

// compared are attempts, oldest first, with the spec of each and what it changed.
func (t *tune) compared(ctx context.Context, root string, job *loop.Job, list []loop.PastAttempt) ([]loop.PastAttempt, error) {
	repo, err := openRepo(ctx, root, nil)
	if err == nil {
		defer repo.Close()
	}
	home := loop.NewHome(root)
	for i := range list {
		if err := home.ReadSpec(job, &list[i]); err != nil {
			return nil, err
		}
		if a := &list[i]; repo != nil && a.Before != "" && a.After != "" {
			if a.Diff, err = repo.Patch(ctx, a.Before, a.After, shownDiff); err != nil {
				a.Diff = "" // trees that git has pruned; the diff stat is left
			}
		}
	}
	report.CompareSpecs(list)
	return list, nil
}

// shownDiff bounds, in bytes, the diff that is shown of an attempt; its ref has all of it.
const shownDiff = 16 << 10

// shown are attempts in the format asked for.
func (t *tune) shown(list []loop.PastAttempt, text func(markdown bool) string) (string, error) {
	if t.format != "json" {
		return text(t.format == "markdown"), nil
	}
	var s strings.Builder
	err := writeJSON(&s, list)
	return s.String(), err
}

// edited lets a person change a text in their editor: $VISUAL, else $EDITOR, else vi. name is that of the
// file it is shown in. A text of which the editor says that it failed is not taken.
func edited(ctx context.Context, name, text string) (string, error) {
	line := cmp.Or(os.Getenv("VISUAL"), cmp.Or(os.Getenv("EDITOR"), "vi"))
	argv, err := config.SplitCommand("EDITOR", line)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "descartes-edit-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	code, err := proc.Interactive(ctx, append(argv, path), "")
	if err != nil {
		return "", badInput("set EDITOR to one that is installed", "editor: %w", err)
	}
	if code != 0 {
		return "", badInput("nothing was changed", "the editor %s ended with exit status %d", line, code)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read what was edited: %w", err)
	}
	return string(b), nil
}
