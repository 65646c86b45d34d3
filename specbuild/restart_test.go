package specbuild

import (
	"testing"

	"descartes/tasks"
)

// In a plan that counts anew in each phase a number says nothing by itself.
func TestRestartingNumbers(t *testing.T) {
	t.Parallel()
	const headings = "# Plan\n\n## Phase 1: Front end\n\n### Task 1: Lexer\nTokens.\n\n### Task 2: Parser\nTrees.\n\n" +
		"## Phase 2: Back end\n\n### Task 1: Code generator\nEmit.\n\n### Task 2: Linker\nLink.\n\n### Task 3: Optimizer passes\nFold.\n"
	const items = "# Plan\n\n## Phase 1: Pages\n\n### 1.1 Login page\nx\n\n### 1.2 Upload form styling\ny\n\n" +
		"## Phase 2: Queue\n\n### 1. Worker loop\nx\n\n### 2. Upload form colours\ny\n\n## Phase 3: Release\n\n### 1. Notes\nx\n\n### 2. Tarball\ny\n"
	const table = "# Plan\n\n| Task | Section |\n|--|--|\n| 1 | Task 10 |\n| 2 | Task 1 |\n\n### Task 10: Foo\nx\n\n### Task 1: Bar\ny\n\n### Task 1: Baz\ny\n"
	const unique = "# Plan\n\n## 1. Pages\nx\n\n## 2. Upload form styling\ny\n\n## 3. Queue\nz\n"
	for name, c := range map[string]struct {
		src        string
		all        []tasks.Task
		id         string
		rule, head string
	}{
		"another task of the same number":   {headings, list("1", "Build the lexer", "2", "Write the parser", "3", "Implement code generator", "4", "Linker", "5", "Run optimizer passes"), "3", RuleTitle, "Task 1: Code generator"},
		"the number and the title":          {headings, list("1", "Build the lexer", "2", "Write the parser", "3", "Optimizer passes"), "3", RuleHeading, "Task 3: Optimizer passes"},
		"the title alone":                   {headings, list("1", "Build the lexer", "5", "Run the optimizer passes"), "5", RuleTitle, "Task 3: Optimizer passes"},
		"a number and nothing else":         {headings, list("1", "Build the lexer", "3", "Documentation"), "3", RuleOutline, ""},
		"one word of an item":               {items, list("1", "Login page", "2", "Retry uploads on failure"), "2", RuleOutline, ""},
		"one word of an item, dotted":       {items, list("1.1", "Login page", "1.2", "Retry uploads on failure"), "1.2", RuleOutline, ""},
		"one word, with a parent":           {items, list("1", "Login page", "2", "Retry uploads on failure"), "2", RuleOutline, ""},
		"one of two, by its title":          {headings, list("1", "Write a code generator", "2", "Lexer"), "1", RuleHeading, "Task 1: Code generator"},
		"a table names a task heading":      {table, list("1", "Quux"), "1", RuleMarker, "Task 10: Foo"},
		"a table names one of two":          {table, list("2", "Quux"), "2", RuleOutline, ""},
		"one word where numbers are unique": {unique, list("1", "Pages", "2", "Upload things"), "2", RuleNumber, "2. Upload form styling"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parsePlan(t, c.src)
			for _, task := range c.all {
				if task.ID != c.id {
					continue
				}
				s := p.Section(task, nil, c.all)
				head := ""
				if len(s.Parts) > 0 {
					head = s.Parts[0].Heading[len(s.Parts[0].Heading)-1]
				}
				if s.Rule != c.rule || head != c.head {
					t.Errorf("got %s %q (%s), want %s %q", s.Rule, head, s.Why, c.rule, c.head)
				}
			}
		})
	}
}

func list(pairs ...string) (all []tasks.Task) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, tasks.Task{ID: pairs[i], Title: pairs[i+1]})
	}
	return all
}
