package gitops

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
)

// keptRefs are the private refs there should be: those of before the run, and what it kept since. A run keeps one for
// every attempt, so what shows that none went are the times of a few folders; all are looked at only when one changed.
type keptRefs struct {
	hashes map[string]string // nil until the first look
	loops  map[string]bool   // that they are of
	last   string            // the ref kept last
	stamps map[string]fileStamp
}

// add notes a ref that we set ourselves.
func (k *keptRefs) add(r *Repo, name, hash string) error {
	if k.hashes == nil || !strings.HasPrefix(name, privateRefs) {
		return nil
	}
	k.note(name, hash)
	k.last = name
	return k.stamp(r)
}

// stamp notes the times of the folders.
func (k *keptRefs) stamp(r *Repo) (err error) {
	k.stamps, err = k.look(r)
	return err
}

func (k *keptRefs) look(r *Repo) (map[string]fileStamp, error) {
	dirs := []string{path.Dir(privateRefs + "any"), path.Dir(cmp.Or(k.last, privateRefs+"any"))}
	for loop := range k.loops {
		dirs = append(dirs, privateRefs+loop)
	}
	out := map[string]fileStamp{}
	for _, dir := range dirs {
		st, err := stampOf(r.refs.file(dir))
		if err != nil {
			return nil, err
		}
		out[dir] = st
	}
	return out, nil
}

// note takes a ref in.
func (k *keptRefs) note(name, hash string) {
	k.hashes[name] = hash
	loop, _, _ := strings.Cut(strings.TrimPrefix(name, privateRefs), "/")
	k.loops[loop] = true
}

// stand reports whether no folder changed.
func (k *keptRefs) stand(r *Repo) bool {
	now, err := k.look(r)
	if err != nil || k.hashes == nil || len(now) != len(k.stamps) {
		return false
	}
	for dir, st := range now {
		if k.stamps[dir] != st {
			return false
		}
	}
	return true
}

// learn reads them for the first time.
func (k *keptRefs) learn(r *Repo) (err error) {
	if k.hashes != nil {
		return nil
	}
	now, _, err := r.refs.list(privateRefs)
	if err != nil {
		return err
	}
	k.hashes, k.loops = map[string]string{}, map[string]bool{}
	for name, hash := range now {
		k.note(name, hash)
	}
	return k.stamp(r)
}

// settleKept puts back the private refs that an attempt deleted or moved.
func (r *Repo) settleKept(ctx context.Context, _ *Guard, s *Repaired) error {
	if r.kept.hashes == nil || r.kept.stand(r) {
		return nil
	}
	now, _, err := r.refs.list(privateRefs)
	if err != nil {
		return err
	}
	back, lost := 0, 0
	for _, name := range sortedKeys(r.kept.hashes) {
		want := r.kept.hashes[name]
		if now[name] == want {
			continue
		}
		if now[name] != "" {
			if err := r.removeRef(ctx, name); err != nil {
				return err
			}
		}
		switch err := r.refBack(ctx, name, want, s); {
		case errors.Is(err, errObjectsGone):
			delete(r.kept.hashes, name)
			lost++
		case err != nil:
			return err
		default:
			back++
		}
	}
	if back > 0 {
		s.note("%d of the kept attempts under %s were deleted during the attempt and put back", back, privateRefs)
	}
	if lost > 0 {
		s.note("%d of the kept attempts under %s were deleted during the attempt with their objects, and are lost", lost, privateRefs)
	}
	for name, hash := range now { // of other loops in this repository
		if _, known := r.kept.hashes[name]; !known {
			r.kept.note(name, hash)
		}
	}
	return r.kept.stamp(r)
}

// settleShallow puts the list of commits whose parents are not here back where an attempt cut the history, or left a
// list that git cannot read or that lacks one. What a fetch makes of it stays.
func (r *Repo) settleShallow(ctx context.Context, g *Guard, s *Repaired) error {
	changed, err := g.shallow.changed()
	if err != nil || !changed {
		return err
	}
	now, err := r.saved.save(g.shallow.path)
	if err != nil {
		return err
	}
	before, after := strings.Fields(string(g.shallow.data)), strings.Fields(string(now.data))
	if (now.kind == 0 || now.stamp == fileStamp{}) && r.shallowFits(before, after) {
		return nil
	}
	kept := r.keepText(g.shallow.path)
	if err := g.shallow.putBack(ctx); err != nil {
		return err
	}
	s.note("%s was changed during the attempt by something else than a fetch, and put back%s", r.inGit(g.shallow.path), kept)
	return nil
}

// shallowFits reports whether a list has every commit that lacks its parents, of those that one of the lists names, and
// no other.
func (r *Repo) shallowFits(before, after []string) bool {
	listed := map[string]bool{}
	for _, h := range before {
		listed[h] = false
	}
	for _, h := range after {
		listed[h] = true
	}
	for h, now := range listed {
		id, err := parseID(h)
		if err != nil {
			return false
		}
		b, err := r.store.reader.read(id, kindCommit)
		if err != nil && now {
			return false
		}
		complete, parents := true, 0
		head, _, _ := strings.Cut(string(b), "\n\n")
		for line := range strings.Lines(head) {
			if p, ok := strings.CutPrefix(strings.TrimSpace(line), "parent "); ok {
				parents++
				complete = complete && !r.lacks(p)
			}
		}
		if was := slices.Contains(before, h); was != now && now == (complete && parents > 0) {
			return false
		}
	}
	return true
}
