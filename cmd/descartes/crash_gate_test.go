//go:build crashpoints

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/journal"
)

// newGateField is a field for a criteria loop whose agent meets nothing, so that it is stopped after five
// iterations that were judged.
func newGateField(t *testing.T) *field {
	t.Helper()
	f := newField(t, smallPlan())
	script := "echo $DESCARTES_ITERATION >>" + f.aside + "/calls\necho work >work-$DESCARTES_ITERATION.txt\n" +
		"printf -- '---LOOP_STATUS---\\nEXIT_SIGNAL: false\\nCRITERIA: {\"a\": false, \"b\": false}\\n---END_STATUS---\\n'\n"
	if err := os.WriteFile(f.aside+"/gate.sh", []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	f.flags = []string{"--command", "sh " + f.aside + "/gate.sh", "--prompt", "go", "--auto-commit", "--json", "--max-iterations", "30",
		"--criterion", "a :: test -e no-such-file", "--criterion", "b", "--shape", "tool", "--reversibility", "2B"}
	return f
}

// TestCrashGate kills a criteria loop at every point of it: no iteration is judged twice or forgotten, and the
// breaker opens with the same count as undisturbed.
func TestCrashGate(t *testing.T) {
	f := newGateField(t)
	list := filepath.Join(f.aside, "points")
	r := f.begin(t, "start", "DESCARTES_CRASH_COUNT_FILE="+list)
	if code := r.wait(t); code != exitWaits {
		t.Fatalf("undisturbed: exit %d\n%s", code, r.errors(t))
	}
	f.checkGate(t)
	points := strings.Split(strings.TrimSpace(readText(t, list)), "\n")
	t.Logf("%d points of %d kinds", len(points), kindsOf(points))
	for k := range points {
		t.Run(strconv.Itoa(k+1)+" "+points[k], func(t *testing.T) {
			t.Parallel()
			f := newGateField(t)
			r := f.begin(t, "start", "DESCARTES_CRASH_AT="+strconv.Itoa(k+1))
			if code := r.wait(t); code != -int(syscall.SIGKILL) && code != exitWaits {
				t.Fatalf("to be killed at point %d: exit %d\n%s", k+1, code, r.errors(t))
			}
			if r := f.begin(t, f.repeatVerb()); r.wait(t) != exitWaits {
				t.Fatalf("after the kill: %s", r.errors(t))
			}
			f.checkGate(t)
		})
	}
}

// checkGate counts the iterations that were judged.
func (f *field) checkGate(t *testing.T) {
	t.Helper()
	home := loop.NewHome(f.root)
	st, err := loop.LoadState(home.Default())
	if err != nil {
		t.Fatal(err)
	}
	events, err := journal.ReadEvents(home.Events(st.ID))
	if err != nil {
		t.Fatal(err)
	}
	judged := map[int]int{}
	for _, e := range events {
		if e.Type == journal.IterationFinished && e.Decision != journal.CutShort {
			judged[e.Iteration]++
		}
	}
	var g gate.Criteria
	if err := json.Unmarshal(st.Gate, &g); err != nil {
		t.Fatal(err)
	}
	if len(judged) != 5 || g.Count.Stuck != 5 || g.Waiting != gate.BreakCriteria {
		t.Errorf("judged %v, stuck %d, waits at %q", judged, g.Count.Stuck, g.Waiting)
	}
	for n, times := range judged {
		if times != 1 {
			t.Errorf("iteration %d was judged %d times", n, times)
		}
	}
	file, err := os.ReadFile(filepath.Join(f.root, ".loop", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	if s, problems, err := gate.DecodeState(file); err != nil || len(problems) > 0 || s.Stuck != 5 || s.State != "paused" {
		t.Errorf("the state file says %s: %v, %v", file, problems, err)
	}
	if out := f.git(t, "status", "--porcelain"); out != "" {
		t.Errorf("left uncommitted:\n%s", out)
	}
}
