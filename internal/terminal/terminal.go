// Package terminal owns the form in which text reaches a person: safe to print, cut to its columns, coloured or not,
// with counts, times and durations in words.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"descartes/internal/lazyregexp"
)

// Clean makes foreign text safe for a terminal and for the log of a CI system, and fit for one line: titles, reasons
// and file names come from files that anybody may have written.
func Clean(s string) string {
	if plain(s) {
		return withoutCommands(s)
	}
	return withoutCommands(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return visible(r)
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// withoutCommands is a text without what a CI system takes for a command in the log of a job: "::name" where a line may
// come to begin, "##[name]" anywhere, "##vso[" and "##teamcity[". A blank makes words of it; std::vector stays.
func withoutCommands(s string) string {
	if !strings.Contains(s, "::") && !strings.Contains(s, "##") {
		return s
	}
	return command.ReplaceAllStringFunc(s, func(found string) string {
		for strings.Contains(found, "::") {
			found = strings.ReplaceAll(found, "::", ": :")
		}
		return strings.ReplaceAll(found, "##", "## ")
	})
}

var command = lazyregexp.New(`(?:^|[\s\p{Z}\x{85}\x{FFFD}])::+[A-Za-z]|##\w*\[`)

// visible is a character, or what stands for one that a terminal or a reader would take for something else: escape
// sequences begin with control characters, the older half of which are one byte and the newer ones two; others turn
// the direction of text.
func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
		return '\uFFFD'
	}
	return r
}

// Writer makes what goes to w safe for a terminal, line by line: what agents print may come from anybody.
type Writer struct {
	W    io.Writer
	held []byte // the beginning of a character
}

// Write is w's Write. Its count is that of p.
func (v *Writer) Write(p []byte) (int, error) {
	all := append(v.held, p...)
	end := len(all)
	for k := 1; k < utf8.UTFMax && k <= len(all); k++ {
		if utf8.RuneStart(all[len(all)-k]) {
			if !utf8.FullRune(all[len(all)-k:]) {
				end = len(all) - k
			}
			break
		}
	}
	text := visibleLines(all[:end])
	v.held = bytes.Clone(all[end:])
	_, err := v.W.Write(text)
	return len(p), err
}

// visibleLines is a text of several lines, each character visible. A line may end as on Windows.
func visibleLines(text []byte) []byte {
	safe := true
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' || c > '~' {
			safe = false
			break
		}
	}
	if safe {
		return text
	}
	text = bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte("\uFFFD")), []byte("\r\n"), []byte("\n"))
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, text)
}

// Strip removes a terminal's control sequences from a text: colours, cursor movements, titles, links, and whatever
// else begins with ESC.
func Strip(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return s
	}
	return sequence.ReplaceAllString(s, "")
}

var sequence = lazyregexp.New("\x1b(?:\\[[ -?]*[@-~]?|\\][^\a\x1b\n]*(?:\a|\x1b\\\\)?|[@-Z\\\\^_])?")

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// CleanLines is clean for a text of several lines.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Clean(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// Width is how many columns a clean text takes on a terminal, painted or not.
func Width(s string) int { return ansi.StringWidth(s) }

// Fit cuts a clean text to at most n columns.
func Fit(s string, n int) string { return ansi.Truncate(s, n, "…") }

// FitWords cuts a clean text to at most n columns, between two words where one begins in its second half.
func FitWords(s string, n int) string {
	cut := Fit(s, n)
	if at := strings.LastIndexByte(cut, ' '); len(cut) != len(s) && at > len(cut)/2 && s[len(cut)-len("…")] != ' ' {
		return strings.TrimRight(cut[:at], " ,;:") + "…"
	}
	return cut
}

// Wrap breaks a clean text into lines of at most n columns, at words where it can; 0 keeps its lines as they are. What
// a line is indented by, its other lines are too.
func Wrap(s string, n int) []string { return Hang(s, n, 0) }

