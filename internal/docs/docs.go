// Package docs keeps the generated parts of the documentation current. The package that owns a fact makes the text in
// its test TestDocs; make docs runs those with -update, which writes what they made.
package docs

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Update is the flag -update of the tests that import this package: golden text and documentation are written, not
// compared.
var Update = flag.Bool("update", false, "write golden text and generated documentation")

// Root is the top of the repository, as a path from the folder of the running test.
func Root(t testing.TB) string {
	t.Helper()
	for dir := "."; len(dir) < 100; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above this test")
	return ""
}

// Page checks that a file, named from the top of the repository, is exactly that text.
func Page(t testing.TB, name, text string) {
	t.Helper()
	file := filepath.Join(Root(t), filepath.FromSlash(name))
	got, err := os.ReadFile(file)
	switch {
	case err == nil && string(got) == text:
	case *Update:
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Errorf("%v; to write it: make docs", err)
	default:
		t.Errorf("%s is not current; to renew it: make docs", name)
	}
}

// Block checks that a part of a file is that text. It stands between <!-- generated: BLOCK --> and <!-- end: BLOCK
// -->. All blocks of a file belong to the tests of one package: those of several run at the same time.
func Block(t testing.TB, name, block, text string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(Root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- generated: "+block+" -->\n", "<!-- end: "+block+" -->"
	before, rest, begun := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for %s: it needs the lines %s and %s", name, block, strings.TrimSpace(begin), end)
	}
	Page(t, name, before+begin+text+end+after)
}
