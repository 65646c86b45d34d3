//go:build unix

package oscall

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory is listed whole, however many names it has, and again from its beginning.
func TestList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := map[string]byte{"file": unix.DT_REG, "folder": unix.DT_DIR, "link": unix.DT_LNK}
	for n := range 2000 {
		want[string(rune('a'+n%26))+filepath.Base(t.Name())+string(rune(0x4e00+n))] = unix.DT_REG
	}
	for name, kind := range want {
		var err error
		switch kind {
		case unix.DT_DIR:
			err = os.Mkdir(filepath.Join(dir, name), 0o700)
		case unix.DT_LNK:
			err = os.Symlink("nowhere", filepath.Join(dir, name))
		default:
			err = os.WriteFile(filepath.Join(dir, name), nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	buf, first, err := List(int(d.Fd()), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]byte{}
	for _, e := range first {
		if _, twice := got[e.Name]; twice {
			t.Errorf("%q is listed twice", e.Name)
		}
		got[e.Name] = e.Type
	}
	for name, kind := range want {
		if got[name] != kind {
			t.Errorf("%q is %d, want %d", name, got[name], kind)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
	if _, err := d.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	if _, again, err := List(int(d.Fd()), buf, nil); err != nil || len(again) != len(want) {
		t.Errorf("the second time %d names, %v", len(again), err)
	}
}

// Where the system can open beneath a directory it follows no link there, and opens nothing outside.
func TestOpenBeneath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "in"), 0o700), os.WriteFile(filepath.Join(dir, "in", "f"), []byte("x"), 0o600),
		os.Symlink("in", filepath.Join(dir, "link")), os.Symlink("f", filepath.Join(dir, "in", "last"))); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var opened []string
	for _, path := range []string{"in/f", "link/f", "in/last", "../" + filepath.Base(dir) + "/in/f", dir + "/in/f"} {
		fd, ok, err := OpenBeneath(int(d.Fd()), path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if !ok {
			t.Log("this system has no such call")
			return
		}
		if err == nil {
			opened = append(opened, path)
			unix.Close(fd)
		}
	}
	if !slices.Equal(opened, []string{"in/f"}) {
		t.Errorf("opened %q, want only in/f", opened)
	}
}

// A directory that was opened as a place gets permissions; a file's bytes are written out in either way.
func TestChmodAndSync(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, PathOnly|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := Chmod(fd, 0o700); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("bytes"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(StartWrite(f), FinishWrite(f), Sync(f), f.Close()); err != nil {
		t.Error(err)
	}
	if err := Sync(f); err == nil {
		t.Error("a closed file is synced")
	}
}
