package slot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/internal/safename"
)

// Slot is a working copy of the project for one attempt at a time. It is separate from the user's tree and .git: the
// next Prepare undoes what an attempt did to its own. Pool makes it and takes it back.
type Slot struct {
	Number int
	try

	pool    *Pool
	git     *gitops.Slot
	lock    *flock.Flock
	told    map[string]bool
	state   slotState
	fixed   *Files
	current bool // this run brought its ignored files up to date
	layered bool // a check slot in layers
	up      layer
	alone   bool // and found that nothing in it leads back into the user's tree
}

// try is what a slot knows of the attempt in it.
type try struct {
	start   Start
	tip     gitops.Tree // of its branch
	head    gitops.Head
	began   time.Time
	named   Named
	seen    Result // when its agent had ended
	commits string // tip of the agent's own commits
	bare    bool   // its .git was destroyed, which was reported
	below   gitops.Below
	lost    string // see Result
	removed bool   // see Result

	unstored bool // git cannot store what it left
}

// Dir is where commands run: the path of the project's own folder, if a sandbox mounts the slot there.
func (s *Slot) Dir() string {
	if s.pool.opt.Shown {
		return s.pool.opt.Dir
	}
	return s.Host(s.pool.opt.Dir)
}

// Files is where the files of Dir really are; of a slot in layers those that its commands write.
func (s *Slot) Files() string {
	at := s.Host(s.pool.opt.Dir)
	if rel, err := filepath.Rel(s.Tree(), at); err == nil && s.layered && filepath.IsLocal(rel) {
		return filepath.Join(s.in(upLayer), rel)
	}
	return at
}

// Host is the path of a project's file in the slot.
func (s *Slot) Host(path string) string {
	rel, err := filepath.Rel(s.pool.opt.Repo.Root(), path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path
	}
	return filepath.Join(s.git.Tree(), rel)
}

// Tree is the top of the working copy.
func (s *Slot) Tree() string { return s.git.Tree() }

// Env is extra environment for commands: the slot's number, for ports and databases, and where nothing is mounted at the
// project's path, what keeps git from finding the user's repository, whatever happened to the slot's own.
func (s *Slot) Env() []string {
	env := []string{"DESCARTES_SLOT=" + strconv.Itoa(s.Number)}
	if !s.pool.opt.Shown {
		env = append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(s.git.Tree()))
	}
	return env
}

// Objects are the folders of objects that repositories in the slot borrow, by the paths at which they look for them.
func (s *Slot) Objects() map[string]string { return s.git.Objects() }

// Repo is the slot's working tree with the user's objects and refs.
func (s *Slot) Repo() *gitops.Repo { return s.git.Repo }

// Refs is the prefix of the refs that protect the objects of a place's slots. Several projects in one repository have
// several places.
func Refs(place string) string {
	return "refs/descartes/pool/" + safename.Of(filepath.Base(place)) + "/"
}

// ref is a ref that protects the slot's objects from pruning.
func (s *Slot) ref(what string) string {
	return fmt.Sprintf("%s%d/%s", Refs(s.pool.opt.Place), s.Number, what)
}

// Prepare sets up the slot for an attempt: the user's branch, a commit with the tree Base, the files of Before. A slot
// that cannot be set up is made again.
func (s *Slot) Prepare(ctx context.Context, start Start) (stand Stand, err error) {
	stand, err = s.setUp(ctx, start)
	if _, broken := errors.AsType[*gitops.BrokenSlotError](err); broken { // somebody's gc pruned what nothing led to yet
		s.pool.opt.Repo.AwaitGC(ctx)
		stand, err = s.setUp(ctx, start)
	}
	return stand, err
}

func (s *Slot) setUp(ctx context.Context, start Start) (Stand, error) {
	stand, err := s.aim(ctx, start)
	if err != nil {
		return stand, err
	}
	if len(start.Named) > 0 {
		if s.named.Was, s.named.Paths, err = s.pool.opt.Repo.WithOwn(ctx, stand.Tree, start.Named,
			start.But); err != nil {
			return stand, gitErr("take the files that the spec names", err)
		}
	}
	if err := s.bring(ctx); err != nil {
		return stand, err
	}
	if s.began = gitops.Now(); s.start.Since.IsZero() {
		s.start.Since = s.began
	}
	return stand, nil
}

// Aim is Prepare for an attempt on another machine: it pins the start here and changes no file of the slot.
func (s *Slot) Aim(ctx context.Context, start Start) (Stand, error) {
	stand, err := s.aim(ctx, start)
	if err == nil && s.head.Hash != start.At { // else the run's own refs lead to it
		whole := context.WithoutCancel(ctx) // a git that is killed leaves its lock
		if err = s.pool.opt.Repo.SetRef(whole, s.ref("base"), s.head.Hash, "descartes: pinned"); err != nil {
			return Stand{}, gitErr("pin the slot's base", err)
		}
	}
	return stand, err
}

