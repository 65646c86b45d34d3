package markdown

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func spans(src string) []Span {
	lines := strings.Split(src, "\n")
	var fences []fence
	for n, line := range lines {
		if f, ok := readFence(n, line); ok {
			fences = append(fences, f)
		}
	}
	return pairFences(fences, len(lines), func(n int) string { return lines[n] })
}

func TestFences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src  string
		want []Span
	}{
		"none":                 {"a\n``\n", nil},
		"one":                  {"a\n```go\n# x\n```\nb", []Span{{1, 3}}},
		"tildes":               {"~~~\n```\n~~~\nb", []Span{{0, 2}}},
		"in a list":            {"1. x\n   ```sh\n# b\n   ```", []Span{{1, 3}}},
		"in a quote":           {"> ```\n> # b\n> ```", []Span{{0, 2}}},
		"longer outside":       {"````md\n```\n# c\n````\nb", []Span{{0, 3}}},
		"nested":               {"```markdown\n# b\n```go\n# c\n```\n# d\n```\nb", []Span{{0, 6}}},
		"forgotten":            {"```go\nx\n\n## B\n\ntext", []Span{{0, 2}}},
		"one of two forgotten": {"```go\nx\n\n## B\n\n```go\ny\n```\nb", []Span{{0, 2}, {5, 7}}},
		"never closed":         {"a\n```go\nx", []Span{{1, 2}}},
		"ticks in a line":      {"```x``` y\nb", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := spans(c.src); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// FuzzFences: spans are in order, do not overlap and lie within the text.
func FuzzFences(f *testing.F) {
	f.Add("a\n```go\n# x\n```\nb")
	f.Add("```md\n```\n~~~\n\n```x\ny\n```\n## B")
	f.Fuzz(func(t *testing.T, src string) {
		last := -1
		for _, s := range spans(src) {
			if s.First <= last || s.Last < s.First || s.Last > strings.Count(src, "\n") {
				t.Fatal(fmt.Sprint(s, last))
			}
			last = s.Last
		}
	})
}
