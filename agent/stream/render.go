package stream

import (
	"io"
	"strings"
)

// Render passes on to w what an agent says while it is read: of a format of events its own words, and of
// text, and of lines that are no events, everything. Nothing but an error of r or w ends it early.
func Render(format string, r io.Reader, w io.Writer) error {
	if !HasEvents(format) {
		_, err := io.Copy(w, r)
		return err
	}
	t := &renderer{w: w}
	err := Read(format, untilError{r, t}, 64<<10, Handler{Event: t.event, Line: func(kind LineKind, text []byte, _ bool) {
		if kind == Blank || kind == Noise && text[0] != '{' {
			t.write(string(text) + "\n")
		}
	}})
	if t.err != nil {
		return t.err
	}
	return err
}

// untilError reads until nobody can be written to any more.
type untilError struct {
	io.Reader
	t *renderer
}

func (u untilError) Read(p []byte) (int, error) {
	if u.t.err != nil {
		return 0, u.t.err
	}
	return u.Reader.Read(p)
}

// renderer writes what events say.
type renderer struct {
	w    io.Writer
	open bool // the last line is not ended
	err  error
}

func (t *renderer) event(e Event) {
	switch {
	case e.Kind == Text && e.Text != "":
		t.write(e.Text)
		if e.Whole {
			t.close()
		}
	case e.Kind == Tool, e.Kind == End:
		t.close()
	}
}

// close ends the line.
func (t *renderer) close() {
	if t.open {
		t.write("\n")
	}
}

func (t *renderer) write(text string) {
	if t.err == nil && text != "" {
		_, t.err = io.WriteString(t.w, text)
		t.open = !strings.HasSuffix(text, "\n")
	}
}
