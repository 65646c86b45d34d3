// Package view owns the account of a run that people and programs are shown: its journal, and the graph of its tag,
// folded once. The words that say how something stands, the numbers, what to type next and the JSON of --json are made
// here; those that draw a Loop decide nothing.
package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
)

// Loop is a run as people see it.
type Loop struct {
	Status            // its JSON
	Run        Run    // what it is the account of
	Board      *Board // its tag; nil for a prompt loop, and if the list cannot be read
	Stand      Stand
	Word       string // how it stands, in a few words
	Why        string // what it does, or how it ended, as a sentence
	Iterations []*Attempt
	Closing
}

// Run is a run as its state and its journal have it.
type Run struct {
	Root    string // of the project
	Here    string // what a command needs besides where it is typed
	ID      string // "" if no loop ran
	Path    string // of the state file
	State   *store.State
	History *journal.State
	Outcome loop.Outcome
	Loose   []string // tasks whose verified work is in no commit
	Live    bool
	Asked   Pending
}

// Closing is what only the end of a run, or whoever reads of it, adds.
type Closing struct {
	Step   bool
	Took   time.Duration
	Kept   []gitops.Ref // of attempts; only looked up if tasks are blocked
	Update []string     // what brings the user's packages up to date
	Pool   string       // what the project's slots occupy, if that is much
	Away   bool         // who reads it is on another machine
	Later  bool         // the settings are saved ones: no flags would give them again
}

// Status is a run as JSON.
type Status struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// running, waiting, paused, finished, interrupted or dead
	State     string `json:"state"`
	Requested string `json:"requested,omitempty"` // pause or cancel, of a live loop
	// Ctrl-C where it runs: it ends after its running attempts
	Stopping     *time.Time          `json:"stopping_since,omitempty"`
	ExitReason   store.ExitReason    `json:"exit_reason"`
	Unpushed     string              `json:"unpushed,omitempty"` // the command that does what --push could not
	Tag          string              `json:"tag"`
	CurrentWave  int                 `json:"current_wave"`
	TotalWaves   int                 `json:"total_waves"`
	CurrentTask  *store.TaskID       `json:"current_task"`
	Tasks        counts              `json:"tasks"`
	Own          int                 `json:"tasks_done_here"` // by this loop
	Waves        []*Wave             `json:"waves,omitempty"`
	Blocked      []store.Blocked     `json:"blocked_tasks"`
	Questions    []Question          `json:"questions"`
	Commits      []store.WaveCommit  `json:"wave_commits"`
	Noticed      []journal.Notice    `json:"noticed,omitempty"` // what looks at attempts that passed say
	Iteration    int                 `json:"iteration"`
	MaxIteration int                 `json:"max_iterations"`
	Cost         costJSON            `json:"cost"`
	Checks       []journal.Tally     `json:"checks,omitempty"` // what the runs of named checks came to
	Flaky        []journal.Flaky     `json:"flaky,omitempty"`  // what failed and passed when it was run again
	TaskCosts    map[string]costJSON `json:"task_costs,omitempty"`
	Agents       []journal.AgentUse  `json:"agents"`            // what attempts were run with
	Waiting      *Limit              `json:"waiting,omitempty"` // for a provider, with all its tasks
	Limits       []*Limit            `json:"limits,omitempty"`  // waits for providers
	Verifying    *time.Time          `json:"verifying_since,omitempty"`
	Running      []runningJSON       `json:"running,omitempty"` // what is worked on
	Ends         *time.Time          `json:"estimated_end,omitempty"`
	Sandbox      string              `json:"sandbox"` // what is in force
	StartedAt    time.Time           `json:"started_at"`
	LastActivity time.Time           `json:"last_activity_at"`
	PID          int                 `json:"pid"`
	Gate         *Gate               `json:"gate,omitempty"` // of a loop that a status or criteria gate ends
	StateFile    string              `json:"state_file"`
	EventsFile   string              `json:"events_file"`
}

// counts are a tag's tasks by how they stand: one whose agent asks counts as a question, not as blocked.
type counts struct {
	journal.TaskCounts
	Questions int `json:"questions"`
}

