package gitops

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// emptyTreeID is the tree without entries.
var emptyTreeID = objectID{0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88, 0xfb, 0xee, 0x49, 0x04}

// emptyBlobID is the file without content.
var emptyBlobID = hashObject(kindBlob, nil)

// maxTreeDepth bounds the recursion over bytes that we did not write; paths are at most 4096 bytes long.
const maxTreeDepth = 2048

// File modes as trees spell them.
const (
	modeType    = 0o170000
	modeRegular = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
	modeDir     = 0o040000
)

// treeItem is one entry of a tree object.
type treeItem struct {
	name string
	mode uint32
	id   objectID
}

func (e treeItem) isDir() bool { return e.mode == modeDir }

var errTreeFormat = errors.New("malformed tree object")

// nextEntry cuts the first entry from a tree; its name aliases b. Names that must not reach a file system are
// an error, whoever made the tree.
func nextEntry(b []byte) (e treeItem, rest []byte, err error) {
	mode, b, ok1 := bytes.Cut(b, []byte{' '})
	name, b, ok2 := bytes.Cut(b, []byte{0})
	m, err := strconv.ParseUint(string(mode), 8, 32)
	if !ok1 || !ok2 || err != nil || len(b) < len(e.id) {
		return e, nil, errTreeFormat
	}
	e = treeItem{name: string(name), mode: uint32(m), id: objectID(b[:20])}
	if !safeName(e.name) {
		return e, nil, &RefusedError{Reason: "a tree holds the unsafe name " + strconv.Quote(e.name)}
	}
	if e.mode == 0o100664 { // written by git's first versions
		e.mode = modeRegular
	}
	return e, b[20:], nil
}

func appendEntry(b []byte, mode uint32, name string, id objectID) []byte {
	b = strconv.AppendUint(b, uint64(mode), 8)
	b = append(append(append(b, ' '), name...), 0)
	return append(b, id[:]...)
}

// parseTree decodes a whole tree.
func parseTree(b []byte) ([]treeItem, error) {
	var out []treeItem
	for len(b) > 0 {
		e, rest, err := nextEntry(b)
		if err != nil {
			return nil, err
		}
		out, b = append(out, e), rest
	}
	return out, nil
}

// compareEntries is the order of trees: a directory sorts as if its name ended in a slash.
func compareEntries(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return int(tailByte(a, n, aDir)) - int(tailByte(b, n, bDir))
}

func tailByte(s string, n int, dir bool) byte {
	switch {
	case len(s) > n:
		return s[n]
	case dir:
		return '/'
	}
	return 0
}

// treeView looks up paths in a tree, reading each directory once.
type treeView struct {
	store *objectStore
	root  objectID
	dirs  map[string][]treeItem
}

// file is the entry at a path, the zero one where there is none or a directory.
func (v *treeView) file(name string) (treeItem, error) {
	dir, base := path.Split(name)
	items, err := v.list(strings.TrimSuffix(dir, "/"))
	return findItem(items, base, false), err
}

// list reads a directory, "" for the top; a missing one is empty.
func (v *treeView) list(dir string) ([]treeItem, error) {
	if items, ok := v.dirs[dir]; ok {
		return items, nil
	}
	id := v.root
	if dir != "" {
		above, base := path.Split(dir)
		items, err := v.list(strings.TrimSuffix(above, "/"))
		if err != nil {
			return nil, err
		}
		if id = findItem(items, base, true).id; id.isZero() {
			return nil, nil
		}
	}
	b, err := v.store.tree(id)
	if err != nil {
		return nil, err
	}
	items, err := parseTree(b)
	if err != nil {
		return nil, err
	}
	if v.dirs == nil {
		v.dirs = map[string][]treeItem{}
	}
	v.dirs[dir] = items
	return items, nil
}

func findItem(items []treeItem, name string, dir bool) treeItem {
	i, ok := slices.BinarySearchFunc(items, name, func(it treeItem, name string) int {
		return compareEntries(it.name, it.isDir(), name, dir)
	})
	if !ok || items[i].isDir() != dir {
		return treeItem{}
	}
	return items[i]
}

// Contents reads the files of a tree. It is not safe for concurrent use.
type Contents struct{ view treeView }

