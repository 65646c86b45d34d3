package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/tasks"
	"descartes/view"
	"descartes/view/print"
)

func newAnswerCmd() *cobra.Command {
	var a app
	var by acceptance
	var edit, accepts bool
	var name string
	cmd := &cobra.Command{
		Use: "answer [task] [text]", Aliases: []string{"accept"},
		Short: "Answer an agent's question, and try its task again",
		Long: `Answer an agent's question. The answer becomes part of every later spec of the task, and the
task is pending again; a run under way tries it when it has nothing else to do.

  descartes answer                   every open question
  descartes answer 3                 task 3's question, and its earlier answers
  descartes answer 3 "Use tabs."     answer it; - is standard input
  descartes answer 3 --edit          write the answer in $EDITOR
  descartes answer --name ID "SQL."  answer the agent of a prompt loop
  descartes answer 3 --accept        take the kept work of a blocked task

A prompt loop whose agent asks ends with exit code 7; resumed, its prompt has the answer.

With --accept the next run merges the kept work of the task's last attempt with what was verified since, and marks the task
done (accepted): no agent works on it. The checks run once now, on what the merge makes: where they fail, later tasks will
fail with them, so you are asked, and a script needs --yes. The checks of a wave and of the end run as usual.
`,
		Args: takes(0, 2, "at most a task and a text"),
		RunE: a.does(func(args []string) error {
			words := len(args)
			accepts = accepts || a.cmd.CalledAs() == "accept"
			if name == "" {
				words--
			}
			switch {
			case accepts && (len(args) != 1 || edit || name != ""):
				return badInput("", "--accept takes one task, and no answer")
			case accepts:
				return a.accept(args[0], by)
			case edit && words != 0 || words > 1:
				return badInput("", "one text answers one task or prompt loop: as an argument, or with --edit")
			case name != "":
				return a.answerLoop(name, edit, args)
			case len(args) == 0:
				return a.questions()
			}
			return a.answerTask(args[0], edit, args[1:])
		}),
	}
	a.register(cmd, "print it as JSON")
	f := cmd.Flags()
	f.BoolVar(&accepts, "accept", false,
		"accept the kept work of a blocked task, as your own decision: the next run merges it")
	by.register(cmd)
	f.BoolVar(&edit, "edit", false, "write the answer in $EDITOR")
	f.StringVar(&name, "name", "", "`id` of a prompt loop")
	return cmd
}

// answerTask shows what a task's agent asks, or keeps a person's answer and makes the task pending.
func (a *app) answerTask(id string, edit bool, args []string) error {
	b, t, err := a.task(id)
	if err != nil {
		return err
	}
	c, file := b.Scud, b.File
	if err := a.hear(file); err != nil {
		return err
	}
	open, err := a.openQuestion(b, t.ID)
	if err != nil {
		return err
	}
	task := store.TaskID{ID: t.ID, Numeric: t.Numeric}
	if len(args) == 0 && !edit {
		return a.showAnswers(a.home.KeyOf(file), "task "+t.ID, task, open, listFlags(a.root, file.Tag(), c.TasksFile))
	}
	text, err := a.answerText(open, edit, args)
	if err != nil {
		return err
	}
	said := store.Answer{Task: t.ID, Text: text, At: time.Now(), Question: asked(open)}
	d, err := a.decide(c, file, t, said, nil)
	if err != nil {
		return err
	}
	how := "it is pending, and its next agent gets the answer"
	switch {
	case d.by != "":
		how = "run " + d.by + " is running and tries the task again in its next free slot"
	case d.From != d.To:
		how = fmt.Sprintf("%s -> %s, and its next agent gets the answer", d.From, d.To)
	}
	return a.show(struct {
		*decided
		Question string `json:"question"`
		Answer   string `json:"answer"`
	}{d, said.Question, text}, fmt.Sprintf("task %s: answered; %s\n%s", terminal.Clean(t.ID), how, d.next()))
}

