package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/redact"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/verify"
	"descartes/verify/results"
)

// A run's checks apart from those of attempts: before the first, and after the last.

// Baseline is the result of a check on a tree that no agent has touched.
type Baseline struct {
	Check    verify.Check
	Result   verify.Result
	Withheld []string // the variables, withheld from the check, with which it passes
	Task     string   // the task that was just blocked; "" before the first
	New      []string // failing tests that were not known to fail, if only known failures are allowed
	Blind    bool     // nothing separates known failures from new ones
	Slot     int      // where it ran; 0 for the user's own tree
	Dangling []string // links that lead nowhere there, and somewhere in the user's tree
	Beside   []string // ignored files, without which, as a fresh clone has it, it fails
	Keep     string   // the line for descartes.yaml that gives them to a clone
}

// CannotRun reports whether the shell did not find the command, or could not execute it.
func (b *Baseline) CannotRun() bool {
	r := b.Result
	return !r.Passed && r.Signal == 0 && r.Overran == "" && (r.Code == 126 || r.Code == 127)
}

// Stops reports whether the run ends here under that setting.
func (b *Baseline) Stops(setting string) bool {
	switch {
	case b.Result.Passed:
		return false
	case len(b.Beside) > 0:
		return true
	case setting == config.BaselineKnown:
		return b.CannotRun() || b.Result.TimedOut || b.Result.Overran != "" || b.Result.Signal != 0 || len(b.New) > 0
	}
	return setting == config.BaselineRequire || b.CannotRun()
}

// Comparable reports whether the failing tests are known by name, so that later failures can be compared with them.
func (b *Baseline) Comparable() bool {
	return !b.Result.Passed && b.Result.Tests != nil && len(b.Result.Tests.Failed) > 0
}

// Known says how many tests may keep failing, "" if none may.
func (b *Baseline) Known(setting string) string {
	switch {
	case setting != config.BaselineKnown || !b.Comparable():
		return ""
	case len(b.Result.Tests.Failed) == 1:
		return "1 known failure may stay"
	}
	return fmt.Sprintf("%d known failures may stay", len(b.Result.Tests.Failed))
}

// Standing reports whether the check keeps failing without deciding anything: it fails, and its failing tests are not
// known by name.
func (b *Baseline) Standing(setting string) bool {
	return setting == config.BaselineKnown && !b.Result.Passed && !b.Comparable()
}

// outcome returns what follows from the baseline: the end of the run, a note, or neither.
func (b *Baseline) outcome(stop *stopper, setting string, m *redact.Redactor) (*Outcome, *journal.Event) {
	if b.Result.Cancelled {
		return stop.outcome(), nil
	}
	out, note := b.Outcome(setting, m)
	if note == "" {
		return out, nil
	}
	return out, &journal.Event{Type: journal.Warning, Message: note}
}

// Outcome is what follows from a baseline that came to an end: the end of the run, a note, or neither.
func (b *Baseline) Outcome(setting string, m *redact.Redactor) (out *Outcome, note string) {
	switch {
	case b.Stops(setting):
		why := b.Reason()
		if b.Result.Why != "" { // later readers do not have the output below it
			why += ": " + b.Result.Why
		}
		return &Outcome{Ending: journal.BaselineFails, Message: m.Text(why), Baseline: b}, ""
	case b.Standing(setting):
		return nil, b.Reason() + "; it decides nothing until it has passed once"
	case setting == config.BaselineKnown: // its line says how many tests fail
	case !b.Result.Passed:
		return nil, b.Reason() + "; --baseline warn continues anyway"
	case b.Result.NoTests() && b.Result.Tests == nil && b.Result.Unread == "":
		return nil, b.Check.Title() + " runs no tests before any task: `" + oneline.Text(b.Check.Run) + "`"
	case b.Result.NoTests():
		return nil, b.Check.Title() + " runs no tests before any task, and an attempt passes only if it runs some: `" +
			oneline.Text(b.Check.Run) + "`"
	}
	return nil, ""
}

