// Package config owns the settings of a run. Every setting is declared once, in the struct that starts a run and that
// its state file keeps.
package config

import (
	"cmp"
	"strings"
	"time"

	"descartes/agent"
	"descartes/loop/gate"
	"descartes/verify"
)

// Settings is everything that starts a run: what the run keeps, and what only the start needs.
//
// A setting is one line here, and its use. The tags of its field say the rest:
//
//	json     its name in the state file, and its key in descartes.yaml below those of the structs around it
//	yaml     that key where it differs; "-" where descartes.yaml has none
//	flag     its flag; --set KEY=VALUE gives those without one
//	env      no: DESCARTES_<FLAG> does not set it
//	alone    the value of a flag without one
//	help     of the flag and the schema; arg is the word in it that names the flag's value; short is the flag's letter
//	default  the value where nothing sets one; open is what a run takes for a zero value, which config show prints
//	type     how it is written where the field's type does not say so: see parse
//	words    all allowed values, with | between them
//	least    the smallest allowed number
//	in       where it applies: tag or prompt for one kind of loop only, gate for what ends a prompt loop, mode for plan,
//	         build and prompt, resume for what resuming may change, spec for descartes spec, look for the commands that look at a
//	         list and graph for those that read its graph; run for the commands that run something only, build for that one only
//	from     the flag that its value is made from, other than by parsing the text
//	trust    whether descartes.yaml needs the user's trust for it: no, yes, "yes but" harmless values, confined or outside
//
// A struct without such tags is a group: its json name begins the keys of its settings, as in "git.hooks".
type Settings struct {
	Config
	Start

	flags map[*Setting]*given // of the command
	sets  []string            // --set, as KEY=VALUE
	from  map[*Setting]source
}

// Start is what only the start of a run needs, and no state file keeps.
type Start struct {
	Dir        string   `flag:"working-dir" env:"no" default:"." arg:"directory" in:"mode resume spec look" help:"work as if started in this directory"`
	File       string   `flag:"config" env:"no" arg:"file" in:"mode spec" help:"settings file (default: descartes.yaml in the project)"`
	PromptFile string   `flag:"prompt-file" env:"no" arg:"file" help:"repeat the prompt in this file; - for standard input"`
	NoCommit   bool     `flag:"no-commit" in:"mode" help:"commit nothing"`
	ShapeFile  string   `yaml:"shape_file" type:"path" trust:"outside" help:"file with criteria, mustNot and verification (default: .loop/shape/SHAPE.md or SHAPE.md)"`
	Yes        bool     `flag:"yes" env:"no" in:"gate mode resume" help:"answer yes to the gate's question"`
	Name       string   `flag:"name" env:"no" in:"run mode resume" help:"name of the run: a-z, 0-9 and - (default: drawn)"`
	StatePath  string   `flag:"state-file" env:"no" arg:"file" in:"run mode resume" help:"the run's state file (default: .descartes/loop-state.json)"`
	DryRun     bool     `flag:"dry-run" env:"no" in:"run mode" help:"check everything, print what would be done, and touch nothing"`
	Detach     bool     `flag:"detach" env:"no" in:"run mode resume" help:"run in the background once the first attempt starts, and print how to follow it"`
	JSON       bool     `flag:"json" env:"no" in:"run mode resume" help:"print events as JSON lines on stdout, everything else on stderr"`
	Times      bool     `yaml:"times" default:"true" in:"resume" trust:"no" help:"begin each line with the time"`
	Plain      bool     `flag:"plain" in:"run resume" help:"print a line for each event instead of the live view, even at a terminal"`
	JUnit      string   `flag:"junit" arg:"file" in:"run mode resume" help:"write a JUnit report to this file at the end"`
	Summary    string   `flag:"summary" arg:"file" in:"run mode resume" help:"write a summary in Markdown to this file at the end"`
	OkExit     []string `flag:"ok-exit" type:"words" arg:"codes" in:"run mode resume" help:"exit with 0 instead of these codes, such as 6 for a nightly job that stops at its deadline"`
	Trust      string   `flag:"trust" arg:"digest" in:"mode" help:"trust what the settings file asks for, if this is its digest (descartes trust --digest)"`
	KeepAwake  bool     `yaml:"keep_awake" flag:"keep-awake" default:"true" in:"run mode resume" trust:"no" help:"keep the machine from going to sleep while a run works (systemd-inhibit, caffeinate); --keep-awake=false lets it"`
	CI         bool     `flag:"ci" in:"mode resume" help:"for unattended jobs: plain output, and --on-limit stop unless --on-limit is given"`
}

