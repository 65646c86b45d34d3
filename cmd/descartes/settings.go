package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/agent"
	"descartes/internal/plainfile"
	"descartes/loop"
	"descartes/loop/mode"
	"descartes/tasks"
)

// settings are what the flags of a run write into. A flag beats the environment, that beats
// descartes.yaml, that beats the default.
type settings struct {
	loop.Config
	dir        string // where relative paths begin
	file       string // of settings, "" for descartes.yaml in the project
	template   string // file
	promptFile string
	noCommit   bool
	commits    bool      // --auto-commit or git.auto_commit, of a prompt loop
	isolated   bool      // --isolated
	workDir    string    // the file's working_directory
	stateFile  string    // and its state_file
	mode       mode.Kind // of descartes plan, build and prompt
	promptFrom string    // file of a mode's prompt, "" for ours
	verifyFrom string    // where a verify command comes from that nobody gave
	ci         bool
	gates      gateFlags
	anew       bool            // the providers are asked, whatever is known of their quotas
	front      []tasks.Finding // what is wrong with the plan's front matter
}

const baselineWords = "require|warn|off"

// defaults are the seed's, for a loop over a tag.
func defaults() loop.Config {
	return loop.Config{
		CompletionPromise: "COMPLETE",
		IterationContext:  true,
		IdleTimeoutSecs:   int(agent.DefaultIdle.Seconds()),
		StartTimeoutSecs:  int(agent.DefaultStart.Seconds()),
		ExitGraceSecs:     int(agent.DefaultExit.Seconds()),
		SpinLimit:         agent.DefaultSpin,
		VerifyTimeoutSecs: int(loop.DefaultVerifyTimeout.Seconds()),
		VerifyIdleSecs:    int(loop.DefaultVerifyIdle.Seconds()),
		MaxWaitSecs:       defaultMaxWait,
		Git:               loop.GitConfig{Hooks: "run", HookTimeout: 10 * 60},
		SafetyConfig:      loop.SafetyConfig{Sandbox: "auto", MinFreeDisk: leastFree},
		Scud: loop.ScudConfig{
			MaxIterationsPerTask: 3, UseSubAgents: true, AutoCommitWaves: true,
			Spec: loop.SpecConfig{IncludeTask: true, IncludePlanSection: true, MaxSpecTokens: 5000},
		},
	}
}

// register binds the flags of loop start and loop step.
func (s *settings) register(cmd *cobra.Command) {
	s.Config = defaults()
	f := cmd.Flags()
	f.StringVar(&s.dir, "working-dir", ".", "work as if started in this `directory`")
	f.StringVar(&s.file, "config", "", "settings `file` (default: descartes.yaml in the project)")
	f.StringVar(&s.Scud.Tag, "scud-tag", "", "run the tasks of this `tag`")
	s.registerList(f)
	f.StringVar(&s.Command, "command", "", "agent's command `line`, e.g. \"claude -p\"")
	f.StringVar(&s.Backend.Type, "backend", "", "agent's kind: "+strings.Join(agent.Names(), ", ")+" (default: told from the command, else claude)")
	f.StringVar(&s.Backend.PromptMode, "prompt-mode", "", "how the agent gets its prompt: stdin, arg, env or file (default: the backend's)")
	f.StringVar(&s.Backend.Model, "model", "", "model that the agent is asked to use")
	s.registerPrompt(f)
	s.registerGate(f)
	f.StringVar(&s.Scud.VerificationCommand, "verify", "", "`command` that decides whether a task is done; none: the agent's word is enough (default: found from the project)")
	s.registerSpec(f)
	s.registerLimits(f)
	s.registerGit(f)
	completeWords(cmd, "sandbox", "auto", "strict", "off")
	completeTags(cmd, &s.dir)
	completeWords(cmd, "hooks", "run", "skip", "fail")
	completeWords(cmd, "on-limit", strings.Split(onLimitWords, "|")...)
	completeWords(cmd, "fallback", agent.Names()...)
}

