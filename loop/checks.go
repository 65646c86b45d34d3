package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/redact"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/verify"
)

// What becomes of a verify command that fails on the untouched tree, before any agent was started.
const (
	BaselineRequire = "require" // the run ends
	BaselineWarn    = "warn"    // it goes on; a command that cannot be run ends it all the same
	BaselineOff     = "off"     // nobody looks
)

// Baseline is how a check fares on a tree that no agent has touched.
type Baseline struct {
	Check    verify.Check
	Result   verify.Result
	Withheld []string // variables that it does not get and with which it passes
	Task     string   // the task that was just blocked; "" before any
}

// CannotRun reports whether the shell found no such command, or could not execute it.
func (b *Baseline) CannotRun() bool {
	r := b.Result
	return !r.Passed && r.Signal == 0 && r.Overran == "" && (r.Code == 126 || r.Code == 127)
}

// Stops reports whether a run with that setting ends here.
func (b *Baseline) Stops(setting string) bool {
	return !b.Result.Passed && (setting == BaselineRequire || b.CannotRun())
}

// outcome is what the command before the first attempt comes to: the loop's end, a note, or nothing.
func (b *Baseline) outcome(ctx context.Context, stop *stopper, setting string, m *redact.Redactor) (*Outcome, *journal.Event) {
	switch {
	case b.Result.Cancelled:
		return stop.outcome(ctx), nil
	case b.Stops(setting):
		return &Outcome{Ending: journal.BaselineFails, Message: m.Text(b.Reason()), Baseline: b}, nil
	case !b.Result.Passed:
		return nil, &journal.Event{Type: journal.Warning, Message: b.Reason() + "; --baseline warn goes on all the same"}
	}
	return nil, nil
}

// Reason says in one line what is wrong.
func (b *Baseline) Reason() string {
	name := b.Check.Title()
	s := name + " fails before any task: `"
	if b.Task != "" {
		s = name + " fails without the work on task " + b.Task + " too, on a tree where it passed before: `"
	}
	s += oneline.Text(b.Check.Run) + "` "
	r := &b.Result
	switch {
	case r.Overran != "" || r.Signal != 0:
		s += strings.TrimPrefix(r.Reason(), name+" ")
	default:
		s += fmt.Sprintf("ends with exit status %d", r.Code)
	}
	switch {
	case len(b.Withheld) > 0:
		s += "; it passes with all of your variables, of which these are withheld: " + oneline.List(b.Withheld)
	case b.CannotRun() && r.Code == 126:
		s += ": something in it cannot be executed"
	case b.CannotRun():
		s += ": a command was not found"
	}
	return s
}

// Hint says what to do about it.
func (b *Baseline) Hint() string {
	switch {
	case len(b.Withheld) > 0:
		if len(b.Withheld) > 3 {
			return "--env-pass NAME passes the one on that it needs, env_pass in descartes.yaml in every run"
		}
		return "--env-pass " + strings.Join(b.Withheld, ",") + " passes on what it needs, env_pass in descartes.yaml in every run"
	case b.CannotRun():
		return "install what is missing, or correct --verify; --baseline off starts without this check"
	case b.Result.TimedOut:
		return "make it end by itself (no watch mode, no server), or raise --verify-timeout and --verify-idle-timeout"
	}
	return "correct the project or --verify and start again; a project that has nothing to build yet starts with --baseline warn"
}

const baselineLines = 20

// Output is the end of what the command printed, some lines of it.
func (b *Baseline) Output() []string {
	lines := strings.Split(strings.TrimRight(b.Result.Tail, "\n"), "\n")
	lines = lines[max(0, len(lines)-baselineLines):]
	return slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
}

// TryBaseline runs a check on the tree as it is; where it fails and variables are withheld from it, it is run once more with all of them.
func TryBaseline(ctx context.Context, v attempt.Verifier, q verify.Request, c *verify.Check, withheld []string) (*Baseline, error) {
	res, err := attempt.Check(ctx, v, q, c)
	if err != nil {
		return nil, fmt.Errorf("verify before any task: %w", err)
	}
	b := &Baseline{Check: *c, Result: res}
	if res.Passed || res.Cancelled || res.TimedOut || len(withheld) == 0 {
		return b, nil
	}
	q.Whole = true
	again, err := attempt.Check(ctx, v, q, c)
	if err != nil {
		return nil, fmt.Errorf("verify before any task: %w", err)
	}
	if again.Passed {
		b.Withheld = withheld
	}
	return b, nil
}

