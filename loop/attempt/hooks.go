package attempt

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/slot"
	"descartes/verify"
)

// Hooks say which hooks of the user's run, and for how long.
type Hooks struct {
	Began string        // the commit whose hooks run, where they lie in the project
	Limit time.Duration // 0: none
}

// preCommit and message name these hooks as checks.
const (
	preCommit   = "hook pre-commit"
	messageHook = "hook commit-msg"
)

// PreCommit has the user's hooks look at work before it is checked, in a slot that is prepared for it with its base as
// HEAD. What they change is part of the work. Where they refuse it and changed it, as a formatter does, they look once
// more at what they made of it. failed is nil where they let it pass.
func (r *Runner) PreCommit(ctx context.Context, slot *slot.Slot, start slot.Start, h Hooks, in Input,
	observe func(*Step) error) (tree gitops.Tree, failed *Ran, err error) {
	gctx := context.WithoutCancel(ctx)
	a := &run{Runner: r, ws: slot, in: &in, observe: observe}
	c := Command{Check: verify.Check{Name: preCommit, Timeout: h.Limit}}
	was := start.Before
	for try := 1; ; try++ {
		tree = start.Before
		if c.Run, err = slot.PreCommitCommand(gctx, h.Began); err != nil {
			return tree, nil, err
		}
		res, err := a.hook(ctx, c)
		if err == nil {
			err = a.over(gctx, "pre-commit hook")
		}
		if err != nil {
			return tree, nil, err
		}
		told := c
		told.Run, res.Command = "git hook run pre-commit", "git hook run pre-commit"
		ran := &Ran{Command: told, Result: res}
		if res.Cancelled {
			return tree, ran, nil
		}
		made, err := slot.Made(gctx)
		if err != nil {
			return tree, nil, err
		}
		switch {
		case res.Passed:
			return made, nil, a.tellChanged(gctx, was, made)
		case made == tree || try > 1:
			return made, ran, a.tell(Step{Moment: Checked, Command: told, Verify: res})
		}
		start.Before = made
		if _, err := slot.Prepare(gctx, start); err != nil {
			return made, nil, err
		}
	}
}

// hook runs the command of a hook.
func (a *run) hook(ctx context.Context, c Command) (verify.Result, error) {
	q := verify.Request{Label: a.in.Name + " " + c.Name, Dir: a.ws.Dir(), Files: a.ws.Files(),
		Env: a.environment(a.in), Log: a.in.Log, Redact: a.Redact, Timeout: c.Timeout, Grace: cmp.Or(a.Grace, Grace)}
	res, err := Check(ctx, a.Verify, q, &c)
	if err != nil {
		return res, fmt.Errorf("run the %s: %w", c.Name, err)
	}
	return res, nil
}

// tellChanged says what hooks changed.
func (a *run) tellChanged(ctx context.Context, was, made gitops.Tree) error {
	if was == made {
		return nil
	}
	changes, err := a.Repo.Changed(ctx, was, made)
	if err != nil {
		return err
	}
	return a.tell(Step{Moment: Noted, Lines: []string{
		"the pre-commit hook changed files, which count as part of the work: " + slot.Paths(changes)}})
}

// Message has the user's hooks look at the message of a commit, in a slot that is prepared for it with its parent as
// HEAD, and returns what they made of it. The error is a gitops.RefusedError where they do not let it pass, and a
// gitops.StoppedError where something ended them.
func (r *Runner) Message(ctx context.Context, slot *slot.Slot, message string, h Hooks, in Input) (string, error) {
	gctx := context.WithoutCancel(ctx)
	a := &run{Runner: r, ws: slot, in: &in}
	c := Command{Check: verify.Check{Name: messageHook, Timeout: h.Limit}}
	var said func() (string, error)
	var err error
	if c.Run, said, err = slot.MessageCommand(gctx, h.Began, message); err != nil {
		return "", err
	}
	res, err := a.hook(ctx, c)
	if err != nil {
		return "", err
	}
	text, serr := said()
	if _, err := slot.Repair(gctx, "commit-msg hook"); err != nil {
		return "", err
	}
	switch {
	case res.Cancelled:
		return "", &gitops.StoppedError{Command: "the commit", Inside: messageHook, After: res.Duration,
			Cause: context.Cause(ctx)}
	case res.TimedOut:
		return "", &gitops.StoppedError{Command: "the commit", Inside: messageHook, After: res.Duration,
			Cause: gitops.ErrTooLong}
	case !res.Passed:
		why := oneline.Text(res.Reason())
		if res.Why == "" {
			why = strings.TrimSpace(why + "\n" + res.Tail)
		}
		return "", &gitops.RefusedError{Reason: why,
			Hint: "do what the hook asks for; git.commit_template has the first line of messages"}
	case serr != nil:
		return "", fmt.Errorf("read the message that a hook left: %w", serr)
	}
	return text, nil
}
