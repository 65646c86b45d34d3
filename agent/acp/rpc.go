package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"descartes/agent/stream"
)

// lineLimit is the longest line that is read; only a file's content can be longer.
const lineLimit = 32 << 20

// brokenWait is how long an answer may take when the program no longer reads.
const brokenWait = 100 * time.Millisecond

// message is a line of the protocol, which is JSON-RPC.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is what a request is answered with that could not be served.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

// rpc talks with a program, line by line. One of our requests is under way at a time. The program's messages are
// handled in order, each before the next line is read.
type rpc struct {
	to     io.Writer                                                    // what the program reads
	serve  func(method string, params json.RawMessage) (any, *rpcError) // answers a request
	hear   func(method string, params json.RawMessage)                  // takes a notification
	noise  func(line []byte, size int)                                  // takes a line that is no message
	heard  func()                                                       // the answer to our request is there
	closed chan struct{}                                                // nothing more comes

	writing sync.Mutex // one message is written at a time
	mu      sync.Mutex // guards what follows
	asked   int
	answer  chan message // to the last request
}

// errGone means that the program went away without an answer.
var errGone = errors.New("it ended without an answer")

// call sends a request and reads its answer into result.
func (c *rpc) call(ctx context.Context, method string, params, result any) error {
	answer, gone := make(chan message, 1), make(chan struct{})
	c.mu.Lock()
	c.asked++
	c.answer = answer
	id := strconv.Itoa(c.asked)
	c.mu.Unlock()
	go func() { // it may not read
		defer close(gone)
		if c.send(json.RawMessage(id), method, params) == nil {
			<-c.closed
		}
	}()
	var m message
	select {
	case m = <-answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-gone:
		select {
		case m = <-answer:
		case <-time.After(brokenWait):
			return errGone
		}
	}
	if m.Error != nil {
		return m.Error
	}
	if !stream.Decode(m.Result, result) {
		return fmt.Errorf("its answer to %s cannot be read: %.200s", method, m.Result)
	}
	return nil
}

// send sends a request, or, without an id, a notification.
func (c *rpc) send(id json.RawMessage, method string, params any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return c.write(message{ID: id, Method: method, Params: text})
}

func (c *rpc) write(m message) error {
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = c.to.Write(append(line, '\n'))
	return err
}

// listen reads to the end of what the program prints.
func (c *rpc) listen(r *bufio.Reader) {
	defer close(c.closed)
	for {
		line, size, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 || size > lineLimit {
			c.take(line, size)
		}
		if err != nil {
			return
		}
	}
}

func (c *rpc) take(line []byte, size int) {
	var m message
	if size > lineLimit || !bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) || !stream.Decode(line, &m) {
		c.noise(line, size)
		return
	}
	request := len(m.ID) > 0 && !bytes.Equal(m.ID, []byte("null"))
	switch {
	case !request && m.Method == "":
		c.noise(line, size)
	case !request:
		c.hear(m.Method, m.Params)
	case m.Method != "":
		answer, failed := c.serve(m.Method, m.Params)
		result, err := json.Marshal(answer)
		if err != nil {
			result, failed = nil, &rpcError{Code: -32603, Message: err.Error()}
		}
		if failed != nil {
			result = nil
		}
		// a program that does not read finds its end anyway
		_ = c.write(message{ID: m.ID, Result: result, Error: failed})
	default:
		c.deliver(m)
	}
}

// deliver hands an answer to the waiting call.
func (c *rpc) deliver(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if string(m.ID) == strconv.Itoa(c.asked) && c.answer != nil {
		c.heard()
		c.answer <- m
		c.answer = nil
	}
}

// readLine reads a line and keeps at most lineLimit bytes of it; size is its whole length.
func readLine(r *bufio.Reader) (line []byte, size int, err error) {
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		if len(line)+len(part) <= lineLimit {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), size, err
	}
}
