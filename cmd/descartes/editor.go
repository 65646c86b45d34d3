package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"descartes/internal/proc"
)

// edited lets a person change a text in their editor: $VISUAL, else $EDITOR, else vi. name is that of the
// file it is shown in. A text of which the editor says that it failed is not taken.
func edited(ctx context.Context, name, text string) (string, error) {
	line := cmp.Or(os.Getenv("VISUAL"), cmp.Or(os.Getenv("EDITOR"), "vi"))
	argv, err := splitCommand("EDITOR", line)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "descartes-edit-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	code, err := proc.Interactive(ctx, append(argv, path), "")
	if err != nil {
		return "", badInput("set EDITOR to one that is here", "editor: %w", err)
	}
	if code != 0 {
		return "", badInput("nothing was changed", "the editor %s ended with exit status %d", line, code)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read what was edited: %w", err)
	}
	return string(b), nil
}
