package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Repo is an open repository with its working tree. Safe for concurrent use, as git is.
type Repo struct {
	opt   Options
	l     layout
	set   settings
	own   []setting
	guard protection

	cli   *cli
	byGit string // why the git program makes the wave commit: hooks, signing; "" where it does not

	root    *os.Root
	objects *objects
	lender  layout // of a slot: the user's

	diffs *diffs
	loose atomic.Int64 // refs kept, see Keep

	mu sync.Mutex // of snapshots
}

// Open finds the repository that contains opt.Dir. One that git may not work in is a RefusedError.
func Open(ctx context.Context, opt Options) (*Repo, error) {
	program, version, err := FindGit(ctx, opt.Git, opt.Dir, opt.Env)
	if err != nil {
		return nil, err
	}
	l, err := locate(ctx, program, opt)
	if err != nil {
		return nil, err
	}
	git := newCLI(l, program, version, opt)
	return openAt(ctx, opt, git, (*Repo).clearAfterKill)
}

// Mirror opens, and if necessary makes, the repository in a folder of ours that holds others' commits and no files.
// The caller makes sure that nobody else does so at the same time.
func Mirror(ctx context.Context, opt Options) (*Repo, error) {
	program, version, err := FindGit(ctx, opt.Git, opt.Dir, opt.Env)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(opt.Dir, ".git", "HEAD")); err != nil {
		l := layout{root: opt.Dir, gitDir: filepath.Join(opt.Dir, ".git"), commonDir: filepath.Join(opt.Dir, ".git")}
		if _, err := newCLI(l, program, version, opt).run(ctx, gitCall{args: []string{"init", "-q"}}); err != nil {
			return nil, fmt.Errorf("make a repository in %s: %w", opt.Dir, err)
		}
	}
	return Open(ctx, opt)
}

// openAt opens a repository whose place is known. clear removes what a killed run left of its git commands.
func openAt(ctx context.Context, opt Options, git *cli, clear func(*Repo, context.Context) error) (*Repo, error) {
	l := git.l
	set, own, err := readSettings(ctx, git)
	if err != nil {
		return nil, err
	}
	r := newRepo(opt, git, set, own)
	if err := clear(r, ctx); err != nil {
		return nil, err
	}
	byGit, err := inspect(l, set, opt.Hooks)
	if err != nil {
		return nil, err
	}
	r.byGit = strings.Join(byGit, "; ")
	if r.root, err = os.OpenRoot(l.root); err != nil {
		return nil, err
	}
	return r, nil
}

// newRepo is a repository whose settings are known. Its working tree is not open yet.
func newRepo(opt Options, git *cli, set settings, own []setting) *Repo {
	if set["extensions.objectformat"] == "sha256" {
		git.zero = strings.Repeat("0", 64)
	}
	if git.unfiltered = set.withoutFilters(); set.startsPrograms() {
		git.box, git.storage, git.shown = opt.Box, set["lfs.storage"], set.names()
	}
	return &Repo{opt: opt, l: git.l, set: set, own: own, cli: git, guard: newProtection(opt.Protect),
		objects: &objects{git: git}, diffs: &diffs{}}
}

// Claim is for the holder of the working tree's lock: it ends the git commands, with their hooks, that a killed run
// left running here, and makes this Repo run its own under Options.Shim from now on. It may be called again.
func (r *Repo) Claim() error {
	return r.cli.claim()
}

// Close releases what Open took. Do not use the repository afterwards.
func (r *Repo) Close() error {
	if r.lender.root == "" { // a slot reads with its user's
		r.objects.close()
	}
	r.cli.close()
	return r.root.Close()
}

// Root is the top of the working tree, absolute and without symbolic links.
func (r *Repo) Root() string { return r.l.root }

// Dir is the git directory of this working tree.
func (r *Repo) Dir() string { return r.l.gitDir }

// Notes says where hooks run, and what the git program does instead of go-git, and why, in lines.
func (r *Repo) Notes() (notes []string) {
	if note := r.hooksNote(); note != "" {
		notes = append(notes, note)
	}
	if r.byGit != "" {
		notes = append(notes, r.byGit+": the git program makes the commits")
	}
	return notes
}

// ByGit says why the git program makes the commits: hooks, signing; "" where it does not.
func (r *Repo) ByGit() string { return r.byGit }

// Protects reports whether attempts may not change a path.
func (r *Repo) Protects(path string) bool { return r.guard.covers(path) }

// Head says where HEAD is.
func (r *Repo) Head(ctx context.Context) (Head, error) {
	branch, hash, err := r.head(ctx)
	if err != nil {
		return Head{}, err
	}
	return Head{Branch: branch, Hash: hash}, nil
}