// Blinds is the end of a run of which no check decides anything: these keep failing, and nothing says by which tests.
func Blinds(standing []*Baseline, m *redact.Redactor) *Outcome {
	b := standing[0]
	b.Blind = true
	return &Outcome{Ending: journal.BaselineFails, Message: m.Text(b.Reason()), Baseline: b}
}

// Decides reports whether a fresh clone may say otherwise: it passes, or the tests that fail are known by name.
func (b *Baseline) Decides(setting string) bool {
	return b.Result.Passed || setting == config.BaselineKnown && b.Comparable()
}

// InClone is what counts of a baseline that also ran as a fresh clone has the project: that, with what is beside it
// where it passed, which the clone lacks, if it fails in another way there. keep is pool.keep.
func (b *Baseline) InClone(clone *Baseline, beside, keep []string) (*Baseline, error) {
	if clone.Result.Passed || clone.Result.Cancelled || clone.Comparable() && b.Comparable() &&
		len(results.Compare(b.Result.Tests, clone.Result.Tests).Broken) == 0 {
		return clone, nil
	}
	named := slices.DeleteFunc(slices.Clone(beside), func(name string) bool {
		return !strings.Contains(clone.Result.Tail, path.Base(name))
	})
	if clone.Beside = beside; len(named) > 0 {
		clone.Beside = named
	}
	list, err := json.Marshal(slices.Concat(keep, clone.Beside)) // which is YAML too
	clone.Keep = "pool: {keep: " + string(list) + "}"
	return clone, err
}

// EndLine is the line of the journal of a baseline that came to an end, on a tree, in a check slot or not.
func (b *Baseline) EndLine(tree gitops.Tree, setting string, alone bool) *journal.Event {
	e := &journal.Event{Type: journal.VerifyFinished, Unit: journal.Unit{Task: b.Task}, Tree: string(tree),
		Detail: VerifyDetail(b.Result)}
	e.Detail.Baseline, e.Detail.Alone, e.Detail.Command = true, alone, b.Check.Run
	if t := b.Result.Tests; t != nil && b.Task == "" {
		e.Detail.Tests.Passes, e.Detail.Tests.Fails = t.Passed, t.Failed
	}
	if !b.Result.Passed {
		e.Reason, e.Detail.Output = b.Reason(), b.Result.Tail
	}
	if b.Task == "" {
		e.Message = b.Known(setting)
	}
	return e
}

// Reason says in one line what is wrong.
func (b *Baseline) Reason() string {
	name := b.Check.Title()
	s := name + " fails before any task: `"
	if b.Task != "" {
		s = name + " fails without the work on task " + b.Task + " too, on a tree where it passed before: `"
	}
	if len(b.Beside) > 0 {
		s = name + " passes before any task only beside " + oneline.List(b.Beside) +
			", which git ignores; as a fresh clone has the project, `"
	}
	s += oneline.Text(b.Check.Run) + "` "
	r := &b.Result
	switch {
	case len(b.New) > 0:
		return s + fmt.Sprintf("has %d failing tests that were not known failures of the last run: %s", len(b.New),
			oneline.List(b.New))
	case r.Overran != "" || r.Signal != 0:
		s += strings.TrimPrefix(r.Reason(), name+" ")
	case r.NoTests():
		s += fmt.Sprintf("runs no tests, and ends with exit status %d", r.Code)
	default:
		s += fmt.Sprintf("ends with exit status %d", r.Code)
	}
	switch {
	case len(b.Withheld) > 0:
		s += "; it passes with all of your variables, of which these are withheld: " + oneline.List(b.Withheld)
	case b.CannotRun() && r.Code == 126:
		s += ": it contains something that cannot be executed"
	case b.CannotRun():
		s += ": a command was not found"
	case b.Blind:
		s += ", and nothing says which of its tests fail"
	}
	return s
}