// stuck says how many tasks wait for a person.
func stuck(questions, blocked int) (list []string) {
	if questions > 0 {
		list = append(list, terminal.Count(questions, "question"))
	}
	if blocked > 0 {
		list = append(list, fmt.Sprintf("%d blocked", blocked))
	}
	return list
}

type runningJSON struct {
	Task      *store.TaskID `json:"task_id,omitempty"`
	Iteration int           `json:"iteration,omitempty"`
	Attempt   int           `json:"attempt"`
	Slot      int           `json:"slot,omitempty"`
	Host      string        `json:"host,omitempty"`  // machine of a fleet that has it
	Waits     string        `json:"waits,omitempty"` // what it waits for before a machine of a fleet takes it
	Phase     journal.Phase `json:"phase"`
	Since     time.Time     `json:"since"` // of the phase
	StartedAt time.Time     `json:"started_at"`
	Action    string        `json:"action,omitempty"` // what its agent does now

	of *Attempt
}

type costJSON struct {
	USD           *float64 `json:"usd"`
	InputTokens   *int64   `json:"input_tokens"`
	OutputTokens  *int64   `json:"output_tokens"`
	Estimated     bool     `json:"estimated"`               // by the settings' prices
	Unknown       int      `json:"unknown_attempts"`        // whose dollars are not in usd
	UnknownTokens int      `json:"unknown_tokens_attempts"` // whose tokens are in neither sum
}

func jsonCost(c journal.Cost) costJSON {
	return costJSON{c.USD, c.InputTokens, c.OutputTokens, c.Estimated, c.Unknown, c.UnknownTokens}
}

// Of is the account of a saved loop as it is now.
func Of(root string, s store.Saved) (*Loop, error) {
	one := All(root, []store.Saved{s})[0]
	return one.Loop, one.Err
}

// Listed is a saved loop, or why it cannot be read.
type Listed struct {
	*Loop
	Called string // its id, or the path of a state file that cannot be read
	Err    error
}

// All are the accounts of saved loops. Each journal and each list is read once.
func All(root string, saved []store.Saved) []Listed {
	home, jobs, boards := store.NewHome(root), map[string]*source.Job{}, map[string]*Board{}
	out := make([]Listed, len(saved))
	for i, s := range saved {
		if out[i] = (Listed{Called: store.Relative(root, s.Path), Err: s.Err}); s.State == nil {
			continue
		}
		out[i].Called = s.State.ID
		list := ListOf(s.State)
		key := list.Tag + "\x00" + list.TasksFile
		if _, known := jobs[key]; !known && s.State.Kind == store.KindTag {
			jobs[key], _ = source.Load(root, config.Config{Scud: list})
		}
		job := jobs[key]
		var file *tasks.File
		if job != nil && s.State.Kind == store.KindTag {
			file = job.File
			if boards[key] == nil {
				if boards[key], out[i].Err = NewBoard(job); out[i].Err != nil {
					continue
				}
			}
		}
		v, err := home.View(s, file)
		if err != nil {
			out[i].Err = err
			continue
		}
		var board *Board
		if file != nil {
			one := *boards[key]
			one.Commits = v.State.WaveCommits // the commits shown are this loop's
			board = &one
			if file.Holds(tasks.Blocked) { // answered, or set by hand since
				v.State.BlockedTasks = slices.DeleteFunc(slices.Clone(v.State.BlockedTasks),
					func(b store.Blocked) bool { return board.Graph.Status(b.Task.ID) != tasks.Blocked })
			}
		}
		l := &Loop{Run: Run{Root: root, ID: v.State.ID, Path: v.Path, State: &v.State, History: v.History,
			Live: v.Live, Loose: v.History.Uncommitted()}, Board: board, Closing: Closing{Later: true}}
		l.Run.Asked = PendingOf(&v)
		l.Run.Outcome = outcome(&l.Run)
		l.fold(time.Now())
		out[i].Loop = l
	}
	return out
}

// Ended is the account of a run of this process that is over. board is nil for a prompt loop.
func Ended(r Run, board *Board, c Closing) *Loop {
	l := &Loop{Run: r, Board: board, Closing: c}
	l.fold(time.Now())
	return l
}

