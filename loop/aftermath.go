package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/tasks"
)

// look takes the snapshot after an agent and what differs from before it.
func (l *Loop) look(ctx context.Context, tr *trial) error {
	tree, err := l.tools.Repo.Snapshot(ctx)
	if err != nil {
		return gitErr("snapshot the work on task "+tr.task.ID, err)
	}
	tr.after, tr.changed = tree, nil
	if tree == tr.before {
		return nil
	}
	if tr.changed, err = l.tools.Repo.Changed(ctx, tr.before, tree); err != nil {
		return gitErr("compare the work on task "+tr.task.ID, err)
	}
	return nil
}

// lookAgain takes the snapshot after the verification, and says so where that changed files: one that a formatter or a
// package manager brings up to date belongs to the work, but nobody should be surprised by it; one that is new is no work.
func (l *Loop) lookAgain(ctx context.Context, tr *trial) error {
	seen := tr.after
	if d := l.history.OpenAgent.Detail; d != nil && d.Tree != "" { // else the verification that was killed had begun
		seen = gitops.Tree(d.Tree)
	}
	if err := l.look(ctx, tr); err != nil {
		return err
	}
	left, taken, work, err := leavings(ctx, l.tools.Repo, tr.before, seen, tr.after, l.history.VerifyLeft)
	if err != nil {
		return gitErr("compare the work on task "+tr.task.ID, err)
	}
	tr.left, tr.taken = left, taken
	tr.changed = slices.DeleteFunc(tr.changed, func(c gitops.Change) bool { return slices.Contains(left, c.Path) })
	if fresh := without(left, l.history.VerifyLeft); len(fresh) > 0 {
		if err := l.warn(tr, madeByVerify+few(fresh)); err != nil {
			return err
		}
	}
	if len(work) == 0 {
		return nil
	}
	return l.warn(tr, "the verification changed files, which count as part of the work: "+names(work))
}

const madeByVerify = "the verification made files that git does not ignore; they stay, and no commit will hold them: "

// names lists changed paths, a few of them.
func names(changed []gitops.Change) string {
	paths := make([]string, len(changed))
	for i, c := range changed {
		paths[i] = c.Path
	}
	return few(paths)
}

// gatherErrors adds what an agent printed on standard error to the attempt's log.
func (l *Loop) gatherErrors(tr *trial) error { return gatherInto(tr.log, l.errLog()) }

