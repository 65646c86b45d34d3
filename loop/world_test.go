package loop

import (
	"cmp"
	"context"
	"fmt"
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
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/verify"
)

// world is a project in a real repository, with one slot, and an agent and a verification played by functions. What
// these read, write and ask of git is the slot's; what anybody else does is the user's tree's.
type world struct {
	t     *testing.T
	dir   string
	pool  string // the project's slots
	cfg   Config
	fs    atomicfile.FS
	agent func(r agent.Request, env map[string]string) agent.Result
	check func(env map[string]string) verify.Result
	mu    sync.Mutex
	at    string   // folder of the agent or verification at hand, "" between them
	runs  []string // "task attempt", in order
	tell  func(journal.Event)
	now   func() time.Time
	sleep func(time.Duration) // nil waits
	known *quota.Accounts
	free  func(dir string) (int64, error) // on the disk

	looks   []attempt.Look
	protect []string
}

const threeTasks = `{"tag": "x", "tasks": [
  {"id": 1, "title": "One", "status": "pending"},
  {"id": 2, "title": "Two", "status": "pending", "depends_on": [1]},
  {"id": 3, "title": "Three", "status": "pending", "depends_on": [1]}
]}
`

func newWorld(t *testing.T, taskFile string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), pool: t.TempDir(), fs: atomicfile.OS(), now: gitops.Now,
		protect: []string{".scud/tasks/x.json", ".descartes/"}}
	w.prepare(taskFile)
	w.cfg = Config{Baseline: config.BaselineOff, Breaker: config.BreakerOff,
		Scud: ScudConfig{Tag: "x", MaxIterationsPerTask: 3, MaxTotalIterations: 100, VerificationCommand: "check",
			AutoCommitWaves: true,
			Spec:            SpecConfig{IncludeTask: true, IncludePlanSection: true}}}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.check = func(map[string]string) verify.Result { return verify.Result{Passed: true} }
	return w
}

// prepare makes the repository: one commit that holds the task file and base.txt.
func (w *world) prepare(taskFile string) {
	w.t.Helper()
	w.git("init", "-q", "-b", "main", "--template=")
	config := w.read(".git/config") + "[user]\n\tname = A U Thor\n\temail = author@example.com\n"
	w.write(".git/config", config)
	w.write(".scud/tasks/x.json", taskFile)
	w.write("base.txt", "base\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "start")
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

// Run plays the agent.
func (w *world) Run(_ context.Context, r agent.Request) (agent.Result, error) {
	env := map[string]string{}
	for _, kv := range r.Env {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	env["prompt"] = r.Prompt
	w.mu.Lock()
	w.runs = append(w.runs, env["DESCARTES_TASK_ID"]+" "+env["DESCARTES_ATTEMPT"])
	w.mu.Unlock()
	defer w.enter(r.Dir)()
	return w.agent(r, env), nil
}

type checker struct{ w *world }

func (c checker) Run(_ context.Context, r verify.Request) (verify.Result, error) {
	env := map[string]string{}
	for _, kv := range r.Env {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	defer c.w.enter(r.Dir)()
	return c.w.check(env), nil
}

func (w *world) repo() *gitops.Repo {
	w.t.Helper()
	env := []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_SYSTEM=/dev/null"}
	r, err := gitops.Open(w.t.Context(), gitops.Options{Dir: w.dir,
		Protect: []string{".scud/tasks/x.json", ".scud/tasks/tasks.scg", ".scud/tasks/tasks.json", "specs/y/tasks.md",
			".descartes/"}, Git: "git", Env: env})
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

func (w *world) tools(repo *gitops.Repo) Tools {
	slot := func(*workspace.Slot, string) (attempt.Agent, attempt.Verifier, func() error, error) {
		return w, checker{w}, func() error { return nil }, nil
	}
	return Tools{Repo: repo, Agent: w, Verify: checker{w}, Slot: slot, Pool: w.pool, FS: w.fs, Now: w.now,
		Observe: w.tell, Sleep: w.sleep, Free: w.free, Accounts: w.known, Looks: w.looks}
}

// idle says why a start of the job is refused: nothing can run, and nothing is left to resume.
func idle(j *source.Job) []source.Problem {
	if j == nil || len(j.Runnable()) > 0 {
		return nil
	}
	if old, err := store.NewHome(j.Root).Unfinished(j.Key()); err != nil || old != nil {
		return nil
	}
	return []source.Problem{j.NothingRuns()}
}

// start loads and checks the job and starts a loop; problems and errors come back.
func (w *world) start(opt StartOptions) (*Loop, error) {
	w.t.Helper()
	j, problems := source.Load(w.dir, w.cfg)
	repo := w.repo()
	for _, p := range append(problems, idle(j)...) {
		return nil, fmt.Errorf("%s", p.Message)
	}
	if opt.Command == "" {
		opt.Command = "loop"
	}
	return Start(w.t.Context(), w.dir, Tag{j}, w.tools(repo), opt)
}

// run starts a loop, runs it to its end and closes it.
func (w *world) run(opt StartOptions) (Outcome, error) {
	w.t.Helper()
	l, err := w.start(opt)
	if err != nil {
		return Outcome{}, err
	}
	out, err := l.Run(w.t.Context(), nil)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return out, err
}

func (w *world) mustRun(opt StartOptions, want journal.Ending) Outcome {
	w.t.Helper()
	out, err := w.run(opt)
	if err != nil || out.Ending != want {
		w.t.Fatalf("got %+v, %v, want %s", out, err, want)
	}
	return out
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
