package wire

import (
	"context"
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
	"time"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/lazyregexp"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/internal/sandbox"
	"descartes/internal/supervise"
	"descartes/loop"
	"descartes/loop/store"
)

// RunCommand is the argument with which our own program coordinates one submitted run.
const RunCommand = "fleet-run"

// Submission is a run that some worker is to coordinate. What it was asked for lies in the commit: the server sees names and hashes only.
type Submission struct {
	Remote string `json:"remote"` // URL of the repository
	Tag    string `json:"tag"`
	Loop   string `json:"loop"`
	Branch string `json:"branch"` // that takes the run's commits, on the remote
	Commit string `json:"commit"` // with what was asked for; its parent is where the branch stood
	Host   string `json:"host"`   // that it was submitted on
	Silent int    `json:"silent,omitempty"`
}

// Asked is what lies in a submission's commit, as submission.json.
type Asked struct {
	Version int      `json:"version"`
	Head    string   `json:"head"`
	List    string   `json:"list"` // the file of the tag's tasks
	Flags   []string `json:"flags"`
	Name    string   `json:"name"` // of the author of the run's commits
	Email   string   `json:"email"`
}

// Over is what a submitted run came to.
type Over struct {
	Code   int    `json:"code"`             // exit status of the run
	Branch string `json:"branch,omitempty"` // that has its commits
	Commit string `json:"commit,omitempty"`
	Aside  bool   `json:"aside,omitempty"` // it is not the one that was submitted: somebody pushed to that meanwhile
}

// Coordination is the first line that a program gets which coordinates a run.
type Coordination struct {
	Submission
	Cache   string `json:"cache"`
	Try     string `json:"try"`     // tells this try of the queue's from others
	Confine bool   `json:"confine"` // no sandbox: no run
}