// Config is what a loop was asked to do, in the field names of the state file's "config". It is saved so that
// resuming uses the same settings.
type Config struct {
	Command           string         `json:"command" flag:"command" arg:"line" in:"mode" trust:"yes" help:"agent's command line, e.g. \"claude -p\""`
	Args              []string       `json:"args,omitempty" trust:"yes" help:"more arguments for the agent's command"`
	Prompt            string         `json:"prompt,omitempty" flag:"prompt" env:"no" trust:"no" help:"repeat this prompt; - reads it from standard input"`
	CompletionPromise string         `json:"completion_promise,omitempty" flag:"completion-promise" default:"COMPLETE" in:"mode" trust:"no" help:"text that signals completion; if empty, exit status 0 does"`
	MaxIterations     int            `json:"max_iterations,omitempty" flag:"max-iterations" open:"20" least:"1" in:"mode resume" trust:"no" help:"iterations of a prompt loop (default 20); over a tag like --max-total-iterations"`
	IterationContext  bool           `json:"include_iteration_context" default:"true" in:"prompt" trust:"no" help:"from the second iteration on, tell the agent which iteration it is in"`
	WorkingDirectory  string         `json:"working_directory,omitempty" from:"working-dir" trust:"outside" help:"directory in which a prompt loop's agent works"`
	TimeoutSecs       int            `json:"iteration_timeout_secs,omitempty" flag:"timeout" type:"time" in:"mode resume" trust:"no" help:"time limit for one run of an agent, in seconds or like 20m (default: none)"`
	IdleTimeoutSecs   int            `json:"idle_timeout_secs,omitempty" flag:"idle-timeout" type:"time" default:"15m" in:"mode resume" trust:"no" help:"end an agent that prints nothing for this long; 0: never"`
	StartTimeoutSecs  int            `json:"start_timeout_secs,omitempty" type:"time" default:"2m" in:"mode resume" trust:"no" help:"end an agent without a first event for this long; 0: never"`
	ExitGraceSecs     int            `json:"exit_grace_secs,omitempty" type:"time" default:"10s" in:"mode resume" trust:"no" help:"end an agent that still runs this long after its last event; 0: never"`
	SpinLimit         int            `json:"spin_limit,omitempty" default:"20" least:"0" in:"mode resume" trust:"no" help:"end an agent after this many steps in a row that got nothing done; 0: never"`
	VerifyTimeoutSecs int            `json:"verify_timeout_secs,omitempty" type:"time" default:"30m" in:"mode resume" trust:"no" help:"time limit for the verify command; 0: none"`
	VerifyIdleSecs    int            `json:"verify_idle_timeout_secs,omitempty" type:"time" default:"15m" in:"mode resume" trust:"no" help:"end a verify command that prints nothing for this long; 0: never"`
	Checks            []verify.Check `json:"verify,omitempty" type:"checks" flag:"verify" arg:"command" in:"mode spec" trust:"confined" help:"command that decides whether a task is done; none: the agent's word is enough (default: found from the project); in descartes.yaml also a list of checks {name, run, timeout, when: attempt|wave|end, retry, results}"`
	AllChecks         bool           `json:"all_checks,omitempty" in:"mode resume" trust:"no" help:"run the remaining checks even after one has failed"`
	Baseline          string         `json:"baseline,omitempty" flag:"baseline" words:"require|warn|known|off" open:"require" in:"mode resume" trust:"no" help:"when the verify command fails before the first attempt: require ends the run, warn continues, known continues and later accepts only the same failures, off does not run it (default: require; off for a prompt loop)"`
	Commit            string         `json:"commit,omitempty" words:"wave|task" open:"wave" in:"tag resume" trust:"no" help:"what a commit has: wave, all that a wave verified, or task, one verified task, for review by task (default: wave)"`
	Require           string         `json:"require,omitempty" words:"verified" in:"tag resume" trust:"no" help:"verified: where test results are known, fail an attempt that neither turned a test from red to green nor added one"`
	Breaker           int            `json:"breaker,omitempty" flag:"breaker" type:"breaker" open:"3" in:"mode resume" trust:"no" help:"stop when this many tasks in a row fail in the same way, or their agents crash or do nothing; off: never (default: 3)"`
	Deadline          *time.Time     `json:"deadline,omitempty" yaml:"-" flag:"deadline" type:"deadline" arg:"time" in:"mode resume" help:"start no attempt after this time: RFC 3339, HH:MM, or a duration like 8h"`
	Notify            []string       `json:"notify,omitempty" flag:"notify" type:"lines" arg:"target" in:"mode resume" trust:"yes but bell desktop" help:"notify a person: a target is a shell command that gets the event as JSON on stdin, a webhook's URL, ntfy:TOPIC, slack:URL, discord:URL, telegram:TOKEN@CHAT, desktop, or bell; may be repeated, and may use variables as $NAME"`
	NotifyOn          []string       `json:"notify_on,omitempty" type:"words" arg:"events" in:"mode resume" trust:"no" help:"notify only of these events: finished, blocked, question, quota, breaker (default: all)"`
	MaxCostUSD        float64        `json:"max_cost_usd,omitempty" flag:"max-cost" arg:"dollars" in:"mode resume" trust:"no" help:"stop when the agents have cost this many dollars"`
	MaxCostPerTask    float64        `json:"max_cost_per_task_usd,omitempty" yaml:"max_cost_per_task" arg:"dollars" in:"tag resume" trust:"no" help:"start no further attempt at a task that has cost this many dollars"`
	OnLimit           string         `json:"on_limit,omitempty" flag:"on-limit" words:"wait|stop|fallback" open:"wait" in:"mode resume" trust:"no" help:"when the provider's quota is used up: wait, stop, or fallback to the next backend (default: wait; with --fallback, fallback)"`
	MaxWaitSecs       int            `json:"max_wait_secs,omitempty" yaml:"max_wait" type:"time" default:"6h" in:"mode resume" trust:"no" help:"longest wait for a provider; a later reset ends the run; 0: no limit"`
	Fallback          []string       `json:"fallback,omitempty" flag:"fallback" type:"words" arg:"backends" in:"mode resume" trust:"no" help:"backends that take over, in this order, when one is out of quota, keeps failing or cannot be used"`
	AllowDirty        bool           `json:"allow_dirty,omitempty" flag:"allow-dirty" in:"mode resume" trust:"no" help:"accepted, and means nothing: your uncommitted changes are kept and not committed"`
	Backend           BackendConfig  `json:"backend"`
	// absolute; used instead of descartes.yaml
	SettingsFile string     `json:"settings_file,omitempty" yaml:"-"`
	Typed        Typed      `json:"typed,omitempty" yaml:"-"`
	Parallel     int        `json:"parallel,omitempty" flag:"parallel" short:"j" open:"1" least:"1" in:"mode resume" trust:"no" help:"number of agents that work at the same time, each in its own copy of the project (default 1)"`
	Fleet        string     `json:"fleet,omitempty" flag:"fleet" alone:"default" arg:"address" in:"tag resume" trust:"yes" help:"have the workers of a fleet make the attempts, up to -j at a time (default 8); the Temporal server is at $TEMPORAL_ADDRESS, or where --fleet=ADDRESS says"`
	FleetRemote  string     `json:"fleet_remote,omitempty" arg:"remote" in:"tag resume" trust:"yes" help:"name or URL of the remote over which a fleet's machines send each other specs, results and logs (default: the branch's remote)"`
	Barrier      bool       `json:"barrier,omitempty" in:"tag resume" trust:"no" help:"finish each wave before the next begins"`
	RespectScope bool       `json:"respect_scope,omitempty" in:"tag resume" trust:"no" help:"with -j, never run two tasks at once whose scopes have files in common"`
	ChecksAtOnce int        `json:"checks_at_once,omitempty" open:"1" least:"1" in:"tag resume" trust:"no" help:"with -j, how many commits are checked at the same time, each on what those before it would make, and again if one of these fails (default 1: one port, one database, warm builds)"`
	Pool         PoolConfig `json:"pool"`
	Git          GitConfig  `json:"git"`
	Scud         ScudConfig `json:"scud,omitzero"`
	SafetyConfig
	GuardConfig

	RepeatConfig

	ProofConfig

	Receipts Receipts `json:"receipts"`

	Prices agent.Prices `json:"prices,omitempty" type:"prices" trust:"no" help:"prices of models in dollars per million tokens, for clients that report only tokens"`
	Mask   []string     `json:"mask,omitempty" type:"mask" trust:"yes" help:"variables whose values are masked in output; !NAME excepts one; off masks nothing"`

	Backends   map[string]agent.Row `json:"backends,omitempty" type:"backends" trust:"yes" help:"backends to add, and changes to built-in ones"`
	Models     map[string]Models    `json:"models,omitempty" yaml:"-"` // by backend; from its row in backends
	ModelTiers map[string]string    `json:"model_tiers,omitempty" trust:"no" help:"models of the run's backend, by a task's model_tier"`
	AgentTypes map[string]AgentType `json:"agent_types,omitempty" trust:"no" help:"backend, model and tier, by a task's agent_type"`
}

