//go:build fleet

package temporal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// town is a fleet on this machine: a server, workers, a remote behind HTTP, and a project.
type town struct {
	t       *testing.T
	dir     string
	bin     string
	address string
	project string
	agents  string // their ledger: a line for each that begins
	silent  string // after which a worker is given up
	server  *program
	workers []*program
	slots   int
	url     string
	bare    string
	remote  *wall
	last    *output // of a run

	database *database // of the server; nil: it has a file
}

// program is a running program with its output.
type program struct {
	cmd  *exec.Cmd
	out  *output
	over chan struct{}
}

// output may be read while a program writes it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (w *town) start(dir, name string, args ...string) *program {
	return w.startWith(nil, dir, name, args...)
}

func (w *town) startWith(env []string, dir, name string, args ...string) *program {
	w.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.bin, name)
	}
	p := &program{cmd: exec.Command(name, args...), out: &output{}, over: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = dir, p.out, p.out, time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = slices.Concat(os.Environ(), []string{"PATH=" + w.bin + ":" + os.Getenv("PATH"), "HOME=" + w.dir,
		"XDG_STATE_HOME=" + w.dir + "/state", "XDG_CACHE_HOME=" + w.dir + "/cache", "GIT_CONFIG_NOSYSTEM=1",
		"TEMPORAL_ADDRESS=" + w.address, silentVar + "=" + w.silent, "DESCARTES_SANDBOX=off", "DESCARTES_BASELINE=off",
		"DESCARTES_ENV_PASS=LEDGER,MACHINE,HOLD", "LEDGER=" + w.agents, "HOLD=" + w.dir + "/hold"}, env)
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.over) }()
	return p
}

// said is what it printed, nothing where there is none.
func (p *program) said() string {
	if p == nil {
		return ""
	}
	return p.out.String()
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

// until waits for something, for which a busy machine has much time.
func (w *town) until(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain: %s\nagents:\n%s\nthe run:\n%s", what, w.ledger(), w.last)
		}
	}
}

// An agent works for a moment, and as long as its machine is held.
const agentText = `#!/bin/sh
cat >/dev/null
echo "$DESCARTES_TASK_ID/$DESCARTES_ATTEMPT on $MACHINE" >>"$LEDGER"
echo "task $DESCARTES_TASK_ID"
sleep 0.4
while [ -e "$HOLD" ] || [ -e "$HOLD.$MACHINE" ]; do sleep 0.1; done
out=out/h${DESCARTES_TASK_ID%??} && mkdir -p $out && echo "$DESCARTES_TASK_ID" >"$out/$DESCARTES_TASK_ID"
case $DESCARTES_TASK_ID in *0)
	[ ! -e shared ] || sed -i '/^<<<<<<< /d; /^=======$/d; /^>>>>>>> /d; /^|||||||/d' shared
	grep -qsx "$DESCARTES_TASK_ID" shared || echo "$DESCARTES_TASK_ID" >>shared ;;
esac
echo '<promise>COMPLETE</promise>'
`

var programs struct {
	once sync.Once
	dir  string
	err  error
}

// plan says what a town is like.
type plan struct {
	tasks, width   int // of which so many need no other one
	workers, slots int
	silent         string
	agent          int  // tenths of a second that an agent takes
	alone          bool // no other test runs meanwhile
}

func newTown(t *testing.T, p plan) *town {
	t.Helper()
	if !p.alone { // most of them wait most of the time
		t.Parallel()
	}
	temporal, err := exec.LookPath("temporal")
	if err != nil {
		t.Fatal("the temporal program is not on the PATH: go install github.com/temporalio/cli/cmd/temporal@v1.5.1")
	}
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "descartes-fleet-test-*"); programs.err != nil {
			return
		}
		for name, tag := range map[string]string{"descartes": "", "descartes-fleet": "fleet"} {
			build := exec.Command("go", "build", "-tags", tag, "-o", filepath.Join(programs.dir, name),
				"./cmd/descartes")
			build.Dir = "../.."
			if b, err := build.CombinedOutput(); err != nil {
				programs.err = fmt.Errorf("%w\n%s", err, b)
				return
			}
		}
		programs.err = os.Symlink(temporal, filepath.Join(programs.dir, "temporal"))
	})
	if programs.err != nil {
		t.Fatal("build: ", programs.err)
	}
	dir := t.TempDir()
	if p.silent == "" {
		p.silent = "5s"
	}
	w := &town{t: t, dir: dir, bin: programs.dir, project: filepath.Join(dir, "project"),
		agents: filepath.Join(dir, "ledger"), silent: p.silent, slots: p.slots}
	w.address = "127.0.0.1:" + freePort()
	t.Cleanup(w.end)
	w.serve()
	w.host()
	w.make(p)
	for i := range p.workers {
		w.workers = append(w.workers, nil)
		w.work(i)
	}
	return w
}

