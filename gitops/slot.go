package gitops

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/internal/crash"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
)

// Slot is a working copy of a repository in which an agent may do whatever it likes. Its folder holds two things:
//
//	tree  the working tree, with a .git of the agent's own that borrows the repository's objects and is written anew for each attempt
//	git   HEAD and index as we see them, beside the working tree and out of the agent's reach
//
// Every git command of ours works with the second and reads the repository's own configuration, so that nothing
// the agent writes into its .git is ever taken for a setting, a hook or a filter. What we store goes to the
// repository's own objects at once: a snapshot of the slot's tree is one of the repository's trees.
//
// Why not git clone --shared: it refuses shallow repositories, makes a remote of the user's working tree, and
// leaves one .git to all attempts. Why not a linked working tree: there an agent writes to the user's refs and
// settings.
type Slot struct {
	*Repo
	user    *Repo
	dir     string
	tree    string // the working tree
	git     string // where HEAD and index are kept for us
	objects string
	opts    SlotOptions
	config  []byte // of the agent's .git
	at      Head   // that Prepare brought it to

	modules map[string]*Slot  // of submodules, by path
	known   map[string]string // the user's repositories of submodules, by the links to their objects
	empty   []LeftOut         // submodules that are not checked out
	flat    Tree              // a tree without submodules that it had, "" for none
	listed  map[string]string // see Listed; nil until somebody asks
	stands  string            // the commit that stand set
	wrote   map[string][]byte // files of the agent's .git that say where HEAD is; nil if it was not written yet
}

// SlotOptions say where a slot is.
type SlotOptions struct {
	Dir string // its folder, made where it is missing
	// Objects is the path by which the agent's .git reaches the repository's objects. OpenSlot makes it a link to
	// them. A sandbox that shows the slot at the working tree's path mounts the objects there.
	Objects string
	Pin     string // ref that keeps the commit at which the slot stands from being pruned, "" for none
}

// BrokenSlotError means that a slot cannot be brought to the wanted state: remove it and make it again.
type BrokenSlotError struct {
	Dir string
	Err error
}

func (e *BrokenSlotError) Error() string {
	return fmt.Sprintf("the slot %s is broken: %v", e.Dir, e.Err)
}
func (e *BrokenSlotError) Unwrap() error { return e.Err }

// patience with a git command that reads what an agent wrote.
const slotPatience = 5 * time.Minute

