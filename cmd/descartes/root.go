package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/cmd/descartes/complete"
	"descartes/config"
	"descartes/internal/terminal"
)

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "descartes",
		Short: "Run coding agents over a graph of tasks until the work is verified and committed",
		Long: `descartes runs coding agents over a graph of tasks until the work is verified
and committed. descartes demo shows it in a temporary repository.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if told, err := cmd.Flags().GetBool("version"); err == nil && told {
				return printVersion(cmd, nil)
			}
			return groupRun(cmd, args)
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return cmp.Or(runsOn(runtime.GOOS, cmd), typedOnly(cmd, os.Getenv))
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			cause := wrong.Unwrap()
			if n, ok := errors.AsType[*strconv.NumError](cause); ok {
				cause = fmt.Errorf("%q is not %s", n.Num, map[bool]string{true: "true or false",
					false: "a number"}[n.Func == "ParseBool"])
			}
			err = fmt.Errorf("--%s %w", wrong.GetFlag().Name, cause)
		}
		unknown, ok := errors.AsType[*pflag.NotExistError](err)
		if ok && config.Gone("--"+unknown.GetSpecifiedName()) != "" {
			return badInput("", "%s", config.Gone("--"+unknown.GetSpecifiedName()))
		}
		return badInput(cmp.Or(nearFlag(cmd, err), cmd.CommandPath()+" --help"), "%w", err)
	})
	// --scud-tag is --tag, everywhere.
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "scud-tag" {
			name = "tag"
		}
		return pflag.NormalizedName(name)
	})
	// Cobra would use a template for this, and with templates the linker keeps every method of every type.
	root.Flags().BoolP("version", "v", false, "version for descartes")
	root.AddCommand(newRunCmd(), newStartCmd(), newStepCmd(), newResumeCmd(), newPlanCmd(), newBuildCmd(),
		newPromptCmd(), newDemoCmd(), newStatusCmd(), newWatchCmd(), newLogsCmd(), newServeCmd(),
		newAnswerCmd(), newPauseCmd(), newCancelCmd(), newRewindCmd(), newWhyCmd(), newReportCmd(), newRecheckCmd(),
		newGateCmd(),
		newWavesCmd(), newSpecCmd(), newTasksCmd(),
		newInitCmd(), newDoctorCmd(), newConfigCmd(), newTrustCmd(), newCleanupCmd(), newFleetCmd(), newVersionCmd())
	loops := newLoopCmd()
	loops.Hidden = true
	root.AddCommand(loops, &cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exitTable})
	root.InitDefaultCompletionCmd("")
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil { // cobra's own shows the first screen for any word
		c.Run, c.RunE = nil, func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err == nil && len(rest) == 0 {
				return about.Help()
			}
			return cmp.Or(err, groupRun(about, rest))
		}
	}
	return root
}

// offerWords has every argument and flag say what a shell may offer there. Only a shell asks, by cobra's hidden
// command.
func offerWords(root *cobra.Command) {
	complete.Project{Root: func(f *pflag.FlagSet) (string, error) {
		return findRoot(complete.Value(f, "working-dir"))
	}, List: listOf}.Attach(root)
}

// moved says what to type in place of a command of earlier days.
func moved(words string) string {
	return map[string]string{"descartes limits": "descartes doctor", "descartes tasks show": "descartes why TASK",
		"descartes tasks next": "descartes waves"}[words]
}

// newLoopCmd has the commands under the name that others gave them. loop --resume NAME and --resume-last are resume.
func newLoopCmd() *cobra.Command {
	s := &settings{}
	var last bool
	cmd := newGroup("loop", "Start, watch, stop and resume runs")
	s.register(cmd, func(one *config.Setting) bool { return ofResume(one) && one.Flag != "name" })
	cmd.Flags().StringVar(&s.Name, "resume", "", "resume this run")
	cmd.Flags().BoolVar(&last, "resume-last", false, "resume the last run that has not ended")
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if last || s.Name != "" {
			return resume(cmd, s, last, false)
		}
		return groupRun(cmd, args)
	}
	cmd.AddCommand(newStartCmd(), newStepCmd(), newStatusCmd(), newResumeCmd(), newCancelCmd(), newPauseCmd(),
		newWatchCmd(), newLogsCmd())
	return cmd
}

func newTasksCmd() *cobra.Command {
	cmd := newGroup("tasks", "List, check, change, import and plan the tasks of a tag")
	cmd.AddCommand(newTasksListCmd(), newTasksSetCmd(), newTasksCheckCmd(), newTasksImportCmd(), newTasksPlanCmd())
	return cmd
}

// For systems on which no agent can be started, what works anyway.
const (
	noAgents = "descartes cannot run agents on Windows, only on Linux and macOS"
	noLoops  = "use WSL; waves, spec, tasks, report, config and init work here too"
)

// runsOn refuses a command that starts agents or verify commands, or changes the working tree, on a system where
// descartes cannot do that.
func runsOn(system string, cmd *cobra.Command) error {
	if system != "windows" {
		return nil
	}
	switch cmd.Name() {
	case "run", "start", "step", "resume", "plan", "build", "prompt", "demo", "recheck", "gate", "rewind":
		return &failure{code: exitAgent, err: errors.New(noAgents), hint: noLoops}
	}
	return nil
}

// typedOnly refuses a variable for a flag that has none: who exports DESCARTES_DRY_RUN wants nothing touched.
func typedOnly(cmd *cobra.Command, env func(string) string) (err error) {
	held := map[string]bool{"help": true, "version": true, "all": true} // these only show something
	for _, one := range config.All() {
		held[one.Flag] = one.Variable() != ""
	}
	// These tell agents and checks what they work on, and those may call descartes.
	ours := []string{"DESCARTES_ATTEMPT", "DESCARTES_HOLDOUT", "DESCARTES_PROMPT", "DESCARTES_PROMPT_FILE",
		"DESCARTES_TAG"}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := "DESCARTES_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if text := env(name); text != "" && !held[f.Name] && !slices.Contains(ours, name) && err == nil {
			err = badInput("unset "+name+", and type --"+f.Name+" where you want it",
				"%s=%q in the environment: --%s is typed, and has no variable", name, text, f.Name)
		}
	})
	return err
}

// groups are the parts of the list of commands, in the order in which help shows them: first what people type every
// day.
func groups() [][]string {
	return [][]string{
		{"Every day:", "init", "doctor", "waves", "run", "watch", "why", "answer", "resume"},
		{"Run:", "start", "step", "plan", "build", "prompt", "demo"},
		{"Watch:", "status", "logs", "serve"},
		{"Decide:", "pause", "cancel", "rewind"},
		{"What was done:", "report", "recheck", "gate"},
		{"What is to do:", "spec", "tasks"},
		{"Set up:", "config", "trust", "cleanup", "fleet", "completion", "version", "help"},
	}
}

// newGroup is a command that only has others below it.
func newGroup(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: groupRun}
}

// groupRun prints help, or refuses a word that is no command.
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range offered(cmd) {
		names = append(names, c.Name())
	}
	return badInput(cmp.Or(moved(cmd.CommandPath()+" "+args[0]), didYouMean(args[0], names),
		cmd.CommandPath()+" --help"), "%s: there is no command %q", cmd.CommandPath(), args[0])
}

// didYouMean is a hint at known words close to a wrong one, or "". Closeness is cobra's, which has it for commands.
func didYouMean(wrong string, known []string) string { return nearest(wrong, known, strings.Clone) }

// nearSetting is the same for keys of settings, which are close by their last parts: these may be given elsewhere.
func nearSetting(wrong string, keys []string) string {
	last := func(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
	return nearest(last(wrong), keys, last)
}

// nearest compares a word with what is left of known ones by part.
func nearest(wrong string, known []string, part func(string) string) string {
	if len(wrong) < 3 { // near to everything
		return ""
	}
	words := &cobra.Command{SuggestionsMinimumDistance: 2}
	whole := map[string][]string{}
	for _, k := range known {
		if whole[part(k)] = append(whole[part(k)], k); len(whole[part(k)]) == 1 {
			words.AddCommand(&cobra.Command{Use: part(k), Run: func(*cobra.Command, []string) {}})
		}
	}
	var near []string
	for _, word := range words.SuggestionsFor(wrong) {
		near = append(near, whole[word]...)
	}
	if len(near) == 0 || len(near) > 5 {
		return ""
	}
	return "did you mean " + terminal.Clean(strings.Join(near, " or ")) + "?"
}

// nearFlag is a hint at the flags close to an unknown one, or "".
func nearFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	if cmd.Flags().Lookup("set") != nil {
		for _, one := range config.All() {
			last := one.Key[strings.LastIndexByte(one.Key, '.')+1:]
			if word := strings.ReplaceAll(unknown.GetSpecifiedName(), "-", "_"); one.YAML &&
				(last == word || last == word+"_secs") {
				return "--set " + one.Key + "=VALUE"
			}
		}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	if cmd.Flags().Lookup("tag") != nil {
		names = append(names, "--scud-tag") // the same
	}
	return didYouMean("--"+unknown.GetSpecifiedName(), names)
}

// takes checks the number of a command's arguments; names describes them.
func takes(least, most int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return badInput(cmd.CommandPath()+" --help", "%s takes %s, got %d", cmd.CommandPath(),
				cmp.Or(names, "no arguments"), len(args))
		}
		return nil
	}
}

// oneOf has a command take at most one of these flags.
func oneOf(cmd *cobra.Command, names ...string) {
	rest := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		given := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !cmd.Flags().Changed(name) })
		if len(given) > 1 {
			return badInput("", "choose one of --%s", strings.Join(given, " and --"))
		}
		return rest(cmd, args)
	}
}
