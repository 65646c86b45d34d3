package tagrun

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/internal/oneline"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/verify"
)

// judge says what an agent's run came to.
func (b *begun) judge(ctx context.Context, g *ground) (out ended, err error) {
	res := &b.res
	var silent bool
	out.verdict, out.reason, silent = res.Made(&b.in)
	mute := out.verdict == verify.Blocked && res.Agent.Blocked == "" && res.Agent.Idle
	if mute && b.in.Again { // its prompt may never have come to it
		res.Agent.Question = ""
		out.verdict, out.reason, _ = res.Made(&b.in)
	}
	if b.before != b.base { // it owns what an earlier attempt had left
		res.Changed = len(res.Work.Changed)
	}
	switch r := &res.Agent; {
	case mute:
		out.outcome = scheduler.Mute
	case out.verdict == verify.Cancelled:
		out.outcome = scheduler.Cancelled
	case out.verdict == verify.Limited:
		out.outcome = scheduler.OutOfQuota
	case r.End == agent.Refused:
		out.outcome = scheduler.Refused
	case r.End == agent.Crashed && r.Cause == agent.Transient && r.Signal == 0:
		out.outcome = scheduler.Fault
	case out.verdict == verify.Crashed:
		out.outcome = scheduler.Crashed
	case out.verdict == verify.TimedOut:
		out.outcome = scheduler.TimedOut
	case out.verdict == verify.Blocked && r.Question != "":
		out.outcome = scheduler.Asks
	case out.verdict == verify.Blocked:
		out.outcome = scheduler.GaveUp
	case silent:
		out.outcome = scheduler.Nothing
	case out.verdict == verify.Failed:
		out.outcome = scheduler.Unstorable
	case res.Changed == 0 && res.Work.After == b.base && res.Work.Commits == "" && !res.Work.Named.Changed():
		out.outcome = scheduler.Unchanged
	default:
		out.outcome = scheduler.Finished
	}
	if out.outcome == scheduler.Finished && b.before != b.base { // else there was nothing to resolve
		left, err := trunk.Unresolved(ctx, g.repo, b.base, b.res.Work.After)
		if err != nil {
			return out, err
		}
		if len(left) > 0 {
			out.outcome, out.verdict = scheduler.Unstorable, verify.Failed
			out.reason = "conflicts are left unresolved in " + oneline.List(left)
		}
	}
	if out.outcome == scheduler.Unchanged && b.Purpose == scheduler.SecondLook {
		shown, err := shows(g, b)
		if err != nil {
			return out, err
		}
		if len(shown) > 0 {
			out.outcome, out.verdict = scheduler.Shown, verify.Verified
			out.reason = "nothing had to be done, as " + oneline.List(shown) + " shows"
		}
	}
	if out.verdict != verify.Verified && len(res.Work.Changed) > 0 {
		b.stat, err = g.repo.DiffStat(ctx, b.before, res.Work.After)
	}
	return out, err
}

// shows are the files of the trunk that an agent names.
func shows(g *ground, b *begun) (paths []string, err error) {
	files, err := g.repo.Contents(b.base)
	if err != nil {
		return nil, err
	}
	for _, word := range strings.Fields(b.res.Agent.Final) {
		path, _, _ := strings.Cut(strings.TrimRight(strings.Trim(word, "`'\"*,;()[]<>"), ".:"), ":")
		if path == "" || !filepath.IsLocal(path) || slices.Contains(paths, path) {
			continue
		}
		if f, err := files.File(path, maxShown); err == nil && f != nil {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
