package gitops

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// File modes as trees have them; 0 stands for no file.
const (
	modeType    = 0o170000
	modeRegular = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
	modeDir     = 0o040000
)

// treeItem is one entry of a tree.
type treeItem struct {
	mode uint32
	id   string
}

var errTreeFormat = errors.New("malformed tree object")

// Contents reads the files of a tree, each folder once. It is not safe for concurrent use.
type Contents struct {
	objects *objects
	root    Tree
	dirs    map[string]map[string]treeItem
}

// file is the entry at a path, the zero one where there is none or a directory.
func (v *Contents) file(name string) (treeItem, error) {
	dir, base := path.Split(name)
	items, err := v.list(strings.TrimSuffix(dir, "/"))
	if it := items[base]; it.mode != modeDir {
		return it, err
	}
	return treeItem{}, err
}

// list reads a directory, "" for the top; a missing one is empty.
func (v *Contents) list(dir string) (map[string]treeItem, error) {
	if items, ok := v.dirs[dir]; ok {
		return items, nil
	}
	id := string(v.root)
	if dir != "" {
		above, base := path.Split(dir)
		items, err := v.list(strings.TrimSuffix(above, "/"))
		it := items[base]
		if err != nil || it.mode != modeDir {
			return nil, err
		}
		id = it.id
	}
	b, err := v.objects.readAs(id, "tree")
	if err != nil {
		return nil, err
	}
	items := map[string]treeItem{}
	for n := len(id) / 2; len(b) > 0; b = b[n:] {
		mode, after, _ := bytes.Cut(b, []byte{' '})
		name, after, ok := bytes.Cut(after, []byte{0})
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if !ok || err != nil || len(after) < n {
			return nil, errTreeFormat
		}
		items[string(name)], b = treeItem{uint32(m), fmt.Sprintf("%x", after[:n])}, after
	}
	if v.dirs == nil {
		v.dirs = map[string]map[string]treeItem{}
	}
	v.dirs[dir] = items
	return items, nil
}

func (r *Repo) view(tree Tree) *Contents { return &Contents{objects: r.objects, root: tree} }

// Contents opens a tree to read it.
func (r *Repo) Contents(tree Tree) (*Contents, error) {
	c := r.view(tree)
	_, err := c.list("")
	return c, err
}

// Content is a file in a tree.
type Content struct {
	Data       []byte // of a link its target; nil where it is longer than was asked for, and of a submodule
	Size       int64
	Executable bool
	Link       bool
	Module     bool
}

