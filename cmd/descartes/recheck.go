package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/oscall"
	"descartes/internal/receipt"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/lab"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/verify"
	"descartes/view"
)

func newRecheckCmd() *cobra.Command {
	var k recheckFlags
	cmd := &cobra.Command{
		Use:   "recheck",
		Short: "Run the checks again on the commits of done tasks: do the receipts hold?",
		Long: `Run the checks again on the commits of done tasks, and say of each receipt whether it holds.
Each commit is checked out in a copy of the project; your files stay as they are.

  descartes recheck --tag x          every commit of the tag in HEAD's history
  descartes recheck --commit HEAD~2       one commit
  descartes recheck --branch main..HEAD   what a branch brings, after a rebase too

With --branch the checks and the allowed signers are those of --verify and --allowed-signers,
else of descartes.yaml where the branch began: nothing on the branch can change
them. A receipt that was edited, is about another commit, lacks a check, or is not signed by
an allowed signer does not hold, whatever the checks say. In CI, fetch the receipts first:

  git fetch origin refs/notes/descartes:refs/notes/descartes

Exit codes: 0 all hold, 3 one does not hold, 1 one is unclear, 2 there is nothing to
recheck, 5 git refused.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return k.recheck(cmd) },
	}
	more := []string{"verify", "sandbox", "config", "trust"}
	k.settings.register(cmd, func(one *config.Setting) bool { return one.Is("look") || slices.Contains(more, one.Flag) })
	f := cmd.Flags()
	f.Lookup("tag").Usage = "only the receipts of this tag"
	f.Lookup("verify").Usage = "command to run instead of the settings' checks"
	f.StringVar(&k.commit, "commit", "", "only this commit")
	f.StringVar(&k.branch, "branch", "", "the commits of a range A..B")
	f.StringVar(&k.signers, "allowed-signers", "", "file of allowed signers, in ssh's format: an unsigned receipt does not hold")
	f.BoolVar(&k.every, "every", false, "a commit without a receipt does not hold, either")
	f.BoolVar(&k.json, "json", false, "print it as JSON")
	return cmd
}

// recheckFlags are the flags of recheck.
type recheckFlags struct {
	tagFlags
	commit, branch, signers string
	every                   bool
}

// recheckJSON is what recheck --json prints.
type recheckJSON struct {
	Verdict  receipt.Verdict  `json:"verdict"`
	Settings string           `json:"settings"` // where the checks come from
	Signed   bool             `json:"signature_required"`
	Commits  []receipt.Looked `json:"commits"`
}

func (k *recheckFlags) recheck(cmd *cobra.Command) (err error) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if k.commit != "" && k.branch != "" {
		return badInput("", "choose one of --commit and --branch")
	}
	f := cmd.Flags()
	root, err := findRoot(k.Dir)
	if err != nil {
		return err
	}
	repo, err := openRepo(ctx, root, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	from, to, err := k.ends(ctx, repo)
	if err != nil {
		return err
	}
	out := recheckJSON{Settings: "your settings", Commits: []receipt.Looked{}}
	detectIn := root
	if from != "" {
		dir, derr := settingsAt(ctx, repo, root, from)
		if derr != nil {
			return derr
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if detectIn = dir; !f.Changed("config") {
			k.File, k.fileName = filepath.Join(dir, loop.SettingsFile), loop.SettingsFile+" at "+from[:12]
		}
		out.Settings = "the settings at " + from[:12]
	}
	if _, err := k.read(); err != nil {
		return err
	}
	if k.File != "" && !f.Changed("config") {
		k.Config.SettingsFile = "" // it is a copy of our own
	}
	if err := k.trusted(cmd, root); err != nil {
		return err
	}
	c := receipt.Recheck{Repo: repo, All: k.AllChecks}
	var found string
	if c.Checks, found = k.checksOf(detectIn); found != "" {
		out.Settings = strings.Replace(out.Settings, "settings", "files", 1) + ": " + found
	} else if f.Changed("verify") {
		out.Settings = "--verify"
	}
	if len(c.Checks) == 0 {
		return badInput(`--verify "make test"`, "there are no checks to run: none in %s, and none found from the project's files", out.Settings)
	}
	if c.Signers, err = k.allowed(ctx, root, repo, from); err != nil {
		return err
	}
	out.Signed = c.Signers != nil
	if c.Notes, err = readReceipts(ctx, root, repo); err != nil {
		return err
	}
	commits, err := k.commits(ctx, cmd, repo, c.Notes, from, to)
	if err != nil {
		return err
	}
	if c.Tag = k.Scud.Tag; k.branch != "" && !f.Changed("tag") {
		c.Tag = "" // that of the settings is the branch's own
	}
	work, err := k.bench(ctx, root, repo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	c.Run = k.runIn(work, root)
	w := cmd.OutOrStdout()
	if !k.json {
		fmt.Fprint(w, view.RecheckHead(c.Checks, out.Settings, out.Signed))
	}
	for _, hash := range commits {
		l, err := c.Commit(ctx, hash)
		if err != nil {
			return recheckError(ctx, err)
		}
		if out.Commits = append(out.Commits, l); !k.json {
			fmt.Fprint(w, view.RecheckText(l))
		}
	}
	return k.conclude(cmd, root, out)
}

// ends are the two commits of --branch A..B, "" without it: where the branch began, which A and B have in common, and its end.
func (k *recheckFlags) ends(ctx context.Context, repo *gitops.Repo) (from, to string, err error) {
	if k.branch == "" {
		return "", "", nil
	}
	a, b, ok := strings.Cut(k.branch, "..")
	if !ok || a == "" || strings.HasPrefix(b, ".") {
		return "", "", badInput("--branch main..HEAD", "--branch %q is not a range A..B", k.branch)
	}
	if from, err = repo.Resolve(ctx, a); err == nil {
		to, err = repo.Resolve(ctx, cmp.Or(b, "HEAD"))
	}
	if err != nil {
		return "", "", err
	}
	fork, err := repo.ForkOf(ctx, from, to)
	if err == nil && fork == "" {
		err = badInput("git fetch --unshallow, where the clone is shallow", "--branch %s: the two have no commit in common", k.branch)
	}
	return fork, to, err
}

// settingsAt makes a folder with the settings of a commit, and the files that tell how a project is verified.
func settingsAt(ctx context.Context, repo *gitops.Repo, root, commit string) (string, error) {
	dir, err := os.MkdirTemp("", "descartes-recheck-")
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(repo.Root(), root)
	for _, name := range append([]string{loop.SettingsFile}, verify.Detected()...) {
		var text []byte
		if err == nil {
			text, err = repo.FileAt(ctx, commit, path.Join(filepath.ToSlash(below), name), config.MaxFile)
		}
		if err == nil && (text != nil || name == loop.SettingsFile) {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("read the settings at %.12s: %w", commit, err), os.RemoveAll(dir))
	}
	return dir, nil
}

// checksOf returns the checks to run: those of a flag or of the settings, else what the project's files suggest; found says which. Checks for the end
// of a run only run with all_checks, on the last commit.
func (k *recheckFlags) checksOf(dir string) (list []verify.Check, found string) {
	for _, c := range k.ChecksOf(true) {
		if k.AllChecks || !c.At(verify.AtEnd) {
			list = append(list, c)
		}
	}
	if len(list) > 0 || k.Scud.VerificationCommand != "" {
		return list, ""
	}
	if command, why, ok := detect(dir); ok {
		return []verify.Check{{Run: command}}, why
	}
	return nil, ""
}

// allowed returns the signers that count: those of the flag, else of the file from the settings, as it was where the branch began.
func (k *recheckFlags) allowed(ctx context.Context, root string, repo *gitops.Repo, from string) (*receipt.Signers, error) {
	switch {
	case k.signers != "":
		return readSigners(k.dirPath(), k.signers)
	case k.Receipts.Signers == "":
		return nil, nil
	case from == "" || filepath.IsAbs(k.Receipts.Signers):
		return readSigners(root, k.Receipts.Signers)
	}
	below, err := filepath.Rel(repo.Root(), absolute(root, k.Receipts.Signers))
	if err != nil {
		return nil, err
	}
	text, err := repo.FileAt(ctx, from, filepath.ToSlash(below), config.MaxFile)
	if err == nil && text == nil {
		err = badInput("--allowed-signers names another", "receipts.signers: commit %.12s has no %s", from, k.Receipts.Signers)
	}
	if err != nil {
		return nil, err
	}
	return receipt.ReadSigners(text)
}

// commits are the commits to check, oldest first.
func (k *recheckFlags) commits(ctx context.Context, cmd *cobra.Command, repo *gitops.Repo, notes map[string][]byte, from, to string) ([]string, error) {
	switch {
	case k.branch != "":
		return repo.Since(ctx, from, to)
	case k.commit != "":
		hash, err := repo.Resolve(ctx, k.commit)
		return []string{hash}, err
	}
	_, c, err := k.source(cmd)
	if err != nil {
		return nil, err
	}
	k.Scud.Tag = c.Tag
	head, err := repo.Head(ctx)
	if err != nil {
		return nil, err
	}
	when, loops := map[string]time.Time{}, map[string]bool{}
	for on, text := range notes {
		for _, r := range receipt.Held(text) {
			if r.Tag == c.Tag && r.Finished.After(when[on]) && repo.LeadsTo(ctx, head.Hash, on) {
				when[on], loops[r.Loop] = r.Finished, true
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(when), func(a, b string) int { return when[a].Compare(when[b]) })
	if len(list) == 0 {
		return nil, nil
	}
	lost, err := lostReceipts(ctx, repo, list, loops, head.Hash)
	return append(lost, list...), err
}

// lostReceipts are commits without receipts of loops whose other commits have some: somebody removed them, or a kill came before they were written.
func lostReceipts(ctx context.Context, repo *gitops.Repo, known []string, loops map[string]bool, head string) (lost []string, err error) {
	candidates, err := repo.Since(ctx, known[0], head)
	if err != nil {
		return nil, err
	}
	for _, hash := range candidates {
		if slices.Contains(known, hash) || slices.Contains(lost, hash) || !repo.LeadsTo(ctx, head, hash) {
			continue
		}
		w, err := repo.ReadWave(ctx, hash)
		if err != nil {
			return nil, err
		}
		if loops[w.Loop] && len(w.Tasks) > 0 {
			lost = append(lost, hash)
		}
	}
	return lost, nil
}

// bench is a copy of the project to run checks in.
func (k *recheckFlags) bench(ctx context.Context, root string, repo *gitops.Repo) (*lab.Lab, error) {
	home := store.NewHome(root)
	if err := home.Make(atomicfile.OS()); err != nil {
		return nil, err
	}
	r, cfg := newPrepared(root, k.Config, loop.StartOptions{}), k.Config
	r.repo = repo
	if found, ok := r.resolve(&cfg); !ok {
		return nil, found
	}
	err := checkPool(root)
	if err != nil {
		return nil, err
	}
	if r.sandbox, err = findSandbox(ctx, root, root, cfg, r.backend); err != nil {
		return nil, err
	}
	k.Config = cfg
	files := home.Recheck()
	log := filepath.Join(files, "setup.log")
	start := func(s *workspace.Slot, dir string) (attempt.Verifier, func() error, error) {
		c, err := r.slot(job{cfg: &k.Config}, s, dir)
		if err != nil {
			return nil, nil, err
		}
		return c.Verifier(), c.Close, nil
	}
	pool := workspace.PoolOptions{Repo: repo, FS: atomicfile.OS(), Place: r.pool, Root: root, Dir: root, Shown: r.sandbox.Mounts(), Fresh: cfg.Pool.Fresh, MaxCopy: cfg.Pool.MaxCopy, Keep: cfg.Pool.Keep, Setup: cfg.Pool.Setup, Free: oscall.Free}
	return lab.New(lab.Options{Clone: true, Pool: pool, Files: files, Log: log, Shown: view.Relative(root, log), Redact: r.redact, Setup: time.Duration(cfg.Pool.SetupTimeout) * time.Second, Start: start,
		Warn: func(string) error { return nil }}), nil
}

// runIn runs a check on a tree with the timeouts of the settings; all output goes into one log.
func (k *recheckFlags) runIn(work *lab.Lab, root string) func(context.Context, gitops.Tree, verify.Check) (verify.Result, error) {
	clocks := attempt.Clocks{Timeout: time.Duration(k.VerifyTimeoutSecs) * time.Second, Idle: time.Duration(k.VerifyIdleSecs) * time.Second}
	log := filepath.Join(store.NewHome(root).Recheck(), "recheck.log")
	return func(ctx context.Context, tree gitops.Tree, c verify.Check) (verify.Result, error) {
		return work.Run(ctx, attempt.Experiment{Name: "recheck " + c.Title(), Tree: tree, Check: c, Log: log, Clocks: clocks})
	}
}

// recheckError says why a commit could not be checked.
func recheckError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return quiet(exitInterrupted)
	}
	if _, git := errors.AsType[*workspace.GitError](err); git {
		return &failure{code: exitGit, err: err}
	}
	return err
}

// conclude reports the overall result, and records what holds.
func (k *recheckFlags) conclude(cmd *cobra.Command, root string, out recheckJSON) (err error) {
	var claims int
	if out.Verdict, claims = receipt.Total(out.Commits); claims == 0 {
		return badInput("git fetch origin "+receipt.NotesRef+":"+receipt.NotesRef+" brings the receipts that were pushed", "there is nothing to recheck: no receipt is about %s", k.what())
	}
	bare := slices.ContainsFunc(out.Commits, func(l receipt.Looked) bool { return len(l.Claims) == 0 })
	if k.every && bare {
		out.Verdict = receipt.HoldsNot
	}
	if k.json {
		err = writeJSON(cmd.OutOrStdout(), out)
	} else {
		err = write(cmd.OutOrStdout(), view.RecheckEnd(out.Commits))
	}
	if err == nil {
		err = confirm(root, out.Commits)
	}
	switch {
	case err != nil:
		return err
	case out.Verdict == receipt.HoldsNot:
		return quiet(exitBlocked)
	case out.Verdict == receipt.CannotTell:
		return quiet(exitError)
	}
	return nil
}

func (k *recheckFlags) what() string {
	switch {
	case k.branch != "":
		return "the commits of " + k.branch
	case k.commit != "":
		return "commit " + k.commit
	}
	return fmt.Sprintf("a commit of tag %q in HEAD's history", k.Scud.Tag)
}

// confirm records the state of the tasks whose receipts hold.
func confirm(root string, list []receipt.Looked) error {
	jobs := map[string]*loop.Job{}
	var add []receipt.Confirmed
	for _, l := range list {
		for _, c := range l.Claims {
			if c.Verdict != receipt.Holds {
				continue
			}
			job, ok := jobs[c.Tag]
			if !ok {
				job, _ = loop.Load(root, loop.Config{Scud: loop.ScudConfig{Tag: c.Tag, PlanPath: c.Receipt.Inputs.PlanPath}})
				jobs[c.Tag] = job
			}
			if job != nil {
				add = append(add, receipt.Confirmed{Tag: c.Tag, Task: c.Task, Commit: c.Receipt.Commit.Hash, Inputs: job.Inputs(c.Task), At: time.Now().UTC()})
			}
		}
	}
	return receipt.Confirm(atomicfile.OS(), store.NewHome(root).Receipts(), add)
}