// outcome is what the last run came to, as far as its last event says.
func outcome(r *Run) loop.Outcome {
	h := r.History
	out := loop.Outcome{Ending: journal.Ending(r.State.ExitReason.Type), Message: r.State.ExitReason.Message}
	if h.Finished != nil && h.Finished.Event != nil && !r.Live {
		out = loop.OutcomeOf(h.Finished.Event)
	}
	if last := h.Prompt.Last; out.Ending == journal.GateAsks && last != nil && last.Detail != nil {
		out.Question = last.Detail.Question
	}
	return out
}

// From says where commands are typed, as flags.
func (l *Loop) From(here string) {
	l.Run.Here = here
	if l.Board != nil {
		l.Board.Here = here
	}
	l.fold(time.Now())
}

// Prompt reports whether it repeats a prompt.
func (l *Loop) Prompt() bool { return l.Run.State.Tag == "" }

// fold makes everything that is shown from the run and the board.
func (l *Loop) fold(now time.Time) {
	r := &l.Run
	s, h := r.State, r.History
	blocked := append([]store.Blocked{}, s.BlockedTasks...)
	if l.Board != nil {
		blocked = l.Board.left(s)
		l.Board.blocked = map[string]store.Blocked{}
		l.Board.block(blocked)
	}
	st := Status{ID: s.ID, Kind: s.Kind, State: r.state(), ExitReason: s.ExitReason, Noticed: h.Noticed(),
		Unpushed: r.Outcome.Unpushed, Tag: s.Tag, CurrentWave: s.CurrentWave,
		TotalWaves: s.TotalWaves, Blocked: blocked,
		Commits:   append([]store.WaveCommit{}, s.WaveCommits...),
		Iteration: s.Iteration, MaxIteration: s.Config.Scud.MaxTotalIterations, StartedAt: s.StartedAt,
		LastActivity: r.lastActivity(), Checks: h.Tallies(), Flaky: h.Flaky(),
		PID: s.PID, StateFile: store.Relative(r.Root, r.Path),
		EventsFile: store.Relative(r.Root, store.NewHome(r.Root).Events(s.ID)), Sandbox: Sandbox(s.Config),
		Requested: string(r.Asked.Asked),
		Agents:    h.Agents(), Gate: gateOf(s), Questions: []Question{},
		Tasks: counts{TaskCounts: journal.TaskCounts{Total: s.TasksTotal, Done: s.TasksCompleted}}}
	for _, t := range h.Tasks {
		if t.Stand == journal.StandDone {
			st.Own++
		}
	}
	if h.Seq == 0 { // its journal is gone
		for _, c := range s.WaveCommits {
			st.Own += len(c.Tasks)
		}
	}
	if s.Kind != store.KindTag {
		st.MaxIteration = s.Config.MaxIterations
	}
	if since := h.Verifying(); r.Live && !since.IsZero() {
		st.Verifying = &since
	}
	if r.Asked.Stopping {
		st.Stopping = &h.Stopping
	}
	if w := h.WaitsUntil(); w != nil && !w.Until.IsZero() {
		st.Waiting = &Limit{Until: w.Until, Backend: w.Backend, Reason: w.Reason}
	}
	if s.Cost != nil {
		st.Cost = jsonCost(*s.Cost)
	}
	l.Status = st
	l.attempts()
	if b := l.Board; b != nil {
		l.Tasks, _ = b.counts()
		l.Questions = b.Questions(b.open(s.ID, blocked))
		if s.CurrentTask != "" {
			id := b.ID(s.CurrentTask)
			l.CurrentTask = &id
		}
	}
	if left, late, ok := l.Left(now); ok && !late && r.Live {
		at := now.Add(left).Round(time.Second)
		l.Ends = &at
	}
	l.Stand, l.Word = l.stand()
	l.Why = l.why()
}

