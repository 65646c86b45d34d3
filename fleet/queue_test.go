package fleet

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet/wire"
)

// TestQueues: the queue of an attempt is polled by those workers that have all that it needs, and by no others.
func TestQueues(t *testing.T) {
	labels := []string{"arm", "go", "gpu"}
	sets := [][]string{nil, {"arm"}, {"go"}, {"gpu"}, {"arm", "go"}, {"arm", "gpu"}, {"go", "gpu"}, labels}
	for _, has := range sets {
		polled := queues(has)
		if len(polled) != 1<<len(has) {
			t.Errorf("%v: %d queues", has, len(polled))
		}
		for _, needs := range sets {
			want := identity{Labels: has}.can(needs)
			if got := slices.Contains(polled, queueOf(needs)); got != want {
				t.Errorf("a worker with %v polls %s: %v, want %v", has, queueOf(needs), got, want)
			}
		}
	}
}

// TestIdentity: what a worker says of itself comes back; other programs are no workers.
func TestIdentity(t *testing.T) {
	for _, id := range []identity{{Name: "a@1", Slots: 8, Account: "team-a", Labels: []string{"go", "gpu"}}, {Name: "b@2", Slots: 1, Account: "me@host.org", Paused: fullDisk}, {Name: "c@3", Slots: 3, Account: "x"}} {
		if got := readIdentity(id.String()); !reflect.DeepEqual(got, id) {
			t.Errorf("got %+v, want %+v", got, id)
		}
	}
	for _, text := range []string{"host@7", "", "x slots=many", "x slots="} {
		if got := readIdentity(text); got.Slots != 0 {
			t.Errorf("%q is a worker: %+v", text, got)
		}
	}
}

// reservation asks for a slot for a queue.
type reservation struct {
	worker.SlotReservationInfo
	queue string
}

func (r reservation) TaskQueue() string { return r.queue }

// TestSlots: a queue is polled while a slot is free and the disk has room, and not by a worker that has just handed an attempt from it back;
// no poll keeps a slot.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := ""
		s := newSlots(1, func() string { return full })
		// after is how long a queue is not polled; never is longer than a minute
		const never = time.Minute
		after := func(queue string) time.Duration {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), never)
			defer cancel()
			began := time.Now()
			_, _ = s.ReserveSlot(ctx, reservation{queue: queue})
			return time.Since(began)
		}
		expect := func(what, queue string, want time.Duration) {
			t.Helper()
			if got := after(queue); got != want {
				t.Errorf("%s: the queue %s is polled after %v, want %v", what, queue, got, want)
			}
		}
		expect("one slot", "a", 0)
		expect("polls take none", "b", 0)
		if !s.take() || s.take() {
			t.Error("one slot is not one attempt")
		}
		expect("no slot", "a", never)
		time.AfterFunc(3*time.Second, s.give)
		expect("it becomes free", "a", 3*time.Second)
		s.stepAside("a")
		s.stepAside("a") // another poll that was under way
		expect("another queue", "b", 0)
		expect("stepped aside", "a", firstPause)
		s.stepAside("a")
		expect("again", "a", 2*firstPause)
		for range 10 {
			s.stepAside("a")
			time.Sleep(lastPause)
		}
		s.stepAside("a")
		expect("many times", "a", lastPause)
		s.stepAside("a")
		s.made("a")
		expect("one was made", "a", 0)
		full = "no room"
		expect("full disk", "a", never)
		time.AfterFunc(time.Second, func() { full = "" })
		expect("room again", "a", lookAgain)
	})
}

// known is the accounts of a test.
type known struct {
	limits map[string]time.Time // by account and backend
	noted  []wire.Limit
}

func (k *known) out(_ context.Context, account, backend string) (wire.Limit, bool) {
	until, ok := k.limits[account+"/"+backend]
	return wire.Limit{Until: until}, ok
}

func (k *known) note(_ context.Context, l wire.Limit) error {
	k.noted = append(k.noted, l)
	return nil
}

