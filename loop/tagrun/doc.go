// Package tagrun executes a run over the tasks of a tag. What happens next is decided by scheduler.Run alone; this
// package does it, and writes down what happened:
//
//	run.go       Run: one loop that applies events, asks what is next, starts it, waits
//	start.go     ids, locks, the journal folded; recover.go: what git says of a run before (Resumed)
//	attempt.go   an agent works, looks again, or reviews     check.go      its commit is checked,
//	merge.go     merged onto the tip, and the next tip       wait.go       until something happens, or quota is back
//	takein.go    the branch's own commits come in            wavecheck.go  checks of a wave, or of the end
//	commit.go    the branch gets a wave; the list's part     push.go       and a remote what the branch has
//	chain.go     the trunk as git has it                     end.go        how the run ends, in words
//	requests.go  what people and signals ask                 list.go       the list: read, changed by others, written
//	say.go       what people want to know beside the events  ground.go     what actions stand on
//	prompt.go    the text that an agent is given             outcome.go    what an agent's run came to
//	statefile.go what the state file shows; loop/book writes it
//
// The deciding goroutine, Run.Run, owns the machine, the book, the list and the lanes. An action has a goroutine of its
// own: it gets the ground, the trunk as it stands, and values; it comes back with a result, which is values too. What it
// reports meanwhile (a check begins) is written by the goroutine that decides. So nothing needs a lock: one attempt at a
// time has a lane, one check a check tree, and one action that changes the trunk has the trunk.
//
// Each line of the journal may carry one event of the machine (its "run" member). The line is on disk and applied before
// people hear of it and before an action that follows from it starts:
//
//	step               AttemptStarted, CheckStarted, TakeInStarted, CommitStarted ...
//	attempt_started                    the lane is prepared, the agent starts
//	(a ref)                            the commit of what it left, before its end is written
//	agent_finished     AttemptEnded
//	(a ref)                            the trunk has the merge, or the branch the commit, before that is written
//	attempt_finished   CheckEnded      or AttemptEnded, where nothing is left to check
//	wave_committed     Committed
//	loop_finished      Ended
//
// There is no other state: a resume folds the lines, looks at the refs, applies Resumed, and goes on.
package tagrun
