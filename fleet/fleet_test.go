package fleet

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet/wire"
)

// TestAttempt: a worker that is lost, or cannot make an attempt, is followed by another one, and what the last of them says counts; an order
// that nobody may make is tried once.
func TestAttempt(t *testing.T) {
	ask := wire.Ask{Loop: "loop-1", Tag: "x", Task: "3", Title: strings.Repeat("long ", 100), Try: 2, Limit: 3600}
	for _, c := range []struct {
		name  string
		fails []error // of the workers, one after the other
		want  string  // commit; "" is an error
		tries int
	}{
		{"at once", nil, "c1", 1},
		{"lost twice", []error{errors.New("full disk"), temporal.NewHeartbeatTimeoutError()}, "c3", 3},
		{"cut off", []error{errCut, errCut}, "c3", 3},
		{"refused", []error{temporal.NewNonRetryableApplicationError("no", refused, nil)}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
			env.RegisterWorkflowWithOptions(Attempt, workflow.RegisterOptions{Name: attemptWorkflow})
			tries := 0
			env.RegisterActivityWithOptions(func(_ context.Context, a wire.Ask) (wire.Kept, error) {
				tries++
				switch {
				case tries > len(c.fails):
				case errors.Is(c.fails[tries-1], errCut):
					return wire.Kept{Commit: "cut", Cut: true}, nil
				default:
					return wire.Kept{}, c.fails[tries-1]
				}
				return wire.Kept{Commit: "c" + string(rune('0'+tries))}, nil
			}, activity.RegisterOptions{Name: makeActivity})
			env.ExecuteWorkflow(attemptWorkflow, ask)
			var k wire.Kept
			if err := env.GetWorkflowResult(&k); (err != nil) != (c.want == "") || k.Commit != c.want || tries != c.tries {
				t.Errorf("got %q, %v after %d tries, want %q after %d", k.Commit, err, tries, c.want, c.tries)
			}
		})
	}
}

// errCut stands for a worker that ended an attempt which nobody had cancelled.
var errCut = errors.New("cut off")

// TestRun: the claim of a run lasts as long as somebody says that he is there, and ends with a word.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		beats int
		over  bool
		lasts time.Duration // at least
	}{
		{"silent", 0, false, aliveFor},
		{"alive", 10, false, 10*aliveEvery + aliveFor},
		{"over", 1, true, 2 * aliveEvery},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
			env.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: runWorkflow})
			began := env.Now()
			for i := range c.beats {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(aliveSignal, nil) }, time.Duration(i+1)*aliveEvery)
			}
			if c.over {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(overSignal, nil) }, time.Duration(c.beats+1)*aliveEvery)
			}
			env.RegisterDelayedCallback(func() {
				said, err := env.QueryWorkflow(whoQuery)
				var who wire.Hello
				if err == nil {
					err = said.Get(&who)
				}
				if err != nil || who.Loop != "loop-1" {
					t.Errorf("who runs it: %+v, %v", who, err)
				}
			}, time.Second)
			env.ExecuteWorkflow(runWorkflow, wire.Hello{Tag: "x", Loop: "loop-1"})
			if err := env.GetWorkflowError(); err != nil {
				t.Error(err)
			}
			if took := env.Now().Sub(began); took != c.lasts {
				t.Errorf("it lasted %v, want %v", took, c.lasts)
			}
		})
	}
}

