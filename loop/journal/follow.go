package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Follower reads a journal while its loop writes it.
type Follower struct {
	path string
	at   int64 // bytes read, in whole lines
	seq  int64
}

// Follow starts with the first event of the journal at path.
func Follow(path string) *Follower { return &Follower{path: path} }

// Next returns the events that were written since the last call.
func (f *Follower) Next() ([]Event, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) { // an agent deleted it: it is restored after the attempt
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("follow events: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.NewSectionReader(file, f.at, 1<<40))
	if err != nil {
		return nil, fmt.Errorf("follow events: %w", err)
	}
	var out []Event
	for {
		n := bytes.IndexByte(data, '\n')
		if n < 0 { // the rest is still being written
			return out, nil
		}
		e, err := parse(data[:n])
		if err != nil || e.Seq != f.seq+1 {
			return out, nil // somebody changed the file; the loop restores it
		}
		out = append(out, e)
		data, f.at, f.seq = data[n+1:], f.at+int64(n)+1, e.Seq
	}
}
