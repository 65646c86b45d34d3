package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/tasks/plan"
)

func newStartCmd() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run the tasks of a tag, wave by wave, or repeat a prompt until the agent says that it is done",
		Long: `Run the tasks of a tag, wave by wave, until they are verified and committed.

  descartes loop start --scud-tag feature-x --plan plan.md --verify "make test"

Or repeat a prompt until the agent's final message has the promise:

  descartes loop start --command "claude -p" --max-iterations 20 \
    --prompt "Do it. Output <promise>COMPLETE</promise> when done."

A flag beats DESCARTES_<FLAG> in the environment, that beats descartes.yaml, that beats the default.
Where a loop over the tag was killed or stopped, start resumes it.

` + exitTable,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return startRun(cmd, s, loop.Scope{})
		},
	}
	s.register(cmd, ofRun)
	return cmd
}

// newRunCmd is loop start for somebody who names what is to be run in the way that comes first to mind.
func newRunCmd() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "run [tag | file]",
		Short: "Run a tag, a task list, a plan or a prompt: loop start with the source found",
		Long: `Run the tasks of a tag, of a list in a file, or of a plan in Markdown, until they
are verified and committed; or repeat the prompt in a file. It is loop start with
the source found, and takes the same flags.

  descartes run                     the only list, or a choice at a terminal
  descartes run feature-x           a tag
  descartes run plan.md             a plan: its tasks become the tag "plan"
  descartes run specs/1/tasks.md    a task list of any known format
  descartes run prompt.md           a prompt, as its name says; of any other text
                                    without tasks a terminal asks, and a script
                                    says --prompt-file

` + exitTable,
		Args: takes(0, 1, "one tag or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.source(cmd, args); err != nil {
				return err
			}
			return startRun(cmd, s, loop.Scope{})
		},
	}
	s.register(cmd, ofRun)
	return cmd
}

// importsPlan reports whether the plan may stand in for a missing list: it was named for this run, or the tag is the settings file's own. Where only the
// tag was named it may be mistyped.
func importsPlan(f *pflag.FlagSet) bool { return f.Changed("plan") || !f.Changed("scud-tag") }

// source sets the flag that the argument, a tag or a file, stands for.
func (s *settings) source(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	f, what := cmd.Flags(), args[0]
	for _, flag := range []string{"scud-tag", "tasks-file", "prompt", "prompt-file"} {
		if f.Changed(flag) {
			return badInput("leave one of them out", "%q and --%s both say what to run", what, flag)
		}
	}
	root, err := findRoot(s.Dir)
	if err != nil {
		return err
	}
	known := tasks.Known(root)
	path := absolute(s.dirPath(), what)
	fi, err := os.Stat(path)
	switch {
	case slices.Contains(known, what):
		return f.Set("scud-tag", what)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		hint := didYouMean(what, known)
		if hint == "" && len(known) > 0 {
			hint = "known tags: " + strings.Join(known, ", ")
		}
		return badInput(cmp.Or(hint, hintOfTasks(root)), "there is no tag and no file %q", what)
	case err != nil:
		return err
	case fi.IsDir():
		return badInput("name the file in it, such as "+filepath.Join(what, "tasks.md"), "%s is a directory", what)
	}
	_, listed := loop.OpenTasks(root, loop.ScudConfig{TasksFile: path})
	var several *tasks.NotFoundError
	if listed == nil || errors.As(listed, &several) && len(several.Known) > 0 {
		return f.Set("tasks-file", what)
	}
	if ext := strings.ToLower(filepath.Ext(what)); ext != ".md" && ext != ".markdown" && ext != ".txt" {
		return listed
	}
	text, err := plainfile.Read(root, path, config.MaxFile)
	if err != nil {
		return badInput("", "%w", err)
	}
	if _, err := plan.Parse(what, text); err != nil {
		if err := s.repeats(cmd, what); err != nil {
			return err
		}
		return f.Set("prompt-file", what)
	}
	if front, _ := plan.ReadFrontMatter(text); front.Tag == "" {
		tag, err := tagOfPlan(what)
		if err != nil {
			return err
		}
		if err := f.Set("scud-tag", tag); err != nil {
			return err
		}
	}
	return f.Set("plan", what)
}

