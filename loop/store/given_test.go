package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
)

// What a loop is and how it ended comes from what it was given and from its journal, whatever its state file says, and
// however its journal's last line is torn.
func TestLoad(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob(filepath.Join("..", "journal", "testdata", "before", "*.ndjson"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	fsys := atomicfile.OS()
	for _, path := range all {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		events, _, err := journal.Recover(path, data)
		if err != nil {
			t.Fatal(err)
		}
		h := NewHome(t.TempDir())
		id := events[0].Loop
		want := State{Version: StateVersion, ID: id, Kind: KindTag, Tag: "x",
			Config: config.Config{Prompt: "given", MaxIterations: 3, IterationContext: true}}
		Fill(&want, journal.Fold(events), func(id string) TaskID { return TaskID{ID: id} })
		for _, torn := range []string{"", `{"seq":`} {
			if err := os.MkdirAll(h.Run(id), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(h.Events(id), append(data[:len(data):len(data)], torn...), 0o600); err != nil {
				t.Fatal(err)
			}
			behind := State{Version: StateVersion, ID: id, Kind: KindPrompt, Completed: !want.Completed,
				ExitReason: ExitReason{Type: "other"}, Seq: 99}
			if err := behind.Save(fsys, h.Default()); err != nil {
				t.Fatal(err)
			}
			if err := h.Give(fsys, &want); err != nil {
				t.Fatal(err)
			}
			if err := h.Listed(fsys, id, 4); err != nil {
				t.Fatal(err)
			}
			got, err := h.Load(h.Default())
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind != KindTag || got.Tag != "x" || got.Config.Prompt != "given" || got.Seq != 4 ||
				got.Completed != want.Completed || got.ExitReason != want.ExitReason {
				t.Errorf("%s: got %+v, want %+v", filepath.Base(path), got, want)
			}
		}
		if err := os.Remove(h.givenFile(id)); err != nil {
			t.Fatal(err)
		}
		if got, err := h.Load(h.Default()); err != nil || got.ExitReason.Type != "other" {
			t.Errorf("%s: a state file that is all there is says %+v, %v", filepath.Base(path), got, err)
		}
	}
}

// TestUnbegun: a run that was killed before it wrote down that it begins leaves its name to the next one, and nothing
// beside it. One that is about to begin, and one that has begun, keep theirs.
func TestUnbegun(t *testing.T) {
	t.Parallel()
	h := NewHome(t.TempDir())
	for id, files := range map[string]map[string]string{
		"cut":    {"events.ndjson": "", ".run.json.tmp-1": "{"},
		"killed": {"events.ndjson": "", "run.json": fmt.Sprintf(`{"version":%q,"id":"killed","pid":0,"host":%q}`, StateVersion, Hostname())},
		"begins": {"events.ndjson": "", "run.json": fmt.Sprintf(`{"version":%q,"id":"begins","pid":%d,"host":%q}`,
			StateVersion, os.Getpid(), Hostname())},
		"begun": {"events.ndjson": "{}\n"},
	} {
		if err := os.MkdirAll(filepath.Join(h.Run(id), "logs"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(h.Run(id), name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, free := range map[string]bool{"cut": true, "killed": true, "begins": false, "begun": false} {
		if _, err := h.FreeID(id, ""); (err == nil) != free {
			t.Errorf("the name %s: %v", id, err)
		}
		if _, err := os.Stat(h.Run(id)); os.IsNotExist(err) != free {
			t.Errorf("the folder of %s: %v", id, err)
		}
	}
}
