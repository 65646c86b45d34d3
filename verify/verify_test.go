package verify

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"descartes/internal/proc"
)

func newRunner(t *testing.T) *Runner {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sh, err := proc.Start(proc.ShimConfig{Argv: []string{exe, proc.ShimCommand}, Cookie: rand.Text()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sh.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewRunner(sh)
}

func TestRun(t *testing.T) {
	t.Parallel()
	r, dir := newRunner(t), t.TempDir()
	for _, tt := range []struct {
		name, command string
		want          Result
	}{
		{"passes", "echo out; echo err >&2", Result{Passed: true, Tail: "out\nerr\n"}},
		{"fails", "echo no; exit 3", Result{Code: 3, Tail: "no\n", Why: "no"}},
		{"and", "true && false && echo never", Result{Code: 1}},
		{"signal", "echo x; kill -KILL $$", Result{Signal: int(syscall.SIGKILL), Tail: "x\n"}},
		{"slow", "echo begins; sleep 600", Result{TimedOut: true, Overran: "timed out: not finished after 2s",
			Signal: int(syscall.SIGTERM), Tail: "begins\n"}},
		{"silent", "echo begins; sleep 600", Result{TimedOut: true, Overran: "timed out: it printed nothing for 2s",
			Signal: int(syscall.SIGTERM), Tail: "begins\n"}},
		{"removes its log", "rm removes-its-log.log; exit 2", Result{Code: 2}},
		{"leaves a server", "sleep 600 & echo ok", Result{Passed: true, Tail: "ok\n"}},
		{"two lines", "echo a\necho b", Result{Passed: true, Tail: "a\nb\n"}},
		{"its environment", "echo $DESCARTES_TASK_ID; pwd", Result{Passed: true, Tail: "3.1\n" + dir + "\n"}},
		{"no such program", "descartes-no-such-program 2>/dev/null", Result{Code: 127}},
	} {
		q := Request{Label: tt.name, Command: tt.command, Dir: dir, Env: []string{"DESCARTES_TASK_ID=3.1"},
			Log: filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-")+".log"), Grace: time.Second}
		switch tt.name {
		case "slow":
			q.Timeout = 2 * time.Second
		case "silent":
			q.Idle = 2 * time.Second
		}
		got, err := r.Run(t.Context(), q)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got.Duration <= 0 {
			t.Errorf("%s: no duration", tt.name)
		}
		got.Duration = 0
		if tt.name != "removes its log" { // each tail here is all that was printed
			tt.want.Digest = fmt.Sprintf("%x", sha256.Sum256([]byte(tt.want.Tail)))
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestRunAppends(t *testing.T) {
	t.Parallel()
	r, dir := newRunner(t), t.TempDir()
	log := filepath.Join(dir, "new", "log")
	for _, command := range []string{"printf agent", "echo 1\necho 2"} {
		if _, err := r.Run(t.Context(), Request{Label: "x", Command: command, Dir: dir, Log: log}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(log)
	want := "$ printf agent\nagent\n$ echo 1\n> echo 2\n1\n2\n"
	if err != nil || string(text) != want {
		t.Errorf("got %q %v, want %q", text, err, want)
	}
	if res, err := r.Run(t.Context(), Request{Label: "x", Command: "echo x", Dir: dir}); err != nil || !res.Passed ||
		res.Tail != "" {
		t.Errorf("without a log: %+v %v", res, err)
	}
}

func TestRunCancelled(t *testing.T) {
	t.Parallel()
	r, dir := newRunner(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	res, err := r.Run(ctx, Request{Label: "x", Command: "sleep 600", Dir: dir, Log: filepath.Join(dir, "log")})
	if err != nil || !res.Cancelled || res.Passed {
		t.Errorf("got %+v %v", res, err)
	}
}

func TestRunFaults(t *testing.T) {
	t.Parallel()
	r, dir := newRunner(t), t.TempDir()
	for name, q := range map[string]Request{
		"no directory":       {Command: "true", Dir: filepath.Join(dir, "none"), Log: filepath.Join(dir, "log")},
		"log is a directory": {Command: "true", Dir: dir, Log: dir},
		"no shell":           {Command: "true", Dir: dir, Env: []string{"PATH=" + dir}},
		"too long":           {Command: strings.Repeat("x", 128<<10), Dir: dir},
	} {
		if res, err := r.Run(t.Context(), q); err == nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	numbered := strings.Repeat("a line of the log, one of many "+strings.Repeat("x", 60)+"\n", 1000)
	for _, tt := range []struct {
		name, text string
		from       int64
		want       func(string) bool
	}{
		{"empty", "", 0, func(s string) bool { return s == "" }},
		{"short", "a\nb", 0, func(s string) bool { return s == "a\nb" }},
		{"offset", "agent\n$ x\nout\n", 10, func(s string) bool { return s == "out\n" }},
		{"cut short", "ab\n", 10, func(s string) bool { return s == "ab\n" }},
		{"lines", strings.Repeat("x\n", 500), 0, func(s string) bool { return s == strings.Repeat("x\n", 200) }},
		{"lines, none at the end", strings.Repeat("x\n", 500) + "y", 0,
			func(s string) bool { return s == strings.Repeat("x\n", 199)+"y" }},
		{"bytes", numbered, 0, func(s string) bool {
			return len(s) <= tailBytes && len(s) > tailBytes-100 && strings.HasPrefix(s, "a line")
		}},
		{"one line", strings.Repeat("é", 20000), 0, func(s string) bool {
			return len(s) <= tailBytes && len(s) > tailBytes-4
		}},
		{"one line and its end", strings.Repeat("é", 20000) + "\n", 0,
			func(s string) bool { return len(s) > tailBytes-4 }},
		{"invalid", "a\xff\x00b\r\n", 0, func(s string) bool { return s == "a\uFFFDb\n" }},
		{"all invalid", strings.Repeat("\xffa", 20000), 0, func(s string) bool {
			return len(s) <= tailBytes && len(s) > tailBytes/2
		}},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var r Result
		err := r.read(path, tt.from, false)
		got := r.Tail
		if err != nil || !tt.want(got) || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, %q... %v", tt.name, len(got), got[:min(len(got), 60)], err)
		}
	}
	if err := new(Result).read(path+".none", 0, true); err != nil {
		t.Error("missing:", err)
	}
}

func TestTailOfAHugeLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("\nlast words\n"), 10<<30); err != nil { // sparse
		t.Fatal(err)
	}
	got, err := tail(f, 5, 10<<30+12)
	if err != nil || got != "last words\n" {
		t.Errorf("got %q %v", got, err)
	}
}
