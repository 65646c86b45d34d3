// Package render makes of the log of an attempt what a person reads: what the agent said, the tools it called, how
// their output ended, what its client had to say, and what the verify command printed. It does so for every client
// that package stream knows, while the log is being written, in bounded memory.
//
//	r := render.New(stream.FormatClaude, func(i render.Item) {
//		for _, l := range i.Lines(80) {
//			fmt.Println(l)
//		}
//	})
//	io.Copy(r, log) // or r.Write of what has been added since
//	r.Close()       // brings out what has no end yet
//
// Text of an Item is safe for a terminal; a web page still escapes it.
package render

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strings"

	"descartes/agent/stream"
	"descartes/internal/lazyregexp"
	"descartes/internal/terminal"
)

// Kind says what an item is.
type Kind int

const (
	Text    Kind = iota // the agent's words; in a format without events, all that it printed
	Thought             // what it thought before
	Call                // of a tool
	Result              // of a call
	Note                // the client's: model, retries, errors, the end with its cost
	Command             // a command that descartes ran on the work, as "$ make test"
	Output              // a line that is no event: of such a command, or of standard error
)

// Item is one thing that a log shows to a person.
type Item struct {
	Kind   Kind
	Text   string // safe to print; may have several lines, without the last newline
	Tool   string // of Call and Result: by one name for all clients where they have the same tool
	File   string // of Call: the file that it writes, as the client names it
	Failed bool   // of Result and Note
	Inner  bool   // by an agent that the agent itself has started
}

const (
	maxLine  = 1 << 20 // a longer line of events is not read
	maxText  = 64 << 10
	maxCalls = 512 // that wait for their result
)

// Renderer reads a log. It is an io.Writer that never fails, so that it can stand behind a writer that masks secrets.
// It is not safe for concurrent use.
type Renderer struct {
	Root string // the folder whose name is left out of paths; a client that names its own comes first

	format string
	show   func(Item)
	line   []byte          // the beginning of one
	size   int             // of a line that is too long; 0 where it is not
	words  []byte          // of a message that comes in pieces
	said   string          // the last whole message
	heard  map[uint64]bool // whole messages of its own, by their hashes
	result bool            // the line is the client's report of an end, with a message that it may have shown before
	model  string
	open   bool   // a message in pieces is open
	last   string // the last note, without its figures
	again  int    // how often it came again
	errors bool   // what follows is from standard error
	calls  map[string]string
	order  []string // of calls
	usage  stream.Tokens
	usd    float64

	messages, requests int
}

// New makes a Renderer for a log of a format of package stream; show is called for each item.
func New(format string, show func(Item)) *Renderer {
	return &Renderer{format: format, show: show, calls: map[string]string{}, heard: map[uint64]bool{}}
}

// Told is how many messages of the agent's own the log has so far, and how many requests to its model the client
// counts there. In a format without events both are 0.
func (r *Renderer) Told() (messages, requests int) { return r.messages, r.requests }

// Write takes more of the log in.
func (r *Renderer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte{'\n'})
		if len(r.line)+len(part) > maxLine && r.size == 0 {
			r.size = len(r.line)
			r.line = append(r.line, part[:min(len(part), max(0, 200-len(r.line)))]...)
			r.line = r.line[:min(len(r.line), 200)]
		}
		switch {
		case r.size > 0:
			r.size += len(part)
		case whole && len(r.line) == 0:
			r.read(part)
		default:
			r.line = append(r.line, part...)
		}
		if whole && (r.size > 0 || len(r.line) > 0) {
			r.end()
		}
		p = rest
	}
	return n, nil
}

// Close brings out the last line, and what was said last.
func (r *Renderer) Close() {
	if r.size > 0 || len(r.line) > 0 {
		r.end()
	}
	r.flush()
	r.repeated()
}

// end reads the line that has come in pieces.
func (r *Renderer) end() {
	if r.size > 0 {
		r.give(Item{Kind: Note, Text: fmt.Sprintf("a line of %d MB is left out: %s…", r.size>>20, r.line)})
	} else {
		r.read(r.line)
	}
	if r.line, r.size = r.line[:0], 0; cap(r.line) > maxText {
		r.line = nil
	}
}

const stderrLine = "--- standard error of the agent ---"

func (r *Renderer) read(text []byte) {
	text = bytes.TrimSuffix(text, []byte{'\r'})
	trimmed := bytes.TrimSpace(text)
	event := len(trimmed) > 0 && trimmed[0] == '{' && stream.HasEvents(r.format)
	switch {
	case string(text) == stderrLine:
		r.errors = true
		r.give(Item{Kind: Note, Text: "standard error of the agent"})
	case bytes.HasPrefix(text, []byte("$ ")):
		r.errors = false
		r.give(Item{Kind: Command, Text: string(text)})
	case event && r.event(trimmed):
	case stream.HasEvents(r.format) && len(trimmed) == 0 && !r.errors:
	case stream.HasEvents(r.format) || r.errors:
		r.give(Item{Kind: Output, Text: string(text)})
	default:
		r.give(Item{Kind: Text, Text: string(text)})
	}
}

