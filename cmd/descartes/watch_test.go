//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"descartes/internal/terminal"
)

// viewAt is descartes at a terminal that can show the live view.
type viewAt struct {
	*terminalRun // once it is started
	t            *testing.T
	dir          string
}

// leftScreen is what a terminal is sent when the view gives it back.
const leftScreen = "\x1b[?1049l"

// atView starts a loop in a project of two tasks at a terminal; nil where the machine has no pseudo terminals.
func atView(t *testing.T, agent string, args ...string) *viewAt {
	t.Helper()
	v := newView(t, agent)
	if v != nil {
		v.start(loopStart(args...)...)
	}
	return v
}

func loopStart(args ...string) []string {
	return append([]string{"loop", "start", "--command", "fakeagent", "--sandbox", "off", "--env-pass", "AGENT",
		"--no-commit"}, args...)
}

// newView makes the project; nil where the machine has no pseudo terminals.
func newView(t *testing.T, agent string) *viewAt {
	t.Helper()
	if !haveTerminals(t) {
		return nil
	}
	v := &viewAt{t: t, dir: t.TempDir()}
	v.write("work/.scud/tasks/x.json", `{"tag":"x","tasks":[{"id":1,"title":"Slugs","status":"pending"}]}`)
	v.write("agent", agent)
	v.git("init", "-q")
	v.git("config", "user.name", "a")
	v.git("config", "user.email", "a@b")
	v.commit("start")
	return v
}

