package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"descartes/launch"
	"descartes/loop/journal"
)

// TestSlotsKilled: what a run with slots comes to is what one agent at a time comes to, also where tasks meet, one
// breaks another's work, one hangs, and the run is killed on the way.
func TestSlotsKilled(t *testing.T) {
	slotsLikeSerial(t, fieldPlan{size: 12, width: 6, apart: true, slots: 4, meeting: []int{1, 2},
		clashing: []int{3, 4}}, 2)
}

// TestMaskKilled kills a run while it checks what several tasks came to, when the log has a secret that nobody has
// masked yet: whoever resumes it masks that.
func TestMaskKilled(t *testing.T) {
	f := newField(t, fieldPlan{size: 4, width: 2, apart: true, slots: 2})
	f.flags[slices.Index(f.flags, "--verify")+1] = `echo $MY_TOKEN; echo >` + f.aside +
		`/printed; while [ ! -e ` + f.aside + `/go ]; do sleep 0.02; done`
	f.flags = append(f.flags, "--env-pass", "MY_TOKEN")
	f.env = []string{"MY_TOKEN=" + crashToken}
	r := f.begin(t, "start")
	until(t, "a check", func() bool { return !r.alive() || readText(t, f.aside+"/printed") != "" && len(f.leaks(t)) > 0 })
	if _ = r.p.Kill(); r.wait(t) != -int(syscall.SIGKILL) {
		t.Fatalf("it ended before the kill:\n%s", r.errors(t))
	}
	if err := os.WriteFile(f.aside+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := f.begin(t, "resume"); r.wait(t) != exitDone {
		t.Fatalf("after the kill: %s", r.errors(t))
	}
	if found := f.leaks(t); len(found) > 0 {
		t.Errorf("the secret is in %q", found)
	}
}

// slotsLikeSerial runs a plan one task at a time and then in slots, killed so often, and compares what the two come
// to.
func slotsLikeSerial(t *testing.T, p fieldPlan, kills int) {
	one := p
	one.slots = 0
	flags := randomFlags()
	if len(p.hanging) > 0 {
		flags = append(flags, "--timeout", "20")
	}
	serial := newField(t, one, flags...)
	if code := serial.begin(t, "start").wait(t); code != exitDone {
		t.Fatalf("one at a time: exit %d", code)
	}
	serial.checkEnd(t)
	f := newField(t, p, flags...)
	for k := range kills {
		r := f.begin(t, f.goOn(t, k))
		until(t, "tasks that are done", func() bool { return !r.alive() || f.done(t) > p.size*(k+1)/(kills+2) })
		_ = r.p.Kill()
		if code := r.wait(t); code != -int(syscall.SIGKILL) {
			t.Fatalf("exit %d before kill %d\n%s", code, k+1, r.errors(t))
		}
		f.checkFiles(t)
		f.promise(t, r)
	}
	r := f.begin(t, "resume")
	if code := r.wait(t); code != exitDone {
		t.Fatalf("after the kills: exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
	f.checkSlots(t)
	if got, want := f.apart(t), serial.apart(t); got != want {
		t.Errorf("where work does not overlap: got\n%s\nwant\n%s", got, want)
	}
	if got, want := f.met(t), serial.met(t); !slices.Equal(got, want) {
		t.Errorf("where it does: %q, want %q", got, want)
	}
}

// done counts the tasks that the journal knows to be done.
func (f *field) done(t *testing.T) (n int) {
	t.Helper()
	for _, e := range f.journal(t) {
		if e.Type == journal.TaskDone {
			n++
		}
	}
	return n
}

// apart lists what HEAD has where no two tasks write the same file.
func (f *field) apart(t *testing.T) string {
	t.Helper()
	lines := strings.SplitAfter(f.git(t, "ls-tree", "-r", "HEAD"), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasSuffix(l, "\tshared.txt\n")
	}), "")
}

// met is what they wrote to the same file, in an order of its own.
func (f *field) met(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(strings.Lines(f.git(t, "show", "HEAD:shared.txt")))
}

// checkSlot is the number of the first slot in which commits are checked.
const checkSlot = 3001

// checkSlots: a run leaves its slots, for the next one, and its refs, and cleanup removes them.
func (f *field) checkSlots(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(launch.PoolOf(f.root))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".lock"), ".files")
		if n, err := strconv.Atoi(name); name != "objects" && name != "project" && n != checkSlot &&
			(err != nil || n < 1 || n > f.plan.slots) {
			t.Errorf("%s is left in the pool of %d slots", e.Name(), f.plan.slots)
		}
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	r := f.launch(t, []string{path, "cleanup", "--older-than", "0s"}, fieldEnv())
	if code := r.wait(t); code != exitDone {
		t.Fatalf("cleanup: exit %d\n%s", code, r.errors(t))
	}
	if left := f.git(t, "for-each-ref", "--format=%(refname)", "refs/descartes/pool"); left != "" {
		t.Errorf("refs are left:\n%s", left)
	}
	f.checkRepository(t)
}
