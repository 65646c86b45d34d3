package notify

import (
	"fmt"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/gate"
	"descartes/loop/journal"
)

// Event is what a person is called for.
type Event string

const (
	Finished Event = "finished" // the run is over, however it ended
	Blocked  Event = "blocked"  // a task was given up, or a loop's agent says that it needs a person
	Question Event = "question" // somebody waits for an answer
	Quota    Event = "quota"    // a provider's quota is used up, and the run waits or ends
	Breaker  Event = "breaker"  // too much failed in a row
)

// Events are all of them.
func Events() []Event { return []Event{Finished, Blocked, Question, Quota, Breaker} }

// Notice is one call. A command and a plain webhook get it as JSON.
type Notice struct {
	Event    Event     `json:"event"`
	Project  string    `json:"project"` // name of its folder
	Loop     string    `json:"loop"`
	Tag      string    `json:"tag,omitempty"`
	Task     string    `json:"task,omitempty"`
	Title    string    `json:"title,omitempty"` // of the task
	Heading  string    `json:"heading"`
	Message  string    `json:"message"`
	Until    time.Time `json:"until,omitzero"` // of a quota
	Done     int       `json:"tasks_done"`     // by this loop
	Blocked  int       `json:"tasks_blocked"`
	ExitCode *int      `json:"exit_code,omitempty"` // of a run that is over
	USD      *float64  `json:"cost_usd"`            // null where unknown
	Seq      int64     `json:"seq"`                 // of the journal's event
	At       time.Time `json:"at"`
}

// caller makes notices of a run's events.
type caller struct {
	opt   *Options
	state *journal.State
	began time.Time
	done  map[string]bool
	quota map[string]time.Time // by backend, what was reported last
	told  Event                // of the last event that ends a run by itself
}

func newCaller(opt *Options) *caller {
	return &caller{opt: opt, state: journal.NewState(), done: map[string]bool{}, quota: map[string]time.Time{}}
}

// see takes an event into account; ok says that a person is called for it.
func (c *caller) see(e *journal.Event) (n Notice, ok bool) {
	c.state.Apply(e)
	switch {
	case e.Begins():
		c.began, c.told = e.TS, ""
	case e.Type == journal.IterationStarted: // what was asked is answered
		c.told = ""
	}
	n = Notice{Project: c.opt.Project, Loop: e.Loop, Tag: c.opt.Tag, Task: e.Task, Title: terminal.Clean(e.Title), Seq: e.Seq, At: e.TS}
	switch e.Type {
	case journal.TaskDone:
		c.done[e.Task] = true
	case journal.TaskBlocked:
		n.Event, n.Heading, n.Message = Blocked, "task "+e.Task+" is blocked", e.Reason
		if d := e.Detail; d != nil && d.Question != "" {
			n.Event, n.Heading, n.Message = Question, "task "+e.Task+" asks", d.Question
		}
		n.Message = strings.TrimSpace(e.Title + "\n" + n.Message)
	case journal.GateSpoke, journal.IterationFinished:
		if e.Verdict == journal.Verdict(gate.Ask) && c.told != Question {
			n.Event, n.Heading, n.Message = Question, "the loop asks", e.Message
		}
	case journal.LimitWaiting:
		if d := e.Detail; d != nil && d.Cause == "" {
			var until time.Time
			if d.Until != nil {
				until = *d.Until
			}
			if was, ok := c.quota[d.Backend]; ok && was.Equal(until) { // another task waits for the same
				break
			}
			c.quota[d.Backend] = until
			n.Event, n.Heading, n.Message, n.Until, n.Task, n.Title = Quota, "out of quota", e.Reason, until, "", ""
			if !until.IsZero() {
				n.Message += "\nwaits until " + terminal.Moment(until)
			}
		}
	case journal.BreakerOpened:
		n.Event, n.Heading, n.Message = Breaker, "the breaker opened", e.Reason
	case journal.LoopFinished, journal.LoopPaused:
		c.end(&n, e)
	}
	if n.Event == "" {
		return n, false
	}
	if n.Event == Question || n.Event == Breaker {
		c.told = n.Event
	}
	n.Done, n.Blocked, n.USD = len(c.done), len(c.state.Blocked()), c.state.Cost.USD
	n.Heading = strings.TrimSpace(n.name() + ": " + terminal.Clean(n.Heading))
	n.Message = terminal.CleanLines(n.Message)
	return n, true
}

// end is the notice of a run that is over.
func (c *caller) end(n *Notice, e *journal.Event) {
	end := journal.Ending(e.Reason)
	switch {
	case end == journal.GateAsks && c.told == Question, end == journal.BreakerOpen && c.told == Breaker: // that said it
		return
	case end == journal.GateAsks:
		n.Event, n.Heading = Question, "the loop waits for an answer"
	case end == journal.GateBlocked:
		n.Event, n.Heading = Blocked, "the agent says that a person is needed"
	case end == journal.BreakerOpen:
		n.Event, n.Heading = Breaker, "the breaker opened"
	case end == journal.QuotaUsedUp:
		n.Event, n.Heading = Quota, "out of quota: the run has ended"
	case end.Final() && end != journal.TasksBlocked:
		n.Event, n.Heading = Finished, "finished"
	default:
		n.Event, n.Heading = Finished, "ended: "+end.Words()
	}
	var lines []string
	if e.Message != "" {
		lines = append(lines, e.Message)
	}
	if d := e.Detail; d != nil && d.Unpushed != "" {
		n.Heading += ", its work is not pushed"
		lines = append(lines, "to push it: "+d.Unpushed)
	}
	facts := []string{}
	if n.Tag != "" {
		facts = append(facts, terminal.Count(len(c.done), "task")+" done")
		if b := len(c.state.Blocked()); b > 0 {
			facts = append(facts, fmt.Sprintf("%d blocked", b))
		}
	} else {
		facts = append(facts, terminal.Count(c.state.Iteration, "iteration"))
	}
	if c.state.Cost.Runs > 0 {
		facts = append(facts, "cost "+c.state.Cost.Dollars())
	}
	if !c.began.IsZero() {
		facts = append(facts, "in "+terminal.Duration(e.TS.Sub(c.began)))
	}
	n.Message = strings.Join(append(lines, strings.Join(facts, ", ")), "\n")
	if d := e.Detail; d != nil {
		code := d.Code
		n.ExitCode = &code
	}
}

// name is what the run is about, for people.
func (n *Notice) name() string {
	if n.Tag != "" {
		return terminal.Clean(n.Project) + " " + terminal.Clean(n.Tag)
	}
	return terminal.Clean(n.Project)
}
