//go:build crashpoints

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// kills is what the random kill loop counts, over all its runs.
type kills struct {
	runs, kills atomic.Int64
}

// TestCrashRandom kills the program 100 times (DESCARTES_CRASH_KILLS), one to eight times a run, at
// any moment at all. DESCARTES_CRASH_SEED repeats the choices, if not the machine's timing.
func TestCrashRandom(t *testing.T) {
	seed := uint64(number(t, "DESCARTES_CRASH_SEED", int(time.Now().UnixNano()&(1<<40-1))))
	wanted := int64(number(t, "DESCARTES_CRASH_KILLS", 100))
	t.Logf("DESCARTES_CRASH_SEED=%d", seed)
	f := newField(t, smallPlan(), randomFlags()...)
	r := f.begin(t, "start")
	if code := r.wait(t); code != exitBlocked {
		t.Fatalf("undisturbed: exit %d\n%s", code, r.errors(t))
	}
	f.checkEnd(t)
	whole := time.Since(r.began)
	var k kills
	t.Run("kills", func(t *testing.T) {
		for worker := range 2 {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(worker)))
				for n := 1; k.kills.Load() < wanted && !t.Failed(); n++ {
					t.Run(fmt.Sprint(n), func(t *testing.T) { k.run(t, random, whole) })
				}
			})
		}
	})
	t.Logf("%d kills over %d runs; an undisturbed run takes %v", k.kills.Load(), k.runs.Load(),
		whole.Round(time.Millisecond))
}

// run is one run with its kills.
func (k *kills) run(t *testing.T, random *rand.Rand, whole time.Duration) {
	f := newField(t, smallPlan(), randomFlags()...)
	k.runs.Add(1)
	for range 1 + random.IntN(8) {
		if f.over(t) {
			break
		}
		r := f.begin(t, f.goOn(t, random.IntN(2)))
		select {
		case <-r.ended:
		case <-time.After(time.Duration(random.Int64N(int64(whole / 3)))):
			_ = r.p.Kill()
		}
		switch code := r.wait(t); code {
		case -int(syscall.SIGKILL):
			k.kills.Add(1)
		case exitBlocked:
		default:
			t.Fatalf("exit %d\n%s", code, r.errors(t))
		}
		f.checkFiles(t)
		f.promise(t, r)
	}
	f.finish(t, f.goOn(t, random.IntN(2)))
	f.checkEnd(t)
}

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
	f.flags = []string{"--command", "sh " + f.aside + "/gate.sh", "--prompt", "go", "--auto-commit", "--json",
		"--max-iterations", "30",
		"--criterion", "a :: test -e no-such-file", "--criterion", "b", "--set", "shape=tool", "--set",
		"reversibility=2B"}
	return f
}

// TestCrashGate kills a criteria loop at points of each kind: no iteration is judged twice or forgotten, and the
// breaker opens with the same count as undisturbed.
func TestCrashGate(t *testing.T) {
	f := newGateField(t)
	chosen := f.undisturbed(t, 1, exitWaits)
	f.checkGate(t)
	for _, at := range chosen {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			f := newGateField(t)
			f.fallWaiting(t, at)
			f.checkGate(t)
		})
	}
}

// fallWaiting kills a loop at a place and resumes it until it waits for a person.
func (f *field) fallWaiting(t *testing.T, at place) {
	t.Helper()
	r := f.begin(t, "start", "DESCARTES_CRASH_AT="+at.String())
	if code := r.wait(t); code != -int(syscall.SIGKILL) && code != exitWaits {
		t.Fatalf("to be killed at %s: exit %d\n%s", at, code, r.errors(t))
	}
	if r := f.begin(t, f.repeatVerb()); r.wait(t) != exitWaits {
		t.Fatalf("after the kill: %s", r.errors(t))
	}
}