// ports are those that freePort has named.
var ports sync.Map

// freePort is one that nobody listens on now, that no other program of the tests gets, nor the system gives to a
// connection, and that Temporal can write down in PostgreSQL: as a number of two bytes, with a sign. The seven that
// follow belong to it.
func freePort() string {
	for {
		port := strconv.Itoa(10000 + 8*rand.IntN(2500))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			if _, named := ports.LoadOrStore(port, true); !named {
				return port
			}
		}
	}
}

// end ends everything, and sees that nothing is left.
func (w *town) end() {
	all := append(slices.Clone(w.workers), w.server)
	if w.database != nil {
		all = append(all, w.database.program)
	}
	for _, p := range all {
		if p != nil {
			p.kill()
			if w.t.Failed() {
				w.t.Logf("%v said:\n%s", p.cmd.Args, p.out)
			}
		}
	}
	w.workers, w.server = nil, nil
	w.nothingLeft()
}

// serve starts the server, and waits until it answers.
func (w *town) serve() {
	if _, port, _ := net.SplitHostPort(w.address); *postgres != "" {
		w.serveOnPostgres()
	} else {
		w.server = w.start(w.dir, "descartes-fleet", "dev", "--port", port, "--dir", filepath.Join(w.dir, "server"))
	}
	w.listens(w.address)
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if p := w.start(w.dir, "descartes-fleet", "status"); true {
			if <-p.over; p.cmd.ProcessState.Success() {
				return
			}
			if exited(w.server) || time.Now().After(deadline) {
				w.t.Fatalf("no server: %s\n%s", p.out, w.server.out)
			}
		}
	}
}

// listens waits until something listens at an address: asking a server that is not there yet takes a program each time.
func (w *town) listens(address string) {
	w.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return
		} else if w.server != nil && exited(w.server) || time.Now().After(deadline) {
			w.t.Fatalf("%v\n%s", err, w.server.said())
		}
	}
}

// host serves a bare repository by git http-backend, behind a wall.
func (w *town) host() {
	root := filepath.Join(w.dir, "remotes")
	w.bare = filepath.Join(root, "tally.git")
	w.git(w.dir, "init", "-q", "--bare", w.bare)
	w.git(w.bare, "config", "http.receivepack", "true")
	core := strings.TrimSpace(w.git(w.dir, "--exec-path"))
	s := httptest.NewServer(&cgi.Handler{Path: filepath.Join(core, "git-http-backend"),
		Env:        []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.dir},
		InheritEnv: []string{"PATH"}, Stderr: io.Discard})
	s.Config.Handler = http.HandlerFunc(s.Config.Handler.ServeHTTP)
	w.t.Cleanup(s.Close)
	w.remote = newWall(w.t, s.Listener.Addr().String())
	w.url = "http://" + w.remote.address() + "/tally.git"
}

// make makes a project whose tasks are a graph of several waves.
func (w *town) make(p plan) {
	w.list("tally", 1, p.tasks, p.width)
	text := strings.Replace(agentText, "sleep 0.4", fmt.Sprintf("sleep 0.%d", max(1, p.agent)), 1)
	if err := os.WriteFile(filepath.Join(w.project, "agent.sh"), []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "me"},
		{"config", "user.email", "me@example.org"}, {"add", "-A"}, {"commit", "-qm", "start"},
		{"remote", "add", "origin", w.url}, {"push", "-q", "origin", "main"}} {
		w.git(w.project, args...)
	}
}

