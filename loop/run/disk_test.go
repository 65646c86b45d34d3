package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/agent"
	"descartes/internal/atomicfile"
	"descartes/internal/atomicfile/disktest"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// Whatever write fails, the counter on the disk is not behind the agents, and the run can be resumed. Each third is
// tried; with DESCARTES_CRASH_EVERY=1 each.
func TestRunOnAFullDisk(t *testing.T) {
	t.Parallel()
	step := 3
	if os.Getenv("DESCARTES_CRASH_EVERY") == "1" {
		step = 1
	}
	for k := 1; ; k += step {
		w := newWorld(t)
		var ran []string
		alive := w.agent
		w.agent = func(n string) agent.Result {
			ran = append(ran, n)
			return alive(n)
		}
		f := &disktest.Faulty{FS: atomicfile.OS(), K: k, Err: syscall.ENOSPC, Sticky: true}
		w.fs = f
		_, out, err := w.run("")
		if f.Asked() < k {
			if k < 20 {
				t.Fatalf("only %d operations", f.Asked())
			}
			if err != nil || out.Ending != journal.PromiseSeen {
				t.Fatalf("undisturbed: %+v, %v", out, err)
			}
			return
		}
		if err == nil && out.Ending != journal.DiskFull {
			t.Fatalf("operation %d failed, and the run ended with %+v", k, out)
		}
		w.fs = atomicfile.OS()
		path := store.NewHome(w.dir).Default()
		if _, err := os.Stat(path); err != nil {
			if len(ran) > 0 {
				t.Fatalf("operation %d: agents ran for %v, and there is no state file", k, ran)
			}
			path = ""
		} else if st, err := store.LoadState(path); err != nil || st.Iteration < len(ran) {
			t.Fatalf("operation %d: state %+v, %v after agents for %v", k, st, err, ran)
		} else if known, err := store.NewHome(w.dir).Load(path); err != nil {
			t.Fatal(err)
		} else if known.Completed { // its end was recorded
			continue
		}
		w.play(path, journal.PromiseSeen)
		if !slices.IsSorted(ran) {
			t.Fatalf("operation %d: agents for iterations %v", k, ran)
		}
	}
}

// The counter is on the disk when the agent starts.
func TestRunCountsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alive := w.agent
	w.agent = func(n string) agent.Result {
		st, err := store.LoadState(store.NewHome(w.dir).Default())
		if err != nil || strconv.Itoa(st.Iteration) != n {
			t.Errorf("iteration %s: the state file has %+v, %v", n, st, err)
		}
		return alive(n)
	}
	w.play("", journal.PromiseSeen)
}

// A clock that goes backwards changes no count and no order, and nothing lasts less than nothing.
func TestRunClockBackwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.clock = func() time.Time {
		at = at.Add(-time.Hour)
		return at
	}
	st := w.play("", journal.PromiseSeen).State()
	if st.Iteration != 3 {
		t.Errorf("iteration %d, want 3", st.Iteration)
	}
	for _, s := range st.Summaries {
		if s.CompletedAt.Before(s.StartedAt) {
			t.Errorf("iteration %d lasted %v", s.Iteration, s.CompletedAt.Sub(s.StartedAt))
		}
	}
}

// The power is cut at every moment of a run in every way that the disk may take it: what somebody was told is left, and
// so is the count of each iteration whose agent was started.
func TestRunPowerCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.Checks = nil
	rec := &disktest.Recorder{FS: atomicfile.OS()}
	w.fs = rec
	w.tell = func(e journal.Event) {
		if e.Type.Durable() {
			rec.Note(disktest.Op{Kind: "told", Seq: e.Seq})
		}
	}
	alive := w.agent
	w.agent = func(n string) agent.Result {
		rec.Note(disktest.Op{Kind: "agent", Name: n})
		return alive(n)
	}
	r := w.play("", journal.PromiseSeen)
	home := store.NewHome(w.dir)
	record, state := home.Events(r.ID()), home.Default()
	d := disktest.NewDisk(nil)
	told, begun, states := int64(0), 0, 0
	for i, op := range rec.Ops() {
		switch op.Kind {
		case "told":
			told = op.Seq
			continue
		case "agent":
			n, err := strconv.Atoi(op.Name)
			if err != nil {
				t.Fatal(err)
			}
			begun = n
			continue
		}
		d.Do(op)
		d.After([]string{record, state}, func(files map[string]string) {
			states++
			if err := survived(files[record], files[state], told, begun); err != nil {
				t.Fatalf("after operation %d (%s %s): %v", i, op.Kind, filepath.Base(op.Name), err)
			}
		})
	}
	if begun != 3 || states < 1000 {
		t.Errorf("%d states and %d agents, want at least 1000 and 3", states, begun)
	}
}

// survived says what is wrong with the files that a power cut left.
func survived(lines, state string, told int64, begun int) error {
	events, _, err := journal.Recover("journal", []byte(lines))
	if err != nil {
		return err
	}
	if n := int64(len(events)); n < told {
		return fmt.Errorf("%d events are left, %d had been told", n, told)
	}
	b := journal.Fold(events)
	if b.Iteration < begun {
		return fmt.Errorf("the journal counts %d iterations, agents were started for %d", b.Iteration, begun)
	}
	if strings.TrimSpace(state) == "" {
		if begun > 0 {
			return fmt.Errorf("no state file, and agents were started for %d iterations", begun)
		}
		return nil
	}
	s, err := store.ParseState("state", []byte(state))
	switch {
	case err != nil:
		return err
	case s.Seq > int64(len(events)):
		return fmt.Errorf("the state is at %d, the journal ends at %d", s.Seq, len(events))
	case s.Iteration < begun:
		return fmt.Errorf("the state file counts %d iterations, agents were started for %d", s.Iteration, begun)
	}
	return nil
}

// The agent of an iteration that follows a killed one is told which it is.
func TestRunTellsWhereItStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.MaxIterations = 1
	r := w.play("", journal.LimitReached)
	w.cfg.MaxIterations, w.prompts = 5, nil
	w.play(w.alive(r.StatePath()), journal.PromiseSeen)
	if len(w.prompts) == 0 || !strings.Contains(w.prompts[0], "- This is iteration 2 of 5\n") {
		t.Errorf("prompts %q", w.prompts)
	}
}
