package tagrun

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/proc"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/verify"
)

// TestMain also plays the shim under which git runs where a test asks for it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.ShimCommand {
		os.Exit(proc.Serve())
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // under the race detector every process sleeps a second before it exits
	os.Exit(m.Run())
}

// world is a project in a real repository, in which runs over the tag x work with one lane. Its agent and its check are
// functions: what these read, write and ask of git is their slot's; what anybody else does is the user's tree's.
type world struct {
	t     *testing.T
	dir   string
	pool  string // the project's slots
	cfg   config.Config
	fs    atomicfile.FS
	agent func(r agent.Request, env map[string]string) agent.Result
	check func(env map[string]string) verify.Result
	tell  func(journal.Event)
	now   func() time.Time
	known *quota.Accounts
	free  func(dir string) (int64, error) // on the disk
	looks []attempt.Look
	shim  bool // git runs as the program has it run, under a process that ends it and gives it time to remove its locks

	interrupt context.CancelCauseFunc // ends the run at work at once
	stop      chan struct{}           // closed: what is under way is finished

	mu  sync.Mutex
	at  string   // folder of the agent or check at work, "" between them
	ran []string // "task attempt", in order
}

const twoTasks = `{"tag": "x", "tasks": [
  {"id": 1, "title": "One", "status": "pending"},
  {"id": 2, "title": "Two", "status": "pending", "depends_on": [1]}
]}
`

const threeTasks = `{"tag": "x", "tasks": [
  {"id": 1, "title": "One", "status": "pending"},
  {"id": 2, "title": "Two", "status": "pending", "depends_on": [1]},
  {"id": 3, "title": "Three", "status": "pending", "depends_on": [1]}
]}
`

// newWorld is a world whose list is committed. Its agents write a file each and say that they are done, and its check
// passes.
func newWorld(t *testing.T, list string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), pool: t.TempDir(), fs: atomicfile.OS(), now: gitops.Now}
	w.git("init", "-q", "-b", "main", "--template=")
	w.write(".git/config", w.read(".git/config")+"[user]\n\tname = A U Thor\n\temail = author@example.com\n")
	w.write(".scud/tasks/x.json", list)
	w.write("base.txt", "base\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "start")
	w.cfg = config.Config{}
	w.cfg.Backend.Type = "generic"
	w.cfg.Baseline, w.cfg.Breaker = config.BaselineOff, config.BreakerOff
	w.cfg.Scud = config.ScudConfig{Tag: "x", MaxIterationsPerTask: 3, MaxTotalIterations: 100,
		VerificationCommand: "check", AutoCommitWaves: true,
		Spec: config.SpecConfig{IncludeTask: true, IncludePlanSection: true}}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result { return w.works(env) }
	w.check = func(map[string]string) verify.Result { return verify.Result{Passed: true} }
	return w
}

// works is what an agent does that does its task.
func (w *world) works(env map[string]string) agent.Result {
	w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
	return agent.Result{End: agent.Finished, Complete: true}
}

func (w *world) here() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.at, w.dir)
}

// enter lets the world act in a folder, until leave is called.
func (w *world) enter(dir string) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = dir
	return func() { w.enter("") }
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = w.here()
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "LC_ALL=C")
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