func (v *viewAt) git(args ...string) {
	v.t.Helper()
	git := exec.Command("git", args...)
	git.Dir, git.Env = filepath.Join(v.dir, "work"), append(os.Environ(), "HOME="+v.dir)
	if out, err := git.CombinedOutput(); err != nil {
		v.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// commit commits all files of the project.
func (v *viewAt) commit(message string) {
	v.t.Helper()
	v.git("add", "-A")
	v.git("commit", "-q", "-m", message)
}

// descartes is the program in the project.
func (v *viewAt) descartes(args ...string) *exec.Cmd {
	cmd := exec.Command("descartes", args...)
	cmd.Dir = filepath.Join(v.dir, "work")
	cmd.Env = append(os.Environ(), "AGENT="+filepath.Join(v.dir, "agent"), "HOME="+v.dir, "TERM=xterm-256color",
		"LANG=C.UTF-8", "NO_COLOR=1")
	return cmd
}

// start runs it at the terminal.
func (v *viewAt) start(args ...string) {
	v.t.Helper()
	v.terminalRun = startAtTerminal(v.t, v.descartes(args...), 100, 30)
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

// ends waits for the program and returns what its terminal showed after the view had given it back.
func (v *viewAt) ends(code int) string {
	v.t.Helper()
	got, all := v.ended()
	_, after, left := strings.Cut(all, leftScreen)
	if got != code || !left {
		v.t.Errorf("exit status %d, want %d; it showed:\n%s", got, code, all)
	}
	return after
}

// TestViewOfATag looks at a run while it works, opens and closes pages, and finds the summary in the normal screen.
func TestViewOfATag(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: say I look around.\n1: await ../go\n1: write slugs.txt x\n1: say TASK_COMPLETE\n", "--tag", "x",
		"--verify", "true")
	if v == nil {
		return
	}
	v.shows("Running: 1", "Slugs", "I look around.")
	v.press("l")
	v.shows("log of task 1, attempt 1", "I look around.")
	v.press("q?")
	v.shows("its spec: what its agent is given")
	v.press("qs")
	v.shows("spec of task 1, attempt 1", "# Task 1: Slugs")
	v.press("q")
	v.shows("Running: 1")
	v.write("go", "")
	if after := v.ends(exitDone); !strings.Contains(after, "done 1/1 ") || strings.Contains(after, "Slugs started") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestViewOfABuild shows a mode's iterations in the view, with what the agent is given and says; the session log has
// what it said, and the normal screen nothing of it.
func TestViewOfABuild(t *testing.T) {
	t.Parallel()
	v := newView(t, "1: say I look around.\n1: write slugs.txt x\n2: say Second look.\n2: await ../go\n2: write two.txt x\n2: say <promise>COMPLETE</promise>\n")
	if v == nil {
		return
	}
	v.write("work/IMPLEMENTATION_PLAN.md", "- [ ] Slugs\n- [ ] Store\n")
	v.commit("plan")
	v.start("build", "3", "--command", "fakeagent", "--sandbox", "off", "--env-pass", "AGENT", "--verify", "true")
	v.shows("Running", "build: Slugs", "Second look.")
	v.press("l")
	v.shows("log of iteration 2", "Second look.")
	v.press("qjd")
	v.shows("diff of iteration 1", "+++ b/slugs.txt")
	v.press("qks")
	v.shows("prompt of iteration 2", "IMPLEMENTATION_PLAN.md")
	v.press("q")
	v.write("go", "")
	after := v.ends(exitDone)
	if !strings.Contains(after, "session log: ") || strings.Contains(after, "Second look.") {
		t.Errorf("the normal screen has\n%s", after)
	}
	logs, err := filepath.Glob(filepath.Join(v.dir, "work", ".descartes", "runs", "*", "logs", "session*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("session logs: %q, %v", logs, err)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || !strings.Contains(string(text), "Second look.") {
		t.Errorf("the session log: %v\n%s", err, text)
	}
}

// TestViewOfAPromptIsLeft leaves the view of a mode: from then on it prints what the agent says.
func TestViewOfAPromptIsLeft(t *testing.T) {
	t.Parallel()
	v := newView(t, "1: say I look around.\n1: await ../go\n1: say All of it.\n")
	if v == nil {
		return
	}
	v.write("work/p.md", "Look around.\n")
	v.start("prompt", "p.md", "--command", "fakeagent", "--sandbox", "off", "--env-pass", "AGENT")
	v.shows("Look around.", "Running", "I look around.")
	v.press("qk")
	v.shows(leftScreen, "the run keeps running here, in plain lines")
	v.write("go", "")
	v.shows("All of it.\r\n", "session log: ")
	v.ends(exitDone)
}

// TestWatch looks at the run of another process, and leaves it running.
func TestWatch(t *testing.T) {
	t.Parallel()
	v := newView(t, "1: write ../started x\n1: await ../go\n1: write slugs.txt x\n1: say TASK_COMPLETE\n")
	if v == nil {
		return
	}
	run := v.descartes(loopStart("--tag", "x", "--verify", "true")...)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	if err := await(filepath.Join(v.dir, "started")); err != nil {
		t.Fatal(err)
	}
	v.start("loop", "watch")
	v.shows("Running: 1", "Slugs")
	v.press("pt") // t takes nothing back, as nothing was asked
	v.shows("after the running attempt")
	v.press("\x1b")
	v.shows("Running: 1")
	v.press("\x03")
	if after := v.ends(exitDone); !strings.Contains(after, "keeps running (0/1 done): descartes watch ") {
		t.Errorf("the normal screen has\n%s", after)
	}
	v.write("go", "")
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
}

// TestStatusFitsItsTerminal breaks the lines of a status that are longer than the terminal is wide.
func TestStatusFitsItsTerminal(t *testing.T) {
	t.Parallel()
	v := newView(t, "1: write ../started x\n1: await ../go\n1: write slugs.txt x\n1: say TASK_COMPLETE\n")
	if v == nil {
		return
	}
	name := strings.Repeat("night-", 10)
	run := v.descartes(loopStart("--tag", "x", "--verify", "true", "--name", name)...)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	if err := await(filepath.Join(v.dir, "started")); err != nil {
		t.Fatal(err)
	}
	if out, err := v.descartes("loop", "pause").CombinedOutput(); err != nil {
		t.Errorf("pause: %v\n%s", err, out)
	}
	v.start("loop", "status")
	code, text := v.ended()
	if code != exitDone {
		t.Errorf("exit status %d", code)
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if n := terminal.Width(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(text, "  Undo: descartes pause "+name+" --undo\r\n") {
		t.Errorf("it shows\n%s", text)
	}
	v.write("go", "")
	if err := run.Wait(); err != nil { // the pause came when nothing was left to resume
		t.Errorf("the run: %v", err)
	}
}

// TestViewRetries has a blocked task tried again while its loop runs.
func TestViewRetries(t *testing.T) {
	t.Parallel()
	v := newView(t, "1/1: say TASK_BLOCKED: no key\n1/2: write one.txt x\n1/2: say TASK_COMPLETE\n2: await ../go\n2: write two.txt x\n2: say TASK_COMPLETE\n")
	if v == nil {
		return
	}
	v.write("work/.scud/tasks/y.json",
		`{"tag":"y","tasks":[{"id":1,"title":"Slugs","status":"pending"},{"id":2,"title":"Store","status":"pending"}]}`)
	v.start(loopStart("--tag", "y", "--verify", "true", "--allow-dirty")...)
	v.shows("Blocked: 1", "no key", "2 Store") // the view writes what is new in a line
	v.press("r")
	v.shows("Try task 1 again")
	v.press("\r")
	v.shows("tries the task again in its next free slot")
	v.write("go", "")
	if after := v.ends(exitDone); !strings.Contains(after, "done 2/2 ") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestEndWaitsForAnAnswer has a run end while a person writes an answer: the view stays until it is given.
func TestEndWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	v := newView(t, "1: say TASK_BLOCKED: no key\n2: await ../go\n2: write two.txt x\n2: say TASK_COMPLETE\n")
	if v == nil {
		return
	}
	v.write("work/.scud/tasks/y.json",
		`{"tag":"y","tasks":[{"id":1,"title":"Slugs","status":"pending"},{"id":2,"title":"Store","status":"pending"}]}`)
	v.start(loopStart("--tag", "y", "--verify", "true", "--name", "y")...)
	v.shows("Blocked: 1")
	v.press("r")
	v.shows("Try task 1 again")
	v.press("Use ")
	v.write("go", "")
	v.shows("the run has ended; your answer is kept for the next one")
	v.press("hers\r")
	if after := v.ends(exitBlocked); !strings.Contains(after, "descartes resume --name y") {
		t.Errorf("the normal screen has\n%s", after)
	}
	out, err := v.descartes("spec", "1", "--tag", "y").Output()
	if err != nil || !strings.Contains(string(out), "Use hers") {
		t.Errorf("the next agent is given (%v)\n%s", err, out)
	}
}

// TestEndedWhileAnswering ends a run by a signal while a person writes an answer, and so the view.
func TestEndedWhileAnswering(t *testing.T) {
	t.Parallel()
	v := newView(t, "1: say TASK_BLOCKED: no key\n2: await ../never\n")
	if v == nil {
		return
	}
	v.write("work/.scud/tasks/y.json",
		`{"tag":"y","tasks":[{"id":1,"title":"Slugs","status":"pending"},{"id":2,"title":"Store","status":"pending"}]}`)
	v.start(loopStart("--tag", "y", "--verify", "true")...)
	v.shows("Blocked: 1")
	v.press("r")
	v.shows("Try task 1 again")
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	v.ends(exitTerminated)
}

// TestViewIsLeft leaves the view of a run that goes on in plain lines, and ends that by Ctrl-C as ever.
func TestViewIsLeft(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: await ../never\n", "--tag", "x", "--verify", "true")
	if v == nil {
		return
	}
	v.shows("Running: 1")
	v.press("q")
	v.shows("keep it running, in plain lines")
	v.press("k")
	v.shows(leftScreen, "the run keeps running here, in plain lines")
	v.press("\x03")
	v.shows("interrupted: the running attempt is finished first; Ctrl-C again interrupts it\r\n")
	v.press("\x03")
	if after := v.ends(exitInterrupted); !strings.Contains(after, "next: descartes resume") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestViewInterrupted presses Ctrl-C in the view: the first lets the attempt finish, the second ends it.
func TestViewInterrupted(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: await ../never\n", "--tag", "x", "--verify", "true")
	if v == nil {
		return
	}
	v.shows("Running: 1")
	v.press("\x03")
	v.shows("Ctrl-C again ends it now")
	v.press("\x03")
	if after := v.ends(exitInterrupted); !strings.Contains(after, "next: descartes resume") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestViewAsks answers in the view what a loop asks the person at its terminal.
func TestViewAsks(t *testing.T) {
	t.Parallel()
	v := atView(t, "*: say ---LOOP_STATUS---\n*: say CRITERIA: {\"a\": true}\n*: say EXIT_SIGNAL: true\n*: say ---END_STATUS---\n",
		"--prompt", "Fix it", "--criterion", "a", "--set", "shape=colleague", "--set", "loop_state=delete")
	if v == nil {
		return
	}
	v.shows("Here is 1 step. Proceed?")
	v.press("y")
	v.shows("All criteria met. Confirm done?")
	v.press("y")
	if after := v.ends(exitDone); !strings.Contains(after,
		"completed: every criterion is met and a person confirmed it") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestViewAsksInABuild answers a gate's questions in the view of a mode.
func TestViewAsksInABuild(t *testing.T) {
	t.Parallel()
	v := newView(t, "*: say ---LOOP_STATUS---\n*: say CRITERIA: {\"a\": true}\n*: say EXIT_SIGNAL: true\n*: say ---END_STATUS---\n*: write slugs.txt x\n")
	if v == nil {
		return
	}
	v.write("work/IMPLEMENTATION_PLAN.md", "- [ ] Slugs\n")
	v.commit("plan")
	v.start("build", "3", "--command", "fakeagent", "--sandbox", "off", "--env-pass", "AGENT", "--verify", "true",
		"--criterion", "a", "--set", "shape=colleague", "--set", "loop_state=delete")
	v.shows("The run asks", "Here is 1 step. Proceed?")
	v.press("y")
	v.shows("All criteria met. Confirm done?")
	v.press("y")
	if after := v.ends(exitDone); !strings.Contains(after,
		"completed: every criterion is met and a person confirmed it") {
		t.Errorf("the normal screen has\n%s", after)
	}
}

// TestPlainLines asks for lines at a terminal.
func TestPlainLines(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: write slugs.txt x\n1: say TASK_COMPLETE\n", "--tag", "x", "--verify", "true", "--plain")
	if v == nil {
		return
	}
	v.shows("  1 Slugs started\r\n", "done 1/1 ")
	if code, text := v.ended(); code != exitDone || strings.Contains(text, "\x1b[?1049h") {
		t.Errorf("exit status %d, or it left the normal screen:\n%s", code, text)
	}
}

// TestRunOutlivesItsView closes the terminal of a run that is shown: it ends well all the same.
func TestRunOutlivesItsView(t *testing.T) {
	t.Parallel()
	v := atView(t, "1: await ../go\n1: write slugs.txt x\n1: say TASK_COMPLETE\n", "--tag", "x", "--verify", "true")
	if v == nil {
		return
	}
	v.shows("Running: 1")
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
