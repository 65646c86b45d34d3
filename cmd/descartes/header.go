package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/agent"
	"descartes/internal/oneline"
	"descartes/internal/proc"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/verify"
	"descartes/view"
)

// warnLimits reports each backend whose account is remembered as used up: until when, who met that, and how to forget it. A run started anew ignores
// all of it.
func (p *printer) warnLimits(root string, backends []agent.Backend, anew bool) {
	if anew {
		return
	}
	a := accounts(backends, root, os.Getenv)
	for _, b := range backends {
		if l, ok := a.Known(b.Name, time.Now()); ok {
			p.warn(fmt.Sprintf("%s's quota is used up until %s: %s; %s", b.Name, terminal.Moment(l.Until), l.Reason, l.Forget()))
		}
	}
}

// promptHeader describes what is about to be repeated.
func (p *printer) promptHeader(ctx context.Context, r *promptRun) {
	c := r.job.Config
	first, _, _ := strings.Cut(strings.TrimSpace(c.Prompt), "\n")
	if r.mode != nil {
		p.say("mode: %s, with %s", r.mode.Kind, cmp.Or(terminal.Clean(r.from), "the prompt of descartes"))
		specs := "none in specs/: the agent looks for them in the project's documents"
		if n := len(r.mode.Project.Specs()); n > 0 {
			specs = terminal.Count(n, "file") + " in specs/"
		}
		p.say("specs: %s", specs)
	} else {
		p.say("prompt: %s (%s)", terminal.Fit(terminal.Clean(first), 70), size(len(c.Prompt)))
	}
	p.agent(&r.prepared, c)
	switch {
	case r.job.Gate == nil:
		p.say("ends with: the first exit status 0, or after %s", terminal.Count(c.MaxIterations, "iteration"))
	case c.Gate == "" || c.Gate == "promise":
		p.say("ends with: <promise>%s</promise> in the agent's final message, or after %s", terminal.Clean(c.CompletionPromise), terminal.Count(c.MaxIterations, "iteration"))
	default:
		r.gateHeader(p)
	}
	if len(c.ChecksOf(false)) > 0 {
		p.verify(c, false, r.why)
	} else {
		p.policy(c, false)
	}
	if c.Git.AutoCommit {
		p.say("commits: each iteration%s", onBranch(r.opt.Branch))
	} else if r.opt.Branch != "" {
		p.say("branch: %s", terminal.Clean(r.opt.Branch))
	}
	if r.repo != nil {
		p.slots(ctx, 1, &r.prepared, false)
	}
	p.surroundings(&r.prepared, c)
	if why := r.sandbox.Warning(); why != "" {
		p.warn(why)
	}
	p.warnLimits(r.root, r.backends(), r.opt.Anew)
}

func onBranch(name string) string {
	if name == "" {
		return ""
	}
	return ", on the branch " + terminal.Clean(name)
}

