package mode

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"descartes/internal/oneline"
	"descartes/internal/redact"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

const (
	thick = "================================================================================\n"
	thin  = "--------------------------------------------------------------------------------\n"
)

// SessionName is the name of the session log of a run that began at start.
func SessionName(start time.Time) string {
	return "session-" + start.Format("20060102-150405") + ".log"
}

// Header opens an iteration in the session log.
type Header struct {
	Iteration int
	Mode      Kind
	Task      string
	Spec      string
	Start     time.Time
}

// WriteTo writes the block.
func (h Header) WriteTo(w io.Writer) (int64, error) {
	n, err := fmt.Fprintf(w, thick+"ITERATION %d\n"+thick+"Mode: %s\nTask: %s\nSpec: %s\nStart Time: %s\n"+thin,
		h.Iteration, h.Mode, cmp.Or(oneline.Text(h.Task), "-"), cmp.Or(oneline.Text(h.Spec), "-"), h.Start.Format(time.RFC3339))
	return int64(n), err
}

// Footer closes an iteration. What is "" is not known, and left out.
type Footer struct {
	Iteration int
	End       time.Time
	Took      time.Duration
	Model     string
	Requests  string
	Messages  string
	Cost      string
	Retries   int // of this iteration so far
	Status    string
}

// WriteTo writes the block, with the blank line after it.
func (f Footer) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, thin+"ITERATION %d COMPLETE\nEnd Time: %s\nDuration: %s\n", f.Iteration, f.End.Format(time.RFC3339), f.Took.Round(time.Second))
	for _, x := range []struct{ name, value string }{{"API Requests", f.Requests}, {"Model", f.Model}, {"Messages", f.Messages}, {"Cost", f.Cost}} {
		if x.value != "" {
			fmt.Fprintf(&b, "%s: %s\n", x.name, oneline.Text(x.value))
		}
	}
	fmt.Fprintf(&b, "Retries: %d\nStatus: %s\n"+thick+"\n", f.Retries, oneline.Text(f.Status))
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// Summary closes a session.
type Summary struct {
	Total, Successful, Failed int // iterations, and runs of their agents that came to something or not
	Took                      time.Duration
	Reason                    string
	Code                      int
}

// WriteTo writes the block.
func (s Summary) WriteTo(w io.Writer) (int64, error) {
	n, err := fmt.Fprintf(w, thick+"SESSION SUMMARY\n"+thick+"Total Iterations: %d\nSuccessful: %d\nFailed: %d\nTotal Duration: %s\nExit Reason: %s\nExit Code: %d\n"+thick,
		s.Total, s.Successful, s.Failed, s.Took.Round(time.Second), oneline.Text(s.Reason), s.Code)
	return int64(n), err
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("session log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("session log: %w", err)
	}
	return f, nil
}

// Shown makes what a person reads of what one agent prints.
type Shown interface {
	io.Writer
	Close()
	Told() (messages, requests int) // how many so far; 0 where the agent's stream has none
}

// Session writes the session log of a run, and shows what its agents say while they say it. Its methods belong to the run's own
// goroutine.
type Session struct {
	Root   string
	Kind   Kind
	Run    *Run                    // nil for a prompt that is run once
	Task   string                  // of that
	Show   func(w io.Writer) Shown // writes what one agent prints to w; it is closed when the agent has ended
	People io.Writer
	Redact *redact.Redactor
	Began  time.Time

	path    string
	log     *os.File
	err     error // the first one; the run goes on without its session log
	end     func()
	told    func() (messages, requests int) // of the iteration's agent
	detail  *journal.Detail                 // of the iteration's agent
	started time.Time
	total   int
	good    int
	failed  int
}

// Observe takes note of an event.
func (m *Session) Observe(e journal.Event) {
	switch e.Type {
	case journal.LoopStarted, journal.LoopResumed:
		m.path = filepath.Join(store.NewHome(m.Root).Run(e.Loop), "logs", SessionName(m.Began))
		m.log, m.err = openLog(m.path)
	case journal.IterationStarted:
		m.begin(e)
	case journal.AgentFinished:
		m.detail = e.Detail
	case journal.IterationFinished:
		m.finish(e)
	}
}

