package loop

import (
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

// A loop that dies between the end of a dear agent and what follows counts its cost once, and the one that takes it
// up gives the task no further attempt.
func TestCostSurvives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.cfg.MaxCostPerTask = 0.5
	w.check = func(env map[string]string) verify.Result {
		return verify.Result{Passed: env["DESCARTES_TASK_ID"] != "1"}
	}
	usd := 0.6
	dear := agent.Result{End: agent.Finished, Cost: &agent.Cost{USD: &usd,
		Tokens: &agent.Tokens{Input: 10, Output: 1}}}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		return dear
	}
	l, err := w.start(StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t1, _ := l.job.Graph.Task("1")
	u := &unit{task: t1, number: 1}
	start := l.event(journal.AttemptStarted, u)
	start.Tree = l.history.Tree
	begin := l.event(journal.TaskStarted, u)
	begin.Base = l.history.Tree
	if err := l.record(begin, start, AgentEnd(l.event(journal.AgentFinished, u), dear, u.with, MaxWords)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	out := w.mustRun(StartOptions{}, journal.TasksBlocked)
	st, err := store.LoadState(store.NewHome(w.dir).Default())
	if err != nil {
		t.Fatal(err)
	}
	if out.Blocked != 1 || len(st.BlockedTasks) != 1 || !strings.HasPrefix(st.BlockedTasks[0].Reason,
		"its attempts cost $0.60, and a task may cost $0.50; the last one: ") {
		t.Errorf("%+v, blocked %+v", out, st.BlockedTasks)
	}
	if c := st.Cost; c == nil || c.USD == nil || *c.USD != 0.6 || c.Runs != 1 || len(w.runs) != 0 {
		t.Errorf("cost %+v after the runs %q", c, w.runs)
	}
}
