package gitops

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"descartes/internal/crash"
	"descartes/internal/oscall"
	"descartes/internal/proc"
)

// objects reads a repository's objects, of whatever format, with one git cat-file that runs until close. Safe for
// concurrent use.
type objects struct {
	git *cli

	mu  sync.Mutex
	cat *proc.Peer // nil until the first object is read
	out *bufio.Reader
}

// most is how much is read of an object that nobody bounds: no tree or commit is larger. tooMuch is from where on it
// is cheaper to start another cat-file than to read on.
const (
	most    = 1 << 30
	tooMuch = 16 << 20
)

// found is an object.
type found struct {
	id, kind string // "" where there is none
	size     int64
	data     []byte // nil where it is larger than was asked for
}

// ErrGone is the error of an object that is not in the repository: with --prune=now a git gc deletes also what was
// stored while it ran.
var ErrGone = errors.New("it is gone")

// read reads an object of at most limit bytes, by its name or that of a ref, which may be missing.
func (o *objects) read(name string, limit int64) (f found, err error) {
	isRef := strings.HasPrefix(name, "refs/") && !strings.ContainsFunc(name, unicode.IsSpace)
	if !isRef && !isID(name) {
		return f, fmt.Errorf("%q is not an object id, nor the name of a ref", name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for range 2 { // git gives up on what somebody else's git replaces as it reads
		if f, err = o.ask(name, limit); err == nil {
			break
		}
		o.stop()
	}
	if err == nil && f.id == "" && !isRef {
		err = ErrGone
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return f, err
}

func (o *objects) ask(name string, limit int64) (f found, err error) {
	if o.cat == nil {
		// our own folder may be removed
		argv := []string{o.git.program, "-C", o.git.l.gitDir, "--git-dir=" + o.git.l.gitDir, "cat-file", "--batch"}
		if o.cat, err = proc.StartPeer(argv, o.git.env); err != nil {
			return f, err
		}
		o.out = bufio.NewReaderSize(o.cat.Out, 64<<10)
	}
	if _, err = io.WriteString(o.cat.In, name+"\n"); err != nil {
		return f, err
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		return f, err
	}
	if _, err := fmt.Sscan(line, &f.id, &f.kind, &f.size); err != nil || !isID(f.id) {
		return found{}, nil
	}
	switch {
	case f.size <= limit:
		f.data = make([]byte, f.size)
		if _, err = io.ReadFull(o.out, f.data); err == nil {
			_, err = o.out.Discard(1)
		}
	case f.size > tooMuch:
		o.stop()
	default:
		_, err = io.CopyN(io.Discard, o.out, f.size+1)
	}
	return f, err
}

// readAs reads a whole object of a known kind.
func (o *objects) readAs(id, kind string) ([]byte, error) {
	f, err := o.read(id, most)
	switch {
	case err != nil:
		return nil, err
	case f.kind != kind:
		return nil, fmt.Errorf("object %s is a %s, not a %s", id, f.kind, kind)
	case f.data == nil:
		return nil, fmt.Errorf("object %s of %d bytes is too large", id, f.size)
	}
	return f.data, nil
}

func (o *objects) stop() {
	if o.cat != nil {
		o.cat.Out.Close() // it may be in the midst of a large object
		o.cat.End(0)
		o.cat = nil
	}
}

func (o *objects) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stop()
}

// commit reads a commit, which go-git decodes; those of SHA-256, which it does not know, git itself.
func (o *objects) commit(hash string) (c ChainLink, err error) {
	b, err := o.readAs(hash, "commit")
	if err != nil {
		return c, fmt.Errorf("read commit %s: %w", shortHash(hash), err)
	}
	if len(hash) == 64 {
		return o.commitByGit(hash)
	}
	raw := &plumbing.MemoryObject{}
	raw.SetType(plumbing.CommitObject)
	var decoded object.Commit
	if _, err = raw.Write(b); err == nil {
		err = decoded.Decode(raw)
	}
	if err != nil {
		return c, fmt.Errorf("read commit %s: %w", shortHash(hash), err)
	}
	c = ChainLink{Hash: hash, Tree: Tree(decoded.TreeHash.String()), Message: decoded.Message,
		When: decoded.Committer.When}
	for _, p := range decoded.ParentHashes {
		c.Parents = append(c.Parents, p.String())
	}
	return c.read(), nil
}

func (o *objects) commitByGit(hash string) (c ChainLink, err error) {
	b, err := o.git.run(context.Background(), gitCall{args: []string{"log", "-1", "--no-show-signature",
		"--encoding=UTF-8", "--format=tformat:%T%x00%P%x00%ct%x00%B", hash}})
	if err != nil {
		return c, fmt.Errorf("read commit %s: %w", shortHash(hash), err)
	}
	parts := strings.SplitN(string(b), "\x00", 4)
	if len(parts) < 4 {
		return c, fmt.Errorf("read commit %s: git log says %q", shortHash(hash), b)
	}
	seconds, err := strconv.ParseInt(parts[2], 10, 64)
	c = ChainLink{Hash: hash, Tree: Tree(parts[0]), Parents: strings.Fields(parts[1]), When: time.Unix(seconds, 0),
		Message: strings.TrimSuffix(parts[3], "\n")}
	return c.read(), err
}

// has reports whether an object is there, now: the cat-file that runs may still see a pack that git gc has removed.
func (r *Repo) has(ctx context.Context, id string) bool {
	_, err := r.cli.run(context.WithoutCancel(ctx), gitCall{args: []string{"cat-file", "-e", id}})
	return err == nil
}

// byGitAlone reports whether go-git's storage will not do: it knows neither SHA-256 nor shared repositories.
func (r *Repo) byGitAlone() bool {
	return len(r.cli.zero) == 64 || r.set["core.sharedrepository"] != ""
}

// put stores an object, on disk, and returns its name.
func (r *Repo) put(ctx context.Context, kind string, data []byte) (string, error) {
	if r.byGitAlone() {
		return r.cli.feed(context.WithoutCancel(ctx), data, "hash-object", "-w", "-t", kind, "--stdin")
	}
	of, err := plumbing.ParseObjectType(kind)
	if err != nil {
		return "", err
	}
	return r.store(func(made plumbing.EncodedObject) error {
		made.SetType(of)
		w, err := made.Writer()
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
}

// store has go-git store what encode makes, on disk.
func (r *Repo) store(encode func(plumbing.EncodedObject) error) (string, error) {
	store := filesystem.NewStorage(osfs.New(r.l.commonDir), cache.NewObjectLRU(cache.MiByte))
	made := store.NewEncodedObject()
	if err := encode(made); err != nil {
		return "", err
	}
	hash, err := store.SetEncodedObject(made)
	if err != nil {
		return "", err
	}
	id := hash.String()
	f, err := os.Open(filepath.Join(r.l.commonDir, "objects", id[:2], id[2:]))
	if err != nil {
		return "", err
	}
	return id, errors.Join(f.Sync(), f.Close())
}

// putCommit stores a commit.
func (r *Repo) putCommit(ctx context.Context, author, committer person, tree Tree, parents []string, message string,
	when time.Time) (id string, err error) {
	message = strings.ToValidUTF8(strings.TrimSuffix(strings.ReplaceAll(message, "\x00", ""), "\n"), "\uFFFD") + "\n"
	if r.byGitAlone() {
		id, err = r.commitTree(ctx, author, committer, tree, parents, message, when)
	} else {
		c := object.Commit{Author: author.at(when), Committer: committer.at(when), Message: message,
			TreeHash: plumbing.NewHash(string(tree))}
		for _, p := range parents {
			c.ParentHashes = append(c.ParentHashes, plumbing.NewHash(p))
		}
		id, err = r.store(c.Encode)
	}
	if err == nil {
		crash.Point("git: object written")
	}
	return id, err
}

func (r *Repo) commitTree(ctx context.Context, author, committer person, tree Tree, parents []string, message string,
	when time.Time) (string, error) {
	args := []string{"commit-tree", string(tree)}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	at := fmt.Sprintf("@%d %s", when.Unix(), when.Format("-0700"))
	b, err := r.cli.run(context.WithoutCancel(ctx), gitCall{options: []string{"-c", "i18n.commitEncoding=UTF-8"},
		args: args, stdin: []byte(message), env: []string{
			"GIT_AUTHOR_NAME=" + author.name, "GIT_AUTHOR_EMAIL=" + author.email, "GIT_AUTHOR_DATE=" + at,
			"GIT_COMMITTER_NAME=" + committer.name, "GIT_COMMITTER_EMAIL=" + committer.email, "GIT_COMMITTER_DATE=" + at}})
	return strings.TrimSpace(string(b)), err
}

// isID reports whether a text is the name of an object.
func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// gcPatience is how long a run waits for git gc.
const gcPatience = 10 * time.Minute

// AwaitGC waits while git gc runs in the repository: with --prune=now it also deletes what was stored after it looked
// for refs. Snapshot, Keep and CommitWave wait by themselves before they store anything.
func (r *Repo) AwaitGC(ctx context.Context) {
	for deadline := time.Now().Add(gcPatience); collecting(r.l.commonDir) && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// collecting reports whether the lock file of git gc names a live git on this machine.
func collecting(commonDir string) bool {
	b, err := os.ReadFile(filepath.Join(commonDir, "gc.pid"))
	if err != nil {
		return false
	}
	var pid int
	var where string
	if _, err := fmt.Sscan(string(b), &pid, &where); err != nil {
		return false
	}
	if host, err := os.Hostname(); err != nil || where != host {
		return false
	}
	return oscall.ProgramName(pid) == "git"
}

// objectDirs lists the object directory of a repository and those it borrows from.
func objectDirs(commonDir string) []string {
	dirs := []string{filepath.Join(commonDir, "objects")}
	for i := 0; i < len(dirs) && i < 16; i++ {
		b, err := os.ReadFile(filepath.Join(dirs[i], "info", "alternates"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(dirs[i], line)
			}
			if line = filepath.Clean(line); !slices.Contains(dirs, line) {
				dirs = append(dirs, line)
			}
		}
	}
	return dirs
}
