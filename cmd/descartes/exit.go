package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/mode"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/tasks/plan"
)

// Exit codes. exitTable says what they mean; only exitCode, promptCode and codeOf choose one.
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
  1    an internal error, or one of the machine
  2    usage or input: flags, missing tag, plan or spec, unreadable task file,
       unsafe tree, tag already running, verify fails before any task
  3    ended with tasks blocked by failed verification or by their agent, or a
       check fails on the work as a whole (build: tests fail beyond the retries)
  4    the agent cannot be run, or keeps crashing
  5    git refused (the work is kept, and where it is kept is said)
  6    a limit was reached with work left: iterations, cost, deadline
  7    waits for a person: paused, a gate's question, a blocker, an open breaker
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
	case journal.GitRefused:
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
		code = exitBlocked
	case journal.LimitReached, journal.DeadlinePast, journal.CostReached:
		code = exitLimit
	case journal.BreakerOpen:
		return exitWaits // whatever it has seen blocked
	case journal.Paused, journal.GateBlocked, journal.GateAsks:
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

// promptCode is exitCode for a prompt loop. For plan and build the limit of iterations is no failure; for a prompt that runs once it is.
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

// badInput is a mistake in what the user gave: exit 2.
func badInput(hint, format string, args ...any) error {
	return &failure{code: exitInput, err: fmt.Errorf(format, args...), hint: hint}
}

// quiet ends the program with a code and prints nothing.
type quiet int

func (q quiet) Error() string { return fmt.Sprintf("exit status %d", int(q)) }

// printError prints a command's error and returns the exit status.
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
	problems{{Message: err.Error(), Hint: hintOf(err), Err: err}}.print(w)
	return codeOf(err)
}

// codeOf is the exit status of an error that stopped a command.
func codeOf(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	if isInput(err) {
		return exitInput
	}
	return exitError
}

func isInput(err error) bool {
	var (
		tag     *tasks.TagError
		missing *tasks.NotFoundError
		format  *tasks.FormatError
		busy    *store.BusyError
		stale   *loop.StaleError
		dirty   *loop.DirtyError
		version *store.VersionError
		state   *store.StateError
		refused *gitops.RefusedError
		file    *loop.LoopFileError
		wave    *loop.NoWaveError
		strict  *supervise.StrictError
		setting *config.Error
	)
	return errors.As(err, &wave) || errors.As(err, &strict) || errors.As(err, &setting) || errors.As(err, &tag) || errors.As(err, &missing) || errors.As(err, &format) || errors.As(err, &busy) || errors.As(err, &stale) ||
		errors.As(err, &dirty) || errors.As(err, &version) || errors.As(err, &state) || errors.As(err, &refused) || errors.As(err, &file) ||
		errors.Is(err, tasks.ErrLocked) || errors.Is(err, gitops.ErrNotRepo) || errors.Is(err, gitops.ErrBare) || errors.Is(err, fs.ErrNotExist)
}

// hintOf is the next step after an error, if known.
func hintOf(err error) string {
	var f *failure
	var refused *gitops.RefusedError
	var missing *tasks.NotFoundError
	var version *store.VersionError
	var state *store.StateError
	var damage *journal.DamageError
	var file *loop.LoopFileError
	var wave *loop.NoWaveError
	var strict *supervise.StrictError
	var setting *config.Error
	var busy *store.BusyError
	var idle *plan.NoTasksError
	switch {
	case errors.As(err, &idle):
		return "descartes tasks plan " + terminal.Quote(idle.Path) + " has an agent write them"
	case errors.As(err, &wave):
		return "descartes waves" + config.ListFlags(wave.Tag, "") + " shows the waves and their commits"
	case errors.As(err, &f):
		return f.hint
	case errors.As(err, &setting):
		return cmp.Or(setting.Hint, nearKey(setting.Unknown))
	case errors.As(err, &strict):
		return strict.Fix + "; or run without it: --sandbox off"
	case errors.Is(err, syscall.ENOSPC):
		return "the disk is full: free some space, and try again"
	case errors.As(err, &busy):
		return "descartes loop status " + busy.Holder.Loop + ", or descartes loop cancel " + busy.Holder.Loop
	case errors.As(err, &refused):
		return refused.Hint
	case errors.As(err, &file):
		return "wait until it has ended, or start in a git worktree of its own"
	case errors.Is(err, tasks.ErrLocked):
		return "wait until scud has ended, or end it, and try again"
	case errors.Is(err, gitops.ErrNotRepo):
		return "git init, then commit what is there: descartes keeps and commits its work with git"
	case errors.Is(err, gitops.ErrBare):
		return "work in a clone, or in a git worktree, of it"
	case errors.As(err, &missing) && len(missing.Known) == 0:
		return "write .scud/tasks/" + cmp.Or(missing.Tag, "<tag>") + ".json first, or make it of a plan with --plan plan.md"
	case errors.As(err, &missing):
		return didYouMean(missing.Tag, missing.Known)
	case errors.As(err, &version) || errors.As(err, &state):
		return "move it away, or choose another with --state-file"
	case errors.As(err, &damage):
		return "move " + damage.Path + " away: a prompt loop then resumes from its state file; for a tag, move the state file away too and start again: the task file is enough"
	}
	return ""
}

// nearKey is a hint at the keys of descartes.yaml close to one that there is not, or "".
func nearKey(key string) string {
	var keys []string
	for _, one := range config.All() {
		if last := one.Key[strings.LastIndexByte(one.Key, '.')+1:]; one.YAML && !slices.Contains(keys, last) {
			keys = append(keys, last)
		}
	}
	return didYouMean(key, keys)
}

// problems is everything that is wrong before anything was done.
type problems []loop.Problem

func (p problems) Error() string { return fmt.Sprintf("%d problems", len(p)) }

func (p problems) print(w io.Writer) {
	for _, one := range p {
		hint := one.Hint
		if hint == "" && one.Err != nil {
			hint = hintOf(one.Err)
		}
		text := terminal.Clean(one.Message)
		vague, untrusted := (*gate.VagueError)(nil), (*untrustedError)(nil)
		if errors.As(one.Err, &vague) || errors.As(one.Err, &untrusted) { // a line for each thing
			text = terminal.CleanLines(one.Message)
		}
		fmt.Fprintf(w, "error: %s\n", text)
		if hint != "" {
			fmt.Fprintf(w, "hint: %s\n", terminal.Clean(hint))
		}
	}
}

// code is the problems' common exit status, or exitInput if they differ.
func (p problems) code() int {
	code := 0
	for _, one := range p {
		c := exitInput
		var f *failure
		var none *loop.NothingRunsError
		switch {
		case errors.As(one.Err, &f):
			c = f.code
		case errors.As(one.Err, &none) && none.Blocked > 0:
			c = exitBlocked // as the run that blocked them
		}
		if code != 0 && c != code {
			return exitInput
		}
		code = c
	}
	return code
}
