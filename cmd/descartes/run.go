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

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/report"
	"descartes/loop"
	"descartes/loop/journal"
)

// work runs a prepared loop to its end. soft asks it to stop after the running attempt, the end of
// ctx interrupts that.
func (r *ready) work(ctx context.Context, soft <-chan struct{}, observe func(journal.Event)) (_ report.Run, err error) {
	var e report.Run
	if name := r.newBranch(); name != "" && r.branch {
		if err := r.repo.CanBranch(name); err != nil {
			return e, err
		}
		r.opt.Branch = name
	}
	a, v := &lateAgent{}, &lateVerifier{}
	saved := config.Hide(r.job.Config, r.secrets)
	r.opt.Saved = &saved
	l, err := loop.Start(ctx, r.job, loop.Tools{Repo: r.repo, Agent: a, Verify: v, FS: atomicfile.OS(), Now: gitops.Now, Mask: r.mask, Free: freeDisk, Observe: observe,
		Code:     func(out loop.Outcome) int { return exitCode(out, out.Blocked) },
		Accounts: accounts(r.backends(), r.root, os.Getenv), Refused: v.refused, Withheld: withheld(r.job.Config, r.backend, os.Environ())}, r.opt)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := r.settings.remember(); err != nil {
		return e, err
	}
	// The working tree's lock is ours now: what a killed loop left running in it may be ended.
	c, err := confine(loop.NewHome(r.root).Run(l.ID()), r.job.Config, r.held, r.backends()...)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	shim, err := supervise(r.root, loop.NewHome(r.root).ExitFile(l.ID()), cookieOf(r.root), c)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, shim.Close()) }()
	a.use(shim, c, r.backends()...)
	v.use(shim, c)
	out, err := l.Run(ctx, soft)
	return report.Run{Here: fromHere(r.root), Outcome: out, ID: l.ID(), Path: l.StatePath(), State: l.State(), Costs: l.Costs(), Loose: l.Uncommitted()}, err
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
