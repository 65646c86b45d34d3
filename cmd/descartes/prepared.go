package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/notify"
	"descartes/internal/oneline"
	"descartes/internal/oscall"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/verify"
)

// canSign says why receipts cannot be signed as the settings ask.
func canSign(c config.Receipts, repo *gitops.Repo) problems {
	key := repo.SigningKey()
	switch {
	case c.Sign && !c.Write:
		return problems{{Message: "receipts.sign: no receipts are written (receipts.write: false)", Hint: "leave one of the two out"}}
	case !c.Write || !c.Sign:
	case key.ID == "":
		return problems{{Message: "receipts.sign: git has no signing key", Hint: "git config user.signingkey ~/.ssh/id_ed25519.pub && git config gpg.format ssh"}}
	case key.Format != "" && key.Format != "openpgp" && key.Format != "ssh":
		return problems{{Message: fmt.Sprintf("receipts.sign: gpg.format is %s", key.Format), Hint: "receipts are signed with ssh or openpgp: git config gpg.format ssh"}}
	}
	return nil
}

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
	remember func() error // what the settings file asks for; nil for a resumed loop, which has its own
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
	r.notices, err = notify.New(notify.Options{Targets: c.Notify, On: c.NotifyOn, Env: os.Environ(),
		Project: filepath.Base(r.root), Tag: tag, Redact: r.redact, Bell: bell, Warn: p.warn})
	if err != nil {
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

// watchSettings reports what the settings file asks for, if that changed since the project's last run.
func (r *prepared) watchSettings(ctx context.Context, f *config.File) {
	t, err := trustOf(r.root, r.redact)
	if err != nil { // nothing is kept without a home
		return
	}
	var notes []string
	notes, r.remember = t.Changed(f.Name, f.Asks(r.root), func() string { return r.changedBy(ctx, settingsPath(r.root, f.Config)) })
	r.notes = append(r.notes, notes...)
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
			hint := "free some, or start with --set min_free_disk=0"
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
		limits = append(limits, "max_cost_per_task "+journal.Dollars(c.MaxCostPerTask))
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

// beside says which live run keeps this one from starting.
func (r *prepared) beside(ctx context.Context, tag string) problems {
	if err := store.NewHome(r.root).Beside(ctx, r.repo, store.Holder{Tag: tag, Here: r.here}); err != nil {
		return problems{{Message: err.Error(), Hint: hintOf(err), Err: err}}
	}
	return nil
}

// notInSlots names what is not committed, and so in no slot.
func (r *prepared) notInSlots(missing []string) {
	if len(missing) > 0 {
		r.notes = append(r.notes, "not committed, so not in the copies of the project that agents work in: "+oneline.List(missing))
	}
}

// clean refuses a folder with uncommitted changes. In a task list, statuses may differ: runs write them.
func (r *prepared) clean(ctx context.Context, list *tasks.File) error {
	paths, err := r.repo.NotClean(ctx)
	if err != nil {
		return err
	}
	if list != nil {
		lists := []*tasks.File{list}
		if mirror, ok := list.Mirror(); ok {
			lists = append(lists, mirror)
		}
		for _, f := range lists {
			if rel, ok := below(r.repo.Root(), f.Target()); ok && slices.Contains(paths, rel) && r.onlyStatuses(ctx, f, rel) {
				paths = slices.DeleteFunc(paths, func(p string) bool { return p == rel })
			}
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return badInput("commit or stash it, or work in a git worktree", "the agent works in this folder itself, and not all of it is committed: %s", oneline.List(paths))
}

// onlyStatuses reports whether a list differs from the committed one in nothing but statuses.
func (r *prepared) onlyStatuses(ctx context.Context, f *tasks.File, rel string) bool {
	head, err := r.repo.Head(ctx)
	if err != nil {
		return false
	}
	b, err := r.repo.FileAt(ctx, head.Hash, rel, 64<<20)
	if err != nil {
		return false
	}
	was, err := f.Reread(b)
	if err != nil {
		return false
	}
	plain := func(list []tasks.Task) []tasks.Task {
		list = slices.Clone(list)
		for i := range list {
			list[i].Status, list[i].RawStatus, list[i].Line = "", "", 0
		}
		return list
	}
	return reflect.DeepEqual(plain(was.Tasks()), plain(f.Tasks()))
}

// detect finds the verify command of a project.
func detect(root string) (command, why string, ok bool) { return verify.Detect(root) }

// view is that of a run; nil where lines are printed.
func (r *prepared) view(cmd *cobra.Command, s *settings, p *printer, in *interrupts, j job) *runView {
	tty, ok := viewable(cmd, p, s.Plain || s.CI)
	if !ok {
		return nil
	}
	v := &runView{p: p}
	if j.said != nil && j.said.term != nil { // else it is read elsewhere, and goes on there
		v.said = j.said
	}
	home := store.NewHome(r.root)
	v.opt = viewed{r.root, func() (*store.Saved, error) { return home.Find(v.id) }}.options(tty, p)
	v.opt.Here, v.opt.Interrupt = true, in.press
	return v
}
