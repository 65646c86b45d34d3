package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

func newResumeCmd() *cobra.Command {
	s := &settings{}
	var last, step bool
	cmd := &cobra.Command{
		Use:   "resume [run]",
		Short: "Resume a run where it stopped, with its saved settings",
		Long: `Resume a run where it stopped, with its saved settings. Limits may be changed.

Without a name it is the run of .descartes/loop-state.json, or else the last one that has not ended.

` + exitTable,
		Args: takes(0, 1, "at most one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if s.Name != "" && s.Name != args[0] {
					return badInput("", "two runs are named: %q and %q", args[0], s.Name)
				}
				s.Name = args[0]
			}
			return resume(cmd, s, last, step)
		},
	}
	s.register(cmd, ofResume)
	f := cmd.Flags()
	f.Lookup("name").Usage = "`id` of the run"
	f.Lookup("state-file").Usage = "state `file` of the run"
	f.BoolVar(&last, "last", false, "the last run that has not ended, whatever its name")
	f.BoolVar(&step, "step", false, "run only the next unfinished wave, even after a step that is done")
	return cmd
}

func resume(cmd *cobra.Command, s *settings, last, step bool) error {
	root, err := findRoot(s.Dir)
	if err != nil {
		return err
	}
	if err := brought(cmd.Context(), root); err != nil {
		return err
	}
	saved, err := findSaved(root, s, last, step)
	if err != nil {
		return err
	}
	if err := s.check(root); err != nil {
		return err
	}
	if err := s.handOver(cmp.Or(s.Fleet, saved.State.Config.Fleet)); err != nil {
		return err
	}
	if away, err := s.background(cmd, root); away || err != nil {
		return err
	}
	if step && saved.State.Kind != store.KindTag {
		return badInput("descartes resume --name "+saved.State.ID+" resumes it",
			"--step is for the tasks of a tag; run %s has no waves", saved.State.ID)
	}
	retry := s.Scud.RetryBlocked
	stepped := step && saved.State.Completed && saved.State.ExitReason.Type == string(journal.StepDone)
	if saved.State.Completed && !stepped && !retry && !reopened(root, saved.State) {
		return badInput(resumeHint(root, saved), "nothing to resume: run %s has ended (%s)",
			cmp.Or(saved.State.ID, "of "+store.Relative(root, saved.Path)),
			journal.Ending(saved.State.ExitReason.Type).Words())
	}
	was, err := unhidden(root, saved.State, cmd.Flags().Changed("notify"))
	if err != nil {
		return err
	}
	if err := s.setsUpAnew(cmd, root, &was); err != nil {
		return err
	}
	was.Scud.RetryBlocked = false
	base := &config.File{Settings: config.New()}
	base.Config = was
	if err := s.Load(base, os.Getenv, nil); err != nil {
		return err
	}
	s.Typed = was.Typed.And(s.TypedFlags(root, s.dirPath()))
	if err := s.Check(); err != nil {
		return badInput("correct it there, or start another run", "%s: config.%w",
			store.Relative(root, store.NewHome(root).Given(saved)), err)
	}
	scope := saved.State.Scope
	if step {
		scope = store.Scope{Step: true}
	}
	w := launch.Want{Root: root, Kind: saved.State.Kind, Options: loop.StartOptions{Resume: saved.Path, Yes: s.Yes,
		Scope: scope}}
	if w.Kind != store.KindTag && store.NewHome(root).IsLive(*saved) {
		return badInput("descartes status --name "+saved.State.ID+"; descartes cancel "+saved.State.ID,
			"run %s is running already", saved.State.ID)
	}
	if stepped { // each step is a loop of its own, unless one has tasks left
		w.Options.Resume = ""
		if old, err := unfinished(root, s.Scud); err != nil {
			return err
		} else if old != nil {
			w.Options.Resume = old.Path
		}
	}
	return execute(cmd, s, w)
}

// unhidden returns a loop's settings with the values of secrets, which its state file lacks. notify says that the
// notices' targets are given anew.
func unhidden(root string, st *store.State, notify bool) (config.Config, error) {
	var file config.Config // resuming needs nothing of it but what it has of these
	saved := st.Config
	if f, err := config.ReadFile(cmp.Or(saved.SettingsFile, filepath.Join(root, config.SettingsFile)),
		false); err == nil {
		file = f.Config
		corrected(&saved, &file)
	}
	if notify {
		saved.Notify = nil
	}
	cfg, missing := config.Reveal(saved, os.Environ(), file)
	if len(missing) > 0 {
		return cfg, badInput("set "+strings.Join(missing, ", ")+
			" again, or put back into descartes.yaml what was there",
			"run %s was started with a command or variables that contain the value of %s, which no state file keeps",
			st.ID, strings.Join(missing, ", "))
	}
	return cfg, nil
}