// RepeatConfig is for prompt loops only.
type RepeatConfig struct {
	Gate            string `json:"gate,omitempty" flag:"gate" words:"promise|status|criteria" open:"promise" in:"gate mode" trust:"no" help:"what ends a prompt loop: promise, status or criteria (default: the promise)"`
	PromptHandoff   string `json:"handoff_path,omitempty" type:"path" trust:"outside" help:"a prompt loop's handoff file"`
	Replan          bool   `json:"replan,omitempty" yaml:"-" flag:"replan" in:"build" help:"plan again when everything is checked off but tests fail, or when the plan leaves out a spec"`
	PlanPrompt      string `json:"plan_prompt,omitempty" yaml:"-"` // used when a build plans again
	StateFile       string `json:"state_file,omitempty" open:".descartes/loop-state.json" trust:"outside" help:"a prompt loop's state file"`
	ContinueSession bool   `json:"continue_session,omitempty" flag:"continue" in:"prompt" trust:"no" help:"each iteration continues the conversation of the one before, where the backend can"`
	// "" and "none" verify nothing; a tag's is in Scud
	VerificationCommand string `json:"verification_command,omitempty" trust:"confined" help:"a prompt loop's verify command; verify sets it too"`

	GateConfig
}

// GateConfig sets up the status and criteria gates.
type GateConfig struct {
	Criteria      []gate.Criterion `json:"criteria,omitempty" type:"criteria" flag:"criterion" arg:"criterion" in:"gate mode" trust:"confined" help:"criterion that must be met, or \"text :: command\" that descartes runs itself; may be repeated"`
	MustNot       []gate.Criterion `json:"must_not,omitempty" yaml:"mustNot" type:"criteria" trust:"confined" help:"criteria that must not be met, written like criteria"`
	Shape         string           `json:"shape,omitempty" words:"auto|tool|colleague|intent" in:"gate mode" trust:"no" help:"how much a criteria loop asks: auto, tool, colleague or intent"`
	Reversibility string           `json:"reversibility,omitempty" in:"gate mode" trust:"no" help:"how hard the work is to undo: 2A, 2B or 1 (default: read from the prompt)"`
	Precheck      string           `json:"precheck,omitempty" arg:"command" in:"gate mode" trust:"yes but agent" help:"command that must succeed before work of type 1; agent: ask the agent"`
	NoConfirm     bool             `json:"no_confirm,omitempty" flag:"no-confirm" in:"gate mode resume" trust:"yes" help:"proceed without confirmation: G1, G2 and G3 do not ask"`
	CooldownSecs  int              `json:"cooldown_secs,omitempty" type:"time" open:"30m" least:"1" in:"gate mode resume" trust:"no" help:"how long an open circuit breaker stays open (default 30m)"`
	MaxFileEdits  int              `json:"max_file_edits,omitempty" in:"gate mode resume" trust:"no" help:"stop a criteria loop after this many edits of one file in one iteration (default 5; -1: never)"`
	LoopState     string           `json:"loop_state,omitempty" words:"keep|delete" in:"gate mode" trust:"no" help:"keep or delete .loop/state.json at the end"`
}

