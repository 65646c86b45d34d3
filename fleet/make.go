package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
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

// Maker makes attempts on this machine. It is safe for concurrent use. What an attempt of a run was made with is kept
// for the next one, until Close.
type Maker struct {
	Cache   string // folder of the repositories
	Confine bool   // no sandbox: no attempt
	Grants  Grants // where it confines
	Note    func(string)

	mu      sync.Mutex
	mirrors map[string]*mirror // by URL
	idle    []*lane
}

// mirror is this machine's copy of a repository. It has no branch and no files of its own: attempts run in its slots.
type mirror struct {
	*remote
	root string
}

// lane is where the attempts of a run are made one after the other.
type lane struct {
	key    string // of the run and its settings
	logs   string // folder
	slot   *workspace.Slot
	runner *attempt.Runner
	end    []func() error
}

func (l *lane) close() (err error) {
	for _, end := range slices.Backward(l.end) {
		err = errors.Join(err, end())
	}
	return err
}

// Close ends what no attempt uses.
func (m *Maker) Close() (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.idle {
		err = errors.Join(err, l.close())
	}
	for _, r := range m.mirrors {
		err = errors.Join(err, r.repo.Close())
	}
	m.idle, m.mirrors = nil, nil
	return err
}

// Grants are what a worker lets an order have beyond the sandbox. What a run's machine may touch is for who runs that,
// and what a worker may is for who runs the worker.
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
		{"sandbox_read", "--sandbox-read", launch.Paths(root, cfg.SandboxRead),
			append(slices.Clone(g.Read), g.Write...), below},
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
	*mirror
	Ask
	names
	run  string
	told bool // the remote has a report

	mu    sync.Mutex
	steps []attempt.Step
	wake  chan struct{} // there are more steps
}

