package gitops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"descartes/internal/proc"
)

// cli does with the git program what the native path cannot do as git does. It never touches the user's
// index but to record a commit: everything else happens in private copies of it.
type cli struct {
	l        layout
	program  string
	version  Version
	env      []string
	hooks    bool // run them at commits
	guard    protection
	limit    time.Duration // of each run; 0 is none
	argv     []string      // of the shim, nil for none
	presence *os.File      // nil until the working tree is ours
	cookie   string        // of the shim; "" until the working tree is ours
	shim     *proc.Shim    // nil until the first run of the program after that
	runs     int           // so far, for names

	cache   string    // the private index after the last snapshot
	based   fileInfo  // the index that cache was copied from
	tracked []string  // added by an agent although ignored
	out     []LeftOut // what the last snapshot could not take

	patience time.Duration // with a command that may wait for a pipe
}

func newCLI(l layout, program string, version Version, opt Options) *cli {
	c := &cli{
		l: l, program: program, version: version, env: gitEnv(opt.Env), hooks: opt.Hooks != "skip",
		guard: newProtection(opt.Protect), limit: opt.HookTimeout, argv: opt.Shim, cache: filepath.Join(l.gitDir, "descartes-snapshot"),
		patience: 2 * time.Second,
	}
	return c
}

// claim ends what a killed run left of the git program at work here, removes the files it worked with, and has
// the program run under a shim from now on.
func (c *cli) claim() error {
	if c.presence != nil {
		return nil
	}
	if err := c.show(); err != nil {
		return err
	}
	if c.argv != nil {
		c.cookie = c.cookieOf()
	}
	c.sweep()
	return nil
}

// endLeft ends what a killed run left of the git program.
func (c *cli) endLeft() error {
	if c.argv == nil {
		return nil
	}
	if _, err := proc.Sweep(c.cookieOf()); err != nil {
		return fmt.Errorf("end the git commands that an earlier run left: %w", err)
	}
	return nil
}

// cookieOf marks the git commands that are at work in this git directory for us.
func (c *cli) cookieOf() string {
	sum := sha256.Sum256([]byte(c.l.gitDir))
	return "git-" + hex.EncodeToString(sum[:8])
}

// keptVariables are the only GIT_* variables that reach the program: where configuration is, and who commits.
var keptVariables = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}

func gitEnv(env []string) []string {
	out := make([]string, 0, len(env)+3)
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "GIT_") && !slices.Contains(keptVariables, name) || name == "LC_ALL" {
			continue
		}
		out = append(out, kv)
	}
	return append(out, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
}

// gitCall is one run of the program.
type gitCall struct {
	options []string // of git itself, before the command
	args    []string
	index   string // "" for the repository's own
	env     []string
	stdin   []byte
	hooks   bool
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

// literally is for commands that are given paths rather than patterns.
var literally = []string{"--literal-pathspecs"}

// run returns standard output.
func (c *cli) run(ctx context.Context, call gitCall) ([]byte, error) {
	argv := []string{c.program, "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false"}
	env := slices.Clip(call.env)
	if call.index != "" {
		env = append(env, "GIT_INDEX_FILE="+call.index)
		argv = append(argv, "-c", "core.splitIndex=false")
	}
	if !call.hooks {
		argv = append(argv, "-c", "core.hooksPath="+os.DevNull)
	}
	argv = append(append(argv, call.options...), call.args...)
	defer c.freePipes()()
	reply, err := c.start(ctx, call.args[0], proc.Call{Argv: argv, Dir: c.l.root, Env: env, Stdin: call.stdin})
	if err != nil {
		return nil, err
	}
	if call.warned != nil {
		*call.warned = string(reply.Stderr)
	}
	if reply.Code != 0 {
		said := strings.TrimSpace(string(reply.Stderr))
		if call.hooks {
			said = strings.TrimSpace(said + "\n" + strings.TrimSpace(string(reply.Stdout)))
		}
		return reply.Stdout, &gitError{call.args[0], reply.Code, lastLines(said, 20)}
	}
	return reply.Stdout, nil
}

// freePipes watches a command that takes long. git waits for ever where a pipe has the place of an ignore or attribute
// file: it is removed, and git, which waits for its content, gets none. stop ends the watch.
func (c *cli) freePipes() (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for patience := c.patience; ; patience *= 4 {
			t := time.NewTimer(patience)
			select {
			case <-done:
				t.Stop()
				return
			case <-t.C:
			}
			removePipes(c.l.root)
		}
	})
	return func() { close(done); wg.Wait() }
}

