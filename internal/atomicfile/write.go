// Package atomicfile owns replacing a file so that every reader, also one after a power cut, sees the old or the new
// bytes and never a mixture.
package atomicfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"descartes/internal/crash"
)

const (
	tempMark = ".tmp-"
	tempHex  = 8 // hexadecimal digits after tempMark
)

// Write replaces the file at path with data: temporary file in the same directory, fdatasync, rename, fsync of the
// directory. On an error before the rename the old file is untouched and the temporary one is removed; an error after
// it (the fsync of the directory) leaves the new bytes in place, not yet certain to survive a power cut. An existing
// file keeps its mode; perm is for a new one. A symbolic link at path is an error: name its target instead. The
// directory must exist.
func Write(fsys FS, path string, data []byte, perm os.FileMode) error {
	mode, exists, err := replaceable(path, perm)
	if err != nil {
		return err
	}
	temp, err := writeTemp(fsys, path, data, mode, exists)
	if err != nil {
		return err
	}
	crash.Point("atomicfile: written " + filepath.Base(path))
	if err := fsys.Rename(temp, path); err != nil {
		return errors.Join(err, removed(fsys.Remove(temp)))
	}
	crash.Point("atomicfile: renamed " + filepath.Base(path))
	return fsys.SyncDir(filepath.Dir(path))
}

// replaceable reports whether there is a file at path, and the mode that the new one gets.
func replaceable(path string, perm os.FileMode) (mode os.FileMode, exists bool, err error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return perm, false, nil
	case err != nil:
		return 0, false, err
	case fi.Mode()&os.ModeSymlink != 0:
		return 0, false, fmt.Errorf("write %s: is a symbolic link, which is not followed", path)
	case fi.IsDir():
		return 0, false, fmt.Errorf("write %s: is a directory", path)
	case !fi.Mode().IsRegular():
		return 0, false, fmt.Errorf("write %s: not a regular file (%s)", path, fi.Mode().Type())
	}
	return fi.Mode().Perm(), true, nil
}

// writeTemp returns the name of a durable temporary file beside target, or an error and no file.
func writeTemp(fsys FS, target string, data []byte, mode os.FileMode, exact bool) (string, error) {
	f, temp, err := createTemp(fsys, target, mode)
	if err != nil {
		return "", err
	}
	err = fill(f, data)
	if err == nil && exact {
		if c, ok := f.(interface{ Chmod(os.FileMode) error }); ok {
			err = c.Chmod(mode) // the mode given to open went through the umask
		}
	}
	if err == nil {
		crash.Point("atomicfile: unsynced " + filepath.Base(target))
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", errors.Join(err, removed(fsys.Remove(temp)))
	}
	return temp, nil
}

func createTemp(fsys FS, target string, mode os.FileMode) (File, string, error) {
	dir, base := filepath.Split(target)
	for try := 0; ; try++ {
		var random [tempHex / 2]byte
		_, _ = rand.Read(random[:]) // never fails, see crypto/rand
		temp := filepath.Join(dir, "."+base+tempMark+hex.EncodeToString(random[:]))
		f, err := fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil {
			return f, temp, nil
		}
		if try == 10 || !errors.Is(err, fs.ErrExist) {
			return nil, "", err
		}
	}
}

func fill(f File, data []byte) error {
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// removed ignores a missing temporary file: there is nothing to remove.
func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Probe reports why Write could not make its temporary file beside path, without writing anything. If it is killed,
// Clean removes what it leaves.
func Probe(fsys FS, path string) error {
	mode, _, err := replaceable(path, 0o600)
	if err != nil {
		return err
	}
	f, temp, err := createTemp(fsys, path, mode)
	if err != nil {
		return err
	}
	crash.Point("atomicfile: probed " + filepath.Base(path))
	return errors.Join(f.Close(), removed(fsys.Remove(temp)))
}

// Clean removes the temporary files that killed writers of path left. Call it only when no other process can be
// writing path.
func Clean(fsys FS, path string) error {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+tempMark
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), prefix)
		if _, err := hex.DecodeString(random); !ok || err != nil || len(random) != tempHex {
			continue
		}
		// another start may be doing the same
		if err := removed(fsys.Remove(filepath.Join(dir, e.Name()))); err != nil {
			return err
		}
	}
	return nil
}

// Replacer is Write on a given file system, for callers that should know neither it nor permissions.
func Replacer(fsys FS) func(path string, data []byte) error {
	return func(path string, data []byte) error { return Write(fsys, path, data, 0o644) }
}
