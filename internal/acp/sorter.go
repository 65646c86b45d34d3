package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// lineLimit is the longest line that is read at all.
	lineLimit = 32 << 20
	// messageLimit is the longest that the SDK is given: at 10 MiB its reader
	// gives the connection up. What is longer can only be a file's content.
	messageLimit = 8 << 20
	// noiseLimit is how many lines of noise are recorded.
	noiseLimit = 50
)

// envelope is what tells messages apart.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// sorter stands between the program's output and the SDK, which ends the
// connection at a long line or when a thousand notifications wait, and hears
// notifications from a queue. Here they are heard in their order and before
// the next line is read, and what is no message is put aside.
type sorter struct {
	in    *bufio.Reader
	to    io.Writer                                   // the SDK's side
	reply func(id json.RawMessage, message string)    // answers a request that goes no further
	hear  func(method string, params json.RawMessage) // takes a notification
	noise func(line []byte, size int)
	// answered is called before an answer goes on: what follows it is heard after.
	answered func(id string)
}

// run sorts until the end of the output or until nobody reads any more.
func (s *sorter) run() error {
	for {
		line, size, err := readLine(s.in)
		if len(bytes.TrimSpace(line)) > 0 || size > lineLimit {
			if sortErr := s.sort(line, size); sortErr != nil {
				return sortErr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *sorter) sort(line []byte, size int) error {
	var e envelope
	if size > lineLimit || !bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) || !lenient(json.Unmarshal(line, &e)) {
		s.noise(line, size)
		return nil
	}
	known := len(e.ID) > 0 && !bytes.Equal(e.ID, []byte("null"))
	switch {
	case !known && e.Method == "":
		s.noise(line, size)
		return nil
	case !known && e.Method != "$/cancel_request":
		s.hear(e.Method, e.Params)
		return nil
	}
	if e.Method == "" {
		s.answered(string(e.ID))
	}
	if size <= messageLimit {
		_, err := s.to.Write(append(line, '\n'))
		return err
	}
	tooLong := fmt.Sprintf("a message of %d bytes is too long: at most %d are taken", size, messageLimit)
	if e.Method != "" {
		s.reply(e.ID, tooLong)
		return nil
	}
	short, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": e.ID, "error": map[string]any{"code": -32600, "message": tooLong}})
	if err == nil {
		_, err = s.to.Write(append(short, '\n'))
	}
	return err
}

// readLine reads a line, of which at most lineLimit bytes are kept; size is its
// whole length.
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

// lenient is false for what is no JSON. A member of another type than is
// known counts as absent.
func lenient(err error) bool {
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}
