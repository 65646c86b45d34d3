package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"descartes/tasks"
)

// Entries that are known keep their ids by their titles, wherever they stand by now.
func TestKnownEntries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ was, src, want string }{
		"nothing known": {"", "- [ ] A\n- [ ] B\n", "1 A, 2 B"},
		"added above":   {"1 A, 2 B", "- [ ] N\n- [ ] A\n- [x] B\n", "3 N, 1 A, 2 B"},
		"moved":         {"1 A, 2 B, 3 C", "- [ ] C\n- [ ] **A**\n- [ ] b.\n", "3 C, 1 A, 2 b."},
		"gone":          {"1 A, 2 B", "- [ ] B\n- [ ] N\n- [ ] M\n", "2 B, 3 N, 4 M"},
		"equal titles":  {"1 A, 2 A, 3 B", "- [ ] N\n- [ ] A\n- [ ] A\n- [ ] A\n", "4 N, 1 A, 2 A, 5 A"},
		"in phases": {"1.1 A, 2.1 B",
			"## Phase 1: X\n- [ ] N\n- [ ] A\n## Phase 2: Y\n- [ ] M\n- [ ] B (depends on 2.1)\n",
			"1.2 N, 1.1 A, 2.2 M <- 1.2,1.1, 2.1 B <- 2.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "plan.md")
			if err := os.WriteFile(path, []byte(c.src), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path, "x", func(string) (was []tasks.Task) {
				for one := range strings.SplitSeq(c.was, ", ") {
					id, title, _ := strings.Cut(one, " ")
					was = append(was, tasks.Task{ID: id, Title: title})
				}
				return was
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range f.Tasks() {
				one := x.ID + " " + x.Title
				if len(x.DependsOn) > 0 {
					one += " <- " + strings.Join(x.DependsOn, ",")
				}
				got = append(got, one)
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}
