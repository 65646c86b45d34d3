package main

import (
	"errors"
	"io/fs"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/internal/config"
	"descartes/loop"
	"descartes/loop/mode"
	"descartes/loop/store"
	"descartes/verify"
	"descartes/view"
)

// modeIterations is the default limit of a plan or build.
const modeIterations = 10

// modeText is the help that the three modes share.
const modeText = `

In prompts ${ITERATION} ${MAX_ITERATIONS} ${MODE} ${RETRY} ${TASK_DESCRIPTION} ${ASSOCIATED_SPEC} ${PLAN_FILE} ${SPECS_DIR} ${TEST_COMMAND}
${PROMISE} ${PROJECT_DIR} ${TIMESTAMP} and ${SUB_AGENTS} are filled in. What the agent says goes to stderr and into the session log.

Exit codes: 0 complete, or the limit of iterations is reached; 2 usage, or no plan to build from; 3 tests fail
beyond the retries; 4 the agent fails beyond the retries; 5 git refused; others as for loop start.`

func newModeCmd(kind mode.Kind, use, short, long string) *cobra.Command {
	s := &settings{}
	least, what := 0, "at most a number of iterations"
	if kind == mode.Prompt {
		least, what = 1, "one prompt file"
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + modeText,
		Args: takes(least, 1, what),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMode(cmd, kind, s, args)
		},
	}
	s.register(cmd, func(one *config.Setting) bool { return ofRun(one) || kind == mode.Build })
	f := cmd.Flags()
	for _, one := range config.All() {
		if fl := f.Lookup(one.Flag); fl != nil && one.Help != "" {
			fl.Hidden = !one.Is("mode") && !one.Is("build") || kind == mode.Prompt && (one.Is("gate") || one.Flag == "review")
		}
	}
	f.Lookup("max-iterations").Usage = "iterations, also as the argument (default 10)"
	return cmd
}