// OpenSlot opens a slot, or makes an empty one. The caller holds the slot's lock: nobody else works in it.
func (r *Repo) OpenSlot(ctx context.Context, opt SlotOptions) (*Slot, error) {
	s := &Slot{user: r, dir: opt.Dir, tree: filepath.Join(opt.Dir, "tree"), git: filepath.Join(opt.Dir, "git"),
		objects: opt.Objects, opts: opt}
	if err := s.findModules(); err != nil {
		return nil, err
	}
	slot := r.opt
	slot.Dir = s.tree
	l := layout{root: s.tree, gitDir: s.git, commonDir: r.l.commonDir}
	err := s.open(ctx, newCLI(l, r.cli.program, r.cli.version, slot), slot)
	if err == nil {
		err = s.Claim()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the slot's repository, with the git program at hand.
func (s *Slot) open(ctx context.Context, git *cli, opt Options) (err error) {
	if err := s.lay(); err != nil {
		return fmt.Errorf("make the slot %s: %w", s.dir, err)
	}
	git.env = append(git.env, "GIT_DIR="+s.git, "GIT_WORK_TREE="+s.tree, "GIT_CONFIG_COUNT=7",
		"GIT_CONFIG_KEY_0=core.sparseCheckout", "GIT_CONFIG_VALUE_0=false",
		"GIT_CONFIG_KEY_1=core.splitIndex", "GIT_CONFIG_VALUE_1=false",
		"GIT_CONFIG_KEY_2=core.untrackedCache", "GIT_CONFIG_VALUE_2=false",
		"GIT_CONFIG_KEY_3=submodule.recurse", "GIT_CONFIG_VALUE_3=false", // into what an agent's settings say
		"GIT_CONFIG_KEY_4=core.ignoreCase", fmt.Sprintf("GIT_CONFIG_VALUE_4=%t", s.ignoresCase()),
		"GIT_CONFIG_KEY_5=core.checkStat", "GIT_CONFIG_VALUE_5=default", // edits that keep time and size are found
		"GIT_CONFIG_KEY_6=core.trustctime", "GIT_CONFIG_VALUE_6=true")
	if s.user.set != nil { // the repository is the same
		s.Repo = newRepo(opt, git, s.user.set, s.user.own)
		if err = s.clearSlot(ctx); err == nil {
			s.root, err = os.OpenRoot(s.tree)
		}
	} else {
		s.Repo, err = openAt(ctx, opt, git, (*Repo).clearSlot)
	}
	if err != nil {
		s.Repo = nil
		return &BrokenSlotError{s.dir, err}
	}
	s.byGit, s.cli.slot, s.lender = cmp.Or(s.byGit, s.user.byGit), true, s.user.l
	if s.user.diffs != nil {
		s.diffs, s.Repo.objects = s.user.diffs, s.user.objects
	}
	s.config = s.agentConfig()
	return s.showEdits(ctx)
}

// showEdits takes the marks out of our index that hide edits from git: with core.ignoreStat an older run set them.
func (s *Slot) showEdits(ctx context.Context) error {
	if s.New() {
		return nil
	}
	b, err := s.cli.run(ctx, gitCall{args: []string{"ls-files", "-v", "-z"}})
	var hidden []string
	for _, entry := range nulSplit(b) {
		if flag, path, _ := strings.Cut(entry, " "); flag == strings.ToLower(flag) {
			hidden = append(hidden, path)
		}
	}
	if err == nil && len(hidden) > 0 {
		_, err = s.cli.run(ctx, gitCall{args: []string{"update-index", "--no-assume-unchanged", "-z", "--stdin"},
			stdin: nulJoin(hidden)})
	}
	if err != nil {
		return &BrokenSlotError{s.dir, err}
	}
	return nil
}

// ignoresCase reports whether names that differ by case alone are one on the slot's disk. The repository's setting may
// be of another disk: git loses a file then that is renamed by case alone.
func (s *Slot) ignoresCase() bool {
	is, err := os.Lstat(filepath.Join(s.dir, "git"))
	other, oerr := os.Lstat(filepath.Join(s.dir, "GIT"))
	return err == nil && oerr == nil && os.SameFile(is, other)
}

// Close releases the slot.
func (s *Slot) Close() (err error) {
	for path := range s.modules {
		err = errors.Join(err, s.closeModule(path))
	}
	if s.Repo == nil {
		return err
	}
	return errors.Join(err, s.Repo.Close())
}

// CanMerge is a *VersionError where git is too old to merge the work of several slots.
func (r *Repo) CanMerge() error {
	if v := r.cli.version; v.Before(OldestMerging) {
		return &VersionError{Program: r.cli.program, Found: v, Needed: OldestMerging, For: "several agents at a time"}
	}
	return nil
}

// Tree is the slot's working tree.
func (s *Slot) Tree() string { return s.tree }

// lay makes what is missing of the slot's folder.
func (s *Slot) lay() error {
	for _, d := range []string{s.tree, s.git} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(s.user.l.commonDir, "reftable")); err == nil {
		if err := os.MkdirAll(filepath.Join(s.git, "reftable"), 0o777); err != nil {
			return err
		}
	}
	if !exists(filepath.Join(s.git, "HEAD")) {
		s.stands = ""
		if err := os.WriteFile(filepath.Join(s.git, "HEAD"), []byte("ref: "+unborn+"\n"), 0o666); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(s.git, "commondir"), []byte(s.user.l.commonDir+"\n"), 0o666); err != nil {
		return err
	}
	return lend(s.objects, s.user.l.commonDir)
}

// unborn is what our HEAD of a slot says on a branch without a commit: the slot has the ref to itself.
const unborn = "refs/worktree/descartes/unborn"

// clearSlot ends what killed runs left of their git commands in this slot, which nobody else has, and removes their
// files.
func (r *Repo) clearSlot(context.Context) error {
	left, err := within(r.l.gitDir, ours+"*")
	for _, name := range append(left, filepath.Join(r.l.gitDir, "index.lock"),
		filepath.Join(r.l.gitDir, "HEAD.lock")) {
		if strings.HasSuffix(name, live) {
			_, serr := proc.Sweep(cookieOf(name))
			err = errors.Join(err, serr)
		}
		err = errors.Join(err, plainfile.RemoveAll(name))
	}
	if err != nil {
		return fmt.Errorf("clear away what a killed run left: %w", err)
	}
	return nil
}

// Prepare brings the slot to a state: its branch and commit are at, its files those of tree, which may differ from
// the commit's as an earlier attempt left them. Ignored files stay from attempt to attempt, unless fresh is set. A
// BrokenSlotError means that the slot has to be made again.
func (s *Slot) Prepare(ctx context.Context, at Head, tree Tree, fresh bool) error {
	err := s.prepare(ctx, at, tree, fresh)
	if _, refused := errors.AsType[*RefusedError](err); err == nil || refused || ctx.Err() != nil {
		return err
	}
	return &BrokenSlotError{s.dir, err}
}

func (s *Slot) prepare(ctx context.Context, at Head, tree Tree, fresh bool) error {
	if !s.There() {
		return errors.New("its working tree was replaced")
	}
	s.cli.whole, s.cli.tree = false, ""
	head, err := s.CommitTree(at.Hash)
	if err != nil {
		return err
	}
	if err := s.stand(ctx, at.Hash); err != nil {
		return err
	}
	crash.Point("git: slot started")
	first := s.New()
	if err := s.sweep(ctx); err != nil {
		return err
	}
	if err := s.checkOut(ctx, string(head)); err != nil {
		return err
	}
	crash.Point("git: slot checked out")
	if first {
		if err := s.asUsers(ctx, string(head), true); err != nil {
			return err
		}
	}
	index, err := os.ReadFile(filepath.Join(s.git, "index"))
	if err != nil {
		return err
	}
	if tree != head {
		if err := s.checkOut(ctx, string(tree)); err != nil {
			return err
		}
	}
	clean := []string{"clean", "-ffdq"}
	if fresh { // ignored files too
		clean = append(clean, "-x")
	}
	if err := s.insist(ctx, gitCall{args: clean}); err != nil {
		return err
	}
	if err := s.checkOutModules(ctx, tree, fresh); err != nil {
		return err
	}
	if err := s.asUsers(ctx, "", false); err != nil {
		return err
	}
	crash.Point("git: slot clean")
	s.at = at
	return s.agentRepository(ctx, at, index)
}

// stand sets HEAD, and keeps its commit.
func (s *Slot) stand(ctx context.Context, commit string) error {
	if commit == "" || s.opts.Pin == "" {
		return s.setHead(ctx, commit)
	}
	if s.stands == commit && s.byGit == "" { // which moves HEAD
		return nil
	}
	err := s.updateRefs(ctx, "descartes: slot", "update HEAD\x00"+commit+"\x00\x00update "+s.opts.Pin+"\x00"+commit+
		"\x00\x00")
	if err == nil {
		s.stands = commit
	}
	return err
}

// Listed is what the slot has tracked since Prepare: mode, blob and stage of each path.
func (s *Slot) Listed(ctx context.Context) (_ map[string]string, err error) {
	if s.listed != nil {
		return s.listed, nil
	}
	b, err := s.cli.run(ctx, gitCall{args: []string{"ls-files", "-s", "-z"}})
	if err != nil {
		return nil, err
	}
	s.listed = map[string]string{}
	for _, entry := range nulSplit(b) {
		about, path, _ := strings.Cut(entry, "\t")
		s.listed[path] = about
	}
	return s.listed, nil
}

// There reports whether the working tree is the folder that was opened: somebody may have deleted or replaced it.
func (s *Slot) There() bool {
	fi, err := os.Lstat(s.tree)
	opened, oerr := s.root.Stat(".")
	return err == nil && oerr == nil && fi.IsDir() && os.SameFile(fi, opened)
}

// New reports whether nothing was ever checked out in the slot.
func (s *Slot) New() bool {
	_, err := os.Lstat(filepath.Join(s.git, "index"))
	return errors.Is(err, fs.ErrNotExist)
}

// Snapshot stores the working tree as Repo.Snapshot does. If our index of it was deleted, what only the index knows
// comes from the commit that Prepare set.
func (s *Slot) Snapshot(ctx context.Context) (Tree, error) {
	if s.New() && s.at.Hash != "" {
		err := s.lay()
		if err == nil {
			_, err = s.cli.run(ctx, gitCall{args: []string{"read-tree", s.at.Hash}})
		}
		if err != nil {
			return "", fmt.Errorf("snapshot: %w", err)
		}
	}
	return s.Repo.Snapshot(ctx)
}

// checkOut makes index and tracked files those of a tree. A file that git-lfs cannot make, because of what an agent
// committed, stays its pointer: it costs no other attempt its slot.
func (s *Slot) checkOut(ctx context.Context, tree string) error {
	s.listed = nil
	return s.insist(ctx, gitCall{options: []string{"-c", "filter.lfs.required=false"},
		args: []string{"read-tree", "--reset", "-u", tree}})
}

// insist runs a git command again where folders that an attempt closed kept it from its work.
func (s *Slot) insist(ctx context.Context, call gitCall) error {
	_, err := s.cli.run(ctx, call)
	if err != nil && ctx.Err() == nil && s.Loosen() {
		_, err = s.cli.run(ctx, call)
	}
	return err
}

// asUsers makes those files executable that are so in the user's tree, where core.fileMode keeps git from doing it.
// Those of a new slot that are as there get the times that they have there: what the user built from them is up to
// date. Later it would not do: what an attempt built from other content would be up to date too.
func (s *Slot) asUsers(ctx context.Context, tree string, first bool) error {
	modes := !s.user.set.is("core.filemode", true)
	if s.user.root == nil || !first && !modes {
		return nil
	}
	mine, err := s.Listed(ctx)
	if err != nil {
		return err
	}
	other := map[string]bool{}
	if first {
		b, err := s.user.cli.run(ctx, gitCall{args: []string{"diff", "--name-only", "--no-renames", "-z",
			"--ignore-submodules", tree, "--"}})
		if err != nil {
			return err
		}
		for _, path := range nulSplit(b) {
			other[path] = true
		}
	}
	now := time.Now()
	for path := range mine {
		is, err := s.root.Lstat(path)
		fi, uerr := s.user.root.Lstat(path)
		if err != nil || uerr != nil || !is.Mode().IsRegular() || !fi.Mode().IsRegular() { // what needs it says so
			continue
		}
		if modes && (is.Mode()^fi.Mode())&0o111 != 0 {
			_ = s.root.Chmod(path, is.Mode().Perm()&^0o111|fi.Mode().Perm()&0o111)
		}
		if first && !other[path] && fi.ModTime().Before(now) {
			_ = s.root.Chtimes(path, time.Time{}, fi.ModTime()) // at worst something is built again
		}
	}
	_, err = s.cli.run(ctx, gitCall{args: []string{"update-index", "-q", "--refresh"}})
	if exitCode(err) == 1 { // a filter gives other bytes back
		err = nil
	}
	return err
}

// remove removes what an attempt left at a path, also where it closed the folder around it.
func (s *Slot) remove(name string) error {
	err := plainfile.RemoveIn(s.root, name)
	if err != nil && s.Loosen() {
		err = plainfile.RemoveIn(s.root, name)
	}
	return err
}

// Loosen opens the folders that an attempt closed to their owner. It reports whether there was one.
func (s *Slot) Loosen() bool { return loosen(s.tree) }

// loosen makes folders writable that their owner closed: nothing in them could be removed.
func loosen(dir string) (done bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && path != dir {
			if fi, ierr := e.Info(); ierr == nil && fi.Mode().Perm()&0o700 != 0o700 {
				done = root.Chmod(path[len(dir)+1:], fi.Mode().Perm()|0o700) == nil || done // before the walk enters it
			}
		}
		return nil
	})
	return done
}

