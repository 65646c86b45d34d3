package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/agent/quota"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/oscall"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/sandbox"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/lab"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/verify"
)

// Maker makes attempts on this machine. It is safe for concurrent use.
type Maker struct {
	Cache   string // folder of the repositories
	Confine bool   // no sandbox: no attempt
	Grants  Grants // where it confines
}

// Grants are what a worker lets an order have beyond the sandbox. What a run's machine may touch is for who runs that, and what a worker may
// is for who runs the worker.
type Grants struct {
	Write []string // places outside the attempt's copy
	Read  []string // hidden places
	Pass  []string // variables: NAME or PREFIX_*
}

// refuses names the first setting of an order that asks for more, with the worker's flag that grants it; "" for none.
func (g *Grants) refuses(cfg *config.Config, root string) string {
	below := func(dirs []string, path string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			rel, err := filepath.Rel(dir, path)
			return err == nil && filepath.IsLocal(rel)
		})
	}
	pass := slices.Clone(cfg.EnvPass)
	for _, name := range slices.Sorted(maps.Keys(cfg.Backends)) {
		pass = append(pass, cfg.Backends[name].EnvPass...)
	}
	for _, ask := range []struct {
		key, flag     string
		wanted, given []string
		grants        func(given []string, what string) bool
	}{
		{"sandbox_write", "--sandbox-write", launch.Paths(root, cfg.SandboxWrite), g.Write, below},
		{"sandbox_read", "--sandbox-read", launch.Paths(root, cfg.SandboxRead), append(slices.Clone(g.Read), g.Write...), below},
		{"env_pass", "--env-pass", pass, g.Pass, sandbox.Matches},
	} {
		for _, what := range ask.wanted {
			if !ask.grants(ask.given, what) {
				return fmt.Sprintf("the run's settings ask for %s: %s, which this worker does not grant; %s of the worker does", ask.key, what, ask.flag)
			}
		}
	}
	if cfg.VerifyEnv == "inherit" {
		return "the run's settings ask for verify_env: inherit, which no worker with a sandbox grants; env_pass names single variables"
	}
	return ""
}

// RefusedError says that no other worker would make an attempt either.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// QuotaError says that an attempt was not begun here: its agent's account has no quota left.
type QuotaError struct{ Wait }

func (e *QuotaError) Error() string { return e.For }

// ErrDropped is the cause with which a context ends an attempt that nobody waits for any more: it has no result then.
var ErrDropped = errors.New("nobody waits for the attempt any more")

// making is one attempt under way.
type making struct {
	*Maker
	Ask
	run                   string
	order, result, report string // refs
	root                  string // of the worker's copy of the repository
	repo                  *gitops.Repo
	reach                 *Reach

	mu    sync.Mutex
	steps []attempt.Step
	wake  chan struct{} // there are more steps
}

// Make makes an attempt, or finds the result of a worker that made it before. run tells this try from others. hear hears what others may see of it, and note what a
// person should know. The end of ctx interrupts the agent, and what that left is the result, unless the cause is ErrDropped. Errors have none of this machine's secrets.
func (m *Maker) Make(ctx context.Context, a Ask, run string, again bool, hear func(Live), note func(string)) (kept Kept, err error) {
	defer func() {
		if err != nil {
			err = &cleanError{err, unsecret(err.Error())}
		}
	}()
	s := &making{Maker: m, Ask: a, run: run, wake: make(chan struct{}, 1), reach: remote(a.Remote, func(text string) { note(unsecret(text)) })}
	for part, to := range map[string]*string{orders: &s.order, results: &s.result, live: &s.report} {
		if *to, err = refOf(a.Loop, part, a.Task, a.Try); err != nil {
			return kept, &RefusedError{err.Error()}
		}
	}
	if s.report += "-" + run; !hash.MatchString(a.Commit) || !runName.MatchString(run) {
		return kept, &RefusedError{"the order's names do not fit together"}
	}
	hear(Live{Host: hostname(), Run: run})
	if err := s.open(ctx); err != nil {
		return kept, err
	}
	defer func() { err = errors.Join(err, s.repo.Close()) }()
	if again { // whoever had it before may have made it while the server was away
		if kept, err := s.made(ctx); err != nil || kept.Commit != "" {
			return kept, err
		}
	}
	order, err := s.read(ctx)
	if err != nil {
		return kept, err
	}
	return s.make(ctx, order, hear)
}

// cleanError is an error in words that others may read.
type cleanError struct {
	error
	text string
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.error }

// unsecret takes the values of our variables out of a text, and the logins of URLs.
func unsecret(text string) string {
	return logins.ReplaceAllString(redact.Of(new(config.Config).Secrets(os.Environ())).Text(text), "://")
}

