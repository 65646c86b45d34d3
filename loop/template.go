package loop

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// IterationContext tells the agent of a later iteration where it stands. Without a promise it says nothing of
// one.
func IterationContext(iteration, most int, promise string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nITERATION CONTEXT:\n- This is iteration %d of %d\n", iteration, most)
	b.WriteString("- Your previous work persists in files and git history\n- Review what you've done and continue improving\n")
	if promise != "" {
		fmt.Fprintf(&b, "- Output <promise>%s</promise> when the task is completely finished\n", promise)
	}
	b.WriteString("---\n")
	return b.String()
}

// MostBeside is the most bytes that the prompt of an iteration has beside the settings' own: where it stands,
// and how the verification failed. What a gate has to tell is not bounded.
func MostBeside(c Config) int {
	n := 2
	if c.IterationContext {
		n += len(IterationContext(c.MaxIterations, c.MaxIterations, c.CompletionPromise)) + 2
	}
	if c.VerificationCommand != "" && c.VerificationCommand != NoVerify {
		n += len(c.VerificationCommand) + maxWords + 256
	}
	if sandboxed(&c) {
		n += maxDenied*(maxDeniedLine+4) + 128
	}
	return n
}

// Names of what a template may hold.
type Names struct {
	Iteration, Wave int
	Tag             string // of a loop without one its id
	At              time.Time
}

// Expand fills in {iteration}, {timestamp}, {tag} and {wave}; anything else in braces stays as it is.
func (n Names) Expand(template string) string {
	return strings.NewReplacer("{iteration}", fmt.Sprint(n.Iteration), "{timestamp}", n.At.UTC().Format("20060102-150405"),
		"{tag}", n.Tag, "{wave}", fmt.Sprint(n.Wave)).Replace(template)
}

// CheckTemplate is an error that names what a template has in braces and Expand does not know.
func CheckTemplate(template string) error {
	for _, name := range regexp.MustCompile(`\{[A-Za-z_]+\}`).FindAllString(template, -1) {
		if !slices.Contains([]string{"{iteration}", "{timestamp}", "{tag}", "{wave}"}, name) {
			return fmt.Errorf("%q: there is no %s", template, name)
		}
	}
	return nil
}

// Templates of commit messages and branches where the settings have none.
const (
	DefaultCommitTemplate = "loop: iteration {iteration}"
	DefaultBranchTemplate = "loop/{timestamp}"
)
