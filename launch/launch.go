// Package launch prepares runs of every kind, says what they will do, and runs them: their agents and verify commands
// in the sandbox, with the variables and under the limits that the settings give them.
package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/lazyregexp"
	"descartes/internal/oneline"
	"descartes/internal/oscall"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/mode"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/tasks"
	"descartes/verify"
)

// Want says which run is meant.
type Want struct {
	Root     string // the project
	Dir      string // where the command was typed: typed paths begin there
	Kind     string // store.KindTag and the others
	Once     string // file of a prompt that is run once; Kind is store.KindPrompt
	Settings *config.Settings
	Options  loop.StartOptions
	// Where a verify command comes from that nobody gave, and what is wrong with the plan's front matter: see
	// FromPlan.
	VerifyFrom string
	Front      []tasks.Finding
	Fetches    bool      // Prepare brings the branch that the run is to push up to its remote; else it touches nothing
	Anew       bool      // the settings were given now; false: they are those that a loop has saved
	Imports    bool      // the plan may stand in for a missing task list
	Stdin      io.Reader // of which the prompt may be read
	Fleet      Fleet     // makes the attempts where the settings ask for that
}

// Fleet makes a run's attempts on other machines.
type Fleet interface {
	loop.Away
	// Check is what keeps the run from being made there, and what a person should know of it.
	Check(ctx context.Context, r *Run) (wrong []error, notes []string)
	Join(ctx context.Context, r *Run, l Joins, saved config.Config) error
	Close(ctx context.Context, done bool) error
}

// Joins is a run whose attempts a fleet makes.
type Joins struct {
	ID        string
	StartedAt time.Time
	Warn      func(text string) // people hear it while the run lasts; safe for concurrent use
}

// Problems is everything that keeps a run from starting.
type Problems []source.Problem

// coded is an error that ends the program with a status of its own.
type coded struct {
	error
	code int
}

func (c coded) Code() int     { return c.code }
func (c coded) Unwrap() error { return c.error }

// Exit codes of problems; all others are mistakes in what was asked for.
const (
	machineFails = 1
	agentFails   = 4
	gitFails     = 5
)

// Run is a run of any kind, ready to start: everything is read and checked, nothing but what Want.Fetches asks for is
// touched.
type Run struct {
	Want
	Config   *config.Config  // complete
	Tag      *source.Job     // nil for a prompt
	Prompt   *loop.PromptJob // nil for a tag
	Mode     *mode.Run       // of a plan or a build
	Repo     *gitops.Repo    // nil where git is not needed
	Idle     bool            // every task is done already
	asked    []store.Asked   // what the last run of the tag in any clone left blocked
	Pushed   string          // and this branch is on its remote now, to which an earlier run could not push it
	Unpushed string          // what that did not take besides
	Backends []agent.Backend // that the run may use, the usual one first
	Box      Sandbox
	Redact   *redact.Redactor
	Notes    []string // what a person should know before it starts
	Warnings []string // what may keep it from its work

	found      Problems
	loose      bool // another clone's run left verified work that is to be committed
	pool       string
	secrets    []redact.Secret
	brought    []string // files and folders that specs name
	promptFrom string   // file of a mode's prompt, "" for ours
}

// Prepare reads and checks everything that a run needs. It names all that is wrong at once. The caller closes the run.
func Prepare(ctx context.Context, w Want) (*Run, Problems) {
	s := w.Settings
	r := &Run{Want: w, Config: &s.Config, pool: PoolOf(w.Root), secrets: s.Secrets(os.Environ())}
	r.Redact = redact.Of(r.secrets)
	if err := r.settle(ctx); err != nil {
		return r, Problems{{Message: err.Error(), Err: err}}
	}
	known := r.resolve()
	if r.Kind == store.KindTag {
		r.readList(known)
	} else {
		r.readGate()
	}
	if r.Idle && len(r.found) == 0 {
		if r.Config.Git.Push && r.Fetches {
			repo, err := OpenRepo(ctx, r.Root, r.Config, r.Tag.File)
			if r.Repo = repo; err != nil {
				r.wrong(err)
			} else if head, err := repo.Head(ctx); err == nil && head.Branch != "" {
				r.fetchLeft(ctx, head.Branch)
			}
		}
		r.hear(ctx)
		if len(r.owed()) == 0 || len(r.found) > 0 {
			if r.Repo != nil {
				r.pushIdle(ctx)
			}
			return r, r.found
		}
	}
	r.openRepo(ctx)
	if known {
		r.checkAgents()
	}
	if r.Tag == nil && r.Prompt == nil {
		return r, r.found
	}
	r.confine(ctx)
	if known {
		r.sees(r.Backends[0])
	}
	if r.Repo != nil || r.Kind != store.KindTag {
		r.checkGround(ctx)
		r.hear(ctx)
		r.checkOwed(ctx)
		r.found = append(r.found, loop.CheckLab(ctx, r.Root, r.Config, r.Repo)...)
	}
	r.found = append(r.found, loop.CheckCare(r.Config)...)
	if r.Kind == store.KindTag {
		r.found = append(r.found, loop.CheckReview(r.Config)...)
		r.Warnings = append(r.listWarnings(), r.Warnings...)
	} else if r.Repo == nil {
		if r.Config.Reviews() {
			r.wrong(config.Wrong("git init, or --review off", "--review needs a git repository"))
		}
		if g := r.Criteria(); g != nil && g.Class.Checkpoint() && !r.resumes() {
			r.note("work of type %s asks for a checkpoint at each step, and without a git repository none can be kept",
				g.Class)
		}
	}
	r.warn()
	if (r.Idle || r.stuck() != nil) && r.Config.Git.Push && r.Fetches {
		r.pushIdle(ctx)
	}
	return r, r.found
}

// Bench prepares commands that run beside all runs, such as a recheck of what was committed; pool is the folder with
// their slots. agents says that agents are among them, whose programs have to be here.
func Bench(ctx context.Context, root, pool string, c *config.Config, agents bool) (*Run, Problems) {
	r := &Run{Want: Want{Root: root}, Config: c, pool: pool, secrets: c.Secrets(os.Environ())}
	r.Redact = redact.Of(r.secrets)
	if r.resolve() && agents {
		r.checkAgents()
	}
	r.confine(ctx)
	return r, r.found
}

// wrong records what keeps the run from starting. The hint is the error's own.
func (r *Run) wrong(err error) {
	r.found = append(r.found, source.Problem{Message: err.Error(), Err: err})
}

