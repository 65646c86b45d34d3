package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/attempt"
	"descartes/loop/lab"
	"descartes/loop/receipt"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/verify"
	"descartes/verify/judge"
	"descartes/view/print"
)

func newRecheckCmd() *cobra.Command {
	var k recheck
	cmd := &cobra.Command{
		Use:   "recheck",
		Short: "Run the checks again on the commits of done tasks: do the receipts hold?",
		Long: `Run the checks again on the commits of done tasks, and say of each receipt whether it holds.
Each commit is checked out in a copy of the project; your files stay as they are.

  descartes recheck --tag x               the tag's commits in HEAD's history
  descartes recheck --branch main..HEAD   what a branch brings, also rebased

A task's own check, which its list or plan names, runs too. With --branch the checks and
the allowed signers are those of --verify and --allowed-signers, else of descartes.yaml and
the list where the branch began: nothing on the branch can change them. With
--checks-of main the tests are those of main, too. A receipt that was edited, is about
another commit, lacks a check, or is not signed by an allowed signer does not hold,
whatever the checks say. In CI, fetch the receipts first:

  git fetch origin refs/notes/descartes:refs/notes/descartes

Exit codes: 0 all hold, 3 one does not hold, 1 one is unclear, 2 there is nothing to
recheck, 5 git refused.`,
		Args: takes(0, 0, ""),
		RunE: k.does(func([]string) error { return k.run() }),
	}
	more := []string{"verify", "sandbox", "config", "trust"}
	k.settings.register(cmd, func(one *config.Setting) bool {
		return one.Is("look") || slices.Contains(more, one.Flag)
	})
	f := cmd.Flags()
	f.Lookup("tag").Usage = "only the receipts of this tag"
	f.Lookup("verify").Usage = "command to run instead of the settings' checks"
	f.StringVar(&k.commit, "commit", "", "only this commit")
	f.StringVar(&k.branch, "branch", "", "the commits of a range A..B")
	f.StringVar(&k.checksOf, "checks-of", "", "judge with the tests as they are at this commit")
	f.StringVar(&k.signers, "allowed-signers", "",
		"file of allowed signers, in ssh's format: an unsigned receipt does not hold")
	f.BoolVar(&k.every, "every", false, "a commit without a receipt does not hold, either")
	f.BoolVar(&k.json, "json", false, "print it as JSON")
	oneOf(cmd, "commit", "branch")
	return cmd
}

// recheck is one call of the command.
type recheck struct {
	app
	commit, branch, signers string
	checksOf                string
	judges                  gitops.Tree // of checksOf
	every                   bool
	from, to                string                 // of the branch: where it began, and its end
	jobs                    map[string]*source.Job // by tag, nil where there is no list
}

// recheckJSON is what recheck --json prints.
type recheckJSON struct {
	Verdict  receipt.Verdict  `json:"verdict"`
	Settings string           `json:"settings"` // where the checks come from
	Signed   bool             `json:"signature_required"`
	Commits  []receipt.Looked `json:"commits"`
}

