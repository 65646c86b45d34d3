//go:build crashpoints

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCrashPoints kills the program at every point of a run of 12 tasks, and at every seventh of one
// of 50, from another first one each hour (DESCARTES_CRASH_EVERY=1: at every one of those too).
func TestCrashPoints(t *testing.T) {
	t.Run("12 tasks", func(t *testing.T) { crashEach(t, smallPlan(), 1, 0, asItIs) })
	every := number(t, "DESCARTES_CRASH_EVERY", 7)
	t.Run("50 tasks", func(t *testing.T) { crashEach(t, largePlan(), every, rotating(every), asItIs) })
}

// TestCrashGit does so while the git program works for the run: where there is a hook it makes the
// commits; where line ends are converted, snapshots too.
func TestCrashGit(t *testing.T) {
	t.Run("hook", func(t *testing.T) { crashEach(t, smallPlan(), 5, rotating(5), hooked) })
	t.Run("autocrlf", func(t *testing.T) {
		crashEach(t, smallPlan(), 5, rotating(5), func(t *testing.T, f *field) { f.git(t, "config", "core.autocrlf", "input") })
	})
}

// TestCrashDirty does so where the user has changes of every kind, which stay as they are.
func TestCrashDirty(t *testing.T) {
	crashEach(t, smallPlan(), 5, rotating(5), dirtied)
}

// dirtied is a field with changes of the user's, of every kind.
func dirtied(t *testing.T, f *field) {
	for name, text := range map[string]string{"mine.txt": "mine\n", "changed.txt": "old\n", "gone.txt": "gone\n"} {
		f.put(t, name, text)
	}
	f.git(t, "add", "changed.txt", "gone.txt")
	f.git(t, "commit", "-q", "--amend", "-C", "HEAD")
	f.put(t, "changed.txt", "staged\n")
	f.git(t, "add", "changed.txt")
	f.put(t, "changed.txt", "changed\n")
	if err := os.Remove(f.root + "/gone.txt"); err != nil {
		t.Fatal(err)
	}
	f.dirty = "MM changed.txt\n D gone.txt\n?? mine.txt\n"
	f.flags = append(f.flags, "--allow-dirty")
}

// hooked has git make the commits.
func hooked(t *testing.T, f *field) {
	if err := os.WriteFile(f.root+"/.git/hooks/pre-commit", []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func asItIs(*testing.T, *field) {}

// rotating is another number below n each hour.
func rotating(n int) int { return int(time.Now().Unix() / 3600 % int64(n)) }

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q", name, text)
	}
	return n
}

// crashEach kills a run of a plan at each point, or at every few, in fields that prepare has its way with.
func crashEach(t *testing.T, p fieldPlan, every, offset int, prepare func(*testing.T, *field)) {
	f := newField(t, p)
	prepare(t, f)
	list := filepath.Join(f.aside, "points")
	r := f.begin(t, "start", "DESCARTES_CRASH_COUNT_FILE="+list)
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("undisturbed: exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
	points := strings.Split(strings.TrimSpace(readText(t, list)), "\n")
	t.Logf("%d points of %d kinds in a run of %v; every %d. from the %d. on", len(points), kindsOf(points), time.Since(r.began).Round(time.Millisecond), every, offset+1)
	for k := offset + 1; k <= len(points); k += every {
		t.Run(strconv.Itoa(k)+" "+points[k-1], func(t *testing.T) {
			t.Parallel()
			f := newField(t, p)
			prepare(t, f)
			crashAt(t, f, k)
		})
	}
}

func kindsOf(points []string) int {
	set := map[string]bool{}
	for _, p := range points {
		set[p] = true
	}
	return len(set)
}

// crashAt kills a run at point k, every third one also while it is taken up again, and finishes it.
func crashAt(t *testing.T, f *field, k int) {
	f.fall(t, strconv.Itoa(k), "start")
	if k%3 == 0 {
		f.fall(t, strconv.Itoa(1+k*7%23), f.goOn(t, k/3))
	}
	f.finish(t, f.goOn(t, k))
	f.checkEnd(t)
	if t.Failed() {
		f.tell(t)
	}
}

// tell shows what the runs said.
func (f *field) tell(t *testing.T) {
	t.Helper()
	for n := range f.runs {
		t.Logf("run %d:\n%s", n+1, readText(t, fmt.Sprintf("%s/run-%d.err", f.aside, n+1)))
	}
}

// fall makes a run that dies at a point. It may end before: a timer decides over a few of the points.
func (f *field) fall(t *testing.T, point, verb string) {
	t.Helper()
	if f.over(t) {
		return
	}
	r := f.begin(t, verb, "DESCARTES_CRASH_AT="+point)
	switch code := r.wait(t); code {
	case -int(syscall.SIGKILL), exitBlocked:
	default:
		t.Fatalf("%s to be killed at point %s: exit %d\n%s", verb, point, code, r.errors(t))
	}
	f.checkFiles(t)
	f.promise(t, r)
}

// finish runs to the end.
func (f *field) finish(t *testing.T, verb string) {
	t.Helper()
	if f.over(t) {
		return
	}
	r := f.begin(t, verb)
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("%s after the kill: exit %d\n%s", verb, code, r.errors(t))
	}
}
