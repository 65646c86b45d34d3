package scheduler

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/tasks"
)

var update = flag.Bool("update", false, "renew testdata/corpus.golden")

// Every list of the corpus has the waves, statuses and problems of testdata/corpus.golden.
func TestCorpus(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	root := filepath.Join("..", "tasks", "testdata")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".json", ".scg", ".md"}, filepath.Ext(path)) {
			return err
		}
		var several *tasks.NotFoundError
		tags := []string{""}
		if _, err := tasks.OpenPath(path, ""); errors.As(err, &several) {
			tags = several.Known
		}
		for _, tag := range tags {
			f, err := tasks.OpenPath(path, tag)
			if err != nil {
				return err
			}
			g := New(f.Tasks(), Options{})
			fmt.Fprintf(&b, "%s %s\n", filepath.ToSlash(path[len(root)+1:]), f.Tag())
			for _, w := range g.Waves() {
				fmt.Fprintf(&b, "  wave %d\n", w.Number)
				for _, id := range w.Tasks {
					state, why := g.State(id), g.Why(id, nil)
					fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("    %s %s, %s: %s", id, g.Status(id), state, why),
						": "))
				}
			}
			for _, p := range g.Problems() {
				fmt.Fprintf(&b, "  %s: %s\n", p.Kind, p.Message)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "corpus.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != b.String() {
		t.Errorf("%v; differs from %s (-update renews it):\n%s", err, golden, b.String())
	}
}
