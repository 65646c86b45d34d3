package attempt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/lockfile"
	"descartes/internal/oneline"
	"descartes/loop/slot"
	"descartes/verify"
)

// Command is a named command that checks the work.
type Command struct {
	verify.Check
	Bar       *verify.Bar `json:"bar,omitempty"`       // nil: only its exit status counts
	Criterion bool        `json:"criterion,omitempty"` // it decides about a criterion of a gate, not about the work
}

// Ran is a command that ran, with its result.
type Ran struct {
	Command Command
	Result  verify.Result
}

// decided reports whether a command decides about the work.
func (in *Input) decided() bool {
	return slices.ContainsFunc(in.Checks, func(c Command) bool { return !c.Criterion })
}

// Failed returns the first deciding result that is not a pass, or nil.
func (r *Result) Failed() *verify.Result {
	for i := range r.Checks {
		if c := &r.Checks[i]; !c.Command.Criterion && !c.Result.Passed {
			return &c.Result
		}
	}
	return nil
}

// grade is how much a pass of the checks proves: "" if a test went from red to green or was added, or if that is
// unknown.
func (r *Result) grade() verify.Grade {
	if better, known := r.better(); known && !better {
		return verify.RegressionOnly
	}
	return ""
}

// better reports whether a test went from red to green or was added, and whether anything is known of that.
func (r *Result) better() (better, known bool) {
	for i := range r.Checks {
		b, k := r.Checks[i].Result.Better()
		better, known = better || b, known || k
	}
	return better, known
}

// Remarks say what the work's tests came to, and what is odd about the checks that passed, or "".
func (r *Result) Remarks() string {
	var list []string
	if r.Proof != "" {
		list = append(list, r.Proof)
	}
	for i := range r.Checks {
		text := r.Checks[i].Result.Remark()
		if name := r.Checks[i].Result.Name; text != "" && name != "" {
			text = name + ": " + text
		}
		if text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}

// commands runs the commands that check the work, if there is work. After a failed check the rest is skipped, unless
// the input asks for all; criteria are always checked.
func (a *run) commands(ctx context.Context) (ran bool, err error) {
	end, verifies, criteria := a.res.Agent.End, a.verifies(), 0
	for _, c := range a.in.Checks {
		part := "verify"
		switch {
		case c.Criterion:
			criteria++
			part = fmt.Sprintf("check %d", criteria)
			if end == agent.Cancelled || end == agent.Limited || end == agent.Refused {
				continue
			}
		case !verifies || !a.in.All && a.res.Failed() != nil:
			continue
		case c.Name != "":
			part += " " + c.Name
		}
		ran = true
		res, err := a.command(ctx, c, part)
		if err != nil {
			return ran, err
		}
		if res.Cancelled { // it says nothing about the work
			if !c.Criterion {
				a.res.Verify = &res
			}
			return ran, nil
		}
		a.res.Checks = append(a.res.Checks, Ran{c, res})
		if !c.Criterion && (a.res.Verify == nil || a.res.Verify.Passed) {
			a.res.Verify = &res
		}
	}
	return ran, nil
}

// verifies reports whether the work is worth verifying. An agent that only asked did none.
func (a *run) verifies() bool {
	r := &a.res.Agent
	if r.End != agent.Finished || a.res.Work.Lost != "" {
		return false
	}
	return a.in.Always || r.Blocked == "" && (a.res.Changed > 0 || r.Complete || r.Question == "")
}

// command runs a command on the work. A cancelled one says nothing about it.
func (a *run) command(ctx context.Context, c Command, part string) (verify.Result, error) {
	if err := a.tell(Step{Moment: Started, Command: c}); err != nil {
		return verify.Result{}, err
	}
	q := verify.Request{Label: a.in.Name + " " + part, Dir: a.ws.Dir(), Files: a.ws.Files(), Env: a.environment(a.in),
		Log: a.in.Log, Redact: a.Redact, Timeout: a.in.Clocks.Timeout, Idle: a.in.Clocks.Idle,
		Grace: cmp.Or(a.Grace, Grace)}
	if guards(a.in) && c.Bar != nil {
		bar := *c.Bar
		bar.Judged = true
		c.Bar = &bar
	}
	res, err := Check(ctx, a.Verify, q, &c)
	if err != nil {
		return res, fmt.Errorf("verify the work: %w", err)
	}
	if res.Cancelled {
		return res, nil
	}
	return res, a.tell(Step{Moment: Checked, Command: c, Verify: res})
}

// Check runs a command and measures the result by its bar. A failed command is run again as often as its settings
// allow.
func Check(ctx context.Context, v Verifier, q verify.Request, c *Command) (res verify.Result, err error) {
	for tries := 1; ; tries++ {
		before := res
		if res, err = v.Run(ctx, q.Of(&c.Check)); err != nil {
			return res, err
		}
		if res.Name, res.Command = c.Name, c.Run; c.Bar != nil {
			res.Measure(c.Bar)
		}
		if tries > 1 {
			res.Again(&before, tries)
		}
		if res.Passed || res.Cancelled || tries > c.Retry {
			return res, nil
		}
	}
}

// InNoCommit says of files what keeps them from a commit.
const InNoCommit = ", which git ignores and no commit has: git add -f it, correct .gitignore, or name it in pool.keep"

// Lacking names, where a check failed, what of an attempt's work the check's tree lacks: source files that git ignores,
// and what it put into folders of package managers, unless a lock file of its pins that.
func Lacking(v *verify.Result, w *slot.Result) *verify.Result {
	if v == nil || v.Passed || v.Cancelled {
		return v
	}
	var why []string
	if v.Why != "" {
		why = append(why, v.Why)
	}
	if len(w.Hidden) > 0 {
		why = append(why, "the check lacks "+oneline.List(w.Hidden)+InNoCommit)
	}
	pinned := slices.ContainsFunc(w.Changed, func(c gitops.Change) bool {
		f, _ := lockfile.Of(c.Path)
		return f.Frozen != "" && c.Op != 'D'
	})
	if len(w.Installs) > 0 && !pinned {
		why = append(why, "the check lacks what was put into "+oneline.List(w.Installs)+
			", which no commit has: commit a lock file that pins it, or have pool.setup make it, when a file of pool.setup_on changes")
	}
	if len(why) == 0 {
		return v
	}
	named := *v
	named.Why = strings.Join(why, "; ")
	return &named
}
