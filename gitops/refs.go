package gitops

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/crash"
	"descartes/internal/lazyregexp"
	"descartes/internal/oscall"
	"descartes/internal/proc"
)

// head says where HEAD is: the branch that it names ("" when detached) and the commit ("" on a branch without one).
// Mostly a file tells without a process.
func (r *Repo) head(ctx context.Context) (branch, hash string, err error) {
	at := filepath.Join(r.l.gitDir, "HEAD")
	text, err := os.ReadFile(at)
	if to, lerr := os.Readlink(at); lerr == nil { // as in old repositories
		text, err = []byte("ref: "+to), nil
	}
	branch = strings.TrimPrefix(strings.TrimSpace(string(text)), "ref: ")
	if isID(branch) {
		return "", branch, nil
	}
	// another name of a branch
	if to, _ := os.ReadFile(filepath.Join(r.l.commonDir, filepath.FromSlash(branch))); branch == elsewhere ||
		bytes.HasPrefix(to, []byte("ref: ")) {
		if branch, err = r.cli.word(ctx, "", "symbolic-ref", "-q", "HEAD"); exitCode(err) == 1 {
			err = nil
		}
	}
	if err == nil && branch != "" {
		hash, err = r.RefCommit(branch)
	}
	if err == nil && hash == "" {
		if hash, err = r.cli.word(ctx, "", "rev-parse", "--verify", "-q", "HEAD"); exitCode(err) == 1 {
			err = nil
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("read HEAD: %w", err)
	}
	return branch, hash, nil
}

// elsewhere is what the file HEAD says where a reftable has it.
const elsewhere = "refs/heads/.invalid"

// RefCommit is the commit that a ref names, "" where there is no such ref.
func (r *Repo) RefCommit(name string) (string, error) {
	f, err := r.objects.read(name, 0)
	return f.id, err
}

// listRefs are the refs below some prefixes, by name.
func (r *Repo) listRefs(ctx context.Context, below ...string) (map[string]string, error) {
	b, err := r.cli.run(ctx, gitCall{args: append([]string{"for-each-ref", "--format=%(objectname) %(refname)"},
		below...)})
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(b)) {
		hash, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		found[name] = hash
	}
	return found, nil
}

// NoRoom names a ref that keeps another from being made, as a file does a folder: "" for none.
func (r *Repo) NoRoom(ctx context.Context, ref string) (string, error) {
	for above := path.Dir(ref); above != "refs/heads" && above != "."; above = path.Dir(above) {
		if at, err := r.RefCommit(above); err != nil || at != "" {
			return above, err
		}
	}
	below, err := r.listRefs(ctx, ref+"/")
	if len(below) == 0 {
		return "", err
	}
	return sortedKeys(below)[0], err
}

// RefsWith lists the refs of a pattern, as git for-each-ref has it, that contain a commit.
func (r *Repo) RefsWith(ctx context.Context, commit, pattern string) ([]string, error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"for-each-ref", "--format=%(refname)", "--contains=" + commit,
		pattern}})
	if err != nil {
		return nil, fmt.Errorf("list the refs that contain %s: %w", shortHash(commit), err)
	}
	return strings.Fields(string(b)), nil
}

// privateRefs is where attempts are kept. Only the loop that holds the working tree's lock writes there.
const privateRefs = "refs/descartes/"

func shortHash(h string) string {
	if h == "" {
		return "nothing"
	}
	return h[:min(len(h), 12)]
}

// MoveRef moves a ref that is still at old ("" is none), and HEAD's log with the branch that is checked out. "HEAD" is
// the detached one itself.
func (r *Repo) MoveRef(ctx context.Context, name, old, new, message string) error {
	if old == "" {
		return r.updateRefs(ctx, message, "create "+name+"\x00"+new+"\x00")
	}
	return r.updateRefs(ctx, message, "update "+name+"\x00"+new+"\x00"+old+"\x00")
}

// SetRef sets a ref whatever it is at.
func (r *Repo) SetRef(ctx context.Context, name, new, message string) error {
	return r.updateRefs(ctx, message, "update "+name+"\x00"+new+"\x00\x00")
}

// removeRef deletes a ref, packed or not, with its log. A missing ref is no error.
func (r *Repo) removeRef(ctx context.Context, name string) error {
	if hash, err := r.RefCommit(name); err == nil && hash == "" {
		return nil
	}
	return r.updateRefs(ctx, "descartes: removed", "delete "+name+"\x00\x00")
}

// lockWait has git wait for another command's lock of a ref, as long as we do.
var lockWait = []string{"-c", fmt.Sprintf("core.filesRefLockTimeout=%d", lockPatience.Milliseconds())}

