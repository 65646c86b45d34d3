package gate

import "testing"

// The rows of the seed's task selection table.
func TestTaskSelectionTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row, plan string
		s         Situation
		want      string
		wantRow   string
		replan    bool
	}{
		{row: "Blocker exists for other tasks", plan: "- [ ] small (P0)\n- [ ] base (P1 — blocks 3 other tasks)",
			want: "base (P1 — blocks 3 other tasks)", wantRow: RowBlocker},
		{row: "Blocker exists for other tasks, though tests fail", plan: "- [ ] fix tests\n- [ ] base (blocker)",
			s: Situation{TestsFail: true}, want: "base (blocker)", wantRow: RowBlocker},
		{row: "Test failures exist", plan: "- [ ] new page (P0)\n- [ ] Fix failing login tests (P2)",
			s: Situation{TestsFail: true}, want: "Fix failing login tests (P2)", wantRow: RowFailing},
		{row: "Test failures exist, no item about them", plan: "- [ ] new page", s: Situation{TestsFail: true},
			want: "", wantRow: RowFailing},
		{row: "All tasks independent", plan: "- [ ] a (P2)\n- [ ] b (P1)\n- [ ] c", want: "b (P1)",
			wantRow: RowPriority},
		{row: "Multiple tasks at same priority, first", plan: "- [ ] a\n- [ ] b", want: "a", wantRow: RowClearest},
		{row: "Multiple tasks at same priority, spec named", plan: "- [ ] a (P1)\n- [ ] b, see specs/b.md (P1)",
			s: Situation{Specs: []string{"specs/b.md"}}, want: "b, see specs/b.md (P1)", wantRow: RowClearest},
		{row: "Multiple tasks at same priority, spec by its words", plan: "- [ ] do a\n- [ ] do webhook",
			s: Situation{Specs: []string{"specs/webhook.md"}}, want: "do webhook", wantRow: RowClearest},
		{row: "Multiple tasks at same priority, detail", plan: "- [ ] a\n- [ ] b\n  with care\n  and tests", want: "b",
			wantRow: RowClearest},
		{row: "Spec is missing for top task, named", plan: "- [ ] a per specs/a.md (P1)\n- [ ] b (P3)",
			want: "a per specs/a.md (P1)", wantRow: RowSpecGone, replan: true},
		{row: "Spec is missing, but not for the top task", plan: "- [ ] a (P0)\n- [ ] b per specs/b.md (P1)",
			want: "a (P0)", wantRow: RowPriority},
		{row: "what waits is not taken", plan: "- [ ] a (P0, blocked by b)\n- [ ] b (P2)", want: "b (P2)",
			wantRow: RowPriority},
		{row: "what waits is all there is", plan: "- [ ] a (P0, blocked by people)", want: "a (P0, blocked by people)",
			wantRow: RowPriority},
		{row: "nothing left", plan: "- [x] a", want: "", wantRow: RowNothing},
		{row: "entries before what holds them", plan: "- [ ] a (P0)\n  - [ ] b", want: "b", wantRow: RowPriority},
	} {
		got := Choose(parsed(c.plan), c.s)
		text := ""
		if got.Item != nil {
			text = got.Item.Text
		}
		if text != c.want || got.Row != c.wantRow || got.Replan != c.replan || got.Reason == "" || got.Text() == "" {
			t.Errorf("%s: got %q by %q, replan %v (%s), want %q by %q, replan %v", c.row, text, got.Row, got.Replan,
				got.Reason, c.want, c.wantRow, c.replan)
		}
	}
}

func TestPlanner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, plan string
		fails      bool
		specs      []string
		want       bool
	}{
		{"open items", "- [ ] a", false, nil, false},
		{"open items, verify fails", "- [ ] a", true, nil, false},
		{"nothing unchecked, verify passes", "- [x] a", false, nil, false},
		{"nothing unchecked, verify fails", "- [x] a", true, nil, true},
		{"a spec is missing", "- [ ] a per specs/a.md", false, nil, true},
		{"a spec is there", "- [ ] a per specs/a.md", false, []string{"specs/a.md"}, false},
		{"the plan names a missing spec", "- [ ] a\nMissing specs: errors", false, nil, true},
		{"a spec is not mentioned", "- [ ] a", false, []string{"specs/rate-limits.md"}, true},
		{"a spec is mentioned by its words", "- [ ] the limits of a rate", false, []string{"specs/rate-limits.md"},
			false},
	} {
		var p Planner
		got, why := p.Replan(parsed(c.plan), c.fails, c.specs)
		if got != c.want || why == "" {
			t.Errorf("%s: got %v (%s), want %v", c.name, got, why, c.want)
		}
		if again, _ := p.Replan(parsed(c.plan), c.fails, c.specs); again && got {
			t.Errorf("%s: plans twice in a row", c.name)
		}
	}
	var p Planner
	if got, _ := p.Replan(nil, false, nil); !got {
		t.Error("no plan: does not plan")
	}
}

func TestPlannerDoesNotPlanForASpecTwice(t *testing.T) {
	t.Parallel()
	var p Planner
	plans := 0
	for range 20 {
		if plan, _ := p.Replan(parsed("- [ ] a"), false, []string{"specs/b.md", "specs/c.md"}); plan {
			plans++
		}
	}
	if plans != 2 {
		t.Errorf("planned %d times for two specs, want 2", plans)
	}
}
