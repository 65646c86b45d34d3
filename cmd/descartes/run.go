package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/loop"
	"descartes/loop/journal"
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
	cfg     *loop.Config
	dir     string // where its commands run
	cookie  func(id string) string
	observe func(journal.Event)
	code    func(loop.Outcome) int // the exit status
	ask     func(context.Context, string) (yes, answered bool)
}

// work runs a prepared loop to its end. soft asks it to stop after the running attempt, the end of
// ctx interrupts that.
func (r *prepared) work(ctx context.Context, soft <-chan struct{}, j job) (e report.Run, err error) {
	if r.opt.Branch != "" {
		if err := r.repo.CanBranch(r.opt.Branch); err != nil {
			return e, err
		}
	}
	a, v := &lateAgent{}, &lateVerifier{}
	saved := config.Hide(*j.cfg, r.secrets)
	r.opt.Saved = &saved
	l, err := loop.Start(ctx, r.root, j.Source, loop.Tools{Repo: r.repo, Agent: a, Verify: v, FS: atomicfile.OS(), Now: gitops.Now, Mask: r.mask, Free: freeDisk, Observe: j.observe,
		Code: j.code, Ask: j.ask, Accounts: accounts(r.backends(), r.root, os.Getenv), Refused: v.refused, Withheld: withheld(*j.cfg, r.backend, os.Environ())}, r.opt)
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

// work runs a prepared run over a tag to its end.
func (r *ready) work(ctx context.Context, soft <-chan struct{}, observe func(journal.Event)) (report.Run, error) {
	if r.branch {
		r.opt.Branch = r.newBranch()
	}
	return r.prepared.work(ctx, soft, job{Source: r.job, cfg: &r.job.Config, dir: r.root, cookie: func(string) string { return cookieOf(r.root) }, observe: observe,
		code: func(out loop.Outcome) int { return exitCode(out, out.Blocked) }})
}

// newBranch is the branch that a start makes: the one named, or for a loop that begins that of the template.
func (r *ready) newBranch() string {
	g := r.job.Config.Git
	if g.Branch != "" || !g.CreateBranch || r.opt.Resume != "" {
		return g.Branch
	}
	return loop.Names{Tag: r.job.File.Tag(), At: time.Now()}.Expand(cmp.Or(g.BranchTemplate, loop.DefaultBranchTemplate))
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
