//go:build fleet

package temporal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stubborn is an agent that ignores the request to end, with a tree of processes below it, one of which hides in a
// session of its own.
const stubborn = `#!/bin/sh
trap '' TERM INT HUP
setsid sleep %[1]s &
sleep %[1]s &
sh -c 'trap "" TERM; sleep %[1]s; sleep %[1]s' &
wait
`

// TestEnds: whatever ends an attempt, all its processes are dead soon after: descartes cancel --now, Ctrl-C, a worker
// that is stopped or killed.
func TestEnds(t *testing.T) {
	w := newTown(t, plan{tasks: 1, width: 1, workers: 1, slots: 2})
	marker := fmt.Sprintf("%d.25", 100000+os.Getpid())
	if err := os.WriteFile(filepath.Join(w.project, "agent.sh"), fmt.Appendf(nil, stubborn, marker),
		0o755); err != nil {
		t.Fatal(err)
	}
	w.git(w.project, "commit", "-qam", "a stubborn agent")
	found := func(pattern string) (pids []int) {
		b, _ := exec.Command("pgrep", "-f", pattern).Output()
		for _, text := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(text); err == nil {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	left := func() []int { return found("sleep " + marker) }
	for _, c := range []struct {
		name string
		end  func(run *program)
	}{
		{"cancel", func(*program) { <-w.start(w.project, "descartes", "cancel", "--now").over }},
		{"interrupts", func(run *program) {
			_ = run.cmd.Process.Signal(os.Interrupt)
			for !strings.Contains(run.out.String(), "Ctrl-C again") && !exited(run) {
				time.Sleep(10 * time.Millisecond)
			}
			_ = run.cmd.Process.Signal(os.Interrupt)
		}},
		{"worker stopped", func(*program) { _ = w.workers[0].cmd.Process.Signal(syscall.SIGTERM) }},
		{"worker killed", func(*program) { _ = w.workers[0].cmd.Process.Kill() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := w.run()
			for deadline := time.Now().Add(time.Minute); len(left()) < 3; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) || exited(run) {
					t.Fatalf("no agent:\n%s", run.out)
				}
			}
			these, began := left(), time.Now()
			dead := func() bool {
				now := left()
				return !slices.ContainsFunc(these, func(pid int) bool { return slices.Contains(now, pid) })
			}
			c.end(run)
			for !dead() && time.Since(began) < time.Minute {
				time.Sleep(20 * time.Millisecond)
			}
			took := time.Since(began)
			t.Logf("all dead after %v", took.Round(10*time.Millisecond))
			if took > 5*time.Second {
				t.Errorf("its processes lived %v longer", took)
			}
			if !exited(run) {
				<-w.start(w.project, "descartes", "cancel", "--now").over
			}
			if exited(w.workers[0]) || strings.HasPrefix(c.name, "worker") {
				w.work(0)
			}
			select {
			case <-run.over:
			case <-time.After(time.Minute):
				t.Errorf("the run does not end:\n%s", run.out)
				run.kill()
			}
			for deadline := time.Now().Add(5 * time.Second); len(left()) > 0; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("processes are left at the end: %v", left())
				}
			}
		})
	}
}

func exited(p *program) bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}
