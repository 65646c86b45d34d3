package specbuild

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"descartes/tasks"
)

// Whatever a plan holds: no panic, no endless work, and tables that fit the text.
func FuzzParsePlan(f *testing.F) {
	for _, name := range []string{"phases", "numbered", "taskheads", "markers", "checklist", "nested"} {
		f.Add(planFile(f, name), "1", "Write the tests")
	}
	for _, src := range hostilePlans(2 << 10) {
		f.Add([]byte(src), "2.1", "Phase x")
	}
	f.Add([]byte("\ufeff---\r\n# x\r\n---\r\n# Task 1:\r\n- [ ] a\r\n```"), "1", "")
	f.Fuzz(func(t *testing.T, src []byte, id, title string) {
		start := time.Now()
		p, err := ParsePlan("plan.md", src)
		if err != nil {
			return
		}
		checkTables(t, p)
		list := []tasks.Task{{ID: "1", Title: "Write tests"}, {ID: id, Title: title, Parent: "1"}}
		for _, req := range []Request{
			{Task: list[0], AllTasks: list, Plan: p},
			{Task: list[1], Parents: list[:1], AllTasks: list, Plan: p, Budget: Budget{Tokens: 200, Cut: true}},
		} {
			spec, err := Build(req)
			if err != nil {
				t.Fatal(err)
			}
			checkSpec(t, p, spec)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Fatalf("%d bytes took %v", len(src), took)
		}
	})
}

func checkTables(t *testing.T, p *Plan) {
	t.Helper()
	last := -1
	for i, h := range p.heads {
		if h.start <= last || h.start >= h.body || h.body > h.end || h.end > len(p.src) || h.parent >= i {
			t.Fatalf("heading %d: %+v", i, h)
		}
		if h.parent >= 0 && (p.heads[h.parent].end < h.end || p.heads[h.parent].level >= h.level) {
			t.Fatalf("heading %d is not inside %d", i, h.parent)
		}
		last = h.start
	}
	for i, it := range p.items {
		if it.start >= it.end || it.end > len(p.src) || it.parent >= len(p.heads) {
			t.Fatalf("item %d: %+v", i, it)
		}
	}
}

func checkSpec(t *testing.T, p *Plan, spec Spec) {
	t.Helper()
	if !strings.HasPrefix(spec.Text, "# Task ") || !utf8.ValidString(spec.Text) || strings.ContainsRune(spec.Text, 0) {
		t.Fatalf("bad text %q", spec.Text)
	}
	for _, s := range spec.Sources {
		if s.File != "" && (s.FirstLine < 1 || s.LastLine < s.FirstLine || s.LastLine > len(p.doc.Lines)) {
			t.Fatalf("bad source %+v of %d lines", s, len(p.doc.Lines))
		}
	}
}
