package specbuild

import (
	"strings"
	"testing"

	"descartes/tasks"
)

// What is said of the project keeps to the budget, the most important first; the document is always whole.
func TestBreakdownBudget(t *testing.T) {
	t.Parallel()
	b := Breakdown{Name: "PRD.md", Document: strings.Repeat("Build it well. ", 1000), First: 1, Most: 5,
		Readme: strings.Repeat("readme ", 500), Files: []string{"go.mod"}, Verify: "make test"}
	for i := range 200 {
		b.Standing = append(b.Standing, tasks.Task{ID: strings.Repeat("1", 1+i%3), Title: "A task with a title",
			Status: tasks.Pending})
	}
	bare := b
	bare.Standing, bare.Readme, bare.Files, bare.Verify = nil, "", nil, ""
	least := Tokens(BreakdownPrompt(bare))
	for _, budget := range []int{100, 1000, 3000} {
		b.Tokens = budget
		text := BreakdownPrompt(b)
		if n := Tokens(text) - least; n > budget+100 { // headings and tags are not counted
			t.Errorf("%d tokens about the project, at most %d are wanted", n, budget)
		}
		if !strings.Contains(text, strings.TrimSpace(b.Document)) || !strings.Contains(text, "[pending] A task") {
			t.Errorf("with %d tokens something is missing", budget)
		}
		if has := strings.Contains(text, "<readme>"); has != (budget == 3000) {
			t.Errorf("with %d tokens the README is there: %v", budget, has)
		}
	}
}

func TestCheckDocument(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{" \n": "is empty: write down what is to be built",
		"\xff\xfea\x00": "is UTF-16 text", "a\x00": "is not text: NUL byte in line 1",
		"\n\xe9": "is not UTF-8 text: invalid byte in line 2", "Build it.": ""} {
		if err := CheckDocument([]byte(text)); want == "" && err != nil || want != "" &&
			(err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
