package loop

import (
	"time"

	"descartes/agent"
	"descartes/verify"
)

// Config is what a loop was asked to do, in the field names of the state file's "config". It is
// saved, so that resuming goes on with it.
type Config struct {
	Command           string        `json:"command"`
	Args              []string      `json:"args,omitempty"`
	Prompt            string        `json:"prompt,omitempty"`
	CompletionPromise string        `json:"completion_promise,omitempty"`
	MaxIterations     int           `json:"max_iterations,omitempty"`
	IterationContext  bool          `json:"include_iteration_context"`
	WorkingDirectory  string        `json:"working_directory,omitempty"`
	TimeoutSecs       int           `json:"iteration_timeout_secs,omitempty"`   // agent, per attempt; 0 is none
	IdleTimeoutSecs   int           `json:"idle_timeout_secs,omitempty"`        // agent without output; 0 is none
	StartTimeoutSecs  int           `json:"start_timeout_secs,omitempty"`       // agent, until its first event; 0 is none
	ExitGraceSecs     int           `json:"exit_grace_secs,omitempty"`          // agent, from its end event to its exit; 0 is none
	SpinLimit         int           `json:"spin_limit,omitempty"`               // agent's steps in a row without anything done; 0 is none
	VerifyTimeoutSecs int           `json:"verify_timeout_secs,omitempty"`      // 0 is none
	VerifyIdleSecs    int           `json:"verify_idle_timeout_secs,omitempty"` // verify without output; 0 is none
	Baseline          string        `json:"baseline,omitempty"`                 // when verify fails before the first attempt: require, warn or off; "" is require for a tag, off for a prompt
	Breaker           int           `json:"breaker,omitempty"`                  // the same failure in so many tasks in a row ends the run; 0 is 3, less is none
	Deadline          *time.Time    `json:"deadline,omitempty"`                 // no attempt starts after it
	MaxCostUSD        float64       `json:"max_cost_usd,omitempty"`
	MaxCostPerTask    float64       `json:"max_cost_per_task_usd,omitempty"`
	OnLimit           string        `json:"on_limit,omitempty"`      // when the provider's quota is used up: wait, stop or fallback
	MaxWaitSecs       int           `json:"max_wait_secs,omitempty"` // longest waiting for a provider; 0 is as long as it takes
	Fallback          []string      `json:"fallback,omitempty"`      // backends that take over, in this order
	AllowDirty        bool          `json:"allow_dirty,omitempty"`
	Backend           BackendConfig `json:"backend"`
	SettingsFile      string        `json:"settings_file,omitempty"` // that was named in place of descartes.yaml; absolute
	Git               GitConfig     `json:"git"`
	Scud              ScudConfig    `json:"scud"`
	SafetyConfig

	RepeatConfig

	Prices agent.Prices `json:"prices,omitempty"` // for clients that tell only their tokens
	Mask   []string     `json:"mask,omitempty"`   // variables whose values are secret; !NAME: is not; off: nothing is

	Backends   map[string]agent.Row `json:"backends,omitempty"`    // what the user changes about backends, or adds
	Models     map[string]Models    `json:"models,omitempty"`      // by backend
	ModelTiers map[string]string    `json:"model_tiers,omitempty"` // models of the settings' backend, by the word of a task's model_tier
	AgentTypes map[string]AgentType `json:"agent_types,omitempty"` // by the word of a task's agent_type
}

// RepeatConfig is what only a prompt loop asks.
type RepeatConfig struct {
	Gate                string `json:"gate,omitempty"`                 // what ends it; "" is the promise
	PromptHandoff       string `json:"handoff_path,omitempty"`         // read into each prompt, and written when the loop stops with work left
	AutoTune            bool   `json:"auto_tune,omitempty"`            // a second agent reviews each iteration that failed
	Replan              bool   `json:"replan,omitempty"`               // a build plans again where its plan has gaps
	PlanPrompt          string `json:"plan_prompt,omitempty"`          // with which it does
	StateFile           string `json:"state_file,omitempty"`           // where it was asked to be; as it was typed
	ContinueSession     bool   `json:"continue_session,omitempty"`     // go on with the conversation of the iteration before
	VerificationCommand string `json:"verification_command,omitempty"` // "" and "none" verify nothing; a tag's is in Scud

	GateConfig
}

