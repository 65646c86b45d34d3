package prompt

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var (
	nights = flag.Int("nights", 3_000, "random nights")
	first  = flag.Uint64("seed", 0, "seed of the first")
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 4)), t: t, seed: seed, now: midnight, phase: "idle", word: Continue,
		refs: map[Try][]string{}, known: map[string]time.Time{}, quota: map[string]time.Time{}, rest: map[string]time.Time{},
		faults: map[string]int{}, unusable: map[string]bool{}}
	w.night.ends = map[string]int{}
	w.cur = &try{left: &Left{}}
	w.names = []string{"a", "b", "c"}[:1+w.IntN(3)]
	w.kind = []string{"promise", "promise", "exit", "status", "status", "criteria", "criteria", "liar"}[w.IntN(8)]
	w.set = Settings{Mode: []Mode{Loop, Loop, Plan, Build, Build, Once}[w.IntN(6)], Place: Branch}
	switch w.set.Mode {
	case Loop:
		w.set.Place = []Place{Branch, Tree, Folder}[w.IntN(3)]
	case Plan:
		if w.kind == "status" {
			w.kind = "promise"
		}
	case Once:
		w.kind = "exit"
	}
	w.set.Claims = w.mode3() && w.kind == "promise"
	w.set.Replan = w.set.Mode == Build && w.IntN(2) == 0
	w.plans = w.set.Replan && w.IntN(2) == 0
	if w.IntN(4) == 0 {
		w.set.Reviewers = [][]string{{"a"}, {"r"}, {"r", "a"}}[w.IntN(3)]
		w.set.OtherReviewer = w.IntN(3) == 0
	}
	w.set.Baseline, w.set.Last = w.IntN(5) == 0, w.IntN(5) == 0
	s := &w.spec
	s.checks, s.bad, s.faulty = w.IntN(4) > 0 && w.set.Mode != Once, w.IntN(12) == 0, w.IntN(15) == 0
	s.red, s.hook, s.dry = w.IntN(12) == 0, w.IntN(12) == 0, seed%15 == 0
	if w.kind == "criteria" {
		s.count, s.colleague, s.hard, s.command = 1+w.IntN(3), w.IntN(3) == 0, w.IntN(4) == 0, w.IntN(2) == 0
		s.met = make([]Proof, s.count)
		s.unmets = []string{"abc"[:s.count]}
	}
	l := &w.limits
	if l.Iterations = 1 + w.IntN(15); w.set.Mode == Once {
		l.Iterations = 1
	}
	l.Crashes, l.OnLimitStop = []int{0, 3, 5, 5}[w.IntN(4)], w.IntN(6) == 0
	if w.IntN(4) == 0 {
		l.Deadline = w.now.Add(time.Duration(w.IntN(3000)) * time.Second)
	}
	if w.IntN(5) == 0 {
		l.USD = float64(1 + w.IntN(20))
	}
	if w.IntN(3) == 0 {
		l.MaxWait = time.Duration(100+w.IntN(3000)) * time.Second
	}
	return w
}