func removePipes(root string) {
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // git says so itself
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir() || !slices.Contains([]string{".gitignore", ".gitattributes", ".gitmodules"}, e.Name()):
		case e.Type()&(fs.ModeNamedPipe|fs.ModeDevice) != 0:
			if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
				defer unix.Close(fd) // who waits to read it finds its end
			}
			_ = os.Remove(path)
		}
		return nil
	})
}

// gitGrace is what git has between the request to end and the kill: it removes its lock files.
const gitGrace = 2 * time.Second

// start runs one command within the limit. What ends it early is a StoppedError.
func (c *cli) start(ctx context.Context, command string, call proc.Call) (reply proc.Reply, err error) {
	began := time.Now()
	if c.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.limit, ErrTooLong)
		defer cancel()
	}
	if c.cookie != "" && c.shim == nil {
		if c.shim, err = proc.Start(proc.ShimConfig{Argv: c.argv, Env: c.env, Cookie: c.cookie, Dir: c.l.gitDir}); err != nil {
			return reply, fmt.Errorf("run git: %w", err)
		}
	}
	inside := ""
	if c.shim == nil {
		call.Env = append(slices.Clip(c.env), call.Env...)
		reply, err = proc.Output(ctx, call)
	} else {
		c.runs++
		scratch := fmt.Sprintf("%s.%d.git%d", c.cache, os.Getpid(), c.runs)
		trace := scratch + ".trace"
		call.Env = append(slices.Clip(call.Env), "GIT_TRACE2_EVENT="+trace)
		reply, err = c.shim.Output(ctx, call, scratch, gitGrace)
		if err != nil && ctx.Err() != nil {
			inside = waitedFor(trace)
		}
		_ = os.Remove(trace)
	}
	if err != nil && ctx.Err() != nil {
		return reply, &StoppedError{Command: "git " + command, Inside: inside, After: time.Since(began), Cause: context.Cause(ctx)}
	}
	return reply, err
}

// waitedFor reads from git's own trace which program it had started last and not seen the end of.
func waitedFor(trace string) string {
	f, err := os.Open(trace)
	if err != nil {
		return ""
	}
	defer f.Close()
	type event struct {
		Event, SID string
		Child      int      `json:"child_id"`
		Class      string   `json:"child_class"`
		Hook       string   `json:"hook_name"`
		Argv       []string `json:"argv"`
	}
	top, open := "", map[int]string{}
	for d := json.NewDecoder(io.LimitReader(f, 8<<20)); ; {
		var e event
		if d.Decode(&e) != nil {
			break
		}
		if top == "" {
			top = e.SID
		}
		switch {
		case e.SID != top: // a git command that a hook ran
		case e.Event == "child_exit":
			delete(open, e.Child)
		case e.Event == "child_start" && e.Class == "hook":
			open[e.Child] = "the hook " + e.Hook
		case e.Event == "child_start" && len(e.Argv) > 0:
			open[e.Child] = strings.Join(e.Argv, " ")
		}
	}
	if len(open) == 0 {
		return ""
	}
	return open[slices.Max(slices.Collect(maps.Keys(open)))]
}