func (r *Run) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Close closes the repository.
func (r *Run) Close() error {
	if r.Repo == nil {
		return nil
	}
	return r.Repo.Close()
}

// dir is where the run's commands start.
func (r *Run) dir() string {
	if r.Prompt != nil {
		return r.Prompt.Dir
	}
	return r.Root
}

// Name is what people call what the run works on: its tag, or the name of the loop.
func (r *Run) Name() string {
	if r.Tag != nil {
		return r.Tag.File.Tag()
	}
	return r.Options.Name
}

// list names the tag's list in a repository, or it is the name of the loop.
func (r *Run) list(repo *gitops.Repo) string {
	if r.Tag == nil {
		return r.Name()
	}
	return store.ListOf(r.Tag.File, repo.Root()).Key()
}

// resumes reports whether the run goes on where another stopped.
func (r *Run) resumes() bool { return r.Options.Resume != "" }

// resolve finds the agents that the settings name, and completes the settings with them. known is false if not even
// the usual one exists.
func (r *Run) resolve() (known bool) {
	c := r.Config
	usual, saved, err := config.ResolveBackend(*c)
	if err != nil {
		r.wrong(err)
		return false
	}
	c.Backend, r.Backends = saved, []agent.Backend{usual}
	c.Command, c.Args = config.SavedCommand(usual.Command)
	others, err := config.OtherBackends(*c)
	if err != nil {
		r.wrong(err)
	}
	r.Backends = append(r.Backends, others...)
	return true
}

// readList reads the tag's list with its plan and specs.
func (r *Run) readList(known bool) {
	c := r.Config
	if c.Scud.VerificationCommand == "" && len(c.Checks) == 0 {
		c.Scud.VerificationCommand, r.VerifyFrom, _ = verify.Detect(r.Root)
	}
	load := source.Load
	if r.Imports && !r.resumes() {
		load = source.LoadOrImport
	}
	job, unread := load(r.Root, *c)
	if r.Tag = job; job != nil {
		if r.Config = &job.Config; job.Config.Scud.MaxTotalIterations == 0 {
			job.Config.Scud.MaxTotalIterations = config.DefaultTotalIterations(job.Graph.Counts().Total)
		}
		job.Config.MaxIterations = job.Config.Scud.MaxTotalIterations
		var err error
		if r.Idle, err = job.NothingToDo(); err != nil {
			r.wrong(err)
		}
	}
	if !r.Idle && c.Scud.VerificationCommand == "" && len(c.Checks) == 0 {
		r.wrong(config.Wrong(`--verify "make test", or --verify none to take the agent's word`,
			"no verify command given, and none found from the project's files"))
	}
	r.found = append(r.found, unread...)
	if r.Tag == nil {
		return
	}
	if id := r.Options.Scope.Task; id != "" && !r.Idle {
		if err := r.canRun(id); err != nil {
			r.wrong(err)
		}
	}
	if !known {
		return
	}
	large, largest := 0, 0
	r.found = append(r.found, job.CheckSpecs(func(n int) error {
		// as specbuild counts tokens
		if t := (n + 3) / 4; job.Config.Scud.Spec.MaxSpecTokens > 0 && t > job.Config.Scud.Spec.MaxSpecTokens {
			large, largest = large+1, max(largest, t)
		}
		return r.Takes(n)
	})...)
	if large > 0 {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("%s over %d tokens, the largest has about %d; --set scud.spec.cut=true shortens them",
				terminal.Count(large, "spec"), job.Config.Scud.Spec.MaxSpecTokens, largest))
	}
}

// canRun says why a task cannot be the one of a step.
func (r *Run) canRun(id string) error {
	if _, ok := r.Tag.Graph.Task(id); !ok {
		return config.Wrong("descartes tasks list"+config.ListFlags(r.Name(), r.Config.Scud.TasksFile),
			"tag %q has no task %q", r.Name(), id)
	}
	state, cause := r.Tag.Graph.State(id), r.Tag.Graph.Why(id, nil)
	hint := ""
	if state == "blocked" {
		hint = "--retry-blocked tries it again"
	}
	if r.Tag.Graph.Ready(id) || hint != "" && r.Config.Scud.RetryBlocked {
		return nil
	}
	if cause != "" {
		cause = ": " + cause
	}
	return config.Wrong(hint, "task %s cannot run now, it is %s%s", id, state, cause)
}

// Takes reports whether every backend can be given a prompt of n bytes.
func (r *Run) Takes(n int) error {
	for _, b := range r.Backends {
		if err := b.Check(func(string) (string, error) { return "", nil }, n); err != nil {
			return err
		}
	}
	return nil
}

// checkAgents says which agents cannot be run, and what may keep them from their work.
func (r *Run) checkAgents() {
	asked := map[string]string{} // backend to what asks for it
	if r.Config.Reviews() {
		asked[r.Config.Review.Backend] = "review"
	}
	if r.Tag != nil {
		for _, id := range r.Tag.Runnable() {
			t, _ := r.Tag.Graph.Task(id)
			if name := r.Config.Choices(t)[0].Backend; asked[name] == "" {
				asked[name] = "task " + id
			}
		}
	}
	for i, b := range r.Backends {
		of := asked[b.Name]
		if i == 0 {
			of = " "
		} else if of != "" {
			of += ": "
		}
		r.needs(b, strings.TrimLeft(of, " "), i == 0 || of != "",
			map[bool]string{true: "--command", false: "agent_types, fallback or --review"}[i == 0])
	}
}

