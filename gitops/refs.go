package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"descartes/internal/crash"
)

// refStore reads refs as git's files backend has them, without ever waiting for what is no file; git writes them.
type refStore struct{ l layout }

// refDir is where a ref's file lies: some belong to one working tree, all others to the repository.
func (s *refStore) refDir(name string) string {
	if !strings.HasPrefix(name, "refs/") || strings.HasPrefix(name, "refs/worktree/") ||
		strings.HasPrefix(name, "refs/bisect/") || strings.HasPrefix(name, "refs/rewritten/") {
		return s.l.gitDir
	}
	return s.l.commonDir
}

func (s *refStore) file(name string) string { return s.refDir(name) + "/" + name }

// head resolves HEAD: the branch it names ("" when detached) and the commit ("" when unborn).
func (s *refStore) head() (branch, hash string, err error) {
	name := "HEAD"
	for range 5 {
		value, err := s.readLoose(name)
		if err != nil {
			return "", "", err
		}
		to, symbolic := strings.CutPrefix(value, "ref:")
		if !symbolic {
			if name == "HEAD" {
				return "", value, nil
			}
			hash, err := s.hash(name)
			return name, hash, err
		}
		name = strings.TrimSpace(to)
		if !validRef(name) {
			return "", "", fmt.Errorf("HEAD names the ref %q", name)
		}
	}
	return "", "", fmt.Errorf("%s: too many symbolic refs", name)
}

