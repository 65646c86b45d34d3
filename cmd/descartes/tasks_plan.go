package main

import (
	"bytes"
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
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
	"descartes/internal/sandbox"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/breakdown"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/tasks/plan"
	"descartes/view"
)

// planFlags are what tasks plan is asked for.
type planFlags struct {
	settings
	expand, ask, answer string
	add, replace, yes   bool
	dryRun, json        bool
	most, tries         int
}

func newTasksPlanCmd() *cobra.Command {
	k := &planFlags{}
	cmd := &cobra.Command{
		Use:   "plan [file]",
		Short: "Have the agent make tasks of a document, or split a task",
		Long: `Have the agent make tasks of a document, such as a PRD, or split one task. The
agent reads the project and changes nothing. Its answer is checked: ids, titles,
dependencies, circles, sizes. A wrong one goes back to it. You see the waves and
what would change, and nothing is written before you say yes.

  descartes tasks plan PRD.md                  a new list, named after the file
  descartes tasks plan PRD.md --tag x --add    more tasks for a list
  descartes tasks plan - --tag x               the document on standard input
  descartes tasks plan --expand 3              split task 3

Without a terminal nothing is written unless --yes is given. The answer is kept
in .descartes/breakdown/answer.json: --answer takes it, as it is or as you have
changed it, and no agent is asked.

` + exitTable,
		Args: takes(0, 1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.run(cmd, strings.Join(args, ""))
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	more := []string{"backend", "command", "model", "fallback", "timeout", "idle-timeout", "deadline", "max-cost", "sandbox", "env-pass", "max-spec-tokens", "config", "trust"}
	k.register(cmd, func(one *config.Setting) bool { return one.Is("look") || slices.Contains(more, one.Flag) })
	f := cmd.Flags()
	f.Lookup("tag").Usage = "`tag` that gets the tasks (default: the one in the document's front matter, else the file's name)"
	f.Lookup("max-spec-tokens").Usage = "what the agent gets about the project besides the document, in tokens"
	f.Lookup("timeout").Usage = fmt.Sprintf("longest run of an agent, in seconds or like 20m (default 30m)")
	f.StringVar(&k.expand, "expand", "", "split this `task` into smaller ones")
	f.StringVar(&k.ask, "prompt", "", "what the agent is to heed besides")
	f.StringVar(&k.answer, "answer", "", "take the tasks from this `file` and ask no agent")
	f.BoolVar(&k.add, "add", false, "add the tasks to a list that has some already")
	f.BoolVar(&k.replace, "replace", false, "replace a list's tasks that nobody has started")
	f.IntVar(&k.most, "max-tasks", 0, fmt.Sprintf("`N` tasks at most (default %d, with --expand %d)", planTasks, splitTasks))
	f.IntVar(&k.tries, "max-answers", 3, "`N` answers at most, before one that can be taken")
	f.BoolVar(&k.yes, "yes", false, "write the tasks without a question")
	f.BoolVar(&k.dryRun, "dry-run", false, "show the tasks, and write no list")
	f.BoolVar(&k.json, "json", false, "print the tasks and the change as JSON; what happens goes to stderr")
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

// tasksPlan is a call of tasks plan under way.
type tasksPlan struct {
	*planFlags
	root string
	p    *printer
	home store.Home
	b    specbuild.Breakdown
	file *tasks.File // that is changed; nil: it is made
	gone []string    // tasks that are replaced
	cost journal.Cost
}

func (k *planFlags) run(cmd *cobra.Command, document string) (err error) {
	if err := k.check(document); err != nil {
		return err
	}
	root, err := k.load()
	if err != nil {
		return err
	}
	if !k.Given("timeout") {
		k.TimeoutSecs = planTimeout
	}
	if err := k.trusted(cmd, root); err != nil {
		return err
	}
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), k.json, false)
	defer p.close()
	x := &tasksPlan{planFlags: k, root: root, p: p, home: store.NewHome(root)}
	if err := x.source(cmd, document); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	list, err := x.tasks(ctx, cmd)
	if err != nil {
		return x.failed(ctx, err)
	}
	return x.offer(ctx, cmd, list)
}

// check refuses how the command may not be called.
func (k *planFlags) check(document string) error {
	switch {
	case k.expand != "" && document != "":
		return badInput("leave one of them out", "--expand splits a task of a list, and %q is a document", document)
	case k.expand == "" && document == "":
		return badInput("descartes tasks plan --help", "which document?")
	case k.expand != "" && (k.add || k.replace):
		return badInput("leave it out", "--expand changes the list that has the task, without --add and --replace")
	case k.add && k.replace:
		return badInput("", "choose one of --add and --replace")
	case k.tries < 1 || k.tries > 20:
		return badInput("", "--max-answers %d: 1 to 20", k.tries)
	case k.most < 0 || k.most > mostTasks || k.most == 1 && k.expand != "":
		return badInput("", "--max-tasks %d: at most %d, and more than one with --expand", k.most, mostTasks)
	}
	if k.most == 0 {
		if k.most = planTasks; k.expand != "" {
			k.most = splitTasks
		}
	}
	return nil
}

// source reads what is broken down, and the list that gets the tasks.
func (x *tasksPlan) source(cmd *cobra.Command, document string) error {
	x.b = specbuild.Breakdown{Ask: x.ask, Most: x.most, First: 1, Tokens: x.Scud.Spec.MaxSpecTokens}
	scud := &x.Scud
	if x.expand != "" {
		if err := chooseSource(cmd.ErrOrStderr(), x.root, scud); err != nil {
			return err
		}
	} else if err := x.document(cmd, document); err != nil {
		return err
	}
	file, err := loop.OpenTasks(x.root, *scud)
	var missing *tasks.NotFoundError
	switch {
	case err == nil:
		if err := x.standing(cmd.Context(), file); err != nil {
			return err
		}
	case errors.As(err, &missing) && scud.TasksFile == "" && x.expand == "":
		if x.replace {
			return badInput("leave --replace out to make it", "there is no list with the tag %q to replace tasks in", scud.Tag)
		}
		if _, err := tasks.NewList(x.root, scud.Tag, nil); err != nil {
			return err
		}
	default:
		return err
	}
	x.b.Tag = scud.Tag
	x.facts()
	return nil
}

// document reads the document, and finds the tag that it is for.
func (x *tasksPlan) document(cmd *cobra.Command, name string) error {
	var text []byte
	var err error
	what := name
	if name == "-" {
		what = "the document on standard input"
		if text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxDocument+1)); err != nil {
			return badInput("", "read %s: %w", what, err)
		}
	} else if text, err = x.read(name, maxDocument); err != nil {
		return err
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(text) > maxDocument {
		return badInput("split it", "%s is larger than %s", what, size(maxDocument))
	}
	if err := specbuild.CheckDocument(text); err != nil {
		return badInput("", "%s %w", what, err)
	}
	x.b.Name, x.b.Document = filepath.Base(name), string(text)
	if name == "-" {
		x.b.Name = "the document"
	}
	scud := &x.Scud
	if front, _ := plan.ReadFrontMatter(text); scud.Tag == "" {
		scud.Tag = front.Tag
	}
	switch {
	case scud.Tag != "":
	case name == "-":
		return badInput("--tag NAME", "a document on standard input has no name that could be its tag")
	default:
		if scud.Tag, err = tagOfPlan(name); err != nil {
			return err
		}
	}
	return tasks.ValidTag(scud.Tag)
}

