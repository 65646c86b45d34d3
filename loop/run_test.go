package loop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

func TestRunTwoWaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.mustRun(StartOptions{}, journal.AllDone)
	if got := w.git("log", "--format=%s"); got != "feat(x): complete wave 2\nfeat(x): complete wave 1\nstart" {
		t.Errorf("commits:\n%s", got)
	}
	if got := w.git("show", "--format=", "--name-only", "HEAD"); got != ".scud/tasks/x.json\ntask-2.txt\ntask-3.txt" {
		t.Errorf("wave 2 holds:\n%s", got)
	}
	if got := w.git("log", "-1", "--format=%(trailers:key=Descartes-Task,valueonly)"); strings.TrimSpace(
		got) != "x/2\nx/3" {
		t.Errorf("trailers: %q", got)
	}
	if got := strings.Count(w.read(".scud/tasks/x.json"), `"done"`); got != 3 {
		t.Errorf("%d tasks are done in the file", got)
	}
	w.clean()
}

func TestRetrySeesFailureAndFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	var second string
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		if env["DESCARTES_TASK_ID"] == "1" && env["DESCARTES_ATTEMPT"] == "2" {
			second = env["prompt"]
			if w.read("half.txt") != "half\n" {
				t.Error("the second attempt does not see the first one's file")
			}
		}
		w.write("half.txt", "half\n")
		return agent.Result{End: agent.Finished, Complete: true, Final: "I did what I could"}
	}
	w.check = func(env map[string]string) verify.Result {
		if env["DESCARTES_TASK_ID"] == "1" && env["DESCARTES_ATTEMPT"] == "1" {
			return verify.Result{Code: 1, Tail: "expected 7 sprockets"}
		}
		return verify.Result{Passed: true}
	}
	w.mustRun(StartOptions{}, journal.AllDone)
	for _, want := range []string{"expected 7 sprockets", "I did what I could", "half.txt"} {
		if !strings.Contains(second, want) {
			t.Errorf("the second spec does not hold %q:\n%s", want, second)
		}
	}
	w.clean()
}

func TestBlockedIsTakenBackAndHoldsOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.write("base.txt", "spoilt by attempt "+env["DESCARTES_ATTEMPT"]+"\n")
		w.write("new/deep.txt", "x")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.check = func(map[string]string) verify.Result { return verify.Result{Code: 1, Tail: "no"} }
	out := w.mustRun(StartOptions{}, journal.TasksBlocked)
	if out.Crashed {
		t.Error("called crashed")
	}
	if !slices.Equal(w.runs, []string{"1 1", "1 2", "1 3"}) {
		t.Errorf("runs: %v", w.runs)
	}
	if w.read("base.txt") != "base\n" {
		t.Error("the blocked task's change stays in the tree")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "new")); err == nil {
		t.Error("the blocked task's folder stays in the tree")
	}
	if refs := w.git("for-each-ref", "--format=%(refname:lstrip=4)",
		"refs/descartes/loop-*/tasks/1/*"); refs != "1/1\n1/2\n1/3" {
		t.Errorf("kept attempts:\n%s", refs)
	}
	if got := w.git("log", "--format=%s"); got != "chore(x): wave 1 blocked\nstart" {
		t.Errorf("commits:\n%s", got)
	}
	st, err := store.LoadState(store.NewHome(w.dir).Default())
	if err != nil || len(st.BlockedTasks) != 1 || st.BlockedTasks[0].Attempts != 3 ||
		!st.BlockedTasks[0].Task.Numeric {
		t.Errorf("state: %+v, %v", st, err)
	}
}

func TestMuteAgentCompletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.agent = func(agent.Request, map[string]string) agent.Result { return agent.Result{End: agent.Finished} }
	w.check = func(env map[string]string) verify.Result {
		w.write("build-"+env["DESCARTES_ATTEMPT"], "a leaving of the build\n")
		return verify.Result{Passed: true}
	}
	w.mustRun(StartOptions{}, journal.TasksBlocked)
	st, err := store.LoadState(store.NewHome(w.dir).Default())
	if err != nil || len(st.BlockedTasks) != 1 || st.BlockedTasks[0].Reason != verify.NoSignal {
		t.Errorf("blocked: %+v, %v", st.BlockedTasks, err)
	}
}

func TestSecondLoopIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	l, err := w.start(StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.start(StartOptions{}); err == nil || !strings.Contains(err.Error(),
		"is running in this working tree") {
		t.Errorf("got %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// What the user has not committed is in no commit, and stays as it is, whatever an agent does with git.
func TestUsersChangesStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.write("mine.txt", "not finished")
	w.write("base.txt", "my edit\n")
	w.write("staged.txt", "staged\n")
	w.git("add", "staged.txt")
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		switch env["DESCARTES_TASK_ID"] {
		case "1":
			w.git("add", "-A")
		case "2":
			w.git("stash", "-q", "-u")
		case "3":
			w.git("clean", "-q", "-fd")
			w.git("reset", "-q", "--hard")
		}
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.mustRun(StartOptions{}, journal.AllDone)
	if got := w.git("status", "--porcelain"); got != " M base.txt\nA  staged.txt\n?? mine.txt" {
		t.Errorf("status:\n%s", got)
	}
	if w.read("mine.txt") != "not finished" || w.read("base.txt") != "my edit\n" {
		t.Errorf("mine.txt %q, base.txt %q", w.read("mine.txt"), w.read("base.txt"))
	}
	if got := w.git("log", "--name-only", "--format=", "-2"); strings.Contains(got, "mine.txt") ||
		strings.Contains(got, "base.txt") || strings.Contains(got, "staged.txt") {
		t.Errorf("commits hold:\n%s", got)
	}
	if got := w.git("stash", "list"); got != "" {
		t.Errorf("stashes:\n%s", got)
	}
}

// Where the user's files are in the way, and a branch of his is where the commits would go, each start refuses with
// what is in the way, until it is gone.
func TestNoRoomForTheBranchAside(t *testing.T) {
	t.Parallel()
	for _, branch := range []string{"descartes", "descartes/x/mine"} {
		t.Run(branch, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, `{"tag":"x","tasks":[{"id":1,"title":"One","status":"pending"}]}`)
			w.git("branch", branch)
			w.write("task-1.txt", "mine\n")
			for range 2 {
				out := w.mustRun(StartOptions{}, journal.GitRefused)
				for _, want := range []string{"task-1.txt (it exists here", "git branch -m " + branch + " "} {
					if !strings.Contains(out.Message, want) {
						t.Errorf("no %q in %s", want, out.Message)
					}
				}
			}
			if err := os.Remove(filepath.Join(w.dir, "task-1.txt")); err != nil {
				t.Fatal(err)
			}
			w.mustRun(StartOptions{}, journal.AllDone)
			if got := w.git("show", "HEAD:task-1.txt"); got != "done" || len(w.runs) != 1 {
				t.Errorf("%q, %v", got, w.runs)
			}
		})
	}
}

// Interruptions are no attempts, but one that takes the machine down each time has to end somewhere.
func TestInterruptionsAreNoAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"tag":"x","tasks":[{"id":1,"title":"One","status":"pending"}]}`)
	w.cfg.Scud.MaxIterationsPerTask = 1
	runs := 0
	w.agent = func(agent.Request, map[string]string) agent.Result {
		runs++
		return agent.Result{End: agent.Cancelled}
	}
	for range mostCutOff {
		w.mustRun(StartOptions{}, journal.UserCancelled)
	}
	out := w.mustRun(StartOptions{}, journal.TasksBlocked)
	if runs != mostCutOff || out.Blocked != 1 {
		t.Errorf("%d runs of the agent, outcome %+v", runs, out)
	}
	st, err := store.LoadState(store.NewHome(w.dir).Default())
	if err != nil || len(st.BlockedTasks) != 1 || !strings.HasPrefix(st.BlockedTasks[0].Reason,
		"10 attempts in a row were interrupted") || st.Iteration != 0 {
		t.Errorf("state: %+v, %v", st, err)
	}
}

// What SIGTERM ended is no error of ours, whatever it kept from its end.
func TestTerminatedIsNoError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrTerminated)
	out, err := (&stopper{ctx: ctx}).failed(fmt.Errorf("snapshot: %w", context.Cause(ctx)))
	if err != nil || out.Ending != journal.Interrupted {
		t.Errorf("%+v %v", out, err)
	}
}
