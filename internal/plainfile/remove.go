package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll removes what is at a path, whatever a command left there; nothing there is fine. See RemoveIn.
func RemoveAll(path string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return RemoveIn(root, filepath.Base(path))
}

// RemoveIn removes what is at a path below root, follows no link, and keeps few folders open: also folders that deny
// access to their owner, as those of a module cache do, and more folders in each other than can be open at once, or
// than a path has room for.
func RemoveIn(root *os.Root, name string) error {
	err := remove(root, name, 0)
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err // the name may be very long
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// deepest is how many folders are open at the same time. What is in each other below them comes up first.
const deepest = 64

func remove(in *os.Root, name string, depth int) error {
	fi, err := in.Lstat(name)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		dir, err := openOwn(in, name, fi)
		if err != nil {
			return err
		}
		up := 0
		err = each(dir, func(e fs.DirEntry) error {
			if depth < deepest {
				return remove(dir, e.Name(), depth+1)
			}
			if err := raise(dir, e, &up); err != nil {
				return err
			}
			return dir.Remove(e.Name())
		})
		if err = errors.Join(err, dir.Close()); err != nil {
			return err
		}
	}
	return in.Remove(name)
}

// raise removes the files of a folder in dir, and moves its folders into dir, under names that count up.
func raise(dir *os.Root, folder fs.DirEntry, up *int) error {
	if !folder.IsDir() {
		return nil
	}
	fi, err := folder.Info()
	if err != nil {
		return err
	}
	from, err := openOwn(dir, folder.Name(), fi)
	if err != nil {
		return err
	}
	err = each(from, func(e fs.DirEntry) error {
		if !e.IsDir() {
			return from.Remove(e.Name())
		}
		if err := from.Chmod(e.Name(), 0o700); err != nil { // else it could not be moved
			return err
		}
		for {
			*up++
			to := fmt.Sprintf(".up-%d", *up)
			if _, err := dir.Lstat(to); err != nil { // nobody used the name
				return dir.Rename(filepath.Join(folder.Name(), e.Name()), to)
			}
		}
	})
	return errors.Join(err, from.Close())
}

// openOwn opens a folder, which its owner may have closed.
func openOwn(in *os.Root, name string, fi fs.FileInfo) (*os.Root, error) {
	if fi.Mode().Perm()&0o700 != 0o700 {
		if err := in.Chmod(name, fi.Mode().Perm()|0o700); err != nil {
			return nil, err
		}
	}
	return in.OpenRoot(name)
}

// each calls do, which takes it away, for whatever is in a folder.
func each(dir *os.Root, do func(fs.DirEntry) error) error {
	for {
		entries, err := some(dir)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if err := do(e); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

// some lists entries of a folder; none only where it is empty.
func some(dir *os.Root) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(1024)
	if err == io.EOF {
		err = nil
	}
	return entries, errors.Join(err, f.Close())
}
