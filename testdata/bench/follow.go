package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"descartes/agent"
	"descartes/internal/proc"
)

// followArg makes this program follow an agent that prints a file, and say what that cost of its own, shim and agent
// not counted: `bench follow BACKEND FILE`.
const followArg = "follow"

// stream is a file of one kind of lines.
type stream struct {
	backend, begin, again, end string
	line                       int
}

// plainStream is what clients print, with tool results of 10 MB.
func plainStream() stream {
	return stream{"claude", `{"type":"user","message":{"content":[{"type":"tool_result","content":"`,
		`func main() {\n\tfmt.Println(\"hello\")\n}\n`, `"}]}}` + "\n", 10 << 20}
}

// write makes a file of about that size, and returns its path.
func (s stream) write(dir string, size int) (string, error) {
	path := filepath.Join(dir, "stream")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	piece := bytes.Repeat([]byte(s.again), 1<<20/len(s.again))
	for n := 0; n < size && err == nil; {
		_, err = f.WriteString(s.begin)
		for line := 0; line < s.line && n < size && err == nil; line, n = line+len(piece), n+len(piece) {
			_, err = f.Write(piece)
		}
		if err == nil {
			_, err = f.WriteString(s.end)
		}
	}
	return path, errors.Join(err, f.Close())
}

// following measures reading a stream of that size while it is printed.
func following(size int, s stream) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		path, err := s.write(b.dir, size)
		if err != nil {
			return row{}, err
		}
		defer os.Remove(path)
		var ratios, grown []float64
		for range b.rounds {
			cat, err := b.run(b.dir, "sh", "-c", `cat "$0" | cat >/dev/null`, path)
			if err != nil {
				return row{}, err
			}
			cpu, peak, err := b.self(followArg, s.backend, path)
			if err != nil {
				return row{}, err
			}
			ratios, grown = append(ratios, float64(cpu)/float64(cat.cpu)), append(grown, float64(peak))
		}
		return row{cpu: ratio(median(ratios)), note: fmt.Sprintf("%.1f MB over idle", slices.Max(grown)/1e6)}, nil
	}
}

// self runs this program, which prints two numbers.
func (b *runner) self(args ...string) (x, y int64, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir, cmd.Stderr = b.dir, os.Stderr
	out, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &x, &y)
	}
	return x, y, err
}

// follow prints what following an agent costs in CPU time, nanoseconds, and memory, bytes.
func follow(name, path string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	sh, err := proc.Start(proc.ShimConfig{Argv: []string{exe, proc.ShimCommand}})
	if err != nil {
		return err
	}
	defer sh.Close()
	dir, err := os.MkdirTemp(".", "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	backend, _ := agent.Lookup(name)
	if err := agentRun(sh, dir, backend, "true"); err != nil {
		return err
	}
	idle, before := highWater(), cpuTime()
	if err := agentRun(sh, dir, backend, "sleep 0.15; cat '"+path+"'"); err != nil {
		return err
	}
	fmt.Println(cpuTime().Nanoseconds()-before.Nanoseconds(), highWater()-idle)
	return nil
}

func agentRun(sh *proc.Shim, dir string, b agent.Backend, script string) error {
	b.Command, b.Prompt, b.StdinArgs = []string{"/bin/sh", "-c", script}, agent.ByStdin, nil
	_, err := agent.NewRunner(sh, b).Run(context.Background(), agent.Request{Label: "bench", Prompt: "Do it.\n",
		PromptFile: filepath.Join(dir, "prompt"), Log: filepath.Join(dir, "log"), ErrLog: filepath.Join(dir, "err"),
		Timeout: time.Hour, Idle: agent.DefaultIdle,
		Clocks: agent.Clocks{Start: agent.DefaultStart, Exit: agent.DefaultExit}})
	return err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// highWater is the most memory that this process ever had, in bytes; 0 where the system does not tell.
func highWater() (n int64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(kb, &n)
		}
	}
	return n << 10
}
