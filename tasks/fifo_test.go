//go:build unix

package tasks

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A FIFO in a list's place is refused, and not waited for.
func TestRefusedFIFO(t *testing.T) {
	t.Parallel()
	root := project(t, nil)
	if err := syscall.Mkfifo(filepath.Join(root, ".scud", "tasks", "x.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(root, "x"); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("got %v", err)
	}
}
