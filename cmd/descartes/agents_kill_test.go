//go:build agents

package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"descartes/internal/proc"
)

// endless is a tool call that never ends, and leaves a second process that has fled into a session of its own.
const endless = "setsid tail -f /dev/null >/dev/null 2>&1 & tail -f /dev/null"

// sleeps is a first attempt at task 1 whose tool never ends; a later one is a good one.
func sleeps() rule { return of("1", 1, turn{Text: "Sleeping.", Shell: endless}, turn{Text: claim}) }

// soon is how many seconds a client needs to come to its first request on a machine with little else to do.
func (c client) soon() int {
	if c.name == "opencode" {
		return 15
	}
	return 6
}

// timedOut runs an attempt at task 1 that a limit ends, with a higher one if that came before it was under way.
func timedOut(t *testing.T, c client, flag string, first rule, underWay func(*stage) bool) {
	t.Helper()
	for limit := c.soon(); ; limit *= 2 {
		s := newStage(t, c, first)
		r := s.does(t, exitBlocked, "step", "--task", "1", "--max-attempts", "1", flag, strconv.Itoa(limit))
		if got := s.ended(t); len(got) != 1 || got[0] != "1 1 timeout" && got[0] != "1 1 idle" {
			t.Errorf("attempts %q", got)
		}
		s.calm(t)
		if underWay(s) {
			t.Log(grep(readText(t, r.stdout), "blocked"))
			return
		}
		if limit > 100 {
			t.Fatalf("not under way after %d s:\n%s", limit, s.story(t))
		}
	}
}

// TestAgentsHang: the model never answers; the limit of all time or that of silence ends the attempt.
func TestAgentsHang(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		asked := func(s *stage) bool { return strings.Contains(readText(t, s.asked), `"fault":"hang"`) }
		for _, flag := range []string{"--timeout", "--idle-timeout"} {
			timedOut(t, c, flag, of("1", 0, turn{Fault: "hang"}), asked)
		}
	})
}

// TestAgentsToolTimesOut: a tool that never ends is ended with its client.
func TestAgentsToolTimesOut(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		timedOut(t, c, "--timeout", sleeps(), func(s *stage) bool { return s.tails() == 2 })
	})
}

// tails is how many of an endless tool's processes were seen.
func (s *stage) tails() (n int) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for _, line := range s.seen.seen {
		if strings.HasPrefix(line, "tail -f /dev/null") {
			n++
		}
	}
	return n
}

// tools waits until both processes of an endless tool run.
func (s *stage) tools(t *testing.T, r *launch) {
	t.Helper()
	until(t, "the tool", func() bool {
		if !r.alive() {
			t.Fatalf("it ended:\n%s", s.story(t))
		}
		n, all := 0, everything()
		for _, k := range s.left(t) {
			if strings.HasPrefix(all[k.pid].line, "tail -f /dev/null") {
				n++
			}
		}
		return n == 2
	})
}

// TestAgentsInterrupted: the second Ctrl-C ends client and tool, also without a sandbox to help; a resume goes on.
func TestAgentsInterrupted(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := newStage(t, c, sleeps())
		r := s.begin(t, "start", "--sandbox", "off")
		s.tools(t, r)
		for _, said := range []string{"interrupted: ", "stopping: "} {
			if err := r.p.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			until(t, said, func() bool { return strings.Contains(readText(t, r.stdout)+readText(t, r.stderr), said) })
		}
		s.ends(t, r, exitInterrupted)
		s.does(t, exitDone, "resume")
		s.calm(t, "1", "2", "3")
	})
}

// TestAgentsKilled: kill -9 of the program alone, or of it and of the process that watches over the client, whose
// sandbox would end all that is in it.
func TestAgentsKilled(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		for _, both := range []bool{false, true} {
			s := newStage(t, c, sleeps())
			r := s.begin(t, "start", "--sandbox", map[bool]string{false: "auto", true: "off"}[both])
			s.tools(t, r)
			if both {
				for pid, p := range everything() {
					if p.parent == r.p.Pid && strings.Contains(p.line, proc.ShimCommand) {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			}
			if err := r.p.Kill(); err != nil {
				t.Fatal(err)
			}
			if code := r.wait(t); code != -int(syscall.SIGKILL) {
				t.Fatalf("exit %d", code)
			}
			if both { // only the resume ends what is left
				t.Logf("left:\n%s", s.named(s.left(t)))
			} else { // the watcher ends all by itself
				until(t, "the end of all", func() bool { return len(s.left(t)) == 0 })
			}
			s.does(t, exitDone, "resume")
			s.calm(t, "1", "2", "3")
		}
	})
}

// TestAgentsOrphan: what a tool leaves running ends with its attempt.
func TestAgentsOrphan(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		leave := "(setsid tail -f /dev/null >/dev/null 2>&1 &) ; tail -f /dev/null >/dev/null 2>&1 & " + writes("1")
		s := newStage(t, c, of("1", 0, turn{Text: "I start a server.", Shell: leave}, turn{Text: claim}))
		s.does(t, exitDone, "start", "--sandbox", "off")
		if s.tails() == 0 { // codex ends them with the tool's call: both are seldom seen
			t.Error("no server was seen")
		}
		s.calm(t, "1", "2", "3")
	})
}
