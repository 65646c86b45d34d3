package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	longest = 3 * time.Minute // no command takes that long
	most    = 40              // commands until a night is over
)

// ways to end a command early, some more often than others.
var ways = []string{"kill", "kill", "kill", "group", "tree", "agents", "shim", "git", "TERM", "Ctrl-C", "Ctrl-C twice",
	"two", "pause", "cancel"}

type command struct {
	*exec.Cmd
	done chan struct{}
	code int // -SIGNAL of one that was killed
}

func (n *night) start(args ...string) *command {
	fmt.Fprintf(n.log, "\n$ descartes %s\n", strings.Join(args, " "))
	c := &command{Cmd: exec.Command(n.bin, args...), done: make(chan struct{}), code: -1}
	c.Dir, c.Env, c.Stdout, c.Stderr, c.SysProcAttr = n.dir, n.env, n.log, n.log, &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		n.bad("%v", err)
		close(c.done)
		return c
	}
	go func() {
		_ = c.Wait()
		if c.code = c.ProcessState.ExitCode(); c.code < 0 {
			c.code = -int(c.ProcessState.Sys().(syscall.WaitStatus).Signal())
		}
		close(c.done)
	}()
	return c
}

// within waits for a command for some time, and reports whether it has ended.
func (c *command) within(d time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(d):
		return false
	}
}

func (c *command) signal(s syscall.Signal) {
	if !c.within(0) {
		_ = c.Process.Signal(s)
	}
}

// end waits for a command that nobody ends early, and returns its exit code.
func (n *night) end(c *command) int {
	if !c.within(longest) {
		n.bad("%v has not ended in %v", c.Args[1:], longest)
		n.killAll(n.own(), nil)
		<-c.done
	}
	fmt.Fprintf(n.log, "exit %d\n", c.code)
	n.codes = append(n.codes, c.code)
	return c.code
}

// next is the next command of a night's run.
func (n *night) next(r *rand.Rand, first bool) []string { return n.over("t", r, first) }

// over is the same for a tag.
func (n *night) over(tag string, r *rand.Rand, first bool) []string {
	args := []string{"--scud-tag", tag, "--command", "sh tools/agent.sh", "--verify", "sh tools/verify.sh",
		"--sandbox", n.sandbox, "--breaker", "off", "--max-attempts", "4",
		"--max-iterations", "3000", "--env-pass", "LEDGER,NIGHT_TOKEN", "-j", strconv.Itoa(n.parallel)}
	switch n.mode {
	case "step":
		return append([]string{"step"}, args...)
	case "no-commit":
		args = append(args, "--no-commit")
	case "branch":
		args = append(args, "--branch", "nightly")
	case "clones":
		args = append(args, "--push")
	case "tags":
		return append([]string{"start"}, args...)
	}
	again := r.IntN(10) < 7
	if _, err := os.Stat(filepath.Join(n.dir, ".descartes", "loop-state.json")); !first && again && err == nil &&
		n.codes[len(n.codes)-1] != 2 {
		return []string{"resume"}
	}
	return append([]string{"start"}, args...)
}

// run runs the tasks to an end, with what comes in between.
func (n *night) run() {
	r := draws(n.seed, 2)
	kills, tries := pick(r, []int{0, 1, 2, 3, 5, 8}), 0
	for range most {
		last := n.kills >= kills
		if last && n.turns > 0 {
			n.user.leave()
		} else {
			n.user.start()
		}
		n.turns++
		if n.mode == "clones" && n.turns > 1 {
			if n.git("pull", "-q", "--ff-only"); r.IntN(2) == 0 {
				n.clone()
			}
		}
		end := n.besides(r)
		c := n.start(n.next(r, n.turns == 1)...)
		after, way := n.moment(r), pick(r, ways)
		if last || c.within(after) {
			way = ""
		} else {
			n.kills++
			n.disturb(r, c, way)
		}
		end()
		code := n.end(c)
		if code == 1 && way != "shim" {
			n.bad("exit 1 after %q", way)
		}
		switch {
		case code == 0 && n.mode != "step", code == 3 && n.mode != "step", (code == 0 || code == 3) && !n.ready():
			n.user.leave()
			switch n.mode {
			case "rewind":
				n.rewind(r)
			case "tags":
				for try := 0; try < 6 && (try == 0 || n.exit() != 0 && n.exit() != 3); try++ {
					n.end(n.start(n.over("u", r, true)...))
				}
			case "clones":
				n.clone()
			}
			return
		case last && code != 0 && code != 3 && code != 7:
			if n.user.leave(); code == 5 && tries == 1 {
				n.user.tidy()
			}
			if tries++; tries > 3 {
				n.user.leave()
				if !n.user.rough {
					n.bad("it does not come to an end: exits %v", n.codes)
				}
				return
			}
		}
	}
	n.user.leave()
	n.bad("it has not come to an end in %d commands", most)
}

// besides starts what runs beside the next command: a run over another tag, which end has killed half of the times.
func (n *night) besides(r *rand.Rand) (end func()) {
	if n.mode != "tags" {
		return func() {}
	}
	beside, killed, after := n.start(n.over("u", r, true)...), r.IntN(2) == 0, n.moment(r)
	return func() {
		if killed && !beside.within(after) {
			beside.signal(syscall.SIGKILL)
		}
		if !beside.within(longest) {
			n.bad("%v has not ended in %v", beside.Args[1:], longest)
			beside.signal(syscall.SIGKILL)
		}
		<-beside.done
		fmt.Fprintf(n.log, "exit of the run beside it %d\n", beside.code)
	}
}

