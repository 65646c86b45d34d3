//go:build unix

package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
	"descartes/internal/proc"
)

// measureCommand makes the test binary a program of its own that runs a fake
// agent and says how much memory that took: measureCommand DIALECT DIR.
const measureCommand = "__measure"

type measured struct {
	Outcome    string
	Bytes      int64
	Idle, Peak int64 // of our memory, before the run and in all
}

func measure(dialect, dir string) (m measured, err error) {
	exe, err := os.Executable()
	if err != nil {
		return m, err
	}
	sh, err := proc.Start(proc.ShimConfig{Argv: []string{exe, proc.ShimCommand}})
	if err != nil {
		return m, err
	}
	defer sh.Close()
	b, _ := Lookup(tongues()[dialect].backend)
	b.Prompt, b.StdinArgs = ByStdin, nil
	for _, manner := range []string{"good", "large output"} {
		m.Idle, b.Command = highWater(), []string{exe, fakeCommand, dialect, manner}
		res, err := NewRunner(sh, b).Run(context.Background(), Request{Label: manner, Prompt: samplePrompt,
			PromptFile: filepath.Join(dir, "prompt"), Dir: dir, Log: filepath.Join(dir, manner),
			ErrLog: filepath.Join(dir, "err"), Timeout: 5 * time.Minute})
		if err != nil {
			return m, err
		}
		m.Outcome, m.Bytes = outcome(res), res.Bytes
	}
	m.Peak = highWater()
	return m, nil
}

// highWater is the most memory that this process ever had; 0 where the system does not tell.
func highWater() (kb int64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			fmt.Sscan(text, &kb)
		}
	}
	return kb << 10
}

// A gigabyte of output, in lines of ten megabytes and many short ones, takes
// some of the disk's room and next to none of ours.
func TestLargeOutput(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dialect := range []string{"claude", "text"} {
		dir := t.TempDir()
		out := filepath.Join(dir, "measured")
		exit, err := s.shim.Run(t.Context(), process.Command{Label: dialect,
			Argv: []string{exe, measureCommand, dialect, dir}, Stdout: out, Stderr: out})
		text, rerr := os.ReadFile(out)
		var m measured
		if err != nil || rerr != nil || exit.Code != 0 || json.Unmarshal(text, &m) != nil {
			t.Fatalf("%s: %v %v %v %s", dialect, exit, err, rerr, text)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if m.Idle == 0 {
			t.Log("this system does not tell how much memory was used")
		}
		t.Logf("%s: %d MB, %.1f MB before it, %.1f MB at most, %v", dialect, m.Bytes>>20, float64(m.Idle)/1e6,
			float64(m.Peak)/1e6, exit.Took)
		if m.Outcome != "complete" || m.Bytes < 1<<28 || dialect == "claude" && m.Bytes < 1<<30 || m.Peak > 64<<20 ||
			m.Peak-m.Idle > 3*stream.MaxLine {
			t.Errorf("%s: %+v", dialect, m)
		}
	}
}
