//go:build fleet

package fleet

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"descartes/fleet/wire"
)

var (
	many   = flag.Int("many", 0, "so many attempts, and ten times as many, instead of 20 and 60; 1000 are held to the goals")
	budget = 9 * time.Millisecond // of one attempt: 90 s for 10,000
	growth = 1.2                  // of its time, from the first number to ten times as many
)

// attemptText stands for the program that makes an attempt: it answers at once.
const attemptText = `#!/bin/sh
read -r work
echo '{"done":{"ref":"refs/descartes/x","commit":"0123456789012345678901234567890123456789","host":"h"}}'
`

// overhead has n attempts made that do nothing, at most 500 at a time, and returns how long one of them took.
func (w *town) overhead(loop string, n int) time.Duration {
	w.t.Helper()
	asks, in := io.Pipe()
	out, said := io.Pipe()
	d, err := NewDispatcher(w.t.Context(), Server{Address: w.address}, said)
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.Client.Close()
	served := make(chan error, 1)
	go func() { served <- d.Serve(w.t.Context(), asks) }()
	say, lines := wire.NewWriter(in), wire.NewReader(out)
	hello := wire.Hello{Remote: w.url, Tag: loop, Loop: loop, Host: "here"}
	if err := say.Say(wire.Line{Hello: &hello}); err != nil {
		w.t.Fatal(err)
	}
	if l, err := lines.Next(); err != nil || !l.Ready {
		w.t.Fatalf("%+v, %v", l, err)
	}
	limit := time.AfterFunc(3*time.Minute+time.Duration(n)*20*time.Millisecond, func() { said.CloseWithError(errors.New("it takes too long")) })
	defer limit.Stop()
	began := time.Now()
	go func() {
		for i := 1; i <= n; i++ {
			_ = say.Say(wire.Line{ID: i, Ask: &wire.Ask{Remote: w.url, Loop: loop, Tag: loop, Task: strconv.Itoa(i), Title: "Nothing", Wave: 1, Try: 1, Ref: "refs/descartes/x", Commit: "c", Limit: 3600}})
		}
	}()
	for done := 0; done < n; {
		l, err := lines.Next()
		if err != nil || l.Lost != "" || l.Error != "" {
			w.t.Fatalf("after %d of %d: %+v, %v", done, n, l, err)
		}
		if l.Done != nil {
			done++
		}
	}
	took := time.Since(began)
	_ = in.Close()
	if err := <-served; err != nil {
		w.t.Fatal(err)
	}
	return took / time.Duration(n)
}

// TestScale: what carries an attempt costs little, and not more where there are many. Without -many it is a short one, which shows that it works
// and prints what it measured.
func TestScale(t *testing.T) {
	few, lot := 20, 60
	if *many > 0 {
		few, lot = *many, 10**many
	}
	w := newTown(t, plan{tasks: 1, width: 1, slots: 16})
	real := w.bin
	w.bin = t.TempDir()
	if err := os.Link(filepath.Join(real, "descartes-fleet"), filepath.Join(w.bin, "descartes-fleet")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.bin, "descartes"), []byte(attemptText), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.workers = append(w.workers, nil)
		w.work(len(w.workers) - 1)
	}
	w.overhead("warm", few/10)
	one, ten := w.overhead("few", few), w.overhead("many", lot)
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte(err.Error())
	}
	t.Logf("%d attempts: %v each; %d: %v each, %.2f times as much; load %s", few, one, lot, ten, float64(ten)/float64(one), load)
	for _, p := range append(w.workers, w.server) {
		t.Logf("%s: %s", p.cmd.Args[1], memory(p.cmd.Process.Pid))
	}
	if *many >= 1000 && (ten > budget || float64(ten)/float64(one) > growth) {
		t.Errorf("more than %v each, or %.1f times as much", budget, growth)
	}
}

// memory is the most that a process has had.
func memory(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(b)) {
		if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(size)
		}
	}
	return "unknown"
}
