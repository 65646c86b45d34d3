package prose

import (
	"fmt"
	"testing"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"Depends on: Task 3 and T004":  "[{3 false true} {T004 false true}]",
		"A (depends on 1, 2)":          "[{1 false false} {2 false false}]",
		"Blocked by: T001-T003":        "[{T001 false true} {T002 false true} {T003 false true}]",
		"Depends on: Phases 1 & 2":     "[{1 true true} {2 true true}]",
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
		"Depends on: Task 3 and T004": true, "**Depends on:** 1.": true, "- Dependencies: none": true, "Blocked by: T001-T003": true, "Depends on: Phases 1 & 2": true,
		"Depends on: 1, because of the schema": false, "It depends on 1": false, "Depends on the weather": false, "Do it (depends on 1)": false, "Dependencies: none, but see the notes": false, "": false,
	} {
		if list := Statements(line); len(list) > 0 && list[0].Alone != want || want && len(list) == 0 {
			t.Errorf("%q: got %+v, want %v", line, list, want)
		}
	}
}

func TestLeadingID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"T001 Title": "T001", "2.1 Title": "2.1", "Task 3: Title": "3", "1st title": "", "Title": "", "AUTH-3 Log in": "AUTH-3"} {
		if got, _ := LeadingID(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"Verify: `make test`": "make test", "- **Verify:** go test ./a ": "go test ./a", "  * verify: `a | b`": "a | b", "Verify that it works": "", "Verify:": "", "We verify: `x`": "",
	} {
		if got := Verify(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}