// answerLoop is the same for a prompt loop, whose next iteration gets the answer.
func (a *app) answerLoop(name string, edit bool, args []string) error {
	s, err := a.loop(name)
	if err != nil {
		return err
	}
	id := s.State.ID
	if s.State.Kind == store.KindTag {
		return badInput("leave --name out, and name the task", "run %s works on the tasks of tag %q", id, s.State.Tag)
	}
	open, err := a.home.Asks(*s)
	if err != nil {
		return err
	}
	if len(args) == 0 && !edit {
		return a.showAnswers(store.LoopKey(id), "run "+id, store.TaskID{}, open, a.here())
	}
	if s.State.Completed {
		return badInput("start another one", "run %s has ended (%s)", id,
			journal.Ending(s.State.ExitReason.Type).Words())
	}
	text, err := a.answerText(open, edit, args)
	if err != nil {
		return err
	}
	if err := a.home.Answer(a.ctx(), atomicfile.OS(), store.LoopKey(id),
		store.Answer{Text: text, At: time.Now(), Question: asked(open)}); err != nil {
		return err
	}
	var d decided
	if !a.home.IsLive(*s) {
		d.Next = resumeOf(a.root, id, s.Path)
	}
	return a.show(struct {
		Loop     string `json:"loop"`
		Question string `json:"question"`
		Answer   string `json:"answer"`
		Next     string `json:"next"`
	}{id, asked(open), text, d.Next}, "run "+id+": answered; its next agent gets the answer\n"+d.next())
}

func asked(open *store.Question) string {
	if open == nil {
		return ""
	}
	return open.Question
}

// openQuestion is what a task's agent asks, or nil.
func (a *app) openQuestion(b *view.Board, id string) (*store.Question, error) {
	open, err := a.home.Questions(b.File, b.Graph.Status)
	for _, q := range open {
		if q.Task == id {
			return &q, nil
		}
	}
	return nil, err
}

// cutHere separates an answer from the question in the editor.
const cutHere = "---- what you write above this line is the answer ----"

// answerText is what a person answers: typed, on standard input, or written in an editor that shows the question.
func (a *app) answerText(open *store.Question, edit bool, args []string) (text string, err error) {
	if err := byPerson("answer"); err != nil {
		return "", err
	}
	switch {
	case edit:
		text = "\n\n" + cutHere + "\n"
		if open != nil {
			text += "\n" + terminal.Clean(strings.TrimSpace(open.Task+" "+open.Title)) + "\n\n" +
				terminal.CleanLines(open.Question) + "\n"
		}
		text, err = edited(a.ctx(), "answer.md", text)
		text, _, _ = strings.Cut(text, cutHere)
	case args[0] == "-":
		var b []byte
		b, err = io.ReadAll(io.LimitReader(a.cmd.InOrStdin(), store.MaxAnswer+1))
		text = string(b)
	default:
		text = args[0]
	}
	if text = strings.TrimSpace(text); err == nil && (text == "" || len(text) > store.MaxAnswer ||
		!utf8.ValidString(text) || strings.ContainsRune(text, 0)) {
		err = badInput("put a longer text into a file of the project, and name that file in the answer",
			"an answer is UTF-8 text of 1 to %d bytes, this one has %d", store.MaxAnswer, len(text))
	}
	return text, err
}

// decided is what became of a person's decision about a task.
type decided struct {
	statusChange
	Next string `json:"next"`
	by   string // the loop that runs and takes it up; "" where none does
}

// next is the line that says what to type, if anything.
func (d *decided) next() string {
	if d.Next == "" {
		return ""
	}
	return "next: " + terminal.Clean(d.Next) + "\n"
}

