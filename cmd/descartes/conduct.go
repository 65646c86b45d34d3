package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"descartes/fleet/wire"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/lockfile"
	"descartes/internal/oneline"
	"descartes/internal/oscall"
	"descartes/internal/sandbox"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/view"
)

// requestTeller shows in a run's own terminal what another one asks of it.
type requestTeller struct {
	once sync.Once
	quit chan struct{}
	done sync.WaitGroup
	look func(last bool)
}

// watch starts it with the first call. The caller stops it.
func (t *requestTeller) watch(home store.Home, id, kind string, underway func() bool, say func(string, ...any)) {
	t.once.Do(func() {
		t.quit = make(chan struct{})
		var mu sync.Mutex
		told := ""
		t.look = func(last bool) {
			mu.Lock()
			defer mu.Unlock()
			if text := requestOf(home, id, kind, underway()); text != "" && text != told && (told == "" || !last) {
				told = text
				say("%s", text)
			}
		}
		t.done.Go(func() {
			tick := time.NewTicker(300 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-t.quit:
					return
				case <-tick.C:
					t.look(false)
				}
			}
		})
	})
}

// requestOf names the request to a live loop, or "".
func requestOf(home store.Home, id, kind string, underway bool) string {
	r, now := home.Asked(id)
	return view.Pending{Asked: r, Now: now, Kind: kind, Underway: underway}.Text()
}

// stop ends it, and returns when it shows nothing more.
func (t *requestTeller) stop() {
	if t.quit != nil {
		close(t.quit)
		t.done.Wait()
	}
}

// job is what a run works on, with its callbacks.
type job struct {
	loop.Source
	kind    string
	cfg     *loop.Config
	dir     string                 // where its commands run
	observe func(journal.Event)    // nil: nobody hears of events but the printer
	code    func(loop.Outcome) int // the exit status
	person  *person                // who answers questions; nil: nobody is there
	said    *liveWriter            // where what the agents say is printed as they say it; nil: nowhere
}

// work runs a prepared loop to its end. Closing soft stops it after the running attempt, cancelling ctx interrupts that.
func (r *prepared) work(ctx context.Context, soft <-chan struct{}, j job) (e view.Run, err error) {
	if j.cfg.Git.Push {
		if err := r.canPush(ctx); err != nil {
			return e, err
		}
	}
	var ask func(context.Context, string) (yes, answered bool)
	if j.person != nil {
		ask = j.person.ask
	}
	var l *loop.Loop
	var commands supervise.Commands
	var mu sync.Mutex
	started := []*supervise.Commands{&commands} // also those of slots
	slot := func(s *workspace.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error) {
		c, err := r.slot(j, s, dir)
		if err != nil {
			return nil, nil, nil, err
		}
		mu.Lock()
		started = append(started, c)
		mu.Unlock()
		return c.Agents(), c.Verifier(), c.Close, nil
	}
	refused := func() (hosts []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range started {
			hosts = append(hosts, c.Refused()...)
		}
		return hosts
	}
	var withheld attempt.Withheld
	withheld.Agents, withheld.Verify = supervise.Withheld(*j.cfg, r.backend, os.Environ())
	saved := config.Hide(*j.cfg, r.secrets)
	r.opt.Saved = &saved
	var fleet wire.Client
	var away loop.Away
	quotas := accounts(r.backends(), r.root, os.Getenv)
	if j.cfg.Fleet != "" { // its workers have accounts of their own
		away, quotas = &fleet, nil
	}
	l, err = loop.Start(ctx, r.root, j.Source, loop.Tools{Repo: r.repo, Agent: commands.Agents(), Verify: commands.Verifier(), FS: atomicfile.OS(), Now: gitops.Now, Redact: r.redact, Free: oscall.Free, Observe: j.observe,
		Code: j.code, Ask: ask, Continues: r.continues, Accounts: quotas, Refused: refused, Slot: slot, Shown: r.sandbox.Mounts(), Here: r.here, Pool: r.pool, Named: r.inRepo(r.brought), Withheld: withheld, Looks: attempt.Looks(), Program: "descartes " + version(), Away: away}, r.opt)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if r.remember != nil {
		if err := r.remember(); err != nil {
			return e, err
		}
	}
	// We hold the loop's locks now: what a killed run left running may be ended.
	q := r.commands(*j.cfg, store.NewHome(r.root).Run(l.ID()), r.root+"\x00"+l.ID())
	q.Dir = j.dir
	if err := commands.Start(q); err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, commands.Close()) }()
	if away != nil {
		if err := r.join(ctx, &fleet, l, saved); err != nil {
			return e, err
		}
		defer func() { // where it was cut short, its refs are for the run that resumes it
			err = errors.Join(err, fleet.Close(context.WithoutCancel(ctx), err == nil && e.Outcome.Ending != journal.GitRefused))
		}()
	}
	out, err := l.Run(ctx, soft)
	return view.Run{Here: fromHere(r.root), Root: r.root, Outcome: out, ID: l.ID(), Path: l.StatePath(), State: l.State(), History: l.History(), Loose: l.Uncommitted()}, err
}

