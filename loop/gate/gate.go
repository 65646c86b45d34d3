// Package gate decides when a loop that repeats one prompt has come to its end: by a promise, by a
// status block that is held against what can be checked, or by criteria. It is a function of what an
// iteration left behind: it runs nothing, reads no file and knows no clock.
//
// A gate is a value. Decide takes the facts of each iteration, in order, and changes only the gate's
// own exported fields, which encode to JSON and back: a loop that is resumed gives the gate its saved
// fields and continues with the same counts. Asking a gate twice about one iteration counts it twice.
package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
	"descartes/internal/promise"
)

// Kind is what a gate asks its loop to do.
//
//	Continue -> Continue | Done | Blocked | Open | Ask
//	Ask      -> (a person says yes) Continue, or Done where the question was G3
//	Open     -> (a cooldown, or a person) Continue
type Kind string

// The kinds.
const (
	Continue Kind = "continue" // run the next iteration
	Done     Kind = "done"     // everything that was asked for is there
	Blocked  Kind = "blocked"  // the agent cannot go on; a person is needed
	Open     Kind = "open"     // a circuit breaker has opened
	Ask      Kind = "ask"      // a person must answer Decision.Question first
)

// Facts are what one iteration left behind.
type Facts struct {
	Iteration int    // from 1
	Final     string // the agent's final message
	Err       string // why the iteration failed, "" if it did not: crash, timeout, git
	Changed   []string
	Unwatched bool   // Changed is not known: an iteration without an error counts as progress
	Verify    *Check // nil: there is no verify command, or it did not run
	Before    *Plan  // IMPLEMENTATION_PLAN.md before the iteration; nil: there was none
	After     *Plan  // and after it

	Edits       map[string]int // file to number of edits, where the agent's stream tells
	OutputBytes int64
	CostUSD     *float64 // of the whole loop so far; nil where unknown
	Checks      []Check  // results of the commands that Criteria.Commands asked for
	State       []byte   // .loop/state.json as the iteration left it; nil where there is none
	Now         time.Time
}

// Check is the result of one command.
type Check struct {
	Name   string `json:"name,omitempty"` // the text of the criterion or mustNot condition that it is bound to
	Passed bool   `json:"passed"`         // exit status 0
	Output string `json:"output,omitempty"`
	Why    string `json:"-"` // the line of the output that says why it failed; "" where none is known

	Objects string `json:"-"` // of what looked at work that passed, and objects: why
}

// failure says what a check that did not pass came to.
func (c *Check) failure() string { return cmp.Or(c.Objects, "verify fails") }

// Decision is what a gate makes of an iteration.
type Decision struct {
	Kind     Kind
	Reason   string    // in words, for people; never empty
	Until    time.Time // Open: when the breaker lets one iteration try again; zero: only a person can say
	Breaker  string    // Open: which breaker, one of the Breaker constants; "" of Status
	Question string    // Ask, and Open where going on is offered: what the person is asked
	Gate     string    // Ask: which gate asks: G1, G2, G3 or precheck
	Warnings []string
	Prompt   string   // what the next iteration's prompt says beside Instructions
	Show     []string // lines for people, at the end of the iteration
}

func (d *Decision) warn(format string, args ...any) {
	d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...))
}

// Promise is the gate that looks for one promise in the final message.
type Promise struct {
	Word string `json:"word"`
}

// Decide says Done where the promise was made by an iteration that did not fail.
func (p *Promise) Decide(f Facts) Decision {
	switch made := Promised(f.Final, p.Word); {
	case made && f.Err == "":
		return Decision{Kind: Done, Reason: fmt.Sprintf("the final message has the promise %q", p.Word)}
	case made:
		return Decision{Kind: Continue, Reason: fmt.Sprintf("the promise %q does not count, because the iteration failed: %s", p.Word, f.Err)}
	}
	return Decision{Kind: Continue, Reason: fmt.Sprintf("the final message does not have the promise %q", p.Word)}
}

// Instructions says how to promise.
func (p *Promise) Instructions() string {
	return "When the task is completely finished, and only then, end your final message with this line:\n\n<promise>" + promise.Word(p.Word) + "</promise>\n"
}