// repeats makes sure that a file without tasks is meant as a prompt: its name says so, or a person at the terminal.
func (s *settings) repeats(cmd *cobra.Command, file string) error {
	if strings.Contains(strings.ToLower(filepath.Base(file)), "prompt") {
		return nil
	}
	in, out, ok := s.atTerminal(cmd)
	if !ok || cmd.Flags().Changed("detach") {
		return badInput("to repeat it as a prompt: descartes run --prompt-file "+terminal.Quote(file), "%s has no tasks", file)
	}
	fmt.Fprintf(out, "%s has no tasks. Repeat it as a prompt? [y/N] ", terminal.Clean(file))
	if line, _ := in.ReadString('\n'); !strings.EqualFold(strings.TrimSpace(line), "y") {
		return &failure{code: exitInterrupted, err: errors.New("nothing was started")}
	}
	return nil
}

// atTerminal returns where to ask a person; ok is false if nobody is there.
func (s *settings) atTerminal(cmd *cobra.Command) (in *bufio.Reader, out io.Writer, ok bool) {
	f, ok := cmd.InOrStdin().(*os.File)
	out = cmd.ErrOrStderr()
	return bufio.NewReader(f), out, ok && !s.CI && !s.JSON && terminal.IsTerminal(f) && terminal.IsTerminal(out)
}

// chooseTag completes what is run where nobody said it: the only list of the project, or the one that a person at the terminal chooses.
func (s *settings) chooseTag(cmd *cobra.Command, root string) error {
	known := tasks.Known(root)
	active, _, _ := tasks.Active(root)
	switch {
	case len(known) == 0:
		return nil
	case len(known) == 1:
		s.Scud.Tag = known[0]
		return nil
	}
	lines, out, ok := s.atTerminal(cmd)
	if !ok {
		return badInput("known tags: "+strings.Join(known, ", "), "which tag? give --scud-tag")
	}
	usual := max(0, slices.Index(known, active))
	for i, tag := range known {
		fmt.Fprintf(out, "  %d  %s\n", i+1, terminal.Clean(tag))
	}
	for range 5 {
		fmt.Fprintf(out, "Which one? A number or a name; q leaves [%d] ", usual+1)
		line, err := lines.ReadString('\n')
		if err != nil {
			return badInput("known tags: "+strings.Join(known, ", "), "no tag was chosen")
		}
		line = cmp.Or(strings.TrimSpace(line), strconv.Itoa(usual+1))
		if line == "q" && !slices.Contains(known, line) {
			return &failure{code: exitInterrupted, err: errors.New("nothing was started")}
		}
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(known) && !slices.Contains(known, line) {
			line = known[n-1]
		}
		if slices.Contains(known, line) {
			s.Scud.Tag = line
			return nil
		}
		why := fmt.Sprintf("There is no tag %q", line)
		if near := didYouMean(line, known); near != "" {
			why += "; " + near
		}
		fmt.Fprintln(out, terminal.Clean(why))
	}
	return badInput("known tags: "+strings.Join(known, ", "), "no tag was chosen")
}

