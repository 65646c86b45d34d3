package agent

import (
	"fmt"

	"descartes/internal/proc"
)

// overran says which limit ended a run.
func (q Request) overran(why proc.Why) string {
	if why == proc.Memory {
		return "the agent's processes used more than " + proc.Size(q.Limits.Memory) + " of memory and were ended"
	}
	return fmt.Sprintf("the agent had more than %d processes and threads at a time and was ended", q.Limits.Procs)
}
