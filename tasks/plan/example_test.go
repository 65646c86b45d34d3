package plan_test

import (
	"fmt"

	"descartes/tasks/plan"
)

// Phases wait for each other, and an item has the number of its phase before its own.
func Example() {
	p, err := plan.Parse("PLAN.md",
		[]byte("# Shop\n\n## Phase 1: Store\n\n- [x] Schema\n- [ ] Import (depends on 1.1)\n\n## Phase 2: Pages\n\n1. Catalogue\n2. Basket\n"))
	if err != nil {
		panic(err)
	}
	list, err := p.Tasks()
	if err != nil {
		panic(err)
	}
	for _, t := range list {
		fmt.Println(t.ID, t.Title, t.Status, t.DependsOn)
	}
	// Output:
	// 1.1 Schema done []
	// 1.2 Import pending [1.1]
	// 2.1 Catalogue pending [1.1 1.2]
	// 2.2 Basket pending [1.1 1.2]
}
