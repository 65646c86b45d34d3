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

// printf writes to the log.
func (m *Session) printf(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.log, format, args...)
	}
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

// Session writes the session log of a run, and shows what its agents say while they say it. Its methods belong to the
// run's own goroutine.
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
	m.printf(thick+"ITERATION %d\n"+thick+"Mode: %s\nTask: %s\nSpec: %s\nStart Time: %s\n"+thin,
		e.Iteration, kind, cmp.Or(oneline.Text(m.Redact.Text(task)), "-"), cmp.Or(oneline.Text(spec), "-"),
		e.TS.Format(time.RFC3339))
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
	model, cost, status := "", "", "success"
	if d := m.detail; d != nil {
		model = d.Model
		if d.USD != nil || d.InputTokens+d.OutputTokens > 0 {
			c := journal.Cost{USD: d.USD}
			if d.InputTokens+d.OutputTokens > 0 {
				c.InputTokens, c.OutputTokens = &d.InputTokens, &d.OutputTokens
			}
			cost = c.Text()
		}
	}
	if e.Verdict.Unjudged() {
		status = "failed: " + cmp.Or(e.Reason, string(e.Verdict))
		m.failed++
	} else {
		m.good++
	}
	m.total = e.Iteration
	messages, requests := m.told()
	m.printf(thin+"ITERATION %d COMPLETE\nEnd Time: %s\nDuration: %s\n", e.Iteration, e.TS.Format(time.RFC3339),
		e.TS.Sub(m.started).Round(time.Second))
	for _, x := range [][2]string{{"API Requests", known(requests)}, {"Model", model}, {"Messages", known(messages)},
		{"Cost", cost}} {
		if x[1] != "" {
			m.printf("%s: %s\n", x[0], oneline.Text(x[1]))
		}
	}
	m.printf("Retries: %d\nStatus: %s\n"+thick+"\n", max(0, e.Attempt-1), oneline.Text(status))
}

// Close writes the summary, and returns where the log is, "" where there is none.
func (m *Session) Close(out loop.Outcome, code int) (path string, err error) {
	if m.end != nil {
		m.end()
	}
	if m.log == nil {
		return "", m.err
	}
	m.printf(thick+"SESSION SUMMARY\n"+thick+
		"Total Iterations: %d\nSuccessful: %d\nFailed: %d\nTotal Duration: %s\nExit Reason: %s\nExit Code: %d\n"+thick,
		m.total, m.good, m.failed,
		time.Since(m.Began).Round(time.Second), oneline.Text(
			m.Redact.Text(cmp.Or(out.Message, strings.ReplaceAll(string(out.Ending), "_", " ")))), code)
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
