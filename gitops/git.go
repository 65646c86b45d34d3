package gitops

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"descartes/internal/lazyregexp"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
)

// cli runs the git program. What it stages it stages in private copies of the index; the user's own changes only where
// his files follow.
type cli struct {
	l            layout
	program      string
	version      Version
	env          []string
	hooks        bool // run them at commits
	hooksOutside bool // all of them, as git has it, and at a push those that lie in the project
	guard        protection
	limit        time.Duration // of each run; 0 is none
	argv         []string      // of the shim, nil for none
	presence     *os.File      // nil until the working tree is ours
	cookie       string        // of the shim; "" until the working tree is ours
	shim         *proc.Shim    // nil until the first run of the program after that
	by           *cli          // runs the program for this one; nil for itself
	zero         string        // the name of no object
	mu           sync.Mutex    // of shim

	scratch string    // what the names of our files in the git directory begin with
	last    string    // the index of the last snapshot
	tree    Tree      // that it took; "" if none
	out     []LeftOut // what the last snapshot could not take
	whole   bool      // no repository lies in the working tree but those that an attempt made
	slot    bool      // the working tree is a slot's

	box        Box      // for commands that may start a filter or merge driver; nil: nothing starts one, or nothing holds it
	unfiltered []string // options by which git starts no filter
	storage    string   // the user's setting of where git-lfs keeps objects
	shown      []string // files that the configuration names

	patience time.Duration // with a command that may wait for a pipe
}

func newCLI(l layout, program string, version Version, opt Options) *cli {
	c := &cli{
		l: l, program: program, version: version, env: gitEnv(opt.Env, l.root), hooks: opt.Hooks != "skip",
		hooksOutside: opt.Hooks == "outside",
		guard:        newProtection(opt.Protect), limit: opt.HookTimeout, argv: opt.Shim,
		scratch:  filepath.Join(l.gitDir, ours+"0"),
		patience: 2 * time.Second, zero: strings.Repeat("0", 40),
	}
	return c
}

// ours begins the names of a run's files in the git directory: one that it holds a flock(2) on while it works there,
// and its scratch files. Who finds that one unlocked follows a killed run, which may have left git commands, and their
// lock files.
const ours, live = "descartes-run.", ".live"

// claim shows that this run works here, and runs the program under a shim from now on.
func (c *cli) claim() error {
	if c.presence != nil {
		return nil
	}
	f, err := os.CreateTemp(c.l.gitDir, ours+"*"+live)
	if err == nil {
		c.presence, c.scratch = f, strings.TrimSuffix(f.Name(), live)
		err = oscall.Flock(int(f.Fd()), oscall.LOCK_EX|oscall.LOCK_NB)
	}
	if err == nil { // until then it is nobody's
		_, err = f.WriteString("running\n")
	}
	if err != nil {
		return fmt.Errorf("mark the git directory as in use: %w", err)
	}
	if c.argv != nil {
		c.cookie = cookieOf(f.Name())
	}
	return nil
}

// cookieOf marks the git commands of the run that has a presence file.
func cookieOf(presence string) string { return "git-" + shortSum(presence) }

// keptVariables are the only GIT_* variables passed to the program: where configuration is, and who commits.
var keptVariables = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}

// gitEnv is what git is run with in a project. Libraries that lie in it are not for git, which runs outside the
// sandbox.
func gitEnv(env []string, project string) []string {
	out := make([]string, 0, len(env)+3)
	for _, kv := range proc.Anchored(env, project) {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "GIT_") && !slices.Contains(keptVariables, name) || name == "LC_ALL" {
			continue
		}
		out = append(out, kv)
	}
	return append(out, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
}

// outside is the PATH on which git finds its own helpers, a filter, ssh or gpg, as a variable: those in the project
// come last.
func outside(env []string, dir string) string {
	found := proc.Outside(env, dir)
	path := found[len(found)-1]
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path += string(os.PathListSeparator) + value
		}
	}
	return path
}

// gitCall is one run of the program.
type gitCall struct {
	options []string // of git itself, before the command
	args    []string
	index   string // "" for the repository's own
	env     []string
	stdin   []byte
	hooks   bool
	lfs     bool    // git-lfs may ask a server
	warned  *string // gets standard error, if not nil
}

