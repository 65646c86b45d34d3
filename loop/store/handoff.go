package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
)

// A handoff file tells the next session what it needs. A person's text in it stays; a loop that ends with work left
// writes one section of its own, and removes it when all is done.

const (
	handoffBegin = "<!-- descartes: begin; written when a loop stops, replaced by the next one -->"
	handoffEnd   = "<!-- descartes: end -->"
)

// MaxHandoff limits, in bytes, what is read of a handoff file.
const MaxHandoff = 4 << 20

// WriteHandoff replaces the loop's section in a handoff file. An empty section removes it, and the file too if
// nothing else is in it.
func WriteHandoff(fsys atomicfile.FS, root, path, section string) error {
	if err := plainfile.Writable(root, path); err != nil {
		return fmt.Errorf("handoff %w", err)
	}
	old, err := plainfile.Read(root, path, MaxHandoff)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write handoff: %w", err)
	}
	text := splice(string(old), section)
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	switch {
	case err != nil && section == "", bytes.Equal(old, []byte(text)):
		return nil
	case strings.TrimSpace(text) == "":
		if err := fsys.Remove(path); err != nil {
			return fmt.Errorf("remove handoff: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write handoff: %w", err)
	}
	if err := atomicfile.Write(fsys, path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write handoff: %w", err)
	}
	return nil
}

// splice replaces our section of a text, or appends it after a blank line. Every other byte stays. Marks that do not
// match belong to a person.
func splice(text, section string) string {
	if section != "" {
		section = handoffBegin + "\n\n" + strings.TrimSpace(section) + "\n\n" + handoffEnd + "\n"
	}
	before, rest := text, ""
	if at := strings.Index(text, handoffBegin); at >= 0 {
		if n := strings.Index(text[at:], handoffEnd); n >= 0 {
			before = strings.TrimSuffix(text[:at], "\n")
			rest = strings.TrimPrefix(text[at+n+len(handoffEnd):], "\n")
		}
	}
	if section != "" && before != "" {
		before += "\n"
	}
	return before + section + rest
}
