package launch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"descartes/config"
	"descartes/internal/plainfile"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/mode"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/tasks/front"
	"descartes/verify"
)

// Limits where none is given: of the iterations of a prompt loop, of a plan, a build or a criteria loop, and of what a
// criteria loop costs in dollars.
const (
	PromptIterations = 20
	modeIterations   = 10
	criteriaCost     = 25
)

// maxPrompt bounds a prompt in bytes: it is kept in the state file.
const maxPrompt = 16 << 20

// FromPlan takes what is not set elsewhere from the plan's front matter, and returns where a verify command comes from
// then. An unreadable plan is reported when it is loaded.
func FromPlan(s *config.Settings, root string) (verifyFrom string, findings []tasks.Finding, err error) {
	c := &s.Scud
	if c.PlanPath == "" && c.TasksFile != "" {
		if f, err := source.OpenTasks(root, *c); err == nil && f.IsPlan() {
			c.PlanPath = c.TasksFile
		}
	}
	text, err := source.PlanText(root, c.PlanPath)
	if c.PlanPath == "" || err != nil {
		return "", nil, nil
	}
	matter, findings := front.Read([]byte(text))
	c.Tag = cmp.Or(c.Tag, matter.Tag)
	if c.VerificationCommand == "" && len(s.Checks) == 0 && matter.Verify != "" {
		c.VerificationCommand, verifyFrom = matter.Verify, "front matter of "+c.PlanPath
	}
	if len(c.Spec.AdditionalSpecs) > 0 {
		return verifyFrom, findings, nil
	}
	for _, p := range matter.SpecFiles {
		// As in descartes.yaml, a path is relative to the project; one beside the plan is found too.
		if beside := filepath.Join(filepath.Dir(Absolute(root, c.PlanPath)), p); !filepath.IsAbs(p) {
			_, here := os.Stat(filepath.Join(root, p))
			if _, err := os.Stat(beside); err == nil && here != nil {
				p = store.Relative(root, beside)
			}
		}
		if config.Leaves(root, p) && !config.Leaves(root, c.PlanPath) {
			return "", nil, config.Wrong("--spec-file "+terminal.Quote(p)+" adds it",
				"%s: spec_files: %s is not in the project", c.PlanPath, p)
		}
		c.Spec.AdditionalSpecs = append(c.Spec.AdditionalSpecs, p)
	}
	return verifyFrom, findings, nil
}

// settle completes the settings for this kind of run, with the documents that they name.
func (r *Run) settle(ctx context.Context) error {
	s := r.Settings
	if r.Kind == store.KindTag {
		return r.settleTag()
	}
	s.AgentTypes = nil // there are no tasks that could have one
	if s.Parallel > 1 && s.Given("parallel") {
		r.note("-j %d: the iterations of a prompt follow each other, so one agent works at a time, in one copy of the project", s.Parallel)
	}
	s.Parallel = 0
	if r.resumes() {
		r.promptFrom = "its prompt"
		return checkPrompt("the prompt in "+store.Relative(r.Root, r.Options.Resume), s.Prompt)
	}
	command, checks, scud := s.Scud.VerificationCommand, s.Checks, s.Scud
	s.Scud = config.ScudConfig{}
	if s.WorkingDirectory == "" || s.Given("working-dir") {
		s.WorkingDirectory = r.Dir
	}
	s.WorkingDirectory = Absolute(r.Root, s.WorkingDirectory)
	if r.Kind == store.KindPrompt && r.Once == "" {
		if s.Command == "" && s.Backend.Type == "" {
			return config.Wrong(`--command "claude -p", or --backend claude`,
				"which agent? A prompt loop needs --command or --backend")
		}
		if err := r.limit(PromptIterations); err != nil {
			return err
		}
		if err := r.readPrompt(); err != nil {
			return err
		}
		return r.settleGate()
	}
	// Plan, specs and tests are the project's, and so is the work.
	s.Scud = config.ScudConfig{MaxIterationsPerTask: scud.MaxIterationsPerTask, UseSubAgents: scud.UseSubAgents,
		Spec: config.SpecConfig{MaxSpecTokens: scud.Spec.MaxSpecTokens}}
	s.Checks, s.VerificationCommand = nil, ""
	s.WorkingDirectory, s.Git.AutoCommit = r.Root, !s.NoCommit
	if r.Once != "" {
		return r.readOnce()
	}
	return r.settleMode(ctx, command, checks)
}

