// Package verify runs the command that decides whether a task is done, and derives the verdict on an attempt.
package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/agent/process"
	"descartes/internal/plainfile"
	"descartes/verify/results"
)

// SetupError says that the set-up command of a tree failed, so that nothing can be run there.
type SetupError struct {
	Text string // which, and where, for people
}

func (e *SetupError) Error() string { return e.Text }

// Request is one run of the verify command.
type Request struct {
	Label   string
	Command string // for sh -c
	Dir     string
	Env     []string
	Held    bool           // show it the held-out checks, for a Verifier that hides them
	Whole   bool           // give it all of the caller's variables, for a Verifier that withholds some
	Log     string         // a header line and both streams are appended here
	Redact  Redactor       // overwrites secrets in the log before it is read; nil: none
	Timeout time.Duration  // of the whole run; 0 is none
	Idle    time.Duration  // longest time without output; needs Log; 0 is none
	Grace   time.Duration  // between SIGTERM and SIGKILL
	Limits  process.Limits // of the command's processes
	Results []string       // patterns of the files with its test results
	Files   string         // where the files of Dir really are; "": in Dir
	Record  Place          // for the recorder of its tests' results; the zero value is none
	How     How            // its runners run
}

// How is how the runners of tests in a check run, where they have a recorder.
type How struct {
	GoOn bool     // they go on where one file of tests cannot be loaded
	Only []string // those that can run these files of tests alone, paths below the project; nil: all
}

// Place is a folder that a command sees.
type Place struct {
	Dir string // its path for us; it does not exist yet
	At  string // its path for the command
}

// Of returns the request for a check: its command, and its timeout if it has one.
func (q Request) Of(c *Check) Request {
	q.Command, q.Results = c.Run, c.Results
	if c.Timeout > 0 {
		q.Timeout = c.Timeout
	}
	return q
}

// Result is the result of a verify command.
type Result struct {
	Name      string // the check's name; "" for the only one
	Command   string
	Passed    bool // exit status 0, and only that
	Code      int
	Signal    int  // the signal that ended it, or 0
	TimedOut  bool // by Timeout or Idle
	Cancelled bool
	Overran   string // the limit that ended it, in words, or ""
	Digest    string // SHA-256 in hex of its output as logged; "" without a log
	Tail      string // end of its output on both streams, see tail
	Why       string // the output line that says why it failed; "" if it passed, was ended, or printed nothing
	Duration  time.Duration

	Tests    *results.Set    // results of its tests; nil: unknown
	Narrowed bool            // a runner ran the tests of How.Only alone
	NoneRan  bool            // a runner with a recorder started, and not one test ran
	Unread   string          // why its result files could not be read, or ""
	Cut      bool            // it printed more than the log may hold: the results of its tests are unknown
	Change   *results.Change // compared with what was known before; nil: nothing was
	Known    int             // failures that do not count because they existed before
	Standing bool            // it also failed before, and its test results are unknown: it decides nothing
	Tries    int             // number of runs if it ran again; else 0
	Flaky    []string        // tests that failed in one run and pass now
}

// Reason says in one line why the command did not pass.
func (r *Result) Reason() string { return title(r.Name) + r.reason() }

func (r *Result) reason() string {
	switch {
	case r.TimedOut && r.Overran != "":
		return " " + r.Overran
	case r.TimedOut:
		return " timed out"
	case r.Overran != "":
		return " " + r.Overran + " and was ended"
	case r.Cancelled:
		return " was cancelled"
	case r.Signal != 0:
		return fmt.Sprintf(" was ended by signal %d", r.Signal)
	case r.Why != "":
		return ": " + r.Why
	default:
		return fmt.Sprintf(" failed with exit status %d", r.Code)
	}
}

// Runner runs verify commands, one after the other.
type Runner struct{ process Process }

// Process runs a command and everything it starts to the end. A failed or ended command is a result.
type Process interface {
	Run(ctx context.Context, c process.Command) (process.Exit, error)
}

// NewRunner makes a Runner. It does not take ownership of p.
func NewRunner(p Process) *Runner { return &Runner{process: p} }

// Redactor overwrites secrets in files and texts.
type Redactor interface {
	// in place, from an offset on, also leaving out what is more than most; idempotent
	Log(path string, from, most int64) (left int64, err error)
	Text(s string) string
}

// nothing redacts nothing.
type nothing struct{}

func (nothing) Log(string, int64, int64) (int64, error) { return 0, nil }
func (nothing) Text(s string) string                    { return s }

