package proc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Search paths lead nowhere that an agent may write: not to the folder where a program works, nor with libraries to
// the project.
func TestAnchored(t *testing.T) {
	env := []string{"PATH=/bin:bin::/repo/bin:.", "LD_LIBRARY_PATH=:/cuda:lib:/repo/lib:/repository",
		"LD_PRELOAD=./x.so libjemalloc.so /repo/x.so:/usr/lib/y.so",
		"PYTHONPATH=:", "LD_AUDIT=x/y.so", "OTHER=./a:"}
	for project, want := range map[string][]string{
		"": {"PATH=/bin:/repo/bin", "LD_LIBRARY_PATH=/cuda:/repo/lib:/repository",
			"LD_PRELOAD=libjemalloc.so:/repo/x.so:/usr/lib/y.so", "OTHER=./a:"},
		"/repo": {"PATH=/bin:/repo/bin", "LD_LIBRARY_PATH=/cuda:/repository",
			"LD_PRELOAD=libjemalloc.so:/usr/lib/y.so", "OTHER=./a:"},
	} {
		if got := Anchored(env, project); !slices.Equal(got, want) {
			t.Errorf("project %q:\n got %q\nwant %q", project, got, want)
		}
	}
}

// What we run ourselves is found nowhere in the project that a folder lies in, neither by a link nor from a folder
// below.
func TestOutside(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{".git", "sub", ".venv/bin"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(top, ".venv"), link); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + top + "/.venv/bin:" + link + "/bin:" + top + "y:/bin"
	for _, dir := range []string{top, filepath.Join(top, "sub")} {
		if got := Outside([]string{path}, dir); !slices.Equal(got, []string{path, "PATH=" + top + "y:/bin"}) {
			t.Errorf("%s: got %q", dir, got)
		}
	}
}