// agentRepository writes the agent's .git anew: the repository's branches and tags, borrowed objects, settings that
// run no program of ours. The index knows the files' times, so that the agent's first git status is quick.
func (s *Slot) agentRepository(ctx context.Context, at Head, index []byte) error {
	if err := s.remove(".git"); err != nil {
		return err
	}
	crash.Point("git: agent's repository removed")
	// to look at refs/descartes/ takes longer with each attempt
	hashes, err := s.user.listRefs(ctx, "refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/", "refs/replace/")
	if err != nil {
		return err
	}
	head := at.Hash
	if at.Branch != "" {
		head = "ref: " + at.Branch
	}
	if at.Branch != "" && at.Hash != "" {
		hashes[at.Branch] = at.Hash
	}
	refs := []byte("# pack-refs with: sorted \n")
	for _, n := range sortedKeys(hashes) {
		refs = append(refs, hashes[n]+" "+n+"\n"...)
	}
	alternates := s.objects + "\n"
	for _, d := range objectDirs(s.user.l.commonDir)[1:] {
		if real, err := filepath.EvalSymlinks(d); err == nil {
			alternates += real + "\n"
		}
	}
	files := map[string][]byte{"HEAD": []byte(head + "\n"), "config": s.config, "packed-refs": refs, "index": index,
		"objects/info/alternates": []byte(alternates)}
	for _, name := range []string{"info/exclude", "info/attributes", "shallow"} {
		if b, err := os.ReadFile(filepath.Join(s.user.l.commonDir, name)); err == nil {
			files[name] = b
		}
	}
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"} {
		if err := s.root.MkdirAll(filepath.Join(".git", d), 0o777); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(files) {
		if err := s.root.WriteFile(filepath.Join(".git", name), files[name], 0o666); err != nil {
			return err
		}
	}
	s.wrote = map[string][]byte{"HEAD": files["HEAD"], "packed-refs": refs}
	return nil
}

