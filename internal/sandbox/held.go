package sandbox

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	"descartes/agent/process"
	"descartes/internal/oscall"
)

// builds is where held-out checks keep what they build, since is written when that begins, before any agent of the run
// does.
func (h Held) builds() string { return filepath.Join(h.Own, ".builds") }
func (h Held) since() string  { return filepath.Join(h.Own, ".since") }

// begin makes the place of builds: a mount needs one.
func (h Held) begin() {
	if _, err := os.Lstat(h.builds()); err == nil {
		return
	}
	if os.MkdirAll(h.Own, 0o700) == nil && os.WriteFile(h.since(), nil, 0o600) == nil {
		_ = os.Mkdir(h.builds(), 0o700)
	}
}

// warm puts the user's build cache of Go below that of held-out checks: theirs begins with what he has compiled. What is
// newer than the place of their builds is left out: agents write there, too.
func (b *Box) warm() []process.Layer {
	h := b.c.Held
	if b.c.Role != HeldOut || b.c.Cache == "" || !b.c.Mounts() {
		return nil
	}
	user := cmp.Or(b.env["GOCACHE"], filepath.Join(cmp.Or(b.env["XDG_CACHE_HOME"], filepath.Join(b.home, ".cache")), "go-build"))
	since, err := os.Lstat(h.since())
	if _, gone := os.Stat(user); err != nil || gone != nil || !b.c.Layers(context.Background(), h.builds()) {
		return nil
	}
	in := func(name string) string { return filepath.Join(h.builds(), "gocache"+name) }
	for _, part := range []string{"", ".own", ".work", ".newer"} {
		if os.MkdirAll(in(part), 0o700) != nil {
			return nil
		}
	}
	if newer(user, in(".newer"), since.ModTime()) != nil {
		return nil
	}
	return []process.Layer{{At: in(""), Lower: []string{in(".newer"), user}, Upper: in(".own"), Work: in(".work")}}
}

// newer has a layer say that nothing is there of what a cache got since then.
func newer(cache, layer string, since time.Time) error {
	folders, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, d := range folders {
		if !d.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(cache, d.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil || oscall.Touched(info).Before(since) {
				continue
			}
			if err := os.MkdirAll(filepath.Join(layer, d.Name()), 0o700); err != nil {
				return err
			}
			if err := oscall.MakeWhiteout(filepath.Join(layer, d.Name(), f.Name())); err != nil && !os.IsExist(err) {
				return err
			}
		}
	}
	return nil
}