// settleTag completes the settings of a run over a tag.
func (r *Run) settleTag() error {
	s := r.Settings
	but := []string{}
	if !r.Anew {
		but = append(but, "yes") // which answers the review of a wave, too
	}
	if name := s.TypedFor("gate", but...); name != "" {
		return config.Wrong("leave it out: the verify command decides about each task",
			"--%s is for runs over a prompt, not over the tasks of a tag", name)
	}
	if s.Given("completion-promise") {
		r.Warnings = append(r.Warnings,
			"--completion-promise is for runs over a prompt: a task's agent reports with <promise>COMPLETE</promise> or TASK_COMPLETE")
	}
	s.WorkingDirectory = r.Root
	s.VerificationCommand, s.PromptHandoff = "", "" // which share their flags with Scud
	s.Git.AutoCommit = s.Scud.AutoCommitWaves
	if s.Given("max-iterations") { // which is the same over a tag
		s.Scud.MaxTotalIterations = s.MaxIterations
	}
	return nil
}

// limit chooses the gate and the limits that go with it.
func (r *Run) limit(usual int) error {
	s := r.Settings
	if s.Gate == "" && s.Given("criterion") {
		s.Gate = loop.GateCriteria
	}
	if s.Gate == loop.GateCriteria {
		usual = modeIterations
		if s.MaxCostUSD == 0 && !s.Given("max-cost") {
			s.MaxCostUSD = criteriaCost
		}
	}
	if s.MaxIterations = cmp.Or(s.MaxIterations, usual); s.MaxIterations > config.Ceiling {
		return config.Wrong(fmt.Sprintf(
			"start with at most %d; to continue a run that has reached its limit: descartes resume --max-iterations N",
			config.Ceiling),
			"--max-iterations %d: a run is started with at most %d", s.MaxIterations, config.Ceiling)
	}
	return nil
}

// readPrompt reads the prompt from where the flags say; - is standard input.
func (r *Run) readPrompt() error {
	s, what := r.Settings, "--prompt"
	switch {
	case s.Given("prompt") && s.Given("prompt-file"):
		return config.Wrong("", "--prompt and --prompt-file are two prompts; give one")
	case s.Prompt == "-" && s.Given("prompt"), s.PromptFile == "-":
		what = "the prompt on standard input"
		text, err := io.ReadAll(io.LimitReader(r.Stdin, maxPrompt+1))
		if err != nil {
			return config.Wrong("", "read the prompt from standard input: %w", err)
		}
		s.Prompt = string(text)
	case s.PromptFile != "" && !s.Given("prompt"):
		what = "prompt file " + s.PromptFile
		text, err := ReadText(r.Dir, Absolute(r.Dir, s.PromptFile), maxPrompt)
		if err != nil {
			return config.Wrong("", "%s: %w", what, err)
		}
		s.Prompt, r.brought = string(text), []string{Absolute(r.Dir, s.PromptFile)}
	}
	if err := checkPrompt(what, s.Prompt); err != nil {
		return err
	}
	if s.Promised() && s.CompletionPromise != "" && !strings.Contains(s.Prompt, s.CompletionPromise) {
		if s.IterationContext && s.MaxIterations > 1 {
			r.note("the prompt does not name <promise>%s</promise>: the agent learns of it from its second iteration on", s.CompletionPromise)
		} else {
			r.note("nothing tells the agent what ends the run: name <promise>%s</promise> in the prompt",
				s.CompletionPromise)
		}
	}
	return nil
}

