//go:build unix

package acp

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "__acp":
			os.Exit(Serve(os.Args[2:]))
		case "__script":
			actScript(os.Args[2])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// told is what a bridge printed and how it ended.
type told struct {
	events []event
	code   int
	stderr string
	took   time.Duration
}

// launched is a bridge that runs.
type launched struct {
	cmd         *exec.Cmd
	out, errors *bytes.Buffer
	log         string
	start       time.Time
}

// launch starts a bridge with a scripted agent in dir.
func launch(t *testing.T, dir, scenario string, more ...string) *launched {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"__acp"}, more...)
	l := &launched{cmd: exec.Command(exe, append(args, "--", exe, "__script", scenario)...), errors: &bytes.Buffer{},
		log: filepath.Join(t.TempDir(), "log"), start: time.Now()}
	l.cmd.Dir, l.cmd.Stdin, l.cmd.Stderr = dir, strings.NewReader("Do it. Say <promise>COMPLETE</promise>.\n"),
		l.errors
	log, err := os.Create(l.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l.cmd.Stdout = log
	l.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "SCRIPTED_API_KEY="+os.Getenv("SCRIPTED_TEST_KEY"))
	for n, a := range more {
		if a == "--key" { // for the agent, not for package acp
			l.cmd.Args = append(l.cmd.Args[:2+n], l.cmd.Args[3+n:]...)
			l.cmd.Env = append(l.cmd.Env, "SCRIPTED_API_KEY=secret")
		}
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return l
}

// await waits until package acp has printed a text.
func (l *launched) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(l.log); err == nil && bytes.Contains(b, []byte(text)) {
			return
		}
	}
	t.Fatalf("%q is never printed", text)
}

func (l *launched) end(t *testing.T) told {
	t.Helper()
	_ = l.cmd.Wait() // the code tells
	out := told{code: l.cmd.ProcessState.ExitCode(), stderr: l.errors.String(), took: time.Since(l.start)}
	b, err := os.ReadFile(l.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line[:min(200, len(line))], err)
		}
		out.events = append(out.events, e)
	}
	return out
}

func play(t *testing.T, dir, scenario string, more ...string) told {
	t.Helper()
	return launch(t, dir, scenario, more...).end(t)
}

func (o told) last() event {
	if len(o.events) == 0 {
		return event{}
	}
	return o.events[len(o.events)-1]
}

// text is the message, whole.
func (o told) text() (s string) {
	for _, e := range o.events {
		if e.Type == "text" {
			s += e.Text
		}
	}
	return s
}

func (o told) of(kind string) (list []event) {
	for _, e := range o.events {
		if e.Type == kind {
			list = append(list, e)
		}
	}
	return list
}

func TestGoodRun(t *testing.T) {
	t.Parallel()
	out := play(t, t.TempDir(), "good")
	var kinds []string
	for _, e := range out.events {
		kinds = append(kinds, e.Type)
	}
	want := "agent session user thought text tool tool plan text text text usage end"
	if got := strings.Join(kinds, " "); got != want || out.code != 0 {
		t.Fatalf("got %s and code %d, want %s", got, out.code, want)
	}
	if e := out.events[0]; e.Name != "scripted" || e.Version != "7" {
		t.Errorf("agent %+v", e)
	}
	if e := out.events[6]; e.Status != "completed" || e.Title != "make it" || e.Text != "made" || len(e.Paths) != 1 {
		t.Errorf("tool %+v", e)
	}
	if u := out.of("usage")[0].ACPUsage; *u != (usage{Input: 900, Output: 30, CacheRead: 100, Total: 1030, USD: 0.25,
		Context: 500}) {
		t.Errorf("usage %+v", *u)
	}
	if e := out.last(); !e.OK || e.Stop != "end_turn" {
		t.Errorf("end %+v", e)
	}
}

