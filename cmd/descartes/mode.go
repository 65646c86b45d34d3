package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/internal/config"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/mode"
	"descartes/verify"
)

// modeIterations is the limit of a plan or build where none is given.
const modeIterations = 10

func newPlanCmd() *cobra.Command {
	return newModeCmd(mode.Plan, "plan [max_iterations]", "Compare specs and code, and write IMPLEMENTATION_PLAN.md, iteration by iteration", `Compare specs and code, and write IMPLEMENTATION_PLAN.md, iteration by iteration, each in a fresh agent and
committed. It ends when the agent has nothing to add and says so, or after max_iterations (10).

The prompt is PROMPT_plan.md or prompts/plan.md where the project has one.`)
}

func newBuildCmd() *cobra.Command {
	return newModeCmd(mode.Build, "build [max_iterations]", "Do the tasks of IMPLEMENTATION_PLAN.md, one in each iteration, tested and committed", `Do the tasks of IMPLEMENTATION_PLAN.md, one in each iteration: a fresh agent, the tests, a commit. An iteration
that fails, whose tests fail or that changes nothing is repeated up to three times.

The tests are the command that AGENTS.md gives, else --verify, else found from the project. The prompt is
PROMPT_build.md or prompts/build.md where the project has one.`)
}

func newPromptCmd() *cobra.Command {
	return newModeCmd(mode.Prompt, "prompt <file>", "Run one prompt once, and commit what it changes", `Run one prompt from a file once, in a fresh agent, and commit what it changes. Nothing is tested, and nothing
that the agent says is looked for.`)
}

