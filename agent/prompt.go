package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// writePrompt stores the prompt for the agent and for whoever looks later. A
// file that is there is overwritten in place: cut to nothing and filled again,
// ext4 would write it out on close, which takes as long as a whole small task.
// Whatever else an earlier agent may have left in its place is removed.
func writePrompt(path, prompt string) (err error) {
	f, err := openPrompt(path)
	if err != nil {
		return fmt.Errorf("store prompt: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("store prompt: %w", err)
		}
	}()
	if _, err := io.WriteString(f, prompt); err != nil {
		return err
	}
	return f.Truncate(int64(len(prompt)))
}

func openPrompt(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		f, err = os.OpenFile(path, flags, 0o600)
	}
	if err == nil {
		if info, statErr := f.Stat(); statErr == nil && info.Mode().IsRegular() && info.Mode().Perm() == 0o600 {
			return f, nil
		}
		err = errors.Join(fs.ErrExist, f.Close())
	}
	if os.Remove(path) != nil {
		return nil, err
	}
	return os.OpenFile(path, flags|os.O_EXCL, 0o600)
}
