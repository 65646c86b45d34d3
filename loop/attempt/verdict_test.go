package attempt

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/slot"
	"descartes/verify"
	"descartes/verify/results"
)

// played is an agent, a verify command and a workspace that do what a row says.
type played struct {
	says   agent.Result
	left   slot.Result
	checks map[string][]verify.Result // by name, one for each run; the last one holds
	ran    []string                   // names of the checks that ran, and of the parts that were repaired
	dir    string
}

func (p *played) agent() Agent       { return playedAgent{p} }
func (p *played) verifier() Verifier { return playedVerifier{p} }

type playedAgent struct{ p *played }

func (a playedAgent) Run(context.Context, agent.Request) (agent.Result, error) { return a.p.says, nil }

type playedVerifier struct{ p *played }

func (v playedVerifier) Run(_ context.Context, q verify.Request) (verify.Result, error) {
	name := q.Command
	v.p.ran = append(v.p.ran, name)
	list := v.p.checks[name]
	if len(list) > 1 {
		v.p.checks[name] = list[1:]
	}
	if len(list) == 0 {
		return verify.Result{Passed: true}, nil
	}
	return list[0], nil
}

func (p *played) Dir() string                                       { return p.dir }
func (p *played) Files() string                                     { return p.dir }
func (p *played) Repair(context.Context, string) ([]string, error)  { return nil, nil }
func (p *played) Look(context.Context) (slot.Result, error)         { return p.left, nil }
func (p *played) Restore(context.Context, gitops.Tree) error        { return nil }
func (p *played) Result(context.Context, bool) (slot.Result, error) { return p.left, nil }