// held finds the lock in git's words.
var held = lazyregexp.New(`Unable to create '(.+)\.lock': File exists`)

// updateRefs gives git commands for refs, each part of which ends in a zero byte; it does all or none of them.
func (r *Repo) updateRefs(ctx context.Context, message, commands string) error {
	name, _, _ := strings.Cut(commands, "\x00")
	_, name, _ = strings.Cut(name, " ")
	crash.Point("git: before " + name)
	for try := 1; ; try++ {
		_, err := r.cli.run(ctx, gitCall{options: slices.Concat(lockWait, r.asKeeper()),
			args:  []string{"update-ref", "--no-deref", "-m", strings.Join(strings.Fields(message), " "), "-z", "--stdin"},
			stdin: []byte(commands)})
		if err == nil {
			crash.Point("git: after " + name)
			return nil
		}
		m := held.FindStringSubmatch(err.Error())
		switch {
		case m == nil:
			return err
		case try == 3 || !r.freeOurs(filepath.Clean(m[1]+".lock")):
			return lockedBy(m[1], err)
		}
	}
}

// freeOurs removes the lock of a ref of our own that a git left which was killed, and reports whether it did: nobody
// gave it up in the time that git waited for it, and no git is at work here.
func (r *Repo) freeOurs(lock string) bool {
	own := filepath.Join(r.l.commonDir, "refs", "descartes") + string(filepath.Separator)
	return strings.HasPrefix(lock, own) && !r.othersAtWork() && os.Remove(lock) == nil
}

// heldRef is a ref that is about to move, locked with HEAD where that names it: nobody else moves either, and git lets
// go of both when we die.
type heldRef struct {
	peer *proc.Peer // nil once it has ended
	name string
	said *bufio.Reader
}

// saysReady is the first version whose update-ref says at once that it has the locks.
var saysReady = Version{2, 34}

// hold locks a ref that is at from, "" being none, for a move to a commit.
func (r *Repo) hold(ctx context.Context, name, from, to string) (*heldRef, error) {
	command := "update " + name + "\x00" + to + "\x00" + from + "\x00"
	if from == "" {
		command = "create " + name + "\x00" + to + "\x00"
	}
	const message = "descartes: forward"
	for range 2 {
		crash.Point("git: before " + name)
		argv := append([]string{r.cli.program, "-C", r.l.gitDir, "--git-dir=" + r.l.gitDir, "-c",
			"core.hooksPath=" + os.DevNull}, slices.Concat(r.cli.version.durable(), lockWait, r.asKeeper())...)
		peer, err := proc.StartPeer(append(argv, "update-ref", "--no-deref", "-m", message, "-z", "--stdin"),
			append(slices.Clip(r.cli.env), outside(r.cli.env, r.l.root)))
		if err != nil {
			return nil, err
		}
		h := &heldRef{peer: peer, name: name, said: bufio.NewReader(peer.Out)}
		if h.ask("start\x00"+command+"prepare\x00", "prepare", r.cli.version.Before(saysReady), r.lockOf(name)) {
			return h, nil
		}
		h.release()
		if at, rerr := r.RefCommit(name); rerr == nil && at != from {
			return nil, movedOn(name, at, from)
		}
		// what git complained of is lost
		if err := r.updateRefs(ctx, message, "start\x00"+command+"prepare\x00abort\x00"); err != nil {
			return nil, err
		}
	}
	return nil, &RefusedError{Reason: "git cannot lock " + shortBranch(name), Hint: "try again"}
}

// lockOf is the file that locks a ref, where refs are files.
func (r *Repo) lockOf(name string) string {
	if name == "HEAD" {
		return filepath.Join(r.l.gitDir, "HEAD.lock")
	}
	return filepath.Join(r.l.commonDir, filepath.FromSlash(name)+".lock")
}

// ask gives git commands, and waits until it says that it has done the last. One that is mute about it is believed by
// the lock that it makes.
func (h *heldRef) ask(commands, last string, mute bool, lock string) bool {
	if _, err := io.WriteString(h.peer.In, commands); err != nil {
		return false
	}
	for mute {
		if exists(lock) {
			return true
		}
		if _, ended := h.peer.Ended(10 * time.Millisecond); ended {
			return false
		}
	}
	for {
		line, err := h.said.ReadString('\n')
		if err != nil {
			return false
		}
		if line == last+": ok\n" {
			return true
		}
	}
}