// Run runs the command once. A failed command is a result; an error means that there is none: no shell, no such
// directory, no place for the log.
func (r *Runner) Run(ctx context.Context, q Request) (Result, error) {
	if q.Redact == nil {
		q.Redact = nothing{}
	}
	files, err := watch(&q)
	if err != nil {
		return Result{}, fmt.Errorf("verify: %w", err)
	}
	argv := []string{"sh", "-c", q.Command}
	var recorder *results.Recorder
	if files == nil && q.Record.Dir != "" {
		if recorder, err = record(&q); err != nil {
			return Result{}, fmt.Errorf("verify: %w", err)
		}
		argv = recorder.Argv(q.Record.At, argv...)
	}
	start, err := header(q.Log, q.Redact.Text(q.Command))
	if err != nil {
		return Result{}, fmt.Errorf("verify: %w", err)
	}
	exit, err := r.process.Run(ctx, process.Command{
		Label: q.Label, Argv: argv, Dir: q.Dir, Env: q.Env,
		Stdout: q.Log, Stderr: q.Log, Timeout: q.Timeout, Idle: q.Idle, Grace: q.Grace, Limits: q.Limits,
	})
	if err != nil {
		return Result{}, fmt.Errorf("verify: %w", err)
	}
	if exit.Why == process.NotStarted {
		return Result{}, fmt.Errorf("verify: %s", exit.Err)
	}
	res := Result{
		Passed: exit.Why == process.Exited && exit.Code == 0, Code: exit.Code, Signal: exit.Signal,
		TimedOut:  exit.Why == process.TimedOut || exit.Why == process.Idled,
		Cancelled: exit.Why == process.Cancelled || exit.Why == process.Orphaned,
		Duration:  exit.Took,
	}
	switch exit.Why {
	case process.TimedOut:
		res.Overran = "timed out: not finished after " + q.Timeout.String()
	case process.Idled:
		res.Overran = "timed out: it printed nothing for " + q.Idle.String()
	case process.Stopped:
		res.Overran = "lost its supervising process"
	default:
		res.Overran = q.Limits.Overran(exit.Why)
	}
	left, err := q.Redact.Log(q.Log, start, q.Limits.Share(start))
	if err != nil {
		return Result{}, fmt.Errorf("verify: %w", err)
	}
	res.Cut = files == nil && left > 0 // then what is left of its tests would look as if some were gone
	if err := res.read(q.Log, start, files == nil && !res.Cut); err != nil {
		return Result{}, fmt.Errorf("verify: %w", err)
	}
	if recorder != nil {
		if set, err := recorder.Read(); err != nil {
			return Result{}, fmt.Errorf("verify: %w", err)
		} else if set != nil {
			set.Rename(q.Redact.Text)
			res.Tests, res.Cut = set, false
		}
		res.Narrowed = recorder.Narrowed()
		res.NoneRan = res.Tests == nil && recorder.Started()
	}
	if files != nil {
		set, none, err := files.Read()
		switch {
		case err != nil:
			res.Unread = "results: " + err.Error()
		case none:
			res.Unread = "no file of " + strings.Join(q.Results, ", ") + " was written"
		case set != nil:
			set.Rename(q.Redact.Text) // the output is redacted already
			res.Tests = set
		}
	}
	res.Tail = results.Plain(res.Tail)
	if exit.Why == process.Exited && !res.Passed {
		res.Why = Why(strings.ReplaceAll(res.Tail, q.Dir+string(filepath.Separator), ""))
	}
	return res, nil
}

// record lays the recorder of a request.
func record(q *Request) (*results.Recorder, error) {
	recorder, err := results.Lay(q.Record.Dir)
	if err == nil && q.How.GoOn {
		err = recorder.GoOn()
	}
	if err == nil && q.How.Only != nil {
		err = recorder.Only(q.How.Only)
	}
	return recorder, err
}

// watch examines the result files before the command runs; nil if it writes none.
func watch(q *Request) (*results.Files, error) {
	if len(q.Results) == 0 {
		return nil, nil
	}
	return results.Watch(cmp.Or(q.Files, q.Dir), q.Results)
}

// read takes digest, tail and, where they are wanted, results of tests from the output in a log. A command that
// removed or replaced its log printed nothing.
func (r *Result) read(log string, from int64, tests bool) error {
	if log == "" {
		return nil
	}
	f, err := plainfile.Open("", log)
	if _, other := errors.AsType[*plainfile.Error](err); other || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size < from {
		from = 0
	}
	h := sha256.New()
	in := io.TeeReader(io.NewSectionReader(f, from, size-from), h)
	if tests {
		r.Tests, err = results.Output(in)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err == nil {
		r.Digest = hex.EncodeToString(h.Sum(nil))
		r.Tail, err = tail(f, from, size)
	}
	return err
}

// header appends the line that separates the command's output from what is before it, and returns where the output
// begins.
func header(log, command string) (start int64, err error) {
	if log == "" {
		return 0, nil
	}
	flags := os.O_RDWR | os.O_APPEND | os.O_CREATE
	f, err := os.OpenFile(log, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(log), 0o700) == nil {
		f, err = os.OpenFile(log, flags, 0o600)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	line := "$ " + strings.ReplaceAll(command, "\n", "\n> ") + "\n"
	var last [1]byte
	if n, _ := f.ReadAt(last[:], size-1); size > 0 && n == 1 && last[0] != '\n' {
		line = "\n" + line
	}
	n, err := f.WriteString(line)
	return size + int64(n), err
}
