package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// viewAt is descartes at a terminal that can show the live view.
type viewAt struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	dir  string
	seen shownText
	from int
	done chan struct{}
}

// leftScreen is what a terminal is sent when the view gives it back.
const leftScreen = "\x1b[?1049l"

// atView starts descartes in a project of one task or prompt; nil where the machine has no pseudo terminals.
func atView(t *testing.T, agent string, args ...string) *viewAt {
	t.Helper()
	ours, theirs, ok := pseudoTerminal(t)
	if !ok {
		t.Log("this machine has no pseudo terminals")
		return nil
	}
	defer theirs.Close()
	if err := unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 100, Row: 30}); err != nil {
		t.Fatal(err)
	}
	v := &viewAt{t: t, tty: ours, dir: t.TempDir(), done: make(chan struct{})}
	work := filepath.Join(v.dir, "work")
	v.write("work/.scud/tasks/x.json", `{"tag":"x","tasks":[{"id":1,"title":"Slugs","status":"pending"}]}`)
	v.write("agent", agent)
	for _, a := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "start"}} {
		git := exec.Command("git", a...)
		git.Dir, git.Env = work, append(os.Environ(), "HOME="+v.dir, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", a, err, out)
		}
	}
	v.cmd = exec.Command("descartes", append([]string{"loop", "start", "--command", "fakeagent", "--sandbox", "off", "--env-pass", "AGENT", "--no-commit"}, args...)...)
	v.cmd.Dir, v.cmd.Stdin, v.cmd.Stdout, v.cmd.Stderr = work, theirs, theirs, theirs
	v.cmd.Env = append(os.Environ(), "AGENT="+filepath.Join(v.dir, "agent"), "HOME="+v.dir, "TERM=xterm-256color", "LANG=C.UTF-8", "NO_COLOR=1")
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(v.done)
		_, _ = io.Copy(&v.seen, ours) // ends with an error when the program has ended
	}()
	return v
}

func (v *viewAt) write(name, text string) {
	v.t.Helper()
	path := filepath.Join(v.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// shows waits until each text is shown, one after the other.
func (v *viewAt) shows(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		waitFor(v.t, &v.seen, &v.from, text)
	}
}

func (v *viewAt) press(keys string) {
	v.t.Helper()
	if _, err := io.WriteString(v.tty, keys); err != nil {
		v.t.Fatal(err)
	}
}

// ends waits for the program and returns what its terminal showed after the view had given it back.
func (v *viewAt) ends(code int) string {
	v.t.Helper()
	err := v.cmd.Wait()
	<-v.done
	got := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	}
	all := v.seen.text()
	_, after, left := strings.Cut(all, leftScreen)
	if got != code || !left {
		v.t.Errorf("exit status %d, want %d; it showed:\n%s", got, code, all)
	}
	return after
}

// TestViewOfATag looks at a run while it works, opens and closes pages, and finds the summary in the normal screen.
func TestViewOfATag(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: say I look around.\n1: await ../go\n1: write slugs.txt x\n1: say TASK_COMPLETE\n", "--scud-tag", "x", "--verify", "true")
	if v == nil {
		return
	}
	v.shows("SCUD Loop: x", "Current Task", "Slugs", "I look around.")
	v.press("l")
	v.shows("log of task 1, attempt 1", "I look around.")
	v.press("q?")
	v.shows("its spec: what its agent is given")
	v.press("qs")
	v.shows("spec of task 1, attempt 1", "# Task 1: Slugs")
	v.press("q")
	v.shows("Current Task")
	v.write("go", "")
	if after := v.ends(exitDone); !strings.Contains(after, "done 1/1 ") || strings.Contains(after, "Slugs started") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestViewIsLeft leaves the view of a run that goes on in plain lines, and ends that by Ctrl-C as ever.
func TestViewIsLeft(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: await ../never\n", "--scud-tag", "x", "--verify", "true")
	if v == nil {
		return
	}
	v.shows("Current Task")
	v.press("q")
	v.shows("keep it running, in plain lines")
	v.press("k")
	v.shows(leftScreen, "the loop keeps running here, in plain lines")
	v.press("\x03")
	v.shows("interrupted: the running attempt is finished first; Ctrl-C again interrupts it\r\n")
	v.press("\x03")
	if after := v.ends(exitInterrupted); !strings.Contains(after, "next: descartes loop resume") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestViewInterrupted presses Ctrl-C in the view: the first lets the attempt finish, the second ends it.
func TestViewInterrupted(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: await ../never\n", "--scud-tag", "x", "--verify", "true")
	if v == nil {
		return
	}
	v.shows("Current Task")
	v.press("\x03")
	v.shows("Ctrl-C again ends it now")
	v.press("\x03")
	if after := v.ends(exitInterrupted); !strings.Contains(after, "next: descartes loop resume") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestViewAsks answers in the view what a loop asks the person at its terminal.
func TestViewAsks(t *testing.T) {
	t.Parallel()
	v := atView(t, "*: say ---LOOP_STATUS---\n*: say CRITERIA: {\"a\": true}\n*: say EXIT_SIGNAL: true\n*: say ---END_STATUS---\n",
		"--prompt", "Fix it", "--criterion", "a", "--shape", "colleague", "--loop-state", "delete")
	if v == nil {
		return
	}
	v.shows("Here is 1 step. Proceed?")
	v.press("y")
	v.shows("All criteria met. Confirm done?")
	v.press("y")
	if after := v.ends(exitDone); !strings.Contains(after, "completed: every criterion is met and a person confirmed it") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestPlainLines asks for lines at a terminal.
func TestPlainLines(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: write slugs.txt x\n1: say TASK_COMPLETE\n", "--scud-tag", "x", "--verify", "true", "--plain")
	if v == nil {
		return
	}
	v.shows("  1 Slugs started\r\n", "done 1/1 ")
	if err := v.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if <-v.done; strings.Contains(v.seen.text(), "\x1b[?1049h") {
		t.Errorf("it left the normal screen:\n%s", v.seen.text())
	}
}

// TestRunOutlivesItsView closes the terminal of a run that is shown: it ends well all the same.
func TestRunOutlivesItsView(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: await ../go\n1: write slugs.txt x\n1: say TASK_COMPLETE\n", "--scud-tag", "x", "--verify", "true")
	if v == nil {
		return
	}
	v.shows("Current Task")
	v.tty.Close() // SIGHUP for the run, and an error for each of its reads and writes
	v.write("go", "")
	if err := v.cmd.Wait(); err != nil {
		t.Errorf("the run: %v", err)
	}
	state, err := os.ReadFile(filepath.Join(v.dir, "work", ".descartes", "loop-state.json"))
	if err != nil || !strings.Contains(string(state), `"all_tasks_done"`) {
		t.Errorf("%v\n%s", err, state)
	}
}
