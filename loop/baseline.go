package loop

import (
	"context"
	"encoding/json"
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
	"descartes/loop/store"
	"descartes/verify"
	"descartes/verify/results"
)

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
	Warm     bool     // it passes without what the check before left
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
	case b.Warm:
		s += "; it passes without what the check before left in files that git ignores: pool.fresh: true has each begin without that"
	}
	return s
}

// Hint says what to do about it.
func (b *Baseline) Hint() string {
	switch {
	case len(b.Beside) > 0:
		return b.Keep + " in descartes.yaml, if a fresh clone would get them too; pool.setup can make them"
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

// Unproven says that no proof judges tests while a check fails before anything.
func Unproven(c *verify.Check) string {
	return "prove: red-without judges no tests while " + c.Title() + " fails on the project as it is and names none"
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

// EndError says that a check at the end of a run fails.
type EndError struct{ Result verify.Result }

func (e *EndError) Error() string {
	return fmt.Sprintf("check %s fails at the end (%s): done tasks stay done and committed; fix it, commit, and resume the run to run the check again",
		e.Result.Name, e.Result.Reason())
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