// size formats a number of bytes for people.
func size(n int) string {
	switch {
	case n < 10<<10:
		return terminal.Count(n, "byte")
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// gateHeader describes what ends a loop with a status or criteria gate.
func (r *promptRun) gateHeader(p *printer) {
	c := r.job.Config
	p.say("ends with: the %s gate, or after %s", c.Gate, terminal.Count(c.MaxIterations, "iteration"))
	if c.Gate != loop.GateCriteria {
		return
	}
	for _, k := range c.Criteria {
		p.say("criterion: %s%s", terminal.Clean(k.Text), howChecked(k))
	}
	for _, k := range c.MustNot {
		p.say("must not be: %s%s", terminal.Clean(k.Text), howChecked(k))
	}
}

func howChecked(k gate.Criterion) string {
	switch {
	case k.Command != "":
		return " (runs: " + terminal.Clean(k.Command) + ")"
	case k.Verification != "":
		return " (by " + terminal.Clean(k.Verification) + ")"
	}
	return ""
}

// slots says in one line where agents work, and that the user may go on working.
func (p *printer) slots(ctx context.Context, n int, r *prepared, fleet bool) {
	if head, err := r.repo.Head(ctx); err == nil && head.Branch == "" && r.opt.Branch == "" { // that it cannot be read is said elsewhere
		p.warn("HEAD is on no branch, and neither will be the commits of this run: --branch NAME puts them on a new one")
	}
	if fleet {
		p.say("slots: %s at a time, made by the workers of a fleet: go on working here", terminal.Count(n, "attempt"))
		return
	}
	if r.here {
		p.say("slots: one agent, in this folder itself: it belongs to the run until it ends; to keep working: git worktree add --detach %s",
			terminal.Quote("../"+terminal.Clean(filepath.Base(r.root))+"-work"))
		return
	}
	where := ""
	if !r.sandbox.Mounts() {
		where = " below " + terminal.Clean(r.pool)
	}
	p.say("slots: %s at a time, each in a copy of the project%s: go on working here", terminal.Count(n, "agent"), where)
	var servers []string
	for _, l := range proc.Listening(r.repo.Root()) {
		if !strings.HasPrefix(l.Name, "descartes") {
			servers = append(servers, fmt.Sprintf("%s (process %d, port %d)", l.Name, l.PID, l.Port))
		}
	}
	if len(servers) > 0 {
		p.say("note: programs of yours listen in this folder, and a check that asks one sees your files and not the agent's: %s; have the check start its own", terminal.Clean(oneline.List(servers)))
	}
}

// verify says what decides about the work, its timeouts, and which policies apply. found is where a detected command comes from.
func (p *printer) verify(c loop.Config, tag bool, found string) {
	checks := c.ChecksOf(tag)
	switch {
	case len(checks) == 0:
		p.say("verify: none, the agent's word is taken")
	case checks[0].Name != "":
		p.say("verify: %s", terminal.Count(len(checks), "check"))
		for _, one := range checks {
			when := ""
			if !one.At(verify.AtAttempt) {
				when = " (at " + string(one.When) + ")"
			}
			p.say("  %s: %s%s", one.Name, terminal.Clean(one.Run), when)
		}
	case found != "":
		p.say("verify: %s (found: %s)", terminal.Clean(checks[0].Run), terminal.Clean(found))
	default:
		p.say("verify: %s", terminal.Clean(checks[0].Run))
	}
	var ends []string
	if n := c.VerifyTimeoutSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second))
	}
	if n := c.VerifyIdleSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second)+" without output")
	}
	if len(ends) > 0 && len(checks) > 0 {
		p.say("verify times out %s", strings.Join(ends, ", or "))
	}
	p.policy(c, tag)
}

// policy says what else is required of the work.
func (p *printer) policy(c loop.Config, tag bool) {
	if text := view.Policy(c, tag); text != "" {
		p.say("in force: %s", text)
	}
}

// agent names the agent, and its model if one is requested.
func (p *printer) agent(r *prepared, c loop.Config) {
	model := ""
	if c.Backend.Model != "" {
		model = ", model " + terminal.Clean(c.Backend.Model)
	}
	p.say("agent: %s (%s%s)", terminal.Clean(strings.Join(r.backend.Command, " ")), r.backend.Name, model)
}

// surroundings describes what commands run in, and what a person should know first.
func (p *printer) surroundings(r *prepared, c loop.Config, more ...string) {
	p.say("sandbox: %s", terminal.Clean(view.Sandbox(c)))
	p.say("environment: %s", terminal.Clean(supervise.EnvironmentText(c, r.backend, os.Environ())))
	for _, n := range append(r.notes, more...) {
		p.say("note: %s", terminal.Clean(n))
	}
}

// header tells what is about to run, and what is odd about it.
func (p *printer) header(ctx context.Context, r *tagRun) {
	c := r.job.Config
	g := r.job.Graph.Counts()
	p.say("tag %s: %s in %s, %d done", r.job.File.Tag(), terminal.Count(g.Total, "task"), terminal.Count(p.events.Waves, "wave"), g.Done)
	if plan := r.job.Import; plan != nil {
		p.say("no task file has tag %s: %s of %s %s imported into %s", r.job.File.Tag(), terminal.Count(g.Total, "task"), terminal.Clean(plan.Name), r.willBe(g.Total), terminal.Clean(view.Relative(r.root, r.job.File.Path())))
	}
	p.agent(&r.prepared, c)
	if len(c.Fallback) > 0 {
		p.say("fallback: %s", terminal.Clean(strings.Join(c.Fallback, ", ")))
	}
	p.verify(c, true, r.why)
	p.slots(ctx, c.Slots(), &r.prepared, c.Fleet != "")
	if n := c.MostCandidates; n > 1 {
		which := "the first that is verified"
		if c.Pick == loop.PickSmallest {
			which = "of those that are verified the one with the smallest diff"
		}
		p.say("candidates: %d attempts at a task at the same time; %s is taken", n, which)
	}
	p.surroundings(&r.prepared, c, r.addedByPlan()...)
	for _, w := range append(r.warnings(), r.lacks...) {
		p.warn(w)
	}
	p.warnLimits(r.root, r.backends(), r.opt.Anew)
}
