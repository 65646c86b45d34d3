//go:build unix

package plainfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveAll: whatever an attempt left goes, what it links to stays.
func TestRemoveAll(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"nothing":         "true",
		"a file":          "echo x >at",
		"a link":          "ln -s kept at",
		"links":           "mkdir at; ln -s ../kept at/l; ln -s ../kept/x at/m; ln -s / at/r; mkfifo at/p",
		"closed folders":  "mkdir -p at/a/b/c; echo x >at/a/b/c/x; chmod 500 at/a/b; chmod 0 at/a/b/c at/a",
		"many":            "mkdir at; cd at; seq 3000 | xargs touch; mkdir d; cd d; seq 3000 | xargs mkdir",
		"names like ours": "mkdir -p at; cd at; for i in $(seq 70); do mkdir d; cd d; done; mkdir -p .up-1/x .up-2/x/y a/.up-1/b a/.up-3/c/d; echo x >.up-4",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := exec.Command("sh", "-ec", "mkdir kept; echo x >kept/x; "+script)
			c.Dir = dir
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			if err := RemoveAll(filepath.Join(dir, "at")); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "at")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "kept", "x")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRemoveDeep: folders in each other, more than a path has room for and than can be open, with a closed one among
// them.
func TestRemoveDeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const deep = 6000
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for i := range deep {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		if err != nil {
			t.Fatal(i, err)
		}
		next, oerr := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if i == deep/2 {
			err = unix.Fchmod(at, 0o500)
		}
		_ = unix.Close(at)
		at, err = next, errors.Join(err, oerr)
	}
	_ = unix.Close(at)
	if err := RemoveAll(filepath.Join(dir, "d")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
