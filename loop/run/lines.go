package run

import (
	"slices"

	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/scheduler/prompt"
)

// kinds are the machine's events by their names in the journal.
var kinds = book.Kinds[prompt.Event]{
	"Resumed":         book.Kind[prompt.Resumed, prompt.Event],
	"BaselineStarted": book.Kind[prompt.BaselineStarted, prompt.Event],
	"BaselineEnded":   book.Kind[prompt.BaselineEnded, prompt.Event],
	"LastStarted":     book.Kind[prompt.LastStarted, prompt.Event],
	"LastEnded":       book.Kind[prompt.LastEnded, prompt.Event],
	"Started":         book.Kind[prompt.Started, prompt.Event],
	"Unprepared":      book.Kind[prompt.Unprepared, prompt.Event],
	"AgentEnded":      book.Kind[prompt.AgentEnded, prompt.Event],
	"CheckStarted":    book.Kind[prompt.CheckStarted, prompt.Event],
	"CheckEnded":      book.Kind[prompt.CheckEnded, prompt.Event],
	"ReviewStarted":   book.Kind[prompt.ReviewStarted, prompt.Event],
	"Reviewed":        book.Kind[prompt.Reviewed, prompt.Event],
	"DeliverStarted":  book.Kind[prompt.DeliverStarted, prompt.Event],
	"Delivered":       book.Kind[prompt.Delivered, prompt.Event],
	"PrecheckStarted": book.Kind[prompt.PrecheckStarted, prompt.Event],
	"Prechecked":      book.Kind[prompt.Prechecked, prompt.Event],
	"AskStarted":      book.Kind[prompt.AskStarted, prompt.Event],
	"Answered":        book.Kind[prompt.Answered, prompt.Event],
	"LimitMet":        book.Kind[prompt.LimitMet, prompt.Event],
	"Asked":           book.Kind[prompt.Asked, prompt.Event],
	"Broken":          book.Kind[prompt.Broken, prompt.Event],
	"LimitsChanged":   book.Kind[prompt.LimitsChanged, prompt.Event],
	"Ended":           book.Kind[prompt.Ended, prompt.Event],
}

// carry puts an event of the machine, and what the gate said to it, on a line.
func carry(line *journal.Event, e prompt.Event, says []prompt.Say) error {
	if !slices.ContainsFunc(says, func(s prompt.Say) bool { return s.Word != prompt.Continue }) {
		return book.Carry(line, e, nil) // which is what a gate is taken to say
	}
	return book.Carry(line, e, says)
}

// carriedBy reads what a line has for the machine; nil if it has nothing.
func carriedBy(line *journal.Event) (e prompt.Event, says []prompt.Say, err error) {
	e, _, err = kinds.Read(line, &says)
	return e, says, err
}
