package specbuild

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"descartes/tasks"
	"descartes/tasks/plan"
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
		p, err := plan.Parse("plan.md", src)
		if err != nil {
			return
		}
		list := []tasks.Task{{ID: "1", Title: "Write tests"}, {ID: id, Title: title, Parent: "1"}}
		for _, req := range []Request{
			{Task: list[0], Plan: p},
			{Task: list[1], Parents: list[:1], Plan: p, Budget: Budget{Tokens: 200, Cut: true}},
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

func checkSpec(t *testing.T, p *plan.Document, spec Spec) {
	t.Helper()
	if !strings.HasPrefix(spec.Text, "# Task ") || !utf8.ValidString(spec.Text) || strings.ContainsRune(spec.Text, 0) {
		t.Fatalf("bad text %q", spec.Text)
	}
	for _, s := range spec.Sources {
		if s.File != "" && (s.FirstLine < 1 || s.LastLine < s.FirstLine || s.LastLine > p.Length()) {
			t.Fatalf("bad source %+v of %d lines", s, p.Length())
		}
	}
}
