package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
	"descartes/loop/slot"
)

// Leftover is something that runs left behind and nobody needs any more.
type Leftover struct {
	Kind string // "run", "refs", "slot", "builds" of held-out checks, "pool" with the slots of a project that is gone
	Name string // the loop's id, the slot's number, or the project's folder
	Why  string
	Last time.Time // last use
	Size int64     // bytes on disk
	Refs []string

	paths []string
	slot  int
}

// Leftovers lists what has not been used since a time: finished runs, refs of loops that are gone; and the slots not
// used since another one. It leaves out what a live loop, a loop that can be resumed, or the last loop of a tag
// needs, and the refs of a loop with verified work that no branch has. repo may be nil; pool is the folder with the
// project's slots; held reports whether a loop's trunk has verified work that no branch has.
func (h Home) Leftovers(ctx context.Context, repo *gitops.Repo, pool string, before, slotsBefore time.Time,
	held func(ctx context.Context, repo *gitops.Repo, trunk string) (bool, error)) ([]Leftover, error) {
	refs, err := keptRefs(ctx, repo)
	if err != nil {
		return nil, err
	}
	saved, err := h.List()
	if err != nil {
		return nil, err
	}
	needed, slots := h.needed(saved)
	runs, err := os.ReadDir(filepath.Dir(h.Run("x")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	found := map[string]*Leftover{}
	for _, s := range saved {
		if s.State != nil && !needed[s.State.ID] && s.Path != h.Default() {
			found[s.State.ID] = &Leftover{Kind: "run", Name: s.State.ID, Why: "its run is over",
				Last: s.State.lastActivity(), paths: []string{s.Path, LockOf(s.Path)}}
		} else if s.State != nil {
			needed[s.State.ID] = true
		}
	}
	for _, r := range runs {
		if needed[r.Name()] || ValidID(r.Name()) != nil {
			continue
		}
		if found[r.Name()] == nil {
			found[r.Name()] = &Leftover{Kind: "run", Name: r.Name(), Why: "its run's state is gone"}
		}
		l := found[r.Name()]
		l.paths = append(l.paths, h.Run(r.Name()))
		if _, err := os.Lstat(h.Private(r.Name())); err == nil {
			l.paths = append(l.paths, h.Private(r.Name()))
		}
		l.Last = later(l.Last, newest(h.Run(r.Name()), h.Events(r.Name())))
	}
	for id, list := range refs {
		if needed[id] {
			continue
		}
		if verified, err := held(ctx, repo, TrunkRef(id)); err != nil {
			return nil, &slot.GitError{What: "read " + TrunkRef(id), Err: err}
		} else if verified { // work that no branch has
			continue
		}
		if found[id] == nil {
			found[id] = &Leftover{Kind: "refs", Name: id, Why: "its run is gone"}
		}
		for _, r := range list {
			found[id].Refs, found[id].Last = append(found[id].Refs, r.Name), later(found[id].Last, r.When)
		}
	}
	return h.removable(ctx, repo, pool, found, slots, saved, before, slotsBefore)
}

// removable are the leftovers of loops that are old enough, and those of no loop.
func (h Home) removable(ctx context.Context, repo *gitops.Repo, pool string, found map[string]*Leftover,
	slots map[int]bool, saved []Saved, before, slotsBefore time.Time) ([]Leftover, error) {
	var out []Leftover
	for _, l := range found {
		if l.Last.Before(before) {
			out = append(out, *l)
		}
	}
	if builds, _ := filepath.Glob(filepath.Join(h.Private(".builds"), "*")); len(builds) > 0 &&
		!slices.ContainsFunc(saved, h.IsLive) {
		if last := newest(builds...); last.Before(before) {
			out = append(out, Leftover{Kind: "builds", Name: "holdout", Why: "no run is under way", Last: last,
				paths: []string{h.Private(".builds")}})
		}
	}
	for _, l := range oldSlots(pool, slotsBefore) {
		if slots[l.slot] {
			continue
		}
		if repo != nil {
			kept, err := repo.Refs(ctx, slot.Refs(pool)+l.Name+"/")
			if err != nil {
				return nil, &slot.GitError{What: "list the refs of slots", Err: err}
			}
			for _, r := range kept {
				l.Refs = append(l.Refs, r.Name)
			}
		}
		out = append(out, l)
	}
	for place, root := range slot.Abandoned(pool) {
		out = append(out, Leftover{Kind: "pool", Name: root, Why: "its project is gone", Last: newest(place),
			paths: []string{place}})
	}
	for i := range out {
		for _, path := range out[i].paths {
			out[i].Size += slot.Weight(path)
		}
	}
	slices.SortFunc(out, func(a, b Leftover) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// needed returns the loops that are live, can be resumed, or are the last of their tag, and the slots in which they
// left an attempt open.
func (h Home) needed(saved []Saved) (ids map[string]bool, slots map[int]bool) {
	ids, slots = map[string]bool{}, map[int]bool{}
	last := map[string]*State{}
	for _, s := range saved {
		if s.State == nil {
			continue
		}
		kind := s.State.Kind + " " + s.State.Tag
		if l := last[kind]; l == nil || s.State.StartedAt.After(l.StartedAt) {
			last[kind] = s.State
		}
		if _, busy := Live(LockOf(s.Path)); s.State.Completed && !busy {
			continue
		}
		ids[s.State.ID] = true
		known, err := journal.Load(h.Events(s.State.ID))
		if err != nil {
			continue
		}
		for _, open := range known.Left() {
			slots[open.Slot] = true
		}
	}
	for _, s := range last {
		ids[s.ID] = true
	}
	return ids, slots
}

// oldSlots lists the slots not used since a time. A half-made slot counts as old at any age.
func oldSlots(pool string, before time.Time) (out []Leftover) {
	for _, s := range slot.Slots(pool) {
		if s.Busy || s.Whole && !s.Last.Before(before) {
			continue
		}
		l := Leftover{Kind: "slot", Name: fmt.Sprint(s.Number), Why: "nobody uses it", Last: s.Last,
			paths: []string{s.Dir}, slot: s.Number}
		if !s.Whole {
			l.Why = "it was never finished"
		}
		out = append(out, l)
	}
	return out
}

// Remove removes what Leftovers listed. It skips and returns what is in use by now.
func (h Home) Remove(ctx context.Context, repo *gitops.Repo, pool string, list []Leftover, who Holder) (left []string,
	err error) {
	if slices.ContainsFunc(list, func(l Leftover) bool { return l.Kind != "pool" }) {
		ids, err := TakeLock(ctx, LockOf(h.ids()), LockWait, who) // so that no loop starts meanwhile
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, ids.Release()) }()
	}
	for _, l := range list {
		if l.Kind == "slot" {
			ok, err := slot.RemoveSlot(pool, l.slot)
			if err != nil {
				return left, err
			}
			if !ok {
				left = append(left, "slot "+l.Name)
				continue
			}
		} else {
			if len(l.paths) > 0 && l.Kind != "pool" {
				if _, busy := Live(LockOf(l.paths[0])); busy {
					left = append(left, l.Name)
					continue
				}
			}
			for _, path := range l.paths {
				if err := plainfile.RemoveAll(path); err != nil {
					return left, fmt.Errorf("remove %s: %w", path, err)
				}
			}
		}
		if len(l.Refs) > 0 {
			if err := repo.DeleteRefs(ctx, l.Refs...); err != nil {
				return left, &slot.GitError{What: "remove kept refs", Err: err}
			}
		}
	}
	return left, nil
}

// lastActivity is when the loop last did something.
func (s *State) lastActivity() time.Time {
	if s.LastIterationAt != nil {
		return later(s.StartedAt, *s.LastIterationAt)
	}
	return s.StartedAt
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// newest returns the latest modification time of the files.
func newest(files ...string) (t time.Time) {
	for _, f := range files {
		if fi, err := os.Lstat(f); err == nil {
			t = later(t, fi.ModTime())
		}
	}
	return t
}

// keptRefs are the refs of each loop.
func keptRefs(ctx context.Context, repo *gitops.Repo) (map[string][]gitops.Ref, error) {
	refs := map[string][]gitops.Ref{}
	if repo == nil {
		return refs, nil
	}
	all, err := repo.Refs(ctx, "refs/descartes/")
	if err != nil {
		return nil, &slot.GitError{What: "list kept refs", Err: err}
	}
	for _, r := range all {
		id, _, below := strings.Cut(strings.TrimPrefix(r.Name, "refs/descartes/"), "/")
		if below && !strings.HasPrefix(r.Name, poolRefs) && !strings.HasPrefix(r.Name, TagRefs) {
			refs[id] = append(refs[id], r)
		}
	}
	return refs, nil
}
