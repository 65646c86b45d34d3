package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/agent/stream"
	"descartes/gitops"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/verify"
)

// runChecks runs the commands that are bound to criteria and to what must not be. What they say outranks the
// agent's word.
func (r *Repeat) runChecks(ctx context.Context, t *turn) error {
	c := r.criteria()
	if c == nil || t.Result.End == agent.Cancelled || t.Result.End == agent.Limited || t.Result.End == agent.Refused {
		return nil
	}
	t.checks = nil
	for n, cmd := range c.Commands() {
		begin := r.event(journal.VerifyStarted, t)
		begin.Title = cmd.Name
		if err := r.record(begin); err != nil {
			return err
		}
		res, err := r.tools.Verify.Run(ctx, Timed(&r.job.Config, verify.Request{Label: label(t, fmt.Sprintf("check %d", n+1)), Command: cmd.Run, Dir: r.job.Dir,
			Env: r.environment(t), Log: t.log, Mask: r.tools.Mask}))
		if err != nil {
			return fmt.Errorf("check %q after iteration %d: %w", cmd.Name, t.Iteration, err)
		}
		if res.Cancelled {
			return nil // it says nothing
		}
		t.checks = append(t.checks, gate.Check{Name: cmd.Name, Passed: res.Passed, Output: res.Tail})
		e := r.event(journal.VerifyFinished, t)
		e.Title = cmd.Name
		e.Detail = verifyDetail(res)
		if err := r.record(e); err != nil {
			return err
		}
	}
	return nil
}

// countEdits counts the edits of each file, for the gate that looks at them. What cannot be read is not known.
func (r *Repeat) countEdits(t *turn) error {
	if r.criteria() == nil {
		return nil
	}
	var err error
	if t.edits, err = stream.Edits(t.log); err != nil {
		return r.warn(err.Error())
	}
	for path, n := range t.edits { // as a person in the project's folder would type it
		if rel := r.relative(path); filepath.IsAbs(path) && filepath.IsLocal(rel) {
			delete(t.edits, path)
			t.edits[rel] += n
		}
	}
	return nil
}

// checkpoint keeps what an iteration leaves behind, where the work is of a class that asks for it or the agent
// committed by itself: below refs/descartes/<loop>/, the start as iteration-0.
func (r *Repeat) checkpoint(ctx context.Context, t *turn) error {
	c := r.criteria()
	class := c != nil && c.Class.Checkpoint()
	if !class && t.commits == "" || t.before == "" || t.after == "" {
		return nil
	}
	keep := func(n int, tree gitops.Tree) (string, error) {
		ref := fmt.Sprintf("refs/descartes/%s/iteration-%d", r.state.ID, n)
		var parents []string
		for _, p := range []string{t.git.Head().Hash, t.commits} {
			if p != "" && !slices.Contains(parents, p) {
				parents = append(parents, p)
			}
		}
		if _, err := r.tools.Repo.Keep(ctx, ref, tree, parents, fmt.Sprintf("loop %s: checkpoint of iteration %d", r.state.ID, n)); err != nil {
			return "", gitErr("keep a checkpoint", err)
		}
		return ref, nil
	}
	if class && t.Iteration == 1 && t.Try == 1 {
		if _, err := keep(0, t.base); err != nil {
			return err
		}
	}
	var err error
	t.ref, err = keep(t.Iteration, t.after)
	return err
}

// ours reports whether a path is below .loop, which is the loop's own and nobody's work.
func ours(path string) bool {
	return strings.HasPrefix(path, loopDir+"/") || strings.Contains(path, "/"+loopDir+"/")
}
