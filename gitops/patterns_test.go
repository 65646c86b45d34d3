package gitops

import "testing"

func TestPatterns(t *testing.T) {
	t.Parallel()
	p := NewPatterns([]string{"*.sql", "schema/", "/top.txt", "docs/**/api.md", "!schema/free", "!x.sql"})
	for path, want := range map[string]string{"a.sql": "meant", "b/c.sql": "meant", "schema/a": "meant",
		"x/schema/b/c": "meant", "top.txt": "meant", "b/top.txt": "", "docs/a/b/api.md": "meant",
		"docs/api.md": "meant",
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