// open brings the repository and the order here. The copy has no branch and no files of its own: attempts run in its slots.
func (s *making) open(ctx context.Context) error {
	sum := sha256.Sum256([]byte(s.Remote))
	s.root = filepath.Join(s.Cache, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return err
	}
	lock := flock.New(s.root + ".lock")
	if _, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", s.root, err)
	}
	defer lock.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	opt := gitops.Options{Dir: s.root, Env: os.Environ(), Hooks: "skip", Shim: []string{self, proc.ShimCommand}, Protect: []string{".descartes/"}}
	if s.repo, err = gitops.Mirror(ctx, opt); err != nil {
		return err
	}
	if err := s.reach.Do(ctx, fetchFor, func() error { return s.repo.Fetch(ctx, s.Remote, "+"+s.order+":"+s.order) }); err != nil {
		return errors.Join(fmt.Errorf("fetch the order: %w", err), s.wanted(ctx), s.repo.Close())
	}
	return nil
}

// wanted refuses an attempt whose order is no longer on the remote: its run is over.
func (s *making) wanted(ctx context.Context) error {
	names, err := s.repo.RemoteRefs(ctx, s.Remote, s.order)
	if err == nil && len(names) == 0 {
		err = &RefusedError{"its run has withdrawn the order"}
	}
	return err
}

// made finds the result of another worker, if the remote has one.
func (s *making) made(ctx context.Context) (kept Kept, err error) {
	names, err := s.repo.RemoteRefs(ctx, s.Remote, s.result)
	if err != nil || len(names) == 0 {
		return kept, err
	}
	if err := s.repo.Fetch(ctx, s.Remote, "+"+s.result+":"+s.result); err != nil {
		return kept, err
	}
	commit, err := s.repo.RefCommit(s.result)
	if err != nil {
		return kept, err
	}
	b, err := s.repo.FileAt(ctx, commit, "result.json", maxOrder)
	var out Outcome
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out.kept(commit), err
}

// kept is what the queue hears of a result.
func (o *Outcome) kept(commit string) Kept {
	return Kept{Commit: commit, Host: o.Host, Verdict: string(o.Result.Verdict), Limited: o.Limited}
}

// read reads the order, which is the one that was named.
func (s *making) read(ctx context.Context) (o Order, err error) {
	at, err := s.repo.RefCommit(s.order)
	if err == nil && at != s.Commit {
		err = fmt.Errorf("%s is %.12s, and %.12s was ordered", s.order, at, s.Commit)
	}
	if err != nil {
		return o, err
	}
	b, err := s.repo.FileAt(ctx, s.Commit, "order.json", maxOrder)
	if err != nil {
		return o, err
	}
	return readOrder(b)
}

// readOrder reads an order. A setting that is not known here would not hold here: no worker makes an attempt without it.
func readOrder(b []byte) (o Order, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err = d.Decode(&o); err != nil || o.Version != version {
		return o, errors.Join(errors.New("another version of descartes gave the order: all machines of a fleet need the same one"), err)
	}
	return o, nil
}