// Hint says what to do about it.
func (b *Baseline) Hint() string {
	switch {
	case len(b.Beside) > 0:
		return b.Keep + " in descartes.yaml, if a fresh clone would get them too; pool.setup can make them; final_check: off starts without this check"
	case len(b.Withheld) > 0:
		if len(b.Withheld) > 3 {
			return "pass on the one it needs with --env-pass NAME, or with env_pass in descartes.yaml"
		}
		return "--env-pass " + strings.Join(b.Withheld, ",") +
			" passes on what it needs, and so does env_pass in descartes.yaml"
	case len(b.New) > 0:
		return "fix them, or run once with --baseline warn to make them known failures"
	case b.Blind:
		return "--baseline known needs test results: go test -json, TAP, pytest, or a check with results: build/junit/*.xml in descartes.yaml"
	case b.CannotRun():
		return "install what is missing, or correct --verify; --baseline off starts without this check"
	case b.Result.NoTests():
		return "write a first test or correct --verify; --baseline warn leaves the first test to the tasks"
	case b.Result.TimedOut:
		return "make it end by itself (no watch mode, no server), or raise verify_timeout_secs and verify_idle_timeout_secs"
	}
	return "fix the project or --verify and start again; if there is nothing to build yet, start with --baseline warn"
}

const baselineLines = 20

// Output returns the last lines the command printed.
func (b *Baseline) Output() []string {
	lines := strings.Split(strings.TrimRight(b.Result.Tail, "\n"), "\n")
	lines = lines[max(0, len(lines)-baselineLines):]
	return slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
}

// TryBaseline runs a check on the tree as it is. If it fails and variables are withheld from it, it runs again with
// all of them.
func TryBaseline(ctx context.Context, v attempt.Verifier, q verify.Request, c *attempt.Command,
	withheld []string) (*Baseline, error) {
	res, err := attempt.Check(ctx, v, q, c)
	if err != nil {
		return nil, fmt.Errorf("verify before any task: %w", err)
	}
	b := &Baseline{Check: c.Check, Result: res}
	if res.Passed || res.Cancelled || res.TimedOut || len(withheld) == 0 {
		return b, nil
	}
	q.Whole = true
	again, err := attempt.Check(ctx, v, q, c)
	if err != nil {
		return nil, fmt.Errorf("verify before any task: %w", err)
	}
	if again.Passed {
		b.Withheld = withheld
	}
	return b, nil
}

// checks runs the commands that decide, on states between attempts.
type checks struct {
	run  *Loop
	last Before // what the tag's last loop recorded about its checks
	// a run is resumed, and others than before decide; or they did already, and failed before any attempt
	others, untried bool
}

// fresh reports whether a task will start, and nothing is half done yet, or was by other checks.
func (l *checks) fresh() bool {
	h, g := l.run.history, l.run.job.Graph
	return slices.ContainsFunc(g.Leaves(), g.Ready) &&
		(l.others || l.untried || !h.Unfinished() && len(h.OpenTasks()) == 0)
}

// baseline runs the checks once before the first attempt. An outcome ends the run. A tag requires that they pass; many
// prompts exist to make them pass.
func (l *checks) baseline(ln *lane) (*Outcome, error) {
	setting := cmp.Or(l.run.config.Baseline, config.BaselineRequire)
	if setting == config.BaselineOff || !l.fresh() || l.run.limits() != nil {
		return nil, nil
	}
	known := setting == config.BaselineKnown
	var standing []*Baseline
	decides, unproven := false, false
	for _, c := range l.all() {
		if c.At(verify.AtEnd) && !known {
			continue
		}
		b, err := l.first(ln, c, known)
		if err != nil {
			return nil, err
		}
		if b == nil {
			decides = true
			continue
		}
		out, note := b.outcome(l.run.stop, setting, l.run.tools.Redact)
		if note != nil {
			err = l.run.tell(note)
		}
		if out == nil && err == nil && (l.run.config.ProveOf(nil) || l.run.config.ProvesSome) && !b.Result.Passed &&
			b.Result.Tests == nil && !unproven {
			unproven = true
			err = l.run.tell(&journal.Event{Type: journal.Warning, Message: Unproven(&c)})
		}
		if out != nil || err != nil {
			return out, err
		}
		if b.Standing(setting) {
			standing = append(standing, b)
		} else if c.At(verify.AtAttempt) {
			decides = true
		}
	}
	if known && !decides && len(standing) > 0 {
		return Blinds(standing, l.run.tools.Redact), nil
	}
	return nil, nil
}

