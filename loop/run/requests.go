package run

import (
	"descartes/loop/journal"
	"descartes/loop/requests"
	"descartes/scheduler/prompt"
)

// asked are requests in the machine's words.
var asked = map[requests.Kind]prompt.Request{requests.Stop: prompt.Stop, requests.Pause: prompt.Pause,
	requests.PauseNow: prompt.PauseNow, requests.StopNow: prompt.StopNow, requests.Terminate: prompt.Terminate,
	requests.Go: prompt.Go}

// hears takes in what is asked. What is under way hears of it where it is to end at once.
func (r *Run) hears() error {
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
	err := r.happened(prompt.Asked{Request: asked[q.Kind]}, lines...)
	r.asks.Heard(q)
	return err
}
