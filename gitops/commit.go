package gitops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CommitWave commits what the attempts of a wave changed, and nothing else, on top of a slot's HEAD. It leaves the slot's index as it is: the next
// Prepare makes it anew.
func (r *Repo) CommitWave(ctx context.Context, w Wave) (Commit, error) {
	r.AwaitGC(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	done, err := r.commitWave(ctx, w)
	if err != nil {
		return Commit{}, fmt.Errorf("commit wave: %w", err)
	}
	return done, nil
}

// errHeadMoved says that HEAD moved since the commit was planned, and that nothing was committed.
var errHeadMoved = errors.New("HEAD was moved meanwhile")

// commitWave plans again if HEAD moves before the commit is made.
func (r *Repo) commitWave(ctx context.Context, w Wave) (Commit, error) {
	_, first, err := r.refs.head()
	if err != nil {
		return Commit{}, err
	}
	for range 3 {
		done, err := r.commitOnHead(ctx, w)
		if err == errHeadMoved {
			continue
		}
		if _, head, herr := r.refs.head(); err == nil && herr == nil && done.Empty && head != first {
			done.Notes = append(done.Notes, fmt.Sprintf("somebody else committed what this wave changed meanwhile: HEAD is %s", shortHash(head)))
		}
		return done, err
	}
	return Commit{}, &RefusedError{Reason: "HEAD was moved each of the three times that the commit was tried", Hint: "look for what commits here at the same time: git log"}
}

func (r *Repo) commitOnHead(ctx context.Context, w Wave) (Commit, error) {
	c := waveCommit{r: r}
	var err error
	if c.branch, c.parent, err = r.refs.head(); err != nil {
		return Commit{}, err
	}
	if c.before, err = r.headTree(); err != nil {
		return Commit{}, err
	}
	if c.plan, err = r.planWave(w, c.parent, c.before); err != nil {
		return Commit{}, err
	}
	head := &treeView{store: r.store, root: c.before}
	if err := c.collect(ctx, head); err != nil {
		return Commit{}, err
	}
	changes := map[string]treeItem{}
	for name, item := range c.entries {
		is, err := head.file(name)
		if err != nil {
			return Commit{}, err
		}
		if is.mode != item.mode || is.id != item.id {
			changes[name] = item
			if item.mode == modeGitlink && is.mode != modeGitlink {
				c.plan.inner = append(c.plan.inner, name)
			}
		}
	}
	if len(changes) == 0 {
		return Commit{Empty: true, Notes: c.plan.notes()}, nil
	}
	hash := ""
	if r.byGit != "" {
		hash, err = c.byGit(ctx)
	} else {
		hash, err = c.byUs(ctx)
	}
	if err == nil && w.Root {
		hash, err = r.rootOf(ctx, hash)
	}
	if err != nil {
		return Commit{}, err
	}
	r.store.forgetRecent()
	return c.made(context.WithoutCancel(ctx), hash, changes)
}

// rootOf stores a commit once more, without parents and without a signature, which would not fit.
func (r *Repo) rootOf(ctx context.Context, hash string) (string, error) {
	text, err := r.cli.run(ctx, gitCall{args: []string{"cat-file", "commit", hash}})
	if err != nil {
		return "", err
	}
	head, message, _ := strings.Cut(string(text), "\n\n")
	var kept []string
	for _, line := range strings.Split(head, "\n") {
		if name, _, _ := strings.Cut(line, " "); slices.Contains([]string{"tree", "author", "committer", "encoding"}, name) {
			kept = append(kept, line)
		}
	}
	made, err := r.cli.run(ctx, gitCall{args: []string{"hash-object", "-t", "commit", "-w", "--stdin"}, stdin: []byte(strings.Join(kept, "\n") + "\n\n" + message)})
	return strings.TrimSpace(string(made)), err
}

// waveCommit is a wave commit under way.
type waveCommit struct {
	r       *Repo
	plan    *wavePlan
	entries map[string]treeItem // of the plan, and of the wave's files; mode 0 deletes

	branch string // "" when HEAD is detached
	parent string // "" on an unborn branch
	before objectID
}

// orMoved returns errHeadMoved if that is why git refused.
func (c *waveCommit) orMoved(err error) error {
	said, ok := errors.AsType[*gitError](err)
	if !ok || !strings.Contains(said.said, "cannot lock ref") {
		return err
	}
	if _, head, herr := c.r.refs.head(); herr == nil && head != c.parent {
		return errHeadMoved
	}
	return err
}

// collect finds the new content of each path: from the plan, then from the wave's files.
func (c *waveCommit) collect(ctx context.Context, head *treeView) error {
	c.entries = map[string]treeItem{}
	for name, item := range c.plan.edits {
		c.entries[name] = treeItem{mode: item.mode, id: item.id}
	}
	for _, name := range slices.Sorted(maps.Keys(c.plan.w.Files)) {
		if !safePath(name) {
			return &RefusedError{Reason: fmt.Sprintf("%q is not a path inside the repository", name)}
		}
		is, err := head.file(name)
		if err != nil {
			return err
		}
		if is.mode == 0 {
			ignored, err := c.r.cli.ignored(ctx, name)
			if err != nil {
				return err
			}
			if ignored {
				continue
			}
		}
		item := treeItem{mode: modeRegular}
		if is.mode == modeExec {
			item.mode = modeExec
		}
		if item.id, err = c.r.putFile(ctx, name, c.plan.w.Files[name]); err != nil {
			return err
		}
		c.entries[name] = item
	}
	return nil
}

// putFile stores what a commit should have for a file with this content.
func (r *Repo) putFile(ctx context.Context, name string, data []byte) (objectID, error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"hash-object", "-w", "--stdin", "--path=" + name}, stdin: data})
	if err != nil {
		return objectID{}, err
	}
	return parseID(strings.TrimSpace(string(b)))
}

