package print

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// iteration is one of a prompt loop with all its runs: one that failed may have been run again under its number.
type iteration struct {
	*view.Attempt // the last
	runs          int
	seconds       float64
	cost          journal.Cost
}

func iterations(l *view.Loop) (out []*iteration) {
	for _, a := range l.Iterations {
		if n := len(out); n == 0 || out[n-1].Iteration != a.Iteration {
			out = append(out, &iteration{})
		}
		it := out[len(out)-1]
		it.Attempt, it.runs, it.seconds, it.cost = a, it.runs+1, it.seconds+a.Seconds(), it.cost.Plus(a.Attempt.Cost)
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

// JUnit is a run as a test report: a suite per wave and a case per task, or a case per iteration; and one of the run's end, if the others do not say it
// all. It keeps to the schema of Jenkins' xUnit plugin (junit-10.xsd), which allows less than others do.
func JUnit(l *view.Loop) []byte {
	name, end := terminal.Clean(l.Name()), &words{Message: terminal.Clean(l.Ending())}
	all := suites{Name: name}
	if l.Prompt() {
		all.Suites = []suite{{Name: name, Cases: iterationCases(l, end)}}
	} else {
		all.Suites = waveSuites(l, name)
		if l.Broke() {
			if l.Run.Outcome.Ending == journal.BaselineFails {
				end.Text = terminal.CleanLines(strings.TrimSpace(l.Run.History.BaselineOutput))
			}
			all.Suites = append(all.Suites, suite{Name: name + " run", Cases: []testcase{{Name: "end of the loop", Class: name, Failure: end}}})
		}
	}
	var props []property
	for _, p := range []property{{"loop", l.ID}, {"ended", l.Ending()}, {"cost", l.Run.State.Cost.Text()}, {"sandbox", l.Sandbox}, {"not pushed", l.Unpushed}, {"next", l.Next().OneLine("")}} {
		if p.Value != "" {
			props = append(props, property{p.Name, terminal.Clean(p.Value)})
		}
	}
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
				c.Failure = &words{Message: "blocked before this loop"}
			case t.State == "blocked":
				c.Failure = &words{Message: terminal.Clean(t.Blocked.Reason)}
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
			c := testcase{Name: terminal.Clean("check " + t.Check), Class: tag, seconds: t.Seconds, Out: fmt.Sprintf("%s, %d failed, %d flaky", terminal.Count(t.Runs, "run"), t.Failed, t.Flaky)}
			if t.Fails != "" {
				c.Failure = &words{Message: terminal.Clean(t.Fails)}
			}
			one.Cases = append(one.Cases, c)
		}
		out = append(out, one)
	}
	return out
}