// TestHandsBack: a worker begins no attempt for which it has no slot, no room or no quota, and hands it back as one that may be made elsewhere.
func TestHandsBack(t *testing.T) {
	for _, c := range []struct {
		name, backend, kind string
		slots, tries        int
		full                string
	}{
		{name: "no slot", slots: 0, kind: noSlot},
		{name: "no room", slots: 1, full: "full", kind: noRoom},
		{name: "no quota", slots: 1, backend: "claude", kind: noQuota},
		{name: "too many tries", slots: 1, tries: mostTries, kind: refused},
		{name: "another backend", slots: 1, backend: "codex"}, // it begins, and there is no program
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &Worker{Program: "/does/not/exist", Repos: []string{"*"}, Account: "team-a", Log: io.Discard, slots: newSlots(c.slots, func() string { return c.full }),
				room: func() string { return c.full }, quota: &known{limits: map[string]time.Time{"team-a/claude": time.Now().Add(time.Hour)}}}
			env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			env.RegisterActivityWithOptions(w.make, activity.RegisterOptions{Name: makeActivity})
			if c.tries > 0 {
				env.SetHeartbeatDetails(beat{Host: "b", Tries: c.tries})
			}
			began := 0
			env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { began++ })
			_, err := env.ExecuteActivity(makeActivity, wire.Ask{Task: "3", Backend: c.backend})
			app, _ := errors.AsType[*temporal.ApplicationError](err)
			if c.kind == "" {
				if err == nil || app != nil && handedBack(app.Type()) || began == 0 {
					t.Errorf("it was not begun: %v", err)
				}
				return
			}
			if app == nil || app.Type() != c.kind || began > 0 {
				t.Errorf("got %v, begun %d times, want %s", err, began, c.kind)
			}
			if app != nil && handedBack(c.kind) == (app.NextRetryDelay() == 0) || app != nil && app.NonRetryable() == handedBack(c.kind) {
				t.Errorf("it is not offered again soon: %v", app.NextRetryDelay())
			}
			if c.slots > 0 && !w.slots.take() {
				t.Error("its slot is not given back")
			}
		})
	}
}

// TestMade: what becomes of an attempt that was begun: its result; a limit, which the fleet hears of; a full disk, which is no try and keeps the
// worker from the next one; or any other fault, which is a try.
func TestMade(t *testing.T) {
	for _, c := range []struct {
		name, script, commit string
		limit                bool
		tries                int // that are known afterwards
		full                 bool
	}{
		{name: "made", script: `echo '{"done":{"ref":"r","commit":"c1"}}'`, commit: "c1", tries: 3},
		{name: "limit", script: `echo '{"done":{"ref":"r","commit":"c1","limit":{"backend":"claude","reason":"weekly limit"}}}'`, commit: "c1", limit: true, tries: 3},
		{name: "no room", script: "echo 'error: no space' >&2; exit 3", tries: 2, full: true},
		{name: "fault", script: "echo 'error: no such remote' >&2; exit 1", tries: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, "descartes")
			if err := os.WriteFile(program, []byte("#!/bin/sh\nread line\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			accounts := &known{}
			w := &Worker{Program: program, Cache: dir, Repos: []string{"*"}, Account: "team-a", Log: io.Discard, quota: accounts,
				report: func(context.Context, []byte, ...any) error { return nil }}
			w.room = w.full
			w.slots = newSlots(1, w.room)
			env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			env.RegisterActivityWithOptions(w.make, activity.RegisterOptions{Name: makeActivity})
			env.SetHeartbeatDetails(beat{Host: "b", Tries: 2})
			var last beat
			env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
				if err := details.Get(&last); err != nil {
					t.Error(err)
				}
			})
			said, err := env.ExecuteActivity(makeActivity, wire.Ask{Task: "3", Backend: "claude"})
			var kept wire.Kept
			if err == nil {
				err = said.Get(&kept)
			}
			app, _ := errors.AsType[*temporal.ApplicationError](err)
			switch {
			case kept.Commit != c.commit || (err == nil) != (c.commit != ""):
				t.Errorf("got %+v, %v", kept, err)
			case c.full != (app != nil && app.Type() == noRoom):
				t.Errorf("got %v", err)
			}
			if got := len(accounts.noted) == 1 && accounts.noted[0].Account == "team-a" && accounts.noted[0].Backend == "claude"; got != c.limit {
				t.Errorf("the fleet heard of %+v", accounts.noted)
			}
			if last.Tries != c.tries || (w.room() != "") != c.full {
				t.Errorf("%d tries, want %d; the disk: %q", last.Tries, c.tries, w.room())
			}
			if !w.slots.take() {
				t.Error("its slot is not given back")
			}
			if aside := len(w.slots.aside) > 0; aside != (c.name == "fault") {
				t.Errorf("it leaves the queue to others: %v", aside)
			}
		})
	}
}

