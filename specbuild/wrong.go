package specbuild

import (
	"fmt"
	"strings"

	"descartes/tasks"
)

// Wrong is a request for patches that the tests of some work have to reject.
type Wrong struct {
	Task  *tasks.Task // nil: an iteration of a prompt, which is Text
	Text  string
	Diff  string   // of the work
	Tests []string // its test files
	N     int
}

// wrongDiff bounds the diff that is shown, in bytes: the rest can be read in the tree.
const wrongDiff = 64 << 10

// WrongPrompt is the text for an agent that writes wrong solutions, and one that the task permits.
func WrongPrompt(r Wrong) string {
	w := &writer{}
	fmt.Fprintf(w, `# Write %d wrong solutions, and a right one

A task was done, and tests were written for it. Find out how strong these tests are. You may read the files in the current directory and run
commands that change nothing. Change no file: whatever you change is put back.

Write %[1]d patches that a careless colleague could have written: each does the task plausibly but wrongly, and each in a different way. It builds, and does
something that the task forbids or leaves out something that it demands: a boundary, an error, an empty input, an order, a case that the
task names. Then write one patch that does the task correctly, in another way that the task permits.

Each is a unified diff against the files here, in the format that git apply reads, with paths from the top of the repository. None touches a test.

Answer with one JSON object and nothing after it:

{"wrong": [{"title": "what is wrong, in one line", "diff": "--- a/file\n+++ b/file\n@@ ..."}], "permitted": {"title": "...", "diff": "..."}}
`, r.N)
	w.WriteString("\n## The task\n\n")
	text := clean(r.Text)
	if t := r.Task; t != nil {
		text = strings.Join([]string{taskName(*t), clean(t.Description), clean(t.Details), clean(t.TestStrategy), clean(t.Acceptance)}, "\n\n")
	}
	enclose(w, "task", "", strings.TrimSpace(text))
	w.WriteString("\n## What was done\n\n")
	enclose(w, "diff", "", head(clean(r.Diff), wrongDiff))
	quoted(w, "Its test files:", clean(strings.Join(r.Tests, "\n")))
	return w.String()
}
