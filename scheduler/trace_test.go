package scheduler

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// trace plays a file of testdata: a command says what happens, and what is below it is what the run does then. All
// that it wants to do is started at once; the commands say how it ends. go test ./scheduler -run Traces -rewrite
// writes what is so now.
type trace struct {
	t     *testing.T
	run   *Run
	start Resumed
	now   time.Time
}

var epoch = time.Unix(0, 0).UTC()

func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		tr := &trace{t: t, run: NewRun(), now: epoch}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return strings.Join(tr.do(d), "\n") + "\n"
		})
	})
}

// args are a command's words: plain ones in order, key=value by key.
type args struct {
	plain []string
	key   map[string]string
}

func wordsOf(d *datadriven.TestData) args {
	var fields []string
	for _, a := range d.CmdArgs {
		f := a.Key
		if len(a.Vals) > 0 {
			f += "=" + strings.Join(a.Vals, ",")
		}
		fields = append(fields, f)
	}
	return split(fields)
}

func split(fields []string) args {
	a := args{key: map[string]string{}}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			a.key[k] = v
		} else {
			a.plain = append(a.plain, f)
		}
	}
	return a
}

func (a args) list(key string) []string {
	if a.key[key] == "" {
		return nil
	}
	return strings.Split(a.key[key], ",")
}

func (a args) number(key string, or int) int {
	if n, err := strconv.Atoi(a.key[key]); err == nil {
		return n
	}
	return or
}

func (a args) has(word string) bool {
	for _, p := range a.plain {
		if p == word {
			return true
		}
	}
	return false
}

// readList reads a list of tasks, one a line.
func readList(text string) (list []Listed) {
	for line := range strings.Lines(text) {
		a := split(strings.Fields(line))
		list = append(list, Listed{ID: a.plain[0], Needs: a.list("needs"), Rank: a.number("rank", 0),
			Hours: float64(a.number("hours", 0)), Scope: a.list("scope"), Labels: a.list("labels"),
			Accounts: append(a.list("accounts"), "main")[:max(1, len(a.list("accounts")))], Review: a.list("review"),
			Word: Word(a.key["word"])})
	}
	return list
}

