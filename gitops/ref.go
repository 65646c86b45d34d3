package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// refStore reads refs as git's files backend has them, without ever waiting for what is no file; git writes them.
type refStore struct{ l layout }

// refDir is where a ref's file lies: some belong to one working tree, all others to the repository.
func (s *refStore) refDir(name string) string {
	if !strings.HasPrefix(name, "refs/") || strings.HasPrefix(name, "refs/worktree/") ||
		strings.HasPrefix(name, "refs/bisect/") || strings.HasPrefix(name, "refs/rewritten/") {
		return s.l.gitDir
	}
	return s.l.commonDir
}

func (s *refStore) file(name string) string { return s.refDir(name) + "/" + name }

// head resolves HEAD: the branch it names ("" when detached) and the commit ("" when unborn).
func (s *refStore) head() (branch, hash string, err error) {
	name := "HEAD"
	for range 5 {
		value, err := s.readLoose(name)
		if err != nil {
			return "", "", err
		}
		to, symbolic := strings.CutPrefix(value, "ref:")
		if !symbolic {
			if name == "HEAD" {
				return "", value, nil
			}
			hash, err := s.hash(name)
			return name, hash, err
		}
		name = strings.TrimSpace(to)
		if !validRef(name) {
			return "", "", fmt.Errorf("HEAD names the ref %q", name)
		}
	}
	return "", "", fmt.Errorf("%s: too many symbolic refs", name)
}

// readLoose is the text of a ref's own file, "" where there is none.
func (s *refStore) readLoose(name string) (string, error) {
	b, err := readPlain(s.file(name), mostLoose)
	if err != nil {
		if to, lerr := os.Readlink(s.file(name)); lerr == nil && name == "HEAD" {
			return "ref: " + to, nil // a symbolic link to an unborn branch
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) || errors.Is(err, errNotPlain) {
			return "", nil
		}
		return "", fmt.Errorf("read ref %s: %w", name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// hash is the commit that a ref names, "" if there is no such ref.
func (s *refStore) hash(name string) (string, error) {
	for range 5 {
		value, err := s.readLoose(name)
		if err != nil {
			return "", err
		}
		if value == "" {
			break
		}
		to, symbolic := strings.CutPrefix(value, "ref:")
		if !symbolic {
			if _, err := parseID(value); err != nil {
				return "", fmt.Errorf("read ref %s: %w", name, err)
			}
			return value, nil
		}
		if name = strings.TrimSpace(to); !validRef(name) {
			return "", fmt.Errorf("symbolic ref to %q", name)
		}
	}
	hash := ""
	err := s.packed(func(n, h string) {
		if n == name {
			hash = h
		}
	})
	return hash, err
}

// packed calls each for every line of packed-refs.
func (s *refStore) packed(each func(name, hash string)) error {
	b, err := readPlain(s.l.commonDir+"/packed-refs", mostCopied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read packed refs: %w", err)
	}
	for line := range bytes.Lines(b) {
		if hash, name, ok := packedLine(line); ok {
			each(name, hash)
		}
	}
	return nil
}

func packedLine(line []byte) (hash, name string, ok bool) {
	hash, name, ok = strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	return hash, name, ok && len(hash) == 40 && isHex(hash)
}

// list names every ref below a prefix, sorted.
func (s *refStore) list(prefix string) (map[string]string, []string, error) {
	found := map[string]string{}
	err := s.packed(func(name, hash string) {
		if strings.HasPrefix(name, prefix) {
			found[name] = hash
		}
	})
	if err != nil {
		return nil, nil, err
	}
	top := s.file(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err = filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(p, s.refDir(prefix)+"/")
		if !strings.HasPrefix(name, prefix) || !validRef(name) {
			return nil
		}
		h, err := s.hash(name)
		if err == nil && h != "" {
			found[name] = h
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list refs: %w", err)
	}
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	return found, names, nil
}

// validRef follows git check-ref-format.
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, ".") || strings.ContainsAny(name, " ~^:?*[\\\x7f") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Count(name, "/") < 2 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
}
