package print

import (
	"encoding/xml"
	"fmt"
	"strings"
	"unicode"

	"descartes/internal/lazyregexp"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// iteration is one of a prompt loop with all its runs: one that failed may have been run again under its number.
type iteration struct {
	*view.Attempt // the last
	Runs          int
	Cost          journal.Cost
	State         string
	Tail          *view.Fact

	seconds float64
}

// Time is how long its runs took.
func (it *iteration) Time() string {
	if !it.Over() {
		return "–"
	}
	return seconds(it.seconds)
}

func iterations(l *view.Loop) (out []*iteration) {
	for _, a := range l.Iterations {
		if n := len(out); n == 0 || out[n-1].Iteration != a.Iteration {
			out = append(out, &iteration{})
		}
		it := out[len(out)-1]
		it.Attempt, it.Runs, it.seconds, it.Cost, it.State = a, it.Runs+1, it.seconds+a.Seconds(),
			it.Cost.Plus(a.Attempt.Cost), l.Story(a)
	}
	return out
}

type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Time     string   `xml:"time,attr"`
	Suites   []suite  `xml:"testsuite"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type suite struct {
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Errors   int        `xml:"errors,attr"`
	Time     string     `xml:"time,attr"`
	Props    []property `xml:"properties>property"`
	Cases    []testcase `xml:"testcase"`
}

type testcase struct {
	Name    string `xml:"name,attr"`
	Class   string `xml:"classname,attr"`
	Time    string `xml:"time,attr"`
	Failure *words `xml:"failure,omitempty"`
	Skipped *words `xml:"skipped,omitempty"`
	Out     string `xml:"system-out,omitempty"`

	seconds float64
}

type words struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit is a run as a test report: a suite per wave and a case per task, or a case per iteration; and one of the run's
// end, if the others do not say it all. It keeps to the schema of Jenkins' xUnit plugin (junit-10.xsd), which allows
// less than others do.
func JUnit(l *view.Loop) []byte {
	name, end := terminal.Clean(l.Name()), &words{Message: terminal.Clean(l.Ending())}
	all := suites{Name: name}
	if l.Prompt() {
		all.Suites = []suite{{Name: name, Cases: iterationCases(l, end)}}
	} else {
		all.Suites = waveSuites(l, name)
		if l.Broke() || l.Board == nil { // without its list nothing else says how it ended
			if l.Run.Outcome.Ending == journal.BaselineFails {
				end.Text = terminal.CleanLines(strings.TrimSpace(l.Run.History.BaselineOutput))
			}
			all.Suites = append(all.Suites, suite{Name: name + " run",
				Cases: []testcase{{Name: "end of the run", Class: name, Failure: end}}})
		}
	}
	var props []property
	for _, p := range append(append([]view.Fact{{Name: "loop", Text: l.ID}, {Name: "ended", Text: l.Ending()}},
		l.Facts()...), view.Fact{Name: "next", Text: l.Next().OneLine("")}) {
		props = append(props, property{p.Name, terminal.Clean(p.Text)})
	}
	return all.encode(props)
}

// encode is the report, with its sums and the properties of each suite.
func (all *suites) encode(props []property) []byte {
	time := func(n float64) string { return fmt.Sprintf("%.3f", n) }
	total := 0.0
	for i := range all.Suites {
		s, sum := &all.Suites[i], 0.0
		s.Props, s.Tests = props, len(s.Cases)
		for k := range s.Cases {
			c := &s.Cases[k]
			c.Time, sum = time(c.seconds), sum+c.seconds
			if c.Failure != nil {
				s.Failures++
			}
			if c.Skipped != nil {
				s.Skipped++
			}
		}
		s.Time, total = time(sum), total+sum
		all.Tests, all.Failures = all.Tests+s.Tests, all.Failures+s.Failures
	}
	all.Time = time(total)
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil { // these types hold nothing that XML cannot
		panic(err)
	}
	return append(append([]byte(xml.Header), b...), '\n')
}

// waveSuites are tasks as test cases, and named checks: one fails that fails on the work as a whole.
func waveSuites(l *view.Loop, tag string) (out []suite) {
	for _, w := range l.Waves {
		one := suite{Name: fmt.Sprintf("%s wave %d", tag, w.Number)}
		for i := range w.Tasks {
			t := &w.Tasks[i]
			c := testcase{Name: terminal.Clean(t.ID.ID + " " + t.Title), Class: tag, seconds: t.Took().Seconds()}
			_, failed := t.Ended()
			switch {
			case t.State == "done":
				c.Out = string(t.Grade)
			case t.State == "blocked" && t.Blocked == nil:
				c.Failure = &words{Message: "blocked before this run"}
			case t.State == "blocked":
				c.Failure = &words{Message: terminal.Clean(t.Blocked.Reason)}
				if t.Stand == view.Asks {
					c.Failure.Message = terminal.Clean(t.Story())
				}
				if failed != nil {
					c.Failure.Text = failed.Output()
				}
			default:
				c.Skipped = &words{Message: terminal.Clean(t.Story())}
			}
			one.Cases = append(one.Cases, c)
		}
		out = append(out, one)
	}
	if len(l.Checks) > 0 {
		one := suite{Name: tag + " checks"}
		for _, t := range l.Checks {
			c := testcase{Name: terminal.Clean("check " + t.Check), Class: tag, seconds: t.Seconds,
				Out: fmt.Sprintf("%s, %d failed, %d flaky", terminal.Count(t.Runs, "run"), t.Failed, t.Flaky)}
			if t.Fails != "" {
				c.Failure = &words{Message: terminal.Clean(t.Fails)}
			}
			one.Cases = append(one.Cases, c)
		}
		out = append(out, one)
	}
	return out
}

// iterationCases are iterations as test cases. One that failed fails only if the loop ended with it: else a later one
// went on from what it had left, and the end of the loop says what came of that.
func iterationCases(l *view.Loop, end *words) (cases []testcase) {
	list, class, over := iterations(l), terminal.Clean(l.Kind), l.Run.Outcome.Ending.Final() && !l.Run.Live
	for i, it := range list {
		c, state, last := testcase{Name: it.Subject(), Class: class, seconds: it.seconds}, terminal.Clean(it.State),
			i == len(list)-1
		switch {
		case it.Failed() && last && !l.Run.Live && !over:
			c.Failure = &words{Message: state, Text: it.Output()}
		case it.Failed() && !last:
			c.Skipped = &words{Message: state + "; " + list[i+1].Subject() + " went on from there"}
		case it.Failed() || !it.Over() || it.Verdict.Unjudged():
			c.Skipped = &words{Message: state}
		default:
			c.Out = strings.TrimSpace(state + "\n" + it.Output())
		}
		cases = append(cases, c)
	}
	c := testcase{Name: "end of the run", Class: class}
	switch {
	case over && l.Unpushed == "":
		c.Out = end.Message
	case l.Broke():
		c.Failure = end
	default:
		c.Skipped = end
	}
	return append(cases, c)
}

// markdown is a run as its Markdown layout takes it.
type markdown struct {
	*view.Loop
	Graph    string
	Iterated []*iteration
	Waves    []wave
}

type wave struct {
	*view.Wave
	Tasks []task
}

// task is one with the end of what its last failed attempt printed.
type task struct {
	*view.Task
	Tail *view.Fact
}

// Markdown is a run as a page for a job's summary.
func Markdown(l *view.Loop) []byte {
	const drawn = 150 // tasks up to which a page has their graph: those that show it draw no larger ones
	m := markdown{Loop: l, Iterated: iterations(l)}
	if l.Board != nil && l.Tasks.Total <= drawn {
		m.Graph = Mermaid(l.Board) + colours(l)
	}
	for _, w := range l.Waves {
		one := wave{Wave: w}
		for i := range w.Tasks {
			t := task{Task: &w.Tasks[i]}
			if _, failed := t.Ended(); failed != nil && t.State != "done" && failed.Output() != "" {
				t.Tail = &view.Fact{Name: fmt.Sprintf("%s %s, attempt %d: %s", t.ID.ID, t.Title, failed.Number,
					failed.Reason), Text: failed.Output()}
			}
			one.Tasks = append(one.Tasks, t)
		}
		m.Waves = append(m.Waves, one)
	}
	for i, it := range m.Iterated {
		if out := it.Output(); out != "" && (it.Failed() || i == len(m.Iterated)-1) {
			it.Tail = &view.Fact{Name: it.Subject() + ": " + it.State, Text: out}
		}
	}
	return []byte(draw("markdown", m))
}

// Baseline is what verify printed before any task, if the run ended with that.
func (m markdown) Baseline() string {
	if m.Run.Outcome.Ending != journal.BaselineFails {
		return ""
	}
	return strings.TrimSpace(m.Run.History.BaselineOutput)
}

// colours are those of the states that the graph shows.
func colours(l *view.Loop) (out string) {
	seen := map[string]bool{}
	for _, w := range l.Waves {
		for _, t := range w.Tasks {
			seen[t.Class()] = true
		}
	}
	for _, c := range [][2]string{{"done", "fill:#d5f0d5,stroke:#2a7d2a"}, {"blocked", "fill:#f8d0d0,stroke:#a02020"},
		{"asks", "fill:#fbf3b0,stroke:#8a6d1a"}, {"held", "fill:#f6e6c0,stroke:#8a6d1a"}, {"running", "fill:#d3e4f8,stroke:#1f5fa8"}} {
		if seen[c[0]] {
			out += "  classDef " + c[0] + " " + c[1] + ",color:#000\n"
		}
	}
	return out
}

// folded is the end of a text that opens when somebody asks for it.
func folded(heading, body string) string {
	const most = 15 // lines
	lines := strings.Split(terminal.CleanLines(body), "\n")
	fence := "```"
	for strings.Contains(body, fence) {
		fence += "`"
	}
	return fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s\n%s\n%s\n\n</details>\n",
		strings.ReplaceAll(withoutMentions(heading), "[", "&#91;"), fence,
		strings.Join(lines[max(0, len(lines)-most):], "\n"), fence)
}