// baselineLog is the output of the verify command before any task.
func (h Home) baselineLog(id string) string { return filepath.Join(h.Run(id), "logs", "baseline.log") }

// baseline runs the checks once before the first attempt. An outcome says that the run ends here. A tag requires that they pass; many prompts
// are there to make them pass.
func (l *Loop) baseline(ctx context.Context, stop *stopper, ln *lane) (*Outcome, error) {
	setting := BaselineRequire
	if l.state.Kind != KindTag {
		setting = BaselineOff
	}
	setting = cmp.Or(l.config.Baseline, setting)
	if setting == BaselineOff || !l.work.testable() || l.limits(ctx, stop) != nil {
		return nil, nil
	}
	for _, c := range l.checks() {
		if c.At(verify.AtEnd) {
			continue
		}
		before, err := l.holds(ctx, ln)
		if err != nil {
			return nil, err
		}
		passed, err := l.passedBefore(ctx, before, &c)
		if err != nil {
			return nil, err
		}
		if passed {
			continue
		}
		b, err := l.untouched(ctx, stop, ln, before, "", &c)
		if err != nil {
			return nil, err
		}
		out, note := b.outcome(ctx, stop, setting, l.tools.Redact)
		if note != nil {
			err = l.record(note)
		}
		if out != nil || err != nil {
			return out, err
		}
	}
	return nil, nil
}

// checks are those that decide about the work of the run, in their order.
func (l *Loop) checks() []verify.Check { return checksOf(l.config, l.state.Kind) }

func checksOf(c *Config, kind string) []verify.Check { return c.ChecksOf(kind == KindTag) }

// checksAt are those of some points of a run.
func (l *Loop) checksAt(when ...verify.When) []verify.Check {
	return slices.DeleteFunc(l.checks(), func(c verify.Check) bool {
		return !slices.ContainsFunc(when, c.At)
	})
}

// recheck runs the check once more with which a task was blocked, on the tree without that work, where it had passed before. Where it fails
// now, and as it did with that work, the task is not to blame, and others would be spent on it in vain: the breaker opens.
func (w *tagWork) recheck(ctx context.Context, stop *stopper, u *unit) (*Outcome, error) {
	s, id := w.streak(), u.task.ID
	if breakerOf(w.config) == 0 || w.config.Baseline == BaselineOff || w.job.Graph.Status(id) != tasks.Blocked || u.res.Verify == nil ||
		s.signature == "" || s.signature == idleAgent || !slices.Equal(s.tasks, []string{id}) || w.limits(ctx, stop) != nil {
		return nil, nil
	}
	list := w.checks()
	at := slices.IndexFunc(list, func(c verify.Check) bool { return c.Name == u.res.Verify.Name })
	if at < 0 {
		return nil, nil
	}
	now, err := w.holds(ctx, u.lane)
	if err != nil {
		return nil, err
	}
	if known, err := w.passedBefore(ctx, now, &list[at]); err != nil || !known {
		return nil, err
	}
	b, err := w.untouched(ctx, stop, u.lane, now, id, &list[at])
	switch {
	case err != nil:
		return nil, err
	case b.Result.Cancelled:
		return stop.outcome(ctx), nil
	case b.Result.Passed:
		return nil, nil
	}
	if signature, _ := verifyFailure(b.Result.Tail, b.Result.Reason()); signature != s.signature {
		return nil, nil
	}
	return &Outcome{Ending: journal.BreakerOpen, Message: w.tools.Redact.Text(b.Reason())}, nil
}

