package trunk

import (
	"fmt"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/verify"
)

// Fate says what happened to a candidate: it was accepted, it conflicts, or verification fails with it. In the last
// two cases the chain is as before.
type Fate struct {
	Unit      string
	Conflicts []gitops.Conflict
	Failure   *verify.Result // of the state with it on top
	Beside    string         // why it fails in a check slot and passed elsewhere, or ""
	After     []string       // units integrated since its attempt started
}

// Accepted reports whether the candidate is now part of the state.
func (f *Fate) Accepted() bool { return len(f.Conflicts) == 0 && f.Failure == nil }

// Reason says in one line why a candidate was rejected.
func (f *Fate) Reason() string {
	with, when := "the work merged meanwhile", ""
	if len(f.After) > 0 {
		with, when = "the work of "+oneline.List(f.After), ", merged meanwhile"
	}
	switch {
	case f.Accepted():
		return ""
	case len(f.Conflicts) > 0:
		list := make([]string, len(f.Conflicts))
		for i, c := range f.Conflicts {
			list[i] = c.String()
		}
		return "merge conflict with " + with + ": " + oneline.List(list)
	case f.Beside != "":
		return f.Beside
	case len(f.After) == 0: // a check that no attempt runs alone
		return f.Failure.Reason()
	}
	return "verification fails on its changes together with " + with + when
}

// Detail is what the next attempt learns: where the two conflict, or how the verification failed.
func (f *Fate) Detail() string {
	var b strings.Builder
	for _, c := range f.Conflicts {
		fmt.Fprintf(&b, "%s (%s)", c.Path, c.Kind)
		if c.Why != "" {
			b.WriteString(": " + c.Why)
		}
		b.WriteByte('\n')
	}
	if f.Failure != nil {
		b.WriteString(f.Failure.Tail)
	}
	return b.String()
}

// Paths are those at which the candidate conflicts.
func (f *Fate) Paths() (paths []string) {
	for _, c := range f.Conflicts {
		paths = append(paths, c.Path)
	}
	return paths
}