// Make makes an attempt, or finds the result of a worker that made it before. run tells this try from others. hear
// hears what others may see of it. The end of ctx interrupts the agent, and what that left is the result, unless the
// cause is ErrDropped. Errors have none of this machine's secrets.
func (m *Maker) Make(ctx context.Context, a Ask, run string, hear func(Live)) (kept Kept, err error) {
	defer func() {
		if err != nil {
			err = &cleanError{err, unsecret(err.Error())}
		}
	}()
	s := &making{Maker: m, Ask: a, run: run, wake: make(chan struct{}, 1)}
	if s.names, err = namesOf(a.Loop, a.Task, a.Try); err != nil {
		return kept, &RefusedError{err.Error()}
	}
	if s.report += "-" + run; !hash.MatchString(a.Commit) || !runName.MatchString(run) {
		return kept, &RefusedError{"the order's names do not fit together"}
	}
	hear(Live{Host: Host(), Run: run})
	if s.mirror, err = m.copyOf(ctx, a.Remote); err != nil {
		return kept, err
	}
	if err := s.fetch(ctx, "+"+s.order+":"+s.order); err != nil {
		return s.made(ctx, fmt.Errorf("fetch the order: %w", err))
	}
	order, err := s.read(ctx)
	if err == nil {
		kept, err = s.make(ctx, order, hear)
	}
	return kept, errors.Join(err, s.forget(context.WithoutCancel(ctx), s.order))
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

// copyOf is the copy of a repository.
func (m *Maker) copyOf(ctx context.Context, url string) (*mirror, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.mirrors[url]; r != nil {
		return r, nil
	}
	sum := sha256.Sum256([]byte(url))
	root := filepath.Join(m.Cache, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	lock := flock.New(root + ".lock")
	if _, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock %s: %w", root, err)
	}
	defer lock.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	repo, err := gitops.Mirror(ctx, gitops.Options{Dir: root, Env: os.Environ(), Hooks: "skip",
		Shim: []string{self, proc.ShimCommand}, Protect: []string{".descartes/"}})
	if err != nil {
		return nil, err
	}
	r := &mirror{remote: newRemote(repo, url, func(text string) { m.Note(unsecret(text)) }), root: root}
	if m.mirrors == nil {
		m.mirrors = map[string]*mirror{}
	}
	m.mirrors[url] = r
	return r, nil
}

// made finds the result of another worker, where git refused what an attempt needs. One without order and result is
// wanted by nobody: its run is over.
func (s *making) made(ctx context.Context, why error) (kept Kept, err error) {
	there, err := s.there(ctx, s.result)
	if err == nil && !there {
		if there, err = s.there(ctx, s.order); err == nil && !there {
			return kept, &RefusedError{"its run has withdrawn the order"}
		}
		return kept, errors.Join(why, err)
	}
	if err == nil {
		err = s.fetch(ctx, "+"+s.result+":"+s.result)
	}
	if err == nil {
		err = s.at(s.result, &kept.Commit)
	}
	if err != nil {
		return kept, errors.Join(why, err)
	}
	out, err := outcomeAt(ctx, s.repo, kept.Commit)
	kept.Verdict = string(out.Result.Verdict)
	return kept, err
}

// read reads the order, which is the one that was named.
func (s *making) read(ctx context.Context) (o Order, err error) {
	if err := s.at(s.order, &s.Commit); err != nil {
		return o, err
	}
	b, err := s.repo.FileAt(ctx, s.Commit, orderFile, maxOrder)
	if err != nil {
		return o, err
	}
	return readOrder(b)
}

// readOrder reads an order. A setting that is not known here would not hold here: no worker makes an attempt without
// it.
func readOrder(b []byte) (o Order, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err = d.Decode(&o); err != nil || o.Version != version {
		return o, errors.Join(errors.New(
			"another version of descartes gave the order: all machines of a fleet need the same one"), err)
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
		return kept, &QuotaError{Wait{For: fmt.Sprintf("quota: account %s of %s has none until %s", r.Account, Host(),
			r.Until.Local().Format("Mon 2 Jan 15:04")), Until: r.Until, Reason: r.Reason}}
	}
	l, err := s.lane(ctx, &cfg, backends)
	if err != nil {
		return kept, err
	}
	defer func() {
		if err != nil { // whatever it left
			err = errors.Join(err, l.close())
			return
		}
		s.Maker.mu.Lock()
		defer s.Maker.mu.Unlock()
		s.idle = append(s.idle, l)
	}()
	log := filepath.Join(l.logs, fmt.Sprintf("%d-%s.log", s.Try, s.run))
	start, input := o.Start, o.Input
	start.At, start.Branch, start.Aside, start.Since, start.Named = o.At.Hash, o.At.Branch, log+".aside", time.Time{},
		nil
	if _, err := l.slot.Prepare(ctx, start); err != nil {
		return kept, err
	}
	input.Log, input.Name, input.Env = log, s.ID(), append(input.Env, l.slot.Env()...)
	following := s.follow(ctx, log, hear)
	out := Outcome{Version: version, Host: Host(), Run: s.run}
	out.Result, err = l.runner.Run(ctx, l.slot, input, func(step *attempt.Step) error { s.saw(step, log); return nil })
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
		out.Result.Paced = true
		now, until := time.Now(), r.Until
		if until.IsZero() {
			until = now.Add(unsaid)
		}
		// which Until says
		what, _, _ := strings.Cut(r.Reason, "; resets ")
		// else the next attempt meets it too
		_ = accounts.Note(quota.Record{Backend: input.Backend, Until: until,
			Reason: cut(l.runner.Redact.Text(what), maxTitle), Loop: LoopName(s.Loop), At: now})
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	return s.deliver(gctx, &out, log)
}

// lane takes one that an attempt of the same run left, or makes one, in the place of another run's.
func (s *making) lane(ctx context.Context, cfg *config.Config, backends []agent.Backend) (l *lane, err error) {
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	l = &lane{key: s.Remote + "\n" + s.Loop + "\n" + string(settings)}
	m := s.Maker
	m.mu.Lock()
	var found *lane
	if n := len(m.idle); n > 0 {
		at := max(0, slices.IndexFunc(m.idle, func(one *lane) bool { return one.key == l.key }))
		found, m.idle = m.idle[at], slices.Delete(m.idle, at, at+1)
	}
	m.mu.Unlock()
	if found != nil && found.key == l.key {
		return found, nil
	} else if found != nil {
		err = found.close()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if err != nil {
		return l, err
	}
	box, err := launch.FindSandbox(ctx, launch.Place{Root: s.root, Dir: s.root, Top: s.root}, *cfg, backends[0])
	if err == nil && s.Confine && box.Mode == sandbox.Off {
		err = fmt.Errorf("this worker runs agents in a sandbox only, and has none: %s", box.Note)
	}
	if err != nil {
		return l, err
	}
	place := filepath.Join(filepath.Dir(s.root), filepath.Base(s.root)+".pool")
	commands := func(slot *workspace.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error) {
		q := launch.CommandsOf{Config: *cfg, Sandbox: box, Backends: backends, Files: dir, Dir: s.root,
			Cookie: launch.Cookie(fmt.Sprintf("%s/slot-%d", s.root, slot.Number))}
		q.Sandbox.Slot = sandbox.Slot{Tree: slot.Tree(), Objects: slot.Objects(), Shown: []string{dir}}
		var c launch.Commands
		if err := c.Start(q); err != nil {
			return nil, nil, nil, err
		}
		return c.Agents(), c.Verifier(), c.Close, nil
	}
	l.logs = filepath.Join(store.NewHome(s.root).Run(s.Loop), "logs")
	if err := os.MkdirAll(l.logs, 0o755); err != nil {
		return l, err
	}
	setup := lab.Setup{Command: cfg.Pool.Setup, Log: filepath.Join(l.logs, "setup-"+s.run+".log"),
		Redact: redact.Of(cfg.Secrets(os.Environ())), Timeout: time.Duration(cfg.Pool.SetupTimeout) * time.Second}
	setup.Shown = setup.Log
	var verifier attempt.Verifier
	pool := workspace.PoolOptions{Repo: s.repo, FS: atomicfile.OS(), Place: place, Root: s.root, Dir: s.root,
		Shown: box.Mounts(), Fresh: cfg.Pool.Fresh, Setup: cfg.Pool.Setup,
		Run: func(ctx context.Context, slot *workspace.Slot) error { return lab.SetUp(ctx, verifier, slot, setup) }}
	if l.slot, err = workspace.NewPool(pool).Take(ctx, 0); err != nil {
		return l, err
	}
	l.end = append(l.end, l.slot.Close)
	dir := workspace.SlotFiles(place, l.slot.Number, s.Loop)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return l, err
	}
	agents, verifier, end, err := commands(l.slot, dir)
	if err != nil {
		return l, err
	}
	l.end = append(l.end, end)
	l.runner = &attempt.Runner{Grace: grace, Agent: agents, Verify: verifier, Redact: setup.Redact, Dir: dir,
		Looks: attempt.Looks(), Repo: s.repo, Below: "."}
	if cfg.NeedsLab() {
		looks := lab.New(lab.Options{Pool: pool, Files: filepath.Join(dir, "lab"), Log: setup.Log, Shown: setup.Log,
			Redact: setup.Redact, Setup: setup.Timeout,
			Start: func(slot *workspace.Slot, dir string) (attempt.Verifier, func() error, error) {
				_, v, end, err := commands(slot, dir)
				return v, end, err
			},
			Warn: func(string) error { return nil }})
		l.end = append(l.end, looks.Close)
		l.runner.Lab = looks
	}
	return l, nil
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

// deliver puts what came of the attempt on the remote in the place of its order and report, with the trees that it
// names. Where another worker was there first, its result counts.
func (s *making) deliver(ctx context.Context, out *Outcome, log string) (kept Kept, err error) {
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
	if files[resultFile], err = json.Marshal(out); err != nil {
		return kept, err
	}
	work := &out.Result.Work
	tree, err := s.repo.Bundle(ctx, files, work.Seen, work.After)
	if err != nil {
		return kept, err
	}
	commit, err := s.repo.Link(ctx, s.Commit, gitops.Link{Tree: tree, Second: work.Commits, When: time.Now(),
		Message: fmt.Sprintf("descartes: result of attempt %d at task %s, made by %s", s.Try, s.Task, out.Host)})
	if err != nil {
		return kept, err
	}
	refspecs := []string{commit + ":" + s.result, s.order + "@" + s.Commit}
	if s.told {
		refspecs = append(refspecs, ":"+s.report)
	}
	if err = s.remote.send(ctx, refspecs...); err != nil {
		return s.made(ctx, fmt.Errorf("send the result: %w", err))
	}
	return Kept{commit, string(out.Result.Verdict)}, nil
}

// readLog is a log, nothing where there is none.
func readLog(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return b, err
}

// How often a log that grows is sent, and how long after a step: at least, and in what sending took.
const (
	logEvery, logShare   = 10 * time.Second, 20
	stepAfter, stepShare = 2 * time.Second, 4
)

// follow sends log and steps while there come more. done ends that.
func (s *making) follow(ctx context.Context, log string, hear func(Live)) (done func()) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		var had gitops.Tree
		before := ""
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
			commit, err := s.repo.Link(ctx, before, gitops.Link{Tree: tree, When: began,
				Message: "descartes: log so far"})
			if err == nil {
				err = s.push.move(ctx, "+"+commit+":"+s.report)
			}
			if err != nil { // it comes with the result
				continue
			}
			hear(Live{Host: Host(), Run: s.run, Commit: commit})
			s.told = true
			had, before, took = tree, commit, time.Since(began)
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
	return s.repo.Bundle(ctx, map[string][]byte{logFile: text, stepsFile: steps})
}
