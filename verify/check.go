package verify

import (
	"fmt"
	"path"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
)

// When says at which point of a run a check runs.
type When string

// The points, in the order in which work passes them.
const (
	AtAttempt When = "attempt" // after each attempt
	AtWave    When = "wave"    // on the whole state, before a wave's commit
	AtEnd     When = "end"     // once, when nothing is left to do
)

// AtMerge is where checks run on what others committed, merged with the run's own: those of attempts do. It is no point of
// a check's own.
const AtMerge When = "merge"

// Whens are the points of a run.
func Whens() []When { return []When{AtAttempt, AtWave, AtEnd} }

// Check is a named command that decides about the work.
type Check struct {
	Name    string        `json:"name,omitempty"` // "" for the only one
	Run     string        `json:"run"`            // for sh -c
	Timeout time.Duration `json:"timeout,omitempty"`
	When    When          `json:"when,omitempty"`    // "" is AtAttempt
	Retry   int           `json:"retry,omitempty"`   // how often to run it again after a failure
	Results []string      `json:"results,omitempty"` // patterns of the files with its test results, below the project
}

// At reports whether a check runs at that point.
func (c *Check) At(when When) bool { return c.When == when || c.When == "" && when == AtAttempt }

// Title is the check's name for people.
func (c *Check) Title() string { return title(c.Name) }

// title is the name of a check for people.
func title(name string) string {
	if name == "" {
		return "verify"
	}
	return name
}

const (
	maxChecks  = 50
	maxRetries = 5
	maxResults = 20 // patterns per check
)

var checkName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$`)

// CheckAll rejects a list of named checks that cannot run as meant.
func CheckAll(list []Check) error {
	if len(list) == 0 {
		return fmt.Errorf("the list is empty: give a command, or none")
	}
	if len(list) > maxChecks {
		return fmt.Errorf("%d checks: at most %d are allowed", len(list), maxChecks)
	}
	seen, attempt := map[string]bool{}, false
	for i := range list {
		c := &list[i]
		switch {
		case c.Name == "":
			return fmt.Errorf("check %d has no name", i+1)
		case !checkName.MatchString(c.Name):
			return fmt.Errorf("check %q: a name is at most 40 letters, digits and - _ .", c.Name)
		case seen[strings.ToLower(c.Name)]:
			return fmt.Errorf("two checks are called %s", c.Name)
		case strings.TrimSpace(c.Run) == "":
			return fmt.Errorf("check %s: run, the command to run, is missing", c.Name)
		case c.Timeout < 0:
			return fmt.Errorf("check %s: timeout %s is negative", c.Name, c.Timeout)
		case c.Retry < 0 || c.Retry > maxRetries:
			return fmt.Errorf("check %s: retry %d: 0 to %d", c.Name, c.Retry, maxRetries)
		case len(c.Results) > maxResults:
			return fmt.Errorf("check %s: %d patterns in results, at most %d", c.Name, len(c.Results), maxResults)
		}
		if c.At(AtMerge) {
			return fmt.Errorf("check %s: when \"merge\" is gone: \"attempt\" checks each attempt as it is merged", c.Name)
		}
		if !c.At(AtAttempt) && !c.At(AtWave) && !c.At(AtEnd) {
			return fmt.Errorf("check %s: when %q is not one of attempt, wave, end", c.Name, c.When)
		}
		for _, p := range c.Results {
			if err := checkPattern(p); err != nil {
				return fmt.Errorf("check %s: results: %w", c.Name, err)
			}
		}
		seen[strings.ToLower(c.Name)] = true
		attempt = attempt || c.At(AtAttempt)
	}
	if !attempt {
		return fmt.Errorf("no check is run after an attempt: nothing would decide whether a task is done; give one of them when: attempt")
	}
	return nil
}

// checkPattern rejects a file pattern that leads out of the project.
func checkPattern(p string) error {
	clean := path.Clean(p)
	if p == "" || path.IsAbs(p) || clean == ".." || strings.HasPrefix(clean, "../") ||
		strings.ContainsAny(p, "\\\x00") {
		return fmt.Errorf("%q is not a path below the project", p)
	}
	if _, err := path.Match(p, ""); err != nil {
		return fmt.Errorf("%q is not a pattern like build/junit/*.xml", p)
	}
	return nil
}
