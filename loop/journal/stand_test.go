package journal

import (
	"maps"
	"slices"
	"testing"
)

// Every row of Stand's table, from every stand; an event without a row leaves a task where it is.
func TestStand(t *testing.T) {
	all := []Stand{StandIdle, StandUnderway, StandShelved, StandDone, StandBlocked}
	unit, named := Unit{Task: "1", Attempt: 1}, []string{"1"}
	retry := Event{Type: LoopResumed, Reason: ReasonRetry, Tasks: named}
	rows := []struct {
		name   string
		events []Event
		from   []Stand
		to     Stand
	}{
		{"task started", []Event{{Type: TaskStarted, Unit: unit}}, all, StandUnderway},
		{"attempt started", []Event{{Type: AttemptStarted, Unit: unit}}, []Stand{StandShelved}, StandUnderway},
		{"task done", []Event{{Type: TaskDone, Unit: unit}}, all, StandDone},
		{"task blocked", []Event{{Type: TaskBlocked, Unit: unit}}, all, StandBlocked},
		{"taken in", []Event{{Type: Integrated, Unit: unit}}, nil, ""},
		{"paused", []Event{{Type: LoopPaused}}, []Stand{StandUnderway}, StandShelved},
		{"finished", []Event{{Type: LoopFinished}}, []Stand{StandUnderway}, StandShelved},
		{"finished, named", []Event{{Type: LoopFinished, Tasks: named}}, all, StandIdle},
		{"finished, named, with an open attempt", []Event{{Type: AttemptStarted, Unit: unit},
			{Type: LoopFinished, Tasks: named}}, []Stand{StandUnderway}, StandShelved},
		{"retried", []Event{retry}, all, StandIdle},
		{"retried, baseline fails", []Event{retry, {Type: LoopFinished, Reason: string(BaselineFails)}}, all,
			StandBlocked},
		{"resumed", []Event{{Type: LoopResumed, Tasks: named}}, nil, ""},
		{"answered", []Event{{Type: LoopResumed, Reason: ReasonAnswered, Tasks: named}}, all, StandIdle},
		{"list changed", []Event{{Type: ListChanged, Tasks: named}},
			[]Stand{StandUnderway, StandShelved, StandBlocked}, StandIdle},
		{"rewound", []Event{{Type: LoopRewound, Tasks: named}}, all, StandIdle},
		{"not needed any more", []Event{{Type: Warning, Reason: ReasonGone, Tasks: named}}, all, StandIdle},
		{"warned", []Event{{Type: Warning, Tasks: named}}, nil, ""},
	}
	has := map[Type]bool{LoopStarted: true} // as LoopResumed
	for _, row := range rows {
		for _, from := range all {
			s, want := NewState(), from
			s.Tasks["1"] = &Task{ID: "1", Stand: from}
			for _, e := range row.events {
				has[e.Type] = true
				s.Apply(&e)
			}
			if slices.Contains(row.from, from) {
				want = row.to
			}
			if got := s.Task("1").Stand; got != want {
				t.Errorf("%s: from %q to %q, want %q", row.name, from, got, want)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(changes)) {
		if has[kind] {
			continue
		}
		for _, from := range all {
			s := NewState()
			s.Tasks["1"] = &Task{ID: "1", Stand: from}
			s.Apply(&Event{Type: kind, Unit: unit, Tasks: named, Verdict: Failed, Detail: &Detail{}})
			if got := s.Task("1").Stand; got != from {
				t.Errorf("%s: from %q to %q", kind, from, got)
			}
		}
	}
}
