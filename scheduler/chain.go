package scheduler

import "slices"

// Entry is a commit of the trunk: a task's merge, or the branch's own commits.
type Entry struct {
	Task   string
	Commit string // the branch's own, up to this one
}

// Chain is the trunk's commits in order, how many of them the branch has, and how far each check of waves and of the
// end, by its name, has seen them pass. It only grows, but by a rewind.
type Chain struct {
	Entries []Entry
	In      int
	Passed  map[string]int
}

// replace takes other entries for the chain's. kept is how many of the first it still has: checks have seen no others.
func (c *Chain) replace(entries []Entry, in int) (kept int) {
	for kept < min(len(c.Entries), len(entries)) && c.Entries[kept] == entries[kept] {
		kept++
	}
	passed := map[string]int{}
	for name, n := range c.Passed {
		passed[name] = min(n, kept)
	}
	*c = Chain{append([]Entry{}, entries...), in, passed}
	c.In = c.pass(c.In)
	return kept
}

// pass goes over entries that are the branch's own: it has them, and no check of ours judges them.
func (c *Chain) pass(n int) int {
	for n < len(c.Entries) && c.Entries[n].Task == "" {
		n++
	}
	return n
}

func (c *Chain) add(x Entry) {
	c.Entries = append(c.Entries, x)
	c.In = c.pass(c.In)
}

// sawPass notes that a check passed at a tip, and so all that stands before it.
func (c *Chain) sawPass(check string, tip int) {
	if tip > c.Passed[check] {
		c.Passed[check] = tip
	}
}

// passed is how many entries all of these checks have seen pass.
func (c *Chain) passed(checks []string) int {
	n := len(c.Entries)
	for _, name := range checks {
		n = min(n, c.pass(c.Passed[name]))
	}
	return n
}

// Basis is what a task's commit was merged onto for its check.
type Basis struct {
	Tip    int         // entries that the chain had
	With   []string    // tasks checked before it, which are merged first if they pass
	Review ReviewIf    // whether a review comes before the merge
	Passed bool        // it passed on that
	Void   bool        // that will never be: the check is repeated, whatever it says
	Said   *CheckEnded // by the check; it counts when those before it are merged
}

// stands reports whether the chain, and after it these tasks, is what the basis says.
func (c *Chain) stands(b *Basis, line []string) bool {
	if len(c.Entries) < b.Tip || len(c.Entries)+len(line) != b.Tip+len(b.With) {
		return false
	}
	for i, x := range c.Entries[b.Tip:] {
		if x.Task != b.With[i] {
			return false
		}
	}
	return slices.Equal(b.With[len(c.Entries)-b.Tip:], line)
}