// needs says what a backend lacks. The run must have it, or may do without.
func (r *Run) needs(b agent.Backend, of string, must bool, by string) {
	fails := func(what, hint string) {
		err := coded{errors.New(of + what), agentFails}
		r.found = append(r.found, source.Problem{Message: err.Error(), Hint: hint, Err: err})
	}
	if err := b.Check(LookIn(r.dir()), 0); err != nil {
		if must {
			fails(err.Error(), "install it"+inBrackets(b.Install())+", or name another with "+by)
		} else {
			r.note("the fallback cannot take over before it is installed: %v", err)
		}
		return
	}
	for _, l := range b.Preflight(Host(*r.Config, b, r.dir())) {
		switch what := b.Name + ": " + l.What; {
		case must && l.Certain:
			fails(what, l.Fix)
		case must:
			r.Warnings = append(r.Warnings, what+": "+l.Fix)
		default:
			r.note("the fallback may not be able to take over: %s: %s", what, l.Fix)
		}
	}
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// LookIn finds programs for commands that run in dir.
func LookIn(dir string) func(program string) (string, error) {
	return func(program string) (string, error) { return proc.Look(program, dir, os.Environ()) }
}

// openRepo opens the repository, and checks that a run is safe in it. A prompt loop that commits nothing does without
// one.
func (r *Run) openRepo(ctx context.Context) {
	g := &r.Config.Git
	var list *tasks.File
	if r.Tag != nil {
		list = r.Tag.File
	}
	repo, err := OpenRepo(ctx, r.Root, r.Config, list)
	commits := g.AutoCommit || g.CreateBranch || g.Branch != "" || r.Mode != nil || r.Kind == store.KindTag
	if err != nil {
		// else the folder itself is used
		if commits || !errors.Is(err, gitops.ErrNotRepo) && !errors.Is(err, gitops.ErrBare) {
			r.wrong(err)
		}
		return
	}
	if r.Repo = repo; !commits {
		return
	}
	r.Notes = append(r.Notes, repo.Notes()...)
	if r.Kind == store.KindTag && r.Tag == nil {
		return
	}
	if g.AutoCommit || r.Kind != store.KindTag {
		if err := repo.Author(); err != nil {
			r.wrong(err)
		}
	}
	r.brought = append(slices.Clone(r.brought), r.Config.Scud.Spec.AdditionalSpecs...)
	if r.Tag != nil {
		r.brought = append(r.brought, r.Config.Scud.PlanPath)
		if r.Tag.Import == nil {
			if err := list.Writable(); err != nil {
				r.wrong(err)
			}
		}
		r.runnable(ctx)
		r.canSign()
	}
}

// runnable names what keeps the list from being run here now.
func (r *Run) runnable(ctx context.Context) {
	old, err := store.NewHome(r.Root).Unfinished(r.Tag.Key())
	if err != nil {
		r.wrong(err)
		return
	}
	begins := old == nil && r.Options.Resume == ""
	if begins && len(r.Tag.Runnable()) == 0 {
		r.found = append(r.found, r.Tag.NothingRuns(nil)) // hear adds what is asked
		for _, p := range r.Tag.Graph.Problems() {
			if p.Kind == "duplicate" {
				r.found = append(r.found, source.Problem{Message: p.Message, Hint: "give each task its own id"})
			}
		}
	}
	// A lock left by the killed agent of an unfinished run is handled when that run is resumed.
	path, locked := r.Repo.Locked(ctx)
	// by a run that moves the branch
	for until := time.Now().Add(store.LockWait); begins && locked && time.Now().Before(until); path,
		locked = r.Repo.Locked(ctx) {
		time.Sleep(10 * time.Millisecond)
	}
	if begins && locked {
		r.found = append(r.found,
			source.Problem{Message: path + " exists: git is at work here, or was killed in the middle of it",
				Hint: "wait for it to end; if no git process runs any more, remove the file"})
	}
	if err := r.Repo.CanMerge(); err != nil && r.Config.Slots() > 1 {
		r.found = append(r.found, source.Problem{Message: err.Error(),
			Hint: "install a newer git, or run one agent at a time: -j 1", Err: err})
	}
}

// canSign says why receipts cannot be signed as the settings ask.
func (r *Run) canSign() {
	c, key := r.Config.Receipts, r.Repo.SigningKey()
	switch hint := "git config user.signingkey ~/.ssh/id_ed25519.pub && git config gpg.format ssh"; {
	case !c.Sign:
	case !c.Write:
		r.wrong(config.Wrong("leave one of the two out",
			"receipts.sign: no receipts are written (receipts.write: false)"))
	case key.ID == "":
		r.wrong(config.Wrong(hint, "receipts.sign: git has no signing key"))
	case key.Format != "" && key.Format != "openpgp" && key.Format != "ssh":
		r.wrong(config.Wrong(hint, "receipts.sign: gpg.format is %s, and receipts are signed with ssh or openpgp",
			key.Format))
	}
}

// confine finds the sandbox for commands, and checks the room on the disk.
func (r *Run) confine(ctx context.Context) {
	c := r.Config
	var usual agent.Backend
	if len(r.Backends) > 0 {
		usual = r.Backends[0]
	}
	top := GitTop(r.dir())
	at := Place{Root: r.Root, Dir: r.dir(), Top: top}
	if c.Scud.Tag != "" { // no command may change its list
		if f, err := source.OpenTasks(r.Root, c.Scud); err == nil {
			at.Keep = append(at.Keep, f.Path())
		}
	}
	var err error
	if r.Box, err = FindSandbox(ctx, at, *c, usual); err != nil {
		r.wrong(err)
	}
	if r.Settings != nil && r.Settings.CI && c.Fleet == "" && r.Box.Lacking != nil && err == nil {
		// nobody reads a warning, and a job holds what its later steps trust
		r.wrong(&StrictError{*r.Box.Lacking, "--ci starts no agent without a sandbox"})
	}
	c.SandboxInForce = r.Box.Note
	if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
		if err := CheckPool(r.Root); err != nil {
			r.wrong(err)
		}
	}
	if c.MinFreeDisk > 0 {
		if why := loop.Room(oscall.Free, c.MinFreeDisk, r.Root, filepath.Join(r.Root, ".descartes"),
			r.pool); why != "" {
			r.found = append(r.found, source.Problem{Message: why,
				Hint: "free some, or start with --set min_free_disk=0", Err: coded{errors.New(why), machineFails}})
		}
	}
}

// checkGround decides on which branch agents work, and looks at what is not committed: no copy of the project has it.
func (r *Run) checkGround(ctx context.Context) {
	c := r.Config
	if r.Tag != nil {
		if err := store.NewHome(r.Root).Beside(ctx, r.Tag.Key()); err != nil {
			r.wrong(err)
			return
		}
	}
	if r.Repo == nil {
		if c.Git.Push {
			r.wrong(config.Wrong("git init", "--push needs a git repository"))
		}
		return
	}
	goesOn, was := r.resumes(), ""
	if r.Tag != nil && (r.Anew || !goesOn) {
		old, err := store.NewHome(r.Root).Unfinished(r.Tag.Key())
		if goesOn = goesOn || old != nil; err == nil && old != nil {
			was, err = r.branchOf(old.State.ID)
		}
		if err != nil {
			r.wrong(err)
		}
	}
	if err := r.chooseBranch(ctx, goesOn, was); err != nil {
		r.wrong(err)
	}
	if err := r.canPush(ctx); err != nil {
		r.wrong(err)
	}
	if c.Fleet != "" && r.Fleet != nil {
		wrong, notes := r.Fleet.Check(ctx, r)
		for _, err := range wrong {
			r.wrong(fmt.Errorf("--fleet: %w", err))
		}
		r.Notes = append(r.Notes, notes...)
	}
	if err := r.uncommitted(ctx); err != nil {
		r.wrong(err)
	}
}

