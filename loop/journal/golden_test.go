package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Events of every type, with every member, are read and written again byte for byte: --json prints them, and other
// programs read them.
func TestLinesStay(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "lines.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Type]bool{}
	for line := range bytes.Lines(data) {
		e, err := parse(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if got, err := e.Line(); err != nil || !bytes.Equal(got, line) {
			t.Errorf("%v\n got %s\nwant %s", err, got, line)
		}
		seen[e.Type] = true
	}
	for kind := range changes {
		if !seen[kind] {
			t.Errorf("no line of type %s", kind)
		}
	}
}
