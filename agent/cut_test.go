//go:build unix

package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"descartes/internal/redact"
)

// A log over its limit keeps its ends; the result counts every step all the same, and has the words of the end.
func TestLongLog(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789-abcdefghijklmnop"
	s := newStage(t)
	step := `{"type":"step_start","sessionID":"s","part":{"type":"step-start"}}` + "\n" +
		`{"type":"tool_use","sessionID":"s","part":{"tool":"bash","state":{"status":"completed","output":"` +
		strings.Repeat("x", 900) + `"}}}` + "\n" +
		`{"type":"step_finish","sessionID":"s","part":{"reason":"tool-calls","cost":0.5,"tokens":{"input":10,"output":2}}}`
	last := strings.NewReplacer("%s", `"`+key+`: <promise>COMPLETE</promise>"`).Replace(tongues()["opencode"].say) +
		"\n" + tongues()["opencode"].end
	for _, pause := range []string{"", "; sleep 0.3"} { // followed while it runs, and not
		b, _ := Lookup("opencode")
		b.Command, b.Prompt, b.StdinArgs = []string{"sh", "-c",
			fmt.Sprintf("for i in 1 2 3 4 5 6 7 8 9 10; do cat <<'E'\n%s\nE\ndone%s\ncat <<'E'\n%s\nE\nhead -c 100000 /dev/zero >&2", step, pause, last), "agent"}, ByStdin, nil
		q := s.request("long" + pause)
		q.Redact, q.Limits.Log = redact.New([]string{key}), 8<<10
		res := s.run(b, q)
		if outcome(res) != "complete" || res.Cost == nil || res.Cost.Tokens == nil || res.Cost.Tokens.Input != 110 ||
			res.Cost.USD == nil || *res.Cost.USD != 5 || res.Bytes < 10<<10 {
			t.Errorf("%q: %+v, cost %+v", pause, res, res.Cost)
		}
		for path, words := range map[string]string{q.Log: "COMPLETE", q.ErrLog: "\x00"} {
			log, err := os.ReadFile(path)
			if text := string(log); err != nil || len(text) > 9<<10 || strings.Contains(text, key) ||
				!strings.Contains(text, "bytes of output are left out here") || !strings.Contains(text, words) {
				t.Errorf("%q: %s has %d bytes, %v: %s", pause, path, len(log), err, text)
			}
		}
	}
	q := s.request("text")
	q.Redact, q.Limits.Log, q.Timeout = (*redact.Redactor)(nil), 8<<10, time.Minute
	if res := s.run(script(ByStdin, "yes | head -c 1000000; echo TASK_COMPLETE"), q); outcome(res) != "complete" ||
		res.Bytes != 1000014 {
		t.Errorf("text: %+v", res)
	}
}