// ReadText reads a file that a person named, without a byte order mark.
func ReadText(root, path string, most int64) ([]byte, error) {
	b, err := plainfile.Read(root, path, most)
	var refused *plainfile.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("no such file")
	case errors.As(err, &refused):
		err = errors.New("it " + refused.Reason)
	}
	return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), err
}

func checkPrompt(what, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return config.Wrong("say what the agent should do", "%s is empty", what)
	case len(text) > maxPrompt:
		return config.Wrong("", "%s is larger than %d MiB", what, maxPrompt>>20)
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return config.Wrong("", "%s is not UTF-8 text", what)
	}
	return nil
}

// readOnce reads the file of a prompt that runs once.
func (r *Run) readOnce() error {
	s, path := r.Settings, Absolute(r.Dir, r.Once)
	text, err := mode.ReadPrompt(r.Root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return config.Wrong("", "prompt file %s: no such file", r.Once)
	}
	if err != nil {
		return config.Wrong("", "%w", err)
	}
	run := &mode.Run{Kind: mode.Prompt, Project: mode.Open(r.Root), Shown: ".", Text: text, Now: time.Now}
	r.promptFrom, r.brought = store.Relative(r.Root, path), []string{path}
	s.Prompt, s.Git.CommitTemplate = run.Once(), run.OnceSubject()
	// nobody judges it
	s.MaxIterations, s.CompletionPromise, s.Gate, s.Review, s.IterationContext = 1, "", "", config.ReviewConfig{},
		false
	return nil
}

// settleMode completes the settings of a plan or a build. command and checks are those that were given.
func (r *Run) settleMode(ctx context.Context, command string, checks []verify.Check) (err error) {
	s, kind := r.Settings, mode.Kind(r.Kind)
	if err := r.limit(modeIterations); err != nil {
		return err
	}
	if s.CompletionPromise == "" {
		return config.Wrong("leave it out: the default is COMPLETE",
			"--completion-promise is empty: nothing would end a %s but its limit", kind)
	}
	if s.Prompt, r.promptFrom, err = mode.Text(r.Root, kind); err != nil {
		return config.Wrong("", "%w", err)
	}
	project := mode.Open(r.Root)
	r.brought = []string{project.Plan, "specs", r.promptFrom}
	if err := r.settleGate(); err != nil || kind == mode.Plan {
		return err
	}
	if s.Replan {
		if s.PlanPrompt, _, err = mode.Text(r.Root, mode.Plan); err != nil {
			return config.Wrong("", "%w", err)
		}
	}
	switch plan, err := project.ReadPlan(); {
	case err != nil:
		return config.Wrong("", "%w", err)
	case plan == nil && !s.Replan:
		return config.Wrong("descartes plan"+s.Typed.String(),
			"Implementation plan not found. Run 'descartes plan' first.")
	}
	// A typed command counts, then several checks of descartes.yaml, then AGENTS.md, then one check of descartes.yaml.
	s.VerificationCommand, s.Checks = command, checks
	if s.Given("verify") || len(checks) > 0 && checks[0].Name != "" && command == "" {
		return nil
	}
	if found := r.testCommand(ctx, project); found != "" {
		s.VerificationCommand, s.Checks, r.VerifyFrom = found, nil, "AGENTS.md"
		return nil
	}
	if command != "" || len(checks) > 0 {
		return nil
	}
	var ok bool
	if s.VerificationCommand, r.VerifyFrom, ok = verify.Detect(r.Root); !ok {
		return config.Wrong(`write a line "Test: make test" into AGENTS.md, or give --verify "make test"; --verify none tests nothing`, "no test command: AGENTS.md gives none, and none was found from the project's files")
	}
	return nil
}

