package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// heard is a test that only remembers what was reported to it.
type heard struct {
	testing.TB
	said string
}

func (h *heard) Helper()                           {}
func (h *heard) Errorf(format string, args ...any) { h.said += fmt.Sprintf(format, args...) }
func (h *heard) Fatalf(format string, args ...any) { h.said += fmt.Sprintf(format, args...); panic(h) }

// report is what a check says.
func report(check func(testing.TB)) (said string) {
	h := &heard{}
	defer func() {
		if r := recover(); r != nil && r != any(h) {
			panic(r)
		}
		said = h.said
	}()
	check(h)
	return ""
}

// A stale page or block fails and names the command that renews it; -update changes it and nothing around it.
func TestStale(t *testing.T) {
	defer func(was bool) { *Update = was }(*Update)
	*Update = false
	t.Chdir(t.TempDir())
	if err := os.Mkdir("docs", 0o700); err != nil {
		t.Fatal(err)
	}
	const page = "# A page\n\n<!-- generated: table -->\nold\n<!-- end: table -->\n\nprose\n"
	for name, text := range map[string]string{"go.mod": "module x\n", "docs/a.md": page} {
		if err := os.WriteFile(filepath.FromSlash(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block := func(text string) func(testing.TB) { return func(t testing.TB) { Block(t, "docs/a.md", "table", text) } }
	if got := report(block("old\n")); got != "" {
		t.Errorf("a current block: %s", got)
	}
	for what, check := range map[string]func(testing.TB){
		"a stale block":  block("new\n"),
		"a missing page": func(t testing.TB) { Page(t, "docs/b.md", "text\n") },
	} {
		if got := report(check); !strings.Contains(got, "make docs") {
			t.Errorf("%s: got %q", what, got)
		}
	}
	if got := report(func(t testing.TB) { Block(t, "docs/a.md", "list", "") }); !strings.Contains(got,
		"<!-- generated: list -->") {
		t.Errorf("no such block: got %q", got)
	}
	*Update = true
	block("new\n")(t)
	want := strings.Replace(page, "old", "new", 1)
	if got, err := os.ReadFile("docs/a.md"); err != nil || string(got) != want {
		t.Errorf("updated: %v\n%s", err, got)
	}
}
