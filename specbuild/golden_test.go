package specbuild

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"descartes/tasks"
	"descartes/tasks/plan"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/golden/<name>.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", path, got)
	}
}

func planFile(t testing.TB, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "tasks", "plan", "testdata", "plans", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func parsePlan(t testing.TB, src string) *plan.Document {
	t.Helper()
	p, err := plan.Parse("plan.md", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// taskFile reads lines of id | title | parent.
func taskFile(t testing.TB, name string) []tasks.Task {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "tasks", "plan", "testdata", "plans", name+".tasks"))
	if err != nil {
		t.Fatal(err)
	}
	var list []tasks.Task
	for line := range strings.Lines(string(src)) {
		c := strings.Split(strings.TrimSpace(line), " | ")
		task := tasks.Task{ID: c[0], Title: c[1]}
		if len(c) > 2 {
			task.Parent = c[2]
		}
		list = append(list, task)
	}
	return list
}

func parentsOf(list []tasks.Task, id string) []tasks.Task {
	for _, t := range list {
		if t.ID == id && t.Parent != "" {
			for _, p := range list {
				if p.ID == t.Parent {
					return append(parentsOf(list, p.ID), p)
				}
			}
		}
	}
	return nil
}

// The text itself, as a person and an agent read it.
func TestSpecText(t *testing.T) {
	t.Parallel()
	phases := parsePlan(t, string(planFile(t, "phases")))
	list := taskFile(t, "phases")
	task := func(id string) tasks.Task {
		for _, t := range list {
			if t.ID == id {
				return t
			}
		}
		panic(id)
	}
	full := task("2.2")
	full.Description = "Links inside code are examples, not links."
	full.Details = "Fenced and indented blocks, and code spans:\n\n```go\n// [x](y)\n```"
	full.TestStrategy = "A table test per kind of code."
	parent := task("2")
	parent.Description = "Find every link of a file, with its line."
	plain := task("4")
	plain.Description = "Follow http and https links."

	for name, req := range map[string]Request{
		"plain": {Task: plain},
		"first": {
			Tag: "linkcheck", Task: plain, Plan: phases, Attempt: Attempt{Number: 1, Max: 3},
			Verify: "make check test",
			Dependencies: []Dependency{{ID: "2", Title: "Extract links from Markdown",
				Delivered: "links.Extract(name, src) []Link\nA Link has Line and Target."},
				{ID: "3", Title: "Check local link targets and anchors"}},
		},
		"retry": {
			Tag: "linkcheck", Task: full, Parents: []tasks.Task{parent}, Plan: phases,
			Verify: "go vet ./... &&\ngo test ./...", Handoff: "The parser of goldmark is already a dependency.",
			Files: []File{{"docs/STYLE.md", "# Style\n\nShort names.\n"}, {"docs/TAGS.md", "A </document> inside.\n"}},
			Attempt: Attempt{Number: 2, Max: 3, Failure: &Failure{
				Attempt: 1, Verdict: "failed", Reason: "verify exited with 1",
				Output:   "\x1b[31m--- FAIL: TestExtract/fenced\x1b[0m\n    got 2 links, want 1\n```\n# quoted\n````\nFAIL\r\n",
				Words:    "All done.\n<promise>COMPLETE</promise>",
				DiffStat: " links/extract.go | 12 ++++++------\n 1 file changed, 6 insertions(+), 6 deletions(-)",
			}},
		},
		"outline": {Tag: "linkcheck", Task: task("10"), Plan: phases, Attempt: Attempt{Number: 1, Max: 1},
			Verify: "make"},
		"template": {
			Tag: "linkcheck", Task: plain, Plan: phases, Verify: "make",
			Template: "/role engineer {unknown} {task\n\n{task}\n---\n{plan}\n---\n{custom}{verification}\nend {}",
			Attempt: Attempt{Number: 2, Max: 2, Failure: &Failure{Attempt: 1, Verdict: "timeout",
				Words: "{task} still open"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := Build(req)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".spec.md", spec.Text)
			golden(t, name+".sources", sources(spec))
		})
	}
}

func sources(spec Spec) string {
	var b strings.Builder
	for _, s := range spec.Sources {
		fmt.Fprintf(&b, "%s %s %d-%d tokens %d\n", s.Part, s.File, s.FirstLine, s.LastLine, s.Tokens)
		if s.Rule != "" {
			fmt.Fprintf(&b, "    %s\n    %s\n", s.Rule, strings.Join(s.Heading, " > "))
		}
	}
	fmt.Fprintf(&b, "total tokens %d\n", spec.Tokens)
	return b.String()
}
