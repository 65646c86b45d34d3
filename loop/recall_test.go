package loop

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"descartes/agent"
	"descartes/loop/journal"
)

// A loop that takes up a dead one's attempt knows of its agent what the journal says, and that is all.
func TestJournalKeepsResult(t *testing.T) {
	t.Parallel()
	usd := 0.25
	for _, want := range []agent.Result{
		{End: agent.Crashed, Cause: agent.Transient, Code: 1, Reason: "Claude failed: overloaded", Notes: []string{"the output has no end event"}},
		{End: agent.Limited, Until: time.Date(2026, 11, 23, 20, 33, 0, 0, time.UTC), Reason: "weekly limit", Model: "m"},
		{End: agent.Finished, Question: "Should I go on?", Final: "Should I go on?", Session: "s-1", Model: "m", Duration: 1500 * time.Millisecond,
			Cost: &agent.Cost{USD: &usd, Estimated: true, Tokens: &agent.Tokens{Input: 10, CacheRead: 4, CacheWrite: 2, Output: 3}}},
		{End: agent.Finished, Complete: true, Cost: &agent.Cost{Tokens: &agent.Tokens{Output: 3}}},
		{End: agent.Crashed, Signal: 9},
	} {
		line, err := json.Marshal(agentEnd(&journal.Event{}, want, Choice{}, maxWords))
		if err != nil {
			t.Fatal(err)
		}
		var e journal.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if got := recalled(&e); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}
