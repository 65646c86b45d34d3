package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

func newAnswerCmd() *cobra.Command {
	var look tagFlags
	var a acceptance
	var edit, accepts bool
	var name string
	cmd := &cobra.Command{
		Use:   "answer [task] [text]",
		Short: "Answer an agent's question, and try its task again",
		Long: `Answer an agent's question, and try its task again.

An agent that did nothing and ends with words to its reader blocks its task until somebody answers. The answer becomes part of
every later spec of the task, and the task is pending again. A prompt loop whose agent asks ends with exit code 7; when it is
resumed, its prompt has the answer.

  descartes answer                   every open question
  descartes answer 3                 task 3's question, and its earlier answers
  descartes answer 3 "Use tabs."     answer it
  descartes answer 3 -               answer it with standard input
  descartes answer 3 --edit          write the answer in $EDITOR
  descartes answer --name ID "SQL."  answer the agent of a prompt loop
  descartes answer 3 --accept        take the kept work of a blocked task as it is

A running loop tries an answered task again when it has nothing else to do.
`,
		Args: takes(0, 2, "at most a task and a text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if accepts {
				if len(args) != 1 || edit || name != "" {
					return badInput("", "--accept takes one task, and no answer")
				}
				return accept(cmd, look, args[0], a)
			}
			if name != "" {
				return aboutLoop(cmd, look, name, edit, args)
			}
			switch len(args) {
			case 0:
				if edit {
					return badInput("", "--edit needs a task, or --name of a prompt loop")
				}
				return showQuestions(cmd, look)
			case 1:
				if edit {
					return answer(cmd, look, args[0], "")
				}
				return showQuestion(cmd, look, args[0])
			}
			if edit {
				return badInput("", "--edit takes no text: you write the answer in the editor")
			}
			return answer(cmd, look, args[0], args[1])
		},
	}
	look.register(cmd, "print it as JSON")
	cmd.Flags().BoolVar(&accepts, "accept", false, "accept the kept work of a blocked task, as your own decision: the next run merges it")
	a.register(cmd)
	cmd.Flags().BoolVar(&edit, "edit", false, "write the answer in $EDITOR")
	cmd.Flags().StringVar(&name, "name", "", "`id` of a prompt loop")
	return cmd
}

// aboutLoop shows what a prompt loop's agent asks, or keeps a person's answer for its next iteration.
func aboutLoop(cmd *cobra.Command, look tagFlags, name string, edit bool, args []string) error {
	root, err := findRoot(look.Dir)
	if err != nil {
		return err
	}
	s, err := lookUp(root, look.Dir, name, "")
	if err != nil {
		return err
	}
	id, home := s.State.ID, store.NewHome(root)
	switch {
	case s.State.Kind == store.KindTag:
		return badInput("leave --name out, and name the task", "loop %s works on the tasks of tag %q", id, s.State.Tag)
	case len(args) > 1 || edit && len(args) > 0:
		return badInput("", "--name takes one text, or --edit: %q", args)
	}
	open, err := home.Asks(*s)
	if err != nil {
		return err
	}
	if len(args) == 0 && !edit {
		return showAnswers(cmd, look, home, store.LoopKey(id), "loop "+id, store.TaskID{}, open, fromHere(root))
	}
	if err := byPerson("answer"); err != nil {
		return err
	}
	if s.State.Completed {
		return badInput("start another one", "loop %s has ended (%s)", id, journal.Ending(s.State.ExitReason.Type).Words())
	}
	text := strings.Join(args, "")
	if edit {
		if text, err = writtenAnswer(cmd, open); err != nil {
			return err
		}
	}
	if text, err = answerText(cmd.InOrStdin(), text); err != nil {
		return err
	}
	a := store.Answer{Text: text, At: time.Now()}
	if open != nil {
		a.Question = open.Question
	}
	if err := home.Answer(cmd.Context(), atomicfile.OS(), store.LoopKey(id), a); err != nil {
		return err
	}
	done := struct {
		Loop     string `json:"loop"`
		Question string `json:"question"`
		Answer   string `json:"answer"`
		Next     string `json:"next"`
	}{Loop: id, Question: a.Question, Answer: text}
	told := "loop " + id + ": answered; its next agent gets the answer\n"
	if !home.IsLive(*s) {
		done.Next = resumeOf(root, id, s.Path)
		told += "next: " + done.Next + "\n"
	}
	return show(cmd.OutOrStdout(), look.json, done, told)
}

