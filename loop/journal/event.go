package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

// Type names what happened. The words are the contract of events.ndjson and of --json.
type Type string

// The types of events, in the order in which they occur in a run.
const (
	LoopStarted     Type = "loop_started"
	WaveStarted     Type = "wave_started"
	TaskStarted     Type = "task_started"
	AttemptStarted  Type = "attempt_started"
	AttemptWaiting  Type = "attempt_waiting" // no worker of a fleet can take it yet
	AttemptPlaced   Type = "attempt_placed"  // a fleet worker has it
	AgentFinished   Type = "agent_finished"
	VerifyStarted   Type = "verify_started"
	VerifyFinished  Type = "verify_finished"
	LookStarted     Type = "look_started"  // what passed is examined further
	LookAnswered    Type = "look_answered" // an agent that a look asked has ended
	AttemptFinished Type = "attempt_finished"
	Integrated      Type = "integrated" // verified work is in the trunk
	TaskDone        Type = "task_done"
	TaskBlocked     Type = "task_blocked"
	TaskHeld        Type = "task_held"
	WaveCommitted   Type = "wave_committed"
	// by somebody else: Tasks are new, to be done in Wave or later, or blocked no more
	ListChanged   Type = "list_changed"
	LimitWaiting  Type = "limit_waiting"
	BreakerOpened Type = "breaker_opened"
	Warning       Type = "warning"
	LoopStopping  Type = "loop_stopping" // Ctrl-C in its terminal: it ends with its running attempts
	LoopPaused    Type = "loop_paused"
	LoopResumed   Type = "loop_resumed"
	LoopFinished  Type = "loop_finished"
	LoopRewound   Type = "loop_rewound" // a person took back what came after a wave

	// Of prompt loops. agent_finished, verify_started and verify_finished come between the two.
	IterationStarted  Type = "iteration_started"
	IterationFinished Type = "iteration_finished"
	GateSpoke         Type = "gate" // what the gate says between iterations: at the start, a question, an answer
	// what the run does besides: it begins a check or a delivery, or heard a request
	Step Type = "step"
)

// Event is one line of a loop's journal. What a type does not use is absent.
type Event struct {
	Seq  int64     `json:"seq"` // from 1, without gaps
	TS   time.Time `json:"ts"`
	Loop string    `json:"loop"`
	Type Type      `json:"type"`
	Unit
	Verdict Verdict `json:"verdict,omitempty"` // of an attempt, an iteration, a blocked task, a gate
	Reason  string  `json:"reason,omitempty"`
	// of a verified attempt: what it delivers to others; of any other: its changes
	Message string `json:"message,omitempty"`

	Detail *Detail  `json:"detail,omitempty"`
	Tasks  []string `json:"tasks,omitempty"` // tasks it is about
	// of an iteration: the first paths that its agent changed; of an attempt that clashed: those in conflict
	Paths  []string `json:"paths,omitempty"`
	Branch string   `json:"branch,omitempty"` // HEAD's branch before an attempt
	// tree before the task's first attempt; of an attempt that clashed: of the trunk; of a committed iteration: the tree
	// that what its commit leaves out is compared with
	Base string `json:"base,omitempty"`
	Tree string `json:"tree,omitempty"` // tree after the event
	// where the attempt is kept, or what the machine of a fleet that has it reports
	Ref string `json:"ref,omitempty"`
	// commit that was made, or that the branch went back to; HEAD's when an attempt, an iteration or a task begins
	Commit string `json:"commit,omitempty"`

	Lines []string        `json:"lines,omitempty"` // what the gate tells people about an iteration
	Next  string          `json:"next,omitempty"`  // what it adds to the next iteration's prompt
	Gate  json.RawMessage `json:"gate,omitempty"`  // the gate's state after an iteration
	Run   json.RawMessage `json:"run,omitempty"`   // what the run itself takes from this line when it is resumed
}

