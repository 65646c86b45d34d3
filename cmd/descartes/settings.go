package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/agent/process"
	"descartes/internal/complete"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/mode"
	"descartes/tasks"
	"descartes/tasks/plan"
	"descartes/verify"
)

// settings are the settings of a run, and what was derived from them. A flag overrides the environment, which overrides descartes.yaml, which
// overrides the default.
type settings struct {
	config.Settings
	mode         mode.Kind              // of descartes plan, build and prompt
	promptFrom   string                 // file of a mode's prompt, "" for ours
	verifyFrom   string                 // where a verify command comes from that nobody gave
	criteriaFrom []string               // where criteria were found that nobody gave
	anew         bool                   // the providers are asked, whatever is known of their quotas
	front        []tasks.Finding        // what is wrong with the plan's front matter
	file         *config.File           // as it was read
	fileName     string                 // of it, in messages
	given        func(flag string) bool // it was typed, or is in the environment
	agents       int                    // that were asked for where a prompt loop has one
	ready        *proc.Ready            // where a run in the background says that it has begun
}

// register binds the flags of those settings; all but a build's if none are named.
func (s *settings) register(cmd *cobra.Command, which func(*config.Setting) bool) {
	s.Settings = config.New()
	s.Bind(cmd.Flags(), which)
}

// ofRun are the settings of loop start; ofStart those of a command that only examines a start; ofResume those that may be changed for a resumed loop.
func ofRun(one *config.Setting) bool    { return !one.Is("build") }
func ofStart(one *config.Setting) bool  { return ofRun(one) && !one.Is("run") }
func ofResume(one *config.Setting) bool { return one.Is("resume") }

// flagsIn are the flags of the settings that apply there.
func flagsIn(word string) (names []string) {
	for _, one := range config.All() {
		if one.Flag != "" && one.Is(word) {
			names = append(names, one.Flag)
		}
	}
	return names
}

// load completes the settings that the flags began.
func (s *settings) load(f *pflag.FlagSet) (root string, err error) {
	if root, err = findRoot(s.Dir); err != nil {
		return "", err
	}
	given := config.TypedIn(f, root, s.dirPath())
	if root, err = s.read(f); err != nil {
		return "", err
	}
	s.Typed = given
	return root, s.complete(f, root)
}

// read reads the environment and the settings file, which rank below the flags.
func (s *settings) read(f *pflag.FlagSet) (root string, err error) {
	s.anew, s.given = asksAnew(f), f.Changed
	if err := environment(f); err != nil {
		return "", err
	}
	if root, err = findRoot(s.Dir); err != nil {
		return "", err
	}
	path, must := filepath.Join(root, loop.SettingsFile), s.File != ""
	if must {
		if path, err = filepath.Abs(absolute(s.Dir, s.File)); err != nil {
			return "", err
		}
	}
	file, err := config.ReadFile(path, must)
	if err != nil {
		return "", err
	}
	s.file, s.fileName = file, cmp.Or(s.fileName, report.Relative(root, path))
	if file.Lines["git.auto_commit"] > 0 && file.Lines["scud.auto_commit_waves"] == 0 {
		file.Scud.AutoCommitWaves = file.Git.AutoCommit
	}
	if must {
		file.SettingsFile = path
	}
	// Paths in the file are relative to the project, those in flags to the user's directory.
	typed := s.dirPath()
	return root, s.Over(f, file.Config, func(path string) string { return inProject(root, typed, path) })
}

// environment reads the variables of the flags that were not given. Those that a loop sets for its agents are no settings.
func environment(f *pflag.FlagSet) error {
	return config.Environment(f, "help", "prompt", "prompt-file", "name", "task", "attempt", "explain")
}

