package tasks

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostileTexts: no text of a few megabytes takes long or more than a small multiple of its size in memory.
func TestHostileTexts(t *testing.T) {
	head := "# SCUD Graph v1\n# Phase: x\n@nodes\n"
	const n = 100_000
	count := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	nested := strings.Repeat(`{"id":1,"subtasks":[`, 45) + strings.Repeat(`{"id":2},`, n) + `{"id":3}` + strings.Repeat("]}", 45)
	tests := []struct{ name, path, text string }{
		{"separators", "x.scg", strings.Repeat("---\n", n)},
		{"phases", "x.scg", strings.Repeat("# Phase: x\n---\n", 9_000)},
		{"odd lines", "x.scg", head + strings.Repeat("a\n", n)},
		{"the same node", "x.scg", head + strings.Repeat("1|a|P|1|H\n", n)},
		{"edges of one task", "x.scg", head + "1|a|P|1|H\n@edges\n" + count("1 -> %d\n")},
		{"one edge of all", "x.scg", head + "1|a|P|1|H\n@edges\n1 -> " + strings.Repeat("2,", n) + "\n"},
		{"a chain", "x.scg", head + "1|a|P|1|H\n@edges\n1" + strings.Repeat(" -> 1", n)},
		{"colons", "x.scg", head + "1|a|P|1|H\n@parents\n" + strings.Repeat(strings.Repeat(":", 200)+"\n", n/100)},
		{"children of one", "x.scg", head + count("%d|a|P|1|H\n") + "@parents\n1: " + count("%d,")},
		{"parents in a row", "x.scg", head + count("%d|a|P|1|H\n") + "@parents\n" + count("%d: 5\n")},
		{"details of one task", "x.scg", head + "1|a|P|1|H\n@details\n" + strings.Repeat("1|details|\n  a\n\n", n)},
		{"metas", "x.scg", head + strings.Repeat("@meta {\n", n)},
		{"metas of no phase", "x.scg", strings.Repeat("@meta\n", n)},
		{"one long line", "x.scg", head + strings.Repeat("|", 10*n)},
		{"bars", "x.scg", head + "1|" + strings.Repeat("a|", 5*n)},
		{"backslashes", "x.scg", head + "1|" + strings.Repeat(`\`, 10*n)},
		{"nested wide", "x.json", `{"tasks":[` + nested + `]}`},
		{"nested dependencies", "x.json", `{"tasks":[{"id":1,"subtasks":[{"id":1,"dependencies":[` + strings.TrimSuffix(count("%d,"), ",") + `]}]}]}`},
		{"tags", "x.json", `{"a":{"tasks":[]}` + strings.Repeat(`,"a":{"tasks":[]}`, n) + `}`},
		{"members beside tasks", "x.json", `{"tasks":[]` + strings.Repeat(`,"a":{"b":[1,2,3]}`, n) + `}`},
	}
	for _, test := range tests {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		f, err := Parse(test.path, "x", []byte(test.text))
		if err == nil {
			set := map[string]Status{}
			for i := range f.tasks {
				set[f.tasks[i].ID] = Done
			}
			edits, _ := f.edits(set)
			list := f.splices(edits, noon)
			f.apply(edits, list, f.spliced(list))
		}
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if took > 5*time.Second {
			t.Errorf("%s: %v", test.name, took)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 200<<20 {
			t.Errorf("%s: %d MiB for %d KiB", test.name, used>>20, len(test.text)>>10)
		}
	}
}

// Checklists at sizes at which anything that is not linear would show.
func TestChecklistHostile(t *testing.T) {
	t.Parallel()
	const size = 1 << 18
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, src := range map[string]string{
		"statements": strings.Repeat("- [ ] T1 [P] a\n", 1) + strings.Repeat("- [ ] T2 [P] b (depends on "+strings.Repeat("T1, ", 500)+"T1)\n", 400),
		"heading":    "## " + fill("x ") + "\n" + manyGroups(400),
		"group":      strings.Repeat("- [ ] T1 [P] a\n", 9000),
	} {
		t.Run("list "+name, func(t *testing.T) {
			t.Parallel()
			if f, err := Parse("tasks.md", "x", []byte(src)); err == nil && len(f.Tasks()) == 0 {
				t.Error("no tasks")
			}
		})
	}
}