// Unproven says that no proof judges tests while a check fails before anything.
func Unproven(c *verify.Check) string {
	return "prove: red-without judges no tests while " + c.Title() + " fails on the project as it is and names none"
}

// first runs a check before the first attempt; nil if it passed before on the same tree.
func (l *checks) first(ln *lane, c verify.Check, known bool) (*Baseline, error) {
	ctx, before := l.run.ctx, l.run.holds()
	// otherwise the test results are needed
	if l.passedBefore(ctx, before, &c) && (l.run.history.Checks.Named(c.Name).Known != nil ||
		!l.last.Passes.Named(c.Name).Pass.Told) {
		return nil, nil
	}
	b, err := l.untouched(ln, before, "", &attempt.Command{Check: c})
	if err == nil && b.Decides(l.run.config.Baseline) && !c.At(verify.AtEnd) {
		b, err = l.alone(ctx, ln, before, b)
	}
	if err != nil {
		return nil, err
	}
	if known && b.Comparable() {
		b.New = l.last.Unknown(&c, b.Result.Tests, l.run.tools.Redact.Text)
	}
	if !b.Result.Passed && len(b.Beside) == 0 {
		b.Slot = ln.number()
		b.Dangling, err = ln.slot.Dangling(ctx)
	}
	return b, err
}

// bar is what a check requires besides exit status 0, for an attempt at a task or, with "", for all verified work.
func (l *checks) bar(c *verify.Check, task string, fewer bool) *verify.Bar {
	b := Bar(l.run.config, l.run.history, task, c, l.run.tools.Redact.Text)
	b.Fewer = fewer
	return b
}

// Bar is what a check requires besides exit status 0, by what the journal knows of it; mask masks its secrets there.
func Bar(c *Config, h *journal.State, task string, check *verify.Check, mask func(string) string) *verify.Bar {
	b := &verify.Bar{Known: c.Baseline == config.BaselineKnown}
	if k := h.KnownAt(task, check.Name); k != nil && k.Command == mask(check.Run) {
		if b.Ran, b.Failed = true, k.Failed; k.Told {
			b.Before = &results.Set{Passed: k.Passes, Failed: k.Fails, More: k.More}
		}
	}
	return b
}

// commands returns the checks as they are run, each with its bar.
func (l *checks) commands(checks []verify.Check, task string, fewer bool) (list []attempt.Command) {
	for i := range checks {
		list = append(list, attempt.Command{Check: checks[i], Bar: l.bar(&checks[i], task, fewer)})
	}
	return list
}

// ownCheck returns it as this run has read the list.
func ownCheck(t *tasks.Task) (list []attempt.Command) {
	for _, c := range source.OwnChecks(t) {
		list = append(list, attempt.Command{Check: c})
	}
	return list
}

// all returns the checks that decide about the run's work, in order.
func (l *checks) all() []verify.Check { return l.run.config.ChecksOf(true) }

// at returns the checks for some points of a run.
func (l *checks) at(when ...verify.When) []verify.Check {
	return slices.DeleteFunc(l.all(), func(c verify.Check) bool {
		return !slices.ContainsFunc(when, c.At)
	})
}

