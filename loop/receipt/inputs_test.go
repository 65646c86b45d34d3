package receipt

import (
	"strings"
	"testing"

	"descartes/tasks"
	"descartes/tasks/plan"
)

// TestMarkIsNoChange: whatever stands in a task's box, the plan asks for the same.
func TestMarkIsNoChange(t *testing.T) {
	t.Parallel()
	const text = "# Work\n\n## Task 1: Alpha\n\n- [ ] write it\n- [link](x) stays\n\n## Task 2: Beta\n\n- [ ] write that\n"
	digest := func(text string) string {
		t.Helper()
		p, err := plan.Parse("plan.md", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return PlanDigest(p, tasks.Task{ID: "1", Title: "Alpha"}, nil)
	}
	want := digest(text)
	if want == "" {
		t.Fatal("the task has no section")
	}
	for _, mark := range []string{"[x]", "[X]", "[x ]", "[]", "[?]", "[done]", "[~]"} {
		if got := digest(strings.Replace(text, "- [ ] write it", "- "+mark+" write it", 1)); got != want {
			t.Errorf("%s is a change", mark)
		}
	}
	for _, other := range []string{strings.Replace(text, "write it", "write all", 1),
		strings.Replace(text, "[link]", "[links]", 1)} {
		if digest(other) == want {
			t.Errorf("no change: %q", other)
		}
	}
}