// uncommitted says what slots lack.
func (r *Run) uncommitted(ctx context.Context) error {
	if r.resumes() || r.Tag == nil && !r.Config.Git.AutoCommit {
		return nil
	}
	missing, err := r.Repo.Dirty(ctx)
	if err != nil {
		return &slot.GitError{What: "look for uncommitted changes", Err: err}
	}
	own := r.inRepo(append(r.brought, ".descartes"))
	if r.Tag != nil {
		own = r.Tag.OwnPaths(r.Repo.Root())
	}
	if missing = source.Foreign(missing, own); len(missing) > 0 {
		r.note("not committed, so not in the copies of the project that agents work in: %s", oneline.List(missing))
	}
	return nil
}

// branchOf is the branch that an unfinished run commits to, which a start goes on with: one that was asked for now is
// refused if it is another. "" where the run had not begun.
func (r *Run) branchOf(run string) (string, error) {
	h, err := journal.Load(store.NewHome(r.Root).Events(run))
	if err != nil || h.Branch == "" {
		return "", err
	}
	name, asked := trunk.ShortRef(h.Branch), r.Config.Git.Branch
	hint := "descartes resume goes on with it there"
	switch {
	case asked != "" && asked != name && !strings.Contains(asked, "{"):
		return "", config.Wrong(hint, "run %s is not finished and commits to %s, not to %s", run, name, asked)
	case !r.Config.Scud.AutoCommitWaves && !trunk.IsAside(h.Branch, r.list(r.Repo)):
		return "", config.Wrong(hint, "run %s is not finished and commits to %s: --no-commit is for a run that begins", run, name)
	}
	return name, nil
}

// chooseBranch decides on which branch a run commits, and refuses one that it cannot begin at or commit to. was is that
// of an unfinished run, which goes on.
func (r *Run) chooseBranch(ctx context.Context, goesOn bool, was string) error {
	g := &r.Config.Git
	names := config.Names{Tag: strings.Join(strings.Fields(cmp.Or(r.Name(), "loop")), "-"), At: time.Now()}
	branch := names.Expand(g.Branch)
	if branch == "" && g.CreateBranch && !r.resumes() {
		branch = names.Expand(cmp.Or(g.BranchTemplate, config.DefaultBranchTemplate))
	}
	g.Branch = names.Expand(g.Branch)
	if was != "" && branch != "" && branch != was { // its name has a date, or a number
		branch, g.Branch = was, was
	}
	ref := "refs/heads/" + branch
	head, err := r.Repo.Head(ctx)
	if err != nil {
		return err
	}
	aside := r.Tag != nil && branch == "" && (head.Branch == "" || !r.Config.Scud.AutoCommitWaves)
	if branch == "" {
		if ref = head.Branch; ref == "" && !aside {
			r.Warnings = append(r.Warnings,
				"HEAD is on no branch, and neither will be the commits of this run: --branch NAME puts them on a new one")
		}
	}
	if !goesOn && r.Tag != nil && g.Push && r.Fetches && ref != "" && ref == head.Branch {
		r.fetchLeft(ctx, ref)
	}
	if aside { // it goes on where --no-commit, or one on no branch, puts it
		if ref, err = trunk.AsideFor(ctx, r.Repo, "", r.list(r.Repo)); err != nil {
			return err
		}
		if head.Branch == "" {
			r.Warnings = append(r.Warnings, "HEAD is on no branch: the commits of this run go to "+trunk.ShortRef(ref))
		}
		if err := r.goOnAside(ctx, ref); err != nil {
			return err
		}
	}
	if !goesOn && (r.Tag != nil || g.AutoCommit && r.Name() != "") {
		var made trunk.Made
		if r.Tag != nil {
			made = r.Tag.Made
		}
		if err := trunk.CanBegin(ctx, r.Repo, ref, r.list(r.Repo), made); err != nil {
			return err
		}
		if err := r.onOther(ctx, ref); err != nil {
			return err
		}
	}
	if !r.Anew || branch == "" {
		return nil
	}
	r.Options.Branch = branch
	return r.goOnFrom(ctx, branch, ref != head.Branch)
}

// goOnAside prepares a run that goes on where --no-commit, or one on no branch, put its commits.
func (r *Run) goOnAside(ctx context.Context, ref string) error {
	there, ahead, err := trunk.ListOn(ctx, r.Repo, r.Tag.File, ref)
	if err != nil || !ahead {
		return err
	}
	r.Tag.GoOn(there)
	if r.Idle, err = r.Tag.NothingToDo(); err == nil {
		r.Idle = r.Idle && !r.loose
	}
	return err
}

// other is the branch with the work of tasks that a branch lacks, and these tasks; "" for none.
func (r *Run) other(ctx context.Context, repo *gitops.Repo, branch string) (ref string, done []string, err error) {
	if r.Tag == nil {
		return "", nil, nil
	}
	home := store.NewHome(r.Root)
	runs, err := home.Of(r.Tag.Key())
	if err != nil {
		return "", nil, err
	}
	var commits []journal.WaveCommit
	for _, s := range runs { // the commands that show a run report what is wrong with its journal
		if h, err := journal.Load(home.Events(s.State.ID)); err == nil {
			commits = append(commits, h.WaveCommits...)
		}
	}
	others, err := trunk.CommitsOfOthers(ctx, repo, branch, r.list(repo), r.isHere)
	if err != nil {
		return "", nil, err
	}
	ref, done, err = trunk.Other(ctx, repo, branch, r.list(repo), append(others, commits...))
	done = slices.DeleteFunc(done, func(id string) bool {
		_, listed := r.Tag.Graph.Task(id)
		return !listed
	})
	slices.SortFunc(done, tasks.CompareIDs)
	done = slices.Compact(done)
	if len(done) == 0 || trunk.ShortRef(ref) == r.Config.Git.Branch {
		ref = ""
	}
	return trunk.ShortRef(ref), done, err
}

// onOther refuses a start on a branch that lacks what is done on another one: later tasks would begin without it.
func (r *Run) onOther(ctx context.Context, branch string) error {
	name, done, err := r.other(ctx, r.Repo, branch)
	if err == nil && name == "" && r.Tag != nil {
		return r.looseOnOther(ctx, branch)
	}
	if err != nil || name == "" {
		return err
	}
	return config.Wrong(fmt.Sprintf("%s brings it here; --branch %s goes on there", r.Repo.Merging(ctx, name), name),
		"the work on %s is done on the branch %s, and %s lacks it", oneline.List(done), name,
		cmp.Or(trunk.ShortRef(branch), "HEAD"))
}