// complete derives the settings that loops of every kind share.
func (s *settings) complete(f *pflag.FlagSet, root string) error {
	for _, t := range [][2]string{{"commit-template", s.Git.CommitTemplate}, {"branch-template", s.Git.BranchTemplate}} {
		if err := config.CheckTemplate(t[1]); err != nil {
			return badInput("it may have {iteration} {timestamp} {tag} {wave}", "--%s %w", t[0], err)
		}
	}
	if f.Changed("command") && strings.TrimSpace(s.Command) == "" {
		return badInput("leave it out to run the backend's own program", "--command is empty")
	}
	if err := s.fromPlan(root); err != nil {
		return err
	}
	if s.Template != "" {
		b, err := plainfile.Read(root, absolute(s.dirPath(), s.Template), config.MaxFile)
		if err != nil {
			return badInput("", "spec template: %w", err)
		}
		s.Scud.Spec.SpecTemplate = string(b)
	}
	if err := s.completeProviders(f); err != nil {
		return err
	}
	return s.checkSafety()
}

// completeTag derives the settings of a tag loop.
func (s *settings) completeTag(f *pflag.FlagSet, root string) error {
	s.WorkingDirectory = root
	s.VerificationCommand, s.PromptHandoff = "", "" // which share their flags with Scud
	s.Scud.AutoCommitWaves = s.Scud.AutoCommitWaves && !s.NoCommit
	s.Git.AutoCommit = s.Scud.AutoCommitWaves
	total := &s.Scud.MaxTotalIterations
	if f.Changed("max-iterations") {
		if f.Changed("max-total-iterations") && *total != s.MaxIterations {
			return badInput("", "--max-iterations %d and --max-total-iterations %d mean the same over a tag; give one", s.MaxIterations, *total)
		}
		*total = s.MaxIterations
	}
	if *total < 1 && f.Changed("max-total-iterations") {
		return badInput("", "--max-total-iterations %d: must be at least 1", *total)
	}
	return nil
}

// completeProviders sets the default for limits, and refuses what is impossible.
func (s *settings) completeProviders(f *pflag.FlagSet) error {
	given := f.Changed("on-limit")
	if f.Changed("fallback") && len(s.Fallback) == 0 && !given && s.OnLimit == loop.OnLimitFallback { // taken back
		s.OnLimit = ""
	}
	switch {
	case given:
	case s.CI && len(s.Fallback) == 0:
		s.OnLimit = loop.OnLimitStop
	case s.CI:
		s.OnLimit = loop.OnLimitFallback
		if !f.Changed("max-wait") { // a job waits for nobody
			s.MaxWaitSecs = 1
		}
	case len(s.Fallback) > 0 && (s.OnLimit == "" || f.Changed("fallback")):
		s.OnLimit = loop.OnLimitFallback
	case s.OnLimit == "":
		s.OnLimit = loop.OnLimitWait
	}
	if s.OnLimit == loop.OnLimitFallback && len(s.Fallback) == 0 {
		return badInput("name a backend with --fallback, e.g. --fallback codex", "--on-limit fallback: there is no backend to fall back to")
	}
	return nil
}

// asksAnew reports whether a person wants the providers asked, whatever is recorded about their quotas: by giving --on-limit again. Call it before
// the environment is read.
func asksAnew(f *pflag.FlagSet) bool { return f.Changed("on-limit") }

// checkSafety rejects unknown words, wherever they come from.
func (s *settings) checkSafety() error {
	for _, word := range s.EnvPass {
		if !sandbox.ValidPass(word) {
			return badInput("give names only, as in --env-pass DATABASE_URL,MYAPP_*; values go under backend.environment in descartes.yaml",
				"--env-pass %q is not the name of a variable", word)
		}
	}
	for _, word := range s.SandboxDomains {
		if !sandbox.ValidHost(word) {
			return badInput("write example.org, *.example.org, or an address; with a port as example.org:8443", "sandbox_domains: %q is not a host", word)
		}
	}
	if 0 < s.MaxMemory && s.MaxMemory < 16<<20 {
		return badInput("4G is four GiB", "--max-memory %s: no agent runs in less than 16 MiB", process.Size(s.MaxMemory))
	}
	return nil
}

// dirPath is the directory that typed paths are relative to.
func (s *settings) dirPath() string {
	if dir, err := realDir(s.Dir); err == nil {
		return dir
	}
	return s.Dir
}

// workIn is where the agent works: --working-dir, that setting, or here.
func (s *settings) workIn(f *pflag.FlagSet, root string) {
	if s.WorkingDirectory != "" && !f.Changed("working-dir") {
		s.WorkingDirectory = absolute(root, s.WorkingDirectory)
		return
	}
	s.WorkingDirectory = s.dirPath()
}