// gitError is a run that ended with another status than 0.
type gitError struct {
	command string
	code    int
	said    string
}

func (e *gitError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("git %s: exit status %d", e.command, e.code)
	}
	return fmt.Sprintf("git %s: %s", e.command, e.said)
}

// Unreachable reports whether git could not reach a remote, for a reason that may pass: the network, or a server that
// is down.
func Unreachable(err error) bool {
	g, ok := errors.AsType[*gitError](err)
	return ok && mayPass.MatchString(g.said)
}

var mayPass = lazyregexp.New(
	`(?i)could not resolve host|couldn't connect|failed to connect|connection (refused|reset|timed out|closed)|operation (timed out|too slow)|network is unreachable|no route to host|` +
		`returned error: (429|5\d\d)|early eof|hung up unexpectedly|unexpected disconnect|empty reply from server|broken pipe|(ssl|tls)[ _](error|connect|connection|handshake)|kex_exchange_identification|temporary failure in name resolution`)

// literally is for commands that are given paths rather than patterns.
var literally = []string{"--literal-pathspecs"}

// run returns standard output.
func (c *cli) run(ctx context.Context, call gitCall) ([]byte, error) {
	argv := append([]string{c.program, "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false",
		"-c", "core.protectHFS=true", "-c", "core.ignoreStat=false"}, c.version.durable()...)
	env := slices.Clip(call.env)
	if call.index != "" {
		env = append(env, "GIT_INDEX_FILE="+call.index)
		argv = append(append(argv, "-c", "core.splitIndex=false"), seesAll...)
	}
	if !call.hooks { // those have the user's own PATH
		env = append(env, outside(c.env, c.l.root))
		argv = append(argv, "-c", "core.hooksPath="+os.DevNull)
	}
	if !call.lfs {
		argv = append(argv, localLFS...)
	}
	starts := effectOf(call.args).starts
	if c.box != nil && !starts && !call.hooks && !call.lfs { // to write an index git reads files that have just changed
		argv = append(argv, c.unfiltered...)
	}
	argv = append(append(argv, call.options...), call.args...)
	reply, boxed, err := proc.Reply{}, false, error(nil)
	if c.box != nil && starts {
		reply, boxed, err = c.inside(ctx, argv, env, call)
	}
	if !boxed && err == nil {
		reply, err = c.start(ctx, call.args[0], proc.Call{Argv: argv, Dir: c.l.root, Env: env, Stdin: call.stdin})
	}
	if err != nil {
		return nil, err
	}
	if call.warned != nil {
		*call.warned = string(reply.Stderr)
	}
	if reply.Code != 0 {
		said := strings.TrimSpace(string(reply.Stderr))
		if said == "" && c.full() != nil { // its words had no room
			said = syscall.ENOSPC.Error()
		}
		if call.hooks {
			said = strings.TrimSpace(said + "\n" + strings.TrimSpace(string(reply.Stdout)))
		}
		return reply.Stdout, &gitError{call.args[0], reply.Code, lastLines(said, 20)}
	}
	return reply.Stdout, nil
}

// localLFS keeps git-lfs to the objects that the repository has: which server it would ask is said by a file of the
// tree, which an agent may have written. A pointer to what nobody has stays one.
var localLFS = []string{"-c", "lfs.url=file://" + os.DevNull, "-c", "lfs.skipdownloaderrors=true"}

// seesAll are options for an index of ours: git looks at all that a file system says of a file, and finds edits that
// keep time and size; untracked files are looked for, not remembered; and a submodule is one, whatever settings leave
// out of a status.
var seesAll = []string{"-c", "core.checkStat=default", "-c", "core.trustctime=true", "-c", "core.untrackedCache=false",
	"-c", "diff.ignoreSubmodules=none"}

// full returns an error if the disk where git's output goes has no room.
func (c *cli) full() error {
	if free, err := oscall.Free(filepath.Dir(c.scratch)); err == nil && free < 1<<20 {
		return &os.PathError{Op: "write", Path: c.scratch, Err: syscall.ENOSPC}
	}
	return nil
}