// make makes the attempt in a slot, and sends what came of it.
func (s *making) make(ctx context.Context, order Order, hear func(Live)) (kept Kept, err error) {
	o, cfg := &order.Order, order.Config
	cfg.Fleet, cfg.FleetRemote, cfg.SettingsFile, cfg.Typed = "", "", "", nil // nobody typed anything here
	if why := s.Grants.refuses(&cfg, s.root); s.Confine && why != "" {
		return kept, errors.New(why)
	}
	if o.Input.Holdout != nil || cfg.Holdout.Run != "" { // they would show a folder of this machine
		return kept, &RefusedError{"the order has held-out checks, which no worker runs"}
	}
	for _, kv := range o.Input.Env {
		if name, _, _ := strings.Cut(kv, "="); process.Loads(name) || process.Refused(name) {
			return kept, &RefusedError{fmt.Sprintf("the order sets %.30q, which no run does", kv)}
		}
	}
	if s.Confine && cfg.Sandbox == string(sandbox.Off) {
		cfg.Sandbox = string(sandbox.Auto)
	}
	backend, _, err := config.ResolveBackend(cfg)
	if err != nil {
		return kept, err
	}
	backends, err := config.OtherBackends(cfg)
	if err != nil {
		return kept, err
	}
	backends = append([]agent.Backend{backend}, backends...)
	accounts := launch.Accounts(backends, s.root)
	if r, out := accounts.Known(o.Input.Backend, time.Now()); out {
		return kept, &QuotaError{Wait{For: fmt.Sprintf("quota: account %s of %s has none until %s", r.Account, hostname(), r.Until.Local().Format("Mon 2 Jan 15:04")), Until: r.Until, Reason: r.Reason}}
	}
	box, err := launch.FindSandbox(ctx, launch.Place{Root: s.root, Dir: s.root, Top: s.root}, cfg, backend)
	if err == nil && s.Confine && box.Mode == sandbox.Off {
		err = fmt.Errorf("this worker runs agents in a sandbox only, and has none: %s", box.Note)
	}
	if err != nil {
		return kept, err
	}
	place := filepath.Join(filepath.Dir(s.root), filepath.Base(s.root)+".pool")
	mask := redact.Of(cfg.Secrets(os.Environ()))
	commands := func(slot *workspace.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error) {
		q := launch.CommandsOf{Config: cfg, Sandbox: box, Backends: backends, Files: dir, Dir: s.root, Cookie: launch.Cookie(fmt.Sprintf("%s/slot-%d", s.root, slot.Number))}
		q.Sandbox.Slot = sandbox.Slot{Tree: slot.Tree(), Objects: slot.Objects(), Shown: []string{dir}}
		var c launch.Commands
		if err := c.Start(q); err != nil {
			return nil, nil, nil, err
		}
		return c.Agents(), c.Verifier(), c.Close, nil
	}
	logs := filepath.Join(store.NewHome(s.root).Run(s.Loop), "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return kept, err
	}
	log := filepath.Join(logs, fmt.Sprintf("%d-%s.log", s.Try, s.run))
	setup := lab.Setup{Command: cfg.Pool.Setup, Log: filepath.Join(logs, "setup-"+s.run+".log"), Redact: mask, Timeout: time.Duration(cfg.Pool.SetupTimeout) * time.Second}
	setup.Shown = setup.Log
	var verifier attempt.Verifier
	pool := workspace.PoolOptions{Repo: s.repo, FS: atomicfile.OS(), Place: place, Root: s.root, Dir: s.root, Shown: box.Mounts(), Fresh: cfg.Pool.Fresh, Setup: cfg.Pool.Setup,
		Run: func(ctx context.Context, slot *workspace.Slot) error { return lab.SetUp(ctx, verifier, slot, setup) }}
	slot, err := workspace.NewPool(pool).Take(ctx, 0)
	if err != nil {
		return kept, err
	}
	defer func() { err = errors.Join(err, slot.Close()) }()
	dir := workspace.SlotFiles(place, slot.Number, s.Loop)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return kept, err
	}
	agents, verifier, end, err := commands(slot, dir)
	if err != nil {
		return kept, err
	}
	defer func() { err = errors.Join(err, end()) }()
	runner := &attempt.Runner{Grace: grace, Agent: agents, Verify: verifier, Redact: mask, Dir: dir, Looks: attempt.Looks(), Repo: s.repo, Below: "."}
	if cfg.NeedsLab() {
		l := lab.New(lab.Options{Pool: pool, Files: filepath.Join(dir, "lab"), Log: setup.Log, Shown: setup.Log, Redact: mask, Setup: setup.Timeout,
			Start: func(slot *workspace.Slot, dir string) (attempt.Verifier, func() error, error) {
				_, v, end, err := commands(slot, dir)
				return v, end, err
			},
			Warn: func(string) error { return nil }})
		defer func() { err = errors.Join(err, l.Close()) }()
		runner.Lab = l
	}
	start, input := o.Start, o.Input
	start.At, start.Branch, start.Aside, start.Since, start.Named = o.At.Hash, o.At.Branch, log+".aside", time.Time{}, nil
	if _, err := slot.Prepare(ctx, start); err != nil {
		return kept, err
	}
	input.Log, input.Name, input.Env = log, s.ID(), append(input.Env, slot.Env()...)
	following := s.follow(ctx, log, hear)
	out := Outcome{Version: version, Host: hostname(), Run: s.run}
	out.Result, err = runner.Run(ctx, slot, input, func(step *attempt.Step) error { s.saw(step, log); return nil })
	following()
	out.Steps = s.steps
	if cause := context.Cause(ctx); errors.Is(cause, ErrDropped) {
		return kept, cause
	}
	if err != nil {
		return kept, err
	}
	switch out.Result.Verdict {
	case verify.Failed, verify.Crashed, verify.TimedOut: // not its fault, where the disk is full
		if why := loop.Room(oscall.Free, cfg.MinFreeDisk, s.root); why != "" {
			return kept, fmt.Errorf("%s: %w", why, syscall.ENOSPC)
		}
	}
	if r := &out.Result.Agent; r.End == agent.Limited {
		out.Limited = true
		now, until := time.Now(), r.Until
		if until.IsZero() {
			until = now.Add(unsaid)
		}
		what, _, _ := strings.Cut(r.Reason, "; resets ")                                                                                               // which Until says
		_ = accounts.Note(quota.Record{Backend: input.Backend, Until: until, Reason: cut(mask.Text(what), maxTitle), Loop: LoopName(s.Loop), At: now}) // else the next attempt meets it too
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	return s.send(gctx, &out, log)
}