// read reads a file that was named.
func (x *tasksPlan) read(name string, limit int64) ([]byte, error) {
	text, err := plainfile.Read(x.root, absolute(x.dirPath(), name), limit)
	var refused *plainfile.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, badInput("", "%s: no such file", name)
	case errors.As(err, &refused):
		return nil, badInput("", "%s %s", name, refused.Reason)
	}
	return text, err
}

// standing looks at a list that has tasks already, and at what may become of it.
func (x *tasksPlan) standing(ctx context.Context, file *tasks.File) error {
	if err := unowned(x.home, file); err != nil {
		return err
	}
	if !x.dryRun {
		if err := x.home.CatchUp(ctx, atomicfile.OS(), file, time.Now); err != nil {
			return unwritable(err)
		}
		if err := file.Writable(); err != nil {
			return unwritable(err)
		}
	}
	where := view.Relative(x.root, file.Path())
	if x.expand == "" && !x.add && !x.replace {
		return badInput("--add adds to them, --replace replaces those that nobody has started, or choose another --tag", "tag %q has tasks already, in %s", file.Tag(), where)
	}
	x.file, x.Scud.Tag = file, file.Tag()
	board, err := view.NewBoard(loop.JobOf(x.root, loop.Config{Scud: x.Scud}, file))
	if err != nil {
		return err
	}
	probe := []tasks.Task{{ID: "descartes", Title: "probe"}}
	if x.expand != "" {
		t, err := need(board, x.expand)
		if err != nil {
			return err
		}
		x.b.Split, x.expand = t, t.ID
		if board.Graph.Status(t.ID) == tasks.Done {
			return badInput("", "task %s is done: there is nothing to split", t.ID)
		}
		probe[0].ID = t.ID + ".1"
	}
	if x.replace {
		x.gone = replaceable(board)
	}
	for _, t := range file.Tasks() {
		if !slices.Contains(x.gone, t.ID) {
			t.Status = board.Graph.Status(t.ID)
			x.b.Standing = append(x.b.Standing, t)
		}
		if n, err := strconv.Atoi(t.ID); err == nil && n < 1<<30 {
			x.b.First = max(x.b.First, n+1)
		}
	}
	_, err = file.Amended(x.amendment(probe))
	return x.unamendable(err)
}

