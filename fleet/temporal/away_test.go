//go:build fleet

package temporal

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
)

// partition is a town whose first worker is behind walls, with an agent in each slot.
func partition(t *testing.T, silent string) (w *town, run *program, server *wall, release func()) {
	w = newTown(t, plan{tasks: 8, width: 4, slots: 2, silent: silent})
	server = newWall(t, w.address)
	git := newWall(t, strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/tally.git"))
	home := filepath.Join(w.dir, "home0")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	config := "[url \"http://" + git.address() + "/\"]\n\tinsteadOf = " + strings.TrimSuffix(w.url, "tally.git") + "\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w.workers = make([]*program, 2)
	w.work(0, "TEMPORAL_ADDRESS="+server.address(), "HOME="+home)
	w.work(1)
	release = w.hold("")
	run = w.run()
	w.until("four agents are at work", func() bool { return w.on(0) == 2 && w.on(1) == 2 })
	return w, run, server, release
}

// TestDeadWorker: status has a worker that waits for work, for as long as that, and none that is dead, after less than
// the heartbeat.
func TestDeadWorker(t *testing.T) {
	w := newTown(t, plan{tasks: 1, width: 1, workers: 2, slots: 1})
	listed := func(i int) bool {
		t.Helper()
		p := w.start(w.dir, "descartes-fleet", "status", "--json")
		<-p.over
		var s Status
		if err := json.Unmarshal([]byte(p.out.String()), &s); err != nil {
			t.Fatalf("%v: %s", err, p.out)
		}
		return slices.ContainsFunc(s.Workers, func(x Seen) bool {
			return strings.HasSuffix(x.Name, fmt.Sprintf("@%d (1 slot)", w.workers[i].cmd.Process.Pid))
		})
	}
	w.until("both are there", func() bool { return listed(0) && listed(1) })
	w.workers[1].kill()
	for killed := time.Now(); listed(1); time.Sleep(time.Second) {
		if !listed(0) {
			t.Error("a worker that waits is not listed")
		}
		if gone := time.Since(killed); gone > heartbeat {
			t.Fatalf("a worker that was killed is listed after %v", gone)
		}
	}
	if !listed(0) {
		t.Error("a worker that waits is not listed")
	}
}

// TestShortPartition: a worker that is cut off for less than the heartbeat ends what it has begun.
func TestShortPartition(t *testing.T) {
	w, run, server, release := partition(t, "60s")
	server.set(nothing)
	time.Sleep(12 * time.Second) // longer than any report may take
	server.set(through)
	release()
	w.ends(run)
	w.whole(run, "tally", 1, 8)
	if n := w.attempts(); n != 8 {
		t.Errorf("%d agents ran for 8 tasks:\n%s", n, w.ledger())
	}
}

// TestLongPartition: of a worker that is cut off for longer another one takes over; its agents end, what it sends
// later changes nothing, and it works as before when it is back.
func TestLongPartition(t *testing.T) {
	w, run, server, release := partition(t, "8s")
	mine := w.hold(".0")
	server.set(nothing)
	release()
	w.until("the other worker makes all of them", func() bool { return w.on(1) >= 8 })
	w.ends(run)
	mine()
	w.whole(run, "tally", 1, 8) // while the first one is still away
	if w.on(0) != 2 {
		t.Errorf("the worker that was away began something:\n%s", w.ledger())
	}
	if n := w.journal("tally")["attempt_started"]; n != 8 {
		t.Errorf("%d attempts count, want 8", n)
	}
	server.set(through)
	w.until("the worker has given its attempts up", func() bool {
		return strings.Count(w.workers[0].out.String(), "ended without a result") == 2
	})
	w.cleared()
	w.workers[1].kill()
	w.list("more", 9, 12, 2)
	w.git(w.project, "add", "-A")
	w.git(w.project, "commit", "-qm", "more")
	run = w.runIn(w.project, "more")
	w.ends(run)
	w.whole(run, "more", 9, 12)
}

// TestServerAway: a server that is away for less than the heartbeat costs nobody anything. The run says that it waits.
func TestServerAway(t *testing.T) {
	w := newTown(t, plan{tasks: 8, width: 4, workers: 2, slots: 2, silent: "120s"})
	release := w.hold("")
	run := w.run()
	w.until("four agents are at work", func() bool { return w.attempts() == 4 })
	w.server.kill()
	w.until("the run says it", func() bool {
		return strings.Contains(run.out.String(), "the Temporal server does not answer")
	})
	w.serve()
	release()
	w.until("the run says that it is over", func() bool {
		return strings.Contains(run.out.String(), "the Temporal server answers again")
	})
	w.ends(run)
	w.whole(run, "tally", 1, 8)
	if n := w.attempts(); n != 8 {
		t.Errorf("%d agents ran for 8 tasks:\n%s", n, w.ledger())
	}
}

// TestServerAwayLong: what ends while the server is away for longer than the heartbeat is not made again, and the
// agents are not ended.
func TestServerAwayLong(t *testing.T) {
	w := newTown(t, plan{tasks: 8, width: 4, workers: 2, slots: 2, silent: "4s"})
	release := w.hold("")
	run := w.run()
	w.until("four agents are at work", func() bool { return w.attempts() == 4 })
	w.server.kill()
	release()
	w.until("their results are on the remote", func() bool {
		return w.results() == 4
	})
	time.Sleep(5 * time.Second) // until the server would have given them up
	w.serve()
	w.ends(run)
	w.whole(run, "tally", 1, 8)
	if n := w.attempts(); n != 8 {
		t.Errorf("%d agents ran for 8 tasks:\n%s", n, w.ledger())
	}
	w.until("the server knows what came of them", func() bool {
		return w.found(`DescartesTag = "tally" AND DescartesVerdict = "verified"`) == 8
	})
}

// results are how many attempts on the remote have theirs.
func (w *town) results() (n int) {
	for _, ref := range strings.Fields(w.git(w.bare, "for-each-ref", "--format=%(refname)", "refs/descartes")) {
		c := exec.Command("git", "show", ref+":made.json") // which an order has not
		c.Dir = w.bare
		if b, err := c.Output(); err == nil && strings.Contains(string(b), `"result":{`) {
			n++
		}
	}
	return n
}

// found counts the workflows that Temporal's tools find.
func (w *town) found(query string) int {
	w.t.Helper()
	f, err := Server{Address: w.address}.Dial(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	n, err := f.client.CountWorkflow(w.t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	if err != nil {
		w.t.Fatal(err)
	}
	return int(n.GetCount())
}

// TestResumeServerAway: a run that is resumed waits for the server, and takes over what was made meanwhile.
func TestResumeServerAway(t *testing.T) {
	w := newTown(t, plan{tasks: 4, width: 4, workers: 1, slots: 4, silent: "120s"})
	release := w.hold("")
	run := w.run()
	w.until("four agents are at work", func() bool { return w.attempts() == 4 })
	run.kill()
	w.server.kill()
	run = w.start(w.project, "descartes", "loop", "resume", "--last", "--plain")
	w.last = run.out
	w.until("the run says it", func() bool {
		return exited(run) || strings.Contains(run.out.String(), "the Temporal server does not answer")
	})
	w.serve()
	release()
	w.ends(run)
	w.whole(run, "tally", 1, 4)
	if n := w.attempts(); n != 4 {
		t.Errorf("%d agents ran for 4 tasks:\n%s", n, w.ledger())
	}
}

// TestAllKilled: a worker, the run and the server are killed, and the server is away for longer than the heartbeat.
// What others have verified meanwhile is used and made once; only what the worker had under way is made again.
func TestAllKilled(t *testing.T) {
	w := newTown(t, plan{tasks: 8, width: 4, workers: 2, slots: 2, silent: "60s"})
	release := w.hold("")
	run := w.run()
	w.until("four agents are at work", func() bool { return w.on(0) == 2 && w.on(1) == 2 })
	w.workers[1].kill()
	run.kill()
	w.server.kill()
	killed := time.Now()
	release()
	w.until("the other worker's results are on the remote", func() bool {
		return w.results() == 2
	})
	run = w.start(w.project, "descartes", "loop", "resume", "--last", "--plain")
	w.last = run.out
	time.Sleep(time.Until(killed.Add(90 * time.Second)))
	w.serve()
	w.work(1)
	w.ends(run)
	w.whole(run, "tally", 1, 8)
	if n := w.attempts(); n != 10 {
		t.Errorf("%d agents ran for 8 tasks, of which two were killed:\n%s", n, w.ledger())
	}
}

// TestRemoteAway: results wait for the remote, and so do orders.
func TestRemoteAway(t *testing.T) {
	w := newTown(t, plan{tasks: 8, width: 4, workers: 2, slots: 2, silent: "60s"})
	release := w.hold("")
	run := w.run()
	w.until("four agents are at work", func() bool { return w.attempts() == 4 })
	w.remote.set(refuses)
	release()
	w.until("the workers say it", func() bool {
		return strings.Contains(w.workers[0].out.String(), "does not answer") &&
			strings.Contains(w.workers[1].out.String(), "does not answer")
	})
	w.remote.set(through)
	w.ends(run)
	w.whole(run, "tally", 1, 8)
	if n := w.attempts(); n != 8 {
		t.Errorf("%d agents ran for 8 tasks:\n%s", n, w.ledger())
	}
}

// TestRemoteAwayFromRun: a run that cannot give orders says so, and goes on when it can.
func TestRemoteAwayFromRun(t *testing.T) {
	w := newTown(t, plan{tasks: 8, width: 4, workers: 2, slots: 2, silent: "60s"})
	git := newWall(t, strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/tally.git"))
	release := w.hold("")
	w.git(w.project, "config", "url.http://"+git.address()+"/.pushInsteadOf", strings.TrimSuffix(w.url, "tally.git"))
	run := w.run()
	w.until("four agents are at work", func() bool { return w.attempts() == 4 })
	git.set(refuses)
	release()
	w.until("the run says it", func() bool {
		return strings.Contains(run.out.String(), "the remote origin does not answer")
	})
	git.set(through)
	w.ends(run)
	w.whole(run, "tally", 1, 8)
	if !strings.Contains(run.out.String(), "the remote origin answers again") {
		t.Errorf("the run says:\n%s", run.out)
	}
}

// TestRemoteRefuses: a remote that takes no refs of a run's is found out before any task begins.
func TestRemoteRefuses(t *testing.T) {
	w := newTown(t, plan{tasks: 4, width: 4, workers: 1, slots: 2})
	hook := "#!/bin/sh\ncase $1 in refs/descartes/*) echo 'no refs below descartes here' >&2; exit 1;; esac\n"
	if err := os.WriteFile(filepath.Join(w.bare, "hooks/update"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	run := w.run()
	w.ends(run)
	if code, said := run.cmd.ProcessState.ExitCode(), run.out.String(); code != 5 ||
		!strings.Contains(said, "no refs below descartes here") || !strings.Contains(said, "hint: ") {
		t.Errorf("exit status %d:\n%s", code, said)
	}
	if w.attempts() != 0 || w.git(w.project, "status", "--porcelain") != "" {
		t.Errorf("something has begun:\n%s", w.ledger())
	}
	if err := os.Remove(filepath.Join(w.bare, "hooks/update")); err != nil {
		t.Fatal(err)
	}
	run = w.run()
	w.ends(run)
	w.whole(run, "tally", 1, 4)
}

// TestUnsearched: a server that knows no search attributes carries attempts as well.
func TestUnsearched(t *testing.T) {
	w := newTown(t, plan{tasks: 2, width: 1, workers: 1, slots: 2})
	var args []string
	for _, one := range SearchAttributes {
		name, _, _ := strings.Cut(one, "=")
		args = append(args, "--name", name)
	}
	w.eventually("temporal", append([]string{"operator", "search-attribute", "remove", "--yes", "--address", w.address},
		args...)...)
	run := w.run()
	w.ends(run)
	w.whole(run, "tally", 1, 2)
}

// TestTwoRuns: a tag of a repository has one run, wherever the other one is; one that was killed makes room, and waits
// until the other one is over when it comes back.
func TestTwoRuns(t *testing.T) {
	w := newTown(t, plan{tasks: 8, width: 4, workers: 2, slots: 2})
	clone := filepath.Join(w.dir, "clone")
	w.git(w.dir, "clone", "-q", "-b", "main", w.url, clone)
	w.git(clone, "config", "user.name", "other")
	w.git(clone, "config", "user.email", "other@example.org")
	release := w.hold("")
	first := w.run("--name", "nightly")
	w.until("the first one has begun", func() bool { return w.attempts() == 4 })
	second := w.runIn(clone, "tally", "--name", "nightly") // of the same name, too
	w.ends(second)
	if code, said := second.cmd.ProcessState.ExitCode(), second.out.String(); code == 0 ||
		!strings.Contains(said, "runs tally already (run nightly)") {
		t.Errorf("exit status %d:\n%s", code, said)
	}
	first.kill()
	w.until("the second one begins", func() bool {
		second = w.runIn(clone, "tally", "--name", "nightly")
		for { // all slots are in use: its attempts wait
			found, _ := filepath.Glob(filepath.Join(clone, ".descartes/runs/*/events.ndjson"))
			if b, _ := os.ReadFile(append(found, os.DevNull)[0]); strings.Contains(string(b), "attempt_started") {
				return true
			}
			select {
			case <-second.over:
				return false
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	again := w.run("--name", "nightly")
	w.ends(again)
	if code, said := again.cmd.ProcessState.ExitCode(), again.out.String(); code == 0 ||
		!strings.Contains(said, "runs tally already (run nightly)") {
		t.Errorf("exit status %d:\n%s", code, said)
	}
	release()
	w.ends(second)
	if !second.cmd.ProcessState.Success() {
		t.Errorf("the second run: %s", second.out)
	}
	run := w.start(w.project, "descartes", "loop", "resume", "--last", "--plain")
	w.ends(run)
	w.whole(run, "tally", 1, 8)
	if n := w.attempts(); n != 16 {
		t.Errorf("%d agents ran for 8 tasks in two clones:\n%s", n, w.ledger())
	}
}

// TestFullDisk: what a worker has no room for another one makes, and no attempt counts for it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, begin, says string }{
		{"full disk", "[ \"$1\" = inside ] || exec unshare -Urm \"$0\" inside \"$@\"\nshift\nmkdir -p machine0 && mount -t tmpfs -o size=3m none machine0\n", "the disk of "},
		{"size of files", "ulimit -f 512\n", "could not make the attempt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newTown(t, plan{tasks: 8, width: 4, slots: 2})
			if err := os.WriteFile(filepath.Join(w.project, "large"),
				[]byte(strings.Repeat("0123456789abcdef", 1<<17)), 0o644); err != nil {
				t.Fatal(err)
			}
			w.git(w.project, "add", "-A")
			w.git(w.project, "commit", "-qm", "large")
			small := filepath.Join(w.dir, "small")
			if err := os.WriteFile(small, []byte("#!/bin/sh\n"+c.begin+"exec \""+
				filepath.Join(w.bin, "descartes-fleet")+"\" \"$@\" --min-free-disk 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			w.workers = make([]*program, 2)
			w.workers[0] = w.startWith([]string{"MACHINE=0"}, w.dir, small, w.workerArgs(0)...)
			run := w.run()
			w.until("the small one has tried", func() bool {
				return strings.Contains(w.workers[0].out.String(), "ended without a result")
			})
			w.work(1)
			w.ends(run)
			w.whole(run, "tally", 1, 8)
			if n := w.journal("tally")["attempt_started"]; n != 8 {
				t.Errorf("%d attempts count, want 8\n%s", n, w.ledger())
			}
			if !strings.Contains(w.workers[0].out.String(), c.says) {
				t.Errorf("the small one said:\n%s", w.workers[0].out)
			}
		})
	}
}