// untouched runs a check on a tree without unverified work, and puts back what it does there. Where it fails and variables are withheld from
// it, it is run once more with all of them. The task is the one that was just blocked, "" before any.
func (l *Loop) untouched(ctx context.Context, stop *stopper, ln *lane, before gitops.Tree, task string, c *verify.Check) (b *Baseline, err error) {
	u := &unit{lane: ln, before: before, base: before, log: l.home.baselineLog(l.state.ID)}
	if _, err := l.prepare(ctx, ln, l.start(u)); err != nil {
		return nil, err
	}
	if err := l.record(&journal.Event{Type: journal.VerifyStarted, Task: task, Detail: &journal.Detail{Baseline: true, Check: c.Name, Log: l.relative(u.log)}}); err != nil {
		return nil, err
	}
	actx, end := stop.soon(ctx)
	q := l.checkRequest(ln, "baseline", u.log)
	l.unlocked(func() { b, err = TryBaseline(actx, ln.runner.Verify, q, c, l.tools.Withheld.Verify) })
	end()
	if err != nil {
		return nil, err
	}
	b.Task = task
	tree, left, err := l.tidy(context.WithoutCancel(ctx), u)
	if err != nil {
		return nil, err
	}
	e := &journal.Event{Type: journal.VerifyFinished, Task: task, Tree: tree, Detail: verifyDetail(b.Result)}
	e.Detail.Baseline, e.Detail.Command, e.Detail.Left = true, c.Run, left
	if !b.Result.Passed {
		e.Reason, e.Detail.Output = b.Reason(), b.Result.Tail
	}
	return b, l.record(e)
}

// checkRequest is what a check is run with in a lane that is at no attempt.
func (l *Loop) checkRequest(ln *lane, label, log string) verify.Request {
	return Timed(l.config, verify.Request{Label: label, Dir: ln.ws.Dir(),
		Env: append(ln.env(), "DESCARTES_LOOP_ID="+l.state.ID, "DESCARTES_TAG="+l.state.Tag), Log: log, Redact: l.tools.Redact})
}

// passedBefore reports whether the tree is the one on which the same check passed last, in this loop or in the last one of the tag.
func (l *Loop) passedBefore(ctx context.Context, now gitops.Tree, c *verify.Check) (bool, error) {
	p := l.history.Passes[c.Name]
	if p.Tree == "" {
		p = l.last[c.Name]
	}
	if p.Tree == "" || p.Command != l.tools.Redact.Text(c.Run) {
		return false, nil
	}
	if p.Tree == string(now) {
		return true, nil
	}
	changed, err := l.tools.Repo.Changed(ctx, gitops.Tree(p.Tree), now)
	if err != nil {
		return false, nil // its objects are gone: verifying again costs a run, and nothing else
	}
	return len(changed) == 0, nil
}

// passesOf is what the last loop of the tag knows of the last passes of its checks.
func (h Home) passesOf(tag string) map[string]journal.Pass {
	last, err := h.LastOf(tag)
	if err != nil || last == nil {
		return nil
	}
	events, err := journal.ReadEvents(h.Events(last.State.ID))
	if err != nil {
		return nil
	}
	return journal.Fold(events).Passes
}

// tidy puts back the files of the repository that the verify command changed; what it changed is kept under
// a ref. New files stay where they are.
func (l *Loop) tidy(ctx context.Context, u *unit) (tree string, made []string, err error) {
	if err := l.heal(u, "verification"); err != nil {
		return "", nil, err
	}
	notes, err := u.lane.ws.Repair(ctx, "verification")
	if err := errors.Join(err, l.undone(u, notes)); err != nil {
		return "", nil, err
	}
	ref := "refs/descartes/" + l.state.ID + "/baseline"
	var back []string
	if u.lane.tree != nil {
		if back, made, err = u.lane.tree.Untouched(ctx, ref); err != nil {
			return "", nil, err
		}
	}
	if len(back) > 0 {
		if err := l.record(&journal.Event{Type: journal.Warning, Message: "the verification before any task changed files, which are restored: " + oneline.List(back) + "; as it left them they are in " + ref}); err != nil {
			return "", nil, err
		}
	}
	if len(made) > 0 {
		if err := l.record(&journal.Event{Type: journal.Warning, Message: workspace.MadeByVerify + oneline.List(made)}); err != nil {
			return "", nil, err
		}
	}
	now, err := l.holds(ctx, u.lane)
	return string(now), made, err
}
