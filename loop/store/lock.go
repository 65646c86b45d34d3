package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"descartes/gitops"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// LockOf is the lock of a file.
func LockOf(path string) string { return path + ".lock" }

// LockWait is how long to wait for a lock: a child of a killed loop has it between fork and exec.
const LockWait = 2 * time.Second

// Hostname is this machine's name for a Holder, or "".
func Hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}

// Holder is what the owner of a lock wrote into it. It is for messages only: whether a file is locked is up to the
// kernel.
type Holder struct {
	PID  int       `json:"pid"`
	Host string    `json:"host"`
	Loop string    `json:"loop"`
	Tag  string    `json:"tag"`
	At   time.Time `json:"since"`

	Files []string `json:"files,omitempty"` // the loop's task file and its mirror, with symbolic links resolved
}

// BusyError says that a live loop has what a new one needs.
type BusyError struct {
	Path   string
	Holder Holder
}

func (e *BusyError) Error() string {
	since := fmt.Sprintf("(pid %d, since %s)", e.Holder.PID, e.Holder.At.Local().Format(time.DateTime))
	if e.Holder.Tag == "" {
		return fmt.Sprintf("loop %s is running %s", e.Holder.Loop, since)
	}
	return fmt.Sprintf("loop %s over tag %q is running in this working tree %s", e.Holder.Loop, e.Holder.Tag, since)
}

// Lock is an advisory lock on a file that is never unlinked.
type Lock struct {
	f   *flock.Flock
	who Holder
}

// TakeLock takes the lock at path and signs it. Who else has it after the wait is named in a *BusyError.
func TakeLock(ctx context.Context, path string, wait time.Duration, who Holder) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	f := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|oscall.O_NOFOLLOW))
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ok, err := f.TryLockContext(ctx, 10*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) || err == nil && !ok {
		return nil, &BusyError{Path: path, Holder: readHolder(path)}
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, &gitops.RefusedError{Reason: path + " is a link, which an agent may have made", Hint: "rm " + path}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l := &Lock{f: f}
	if err := l.Sign(who); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// Sign writes the owner into the lock file; a reader that meets half of it shows what it can.
func (l *Lock) Sign(who Holder) error {
	l.who = who
	b, err := json.Marshal(who)
	if err != nil {
		return fmt.Errorf("sign lock: %w", err)
	}
	f, err := os.OpenFile(l.f.Path(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|oscall.O_NOFOLLOW, 0o644)
	if err == nil {
		_, err = f.Write(append(b, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("sign lock: %w", err)
	}
	return nil
}

// Release gives the lock back; that of a nil Lock does nothing.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	if err := l.f.Unlock(); err != nil {
		return fmt.Errorf("unlock %s: %w", l.f.Path(), err)
	}
	return nil
}

// HoldTree locks the working tree: no loop works in it until release is called.
func (h Home) HoldTree(ctx context.Context, repo *gitops.Repo, who Holder) (release func() error, err error) {
	return hold(ctx, who, TreeLock(repo.Dir()), LockOf(h.Tree()))
}

// HoldBreakdown locks the folder Breakdown: only one command at a time works in it.
func (h Home) HoldBreakdown(ctx context.Context, who Holder) (release func() error, err error) {
	return hold(ctx, who, LockOf(h.Breakdown()))
}

// hold takes all of the locks, or none.
func hold(ctx context.Context, who Holder, paths ...string) (release func() error, err error) {
	var held []*Lock
	release = func() (err error) {
		for _, k := range held {
			err = errors.Join(err, k.Release())
		}
		return err
	}
	for _, path := range paths {
		k, err := TakeLock(ctx, path, LockWait, who)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held = append(held, k)
	}
	return release, nil
}

func readHolder(path string) Holder {
	var h Holder
	if b, err := plainfile.Read("", path, 1<<16); err == nil && json.Unmarshal(b, &h) != nil {
		h = Holder{}
	}
	return h
}

// Live reports whether a process has the lock, and who it is.
func Live(path string) (Holder, bool) {
	if _, err := os.Stat(path); err != nil {
		return Holder{}, false
	}
	f := flock.New(path, flock.SetFlag(os.O_RDWR|oscall.O_NOFOLLOW))
	ok, err := f.TryRLock()
	if err != nil {
		return Holder{}, false
	}
	if !ok {
		return readHolder(path), true
	}
	if err := f.Unlock(); err != nil {
		return Holder{}, false
	}
	return Holder{}, false
}

// Busy is Live, repeated while the owner's process is gone: a child it was about to start may have the lock a moment
// longer, and so may a prompt loop that looks at the tree.
func Busy(ctx context.Context, path string) (Holder, bool) {
	ctx, cancel := context.WithTimeout(ctx, LockWait)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		who, held := Live(path)
		if !held || who.Tag != "" && !gone(who) {
			return who, held
		}
		select {
		case <-ctx.Done():
			return who, held
		case <-tick.C:
		}
	}
}

// gone reports whether the process that signed a lock has ended, as far as this machine can tell.
func gone(who Holder) bool {
	p, err := os.FindProcess(who.PID)
	return err != nil || who.PID <= 0 || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Retake takes the locks again whose files were deleted, and returns all of them. No other loop can have taken them
// meanwhile: the first lock is in the git directory.
func Retake(locks []*Lock) ([]*Lock, error) {
	for _, k := range locks {
		if _, err := os.Lstat(k.f.Path()); err == nil {
			continue
		}
		again, err := TakeLock(context.Background(), k.f.Path(), LockWait, k.who)
		if err != nil {
			return locks, err
		}
		locks = append(locks, again)
	}
	return locks, nil
}

// TreeLock is the lock of a working tree. It is in the git directory, which survives an agent that deletes .descartes.
func TreeLock(gitDir string) string { return filepath.Join(gitDir, "descartes-loop") }
