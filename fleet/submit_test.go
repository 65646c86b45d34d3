//go:build fleet

package fleet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSubmit: a submitted run survives the worker that coordinates it; its commits come to the branch on the remote, each task in one of them,
// and nobody else runs the tag meanwhile.
func TestSubmit(t *testing.T) {
	const n = 8
	w := newTown(t, plan{tasks: n, width: 2, workers: 2, slots: 2})
	const text = "#!/bin/sh\ncat >/dev/null; echo $DESCARTES_TASK_ID/$DESCARTES_ATTEMPT on $MACHINE >>$LEDGER; sleep 2; mkdir -p out; echo $DESCARTES_TASK_ID >out/$DESCARTES_TASK_ID; echo '<promise>COMPLETE</promise>'\n"
	if err := os.WriteFile(filepath.Join(w.project, "agent.sh"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	w.git(w.project, "commit", "-qam", "a slower agent")
	w.git(w.project, "push", "-q", "origin", "main")
	do := func(want int, args ...string) string {
		t.Helper()
		p := w.start(w.project, args[0], args[1:]...)
		<-p.over
		if code := p.cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%v: exit status %d, want %d\n%s", args, code, want, p.out)
		}
		return p.out.String()
	}
	submit := []string{"descartes-fleet", "submit", "tally", "--command", "./agent.sh", "--verify", "test -d out", "-j", "3"}
	untracked := filepath.Join(w.project, "untracked")
	if err := os.WriteFile(untracked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := do(2, submit...); !strings.Contains(said, "uncommitted changes: untracked") {
		t.Error(said)
	}
	if err := os.Remove(untracked); err != nil {
		t.Fatal(err)
	}
	if said := do(2, "descartes-fleet", "submit", "nothing"); !strings.Contains(said, `no tag "nothing"`) {
		t.Error(said)
	}
	if refs := w.git(w.project, "ls-remote", "origin"); strings.Contains(refs, "refs/descartes/") {
		t.Errorf("a refused submission left %s", refs)
	}

	said := do(0, submit...)
	id, _, _ := strings.Cut(strings.TrimPrefix(said, "submitted: "), ",")
	follow := w.start(w.project, "descartes-fleet", "follow", id)
	for deadline := time.Now().Add(time.Minute); w.attempts() < 3 || !strings.Contains(w.git(w.project, "ls-remote", "origin"), "/fleet/state"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no agent:\n%s", follow.out)
		}
	}
	for _, args := range [][]string{submit, {"descartes", "loop", "start", "--scud-tag", "tally", "--command", "./agent.sh", "--verify", "test -d out", "--fleet"}} {
		if said := do(2, args...); !strings.Contains(said, "runs tally already (loop "+id+")") {
			t.Error(said)
		}
	}
	first := slices.IndexFunc(w.workers, func(p *program) bool { return strings.Contains(p.out.String(), "run "+id) })
	if first < 0 {
		t.Fatal("nobody coordinates the run")
	}
	w.workers[first].kill() // and nobody takes its place
	select {
	case <-follow.over:
	case <-time.After(3 * time.Minute):
		t.Fatalf("the run does not end:\n%s", follow.out)
	}
	if code := follow.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(follow.out.String(), "takes the run over") {
		t.Errorf("exit status %d\n%s", code, follow.out)
	}
	w.git(w.project, "pull", "-q", "--ff-only", "origin", "main")
	seen := map[string]int{}
	for _, task := range strings.Fields(w.git(w.project, "log", "--format=%(trailers:key=Descartes-Task,valueonly)")) {
		seen[task]++
	}
	for i := range n {
		if task := string(rune('1' + i)); seen[task] != 1 {
			t.Errorf("task %s stands in %d commits", task, seen[task])
		}
	}
	if text, err := os.ReadFile(filepath.Join(w.project, "out", "8")); err != nil || string(text) != "8\n" {
		t.Errorf("task 8: %q, %v", text, err)
	}
	if got := w.attempts(); got > n+2 { // those that the killed worker made are made again
		t.Errorf("%d agents ran for %d tasks", got, n)
	}
	t.Logf("%d agents ran for %d tasks", w.attempts(), n)
}
