package agent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"descartes/agent/stream"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
)

// said is what an agent said. progress is nil where it printed no events.
type said struct {
	progress *progress
	final    string
	complete bool
	blocked  string
	asks     string // the question for which it is blocked
	bytes    int64
}

// mute reports whether it neither said nor did anything.
func (h *said) mute() bool {
	if h.progress == nil {
		return h.final == ""
	}
	return !h.progress.spoke && !h.progress.acted
}

// transcript reads what an agent prints: as events if the format has them, and as text as long as there is not a
// single event, as from a script under a client's name, or from a client that fails before its first event.
type transcript struct {
	q        Request
	format   string
	progress progress
	words    *tail // nil once there are events
	from     io.Reader
	begun    bool // something was printed
	text     bool // and it did not begin like an event
}

func newTranscript(format string, q Request) *transcript {
	return &transcript{q: q, format: format, words: &tail{limit: max(ownLimit, q.Words) + 2*len(q.Prompt)},
		progress: progress{message: tail{limit: messageLimit}}}
}

// take reads to the end, in pieces of the given size.
func (h *transcript) take(r io.Reader, size int) error {
	if !stream.HasEvents(h.format) {
		_, err := io.CopyBuffer(struct{ io.Writer }{h.words}, struct{ io.Reader }{r}, make([]byte, size))
		return err
	}
	h.from = r
	return stream.Read(h.format, h, size, stream.Handler{Event: h.progress.apply, Line: h.progress.line})
}

// Read hands a piece to the events' reader, and to the text's while it counts.
func (h *transcript) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	if h.words != nil {
		if h.progress.events > 0 {
			h.words = nil
		} else {
			h.words.Write(p[:n])
		}
		if first := bytes.TrimLeft(p[:n], " \t\r\n"); len(first) > 0 && !h.begun {
			h.begun, h.text = true, first[0] != '{'
		}
	}
	return n, err
}

// started reports whether an event or some text came.
func (h *transcript) started() bool { return h.text || h.progress.events+h.progress.noise > 0 }

// claims reports whether its last words say that the task is done, or cannot be.
func (h *transcript) claims() bool {
	s := h.said()
	return s.complete || s.blocked != ""
}

// said returns what the agent said. Completion words count only in its own words.
func (h *transcript) said() *said {
	out, words := &said{}, h.words
	if h.progress.events > 0 {
		out.progress, words = &h.progress, &h.progress.message
	}
	text := words.text()
	own := withoutEcho(text, h.q.Prompt, words.cut)
	out.complete, out.blocked, out.asks = claims(own, h.q.Promise)
	if out.progress == nil {
		text = own
	}
	out.final = strings.TrimRight(oneline.Last(text, cmp.Or(h.q.Words, finalLimit)), " \t\n")
	return out
}

// readTranscript reads what was printed, at most so many bytes of it.
func readTranscript(format string, q Request, most int64) (*said, error) {
	h := newTranscript(format, q)
	n, err := readFrom(q.Log, q.Offset, func(r io.Reader, size int) error {
		return h.take(io.LimitReader(r, most), size)
	})
	if err != nil {
		return nil, err
	}
	out := h.said()
	out.bytes = n
	return out, nil
}

// unfenced is a text without its fenced code.
func unfenced(text string) string {
	if !strings.Contains(text, "```") && !strings.Contains(text, "~~~") {
		return text
	}
	all := strings.Split(text, "\n")
	var own []string
	code := markdown.Code(all)
	for n, line := range all {
		switch {
		case !code[n]:
			own = append(own, line)
		case n == 0 || !code[n-1]:
			own = append(own, "") // nothing may match across it
		}
	}
	return strings.Join(own, "\n")
}

// readFrom feeds a file from an offset on to use, in pieces of about the given size, and returns how much it read. A
// file that is gone counts as empty, one that was truncated is read whole: agents do both.
func readFrom(path string, offset int64, use func(r io.Reader, size int) error) (int64, error) {
	if path == "" {
		return 0, nil
	}
	f, size, err := openLog(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if size < offset {
		offset = 0
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	if err := use(f, int(min(pieceSize, max(size-offset, 512)))); err != nil {
		return 0, err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	return end - offset, err
}

// pieceSize is how much of a long output is read at a time.
const pieceSize = 256 << 10

// openLog opens a file that an agent may have replaced: it must not wait for the other end of a pipe.
func openLog(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file any more", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// lastErrors is the end of what this run printed on standard error.
func (q Request) lastErrors() string { return clean(q.errors(true)) }

// errors is the end or the beginning of what this run printed on standard error, unless that goes to the log itself.
func (q Request) errors(end bool) string {
	info, err := os.Stat(q.ErrLog)
	if err != nil || q.ErrLog == q.Log {
		return ""
	}
	from := q.ErrOffset
	if info.Size() < from {
		from = 0
	}
	if end {
		from = max(from, info.Size()-finalLimit)
	}
	var text strings.Builder
	if _, err := readFrom(q.ErrLog, from, func(r io.Reader, _ int) error {
		_, err := io.Copy(&text, io.LimitReader(r, finalLimit))
		return err
	}); err != nil {
		return ""
	}
	return text.String()
}

// lastLine returns the last non-blank line of the first text that has one, at most 200 bytes of it. It skips what a
// client's runtime says about itself after a crash, and labels without a value; of an error it takes the line that
// says what it is, not the fields printed below that.
func lastLine(texts ...string) string {
	for _, text := range texts {
		line, thrown := "", ""
		var above []string // lines that open a brace
		for l := range strings.Lines(text) {
			l = strings.TrimSpace(l)
			if head, opens := strings.CutSuffix(l, "{"); opens {
				l = strings.TrimSpace(head)
				above = append(above, l)
			}
			switch {
			case l == "" || runtimeLine(l) || line != "" && strings.HasSuffix(l, ":"):
			case strings.Trim(l, "{}[](),;") == "":
				if last := len(above) - 1; last >= 0 {
					line, above = cmp.Or(above[last], line), above[:last]
				}
			case thrownLine(l):
				thrown, line = l, l
			default:
				line = l
			}
		}
		if thrown != "" && crashed(text) {
			line = thrown
		}
		if line != "" {
			return oneline.Clip(line, 200)
		}
	}
	return ""
}

// crashed reports whether a text ends as node and bun end it when nobody catches an error.
func crashed(text string) bool {
	text = strings.TrimSpace(text)
	return runtimeLine(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
}

// runtimeLine is what node and bun print last of all.
func runtimeLine(line string) bool {
	rest, node := strings.CutPrefix(line, "Node.js v")
	if !node {
		rest, node = strings.CutPrefix(line, "Bun v")
	}
	return node && rest != "" && '0' <= rest[0] && rest[0] <= '9'
}

// thrownLine begins with the kind of an error: "TypeError: ...", "EROFS: ...".
func thrownLine(line string) bool {
	kind, _, ok := strings.Cut(line, ": ")
	return ok && !strings.ContainsAny(kind, " \t\"'(") && (strings.HasSuffix(kind, "Error") || len(kind) > 3 &&
		kind[0] == 'E' && strings.ToUpper(kind) == kind)
}