// cutHere separates an answer from the question in the editor.
const cutHere = "---- what you write above this line is the answer ----"

// writtenAnswer opens an editor that shows the question, and returns what the person wrote.
func writtenAnswer(cmd *cobra.Command, open *store.Question) (string, error) {
	text := "\n\n" + cutHere + "\n"
	if open != nil {
		text += "\n" + terminal.Clean(strings.TrimSpace(open.Task+" "+open.Title)) + "\n\n" + terminal.CleanLines(open.Question) + "\n"
	}
	text, err := edited(cmd.Context(), "answer.md", text)
	if err != nil {
		return "", err
	}
	text, _, _ = strings.Cut(text, cutHere)
	return text, nil
}

// answer keeps a person's answer and makes the task pending.
func answer(cmd *cobra.Command, look tagFlags, id, text string) error {
	if err := byPerson("answer"); err != nil {
		return err
	}
	root, c, file, err := look.open(cmd)
	if err != nil {
		return err
	}
	if t, ok := file.Task(id); ok { // under the name that the list has, before a person writes anything
		id = t.ID
	} else {
		return badInput("descartes tasks list"+listFlags(root, file.Tag(), c.TasksFile), "tag %q has no task %q", file.Tag(), id)
	}
	if cmd.Flags().Changed("edit") {
		open, err := openQuestion(store.NewHome(root), file, id)
		if err != nil {
			return err
		}
		if text, err = writtenAnswer(cmd, open); err != nil {
			return err
		}
	}
	if text, err = answerText(cmd.InOrStdin(), text); err != nil {
		return err
	}
	done, err := giveAnswer(cmd.Context(), root, c, file, id, text)
	if err != nil {
		return err
	}
	return printAnswered(cmd, look, done)
}

// giveAnswer keeps a person's answer about a task, and makes the task pending or leaves that to the running loop. An empty text only retries the
// task.
func giveAnswer(ctx context.Context, root string, c loop.ScudConfig, file *tasks.File, id, text string) (answered, error) {
	home := store.NewHome(root)
	if who, owned := home.Owner(file); owned && who.Tag == file.Tag() {
		return handOver(ctx, root, file, who, id, text)
	}
	t, err := ownTask(ctx, home, file, c, id)
	if err != nil {
		return answered{}, err
	}
	if err := answerable(root, t, file, c); err != nil {
		return answered{}, err
	}
	return answerTask(ctx, root, file, c, t, text)
}

// answerTask keeps an answer and makes its task pending.
func answerTask(ctx context.Context, root string, file *tasks.File, c loop.ScudConfig, t *tasks.Task, text string) (answered, error) {
	home := store.NewHome(root)
	a, err := answerTo(home, file, t.ID, text)
	if err != nil {
		return answered{}, err
	}
	change := statusChange{Task: store.TaskID{ID: t.ID, Numeric: t.Numeric}, From: t.Status, To: tasks.Pending, File: view.Relative(root, file.Path())}
	// The answer first: a task that is pending without it would ask the same again.
	if text != "" {
		if err := home.Answer(ctx, atomicfile.OS(), file.Tag(), a); err != nil {
			return answered{}, err
		}
	}
	if change.From != change.To {
		if err := file.Save(map[string]tasks.Status{t.ID: change.To}); err != nil {
			return answered{}, unwritable(err)
		}
	}
	return answered{statusChange: change, Question: a.Question, Answer: text, Next: goOn(root, file, c)}, nil
}

// answerTo returns an answer with the open question it belongs to.
func answerTo(home store.Home, file *tasks.File, id, text string) (store.Answer, error) {
	a := store.Answer{Task: id, Text: text, At: time.Now()}
	open, err := openQuestion(home, file, id)
	if open != nil {
		a.Question = open.Question
	}
	return a, err
}