// typedFlags are the flags typed for a start, which decide between a tag loop and a prompt loop. They outrank the environment and descartes.yaml.
type typedFlags struct{ flags []string }

func typed(f *pflag.FlagSet) (a typedFlags) {
	f.Visit(func(fl *pflag.Flag) { a.flags = append(a.flags, fl.Name) })
	return a
}

// any returns the first of these flags that was typed, or "".
func (a typedFlags) any(flags ...string) string {
	for _, name := range a.flags {
		if slices.Contains(flags, name) {
			return name
		}
	}
	return ""
}

// prompt completes the decision with the settings, and rejects flags that the loop cannot use.
func (a typedFlags) prompt(s *settings, root string) (bool, error) {
	tag, prompt := a.any("scud-tag") != "", a.any("prompt", "prompt-file") != ""
	switch {
	case tag && prompt:
		return false, badInput("put what every task's agent should read into a --spec-file", "--prompt is for a loop over a prompt, not over the tasks of a tag")
	case !prompt && (tag || s.Scud.Tag != "" || a.any("tasks-file") != ""):
		if name := a.any(flagsIn("prompt")...); name != "" {
			return false, badInput("each attempt at a task is a fresh agent", "--%s is for a loop over a prompt, not over the tasks of a tag", name)
		}
		return false, nil
	case !prompt && s.Prompt == "":
		if err := s.frontProblem(); err != nil {
			return false, err
		}
		hint := "descartes tasks list shows the tags"
		if len(tasks.Known(root)) == 0 {
			hint = hintOfTasks(root)
		}
		return false, badInput(hint, "what should run? Neither a task list nor a prompt was given")
	}
	if name := a.any(flagsIn("tag")...); name != "" {
		return false, badInput("descartes run --help", "--%s is for a loop over the tasks of a tag, not over a prompt", name)
	}
	return true, nil
}

// fromPlan takes what is not set elsewhere from the plan's front matter. An unreadable plan is reported when it is loaded.
func (s *settings) fromPlan(root string) error {
	c := &s.Scud
	if c.PlanPath == "" {
		return nil
	}
	text, err := loop.PlanText(root, c.PlanPath)
	if err != nil {
		return nil
	}
	var front plan.FrontMatter
	front, s.front = plan.ReadFrontMatter([]byte(text))
	if c.Tag == "" {
		c.Tag = front.Tag
	}
	if c.VerificationCommand == "" && len(s.Checks) == 0 && front.Verify != "" {
		c.VerificationCommand, s.verifyFrom = front.Verify, "front matter of "+c.PlanPath
	}
	if len(c.Spec.AdditionalSpecs) > 0 {
		return nil
	}
	for _, p := range front.SpecFiles {
		// As in descartes.yaml, a path is relative to the project; one beside the plan is found too.
		if beside := filepath.Join(filepath.Dir(absolute(root, c.PlanPath)), p); !filepath.IsAbs(p) {
			_, here := os.Stat(filepath.Join(root, p))
			if _, err := os.Stat(beside); err == nil && here != nil {
				p = report.Relative(root, beside)
			}
		}
		if config.Leaves(root, p) && !config.Leaves(root, c.PlanPath) {
			return badInput("--spec-file "+terminal.Quote(p)+" adds it", "%s: spec_files: %s is not in the project", c.PlanPath, p)
		}
		c.Spec.AdditionalSpecs = append(c.Spec.AdditionalSpecs, p)
	}
	return nil
}

// frontProblem says what is wrong with the plan's front matter, where the tag was to come from there.
func (s *settings) frontProblem() error {
	if s.Scud.Tag != "" || len(s.front) == 0 {
		return nil
	}
	var found problems
	for _, f := range s.front {
		found = append(found, loop.Problem{Message: placed(s.Scud.PlanPath, f)})
	}
	found[len(found)-1].Hint = "correct it, or name the tag with --scud-tag"
	return found
}

// defaultIterations is the limit of a prompt loop where none is given.
const defaultIterations = 20