// md is foreign text as text of Markdown, in a table too: no link, image, emphasis or HTML, and nothing that a forge
// acts on. Underscores inside words, and brackets that begin no link, stay as they are.
func md(s string) string {
	var b strings.Builder
	runes := []rune(withoutMentions(s))
	word := func(at int) bool {
		return 0 <= at && at < len(runes) && (unicode.IsLetter(runes[at]) || unicode.IsDigit(runes[at]))
	}
	for at, r := range runes {
		link := r == ']' && at+1 < len(runes) && (runes[at+1] == '(' || runes[at+1] == '[')
		if link || strings.ContainsRune(`\*|~`, r) || r == '_' && !(word(at-1) && word(at+1)) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// withoutMentions is foreign text as text of HTML that calls nobody and closes nothing: a forge that shows it notifies
// @name, and closes the issue in "closes #1", "fixes owner/name#1", "resolves GH-1" and
// "closes https://forge/name/issues/1". A character without width goes between.
func withoutMentions(s string) string {
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'").Replace(terminal.Clean(s))
	return called.ReplaceAllString(linked.ReplaceAllString(s, "$1\u200b$2"), "$1\u200b$2")
}

// linked is what a forge makes a link of where nothing else does.
var linked = lazyregexp.New(`(?i)\b(https?|ftp|mailto|www)([:.])`)

var called = lazyregexp.New(`(@|#|\bGH-|\b(?:issues|pull|merge_requests|work_items)/)(\w)`)
