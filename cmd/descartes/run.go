package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/proc"
	"descartes/loop"
	"descartes/verify"
)

// lateVerifier is the verification of a loop, whose runner comes as late as lateAgent's.
type lateVerifier struct{ r *verify.Runner }

func (v *lateVerifier) use(sh *proc.Shim) { v.r = verify.NewRunner(sh) }

func (v *lateVerifier) Run(ctx context.Context, r verify.Request) (verify.Result, error) {
	return v.r.Run(ctx, r)
}

// ended is what is left of a run when it is over.
type ended struct {
	outcome loop.Outcome
	id      string
	path    string // of the state file
	state   *loop.State
	costs   loop.Costs
}

// work runs a prepared loop to its end. soft asks it to stop after the running attempt, the end of
// ctx interrupts that.
func (r *ready) work(ctx context.Context, soft <-chan struct{}, observe func(loop.Event)) (_ ended, err error) {
	var e ended
	if name := r.job.Config.Git.Branch; name != "" && r.branch {
		if err := r.repo.NewBranch(ctx, name); err != nil {
			return e, err
		}
	}
	a, v := &lateAgent{}, &lateVerifier{}
	saved := hidden(r.job.Config, r.secrets)
	r.opt.Saved = &saved
	l, err := loop.Start(ctx, r.job, loop.Tools{Repo: r.repo, Agent: a, Verify: v, FS: atomicfile.OS(), Now: time.Now, Mask: r.mask, Observe: observe,
		Accounts: accounts(r.backends(), os.Getenv)}, r.opt)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	// The working tree's lock is ours now: what a killed loop left running in it may be ended.
	shim, err := supervise(r.root, loop.NewHome(r.root).ExitFile(l.ID()), cookieOf(r.root))
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, shim.Close()) }()
	a.use(shim, r.backends()...)
	v.use(shim)
	out, err := l.Run(ctx, soft)
	return ended{outcome: out, id: l.ID(), path: l.StatePath(), state: l.State(), costs: l.Costs()}, err
}

// supervise ends what an earlier run under the same cookie left running, and starts the process that the
// agents and verify commands of a loop run under.
func supervise(dir, exitFile, cookie string) (*proc.Shim, error) {
	if _, err := proc.Sweep(cookie); err != nil {
		return nil, fmt.Errorf("end what an earlier loop left running: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	return proc.Start(proc.ShimConfig{Argv: []string{self, proc.ShimCommand}, Env: childEnv(os.Environ()), Cookie: cookie, ExitFile: exitFile, Dir: dir})
}

// cookieOf marks every process that a loop in this folder starts, so that a later one finds what
// was left running.
func cookieOf(root string) string {
	sum := sha256.Sum256([]byte(root))
	return hex.EncodeToString(sum[:8])
}

// childEnv is the environment of agents and verify commands: ours, without what would point git
// elsewhere, and without the marks of a coding agent's session that descartes was started from.
func childEnv(env []string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "CLAUDECODE", name == "CLAUDE_CODE_ENTRYPOINT", name == "CLAUDE_CODE_SSE_PORT", strings.HasPrefix(name, "CLAUDE_CODE_SESSION"):
		case strings.HasPrefix(name, "GIT_") && !personal(name):
		default:
			out = append(out, kv)
		}
	}
	return out
}

// personal reports whether a variable of git's says who somebody is, not which repository is meant.
func personal(name string) bool {
	switch name {
	case "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
		"GIT_CONFIG_NOSYSTEM", "GIT_SSH", "GIT_SSH_COMMAND":
		return true
	}
	return false
}
