package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
	"descartes/internal/oscall"
)

// Request is one run of an agent.
type Request struct {
	Label      string // names the run in errors
	Backend    string // kind of agent, for callers with several; a Runner has one and ignores it
	Prompt     string
	PromptFile string // where Run stores the prompt, mode 0600; needed for stdin and file
	Dir        string
	Env        []string
	Log        string // standard output is appended here
	ErrLog     string // standard error; may be Log, and then counts as the agent's words too
	Offset     int64  // size of Log before the run
	ErrOffset  int64  // size of ErrLog before the run; if zero, Run looks
	Timeout    time.Duration
	Idle       time.Duration // longest time without output
	Grace      time.Duration // between SIGTERM and SIGKILL
	Model      string        // "" is the program's own choice
	Clocks     Clocks
	Redact     Redactor       // overwrites secrets in Log and ErrLog before they are read; nil: none
	Promise    string         // the word of <promise>word</promise>; "" is COMPLETE
	Session    string         // continues this conversation, if the backend can; "" starts a new one
	Spent      *Tokens        // what that conversation has used so far, for clients that report totals
	Keep       bool           // the conversation may be continued later
	Limits     process.Limits // of its processes
	Words      int            // longest Result.Final in bytes; 0: 16 KiB
	Reads      bool           // it may only read the working tree, if it is sandboxed
}

// Redactor overwrites secrets, in files and in texts.
type Redactor interface {
	// in place, from an offset on, also leaving out what is more than most; idempotent
	Log(path string, from, most int64) (left int64, err error)
	Text(s string) string
}

// redact overwrites secrets in the output and in the stored prompt, so that an echo of the prompt still matches it,
// and shortens the output to its limit. left is by how much the log is shorter.
func (q *Request) redact() (left int64, err error) {
	if q.Redact == nil {
		return 0, nil
	}
	if left, err = q.Redact.Log(q.Log, q.Offset, q.Limits.Share(q.Offset)); err != nil {
		return left, err
	}
	if q.ErrLog != q.Log {
		if _, err := q.Redact.Log(q.ErrLog, q.ErrOffset, q.Limits.Share(q.ErrOffset)); err != nil {
			return left, err
		}
	}
	prompt := q.Redact.Text(q.Prompt)
	if prompt == q.Prompt {
		return left, nil
	}
	q.Prompt = prompt
	_, err = q.Redact.Log(q.PromptFile, 0, 0)
	return left, err
}

// long reports whether the log's part of this run is more than stays of it.
func (q *Request) long() bool {
	info, err := os.Stat(q.Log)
	return err == nil && q.Limits.Log > 0 && info.Size()-q.Offset > q.Limits.Share(q.Offset)
}

// End says why a run ended.
type End string

const (
	Finished  End = "finished"  // with exit status 0, or with TASK_BLOCKED
	Crashed   End = "crashed"   // another exit status, or a signal
	TimedOut  End = "timeout"   // ended by us
	Idled     End = "idle"      // ended by us
	Limited   End = "limited"   // the provider's quota is used up, until Result.Until
	Refused   End = "refused"   // could not start, or may not run: another attempt would end the same way
	Cancelled End = "cancelled" // ended by us
)

// Cause is why a run did not simply finish or crash.
type Cause string

const (
	Transient Cause = "transient" // of Crashed and Idled: the service or the client failed; a later try may succeed
	Budget    Cause = "budget"    // of Crashed: the client's own cap on turns or money
	Fatal     Cause = "fatal"     // of Refused: key, model name, money or size; a person must act
)