// BackendConfig says how the agent is called.
type BackendConfig struct {
	Type         string            `json:"backend_type"`
	PromptMode   string            `json:"prompt_mode"`
	OutputFormat string            `json:"output_format"`
	Environment  map[string]string `json:"environment,omitempty"`
	Model        string            `json:"model,omitempty"`
}

// GitConfig says what is committed.
type GitConfig struct {
	AutoCommit     bool   `json:"auto_commit"`
	CommitTemplate string `json:"commit_template,omitempty"` // {iteration} {timestamp} {tag} {wave}
	CreateBranch   bool   `json:"create_branch,omitempty"`
	BranchTemplate string `json:"branch_template,omitempty"`
	Hooks          string `json:"hooks,omitempty"`             // run, skip or fail
	HookTimeout    int    `json:"hook_timeout_secs,omitempty"` // longest run of the git program, with hooks, filters and signing
	Branch         string `json:"branch,omitempty"`
	CostTrailer    bool   `json:"cost_trailer,omitempty"` // in a wave's commit
}

// ScudConfig is the part of a loop over a tag.
type ScudConfig struct {
	Tag                  string     `json:"tag"`
	TasksFile            string     `json:"tasks_file,omitempty"` // read instead of where the tag would be found
	PlanPath             string     `json:"plan_path,omitempty"`
	HandoffPath          string     `json:"handoff_path,omitempty"`
	MaxIterationsPerTask int        `json:"max_iterations_per_task"`
	MaxTotalIterations   int        `json:"max_total_iterations"`
	UseSubAgents         bool       `json:"use_sub_agents"`
	VerificationCommand  string     `json:"verification_command"` // "none" asks for the agent's claim instead
	AutoCommitWaves      bool       `json:"auto_commit_waves"`
	RetryBlocked         bool       `json:"retry_blocked,omitempty"`
	AutoTune             bool       `json:"auto_tune,omitempty"`    // a second agent reviews each failed attempt
	OpenInDone           bool       `json:"open_in_done,omitempty"` // open subtasks of a done task are work to do
	Spec                 SpecConfig `json:"spec"`
}

// SpecConfig says what a spec is made of.
type SpecConfig struct {
	IncludeTask        bool     `json:"include_task"`
	IncludePlanSection bool     `json:"include_plan_section"`
	AdditionalSpecs    []string `json:"additional_specs,omitempty"`
	MaxSpecTokens      int      `json:"max_spec_tokens,omitempty"`
	Cut                bool     `json:"cut,omitempty"` // drop the least specific parts of a spec over its budget
	SpecTemplate       string   `json:"spec_template,omitempty"`
}

// Verify commands end after these where nothing else is said.
const (
	DefaultVerifyTimeout = 30 * time.Minute
	DefaultVerifyIdle    = 15 * time.Minute
)

// Timed gives a run of the verify command its clocks.
func (c *Config) Timed(q verify.Request) verify.Request {
	q.Timeout, q.Idle, q.Grace = seconds(c.VerifyTimeoutSecs), seconds(c.VerifyIdleSecs), grace
	return q
}

// verifyDetail is a run of the verify command as its event has it.
func verifyDetail(res verify.Result) *Detail {
	return &Detail{Code: res.Code, Signal: res.Signal, Passed: res.Passed, TimedOut: res.TimedOut, Seconds: res.Duration.Seconds()}
}

// NoVerify is the verification command that asks for none.
const NoVerify = "none"

// DefaultTotalIterations is the global limit of attempts for a tag of n tasks where none is given.
func DefaultTotalIterations(n int) int { return max(100, 3*n) }

// spent names the deadline or the sum of money that is used up, or nil.
func (c *Config) spent(now time.Time, cost Cost) *Outcome {
	switch {
	case c.Deadline != nil && !now.Before(*c.Deadline):
		return &Outcome{Ending: DeadlinePast, Message: "the deadline " + c.Deadline.Format(time.RFC3339) + " has passed"}
	case c.MaxCostUSD > 0 && cost.USD != nil && *cost.USD >= c.MaxCostUSD:
		return &Outcome{Ending: CostReached, Message: "the agents cost " + cost.Dollars() + ", the limit is " + Dollars(c.MaxCostUSD)}
	}
	return nil
}