// TestHandedBackIsNoTry: an attempt may be handed back as often as it takes.
func TestHandedBackIsNoTry(t *testing.T) {
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Attempt, workflow.RegisterOptions{Name: attemptWorkflow})
	offers := 0
	env.RegisterActivityWithOptions(func(ctx context.Context, _ wire.Ask) (wire.Kept, error) {
		if queue := activity.GetInfo(ctx).TaskQueue; queue != "descartes-1/go+gpu" {
			t.Errorf("it is in the queue %s", queue)
		}
		if offers++; offers < 10*mostTries {
			return wire.Kept{}, handBack(noQuota, "no quota", time.Second)
		}
		return wire.Kept{Commit: "c"}, nil
	}, activity.RegisterOptions{Name: makeActivity})
	env.ExecuteWorkflow(attemptWorkflow, wire.Ask{Loop: "loop-1", Task: "3", Try: 1, Limit: 3600, Needs: []string{"go", "gpu"}})
	var k wire.Kept
	if err := env.GetWorkflowResult(&k); err != nil || k.Commit != "c" {
		t.Errorf("got %+v, %v after %d offers", k, err, offers)
	}
}

// TestAccount: an account is used up until the time that its agent said, or for a quarter of an hour, and longer each time that follows; what
// several attempts meet at a time counts once; a person may clear it.
func TestAccount(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name   string
		met    map[time.Duration]time.Duration // after which time a limit is met, and how long it lasts; 0 does not say
		clear  time.Duration
		until  map[time.Duration]time.Duration // what it says at a time
		lasted time.Duration
	}{
		{"said", map[time.Duration]time.Duration{0: 30 * minute}, 0, map[time.Duration]time.Duration{minute: 30 * minute}, 30*minute + rememberFor},
		{"longer", map[time.Duration]time.Duration{0: 30 * minute, minute: 50 * minute, 2 * minute: 10 * minute}, 0, map[time.Duration]time.Duration{3 * minute: 51 * minute}, 51*minute + rememberFor},
		{"not said", map[time.Duration]time.Duration{0: 0, 1 * minute: 0, 20 * minute: 0, 60 * minute: 0, 130 * minute: 0}, 0,
			map[time.Duration]time.Duration{2 * minute: 15 * minute, 21 * minute: 50 * minute, 61 * minute: 120 * minute, 131 * minute: 190 * minute}, 190*minute + rememberFor},
		{"passed already", map[time.Duration]time.Duration{0: -minute, minute: -minute, 2 * minute: -minute}, 0, map[time.Duration]time.Duration{2*minute + time.Second: 2*minute + 64*time.Second}, 2*minute + 64*time.Second + rememberFor},
		{"cleared", map[time.Duration]time.Duration{0: 300 * minute}, 5 * minute, map[time.Duration]time.Duration{minute: 300 * minute}, 5 * minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
			env.RegisterWorkflowWithOptions(Account, workflow.RegisterOptions{Name: accountWorkflow})
			began := env.Now()
			for at, lasts := range c.met {
				env.RegisterDelayedCallback(func() {
					l := wire.Limit{Account: "team-a", Backend: "claude"}
					if lasts != 0 {
						l.Until = env.Now().Add(lasts)
					}
					env.SignalWorkflow(limitSignal, l)
				}, at)
			}
			for at, want := range c.until {
				env.RegisterDelayedCallback(func() {
					var now wire.Limit
					said, err := env.QueryWorkflow(limitQuery)
					if err == nil {
						err = said.Get(&now)
					}
					if got := now.Until.Sub(began).Round(time.Second); err != nil || got != want {
						t.Errorf("after %v it is used up until %v, want %v", at, got, want)
					}
				}, at)
			}
			if c.clear > 0 {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(clearSignal, nil) }, c.clear)
			}
			env.ExecuteWorkflow(accountWorkflow, wire.Limit{}, 0)
			if err := env.GetWorkflowError(); err != nil {
				t.Error(err)
			}
			if got := env.Now().Sub(began); got != c.lasted {
				t.Errorf("it is remembered for %v, want %v", got, c.lasted)
			}
		})
	}
}

