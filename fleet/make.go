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
	"descartes/internal/oscall"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/sandbox"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/lab"
	"descartes/loop/slot"
	"descartes/loop/store"
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
	key      string // of the run and its settings
	logs     string // folder
	slot     *slot.Slot
	runner   *attempt.Runner
	accounts *quota.Accounts
	end      []func() error
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
	ref   string
	run   string
	tip   string // of the ref
	order []byte

	mu    sync.Mutex
	steps []attempt.Step
}

// Make makes an attempt, or finds the result of a worker that made it before. run tells this try from others. hear
// hears what others may see of it, from when it has begun. The end of ctx interrupts the agent, and what that left is
// the result, unless the cause is ErrDropped. Errors have none of this machine's secrets.
func (m *Maker) Make(ctx context.Context, a Ask, run string, hear func(Live)) (kept Kept, err error) {
	defer func() {
		if err != nil {
			err = &cleanError{err, unsecret(err.Error())}
		}
	}()
	s := &making{Maker: m, Ask: a, run: run}
	if s.ref, err = refOf(a.Loop, a.Task, a.Try); err != nil {
		return kept, &RefusedError{err.Error()}
	}
	if !hash.MatchString(a.Commit) || !runName.MatchString(run) {
		return kept, &RefusedError{"the order's names do not fit together"}
	}
	if s.mirror, err = m.copyOf(ctx, a.Remote); err != nil {
		return kept, err
	}
	if kept, err = s.look(ctx, fetchFor); err == nil && kept.Commit == "" {
		kept, err = s.make(ctx, hear)
	}
	s.forget(context.WithoutCancel(ctx), s.ref)
	return kept, err
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

// look brings the attempt's ref here, for which it waits so long. kept has the result of whoever made it, no commit
// where nobody has. An attempt that is not there is wanted by nobody: its run is over.
func (s *making) look(ctx context.Context, most time.Duration) (kept Kept, err error) {
	err = s.Do(ctx, most, func() error { return s.pull.move(ctx, "+"+s.ref+":"+s.ref) })
	if err != nil {
		if there, terr := s.there(ctx, s.ref); terr == nil && !there {
			return kept, &RefusedError{"its run has withdrawn the order"}
		}
		return kept, fmt.Errorf("fetch the order: %w", err)
	}
	s.tip = ""
	if err := s.at(ctx, s.ref, s.Commit, &s.tip); err != nil {
		return kept, err
	}
	out, err := outcomeAt(ctx, s.repo, s.tip)
	if err == nil && out.Result != nil {
		kept = Kept{s.tip, string(out.Result.Verdict)}
	}
	return kept, err
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

// make makes the attempt, and sends what came of it.
func (s *making) make(ctx context.Context, hear func(Live)) (kept Kept, err error) {
	if s.order, err = s.repo.FileAt(ctx, s.Commit, orderFile, maxOrder); err != nil {
		return kept, err
	}
	order, err := readOrder(s.order)
	if err != nil {
		return kept, err
	}
	o, cfg := &order.Order, &order.Config
	cfg.Fleet, cfg.FleetRemote, cfg.SettingsFile, cfg.Typed = "", "", "", nil // nobody typed anything here
	cfg.Pool.MaxCopy = 0                                                      // there are no ignored files
	if why := s.Grants.refuses(cfg, s.root); s.Confine && why != "" {
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
	l, err := s.lane(ctx, cfg)
	if err != nil {
		return kept, err
	}
	kept, err = s.makeIn(ctx, l, &order, hear)
	if _, out := errors.AsType[*QuotaError](err); err != nil && !out { // whatever it left
		return kept, errors.Join(err, l.close())
	}
	s.Maker.mu.Lock()
	defer s.Maker.mu.Unlock()
	s.idle = append(s.idle, l)
	return kept, err
}

// makeIn makes it in a lane's slot.
func (s *making) makeIn(ctx context.Context, l *lane, order *Order, hear func(Live)) (kept Kept, err error) {
	start, input, at := order.Order.Start, order.Order.Input, &order.Order.At
	if r, out := l.accounts.Known(input.Backend, time.Now()); out {
		return kept, &QuotaError{Wait{For: fmt.Sprintf("quota: account %s of %s has none until %s", r.Account, Host(),
			r.Until.Local().Format("Mon 2 Jan 15:04")), Until: r.Until, Reason: r.Reason}}
	}
	sum := sha256.Sum256([]byte(s.ref)) // tries at several tasks may have one name
	log := filepath.Join(l.logs, fmt.Sprintf("%x-%s.log", sum[:8], s.run))
	start.At, start.Branch, start.Aside, start.Since, start.Named = at.Hash, at.Branch, log+".aside", time.Time{}, nil
	if _, err := l.slot.Prepare(ctx, start); err != nil {
		return kept, err
	}
	input.Log, input.Name, input.Env = log, s.ID(), append(input.Env, l.slot.Env()...)
	hear(Live{Host: Host(), Run: s.run})
	following := s.follow(ctx, log, hear)
	res, err := l.runner.Run(ctx, l.slot, input, func(step *attempt.Step) error { s.saw(step, log); return nil })
	following()
	if cause := context.Cause(ctx); errors.Is(cause, ErrDropped) {
		return kept, cause
	}
	if err != nil {
		return kept, err
	}
	switch res.Verdict {
	case verify.Failed, verify.Crashed, verify.TimedOut: // not its fault, where the disk is full
		if why := loop.Room(oscall.Free, order.Config.MinFreeDisk, s.root); why != "" {
			return kept, fmt.Errorf("%s: %w", why, syscall.ENOSPC)
		}
	}
	if r := &res.Agent; r.End == agent.Limited {
		res.Paced = true
		now, until := time.Now(), r.Until
		if until.IsZero() {
			until = now.Add(unsaid)
		}
		// which Until says
		what, _, _ := strings.Cut(r.Reason, "; resets ")
		// else the next attempt meets it too
		_ = l.accounts.Note(quota.Record{Backend: input.Backend, Until: until,
			Reason: cut(l.runner.Redact.Text(what), maxTitle), Loop: LoopName(s.Loop), At: now})
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	return s.deliver(gctx, &res, log)
}

// lane takes one that an attempt of the same run left, or makes one, in the place of another run's.
func (s *making) lane(ctx context.Context, cfg *config.Config) (l *lane, err error) {
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
	place := s.root + ".pool"
	bench, wrong := launch.Bench(ctx, s.root, place, cfg, false)
	if len(wrong) > 0 {
		return l, errors.New(wrong[0].Message)
	}
	if bench.Repo = s.repo; s.Confine && bench.Box.Mode == sandbox.Off {
		return l, fmt.Errorf("this worker runs agents in a sandbox only, and has none: %s", bench.Box.Note)
	}
	l.accounts, l.logs = launch.Accounts(bench.Backends, s.root), filepath.Join(store.NewHome(s.root).Run(s.Loop), "logs")
	setup := bench.Setup(filepath.Join(l.logs, "setup-"+s.run+".log"))
	commands, pool := new(launch.Commands), bench.Slots()
	pool.Run = func(ctx context.Context, slot *slot.Slot, command string) error {
		setup := setup
		setup.Command = command
		return lab.SetUp(ctx, commands.Verifier(), slot, setup)
	}
	if l.slot, err = slot.NewPool(pool).Take(ctx, 0); err != nil {
		return l, err
	}
	l.end = append(l.end, l.slot.Close)
	dir := slot.SlotFiles(place, l.slot.Number, s.Loop)
	if err := errors.Join(os.MkdirAll(l.logs, 0o755), os.MkdirAll(dir, 0o755)); err != nil {
		return l, err
	}
	if commands, err = bench.StartSlot(l.slot, dir); err != nil {
		return l, err
	}
	l.end = append(l.end, commands.Close)
	l.runner = &attempt.Runner{Grace: grace, Agent: commands.Agents(), Verify: commands.Verifier(),
		Redact: bench.Redact, Dir: dir, Looks: attempt.Looks(), Repo: s.repo, Below: "."}
	if cfg.NeedsLab() {
		looks := bench.Lab(filepath.Join(dir, "lab"), setup.Log, false)
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
	one.Log = strings.TrimPrefix(step.Log, strings.TrimSuffix(log, "log"))
	if one.Result = nil; step.Moment == attempt.Answered { // the others' is the last one
		so := *step.Result
		so.Work.Changed = nil // the trees say it
		one.Result = &so
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, one)
}

// outcome is what is known of the attempt now.
func (s *making) outcome() Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Outcome{Version: version, Host: Host(), Run: s.run, Steps: slices.Clone(s.steps)}
}

// add puts an outcome on top of the attempt's ref, with the log so far, and at its end with further logs and the trees
// that it names. push does so.
func (s *making) add(ctx context.Context, out Outcome, log string, push func(context.Context, ...string) error) error {
	files, prefix := map[string][]byte{orderFile: s.order}, strings.TrimSuffix(log, "log")
	names, work := []string{logFile}, slot.Result{}
	if out.Result != nil {
		found, err := filepath.Glob(prefix + "*.log")
		if err != nil {
			return err
		}
		for _, path := range found {
			if name := strings.TrimPrefix(path, prefix); besideName.MatchString(name) {
				out.Beside = append(out.Beside, name)
			}
		}
		work = out.Result.Work
	}
	for _, name := range append(names, out.Beside...) {
		b, err := os.ReadFile(prefix + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		files[name] = b
	}
	var err error
	if files[madeFile], err = json.Marshal(out); err != nil {
		return err
	} else if n := len(files[madeFile]); n > maxOrder {
		return &RefusedError{fmt.Sprintf("its result has %d bytes, more than %d", n, maxOrder)}
	}
	tree, err := s.repo.Bundle(ctx, files, work.Seen, work.After)
	if err != nil {
		return err
	}
	commit, err := s.repo.Link(ctx, s.tip, gitops.Link{Tree: tree, Second: work.Commits, When: time.Now(),
		Message: fmt.Sprintf("descartes: attempt %d at task %s, made by %s", s.Try, s.Task, out.Host)})
	if err == nil {
		err = push(ctx, commit+":"+s.ref+"^"+s.tip)
	}
	if err == nil {
		s.tip = commit
	}
	return err
}

// deliver puts the result on the remote. Where another worker was there first, its result counts.
func (s *making) deliver(ctx context.Context, res *attempt.Result, log string) (kept Kept, err error) {
	out := s.outcome()
	out.Result, res.Work.Changed = res, nil // which the trees say
	for {
		err := s.add(ctx, out, log, s.send)
		if err == nil {
			return Kept{s.tip, string(res.Verdict)}, nil
		}
		before := s.tip // a worker that has given the attempt up may have said more of it
		if kept, lerr := s.look(ctx, reachFor); lerr != nil || kept.Commit != "" {
			return kept, lerr
		} else if s.tip == before {
			return kept, fmt.Errorf("send the result: %w", err)
		}
	}
}

// How often log and steps are sent: at most, and as a share of what sending takes.
const logEvery, logShare = 10 * time.Second, 20

// follow sends log and steps while there come more. done ends that.
func (s *making) follow(ctx context.Context, log string, hear func(Live)) (done func()) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		var took time.Duration
		for had := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(max(logEvery, logShare*took)):
			}
			began, out, now := time.Now(), s.outcome(), 0
			if fi, err := os.Stat(log); err == nil {
				now = int(fi.Size())
			}
			if now += len(out.Steps); now == had {
				continue
			}
			if s.add(ctx, out, log, s.push.move) != nil {
				_, _ = s.look(ctx, fetchFor) // where it goes the next time
				continue
			}
			hear(Live{Host: out.Host, Run: s.run, Commit: s.tip})
			had, took = now, time.Since(began)
		}
	})
	return func() { stop(); wg.Wait() }
}