func runMode(cmd *cobra.Command, kind mode.Kind, s *settings, args []string) error {
	f := cmd.Flags()
	var wrong error
	f.Visit(func(fl *pflag.Flag) {
		if fl.Hidden && wrong == nil {
			wrong = badInput(cmd.CommandPath()+" --help", "%s does not take --%s: that is for loop start", cmd.CommandPath(), fl.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
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
	if err := s.completeMode(root, kind, args); err != nil {
		return err
	}
	opt := loop.StartOptions{Name: s.Name, StatePath: s.stateAt(root), Command: string(kind)}
	if err := s.free(root, opt, nil); err != nil {
		return err
	}
	return runPrompt(cmd, root, string(kind), s, opt)
}

// completeMode turns what was typed into what a mode runs.
func (s *settings) completeMode(root string, kind mode.Kind, args []string) (err error) {
	verifyCommand, checks := s.Scud.VerificationCommand, s.Checks
	s.Checks = nil
	s.Scud, s.VerificationCommand = loop.ScudConfig{MaxIterationsPerTask: s.Scud.MaxIterationsPerTask, UseSubAgents: s.Scud.UseSubAgents}, ""
	s.Git.AutoCommit = !s.NoCommit
	s.workIn(root)
	s.WorkingDirectory = root // plan, specs and tests are the project's
	s.mode = kind
	s.oneAgent()
	if kind == mode.Prompt {
		return s.completeAdhoc(root, args[0])
	}
	s.limitGate()
	if err := s.iterationsOf(args); err != nil {
		return err
	}
	if s.CompletionPromise == "" {
		return badInput("leave it out: the default is COMPLETE", "--completion-promise is empty: nothing would end a %s but its limit", kind)
	}
	var file string
	if s.Prompt, file, err = mode.Text(root, kind); err != nil {
		return badInput("", "%w", err)
	}
	s.promptFrom = file
	if err := s.completeGate(root); err != nil || kind == mode.Plan {
		return err
	}
	if s.Replan {
		if s.PlanPrompt, _, err = mode.Text(root, mode.Plan); err != nil {
			return badInput("", "%w", err)
		}
	}
	project := mode.Open(root)
	plan, err := project.ReadPlan()
	switch {
	case err != nil:
		return badInput("", "%w", err)
	case plan == nil && !s.Replan:
		return badInput("descartes plan"+s.Typed.String()+fromHere(root), "Implementation plan not found. Run 'descartes plan' first.")
	}
	return s.testWith(project, verifyCommand, checks)
}

// testWith chooses the command that tests what was built.
func (s *settings) testWith(p mode.Project, given string, checks []verify.Check) error {
	if len(checks) > 0 && checks[0].Name != "" && given == "" { // whoever names several means these
		s.Checks = checks
		return nil
	}
	if cmd := p.TestCommand(); cmd != "" {
		s.VerificationCommand, s.verifyFrom = cmd, "AGENTS.md"
		if given != "" && given != cmd {
			s.verifyFrom = "AGENTS.md, which takes precedence over --verify"
		}
		return nil
	}
	if given != "" || len(checks) > 0 {
		s.VerificationCommand, s.Checks = given, checks
		return nil
	}
	cmd, why, ok := verify.Detect(p.Root)
	if !ok {
		return badInput(`write a line "Test: make test" into AGENTS.md, or give --verify "make test"; --verify none tests nothing`, "no test command: AGENTS.md gives none, and none was found from the project's files")
	}
	s.VerificationCommand, s.verifyFrom = cmd, why
	return nil
}

// iterationsOf reads the limit: the argument, else the flag, else the settings file.
func (s *settings) iterationsOf(args []string) error {
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		switch {
		case err != nil || n < 1:
			return badInput("", "max_iterations %q: must be a number of at least 1", args[0])
		case s.Given("max-iterations") && n != s.MaxIterations:
			return badInput("", "max_iterations %d and --max-iterations %d mean the same; give one", n, s.MaxIterations)
		}
		s.MaxIterations = n
	}
	if s.MaxIterations == 0 {
		s.MaxIterations = modeIterations
	}
	if s.MaxIterations > loop.Ceiling {
		return badInput("to continue a loop that has reached its limit: loop resume --max-iterations N", "%d iterations: a loop is started with at most %d", s.MaxIterations, loop.Ceiling)
	}
	return nil
}

// completeAdhoc reads the file of a prompt that runs once.
func (s *settings) completeAdhoc(root, name string) error {
	text, err := mode.ReadPrompt(root, absolute(s.dirPath(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return badInput("", "prompt file %s: no such file", name)
	}
	if err != nil {
		return badInput("", "%w", err)
	}
	run := &mode.Run{Kind: mode.Prompt, Project: mode.Open(root), Shown: ".", Text: text, Now: time.Now}
	s.promptFrom, s.MaxIterations, s.CompletionPromise, s.Gate = view.Relative(root, absolute(s.dirPath(), name)), 1, "", ""
	s.Prompt, s.Review = run.Once(), config.ReviewConfig{} // nobody judges it
	s.Git.CommitTemplate = run.OnceSubject()
	s.IterationContext = false
	return nil
}

// modeOf returns the rules of that kind of loop; nil for a plain prompt loop.
func modeOf(root, kind string, cfg loop.Config, g loop.Gate) (*mode.Run, loop.Gate) {
	if kind != store.KindPlan && kind != store.KindBuild {
		return nil, g
	}
	run := &mode.Run{Kind: mode.Kind(kind), Project: mode.Open(root), Text: cfg.Prompt, Plan: cfg.PlanPrompt, Test: cfg.VerificationCommand, Promise: cfg.CompletionPromise, Alone: !cfg.Scud.UseSubAgents, Now: time.Now}
	if run.Replans() && g != nil {
		g = mode.NewAlternate(g, run.Specs)
	}
	run.Gate = g
	return run, g
}