// startRun is loop start, loop step and run.
func startRun(cmd *cobra.Command, s *settings, scope loop.Scope) error {
	wants, gated := typed(cmd.Flags()), gateOfTag(cmd.Flags())
	root, err := s.load(cmd.Flags())
	if err != nil {
		return err
	}
	if err := s.check(root); err != nil {
		return err
	}
	if err := s.trusted(cmd, root); err != nil {
		return err
	}
	if away, err := s.background(cmd, root); away || err != nil {
		return err
	}
	if s.Scud.Tag == "" && s.Prompt == "" && wants.any("prompt", "prompt-file", "tasks-file") == "" && len(s.front) == 0 {
		if err := s.chooseTag(cmd, root); err != nil {
			return err
		}
	}
	if prompt, err := wants.prompt(s, root); err != nil {
		return err
	} else if prompt && scope.Step {
		return badInput("descartes loop start repeats a prompt", "loop step is for the tasks of a tag; --prompt has no waves")
	} else if prompt {
		return startPrompt(cmd, root, s)
	}
	if gated != nil {
		return gated
	}
	if err := s.completeTag(cmd.Flags(), root); err != nil {
		return err
	}
	given := s.Scud.TasksFile
	if err := chooseSource(cmd.ErrOrStderr(), root, &s.Scud); err != nil {
		return err
	}
	opt := loop.StartOptions{Name: s.Name, Scope: scope}
	if s.StatePath != "" {
		opt.StatePath = absolute(s.dirPath(), s.StatePath)
	}
	old, err := unfinished(root, s.Scud.Tag)
	if err != nil {
		return err
	}
	if old != nil {
		opt.Resume = old.Path
		if file := old.State.Config.Scud.TasksFile; file != given && given != "" {
			return badInput("descartes loop resume --name "+old.State.ID+" resumes it",
				"loop %s over tag %q (%s) has tasks left, and runs on %s", old.State.ID, old.State.Tag, standing(old.State), cmp.Or(file, old.State.TaskFile))
		}
	}
	if err := s.free(root, opt, old); err != nil {
		return err
	}
	return execute(cmd, root, s, opt, true)
}

// standing is how a loop stands that can be resumed, in few words.
func standing(s *store.State) string {
	switch e := journal.Ending(s.ExitReason.Type); e {
	case journal.UserCancelled:
		return "cancelled"
	case "running", "":
		return "killed"
	default:
		return e.Words()
	}
}

// free says whether a loop may have the name and the state file that it was given.
func (s *settings) free(root string, opt loop.StartOptions, old *store.Saved) error {
	if old != nil {
		if s.Name != "" && s.Name != old.State.ID || opt.StatePath != "" && opt.StatePath != old.Path {
			return badInput("descartes loop resume --name "+old.State.ID+" resumes it",
				"loop %s over tag %q (%s) has tasks left: a start resumes it under its own name and state file", old.State.ID, old.State.Tag, standing(old.State))
		}
		return nil
	}
	if s.Name != "" {
		taken, err := store.NewHome(root).Find(s.Name)
		if err == nil && taken != nil {
			err = badInput("choose another name; descartes loop list shows those in use", "a loop named %q exists", s.Name)
		}
		if err != nil {
			return err
		}
	}
	if opt.StatePath != "" {
		st, err := store.LoadState(opt.StatePath)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return badInput("choose another --state-file", "%w", err)
		case !st.Completed:
			return badInput("descartes loop resume --state-file "+s.StatePath, "%s belongs to loop %s (%s), which can be resumed", s.StatePath, st.ID, standing(st))
		}
	}
	return nil
}