// iterationCases are iterations as test cases. One that failed fails only if the loop ended with it: else a later one went on from what it had left, and
// the end of the loop says what came of that.
func iterationCases(l *view.Loop, end *words) (cases []testcase) {
	list, class, over := iterations(l), terminal.Clean(l.Kind), l.Run.Outcome.Ending.Final() && !l.Run.Live
	for i, it := range list {
		c, state, last := testcase{Name: it.Subject(), Class: class, seconds: it.seconds}, terminal.Clean(l.Story(it.Attempt)), i == len(list)-1
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
	c := testcase{Name: "end of the loop", Class: class}
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

// Markdown is a run as a page for a job's summary.
func Markdown(l *view.Loop) []byte {
	t, r := &text{}, &l.Run
	t.say("# %s\n", md(l.Headline()))
	switch {
	case l.ID == "":
		t.WriteString("No loop ran: ")
	case r.Live, r.Killed():
		fmt.Fprintf(t, "Loop `%s` ", l.ID)
	default:
		fmt.Fprintf(t, "Loop `%s` ended: ", l.ID)
	}
	unit := fmt.Sprintf("Attempts: %d", l.Iteration)
	if n := r.History.Interrupted(); n > 0 {
		unit += fmt.Sprintf(", and %d interrupted", n)
	}
	if l.Prompt() {
		unit = fmt.Sprintf("Iterations: %d of %d", l.Iteration, l.MaxIteration)
	}
	t.say("%s. %s. Cost: %s. Sandbox: %s.", md(l.Ending()), unit, md(r.State.Cost.Text()), md(l.Sandbox))
	line := func(format, value string) {
		if value != "" {
			t.say(format, md(value))
		}
	}
	line("Agents: %s.", l.Mixed())
	if l.Gate != nil {
		t.say("")
		l.Gate.Rows(func(name, format string, args ...any) { t.say("- %s: %s", name, md(fmt.Sprintf(format, args...))) })
	}
	if text := strings.TrimSpace(r.History.BaselineOutput); r.Outcome.Ending == journal.BaselineFails && text != "" {
		t.folded("What verify printed before any task", text)
	}
	t.iterationTable(l)
	t.waveTables(l)
	t.checksTable(l)
	line("\nNot committed: %s.", l.Uncommitted())
	for i, text := range l.Notices() {
		if i == 0 {
			t.say("\nLook at:\n")
		}
		line("- %s", text)
	}
	if l.Unpushed != "" {
		t.say("\nNot pushed: the work is only where the loop ran; there: `%s`", strings.ReplaceAll(terminal.Clean(l.Unpushed), "`", ""))
	}
	t.say("\nNext: %s", l.Next().OneLine("`"))
	return []byte(t.String())
}

// columns are a table's: those whose name is "" are left out of each line.
func (t *text) columns(names ...string) func(values ...string) {
	line := func(values []string) {
		for i, v := range values {
			if names[i] != "" {
				t.WriteString("| " + v + " ")
			}
		}
		t.say("|")
	}
	t.say("")
	line(names)
	for _, name := range names {
		if name != "" {
			t.WriteString("|---")
		}
	}
	t.say("|")
	return func(values ...string) { line(values) }
}

// only is a name if there is something of it.
func only(there bool, name string) string {
	if there {
		return name
	}
	return ""
}

// iterationTable is the iterations, and folded the end of what the failed ones printed, and of what the last one said.
func (t *text) iterationTable(l *view.Loop) {
	list := iterations(l)
	if len(list) == 0 {
		return
	}
	tails, commits, priced := &text{}, false, false
	for _, it := range list {
		commits, priced = commits || it.Attempt.Attempt.Commit != "", priced || it.cost.USD != nil
	}
	row := t.columns("Iteration", "State", "Runs", "Time", only(commits, "Commit"), only(priced, "Cost"))
	for i, it := range list {
		took := "–"
		if it.Over() {
			took = seconds(it.seconds)
		}
		row(fmt.Sprint(it.Iteration), md(l.Story(it.Attempt)), fmt.Sprint(it.runs), took, view.Short(it.Attempt.Attempt.Commit), it.cost.Dollars())
		if out := it.Output(); out != "" && (it.Failed() || i == len(list)-1) {
			tails.folded(it.Subject()+": "+l.Story(it.Attempt), out)
		}
	}
	t.WriteString(tails.String())
}

// waveTables are the graph of a tag, and its tasks wave by wave, with the end of what the last failed attempt at an unfinished one came to.
func (t *text) waveTables(l *view.Loop) {
	const drawn = 150 // tasks up to which a page has their graph: those that show it draw no larger ones
	if l.Board != nil && l.Tasks.Total <= drawn {
		t.say("\n```mermaid\n%s%s```", Mermaid(l.Board), colours(l))
	}
	for _, w := range l.Waves {
		commit := ""
		if w.Commit != nil {
			commit = " (" + view.Short(*w.Commit) + ")"
		}
		t.say("\n## Wave %d%s", w.Number, commit)
		tails := &text{}
		row := t.columns("Task", "Title", "State", "Attempts", "Time", only(w.Cost != nil && w.Cost.USD != nil, "Cost"))
		for i := range w.Tasks {
			one := &w.Tasks[i]
			last, failed := one.Ended()
			tried, took := "–", "–"
			if last != nil {
				tried, took = fmt.Sprint(one.Tried()), terminal.Duration(one.Took())
			}
			row(md(one.ID.ID), md(one.Title), md(one.Story()), tried, took, cmp.Or(one.Price, "unknown"))
			if failed != nil && failed.Result != nil && one.State != "done" {
				if out := cmp.Or(strings.TrimSpace(failed.Result.Output), strings.TrimSpace(failed.Result.Words)); out != "" {
					tails.folded(fmt.Sprintf("%s %s, attempt %d: %s", one.ID.ID, one.Title, failed.Number, failed.Reason), out)
				}
			}
		}
		t.WriteString(tails.String())
	}
}

// colours are those of the states that the graph shows.
func colours(l *view.Loop) (out string) {
	seen := map[string]bool{}
	for _, w := range l.Waves {
		for _, t := range w.Tasks {
			seen[t.State] = true
		}
	}
	for _, c := range [][2]string{{"done", "fill:#d5f0d5,stroke:#2a7d2a"}, {"blocked", "fill:#f8d0d0,stroke:#a02020"}, {"held", "fill:#f6e6c0,stroke:#8a6d1a"}, {"running", "fill:#d3e4f8,stroke:#1f5fa8"}} {
		if seen[c[0]] {
			out += "  classDef " + c[0] + " " + c[1] + ",color:#000\n"
		}
	}
	return out
}

// checksTable is what the runs of named checks came to, and what done does not say by itself.
func (t *text) checksTable(l *view.Loop) {
	if len(l.Checks) > 0 {
		t.say("\n## Checks")
		row := t.columns("Check", "Runs", "Failed", "Flaky", "Time")
		for _, c := range l.Checks {
			name := md(c.Check)
			if c.Fails != "" {
				name += ", fails on the work as a whole: " + md(c.Fails)
			}
			row(name, fmt.Sprint(c.Runs), fmt.Sprint(c.Failed), fmt.Sprint(c.Flaky), terminal.Duration(time.Duration(c.Seconds*float64(time.Second))))
		}
	}
	var lines []string
	if l.Board != nil {
		lines = l.Board.Graded()
	}
	for _, line := range l.Unsteady() {
		lines = append(lines, "flaky: "+line)
	}
	if names := unrun(l); len(names) > 0 {
		lines = append(lines, "not run: "+strings.Join(names, ", "))
	}
	for i, line := range lines {
		if i == 0 {
			t.say("")
		}
		t.say("- %s", md(line))
	}
}

// folded is the end of a text that opens when somebody asks for it.
func (t *text) folded(heading, body string) {
	const most = 15 // lines
	lines := strings.Split(terminal.CleanLines(body), "\n")
	lines = lines[max(0, len(lines)-most):]
	fence := "```"
	for strings.Contains(body, fence) {
		fence += "`"
	}
	t.say("\n<details><summary>%s</summary>\n\n%s\n%s\n%s\n\n</details>", md(heading), fence, strings.Join(lines, "\n"), fence)
}

// md makes foreign text harmless in a table of Markdown.
func md(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'").Replace(terminal.Clean(s))
}
