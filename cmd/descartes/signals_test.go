//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
)

// tinyPlan has two waves and something that stays blocked.
func tinyPlan() fieldPlan {
	return fieldPlan{size: 4, width: 2, flaky: []int{1}, refused: []int{2}, strays: []int{3}}
}

// held starts a run whose first agent waits until it is let go.
func held(t *testing.T) (*field, *launched) {
	t.Helper()
	f := newField(t, tinyPlan())
	if err := os.WriteFile(f.aside+"/hold", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := f.begin(t, "start")
	f.await(t, r, note{"start", "1", 1})
	return f, r
}

func (f *field) await(t *testing.T, r *launched, n note) {
	t.Helper()
	until(t, fmt.Sprint(n), func() bool {
		if !r.alive() {
			t.Fatalf("the run ended: exit %d\n%s", r.wait(t), r.errors(t))
		}
		return slices.Contains(f.ledger(t), n)
	})
}

func (f *field) letGo(t *testing.T) {
	t.Helper()
	if err := os.Remove(f.aside + "/hold"); err != nil {
		t.Fatal(err)
	}
}

func (r *launched) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := r.p.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// stopped checks a run that a signal ended in its first attempt: its exit status, that nothing is left
// running, and that what is saved says how it ended. It returns the attempt's verdict.
func (f *field) stopped(t *testing.T, r *launched, code int, ending journal.Ending,
	status tasks.Status) (verdict string) {
	t.Helper()
	if got := r.wait(t); got != code {
		t.Fatalf("exit %d, want %d\n%s", got, code, r.errors(t))
	}
	if left := f.carriers(t); len(left) > 0 {
		t.Errorf("left running:\n%s", strings.Join(left, "\n"))
	}
	s, err := store.LoadState(store.NewHome(f.root).Default())
	if err != nil {
		t.Fatal(err)
	}
	if s.Completed || s.ExitReason.Type != string(ending) {
		t.Errorf("the state: completed %v, %q", s.Completed, s.ExitReason.Type)
	}
	if file := f.checkFiles(t); file != nil {
		if task, _ := file.Task("1"); task.Status != status {
			t.Errorf("task 1 is %s, want %s", task.Status, status)
		}
	}
	for _, e := range f.journal(t) {
		if e.Type == journal.AttemptFinished && e.Task == "1" && e.Attempt == 1 {
			verdict = string(e.Verdict)
		}
	}
	return verdict
}

// complete lets the agents go, resumes and checks that everything is as if nothing had happened.
func (f *field) complete(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(f.aside + "/hold"); err == nil {
		f.letGo(t)
	}
	r := f.begin(t, "resume")
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("resume: exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
}

func TestSignalTerminate(t *testing.T) {
	t.Parallel()
	f, r := held(t)
	r.signal(t, syscall.SIGTERM)
	if v := f.stopped(t, r, exitTerminated, journal.Interrupted, tasks.Pending); v != "cancelled" {
		t.Errorf("the attempt is %q", v)
	}
	f.complete(t)
}

// The first Ctrl-C lets the attempt come to its end.
func TestSignalInterruptOnce(t *testing.T) {
	t.Parallel()
	f, r := held(t)
	r.signal(t, syscall.SIGINT)
	until(t, "the answer to Ctrl-C", func() bool { return strings.Contains(r.errors(t), "Ctrl-C again") })
	f.letGo(t)
	if v := f.stopped(t, r, exitInterrupted, journal.UserCancelled, tasks.Pending); v != "failed" {
		t.Errorf("the attempt is %q", v)
	}
	if !slices.Contains(f.ledger(t), note{"end", "1", 1}) {
		t.Error("the agent was not let come to its end")
	}
	f.complete(t)
}

func TestSignalInterruptTwice(t *testing.T) {
	t.Parallel()
	f, r := held(t)
	r.signal(t, syscall.SIGINT)
	until(t, "the answer to Ctrl-C", func() bool { return strings.Contains(r.errors(t), "Ctrl-C again") })
	r.signal(t, syscall.SIGINT)
	if v := f.stopped(t, r, exitInterrupted, journal.UserCancelled, tasks.Pending); v != "cancelled" {
		t.Errorf("the attempt is %q", v)
	}
	if slices.Contains(f.ledger(t), note{"end", "1", 1}) {
		t.Error("the agent came to its end")
	}
	f.complete(t)
}

// A moment of sleep, of the program and of its supervising process, harms nothing.
func TestSignalStopAndContinue(t *testing.T) {
	t.Parallel()
	f, r := held(t)
	shim := f.shim(t)
	r.signal(t, syscall.SIGSTOP)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := syscall.Kill(shim, sig); err != nil {
			t.Fatal(err)
		}
	}
	f.letGo(t)
	until(t, "the end of the agent", func() bool { return slices.Contains(f.ledger(t), note{"end", "1", 1}) })
	r.signal(t, syscall.SIGCONT)
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
}

// shim finds the process that supervises the agent at work: the one that has a child.
func (f *field) shim(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	var parents []string
	for _, path := range all {
		if status, err := os.ReadFile(path); err == nil { // otherwise it has ended
			parents = append(parents, strings.Fields(string(status[bytes.Index(status, []byte("\nPPid:")):]))[1])
		}
	}
	for _, line := range f.carriers(t) {
		dir, _, _ := strings.Cut(line, " ")
		if id := filepath.Base(dir); readText(t, dir+"/comm") == "descartes-shim\n" && slices.Contains(parents, id) {
			pid, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("no supervising process")
	return 0
}

// The supervising process dies under a running agent: that costs the attempt, no process of the agent survives it, and
// the run goes on.
func TestSignalKillOfShim(t *testing.T) {
	t.Parallel()
	f, r := held(t)
	if err := syscall.Kill(f.shim(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.letGo(t)
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
	for _, e := range f.journal(t) {
		if e.Type == journal.AttemptFinished && e.Task == "1" && e.Attempt == 1 && e.Verdict != journal.Crashed {
			t.Errorf("the attempt is %q", e.Verdict)
		}
	}
}

// Of two runs over a tag that start at the same moment, one does the work and the other is refused.
func TestSignalTwoStarts(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			f := newField(t, tinyPlan())
			a, b := f.begin(t, "start"), f.begin(t, "start")
			codes := []int{a.wait(t), b.wait(t)}
			slices.Sort(codes)
			if !slices.Equal(codes, []int{exitInput, exitBlocked}) {
				t.Errorf("exit codes %v\n%s\n%s", codes, a.errors(t), b.errors(t))
			}
			f.checkEnd(t)
		})
	}
}
