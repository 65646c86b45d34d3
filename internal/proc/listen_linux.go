package proc

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener is a process that listens on a TCP port.
type Listener struct {
	PID  int
	Name string
	Port int
}

// Listening finds the processes that work in a folder, or below it, and listen on a port: those that we may look at.
func Listening(dir string) (found []Listener) {
	var ports map[string]int // by socket; read for the first that there has one
	cwds, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, cwd := range cwds {
		at, err := os.Readlink(cwd)
		if err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		process := filepath.Dir(cwd)
		pid, _ := strconv.Atoi(filepath.Base(process))
		name, _ := os.ReadFile(process + "/comm")
		fds, _ := os.ReadDir(process + "/fd")
		for _, fd := range fds {
			to, _ := os.Readlink(process + "/fd/" + fd.Name())
			if ports == nil && strings.HasPrefix(to, "socket:") {
				ports = listened()
			}
			if port := ports[to]; port > 0 {
				found = append(found, Listener{pid, strings.TrimSpace(string(name)), port})
			}
		}
	}
	slices.SortFunc(found, func(a, b Listener) int { return cmp.Or(a.PID-b.PID, a.Port-b.Port) })
	return slices.Compact(found)
}

// listened has the ports on which somebody listens, by the socket as the links of open files name it.
func listened() map[string]int {
	ports := map[string]int{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, _ := os.ReadFile(table)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" {
				continue
			}
			if port, err := strconv.ParseInt(f[1][strings.LastIndexByte(f[1], ':')+1:], 16, 32); err == nil {
				ports[fmt.Sprintf("socket:[%s]", f[9])] = int(port)
			}
		}
	}
	return ports
}
