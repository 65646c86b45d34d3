package gitops

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// CommitWave commits what the attempts of a wave changed, and nothing else, on top of HEAD. The index gets the
// same entries and keeps everything else that is staged in it, as after `git commit --only`.
//
// The index is replaced before the ref: a crash between the two leaves the wave staged, and the next try
// commits it. The other way round it would leave a commit that looks reverted.
func (r *Repo) CommitWave(ctx context.Context, w Wave) (Commit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.wholeTrees(ctx, w); err != nil {
		return Commit{}, fmt.Errorf("commit wave: %w", err)
	}
	if r.commitGit {
		return r.commitByGit(ctx, w)
	}
	c := waveCommit{r: r, w: w}
	done, err := c.run(ctx)
	if err == nil {
		return done, nil
	}
	if r.fallBack(&err) {
		return r.commitByGit(ctx, w)
	}
	return Commit{}, fmt.Errorf("commit wave: %w", err)
}

func (r *Repo) commitByGit(ctx context.Context, w Wave) (Commit, error) {
	if err := r.store.writeOut(); err != nil {
		return Commit{}, fmt.Errorf("commit wave: %w", err)
	}
	plan, err := r.planOnHead(w)
	if err != nil {
		return Commit{}, fmt.Errorf("commit wave: %w", err)
	}
	if err := r.whole(ctx, plan.edits); err != nil {
		return Commit{}, fmt.Errorf("commit wave: %w", err)
	}
	done, err := r.gitCommit(ctx, plan)
	if err != nil {
		return Commit{}, fmt.Errorf("commit wave: %w", err)
	}
	r.store.settled()
	return done, nil
}

func (r *Repo) planOnHead(w Wave) (*wavePlan, error) {
	_, hash, err := r.refs.head()
	if err != nil {
		return nil, err
	}
	tree, err := r.headTree()
	if err != nil {
		return nil, err
	}
	return r.planWave(w, hash, tree)
}

// waveCommit is one native wave commit under way.
type waveCommit struct {
	r     *Repo
	w     Wave
	plan  *wavePlan
	edits map[string]treeItem // of plan, and those of the wave's files; mode 0 deletes
	paths []string            // of edits, sorted

	head       string // the ref to move, "HEAD" when detached
	parent     string
	parentTree objectID
	when       time.Time
}

func (c *waveCommit) run(ctx context.Context) (Commit, error) {
	author, err := c.r.people.author(ctx)
	if err != nil {
		return Commit{}, err
	}
	committer, err := c.r.people.committer(ctx)
	if err != nil {
		return Commit{}, err
	}
	ix, err := readIndex(filepath.Join(c.r.l.gitDir, "index"))
	if err != nil {
		return Commit{}, err
	}
	if err := c.start(); err != nil {
		return Commit{}, err
	}
	if err := c.collect(ctx, ix); err != nil {
		return Commit{}, err
	}
	ed := treeEditor{objects: c.r.store}
	tree, err := ed.edit("", &c.parentTree, c.edits)
	if err != nil {
		return Commit{}, err
	}
	if tree == c.parentTree {
		return Commit{Empty: true, Notes: c.plan.notes(nil)}, nil
	}
	changed, err := c.changedPaths(tree)
	if err != nil {
		return Commit{}, err
	}
	commit, err := c.write(ctx, tree, author, committer)
	if err != nil {
		return Commit{}, err
	}
	c.r.store.settled()
	return Commit{Hash: commit, Paths: changed, Notes: c.plan.notes(changed)}, nil
}

// start finds the branch and its commit.
func (c *waveCommit) start() error {
	branch, hash, err := c.r.refs.head()
	if err != nil {
		return err
	}
	c.head, c.parent, c.parentTree, c.when = branch, hash, emptyTreeID, time.Now()
	if branch == "" {
		c.head = "HEAD"
	}
	if hash != "" {
		if c.parentTree, err = c.r.treeOf(hash); err != nil {
			return err
		}
	}
	return nil
}

// collect finds what each path becomes: by the last result that changed it, then by Files.
func (c *waveCommit) collect(ctx context.Context, ix *index) error {
	var err error
	if c.plan, err = c.r.planWave(c.w, c.parent, c.parentTree); err != nil {
		return err
	}
	if err := c.r.whole(ctx, c.plan.edits); err != nil {
		return err
	}
	c.edits = maps.Clone(c.plan.edits)
	for _, name := range slices.Sorted(maps.Keys(c.w.Files)) {
		if !safePath(name) {
			return &RefusedError{Reason: fmt.Sprintf("%q is no path inside the repository", name)}
		}
		mode := uint32(modeRegular)
		i, tracked := ix.find(name)
		if tracked && ix.entries[i].mode != modeLink {
			mode = ix.entries[i].mode
		}
		if !tracked && c.r.pathIgnored(name) {
			continue
		}
		if err := c.r.scanner.checkEnds(name, c.w.Files[name]); err != nil {
			return err
		}
		id, err := c.r.store.put(kindBlob, c.w.Files[name])
		if err != nil {
			return err
		}
		c.edits[name] = treeItem{mode: mode, id: id}
	}
	c.paths = slices.Sorted(maps.Keys(c.edits))
	return nil
}

func (c *waveCommit) changedPaths(tree objectID) ([]string, error) {
	var out []string
	d := differ{reader: &c.r.store.reader, each: func(path string, _, _ treeItem) { out = append(out, path) }}
	if err := d.dirs("", &c.parentTree, &tree, 0); err != nil {
		return nil, err
	}
	slices.Sort(out)
	return out, nil
}

// write makes the commit and, when everything is on the disk, shows first the index and then the ref.
func (c *waveCommit) write(ctx context.Context, tree objectID, author, committer person) (string, error) {
	var parents []string
	if c.parent != "" {
		parents = []string{c.parent}
	}
	id, err := c.r.putCommit(tree, parents, c.w.Message, author, committer, c.when)
	if err != nil {
		return "", err
	}
	if err := c.r.store.writeOut(); err != nil {
		return "", err
	}
	undo, err := c.r.cli.stage(ctx, c.edits)
	if err != nil {
		return "", err
	}
	subject, _, _ := strings.Cut(c.w.Message, "\n")
	kind := "commit: "
	if c.parent == "" {
		kind = "commit (initial): "
	}
	if err := c.r.setRef(ctx, c.head, c.parent, id.String(), kind+subject); err != nil {
		undo()
		return "", err
	}
	return id.String(), nil
}
