package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOld(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"bubblewrap 0.8.0": true, "bubblewrap 0.11.1": true,
		"bubblewrap 0.12.0": false, "bubblewrap 1.0": false, "": false, "bwrap: what?": false} {
		if Old(answer) != want {
			t.Errorf("Old(%q): got %v", answer, !want)
		}
	}
}

// TestLinkInTheWay: no sandbox is made over a slot in which a link lies where something is mounted, or on the way.
func TestLinkInTheWay(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project, slot := filepath.Join(base, "project"), filepath.Join(base, "slot")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{project, slot} {
		must(os.MkdirAll(dir+"/.scud", 0o755))
		must(os.MkdirAll(dir+"/docs", 0o755))
		must(os.WriteFile(dir+"/docs/list.json", nil, 0o644))
		must(os.WriteFile(dir+"/descartes.yaml", nil, 0o644))
	}
	for _, mode := range []Mode{Auto, Strict} {
		c := Config{Mode: mode, Root: project, Top: project, Slot: Slot{Tree: slot}, Bwrap: "/bin/true",
			Env: []string{"HOME=" + base}, Keep: []string{project + "/docs/list.json"}}
		if _, err := New(c); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{".scud", "descartes.yaml", "docs", "docs/list.json"} {
			path := filepath.Join(slot, name)
			must(os.Rename(path, path+".was"))
			must(os.Symlink("/oldroot"+base, path))
			_, err := New(c)
			var cannot *CannotError
			if !errors.As(err, &cannot) || !strings.HasPrefix(cannot.Why, name+" is a link") || cannot.Next() == "" {
				t.Errorf("%s, %s: got %v", mode, name, err)
			}
			if b, _ := filepath.Glob(base + "/*"); len(b) > 2 {
				t.Errorf("%s: made outside: %q", name, b)
			}
			must(os.Remove(path))
			must(os.Rename(path+".was", path))
		}
	}
}