// checkGate counts the iterations that were judged.
func (f *field) checkGate(t *testing.T) {
	t.Helper()
	home := store.NewHome(f.root)
	st, err := store.LoadState(home.Default())
	if err != nil {
		t.Fatal(err)
	}
	events, err := journal.ReadEvents(home.Events(st.ID))
	if err != nil {
		t.Fatal(err)
	}
	judged := map[int]int{}
	for _, e := range events {
		if e.Type == journal.IterationFinished && e.Verdict != journal.Cancelled {
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
	if s, problems, err := gate.DecodeState(file); err != nil || len(problems) > 0 || s.Breaker.Stuck != 5 ||
		s.State != "paused" {
		t.Errorf("the state file says %s: %v, %v", file, problems, err)
	}
	if out := f.git(t, "status", "--porcelain"); out != "" {
		t.Errorf("left uncommitted:\n%s", out)
	}
}

// TestCrashMask kills the program when it is about to overwrite a secret in a log: whoever goes on does it.
func TestCrashMask(t *testing.T) {
	chatty := func(t *testing.T) *field {
		f := newField(t, smallPlan())
		script := f.aside + "/agent.sh"
		quiet := readText(t, script)
		text := "echo out $MY_TOKEN; echo err $MY_TOKEN >&2\n" + quiet
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for i := range f.flags {
			if i > 0 && f.flags[i-1] == "--verify" {
				f.flags[i] = "echo verify $MY_TOKEN; " + f.flags[i]
			}
		}
		f.flags = append(f.flags, "--env-pass", "MY_TOKEN")
		f.env = []string{"MY_TOKEN=" + crashToken}
		return f
	}
	f := chatty(t)
	f.undisturbed(t, 1, exitBlocked)
	if found := f.leaks(t); len(found) > 0 {
		t.Errorf("undisturbed: the secret is in %q", found)
	}
	seen := strings.Count(readText(t, filepath.Join(f.aside, "points")), "mask\n")
	if seen < 6 {
		t.Errorf("%d points", seen)
	}
	for k := 1; k <= seen; k++ {
		if k%3 != 1 && k > 6 {
			continue
		}
		t.Run(strconv.Itoa(k), func(t *testing.T) {
			t.Parallel()
			f := chatty(t)
			f.fall(t, place{"mask", k}, "start")
			if f.killed && len(f.leaks(t)) == 0 {
				t.Error("killed before it masked anything, and no log has the secret")
			}
			f.finish(t, f.goOn(t, k))
			f.checkEnd(t)
			if found := f.leaks(t); len(found) > 0 {
				t.Errorf("the secret is in %q", found)
			}
		})
	}
}

// repeated is how many iterations an undisturbed loop of newRepeatField takes.
const repeated = 3

// newRepeatField is a field for a prompt loop. Its agent notes each iteration that it begins, and promises from
// the third on.
func newRepeatField(t *testing.T, flags ...string) *field {
	t.Helper()
	f := newField(t, smallPlan())
	script := "echo $DESCARTES_ITERATION >>" + f.aside + "/calls\necho work >work-$DESCARTES_ITERATION.txt\n" +
		"if [ $DESCARTES_ITERATION -ge " + strconv.Itoa(repeated) +
		" ]; then echo '<promise>COMPLETE</promise>'; else echo more; fi\n"
	if err := os.WriteFile(f.aside+"/repeat.sh", []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	f.flags = append([]string{"--command", "sh " + f.aside + "/repeat.sh", "--prompt", "go", "--auto-commit",
		"--json"}, flags...)
	return f
}

// TestCrashRepeat kills a prompt loop at points of each kind, every third time also while it is taken up again: its
// counter never goes back, an iteration runs again only until it is committed, and each is committed once.
func TestCrashRepeat(t *testing.T) {
	f := newRepeatField(t)
	chosen := f.undisturbed(t, 1, exitDone)
	f.checkRepeat(t)
	for i, at := range chosen {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			f := newRepeatField(t)
			f.fallRepeat(t, at)
			if i%3 == 0 {
				f.fallRepeat(t, place{chosen[i*5%len(chosen)].kind, 1})
			}
			if f.lastIteration(t) == 0 || !f.ended(t) {
				if r := f.begin(t, f.repeatVerb()); r.wait(t) != exitDone {
					t.Fatalf("after the kill: %s", r.errors(t))
				}
			}
			f.checkRepeat(t)
		})
	}
}

// repeatVerb goes on with the loop if its state was written.
func (f *field) repeatVerb() string {
	if _, err := os.Stat(store.NewHome(f.root).Default()); err != nil {
		return "start"
	}
	return "resume"
}

// fallRepeat kills a run at a place. The counter is then not behind what the agents have seen.
func (f *field) fallRepeat(t *testing.T, at place) {
	t.Helper()
	if f.lastIteration(t) > 0 && f.ended(t) {
		return
	}
	before := f.lastIteration(t)
	r := f.begin(t, f.repeatVerb(), "DESCARTES_CRASH_AT="+at.String())
	switch code := r.wait(t); code {
	case -int(syscall.SIGKILL), exitDone:
	default:
		t.Fatalf("to be killed at %s: exit %d\n%s", at, code, r.errors(t))
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
	st, err := store.LoadState(store.NewHome(f.root).Default())
	if os.IsNotExist(err) || err != nil && strings.Contains(err.Error(), "no such file") {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return st.Iteration
}

// ended reports whether the run has ended, by its journal: a kill may come before the state file says so.
func (f *field) ended(t *testing.T) bool {
	t.Helper()
	home := store.NewHome(f.root)
	st, err := home.Load(home.Default())
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
	if !slices.IsSorted(calls) {
		t.Errorf("the agents were started for iterations %v", calls)
	}
	if st, err := store.NewHome(f.root).Load(store.NewHome(f.root).Default()); err != nil {
		t.Error(err)
	} else if st.ExitReason.Type != string(journal.PromiseSeen) || st.Iteration != calls[len(calls)-1] {
		t.Errorf("ended by %s in iteration %d, the last agent was that of %v", st.ExitReason.Type, st.Iteration, calls)
	}
	if out := f.git(t, "status", "--porcelain"); out != "" {
		t.Errorf("left uncommitted:\n%s", out)
	}
	subjects := strings.Fields(strings.ReplaceAll(f.git(t, "log", "--reverse", "--format=%s", "HEAD"),
		"loop: iteration ", ""))[1:]
	var want []string
	for _, n := range slices.Compact(slices.Clone(calls)) {
		want = append(want, strconv.Itoa(n))
	}
	if !slices.Equal(subjects, want) {
		t.Errorf("commits of iterations %v, agents of %v", subjects, want)
	}
}