// attempts adds what was attempted: to the tasks of the waves, to the iterations, and to what runs.
func (l *Loop) attempts() {
	h, of := l.Run.History, map[string][]*Attempt{}
	l.Iterations = nil
	for _, a := range h.Attempts {
		runs := l.Run.Live && h.Runs(a)
		one := AttemptOf(l.Run.Root, l.ID, a, runs)
		if runs && a.Phase != journal.PhaseOpen { // also while its work is merged
			l.Running = append(l.Running, l.running(one))
		}
		if a.Iteration > 0 {
			l.Iterations = append(l.Iterations, one)
		} else {
			of[a.Task] = append(of[a.Task], one)
		}
	}
	slices.SortStableFunc(l.Running, func(x, y runningJSON) int { return x.StartedAt.Compare(y.StartedAt) })
	l.Limits = limits(h, l.Run.Live)
	if l.Board == nil {
		return
	}
	l.Waves, l.TaskCosts = l.Board.committedWaves(), map[string]costJSON{}
	for id, t := range h.Tasks {
		if c := t.Cost; c.USD != nil || c.InputTokens != nil {
			l.TaskCosts[id] = jsonCost(c)
		}
	}
	costs := h.WaveCosts()
	for _, w := range l.Waves {
		if c := costs[w.Number]; c != (journal.Cost{}) {
			cost := jsonCost(c)
			w.Cost = &cost
		}
		for i := range w.Tasks {
			t := &w.Tasks[i]
			t.Attempts, t.Wait, t.Blocked = of[t.ID.ID], h.WaitOf(t.ID.ID), h.Task(t.ID.ID).Blocked
			t.fold(l.Run.Live)
			if c := h.Task(t.ID.ID).Cost; c.USD != nil {
				t.Price = c.Dollars()
			}
		}
	}
}

func (l *Loop) running(a *Attempt) runningJSON {
	r := runningJSON{Iteration: a.Iteration, Attempt: a.Number, Slot: a.Slot, Host: a.Host,
		Waits: a.Waits, Phase: a.Phase, Since: a.Since, StartedAt: a.Started, of: a}
	if a.Task != "" {
		r.Task = &store.TaskID{ID: a.Task}
		if l.Board != nil {
			*r.Task = l.Board.ID(a.Task)
		}
	}
	return r
}

// Act asks what the running agents do now.
func (l *Loop) Act(action func(*journal.Attempt) string) {
	for i := range l.Running {
		if r := &l.Running[i]; r.Phase == journal.PhaseAgent {
			r.Action = terminal.Clean(action(r.of.Attempt))
		}
	}
}

// Working are the attempts that are worked on, the oldest first.
func (l *Loop) Working() (list []*Attempt) {
	for _, r := range l.Running {
		list = append(list, r.of)
	}
	return list
}

// Task is one of its tasks, or nil.
func (l *Loop) Task(id string) *Task {
	for _, w := range l.Waves {
		for i := range w.Tasks {
			if w.Tasks[i].ID.ID == id {
				return &w.Tasks[i]
			}
		}
	}
	return nil
}

// state is the run in one word of its JSON.
func (r *Run) state() string {
	switch e := r.Outcome.Ending; {
	case r.Live && r.History.WaitsUntil() != nil:
		return "waiting"
	case r.Live:
		return "running"
	case r.Killed():
		return "dead"
	case e == journal.Paused:
		return "paused"
	case e == journal.UserCancelled || e == journal.Interrupted:
		return "interrupted"
	}
	return "finished"
}

// Killed reports whether the run did not come to its end.
func (r *Run) Killed() bool {
	e := r.Outcome.Ending
	return !r.Live && (e == "" || e == "running")
}

func (r *Run) lastActivity() time.Time {
	if at := r.History.At; !at.IsZero() {
		return at
	}
	if at := r.State.LastIterationAt; at != nil {
		return *at
	}
	return r.State.StartedAt
}

// stand says how a run stands in a few words.
func (l *Loop) stand() (Stand, string) {
	r := &l.Run
	switch w := r.History.WaitsUntil(); {
	case r.Live && w != nil && w.Until.IsZero():
		return Limited, "waits for quota"
	case r.Live && w != nil:
		return Limited, "waits for quota until " + terminal.Moment(w.Until)
	case r.Live && r.Asked.Words() != "":
		return Running, "running, " + r.Asked.Words()
	case r.Live:
		return Running, "running"
	case r.Killed():
		return Blocked, "killed"
	}
	return l.ended(r.Outcome.Ending)
}

