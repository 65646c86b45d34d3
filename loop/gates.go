package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/verify"
)

// The gates that end a prompt loop, by name.

// The gates of a prompt loop, as Config.Gate names them. "" is the promise.
const (
	GatePromise  = "promise"
	GateStatus   = "status"
	GateCriteria = "criteria"
)

// NewGate returns the gate for these settings. Without a promise to look for it is nil: the first iteration that exits
// with status 0 is the last. A spec too vague for the criteria gate is a *gate.VagueError.
func NewGate(c Config) (Gate, error) {
	switch c.Gate {
	case "", GatePromise:
		if strings.TrimSpace(c.CompletionPromise) == "" {
			return nil, nil
		}
		return &gate.Promise{Word: c.CompletionPromise}, nil
	case GateStatus:
		return &gate.Status{Limits: statusLimits(&c)}, nil
	case GateCriteria:
		g, err := gate.NewCriteria(criteriaOptions(&c))
		if err != nil {
			return nil, err
		}
		return g, nil
	}
	return nil, fmt.Errorf("unknown gate %q: the gates are promise, status and criteria", c.Gate)
}

// statusLimits returns the limits of the status gate's breaker. "off" switches them all off; a number limits the
// iterations without progress.
func statusLimits(c *Config) gate.Limits {
	l := gate.Limits{Cooldown: seconds(c.CooldownSecs), NoProgress: c.Breaker}
	if c.Breaker < 0 {
		l.SameError, l.Shrink = config.BreakerOff, config.BreakerOff
	}
	return l
}

func criteriaOptions(c *Config) gate.Options {
	o := gate.Options{Spec: c.Prompt, Asked: gate.Asked{Criteria: c.Criteria, MustNot: c.MustNot}, Shape: c.Shape,
		Reversibility: gate.Reversibility(c.Reversibility), Freely: c.NoConfirm || gate.Freely(c.Prompt)}
	o.Caps.Iterations, o.Caps.BudgetUSD, o.Caps.FileEdits = c.MaxIterations, c.MaxCostUSD, c.MaxFileEdits
	if c.MaxCostUSD == 0 {
		o.Caps.BudgetUSD = -1 // cmd has already put the default into the settings
	}
	return o
}

// Deciding returns the gate that decides, without a wrapper around it.
func Deciding(g Gate) Gate {
	for {
		outer, ok := g.(interface{ Within() Gate })
		if !ok {
			return g
		}
		g = outer.Within()
	}
}

// gating asks a prompt loop's gate, and a person where that asks.
type gating struct {
	run    *Loop
	prompt *promptWork
}

func (w *gating) criteria() *gate.Criteria {
	c, _ := Deciding(w.prompt.job.Gate).(*gate.Criteria)
	return c
}

// blockable is a gate by whose format an agent can say that it cannot continue; why is "" if it does not.
type blockable interface {
	Blocked(final string) (why string)
}

// restore puts back the gate's state from when the loop stopped. The request itself comes from the settings: limits
// may be new, and the journal holds no secrets.
func (w *gating) restore() error {
	if s, ok := Deciding(w.prompt.job.Gate).(*gate.Status); ok {
		defer func(l gate.Limits) { s.Limits = l; s.Breaker.Begin(w.run.state.ID) }(s.Limits)
	}
	if c := w.criteria(); c != nil {
		defer func(spec string, asked gate.Asked, freely bool) {
			c.Spec, c.Asked, c.Freely = spec, asked, freely
		}(c.Spec, c.Asked, c.Freely)
		c.Asked = gate.Asked{} // decoding would append to its lists
	}
	if known := w.run.history.Prompt.Gate; len(known) > 0 && w.prompt.job.Gate != nil {
		if err := json.Unmarshal(known, w.prompt.job.Gate); err != nil {
			return fmt.Errorf("restore the gate's state: %w", err)
		}
	}
	return nil
}

// raise gives the criteria gate the limits that are new in the settings. A higher limit answers what it stopped for.
func (w *gating) raise() {
	c, cfg := w.criteria(), w.run.config
	if c == nil {
		return
	}
	c.Caps.Iterations, c.Caps.BudgetUSD, c.Caps.FileEdits = cfg.MaxIterations, cfg.MaxCostUSD, cfg.MaxFileEdits
	if cfg.MaxCostUSD == 0 {
		c.Caps.BudgetUSD = -1
	}
	usd := w.run.history.Cost.USD
	if c.Waiting == gate.BreakIterations && w.run.history.Iteration < cfg.MaxIterations ||
		c.Waiting == gate.BreakBudget && (cfg.MaxCostUSD == 0 || usd != nil && *usd < cfg.MaxCostUSD) {
		c.Waiting = ""
	}
}

