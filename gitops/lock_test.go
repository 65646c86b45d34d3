package gitops

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// holdings says which of the two names of a lock there are.
func holdings(t *testing.T, k *lockFile, own string) (lock, first bool) {
	t.Helper()
	there := func(path string) bool {
		_, err := os.Lstat(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	return there(k.path + ".lock"), there(own)
}

func TestClearLocks(t *testing.T) {
	t.Parallel()
	common := t.TempDir()
	l := layout{gitDir: common, commonDir: common}
	for _, file := range []string{"index", "refs/descartes/x/1/1", "worktrees/w/index"} {
		k, err := takeLock(t.Context(), common, filepath.Join(common, file))
		if err != nil {
			t.Fatal(err)
		}
		own := k.own
		if err := clearLocks(l); err != nil {
			t.Fatal(err)
		}
		if lock, first := holdings(t, k, own); !lock || !first {
			t.Errorf("%s: the lock of a living process: got %v %v", file, lock, first)
		}
		k.f.Close() // as the end of the process does
		if err := clearLocks(l); err != nil {
			t.Fatal(err)
		}
		if lock, first := holdings(t, k, own); lock || first {
			t.Errorf("%s: the lock of a dead process: got %v %v", file, lock, first)
		}
	}
}

func TestClearLocksLeavesOthers(t *testing.T) {
	t.Parallel()
	common := t.TempDir()
	l := layout{gitDir: common, commonDir: common}
	foreign := filepath.Join(common, "HEAD.lock")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := takeLock(t.Context(), common, filepath.Join(common, "index"))
	if err != nil {
		t.Fatal(err)
	}
	own := k.own
	if err := k.fill([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(k.path+".lock", k.path); err != nil { // killed just after
		t.Fatal(err)
	}
	k.f.Close()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := clearLocks(l); err != nil {
			t.Fatal(err)
		}
		if _, first := holdings(t, k, own); !first {
			break
		}
		if time.Now().After(deadline) { // until then a child that another test forks may still hold what we closed
			t.Fatal("our own name of the index is left")
		}
	}
	if b, err := os.ReadFile(k.path); err != nil || string(b) != "new" {
		t.Errorf("the index: %q %v", b, err)
	}
	if _, err := os.Lstat(foreign); err != nil {
		t.Errorf("a lock of git's: %v", err)
	}
}

func TestLockCommitAndDrop(t *testing.T) {
	t.Parallel()
	common := t.TempDir()
	for _, commit := range []bool{true, false} {
		k, err := takeLock(t.Context(), common, filepath.Join(common, "refs", "heads", "main"))
		if err != nil {
			t.Fatal(err)
		}
		own := k.own
		if err := k.fill([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		if commit {
			err = k.commit()
		}
		k.drop()
		if lock, first := holdings(t, k, own); err != nil || lock || first {
			t.Errorf("commit %v: %v %v %v", commit, err, lock, first)
		}
		if _, err := os.Lstat(k.path); err != nil {
			t.Error(err)
		}
	}
}
