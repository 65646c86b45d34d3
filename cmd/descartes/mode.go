package main

import (
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/config"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/mode"
)

// modeText is the help that the three modes share.
const modeText = `

In prompts ${ITERATION} ${MAX_ITERATIONS} ${MODE} ${RETRY} ${TASK_DESCRIPTION} ${ASSOCIATED_SPEC} ${PLAN_FILE} ${SPECS_DIR} ${TEST_COMMAND}
${PROMISE} ${PROJECT_DIR} ${TIMESTAMP} and ${SUB_AGENTS} are filled in. What the agent says goes to stderr and into the session log.

Exit codes: 0 complete, or the limit of iterations is reached; 2 usage, or no plan to build from; 3 tests fail
beyond the retries; 4 the agent fails beyond the retries; 5 git refused; others as for start.`

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
		if fl := f.Lookup(one.Flag); fl != nil && one.Help != "" && one.Flag != "allow-dirty" {
			fl.Hidden = !one.Is("mode") && !one.Is("build") || kind == mode.Prompt &&
				(one.Is("gate") || one.Flag == "review")
		}
	}
	f.Lookup("max-iterations").Usage = "iterations, also as the argument (default 10)"
	return cmd
}

func runMode(cmd *cobra.Command, kind mode.Kind, s *settings, args []string) error {
	f := cmd.Flags()
	var wrong error
	f.Visit(func(fl *pflag.Flag) {
		if fl.Hidden && wrong == nil && fl.Name != "allow-dirty" {
			wrong = badInput(cmd.CommandPath()+" --help", "%s does not take --%s: that is for start",
				cmd.CommandPath(), fl.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	if len(args) > 0 && kind != mode.Prompt {
		n, err := strconv.Atoi(args[0])
		switch {
		case err != nil || n < 1:
			return badInput("", "max_iterations %q: must be a number of at least 1", args[0])
		case f.Changed("max-iterations") && f.Lookup("max-iterations").Value.String() != args[0]:
			return badInput("", "max_iterations %d and --max-iterations %d mean the same; give one", n,
				s.MaxIterations)
		}
		if err := f.Set("max-iterations", args[0]); err != nil {
			return err
		}
	}
	s.building = kind == mode.Build
	root, away, err := s.begin(cmd)
	if away || err != nil {
		return err
	}
	w := launch.Want{Root: root, Kind: string(kind), Anew: true,
		Options: loop.StartOptions{Name: s.Name, Command: string(kind)}}
	if kind == mode.Prompt {
		w.Once = args[0]
	}
	return s.startPrompt(cmd, w)
}
