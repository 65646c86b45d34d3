package scheduler

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMeet(t *testing.T) {
	t.Parallel()
	tests := []struct{ a, b, want string }{
		{"a/b.go", "a/b.go", "a/b.go"},
		{"a/b.go", "a/c.go", ""},
		{"a", "a/c.go", "a/c.go"},
		{"a/", "x/a/c.go", ""},
		{"c.go", "x/a/c.go", "x/a/c.go"},
		{"./a", "x/a/c.go", ""},
		{"a/*.go", "a/b.go", "a/*.go"},
		{"a/*.go", "a/b.ts", ""},
		{"a/b*", "a/*c.go", "a/*c.go"},
		{"a/b*x", "a/c*", "a/b*x"}, // two wildcards are not compared
		{"a/**/z.go", "a/b/c/z.go", "a/b/c/z.go"},
		{"**/z.go", "a/*/q", "**/z.go"},
		{"**/z.go", "a/*/q.go", ""},
		{"a.go", "b.go", ""},
		{"docs", "cmd", ""},
		{"*.md", "docs/guide.md", "docs/guide.md"},
		{"[ab].go", "b.go", "[ab].go"},
		{"?.go", "bb.go", ""},
		{"ä?.go", "äö.go", "äö.go"},
		{"..", "a", ""},
		{" ", "a", ""},
		{strings.Repeat("*a", 60), strings.Repeat("a*", 60), strings.Repeat("*a", 60)},
	}
	for _, tt := range tests {
		a, b := []string{tt.a}, []string{tt.b}
		if got := strings.Join(meeting(a, b), " "); got != tt.want {
			t.Errorf("%s and %s meet at %q, want %q", tt.a, tt.b, got, tt.want)
		}
		if one, other := len(meeting(a, b)), len(meeting(b, a)); one != other {
			t.Errorf("%s and %s meet %d times, the other way round %d times", tt.a, tt.b, one, other)
		}
	}
}

// Two patterns meet where a name matches both.
func TestMeetFollowsMatches(t *testing.T) {
	t.Parallel()
	pattern := rapid.StringMatching(`[ab*?]{1,5}(/[ab*?]{1,4})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := "x/"+pattern.Draw(t, "a"), "x/"+pattern.Draw(t, "b")
		name := "x/" + rapid.StringMatching(`[ab]{1,4}(/[ab]{1,3})?`).Draw(t, "name")
		one, _ := path.Match(a, name)
		two, _ := path.Match(b, name)
		if one && two && !slices.Contains([]string{a, b}, strings.Join(meeting([]string{a}, []string{b}), "")) {
			t.Fatalf("%s matches %s and %s, which do not meet", name, a, b)
		}
	})
}

func FuzzScope(f *testing.F) {
	f.Add("c/**", "x [a")
	f.Fuzz(func(t *testing.T, one, other string) {
		x, y := []string{one}, []string{other}
		if got, back := len(meeting(x, y)) > 0, len(meeting(y, x)) > 0; got != back {
			t.Errorf("meet %v, the other way round %v", got, back)
		}
	})
}
