package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/mode"
)

// repetition is a prompt loop prepared to start: everything was read and checked, nothing was touched.
type repetition struct {
	prepared
	job  *loop.PromptJob
	mode *mode.Run // of a plan or a build
	from string    // file of a mode prompt, "" for ours
	ask  func(context.Context, string) (yes, answered bool)
	code func(loop.Outcome) int // the exit status
}

// startPrompt is loop start without a tag.
func startPrompt(cmd *cobra.Command, root string, s *settings) error {
	if err := s.noReports(); err != nil {
		return err
	}
	if err := s.completePrompt(cmd, root); err != nil {
		return err
	}
	opt := loop.StartOptions{Name: s.Name, StatePath: s.stateAt(root)}
	if s.StatePath != "" {
		s.StateFile = report.Relative(root, opt.StatePath)
	}
	if err := s.free(root, opt, nil); err != nil {
		return err
	}
	if opt.Name == "" && opt.StatePath == "" {
		if _, err := loop.LoadState(loop.NewHome(root).Default()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return repeat(cmd, root, loop.KindPrompt, s, opt)
}

// stateAt is where the state of a prompt loop is wanted, by its flag or in the settings file; "" is the usual place.
func (s *settings) stateAt(root string) string {
	switch {
	case s.StatePath != "":
		return absolute(s.dirPath(), s.StatePath)
	case s.StateFile != "":
		return absolute(root, s.StateFile)
	}
	return ""
}

// noReports refuses what only a loop over a tag can write.
func (s *settings) noReports() error {
	if s.JUnit != "" || s.Summary != "" {
		return badInput("--json prints the events of any loop", "--junit and --summary are reports on the tasks of a tag")
	}
	return nil
}

// repeat prepares a prompt loop, runs it, and reports.
func repeat(cmd *cobra.Command, root, kind string, s *settings, opt loop.StartOptions) error {
	opt.Command, opt.Session, opt.Anew = cmp.Or(opt.Command, "loop"), session(), s.anew
	r, err := prepareRepeat(cmd.Context(), root, kind, s.Config, opt)
	if err != nil {
		return err
	}
	defer r.close()
	r.from, r.why = s.promptFrom, s.verifyFrom
	r.job.Yes = s.Yes || opt.Resume != "" && s.NoConfirm && cmd.Flags().Changed("no-confirm")
	if opt.Resume == "" {
		r.settings = watchSettings(root, r.job.Config, r.mask)
		r.notes = append(r.notes, r.settings.changed(cmd.Context(), r.repo)...)
	}
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), s.JSON, s.CI)
	p.text.mask = r.mask
	defer p.close()
	p.repeatHeader(r)
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
	var in interrupts
	began := time.Now()
	ctx, stop := in.watch(cmd.Context(), func(text string) { p.say("%s", strings.Replace(text, "attempt", "iteration", 1)) })
	said := newLiveWriter(cmd.ErrOrStderr())
	defer said.Flush()
	log := r.session(s, began, said)
	var asked requestTeller
	observe := s.letGo(root, p, func(e journal.Event) {
		in.saw(e)
		asked.watch(loop.NewHome(root), e.Loop, r.job.Kind, in.underway.Load, p.say)
		p.observe(e)
		if log != nil {
			log.observe(e)
		}
	})
	r.code = func(out loop.Outcome) int {
		if log != nil {
			if code, ok := modeCode(log.kind, out); ok {
				return code
			}
		}
		return exitCode(out, 0)
	}
	if h != nil {
		h.soft, r.ask = in.soft, h.ask
	}
	e, err := r.work(ctx, in.soft, observe)
	cut := context.Cause(ctx)
	stop()
	asked.stop()
	if e.State == nil {
		return cutShort(cut, err)
	}
	code := r.code(e.Outcome)
	if b := e.Outcome.Baseline; b != nil {
		p.close()
		tellBaseline(r.mask.Writer(cmd.ErrOrStderr()), b)
	} else {
		p.tell(report.PromptSummary(p.paint, root, e, time.Since(began)))
	}
	if log != nil {
		log.close(p, e.Outcome, code)
	}
	if err != nil {
		return err
	}
	if code != exitDone {
		return quiet(code)
	}
	return nil
}

// session is the session log of a mode; nil for a loop over a prompt alone.
func (r *repetition) session(s *settings, began time.Time, show io.Writer) *modeSession {
	kind := s.mode
	if r.mode != nil {
		kind = r.mode.Kind
	}
	if kind == "" {
		return nil
	}
	return &modeSession{root: r.root, kind: kind, run: r.mode, task: strings.TrimPrefix(r.job.Config.Git.CommitTemplate, "prompt: iteration 1 - "),
		format: r.backend.Format, show: show, mask: r.mask, began: began}
}

