package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
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

// startRun is loop start, loop step and run.
func startRun(cmd *cobra.Command, s *settings, scope loop.Scope) error {
	root, err := s.load()
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
	if s.Scud.Tag == "" && s.Prompt == "" && s.IsTyped("prompt", "prompt-file", "tasks-file") == "" && len(s.front) == 0 {
		if err := s.chooseTag(cmd, root); err != nil {
			return err
		}
	}
	if prompt, err := s.isPrompt(root); err != nil {
		return err
	} else if prompt && scope.Step {
		return badInput("descartes loop start repeats a prompt", "loop step is for the tasks of a tag; --prompt has no waves")
	} else if prompt {
		return startPrompt(cmd, root, s)
	}
	if err := s.gateOfTag(); err != nil {
		return err
	}
	if err := s.completeTag(root); err != nil {
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
	opt.Command, opt.Own, opt.Anew, opt.Session = "loop", s.reports(), s.asksAnew(), session()
	r, err := prepare(cmd.Context(), root, s.Config, opt, anew && s.importsPlan())
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
		r.watchSettings(cmd.Context(), s.file)
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
	if s.Given("completion-promise") {
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
	if yes, _ := h.yes(cmd.Context(), fmt.Sprintf("%s cannot run. Start the others?", terminal.Count(held, "task")), true); yes {
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
	e := view.Run{Here: fromHere(r.root), Root: r.root, Outcome: loop.Outcome{Ending: journal.AllDone, Message: "nothing left to do"}, History: journal.NewState(), State: &store.State{Tag: r.job.File.Tag(), Config: r.job.Config}}
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
	return s.report(&view.Summary{Board: r.after(e), Run: e}, p, r.redact)
}
