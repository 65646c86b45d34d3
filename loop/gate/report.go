package gate

import "fmt"

// Report is what an agent says in a ---RALPH_STATUS--- block.
type Report struct {
	Status         string // IN_PROGRESS, COMPLETE or BLOCKED; "" where missing or none of them
	Tasks          int    // TASKS_COMPLETED_THIS_LOOP
	Files          int    // FILES_MODIFIED
	Tests          string // PASSING, FAILING or NOT_RUN; "" where missing
	Work           string // IMPLEMENTATION, TESTING, DOCUMENTATION, REFACTORING ...; "" where missing
	ExitSignal     bool
	Recommendation string
	Problems       []string // what the block lacks and which values mean nothing
}

// Words of a report's fields.
const (
	InProgress = "IN_PROGRESS"
	Complete   = "COMPLETE"
	IsBlocked  = "BLOCKED"

	Passing = "PASSING"
	Failing = "FAILING"
	NotRun  = "NOT_RUN"
)

// ParseReport reads the last ---RALPH_STATUS--- block of a message, or, where there is none, the last
// ---LOOP_STATUS--- block with the same fields; ok is false where there is neither.
// A block that shows the choices, as in "STATUS: IN_PROGRESS | COMPLETE | BLOCKED", is read as one
// without values: it can end nothing.
func ParseReport(message string) (r Report, ok bool) {
	f, _, ok := lastBlock(message, "RALPH_STATUS")
	if !ok {
		if f, _, ok = lastBlock(message, "LOOP_STATUS"); !ok {
			return r, false
		}
	}
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	if f.values["STATUS"] == "" {
		problem("STATUS is missing")
	}
	r.Status = f.word("STATUS", []string{InProgress, Complete, IsBlocked}, map[string]string{"COMPLETED": Complete}, problem)
	r.Tasks = f.number("TASKS_COMPLETED_THIS_LOOP", problem)
	r.Files = f.number("FILES_MODIFIED", problem)
	r.Tests = f.word("TESTS_STATUS", []string{Passing, Failing, NotRun},
		map[string]string{"PASS": Passing, "PASSED": Passing, "FAIL": Failing, "FAILED": Failing, "NONE": NotRun, "N/A": NotRun}, problem)
	r.Work = f.word("WORK_TYPE", []string{"IMPLEMENTATION", "TESTING", "DOCUMENTATION", "REFACTORING", "PLANNING"}, nil, problem)
	r.ExitSignal = f.signal(problem)
	r.Recommendation = f.values["RECOMMENDATION"]
	if !f.closed {
		problem("the block has no ---END_RALPH_STATUS--- line")
	}
	return r, true
}