// commit moves the ref.
func (h *heldRef) commit() error {
	_, err := io.WriteString(h.peer.In, "commit\x00")
	if err = cmp.Or(err, h.peer.In.Close()); err == nil {
		if exit, ended := h.peer.Ended(slotPatience); !ended || exit.Code != 0 || exit.Signal != 0 {
			err = errors.New("git update-ref gave up")
		}
	}
	h.release()
	if err != nil {
		return fmt.Errorf("move %s: %w", h.name, err)
	}
	crash.Point("git: after " + h.name)
	return nil
}

// release lets go of a ref that has not moved.
func (h *heldRef) release() {
	if h.peer != nil {
		h.peer.End(lockPatience)
		h.peer.Out.Close()
		h.peer = nil
	}
}

// CanBranch reports, as a RefusedError, why a run cannot commit to a branch of that name: what it has conflicts with
// HEAD, which is a ClashError, or another working tree has it. ahead is its commit where it goes on from commits of its
// own, also where these clash. files are those that a run writes whatever the two have of them.
func (r *Repo) CanBranch(ctx context.Context, name string, files map[string][]byte) (ahead string, err error) {
	at, hash, old, err := r.branchFor(ctx, name)
	if err == nil && old != "" && hash != "" && at != "refs/heads/"+name && !r.LeadsTo(ctx, hash, old) &&
		!r.LeadsTo(ctx, old, hash) {
		_, err = r.joined(ctx, name, old, hash, "HEAD", files)
	}
	if _, clash := errors.AsType[*ClashError](err); clash {
		return old, err
	}
	if err != nil || at == "refs/heads/"+name || old == hash || r.LeadsTo(ctx, hash, old) {
		return "", err
	}
	return old, nil
}

// JoinBranches makes a commit with a tree that joins two, which no ref names yet.
func (r *Repo) JoinBranches(ctx context.Context, tree Tree, from, into, on, with string) (string, error) {
	return r.commitByUs(ctx, tree, "Merge "+from+" into "+into+"\n", on, with)
}

// branchFor is where HEAD stands, and where a branch does that a run is to commit to; old is "" where it is to be
// made.
func (r *Repo) branchFor(ctx context.Context, name string) (at, hash, old string, err error) {
	ref := "refs/heads/" + name
	if _, err := r.cli.run(ctx, gitCall{args: []string{"check-ref-format", "--branch", name}}); err != nil {
		return "", "", "", &RefusedError{Reason: fmt.Sprintf("%q is not a valid branch name", name)}
	}
	if at, hash, err = r.head(ctx); err == nil && at != ref {
		old, err = r.RefCommit(ref)
	}
	if err != nil {
		return "", "", "", fmt.Errorf("take branch %s: %w", name, err)
	}
	why := r.usedBy(ctx, ref)
	if old != "" && hash != "" {
		if err := r.Meet(ctx, hash, old); err != nil {
			return "", "", "", err
		}
	}
	if old != "" && why != "" {
		err = &RefusedError{Reason: fmt.Sprintf("branch %q %s", name, why),
			Hint: "start there, or choose another name"}
	}
	return at, hash, old, err
}

// joined is the tree of a branch with a commit merged in that is called from, and with files as they are given. What
// conflicts beside them is a RefusedError.
func (r *Repo) joined(ctx context.Context, name, old, hash, from string, files map[string][]byte) (Tree, error) {
	tree, met, err := r.Merge(ctx, old, hash)
	if err != nil {
		return "", err
	}
	met = slices.DeleteFunc(met, func(c Conflict) bool { return files[c.Path] != nil })
	if len(met) > 0 {
		return "", &ClashError{&RefusedError{
			Reason: fmt.Sprintf("branch %q and %s have both moved on, and conflict in %s", name, from, met[0].Path),
			Hint: r.around(ctx, name, fmt.Sprintf("git switch %s && git merge %s", name, shortHash(hash))) +
				", then start again, or choose another name"}, hash}
	}
	was, err := r.treeOf(old)
	if err != nil {
		return "", err
	}
	return r.treeOfWave(ctx, Wave{Tree: tree, Files: files}, was)
}

// TakeBranch makes ready a branch that a run is to commit to: it moves up to HEAD where it has nothing that HEAD
// lacks, takes in by a merge what HEAD got since where both have moved on, and stays where it is ahead. One that is
// not there stays so. One that conflicts is a RefusedError. See CanBranch for files.
func (r *Repo) TakeBranch(ctx context.Context, name string, files map[string][]byte) error {
	at, hash, old, err := r.branchFor(ctx, name)
	if err != nil || old == "" || at == "refs/heads/"+name {
		return err
	}
	return r.takeIn(ctx, name, old, hash, cmp.Or(shortBranch(at), shortHash(hash)), files)
}

