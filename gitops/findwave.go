package gitops

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// historyLimit bounds every walk through history: what a run looks for is never far from HEAD.
const historyLimit = 500

// FindWave looks for the commit of a wave that holds these tasks, by the trailers Descartes-Loop, Descartes-Wave
// and Descartes-Task, from HEAD back through its newest few hundred ancestors.
func (r *Repo) FindWave(ctx context.Context, loop string, wave int, tasks []string) (hash string, ok bool, err error) {
	_, at, err := r.refs.head()
	if err != nil || at == "" {
		return "", false, err
	}
	number := strconv.Itoa(wave)
	err = r.walk(ctx, at, historyLimit, func(h string, message []byte) bool {
		t := trailers(string(message))
		if slices.Contains(t["Descartes-Loop"], loop) && slices.Contains(t["Descartes-Wave"], number) && containsAll(t["Descartes-Task"], tasks) {
			hash, ok = h, true
		}
		return !ok
	})
	if err != nil {
		return "", false, fmt.Errorf("look for wave %d: %w", wave, err)
	}
	return hash, ok, nil
}

// OursSince reports whether no other loop has committed since an attempt began: no new commit that HEAD leads to has
// the trailer of another.
func (r *Repo) OursSince(ctx context.Context, g *Guard, loop string) bool {
	_, at, err := r.refs.head()
	if err != nil || at == "" || at == g.at.Hash {
		return true // what is wrong with HEAD is for Repair to find
	}
	ours, old := true, map[string]bool{}
	if g.at.Hash != "" {
		_ = r.walk(ctx, g.at.Hash, historyLimit, func(h string, _ []byte) bool { old[h] = true; return true })
	}
	_ = r.walk(ctx, at, historyLimit, func(h string, message []byte) bool {
		if old[h] {
			return true
		}
		for _, l := range trailers(string(message))["Descartes-Loop"] {
			ours = ours && l == loop
		}
		return ours
	})
	return ours
}

// trailers reads the last paragraphs of a commit message, as far back as every line has the form "Key: value":
// a hook may have added one of its own.
func trailers(message string) map[string][]string {
	out := map[string][]string{}
	paragraphs := strings.Split(strings.TrimRight(message, "\n \t"), "\n\n")
	for i := len(paragraphs) - 1; i > 0; i-- {
		for line := range strings.Lines(paragraphs[i]) {
			k, v, found := strings.Cut(strings.TrimSpace(line), ": ")
			if !found || strings.Contains(k, " ") {
				return out
			}
			out[k] = append(out[k], v)
		}
	}
	return out
}

func containsAll(have, want []string) bool {
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

// walk calls visit for a commit and its ancestors, nearest first, until it says false or limit is reached.
// History that is not there (a shallow clone) ends quietly.
func (r *Repo) walk(ctx context.Context, from string, limit int, visit func(hash string, message []byte) bool) error {
	queue, seen := []string{from}, map[string]bool{from: true}
	for n := 0; n < limit && n < len(queue); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		id, err := parseID(queue[n])
		if err != nil {
			return err
		}
		b, err := r.store.reader.read(id, kindCommit)
		if err != nil {
			if n == 0 {
				return err
			}
			continue
		}
		head, message, _ := bytes.Cut(b, []byte("\n\n"))
		if !visit(queue[n], message) {
			return nil
		}
		for line := range bytes.Lines(head) {
			p, found := strings.CutPrefix(string(bytes.TrimSpace(line)), "parent ")
			if found && !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return nil
}

// WaveDiffers lists the paths at which a commit holds something else than CommitWave makes of the wave on that
// commit's parent. The wave's files do not count: they may have been written since.
func (r *Repo) WaveDiffers(ctx context.Context, commit string, w Wave) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, err := r.waveDiffers(commit, w)
	if err != nil {
		return nil, fmt.Errorf("compare commit %s with the wave: %w", shortHash(commit), err)
	}
	return out, nil
}

func (r *Repo) waveDiffers(commit string, w Wave) ([]string, error) {
	parent, err := r.parentOf(commit)
	if err != nil {
		return nil, err
	}
	before := emptyTreeID
	if parent != "" {
		if before, err = r.treeOf(parent); err != nil {
			return nil, err
		}
	}
	after, err := r.treeOf(commit)
	if err != nil {
		return nil, err
	}
	plan, err := r.planWave(w, parent, before)
	if err != nil {
		return nil, err
	}
	then, wrong := &treeView{reader: &r.store.reader, root: before}, map[string]bool{}
	for name, want := range plan.edits {
		at, err := then.file(name)
		if err != nil {
			return nil, err
		}
		wrong[name] = at.mode != want.mode || at.id != want.id // until it shows in the commit
	}
	d := differ{reader: &r.store.reader, each: func(name string, _, is treeItem) {
		want, planned := plan.edits[name]
		wrong[strings.Clone(name)] = !planned || want.mode != is.mode || want.id != is.id
	}}
	if err := d.dirs("", &before, &after, 0); err != nil {
		return nil, err
	}
	var out []string
	for _, name := range sortedKeys(wrong) {
		if _, ours := w.Files[name]; wrong[name] && !ours {
			out = append(out, name)
		}
	}
	return out, nil
}

// parentOf is the first parent of a commit, "" for one without.
func (r *Repo) parentOf(commit string) (parent string, err error) {
	id, err := parseID(commit)
	if err != nil {
		return "", err
	}
	b, err := r.store.reader.read(id, kindCommit)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "parent "); ok {
			return p, nil
		}
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	return "", nil
}

// TakeBack keeps the newest commit of the branch as a ref and puts the branch back to its parent. Neither the index
// nor a file changes. A commit with others on top of it is a RefusedError.
func (r *Repo) TakeBack(ctx context.Context, commit, keep string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	branch, at, err := r.refs.head()
	if err == nil && at != commit {
		return &RefusedError{Reason: fmt.Sprintf("commit %s is followed by others", shortHash(commit)), Hint: "look at it with git show " + shortHash(commit) + "; take it back with git revert " + shortHash(commit)}
	}
	parent := ""
	if err == nil {
		parent, err = r.parentOf(commit)
	}
	var old string
	if err == nil {
		old, err = r.refs.hash(keep)
	}
	if err == nil {
		err = r.setRef(ctx, keep, old, commit, "descartes: kept")
	}
	if branch == "" {
		branch = "HEAD"
	}
	switch {
	case err != nil:
	case parent == "":
		err = r.removeRef(ctx, branch)
	default:
		err = r.setRef(ctx, branch, commit, parent, "descartes: taken back")
	}
	if err != nil {
		return fmt.Errorf("take back commit %s: %w", shortHash(commit), err)
	}
	return nil
}
