//go:build agents

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/internal/proc"
)

// kin is a process, told from a later one with its number by its start.
type kin struct {
	pid   int
	start string
}

// family is everything that was seen below a program while it ran.
type family struct {
	mu   sync.Mutex
	seen map[kin]string // to its command line
}

// follow looks below a launch until that has ended.
func (f *family) follow(t *testing.T, r *launch) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			f.look(r.p.Pid)
			select {
			case <-r.ended:
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { <-over })
}

// look adds what is below a process now, and below what was below it before.
func (f *family) look(root int) {
	all := everything()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = map[kin]string{}
	}
	in := map[int]bool{root: true}
	for k := range f.seen {
		if p, ok := all[k.pid]; ok && p.start == k.start {
			in[k.pid] = true
			if p.line != "" {
				f.seen[k] = p.line // it may have become another program
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if in[p.parent] && !in[pid] {
				in[pid], grown = true, true
				f.seen[kin{pid, p.start}] = p.line
			}
		}
	}
}

// process is what /proc says of one.
type process struct {
	parent      int
	start, line string
	dead        bool
}

// everything is the machine's processes.
func everything() map[int]process {
	all := map[int]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		end := bytes.LastIndexByte(b, ')')
		if err != nil || end < 0 {
			continue
		}
		fields := strings.Fields(string(b[end+1:])) // from the state on
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, _ := strconv.Atoi(fields[1])
		line, _ := os.ReadFile(filepath.Dir(path) + "/cmdline")
		all[pid] = process{parent: parent, start: fields[19], dead: fields[0] == "Z" || fields[0] == "X",
			line: string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))}
	}
	return all
}

// left are the processes of the stage that run: by the mark of its loops or by its home in their environment, by
// having been seen below the program, or by standing in its folders.
func (s *stage) left(t *testing.T) (found []kin) {
	t.Helper()
	mark, home := []byte("\x00"+proc.CookieVar+"="+cookieOf(s.root)+"\x00"), []byte("\x00HOME="+s.home+"\x00")
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for pid, p := range everything() {
		dir := fmt.Sprintf("/proc/%d/", pid)
		environ, _ := os.ReadFile(dir + "environ")
		environ = append([]byte{0}, environ...)
		cwd, _ := os.Readlink(dir + "cwd")
		_, ours := s.seen.seen[kin{pid, p.start}]
		if !p.dead && (ours || bytes.Contains(environ, mark) || bytes.Contains(environ, home) || strings.HasPrefix(cwd, s.root)) {
			found = append(found, kin{pid, p.start})
		}
	}
	return found
}

// nothingLeft is the point of it all.
func (s *stage) nothingLeft(t *testing.T) {
	t.Helper()
	if left := s.left(t); len(left) > 0 {
		t.Errorf("still running:\n%s", s.named(left))
	}
	if s.seen.count() < 2 {
		t.Errorf("only %d processes were seen below the program: nothing was looked at", s.seen.count())
	}
}

func (f *family) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

func (s *stage) named(list []kin) string {
	all := everything()
	var lines []string
	for _, k := range list {
		lines = append(lines, fmt.Sprintf("  %d (below %d) %s", k.pid, all[k.pid].parent, all[k.pid].line))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// runs reports whether a process of the stage has these words in its command line.
func (s *stage) running(t *testing.T, words string) bool {
	t.Helper()
	all := everything()
	return slices.ContainsFunc(s.left(t), func(k kin) bool { return strings.Contains(all[k.pid].line, words) })
}
