package acp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// fileLimit is the largest file that is read or written for an agent: as much
// as a message may hold.
const fileLimit = messageLimit

// read returns a text file, or limit lines of it from line first (from 1) on
// where these are given.
func (t tree) read(path string, first, limit int) (string, error) {
	rel, err := t.find(path)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(t.dir) // holds what find found against links made meanwhile
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not hang us
	if err != nil {
		return "", plainly(path, err)
	}
	defer f.Close()
	if err := regular(f.Stat()); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, fileLimit+1))
	switch {
	case err != nil:
		return "", plainly(path, err)
	case len(data) > fileLimit:
		return "", fmt.Errorf("%s: the file has more than %d bytes", path, fileLimit)
	case !utf8.Valid(data):
		return "", fmt.Errorf("%s: the file is no UTF-8 text", path)
	}
	return someLines(string(data), first, limit), nil
}

func someLines(text string, first, limit int) string {
	for ; first > 1 && text != ""; first-- {
		_, text, _ = strings.Cut(text, "\n")
	}
	if limit <= 0 {
		return text
	}
	end := 0
	for ; limit > 0 && end < len(text); limit-- {
		at := strings.IndexByte(text[end:], '\n')
		if at < 0 {
			return text
		}
		end += at + 1
	}
	return text[:end]
}

// write replaces a file, or makes it and the directories it lies in. Readers see
// the old text or the new one; its permissions stay.
func (t tree) write(path, text string) (err error) {
	rel, err := t.findWritable(path)
	if err != nil {
		return err
	}
	if len(text) > fileLimit {
		return fmt.Errorf("%s: a text of %d bytes is too long: at most %d are taken", path, len(text), fileLimit)
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	mode := fs.FileMode(0o666)
	info, err := root.Lstat(rel)
	switch {
	case err == nil:
		if err := regular(info, nil); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return plainly(path, err)
	}
	if dir := filepath.Dir(rel); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return plainly(path, err)
		}
	}
	temp := filepath.Join(filepath.Dir(rel), ".descartes-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return plainly(path, err)
	}
	_, err = f.WriteString(text)
	if err == nil && info != nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temp, rel)
	}
	if err != nil {
		return errors.Join(plainly(path, err), root.Remove(temp))
	}
	return nil
}

func regular(info fs.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	return nil
}

// plainly is a file's error with the path that the agent gave.
func plainly(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