// corrected gives a run what its settings file says by now of what a check has: a person corrects it where a commit
// did not pass by itself. What was typed stays.
func corrected(saved, file *config.Config) {
	if !typedKey(saved, "pool.keep") {
		saved.Pool.Keep = file.Pool.Keep
	}
	if !typedKey(saved, "pool.setup_on") {
		saved.Pool.SetupOn = file.Pool.SetupOn
	}
}

// setsUpAnew does the same with the set-up command, which has to be trusted as at a start.
func (s *settings) setsUpAnew(cmd *cobra.Command, root string, was *config.Config) error {
	file, err := config.ReadFile(settingsPath(root, *was), false)
	if err != nil || file.Pool.Setup == was.Pool.Setup || typedKey(was, "pool.setup") {
		return nil // a file that cannot be read changes nothing
	}
	s.file, was.Pool.Setup = file, file.Pool.Setup
	return s.trusted(cmd, root)
}

// typedKey reports whether a run got a setting by --set.
func typedKey(c *config.Config, key string) bool {
	return slices.ContainsFunc(c.Typed["set"], func(s string) bool { return strings.HasPrefix(s, key+"=") })
}

// shown are a run's settings for whoever only looks at it, and what takes its secrets out of what is shown.
func shown(root string, st *store.State) (config.Config, *redact.Redactor) {
	cfg, err := unhidden(root, st, true)
	if err != nil {
		cfg = st.Config // what it hides is not known here either
	}
	return cfg, redact.Of(cfg.Secrets(os.Environ()))
}

// reopened reports whether a loop that ended with blocked tasks has a pending one again, for example after descartes
// answer: it can be resumed.
func reopened(root string, st *store.State) bool {
	if journal.Ending(st.ExitReason.Type) != journal.TasksBlocked {
		return false
	}
	job, _ := source.Load(root, config.Config{Scud: view.ListOf(st)})
	h, err := journal.Load(store.NewHome(root).Events(st.ID))
	return job != nil && err == nil && slices.ContainsFunc(h.Blocked(), func(b *journal.Event) bool {
		return job.Graph.Status(b.Task) == tasks.Pending
	})
}

func resumeHint(root string, s *store.Saved) string {
	if s.State.ExitReason.Type == string(journal.TasksBlocked) {
		return resumeOf(root, s.State.ID, s.Path) + " --retry-blocked"
	}
	if s.State.Kind != store.KindTag {
		typed := s.State.Config.Typed.String()
		if !strings.Contains(typed, " --prompt") {
			return "start another with descartes start"
		}
		return "descartes start" + typed + fromHere(root)
	}
	return startAgain(listFlags(root, s.State.Tag, s.State.Config.Scud.TasksFile), s)
}

// findSaved finds the loop to resume.
func findSaved(root string, s *settings, last, step bool) (*store.Saved, error) {
	home := store.NewHome(root)
	if s.StatePath != "" || s.Name != "" {
		found, err := lookUp(root, s.dirPath(), s.Name, s.StatePath)
		if errors.Is(err, fs.ErrNotExist) {
			err = badInput("descartes status --all", "nothing to resume: no state file %s", s.StatePath)
		}
		return found, err
	}
	if !last {
		st, err := home.Load(home.Default())
		def := store.Saved{Path: home.Default(), State: st}
		if err == nil && (!st.Completed || s.Scud.RetryBlocked || reopened(root, st) || step &&
			st.ExitReason.Type == string(journal.StepDone)) && !home.IsLive(def) {
			return &def, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return lastOpen(home)
}

// lastOpen chooses the loop to resume if none is named. Interrupted or paused ones come before stopped ones, those of
// our session before others, then the most recent one. It takes a live one only if there is no other.
func lastOpen(home store.Home) (*store.Saved, error) {
	all, err := home.List()
	if err != nil {
		return nil, err
	}
	open := slices.DeleteFunc(slices.Clone(all), func(s store.Saved) bool {
		return s.State == nil || s.Archived || s.State.Completed
	})
	if len(open) == 0 && len(all) == 0 {
		return nil, badInput("descartes run --help", "nothing to resume: no run was started here")
	} else if len(open) == 0 {
		return nil, badInput("descartes run starts another, with --retry-blocked blocked tasks again; descartes status --all shows all",
			"nothing to resume: %s, all ended", terminal.Count(len(all), "run"))
	}
	rank := func(s *store.Saved) (n int) {
		for i, good := range []bool{session() != "" && s.State.Session == session(),
			slices.Contains([]string{"", "running", string(journal.Paused)}, s.State.ExitReason.Type),
			!home.IsLive(*s)} {
			if good {
				n += 1 << i
			}
		}
		return n
	}
	best := slices.MaxFunc(open, func(a, b store.Saved) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), home.Active(&a).Compare(home.Active(&b)))
	})
	return &best, nil
}