// raised takes over limits that a person's yes has raised.
func (w *gating) raised() {
	c := w.criteria()
	if c == nil {
		return
	}
	for _, cfg := range []*Config{w.run.config, &w.run.state.Config} {
		cfg.MaxIterations = max(cfg.MaxIterations, c.Caps.Iterations)
		if cfg.MaxCostUSD > 0 {
			cfg.MaxCostUSD = max(cfg.MaxCostUSD, c.Caps.BudgetUSD)
		}
	}
}

// asker is a gate that speaks before the first iteration and that a person can answer.
type asker interface {
	Begin(now time.Time) gate.Decision
	Answer(yes bool) gate.Decision
}

// PrecheckAgent makes the loop's own agent do the pre-check.
const PrecheckAgent = "agent"

// begin asks the gate whether an iteration may start: before the first one, and when the loop is resumed. A question
// that was open when the loop stopped is still open.
//
// An open circuit breaker ends the loop, which says when the breaker will be half-open; nothing waits for that without
// a person. A loop resumed after the cooldown continues half-open, with one iteration that has to make progress;
// before the cooldown only with a person's yes. A breaker belongs to its loop: a new loop starts with it closed.
func (w *gating) begin(ln *lane) (*Outcome, error) {
	a, ok := Deciding(w.prompt.job.Gate).(asker)
	if !ok {
		return nil, nil
	}
	before, err := w.state()
	if err != nil {
		return nil, err
	}
	d := a.Begin(w.run.tools.Now())
	if c := w.criteria(); c != nil && d.Gate == "precheck" && w.run.config.Precheck != "" &&
		!(w.run.resumed && w.prompt.job.Yes) {
		check, err := w.precheck(w.run.stop.now, ln)
		if err != nil {
			return nil, err
		}
		if out := w.run.stop.asked(); out != nil {
			return out, nil // it was stopped: the next run does it again
		}
		d = c.Precheck(check)
	}
	after, err := w.state()
	if err != nil {
		return nil, err
	}
	if d.Kind != gate.Continue || len(d.Show) > 0 || string(before) != string(after) {
		if err := w.spoke(d); err != nil {
			return nil, err
		}
	}
	out, err := w.answered(d)
	w.prompt.job.Yes = false
	return out, err
}

// answered asks a person the gate's question. Without an answer the run ends and waits for one.
func (w *gating) answered(d gate.Decision) (*Outcome, error) {
	for {
		out := w.outcome(d)
		a, ok := Deciding(w.prompt.job.Gate).(asker)
		if out == nil || !ok || d.Question == "" {
			return out, nil
		}
		yes, answered := w.reply(d.Question)
		if asked, _ := w.run.home.Asked(w.run.state.ID); !answered && asked != "" {
			return requested(asked), nil
		}
		if !answered {
			return out, nil
		}
		said := d.Show
		d = a.Answer(yes)
		d.Show = slices.DeleteFunc(slices.Clone(d.Show), func(line string) bool { return slices.Contains(said, line) })
		w.raised()
		if err := w.spoke(d); err != nil {
			return nil, err
		}
	}
}

// reply returns a person's answer: the one given with the command, else one typed at the terminal.
func (w *gating) reply(question string) (yes, answered bool) {
	if w.prompt.job.Yes {
		w.prompt.job.Yes = !w.run.resumed // a yes at the start answers every question asked there
		return true, true
	}
	if w.run.tools.Ask == nil || w.run.ctx.Err() != nil {
		return false, false
	}
	return w.run.tools.Ask(w.run.stop.soon(), question) // another terminal may ask the loop to stop meanwhile
}