// decide keeps a person's decision about a task and makes the task pending; a running loop, which owns the statuses of
// its tag, takes it up itself. check has the last word before.
func (a *app) decide(c config.ScudConfig, file *tasks.File, t *tasks.Task, said store.Answer,
	check func() error) (*decided, error) {
	if check == nil {
		check = func() error { return nil }
	}
	d := &decided{statusChange: statusChange{Task: store.TaskID{ID: t.ID, Numeric: t.Numeric}, From: t.Status,
		To: tasks.Pending, File: store.Relative(a.root, file.Path())}}
	if who, owned := a.home.Owner(file); owned && who.List == a.home.KeyOf(file) {
		h, err := journal.Load(a.home.Events(who.Loop))
		if said.Question == "" && (err != nil || h.Task(t.ID).Blocked == nil) {
			return nil, &failure{code: exitInput, err: &store.BusyError{Holder: who},
				hint: "it takes answers to what its agents have asked, and to tasks that it has blocked: descartes answer lists the questions; descartes pause " + who.Loop + " for any other"}
		}
		if err := check(); err != nil {
			return nil, err
		}
		d.From, d.by = tasks.Blocked, who.Loop
		return d, a.answer(file, said)
	}
	if _, listed := file.Task(t.ID); !listed {
		return a.decideOwn(c, file, said, d)
	}
	t, err := ownTask(a.ctx(), a.home, file, c, t.ID)
	if err == nil {
		err = answerable(a.root, t, file, c)
	}
	if err == nil {
		err = check()
	}
	// The answer first: a task that is pending without it would ask the same again.
	if err == nil {
		err = a.answer(file, said)
	}
	if err != nil {
		return nil, err
	}
	if d.From = t.Status; d.From != d.To {
		if err := file.Save(map[string]tasks.Status{t.ID: d.To}); err != nil {
			return nil, unwritable(err)
		}
	}
	last, err := a.home.LastOf(a.home.KeyOf(file))
	if err == nil && last != nil && (!last.State.Completed || reopened(a.root, last.State)) {
		d.Next = resumeOf(a.root, last.State.ID, last.Path)
	} else {
		d.Next = startAgain(listFlags(a.root, file.Tag(), c.TasksFile), last)
	}
	return d, nil
}

// hear takes over what other clones said about a list's tasks; share gives them what was said here.
func (a *app) hear(list *tasks.File) error {
	repo, err := a.repo()
	if err != nil {
		return notRepo(err)
	}
	if at, err := repo.RefCommit(store.SaidRef(store.ListOf(list, repo.Root()).Key())); err != nil || at == "" {
		return err
	}
	return a.share(list)
}

// notRepo leaves out that there is no repository: then there is nobody to share with.
func notRepo(err error) error {
	if errors.Is(err, gitops.ErrNotRepo) {
		return nil
	}
	return err
}

func (a *app) share(list *tasks.File) error {
	repo, err := a.repo()
	if err != nil {
		return notRepo(err)
	}
	says := trunk.Sayings{Repo: repo, Home: a.home, FS: atomicfile.OS(), Tag: list.Tag(),
		List: store.ListOf(list, repo.Root()).Key(), Key: a.home.KeyOf(list), Now: gitops.Now}
	return says.Share(a.ctx(), "")
}

// answer keeps what a person said about a task of a list.
func (a *app) answer(list *tasks.File, said store.Answer) error {
	if err := a.home.Answer(a.ctx(), atomicfile.OS(), a.home.KeyOf(list), said); err != nil {
		return err
	}
	return a.share(list)
}

// answerable says why a task cannot take an answer.
func answerable(root string, t *tasks.Task, file *tasks.File, c config.ScudConfig) error {
	switch {
	case t.Container():
		return badInput("answer those", "task %s has subtasks and never runs itself", t.ID)
	case t.Status == tasks.Pending || t.Status == tasks.InProgress:
		return nil
	case t.Status == tasks.Done:
		return badInput("descartes tasks set "+terminal.Quote(t.ID)+" pending"+
			listFlags(root, file.Tag(), c.TasksFile)+" has it done again", "task %s is done", t.ID)
	}
	if err := tasks.CanChange(t.Status, tasks.Pending); err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	return nil
}

