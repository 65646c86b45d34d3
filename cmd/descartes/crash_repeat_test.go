//go:build crashpoints

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/loop"
	"descartes/loop/journal"
)

// repeated is how many iterations an undisturbed loop of newRepeatField takes.
const repeated = 3

// newRepeatField is a field for a prompt loop. Its agent notes each iteration that it begins, and promises from
// the third on.
func newRepeatField(t *testing.T) *field {
	t.Helper()
	f := newField(t, smallPlan())
	script := "echo $DESCARTES_ITERATION >>" + f.aside + "/calls\necho work >work-$DESCARTES_ITERATION.txt\n" +
		"if [ $DESCARTES_ITERATION -ge " + strconv.Itoa(repeated) + " ]; then echo '<promise>COMPLETE</promise>'; else echo more; fi\n"
	if err := os.WriteFile(f.aside+"/repeat.sh", []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	f.flags = []string{"--command", "sh " + f.aside + "/repeat.sh", "--prompt", "go", "--auto-commit", "--json"}
	return f
}

// TestCrashRepeat kills a prompt loop at every point of it, every third time also while it is taken up again: its
// counter never goes back, no iteration runs twice, and all that an agent wrote is committed once.
func TestCrashRepeat(t *testing.T) {
	f := newRepeatField(t)
	list := filepath.Join(f.aside, "points")
	r := f.begin(t, "start", "DESCARTES_CRASH_COUNT_FILE="+list)
	if code := r.wait(t); code != exitDone {
		t.Fatalf("undisturbed: exit %d\n%s", code, r.errors(t))
	}
	f.checkRepeat(t)
	points := strings.Split(strings.TrimSpace(readText(t, list)), "\n")
	t.Logf("%d points of %d kinds in a run of %v", len(points), kindsOf(points), time.Since(r.began).Round(time.Millisecond))
	for k := range points {
		t.Run(strconv.Itoa(k+1)+" "+points[k], func(t *testing.T) {
			t.Parallel()
			f := newRepeatField(t)
			f.fallRepeat(t, k+1)
			if k%3 == 0 {
				f.fallRepeat(t, 1+k*5%17)
			}
			if f.lastIteration(t) > 0 && f.ended(t) {
				f.checkRepeat(t)
				return
			}
			if r := f.begin(t, f.repeatVerb()); r.wait(t) != exitDone {
				t.Fatalf("after the kill: %s", r.errors(t))
			}
			f.checkRepeat(t)
		})
	}
}

// repeatVerb goes on with the loop if its state was written.
func (f *field) repeatVerb() string {
	if _, err := os.Stat(loop.NewHome(f.root).Default()); err != nil {
		return "start"
	}
	return "resume"
}

// fallRepeat kills a run at point k. The counter is then not behind what the agents have seen.
func (f *field) fallRepeat(t *testing.T, k int) {
	t.Helper()
	if f.lastIteration(t) > 0 && f.ended(t) {
		return
	}
	before := f.lastIteration(t)
	r := f.begin(t, f.repeatVerb(), "DESCARTES_CRASH_AT="+strconv.Itoa(k))
	switch code := r.wait(t); code {
	case -int(syscall.SIGKILL), exitDone:
	default:
		t.Fatalf("to be killed at point %d: exit %d\n%s", k, code, r.errors(t))
	}
	calls := f.repeatCalls(t)
	after := f.lastIteration(t)
	if after < before || len(calls) > 0 && after < calls[len(calls)-1] {
		t.Fatalf("the counter is %d; it was %d, and the agents have seen %v", after, before, calls)
	}
}

// lastIteration is the counter in the state file, 0 without one.
func (f *field) lastIteration(t *testing.T) int {
	t.Helper()
	st, err := loop.LoadState(loop.NewHome(f.root).Default())
	if os.IsNotExist(err) || err != nil && strings.Contains(err.Error(), "no such file") {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return st.Iteration
}

func (f *field) ended(t *testing.T) bool {
	t.Helper()
	st, err := loop.LoadState(loop.NewHome(f.root).Default())
	if err != nil {
		t.Fatal(err)
	}
	return st.Completed
}

// repeatCalls are the iterations that agents were started for.
func (f *field) repeatCalls(t *testing.T) (calls []int) {
	t.Helper()
	text, err := os.ReadFile(f.aside + "/calls")
	if err != nil {
		return nil
	}
	for word := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, n)
	}
	return calls
}

// checkRepeat holds the end of a loop against what its agents did.
func (f *field) checkRepeat(t *testing.T) {
	t.Helper()
	calls := f.repeatCalls(t)
	if !slices.IsSorted(calls) || len(slices.Compact(slices.Clone(calls))) != len(calls) {
		t.Errorf("the agents were started for iterations %v", calls)
	}
	if st, err := loop.LoadState(loop.NewHome(f.root).Default()); err != nil {
		t.Error(err)
	} else if st.ExitReason.Type != string(journal.PromiseSeen) || st.Iteration != calls[len(calls)-1] {
		t.Errorf("ended by %s in iteration %d, the last agent was that of %v", st.ExitReason.Type, st.Iteration, calls)
	}
	if out := f.git(t, "status", "--porcelain"); out != "" {
		t.Errorf("left uncommitted:\n%s", out)
	}
	subjects := strings.Fields(strings.ReplaceAll(f.git(t, "log", "--reverse", "--format=%s", "HEAD"), "loop: iteration ", ""))[1:]
	var want []string
	for _, n := range calls {
		want = append(want, strconv.Itoa(n))
	}
	if !slices.Equal(subjects, want) {
		t.Errorf("commits of iterations %v, agents of %v", subjects, want)
	}
}
