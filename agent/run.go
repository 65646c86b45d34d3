package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"descartes/internal/proc"
)

// Request is one run of an agent.
type Request struct {
	Label      string // names the run; Recall knows it again by this
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
	Promise    string        // the word of <promise>word</promise>; "" is COMPLETE
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

// Result is what one run came to.
type Result struct {
	End      End
	Code     int
	Signal   int
	Reason   string    // for people, one line; "" after a plain end
	Until    time.Time // of Limited; zero where unknown
	Final    string    // the end of the agent's own words, at most 16 KiB of valid UTF-8
	Complete bool      // it claimed completion
	Blocked  string    // the reason it gave with TASK_BLOCKED
	Cost     *Cost     // nil where unknown
	Duration time.Duration
	Bytes    int64 // printed to Log
}

// Cost is what a run cost, as the agent reported it.
type Cost struct {
	USD          float64
	InputTokens  int64
	OutputTokens int64
}

// Runner runs agents of one backend, one after the other.
type Runner struct {
	shim    *proc.Shim
	backend Backend
}

// NewRunner makes a Runner; the shim stays the caller's.
func NewRunner(sh *proc.Shim, b Backend) *Runner {
	return &Runner{shim: sh, backend: b}
}

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
	cmd := proc.Command{
		Label: q.Label, Argv: argv, Dir: q.Dir, Env: env, Stdout: q.Log, Stderr: q.ErrLog,
		Timeout: q.Timeout, Idle: q.Idle, Grace: q.Grace,
	}
	if r.backend.Prompt == ByStdin {
		cmd.Stdin = q.PromptFile
	}
	exit, err := r.shim.Run(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	return r.result(q, exit)
}

// Recall reads the result of a run that ended by itself while nobody was there
// to hear of it, from the shim's exit file and the log. It is false for every
// other run than the one of this label.
func (r *Runner) Recall(q Request, exitFile string) (Result, bool) {
	exit, ok := proc.ReadExit(exitFile)
	if !ok || exit.Label != q.Label || exit.Why != proc.Exited && exit.Why != proc.Signaled {
		return Result{}, false
	}
	if q.Prompt == "" && q.PromptFile != "" {
		if prompt, err := os.ReadFile(q.PromptFile); err == nil {
			q.Prompt = string(prompt)
		}
	}
	res, err := r.result(q, exit)
	return res, err == nil
}

// result reads what was printed and joins it with how the process ended.
func (r *Runner) result(q Request, exit proc.Exit) (Result, error) {
	scan := newTextScan(q.Prompt, q.Promise)
	n, err := readFrom(q.Log, q.Offset, scan)
	if err != nil {
		return Result{}, fmt.Errorf("read agent output: %w", err)
	}
	scan.end()
	res := Result{
		Code: exit.Code, Signal: exit.Signal, Final: scan.final(), Bytes: n,
		Duration: exit.Took,
	}
	switch exit.Why {
	case proc.Exited, proc.Signaled:
		r.conclude(&res, scan, q, exit)
	case proc.TimedOut:
		res.End, res.Reason = TimedOut, fmt.Sprintf("not finished after %v", q.Timeout)
	case proc.Idled:
		res.End, res.Reason = Idled, fmt.Sprintf("no output for %v", q.Idle)
	case proc.Cancelled, proc.Orphaned:
		res.End, res.Reason = Cancelled, "cancelled"
	case proc.NotStarted:
		res.End, res.Reason = Refused, exit.Err
	default:
		return Result{}, fmt.Errorf("run agent: unknown end %q", exit.Why)
	}
	return res, nil
}

// conclude judges a run that we did not interrupt. After an interruption of
// ours nothing that was said counts: agents answer SIGTERM with promises.
func (r *Runner) conclude(res *Result, scan *textScan, q Request, exit proc.Exit) {
	failed := exit.Why == proc.Signaled || exit.Code != 0
	switch {
	case scan.mark.blocked != "":
		res.End, res.Blocked = Finished, scan.mark.blocked
		if failed {
			res.Reason = exit.String()
		}
		return
	case !failed:
		res.End, res.Complete = Finished, scan.mark.complete
		return
	}
	errs := q.lastErrors()
	res.End, res.Reason = Crashed, exit.String()
	if line := lastLine(errs, res.Final); line != "" {
		res.Reason += ": " + line
	}
	if r.backend.Format != FormatClaude {
		return
	}
	if line, until, ok := limitIn(res.Final+"\n"+errs, exit.End); ok {
		res.End, res.Reason, res.Until = Limited, line, until
	} else if line, ok := refusalIn(res.Final + "\n" + errs); ok {
		res.End, res.Reason = Refused, line
	}
}

// readFrom feeds a file from an offset on to w and returns how much that was.
// A file that is gone counts as empty, one that was cut short is read whole:
// agents do both.
func readFrom(path string, offset int64, w io.Writer) (int64, error) {
	if path == "" {
		return 0, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a file any more", path)
	}
	if info.Size() < offset {
		offset = 0
	}
	var n int64
	buf := make([]byte, min(256<<10, max(info.Size()-offset, 512)))
	for {
		k, err := f.ReadAt(buf, offset+n)
		n += int64(k)
		if _, werr := w.Write(buf[:k]); werr != nil {
			return n, werr
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// lastErrors is the end of the error log, unless that is the log itself.
func (q Request) lastErrors() string {
	info, err := os.Stat(q.ErrLog)
	if err != nil || q.ErrLog == q.Log {
		return ""
	}
	from := q.ErrOffset
	if info.Size() < from {
		from = 0
	}
	var t tail
	_, _ = readFrom(q.ErrLog, max(from, info.Size()-finalLimit), &t)
	return t.text()
}

// lastLine is the last line that is not blank of the first text that has one,
// at most 200 bytes of it.
func lastLine(texts ...string) string {
	for _, text := range texts {
		text = strings.TrimSpace(text)
		line := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
		if line != "" {
			return clip(line, 200)
		}
	}
	return ""
}

// clip cuts a text to at most n bytes, not through a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