// agentSections are the settings of the repository that hold in an agent's .git as well. Those that run programs of
// the user's on behalf of git (hooks, credentials, signing) are not among them.
var agentSections = []string{"user.", "remote.", "branch.", "filter.", "diff.", "merge.", "alias.", "core.autocrlf",
	"core.eol", "core.safecrlf", "core.filemode",
	"core.symlinks", "core.precomposeunicode", "core.quotepath", "core.excludesfile", "core.attributesfile",
	"core.whitespace", "i18n.", "init.", "submodule."}

// agentConfig is the config file of an agent's .git. A remote can be read where that takes no login, and not pushed
// to.
func (s *Slot) agentConfig() []byte {
	format := "\trepositoryFormatVersion = 0\n"
	if len(s.cli.zero) == 64 {
		format = "\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n[core]\n"
	}
	out := []byte("[core]\n" + format +
		"\tbare = false\n\tlogAllRefUpdates = true\n[commit]\n\tgpgSign = false\n[gc]\n\tauto = 0\n")
	out = appendSetting(out, "core.ignoreCase", strconv.FormatBool(s.ignoresCase()))
	remotes := map[string]bool{}
	for _, one := range s.own {
		key, value := one.key, one.value
		if !slices.ContainsFunc(agentSections, func(p string) bool {
			return key == p || strings.HasSuffix(p, ".") && strings.HasPrefix(key, p)
		}) {
			continue
		}
		if strings.HasPrefix(key, "remote.") {
			remotes[key[:strings.LastIndexByte(key, '.')]] = true
			if strings.HasSuffix(key, ".pushurl") {
				continue
			}
		}
		if strings.HasPrefix(key, "remote.") || strings.HasPrefix(key, "branch.") ||
			strings.HasPrefix(key, "submodule.") {
			value, _ = WithoutLogin(value)
		}
		out = appendSetting(out, key, value)
	}
	for _, remote := range sortedKeys(remotes) {
		out = appendSetting(out, remote+".pushurl", "/dev/null/an agent's commits are collected and not pushed")
	}
	return out
}

