package loop

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// TestPromptPowerCut cuts the power at every moment of a prompt loop in every way that the disk may take it: what
// somebody was told is left, and so is the count of each iteration whose agent had been started.
func TestPromptPowerCut(t *testing.T) {
	t.Parallel()
	w := newPromptWorld(t)
	rec := &recorder{FS: atomicfile.OS()}
	w.fs = rec
	w.tell = func(e journal.Event) {
		if e.Type.Durable() {
			rec.ops = append(rec.ops, diskOp{kind: "told", seq: e.Seq})
		}
	}
	alive := w.agent
	w.agent = func(r agent.Request, env map[string]string) agent.Result {
		rec.ops = append(rec.ops, diskOp{kind: "agent", name: env["DESCARTES_ITERATION"]})
		return alive(r, env)
	}
	st := w.mustPrompt("", journal.PromiseSeen)
	home := store.NewHome(w.dir)
	record, state := home.Events(st.ID), home.Default()
	d := &disk{live: map[string]*inode{}, durable: map[string]*inode{}}
	told, begun, states := int64(0), 0, 0
	for i, op := range rec.ops {
		switch op.kind {
		case "told":
			told = op.seq
			continue
		case "agent":
			n, err := strconv.Atoi(op.name)
			if err != nil {
				t.Fatal(err)
			}
			begun = n
			continue
		}
		d.do(op)
		d.after([]string{record, state}, func(files map[string]string) {
			states++
			if err := promptSurvived(files[record], files[state], told, begun); err != nil {
				t.Fatalf("after operation %d (%s %s): %v", i, op.kind, filepath.Base(op.name), err)
			}
		})
	}
	if begun != 3 || states < 1000 {
		t.Errorf("%d states and %d agents, want at least 1000 and 3", states, begun)
	}
}

// promptSurvived says what is wrong with the files that a power cut left.
func promptSurvived(lines, state string, told int64, begun int) error {
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
