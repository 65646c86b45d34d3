package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/mode"
	"descartes/loop/source"
	"descartes/tasks"
)

// Exit codes. exitTable says what they mean. exitCode and promptCode choose that of a run that ended, codeOf that of an
// error; a command that knows better says so where it fails.
const (
	exitDone        = 0
	exitError       = 1
	exitInput       = 2
	exitBlocked     = 3
	exitAgent       = 4
	exitGit         = 5
	exitLimit       = 6
	exitWaits       = 7
	exitQuota       = 75
	exitInterrupted = 130
	exitTerminated  = 143
)

const exitTable = `Exit codes:
  0    everything asked for is done (plan, build: also at the limit of
       iterations)
  1    an internal or system error
  2    usage or input: flags, missing tag, plan or spec, unreadable task file,
       uncommitted changes, tag already running, verify fails before any task
  3    ended with tasks blocked by failed verification or by their agent, or a
       check fails on the work as a whole (build: tests fail beyond the retries)
  4    the agent cannot be run, or keeps crashing
  5    git refused (what is kept, and where, is said)
  6    a limit was reached with work left: iterations, cost, deadline
  7    waits for a person: paused, a question and nothing else blocked, a blocker
       of a gate, or repeated failures
  75   provider quota used up: with --on-limit stop, or longer than max_wait
  130  interrupted (Ctrl-C or cancel), with the state saved
  143  the same after SIGTERM; the end of a terminal (SIGHUP) ends no run
`

// exitCode turns the end of a run into an exit status. Where several apply, the first of 130/143,
// 5, 75, 4, 3, 6, 7 is it. blocked counts the tasks that the run gave up.
func exitCode(out loop.Outcome, blocked int) int {
	if out.Unpushed != "" && out.Ending != journal.UserCancelled && out.Ending != journal.Interrupted {
		return exitGit
	}
	code := exitError
	switch out.Ending {
	case journal.AllDone, journal.StepDone, journal.PromiseSeen, journal.CommandSucceeded, journal.GateDone:
		return exitDone
	case journal.UserCancelled:
		return exitInterrupted
	case journal.Interrupted:
		return exitTerminated
	case journal.GitRefused, journal.TrunkGone:
		return exitGit
	case journal.QuotaUsedUp:
		return exitQuota
	case journal.AgentUnusable, journal.ProviderFails:
		return exitAgent
	case journal.OwnError:
		return codeOf(out.Err)
	case journal.DiskFull:
		return exitError
	case journal.PlanMissing, journal.BaselineFails:
		return exitInput
	case journal.TasksBlocked, journal.TestsFailed, journal.ChecksFail:
		if code = exitBlocked; out.Asks {
			code = exitWaits
		}
	case journal.LimitReached, journal.DeadlinePast, journal.CostReached:
		code = exitLimit
	case journal.BreakerOpen, journal.Paused, journal.GateBlocked, journal.GateAsks:
		code = exitWaits
	}
	switch {
	case out.Crashed:
		return exitAgent
	case blocked > 0:
		return exitBlocked
	}
	return code
}

// promptCode is exitCode for a prompt loop. For plan and build the limit of iterations is no failure; for a prompt
// that runs once it is.
func promptCode(kind mode.Kind, out loop.Outcome) int {
	limit := out.Ending == journal.LimitReached
	switch {
	case out.Unpushed != "":
	case kind != "" && (out.Crashed || limit && kind == mode.Prompt):
		return exitAgent
	case kind != "" && limit:
		return exitDone
	}
	return exitCode(out, 0)
}

// failure is an error with its exit status and, if known, what the user can do next.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
func (f *failure) Code() int     { return f.code }

// badInput is a mistake in what the user gave: exit 2.
func badInput(hint, format string, args ...any) error {
	return &failure{code: exitInput, err: fmt.Errorf(format, args...), hint: hint}
}

// quiet ends the program with a code and prints nothing.
type quiet int

func (q quiet) Error() string { return fmt.Sprintf("exit status %d", int(q)) }

