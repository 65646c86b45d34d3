package prose

import (
	"fmt"
	"strings"
	"testing"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"Depends on: Task 3 and T004":  "[{3 false true } {T004 false true }]",
		"A (depends on 1, 2)":          "[{1 false false } {2 false false }]",
		"Blocked by: T001-T003":        "[{T001 false true T001-T003} {T002 false true T001-T003} {T003 false true T001-T003}]",
		"Depends on: Phases 1 & 2":     "[{1 true true } {2 true true }]",
		"Dependencies: none":           "none",
		"It blocks 3 other tasks":      "",
		"an independent clause":        "",
		"Depends on the weather today": "",
	} {
		got := ""
		for _, s := range Statements(line) {
			if refs, rest := Refs(s.Text); IsList(refs, rest) {
				got += fmt.Sprint(refs)
			} else if SaysNone(s.Text) {
				got += "none"
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

func TestAlone(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"Depends on: Task 3 and T004": true, "**Depends on:** 1.": true, "- Dependencies: none": true,
		"Blocked by: T001-T003": true, "Depends on: Phases 1 & 2": true,
		"Depends on: 1, because of the schema": false, "It depends on 1": false, "Depends on the weather": false,
		"Do it (depends on 1)": false, "Dependencies: none, but see the notes": false, "": false,
	} {
		if list := Statements(line); len(list) > 0 && list[0].Alone != want || want && len(list) == 0 {
			t.Errorf("%q: got %+v, want %v", line, list, want)
		}
	}
}

func TestLeadingID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"T001 Title": "T001", "2.1 Title": "2.1", "Task 3: Title": "3",
		"1st title": "", "Title": "", "AUTH-3 Log in": "AUTH-3"} {
		if got, _ := LeadingID(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// written is a text whose lines have no marks.
type written []string

func (w written) Line(n int) string  { return w[n] }
func (w written) Words(n int) string { return strings.TrimSpace(w[n]) }
func (w written) Fenced(n int) bool {
	return strings.HasPrefix(w.Words(n), "```") || strings.Count(strings.Join(w[:n], "\n"), "```")%2 == 1
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Verify: `make test`": "make test", "- **Verify:** go test ./a ": "go test ./a",
		"  * verify: `a | b`": "a | b", "Verify that it works": "", "Verify:": "", "We verify: `x`": "",
		"Verify: a\n\nVerify: `b; c` and `d`":               "(a\n) && (b; c\n) && (d\n)",
		"Verify:\n\n  ```sh\n  a\n  b\n  ```\nVerify: no\n": "(set -e\na\nb\n) && (no\n)", "```\nVerify: no\n```": "",
		"Verify:\n```\nnever ended": "", "Verify:\nprose": "",
	} {
		lines := written(strings.Split(text, "\n"))
		if got := Verify(lines, 0, len(lines)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