// TestVerdict holds what an attempt comes to, and which of its checks run for that.
func TestVerdict(t *testing.T) {
	t.Parallel()
	did := slot.Result{Changed: []gitops.Change{{Op: 'A', Path: "a"}}}
	finished := agent.Result{End: agent.Finished}
	claims := agent.Result{End: agent.Finished, Complete: true}
	check := func(names ...string) (list []Command) {
		for _, n := range names {
			list = append(list, Command{Check: verify.Check{Name: n, Run: n}})
		}
		return list
	}
	criterion := Command{Check: verify.Check{Run: "criterion"}, Criterion: true}
	red := verify.Result{Code: 1, Tail: "it is red"}
	green := verify.Result{Passed: true}
	objects := Look{Name: "guard", On: func(*Input) bool { return true },
		At: func(context.Context, *Subject) (*Objection, error) { return &Objection{Reason: "a test is gone"}, nil }}
	asks := Look{Name: "guard", On: func(*Input) bool { return true },
		At: func(context.Context, *Subject) (*Objection, error) {
			return &Objection{Reason: "is this a stub?", Ask: true}, nil
		}}
	for name, c := range map[string]struct {
		p      played
		in     Input
		looks  []Look
		want   verify.Verdict
		reason string // a part of it
		ran    []string
	}{
		"work that passes": {p: played{says: finished, left: did}, in: Input{Checks: check("one", "two")},
			want: verify.Verified, ran: []string{"one", "two"}},
		"work that fails runs no further check": {p: played{says: claims, left: did,
			checks: map[string][]verify.Result{"one": {red}}}, in: Input{Checks: check("one", "two")},
			want: verify.Failed, ran: []string{"one"}},
		"all checks, where all are wanted": {p: played{says: claims, left: did,
			checks: map[string][]verify.Result{"one": {red}}}, in: Input{Checks: check("one", "two"), All: true},
			want: verify.Failed, ran: []string{"one", "two"}},
		"a check that is red once and may be tried again": {p: played{says: finished, left: did,
			checks: map[string][]verify.Result{"one": {red, green}}},
			in:   Input{Checks: []Command{{Check: verify.Check{Name: "one", Run: "one", Retry: 1}}}},
			want: verify.Verified, ran: []string{"one", "one"}},
		"no change and no claim": {p: played{says: finished}, in: Input{Checks: check("one")},
			want: verify.Failed, reason: verify.NoSignal, ran: []string{"one"}},
		"its last words explain that": {p: played{says: agent.Result{End: agent.Finished, Final: "a\nAll is there."}},
			in: Input{Checks: check("one")}, want: verify.Failed, reason: "All is there.", ran: []string{"one"}},
		"no change and a claim": {p: played{says: claims}, in: Input{Checks: check("one")}, want: verify.Verified,
			ran: []string{"one"}},
		"nothing verifies, and it claims": {p: played{says: claims, left: did}, want: verify.Verified},
		"nothing verifies, and it is mute": {p: played{says: finished, left: did}, want: verify.Failed,
			reason: "did not say it was done"},
		"it says that it is blocked": {p: played{says: agent.Result{End: agent.Finished, Blocked: "no key"},
			left: did},
			in: Input{Checks: check("one")}, want: verify.Blocked, reason: "no key"},
		"it only asks": {p: played{says: agent.Result{End: agent.Finished, Question: "Which one?"}},
			in: Input{Checks: check("one")}, want: verify.Blocked, reason: "Which one?"},
		"it asks in a last sentence": {p: played{says: agent.Result{End: agent.Finished,
			Final: "I need the password of the database."}}, in: Input{Checks: check("one")}, want: verify.Blocked,
			reason: "the password"},
		"it asks beside its work": {p: played{says: agent.Result{End: agent.Finished, Question: "Which?"}, left: did},
			in: Input{Checks: check("one")}, want: verify.Verified, ran: []string{"one"}},
		"it crashed": {p: played{says: agent.Result{End: agent.Crashed, Reason: "exit status 3"}, left: did},
			in: Input{Checks: check("one")}, want: verify.Crashed, reason: "exit status 3"},
		"it was killed": {p: played{says: agent.Result{End: agent.Crashed, Reason: "ended by signal 9 (SIGKILL)"}},
			in: Input{Checks: check("one")}, want: verify.Crashed, reason: "the agent was ended by signal 9"},
		"it ran out of time": {p: played{says: agent.Result{End: agent.TimedOut}, left: did},
			in: Input{Checks: check("one")}, want: verify.TimedOut},
		"it ran out of quota": {p: played{says: agent.Result{End: agent.Limited}, left: did},
			in: Input{Checks: append(check("one"), criterion)}, want: verify.Limited},
		"a criterion is checked after a crash too": {p: played{says: agent.Result{End: agent.Crashed}, left: did},
			in: Input{Checks: append(check("one"), criterion)}, want: verify.Crashed, ran: []string{"criterion"}},
		"a criterion decides nothing": {p: played{says: claims, left: did,
			checks: map[string][]verify.Result{"criterion": {red}}},
			in: Input{Checks: append(check("one"), criterion)}, want: verify.Verified,
			ran: []string{"one", "criterion"}},
		"a check that was cancelled says nothing": {p: played{says: claims, left: did,
			checks: map[string][]verify.Result{"one": {{Cancelled: true}}}}, in: Input{Checks: check("one", "two")},
			want: verify.Cancelled, ran: []string{"one"}},
		"its work is lost": {p: played{says: claims, left: slot.Result{Changed: did.Changed, Lost: "gone"}},
			in: Input{Checks: check("one")}, want: verify.Failed, reason: "gone"},
		"its git went back": {p: played{says: claims, left: slot.Result{Changed: did.Changed,
			TookBack: "back to HEAD~1"}}, in: Input{Checks: check("one")}, want: verify.Failed,
			reason: "back to HEAD~1", ran: []string{"one"}},
		"what no commit can hold": {p: played{says: claims, left: slot.Result{Changed: did.Changed,
			LeftOut: []gitops.LeftOut{{Path: "sub", Why: "a repository of its own"}}}},
			in: Input{Checks: check("one")}, want: verify.Failed, reason: "a repository of its own",
			ran: []string{"one"}},
		"no test is greener, and one has to be": {p: played{says: claims, left: did,
			checks: map[string][]verify.Result{"one": {{Passed: true, Change: &results.Change{}}}}},
			in: Input{Checks: check("one"), Better: true}, want: verify.Failed, reason: NotBetter,
			ran: []string{"one"}},
		"a look objects": {p: played{says: claims, left: did}, in: Input{Checks: check("one")},
			looks: []Look{objects}, want: verify.Failed, reason: "a test is gone", ran: []string{"one"}},
		"a look asks": {p: played{says: claims, left: did}, in: Input{Checks: check("one")},
			looks: []Look{asks}, want: verify.Blocked, reason: "is this a stub?", ran: []string{"one"}},
		"red work is not looked at": {p: played{says: claims, left: did,
			checks: map[string][]verify.Result{"one": {red}}}, in: Input{Checks: check("one")},
			looks: []Look{objects}, want: verify.Failed, reason: "exit status 1", ran: []string{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &c.p
			p.dir = t.TempDir()
			c.in.Log = filepath.Join(p.dir, "log")
			r := &Runner{Agent: p.agent(), Verify: p.verifier(), Dir: p.dir, Looks: c.looks}
			got, err := r.Run(t.Context(), p, c.in, func(*Step) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != c.want || !strings.Contains(got.Reason, c.reason) || got.Reason == "" {
				t.Errorf("got %s: %q, want %s: %q", got.Verdict, got.Reason, c.want, c.reason)
			}
			if !slices.Equal(p.ran, c.ran) {
				t.Errorf("ran %q, want %q", p.ran, c.ran)
			}
			if ask := got.Objection != nil && got.Objection.Ask; ask != (len(c.looks) > 0 &&
				got.Verdict == verify.Blocked) {
				t.Errorf("asks a person: %v, with the verdict %s", ask, got.Verdict)
			}
		})
	}
}

// A person who stops a run, or a journal that cannot be written, ends an attempt at the step that says so.
func TestObserverEndsAnAttempt(t *testing.T) {
	t.Parallel()
	stop := errors.New("the disk is full")
	for _, at := range []Moment{Ended, Answered, Started, Checked} {
		p := &played{says: agent.Result{End: agent.Finished}, dir: t.TempDir(),
			left: slot.Result{Changed: []gitops.Change{{Op: 'A', Path: "a"}}}}
		r := &Runner{Agent: p.agent(), Verify: p.verifier(), Dir: p.dir}
		in := Input{Log: filepath.Join(p.dir, "log"), Checks: []Command{{Check: verify.Check{Run: "one"}}}}
		got, err := r.Run(t.Context(), p, in, func(s *Step) error {
			if s.Moment == at {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || got.Verdict != "" {
			t.Errorf("at %d: %v, verdict %q", at, err, got.Verdict)
		}
	}
}
