package agent

import (
	"io"
	"strings"
)

// Render passes on to w what an agent says while it is read: of a format of events its own words, and of
// text, and of lines that are no events, everything. Nothing but an error of r or w ends it early.
func Render(format string, r io.Reader, w io.Writer) error {
	line := dialectOf(format)
	if line == nil {
		_, err := io.Copy(w, r)
		return err
	}
	t := &teller{w: w}
	d := decoder{lines: newLines(r, 64<<10)}
	for d.next() && t.err == nil {
		if d.start() {
			line(&d, t.hear)
			continue
		}
		for more := len(d.seg) > 0; more; more = d.fill() {
			t.write(string(d.seg))
		}
		t.write("\n")
	}
	if t.err != nil {
		return t.err
	}
	return d.err
}

// teller writes what events say.
type teller struct {
	w    io.Writer
	open bool // the last line is not ended
	err  error
}

func (t *teller) hear(e event) {
	switch {
	case e.kind == eventText && e.text != "":
		t.write(e.text)
		if e.whole {
			t.close()
		}
	case e.kind == eventTool, e.kind == eventEnd:
		t.close()
	}
}

// close ends the line.
func (t *teller) close() {
	if t.open {
		t.write("\n")
	}
}

func (t *teller) write(text string) {
	if t.err == nil && text != "" {
		_, t.err = io.WriteString(t.w, text)
		t.open = !strings.HasSuffix(text, "\n")
	}
}
