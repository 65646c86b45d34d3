package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"descartes/internal/crash"
)

// refUpdate is one ref on its way to a new value: locked, compared, written, not yet visible.
type refUpdate struct {
	s        *refStore
	name     string
	old, new string
	lock     *lockFile
}

const noObject = "0000000000000000000000000000000000000000"

// movedError says that somebody else changed a ref meanwhile.
type movedError struct{ name, want, got string }

func (e *movedError) Error() string {
	return fmt.Sprintf("%s moved from %s to %s meanwhile", e.name, shortHash(e.want), shortHash(e.got))
}

func shortHash(h string) string {
	if h == "" {
		return "nothing"
	}
	return h[:min(len(h), 12)]
}

// prepare locks a ref and writes its new value to the lock. With check, the ref must still be old.
func (s *refStore) prepare(ctx context.Context, name, old, new string, check bool) (*refUpdate, error) {
	if name != "HEAD" && !validRef(name) {
		return nil, fmt.Errorf("%q is no valid ref name", name)
	}
	if err := s.roomFor(name); err != nil {
		return nil, err
	}
	lock, err := takeLock(ctx, s.l.commonDir, s.file(name))
	if err != nil {
		return nil, err
	}
	u := &refUpdate{s: s, name: name, old: old, new: new, lock: lock}
	if check {
		var now string
		if name == "HEAD" {
			now, err = s.readLoose(name)
		} else {
			now, err = s.hash(name)
		}
		if err == nil && now != old {
			err = &movedError{name, old, now}
		}
	}
	if err == nil {
		err = lock.fill([]byte(new + "\n"))
	}
	if err != nil {
		lock.drop()
		return nil, err
	}
	return u, nil
}

// privateRefs is where attempts are kept. Only the loop that holds the working tree's lock writes there.
const privateRefs = "refs/descartes/"

// setPrivate sets a new ref of our own by one write and one rename. The protocol for refs that others write too
// (a lock with a name in the git directory, the old value, packed refs, an fdatasync) cost as much as the two
// processes of a task. It declines a name that exists, that gets a reflog, or that is not <loop>/<task>/<attempt>.
func (s *refStore) setPrivate(name, hash string) (done bool, err error) {
	if !strings.HasPrefix(name, privateRefs) || strings.Count(name, "/") != 4 || !validRef(name) || s.logged(name) {
		return false, nil
	}
	file := s.file(name)
	if _, err := os.Lstat(file); err == nil {
		return false, nil
	}
	temp := file + ".lock" // no ref to git; a killed run may have left it
	err = os.WriteFile(temp, []byte(hash+"\n"), 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(file), 0o777); err == nil {
			err = os.WriteFile(temp, []byte(hash+"\n"), 0o666)
		}
	}
	if err == nil {
		crash.Point("git: private ref written")
		err = os.Rename(temp, file)
	}
	if err != nil {
		return false, fmt.Errorf("set %s: %w", name, err)
	}
	return true, nil
}

// roomFor refuses a name below which, or above which, another packed ref lies.
func (s *refStore) roomFor(name string) error {
	var clash string
	err := s.packed(func(n, _ string) {
		if strings.HasPrefix(n, name+"/") || strings.HasPrefix(name, n+"/") {
			clash = n
		}
	})
	if err == nil && clash != "" {
		if h, _ := s.hash(clash); h != "" {
			err = fmt.Errorf("ref %s cannot be beside %s", name, clash)
		}
	}
	return err
}

// finish writes the reflogs and makes the new value visible.
func (u *refUpdate) finish(who person, when time.Time, message string, alsoHead bool) error {
	old := u.old
	if old == "" {
		old = noObject
	}
	line := fmt.Sprintf("%s %s %s\t%s\n", old, u.new, signature(who, when), strings.Join(strings.Fields(message), " "))
	names := []string{u.name}
	if alsoHead && u.name != "HEAD" {
		names = append(names, "HEAD")
	}
	for _, n := range names {
		if err := u.s.log(n, line); err != nil {
			u.lock.drop()
			return err
		}
	}
	crash.Point("git: reflog written")
	return u.lock.commit()
}

// signature is a person and a time as commits and reflogs have them.
func signature(who person, when time.Time) string {
	return fmt.Sprintf("%s <%s> %d %s", who.name, who.email, when.Unix(), when.Format("-0700"))
}

// log appends to a ref's log, if it has one or is of the kind that gets one.
func (s *refStore) log(name, line string) error {
	file := s.refDir(name) + "/logs/" + name
	flags := os.O_APPEND | os.O_WRONLY | syscall.O_NONBLOCK
	if s.logged(name) {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(file, flags, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		if flags&os.O_CREATE == 0 {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return fmt.Errorf("write reflog of %s: %w", name, err)
		}
		f, err = os.OpenFile(file, flags, 0o666)
	}
	if err == nil {
		_, err = f.WriteString(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write reflog of %s: %w", name, err)
	}
	return nil
}

// logged says whether git starts a log for such a ref.
func (s *refStore) logged(name string) bool {
	switch strings.ToLower(s.logAll) {
	case "always":
		return true
	case "", "true", "yes", "on", "1":
		return name == "HEAD" || strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/remotes/") ||
			strings.HasPrefix(name, "refs/notes/")
	}
	return false
}

// remove deletes a ref, packed or not, with its log. A ref that is not there is no error.
func (s *refStore) remove(ctx context.Context, name string) error {
	if !validRef(name) {
		return fmt.Errorf("%q is no valid ref name", name)
	}
	lock, err := takeLock(ctx, s.l.commonDir, s.file(name))
	if err != nil {
		return err
	}
	defer lock.drop()
	if err := s.unpack(ctx, name); err != nil {
		return err
	}
	for _, f := range []string{s.file(name), s.refDir(name) + "/logs/" + name} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete ref %s: %w", name, err)
		}
	}
	lock.drop()
	s.prune(s.file(name))
	s.prune(s.refDir(name) + "/logs/" + name)
	return nil
}

// prune removes the directories that a deleted ref left empty, up to those that every repository has.
func (s *refStore) prune(file string) {
	for dir := filepath.Dir(file); strings.Count(strings.TrimPrefix(dir, s.l.commonDir), "/") > 2; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// unpack takes a ref out of packed-refs.
func (s *refStore) unpack(ctx context.Context, name string) error {
	there := false
	if err := s.packed(func(n, _ string) { there = there || n == name }); err != nil || !there {
		return err
	}
	file := s.l.commonDir + "/packed-refs"
	lock, err := takeLock(ctx, s.l.commonDir, file)
	if err != nil {
		return err
	}
	defer lock.drop()
	b, err := readPlain(file, mostSaved)
	if err != nil {
		return fmt.Errorf("read packed refs: %w", err)
	}
	var out []byte
	skipping := false
	for line := range bytes.Lines(b) {
		if line[0] != '^' { // a peeled tag belongs to the line before it
			_, n, ok := packedLine(line)
			skipping = ok && n == name
		}
		if !skipping {
			out = append(out, line...)
		}
	}
	if err := lock.fill(out); err != nil {
		return err
	}
	return lock.commit()
}