// openQuestion is what a task's agent asks, or nil.
func openQuestion(home store.Home, file *tasks.File, id string) (*store.Question, error) {
	open, err := home.Questions(file)
	for _, q := range open {
		if q.Task == id {
			return &q, nil
		}
	}
	return nil, err
}

// handOver leaves an answer for the running loop, which owns the statuses of its tag.
func handOver(ctx context.Context, root string, file *tasks.File, who store.Holder, id, text string) (answered, error) {
	home := store.NewHome(root)
	a, err := answerTo(home, file, id, text)
	if err != nil {
		return answered{}, err
	}
	if a.Question == "" && !blockedBy(home, who.Loop, id) {
		return answered{}, &failure{code: exitInput, err: &store.BusyError{Holder: who},
			hint: "it takes answers to what its agents have asked, and to tasks that it has blocked: descartes answer lists the questions; descartes loop pause " + who.Loop + " for any other"}
	}
	if err := home.Answer(ctx, atomicfile.OS(), file.Tag(), a); err != nil {
		return answered{}, err
	}
	t, _ := file.Task(id)
	change := statusChange{Task: store.TaskID{ID: id, Numeric: t.Numeric}, From: tasks.Blocked, To: tasks.Pending, File: view.Relative(root, file.Path())}
	return answered{statusChange: change, Question: a.Question, Answer: text, by: who.Loop}, nil
}

// blockedBy reports whether a loop has blocked a task.
func blockedBy(home store.Home, id, task string) bool {
	h, err := journal.Load(home.Events(id))
	return err == nil && h.Task(task).Blocked != nil
}

// answerText is the answer as it was typed, or standard input.
func answerText(stdin io.Reader, text string) (string, error) {
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(stdin, store.MaxAnswer+1))
		if err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		text = string(b)
	}
	switch {
	case len(text) > store.MaxAnswer:
		return "", badInput("put a longer text into a file of the project, and name that file in the answer", "the answer has more than %d bytes", store.MaxAnswer)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", badInput("", "the answer is not UTF-8 text")
	case strings.TrimSpace(text) == "":
		return "", badInput("", "the answer is empty")
	}
	return strings.TrimSpace(text), nil
}

// answerable says why a task cannot take an answer.
func answerable(root string, t *tasks.Task, file *tasks.File, c loop.ScudConfig) error {
	switch {
	case t.Container():
		return badInput("answer those", "task %s has subtasks and never runs itself", t.ID)
	case t.Status == tasks.Pending || t.Status == tasks.InProgress:
		return nil
	case t.Status == tasks.Done:
		return badInput("descartes tasks set "+terminal.Quote(t.ID)+" pending"+listFlags(root, file.Tag(), c.TasksFile)+" has it done again", "task %s is done", t.ID)
	}
	if err := tasks.CanChange(t.Status, tasks.Pending); err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	return nil
}

// goOn is the command that runs an answered task with the settings of the loop that asked.
func goOn(root string, file *tasks.File, c loop.ScudConfig) string {
	last, err := store.NewHome(root).LastOf(file.Tag())
	if err == nil && last != nil && (!last.State.Completed || reopened(root, last.State)) {
		return resumeOf(root, last.State.ID, last.Path)
	}
	return startAgain(listFlags(root, file.Tag(), c.TasksFile), last)
}

// startAgain is the command that starts a new loop over a list with the settings of its last one.
func startAgain(list string, last *store.Saved) string {
	typed := ""
	if last != nil {
		typed = last.State.Config.Typed.String()
	}
	return "descartes loop start" + list + typed
}

// answered is the result of giving an answer.
type answered struct {
	statusChange
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Next     string `json:"next"`
	by       string // the loop that runs and takes it up; "" where none does
}

func printAnswered(cmd *cobra.Command, look tagFlags, a answered) error {
	text := fmt.Sprintf("task %s: answered; %s\n", terminal.Clean(a.Task.ID), a.outcome())
	if a.Next != "" {
		text += "next: " + terminal.Clean(a.Next) + "\n"
	}
	return show(cmd.OutOrStdout(), look.json, a, text)
}

