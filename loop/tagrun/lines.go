package tagrun

import (
	"descartes/loop/book"
	"descartes/scheduler"
)

// kinds are the machine's events by their names in the journal.
var kinds = book.Kinds[scheduler.Event]{
	"Resumed":          book.Kind[scheduler.Resumed, scheduler.Event],
	"AttemptStarted":   book.Kind[scheduler.AttemptStarted, scheduler.Event],
	"AttemptEnded":     book.Kind[scheduler.AttemptEnded, scheduler.Event],
	"CheckStarted":     book.Kind[scheduler.CheckStarted, scheduler.Event],
	"CheckEnded":       book.Kind[scheduler.CheckEnded, scheduler.Event],
	"WaveCheckStarted": book.Kind[scheduler.WaveCheckStarted, scheduler.Event],
	"WaveCheckEnded":   book.Kind[scheduler.WaveCheckEnded, scheduler.Event],
	"TakeInStarted":    book.Kind[scheduler.TakeInStarted, scheduler.Event],
	"TakeInEnded":      book.Kind[scheduler.TakeInEnded, scheduler.Event],
	"CutStarted":       book.Kind[scheduler.CutStarted, scheduler.Event],
	"CommitStarted":    book.Kind[scheduler.CommitStarted, scheduler.Event],
	"Committed":        book.Kind[scheduler.Committed, scheduler.Event],
	"BranchMoved":      book.Kind[scheduler.BranchMoved, scheduler.Event],
	"ListChanged":      book.Kind[scheduler.ListChanged, scheduler.Event],
	"LimitsChanged":    book.Kind[scheduler.LimitsChanged, scheduler.Event],
	"LaneCame":         book.Kind[scheduler.LaneCame, scheduler.Event],
	"LaneGone":         book.Kind[scheduler.LaneGone, scheduler.Event],
	"LimitMet":         book.Kind[scheduler.LimitMet, scheduler.Event],
	"LimitCleared":     book.Kind[scheduler.LimitCleared, scheduler.Event],
	"Pushed":           book.Kind[scheduler.Pushed, scheduler.Event],
	"Trouble":          book.Kind[scheduler.Trouble, scheduler.Event],
	"Requested":        book.Kind[scheduler.Requested, scheduler.Event],
	"Rewound":          book.Kind[scheduler.Rewound, scheduler.Event],
	"Ended":            book.Kind[scheduler.Ended, scheduler.Event],
}