// looseOnOther refuses a start on a branch that lacks what a run here verified for another one and did not commit.
func (r *Run) looseOnOther(ctx context.Context, branch string) error {
	ref, done, err := trunk.LeftOn(ctx, r.Repo, branch, r.list(r.Repo),
		func(id string) bool { return r.Tag.Graph.Status(id) == tasks.Done }, r.isHere)
	if err != nil || ref == "" {
		return err
	}
	return config.Wrong(r.Repo.Merging(ctx, ref)+", then start again; or go on at the branch that it is for",
		"%s, which is for another branch, and %s lacks it", trunk.KeptAs(done, ref),
		cmp.Or(trunk.ShortRef(branch), "HEAD"))
}

// goOnFrom prepares a run on a branch, made if there is none: one that is ahead of HEAD is gone on from, with what its
// list says, and what a push has is taken in first. away says that it is not the branch checked out.
func (r *Run) goOnFrom(ctx context.Context, branch string, away bool) (err error) {
	list, in := "", false
	var files map[string][]byte
	if r.Tag != nil {
		if list, in = Below(r.Repo.Root(), r.Tag.File.Target()); in {
			files = map[string][]byte{list: r.Tag.File.Bytes()}
		}
	}
	if r.Config.Git.Push && r.Fetches && away {
		if err = r.fetch(ctx, branch, list); err != nil {
			return err
		}
	}
	if at, err := r.Repo.RefCommit("refs/heads/" + branch); in && err == nil && at != "" {
		if err := r.hasTasksOf(ctx, branch, at); err != nil {
			return err
		}
	}
	ahead, err := r.Repo.CanBranch(ctx, branch, files)
	if clash, ok := errors.AsType[*gitops.ClashError](err); ok && r.Tag != nil {
		r.note("%s: a task of the run takes that in", clash.Reason)
		err = nil
	}
	if err != nil || ahead == "" {
		return err
	}
	note := fmt.Sprintf("the branch %s is ahead of HEAD, and goes on from %.7s", branch, ahead)
	if in {
		r.Tag.GoOn(trunk.ListAt(ctx, r.Repo, r.Tag.File, ahead))
		if n := len(r.Tag.Ahead); n > 0 {
			note += ", with " + terminal.Count(n, "task") + " that it has as done, blocked or set aside"
		}
		if r.Idle, err = r.Tag.NothingToDo(); err != nil {
			return err
		}
		r.Idle = r.Idle && !r.loose
	}
	r.note("%s", note)
	return nil
}

