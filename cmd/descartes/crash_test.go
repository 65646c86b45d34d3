//go:build crashpoints

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCrashPoints kills the program at points of each kind in a run of 12 tasks, and of every second kind in one of
// 50.
func TestCrashPoints(t *testing.T) {
	t.Run("12 tasks", func(t *testing.T) { crashEach(t, smallPlan(), 1, asItIs) })
	t.Run("50 tasks", func(t *testing.T) { crashEach(t, largePlan(), 2, asItIs) })
}

// TestCrashGit does so while the git program works for the run: where hooks run outside it makes the commits; where line
// ends are converted, snapshots too.
func TestCrashGit(t *testing.T) {
	t.Run("hook", func(t *testing.T) {
		crashEach(t, smallPlan(), 1, func(t *testing.T, f *field) {
			hooked(t, f)
			f.flags = append(f.flags, "--set", "git.hooks=outside")
		})
	})
	t.Run("autocrlf", func(t *testing.T) {
		crashEach(t, smallPlan(), 1, func(t *testing.T, f *field) { f.git(t, "config", "core.autocrlf", "input") })
	})
}

// TestCrashDirty does so where the user has changes of every kind, which stay as they are.
func TestCrashDirty(t *testing.T) { crashEach(t, smallPlan(), 1, dirtied) }

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

// hooked has a hook of the user's look at what is committed.
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

// place is where a run is killed: the n-th time that it comes to a point of a kind.
type place struct {
	kind string
	n    int
}

// String is what DESCARTES_CRASH_AT understands.
func (p place) String() string { return fmt.Sprint(p.n, " ", p.kind) }

// varying are the parts of a point's name that are not the same in each run.
var varying = regexp.MustCompile(`loop-[0-9a-f]+|/[0-9]+|\b[0-9a-f]{40}\b`)

// places chooses among the points of an undisturbed run, which are listed in a file. What happens in which order may
// differ from run to run, so that a point is known by its kind. Of every few kinds it takes one point: the first, the
// second or a late one, by the hour. DESCARTES_CRASH_EVERY=1 takes all points, and DESCARTES_CRASH_SHARD=2/4 the
// second quarter of what is taken.
func places(t *testing.T, list string, every int) (chosen []place) {
	t.Helper()
	times := map[string]int{}
	var kinds []string
	for name := range strings.Lines(readText(t, list)) {
		kind := varying.ReplaceAllStringFunc(strings.TrimSpace(name),
			func(s string) string { return strings.Repeat("/", strings.Count(s, "/")) + "*" })
		if times[kind]++; times[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	if number(t, "DESCARTES_CRASH_EVERY", 0) == 1 {
		for _, kind := range kinds {
			for n := range times[kind] {
				chosen = append(chosen, place{kind, n + 1})
			}
		}
	} else {
		for i, kind := range kinds {
			if (i+rotating(every))%every == 0 {
				chosen = append(chosen, place{kind, []int{1, min(2, times[kind]),
					max(1, times[kind]*2/3)}[(i+rotating(3))%3]})
			}
		}
	}
	if text := os.Getenv("DESCARTES_CRASH_SHARD"); text != "" {
		var shard, of int
		if k, err := fmt.Sscanf(text, "%d/%d", &shard, &of); k != 2 || shard < 1 || shard > of {
			t.Fatalf("DESCARTES_CRASH_SHARD=%q: %v", text, err)
		}
		all := chosen
		chosen = nil
		for i := shard - 1; i < len(all); i += of {
			chosen = append(chosen, all[i])
		}
	}
	t.Logf("killed at %d places, of %d kinds of points", len(chosen), len(kinds))
	return chosen
}

// undisturbed runs a field's loop to its end, which the exit code tells, and chooses the places where others like it
// are killed.
func (f *field) undisturbed(t *testing.T, every, want int) []place {
	t.Helper()
	list := filepath.Join(f.aside, "points")
	r := f.begin(t, "start", "DESCARTES_CRASH_COUNT_FILE="+list)
	if code := r.wait(t); code != want {
		t.Fatalf("undisturbed: exit %d\n%s", code, r.errors(t))
	}
	return places(t, list, every)
}

// crashEach kills a run of a plan at points of every few kinds, in fields that prepare has its way with: every third
// one also while it is resumed. Then it is finished.
func crashEach(t *testing.T, p fieldPlan, every int, prepare func(*testing.T, *field), flags ...string) {
	f := newField(t, p, flags...)
	prepare(t, f)
	chosen := f.undisturbed(t, every, exitBlocked)
	f.checkEnd(t)
	for i, at := range chosen {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			f := newField(t, p, flags...)
			prepare(t, f)
			f.fall(t, at, "start")
			if i%3 == 0 {
				f.fall(t, place{chosen[i*7%len(chosen)].kind, 1}, f.goOn(t, i/3))
			}
			f.finish(t, f.goOn(t, i))
			f.checkEnd(t)
			if t.Failed() {
				f.tell(t)
			}
		})
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
func (f *field) fall(t *testing.T, at place, verb string) {
	t.Helper()
	if f.over(t) {
		return
	}
	r := f.begin(t, verb, "DESCARTES_CRASH_AT="+at.String())
	switch code := r.wait(t); code {
	case -int(syscall.SIGKILL), exitBlocked:
	case exitWaits:
		f.answer(t, r)
	default:
		t.Fatalf("%s to be killed at point %s: exit %d\n%s", verb, at, code, r.errors(t))
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
	if code := r.wait(t); code != exitBlocked && code != exitWaits {
		t.Fatalf("%s after the kill: exit %d\n%s", verb, code, r.errors(t))
	}
	if f.answer(t, r) {
		f.finish(t, "resume")
	}
}

// answer takes a commit off the branch that a killed run's agent made in this folder, if the run asks whose it is.
func (f *field) answer(t *testing.T, r *launched) bool {
	t.Helper()
	asked := regexp.MustCompile(`type\s+git\s+reset\s+([0-9a-f]{12})\s+first`).FindStringSubmatch(r.errors(t))
	if asked != nil {
		f.git(t, "reset", "-q", asked[1])
	}
	return asked != nil
}
