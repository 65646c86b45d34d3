// Package gate decides when a loop that repeats one prompt ends: by a promise, by a status block that is compared with
// what can be checked, or by criteria. It is a function of what an iteration left behind: it runs nothing, reads no
// file and knows no clock.
//
// A gate is a value. Decide takes the facts of each iteration, in order, and changes only the gate's own exported
// fields, which encode to JSON and back: a resumed loop gives the gate its saved fields and continues with the same
// counts. Asking a gate twice about one iteration counts it twice.
package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
	Done     Kind = "done"     // everything asked for is there
	Blocked  Kind = "blocked"  // the agent cannot continue; a person is needed
	Open     Kind = "open"     // a circuit breaker has opened
	Ask      Kind = "ask"      // a person must answer Decision.Question first
)

// Facts are what one iteration left behind.
type Facts struct {
	Iteration int    // from 1
	Final     string // the agent's final message
	Err       string // why the iteration failed: crash, timeout, git; "" if it did not
	Blocked   string // why the agent cannot continue; "" if it can
	Changed   []string
	Unwatched bool   // Changed is unknown: an iteration without an error counts as progress
	Verify    *Check // nil: there is no verify command, or it did not run
	Before    *Plan  // IMPLEMENTATION_PLAN.md before the iteration; nil: there was none
	After     *Plan  // and after it

	Edits       map[string]int // edits per file, if the agent's stream reports them
	OutputBytes int64
	CostUSD     *float64 // of the whole loop so far; nil if unknown
	Checks      []Check  // results of the commands that Criteria.Commands asked for
	State       []byte   // .loop/state.json after the iteration; nil if missing
	Now         time.Time
}

// Check is the result of one command.
type Check struct {
	Name   string `json:"name,omitempty"` // the text of the criterion or mustNot condition it belongs to
	Passed bool   `json:"passed"`         // exit status 0
	Output string `json:"output,omitempty"`
	Why    string `json:"-"` // the output line that says why it failed; "" if unknown

	Objects string `json:"-"` // the objection of a look at work that passed
}

// failure describes a check that did not pass.
func (c *Check) failure() string { return cmp.Or(c.Objects, "verify fails") }

// Decision is a gate's decision about an iteration.
type Decision struct {
	Kind     Kind
	Reason   string    // for people; never empty
	Until    time.Time // Open: when the breaker allows another try; zero: only a person can
	Breaker  string    // Open: which breaker, one of the Breaker constants; "" of Status
	Question string    // Ask, and Open if continuing is offered: the question for a person
	Gate     string    // Ask: which gate asks: G1, G2, G3 or precheck
	Warnings []string
	Prompt   string   // what the next iteration's prompt says besides Instructions
	Show     []string // lines for people, at the end of the iteration
}

func (d *Decision) warn(format string, args ...any) {
	d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...))
}

// oneItem warns of an iteration that checked off several items of the plan, where one is asked for.
func (d *Decision) oneItem(f Facts) {
	if fresh := NewlyChecked(f.Before, f.After); len(fresh) > 1 {
		d.warn("%d items were checked off in one iteration, where one is asked for: %s", len(fresh),
			list(texts(fresh), 5))
		d.Prompt += "Complete exactly ONE task per iteration. The last one checked off " + fmt.Sprint(len(fresh)) +
			".\n"
	}
}

// Promise is the gate that looks for one promise in the final message.
type Promise struct {
	Word string `json:"word"`
}

// Decide returns Done if an iteration without a failure made the promise.
func (p *Promise) Decide(f Facts) Decision {
	d := Decision{Kind: Continue, Reason: fmt.Sprintf("the final message does not have the promise %q", p.Word)}
	switch made := Promised(f.Final, p.Word); {
	case made && f.Err == "":
		d.Kind, d.Reason = Done, fmt.Sprintf("the final message has the promise %q", p.Word)
	case made:
		d.Reason = fmt.Sprintf("the promise %q does not count, because the iteration failed: %s", p.Word, f.Err)
	}
	d.oneItem(f)
	return d
}

// Instructions says how to promise.
func (p *Promise) Instructions() string {
	return "When the task is completely finished, and only then, end your final message with this line:\n\n<promise>" +
		promise.Word(p.Word) + "</promise>\n"
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

// document parses a text as Markdown; one too large for that has no lines.
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

// bare removes quote marks from the start of a line, and emphasis and blanks from both ends.
func bare(line string) string {
	return strings.TrimRight(strings.TrimLeft(line, " \t\r>*_`"), " \t\r*_`")
}

// words are a text's words in lower case, letters and digits.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// squeeze turns every run of blanks into one space.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// oneLine puts a text's words on one line, shortened.
func oneLine(text string, n int) string { return oneline.Clip(squeeze(text), n) }

// signatureLimit limits how much of an error is compared.
const signatureLimit = 4 << 10

var (
	tempPath  = lazyregexp.New(`(?i)\S*(?:[/\\]tmp|\btmp[/\\]|[/\\]var[/\\]folders[/\\]|[/\\]temp[/\\])\S*`)
	folders   = lazyregexp.New(`\S*[/\\](\S)`)
	hash      = lazyregexp.New(`\b0[xX][0-9a-fA-F]+\b|\b[0-9a-fA-F]{6,}\b`)
	figures   = lazyregexp.New(`(?:\d+(?:[.,:]\d+)*(?:[nuµμm]?s|[mhdtTZ]|[kmgKMG]?[bB])?)+`)
	figureRow = lazyregexp.New(`#[T#]*#`)
)

// Signature is an error without what differs from run to run: numbers, times, addresses, hashes, paths of temporary
// files, and the directories of other paths. Two errors are the same if their signatures are.
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

// failure returns the signature of what went wrong in an iteration, and the line that shows it, or "". Of a failed
// verification the lines about an error count, or else the last one.
func failure(f Facts) (signature, shown string) {
	if f.Err != "" {
		return "iteration: " + Signature(f.Err), oneLine(f.Err, 300)
	}
	if f.Verify == nil || f.Verify.Passed {
		return "", ""
	}
	return Failed(f.Verify.Output)
}

// Digest tells one failure from another by its signature, without its words: a journal has no secret of what failed. "" is
// no failure.
func Digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(Signature(text)))
	return hex.EncodeToString(sum[:6])
}

// Failed returns the signature of a failed verification's output, and the line that shows it.
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
