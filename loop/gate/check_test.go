package gate

import "testing"

// An item's own check is found by its words, whatever note or tick another version of the plan has.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := ParsePlan("# Plan\n\n- [ ] One\n  Verify: `a`\n- [ ] Two\n- [ ] Same\n  Verify: b\n- [ ] Same\n  Verify: c\n")
	for item, want := range map[string]string{"One": "a", "one (late)": "a", "Two": "", "Three": "",
		"Same": "(b\n) && (c\n)"} {
		if got := p.Check(item); got != want {
			t.Errorf("%s: got %q, want %q", item, got, want)
		}
	}
	none := ParsePlan("- [ ] One\n  Verify: a\n\n## Task: without a box\n\nText.\n")
	if got := (*Plan)(nil).Check("One") + none.Check("Two"); got != "" {
		t.Errorf("got %q of no plan", got)
	}
}
