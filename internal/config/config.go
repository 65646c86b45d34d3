// Package config owns the settings of a run: every one stands once, in the struct that a run is started with and that its
// state file keeps.
package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/loop/gate"
	"descartes/tasks"
	"descartes/verify"
)

// Settings is all that a start is asked for: what the run keeps, and what is only for the start itself.
//
// A setting is one line here, and its use. The tags of its field say the rest:
//
//	json     its name in the state file, and its key in descartes.yaml below those of the structs around it
//	yaml     that key where it is another; "-" where descartes.yaml has none
//	flag     its flag, and DESCARTES_<FLAG> in the environment; two settings may share one, whose help stands at the first
//	help     of the flag and the schema; arg is the word in it that names the flag's value; short is the flag's letter
//	default  the value without any other; open is what a run takes for a zero value, which config show prints
//	type     how it is written where the type of the field does not say it: see parse
//	words    all the values there are, with | between them
//	least    the smallest number that it may be
//	in       where it counts: tag or prompt for one kind of loop alone, gate for what ends a prompt loop, mode for plan,
//	         build and prompt, resume for what a resumed loop may be given anew, spec for descartes spec, look for the commands that look at a
//	         list and graph for those that read its graph; run for the commands that run something alone, build for that one alone
//	from     the flag whose text becomes its value in another way than by being read
//	power    yes for what says which commands run, or what they may touch: a start names its changes in descartes.yaml
//
// A struct without tags of these is a group: its json name begins the keys of its settings, as in "git.hooks".
type Settings struct {
	Config
	Start
}

// Start is what is only for the start of a run, and not kept.
type Start struct {
	Dir        string   `flag:"working-dir" default:"." arg:"directory" in:"mode resume spec look" help:"work as if started in this directory"`
	File       string   `flag:"config" arg:"file" in:"mode spec" help:"settings file (default: descartes.yaml in the project)"`
	PromptFile string   `flag:"prompt-file" arg:"file" help:"repeat the prompt in this file; - is standard input"`
	Isolated   bool     `flag:"isolated" default:"true" in:"prompt" help:"each iteration is a fresh agent"`
	Template   string   `flag:"spec-template" arg:"file" in:"tag spec" help:"template file with {task} {plan} {custom} {verification}"`
	NoCommit   bool     `flag:"no-commit" in:"mode" help:"commit nothing"`
	Criterion  []string `flag:"criterion" type:"lines" arg:"criterion" in:"gate mode" help:"criterion that must be met, or \"text :: command\" that the loop runs itself; may be repeated"`
	ShapeFile  string   `flag:"shape-file" arg:"file" in:"gate mode" help:"file with criteria, mustNot and verification (default: .loop/shape/SHAPE.md or SHAPE.md)"`
	Yes        bool     `flag:"yes" in:"gate mode resume" help:"answer the question of the loop's gate with yes"`
	Name       string   `flag:"name" in:"run mode resume" help:"name of the loop: a-z, 0-9 and - (default: drawn)"`
	StatePath  string   `flag:"state-file" arg:"file" in:"run mode resume" help:"file of the loop's state (default: .descartes/loop-state.json)"`
	DryRun     bool     `flag:"dry-run" in:"run mode" help:"check everything, print what would be done, and touch nothing"`
	Detach     bool     `flag:"detach" in:"run mode resume" help:"run in the background once the first attempt begins, and print how to follow it"`
	JSON       bool     `flag:"json" in:"run mode resume" help:"print the events as JSON lines on stdout, people's text on stderr"`
	Times      bool     `flag:"times" default:"true" in:"run mode resume" help:"say what happens with its time, at the beginning of the line"`
	Plain      bool     `flag:"plain" in:"run resume" help:"a line for each event instead of the live view, also at a terminal"`
	JUnit      string   `flag:"junit" arg:"file" in:"run mode resume" help:"write a JUnit report to this file at the end"`
	Summary    string   `flag:"summary" arg:"file" in:"run mode resume" help:"write a summary in Markdown to this file at the end"`
	OkExit     []string `flag:"ok-exit" type:"words" arg:"codes" in:"run mode resume" help:"exit with 0 instead of these codes, such as 6 for a nightly job that its deadline ends"`
	Trust      string   `flag:"trust" arg:"digest" in:"mode" help:"trust what the settings file asks for outside the sandbox, if this is its digest (descartes trust --digest)"`
	CI         bool     `flag:"ci" in:"mode resume" help:"for a job without a person: plain output, and --on-limit stop unless that is given"`
}

