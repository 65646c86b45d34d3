package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/crash"
	"descartes/internal/oneline"
	"descartes/internal/receipt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/scheduler"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// uncommitted reports whether a wave has verified or given-up tasks that no commit contains.
func (w *tagWork) uncommitted(wave int) bool {
	return slices.ContainsFunc(w.history.Verified, func(v journal.VerifiedTask) bool { return v.Wave == wave }) ||
		slices.ContainsFunc(w.history.GivenUp, func(b journal.BlockedTask) bool { return b.Wave == wave })
}

// commitAlone commits what a wave has ready, while nothing from slots is folded in.
func (w *tagWork) commitAlone(ctx context.Context, stop *stopper, ln *lane, wave scheduler.Wave) error {
	commit := func() error {
		if !w.uncommitted(wave.Number) || !w.config.Scud.AutoCommitWaves {
			return nil
		}
		return w.commitWave(ctx, stop, ln, wave.Number, wave.Tasks)
	}
	return w.trunk.alone(ctx, commit)
}

// commitWave commits what a wave has verified and no commit contains: the changes of its verified attempts and the task file, nothing else. If all
// its tasks were given up it commits the task file alone, so that a fresh clone does not pay for them again.
func (w *tagWork) commitWave(ctx context.Context, stop *stopper, ln *lane, number int, ids []string) error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.passWave(ctx, stop, ln, number); err != nil {
		return err
	}
	var wave gitops.Wave
	var done []string
	var verified []journal.VerifiedTask
	for _, v := range w.history.Verified {
		if v.Wave == number || w.job.Graph.Status(v.Task) == tasks.Done {
			wave.Results = append(wave.Results, pairOf(v))
			done, verified = append(done, v.Task), append(verified, v)
		}
	}
	var blocked []journal.BlockedTask
	for _, e := range w.history.GivenUp {
		if e.Wave == number && w.job.Graph.Status(e.Task) == tasks.Blocked {
			blocked = append(blocked, e)
		}
	}
	if err := w.approve(ctx, stop, ln, number, verified); err != nil {
		return err
	}
	subject := w.subject(number, ids, len(done) > 0)
	wave.Message = w.tools.Redact.Text(w.message(subject, number, done, blocked))
	wave.Files = w.taskFile()
	crash.Point("before-wave-commit")
	cctx, over := stop.committing(ctx, w.config.Deadline)
	defer over()
	c, tree, err := w.commitOnce(cctx, ln, number, done, wave)
	if err != nil {
		return gitErr(fmt.Sprintf("commit wave %d", number), err)
	}
	crash.Point("wave-committed")
	for _, n := range c.Notes {
		if err := w.record(&journal.Event{Type: journal.Warning, Wave: number, Message: n}); err != nil {
			return err
		}
	}
	if c.Empty {
		w.history.ForgetWave(number)
		return nil
	}
	if err := w.record(&journal.Event{Type: journal.WaveCommitted, Wave: number, Commit: c.Hash, Tree: string(tree), Tasks: done, Message: subject, Of: len(c.Paths)}); err != nil {
		return err
	}
	crash.Point("wave-recorded")
	return w.writeReceipts(cctx)
}

// writeReceipts writes the missing receipts: those of the wave just committed, and those a killed run left out. If they cannot be written the work
// still counts: a warning says so, and the end of the run tries again.
func (w *tagWork) writeReceipts(ctx context.Context) error {
	if !w.config.Receipts.Write {
		return nil
	}
	err := w.receipts(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return w.record(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf("receipts are missing: %v", err)})
}

