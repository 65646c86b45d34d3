package scheduler_test

import (
	"fmt"

	"descartes/scheduler"
	"descartes/tasks"
)

// The graph tells waves, states and problems.
func Example() {
	g := scheduler.New([]tasks.Task{
		{ID: "1", Status: tasks.Done},
		{ID: "2", Status: tasks.Pending, DependsOn: []string{"1"}},
		{ID: "3", Status: tasks.Pending},
		{ID: "4", Status: tasks.Pending, DependsOn: []string{"2", "3"}},
		{ID: "5", Status: tasks.Pending, DependsOn: []string{"9"}},
	}, scheduler.Options{})
	for _, w := range g.Waves() {
		fmt.Println("wave", w.Number, w.Tasks)
	}
	for _, p := range g.Problems() {
		fmt.Println(p.Message)
	}
	// Output:
	// wave 1 [1 3 5]
	// wave 2 [2]
	// wave 3 [4]
	// task 5 depends on 9, which does not exist
}