// Config is what a loop was asked to do, in the field names of the state file's "config". It is
// saved, so that resuming goes on with it.
type Config struct {
	Command           string         `json:"command" flag:"command" power:"yes" arg:"line" in:"mode" help:"agent's command line, e.g. \"claude -p\""`
	Args              []string       `json:"args,omitempty" power:"yes" help:"further arguments of the agent's command"`
	Prompt            string         `json:"prompt,omitempty" flag:"prompt" help:"repeat this prompt; - reads it from standard input"`
	CompletionPromise string         `json:"completion_promise,omitempty" flag:"completion-promise" default:"COMPLETE" in:"mode" help:"text that signals completion; empty: exit status 0 does"`
	MaxIterations     int            `json:"max_iterations,omitempty" flag:"max-iterations" open:"20" least:"1" in:"mode resume" help:"iterations of a prompt loop (default 20); over a tag like --max-total-iterations"`
	IterationContext  bool           `json:"include_iteration_context" flag:"iteration-context" default:"true" in:"prompt" help:"tell the agent from its second iteration on where it stands"`
	WorkingDirectory  string         `json:"working_directory,omitempty" from:"working-dir" power:"yes" help:"where the agent of a prompt loop works"`
	TimeoutSecs       int            `json:"iteration_timeout_secs,omitempty" flag:"timeout" type:"secs" in:"mode resume" help:"longest run of an agent, in seconds or like 20m (default: none)"`
	IdleTimeoutSecs   int            `json:"idle_timeout_secs,omitempty" flag:"idle-timeout" type:"secs" default:"15m" in:"mode resume" help:"longest time an agent may print nothing; 0: any"`
	StartTimeoutSecs  int            `json:"start_timeout_secs,omitempty" flag:"start-timeout" type:"secs" default:"2m" in:"mode resume" help:"longest time to an agent's first event; 0: any"`
	ExitGraceSecs     int            `json:"exit_grace_secs,omitempty" flag:"exit-grace" type:"secs" default:"10s" in:"mode resume" help:"longest time from an agent's last event to its exit; 0: any"`
	SpinLimit         int            `json:"spin_limit,omitempty" flag:"spin-limit" default:"20" least:"0" in:"mode resume" help:"steps in a row in which an agent may get nothing done; 0: any number"`
	VerifyTimeoutSecs int            `json:"verify_timeout_secs,omitempty" flag:"verify-timeout" type:"secs" default:"30m" in:"mode resume" help:"longest run of the verify command; 0: any"`
	VerifyIdleSecs    int            `json:"verify_idle_timeout_secs,omitempty" flag:"verify-idle-timeout" type:"secs" default:"15m" in:"mode resume" help:"longest time the verify command may print nothing; 0: any"`
	Checks            []verify.Check `json:"verify,omitempty" type:"checks" power:"yes" help:"what decides whether a task is done: a command, or a list of checks {name, run, timeout, when: attempt|merge|wave|end, retry, results}; --verify replaces them"`
	AllChecks         bool           `json:"all_checks,omitempty" flag:"all-checks" in:"mode resume" help:"run the other checks too after one has failed"`
	Baseline          string         `json:"baseline,omitempty" flag:"baseline" words:"require|warn|known|off" open:"require" in:"mode resume" help:"when the verify command fails before the first attempt: require ends the run, warn goes on, known goes on and lets fail what failed then and nothing more, off does not run it (default: require; of a prompt loop off)"`
	Require           string         `json:"require,omitempty" flag:"require" words:"verified" in:"tag resume" help:"verified: an attempt that turned no test from red to green and added none has failed, where the results of tests are known"`
	Breaker           int            `json:"breaker,omitempty" flag:"breaker" type:"breaker" open:"3" in:"mode resume" help:"stop when so many tasks in a row fail in the same way, or their agents crash or do nothing; off: never (default: 3)"`
	Deadline          *time.Time     `json:"deadline,omitempty" yaml:"-" flag:"deadline" type:"deadline" in:"mode resume" help:"start no attempt after this time: RFC 3339, HH:MM, or a duration like 8h"`
	Notify            []string       `json:"notify,omitempty" flag:"notify" type:"lines" power:"yes" arg:"target" in:"mode resume" help:"call a person: a target is a shell command that gets the event as JSON on stdin, a webhook's URL, ntfy:TOPIC, slack:URL, discord:URL, telegram:TOKEN@CHAT, desktop, or bell; may be repeated, and name variables as $NAME"`
	NotifyOn          []string       `json:"notify_on,omitempty" flag:"notify-on" type:"words" arg:"events" in:"mode resume" help:"call only for these events: finished, blocked, question, quota, breaker (default: all)"`
	MaxCostUSD        float64        `json:"max_cost_usd,omitempty" flag:"max-cost" arg:"dollars" in:"mode resume" help:"stop when the agents have cost this many dollars"`
	MaxCostPerTask    float64        `json:"max_cost_per_task_usd,omitempty" yaml:"max_cost_per_task" flag:"max-cost-per-task" arg:"dollars" in:"tag resume" help:"give a task no further attempt when its attempts have cost this many dollars"`
	OnLimit           string         `json:"on_limit,omitempty" flag:"on-limit" words:"wait|stop|fallback" open:"wait" in:"mode resume" help:"when the provider's quota is used up: wait, stop, or fallback to the next backend (default: wait, with --fallback fallback)"`
	MaxWaitSecs       int            `json:"max_wait_secs,omitempty" yaml:"max_wait" flag:"max-wait" type:"duration" default:"6h" in:"mode resume" help:"longest waiting for a provider; a reset further away ends the run; 0: any"`
	Fallback          []string       `json:"fallback,omitempty" flag:"fallback" type:"words" power:"yes" arg:"backends" in:"mode resume" help:"backends that take over, in this order, when one is out of quota, keeps failing or cannot be used"`
	AllowDirty        bool           `json:"allow_dirty,omitempty" flag:"allow-dirty" in:"mode resume" help:"start with uncommitted changes; they are kept and not committed"`
	Backend           BackendConfig  `json:"backend"`
	SettingsFile      string         `json:"settings_file,omitempty" yaml:"-"` // that was named in place of descartes.yaml; absolute
	Parallel          int            `json:"parallel,omitempty" flag:"parallel" short:"j" open:"1" least:"1" in:"mode resume" help:"agents that work at the same time, each in a copy of the project of its own (default 1: in your working tree)"`
	Isolate           bool           `json:"isolate,omitempty" flag:"isolate" in:"mode resume" help:"a copy of the project for the agent, also where only one works at a time"`
	Candidates        int            `json:"candidates,omitempty" flag:"candidates" open:"1" least:"1" in:"tag resume" help:"attempts at each task at the same time, each in a copy of the project, of which one is taken; with --fallback each is another backend's (default 1); a task's own candidates says otherwise"`
	Pick              string         `json:"pick,omitempty" flag:"pick" words:"first|smallest" open:"first" in:"tag resume" help:"which candidate is taken: the first that is verified, or of all that are the one with the smallest diff (default: first)"`
	MostCandidates    int            `json:"most_candidates,omitempty" yaml:"-"` // of any task
	Barrier           bool           `json:"barrier,omitempty" flag:"barrier" in:"tag resume" help:"finish each wave before the next begins"`
	RespectScope      bool           `json:"respect_scope,omitempty" flag:"respect-scope" in:"tag resume" help:"with -j, never run two tasks at once that are likely to change the same files"`
	Pool              PoolConfig     `json:"pool"`
	Git               GitConfig      `json:"git"`
	Scud              ScudConfig     `json:"scud"`
	SafetyConfig
	GuardConfig

	RepeatConfig

	ProofConfig

	Receipts Receipts `json:"receipts"`

	Prices agent.Prices `json:"prices,omitempty" type:"prices" help:"prices of models in dollars per million tokens, for clients that tell only their tokens"`
	Mask   []string     `json:"mask,omitempty" type:"mask" power:"yes" help:"variables whose values are secret; !NAME: is not; off: nothing is"`

	Backends   map[string]agent.Row `json:"backends,omitempty" type:"backends" power:"yes" help:"what is changed about backends, or added to them"`
	Models     map[string]Models    `json:"models,omitempty" yaml:"-"` // by backend; of its row in backends
	ModelTiers map[string]string    `json:"model_tiers,omitempty" help:"models of the settings' backend, by the word of a task's model_tier"`
	AgentTypes map[string]AgentType `json:"agent_types,omitempty" power:"yes" help:"backend, model and tier by the word of a task's agent_type"`
}