// byUs makes the commit through go-git and, once everything is on disk, updates the ref.
func (c *waveCommit) byUs(ctx context.Context) (hash string, err error) {
	author, err := c.r.people.author(ctx)
	if err != nil {
		return "", err
	}
	committer, err := c.r.people.committer(ctx)
	if err != nil {
		return "", err
	}
	ed := treeEditor{objects: c.r.store}
	tree, err := ed.edit("", &c.before, c.entries)
	if err != nil {
		return "", err
	}
	kind, ref := "commit: ", c.branch
	var parents []string
	if c.parent == "" {
		kind = "commit (initial): "
	} else {
		parents = []string{c.parent}
	}
	if ref == "" {
		ref = "HEAD"
	}
	id, err := c.r.putCommit(tree, parents, c.plan.w.Message, author, committer, time.Now())
	if err != nil {
		return "", err
	}
	if err := c.r.store.writeOut(); err != nil {
		return "", err
	}
	subject, _, _ := strings.Cut(c.plan.w.Message, "\n")
	if err := c.r.setRef(ctx, ref, c.parent, id.String(), kind+subject); err != nil {
		return "", c.orMoved(err)
	}
	return id.String(), nil
}

// made reads the resulting commit: hooks may have changed it.
func (c *waveCommit) made(ctx context.Context, hash string, planned map[string]treeItem) (Commit, error) {
	after, err := c.r.treeOf(hash)
	if err != nil {
		return Commit{}, err
	}
	final := map[string]treeItem{}
	d := differ{store: c.r.store, each: func(name string, _, is treeItem) {
		final[strings.Clone(name)] = treeItem{mode: is.mode, id: is.id}
	}}
	if err := d.dirs("", &c.before, &after, 0); err != nil {
		return Commit{}, err
	}
	done := Commit{Hash: hash, Paths: sortedKeys(final)}
	done.Notes = c.plan.notes()
	if !maps.Equal(final, planned) {
		done.Notes = append(done.Notes, "hooks changed what was committed")
	}
	return done, nil
}

