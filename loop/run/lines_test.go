package run

import (
	"reflect"
	"testing"
	"time"

	"descartes/loop/journal"
	"descartes/scheduler/prompt"
)

// What a line carries is what the machine is given back, whatever its kind; only a gate that just says continue is
// left out.
func TestLinesCarryEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	left := prompt.Left{Verdict: prompt.Limited, Changed: true, Bytes: 3, USD: 0.5, Until: at,
		Said: prompt.Said{Promise: true, Question: true}}
	events := []prompt.Event{
		prompt.Resumed{Limits: prompt.Limits{Iterations: 3}, Yes: true, Left: &left, Number: 2},
		prompt.BaselineStarted{}, prompt.BaselineEnded{Verdict: prompt.Failed}, prompt.LastStarted{},
		prompt.LastEnded{Verdict: prompt.Passed}, prompt.Started{Try: prompt.Try{Number: 1, Try: 2}, Account: "a"},
		prompt.Unprepared{Why: prompt.NoPlan}, prompt.AgentEnded{Left: left}, prompt.CheckStarted{},
		prompt.CheckEnded{Verdict: prompt.Failed, Found: prompt.Found{Error: "x", Replan: true}},
		prompt.ReviewStarted{Account: "b"}, prompt.Reviewed{Opinion: prompt.Opinion{Verdict: prompt.Passed, USD: 1}},
		prompt.DeliverStarted{}, prompt.Delivered{Verdict: prompt.Moved, Error: "y"},
		prompt.PrecheckStarted{Account: "a"}, prompt.Prechecked{Opinion: prompt.Opinion{Until: at}},
		prompt.AskStarted{}, prompt.Answered{Answer: prompt.Yes}, prompt.LimitMet{Account: "a", Until: at},
		prompt.Asked{Request: prompt.PauseNow}, prompt.Broken{Why: prompt.OwnError},
		prompt.LimitsChanged{Limits: prompt.Limits{Crashes: 1}}, prompt.Ended{Why: prompt.IsDone},
	}
	seen := map[string]bool{}
	for _, e := range events {
		for _, says := range [][]prompt.Say{nil, {{Word: prompt.Continue}, {Word: prompt.Open, Until: at}}} {
			var line journal.Event
			if err := carry(&line, e, says); err != nil {
				t.Fatal(err)
			}
			got, said, err := carriedBy(&line)
			if err != nil || !reflect.DeepEqual(got, e) || !reflect.DeepEqual(said, says) {
				t.Errorf("%s: got %+v, %v, %v, want %+v, %v", line.Run, got, said, err, e, says)
			}
		}
		seen[reflect.TypeOf(e).Name()] = true
	}
	for name := range kinds {
		if !seen[name] {
			t.Errorf("no %s was carried", name)
		}
	}
	var line journal.Event
	if err := carry(&line, prompt.CheckStarted{}, []prompt.Say{{Word: prompt.Continue}}); err != nil ||
		string(line.Run) != `{"event":"CheckStarted"}` {
		t.Errorf("got %s, %v", line.Run, err)
	}
	if _, _, err := carriedBy(&journal.Event{Seq: 7, Run: []byte(`{"event":"Dreamt"}`)}); err == nil {
		t.Error("an unknown event is taken for nothing")
	}
}