func (w *world) write(name, text string) {
	w.t.Helper()
	p := filepath.Join(w.here(), name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.here(), name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// Agents and checks are played.
type (
	plays  struct{ w *world }
	judges struct{ w *world }
)

func (p plays) Run(_ context.Context, r agent.Request) (agent.Result, error) {
	w, env := p.w, envOf(r.Env)
	env["prompt"] = r.Prompt
	w.mu.Lock()
	w.ran = append(w.ran, env["DESCARTES_TASK_ID"]+" "+env["DESCARTES_ATTEMPT"])
	w.mu.Unlock()
	defer w.enter(r.Dir)()
	return w.agent(r, env), nil
}

func (j judges) Run(_ context.Context, r verify.Request) (verify.Result, error) {
	defer j.w.enter(r.Dir)()
	return j.w.check(envOf(r.Env)), nil
}

func envOf(list []string) map[string]string {
	env := map[string]string{}
	for _, kv := range list {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	return env
}

func (w *world) repo() *gitops.Repo {
	w.t.Helper()
	var shim []string
	if w.shim {
		exe, err := os.Executable()
		if err != nil {
			w.t.Fatal(err)
		}
		shim = []string{exe, proc.ShimCommand}
	}
	r, err := gitops.Open(w.t.Context(), gitops.Options{Dir: w.dir, Git: "git", Shim: shim, Protect: []string{
		".scud/tasks/x.json", ".scud/tasks/tasks.scg", ".scud/tasks/tasks.json", "specs/y/tasks.md", ".descartes/"},
		Env: []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_SYSTEM=/dev/null"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return r
}

func (w *world) load() *source.Job {
	w.t.Helper()
	j, problems := source.Load(w.dir, w.cfg)
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	return j
}

// nothingRuns is the error of a start where no task can run and no run is to be resumed.
var errNothingRuns = errors.New("nothing is left to run")

// start starts a run, or resumes it.
func (w *world) start(opt loop.StartOptions) (*Run, error) {
	w.t.Helper()
	j := w.load()
	if old, err := store.NewHome(w.dir).Unfinished(j.Key()); len(j.Runnable()) == 0 && err == nil && old == nil {
		return nil, errNothingRuns
	}
	opt.Command = cmp.Or(opt.Command, "loop")
	slot := func(*slot.Slot, string) (attempt.Agent, attempt.Verifier, func() error, error) {
		return plays{w}, judges{w}, func() error { return nil }, nil
	}
	return Start(w.t.Context(), w.dir, j, loop.Tools{Repo: w.repo(), Agent: plays{w}, Verify: judges{w}, Slot: slot,
		Pool: w.pool, FS: w.fs, Now: w.now, Observe: w.tell, Free: w.free, Accounts: w.known, Looks: w.looks}, opt)
}

// run starts a run, has it come to its end and closes it.
func (w *world) run(opt loop.StartOptions) (loop.Outcome, error) {
	w.t.Helper()
	r, err := w.start(opt)
	if err != nil {
		return loop.Outcome{}, err
	}
	ctx, interrupt := context.WithCancelCause(w.t.Context())
	defer interrupt(nil)
	w.interrupt, w.stop = interrupt, make(chan struct{})
	out, err := r.Run(ctx, w.stop)
	return out, errors.Join(err, r.Close())
}

// ends is run where it must end in one way.
func (w *world) ends(opt loop.StartOptions, want journal.Ending) loop.Outcome {
	w.t.Helper()
	out, err := w.run(opt)
	if err != nil || out.Ending != want {
		w.t.Fatalf("got %+v, %v, want %s", out, err, want)
	}
	return out
}

// state is the state file of the default place.
func (w *world) state() *store.State {
	w.t.Helper()
	s, err := store.LoadState(store.NewHome(w.dir).Default())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// clean fails the test unless git finds nothing to say.
func (w *world) clean() {
	w.t.Helper()
	if s := w.git("status", "--porcelain"); s != "" {
		w.t.Errorf("git status is not clean:\n%s", s)
	}
	if s := w.git("fsck", "--strict", "--no-dangling"); s != "" {
		w.t.Errorf("git fsck:\n%s", s)
	}
}

// copied copies the project and its slots, while nobody works in them. What it returns has them as they were.
func (w *world) copied() (back func()) {
	w.t.Helper()
	at := w.t.TempDir()
	bring := func(from, to string) {
		w.t.Helper()
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
	}
	bring(w.dir, at+"/dir")
	bring(w.pool, at+"/pool")
	return func() {
		w.t.Helper()
		for from, to := range map[string]string{at + "/dir": w.dir, at + "/pool": w.pool} {
			if err := os.RemoveAll(to); err != nil {
				w.t.Fatal(err)
			}
			bring(from, to)
		}
	}
}

// oneLateThreeNever is a check that task 1 fails once, and task 3 each time.
func oneLateThreeNever(env map[string]string) verify.Result {
	id := env["DESCARTES_TASK_ID"]
	return verify.Result{Passed: id == "2" || id == "1" && env["DESCARTES_ATTEMPT"] != "1", Code: 1}
}
