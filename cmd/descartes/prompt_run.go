package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/mode"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/view"
)

// promptRun is a prompt loop ready to start: everything is read and checked, nothing is touched.
type promptRun struct {
	prepared
	job  *loop.PromptJob
	mode *mode.Run // of a plan or a build
	from string    // file of a mode prompt, "" for ours
}

// startPrompt is loop start without a tag.
func startPrompt(cmd *cobra.Command, root string, s *settings) error {
	if err := s.completePrompt(cmd, root); err != nil {
		return err
	}
	opt := loop.StartOptions{Name: s.Name, StatePath: s.stateAt(root)}
	if s.StatePath != "" {
		s.StateFile = view.Relative(root, opt.StatePath)
	}
	if err := s.free(root, opt, nil); err != nil {
		return err
	}
	if opt.Name == "" && opt.StatePath == "" {
		if _, err := store.LoadState(store.NewHome(root).Default()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return runPrompt(cmd, root, store.KindPrompt, s, opt)
}

// stateAt is where the state of a prompt loop should be, by its flag or in the settings file; "" is the usual place.
func (s *settings) stateAt(root string) string {
	switch {
	case s.StatePath != "":
		return absolute(s.dirPath(), s.StatePath)
	case s.StateFile != "":
		return absolute(root, s.StateFile)
	}
	return ""
}

// runPrompt prepares a prompt loop, runs it, and reports.
func runPrompt(cmd *cobra.Command, root, kind string, s *settings, opt loop.StartOptions) error {
	opt.Command, opt.Session, opt.Anew = cmp.Or(opt.Command, "loop"), session(), s.asksAnew()
	r, err := preparePrompt(cmd.Context(), root, kind, s.Config, opt)
	if err != nil {
		return err
	}
	defer r.close()
	r.from, r.why = s.promptFrom, s.verifyFrom
	if r.repo != nil && r.job.Config.Git.AutoCommit && !r.here {
		if r.brought = append(r.brought, s.promptFrom); s.PromptFile != "" {
			r.brought = append(r.brought, absolute(s.dirPath(), s.PromptFile))
		}
		if opt.Resume == "" {
			dirty, err := r.repo.Dirty(cmd.Context())
			if err != nil {
				return err
			}
			r.notInSlots(loop.Foreign(dirty, r.inRepo(append(r.brought, ".descartes"))))
		}
	}
	if s.agents > 1 {
		r.notes = append(r.notes, fmt.Sprintf("-j %d: the iterations of a prompt follow each other, so one agent works at a time, in one copy of the project", s.agents))
	}
	r.job.Yes = s.Yes || opt.Resume != "" && s.NoConfirm && s.Given("no-confirm")
	if opt.Resume == "" {
		r.watchSettings(cmd.Context(), s.file)
	}
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), s.JSON, s.CI)
	p.times = s.Times
	p.text.redact = r.redact
	defer p.close()
	if err := r.notify(p, &r.job.Config, ""); err != nil {
		return err
	}
	defer r.notices.End()
	p.promptHeader(cmd.Context(), r)
	for _, w := range powerless(r.job.Config, r.backends(), r.job.Config.Choices(nil)) {
		p.warn(w)
	}
	if s.DryRun {
		return r.dry(p, cmd, s)
	}
	var h *person
	if r.job.Gate != nil && !r.job.Config.Promised() {
		h = atTerminal(cmd, p, s.CI)
	}
	r.disclose(cmd.Context(), p, h)
	said := newLiveWriter(cmd.ErrOrStderr())
	defer said.Flush()
	of := s.mode
	if r.mode != nil {
		of = r.mode.Kind
	}
	j := job{Source: r.job, kind: r.job.Kind, cfg: &r.job.Config, dir: r.job.Dir, person: h}
	j.code = func(out loop.Outcome) int { return promptCode(of, out) }
	var log *mode.Session
	if of != "" {
		log = &mode.Session{Root: root, Kind: of, Run: r.mode, Task: strings.TrimPrefix(r.job.Config.Git.CommitTemplate, "prompt: iteration 1 - "),
			Show: func(w io.Writer) mode.Shown { return readable(w, r.backend.Format, root) }, People: said, Redact: r.redact, Began: time.Now()}
		j.observe, j.said = log.Observe, said
	}
	e, took, err := r.conduct(cmd, s, p, j)
	if e.State == nil {
		return err
	}
	sum := &view.Summary{Run: e, Took: took, Pool: r.occupied(), Update: r.updates(cmd.Context(), e)}
	if e.Outcome.Baseline == nil {
		p.tell(sum.Text(p.paint, p.box))
	}
	code := j.code(e.Outcome)
	if log != nil {
		switch path, err := log.Close(e.Outcome, code); {
		case err != nil:
			p.warn(err.Error())
		case path != "":
			p.say("session log: %s", view.Relative(root, path))
		}
	}
	if err = errors.Join(err, s.report(sum, p, r.redact)); err != nil {
		return err
	}
	if code != exitDone {
		return s.ends(code, p)
	}
	return nil
}

