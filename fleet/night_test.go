//go:build fleet

package fleet

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	runs = flag.Int("runs", 3, "nights with kills")
	seed = flag.Uint64("seed", 0, "of the kills; 0 draws one")
)

// town is a fleet on this machine: a server, workers, a remote behind HTTP, and a project.
type town struct {
	t       *testing.T
	dir     string
	bin     string
	address string
	project string
	agents  string // their ledger: a line for each that begins
	server  *program
	workers []*program
	url     string
}

// program is a running program with its output.
type program struct {
	cmd  *exec.Cmd
	out  *bytes.Buffer
	over chan struct{}
}

func (w *town) start(dir, name string, args ...string) *program {
	w.t.Helper()
	p := &program{cmd: exec.Command(filepath.Join(w.bin, name), args...), out: &bytes.Buffer{}, over: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append(os.Environ(), "PATH="+w.bin+":"+os.Getenv("PATH"), "HOME="+w.dir, "XDG_STATE_HOME="+w.dir+"/state", "XDG_CACHE_HOME="+w.dir+"/cache", "GIT_CONFIG_NOSYSTEM=1",
		"TEMPORAL_ADDRESS="+w.address, "DESCARTES_FLEET_SILENT=5s", "DESCARTES_SANDBOX=off", "DESCARTES_BASELINE=off", "DESCARTES_ENV_PASS=LEDGER", "LEDGER="+w.agents)
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.over) }()
	return p
}

// kill kills a program as a machine's end would: everything of its process group.
func (p *program) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.over
}

func (w *town) git(dir string, args ...string) string {
	w.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, append(os.Environ(), "HOME="+w.dir, "GIT_CONFIG_NOSYSTEM=1")
	b, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, b)
	}
	return string(b)
}

const agentText = `#!/bin/sh
cat >/dev/null
echo "$DESCARTES_TASK_ID/$DESCARTES_ATTEMPT" >>"$LEDGER"
echo "task $DESCARTES_TASK_ID"
sleep 0.4
mkdir -p out && echo "$DESCARTES_TASK_ID" >"out/$DESCARTES_TASK_ID"
echo '<promise>COMPLETE</promise>'
`

func newTown(t *testing.T, tasks, workers, slots int) *town {
	t.Helper()
	temporal, err := exec.LookPath("temporal")
	if err != nil {
		t.Fatal("the temporal program is not on the PATH: go install github.com/temporalio/cli/cmd/temporal@v1.5.1")
	}
	dir := t.TempDir()
	w := &town{t: t, dir: dir, bin: filepath.Join(dir, "bin"), project: filepath.Join(dir, "project"), agents: filepath.Join(dir, "ledger")}
	build := exec.Command("go", "build", "-o", w.bin+"/", "./cmd/descartes", "./cmd/descartes-fleet")
	build.Dir = ".."
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, b)
	}
	if err := os.Symlink(temporal, filepath.Join(w.bin, "temporal")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = l.Addr().String()
	l.Close()
	w.serve()
	w.remote()
	w.make(tasks)
	for range workers {
		w.workers = append(w.workers, nil)
		w.work(len(w.workers)-1, slots)
	}
	t.Cleanup(func() {
		for _, p := range append(w.workers, w.server) {
			p.kill()
			if t.Failed() {
				t.Logf("%v said:\n%s", p.cmd.Args, p.out)
			}
		}
	})
	return w
}

// serve starts the server, and waits until it answers.
func (w *town) serve() {
	_, port, _ := net.SplitHostPort(w.address)
	w.server = w.start(w.dir, "descartes-fleet", "dev", "--port", port, "--dir", filepath.Join(w.dir, "server"))
	for deadline := time.Now().Add(time.Minute); ; {
		if p := w.start(w.dir, "descartes-fleet", "status"); true {
			if <-p.over; p.cmd.ProcessState.Success() {
				return
			}
			if time.Now().After(deadline) {
				w.t.Fatalf("no server: %s\n%s", p.out, w.server.out)
			}
		}
	}
}

