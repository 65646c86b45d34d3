package mode

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/loop"
	"descartes/loop/journal"
)

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestTestCommand(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":           {"# Notes\n\nBe kind.\n", ""},
		"label":             {"## Build\n`make`\n\n- **Tests**: `make check`\n", "make check"},
		"label, bare":       {"Test: go test ./...\n", "go test ./..."},
		"heading and fence": {"# Agents\n## Build\n```bash\nmake\n```\n## Running tests\n\nFirst set up.\n\n```bash\n# all of them\n$ npm test -- --ci\nnpm run lint\n```\n", "npm test -- --ci"},
		"heading, inline":   {"## Validation\nRun `pytest -q` after each change.\n", "pytest -q"},
		"sub-heading": {"## Testing\n### Unit\n```\nmake unit\n```\n## Other\n```\nmake other\n```\n",
			"make unit"},
		"on a line":      {"Always run the tests with `cargo test`.\n", "cargo test"},
		"a file is none": {"Tests are described in `docs/testing.md`; run `make t`.\n", "make t"},
		"other language": {"## Tests\n```go\nfunc TestX(t *testing.T) {}\n```\nRun `go test`.\n", "go test"},
		"not latest":     {"The latest version is `v1`.\n", ""},
		"open fence":     {"## Tests\n```\nmake test\n", "make test"},
	} {
		if got := TestCommand(tc.text); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, k := range []Kind{Plan, Build} {
		text, file, err := Text(root, k)
		if err != nil || file != "" {
			t.Fatalf("%s: %q, %v", k, file, err)
		}
		v := Variables{Mode: k, Iteration: 3, Max: 10, Task: "Add a parser", Spec: "specs/parser.md",
			PlanFile: "IMPLEMENTATION_PLAN.md", Specs: "specs/", Test: "make test", Promise: "COMPLETE"}
		if got := v.Expand(text); strings.Contains(got, "${") ||
			!strings.Contains(got, "\n<promise>COMPLETE</promise>\n") || !strings.Contains(got, "iteration 3 of 10") {
			t.Errorf("%s: not all variables are filled in:\n%s", k, got)
		}
	}
	put(t, root, "prompts/build.md", "mine")
	if text, file, err := Text(root, Build); text != "mine" || file != "prompts/build.md" || err != nil {
		t.Errorf("got %q from %q, %v", text, file, err)
	}
	put(t, root, "PROMPT_build.md", "\ufeffmine first")
	if text, file, err := Text(root, Build); text != "mine first" || file != "PROMPT_build.md" || err != nil {
		t.Errorf("got %q from %q, %v", text, file, err)
	}
	for name, text := range map[string]string{"empty": " \n", "binary": "a\x00b", "not UTF-8": "\xff",
		"huge": strings.Repeat("x", maxPrompt+1)} {
		put(t, root, "PROMPT_plan.md", text)
		if _, _, err := Text(root, Plan); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := os.Remove(filepath.Join(root, "PROMPT_plan.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "PROMPT_plan.md"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Text(root, Plan); err == nil {
		t.Error("a folder was taken for a prompt")
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	v := Variables{Mode: Build, Iteration: 2, Max: 5, Task: "${ITERATION} stays"}
	for text, want := range map[string]string{
		"":                               "",
		"${MODE} ${ITERATION}":           "build 2",
		"${TASK_DESCRIPTION}!":           "${ITERATION} stays!",
		"${UNKNOWN} ${ITERATION}":        "${UNKNOWN} 2",
		"${ITERATION":                    "${ITERATION",
		"$ITERATION {ITERATION} ${}":     "$ITERATION {ITERATION} ${}",
		"${${ITERATION}}":                "${2}",
		"${ASSOCIATED_SPEC}, ${RETRY}":   "none is named, 0",
		"max ${MAX_ITERATIONS}${MODE}\n": "max 5build\n",
	} {
		if got := v.Expand(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestProject(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := Open(root)
	if plan, err := p.ReadPlan(); plan != nil || err != nil || p.Plan != "IMPLEMENTATION_PLAN.md" {
		t.Errorf("without a plan: %v, %v, %q", plan, err, p.Plan)
	}
	put(t, root, "implementation_plan.md", "- [x] one\n- [ ] Write the parser (specs/parser.md)\n")
	put(t, root, "specs/parser.md", "x")
	put(t, root, "specs/sub/rate-limits.md", "x")
	put(t, root, "specs/picture.png", "x")
	p = Open(root)
	plan, err := p.ReadPlan()
	if err != nil || len(plan.Open()) != 1 || p.Plan != "implementation_plan.md" {
		t.Errorf("got %v, %v, %q", plan, err, p.Plan)
	}
	specs := p.Specs()
	if strings.Join(specs, " ") != "specs/parser.md specs/sub/rate-limits.md" {
		t.Errorf("specs: %q", specs)
	}
	for item, want := range map[string]string{
		"Write it as specs/parser.md says": "specs/parser.md", "Add API rate limits (P1)": "specs/sub/rate-limits.md",
		"Something else": "",
	} {
		if got := SpecOf(item, specs); got != want {
			t.Errorf("%q: got %q, want %q", item, got, want)
		}
	}
	if got := (Project{Root: t.TempDir()}).Specs(); got != nil {
		t.Errorf("without specs: %q", got)
	}
}

// plainly shows what an agent prints as it is.
type plainly struct{ io.Writer }

func (plainly) Close()                         {}
func (plainly) Told() (messages, requests int) { return 0, 0 }

func TestSession(t *testing.T) {
	t.Parallel()
	dir, at, usd := t.TempDir(), time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), 0.1
	if err := os.WriteFile(filepath.Join(dir, "agent.log"), []byte("output\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var people strings.Builder
	m := Session{Root: dir, Kind: Build, Task: "a\nTask: forged", Show: func(w io.Writer) Shown { return plainly{w} },
		People: &people, Began: time.Now()}
	for _, e := range []journal.Event{
		{Type: journal.LoopStarted, Loop: "x"},
		{Type: journal.IterationStarted, Unit: journal.Unit{Iteration: 1}, TS: at,
			Detail: &journal.Detail{Client: journal.Client{Log: "agent.log"}}},
		{Type: journal.AgentFinished, Detail: &journal.Detail{Client: journal.Client{Model: "m"},
			Spent: journal.Spent{USD: &usd}}},
		{Type: journal.IterationFinished, Unit: journal.Unit{Iteration: 1, Attempt: 3}, TS: at.Add(61 * time.Second)},
	} {
		m.Observe(e)
	}
	path, err := m.Close(loop.Outcome{Message: "done"}, 0)
	if err != nil || filepath.Base(path) != SessionName(m.Began) || people.String() != "output\n" {
		t.Errorf("%q, %q, %v", path, people.String(), err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/session.log")
	if err != nil || string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := SessionName(at); got != "session-20261121-010203.log" {
		t.Errorf("name: %q", got)
	}
}

func FuzzTestCommand(f *testing.F) {
	f.Add("## Tests\n```\nmake\n```\n")
	f.Add("test: `a`")
	f.Fuzz(func(t *testing.T, text string) {
		if got := TestCommand(text); strings.ContainsAny(got, "\n") {
			t.Errorf("got %q", got)
		}
	})
}