// maxPrompt bounds a prompt in bytes: it is kept in the state file.
const maxPrompt = 16 << 20

// completePrompt turns what was typed into what a prompt loop runs.
func (s *settings) completePrompt(cmd *cobra.Command, root string) error {
	f := cmd.Flags()
	s.Scud = loop.ScudConfig{}
	if s.Command == "" && s.Backend.Type == "" {
		return badInput(`--command "claude -p", or --backend claude`, "which agent? A prompt loop needs --command or --backend")
	}
	s.limitGate(f)
	if s.MaxIterations == 0 {
		s.MaxIterations = defaultIterations
	}
	if s.MaxIterations > loop.Ceiling {
		return badInput(fmt.Sprintf("start with at most %d; to continue a loop that has reached its limit: loop resume --max-iterations N", loop.Ceiling),
			"--max-iterations %d: a loop is started with at most %d", s.MaxIterations, loop.Ceiling)
	}
	if f.Changed("isolated") && f.Changed("continue") && s.Isolated && s.ContinueSession {
		return badInput("", "--isolated and --continue are opposites; give one")
	}
	if f.Changed("isolated") {
		s.ContinueSession = !s.Isolated
	}
	s.workIn(f, root)
	s.Git.AutoCommit = s.Git.AutoCommit && !s.NoCommit
	s.oneAgent(f)
	if err := s.readPrompt(cmd, root); err != nil {
		return err
	}
	return s.completeGate(f, root)
}

// oneAgent takes the number of agents back, which is for tags.
func (s *settings) oneAgent(f *pflag.FlagSet) {
	if s.agents = 0; f.Changed("parallel") && s.Parallel > 1 {
		s.agents = s.Parallel
	}
	s.Parallel = 0
}

// readPrompt reads the prompt from where the flags say; - is standard input.
func (s *settings) readPrompt(cmd *cobra.Command, root string) error {
	f := cmd.Flags()
	if f.Changed("prompt") && f.Changed("prompt-file") {
		return badInput("", "--prompt and --prompt-file are two prompts; give one")
	}
	what, dir := "--prompt", s.dirPath()
	switch {
	case s.Prompt == "-" && f.Changed("prompt"), s.PromptFile == "-":
		what = "the prompt on standard input"
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxPrompt+1))
		if err != nil {
			return badInput("", "read the prompt from standard input: %w", err)
		}
		s.Prompt = string(text)
	case s.PromptFile != "" && !f.Changed("prompt"):
		what = "prompt file " + s.PromptFile
		text, err := readPromptFile(dir, absolute(dir, s.PromptFile))
		if err != nil {
			return badInput("", "%s: %w", what, err)
		}
		s.Prompt = text
	}
	return checkPrompt(what, s.Prompt)
}

func readPromptFile(root, path string) (string, error) {
	b, err := plainfile.Read(root, path, maxPrompt)
	var refused *plainfile.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("no such file")
	case errors.As(err, &refused):
		return "", errors.New("it " + refused.Reason)
	}
	return string(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))), err
}

func checkPrompt(what, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return badInput("say what the agent should do", "%s is empty", what)
	case len(text) > maxPrompt:
		return badInput("", "%s is larger than %s", what, size(maxPrompt))
	case !utf8.ValidString(text):
		return badInput("", "%s is not UTF-8 text", what)
	case strings.IndexByte(text, 0) >= 0:
		return badInput("", "%s is not text: it contains a NUL byte", what)
	}
	return nil
}

func newConfigCmd() *cobra.Command {
	cmd := newGroup("config", "Show the settings")
	cmd.AddCommand(newConfigShowCmd(), newConfigSchemaCmd())
	return cmd
}

func newConfigSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of descartes.yaml",
		Long: `Print the JSON Schema of descartes.yaml, with which an editor completes and checks it.

  descartes config schema > .descartes.schema.json

and as the first line of descartes.yaml, for editors with a YAML language server:

  # yaml-language-server: $schema=.descartes.schema.json`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return writeJSON(cmd.OutOrStdout(), config.Schema()) },
	}
}

