package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"descartes/internal/atomicfile"
)

func clock() func() time.Time {
	t := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time { t = t.Add(time.Second); return t }
}

// lines makes a journal's bytes of these types.
func lines(t *testing.T, types ...Type) []byte {
	t.Helper()
	var b []byte
	for i, typ := range types {
		e := Event{Seq: int64(i + 1), Loop: "x", Type: typ, Unit: Unit{Task: "1"}}
		var err error
		if b, err = e.appendLine(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestRecoverEveryCut(t *testing.T) {
	t.Parallel()
	data := lines(t, LoopStarted, TaskStarted, AttemptStarted, AttemptFinished, TaskDone)
	ends := []int{}
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for cut := range len(data) + 1 {
		events, good, err := Recover("j", data[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		whole := 0
		for _, e := range ends {
			if e <= cut {
				whole++
			}
		}
		if len(events) != whole || whole > 0 && good != ends[whole-1] {
			t.Fatalf("cut at %d: %d events, good %d, want %d events", cut, len(events), good, whole)
		}
	}
}

func TestRecoverDamage(t *testing.T) {
	t.Parallel()
	all := []Type{LoopStarted, TaskStarted, AttemptStarted, TaskDone, TaskStarted, LoopFinished}
	for _, tt := range []struct {
		name string
		at   int // line to damage, from 0
		want int // events kept; -1 is an error
	}{
		{"the first line of many", 0, -1},
		{"before a synced line", 1, -1},
		{"the last line that had surely been synced", 3, 3},
		{"before a last line that may not have been synced", 4, 4},
		{"the last line", 5, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data := lines(t, all...)
			at := 0
			for range tt.at {
				at += bytes.IndexByte(data[at:], '\n') + 1
			}
			data[at+20] ^= 1
			events, _, err := Recover("j", data)
			var damage *DamageError
			if tt.want < 0 {
				if !errors.As(err, &damage) || damage.Line != tt.at+1 {
					t.Fatalf("got %v, want damage in line %d", err, tt.at+1)
				}
				return
			}
			if err != nil || len(events) != tt.want {
				t.Fatalf("got %d events, %v, want %d", len(events), err, tt.want)
			}
		})
	}
}

func TestRecoverRefusesRepeatedLine(t *testing.T) {
	t.Parallel()
	data := lines(t, LoopStarted, TaskDone, TaskStarted)
	first := data[:bytes.IndexByte(data, '\n')+1]
	twice := append(bytes.Clone(first), data...)
	if _, _, err := Recover("j", twice); err == nil {
		t.Fatal("a repeated line before a synced one was accepted")
	}
}

func TestJournalCutsTornTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs", "x", "events.ndjson")
	j, _, err := Open(atomicfile.OS(), path, "x", clock())
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(&Event{Type: LoopStarted}, &Event{Type: TaskStarted, Unit: Unit{Task: "1"}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, `{"seq":3,"ts":`...), 0o644); err != nil {
		t.Fatal(err)
	}
	j, events, err := Open(atomicfile.OS(), path, "x", clock())
	if err != nil || len(events) != 2 {
		t.Fatalf("got %d events, %v, want 2", len(events), err)
	}
	if err := j.Append(&Event{Type: TaskDone, Unit: Unit{Task: "1"}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadEvents(path)
	if err != nil || len(got) != 3 || got[2].Seq != 3 || got[2].Type != TaskDone {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestJournalHealsWhenDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "runs", "x", "events.ndjson")
	j, _, err := Open(atomicfile.OS(), path, "x", clock())
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(&Event{Type: LoopStarted}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "runs")); err != nil {
		t.Fatal(err)
	}
	if healed, err := j.Heal(); err != nil || !healed {
		t.Fatalf("got %v, %v", healed, err)
	}
	if err := j.Append(&Event{Type: TaskDone, Unit: Unit{Task: "1"}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadEvents(path); err != nil || len(got) != 2 {
		t.Fatalf("got %d events, %v, want 2", len(got), err)
	}
}

func FuzzRecover(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"seq":1,"crc":"00000000"}` + "\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, good, err := Recover("j", data)
		if err != nil {
			return
		}
		if good > len(data) {
			t.Fatalf("good %d of %d", good, len(data))
		}
		again, g, err := Recover("j", data[:good])
		if err != nil || g != good || len(again) != len(events) {
			t.Fatalf("second reading: %d events, good %d, %v; first: %d, %d", len(again), g, err, len(events), good)
		}
	})
}
