package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestIgnoreLines puts lines that are easily misread before git and before us. The random comparison is in
// ignore_fuzz_test.go.
func TestIgnoreLines(t *testing.T) {
	t.Parallel()
	lines := []string{"foo", "foo ", `foo\ `, `foo\\ `, "foo\t", "foo\r", "#foo", `\#foo`, "!foo", `\!foo`, "/foo", "foo/", "/foo/", "//foo", "foo//",
		"*", "**", "***", "*foo", "foo*", "f*o", "f**o", "**/foo", "foo/**", "a/**/foo", "a/*/foo", "**foo", "a**/foo", "/**/foo", "/*", "!*", "a/", "a/b",
		"[fg]oo", "[!f]oo", "[^g]oo", "[a-z]oo", "[z-a]oo", "[]f]oo", "[f", "[[:alpha:]]oo", "[[:nope:]]oo", "[[:]oo", `[\f]oo`, `fo\o`, `foo\`, "?oo", "f?o", "a?foo",
		"[a-]oo", "[-f]oo", "FOO", "föö", "f\xffo", " foo", "foo bar", "a/[^/]oo", "a[/]foo", `a\/foo`, "**/", "/", "a/**", "**/a/**", "*.*", ".*"}
	paths := []string{"foo", "foo ", "foo\t", "a/foo", "a/b/foo", "b/a/foo", "#foo", "!foo", "fo", "fooo", "f/o", "foo bar", " foo", `foo\`, "goo", "-oo", "]oo", "[f",
		"föö", "f\xffo", "FOO", "dir/foo/in", "a/b", "a/b/c/foo", ".foo", "x.y", "a/f oo"}
	s := newSandbox(t)
	s.sh("git init -q .")
	for i, line := range lines {
		dir := fmt.Sprintf("t%02d/", i)
		for _, p := range paths {
			if parent := filepath.Dir(s.path(dir + p)); os.MkdirAll(parent, 0o777) == nil {
				_ = os.WriteFile(s.path(dir+p), nil, 0o666) // "fo" and "f/o" are both there, "foo" and "foo/in" are not
			}
		}
		s.put(dir+".gitignore", line+"\n")
	}
	got, want := snap(t, s.reopen()), s.gitTree()
	if string(got) == want {
		return
	}
	for line := range strings.Lines(s.git("diff-tree", "-r", "--name-status", want, string(got))) {
		var op string
		var n int
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, "\"", ""), "%s\tt%d/", &op, &n); err != nil {
			t.Error(line, err)
			continue
		}
		t.Errorf("%q: %s", lines[n], line)
	}
}

func TestHostilePatternEnds(t *testing.T) {
	t.Parallel()
	began := time.Now()
	wildmatch(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 4000), false)
	wildmatch(strings.Repeat("**/a", 100)+"b", strings.Repeat("a/", 2000), true)
	wildmatch(strings.Repeat("[", 1000), strings.Repeat("[", 1000), true)
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

// Patterns mean files as those of a .gitignore do, and the last one that speaks of a file counts.
func TestPatterns(t *testing.T) {
	t.Parallel()
	p := NewPatterns([]string{"*.sql", "schema/", "/top.txt", "docs/**/api.md", "!schema/free", "!x.sql"})
	for path, want := range map[string]string{"a.sql": "meant", "b/c.sql": "meant", "schema/a": "meant", "x/schema/b/c": "meant", "top.txt": "meant", "b/top.txt": "", "docs/a/b/api.md": "meant", "docs/api.md": "meant",
		"schema/free": "excepted", "x.sql": "excepted", "schema": "", "other": ""} {
		got := ""
		if meant, excepted := p.Match(path); meant {
			got = "meant"
		} else if excepted {
			got = "excepted"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if meant, excepted := NewPatterns(nil).Match("a"); meant || excepted {
		t.Error("no patterns speak of a file")
	}
}
