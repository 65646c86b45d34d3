package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/tasks"
)

func newTuneCmd() *cobra.Command {
	t := &tune{}
	cmd := &cobra.Command{
		Use:   "tune [task]",
		Short: "Compare a task's attempts, and choose or edit what the next one is told",
		Long: `Compare a task's attempts, and choose or edit what the next one is told.

Without a task, it lists those whose attempts failed. With one, it shows each attempt beside the one before:
how its spec differed, the agent's last words, what the verification printed, what was changed, what it cost.

  descartes loop tune 5                  # look
  descartes loop tune 5 --select 2       # the next attempt is told what attempt 2 was told
  descartes loop tune 5 --edit           # write what the next attempt is told, in $EDITOR
  descartes loop tune 5 --select 2 --edit

Of a prompt loop, the last one or that of --name, the iterations are compared, and the text is that of the next.

A text that was chosen is used word for word for the next attempt, once. A blocked task becomes pending.
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
			if len(args) == 0 && (t.selected > 0 || t.edit || t.drop) {
				return badInput("descartes loop tune lists the tasks whose attempts failed", "which task?")
			}
			src, err := t.specSource(cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return t.candidates(cmd, src)
			}
			return t.run(cmd, src, args[0])
		},
	}
	t.registerSource(cmd)
	f := cmd.Flags()
	f.StringVar(&t.name, "name", "", "`id` of a loop: of a prompt loop its iterations are compared")
	f.BoolVar(&t.show, "show-variants", false, "show the attempts, also with --select or --edit")
	f.IntVar(&t.selected, "select", 0, "`number` of the attempt whose text the next one is given")
	f.BoolVar(&t.edit, "edit", false, "edit the text of the next attempt in $EDITOR")
	f.BoolVar(&t.drop, "drop", false, "forget the text that was chosen before")
	f.StringVar(&t.format, "format", "text", "text, json or markdown")
	completeWords(cmd, "format", "text", "json", "markdown")
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
		return badInput("", "--format: %q is none of text, json, markdown", t.format)
	case t.selected < 0:
		return badInput("", "--select %d: must be at least 1", t.selected)
	case t.drop && (t.selected > 0 || t.edit):
		return badInput("", "--drop goes with neither --select nor --edit")
	}
	return nil
}

func (t *tune) run(cmd *cobra.Command, src *specSource, id string) error {
	task, err := src.leaf(id)
	if err != nil {
		return err
	}
	list, err := src.variants(cmd.Context(), task.ID)
	if err != nil {
		return err
	}
	change := t.selected > 0 || t.edit || t.drop
	if !change || t.show {
		text, err := t.render(src, task, list)
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
func (t *tune) choose(cmd *cobra.Command, src *specSource, task *tasks.Task, list []variant) error {
	tag := src.file.Tag()
	if task.Status == tasks.Done {
		return badInput(fmt.Sprintf("descartes tasks set %s pending%s", quote(task.ID), ofTag(tag, src.scud.TasksFile)), "task %s is done", task.ID)
	}
	if err := unowned(src.home, src.file); err != nil {
		return err
	}
	if t.drop {
		if err := src.home.Untune(atomicfile.OS(), tag, task.ID); err != nil {
			return err
		}
		return write(cmd.ErrOrStderr(), fmt.Sprintf("task %s: its next attempt is told what is built for it\n", clean(task.ID)))
	}
	text, err := t.text(src, task.ID, list)
	if err != nil {
		return err
	}
	if text, err = t.changed(cmd, "spec.md", text); text == "" || err != nil {
		return err
	}
	if err := src.home.CatchUp(cmd.Context(), atomicfile.OS(), src.file, time.Now); err != nil {
		return unwritable(err)
	}
	if err := src.home.Tune(atomicfile.OS(), tag, task.ID, text); err != nil {
		return badInput("", "%w", err)
	}
	from, err := reopen(src.file, task.ID)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("task %s: the next attempt is told the chosen text, word for word\n", clean(task.ID))
	if from != tasks.Pending && from != tasks.InProgress {
		note += fmt.Sprintf("task %s: %s -> pending\n", clean(task.ID), clean(string(from)))
	}
	note += "next: " + goOn(filepath.Dir(string(src.home)), src.file, src.scud) + ", or look again: descartes spec " + quote(task.ID) + ofTag(tag, src.scud.TasksFile) + "\n"
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
	if err := file.Save(atomicfile.OS(), map[string]tasks.Status{id: tasks.Pending}); err != nil {
		return "", unwritable(err)
	}
	return from, nil
}

// text is what the next attempt is told before anybody edits it.
func (t *tune) text(src *specSource, id string, list []variant) (string, error) {
	if t.selected > 0 {
		for _, v := range list {
			if v.Attempt == t.selected && v.Spec != "" {
				return v.Spec, nil
			}
		}
		return "", badInput("descartes loop tune "+quote(id)+" lists them", "task %s has no attempt %d in its last loop", id, t.selected)
	}
	if text, err := src.home.Tuned(src.file.Tag(), id); text != "" || err != nil {
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
	for _, id := range src.graph.Leaves() {
		if src.last == nil || src.graph.Status(id) == tasks.Done {
			continue
		}
		list, err := src.home.Variants(src.last.State.ID, id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		task, _ := src.graph.Task(id)
		text, err := src.home.Tuned(src.file.Tag(), id)
		if err != nil {
			return err
		}
		rows = append(rows, row{src.id(id), task.Title, string(src.graph.Status(id)), len(list), list[len(list)-1].Reason, text != ""})
	}
	if t.format == "json" {
		return writeJSON(cmd.OutOrStdout(), rows)
	}
	if len(rows) == 0 {
		return write(cmd.OutOrStdout(), "no task of tag "+clean(src.file.Tag())+" has an attempt that failed\n")
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tSTATUS\tATTEMPTS\tTITLE\tLAST REASON")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", clean(r.ID.ID), clean(r.Status), r.Attempts, fit(clean(r.Title), 40), fit(clean(r.Reason), 60))
	}
	w.Flush() // into memory
	fmt.Fprintf(&s, "\nnext: descartes loop tune %s%s\n", quote(rows[0].ID.ID), ofTag(src.file.Tag(), src.scud.TasksFile))
	return write(cmd.OutOrStdout(), s.String())
}
