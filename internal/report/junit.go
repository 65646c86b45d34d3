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
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Props    []junitProp  `xml:"properties>property"`
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
	Time     string      `xml:"time,attr"`
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

// JUnit is a run as a test report: a suite per wave, a case per task.
func JUnit(s *Summary, h *journal.State) []byte {
	told := stories(h)
	all := junitSuites{Name: s.File.Tag(), Props: []junitProp{{"sandbox", terminal.Clean(Sandbox(s.Run.State.Config))}}}
	total := 0.0
	for _, w := range s.Waves() {
		suite := junitSuite{Name: fmt.Sprintf("%s wave %d", s.File.Tag(), w.Number)}
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
				c.Skipped = &junitWords{Message: terminal.Clean(st.state(t))}
			}
			suite.Cases = append(suite.Cases, c)
		}
		suite.Time = fmt.Sprintf("%.3f", sum)
		total += sum
		all.Tests, all.Failures, all.Skipped = all.Tests+suite.Tests, all.Failures+suite.Failures, all.Skipped+suite.Skipped
		all.Suites = append(all.Suites, suite)
	}
	all.Time = fmt.Sprintf("%.3f", total)
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil { // these types hold nothing that XML cannot
		panic(err)
	}
	return append(append([]byte(xml.Header), b...), '\n')
}

// state is how a task stands at the end of a run. st is nil where the journal does not mention it.
func (st *story) state(t Task) string {
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

// Markdown is a run as a page for a job's summary.
func Markdown(s *Summary, h *journal.State) []byte {
	told := stories(h)
	c := s.Graph.Counts()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %d of %s done\n\n", mdText(s.File.Tag()), c.Done, terminal.Count(c.Total, "task"))
	who := "No loop ran"
	if s.Run.ID != "" {
		who = fmt.Sprintf("Loop `%s` ended", s.Run.ID)
	}
	fmt.Fprintf(&b, "%s: %s", who, strings.ReplaceAll(string(s.Run.Outcome.Ending), "_", " "))
	if m := s.Run.Outcome.Message; m != "" {
		fmt.Fprintf(&b, " (%s)", mdText(m))
	}
	fmt.Fprintf(&b, ". Attempts: %d. Cost: %s. Sandbox: %s.\n", s.Run.State.Iteration, mdText(s.Run.State.Cost.Text()), mdText(Sandbox(s.Run.State.Config)))
	if text := s.Run.Chains.String(); text != "" {
		fmt.Fprintf(&b, "Chains: %s.\n", mdText(text))
	}
	if used := agentsText(s.Run.State.Agents); used != "" {
		fmt.Fprintf(&b, "Agents: %s.\n", mdText(used))
	}
	commits := s.committed()
	for _, w := range s.Waves() {
		fmt.Fprintf(&b, "\n## Wave %d", w.Number)
		if hash := commits[w.Number]; hash != "" {
			fmt.Fprintf(&b, " (%s)", Short(hash))
		}
		priced := s.Run.Costs.Waves[w.Number].USD != nil
		b.WriteString("\n\n| Task | Title | State | Attempts | Time |")
		b.WriteString(column(priced, " Cost |") + "\n|---|---|---|---|---|" + column(priced, "---|") + "\n")
		for _, t := range w.Tasks {
			st := told[t.ID.ID]
			if st == nil {
				st = &story{}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %.1fs |%s\n", mdText(t.ID.ID), mdText(t.Title), mdText(st.state(t)), st.attempts, st.seconds,
				column(priced, " "+s.Run.Costs.Tasks[t.ID.ID].Dollars()+" |"))
		}
	}
	fmt.Fprintf(&b, "\nNext: `%s`\n", strings.ReplaceAll(s.command(), "`", ""))
	return []byte(b.String())
}

// mdText makes foreign text harmless in a table of Markdown.
func mdText(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'").Replace(terminal.Clean(s))
}

// column is the part of a line that only a table with that column has.
func column(there bool, text string) string {
	if there {
		return text
	}
	return ""
}
