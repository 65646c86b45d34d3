package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/tasks"
)

// uncommitted reports whether a wave has verified work that no commit holds.
func (l *Loop) uncommitted(wave int) bool {
	return slices.ContainsFunc(l.ledger.verified, func(v Event) bool { return v.Wave == wave })
}

// commitWave commits what a wave has verified and no commit holds: the changes of its verified
// attempts and the task file, nothing else. With nothing verified it does nothing.
func (l *Loop) commitWave(ctx context.Context, number int, ids []string) error {
	ctx = context.WithoutCancel(ctx) // an interrupted run finishes the commit that it began
	if !l.uncommitted(number) || !l.job.Config.Scud.AutoCommitWaves {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	var w gitops.Wave
	var done []string
	for _, v := range l.ledger.verified {
		if v.Wave == number {
			w.Results = append(w.Results, pairOf(v))
			done = append(done, v.Task)
		}
	}
	subject := l.subject(number, ids)
	w.Message = l.tools.Mask.Text(l.message(subject, number, done))
	w.UserPaths = l.ledger.userPaths
	w.Files = l.taskFile()
	crash.Point("before-wave-commit")
	l.at = "" // a hook may change files
	c, err := l.commitOnce(ctx, number, done, w)
	if err != nil {
		return gitErr(fmt.Sprintf("commit wave %d", number), err)
	}
	crash.Point("wave-committed")
	for _, n := range c.Notes {
		if err := l.record(&Event{Type: Warning, Wave: number, Message: n}); err != nil {
			return err
		}
	}
	if c.Empty {
		l.ledger.verified = slices.DeleteFunc(l.ledger.verified, func(v Event) bool { return v.Wave == number })
		return nil
	}
	return l.record(&Event{Type: WaveCommitted, Wave: number, Commit: c.Hash, Tasks: done, Message: subject, Of: len(c.Paths), Paths: l.usersIn(c.Paths)})
}

// usersIn lists those of the user's own changes that a commit holds.
func (l *Loop) usersIn(committed []string) []string {
	var out []string
	for _, p := range l.ledger.userPaths {
		if slices.Contains(committed, p) {
			out = append(out, p)
		}
	}
	return out
}

// commitOnce makes the commit, unless a loop that died before it could note the hash had made it:
// its trailers tell.
func (l *Loop) commitOnce(ctx context.Context, number int, done []string, w gitops.Wave) (gitops.Commit, error) {
	if l.resumed {
		hash, found, err := l.tools.Repo.FindWave(ctx, l.state.ID, number, done)
		if err != nil {
			return gitops.Commit{}, err
		}
		if found {
			return gitops.Commit{Hash: hash}, nil
		}
	}
	return l.tools.Repo.CommitWave(ctx, w)
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

// subject is the settings' template, or calls a wave complete when nothing in it can still be run.
func (l *Loop) subject(number int, ids []string) string {
	if t := l.job.Config.Git.CommitTemplate; t != "" {
		return oneLine(Names{Iteration: l.ledger.iteration, Wave: number, Tag: l.state.Tag, At: l.tools.Now()}.Expand(t))
	}
	done, left := 0, 0
	for _, id := range ids {
		if l.job.Graph.Status(id) == tasks.Done {
			done++
		} else if l.job.Graph.Ready(id) {
			left++
		}
	}
	if left == 0 {
		return fmt.Sprintf("feat(%s): complete wave %d", l.state.Tag, number)
	}
	return fmt.Sprintf("feat(%s): wave %d, %d of %d tasks", l.state.Tag, number, done, len(ids))
}

func (l *Loop) message(subject string, number int, done []string) string {
	var b strings.Builder
	b.WriteString(subject + "\n\n")
	for _, id := range done {
		fmt.Fprintf(&b, "- %s %s\n", oneLine(id), oneLine(l.title(id)))
	}
	fmt.Fprintf(&b, "\nDescartes-Loop: %s\nDescartes-Wave: %d\n", l.state.ID, number)
	for _, id := range done {
		fmt.Fprintf(&b, "Descartes-Task: %s\n", oneLine(id))
	}
	if l.job.Config.Git.CostTrailer {
		fmt.Fprintf(&b, "Descartes-Cost: %s\n", l.costOf(done).trailer())
	}
	return b.String()
}
