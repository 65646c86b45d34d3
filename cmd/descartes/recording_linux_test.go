package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"image/color"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"descartes/config"
	"descartes/internal/docs"
)

var recordTo = flag.String("recording", "", "record the demo in this file, an animated SVG")

// TestRecording records a few lines at a terminal and reads the picture again. make recording records the demo: what
// is typed there is run by the real program.
func TestRecording(t *testing.T) {
	t.Parallel()
	r := newRecording(t, 40, 6)
	if r == nil {
		t.Log("this machine has no pseudo terminals")
		return
	}
	r.step(t, t.TempDir(), nil, `printf '\033[1;31mred\033[0m < plain\n'; test -t 1`, 0)
	picture := r.svg("a test")
	if err := wellFormed(picture); err != nil {
		t.Fatalf("%v\n%s", err, picture)
	}
	for _, want := range []string{`class="c1 b"`, `>red</text>`, `>&lt; plain</text>`, "@keyframes",
		"prefers-color-scheme: dark"} {
		if !bytes.Contains(picture, []byte(want)) {
			t.Errorf("the picture has no %s:\n%s", want, picture)
		}
	}
	if last := r.frames[len(r.frames)-1]; len(last.rows) != 6 || len(r.frames) < 10 {
		t.Errorf("%d frames, the last of %d rows", len(r.frames), len(last.rows))
	}
}