// word is run for a command that prints one line.
func (c *cli) word(ctx context.Context, index string, args ...string) (string, error) {
	b, err := c.run(ctx, gitCall{args: args, index: index})
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

// dirty lists the paths that differ between HEAD, index and working tree, untracked ones included.
func (c *cli) dirty(ctx context.Context) ([]string, error) {
	b, err := c.run(ctx, gitCall{args: []string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range nulSplit(b) {
		if len(entry) > 3 && !c.guard.covers(entry[3:]) {
			out = append(out, entry[3:])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
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

// snapshot stages the whole working tree in a private index and writes its tree. Protected paths stay as the
// repository's index has them.
func (c *cli) snapshot(ctx context.Context, protect []string) (Tree, error) {
	index, from, now, err := c.privateIndex()
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	defer os.Remove(index)
	if err := c.addAll(ctx, index, newProtection(protect)); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := c.dropIgnored(ctx, index); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := c.addTracked(ctx, index); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	tree, err := c.word(ctx, index, "write-tree")
	if err != nil && from == c.cache && exitCode(err) != 0 { // what that index knows may have been pruned
		c.based = fileInfo{}
		return c.snapshot(ctx, protect)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := os.Rename(index, c.cache); err == nil {
		c.based = now
	}
	return Tree(tree), nil
}

// changedSince compares the working tree with a snapshot. What git stores on the way goes into a folder that is removed.
func (c *cli) changedSince(ctx context.Context, tree Tree, protect []string) ([]string, error) {
	dir, err := os.MkdirTemp(c.l.gitDir, "descartes-look-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	look := *c
	look.cache, look.based = filepath.Join(dir, "index"), fileInfo{}
	look.cookie, look.shim = "", nil // a shim has an environment of its own
	look.env = append(slices.Clip(c.env), "GIT_OBJECT_DIRECTORY="+dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(c.l.commonDir, "objects"))
	now, err := look.snapshot(ctx, protect)
	if err != nil {
		return nil, err
	}
	b, err := look.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", string(tree), string(now)}})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(slices.DeleteFunc(nulSplit(b), c.guard.covers))), nil
}

// addAll is `git add -A` but for protected paths and for nested repositories without a commit, which git
// cannot record.
func (c *cli) addAll(ctx context.Context, index string, guard protection) error {
	inner, gone, err := c.nested(ctx, index)
	if err == nil {
		err = c.forget(ctx, index, gone)
	}
	if err != nil {
		return err
	}
	var skip []string
	for _, n := range inner {
		skip = append(skip, n.path)
	}
	for {
		args := append([]string{"add", "-A", "--ignore-errors"}, append(c.sparse(), "--", ".")...)
		for _, p := range append(skip, guard...) {
			args = append(args, ":(top,exclude,literal)"+p)
		}
		_, err := c.run(ctx, gitCall{options: []string{"-c", "core.safecrlf=false"}, args: args, index: index})
		if c.out = leftByGit(err); err == nil {
			return c.setNested(ctx, index, inner)
		}
		bare, ok := uncommittedRepository(err)
		if !ok && len(c.out) > 0 {
			return c.setNested(ctx, index, inner)
		}
		if !ok || slices.Contains(skip, bare) {
			return err
		}
		skip = append(skip, bare)
	}
}

// dropIgnored takes out what an earlier snapshot added and a rule covers since: for git, what is in an index is
// tracked, but only the repository's own index has a say here.
func (c *cli) dropIgnored(ctx context.Context, index string) error {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-z", "-i", "-c", "--exclude-standard"}, index: index})
	covered := nulSplit(b)
	if err != nil || len(covered) == 0 {
		return err
	}
	if b, err = c.run(ctx, gitCall{args: []string{"ls-files", "-z"}}); err != nil {
		return err
	}
	own := map[string]bool{}
	for _, p := range nulSplit(b) {
		own[p] = true
	}
	covered = slices.DeleteFunc(covered, func(p string) bool { return own[p] || slices.Contains(c.tracked, p) })
	if len(covered) == 0 {
		return nil
	}
	return c.forget(ctx, index, covered)
}

// sparse is the option without which git add leaves out what lies outside a sparse checkout. Older versions of
// git do not know it, nor do they need it.
func (c *cli) sparse() []string {
	if _, err := os.Stat(filepath.Join(c.l.gitDir, "info", "sparse-checkout")); err != nil {
		return nil
	}
	return []string{"--sparse"}
}

// uncommittedRepository finds the nested repository that git add stumbled over.
func uncommittedRepository(err error) (string, bool) {
	var ge *gitError
	if !errors.As(err, &ge) {
		return "", false
	}
	for line := range strings.Lines(ge.said) {
		rest, found := strings.CutPrefix(line, "error: '")
		path, _, here := strings.Cut(rest, "' does not have a commit checked out")
		if found && here {
			return path, true
		}
	}
	return "", false
}

func (c *cli) addTracked(ctx context.Context, index string) error {
	var there []string
	for _, p := range c.tracked {
		if _, err := os.Lstat(filepath.Join(c.l.root, p)); err == nil && !c.guard.covers(p) {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return nil
	}
	_, err := c.run(ctx, gitCall{options: literally, index: index, stdin: nulJoin(there),
		args: append([]string{"add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"}, c.sparse()...)})
	return err
}

// track makes snapshots hold paths although an ignore rule covers them.
func (c *cli) track(paths []string) {
	c.tracked = append(c.tracked, paths...)
	slices.Sort(c.tracked)
	c.tracked = slices.Compact(c.tracked)
}
