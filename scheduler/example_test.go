package scheduler_test

import (
	"fmt"

	"descartes/scheduler"
	"descartes/tasks"
)

// The graph tells waves, states and problems; a queue which tasks start next in so many slots, and why the others
// wait.
func Example() {
	g := scheduler.New([]tasks.Task{
		{ID: "1", Status: tasks.Done},
		{ID: "2", Status: tasks.Pending, DependsOn: []string{"1"}, Scope: []string{"cmd/main.go"}},
		{ID: "3", Status: tasks.Pending, Scope: []string{"cmd/"}},
		{ID: "4", Status: tasks.Pending, DependsOn: []string{"2", "3"}},
		{ID: "5", Status: tasks.Pending, DependsOn: []string{"9"}},
	}, scheduler.Options{})
	for _, w := range g.Waves() {
		fmt.Println("wave", w.Number, w.Tasks)
	}
	for _, p := range g.Problems() {
		fmt.Println(p.Message)
	}
	q := g.Queue(scheduler.QueueOptions{Slots: 2, RespectScope: true})
	fmt.Println("start", q.Next(scheduler.Now{Free: 2}))
	g.SetStatus("2", tasks.InProgress)
	for _, w := range q.Waiting(scheduler.Now{Running: []string{"2"}, Free: 1}) {
		fmt.Println(w.Task, w)
	}
	// Output:
	// wave 1 [1 3 5]
	// wave 2 [2]
	// wave 3 [4]
	// task 5 depends on 9, which does not exist
	// start [2]
	// 3 waiting because it may change the same files as task 2: cmd/main.go
	// 4 waiting for 2, 3
}
