package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/internal/proc"
	"descartes/loop"
	"descartes/tasks"
	"descartes/verify"
)

// check looks at everything. imports says that the plan was named for this run; wrong is why the settings cannot be
// used, or nil.
func (d *doctor) check(ctx context.Context, s *settings, imports bool, wrong error) {
	d.git(ctx, d.root)
	d.repository(ctx, d.root)
	if wrong != nil {
		d.bad("settings", wrong.Error(), orWord(hintOf(wrong), "correct it, or run without it"))
		d.agents(ctx, loop.Config{}, agent.Backend{})
		d.tags(d.root)
		return
	}
	if path := filepath.Join(d.root, "descartes.yaml"); s.File == "" && exists(path) {
		d.good("settings", shown(d.root, path))
	} else if s.File != "" {
		d.good("settings", s.File)
	}
	d.backend(ctx, s.Config)
	d.verify(ctx, s)
	d.safety(ctx, s.Config)
	d.documents(s.Scud)
	d.run(ctx, s, imports)
}

// verify says which command decides, and whether its program is there.
func (d *doctor) verify(ctx context.Context, s *settings) {
	command, why, ok := s.Scud.VerificationCommand, s.verifyFrom, true
	if command == "" {
		command, why, ok = detect(d.root)
	}
	switch {
	case !ok:
		d.bad("verify", "no verify command given, and none found from the project's files", `give --verify "make test", or --verify none`)
		return
	case command == loop.NoVerify:
		d.good("verify", "none, the agent's word is taken")
		return
	case why != "":
		why = " (found: " + why + ")"
	}
	if word, lacks := d.lacksProgram(ctx, command); lacks {
		d.bad("verify", command+why+": there is no command "+word, "install it, or name another command with --verify")
		return
	}
	d.good("verify", command+why)
}

// lacksProgram reports whether the first word of a shell command is no command. What is no plain word is not judged.
func (d *doctor) lacksProgram(ctx context.Context, command string) (word string, lacks bool) {
	word = strings.Fields(command + " :")[0]
	if strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz0123456789_-+./") != "" {
		return "", false
	}
	reply, err := proc.Output(ctx, proc.Call{Argv: []string{"/bin/sh", "-c", `command -v -- "$0" >/dev/null`, word}, Dir: d.root, Env: d.env})
	return word, err == nil && reply.Code != 0
}

// documents are the plan and the other texts of a spec.
func (d *doctor) documents(c loop.ScudConfig) {
	if c.PlanPath != "" {
		if _, err := loop.PlanText(d.root, c.PlanPath); err != nil {
			d.bad("plan", err.Error(), "correct --plan, or scud.plan_path in descartes.yaml")
		} else {
			d.good("plan", c.PlanPath)
		}
	}
}

// run checks what a start with these settings would check, which knows all that is in its way.
func (d *doctor) run(ctx context.Context, s *settings, imports bool) {
	if err := chooseSource(io.Discard, d.root, &s.Scud); err != nil {
		d.tags(d.root)
		if len(tasks.Known(d.root)) > 0 {
			d.bad("run", err.Error(), hintOf(err))
		}
		return
	}
	d.tag(s.Scud, imports)
	var opt loop.StartOptions
	old, err := unfinished(d.root, s.Scud.Tag)
	if err == nil && old != nil {
		opt.Resume = old.Path
	}
	var r *ready
	if err == nil {
		r, err = prepare(ctx, d.root, s.Config, opt, imports)
	}
	var found problems
	switch {
	case errors.As(err, &found):
		for _, p := range found {
			if p.Hint == "" && p.Err != nil {
				p.Hint = hintOf(p.Err)
			}
			d.bad("run", p.Message, p.Hint)
		}
		return
	case err != nil:
		d.bad("run", err.Error(), hintOf(err))
		return
	}
	defer r.close()
	switch {
	case r.nothing:
		d.good("run", "nothing is left to do in tag "+s.Scud.Tag)
	case d.ill:
	case old != nil:
		d.good("run", "loop "+old.State.ID+" can go on")
	default:
		d.good("run", count(len(r.job.Runnable()), "task")+" can run")
	}
	for _, w := range r.warnings() {
		d.lacking("", w, "")
	}
	if !r.nothing && !d.ill {
		if err := d.baseline(ctx, r); err != nil {
			d.bad("baseline", err.Error(), hintOf(err))
		}
	}
}

// baseline runs the verify command as a start would before its first attempt.
func (d *doctor) baseline(ctx context.Context, r *ready) (err error) {
	c := r.job.Config
	setting := orWord(c.Baseline, loop.BaselineRequire)
	if setting == loop.BaselineOff || c.Scud.VerificationCommand == loop.NoVerify {
		return nil
	}
	before, err := r.repo.Dirty(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "descartes-doctor-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	held, err := confine(dir, c, r.held, r.backends()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.close()) }()
	shim, err := supervise(r.root, filepath.Join(dir, "exit.json"), cookieOf(dir), held)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shim.Close()) }()
	v := &lateVerifier{}
	v.use(shim, held)
	b, err := loop.TryBaseline(ctx, v, loop.Timed(&c, verify.Request{Label: "baseline", Command: c.Scud.VerificationCommand, Dir: r.root,
		Log: filepath.Join(dir, "baseline.log"), Mask: r.mask}), withheld(c, r.backend, d.env).Verify)
	if err != nil {
		return err
	}
	switch {
	case b.Result.Passed:
		d.good("baseline", "verify passes before any task, in "+lasted(b.Result.Duration))
	case b.Stops(setting):
		d.bad("baseline", r.mask.Text(b.Reason()), "")
		d.output(r, b)
		d.fix(b.Hint())
	default:
		d.lacking("baseline", r.mask.Text(b.Reason()), "")
		d.output(r, b)
	}
	after, err := r.repo.Dirty(ctx)
	if left := slices.DeleteFunc(after, func(p string) bool { return slices.Contains(before, p) }); len(left) > 0 {
		d.lacking("", "the verify command changed files: "+strings.Join(left[:min(8, len(left))], ", "), "have git ignore what it makes")
	}
	return err
}

func (d *doctor) output(r *ready, b *loop.Baseline) {
	for _, line := range b.Output() {
		fmt.Fprintf(d.w, "    %s\n", clean(r.mask.Text(line)))
	}
}