// runID is what a submitted run is called: an id of a loop.
var runID = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,63}$`)

// MarkVar is the variable that tells a run what marks it in the fleet, wherever it is coordinated.
const MarkVar = "DESCARTES_FLEET_MARK"

// StateRef is the ref that has the state of a submitted run on the remote, with what it printed.
func StateRef(loopID string) (string, error) { return submittedRef(loopID, "state") }

func submittedRef(loopID, what string) (string, error) {
	if !runID.MatchString(loopID) {
		return "", fmt.Errorf("%q is no name of a run", loopID)
	}
	return "refs/descartes/" + loopID + "/fleet/" + what, nil
}

// outputFile has what the run printed.
const outputFile = "output"

// coordinator coordinates one submitted run.
type coordinator struct {
	Coordination
	asked Asked
	say   *Writer
	root  string // of the clone
	repo  *gitops.Repo

	ref    string          // of the state
	state  string          // its last commit; "" before the first
	saved  string          // what that had: the refs, too
	mine   map[string]bool // all states that were sent, or may have been
	pushed string          // commit of the branch that the remote has
	aside  bool
	cancel chan struct{}
}

// Coordinate runs a submitted run in a clone of its own, and keeps its state on the remote, so that another worker can resume it. It kills the
// run where in ends before, and says on out what becomes of it.
func Coordinate(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := json.NewDecoder(in)
	c := &coordinator{say: NewWriter(out), cancel: make(chan struct{}), mine: map[string]bool{}}
	if err := d.Decode(&c.Coordination); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	if c.ref, err = StateRef(c.Loop); err != nil {
		return err
	}
	go func() {
		for cancelled := false; ; {
			var l Line
			if d.Decode(&l) != nil {
				stop()
				return
			}
			if l.Cancel && !cancelled {
				cancelled = true
				close(c.cancel)
			}
		}
	}()
	c.root = filepath.Join(c.Cache, "runs", c.Loop+"@"+c.Try)
	if old, err := filepath.Glob(filepath.Join(c.Cache, "runs", c.Loop+"@*")); err == nil { // of a try that was killed here: the remote has its state
		for _, dir := range old {
			_ = os.RemoveAll(dir)
		}
	}
	if err := os.MkdirAll(c.root, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.root)) }()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	opt := gitops.Options{Dir: c.root, Env: os.Environ(), Hooks: "skip", Shim: []string{self, proc.ShimCommand}, Protect: []string{".descartes/"}}
	if c.repo, err = gitops.Mirror(ctx, opt); err != nil {
		return err
	}
	defer c.repo.Close()
	argv, err := c.restore(ctx)
	if err != nil {
		return err
	}
	return c.run(ctx, append([]string{self}, argv...))
}

// restore brings the run to where its last coordinator left it, and is how it is to be started.
func (c *coordinator) restore(ctx context.Context) (argv []string, err error) {
	start, err := submittedRef(c.Loop, "start")
	if err != nil {
		return nil, err
	}
	if err := c.repo.Fetch(ctx, c.Remote, "+"+start+":"+start, "+refs/descartes/"+c.Loop+"/*:refs/descartes/"+c.Loop+"/*"); err != nil {
		return nil, fmt.Errorf("fetch the run: %w", err)
	}
	b, err := c.repo.FileAt(ctx, c.Commit, "submission.json", maxOrder)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &c.asked); err != nil {
		return nil, fmt.Errorf("the submission cannot be read: %w", err)
	}
	if c.asked.Version != version {
		return nil, errors.New("another version of descartes submitted the run: all machines of a fleet need the same one")
	}
	if c.state, err = c.repo.RefCommit(c.ref); err != nil {
		return nil, err
	}
	head := c.asked.Head
	c.pushed = head
	files := map[string][]byte{}
	if c.state != "" {
		if b, err = c.repo.FileAt(ctx, c.state, "files.json", maxLog); err != nil {
			return nil, err
		}
		var kept keptRun
		if err := json.Unmarshal(b, &kept); err != nil {
			return nil, fmt.Errorf("the state of the run cannot be read: %w", err)
		}
		head, c.aside, files = kept.Head, kept.Aside, kept.Files
		if state := c.stateFile(); files[state] != nil { // it names the folder of the coordinator before
			files[state] = []byte(strings.ReplaceAll(string(files[state]), kept.Root, c.root))
		}
	}
	if err := c.repo.CheckOut(ctx, gitops.Checkout{Remote: c.Remote, Branch: c.Branch, Commit: head, Name: c.asked.Name, Email: c.asked.Email}); err != nil {
		return nil, fmt.Errorf("check out %s: %w", c.Branch, err)
	}
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for path, data := range files {
		if !c.keeps(path) {
			return nil, fmt.Errorf("the state of the run has a file %q", path)
		}
		err := root.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = root.WriteFile(path, data, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("write the state of the run: %w", err)
		}
	}
	if c.state != "" {
		if b, err = c.repo.FileAt(ctx, c.state, outputFile, maxLog); err != nil {
			return nil, err
		}
		text := string(b) + fmt.Sprintf("--- the worker was lost; %s takes the run over ---\n", hostname())
		if err := os.WriteFile(c.output(), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if files[c.stateFile()] != nil {
		argv = []string{"loop", "resume", "--name", c.Loop}
	} else {
		argv = append([]string{"loop", "start", "--scud-tag", c.Tag, "--name", c.Loop}, c.asked.Flags...)
	}
	argv = append(argv, "--working-dir", c.root, "--fleet", "--plain")
	if c.Confine {
		mode, err := c.confine(ctx)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--sandbox", mode)
	}
	return argv, nil
}

// strict finds in settings that the project asks for more than a sandbox at all.
var strict = lazyregexp.New(`(?m)^\s*sandbox:\s*["']?strict`)

// confine is the sandbox that a run gets here: the project cannot have less than there is.
func (c *coordinator) confine(ctx context.Context) (mode string, err error) {
	var cfg config.Config
	cfg.Sandbox = string(sandbox.Auto)
	box, err := supervise.FindSandbox(ctx, supervise.Place{Root: c.root, Dir: c.root, Top: c.root}, cfg, agent.Backend{})
	if err == nil && box.Mode == sandbox.Off {
		err = fmt.Errorf("this worker runs commands in a sandbox only, and has none: %s", box.Note)
	}
	if err != nil {
		return "", err
	}
	b, err := plainfile.Read(c.root, filepath.Join(c.root, loop.SettingsFile), maxOrder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if strict.Match(b) || slices.Contains(c.asked.Flags, "--sandbox=strict") || slices.Contains(c.asked.Flags, "strict") {
		return string(sandbox.Strict), nil
	}
	return string(sandbox.Auto), nil
}

func hostname() string {
	host, _ := os.Hostname()
	return host
}

func (c *coordinator) stateFile() string { return ".descartes/loops/" + c.Loop + ".json" }

func (c *coordinator) output() string { return c.root + ".log" }

// keeps reports whether a file is part of the run's state.
func (c *coordinator) keeps(path string) bool {
	return filepath.IsLocal(path) && (path == c.stateFile() || path == c.asked.List || strings.HasPrefix(path, ".descartes/runs/"+c.Loop+"/"))
}

// keptRun is what a run's state on the remote has, as files.json.
type keptRun struct {
	Root  string            `json:"root"`
	Head  string            `json:"head"` // of the branch
	Aside bool              `json:"aside,omitempty"`
	Files map[string][]byte `json:"files"`
}

// saveEvery is how often the state of a run is sent, and saveShare how much longer than sending it takes that is at least.
const (
	saveEvery = 3 * time.Second
	saveShare = 20
)

// run runs the run to its end.
func (c *coordinator) run(ctx context.Context, argv []string) (err error) {
	defer func() { err = errors.Join(err, os.Remove(c.output())) }()
	shim, err := proc.Start(proc.ShimConfig{Argv: []string{argv[0], proc.ShimCommand}, Env: append(os.Environ(), MarkVar+"="+c.Commit), Cookie: c.Loop + "/" + c.Try, Dir: c.root})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shim.Close()) }()
	rctx, kill := context.WithCancel(ctx)
	defer kill()
	type end struct {
		exit process.Exit
		err  error
	}
	ended := make(chan end, 1)
	go func() { // killed at once, it leaves the attempts to whoever resumes it
		exit, err := shim.Run(rctx, process.Command{Label: "run " + c.Loop, Argv: argv, Dir: c.root, Stdout: c.output(), Stderr: c.output(), Grace: -1})
		ended <- end{exit, err}
	}()
	wait, cancel := saveEvery, c.cancel
	for {
		select {
		case e := <-ended:
			if e.err != nil || e.exit.Why != process.Exited {
				return errors.Join(e.err, ctx.Err(), fmt.Errorf("the run was killed (%s)", e.exit.Why))
			}
			return c.finish(ctx, e.exit.Code)
		case <-cancel:
			cancel = nil
			if err := store.NewHome(c.root).Ask(atomicfile.OS(), c.Loop, store.RequestCancel, true); err != nil {
				return err
			}
		case <-time.After(wait):
			began := time.Now()
			if err := c.save(ctx); errors.Is(err, errTaken) {
				kill()
				<-ended
				return err
			}
			wait = max(saveEvery, saveShare*time.Since(began))
		}
	}
}