// BackendConfig says how to call the agent.
type BackendConfig struct {
	Type         string            `json:"backend_type" flag:"backend" in:"mode" trust:"no" help:"kind of agent: {backends} (default: recognized from the command, else claude)"`
	PromptMode   string            `json:"prompt_mode" in:"mode" trust:"no" help:"how the agent gets its prompt: stdin, arg, env or file (default: the backend's)"`
	OutputFormat string            `json:"output_format" trust:"no" help:"what the agent prints: stream-json, json or text (default: the backend's)"`
	Environment  map[string]string `json:"environment,omitempty" trust:"yes" help:"extra variables for the agent"`
	Model        string            `json:"model,omitempty" flag:"model" in:"mode" trust:"no" help:"model that the agent is asked to use"`
}

// GitConfig says what to commit, and how.
type GitConfig struct {
	AutoCommit     bool   `json:"auto_commit" trust:"no" help:"commit each iteration of a prompt loop, and where scud.auto_commit_waves is not set each wave"`
	CommitTemplate string `json:"commit_template,omitempty" open:"loop: iteration {iteration}" arg:"message" trust:"no" help:"commit message with {iteration} {timestamp} {tag} {wave} (default of a prompt loop: loop: iteration {iteration})"`
	CreateBranch   bool   `json:"create_branch,omitempty" in:"mode" trust:"no" help:"create a branch at HEAD and work on it"`
	BranchTemplate string `json:"branch_template,omitempty" open:"loop/{timestamp}" arg:"name" in:"mode" trust:"no" help:"name of the new branch, with the same placeholders (default loop/{timestamp})"`
	Hooks          string `json:"hooks,omitempty" words:"run|skip|fail|outside" default:"run" in:"mode resume" trust:"yes but run skip fail" help:"git hooks: run where commits are checked, in the sandbox; skip; fail; or outside, all of them, and at a push that in the project"`
	HookTimeout    int    `json:"hook_timeout_secs,omitempty" yaml:"hook_timeout" type:"time" default:"10m" in:"mode resume" trust:"no" help:"time limit for a git command with its hooks, filters and signing; 0: none"`
	Branch         string `json:"branch,omitempty" flag:"branch" arg:"branch" in:"mode" trust:"no" help:"commit to this branch: it is made at HEAD, and one that is ahead of HEAD goes on"`
	Push           bool   `json:"push,omitempty" flag:"push" in:"mode resume" trust:"yes" help:"push the branch and the kept attempts when the run ends, for whatever reason"`
	CostTrailer    bool   `json:"cost_trailer,omitempty" in:"tag" trust:"no" help:"add a Descartes-Cost trailer to each wave's commit: what its tasks cost"`
}

