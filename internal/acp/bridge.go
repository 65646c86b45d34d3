// Package acp is the other side of an agent that speaks the Agent Client
// Protocol. It runs in a process of its own, under the shim like any agent: it
// starts the program, hands over one prompt, answers what the program asks
// without a person, and prints what happens as lines of JSON.
//
// Of the client's abilities it announces the writing of files, which it keeps
// to the working tree. It serves reading too, and does not announce it: there
// are no unsaved buffers here to read from, and gemini 0.61.0 cannot make a new
// file when the client tells it that there is none. Terminals it does not have:
// the agents that were tried run commands themselves, in the shim's tree, and a
// second way of doing that would bring nothing but another place where output
// has to be bounded and processes have to be ended.
package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"descartes/agent/process"
	"descartes/internal/proc"
)

const (
	promptLimit = 64 << 20
	// cancelWait is what the program gets to answer session/cancel, endWait what
	// it gets for its end before each harder means. Together they stay below
	// the shim's grace.
	cancelWait = 1500 * time.Millisecond
	endWait    = 800 * time.Millisecond
)

// Serve is the main function of the hidden command: [--model M] -- program
// [arguments], with the prompt on standard input. It returns the exit code: 0
// after a good end, the program's own where it died, 1 for the rest.
func Serve(args []string) int {
	model := ""
	if len(args) > 1 && args[0] == "--model" {
		model, args = args[1], args[2:]
	}
	if len(args) < 2 || args[0] != "--" {
		os.Stderr.WriteString("error: this command is for descartes itself: an agent program is to be given\n")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	b := &bridge{log: &journal{w: os.Stdout}, model: model, argv: args[1:], env: os.Getenv}
	code := b.run(ctx, os.Stdin)
	if err := b.log.failed(); err != nil {
		os.Stderr.WriteString("error: write what the agent says: " + err.Error() + "\n")
		return 1
	}
	return code
}

// bridge is one conversation.
type bridge struct {
	log   *journal
	model string
	argv  []string
	env   func(string) string
	tree  tree
	peer  *proc.Peer
	conn  *sdk.Connection
	to    *oneWriter

	mu        sync.Mutex
	asked     int           // requests so far, which is the last one's id: the SDK counts them from 1
	taken     chan struct{} // closes when the last one's answer is taken, or given up
	delivered bool          // that answer was handed on
	session   string
	turn      bool // the prompt was handed over and is not answered yet
	cancelled bool // by a signal: what is said from then on does not count
	calls     map[string]*call
	message   string // id of the message whose pieces come
	said      bool   // pieces of a message came since the last tool call
	acted     bool   // a tool was called
	noises    int
	used      Usage
}

// run does all of it and returns the exit code.
func (b *bridge) run(ctx context.Context, stdin io.Reader) int {
	prompt, err := io.ReadAll(io.LimitReader(stdin, promptLimit+1))
	if err == nil && len(prompt) > promptLimit {
		err = errors.New("the prompt is too long")
	}
	if err == nil {
		b.tree, err = newTree(".")
	}
	if err == nil {
		b.peer, err = proc.StartPeer(b.argv)
	}
	if err != nil {
		b.log.tell(event{Type: "end", Stop: "error", Word: "not_started", Text: err.Error()})
		return 127
	}
	b.calls = map[string]*call{}
	talk, cancel := context.WithCancelCause(context.Background())
	sorted := b.connect()
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		b.heed(ctx, cancel, ended)
	}()
	end := b.converse(talk, string(prompt))
	close(ended)
	<-watched
	code := b.finish(ctx, end)
	cancel(nil)
	<-sorted
	return code
}

// connect lays the SDK's connection over the program's pipes. The channel closes
// when the program's output is read to its end.
func (b *bridge) connect() <-chan struct{} {
	in, out := io.Pipe()
	to := &oneWriter{w: b.peer.In}
	b.to = to
	s := &sorter{in: bufio.NewReaderSize(b.peer.Out, 64<<10), to: out, hear: b.hear, noise: b.noise, answered: b.answered, reply: func(id json.RawMessage, message string) {
		line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": -32600, "message": message}})
		if err == nil {
			_, _ = to.Write(append(line, '\n')) // a program that does not read finds its end anyway
		}
	}}
	b.conn = sdk.NewConnection(b.serve, to, in)
	b.conn.SetLogger(slog.New(slog.DiscardHandler))
	sorted := make(chan struct{})
	go func() {
		defer close(sorted)
		err := s.run()
		b.settle()
		out.CloseWithError(err)
		_, _ = io.Copy(io.Discard, s.in) // so that the program does not hang in a write
	}()
	return sorted
}

// settle waits until an answer that was handed on is taken. The SDK forgets it
// where the connection closes at the same time, as it does when a program
// answers and exits.
func (b *bridge) settle() {
	b.mu.Lock()
	taken, delivered := b.taken, b.delivered
	b.mu.Unlock()
	if delivered {
		<-taken
	}
}

// heed waits for a signal or the end of the conversation. After a signal the
// program is asked to stop, and after a while the conversation is over.
func (b *bridge) heed(ctx context.Context, cancel context.CancelCauseFunc, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	b.mu.Lock()
	b.cancelled = true
	session, turn := b.session, b.turn
	b.mu.Unlock()
	if turn {
		go func() { // it may not read
			_ = b.conn.SendNotification(context.Background(), sdk.AgentMethodSessionCancel, sdk.CancelNotification{SessionId: sdk.SessionId(session)})
		}()
		timer := time.NewTimer(cancelWait)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
	}
	cancel(errCancelled)
}

var errCancelled = errors.New("ended by a signal")

// finish prints the last event, ends the program and gives the exit code.
func (b *bridge) finish(ctx context.Context, end event) int {
	stopped := event{Type: "end", Stop: "cancelled", Word: "cancelled", Text: "it was stopped by a signal"}
	if ctx.Err() != nil {
		b.log.tell(stopped)
		b.peer.End(endWait)
		return 143
	}
	if end.Type == "end" {
		b.log.tell(end)
		b.peer.End(endWait)
		if end.OK {
			return 0
		}
		return 1
	}
	exit := b.peer.End(endWait)
	if ctx.Err() != nil { // it was for both of us
		b.log.tell(stopped)
		return 143
	}
	end.Code, end.Signal = exit.Code, exit.Signal
	if end.Text += " (" + exit.String() + ")"; exit.Why == process.Exited && exit.Code == 0 {
		exit.Code = 1
	}
	b.log.tell(end)
	if exit.Signal != 0 {
		return 128 + exit.Signal
	}
	return exit.Code
}

// oneWriter writes one message at a time.
type oneWriter struct {
	mu     sync.Mutex
	w      io.Writer
	broken bool // nobody reads any more
}

func (o *oneWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(p)
	o.broken = o.broken || err != nil
	return n, err
}

func (o *oneWriter) isBroken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}
