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
	"unicode/utf8"

	"github.com/spf13/cobra"

	"descartes/agent/process"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/mode"
	"descartes/tasks"
	"descartes/tasks/plan"
	"descartes/view"
)

// settings are the settings of a run, and what was derived from them. A flag overrides the environment, which overrides descartes.yaml, which
// overrides the default.
type settings struct {
	config.Settings
	mode       mode.Kind       // of descartes plan, build and prompt
	promptFrom string          // file of a mode's prompt, "" for ours
	verifyFrom string          // where a verify command comes from that nobody gave
	front      []tasks.Finding // what is wrong with the plan's front matter
	file       *config.File    // as it was read
	fileName   string          // of it, in messages
	agents     int             // that were asked for where a prompt loop has one
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

// ofRun are the settings of loop start; ofStart those of a command that only examines a start; ofResume those that may be changed for a resumed loop.
func ofRun(one *config.Setting) bool    { return !one.Is("build") }
func ofStart(one *config.Setting) bool  { return ofRun(one) && !one.Is("run") }
func ofResume(one *config.Setting) bool { return one.Is("resume") }

// typedIn is the first flag of the settings that apply there which was typed, or "".
func (s *settings) typedIn(word string, but ...string) string {
	for _, one := range config.All() {
		if one.Flag != "" && one.Is(word) && !slices.Contains(but, one.Flag) && s.IsTyped(one.Flag) != "" {
			return one.Flag
		}
	}
	return ""
}

// load completes the settings that the flags began.
func (s *settings) load() (root string, err error) {
	if root, err = s.read(); err != nil {
		return "", err
	}
	s.Typed = s.TypedFlags(root, s.dirPath())
	return root, s.complete(root)
}

// read reads the settings file and the environment, which rank below the flags.
func (s *settings) read() (root string, err error) {
	if root, err = findRoot(s.Dir); err != nil {
		return "", err
	}
	path, must := filepath.Join(root, loop.SettingsFile), s.File != ""
	if must {
		if path, err = filepath.Abs(absolute(s.Dir, s.File)); err != nil {
			return "", err
		}
	}
	if s.file, err = config.ReadFile(path, must); err != nil {
		return "", err
	}
	s.file.Name = cmp.Or(s.fileName, view.Relative(root, path))
	if must {
		s.file.SettingsFile = path
	}
	// Paths in the file are relative to the project, those in flags to the user's directory.
	typed := s.dirPath()
	return root, s.Load(s.file, os.Getenv, func(path string) string { return inProject(root, typed, path) })
}

// complete derives the settings that loops of every kind share.
func (s *settings) complete(root string) error {
	for _, t := range [][2]string{{"commit_template", s.Git.CommitTemplate}, {"branch_template", s.Git.BranchTemplate}} {
		if err := config.CheckTemplate(t[1]); err != nil {
			return badInput("it may have {iteration} {timestamp} {tag} {wave}", "git.%s: %w", t[0], err)
		}
	}
	if s.Given("command") && strings.TrimSpace(s.Command) == "" {
		return badInput("leave it out to run the backend's own program", "--command is empty")
	}
	if s.Scud.PlanPath == "" && s.Scud.TasksFile != "" {
		if f, err := loop.OpenTasks(root, s.Scud); err == nil && f.IsPlan() {
			s.Scud.PlanPath = s.Scud.TasksFile
		}
	}
	if err := s.fromPlan(root); err != nil {
		return err
	}
	if err := s.completeProviders(); err != nil {
		return err
	}
	return s.checkSafety()
}

// completeTag derives the settings of a tag loop.
func (s *settings) completeTag(root string) error {
	s.WorkingDirectory = root
	s.VerificationCommand, s.PromptHandoff = "", "" // which share their flags with Scud
	s.Scud.AutoCommitWaves = s.Scud.AutoCommitWaves && !s.NoCommit
	s.Git.AutoCommit = s.Scud.AutoCommitWaves
	total := &s.Scud.MaxTotalIterations
	if s.Given("max-iterations") {
		if s.Given("max-total-iterations") && *total != s.MaxIterations {
			return badInput("", "--max-iterations %d and --max-total-iterations %d mean the same over a tag; give one", s.MaxIterations, *total)
		}
		*total = s.MaxIterations
	}
	if *total < 1 && s.Given("max-total-iterations") {
		return badInput("", "--max-total-iterations %d: must be at least 1", *total)
	}
	return nil
}

// completeProviders sets the default for limits, and refuses what is impossible.
func (s *settings) completeProviders() error {
	given := s.Given("on-limit")
	if s.Given("fallback") && len(s.Fallback) == 0 && !given && s.OnLimit == loop.OnLimitFallback { // taken back
		s.OnLimit = ""
	}
	switch {
	case given:
	case s.CI && len(s.Fallback) == 0:
		s.OnLimit = loop.OnLimitStop
	case s.CI:
		s.OnLimit = loop.OnLimitFallback
		if !s.Given("max_wait") { // a job waits for nobody
			s.MaxWaitSecs = 1
		}
	case len(s.Fallback) > 0 && (s.OnLimit == "" || s.Given("fallback")):
		s.OnLimit = loop.OnLimitFallback
	case s.OnLimit == "":
		s.OnLimit = loop.OnLimitWait
	}
	if s.OnLimit == loop.OnLimitFallback && len(s.Fallback) == 0 {
		return badInput("name a backend with --fallback, e.g. --fallback codex", "--on-limit fallback: there is no backend to fall back to")
	}
	return nil
}

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
		return badInput("4G is four GiB", "max_memory %s: no agent runs in less than 16 MiB", process.Size(s.MaxMemory))
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
func (s *settings) workIn(root string) {
	if s.WorkingDirectory != "" && !s.Given("working-dir") {
		s.WorkingDirectory = absolute(root, s.WorkingDirectory)
		return
	}
	s.WorkingDirectory = s.dirPath()
}

// asksAnew reports whether a person wants the providers asked, whatever is recorded about their quotas: by giving --on-limit again.
func (s *settings) asksAnew() bool { return s.IsTyped("on-limit") != "" }

// isPrompt reports whether the run is a loop over a prompt, and rejects flags that the loop cannot use. What was typed outranks the environment and
// descartes.yaml.
func (s *settings) isPrompt(root string) (bool, error) {
	tag, prompt := s.IsTyped("tag") != "", s.IsTyped("prompt", "prompt-file") != ""
	switch {
	case tag && prompt:
		return false, badInput("put what every task's agent should read into a --spec-file", "--prompt is for a loop over a prompt, not over the tasks of a tag")
	case !prompt && (tag || s.Scud.Tag != "" || s.IsTyped("tasks-file") != ""):
		if name := s.typedIn("prompt"); name != "" {
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
	if name := s.typedIn("tag"); name != "" {
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
				p = view.Relative(root, beside)
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
	found[len(found)-1].Hint = "correct it, or name the tag with --tag"
	return found
}

// defaultIterations is the limit of a prompt loop where none is given.
const defaultIterations = 20

// maxPrompt bounds a prompt in bytes: it is kept in the state file.
const maxPrompt = 16 << 20

// completePrompt turns what was typed into what a prompt loop runs.
func (s *settings) completePrompt(cmd *cobra.Command, root string) error {
	s.Scud = loop.ScudConfig{}
	if s.Command == "" && s.Backend.Type == "" {
		return badInput(`--command "claude -p", or --backend claude`, "which agent? A prompt loop needs --command or --backend")
	}
	s.limitGate()
	if s.MaxIterations == 0 {
		s.MaxIterations = defaultIterations
	}
	if s.MaxIterations > loop.Ceiling {
		return badInput(fmt.Sprintf("start with at most %d; to continue a loop that has reached its limit: loop resume --max-iterations N", loop.Ceiling),
			"--max-iterations %d: a loop is started with at most %d", s.MaxIterations, loop.Ceiling)
	}
	s.workIn(root)
	s.Git.AutoCommit = s.Git.AutoCommit && !s.NoCommit
	s.oneAgent()
	if err := s.readPrompt(cmd, root); err != nil {
		return err
	}
	return s.completeGate(root)
}

// oneAgent takes the number of agents back, which is for tags.
func (s *settings) oneAgent() {
	if s.agents = 0; s.Given("parallel") && s.Parallel > 1 {
		s.agents = s.Parallel
	}
	s.Parallel = 0
}

// readPrompt reads the prompt from where the flags say; - is standard input.
func (s *settings) readPrompt(cmd *cobra.Command, root string) error {
	if s.Given("prompt") && s.Given("prompt-file") {
		return badInput("", "--prompt and --prompt-file are two prompts; give one")
	}
	what, dir := "--prompt", s.dirPath()
	switch {
	case s.Prompt == "-" && s.Given("prompt"), s.PromptFile == "-":
		what = "the prompt on standard input"
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxPrompt+1))
		if err != nil {
			return badInput("", "read the prompt from standard input: %w", err)
		}
		s.Prompt = string(text)
	case s.PromptFile != "" && !s.Given("prompt"):
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