// Unit is what an event is about: a wave, a task, one of its attempts, an iteration; nothing of it if it is about the
// whole loop.
type Unit struct {
	Wave    int    `json:"wave,omitempty"`
	Task    string `json:"task,omitempty"`
	Title   string `json:"title,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Slot    int    `json:"slot,omitempty"` // slot an attempt runs in; 0 for a folder without git
	Host    string `json:"host,omitempty"` // other machine that has the attempt
	Step    int    `json:"step,omitempty"` // of what that machine reports about the attempt: its number, from 1
	// number of the last attempt that the task may have, or tasks of the wave
	Of int `json:"of,omitempty"`
	// of a prompt loop, from 1; in its first event: iterations before the journal began
	Iteration int `json:"iteration,omitempty"`
}

func (e *Event) at() int64 { return e.Seq }

// Spoken is what its agent's own words say.
func (e *Event) Spoken() Speech {
	if e.Detail == nil {
		return Speech{}
	}
	return e.Detail.Speech
}

// Key is the attempt or iteration that it is about.
func (u *Unit) Key() Key { return Key{u.Task, u.Iteration, u.Attempt} }

// Verdict is the result of an attempt or an iteration, or what a gate says between two of these: one of its own words,
// too.
type Verdict string

const (
	Verified Verdict = "verified"
	Failed   Verdict = "failed"
	Blocked  Verdict = "blocked" // by its agent
	Crashed  Verdict = "crashed"
	TimedOut Verdict = "timeout"
	// the provider's quota is used up: not an attempt, and an iteration is repeated under its number
	Limited   Verdict = "limited"
	Cancelled Verdict = "cancelled" // by a person, a reboot or a kill: not an attempt
	Unchanged Verdict = "unchanged" // it changed nothing and says that it is done: a second agent looks
	Clashed   Verdict = "clashed"   // its work does not merge with what came in meanwhile, so nothing was checked: nobody's failure

	// Of iterations and gates.
	Continue Verdict = "continue" // another one follows
	Done     Verdict = "done"     // everything asked for is there
	Retry    Verdict = "retry"    // it failed, and is repeated under its number
	Asks     Verdict = "ask"      // a person decides
)

// Counts reports whether an attempt with this verdict uses up one of its task's.
func (v Verdict) Counts() bool {
	return v != Limited && v != Cancelled && v != Unchanged && v != Clashed
}

// Nobodys reports whether an attempt that ended like this is nobody's failure: it was cut short, its provider had a
// fault, or its agent refused to begin.
func (v Verdict) Nobodys(d *Detail) bool {
	return !v.Counts() || d != nil && (d.Transient() || d.End == EndRefused)
}

// Unjudged reports whether an iteration with this verdict had no result for a gate to judge.
func (v Verdict) Unjudged() bool { return v == Retry || v == Limited || v == Cancelled }

// Ends of an agent's run, and the cause that folding depends on.
const (
	EndFinished    = "finished"
	EndCrashed     = "crashed"
	EndTimedOut    = "timeout"
	EndIdle        = "idle"
	EndLimited     = "limited"
	EndRefused     = "refused"
	EndCancelled   = "cancelled"
	CauseTransient = "transient"
	CauseKilled    = "killed" // of an attempt that is cut short: its run was killed
)

// Killed is the reason of an attempt, or an iteration, whose run was killed: it counts for nothing.
const Killed = "the run was killed"

// LookReview is the look in which an agent is asked.
const LookReview = "review"

// NotCommitted is the reason of an iteration that is made again, since git refused its commit or somebody's commit
// conflicts with it.
const NotCommitted = "its work could not be committed"

// Reasons that classify an event.
const (
	ReasonAnswered = "questions were answered"
	ReasonRetry    = "retry blocked tasks"
	ReasonTakeover = "the loop had been interrupted"
	ReasonGone     = "gone"   // of a warning: a blocked task that the run had added is not needed any more
	ReasonChecks   = "checks" // of a warning: other checks decide now, and tasks have all their attempts again
)

// Ending says in one word why a run ended. The command line turns it into an exit status.
type Ending string

// The endings, as the state file's exit_reason spells them.
const (
	AllDone       Ending = "all_tasks_done"
	StepDone      Ending = "step_done"
	TasksBlocked  Ending = "tasks_blocked"
	AgentUnusable Ending = "agent_unusable"
	GitRefused    Ending = "git_refused"
	TrunkGone     Ending = "trunk_gone" // the ref with the merged work: another run begins at the branch
	LimitReached  Ending = "max_iterations_reached"
	DeadlinePast  Ending = "deadline_reached"
	CostReached   Ending = "max_cost_reached"
	QuotaUsedUp   Ending = "quota_used_up"
	ProviderFails Ending = "provider_fails" // again and again
	Paused        Ending = "paused"
	UserCancelled Ending = "user_cancelled"
	Interrupted   Ending = "interrupted"
	DiskFull      Ending = "disk_full"
	BaselineFails Ending = "baseline_failed" // the verify command fails on the untouched tree
	ChecksFail    Ending = "checks_failed"   // a check fails on the verified work as a whole
	OwnError      Ending = "error"
	Rewound       Ending = "rewound" // a person took the last waves back

	// Of prompt loops. The state file calls all their errors "error".
	PromiseSeen      Ending = "completion_promise_detected"
	CommandSucceeded Ending = "process_success" // without a promise to look for
	GateDone         Ending = "gate_passed"     // a gate other than the promise
	TestsFailed      Ending = "tests_failed"    // of one iteration, after all its repeats
	PlanMissing      Ending = "plan_missing"    // nothing to build from
	GateBlocked      Ending = "blocked"         // the agent says that it needs a person
	BreakerOpen      Ending = "circuit_open"
	GateAsks         Ending = "waits_for_answer"
)

// Final reports whether a loop with this ending is over; any other ending can be resumed.
func (e Ending) Final() bool {
	switch e {
	case AllDone, StepDone, TasksBlocked, TrunkGone, PromiseSeen, CommandSucceeded, GateDone:
		return true
	}
	return false
}

// Detail holds measurements of a step; each type of event has its part of them.
type Detail struct {
	Exit
	Client
	Spent
	Speech
	Checked
	Files
	Closing
	Look string `json:"look,omitempty"` // name of the look that started
	// looks at a verified attempt; the last may object, with the reason and output of the attempt's end
	Looks      []Look  `json:"looks,omitempty"`
	Grade      Grade   `json:"grade,omitempty"` // of a verified attempt
	Proof      string  `json:"proof,omitempty"` // what its tests came to, in words
	SpecTokens int     `json:"spec_tokens,omitempty"`
	Inputs     *Inputs `json:"inputs,omitempty"` // of an attempt that begins
}

// Exit is how a process ended: an agent, a check; or how a run of the loop did.
type Exit struct {
	End      string     `json:"end,omitempty"`   // why the agent's run ended
	Cause    string     `json:"cause,omitempty"` // its cause
	Code     int        `json:"code"`            // exit status of the agent, of verify, or at a run's end of the loop
	Signal   int        `json:"signal,omitempty"`
	TimedOut bool       `json:"timed_out,omitempty"`
	Refused  bool       `json:"refused,omitempty"` // of an iteration: git, or a hook, refused its commit
	Until    *time.Time `json:"until,omitempty"`
	Seconds  float64    `json:"seconds,omitempty"`
}

// Client is what ran an agent.
type Client struct {
	Backend string `json:"backend,omitempty"` // kind of agent
	Model   string `json:"model,omitempty"`   // as the agent reported it, or as requested
	Session string `json:"session,omitempty"` // the agent's id for its run
	Anew    bool   `json:"anew,omitempty"`    // that session was gone: a fresh agent ran
	Log     string `json:"log,omitempty"`
}

// Spent is what a run of an agent was charged for.
type Spent struct {
	USD *float64 `json:"usd,omitempty"`
	// the dollars are computed from tokens at the settings' prices
	Estimated    bool  `json:"estimated,omitempty"`
	Partial      bool  `json:"partial,omitempty"`      // the agent had gone on after its client told this
	InputTokens  int64 `json:"input_tokens,omitempty"` // including cached ones
	OutputTokens int64 `json:"output_tokens,omitempty"`
	CacheRead    int64 `json:"cache_read_tokens,omitempty"`
	CacheWrite   int64 `json:"cache_write_tokens,omitempty"`
}

// Speech is what an agent's own words say, and what a person should know of its run.
type Speech struct {
	Claimed  bool     `json:"claimed,omitempty"`  // the agent's own words claim completion
	Blocked  string   `json:"blocked,omitempty"`  // reason, if the agent's own words say it is blocked
	Question string   `json:"question,omitempty"` // what the agent's last words ask
	Words    string   `json:"words,omitempty"`    // the agent's last words, shortened
	Notes    []string `json:"notes,omitempty"`    // what else a person should know about the agent's run
	Denied   []string `json:"denied,omitempty"`   // what the sandbox refused, each with the setting that allows it
}

// Checked is the result of a check.
type Checked struct {
	Command string `json:"command,omitempty"` // of a verification that decides about a task
	Check   string `json:"check,omitempty"`   // its name, if there are several
	// of a check on the whole state, not of an attempt: merge, wave or end
	At  string `json:"at,omitempty"`
	Why string `json:"why,omitempty"` // why it failed, if there are several
	// verify ran on a tree without unverified work: before the first attempt, or without a blocked task's work
	Baseline bool     `json:"baseline,omitempty"`
	Standing bool     `json:"standing,omitempty"` // it also failed before the first attempt, and decides nothing
	Passed   bool     `json:"passed,omitempty"`
	Tries    int      `json:"tries,omitempty"`         // number of runs, if it ran again
	Flaky    []string `json:"flaky,omitempty"`         // tests that failed first and then passed
	Tests    *Tests   `json:"tests,omitempty"`         // results of its tests, if known
	Output   string   `json:"output,omitempty"`        // end of a failed verification's output
	Digest   string   `json:"output_sha256,omitempty"` // of a verification's whole output, as logged
}

// Files are what an attempt's work stands on and leaves behind.
type Files struct {
	Tree    string   `json:"tree,omitempty"`    // when the agent had ended, before the verification
	Changed int      `json:"changed,omitempty"` // files changed since before the attempt
	Left    []string `json:"left,omitempty"`    // uncommitted files that only the verify command made
	Alone   bool     `json:"alone,omitempty"`   // its slot had no ignored files but those of a check slot
	Beside  []string `json:"beside,omitempty"`  // else those that it had, the first of them
	Hidden  []string `json:"hidden,omitempty"`  // source files that it wrote and git ignores
}

// Closing is what a run leaves to its user at its end.
type Closing struct {
	Totals   *Totals `json:"totals,omitempty"`   // of a run's end: the loop's totals so far
	Unpushed string  `json:"unpushed,omitempty"` // of a run's end: the command that does what --push could not
	// of a run's end: so many of the branch's newest commits have all of the loop's
	Commits int `json:"commits,omitempty"`
	// of a run's end: what to type to have its work in the working tree, where that could not follow
	Merging string `json:"merging,omitempty"`
	// of a run's end: tasks whose commits are gone from the branch; a resume makes them again, and what stands on them
	Lost []string `json:"lost,omitempty"`
}

// Inputs are digests, SHA-256 in hex, of what an attempt is made from.
type Inputs struct {
	Spec     string `json:"spec,omitempty"` // its agent's text
	Task     string `json:"task,omitempty"` // title, description, details, dependencies, test strategy and acceptance
	Plan     string `json:"plan,omitempty"` // its section of the plan; "" for none
	PlanPath string `json:"plan_path,omitempty"`
	Policy   string `json:"policy,omitempty"`   // checks and looks in force
	Settings string `json:"settings,omitempty"` // what descartes.yaml asks for
}

// Look is the result of one look at a verified attempt.
type Look struct {
	Name    string   `json:"name"`
	Objects bool     `json:"objects,omitempty"`
	Said    []string `json:"said,omitempty"`  // what a person should know
	Shown   []string `json:"shown,omitempty"` // evidence that needs nobody's attention
	Agent   *Detail  `json:"agent,omitempty"` // the agent it consulted
	Seconds float64  `json:"seconds,omitempty"`
}

// Said returns what the looks want a person to know, one line each.
func (d *Detail) Said() (lines []string) {
	if d != nil {
		for _, l := range d.Looks {
			lines = append(lines, l.Said...)
		}
	}
	return lines
}

// Objector returns the look that objects to the attempt, or "".
func (d *Detail) Objector() string {
	if n := len(d.Looks); n > 0 && d.Looks[n-1].Objects {
		return d.Looks[n-1].Name
	}
	return ""
}

// Tests are the results of a check's tests.
type Tests struct {
	Ran     int `json:"ran"` // passed or failed
	Failed  int `json:"failed"`
	Skipped int `json:"skipped,omitempty"`
	Known   int `json:"known,omitempty"` // failed tests that had failed before
	More    int `json:"more,omitempty"`  // passed tests without a name here
	Extra   int `json:"extra,omitempty"` // added tests without a name here

	// Names of tests, compared with what was known before.
	Fixed  []string `json:"fixed,omitempty"`  // failed, and pass now
	Added  []string `json:"added,omitempty"`  // new
	Broken []string `json:"broken,omitempty"` // failed now, not before
	Gone   []string `json:"gone,omitempty"`   // no longer run

	// Of a check before the first attempt: all of them.
	Passes []string `json:"passes,omitempty"`
	Fails  []string `json:"fails,omitempty"`
}

// Grade says how much the word done proves.
type Grade string

const (
	RegressionOnly Grade = "regression only" // no test went from red to green or was added
	Accepted       Grade = "accepted"        // a person accepted it
	NotNeeded      Grade = "unchanged"       // nothing had to be done, as a second agent showed
)

// Grades are the grades of tasks by id. A task without a remark is not in it.
type Grades map[string]Grade

// Totals are a loop's totals at the end of a run, including earlier runs. Old journals lack them.
type Totals struct {
	Tasks      *TaskCounts `json:"tasks,omitempty"`      // of a tag
	Iterations *int        `json:"iterations,omitempty"` // of a prompt
	// that count towards the limit; of a prompt: runs of its iterations
	Attempts int  `json:"attempts"`
	Commits  int  `json:"commits"`
	Cost     Cost `json:"cost"`
}

// TaskCounts counts a tag's tasks by state. All others add up to Total.
type TaskCounts struct {
	Total      int `json:"total"`
	Done       int `json:"done"`
	Blocked    int `json:"blocked"`
	InProgress int `json:"in_progress"`
	Pending    int `json:"pending"`
	Held       int `json:"held"`
	Other      int `json:"other"`
}

// Begins reports whether the event begins a run of the loop.
func (e *Event) Begins() bool {
	return e.Type == LoopStarted || e.Type == LoopResumed && e.Reason != ReasonAnswered
}

// End is how a run ended by this event; nil if it did not.
func (e *Event) End() *End {
	switch e.Type {
	case LoopPaused, LoopFinished:
		return &End{Ending: Ending(e.Reason), Message: e.Message, Event: e}
	case LoopRewound:
		return &End{Ending: Rewound, Message: fmt.Sprintf("went back to the state after wave %d", e.Wave)}
	}
	return nil
}

// Totals are the loop's at the end of a run; nil if the event has none.
func (e *Event) Totals() *Totals {
	if e == nil || e.Detail == nil {
		return nil
	}
	return e.Detail.Totals
}

// Counted is how many attempts, or iterations of a prompt, the loop had made by then.
func (e *Event) Counted() int {
	switch t := e.Totals(); {
	case t == nil:
		return 0
	case t.Iterations != nil:
		return *t.Iterations
	default:
		return t.Attempts
	}
}

// Words is the ending for people.
func (e Ending) Words() string { return strings.ReplaceAll(string(e), "_", " ") }

const crcField = `,"crc":"`

func crcTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// appendLine appends the event's line: its JSON object, whose last member is a CRC-32C of all bytes before it. It is
// printed in jobs too, and holds no command of a CI system.
func (e *Event) appendLine(b []byte) ([]byte, error) {
	j, err := json.Marshal(e)
	if err != nil {
		return b, fmt.Errorf("encode event %s: %w", e.Type, err)
	}
	j = WithoutCommands(j[:len(j)-1])
	return fmt.Appendf(append(b, j...), "%s%08x\"}\n", crcField, crc32.Checksum(j, crcTable())), nil
}

// WithoutCommands is JSON in which no CI system finds a command ("##[x]", "##vso[x]"): the data is the same.
func WithoutCommands(b []byte) []byte {
	return bytes.ReplaceAll(b, []byte("##"), []byte(`\u0023\u0023`))
}

var errChecksum = errors.New("checksum does not match")

// parse reads one line without its newline.
func parse(line []byte) (Event, error) {
	var e Event
	at := bytes.LastIndex(line, []byte(crcField))
	if at < 0 || len(line) != at+len(crcField)+len(`00000000"}`) {
		return e, errors.New("no checksum")
	}
	want := line[at+len(crcField) : at+len(crcField)+8]
	if fmt.Sprintf("%08x", crc32.Checksum(line[:at], crcTable())) != string(want) {
		return e, errChecksum
	}
	return e, json.Unmarshal(line, &e)
}

// Line returns the event as in its journal, with the newline.
func (e *Event) Line() ([]byte, error) { return e.appendLine(nil) }

// Transient reports whether an agent's run ended by a fault of its provider that a later run may not meet. A client
// that a signal ended ran out of memory or into a fault of its own, perhaps because of the task: such an attempt
// counts.
func (d *Detail) Transient() bool {
	return d.End == EndCrashed && d.Cause == CauseTransient && d.Signal == 0
}

// Texts returns the members with the words of others, for masking, but not the names needed to read the journal again:
// task ids, paths, refs and hashes.
func (e *Event) Texts() []*string {
	texts := []*string{&e.Title, &e.Reason, &e.Message, &e.Next}
	for i := range e.Lines {
		texts = append(texts, &e.Lines[i])
	}
	if d := e.Detail; d != nil {
		texts = append(texts, &d.Blocked, &d.Question, &d.Words, &d.Output, &d.Command, &d.Why, &d.Session, &d.Model)
		for i := range d.Notes {
			texts = append(texts, &d.Notes[i])
		}
		for i := range d.Denied {
			texts = append(texts, &d.Denied[i])
		}
		for _, l := range d.Looks {
			for i := range l.Said {
				texts = append(texts, &l.Said[i])
			}
			for i := range l.Shown {
				texts = append(texts, &l.Shown[i])
			}
		}
	}
	return texts
}
