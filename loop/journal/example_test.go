package journal_test

import (
	"fmt"
	"os"
	"path/filepath"

	"descartes/loop/journal"
)

// A reader follows the journal of a running loop and folds what it reads.
func ExampleFollow() {
	data, err := os.ReadFile(filepath.Join("testdata", "before", "start_blocked.ndjson"))
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "events.ndjson")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		panic(err)
	}

	follower, state := journal.Follow(path), journal.NewState()
	events, err := follower.Next() // and again whenever the file grows
	if err != nil {
		panic(err)
	}
	for i := range events {
		state.Apply(&events[i])
	}
	for _, a := range state.Ended {
		fmt.Printf("task %s attempt %d: %s\n", a.Task, a.Number, a.Verdict)
	}
	fmt.Println("under way:", state.Underway())
	fmt.Println("ended:", state.Finished.Ending)
	// Output:
	// task 1 attempt 1: verified
	// task 2 attempt 1: failed
	// task 2 attempt 2: failed
	// task 3 attempt 1: verified
	// under way: false
	// ended: tasks_blocked
}