func appendSetting(b []byte, key, value string) []byte {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	section := key[:first]
	if last > first {
		section += ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key[first+1:last]) + `"`
	}
	return append(b, "["+section+"]\n\t"+key[last+1:]+" = \""+quote.Replace(value)+"\"\n"...)
}

// ErrNoRepository is what Commits returns where the agent left no readable repository.
var ErrNoRepository = errors.New("the agent destroyed its repository")

// Commits fetches the commits that the agent made since Prepare, up to tip, into the repository and sets ref to the
// last one; "" where there are none. Their objects are read as data and checked; nothing that the agent's .git
// configures runs.
func (s *Slot) Commits(ctx context.Context, ref, tip string) (string, error) {
	base, err := s.base(ctx)
	if err == nil {
		err = s.collect(ctx, base, tip)
	}
	if err != nil || tip == base || base != "" && s.LeadsTo(ctx, base, tip) {
		return "", err
	}
	return tip, s.SetRef(ctx, ref, tip, "descartes: commits of an attempt")
}

// Texts are the whole commits that the agent made since Prepare, up to tip, one after the other: messages, names,
// whatever other headers there are, and all that once more in UTF-8 where a commit says that it is in another encoding.
func (s *Slot) Texts(ctx context.Context, tip string) (string, error) {
	base, err := s.base(ctx)
	if err != nil {
		return "", err
	}
	news, err := s.News(ctx, base, tip, "", "")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	recode := false
	for _, c := range news {
		b, err := s.Repo.objects.readAs(c.Hash, "commit")
		if err != nil {
			return "", err
		}
		head, _, _ := bytes.Cut(b, []byte("\n\n"))
		recode = recode || bytes.Contains(head, []byte("\nencoding "))
		text.Write(b)
		text.WriteByte('\n')
	}
	if !recode {
		return text.String(), nil
	}
	args := []string{"log", "--format=%an %ae %cn %ce%n%B", "--encoding=UTF-8", "--no-show-signature", tip}
	if base != "" {
		args = append(args, "^"+base)
	}
	b, err := s.cli.run(ctx, gitCall{args: args})
	text.Write(b)
	return text.String(), err
}

