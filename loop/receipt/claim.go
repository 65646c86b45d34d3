package receipt

import (
	"fmt"
	"slices"
)

// Claim is what a note says of one task, and what is wrong with that.
type Claim struct {
	Receipt  Receipt
	Lines    []Line   // its receipt, test results and summary
	Problems []string // why it is not to be believed, each in one line
}

// Claims reads what the note on a commit says of each task, and looks for what shows that it was not written with that
// commit: other subjects, statements that do not follow from its receipt. tree is the commit's, "" where that is not
// known. Whether the checks pass is for who runs them again.
func Claims(on, tree string, note []byte) ([]Claim, error) {
	lines, err := Read(note)
	if err != nil {
		return nil, err
	}
	var out []Claim
	for _, own := range lines {
		if own.Statement.PredicateType != ReceiptType {
			continue
		}
		c := Claim{}
		if c.Receipt, err = own.receipt(); err != nil {
			return nil, err
		}
		for _, l := range lines {
			if slices.ContainsFunc(l.Statement.Subject, func(s Resource) bool {
				return s.Name == c.Receipt.Tag+"/"+c.Receipt.Task
			}) {
				c.Lines = append(c.Lines, l)
			}
		}
		c.examine(on, tree, own.Payload)
		out = append(out, c)
	}
	for _, l := range lines {
		if !slices.ContainsFunc(out, func(c Claim) bool {
			return slices.ContainsFunc(c.Lines, func(o Line) bool { return string(o.Payload) == string(l.Payload) })
		}) {
			return out, fmt.Errorf("it has a statement about %s without a receipt", subjects(l))
		}
	}
	return out, nil
}

func subjects(l Line) string {
	if len(l.Statement.Subject) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%q", l.Statement.Subject[0].Name)
}

func (c *Claim) wrong(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// short is a hash for people.
func short(hash string) string { return hash[:min(12, len(hash))] }

func (c *Claim) examine(on, tree string, own []byte) {
	r := &c.Receipt
	if r.Commit.Hash != on {
		c.wrong("it was written for commit %s", short(r.Commit.Hash))
	}
	if tree != "" && r.Commit.Tree != tree {
		c.wrong("it was written for the tree %s, and the commit has %s", short(r.Commit.Tree), short(tree))
	}
	left := map[string]bool{}
	for _, l := range c.Lines {
		left[string(l.Payload)] = true
	}
	delete(left, string(own))
	follow, err := r.follow(own)
	if err != nil {
		c.wrong("%v", err)
	}
	for i, b := range follow {
		what := "summary"
		if i < len(r.Checks) {
			what = "result of the check " + r.Checks[i].Name
		}
		if !left[string(b)] {
			c.wrong("its %s is missing or was changed", what)
		}
		delete(left, string(b))
	}
	if len(left) > 0 {
		c.wrong("its note has a statement about the task that does not follow from it")
	}
	for _, check := range r.Checks {
		if !check.Passed && !check.Standing {
			c.wrong("the check %s failed", check.Name)
		}
	}
	for _, l := range r.Looks {
		if l.Objects {
			c.wrong("%s objected", l.Name)
		}
	}
}
