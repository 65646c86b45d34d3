package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/lockfile"
	"descartes/internal/oscall"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/lab"
	"descartes/loop/run"
	"descartes/loop/slot"
	"descartes/loop/store"
	"descartes/loop/tagrun"
	"descartes/loop/trunk"
)

// Hooks connect a run with whoever follows it.
type Hooks struct {
	Soft    <-chan struct{}        // closed: stop after the running attempt. Cancelling the context interrupts that.
	Observe func(journal.Event)    // hears of every event; the run waits for it
	Code    func(loop.Outcome) int // the exit status
	Ask     func(ctx context.Context, question string) (yes, answered bool)
	Program string // this program and its version
}

// Ended is a run that is over. One that was stopped before it began has no state.
type Ended struct {
	loop.Outcome
	ID, Path string // of its state
	State    *store.State
	History  *journal.State
	Loose    []string // tasks whose work is in no commit
}

// engine is what makes a run: that of package run for prompt loops; for tags that of package tagrun.
type engine interface {
	Run(ctx context.Context, soft <-chan struct{}) (loop.Outcome, error)
	ID() string
	StatePath() string
	State() *store.State
	History() *journal.State
	Uncommitted() []string
	Close() error
}

// Do runs it to its end.
func (r *Run) Do(ctx context.Context, h Hooks) (e Ended, err error) {
	commands := new(Commands)
	var mu sync.Mutex
	started := map[int][]*Commands{0: {commands}} // by slot
	slot := func(s *slot.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error) {
		c, err := r.StartSlot(s, dir)
		if err != nil {
			return nil, nil, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		started[s.Number] = append(started[s.Number], c)
		return c.Agents(), c.Verifier(), c.Close, nil
	}
	refused := func(slots ...int) (hosts []string) {
		mu.Lock()
		defer mu.Unlock()
		for n, list := range started {
			for _, c := range list {
				if len(slots) == 0 || slices.Contains(slots, n) {
					hosts = append(hosts, c.Refused()...)
				}
			}
		}
		slices.Sort(hosts)
		return slices.Compact(hosts)
	}
	saved := config.Hide(*r.Config, r.secrets)
	r.Options.Saved = &saved
	tools := loop.Tools{Repo: r.Repo, Agent: commands.Agents(), Verify: commands.Verifier(), FS: atomicfile.OS(),
		Now: gitops.Now, Redact: r.Redact, Free: oscall.Free,
		Observe: h.Observe, Code: h.Code, Ask: h.Ask, Accounts: Accounts(r.Backends, r.Root), Refused: refused,
		Slot: slot, Shown: r.Box.Mounts(), Layers: r.layers,
		Pool: r.pool, Named: r.inRepo(r.brought), Looks: attempt.Looks(), Program: h.Program}
	tools.Withheld.Agents, tools.Withheld.Verify = Withheld(*r.Config, r.Backends, os.Environ())
	away := r.Config.Fleet != ""
	if away { // its workers have accounts of their own
		tools.Away, tools.Accounts = r.Fleet, nil
	}
	var l engine
	joined := false
	if r.Tag == nil {
		l, err = run.Start(ctx, r.Root, r.Prompt, tools, r.Options)
	} else {
		var tag *tagrun.Run
		tag, err = tagrun.Start(ctx, r.Root, r.Tag, tools, r.Options)
		l = tag
		if away && err == nil {
			joins := Joins{ID: tag.ID(), StartedAt: tag.State().StartedAt, Warn: tag.Warn}
			tag.First(func(ctx context.Context) error {
				err := r.Fleet.Join(ctx, r, joins, saved)
				joined = err == nil
				return err
			})
		}
	}
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	// We hold the loop's locks now: what a killed run left running may be ended.
	q := r.Commands(store.NewHome(r.Root).Run(l.ID()), r.Root+"\x00"+l.ID())
	q.Dir = r.dir()
	if err := commands.Start(q); err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, commands.Close()) }()
	defer func() { // where it was cut short, its refs are for the run that resumes it
		if joined {
			err = errors.Join(err, r.Fleet.Close(context.WithoutCancel(ctx), err == nil &&
				e.Ending != journal.GitRefused && len(e.History.Left()) == 0))
		}
	}()
	out, err := l.Run(ctx, h.Soft)
	return Ended{Outcome: out, ID: l.ID(), Path: l.StatePath(), State: l.State(), History: l.History(),
		Loose: l.Uncommitted()}, err
}

