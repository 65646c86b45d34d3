package gitops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// settleRefs tells of other branches, tags and the like. Only what was deleted comes back, and replacements go.
func (r *Repo) settleRefs(ctx context.Context, g *Guard, s *Repaired) error {
	packedBefore := packedRefs(g.packed.data)
	before := map[string]string{}
	for _, m := range []map[string]string{packedBefore, g.loose} {
		for n, h := range m {
			if watchedRef(n) {
				before[n] = h
			}
		}
	}
	loose, err := looseRefs(r.l, r.saved)
	if err != nil {
		return err
	}
	after := loose
	packed, err := r.saved.save(g.packed.path)
	if err != nil {
		return err
	}
	for n, h := range packedRefs(packed.data) {
		if _, ok := after[n]; !ok && watchedRef(n) {
			after[n] = h
		}
	}
	var lost []string
	for _, n := range sortedKeys(before) {
		if _, there := after[n]; there || n == g.at.Branch || n == "refs/stash" {
			continue
		}
		err := r.refBack(ctx, n, before[n], s)
		switch {
		case errors.Is(err, errObjectsGone):
			lost = append(lost, shortRef(n)+" ("+shortHash(before[n])+")")
		case err != nil:
			return err
		default:
			s.note("%s was deleted during the attempt and put back at %s", shortRef(n), shortHash(before[n]))
		}
	}
	for _, n := range sortedKeys(after) {
		old, known := before[n]
		switch {
		case old == after[n] || n == g.at.Branch || strings.HasPrefix(n, "refs/remotes/"): // a fetch is no harm
		case n == "refs/stash": // told by its log
		case !known && strings.HasPrefix(n, "refs/replace/"):
			kept, err := r.moveAside(ctx, n)
			if err != nil {
				return err
			}
			s.note("%s, which shows another object in the place of one, was made during the attempt; it is moved to %s", n, kept)
		case !known:
			if h, err := r.refs.hash(n); err != nil || h != "" { // not moved aside meanwhile
				s.noteOnce(g, "%s was made during the attempt and is left at %s", shortRef(n), shortHash(after[n]))
			}
		default:
			s.noteOnce(g, "%s was moved during the attempt from %s to %s and is left there", shortRef(n), shortHash(old), shortHash(after[n]))
		}
	}
	if len(lost) > 0 {
		return &RefusedError{Reason: "deleted during the attempt, with its objects, so that it cannot be put back: " + strings.Join(lost, ", "),
			Hint: "fetch what is missing from a clone or a remote, or restore a backup; descartes loop resume goes on without it"}
	}
	return nil
}

var errObjectsGone = errors.New("its objects are gone")

// refBack sets a ref to what it was. What has come to stand in its way is moved aside.
func (r *Repo) refBack(ctx context.Context, name, value string, s *Repaired) error {
	if strings.HasPrefix(value, "ref:") {
		if err := r.makeRoom(ctx, name, s); err != nil {
			return err
		}
		file := savedFile{path: r.refs.file(name), perm: 0o644, data: []byte(value + "\n")}
		return file.putBack(ctx)
	}
	if _, err := r.cli.run(ctx, gitCall{args: []string{"cat-file", "-e", value}}); exitCode(err) != 0 {
		return fmt.Errorf("%s: %w", name, errObjectsGone)
	} else if err != nil {
		return err
	}
	if err := r.makeRoom(ctx, name, s); err != nil {
		return err
	}
	return r.setRef(ctx, name, "", value, "descartes: put back")
}

// makeRoom moves the refs aside that cannot be beside one of that name: a file of refs cannot be a folder too.
func (r *Repo) makeRoom(ctx context.Context, name string, s *Repaired) error {
	blocks := map[string]bool{}
	note := func(n string) {
		if strings.HasPrefix(n, name+"/") || strings.HasPrefix(name, n+"/") {
			blocks[n] = true
		}
	}
	loose, err := looseRefs(r.l, r.saved)
	if err != nil {
		return err
	}
	for n := range loose {
		note(n)
	}
	if err := r.refs.packed(func(n, _ string) { note(n) }); err != nil {
		return err
	}
	for _, n := range sortedKeys(blocks) {
		to, err := r.moveAside(ctx, n)
		if err != nil {
			return err
		}
		s.note("%s stands in the way of %s; it is moved to %s", shortRef(n), shortRef(name), to)
	}
	return nil
}

// moveAside gives a ref another name, below refs/descartes/moved/.
func (r *Repo) moveAside(ctx context.Context, name string) (to string, err error) {
	hash, err := r.refs.hash(name)
	if err == nil && hash != "" {
		to = privateRefs + "moved/" + strings.TrimPrefix(name, "refs/") + "-" + hash[:12]
		var old string
		if old, err = r.refs.hash(to); err == nil && old != hash {
			err = r.setRef(ctx, to, old, hash, "descartes: moved from "+name)
		}
	}
	if err == nil {
		err = r.removeRef(ctx, name)
	}
	if err != nil {
		return "", fmt.Errorf("move %s aside: %w", name, err)
	}
	return to, nil
}

// settleStash tells of stash entries: new ones are kept, dropped ones can be had again.
func (r *Repo) settleStash(_ context.Context, g *Guard, s *Repaired) error {
	now, err := r.saved.save(g.stash.path)
	if err != nil {
		return err
	}
	before, after := stashEntries(g.stash.data), stashEntries(now.data)
	for _, h := range after {
		if !slices.Contains(before, h) {
			s.Back = true
			s.noteOnce(g, "the attempt ran git stash; its entry %s is kept (git stash list)", shortHash(h))
		}
	}
	for _, h := range before {
		if !slices.Contains(after, h) {
			s.noteOnce(g, "the attempt dropped the stash entry %s; git stash store %s brings it back", shortHash(h), h)
		}
	}
	return nil
}

// stashEntries are the commits that a reflog leads to.
func stashEntries(log []byte) []string {
	var out []string
	for line := range strings.Lines(string(log)) {
		if f := strings.Fields(line); len(f) > 1 {
			out = append(out, f[1])
		}
	}
	return out
}
