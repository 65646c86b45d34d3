package acp

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"descartes/agent/stream"
)

// What is printed, as agent/stream reads it.
type (
	event = stream.ACPEvent
	usage = stream.ACPUsage
)

// eventLog prints events, each in one write.
type eventLog struct {
	mu  sync.Mutex
	w   io.Writer
	buf bytes.Buffer
	err error // of the first write that failed
}

func (j *eventLog) print(e event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf.Reset()
	enc := json.NewEncoder(&j.buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e)
	if err == nil {
		_, err = j.w.Write(j.buf.Bytes())
	}
	if j.err == nil {
		j.err = err
	}
	if j.buf.Cap() > 1<<20 {
		j.buf = bytes.Buffer{}
	}
}

func (j *eventLog) failed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}