// gatherInto appends what an agent printed on standard error to a log.
func gatherInto(log string, errLog string) (err error) {
	fi, err := os.Stat(errLog)
	if err != nil || fi.Size() == 0 {
		return nil // an agent that was never started has none
	}
	src, err := os.Open(errLog)
	if err != nil {
		return fmt.Errorf("read what the agent printed: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close(), os.Truncate(errLog, 0)) }()
	dst, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write the attempt's log: %w", err)
	}
	if _, err = dst.WriteString("\n--- standard error of the agent ---\n"); err == nil {
		_, err = io.Copy(dst, src)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("write the attempt's log: %w", err)
	}
	return nil
}

// repair undoes what no attempt may change, and says so; who is the part of it that did it.
func (l *Loop) repair(ctx context.Context, tr *trial, who string) error {
	notes, err := l.guard.repair(ctx, &tr.footing, who)
	if err != nil {
		return err
	}
	mended, err := l.mend(tr, who)
	if err != nil {
		return err
	}
	put, err := l.fixed.putBack(l.tools.FS, who, strings.TrimSuffix(tr.log, ".log")+".changed")
	if err != nil {
		return err
	}
	missed, err := l.missLists(tr, who)
	if err != nil {
		return err
	}
	for _, n := range slices.Concat(mended, put, missed, notes) {
		e := l.event(journal.Warning, tr)
		e.Reason, e.Message = journal.ReasonUndone, n
		if err := l.record(e); err != nil {
			return err
		}
	}
	if !tr.edited {
		return nil
	}
	tr.edited = false
	return l.warn(tr, l.relative(l.job.File.Path())+" was changed during the "+who+", by somebody outside the sandbox: the change is kept")
}

// keep stores the attempt as a commit of its own, so that nothing an agent wrote is lost. An
// attempt that changed nothing and committed nothing leaves nothing to keep.
func (l *Loop) keep(ctx context.Context, tr *trial) (ref string, err error) {
	if tr.after == "" || tr.after == tr.base && tr.commits == "" {
		return "", nil
	}
	var parents []string
	head, err := l.tools.Repo.Head(ctx)
	if err != nil {
		return "", gitErr("read HEAD", err)
	}
	for _, p := range []string{head.Hash, tr.commits} {
		if p != "" && !slices.Contains(parents, p) {
			parents = append(parents, p)
		}
	}
	ref = RefPrefix(l.state.ID, tr.task.ID) + strconv.Itoa(tr.number)
	msg := fmt.Sprintf("%s: task %s attempt %d: %s\n\n%s\n\nDescartes-Loop: %s\nDescartes-Task: %s\nDescartes-Attempt: %d\nDescartes-Verdict: %s\n",
		l.state.Tag, oneLine(tr.task.ID), tr.number, tr.verdict, oneLine(tr.reason), l.state.ID, oneLine(tr.task.ID), tr.number, tr.verdict)
	if _, err := l.tools.Repo.Keep(ctx, ref, tr.after, parents, l.tools.Mask.Text(msg)); err != nil {
		return "", gitErr("keep the work on task "+tr.task.ID, err)
	}
	return ref, nil
}

// delivered says in one line what a task changed, for the specs of those that depend on it.
func delivered(changed []gitops.Change) string {
	if len(changed) == 0 {
		return ""
	}
	names := make([]string, 0, 8)
	for _, c := range changed[:min(8, len(changed))] {
		names = append(names, string(rune(c.Op))+" "+c.Path)
	}
	s := strings.Join(names, ", ")
	if n := len(changed) - len(names); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// mend puts the task file and the journal back where the attempt changed them.
func (l *Loop) mend(tr *trial, who string) ([]string, error) {
	l.saver.mu.Lock()
	defer l.saver.mu.Unlock()
	var notes []string
	switch kept, err := l.keepEdit(tr); {
	case err != nil:
		return nil, err
	case kept:
		tr.edited = true
	case !l.saver.intact():
		if notes, err = l.mendTasks(who, strings.TrimSuffix(tr.log, ".log")+".tasks"); err != nil {
			return nil, err
		}
	}
	healed, err := l.journal.Heal()
	if err != nil {
		return nil, err
	}
	if healed {
		if err := l.home.Make(l.tools.FS); err != nil {
			return nil, err
		}
		notes = append(notes, "the "+who+" meddled with "+l.relative(l.journal.Path())+", which is put back")
	}
	return notes, l.relock()
}

// keepEdit takes in a change of the task file that no attempt can have made: it is read-only in the sandbox. One that
// leaves no list of tasks is not taken in. The caller holds the saver's lock.
func (l *Loop) keepEdit(tr *trial) (kept bool, err error) {
	if !l.job.Config.Confined() || l.saver.err != nil || l.saver.intact() {
		return false, nil
	}
	if fi, err := os.Lstat(l.job.File.Target()); err != nil || !fi.Mode().IsRegular() {
		return false, nil
	}
	err = l.saver.takeIn(tr.task.ID, l.job.Graph.Status(tr.task.ID))
	if _, bad := errors.AsType[*tasks.FormatError](err); bad {
		return false, nil
	}
	return err == nil, err
}

// mendTasks puts the task file and its mirror back. What the attempt had made of them is kept in files aside.
func (l *Loop) mendTasks(who, aside string) (notes []string, err error) {
	files := []fixedFile{{look: l.saver.seen, real: l.job.File.Target(), data: l.job.File.Bytes()}}
	if m := l.saver.mirror; m != nil {
		files = append(files, fixedFile{look: m.seen, real: m.real, data: m.data})
	}
	g := fixedFiles{root: l.job.Root, files: files}
	notes, err = g.putBack(l.tools.FS, who, aside)
	l.saver.look()
	return notes, err
}
