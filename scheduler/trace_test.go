package scheduler

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/scheduler/trace"
)

// player plays a run: all that it wants to do is started at once, the commands say how it ends.
type player struct {
	run   *Run
	start Resumed
	now   time.Time
	seen  map[string]bool // rows of the stage table, requests, endings
}

// TestTraces plays the traces, which between them show every row of the stage table, every request and every ending.
func TestTraces(t *testing.T) {
	seen := map[string]bool{}
	trace.Play(t, func(*testing.T) trace.Player { return &player{run: NewRun(), now: trace.Epoch, seen: seen} })
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return
	}
	var want []string
	for from, list := range stages {
		for to := range strings.FieldsSeq(list) {
			want = append(want, string(from)+" -> "+to)
		}
	}
	for _, r := range []Request{Pause, PauseNow, Go, Stop, StopNow, Term, Retry, Accept} {
		want = append(want, "request "+string(r))
	}
	for _, c := range codes {
		want = append(want, "end "+c.why)
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("no trace shows %s", w)
		}
	}
}

// readList reads a list of tasks, one a line.
func readList(text string) (list []Listed) {
	for line := range strings.Lines(text) {
		a := trace.Split(strings.Fields(line))
		list = append(list, Listed{ID: a.Plain[0], Needs: a.List("needs"), Rank: a.Number("rank", 0),
			Hours: float64(a.Number("hours", 0)), Scope: a.List("scope"), Labels: a.List("labels"),
			Accounts: append(a.List("accounts"), "main")[:max(1, len(a.List("accounts")))], Review: a.List("review"),
			Word: Word(a.Value("word")), Asking: a.Has("asking")})
	}
	return list
}

