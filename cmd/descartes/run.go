package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/fleet/wire"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/lockfile"
	"descartes/internal/notify"
	"descartes/internal/oneline"
	"descartes/internal/oscall"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/sandbox"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/verify"
)

// prepared is a run of any kind, ready to start: everything is read and checked, nothing is touched.
type prepared struct {
	root     string
	repo     *gitops.Repo // nil where git is not needed
	pool     string       // folder with the slots
	here     bool         // the agent works in the project's own folder
	brought  []string     // files and folders that specs name
	backend  agent.Backend
	others   []agent.Backend // that tasks ask for, or that take over
	opt      loop.StartOptions
	why      string   // where the verify command comes from, "" if it was given
	notes    []string // what a person should know before it starts
	sandbox  supervise.Sandbox
	settings *config.Watch // nil for a resumed loop, which has its own
	secrets  []redact.Secret
	redact   *redact.Redactor // of the secrets
	notices  *notify.Notifier // calls people; nil: nobody is to be called
}

// inRepo are those paths of the project that are in the repository, from its top on.
func (r *prepared) inRepo(paths []string) (out []string) {
	for _, p := range paths {
		if p == "" || r.repo == nil {
			continue
		}
		if rel, ok := below(r.repo.Root(), absolute(r.root, p)); ok {
			out = append(out, rel)
		}
	}
	return out
}

// notify prepares the notices. The caller ends it when everything is reported.
func (r *prepared) notify(p *printer, c *loop.Config, tag string) (err error) {
	bell := func() {
		if p.text.term != nil {
			_, _ = p.text.term.Write([]byte{'\a'}) // a screen never fails
		}
	}
	env, submitted := os.Environ(), os.Getenv(wire.MarkVar) != ""
	if submitted {
		env = nil // the worker's
	}
	r.notices, err = notify.New(notify.Options{Targets: c.Notify, Others: submitted, On: c.NotifyOn, Env: env,
		Project: filepath.Base(r.root), Tag: tag, Redact: r.redact, Bell: bell, Warn: p.warn})
	switch {
	case err != nil && submitted:
		return badInput("give a URL without variables, such as ntfy:TOPIC; or let descartes-fleet follow ID && COMMAND notify you", "%w", err)
	case err != nil:
		return badInput("", "%w", err)
	}
	return nil
}

func newPrepared(root string, cfg loop.Config, opt loop.StartOptions) prepared {
	r := prepared{root: root, pool: poolOf(root), opt: opt, secrets: cfg.Secrets(os.Environ())}
	r.redact = redact.Of(r.secrets)
	return r
}

// resolve finds the agents that the settings name, and completes the settings with them. ok is false if not even the main one exists.
func (r *prepared) resolve(cfg *loop.Config) (found problems, ok bool) {
	note := func(err error) {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
	}
	var err error
	if r.backend, cfg.Backend, err = config.ResolveBackend(*cfg); err != nil {
		note(err)
		return found, false
	}
	cfg.Command, cfg.Args = config.SavedCommand(r.backend.Command)
	if r.others, err = config.OtherBackends(*cfg); err != nil {
		note(err)
	}
	return found, true
}

// agentProblems returns what keeps the main agent from running in dir, and warnings.
func (r *prepared) agentProblems(cfg loop.Config, dir string) (found problems, warnings []string) {
	if err := r.backend.Check(lookIn(dir), 0); err != nil {
		hint := "install it" + inBrackets(r.backend.Install()) + ", or name another with --command"
		found = append(found, loop.Problem{Message: err.Error(), Hint: hint, Err: &failure{code: exitAgent, err: err}})
	}
	more, warnings := lacking(cfg, r.backend, dir)
	return append(found, more...), warnings
}

// reviewProblems returns what keeps the reviewing agent from running.
func (r *prepared) reviewProblems(cfg loop.Config, look func(program string) (string, error)) (found problems) {
	for _, b := range r.others {
		if cfg.Reviews() == "" || b.Name != cfg.Review.Backend {
			continue
		}
		if err := b.Check(look, 0); err != nil {
			err = fmt.Errorf("review: %w", err)
			found = append(found, loop.Problem{Message: err.Error(), Hint: "install it" + inBrackets(b.Install()) + ", or name another with --review", Err: &failure{code: exitAgent, err: err}})
		}
	}
	return found
}

// lookIn finds programs for commands that run in dir; known skips the search.
func lookIn(dir string) func(program string) (string, error) {
	return func(program string) (string, error) { return proc.Look(program, dir, os.Environ()) }
}