// fleetAtOnce is how many tasks a fleet works on at the same time where nothing is said.
const fleetAtOnce = 8

// Slots is how many agents work at a time on a tag, each in its own copy of the project.
func (c *Config) Slots() int {
	if c.Fleet != "" {
		return cmp.Or(c.Parallel, fleetAtOnce)
	}
	return max(1, c.Parallel)
}

// LastAttempt is the number of a task's last attempt after some, of which a part counted: interrupted attempts and
// those before a retry come on top of what it is allowed.
func (c *Config) LastAttempt(begun, counted int) int {
	return begun + max(1, c.Scud.MaxIterationsPerTask-counted)
}

// Receipts says what is kept as proof of a task's work, and whose signatures count when it is rechecked.
type Receipts struct {
	Write   bool   `json:"write" default:"true" trust:"no" help:"write receipts of done tasks: as git notes (refs/notes/descartes) and in .descartes/receipts"`
	Sign    bool   `json:"sign,omitempty" trust:"no" help:"sign receipts with git's signing key: user.signingkey, gpg.format ssh or openpgp"`
	Signers string `json:"signers,omitempty" type:"path" trust:"outside" help:"file of allowed signers, in ssh's format: recheck refuses receipts that none of them signed"`
}

// PoolConfig says how to make the slots.
type PoolConfig struct {
	MaxCopy      int64    `json:"max_copy" type:"size" default:"5G" trust:"no" help:"largest amount of git-ignored files to copy into each slot, like 5G; 0: nothing"`
	Keep         []string `json:"keep" type:"patterns" default:".env*" trust:"no" help:"git-ignored files that a fresh clone would get too: the slot that checks commits has them, besides what pool.setup makes and the folders of package managers; written as in .gitignore"`
	Setup        string   `json:"setup,omitempty" trust:"yes" help:"command to run once in each slot, and again when a package manager's lock file changed"`
	SetupOn      []string `json:"setup_on,omitempty" trust:"no" help:"files, as in .gitignore, that are to the setup command as lock files are: it runs again when one changed"`
	SetupTimeout int      `json:"setup_timeout_secs,omitempty" yaml:"setup_timeout" type:"time" default:"10m" trust:"no" help:"time limit for the setup command"`
	Fresh        bool     `json:"fresh,omitempty" trust:"no" help:"remove ignored files from a slot between attempts, and have each check begin without what the one before left"`
}