// hasTasksOf refuses a run whose list lacks open tasks that a branch's list got since the two parted: the run's commits have
// the list as it is here, and would drop them.
func (r *Run) hasTasksOf(ctx context.Context, branch, commit string) error {
	head, err := r.Repo.Head(ctx)
	if err != nil || head.Hash == "" {
		return err
	}
	fork, err := r.Repo.ForkOf(ctx, head.Hash, commit)
	if err != nil || fork == "" {
		return err
	}
	was := trunk.ListAt(ctx, r.Repo, r.Tag.File, fork)
	var lacks []string
	for _, t := range trunk.ListAt(ctx, r.Repo, r.Tag.File, commit) {
		_, here := r.Tag.File.Task(t.ID)
		if !here && t.Status.Open() && !slices.ContainsFunc(was, func(old tasks.Task) bool { return old.ID == t.ID }) {
			lacks = append(lacks, t.ID)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	list, _ := Below(r.Repo.Root(), r.Tag.File.Target())
	return config.Wrong(fmt.Sprintf("git checkout %.7s -- %s takes its list over; then commit that", commit, terminal.Quote(list)),
		"the list here lacks what the branch %s has got: task %s", branch, oneline.List(lacks))
}

// stuck is why nothing of a list can run, where that is all that keeps a run from starting.
func (r *Run) stuck() error {
	if len(r.found) == 1 {
		if none, ok := errors.AsType[*source.NothingRunsError](r.found[0].Err); ok {
			return none
		}
	}
	return nil
}

// pushIdle pushes for a run that has nothing to do, or cannot do anything, what earlier ones over its tag made: one may
// have been refused, or ended before it could. Until the remote has it the work is not where it belongs.
func (r *Run) pushIdle(ctx context.Context) {
	stuck := r.stuck()
	if r.Repo == nil || len(r.found) > 0 && stuck == nil {
		return
	}
	switch err := r.pushBranch(ctx); {
	case err == nil:
	case stuck == nil:
		r.wrong(coded{fmt.Errorf("every task is done, and that is not pushed: %w", err), gitFails})
	default:
		r.found = nil // it is in the same sentence, and has another exit status
		r.wrong(coded{fmt.Errorf("%w; and what is committed is not pushed: %w", stuck, err), gitFails})
	}
}

func (r *Run) pushBranch(ctx context.Context) error {
	head, err := r.Repo.Head(ctx)
	if err != nil {
		return err
	}
	ref := head.Branch
	if name := (config.Names{Tag: r.Name()}).Expand(r.Config.Git.Branch); name != "" {
		ref = "refs/heads/" + name
	}
	ours, err := r.Repo.RefCommit(ref)
	if err != nil || ref == "" || ours == "" { // no run made it
		return err
	}
	branch := strings.TrimPrefix(ref, "refs/heads/")
	remote, err := r.Repo.Remote(ref)
	if err != nil {
		return err
	}
	theirs, err := r.Repo.FetchRef(ctx, remote, ref)
	if err != nil {
		return cannotFetch(remote, ref, err)
	}
	there := theirs != "" && r.Repo.LeadsTo(ctx, theirs, ours)
	if theirs != "" && !there && !r.Repo.LeadsTo(ctx, ours, theirs) {
		if ref == head.Branch {
			return config.Wrong(fmt.Sprintf("git pull --no-rebase %s %s && git push %[1]s %[2]s", remote, branch),
				"%s has commits on %s that are not here", remote, branch)
		}
		list, _ := Below(r.Repo.Root(), r.Tag.File.Target())
		if err := r.fetch(ctx, branch, list); err != nil {
			return err
		}
	}
	p := trunk.Pushing{Branch: ref, Trunk: store.TagTrunkRef(r.list(r.Repo), ref)}
	loops, err := store.NewHome(r.Root).Of(r.Tag.Key())
	if err != nil {
		return err
	}
	for _, s := range loops {
		p.Loops = append(p.Loops, s.State.ID)
	}
	if p.Others, err = r.otherBranches(ctx, ref, remote, loops); err != nil {
		return err
	}
	notes, err := p.Push(ctx, r.Repo, remote)
	if err == nil {
		if serr := r.sayings().Push(ctx, remote); serr != nil {
			notes = errors.Join(notes, fmt.Errorf("what is asked and answered is not pushed: %w", serr))
		}
	}
	if err != nil {
		return config.Wrong("git push "+remote+" "+branch+" says more", "%s: %w", branch, err)
	}
	if notes != nil {
		r.Unpushed = strings.ReplaceAll(notes.Error(), "\n", "; ")
	}
	var pushed []string
	if !there {
		pushed = append(pushed, branch)
	}
	for _, other := range p.Others {
		pushed = append(pushed, trunk.ShortRef(other))
	}
	r.Pushed = strings.Join(pushed, ", ")
	return nil
}

// otherBranches are those of loops over the tag that were to push and could not, which neither the branch nor the remote
// has: their own, and the one where commits went that the user's files could not follow. One that is gone from the
// remote since it was there is left alone.
func (r *Run) otherBranches(ctx context.Context, branch, remote string, loops []store.Saved) (others []string,
	err error) {
	var refs []string
	for _, s := range loops {
		path := store.NewHome(r.Root).Events(s.State.ID)
		last, err := journal.Last(path)
		if !s.State.Config.Git.Push || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && last != nil && last.Detail != nil && last.End() != nil && last.Detail.Unpushed == "" {
			continue
		}
		h, lerr := journal.Load(path)
		if err := cmp.Or(err, lerr); err != nil {
			return nil, err
		}
		aside, err := trunk.AsideFor(ctx, r.Repo, branch, r.list(r.Repo))
		if err != nil {
			return nil, err
		}
		refs = append(refs, h.Branch, aside)
	}
	on, err := r.Repo.RefCommit(branch)
	if err != nil {
		return nil, err
	}
	slices.Sort(refs)
	for _, ref := range slices.Compact(refs) {
		if ref == branch || !strings.HasPrefix(ref, "refs/heads/") {
			continue
		}
		at, err := r.Repo.RefCommit(ref)
		if err != nil {
			return nil, err
		}
		was, err := r.Repo.RefCommit("refs/remotes/" + remote + "/" + trunk.ShortRef(ref))
		if err != nil {
			return nil, err
		}
		if at == "" || r.Repo.LeadsTo(ctx, on, at) || was != "" && r.Repo.LeadsTo(ctx, was, at) {
			continue
		}
		theirs, err := r.Repo.FetchRef(ctx, remote, ref)
		if err != nil {
			return nil, cannotFetch(remote, ref, err)
		}
		if theirs == "" || !r.Repo.LeadsTo(ctx, theirs, at) {
			others = append(others, ref)
		}
	}
	return others, nil
}

// fetch brings a branch that a run is to push up to what other clones have pushed, by a merge where both moved on;
// list is the task list in the repository.
func (r *Run) fetch(ctx context.Context, branch, list string) error {
	ref := "refs/heads/" + branch
	remote, err := r.Repo.Remote(ref)
	if err != nil {
		return fmt.Errorf("--push: %w", err)
	}
	at, err := r.Repo.FetchRef(ctx, remote, ref)
	if err != nil {
		return cannotFetch(remote, ref, err)
	}
	if at != "" {
		var files map[string][]byte
		if list != "" {
			if ours, err := r.Repo.RefCommit(ref); err == nil && ours != "" {
				r.Tag.GoOn(trunk.ListAt(ctx, r.Repo, r.Tag.File, ours))
			}
			if err := r.hasTasksOf(ctx, branch, at); err != nil {
				return err
			}
			r.Tag.GoOn(trunk.ListAt(ctx, r.Repo, r.Tag.File, at))
			b, err := r.Tag.File.With(r.Tag.Ahead)
			if err != nil {
				return err
			}
			files = map[string][]byte{list: b}
		}
		if err := r.Repo.TakeTheirs(ctx, branch, remote, at, files); err != nil {
			return err
		}
	}
	if r.Tag == nil {
		return nil
	}
	if err := r.fetchSaid(ctx, remote); err != nil {
		return err
	}
	return r.fetchTrunk(ctx, remote, ref)
}

// hear reads what is said about the tag's tasks, here and in other clones.
func (r *Run) hear(ctx context.Context) {
	if r.Tag == nil {
		return
	}
	said, err := store.NewHome(r.Root).Said(r.Tag.Key())
	if err == nil && r.Repo != nil {
		var at string
		if at, err = r.Repo.RefCommit(store.SaidRef(r.list(r.Repo))); err == nil {
			var there store.Said
			there, err = trunk.ReadSaid(ctx, r.Repo, at)
			said = said.With(there)
		}
	}
	r.Tag.Answers, r.asked = said.Answers, said.Asked
	if r.stuck() != nil && err == nil {
		r.found[0] = r.Tag.NothingRuns(said.Asked)
	}
	if err != nil {
		r.wrong(fmt.Errorf("read what is said about the tasks: %w", err))
	}
}

// owed are the tasks of checks of the end that an earlier run left blocked.
func (r *Run) owed() (list []store.Asked) {
	for _, a := range r.asked {
		if a.AtEnd && slices.ContainsFunc(r.Config.ChecksOf(true), func(c verify.Check) bool { return c.Name == a.Check }) {
			list = append(list, a)
		}
	}
	return list
}

// checkOwed: where nothing else is left to run, a check of the end that an earlier run left failing is. It is tried again
// when a person says so, or has committed since; else that it fails is repeated.
func (r *Run) checkOwed(ctx context.Context) {
	list := r.owed()
	if len(list) == 0 || len(r.found) > 0 && r.stuck() == nil || len(r.Tag.Runnable()) > 0 {
		return
	}
	r.Idle, r.found = false, nil
	tip, err := r.branchTip(ctx)
	if err != nil {
		r.wrong(err)
		return
	}
	if r.Config.Scud.RetryBlocked || slices.ContainsFunc(list, func(a store.Asked) bool {
		return tip != a.Tip || r.Tag.Answered(a.Task, a.At)
	}) {
		return
	}
	for _, a := range list {
		r.found = append(r.found, source.Problem{
			Message: fmt.Sprintf("all tasks of tag %q are done, and %s (%s) is blocked: %s", r.Name(), a.Task, a.Title, a.Reason),
			Hint: "descartes why " + terminal.Quote(a.Task) + config.ListFlags(r.Name(), r.Config.Scud.TasksFile) +
				"; commit what mends it, or --retry-blocked tries it again",
			Err: &source.NothingRunsError{Tag: r.Name(), Blocked: 1}})
	}
}

// branchTip is the commit of the branch that gets the run's commits; "" where there is none yet.
func (r *Run) branchTip(ctx context.Context) (string, error) {
	if r.Options.Branch != "" {
		return trunk.TipOf(ctx, r.Repo, "refs/heads/"+r.Options.Branch)
	}
	head, err := r.Repo.Head(ctx)
	return head.Hash, err
}

// sayings are what is said about the tag's tasks.
func (r *Run) sayings() trunk.Sayings {
	return trunk.Sayings{Repo: r.Repo, Home: store.NewHome(r.Root), FS: atomicfile.OS(), Tag: r.Name(),
		List: r.list(r.Repo), Key: r.Tag.Key(), Now: gitops.Now}
}

// fetchSaid takes over what is said about the tag's tasks at a remote.
func (r *Run) fetchSaid(ctx context.Context, remote string) error {
	ref := store.SaidRef(r.list(r.Repo))
	at, err := r.Repo.FetchRef(ctx, remote, ref)
	if err != nil {
		return cannotFetch(remote, ref, err)
	}
	if at == "" {
		return nil
	}
	return r.sayings().Share(ctx, at)
}

// fetchLeft takes over what runs elsewhere left for the branch that is checked out: what they verified and could not
// commit there, and what is said about the tasks. A remote that cannot be reached keeps no run from starting.
func (r *Run) fetchLeft(ctx context.Context, branch string) {
	remote, err := r.Repo.Remote(branch)
	if err == nil {
		if err = r.fetchSaid(ctx, remote); err == nil {
			err = cmp.Or(r.fetchAside(ctx, remote), r.fetchTrunk(ctx, remote, branch))
		}
	}
	if err != nil {
		r.Warnings = append(r.Warnings, "what runs elsewhere left is not known: "+err.Error())
	}
}

// fetchTrunk takes over what a run elsewhere verified over the tag and could not commit to a branch: it counts as done.
func (r *Run) fetchTrunk(ctx context.Context, remote, branch string) error {
	own := store.TagTrunkRef(r.list(r.Repo), branch)
	for _, ref := range []string{own, store.OldTrunkRef(r.list(r.Repo))} {
		ours, err := r.Repo.RefCommit(ref)
		if err != nil || ours != "" && trunk.MadeBy(ctx, r.Repo, ours, r.isHere) { // of a run whose list shows it
			return err
		}
		theirs, err := r.Repo.FetchRef(ctx, remote, ref)
		if err != nil {
			return cannotFetch(remote, ref, err)
		}
		if theirs != "" && theirs != ours && (ours == "" || r.Repo.LeadsTo(ctx, theirs, ours)) {
			if err := r.Repo.MoveRef(ctx, ref, ours, theirs, "descartes: fetched"); err != nil {
				return err
			}
			ours = theirs
		}
		if ours != "" { // or it was fetched before
			return r.takeOver(ctx, ref, branch)
		}
	}
	return nil
}

// fetchAside takes over the branch aside of runs elsewhere that had none to commit to: the work there is done, and not here.
func (r *Run) fetchAside(ctx context.Context, remote string) error {
	list := r.list(r.Repo)
	ref := store.TagTrunkRef(list, "")
	if ours, err := r.Repo.RefCommit(ref); err != nil || ours != "" {
		return err
	}
	theirs, err := r.Repo.FetchRef(ctx, remote, ref)
	if err != nil {
		return cannotFetch(remote, ref, err)
	}
	if theirs == "" {
		return nil
	}
	if err := r.Repo.MoveRef(ctx, ref, "", theirs, "descartes: fetched"); err != nil {
		return err
	}
	_, _, err = trunk.MakeAside(ctx, r.Repo, "", list, ref)
	return err
}

// isHere reports whether a run is of this working tree.
func (r *Run) isHere(run string) bool {
	_, err := os.Stat(store.NewHome(r.Root).Run(run))
	return err == nil
}

// takeOver has a run go on from a trunk that was fetched.
func (r *Run) takeOver(ctx context.Context, ref, branch string) error {
	aside, tip, err := trunk.MakeAside(ctx, r.Repo, branch, r.list(r.Repo), ref)
	if err != nil {
		return err
	}
	if tip != "" {
		r.Tag.GoOn(trunk.ListAt(ctx, r.Repo, r.Tag.File, tip))
		r.loose = true
		r.note("goes on from what an earlier run committed to the branch %s, for files elsewhere could not follow",
			trunk.ShortRef(aside))
	}
	at, loose, err := trunk.Elsewhere(ctx, r.Repo, branch, r.list(r.Repo))
	if err != nil || at != ref {
		return err
	}
	var done []tasks.Task
	for _, id := range loose {
		done = append(done, tasks.Task{ID: id, Status: tasks.Done})
	}
	r.Tag.GoOn(done)
	r.loose = true
	r.note("goes on from what an earlier run verified and did not commit: task %s, which %s has", oneline.List(loose),
		ref)
	return nil
}

func cannotFetch(remote, ref string, err error) error {
	return config.Wrong("git fetch "+remote+" "+ref+" says more; without --push nothing is fetched",
		"cannot see what %s has as %s: %w", remote, ref, err)
}

// canPush refuses a run whose work could not be pushed anywhere.
func (r *Run) canPush(ctx context.Context) error {
	if !r.Config.Git.Push {
		return nil
	}
	head, err := r.Repo.Head(ctx)
	if err != nil {
		return err
	}
	branch := cmp.Or(r.Options.Branch, head.Branch)
	if branch == "" {
		return config.Wrong("--branch NAME makes one", "--push: no branch is checked out")
	}
	if _, err := r.Repo.Remote(branch); err != nil {
		return fmt.Errorf("--push: %w", err)
	}
	if hook := r.Repo.SkipsPushHook(); hook != "" {
		r.note("--push leaves out the hook %s: an agent may have written what it runs, outside the sandbox; --set git.hooks=outside runs it", hook)
	}
	return nil
}

// inRepo are those paths of the project that are in the repository, from its top on.
func (r *Run) inRepo(paths []string) (out []string) {
	for _, p := range paths {
		if p == "" || r.Repo == nil {
			continue
		}
		if rel, ok := Below(r.Repo.Root(), Absolute(r.Root, p)); ok {
			out = append(out, rel)
		}
	}
	return out
}

// warn says what may surprise a person: another program's loop, limits that cannot act, quotas that are used up.
func (r *Run) warn() {
	// the plugin's file stays as it is
	if _, err := os.Lstat(filepath.Join(r.Root, ".claude", "ralph-loop.local.md")); err == nil {
		r.note("this run overrides Ralph Loop. The ralph-loop plugin's state file is unchanged; cancel the ralph loop separately if you want it gone.")
	}
	if r.Repo != nil && r.Config.Fleet == "" {
		var servers []string
		for _, l := range proc.Listening(r.Repo.Root()) {
			if !strings.HasPrefix(l.Name, "descartes") {
				servers = append(servers, fmt.Sprintf("%s (process %d, port %d)", l.Name, l.PID, l.Port))
			}
		}
		if len(servers) > 0 {
			r.note("programs of yours listen in this folder, and a check that asks one sees your files and not the agent's: %s; have the check start its own", oneline.List(servers))
		}
	}
	r.powerless()
	if why := r.Box.Warning(); why != "" {
		r.Warnings = append(r.Warnings, why)
	}
	if r.Options.Anew {
		return
	}
	accounts := Accounts(r.Backends, r.Root)
	for _, b := range r.Backends {
		if l, ok := accounts.Known(b.Name, time.Now()); ok {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s's quota is used up until %s: %s; %s", b.Name,
				terminal.Moment(l.Until), l.Reason, l.Forget()))
		}
	}
}

