package specbuild

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

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
			{Task: list[1], Parents: list[:1], AllTasks: list, Plan: p, MaxTokens: 200, Cut: true},
		} {
			spec, err := Build(req)
			if err != nil {
				t.Fatal(err)
			}
			checkSpec(t, p, spec)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Fatalf("%d bytes took %v", len(src), took)
		}
	})
}

// checkTables also compares them with what goldmark finds when no paragraph is emptied.
func checkTables(t *testing.T, p *Plan) {
	t.Helper()
	var deep scanned
	for n := range p.lines {
		deep.line(n, p.line(n))
	}
	blocks := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))
	plain := &Plan{src: p.src, lines: p.lines}
	plain.outline(blocks.Parse(text.NewReader(p.mask(deep.deep))))
	if !slices.Equal(plain.heads, p.heads) || !slices.Equal(plain.items, p.items) {
		t.Fatalf("got %+v %+v, goldmark alone %+v %+v", p.heads, p.items, plain.heads, plain.items)
	}
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
	line := -1
	for _, s := range p.fences {
		if s.First <= line || s.Last < s.First || s.Last >= len(p.lines) {
			t.Fatalf("fence %+v", s)
		}
		line = s.Last
	}
}

func checkSpec(t *testing.T, p *Plan, spec Spec) {
	t.Helper()
	if !strings.HasPrefix(spec.Text, "# Task ") || !utf8.ValidString(spec.Text) || strings.ContainsRune(spec.Text, 0) {
		t.Fatalf("bad text %q", spec.Text)
	}
	for _, s := range spec.Sources {
		if s.File != "" && (s.FirstLine < 1 || s.LastLine < s.FirstLine || s.LastLine > len(p.lines)) {
			t.Fatalf("bad source %+v of %d lines", s, len(p.lines))
		}
	}
}