func known(string) (string, error) { return "", nil }

// backends are all that a run may use, the main one first.
func (r *prepared) backends() []agent.Backend { return append([]agent.Backend{r.backend}, r.others...) }

// continues reports whether a backend's client can continue a session.
func (r *prepared) continues(backend string) bool {
	return slices.ContainsFunc(r.backends(), func(b agent.Backend) bool { return b.Name == backend && len(b.SessionArgs) > 0 })
}

func (r *prepared) close() error {
	if r.repo == nil {
		return nil
	}
	return r.repo.Close()
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
func (r *prepared) work(ctx context.Context, soft <-chan struct{}, j job) (e report.Run, err error) {
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
	if err := r.settings.Remember(); err != nil {
		return e, err
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
	return report.Run{Here: fromHere(r.root), Root: r.root, Outcome: out, ID: l.ID(), Path: l.StatePath(), State: l.State(), Costs: l.Costs(), Chains: l.Chains(), Loose: l.Uncommitted(), Interrupted: l.Interrupted()}, err
}

// fleetProgram carries orders between this program and the workers.
const fleetProgram = "descartes-fleet"

// newFleetCmd passes its arguments to the fleet's own program.
func newFleetCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "fleet",
		Short: "Make attempts on other machines (" + fleetProgram + ")",
		Long: `fleet runs ` + fleetProgram + `, a program of its own: descartes fleet worker is
` + fleetProgram + ` worker. With descartes run TAG --fleet the workers make the
attempts of a run.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			program, err := findFleet(".")
			if err != nil {
				return err
			}
			code, err := proc.Attend(append([]string{program}, args...), os.Environ())
			if err == nil && code != 0 {
				err = quiet(code)
			}
			return err
		},
	}
}

// findFleet finds the fleet's program.
func findFleet(dir string) (string, error) {
	program, err := proc.LookBeside(fleetProgram, dir, os.Environ())
	if err != nil {
		return "", &failure{code: exitInput, err: err, hint: "go install ./cmd/" + fleetProgram + " in a checkout of descartes, or put it beside descartes"}
	}
	return program, nil
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
		Hello: wire.Hello{Tag: cfg.Scud.Tag, Loop: wire.NameLoop(l.ID(), cmp.Or(os.Getenv(wire.MarkVar), r.root+"\n"+l.State().StartedAt.UTC().Format(time.RFC3339Nano))), Host: host}})
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
func (r *prepared) conduct(cmd *cobra.Command, s *settings, p *printer, j job) (e report.Run, took time.Duration, err error) {
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
func (r *prepared) updates(ctx context.Context, e report.Run) (lines []string) {
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
	p.say("branch: %s is ahead of HEAD, and goes on from %s", terminal.Clean(name), report.Short(ahead))
	return nil
}

// doneAt are the tasks that the list of a commit has as done, and that of a job has not.
func (r *prepared) doneAt(ctx context.Context, j *loop.Job, commit, list string) (done []string) {
	b, err := r.repo.FileAt(ctx, commit, list, 64<<20)
	if err != nil {
		return nil
	}
	there, err := tasks.Parse(j.File.Path(), j.File.Tag(), b)
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

// slots says in one line where agents work, and that the user may go on working.
func (p *printer) slots(ctx context.Context, n int, r *prepared, fleet bool) {
	if head, err := r.repo.Head(ctx); err == nil && head.Branch == "" && r.opt.Branch == "" { // that it cannot be read is said elsewhere
		p.warn("HEAD is on no branch, and neither will be the commits of this run: --branch NAME puts them on a new one")
	}
	if fleet {
		p.say("slots: %s at a time, made by the workers of a fleet: go on working here", terminal.Count(n, "attempt"))
		return
	}
	if r.here {
		p.say("slots: one agent, in this folder itself: it belongs to the run until it ends; to keep working: git worktree add --detach %s",
			terminal.Quote("../"+terminal.Clean(filepath.Base(r.root))+"-work"))
		return
	}
	where := ""
	if !r.sandbox.Mounts() {
		where = " below " + terminal.Clean(r.pool)
	}
	p.say("slots: %s at a time, each in a copy of the project%s: go on working here", terminal.Count(n, "agent"), where)
	var servers []string
	for _, l := range proc.Listening(r.repo.Root()) {
		if !strings.HasPrefix(l.Name, "descartes") {
			servers = append(servers, fmt.Sprintf("%s (process %d, port %d)", l.Name, l.PID, l.Port))
		}
	}
	if len(servers) > 0 {
		p.say("note: programs of yours listen in this folder, and a check that asks one sees your files and not the agent's: %s; have the check start its own", terminal.Clean(oneline.List(servers)))
	}
}

// verify says what decides about the work, its timeouts, and which policies apply. found is where a detected command comes from.
func (p *printer) verify(c loop.Config, tag bool, found string) {
	checks := c.ChecksOf(tag)
	switch {
	case len(checks) == 0:
		p.say("verify: none, the agent's word is taken")
	case checks[0].Name != "":
		p.say("verify: %s", terminal.Count(len(checks), "check"))
		for _, one := range checks {
			when := ""
			if !one.At(verify.AtAttempt) {
				when = " (at " + string(one.When) + ")"
			}
			p.say("  %s: %s%s", one.Name, terminal.Clean(one.Run), when)
		}
	case found != "":
		p.say("verify: %s (found: %s)", terminal.Clean(checks[0].Run), terminal.Clean(found))
	default:
		p.say("verify: %s", terminal.Clean(checks[0].Run))
	}
	var ends []string
	if n := c.VerifyTimeoutSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second))
	}
	if n := c.VerifyIdleSecs; n > 0 {
		ends = append(ends, "after "+terminal.Duration(time.Duration(n)*time.Second)+" without output")
	}
	if len(ends) > 0 && len(checks) > 0 {
		p.say("verify times out %s", strings.Join(ends, ", or "))
	}
	p.policy(c, tag)
}

// policy says what else is required of the work.
func (p *printer) policy(c loop.Config, tag bool) {
	if text := report.Policy(c, tag); text != "" {
		p.say("in force: %s", text)
	}
}

// agent names the agent, and its model if one is requested.
func (p *printer) agent(r *prepared, c loop.Config) {
	model := ""
	if c.Backend.Model != "" {
		model = ", model " + terminal.Clean(c.Backend.Model)
	}
	p.say("agent: %s (%s%s)", terminal.Clean(strings.Join(r.backend.Command, " ")), r.backend.Name, model)
}

// surroundings describes what commands run in, and what a person should know first.
func (p *printer) surroundings(r *prepared, c loop.Config, more ...string) {
	p.say("sandbox: %s", terminal.Clean(report.Sandbox(c)))
	p.say("environment: %s", terminal.Clean(supervise.EnvironmentText(c, r.backend, os.Environ())))
	for _, n := range append(r.notes, more...) {
		p.say("note: %s", terminal.Clean(n))
	}
}

// occupied is how much of the disk the project's slots have, "" for less than a gigabyte.
func (r *prepared) occupied() string {
	if n := workspace.Occupied(r.pool); n > 1<<30 {
		return process.Size(n)
	}
	return ""
}

// tellBaseline says why a run was refused whose verify command fails before any task.
func tellBaseline(w *redact.Writer, b *loop.Baseline) {
	fmt.Fprintf(w, "error: %s\n", terminal.Clean(b.Reason()))
	for _, line := range b.Output() {
		fmt.Fprintf(w, "  %s\n", terminal.Clean(line))
	}
	if len(b.Dangling) > 0 {
		fmt.Fprintf(w, "links that lead somewhere in your tree and nowhere in slot %d: %s\n", b.Slot, terminal.Clean(oneline.List(b.Dangling)))
	}
	if b.Slot > 0 {
		fmt.Fprintf(w, "it ran in slot %d, a copy of the project: if it passes in your own tree, the copy lacks something\n", b.Slot)
	}
	fmt.Fprintf(w, "no agent was started\nhint: %s\n", terminal.Clean(b.Hint()))
	_ = w.Flush()
}

// watchSettings reports the commands in the settings file that changed since the project's last run.
func (r *prepared) watchSettings(ctx context.Context, c loop.Config) {
	file := settingsPath(r.root, c)
	r.settings = &config.Watch{Root: r.root, File: file, Name: report.Relative(r.root, file), Seen: store.NewHome(r.root).Settings(), Redact: r.redact}
	r.notes = append(r.notes, r.settings.Changed(func() string { return r.changedBy(ctx, file) })...)
}

// changedBy names the commit that last changed a file.
func (r *prepared) changedBy(ctx context.Context, file string) string {
	if r.repo == nil {
		return ""
	}
	rel, ok := below(r.repo.Root(), file)
	if !ok {
		return ""
	}
	commit, author, err := r.repo.LastChange(ctx, rel)
	switch {
	case err != nil:
		return " (git does not say by whom: " + err.Error() + ")"
	case commit == "":
		return " (not committed)"
	}
	return " (commit " + commit + " by " + author + ")"
}

// safety finds the sandbox for commands in dir, and checks the room on the disk. It writes the results into the settings.
func safety(ctx context.Context, root, dir string, cfg *loop.Config, b agent.Backend) (box supervise.Sandbox, found problems) {
	box, err := findSandbox(ctx, root, dir, *cfg, b)
	if err != nil {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
	}
	cfg.SandboxInForce = box.Note
	if _, err := os.Lstat(filepath.Join(gitTop(dir), ".git")); err == nil {
		if err := checkPool(root); err != nil {
			found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
		}
	}
	if cfg.MinFreeDisk > 0 {
		if why := loop.Room(oscall.Free, cfg.MinFreeDisk, root, filepath.Join(root, ".descartes"), poolOf(root)); why != "" {
			hint := "free some, or start with --min-free-disk 0"
			found = append(found, loop.Problem{Message: why, Hint: hint, Err: &failure{code: exitError, err: errors.New(why)}})
		}
	}
	return box, found
}

// findSandbox finds the sandbox for commands in dir. No command may change the tag's list.
func findSandbox(ctx context.Context, root, dir string, cfg loop.Config, b agent.Backend) (supervise.Sandbox, error) {
	at := supervise.Place{Root: root, Dir: dir, Top: gitTop(dir)}
	if cfg.Scud.Tag != "" {
		if f, err := loop.OpenTasks(root, cfg.Scud); err == nil { // else there is none to keep yet
			at.Keep = append(at.Keep, f.Path())
		}
	}
	return supervise.FindSandbox(ctx, at, cfg, b)
}

// person is whoever sits at the terminal.
type person struct {
	p       *printer
	want    chan struct{} // asks for a line
	lines   chan string
	reading bool            // one was asked for, and has not come
	soft    <-chan struct{} // closed by Ctrl-C, which is no answer
}

// atTerminal returns the person at the terminal, or nil. The goroutine that reads ends with the program: a read of a terminal cannot be ended. It
// only reads when asked: everything else typed belongs to a view.
func atTerminal(cmd *cobra.Command, p *printer, ci bool) *person {
	if ci || p.lines != nil || !terminal.IsTerminal(cmd.OutOrStdout()) {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !terminal.IsTerminal(in) {
		return nil
	}
	h := &person{p: p, want: make(chan struct{}, 1), lines: make(chan string)}
	go func() {
		defer close(h.lines)
		s := bufio.NewScanner(in)
		for range h.want {
			if !s.Scan() {
				return
			}
			h.lines <- s.Text()
		}
	}()
	return h
}

// ask asks a question whose default is yes.
func (h *person) ask(ctx context.Context, question string) (yes, answered bool) {
	if yes, answered, asked := h.p.view.ask(ctx, question, h.soft); asked {
		return yes, answered
	}
	return h.question(ctx, question+" [Y/n]", true)
}

// question asks in lines; usual is the answer of an empty line.
func (h *person) question(ctx context.Context, question string, usual bool) (yes, answered bool) {
	for range 5 {
		fmt.Fprintf(h.p.text, "%s ", terminal.Clean(question))
		h.p.text.Flush()
		if !h.reading {
			h.reading = true
			h.want <- struct{}{}
		}
		var line string
		ok := false
		select {
		case line, ok = <-h.lines:
			h.reading = false
		case <-h.soft:
		case <-ctx.Done():
		}
		if !ok {
			h.p.say("")
			return false, false
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "":
			return usual, true
		case "y", "yes":
			return true, true
		case "n", "no":
			return false, true
		}
	}
	return false, false
}

// interrupts turns signals into the two ways to stop a run.
type interrupts struct {
	soft     chan struct{} // closed by the first Ctrl-C: finish the running attempt
	ch       chan os.Signal
	run      *journal.State // what this run has recorded
	underway atomic.Bool    // an attempt is running
}

// saw takes in an event.
func (i *interrupts) saw(e journal.Event) {
	if i.run == nil {
		i.run = journal.NewState()
	}
	i.run.Apply(&e)
	i.underway.Store(i.run.Underway())
}

// press is Ctrl-C as a key: a view's terminal sends no signal.
func (i *interrupts) press() {
	select {
	case i.ch <- syscall.SIGINT:
	default: // enough of them wait
	}
}

// watch catches signals until stop is called. The second Ctrl-C or SIGTERM ends the context. Losing the terminal ends nothing: output is lost, but
// the journal has it. A signal that our parent made us ignore stays ignored.
func (i *interrupts) watch(ctx context.Context, say func(string)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i.soft = make(chan struct{})
	ch := make(chan os.Signal, 4)
	i.ch = ch
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	if !signal.Ignored(syscall.SIGHUP) { // nor does it end what follows the run: the summary, and the exit code
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	// A reader that goes away must not end the run: writes fail, and that is all.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		asked, hungUp := false, false
		for {
			select {
			case <-quit:
				return
			case s := <-ch:
				switch {
				case s == syscall.SIGHUP && !hungUp:
					hungUp = true
					say("the terminal is gone: the run continues without it; descartes loop attach follows it")
				case s == syscall.SIGHUP:
				case s == syscall.SIGINT && !asked:
					asked = true
					underway := i.underway.Load() // it ends once soft is closed
					close(i.soft)
					if underway {
						say("interrupted: the running attempt is finished first; Ctrl-C again interrupts it")
					} else {
						say("interrupted: no attempt is running, the state is saved")
					}
				case s == syscall.SIGTERM:
					say("stopping: the agent is interrupted, the state is saved")
					cancel(loop.ErrTerminated)
				default:
					say("stopping: the agent is interrupted, the state is saved")
					cancel(nil)
				}
			}
		}
	}()
	return ctx, func() {
		if !signal.Ignored(syscall.SIGHUP) { // the exit code and what is left to do after the run survive the terminal, too
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
		signal.Stop(ch)
		signal.Stop(broken)
		close(quit)
		<-done
		cancel(nil)
	}
}

// cutShort is the error of a run that was stopped, for cause, before it began.
func cutShort(cause, err error) error {
	switch {
	case cause == nil || err == nil:
		return err
	case errors.Is(cause, loop.ErrTerminated):
		return &failure{code: exitTerminated, err: fmt.Errorf("terminated while starting, nothing was started: %w", err)}
	}
	return &failure{code: exitInterrupted, err: fmt.Errorf("interrupted while starting, nothing was started: %w", err)}
}

// missingFallbacks names the backends that cannot take over.
func missingFallbacks(others []agent.Backend, cfg loop.Config, root string, look func(string) (string, error)) (notes []string) {
	for _, b := range others {
		if !slices.Contains(cfg.Fallback, b.Name) {
			continue
		}
		if err := b.Check(look, 0); err != nil {
			notes = append(notes, fmt.Sprintf("the fallback cannot take over before it is installed: %v", err))
			continue
		}
		for _, l := range b.Preflight(placeOf(cfg, b, root, "")) {
			notes = append(notes, fmt.Sprintf("the fallback may not be able to take over: %s: %s: %s", b.Name, l.What, l.Fix))
		}
	}
	return notes
}

// powerless warns that cost limits may not work, because the cost of an agent will not be known. chosen is all that attempts may run with.
func powerless(c loop.Config, backends []agent.Backend, chosen []loop.Choice) (told []string) {
	var limits, reasons, late []string
	if c.MaxCostUSD > 0 {
		limits = append(limits, "--max-cost "+journal.Dollars(c.MaxCostUSD))
	}
	if c.MaxCostPerTask > 0 {
		limits = append(limits, "--max-cost-per-task "+journal.Dollars(c.MaxCostPerTask))
	}
	if len(limits) == 0 {
		return nil
	}
	for _, with := range chosen {
		at := slices.IndexFunc(backends, func(b agent.Backend) bool { return b.Name == with.Backend })
		if at < 0 {
			continue
		}
		ok, why := backends[at].TellsCost(with.Model)
		if !ok && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		if ok && backends[at].TellsAtEnd() && !slices.Contains(late, with.Backend) {
			late = append(late, with.Backend)
		}
	}
	of := strings.Join(limits, " and ")
	if len(reasons) > 0 {
		told = append(told, of+" may have no effect: "+strings.Join(reasons, "; "))
	}
	if len(late) > 0 {
		told = append(told, of+" cannot see attempts that are cut short: "+strings.Join(late, " and ")+" tells its cost at the end of a run")
	}
	return told
}