// powerless warns that cost limits may not work, because the cost of an agent will not be known.
func (r *Run) powerless() {
	of := ""
	if r.Config.MaxCostUSD > 0 {
		of = "--max-cost " + journal.Dollars(r.Config.MaxCostUSD)
	}
	if r.Config.MaxCostPerTask > 0 && r.Tag != nil {
		of = strings.TrimPrefix(of+" and max_cost_per_task "+journal.Dollars(r.Config.MaxCostPerTask), " and ")
	}
	for _, with := range r.choices() {
		for _, b := range r.Backends {
			text := ""
			if ok, why := b.TellsCost(with.Model); !ok {
				text = of + " may have no effect: " + why
			} else if b.TellsAtEnd() {
				text = of + " cannot see attempts that are cut short: " + b.Name +
					" tells its cost at the end of a run"
			}
			if of != "" && b.Name == with.Backend && text != "" && !slices.Contains(r.Warnings, text) {
				r.Warnings = append(r.Warnings, text)
			}
		}
	}
}

// choices is all that attempts may be run with.
func (r *Run) choices() (out []config.Choice) {
	if r.Tag == nil {
		return r.Config.Choices(nil)
	}
	for _, id := range r.Tag.Runnable() {
		t, _ := r.Tag.Graph.Task(id)
		out = append(out, r.Config.Choices(t)...)
	}
	return out
}

