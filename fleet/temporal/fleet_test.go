package temporal

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet"
)

// TestAttempt: a worker that is lost, cannot make an attempt or hands it back is followed by another one, and what the
// last of them says counts; an order that nobody may make is tried once.
func TestAttempt(t *testing.T) {
	a := ask{fleet.Ask{Loop: "loop-1", Tag: "x", Task: "3", Title: strings.Repeat("long ", 100), Try: 2, Limit: 3600,
		Needs: []string{"go", "gpu"}}, heartbeat}
	many := make([]error, 200)
	for i := range many {
		many[i] = handBack(noQuota, "no quota", time.Second, fleet.Wait{For: "quota"})
	}
	for _, c := range []struct {
		name  string
		fails []error // of the workers, one after the other
		want  string  // commit; "" is an error
		tries int
	}{
		{"at once", nil, "made", 1},
		{"lost twice", []error{errors.New("full disk"), temporal.NewHeartbeatTimeoutError()}, "made", 3},
		{"handed back", many, "made", 201},
		{"refused", []error{temporal.NewNonRetryableApplicationError("no", refused, nil)}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
			env.RegisterWorkflowWithOptions(Attempt, workflow.RegisterOptions{Name: attemptWorkflow})
			tries := 0
			env.RegisterActivityWithOptions(func(ctx context.Context, _ fleet.Ask) (fleet.Kept, error) {
				if queue := activity.GetInfo(ctx).TaskQueue; queue != Queue+"/go" {
					t.Errorf("it is in the queue %s", queue)
				}
				if tries++; tries <= len(c.fails) {
					return fleet.Kept{}, c.fails[tries-1]
				}
				return fleet.Kept{Commit: "made", Verdict: "failed"}, nil
			}, activity.RegisterOptions{Name: makeActivity})
			if err := env.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(
				byVerdict.ValueSet("none yet"))); err != nil {
				t.Fatal(err)
			}
			if c.want != "" { // Temporal's page shows what came of it
				env.OnUpsertTypedSearchAttributes(temporal.NewSearchAttributes(byVerdict.ValueSet("failed"))).Return(
					nil).Once()
			}
			env.ExecuteWorkflow(attemptWorkflow, a)
			env.AssertExpectations(t)
			var k fleet.Kept
			if err := env.GetWorkflowResult(&k); (err != nil) != (c.want == "") || k.Commit != c.want ||
				tries != c.tries {
				t.Errorf("got %q, %v after %d tries, want %q after %d", k.Commit, err, tries, c.want, c.tries)
			}
		})
	}
}

// TestSearchAttributes: what a server is told of is what workflows have.
func TestSearchAttributes(t *testing.T) {
	var want []string
	for _, k := range []temporal.SearchAttributeKey{byTag, byTask, byLoop, byWave, byVerdict} {
		want = append(want, k.GetName()+"="+k.GetValueType().String())
	}
	if !slices.Equal(SearchAttributes, want) {
		t.Errorf("got %q, want %q", SearchAttributes, want)
	}
}

// TestSealed: payloads come back as they were, the server sees nothing of them, and none of another key's or without
// one is taken.
func TestSealed(t *testing.T) {
	key := func(b byte) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(hex.EncodeToString([]byte(strings.Repeat(string(b), 32)))+"\n"),
			0o600); err != nil {
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
	ask := fleet.Ask{Remote: "https://token@host/secret.git", Task: "7"}
	sealer := of(key('a'))
	p, err := sealer.ToPayloads(ask)
	if err != nil {
		t.Fatal(err)
	}
	if text := p.String(); strings.Contains(text, "secret") || strings.Contains(text, "token") {
		t.Errorf("the server sees %s", text)
	}
	var back fleet.Ask
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
	if err := sealer.FromPayloads(&commonpb.Payloads{Payloads: []*commonpb.Payload{
		{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: []byte("x")}}},
		&back); err == nil {
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
	for url, want := range map[string]bool{"https://host/team/a.git": true, "https://host/team/b/c.git": true,
		"https://host/teams/a.git": false, "https://host.evil/team/a.git": false,
		"git@host:one.git": true, "git@host:two.git": false, "/srv/git/a.git": true, "/srv/git/ab.git": false,
		"":                                false,
		"https://host/team/../secret.git": false, "https://host/team/%2E%2e/secret.git": false,
		"https://host/team/..": false, "https://host/team/a..b.git": true} {
		if got := w.accepts(url); got != want {
			t.Errorf("%q: got %v, want %v", url, got, want)
		}
	}
}
