package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")

	if err := Write(OS(), path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "one", 0o600)

	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	if err := Write(OS(), path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "two", 0o604) // the mode of the existing file stays

	if err := os.Chmod(path, 0o666); err != nil { // no usual umask grants this to a new file
		t.Fatal(err)
	}
	if err := Write(OS(), path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "", 0o666)
	wantNames(t, dir, "state.json")
}

func TestWriteFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	target, link := filepath.Join(other, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := Write(OS(), link, []byte("new"), 0o600); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("got %v, want that the link is refused", err)
	}
	wantFile(t, target, "old", 0o600)
	wantNames(t, dir, "link")
	wantNames(t, other, "real")
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"dangling": "nowhere", "tofolder": "folder"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	before := names(t, dir)
	tests := []struct{ path, want string }{
		{"folder", "is a directory"},
		{"tofolder", "symbolic link"},
		{"dangling", "symbolic link"},
		{"missing/file", "no such file"},
	}
	for _, test := range tests {
		err := Write(OS(), filepath.Join(dir, test.path), []byte("x"), 0o600)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.path, err, test.want)
		}
	}
	if after := names(t, dir); !slices.Equal(before, after) {
		t.Errorf("left %v, want %v", after, before)
	}
}

func TestWriteRefusesDevice(t *testing.T) {
	t.Parallel()
	if err := Write(OS(), os.DevNull, []byte("x"), 0o600); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}

// faultFS fails its k-th operation with err; a failing write has written half of its bytes first. Short makes that
// write report no error.
type faultFS struct {
	FS
	at, count int
	err       error
	short     bool
	log       []string
}

func (f *faultFS) next(name string) error {
	f.log = append(f.log, name)
	f.count++
	if f.count == f.at {
		return f.err
	}
	return nil
}

func (f *faultFS) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	if err := f.next("open"); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultFile{file, f}, nil
}

func (f *faultFS) Rename(from, to string) error {
	if err := f.next("rename"); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.next("syncdir"); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

type faultFile struct {
	File
	fs *faultFS
}

func (f *faultFile) Write(p []byte) (int, error) {
	err := f.fs.next("write")
	if err == nil {
		return f.File.Write(p)
	}
	n, writeErr := f.File.Write(p[:len(p)/2])
	if f.fs.short {
		return n, writeErr
	}
	return n, errors.Join(err, writeErr)
}

func (f *faultFile) Sync() error {
	if err := f.fs.next("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) Close() error {
	return errors.Join(f.fs.next("close"), f.File.Close())
}

func TestWriteEveryFault(t *testing.T) {
	t.Parallel()
	clean := &faultFS{FS: OS()}
	if err := Write(clean, filepath.Join(t.TempDir(), "f"), []byte("new bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if want := []string{"open", "write", "sync", "close", "rename", "syncdir"}; !slices.Equal(clean.log, want) {
		t.Fatalf("operations %v, want %v", clean.log, want)
	}
	for _, existing := range []bool{true, false} {
		for k := 1; k <= clean.count; k++ {
			for _, fault := range []faultFS{{err: syscall.ENOSPC}, {err: syscall.EIO},
				{err: syscall.EIO, short: true}} {
				if fault.short && clean.log[k-1] != "write" {
					continue
				}
				fault.FS, fault.at = OS(), k
				checkFault(t, &fault, clean.log[k-1], existing)
			}
		}
	}
}

func checkFault(t *testing.T, fault *faultFS, op string, existing bool) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if existing {
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := fault.err
	if fault.short {
		want = io.ErrShortWrite
	}
	if err := Write(fault, path, []byte("new bytes"), 0o600); !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", op, err, want)
	}
	switch {
	case op == "syncdir":
		wantFile(t, path, "new bytes", 0o600)
		wantNames(t, dir, "f")
	case existing:
		wantFile(t, path, "old", 0o600)
		wantNames(t, dir, "f")
	default:
		wantNames(t, dir)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	for _, name := range []string{"x.json", ".x.json.tmp-0123abcd", ".x.json.tmp-zz23abcd", ".x.json.tmp-0123",
		".y.json.tmp-0123abcd", ".x.json.tmp-ffffffff"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Clean(OS(), path); err != nil {
		t.Error(err)
	}
	wantNames(t, dir, ".x.json.tmp-0123", ".x.json.tmp-zz23abcd", ".y.json.tmp-0123abcd", "x.json")
	if err := Clean(OS(), filepath.Join(dir, "no", "such")); err != nil {
		t.Errorf("missing directory: %v", err)
	}
}

func BenchmarkWrite(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	data := make([]byte, 3<<20)
	for b.Loop() {
		if err := Write(OS(), path, data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

func wantFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text || info.Mode().Perm() != mode {
		t.Errorf("%s: got %q %o, want %q %o", path, got, info.Mode().Perm(), text, mode)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("directory holds %v, want %v", got, want)
	}
}
