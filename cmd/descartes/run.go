package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
)

// prepared is what a run of any kind is prepared with: everything was read and checked, nothing was touched.
type prepared struct {
	root     string
	repo     *gitops.Repo // nil where git is not needed
	backend  agent.Backend
	others   []agent.Backend // that tasks ask for, or that take over
	opt      loop.StartOptions
	why      string         // where the verify command comes from, "" if it was given
	notes    []string       // what a person should know before it starts
	held     enclosure      // the sandbox of its commands
	settings *settingsWatch // nil for a loop that goes on with its own
	secrets  []redact.Secret
	mask     *redact.Redactor // of the secrets
}

// backends are all that a run may call, the usual one first.
func (r *prepared) backends() []agent.Backend { return append([]agent.Backend{r.backend}, r.others...) }

func (r *prepared) close() error {
	if r.repo == nil {
		return nil
	}
	return r.repo.Close()
}

// job is what a run works on, with what it tells and asks.
type job struct {
	loop.Source
	kind    string
	cfg     *loop.Config
	dir     string // where its commands run
	cookie  func(id string) string
	observe func(journal.Event)    // nil: nobody hears of events but the printer
	code    func(loop.Outcome) int // the exit status
	person  *person                // who answers questions; nil: nobody is there
}

// work runs a prepared loop to its end. soft asks it to stop after the running attempt, the end of
// ctx interrupts that.
func (r *prepared) work(ctx context.Context, soft <-chan struct{}, j job) (e report.Run, err error) {
	if r.opt.Branch != "" {
		if err := r.repo.CanBranch(r.opt.Branch); err != nil {
			return e, err
		}
	}
	var ask func(context.Context, string) (yes, answered bool)
	if j.person != nil {
		ask = j.person.ask
	}
	var l *loop.Loop
	a, v := &lateAgent{}, &lateVerifier{}
	slot := func(s *workspace.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error) {
		return r.slot(j, s, dir, loop.NewHome(r.root).Run(l.ID()))
	}
	saved := config.Hide(*j.cfg, r.secrets)
	r.opt.Saved = &saved
	l, err = loop.Start(ctx, r.root, j.Source, loop.Tools{Repo: r.repo, Agent: a, Verify: v, FS: atomicfile.OS(), Now: gitops.Now, Mask: r.mask, Free: freeDisk, Observe: j.observe,
		Code: j.code, Ask: ask, Accounts: accounts(r.backends(), r.root, os.Getenv), Refused: v.refused, Slot: slot, Shown: r.held.Mode != sandbox.Off, Withheld: withheld(*j.cfg, r.backend, os.Environ())}, r.opt)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := r.settings.remember(); err != nil {
		return e, err
	}
	// The loop's locks are ours now: what a killed run left running may be ended.
	c, err := confine(loop.NewHome(r.root).Run(l.ID()), *j.cfg, r.held, r.backends()...)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	shim, err := supervise(j.dir, loop.NewHome(r.root).ExitFile(l.ID()), j.cookie(l.ID()), c)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, shim.Close()) }()
	a.use(shim, c, r.backends()...)
	v.use(shim, c)
	out, err := l.Run(ctx, soft)
	return report.Run{Here: fromHere(r.root), Outcome: out, ID: l.ID(), Path: l.StatePath(), State: l.State(), Costs: l.Costs(), Loose: l.Uncommitted()}, err
}

// slot gives the agents and the verify command of a slot, which run in a sandbox of their own and under a process of their own.
func (r *prepared) slot(j job, s *workspace.Slot, dir, run string) (attempt.Agent, attempt.Verifier, func() error, error) {
	held := r.held
	held.Slot = sandbox.Slot{Tree: s.Tree(), Link: workspace.Objects(r.root), Objects: r.repo.ObjectDirs(), Shown: []string{run}}
	c, err := confine(dir, *j.cfg, held, r.backends()...)
	if err != nil {
		return nil, nil, nil, err
	}
	shim, err := supervise(r.root, filepath.Join(dir, "exit.json"), cookieOf(fmt.Sprintf("%s/slot-%d", r.root, s.Number)), c)
	if err != nil {
		return nil, nil, nil, errors.Join(err, c.close())
	}
	a, v := &lateAgent{}, &lateVerifier{}
	a.use(shim, c, r.backends()...)
	v.use(shim, c)
	return a, v, func() error { return errors.Join(shim.Close(), c.close()) }, nil
}

