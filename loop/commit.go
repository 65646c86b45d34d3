package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/tasks"
)

// uncommitted reports whether a wave has verified work, or a task that was given up, that no commit holds.
func (l *Loop) uncommitted(wave int) bool {
	of := func(e journal.Event) bool { return e.Wave == wave }
	return slices.ContainsFunc(l.history.Verified, of) || slices.ContainsFunc(l.history.GivenUp, of)
}

// Uncommitted are the tasks whose verified work lies in the working tree and in no commit.
func (l *Loop) Uncommitted() []string { return l.history.Uncommitted() }

// commitWave commits what a wave has verified and no commit holds: the changes of its verified
// attempts and the task file, nothing else. Where all of its tasks were given up that is the task file
// alone: a fresh clone must not pay for them again.
func (l *Loop) commitWave(ctx context.Context, stop *stopper, number int, ids []string) error {
	if !l.uncommitted(number) || !l.job.Config.Scud.AutoCommitWaves {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	var w gitops.Wave
	var done []string
	for _, v := range l.history.Verified {
		if v.Wave == number {
			w.Results = append(w.Results, pairOf(v))
			done = append(done, v.Task)
		}
	}
	var blocked []journal.Event
	for _, e := range l.history.GivenUp {
		if e.Wave == number && l.job.Graph.Status(e.Task) == tasks.Blocked {
			blocked = append(blocked, e)
		}
	}
	subject := l.subject(number, ids, len(done) > 0)
	w.Message = l.tools.Mask.Text(l.message(subject, number, done, blocked))
	w.UserPaths = l.history.UserPaths
	w.Files = l.taskFile()
	crash.Point("before-wave-commit")
	l.ws.Stale() // a hook may change files
	cctx, over := stop.committing(ctx, l.job.Config.Deadline)
	defer over()
	c, err := l.commitOnce(cctx, number, done, w)
	if err != nil {
		return gitErr(fmt.Sprintf("commit wave %d", number), err)
	}
	crash.Point("wave-committed")
	for _, n := range c.Notes {
		if err := l.record(&journal.Event{Type: journal.Warning, Wave: number, Message: n}); err != nil {
			return err
		}
	}
	if c.Empty {
		of := func(e journal.Event) bool { return e.Wave == number }
		l.history.Verified, l.history.GivenUp = slices.DeleteFunc(l.history.Verified, of), slices.DeleteFunc(l.history.GivenUp, of)
		return nil
	}
	return l.record(&journal.Event{Type: journal.WaveCommitted, Wave: number, Commit: c.Hash, Tasks: done, Message: subject, Of: len(c.Paths), Paths: l.usersIn(c.Paths)})
}

// usersIn lists those of the user's own changes that a commit holds.
func (l *Loop) usersIn(committed []string) []string {
	var out []string
	for _, p := range l.history.UserPaths {
		if slices.Contains(committed, p) {
			out = append(out, p)
		}
	}
	return out
}

// commitOnce makes the commit, unless a loop that died before it could note the hash had made it:
// its trailers tell. One that holds something else than the wave, as a hook may have made it, is kept as a ref and
// made again.
func (l *Loop) commitOnce(ctx context.Context, number int, done []string, w gitops.Wave) (gitops.Commit, error) {
	repo := l.tools.Repo
	if l.resumed && len(done) > 0 {
		hash, found, err := repo.FindWave(ctx, l.state.ID, number, done)
		if err != nil {
			return gitops.Commit{}, err
		}
		if found {
			wrong, err := repo.WaveDiffers(ctx, hash, w)
			if err != nil || len(wrong) == 0 {
				return gitops.Commit{Hash: hash}, err
			}
			keep := fmt.Sprintf("refs/descartes/%s/wave-%d", l.state.ID, number)
			if err := repo.TakeBack(ctx, hash, keep); err != nil {
				return gitops.Commit{}, fmt.Errorf("it differs from what was verified at %s: %w", oneline.List(wrong), err)
			}
			if err := l.record(&journal.Event{Type: journal.Warning, Wave: number, Message: fmt.Sprintf("commit %.12s, which the killed run had made, differs from what was verified at %s; it is kept as %s, and the wave is committed again",
				hash, oneline.List(wrong), keep)}); err != nil {
				return gitops.Commit{}, err
			}
		}
	}
	return repo.CommitWave(ctx, w)
}

// taskFile is the task file as the commit holds it, where it lies in the repository, and the mirror that follows it.
func (l *Loop) taskFile() map[string][]byte {
	files := map[string][]byte{}
	add := func(f *tasks.File) {
		path, err := filepath.EvalSymlinks(f.Path()) // a link stays; what it names is what was saved
		if err != nil {
			path = f.Path()
		}
		rel, err := filepath.Rel(l.tools.Repo.Root(), path)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			files[filepath.ToSlash(rel)] = f.Bytes()
		}
	}
	add(l.job.File)
	if mirror, ok := l.job.File.Mirror(); ok {
		add(mirror)
	}
	return files
}

// subject is the settings' template, or calls a wave complete when every task of it is done that nobody set
// aside. A commit that holds the statuses of given up tasks alone adds no feature.
func (l *Loop) subject(number int, ids []string, verified bool) string {
	if t := l.job.Config.Git.CommitTemplate; t != "" {
		return oneline.Text(Names{Iteration: l.history.Iteration, Wave: number, Tag: l.state.Tag, At: l.tools.Now()}.Expand(t))
	}
	done, of := 0, 0
	for _, id := range ids {
		switch s := l.job.Graph.Status(id); {
		case s == tasks.Done:
			done++
			of++
		case !setAside(s):
			of++
		}
	}
	kind := "feat"
	if !verified {
		kind = "chore"
	}
	if done == of {
		return fmt.Sprintf("%s(%s): complete wave %d", kind, l.state.Tag, number)
	}
	return fmt.Sprintf("%s(%s): wave %d, %d of %d tasks", kind, l.state.Tag, number, done, of)
}

func (l *Loop) message(subject string, number int, done []string, blocked []journal.Event) string {
	var b strings.Builder
	b.WriteString(subject + "\n\n")
	for _, id := range done {
		fmt.Fprintf(&b, "- %s %s\n", oneline.Text(id), oneline.Text(l.title(id)))
	}
	for _, e := range blocked {
		fmt.Fprintf(&b, "- %s %s (blocked: %s)\n", oneline.Text(e.Task), oneline.Text(e.Title), oneline.Text(e.Reason))
	}
	fmt.Fprintf(&b, "\nDescartes-Loop: %s\nDescartes-Wave: %d\n", l.state.ID, number)
	for _, id := range done {
		fmt.Fprintf(&b, "Descartes-Task: %s\n", oneline.Text(id))
	}
	if l.job.Config.Git.CostTrailer {
		fmt.Fprintf(&b, "Descartes-Cost: %s\n", l.costOf(done).Trailer())
	}
	return b.String()
}

// pairOf is what a verified attempt changed, for the wave's commit.
func pairOf(e journal.Event) gitops.Pair {
	return gitops.Pair{Base: gitops.Tree(e.Base), Result: gitops.Tree(e.Tree), Head: e.Commit, Without: e.Paths}
}
