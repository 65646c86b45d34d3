package proc

import (
	"encoding/json"
	"errors"
	"os"
	"syscall"

	"descartes/agent/process"
)

// writeExit records how a command ended, so that whoever takes over from a dead process learns it. The file is
// overwritten in place: one write of one line, of which a reader takes the first only.
func writeExit(path string, e process.Exit) error {
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
