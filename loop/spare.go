package loop

import (
	"os"
	"path/filepath"
)

// spareLog is an empty file that becomes the next attempt's log. Making a file is the dearest call of
// a short attempt (a tenth of its two processes); here it is made while the agent before it runs.
// Without a spare, whoever opens the log makes it.
type spareLog struct {
	path string
	made chan bool // holds one value: whether the spare is there
}

func newSpareLog(dir string) *spareLog {
	s := &spareLog{path: filepath.Join(dir, ".spare"), made: make(chan bool, 1)}
	s.made <- false
	return s
}

// become gives the spare the name of a log that does not exist, and has the next spare made.
func (s *spareLog) become(log string) {
	if <-s.made {
		if _, err := os.Lstat(log); err == nil {
			s.made <- true
			return
		}
		_ = os.Rename(s.path, log) // where an agent has cleared it away, another is made
	}
	go func() {
		f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE, 0o600)
		s.made <- err == nil && f.Close() == nil
	}()
}

// stop removes the spare. It waits for the one that is being made.
func (s *spareLog) stop() {
	<-s.made
	_ = os.Remove(s.path) // an empty file that nobody has heard of
}