// HeadTree is the tree of HEAD, the empty tree on an unborn branch.
func (r *Repo) HeadTree(ctx context.Context) (Tree, error) {
	_, hash, err := r.head(ctx)
	if err != nil {
		return "", err
	}
	return r.CommitTree(hash)
}

// CommitTree is the tree of a commit, the empty tree for "".
func (r *Repo) CommitTree(hash string) (Tree, error) {
	if hash == "" {
		return r.EmptyTree(), nil
	}
	return r.treeOf(hash)
}

func (r *Repo) treeOf(commit string) (Tree, error) {
	c, err := r.objects.commit(commit)
	return c.Tree, err
}

// EmptyTree is the tree without files.
func (r *Repo) EmptyTree() Tree {
	if len(r.cli.zero) == 64 {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

// layout says where a repository's parts lie. All paths are absolute and free of symbolic links in root.
type layout struct {
	root      string // the working tree
	gitDir    string // HEAD, index and in-progress state of this working tree
	commonDir string // objects, refs, config and hooks; the same as gitDir but in a linked working tree
}

// locate asks git for the repository that holds dir. GIT_DIR and its relatives are not honoured. What git refuses
// (a repository of somebody else, of a format that it does not know) is a RefusedError.
func locate(ctx context.Context, program string, opt Options) (layout, error) {
	git := &cli{program: program, env: gitEnv(opt.Env, opt.Dir), l: layout{root: opt.Dir}}
	// a folder of a clone may be laid out as a repository: its config would be obeyed
	b, err := git.run(ctx, gitCall{options: []string{"-c", "safe.bareRepository=explicit"},
		args: []string{"rev-parse", "--show-toplevel", "--git-dir", "--git-common-dir"}})
	var said *gitError
	if errors.As(err, &said) {
		return layout{}, layoutError(opt.Dir, said)
	}
	if err != nil {
		return layout{}, fmt.Errorf("find repository: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != 3 {
		return layout{}, &RefusedError{Reason: fmt.Sprintf("the path of the repository at %q holds a line break",
			opt.Dir)}
	}
	dir, err := filepath.Abs(opt.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return layout{}, fmt.Errorf("find repository: %w", err)
	}
	for i, p := range lines { // git before 2.31 cannot make them absolute
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if lines[i], err = filepath.EvalSymlinks(p); err != nil {
			return layout{}, fmt.Errorf("find repository: %w", err)
		}
	}
	l := layout{root: lines[0], gitDir: lines[1], commonDir: lines[2]}
	if l.gitDir == dir || strings.HasPrefix(dir, l.gitDir+"/") { // git before 2.38
		return layout{}, fmt.Errorf("%s: %w", opt.Dir, ErrBare)
	}
	if dir != l.root && !strings.HasPrefix(dir, l.root+"/") {
		return layout{}, &RefusedError{Reason: "core.worktree puts the working tree at " + l.root,
			Hint: "git config --unset core.worktree, or start there"}
	}
	return l, nil
}

// layoutError separates the errors that callers distinguish; the rest is in git's words.
func layoutError(dir string, e *gitError) error {
	why := fatal(e.said)
	switch {
	case strings.Contains(why, "not a git repository"), strings.Contains(why, "gitfile"):
		return fmt.Errorf("%s: %w", dir, ErrNotRepo)
	case strings.Contains(why, "must be run in a work tree"), strings.Contains(why, "safe.bareRepository"):
		return fmt.Errorf("%s: %w", dir, ErrBare)
	case strings.Contains(why, "dubious ownership"):
		return &RefusedError{Reason: dir + " belongs to another user, and git refuses to work there",
			Hint: "git config --global --add safe.directory " + dir}
	}
	return &RefusedError{Reason: "git refuses the repository at " + dir + ": " + why}
}

// protection is the list of paths that attempts may not change; directories end in a slash.
type protection []string

func newProtection(paths []string) protection {
	var p protection
	for _, s := range paths {
		dir := strings.HasSuffix(s, "/")
		s = strings.Trim(strings.TrimPrefix(s, "./"), "/")
		if s == "" || s == "." {
			continue
		}
		if dir {
			s += "/"
		}
		p = append(p, s)
	}
	return p
}

// covers says whether a path, or a directory that ends in a slash, is protected: what stands in the place of a
// protected file or directory is too.
func (p protection) covers(path string) bool {
	return slices.ContainsFunc(p, func(s string) bool {
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(s, "/"))
		return ok && (rest == "" || rest[0] == '/')
	})
}

// leads says whether something protected lies below a path: a link there would show another in its place.
func (p protection) leads(path string) bool {
	return slices.ContainsFunc(p, func(s string) bool { return strings.HasPrefix(s, path+"/") })
}