// lookers are git commands that run no program of anybody's and change nothing, but for new objects: they may outlive
// us, for a while.
var lookers = []string{"check-ignore", "check-ref-format", "config", "diff-tree", "for-each-ref", "ls-files",
	"merge-base", "rev-list", "rev-parse", "symbolic-ref", "version", "write-tree"}

// outlive is a context that ends with its deadline, or a time after it was cancelled.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		wait := grace
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			wait = 0
		}
		select {
		case <-time.After(wait):
		case <-longer.Done():
		}
		cancel(context.Cause(ctx))
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}

// gitGrace is how long git has to remove its lock files before it is killed.
const gitGrace = 2 * time.Second

// start runs one command within the limit. If something ends it early the error is a StoppedError.
func (c *cli) start(ctx context.Context, command string, call proc.Call) (reply proc.Reply, err error) {
	if c.by != nil {
		call.Env = append(slices.Clip(c.env), call.Env...)
		return c.by.start(ctx, command, call)
	}
	began := time.Now()
	look := slices.Contains(lookers, command)
	if look {
		var cancel context.CancelFunc
		// it takes moments, and what a run asks for while it ends it has to know
		ctx, cancel = outlive(ctx, cmp.Or(5*c.patience, 10*time.Second))
		defer cancel()
	}
	if c.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.limit, ErrTooLong)
		defer cancel()
	}
	c.mu.Lock()
	if c.cookie != "" && c.shim == nil {
		c.shim, err = proc.Start(proc.ShimConfig{Argv: c.argv, Env: c.env, Cookie: c.cookie, Dir: c.l.gitDir})
	}
	shim := c.shim
	c.mu.Unlock()
	if err != nil {
		return reply, fmt.Errorf("run git: %w", err)
	}
	if shim == nil || look {
		call.Env = append(slices.Clip(c.env), call.Env...)
		reply, err = proc.Output(ctx, call)
	} else {
		reply, err = shim.Output(ctx, call, c.scratchIndex(), gitGrace)
	}
	if err != nil && ctx.Err() != nil {
		return reply, &StoppedError{Command: "git " + command, After: time.Since(began), Cause: context.Cause(ctx)}
	}
	return reply, err
}

// output runs one command within the limit, that ends with us by itself.
func (c *cli) output(ctx context.Context, command string, call proc.Call) (proc.Reply, error) {
	began := time.Now()
	if c.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.limit, ErrTooLong)
		defer cancel()
	}
	reply, err := proc.Output(ctx, call)
	if err != nil && ctx.Err() != nil {
		return reply, &StoppedError{Command: "git " + command, After: time.Since(began), Cause: context.Cause(ctx)}
	}
	return reply, err
}

// word is run for a command that prints one line, and feed for one that reads something.
func (c *cli) word(ctx context.Context, index string, args ...string) (string, error) {
	b, err := c.run(ctx, gitCall{args: args, index: index})
	return strings.TrimSpace(string(b)), err
}

func (c *cli) feed(ctx context.Context, stdin []byte, args ...string) (string, error) {
	b, err := c.run(ctx, gitCall{args: args, stdin: stdin})
	return strings.TrimSpace(string(b)), err
}

func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func exitCode(err error) int {
	var ge *gitError
	if errors.As(err, &ge) {
		return ge.code
	}
	return 0
}