func (k *recheck) run() (err error) {
	ctx, stop := signal.NotifyContext(k.ctx(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	repo, err := k.repo()
	if err == nil {
		err = k.ends(ctx)
	}
	if err == nil && k.checksOf != "" {
		var hash string
		if hash, err = repo.Resolve(ctx, k.checksOf); err == nil {
			k.judges, err = repo.CommitTree(hash)
		}
	}
	if err != nil {
		return err
	}
	k.jobs = map[string]*source.Job{}
	c := receipt.Recheck{Repo: repo}
	out := recheckJSON{Commits: []receipt.Looked{}}
	if c.Checks, out.Settings, err = k.checks(ctx); err != nil {
		return err
	}
	if c.All = k.AllChecks; len(c.Checks) == 0 {
		return badInput(`--verify "make test"`,
			"there are no checks to run: none in %s, and none found from the project's files", out.Settings)
	}
	if c.Signers, err = k.allowed(ctx); err != nil {
		return err
	}
	out.Signed = c.Signers != nil
	if c.Notes, err = readReceipts(ctx, k.root, repo); err != nil {
		return err
	}
	commits, what, err := k.commits(ctx, c.Notes)
	if err != nil {
		return err
	}
	if c.Tag = k.Scud.Tag; k.branch != "" && k.IsTyped("tag") == "" {
		c.Tag = "" // that of the settings is the branch's own
	}
	work, run, err := k.bench(ctx, &k.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	c.Run = func(ctx context.Context, tree gitops.Tree, one verify.Check) (verify.Result, error) {
		if k.checksOf != "" {
			if tree, _, err = judge.Old(ctx, repo, k.judges, tree, c.Checks); err != nil {
				return verify.Result{}, err
			}
		}
		return run(ctx, tree, one, verify.How{})
	}
	c.Own = func(r *receipt.Receipt) ([]verify.Check, error) { return k.own(ctx, r) }
	say := func(text string) {
		if !k.json {
			fmt.Fprint(k.out(), text)
		}
	}
	say(print.RecheckHead(c.Checks, out.Settings, out.Signed))
	if k.checksOf != "" {
		say("tests: as they are at " + terminal.Clean(k.checksOf) + "\n")
	}
	for _, hash := range commits {
		l, err := c.Commit(ctx, hash)
		if err != nil {
			return recheckError(ctx, err)
		}
		out.Commits = append(out.Commits, l)
		say(print.RecheckText(l))
	}
	claims := 0
	if out.Verdict, claims = receipt.Total(out.Commits); claims == 0 {
		return badInput("git fetch origin "+receipt.NotesRef+":"+receipt.NotesRef+
			" brings the receipts that were pushed", "there is nothing to recheck: no receipt is about %s", what)
	}
	if k.every && slices.ContainsFunc(out.Commits, func(l receipt.Looked) bool { return len(l.Claims) == 0 }) {
		out.Verdict = receipt.HoldsNot
	}
	if err := errors.Join(k.show(out, print.RecheckEnd(out.Commits)), k.confirm(out.Commits)); err != nil {
		return err
	}
	switch out.Verdict {
	case receipt.HoldsNot:
		return quiet(exitBlocked)
	case receipt.CannotTell:
		return quiet(exitError)
	}
	return nil
}

// ends finds the two commits of --branch A..B: where the branch began, which A and B have in common, and its end.
func (k *recheck) ends(ctx context.Context) (err error) {
	if k.branch == "" {
		return nil
	}
	a, b, ok := strings.Cut(k.branch, "..")
	if !ok || a == "" || strings.HasPrefix(b, ".") {
		return badInput("--branch main..HEAD", "--branch %q is not a range A..B", k.branch)
	}
	if k.from, err = k.git.Resolve(ctx, a); err == nil {
		k.to, err = k.git.Resolve(ctx, cmp.Or(b, "HEAD"))
	}
	if err == nil {
		k.from, err = k.git.ForkOf(ctx, k.from, k.to)
	}
	if err == nil && k.from == "" {
		err = badInput("git fetch --unshallow, where the clone is shallow",
			"--branch %s: the two have no commit in common", k.branch)
	}
	return err
}

// checks are those to run, and where they come from: --verify, the settings, where the branch began if there is one,
// the tag's last run, or what the project's files suggest. Checks for the end of a run only run with all_checks, on
// the last commit.
func (k *recheck) checks(ctx context.Context) (list []verify.Check, from string, err error) {
	dir, from := k.root, "your settings"
	if k.from != "" {
		if dir, err = os.MkdirTemp("", "descartes-recheck-"); err != nil {
			return nil, "", err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		for _, name := range append([]string{config.SettingsFile}, verify.Detected()...) {
			text, err := k.fileAt(ctx, k.from, name)
			if err == nil && (text != nil || name == config.SettingsFile) {
				err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
			}
			if err != nil {
				return nil, "", fmt.Errorf("read the settings at %.12s: %w", k.from, err)
			}
		}
		if from = "the settings at " + k.from[:12]; k.IsTyped("config") == "" {
			k.File, k.fileName = filepath.Join(dir, config.SettingsFile), config.SettingsFile+" at "+k.from[:12]
			defer func() { k.Config.SettingsFile = "" }() // it is a copy of our own
		}
	}
	if _, err := k.read(); err != nil {
		return nil, "", err
	}
	if err := k.trusted(k.cmd, k.root); err != nil {
		return nil, "", err
	}
	if k.from == "" {
		list := k.Scud
		if _, only, err := k.list(io.Discard); list.Tag == "" && err == nil {
			list = only
		}
		if last, err := k.home.LastOf(source.Key(k.root, list)); err == nil && last != nil {
			k.Adopt(last.State.Config, "verify", "scud.verification_command")
		}
	}
	for _, c := range k.ChecksOf(true) {
		if k.AllChecks || !c.At(verify.AtEnd) {
			list = append(list, c)
		}
	}
	if k.IsTyped("verify") != "" {
		from = "--verify"
	}
	if len(list) == 0 && k.Scud.VerificationCommand == "" {
		if command, why, ok := verify.Detect(dir); ok {
			list, from = []verify.Check{{Run: command}}, strings.Replace(from, "settings", "files", 1)+": "+why
		}
	}
	return list, from, nil
}

// own are the checks that the list has for a task, as it was where the branch began if git has it. What it brings
// needs trust.
func (k *recheck) own(ctx context.Context, r *receipt.Receipt) ([]verify.Check, error) {
	job := k.job(r)
	if job == nil {
		return nil, nil
	}
	list := job.File
	if k.from != "" {
		then, err := k.fileAt(ctx, k.from, list.Path())
		now, nerr := k.fileAt(ctx, k.to, list.Path())
		if err = errors.Join(err, nerr); err != nil || then == nil && now != nil {
			return nil, err
		}
		if then != nil {
			if list, err = list.Reread(then); err != nil {
				return nil, fmt.Errorf("at %.12s: %w", k.from, err)
			}
		}
	}
	t, ok := list.Task(r.Task)
	if !ok || t.Verify == "" {
		return nil, nil
	}
	return source.OwnChecks(t), k.trusted(k.cmd, k.root, config.TaskChecks(store.Relative(k.root, list.Path()),
		[]tasks.Task{*t})...)
}

// job is the list that a receipt is about, as it is now, nil where there is none.
func (k *recheck) job(r *receipt.Receipt) *source.Job {
	job, ok := k.jobs[r.Tag]
	if !ok {
		scud := config.ScudConfig{Tag: r.Tag, PlanPath: r.Inputs.PlanPath}
		if r.Tag == k.Scud.Tag {
			scud.TasksFile = k.Scud.TasksFile
		}
		job, _ = source.LoadOrImport(k.root, config.Config{Scud: scud})
		k.jobs[r.Tag] = job
	}
	return job
}

// fileAt is a file of the project at a commit, nil where there was none.
func (k *recheck) fileAt(ctx context.Context, commit, name string) ([]byte, error) {
	below, err := filepath.Rel(k.git.Root(), launch.Absolute(k.root, name))
	if err != nil {
		return nil, err
	}
	return k.git.FileAt(ctx, commit, path.Clean(filepath.ToSlash(below)), 64<<20)
}

// allowed returns the signers that count: those of the flag, else of the file from the settings, as it was where the
// branch began.
func (k *recheck) allowed(ctx context.Context) (*receipt.Signers, error) {
	switch name := k.Receipts.Signers; {
	case k.signers != "":
		return readSigners(k.dirPath(), k.signers)
	case name == "":
		return nil, nil
	case k.from == "" || filepath.IsAbs(name):
		return readSigners(k.root, name)
	}
	text, err := k.fileAt(ctx, k.from, k.Receipts.Signers)
	if err == nil && text == nil {
		err = badInput("--allowed-signers names another", "receipts.signers: commit %.12s has no %s", k.from,
			k.Receipts.Signers)
	}
	if err != nil {
		return nil, err
	}
	return receipt.ReadSigners(text)
}

// commits are the commits to check, oldest first, and what they are: without a flag those in HEAD's history that have
// receipts of the tag, and what else their loops have committed since: somebody may have removed its receipts.
func (k *recheck) commits(ctx context.Context, notes map[string][]byte) (list []string, what string, err error) {
	switch {
	case k.branch != "":
		news, err := k.git.News(ctx, k.from, k.to, "", "")
		for _, c := range news {
			if len(c.Parents) < 2 {
				list = append(list, c.Hash)
			}
		}
		return list, "the commits of " + k.branch, err
	case k.commit != "":
		hash, err := k.git.Resolve(ctx, k.commit)
		return []string{hash}, "commit " + k.commit, err
	}
	c, err := k.source()
	if err != nil {
		return nil, "", err
	}
	k.Scud.Tag, what = c.Tag, fmt.Sprintf("a commit of tag %q in HEAD's history", c.Tag)
	head, err := k.git.Head(ctx)
	if err != nil {
		return nil, "", err
	}
	first, oldest, loops, noted := "", time.Time{}, map[string]bool{}, map[string]bool{}
	for on, text := range notes {
		for _, r := range receipt.Held(text) {
			if r.Tag == c.Tag && (noted[on] || k.git.LeadsTo(ctx, head.Hash, on)) {
				loops[r.Loop], noted[on] = true, true
				if first == "" || r.Finished.Before(oldest) {
					first, oldest = on, r.Finished
				}
			}
		}
	}
	if first == "" {
		return nil, what, nil
	}
	list = []string{first}
	since, err := k.git.News(ctx, first, head.Hash, "", "")
	for _, c := range since {
		if by := c.Wave(); len(c.Parents) < 2 && (noted[c.Hash] || by != "" && loops[by]) {
			list = append(list, c.Hash)
		}
	}
	return list, what, err
}

// bench is a copy of the project to run checks in with those settings, and what runs one there.
func (a *app) bench(ctx context.Context, c *config.Config) (*lab.Lab,
	func(ctx context.Context, tree gitops.Tree, one verify.Check, how verify.How) (verify.Result, error), error) {
	if err := a.home.Make(atomicfile.OS()); err != nil {
		return nil, nil, err
	}
	r, found := launch.Bench(ctx, a.root, launch.PoolOf(a.root), c, false)
	if r.Repo = a.git; len(found) > 0 {
		return nil, nil, problems(found)
	}
	files := a.home.Recheck()
	work := r.Lab(files, filepath.Join(files, "setup.log"), true)
	clocks := attempt.Clocks{Timeout: seconds(c.VerifyTimeoutSecs), Idle: seconds(c.VerifyIdleSecs)}
	return work, func(ctx context.Context, tree gitops.Tree, one verify.Check, how verify.How) (verify.Result, error) {
		res, _, err := work.Run(ctx, attempt.Experiment{Name: "recheck " + one.Title(), Tree: tree, Check: one, How: how,
			Log: filepath.Join(files, "recheck.log"), Clocks: clocks})
		return res, err
	}, nil
}

// recheckError says why a commit could not be checked.
func recheckError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return quiet(exitInterrupted)
	}
	if _, git := errors.AsType[*slot.GitError](err); git {
		return &failure{code: exitGit, err: err}
	}
	return err
}

// confirm records the state of the tasks whose receipts hold.
func (k *recheck) confirm(list []receipt.Looked) error {
	var add []receipt.Confirmed
	for _, l := range list {
		for _, c := range l.Claims {
			if c.Verdict != receipt.Holds {
				continue
			}
			if job := k.job(&c.Receipt); job != nil {
				add = append(add, receipt.Confirmed{Tag: c.Tag, Task: c.Task, Commit: c.Receipt.Commit.Hash,
					Inputs: job.Inputs(c.Task), At: time.Now().UTC()})
			}
		}
	}
	return receipt.Confirm(atomicfile.OS(), k.home.Receipts(), add)
}

// readSigners reads whose signatures count.
func readSigners(root, path string) (s *receipt.Signers, err error) {
	text, err := plainfile.Read("", launch.Absolute(root, path), config.MaxFile)
	if err == nil {
		s, err = receipt.ReadSigners(text)
	}
	if err != nil {
		return nil, badInput("ssh-keygen's manual has the format of ALLOWED SIGNERS; for gpg a line is: NAME openpgp FINGERPRINT", "allowed signers %s: %w", path, err)
	}
	return s, nil
}

// readReceipts reads the notes with receipts, or if one is gone its copy in .descartes/receipts.
func readReceipts(ctx context.Context, root string, repo *gitops.Repo) (map[string][]byte, error) {
	notes, err := receipt.Saved(store.NewHome(root).Receipts())
	if err != nil {
		return nil, err
	}
	noted, err := repo.ReadNotes(ctx, receipt.NotesRef)
	maps.Copy(notes, noted)
	return notes, err
}
