package quota

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each row of the table stands for words that a client has printed: a recording has a line that it is the first to fit.
// What becomes of such a run is up to the tests of package agent.
func TestDialectsAreRecorded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "testdata", "streams", "*.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	found := make([]string, len(dialects))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if ext := filepath.Ext(file); ext != ".ndjson" && ext != ".stderr" {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "’", "'")) {
			for n, d := range dialects {
				if d.words.MatchString(line) {
					found[n] = file
					break
				}
			}
		}
	}
	for n, d := range dialects {
		if found[n] == "" {
			t.Errorf("row %d: no recording has these words of %s", n, d.of)
		}
	}
}