// remote serves a bare repository by git http-backend.
func (w *town) remote() {
	root := filepath.Join(w.dir, "remotes")
	w.git(w.dir, "init", "-q", "--bare", filepath.Join(root, "tally.git"))
	w.git(filepath.Join(root, "tally.git"), "config", "http.receivepack", "true")
	core := strings.TrimSpace(w.git(w.dir, "--exec-path"))
	s := httptest.NewServer(&cgi.Handler{Path: filepath.Join(core, "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.dir}, InheritEnv: []string{"PATH"}})
	s.Config.Handler = http.HandlerFunc(s.Config.Handler.ServeHTTP)
	w.t.Cleanup(s.Close)
	w.url = s.URL + "/tally.git"
}

// make makes a project whose tasks are a graph of several waves.
func (w *town) make(n int) {
	type task struct {
		ID     int    `json:"id"`
		Title  string `json:"title"`
		Status string `json:"status"`
		On     []int  `json:"depends_on,omitempty"`
	}
	list := map[string]any{"tag": "tally"}
	var all []task
	for i := 1; i <= n; i++ {
		one := task{ID: i, Title: "Word " + strconv.Itoa(i), Status: "pending"}
		if width := max(1, n/4); i > width {
			one.On = []int{i - width}
		}
		all = append(all, one)
	}
	list["tasks"] = all
	b, err := json.Marshal(list)
	if err != nil {
		w.t.Fatal(err)
	}
	for path, text := range map[string]string{".scud/tasks/tally.json": string(b), "agent.sh": agentText} {
		path = filepath.Join(w.project, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "me"}, {"config", "user.email", "me@example.org"}, {"add", "-A"}, {"commit", "-qm", "start"},
		{"remote", "add", "origin", w.url}, {"push", "-q", "origin", "main"}} {
		w.git(w.project, args...)
	}
}

func (w *town) work(i, slots int) {
	if old := w.workers[i]; old != nil {
		old.kill()
	}
	w.workers[i] = w.start(w.dir, "descartes-fleet", "worker", "--no-sandbox", "--repo", w.url, "--slots", strconv.Itoa(slots), "--repo-cache", filepath.Join(w.dir, fmt.Sprintf("machine%d", i)))
}

func (w *town) run() *program {
	return w.start(w.project, "descartes", "loop", "start", "--scud-tag", "tally", "--command", "./agent.sh", "--verify", "test -d out", "--fleet", "-j", "16", "--plain")
}

// whole checks what a night has come to: each task verified and integrated once, each in one commit, nothing left on the remote, and no process.
func (w *town) whole(n int, p *program) {
	w.t.Helper()
	if !p.cmd.ProcessState.Success() {
		w.t.Fatalf("the run ended with %v:\n%s", p.cmd.ProcessState, p.out)
	}
	for i := 1; i <= n; i++ {
		if b, err := os.ReadFile(filepath.Join(w.project, "out", strconv.Itoa(i))); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(i) {
			w.t.Errorf("task %d: %q, %v", i, b, err)
		}
	}
	journals, err := filepath.Glob(filepath.Join(w.project, ".descartes/runs/*/events.ndjson"))
	if err != nil || len(journals) != 1 {
		w.t.Fatalf("journals: %v, %v", journals, err)
	}
	text, err := os.ReadFile(journals[0])
	if err != nil {
		w.t.Fatal(err)
	}
	times := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var e struct{ Type, Task, Verdict string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.t.Fatalf("%q: %v", line, err)
		}
		if e.Type == "task_done" || e.Type == "integrated" && e.Verdict == "" {
			times[e.Type+" "+e.Task]++
		}
	}
	for i := 1; i <= n; i++ {
		for _, what := range []string{"task_done ", "integrated "} {
			if got := times[what+strconv.Itoa(i)]; got != 1 {
				w.t.Errorf("%s%d: %d times", what, i, got)
			}
		}
	}
	trailers := strings.Fields(strings.ReplaceAll(w.git(w.project, "log", "--format=%(trailers:key=Descartes-Task,valueonly)"), "\n\n", "\n"))
	seen := map[string]int{}
	for _, id := range trailers {
		seen[id]++
	}
	for i := 1; i <= n; i++ {
		if seen[strconv.Itoa(i)] != 1 {
			w.t.Errorf("task %d stands in %d commits", i, seen[strconv.Itoa(i)])
		}
	}
	if said := w.git(w.project, "status", "--porcelain"); said != "" {
		w.t.Errorf("git status: %s", said)
	}
	w.git(w.project, "fsck", "--strict", "--no-dangling")
	if said := w.git(w.project, "ls-remote", "origin"); strings.Contains(said, "/fleet/") {
		w.t.Errorf("left on the remote: %s", said)
	}
	if b, _ := exec.Command("pgrep", "-f", "sleep 0.4").Output(); len(b) > 0 {
		time.Sleep(time.Second) // those of an agent that was killed a moment ago
		if b, _ := exec.Command("pgrep", "-f", filepath.Join(w.dir, "machine")).Output(); len(bytes.Fields(b)) > 2*len(w.workers) {
			w.t.Errorf("processes are left: %s", b)
		}
	}
}

// attempts are how many agents ran.
func (w *town) attempts() int {
	b, _ := os.ReadFile(w.agents)
	return bytes.Count(b, []byte("\n"))
}

// TestNight: a fleet does what one machine would.
func TestNight(t *testing.T) {
	const n = 40
	w := newTown(t, n, 4, 4)
	began := time.Now()
	p := w.run()
	<-p.over
	w.whole(n, p)
	if got := w.attempts(); got != n {
		t.Errorf("%d agents ran for %d tasks", got, n)
	}
	t.Logf("%d tasks in %v", n, time.Since(began).Round(time.Second/10))
	out := w.start(w.project, "descartes", "loop", "logs", "7", "--attempt", "1")
	if <-out.over; !strings.Contains(out.out.String(), "task 7") {
		t.Errorf("the log of task 7: %s", out.out)
	}
}

// TestKills: whatever is killed, whenever, a night ends as it should.
func TestKills(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	for night := range *runs {
		t.Run(strconv.Itoa(night), func(t *testing.T) {
			const n = 40
			w := newTown(t, n, 4, 4)
			p := w.run()
			for kills, at := 3+random.IntN(4), 0; kills > 0; kills-- {
				at += 1 + random.IntN(2*n/(kills+3))
				for over := false; !over && w.attempts() < at; { // until so many agents have begun
					select {
					case <-p.over:
						over = true
					case <-time.After(20 * time.Millisecond):
					}
				}
				time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond) // somewhere within or after an agent
				switch what := random.IntN(4); what {
				case 0, 1:
					i := random.IntN(len(w.workers))
					t.Logf("kill worker %d", i)
					w.work(i, 4)
				case 2:
					t.Log("kill the run")
					p.kill()
					p = w.run()
				default:
					t.Log("kill the server")
					w.server.kill()
					w.serve()
				}
			}
			select {
			case <-p.over:
			case <-time.After(5 * time.Minute):
				_ = p.cmd.Process.Signal(syscall.SIGQUIT)
				<-p.over
				t.Fatalf("the run does not end:\n%s", p.out)
			}
			w.whole(n, p)
			t.Logf("%d agents ran for %d tasks", w.attempts(), n)
		})
	}
}
