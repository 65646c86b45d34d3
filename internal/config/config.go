// Package config owns the settings of a run: every one stands once, in the struct that a run is started with and that its
// state file keeps.
package config

import (
	"strings"
	"time"

	"descartes/agent"
	"descartes/loop/gate"
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

// GateConfig is what the status and criteria gates are made of.
type GateConfig struct {
	Criteria      []gate.Criterion `json:"criteria,omitempty"`
	MustNot       []gate.Criterion `json:"must_not,omitempty"`
	Shape         string           `json:"shape,omitempty"`          // auto, tool, colleague or intent; "" is auto
	Reversibility string           `json:"reversibility,omitempty"`  // 2A, 2B or 1; "" is read from the prompt
	Precheck      string           `json:"precheck,omitempty"`       // a command, or "agent", that must agree before work that is hard to take back
	NoConfirm     bool             `json:"no_confirm,omitempty"`     // G1, G2 and G3 do not ask
	CooldownSecs  int              `json:"cooldown_secs,omitempty"`  // how long the status gate's circuit breaker stays open; 0 is half an hour
	MaxFileEdits  int              `json:"max_file_edits,omitempty"` // of one file in one iteration, until the criteria gate's breaker opens; 0 is 5, less is any number
	LoopState     string           `json:"loop_state,omitempty"`     // what becomes of .loop/state.json: keep, delete; "": kept, but for a cancelled loop's
}

// SafetyConfig says what agents and verify commands may touch, see and use up.
type SafetyConfig struct {
	Sandbox        string   `json:"sandbox,omitempty"`          // auto, strict or off
	SandboxInForce string   `json:"sandbox_in_force,omitempty"` // what it came to on this machine, in words
	SandboxDomains []string `json:"sandbox_domains,omitempty"`  // hosts that a strict sandbox reaches besides
	SandboxWrite   []string `json:"sandbox_write,omitempty"`    // places outside the working tree that may be written
	SandboxRead    []string `json:"sandbox_read,omitempty"`     // hidden places that may be read
	VerifyNetwork  bool     `json:"verify_network,omitempty"`
	VerifyEnv      string   `json:"verify_env,omitempty"` // inherit: all variables; else those of the list
	Env            string   `json:"env,omitempty"`        // open: all but credentials, strict: those of a list; "" is strict in a strict sandbox, else open
	EnvPass        []string `json:"env_pass,omitempty"`   // NAME or PREFIX_*
	MaxMemory      int64    `json:"max_memory,omitempty"` // bytes of an attempt's processes; 0 is no limit
	MaxProcs       int      `json:"max_procs,omitempty"`
	MinFreeDisk    int64    `json:"min_free_disk,omitempty"` // bytes without which no attempt starts; 0 is no check
}

// InSandbox ends the words for a sandbox that is in force.
const InSandbox = "(bubblewrap, "

// Confined reports whether agents and verify commands run in a sandbox on this machine.
func (c *SafetyConfig) Confined() bool { return strings.Contains(c.SandboxInForce, InSandbox) }

// Promised reports whether the promise alone ends the loop.
func (c *Config) Promised() bool { return c.Gate == "" || c.Gate == "promise" }

// Promise is the word that the agent is asked for; another gate asks for none.
func (c *Config) Promise() string {
	if !c.Promised() {
		return ""
	}
	return c.CompletionPromise
}
