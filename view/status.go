package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/verify"
)

// Status is a loop and its tag, as they are now.
type Status struct {
	root   string
	View   store.View
	Board  *Board                        // nil if the task list cannot be read any more
	Action func(*journal.Attempt) string // what an attempt does now, in a line; nil: nobody knows
}

func NewStatus(root string, s store.Saved) (*Status, error) {
	st := &Status{root: root}
	var file *tasks.File
	if s.State.Kind != store.KindTag {
		v, err := store.NewHome(root).View(s, nil)
		st.View = v
		return st, err
	}
	if job, _ := loop.Load(root, loop.Config{Scud: ListOf(s.State)}); job != nil {
		b, err := NewBoard(job)
		if err != nil {
			return nil, err
		}
		st.Board, file = b, job.File
	}
	v, err := store.NewHome(root).View(s, file)
	st.View = v
	if st.Board != nil { // the commits shown are this loop's
		st.Board.Commits = v.State.WaveCommits
		if file.Holds(tasks.Blocked) { // answered, or set by hand since
			st.View.State.BlockedTasks = slices.DeleteFunc(slices.Clone(v.State.BlockedTasks), func(b store.Blocked) bool { return st.Board.Graph.Status(b.Task.ID) != tasks.Blocked })
		}
	}
	return st, err
}

// state is the loop's state in one word.
func (st *Status) state() string {
	e := journal.Ending(st.View.State.ExitReason.Type)
	switch {
	case st.View.Live:
		if st.View.History.WaitsUntil() != nil {
			return "waiting"
		}
		return "running"
	case e == "running" || e == "":
		return "dead"
	case e == journal.Paused:
		return "paused"
	case e == journal.UserCancelled || e == journal.Interrupted:
		return "interrupted"
	}
	return "finished"
}

// Text says how a loop stands: what runs, how far it is and when it may end, then the wave bars of a tag, or the last
// iterations. The settings of a tag's loop are for whoever asks for them.
func (st *Status) Text(p terminal.Paint, boxed, verbose bool) string {
	s := &st.View.State
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %s: %s\n", name, terminal.Clean(fmt.Sprintf(format, args...)))
	}
	b.WriteString("Loop Status\n===========\n")
	st.heads(row)
	pending := PendingOf(&st.View)
	if s.Kind != store.KindTag {
		pending.rows(s.ID, row)
		row("Progress", "%s", progress(s.Iteration, s.Config.MaxIterations, s.Completed))
		b.WriteString(st.underway())
		if g := reportGate(s); g != nil {
			b.WriteString("\nGate:\n")
			g.lines(row)
		}
		b.WriteString("\nConfig:\n")
		promptConfig(s, row)
		b.WriteString(history(s.Summaries))
		return b.String()
	}
	row("State", "%s", st.situation())
	pending.rows(s.ID, row)
	st.done(row)
	row("Cost", "%s", s.Cost.Text())
	if chains := st.View.History.Chains(); chains.Attempts > 0 {
		row("Chains", "%s", chains)
	}
	if st.Board != nil {
		for _, line := range st.Board.graded() {
			row("Done", "%s", line)
		}
	}
	for _, line := range flaky(s.Flaky) {
		row("Flaky", "%s", line)
	}
	b.WriteString(st.underway())
	if st.Board != nil {
		b.WriteString("\n" + st.waveView(p, boxed))
		if lines := QuestionLines(openQuestions(st.Board, s), st.Board.Named()); lines != "" {
			b.WriteString("\n" + lines)
		}
	}
	if verbose {
		b.WriteString("\nConfig:\n")
		row("Command", "%s", wholeCommand(s.Config))
		row("Max iterations", "%d", s.Config.Scud.MaxTotalIterations)
		row("Completion promise", "%q", s.Config.CompletionPromise)
		row("Verify", "%s", cmp.Or(s.Config.Scud.VerificationCommand, commandsText(s.Config.ChecksOf(true))))
		row("Max attempts per task", "%d", s.Config.Scud.MaxIterationsPerTask)
	}
	return b.String()
}