func (r *Repo) forward(ctx context.Context, ref, old, to string) error {
	if old == to {
		return nil
	}
	return r.MoveRef(ctx, ref, old, to, "descartes: forward")
}

// takeIn moves a branch on to a commit that is called from. Where each has what the other lacks a merge joins them;
// files are as TakeBranch has them.
func (r *Repo) takeIn(ctx context.Context, name, old, hash, from string, files map[string][]byte) error {
	ref := "refs/heads/" + name
	switch {
	case hash == "" || old == hash || old != "" && r.LeadsTo(ctx, old, hash):
		return nil
	case old == "" || r.LeadsTo(ctx, hash, old):
		return r.forward(ctx, ref, old, hash)
	}
	tree, err := r.joined(ctx, name, old, hash, from, files)
	if err != nil {
		return err
	}
	to, err := r.commitByUs(ctx, tree, "Merge "+from+" into "+name+"\n", old, hash)
	if err != nil {
		return err
	}
	return r.MoveRef(ctx, ref, old, to, "descartes: merge "+from)
}

// TakeTheirs moves a branch on to a commit of it that a remote has, by a merge where both moved on; the branch is made
// where it is missing. One that conflicts, or that a working tree has checked out, is a RefusedError. See CanBranch
// for files.
func (r *Repo) TakeTheirs(ctx context.Context, name, remote, hash string, files map[string][]byte) error {
	ref := "refs/heads/" + name
	old, err := r.RefCommit(ref)
	if err == nil && old != "" {
		err = r.Meet(ctx, old, hash)
	}
	if err != nil {
		return err
	}
	if why := r.usedBy(ctx, ref); why != "" && old != hash {
		return &RefusedError{Reason: fmt.Sprintf("branch %q %s", name, why),
			Hint: "start there, or choose another name"}
	}
	return r.takeIn(ctx, name, old, hash, remote+"/"+name, files)
}

