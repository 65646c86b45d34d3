package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// field is a real repository with a tag, a scripted agent and a ledger of what that did, in which
// the real program is run and disturbed.
type field struct {
	root   string // the repository
	aside  string // outside of it: the ledger, the agent's memory, what descartes printed
	plan   fieldPlan
	flags  []string
	env    []string // of every run
	runs   int
	dirty  string // what git status has to say at the end
	killed bool   // so did the last run end
}

// verifyLine passes where the work is good, and says so in the ledger last.
func (f *field) verifyLine() string {
	return `read -r word rest <work-$SCUD_TASK_ID.txt && [ "$word" = good ] && echo "verified $SCUD_TASK_ID $DESCARTES_ATTEMPT" >>` + terminal.Quote(f.aside+"/ledger")
}

// newField makes a committed repository for a plan.
func newField(t *testing.T, p fieldPlan, flags ...string) *field {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &field{root: filepath.Join(dir, "project"), aside: filepath.Join(dir, "aside"), plan: p}
	f.flags = append([]string{"--scud-tag", "t", "--command", "sh " + f.aside + "/agent.sh " + f.aside, "--verify", f.verifyLine(), "--json"}, flags...)
	for name, text := range map[string]string{
		f.aside + "/agent.sh":          p.agentScript(),
		f.root + "/.scud/tasks/t.json": string(p.taskFile()),
		f.root + "/shared.txt":         "0\n",
		f.root + "/.gitignore":         "cache/\n",
		f.root + "/cache/kept":         "the user's\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.git(t, "init", "-q", "-b", "main")
	f.git(t, "config", "user.name", "A U Thor")
	f.git(t, "config", "user.email", "author@example.org")
	f.git(t, "add", ".")
	f.git(t, "commit", "-q", "-m", "start")
	t.Cleanup(func() { // nothing outlives a test, whatever it found
		if _, err := proc.Sweep(cookieOf(f.root)); err != nil {
			t.Error(err)
		}
	})
	return f
}

// put writes a file of the repository.
func (f *field) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.root, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fieldEnv(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"DESCARTES_SANDBOX=off", "DESCARTES_BASELINE=off"}, more...) // its agents keep books outside the repository, and verify reads them
}

func (f *field) git(t *testing.T, args ...string) string {
	t.Helper()
	r, err := proc.Output(context.Background(), proc.Call{Argv: append([]string{"git"}, args...), Dir: f.root, Env: fieldEnv()})
	if err != nil || r.Code != 0 {
		t.Fatalf("git %s: exit %d, %v\n%s%s", strings.Join(args, " "), r.Code, err, r.Stdout, r.Stderr)
	}
	return string(r.Stdout) + string(r.Stderr)
}

// program builds the real program, once, beside the test's own, in a folder that go test removes.
var program = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), "descartes-under-test")
	r, err := proc.Output(context.Background(), proc.Call{Argv: []string{"go", "build", "-buildvcs=false", "-tags", fieldTags, "-o", path, "."}})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("go build: %s", r.Stderr)
	}
	return path, err
})

// launch is one process of the program at work in a field.
type launch struct {
	f      *field
	argv   []string
	p      *os.Process
	stdout string
	stderr string
	began  time.Time
	ended  chan struct{}
	state  *os.ProcessState // once ended is closed
}

// begin starts the program with a loop command: start, resume.
func (f *field) begin(t *testing.T, verb string, env ...string) *launch {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{path, "loop", verb}
	if verb == "resume" {
		argv = append(argv, "--json")
	} else {
		argv = append(argv, f.flags...)
	}
	return f.launch(t, argv, fieldEnv(append(env, f.env...)...))
}

// launch starts the program.
func (f *field) launch(t *testing.T, argv, env []string) *launch {
	t.Helper()
	f.runs++
	var err error
	base := fmt.Sprintf("%s/run-%d.", f.aside, f.runs)
	r := &launch{f: f, argv: argv, stdout: base + "out", stderr: base + "err", ended: make(chan struct{})}
	var files [3]*os.File
	for i, name := range []string{os.DevNull, r.stdout, r.stderr} {
		if files[i], err = os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	r.began = time.Now()
	r.p, err = os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: f.root, Env: env, Files: files[:]})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		r.state, _ = r.p.Wait()
	}()
	t.Cleanup(func() { // a failed test leaves none behind
		_ = r.p.Kill()
		<-r.ended
	})
	return r
}

// patience is how long anything may take on a machine that has other things to do.
const patience = 3 * time.Minute

// wait waits for the end and returns the exit status, or minus the number of the signal.
func (r *launch) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		_ = r.p.Signal(syscall.SIGQUIT)
		<-r.ended
		t.Fatalf("the program did not end:\n%s", r.errors(t))
	}
	if ws, ok := r.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.f.killed = true
		return -int(ws.Signal())
	}
	r.f.killed = false
	return r.state.ExitCode()
}

func (r *launch) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

func (r *launch) errors(t *testing.T) string { return readText(t, r.stderr) }

// announced are the tasks of which the run said on stdout that they are done.
func (r *launch) announced(t *testing.T) (done []string) {
	for line := range strings.Lines(readText(t, r.stdout)) {
		var e journal.Event
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &e) == nil && e.Type == journal.TaskDone {
			done = append(done, e.Task)
		}
	}
	return done
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// note is a line of the ledger: start, end or verified.
type note struct {
	what, task string
	attempt    int
}

func (f *field) ledger(t *testing.T) (notes []note) {
	t.Helper()
	for line := range strings.Lines(readText(t, f.aside+"/ledger")) {
		var n note
		if k, err := fmt.Sscanf(line, "%s %s %d\n", &n.what, &n.task, &n.attempt); k != 3 {
			t.Fatalf("ledger: %q: %v", line, err)
		}
		notes = append(notes, n)
	}
	return notes
}

// until waits for a condition to come true.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !true(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// carriers are the processes that carry the mark of this field's loops.
func (f *field) carriers(t *testing.T) (found []string) {
	t.Helper()
	mark := []byte(proc.CookieVar + "=" + cookieOf(f.root) + "\x00")
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, mark) {
			name, _ := os.ReadFile(filepath.Dir(path) + "/cmdline")
			found = append(found, filepath.Dir(path)+" "+string(bytes.ReplaceAll(name, []byte{0}, []byte{' '})))
		}
	}
	return found
}