// unamendable is why a list cannot be changed as it was to be, with its file's name as a person knows it.
func (x *tasksPlan) unamendable(err error) error {
	var refused *tasks.AmendError
	if errors.As(err, &refused) {
		return badInput("", "%s: %s", view.Relative(x.root, refused.Path), refused.Reason)
	}
	return err
}

// replaceable are the tasks of a list that nobody has begun: all but those that are done, in progress or in review, and what these are in.
func replaceable(b *view.Board) (gone []string) {
	keep := map[string]bool{}
	list := b.File.Tasks()
	for i := range list {
		t := &list[i]
		if !t.Container() && !slices.Contains([]tasks.Status{tasks.Done, tasks.InProgress, tasks.Review}, b.Graph.Status(t.ID)) {
			continue
		}
		if t.Container() && t.Status != tasks.Done {
			continue
		}
		for id := t.ID; id != "" && !keep[id]; {
			keep[id] = true
			up, ok := b.File.Task(id)
			if !ok {
				break
			}
			id = up.Parent
		}
	}
	for i := range list {
		if t := &list[i]; !keep[t.ID] && !keep[topDone(b.File, t)] {
			gone = append(gone, t.ID)
		}
	}
	return gone
}

// topDone is the container around a task that is done as a whole, "" for none.
func topDone(f *tasks.File, t *tasks.Task) string {
	for up, ok := f.Task(t.Parent); ok; up, ok = f.Task(up.Parent) {
		if up.Status == tasks.Done {
			return up.ID
		}
	}
	return ""
}

func (x *tasksPlan) amendment(list []tasks.Task) tasks.Amendment {
	return tasks.Amendment{Remove: x.gone, Split: x.expand, Add: list}
}

// facts are what the agent gets about the project.
func (x *tasksPlan) facts() {
	x.b.Tags = slices.DeleteFunc(tasks.Known(x.root), func(tag string) bool { return tag == x.b.Tag })
	entries, _ := os.ReadDir(x.root) // a project that cannot be listed has nothing to show
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		if !strings.HasPrefix(name, ".") {
			x.b.Files = append(x.b.Files, terminal.Clean(name))
		}
	}
	if readme, err := plainfile.Read(x.root, "README.md", maxDocument); err == nil {
		x.b.Readme = string(readme)
	}
	if x.b.Verify = x.Scud.VerificationCommand; x.b.Verify == "" {
		x.b.Verify, _, _ = detect(x.root)
	}
}