// base is the commit that Prepare set.
func (s *Slot) base(ctx context.Context) (string, error) {
	if s.at.Hash != "" {
		return s.at.Hash, nil
	}
	_, base, err := s.head(ctx)
	return base, err
}

// collect brings the agent's commits into the repository.
func (s *Slot) collect(ctx context.Context, base, tip string) error {
	switch {
	case tip == base && exists(filepath.Join(s.tree, ".git")):
		return nil
	case tip == "":
		return cmp.Or(s.cli.full(), ErrNoRepository)
	case s.has(ctx, tip):
		return nil
	}
	if err := s.bring(ctx, tip, base); err != nil {
		return fmt.Errorf("%w: %w", ErrNoRepository, err)
	}
	return nil
}

// maxCommitted bounds, in bytes, the objects that an agent's commits may bring.
const maxCommitted = 16 << 30

// bring stores what a commit needs and the repository lacks. git reads no folder of the agent's: its objects are taken
// out of it first, as plain files.
func (s *Slot) bring(ctx context.Context, tip, base string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, slotPatience, errors.New("its objects took too long to read"))
	defer cancel()
	objects := filepath.Join(s.git, "incoming")
	err := s.takeObjects(ctx, objects)
	defer os.RemoveAll(objects)
	if err != nil {
		return err
	}
	want := tip + "\n"
	if base != "" {
		want += "^" + base + "\n"
	}
	pack, err := s.cli.run(ctx, gitCall{options: []string{"-c", "core.commitGraph=false", "-c",
		"core.multiPackIndex=false"},
		args:  []string{"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"},
		stdin: []byte(want), env: []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + objects}})
	if err != nil {
		return err
	}
	_, err = s.cli.run(ctx, gitCall{args: []string{"unpack-objects", "-q", "--strict",
		"--max-input-size=" + strconv.Itoa(maxCommitted)}, stdin: pack})
	return err
}

