package gitops

import (
	"io/fs"
	"path/filepath"
	"time"
)

// groundMark is the stat data of everything that a Guard looks at: the files it saved, and each directory in
// which a name could come or go. While it holds, the ground is as it was, and nothing has to be read: a run of
// short tasks spent a third of its own time on reading it anew, twice a task.
type groundMark struct {
	paths  []string
	stamps []fileStamp
	ground Guard
	firm   bool // nothing had changed so shortly before that a further change could have the same times
}

// markSlack is how long after a change another one may still carry the same time stamp: a few ticks of the
// coarse clock that file systems use.
const markSlack = 20 * time.Millisecond

// mark takes the stat data of what g was read from.
func (r *Repo) mark(g *Guard) (groundMark, error) {
	m := groundMark{ground: *g}
	add := func(p string) { m.paths = append(m.paths, p) }
	for _, p := range []string{r.l.gitDir, r.l.commonDir, filepath.Join(r.l.commonDir, "refs"),
		filepath.Join(r.l.gitDir, "logs"), filepath.Join(r.l.commonDir, "logs", "refs", "heads"), filepath.Join(r.l.commonDir, "info")} {
		add(p)
	}
	for _, f := range []*savedFile{&g.head, &g.index, &g.packed, &g.stash, &g.shallow} {
		add(f.path)
	}
	m.paths = append(append(m.paths, r.watched.hooks...), g.folders...)
	for _, list := range [][]savedFile{g.files, g.hooks} {
		for i := range list {
			add(list[i].path)
		}
	}
	for _, top := range refTops {
		err := filepath.WalkDir(filepath.Join(r.l.commonDir, filepath.FromSlash(top)), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				if missing(err) {
					return nil
				}
				return err
			}
			add(path)
			return nil
		})
		if err != nil {
			return m, err
		}
	}
	m.stamps = make([]fileStamp, len(m.paths))
	for i, p := range m.paths {
		var err error
		if m.stamps[i], err = stampOf(p); err != nil {
			return m, err
		}
	}
	m.firm = m.settledBefore(Now().Add(-markSlack))
	return m, nil
}

func (m *groundMark) settledBefore(t time.Time) bool {
	for i := range m.stamps {
		if !time.Unix(m.stamps[i].ctime.Unix()).Before(t) {
			return false
		}
	}
	return true
}

// holds reports whether nothing has changed since the mark was taken.
func (m *groundMark) holds() bool {
	if !m.firm {
		return false
	}
	for i, p := range m.paths {
		now, err := stampOf(p)
		if err != nil || now != m.stamps[i] {
			return false
		}
	}
	return true
}

// is reports whether g is the ground that the mark was taken for.
func (m *groundMark) is(g *Guard) bool {
	return m.ground.at == g.at && m.ground.head.stamp == g.head.stamp && m.ground.index.stamp == g.index.stamp && len(m.ground.files) == len(g.files)
}

// remember marks a ground if it is still what was read.
func (r *Repo) remember(g *Guard) error {
	r.marked = groundMark{}
	m, err := r.mark(g)
	if err != nil || !m.firm {
		return err
	}
	again, err := r.takeGround()
	if err != nil {
		return err
	}
	if sameGround(g, again) {
		r.marked = m
	}
	return nil
}

func sameGround(a, b *Guard) bool {
	if a.head.stamp != b.head.stamp || a.index.stamp != b.index.stamp || a.packed.stamp != b.packed.stamp || a.stash.stamp != b.stash.stamp || a.shallow.stamp != b.shallow.stamp ||
		len(a.files) != len(b.files) || len(a.hooks) != len(b.hooks) || len(a.folders) != len(b.folders) || len(a.loose) != len(b.loose) || len(a.extra) != len(b.extra) {
		return false
	}
	for i := range a.files {
		if a.files[i].stamp != b.files[i].stamp {
			return false
		}
	}
	for i := range a.hooks {
		if a.hooks[i].stamp != b.hooks[i].stamp {
			return false
		}
	}
	for n, h := range a.loose {
		if b.loose[n] != h {
			return false
		}
	}
	return true
}
