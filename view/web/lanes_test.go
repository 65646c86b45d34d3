package web

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// told is an account of events, each so many seconds after the one before it.
func told(events ...journal.Event) (h *journal.State, now time.Time) {
	h, now = journal.NewState(), time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	for i, e := range events {
		now = now.Add(time.Duration(e.Of) * time.Second) // Of is free here
		e.Seq, e.TS, e.Of = int64(i+1), now, 0
		h.Apply(&e)
	}
	return h, now
}

func begins(after, slot int, task string, number int) journal.Event {
	return journal.Event{Unit: journal.Unit{Of: after, Slot: slot, Task: task, Attempt: number},
		Type: journal.AttemptStarted}
}

func ends(after int, task string, number int, v journal.Verdict) journal.Event {
	return journal.Event{Unit: journal.Unit{Of: after, Task: task, Attempt: number}, Type: journal.AttemptFinished,
		Verdict: v}
}

// TestLanesWait draws what the journal tells of waits, each in the row of the slot that waited.
func TestLanesWait(t *testing.T) {
	for name, c := range map[string]struct {
		events []journal.Event
		live   bool
		want   string
	}{
		"quota, and the other slot works": {live: true,
			want: "slot 2 provider waited for the provider: 5-hour limit, 1m",
			events: []journal.Event{{Type: journal.LoopStarted}, begins(0, 1, "a", 1), begins(0, 2, "b", 1),
				ends(30, "b", 1, journal.Limited),
				{Type: journal.LimitWaiting, Unit: journal.Unit{Task: "b"}, Reason: "5-hour limit"},
				begins(60, 2, "b", 2), ends(30, "b", 2, journal.Failed), ends(0, "a", 1, journal.Failed)}},
		"quota, still": {live: true, want: "this folder provider waited for the provider: limit, 30s",
			events: []journal.Event{{Type: journal.LoopStarted}, begins(0, 0, "a", 1),
				ends(30, "a", 1, journal.Limited), {Type: journal.LimitWaiting, Unit: journal.Unit{Task: "a"},
					Reason: "limit"},
				{Unit: journal.Unit{Of: 30}, Type: journal.Warning}}},
		"a person, paused": {want: "this folder person waited for you: paused, 10m",
			events: []journal.Event{{Type: journal.LoopStarted}, begins(0, 0, "a", 1),
				ends(300, "a", 1, journal.Failed), {Type: journal.LoopPaused, Reason: string(journal.Paused)},
				{Unit: journal.Unit{Of: 600}, Type: journal.LoopResumed}, begins(0, 0, "a", 2),
				ends(300, "a", 2, journal.Failed)}},
		"a person, asked by a gate": {want: "this folder person waited for you: Continue?, 2m",
			events: []journal.Event{{Type: journal.LoopStarted},
				{Type: journal.IterationStarted, Unit: journal.Unit{Iteration: 1, Attempt: 1}},
				{Unit: journal.Unit{Of: 60, Iteration: 1, Attempt: 1}, Type: journal.IterationFinished, Verdict: "ask",
					Message: "Continue?"},
				{Unit: journal.Unit{Of: 120, Iteration: 2, Attempt: 1}, Type: journal.IterationStarted},
				{Unit: journal.Unit{Of: 60, Iteration: 2, Attempt: 1}, Type: journal.IterationFinished,
					Verdict: journal.Done}}},
		"killed": {want: "this folder run was not running: killed, 5m",
			events: []journal.Event{{Type: journal.LoopStarted}, begins(0, 0, "a", 1),
				ends(300, "a", 1, journal.Failed), {Unit: journal.Unit{Of: 300}, Type: journal.LoopResumed},
				begins(0, 0, "a", 2), ends(300, "a", 2, journal.Failed)}},
		"over": {want: "", events: []journal.Event{{Type: journal.LoopStarted}, begins(0, 0, "a", 1),
			ends(30, "a", 1, journal.Failed),
			{Type: journal.LoopFinished, Reason: string(journal.TasksBlocked)}}},
	} {
		h, now := told(c.events...)
		var got []string
		for _, r := range newLanes(&view.Loop{Run: view.Run{State: &store.State{}, History: h, Live: c.live}},
			now).Rows {
			for _, g := range r.Gaps {
				room, why, _ := strings.Cut(g.Title, ": ")
				got = append(got, room+" "+g.State+" "+why)
			}
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, text, c.want)
		}
	}
}

// TestLanesDoNotOverlap draws runs in no order that an engine would keep to: what is drawn of a slot stays apart and
// inside.
func TestLanesDoNotOverlap(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		busy, next := map[int]string{}, 1
		events := []journal.Event{{Type: journal.LoopStarted}}
		for range 60 {
			slot := 1 + r.IntN(3)
			switch task := busy[slot]; {
			case task == "" && r.IntN(2) == 0:
				busy[slot] = fmt.Sprint(next)
				events = append(events, begins(r.IntN(40), slot, busy[slot], 1))
				next++
			case task != "":
				v := []journal.Verdict{journal.Verified, journal.Failed, journal.Limited}[r.IntN(3)]
				events = append(events, ends(r.IntN(40), task, 1, v))
				if v == journal.Limited {
					events = append(events, journal.Event{Type: journal.LimitWaiting, Unit: journal.Unit{Task: task}})
				} else if v == journal.Verified {
					events = append(events, journal.Event{Unit: journal.Unit{Of: r.IntN(9), Task: task, Attempt: 1},
						Type: journal.Integrated})
				}
				busy[slot] = ""
			case r.IntN(6) == 0 && len(busy) == 0:
				events = append(events, journal.Event{Unit: journal.Unit{Of: 5}, Type: journal.LoopPaused,
					Reason: string(journal.Paused)}, journal.Event{Unit: journal.Unit{Of: 50},
					Type: journal.LoopResumed})
			}
		}
		h, now := told(events...)
		for _, row := range newLanes(&view.Loop{Run: view.Run{State: &store.State{}, History: h, Live: true}},
			now).Rows {
			all := slices.Concat(row.Bars, row.Gaps)
			slices.SortFunc(all, func(a, b bar) int { return int(1000 * (a.X - b.X)) })
			for i, b := range all {
				if b.X < 0 || b.X+b.W > laneWidth+1.01 || i > 0 && all[i-1].W > 1 && b.W > 1 &&
					all[i-1].X+all[i-1].W > b.X+.01 {
					t.Fatalf("seed %d, %s: %+v, before it %+v", seed, row.Name, b, all[max(0, i-1)])
				}
			}
		}
	}
}
