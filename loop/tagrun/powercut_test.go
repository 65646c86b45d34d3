package tagrun

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/internal/atomicfile"
	"descartes/internal/atomicfile/disktest"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// The power is cut at every moment of a run in every way that the disk may take it. What somebody was told is left, and
// so is that an agent was to start; the list says what the journal says up to the event that is noted for it; and neither
// it nor the state file is ahead of the journal.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	rec := &disktest.Recorder{FS: atomicfile.OS()}
	w.fs, w.cfg.Scud.MaxIterationsPerTask = rec, 3
	w.tell = func(e journal.Event) {
		if e.Type.Durable() {
			rec.Note(disktest.Op{Kind: "told", Seq: e.Seq})
		}
	}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		rec.Note(disktest.Op{Kind: "agent", Name: env["DESCARTES_TASK_ID"]})
		return w.works(env)
	}
	w.check = oneLateThreeNever
	list := w.read(".scud/tasks/x.json")
	w.ends(loop.StartOptions{Name: "night"}, journal.TasksBlocked)
	home := store.NewHome(w.dir)
	listPath := filepath.Join(w.dir, ".scud/tasks/x.json")
	paths := []string{home.Events("night"), filepath.Join(home.Run("night"), "listed"), listPath, home.Named("night")}
	d := disktest.NewDisk(map[string]string{listPath: list})
	told, agents, states := int64(0), 0, 0
	var j recovered
	for i, op := range rec.Ops() {
		switch op.Kind {
		case "told":
			told = op.Seq
			continue
		case "agent":
			agents++
			continue
		}
		d.Do(op)
		d.After(paths, func(files map[string]string) {
			states++
			j.read(files[paths[0]])
			if err := j.goesWith(files[paths[1]], files[listPath], files[paths[3]], told, agents); err != nil {
				t.Fatalf("after operation %d (%s %s): %v", i, op.Kind, filepath.Base(op.Name), err)
			}
		})
	}
	if agents != 6 || states < 6000 {
		t.Errorf("%d states and %d agents, want at least 6000 and 6", states, agents)
	}
}

// recovered is a journal that a power cut left. Many states of the disk have the same.
type recovered struct {
	lines  string
	events []journal.Event
	err    error
}

func (j *recovered) read(lines string) {
	if lines != j.lines {
		j.lines = lines
		j.events, _, j.err = journal.Recover("journal", []byte(lines))
	}
}

// goesWith says what is wrong with the files that a power cut left.
func (j *recovered) goesWith(listed, list, state string, told int64, agents int) (err error) {
	last := int64(len(j.events))
	switch started := strings.Count(j.lines, `"event":"AttemptStarted"`); {
	case j.err != nil:
		return j.err
	case last < told:
		return fmt.Errorf("%d events are left, %d had been told", last, told)
	case started < agents:
		return fmt.Errorf("%d attempts are known to have started, %d had", started, agents)
	}
	seq := int64(0)
	if listed != "" {
		if seq, err = strconv.ParseInt(listed, 10, 64); err != nil {
			return err
		}
	}
	if seq > last {
		return fmt.Errorf("the list is at %d, the journal ends at %d", seq, last)
	}
	if state != "" {
		s, err := store.ParseState("state", []byte(state))
		if err != nil {
			return err
		}
		if s.Seq > last {
			return fmt.Errorf("the state is at %d, the journal ends at %d", s.Seq, last)
		}
	}
	if !strings.HasSuffix(list, "]}\n") {
		return fmt.Errorf("task file: %q", list)
	}
	want := journal.NewState() // what is noted as in the task file must be there
	for i := range j.events[:seq] {
		want.Apply(&j.events[i])
	}
	for id, status := range want.TakeChanges(0) {
		if status != "in-progress" && !statusIs(list, id, status) {
			return fmt.Errorf("the list is at %d, but task %s is not %s in %s", seq, id, status, list)
		}
	}
	return nil
}

// statusIs reports whether a list has a task with a status.
func statusIs(list, id, status string) bool {
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, `  {"id": `+id+`,`) {
			return strings.Contains(line, fmt.Sprintf(`"status": %q`, status))
		}
	}
	return false
}
