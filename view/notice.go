package view

import (
	"path/filepath"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// Notice calls a person to a run. A command and a plain webhook get it as JSON.
type Notice struct {
	Event    string    `json:"event"`   // one of Notices
	Project  string    `json:"project"` // name of its folder
	Loop     string    `json:"loop"`
	Tag      string    `json:"tag,omitempty"`
	Task     string    `json:"task,omitempty"`
	Title    string    `json:"title,omitempty"` // of the task
	Heading  string    `json:"heading"`
	Message  string    `json:"message"`
	Until    time.Time `json:"until,omitzero"` // of a quota
	Done     int       `json:"tasks_done"`     // by this run
	Blocked  int       `json:"tasks_blocked"`
	ExitCode *int      `json:"exit_code,omitempty"` // of a run that is over
	USD      *float64  `json:"cost_usd"`            // null where unknown
	Seq      int64     `json:"seq"`                 // of the journal's event
	At       time.Time `json:"at"`
}

// NoticeEvents are what a person is called for: the run is over, a task was given up, somebody waits for an answer, a
// provider's quota is used up, too much failed in a row.
func NoticeEvents() []string { return []string{"finished", "blocked", "question", "quota", "breaker"} }

// Notice is what an event of the run, which has seen it, calls a person for; without an Event nobody is called.
func (l *Loop) Notice(e *journal.Event) (n Notice) {
	n = Notice{Project: filepath.Base(l.Run.Root), Loop: l.ID, Tag: l.Tag, Task: e.Task,
		Title: terminal.Clean(e.Title), Done: l.Own, Blocked: l.givenUp(), USD: l.Cost.USD, Seq: e.Seq,
		At: e.TS}
	d := e.Detail
	if d == nil {
		d = &journal.Detail{}
	}
	call := func(event, heading, message string) { n.Event, n.Heading, n.Message = event, heading, message }
	switch e.Type {
	case journal.TaskBlocked:
		if call("blocked", "task "+e.Task+" is blocked", e.Title+"\n"+e.Reason); d.Question != "" {
			call("question", "task "+e.Task+" asks", e.Title+"\n"+d.Question)
		}
	case journal.GateSpoke, journal.IterationFinished:
		if e.Verdict == journal.Asks {
			call("question", "the run asks", e.Message)
		}
	case journal.LimitWaiting:
		if d.Cause != "" {
			break
		}
		call("quota", "out of quota", e.Reason)
		if n.Task, n.Title = "", ""; d.Until != nil {
			n.Until, n.Message = *d.Until, n.Message+"\nwaits until "+terminal.Moment(*d.Until)
		}
	case journal.BreakerOpened:
		call("breaker", "the breaker opened", e.Reason)
	case journal.LoopFinished, journal.LoopPaused:
		l.noticeEnd(call, e, d)
		n.ExitCode = &d.Code
	}
	n.Heading = terminal.Clean(strings.TrimSpace(n.Project+" "+n.Tag) + ": " + n.Heading)
	n.Message = strings.TrimSpace(terminal.CleanLines(n.Message))
	return n
}

func (l *Loop) noticeEnd(call func(event, heading, message string), e *journal.Event, d *journal.Detail) {
	end, event, lines := journal.Ending(e.Reason), "finished", []string{e.Message}
	switch end {
	case journal.GateAsks:
		event = "question"
	case journal.GateBlocked:
		event = "blocked"
	case journal.BreakerOpen:
		event = "breaker"
	case journal.QuotaUsedUp:
		event = "quota"
	}
	_, heading := l.ended(end)
	if d.Unpushed != "" {
		heading += ", its work is not pushed"
		lines = append(lines, "to push it: "+d.Unpushed)
	}
	facts := terminal.Count(l.Iteration, "iteration")
	if !l.Prompt() {
		facts = strings.Join(append([]string{terminal.Count(l.Own, "task") + " done"},
			stuck(len(l.Questions), l.givenUp())...), ", ")
	}
	if c := l.Run.History.Cost; c.Runs > 0 {
		facts += ", cost " + c.Dollars()
	}
	facts += ", in " + terminal.Duration(e.TS.Sub(l.Run.History.Begun))
	call(event, heading, strings.Join(append(lines, facts), "\n"))
}