// decideOwn keeps a person's answer about a task that a run added, which no list has.
func (a *app) decideOwn(c config.ScudConfig, file *tasks.File, said store.Answer, d *decided) (*decided, error) {
	if said.Accept != nil {
		return nil, badInput("commit what mends it, or change the check", "task %s is a run's own, and can only be accepted while that runs",
			said.Task)
	}
	if err := a.answer(file, said); err != nil {
		return nil, err
	}
	last, err := a.home.LastOf(a.home.KeyOf(file))
	if d.Next = startAgain(listFlags(a.root, file.Tag(), c.TasksFile), last); err == nil && last != nil && !last.State.Completed {
		d.Next = resumeOf(a.root, last.State.ID, last.Path)
	}
	return d, err
}

// startAgain is the command that starts a new loop over a list with the settings of its last one.
func startAgain(list string, last *store.Saved) string {
	typed := ""
	if last != nil {
		typed = last.State.Config.Typed.String()
	}
	return "descartes start" + list + typed
}

// questions lists the open questions: of the named tag, or of every tag that a loop ran over and every prompt loop.
func (a *app) questions() error {
	list := []view.Question{}
	add := func(b *view.Board, err error) error {
		if err != nil {
			return err
		}
		if err := a.hear(b.File); err != nil {
			return err
		}
		open, err := a.home.Questions(b.File, b.Graph.Status)
		list = append(list, b.Questions(open)...)
		return err
	}
	_, err := a.read()
	if err != nil {
		return err
	}
	var all []store.Saved
	if a.Given("tag") || a.Given("tasks-file") {
		err = add(a.board())
	} else if all, err = a.home.List(); err == nil && len(all) == 0 { // runs of other clones may have asked
		if b, berr := a.board(); berr == nil {
			err = add(b, nil)
		}
	}
	seen := map[string]bool{}
	for _, s := range all {
		if err != nil || s.State == nil {
			continue
		}
		c := view.ListOf(s.State)
		key := c.Tag + "\x00" + c.TasksFile
		if job, _ := source.Load(a.root, config.Config{Scud: c}); job != nil && !seen[key] {
			b, berr := view.NewBoard(job)
			if berr == nil {
				b.Here = fromHere(a.root, c.TasksFile)
			}
			err = add(b, berr)
		}
		seen[key] = true
	}
	for _, s := range all {
		if err != nil || s.State == nil {
			continue
		}
		var q *store.Question
		if q, err = a.home.Asks(s); q != nil {
			list = append(list, view.QuestionOf(*q, "", store.TaskID{}, a.here()))
		}
	}
	if err != nil {
		return err
	}
	text := print.Questions(list)
	if text == "" {
		text = "no agent waits for an answer\n"
	}
	return a.show(list, text)
}

// showAnswers shows the answers given about a task or a prompt loop, and the open question.
func (a *app) showAnswers(key, who string, task store.TaskID, open *store.Question, named string) error {
	answers, err := a.home.Answers(key)
	if err != nil {
		return err
	}
	shown := struct {
		Task     store.TaskID   `json:"task_id"`
		Question *string        `json:"question"` // null where none is open
		Answers  []store.Answer `json:"answers"`
	}{Task: task, Answers: []store.Answer{}}
	var text strings.Builder
	for _, one := range answers {
		if one.Task == task.ID {
			shown.Answers = append(shown.Answers, one)
			fmt.Fprintf(&text, "answered %s:\n%s", one.At.Local().Format(time.DateTime), terminal.Indent(one.Text))
		}
	}
	if open != nil {
		shown.Question = &open.Question
		text.WriteString(print.Questions([]view.Question{view.QuestionOf(*open, "", task, named)}))
	} else {
		text.WriteString(terminal.Clean(who) + " is not waiting for an answer\n")
	}
	return a.show(shown, text.String())
}