// tasks are those that an agent plans, or of the answer that was given.
func (x *tasksPlan) tasks(ctx context.Context, cmd *cobra.Command) ([]tasks.Task, error) {
	if x.answer != "" {
		text, err := x.read(x.answer, maxAnswerFile)
		if err != nil {
			return nil, err
		}
		list, _, faults := breakdown.Read(string(text), &x.b)
		if len(faults) > 0 {
			return nil, faulty(exitInput, "correct "+x.answer, &breakdown.RefusedError{Answers: 1, Faults: faults})
		}
		return list, nil
	}
	r := newPrepared(x.root, x.Config, loop.StartOptions{})
	x.p.text.redact = r.redact
	cfg := x.Config
	found, ok := r.resolve(&cfg)
	if !ok {
		return nil, found
	}
	more, warnings := r.agentProblems(cfg, x.root)
	box, err := findSandbox(ctx, x.root, x.root, cfg, r.backend)
	if found = append(found, more...); err != nil {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
	}
	for _, b := range r.backends() {
		if err := b.Check(known, len(specbuild.BreakdownPrompt(x.b))); err != nil && len(found) == 0 {
			found = append(found, loop.Problem{Message: err.Error(), Hint: "give the agent its prompt by standard input, or split the document", Err: &failure{code: exitInput, err: err}})
		}
	}
	if len(found) > 0 {
		return nil, found
	}
	r.sandbox = box
	cfg.SandboxInForce = box.Note
	x.p.agent(&r, cfg)
	x.p.say("sandbox: %s", terminal.Clean(box.Note))
	for _, w := range append(warnings, r.sandbox.Warning()) {
		if w != "" {
			x.p.warn(w)
		}
	}
	return x.asked(ctx, &r, cfg)
}

// asked has the agent plan the tasks.
func (x *tasksPlan) asked(ctx context.Context, r *prepared, cfg loop.Config) (_ []tasks.Task, err error) {
	dir := x.home.Breakdown()
	err = x.home.Make(atomicfile.OS())
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
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
	var commands supervise.Commands
	if err := commands.Start(r.commands(cfg, dir, x.root+"/breakdown")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, commands.Close()) }()
	a := &breakdown.Asker{Dir: dir, Workspace: ws, Start: workspace.Start{Base: base}, Note: x.p.warn,
		Runner: &attempt.Runner{Agent: commands.Agents(), Redact: r.redact, Dir: dir, Repo: r.repo},
		Input: attempt.Input{Name: x.b.Tag, Env: []string{"DESCARTES_TAG=" + x.b.Tag}, Agent: attempt.Clocks{Timeout: seconds(cfg.TimeoutSecs), Idle: seconds(cfg.IdleTimeoutSecs),
			Start: seconds(cfg.StartTimeoutSecs), Exit: seconds(cfg.ExitGraceSecs), Spin: cfg.SpinLimit}},
		Ended: func(_ attempt.With, res agent.Result) { x.spent(res) }}
	for _, c := range cfg.Choices(nil) {
		a.Among = append(a.Among, attempt.With(c))
	}
	if err := a.Clear(); err != nil {
		return nil, err
	}
	list, raw, err := breakdown.Ask(ctx, x.b, x.tries, func(ctx context.Context, n int, prompt string) (string, error) {
		if err := x.usedUp(cfg); err != nil {
			return "", err
		}
		x.p.say("asking for tasks (answer %d of at most %d); the agent's log: %s", n, x.tries, view.Relative(x.root, a.Log(n)))
		x.p.text.Flush()
		return a.Ask(ctx, n, prompt)
	})
	x.p.say("cost: %s", x.cost.Text())
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(atomicfile.OS(), x.kept(), append(bytes.TrimSpace(raw), '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("keep the answer: %w", err)
	}
	return list, nil
}

// spent counts what an agent cost.
func (x *tasksPlan) spent(res agent.Result) {
	d := &journal.Detail{Exit: journal.Exit{End: string(res.End)}}
	if c := res.Cost; c != nil {
		d.USD, d.Estimated = c.USD, c.Estimated
		if c.Tokens != nil {
			d.InputTokens, d.OutputTokens = c.Tokens.Input, c.Tokens.Output
		}
	}
	x.cost.Add(d)
}

// kept is where the last answer lies that could be taken.
func (x *tasksPlan) kept() string { return filepath.Join(x.home.Breakdown(), "answer.json") }

// usedUp says that nobody may be asked any more.
func (x *tasksPlan) usedUp(cfg loop.Config) error {
	switch {
	case cfg.Deadline != nil && !time.Now().Before(*cfg.Deadline):
		return &failure{code: exitLimit, err: fmt.Errorf("the deadline %s has passed", cfg.Deadline.Format(time.RFC3339))}
	case cfg.MaxCostUSD > 0 && x.cost.USD != nil && *x.cost.USD >= cfg.MaxCostUSD:
		return &failure{code: exitLimit, err: fmt.Errorf("the agent cost %s, the limit is %s, and no answer can be taken yet", x.cost.Dollars(), journal.Dollars(cfg.MaxCostUSD))}
	}
	return nil
}

