package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/workspace"
	"descartes/verify"
)

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
		if kept, err := s.look(t.Context()); err != nil || kept.Commit != "" || s.tip != p.ordered {
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
	if _, err := two.look(t.Context()); err != nil || two.tip != one.tip {
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
	if _, err := two.look(t.Context()); err == nil || !strings.Contains(err.Error(), "withdrawn") {
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
	if kept, err := one.look(t.Context()); err == nil {
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
	if _, err := two.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	hears(two, "c\n")
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("c\nd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept, err := two.deliver(t.Context(), &attempt.Result{Work: workspace.Result{}}, log)
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