func (s *Slot) aim(ctx context.Context, start Start) (Stand, error) {
	repo := s.pool.opt.Repo
	head, err := repo.Head(ctx)
	if err != nil {
		return Stand{}, gitErr("read the branch", err)
	}
	if start.Base == "" {
		if start.Base, err = repo.HeadTree(ctx); err != nil {
			return Stand{}, gitErr("read the tree of HEAD", err)
		}
	}
	start.Before = cmp.Or(start.Before, start.Base)
	head = gitops.Head{Branch: cmp.Or(start.Branch, head.Branch), Hash: cmp.Or(start.At, head.Hash)}
	tree, err := repo.CommitTree(head.Hash)
	// HEAD would show what is verified as the attempt's own changes
	on, message := start.Base, "descartes: verified so far\n\nWhat the finished tasks have changed. No branch names this commit."
	if s.forChecks() && start.Whole {
		on, message = start.Before, "descartes: what is checked\n\nNo branch names this commit."
	}
	if err == nil && tree != on {
		head.Hash, err = repo.Link(ctx, head.Hash, gitops.Link{Tree: on, When: gitops.Now(), Message: message})
	}
	if err != nil {
		return Stand{}, gitErr("take the slot's base", err)
	}
	s.try = try{start: start, head: head, tip: tree}
	return Stand{Tree: start.Before, Head: head}, nil
}

// bring gives the slot the files of Before, and its branch the commit of head.
func (s *Slot) bring(ctx context.Context) error {
	files := cmp.Or(s.named.Was, s.start.Before)
	fresh := s.pool.opt.Fresh && !s.forChecks() // which have layers, or are stripped
	err := s.git.Prepare(ctx, s.head, files, fresh)
	if _, broken := errors.AsType[*gitops.BrokenSlotError](err); broken {
		if err = s.pool.remake(ctx, s); err == nil {
			err = s.git.Prepare(ctx, s.head, files, fresh)
		}
	}
	if fresh { // the user's go with the attempt's: they are copied and set up again
		s.current, s.state.Setup = false, ""
	}
	if err != nil {
		return gitErr(fmt.Sprintf("prepare slot %d", s.Number), err)
	}
	switch {
	case s.layered:
		err = s.layer(ctx)
	case s.forChecks():
		err = s.strip(ctx)
		if s.start.Cold {
			s.state.Setup = ""
		}
	}
	if err == nil {
		err = s.pool.furnish(ctx, s)
	}
	if err == nil && s.layered {
		err = s.layerMade(ctx)
	}
	if err != nil {
		return err
	}
	var fixed []string
	for _, path := range s.pool.opt.Fixed {
		fixed = append(fixed, s.Host(path))
	}
	s.fixed.remember(fixed)
	return nil
}

// Repair collects the attempt's own commits, and restores the files that it must not change. A deleted slot is made
// again at once, and the attempt has no result.
func (s *Slot) Repair(ctx context.Context, who string) ([]string, error) {
	if !s.git.There() {
		s.lost = fmt.Sprintf("slot %d was deleted during the %s, with what it had written there", s.Number, who)
		s.removed = s.removed || s.git.New() // git's folder is out of an attempt's reach
		return []string{s.lost}, s.bring(ctx)
	}
	if s.layered {
		if err := s.layerOver(ctx); err != nil {
			return nil, err
		}
	}
	notes, err := s.fixed.PutBack(s.pool.opt.FS, who, s.start.Aside+".changed")
	if errors.Is(err, fs.ErrPermission) && s.git.Loosen() {
		notes, err = s.fixed.PutBack(s.pool.opt.FS, who, s.start.Aside+".changed")
	}
	if err != nil || s.forChecks() { // whose commits are nobody's
		return notes, err
	}
	tip := s.git.Tip(ctx)
	below, err := s.git.Below(ctx, tip)
	if err != nil {
		return notes, gitErr("read the reflog of the "+who, err)
	}
	if len(below.Forks) > 0 {
		s.below = below
	}
	tip, secret, err := s.collect(ctx, tip)
	switch {
	case errors.Is(err, gitops.ErrNoRepository):
		if !s.bare {
			s.bare = true
			notes = append(notes, "the "+who+
				" destroyed the .git of its slot, which is made again; its files are kept, but commits it made there may be lost")
		}
	case err != nil:
		return notes, gitErr("collect the commits of the "+who, err)
	case secret:
		if s.commits = ""; !s.told[tip] {
			s.told[tip] = true
			notes = append(notes, "a commit of the "+who+
				" has a secret in its message, author or another header: its files are kept, its own commits are not")
		}
	case tip != "":
		s.commits = tip
	}
	return notes, nil
}

