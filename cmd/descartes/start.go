package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
)

func newStartCmd() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run the tasks of a tag, wave by wave, or repeat a prompt until the agent says that it is done",
		Long: `Run the tasks of a tag, wave by wave, until they are verified and committed.

  descartes loop start --scud-tag feature-x --plan plan.md --spec-file ARCHITECTURE.md --verify "make check test"

Or repeat a prompt until the agent's final message has the promise:

  descartes loop start --command "claude -p" --prompt "Do it. Output <promise>COMPLETE</promise> when done." --max-iterations 20

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

// startRun is loop start and loop step.
func startRun(cmd *cobra.Command, s *settings, scope loop.Scope) error {
	wants, gated := typed(cmd.Flags()), gateOfTag(cmd.Flags())
	root, err := s.load(cmd.Flags())
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if away, err := s.background(cmd, root); away || err != nil {
		return err
	}
	if prompt, err := wants.prompt(s); err != nil {
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
				"loop %s over tag %q has not ended, and runs on %s", old.State.ID, old.State.Tag, cmp.Or(file, old.State.TaskFile))
		}
	}
	if err := s.free(root, opt, old); err != nil {
		return err
	}
	return execute(cmd, root, s, opt, true)
}

// free says whether a loop may have the name and the state file that it was given.
func (s *settings) free(root string, opt loop.StartOptions, old *loop.Saved) error {
	if old != nil {
		if s.Name != "" && s.Name != old.State.ID || opt.StatePath != "" && opt.StatePath != old.Path {
			return badInput("descartes loop resume --name "+old.State.ID+" resumes it",
				"loop %s over tag %q has not ended: a start resumes it under its own name and state file", old.State.ID, old.State.Tag)
		}
		return nil
	}
	if s.Name != "" {
		taken, err := loop.NewHome(root).Find(s.Name)
		if err == nil && taken != nil {
			err = badInput("choose another name; descartes loop list shows what there is", "a loop named %q exists", s.Name)
		}
		if err != nil {
			return err
		}
	}
	if opt.StatePath != "" {
		st, err := loop.LoadState(opt.StatePath)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return badInput("choose another --state-file", "%w", err)
		case !st.Completed:
			return badInput("descartes loop resume --state-file "+s.StatePath, "%s belongs to loop %s, which has not ended", s.StatePath, st.ID)
		}
	}
	return nil
}

// execute prepares a run, does it, and reports. anew says that the settings were given now, not saved earlier.
func execute(cmd *cobra.Command, root string, s *settings, opt loop.StartOptions, anew bool) error {
	opt.Command, opt.Own, opt.Anew, opt.Session = "loop", s.reports(), s.anew, session()
	r, err := prepare(cmd.Context(), root, s.Config, opt, anew && cmd.Flags().Changed("plan"))
	if err != nil {
		if rerr := r.reportIdle(s, err); rerr != nil {
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
	if anew {
		r.settings = watchSettings(root, r.job.Config, r.mask)
		r.notes = append(r.notes, r.settings.changed(cmd.Context(), r.repo)...)
	}
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), s.JSON, s.CI)
	p.text.mask = r.mask
	defer p.close()
	if r.nothing {
		p.say("nothing left to do in tag %s: %s done", r.job.File.Tag(), terminal.Count(r.job.Graph.Counts().Total, "task"))
		return r.reportIdle(s, nil)
	}
	if task := opt.Scope.Task; task != "" {
		if err := r.canRun(task); err != nil {
			return err
		}
	}
	p.events.Waves, p.events.Usual = len(r.job.Graph.Waves()), r.job.Config.Backend.Type
	r.dryRun = s.DryRun
	p.header(r)
	if cmd.Flags().Changed("completion-promise") {
		p.warn("--completion-promise is for loops over a prompt: a task's agent reports with <promise>COMPLETE</promise> or TASK_COMPLETE")
	}
	if s.DryRun {
		return r.dry(p, cmd, s)
	}
	return runAndReport(cmd, r, s, p)
}

// reportIdle writes the reports that were asked for where no loop runs because none is needed, or because everything
// left is blocked: a nightly job collects them each night.
func (r *ready) reportIdle(s *settings, refused error) error {
	var found problems
	none := errors.As(refused, &found) && found.code() == exitBlocked
	if s.DryRun || refused != nil && !none {
		return nil
	}
	e := report.Run{Here: fromHere(r.root), Outcome: loop.Outcome{Ending: journal.AllDone, Message: "nothing left to do"}, State: &loop.State{Tag: r.job.File.Tag(), Config: r.job.Config}}
	if none {
		e.Outcome = loop.Outcome{Ending: journal.TasksBlocked, Message: found[0].Message}
	}
	for _, path := range s.reports() {
		if _, in := below(filepath.Join(r.root, ".descartes"), path); !in {
			continue
		}
		if err := loop.NewHome(r.root).Make(atomicfile.OS()); err != nil { // a fresh clone has none
			return err
		}
	}
	return s.report(&report.Summary{Board: r.after(e), Run: e}, r.mask)
}

// canRun says why a task cannot be the one of a step.
func (r *ready) canRun(id string) error {
	if _, ok := r.job.Graph.Task(id); !ok {
		return badInput("descartes tasks list"+r.named(), "tag %q has no task %q", r.job.File.Tag(), id)
	}
	state, cause := r.job.Graph.State(id)
	if r.job.Graph.Ready(id) || state == "blocked" && r.job.Config.Scud.RetryBlocked {
		return nil
	}
	hint := ""
	if state == "blocked" {
		hint = "--retry-blocked tries it again"
	}
	if cause != "" {
		cause = ": " + cause
	}
	return badInput(hint, "task %s cannot run now, it is %s%s", id, state, cause)
}

// header tells what is about to run, and what is odd about it.
func (p *printer) header(r *ready) {
	c := r.job.Config
	g := r.job.Graph.Counts()
	p.say("tag %s: %s in %s, %d done", r.job.File.Tag(), terminal.Count(g.Total, "task"), terminal.Count(p.events.Waves, "wave"), g.Done)
	if plan := r.job.Import; plan != nil {
		p.say("no task file has tag %s: %s of %s %s imported into %s", r.job.File.Tag(), terminal.Count(g.Total, "task"), terminal.Clean(plan.Name), r.willBe(g.Total), terminal.Clean(report.Relative(r.root, r.job.File.Path())))
	}
	p.say("agent: %s (%s%s)", terminal.Clean(strings.Join(r.backend.Command, " ")), r.backend.Name, modelOf(c))
	if len(c.Fallback) > 0 {
		p.say("fallback: %s", terminal.Clean(strings.Join(c.Fallback, ", ")))
	}
	switch {
	case c.Scud.VerificationCommand == loop.NoVerify:
		p.say("verify: none, the agent's word is taken")
	case r.why != "":
		p.say("verify: %s (found: %s)", terminal.Clean(c.Scud.VerificationCommand), terminal.Clean(r.why))
	default:
		p.say("verify: %s", terminal.Clean(c.Scud.VerificationCommand))
	}
	p.verifyClocks(c, c.Scud.VerificationCommand)
	p.treeTaken(r.root)
	p.say("sandbox: %s", terminal.Clean(report.Sandbox(c)))
	p.say("environment: %s", terminal.Clean(environmentText(c, r.backend)))
	for _, n := range append(r.notes, r.addedByPlan()...) {
		p.say("note: %s", terminal.Clean(n))
	}
	for _, w := range append(r.warnings(), r.lacks...) {
		p.warn(w)
	}
	p.warnLimits(r.root, r.backends(), r.opt.Anew)
}

// treeTaken tells whose the working tree is while the run lasts.
func (p *printer) treeTaken(root string) {
	p.say("tree: this working tree and its branch belong to the run until it ends; to keep working: git worktree add --detach %s", terminal.Quote("../"+terminal.Clean(filepath.Base(root))+"-work"))
}

// verifyClocks tells after which times a verify command is ended.
func (p *printer) verifyClocks(c loop.Config, command string) {
	if command == "" || command == loop.NoVerify {
		return
	}
	var ends []string
	if n := c.VerifyTimeoutSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second))
	}
	if n := c.VerifyIdleSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second)+" without output")
	}
	if len(ends) > 0 {
		p.say("verify is ended %s", strings.Join(ends, ", or "))
	}
}

// modelOf names the model where one was asked for.
func modelOf(c loop.Config) string {
	if c.Backend.Model == "" {
		return ""
	}
	return ", model " + terminal.Clean(c.Backend.Model)
}

// willBe is "is" or "are", and for a dry run "would be".
func (r *ready) willBe(n int) string {
	switch {
	case r.dryRun:
		return "would be"
	case n == 1:
		return "is"
	}
	return "are"
}

// addedByPlan names the dependencies that only the plan states.
func (r *ready) addedByPlan() []string {
	added := r.job.Graph.Added()
	if len(added) == 0 {
		return nil
	}
	var list []string
	for _, d := range added[:min(10, len(added))] {
		list = append(list, d.Task+" waits for "+d.On)
	}
	if n := len(added) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	return []string{"dependencies that only " + r.job.Config.Scud.PlanPath + " states: " + strings.Join(list, ", ")}
}

// dry tells what a run would do.
func (r *ready) dry(p *printer, cmd *cobra.Command, s *settings) error {
	b, err := report.NewBoard(r.job)
	if err != nil {
		return err
	}
	if s.JSON {
		return writeJSON(cmd.OutOrStdout(), b.Report())
	}
	p.say("")
	fmt.Fprint(p.text, b.Text(p.paint))
	p.say("\ndry run: nothing was touched")
	return nil
}

// runAndReport runs and tells how it ended.
func runAndReport(cmd *cobra.Command, r *ready, s *settings, p *printer) error {
	var in interrupts
	began := time.Now()
	ctx, stop := in.watch(cmd.Context(), func(text string) { p.say("%s", text) })
	var asked requestTeller
	home := loop.NewHome(r.root)
	e, err := r.work(ctx, in.soft, s.letGo(r.root, p, func(e journal.Event) {
		in.saw(e)
		asked.watch(home, e.Loop, loop.KindTag, in.underway.Load, p.say)
		p.observe(e)
	}))
	cut := context.Cause(ctx)
	stop()
	asked.stop()
	if e.State == nil {
		return cutShort(cut, err)
	}
	sum := &report.Summary{Board: r.after(e), Run: e, Step: r.opt.Scope.Step, Took: time.Since(began)}
	if len(e.State.BlockedTasks) > 0 || e.Outcome.Ending == journal.GitRefused {
		refs, rerr := r.repo.Refs(context.WithoutCancel(cmd.Context()), "refs/descartes/"+e.ID+"/")
		if rerr != nil {
			p.warn(rerr.Error())
		}
		sum.Kept = refs
	}
	if b := e.Outcome.Baseline; b != nil {
		p.close()
		tellBaseline(r.mask.Writer(cmd.ErrOrStderr()), b)
	} else {
		p.tell(sum.Text(p.paint, p.box))
	}
	p.close()
	if rerr := s.report(sum, r.mask); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return err
	}
	if code := exitCode(e.Outcome, e.Outcome.Blocked); code != exitDone {
		return quiet(code)
	}
	return nil
}

// tellBaseline says why a run was refused whose verify command fails before any task.
func tellBaseline(w *redact.Writer, b *loop.Baseline) {
	fmt.Fprintf(w, "error: %s\n", terminal.Clean(b.Reason()))
	for _, line := range b.Output() {
		fmt.Fprintf(w, "  %s\n", terminal.Clean(line))
	}
	fmt.Fprintf(w, "no agent was started\nhint: %s\n", terminal.Clean(b.Hint()))
	_ = w.Flush()
}

// after is the board when a run is over: the graph was kept up to date by the run itself.
func (r *ready) after(e report.Run) *report.Board {
	b := &report.Board{Root: r.root, Scud: r.job.Config.Scud, File: r.job.File, Graph: r.job.Graph, Commits: e.State.WaveCommits}
	return b
}

// check refuses how a run may not be called.
func (s *settings) check() error {
	if s.Parallel != 1 {
		return badInput("leave -j out", "-j %d: only one task at a time is built yet", s.Parallel)
	}
	if s.Name != "" {
		if err := loop.ValidID(s.Name); err != nil {
			return badInput("", "%w", err)
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

// report writes the files that were asked for.
func (s *settings) report(sum *report.Summary, m *redact.Redactor) error {
	if s.JUnit == "" && s.Summary == "" {
		return nil
	}
	h := journal.NewState()
	if sum.Run.ID != "" {
		var err error
		if h, err = journal.Load(loop.NewHome(sum.Root).Events(sum.Run.ID)); err != nil {
			return err
		}
	}
	var errs []error
	if s.JUnit != "" {
		errs = append(errs, writeReport(sum.Root, absolute(s.dirPath(), s.JUnit), m.Bytes(report.JUnit(sum, h))))
	}
	if s.Summary != "" {
		errs = append(errs, writeReport(sum.Root, absolute(s.dirPath(), s.Summary), m.Bytes(report.Markdown(sum, h))))
	}
	return errors.Join(errs...)
}

func writeReport(root, path string, data []byte) error {
	if err := plainfile.Settle(root, path); err != nil {
		return fmt.Errorf("report %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func newStepCmd() *cobra.Command {
	s := &settings{}
	var task string
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Run the next unfinished wave of a tag, or one task, and no more",
		Long: `Run the next unfinished wave of a tag, or one task, and no more.

` + exitTable,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return startRun(cmd, s, loop.Scope{Step: true, Task: task})
		},
	}
	s.register(cmd, ofRun)
	cmd.Flags().StringVar(&task, "task", "", "run exactly this `task`")
	known := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return taskIDs(cmd, s.Dir)
	}
	if err := cmd.RegisterFlagCompletionFunc("task", known); err != nil {
		panic(err) // it was registered above
	}
	return cmd
}
