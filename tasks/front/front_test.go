package front

import (
	"slices"
	"strings"
	"testing"

	"descartes/internal/markdown"
	"descartes/tasks"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const tail = "\n- [ ] A\n"
	p, findings := Read(
		[]byte("---\ntag: feature-x\nverify: make test\nspec_files:\n  - a.md\n  - b.md\nother: [1]\n---" + tail))
	if p.Tag != "feature-x" || p.Verify != "make test" || !slices.Equal(p.SpecFiles, []string{"a.md", "b.md"}) ||
		len(findings) > 0 {
		t.Errorf("got %+v", p)
	}
	if got, wrong := Read([]byte("# Plan\n")); got.Tag != "" || len(wrong) > 0 {
		t.Errorf("no front matter: got %+v", got)
	}
	for src, line := range map[string]int{"---\ntag: ../x\n---": 2, "---\nx: 1\nverify: [a]\n---": 3,
		"---\n: : [\n---": 1, "---\nspecs: {a: b}\n---": 2, "---\ntag: [x]\n---": 2} {
		p, findings := Read([]byte(src + tail))
		if len(findings) != 1 || findings[0].Line != line || p.Tag != "" || p.Verify != "" || p.SpecFiles != nil {
			t.Errorf("%q: got %+v", src, p)
		}
	}
}

// FuzzRead: what the top of a plan sets is usable as it is, whatever stands there, and each finding has a line of
// the file.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"---\ntag: x\nverify: make\nspec_files: [A.md, b/c.md]\n---\n# Plan\n",
		"---\r\nscud-tag: 1\r\nspecs: a.md\r\n...\r\n", "\ufeff---\ntag: [x]\nverify: {}\nspec-file: [[]]\n---\n",
		"---\ntag: &a ../x\nverify: *a\n---\n", "---\na: b: c\n---\n", "+++\ntag = 1\n+++\n", "---\n- tag\n---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, findings := Read(text)
		if m.Tag != "" && tasks.ValidTag(m.Tag) != nil {
			t.Errorf("%q sets the tag %q", text, m.Tag)
		}
		if slices.Contains(m.SpecFiles, "") || m.Verify != strings.TrimSpace(m.Verify) {
			t.Errorf("%q sets %+v", text, m)
		}
		for _, x := range findings {
			if x.Line < 1 || x.Line > strings.Count(markdown.EndLines(text), "\n")+1 || x.Message == "" {
				t.Errorf("%q: finding %+v", text, x)
			}
		}
	})
}
