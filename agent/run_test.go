package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/internal/proc"
)

// stage is a directory with a shim and a generic agent that runs a script.
type stage struct {
	tb   testing.TB
	dir  string
	shim *proc.Shim
	exit string
}

func newStage(tb testing.TB) *stage {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	s := &stage{tb: tb, dir: tb.TempDir()}
	s.exit = filepath.Join(s.dir, "exit.json")
	s.shim, err = proc.Start(proc.ShimConfig{Argv: []string{exe, proc.ShimCommand}, Cookie: rand.Text(), ExitFile: s.exit})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.shim.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func (s *stage) request(label string) Request {
	return Request{
		Label: label, Prompt: samplePrompt, PromptFile: filepath.Join(s.dir, "prompts", label+".md"), Dir: s.dir,
		Log: filepath.Join(s.dir, label+".log"), ErrLog: filepath.Join(s.dir, label+".err"),
		Grace: 200 * time.Millisecond,
	}
}

func script(mode PromptMode, text string) Backend {
	return Backend{Name: "generic", Command: []string{"sh", "-c", text, "agent"}, Prompt: mode, Format: FormatText}
}

func (s *stage) run(b Backend, q Request) Result {
	s.tb.Helper()
	res, err := NewRunner(s.shim, b).Run(s.tb.Context(), q)
	if err != nil {
		s.tb.Fatalf("%s: %v", q.Label, err)
	}
	return res
}

func TestPromptModes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		mode PromptMode
		text string
	}{
		{ByStdin, `cat > got`},
		{ByArg, `printf '%s' "$1" > got; if read x; then echo stdin is open; fi`},
		{ByEnv, `printf '%s' "$DESCARTES_PROMPT" > got; if read x; then echo stdin is open; fi`},
		{ByFile, `cat "$1" > got; if test "$1" != "$DESCARTES_PROMPT_FILE"; then echo another file; fi`},
	} {
		q := s.request(string(tt.mode))
		q.Prompt = "# é\n\n\"quoted\" $HOME `x` \xff\n\n"
		res := s.run(script(tt.mode, tt.text), q)
		got, err := os.ReadFile(filepath.Join(s.dir, "got"))
		if err != nil || string(got) != q.Prompt || res.End != Finished || res.Final != "" {
			t.Errorf("%s: prompt %q, %v, %+v", tt.mode, got, err, res)
		}
		info, err := os.Stat(q.PromptFile)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: prompt file: %v %v", tt.mode, info, err)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	b := Backend{Name: "generic", Command: []string{"tool", "--text={prompt}", "--file", "{prompt_file}"}, Prompt: ByArg,
		ModelArgs: []string{"-m", "x/{model}"}, Env: map[string]string{"B": "2", "A": "1"}}
	argv, env, err := b.command(Request{Prompt: "do {model}", PromptFile: "/p", Model: "big", Env: []string{"A=3"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(argv, "|"), "tool|--text=do {model}|--file|/p|-m|x/big"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := strings.Join(env, "|"), "A=1|B=2|A=3|DESCARTES_PROMPT_FILE=/p"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	claude, _ := Lookup("claude")
	argv, _, err = claude.command(Request{Prompt: "x", PromptFile: "/p", Model: "opus"})
	if got, want := strings.Join(argv, " "), "claude -p --dangerously-skip-permissions --model opus"; err != nil || got != want {
		t.Errorf("got %s, want %s; %v", got, want, err)
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	if got := strings.Join(Names(), " "); got != "claude generic" {
		t.Errorf("names: %s", got)
	}
	if _, ok := Lookup("none"); ok {
		t.Error("an unknown backend was found")
	}
	claude, _ := Lookup("claude")
	got := strings.Join(claude.With([]string{"wrap", "claude", "-p"}).Command, " ")
	if want := "wrap claude -p --dangerously-skip-permissions"; got != want {
		t.Errorf("with the user's command: got %s, want %s", got, want)
	}
	if again, _ := Lookup("claude"); again.Command[0] != "claude" {
		t.Error("the table was changed")
	}
	for _, word := range []string{"stdin", "arg", "env", "file"} {
		if m, ok := ParsePromptMode(word); !ok || string(m) != word {
			t.Errorf("prompt mode %s: %v %v", word, m, ok)
		}
	}
	if _, ok := ParsePromptMode("tty"); ok {
		t.Error("prompt mode tty")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	found := func(string) (string, error) { return "/bin/x", nil }
	missing := func(p string) (string, error) { return "", fmt.Errorf("%s: %w", p, proc.ErrNoProgram) }
	const most = 128<<10 - 1
	for _, tt := range []struct {
		name string
		b    Backend
		look func(string) (string, error)
		len  int
		ok   bool
	}{
		{"fits", Backend{Command: []string{"x"}, Prompt: ByArg}, found, most, true},
		{"one too many", Backend{Command: []string{"x"}, Prompt: ByArg}, found, most + 1, false},
		{"in a longer argument", Backend{Command: []string{"x", "--p={prompt}"}, Prompt: ByArg}, found, most - 4, true},
		{"in a longer argument, too long", Backend{Command: []string{"x", "--p={prompt}"}, Prompt: ByArg}, found, most - 3, false},
		{"variable", Backend{Command: []string{"x"}, Prompt: ByEnv}, found, most - len("DESCARTES_PROMPT="), true},
		{"variable, too long", Backend{Command: []string{"x"}, Prompt: ByEnv}, found, most, false},
		{"stdin", Backend{Command: []string{"x"}, Prompt: ByStdin}, found, 10 << 20, true},
		{"file", Backend{Command: []string{"x"}, Prompt: ByFile}, found, 10 << 20, true},
		{"missing", Backend{Command: []string{"x"}, Prompt: ByFile}, missing, 1, false},
		{"no command", Backend{Prompt: ByArg}, found, 1, false},
		{"no mode", Backend{Command: []string{"x"}}, found, 1, false},
	} {
		if err := tt.b.Check(tt.look, tt.len); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestPromptTooLong(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	q := s.request("long")
	q.Prompt = strings.Repeat("x", 128<<10)
	var tooLong *PromptTooLongError
	_, err := NewRunner(s.shim, script(ByArg, "touch ran")).Run(t.Context(), q)
	if !errors.As(err, &tooLong) || tooLong.Limit != 128<<10-1 || !strings.Contains(err.Error(), "stdin") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
		t.Error("the agent ran")
	}
	q.Prompt = q.Prompt[1:]
	if res := s.run(script(ByArg, `test ${#1} = 131071`), q); res.End != Finished {
		t.Errorf("the longest prompt: %+v", res)
	}
	q.Prompt = strings.Repeat("y\n", 1<<20)
	if res := s.run(script(ByStdin, `test $(wc -c) = 2097152`), q); res.End != Finished {
		t.Errorf("2 MiB by stdin: %+v", res)
	}
	q.Prompt = "a\x00b"
	if _, err := NewRunner(s.shim, script(ByArg, "true")).Run(t.Context(), q); err == nil {
		t.Error("a NUL byte in an argument: no error")
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		name, text string
		end        End
		complete   bool
		blocked    string
		reason     string
	}{
		{"mute", "true", Finished, false, "", ""},
		{"claims", "echo working; echo '<promise>COMPLETE</promise>'", Finished, true, "", ""},
		{"claims on stderr", "echo TASK_COMPLETE >&2", Finished, false, "", ""},
		{"echoes", "cat", Finished, false, "", ""},
		{"echoes and claims", "cat; echo TASK_COMPLETE", Finished, true, "", ""},
		{"crashes", "echo TASK_COMPLETE; echo 'cannot connect' >&2; exit 3", Crashed, false, "", "exit status 3: cannot connect"},
		{"crashes, says so on stdout", "echo oh no; exit 3", Crashed, false, "", "exit status 3: oh no"},
		{"crashes, mute", "exit 1", Crashed, false, "", "exit status 1"},
		{"killed", "kill -KILL $$", Crashed, false, "", "ended by signal 9 (SIGKILL)"},
		{"blocked", "echo TASK_BLOCKED: no key", Finished, false, "no key", ""},
		{"blocked and crashes", "echo TASK_BLOCKED: no key; exit 4", Finished, false, "no key", "exit status 4"},
		{"its own 127", "descartes-no-such-program", Crashed, false, "", "exit status 127"},
		{"limit text of claude", "echo 'Claude AI usage limit reached|1750708800'; exit 1", Crashed, false, "", "exit status 1"},
		{"leaves a grandchild on its pipe", "sleep 600 & echo TASK_COMPLETE", Finished, true, "", ""},
		{"deletes its log", "rm -f deletes.log; echo TASK_COMPLETE", Finished, true, "", ""},
		{"NUL and invalid", `printf '\000\377\n\nTASK_COMPLETE\r\n'`, Finished, true, "", ""},
	} {
		res := s.run(script(ByStdin, tt.text), s.request(strings.ReplaceAll(tt.name, " ", "-")))
		if res.End != tt.end || res.Complete != tt.complete || res.Blocked != tt.blocked || !strings.HasPrefix(res.Reason, tt.reason) {
			t.Errorf("%s: got %+v", tt.name, res)
		}
		if tt.reason == "" && res.Reason != "" {
			t.Errorf("%s: reason %q", tt.name, res.Reason)
		}
	}
	q := s.request("missing")
	res := s.run(Backend{Name: "generic", Command: []string{"descartes-no-such-agent"}, Prompt: ByArg}, q)
	if res.End != Refused || res.Code != 127 || !strings.Contains(res.Reason, "descartes-no-such-agent") {
		t.Errorf("missing program: %+v", res)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	// What an agent says after our signal does not count.
	liar := script(ByStdin, "trap 'echo TASK_COMPLETE; exit 0' TERM; echo working; while :; do sleep 0.01; done")
	q := s.request("timeout")
	q.Timeout = 200 * time.Millisecond
	if res := s.run(liar, q); res.End != TimedOut || res.Complete || res.Reason != "not finished after 200ms" || !strings.Contains(res.Final, "working") {
		t.Errorf("timeout: %+v", res)
	}
	q = s.request("idle")
	q.Idle = 100 * time.Millisecond
	if res := s.run(liar, q); res.End != Idled || res.Complete {
		t.Errorf("idle: %+v", res)
	}
	q = s.request("cancel")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	res, err := NewRunner(s.shim, liar).Run(ctx, q)
	if err != nil || res.End != Cancelled || res.Complete {
		t.Errorf("cancel: %+v %v", res, err)
	}
	if _, ok := NewRunner(s.shim, liar).Recall(q, s.exit); ok {
		t.Error("a cancelled run was recalled")
	}
}

func TestOffset(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	q := s.request("offset")
	if err := os.WriteFile(q.Log, []byte("TASK_COMPLETE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	q.Offset = 14
	res := s.run(script(ByStdin, "echo hello"), q)
	if res.Complete || res.Final != "hello" || res.Bytes != 6 {
		t.Errorf("got %+v", res)
	}
	q.Offset = 1000 // the agent has cut the log short
	if res := s.run(script(ByStdin, "true"), q); res.Bytes != 20 {
		t.Errorf("shorter than its offset: %+v", res)
	}
	if err := os.WriteFile(q.ErrLog, []byte("usage limit reached\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := script(ByStdin, "echo broken >&2; exit 1")
	b.Format = FormatClaude
	if res := s.run(b, q); res.End != Crashed || res.Reason != "exit status 1: broken" {
		t.Errorf("errors of a run before: %+v", res)
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := script(ByStdin, "cat; echo done; echo TASK_COMPLETE")
	q := s.request("3/1/agent")
	q.PromptFile, q.Log, q.ErrLog = filepath.Join(s.dir, "p"), filepath.Join(s.dir, "l"), filepath.Join(s.dir, "e")
	want := s.run(b, q)
	got, ok := NewRunner(nil, b).Recall(q, s.exit)
	if !ok || got.Duration.Round(time.Millisecond) != want.Duration.Round(time.Millisecond) || !got.Complete || got.Final != want.Final {
		t.Errorf("got %+v %v, want %+v", got, ok, want)
	}
	bare := q
	bare.Prompt = ""
	if again, ok := NewRunner(nil, b).Recall(bare, s.exit); !ok || again.Final != want.Final {
		t.Errorf("with the prompt from its file: got %+v %v, want %+v", again, ok, want)
	}
	q.Label = "3/2/agent"
	if _, ok := NewRunner(nil, b).Recall(q, s.exit); ok {
		t.Error("another label was recalled")
	}
	if _, ok := NewRunner(nil, b).Recall(q, s.exit+".none"); ok {
		t.Error("a missing file was recalled")
	}
}

func TestClaudeLimits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	claude := func(text string) Backend { b := script(ByStdin, text); b.Format = FormatClaude; return b }
	res := s.run(claude("echo 'Claude AI usage limit reached|1893456000'; exit 1"), s.request("limit"))
	if res.End != Limited || res.Until.Unix() != 1893456000 || res.Reason == "" {
		t.Errorf("limit: %+v", res)
	}
	res = s.run(claude("echo \"You've hit your session limit\" >&2; exit 1"), s.request("limit-stderr"))
	if res.End != Limited || !res.Until.IsZero() {
		t.Errorf("limit without a time: %+v", res)
	}
	res = s.run(claude("echo 'The docs say: usage limit reached'; echo TASK_COMPLETE"), s.request("good"))
	if res.End != Finished || !res.Complete {
		t.Errorf("a good run that writes about limits: %+v", res)
	}
	res = s.run(claude("echo '--dangerously-skip-permissions cannot be used with root/sudo privileges' >&2; exit 1"), s.request("root"))
	if res.End != Refused || !strings.Contains(res.Reason, "root") {
		t.Errorf("root: %+v", res)
	}
}

// An agent that prints two hundred megabytes, half of it in one line.
func TestLoudAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	loud := `head -c 104857600 /dev/zero | tr '\0' x; echo; yes 'a line of some length, like most lines' | head -c 104857600; echo; echo TASK_COMPLETE`
	res := s.run(script(ByStdin, loud), s.request("loud"))
	if res.End != Finished || !res.Complete || res.Bytes < 200<<20 || len(res.Final) > finalLimit {
		t.Errorf("got end %s, complete %v, %d bytes, %d final", res.End, res.Complete, res.Bytes, len(res.Final))
	}
}

// Whatever lies where the prompt belongs, the prompt is there afterwards, and
// nothing else was changed.
func TestPromptFileInTheWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "prompt.md"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func() error{
		"nothing":   func() error { return nil },
		"longer":    func() error { return os.WriteFile(path, []byte(strings.Repeat("x", 100)), 0o600) },
		"link":      func() error { return os.Symlink(victim, path) },
		"dangling":  func() error { return os.Symlink(victim+"2", path) },
		"fifo":      func() error { return syscall.Mkfifo(path, 0o600) },
		"directory": func() error { return os.Mkdir(path, 0o700) },
		"open mode": func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)) },
		"read only": func() error { return os.WriteFile(path, nil, 0o400) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if err := writePrompt(path, "short"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := os.ReadFile(path)
		info, _ := os.Lstat(path)
		if err != nil || string(got) != "short" || info.Mode() != 0o600 {
			t.Errorf("%s: %q %v %v", name, got, info.Mode(), err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(victim); string(got) != "precious" {
		t.Errorf("the link's target: %q %v", got, err)
	}
	if err := writePrompt(filepath.Join(victim, "prompt.md"), "x"); err == nil {
		t.Error("below a file: no error")
	}
}