// join starts the program that carries a run's orders to the workers.
func (r *prepared) join(ctx context.Context, fleet *wire.Client, l *loop.Loop, cfg loop.Config) error {
	program, err := findFleet(r.root)
	if err != nil {
		return err
	}
	remote := cfg.FleetRemote
	if remote == "" {
		head, err := r.repo.Head(ctx)
		if err != nil {
			return err
		}
		if remote, err = r.repo.Remote(cmp.Or(r.opt.Branch, head.Branch)); err != nil {
			return badInput(hintOf(err), "--fleet: %w", err)
		}
	}
	argv := []string{program, "dispatch"}
	if cfg.Fleet != config.DefaultAddress {
		argv = append(argv, "--address", cfg.Fleet)
	}
	host, _ := os.Hostname()
	err = fleet.Start(ctx, wire.ClientOptions{Repo: r.repo, Remote: remote, Apart: cfg.FleetRemote != "", Config: cfg, Program: argv, Env: os.Environ(), Stderr: os.Stderr, Note: func(text string) { _ = l.Warn(text) },
		Hello: wire.Hello{Tag: cfg.Scud.Tag, Loop: wire.NameLoop(l.ID(), r.root+"\n"+l.State().StartedAt.UTC().Format(time.RFC3339Nano)), Host: host}})
	if _, taken := errors.AsType[*wire.InputError](err); taken {
		return badInput("descartes-fleet status lists what is under way", "--fleet: %w", err)
	}
	if _, git := errors.AsType[*workspace.GitError](err); git {
		return &failure{code: exitGit, err: fmt.Errorf("--fleet: %w", err), hint: "orders and results travel as refs below refs/descartes: let the remote take them"}
	}
	if err != nil {
		return &failure{code: exitError, err: fmt.Errorf("--fleet: %w", err), hint: "descartes-fleet status says what there is; descartes-fleet dev starts a server to try it"}
	}
	return nil
}

// canPush refuses a run whose work could not be pushed anywhere.
func (r *prepared) canPush(ctx context.Context) error {
	if r.repo == nil {
		return badInput("git init", "--push needs a git repository")
	}
	head, err := r.repo.Head(ctx)
	if err != nil {
		return err
	}
	branch := cmp.Or(r.opt.Branch, head.Branch)
	if branch == "" {
		return badInput("--branch NAME makes one", "--push: no branch is checked out")
	}
	if _, err := r.repo.Remote(branch); err != nil {
		return badInput(hintOf(err), "--push: %w", err)
	}
	return nil
}

// slot starts what runs agents and verify commands in a slot, with their own sandbox and supervising process.
func (r *prepared) slot(j job, s *workspace.Slot, dir string) (*supervise.Commands, error) {
	q := r.commands(*j.cfg, dir, fmt.Sprintf("%s/slot-%d", r.root, s.Number))
	if r.here && s.Tree() == r.repo.Root() {
		q.Sandbox.Keep = append(q.Sandbox.Keep, r.repo.HooksDir())
	} else {
		q.Sandbox.Slot = sandbox.Slot{Tree: s.Tree(), Objects: s.Objects()}
	}
	if _, ok := below(r.pool, dir); ok { // else it is the lab: no agent works there
		q.Sandbox.Slot.Shown = []string{dir}
	}
	var c supervise.Commands
	return &c, c.Start(q)
}

// commands describes how to start the run's commands: files is the folder for their files, and name marks their processes.
func (r *prepared) commands(cfg loop.Config, files, name string) supervise.Run {
	return supervise.Run{Config: cfg, Sandbox: r.sandbox, Backends: r.backends(), Files: files, Dir: r.root, Cookie: supervise.Cookie(name)}
}

