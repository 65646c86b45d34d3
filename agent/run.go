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
	Label      string // names the run; Recall knows it again by this
	Backend    string // kind of agent, for who has several; a Runner is of one and does not look at it
	Prompt     string
	PromptFile string // where Run stores the prompt, mode 0600; needed for stdin and file
	Dir        string
	Env        []string
	Log        string // standard output is appended here
	ErrLog     string // standard error; may be Log, and is then taken for the agent's words too
	Offset     int64  // size of Log before the run
	ErrOffset  int64  // size of ErrLog before the run; Run itself looks when it is zero
	Timeout    time.Duration
	Idle       time.Duration // longest time without output
	Grace      time.Duration // between SIGTERM and SIGKILL
	Model      string        // "" is the program's own choice
	Clocks     Clocks
	Redact     Redactor       // of secrets in Log and ErrLog, overwritten before anything there is read; nil: none
	Promise    string         // the word of <promise>word</promise>; "" is COMPLETE
	Session    string         // continues this conversation, where the backend can; "" starts a new one
	Spent      *Tokens        // that conversation's so far, for clients that tell them from its beginning
	Keep       bool           // the conversation may be continued later
	Limits     process.Limits // what holds the agent in
	Words      int            // bytes of its last message that Result.Final has at most; 0: 16 KiB
	Reads      bool           // it may only read the working tree, where something holds it in
}

// Redactor overwrites secrets, in files and in texts.
type Redactor interface {
	File(path string, from int64) (found bool, err error) // in place, from an offset on; twice is as once
	Text(s string) string
}

// redact overwrites secrets in what was printed and in the stored prompt, which an echo of it is then like again.
func (q *Request) redact() error {
	if q.Redact == nil {
		return nil
	}
	if _, err := q.Redact.File(q.Log, q.Offset); err != nil {
		return err
	}
	if q.ErrLog != q.Log {
		if _, err := q.Redact.File(q.ErrLog, q.ErrOffset); err != nil {
			return err
		}
	}
	prompt := q.Redact.Text(q.Prompt)
	if prompt == q.Prompt {
		return nil
	}
	q.Prompt = prompt
	_, err := q.Redact.File(q.PromptFile, 0)
	return err
}

// End says why a run ended.
type End string

const (
	Finished  End = "finished"  // with exit status 0, or with TASK_BLOCKED
	Crashed   End = "crashed"   // another exit status, or a signal
	TimedOut  End = "timeout"   // ended by us
	Idled     End = "idle"      // ended by us
	Limited   End = "limited"   // the provider's quota is used up, until Result.Until
	Refused   End = "refused"   // could not be started, or may not run: another attempt would end alike
	Cancelled End = "cancelled" // ended by us
)

// Cause says what a run's end was due to, where it did not simply finish or
// crash.
type Cause string

const (
	Transient Cause = "transient" // of Crashed and Idled: the service or the client failed, a later try may not
	Budget    Cause = "budget"    // of Crashed: the client's own cap on turns or money
	Fatal     Cause = "fatal"     // of Refused: key, model name, money or size; needs a person
)

// Result is what one run came to.
type Result struct {
	End      End
	Cause    Cause // "" where nothing is known
	Code     int
	Signal   int
	Reason   string    // for people, one line; "" after a plain end
	Until    time.Time // of Limited; zero where unknown
	Final    string    // the end of the agent's own last message, at most 16 KiB of valid UTF-8, or Request.Words
	Complete bool      // it claimed completion
	Blocked  string    // the reason it gave with TASK_BLOCKED
	Question string    // what its last message asks, where it claimed nothing; "" if it asks nothing
	Notes    []string  // what a person should know besides, one line each
	Cost     *Cost     // nil where unknown
	Session  string    // the client's name for it; "" where not told
	Gone     bool      // the conversation to continue no longer exists: nothing was done, or all of it by a fresh agent
	Model    string    // as the client told
	Events   int64     // of a stream; 0 for text
	Unknown  int64     // of them, those that its dialect does not know
	Duration time.Duration
	Bytes    int64 // printed to Log
}

// Tokens are what a run was charged for. Cached ones are part of Input.
type Tokens = stream.Tokens

// Cost is what a run cost, as the agent reported it. What it did not report is
// nil: never taken for nothing.
type Cost struct {
	USD       *float64
	Estimated bool // USD is Tokens at the settings' prices
	Tokens    *Tokens
}

// Process runs a command, with all that it starts, to its end. That it fails or is ended is a result.
type Process interface {
	Run(ctx context.Context, c process.Command) (process.Exit, error)
}

// Runner runs agents of one backend, one after the other.
type Runner struct {
	process Process
	backend Backend
}

// NewRunner makes a Runner; p stays the caller's.
func NewRunner(p Process, b Backend) *Runner {
	return &Runner{process: p, backend: b}
}

// Name is its backend's.
func (r *Runner) Name() string { return r.backend.Name }

// Run runs the agent once. Whatever the agent does is a result; an error
// means that there is none.
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
		q.ErrOffset = info.Size() // what others wrote there is not this run's
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
	why := stop()
	if err != nil {
		return Result{}, err
	}
	if why != nil && context.Cause(ctx) != error(why) { // somebody else was first
		why = nil
	}
	return r.result(q, exit, why)
}

// Recall reads the result of a run that ended by itself while nobody was there
// to hear of it, from the shim's exit file and the log. It is false for every
// other run than the one of this label.
func (r *Runner) Recall(q Request, exitFile string) (Result, bool) {
	exit, ok := process.ReadExit(exitFile)
	if !ok || exit.Label != q.Label || exit.Why != process.Exited && exit.Why != process.Signaled {
		return Result{}, false
	}
	if q.Prompt == "" && q.PromptFile != "" {
		if prompt, err := os.ReadFile(q.PromptFile); err == nil {
			q.Prompt = string(prompt)
		}
	}
	res, err := r.result(q, exit, nil)
	return res, err == nil
}

// writePrompt stores the prompt for the agent and for whoever looks later. A
// file that is there is overwritten in place: cut to nothing and filled again,
// ext4 would write it out on close, which takes as long as a whole small task.
// Whatever else an earlier agent may have left in its place is removed.
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
