package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
)

// Request is what another terminal can ask of a live loop.
type Request string

// The requests. A loop acts on a request before the next attempt; with now it interrupts the agent.
const (
	RequestCancel Request = "cancel"
	RequestPause  Request = "pause"
)

const nowWord = "now"

// Ask leaves a request for the loop with that id. The loop removes it once it has ended because of it.
func (h Home) Ask(fsys atomicfile.FS, id string, r Request, now bool) error {
	text := string(r)
	if now {
		text += " " + nowWord
	}
	if err := os.MkdirAll(filepath.Dir(h.control(id)), 0o755); err != nil {
		return fmt.Errorf("ask run %s: %w", id, err)
	}
	if err := atomicfile.Write(fsys, h.control(id), []byte(text+"\n"), 0o644); err != nil {
		return fmt.Errorf("ask run %s: %w", id, err)
	}
	return nil
}

// Asked returns the request for a live loop, or "".
func (h Home) Asked(id string) (r Request, now bool) {
	b, err := plainfile.Read("", h.control(id), 1<<16)
	if err != nil {
		return "", false
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	return Request(word), rest == nowWord
}

// ClearRequest withdraws what a loop was asked.
func (h Home) ClearRequest(id string) error {
	if err := os.Remove(h.control(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear request: %w", err)
	}
	return nil
}