func (w *tagWork) receipts(ctx context.Context) error {
	add := map[string][]byte{}
	var known map[string][]byte
	for _, c := range w.history.WaveCommits {
		if w.noted[c.Commit] || len(c.Tasks) == 0 {
			continue
		}
		if known == nil {
			var err error
			if known, err = w.tools.Repo.ReadNotes(ctx, receipt.NotesRef); err != nil {
				return err
			}
		}
		text, err := w.receiptsOf(ctx, c, receipt.Held(known[c.Commit]))
		if err != nil {
			return err
		}
		if len(text) > 0 {
			add[c.Commit] = text
		}
	}
	if len(add) > 0 {
		if err := w.tools.Repo.AddNotes(ctx, receipt.NotesRef, add, receipt.Join); err != nil {
			return err
		}
		crash.Point("receipts-noted")
	}
	for _, c := range w.history.WaveCommits {
		if w.noted[c.Commit] || len(c.Tasks) == 0 {
			continue
		}
		if err := receipt.Save(w.tools.FS, w.home.Receipts(), c.Commit, receipt.Join(known[c.Commit], add[c.Commit])); err != nil {
			return err
		}
		w.noted[c.Commit] = true
	}
	return nil
}

// receiptsOf returns the text of a commit's note: a receipt for each of its tasks that the note lacks.
func (w *tagWork) receiptsOf(ctx context.Context, c journal.WaveCommit, have []receipt.Receipt) ([]byte, error) {
	about, err := w.about(ctx, c.Commit)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for _, id := range c.Tasks {
		a := w.history.VerifiedBy(id, c.At)
		if a == nil || slices.ContainsFunc(have, func(r receipt.Receipt) bool { return r.Loop == w.state.ID && r.Task == id }) {
			continue
		}
		f := receipt.Facts{Tag: w.state.Tag, Loop: w.state.ID, Wave: c.Wave, Commit: about, Attempt: a, Policy: policyLines(w.config), Sandbox: cmp.Or(w.config.SandboxInForce, "off"), Program: w.tools.Program}
		of, err := f.Statements()
		if err != nil {
			return nil, err
		}
		lines = append(lines, of...)
	}
	return w.signed(ctx, lines)
}

// about is what a receipt says about a commit.
func (w *tagWork) about(ctx context.Context, hash string) (c receipt.Commit, err error) {
	list, _, err := w.tools.Repo.History(ctx, hash, hash, 1)
	if err != nil {
		return c, err
	}
	before, err := w.tools.Repo.CommitTree(list[0].Parent)
	if err != nil {
		return c, err
	}
	after, err := w.tools.Repo.CommitTree(hash)
	if err != nil {
		return c, err
	}
	c = receipt.Commit{Hash: hash, Tree: string(after)}
	c.PatchID, err = w.tools.Repo.PatchID(ctx, before, after)
	return c, err
}

// signed returns the text of a note with these statements, each in a signed envelope if the settings ask for that.
func (w *tagWork) signed(ctx context.Context, lines [][]byte) ([]byte, error) {
	if len(lines) == 0 || !w.config.Receipts.Sign {
		return receipt.Text(lines), nil
	}
	key := receipt.Key(w.tools.Repo.SigningKey())
	for i := range lines {
		var err error
		w.unlocked(func() { lines[i], err = key.Sign(ctx, lines[i]) })
		if err != nil {
			return nil, err
		}
	}
	return receipt.Text(lines), nil
}

// passWave runs a wave's checks on the whole state before its commit.
func (w *tagWork) passWave(ctx context.Context, stop *stopper, ln *lane, number int) error {
	if len(w.checksAt(verify.AtMerge, verify.AtWave)) == 0 || len(w.history.Verified) == 0 {
		return nil
	}
	err := w.passChecks(ctx, stop, ln, verify.AtWave, number, false)
	if not, ok := errors.AsType[uncheckedError](err); ok {
		return uncheckedError(fmt.Sprintf("wave %d is not committed: %s", number, not))
	}
	return err
}