// listWarnings is what is odd about a list of which something can run.
func (r *Run) listWarnings() (out []string) {
	job, path := r.Tag, store.Relative(r.Root, r.Tag.File.Path())
	for _, p := range job.Graph.Problems() {
		out = append(out, p.Message)
	}
	if left := job.LeftOut(); left != "" {
		out = append([]string{left}, out...)
	}
	for _, f := range job.File.Findings() {
		if !slices.Contains(out, f.Message) && f.Kind != "duplicate" && f.Kind != tasks.KindLeft {
			out = append(out, Placed(path, f))
		}
	}
	odd := slices.Concat(job.Conflicts, r.Front)
	if job.Import != nil {
		odd = append(odd, job.Import.Findings()...)
	}
	for _, f := range odd {
		if f.Kind != tasks.KindLeft {
			out = append(out, Placed(r.Config.Scud.PlanPath, f))
		}
	}
	if n := len(out) - 10; n > 0 {
		out = append(out[:10], fmt.Sprintf("and %d more: descartes tasks check%s", n,
			config.ListFlags(r.Name(), r.Config.Scud.TasksFile)))
	}
	if n := job.Unordered(); n > 1 && r.Config.Slots() > 1 {
		r.note("the plan states no dependencies: its %d tasks may run at the same time", n)
	}
	if added := job.Graph.Added(); len(added) > 0 {
		var list []string
		for _, d := range added {
			list = append(list, d.Task+" waits for "+d.On)
		}
		r.note("dependencies that only %s states: %s", r.Config.Scud.PlanPath, terminal.Few(list, 10))
	}
	for _, t := range job.Tasks() {
		if t.Verify != "" && t.Container() {
			out = append(out, fmt.Sprintf("task %s has parts, and its own check never runs: give it to a part", t.ID))
		}
	}
	var list []tasks.Task
	for _, id := range job.Runnable() {
		t, _ := job.Graph.Task(id)
		list = append(list, *t)
		m := firstWord.FindStringSubmatch(t.Verify)
		if m == nil || slices.Contains(shellWords, m[1]) {
			continue
		}
		if _, err := LookIn(r.Root)(m[1]); err != nil {
			out = append(out, fmt.Sprintf("task %s's own check begins with %q, which is no program here: %s", t.ID,
				m[1], oneline.Text(t.Verify)))
		}
	}
	tiers, types := r.Config.Unmapped(list)
	if len(tiers) > 0 {
		r.note("model tier %s of tasks: model_tiers does not set it, so the default model is used",
			terminal.Few(tiers, 10))
	}
	if len(types) > 0 {
		r.note("agent type %s of tasks: agent_types does not set it, so the default model is used",
			terminal.Few(types, 10))
	}
	return out
}

// firstWord is the name of a program at the start of a command, without a folder.
var firstWord = lazyregexp.New(`^([A-Za-z][\w-]*)(?:\s|$)`)

// shellWords are the words of a shell that no program is called by, with which a check may begin.
var shellWords = strings.Fields(
	"case cd command eval exec exit export for if read set shift source trap type umask unset until wait while")

// Placed is a finding with its place in a file, where it has one.
func Placed(path string, f tasks.Finding) string {
	if f.Line > 0 {
		path += fmt.Sprintf(":%d", f.Line)
	}
	return path + ": " + f.Message
}

// Host describes where a client would run, with the variables that the settings pass on to it.
func Host(cfg config.Config, b agent.Backend, root string) agent.Host {
	parted := Part(cfg, b, os.Environ())
	env := slices.Concat(parted.Base, parted.Agent)
	get := func(name string) string {
		for _, kv := range slices.Backward(env) { // the last one counts
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
	return agent.Host{Root: os.Geteuid() == 0, Env: get, Read: beginning, Dir: root}
}