// workspace is where the agent reads the project. The sandbox lets it change nothing there; without one it reads a copy of it.
func (x *tasksPlan) workspace(ctx context.Context, r *prepared, cfg loop.Config) (_ breakdown.Workspace, base gitops.Tree, free func() error, err error) {
	fixed := []string{settingsPath(x.root, cfg)}
	if x.file != nil {
		fixed = append(fixed, x.file.Path())
	} else if path, err := tasks.TagPath(x.root, x.b.Tag); err == nil {
		fixed = append(fixed, path)
	}
	if r.sandbox.Mode != sandbox.Off {
		return workspace.NewFolder(atomicfile.OS(), x.root, x.root, fixed), "", func() error { return nil }, nil
	}
	r.repo, err = openRepo(ctx, x.root, nil)
	if errors.Is(err, gitops.ErrNotRepo) {
		return nil, "", nil, badInput("git init, or a sandbox (descartes doctor says what is missing)", "without a sandbox and without git the agent would work in your own files")
	}
	if err != nil {
		return nil, "", nil, err
	}
	base, err = r.repo.Snapshot(ctx)
	if err != nil {
		return nil, "", nil, errors.Join(err, r.close())
	}
	pool := workspace.NewPool(workspace.PoolOptions{Repo: r.repo, FS: atomicfile.OS(), Place: r.pool, Root: x.root, Dir: x.root, Fixed: fixed, Shown: r.sandbox.Mounts(), Free: oscall.Free})
	slot, err := pool.Take(ctx, 0)
	if err != nil {
		return nil, "", nil, errors.Join(err, r.close())
	}
	free = func() error { return errors.Join(slot.Close(), r.close()) }
	r.sandbox.Slot = sandbox.Slot{Tree: slot.Tree(), Objects: slot.Objects(), Shown: []string{x.home.Breakdown()}}
	return slot, base, free, nil
}

// offer shows what would be written, and writes it if that is wanted.
func (x *tasksPlan) offer(ctx context.Context, cmd *cobra.Command, list []tasks.Task) error {
	now, err := x.changed(list)
	if err != nil {
		return x.unamendable(err)
	}
	b, err := view.NewBoard(loop.JobOf(x.root, loop.Config{Scud: x.Scud}, now))
	if err != nil {
		return err
	}
	change, where := view.ChangeOf(x.file, now), view.Relative(x.root, now.Path())
	head, question := "New list "+terminal.Clean(where), "Write it?"
	if x.file != nil {
		head, question = "Changes to "+terminal.Clean(where), "Make these changes?"
	}
	if !x.json {
		x.p.tell("\n" + b.Text(x.p.paint, x.p.width) + "\n" + head + "\n" + change.Text(x.p.paint, x.p.width) + "\n")
	}
	write := x.yes && !x.dryRun
	if h := atTerminal(cmd, x.p, false); h != nil && !x.yes && !x.dryRun {
		if write, _ = h.question(ctx, question+" [Y/n]", true); ctx.Err() != nil {
			return x.failed(ctx, ctx.Err())
		}
	}
	if write {
		if err := x.write(list, now); err != nil {
			return err
		}
	}
	if x.json {
		err := writeJSON(cmd.OutOrStdout(), planJSON{Tag: x.Scud.Tag, File: where, Written: write, Change: change, Tasks: b.Details(), Cost: x.cost})
		if err != nil {
			return err
		}
	}
	return x.end(cmd, write, where, len(list))
}

// planJSON is what tasks plan --json prints.
type planJSON struct {
	Tag     string            `json:"tag"`
	File    string            `json:"file"`
	Written bool              `json:"written"`
	Change  view.Change       `json:"change"`
	Tasks   []view.TaskDetail `json:"tasks"`
	Cost    journal.Cost      `json:"cost"`
}

// changed is the list as it would be.
func (x *tasksPlan) changed(list []tasks.Task) (*tasks.File, error) {
	if x.file == nil {
		return tasks.NewList(x.root, x.Scud.Tag, list)
	}
	return x.file.Amended(x.amendment(list))
}

func (x *tasksPlan) write(list []tasks.Task, now *tasks.File) error {
	if x.file == nil {
		if err := unowned(x.home, now); err != nil {
			return err
		}
		if _, err := tasks.Open(x.root, x.Scud.Tag); err == nil {
			return taken(x.root, x.Scud.Tag, now.Path())
		}
		err := now.Create()
		if errors.Is(err, fs.ErrExist) {
			return taken(x.root, x.Scud.Tag, now.Path())
		}
		return err
	}
	if err := unowned(x.home, x.file); err != nil {
		return err
	}
	return unwritable(x.unamendable(x.file.Amend(x.amendment(list))))
}