// moment is how long a command is let alone.
func (n *night) moment(r *rand.Rand) time.Duration {
	return time.Duration(10+r.IntN(pick(r, []int{200, 1200, 3000}))) * time.Millisecond
}

// ready reports whether there are tasks to do in the list.
func (n *night) ready() bool {
	status := n.statuses()
	return slices.ContainsFunc(n.tasks, func(t *task) bool {
		return status[t.ID] != "done" && status[t.ID] != "blocked" &&
			!slices.ContainsFunc(t.Needs, func(need int) bool { return status[need] != "done" })
	})
}

// statuses returns what the lists say of each task: the user's, or that of the run's branch where it is not checked out:
// with --branch, --no-commit, or because he is on one of his own.
func (n *night) statuses() map[int]string {
	away := strings.HasPrefix(n.git("rev-parse", "--abbrev-ref", "HEAD"), "user-")
	status := map[int]string{}
	for tag, name := range map[string]string{"t": list, "u": other} {
		if tag == "u" && len(n.others) == 0 {
			continue
		}
		branch := ""
		switch {
		case n.mode == "branch":
			branch = n.git("for-each-ref", "--format=%(refname)", "refs/heads/nightly") // once there is one
		case n.mode == "no-commit":
			branch = n.git("for-each-ref", "--format=%(refname)", "refs/heads/descartes/"+tag)
		case away: // what the last run over it left, on whatever branch that began
			branch = n.git("log", "-1", "--branches", "-E", "--grep=^(feat|chore)[(]"+tag+"[)]: ", "--format=%H")
		}
		var l struct{ Tasks []task }
		b, err := os.ReadFile(filepath.Join(n.dir, name))
		if branch != "" {
			b, err = []byte(n.git("show", branch+":"+name)), nil
		}
		if err == nil {
			err = json.Unmarshal(b, &l)
		}
		if err != nil {
			n.bad("the task list: %v", err)
		}
		for _, t := range l.Tasks {
			status[t.ID] = t.Status
		}
	}
	return status
}

func (n *night) disturb(r *rand.Rand, c *command, way string) {
	fmt.Fprintf(n.log, "[%s]\n", way)
	all := n.own()
	is := func(name string) func(process) bool { return func(p process) bool { return p.name == name } }
	moment := time.Duration(r.IntN(300)) * time.Millisecond
	switch way {
	case "kill":
		c.signal(syscall.SIGKILL)
	case "group":
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	case "tree":
		r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		n.killAll(all, nil)
	case "agents":
		n.killAll(all, is("sh"))
		c.within(moment)
		c.signal(syscall.SIGKILL)
	case "shim": // of a slot: the run goes on
		n.killAll(all, func(p process) bool {
			return p.pid != c.Process.Pid && strings.HasPrefix(p.name, "descartes")
		})
	case "git":
		n.killAll(all, is("git"))
		c.within(moment / 6)
		c.signal(syscall.SIGKILL)
	case "TERM":
		c.signal(syscall.SIGTERM)
	case "Ctrl-C":
		c.signal(syscall.SIGINT)
	case "Ctrl-C twice":
		c.signal(syscall.SIGINT)
		c.within(moment)
		c.signal(syscall.SIGINT)
	case "two":
		second := n.start("resume")
		c.within(moment)
		c.signal(syscall.SIGKILL)
		second.within(6 * moment)
		second.signal(syscall.SIGKILL)
		<-second.done
	case "pause", "cancel":
		n.start(way).within(longest)
		c.within(10 * moment)
		c.signal(syscall.SIGKILL)
	}
}

type process struct {
	pid  int
	name string
}

// own are the processes of this night, which have its token.
func (n *night) own() (own []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(dir + "/environ")
		if !bytes.Contains(append(env, 0), []byte(n.token()+"\x00")) {
			continue
		}
		stat, _ := os.ReadFile(dir + "/stat")
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && open > 0 && end+2 < len(stat) &&
			!bytes.ContainsAny(stat[end+2:end+3], "ZX") {
			own = append(own, process{pid, string(stat[open+1 : end])})
		}
	}
	return own
}

func (n *night) token() string { return fmt.Sprintf("NIGHT_TOKEN=%d-%d", os.Getpid(), n.seed) }

func (n *night) killAll(all []process, which func(process) bool) {
	for _, p := range all {
		if which == nil || which(p) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// rewind goes back to a wave, killed now and then, and has the rest done again.
func (n *night) rewind(r *rand.Rand) {
	was, wave, code := n.git("rev-parse", "main"), strconv.Itoa(r.IntN(3)), 0
	for try := range 8 {
		after, killed := time.Duration(r.IntN(150))*time.Millisecond, r.IntN(5) < 3
		c := n.start("rewind", "--to-wave", wave, "--scud-tag", "t", "--force")
		if try < 3 && killed && !c.within(after) {
			n.kills++
			n.killAll(n.own(), nil)
		}
		if code = n.end(c); code == 0 || code == 2 {
			break
		}
	}
	switch {
	case code == 0 && !strings.Contains(n.git("branch", "--format=%(refname:short)", "--contains", was),
		"descartes/before-rewind-"):
		n.bad("no branch before-rewind has %s, which was rewound", was)
	case code != 0 && code != 2: // there was no later wave
		n.bad("the rewind ends with %d", code)
	}
	if code := n.end(n.start(n.next(r, true)...)); code != 0 && code != 3 {
		n.bad("after the rewind a start ends with %d", code)
	}
}
