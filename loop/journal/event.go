package journal

import (
	"bytes"
	"cmp"
	"encoding/hex"
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
	SpecRefined     Type = "spec_refined"
	AttemptStarted  Type = "attempt_started"
	AttemptWaiting  Type = "attempt_waiting" // no worker of a fleet can take it yet
	AttemptPlaced   Type = "attempt_placed"  // a worker of a fleet has it
	AgentFinished   Type = "agent_finished"
	VerifyStarted   Type = "verify_started"
	VerifyFinished  Type = "verify_finished"
	LookStarted     Type = "look_started"  // what passed is examined further
	LookAnswered    Type = "look_answered" // an agent that a look asks has ended
	AttemptFinished Type = "attempt_finished"
	Integrated      Type = "integrated" // with slots: a verified result is folded in, or with a verdict not
	TaskDone        Type = "task_done"
	TaskBlocked     Type = "task_blocked"
	TaskHeld        Type = "task_held"
	WaveCommitted   Type = "wave_committed"
	LimitWaiting    Type = "limit_waiting"
	BreakerOpened   Type = "breaker_opened"
	Warning         Type = "warning"
	LoopStopping    Type = "loop_stopping" // by Ctrl-C where it runs: it ends when what is under way has
	LoopPaused      Type = "loop_paused"
	LoopResumed     Type = "loop_resumed"
	LoopFinished    Type = "loop_finished"
	LoopRewound     Type = "loop_rewound" // by a person: what came after a wave was taken back

	// Of loops that repeat a prompt. agent_finished, verify_started and verify_finished stand between the two.
	IterationStarted  Type = "iteration_started"
	IterationFinished Type = "iteration_finished"
	GateSpoke         Type = "gate" // what the gate says between iterations: the start, a question, an answer
)

// Durable reports whether an event of this type must be on the disk before it is announced.
// What is not durable is only ever repeated after a power cut, never lost: an attempt that had
// started is started again.
func (t Type) Durable() bool {
	switch t {
	case LoopStarted, Integrated, TaskDone, TaskBlocked, WaveCommitted, BreakerOpened, LoopPaused, LoopFinished, LoopRewound, IterationStarted, IterationFinished, GateSpoke:
		return true
	}
	return false
}