// ended says the same of one that ended so.
func (l *Loop) ended(e journal.Ending) (Stand, string) {
	switch e {
	case journal.AllDone, journal.CommandSucceeded, journal.GateDone, journal.PromiseSeen:
		return Done, "done"
	case journal.TasksBlocked:
		switch n := l.givenUp(); {
		case len(l.Questions) == 0:
			return Blocked, terminal.Count(max(1, n), "task") + " blocked"
		case n > 0:
			return Asks, "waits for your answer, " + terminal.Count(n, "task") + " blocked"
		}
		return Asks, "waits for your answer"
	case journal.GateAsks:
		return Asks, "waits for your answer"
	case journal.GateBlocked:
		return Asks, "needs you"
	case journal.LimitReached:
		return Held, "iteration limit reached"
	case journal.CostReached:
		return Held, "cost limit reached"
	case journal.UserCancelled:
		return Held, "cancelled"
	case journal.BreakerOpen:
		return Blocked, "stopped: the same failure again and again"
	case journal.BaselineFails:
		return Blocked, "baseline failed: verify fails before any task"
	case journal.OwnError:
		return Blocked, "internal error"
	case journal.AgentUnusable, journal.GitRefused, journal.TrunkGone, journal.ProviderFails, journal.DiskFull,
		journal.ChecksFail, journal.TestsFailed, journal.PlanMissing:
		return Blocked, e.Words()
	}
	return Held, e.Words()
}

// givenUp counts the blocked tasks but those that a question waits for.
func (l *Loop) givenUp() int { return max(0, len(l.Blocked)-len(l.Questions)) }

// why says what the run does, or why and how it ended.
func (l *Loop) why() string {
	r, h := &l.Run, l.Run.History
	asked := ""
	if words := r.Asked.Words(); words != "" {
		asked = ", " + words
	}
	w := h.WaitsUntil()
	switch since := h.Verifying(); {
	case r.Live && w != nil:
		return Until("Waiting", w) + asked
	case r.Live && !since.IsZero():
		return "Running, verifying for " + terminal.Duration(time.Since(since).Round(time.Second)) + asked
	case r.Live:
		return "Running" + asked
	case r.Killed() && w != nil:
		return Until("Killed while it waited", w) + ". Continue: " + r.Resume()
	case r.Killed():
		return "Killed. Continue: " + r.Resume()
	}
	text := l.endWords()
	text = strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
	if r.Outcome.Message != "" {
		text += " (" + r.Outcome.Message + ")"
	}
	return text
}

// Ending says how the run ended, and what stopped it.
func (l *Loop) Ending() string {
	switch r := &l.Run; {
	case r.Live:
		return "is running"
	case r.Killed():
		return "was killed"
	case r.Outcome.Message != "":
		return l.endWords() + " (" + r.Outcome.Message + ")"
	default:
		return l.endWords()
	}
}

// endWords are those of its ending, where a question is no block.
func (l *Loop) endWords() string {
	if e := l.Run.Outcome.Ending; e != journal.TasksBlocked || len(l.Questions) == 0 {
		return e.Words()
	}
	return l.Word
}

// Broke reports whether the run ended with something that a person has to see to and that is not said of its tasks or
// iterations.
func (l *Loop) Broke() bool {
	r := &l.Run
	if r.Live || r.ID == "" {
		return false
	}
	switch r.Outcome.Ending {
	case journal.AgentUnusable, journal.ProviderFails, journal.GitRefused, journal.TrunkGone, journal.DiskFull, journal.BaselineFails,
		journal.OwnError, journal.TestsFailed, journal.PlanMissing, journal.ChecksFail,
		journal.GateBlocked, journal.GateAsks, journal.BreakerOpen:
		return true
	}
	return r.Killed() || r.Outcome.Unpushed != ""
}

// Completed says whether everything is done: a run with nothing left to run may have blocked tasks.
func (l *Loop) Completed() string {
	next := ""
	if l.Board != nil {
		next = l.Board.Next()
	}
	switch e := journal.Ending(l.ExitReason.Type); {
	case !l.Run.State.Completed:
		return "No"
	case e == journal.TasksBlocked && next != "": // since an answer, or somebody set it so
		return "No, task " + next + " can be tried again"
	case e == journal.TasksBlocked:
		stuck := stuck(len(l.Questions), l.givenUp())
		if n := l.Tasks.Held; n > 0 {
			stuck = append(stuck, fmt.Sprintf("%d held by them", n))
		}
		return "No: " + strings.Join(stuck, ", ")
	case e == journal.BaselineFails:
		return "No, it ended before the first attempt"
	case e == journal.StepDone && next != "":
		return "No, only this step"
	}
	return "Yes"
}