// recheck runs the check that blocked a task again, on the tree without the task's work, where it had passed before.
// If it fails in the same way now, the task is not to blame and further tasks would be wasted: the breaker opens.
func (w *breaker) recheck(u *unit) error {
	s, id := w.streak(), u.task.ID
	if breakerOf(w.run.config) == 0 || w.run.config.Baseline == config.BaselineOff ||
		w.run.job.Graph.Status(id) != tasks.Blocked || u.res.Verify == nil ||
		s.signature == "" || s.signature == idleAgent || !slices.Equal(s.tasks, []string{id}) ||
		w.run.limits() != nil {
		return nil
	}
	list := w.run.checks.all()
	at := slices.IndexFunc(list, func(c verify.Check) bool { return c.Name == u.res.Verify.Name })
	if at < 0 {
		return nil
	}
	now, c := w.run.holds(), &attempt.Command{Check: list[at], Bar: w.run.checks.bar(&list[at], "", false)}
	if !w.run.checks.passedBefore(w.run.ctx, now, &list[at]) {
		return nil
	}
	u.lane.busy = true
	var b *Baseline
	w.run.jobs = append(w.run.jobs, job{begin: func() func() error {
		return func() (err error) {
			b, err = w.run.checks.untouched(u.lane, now, id, c)
			return err
		}
	}, then: func(err error) (*Outcome, error) {
		if u.lane.busy = false; err != nil || b.Result.Passed {
			return nil, err
		}
		if b.Result.Cancelled {
			return w.run.stop.outcome(), nil
		}
		if signature, _ := verifyFailure(b.Result.Tail, b.Result.Reason()); signature != s.signature {
			return nil, nil
		}
		return &Outcome{Ending: journal.BreakerOpen, Message: w.run.tools.Redact.Text(b.Reason())}, nil
	}})
	return nil
}

// untouched runs a check on a tree without unverified work, and undoes its changes. If it fails and variables are
// withheld from it, it runs again with all of them. task is the one that was just blocked, "" before the first.
func (l *checks) untouched(ln *lane, before gitops.Tree, task string, c *attempt.Command) (b *Baseline, err error) {
	u := &unit{lane: ln, before: before, base: before, log: l.run.home.NamedLog(l.run.state.ID, "baseline")}
	if _, err := l.run.lanes.prepare(l.run.ctx, ln, l.run.worker.startOf(u)); err != nil {
		return nil, err
	}
	if err := l.run.tell(&journal.Event{Type: journal.VerifyStarted, Unit: journal.Unit{Task: task},
		Detail: &journal.Detail{Checked: journal.Checked{Baseline: true, Check: c.Name},
			Files:  journal.Files{Alone: ln == l.run.lanes.checker},
			Client: journal.Client{Log: l.run.relative(u.log)}}}); err != nil {
		return nil, err
	}
	if b, err = TryBaseline(l.run.stop.soon(), ln.runner.Verify, l.request(ln, "baseline", u.log), c,
		l.run.tools.Withheld.Verify); err != nil {
		return nil, err
	}
	b.Task = task
	if err := l.tidy(u); err != nil {
		return nil, err
	}
	return b, l.run.tell(b.EndLine(before, l.run.config.Baseline, ln == l.run.lanes.checker))
}

// onState runs a check on a state between attempts, for that point of the run, and undoes its changes. A named check
// is recorded.
func (l *checks) onState(ctx context.Context, ln *lane, state gitops.Tree, when verify.When, c *attempt.Command, label,
	log string, tasks ...string) (res verify.Result, err error) {
	u := &unit{lane: ln, before: state, base: state, log: log}
	if _, err := l.run.lanes.prepare(ctx, ln, l.run.worker.startOf(u)); err != nil {
		return res, err
	}
	if c.Name != "" {
		if err := l.run.tell(&journal.Event{Type: journal.VerifyStarted,
			Detail: &journal.Detail{Checked: journal.Checked{At: string(when), Check: c.Name},
				Client: journal.Client{Log: l.run.relative(log)}}}); err != nil {
			return res, err
		}
	}
	res, err = attempt.Check(l.run.stop.now, ln.runner.Verify, l.request(ln, label, log, tasks...), c)
	if err != nil || c.Name == "" {
		return res, err
	}
	e := &journal.Event{Type: journal.VerifyFinished, Tree: string(state), Detail: VerifyDetail(res)}
	e.Detail.At, e.Detail.Command = string(when), c.Run
	if err := l.tidy(u); err != nil {
		return res, err
	}
	if !res.Passed {
		e.Reason, e.Detail.Output = res.Reason(), res.Tail
	}
	return res, l.run.tell(e)
}

