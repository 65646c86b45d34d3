package print

import (
	"fmt"
	"strings"

	"descartes/internal/terminal"
	"descartes/verify/judge"
)

// Gated is a commit with what the gate says of it.
type Gated struct {
	Commit   string          `json:"commit"` // of a whole range its end
	Base     string          `json:"base"`   // what it was held against
	Subject  string          `json:"subject"`
	Verdict  string          `json:"verdict"` // passes, named, refused
	Says     string          `json:"says"`    // its tests in a line
	Facts    judge.Facts     `json:"tests"`
	Findings []judge.Finding `json:"findings"`
	Seconds  float64         `json:"seconds"`      // of the checks on it
	More     float64         `json:"more_seconds"` // of all runs besides: baseline, old tests
}

// The words for what a commit came to.
const (
	Passes  = "passes"
	Named   = "named"
	Refused = "refused"
)

// GateLine is a commit in a line, and below it what is said of it.
func GateLine(g *Gated) string {
	p := &text{}
	p.say("%s", strings.Join(terminal.Hang(fmt.Sprintf("%.12s %s: %s (%s)", g.Commit, g.Verdict,
		terminal.Clean(g.Subject), g.Says), width, 2), "\n"))
	for _, f := range g.Findings {
		word := "note"
		if f.Refuses {
			word = "refused"
		}
		p.say("%s", strings.Join(terminal.Hang("  "+word+": "+terminal.Clean(f.String()), width, 4), "\n"))
	}
	return p.String()
}

// GateEnd counts the verdicts.
func GateEnd(list []Gated) string {
	n := map[string]int{}
	for i := range list {
		n[list[i].Verdict]++
	}
	s := fmt.Sprintf("\n%s: %d refused", terminal.Count(len(list), "commit"), n[Refused])
	if x := n[Named]; x > 0 {
		s += fmt.Sprintf(", %d to look at", x)
	}
	return s + "\n"
}

// GateMarkdown is the verdicts as a comment on a pull request.
func GateMarkdown(list []Gated) string {
	var b strings.Builder
	b.WriteString("### descartes gate\n\n| commit | verdict | tests |\n|---|---|---|\n")
	for i := range list {
		g := &list[i]
		fmt.Fprintf(&b, "| `%.12s` %s | %s | %s |\n", g.Commit, cell(g.Subject), mark[g.Verdict], cell(g.Says))
	}
	for i := range list {
		g := &list[i]
		if len(g.Findings) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n**%.12s** %s\n\n", g.Commit, cell(g.Subject))
		for _, f := range g.Findings {
			word := "look at"
			if f.Refuses {
				word = "**refused**"
			}
			at := ""
			if f.Path != "" {
				if at = "`" + code(f.Path); f.Line > 0 {
					at += fmt.Sprintf(":%d", f.Line)
				}
				at += "`: "
			}
			fmt.Fprintf(&b, "- %s: %s%s\n", word, at, cell(f.Text))
			if f.Old+f.New != "" {
				b.WriteString("\n  ```diff\n")
				for _, l := range [][2]string{{"-", f.Old}, {"+", f.New}} {
					if l[1] != "" {
						b.WriteString("  " + l[0] + " " + strings.ReplaceAll(terminal.Clean(l[1]), "```", "'''") + "\n")
					}
				}
				b.WriteString("  ```\n")
			}
		}
	}
	return b.String()
}

var mark = map[string]string{Passes: "passes", Named: "passes, look at it", Refused: "**refused**"}

// cell is a text that ends no cell of a table, mentions nobody and starts nothing in Markdown.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "@", "@\u200b", "<", "&lt;", "`", "'", "*", "\\*", "_", "\\_",
		"[", "\\[").Replace(terminal.Clean(s))
}

func code(s string) string { return strings.ReplaceAll(terminal.Clean(s), "`", "'") }

// GateJUnit is the verdicts as a test report: a case for each commit.
func GateJUnit(list []Gated) []byte {
	one := suite{Name: "gate"}
	for i := range list {
		g := &list[i]
		c := testcase{Name: terminal.Clean(fmt.Sprintf("%.12s %s", g.Commit, g.Subject)), Class: "gate", seconds: g.Seconds + g.More}
		if said := terminal.CleanLines(GateLine(g)); g.Verdict == Refused {
			c.Failure = &words{Message: terminal.Clean(g.Findings[0].String()), Text: said}
		} else {
			c.Out = said
		}
		one.Cases = append(one.Cases, c)
	}
	return (&suites{Name: "gate", Suites: []suite{one}}).encode(nil)
}