// readLoose is the text of a ref's own file, "" where there is none.
func (s *refStore) readLoose(name string) (string, error) {
	b, err := readPlain(s.file(name), mostLoose)
	if err != nil {
		if to, lerr := os.Readlink(s.file(name)); lerr == nil && name == "HEAD" {
			return "ref: " + to, nil // a symbolic link to an unborn branch
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) || errors.Is(err, errNotPlain) {
			return "", nil
		}
		return "", fmt.Errorf("read ref %s: %w", name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// hash is the commit that a ref names, "" if there is no such ref.
func (s *refStore) hash(name string) (string, error) {
	for range 5 {
		value, err := s.readLoose(name)
		if err != nil {
			return "", err
		}
		if value == "" {
			break
		}
		to, symbolic := strings.CutPrefix(value, "ref:")
		if !symbolic {
			if _, err := parseID(value); err != nil {
				return "", fmt.Errorf("read ref %s: %w", name, err)
			}
			return value, nil
		}
		if name = strings.TrimSpace(to); !validRef(name) {
			return "", fmt.Errorf("symbolic ref to %q", name)
		}
	}
	hash := ""
	err := s.packed(func(n, h string) {
		if n == name {
			hash = h
		}
	})
	return hash, err
}

// packed calls each for every line of packed-refs.
func (s *refStore) packed(each func(name, hash string)) error {
	b, err := readPlain(s.l.commonDir+"/packed-refs", mostCopied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read packed refs: %w", err)
	}
	for line := range bytes.Lines(b) {
		if hash, name, ok := packedLine(line); ok {
			each(name, hash)
		}
	}
	return nil
}

func packedLine(line []byte) (hash, name string, ok bool) {
	hash, name, ok = strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	return hash, name, ok && len(hash) == 40 && isHex(hash)
}

// list names every ref below a prefix, sorted.
func (s *refStore) list(prefix string) (map[string]string, []string, error) {
	found := map[string]string{}
	err := s.packed(func(name, hash string) {
		if strings.HasPrefix(name, prefix) {
			found[name] = hash
		}
	})
	if err != nil {
		return nil, nil, err
	}
	top := s.file(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err = filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(p, s.refDir(prefix)+"/")
		if !strings.HasPrefix(name, prefix) || !validRef(name) {
			return nil
		}
		h, err := s.hash(name)
		if err == nil && h != "" {
			found[name] = h
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list refs: %w", err)
	}
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	return found, names, nil
}

// validRef follows git check-ref-format.
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, ".") || strings.ContainsAny(name, " ~^:?*[\\\x7f") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Count(name, "/") < 2 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
}

// privateRefs is where attempts are kept. Only the loop that holds the working tree's lock writes there.
const privateRefs = "refs/descartes/"

const noObject = "0000000000000000000000000000000000000000"

func shortHash(h string) string {
	if h == "" {
		return "nothing"
	}
	return h[:min(len(h), 12)]
}

// setRef moves a ref that is still at old ("" is none), and HEAD's log with the branch that is checked out. "HEAD" is
// the detached one itself.
func (r *Repo) setRef(ctx context.Context, name, old, new, message string) error {
	if old == "" {
		old = noObject
	}
	return r.updateRef(ctx, name, message, "update "+name+" "+new+" "+old+"\n")
}

// forceRef sets a ref whatever it is at.
func (r *Repo) forceRef(ctx context.Context, name, new, message string) error {
	return r.updateRef(ctx, name, message, "update "+name+" "+new+"\n")
}

// removeRef deletes a ref, packed or not, with its log. A missing ref is no error.
func (r *Repo) removeRef(ctx context.Context, name string) error {
	if hash, err := r.refs.hash(name); err == nil && hash == "" {
		return nil
	}
	return r.updateRef(ctx, name, "descartes: removed", "delete "+name+"\n")
}

func (r *Repo) updateRef(ctx context.Context, name, message, command string) error {
	if name != "HEAD" && !validRef(name) {
		return fmt.Errorf("%q is not a valid ref name", name)
	}
	crash.Point("git: before " + name)
	if err := r.updateRefs(ctx, message, command); err != nil {
		return lockedBy(r.refs.file(name), err)
	}
	crash.Point("git: after " + name)
	return nil
}

// lockWait has git wait for another command's lock of a ref, as long as we do.
var lockWait = []string{"-c", fmt.Sprintf("core.filesRefLockTimeout=%d", lockPatience.Milliseconds())}

// updateRefs gives git commands for refs, which it does all or none of.
func (r *Repo) updateRefs(ctx context.Context, message, commands string) error {
	if commands == "" {
		return nil
	}
	_, err := r.cli.run(ctx, gitCall{options: slices.Concat(lockWait, r.people.asKeeper(ctx)),
		args: []string{"update-ref", "--no-deref", "-m", strings.Join(strings.Fields(message), " "), "--stdin"}, stdin: []byte(commands)})
	return err
}

// CanBranch reports, as a RefusedError, why a run cannot commit to a branch of that name: it has commits that HEAD lacks, as HEAD has others, or
// another working tree has it. ahead is its commit where it goes on from commits of its own, which is refused with here: there it is to be checked out.
func (r *Repo) CanBranch(ctx context.Context, name string, here bool) (ahead string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, hash, old, err := r.branchFor(ctx, name, here)
	if err != nil || at == "refs/heads/"+name || old == hash || r.LeadsTo(ctx, hash, old) {
		return "", err
	}
	return old, nil
}

// branchFor is where HEAD stands, and where a branch does that a run is to commit to; old is "" where it is to be made.
func (r *Repo) branchFor(ctx context.Context, name string, here bool) (at, hash, old string, err error) {
	ref := "refs/heads/" + name
	if !validRef(ref) || strings.HasPrefix(name, "-") || name == "HEAD" {
		return "", "", "", &RefusedError{Reason: fmt.Sprintf("%q is not a valid branch name", name)}
	}
	if at, hash, err = r.refs.head(); err == nil && at != ref {
		old, err = r.refs.hash(ref)
	}
	if err != nil {
		return "", "", "", fmt.Errorf("take branch %s: %w", name, err)
	}
	why := r.usedBy(ref)
	switch {
	case old == "":
	case why != "":
		err = &RefusedError{Reason: fmt.Sprintf("branch %q %s", name, why), Hint: "start there, or choose another name"}
	case old == hash, r.LeadsTo(ctx, hash, old):
	case !r.LeadsTo(ctx, old, hash):
		from := strings.TrimPrefix(at, "refs/heads/")
		if from == "" {
			from = shortHash(hash)
		}
		err = &RefusedError{Reason: fmt.Sprintf("branch %q and %s have both moved on", name, from),
			Hint: r.around(ctx, name, fmt.Sprintf("git switch %s && git merge %s", name, from)) + ", then start again, or choose another name"}
	case here:
		err = &RefusedError{Reason: fmt.Sprintf("branch %q has commits of its own, and the agent works in this folder", name), Hint: "git switch " + name + ", then start again"}
	}
	return at, hash, old, err
}

// ForwardBranch moves a branch that a run is to commit to up to HEAD, where it has nothing that HEAD lacks. It stays where it is ahead, or is to be
// made.
func (r *Repo) ForwardBranch(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, hash, old, err := r.branchFor(ctx, name, false)
	if err != nil || at == "refs/heads/"+name || old == "" || old == hash || !r.LeadsTo(ctx, hash, old) {
		return err
	}
	return r.setRef(ctx, "refs/heads/"+name, old, hash, "descartes: forward")
}

// NewBranch switches to a branch at HEAD, which it makes, or moves up to there; neither the index nor a file changes. On that branch
// already, it does nothing; one with other commits is a RefusedError.
func (r *Repo) NewBranch(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := "refs/heads/" + name
	at, hash, old, err := r.branchFor(ctx, name, true)
	if err != nil || at == ref {
		return err
	}
	was := strings.TrimPrefix(at, "refs/heads/")
	if was == "" {
		was = hash
	}
	if hash != old {
		if err := r.setRef(ctx, ref, old, hash, "branch: Created from HEAD"); err != nil {
			return fmt.Errorf("make branch %s: %w", name, err)
		}
	}
	if err := r.pointHead(ctx, ref, "checkout: moving from "+was+" to "+name); err != nil {
		return fmt.Errorf("switch to branch %s: %w", name, err)
	}
	return nil
}

// pointHead makes HEAD name a branch; no file changes.
func (r *Repo) pointHead(ctx context.Context, ref, message string) error {
	_, err := r.cli.run(ctx, gitCall{options: r.people.asKeeper(ctx), args: []string{"symbolic-ref", "-m", message, "HEAD", ref}})
	return err
}

// keptAgain is how often a commit is stored again that a git gc deleted before its ref was set.
const keptAgain = 5

// Keep makes a commit of a tree and sets a ref to it, whatever the ref was before. Both are on disk when it
// returns. It waits while git gc runs.
func (r *Repo) Keep(ctx context.Context, ref string, tree Tree, parents []string, message string) (hash string, err error) {
	r.AwaitGC(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	hash, err = r.keep(ctx, ref, tree, parents, message, r.people.keeper(ctx), time.Now())
	if err != nil {
		return "", fmt.Errorf("keep %s: %w", ref, err)
	}
	return hash, nil
}

// Pin protects a tree from pruning, by a ref to a commit of it without parents.
func (r *Repo) Pin(ctx context.Context, ref string, tree Tree) error {
	_, err := r.Keep(ctx, ref, tree, nil, "snapshot")
	return err
}

func (r *Repo) keep(ctx context.Context, ref string, tree Tree, parents []string, message string, who person, now time.Time) (string, error) {
	if !validRef(ref) {
		return "", fmt.Errorf("%q is not a valid ref name", ref)
	}
	id, err := parseID(string(tree))
	if err != nil {
		return "", err
	}
	if id == emptyTreeID { // the only tree that can be named without having been written
		if _, err := r.store.put(kindTree, nil); err != nil {
			return "", err
		}
	}
	subject, _, _ := strings.Cut(message, "\n")
	return r.named(ctx, func() (objectID, error) {
		if !r.store.has(id) {
			return id, fmt.Errorf("the snapshot %s is gone: somebody pruned the repository", tree)
		}
		return r.putCommit(id, parents, message, who, who, now)
	}, func(hash string) error { return r.forceRef(ctx, ref, hash, subject) })
}

// putCommit stores a commit object.
func (r *Repo) putCommit(tree objectID, parents []string, message string, author, committer person, when time.Time) (objectID, error) {
	if !strings.HasSuffix(message, "\n") {
		message += "\n"
	}
	c := object.Commit{TreeHash: plumbing.Hash(tree), Message: message,
		Author:    object.Signature{Name: author.name, Email: author.email, When: when},
		Committer: object.Signature{Name: committer.name, Email: committer.email, When: when}}
	for _, p := range parents {
		id, err := parseID(p)
		if err != nil {
			return objectID{}, err
		}
		c.ParentHashes = append(c.ParentHashes, plumbing.Hash(id))
	}
	return r.store.putCommit(&c)
}

// Refs lists the refs whose names start with prefix, which ends in a slash or names a directory of refs, sorted by
// name. Refs to anything but commits are left out.
func (r *Repo) Refs(ctx context.Context, prefix string) ([]Ref, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.HasPrefix(prefix, "refs/") {
		return nil, fmt.Errorf("list refs: %q is not below refs/", prefix)
	}
	hashes, names, err := r.refs.list(prefix)
	if err != nil {
		return nil, err
	}
	var out []Ref
	for _, n := range names {
		c, err := r.store.commit(hashes[n])
		if err != nil {
			continue
		}
		ref := Ref{Name: n, Hash: hashes[n], Message: c.Message, When: c.Committer.When}
		out = append(out, ref)
	}
	return out, nil
}

// DeleteRef deletes a ref; a missing one is no error.
func (r *Repo) DeleteRef(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.removeRef(ctx, name); err != nil {
		return fmt.Errorf("delete ref %s: %w", name, err)
	}
	return nil
}

// DeleteRefs deletes refs in one go; missing ones are no error.
func (r *Repo) DeleteRefs(ctx context.Context, names []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	var command strings.Builder
	for _, name := range names {
		if !validRef(name) {
			return fmt.Errorf("%q is not a valid ref name", name)
		}
		command.WriteString("delete " + name + "\n")
	}
	if err := r.updateRef(ctx, names[0], "descartes: removed", command.String()); err != nil {
		return fmt.Errorf("delete %d refs: %w", len(names), err)
	}
	return nil
}

// ReadNotes reads the notes of a ref like refs/notes/commits: their texts, by the object that each is about. Notes of
// more than 16 MiB are left out.
func (r *Repo) ReadNotes(_ context.Context, ref string) (map[string][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.refs.hash(ref)
	if err != nil || at == "" {
		return nil, err
	}
	n, err := r.notesAt(at)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	out := make(map[string][]byte, len(n.blobs))
	for on, id := range n.blobs {
		if out[on], err = r.noteText(id); err != nil {
			return nil, fmt.Errorf("read %s: %w", ref, err)
		}
	}
	return out, nil
}

const maxNote = 16 << 20

// noteText is the text of a note, nil for one that is too large.
func (r *Repo) noteText(id objectID) ([]byte, error) {
	if _, size, rc, err := r.store.open(id); err != nil {
		return nil, err
	} else if rc.Close(); size > maxNote {
		return nil, nil
	}
	return r.store.read(id, kindBlob)
}

// AddNotes adds texts to the notes of a ref, by the object that each is about; join merges an existing note with the new text. Without a change it
// makes no commit. What somebody else adds at the same time stays. The notes are on disk when it returns.
func (r *Repo) AddNotes(ctx context.Context, ref string, add map[string][]byte, join func(old, add []byte) []byte) error {
	r.AwaitGC(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changeNotes(ctx, ref, "Notes added by descartes", join, func() (map[string][]byte, string, error) { return add, "", nil })
}

// MergeNotes fetches a remote's notes under the same ref and joins them with ours. A remote without notes is not an error.
func (r *Repo) MergeNotes(ctx context.Context, remote, ref string, join func(old, add []byte) []byte) error {
	r.AwaitGC(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	said, err := r.cli.run(ctx, gitCall{args: []string{"ls-remote", "--", remote, ref}, env: r.reaching()})
	if err != nil || len(said) == 0 {
		return err
	}
	theirs, _, _ := strings.Cut(string(said), "\t")
	id, err := parseID(theirs)
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", remote, ref, err)
	}
	if !r.store.has(id) {
		if _, err := r.cli.run(ctx, gitCall{args: []string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", remote, ref}, env: r.reaching()}); err != nil {
			return err
		}
	}
	if ours, err := r.refs.hash(ref); err != nil || ours == theirs {
		return err
	} else if ours == "" {
		return r.setRef(ctx, ref, "", theirs, "notes: fetched from "+remote)
	}
	return r.changeNotes(ctx, ref, "Notes of "+remote+" merged by descartes", join, func() (map[string][]byte, string, error) {
		n, err := r.notesAt(theirs)
		if err != nil {
			return nil, "", err
		}
		add := map[string][]byte{}
		for on, id := range n.blobs {
			if add[on], err = r.noteText(id); err != nil {
				return nil, "", err
			}
		}
		return add, theirs, nil
	})
}

// notesPatience is how often a change of notes is retried after somebody else's came first, and notesLocked how often after a failure without one:
// another process may have the lock.
const (
	notesPatience = 50
	notesLocked   = 5
)

// changeNotes makes the commit that adds notes, on top of where the ref stands. what gives also a second parent, "" for none.
func (r *Repo) changeNotes(ctx context.Context, ref, message string, join func(old, add []byte) []byte, what func() (map[string][]byte, string, error)) (err error) {
	locked := 0
	for try := range notesPatience {
		var at, head string
		if at, err = r.refs.hash(ref); err == nil {
			head, err = r.notesWith(ctx, at, message, join, what)
		}
		if err != nil || head == at {
			break
		}
		if err = r.setRef(ctx, ref, at, head, "notes: "+message); err == nil {
			return nil
		}
		now, rerr := r.refs.hash(ref)
		if now == at {
			locked++
		}
		if rerr != nil || locked > notesLocked || ctx.Err() != nil {
			break
		}
		time.Sleep(rand.N(time.Duration(min(try+1, 10)) * 5 * time.Millisecond)) // so that the others come through
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	return nil
}

// notesWith stores the commit of notes with more of them and returns it, or at where it would change nothing.
func (r *Repo) notesWith(ctx context.Context, at, message string, join func(old, add []byte) []byte, what func() (map[string][]byte, string, error)) (string, error) {
	n := notes{blobs: map[string]objectID{}}
	var parents []string
	var err error
	if at != "" {
		parents = []string{at}
		if n, err = r.notesAt(at); err != nil {
			return "", err
		}
	}
	add, second, err := what()
	if err != nil {
		return "", err
	}
	changed := false
	for on, text := range add {
		var old []byte
		if id, ok := n.blobs[on]; ok {
			if old, err = r.store.read(id, kindBlob); err != nil {
				return "", err
			}
		}
		joined := join(old, text)
		if bytes.Equal(joined, old) {
			continue
		}
		if n.blobs[on], err = r.store.put(kindBlob, joined); err != nil {
			return "", err
		}
		changed = true
	}
	if second != "" && !r.LeadsTo(ctx, at, second) {
		parents, changed = append(parents, second), true
	}
	if !changed {
		return at, nil
	}
	tree, err := r.putNotes(n)
	if err != nil {
		return "", err
	}
	who := r.people.keeper(ctx)
	commit, err := r.putCommit(tree, parents, message, who, who, time.Now())
	if err != nil {
		return "", err
	}
	return commit.String(), r.store.writeOut()
}

// notes is a tree of notes: blobs by the object that each is about, and whatever else the tree has.
type notes struct {
	blobs map[string]objectID
	other []treeItem
}

// notesAt reads the tree of a commit of notes. Their names are spread over folders of two digits, as many levels as git found best.
func (r *Repo) notesAt(commit string) (notes, error) {
	n := notes{blobs: map[string]objectID{}}
	top, err := r.treeOf(commit)
	if err != nil {
		return n, err
	}
	var read func(prefix string, tree objectID) error
	read = func(prefix string, tree objectID) error {
		b, err := r.store.tree(tree)
		if err != nil {
			return err
		}
		items, err := parseTree(b)
		if err != nil {
			return err
		}
		for _, e := range items {
			e.name = strings.Clone(e.name)
			switch name := prefix + e.name; {
			case !isHex(e.name) || len(name) > 40 || e.isDir() && len(e.name) != 2 || !e.isDir() && len(name) != 40:
				if prefix == "" {
					n.other = append(n.other, e)
				}
			case e.isDir():
				if err := read(name, e.id); err != nil {
					return err
				}
			default:
				n.blobs[name] = e.id
			}
		}
		return nil
	}
	return n, read("", top)
}

// putNotes stores a tree of notes, in folders where git makes them: at each level where two or more notes begin with each of
// the 16 next digits.
func (r *Repo) putNotes(n notes) (objectID, error) {
	names := sortedKeys(n.blobs)
	var put func(names []string, depth int, other []treeItem) (objectID, error)
	put = func(names []string, depth int, other []treeItem) (objectID, error) {
		items := slices.Clone(other)
		var digits [256]int
		for _, name := range names {
			digits[name[depth]]++
		}
		deep := depth < 38 && !slices.ContainsFunc([]byte("0123456789abcdef"), func(d byte) bool { return digits[d] < 2 })
		for len(names) > 0 {
			if !deep {
				items = append(items, treeItem{names[0][depth:], modeRegular, n.blobs[names[0]]})
				names = names[1:]
				continue
			}
			end := 1
			for end < len(names) && names[end][:depth+2] == names[0][:depth+2] {
				end++
			}
			id, err := put(names[:end], depth+2, nil)
			if err != nil {
				return objectID{}, err
			}
			items = append(items, treeItem{names[0][depth : depth+2], modeDir, id})
			names = names[end:]
		}
		slices.SortFunc(items, func(a, b treeItem) int { return compareEntries(a.name, a.isDir(), b.name, b.isDir()) })
		var tree []byte
		for _, e := range items {
			tree = appendEntry(tree, e.mode, e.name, e.id)
		}
		return r.store.put(kindTree, tree)
	}
	return put(names, 0, n.other)
}

// LeadsTo reports whether one commit is another, or a descendant of it.
func (r *Repo) LeadsTo(ctx context.Context, from, to string) bool {
	_, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", "--is-ancestor", to, from}})
	return err == nil
}