// session names the program's session that we are started from: a loop of the same one is preferred when the
// last loop is to be gone on with.
func session() string {
	return cmp.Or(os.Getenv("DESCARTES_SESSION_ID"), os.Getenv("CLAUDE_CODE_SESSION_ID"))
}

// prepareRepeat reads and checks everything that a prompt loop needs. It names all that is wrong at once.
func prepareRepeat(ctx context.Context, root, kind string, cfg loop.Config, opt loop.StartOptions) (_ *repetition, err error) {
	r := &repetition{prepared: prepared{root: root, opt: opt, secrets: cfg.Secrets(os.Environ())}, job: &loop.PromptJob{Dir: cfg.WorkingDirectory, Kind: kind}}
	r.mask = redact.Of(r.secrets)
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
	if r.backend, cfg.Backend, err = resolveBackend(cfg); err != nil {
		note(err)
	} else {
		cfg.Command, cfg.Args = savedCommand(r.backend.Command)
		cfg.AgentTypes = nil // there are no tasks that could have one
		if r.others, err = otherBackends(cfg); err != nil {
			note(err)
		}
		found = append(found, r.agentProblems(cfg)...)
		r.notes = append(r.notes, missingFallbacks(r.others, cfg, r.job.Dir, func(program string) (string, error) { return proc.Look(program, r.job.Dir, os.Environ()) })...)
	}
	if r.job.Gate, err = loop.NewGate(cfg); err != nil {
		note(gateProblem(err))
	} else if c := r.criteria(); c != nil && kind != loop.KindPrompt {
		c.Steps = gate.StepsOf("", c.Asked) // the lists of a mode's prompt are no steps of its work
	}
	if r.mode, r.job.Gate = modeOf(root, kind, cfg, r.job.Gate); r.mode != nil {
		r.job.Rules = r.mode.Rules()
	} else if g, ok := r.job.Gate.(*gate.Status); ok {
		r.job.Rules = (&mode.Listed{Project: planned(r.job.Dir, root), Config: cfg, Gate: g}).Rules()
	}
	r.job.Watch = cfg.AutoTune || r.mode != nil || r.job.Gate != nil && cfg.Gate != "" && cfg.Gate != "promise"
	found = append(found, r.ground(ctx, &cfg)...)
	r.besides(cfg)
	if r.criteria() != nil {
		if err := loop.NewHome(root).LoopFileFree(); err != nil {
			note(err)
		}
	}
	if c := r.criteria(); c != nil && c.Class.Checkpoint() && r.repo == nil && opt.Resume == "" {
		r.notes = append(r.notes, "work of type "+string(c.Class)+" asks for a checkpoint at each step, and without a git repository none can be kept")
	}
	var wrong problems
	r.held, wrong = safety(ctx, root, r.job.Dir, &cfg, r.backend)
	found = append(found, wrong...)
	r.job.Config = cfg
	if len(found) > 0 {
		return r, found
	}
	return r, nil
}

// agentProblems says whether the agent can be run, and given its prompt.
func (r *repetition) agentProblems(cfg loop.Config) (found problems) {
	look := func(program string) (string, error) { return proc.Look(program, r.job.Dir, os.Environ()) }
	if err := r.backend.Check(look, 0); err != nil {
		found = append(found, loop.Problem{Message: err.Error(), Hint: "install it" + inBrackets(r.backend.Install()) + ", or name another with --command", Err: &failure{code: exitAgent, err: err}})
	}
	more, warnings := lacking(cfg, r.backend, r.job.Dir)
	found, r.notes = append(found, more...), append(r.notes, warnings...)
	known := func(string) (string, error) { return "", nil }
	longest := len(cfg.Prompt) + loop.MostBeside(cfg)
	if err := r.backend.Check(known, longest); err != nil {
		found = append(found, loop.Problem{Message: err.Error(), Hint: "--prompt-mode stdin, or file, hands over a prompt of any length", Err: err})
	}
	if cfg.ContinueSession && len(r.backend.SessionArgs) == 0 {
		err := badInput("leave --continue out: each iteration is then a fresh agent", "backend %s cannot go on with a conversation", r.backend.Name)
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
	}
	return found
}

// work runs a prepared prompt loop to its end.
func (r *repetition) work(ctx context.Context, soft <-chan struct{}, observe func(journal.Event)) (report.Run, error) {
	return r.prepared.work(ctx, soft, job{Source: r.job, cfg: &r.job.Config, dir: r.job.Dir, cookie: func(id string) string { return cookieOf(r.root + "\x00" + id) },
		observe: observe, code: r.code, ask: r.ask})
}