// wild is a tree with a bit of everything, and what is around it.
func wild(t *testing.T) (tree, around string) {
	t.Helper()
	around, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree = filepath.Join(around, "tree")
	for _, dir := range []string{"sub", ".git", ".descartes"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"tree/in.txt": "one\ntwo\nthree", "out.txt": "theirs\n",
		"tree/.git/config": "kept\n", "tree/sub/target": "old\n"} {
		if err := os.WriteFile(filepath.Join(around, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": around, "dangling": "../nowhere",
		"inner": filepath.Join(tree, "sub", "target")} {
		if err := os.Symlink(target, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(tree, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	return tree, around
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	tree, _ := wild(t)
	out := play(t, tree, "ask")
	want := []string{"once", "once", "no", "no", "no", "no", "no", "no", "no", "no", "no", // edits
		"once", "once", "no", "once", "once", "once", "no", "once"}
	answers := strings.Split(strings.TrimSpace(out.text()), "\n")
	if len(answers) != len(want) {
		t.Fatalf("%d answers: %q", len(answers), answers)
	}
	for n, w := range want {
		if !strings.Contains(answers[n], `"optionId":"`+w+`"`) {
			t.Errorf("%d: got %s, want %s", n, answers[n], w)
		}
	}
	denied := out.of("denied")
	if len(denied) != 11 || denied[1].Title != "edit /etc/passwd" ||
		denied[1].Text != "/etc/passwd is outside the working tree" ||
		!strings.Contains(denied[4].Text, "not the agent's to change") ||
		denied[8].Text != "it does not say which file" {
		t.Errorf("denied %+v", denied)
	}
}

func TestPermissionOfAKnownCall(t *testing.T) {
	t.Parallel()
	out := play(t, t.TempDir(), "ask-later")
	answers := strings.Split(strings.TrimSpace(out.text()), "\n")
	for n, want := range []string{`"outcome":"cancelled"`, `"optionId":"yes"`, `"outcome":"cancelled"`,
		`"code":-32601`} {
		if n >= len(answers) || !strings.Contains(answers[n], want) {
			t.Errorf("%d: got %q, want %s", n, answers, want)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	tree, around := wild(t)
	out := play(t, tree, "files")
	answers := strings.Split(strings.TrimSpace(out.text()), "\n")
	want := []string{"Method not found", "{}", "{}", "{}", "not allowed: ../out.txt is outside",
		"outside the working tree", "a link to nothing", "not the agent's", "not the agent's", "not the agent's",
		"not a regular file", "not a regular file", "Invalid params"}
	for n, w := range want {
		if n >= len(answers) || !strings.Contains(answers[n], w) {
			t.Errorf("%d: got %q, want %s", n, answers[min(n, len(answers)-1)], w)
		}
	}
	for name, text := range map[string]string{"tree/in.txt": "new\n", "tree/deep/er/new.txt": "made\n",
		"tree/sub/target": "through a link\n", "out.txt": "theirs\n", "tree/.git/config": "kept\n"} {
		if b, err := os.ReadFile(filepath.Join(around, name)); err != nil || string(b) != text {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	if info, err := os.Stat(filepath.Join(tree, "in.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("permissions changed: %v %v", info.Mode(), err)
	}
	if _, err := os.Lstat(filepath.Join(around, "nowhere")); err == nil {
		t.Error("written through a link that led to nothing")
	}
	if left, _ := filepath.Glob(filepath.Join(tree, ".descartes-*")); left != nil {
		t.Errorf("left behind: %q", left)
	}
	if n := len(out.of("denied")); n != 6 {
		t.Errorf("%d denied, want 6", n)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scenario string
		code     int
		word     string
		status   int
		text     string
	}{
		{"dies", 3, "exited", 3, "it ended without an answer to session/prompt (exit status 3)"},
		{"dies-first", 41, "exited", 41, "it ended without an answer to initialize (exit status 41)"},
		{"leaves", 1, "exited", 0, "it ended without an answer to session/prompt (exit status 0)"},
		{"killed", 137, "exited", 0, "it ended without an answer to session/prompt (ended by signal 9 (SIGKILL))"},
		{"version", 1, "invalid_request", 0,
			"it speaks version 2 of the Agent Client Protocol, and descartes version 1"},
		{"refuses", 1, "refusal", 0, "the model refuses to continue this task"},
		{"tokens", 1, "error_max_tokens", 0, "the model's answer reached its length limit"},
		{"turns", 1, "error_max_turn_requests", 0, "it reached its limit of requests in a turn"},
		{"gives-up", 1, "cancelled", 0, "it cancelled the turn without being asked to"},
		{"new-stop", 1, "", 0, `it stopped for an unknown reason: "sunset"`},
		{"limit", 1, "", 429, "You have exhausted your daily quota on this model."},
		{"broken", 1, "", 0, "Internal error: the model server is down"},
		{"raw", 1, "", 400, "API key not valid. INVALID_ARGUMENT"},
		{"login", 1, "authentication", 0, "or set SCRIPTED_API_KEY"},
	} {
		out := play(t, t.TempDir(), tt.scenario)
		if e := out.last(); e.OK || out.code != tt.code || e.Word != tt.word || e.Code != tt.status ||
			!strings.Contains(e.Text, tt.text) {
			t.Errorf("%s: code %d, %+v %s", tt.scenario, out.code, e, out.stderr)
		}
	}
}

func TestLoginWithAKey(t *testing.T) {
	t.Parallel()
	if out := play(t, t.TempDir(), "login", "--key"); !out.last().OK {
		t.Errorf("got %+v", out)
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ scenario, model, text, inUse, bad string }{
		{"models", "", "", "small", ""},
		{"models", "big", `"modelId":"big"`, "big", ""},
		{"models", "big one", `"modelId":"big"`, "big", ""},
		{"models", "small", "", "small", ""},
		{"models", "huge", "", "small", `it has no model "huge", only small, big`},
		{"options", "big", `"configId":"m","sessionId":"s1","value":"big"`, "big", ""},
		{"options", "", "", "small", ""},
		{"no-models", "big", "", "", "its model cannot be chosen here: leave out --model big"},
	} {
		var more []string
		if tt.model != "" {
			more = []string{"--model", tt.model}
		}
		out := play(t, t.TempDir(), tt.scenario, more...)
		e := out.last()
		if e.OK != (tt.bad == "") || !strings.Contains(e.Text, tt.bad) || !strings.Contains(out.text(), tt.text) ||
			out.of("session")[0].Model != tt.inUse {
			t.Errorf("%s %s: got %+v", tt.scenario, tt.model, out)
		}
		if tt.bad != "" && e.Word != "model_not_found" {
			t.Errorf("%s %s: word %q", tt.scenario, tt.model, e.Word)
		}
	}
}

// A session in which nothing may be written is no use, unless it was asked for.
func TestMode(t *testing.T) {
	t.Parallel()
	// the scenario is an argument
	for scenario, want := range map[string]string{"reads": `"modeId":"full-access"`, "read-only": "",
		"trusted": `"modeId":"full-access"`, "-c sandbox_mode=workspace-write": "",
		"judges": `"modeId":"default"`, "plans": ""} {
		out := play(t, t.TempDir(), scenario)
		if e := out.last(); !e.OK || !strings.Contains(out.text(), want) || want == "" && out.text() != "" {
			t.Errorf("%s: got %+v", scenario, out)
		}
	}
}

// A call is told of anew once it is known what it is called with.
func TestCallsAreNamed(t *testing.T) {
	t.Parallel()
	var got []string
	for _, e := range play(t, t.TempDir(), "names-later").of("tool") {
		got = append(got, strings.Join([]string{e.Status, e.Title, e.Command, strings.Join(e.Paths, " ")}, "|"))
	}
	want := []string{"pending|Terminal||", "pending|make check|make check|", "completed|make check|make check|",
		"pending|Write||", "pending|Write||a.txt", "in_progress|Shell|go vet|", "pending|Fetch||"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for scenario, want := range map[string]usage{"last-only": {USD: 0.5, Context: 1400},
		"meta": {Input: 7, Output: 3}, "models' meta": {Input: 90, Output: 4, CacheRead: 6, Total: 100}} {
		out := play(t, t.TempDir(), scenario)
		if got := out.of("usage"); len(got) != 1 || *got[0].ACPUsage != want {
			t.Errorf("%s: got %+v", scenario, got)
		}
		if got := out.of("session"); strings.Contains(scenario, "meta") && got[len(got)-1].Model != "writer" {
			t.Errorf("%s: got %+v", scenario, got)
		}
	}
	for _, scenario := range []string{"no-models", "odd meta"} {
		if out := play(t, t.TempDir(), scenario); out.of("usage") != nil || !out.last().OK {
			t.Errorf("%s: nothing was told: %+v", scenario, out)
		}
	}
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	out := play(t, t.TempDir(), "nonsense")
	if got := out.text(); !strings.HasPrefix(got, "fine[{") || !strings.Contains(got, "-32601") || !out.last().OK {
		t.Errorf("got %q, %+v", got, out.last())
	}
	if n := out.of("noise"); len(n) != 7 || n[0].Text != "Welcome!" {
		t.Errorf("noise %+v", n)
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	tree, _ := wild(t)
	out := play(t, tree, "long")
	if got := out.text(); !strings.Contains(got, "is too long") || !strings.HasSuffix(got, "still here") ||
		!out.last().OK {
		t.Errorf("got %q, %+v %s", got, out.last(), out.stderr)
	}
	if n := out.of("noise"); len(n) != 1 || n[0].Bytes != 40<<20+1 {
		t.Errorf("noise %+v", n)
	}
	if tool := out.of("tool"); len(tool) != 1 || len(tool[0].Text) > outputLimit+10 {
		t.Errorf("%d tools", len(tool))
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	if out := play(t, t.TempDir(), "flood"); len(out.text()) != 5_000 || !out.last().OK {
		t.Errorf("%d pieces, %+v", len(out.text()), out.last())
	}
}

// After a signal nothing that is said counts.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scenario, when string
		signal         syscall.Signal
	}{{"cancel", "working", syscall.SIGTERM}, {"cancel", "working", syscall.SIGINT},
		{"deaf", "working", syscall.SIGTERM}} {
		dir := t.TempDir()
		l := launch(t, dir, tt.scenario)
		l.await(t, tt.when)
		sent := time.Now()
		if err := l.cmd.Process.Signal(tt.signal); err != nil {
			t.Fatal(err)
		}
		out := l.end(t)
		if e := out.last(); e.OK || e.Word != "cancelled" || out.code != 143 || out.text() != "working" {
			t.Errorf("%s: code %d, %+v", tt.scenario, out.code, out.events)
		}
		if took := time.Since(sent); took > time.Minute {
			t.Errorf("%s: took %v", tt.scenario, took)
		}
		if _, err := os.Stat(filepath.Join(dir, "cancelled")); (err == nil) != (tt.scenario == "cancel") {
			t.Errorf("%s: session/cancel: %v", tt.scenario, err)
		}
	}
}

// One that never answers prints nothing: the clock for the first event runs.
func TestSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := launch(t, dir, "silent")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "asked")); err == nil {
			break
		}
	}
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if out := l.end(t); len(out.events) != 1 || out.last().Word != "cancelled" || out.code != 143 {
		t.Errorf("got %+v", out)
	}
}

func TestStaysAfterItsEnd(t *testing.T) {
	t.Parallel()
	if out := play(t, t.TempDir(), "stays"); out.code != 0 || !out.last().OK || out.took > time.Minute {
		t.Errorf("got %+v", out)
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	b := &conversation{log: &eventLog{w: io.Discard}, argv: []string{"no-such-agent-anywhere"}}
	if code := b.run(t.Context(), strings.NewReader("x")); code != 127 {
		t.Errorf("code %d", code)
	}
}
