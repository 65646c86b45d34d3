package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
)

// NotesRef is the ref whose notes hold the receipts: git notes --ref descartes show COMMIT.
const NotesRef = "refs/notes/descartes"

// Line is a line of a note that holds a statement.
type Line struct {
	Text      []byte // as it is in the note
	Statement Statement
	Payload   []byte    // its bytes, which digests and signatures are of
	Envelope  *Envelope // nil where it is not signed
}

// maxLines bounds what is read of one note.
const maxLines = 100_000

// Read parses the statements of a note. What else people wrote on it is passed over; a line that begins like a
// statement and is none is an error.
func Read(note []byte) (lines []Line, err error) {
	for text := range bytes.Lines(note) {
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] != '{' {
			continue
		}
		if len(lines) == maxLines {
			return lines, fmt.Errorf("it has more than %d statements", maxLines)
		}
		one, err := parse(text)
		if err != nil {
			return lines, err
		}
		lines = append(lines, one)
	}
	return lines, nil
}

func parse(text []byte) (l Line, err error) {
	var e Envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return l, fmt.Errorf("one of its lines is not JSON: %w", err)
	}
	l.Text = text
	if l.Payload = text; e.PayloadType != "" {
		if e.PayloadType != payloadType {
			return l, fmt.Errorf("one of its envelopes contains %q", e.PayloadType)
		}
		l.Envelope, l.Payload = &e, e.Payload
	}
	if err := json.Unmarshal(l.Payload, &l.Statement); err != nil {
		return l, fmt.Errorf("one of its statements is not JSON: %w", err)
	}
	if l.Statement.Type != StatementType {
		return l, errors.New("one of its lines is not an in-toto statement")
	}
	return l, nil
}

// Join puts two texts of one note together: every line once, in the order in which they came. What a person wrote
// stays as it is.
func Join(old, add []byte) []byte {
	out := slices.Clone(old)
	if len(out) > 0 && out[len(out)-1] != '\n' && len(add) > 0 {
		out = append(out, '\n')
	}
	known := map[string]bool{}
	for line := range bytes.Lines(old) {
		known[strings.TrimSpace(string(line))] = true
	}
	for line := range bytes.Lines(add) {
		if key := strings.TrimSpace(string(line)); !known[key] {
			known[key] = true
			out = append(append(out, bytes.TrimRight(line, "\n")...), '\n')
		}
	}
	return out
}

// Text is a note of lines.
func Text(lines [][]byte) []byte { return append(bytes.Join(lines, []byte("\n")), '\n') }

// receipt is the receipt of a line of that type.
func (l *Line) receipt() (r Receipt, err error) {
	if err := json.Unmarshal(l.Statement.Predicate, &r); err != nil {
		return r, fmt.Errorf("one of its receipts cannot be read: %w", err)
	}
	return r, nil
}

// Held are the receipts in a note, unverified. A line that cannot be read hides the rest.
func Held(note []byte) (out []Receipt) {
	lines, _ := Read(note)
	for _, l := range lines {
		if l.Statement.PredicateType != ReceiptType {
			continue
		}
		r, err := l.receipt()
		if err != nil {
			return out
		}
		out = append(out, r)
	}
	return out
}

// Save writes a copy of a note into a folder.
func Save(fsys atomicfile.FS, dir, commit string, text []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, commit+".jsonl")
	if err := atomicfile.Clean(fsys, path); err != nil { // of a run that was killed
		return err
	}
	return atomicfile.Write(fsys, path, text, 0o644)
}

// IsSaved reports whether a folder has a copy of the note on a commit.
func IsSaved(dir, commit string) bool {
	_, err := os.Lstat(filepath.Join(dir, commit+".jsonl"))
	return err == nil
}

// Saved reads the copies: the texts, by commit.
func Saved(dir string) (map[string][]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, strings.Repeat("[0-9a-f]", 40)+".jsonl"))
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := plainfile.Read(filepath.Dir(dir), f, maxSaved)
		if err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(filepath.Base(f), ".jsonl")] = b
	}
	return out, nil
}

const maxSaved = 16 << 20