// ChecksError says that a check fails on the verified work as a whole.
type ChecksError struct {
	When   verify.When
	Wave   int // the wave that cannot be committed because of it
	Result verify.Result
	Beside string // why it fails in a check slot and passes elsewhere, or ""
}

func (e *ChecksError) Error() string {
	if e.When == verify.AtEnd {
		return fmt.Sprintf("check %s fails at the end (%s): done tasks stay done and committed; fix it, commit, and resume the run to run the check again", e.Result.Name, e.Result.Reason())
	}
	if e.Beside != "" {
		return fmt.Sprintf("what wave %d would commit does not pass by itself (%s): %s; then resume the run", e.Wave,
			e.Result.Reason(), e.Beside)
	}
	return fmt.Sprintf("check %s fails on the work as a whole (%s): wave %d is not committed; retry its blocked tasks or fix the check, and resume the run", e.Result.Name, e.Result.Reason(), e.Wave)
}

// uncheckedError says why the checks of verified work were not finished.
type uncheckedError string

func (e uncheckedError) Error() string { return string(e) }
func (e uncheckedError) Unwrap() error { return context.Canceled }

// pass runs the checks that have not yet passed on the verified work as a whole. The first failure is returned as a
// *ChecksError.
func (l *checks) pass(ln *lane, when verify.When, wave int, fewer bool) error {
	whens := []verify.When{when}
	if when == verify.AtWave && l.run.config.Slots() == 1 {
		whens = append(whens, verify.AtMerge)
	}
	var checks []attempt.Command
	l.run.say(func() { checks = l.commands(l.at(whens...), "", fewer) })
	ctx := context.WithoutCancel(l.run.ctx)
	for _, c := range checks {
		state := l.run.holds()
		var passed bool
		if l.run.say(func() { passed = l.passedBefore(ctx, state, &c.Check) }); passed {
			continue
		}
		if l.run.ctx.Err() != nil {
			return uncheckedError("check " + c.Name + " has not run")
		}
		at, err := l.checkLane(ctx, ln)
		if err != nil {
			return err
		}
		res, err := l.onState(l.run.ctx, at, state, when, &c, "check "+c.Name,
			l.run.home.NamedLog(l.run.state.ID, "checks"))
		switch {
		case err != nil:
			return err
		case res.Cancelled:
			return uncheckedError("check " + c.Name + " was stopped")
		case !res.Passed:
			return &ChecksError{When: when, Wave: wave, Result: res}
		}
	}
	return nil
}

// atEnd runs the checks for the end of a run, if the outcome calls for them.
func (l *checks) atEnd(out *Outcome) error {
	if len(l.run.lanes.all) == 0 || l.run.stop.asked() != nil {
		return nil
	}
	err := l.pass(l.run.lanes.all[0], verify.AtEnd, 0, false)
	if asked := l.run.stop.asked(); asked != nil && errors.Is(err, context.Canceled) {
		*out, err = *asked, nil
	}
	return err
}

// request is the request for a check in a lane between attempts.
func (l *checks) request(ln *lane, label, log string, tasks ...string) verify.Request {
	ids := strings.Join(tasks, ",")
	return Timed(l.run.config, verify.Request{Label: label, Dir: ln.ws.Dir(), Files: ln.ws.Files(),
		Env: append(ln.env(), "DESCARTES_LOOP_ID="+l.run.state.ID, "DESCARTES_TAG="+l.run.state.Tag,
			"DESCARTES_TASK_ID="+ids, "SCUD_TASK_ID="+ids), Log: log, Redact: l.run.tools.Redact})
}

// passedBefore reports whether the same check last passed on this very tree, in this loop or in the tag's last one.
func (l *checks) passedBefore(ctx context.Context, now gitops.Tree, c *verify.Check) bool {
	return l.last.Passed(ctx, l.run.tools.Repo, l.run.history.Checks.Named(c.Name).Pass, now, c, l.run.tools.Redact.Text)
}