// conduct runs a prepared run and reports to people meanwhile. A run stopped before it began has no state.
func (r *prepared) conduct(cmd *cobra.Command, s *settings, p *printer, j job) (e view.Run, took time.Duration, err error) {
	if err := r.takesBranch(cmd.Context(), p, j); err != nil {
		return e, 0, err
	}
	var in interrupts
	p.view = r.view(cmd, s, p, &in, j)
	defer p.view.end()
	began := time.Now()
	ctx, stop := in.watch(cmd.Context(), func(text string) {
		if j.kind != store.KindTag {
			text = strings.Replace(text, "attempt", "iteration", 1)
		}
		p.say("%s", text)
	})
	var asked requestTeller
	code := j.code
	j.code = func(out loop.Outcome) int { return s.exits(code(out)) }
	home, observe := store.NewHome(r.root), j.observe
	j.observe = s.letGo(r.root, p, func(e journal.Event) {
		in.saw(e)
		p.view.begin(e.Loop)
		r.notices.Begin(home.Events(e.Loop))
		asked.watch(home, e.Loop, j.kind, in.underway.Load, p.say)
		if e.Type == journal.LoopPaused || e.Type == journal.LoopFinished { // the loop may have seen a request first
			asked.look(true)
		}
		p.observe(e)
		if observe != nil {
			observe(e)
		}
	})
	if j.person != nil {
		j.person.soft = in.soft
	}
	e, err = r.work(ctx, in.soft, j)
	p.view.end()
	cut := context.Cause(ctx)
	stop()
	asked.stop()
	if e.State == nil {
		return e, 0, cutShort(cut, err)
	}
	if b := e.Outcome.Baseline; b != nil {
		p.close()
		tellBaseline(r.redact.Writer(cmd.ErrOrStderr()), b)
	}
	return e, time.Since(began), err
}

// updates are the commands that bring the user's tree up to date with what a run's commits changed, lock files and submodules, where it followed them:
// its attempts did so in their slots only.
func (r *prepared) updates(ctx context.Context, e view.Run) (lines []string) {
	if r.here || r.repo == nil || e.Outcome.Branch != "" {
		return nil
	}
	var commits []string
	for _, c := range e.State.WaveCommits {
		commits = append(commits, c.Hash)
	}
	for _, it := range e.State.Summaries {
		if it.Commit != "" {
			commits = append(commits, it.Commit)
		}
	}
	for _, hash := range commits {
		changes, err := r.repo.CommitChanges(context.WithoutCancel(ctx), hash)
		if err != nil {
			return nil // it is advice only
		}
		for _, x := range changes {
			f, _ := lockfile.Of(x.Path)
			line, dir := f.Update, path.Dir(x.Path)
			if x.Module {
				line, dir = "git submodule update --recursive", "."
			}
			if line == "" || x.Op == 'D' {
				continue
			}
			line += " (" + x.Path + " changed)"
			if dir != "." {
				line = "cd " + terminal.Quote(dir) + " && " + line
			}
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// begins refuses a branch, "" being the one checked out, that a new run cannot begin at, because of what an earlier one left. See loop.CanBegin.
func (r *prepared) begins(ctx context.Context, branch, name string, done func(task string) bool) error {
	ref, err := r.branchRef(ctx, branch)
	if err != nil {
		return err
	}
	return loop.CanBegin(ctx, r.repo, ref, name, done)
}

func (r *prepared) branchRef(ctx context.Context, branch string) (string, error) {
	if branch != "" {
		return "refs/heads/" + branch, nil
	}
	head, err := r.repo.Head(ctx)
	return head.Branch, err
}

// takesBranch refuses a branch that the run cannot commit to, and says where one goes on that is ahead.
func (r *prepared) takesBranch(ctx context.Context, p *printer, j job) error {
	name := r.opt.Branch
	if name == "" {
		return nil
	}
	ahead, err := r.repo.CanBranch(ctx, name, r.here)
	if err != nil || ahead == "" {
		return err
	}
	if tag, ok := j.Source.(*loop.Job); ok {
		rel, in := below(r.repo.Root(), tag.File.Target())
		if done := r.doneAt(ctx, tag, ahead, rel); in && len(done) > 0 {
			return badInput("git restore --source "+name+" "+rel+", then start again", "on branch %q more tasks are done than in the list here: %s", name, oneline.List(done))
		}
	}
	p.say("branch: %s is ahead of HEAD, and goes on from %s", terminal.Clean(name), view.Short(ahead))
	return nil
}

// doneAt are the tasks that the list of a commit has as done, and that of a job has not.
func (r *prepared) doneAt(ctx context.Context, j *loop.Job, commit, list string) (done []string) {
	b, err := r.repo.FileAt(ctx, commit, list, 64<<20)
	if err != nil {
		return nil
	}
	there, err := j.File.Reread(b)
	if err != nil {
		return nil
	}
	for _, t := range there.Tasks() {
		if now, ok := j.Graph.Task(t.ID); ok && t.Status == tasks.Done && now.Status != tasks.Done {
			done = append(done, t.ID)
		}
	}
	return done
}
