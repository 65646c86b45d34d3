package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"descartes/loop/journal"
)

// Journals that the version before wrote are folded into what its state files say. What a state file has from
// elsewhere, the settings and the task list, is not in these.
func TestJournalsOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob(filepath.Join("..", "journal", "testdata", "before", "*.ndjson"))
	if err != nil || len(all) < 10 {
		t.Fatalf("%d journals, %v", len(all), err)
	}
	for _, path := range all {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			events, err := journal.ReadEvents(path)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(strings.TrimSuffix(path, ".ndjson") + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var want map[string]any
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			s := &State{Version: StateVersion, ID: events[0].Loop, Kind: want["kind"].(string)}
			if s.Kind == KindTag {
				s.Tag = want["tag"].(string)
			}
			Fill(s, journal.Fold(events), func(id string) TaskID {
				return TaskID{ID: id, Numeric: json.Valid([]byte(id))}
			})
			if data, err = s.encode(nil); err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			for key := range want {
				if !reflect.DeepEqual(got[key], want[key]) {
					t.Errorf("%s is %v, the version before says %v", key, got[key], want[key])
				}
			}
		})
	}
}
