package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/internal/proc"
	"descartes/launch"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
)

// settings are the settings of a command. A flag overrides the environment, which overrides descartes.yaml, which
// overrides the default.
type settings struct {
	config.Settings
	verifyFrom string          // where a verify command comes from that the plan gives
	front      []tasks.Finding // what is wrong with the plan's front matter
	file       *config.File    // as it was read
	fileName   string          // of it, in messages
	building   bool            // what runs are the tasks of IMPLEMENTATION_PLAN.md
	ready      *proc.Ready     // where a run in the background says that it has begun
}

// register binds the flags of those settings; all but a build's if none are named.
func (s *settings) register(cmd *cobra.Command, which func(*config.Setting) bool) {
	s.Settings = config.New()
	s.Bind(cmd.Flags(), which)
	cmd.Flags().Bool("all", false, "with --help: every flag")
	for _, none := range []string{"loop", "loop-isolated"} { // spellings of other tools for what a loop is anyway
		cmd.Flags().Bool(none, false, "accepted, and means nothing")
	}
	for _, hidden := range []string{"all", "allow-dirty", "loop", "loop-isolated"} {
		if f := cmd.Flags().Lookup(hidden); f != nil {
			f.Hidden = true
		}
	}
}

// ofRun are the settings of start; ofStart those of a command that only examines a start; ofResume those that may be
// changed for a resumed loop.
func ofRun(one *config.Setting) bool    { return !one.Is("build") }
func ofStart(one *config.Setting) bool  { return ofRun(one) && !one.Is("run") }
func ofResume(one *config.Setting) bool { return one.Is("resume") }

// load reads the settings, with those that the plan gives.
func (s *settings) load() (root string, err error) {
	if root, err = s.read(); err == nil {
		s.Typed = s.TypedFlags(root, s.dirPath())
		err = s.fromPlan(root)
	}
	return root, err
}

// fromPlan takes what is not set elsewhere from the plan.
func (s *settings) fromPlan(root string) (err error) {
	s.verifyFrom, s.front, err = launch.FromPlan(&s.Settings, root)
	return err
}

// frontProblem says what is wrong with the plan's front matter, where the tag was to come from there.
func (s *settings) frontProblem() error {
	if s.Scud.Tag != "" || len(s.front) == 0 {
		return nil
	}
	var found problems
	for _, f := range s.front {
		found = append(found, source.Problem{Message: launch.Placed(s.Scud.PlanPath, f)})
	}
	found[len(found)-1].Hint = "correct it, or name the tag with --tag"
	return found
}

// read reads the settings file and the environment, which rank below the flags.
func (s *settings) read() (root string, err error) {
	if root, err = findRoot(s.Dir); err != nil {
		return "", err
	}
	path, must := filepath.Join(root, config.SettingsFile), s.File != ""
	if must {
		if path, err = filepath.Abs(launch.Absolute(s.Dir, s.File)); err != nil {
			return "", err
		}
	}
	if s.file, err = config.ReadFile(path, must); err != nil {
		return "", err
	}
	s.file.Name = cmp.Or(s.fileName, store.Relative(root, path))
	if must {
		s.file.SettingsFile = path
	}
	// Paths in the file are relative to the project, those in flags to the user's directory.
	typed := s.dirPath()
	return root, s.Load(s.file, os.Getenv, func(path string) string { return inProject(root, typed, path) })
}

// dirPath is the directory that typed paths are relative to.
func (s *settings) dirPath() string {
	if dir, err := realDir(s.Dir); err == nil {
		return dir
	}
	return s.Dir
}

// asksAnew reports whether a person wants the providers asked, whatever is recorded about their quotas: by giving
// --on-limit again.
func (s *settings) asksAnew() bool { return s.IsTyped("on-limit") != "" }

// stateAt is where the state of a prompt loop should be, by its flag or in the settings file; "" is the usual place.
func (s *settings) stateAt(root string) string {
	switch {
	case s.StatePath != "":
		return launch.Absolute(s.dirPath(), s.StatePath)
	case s.StateFile != "":
		return launch.Absolute(root, s.StateFile)
	}
	return ""
}
