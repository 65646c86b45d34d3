package main

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"descartes/launch"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
)

func newStartCmd() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run the tasks of a tag, wave by wave, or repeat a prompt until the agent says that it is done",
		Long: `Run the tasks of a tag, wave by wave, until they are verified and committed; or repeat a prompt until the agent's final
message has the promise.

  descartes start --tag feature-x --plan plan.md --verify "make test"

  descartes start --command "claude -p" --max-iterations 20 \
    --prompt "Do it. Output <promise>COMPLETE</promise> when done."

A flag beats DESCARTES_<FLAG> in the environment, that beats descartes.yaml, that beats the default.
Where a run over the tag was killed or stopped, start resumes it.

` + exitTable,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return startRun(cmd, s, store.Scope{})
		},
	}
	s.register(cmd, ofRun)
	return cmd
}

// onlyTag takes the project's only tag, or that of its plan, where nothing says what to run.
func (s *settings) onlyTag(root string) (err error) {
	if s.Scud.Tag != "" || s.Prompt != "" || s.IsTyped("prompt", "prompt-file", "tasks-file") != "" ||
		len(s.front) > 0 {
		return nil
	}
	if s.Scud.PlanPath == "" && s.Scud.TasksFile == "" {
		if s.Scud.TasksFile = lastList(root); s.Scud.TasksFile != "" {
			return tagOfFile(root, &s.Scud)
		}
	}
	switch known := tasks.Known(root); {
	case len(known) > 1:
		return noTag(root)
	case onlyPlan(root, s.Scud):
		s.Scud.Tag, err = tagOfPlan(s.Scud.PlanPath)
	default:
		s.Scud.Tag = strings.Join(known, "")
	}
	return err
}

// startRun is start, step and run.
func startRun(cmd *cobra.Command, s *settings, scope store.Scope) error {
	root, away, err := s.begin(cmd)
	if away || err != nil {
		return err
	}
	if err := s.onlyTag(root); err != nil {
		return err
	}
	w := launch.Want{Root: root, Kind: store.KindTag, Anew: true, Imports: s.importsPlan(),
		Options: loop.StartOptions{Name: s.Name, Scope: scope}}
	if prompt, err := s.isPrompt(root); err != nil {
		return err
	} else if prompt && scope.Step {
		return badInput("descartes start repeats a prompt", "step is for the tasks of a tag; --prompt has no waves")
	} else if prompt {
		w.Kind = store.KindPrompt
		return s.startPrompt(cmd, w)
	}
	if err := chooseSource(cmd.ErrOrStderr(), root, &s.Scud); err != nil {
		return err
	}
	if s.StatePath != "" {
		w.Options.StatePath = launch.Absolute(s.dirPath(), s.StatePath)
	}
	old, err := unfinished(root, s.Scud)
	if err != nil {
		return err
	}
	limit := &s.Scud.MaxTotalIterations
	if s.Given("max-iterations") {
		limit = &s.MaxIterations
	}
	if old != nil && *limit > 0 && old.State.Iteration >= *limit &&
		old.State.ExitReason.Type == string(journal.LimitReached) {
		*limit += old.State.Iteration // it is this start's
	}
	if old != nil {
		w.Options.Resume = old.Path
	}
	if err := s.free(root, w.Options, old); err != nil {
		return err
	}
	return execute(cmd, s, w)
}

// begin reads the settings of a command that starts something. away says that it goes on in the background.
func (s *settings) begin(cmd *cobra.Command) (root string, away bool, err error) {
	if root, err = s.load(); err == nil {
		err = s.check(root)
	}
	if err == nil {
		err = s.trusted(cmd, root)
	}
	if err == nil {
		err = s.handOver(s.Fleet)
	}
	if err == nil {
		away, err = s.background(cmd, root)
	}
	return root, away, err
}

// startPrompt starts a loop over a prompt.
func (s *settings) startPrompt(cmd *cobra.Command, w launch.Want) error {
	w.Options.StatePath = s.stateAt(w.Root)
	if s.StatePath != "" {
		s.StateFile = store.Relative(w.Root, w.Options.StatePath)
	}
	if err := s.free(w.Root, w.Options, nil); err != nil {
		return err
	}
	if w.Options.Name == "" && w.Options.StatePath == "" {
		if _, err := store.LoadState(store.NewHome(w.Root).Default()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return execute(cmd, s, w)
}

// isPrompt reports whether the run is a loop over a prompt, and rejects flags that the loop cannot use. What was typed
// outranks the environment and descartes.yaml.
func (s *settings) isPrompt(root string) (bool, error) {
	tag, prompt := s.IsTyped("tag") != "", s.IsTyped("prompt", "prompt-file") != ""
	switch {
	case tag && prompt:
		return false, badInput("put what every task's agent should read into a --spec-file",
			"--prompt is for a run over a prompt, not over the tasks of a tag")
	case !prompt && (tag || s.Scud.Tag != "" || s.IsTyped("tasks-file") != ""):
		if name := s.TypedFor("prompt"); name != "" {
			return false, badInput("each attempt at a task is a fresh agent",
				"--%s is for a run over a prompt, not over the tasks of a tag", name)
		}
		return false, nil
	case prompt || s.Prompt != "":
		if name := s.TypedFor("tag"); name != "" {
			return false, badInput("descartes run --help",
				"--%s is for a run over the tasks of a tag, not over a prompt", name)
		}
		return true, nil
	}
	if err := s.frontProblem(); err != nil {
		return false, err
	}
	hint := "descartes tasks list shows the tags"
	if len(tasks.Known(root)) == 0 {
		var broken *tasks.FormatError
		if err := noTag(root); errors.As(err, &broken) {
			return false, err
		}
		hint = hintOfTasks(root)
	}
	return false, badInput(hint, "what should run? Neither a task list nor a prompt was given")
}

// live says that the loop with a state file is running, nil if it is not.
func live(statePath string) error {
	who, busy := store.Live(store.LockOf(statePath))
	if !busy {
		return nil
	}
	err := &store.BusyError{Path: statePath, Holder: who}
	return badInput(err.Next(), "%w", err)
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
			if err := live(old.Path); err != nil {
				return err
			}
			return badInput("descartes resume --name "+old.State.ID+" resumes it",
				"run %s over tag %q (%s) has tasks left: a start resumes it under its own name and state file",
				old.State.ID, old.State.Tag, standing(old.State))
		}
		return nil
	}
	if s.Name != "" {
		taken, err := store.NewHome(root).Find(s.Name)
		if err == nil && taken != nil {
			err = badInput("choose another name; descartes status --all shows those in use", "a run named %q exists",
				s.Name)
		}
		if err != nil {
			return err
		}
	}
	if opt.StatePath != "" {
		st, err := store.NewHome(root).Load(opt.StatePath)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return badInput("choose another --state-file", "%w", err)
		case live(opt.StatePath) != nil:
			return live(opt.StatePath)
		case !st.Completed:
			return badInput("descartes resume --state-file "+s.StatePath,
				"%s belongs to run %s (%s), which can be resumed", s.StatePath, st.ID, standing(st))
		}
	}
	return nil
}