// count writes a number with its noun: "1 item", "2 items".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list writes up to limit quoted texts.
func list(texts []string, limit int) string {
	var b strings.Builder
	for i, t := range texts {
		if i == limit {
			fmt.Fprintf(&b, " and %d more", len(texts)-limit)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", oneline.Clip(t, 120))
	}
	return b.String()
}

// Promised reports whether an agent's final message makes the promise word, as package promise says.
func Promised(final, word string) bool { return promise.Made(promise.Lines(final), word) >= 0 }

// document is a text as Markdown; one that is too large for that has no lines.
func document(text string) *markdown.Document {
	doc, err := markdown.Parse(text)
	if err != nil {
		return &markdown.Document{}
	}
	return doc
}

var listMark = lazyregexp.New(`^\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[.?\]\s+)?`)

// entry is the text of a line that is an entry of a list, without its box.
func entry(line string) (text string, ok bool) {
	mark := listMark.FindString(line)
	return strings.TrimSpace(line[len(mark):]), mark != ""
}

// bare takes quote marks off the start of a line, and emphasis and blanks off both ends.
func bare(line string) string {
	return strings.TrimRight(strings.TrimLeft(line, " \t\r>*_`"), " \t\r*_`")
}

// words are a text's words in lower case, letters and digits.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// squeeze makes every run of blanks one space.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// oneLine is a text's words on one line, shortened.
func oneLine(text string, n int) string { return oneline.Clip(squeeze(text), n) }

// signatureLimit bounds how much of an error is compared.
const signatureLimit = 4 << 10

var (
	tempPath  = lazyregexp.New(`(?i)\S*(?:[/\\]tmp|\btmp[/\\]|[/\\]var[/\\]folders[/\\]|[/\\]temp[/\\])\S*`)
	folders   = lazyregexp.New(`\S*[/\\](\S)`)
	hash      = lazyregexp.New(`\b0[xX][0-9a-fA-F]+\b|\b[0-9a-fA-F]{6,}\b`)
	figures   = lazyregexp.New(`(?:\d+(?:[.,:]\d+)*(?:[nuµμm]?s|[mhdtTZ]|[kmgKMG]?[bB])?)+`)
	figureRow = lazyregexp.New(`#[T#]*#`)
)

// Signature is an error without what differs from run to run: numbers, times, addresses, hashes and
// paths of temporary files are taken out, of other paths the directories. Two errors are the same if
// their signatures are.
func Signature(text string) string {
	text = squeeze(oneline.Clip(strings.ToValidUTF8(text, ""), signatureLimit))
	text = tempPath.ReplaceAllString(text, "<path>")
	text = folders.ReplaceAllString(text, "<path>$1")
	text = hash.ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "0123456789") {
			return "#"
		}
		return s
	})
	text = figures.ReplaceAllString(text, "#")
	return oneline.Clip(figureRow.ReplaceAllString(text, "#"), signatureLimit)
}

// failure is the signature of what went wrong in an iteration, and the line that shows it; both are ""
// where nothing did. Of a failed verification the lines that speak of an error count, or else the last.
func failure(f Facts) (signature, shown string) {
	if f.Err != "" {
		return "iteration: " + Signature(f.Err), oneLine(f.Err, 300)
	}
	if f.Verify == nil || f.Verify.Passed {
		return "", ""
	}
	return Failed(f.Verify.Output)
}

// Failed is the signature of what a failed verification printed, and the line that shows it.
func Failed(output string) (signature, shown string) {
	lines := errorLine.FindAllString(output, 30)
	if len(lines) == 0 {
		lines = strings.FieldsFunc(output, func(r rune) bool { return r == '\n' })
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
		lines = lines[max(0, len(lines)-5):]
	}
	if len(lines) == 0 {
		return "verify: no output", "verify failed without any output"
	}
	return "verify: " + Signature(strings.Join(lines, "\n")), oneLine(lines[0], 300)
}

var errorLine = lazyregexp.New(`(?im)^.{0,300}?(?:error|fail|panic|exception|undefined|cannot|expected).*$`)