// TestDemoPicture checks the recording of the demo that README shows, or makes it.
func TestDemoPicture(t *testing.T) {
	file := filepath.Join(docs.Root(t), "docs", "images", "demo.svg")
	if *recordTo != "" {
		file = *recordTo
		if err := os.WriteFile(file, recordDemo(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	picture, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := wellFormed(picture); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	if len(picture) > 200_000 {
		t.Errorf("%s has %d bytes, readers wait for more than 200,000", file, len(picture))
	}
	for _, want := range []string{"descartes", "@keyframes", "Wave 1:"} {
		if !bytes.Contains(picture, []byte(want)) {
			t.Errorf("%s shows no %s", file, want)
		}
	}
}

// wellFormed reads XML to its end.
func wellFormed(text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// recordDemo is a recording of the demo's project, whose agents think for a moment so that they can be seen at work.
func recordDemo(t *testing.T) []byte {
	project := filepath.Join(t.TempDir(), "tally")
	// which Go does not build
	for part, to := range map[string]string{"project": project, "agent": filepath.Join(project, ".agent")} {
		if err := installDemo(part, to); err != nil {
			t.Fatal(err)
		}
	}
	const settings = "command: sh -c 'sleep 1; exec sh .agent/agent.sh \"$0\"'\nscud: {plan_path: plan.md}\nparallel: 2\n"
	if err := os.WriteFile(filepath.Join(project, "descartes.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := config.ReadFile(filepath.Join(project, "descartes.yaml"), true)
	if err != nil {
		t.Fatal(err)
	}
	environment := []string{"DESCARTES_TRUST=" + config.TrustDigest(f.Demands(project)),
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "TERM=xterm-256color", "NO_COLOR=",
		"GOFLAGS=-mod=mod -trimpath", "GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0"}
	for _, line := range []string{"git init -q -b main", "git config user.name Demo",
		"git config user.email demo@example.org", "git add -A", "git commit -q -m 'plan tally'"} {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = project, append(os.Environ(), environment...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	r := newRecording(t, 80, 25)
	if r == nil {
		t.Fatal("this machine has no pseudo terminals")
	}
	r.step(t, project, environment, "descartes waves", 0)
	r.pause(2 * time.Second)
	r.step(t, project, environment, "descartes run", exitBlocked)
	r.pause(3 * time.Second)
	r.step(t, project, environment, "git log --oneline", 0)
	r.pause(4 * time.Second)
	return r.svg("descartes runs ten tasks in four waves, two at a time; one is retried, one stays blocked, and each wave is committed")
}

// recording is what a terminal showed.
type recording struct {
	cols, rows int
	screen     *vt.Emulator
	frames     []frame
	now        time.Duration // since it began; what is typed takes none of ours
}

// frame is a screen, by its rows in SVG, and when it was first seen.
type frame struct {
	at   time.Duration
	rows []string
}

// newRecording is an empty one of a terminal of that size; nil where there are no terminals.
func newRecording(t *testing.T, cols, rows int) *recording {
	t.Helper()
	if _, theirs, ok := pseudoTerminal(t); !ok {
		return nil
	} else {
		theirs.Close()
	}
	return &recording{cols: cols, rows: rows, screen: vt.NewEmulator(cols, rows)}
}

// step types a command line, runs it and records what it prints; it must end with that code.
func (r *recording) step(t *testing.T, dir string, environment []string, line string, code int) {
	t.Helper()
	r.screen.WriteString("\x1b[1m$ ")
	r.pause(400 * time.Millisecond)
	for _, letter := range line {
		r.screen.WriteString(string(letter))
		r.pause(50 * time.Millisecond)
	}
	r.screen.WriteString("\x1b[0m\r\n")
	ours, theirs, ok := pseudoTerminal(t)
	if !ok {
		t.Fatal("no terminal is left")
	}
	if err := unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: uint16(r.rows), Col: uint16(r.cols)}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, theirs, theirs, theirs
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	printed := make(chan []byte)
	go func() {
		defer close(printed)
		for {
			text := make([]byte, 32<<10)
			n, err := ours.Read(text)
			if err != nil {
				return // the last program has closed its end
			}
			printed <- text[:n]
		}
	}()
	go func() { _, _ = io.Copy(ours, r.screen) }() // what programs ask a terminal is answered
	began, before := time.Now(), r.now
	looks := time.NewTicker(60 * time.Millisecond)
	defer looks.Stop()
	for open := true; open; {
		var text []byte
		select {
		case text, open = <-printed:
			r.screen.Write(text)
		case <-looks.C:
			r.now = before + time.Since(began)
			r.look()
		}
	}
	r.now = before + time.Since(began)
	r.look()
	err := cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%s: %v, exit code %d, want %d\n%s", line, err, got, code, r.screen.String())
	}
}

// pause lets time go by, on the picture.
func (r *recording) pause(d time.Duration) {
	r.look()
	r.now += d
}

// look keeps the screen, if it is another one than before.
func (r *recording) look() {
	rows := make([]string, r.rows)
	for y := range rows {
		rows[y] = r.row(y)
	}
	if n := len(r.frames); n == 0 || strings.Join(rows, "\n") != strings.Join(r.frames[n-1].rows, "\n") {
		r.frames = append(r.frames, frame{r.now, rows})
	}
}

// The size of a letter, and of the frame around the screen, in pixels.
const (
	cellWidth, cellHeight = 8, 17
	padding               = 12
)

// row is one of the screen's in SVG. Words are placed by their columns, so that every font gives the same picture.
func (r *recording) row(y int) string {
	var b strings.Builder
	for x := 0; x < r.cols; {
		first := r.screen.CellAt(x, y)
		text, end := "", x
		for end < r.cols {
			c := r.screen.CellAt(end, y)
			if c == nil || first == nil || !c.Style.Equal(&first.Style) || strings.HasSuffix(text, " ") &&
				c.Content == " " {
				break
			}
			text += cmp.Or(c.Content, " ")
			end += max(c.Width, 1)
		}
		if end == x {
			x++
			continue
		}
		class, back := classes(&first.Style)
		if back != "" {
			fmt.Fprintf(&b, `<rect x="%d" width="%d" height="%d" class="%s"/>`, x*cellWidth, (end-x)*cellWidth,
				cellHeight, back)
		}
		if words := strings.TrimLeft(text, " "); strings.TrimSpace(words) != "" {
			at := x + len(text) - len(words)
			words = strings.TrimRight(words, " ")
			fmt.Fprintf(&b, `<text x="%d" y="13"`, at*cellWidth)
			if n := ansi.StringWidth(words); n > 1 {
				fmt.Fprintf(&b, ` textLength="%d"`, n*cellWidth)
			}
			if class != "" {
				fmt.Fprintf(&b, ` class="%s"`, class)
			}
			fmt.Fprintf(&b, ">%s</text>", html.EscapeString(words))
		}
		x = end
	}
	return b.String()
}

// classes are those of a text in a style, and of what is behind it.
func classes(s *uv.Style) (text, back string) {
	name := func(c color.Color, otherwise string) string {
		switch c := c.(type) {
		case nil:
			return otherwise
		case ansi.BasicColor:
			return fmt.Sprintf("c%d", c%8)
		}
		return "c6" // no program here uses another
	}
	text, back = name(s.Fg, ""), name(s.Bg, "")
	if s.Attrs&uv.AttrReverse != 0 {
		text, back = cmp.Or(back, "bg"), cmp.Or(text, "fg")
	}
	for attribute, class := range map[uint8]string{uv.AttrBold: " b", uv.AttrFaint: " f"} {
		if s.Attrs&attribute != 0 {
			text += class
		}
	}
	return strings.TrimSpace(text), back
}

// svg is the recording as an animated picture: a strip of its screens, of which a window shows one after the other.
func (r *recording) svg(title string) []byte {
	var style, rows, film strings.Builder
	width, height := r.cols*cellWidth, r.rows*cellHeight
	ids := map[string]int{"": 0}
	for i, f := range r.frames {
		fmt.Fprintf(&style, "%.2f%%{transform:translateY(%dpx)}", 100*f.at.Seconds()/r.now.Seconds(), -i*height)
		for y, row := range f.rows {
			if _, known := ids[row]; !known {
				ids[row] = len(ids)
				fmt.Fprintf(&rows, `<g id="r%d">%s</g>`, ids[row], row)
			}
			if row != "" {
				fmt.Fprintf(&film, `<use href="#r%d" y="%d"/>`, ids[row], i*height+y*cellHeight)
			}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img"><title>%[3]s</title><style>
svg { --bg: #ffffff; --fg: #1f2328; --line: #d1d9e0; --c1: #cf222e; --c2: #116329; --c3: #7d4e00; --c4: #0969da; --c5: #8250df; --c6: #1b7c83; }
@media (prefers-color-scheme: dark) { svg { --bg: #0d1117; --fg: #e6edf3; --line: #3d444d; --c1: #ff7b72; --c2: #3fb950; --c3: #d29922; --c4: #58a6ff; --c5: #bc8cff; --c6: #39c5cf; } }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--fg); }
.b { font-weight: 700; } .f { opacity: .65; } .fg { fill: var(--fg); } .bg { fill: var(--bg); }
.c0 { fill: var(--fg); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); } .c4 { fill: var(--c4); } .c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--fg); }
#film { animation: film %.2[4]fs step-end infinite; }
@keyframes film {%[5]s}
@media (prefers-reduced-motion: reduce) { #film { animation: none; transform: translateY(%[6]dpx); } }
</style><defs>%[7]s</defs><rect x=".5" y=".5" width="%[8]d" height="%[9]d" rx="8" fill="var(--bg)" stroke="var(--line)"/><svg x="%[10]d" y="%[10]d" width="%[11]d" height="%[12]d"><g id="film">%[13]s</g></svg></svg>
`, width+2*padding, height+2*padding, html.EscapeString(title), r.now.Seconds(), style.String(), -(len(r.frames)-1)*height, rows.String(),
		width+2*padding-1, height+2*padding-1, padding, width, height, film.String())
	return b.Bytes()
}
