package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Names of what a template may contain.
type Names struct {
	Iteration, Wave int
	Tag             string // for a loop without a tag, its id
	At              time.Time
}

// Expand fills in {iteration}, {timestamp}, {tag} and {wave}; anything else in braces stays.
func (n Names) Expand(template string) string {
	return strings.NewReplacer("{iteration}", fmt.Sprint(n.Iteration), "{timestamp}",
		n.At.UTC().Format("20060102-150405"),
		"{tag}", n.Tag, "{wave}", fmt.Sprint(n.Wave)).Replace(template)
}

// CheckTemplate returns an error that names what a template has in braces and Expand does not know.
func CheckTemplate(template string) error {
	for _, name := range regexp.MustCompile(`\{[A-Za-z_]+\}`).FindAllString(template, -1) {
		if !slices.Contains([]string{"{iteration}", "{timestamp}", "{tag}", "{wave}"}, name) {
			return fmt.Errorf("%q: unknown placeholder %s", template, name)
		}
	}
	return nil
}

// Default templates of commit messages and branches.
const (
	DefaultCommitTemplate = "loop: iteration {iteration}"
	DefaultBranchTemplate = "loop/{timestamp}"
)
