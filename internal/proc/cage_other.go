//go:build unix && !linux

package proc

import (
	"errors"
	"time"
)

// cage would hold a command within limits; here there is none.
type cage struct{}

func (s *server) cage(c Limits) (*cage, error) {
	if c.Memory > 0 || c.Procs > 0 {
		return nil, errors.New("limits of memory and processes are kept on Linux only")
	}
	return nil, nil
}

func (*cage) leave()                 {}
func (*cage) remove()                {}
func (*cage) exceeded(time.Time) Why { return "" }
func (*cage) verdict() Why           { return "" }
func sealed(int) (int, error)        { return -1, errors.ErrUnsupported }
func widen(int)                      {}

// Ceilings says by what means limits are kept here: none.
func Ceilings() string { return "not kept on this system" }
