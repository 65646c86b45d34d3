package wire

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

	"descartes/internal/lazyregexp"

	"github.com/gofrs/flock"

	"descartes/agent"
	"descartes/agent/process"
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

// NoRoom is the exit status of a program that makes one attempt and finds the disk full.
const NoRoom = 3

// Command is the argument with which our own program makes one attempt for a fleet.
const Command = "fleet-attempt"

// Work is the first line that a program gets which makes one attempt.
type Work struct {
	Ask
	Cache   string `json:"cache"`   // folder of the worker's repositories
	Run     string `json:"run"`     // tells this try of the queue's from another one at the same attempt
	Confine bool   `json:"confine"` // no sandbox: no attempt
	Grants  Grants `json:"grants"`  // of a worker that confines
}

// Grants are what a worker lets an order have beyond the sandbox. What a run's machine may touch is for who runs that, and what a worker may
// is for who runs the worker.
type Grants struct {
	Write []string `json:"write,omitempty"` // places outside the attempt's copy
	Read  []string `json:"read,omitempty"`  // hidden places
	Pass  []string `json:"pass,omitempty"`  // variables: NAME or PREFIX_*
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

// Serve makes one attempt: what in says first. Where in cancels it later, its agent is ended and what that left is the result; where in ends
// before, the agent is ended and there is no result. out hears what becomes of it.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := json.NewDecoder(io.LimitReader(in, maxLine))
	var w Work
	if err := d.Decode(&w); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	go func() {
		var l Line
		if d.Decode(&l) == nil && l.Cancel {
			stop(nil)
			return
		}
		stop(errDropped)
	}()
	s := &server{Work: w, say: NewWriter(out), wake: make(chan struct{}, 1)}
	s.host, _ = os.Hostname()
	s.reach = reach{name: s.Remote, note: func(text string) { _ = s.say.Say(Line{Note: unsecret(text)}) }}
	ref, err := Ref(s.Loop, live, s.Task, s.Try)
	if order, _ := Ref(s.Loop, orders, s.Task, s.Try); err != nil || order != s.Ref || !hash.MatchString(s.Commit) || !runName.MatchString(s.Run) {
		return s.refuse("the order's names do not fit together")
	}
	s.reports = Kept{Ref: ref + "-" + s.Run, Host: s.host}
	if err := s.say.Say(Line{Live: &s.reports}); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.repo.Close()
	return s.serve(ctx)
}

// errDropped says that the worker is gone, or has lost the attempt to another one.
var errDropped = errors.New("nobody waits for the attempt any more")

// server makes one attempt.
type server struct {
	Work
	say     *Writer
	host    string
	reports Kept   // what others see of the attempt before its result
	root    string // of the worker's copy of the repository
	repo    *gitops.Repo
	order   Order
	reach   reach

	mu    sync.Mutex
	steps []attempt.Step
	wake  chan struct{} // there are more steps
}

// What a commit and a try may be called.
var (
	hash    = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	runName = lazyregexp.New(`^[A-Za-z0-9-]{1,80}$`)
)

// refuse says that no other worker would make the attempt either.
func (s *server) refuse(why string) error {
	return errors.Join(errors.New(why), s.say.Say(Line{Lost: why}))
}

// open brings the repository and the order here. The copy has no branch and no files of its own: attempts run in its slots.
func (s *server) open(ctx context.Context) error {
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
	if err := s.reach.do(ctx, fetchFor, func() error { return s.repo.Fetch(ctx, s.Remote, "+"+s.Ref+":"+s.Ref) }); err != nil {
		return errors.Join(fmt.Errorf("fetch the order: %w", err), s.wanted(ctx), s.repo.Close())
	}
	if err := s.read(); err != nil {
		return errors.Join(err, s.repo.Close())
	}
	return nil
}

// wanted refuses an attempt whose order is no longer on the remote: its run is over.
func (s *server) wanted(ctx context.Context) error {
	names, err := s.repo.RemoteRefs(ctx, s.Remote, s.Ref)
	if err == nil && len(names) == 0 {
		err = s.refuse("its run has withdrawn the order")
	}
	return err
}