// heads are the rows that the status of every loop has had from the beginning.
func (st *Status) heads(row func(name, format string, args ...any)) {
	s := &st.View.State
	row("State file", "%s", Relative(st.root, st.View.Path))
	row("Iteration", "%d", s.Iteration)
	row("Started", "%s", s.StartedAt.UTC().Format(time.RFC3339))
	row("Completed", "%s", st.completed())
	row("Exit reason", "%s", st.reason())
	if command := st.unpushed(); command != "" {
		row("Not pushed", "when it ended; to push its work: %s", command)
	}
	if s.ID != "" {
		row("Loop", "%s", s.ID)
	}
	row("Last activity", "%s", st.lastActivity().UTC().Format(time.RFC3339))
	if s.Kind != store.KindTag && s.Cost != nil {
		row("Cost", "%s", s.Cost.Text())
	}
	if s.Kind == store.KindTag || s.Config.SandboxInForce != "" {
		row("Sandbox", "%s", Sandbox(s.Config))
	}
}

// Outcome is what the last run came to, as far as its last event says.
func (st *Status) Outcome() loop.Outcome {
	s, h := &st.View.State, st.View.History
	out := loop.Outcome{Ending: journal.Ending(s.ExitReason.Type), Message: s.ExitReason.Message}
	if h.Finished != nil && h.Finished.Event != nil && !st.View.Live {
		out = loop.OutcomeOf(h.Finished.Event)
	}
	if last := h.Prompt.Last; out.Ending == journal.GateAsks && last != nil && last.Detail != nil {
		out.Question = last.Detail.Question
	}
	return out
}

// unpushed is the command that does what --push could not when the loop ended last, "" where nothing was left to push.
func (st *Status) unpushed() string {
	return st.Outcome().Unpushed
}

// situation is what a loop does now and since when, or how and when it ended.
func (st *Status) situation() string {
	now := time.Now()
	if st.View.Live {
		return st.reason() + "; started " + ago(now, st.View.State.StartedAt)
	}
	return st.reason() + "; " + ago(now, st.lastActivity()) + ", after " + terminal.Spell(st.lastActivity().Sub(st.View.State.StartedAt))
}

// ago says how long something is ago.
func ago(now, at time.Time) string {
	if now.Sub(at) < time.Second {
		return "just now"
	}
	return terminal.Spell(now.Sub(at)) + " ago"
}

// done says how much is done, at what pace, and when the rest may be.
func (st *Status) done(row func(name, format string, args ...any)) {
	s := &st.View.State
	if st.Board == nil {
		row("Done", "%d of %s", s.TasksCompleted, terminal.Count(s.TasksTotal, "task"))
		return
	}
	c := st.Board.Graph.Counts()
	text := fmt.Sprintf("%d of %s", c.Done, terminal.Count(c.Total, "task"))
	if c.Blocked > 0 {
		text += fmt.Sprintf(", %d blocked", c.Blocked)
	}
	if c.Held > 0 {
		text += fmt.Sprintf(", %d held", c.Held)
	}
	row("Done", "%s", text)
	if !st.View.Live {
		return
	}
	now := time.Now()
	if left, late, ok := st.estimate(now); late {
		row("Estimate", "unknown: what runs takes longer than usual")
	} else if ok {
		row("Estimate", "%s more, until %s, if the rest takes as long%s", terminal.Spell(left), terminal.Moment(now.Add(left)), st.pace(now))
	} else {
		row("Estimate", "unknown before a task is done")
	}
	if end := s.Config.Deadline; end != nil {
		row("Deadline", "%s; no attempt starts after it", terminal.Moment(*end))
	}
}

// estimate is how long the rest may take; ok is false where nobody knows.
func (st *Status) estimate(now time.Time) (left time.Duration, late, ok bool) {
	s := &st.View.State
	if s.Kind != store.KindTag {
		return EstimateIterations(st.View.History, s.Config.MaxIterations, now)
	}
	if st.Board == nil {
		return 0, false, false
	}
	return Estimate(st.View.History, st.Board.Graph, s.Config.TasksAtOnce(), now)
}