// spoke records what the gate says between iterations, and its state.
func (w *gating) spoke(d gate.Decision) error {
	e := &journal.Event{Type: journal.GateSpoke, Unit: journal.Unit{Iteration: w.run.history.Iteration},
		Verdict: journal.Verdict(d.Kind), Reason: cmp.Or(d.Gate, d.Breaker), Message: d.Reason, Next: d.Prompt,
		Lines: EachLine(d.Show)}
	if d.Kind == gate.Ask && d.Question != "" {
		e.Message = d.Question
	}
	var err error
	if e.Gate, err = w.state(); err != nil {
		return err
	}
	if err := w.run.tell(e); err != nil {
		return err
	}
	for _, text := range slices.Concat(d.Warnings, w.writeLoopFile()) {
		if err := w.prompt.note(text); err != nil {
			return err
		}
	}
	return w.run.saveFiles()
}

// EachLine splits texts into their lines.
func EachLine(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, strings.Split(strings.TrimRight(t, "\n"), "\n")...)
	}
	return out
}

// precheck asks the command, or the agent, that must agree before work that is hard to undo.
func (w *gating) precheck(ctx context.Context, ln *lane) (gate.Check, error) {
	c := w.run.config
	check := gate.Check{Name: "precheck"}
	u := &unit{lane: ln, with: c.Choices(nil)[0], log: w.run.home.NamedLog(w.run.state.ID, "precheck")}
	if ln.slot != nil {
		u.base = w.run.trunk.Tree
	}
	if ln.slot != nil || c.Precheck == PrecheckAgent {
		if _, err := w.run.lanes.prepare(context.WithoutCancel(ctx), ln, w.run.worker.startOf(u)); err != nil {
			return check, err
		}
	}
	if c.Precheck != PrecheckAgent {
		res, err := ln.runner.Verify.Run(ctx, Timed(c, verify.Request{Label: "precheck", Command: c.Precheck,
			Dir: ln.ws.Dir(), Env: w.prompt.run.worker.input(u, "").Env,
			Log: u.log, Redact: w.run.tools.Redact}))
		if err != nil {
			return check, fmt.Errorf("run the pre-check: %w", err)
		}
		check.Passed, check.Output = res.Passed, cmp.Or(endOf(res.Tail), res.Reason())
		return check, nil
	}
	in := w.prompt.run.worker.input(u, PrecheckPrompt(c.Prompt))
	in.Session, in.Spent, in.Keep = "", nil, false
	var res agent.Result
	var err error
	res, err = ln.runner.Consult(ctx, ln.ws, in, "pre-check", w.run.worker.observe(u))
	if err == nil {
		err = w.leftAlone(context.WithoutCancel(ctx), ln)
	}
	if err != nil {
		return check, err
	}
	if err := w.run.tell(AgentEnd(&journal.Event{}, res, u.with, MaxFinal)); err != nil {
		return check, err
	}
	check.Passed = res.End == agent.Finished && gate.Promised(res.Final, "AGREED")
	check.Output = cmp.Or(endOf(res.Final), cmp.Or(res.Reason, "it says nothing"))
	return check, nil
}

// leftAlone warns about what a pre-check changed against its instructions. The changes stay for a person to see.
func (w *gating) leftAlone(ctx context.Context, ln *lane) error {
	left, err := ln.ws.Look(ctx)
	if err != nil || len(left.Changed) == 0 {
		return err
	}
	return w.prompt.note(fmt.Sprintf("the pre-check changed files that it must not change, %d in all: %s",
		len(left.Changed), workspace.Paths(left.Changed)))
}

// endOf returns the end of what was printed.
func endOf(text string) string { return strings.TrimSpace(Tail(text, 500)) }

func PrecheckPrompt(spec string) string {
	return `# Adversarial pre-check

The work below is hard to undo. Change nothing. Look for reasons not to do it: data that would be lost, users that would break, no way back, a forgotten step, a smaller change that would do.

If there are none, end your message with this line:

<promise>AGREED</promise>

Otherwise say in a few lines what must be settled first.

## The work

` + spec + "\n"
}

// decide asks the mode and the gate about an iteration, and records what they say in its end event.
func (w *gating) decide(u *unit, end *journal.Event) (gate.Decision, error) {
	d := w.ask(u)
	end.Verdict, end.Lines, end.Message = journal.Verdict(d.Kind), EachLine(d.Show), d.Reason
	var err error
	if end.Gate, err = w.state(); err != nil {
		return d, err
	}
	end.Next = JoinText(d.Prompt, FailureText(&u.res))
	for _, text := range d.Warnings {
		if err := w.prompt.note(text); err != nil {
			return d, err
		}
	}
	return d, nil
}