// Happen is a command of a trace.
func (tr *player) Happen(command string, a trace.Args, input string) ([]string, bool) {
	switch command {
	case "start":
		tr.run, tr.start, tr.now = NewRun(), Resumed{}, trace.Epoch
		tr.start.List = readList(input)
		tr.start.Settings = Settings{Barrier: a.Has("barrier"), Step: a.Has("step"), PerTask: a.Has("per-task"),
			WaveChecks: a.List("wave-checks"), EndChecks: a.List("end-checks"), Only: a.Value("only"),
			Breaker: a.Number("breaker", 3), Baseline: a.Value("baseline"), Careful: a.Has("careful"), OtherReviewer: a.Has("other-reviewer"),
			ChecksAtOnce: a.Number("checks-at-once", 0), RespectScope: a.Has("respect-scope"), Accounts: []string{"main"}}
		tr.start.Limits = Limits{Attempts: a.Number("attempts", 3), Total: a.Number("total", 100),
			TaskUSD: float64(a.Number("task-usd", 0))}
		tr.start.Limits.USD, tr.start.Limits.OnLimitStop = float64(a.Number("usd", 0)), a.Has("on-limit-stop")
		tr.start.Limits.MaxWait, tr.start.Limits.Deadline = a.Duration("max-wait"), a.At("deadline")
		for n := range a.Number("j", 1) {
			tr.start.Lanes = append(tr.start.Lanes, Lane{Number: n})
		}
		for i, worker := range a.List("workers") { // one lane each, behind our own
			tr.start.Lanes = append(tr.start.Lanes, Lane{Number: a.Number("j", 1) + i, Worker: worker, Checks: a.Has("checks")})
		}
		tr.start.Branch, tr.start.Owed = a.List("branch"), a.List("owed")
		tr.apply(tr.start)
	case "kill", "resume":
		// and resume: merged= and kept= are what happened, and nobody wrote down; alive= is what a fleet still makes
		tr.start.Owed = nil
		tr.start.Kept, tr.start.Alive, tr.start.Lost = nil, a.List("alive"), a.List("lost")
		tr.start.OtherChecks, tr.start.Settings.Step = a.Has("other-checks"), tr.start.Settings.Step || a.Has("step")
		for _, id := range a.List("kept") {
			tr.start.Kept = append(tr.start.Kept, Kept{Task: id})
		}
		chain := slices.Clip(tr.run.Trunk.Entries)
		for _, id := range a.List("merged") {
			chain = append(chain, Entry{Task: id})
		}
		if n := a.Number("cut", -1); n >= 0 { // and nobody was told
			chain = chain[:n]
		}
		tr.start.Listed, tr.start.Unneeded = nil, nil
		for _, t := range tr.run.Tasks {
			switch t.Facts.Listed {
			case Blocked:
				tr.start.Listed = append(tr.start.Listed, t.ID)
			case Done:
				tr.start.Unneeded = append(tr.start.Unneeded, t.ID)
			}
		}
		k := &tr.run.Trunk
		tr.start.Chain, tr.start.In, tr.start.Branch = chain, min(k.In, len(chain)), k.Branch
		tr.start.Wave = tr.run.Waves.Committed
		tr.start.Aside, tr.start.Limits = k.Aside, tr.run.Limits
		for i, x := range k.Entries {
			if slices.Contains(tr.start.Lost, x.Task) {
				tr.start.In = min(tr.start.In, i)
			}
		}
		tr.apply(tr.start)
		for _, id := range a.List("retry") {
			tr.apply(Requested{Request: Retry, Task: id})
		}
		for _, id := range a.List("accept") {
			tr.apply(Requested{Request: Accept, Task: id, Kept: true})
		}
	case "ended":
		if t := tr.run.byID[a.Plain[0]]; t == nil || t.Lane < 0 {
			return []string{"! no agent works at it"}, true
		}
		e := AttemptEnded{Task: a.Plain[0], Outcome: Outcome(strings.Join(a.Plain[1:], " ")), Signature: a.Value("by"),
			USD: float64(a.Number("usd", 0)), Kept: a.Value("kept") != "", Until: a.At("until")}
		tr.apply(e)
	case "checked":
		p := OfAttempt
		if a.Plain[0] == "baseline" || a.Plain[0] == "recheck" {
			p, a.Plain[0] = Purpose(a.Plain[0]), ""
		} else if tr.run.byID[a.Plain[0]].Stage != Checking {
			return []string{"! no check of it is at work"}, true
		}
		tr.apply(CheckEnded{Purpose: p, Task: a.Plain[0], Result: Result(a.Plain[1]), Signature: a.Value("by"),
			Paths: a.List("paths"), Changed: a.Has("changed"), Known: a.List("known"), Mended: a.List("mended"), Ask: a.Has("asks")})
	case "wave":
		e := WaveCheckEnded{Wave: a.Number("n", 1), Tip: a.Number("tip", 0), Result: Passed, Failed: a.List("failed")}
		if len(e.Failed) > 0 {
			e.Result = Failed
		} else if a.Has("cut") {
			e.Result = Cut
		}
		tr.apply(e)
	case "taken":
		tr.apply(TakeInEnded{a.Value("commit"), Result(a.Plain[0])})
	case "committed":
		e := Committed{a.Number("n", 1), a.Number("tip", 0), Passed, a.Has("aside")}
		for _, r := range []Result{Failed, Moved, Cut} {
			if a.Has(string(r)) {
				e.Result = r
			}
		}
		tr.apply(e)
	case "branch":
		tr.apply(BranchMoved{a.List("commits"), a.List("lost")})
	case "clear": // a person forgets what is remembered of an account
		tr.apply(LimitCleared{a.Plain[0], a.Value("worker")})
	case "limit": // of an account, met by another run
		tr.apply(LimitMet{a.Plain[0], a.Value("worker"), a.At("until")})
	case "ask":
		tr.apply(Requested{Request(strings.ReplaceAll(a.Plain[0], "-", " ")), strings.Join(a.Plain[1:], ""), a.Value("kept") != ""})
	case "list":
		tr.start.List = readList(input)
		tr.apply(ListChanged{tr.start.List})
	case "limits":
		tr.apply(LimitsChanged{Limits{Attempts: a.Number("attempts", 3), Total: a.Number("total", 100),
			Bounds: Bounds{USD: float64(a.Number("usd", 0))}}})
	case "lane":
		if a.Plain[0] == "gone" {
			tr.apply(LaneGone{a.Number("n", 0)})
		} else {
			tr.apply(LaneCame{Lane{Number: a.Number("n", 0)}})
		}
	case "pushed":
		tr.apply(Pushed{Result(a.Plain[0])})
	case "moves": // somebody commits so often, each time before a commit of ours
		for range a.Number("times", 1) {
			tr.apply(Committed{Wave: a.Number("n", 1), Tip: a.Number("tip", 0), Result: Moved})
			tr.apply(BranchMoved{Commits: []string{fmt.Sprint("u", len(tr.run.Trunk.Branch)+1)}})
			out := tr.drain()
			if tr.run.Ended != "" {
				return out, true
			}
			tr.apply(TakeInEnded{Commit: tr.run.Trunk.Branch[len(tr.run.Trunk.Branch)-1], Result: Passed})
			tr.drain()
		}
	case "trouble": // no-checks, no-commits: what it came of
		no := func(s string) bool { return strings.HasPrefix(s, "no-") }
		tr.apply(Trouble{Why: strings.Join(slices.DeleteFunc(slices.Clone(a.Plain), no), " "), Code: a.Number("code", 1),
			Checks: a.Has("no-checks"), Commits: a.Has("no-commits")})
	case "rewound": // a person takes the trunk back to these
		var chain []Entry
		for _, id := range a.List("to") {
			chain = append(chain, Entry{Task: id})
		}
		tr.apply(Rewound{chain, len(chain), tr.run.Trunk.Branch, a.Number("wave", 0), a.List("open")})
	case "at":
		d, _ := time.ParseDuration(a.Plain[0])
		tr.now = trace.Epoch.Add(d)
	default:
		return nil, false
	}
	return tr.drain(), true
}

