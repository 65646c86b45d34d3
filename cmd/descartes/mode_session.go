package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"descartes/agent/stream"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/mode"
)

// modeSession writes the session log of a mode, and shows what its agents say while they say it. It hears of
// a run's events in the run's own goroutine.
type modeSession struct {
	root   string
	kind   mode.Kind
	run    *mode.Run // nil for a prompt that is run once
	task   string    // of that
	format string    // of what the agent prints
	show   io.Writer
	mask   *redact.Redactor
	began  time.Time

	path    string
	log     *os.File
	err     error // the first one; the run goes on without its session log
	end     func()
	detail  *journal.Detail // of the iteration's agent
	started time.Time
	total   int
	good    int
	failed  int
}

func (m *modeSession) observe(e journal.Event) {
	switch e.Type {
	case journal.LoopStarted, journal.LoopResumed:
		m.path = sessionLog(m.root, e.Loop, m.began)
		m.log, m.err = openSession(m.path)
	case journal.IterationStarted:
		m.begin(e)
	case journal.AgentFinished:
		m.detail = e.Detail
	case journal.IterationFinished:
		m.finish(e)
	}
}

func (m *modeSession) begin(e journal.Event) {
	if m.log == nil || m.err != nil || e.Detail == nil {
		return
	}
	kind, task, spec := m.kind, m.task, ""
	if m.run != nil {
		kind, task, spec = m.run.Task()
	}
	m.detail, m.started = nil, e.TS
	m.put(mode.Header{Iteration: e.Iteration, Mode: kind, Task: m.mask.Text(task), Spec: spec, Start: e.TS})
	t := &tailReader{path: filepath.Join(m.root, e.Detail.Log), over: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer t.close()
		record, people := m.mask.Writer(m.log), m.mask.Writer(&terminal.Writer{W: m.show})
		err := stream.Render(m.format, io.TeeReader(t, record), people)
		m.err = errors.Join(m.err, err, record.Flush(), people.Flush())
	})
	m.end = func() { close(t.over); wg.Wait() }
}

func (m *modeSession) finish(e journal.Event) {
	if m.end == nil { // an iteration that a dead run had begun
		return
	}
	m.end()
	m.end = nil
	f := mode.Footer{Iteration: e.Iteration, End: e.TS, Took: e.TS.Sub(m.started), Retries: max(0, e.Attempt-1), Status: "success"}
	if d := m.detail; d != nil {
		f.Model = d.Model
		if d.USD != nil || d.InputTokens+d.OutputTokens > 0 {
			c := journal.Cost{USD: d.USD}
			if d.InputTokens+d.OutputTokens > 0 {
				c.InputTokens, c.OutputTokens = &d.InputTokens, &d.OutputTokens
			}
			f.Cost = report.CostText(&c)
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

// close writes the summary and says where the log lies.
func (m *modeSession) close(p *printer, out loop.Outcome, code int) {
	if m.end != nil {
		m.end()
	}
	if m.log == nil {
		if m.err != nil {
			p.warn(m.err.Error())
		}
		return
	}
	if m.err == nil {
		m.put(mode.Summary{Total: m.total, Successful: m.good, Failed: m.failed, Took: time.Since(m.began),
			Reason: m.mask.Text(cmp.Or(out.Message, report.Readable(string(out.Ending)))), Code: code})
	}
	if err := errors.Join(m.err, m.log.Close()); err != nil {
		p.warn(fmt.Sprintf("the session log %s is not complete: %s", report.Relative(m.root, m.path), err))
		return
	}
	p.say("session log: %s", report.Relative(m.root, m.path))
}

func (m *modeSession) put(block io.WriterTo) {
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
