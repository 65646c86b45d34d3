package prompt

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"descartes/scheduler/trace"
)

// player plays a prompt loop: what it wants to do is started at once, the commands say what comes of it.
//
//	start MODE PLACE GATE: loop, plan, build, prompt; branch, tree, folder; promise, exit, status, criteria
type player struct {
	run    *Run
	now    time.Time
	limits Limits
	seen   map[string]bool // rows of the stage table, actions, requests, questions, endings
}

// TestTraces plays the traces, which between them show every row of the stage table, every action, every request, every
// question and every ending.
func TestTraces(t *testing.T) {
	seen := map[string]bool{}
	trace.Play(t, func(*testing.T) trace.Player { return &player{seen: seen} })
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return
	}
	var want []string
	for from, list := range stages {
		for _, to := range list {
			want = append(want, string(from)+" -> "+string(to))
		}
	}
	for _, v := range []Verb{Baseline, Iterate, Precheck, Check, Review, Deliver, Last, Ask, End} {
		want = append(want, "do "+string(v))
	}
	for _, q := range []Request{Stop, Pause, PauseNow, StopNow, Terminate, Go} {
		want = append(want, "request "+string(q))
	}
	for _, q := range []Question{G1, G2, G3, OfAgent, Help, NoCheck} {
		want = append(want, "question "+string(q))
	}
	for _, w := range []Why{IsDone, Nothing, Stopped, Terminated, IsApart, IsClash, GitRefuses, Quota, Crashing, NobodyCan,
		OwnError, AgentFails, TestsFail, NoPlan, BaseFails, LastFails, AtLimit, AtCost, AtDeadline, Paused, Asks, IsBlocked,
		IsOpen} {
		want = append(want, "end "+string(w))
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("no trace shows %s", w)
		}
	}
}

func (p *player) apply(e Event) {
	was := p.run.Stage
	p.run.Apply(Entry{p.now, e})
	if now := p.run.Stage; now != was {
		p.seen[string(was)+" -> "+string(now)] = true
	}
	if q, ok := e.(Asked); ok {
		p.seen["request "+string(q.Request)] = true
	}
}

// drain starts what there is to do; would: it only says what that is.
func (p *player) drain(would bool) (lines []string) {
	for a, ok := p.run.Next(p.now); ok; a, ok = p.run.Next(p.now) {
		if would {
			return append(lines, "would "+p.word(a))
		}
		lines = append(lines, p.word(a))
		p.seen["do "+string(a.Do)] = true
		switch a.Do {
		case Baseline:
			p.apply(BaselineStarted{})
		case Last:
			p.apply(LastStarted{})
		case Iterate:
			p.apply(Started{a.Try, a.Account})
		case Precheck:
			p.apply(PrecheckStarted{a.Account})
		case Check:
			p.apply(CheckStarted{})
		case Review:
			p.apply(ReviewStarted{a.Account})
		case Deliver:
			p.apply(DeliverStarted{})
		case Ask:
			p.seen["question "+string(a.What)] = true
			p.apply(AskStarted{})
		case End:
			p.seen["end "+string(a.Why)] = true
			p.apply(Ended{a.Why})
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "= "+string(p.run.Stage))
	}
	if at := p.run.Wakes(p.now); !at.IsZero() {
		lines = append(lines, fmt.Sprintf("= asks again at %v", at.Sub(trace.Epoch)))
	}
	return lines
}

func (p *player) word(a Action) string {
	s := string(a.Do)
	switch a.Do {
	case Iterate:
		if s += fmt.Sprintf(" %d.%d", a.Try.Number, a.Try.Try); a.Account != "a" {
			s += " by " + a.Account
		}
		if a.From != (Try{}) {
			s += fmt.Sprintf(" from %d.%d", a.From.Number, a.From.Try)
		}
		if a.Plans {
			s += " plans"
		}
	case Check, Deliver:
		if a.Apart {
			s += " apart"
		}
	case Review:
		if a.Account != "a" {
			s += " by " + a.Account
		}
	case Ask:
		s += " " + string(a.What)
	case End:
		s += fmt.Sprintf(" %s, exit %d", a.Why, a.Code)
	}
	return s
}