// Result is the result of one run.
type Result struct {
	End      End
	Cause    Cause // "" if unknown
	Code     int
	Signal   int
	Reason   string    // for people, one line; "" after a plain end
	Until    time.Time // of Limited; zero if unknown
	Final    string    // the end of the agent's own last message, at most 16 KiB of valid UTF-8, or Request.Words
	Complete bool      // it claimed completion
	Blocked  string    // the reason it gave with TASK_BLOCKED, or what it asks with TASK_QUESTION
	Question string    // what it asks with TASK_QUESTION or, if it claimed nothing, in its last message
	Notes    []string  // what else a person should know, one line each
	Cost     *Cost     // nil if unknown
	Session  string    // the client's id for it; "" if not reported
	Gone     bool      // the conversation to continue no longer exists: nothing was done, or a fresh agent did it all
	Model    string    // as the client reported it
	Events   int64     // of a stream; 0 for text
	Unknown  int64     // of these, events unknown to its dialect
	Idle     bool      // a stream shows that it used no tool
	Duration time.Duration
	Bytes    int64 // printed to Log
}

// Tokens are what a run was charged for. Cached ones are part of Input.
type Tokens = stream.Tokens

// Cost is the cost of a run as the agent reported it. What it did not report is nil, never zero.
type Cost struct {
	USD       *float64
	Estimated bool // USD is Tokens at the settings' prices
	Partial   bool // the client had gone on after it told this
	Tokens    *Tokens
}

// Process runs a command and everything it starts to the end. A failed or ended command is a result.
type Process interface {
	Run(ctx context.Context, c process.Command) (process.Exit, error)
}

// Runner runs agents of one backend, one after the other.
type Runner struct {
	process Process
	backend Backend
}

// NewRunner makes a Runner. It does not take ownership of p.
func NewRunner(p Process, b Backend) *Runner {
	return &Runner{process: p, backend: b}
}

// Name is the backend's name.
func (r *Runner) Name() string { return r.backend.Name }

// Run runs the agent once. Whatever the agent does is a result; an error means that there is none.
func (r *Runner) Run(ctx context.Context, q Request) (Result, error) {
	argv, env, err := r.backend.command(q)
	if err != nil {
		return Result{}, err
	}
	if q.PromptFile != "" {
		if err := writePrompt(q.PromptFile, q.Prompt); err != nil {
			return Result{}, err
		}
	}
	if info, err := os.Stat(q.ErrLog); err == nil && q.ErrOffset == 0 {
		q.ErrOffset = info.Size() // earlier output is not this run's
	}
	cmd := process.Command{
		Label: q.Label, Argv: argv, Dir: q.Dir, Env: env, Stdout: q.Log, Stderr: q.ErrLog,
		Timeout: q.Timeout, Idle: q.Idle, Grace: q.Grace, Limits: q.Limits,
	}
	if r.backend.Prompt == ByStdin {
		cmd.Stdin = q.PromptFile
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := r.follow(q, end)
	exit, err := r.process.Run(ctx, cmd)
	f := stop()
	if err != nil {
		return Result{}, err
	}
	if f != nil && f.why != nil && context.Cause(ctx) != error(f.why) { // something else ended it first
		f.why = nil
	}
	return r.result(q, exit, f)
}

// writePrompt stores the prompt for the agent and for later readers. It overwrites an existing file in place: after a
// truncation ext4 would write it out on close, which takes as long as a whole small task. Anything else that an
// earlier agent left in its place is removed.
func writePrompt(path, prompt string) (err error) {
	f, err := openPrompt(path)
	if err != nil {
		return fmt.Errorf("store prompt: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("store prompt: %w", err)
		}
	}()
	if _, err := io.WriteString(f, prompt); err != nil {
		return err
	}
	return f.Truncate(int64(len(prompt)))
}

func openPrompt(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | oscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		f, err = os.OpenFile(path, flags, 0o600)
	}
	if err == nil {
		if info, statErr := f.Stat(); statErr == nil && info.Mode().IsRegular() && info.Mode().Perm() == 0o600 {
			return f, nil
		}
		err = errors.Join(fs.ErrExist, f.Close())
	}
	if os.Remove(path) != nil {
		return nil, err
	}
	return os.OpenFile(path, flags|os.O_EXCL, 0o600)
}
