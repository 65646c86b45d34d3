package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"descartes/gitops"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
	"descartes/internal/safename"
)

// The locks of a project are flocks, which the kernel frees when their process dies. Whoever takes several takes them
// in this order:
//
//	ids   .descartes/loops.lock   while a run begins: it looks who is live, and takes its id; so do a rewind and a cleanup, which no run may join
//	list  ListLock                for the whole life of a run over a list
//	run   LockOf(its state file)  for a run's whole life; its Holder says over which tag
//	tree  TreeLock                while something writes in the user's working tree or moves his branch: a commit that is followed, changes that arrive,
//	                              a rewind
//	file  the task file itself    while tasks.File.Save reads it, and writes it with other statuses
//
// Nobody waits for the lock of a slot, or of .loop/state.json: who else has one goes without.

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
	List string    `json:"list,omitempty"` // that of a run, as Home.KeyOf names it
	At   time.Time `json:"since"`

	Files []string `json:"files,omitempty"` // the loop's task file and its mirror, with symbolic links resolved
}

// BusyError says that a live loop has what a new one needs.
type BusyError struct {
	Path   string
	Holder Holder
}

func (e *BusyError) Error() string {
	name, does := "run "+e.Holder.Loop, "is running"
	switch {
	case e.Holder.Loop != "":
	case e.Holder.PID != 0: // a rewind or an answer
		name = "another command"
	default: // unsigned: none of ours, or one that is about to sign
		return e.Path + " is locked by another process"
	}
	if e.Holder.Tag != "" {
		name, does = fmt.Sprintf("%s over tag %q", name, e.Holder.Tag), "is running in this working tree"
	}
	return fmt.Sprintf("%s %s (pid %d, since %s)", name, does, e.Holder.PID, e.Holder.At.Local().Format(time.DateTime))
}

// Next is what to do about it.
func (e *BusyError) Next() string {
	if e.Holder.Loop == "" {
		return "try again when it has ended"
	}
	return "descartes status " + e.Holder.Loop + ", or descartes cancel " + e.Holder.Loop
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

// HoldTree locks the working tree while no run is live, and keeps others from beginning until release is called.
func (h Home) HoldTree(ctx context.Context, repo *gitops.Repo, who Holder) (release func() error, err error) {
	ids, err := h.LockIDs(ctx, who)
	if err != nil {
		return nil, err
	}
	if err = h.none(ctx, func(Holder) bool { return true }); err != nil {
		return nil, errors.Join(err, ids.Release())
	}
	tree, err := TakeLock(ctx, TreeLock(repo.Dir()), LockWait, who)
	if err != nil {
		return nil, errors.Join(err, ids.Release())
	}
	return func() error { return errors.Join(tree.Release(), ids.Release()) }, nil
}

// Beside returns a *BusyError for a live run over a list, beside which another over it cannot be. The answer holds
// for as long as the caller has the lock of the ids.
func (h Home) Beside(ctx context.Context, list string) error {
	return h.none(ctx, func(other Holder) bool { return other.List == list })
}

// none returns a *BusyError for a live run of a kind.
func (h Home) none(ctx context.Context, is func(Holder) bool) error {
	ctx, cancel := context.WithTimeout(ctx, LockWait)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		live := h.Live()
		at := slices.IndexFunc(live, is)
		if at < 0 {
			return nil
		}
		busy := &BusyError{Holder: live[at]}
		if !gone(live[at]) {
			return busy
		}
		select {
		case <-ctx.Done():
			return busy
		case <-tick.C: // a child that a killed run was about to start may have its lock a moment longer
		}
	}
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

// gone reports whether the process that signed a lock has ended, as far as this machine can tell.
func gone(who Holder) bool {
	p, err := os.FindProcess(who.PID)
	return err != nil || who.PID <= 0 || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Retake takes the locks again whose files were deleted, and returns all of them.
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

// ListLock is the lock of the runs over a list, which is named by gitops.Named.Key. It is in the git directory, which
// survives whoever deletes .descartes.
func ListLock(gitDir, list string) string {
	return filepath.Join(gitDir, "descartes-tags", safename.Of(list))
}

// TreeLock is the lock of a working tree, in the git directory too.
func TreeLock(gitDir string) string { return filepath.Join(gitDir, "descartes-loop") }

// Locks are those that a run has until it ends.
type Locks struct {
	Who Holder
	All []*Lock
}

// Take gets a lock that the run has until it ends.
func (l *Locks) Take(ctx context.Context, path string) error {
	k, err := TakeLock(ctx, path, LockWait, l.Who)
	if err == nil {
		l.All = append(l.All, k)
	}
	return err
}

// Release gives all of them back.
func (l *Locks) Release() (err error) {
	for _, k := range l.All {
		err = errors.Join(err, k.Release())
	}
	return err
}

// treeSaid is how long a run waits for the working tree before it says so.
const treeSaid = 5 * time.Second

// InTree calls do while nobody else writes in the user's working tree, whose git directory is given, or moves his
// branch. say tells people, once, who else does. It is slow.
func InTree(ctx context.Context, gitDir string, who Holder, say func(string) error, do func() error) error {
	for wait, said := treeSaid, false; ; wait = time.Minute {
		k, err := TakeLock(ctx, TreeLock(gitDir), wait, who)
		if err == nil {
			return errors.Join(do(), k.Release())
		}
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("the wait for others that write in this working tree was stopped: %w", err)
		}
		busy, ok := errors.AsType[*BusyError](err)
		if !ok {
			return err
		}
		if said {
			continue
		}
		said = true
		if err := say("waiting for run " + busy.Holder.Loop + ", which writes in this working tree"); err != nil {
			return err
		}
	}
}