// collect brings the attempt's own commits up to tip into the repository and returns the last one, "" where there are
// none. Nothing names them where one says a secret.
func (s *Slot) collect(ctx context.Context, tip string) (last string, secret bool, err error) {
	last, err = s.git.Commits(ctx, s.ref("commits"), tip)
	if err != nil || last == "" || s.pool.opt.Redact == nil {
		return last, false, err
	}
	said, err := s.git.Texts(ctx, last)
	if secret = err == nil && s.secret(said); secret {
		err = s.pool.opt.Repo.DeleteRefs(ctx, s.ref("commits"))
	}
	return last, secret, err
}

// secret reports whether a text has a secret in it.
func (s *Slot) secret(text string) bool { return s.pool.opt.Redact.Text(text) != text }

// Look takes the snapshot at the agent's end, before verification.
func (s *Slot) Look(ctx context.Context) (Result, error) {
	r := Result{Before: s.start.Before}
	if s.start.Whole {
		r.Before = s.start.Base
	}
	if err := s.look(ctx, &r); err != nil {
		return r, err
	}
	if len(r.Nested) > 0 {
		edited := "submodules were changed and not committed there: " + oneline.List(r.Nested)
		s.lost = cmp.Or(s.lost, edited+"; commit that in the submodule")
	}
	r.Lost, r.Removed = s.lost, s.removed
	r.Seen = r.After
	if s.unstored {
		s.seen = r
		return r, nil
	}
	ignored, err := s.git.Ignored(ctx)
	if err == nil {
		r.Installs = s.installs(ignored)
		r.Hidden, err = s.hidden(ctx, ignored)
	}
	beside := s.beside(ignored)
	if odd, is := errors.AsType[*gitops.UnstorableError](err); is {
		s.unstored, s.lost = true, cmp.Or(s.lost, odd.Error())
		r.After, r.Changed, r.Lost = r.Before, nil, s.lost
		r.Seen, s.seen = r.After, r
		return r, nil
	}
	if err != nil {
		return r, gitErr("look at what git ignores", err)
	}
	r.Alone, r.Beside = len(beside) == 0, beside[:min(len(beside), mostBeside)]
	if r.TookBack, err = s.tookBack(ctx, r.After); err != nil {
		return r, gitErr("compare the work with what its own git went back to", err)
	}
	s.seen = r
	r.carry(s.start.Made)
	return r, nil
}

func (s *Slot) look(ctx context.Context, r *Result) (err error) {
	for try := 0; ; try++ { // git gc --prune=now removes what no ref names
		if r.After, err = s.git.Snapshot(ctx); err == nil {
			err = s.modules(ctx, r)
		}
		if err == nil && r.After != s.seen.After {
			_, err = s.pool.opt.Repo.Keep(ctx, s.ref("work"), r.After, nil, "snapshot")
		}
		if err == nil {
			break
		}
		if odd, is := errors.AsType[*gitops.UnstorableError](err); is {
			s.unstored, s.lost = true, cmp.Or(s.lost, odd.Error())
			r.After, r.Changed, r.Commits = r.Before, nil, s.commits
			return nil
		}
		if try == 2 || ctx.Err() != nil {
			return gitErr("snapshot the work", err)
		}
	}
	if r.Named = s.named; len(r.Named.Paths) > 0 {
		if r.Named.Has, err = s.git.TreeWith(ctx, r.Named.Was, r.After, r.Named.Paths); err == nil {
			r.After, err = s.git.TreeWith(ctx, r.After, s.start.Before, r.Named.Paths)
		}
		if err != nil {
			return gitErr("leave out the files that the spec names", err)
		}
	}
	if r.Commits, r.Changed = s.commits, nil; r.After == r.Before {
		return nil
	}
	if r.Changed, err = s.git.Changed(ctx, r.Before, r.After); err != nil {
		return gitErr("compare the work", err)
	}
	return nil
}

// modules collects what was committed in submodules, and names what was not.
func (s *Slot) modules(ctx context.Context, r *Result) error {
	edited, lost, err := s.git.Modules(ctx, r.After, "refs/descartes/"+cmp.Or(s.pool.opt.Loop, "pool")+"/modules/",
		s.secret)
	r.Nested = nil
	for _, m := range edited {
		r.Nested = append(r.Nested, fmt.Sprintf("%s (kept: git -C %s merge --ff-only %.12s)", m.Path, m.Path, m.Why))
	}
	if len(lost) > 0 {
		s.lost = cmp.Or(s.lost, "submodules cannot be taken: "+gitops.Reasons(lost))
	}
	return err
}

