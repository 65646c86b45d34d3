package acp

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"unicode/utf8"
)

// event is one line of what package acp prints. agent's dialect "acp" reads it.
//
//	agent    the program answered: name, version
//	session  id, model
//	text     a piece of the agent's message
//	thought  a piece of its thinking
//	user     a piece of the prompt that it repeats
//	plan     its list of things to do
//	tool     a tool call that began or changed its status
//	allowed  something it asked for, by the kind of the chosen option
//	denied   something it asked for and was kept from: title is what, text is why
//	noise    a line of its output that is none of the protocol's
//	usage    of the session so far
//	error    that need not be the end
//	exited   the program is gone: code or signal
//	end      ok, stop, and what it says of a bad one
type event struct {
	Type    string   `json:"type"`
	ID      string   `json:"id,omitempty"`
	Name    string   `json:"name,omitempty"`
	Version string   `json:"version,omitempty"`
	Model   string   `json:"model,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Status  string   `json:"status,omitempty"`
	Title   string   `json:"title,omitempty"`
	Command string   `json:"command,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	OK      bool     `json:"ok,omitempty"`
	Stop    string   `json:"stop,omitempty"`
	Word    string   `json:"word,omitempty"`
	Code    int      `json:"code,omitempty"`
	Signal  int      `json:"signal,omitempty"`
	Text    string   `json:"text,omitempty"`
	Bytes   int      `json:"bytes,omitempty"`
	*Usage
}

// Usage is what was reported; zero is not known.
type Usage struct {
	Input      int64   `json:"input,omitempty"`
	Output     int64   `json:"output,omitempty"`
	Thought    int64   `json:"thought,omitempty"`
	CacheRead  int64   `json:"cache_read,omitempty"`
	CacheWrite int64   `json:"cache_write,omitempty"`
	Total      int64   `json:"total,omitempty"`
	USD        float64 `json:"usd,omitempty"`
	Context    int64   `json:"context,omitempty"` // tokens in the context now
}

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

// tail is the end of a text, at most n bytes of it.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s) - n
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return "…" + s[at:]
}