func newConfigShowCmd() *cobra.Command {
	s := &settings{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [key]",
		Short: "Print each setting and where its value comes from",
		Long: `Print each setting and where its value comes from: a flag, DESCARTES_<FLAG> in the environment, descartes.yaml,
or the default; the first of these that has it counts. It takes the flags of loop start. A key, or the beginning of
one like "git.", prints only what it names.`,
		Args:              takes(0, 1, "at most one key"),
		ValidArgsFunction: complete.Settings(),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := s.show(cmd.Flags())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if list = named(list, args[0]); len(list) == 0 {
					return badInput("descartes config show lists them", "there is no setting %q", args[0])
				}
			}
			w := redact.Of(s.Secrets(os.Environ())).Writer(cmd.OutOrStdout())
			if asJSON {
				err = writeJSON(w, list)
			} else {
				err = write(w, settingTable(list))
			}
			return errors.Join(err, w.Flush())
		},
	}
	s.register(cmd, ofStart)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the settings as JSON")
	return cmd
}

// show lists all settings as a run would have them.
func (s *settings) show(f *pflag.FlagSet) ([]config.Value, error) {
	typed := typed(f)
	root, err := s.load(f)
	if err != nil {
		return nil, err
	}
	s.workIn(f, root)
	s.Git.AutoCommit = s.Git.AutoCommit && !s.NoCommit
	s.Scud.AutoCommitWaves = s.Scud.AutoCommitWaves && !s.NoCommit
	s.Fill()
	if _, backend, err := config.ResolveBackend(s.Config); err == nil {
		s.Backend = backend
	}
	return s.Show(f, typed.flags, s.fileName, s.file.Lines), nil
}

// named are the settings of that key, or that begin so.
func named(list []config.Value, key string) (out []config.Value) {
	for _, one := range list {
		if one.Key == key || strings.HasPrefix(one.Key, strings.TrimSuffix(key, ".")+".") {
			out = append(out, one)
		}
	}
	return out
}

func settingTable(list []config.Value) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Key, terminal.Fit(terminal.Clean(one.Text()), 60), terminal.Clean(cmp.Or(one.From, one.Source)))
	}
	w.Flush() // into memory
	return b.String()
}

// criteriaIterations and criteriaCost are the limits of a criteria loop where none is given.
const (
	criteriaIterations = 10
	criteriaCost       = 25
)

// limitGate gives a criteria loop its limits, before those of other loops are chosen.
func (s *settings) limitGate(f *pflag.FlagSet) {
	if s.Gate == "" && len(s.Criterion) > 0 {
		s.Gate = loop.GateCriteria
	}
	if s.Gate != loop.GateCriteria {
		return
	}
	if s.MaxIterations == 0 {
		s.MaxIterations = criteriaIterations
	}
	if s.MaxCostUSD == 0 && !f.Changed("max-cost") {
		s.MaxCostUSD = criteriaCost
	}
}

// completeGate reads what the gate is made of.
func (s *settings) completeGate(f *pflag.FlagSet, root string) error {
	if s.Gate != loop.GateCriteria {
		if name := firstChanged(f, "criterion", "shape-file", "shape", "reversibility", "precheck", "loop-state"); name != "" {
			return badInput("add --gate criteria", "--%s is for a loop with the criteria gate", name)
		}
		s.Criteria, s.MustNot, s.Precheck = nil, nil, ""
	}
	if f.Changed("completion-promise") && s.Gate != "" && s.Gate != loop.GatePromise {
		return badInput("leave one of them out", "--completion-promise is for the promise gate; with --gate %s the promise ends nothing", s.Gate)
	}
	switch s.Gate {
	case loop.GateStatus:
		return s.completeStatus(f, root)
	case loop.GateCriteria:
		return s.completeCriteria(f, root)
	}
	return nil
}

// noGate refuses what a prompt that is run once has no use for.
func noGate(f *pflag.FlagSet) error {
	if name := firstChanged(f, flagsIn("gate")...); name != "" {
		return badInput("descartes loop start --prompt-file repeats a prompt until a gate ends it", "descartes prompt does not take --%s: it runs its prompt once", name)
	}
	return nil
}