func (m *Session) begin(e journal.Event) {
	if m.log == nil || m.err != nil || e.Detail == nil {
		return
	}
	kind, task, spec := m.Kind, m.Task, ""
	if m.Run != nil {
		kind, task, spec = m.Run.Task()
	}
	m.detail, m.started = nil, e.TS
	m.put(Header{Iteration: e.Iteration, Mode: kind, Task: m.Redact.Text(task), Spec: spec, Start: e.TS})
	record := &sticky{w: m.log}
	text := m.Show(io.MultiWriter(m.People, record))
	t := &tailReader{path: filepath.Join(m.Root, e.Detail.Log), over: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer t.close()
		w := m.Redact.Writer(text)
		_, err := io.Copy(w, t)
		err = errors.Join(err, w.Flush())
		text.Close()
		m.err = errors.Join(m.err, err, record.err)
	})
	m.end, m.told = func() { close(t.over); wg.Wait() }, text.Told
}

func (m *Session) finish(e journal.Event) {
	if m.end == nil { // an iteration that a dead run had begun
		return
	}
	m.end()
	m.end = nil
	f := Footer{Iteration: e.Iteration, End: e.TS, Took: e.TS.Sub(m.started), Retries: max(0, e.Attempt-1), Status: "success"}
	messages, requests := m.told()
	f.Messages, f.Requests = known(messages), known(requests)
	if d := m.detail; d != nil {
		f.Model = d.Model
		if d.USD != nil || d.InputTokens+d.OutputTokens > 0 {
			c := journal.Cost{USD: d.USD}
			if d.InputTokens+d.OutputTokens > 0 {
				c.InputTokens, c.OutputTokens = &d.InputTokens, &d.OutputTokens
			}
			f.Cost = c.Text()
		}
	}
	if e.Decision.Failed() {
		f.Status = "failed: " + cmp.Or(e.Reason, string(e.Decision))
		m.failed++
	} else {
		m.good++
	}
	m.total = e.Iteration
	if m.err == nil {
		m.put(f)
	}
}

// Close writes the summary, and returns where the log is, "" where there is none.
func (m *Session) Close(out loop.Outcome, code int) (path string, err error) {
	if m.end != nil {
		m.end()
	}
	if m.log == nil {
		return "", m.err
	}
	if m.err == nil {
		m.put(Summary{Total: m.total, Successful: m.good, Failed: m.failed, Took: time.Since(m.Began),
			Reason: m.Redact.Text(cmp.Or(out.Message, strings.ReplaceAll(string(out.Ending), "_", " "))), Code: code})
	}
	if err := errors.Join(m.err, m.log.Close()); err != nil {
		return m.path, fmt.Errorf("the session log %s is not complete: %w", m.path, err)
	}
	return m.path, nil
}

// known is a number, "" for none.
func known(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// sticky remembers that a write failed, which those that write to it do not look at.
type sticky struct {
	w   io.Writer
	err error
}

func (s *sticky) Write(p []byte) (int, error) {
	if s.err == nil {
		_, s.err = s.w.Write(p)
	}
	return len(p), nil
}

func (m *Session) put(block io.WriterTo) {
	if _, err := block.WriteTo(m.log); err != nil {
		m.err = err
	}
}

// tailReader reads a file while it grows: until over is closed, and then to its end.
type tailReader struct {
	path string
	over chan struct{}
	f    *os.File
}

// tailEvery is how often a file that does not grow is looked at.
const tailEvery = 100 * time.Millisecond

func (t *tailReader) Read(p []byte) (int, error) {
	for last := false; ; {
		if t.f == nil {
			t.f, _ = os.Open(t.path) // it is made when the agent starts
		}
		if t.f != nil {
			if n, err := t.f.Read(p); n > 0 || err != nil && err != io.EOF {
				return n, err
			}
		}
		if last {
			return 0, io.EOF
		}
		select {
		case <-t.over:
			last = true
		case <-time.After(tailEvery):
		}
	}
}

func (t *tailReader) close() {
	if t.f != nil {
		t.f.Close()
	}
}
