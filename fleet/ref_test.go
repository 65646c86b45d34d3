package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/gitops"
	"descartes/internal/proc"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/slot"
	"descartes/verify"
)

// TestMain is the supervising process of commands, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.ShimCommand {
		os.Exit(proc.Serve())
	}
	os.Exit(m.Run())
}

// ordered is an attempt that a run has ordered over a remote, and two workers that have looked at it.
func ordered(t *testing.T) (p *progress, one, two *making) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *gitops.Repo {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		r, err := gitops.Mirror(t.Context(), gitops.Options{Dir: filepath.Join(dir, name), Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	open("remote")
	url, run := filepath.Join(dir, "remote"), open("run")
	a := Ask{Remote: url, Loop: "l.0123abcd", Task: "1", Try: 1}
	ref, err := refOf(a.Loop, a.Task, a.Try)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{opt: Options{Repo: run, Remote: url}, last: map[int]*progress{},
		remote: newRemote(run, url, func(string) {})}
	p = &progress{c: c, ref: ref, o: loop.Order{Task: "1", Try: 1}}
	p.o.Input.Log = filepath.Join(dir, "log")
	if p.ordered, err = c.keep(t.Context(), ref, p.o); err == nil {
		err = c.send(t.Context(), p, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Commit = p.ordered
	look := func(name string) *making {
		t.Helper()
		s := &making{mirror: &mirror{remote: newRemote(open(name), url, func(string) {})}, Ask: a, ref: ref, run: name}
		if kept, err := s.look(t.Context(), fetchFor); err != nil || kept.Commit != "" || s.tip != p.ordered {
			t.Fatal(kept, err)
		}
		if s.order, err = s.repo.FileAt(t.Context(), s.tip, orderFile, maxOrder); err != nil {
			t.Fatal(err)
		}
		return s
	}
	return p, look("one"), look("two")
}

// report is what a worker says meanwhile.
func report(t *testing.T, s *making, line string) error {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.add(t.Context(), s.outcome(), log, s.push.move)
}

// TestTwoWorkers: where two workers make an attempt, the first result that reaches the remote counts for both, however
// their reports came between; what the run has of it comes from its order.
func TestTwoWorkers(t *testing.T) {
	p, one, two := ordered(t)
	if err := report(t, one, "one begins\n"); err != nil {
		t.Fatal(err)
	}
	if err := report(t, two, "two begins\n"); err == nil {
		t.Error("a worker reported without having seen the other one's report")
	}
	if _, err := two.look(t.Context(), fetchFor); err != nil || two.tip != one.tip {
		t.Fatal(two.tip, err)
	}
	if err := report(t, two, "two begins\n"); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "log")
	first, err := one.deliver(t.Context(), &attempt.Result{Verdict: verify.Verified}, none)
	if err != nil || first.Verdict != "verified" {
		t.Fatal(first, err)
	}
	if err := report(t, two, "late\n"); err == nil {
		t.Error("a report came on top of the result")
	}
	second, err := two.deliver(t.Context(), &attempt.Result{Verdict: verify.Failed}, none)
	if err != nil || second != first {
		t.Errorf("the second counts: %v, %v, want %v", second, err, first)
	}
	commit := first.Commit
	out, err := p.fetch(t.Context(), &commit)
	if err != nil || out.Run != "one" || out.Result == nil || out.Result.Verdict != verify.Verified {
		t.Errorf("the run has %+v, %v", out, err)
	}
	if b, err := p.c.opt.Repo.FileAt(t.Context(), commit, orderFile, maxOrder); err != nil || len(b) == 0 {
		t.Errorf("the result has no order: %v", err)
	}
}

// TestWithdrawn: what a run has withdrawn comes back by no result, and no worker begins it.
func TestWithdrawn(t *testing.T) {
	p, one, two := ordered(t)
	if err := p.c.opt.Repo.Send(t.Context(), p.c.opt.Remote, ":"+p.ref); err != nil {
		t.Fatal(err)
	}
	kept, err := one.deliver(t.Context(), &attempt.Result{}, filepath.Join(t.TempDir(), "log"))
	if _, refused := errors.AsType[*RefusedError](err); !refused || kept.Commit != "" {
		t.Errorf("got %v, %v", kept, err)
	}
	if _, err := two.look(t.Context(), fetchFor); err == nil || !strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("got %v", err)
	}
	if there, err := p.c.remote.there(t.Context(), p.ref); there || err != nil {
		t.Errorf("it is there again: %v", err)
	}
}

// TestDescends: a result that does not come from the order is taken by nobody.
func TestDescends(t *testing.T) {
	p, one, _ := ordered(t)
	run := p.c.opt.Repo
	tree, err := run.Bundle(t.Context(), map[string][]byte{madeFile: []byte(`{"version":4,"run":"x","result":{}}`)})
	if err != nil {
		t.Fatal(err)
	}
	commit, err := run.Link(t.Context(), "", gitops.Link{Tree: tree, Message: "x", When: time.Now()})
	if err == nil {
		err = run.Send(t.Context(), p.c.opt.Remote, "+"+commit+":"+p.ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", commit} {
		if out, err := p.fetch(t.Context(), &named); err == nil {
			t.Errorf("the run takes %+v", out)
		}
	}
	if kept, err := one.look(t.Context(), fetchFor); err == nil {
		t.Errorf("a worker takes %v", kept)
	}
}

// TestLogOnce: a log is written here once, however often it is reported; another worker's follows the lost one's.
func TestLogOnce(t *testing.T) {
	p, one, two := ordered(t)
	var placed []string
	p.observe = func(s *attempt.Step) error { placed = append(placed, s.Who+" "+s.Ref); return nil }
	hears := func(s *making, line string) {
		t.Helper()
		if err := report(t, s, line); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.live(t.Context(), Live{Host: "host", Run: s.run, Commit: s.tip}); err != nil {
				t.Fatal(err)
			}
		}
	}
	hears(one, "a\n")
	hears(one, "a\nb\n")
	if _, err := two.look(t.Context(), fetchFor); err != nil {
		t.Fatal(err)
	}
	hears(two, "c\n")
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("c\nd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept, err := two.deliver(t.Context(), &attempt.Result{Work: slot.Result{}}, log)
	if err == nil {
		p.tip = kept.Commit
		var out Outcome
		if out, err = p.fetch(t.Context(), &p.tip); err == nil {
			err = p.logs(t.Context(), &out)
		}
	}
	b, rerr := os.ReadFile(p.o.Input.Log)
	const want = "a\nb\n\n--- the worker was lost; host begins anew ---\nc\nd\n"
	if err != nil || rerr != nil || string(b) != want {
		t.Errorf("%v, %v, log:\n%s", err, rerr, b)
	}
	if len(placed) != 2 || placed[0] != "host one" || placed[1] != "host two" {
		t.Errorf("placed: %q", placed)
	}
}

// nobody makes no attempt.
type nobody struct{ Carrier }

func (nobody) Carry(context.Context, Ask, func(Report) error) (Kept, error) {
	return Kept{}, errors.New("nobody is there")
}

// resumed is what the run makes of the attempt after it was killed.
func resumed(t *testing.T, p *progress, run string) attempt.Result {
	t.Helper()
	c := &Client{opt: p.c.opt, remote: p.c.remote, last: map[int]*progress{}}
	c.opt.Carrier, c.opt.Hello.Loop = nobody{}, "l.0123abcd"
	o := p.o
	o.Again, o.Ref = true, run
	res, err := c.Run(t.Context(), o, func(*attempt.Step) error { return nil })
	if err != nil {
		t.Errorf("the run ends: %v", err)
	}
	return res
}

// TestResumed: a run that was killed takes a result that came meanwhile, and its log is here once; one whose names lead
// elsewhere, or that does not come from the order, ends the attempt alone, however often the run is resumed.
func TestResumed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, one, _ := ordered(t)
	p.observe = func(*attempt.Step) error { return nil }
	if err := report(t, one, "a\n"); err != nil {
		t.Fatal(err)
	}
	if err := p.live(t.Context(), Live{Host: "h", Run: one.run, Commit: one.tip}); err != nil {
		t.Fatal(err)
	}
	if _, err := one.deliver(t.Context(), &attempt.Result{Verdict: verify.Failed}, log); err != nil {
		t.Fatal(err)
	}
	res := resumed(t, p, "one")
	if b, err := os.ReadFile(p.o.Input.Log); res.Verdict != verify.Failed || string(b) != "a\nb\n" {
		t.Errorf("%v, %v, the log is %q", res.Verdict, err, b)
	}
	p, one, _ = ordered(t)
	one.steps = []attempt.Step{{Moment: attempt.Noted, Log: "../x"}}
	if _, err := one.deliver(t.Context(), &attempt.Result{Verdict: verify.Verified}, log); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if res := resumed(t, p, ""); res.Verdict != verify.Cancelled {
			t.Errorf("a log called ../x: %v", res.Verdict)
		}
	}
	p, _, _ = ordered(t)
	p.observe = func(*attempt.Step) error { return nil }
	run := p.c.opt.Repo
	tree, err := run.Bundle(t.Context(), map[string][]byte{
		madeFile: []byte(`{"version":4,"run":"x","host":"evil","result":{"Verdict":"verified"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	commit, err := run.Link(t.Context(), "", gitops.Link{Tree: tree, Message: "x", When: time.Now()})
	if err == nil {
		err = run.Send(t.Context(), p.c.opt.Remote, "+"+commit+":"+p.ref)
	}
	if err == nil {
		err = p.live(t.Context(), Live{Host: "evil", Run: "x", Commit: commit})
	}
	if err != nil {
		t.Fatal(err)
	}
	if res := resumed(t, p, ""); res.Verdict != verify.Cancelled {
		t.Errorf("a rewritten ref: %v", res.Verdict)
	}
}

// TestCancelledOrder: an attempt that nobody wants any more while its order goes out is cancelled, and ends no run.
func TestCancelledOrder(t *testing.T) {
	p, _, _ := ordered(t)
	p.c.opt.Carrier, p.c.opt.Hello.Loop = nobody{}, "l.0123abcd"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.o.Try = 2
	res, err := p.c.Run(ctx, p.o, func(*attempt.Step) error { return nil })
	if err != nil || res.Verdict != verify.Cancelled {
		t.Errorf("%v, %v", res.Verdict, err)
	}
}

// TestSettles: an interruption makes no failure of verified work, and what is no id of a commit is no agent's commit.
func TestSettles(t *testing.T) {
	p, _, _ := ordered(t)
	run := p.c.opt.Repo
	p.observe = func(*attempt.Step) error { return nil }
	base, err := run.Bundle(t.Context(), map[string][]byte{"a": []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	after, err := run.Bundle(t.Context(), map[string][]byte{"a": []byte("2")})
	if err != nil {
		t.Fatal(err)
	}
	if p.o.At.Hash, err = run.Keep(t.Context(), "refs/descartes/head", base, nil, "x"); err != nil {
		t.Fatal(err)
	}
	p.o.Start.Before = base
	res := attempt.Result{Verdict: verify.Verified, Work: slot.Result{Seen: after, After: after}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := p.settle(ctx, "host", res); err == nil && got.Verdict != verify.Verified {
		t.Errorf("interrupted: %v, %s", got.Verdict, got.Reason)
	}
	for _, name := range []string{"refs/descartes/head", "--octopus", p.o.At.Hash + "~0"} {
		res.Work.Commits = name
		if got, err := p.settle(t.Context(), "host", res); err != nil || got.Work.Commits != "" ||
			got.Verdict != verify.Verified || len(got.Work.Changed) != 1 {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
}

// TestManyFiles: work of very many files can be read where it arrives.
func TestManyFiles(t *testing.T) {
	p, one, _ := ordered(t)
	res := attempt.Result{Verdict: verify.Verified}
	for i := range 100000 {
		res.Work.Changed = append(res.Work.Changed, gitops.Change{Op: 'A', Path: fmt.Sprintf(
			"web/node_modules/some-package-%d/dist/esm/internal/module-%d.d.ts", i/50, i)})
	}
	one.saw(&attempt.Step{Moment: attempt.Answered, Result: &res}, "x.log")
	kept, err := one.deliver(t.Context(), &res, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := p.fetch(t.Context(), &kept.Commit); err != nil || out.Result == nil {
		t.Error(err)
	}
}

// TestLostAnswer: a report that arrived, though nobody heard so, keeps no later one back; an attempt that comes twice
// is forgotten once.
func TestLostAnswer(t *testing.T) {
	_, one, _ := ordered(t)
	log := filepath.Join(t.TempDir(), "log")
	if err := one.add(t.Context(), one.outcome(), log, func(ctx context.Context, specs ...string) error {
		return errors.Join(one.push.move(ctx, specs...), errors.New("the remote end hung up unexpectedly"))
	}); err == nil {
		t.Fatal("it was heard")
	}
	if err := report(t, one, "b\n"); err == nil {
		t.Error("a report went onto what its worker had not seen")
	}
	if _, err := one.look(t.Context(), fetchFor); err != nil {
		t.Fatal(err)
	}
	if err := report(t, one, "b\n"); err != nil {
		t.Error(err)
	}
	for range mostSpent {
		one.forget(t.Context(), one.ref)
	}
	if at, err := one.repo.RefCommit(one.ref); at != "" || err != nil {
		t.Errorf("it is still here: %s, %v", at, err)
	}
}

// TestLogsApart: attempts at several tasks whose tries have one name do not read each other's logs.
func TestLogsApart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	p, _, _ := ordered(t)
	run, remote := p.c.opt.Repo, p.c.opt.Remote
	m := &Maker{Cache: filepath.Join(dir, "cache"), Note: func(text string) { t.Log(text) }}
	defer m.Close()
	base, err := run.Bundle(t.Context(), map[string][]byte{"a": []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	at, err := run.Keep(t.Context(), "refs/descartes/head", base, nil, "x")
	if err != nil {
		t.Fatal(err)
	}
	met := filepath.Join(dir, "met")
	var wg sync.WaitGroup
	for task, agent := range map[string]string{"2": "echo of task 2; touch " + met + "; echo TASK_BLOCKED: task 2 needs a key",
		"3": "echo of task 3; echo x >out3; until test -e " + met + "; do sleep 0.02; done; echo TASK_COMPLETE"} {
		o := Order{Version: version}
		o.Config.Command, o.Config.Sandbox = "sh -c 'cat >/dev/null; "+agent+"'", "off"
		o.Order.Task, o.Order.Try, o.Order.At.Hash = task, 1, at
		o.Order.Start.Base, o.Order.Start.Before, o.Order.Input.Base = base, base, base
		o.Order.Input.Prompt, o.Order.Input.Promise, o.Order.Input.Agent.Timeout = "do it", "TASK_COMPLETE", time.Minute
		ask := Ask{Remote: remote, Loop: "l.0123abcd", Task: task, Try: 1}
		ref, err := refOf(ask.Loop, task, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := run.Bundle(t.Context(), map[string][]byte{orderFile: b}, base)
		if err == nil {
			ask.Commit, err = run.Link(t.Context(), at, gitops.Link{Tree: tree, Message: "order", When: time.Now()})
		}
		if err == nil {
			err = run.Send(t.Context(), remote, ask.Commit+":"+ref)
		}
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			kept, err := m.Make(t.Context(), ask, "1-same", func(Live) {})
			if err == nil {
				err = run.Fetch(t.Context(), remote, "+"+ref+":"+ref)
			}
			if err != nil {
				t.Errorf("task %s: %v", task, err)
				return
			}
			text, err := run.FileAt(t.Context(), kept.Commit, logFile, maxLog)
			if err != nil || !strings.Contains(string(text), "of task "+task) ||
				strings.Count(string(text), "of task") != 1 {
				t.Errorf("task %s: %v, its log:\n%s", task, err, text)
			}
		})
	}
	wg.Wait()
}