// ScudConfig is for loops over a tag.
type ScudConfig struct {
	Tag                  string     `json:"tag" flag:"tag" env:"no" arg:"tag" in:"spec look" trust:"no" help:"run the tasks of this tag (also --scud-tag)"`
	TasksFile            string     `json:"tasks_file,omitempty" flag:"tasks-file" type:"path" arg:"file" in:"tag spec look" trust:"outside" help:"task list file of any known format (default: where the tag is found)"`
	PlanPath             string     `json:"plan_path,omitempty" flag:"plan" type:"path" arg:"file" in:"tag spec graph" trust:"outside" help:"implementation plan file; each task's spec gets its section"`
	HandoffPath          string     `json:"handoff_path,omitempty" type:"path" arg:"file" in:"mode spec" trust:"outside" help:"handoff file, added to every spec and written when a run stops with work left"`
	MaxIterationsPerTask int        `json:"max_iterations_per_task" flag:"max-attempts" default:"3" least:"1" in:"tag resume spec" trust:"no" help:"attempts per task"`
	MaxTotalIterations   int        `json:"max_total_iterations" flag:"max-total-iterations" open:"100" least:"0" in:"tag resume" trust:"no" help:"attempts in all (default: 100, or three for each task if that is more)"`
	UseSubAgents         bool       `json:"use_sub_agents" default:"true" trust:"no" help:"the agent may use sub-agents"`
	VerificationCommand  string     `json:"verification_command" trust:"confined" help:"verify command of a run over a tag; verify sets it too"`
	AutoCommitWaves      bool       `json:"auto_commit_waves" flag:"auto-commit" default:"true" trust:"no" help:"commit each wave, or each iteration of a prompt loop (there off by default)"`
	RetryBlocked         bool       `json:"retry_blocked,omitempty" flag:"retry-blocked" in:"tag resume" trust:"no" help:"try blocked tasks again"`
	OpenInDone           bool       `json:"open_in_done,omitempty" in:"tag spec graph" trust:"no" help:"treat open subtasks of a done task as work to do"`
	Spec                 SpecConfig `json:"spec"`
}

// SpecConfig says what goes into a spec.
type SpecConfig struct {
	IncludeTask        bool     `json:"include_task" default:"true" trust:"no" help:"include the task in its spec"`
	IncludePlanSection bool     `json:"include_plan_section" default:"true" trust:"no" help:"include the task's section of the plan in its spec"`
	AdditionalSpecs    []string `json:"additional_specs,omitempty" flag:"spec-file" type:"paths" arg:"file" in:"tag spec" trust:"outside" help:"extra file for every task's spec; may be repeated"`
	MaxSpecTokens      int      `json:"max_spec_tokens,omitempty" flag:"max-spec-tokens" default:"5000" least:"0" in:"tag spec mode" trust:"no" help:"warn about a spec, and about the prompt of plan and build, with more tokens than this"`
	Cut                bool     `json:"cut,omitempty" trust:"no" help:"shorten a spec with more tokens than max_spec_tokens, instead of warning"`
	SpecTemplate       string   `json:"spec_template,omitempty" trust:"no" help:"template with {task} {plan} {custom} {verification}"`
}