// RepeatConfig is what only a prompt loop asks.
type RepeatConfig struct {
	Gate                string `json:"gate,omitempty" flag:"gate" words:"promise|status|criteria" open:"promise" in:"gate mode" help:"what ends a prompt loop: promise, status or criteria (default: the promise)"`
	PromptHandoff       string `json:"handoff_path,omitempty" yaml:"-" flag:"handoff" type:"path"`
	AutoTune            bool   `json:"auto_tune,omitempty" yaml:"-" flag:"auto-tune"`
	Replan              bool   `json:"replan,omitempty" yaml:"-" flag:"replan" in:"build" help:"plan again where nothing is unchecked but tests fail, or a spec has no place in the plan"`
	PlanPrompt          string `json:"plan_prompt,omitempty" yaml:"-"` // with which a build plans again
	StateFile           string `json:"state_file,omitempty" open:".descartes/loop-state.json" power:"yes" help:"file of a prompt loop's state"`
	ContinueSession     bool   `json:"continue_session,omitempty" flag:"continue" in:"prompt" help:"each iteration goes on with the conversation of the one before, where the backend can"`
	VerificationCommand string `json:"verification_command,omitempty" flag:"verify" power:"yes"` // "" and "none" verify nothing; a tag's is in Scud

	GateConfig
}

