package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/attempt"
	"descartes/loop/breakdown"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/tasks/front"
	"descartes/verify"
	"descartes/view"
	"descartes/view/print"
)

func newTasksPlanCmd() *cobra.Command {
	x := &tasksPlan{}
	cmd := &cobra.Command{
		Use:   "plan [file]",
		Short: "Have the agent make tasks of a document, or split a task",
		Long: `Have the agent make tasks of a document, such as a PRD, or split one task. You see
the waves and what would change, and nothing is written before you say yes.

  descartes tasks plan PRD.md                  a new list, named after the file
  descartes tasks plan PRD.md --tag x --add    more tasks for a list
  descartes tasks plan - --tag x               the document on standard input
  descartes tasks plan --expand 3              split task 3

The agent reads the project and changes nothing. Its answer is checked: ids, titles, dependencies, circles, sizes. A wrong
one goes back to it.

Without a terminal nothing is written unless --yes is given. The answer is kept
in .descartes/breakdown/answer.json: --answer takes it, as it is or as you have
changed it, and no agent is asked.`,
		Args: takes(0, 1, "one file"),
		RunE: x.does(func(args []string) error { return x.run(oneArg(args, "")) }),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	more := []string{"backend", "command", "model", "fallback", "timeout", "idle-timeout", "deadline", "max-cost",
		"sandbox", "env-pass", "max-spec-tokens", "config", "trust"}
	x.settings.register(cmd, func(one *config.Setting) bool {
		return one.Is("look") || slices.Contains(more, one.Flag)
	})
	f := cmd.Flags()
	f.Lookup("tag").Usage = "`tag` that gets the tasks (default: the one in the document's front matter, else the file's name)"
	f.Lookup("max-spec-tokens").Usage = "what the agent gets about the project besides the document, in tokens"
	f.Lookup("timeout").Usage = "longest run of an agent, in seconds or like 20m (default 30m)"
	f.StringVar(&x.expand, "expand", "", "split this `task` into smaller ones")
	f.StringVar(&x.b.Ask, "prompt", "", "extra instructions for the agent")
	f.StringVar(&x.answer, "answer", "", "take the tasks from this `file` and ask no agent")
	f.BoolVar(&x.add, "add", false, "add the tasks to a list that has some already")
	f.IntVar(&x.b.Most, "max-tasks", 0, fmt.Sprintf("`N` tasks at most (default %d, with --expand %d)", planTasks,
		splitTasks))
	f.IntVar(&x.tries, "max-answers", 3, "`N` answers at most, before one that can be taken")
	f.BoolVar(&x.yes, "yes", false, "write the tasks without a question")
	f.BoolVar(&x.dryRun, "dry-run", false, "show the tasks, and write no list")
	f.BoolVar(&x.json, "json", false, "print the tasks and the change as JSON; what happens goes to stderr")
	oneOf(cmd, "expand", "add")
	oneOf(cmd, "yes", "dry-run")
	return cmd
}

const (
	planTimeout   = 30 * 60 // seconds
	planTasks     = 60
	splitTasks    = 10
	mostTasks     = 500
	maxDocument   = 1 << 20 // bytes
	maxAnswerFile = 4 << 20
)

// tasksPlan is a call of tasks plan.
type tasksPlan struct {
	app
	expand, answer   string
	add, yes, dryRun bool
	tries            int

	p    *printer
	b    specbuild.Breakdown
	file *tasks.File // that is changed; nil: it is made
	cost journal.Cost
}

func (x *tasksPlan) run(document string) (err error) {
	most := &x.b.Most
	switch {
	case (x.expand == "") == (document == ""):
		return badInput("descartes tasks plan --help", "which document? Or --expand: which task?")
	case x.tries < 1 || x.tries > 20 || *most < 0 || *most > mostTasks || *most == 1 && x.expand != "":
		return badInput("", "--max-answers %d, --max-tasks %d: 1 to 20 answers, and 1 to %d tasks, more than one with --expand", x.tries, *most, mostTasks)
	case *most == 0 && x.expand != "":
		*most = splitTasks
	case *most == 0:
		*most = planTasks
	}
	if _, err := x.load(); err != nil {
		return err
	}
	if !x.Given("timeout") {
		x.TimeoutSecs = planTimeout
	}
	if err := x.trusted(x.cmd, x.root); err != nil {
		return err
	}
	x.p = newPrinter(x.out(), x.cmd.ErrOrStderr(), x.json, false)
	defer x.p.close()
	if err := x.source(document); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(x.ctx(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	list, err := x.tasks(ctx)
	if err == nil {
		err = x.offer(ctx, list)
	}
	if ctx.Err() != nil {
		return interrupted(ctx, "interrupted: nothing is written")
	}
	return err
}

// source reads what is broken down, and the list that gets the tasks.
func (x *tasksPlan) source(document string) (err error) {
	x.b.First, x.b.Tokens = 1, x.Scud.Spec.MaxSpecTokens
	scud := &x.Scud
	if x.expand != "" {
		err = chooseSource(x.cmd.ErrOrStderr(), x.root, scud)
	} else {
		err = x.document(document)
	}
	if err != nil {
		return err
	}
	x.file, err = source.OpenTasks(x.root, *scud)
	var missing *tasks.NotFoundError
	switch {
	case err == nil:
		err = x.listed()
	case errors.As(err, &missing) && scud.TasksFile == "" && x.expand == "":
		_, err = tasks.NewList(x.root, scud.Tag, nil)
	}
	if err != nil {
		return err
	}
	// What the agent gets about the project.
	x.b.Tag = scud.Tag
	x.b.Tags = slices.DeleteFunc(tasks.Known(x.root), func(tag string) bool { return tag == x.b.Tag })
	entries, _ := os.ReadDir(x.root) // a project that cannot be listed has nothing to show
	for _, e := range entries {
		name := terminal.Clean(e.Name())
		if e.IsDir() {
			name += "/"
		}
		if !strings.HasPrefix(name, ".") {
			x.b.Files = append(x.b.Files, name)
		}
	}
	if readme, err := plainfile.Read(x.root, "README.md", maxDocument); err == nil {
		x.b.Readme = string(readme)
	}
	if x.b.Verify = scud.VerificationCommand; x.b.Verify == "" {
		x.b.Verify, _, _ = verify.Detect(x.root)
	}
	return nil
}

// document reads the document, and finds the tag that it is for.
func (x *tasksPlan) document(name string) error {
	text, err := x.readFile(name, maxDocument)
	if err != nil {
		return err
	}
	if err := specbuild.CheckDocument(text); err != nil {
		return badInput("", "%s %w", name, err)
	}
	x.b.Name, x.b.Document = filepath.Base(name), string(text)
	if matter, _ := front.Read(text); x.Scud.Tag == "" {
		x.Scud.Tag = matter.Tag
	}
	if x.Scud.Tag == "" && name == "-" {
		return badInput("--tag NAME", "a document on standard input has no name that could be its tag")
	}
	if x.Scud.Tag == "" {
		x.Scud.Tag, err = tagOfPlan(name)
	}
	return cmp.Or(err, tasks.ValidTag(x.Scud.Tag))
}

// readFile reads a file that was named; - is standard input.
func (x *tasksPlan) readFile(name string, limit int64) (text []byte, err error) {
	if name != "-" {
		text, err = launch.ReadText(x.root, launch.Absolute(x.dirPath(), name), limit)
	} else if text, err = io.ReadAll(io.LimitReader(x.cmd.InOrStdin(), limit+1)); int64(len(text)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	if err != nil {
		return nil, badInput("", "%s: %w", name, err)
	}
	return text, nil
}

// listed looks at a list that has tasks already, and at what may become of it.
func (x *tasksPlan) listed() error {
	if err := unowned(x.home, x.file); err != nil {
		return err
	}
	if !x.dryRun {
		err := x.home.CatchUp(x.ctx(), atomicfile.OS(), x.file, time.Now, elsewhere(x.ctx(), x.home, x.file))
		if err = cmp.Or(err, x.file.Writable()); err != nil {
			return unwritable(err)
		}
	}
	if x.expand == "" && !x.add {
		return taken(x.root, x.file, "--add adds to them, or choose another --tag")
	}
	x.Scud.Tag = x.file.Tag()
	board, err := view.NewBoard(source.JobOf(x.root, config.Config{Scud: x.Scud}, x.file))
	if err != nil {
		return err
	}
	probe := []tasks.Task{{ID: "descartes", Title: "probe"}}
	if x.expand != "" {
		t, err := need(board, x.expand)
		if err != nil {
			return err
		}
		if x.b.Split, x.expand = t, t.ID; board.Graph.Status(t.ID) == tasks.Done {
			return badInput("", "task %s is done: there is nothing to split", t.ID)
		}
		probe[0].ID = t.ID + ".1"
	}
	for _, t := range x.file.Tasks() {
		t.Status = board.Graph.Status(t.ID)
		x.b.Standing = append(x.b.Standing, t)
		if n, err := strconv.Atoi(t.ID); err == nil && n < 1<<30 {
			x.b.First = max(x.b.First, n+1)
		}
	}
	_, err = x.changed(probe)
	return err
}

// changed is the list as it would be.
func (x *tasksPlan) changed(list []tasks.Task) (*tasks.File, error) {
	if x.file == nil {
		return tasks.NewList(x.root, x.Scud.Tag, list)
	}
	now, err := x.file.Amended(tasks.Amendment{Split: x.expand, Add: list})
	return now, x.unamendable(err)
}

// unamendable is why a list cannot be changed as it was to be, with its file's name as a person knows it.
func (x *tasksPlan) unamendable(err error) error {
	var refused *tasks.AmendError
	if errors.As(err, &refused) {
		return badInput("", "%s: %s", store.Relative(x.root, refused.Path), refused.Reason)
	}
	return err
}

// tasks are those that an agent plans, or of the answer that was given.
func (x *tasksPlan) tasks(ctx context.Context) ([]tasks.Task, error) {
	if x.answer != "" {
		text, err := x.readFile(x.answer, maxAnswerFile)
		if err != nil {
			return nil, err
		}
		list, _, faults := breakdown.Read(string(text), &x.b)
		if len(faults) > 0 {
			return nil, faulty(exitInput, "correct "+x.answer, &breakdown.RefusedError{Answers: 1, Faults: faults})
		}
		return list, nil
	}
	r, found := launch.Bench(ctx, x.root, launch.PoolOf(x.root), &x.Config, true)
	x.p.text.redact = r.Redact
	if len(found) > 0 {
		return nil, problems(found)
	}
	if err := r.Takes(len(specbuild.BreakdownPrompt(x.b))); err != nil {
		return nil, badInput("give the agent its prompt by standard input, or split the document", "%w", err)
	}
	x.p.header(r)
	return x.asked(ctx, r, *r.Config)
}

// asked has the agent plan the tasks.
func (x *tasksPlan) asked(ctx context.Context, r *launch.Run, cfg config.Config) (_ []tasks.Task, err error) {
	dir := x.home.Breakdown()
	if err := cmp.Or(x.home.Make(atomicfile.OS()), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	who := store.Holder{PID: os.Getpid(), Loop: "tasks-plan", Tag: x.b.Tag, At: time.Now()}
	alone, err := store.TakeLock(ctx, store.LockOf(dir), store.LockWait, who)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, alone.Release()) }()
	ws, base, free, err := x.workspace(ctx, r, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, free()) }()
	var commands launch.Commands
	if err := commands.Start(r.Commands(dir, x.root+"/breakdown")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, commands.Close()) }()
	a := &breakdown.Asker{Dir: dir, Workspace: ws, Start: slot.Start{Base: base}, Note: x.p.warn,
		Runner: &attempt.Runner{Agent: commands.Agents(), Redact: r.Redact, Dir: dir, Repo: r.Repo},
		Input: attempt.Input{Name: x.b.Tag, Env: []string{"DESCARTES_TAG=" + x.b.Tag},
			Agent: attempt.Clocks{Timeout: seconds(cfg.TimeoutSecs), Idle: seconds(cfg.IdleTimeoutSecs),
				Start: seconds(cfg.StartTimeoutSecs), Exit: seconds(cfg.ExitGraceSecs), Spin: cfg.SpinLimit}},
		Ended: func(_ attempt.With, res agent.Result) {
			d := &journal.Detail{Exit: journal.Exit{End: string(res.End)}}
			if c := res.Cost; c != nil {
				if d.USD, d.Estimated = c.USD, c.Estimated; c.Tokens != nil {
					d.InputTokens, d.OutputTokens = c.Tokens.Input, c.Tokens.Output
				}
			}
			x.cost.Add(d)
		}}
	for _, c := range cfg.Choices(nil) {
		a.Among = append(a.Among, attempt.With(c))
	}
	if err := a.Clear(); err != nil {
		return nil, err
	}
	list, raw, err := breakdown.Ask(ctx, x.b, x.tries, func(ctx context.Context, n int, prompt string) (string,
		error) {
		if cfg.Deadline != nil && !time.Now().Before(*cfg.Deadline) {
			return "", &failure{code: exitLimit, err: fmt.Errorf("the deadline %s has passed",
				cfg.Deadline.Format(time.RFC3339))}
		}
		if cfg.MaxCostUSD > 0 && x.cost.USD != nil && *x.cost.USD >= cfg.MaxCostUSD {
			return "", &failure{code: exitLimit, err: fmt.Errorf(
				"the agent cost %s, the limit is %s, and no answer can be taken yet", x.cost.Dollars(),
				journal.Dollars(cfg.MaxCostUSD))}
		}
		x.p.say("asking for tasks (answer %d of at most %d); the agent's log: %s", n, x.tries,
			store.Relative(x.root, a.Log(n)))
		x.p.text.Flush()
		return a.Ask(ctx, n, prompt)
	})
	x.p.say("cost: %s", x.cost.Text())
	var refused *breakdown.RefusedError
	var ended *breakdown.EndedError
	switch {
	case errors.As(err, &refused):
		return nil, faulty(exitBlocked, "the agent's logs are in "+store.Relative(x.root, dir)+
			"; --max-answers gives it more tries, --prompt tells it more", refused)
	case errors.As(err, &ended):
		codes := map[agent.End]int{agent.Limited: exitQuota, agent.TimedOut: exitLimit, agent.Idled: exitLimit,
			agent.Finished: exitBlocked}
		return nil, &failure{code: cmp.Or(codes[ended.Result.End], exitAgent), err: err,
			hint: "the agent's log: " + store.Relative(x.root, ended.Log)}
	case err != nil:
		return nil, err
	}
	if err := atomicfile.Write(atomicfile.OS(), x.kept(), append(bytes.TrimSpace(raw), '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("keep the answer: %w", err)
	}
	return list, nil
}

// kept is where the last answer lies that could be taken.
func (x *tasksPlan) kept() string { return filepath.Join(x.home.Breakdown(), "answer.json") }

// workspace is where the agent reads the project. The sandbox lets it change nothing there; without one it reads a
// copy of it.
func (x *tasksPlan) workspace(ctx context.Context, r *launch.Run, cfg config.Config) (_ breakdown.Workspace,
	base gitops.Tree, free func() error, err error) {
	fixed := []string{settingsPath(x.root, cfg)}
	if x.file != nil {
		fixed = append(fixed, x.file.Path())
	} else if path, err := tasks.TagPath(x.root, x.b.Tag); err == nil {
		fixed = append(fixed, path)
	}
	if r.Box.Mode != sandbox.Off {
		return slot.NewFolder(atomicfile.OS(), x.root, x.root, fixed), "", func() error { return nil }, nil
	}
	if r.Repo, err = x.repo(); errors.Is(err, gitops.ErrNotRepo) {
		err = badInput("git init, or a sandbox (descartes doctor says what is missing)",
			"without a sandbox and without git the agent would work in your own files")
	}
	if err == nil {
		base, err = r.Repo.Snapshot(ctx)
	}
	if err != nil {
		return nil, "", nil, err
	}
	pool := slot.NewPool(slot.PoolOptions{Repo: r.Repo, FS: atomicfile.OS(), Place: launch.PoolOf(x.root),
		Root: x.root, Dir: x.root, Fixed: fixed, Shown: r.Box.Mounts()})
	slot, err := pool.Take(ctx, 0)
	if err != nil {
		return nil, "", nil, err
	}
	r.Box.Slot = sandbox.Slot{Tree: slot.Tree(), Objects: slot.Objects(), Shown: []string{x.home.Breakdown()}}
	return slot, base, slot.Close, nil
}

// planJSON is what tasks plan --json prints.
type planJSON struct {
	Tag     string            `json:"tag"`
	File    string            `json:"file"`
	Written bool              `json:"written"`
	Change  print.Change      `json:"change"`
	Tasks   []view.TaskDetail `json:"tasks"`
	Cost    journal.Cost      `json:"cost"`
}

// offer shows what would be written, and writes it if that is wanted.
func (x *tasksPlan) offer(ctx context.Context, list []tasks.Task) error {
	now, err := x.changed(list)
	if err != nil {
		return err
	}
	b, err := view.NewBoard(source.JobOf(x.root, config.Config{Scud: x.Scud}, now))
	if err != nil {
		return err
	}
	change, where := print.ChangeOf(x.file, now), store.Relative(x.root, now.Path())
	head := "New list " + terminal.Clean(where)
	if x.file != nil {
		head = "Changes to " + terminal.Clean(where)
	}
	written := x.yes
	if !x.json {
		x.p.tell("\n" + print.Waves(b, x.p.paint, x.p.width) + "\n" + head + "\n" + change.Text(x.p.paint, x.p.width) +
			"\n")
		if !x.yes && !x.dryRun {
			written, _ = atTerminal(x.cmd, x.p, false).yes(ctx, "Write it?", true)
		}
	}
	if written {
		if err := x.write(list, now); err != nil {
			return err
		}
	}
	if x.json {
		err := writeJSON(x.out(), planJSON{Tag: x.Scud.Tag, File: where, Written: written, Change: change,
			Tasks: b.Details(), Cost: x.cost})
		if err != nil {
			return err
		}
	}
	if written {
		x.p.say("wrote %s: %s", terminal.Clean(where), terminal.Count(len(list), "task"))
		x.p.say("next: descartes start%s%s", listFlags(x.root, x.Scud.Tag, x.Scud.TasksFile),
			x.Typed.Without("timeout"))
		return nil
	}
	x.p.say("nothing is written; --yes writes it")
	if x.answer == "" { // the same command again, without the agent
		words := []string{"next: descartes"}
		for _, word := range append(slices.Clone(os.Args[1:]), "--answer", store.Relative(x.root, x.kept()), "--yes") {
			words = append(words, terminal.Quote(word))
		}
		x.p.say("the answer is kept: change it if you like, and take it without asking the agent again:\n%s",
			strings.Join(words, " "))
	}
	if x.dryRun {
		return nil
	}
	return quiet(exitWaits)
}

func (x *tasksPlan) write(list []tasks.Task, now *tasks.File) error {
	if err := unowned(x.home, now); err != nil {
		return err
	}
	if x.file != nil {
		return unwritable(x.unamendable(x.file.Amend(tasks.Amendment{Split: x.expand, Add: list})))
	}
	if _, err := tasks.Open(x.root, x.Scud.Tag); err == nil {
		return taken(x.root, now, "")
	}
	err := now.Create()
	if errors.Is(err, fs.ErrExist) {
		return taken(x.root, now, "")
	}
	return err
}

// mostFaults bounds the faults that are printed.
const mostFaults = 10

// faulty is a line for each fault of an answer.
func faulty(code int, hint string, e *breakdown.RefusedError) (found problems) {
	lines := append([]string{e.Error()}, e.Faults[:min(len(e.Faults), mostFaults)]...)
	if n := len(e.Faults) - mostFaults; n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	for _, line := range lines {
		found = append(found, source.Problem{Message: line, Err: &failure{code: code, err: e}})
	}
	found[len(found)-1].Hint = hint
	return found
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