// SafetyConfig says what agents and verify commands may touch, see and use up.
type SafetyConfig struct {
	Sandbox        string   `json:"sandbox,omitempty" flag:"sandbox" words:"auto|strict|off" default:"auto" in:"mode resume" trust:"yes but auto strict" help:"confine agents and verify commands: auto where this machine can, strict more tightly or nothing runs, off not at all"`
	SandboxInForce string   `json:"sandbox_in_force,omitempty" yaml:"-"` // what this machine made of it, in words
	SandboxDomains []string `json:"sandbox_domains,omitempty" trust:"yes" help:"more hosts that a strict sandbox may reach"`
	SandboxWrite   []string `json:"sandbox_write,omitempty" trust:"yes" help:"more places outside the working tree that may be written"`
	SandboxRead    []string `json:"sandbox_read,omitempty" trust:"yes" help:"places hidden by the sandbox that may be read all the same"`
	VerifyNetwork  bool     `json:"verify_network,omitempty" trust:"yes" help:"let the verify command reach the network from a strict sandbox too"`
	VerifyEnv      string   `json:"verify_env,omitempty" words:"list|inherit" trust:"yes but list" help:"variables of the verify command: inherit passes all, list only those that agents get"`
	Env            string   `json:"env,omitempty" words:"open|strict" open:"open" in:"mode resume" trust:"yes but strict" help:"variables that agents and verify commands get: open passes all but credentials, strict only a fixed list (default: open; strict with --sandbox strict)"`
	EnvPass        []string `json:"env_pass,omitempty" flag:"env-pass" type:"words" arg:"variables" in:"mode resume" trust:"yes" help:"more variables for agents and verify commands: NAME or PREFIX_*; may be repeated"`
	MaxMemory      int64    `json:"max_memory,omitempty" type:"size" in:"mode resume" trust:"no" help:"end an attempt whose processes use more memory than this, like 4G (default: no limit)"`
	MaxProcs       int      `json:"max_procs,omitempty" least:"0" in:"mode resume" trust:"no" help:"end an attempt with more processes than this at a time, threads included (default: no limit)"`
	MaxDisk        int64    `json:"max_disk,omitempty" type:"size" trust:"no" help:"end an attempt that writes more than this, like 20G, into its working tree, its temporary files and its log (default: no limit)"`
	MaxLog         int64    `json:"max_log,omitempty" type:"size" default:"200M" trust:"no" help:"largest log of an attempt: of more output its head and tail are kept; 0: no limit"`
	MinFreeDisk    int64    `json:"min_free_disk,omitempty" type:"size" default:"200M" in:"mode resume" trust:"no" help:"start no attempt with less free disk space than this, and end those that leave less; 0: never check"`
}

// InSandbox and InSeatbelt end the words for an active sandbox, of Linux and of macOS.
const (
	InSandbox  = "(bubblewrap, "
	InSeatbelt = "(sandbox-exec, "
)

// Confined reports whether agents and verify commands run in a sandbox on this machine.
func (c *SafetyConfig) Confined() bool {
	return strings.Contains(c.SandboxInForce, InSandbox) || strings.Contains(c.SandboxInForce, InSeatbelt)
}

// StrictEnv reports whether agents and verify commands get only a list of variables.
func (c *SafetyConfig) StrictEnv() bool {
	return c.Env == EnvStrict || c.Env == "" && c.Sandbox == "strict"
}

// What agents and verify commands get of the caller's variables that no setting names.
const (
	EnvOpen   = "open"
	EnvStrict = "strict"
)

// NoVerify is the verification command that turns verification off.
const NoVerify = "none"

// ChecksOf lists the checks that decide about the work of a run, over a tag or of a prompt, in the order in which
// they run: by the points of a run, then as listed. None means that nothing is verified. A single command is a check
// without a name.
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

// Promise is the completion word that the agent is asked for, "" where another gate decides.
func (c *Config) Promise() string {
	if !c.Promised() {
		return ""
	}
	return c.CompletionPromise
}