// registerPrompt binds what a prompt loop repeats and what ends it.
func (s *settings) registerPrompt(f *pflag.FlagSet) {
	f.StringVar(&s.Prompt, "prompt", "", "repeat this prompt; - reads it from standard input")
	f.StringVar(&s.promptFile, "prompt-file", "", "repeat the prompt in this `file`; - is standard input")
	f.StringVar(&s.CompletionPromise, "completion-promise", "COMPLETE", "text that signals completion; empty: exit status 0 does")
	f.BoolVar(&s.IterationContext, "iteration-context", true, "tell the agent from its second iteration on where it stands")
	f.BoolVar(&s.isolated, "isolated", true, "each iteration is a fresh agent")
	f.BoolVar(&s.ContinueSession, "continue", false, "each iteration goes on with the conversation of the one before, where the backend can")
}

func (s *settings) registerList(f *pflag.FlagSet) {
	f.StringVar(&s.Scud.TasksFile, "tasks-file", "", "task list `file` of any known format (default: where the tag is found)")
	f.BoolVar(&s.Scud.OpenInDone, "open-in-done", false, "open subtasks of a task that is done are work to do")
}

func (s *settings) registerSpec(f *pflag.FlagSet) {
	f.StringVar(&s.Scud.PlanPath, "plan", "", "implementation plan `file`; each task is given its section")
	f.StringArrayVar(&s.Scud.Spec.AdditionalSpecs, "spec-file", nil, "extra `file` in every task's spec; may be repeated")
	f.StringVar(&s.Scud.HandoffPath, "handoff", "", "`file` with what a next session needs: in every task's spec, and written when a loop stops with work left")
	f.StringVar(&s.template, "spec-template", "", "template `file` with {task} {plan} {custom} {verification}")
	f.IntVar(&s.Scud.Spec.MaxSpecTokens, "max-spec-tokens", 5000, "warn of a spec with more tokens than this")
	f.Var(budget{&s.Scud.Spec.Cut}, "spec-budget", "warn or cut: what happens to a spec over --max-spec-tokens")
}

// registerLimits binds what a resumed loop may be given anew.
func (s *settings) registerLimits(f *pflag.FlagSet) {
	f.BoolVar(&s.Scud.AutoTune, "auto-tune", false, "have a second agent review each failed attempt, and give its advice to the later ones")
	f.IntVar(&s.Scud.MaxIterationsPerTask, "max-attempts", 3, "attempts per task")
	f.IntVar(&s.MaxIterations, "max-iterations", 0, "iterations of a prompt loop (default 20); over a tag like --max-total-iterations")
	f.IntVar(&s.Scud.MaxTotalIterations, "max-total-iterations", 0, "attempts in all (default: 100, or three for each task if that is more)")
	f.Var((*secs)(&s.TimeoutSecs), "timeout", "longest run of an agent, in seconds or like 20m (default: none)")
	f.Var((*secs)(&s.IdleTimeoutSecs), "idle-timeout", "longest time an agent may print nothing; 0: any")
	f.Var((*secs)(&s.StartTimeoutSecs), "start-timeout", "longest time to an agent's first event; 0: any")
	f.Var((*secs)(&s.ExitGraceSecs), "exit-grace", "longest time from an agent's last event to its exit; 0: any")
	f.IntVar(&s.SpinLimit, "spin-limit", agent.DefaultSpin, "steps in a row in which an agent may get nothing done; 0: any number")
	f.Var((*secs)(&s.VerifyTimeoutSecs), "verify-timeout", "longest run of the verify command; 0: any")
	f.Var((*secs)(&s.VerifyIdleSecs), "verify-idle-timeout", "longest time the verify command may print nothing; 0: any")
	f.Var(breaker{&s.Breaker}, "breaker", "stop when so many tasks in a row fail in the same way, or their agents crash or do nothing; off: never (default: 3)")
	f.Var(choice{&s.Baseline, baselineWords}, "baseline", "when the verify command fails before the first attempt: require ends the run, warn goes on, off does not run it (default: require; of a prompt loop off)")
	f.Float64Var(&s.MaxCostUSD, "max-cost", 0, "stop when the agents have cost this many `dollars`")
	f.Float64Var(&s.MaxCostPerTask, "max-cost-per-task", 0, "give a task no further attempt when its attempts have cost this many `dollars`")
	f.Var(deadline{&s.Deadline}, "deadline", "start no attempt after this time: RFC 3339, HH:MM, or a duration like 8h")
	s.registerProviders(f)
	f.BoolVar(&s.Scud.RetryBlocked, "retry-blocked", false, "try blocked tasks again")
	s.registerSafety(f)
	f.BoolVar(&s.AllowDirty, "allow-dirty", false, "start with uncommitted changes; they are kept and not committed")
	f.BoolVar(&s.ci, "ci", false, "for a job without a person: plain output, and --on-limit stop unless that is given")
}