// Until says until when something waits for its provider, and why.
func Until(what string, w *journal.Wait) string {
	if !w.Until.IsZero() {
		until := w.Until.Round(0)
		what += " until " + terminal.Moment(until)
		if left := time.Until(until); left > 0 {
			what += " (" + terminal.Spell(left) + ")"
		}
	}
	if w.Reason != "" {
		what += ": " + w.Reason
	}
	return what
}

// Limit is one wait for a provider, of all tasks that wait for the same.
type Limit struct {
	Until   time.Time `json:"until"`
	Backend string    `json:"backend"`
	Reason  string    `json:"reason"`
	Tasks   []string  `json:"tasks,omitempty"` // in order; none for a prompt loop
}

func limits(h *journal.State, live bool) (list []*Limit) {
	for _, w := range h.Waiting() {
		at := slices.IndexFunc(list, func(l *Limit) bool {
			return l.Backend == w.Backend && l.Until.Equal(w.Until) && l.Reason == w.Reason
		})
		if at < 0 {
			at = len(list)
			list = append(list, &Limit{Until: w.Until, Backend: w.Backend, Reason: w.Reason})
		}
		if w.Task != "" && live {
			list[at].Tasks = append(list[at].Tasks, w.Task)
		}
	}
	for _, l := range list {
		slices.Sort(l.Tasks)
	}
	return list
}

// Ways are the ways in which a loop that nobody runs can be resumed now: resume, retry (its blocked tasks), step.
func (l *Loop) Ways() (ways []string) {
	s := l.Run.State
	if l.Run.Live {
		return nil
	}
	blocked, ready, e := false, false, journal.Ending(l.ExitReason.Type)
	if l.Board != nil {
		blocked, ready = l.Tasks.Blocked+l.Tasks.Questions > 0, l.Board.Next() != ""
	}
	if !s.Completed || e == journal.TasksBlocked && ready {
		ways = append(ways, "resume")
	}
	if blocked {
		ways = append(ways, "retry")
	}
	if ready && (!s.Completed || e == journal.StepDone) {
		ways = append(ways, "step")
	}
	return ways
}

// Name is what the run is about.
func (l *Loop) Name() string {
	if l.Board != nil {
		return l.Board.File.Tag()
	}
	return cmp.Or(l.Tag, l.ID)
}

// Headline says in few words how far it is.
func (l *Loop) Headline() string {
	if !l.Prompt() {
		return fmt.Sprintf("%s: %d of %s done", l.Name(), l.Tasks.Done, terminal.Count(l.Tasks.Total, "task"))
	}
	how := "stopped"
	switch {
	case l.Run.Live:
		how = "running"
	case l.Run.Outcome.Ending.Final():
		how = "done"
	}
	return fmt.Sprintf("%s %s: %s after %s", l.Run.State.Kind, l.Name(), how, terminal.Count(l.Iteration, "iteration"))
}

// Unit is what a loop of a kind finishes before it stops.
func Unit(kind string) string {
	if kind == store.KindTag {
		return "attempt"
	}
	return "iteration"
}

// Did is how much this loop did.
func (l *Loop) Did() string {
	if l.Prompt() {
		return fmt.Sprintf("%d/%d iterations", l.Iteration, l.MaxIteration)
	}
	return fmt.Sprintf("%d/%d", l.Own, l.Tasks.Total)
}

// Money is what is known of a cost, for people: $5.40, 860k tokens.
func Money(c *journal.Cost) string {
	if c == nil || c.USD == nil && c.InputTokens == nil {
		return "unknown"
	}
	text := c.Dollars()
	if c.USD == nil {
		text = "dollars unknown"
	}
	if c.InputTokens == nil {
		return text
	}
	n, unit := float64(*c.InputTokens+*c.OutputTokens), ""
	for _, u := range []string{"k", "M"} {
		if n >= 1000 {
			n, unit = n/1000, u
		}
	}
	return text + ", " + strconv.FormatFloat(n, 'f', max(0, 2-len(strconv.Itoa(int(n)))), 64) + unit + " tokens"
}

// MarshalJSON is its status.
func (l *Loop) MarshalJSON() ([]byte, error) { return json.Marshal(&l.Status) }
