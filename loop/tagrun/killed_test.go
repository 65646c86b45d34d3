package tagrun

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// TestKilledAtEachLine has a run die right after a line of its journal was written, and right before, when what it says
// has happened: before each line that says that a task is done or blocked, and of the others at every twenty-third, see
// every. The next run ends as it would have: no verified attempt is made again, no commit twice, each is recorded, as is
// each task that is done or blocked, and what an agent left is in a commit or kept.
func TestKilledAtEachLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.cfg.Scud.MaxIterationsPerTask = 2
	w.check = oneLateThreeNever
	w.agent = func(r agent.Request, env map[string]string) agent.Result {
		w.write("tries/"+env["DESCARTES_TASK_ID"]+"."+env["DESCARTES_ATTEMPT"], "")
		return w.works(env)
	}
	step, n, back := every(23), 0, map[int]func(){}
	w.tell = func(e journal.Event) { // the run waits
		n++
		if 2*n%step == 0 || (2*n-1)%step == 0 || e.Type == journal.WaveCommitted || e.Type == journal.AttemptFinished {
			back[n] = w.copied()
		}
	}
	w.ends(loop.StartOptions{Name: "night"}, journal.TasksBlocked)
	home := store.NewHome(w.dir)
	path := home.Events("night")
	events, err := journal.ReadEvents(path)
	if err != nil || len(events) != n || n < 50 {
		t.Fatalf("%d lines, %d of them told, %v", len(events), n, err)
	}
	all := strings.SplitAfter(strings.TrimSuffix(read(t, path), "\n"), "\n")
	log, list := w.git("log", "--format=%s"), w.read(".scud/tasks/x.json")
	id := "night" // one that is killed before its state file was written is nobody's
	w.tell = func(e journal.Event) { id = e.Loop }
	for k := 1; k < 2*n; k++ { // odd: the line is missing
		line, lines := (k+1)/2, (k+1)/2-k%2
		final := lines < n && (events[lines].Type == journal.TaskDone || events[lines].Type == journal.TaskBlocked)
		merged := lines < line && events[line-1].Type == journal.AttemptFinished &&
			events[line-1].Verdict == journal.Verified // the trunk has it, and the journal does not say so
		if back[line] == nil || k%step != 0 && !(final && lines == line) && !merged {
			continue
		}
		back[line]()
		if s, err := home.Load(home.Named("night")); err == nil && s.Seq > int64(lines) || lines == 0 {
			continue // the list has what the line says, which is on the disk before
		}
		w.write(strings.TrimPrefix(path, w.dir+"/"), strings.Join(all[:lines], ""))
		killed := fmt.Sprintf("killed after line %d (%s %s)", lines, events[lines-1].Type, events[lines-1].Task)
		if lines < line {
			killed = fmt.Sprintf("killed before line %d (%s %s)", line, events[line-1].Type, events[line-1].Task)
		}
		w.ran, id = nil, "night"
		if lines < n {
			w.ends(loop.StartOptions{}, journal.TasksBlocked)
		}
		if got := w.git("log", "--format=%s"); got != log {
			t.Errorf("%s: the branch has\n%s\nwant\n%s", killed, got, log)
		}
		if got := w.read(".scud/tasks/x.json"); got != list {
			t.Errorf("%s: the list is\n%s", killed, got)
		}
		w.clean()
		now, err := journal.ReadEvents(home.Events(id))
		if err != nil {
			t.Fatal(err)
		}
		var committed, verified, done, blocked []string
		for _, e := range now {
			switch e.Type {
			case journal.WaveCommitted:
				committed = append(committed, fmt.Sprint(e.Wave))
			case journal.AttemptFinished:
				if e.Verdict == journal.Verified {
					verified = append(verified, e.Task)
				}
			case journal.TaskDone:
				done = append(done, e.Task)
			case journal.TaskBlocked:
				blocked = append(blocked, e.Task)
			}
		}
		if !slices.Equal(committed, []string{"1", "2"}) || !slices.Equal(done, []string{"1", "2"}) ||
			!slices.Equal(blocked, []string{"3"}) || !slices.Equal(verified, []string{"1", "2"}) {
			t.Errorf("%s: waves %v are recorded as committed, tasks %v as verified, %v as done, %v as blocked", killed,
				committed, verified, done, blocked)
		}
		refs := w.git("for-each-ref", "--format=%(refname)", "refs/descartes/")
		for _, e := range events[:lines] {
			ref := store.RefPrefix("night", e.Task) + strconv.Itoa(e.Attempt)
			if e.Type == journal.AgentFinished && !strings.Contains(refs, ref) {
				t.Errorf("%s: the work of %s is lost:\n%s", killed, ref, refs)
			}
			again := slices.ContainsFunc(w.ran, func(ran string) bool { return strings.HasPrefix(ran, e.Task+" ") })
			if e.Type == journal.AttemptFinished && e.Verdict == journal.Verified && again {
				t.Errorf("%s: attempt %d at task %s was verified, and then ran %v", killed, e.Attempt, e.Task, w.ran)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