func (s *settings) registerGit(f *pflag.FlagSet) {
	f.BoolVar(&s.Git.AutoCommit, "auto-commit", true, "commit each wave; each iteration of a prompt loop (there false unless given)")
	f.StringVar(&s.Git.CommitTemplate, "commit-template", "", "commit `message` with {iteration} {timestamp} {tag} {wave} (default of a prompt loop: "+loop.DefaultCommitTemplate+")")
	f.BoolVar(&s.Git.CreateBranch, "create-branch", false, "make a branch at HEAD and work on it")
	f.StringVar(&s.Git.BranchTemplate, "branch-template", "", "its `name`, with the same braces (default "+loop.DefaultBranchTemplate+")")
	f.BoolVar(&s.noCommit, "no-commit", false, "commit nothing")
	f.StringVar(&s.Git.Branch, "branch", "", "make this `branch` at HEAD and work on it")
	f.BoolVar(&s.Git.CostTrailer, "cost-trailer", false, "say in each wave's commit what its tasks cost, as Descartes-Cost")
	s.registerHooks(f)
}

func (s *settings) registerHooks(f *pflag.FlagSet) {
	f.Var(choice{&s.Git.Hooks, "run|skip|fail"}, "hooks", "git hooks at a wave's commit: run, skip or fail")
	f.Var((*secs)(&s.Git.HookTimeout), "hook-timeout", "longest run of a git command with its hooks, filters and signing; 0: any")
}

// load completes the settings that the flags began: environment and file are read, and what they
// say is put below the flags.
func (s *settings) load(f *pflag.FlagSet) (root string, err error) {
	s.anew = asksAnew(f)
	if err := environment(f); err != nil {
		return "", err
	}
	if root, err = findRoot(s.dir); err != nil {
		return "", err
	}
	given := remember(f)
	path, must := s.file, s.file != ""
	if !must {
		path = filepath.Join(root, loop.SettingsFile)
	} else if path, err = filepath.Abs(absolute(s.dir, path)); err != nil {
		return "", err
	}
	s.Config = defaults()
	more, err := readSettings(path, must, &s.Config)
	if err != nil {
		return "", err
	}
	s.commits, s.workDir = more.commits, more.workDir
	if must {
		s.SettingsFile = path
	}
	if more.stateFile != "" {
		s.StateFile, s.stateFile = more.stateFile, absolute(root, more.stateFile)
	}
	if err := replay(f, given); err != nil {
		return "", err
	}
	return root, s.complete(f, root)
}

// complete turns what was typed into what is run.
func (s *settings) complete(f *pflag.FlagSet, root string) error {
	// Paths of the file begin at the project, those of flags where the user is.
	for flag, path := range map[string]*string{"tasks-file": &s.Scud.TasksFile, "plan": &s.Scud.PlanPath, "handoff": &s.Scud.HandoffPath} {
		if f.Changed(flag) {
			*path = inProject(root, s.dirPath(), *path)
		}
	}
	if f.Changed("spec-file") {
		for i, p := range s.Scud.Spec.AdditionalSpecs {
			s.Scud.Spec.AdditionalSpecs[i] = inProject(root, s.dirPath(), p)
		}
	}
	for _, t := range [][2]string{{"commit-template", s.Git.CommitTemplate}, {"branch-template", s.Git.BranchTemplate}} {
		if err := loop.CheckTemplate(t[1]); err != nil {
			return badInput("it may have {iteration} {timestamp} {tag} {wave}", "--%s %w", t[0], err)
		}
	}
	if f.Changed("command") && strings.TrimSpace(s.Command) == "" {
		return badInput("leave it out to run the backend's own program", "--command is empty")
	}
	s.fromPlan(root)
	if s.template != "" {
		b, err := plainfile.Read(root, absolute(s.dirPath(), s.template), maxSettings)
		if err != nil {
			return badInput("", "spec template: %w", err)
		}
		s.Scud.Spec.SpecTemplate = string(b)
	}
	if f.Changed("auto-commit") {
		s.Scud.AutoCommitWaves, s.commits = s.Git.AutoCommit, s.Git.AutoCommit
	}
	if s.noCommit {
		s.Scud.AutoCommitWaves = false
	}
	s.Git.AutoCommit = s.Scud.AutoCommitWaves
	if err := s.completeProviders(f); err != nil {
		return err
	}
	s.WorkingDirectory = root
	return s.completeLimits(f)
}