// interrupted says that a signal ended a command. ctx is of signal.NotifyContext, whose cause only has the signal's
// name.
func interrupted(ctx context.Context, text string) error {
	code := exitInterrupted
	if strings.HasPrefix(context.Cause(ctx).Error(), syscall.SIGTERM.String()) {
		code = exitTerminated
	}
	return &failure{code: code, err: errors.New(text)}
}

// printError prints what is wrong, and returns the exit status.
func printError(w io.Writer, err error) int {
	var q quiet
	var found problems
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &q):
		return int(q)
	case errors.As(err, &found):
		found.print(w)
		return found.code()
	}
	problems{{Message: err.Error(), Err: err}}.print(w)
	return codeOf(err)
}

// Errors of other packages that the user can do something about: Next says what, as far as it is known, and Near which
// words there are in place of a wrong one.
type (
	adviser interface{ Next() string }
	coder   interface{ Code() int } // its exit status
	nearer  interface {
		Near() (wrong string, known []string)
	}
)

// codeOf is the exit status of an error that stopped a command.
func codeOf(err error) int {
	var own coder
	var a adviser
	switch {
	case errors.As(err, &own):
		return own.Code()
	case errors.As(err, &a), errors.Is(err, tasks.ErrLocked), errors.Is(err, gitops.ErrNotRepo),
		errors.Is(err, gitops.ErrBare), errors.Is(err, fs.ErrNotExist):
		return exitInput
	}
	return exitError
}

// hintOf is the next step after an error, if known.
func hintOf(err error) string {
	var f *failure
	var a adviser
	var n nearer
	var damage *journal.DamageError
	hint := ""
	if setting, ok := errors.AsType[*config.Error](err); ok && setting.Known == nil {
		hint = nearSetting(setting.Near())
	} else if errors.As(err, &n) {
		hint = didYouMean(n.Near())
	}
	if hint == "" && errors.As(err, &a) {
		hint = a.Next()
	}
	switch {
	case errors.As(err, &f) && f.hint != "":
		return f.hint
	case hint != "":
		return hint
	case errors.Is(err, syscall.ENOSPC):
		return "the disk is full: free some space, and try again"
	case errors.Is(err, tasks.ErrLocked):
		return "wait until scud has ended, or end it, and try again"
	case errors.Is(err, gitops.ErrNotRepo):
		return "git init, then commit what is there: descartes keeps and commits its work with git"
	case errors.Is(err, gitops.ErrBare):
		return "work in a clone, or in a git worktree, of it"
	case errors.As(err, &damage):
		return "move " + damage.Path +
			" away: a prompt loop then resumes from its state file; for a tag, move the state file away too and start again: the task file is enough"
	}
	return ""
}

// problems is everything that is wrong before anything was done.
type problems []source.Problem

func (p problems) Error() string { return fmt.Sprintf("%d problems", len(p)) }

func (p problems) print(w io.Writer) {
	for _, one := range p {
		text := terminal.Clean(one.Message)
		vague, untrusted := (*gate.VagueError)(nil), (*untrustedError)(nil)
		if errors.As(one.Err, &vague) || errors.As(one.Err, &untrusted) { // a line for each thing
			text = terminal.CleanLines(one.Message)
		}
		fmt.Fprintf(w, "error: %s\n", text)
		if hint := cmp.Or(one.Hint, hintOf(one.Err)); hint != "" {
			fmt.Fprintf(w, "hint: %s\n", terminal.Clean(hint))
		}
	}
}

// code is the problems' common exit status, or exitInput if they differ.
func (p problems) code() int {
	code := 0
	for _, one := range p {
		c := exitInput
		var none *source.NothingRunsError
		var own coder
		switch {
		case errors.As(one.Err, &own):
			c = own.Code()
		case errors.As(one.Err, &none) && none.Blocked > 0:
			c = exitBlocked // as the run that blocked them
		case errors.As(one.Err, &none) && none.Asks > 0:
			c = exitWaits
		}
		if code != 0 && c != code {
			return exitInput
		}
		code = c
	}
	return code
}