// ask returns the gate's decision, or without a gate what the exit status says.
func (w *gating) ask(u *unit) gate.Decision {
	switch {
	case w.prompt.job.Gate != nil:
		d := w.prompt.job.Gate.Decide(u.it.Facts)
		if why := u.res.Unfit(); d.Kind == gate.Done && why != "" {
			d.Kind, d.Reason = gate.Continue, why
		}
		return d
	case u.it.Facts.Err == "":
		return gate.Decision{Kind: gate.Done, Reason: "the command succeeded"}
	}
	return gate.Decision{Kind: gate.Continue, Reason: u.it.Facts.Err}
}

// outcome is what the gate's decision means for the run; nil continues it.
func (w *gating) outcome(d gate.Decision) *Outcome {
	switch d.Kind {
	case gate.Done:
		switch {
		case w.prompt.job.Gate == nil:
			return &Outcome{Ending: journal.CommandSucceeded, Message: d.Reason}
		case w.run.config.Promised():
			return &Outcome{Ending: journal.PromiseSeen, Message: d.Reason}
		}
		return &Outcome{Ending: journal.GateDone, Message: d.Reason}
	case gate.Blocked:
		return &Outcome{Ending: journal.GateBlocked, Message: d.Reason}
	case gate.Open, gate.Ask:
		return asks(d)
	case gate.Continue:
	}
	return nil
}

// asks ends the run with a question. It can be resumed with a person's answer.
func asks(d gate.Decision) *Outcome {
	out := &Outcome{Ending: journal.BreakerOpen, Message: d.Reason, Until: d.Until}
	switch cmp.Or(d.Breaker, d.Gate) {
	case gate.BreakBudget:
		out.Ending = journal.CostReached
	case gate.BreakIterations:
		out.Ending = journal.LimitReached
	default:
		if d.Kind == gate.Ask {
			out.Ending, out.Message = journal.GateAsks, cmp.Or(d.Question, d.Reason)
		}
	}
	return out
}

// state is the gate's state, for the journal.
func (w *gating) state() (json.RawMessage, error) {
	if w.prompt.job.Gate == nil {
		return nil, nil
	}
	b, err := json.Marshal(w.prompt.job.Gate)
	if err != nil {
		return nil, fmt.Errorf("save the gate: %w", err)
	}
	return b, nil
}

// loopDir holds the state of the criteria loop for its agent and for other programs. The file's name is fixed, so only
// one criteria loop at a time works in a folder. The file is a copy: the journal is the loop's own record.
const loopDir = ".loop"

const maxLoopFile = 8 << 20

func loopFile(dir string) string { return filepath.Join(dir, loopDir, "state.json") }

// What to do with .loop/state.json at the end: Config.LoopState.
const (
	LoopStateKeep   = "keep"
	LoopStateDelete = "delete"
)

// holdLoopFile claims the file for a loop with a criteria gate; if a live loop has it, the error is a *LoopFileError.
// What another program wrote there is moved into the loop's own folder, which note says.
func (w *gating) holdLoopFile(ctx context.Context) (note string, err error) {
	if w.criteria() == nil {
		return "", nil
	}
	if err = w.run.locks.take(ctx, w.run.home.LoopFileLock()); err != nil {
		var busy *store.BusyError
		if errors.As(err, &busy) {
			return "", &LoopFileError{busy.Holder.Loop}
		}
		return "", err
	}
	if b := ReadLoopFile(w.prompt.job.Dir); len(b) > 0 && !w.run.resumed {
		aside := filepath.Join(w.run.home.Run(w.run.state.ID), "loop-state-before.json")
		if err := atomicfile.Write(w.run.tools.FS, aside, b, 0o644); err != nil {
			return "", fmt.Errorf("keep the old %s/state.json: %w", loopDir, err)
		}
		return loopDir + "/state.json already existed; its content is kept in " + w.run.relative(aside), nil
	}
	return "", nil
}

// LoopFileFree returns a *LoopFileError while a criteria loop runs here.
func LoopFileFree(h store.Home) error {
	if who, busy := store.Live(h.LoopFileLock()); busy {
		return &LoopFileError{who.Loop}
	}
	return nil
}