// ignored tells of which files of the user's git ignored when the run began.
func (s *Slot) ignored(ctx context.Context) (func(path string) bool, error) {
	c, err := s.pool.plan(ctx)
	return func(path string) bool { return c.all[path] }, err
}

// Result is what the attempt left in the end. verified says that commands ran after the agent: new files of theirs are
// not work.
func (s *Slot) Result(ctx context.Context, verified bool) (Result, error) {
	r := s.seen
	if verified && !s.unstored {
		if err := s.look(ctx, &r); err != nil {
			return r, err
		}
		changed, err := s.git.Changed(ctx, r.Seen, r.After)
		if err != nil {
			return r, gitErr("compare the work", err)
		}
		r.Left, r.Grown = leavings(changed, r.Changed)
		r.drop(r.Left)
	}
	since := s.start.Since
	if since.After(gitops.Now()) { // the clock was set back
		since = time.Time{}
	}
	var err error
	if r.Uncovered, err = s.uncovered(ctx, &r, since); err != nil {
		return r, err
	}
	r.drop(r.Uncovered)
	r.Left = append(r.Left, r.Uncovered...)
	if len(r.Left) > 0 {
		if r.After, err = s.git.TreeWith(ctx, r.After, r.Before, r.Left); err != nil {
			return r, gitErr("take the work alone", err)
		}
	}
	if s.layered && !slices.Contains(s.up.Trees, r.After) { // the branch may get what the checks made of it
		s.up.Trees = append(s.up.Trees, r.After)
		if err := s.pool.record(s, "up.json", s.up); err != nil {
			return r, err
		}
	}
	r.Lost, r.Removed = s.lost, s.removed
	r.LeftOut, r.Old = s.git.LeftOut(since)
	r.Old = slices.DeleteFunc(r.Old, func(x gitops.LeftOut) bool {
		told := s.told[x.Path]
		s.told[x.Path] = true
		return told
	})
	if r.TookBack, err = s.tookBack(ctx, r.After); err != nil {
		return r, gitErr("compare the work with what its own git went back to", err)
	}
	if s.unstored {
		r.carry(s.start.Made)
		return r, nil
	}
	written, err := s.git.NestedEdits(ctx, s.began)
	if err != nil {
		return r, gitErr("look at the submodules", err)
	}
	r.Nested = append(r.Nested, written...)
	r.carry(s.start.Made)
	return r, nil
}

// tookBack says what the work lacks because the attempt's own git went back behind its start, or returns "".
func (s *Slot) tookBack(ctx context.Context, after gitops.Tree) (string, error) {
	for _, fork := range s.below.Forks {
		was, err := s.git.CommitTree(fork)
		if err != nil {
			return "", err
		}
		paths, err := s.git.TakenBack(ctx, was, s.start.Base, after, s.below.Away)
		if err != nil {
			return "", err
		}
		if len(paths) > 0 {
			return fmt.Sprintf("its own git went back to commit %.12s, before the attempt's start, and took back earlier work: %s", fork, oneline.List(paths)), nil
		}
	}
	return "", nil
}

// Restore brings the files back to a tree.
func (s *Slot) Restore(ctx context.Context, to gitops.Tree) error {
	if err := s.git.Prepare(ctx, s.head, to, false); err != nil {
		return gitErr(fmt.Sprintf("restore slot %d", s.Number), err)
	}
	return nil
}

// Holds is the tree that the slot holds of an attempt that a killed run began at a time, and the tip of its own
// commits; nothing if the slot was deleted or another run used it since.
func (s *Slot) Holds(ctx context.Context, began time.Time) (r Result, err error) {
	// each run that uses the slot has a folder there
	files, err := os.Lstat(filepath.Dir(SlotFiles(s.pool.opt.Place, s.Number, "loop")))
	if s.git.New() || err != nil || files.ModTime().After(began) {
		return Result{}, nil
	}
	last, secret, err := s.collect(ctx, s.git.Tip(ctx))
	if err != nil && !errors.Is(err, gitops.ErrNoRepository) {
		return r, err
	}
	if !secret {
		r.Commits = last
	}
	if r.After, err = s.git.Snapshot(ctx); err == nil {
		err = s.modules(ctx, &r)
	}
	if _, is := errors.AsType[*gitops.UnstorableError](err); is {
		return Result{}, nil
	}
	return r, err
}

// Drop removes the files of the slot, which is made again when a run takes it next.
func (s *Slot) Drop() error {
	return plainfile.RemoveAll(s.pool.dir(s.Number))
}

// Close releases the slot.
func (s *Slot) Close() error {
	if s.lock == nil {
		return nil
	}
	err := errors.Join(s.pool.weigh(s), s.git.Close(), s.lock.Close())
	s.lock = nil
	return err
}