// Event is one line of a loop's journal. Fields that a type does not use are absent. Those without a name in JSON share a
// member of the line with another: see onDisk.
type Event struct {
	Seq      int64     `json:"seq"` // from 1, without gaps
	TS       time.Time `json:"ts"`
	Loop     string    `json:"loop"`
	Type     Type      `json:"type"`
	Wave     int       `json:"wave,omitempty"`
	Task     string    `json:"task,omitempty"`
	Title    string    `json:"title,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	Round    int       `json:"round,omitempty"`   // of a candidate: the number of the first attempt of those that are made at the same time
	Slot     int       `json:"slot,omitempty"`    // that an attempt runs in; 0 for the user's tree
	Host     string    `json:"host,omitempty"`    // machine that has an attempt, where that is another one
	Step     int       `json:"step,omitempty"`    // of what that machine reports about the attempt: its number, from 1
	Of       int       `json:"of,omitempty"`      // attempts the task may have, tasks the wave has
	Verdict  Verdict   `json:"verdict,omitempty"` // of an attempt or a blocked task
	Decision Decision  `json:"-"`                 // of an iteration or a gate, on disk in the place of a verdict
	Reason   string    `json:"reason,omitempty"`
	Message  string    `json:"message,omitempty"`

	Delivered string   `json:"-"` // of a verified attempt: what it delivers to others; on disk a message
	DiffStat  string   `json:"-"` // of any other attempt: what it changed; on disk a message
	Head      string   `json:"-"` // of an attempt, an iteration or a task that begins: the commit HEAD stood at; on disk a commit
	UserPaths []string `json:"-"` // of a run that begins, what the user had changed before; of a wave's commit, what of that it holds; on disk paths

	Detail   *Detail  `json:"detail,omitempty"`
	Tasks    []string `json:"tasks,omitempty"`    // that it is about; of an attempt that begins in another task's session, that one
	Paths    []string `json:"paths,omitempty"`    // of an iteration: the first that its agent changed
	Restored []string `json:"restored,omitempty"` // of a blocked task: the first of the paths put back
	Removed  []string `json:"removed,omitempty"`  // and of deleted ones that did not exist before
	Branch   string   `json:"branch,omitempty"`   // where HEAD stood before an attempt, with Head
	Base     string   `json:"base,omitempty"`     // tree before the task's first attempt
	Tree     string   `json:"tree,omitempty"`     // tree that the event leaves behind
	Ref      string   `json:"ref,omitempty"`      // where the attempt is kept, or what the machine of a fleet that has it reports
	Commit   string   `json:"commit,omitempty"`   // that was made, or that the branch went back to

	Iteration int             `json:"iteration,omitempty"` // of a prompt loop, from 1; of its first event, those of before the journal
	Lines     []string        `json:"lines,omitempty"`     // what the gate says to people about an iteration
	Next      string          `json:"next,omitempty"`      // what the next iteration's prompt adds
	Gate      json.RawMessage `json:"gate,omitempty"`      // what the gate knows after an iteration
	Grant     string          `json:"grant,omitempty"`     // of a gate that is passed by one: its name
}

// Verdict is what an attempt came to.
type Verdict string

const (
	Verified  Verdict = "verified"
	Failed    Verdict = "failed"
	Blocked   Verdict = "blocked" // by its agent
	Crashed   Verdict = "crashed"
	TimedOut  Verdict = "timeout"
	Limited   Verdict = "limited"   // the provider's quota is used up: not an attempt
	Cancelled Verdict = "cancelled" // by a person, a reboot or a kill: not an attempt
	Dropped   Verdict = "dropped"   // another candidate was taken
)

// Counts reports whether such an attempt uses up one of its task's.
func (v Verdict) Counts() bool { return v != Limited && v != Cancelled && v != Dropped }

// Decision is what an iteration came to, or what a gate says between two: a word of the gate's, which knows more than these, or one for an
// iteration that no gate judged.
type Decision string

const (
	Continue Decision = "continue" // another follows
	Done     Decision = "done"     // everything that was asked for is there

	Retry    Decision = "retry"     // it failed, and is repeated under its number
	NoQuota  Decision = "limited"   // the provider's quota is used up: it is repeated under its number
	CutShort Decision = "cancelled" // by a person, a reboot or a kill

	Asks    Decision = "ask"     // a person decides
	Granted Decision = "granted" // a use of a grant was taken, with which the gate that Reason names will be passed
)

// Failed reports whether the iteration had no result: no gate judged it.
func (d Decision) Failed() bool { return d == Retry || d == NoQuota || d == CutShort }

// Ends of an agent's run, and the cause that the account of a run depends on.
const (
	EndFinished    = "finished"
	EndCrashed     = "crashed"
	EndTimedOut    = "timeout"
	EndIdle        = "idle"
	EndLimited     = "limited"
	EndRefused     = "refused"
	EndCancelled   = "cancelled"
	CauseTransient = "transient"
)

// NotIntegrated stands before the reason of an attempt that was verified, and could not be integrated.
const NotIntegrated = "not integrated: "

// Reasons of events that say what kind they are.
const (
	ReasonAnswered = "questions were answered"
	ReasonRetry    = "retry blocked tasks"
	ReasonTakeover = "the loop had been interrupted"
	ReasonUndone   = "undone" // of a warning: what the agent did was undone
)

// Ending says in one word why a run came back. The command line turns it into an exit status.
type Ending string

// The endings, as the state file's exit_reason spells them.
const (
	AllDone       Ending = "all_tasks_done"
	StepDone      Ending = "step_done"
	TasksBlocked  Ending = "tasks_blocked"
	AgentUnusable Ending = "agent_unusable"
	GitRefused    Ending = "git_refused"
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

	// Of prompt loops. Errors of theirs are all "error" in the state file.
	PromiseSeen      Ending = "completion_promise_detected"
	CommandSucceeded Ending = "process_success" // where no promise is asked for
	GateDone         Ending = "gate_passed"     // another gate than the promise
	TestsFailed      Ending = "tests_failed"    // of one iteration, as often as it may be repeated
	PlanMissing      Ending = "plan_missing"    // nothing to build from
	GateBlocked      Ending = "blocked"         // the agent says that a person is needed
	BreakerOpen      Ending = "circuit_open"
	GateAsks         Ending = "waits_for_answer"
)

// Final reports whether a loop that ended so is over; any other ending can be resumed.
func (e Ending) Final() bool {
	switch e {
	case AllDone, StepDone, TasksBlocked, PromiseSeen, CommandSucceeded, GateDone:
		return true
	}
	return false
}

// Detail is what an attempt's steps measured.
type Detail struct {
	End          string     `json:"end,omitempty"`   // why the agent's run ended
	Cause        string     `json:"cause,omitempty"` // and what that was due to
	Code         int        `json:"code"`            // exit status of the agent, of verify, or at its end of the loop
	Signal       int        `json:"signal,omitempty"`
	Passed       bool       `json:"passed,omitempty"`
	Baseline     bool       `json:"baseline,omitempty"` // verify ran on a tree without unverified work: before the first attempt, or without a blocked task's
	Left         []string   `json:"left,omitempty"`     // files that only the verify command made, in no commit
	Taken        []string   `json:"taken,omitempty"`    // of those of earlier attempts what the agent changed, which is work now
	Tree         string     `json:"tree,omitempty"`     // when the agent had ended, before the verification
	Command      string     `json:"command,omitempty"`  // of a verification that decides about a task
	Check        string     `json:"check,omitempty"`    // its name, where there are several
	At           string     `json:"at,omitempty"`       // of a check on the state as a whole, and of no attempt: merge, wave or end
	Why          string     `json:"why,omitempty"`      // one of several failed
	Standing     bool       `json:"standing,omitempty"` // it failed before the first attempt too, and does not decide
	Tries        int        `json:"tries,omitempty"`    // runs of a check that was run again
	Flaky        []string   `json:"flaky,omitempty"`    // tests that failed first and passed then; of a check that passed with several tries
	Tests        *Tests     `json:"tests,omitempty"`    // results of its tests, where they are known
	Grade        Grade      `json:"grade,omitempty"`    // of a verified attempt
	TimedOut     bool       `json:"timed_out,omitempty"`
	Changed      int        `json:"changed,omitempty"`  // files that differ from before the attempt
	Claimed      bool       `json:"claimed,omitempty"`  // the agent's own words say complete
	Blocked      string     `json:"blocked,omitempty"`  // the agent's own words say blocked, and why
	Question     string     `json:"question,omitempty"` // what the agent's last words ask
	Denied       []string   `json:"denied,omitempty"`   // what the sandbox refused the attempt, each with what opens it
	Notes        []string   `json:"notes,omitempty"`    // what a person should know of the agent's run besides
	Words        string     `json:"words,omitempty"`    // the agent's last words, shortened
	Output       string     `json:"output,omitempty"`   // the tail of what a failed verification printed
	Look         string     `json:"look,omitempty"`     // of one that started: its name
	Looks        []Look     `json:"looks,omitempty"`    // those that examined a verified attempt; the last one may object, with the reason and output of the attempt's end
	Seconds      float64    `json:"seconds,omitempty"`
	SpecTokens   int        `json:"spec_tokens,omitempty"`
	Tuned        bool       `json:"tuned,omitempty"` // a person chose or wrote the spec
	Log          string     `json:"log,omitempty"`
	Until        *time.Time `json:"until,omitempty"`
	Backend      string     `json:"backend,omitempty"` // kind of agent
	Model        string     `json:"model,omitempty"`   // as the agent reported it, or as it was asked to use
	Session      string     `json:"session,omitempty"` // the agent's own name for its run; of an attempt that begins, the one that it goes on in
	Anew         bool       `json:"anew,omitempty"`    // that session was gone: it was a fresh agent's
	Dir          string     `json:"dir,omitempty"`     // of an attempt in whose session another may go on: where its agent runs
	USD          *float64   `json:"usd,omitempty"`
	Estimated    bool       `json:"estimated,omitempty"`    // the dollars are the tokens at the settings' prices
	InputTokens  int64      `json:"input_tokens,omitempty"` // cached ones are part of them
	OutputTokens int64      `json:"output_tokens,omitempty"`
	CacheRead    int64      `json:"cache_read_tokens,omitempty"`
	CacheWrite   int64      `json:"cache_write_tokens,omitempty"`
	Totals       *Totals    `json:"totals,omitempty"`   // of a run's end: what its loop came to so far
	Unpushed     string     `json:"unpushed,omitempty"` // of a run's end: the command that does what --push could not

	Digest string  `json:"output_sha256,omitempty"` // of all that a verification printed, as the log has it
	Inputs *Inputs `json:"inputs,omitempty"`        // of an attempt that begins
}

// Inputs are digests, SHA-256 in hex, of what an attempt is made from.
type Inputs struct {
	Spec     string `json:"spec,omitempty"` // the text that its agent is given
	Task     string `json:"task,omitempty"` // title, description, details, dependencies, test strategy and acceptance
	Plan     string `json:"plan,omitempty"` // its section of the plan; "" for none
	PlanPath string `json:"plan_path,omitempty"`
	Policy   string `json:"policy,omitempty"`   // the checks and looks in force
	Settings string `json:"settings,omitempty"` // those that descartes.yaml asks for
}

// Look is what one look at a verified attempt came to.
type Look struct {
	Name    string   `json:"name"`
	Objects bool     `json:"objects,omitempty"`
	Said    []string `json:"said,omitempty"`  // what a person should know
	Shown   []string `json:"shown,omitempty"` // evidence that needs nobody's attention
	Agent   *Detail  `json:"agent,omitempty"` // what the agent came to that it consulted
	Seconds float64  `json:"seconds,omitempty"`
}

// Said is what the looks say that a person should know, a line each.
func (d *Detail) Said() (lines []string) {
	if d != nil {
		for _, l := range d.Looks {
			lines = append(lines, l.Said...)
		}
	}
	return lines
}

// Objector names the look that objects to the attempt, "" where none does.
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
	Known   int `json:"known,omitempty"` // of those that failed, how many had failed before
	More    int `json:"more,omitempty"`  // of those that passed, how many are not named
	Extra   int `json:"extra,omitempty"` // tests that were added and are not named

	// Against what was known before: the names of tests.
	Fixed  []string `json:"fixed,omitempty"`  // failed, and pass now
	Added  []string `json:"added,omitempty"`  // did not exist
	Broken []string `json:"broken,omitempty"` // did not fail
	Gone   []string `json:"gone,omitempty"`   // are not run any more

	// Of a check before the first attempt: all of them.
	Passes []string `json:"passes,omitempty"`
	Fails  []string `json:"fails,omitempty"`
}

// Grade says how far the word done reaches.
type Grade string

const (
	RegressionOnly Grade = "regression only" // no test went from red to green, and none was added
	Accepted       Grade = "accepted"        // by a person
)

// Grades are those of tasks, by id. One of which nothing is to be said is not in it.
type Grades map[string]Grade

// Totals are what a loop came to when a run of it ended, earlier runs of it included. Journals of before do not have them.
type Totals struct {
	Tasks      *TaskCounts `json:"tasks,omitempty"`      // of a tag
	Iterations *int        `json:"iterations,omitempty"` // of a prompt
	Attempts   int         `json:"attempts"`             // that count towards the limit; of a prompt: runs of its iterations
	Commits    int         `json:"commits"`
	Cost       Cost        `json:"cost"`
}

// TaskCounts are the numbers of a tag's tasks by state. All but the total add up to it.
type TaskCounts struct {
	Total      int `json:"total"`
	Done       int `json:"done"`
	Blocked    int `json:"blocked"`
	InProgress int `json:"in_progress"`
	Pending    int `json:"pending"`
	Held       int `json:"held"`
	Other      int `json:"other"`
}

// Begins reports whether a run of the loop begins with the event.
func (e *Event) Begins() bool {
	return e.Type == LoopStarted || e.Type == LoopResumed && e.Reason != ReasonAnswered
}

// Words is the ending for people.
func (e Ending) Words() string { return strings.ReplaceAll(string(e), "_", " ") }

const crcField = `,"crc":"`

func crcTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// appendLine appends the event's line: its JSON object with a CRC-32C of all bytes before the
// checksum's own field as the last member.
func (e *Event) appendLine(b []byte) ([]byte, error) {
	w := e.onDisk()
	j, err := json.Marshal(&w)
	if err != nil {
		return b, fmt.Errorf("encode event %s: %w", e.Type, err)
	}
	j = j[:len(j)-1]
	var sum [4]byte
	crc := crc32.Checksum(j, crcTable())
	sum[0], sum[1], sum[2], sum[3] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	b = append(b, j...)
	b = append(b, crcField...)
	b = hex.AppendEncode(b, sum[:])
	return append(b, "\"}\n"...), nil
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
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	e.fromDisk()
	return e, nil
}

// onDisk is the event with the members that its line has. Lines keep them as they were from the beginning: a decision is
// a verdict there, what was delivered and a diff stat are messages, HEAD is a commit, the user's paths are paths.
func (e *Event) onDisk() Event {
	w := *e
	w.Verdict = cmp.Or(w.Verdict, Verdict(w.Decision))
	w.Message = cmp.Or(w.Message, w.Delivered, w.DiffStat)
	w.Commit = cmp.Or(w.Commit, w.Head)
	if len(w.Paths) == 0 {
		w.Paths = w.UserPaths
	}
	return w
}

// fromDisk undoes onDisk.
func (e *Event) fromDisk() {
	switch e.Type {
	case IterationFinished, GateSpoke:
		e.Verdict, e.Decision = "", Decision(e.Verdict)
	case AttemptStarted, IterationStarted, TaskStarted:
		e.Commit, e.Head = "", e.Commit
	case LoopStarted, LoopResumed, WaveCommitted:
		e.Paths, e.UserPaths = nil, e.Paths
	case AttemptFinished:
		if e.Verdict == Verified {
			e.Message, e.Delivered = "", e.Message
		} else {
			e.Message, e.DiffStat = "", e.Message
		}
	}
}

// Line is the event as its journal has it, with the newline.
func (e *Event) Line() ([]byte, error) { return e.appendLine(nil) }

// Transient reports whether an agent's run ended by a fault of its provider's that a later one may not meet. A client
// that a signal ended ran out of memory or into a fault of its own, perhaps by what the task asks of it: such an
// attempt counts.
func (d *Detail) Transient() bool {
	return d.End == EndCrashed && d.Cause == CauseTransient && d.Signal == 0
}

// Texts are the members that hold the words of others, for masking. Names by which the journal is read again are not
// among them: a task's id, paths, refs and hashes.
func (e *Event) Texts() []*string {
	texts := []*string{&e.Title, &e.Reason, &e.Message, &e.Delivered, &e.DiffStat, &e.Next}
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
