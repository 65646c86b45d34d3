package prompt

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestScripts plays the rules of testdata/scripts.txt: what happens, and after > what the machine does then.
func TestScripts(t *testing.T) {
	b, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split("\n"+string(b), "\n== ")[1:] {
		name, text, _ := strings.Cut(block, "\n")
		t.Run(strings.Fields(name)[0], func(t *testing.T) { (&script{T: t, now: midnight}).play(text) })
	}
}

type script struct {
	*testing.T
	run    *Run
	now    time.Time
	limits Limits
}

func (s *script) play(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if want, ok := strings.CutPrefix(line, "> "); ok {
			s.expect(want)
		} else if line != "" && line[0] != '#' {
			s.happen(strings.Fields(line))
		}
	}
}

func (s *script) apply(e Event) { s.run.Apply(Entry{s.now, e}) }

// expect compares an action, and starts it.
func (s *script) expect(want string) {
	s.Helper()
	want, dry := strings.CutPrefix(want, "would ")
	a, ok := s.run.Next(s.now)
	got := "nothing"
	if ok {
		got = string(a.Do)
	}
	switch a.Do {
	case Iterate:
		if got += fmt.Sprintf(" %d.%d", a.Try.Number, a.Try.Try); a.Account != "a" {
			got += " by " + a.Account
		}
		if a.From != (Try{}) {
			got += fmt.Sprintf(" from %d.%d", a.From.Number, a.From.Try)
		}
		if a.Plans {
			got += " plans"
		}
	case Check, Deliver:
		if a.Apart {
			got += " apart"
		}
	case Ask:
		got += " " + string(a.What)
	case End:
		got += fmt.Sprintf(" %s %d", a.Why, a.Code)
	}
	if got != want {
		s.Fatalf("it does %q, not %q", got, want)
	}
	if dry {
		return
	}
	switch a.Do {
	case Iterate:
		s.apply(Started{a.Try, a.Account})
	case Precheck:
		s.apply(PrecheckStarted{a.Account})
	case Check:
		s.apply(CheckStarted{})
	case Review:
		s.apply(ReviewStarted{a.Account})
	case Deliver:
		s.apply(DeliverStarted{})
	case Ask:
		s.apply(AskStarted{})
	case End:
		s.apply(Ended{a.Why})
	}
}

func (s *script) happen(words []string) {
	is := func(w string) bool { return strings.Contains(" "+strings.Join(words[1:], " ")+" ", " "+w+" ") }
	number := func(key string) (n int) {
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, key+"="); ok {
				n, _ = strconv.Atoi(v)
			}
		}
		return n
	}
	after := func(key string) time.Time { return s.now.Add(time.Duration(number(key)) * time.Second) }
	verdict := func(names map[string]Verdict) Verdict {
		for w, v := range names {
			if is(w) {
				return v
			}
		}
		return Passed
	}
	opinion := func() Opinion { return Opinion{Verdict: verdict(map[string]Verdict{"no": Failed, "cut": Cancelled})} }
	switch words[0] {
	case "run": // mode place gate
		set := Settings{Mode: Mode(words[1]), Place: Place(words[2]), Replan: is("replan"), Review: is("review")}
		var g Gate = &Promise{Any: words[3] == "exit"}
		switch words[3] {
		case "status":
			g = &Status{}
		case "criteria":
			g = &Criteria{Count: 2, Colleague: is("colleague"), Hard: is("hard"), Command: is("precheck")}
		case "promise":
			set.Claims = set.Mode == Plan || set.Mode == Build
		}
		s.run, s.limits = New(set, []string{"a", "b"}[:1+number("fallback")], g), Limits{Iterations: 20, Crashes: 5}
	case "start", "resume", "kill":
		if n := number("max"); n > 0 {
			s.limits.Iterations = n
		}
		s.limits.StopAtOnce = s.limits.StopAtOnce || is("stop-at-limit")
		if n := number("max-wait"); n > 0 {
			s.limits.MaxWait = time.Duration(n) * time.Second
		}
		e := Resumed{Limits: s.limits, Yes: is("yes"), Anew: is("anew"), Landed: is("landed"), Plans: is("plans")}
		if is("left") {
			e.Left = &Left{Verdict: Passed, Changed: true}
		}
		s.apply(e)
	case "agent":
		l := Left{Changed: !is("idle"), Until: after("until"), Bytes: number("bytes"), Edits: number("edits")}
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
		s.apply(AgentEnded{l})
	case "check":
		e := CheckEnded{Verdict: verdict(map[string]Verdict{"fails": Failed, "clashes": Clashed, "cut": Cancelled})}
		if e.Verdict == Failed {
			e.Found.Error = "tests"
		}
		e.Found.NoPlan, e.Found.Replan, e.Found.PlanOpen = is("no-plan"), is("replan"), is("open")
		if is("command-fails") {
			e.Found.Commands = []Proof{NotCommand, ""}
		}
		s.apply(e)
	case "review":
		s.apply(Reviewed{opinion()})
	case "precheck":
		s.apply(Prechecked{opinion()})
	case "deliver":
		s.apply(Delivered{Verdict: verdict(map[string]Verdict{"refused": Failed, "moved": Moved, "in-the-way": Refused})})
	case "broken":
		s.apply(Broken{Why(words[1])})
	case "answer":
		s.apply(Answered{Answer(words[1])})
	case "lacks":
		s.apply(Unprepared{Why(strings.Join(words[1:], " "))})
	case "wait":
		n, _ := strconv.Atoi(words[1])
		s.now = s.now.Add(time.Duration(n) * time.Second)
	default:
		s.apply(Asked{Request(words[0])})
	}
}