// event shows what a line of events holds; ok is false where it is none.
func (r *Renderer) event(text []byte) (ok bool) {
	if r.result = false; !spoken(text) {
		var l line
		if stream.Decode(text, &l) {
			r.result = l.Type == "result"
			if l.Type == "system" && l.Cwd != "" {
				r.Root = l.Cwd
			}
			l.acts(r.act)
		}
	}
	kind := stream.Line(r.format, text, r.told)
	if kind == stream.Noise && bytes.HasPrefix(text, []byte(`{"type":`)) {
		r.give(Item{Kind: Note, Failed: true, Text: fmt.Sprintf("a broken line of the stream is left out (%d bytes)",
			len(text))})
		return true
	}
	return kind == stream.Known || kind == stream.Unknown
}

// spoken reports whether a line is one of those that come by the thousand and hold a few words of a message, or a
// piece of what another line holds as a whole.
func spoken(text []byte) bool {
	for _, kind := range []string{`"message"`, `"text"`, `"stream_event"`, `"assistant.message_delta"`,
		`"assistant.tool_call_delta"`, `"tool.execution_partial_result"`} {
		if bytes.HasPrefix(text, []byte(`{"type":`+kind)) {
			return true
		}
	}
	return false
}

// act shows what an agent did.
func (r *Renderer) act(a act) {
	i := Item{Kind: a.kind, Text: strings.Trim(a.text, "\n"), Failed: a.failed, Inner: a.inner}
	switch a.kind {
	case Call:
		i.Tool = nameOf(a.tool)
		if i.File = a.file; len(a.input) > 0 {
			i.Text, i.File = argument(i.Tool, a.input)
		}
		if a.id != "" {
			if known, again := r.calls[a.id]; again && known == i.Tool {
				return // a client may say twice that it calls a tool
			}
			r.remember(a.id, i.Tool)
		}
		if root := strings.TrimSuffix(r.Root, "/") + "/"; root != "/" {
			i.Text = strings.ReplaceAll(i.Text, root, "")
		}
	case Result:
		i.Tool = r.calls[a.id]
		if !i.Failed && (i.Tool == "Edit" || i.Tool == "Write" || i.Tool == "Read" || i.Tool == "Plan") {
			return // what the file holds is no news
		}
		if t := strings.TrimSpace(i.Text); t == "(no output)" || t == "(Bash completed with no output)" {
			i.Text = ""
		}
	case Text:
		r.say(a.text, a.inner)
		return
	}
	if i.Text != "" || i.Kind == Call || i.Failed {
		r.give(i)
	}
}

// remember keeps a call until its result comes.
func (r *Renderer) remember(id, tool string) {
	if _, known := r.calls[id]; !known {
		if r.order = append(r.order, id); len(r.order) > maxCalls {
			delete(r.calls, r.order[0])
			r.order = r.order[1:]
		}
	}
	r.calls[id] = tool
}

// say shows a whole message, once: a client may repeat it in its result, which may come late: after those of a turn
// that followed.
func (r *Renderer) say(text string, inner bool) {
	text = strings.Trim(text, "\n")
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, text)
	if text == "" || text == r.said || r.result && r.heard[hash.Sum64()] {
		return
	}
	r.give(Item{Kind: Text, Text: text, Inner: inner})
	if !inner {
		r.said, r.heard[hash.Sum64()] = text, true
		r.messages++
	}
}

// told shows what an event says beyond acts.
func (r *Renderer) told(e stream.Event) {
	note := func(failed bool, format string, args ...any) {
		r.give(Item{Kind: Note, Failed: failed, Text: strings.TrimSuffix(
			strings.TrimSpace(fmt.Sprintf(format, args...)), ":")})
	}
	switch e.Kind {
	case stream.Text:
		if e.Whole {
			r.say(e.Text, false)
		} else {
			r.piece(e.Text)
		}
	case stream.Tool:
		r.flush()
	case stream.Session:
		if e.Model != "" && e.Model != r.model {
			r.model = e.Model
			note(false, "model %s", e.Model)
		}
	case stream.Retry:
		status := ""
		if e.Status > 0 {
			status = fmt.Sprintf(" (HTTP %d)", e.Status)
		}
		text := e.Text
		if text == "" {
			text = strings.ReplaceAll(e.Word, "_", " ")
		}
		note(true, "the client tries again%s: %s", status, text)
	case stream.Trouble:
		text := e.Text
		if text == "" {
			text = e.Word
		}
		r.said = text
		note(true, "error: %s", text)
	case stream.Limit:
		until := ""
		if !e.Until.IsZero() {
			until = ", resets " + terminal.Moment(e.Until)
		}
		note(true, "the provider's quota is used up%s", until)
	case stream.Denied, stream.Kept:
		note(true, "refused: %s", e.Word)
	case stream.Usage:
		if !e.Add {
			r.usage, r.usd, r.requests = stream.Tokens{}, 0, 0
		}
		r.usage, r.usd, r.requests = r.usage.Plus(e.Tokens), r.usd+e.USD, r.requests+e.Requests
	case stream.End:
		r.ended(e)
	case stream.Begin, stream.Allowed, stream.Delegated, stream.Pending:
	}
}