// Contents opens a tree to read it.
func (r *Repo) Contents(tree Tree) (*Contents, error) {
	id, err := parseID(string(tree))
	return &Contents{treeView{store: r.store, root: id}}, err
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
	it, err := c.view.file(path)
	if err != nil || it.mode == 0 {
		return nil, err
	}
	f := &Content{Executable: it.mode == modeExec, Link: it.mode == modeLink, Module: it.mode == modeGitlink}
	if f.Module {
		return f, nil
	}
	_, size, rc, err := c.view.store.open(it.id)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	if f.Size = size; size > limit {
		return f, nil
	}
	f.Data = make([]byte, size)
	if _, err := io.ReadFull(rc, f.Data); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return f, nil
}

// Folder reports whether there is a folder at a path with something in it.
func (c *Contents) Folder(path string) (bool, error) {
	list, err := c.view.list(path)
	return len(list) > 0, err
}

// WithContent is a tree in which some files have this content. New ones are plain files.
func (r *Repo) WithContent(tree Tree, files map[string][]byte) (Tree, error) {
	if len(files) == 0 {
		return tree, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id, err := parseID(string(tree))
	if err != nil {
		return "", err
	}
	view := &treeView{store: r.store, root: id}
	edits := map[string]treeItem{}
	for path, data := range files {
		it, err := view.file(path)
		if err != nil {
			return "", err
		}
		if it.mode != modeExec {
			it.mode = modeRegular
		}
		if it.id, err = r.store.put(kindBlob, data); err != nil {
			return "", err
		}
		edits[path] = it
	}
	e := treeEditor{objects: r.store}
	if id, err = e.edit("", &id, edits); err != nil {
		return "", fmt.Errorf("put files into a tree: %w", err)
	}
	return Tree(id.String()), r.store.writeOut()
}

// Changed lists what differs between two trees, protected paths left out, sorted by path.
func (r *Repo) Changed(ctx context.Context, from, to Tree) ([]Change, error) {
	var out []Change
	err := r.diffTrees(from, to, func(path string, a, b treeItem) {
		out = append(out, Change{Path: path, Op: opOf(a, b), Module: b.mode == modeGitlink})
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

func (r *Repo) diffTrees(from, to Tree, each func(path string, a, b treeItem)) error {
	a, err := parseID(string(from))
	if err != nil {
		return err
	}
	b, err := parseID(string(to))
	if err != nil {
		return err
	}
	return r.diff(a, b, each)
}

// diff calls each for every file that differs and is not protected; mode 0 stands for no file.
func (r *Repo) diff(a, b objectID, each func(path string, a, b treeItem)) error {
	d := differ{store: r.store, guard: r.guard, each: each}
	return d.dirs("", &a, &b, 0)
}

type differ struct {
	store *objectStore
	guard protection
	each  func(path string, a, b treeItem)
}

// dirs compares two directories; nil is a missing one.
func (d *differ) dirs(prefix string, a, b *objectID, depth int) error {
	if a != nil && b != nil && *a == *b || prefix != "" && d.guard.covers(prefix) {
		return nil
	}
	if depth > maxTreeDepth {
		return errTreeFormat
	}
	as, err := d.items(a)
	if err != nil {
		return err
	}
	bs, err := d.items(b)
	if err != nil {
		return err
	}
	for len(as) > 0 || len(bs) > 0 {
		c := 0
		switch {
		case len(bs) == 0:
			c = -1
		case len(as) == 0:
			c = 1
		default:
			c = compareEntries(as[0].name, as[0].isDir(), bs[0].name, bs[0].isDir())
		}
		var x, y treeItem
		if c <= 0 {
			x, as = as[0], as[1:]
		}
		if c >= 0 {
			y, bs = bs[0], bs[1:]
		}
		if err := d.pair(prefix, x, y, depth); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) items(id *objectID) ([]treeItem, error) {
	if id == nil {
		return nil, nil
	}
	b, err := d.store.tree(*id)
	if err != nil {
		return nil, err
	}
	return parseTree(b)
}

// pair compares two entries of one name and sort, of which one may be missing.
func (d *differ) pair(prefix string, x, y treeItem, depth int) error {
	if x.id == y.id && x.mode == y.mode {
		return nil
	}
	name := x.name
	if name == "" {
		name = y.name
	}
	path := prefix + name
	if x.isDir() || y.isDir() {
		var a, b *objectID
		if x.mode != 0 {
			a = &x.id
		}
		if y.mode != 0 {
			b = &y.id
		}
		return d.dirs(path+"/", a, b, depth+1)
	}
	if !d.guard.covers(path) {
		d.each(path, x, y)
	}
	return nil
}

// treeEditor makes a tree from another one and a few edits, reading and writing only the directories on the
// way.
type treeEditor struct{ objects *objectStore }

// edit returns the tree of a directory after the edits, whose paths are relative to it; mode 0 deletes. A
// directory without entries is emptyTreeID.
func (e *treeEditor) edit(dir string, base *objectID, edits map[string]treeItem) (objectID, error) {
	items := map[string][]treeItem{}
	if base != nil {
		b, err := e.objects.tree(*base)
		if err != nil {
			return objectID{}, err
		}
		list, err := parseTree(b)
		if err != nil {
			return objectID{}, fmt.Errorf("tree of %q: %w", dir, err)
		}
		for _, it := range list {
			items[it.name] = append(items[it.name], it)
		}
	}
	below := map[string]map[string]treeItem{}
	for path, item := range edits {
		name, rest, deeper := strings.Cut(path, "/")
		if deeper {
			if below[name] == nil {
				below[name] = map[string]treeItem{}
			}
			below[name][rest] = item
			continue
		}
		items[name] = slices.DeleteFunc(items[name], func(it treeItem) bool { return !it.isDir() || item.mode != 0 && !deletedBelow(edits, name) })
		if item.mode != 0 {
			items[name] = append(items[name], treeItem{name: name, mode: item.mode, id: item.id})
		}
	}
	for _, name := range sortedKeys(below) {
		var sub *objectID
		for _, it := range items[name] {
			if it.isDir() {
				id := it.id
				sub = &id
			}
		}
		id, err := e.edit(strings.TrimPrefix(dir+"/"+name, "/"), sub, below[name])
		if err != nil {
			return objectID{}, err
		}
		items[name] = slices.DeleteFunc(items[name], func(it treeItem) bool { return it.isDir() || id != emptyTreeID && !it.isDir() })
		if id != emptyTreeID {
			items[name] = append(items[name], treeItem{name: name, mode: modeDir, id: id})
		}
	}
	return e.write(dir, base, items)
}

// deletedBelow says whether edits speak of something below a directory that a file is to replace.
func deletedBelow(edits map[string]treeItem, name string) bool {
	for p := range edits {
		if strings.HasPrefix(p, name+"/") {
			return true
		}
	}
	return false
}

func (e *treeEditor) write(dir string, base *objectID, items map[string][]treeItem) (objectID, error) {
	var list []treeItem
	for name, its := range items {
		if len(its) > 1 {
			return objectID{}, fmt.Errorf("%s would be both a file and a directory", strings.TrimPrefix(dir+"/"+name, "/"))
		}
		list = append(list, its...)
	}
	slices.SortFunc(list, func(a, b treeItem) int { return compareEntries(a.name, a.isDir(), b.name, b.isDir()) })
	var b []byte
	for _, it := range list {
		b = appendEntry(b, it.mode, it.name, it.id)
	}
	id := hashObject(kindTree, b)
	if base != nil && id == *base || len(b) == 0 && dir != "" {
		return id, nil
	}
	return id, e.objects.write(id, kindTree, b)
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

// LastChange is the newest commit of HEAD's history that changed a path below the root, and its author; both are "" where there is
// none, or where the file in the working tree differs from HEAD's. No program that the settings name is run for it.
func (r *Repo) LastChange(ctx context.Context, path string) (commit, author string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{options: literally, args: []string{"status", "--porcelain", "--ignored", "--ignore-submodules=all", "--", path}})
	if err != nil || len(b) > 0 {
		return "", "", err
	}
	b, err = r.cli.run(ctx, gitCall{options: literally, args: []string{"log", "-1", "--no-show-signature", "--no-mailmap", "--format=%h%x00%an", "--", path}})
	commit, author, _ = strings.Cut(strings.TrimSuffix(string(b), "\n"), "\x00")
	return commit, author, err
}

// Ancestor is a commit in the history of HEAD.
type Ancestor struct {
	Hash    string
	Parent  string // the first; "" for a root
	Subject string
}

// History is a commit and its first parents, the newest first, up to last, which is among them. Where it is not found
// within limit commits ok is false.
func (r *Repo) History(ctx context.Context, from, last string, limit int) (list []Ancestor, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := from; at != "" && len(list) < limit; {
		c, err := r.store.commit(at)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the history of %s: %w", shortHash(from), err)
		}
		a := Ancestor{Hash: at}
		a.Subject, _, _ = strings.Cut(c.Message, "\n")
		if len(c.ParentHashes) > 0 {
			a.Parent = c.ParentHashes[0].String()
		}
		if list = append(list, a); at == last {
			return list, true, nil
		}
		at = a.Parent
	}
	return list, false, nil
}

// Pushed lists the remote branches that contain a commit, as far as this repository knows.
func (r *Repo) Pushed(ctx context.Context, commit string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{args: []string{"for-each-ref", "--format=%(refname:short)", "--contains", commit, "refs/remotes/"}})
	if err != nil {
		return nil, fmt.Errorf("look whether %s was pushed: %w", shortHash(commit), err)
	}
	return strings.Fields(string(b)), nil
}

// Remote is where a branch is pushed to: the remote that it names, else the only one, else origin. None of these is a RefusedError.
func (r *Repo) Remote(branch string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name, ok := r.cfg.get("branch." + strings.TrimPrefix(branch, "refs/heads/") + ".remote"); ok && name != "" && name != "." {
		return name, nil
	}
	var all []string
	for _, key := range r.cfg.keys("remote.") {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(key, "remote."), ".url"); ok {
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
	return "", &RefusedError{Reason: "no remote is called origin, and the branch names none of " + strings.Join(all, ", "), Hint: "git config branch.NAME.remote REMOTE"}
}

// howToReach are the variables by which people say how git reaches a remote.
var howToReach = []string{"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS"}

// givingUp are the options with which git ends a transfer in which nothing moves: on its own it waits for ever.
var givingUp = []string{"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=120"}

// Push sends refs to a remote. Nothing is forced, and a refused ref does not keep the others back.
func (r *Repo) Push(ctx context.Context, remote string, refspecs []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.cli.run(ctx, gitCall{args: append([]string{"push", "-q", "--", remote}, refspecs...), env: r.reaching(), hooks: r.cli.hooks})
	return err
}

// RemoteURL is where a remote is, which is a name or a URL itself. A path is absolute. A login in it is left out, for it is nobody else's.
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

// Send is Push without the hooks that people have for their own pushes. "+" forces a ref, as git has it, and an empty source deletes one.
func (r *Repo) Send(ctx context.Context, remote string, refspecs ...string) error {
	_, err := r.cli.run(ctx, gitCall{options: givingUp, args: append([]string{"push", "-q", "--", remote}, refspecs...), env: r.reaching()})
	return err
}

// Fetch brings refs of a remote here, and what they name.
func (r *Repo) Fetch(ctx context.Context, remote string, refspecs ...string) error {
	r.AwaitGC(ctx)
	_, err := r.cli.run(ctx, gitCall{options: givingUp, args: append([]string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", remote}, refspecs...), env: r.reaching()})
	return err
}

// RemoteRefs names the refs of a remote that match a pattern, as git ls-remote has it.
func (r *Repo) RemoteRefs(ctx context.Context, remote, pattern string) (names []string, err error) {
	said, err := r.cli.run(ctx, gitCall{options: givingUp, args: []string{"ls-remote", "--refs", "--", remote, pattern}, env: r.reaching()})
	for line := range strings.Lines(string(said)) {
		if _, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// EmptyTree is the tree without files.
func EmptyTree() Tree { return Tree(emptyTreeID.String()) }

// WithoutLogin is a URL of a remote without the password in it, and where a user's name may be a token without that, too.
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

// ShowToken has git show a token, as the password that any user has, to the server of an HTTP remote and to no other.
func (r *Repo) ShowToken(url, token string) {
	scheme, rest, _ := strings.Cut(url, "://")
	if scheme != "http" && scheme != "https" {
		return
	}
	host, _, _ := strings.Cut(rest, "/")
	login := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	r.token = []string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=http." + scheme + "://" + host + "/.extraHeader", "GIT_CONFIG_VALUE_0=Authorization: Basic " + login,
		"GIT_CONFIG_KEY_1=http." + scheme + "://" + host + "/.followRedirects", "GIT_CONFIG_VALUE_1=false"}
}

// reaching are those variables of the caller's, and the token.
func (r *Repo) reaching() (env []string) {
	env = slices.Clone(r.token)
	for _, kv := range r.opt.Env {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(howToReach, name) {
			env = append(env, kv)
		}
	}
	return env
}

// MakeBranch makes a branch at a commit, without switching to it. If it exists at that commit, it stays.
func (r *Repo) MakeBranch(ctx context.Context, name, commit string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := "refs/heads/" + name
	old, err := r.refs.hash(ref)
	switch {
	case err != nil || old == commit:
	case old != "":
		err = &RefusedError{Reason: fmt.Sprintf("branch %q exists", name), Hint: "rename or delete it"}
	default:
		err = r.setRef(ctx, ref, "", commit, "branch: Created from "+commit)
	}
	if err != nil {
		return fmt.Errorf("make branch %s: %w", name, err)
	}
	return nil
}

// Resolve returns the commit that a person means; a RefusedError where there is none.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{args: []string{"rev-parse", "--verify", "-q", "--end-of-options", rev + "^{commit}"}})
	var said *gitError
	if errors.As(err, &said) {
		return "", &RefusedError{Reason: fmt.Sprintf("there is no commit %q here", rev), Hint: "git log --oneline lists them; a clone may have to fetch it first"}
	}
	return strings.TrimSpace(string(b)), err
}

// Since lists the commits that to has and from does not, oldest first, without merges.
func (r *Repo) Since(ctx context.Context, from, to string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{args: []string{"rev-list", "--reverse", "--topo-order", "--no-merges", to, "^" + from}})
	return strings.Fields(string(b)), err
}

// Between describes the commits that to has and from does not: the paths that any of them changes, and their messages.
func (r *Repo) Between(ctx context.Context, from, to string) (paths []string, text string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, err := r.cli.run(ctx, gitCall{args: []string{"rev-list", to, "^" + from}})
	if err != nil {
		return nil, "", fmt.Errorf("list the commits up to %s: %w", shortHash(to), err)
	}
	names, err := r.cli.run(ctx, gitCall{args: []string{"diff-tree", "--stdin", "--no-commit-id", "--root", "-r", "-m", "-z", "--no-renames", "--name-only"}, stdin: list})
	if err != nil {
		return nil, "", fmt.Errorf("list what the commits up to %s change: %w", shortHash(to), err)
	}
	for _, hash := range strings.Fields(string(list)) {
		c, err := r.store.commit(hash)
		if err != nil {
			return nil, "", fmt.Errorf("read commit %s: %w", shortHash(hash), err)
		}
		text += c.Message + "\n"
	}
	paths = nulSplit(names)
	slices.Sort(paths)
	return slices.Compact(paths), text, nil
}

// ForkOf is the newest commit that two have in common, "" where there is none.
func (r *Repo) ForkOf(ctx context.Context, a, b string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", a, b}})
	var said *gitError
	if errors.As(err, &said) && said.code == 1 {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

// FileAt is a file as a commit has it, nil where it has none; one of more than limit bytes is an error.
func (r *Repo) FileAt(_ context.Context, commit, name string, limit int64) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tree, err := r.treeOf(commit)
	if err != nil {
		return nil, err
	}
	at, err := (&treeView{store: r.store, root: tree}).file(name)
	if err != nil || at.id.isZero() {
		return nil, err
	}
	_, size, rc, err := r.store.open(at.id)
	if err != nil {
		return nil, err
	}
	if rc.Close(); size > limit {
		return nil, fmt.Errorf("%s of %s has more than %d bytes", name, shortHash(commit), limit)
	}
	return r.store.read(at.id, kindBlob)
}

// PatchID identifies the difference of two trees as git patch-id does: a rebase does not change it. "" is no
// difference.
func (r *Repo) PatchID(ctx context.Context, from, to Tree) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from == to {
		return "", nil
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--diff-algorithm=myers", string(from), string(to)}})
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

// TreeWithout returns a tree in which some paths are as in base: what an attempt left there is not part of its work.
func (r *Repo) TreeWithout(base, tree Tree, paths []string) (Tree, error) {
	if len(paths) == 0 || base == tree {
		return tree, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	from, err := parseID(string(base))
	if err != nil {
		return "", err
	}
	id, err := parseID(string(tree))
	if err != nil {
		return "", err
	}
	before := &treeView{store: r.store, root: from}
	edits := map[string]treeItem{}
	for _, path := range paths {
		if edits[path], err = before.file(path); err != nil {
			return "", err
		}
	}
	e := treeEditor{objects: r.store}
	if id, err = e.edit("", &id, edits); err != nil {
		return "", fmt.Errorf("leave files out of a tree: %w", err)
	}
	return Tree(id.String()), r.store.writeOut()
}

// TreeWith returns a tree with some paths as in another one; paths that the other lacks are removed.
func (r *Repo) TreeWith(tree, from Tree, paths []string) (Tree, error) {
	return r.TreeWithout(from, tree, paths)
}
