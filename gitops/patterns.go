package gitops

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// Patterns are the lines of a .gitignore, in order.
type Patterns []gitignore.Pattern

// NewPatterns parses lines.
func NewPatterns(lines []string) (p Patterns) {
	for _, line := range lines {
		if line = strings.TrimRight(line, " \t\r"); line != "" && line[0] != '#' {
			p = append(p, gitignore.ParsePattern(line, nil))
		}
	}
	return p
}

// Match says whether a file is meant, itself or by a folder that it is in, or excepted by a line with "!". The last
// line that fits decides.
func (p Patterns) Match(path string) (meant, excepted bool) {
	parts := strings.Split(path, "/")
	for i := range parts {
		for at := len(p) - 1; at >= 0; at-- {
			r := p[at].Match(parts[:i+1], i < len(parts)-1)
			if r == gitignore.NoMatch {
				continue
			}
			meant, excepted = r == gitignore.Exclude, r == gitignore.Include
			break
		}
	}
	return meant, excepted
}