// modeText is what the help of the three modes shares.
const modeText = `

In prompts ${ITERATION} ${MAX_ITERATIONS} ${MODE} ${RETRY} ${TASK_DESCRIPTION} ${ASSOCIATED_SPEC} ${PLAN_FILE} ${SPECS_DIR} ${TEST_COMMAND}
${PROMISE} ${PROJECT_DIR} and ${TIMESTAMP} are filled in. What the agent says goes to stderr and into the session log.

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
			fl.Hidden = !one.Is("mode") && !one.Is("build") || kind == mode.Prompt && one.Is("gate")
		}
	}
	f.Lookup("max-iterations").Usage = "iterations, also as the argument (default 10)"
	return cmd
}

func runMode(cmd *cobra.Command, kind mode.Kind, s *settings, args []string) error {
	f := cmd.Flags()
	var wrong error
	if kind == mode.Prompt {
		wrong = noGate(f)
	}
	f.Visit(func(fl *pflag.Flag) {
		if fl.Hidden && wrong == nil {
			wrong = badInput(cmd.CommandPath()+" --help", "%s does not take --%s: that is for loop start", cmd.CommandPath(), fl.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	root, err := s.load(f)
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if away, err := s.background(cmd, root); away || err != nil {
		return err
	}
	if err := s.completeMode(f, root, kind, args); err != nil {
		return err
	}
	opt := loop.StartOptions{Name: s.Name, StatePath: s.stateAt(root), Command: string(kind)}
	if err := s.free(root, opt, nil); err != nil {
		return err
	}
	return runPrompt(cmd, root, string(kind), s, opt)
}

// completeMode turns what was typed into what a mode runs.
func (s *settings) completeMode(f *pflag.FlagSet, root string, kind mode.Kind, args []string) (err error) {
	verifyCommand := s.Scud.VerificationCommand
	s.Scud, s.VerificationCommand = loop.ScudConfig{MaxIterationsPerTask: s.Scud.MaxIterationsPerTask}, ""
	s.Git.AutoCommit = !s.NoCommit
	s.workIn(f, root)
	s.WorkingDirectory = root // plan, specs and tests are the project's
	s.mode = kind
	if kind == mode.Prompt {
		return s.completeAdhoc(root, args[0])
	}
	s.limitGate(f)
	if err := s.iterationsOf(f, args); err != nil {
		return err
	}
	if s.CompletionPromise == "" {
		return badInput("leave it out: it is COMPLETE then", "--completion-promise is empty: nothing would end a %s but its limit", kind)
	}
	var file string
	if s.Prompt, file, err = mode.Text(root, kind); err != nil {
		return badInput("", "%w", err)
	}
	s.promptFrom = file
	if err := s.completeGate(f, root); err != nil || kind == mode.Plan {
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
		return badInput("descartes plan, or descartes build --replan", "Implementation plan not found. Run 'descartes plan' first.")
	}
	return s.testWith(project, verifyCommand)
}

// testWith chooses the command that decides about what was built.
func (s *settings) testWith(p mode.Project, given string) error {
	if cmd := p.TestCommand(); cmd != "" {
		s.VerificationCommand, s.verifyFrom = cmd, "AGENTS.md"
		if given != "" && given != cmd {
			s.verifyFrom = "AGENTS.md, which counts before --verify"
		}
		return nil
	}
	if given != "" {
		s.VerificationCommand = given
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
func (s *settings) iterationsOf(f *pflag.FlagSet, args []string) error {
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		switch {
		case err != nil || n < 1:
			return badInput("", "max_iterations %q: must be a number of at least 1", args[0])
		case f.Changed("max-iterations") && n != s.MaxIterations:
			return badInput("", "max_iterations %d and --max-iterations %d mean the same; give one", n, s.MaxIterations)
		}
		s.MaxIterations = n
	}
	if s.MaxIterations == 0 {
		s.MaxIterations = modeIterations
	}
	if s.MaxIterations > loop.Ceiling {
		return badInput("a loop that has reached its limit goes on with loop resume --max-iterations N", "%d iterations: a loop is started with at most %d", s.MaxIterations, loop.Ceiling)
	}
	return nil
}

// completeAdhoc reads the file of a prompt that is run once.
func (s *settings) completeAdhoc(root, name string) error {
	text, err := mode.ReadPrompt(root, absolute(s.dirPath(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return badInput("", "prompt file %s: no such file", name)
	}
	if err != nil {
		return badInput("", "%w", err)
	}
	run := &mode.Run{Kind: mode.Prompt, Project: mode.Open(root), Text: text, Now: time.Now}
	s.promptFrom, s.MaxIterations, s.CompletionPromise, s.Gate = report.Relative(root, absolute(s.dirPath(), name)), 1, "", ""
	s.Prompt = run.Once()
	s.Git.CommitTemplate = run.OnceSubject()
	s.IterationContext = false
	return nil
}

// modeOf is what a loop of that kind is made of; nil for a loop over a prompt alone.
func modeOf(root, kind string, cfg loop.Config, g loop.Gate) (*mode.Run, loop.Gate) {
	if kind != loop.KindPlan && kind != loop.KindBuild {
		return nil, g
	}
	run := &mode.Run{Kind: mode.Kind(kind), Project: mode.Open(root), Text: cfg.Prompt, Plan: cfg.PlanPrompt, Test: cfg.VerificationCommand, Promise: cfg.CompletionPromise, Now: time.Now}
	if run.Replans() && g != nil {
		g = mode.NewAlternate(g, run.Project.Specs)
	}
	run.Gate = g
	return run, g
}

// modeCode is the exit status of a mode where it differs from that of a loop: its limit of iterations is
// no failure.
func modeCode(kind mode.Kind, out loop.Outcome) (code int, ok bool) {
	switch {
	case out.Crashed:
		return exitAgent, true
	case out.Ending == journal.LimitReached && kind == mode.Prompt:
		return exitAgent, true // its one run came to nothing
	case out.Ending == journal.LimitReached:
		return exitDone, true
	}
	return 0, false
}

// sessionLog is where a mode's session log lies.
func sessionLog(root, id string, began time.Time) string {
	return filepath.Join(loop.NewHome(root).Run(id), "logs", mode.SessionName(began))
}

func openSession(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("session log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("session log: %w", err)
	}
	return f, nil
}

// modeSession writes the session log of a mode, and shows what its agents say while they say it. It hears of
// a run's events in the run's own goroutine.
type modeSession struct {
	root   string
	kind   mode.Kind
	run    *mode.Run // nil for a prompt that is run once
	task   string    // of that
	format string    // of what the agent prints
	show   io.Writer
	mask   *redact.Redactor
	began  time.Time

	path    string
	log     *os.File
	err     error // the first one; the run goes on without its session log
	end     func()
	detail  *journal.Detail // of the iteration's agent
	started time.Time
	total   int
	good    int
	failed  int
}

func (m *modeSession) observe(e journal.Event) {
	switch e.Type {
	case journal.LoopStarted, journal.LoopResumed:
		m.path = sessionLog(m.root, e.Loop, m.began)
		m.log, m.err = openSession(m.path)
	case journal.IterationStarted:
		m.begin(e)
	case journal.AgentFinished:
		m.detail = e.Detail
	case journal.IterationFinished:
		m.finish(e)
	}
}

// code is the exit status that an outcome gets.
func (m *modeSession) code(out loop.Outcome) int {
	if code, ok := modeCode(m.kind, out); ok {
		return code
	}
	return exitCode(out, 0)
}

func (m *modeSession) begin(e journal.Event) {
	if m.log == nil || m.err != nil || e.Detail == nil {
		return
	}
	kind, task, spec := m.kind, m.task, ""
	if m.run != nil {
		kind, task, spec = m.run.Task()
	}
	m.detail, m.started = nil, e.TS
	m.put(mode.Header{Iteration: e.Iteration, Mode: kind, Task: m.mask.Text(task), Spec: spec, Start: e.TS})
	t := &tailReader{path: filepath.Join(m.root, e.Detail.Log), over: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer t.close()
		text := readable(m.show, m.format, m.root)
		defer text.Close()
		record, people := m.mask.Writer(m.log), m.mask.Writer(text)
		_, err := io.Copy(io.MultiWriter(record, people), t)
		m.err = errors.Join(m.err, err, record.Flush(), people.Flush())
	})
	m.end = func() { close(t.over); wg.Wait() }
}

func (m *modeSession) finish(e journal.Event) {
	if m.end == nil { // an iteration that a dead run had begun
		return
	}
	m.end()
	m.end = nil
	f := mode.Footer{Iteration: e.Iteration, End: e.TS, Took: e.TS.Sub(m.started), Retries: max(0, e.Attempt-1), Status: "success"}
	if d := m.detail; d != nil {
		f.Model = d.Model
		if d.USD != nil || d.InputTokens+d.OutputTokens > 0 {
			c := journal.Cost{USD: d.USD}
			if d.InputTokens+d.OutputTokens > 0 {
				c.InputTokens, c.OutputTokens = &d.InputTokens, &d.OutputTokens
			}
			f.Cost = report.CostText(&c)
		}
	}
	if e.Decision.Failed() {
		f.Status = "failed: " + cmp.Or(e.Reason, string(e.Decision))
		m.failed++
	} else {
		m.good++
	}
	m.total = e.Iteration
	if m.err == nil {
		m.put(f)
	}
}

// close writes the summary and says where the log lies.
func (m *modeSession) close(p *printer, out loop.Outcome, code int) {
	if m.end != nil {
		m.end()
	}
	if m.log == nil {
		if m.err != nil {
			p.warn(m.err.Error())
		}
		return
	}
	if m.err == nil {
		m.put(mode.Summary{Total: m.total, Successful: m.good, Failed: m.failed, Took: time.Since(m.began),
			Reason: m.mask.Text(cmp.Or(out.Message, report.Readable(string(out.Ending)))), Code: code})
	}
	if err := errors.Join(m.err, m.log.Close()); err != nil {
		p.warn(fmt.Sprintf("the session log %s is not complete: %s", report.Relative(m.root, m.path), err))
		return
	}
	p.say("session log: %s", report.Relative(m.root, m.path))
}

func (m *modeSession) put(block io.WriterTo) {
	if _, err := block.WriteTo(m.log); err != nil {
		m.err = err
	}
}

// tailReader reads a file while it grows: until over is closed, and then to its end.
type tailReader struct {
	path string
	over chan struct{}
	f    *os.File
}

// tailEvery is how often a file that does not grow is looked at.
const tailEvery = 100 * time.Millisecond

func (t *tailReader) Read(p []byte) (int, error) {
	for last := false; ; {
		if t.f == nil {
			t.f, _ = os.Open(t.path) // it is made when the agent starts
		}
		if t.f != nil {
			if n, err := t.f.Read(p); n > 0 || err != nil && err != io.EOF {
				return n, err
			}
		}
		if last {
			return 0, io.EOF
		}
		select {
		case <-t.over:
			last = true
		case <-time.After(tailEvery):
		}
	}
}

func (t *tailReader) close() {
	if t.f != nil {
		t.f.Close()
	}
}