// TestBounds: no workflow comes near what Temporal allows one, 51,200 events, whatever happens: a day of a run, and an attempt that no worker
// brings to its end.
func TestBounds(t *testing.T) {
	const most = 5000 // events: a tenth
	beats := 0
	for day := 24 * time.Hour; day > 0; {
		env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
		env.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: runWorkflow})
		events := 1
		env.SetOnTimerScheduledListener(func(string, time.Duration) { events += 2 }) // its end, too
		for i := range min(mostBeats, int(day/aliveEvery)) {
			env.RegisterDelayedCallback(func() { events += 4; beats++; env.SignalWorkflow(aliveSignal, nil) }, time.Duration(i+1)*aliveEvery) // the signal and three of a workflow task
		}
		began := env.Now()
		env.ExecuteWorkflow(runWorkflow, wire.Hello{Tag: "x", Loop: "loop-1"})
		day -= env.Now().Sub(began)
		if events > most {
			t.Fatalf("a run has %d events", events)
		}
		if err := env.GetWorkflowError(); day > 0 && !workflow.IsContinueAsNewError(err) {
			t.Fatalf("%v before its end: %v", day, err)
		}
	}
	if want := int(24 * time.Hour / aliveEvery); beats < want {
		t.Errorf("%d signs of life were taken in, want %d", beats, want)
	}
	for _, c := range []struct {
		name   string
		result wire.Kept
		err    error
		events int // for each try: an activity has six, and one that is retried none
	}{{"cut off", wire.Kept{Commit: "cut", Cut: true}, nil, 6}, {"fails", wire.Kept{}, errors.New("full disk"), 0}} {
		env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
		env.RegisterWorkflowWithOptions(Attempt, workflow.RegisterOptions{Name: attemptWorkflow})
		events, tries := 10, 0
		env.RegisterActivityWithOptions(func(context.Context, wire.Ask) (wire.Kept, error) {
			tries++
			events += c.events
			return c.result, c.err
		}, activity.RegisterOptions{Name: makeActivity})
		env.ExecuteWorkflow(attemptWorkflow, wire.Ask{Loop: "loop-1", Tag: "x", Task: "3", Try: 1, Limit: 3600})
		if !env.IsWorkflowCompleted() || tries < mostTries || events > most {
			t.Errorf("%s: completed: %v, after %d tries and %d events", c.name, env.IsWorkflowCompleted(), tries, events)
		}
	}
}

// TestSealed: payloads come back as they were, the server sees nothing of them, and none of another key's or without one is taken.
func TestSealed(t *testing.T) {
	key := func(b byte) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(hex.EncodeToString([]byte(strings.Repeat(string(b), 32)))+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := func(path string) converter.DataConverter {
		t.Helper()
		c, err := Server{KeyFile: path}.converter()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := wire.Ask{Remote: "https://token@host/secret.git", Task: "7"}
	sealer := of(key('a'))
	p, err := sealer.ToPayloads(ask)
	if err != nil {
		t.Fatal(err)
	}
	if text := p.String(); strings.Contains(text, "secret") || strings.Contains(text, "token") {
		t.Errorf("the server sees %s", text)
	}
	var back wire.Ask
	if err := sealer.FromPayloads(p, &back); err != nil || !reflect.DeepEqual(back, ask) {
		t.Errorf("got %+v, %v", back, err)
	}
	if err := of(key('b')).FromPayloads(p, &back); err == nil {
		t.Error("another key opens it")
	}
	plain, err := converter.GetDefaultDataConverter().ToPayloads(ask)
	if err != nil {
		t.Fatal(err)
	}
	if err := sealer.FromPayloads(plain, &back); err == nil {
		t.Error("what nobody encrypted is taken")
	}
	if err := sealer.FromPayloads(&commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: []byte("x")}}}, &back); err == nil {
		t.Error("half a payload is taken")
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("abcd"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{short, filepath.Join(t.TempDir(), "none")} {
		if _, err := (Server{KeyFile: bad}).converter(); err == nil {
			t.Errorf("%s passes for a key", bad)
		}
	}
}

func TestAccepts(t *testing.T) {
	w := Worker{Repos: []string{"https://host/team/*", "git@host:one.git", "/srv/git/?.git"}}
	for url, want := range map[string]bool{"https://host/team/a.git": true, "https://host/team/b/c.git": true, "https://host/teams/a.git": false, "https://host.evil/team/a.git": false,
		"git@host:one.git": true, "git@host:two.git": false, "/srv/git/a.git": true, "/srv/git/ab.git": false, "": false,
		"https://host/team/../secret.git": false, "https://host/team/%2E%2e/secret.git": false, "https://host/team/..": false, "https://host/team/a..b.git": true} {
		if got := w.accepts(url); got != want {
			t.Errorf("%q: got %v, want %v", url, got, want)
		}
	}
}
