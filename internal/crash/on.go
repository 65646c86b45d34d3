//go:build crashpoints

package crash

import (
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
)

// points is the only mutable state of this build: how many points this process has reached.
var points struct {
	sync.Mutex
	started bool
	reached int
	at      int
	pattern string // of those that are counted; "" for all
	list    *os.File
}

// Point marks a place between two writes, see the package comment. It is safe for concurrent use.
func Point(name string) {
	points.Lock()
	defer points.Unlock()
	if !points.started {
		start()
	}
	if fits, err := path.Match(points.pattern, name); fits || points.pattern == "" {
		points.reached++
	} else if err != nil {
		panic("crash points: DESCARTES_CRASH_AT: " + err.Error())
	}
	if points.list != nil {
		if _, err := points.list.WriteString(name + "\n"); err != nil {
			panic("crash points: " + err.Error())
		}
	}
	if points.reached == points.at {
		die()
	}
}

func start() {
	points.started = true
	if text := os.Getenv("DESCARTES_CRASH_AT"); text != "" {
		number, pattern, _ := strings.Cut(text, " ")
		at, err := strconv.Atoi(number)
		if err != nil {
			panic("crash points: DESCARTES_CRASH_AT: " + err.Error())
		}
		points.at, points.pattern = at, pattern
	}
	if path := os.Getenv("DESCARTES_CRASH_COUNT_FILE"); path != "" {
		list, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			panic("crash points: " + err.Error())
		}
		points.list = list
	}
}

// die ends the process the way a power cut or kill -9 does: no deferred call, no handler, no flush.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic("crash points: " + err.Error())
	}
	select {}
}