// errTaken says that this coordinator was given up, and another one has the run.
var errTaken = errors.New("another worker has taken the run over")

// save sends the state of the run, where it has changed. The file that says how far others were applied is read before them, and refs after the
// journal that names them. Whoever was given up cannot save: the state on the remote is no ancestor of his.
func (c *coordinator) save(ctx context.Context) error {
	head, err := c.repo.RefCommit("refs/heads/" + c.Branch)
	if err != nil {
		return err
	}
	kept := keptRun{Root: c.root, Head: head, Aside: c.aside, Files: map[string][]byte{}}
	names := []string{c.stateFile(), c.asked.List}
	more, err := filepath.Glob(filepath.Join(c.root, ".descartes/runs", c.Loop, "*"))
	if err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(c.root, ".descartes/runs", c.Loop, "logs", "*"))
	if err != nil {
		return err
	}
	for _, path := range append(more, logs...) {
		if rel, err := filepath.Rel(c.root, path); err == nil && filepath.Base(path) != "control" {
			names = append(names, rel)
		}
	}
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, rel := range names {
		fi, err := root.Lstat(rel)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxOrder && !strings.HasSuffix(rel, ".ndjson") {
			continue
		}
		data, err := root.ReadFile(rel)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		kept.Files[rel] = data
	}
	text, err := readLog(c.output())
	if err != nil {
		return err
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	tree, err := c.repo.WithContent(ctx, c.repo.EmptyTree(), map[string][]byte{"files.json": b, outputFile: text})
	if err != nil {
		return err
	}
	refs, err := c.repo.Refs(ctx, "refs/descartes/"+c.Loop+"/")
	if err != nil {
		return err
	}
	now := map[string]string{"": string(tree)}
	for _, r := range refs {
		if !strings.Contains(r.Name, "/fleet/") {
			now[r.Name] = r.Hash
		}
	}
	all := fmt.Sprint(now)
	if all == c.saved {
		return c.publish(ctx, head)
	}
	parents := []string{head}
	if c.state != "" {
		parents = append(parents, c.state)
	}
	commit, err := c.repo.Keep(ctx, c.ref, tree, parents, "descartes: state of a run")
	if err != nil {
		return err
	}
	c.mine[commit] = true
	specs := []string{c.ref + ":" + c.ref}
	delete(now, "")
	for _, ref := range slices.Sorted(maps.Keys(now)) {
		specs = append(specs, "+"+ref+":"+ref)
	}
	if err := c.repo.Send(ctx, c.Remote, specs...); err != nil {
		if c.taken(ctx) {
			return errTaken
		}
		return err // the remote may be away for a while
	}
	c.state, c.saved = commit, all
	if err := c.say.Say(Line{Live: &Kept{Ref: c.ref, Commit: commit, Host: hostname()}}); err != nil {
		return err
	}
	return c.publish(ctx, head)
}

