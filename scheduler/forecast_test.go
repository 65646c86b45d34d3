package scheduler

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPathsIn(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"Change internal/proc/shim.go and docs/, then ./x.", "internal/proc/shim.go docs/ ./x"},
		{"In `internal/proc` and `main.go`, see `README.md`:12.", "internal/proc main.go README.md"},
		{"`cmd/a.go:12:3`, cmd/b.go:7, (cmd/c.go)", "cmd/a.go cmd/b.go cmd/c.go"},
		{"read/write and/or TCP/IP, e.g. Node.js, main.go, 1.2.3", ""},
		{"https://example.com/a/b.html github.com/a/b.go //x/y.js", ""},
		{"GET /api/users.json, ~/.bashrc, ../other/a.go, $HOME", ""},
		{"go test ./... && go test ./tasks/...", "./tasks"},
		{"`go vet ./x/` and `fmt.Println`", "./x/"},
		{"src/**/*.ts, `*.css` and `pkg/[ab]*.go`", "src/**/*.ts *.css pkg/[ab]*.go"},
		{"[the guide](docs/guide.md) twice: docs/guide.md", "docs/guide.md"},
	}
	for _, tt := range tests {
		if got := strings.Join(pathsIn(tt.text), " "); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

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
		{"a/b*x", "a/c*", ""},
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
		f := NewForecast([]Footprint{{Task: "1", Scope: []string{tt.a}}, {Task: "2", Scope: []string{tt.b}}})
		if got := strings.Join(f.Meet("1", "2"), " "); got != tt.want {
			t.Errorf("%s and %s meet at %q, want %q", tt.a, tt.b, got, tt.want)
		}
		if one, other := len(f.Meet("1", "2")), len(f.Meet("2", "1")); one != other {
			t.Errorf("%s and %s meet %d times, the other way round %d times", tt.a, tt.b, one, other)
		}
	}
	var none *Forecast
	if none.Meet("1", "2") != nil {
		t.Error("no forecast sees tasks meet")
	}
	f := NewForecast([]Footprint{{Task: "1", Scope: []string{"x"}, Text: "a/b.go"}, {Task: "2", Text: "a/b.go"}})
	if got := f.Meet("1", "2"); got != nil {
		t.Errorf("a scope does not keep the text out: %v", got)
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
		f := NewForecast([]Footprint{{Task: "1", Scope: []string{a}}, {Task: "2", Scope: []string{b}}})
		if one && two && !slices.Contains([]string{a, b}, strings.Join(f.Meet("1", "2"), "")) {
			t.Fatalf("%s matches %s and %s, which do not meet", name, a, b)
		}
	})
}

func FuzzForecast(f *testing.F) {
	f.Add("edit `a/b.go` and c/**", "x [a")
	f.Fuzz(func(t *testing.T, text, scope string) {
		forecast := NewForecast([]Footprint{{Task: "1", Text: text}, {Task: "2", Scope: []string{scope}}})
		if got, back := len(forecast.Meet("1", "2")) > 0, len(forecast.Meet("2", "1")) > 0; got != back {
			t.Errorf("meet %v, the other way round %v", got, back)
		}
	})
}