// TestWaits: of an attempt that nobody has it is said what is missing, and of a quota until when.
func TestWaits(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	limit := func(account string, hours int) wire.Limit {
		return wire.Limit{Account: account, Backend: "claude", Until: noon.Add(time.Duration(hours) * time.Hour), Reason: account + "'s weekly limit"}
	}
	plain, gpu := Seen{Name: "a@1", Slots: 2, Account: "one"}, Seen{Name: "b@2", Slots: 2, Account: "two", Labels: []string{"gpu"}}
	full := gpu
	full.Paused = fullDisk
	for _, c := range []struct {
		name    string
		s       Status
		needs   []string
		backend string
		want    string
		until   time.Time
	}{
		{"nobody", Status{}, nil, "claude", "a worker", time.Time{}},
		{"no label", Status{Workers: []Seen{plain}}, []string{"gpu"}, "claude", "a worker with gpu", time.Time{}},
		{"one of two", Status{Workers: []Seen{plain, gpu}}, []string{"go", "gpu"}, "claude", "a worker with go and gpu", time.Time{}},
		{"busy", Status{Workers: []Seen{plain, gpu}}, []string{"gpu"}, "claude", "a free slot", time.Time{}},
		{"full", Status{Workers: []Seen{plain, full}}, []string{"gpu"}, "claude", "a worker with gpu that has room on its disk", time.Time{}},
		{"another account", Status{Workers: []Seen{plain, gpu}, Accounts: []wire.Limit{limit("one", 1)}}, nil, "claude", "a free slot", time.Time{}},
		{"none left", Status{Workers: []Seen{plain, gpu}, Accounts: []wire.Limit{limit("one", 5), limit("two", 3)}}, nil, "claude", "quota: account two has none until ", noon.Add(3 * time.Hour)},
		{"none with the label", Status{Workers: []Seen{plain, gpu}, Accounts: []wire.Limit{limit("two", 3)}}, []string{"gpu"}, "claude", "quota: account two has none until ", noon.Add(3 * time.Hour)},
		{"another backend", Status{Workers: []Seen{plain, gpu}, Accounts: []wire.Limit{limit("one", 5), limit("two", 3)}}, nil, "codex", "a free slot", time.Time{}},
	} {
		w := c.s.waits(c.needs, c.backend)
		if !strings.HasPrefix(w.For, c.want) || c.until.IsZero() && w.For != c.want || !w.Until.Equal(c.until) || (w.Reason == "") != c.until.IsZero() {
			t.Errorf("%s: it waits for %+v, want %q until %v", c.name, *w, c.want, c.until)
		}
	}
}

// TestRank: the server begins with what is urgent, and what says nothing is in the middle.
func TestRank(t *testing.T) {
	var got []int
	for _, word := range []string{"critical", "high", "medium", "", "soon", "low"} {
		got = append(got, rank(&wire.Ask{Rank: word}))
	}
	if want := []int{1, 2, 3, 3, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCheck: labels and accounts become names of queues and workflows, so that nothing else passes for one.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		labels  []string
		account string
		ok      bool
	}{
		{[]string{"gpu", "go", "gpu"}, "team-a", true}, {nil, "me@host.org", true}, {[]string{"a", "b", "c", "d", "e"}, "x", true}, {[]string{"a", "b", "c", "d", "e", "f"}, "x", false},
		{[]string{"GPU"}, "x", false}, {[]string{"a+b"}, "x", false}, {[]string{""}, "x", false}, {[]string{"a b"}, "x", false}, {[]string{"a/b"}, "x", false},
		{nil, "", false}, {nil, "a/b", false}, {nil, "a b", false}, {nil, strings.Repeat("a", 65), false},
	} {
		w := Worker{Labels: c.labels, Account: c.account}
		if err := w.Check(); (err == nil) != c.ok {
			t.Errorf("%q %q: %v", c.labels, c.account, err)
		} else if c.ok && !slices.IsSorted(w.Labels) {
			t.Errorf("labels %v are not sorted", w.Labels)
		}
	}
}
