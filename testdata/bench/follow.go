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
	"strconv"
	"strings"
	"syscall"
	"time"

	"descartes/agent"
	"descartes/internal/proc"
)

// Arguments that make this program run agents and say what that cost of its own, shim and agents not
// counted: `bench follow BACKEND FILE` one that prints the file, `bench short TIMES` many that do nothing.
const (
	followArg = "follow"
	shortArg  = "short"
)

// stream is a file of one kind of lines.
type stream struct {
	name, backend, begin, again, end string
	line                             int
}

// plainStream is what clients print, with tool results of 10 MB; hostileStreams do their worst.
func plainStream() stream {
	return stream{"plain", "claude", `{"type":"user","message":{"content":[{"type":"tool_result","content":"`, `func main() {\n\tfmt.Println(\"hello\")\n}\n`, `"}]}}` + "\n", 10 << 20}
}

func hostileStreams() []stream {
	const endless = 1 << 30
	return []stream{
		{"one endless string", "claude", `{"x":"`, `words \"and\" \\ more `, "", endless},
		{"nothing but brackets", "claude", `{"x":`, `[{"a":`, "", endless},
		{"small members", "claude", `{"x":0`, `,"a":0`, `}` + "\n", 10 << 20},
		{"an answer of escapes", "codex", `{"item":{"text":"`, `\u00e9\n`, `","type":"agent_message"},"type":"item.completed"}` + "\n", 10 << 20},
		{"invalid UTF-8", "claude", `{"message":{"content":[{"text":"`, "\xff\xfe\xc3", `"}]},"type":"assistant"}` + "\n", 10 << 20},
		{"lines of one letter", "claude", "", "x\n", "", endless},
		{"lines of an event", "opencode", "", `{"type":"step_start"}` + "\n", "", endless},
		{"lines of a word", "gemini", "", `{"type":"message","role":"assistant","content":"a"}` + "\n", "", endless},
	}
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

// following measures reading streams of that size while they are printed, and tells of the worst.
func following(size int, streams ...stream) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		var worst row
		var most float64
		for _, s := range streams {
			path, err := s.write(b.dir, size)
			if err != nil {
				return row{}, err
			}
			var ratios, ours, cats, grown []float64
			for range min(b.rounds, 3) {
				cat, err := b.run(b.dir, "sh", "-c", `cat "$0" | cat >/dev/null`, path)
				if err != nil {
					return row{}, err
				}
				cpu, peak, err := b.self(followArg, s.backend, path)
				if err != nil {
					return row{}, err
				}
				ratios, ours = append(ratios, float64(cpu)/float64(cat.cpu)), append(ours, float64(cpu))
				cats, grown = append(cats, float64(cat.cpu)), append(grown, float64(peak))
			}
			if r := median(ratios); r > most {
				most = r
				worst = row{cpu: ratio(r), note: fmt.Sprintf("%v, cat %v; %.1f MB over idle (%s)", time.Duration(median(ours)).Round(time.Millisecond),
					time.Duration(median(cats)).Round(time.Millisecond), slices.Max(grown)/1e6, s.name)}
			}
			if err := os.Remove(path); err != nil {
				return row{}, err
			}
		}
		return worst, nil
	}
}

// supervision measures what running a program that does nothing as an agent adds to starting it.
func supervision(b *runner) (row, error) {
	const times = 300
	var added []float64
	for range b.rounds {
		bare, ours, err := b.self(shortArg, strconv.Itoa(times))
		if err != nil {
			return row{}, err
		}
		added = append(added, float64(ours-bare)/1e6)
	}
	return row{note: fmt.Sprintf("%.2f ms added", median(added))}, nil
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

// asked does what one of the arguments above asks for.
func asked(args []string) error {
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
	if args[0] == shortArg {
		return short(sh, dir, args[1])
	}
	backend, _ := agent.Lookup(args[1])
	if _, err := agentRun(sh, dir, backend, "true"); err != nil {
		return err
	}
	idle, before := highWater(), cpuTime()
	if _, err := agentRun(sh, dir, backend, "sleep 0.15; cat '"+args[2]+"'"); err != nil {
		return err
	}
	fmt.Println(cpuTime().Nanoseconds()-before.Nanoseconds(), highWater()-idle)
	return nil
}

func agentRun(sh *proc.Shim, dir string, b agent.Backend, script string) (time.Duration, error) {
	b.Command, b.Prompt, b.StdinArgs = []string{"/bin/sh", "-c", script}, agent.ByStdin, nil
	start := time.Now()
	_, err := agent.NewRunner(sh, b).Run(context.Background(), agent.Request{Label: "bench", Prompt: "Do it.\n",
		PromptFile: filepath.Join(dir, "prompt"), Log: filepath.Join(dir, "log"), ErrLog: filepath.Join(dir, "err"), Timeout: time.Hour, Idle: agent.DefaultIdle,
		Clocks: agent.Clocks{Start: agent.DefaultStart, Exit: agent.DefaultExit}})
	return time.Since(start), err
}

// short prints the medians of starting a program and of running it as an agent, in nanoseconds.
func short(sh *proc.Shim, dir, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	backend, _ := agent.Lookup("claude")
	var bare, ours []float64
	for range n {
		start := time.Now()
		cmd := exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "true"}, Env: os.Environ(), Stdin: null, Stdout: null, Stderr: null}
		if err := cmd.Run(); err != nil {
			return err
		}
		bare = append(bare, float64(time.Since(start)))
		took, err := agentRun(sh, dir, backend, "true")
		if err != nil {
			return err
		}
		ours = append(ours, float64(took))
	}
	fmt.Println(int64(median(bare)), int64(median(ours)))
	return nil
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
