//go:build unix

package proc

import (
	"syscall"
	"time"
)

// clearBound is how long processes that do not die of SIGKILL are waited for:
// those of another user, or in the middle of a broken device's work. As long
// as others die, it starts anew.
const clearBound = 5 * time.Second

// finish ends what is left of a command and fills in how it ended. With why
// empty the command ended by itself: what it left gets no grace.
func (s *server) finish(j *job, why Why) {
	if why != "" && s.left(j) {
		s.ask(j)
	}
	if why != "" || !j.cmd.Leave {
		s.clear(j)
	}
	if j.status.Signaled() {
		j.exit.Why, j.exit.Signal = Signaled, int(j.status.Signal())
	} else {
		j.exit.Why, j.exit.Code = Exited, j.status.ExitStatus()
	}
	if why == "" {
		why = j.cage.verdict()
	}
	if why != "" {
		j.exit.Why = why
	}
}

// ask sends SIGTERM to every group of the tree and waits out the grace. Tools
// put their own children in groups of their own, hence every group. A stopped
// process could not obey, hence SIGCONT.
func (s *server) ask(j *job) {
	grace := j.cmd.grace()
	if grace == 0 {
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		signalGroups(j.pid, sig, j.spared(s.stuck))
	}
	start := time.Now()
	for pause := time.Millisecond; s.left(j) && time.Since(start) < grace; pause = min(2*pause, 20*time.Millisecond) {
		s.sleep(j, min(pause, grace-time.Since(start)), false)
		j.inner.drain(false)
	}
}

// clear stops and kills until nothing is left. Stopping first, parents before
// children, keeps a fork loop from outrunning us, and keeps the process ids
// valid: a stopped parent reaps nobody.
func (s *server) clear(j *job) {
	killed := map[int]bool{}
	progress, reaped, began := time.Now(), s.reaped, time.Now()
	for pause := 100 * time.Microsecond; s.left(j); pause = min(2*pause, 5*time.Millisecond) {
		now := time.Now()
		for _, p := range killTree(j.pid, s.stuck) {
			killed[p] = true
		}
		if s.reaped != reaped {
			progress, reaped = now, s.reaped
		}
		if now.Sub(progress) > clearBound || now.Sub(began) > 12*clearBound {
			for _, p := range living(j.pid) {
				s.stuck[p] = true
			}
			j.ended = true
			j.exit.Err = joinText(j.exit.Err, "some processes cannot be ended: "+pids(s.stuck))
			break
		}
		time.Sleep(max(pause, time.Since(now))) // a big tree takes its time to die
	}
	delete(killed, j.pid)
	delete(killed, j.inner.first())
	j.exit.Left = len(killed)
}

// left reports whether anything of the command is left that can be ended.
func (s *server) left(j *job) bool {
	if !s.reap(j) {
		return groupLeft(j.pid)
	}
	if len(s.stuck) == 0 || !j.ended {
		return true
	}
	for _, p := range living(j.pid) {
		if !s.stuck[p] {
			return true
		}
	}
	return false
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