func (s *settings) completeLimits(f *pflag.FlagSet) error {
	if err := s.promptLimits(f); err != nil {
		return err
	}
	total := &s.Scud.MaxTotalIterations
	if f.Changed("max-iterations") {
		if f.Changed("max-total-iterations") && *total != s.MaxIterations {
			return badInput("", "--max-iterations %d and --max-total-iterations %d mean the same over a tag; give one", s.MaxIterations, *total)
		}
		*total = s.MaxIterations
	}
	if err := atLeastOne(f, "max-total-iterations", *total); err != nil {
		return err
	}
	if n := s.Scud.MaxIterationsPerTask; n < 1 {
		return badInput("", "--max-attempts %d: must be at least 1", n)
	}
	return atLeastOne(f, "max-spec-tokens", s.Scud.Spec.MaxSpecTokens)
}

// promptLimits checks the limits that loops of every kind have.
func (s *settings) promptLimits(f *pflag.FlagSet) error {
	for _, c := range []struct {
		flag string
		usd  float64
	}{{"max-cost", s.MaxCostUSD}, {"max-cost-per-task", s.MaxCostPerTask}} {
		if c.usd < 0 || math.IsNaN(c.usd) || math.IsInf(c.usd, 0) {
			return badInput("", "--%s %g: a sum of dollars is wanted", c.flag, c.usd)
		}
	}
	if s.SpinLimit < 0 {
		return badInput("", "--spin-limit %d: must not be negative", s.SpinLimit)
	}
	if err := s.checkSafety(); err != nil {
		return err
	}
	return atLeastOne(f, "max-iterations", s.MaxIterations)
}

// atLeastOne refuses 0 where a number was given, and always what is below.
func atLeastOne(f *pflag.FlagSet, flag string, n int) error {
	if n < 1 && (f.Changed(flag) || n < 0) {
		return badInput("", "--%s %d: must be at least 1", flag, n)
	}
	return nil
}

// dirPath is the directory in which the user typed paths.
func (s *settings) dirPath() string {
	if dir, err := realDir(s.dir); err == nil {
		return dir
	}
	return s.dir
}

// environment gives the value of DESCARTES_<FLAG> to each flag that was not given. Those that a
// loop sets for its agents are no settings.
func environment(f *pflag.FlagSet) (err error) {
	f.VisitAll(func(fl *pflag.Flag) {
		switch fl.Name {
		case "help", "prompt", "prompt-file", "name", "task", "attempt", "explain":
			return
		}
		name := "DESCARTES_" + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))
		v, ok := os.LookupEnv(name)
		if !ok || v == "" || fl.Changed || err != nil {
			return
		}
		if e := f.Set(fl.Name, v); e != nil {
			err = badInput("", "%s=%q: %w", name, v, e)
		}
	})
	return err
}

// remember keeps the values of the flags that were given.
func remember(f *pflag.FlagSet) map[string][]string {
	given := map[string][]string{}
	f.Visit(func(fl *pflag.Flag) {
		if list, ok := fl.Value.(pflag.SliceValue); ok {
			given[fl.Name] = list.GetSlice()
			return
		}
		given[fl.Name] = []string{fl.Value.String()}
	})
	return given
}

// replay gives the flags their values again.
func replay(f *pflag.FlagSet, given map[string][]string) error {
	for name, values := range given {
		fl := f.Lookup(name)
		if list, ok := fl.Value.(pflag.SliceValue); ok {
			if err := list.Replace(values); err != nil {
				return fmt.Errorf("--%s: %w", name, err)
			}
			continue
		}
		if err := fl.Value.Set(values[0]); err != nil {
			return badInput("", "--%s: %w", name, err)
		}
	}
	return nil
}