// GateConfig is what the status and criteria gates are made of.
type GateConfig struct {
	Criteria      []gate.Criterion `json:"criteria,omitempty" type:"criteria" from:"criterion" power:"yes" help:"what must be met, each a text, or \"text :: command\" that the loop runs itself"`
	MustNot       []gate.Criterion `json:"must_not,omitempty" yaml:"mustNot" type:"criteria" power:"yes" help:"what must not be met, as criteria"`
	Shape         string           `json:"shape,omitempty" flag:"shape" words:"auto|tool|colleague|intent" in:"gate mode" help:"how much a criteria loop asks: auto, tool, colleague or intent"`
	Reversibility string           `json:"reversibility,omitempty" flag:"reversibility" in:"gate mode" help:"how hard the work is to take back: 2A, 2B or 1 (default: read from the prompt)"`
	Precheck      string           `json:"precheck,omitempty" flag:"precheck" power:"yes" arg:"command" in:"gate mode" help:"command that must agree before work of type 1; agent: the agent is asked"`
	NoConfirm     bool             `json:"no_confirm,omitempty" flag:"no-confirm" in:"gate mode resume" help:"proceed without confirmation: G1, G2 and G3 do not ask"`
	CooldownSecs  int              `json:"cooldown_secs,omitempty" flag:"cooldown" type:"cooldown" open:"30m" in:"gate mode resume" help:"how long a circuit breaker that has opened stays open (default 30m)"`
	MaxFileEdits  int              `json:"max_file_edits,omitempty" flag:"max-file-edits" in:"gate mode resume" help:"edits of one file in one iteration at which a criteria loop stops (default 5; -1: any number)"`
	LoopState     string           `json:"loop_state,omitempty" flag:"loop-state" words:"keep|delete" in:"gate mode" help:"what becomes of .loop/state.json at the end: keep or delete"`
}

