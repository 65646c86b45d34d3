package gitops

import (
	"strings"
	"testing"
)

func TestPatch(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	r.cli.program = gitProgram(t)
	write := func(name, text string) Tree {
		t.Helper()
		s.put(name, text)
		return snap(t, r)
	}
	before := write("a.txt", "one\n")
	after := write("a.txt", "one\ntwo\n")
	got, err := r.Patch(t.Context(), before, after, 1<<10)
	if err != nil || !strings.Contains(got, "\n+two\n") || !strings.Contains(got, "diff --git a/a.txt b/a.txt") {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := r.Patch(t.Context(), after, after, 1<<10); got != "" || err != nil {
		t.Errorf("of one tree: got %q, %v", got, err)
	}
	huge := write("a.txt", strings.Repeat("line\n", 1000))
	got, err = r.Patch(t.Context(), before, huge, 500)
	if err != nil || len(got) > 600 || !strings.HasSuffix(got, " bytes of the diff left out]\n") {
		t.Errorf("cut: got %d bytes ending %q, %v", len(got), got[max(0, len(got)-60):], err)
	}
	r.cli.program = ""
	if got, err := r.Patch(t.Context(), before, after, 1<<10); err != nil || !strings.Contains(got, "a.txt | 1 +") {
		t.Errorf("without git: got %q, %v", got, err)
	}
}
