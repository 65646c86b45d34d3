package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"syscall"
)

// writeExit records how a command ended, so that whoever takes over from a dead process learns it. The file is
// overwritten in place: one write of one line, of which a reader takes the first only.
func writeExit(path string, e Exit) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	fd, err := openMaking(path, syscall.O_WRONLY|syscall.O_CREAT)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), path)
	n, err := f.WriteAt(line, 0)
	if err != nil {
		n = 0 // rather nothing than half of two
	}
	if info, serr := f.Stat(); serr == nil && info.Mode().IsRegular() && info.Size() != int64(n) {
		err = errors.Join(err, f.Truncate(int64(n)))
	}
	return errors.Join(err, f.Close())
}

// ReadExit reads what a shim wrote to its ExitFile last. It is false for a
// file that is missing, empty or torn.
func ReadExit(path string) (Exit, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Exit{}, false
	}
	line, _, whole := bytes.Cut(data, []byte{'\n'})
	var e Exit
	if !whole || json.Unmarshal(line, &e) != nil || e.Why == "" {
		return Exit{}, false
	}
	return e, true
}