// preparePrompt reads and checks everything that a prompt loop needs. It reports all problems at once.
func preparePrompt(ctx context.Context, root, kind string, cfg loop.Config, opt loop.StartOptions) (_ *promptRun, err error) {
	r := &promptRun{prepared: newPrepared(root, cfg, opt), job: &loop.PromptJob{Dir: cfg.WorkingDirectory, Kind: kind}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	var found problems
	note := func(err error) {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
	}
	if r.job.Dir == "" {
		r.job.Dir = root
	} else if fi, err := os.Stat(r.job.Dir); err != nil || !fi.IsDir() {
		note(badInput("", "working directory %s: no such directory", r.job.Dir))
	}
	cfg.AgentTypes = nil // there are no tasks that could have one
	wrong, resolved := r.resolve(&cfg)
	if found = append(found, wrong...); resolved {
		found = append(found, r.promptProblems(cfg)...)
		found = append(found, r.reviewProblems(cfg, lookIn(r.job.Dir))...)
		r.notes = append(r.notes, missingFallbacks(r.others, cfg, r.job.Dir, lookIn(r.job.Dir))...)
	}
	if r.job.Gate, err = loop.NewGate(cfg); err != nil {
		note(gateProblem(err))
	} else if c := r.criteria(); c != nil && kind != store.KindPrompt {
		c.Steps = gate.StepsOf("", c.Asked) // the lists of a mode's prompt are no steps of its work
	}
	if r.mode, r.job.Gate = modeOf(root, kind, cfg, r.job.Gate); r.mode != nil {
		r.job.Rules = r.mode
	} else if g, ok := r.job.Gate.(*gate.Status); ok {
		r.job.Rules = &mode.Listed{Project: planned(r.job.Dir, root), Config: cfg, Gate: g}
	}
	r.job.Watch = r.mode != nil || r.job.Gate != nil && cfg.Gate != "" && cfg.Gate != "promise"
	found = append(found, r.openRepository(ctx, &cfg)...)
	if r.repo == nil && cfg.Reviews() != "" {
		found = append(found, loop.Problem{Message: "a review reads what the loop changed, and without a git repository nobody knows that", Hint: "git init, or --review off"})
	}
	r.besides()
	if r.criteria() != nil {
		if err := loop.LoopFileFree(store.NewHome(root)); err != nil {
			note(err)
		}
	}
	if c := r.criteria(); c != nil && c.Class.Checkpoint() && r.repo == nil && opt.Resume == "" {
		r.notes = append(r.notes, "work of type "+string(c.Class)+" asks for a checkpoint at each step, and without a git repository none can be kept")
	}
	r.sandbox, wrong = safety(ctx, root, r.job.Dir, &cfg, r.backend)
	found = append(found, append(wrong, loop.CheckLab(ctx, root, &cfg, r.repo)...)...)
	if r.repo != nil && cfg.Git.AutoCommit || cfg.InPlace {
		if err := r.inPlace(ctx, &cfg); err != nil {
			note(err)
		}
	}
	found = append(found, r.beside(ctx, "")...)
	r.notes = append(r.notes, unnamedPromise(r.mode, cfg, opt)...)
	r.job.Config = cfg
	if len(found) > 0 {
		return r, found
	}
	return r, nil
}

// unnamedPromise says that the prompt of a new loop does not mention what ends it.
func unnamedPromise(m *mode.Run, cfg loop.Config, opt loop.StartOptions) []string {
	if m != nil || opt.Resume != "" || !cfg.Promised() || cfg.CompletionPromise == "" || strings.Contains(cfg.Prompt, cfg.CompletionPromise) {
		return nil
	}
	if cfg.IterationContext && cfg.MaxIterations > 1 {
		return []string{fmt.Sprintf("the prompt does not name <promise>%s</promise>: the agent learns of it from its second iteration on", cfg.CompletionPromise)}
	}
	return []string{fmt.Sprintf("nothing tells the agent what ends the loop: name <promise>%s</promise> in the prompt", cfg.CompletionPromise)}
}

// promptProblems says whether the agent can be run, and given its prompt.
func (r *promptRun) promptProblems(cfg loop.Config) problems {
	found, warnings := r.agentProblems(cfg, r.job.Dir)
	r.notes = append(r.notes, warnings...)
	longest := len(cfg.Prompt) + loop.MostBeside(cfg)
	if err := r.backend.Check(known, longest); err != nil {
		found = append(found, loop.Problem{Message: err.Error(), Hint: "--set backend.prompt_mode=stdin, or file, hands over a prompt of any length", Err: err})
	}
	if cfg.ContinueSession && len(r.backend.SessionArgs) == 0 {
		err := badInput("leave --continue out: each iteration is then a fresh agent", "backend %s cannot continue a conversation", r.backend.Name)
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
	}
	return found
}

// dry describes what a prompt loop would do.
func (r *promptRun) dry(p *printer, cmd *cobra.Command, s *settings) error {
	if s.JSON {
		w := r.redact.Writer(cmd.OutOrStdout())
		err := writeJSON(w, struct {
			Kind    string         `json:"kind"`
			Root    string         `json:"root"`
			Command []string       `json:"command"`
			Config  loop.Config    `json:"config"`
			Gate    *view.GatePlan `json:"gate,omitempty"`
		}{r.job.Kind, r.root, r.backend.Command, r.job.Config, r.gatePlan()})
		return errors.Join(err, w.Flush())
	}
	p.say("\n%s", terminal.CleanLines(strings.TrimRight(r.job.Config.Prompt, "\n")))
	if g := r.gatePlan(); g != nil {
		p.tell(g.Text())
	}
	p.say("\ndry run: nothing was touched")
	return nil
}

// openRepository opens the repository where there is one.
func (r *promptRun) openRepository(ctx context.Context, cfg *loop.Config) (found problems) {
	commits := cfg.Git.AutoCommit || cfg.Git.CreateBranch || cfg.Git.Branch != ""
	note := func(err error, hint string) {
		found = append(found, loop.Problem{Message: err.Error(), Hint: cmp.Or(hint, hintOf(err)), Err: &failure{code: exitInput, err: err}})
	}
	repo, err := openHooked(ctx, r.root, cfg, nil)
	if err != nil {
		if commits || r.mode != nil || !errors.Is(err, gitops.ErrNotRepo) && !errors.Is(err, gitops.ErrBare) { // else the folder itself is used
			note(err, "")
		}
		return found
	}
	r.repo = repo
	if !commits {
		return nil
	}
	r.notes = append(r.notes, repo.Notes()...)
	if _, _, err := repo.Author(ctx); err != nil {
		note(err, "")
	}
	if r.mode != nil {
		r.brought = []string{r.mode.Project.Plan, "specs"}
	}
	r.brought = append(r.brought, cfg.Scud.Spec.AdditionalSpecs...)
	if r.opt.Resume != "" {
		return found
	}
	if r.opt.Branch = cfg.Git.Branch; r.opt.Branch == "" && cfg.Git.CreateBranch {
		n := config.Names{Tag: cmp.Or(r.opt.Name, "loop"), At: time.Now()}
		r.opt.Branch = n.Expand(cmp.Or(cfg.Git.BranchTemplate, config.DefaultBranchTemplate))
	}
	if cfg.Git.AutoCommit && r.opt.Name != "" {
		if err := r.begins(ctx, r.opt.Branch, r.opt.Name, nil); err != nil {
			note(err, "")
		}
	}
	return found
}

// inPlace has the agent work in the project's own folder, if that is possible.
func (r *promptRun) inPlace(ctx context.Context, cfg *loop.Config) (err error) {
	if r.here, err = inPlace(cfg, r.sandbox, 1); err != nil || !r.here {
		return err
	}
	switch {
	case r.repo == nil:
		return badInput("git init", "--in-place needs a git repository")
	case !cfg.Git.AutoCommit:
		return badInput("add --auto-commit, or leave --in-place out", "--in-place is for loops that commit each iteration")
	case r.opt.Resume != "" && workspace.Here(r.pool): // what is there is that run's, and it looks at it itself
		return nil
	}
	return r.clean(ctx, nil)
}

// besides reports what else runs in the project.
func (r *promptRun) besides() {
	if n := ralphNote(r.root); n != "" {
		r.notes = append(r.notes, n)
	}
}

// ralphNote tells a user of the Ralph plugin which of the two loops counts. It does not touch the plugin's file.
func ralphNote(root string) string {
	if _, err := os.Lstat(filepath.Join(root, ".claude", "ralph-loop.local.md")); err != nil {
		return ""
	}
	return "this loop overrides Ralph Loop. The ralph-loop plugin's state file is unchanged; cancel the ralph loop separately if you want it gone."
}

// planned is the path of the plan that a prompt loop follows: where its agent works, else in the project.
func planned(dir, root string) mode.Project {
	here := mode.Open(dir)
	if plan, err := here.ReadPlan(); plan == nil && err == nil {
		if plan, err := mode.Open(root).ReadPlan(); plan != nil || err != nil {
			return mode.Open(root)
		}
	}
	return here
}

// gateProblem explains why there is no gate. It lists line by line what a vague spec lacks.
func gateProblem(err error) error {
	var vague *gate.VagueError
	if errors.As(err, &vague) {
		return badInput("say what is missing, or decide yourself: --set shape=tool asks nothing, --set shape=colleague asks at each step", "%w", err)
	}
	return badInput("", "%w", err)
}

// disclose says that a file will be written, and asks what should happen to it at the end if somebody can answer.
func (r *promptRun) disclose(ctx context.Context, p *printer, h *person) {
	c := &r.job.Config
	if c.Gate != loop.GateCriteria || r.opt.Resume != "" {
		return
	}
	if h != nil && c.LoopState == "" {
		yes, answered := h.ask(ctx, strings.TrimSuffix(gate.Disclosure, " [Y/n]"))
		switch {
		case answered && yes:
			c.LoopState = loop.LoopStateDelete
		case answered:
			c.LoopState = loop.LoopStateKeep
		}
		return
	}
	p.say("%s", disclosure(*c))
}

// gatePlan is nil for a loop without a criteria gate.
func (r *promptRun) gatePlan() *view.GatePlan {
	if c := r.criteria(); c != nil {
		return view.NewGatePlan(c, r.job.Config)
	}
	return nil
}

// criteria returns the loop's gate, if it is the criteria gate.
func (r *promptRun) criteria() *gate.Criteria {
	g := r.job.Gate
	if outer, ok := g.(interface{ Within() loop.Gate }); ok {
		g = outer.Within()
	}
	c, _ := g.(*gate.Criteria)
	return c
}

// disclosure says that a file will be written, with the question's words and its answer.
func disclosure(c loop.Config) string {
	switch c.LoopState {
	case loop.LoopStateDelete:
		return gate.Disclosure + " y"
	case loop.LoopStateKeep:
		return gate.Disclosure + " n"
	}
	return gate.Disclosure + " n, but loop cancel deletes it (--set loop_state=keep or delete answers otherwise)"
}
