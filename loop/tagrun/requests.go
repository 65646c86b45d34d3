package tagrun

import (
	"descartes/loop/journal"
	"descartes/loop/requests"
	"descartes/scheduler"
)

// asked are requests in the machine's words.
var asked = map[requests.Kind]scheduler.Request{requests.Stop: scheduler.Stop, requests.Pause: scheduler.Pause,
	requests.PauseNow: scheduler.PauseNow, requests.StopNow: scheduler.StopNow, requests.Terminate: scheduler.Term,
	requests.Go: scheduler.Go}

// hear takes in what is asked. What is under way hears of it where it is to end at once.
func (r *Run) hear() error {
	q, ok := r.asks.Poll()
	if !ok {
		return nil
	}
	if q.Why != "" && r.ends.request == "" || q.Now {
		r.ends.request = q.Why
	}
	if q.Kind == requests.Go {
		r.ends.request = ""
	}
	var lines []*journal.Event
	if q.Kind == requests.Stop && q.Why == requests.Interrupted && r.book.History.Underway() {
		lines = append(lines, &journal.Event{Type: journal.LoopStopping})
	}
	err := r.happened(scheduler.Requested{Request: asked[q.Kind]}, lines...)
	r.asks.Heard(q)
	return err
}
