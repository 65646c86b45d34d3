// Package awake keeps the machine from going to sleep while something runs, by the system's own program for that:
// systemd-inhibit on Linux, caffeinate on macOS.
package awake

import (
	"bufio"
	"os"
	"time"

	"descartes/internal/proc"
)

// patience is how long the system may take to say that the machine stays awake.
const patience = 2 * time.Second

// Hold keeps the machine awake until release is called, or this program ends, however it ends. held is false where the
// system has no such program, or its program refuses; release may be called then too. A program in the project that
// dir lies in is not taken.
func Hold(dir string) (release func(), held bool) {
	release = func() {}
	if len(holder) == 0 {
		return release, false
	}
	env := proc.Outside(os.Environ(), dir)
	path, err := proc.Look(holder[0], "", env)
	if err != nil {
		return release, false
	}
	// cat ends when its input does, and with it the hold; that it answers shows that the hold was taken.
	p, err := proc.StartPeer(append(append([]string{path}, holder[1:]...), "cat"), env)
	if err != nil {
		return release, false
	}
	answered := make(chan bool, 1)
	go func() {
		_, err := p.In.Write([]byte("held\n"))
		line := ""
		if err == nil {
			line, err = bufio.NewReader(p.Out).ReadString('\n')
		}
		answered <- err == nil && line == "held\n"
	}()
	select {
	case held = <-answered:
	case <-time.After(patience):
	}
	release = func() {
		p.End(patience)
		p.Out.Close()
	}
	if !held {
		release()
		return func() {}, false
	}
	return release, true
}