func nulSplit(b []byte) []string {
	s := strings.TrimSuffix(string(b), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

func nulJoin(paths []string) []byte {
	var b bytes.Buffer
	for _, p := range paths {
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.Bytes()
}

// close ends the shim and removes the last snapshot's index, if it is ours.
func (c *cli) close() {
	if c.shim != nil {
		_ = c.shim.Close() // whatever it was at has ended
	}
	_ = os.Remove(c.last)
	if c.presence != nil {
		_ = os.Remove(c.presence.Name())
		_ = c.presence.Close()
	}
}

// Oldest is the oldest supported version of git. Slots need merge-tree --write-tree, which came with OldestMerging.
var (
	Oldest        = Version{2, 30}
	OldestMerging = Version{2, 38}
)

// Version is a version of the git program.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// durable are the options with which what git stores is on the disk before a ref names it.
func (v Version) durable() []string {
	if v.Before(Version{2, 36}) {
		return []string{"-c", "core.fsyncObjectFiles=true"}
	}
	return []string{"-c", "core.fsync=committed,reference", "-c", "core.fsyncMethod=batch"}
}

// Before reports whether v is older than w.
func (v Version) Before(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// VersionError reports a git program that is too old. It is a RefusedError.
type VersionError struct {
	Program       string
	Found, Needed Version
	For           string // what it is too old for, "" for everything
}

func (e *VersionError) Error() string {
	needed := " is needed"
	if e.For != "" {
		needed += " for " + e.For
	}
	return fmt.Sprintf("%s is git %s; git %s or newer%s", e.Program, e.Found, e.Needed, needed)
}

func (e *VersionError) Unwrap() error {
	return &RefusedError{Reason: e.Error(), Hint: fmt.Sprintf("install git %s or newer", e.Needed)}
}

// versions is what programs said of their version, by the state of their file.
var versions sync.Map

// FindGit looks for the git program in env as seen from dir ("" is "git"), and asks for its version. If it is missing
// or too old, the error is a RefusedError that says what was found and what is needed.
func FindGit(ctx context.Context, program, dir string, env []string) (path string, v Version, err error) {
	if program == "" {
		program = "git"
	}
	if path, err = proc.Look(program, dir, proc.Outside(env, dir)); err != nil {
		return "", Version{}, &RefusedError{Reason: fmt.Sprintf(
			"the git program is not on the PATH; git %s or newer is needed", Oldest),
			Hint: fmt.Sprintf("install git %s or newer", Oldest)}
	}
	file := path + changedAt(path).String()
	said, known := versions.Load(file)
	if !known {
		git := &cli{program: path, env: gitEnv(env, dir), l: layout{root: dir}}
		if said, err = git.word(ctx, "", "version"); err != nil {
			return "", Version{}, fmt.Errorf("ask git for its version: %w", err)
		}
		versions.Store(file, said)
	}
	if v, err = parseVersion(said.(string)); err != nil {
		return "", Version{}, err
	}
	if v.Before(Oldest) {
		return "", v, &VersionError{Program: path, Found: v, Needed: Oldest}
	}
	return path, v, nil
}

// Held returns the files that git has in its index at a path in dir or below it; none where dir is in no working tree.
func Held(ctx context.Context, dir string, env []string, path string) ([]string, error) {
	program, _, err := FindGit(ctx, "", dir, env)
	if err != nil {
		return nil, nil // who needs git says so
	}
	git := &cli{program: program, env: gitEnv(env, dir), l: layout{root: dir}}
	b, err := git.run(ctx, gitCall{options: literally, args: []string{"ls-files", "-z", "--", path}})
	if said := (*gitError)(nil); errors.As(err, &said) {
		return nil, nil
	}
	return nulSplit(b), err
}

// parseVersion reads "git version 2.39.5 (Apple Git-154)" and the like.
func parseVersion(said string) (Version, error) {
	var v Version
	if _, err := fmt.Sscanf(strings.TrimSpace(said), "git version %d.%d", &v.Major, &v.Minor); err != nil {
		return Version{}, fmt.Errorf("git reports its version as %q, which cannot be parsed", said)
	}
	return v, nil
}

// killedWithin is how long a child that a killed run had just forked may hold its presence file.
const killedWithin = 2 * time.Second

// clearAfterKill ends the git commands of killed runs and removes what they left: lock files are theirs if they are
// newer, and nobody else's git, nor another run, works here.
func (r *Repo) clearAfterKill(ctx context.Context) error {
	names, err := within(r.l.gitDir, ours+"*"+live)
	if err != nil || len(names) == 0 {
		return err
	}
	dead, others := r.deadRuns(ctx, names)
	defer func() {
		for _, f := range dead {
			_ = f.Close()
		}
	}()
	began, err := endGit(dead)
	if err != nil {
		return fmt.Errorf("end the git commands that an earlier run left: %w", err)
	}
	if others || len(dead) == 0 || r.othersAtWork() {
		return nil
	}
	err = r.removeLocks(began)
	for _, f := range dead {
		left, _ := within(r.l.gitDir, strings.TrimSuffix(filepath.Base(f.Name()), live)+".*")
		for _, p := range left {
			err = errors.Join(err, plainfile.RemoveAll(p))
		}
	}
	if err != nil {
		return fmt.Errorf("clear away what a killed run left: %w", err)
	}
	return nil
}

// deadRuns opens the presence files that no run holds any more, and locks them, for another process clears away too.
// While git's locks are in the way it waits a little for the others, which dying children may hold.
func (r *Repo) deadRuns(ctx context.Context, names []string) (dead []*os.File, others bool) {
	for until := time.Now().Add(killedWithin); ; time.Sleep(10 * time.Millisecond) {
		names = slices.DeleteFunc(names, func(name string) bool {
			f, err := os.OpenFile(name, os.O_RDWR|oscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
			if err != nil {
				return missing(err)
			}
			if fi, err := f.Stat(); err == nil && fi.Size() > 0 &&
				oscall.Flock(int(f.Fd()), oscall.LOCK_EX|oscall.LOCK_NB) == nil {
				dead = append(dead, f)
				return true
			}
			_ = f.Close()
			return false
		})
		if _, locked := r.Locked(ctx); len(names) == 0 || !locked || time.Now().After(until) {
			return dead, len(names) > 0
		}
	}
}

// endGit ends what dead runs started, and returns when the first of them began.
func endGit(dead []*os.File) (began time.Time, err error) {
	began = time.Now()
	for _, f := range dead {
		_, serr := proc.Sweep(cookieOf(f.Name()))
		if fi, err := f.Stat(); err == nil && fi.ModTime().Before(began) {
			began = fi.ModTime()
		}
		err = errors.Join(err, serr)
	}
	return began, err
}

// removeLocks removes git's lock files that were made since then.
func (r *Repo) removeLocks(since time.Time) error {
	locks := []string{filepath.Join(r.l.gitDir, "index.lock"), filepath.Join(r.l.gitDir, "HEAD.lock"),
		filepath.Join(r.l.commonDir, "config.lock"),
		filepath.Join(r.l.commonDir, "packed-refs.lock")}
	err := filepath.WalkDir(filepath.Join(r.l.commonDir, "refs"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".lock") {
			locks = append(locks, p)
		}
		return nil
	})
	for _, p := range locks {
		if fi, lerr := os.Lstat(p); lerr == nil && fi.Mode().IsRegular() && !fi.ModTime().Before(since) {
			err = errors.Join(err, os.Remove(p))
		}
	}
	return err
}

// Locked names a lock that would stop the next commit: of the index, of HEAD or of the checked-out branch.
func (r *Repo) Locked(ctx context.Context) (path string, ok bool) {
	files := []string{filepath.Join(r.l.gitDir, "index"), filepath.Join(r.l.gitDir, "HEAD")}
	if branch, _, err := r.head(ctx); err == nil && branch != "" {
		files = append(files, filepath.Join(r.l.commonDir, filepath.FromSlash(branch)))
	}
	for _, f := range files {
		if _, err := os.Lstat(f + ".lock"); err == nil {
			return f + ".lock", true
		}
	}
	return "", false
}

// readers are git commands that may run for long without a lock.
var readers = []string{"log", "show", "diff", "blame", "grep", "help", "reflog", "shortlog", "cat-file", "ls-files",
	"fsmonitor--daemon"}

// othersAtWork reports whether a git command runs in the working tree, or in the git directory, that may hold a lock.
func (r *Repo) othersAtWork() bool {
	for _, argv := range proc.Within(r.l.root, r.l.gitDir, r.l.commonDir, strings.TrimSuffix(r.l.commonDir, "/.git")) {
		name := filepath.Base(argv[0])
		if (name == "git" || strings.HasPrefix(name, "git-")) &&
			!slices.ContainsFunc(argv[1:], func(arg string) bool { return slices.Contains(readers, arg) }) {
			return true
		}
	}
	return false
}
