package gate

import (
	"slices"
	"strings"
	"testing"
)

const seedPlan = `# Plan

- [x] Set up project structure
- [x] Implement core data types
- [ ] Implement user authentication (P0 — blocks 3 other tasks)
- [ ] Add API rate limiting (P1)
- [ ] Implement webhook handlers (P1)
- [ ] Add monitoring and logging (P2)
Missing specs: Rate limiting spec needs error response format defined.
`

func parsed(text string) *Plan {
	p := ParsePlan(text)
	return &p
}

func TestParsePlanOfTheExample(t *testing.T) {
	t.Parallel()
	p := parsed(seedPlan)
	if got := len(p.Items); got != 6 || checked(p) != 2 || len(p.Open()) != 4 {
		t.Fatalf("got %d items, %d checked, %d open, want 6, 2, 4", got, checked(p), len(p.Open()))
	}
	auth := p.Items[2]
	if auth.Priority != 0 || !auth.Blocks {
		t.Errorf("got %+v, want P0, blocking, line 5", auth)
	}
	if p.Items[0].Priority != NoPriority || p.Items[5].Priority != 2 {
		t.Errorf("got priorities %d and %d, want none and 2", p.Items[0].Priority, p.Items[5].Priority)
	}
	if len(p.MissingSpecs) != 1 || !strings.HasPrefix(p.MissingSpecs[0], "Rate limiting spec") {
		t.Errorf("missing specs: got %q", p.MissingSpecs)
	}
}

func TestParsePlanForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       string // text of each item, + checked, - not, with its depth
	}{
		{"marks", "- [x] a\n* [X] b\n+ [ ] c\n1. [✓] d\n2) [] e", "+a0 +b0 -c0 +d0 -e0"},
		{"nested", "- [ ] a\n  - [x] b\n    - [ ] c\n- [ ] d", "-a0 +b1 -c2 -d0"},
		{"tabs", "- [ ] a\n\t- [ ] b", "-a0 -b1"},
		{"sections end nesting", "- [ ] a\n## S\n  - [ ] b", "-a0 -b0"},
		{"in progress and blocked", "- [~] a\n- [!] b", "-a0 -b0"},
		{"fences", "```\n- [ ] no\n```\n- [ ] a", "-a0"},
		{"comments", "<!-- - [ ] no\n- [ ] no -->\n- [ ] a <!-- x -->", "-a0"},
		{"links are no boxes", "- [a](b)\n- [x](b)\n- [ ] [a](b)", "-[a](b)0"},
		{"dropped", "- [ ] ~~gone~~\n- [ ] a", "-a0"},
		{"carriage returns", "- [x] a\r\n- [ ] b\r\n", "+a0 -b0"},
		{"no bullet, or no blank after it", "text\n[ ] a\n-[ ] b", "-a0 -b0"},
	} {
		var got []string
		for _, it := range ParsePlan(c.text).Items {
			mark := "-"
			if it.Checked {
				mark = "+"
			}
			got = append(got, mark+it.Text+string(rune('0'+it.Depth)))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, strings.Join(got, " "), c.want)
		}
	}
}

func TestPriorityOfSections(t *testing.T) {
	t.Parallel()
	p := ParsePlan("## High Priority\n- [ ] a\n- [ ] b (P3)\n### P0\n- [ ] c\n  - [ ] d\n## Notes\n- [ ] e\n- [ ] priority: low f\n- [ ] use a high door")
	var got []int
	for _, it := range p.Items {
		got = append(got, it.Priority)
	}
	if want := []int{1, 3, 0, 0, NoPriority, 3, NoPriority}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMissingSpecs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want int
	}{
		{"Missing specs identified: none", 0},
		{"Missing specs identified: \"none\"", 0},
		{"**Missing specs:** the error format", 1},
		{"Missing specs identified:\n- errors\n- limits\n\nOther:\n- x", 2},
		{"## Missing specs\n\n- errors\n## Next\n- x", 1},
		{"Nothing is missing.", 0},
	} {
		if got := ParsePlan(c.text).MissingSpecs; len(got) != c.want {
			t.Errorf("%q: got %q, want %d", c.text, got, c.want)
		}
	}
}

func TestNewlyChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after string
		want                int
	}{
		{"one", "- [ ] a\n- [ ] b", "- [x] a\n- [ ] b", 1},
		{"two", "- [ ] a\n- [ ] b", "- [x] a\n- [x] b", 2},
		{"none", "- [x] a", "- [x] a", 0},
		{"a note goes", "- [ ] a (P0 — blocks 3 other tasks)", "- [x] a", 1},
		{"a note comes to what was checked", "- [x] a", "- [x] a (in src/a.ts)", 0},
		{"moved", "- [x] a\n- [ ] b", "- [ ] b\n## Done\n- [x] a", 0},
		{"with its last entry", "- [ ] a\n  - [ ] b", "- [x] a\n  - [x] b", 1},
		{"found and done", "- [ ] a", "- [ ] a\n- [x] b", 1},
		{"two of one name", "- [x] a\n- [ ] a", "- [x] a\n- [x] a", 1},
		{"taken out", "- [ ] a", "", 0},
	} {
		if got := NewlyChecked(parsed(c.before), parsed(c.after)); len(got) != c.want {
			t.Errorf("%s: got %q, want %d", c.name, texts(got), c.want)
		}
	}
	if got := NewlyChecked(nil, parsed("- [x] a")); got != nil {
		t.Errorf("without a plan before: got %v", got)
	}
}

func TestUntick(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ was, now, want string }{
		{"- [ ] a\n- [x] b", "- [✓] a\n- [x] b", "- [ ] a\n- [x] b"},
		{"- [x] a\n- [ ] a", "- [x] a\n- [x] a", "- [x] a\n- [ ] a"},
		{"- [ ] a\n- [x] a", "- [x] a\n- [x] a", "- [ ] a\n- [x] a"},
		{"- [x] a\n- [ ] a\n- [ ] a", "- [x] a\n- [ ] a\n- [X] a", "- [x] a\n- [ ] a\n- [ ] a"},
		{"- [x] a\n- [ ] a", "- [ ] a\n- [x] a", "- [ ] a\n- [x] a"},
		{"- [x] a", "- [x] a\n- [x] a", "- [x] a\n- [ ] a"},
		{"- [x] a\n- [ ] b", "- [ ] b\n- [x] a", "- [ ] b\n- [x] a"},
	} {
		if got := Untick(c.now, parsed(c.was), true); got != c.want {
			t.Errorf("%q after %q: got %q, want %q", c.now, c.was, got, c.want)
		}
	}
	if got, want := Untick("- [x] a\n- [x] new", parsed("- [ ] a"), false), "- [ ] a\n- [x] new"; got != want {
		t.Errorf("without fresh ones: got %q, want %q", got, want)
	}
}

func TestOpenCountsTheWorkItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want string
	}{
		{"- [ ] a\n  - [ ] b\n  - [x] c", "b"},
		{"- [ ] a\n  - [x] b", "a"},
		{"- [x] a\n  - [ ] b", "b"},
	} {
		if got := strings.Join(texts(parsed(c.text).Open()), " "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add(seedPlan)
	f.Add("- [ ] a\n\t- [x] b\n<!-- \n```\n")
	f.Fuzz(func(t *testing.T, text string) {
		p := parsed(text)
		if len(p.Open())+checked(p) > len(p.Items) {
			t.Errorf("%d open and %d checked of %d", len(p.Open()), checked(p), len(p.Items))
		}
		if len(NewlyChecked(p, p)) != 0 {
			t.Errorf("a plan has new items compared with itself: %q", texts(NewlyChecked(p, p)))
		}
		c := Choose(p, Situation{})
		if (c.Item == nil) != (len(p.Open()) == 0) {
			t.Errorf("%d open, chosen %v", len(p.Open()), c)
		}
		if c.Item != nil && c.Item.Checked || c.Text() == "" {
			t.Errorf("chose %v", c)
		}
	})
}

func checked(p *Plan) (n int) {
	for _, it := range p.Items {
		if it.Checked {
			n++
		}
	}
	return n
}