// unsaid is how long an account is left alone whose agent does not say when there is more.
const unsaid = 15 * time.Minute

// grace is short: a cancelled attempt takes some seconds to reach its worker.
const grace = 2 * time.Second

// saw remembers a step, for the run.
func (s *making) saw(step *attempt.Step, log string) {
	one := *step
	if step.Log != "" {
		one.Log = strings.TrimPrefix(step.Log, strings.TrimSuffix(log, "log"))
	}
	if one.Result = nil; step.Moment == attempt.Answered { // the others' is the last one
		so := *step.Result
		one.Result = &so
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, one)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send puts what came of the attempt on the remote, with the trees that it names. Where another worker was there first, its result counts.
func (s *making) send(ctx context.Context, out *Outcome, log string) (kept Kept, err error) {
	files := map[string][]byte{}
	prefix := strings.TrimSuffix(log, "log")
	found, err := filepath.Glob(prefix + "*.log")
	if err != nil {
		return kept, err
	}
	for _, path := range found {
		if name := strings.TrimPrefix(path, prefix); besideName.MatchString(name) {
			out.Beside = append(out.Beside, name)
			if files[name], err = readLog(path); err != nil {
				return kept, err
			}
		}
	}
	if files[logFile], err = readLog(log); err != nil {
		return kept, err
	}
	if files["result.json"], err = json.Marshal(out); err != nil {
		return kept, err
	}
	work, parents := &out.Result.Work, []string{s.Commit}
	if work.Commits != "" {
		parents = append(parents, work.Commits)
	}
	commit, err := commitOf(ctx, s.repo, s.result, files, parents, []gitops.Tree{work.Seen, work.After},
		fmt.Sprintf("descartes: result of attempt %d at task %s, made by %s", s.Try, s.Task, out.Host))
	if err != nil {
		return kept, err
	}
	kept = out.kept(commit)
	err = s.reach.Do(ctx, reachFor, func() error {
		if err := s.wanted(ctx); err != nil {
			return err
		}
		err := s.repo.Send(ctx, s.Remote, s.result+":"+s.result)
		if err == nil || gitops.Unreachable(err) {
			return err
		}
		if first, ferr := s.made(ctx); ferr == nil && first.Commit != "" {
			kept, err = first, nil
		}
		return err
	})
	if err != nil {
		return Kept{}, fmt.Errorf("send the result: %w", err)
	}
	return kept, nil
}

// readLog is a log, at most so much of it that it can be sent.
func readLog(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxLog))
}

// The files of an attempt's reports.
const (
	logFile   = "log"
	stepsFile = "steps.json"
)

// How often a log that grows is sent, and how long after a step: at least, and in what sending took.
const (
	logEvery, logShare   = 10 * time.Second, 20
	stepAfter, stepShare = time.Second / 2, 4
)

// follow sends log and steps while there come more. done ends that.
func (s *making) follow(ctx context.Context, log string, hear func(Live)) (done func()) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		var had gitops.Tree
		var before []string
		var took time.Duration
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(max(logEvery, logShare*took)):
			case <-s.wake:
				select {
				case <-ctx.Done():
					return
				case <-time.After(max(stepAfter, stepShare*took)): // more of them may follow at once
				}
			}
			began := time.Now()
			tree, err := s.soFar(ctx, log)
			if err != nil || tree == had {
				continue
			}
			commit, err := s.repo.Keep(ctx, s.report, tree, before, "descartes: log so far")
			if err == nil {
				err = s.repo.Send(ctx, s.Remote, "+"+s.report+":"+s.report)
			}
			if err != nil { // it comes with the result
				continue
			}
			hear(Live{Host: hostname(), Run: s.run, Commit: commit})
			had, before, took = tree, []string{commit}, time.Since(began)
		}
	})
	return func() { stop(); wg.Wait() }
}

// soFar is what others may see of the attempt now.
func (s *making) soFar(ctx context.Context, log string) (gitops.Tree, error) {
	text, err := readLog(log)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	steps, err := json.Marshal(s.steps)
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	return s.repo.WithContent(ctx, s.repo.EmptyTree(), map[string][]byte{logFile: text, stepsFile: steps})
}