// execute prepares a run, does it, and reports. anew says that the settings were given now, not saved earlier.
func execute(cmd *cobra.Command, root string, s *settings, opt loop.StartOptions, anew bool) error {
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), s.JSON, s.CI)
	p.times = s.Times
	defer p.close()
	opt.Command, opt.Own, opt.Anew, opt.Session = "loop", s.reports(), s.anew, session()
	r, err := prepare(cmd.Context(), root, s.Config, opt, anew && importsPlan(cmd.Flags()))
	if err != nil {
		if rerr := r.reportIdle(s, p, err); rerr != nil {
			return rerr
		}
		return err
	}
	defer r.close()
	r.branch, r.why = anew, cmp.Or(r.why, s.verifyFrom)
	r.front = s.front
	if n := ralphNote(root); n != "" {
		r.notes = append(r.notes, n)
	}
	p.text.redact = r.redact
	if anew {
		r.watchSettings(cmd.Context(), r.job.Config)
	}
	if r.nothing {
		p.say("nothing left to do in tag %s: %s done", r.job.File.Tag(), terminal.Count(r.job.Graph.Counts().Total, "task"))
		r.sayElsewhere(cmd.Context(), p)
		return r.reportIdle(s, p, nil)
	}
	if task := opt.Scope.Task; task != "" {
		if err := r.canRun(task); err != nil {
			return err
		}
	}
	if err := r.notify(p, &r.job.Config, r.job.File.Tag()); err != nil {
		return err
	}
	defer r.notices.End()
	p.events.Waves, p.events.Usual = len(r.job.Graph.Waves()), r.job.Config.Backend.Type
	r.dryRun = s.DryRun
	p.header(cmd.Context(), r)
	if cmd.Flags().Changed("completion-promise") {
		p.warn("--completion-promise is for loops over a prompt: a task's agent reports with <promise>COMPLETE</promise> or TASK_COMPLETE")
	}
	if s.DryRun {
		return r.dry(p, cmd, s)
	}
	if anew && opt.Scope.Task == "" {
		if err := r.startsWithout(cmd, p, s); err != nil {
			return err
		}
	}
	return runAndReport(cmd, r, s, p)
}

// startsWithout asks a person at the terminal whether to start a list that cannot finish as it is. Without one the warnings have to do.
func (r *tagRun) startsWithout(cmd *cobra.Command, p *printer, s *settings) error {
	held := r.job.Graph.Counts().Held
	if held == 0 || len(r.job.Faults()) == 0 {
		return nil
	}
	h := atTerminal(cmd, p, s.CI)
	if h == nil {
		return nil
	}
	if yes, _ := h.question(cmd.Context(), fmt.Sprintf("%s cannot run. Start the others? [Y/n]", terminal.Count(held, "task")), true); yes {
		return nil
	}
	return badInput("descartes waves"+config.ListFlags(r.job.File.Tag(), r.job.Config.Scud.TasksFile)+" shows what is wrong with the list", "nothing was started")
}

// reportIdle writes the reports that were asked for where no loop runs because none is needed, or because everything
// left is blocked: a nightly job collects them each night.
func (r *tagRun) reportIdle(s *settings, p *printer, refused error) error {
	var found problems
	none := errors.As(refused, &found) && found.code() == exitBlocked
	if s.DryRun || refused != nil && !none {
		return nil
	}
	e := report.Run{Here: fromHere(r.root), Root: r.root, Outcome: loop.Outcome{Ending: journal.AllDone, Message: "nothing left to do"}, State: &store.State{Tag: r.job.File.Tag(), Config: r.job.Config}}
	if none {
		e.Outcome = loop.Outcome{Ending: journal.TasksBlocked, Message: found[0].Message}
	}
	for _, path := range s.reports() {
		if _, in := below(filepath.Join(r.root, ".descartes"), path); !in {
			continue
		}
		if err := store.NewHome(r.root).Make(atomicfile.OS()); err != nil { // a fresh clone has none
			return err
		}
	}
	return s.report(&report.Summary{Board: r.after(e), Run: e}, p, r.redact)
}

// check refuses how a run may not be called.
func (s *settings) check(root string) error {
	if err := s.checkReports(root); err != nil {
		return err
	}
	for _, code := range s.OkExit {
		if n, err := strconv.Atoi(code); err != nil || n < 1 || n > 255 || n == exitError || n == exitInput {
			return badInput("for example --ok-exit 6", "--ok-exit %q is not an exit status that may count as success", code)
		}
	}
	if s.Name != "" {
		if err := store.ValidID(s.Name); err != nil {
			return badInput("", "%w", err)
		}
	}
	return nil
}