// takeObjects gives the agent's objects another name in a folder of ours. What is no plain file, lies behind a link
// that leads out of the slot, or is no object (alternates, indexes of several packs) stays behind.
func (s *Slot) takeObjects(ctx context.Context, to string) error {
	slot, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer slot.Close()
	from, err := filepath.Rel(s.dir, filepath.Join(s.tree, ".git", "objects"))
	if err != nil {
		return err
	}
	if to, err = filepath.Rel(s.dir, to); err != nil {
		return err
	}
	if err := slot.RemoveAll(to); err != nil {
		return err
	}
	var bytes int64
	return fs.WalkDir(slot.FS(), filepath.ToSlash(from), func(name string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return cmp.Or(err, context.Cause(ctx))
		}
		rel := strings.TrimPrefix(name, filepath.ToSlash(from))
		switch at := to + rel; {
		case rel == "/info":
			return fs.SkipDir
		case d.IsDir() && strings.Count(rel, "/") > 1: // no objects lie there
			return fs.SkipDir
		case d.IsDir():
			return slot.MkdirAll(at, 0o777)
		case !d.Type().IsRegular() || !anObject(rel):
			return nil
		default:
			err := slot.Link(name, at)
			if err != nil { // the disk has no such names
				err = copyIn(slot, name, at)
			}
			fi, lerr := slot.Lstat(at)
			if err = cmp.Or(err, lerr); err != nil {
				return err
			}
			if !fi.Mode().IsRegular() {
				return slot.Remove(at)
			}
			if bytes += fi.Size(); bytes > maxCommitted {
				return fmt.Errorf("its objects have more than %d GB", maxCommitted>>30)
			}
			return nil
		}
	})
}

// anObject reports whether a file in a folder of objects holds one, or a pack of them.
func anObject(rel string) bool {
	dir, name := path.Split(strings.TrimPrefix(rel, "/"))
	if dir == "pack/" {
		return strings.HasPrefix(name, "pack-") && (strings.HasSuffix(name, ".pack") || strings.HasSuffix(name, ".idx"))
	}
	return isID(strings.TrimSuffix(dir, "/") + name)
}

// copyIn copies a plain file below a folder.
func copyIn(root *os.Root, from, to string) error {
	b, err := plainfile.ReadIn(root, from, maxCommitted)
	if err != nil {
		return err
	}
	return root.WriteFile(to, b, 0o444)
}

// Ignored lists what git ignores in the working tree; folders ignored as a whole end in a slash. Protected paths are
// left out.
func (r *Repo) Ignored(ctx context.Context) ([]string, error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"ls-files", "-o", "-i", "--exclude-standard", "--directory",
		"-z"}})
	if err != nil && r.cli.slot {
		err = r.cli.blame(ctx, err)
	}
	if err != nil {
		return nil, fmt.Errorf("list ignored files: %w", err)
	}
	return slices.DeleteFunc(nulSplit(b), func(p string) bool { return r.guard.covers(p) || r.guard.covers(p+"/") }),
		nil
}

// Ignores reports which of these paths git ignores, tracked or not; they need not exist.
func (s *Slot) Ignores(ctx context.Context, paths []string) (map[string]bool, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	return s.cli.ignored(ctx, paths)
}

// CommitChanges lists what a commit changes.
func (r *Repo) CommitChanges(ctx context.Context, hash string) ([]Change, error) {
	c, err := r.objects.commit(hash)
	if err != nil {
		return nil, err
	}
	before, err := r.CommitTree(c.Parent())
	if err != nil {
		return nil, err
	}
	return r.Changed(ctx, before, c.Tree)
}