// Happen is a command of a trace.
func (p *player) Happen(command string, words trace.Args, _ string) ([]string, bool) {
	is := words.Has
	number := func(key string) int { return words.Number(key, 0) }
	verdict := func(names map[string]Verdict) Verdict {
		for w, v := range names {
			if is(w) {
				return v
			}
		}
		return Passed
	}
	opinion := func() Opinion {
		return Opinion{Asks: is("asks"), Until: words.At("until"), Verdict: verdict(map[string]Verdict{"no": Failed,
			"asks": Failed, "cut": Cancelled, "limit": Limited})}
	}
	whole := func() Verdict { return verdict(map[string]Verdict{"fails": Failed, "cut": Cancelled}) }
	switch command {
	case "start":
		p.now = trace.Epoch
		set := Settings{Mode: Mode(words.Plain[0]), Place: Place(words.Plain[1]), Replan: is("replan"),
			Baseline: is("baseline"), Last: is("last"), Reviewers: words.List("reviewers")}
		var g Gate = &Promise{Any: words.Plain[2] == "exit"}
		switch words.Plain[2] {
		case "status":
			g = &Status{}
		case "criteria":
			g = &Criteria{Count: 2, Colleague: is("colleague"), Hard: is("hard"), Command: is("precheck")}
		case "promise":
			set.Claims = set.Mode == Plan || set.Mode == Build
		}
		p.run, p.limits = New(set, []string{"a", "b"}[:1+number("fallback")], g), Limits{Iterations: 20, Crashes: 5}
		p.resume(words)
	case "resume", "kill":
		p.resume(words)
	case "agent":
		l := Left{Changed: !is("idle") && !is("mute"), Idle: is("mute"), Undid: is("undid"), USD: float64(number("usd")), Until: words.At("until"), Bytes: number("bytes"), Edits: number("edits")}
		l.Verdict = verdict(map[string]Verdict{"crashes": Crashed, "hangs": Failed, "limit": Limited, "fault": Faulty,
			"login": Refused, "cut": Cancelled})
		l.Said = Said{Promise: is("promises"), Indicators: number("done"), Block: is("block"), Signal: is("signal"),
			Blocked: is("blocked"), Question: is("asks"), Met: []Proof{Unmet, Unmet}}
		for i := range number("met") {
			l.Said.Met[i] = Observed
		}
		if l.Verdict == Crashed {
			l.Error = "exit status"
		}
		p.apply(AgentEnded{l})
	case "check":
		e := CheckEnded{Verdict: verdict(map[string]Verdict{"fails": Failed, "clashes": Clashed, "cut": Cancelled})}
		if e.Verdict == Failed {
			e.Found.Error = "tests"
		}
		e.Found.Question = is("asks")
		e.Found.NoPlan, e.Found.Replan, e.Found.PlanOpen = is("no-plan"), is("replan"), is("open")
		if is("command-fails") {
			e.Found.Commands = []Proof{NotCommand, ""}
		}
		p.apply(e)
	case "baseline":
		p.apply(BaselineEnded{whole()})
	case "last":
		p.apply(LastEnded{whole()})
	case "review":
		p.apply(Reviewed{opinion()})
	case "precheck":
		p.apply(Prechecked{opinion()})
	case "deliver":
		p.apply(Delivered{Verdict: verdict(map[string]Verdict{"refused": Failed, "moved": Moved, "in-the-way": Refused})})
	case "limits": // raised or lowered while it is on
		if n := number("max"); n > 0 {
			p.limits.Iterations = n
		}
		p.limits.USD = float64(number("usd"))
		p.apply(LimitsChanged{p.limits})
	case "limit": // met by another run
		p.apply(LimitMet{words.Plain[0], words.At("until")})
	case "clear":
		p.apply(LimitCleared{words.Plain[0]})
	case "broken":
		p.apply(Broken{Why(words.Plain[0])})
	case "answer":
		p.apply(Answered{Answer(words.Plain[0])})
	case "lacks":
		p.apply(Unprepared{Why(strings.Join(words.Plain, " "))})
	case "at":
		d, _ := time.ParseDuration(words.Plain[0])
		p.now = trace.Epoch.Add(d)
	case "ask":
		p.apply(Asked{Request(words.Plain[0])})
	default:
		return nil, false
	}
	return p.drain(is("would")), true
}

// resume starts, goes on after an end, or after a kill.
func (p *player) resume(a trace.Args) {
	if n := a.Number("max", 0); n > 0 {
		p.limits.Iterations = n
	}
	if n := a.Number("usd", 0); n > 0 {
		p.limits.USD = float64(n)
	}
	if d := a.At("deadline"); !d.IsZero() {
		p.limits.Deadline = d
	}
	p.limits.OnLimitStop = p.limits.OnLimitStop || a.Has("stop-at-limit")
	if d := a.Duration("max-wait"); d > 0 {
		p.limits.MaxWait = d
	}
	if a.Has("no-review") { // the settings of the process that resumes it
		p.run.Settings.Reviewers = nil
	}
	e := Resumed{Limits: p.limits, Yes: a.Has("yes"), Anew: a.Has("anew"), Landed: a.Has("landed"), Plans: a.Has("plans"),
		Number: a.Number("number", 0)}
	if a.Has("left") {
		e.Left = &Left{Verdict: Passed, Changed: true}
	}
	p.apply(e)
}
