package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// Formats of output.
const (
	FormatText = "text" // no events: all that is printed is the agent's words
	// the Agent Client Protocol: a conversation, held by package acp, which prints the events
	FormatACP      = "acp"
	FormatClaude   = "claude" // Claude Code's stream-json; Qwen Code, Amp and Cursor speak like it
	FormatOpencode = "opencode"
	FormatCodex    = "codex"
	FormatGemini   = "gemini"
	FormatCopilot  = "copilot"
	FormatCline    = "cline"
)

// Formats lists them.
func Formats() []string {
	return []string{FormatACP, FormatClaude, FormatCline, FormatCodex, FormatCopilot, FormatGemini, FormatOpencode,
		FormatText}
}

// HasEvents reports whether a format is one of events.
func HasEvents(format string) bool { return dialectOf(format).read != nil }

// dialect is one client's way to tell of its events. skim is shown the type of a line that begins with it, and the
// line's beginning; where that is enough it tells what there is to tell and is true, and the rest, which is most of a
// stream, is not looked at.
type dialect struct {
	skim func(kind string, head []byte, tell func(Event)) bool
	read func(line []byte, tell func(Event)) LineKind
}

// dialectOf is the zero value for plain text.
func dialectOf(format string) dialect {
	switch format {
	case FormatACP:
		return dialect{skimACP, readACP}
	case FormatClaude:
		return dialect{skimClaude, readClaude}
	case FormatOpencode:
		return dialect{skimOpencode, readOpencode}
	case FormatCodex:
		return dialect{skimCodex, readCodex}
	case FormatGemini:
		return dialect{skimGemini, readGemini}
	case FormatCopilot:
		return dialect{skimCopilot, readCopilot}
	case FormatCline:
		return dialect{skimNothing, readCline}
	}
	return dialect{}
}

func skimNothing(string, []byte, func(Event)) bool { return false }

// LineKind says what a line was.
type LineKind int

const (
	Known   LineKind = iota
	Unknown          // an event that the dialect does not know
	Noise            // no event
	TooLong          // longer than MaxLine, and not read
	Blank
)

// MaxLine is the length of the longest line that is read.
const MaxLine = 16 << 20

// Handler takes what a stream holds, in order. Line is called after the events of its line; text is valid until it
// returns, empty for a line that is TooLong, and whole is false for a last line without its newline.
type Handler struct {
	Event func(Event)
	Line  func(kind LineKind, text []byte, whole bool)
}

// Read reads a stream of a format of events to its end, in pieces of about the given size. Nothing in it is an error.
// Its memory is bounded whatever is in it.
func Read(format string, r io.Reader, size int, h Handler) error {
	d := dialectOf(format)
	in := bufio.NewReaderSize(r, size)
	for {
		line, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			err = d.long(in, line, h)
		} else if len(line) > 0 {
			d.line(line, h)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// line reads one line that is here as a whole.
func (d dialect) line(line []byte, h Handler) {
	text, whole := bytes.CutSuffix(line, []byte{'\n'})
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if len(text) == 0 || text[0] == 0 {
		h.Line(Blank, nil, whole)
		return
	}
	h.Line(d.event(text, h.Event), text, whole)
}

// event reads a line that is not blank.
func (d dialect) event(text []byte, tell func(Event)) LineKind {
	switch {
	case text[0] != '{':
		return Noise
	case d.skim(typeOf(text), text, tell):
		return Known
	}
	return d.read(text, tell)
}

// Line reads one line of a stream of a format of events, which has no spaces around it and is not empty.
func Line(format string, text []byte, tell func(Event)) LineKind {
	return dialectOf(format).event(text, tell)
}

// long reads a line of which only the beginning is in the buffer.
func (d dialect) long(in *bufio.Reader, head []byte, h Handler) error {
	if kind := typeOf(head); d.skim(kind, head, h.Event) {
		err := skip(in)
		h.Line(Known, nil, err == nil)
		return err
	}
	line := slices.Grow(bytes.Clone(head), 4*len(head))
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			if err == bufio.ErrBufferFull {
				err = skip(in)
			}
			h.Line(TooLong, nil, err == nil)
			return err
		}
		if cap(line)-len(line) < len(part) {
			line = slices.Grow(line, len(line))
		}
		if line = append(line, part...); err != bufio.ErrBufferFull {
			d.line(line, h)
			return err
		}
	}
}

// skip goes to the end of the line.
func skip(in *bufio.Reader) error {
	for {
		if _, err := in.ReadSlice('\n'); err != bufio.ErrBufferFull {
			return err
		}
	}
}

// typeOf is the type of a line that begins with it; "" for every other one.
func typeOf(head []byte) string {
	rest, ok := bytes.CutPrefix(head, []byte(`{"type":"`))
	if !ok {
		return ""
	}
	end := bytes.IndexByte(rest[:min(len(rest), 64)], '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return ""
	}
	return string(rest[:end])
}

// Decode reads JSON into v. It is lenient where that cannot turn a broken line into a whole one: a value of another
// kind than asked for counts as absent.
func Decode(line []byte, v any) bool {
	var other *json.UnmarshalTypeError
	err := json.Unmarshal(line, v)
	return err == nil || errors.As(err, &other)
}
