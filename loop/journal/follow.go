package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"
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

// watchEvery is how often a journal that is watched is read.
const watchEvery = 250 * time.Millisecond

// Watch yields what is written to the journal at path, from its first event on: at once, and then time and again, also
// if nothing is new, and a last time when ctx has ended. It ends with an error, too.
func Watch(ctx context.Context, path string) iter.Seq2[[]Event, error] {
	return func(yield func([]Event, error) bool) {
		f, tick := Follow(path), time.NewTicker(watchEvery)
		defer tick.Stop()
		for over := false; ; {
			events, err := f.Next()
			if !yield(events, err) || err != nil || over {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				over = true
			}
		}
	}
}
