package specbuild_test

import (
	"fmt"

	"descartes/specbuild"
	"descartes/tasks"
	"descartes/tasks/plan"
)

// The text of a task's first attempt, with its section of the plan.
func Example() {
	p, err := plan.Parse("PLAN.md",
		[]byte("# Shop\n\n## Task 1: Catalogue\n\nList all goods.\n\n## Task 2: Basket\n\nKeep it in a cookie.\n"))
	if err != nil {
		panic(err)
	}
	spec, err := specbuild.Build(specbuild.Request{Task: tasks.Task{ID: "2", Title: "Basket"}, Plan: p,
		Verify: "make test"})
	if err != nil {
		panic(err)
	}
	for _, s := range spec.Sources {
		fmt.Printf("%s %d-%d\n", s.Part, s.FirstLine, s.LastLine)
	}
	// Output:
	// task 0-0
	// plan 7-9
	// verification 0-0
	// report 0-0
}