// File reads a file of at most limit bytes; a longer one comes without data. Nil: there is no file at the path.
func (c *Contents) File(path string, limit int64) (*Content, error) {
	it, err := c.file(path)
	if err != nil || it.mode == 0 {
		return nil, err
	}
	f := &Content{Executable: it.mode == modeExec, Link: it.mode == modeLink, Module: it.mode == modeGitlink}
	if f.Module {
		return f, nil
	}
	is, err := c.objects.read(it.id, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	f.Size, f.Data = is.size, is.data
	return f, nil
}

// Folder reports whether there is a folder at a path with something in it.
func (c *Contents) Folder(path string) (bool, error) {
	list, err := c.list(path)
	return len(list) > 0, err
}

// FileAt is a file as a commit has it, nil where it has none; one of more than limit bytes is an error.
func (r *Repo) FileAt(_ context.Context, commit, name string, limit int64) ([]byte, error) {
	tree, err := r.treeOf(commit)
	if err != nil {
		return nil, err
	}
	f, err := r.view(tree).File(name, limit)
	switch {
	case err != nil || f == nil || f.Module:
		return nil, err
	case f.Data == nil:
		return nil, fmt.Errorf("%s of %s has more than %d bytes", name, shortHash(commit), limit)
	}
	return f.Data, nil
}

// Bundle is a tree of plain files with this content, byte for byte. Its folders 0, 1 and so on are those trees that
// are not "".
func (r *Repo) Bundle(ctx context.Context, files map[string][]byte, folders ...Tree) (Tree, error) {
	items := map[string]treeItem{}
	for i, folder := range folders {
		if folder != "" {
			items[strconv.Itoa(i)] = treeItem{modeDir, string(folder)}
		}
	}
	for name, data := range files {
		id, err := r.put(ctx, "blob", data)
		if err != nil {
			return "", fmt.Errorf("store %s: %w", name, err)
		}
		items[name] = treeItem{modeRegular, id}
	}
	return r.edit(ctx, r.EmptyTree(), items)
}

// WithContent is a tree in which some files have this content, as git stores it. New ones are plain files.
func (r *Repo) WithContent(ctx context.Context, tree Tree, files map[string][]byte) (Tree, error) {
	view, edits := r.view(tree), map[string]treeItem{}
	for _, path := range sortedKeys(files) {
		it, err := view.file(path)
		if err == nil {
			it.id, err = r.cli.feed(ctx, files[path], "hash-object", "-w", "--stdin", "--path="+path)
		}
		if err != nil {
			return "", fmt.Errorf("store %s: %w", path, err)
		}
		if it.mode != modeExec {
			it.mode = modeRegular
		}
		edits[path] = it
	}
	return r.edit(ctx, tree, edits)
}

// TreeWith returns a tree with some paths as in another one; paths that the other lacks are removed.
func (r *Repo) TreeWith(ctx context.Context, tree, from Tree, paths []string) (Tree, error) {
	if from == tree {
		return tree, nil
	}
	view, edits := r.view(from), map[string]treeItem{}
	for _, path := range paths {
		var err error
		if edits[path], err = view.file(path); err != nil {
			return "", err
		}
	}
	return r.edit(ctx, tree, edits)
}

// edit is a tree with other files at some paths; mode 0 removes one.
func (r *Repo) edit(ctx context.Context, tree Tree, edits map[string]treeItem) (Tree, error) {
	if len(edits) == 0 {
		return tree, nil
	}
	id, err := r.editFolder(ctx, r.view(tree), "", edits)
	return Tree(id), err
}

// editFolder is edit for a folder; an empty one is "" but at the top.
func (r *Repo) editFolder(ctx context.Context, view *Contents, dir string, edits map[string]treeItem) (string, error) {
	was, err := view.list(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return "", err
	}
	items, below := maps.Clone(was), map[string]map[string]treeItem{}
	if items == nil {
		items = map[string]treeItem{}
	}
	for name, it := range edits {
		if folder, rest, ok := strings.Cut(name, "/"); !ok {
			if it.mode != 0 || items[name].mode != modeDir {
				delete(items, name)
			}
		} else if below[folder] == nil {
			below[folder] = map[string]treeItem{rest: it}
		} else {
			below[folder][rest] = it
		}
	}
	for folder, in := range below {
		switch id, err := r.editFolder(ctx, view, dir+folder+"/", in); {
		case err != nil:
			return "", err
		case id != "":
			items[folder] = treeItem{modeDir, id}
		case items[folder].mode == modeDir:
			delete(items, folder)
		}
	}
	for name, it := range edits { // in the place of a folder, too
		if it.mode != 0 && !strings.Contains(name, "/") {
			items[name] = it
		}
	}
	if len(items) == 0 && dir != "" {
		return "", nil
	}
	order := map[string]string{} // git sorts a folder as if its name ended in a slash
	for name, it := range items {
		if it.mode == modeDir {
			order[name+"/"] = name
		} else {
			order[name] = name
		}
	}
	var b bytes.Buffer
	for _, key := range sortedKeys(order) {
		it := items[order[key]]
		id, err := hex.DecodeString(it.id)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%o %s\x00%s", it.mode, order[key], id)
	}
	return r.put(ctx, "tree", b.Bytes())
}

// Changed lists what differs between two trees, protected paths left out, sorted by path.
func (r *Repo) Changed(ctx context.Context, from, to Tree) ([]Change, error) {
	var out []Change
	err := r.diff(ctx, from, to, func(path string, a, b treeItem) {
		if !r.guard.covers(path) {
			out = append(out, Change{Path: path, Op: opOf(a, b), Module: b.mode == modeGitlink})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("compare snapshots: %w", err)
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func opOf(a, b treeItem) byte {
	switch {
	case a.mode == 0:
		return 'A'
	case b.mode == 0:
		return 'D'
	case a.mode&modeType != b.mode&modeType:
		return 'T'
	}
	return 'M'
}

// diff calls each for every file that differs. Names that must not reach a file system are an error, whoever made the
// tree.
func (r *Repo) diff(ctx context.Context, from, to Tree, each func(path string, was, is treeItem)) error {
	if from == to {
		return nil
	}
	if !isID(string(from)) || !isID(string(to)) {
		return fmt.Errorf("%q or %q is no tree", from, to)
	}
	b, err := r.rawDiff(ctx, from, to)
	for fields := nulSplit(b); err == nil && len(fields) > 1; fields = fields[2:] {
		var was, is treeItem
		if _, err = fmt.Sscanf(fields[0], ":%o %o %s %s", &was.mode, &is.mode, &was.id, &is.id); err != nil {
			return fmt.Errorf("git diff-tree says %q: %w", fields[0], err)
		}
		if was.mode == 0 {
			was.id = ""
		}
		if is.mode == 0 {
			is.id = ""
		}
		each(fields[1], was, is)
	}
	return err
}

// diffs are git's lists of what differs, the last ones: of an attempt several ask for the same.
type diffs struct {
	mu   sync.Mutex
	list map[[2]Tree][]byte
}

func (r *Repo) rawDiff(ctx context.Context, from, to Tree) ([]byte, error) {
	r.diffs.mu.Lock()
	defer r.diffs.mu.Unlock()
	pair := [2]Tree{from, to}
	if b, ok := r.diffs.list[pair]; ok {
		return b, nil
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-z", "--no-renames",
		"--ignore-submodules=none", string(from), string(to)}})
	if err == nil && len(b) < 1<<20 {
		if r.diffs.list == nil || len(r.diffs.list) == 8 {
			r.diffs.list = map[[2]Tree][]byte{}
		}
		r.diffs.list[pair] = b
	}
	return b, err
}

// statLines is how long a diff stat may be, its summary included.
const statLines = 40

// DiffStat describes how two trees differ, as `git diff --stat` does: one line for each file, at most 40 in all, and
// a summary. It is "" where nothing differs.
func (r *Repo) DiffStat(ctx context.Context, from, to Tree) (string, error) {
	return r.diffText(ctx, from, to, "--no-renames", fmt.Sprintf("--stat=100,80,%d", statLines-2))
}

// DiffSize is the number of lines added and removed between two trees; a binary file counts as one.
func (r *Repo) DiffSize(ctx context.Context, from, to Tree) (lines int, err error) {
	text, err := r.diffText(ctx, from, to, "--no-renames", "--numstat")
	for line := range strings.Lines(text) {
		added, rest, _ := strings.Cut(line, "\t")
		removed, _, _ := strings.Cut(rest, "\t")
		a, aerr := strconv.Atoi(added)
		b, berr := strconv.Atoi(removed)
		if aerr != nil || berr != nil {
			a, b = 1, 0
		}
		lines += a + b
	}
	return lines, err
}

// Patch returns the difference of two trees as a unified diff, for people and agents to read; at most limit bytes,
// cut at the end of a line with a note.
func (r *Repo) Patch(ctx context.Context, from, to Tree, limit int) (string, error) {
	text, err := r.diffText(ctx, from, to, "-p", "-M")
	if err != nil && ctx.Err() == nil { // it is enormous
		return r.DiffStat(ctx, from, to)
	}
	whole := len(text)
	if err != nil || whole <= limit {
		return text, err
	}
	text = strings.ToValidUTF8(text[:limit], "")
	text = text[:strings.LastIndexByte(text, '\n')+1]
	return text + fmt.Sprintf("[%d bytes of the diff left out]\n", whole-len(text)), nil
}

func (r *Repo) diffText(ctx context.Context, from, to Tree, form ...string) (string, error) {
	if from == to {
		return "", nil
	}
	args := append([]string{"diff-tree", "-r", "--no-color", "--no-ext-diff", "--no-textconv"}, form...)
	b, err := r.cli.run(ctx, gitCall{args: append(args, string(from), string(to))})
	if err != nil {
		return "", fmt.Errorf("compare snapshots: %w", err)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// Pushed lists the remote branches that contain a commit, as far as this repository knows.
func (r *Repo) Pushed(ctx context.Context, commit string) ([]string, error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"for-each-ref", "--format=%(refname:short)", "--contains", commit,
		"refs/remotes/"}})
	if err != nil {
		return nil, fmt.Errorf("look whether %s was pushed: %w", shortHash(commit), err)
	}
	return strings.Fields(string(b)), nil
}

// Remote is where a branch is pushed to: the remote that it names, else the only one, else origin. None of these is a
// RefusedError.
func (r *Repo) Remote(branch string) (string, error) {
	if name := r.set["branch."+strings.TrimPrefix(branch, "refs/heads/")+".remote"]; name != "" && name != "." {
		return name, nil
	}
	var all []string
	for _, key := range sortedKeys(r.set) {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(key, "remote."), ".url"); ok &&
			strings.HasPrefix(key, "remote.") {
			all = append(all, name)
		}
	}
	switch {
	case len(all) == 1:
		return all[0], nil
	case slices.Contains(all, "origin"):
		return "origin", nil
	case len(all) == 0:
		return "", &RefusedError{Reason: "there is no remote to push to", Hint: "git remote add origin URL"}
	}
	return "", &RefusedError{Reason: "no remote is called origin, and the branch names none of " +
		strings.Join(all, ", "), Hint: "git config branch.NAME.remote REMOTE"}
}

// howToReach are the variables by which people say how git reaches a remote.
var howToReach = []string{"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS"}

// givingUp are the options with which git ends a transfer in which nothing moves: on its own it waits for ever.
var givingUp = []string{"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=120"}

// RemoteURL is where a remote is, which is a name or a URL itself. A path is absolute. A login in it is left out, for
// it is nobody else's.
func (r *Repo) RemoteURL(ctx context.Context, remote string) (url string, login bool, err error) {
	url, err = r.cli.word(ctx, "", "ls-remote", "--get-url", "--", remote)
	if err == nil && url == remote && !strings.ContainsAny(url, ":/") {
		err = &RefusedError{Reason: "no remote is called " + remote, Hint: "git remote add " + remote + " URL"}
	}
	if err != nil {
		return "", false, fmt.Errorf("read the URL of the remote %s: %w", remote, err)
	}
	if url, login = WithoutLogin(url); filepath.IsAbs(url) {
		url = filepath.Clean(url) // others know the place by one name
	} else if !strings.Contains(url, ":") {
		url = filepath.Join(r.l.root, url)
	}
	return url, login, nil
}

// Send is Push without the hooks that people have for their own pushes. "+" forces a ref, as git has it, and an empty
// source deletes one. SOURCE:REF^COMMIT moves it only from that commit.
func (r *Repo) Send(ctx context.Context, remote string, refspecs ...string) error {
	args, refspecs := []string{"push", "-q"}, slices.Clone(refspecs)
	for i, spec := range refspecs {
		if move, from, leased := strings.Cut(spec, "^"); leased {
			_, ref, _ := strings.Cut(move, ":")
			args, refspecs[i] = append(args, "--force-with-lease="+ref+":"+from), move
		}
	}
	_, err := r.cli.run(ctx, gitCall{options: givingUp, args: slices.Concat(args, []string{"--", remote}, refspecs),
		env: r.reaching()})
	return err
}

// Fetch brings refs of a remote here, and what they name.
func (r *Repo) Fetch(ctx context.Context, remote string, refspecs ...string) error {
	r.AwaitGC(ctx)
	_, err := r.cli.run(ctx, gitCall{options: givingUp, args: append(
		[]string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", remote}, refspecs...), env: r.reaching()})
	return err
}

// FetchRef brings what a ref of a remote is at here, and returns that commit, "" where the remote lacks the ref. No
// ref of ours moves.
func (r *Repo) FetchRef(ctx context.Context, remote, name string) (string, error) {
	at, err := r.remoteRef(ctx, remote, name)
	if err != nil || at == "" {
		return "", err
	}
	return at, r.Fetch(ctx, remote, name)
}

// Moved reports whether a remote's ref has what ours lacks.
func (r *Repo) Moved(ctx context.Context, remote, name string) (bool, error) {
	theirs, err := r.remoteRef(ctx, remote, name)
	if err != nil || theirs == "" {
		return false, err
	}
	ours, err := r.RefCommit(name)
	return err == nil && ours != "" && !r.LeadsTo(ctx, ours, theirs), err
}

// Reached reports whether a remote's ref has what ours has.
func (r *Repo) Reached(ctx context.Context, remote, name string) (bool, error) {
	theirs, err := r.remoteRef(ctx, remote, name)
	if err != nil || theirs == "" {
		return false, err
	}
	ours, err := r.RefCommit(name)
	return err == nil && ours != "" && r.LeadsTo(ctx, theirs, ours), err
}

// Withdraw deletes a ref of a remote if it still is at a commit.
func (r *Repo) Withdraw(ctx context.Context, remote, name, at string) error {
	if there, err := r.remoteRef(ctx, remote, name); err != nil || there != at {
		return err
	}
	_, err := r.cli.run(ctx, gitCall{options: givingUp, args: []string{"push", "-q",
		"--force-with-lease=" + name + ":" + at, "--", remote, ":" + name}, env: r.reaching()})
	return err
}

// Meet has git fetch history until two commits have one in common, if this is a shallow clone.
func (r *Repo) Meet(ctx context.Context, a, b string) error {
	for _, more := range []string{"--deepen=100", "--deepen=1000", "--unshallow"} {
		if _, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", a, b}}); err == nil {
			return nil
		}
		shallow, err := r.cli.word(ctx, "", "rev-parse", "--is-shallow-repository")
		if err != nil || shallow != "true" {
			return err
		}
		remote, err := r.Remote("")
		if err == nil {
			_, err = r.cli.run(ctx, gitCall{options: givingUp,
				args: []string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", more, "--", remote},
				env:  r.reaching()})
		}
		if err != nil {
			return &RefusedError{Reason: fmt.Sprintf(
				"this clone is too shallow to tell what %s and %s have in common, and no more can be fetched: %v",
				shortHash(a), shortHash(b), err),
				Hint: "git fetch --unshallow, then start again"}
		}
	}
	return nil
}

// RemoteRefs are the refs of a remote that match a pattern, as git ls-remote has it, and the objects that they are at.
func (r *Repo) RemoteRefs(ctx context.Context, remote, pattern string) (map[string]string, error) {
	said, err := r.cli.run(ctx, gitCall{options: givingUp, args: []string{"ls-remote", "--refs", "--", remote,
		pattern}, env: r.reaching()})
	refs := map[string]string{}
	for line := range strings.Lines(string(said)) {
		if hash, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			refs[name] = hash
		}
	}
	return refs, err
}

// remoteRef is what a ref of a remote is at, "" where it lacks it.
func (r *Repo) remoteRef(ctx context.Context, remote, name string) (string, error) {
	refs, err := r.RemoteRefs(ctx, remote, name)
	return refs[name], err
}

// WithoutLogin is a URL of a remote without the password in it, and where a user's name may be a token without that,
// too.
func WithoutLogin(remote string) (url string, had bool) {
	scheme, rest, ok := strings.Cut(remote, "://")
	host, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(host, "@")
	if !ok || at < 0 {
		return remote, false
	}
	user, _, secret := strings.Cut(host[:at], ":")
	switch {
	case strings.HasPrefix(scheme, "http"):
		return scheme + "://" + rest[at+1:], true
	case secret:
		return scheme + "://" + user + rest[at:], true
	}
	return remote, false
}

// reaching are those variables of the caller's.
func (r *Repo) reaching() (env []string) {
	for _, kv := range r.opt.Env {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(howToReach, name) {
			env = append(env, kv)
		}
	}
	return env
}

// Resolve returns the commit that a person means; a RefusedError where there is none.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"rev-parse", "--verify", "-q", "--end-of-options",
		rev + "^{commit}"}})
	var said *gitError
	if errors.As(err, &said) {
		return "", &RefusedError{Reason: fmt.Sprintf("there is no commit %q here", rev),
			Hint: "git log --oneline lists them; a clone may have to fetch it first"}
	}
	return strings.TrimSpace(string(b)), err
}

