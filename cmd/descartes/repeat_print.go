package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
)

// repeatHeader tells what is about to be repeated.
func (p *printer) repeatHeader(r *repetition) {
	c := r.job.Config
	first, _, _ := strings.Cut(strings.TrimSpace(c.Prompt), "\n")
	if r.mode != nil {
		p.say("mode: %s, with %s", r.mode.Kind, cmp.Or(terminal.Clean(r.from), "the prompt of descartes"))
	} else {
		p.say("prompt: %s (%s)", terminal.Fit(terminal.Clean(first), 70), size(len(c.Prompt)))
	}
	p.say("agent: %s (%s%s)", terminal.Clean(strings.Join(r.backend.Command, " ")), r.backend.Name, modelOf(c))
	switch {
	case r.job.Gate == nil:
		p.say("ends with: the first exit status 0, or after %s", terminal.Count(c.MaxIterations, "iteration"))
	case c.Gate == "" || c.Gate == "promise":
		p.say("ends with: <promise>%s</promise> in the agent's final message, or after %s", terminal.Clean(c.CompletionPromise), terminal.Count(c.MaxIterations, "iteration"))
	default:
		r.gateHeader(p)
	}
	if c.VerificationCommand != "" && c.VerificationCommand != loop.NoVerify {
		found := ""
		if r.why != "" {
			found = " (found: " + terminal.Clean(r.why) + ")"
		}
		p.say("verify: %s%s", terminal.Clean(c.VerificationCommand), found)
		p.verifyClocks(c, c.VerificationCommand)
	}
	if c.Git.AutoCommit {
		p.say("commits: each iteration%s", onBranch(r.opt.Branch))
		p.treeTaken(r.root)
	} else if r.opt.Branch != "" {
		p.say("branch: %s is made at HEAD", terminal.Clean(r.opt.Branch))
	}
	p.say("sandbox: %s", terminal.Clean(report.Sandbox(c)))
	p.say("environment: %s", terminal.Clean(environmentText(c, r.backend)))
	for _, n := range r.notes {
		p.say("note: %s", terminal.Clean(n))
	}
	if why := r.held.warning(); why != "" {
		p.warn(why)
	}
	p.warnLimits(r.root, r.backends(), r.opt.Anew)
}

func onBranch(name string) string {
	if name == "" {
		return ""
	}
	return ", on the new branch " + terminal.Clean(name)
}

// size is a number of bytes as a person says it.
func size(n int) string {
	switch {
	case n < 10<<10:
		return terminal.Count(n, "byte")
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// dry tells what a prompt loop would do.
func (r *repetition) dry(p *printer, cmd *cobra.Command, s *settings) error {
	if s.JSON {
		w := r.mask.Writer(cmd.OutOrStdout())
		err := writeJSON(w, struct {
			Kind    string      `json:"kind"`
			Root    string      `json:"root"`
			Command []string    `json:"command"`
			Config  loop.Config `json:"config"`
			Gate    *gatePlan   `json:"gate,omitempty"`
		}{r.job.Kind, r.root, r.backend.Command, r.job.Config, r.gatePlan()})
		return errors.Join(err, w.Flush())
	}
	p.say("\n%s", terminal.CleanLines(strings.TrimRight(r.job.Config.Prompt, "\n")))
	r.gatePlan().print(p)
	p.say("\ndry run: nothing was touched")
	return nil
}

// fromHere is what a command needs besides where it is typed in another project than that of root.
func fromHere(root string) string {
	if here, err := findRoot("."); err == nil && here == root {
		return ""
	}
	return " --working-dir " + terminal.Quote(root)
}

// resumeOf is the command that resumes a loop.
func resumeOf(root, id, path string) string {
	return report.ResumeCommand(root, id, path, fromHere(root))
}