// gateOfTag refuses what only loops over a prompt have. It looks at what was typed, before the environment is read.
func gateOfTag(f *pflag.FlagSet, but ...string) error {
	names := slices.DeleteFunc(flagsIn("gate"), func(name string) bool { return slices.Contains(but, name) })
	if name := firstChanged(f, names...); name != "" {
		return badInput("leave it out: the verify command decides about each task", "--%s is for loops over a prompt, not over the tasks of a tag", name)
	}
	return nil
}

// firstChanged is the first of some flags that was given, "" for none.
func firstChanged(f *pflag.FlagSet, names ...string) string {
	for _, name := range names {
		if f.Changed(name) {
			return name
		}
	}
	return ""
}

// completeStatus finds the command that shows that tests pass, where a prompt loop is given none.
func (s *settings) completeStatus(f *pflag.FlagSet, root string) error {
	if s.mode == mode.Plan {
		return badInput("leave --gate out: a plan ends when its agent has nothing to add", "--gate status is for building: a plan is made of items that are not checked off")
	}
	if s.mode != "" || s.VerificationCommand != "" || len(s.Checks) > 0 || f.Changed("verify") {
		return nil
	}
	if cmd, why, ok := verify.Detect(cmp.Or(s.WorkingDirectory, root)); ok {
		s.VerificationCommand, s.verifyFrom = cmd, why
	}
	return nil
}

func (s *settings) completeCriteria(f *pflag.FlagSet, root string) error {
	if len(s.Criterion) > 0 {
		list, err := gate.ParseCriteria(s.Criterion)
		if err != nil {
			return badInput(`--criterion "tests pass :: make test"`, "%w", err)
		}
		s.Criteria = list
	}
	if err := s.readShape(root); err != nil {
		return err
	}
	if s.Reversibility != "" {
		class, err := gate.ParseReversibility(s.Reversibility)
		if err != nil {
			return badInput("", "--%w", err)
		}
		s.Reversibility = string(class)
	}
	if f.Changed("precheck") && strings.TrimSpace(s.Precheck) == "" {
		return badInput("leave it out, or give a command", "--precheck is empty")
	}
	if len(s.Criteria) == 0 {
		return badInput(`--criterion "tests pass :: make test", criteria: in descartes.yaml, or a SHAPE.md with a section criteria`, "a loop with the criteria gate needs at least one criterion")
	}
	return nil
}

// readShape adds what a SHAPE.md asks for: criteria of other names than those that were given, how criteria
// are verified, and what must not be.
func (s *settings) readShape(root string) error {
	var names []string
	for _, dir := range slices.Compact([]string{cmp.Or(s.WorkingDirectory, root), root}) {
		names = append(names, filepath.Join(dir, ".loop", "shape", "SHAPE.md"), filepath.Join(dir, "SHAPE.md"))
	}
	if s.ShapeFile != "" {
		names = []string{absolute(s.dirPath(), s.ShapeFile)}
	}
	for _, name := range names {
		text, err := readPromptFile(root, name)
		if _, serr := os.Stat(name); errors.Is(serr, fs.ErrNotExist) && s.ShapeFile == "" {
			continue
		}
		if err != nil {
			return badInput("", "shape file %s: %w", report.Relative(root, name), err)
		}
		a, err := gate.ParseShape(text)
		if err != nil {
			return badInput("", "%s %s", report.Relative(root, name), strings.TrimPrefix(err.Error(), "SHAPE.md "))
		}
		s.Criteria, s.MustNot = addCriteria(s.Criteria, a.Criteria), addCriteria(s.MustNot, a.MustNot)
		s.criteriaFrom = append(s.criteriaFrom, report.Relative(root, name))
		return nil
	}
	return nil
}

// addCriteria adds those of more whose names the list does not have. A criterion of the same name gives what
// is not known yet: how it is verified.
func addCriteria(list, more []gate.Criterion) []gate.Criterion {
	for _, m := range more {
		at := -1
		for i := range list {
			if gate.CheckCriteria([]gate.Criterion{list[i], m}) != nil {
				at = i
			}
		}
		if at < 0 {
			list = append(list, m)
			continue
		}
		list[at].Verification = cmp.Or(list[at].Verification, m.Verification)
		list[at].Command = cmp.Or(list[at].Command, m.Command)
	}
	return list
}
