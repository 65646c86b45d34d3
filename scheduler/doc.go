// Package scheduler owns the graph of a task list: what is wrong with it, its waves, what is ready, what is held by
// which root cause; and Run, which says what a run over its tasks does next. It runs nothing.
//
// Vertices, edges, neighbours and circles are those of a dominikbraun graph. Waves are Kahn's algorithm over its maps:
// its TopologicalSort takes 5 s for 10,000 tasks, and PreventCycles 42 s.
//
// Where a rule stands: task.go has the stages and what the list says of a task, attempt.go how agents' runs end,
// check.go how checks do, merge.go what follows from one, trunk.go and chain.go what is taken in and committed,
// rewind.go what a person takes back, requests.go what else he asks (pause, retry, accept), run.go what a kill left,
// waves.go when a wave is committed and checked, next.go who starts next and with whose quota, accounts.go waits and
// rests, breaker.go failures in a row, limits.go what may be used, list.go a changed list and the waves' numbers, end.go
// why no agent starts and how a run ends.
package scheduler