// Before is what earlier runs recorded about their checks.
type Before struct {
	Passes journal.Checks // of the tag's last run
	Known  journal.Checks // of the project's last tag run, if it allowed known failures
}

// Passed reports whether a check last passed on this very tree: own is what the run itself knows of that.
func (b *Before) Passed(ctx context.Context, repo *gitops.Repo, own journal.Pass, now gitops.Tree, c *verify.Check,
	mask func(string) string) bool {
	p := own
	if p.Tree == "" {
		p = b.Passes.Named(c.Name).Pass
	}
	if p.Tree == "" || p.Command != mask(c.Run) {
		return false
	}
	if p.Tree == string(now) {
		return true
	}
	changed, err := repo.Changed(ctx, gitops.Tree(p.Tree), now)
	return err == nil && len(changed) == 0 // its objects may be gone: verifying again only costs time
}

// Unknown are the failing tests that were not known to fail when the project's last run ended, if that run allowed known
// failures.
func (b *Before) Unknown(c *verify.Check, now *results.Set, mask func(string) string) []string {
	was := b.Known.Named(c.Name).Known
	if was == nil || !was.Told || was.Command != mask(c.Run) {
		return nil
	}
	return results.Compare(&results.Set{Failed: was.Fails}, now).Broken
}

// Earlier reads what the runs before the one with an id recorded about their checks, of those over a list, which
// store.Home.KeyOf names.
func Earlier(h store.Home, key, id string) (b Before) {
	all, err := h.List()
	if err != nil {
		return b
	}
	all = slices.DeleteFunc(all, func(s store.Saved) bool {
		return s.State == nil || s.State.Kind != store.KindTag || s.State.ID == id
	})
	slices.SortStableFunc(all, func(x, y store.Saved) int { return y.State.StartedAt.Compare(x.State.StartedAt) })
	checks := func(s store.Saved) journal.Checks {
		events, err := journal.ReadEvents(h.Events(s.State.ID))
		if err != nil {
			return nil
		}
		return journal.Fold(events).Checks
	}
	if len(all) > 0 && all[0].State.Config.Baseline == config.BaselineKnown {
		b.Known = checks(all[0])
	}
	if at := slices.IndexFunc(all, func(s store.Saved) bool { return s.State.Key() == key }); at >= 0 {
		b.Passes = checks(all[at])
	}
	return b
}

// tidy puts back what a check between attempts must not change; its other changes go with the slot's next attempt.
func (l *checks) tidy(u *unit) (err error) {
	if l.run.say(func() { err = l.run.worker.heal(u, "verification") }); err != nil {
		return err
	}
	notes, err := u.lane.ws.Repair(context.WithoutCancel(l.run.ctx), "verification")
	return errors.Join(err, l.run.tellWarn(u, notes...))
}

// Timed sets the timeouts of a verify command.
func Timed(c *Config, q verify.Request) verify.Request {
	q.Timeout, q.Idle, q.Grace = seconds(c.VerifyTimeoutSecs), seconds(c.VerifyIdleSecs), attempt.Grace
	return q
}

// VerifyDetail is a result of the verify command for its event.
func VerifyDetail(res verify.Result) *journal.Detail {
	d := &journal.Detail{Checked: journal.Checked{Check: res.Name, Passed: res.Passed, Digest: res.Digest,
		Tries: res.Tries, Flaky: res.Flaky, Standing: res.Standing},
		Exit: journal.Exit{Code: res.Code, Signal: res.Signal, TimedOut: res.TimedOut,
			Seconds: res.Duration.Seconds()}}
	if t := res.Tests; t != nil {
		d.Tests = &journal.Tests{Ran: t.Ran(), Failed: len(t.Failed), Skipped: len(t.Skipped) + t.Omitted,
			Known: res.Known, More: t.More}
		if c := res.Change; c != nil {
			d.Tests.Fixed, d.Tests.Added, d.Tests.Extra, d.Tests.Broken, d.Tests.Gone = c.Fixed, c.Added, c.More,
				c.Broken, c.Gone
		}
	}
	return d
}