// commitOnce makes the commit, unless a loop that died before it recorded the hash made it already; the trailers tell. A commit with other content
// than the wave, for example from a hook, is kept as a ref and made again.
func (w *tagWork) commitOnce(ctx context.Context, ln *lane, number int, done []string, wave gitops.Wave) (c gitops.Commit, tree gitops.Tree, err error) {
	repo := w.tools.Repo
	made := func(from string) (string, bool, error) {
		return repo.FindCommit(ctx, from, waveTrailers(w.state.ID, number, done)...)
	}
	return w.trunk.commit(ctx, ln, wave, "", made, 0)
}

// taskFile returns the task file as the commit should have it, and the mirror that follows it, if they are in the repository.
func (w *tagWork) taskFile() map[string][]byte {
	files := map[string][]byte{}
	add := func(f *tasks.File) {
		path, err := filepath.EvalSymlinks(f.Path()) // a link stays a link; its target was saved
		if err != nil {
			path = f.Path()
		}
		rel, err := filepath.Rel(w.tools.Repo.Root(), path)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			files[filepath.ToSlash(rel)] = w.saver.content(f)
		}
	}
	add(w.job.File)
	if mirror, ok := w.job.File.Mirror(); ok {
		add(mirror)
	}
	return files
}

// subject is the template from the settings, or calls a wave complete if all its tasks are done except those a person set aside. A commit that only
// records given-up tasks adds no feature.
func (w *tagWork) subject(number int, ids []string, verified bool) string {
	if t := w.config.Git.CommitTemplate; t != "" {
		return oneline.Text(config.Names{Iteration: w.history.Iteration, Wave: number, Tag: w.state.Tag, At: w.tools.Now()}.Expand(t))
	}
	done, of := 0, 0
	for _, id := range ids {
		switch s := w.job.Graph.Status(id); {
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
		return fmt.Sprintf("%s(%s): complete wave %d", kind, w.state.Tag, number)
	}
	return fmt.Sprintf("%s(%s): wave %d, %d of %d tasks", kind, w.state.Tag, number, done, of)
}

func (w *tagWork) message(subject string, number int, done []string, blocked []journal.BlockedTask) string {
	var b strings.Builder
	b.WriteString(subject + "\n\n")
	for _, id := range done {
		how := ""
		if a := w.history.VerifiedBy(id, w.tools.Now()); a != nil && a.Outcome() == string(journal.Accepted) {
			how = " (accepted)"
		}
		fmt.Fprintf(&b, "- %s %s%s\n", oneline.Text(id), oneline.Text(w.title(id)), how)
	}
	for _, e := range blocked {
		fmt.Fprintf(&b, "- %s %s (blocked: %s)\n", oneline.Text(e.Task), oneline.Text(e.Title), oneline.Text(e.Reason))
	}
	b.WriteString("\n" + strings.Join(waveTrailers(w.state.ID, number, done), "\n") + "\n")
	if w.config.Git.CostTrailer {
		fmt.Fprintf(&b, "Descartes-Cost: %s\n", w.costOf(done).Trailer())
	}
	return b.String()
}

// waveTrailers are the trailers that identify a wave's commit.
func waveTrailers(loop string, number int, done []string) []string {
	lines := []string{"Descartes-Loop: " + loop, fmt.Sprintf("Descartes-Wave: %d", number)}
	for _, id := range done {
		lines = append(lines, "Descartes-Task: "+oneline.Text(id))
	}
	return lines
}

// pairOf returns the trees around a verified attempt, for the wave's commit.
func pairOf(v journal.VerifiedTask) gitops.Pair {
	return gitops.Pair{Base: gitops.Tree(v.Base), Result: gitops.Tree(v.Tree), Head: v.Head}
}

// gitErr marks an error as git's refusal, so that the run ends with that and not with an internal error.
func gitErr(what string, err error) error { return &workspace.GitError{What: what, Err: err} }

func isGit(err error) bool {
	_, git := errors.AsType[*workspace.GitError](err)
	return git
}

// Kept is an attempt as described by the commit that keeps it, for use without its journal.
type Kept struct {
	Loop, Task      string
	Attempt         int
	Verdict, Reason string
	Unfit           bool   // it was verified but could not be integrated; see Reason
	Output          string // end of its verification's output
}

// maxKeptLines limits the output in a commit's message, besides maxWords.
const maxKeptLines = 40

const (
	keptIndent = "    " // so that no output line looks like a trailer
	keptUnfit  = "Descartes-Integrated: no"
)

func (k *Kept) message(tag string) string {
	var b strings.Builder
	id := oneline.Text(k.Task)
	unfit := ""
	if k.Unfit {
		unfit = ", not integrated"
	}
	fmt.Fprintf(&b, "%s: task %s attempt %d: %s%s\n\n%s\n\n", tag, id, k.Attempt, k.Verdict, unfit, oneline.Text(k.Reason))
	lines := strings.Split(strings.TrimRight(tail(k.Output, maxWords), "\n"), "\n")
	if strings.TrimSpace(k.Output) != "" {
		for _, line := range lines[max(0, len(lines)-maxKeptLines):] {
			b.WriteString(keptIndent + oneline.Text(strings.ReplaceAll(line, "\t", keptIndent)) + "\n")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "Descartes-Loop: %s\nDescartes-Task: %s\nDescartes-Attempt: %d\nDescartes-Verdict: %s\n", k.Loop, id, k.Attempt, k.Verdict)
	if k.Unfit {
		b.WriteString(keptUnfit + "\n")
	}
	return b.String()
}

// ReadKept reads a task's attempt from the ref that keeps it. ok is false for any other ref.
func ReadKept(r gitops.Ref, tag, task string) (Kept, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.Name, "refs/descartes/"), "/")
	number, ok := strings.CutPrefix(r.Name, RefPrefix(name, task))
	if !ok || !strings.HasPrefix(r.Message, tag+": task ") {
		return Kept{}, false
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return Kept{}, false
	}
	k := Kept{Loop: name, Task: task, Attempt: n}
	lines := strings.Split(r.Message, "\n")
	if len(lines) > 2 {
		k.Reason = lines[2]
	}
	for _, line := range lines[min(4, len(lines)):] {
		if out, ok := strings.CutPrefix(line, keptIndent); ok {
			k.Output += out + "\n"
		} else if v, ok := strings.CutPrefix(line, "Descartes-Verdict: "); ok {
			k.Verdict = v
		} else if line == keptUnfit {
			k.Unfit = true
		}
	}
	return k, true
}

