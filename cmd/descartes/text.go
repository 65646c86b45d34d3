package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// clean makes foreign text safe for a terminal and fit for one line: titles, reasons and file names
// come from files that anybody may have written.
func clean(s string) string {
	if plain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return visible(r)
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// visible is a character, or what stands for one that a terminal or a reader would take for something else: escape sequences
// begin with control characters, the older half of which are one byte and the newer ones two; others turn the direction of text.
func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
		return '\uFFFD'
	}
	return r
}

// visibleWriter makes what goes to w safe for a terminal, line by line as it stands: what agents print comes from anybody.
type visibleWriter struct {
	w    io.Writer
	held []byte // the beginning of a character
}

// Write is w's Write. Its count is that of p.
func (v *visibleWriter) Write(p []byte) (int, error) {
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
	_, err := v.w.Write(text)
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

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// cleanLines is clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = clean(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// width is how many columns a clean text takes on a terminal.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth knows the wide blocks that titles are written in; what it does not know is one column.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// fit cuts a clean text to at most n columns.
func fit(s string, n int) string {
	if width(s) <= n {
		return s
	}
	var b strings.Builder
	left := n - 1
	for _, r := range s {
		if left -= runeWidth(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// count counts a thing in words: "1 task", "2 tasks".
func count(n int, thing string) string {
	s := itoa(n) + " " + thing
	if n != 1 {
		s += "s"
	}
	return s
}

// isTerminal reports whether w is a terminal that a person looks at.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// roomForBox reports whether w is a terminal that is wide enough for the wave box.
func roomForBox(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	return err == nil && (columns == 0 || columns >= boxWidth+2) // 0: a terminal that does not say
}

// paint colours words, or leaves them as they are.
type paint bool

// colours reports whether a terminal wants colour: NO_COLOR and TERM=dumb say no.
func colours(terminal bool) paint {
	return paint(terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
	bold   = "1"
)

func (p paint) in(colour, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}