// read reads the order, which is the one that was named.
func (s *server) read() error {
	at, err := s.repo.RefCommit(s.Ref)
	if err == nil && at != s.Commit {
		err = fmt.Errorf("%s is %.12s, and %.12s was ordered", s.Ref, at, s.Commit)
	}
	if err != nil {
		return err
	}
	b, err := s.repo.FileAt(context.Background(), s.Commit, "order.json", maxOrder)
	if err != nil {
		return err
	}
	s.order, err = readOrder(b)
	return err
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

// serve makes the attempt in a slot, and sends what came of it.
func (s *server) serve(ctx context.Context) (err error) {
	o, cfg := &s.order.Order, s.order.Config
	cfg.Fleet, cfg.FleetRemote, cfg.SettingsFile, cfg.Typed = "", "", "", nil // nobody typed anything here
	if why := s.Grants.refuses(&cfg, s.root); s.Confine && why != "" {
		return errors.New(why)
	}
	if o.Input.Holdout != nil || cfg.Holdout.Run != "" { // they would show a folder of this machine
		return s.refuse("the order has held-out checks, which no worker runs")
	}
	for _, kv := range o.Input.Env {
		if process.Loads(kv) {
			return s.refuse(fmt.Sprintf("the order sets %.30q, which no run does", kv))
		}
	}
	if s.Confine && cfg.Sandbox == string(sandbox.Off) {
		cfg.Sandbox = string(sandbox.Auto)
	}
	backend, _, err := config.ResolveBackend(cfg)
	if err != nil {
		return err
	}
	others, err := config.OtherBackends(cfg)
	if err != nil {
		return err
	}
	box, err := launch.FindSandbox(ctx, launch.Place{Root: s.root, Dir: s.root, Top: s.root}, cfg, backend)
	if err == nil && s.Confine && box.Mode == sandbox.Off {
		err = fmt.Errorf("this worker runs agents in a sandbox only, and has none: %s", box.Note)
	}
	if err != nil {
		return err
	}
	home := store.NewHome(s.root)
	run := home.Run(s.Loop)
	place := filepath.Join(filepath.Dir(s.root), filepath.Base(s.root)+".pool")
	mask := redact.Of(cfg.Secrets(os.Environ()))
	commands := func(slot *workspace.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error) {
		q := launch.CommandsOf{Config: cfg, Sandbox: box, Backends: append([]agent.Backend{backend}, others...), Files: dir, Dir: s.root,
			Cookie: launch.Cookie(fmt.Sprintf("%s/slot-%d", s.root, slot.Number))}
		q.Sandbox.Slot = sandbox.Slot{Tree: slot.Tree(), Objects: slot.Objects(), Shown: []string{dir}}
		var c launch.Commands
		if err := c.Start(q); err != nil {
			return nil, nil, nil, err
		}
		return c.Agents(), c.Verifier(), c.Close, nil
	}
	logs := filepath.Join(run, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	log := filepath.Join(logs, fmt.Sprintf("%d-%s.log", s.Try, s.Run))
	setup := filepath.Join(logs, "setup-"+s.Run+".log")
	timeout := time.Duration(cfg.Pool.SetupTimeout) * time.Second
	var verifier attempt.Verifier
	pool := workspace.PoolOptions{Repo: s.repo, FS: atomicfile.OS(), Place: place, Root: s.root, Dir: s.root, Shown: box.Mounts(), Fresh: cfg.Pool.Fresh, Setup: cfg.Pool.Setup,
		Run: func(ctx context.Context, slot *workspace.Slot) error {
			return lab.SetUp(ctx, verifier, slot, lab.Setup{Command: cfg.Pool.Setup, Log: setup, Shown: setup, Redact: mask, Timeout: timeout})
		}}
	slot, err := workspace.NewPool(pool).Take(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, slot.Close()) }()
	dir := workspace.SlotFiles(place, slot.Number, s.Loop)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	agents, v, end, err := commands(slot, dir)
	if err != nil {
		return err
	}
	verifier = v
	defer func() { err = errors.Join(err, end()) }()
	runner := &attempt.Runner{Grace: grace, Agent: agents, Verify: v, Redact: mask, Dir: dir, Looks: attempt.Looks(), Repo: s.repo, Below: "."}
	if cfg.NeedsLab() {
		l := lab.New(lab.Options{Pool: pool, Files: filepath.Join(dir, "lab"), Log: setup, Shown: setup, Redact: mask, Setup: timeout,
			Start: func(slot *workspace.Slot, dir string) (attempt.Verifier, func() error, error) {
				_, v, end, err := commands(slot, dir)
				return v, end, err
			},
			Warn: func(string) error { return nil }})
		defer func() { err = errors.Join(err, l.Close()) }()
		runner.Lab = l
	}
	start, input := o.Start, o.Input
	start.At, start.Branch, start.Aside, start.Since = o.At.Hash, o.At.Branch, log+".aside", time.Time{}
	if _, err := slot.Prepare(ctx, start); err != nil {
		return err
	}
	input.Log, input.Name = log, s.ID()
	input.Env = append(input.Env, slot.Env()...)
	following := s.follow(ctx, log)
	res := Outcome{Version: version, Host: s.host}
	res.Result, err = runner.Run(ctx, slot, input, func(step *attempt.Step) error {
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
		return nil
	})
	following()
	res.Steps = s.steps
	if err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), errDropped) {
		return errDropped
	}
	switch res.Result.Verdict {
	case verify.Failed, verify.Crashed, verify.TimedOut: // not its fault, where the disk is full
		if why := loop.Room(oscall.Free, cfg.MinFreeDisk, s.root); why != "" {
			return fmt.Errorf("%s: %w", why, syscall.ENOSPC)
		}
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	kept, err := s.send(gctx, &res, log)
	if err != nil {
		return err
	}
	kept.Cut = res.Result.Verdict == verify.Cancelled
	if a := &res.Result.Agent; a.End == agent.Limited {
		what, _, _ := strings.Cut(a.Reason, "; resets ") // which Until says
		kept.Limit = &Limit{Backend: input.Backend, Until: a.Until, Reason: cut(mask.Text(what), maxTitle), Host: s.host}
	}
	return s.say.Say(Line{Done: kept})
}