// testCommand is that of AGENTS.md, if HEAD has it too: what an agent or a person has only written into the file
// chooses no check.
func (r *Run) testCommand(ctx context.Context, project mode.Project) string {
	found, path := project.TestCommand(), filepath.Join(r.Root, "AGENTS.md")
	repo, err := OpenRepo(ctx, r.Root, r.Config, nil)
	if found == "" || err != nil { // openRepo says why
		return ""
	}
	defer repo.Close()
	head, err := repo.Head(ctx)
	at := func(path string) string {
		rel, _ := Below(repo.Root(), path)
		b, ferr := repo.FileAt(ctx, head.Hash, rel, maxPrompt)
		err = cmp.Or(err, ferr)
		return string(b)
	}
	real, _ := filepath.EvalSymlinks(path)
	if link, lerr := os.Readlink(path); lerr == nil && at(path) != link || mode.TestCommand(at(real)) != found ||
		err != nil {
		r.note("AGENTS.md gives the test command %q, and does not count: its last commit does not have that", found)
		return ""
	}
	return found
}

// settleGate reads what the gate is made of.
func (r *Run) settleGate() error {
	s := r.Settings
	if s.Gate != loop.GateCriteria {
		if name := s.IsTyped("criterion", "shape_file", "shape", "reversibility", "precheck",
			"loop_state"); name != "" {
			return config.Wrong("add --gate criteria", "%s is for a run with the criteria gate", name)
		}
		s.Criteria, s.MustNot, s.Precheck = nil, nil, ""
	}
	switch {
	case s.Given("completion-promise") && s.Gate != "" && s.Gate != loop.GatePromise:
		return config.Wrong("leave one of them out",
			"--completion-promise is for the promise gate; with --gate %s the promise ends nothing", s.Gate)
	case s.Gate == loop.GateStatus && r.Kind == store.KindPlan:
		return config.Wrong("leave --gate out: a plan ends when its agent has nothing to add",
			"--gate status is for building: a plan is made of items that are not checked off")
	case s.Gate == loop.GateStatus && r.Kind == store.KindPrompt && s.VerificationCommand == "" &&
		len(s.Checks) == 0 && !s.Given("verify"):
		s.VerificationCommand, r.VerifyFrom, _ = verify.Detect(s.WorkingDirectory)
	case s.Gate == loop.GateCriteria:
		return r.settleCriteria()
	}
	return nil
}

// settleCriteria reads the criteria, and adds those of a SHAPE.md.
func (r *Run) settleCriteria() error {
	s := r.Settings
	names := []string{Absolute(r.Dir, s.ShapeFile)}
	if s.ShapeFile == "" {
		names = nil
		for _, dir := range []string{s.WorkingDirectory, r.Root} {
			names = append(names, filepath.Join(dir, ".loop", "shape", "SHAPE.md"), filepath.Join(dir, "SHAPE.md"))
		}
	}
	for _, name := range names {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) && s.ShapeFile == "" {
			continue
		}
		text, err := ReadText(r.Root, name, maxPrompt)
		if err != nil {
			return config.Wrong("", "shape file %s: %w", store.Relative(r.Root, name), err)
		}
		a, err := gate.ParseShape(string(text))
		if err != nil {
			return config.Wrong("", "%s %s", store.Relative(r.Root, name),
				strings.TrimPrefix(err.Error(), "SHAPE.md "))
		}
		s.Criteria, s.MustNot = addCriteria(s.Criteria, a.Criteria), addCriteria(s.MustNot, a.MustNot)
		break
	}
	if s.Reversibility != "" {
		class, err := gate.ParseReversibility(s.Reversibility)
		if err != nil {
			return config.Wrong("", "%w", err)
		}
		s.Reversibility = string(class)
	}
	switch {
	case s.Given("precheck") && strings.TrimSpace(s.Precheck) == "":
		return config.Wrong("leave it out, or give a command", "precheck is empty")
	case len(s.Criteria) == 0:
		return config.Wrong(`--criterion "tests pass :: make test", criteria: in descartes.yaml, or a SHAPE.md with a section criteria`, "a run with the criteria gate needs at least one criterion")
	}
	return nil
}