// taken reports whether somebody else has saved a state.
func (c *coordinator) taken(ctx context.Context) bool {
	theirs := strings.Replace(c.ref, "/state", "/theirs", 1)
	if c.repo.Fetch(ctx, c.Remote, "+"+c.ref+":"+theirs) != nil {
		return false
	}
	at, err := c.repo.RefCommit(theirs)
	if err == nil && c.mine[at] { // it came through, and the answer did not
		c.state = at
	}
	return err == nil && at != c.state
}

// publish brings the run's commits to its branch on the remote; where somebody else pushed to that, to one of their own.
func (c *coordinator) publish(ctx context.Context, head string) error {
	if head == c.pushed {
		return nil
	}
	from := "refs/heads/" + c.Branch
	if !c.aside {
		if err := c.repo.Send(ctx, c.Remote, from+":"+from); err == nil {
			c.pushed = head
			return nil
		}
	}
	if err := c.repo.Send(ctx, c.Remote, "+"+from+":refs/heads/"+c.side()); err != nil {
		return err
	}
	c.aside, c.pushed = true, head
	return nil
}

func (c *coordinator) side() string { return "descartes/" + c.Loop }

// finish sends what the run came to.
func (c *coordinator) finish(ctx context.Context, code int) error {
	var err error
	for range 5 {
		if err = c.save(ctx); err == nil || errors.Is(err, errTaken) || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(saveEvery):
		}
	}
	if err != nil {
		return fmt.Errorf("send the end of the run: %w", err)
	}
	over := Over{Code: code, Branch: c.Branch, Commit: c.pushed, Aside: c.aside}
	if c.aside {
		over.Branch = c.side()
	}
	return c.say.Say(Line{Over: &over})
}