// BackendConfig says how the agent is called.
type BackendConfig struct {
	Type         string            `json:"backend_type" flag:"backend" power:"yes" in:"mode" help:"agent's kind: {backends} (default: told from the command, else claude)"`
	PromptMode   string            `json:"prompt_mode" flag:"prompt-mode" power:"yes" in:"mode" help:"how the agent gets its prompt: stdin, arg, env or file (default: the backend's)"`
	OutputFormat string            `json:"output_format" power:"yes" help:"what the agent prints: stream-json, json or text (default: the backend's)"`
	Environment  map[string]string `json:"environment,omitempty" power:"yes" help:"variables that the agent gets besides"`
	Model        string            `json:"model,omitempty" flag:"model" power:"yes" in:"mode" help:"model that the agent is asked to use"`
}

// GitConfig says what is committed.
type GitConfig struct {
	AutoCommit     bool   `json:"auto_commit" flag:"auto-commit"` // each iteration of a prompt loop
	CommitTemplate string `json:"commit_template,omitempty" flag:"commit-template" open:"loop: iteration {iteration}" arg:"message" help:"commit message with {iteration} {timestamp} {tag} {wave} (default of a prompt loop: loop: iteration {iteration})"`
	CreateBranch   bool   `json:"create_branch,omitempty" flag:"create-branch" in:"mode" help:"make a branch at HEAD and work on it"`
	BranchTemplate string `json:"branch_template,omitempty" flag:"branch-template" open:"loop/{timestamp}" arg:"name" in:"mode" help:"its name, with the same braces (default loop/{timestamp})"`
	Hooks          string `json:"hooks,omitempty" flag:"hooks" words:"run|skip|fail" default:"run" power:"yes" in:"mode resume" help:"git hooks at a wave's commit: run, skip or fail"`
	HookTimeout    int    `json:"hook_timeout_secs,omitempty" yaml:"hook_timeout" flag:"hook-timeout" type:"duration" default:"10m" in:"mode resume" help:"longest run of a git command with its hooks, filters and signing; 0: any"`
	Branch         string `json:"branch,omitempty" flag:"branch" arg:"branch" in:"mode" help:"make this branch at HEAD and work on it"`
	Push           bool   `json:"push,omitempty" flag:"push" power:"yes" in:"mode resume" help:"push the branch and the kept attempts when the run ends, whatever ended it"`
	CostTrailer    bool   `json:"cost_trailer,omitempty" flag:"cost-trailer" in:"tag" help:"say in each wave's commit what its tasks cost, as Descartes-Cost"`
}

// Slots is how many agents work at a time, each in a copy of the project; 0: one in the working tree.
func (c *Config) Slots() int {
	if n := max(1, c.Parallel, c.MostCandidates); n > 1 || c.Isolate {
		return n
	}
	return 0
}

// TasksAtOnce is how many tasks are worked on at the same time.
func (c *Config) TasksAtOnce() int { return max(1, c.Parallel) }

// CandidatesOf is how many attempts are made at a task at the same time.
func (c *Config) CandidatesOf(t *tasks.Task) int { return max(1, cmp.Or(t.Candidates, c.Candidates)) }

// ChoicesOf lists what a candidate may be run with, best first: they begin with one after the other of the backends.
func (c *Config) ChoicesOf(t *tasks.Task, candidate int) []Choice {
	all := c.Choices(t)
	if candidate > 1 {
		at := (candidate - 1) % len(all)
		all = slices.Concat(all[at:], all[:at])
	}
	return all
}

// Receipts says what is kept as proof of a task's work, and whose signature counts for who checks it again.
type Receipts struct {
	Write   bool   `json:"write" default:"true" help:"write receipts of done tasks: as git notes (refs/notes/descartes) and in .descartes/receipts"`
	Sign    bool   `json:"sign,omitempty" help:"sign receipts with git's signing key: user.signingkey, gpg.format ssh or openpgp"`
	Signers string `json:"signers,omitempty" type:"path" help:"file of allowed signers, as ssh has it: recheck refuses receipts that none of them signed"`
}

