package trunk

import (
	"fmt"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
)

// Clash says where work and the tip do not merge.
type Clash struct {
	Conflicts []gitops.Conflict
	After     []string // units merged since the work's attempt started
}

// Reason says it in one line.
func (c *Clash) Reason() string {
	with := "the work merged meanwhile"
	if len(c.After) > 0 {
		with = "the work of " + oneline.List(c.After)
	}
	return "merge conflict with " + with + ": " + c.Where()
}

// Where lists the conflicts in one line.
func (c *Clash) Where() string {
	list := make([]string, len(c.Conflicts))
	for i, one := range c.Conflicts {
		list[i] = one.String()
	}
	return oneline.List(list)
}

// Detail is what the next attempt learns, a conflict a line.
func (c *Clash) Detail() string {
	var b strings.Builder
	for _, one := range c.Conflicts {
		fmt.Fprintf(&b, "%s (%s)", one.Path, one.Kind)
		if one.Why != "" {
			b.WriteString(": " + one.Why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Paths are those at which the two conflict.
func (c *Clash) Paths() (paths []string) {
	for _, one := range c.Conflicts {
		paths = append(paths, one.Path)
	}
	return paths
}