// wavePlan is the wave's new content of each path, on top of HEAD.
type wavePlan struct {
	w     Wave
	edits map[string]treeItem // mode 0 deletes
	left  []string            // paths that stay as HEAD has them, one note each
	inner []string            // paths of new repositories of their own
	late  string              // a note on how the commit was made, "" for none
}

// planWave takes for each path the last result that changed it. If HEAD has something that no attempt of the wave started from or produced, somebody
// has committed it meanwhile: that stays.
func (r *Repo) planWave(w Wave, head string, tree objectID) (*wavePlan, error) {
	p := &wavePlan{w: w, edits: map[string]treeItem{}}
	known, err := r.collectEdits(p, head)
	if err != nil {
		return nil, err
	}
	now := &treeView{store: r.store, root: tree}
	var foreign []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ours := w.Files[name]; ours {
			continue
		}
		at, err := now.file(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(known[name], func(k treeItem) bool { return k.mode == at.mode && k.id == at.id }) {
			foreign = append(foreign, name)
		}
	}
	p.leave(foreign)
	if foreign, err = p.inTheWay(now); err != nil {
		return nil, err
	}
	p.leave(foreign)
	return p, nil
}

// collectEdits fills in the edits and returns what HEAD may have at each path that depends on it.
func (r *Repo) collectEdits(p *wavePlan, head string) (map[string][]treeItem, error) {
	known, settled := map[string][]treeItem{}, map[string]bool{}
	views := map[string]*treeView{}
	for _, pair := range p.w.Results {
		then := views[pair.Head]
		if pair.Head != "" && pair.Head != head && then == nil {
			tree, err := r.treeOf(pair.Head)
			if err != nil {
				return nil, fmt.Errorf("read where HEAD was: %w", err)
			}
			then = &treeView{store: r.store, root: tree}
			views[pair.Head] = then
		}
		var failed error
		err := r.diffTrees(pair.Base, pair.Result, func(name string, a, b treeItem) {
			name = strings.Clone(name)
			p.edits[name] = b
			if settled[name] || pair.Head != "" && pair.Head == head { // nobody has committed anything since
				settled[name] = true
				delete(known, name)
				return
			}
			known[name] = append(known[name], a, b)
			if then != nil {
				at, err := then.file(name)
				if err != nil {
					failed = err
				}
				known[name] = append(known[name], at)
			}
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

func (p *wavePlan) leave(names []string) {
	for _, name := range names {
		delete(p.edits, name)
		p.left = append(p.left, name)
	}
	slices.Sort(p.left)
}

// inTheWay returns the files that could only be added at the cost of others in HEAD: a directory that became a file there, or one that got more files
// where we have a file.
func (p *wavePlan) inTheWay(now *treeView) ([]string, error) {
	gone := func(name string) bool {
		item, ok := p.edits[name]
		return ok && item.mode == 0
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.edits)) {
		if p.edits[name].mode == 0 {
			continue
		}
		blocked := false
		for dir := path.Dir(name); dir != "." && !blocked; dir = path.Dir(dir) {
			at, err := now.file(dir)
			if err != nil {
				return nil, err
			}
			blocked = at.mode != 0 && !gone(dir)
		}
		below, err := now.below(name)
		if err != nil {
			return nil, err
		}
		if blocked || slices.ContainsFunc(below, func(f string) bool { return !gone(f) }) {
			out = append(out, name)
		}
	}
	return out, nil
}

// notes are for people: what was left, and what is odd about what is committed.
func (p *wavePlan) notes() []string {
	var out []string
	if p.late != "" {
		out = append(out, p.late)
	}
	for _, name := range p.left {
		out = append(out, name+" was committed by somebody else meanwhile and is left as it is")
	}
	for _, name := range slices.Sorted(slices.Values(p.inner)) {
		out = append(out, name+" is a repository of its own: the commit holds only the id of its commit")
	}
	return out
}

// historyLimit limits every walk through history: what a run looks for is never far from HEAD.
const historyLimit = 500

// FindCommit looks for a commit whose message has these trailers, each a line of the form "Key: value": from from, or from HEAD if that is "", back
// through the nearest few hundred ancestors.
func (r *Repo) FindCommit(ctx context.Context, from string, lines ...string) (hash string, ok bool, err error) {
	if from == "" {
		if _, from, err = r.refs.head(); err != nil || from == "" {
			return "", false, err
		}
	}
	err = r.walk(ctx, from, historyLimit, func(h, message string) bool {
		has := trailers(message)
		ok = !slices.ContainsFunc(lines, func(line string) bool {
			key, value, _ := strings.Cut(line, ": ")
			return !slices.Contains(has[key], value)
		})
		if ok {
			hash = h
		}
		return !ok
	})
	if err != nil {
		return "", false, fmt.Errorf("look for a commit with %s: %w", strings.Join(lines, ", "), err)
	}
	return hash, ok, nil
}

// WaveCommit is what a wave's commit says about itself.
type WaveCommit struct {
	Loop    string
	Number  int
	Tasks   []string
	Subject string
	Tree    Tree
	Files   int // files that differ from its parent's
}

// ReadWave reads the commit of a wave; for any other commit it returns the zero value.
func (r *Repo) ReadWave(ctx context.Context, hash string) (w WaveCommit, err error) {
	c, err := r.store.commit(hash)
	if err != nil {
		return w, fmt.Errorf("read commit %s: %w", shortHash(hash), err)
	}
	t := trailers(c.Message)
	if len(t["Descartes-Loop"]) == 0 || len(t["Descartes-Wave"]) == 0 {
		return w, nil
	}
	w = WaveCommit{Loop: t["Descartes-Loop"][0], Tasks: t["Descartes-Task"], Tree: Tree(c.TreeHash.String())}
	w.Subject, _, _ = strings.Cut(c.Message, "\n")
	if w.Number, err = strconv.Atoi(t["Descartes-Wave"][0]); err != nil || len(c.ParentHashes) == 0 {
		return w, err
	}
	before, err := r.CommitTree(c.ParentHashes[0].String())
	if err != nil {
		return w, err
	}
	changed, err := r.Changed(ctx, before, w.Tree)
	w.Files = len(changed)
	return w, err
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

// walk calls visit for a commit and its ancestors, nearest first, until it returns false or limit is reached. Missing history (a shallow clone) is
// not an error.
func (r *Repo) walk(ctx context.Context, from string, limit int, visit func(hash, message string) bool) error {
	queue, seen := []string{from}, map[string]bool{from: true}
	for n := 0; n < limit && n < len(queue); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := r.store.commit(queue[n])
		if err != nil {
			if n == 0 {
				return err
			}
			continue
		}
		if !visit(queue[n], c.Message) {
			return nil
		}
		for _, parent := range c.ParentHashes {
			if p := parent.String(); !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return nil
}

// parentOf is the first parent of a commit, "" for one without.
func (r *Repo) parentOf(commit string) (string, error) {
	c, err := r.store.commit(commit)
	if err != nil || len(c.ParentHashes) == 0 {
		return "", err
	}
	return c.ParentHashes[0].String(), nil
}

// backToParent moves a branch ("" is a detached HEAD) from commit to that one's parent.
func (r *Repo) backToParent(ctx context.Context, branch, commit string) error {
	parent, err := r.parentOf(commit)
	if err != nil {
		return err
	}
	branch = cmp.Or(branch, "HEAD")
	if parent == "" {
		return r.removeRef(ctx, branch)
	}
	return r.setRef(ctx, branch, commit, parent, "descartes: taken back")
}
