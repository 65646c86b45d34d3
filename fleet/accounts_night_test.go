//go:build fleet

package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pacedAgent works for two machines that are logged in with an account each. The quota of a machine's account is used up until the time in
// $LEDGER.machineN.
const pacedAgent = `#!/bin/sh
cat >/dev/null
machine=$(pwd | grep -o 'machine[0-9]*')
echo "$DESCARTES_TASK_ID $machine" >>"$LEDGER"
until=$(cat "$LEDGER.$machine" 2>/dev/null || echo 0)
if test "$(date +%s)" -lt "$until"; then
  echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":'$until',"rateLimitType":"five_hour"}}'
  echo '{"type":"result","subtype":"success","is_error":true,"result":"You have hit your 5-hour limit"}'
  exit 1
fi
mkdir -p out && echo "$DESCARTES_TASK_ID" >"out/$DESCARTES_TASK_ID"
echo '{"type":"result","subtype":"success","is_error":false,"result":"<promise>COMPLETE</promise>"}'
`

// paced gives a town tasks, of which the second needs a label, and the agent that knows accounts.
func (w *town) paced(tasks int) {
	w.t.Helper()
	type task struct {
		ID     int      `json:"id"`
		Title  string   `json:"title"`
		Status string   `json:"status"`
		Needs  []string `json:"needs,omitempty"`
	}
	list := struct {
		Tag   string `json:"tag"`
		Tasks []task `json:"tasks"`
	}{Tag: "tally"}
	for i := 1; i <= tasks; i++ {
		one := task{ID: i, Title: fmt.Sprintf("Word %d", i), Status: "pending"}
		if i == 2 {
			one.Needs = []string{"gpu"}
		}
		list.Tasks = append(list.Tasks, one)
	}
	b, err := json.Marshal(list)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, text := range map[string]string{".scud/tasks/tally.json": string(b), "agent.sh": pacedAgent, "descartes.yaml": "backends: {fake: {command: ./agent.sh, prompt: stdin, parser: claude}}\n"} {
		if err := os.WriteFile(filepath.Join(w.project, name), []byte(text), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	w.git(w.project, "add", "-A")
	w.git(w.project, "commit", "-qm", "paced")
	<-w.start(w.project, "descartes", "trust").over
}

// join starts a worker on a machine, with an account of its own.
func (w *town) join(machine int, flags ...string) {
	args := append([]string{"worker", "--no-sandbox", "--repo", w.url, "--slots", "2", "--account", fmt.Sprintf("account%d", machine), "--min-free-disk", "1M",
		"--repo-cache", filepath.Join(w.dir, fmt.Sprintf("machine%d", machine))}, flags...)
	w.workers = append(w.workers, w.start(w.dir, "descartes-fleet", args...))
}

// usedUp has the quota of a machine's account used up.
func (w *town) usedUp(machine int, until time.Time) {
	if err := os.WriteFile(fmt.Sprintf("%s.machine%d", w.agents, machine), fmt.Appendln(nil, until.Unix()), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// shows waits for a state of the fleet.
func (w *town) shows(what string, is func(s *Status) bool) {
	w.t.Helper()
	var last string
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		p := w.start(w.dir, "descartes-fleet", "status", "--json")
		<-p.over
		last = p.out.String()
		var s Status
		if err := json.Unmarshal([]byte(last), &s); err == nil && is(&s) {
			return
		}
	}
	w.t.Fatalf("%s: it does not come to that:\n%s", what, last)
}

// TestAccounts: an account without quota gets no attempt; another one takes over; what needs a label waits for a worker that has it; where no
// account has quota left, the run waits until one has.
func TestAccounts(t *testing.T) {
	const n = 6
	w := newTown(t, plan{tasks: n, width: 1})
	w.paced(n)
	w.usedUp(0, time.Now().Add(time.Hour))
	w.join(0)
	start := func() *program {
		return w.start(w.project, "descartes", "loop", "start", "--scud-tag", "tally", "--backend", "fake", "--verify", "test -d out", "--fleet", "-j", "6", "--plain")
	}
	p := start()
	w.shows("a limit, and a label that nobody has", func(s *Status) bool {
		waits := map[string]int{}
		for _, u := range s.Attempts {
			if u.Waits != nil {
				what, _, _ := strings.Cut(u.Waits.For, " until")
				waits[what]++
			}
		}
		return len(s.Accounts) == 1 && s.Accounts[0].Account == "account0" && waits["a worker with gpu"] == 1 && waits["quota: account account0 has none"] == n-1
	})
	before := w.attempts() // on both slots of the only worker, and no more
	if before < 1 || before > 2 {
		t.Errorf("%d attempts began on an account without quota", before)
	}
	w.join(1, "--labels", "gpu,go")
	<-p.over
	w.whole(p, "tally", 1, n)
	b, err := os.ReadFile(w.agents)
	if err != nil || strings.Count(string(b), "machine0") != before || strings.Count(string(b), "machine1") != n {
		t.Errorf("agents ran: %s, %v", b, err)
	}
	w.shows("two workers", func(s *Status) bool { return len(s.Workers) == 2 && s.Workers[0].Slots == 2 && len(s.Attempts) == 0 })
	cleared := w.start(w.dir, "descartes-fleet", "limits", "clear", "account0")
	if <-cleared.over; !cleared.cmd.ProcessState.Success() {
		t.Errorf("clear: %s", cleared.out)
	}
	w.shows("an account that was cleared", func(s *Status) bool { return len(s.Accounts) == 0 })
}

// TestNoAccount: where the quota of all accounts is used up, the run waits, and goes on by itself.
func TestNoAccount(t *testing.T) {
	const n = 4
	w := newTown(t, plan{tasks: n, width: 1})
	w.paced(n)
	reset := time.Now().Add(25 * time.Second)
	w.usedUp(0, reset)
	w.usedUp(1, reset)
	w.join(0)
	w.join(1, "--labels", "gpu")
	w.shows("two workers", func(s *Status) bool { return len(s.Workers) == 2 })
	p := w.start(w.project, "descartes", "loop", "start", "--scud-tag", "tally", "--backend", "fake", "--verify", "test -d out", "--fleet", "-j", "6", "--plain")
	<-p.over
	w.whole(p, "tally", 1, n)
	if time.Now().Before(reset) || !strings.Contains(p.out.String(), "waits for quota: account account") {
		t.Errorf("it did not wait:\n%s", p.out)
	}
	if got := w.attempts(); got > 4+n {
		t.Errorf("%d attempts began, want one for each slot before the reset and one for each task after it", got)
	}
}