// PoolConfig says how the copies of the project are made in which agents work side by side.
type PoolConfig struct {
	MaxCopy      int64  `json:"max_copy" type:"size" default:"5G" help:"most that is copied into each of the files that git ignores, like 5G; 0: nothing"`
	Setup        string `json:"setup,omitempty" power:"yes" help:"command that is run once in each copy, and again when a lock file of a package manager changed"`
	SetupTimeout int    `json:"setup_timeout_secs,omitempty" yaml:"setup_timeout" type:"duration" default:"10m" help:"longest run of that command"`
	Fresh        bool   `json:"fresh,omitempty" help:"remove ignored files from a copy between attempts"`
}

// ScudConfig is the part of a loop over a tag.
type ScudConfig struct {
	Tag                  string     `json:"tag" flag:"scud-tag" arg:"tag" in:"spec look" help:"run the tasks of this tag"`
	TasksFile            string     `json:"tasks_file,omitempty" flag:"tasks-file" type:"path" arg:"file" in:"tag spec look" help:"task list file of any known format (default: where the tag is found)"`
	PlanPath             string     `json:"plan_path,omitempty" flag:"plan" type:"path" arg:"file" in:"tag spec graph" help:"implementation plan file; each task is given its section"`
	HandoffPath          string     `json:"handoff_path,omitempty" flag:"handoff" type:"path" arg:"file" in:"mode spec" help:"file with what a next session needs: in every task's spec, and written when a loop stops with work left"`
	MaxIterationsPerTask int        `json:"max_iterations_per_task" flag:"max-attempts" default:"3" least:"1" in:"tag resume spec" help:"attempts per task"`
	MaxTotalIterations   int        `json:"max_total_iterations" flag:"max-total-iterations" open:"100" least:"0" in:"tag resume" help:"attempts in all (default: 100, or three for each task if that is more)"`
	UseSubAgents         bool       `json:"use_sub_agents" default:"true" help:"the agent may use agents of its own"`
	VerificationCommand  string     `json:"verification_command" flag:"verify" power:"yes" arg:"command" in:"mode spec" help:"command that decides whether a task is done; none: the agent's word is enough (default: found from the project)"`
	AutoCommitWaves      bool       `json:"auto_commit_waves" flag:"auto-commit" default:"true" help:"commit each wave; each iteration of a prompt loop (there false unless given)"`
	RetryBlocked         bool       `json:"retry_blocked,omitempty" flag:"retry-blocked" in:"tag resume" help:"try blocked tasks again"`
	AutoTune             bool       `json:"auto_tune,omitempty" flag:"auto-tune" in:"mode resume" help:"have a second agent review each failed attempt, and give its advice to the later ones"`
	Chain                bool       `json:"chain,omitempty" flag:"chain" in:"tag resume" help:"a task whose only dependency was done by the loop goes on in the session of that agent, where the client can; a task's own chain says otherwise"`
	OpenInDone           bool       `json:"open_in_done,omitempty" flag:"open-in-done" in:"tag spec graph" help:"open subtasks of a task that is done are work to do"`
	Spec                 SpecConfig `json:"spec"`
}

// SpecConfig says what a spec is made of.
type SpecConfig struct {
	IncludeTask        bool     `json:"include_task" default:"true" help:"the task stands in its spec"`
	IncludePlanSection bool     `json:"include_plan_section" default:"true" help:"the task's section of the plan stands in its spec"`
	AdditionalSpecs    []string `json:"additional_specs,omitempty" flag:"spec-file" type:"paths" arg:"file" in:"tag spec" help:"extra file in every task's spec; may be repeated"`
	MaxSpecTokens      int      `json:"max_spec_tokens,omitempty" flag:"max-spec-tokens" default:"5000" least:"0" in:"tag spec" help:"warn of a spec with more tokens than this"`
	Cut                bool     `json:"cut,omitempty" flag:"spec-budget" type:"cut" words:"warn|cut" in:"tag spec" help:"warn or cut: what happens to a spec over --max-spec-tokens"`
	SpecTemplate       string   `json:"spec_template,omitempty" from:"spec-template" power:"yes" help:"template with {task} {plan} {custom} {verification}"`
}