// Hang is Wrap with lines that are indented further than the one that they continue. The text may be painted.
func Hang(s string, n, further int) (lines []string) {
	if n > 0 {
		n = max(n, 8)
	}
	for line := range strings.SplitSeq(s, "\n") {
		if n <= 0 || Width(line) <= n {
			lines = append(lines, line)
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if len(indent)+further > n/2 {
			indent, further = "", 0
		}
		row, used := indent, len(indent)
		indent += strings.Repeat(" ", further)
		begin := row
		for _, word := range strings.Fields(line) {
			for gap := 1; ; gap = 0 { // a word that is longer than a line goes on in the next
				if row == begin {
					gap = 0
				}
				if used+gap+Width(word) <= n {
					row, used = row+strings.Repeat(" ", gap)+word, used+gap+Width(word)
					break
				}
				if row != begin {
					lines, row, used, begin = append(lines, row), indent, len(indent), indent
					continue
				}
				head := ansi.Truncate(word, n-used, "")
				lines, word = append(lines, row+head), withoutCommands(ansi.TruncateLeft(word, Width(head), ""))
			}
		}
		if row != begin {
			lines = append(lines, row)
		}
	}
	return lines
}

// Count counts a thing in words: "1 task", "2 tasks".
func Count(n int, thing string) string {
	s := strconv.Itoa(n) + " " + thing
	if n != 1 {
		s += "s"
	}
	return s
}

// IsTerminal reports whether w is a terminal that a person looks at.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// HasRoom reports whether w is a terminal that is wide enough for the wave box.
func HasRoom(w io.Writer) bool {
	columns := Columns(w)
	return IsTerminal(w) && (columns == 0 || columns >= BoxWidth+2)
}

// Columns is how wide a terminal is; 0 where w is none, or does not say.
func Columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Paint colours words, or leaves them as they are.
type Paint bool

// Colours reports whether a terminal wants colour: NO_COLOR and TERM=dumb say no.
func Colours(terminal bool) Paint {
	return Paint(terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// The colours.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Faint  = "2"
	Bold   = "1"
)

// In is s in a colour.
func (p Paint) In(colour, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// Quote is a word as it is typed in a shell.
func Quote(word string) string {
	if word != "" && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%") == "" {
		return word
	}
	if !strings.ContainsAny(word, "\"$`\\!") {
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Few lists names, no more than so many of them.
func Few(names []string, most int) string {
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ") + more
}

// Duration is a duration as a person says it.
func Duration(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	}
	text := d.Round(time.Second).String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-len("0s")]
		}
	}
	return text
}

// Spell is a time that goes by, or that somebody waits.
func Spell(d time.Duration) string {
	switch s := int(max(d, 0).Seconds()); {
	case s >= 48*3600:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	case s >= 3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	case s >= 60:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%ds", s)
	}
}

// Moment is a point in time as a person says it.
func Moment(t time.Time) string {
	t = t.Local()
	if t.Year() != time.Now().Year() {
		return t.Format("Mon 2 Jan 2006 15:04")
	}
	return t.Format("Mon 2 Jan 15:04")
}

// Clock is a point in time that is likely today: to the second, and with its day if it is another.
func Clock(t time.Time) string {
	t = t.Local()
	if y, m, d := time.Now().Date(); t.Year() != y || t.Month() != m || t.Day() != d {
		return t.Format("Mon 2 Jan 15:04:05")
	}
	return t.Format("15:04:05")
}

// Indent is foreign text of several lines.
func Indent(text string) string {
	return "  " + strings.ReplaceAll(CleanLines(strings.TrimSpace(text)), "\n", "\n  ") + "\n"
}

const BoxWidth = 69

// Box draws lines in a frame, as wide as the seed's picture.
func Box(title string, lines []string) string {
	var s strings.Builder
	edge := strings.Repeat("─", BoxWidth)
	row := func(text string) {
		pad := BoxWidth - 2 - Width(text)
		if pad < 0 {
			text, pad = Fit(text, BoxWidth-2), 0
		}
		s.WriteString("│  " + text + strings.Repeat(" ", pad) + "│\n")
	}
	s.WriteString("┌" + edge + "┐\n")
	row(title)
	s.WriteString("├" + edge + "┤\n")
	row("")
	for _, l := range lines {
		row(l)
	}
	row("")
	s.WriteString("└" + edge + "┘\n")
	return s.String()
}