// Between lists the paths that any of the commits changes that to has and from does not.
func (r *Repo) Between(ctx context.Context, from, to string) (paths []string, err error) {
	news, err := r.News(ctx, from, to, "", "")
	for _, c := range news {
		steps, serr := r.stepsOf(ctx, c.Parent(), c.Hash)
		paths, err = append(paths, sortedKeys(steps)...), cmp.Or(err, serr)
	}
	return paths, err
}

// ForkOf is the newest commit that two have in common, "" where there is none.
func (r *Repo) ForkOf(ctx context.Context, a, b string) (string, error) {
	out, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", a, b}})
	var said *gitError
	if errors.As(err, &said) && said.code == 1 {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

// Touching are the commits, at most limit and newest first, that lead to a commit and not to another and change what
// the other changed since the two parted, protected paths left out.
func (r *Repo) Touching(ctx context.Context, head, other string, limit int) ([]string, error) {
	fork, err := r.ForkOf(ctx, head, other)
	if err != nil || fork == "" {
		return nil, err
	}
	var trees [2]Tree
	for i, commit := range []string{fork, other} {
		if trees[i], err = r.CommitTree(commit); err != nil {
			return nil, err
		}
	}
	changes, err := r.Changed(ctx, trees[0], trees[1])
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	in := head + "\n^" + other + "\n--\n"
	for _, c := range changes {
		if !strings.Contains(c.Path, "\n") {
			in += c.Path + "\n"
		}
	}
	b, err := r.cli.run(ctx, gitCall{options: literally, stdin: []byte(in),
		args: []string{"rev-list", "--max-count=" + strconv.Itoa(limit), "--stdin"}})
	if err != nil {
		return nil, fmt.Errorf("read what was committed to %s since: %w", shortHash(head), err)
	}
	return strings.Fields(string(b)), nil
}

// PatchID identifies the difference of two trees as git patch-id does: a rebase does not change it. "" is no
// difference.
func (r *Repo) PatchID(ctx context.Context, from, to Tree) (string, error) {
	if from == to {
		return "", nil
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-p", "--no-color", "--no-ext-diff",
		"--no-textconv", "--no-renames", "--diff-algorithm=myers", string(from), string(to)}})
	if err == nil {
		b, err = r.cli.run(ctx, gitCall{args: []string{"patch-id", "--stable"}, stdin: b})
	}
	if err != nil {
		return "", fmt.Errorf("name the difference of two trees: %w", err)
	}
	id, _, _ := strings.Cut(string(b), " ")
	return id, nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