func (a answered) outcome() string {
	if a.by != "" {
		return "loop " + a.by + " is running and tries the task again when nothing else is left"
	}
	if a.From == a.To {
		return "it is pending, and its next agent gets the answer"
	}
	return fmt.Sprintf("%s -> %s, and its next agent gets the answer", a.From, a.To)
}

// showQuestions lists the open questions: of the named tag, or of every tag that a loop ran over and every prompt loop.
func showQuestions(cmd *cobra.Command, look tagFlags) error {
	boards, err := asked(cmd, &look)
	if err != nil {
		return err
	}
	list, text := []view.Question{}, ""
	for _, b := range boards {
		open, err := store.NewHome(b.Root).Questions(b.File)
		if err != nil {
			return err
		}
		list = append(list, view.QuestionList(b, open)...)
		text += view.QuestionLines(open, b.Named())
	}
	if !look.Given("tag") && !look.Given("tasks-file") {
		root, err := findRoot(look.Dir)
		if err != nil {
			return err
		}
		home := store.NewHome(root)
		all, err := home.List()
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.State == nil {
				continue
			}
			q, err := home.Asks(s)
			if err != nil {
				return err
			}
			if q != nil {
				list = append(list, view.LoopQuestion(*q, fromHere(root)))
				text += view.QuestionLines([]store.Question{*q}, fromHere(root))
			}
		}
	}
	if text == "" {
		text = "no agent waits for an answer\n"
	}
	return show(cmd.OutOrStdout(), look.json, list, text)
}

// asked returns the boards to search for questions.
func asked(cmd *cobra.Command, look *tagFlags) (boards []*view.Board, err error) {
	root, err := look.read()
	if err != nil {
		return nil, err
	}
	if look.Given("tag") || look.Given("tasks-file") {
		b, err := look.board(cmd)
		return []*view.Board{b}, err
	}
	all, err := store.NewHome(root).List()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, s := range all {
		if s.State == nil {
			continue
		}
		c := view.ListOf(s.State)
		key := c.Tag + "\x00" + c.TasksFile
		if seen[key] {
			continue
		}
		seen[key] = true
		if job, _ := loop.Load(root, loop.Config{Scud: c}); job != nil {
			b, err := view.NewBoard(job)
			if err != nil {
				return nil, err
			}
			b.Here = fromHere(root, c.TasksFile)
			boards = append(boards, b)
		}
	}
	return boards, nil
}

// showQuestion shows what a task's agent asks, and earlier answers.
func showQuestion(cmd *cobra.Command, look tagFlags, id string) error {
	b, t, err := look.task(cmd, id)
	if err != nil {
		return err
	}
	home := store.NewHome(b.Root)
	open, err := openQuestion(home, b.File, t.ID)
	if err != nil {
		return err
	}
	return showAnswers(cmd, look, home, b.File.Tag(), "task "+terminal.Clean(t.ID), b.ID(t.ID), open, b.Named())
}

// showAnswers shows the answers given about a task or a prompt loop, and the open question.
func showAnswers(cmd *cobra.Command, look tagFlags, home store.Home, key, who string, task store.TaskID, open *store.Question, named string) error {
	answers, err := home.Answers(key)
	if err != nil {
		return err
	}
	shown := struct {
		Task     store.TaskID   `json:"task_id"`
		Question *string        `json:"question"` // null where none is open
		Answers  []store.Answer `json:"answers"`
	}{Task: task, Answers: []store.Answer{}}
	var text strings.Builder
	for _, a := range answers {
		if a.Task == task.ID {
			shown.Answers = append(shown.Answers, a)
			fmt.Fprintf(&text, "answered %s:\n%s", a.At.Local().Format(time.DateTime), terminal.Indent(a.Text))
		}
	}
	if open != nil {
		shown.Question = &open.Question
		text.WriteString(view.QuestionLines([]store.Question{*open}, named))
	} else {
		text.WriteString(who + " is not waiting for an answer\n")
	}
	return show(cmd.OutOrStdout(), look.json, shown, text.String())
}
