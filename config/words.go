package config

// Words and numbers of settings that code asks for by name.

// SettingsFile is the file with a project's settings.
const SettingsFile = "descartes.yaml"

// What to do if the verify command fails on the untouched tree, before the first agent.
const (
	BaselineRequire = "require" // end the run
	BaselineWarn    = "warn"    // continue, unless the command cannot be run
	BaselineKnown   = "known"   // continue; the tests that failed may fail, others may not
	BaselineOff     = "off"     // do not run it
)

// What to do when a provider's quota is used up.
const (
	OnLimitWait     = "wait"
	OnLimitStop     = "stop"
	OnLimitFallback = "fallback" // switch to the next backend; wait once all are used up
)

// CommitTask makes a commit of each verified task, not of each wave.
const CommitTask = "task"

// DefaultBreaker is how many tasks in a row must fail in the same way to open the breaker. BreakerOff disables it.
const (
	DefaultBreaker = 3
	BreakerOff     = -1
)

// Ceiling is the most iterations a loop can start with. A loop at its limit continues if it is resumed with a higher
// one.
const Ceiling = 200

// DefaultTotalIterations is the default limit of attempts for a tag of n tasks.
func DefaultTotalIterations(n int) int { return max(100, 3*n) }
