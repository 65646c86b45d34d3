package mode

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	thick = "================================================================================\n"
	thin  = "--------------------------------------------------------------------------------\n"
)

// SessionName is the name of the session log of a run that began at start.
func SessionName(start time.Time) string {
	return "session-" + start.Format("20060102-150405") + ".log"
}

// Header opens an iteration in the session log.
type Header struct {
	Iteration int
	Mode      Kind
	Task      string
	Spec      string
	Start     time.Time
}

// WriteTo writes the block.
func (h Header) WriteTo(w io.Writer) (int64, error) {
	n, err := fmt.Fprintf(w, thick+"ITERATION %d\n"+thick+"Mode: %s\nTask: %s\nSpec: %s\nStart Time: %s\n"+thin,
		h.Iteration, h.Mode, orWord(oneLine(h.Task), "-"), orWord(oneLine(h.Spec), "-"), h.Start.Format(time.RFC3339))
	return int64(n), err
}

// Footer closes an iteration. What is "" is not known, and left out.
type Footer struct {
	Iteration int
	End       time.Time
	Took      time.Duration
	Model     string
	Requests  string
	Messages  string
	Cost      string
	Retries   int // of this iteration so far
	Status    string
}

// WriteTo writes the block, with the blank line after it.
func (f Footer) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, thin+"ITERATION %d COMPLETE\nEnd Time: %s\nDuration: %s\n", f.Iteration, f.End.Format(time.RFC3339), f.Took.Round(time.Second))
	for _, x := range []struct{ name, value string }{{"API Requests", f.Requests}, {"Model", f.Model}, {"Messages", f.Messages}, {"Cost", f.Cost}} {
		if x.value != "" {
			fmt.Fprintf(&b, "%s: %s\n", x.name, oneLine(x.value))
		}
	}
	fmt.Fprintf(&b, "Retries: %d\nStatus: %s\n"+thick+"\n", f.Retries, oneLine(f.Status))
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// Summary closes a session.
type Summary struct {
	Total, Successful, Failed int // iterations, and runs of their agents that came to something or not
	Took                      time.Duration
	Reason                    string
	Code                      int
}

// WriteTo writes the block.
func (s Summary) WriteTo(w io.Writer) (int64, error) {
	n, err := fmt.Fprintf(w, thick+"SESSION SUMMARY\n"+thick+"Total Iterations: %d\nSuccessful: %d\nFailed: %d\nTotal Duration: %s\nExit Reason: %s\nExit Code: %d\n"+thick,
		s.Total, s.Successful, s.Failed, s.Took.Round(time.Second), oneLine(s.Reason), s.Code)
	return int64(n), err
}

// oneLine keeps foreign text from writing lines of its own into a block.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}