// list writes a list of tasks, of which width need no other one.
func (w *town) list(tag string, from, to, width int) {
	type task struct {
		ID     int    `json:"id"`
		Title  string `json:"title"`
		Status string `json:"status"`
		On     []int  `json:"depends_on,omitempty"`
	}
	var all []task
	for i := from; i <= to; i++ {
		one := task{ID: i, Title: "Word " + strconv.Itoa(i), Status: "pending"}
		if i-from >= width {
			one.On = []int{i - width}
		}
		all = append(all, one)
	}
	b, err := json.Marshal(map[string]any{"tag": tag, "tasks": all})
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.project, ".scud/tasks", tag+".json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// work starts a worker, in the place of an earlier one.
func (w *town) work(i int, env ...string) {
	if old := w.workers[i]; old != nil {
		old.kill()
	}
	w.workers[i] = w.startWith(append([]string{"MACHINE=" + strconv.Itoa(i)}, env...), w.dir, "descartes-fleet",
		w.workerArgs(i)...)
}

func (w *town) workerArgs(i int) []string {
	return []string{"worker", "--no-sandbox", "--repo", w.url, "--slots", strconv.Itoa(w.slots), "--repo-cache",
		filepath.Join(w.dir, fmt.Sprintf("machine%d", i))}
}

func (w *town) run(args ...string) *program { return w.runIn(w.project, "tally", args...) }

func (w *town) runIn(dir, tag string, args ...string) *program {
	p := w.start(dir, "descartes", append([]string{"loop", "start", "--scud-tag", tag, "--command", "./agent.sh",
		"--verify", "test -d out", "--fleet", "-j", "16", "--plain"}, args...)...)
	w.last = p.out
	return p
}

// ends waits for a run's end.
func (w *town) ends(p *program) {
	w.t.Helper()
	select {
	case <-p.over:
	case <-time.After(8*time.Minute + time.Duration(*tasks)*2*time.Second):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.over
		w.t.Fatalf("the run does not end:\n%s", p.out)
	}
}

// whole checks what a run has come to: each task verified and integrated once, each in one commit, task list and
// journal agree, nothing left on the remote, and no process.
func (w *town) whole(p *program, tag string, from, to int) {
	w.t.Helper()
	if !p.cmd.ProcessState.Success() {
		w.t.Fatalf("the run ended with %v:\n%s", p.cmd.ProcessState, p.out)
	}
	for i := from; i <= to; i++ {
		id := strconv.Itoa(i)
		folder := id
		if len(id) > 1 {
			folder = id[:len(id)-2]
		}
		if b, err := os.ReadFile(filepath.Join(w.project, "out", "h"+folder, id)); err != nil ||
			strings.TrimSpace(string(b)) != strconv.Itoa(i) {
			w.t.Errorf("task %d: %q, %v", i, b, err)
		}
	}
	times := w.journal(tag)
	var list struct {
		Tasks []struct {
			ID     int
			Status string
		}
	}
	b, err := os.ReadFile(filepath.Join(w.project, ".scud/tasks", tag+".json"))
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil || len(list.Tasks) != to-from+1 {
		w.t.Errorf("%d tasks in the list, %v", len(list.Tasks), err)
	}
	for _, one := range list.Tasks {
		if one.Status != "done" {
			w.t.Errorf("task %d is %s in the list", one.ID, one.Status)
		}
	}
	seen := map[string]int{}
	for _, id := range strings.Fields(w.git(w.project, "log", "--format=%(trailers:key=Descartes-Task,valueonly)")) {
		seen[filepath.Base(id)]++ // behind its tag
	}
	shared, _ := os.ReadFile(filepath.Join(w.project, "shared"))
	for i := from; i <= to; i++ {
		id := strconv.Itoa(i)
		for _, what := range []string{"task_done ", "integrated "} {
			if got := times[what+id]; got != 1 {
				w.t.Errorf("%s%s: %d times", what, id, got)
			}
		}
		if seen[id] != 1 {
			w.t.Errorf("task %s stands in %d commits", id, seen[id])
		}
		if n := strings.Count("\n"+string(shared), "\n"+id+"\n"); i%10 == 0 && n != 1 {
			w.t.Errorf("task %s stands %d times in the shared file", id, n)
		}
	}
	if said := w.git(w.project, "status", "--porcelain"); said != "" {
		w.t.Errorf("git status: %s", said)
	}
	w.git(w.project, "fsck", "--strict", "--no-dangling")
	w.cleared()
	w.nothingLeft()
}

// cleared sees that a run left nothing on the remote, late results included.
func (w *town) cleared() {
	w.t.Helper()
	if said := w.git(w.bare, "for-each-ref", "refs/descartes"); said != "" {
		w.t.Errorf("left on the remote: %s", said)
	}
}

// journal counts what the journals of a tag's loops say of each task.
func (w *town) journal(tag string) map[string]int {
	w.t.Helper()
	journals, err := filepath.Glob(filepath.Join(w.project, ".descartes/runs/*/events.ndjson"))
	if err != nil || len(journals) == 0 {
		w.t.Fatalf("journals: %v, %v", journals, err)
	}
	times := map[string]int{}
	for _, path := range journals {
		text, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e struct{ Type, Task string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				w.t.Fatalf("%q: %v", line, err)
			}
			times[e.Type+" "+e.Task]++
			times[e.Type]++
		}
	}
	return times
}