// SafetyConfig says what agents and verify commands may touch, see and use up.
type SafetyConfig struct {
	Sandbox        string   `json:"sandbox,omitempty" flag:"sandbox" words:"auto|strict|off" default:"auto" power:"yes" in:"mode resume" help:"what agents and verify commands may touch: auto holds them in where this machine can, strict or nothing runs, off does not"`
	SandboxInForce string   `json:"sandbox_in_force,omitempty" yaml:"-"` // what it came to on this machine, in words
	SandboxDomains []string `json:"sandbox_domains,omitempty" power:"yes" help:"hosts that a strict sandbox reaches besides"`
	SandboxWrite   []string `json:"sandbox_write,omitempty" power:"yes" help:"places outside the working tree that may be written"`
	SandboxRead    []string `json:"sandbox_read,omitempty" power:"yes" help:"hidden places that may be read"`
	VerifyNetwork  bool     `json:"verify_network,omitempty" power:"yes" help:"the verify command reaches the network from a strict sandbox too"`
	VerifyEnv      string   `json:"verify_env,omitempty" words:"list|inherit" power:"yes" help:"variables of the verify command: inherit is all, list those that agents get"`
	Env            string   `json:"env,omitempty" flag:"env" words:"open|strict" open:"open" power:"yes" in:"mode resume" help:"variables that agents and verify commands get: open is all but credentials, strict is those of a list (default: open; strict with --sandbox strict)"`
	EnvPass        []string `json:"env_pass,omitempty" flag:"env-pass" type:"words" power:"yes" arg:"variables" in:"mode resume" help:"variables that agents and verify commands get besides: NAME or PREFIX_*; may be repeated"`
	MaxMemory      int64    `json:"max_memory,omitempty" flag:"max-memory" type:"size" in:"mode resume" help:"end an attempt whose processes use more memory than this, like 4G (default: no limit)"`
	MaxProcs       int      `json:"max_procs,omitempty" flag:"max-procs" least:"0" in:"mode resume" help:"end an attempt that has more processes, threads included, at a time (default: no limit)"`
	MinFreeDisk    int64    `json:"min_free_disk,omitempty" flag:"min-free-disk" type:"size" default:"200M" in:"mode resume" help:"start no attempt with less free disk space; 0: whatever is free"`
}

// InSandbox ends the words for a sandbox that is in force.
const InSandbox = "(bubblewrap, "

// Confined reports whether agents and verify commands run in a sandbox on this machine.
func (c *SafetyConfig) Confined() bool { return strings.Contains(c.SandboxInForce, InSandbox) }

// StrictEnv reports whether only the variables of a list are passed on to agents and verify commands.
func (c *SafetyConfig) StrictEnv() bool {
	return c.Env == EnvStrict || c.Env == "" && c.Sandbox == "strict"
}

// What is passed on of the caller's variables where nothing is said of one.
const (
	EnvOpen   = "open"
	EnvStrict = "strict"
)

// NoVerify is the verification command that asks for none.
const NoVerify = "none"

// ChecksOf are the checks that decide about the work of a run over a tag, or of a prompt, in the order in which they are run: by the
// points of a run, then as they are listed. None verify nothing. One command is a check without a name.
func (c *Config) ChecksOf(tag bool) (list []verify.Check) {
	command := c.VerificationCommand
	if tag {
		command = c.Scud.VerificationCommand
	}
	switch command {
	case NoVerify:
		return nil
	case "":
		for _, when := range verify.Whens() {
			for _, one := range c.Checks {
				if one.At(when) {
					list = append(list, one)
				}
			}
		}
		return list
	}
	return []verify.Check{{Run: command}}
}

// Promised reports whether the promise alone ends the loop.
func (c *Config) Promised() bool { return c.Gate == "" || c.Gate == "promise" }

// Promise is the word that the agent is asked for; another gate asks for none.
func (c *Config) Promise() string {
	if !c.Promised() {
		return ""
	}
	return c.CompletionPromise
}
