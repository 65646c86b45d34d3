package outline

import (
	"testing"

	"descartes/tasks/prose"
)

// FuzzAccount: each line with a box belongs to a task, says how far one is, is a criterion, or was left out, which is
// said; and no two tasks of a list of boxes with ids have the same one.
func FuzzAccount(f *testing.F) {
	for _, src := range []string{"## Task 1: A\n- [ ] a\n## Notes\n- [x] b\n## Done when\n- [ ] c\n",
		"## Step 1: A\n## Step 2: B\n- [x] Step 1: A\n- [?] x\n", "| Task | Status |\n|-|-|\n| A | x |\n- [ ] a\n- [ ] b\n",
		"## Phase 1\n- [ ] a\n  - [ ] b\n## Legend\n- [ ] c\n# Checklist\n* [x] d\n1. [ ] e\n> - [ ] f\n",
		"## Notes\n- [ ] a\n## 2. Validation\n- [ ] 2.1 b\n  - [ ] c\n## Done when\n- [ ] d\n- [ ] 2.2* e\n- [ ] 2.1 f",
		"- [ ] T001 [P] a\n-[ ] T002 b\n- [ ]T003 c\n- [ ]* 3.1 d\n- [x]e\n", "[X] 0 a\n[] 1) b\n[ ] c\n", "# TODO\n- a\n- [ ] b\n"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		d, err := Read("plan.md", src)
		if err != nil {
			return
		}
		c := d.Choose()
		said, in, ids := map[int]bool{}, c.inside(c.Items), map[string]bool{}
		c.Left(func(n int, _ string) { said[n] = true })
		for n := range c.Lines {
			x := c.Entry(n)
			criterion := max(c.Under(n), c.under(&x)) >= prose.Checklist
			if c.Lines[n].Box != 0 && !in[n] && !c.About(n) && !criterion && !said[n] && len(c.Items) > 0 {
				t.Fatalf("line %d of %q is lost", n+1, src)
			}
		}
		for _, x := range c.Items {
			if ids[x.ID] && c.By.Queue || x.ID == "" || x.Last <= x.Line {
				t.Fatalf("%q: %+v", src, x)
			}
			ids[x.ID] = true
		}
	})
}
