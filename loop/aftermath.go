package loop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"descartes/gitops"
)

// look takes the snapshot after an attempt and what differs from before it. Where the agent did not
// claim to be complete, it looks before the verification too: a build's leavings are no work.
func (l *Loop) look(ctx context.Context, tr *trial) error {
	first := tr.after == ""
	unclaimed := !tr.result.Complete
	tree, err := l.tools.Repo.Snapshot(ctx)
	if err != nil {
		return gitErr("snapshot the work on task "+tr.task.ID, err)
	}
	mute := unclaimed && !first && len(tr.changed) == 0
	tr.after = tree
	if mute || tree == tr.before {
		tr.changed = nil
		return nil
	}
	if tr.changed, err = l.tools.Repo.Changed(ctx, tr.before, tree); err != nil {
		return gitErr("compare the work on task "+tr.task.ID, err)
	}
	return nil
}

// settle undoes what no attempt may change, and says so.
func (l *Loop) settle(ctx context.Context, tr *trial) error {
	s, err := l.tools.Repo.Settle(ctx, tr.ground)
	if err != nil {
		return gitErr("put the repository back after task "+tr.task.ID, err)
	}
	tr.commits = s.Commits
	notes, err := l.mend(tr)
	if err != nil {
		return err
	}
	rescued, err := l.rescue(ctx, tr)
	if err != nil {
		return err
	}
	for _, n := range slices.Concat(notes, s.Notes, rescued) {
		if err := l.warn(tr, n); err != nil {
			return err
		}
	}
	return nil
}

// rescue puts back what the user had changed before the run and the attempt threw away: files that
// stand as HEAD has them now and stood otherwise before (git stash, checkout, reset --hard, clean).
// A file that the attempt changed to something new is the attempt's work.
func (l *Loop) rescue(ctx context.Context, tr *trial) ([]string, error) {
	if len(l.ledger.userPaths) == 0 {
		return nil, nil
	}
	now, err := l.tools.Repo.Snapshot(ctx)
	if err != nil {
		return nil, gitErr("snapshot the work on task "+tr.task.ID, err)
	}
	head, err := l.tools.Repo.HeadTree(ctx)
	if err != nil {
		return nil, gitErr("read HEAD", err)
	}
	changed, err := l.tools.Repo.Changed(ctx, tr.before, now)
	if err != nil {
		return nil, gitErr("compare the work on task "+tr.task.ID, err)
	}
	differs, err := l.tools.Repo.Changed(ctx, head, now)
	if err != nil {
		return nil, gitErr("compare the work on task "+tr.task.ID, err)
	}
	var lost []string
	for _, c := range changed {
		asHead := !slices.ContainsFunc(differs, func(d gitops.Change) bool { return d.Path == c.Path })
		if asHead && c.Op != 'A' && slices.Contains(l.ledger.userPaths, c.Path) {
			lost = append(lost, c.Path)
		}
	}
	if len(lost) == 0 {
		return nil, nil
	}
	if err := l.tools.Repo.RestorePaths(ctx, tr.before, lost); err != nil {
		return nil, gitErr("put back your uncommitted changes", err)
	}
	return []string{"the attempt threw away your uncommitted changes, which are put back: " + strings.Join(lost, ", ")}, nil
}

// keep stores the attempt as a commit of its own, so that nothing an agent wrote is lost. An
// attempt that changed nothing and committed nothing leaves nothing to keep.
func (l *Loop) keep(ctx context.Context, tr *trial) (ref string, err error) {
	if tr.after == "" || tr.after == tr.before && tr.commits == "" {
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
	if _, err := l.tools.Repo.Keep(ctx, ref, tr.after, parents, msg); err != nil {
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
func (l *Loop) mend(tr *trial) ([]string, error) {
	l.saver.mu.Lock()
	defer l.saver.mu.Unlock()
	var notes []string
	if !l.saver.intact() {
		note, err := l.mendTasks(strings.TrimSuffix(tr.log, ".log") + ".tasks")
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	healed, err := l.journal.heal()
	if err != nil {
		return nil, err
	}
	if healed {
		if err := l.home.make(l.tools.FS); err != nil {
			return nil, err
		}
		notes = append(notes, "the attempt deleted "+l.relative(l.journal.path)+", which is put back")
	}
	return notes, nil
}

// mendTasks puts the task file back and keeps what the attempt had made of it in the file aside.
func (l *Loop) mendTasks(aside string) (string, error) {
	path := l.job.File.Path()
	got, err := os.ReadFile(path)
	note := fmt.Sprintf("the attempt deleted %s, which is put back", l.relative(path))
	switch {
	case err == nil && string(got) == string(l.job.File.Bytes()):
		return "", nil
	case err == nil:
		if err := os.MkdirAll(filepath.Dir(aside), 0o755); err != nil {
			return "", fmt.Errorf("keep the changed task file: %w", err)
		}
		if err := os.WriteFile(aside, got, 0o600); err != nil {
			return "", fmt.Errorf("keep the changed task file: %w", err)
		}
		note = fmt.Sprintf("the attempt changed %s, which is put back; its text is kept in %s", l.relative(path), l.relative(aside))
	}
	return note, l.saver.restore()
}
