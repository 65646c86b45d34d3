package loop

import (
	"strings"
	"testing"

	"descartes/internal/atomicfile"
)

// TestTune: what is kept for a task comes back byte for byte whatever the tag and the task are called,
// and nothing lands outside the folder.
func TestTune(t *testing.T) {
	t.Parallel()
	h := NewHome(t.TempDir())
	for _, id := range []string{"1", "1.2", "../../x", "a/b", "", "é", strings.Repeat("n", 80)} {
		for _, tag := range []string{"x", "../y", "feature/z"} {
			want := "# " + tag + " " + id + "\n\n  text "
			if err := h.Tune(atomicfile.OS(), tag, id, want); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(h.tuned(tag, id), string(h)+"/tuned/") || strings.Count(h.tuned(tag, id), "/") != strings.Count(string(h), "/")+3 {
				t.Errorf("it lies at %s", h.tuned(tag, id))
			}
			if got, err := h.Tuned(tag, id); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			if err := h.Untune(atomicfile.OS(), tag, id); err != nil {
				t.Fatal(err)
			}
			if got, err := h.Tuned(tag, id); got != "" || err != nil {
				t.Errorf("forgotten: got %q, %v", got, err)
			}
		}
	}
	for _, bad := range []string{"", " \n", "a\x00b", "\xff", strings.Repeat("x", maxTuned+1)} {
		if err := h.Tune(atomicfile.OS(), "x", "1", bad); err == nil {
			t.Errorf("a text of %d bytes like %.5q was kept", len(bad), bad)
		}
	}
}