func (tr *player) apply(e Event) {
	was := map[string]Stage{}
	for _, t := range tr.run.Tasks {
		was[t.ID] = t.Stage
	}
	tr.run.Apply(e)
	for _, t := range tr.run.Tasks {
		from := was[t.ID]
		if from == "" {
			from = Pending
		}
		tr.seen[string(from)+" -> "+string(t.Stage)] = true
	}
	switch e := e.(type) {
	case Requested:
		tr.seen["request "+string(e.Request)] = true
	case Ended:
		tr.seen["end "+e.Why] = true
	case AttemptStarted: // also one that goes on in its stage
		tr.seen[string(was[e.Task])+" -> "+string(tr.run.byID[e.Task].Stage)] = true
	}
}

// drain starts what there is to do.
func (tr *player) drain() (out []string) {
	for todo := tr.run.Next(tr.now); len(todo) > 0; todo = tr.run.Next(tr.now) {
		for _, x := range todo {
			switch x := x.(type) {
			case Attempt:
				out = append(out, fmt.Sprintf("attempt at %s: %s, lane %d, account %s", x.Task, x.Purpose, x.Lane, x.Account))
				tr.apply(AttemptStarted(x))
			case Check:
				more := ""
				if x.Checked {
					more = ", has passed: only merged"
				}
				if len(x.On) > 0 {
					more += " on " + strings.Join(x.On, ", ")
				}
				out = append(out, strings.TrimSpace(fmt.Sprintf("check of %s %s", x.Purpose, x.Task))+more)
				tr.apply(CheckStarted{x.Purpose, x.Task, x.On, x.Review})
			case TakeIn:
				out = append(out, "take in the branch's commits up to "+x.Commit)
				tr.apply(TakeInStarted(x))
			case WaveCheck:
				out = append(out, fmt.Sprintf("checks of %s at entry %d: %s", wave(x.Wave), x.Tip, strings.Join(x.Checks, ", ")))
				tr.apply(WaveCheckStarted(x))
			case Commit:
				more := map[bool]string{true: ", continued"}[x.Continued] + map[bool]string{true: ", aside"}[x.Aside]
				out = append(out, fmt.Sprintf("commit %s up to entry %d%s", wave(x.Wave), x.Tip, more))
				tr.apply(CommitStarted{x.Wave, x.Tip})
			case CutTrunk:
				out = append(out, fmt.Sprintf("cut the trunk at entry %d", x.Tip)+opens(x.Open))
				tr.apply(CutStarted{x.Tip})
			case End:
				of := strings.Join(append([]string{""}, x.Tasks...), " ")
				if x.Halt != "" && x.Halt != x.Why {
					of += ", and a resume goes on where " + x.Halt + " ended it"
				}
				out = append(out, fmt.Sprintf("end: %s%s, exit %d", x.Why, of, x.Code))
				tr.apply(Ended(x))
			}
		}
	}
	if void := tr.run.Void(); len(void) > 0 {
		out = append(out, "= in vain: "+strings.Join(void, ", "))
	}
	var stages []string
	for _, t := range tr.run.Tasks {
		stages = append(stages, fmt.Sprintf("%s %s", t.ID, t.Stage))
	}
	out = append(out, "= "+strings.Join(stages, ", "))
	if len(tr.run.Known) > 0 {
		out = append(out, "= known to fail: "+strings.Join(tr.run.Known, ", "))
	}
	if at := tr.run.Wakes(tr.now); !at.IsZero() {
		out = append(out, fmt.Sprintf("= asks again at %v", at.Sub(trace.Epoch)))
	}
	return out
}

func wave(n int) string {
	if n == EndWave {
		return "the end"
	}
	return fmt.Sprint("wave ", n)
}

func opens(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ", opens " + strings.Join(ids, ", ")
}
