package scheduler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// heavyTailed makes a random graph whose tasks last between a minute and hours, most of them short.
func heavyTailed(random *rand.Rand, n int) []Listed {
	list := make([]Listed, n)
	for i := range list {
		list[i] = Listed{ID: fmt.Sprint(i + 1), Accounts: []string{"a"}}
		for range random.IntN(3) {
			if back := 1 + random.IntN(30); i-back >= 0 {
				list[i].Needs = append(list[i].Needs, fmt.Sprint(i-back+1))
			}
		}
		list[i].Hours = math.Min(math.Pow(1-random.Float64(), -1/1.5), 200) / 60
	}
	return list
}

// leastTimes returns the total work, and the longest path of it, in hours.
func leastTimes(list []Listed) (work, path float64) {
	end := map[string]float64{}
	for _, task := range list {
		for _, d := range task.Needs {
			end[task.ID] = max(end[task.ID], end[d])
		}
		end[task.ID] += task.Hours
		work, path = work+task.Hours, max(path, end[task.ID])
	}
	return work, path
}

// makespan is how many hours a run takes in which every agent does its task in the time that is known, and checks and
// commits take none.
func makespan(t *rapid.T, list []Listed, lanes int) (hours float64) {
	start := Resumed{List: list, Limits: Limits{Attempts: 1, Total: len(list)}}
	for n := range lanes {
		start.Lanes = append(start.Lanes, Lane{Number: n})
	}
	r := NewRun()
	r.Apply(start)
	ends := map[string]float64{}
	for {
		var instant []Event
		for _, a := range r.Next(time.Unix(0, 0)) {
			switch a := a.(type) {
			case Attempt:
				r.Apply(AttemptStarted(a))
				ends[a.Task] = hours + r.Task(a.Task).Hours
			case Check:
				r.Apply(CheckStarted{Purpose: a.Purpose, Task: a.Task})
				instant = append(instant, CheckEnded{Purpose: a.Purpose, Task: a.Task, Result: Passed})
			case Commit:
				r.Apply(CommitStarted{Wave: a.Wave, Tip: a.Tip})
				instant = append(instant, Committed{Wave: a.Wave, Tip: a.Tip, Result: Passed})
			case End:
				if a.Code != 0 {
					t.Fatalf("the run ends with %+v", a)
				}
				return hours
			default:
				t.Fatalf("%T%+v", a, a)
			}
		}
		for _, e := range instant {
			r.Apply(e)
		}
		if len(instant) > 0 {
			continue
		}
		next := ""
		for id, at := range ends {
			if next == "" || at < ends[next] || at == ends[next] && id < next {
				next = id
			}
		}
		hours = ends[next]
		delete(ends, next)
		r.Apply(AttemptEnded{Task: next, Outcome: Finished})
	}
}

// No schedule of a graph is shorter than its longest path, nor than its work shared among the lanes: a run comes close
// to the larger of both, and no single one is beyond what any list schedule keeps.
func TestMakespan(t *testing.T) {
	t.Parallel()
	var made, bound float64
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		list := heavyTailed(random, rapid.IntRange(20, 150).Draw(t, "tasks"))
		lanes := rapid.SampledFrom([]int{2, 3, 4, 8, 16}).Draw(t, "lanes")
		took := makespan(t, list, lanes)
		work, path := leastTimes(list)
		if limit := (work + float64(lanes-1)*path) / float64(lanes); took > limit*1.000001 {
			t.Fatalf("%d tasks in %d lanes took %v hours, any list schedule takes at most %v", len(list), lanes, took, limit)
		}
		made, bound = made+took, bound+max(path, work/float64(lanes))
	})
	t.Logf("makespan %.3f times the lower bound", made/bound)
	if made > 1.05*bound {
		t.Errorf("makespan is %.3f times the lower bound, want at most 1.05", made/bound)
	}
}