// LoopFileError says that another criteria loop works in the same folder.
type LoopFileError struct{ Loop string }

func (e *LoopFileError) Error() string {
	return fmt.Sprintf("run %s is running and writes %s/state.json, which only one criteria loop at a time can have",
		e.Loop, loopDir)
}

// Next is what to do about it.
func (e *LoopFileError) Next() string {
	return "wait until it has ended, or start in a git worktree of its own"
}

// ReadLoopFile reads the file; nil if it is missing or unreadable.
func ReadLoopFile(dir string) []byte {
	path := loopFile(dir)
	if plainfile.Writable(dir, path) != nil { // writing it reports the problem
		return nil
	}
	b, err := plainfile.Read(dir, path, maxLoopFile)
	if err != nil {
		return nil
	}
	return b
}

// agentDir is the folder the agent works in: in its slot, if it has one.
func (w *gating) agentDir() string {
	if w.run.trunk == nil {
		return w.prompt.job.Dir
	}
	return w.run.lanes.all[0].slot.Host(w.prompt.job.Dir)
}

func (w *gating) loopFileText(c *gate.Criteria) []byte {
	return w.run.tools.Redact.Bytes(c.StateFile())
}

// writeLoopFile writes the state of a criteria loop for its agent and for other programs. An unwritable folder stops
// nothing, and is named.
func (w *gating) writeLoopFile() (notes []string) {
	c := w.criteria()
	if c == nil {
		return nil
	}
	for _, dir := range slices.Compact([]string{w.prompt.job.Dir, w.agentDir()}) {
		if err := PutLoopFile(w.run.tools.FS, dir, w.loopFileText(c)); err != nil {
			return []string{err.Error()}
		}
	}
	return nil
}

// PutLoopFile writes .loop/state.json in a folder.
func PutLoopFile(fsys atomicfile.FS, dir string, text []byte) error {
	path := loopFile(dir)
	if err := plainfile.Writable(dir, path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s/state.json: %w", loopDir, err)
	}
	ignore := filepath.Join(filepath.Dir(path), ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := atomicfile.Write(fsys, ignore, []byte(ignoreAll), 0o644); err != nil {
			return fmt.Errorf("write %s/.gitignore: %w", loopDir, err)
		}
	}
	if err := atomicfile.Write(fsys, path, text, 0o644); err != nil {
		return fmt.Errorf("write %s/state.json: %w", loopDir, err)
	}
	return nil
}

const ignoreAll = "*\n"

// endLoopFile removes the file if the settings say so, or if the loop was cancelled.
func (w *gating) endLoopFile(out *Outcome) error {
	if w.criteria() == nil {
		return nil
	}
	for _, why := range w.writeLoopFile() {
		if err := w.run.record(w.prompt.noted(why)); err != nil {
			return err
		}
	}
	cancelled := false
	if asked, _ := w.run.home.Asked(w.run.state.ID); asked == store.RequestCancel {
		cancelled = out.Ending == journal.UserCancelled
	}
	if DropsLoopFile(*w.run.config, out.Ending.Final(), cancelled) {
		return errors.Join(RemoveLoopFile(w.prompt.job.Dir), RemoveLoopFile(w.agentDir()))
	}
	return nil
}

// DropsLoopFile reports whether the file goes when a loop ends.
func DropsLoopFile(c Config, completed, cancelled bool) bool {
	return c.Gate == GateCriteria && (cancelled && c.LoopState != LoopStateKeep || completed &&
		c.LoopState == LoopStateDelete)
}

// RemoveLoopFile removes the file, and its folder if nothing else is in it.
func RemoveLoopFile(dir string) error {
	path := loopFile(dir)
	if plainfile.Writable(dir, path) != nil {
		return nil // it was never written
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s/state.json: %w", loopDir, err)
	}
	ignore := filepath.Join(filepath.Dir(path), ".gitignore")
	others, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(others) > 1 || len(others) == 1 && others[0].Name() != ".gitignore" {
		return nil
	}
	if b, err := plainfile.Read(dir, ignore, 1<<10); err != nil ||
		strings.TrimSpace(string(b)) != strings.TrimSpace(ignoreAll) {
		return nil
	}
	_ = os.Remove(ignore)             // at worst an empty
	_ = os.Remove(filepath.Dir(path)) // folder stays
	return nil
}
