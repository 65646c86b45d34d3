package verify

import (
	"cmp"
	"fmt"
	"strings"
)

// Verdict is the outcome of an attempt.
type Verdict string

const (
	Verified  Verdict = "verified"
	Failed    Verdict = "failed"
	Blocked   Verdict = "blocked" // by its agent
	Crashed   Verdict = "crashed" // the agent
	TimedOut  Verdict = "timeout" // the agent
	Limited   Verdict = "limited" // the provider's quota: not an attempt
	Cancelled Verdict = "cancelled"
)

// Facts are all that a verdict depends on.
type Facts struct {
	AgentEnd    string // an agent.End
	AgentReason string // for people
	Blocked     string // reason given with TASK_BLOCKED, or the question with TASK_QUESTION
	Question    string // the question in its last words, if they claim nothing
	Complete    bool   // the agent claimed completion
	Changed     bool   // the attempt changed a file
	Verify      *Result
	None        bool // the user wants no verification
}

// NoSignal is the reason of an attempt that did nothing and said nothing.
const NoSignal = "the agent changed nothing and did not say it was done"

// Asks and Said begin the reason of a task whose agent waits for an answer, or did nothing and said why.
const (
	Asks = "it asks: "
	Said = "it said: "
)

// IsSilent reports whether an agent that ended well changed nothing, claims nothing and asks nothing.
func (f *Facts) IsSilent() bool {
	return f.AgentEnd == "finished" && f.Blocked == "" && !f.Changed && !f.Complete && f.Question == ""
}

// Judge reaches a verdict. How the agent ended comes first; then only the verify command's exit status counts, with
// one exception: an agent that changed nothing and claimed nothing has not done the task, whatever the command says.
// If it asked something instead, it is blocked until somebody answers; a question beside changes does not block it.
func Judge(f Facts) (Verdict, string) {
	switch f.AgentEnd {
	case "cancelled":
		return Cancelled, cmp.Or(f.AgentReason, "cancelled")
	case "limited":
		return Limited, cmp.Or(f.AgentReason, "the provider's quota is used up")
	case "timeout", "idle":
		return TimedOut, cmp.Or(f.AgentReason, "the agent ran out of time")
	case "crashed":
		return Crashed, crash(f.AgentReason)
	case "refused":
		return Crashed, cmp.Or(f.AgentReason, "the agent could not be run")
	case "finished":
	default:
		return Crashed, fmt.Sprintf("the agent ended in an unknown way %q", f.AgentEnd)
	}
	switch v := f.Verify; {
	case f.Blocked != "":
		return Blocked, f.Blocked
	case v != nil && v.Cancelled:
		return Cancelled, "verify was cancelled"
	case !f.Changed && !f.Complete && f.Question != "":
		begin := Said
		if strings.ContainsAny(f.Question, "?？") {
			begin = Asks
		}
		return Blocked, begin + f.Question // asking again is useless
	case f.IsSilent():
		return Failed, NoSignal
	case f.None && f.Complete:
		return Verified, "completion claimed; nothing verifies it"
	case f.None:
		return Failed, "the agent did not say it was done, and nothing else tells"
	case v == nil:
		return Failed, "verify did not run"
	default:
		return byStatus(v)
	}
}

// crash says what crashed.
func crash(reason string) string {
	switch {
	case strings.HasPrefix(reason, "exit status "):
		return "the agent ended with " + reason
	case strings.HasPrefix(reason, "ended by "):
		return "the agent was " + reason
	}
	return cmp.Or(reason, "the agent crashed")
}

func byStatus(v *Result) (Verdict, string) {
	if v.Passed {
		return Verified, "verify passed"
	}
	return Failed, v.Reason()
}
