//go:build unix

package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// world is a project with a repository, beside files that are not its own.
func world(t *testing.T) (project, outside string) {
	t.Helper()
	top := t.TempDir()
	project, outside = filepath.Join(top, "project"), filepath.Join(top, "outside")
	for _, dir := range []string{filepath.Join(project, ".git"), filepath.Join(project, "docs"),
		filepath.Join(outside, ".git")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(project, "docs", "a.md"), "inside")
	write(t, filepath.Join(outside, "key"), "secret")
	for name, to := range map[string]string{
		"within": "docs/a.md", "folder": "docs", "out": outside + "/key", "up": "../outside/key",
		"otherrepo": "../outside", "zero": "/dev/zero",
		"circle": "circle", "dangling": "docs/none",
	} {
		if err := os.Symlink(to, filepath.Join(project, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("key", filepath.Join(outside, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(project, filepath.Join(top, "entry")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(project, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	return project, outside
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	project, outside := world(t)
	entry := filepath.Join(filepath.Dir(project), "entry")
	for _, test := range []struct{ root, path, want, reason string }{
		{project, "docs/a.md", "inside", ""},
		{project, "within", "inside", ""},
		{project, "folder/a.md", "inside", ""},
		{"", filepath.Join(project, "within"), "inside", ""},
		{entry, "within", "inside", ""},
		{entry, filepath.Join(project, "out"), "", "leads out of the project"},
		{project, filepath.Join(entry, "out"), "", "leads out of the project"},
		{project, "out", "", "leads out of the project"},
		{project, "up", "", "leads out of the project"},
		{"", filepath.Join(project, "up"), "", "leads out of the project"},
		{project, "otherrepo/key", "", "leads out of the project"},
		{"", filepath.Join(project, "otherrepo", "key"), "", "leads out of the project"},
		{project, "zero", "", "leads out of the project"},
		{project, "circle", "", "circle"},
		{project, "fifo", "", "is not a regular file but a FIFO"},
		{project, "docs", "", "is a directory"},
		{project, filepath.Join(outside, "key"), "secret", ""},
		{project, filepath.Join(outside, "link"), "secret", ""},
		{project, "/dev/zero", "", "is not a regular file but a device"},
	} {
		b, err := Read(test.root, test.path, 1<<10)
		var refused *Error
		switch {
		case test.reason == "" && (err != nil || string(b) != test.want):
			t.Errorf("%q, %s: got %q, %v, want %q", test.root, test.path, b, err, test.want)
		case test.reason != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), test.reason) ||
			!strings.HasPrefix(err.Error(), test.path)):
			t.Errorf("%q, %s: got %q, %v, want an error with %q", test.root, test.path, b, err, test.reason)
		}
	}
	for _, path := range []string{"none", "none/none", "dangling"} {
		if _, err := Read(project, path, 1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want that it does not exist", path, err)
		}
	}
	if _, err := Read(project, "docs/a.md", 5); err == nil || !strings.Contains(err.Error(), "has more than 5 bytes") {
		t.Errorf("got %v, want that it is too large", err)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	project, outside := world(t)
	for path, want := range map[string]string{
		"docs/a.md": "", "docs/new.md": "", "new/new.md": "", filepath.Join(outside, "new"): "",
		filepath.Join(outside, "link"): "is a link",
		"within":                       "is a link", "folder/a.md": "is a link", "out": "is a link",
		"otherrepo/new": "is a link", "dangling": "is a link", "fifo": "is a FIFO",
		"docs": "is a directory", "docs/a.md/x": "is a file", "/dev/null": "",
	} {
		err := Writable(project, path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
