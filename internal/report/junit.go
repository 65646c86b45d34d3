package report

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
	for i := range h.Blocked {
		of(h.Blocked[i].Task).blocked = &h.Blocked[i]
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
}

type junitCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	Time    string      `xml:"time,attr"`
	Failure *junitWords `xml:"failure,omitempty"`
	Skipped *junitWords `xml:"skipped,omitempty"`
}

type junitWords struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit is a run as a test report: a suite per wave, a case per task. It keeps to the schema of Jenkins' xUnit plugin
// (junit-10.xsd), which allows less than others do.
func JUnit(s *Summary, h *journal.State) []byte {
	told := stories(h)
	all := junitSuites{Name: s.File.Tag()}
	props := []junitProp{{"loop", s.Run.ID}, {"sandbox", terminal.Clean(Sandbox(s.Run.State.Config))}}
	total := 0.0
	for _, w := range s.Waves() {
		suite := junitSuite{Name: fmt.Sprintf("%s wave %d", s.File.Tag(), w.Number), Props: props}
		sum := 0.0
		for _, t := range w.Tasks {
			c := junitCase{Name: terminal.Clean(t.ID.ID + " " + t.Title), Class: terminal.Clean(s.File.Tag())}
			st := told[t.ID.ID]
			if st != nil {
				sum += st.seconds
				c.Time = fmt.Sprintf("%.3f", st.seconds)
			} else {
				c.Time = "0.000"
			}
			suite.Tests++
			switch t.State {
			case "done":
			case "blocked":
				suite.Failures++
				c.Failure = failureOf(st)
			default:
				suite.Skipped++
				c.Skipped = &junitWords{Message: terminal.Clean(st.state(t, s.Live))}
			}
			suite.Cases = append(suite.Cases, c)
		}
		suite.Time = fmt.Sprintf("%.3f", sum)
		total += sum
		all.Tests, all.Failures = all.Tests+suite.Tests, all.Failures+suite.Failures
		all.Suites = append(all.Suites, suite)
	}
	all.Time = fmt.Sprintf("%.3f", total)
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil { // these types hold nothing that XML cannot
		panic(err)
	}
	return append(append([]byte(xml.Header), b...), '\n')
}

// state is how a task stands: nothing runs in a loop that nobody runs. st is nil where the journal does not mention it.
func (st *story) state(t Task, live bool) string {
	switch {
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