// pace is how many tasks a loop does in an hour, as the end of a sentence; "" for one that is too young.
func (st *Status) pace(now time.Time) string {
	n := 0
	for _, a := range st.View.History.Ended {
		if a.Verdict == journal.Verified {
			n++
		}
	}
	if took := now.Sub(st.View.State.StartedAt); n > 0 && took > 10*time.Minute {
		return fmt.Sprintf(" (%.1f tasks an hour)", float64(n)/took.Hours())
	}
	return ""
}

// underway lists what is worked on, what each does and since when, and what waits for a provider.
func (st *Status) underway() string {
	var b strings.Builder
	now := time.Now()
	for _, a := range st.running() {
		name := "iteration " + strconv.Itoa(a.Iteration)
		if a.Task != "" {
			name = strings.TrimRight(terminal.Clean(a.Task)+" "+terminal.FitWords(terminal.Clean(a.Title), 60), " ")
		}
		attempt := "attempt " + strconv.Itoa(a.Number)
		if a.Task != "" && a.Of > 0 {
			attempt += " of " + strconv.Itoa(a.Of)
		}
		if n := a.Candidate(); n > 0 {
			attempt = fmt.Sprintf("candidate %d, attempt %d", n, a.Number)
		}
		line := fmt.Sprintf("%s: %s for %s", attempt, phaseWords(a), terminal.Spell(now.Sub(a.Since)))
		if a.Since.Sub(a.Started) > time.Second {
			line += ", started " + ago(now, a.Started)
		}
		if place := a.Place(); place != "" {
			line += ", " + terminal.Clean(place)
		}
		fmt.Fprintf(&b, "  %s\n    %s\n", name, line)
		if st.Action != nil && a.Phase == journal.PhaseAgent {
			if action := st.Action(a); action != "" {
				b.WriteString("    " + terminal.FitWords(terminal.Clean(action), 74) + "\n")
			}
		}
	}
	waits := st.View.History.Waiting()
	slices.SortFunc(waits, func(a, b *journal.Wait) int { return strings.Compare(a.Task, b.Task) })
	for _, w := range waits {
		if st.View.Live && w.Task != "" {
			fmt.Fprintf(&b, "  %s\n    %s\n", terminal.Clean(w.Task), terminal.Clean(waiting("waiting", w)))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nRunning:\n" + b.String()
}

// phaseWords is what an attempt is doing.
func phaseWords(a *journal.Attempt) string {
	if a.Waits != "" {
		return "no worker yet"
	}
	switch a.Phase {
	case journal.PhaseAgent:
		return "the agent works"
	case journal.PhaseVerify:
		return "verify runs"
	case journal.PhaseLook:
		return LookWords(a.Look)
	case journal.PhaseIntegrating:
		if !a.Over() {
			return "verified, waiting for the other candidates"
		}
		return "its work is integrated"
	case journal.PhaseOpen:
	}
	return "nobody works on it"
}

// current lists the tasks that are worked on, or that a loop which is dead or between two attempts has started.
func (st *Status) current() (ids []string) {
	for _, a := range st.running() {
		if a.Task != "" && !slices.Contains(ids, a.Task) {
			ids = append(ids, a.Task)
		}
	}
	if id := st.View.State.CurrentTask; id != "" && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	return ids
}

// running are the attempts that are worked on, the oldest first.
func (st *Status) running() []*journal.Attempt {
	if !st.View.Live {
		return nil
	}
	return st.View.History.Working()
}

func (st *Status) waveView(p terminal.Paint, boxed bool) string {
	s := &st.View.State
	var blocked []blockedLine
	for _, t := range s.BlockedTasks {
		blocked = append(blocked, blockedLine{t.Task.ID, t.Title, t.Reason})
	}
	lines := st.Board.bars(p, st.View.Live, s.CurrentWave, st.current(), blocked)
	title := "SCUD Loop: " + terminal.Clean(s.Tag)
	if boxed {
		return terminal.Box(title, lines)
	}
	var b strings.Builder
	b.WriteString(title + "\n")
	for _, l := range lines {
		b.WriteString(strings.TrimRight("  "+l, " ") + "\n")
	}
	return b.String()
}

// Ways are the ways in which a loop that nobody runs can be resumed now: resume, retry (its blocked tasks), step.
func (st *Status) Ways() (ways []string) {
	s := &st.View.State
	if st.View.Live {
		return nil
	}
	blocked, ready := false, false
	if st.Board != nil {
		blocked, ready = st.Board.Graph.Counts().Blocked > 0, st.Board.Next() != ""
	}
	if !s.Completed || journal.Ending(s.ExitReason.Type) == journal.TasksBlocked && ready {
		ways = append(ways, "resume")
	}
	if blocked {
		ways = append(ways, "retry")
	}
	if ready && (!s.Completed || journal.Ending(s.ExitReason.Type) == journal.StepDone) {
		ways = append(ways, "step")
	}
	return ways
}

// resume is the command that resumes the loop, in its project.
func (st *Status) resume() string {
	return ResumeCommand(st.root, st.View.State.ID, st.View.Path, "") + " resumes it"
}

func (st *Status) reason() string {
	switch word := st.state(); word {
	case "running":
		text := "Running"
		if since := st.View.History.Verifying(); !since.IsZero() {
			text += ", verifying for " + terminal.Duration(time.Since(since).Round(time.Second))
		}
		return text + st.requested()
	case "waiting":
		return waiting("Waiting", st.View.History.WaitsUntil()) + st.requested()
	case "dead":
		if w := st.View.History.WaitsUntil(); w != nil {
			return waiting("Killed while it waited", w) + "; " + st.resume()
		}
		return "Killed; " + st.resume()
	default:
		out := st.Outcome()
		text := out.Ending.Words()
		text = strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
		if out.Message != "" {
			text += " (" + out.Message + ")"
		}
		return text
	}
}

// requested is what a live loop was asked to do, as the end of its state.
func (st *Status) requested() string {
	if words := PendingOf(&st.View).Words(); words != "" {
		return ", " + words
	}
	return ""
}

// waiting says until when a loop waits for its provider, and why.
func waiting(what string, w *journal.Wait) string {
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

// completed says whether everything is done: a loop that has nothing left to run may have blocked tasks.
func (st *Status) completed() string {
	s := &st.View.State
	if !s.Completed {
		return "No"
	}
	switch journal.Ending(s.ExitReason.Type) {
	case journal.TasksBlocked:
		if st.Board != nil && st.Board.Next() != "" { // since an answer, or somebody set it so
			return "No, task " + terminal.Clean(st.Board.Next()) + " can be tried again"
		}
		return "No, nothing is left that can run"
	case journal.BaselineFails:
		return "No, it ended before the first attempt"
	case journal.StepDone:
		if st.Board != nil && st.Board.Next() != "" {
			return "No, only this step"
		}
	}
	return "Yes"
}

// Unit is what a loop of a kind finishes before it stops.
func Unit(kind string) string {
	if kind == store.KindTag {
		return "attempt"
	}
	return "iteration"
}

type StatusJSON struct {
	ID           string              `json:"id"`
	Kind         string              `json:"kind"`
	State        string              `json:"state"`
	Requested    string              `json:"requested,omitempty"`      // pause or cancel, of a live loop
	Stopping     *time.Time          `json:"stopping_since,omitempty"` // Ctrl-C where it runs: it ends after its running attempts
	ExitReason   store.ExitReason    `json:"exit_reason"`
	Unpushed     string              `json:"unpushed,omitempty"` // the command that does what --push could not
	Tag          string              `json:"tag"`
	CurrentWave  int                 `json:"current_wave"`
	TotalWaves   int                 `json:"total_waves"`
	CurrentTask  *store.TaskID       `json:"current_task"`
	Tasks        journal.TaskCounts  `json:"tasks"`
	Waves        []CommittedWave     `json:"waves,omitempty"`
	Blocked      []store.Blocked     `json:"blocked_tasks"`
	Questions    []Question          `json:"questions"`
	Commits      []store.WaveCommit  `json:"wave_commits"`
	Noticed      []journal.Notice    `json:"noticed,omitempty"` // what looks at attempts that passed say
	Iteration    int                 `json:"iteration"`
	MaxIteration int                 `json:"max_iterations"`
	Cost         costJSON            `json:"cost"`
	Checks       []journal.Tally     `json:"checks,omitempty"` // what the runs of named checks came to
	Flaky        []journal.Flaky     `json:"flaky,omitempty"`  // what failed and passed when it was run again
	Chains       *journal.Chains     `json:"chains,omitempty"` // what went on in the session of another task
	TaskCosts    map[string]costJSON `json:"task_costs,omitempty"`
	Agents       []journal.AgentUse  `json:"agents"`            // what attempts were run with
	Waiting      *waitingJSON        `json:"waiting,omitempty"` // for a provider
	Verifying    *time.Time          `json:"verifying_since,omitempty"`
	Running      []runningJSON       `json:"running,omitempty"` // what is worked on
	Ends         *time.Time          `json:"estimated_end,omitempty"`
	Sandbox      string              `json:"sandbox"` // what is in force
	StartedAt    time.Time           `json:"started_at"`
	LastActivity time.Time           `json:"last_activity_at"`
	PID          int                 `json:"pid"`
	Gate         *gateReport         `json:"gate,omitempty"` // of a loop that a status or criteria gate ends
	StateFile    string              `json:"state_file"`
	EventsFile   string              `json:"events_file"`

	ending journal.Ending // the state file of a prompt loop has one word for several
}

type waitingJSON struct {
	Until   time.Time `json:"until"`
	Backend string    `json:"backend"`
	Reason  string    `json:"reason"`
}

type runningJSON struct {
	Task      *store.TaskID `json:"task_id,omitempty"`
	Iteration int           `json:"iteration,omitempty"`
	Attempt   int           `json:"attempt"`
	Candidate int           `json:"candidate,omitempty"` // its number among the attempts at the same time
	Slot      int           `json:"slot,omitempty"`
	Host      string        `json:"host,omitempty"`  // machine of a fleet that has it
	Waits     string        `json:"waits,omitempty"` // what it waits for before a machine of a fleet takes it
	Phase     journal.Phase `json:"phase"`
	Since     time.Time     `json:"since"` // of the phase
	StartedAt time.Time     `json:"started_at"`
	Action    string        `json:"action,omitempty"` // what its agent does now
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

// taskCosts are those of tasks of which anything is known.
func taskCosts(all map[string]*journal.Task) map[string]costJSON {
	out := map[string]costJSON{}
	for id, t := range all {
		if c := t.Cost; c.USD != nil || c.InputTokens != nil {
			out[id] = jsonCost(c)
		}
	}
	return out
}

func (st *Status) Report(waves bool) StatusJSON {
	s := &st.View.State
	home := store.NewHome(st.root)
	out := StatusJSON{ID: s.ID, Kind: s.Kind, State: st.state(), ExitReason: s.ExitReason, Noticed: s.Noticed, Unpushed: st.unpushed(), Tag: s.Tag, CurrentWave: s.CurrentWave,
		TotalWaves: s.TotalWaves, Blocked: append([]store.Blocked{}, s.BlockedTasks...), Commits: append([]store.WaveCommit{}, s.WaveCommits...),
		Iteration: s.Iteration, MaxIteration: s.Config.Scud.MaxTotalIterations, StartedAt: s.StartedAt, LastActivity: st.lastActivity(),
		PID: s.PID, StateFile: Relative(st.root, st.View.Path), EventsFile: Relative(st.root, home.Events(s.ID))}
	out.Checks, out.Flaky = s.Checks, s.Flaky
	if s.Kind != store.KindTag {
		out.MaxIteration = s.Config.MaxIterations
	}
	if since := st.View.History.Verifying(); st.View.Live && !since.IsZero() {
		out.Verifying = &since
	}
	for _, a := range st.running() {
		r := runningJSON{Iteration: a.Iteration, Attempt: a.Number, Candidate: a.Candidate(), Slot: a.Slot, Host: a.Host, Waits: a.Waits, Phase: a.Phase, Since: a.Since, StartedAt: a.Started}
		if st.Action != nil && a.Phase == journal.PhaseAgent {
			r.Action = terminal.Clean(st.Action(a))
		}
		if a.Task != "" {
			r.Task = &store.TaskID{ID: a.Task}
			if st.Board != nil {
				*r.Task = st.Board.ID(a.Task)
			}
		}
		out.Running = append(out.Running, r)
	}
	if now := time.Now(); st.View.Live {
		if left, late, ok := st.estimate(now); ok && !late {
			at := now.Add(left).Round(time.Second)
			out.Ends = &at
		}
	}
	out.Sandbox, out.ending = Sandbox(s.Config), st.Outcome().Ending
	out.Requested = string(st.View.Asked)
	if at := st.View.History.Stopping; st.View.Live && !at.IsZero() {
		out.Stopping = &at
	}
	out.Agents = append([]journal.AgentUse{}, s.Agents...)
	out.Gate = reportGate(s)
	if w := st.View.History.WaitsUntil(); w != nil && !w.Until.IsZero() {
		out.Waiting = &waitingJSON{Until: w.Until, Backend: w.Backend, Reason: w.Reason}
	}
	if c := s.Cost; c != nil {
		out.Cost = jsonCost(*c)
	}
	if c := st.View.History.Chains(); c.Attempts > 0 {
		out.Chains = &c
	}
	out.Tasks = journal.TaskCounts{Total: s.TasksTotal, Done: s.TasksCompleted}
	out.Questions = []Question{}
	if b := st.Board; b != nil {
		out.Questions = QuestionList(b, openQuestions(b, s))
		c, _ := b.counts()
		out.Tasks = journal.TaskCounts(c)
		if waves {
			out.Waves = b.wavesWithCommits()
			out.TaskCosts = taskCosts(st.View.History.Tasks)
			for i := range out.Waves {
				if c := st.View.History.WaveOf(out.Waves[i].Number).Cost; c != (journal.Cost{}) {
					cost := jsonCost(c)
					out.Waves[i].Cost = &cost
				}
			}
		}
		if s.CurrentTask != "" {
			id := b.ID(s.CurrentTask)
			out.CurrentTask = &id
		}
	}
	return out
}

func (st *Status) lastActivity() time.Time {
	if at := st.View.History.At; !at.IsZero() {
		return at
	}
	if at := st.View.State.LastIterationAt; at != nil {
		return *at
	}
	return st.View.State.StartedAt
}

// promptConfig shows what a loop that repeats a prompt was given.
func promptConfig(s *store.State, row func(name, format string, args ...any)) {
	row("Command", "%s", s.Config.Command)
	row("Max iterations", "%d", s.Config.MaxIterations)
	if s.Config.Promised() {
		row("Completion promise", "%q", s.Config.CompletionPromise)
	}
	if len(s.Config.Args) > 0 {
		row("Arguments", "%s", wholeCommand(loop.Config{Command: s.Config.Args[0], Args: s.Config.Args[1:]}))
	}
	if c := cmp.Or(s.Config.VerificationCommand, commandsText(s.Config.ChecksOf(false))); c != "" {
		row("Verify", "%s", c)
	}
	if s.Config.Git.AutoCommit {
		subject := cmp.Or(s.Config.Git.CommitTemplate, config.DefaultCommitTemplate)
		if s.Kind != store.KindPrompt {
			subject = s.Kind + ": iteration {iteration} - <task>"
		}
		row("Commits", "%s", subject)
	}
}

// progress is a bar of the iterations that a loop may have.
func progress(done, most int, completed bool) string {
	share := float64(min(done, most)) / float64(max(1, most))
	if completed { // nothing is left, whatever the limit was
		share = 1
	}
	full := int(share*barWidth + 0.5)
	return fmt.Sprintf("%s%s %d%% (%d/%d iterations)", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), int(share*100+0.5), done, most)
}

// historyShown is how many iterations a status lists.
const historyShown = 10

// history lists the last iterations, the latest first.
func history(list []store.IterationSummary) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nIteration History:\n  #    Duration   Exit  Preview\n")
	for n := len(list) - 1; n >= max(0, len(list)-historyShown); n-- {
		s := list[n]
		fmt.Fprintf(&b, "  %-4d %-10s %-5d %s\n", s.Iteration+1, terminal.Duration(s.CompletedAt.Sub(s.StartedAt)), s.ExitCode, terminal.Fit(terminal.Clean(s.OutputPreview), 60))
	}
	return b.String()
}

// listed is how many loops that are over a list shows where not all are asked for.
const listed = 10

// LoopTable is the list for a person, the last loop last. bad are those that cannot be read: ids, or state files. Of those that are over
// only the last are listed, unless all are asked for.
func LoopTable(list []StatusJSON, bad []string, all bool) string {
	if len(list)+len(bad) == 0 {
		return "no loop was started here\n"
	}
	now, over, hidden := time.Now(), 0, 0
	for _, l := range list {
		if l.State == "finished" {
			over++
		}
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LOOP\tKIND\tTAG\tSTATE\tDONE\tLAST ACTIVITY")
	for _, l := range list {
		if l.State == "finished" {
			if over--; over >= listed && !all {
				hidden++
				continue
			}
		}
		done := fmt.Sprintf("%d/%d", l.Tasks.Done, l.Tasks.Total)
		if l.Kind != store.KindTag {
			done = fmt.Sprintf("%d/%d iterations", l.Iteration, l.MaxIteration)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(l.ID, "-"), kindShown(l), cmp.Or(terminal.Clean(l.Tag), "-"), terminal.Clean(l.words()), done, ago(now, l.LastActivity))
	}
	for _, name := range bad {
		fmt.Fprintf(w, "%s\t-\t-\tunreadable\t-\t-\n", terminal.Clean(name))
	}
	w.Flush() // into memory
	if hidden > 0 {
		fmt.Fprintf(&s, "and %s that ended before: descartes loop list --all\n", terminal.Count(hidden, "loop"))
	}
	return s.String()
}

// words are a loop's state as a person says it.
func (l *StatusJSON) words() string {
	e := l.ending
	switch l.State {
	case "waiting":
		if l.Waiting != nil {
			return "waiting until " + terminal.Moment(l.Waiting.Until)
		}
	case "dead":
		return "killed"
	case "interrupted":
		if e == journal.UserCancelled {
			return "cancelled"
		}
	case "finished":
		return ended(e, len(l.Blocked))
	}
	if words := (Pending{Asked: store.Request(l.Requested), Stopping: l.Stopping != nil}).Words(); words != "" {
		return l.State + ", " + words
	}
	return l.State
}

// ended is how a loop ended, in few words.
func ended(e journal.Ending, blocked int) string {
	switch e {
	case journal.AllDone, journal.CommandSucceeded, journal.GateDone, journal.PromiseSeen:
		return "done"
	case journal.TasksBlocked:
		return terminal.Count(max(1, blocked), "task") + " blocked"
	case journal.GateAsks:
		return "waiting for your answer"
	case journal.GateBlocked:
		return "needs you"
	case journal.LimitReached:
		return "iteration limit reached"
	case journal.CostReached:
		return "cost limit reached"
	case journal.BreakerOpen:
		return "stopped: the same failure again and again"
	case journal.BaselineFails:
		return "verify fails before any task"
	case journal.OwnError:
		return "internal error"
	}
	return e.Words()
}

// kindShown is a loop's kind, with the gate that ends it where that is not the promise.
func kindShown(l StatusJSON) string {
	if l.Gate == nil {
		return terminal.Clean(l.Kind)
	}
	return terminal.Clean(l.Kind) + " (" + l.Gate.Kind + ")"
}

// commandsText are named checks in one line.
func commandsText(list []verify.Check) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name+" `"+c.Run+"`")
	}
	return strings.Join(out, ", ")
}

// Remarks are what the words done and verified do not say by themselves: grades, what named checks came to, and what is flaky.
func (st *Status) Remarks() (lines []string) {
	s := &st.View.State
	if st.Board != nil {
		lines = st.Board.graded()
	}
	for _, t := range s.Checks {
		line := fmt.Sprintf("check %s: %s, %d failed", terminal.Clean(t.Check), terminal.Count(t.Runs, "run"), t.Failed)
		if t.Fails != "" {
			line += "; it fails on the work as a whole: " + terminal.Clean(t.Fails)
		}
		lines = append(lines, line)
	}
	for _, line := range flaky(s.Flaky) {
		lines = append(lines, "flaky: "+line)
	}
	return lines
}