// ours are the processes of this town that are none of its programs and do not belong to the server.
func (w *town) ours() (left []string) {
	mine := map[int]bool{}
	for _, p := range append(slices.Clone(w.workers), w.server) {
		if p != nil {
			mine[p.cmd.Process.Pid] = true
		}
	}
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range envs {
		b, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil || mine[pid] || !bytes.Contains(b, []byte("LEDGER="+w.agents+"\x00")) {
			continue
		}
		group, err := syscall.Getpgid(pid)
		if err != nil || w.server != nil && group == w.server.cmd.Process.Pid {
			continue
		}
		b, _ = os.ReadFile(filepath.Dir(path) + "/cmdline")
		line := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
		if kept := strings.HasSuffix(line, " __shim") || strings.HasSuffix(line, " cat-file --batch"); line == "" ||
			len(mine) > 0 && kept {
			continue // it is a zombie, or a worker keeps it for the next attempt
		}
		left = append(left, fmt.Sprintf("%d %s", pid, line))
	}
	return left
}

// nothingLeft sees that no process of an attempt is left; what is being ended has a moment.
func (w *town) nothingLeft() {
	w.t.Helper()
	var left []string
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if left = w.ours(); len(left) == 0 {
			return
		}
	}
	w.t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
}

// figures are what n attempts have cost until now, by program: CPU of each of them, and memory.
func (w *town) figures(n int, run *program) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CPU of an attempt and memory")
	programs := map[string]*program{"run": run, "server": w.server}
	for i, p := range w.workers {
		programs[fmt.Sprintf("worker %d", i)] = p
	}
	if w.database != nil {
		programs["database"] = w.database.program
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		p := programs[name]
		cpu, size := time.Duration(0), "over"
		if exited(p) {
			cpu = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		} else if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)); err == nil {
			_, size, _ = strings.Cut(string(status), "VmRSS:")
			size, _, _ = strings.Cut(size, "\n")
			cpu = used(p.cmd.Process.Pid)
		}
		fmt.Fprintf(&b, "; %s %v, %s", name, (cpu / time.Duration(max(1, n))).Round(time.Millisecond),
			strings.TrimSpace(size))
	}
	if w.database != nil {
		size := int64(0)
		_ = filepath.WalkDir(filepath.Join(w.database.dir, "data", "base"),
			func(_ string, d os.DirEntry, err error) error {
				if err != nil {
					return nil
				}
				if fi, err := d.Info(); err == nil && fi.Mode().IsRegular() {
					size += fi.Size()
				}
				return nil
			})
		fmt.Fprintf(&b, "; %d MB of database", size>>20)
	}
	return b.String()
}

// used is the CPU of a process, and of its children, the ended ones too.
func used(pid int) time.Duration {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, _ := os.ReadFile(dir + "stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	ticks := 0 // hundredths of a second
	for i, field := range strings.Fields(after) {
		if t, _ := strconv.Atoi(field); i >= 11 && i < 15 {
			ticks += t
		}
	}
	sum := time.Duration(ticks) * 10 * time.Millisecond
	lists, _ := filepath.Glob(dir + "task/*/children")
	for _, path := range lists {
		list, _ := os.ReadFile(path)
		for _, child := range strings.Fields(string(list)) {
			pid, _ := strconv.Atoi(child)
			sum += used(pid)
		}
	}
	return sum
}

// ledger is what the agents wrote.
func (w *town) ledger() string {
	b, _ := os.ReadFile(w.agents)
	return string(b)
}

// attempts are how many agents ran.
func (w *town) attempts() int { return strings.Count(w.ledger(), "\n") }

// on are how many agents ran on a machine.
func (w *town) on(machine int) int {
	return strings.Count(w.ledger(), fmt.Sprintf(" on %d\n", machine))
}

// hold keeps the agents of a machine from ending; "" is all machines.
func (w *town) hold(machine string) (release func()) {
	w.t.Helper()
	path := filepath.Join(w.dir, "hold"+machine)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return func() { _ = os.Remove(path) }
}