func shortBranch(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// setHead makes HEAD of a slot a commit, or that of a branch without one.
func (r *Repo) setHead(ctx context.Context, commit string) error {
	if commit != "" {
		return r.SetRef(ctx, "HEAD", commit, "descartes: slot")
	}
	err := r.DeleteRefs(ctx, unborn)
	if err == nil {
		err = r.pointHead(ctx, unborn, "descartes: slot")
	}
	return err
}

// pointHead makes HEAD name a branch; no file changes.
func (r *Repo) pointHead(ctx context.Context, ref, message string) error {
	_, err := r.cli.run(ctx, gitCall{options: r.asKeeper(), args: []string{"symbolic-ref", "-m", message, "HEAD",
		ref}})
	return err
}

// keptAgain is how often a commit is stored again that a git gc deleted before its ref was set.
const keptAgain = 5

// mostLoose is how many refs are kept before git packs them. Git reads a file for each that is not: with 1,500 of them
// a fetch of one commit takes 0.05 s of CPU, and 0.014 s once they are packed.
const mostLoose = 200

// Keep makes a commit of a tree and sets a ref to it, whatever the ref was before. Both are on disk when it
// returns. It waits while git gc runs.
func (r *Repo) Keep(ctx context.Context, ref string, tree Tree, parents []string, message string) (hash string,
	err error) {
	if !strings.HasPrefix(ref, privateRefs) {
		return "", fmt.Errorf("keep %s: it is not below %s", ref, privateRefs)
	}
	r.AwaitGC(ctx)
	hash, err = r.keep(ctx, ref, tree, parents, message)
	if err != nil {
		return "", fmt.Errorf("keep %s: %w", ref, err)
	}
	if r.loose.Add(1)%mostLoose == 0 { // where another git has the lock, the next time
		_, _ = r.cli.run(ctx, gitCall{options: r.asKeeper(), args: []string{"pack-refs", "--all"}})
	}
	return hash, nil
}

func (r *Repo) keep(ctx context.Context, ref string, tree Tree, parents []string, message string) (string, error) {
	subject, _, _ := strings.Cut(message, "\n")
	now := time.Now()
	return r.named(ctx, func() (string, error) {
		return r.link(ctx, Link{Tree: tree, Message: message, When: now}, parents...)
	}, func(hash string) error { return r.SetRef(ctx, ref, hash, subject) })
}

// Refs lists the refs whose names start with prefix, which ends in a slash or names a directory of refs, sorted by
// name. Refs to anything but commits are left out.
func (r *Repo) Refs(ctx context.Context, prefix string) ([]Ref, error) {
	if !strings.HasPrefix(prefix, "refs/") {
		return nil, fmt.Errorf("list refs: %q is not below refs/", prefix)
	}
	found, err := r.listRefs(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var out []Ref
	for _, name := range sortedKeys(found) {
		if c, err := r.objects.commit(found[name]); err == nil {
			out = append(out, Ref{Name: name, Hash: found[name], Message: c.Message, When: c.When})
		}
	}
	return out, nil
}

// DeleteRefs deletes refs in one go; missing ones are no error.
func (r *Repo) DeleteRefs(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	if err := r.updateRefs(ctx, "descartes: removed", "delete "+strings.Join(names, "\x00\x00delete ")+
		"\x00\x00"); err != nil {
		return fmt.Errorf("delete %d refs: %w", len(names), err)
	}
	return nil
}

const maxNote = 16 << 20

// ReadNotes reads the notes of a ref like refs/notes/commits: their texts, by the object that each is about. Notes of
// more than 16 MiB are left out.
func (r *Repo) ReadNotes(ctx context.Context, ref string) (map[string][]byte, error) {
	at, err := r.RefCommit(ref)
	if err != nil || at == "" {
		return nil, err
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"notes", "--ref=" + ref, "list"}})
	texts := map[string][]byte{}
	for line := range strings.Lines(string(b)) {
		blob, on, _ := strings.Cut(strings.TrimSpace(line), " ")
		f, rerr := r.objects.read(blob, maxNote)
		texts[on], err = f.data, cmp.Or(err, rerr)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return texts, nil
}

// ReadNote reads the note on a commit, nil for none.
func (r *Repo) ReadNote(ref, on string) ([]byte, error) {
	at, err := r.RefCommit(ref)
	if err != nil || at == "" {
		return nil, err
	}
	tree, err := r.treeOf(at)
	view := r.view(tree)
	for i := 2; err == nil && i < 12; i += 3 { // git spreads many over folders of two digits
		var it treeItem
		if it, err = view.file(on); it.mode != 0 {
			f, err := r.objects.read(it.id, maxNote)
			return f.data, err
		}
		on = on[:i] + "/" + on[i:]
	}
	return nil, err
}

// AddNotes adds texts to the notes of a ref, by the commit that each is about; join merges an existing note with the
// new text. Without a change it makes no commit. What another run here adds at the same time stays. The notes are on
// disk when it returns.
func (r *Repo) AddNotes(ctx context.Context, ref string, add map[string][]byte,
	join func(old, add []byte) []byte) error {
	r.AwaitGC(ctx)
	dir, err := os.Open(r.l.commonDir) // git notes does not look whether the ref has moved since it read it
	if err == nil {
		defer dir.Close()
		err = oscall.Flock(int(dir.Fd()), oscall.LOCK_EX)
	}
	for _, on := range sortedKeys(add) {
		var have []byte
		if err == nil {
			have, err = r.ReadNote(ref, on)
		}
		text, blob := join(have, add[on]), ""
		if err == nil && !bytes.Equal(text, have) {
			if blob, err = r.put(ctx, "blob", text); err == nil {
				_, err = r.cli.run(ctx, gitCall{options: r.asKeeper(),
					args: []string{"notes", "--ref=" + ref, "add", "-f", "-C", blob, on}})
			}
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	return nil
}

// MergeNotes fetches a remote's notes and joins them with ours, line by line. A remote without notes is not an error.
func (r *Repo) MergeNotes(ctx context.Context, remote, ref string) error {
	names, err := r.RemoteRefs(ctx, remote, ref)
	if err != nil || len(names) == 0 {
		return err
	}
	const fetched = privateRefs + "fetched-notes"
	if err = r.Fetch(ctx, remote, "+"+ref+":"+fetched); err == nil {
		_, err = r.cli.run(ctx, gitCall{options: r.asKeeper(),
			args: []string{"notes", "--ref=" + ref, "merge", "-q", "-s", "cat_sort_uniq", fetched}})
	}
	if err != nil {
		return fmt.Errorf("merge the notes of %s: %w", remote, err)
	}
	return nil
}

// near is how many commits are looked at here before git is asked, which costs a process.
const near = 20

// LeadsTo reports whether one commit is another, or a descendant of it.
func (r *Repo) LeadsTo(ctx context.Context, from, to string) bool {
	for at, n := from, 0; n < near; n++ {
		if at == to {
			return true
		}
		c, err := r.objects.commit(at)
		if err != nil || len(c.Parents) == 0 {
			break
		}
		at = c.Parents[0]
	}
	_, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", "--is-ancestor", to, from}})
	return err == nil
}