// grace is short: a cancelled attempt takes some seconds to reach its worker.
const grace = 2 * time.Second

// send puts what came of the attempt on the remote, with the trees that it names.
func (s *server) send(ctx context.Context, res *Outcome, log string) (*Kept, error) {
	ref, err := Ref(s.Loop, results, s.Task, s.Try)
	if err != nil {
		return nil, err
	}
	ref += "-" + s.Run
	text, err := readLog(log)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"log": text}
	prefix := strings.TrimSuffix(log, "log")
	found, err := filepath.Glob(prefix + "*.log")
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		name := strings.TrimPrefix(path, prefix)
		if !besideName.MatchString(name) {
			continue
		}
		if files[name], err = readLog(path); err != nil {
			return nil, err
		}
		res.Beside = append(res.Beside, name)
	}
	if files["result.json"], err = json.Marshal(res); err != nil {
		return nil, err
	}
	tree, err := s.repo.WithContent(ctx, s.repo.EmptyTree(), files)
	if err != nil {
		return nil, err
	}
	work := &res.Result.Work
	parents := []string{s.Commit}
	for i, t := range distinct(work.Before, work.Seen, work.After) {
		at, err := s.repo.Keep(ctx, fmt.Sprintf("%s-tree%d", instead(ref, results, sent), i), t, nil, "descartes: what an attempt left")
		if err != nil {
			return nil, err
		}
		parents = append(parents, at)
	}
	if work.Commits != "" {
		parents = append(parents, work.Commits)
	}
	commit, err := s.repo.Keep(ctx, ref, tree, parents, fmt.Sprintf("descartes: result of attempt %d at task %s, made by %s", s.Try, s.Task, s.host))
	if err != nil {
		return nil, err
	}
	err = s.reach.do(ctx, reachFor, func() error {
		if err := s.wanted(ctx); err != nil {
			return err
		}
		return s.repo.Send(ctx, s.Remote, ref+":"+ref)
	})
	if err != nil {
		return nil, fmt.Errorf("send the result: %w", err)
	}
	return &Kept{Ref: ref, Commit: commit, Host: s.host}, nil
}

// readLog is a log, at most so much of its end that it can be sent.
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

// How often a log that grows is sent, and how long after a step.
const (
	logEvery  = 3 * time.Second
	logShare  = 20 // times what sending it took
	stepAfter = time.Second / 2
	stepShare = 4
)

// stepsFile lies beside the log of an attempt under way.
const stepsFile = "steps.json"

// follow sends log and steps while there come more. done ends that.
func (s *server) follow(ctx context.Context, log string) (done func()) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		var had gitops.Tree
		var parent []string
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
			now := s.reports
			if now.Commit, err = s.repo.Keep(ctx, now.Ref, tree, parent, "descartes: log so far"); err == nil {
				err = s.repo.Send(ctx, s.Remote, "+"+now.Ref+":"+now.Ref)
			}
			if err != nil { // it comes with the result
				continue
			}
			had, parent = tree, []string{now.Commit}
			_ = s.say.Say(Line{Live: &now})
			took = time.Since(began)
		}
	})
	return func() { stop(); wg.Wait() }
}

// soFar is the tree of what others may see of the attempt now.
func (s *server) soFar(ctx context.Context, log string) (gitops.Tree, error) {
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
	return s.repo.WithContent(ctx, s.repo.EmptyTree(), map[string][]byte{"log": text, stepsFile: steps})
}

// logins are those in URLs, which git prints as its settings have them.
var logins = lazyregexp.New(`://[^/@\s]+@`)

// Main is the whole program that serves one line of work. An error is the machine's, not the work's: another one may fare better. The server
// stores it, without the secrets of this machine.
func Main(ctx context.Context, serve func(context.Context, io.Reader, io.Writer) error, in io.Reader, out, errs io.Writer) int {
	if err := serve(ctx, in, out); err != nil {
		fmt.Fprintf(errs, "error: %s\n", unsecret(err.Error()))
		if loop.DiskFull(err) {
			return NoRoom
		}
		return 1
	}
	return 0
}

// unsecret takes the values of our variables out of a text, and the logins of URLs.
func unsecret(text string) string {
	return logins.ReplaceAllString(redact.Of(new(config.Config).Secrets(os.Environ())).Text(text), "://")
}
