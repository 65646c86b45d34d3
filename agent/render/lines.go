package render

import (
	"fmt"
	"strings"

	"descartes/internal/terminal"
)

// resultLines is how many lines of a result are shown: its end says how a command went.
const resultLines = 5

// Lines lays an item out for a person, wrapped at words to a width in columns; 0 leaves texts as they are, and cuts
// one-line items to a length that can be read at a glance.
func (i Item) Lines(width int) []string {
	indent := ""
	if i.Inner {
		indent = "    "
	}
	room := 0
	fit := 160
	if width > 0 {
		room = max(20, width-len(indent))
		fit = room
	}
	var out []string
	switch i.Kind {
	case Thought:
		out = []string{terminal.FitWords("… "+firstLine(i.Text), fit)}
	case Call:
		out = []string{terminal.FitWords(strings.TrimRight("• "+i.Tool+" "+firstLine(i.Text), " "), fit)}
	case Result:
		out = resultOf(i, fit)
	case Note:
		for n, l := range terminal.Wrap(i.Text, max(0, room-2)) {
			out = append(out, map[bool]string{true: "– ", false: "  "}[n == 0]+l)
		}
	case Text, Command, Output:
		out = terminal.Wrap(i.Text, room)
	}
	for n := range out {
		out[n] = strings.TrimRight(indent+out[n], " ")
	}
	return out
}

// resultOf is the end of a result, below its call.
func resultOf(i Item, fit int) (out []string) {
	var lines []string
	for l := range strings.SplitSeq(i.Text, "\n") {
		if strings.TrimSpace(l) != "" {
			lines = append(lines, l)
		}
	}
	if i.Failed && len(lines) == 0 {
		lines = []string{"failed"}
	}
	if i.Failed && len(lines) <= 2 {
		lines = terminal.Wrap(strings.Join(lines, "\n"), fit-2)
	}
	if more := len(lines) - resultLines; more > 1 {
		head := fmt.Sprintf("  … %d lines", more)
		if strings.HasPrefix(lines[0], "Exit code ") {
			head = fmt.Sprintf("  %s … %d lines", lines[0], more-1)
		}
		out, lines = append(out, head), lines[more:]
	}
	for _, l := range lines {
		out = append(out, "  "+terminal.Fit(l, fit-2))
	}
	return out
}

// firstLine is the first line of a text that says something, with a mark where others follow.
func firstLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for n, l := range lines {
		if l = strings.TrimSpace(strings.Trim(l, "* #")); l != "" {
			if n+1 < len(lines) {
				l += " …"
			}
			return l
		}
	}
	return ""
}
