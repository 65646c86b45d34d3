package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/loop"
	"descartes/loop/journal"
	"descartes/tasks"
)

// checkFiles holds what must be true whenever no run is alive, killed or not: the task file, the
// state and the journal can be read.
func (f *field) checkFiles(t *testing.T) *tasks.File {
	t.Helper()
	file, err := tasks.Open(f.root, "t")
	if err != nil {
		t.Errorf("the task file does not parse: %v", err)
		return nil
	}
	all, err := loop.NewHome(f.root).List()
	if err != nil {
		t.Error(err)
	}
	for _, s := range all {
		if s.Err != nil {
			t.Errorf("the state does not parse: %v", s.Err)
			continue
		}
		if _, err := journal.ReadEvents(loop.NewHome(f.root).Events(s.State.ID)); err != nil {
			t.Errorf("the journal does not parse: %v", err)
		}
	}
	return file
}

// journal is what all loops of the field recorded, loop by loop.
func (f *field) journal(t *testing.T) (events []journal.Event) {
	t.Helper()
	paths, err := filepath.Glob(f.root + "/.descartes/runs/*/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		e, err := journal.ReadEvents(p)
		if err != nil {
			t.Error(err)
		}
		events = append(events, e...)
	}
	return events
}

// over reports whether the field's loop has ended for good.
func (f *field) over(t *testing.T) bool {
	t.Helper()
	all, err := loop.NewHome(f.root).List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(s loop.Saved) bool { return s.State != nil && s.State.Completed })
}

// checkEnd holds what must be true at the end, whatever happened on the way.
func (f *field) checkEnd(t *testing.T) {
	t.Helper()
	until(t, "the end of everything that carries the mark", func() bool { return len(f.carriers(t)) == 0 })
	f.checkStatuses(t)
	f.checkLedger(t)
	f.checkRepository(t)
	f.checkCommits(t)
	f.checkLeavings(t)
}

func (f *field) checkStatuses(t *testing.T) {
	t.Helper()
	done, blocked, held := f.plan.outcome()
	file := f.checkFiles(t)
	if file == nil {
		return
	}
	want := map[string]tasks.Status{}
	for _, id := range done {
		want[id] = tasks.Done
	}
	for _, id := range blocked {
		want[id] = tasks.Blocked
	}
	for _, id := range held {
		want[id] = tasks.Pending
	}
	for _, one := range file.Tasks() {
		if one.Status != want[one.ID] {
			t.Errorf("task %s is %s, want %s", one.ID, one.Status, want[one.ID])
		}
	}
}

// checkLedger: each attempt starts once and ends at most once, and nothing runs a verified task again.
func (f *field) checkLedger(t *testing.T) {
	t.Helper()
	seen, verified := map[note]int{}, map[string]bool{}
	_, _, held := f.plan.outcome()
	for _, n := range f.ledger(t) {
		seen[n]++
		switch {
		case n.what == "start" && verified[n.task]:
			t.Errorf("task %s was verified and its agent ran again, as attempt %d", n.task, n.attempt)
		case n.what == "start" && slices.Contains(held, n.task):
			t.Errorf("the held task %s was started", n.task)
		case n.what == "verified":
			verified[n.task] = true
		}
	}
	for n, times := range seen {
		if n.what != "verified" && times > 1 {
			t.Errorf("%s of task %s attempt %d: %d times", n.what, n.task, n.attempt, times)
		}
	}
}

func (f *field) checkRepository(t *testing.T) {
	t.Helper()
	if out := f.git(t, "fsck", "--strict", "--no-dangling", "--no-progress"); out != "" {
		t.Errorf("git fsck says:\n%s", out)
	}
	if out := f.git(t, "status", "--porcelain"); out != f.dirty {
		t.Errorf("git status says:\n%swant:\n%s", out, f.dirty)
	}
	if got := readText(t, f.root+"/cache/kept"); got != "the user's\n" {
		t.Errorf("the user's ignored file holds %q", got)
	}
	done, _, _ := f.plan.outcome()
	var want []string
	for _, id := range done {
		want = append(want, "work-"+id+".txt")
	}
	slices.Sort(want)
	got := strings.Fields(f.git(t, "ls-tree", "--name-only", "HEAD"))
	got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "work-") })
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("HEAD holds the work %v, want %v", got, want)
	}
	if bad := f.git(t, "grep", "-c", "", "HEAD", "--", "work-*"); strings.Count(bad, "\n") != len(want) || strings.Contains(bad, ":0") {
		t.Errorf("HEAD holds empty work:\n%s", bad)
	}
	for _, id := range done {
		if text := readText(t, f.root+"/work-"+id+".txt"); text != "good "+id+"\n" {
			t.Errorf("the work of task %s is %q", id, text)
		}
	}
}

// checkCommits: one commit for each wave, and each done task in exactly one.
func (f *field) checkCommits(t *testing.T) {
	t.Helper()
	log := f.git(t, "log", "--reverse", "--format=%(trailers:key=Descartes-Wave,valueonly,separator=%x20)|%(trailers:key=Descartes-Task,valueonly,separator=%x20)", "HEAD")
	lines := strings.Split(strings.TrimSpace(log), "\n")[1:] // the first is the user's
	var waves, of []string
	for _, line := range lines {
		wave, ids, _ := strings.Cut(line, "|")
		waves = append(waves, wave)
		of = append(of, strings.Fields(ids)...)
	}
	var want []string
	for w := 1; w <= f.plan.size/f.plan.width; w++ {
		want = append(want, fmt.Sprint(w))
	}
	if !slices.Equal(waves, want) {
		t.Errorf("the commits are of the waves %v, want %v", waves, want)
	}
	done, _, _ := f.plan.outcome()
	slices.Sort(of)
	slices.Sort(done)
	if !slices.Equal(of, done) {
		t.Errorf("the commits hold the tasks %v, want %v", of, done)
	}
}

// checkLeavings: no lock and no temporary file is left where somebody would stumble over it.
func (f *field) checkLeavings(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(f.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(f.root, path)
		name := e.Name()
		switch {
		case rel == ".git/descartes-loop", rel == ".git/descartes-run": // locks of the working tree are never unlinked
		case strings.HasPrefix(rel, ".git/") && (strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "descartes-") && !f.killed),
			strings.Contains(name, ".tmp-"):
			t.Errorf("%s is left", rel)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
