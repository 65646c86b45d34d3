package agent

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/agent/stream"
	"descartes/internal/proc"
)

// stage is a directory with a shim and a generic agent that runs a script.
type stage struct {
	tb   testing.TB
	dir  string
	shim *proc.Shim
}

func newStage(tb testing.TB) *stage {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	s := &stage{tb: tb, dir: tb.TempDir()}
	s.shim, err = proc.Start(proc.ShimConfig{Argv: []string{exe, proc.ShimCommand}, Cookie: rand.Text()})
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
	return Backend{Name: "generic", Command: []string{"sh", "-c", text, "agent"}, Prompt: mode,
		Format: stream.FormatText}
}

func (s *stage) run(b Backend, q Request) Result {
	s.tb.Helper()
	res, err := NewRunner(s.shim, b).Run(s.tb.Context(), q)
	if err != nil {
		s.tb.Fatalf("%s: %v", q.Label, err)
	}
	return res
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
		{"crashes", "echo TASK_COMPLETE; echo 'cannot connect' >&2; exit 3", Crashed, false, "",
			"exit status 3: cannot connect"},
		{"crashes, says so on stdout", "echo oh no; exit 3", Crashed, false, "", "exit status 3: oh no"},
		{"crashes, mute", "exit 1", Crashed, false, "", "exit status 1"},
		{"killed", "kill -KILL $$", Crashed, false, "", "ended by signal 9 (SIGKILL)"},
		{"blocked", "echo TASK_BLOCKED: no key", Finished, false, "no key", ""},
		{"blocked and crashes", "echo TASK_BLOCKED: no key; exit 4", Finished, false, "no key", "exit status 4"},
		{"its own 127", "descartes-no-such-program", Crashed, false, "", "exit status 127"},
		{"limit text of claude", "echo 'Claude AI usage limit reached|1750708800'; exit 1", Crashed, false, "",
			"exit status 1"},
		{"leaves a grandchild on its pipe", "sleep 600 & echo TASK_COMPLETE", Finished, true, "", ""},
		{"deletes its log", "rm -f deletes.log; echo TASK_COMPLETE", Finished, true, "", ""},
		{"NUL and invalid", `printf '\000\377\n\nTASK_COMPLETE\r\n'`, Finished, true, "", ""},
	} {
		res := s.run(script(ByStdin, tt.text), s.request(strings.ReplaceAll(tt.name, " ", "-")))
		if res.End != tt.end || res.Complete != tt.complete || res.Blocked != tt.blocked ||
			!strings.HasPrefix(res.Reason, tt.reason) {
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
	q.Timeout = 2 * time.Second // by then it has said something, on a busy machine too
	if res := s.run(liar, q); res.End != TimedOut || res.Complete || res.Reason != "not finished after 2s" ||
		!strings.Contains(res.Final, "working") {
		t.Errorf("timeout: %+v", res)
	}
	q = s.request("idle")
	q.Idle = 100 * time.Millisecond
	if res := s.run(liar, q); res.End != Idled || res.Complete {
		t.Errorf("idle: %+v", res)
	}
	q = s.request("cancel")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	res, err := NewRunner(s.shim, liar).Run(ctx, q)
	if err != nil || res.End != Cancelled || res.Complete {
		t.Errorf("cancel: %+v %v", res, err)
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
	b.Format = stream.FormatClaude
	if res := s.run(b, q); res.End != Crashed || res.Reason != "exit status 1: broken" {
		t.Errorf("errors of a run before: %+v", res)
	}
}

func TestClaudeLimits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	claude := func(text string) Backend { b := script(ByStdin, text); b.Format = stream.FormatClaude; return b }
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
	res = s.run(claude("echo '--dangerously-skip-permissions cannot be used with root/sudo privileges' >&2; exit 1"),
		s.request("root"))
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