// end says what came of it, and what to type next.
func (x *tasksPlan) end(cmd *cobra.Command, written bool, where string, n int) error {
	named, here := config.ListFlags(x.Scud.Tag, x.Scud.TasksFile), fromHere(x.root)
	if written {
		x.p.say("wrote %s: %s", terminal.Clean(where), terminal.Count(n, "task"))
		x.p.say("next: descartes start%s%s", named+here, x.Typed.Without("timeout"))
		return nil
	}
	again := "descartes tasks plan"
	if x.answer == "" {
		again += x.again(cmd, view.Relative(x.root, x.kept()))
		x.p.say("nothing is written. The answer is kept in %s: change it if you like, and take it without asking the agent again:", view.Relative(x.root, x.kept()))
		x.p.say("next: %s", again)
	} else {
		x.p.say("nothing is written; --yes writes it")
	}
	if x.dryRun {
		return nil
	}
	return quiet(exitWaits)
}

// again are the arguments that take the kept answer.
func (x *tasksPlan) again(cmd *cobra.Command, answer string) string {
	text := ""
	if x.expand != "" {
		text += " --expand " + terminal.Quote(x.expand)
	} else if args := cmd.Flags().Args(); len(args) > 0 {
		text += " " + terminal.Quote(args[0])
	}
	text += config.ListFlags(x.Scud.Tag, x.Scud.TasksFile)
	for _, f := range []struct {
		name string
		on   bool
	}{{"add", x.add}, {"replace", x.replace}} {
		if f.on {
			text += " --" + f.name
		}
	}
	if x.most != planTasks && x.expand == "" || x.most != splitTasks && x.expand != "" {
		text += fmt.Sprintf(" --max-tasks %d", x.most)
	}
	return text + " --answer " + terminal.Quote(answer) + " --yes" + fromHere(x.root) + x.Typed.Without("timeout")
}

// failed is how the command ends where there are no tasks.
func (x *tasksPlan) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		code := exitInterrupted
		if errors.Is(context.Cause(ctx), loop.ErrTerminated) {
			code = exitTerminated
		}
		return &failure{code: code, err: errors.New("interrupted: nothing is written")}
	}
	var refused *breakdown.RefusedError
	var ended *breakdown.EndedError
	switch {
	case errors.As(err, &refused):
		dir := view.Relative(x.root, x.home.Breakdown())
		return faulty(exitBlocked, "the agent's logs are in "+dir+"; --max-answers gives it more tries, --prompt tells it more", refused)
	case errors.As(err, &ended):
		f := &failure{code: exitAgent, err: err, hint: "the agent's log: " + view.Relative(x.root, ended.Log)}
		switch ended.Result.End {
		case agent.Limited:
			f.code, f.hint = exitQuota, "try again then, or with another --backend; --fallback names one that takes over"
		case agent.TimedOut, agent.Idled:
			f.code = exitLimit
			f.hint += "; --timeout and --idle-timeout give it more time"
		case agent.Finished:
			f.code = exitBlocked
		case agent.Crashed, agent.Refused, agent.Cancelled:
		}
		return f
	}
	return err
}

// mostFaults bounds the faults that are printed.
const mostFaults = 10

// faulty is a line for each fault of an answer.
func faulty(code int, hint string, e *breakdown.RefusedError) problems {
	found := problems{{Message: e.Error(), Err: &failure{code: code, err: e}}}
	for i, fault := range e.Faults {
		if i == mostFaults {
			fault = fmt.Sprintf("and %d more", len(e.Faults)-i)
		}
		found = append(found, loop.Problem{Message: fault, Err: &failure{code: code, err: e}})
		if i == mostFaults {
			break
		}
	}
	found[len(found)-1].Hint = hint
	return found
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// untilSignal is a context that ends with Ctrl-C, or with SIGTERM, which is a loop.ErrTerminated.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ch, quit := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-ch:
			if s == syscall.SIGTERM {
				cancel(loop.ErrTerminated)
			} else {
				cancel(nil)
			}
		case <-quit:
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(quit)
		cancel(nil)
	}
}