func night(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed)
	defer func() {
		if p := recover(); p != nil {
			w.failf("%v", p)
		}
	}()
	w.resume(w.kind == "criteria" && w.IntN(4) == 0, false)
	mornings := w.IntN(4)
	for step := 0; ; step++ {
		if step > 5000 {
			w.failf("no end")
		}
		if w.IntN(12) == 0 {
			w.same()
		}
		if w.ended != "" {
			if _, ok := w.run.Next(w.now); ok {
				w.failf("it goes on after its end")
			}
			if mornings == 0 || w.ended == IsDone || w.ended == Nothing {
				return w
			}
			mornings--
			w.morning()
			continue
		}
		a, ok := w.run.Next(w.now)
		if step < 2000 && (!ok || w.IntN(4) == 0) && w.happens() { // also between an event and what follows from it
			continue
		}
		if ok {
			w.begin(a)
			continue
		}
		do, list, wake := w.should()
		if do != "" {
			w.failf("it does nothing, and should %s %v", do, list)
		}
		if got := w.run.Wakes(w.now); !got.Equal(wake) {
			w.failf("it looks again at %v, not at %v", got.Sub(midnight), wake.Sub(midnight))
		}
		if w.busy == nil {
			if !wake.After(w.now) {
				w.failf("nothing is under way, nothing to wait for, no end")
			}
			w.now = wake
			continue
		}
		if w.ends.After(w.now) {
			w.now = w.ends
		}
		if w.IntN(150) == 0 { // the disk, git, ourselves
			w.busy = nil
			w.tell(Broken{[]Why{OwnError, GitRefuses}[w.IntN(2)]})
			continue
		}
		e := w.busy()
		w.busy = nil
		w.tell(e)
	}
}

// happens is what comes from outside.
func (w *world) happens() bool {
	switch w.IntN(70) {
	case 0, 1, 10, 11:
		w.kill()
	case 2:
		if w.IntN(2) > 0 {
			return false
		}
		w.tell(Asked{[]Request{Stop, StopNow, Terminate}[w.IntN(3)]})
	case 3:
		w.tell(Asked{Pause})
	case 4:
		w.tell(Asked{Go})
	case 5, 6, 7:
		w.commits()
	case 8:
		until := w.now.Add(time.Duration(1+w.IntN(900)) * time.Second)
		if q := w.quota["a"]; until.After(q) {
			w.quota["a"] = until
		}
		w.tell(LimitMet{"a", until})
	case 12:
		delete(w.quota, "a")
		w.tell(LimitCleared{"a"})
	case 9:
		l := w.limits
		if l.Iterations += w.IntN(4); l.USD > 0 {
			l.USD += float64(w.IntN(4) - 1)
		}
		w.tell(LimitsChanged{l})
	default:
		return false
	}
	return true
}

// commits is the user's.
func (w *world) commits() {
	if w.set.Place == Branch {
		w.users++
		w.branch = append(slices.Clone(w.branch), "u"+string(rune('a'+w.users%26))+string(rune('a'+w.users/26)))
	}
}

// morning is a person who goes on, with what he thinks is right.
func (w *world) morning() {
	w.now = w.now.Add(time.Duration(w.IntN(5000)) * time.Second)
	if w.clash && w.IntN(2) == 0 {
		w.branch = union(w.branch, w.refs[w.cur.id])
		w.merged, w.checkedOn = w.cur.id, -1
	} else if w.IntN(3) == 0 {
		w.commits()
	}
	l := &w.limits
	if w.IntN(3) > 0 {
		l.Iterations += 1 + w.IntN(5)
	}
	if w.IntN(3) > 0 {
		l.Deadline = time.Time{}
	}
	if l.USD > 0 && w.IntN(3) > 0 {
		l.USD += float64(5 + w.IntN(10))
	}
	w.resume(w.IntN(2) == 0, w.IntN(3) == 0)
}

func TestNights(t *testing.T) {
	ends, start := map[string]int{}, time.Now()
	var all stats
	for seed := *first; seed < *first+uint64(*nights); seed++ {
		s := night(t, seed).night
		all.iterations, all.kills = all.iterations+s.iterations, all.kills+s.kills
		all.commits, all.heard = all.commits+s.commits, all.heard+s.heard
		for k, n := range s.ends {
			ends[k] += n
		}
	}
	d := time.Since(start)
	t.Logf("%d nights from seed %d, %d tries, %d heard by gates, %d deliveries, %d kills, %.0f nights a second", *nights,
		*first,
		all.iterations, all.heard, all.commits, all.kills, float64(*nights)/d.Seconds())
	for _, k := range slices.Sorted(maps.Keys(ends)) {
		t.Logf("  %-20s %d", k, ends[k])
	}
}
