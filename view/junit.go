package view

import (
	"encoding/xml"
	"fmt"
	"strings"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// story is one task in the journal, for reports.
type story struct {
	seconds  float64
	attempts int
	failure  *journal.Attempt // the last one that failed
	last     *journal.Attempt // the last one that ended
	blocked  *journal.BlockedTask
}

// stories are those of all tasks that the journal knows.
func stories(h *journal.State) map[string]*story {
	out := map[string]*story{}
	of := func(task string) *story {
		if out[task] == nil {
			out[task] = &story{}
		}
		return out[task]
	}
	for _, a := range h.Ended {
		t := of(a.Task)
		t.attempts, t.last, t.seconds = t.attempts+1, a, t.seconds+a.Seconds()
		if a.Verdict == journal.Dropped { // the task was done by another
			continue
		}
		if a.Verdict != journal.Verified {
			t.failure = a
		}
	}
	for _, b := range h.Blocked() {
		of(b.Task).blocked = b
	}
	return out
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitProp struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Props    []junitProp `xml:"properties>property"`
	Cases    []junitCase `xml:"testcase"`

	seconds float64
}

type junitCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	Time    string      `xml:"time,attr"`
	Failure *junitWords `xml:"failure,omitempty"`
	Skipped *junitWords `xml:"skipped,omitempty"`
	Out     string      `xml:"system-out,omitempty"`

	seconds float64
}

type junitWords struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit is a run as a test report: a suite per wave and a case per task, or a case per iteration; and one of the run's end, where the others
// do not say it all. It keeps to the schema of Jenkins' xUnit plugin (junit-10.xsd), which allows less than others do.
func JUnit(s *Summary, h *journal.State) []byte {
	all := junitSuites{Name: terminal.Clean(s.name())}
	if s.Board == nil {
		all.Suites = append(all.Suites, junitSuite{Name: all.Name, Cases: s.iterationCases(h)})
	} else {
		all.Suites = s.waveSuites(stories(h))
		if s.broke() {
			why := &junitWords{Message: terminal.Clean(s.ending())}
			if s.Run.Outcome.Ending == journal.BaselineFails {
				why.Text = terminal.CleanLines(strings.TrimSpace(h.BaselineOutput))
			}
			all.Suites = append(all.Suites, junitSuite{Name: all.Name + " run", Cases: []junitCase{{Name: "end of the loop", Class: all.Name, Failure: why}}})
		}
	}
	props := s.properties()
	sum := 0.0
	for i := range all.Suites {
		suite := &all.Suites[i]
		suite.Props = props
		suite.count()
		sum += suite.seconds
		all.Tests, all.Failures = all.Tests+suite.Tests, all.Failures+suite.Failures
	}
	all.Time = seconds(sum)
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil { // these types hold nothing that XML cannot
		panic(err)
	}
	return append(append([]byte(xml.Header), b...), '\n')
}

func seconds(n float64) string { return fmt.Sprintf("%.3f", n) }

// count sums up the suite's cases.
func (s *junitSuite) count() {
	for i := range s.Cases {
		c := &s.Cases[i]
		c.Time = seconds(c.seconds)
		s.Tests, s.seconds = s.Tests+1, s.seconds+c.seconds
		if c.Failure != nil {
			s.Failures++
		}
		if c.Skipped != nil {
			s.Skipped++
		}
	}
	s.Time = seconds(s.seconds)
}

// properties are what is true of the whole run.
func (s *Summary) properties() (props []junitProp) {
	add := func(name, value string) {
		if value != "" {
			props = append(props, junitProp{name, terminal.Clean(value)})
		}
	}
	add("loop", s.Run.ID)
	add("ended", s.ending())
	add("cost", s.Run.State.Cost.Text())
	add("sandbox", Sandbox(s.Run.State.Config))
	add("not pushed", s.Run.Outcome.Unpushed)
	add("next", s.Next().OneLine(""))
	return props
}

// waveSuites are the tasks as test cases.
func (s *Summary) waveSuites(told map[string]*story) (suites []junitSuite) {
	tag := terminal.Clean(s.File.Tag())
	for _, w := range s.Waves() {
		suite := junitSuite{Name: fmt.Sprintf("%s wave %d", tag, w.Number)}
		for _, t := range w.Tasks {
			c := junitCase{Name: terminal.Clean(t.ID.ID + " " + t.Title), Class: tag}
			st := told[t.ID.ID]
			if st != nil {
				c.seconds = st.seconds
			}
			switch t.State {
			case "done":
				c.Out = string(t.Grade)
			case "blocked":
				c.Failure = failureOf(st)
			default:
				c.Skipped = &junitWords{Message: terminal.Clean(st.state(t, s.Live))}
			}
			suite.Cases = append(suite.Cases, c)
		}
		suites = append(suites, suite)
	}
	if list := s.Run.State.Checks; len(list) > 0 {
		suites = append(suites, junitSuite{Name: tag + " checks", Cases: checkCases(tag, list)})
	}
	return suites
}

// checkCases are named checks as test cases: one fails that fails on the work as a whole.
func checkCases(tag string, list []journal.Tally) (cases []junitCase) {
	for _, t := range list {
		c := junitCase{Name: terminal.Clean("check " + t.Check), Class: tag, seconds: t.Seconds, Out: fmt.Sprintf("%s, %d failed, %d flaky", terminal.Count(t.Runs, "run"), t.Failed, t.Flaky)}
		if t.Fails != "" {
			c.Failure = &junitWords{Message: terminal.Clean(t.Fails)}
		}
		cases = append(cases, c)
	}
	return cases
}

// state is how a task stands: nothing runs in a loop that nobody runs. st is nil where the journal does not mention it.
func (st *story) state(t Task, live bool) string {
	switch {
	case t.State == "done":
		return t.done()
	case t.State == "blocked" && st != nil && st.blocked != nil:
		return t.State + ": " + st.blocked.Reason
	case (t.State == "ready" || t.State == "waiting" || t.State == "running") && st != nil && st.last != nil && st.last.Verdict != journal.Verified:
		how := string(st.last.Verdict) + ": " + st.last.Reason
		if st.last.Verdict == journal.Cancelled {
			how = "interrupted"
		}
		return fmt.Sprintf("attempt %d %s, not finished", st.last.Number, how)
	}
	if t.State == "running" && !live {
		return "interrupted, not finished"
	}
	return strings.TrimSuffix(t.State+": "+t.Cause, ": ")
}

func failureOf(st *story) *junitWords {
	w := &junitWords{Message: "blocked before this loop"}
	if st == nil || st.blocked == nil {
		return w
	}
	w.Message = terminal.Clean(st.blocked.Reason)
	if f := st.failure; f != nil && f.Result != nil {
		w.Text = terminal.CleanLines(strings.TrimSpace(f.Result.Output + "\n" + f.Result.Words))
	}
	return w
}
