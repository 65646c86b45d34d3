package gitops

import (
	"context"
	"slices"
	"strings"
	"time"
)

// settleRefs tells of other branches, tags and the stash. Only what was deleted comes back.
func (r *Repo) settleRefs(ctx context.Context, g Ground, s *Settled) error {
	packedBefore := packedRefs(g.packed.data)
	before := map[string]string{}
	for _, m := range []map[string]string{packedBefore, g.loose} {
		for n, h := range m {
			if strings.HasPrefix(n, "refs/heads/") || strings.HasPrefix(n, "refs/tags/") || n == "refs/stash" {
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
		if _, ok := after[n]; !ok {
			after[n] = h
		}
	}
	for _, n := range sortedKeys(before) {
		if _, there := after[n]; there || n == g.at.Branch || n == "refs/stash" || strings.HasPrefix(before[n], "ref:") {
			continue
		}
		u, err := r.refs.prepare(ctx, n, "", before[n], true)
		if err == nil {
			err = u.finish(r.people.keeper(ctx), time.Now(), "descartes: put back", false)
		}
		if err != nil {
			return err
		}
		s.note("%s was deleted during the attempt and put back at %s", shortRef(n), shortHash(before[n]))
	}
	for _, n := range sortedKeys(after) {
		old, known := before[n]
		switch {
		case old == after[n] || n == g.at.Branch || !known && !settledRef(n):
		case n == "refs/stash": // told by its log
		case !known:
			s.noteOnce(g, "%s was made during the attempt and is left at %s", shortRef(n), shortHash(after[n]))
		default:
			s.noteOnce(g, "%s was moved during the attempt from %s to %s and is left there", shortRef(n), shortHash(old), shortHash(after[n]))
		}
	}
	return nil
}

// settleStash tells of stash entries: new ones are kept, dropped ones can be had again.
func (r *Repo) settleStash(_ context.Context, g Ground, s *Settled) error {
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

func settledRef(n string) bool {
	return strings.HasPrefix(n, "refs/heads/") || strings.HasPrefix(n, "refs/tags/") || n == "refs/stash"
}