// verified is 1 for an attempt that was verified and integrated, else 0.
func (k *Kept) verified() int {
	if (k.Verdict == string(verify.Verified) || k.Verdict == string(verify.Accepted)) && !k.Unfit {
		return 1
	}
	return 0
}

// tellEarlier adds to the request for a task's first attempt in a loop the result of its last attempt in an earlier loop.
func (r *SpecRequest) tellEarlier(refs []gitops.Ref, tag, loop string) {
	if r.Attempt > 1 || r.Failure != nil {
		return
	}
	var last Kept
	var ref gitops.Ref
	for _, one := range refs {
		k, ok := ReadKept(one, tag, r.Task)
		if !ok || k.Loop == loop || k.Verdict == string(verify.Cancelled) || k.Verdict == string(verify.Limited) || !r.Before.IsZero() && one.When.After(r.Before) {
			continue
		}
		if cmp.Or(one.When.Compare(ref.When), k.verified()-last.verified(), k.Attempt-last.Attempt) > 0 { // times are in seconds
			last, ref = k, one
		}
	}
	if ref.Name != "" && last.verified() == 0 {
		r.Failure = &specbuild.Failure{Attempt: last.Attempt, Verdict: last.Verdict, Unfit: last.Unfit, Reason: strings.TrimPrefix(last.Reason, journal.NotIntegrated), Output: last.Output, Ref: ref.Name}
	}
}