// checkReports refuses reports that could not be written when the run is over.
func (s *settings) checkReports(root string) error {
	for _, one := range []struct{ flag, path string }{{"--junit", s.JUnit}, {"--summary", s.Summary}} {
		if one.path == "" {
			continue
		}
		path := absolute(s.dirPath(), one.path)
		if err := plainfile.Writable(root, path); err != nil {
			return badInput("", "%s %w", one.flag, err)
		}
		dir := filepath.Dir(path)
		if dir == filepath.Join(root, ".descartes") { // which the run makes
			continue
		}
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			return badInput("mkdir -p "+terminal.Quote(dir), "%s %s: there is no folder %s", one.flag, one.path, dir)
		}
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			return badInput("", "%s %s: it is a folder", one.flag, one.path)
		}
	}
	return nil
}

// reports are the files that were asked for, as git sees them.
func (s *settings) reports() []string {
	var out []string
	for _, p := range []string{s.JUnit, s.Summary} {
		if p == "" {
			continue
		}
		p = absolute(s.dirPath(), p)
		if real, err := realDir(filepath.Dir(p)); err == nil {
			p = filepath.Join(real, filepath.Base(p))
		}
		out = append(out, p)
	}
	return out
}

// ends is how the program ends with an exit status other than 0: well, where that was said to be as good.
func (s *settings) ends(code int, p *printer) error {
	if s.exits(code) == exitDone {
		p.say("exit status %d counts as success (--ok-exit)", code)
		return nil
	}
	return quiet(code)
}

// exits is what the program exits with where a run ended with that code.
func (s *settings) exits(code int) int {
	if slices.Contains(s.OkExit, strconv.Itoa(code)) {
		return exitDone
	}
	return code
}

// report writes the files that were asked for. Nobody asked for the job's page: a run ends as it does without it.
func (s *settings) report(sum *report.Summary, p *printer, m *redact.Redactor) error {
	page := ""
	if s.Summary == "" && os.Getenv("GITHUB_ACTIONS") == "true" {
		page = os.Getenv("GITHUB_STEP_SUMMARY")
	}
	if s.JUnit == "" && s.Summary == "" && page == "" {
		return nil
	}
	sum.Away = s.CI || page != "" || inJob()
	h := journal.NewState()
	if sum.Run.ID != "" {
		var err error
		if h, err = journal.Load(store.NewHome(sum.Run.Root).Events(sum.Run.ID)); err != nil {
			return err
		}
	}
	var errs []error
	if s.JUnit != "" {
		errs = append(errs, writeReport(sum.Run.Root, absolute(s.dirPath(), s.JUnit), m.Bytes(report.JUnit(sum, h))))
	}
	if s.Summary != "" {
		errs = append(errs, writeReport(sum.Run.Root, absolute(s.dirPath(), s.Summary), m.Bytes(report.Markdown(sum, h))))
	}
	if page != "" {
		if err := appendTo(page, m.Bytes(report.Markdown(sum, h))); err != nil {
			p.warn(err.Error())
		}
	}
	return errors.Join(errs...)
}

// appendTo adds a page to a file to which the other steps of a job add theirs.
func appendTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write the job's summary: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the job's summary: %w", err)
	}
	return nil
}

func writeReport(root, path string, data []byte) error {
	if err := plainfile.Writable(root, path); err != nil {
		return fmt.Errorf("report %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil { // it could be when the run began
		return &failure{code: exitError, err: fmt.Errorf("write report: %w", err)}
	}
	return nil
}

func newStepCmd() *cobra.Command {
	s := &settings{}
	var task string
	cmd := &cobra.Command{
		Use:   "step [tag | file]",
		Short: "Run the next unfinished wave of a tag, or one task, and no more",
		Long: `Run the next unfinished wave of a tag, or one task, and no more.

` + exitTable,
		Args: takes(0, 1, "one tag or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.source(cmd, args); err != nil {
				return err
			}
			return startRun(cmd, s, loop.Scope{Step: true, Task: task})
		},
	}
	s.register(cmd, ofRun)
	cmd.Flags().StringVar(&task, "task", "", "run exactly this `task`")
	return cmd
}
