package launch

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"descartes/config"
	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/store"
	"descartes/verify"
)

// Line says one thing about what a run will do.
type Line struct{ Name, Text string }

// Lines say what the run will do; none where nobody knows yet.
func (r *Run) Lines() (list []Line) {
	c := r.Config
	if r.Idle || r.Tag == nil && r.Prompt == nil && r.Kind != "" {
		return nil
	}
	say := func(name, format string, args ...any) {
		list = append(list, Line{name, terminal.Clean(fmt.Sprintf(format, args...))})
	}
	if r.Tag != nil {
		g := r.Tag.Graph.Counts()
		say("tag "+r.Name(), "%s in %s, %d done", terminal.Count(g.Total, "task"),
			terminal.Count(len(r.Tag.Graph.Waves()), "wave"), g.Done)
		if plan := r.Tag.Import; plan != nil {
			say("import", "%s from %s, into %s", terminal.Count(g.Total, "task"), plan.Name,
				store.Relative(r.Root, r.Tag.File.Path()))
		}
		if c.Scud.PlanPath != "" {
			say("plan", "%s", c.Scud.PlanPath)
		}
	} else if r.Prompt != nil {
		r.repeated(say)
	}
	if len(r.Backends) > 0 {
		model := ""
		if c.Backend.Model != "" {
			model = ", model " + c.Backend.Model
		}
		say("agent", "%s (%s%s)", strings.Join(r.Backends[0].Command, " "), r.Backends[0].Name, model)
	}
	if len(c.Fallback) > 0 {
		say("fallback", "%s", strings.Join(c.Fallback, ", "))
	}
	if r.Prompt != nil {
		r.ends(say)
	}
	if r.Kind != "" {
		r.verified(say)
		r.place(say)
	}
	say("sandbox", "%s", cmp.Or(c.SandboxInForce, "not known"))
	if c.MaxMemory > 0 || c.MaxProcs > 0 {
		say("ceilings", "kept by %s", proc.Ceilings())
	}
	if len(r.Backends) > 0 {
		say("environment", "%s", EnvironmentText(*c, r.Backends, os.Environ()))
	}
	return list
}

// repeated says which prompt is repeated.
func (r *Run) repeated(say func(name, format string, args ...any)) {
	if r.Mode == nil {
		first, _, _ := strings.Cut(strings.TrimSpace(r.Config.Prompt), "\n")
		size := terminal.Count(len(r.Config.Prompt), "byte")
		if n := len(r.Config.Prompt); n >= 10<<10 {
			size = fmt.Sprintf("%d KiB", n>>10)
		}
		say("prompt", "%s (%s)", terminal.Fit(terminal.Clean(first), 70), size)
		return
	}
	say("mode", "%s, with %s", r.Mode.Kind, cmp.Or(r.promptFrom, "the prompt of descartes"))
	specs := "none in specs/: the agent looks for them in the project's documents"
	if n := len(r.Mode.Project.Specs()); n > 0 {
		specs = terminal.Count(n, "file") + " in specs/"
	}
	say("specs", "%s", specs)
}

// ends says what ends a prompt loop, and what is committed.
func (r *Run) ends(say func(name, format string, args ...any)) {
	c, most := r.Config, terminal.Count(r.Config.MaxIterations, "iteration")
	switch {
	case r.Prompt.Gate == nil:
		say("ends with", "the first exit status 0, or after %s", most)
	case c.Promised():
		say("ends with", "<promise>%s</promise> in the agent's final message, or after %s", c.CompletionPromise, most)
	default:
		say("ends with", "the %s gate, or after %s", c.Gate, most)
	}
	if c.Gate == loop.GateCriteria {
		for i, k := range slices.Concat(c.Criteria, c.MustNot) {
			name, how := "criterion", ""
			if i >= len(c.Criteria) {
				name = "must not be"
			}
			if k.Command != "" {
				how = " (runs: " + k.Command + ")"
			} else if k.Verification != "" {
				how = " (by " + k.Verification + ")"
			}
			say(name, "%s%s", k.Text, how)
		}
	}
	if c.Git.AutoCommit {
		say("commits", "each iteration")
	}
}

// verified says what decides about the work, its timeouts, and which policies apply.
func (r *Run) verified(say func(name, format string, args ...any)) {
	c, tag := r.Config, r.Tag != nil
	checks := c.ChecksOf(tag)
	switch {
	case len(checks) == 0 && tag && c.Scud.VerificationCommand != "":
		say("verify", "none, the agent's word is taken")
	case len(checks) == 0:
	case checks[0].Name != "":
		say("verify", "%s", terminal.Count(len(checks), "check"))
		for _, one := range checks {
			when := ""
			if !one.At(verify.AtAttempt) {
				when = " (at " + string(one.When) + ")"
			}
			say("  "+one.Name, "%s%s", one.Run, when)
		}
	case r.VerifyFrom != "":
		say("verify", "%s (found: %s)", checks[0].Run, r.VerifyFrom)
	default:
		say("verify", "%s", checks[0].Run)
	}
	var limits []string
	if n := c.VerifyTimeoutSecs; n > 0 {
		limits = append(limits, terminal.Duration(time.Duration(n)*time.Second))
	}
	if n := c.VerifyIdleSecs; n > 0 {
		limits = append(limits, terminal.Duration(time.Duration(n)*time.Second)+" without output")
	}
	if len(limits) > 0 && len(checks) > 0 {
		say("verify times out", "after %s", strings.Join(limits, ", or "))
	}
	if force := config.InForce(c, tag); force != "" {
		say("in force", "%s", force)
	}
}

// place says where agents work, and that the user may go on working.
func (r *Run) place(say func(name, format string, args ...any)) {
	if r.Options.Branch != "" {
		say("branch", "%s", r.Options.Branch)
	}
	agents := 1
	if r.Kind == store.KindTag {
		agents = r.Config.Slots()
	}
	switch {
	case r.Repo == nil:
	case r.Config.Fleet != "":
		say("slots", "%s at a time, made by the workers of a fleet: go on working here",
			terminal.Count(agents, "attempt"))
	default:
		where := ""
		if !r.Box.Mounts() {
			where = " below " + r.pool
		}
		say("slots", "%s at a time, each in a copy of the project%s: go on working here",
			terminal.Count(agents, "agent"), where)
	}
}
