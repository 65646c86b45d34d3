package source

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/config"
	"descartes/tasks"
)

// list writes a list of tasks given as "id status" or "id status needs".
func list(t *testing.T, path string, rows ...string) {
	t.Helper()
	var all []string
	for _, row := range rows {
		f := strings.Fields(row + " ")
		needs := ""
		if len(f) > 2 {
			needs = f[2]
		}
		all = append(all, fmt.Sprintf(`{"id": %s, "title": "T%s", "status": %q, "depends_on": [%s]}`, f[0], f[0], f[1], needs))
	}
	text := `{"tag": "x", "tasks": [` + strings.Join(all, ",\n") + "]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What a person changes in the list holds for what nobody works on, and never undoes what the run did.
func TestReread(t *testing.T) {
	t.Parallel()
	open, begun := Standing{Begun: true, Open: true, AtWork: true}, Standing{Begun: true}
	for name, tt := range map[string]struct {
		was, is []string
		runs    map[string]tasks.Status // as the run has them, where that differs from the list
		stands  map[string]Standing
		wrote   map[string]tasks.Status
		words   string
		changed []string
		wishes  map[string]tasks.Status
		undone  map[string]tasks.Status
		now     string // statuses, "" for as before
		err     string
	}{
		"nothing": {was: []string{"1 pending"}, is: []string{"1 pending"}, now: "1 pending"},
		"a new task": {was: []string{"1 pending"}, is: []string{"1 pending", "2 pending"}, words: "2 added",
			changed: []string{"2"}, now: "1 pending, 2 pending"},
		"set aside": {was: []string{"1 pending", "2 pending"}, is: []string{"1 pending", "2 deferred"},
			wrote: map[string]tasks.Status{"2": tasks.Deferred}, words: "2 changed", now: "1 pending, 2 deferred"},
		"set aside while at work": {was: []string{"1 pending"}, is: []string{"1 cancelled"},
			runs: map[string]tasks.Status{"1": tasks.InProgress}, stands: map[string]Standing{"1": open},
			wrote: map[string]tasks.Status{"1": tasks.Cancelled}, words: "1 changed",
			wishes: map[string]tasks.Status{"1": tasks.Cancelled}, now: "1 in-progress"},
		"an older copy undoes what is done": {was: []string{"1 pending"}, is: []string{"1 pending"},
			runs: map[string]tasks.Status{"1": tasks.Done}, stands: map[string]Standing{"1": begun},
			wrote:  map[string]tasks.Status{"1": tasks.Pending},
			undone: map[string]tasks.Status{"1": tasks.Done}, now: "1 done"},
		"deleted before it began": {was: []string{"1 pending", "2 pending"}, is: []string{"1 pending"},
			words: "2 removed", now: "1 pending"},
		"deleted while at work": {was: []string{"1 pending", "2 pending"}, is: []string{"1 pending"},
			stands: map[string]Standing{"2": open}, runs: map[string]tasks.Status{"2": tasks.InProgress},
			words: "2 removed", now: "1 pending, 2 in-progress"},
		"waits for itself while at work": {was: []string{"1 pending", "2 pending"},
			is:     []string{"1 pending 2", "2 pending 1"},
			stands: map[string]Standing{"1": open}, err: "task 1 has begun", now: "1 pending, 2 pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "x.json")
			list(t, path, tt.was...)
			file, err := tasks.OpenPath(path, "x")
			if err != nil {
				t.Fatal(err)
			}
			j := JobOf(dir, config.Config{}, file)
			for id, s := range tt.runs {
				j.Graph.SetStatus(id, s)
			}
			list(t, path, tt.is...)
			if err := file.Refresh(); err != nil {
				t.Fatal(err)
			}
			c, err := j.Reread(Run{Stands: func(id string) Standing { return tt.stands[id] }, Wrote: tt.wrote,
				Waves: map[string]int{}, Next: 2})
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) || tt.err == "" && err != nil {
				t.Fatalf("got %v, want %q", err, tt.err)
			}
			if err == nil && (c.Words != tt.words || !slices.Equal(c.Tasks, tt.changed) ||
				!maps.Equal(c.Wishes, tt.wishes) || !maps.Equal(c.Undone, tt.undone)) {
				t.Errorf("got %+v", c)
			}
			var now []string
			for _, id := range j.Graph.Leaves() {
				now = append(now, id+" "+string(j.Graph.Status(id)))
			}
			if slices.Sort(now); strings.Join(now, ", ") != tt.now {
				t.Errorf("statuses: %v, want %s", now, tt.now)
			}
		})
	}
}

// A task that comes while a run is on belongs to the first wave that is not committed, at the earliest.
func TestRereadNumbersLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	list(t, path, "1 done")
	file, err := tasks.OpenPath(path, "x")
	if err != nil {
		t.Fatal(err)
	}
	j := JobOf(dir, config.Config{}, file)
	list(t, path, "1 done", "2 pending")
	if err := file.Refresh(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Reread(Run{Stands: func(string) Standing { return Standing{} }, Waves: map[string]int{"1": 1}, Next: 2}); err != nil || j.Graph.Wave("2") != 2 {
		t.Errorf("wave %d, %v", j.Graph.Wave("2"), err)
	}
}
