//go:build fleet

package temporal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPace measures real attempts: 80 tasks of a second by two workers of four slots, and by this machine alone.
func TestPace(t *testing.T) {
	w := newTown(t, plan{tasks: 80, width: 80, workers: 2, slots: 4, silent: "60s", alone: true})
	text := strings.Replace(agentText, "sleep 0.4", "sleep 1", 1)
	if err := os.WriteFile(filepath.Join(w.project, "agent.sh"), []byte(strings.Replace(text, "*0)", "none)", 1)),
		0o755); err != nil {
		t.Fatal(err)
	}
	w.git(w.project, "commit", "-qam", "one second")
	began := time.Now()
	p := w.run("-j", "12") // the next ones are there when a slot is free
	w.ends(p)
	fleet := time.Since(began)
	t.Log(w.figures(80, p))
	if !p.cmd.ProcessState.Success() || w.attempts() != 80 {
		t.Fatalf("%d agents ran for 80 tasks\n%s", w.attempts(), p.out)
	}
	w.list("local", 101, 180, 80)
	w.git(w.project, "add", "-A")
	w.git(w.project, "commit", "-qm", "more")
	began = time.Now()
	p = w.start(w.project, "descartes", "loop", "start", "--scud-tag", "local", "--command", "./agent.sh", "--verify",
		"test -d out", "-j", "8", "--plain")
	w.ends(p)
	local := time.Since(began)
	t.Logf("here: CPU of an attempt %v", ((p.cmd.ProcessState.UserTime() +
		p.cmd.ProcessState.SystemTime()) / 80).Round(time.Millisecond))
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("80 tasks of a second, 8 at a time: %v by workers, %v here, %.2f times as long; load %s",
		fleet.Round(time.Second/10), local.Round(time.Second/10), float64(fleet)/float64(local), load)
}