// addCriteria adds those of more whose names the list does not have. A criterion of the same name gives what is not
// known yet: how it is verified.
func addCriteria(list, more []gate.Criterion) []gate.Criterion {
	for _, m := range more {
		at := slices.IndexFunc(list, func(c gate.Criterion) bool {
			return gate.CheckCriteria([]gate.Criterion{c, m}) != nil
		})
		if at < 0 {
			list = append(list, m)
			continue
		}
		list[at].Verification = cmp.Or(list[at].Verification, m.Verification)
		list[at].Command = cmp.Or(list[at].Command, m.Command)
	}
	return list
}

// readGate makes the prompt loop: what decides about its end, and the rules of its kind.
func (r *Run) readGate() {
	c := r.Config
	r.Prompt = &loop.PromptJob{Dir: cmp.Or(c.WorkingDirectory, r.Root), Kind: r.Kind, Config: *c}
	c = &r.Prompt.Config
	r.Config = c
	r.Prompt.Yes = r.Settings.Yes || r.resumes() && c.NoConfirm && r.Settings.Given("no-confirm")
	if fi, err := os.Stat(r.Prompt.Dir); err != nil || !fi.IsDir() {
		r.wrong(config.Wrong("", "working directory %s: no such directory", r.Prompt.Dir))
	}
	g, err := loop.NewGate(*c)
	var vague *gate.VagueError
	switch {
	case errors.As(err, &vague):
		r.wrong(config.Wrong("say what is missing, or decide yourself: --set shape=tool asks nothing, --set shape=colleague asks at each step", "%w", err))
	case err != nil:
		r.wrong(config.Wrong("", "%w", err))
	}
	r.Prompt.Gate = g
	criteria := r.Criteria()
	if criteria != nil && r.Kind != store.KindPrompt {
		criteria.Steps = gate.StepsOf("", criteria.Asked) // the lists of a mode's prompt are no steps of its work
	}
	r.readRules(c, g)
	if criteria != nil {
		if err := loop.LoopFileFree(store.NewHome(r.Root)); err != nil {
			r.wrong(err)
		}
	}
	if len(r.Backends) == 0 {
		return
	}
	if err := r.Takes(len(c.Prompt) + loop.MostBeside(*c)); err != nil {
		r.wrong(config.Wrong("--set backend.prompt_mode=stdin, or file, hands over a prompt of any length", "%w", err))
	}
	if c.ContinueSession && len(r.Backends[0].SessionArgs) == 0 {
		r.wrong(config.Wrong("leave --continue out: each iteration is then a fresh agent",
			"backend %s cannot continue a conversation", r.Backends[0].Name))
	}
}

// readRules gives plan, build, and a loop with the status gate their rules.
func (r *Run) readRules(c *config.Config, g loop.Gate) {
	if r.Kind == store.KindPlan || r.Kind == store.KindBuild {
		r.Mode = &mode.Run{Kind: mode.Kind(r.Kind), Project: mode.Open(r.Root), Text: c.Prompt, Plan: c.PlanPrompt,
			Test: c.VerificationCommand, Promise: c.CompletionPromise, Alone: !c.Scud.UseSubAgents, Now: time.Now}
		if r.Mode.Replans() && g != nil {
			r.Prompt.Gate = mode.NewAlternate(g, r.Mode.Specs)
		}
		r.Mode.Gate, r.Prompt.Rules = r.Prompt.Gate, r.Mode
	} else if status, ok := g.(*gate.Status); ok {
		project := mode.Open(r.Prompt.Dir)
		if plan, err := project.ReadPlan(); plan == nil && err == nil { // else the project's
			if plan, err := mode.Open(r.Root).ReadPlan(); plan != nil || err != nil {
				project = mode.Open(r.Root)
			}
		}
		r.Prompt.Rules = &mode.Listed{Project: project, Config: *c, Gate: status}
	}
}

// Criteria is the gate of a prompt loop, if that is the criteria gate.
func (r *Run) Criteria() *gate.Criteria {
	if r.Prompt == nil {
		return nil
	}
	g := r.Prompt.Gate
	if outer, ok := g.(interface{ Within() loop.Gate }); ok {
		g = outer.Within()
	}
	c, _ := g.(*gate.Criteria)
	return c
}