// ended shows how the run ended, and what it took.
func (r *Renderer) ended(e stream.Event) {
	var parts []string
	if r.usage.Input+r.usage.Output > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", r.usage.Input, r.usage.Output))
	}
	if r.usd > 0 {
		parts = append(parts, fmt.Sprintf(map[bool]string{true: "$%.2f", false: "$%.4f"}[r.usd >= 0.01], r.usd))
	}
	text := "ended"
	if !e.OK {
		text = "ended with an error"
		if e.Text != "" && e.Text != r.said {
			text += ": " + e.Text
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	r.give(Item{Kind: Note, Text: text, Failed: !e.OK})
}

// piece shows the lines of a message that comes in pieces as each of them ends.
func (r *Renderer) piece(text string) {
	fresh := len(r.words)
	r.words = append(r.words, text...)
	end := bytes.LastIndexByte(r.words[fresh:], '\n')
	if end >= 0 {
		end = len(bytes.TrimRight(r.words[:fresh+end], "\n")) // empty lines wait for what follows them
	} else if end = 0; len(r.words) > maxText {
		end = len(r.words)
	}
	if end > 0 {
		rest := bytes.Clone(r.words[end:])
		r.show(r.part(r.words[:end]))
		r.words = append(r.words[:0], rest...)
	}
}

// part is a part of a message that begins with a line, or behind the end of one.
func (r *Renderer) part(words []byte) Item {
	text := string(words)
	if r.open {
		text = strings.TrimPrefix(text, "\n")
	} else {
		text = strings.TrimLeft(text, "\n")
	}
	r.repeated()
	r.open, r.last = true, ""
	return Item{Kind: Text, Text: safe(text)}
}

// flush shows the rest of a message, which ends with it.
func (r *Renderer) flush() {
	if words := bytes.TrimRight(r.words, "\n \t"); len(words) > 0 {
		r.show(r.part(words))
	}
	if r.open {
		r.messages++
	}
	r.words, r.open = r.words[:0], false
}

// give shows an item, after the message before it. Of notes that repeat each other only the first is shown at once.
func (r *Renderer) give(i Item) {
	r.flush()
	kind := ""
	if i.Kind == Note {
		kind = strings.Trim(figures.ReplaceAllString(i.Text, ""), " ")
	}
	if kind != "" && kind == r.last {
		r.again++
		return
	}
	r.repeated()
	r.last = kind
	if len(i.Text) > maxText {
		if i.Kind == Result {
			i.Text = i.Text[len(i.Text)-maxText:]
		} else {
			i.Text = i.Text[:maxText] + "…"
		}
	}
	i.Text, i.Tool = safe(strings.Trim(i.Text, "\n")), terminal.Clean(i.Tool)
	r.show(i)
}

// repeated says how often the last note came again.
func (r *Renderer) repeated() {
	if r.again > 0 {
		r.show(Item{Kind: Note, Failed: true, Text: "and " + terminal.Count(r.again, "more time")})
	}
	r.again = 0
}

var figures = lazyregexp.New(`\d+`)

// safe is a text that a terminal only shows. Of a line that was written over, as progress bars are, its last state
// counts.
func safe(text string) string {
	text = terminal.Strip(text)
	if strings.IndexByte(text, '\r') >= 0 {
		lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
		for i, l := range lines {
			l = strings.TrimRight(l, "\r")
			lines[i] = l[strings.LastIndexByte(l, '\r')+1:]
		}
		text = strings.Join(lines, "\n")
	}
	if strings.IndexByte(text, '\t') >= 0 {
		text = expanded(text)
	}
	return terminal.CleanLines(text)
}

// expanded is a text with spaces for its tabs, as a terminal shows them.
func expanded(text string) string {
	var b strings.Builder
	column := 0
	for _, r := range text {
		switch {
		case r == '\t':
			b.WriteString(strings.Repeat(" ", 8-column%8))
			column += 8 - column%8
			continue
		case r == '\n':
			column = -1
		}
		b.WriteRune(r)
		column++
	}
	return b.String()
}

// Edits counts in an agent's log how often it edited each file, as far as its stream tells. It is nil where the log
// tells of none. It reads the log anew, so that nobody pays for it who does not ask.
func Edits(log string) (files map[string]int, err error) {
	f, err := os.Open(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("count edits: %w", err)
	}
	defer f.Close()
	// Calls are read alike in all formats that have them.
	r := New(stream.FormatACP, func(i Item) {
		if i.File != "" && len(files) < maxFiles {
			if files == nil {
				files = map[string]int{}
			}
			files[i.File]++
		}
	})
	if _, err = io.Copy(r, f); err != nil {
		err = fmt.Errorf("count edits: %w", err)
	}
	r.Close()
	return files, err
}

// maxFiles bounds the files whose edits are counted.
const maxFiles = 10000