func (tr *trace) do(d *datadriven.TestData) []string {
	a := wordsOf(d)
	switch d.Cmd {
	case "start":
		tr.run, tr.start, tr.now = NewRun(), Resumed{}, epoch
		tr.start.List = readList(d.Input)
		tr.start.Settings = Settings{Barrier: a.has("barrier"), Step: a.has("step"), PerTask: a.has("per-task"), WaveChecks: a.has("wave-checks"),
			EndCheck: a.has("end-check"), Only: a.key["only"], Breaker: a.number("breaker", 3), Baseline: a.key["baseline"], Accounts: []string{"main"}}
		tr.start.Limits = Limits{Attempts: a.number("attempts", 3), Total: a.number("total", 100), USD: float64(a.number("usd", 0)),
			TaskUSD: float64(a.number("task-usd", 0)), OnLimitStop: a.has("on-limit-stop")}
		tr.start.Limits.MaxWait, _ = time.ParseDuration(a.key["max-wait"])
		if d, err := time.ParseDuration(a.key["deadline"]); err == nil {
			tr.start.Limits.Deadline = epoch.Add(d)
		}
		for n := range a.number("j", 1) {
			tr.start.Lanes = append(tr.start.Lanes, Lane{Number: n})
		}
		tr.start.Moved = a.number("branch", 0)
		tr.apply(tr.start)
	case "kill", "resume": // and resume: merged= and kept= are what happened, and nobody wrote down; lost= is how many events were not durable
		for _, id := range a.list("merged") {
			tr.run.Trunk.Chain = append(tr.run.Trunk.Chain, Entry{Task: id})
		}
		for _, id := range a.list("kept") {
			tr.start.Kept = append(tr.start.Kept, Kept{Task: id})
		}
		k := &tr.run.Trunk
		tr.start.Chain, tr.start.In, tr.start.Moved, tr.start.Wave, tr.start.Aside = k.Chain, k.In, k.Moved, tr.run.Waves.Committed, k.Aside
		tr.apply(tr.start)
		tr.start.Kept = nil
	case "ended":
		e := AttemptEnded{Task: a.plain[0], Outcome: Outcome(strings.Join(a.plain[1:], " ")), Signature: a.key["by"],
			USD: float64(a.number("usd", 0)), Kept: a.key["kept"] != ""}
		if d, err := time.ParseDuration(a.key["until"]); err == nil {
			e.Until = epoch.Add(d)
		}
		tr.apply(e)
	case "checked":
		p := OfAttempt
		if a.plain[0] == "baseline" || a.plain[0] == "recheck" {
			p, a.plain[0] = Purpose(a.plain[0]), ""
		}
		tr.apply(CheckEnded{Purpose: p, Task: a.plain[0], Result: Result(a.plain[1]), Signature: a.key["by"], Paths: a.list("paths")})
	case "wave":
		tr.apply(WaveCheckEnded{a.number("n", 1), a.number("tip", 0), Result(a.plain[0])})
	case "taken":
		tr.apply(TakeInEnded{a.number("upto", 1), Result(a.plain[0])})
	case "committed":
		tr.apply(Committed{a.number("n", 1), a.number("tip", 0), Passed, a.has("aside")})
	case "branch":
		tr.apply(BranchMoved{Upto: a.number("upto", 1)})
	case "ask":
		tr.apply(Requested{Request(strings.ReplaceAll(a.plain[0], "-", " ")), strings.Join(a.plain[1:], "")})
	case "list":
		tr.start.List = readList(d.Input)
		tr.apply(ListChanged{tr.start.List})
	case "limits":
		tr.apply(LimitsChanged{Limits{Attempts: a.number("attempts", 3), Total: a.number("total", 100),
			USD: float64(a.number("usd", 0))}})
	case "lane":
		if a.plain[0] == "gone" {
			tr.apply(LaneGone{a.number("n", 0)})
		} else {
			tr.apply(LaneCame{Lane{Number: a.number("n", 0)}})
		}
	case "pushed":
		tr.apply(Pushed{Result(a.plain[0])})
	case "trouble":
		tr.apply(Trouble{strings.Join(a.plain, " "), a.number("code", 1)})
	case "rewound": // a person takes the trunk back to these
		var chain []Entry
		for _, id := range a.list("to") {
			chain = append(chain, Entry{Task: id})
		}
		tr.apply(Rewound{Chain: chain, In: len(chain), Wave: a.number("wave", 0), Open: a.list("open")})
	case "at":
		d, _ := time.ParseDuration(a.plain[0])
		tr.now = epoch.Add(d)
	default:
		d.Fatalf(tr.t, "what is %q?", d.Cmd)
	}
	return tr.drain()
}

func (tr *trace) apply(e Event) { tr.run.Apply(e) }

// drain starts what there is to do.
func (tr *trace) drain() (out []string) {
	for todo := tr.run.Next(tr.now); len(todo) > 0; todo = tr.run.Next(tr.now) {
		for _, x := range todo {
			switch x := x.(type) {
			case Attempt:
				out = append(out, fmt.Sprintf("attempt at %s: %s, lane %d, account %s", x.Task, x.Purpose, x.Lane, x.Account))
				tr.apply(AttemptStarted(x))
			case Check:
				known := ""
				if x.Checked {
					known = ", has passed: only merged"
				}
				out = append(out, strings.TrimSpace(fmt.Sprintf("check of %s %s", x.Purpose, x.Task))+known)
				tr.apply(CheckStarted{x.Purpose, x.Task})
			case TakeIn:
				out = append(out, fmt.Sprintf("take in the branch's commits up to %d", x.Upto))
				tr.apply(TakeInStarted{x.Upto})
			case WaveCheck:
				out = append(out, fmt.Sprintf("checks of wave %d at entry %d", x.Wave, x.Tip))
				tr.apply(WaveCheckStarted(x))
			case Commit:
				more := map[bool]string{true: ", continued"}[x.Continued] + map[bool]string{true: ", aside"}[x.Aside]
				out = append(out, fmt.Sprintf("commit wave %d up to entry %d%s", x.Wave, x.Tip, more))
				tr.apply(CommitStarted{x.Wave, x.Tip})
			case End:
				out = append(out, fmt.Sprintf("end: %s, exit %d", x.Why, x.Code))
				tr.apply(Ended(x))
			}
		}
	}
	var stages []string
	for _, t := range tr.run.Tasks {
		stages = append(stages, fmt.Sprintf("%s %s", t.ID, t.Stage))
	}
	out = append(out, "= "+strings.Join(stages, ", "))
	if at := tr.run.Wakes(tr.now); !at.IsZero() {
		out = append(out, fmt.Sprintf("= asks again at %v", at.Sub(epoch)))
	}
	return out
}