// conduct does a prepared run, and tells people of it while it lasts. A run that was asked to stop before it had begun has no state.
func (r *prepared) conduct(cmd *cobra.Command, s *settings, p *printer, j job) (e report.Run, took time.Duration, err error) {
	var in interrupts
	began := time.Now()
	ctx, stop := in.watch(cmd.Context(), func(text string) {
		if j.kind != loop.KindTag {
			text = strings.Replace(text, "attempt", "iteration", 1)
		}
		p.say("%s", text)
	})
	var asked requestTeller
	home, observe := loop.NewHome(r.root), j.observe
	j.observe = s.letGo(r.root, p, func(e journal.Event) {
		in.saw(e)
		asked.watch(home, e.Loop, j.kind, in.underway.Load, p.say)
		if e.Type == journal.LoopPaused || e.Type == journal.LoopFinished { // the loop may have seen a request first
			asked.look(true)
		}
		p.observe(e)
		if observe != nil {
			observe(e)
		}
	})
	if j.person != nil {
		j.person.soft = in.soft
	}
	e, err = r.work(ctx, in.soft, j)
	cut := context.Cause(ctx)
	stop()
	asked.stop()
	if e.State == nil {
		return e, 0, cutShort(cut, err)
	}
	if b := e.Outcome.Baseline; b != nil {
		p.close()
		tellBaseline(r.mask.Writer(cmd.ErrOrStderr()), b)
	}
	return e, time.Since(began), err
}

// treeTaken tells whose the working tree is while the run lasts.
func (p *printer) treeTaken(root string) {
	p.say("tree: this working tree and its branch belong to the run until it ends; to keep working: git worktree add --detach %s", terminal.Quote("../"+terminal.Clean(filepath.Base(root))+"-work"))
}

// verifyClocks tells after which times a verify command is ended.
func (p *printer) verifyClocks(c loop.Config, command string) {
	if command == "" || command == loop.NoVerify {
		return
	}
	var ends []string
	if n := c.VerifyTimeoutSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second))
	}
	if n := c.VerifyIdleSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second)+" without output")
	}
	if len(ends) > 0 {
		p.say("verify is ended %s", strings.Join(ends, ", or "))
	}
}

// agent names the agent, and its model where one was asked for.
func (p *printer) agent(r *prepared, c loop.Config) {
	model := ""
	if c.Backend.Model != "" {
		model = ", model " + terminal.Clean(c.Backend.Model)
	}
	p.say("agent: %s (%s%s)", terminal.Clean(strings.Join(r.backend.Command, " ")), r.backend.Name, model)
}

// surroundings tells what commands run in, and what a person should know before.
func (p *printer) surroundings(r *prepared, c loop.Config, more ...string) {
	p.say("sandbox: %s", terminal.Clean(report.Sandbox(c)))
	p.say("environment: %s", terminal.Clean(environmentText(c, r.backend)))
	for _, n := range append(r.notes, more...) {
		p.say("note: %s", terminal.Clean(n))
	}
}

// tellBaseline says why a run was refused whose verify command fails before any task.
func tellBaseline(w *redact.Writer, b *loop.Baseline) {
	fmt.Fprintf(w, "error: %s\n", terminal.Clean(b.Reason()))
	for _, line := range b.Output() {
		fmt.Fprintf(w, "  %s\n", terminal.Clean(line))
	}
	fmt.Fprintf(w, "no agent was started\nhint: %s\n", terminal.Clean(b.Hint()))
	_ = w.Flush()
}

// supervise ends what an earlier run under the same cookie left running, and starts the process that the
// agents and verify commands of a loop run under.
func supervise(dir, exitFile, cookie string, c *confined) (*proc.Shim, error) {
	if _, err := proc.Sweep(cookie); err != nil {
		return nil, fmt.Errorf("end what an earlier loop left running: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	return proc.Start(proc.ShimConfig{Argv: []string{self, proc.ShimCommand}, Env: c.base, Cookie: cookie, ExitFile: exitFile, Dir: dir, Adopt: true})
}

// cookieOf marks every process that a loop in this folder starts, so that a later one finds what
// was left running.
func cookieOf(root string) string {
	sum := sha256.Sum256([]byte(root))
	return hex.EncodeToString(sum[:8])
}