// StartSlot starts what runs agents and verify commands in a slot, with their own sandbox and supervising process; dir
// is for their files.
func (r *Run) StartSlot(s *slot.Slot, dir string) (*Commands, error) {
	q := r.Commands(dir, fmt.Sprintf("%s/slot-%d", r.Root, s.Number))
	q.Sandbox.Slot = sandbox.Slot{Tree: s.Tree(), Objects: s.Objects(), Layers: s.Layers()}
	if _, ok := Below(r.pool, dir); ok { // else it is the lab: no agent works there
		q.Sandbox.Slot.Shown = []string{dir}
	}
	c := new(Commands)
	return c, c.Start(q)
}

// Slots says how to make the slots of a bench.
func (r *Run) Slots() slot.PoolOptions {
	c := &r.Config.Pool
	return slot.PoolOptions{Repo: r.Repo, FS: atomicfile.OS(), Place: r.pool, Root: r.Root, Dir: r.Root,
		Shown: r.Box.Mounts(), Fresh: c.Fresh, MaxCopy: c.MaxCopy, Keep: c.Keep, Setup: c.Setup, SetupOn: c.SetupOn,
		Redact: r.Redact, Layers: r.layers}
}

// layers reports whether folders in a folder can be layers of a check slot.
func (r *Run) layers(dir string) bool { return r.Box.Layers(context.Background(), dir) }

// Setup is the set-up command of these slots.
func (r *Run) Setup(log string) lab.Setup {
	return lab.Setup{Command: r.Config.Pool.Setup, Log: log, Shown: store.Relative(r.Root, log), Redact: r.Redact,
		Timeout: time.Duration(r.Config.Pool.SetupTimeout) * time.Second}
}

// Lab is a bench for commands on trees of the project. Its files are in a folder; log is of the set-up command. clone
// is as lab.Options has it.
func (r *Run) Lab(files, log string, clone bool) *lab.Lab {
	setup := r.Setup(log)
	return lab.New(lab.Options{Clone: clone, Pool: r.Slots(), Files: files, Log: log, Shown: setup.Shown,
		Redact: r.Redact, Setup: setup.Timeout, Warn: func(string) error { return nil },
		Start: func(s *slot.Slot, dir string) (attempt.Verifier, func() error, error) {
			c, err := r.StartSlot(s, dir)
			if err != nil {
				return nil, nil, err
			}
			return c.Verifier(), c.Close, nil
		}})
}

// Commands describes how to start the run's commands: files is the folder for their files, and name marks their
// processes.
func (r *Run) Commands(files, name string) CommandsOf {
	return CommandsOf{Config: *r.Config, Sandbox: r.Box, Backends: r.Backends, Files: files, Dir: r.Root,
		Cookie: Cookie(name)}
}

// Occupied is how much of the disk the project's slots have, in bytes.
func (r *Run) Occupied() int64 { return slot.Occupied(r.pool) }

// Updates are the commands that bring the user's tree up to date with what a run's commits changed, lock files and
// submodules, where it followed them: its attempts did so in their slots only.
func (r *Run) Updates(ctx context.Context, e Ended) (lines []string) {
	if r.Repo == nil || e.Branch != "" {
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
		changes, err := r.Repo.CommitChanges(context.WithoutCancel(ctx), hash)
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
			if line += " (" + x.Path + " changed)"; dir != "." {
				line = "cd " + terminal.Quote(dir) + " && " + line
			}
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// Elsewhere says where the work is that the branch lacks, although all tasks are done: "" where it lacks none.
func (r *Run) Elsewhere(ctx context.Context) string {
	repo, err := OpenRepo(ctx, r.Root, r.Config, r.Tag.File)
	if err != nil { // there was no run here
		return ""
	}
	defer repo.Close()
	head, err := repo.Head(ctx)
	branch := head.Branch
	if r.Config.Git.Branch != "" {
		branch = "refs/heads/" + config.Names{Tag: r.Name()}.Expand(r.Config.Git.Branch)
	}
	if err != nil {
		return ""
	}
	switch ref, loose, err := trunk.Elsewhere(ctx, repo, branch, r.list(repo)); {
	case err == nil && ref == "":
		name, _, err := r.other(ctx, repo, branch)
		if err != nil || name == "" {
			return ""
		}
		return "commits: " + trunk.OnBranch(name, repo.Merging(ctx, name))
	case err != nil:
		return ""
	case len(loose) > 0:
		return "not committed: " + trunk.KeptAs(loose, ref) + "; to bring it here: " + repo.Merging(ctx, ref)
	default:
		return "commits: " + trunk.OnBranch(ref, repo.Merging(ctx, ref))
	}
}
