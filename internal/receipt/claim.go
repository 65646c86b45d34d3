package receipt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Claim is what a note says of one task, and what is wrong with that.
type Claim struct {
	Receipt  Receipt
	Lines    []Line   // its receipt, test results and summary
	Problems []string // why it is not to be believed, each in one line
}

// Claims reads what the note on a commit says of each task, and looks for what shows that it was not written with that commit: other
// subjects, test results that are missing or different, statements that were changed. tree is the commit's, "" where that is not known.
// Whether the checks pass is for who runs them again.
func Claims(on, tree string, note []byte) ([]Claim, error) {
	lines, err := Read(note)
	if err != nil {
		return nil, err
	}
	receipts, err := receiptsIn(lines)
	if err != nil {
		return nil, err
	}
	var out []Claim
	for _, r := range receipts {
		c := Claim{Receipt: r}
		for _, l := range lines {
			if slices.ContainsFunc(l.Statement.Subject, func(s Resource) bool { return s.Name == r.Tag+"/"+r.Task }) {
				c.Lines = append(c.Lines, l)
			}
		}
		c.examine(on, tree)
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

func (c *Claim) examine(on, tree string) {
	r := &c.Receipt
	if r.Commit.Hash != on {
		c.wrong("it was written for commit %s", short(r.Commit.Hash))
	}
	if tree != "" && r.Commit.Tree != tree {
		c.wrong("it was written for the tree %s, and the commit has %s", short(r.Commit.Tree), short(tree))
	}
	n := 0
	results := map[string]TestResult{}
	var summary *Summary
	digests := map[string]bool{}
	for _, l := range c.Lines {
		if len(l.Statement.Subject) != 1 || l.Statement.Subject[0].Digest["gitCommit"] != r.Commit.Hash || l.Statement.Subject[0].Digest["gitTree"] != r.Commit.Tree {
			c.wrong("one of its statements is about another commit or tree")
		}
		switch l.Statement.PredicateType {
		case ReceiptType:
			n++
		case TestResultType:
			var t TestResult
			if json.Unmarshal(l.Statement.Predicate, &t) != nil || len(t.Configuration) != 1 {
				c.wrong("one of its test results cannot be read")
				continue
			}
			if _, twice := results[t.Configuration[0].Name]; twice {
				c.wrong("it has two results of the check %s", t.Configuration[0].Name)
			}
			results[t.Configuration[0].Name] = t
		case SummaryType:
			if summary != nil {
				c.wrong("it has two summaries")
			}
			summary = new(Summary)
			if json.Unmarshal(l.Statement.Predicate, summary) != nil {
				c.wrong("its summary cannot be read")
			}
			continue // which does not name itself
		default:
			c.wrong("it has a statement of the unknown type %q", l.Statement.PredicateType)
		}
		digests[Digest(l.Payload)] = true
	}
	if n > 1 {
		c.wrong("the task has %d receipts on one commit", n)
	}
	c.compare(results)
	if summary == nil {
		c.wrong("its summary is missing")
		return
	}
	c.summarised(summary, digests)
}

// compare holds the results of checks against those that the receipt names.
func (c *Claim) compare(results map[string]TestResult) {
	for _, check := range c.Receipt.Checks {
		t, ok := results[check.Name]
		delete(results, check.Name)
		want := testResult(check)
		switch {
		case !ok:
			c.wrong("the result of the check %s is missing", check.Name)
		case string(t.Configuration[0].Content) != check.Command || t.Configuration[0].Digest["sha256"] != want.Configuration[0].Digest["sha256"]:
			c.wrong("the result of the check %s is of another command", check.Name)
		case t.Result != want.Result || t.Configuration[0].Annotations["exitCode"] != want.Configuration[0].Annotations["exitCode"]:
			c.wrong("the result of the check %s is not what the receipt says", check.Name)
		case !check.Passed && !check.Standing:
			c.wrong("the check %s failed", check.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		c.wrong("the receipt does not know the check %s", name)
	}
	for _, l := range c.Receipt.Looks {
		if l.Objects {
			c.wrong("%s objected", l.Name)
		}
	}
}

// summarised holds the summary against the statements that it is about.
func (c *Claim) summarised(s *Summary, digests map[string]bool) {
	if s.VerificationResult != passed {
		c.wrong("its summary says %q", s.VerificationResult)
	}
	for _, in := range s.InputAttestations {
		if d := in.Digest["sha256"]; digests[d] {
			delete(digests, d)
		} else {
			c.wrong("its summary names a statement that is missing or was changed")
		}
	}
	if len(digests) > 0 {
		c.wrong("its summary does not name all of its statements")
	}
}
