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

// Listening finds the processes that work in a folder, or below it, and listen on a port: those that we may look at.
func Listening(dir string) (found []Listener) {
	var ports map[string]int // by socket; read for the first process that has one
	for pid, argv := range Within(dir) {
		at := "/proc/" + strconv.Itoa(pid) + "/fd/"
		fds, _ := os.ReadDir(at)
		for _, fd := range fds {
			to, _ := os.Readlink(at + fd.Name())
			if ports == nil && strings.HasPrefix(to, "socket:") {
				ports = listened()
			}
			if port := ports[to]; port > 0 {
				found = append(found, Listener{pid, filepath.Base(argv[0]), port})
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
