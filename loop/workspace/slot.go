package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"descartes/gitops"
)

// Slot is a working copy of the project in which one attempt runs at a time. The user's tree and .git are nobody's concern there: what an
// attempt does to its own is undone by the next Prepare. It is Pool's to make and to give back.
type Slot struct {
	Number int

	pool   *Pool
	git    *gitops.Slot
	lock   *flock.Flock
	seen   Result // when its agent had ended
	head   gitops.Head
	told   map[string]bool
	start  Start
	began  time.Time
	pinned string // commit that the attempt starts from
	state  string // how the slot was set up last

	commits string // tip of the commits that the agent made itself
	bare    bool   // its .git was destroyed, and that was reported
	lost    string // see Result
	fixed   *Files
}

// Dir is where commands run. Where a sandbox shows the slot in the place of the project that is the project's own folder.
func (s *Slot) Dir() string {
	if s.pool.opt.Shown {
		return s.pool.opt.Dir
	}
	return s.Host(s.pool.opt.Dir)
}

// Files is where the files of Dir really are.
func (s *Slot) Files() string { return s.Host(s.pool.opt.Dir) }

// Host is where a file of the project is in the slot.
func (s *Slot) Host(path string) string {
	rel, err := filepath.Rel(s.pool.opt.Repo.Root(), path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path
	}
	return filepath.Join(s.git.Tree(), rel)
}

// Tree is the top of the working copy.
func (s *Slot) Tree() string { return s.git.Tree() }

// Env is what commands need besides where no sandbox shows the slot in the place of the project: git in it must not find the user's
// repository, whatever became of the slot's own.
func (s *Slot) Env() []string {
	if s.pool.opt.Shown {
		return nil
	}
	return []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(s.git.Tree())}
}

// Repo is the slot's working tree, with the objects and refs of the user's repository.
func (s *Slot) Repo() *gitops.Repo { return s.git.Repo }

// ref names the refs by which a slot keeps what it holds from being pruned.
func (s *Slot) ref(what string) string {
	return fmt.Sprintf("refs/descartes/pool/%d/%s", s.Number, what)
}

// Prepare brings the slot to the state that an attempt starts from: its branch is the user's, its commit one of Base, its files those of
// Before. A slot that cannot be brought there is made anew. One whose attempt is resumed is left as it is.
func (s *Slot) Prepare(ctx context.Context, start Start) (stand Stand, err error) {
	s.start, s.commits, s.bare, s.lost, s.seen = start, "", false, "", Result{}
	head, err := s.pool.opt.Repo.Head(ctx)
	if err != nil {
		return stand, gitErr("read the branch", err)
	}
	if start.At != "" {
		head.Hash = start.At
	}
	head.Branch = cmp.Or(start.Branch, head.Branch)
	if r := start.Resumed; r != nil {
		s.began, s.head = r.Began, r.Head
		if s.git.New() {
			s.lost = fmt.Sprintf("slot %d was deleted while no run used it, with what the interrupted attempt had written there", s.Number)
			return Stand{Tree: start.Before, Head: r.Head}, s.bring(ctx, r.Head)
		}
		s.fixed.remember(s.pool.fixed(s))
		return Stand{Tree: start.Before, Head: r.Head}, nil
	}
	if err := s.aim(ctx, &head); err != nil {
		return stand, err
	}
	if err := s.bring(ctx, head); err != nil {
		return stand, err
	}
	if s.began = gitops.Now(); s.start.Since.IsZero() {
		s.start.Since = s.began
	}
	return Stand{Tree: s.start.Before, Head: head}, nil
}

// aim completes what the attempt starts from, and pins its commit.
func (s *Slot) aim(ctx context.Context, head *gitops.Head) (err error) {
	if s.start.Base == "" {
		if s.start.Base, err = s.pool.opt.Repo.HeadTree(ctx); err != nil {
			return gitErr("read the tree of HEAD", err)
		}
	}
	if s.start.Before == "" {
		s.start.Before = s.start.Base
	}
	if head.Hash, err = s.commit(ctx, head.Hash); err != nil {
		return gitErr("pin the slot's base", err)
	}
	return nil
}

// Aim is Prepare for an attempt that another machine makes: what it starts from is pinned here, and no file of the slot changes.
func (s *Slot) Aim(ctx context.Context, start Start) (Stand, error) {
	s.start = start
	head, err := s.pool.opt.Repo.Head(ctx)
	if err != nil {
		return Stand{}, gitErr("read where the branch is", err)
	}
	if err := s.aim(ctx, &head); err != nil {
		return Stand{}, err
	}
	return Stand{Tree: s.start.Before, Head: head}, nil
}

// bring makes the slot's files those of Before, and its branch's commit that of head.
func (s *Slot) bring(ctx context.Context, head gitops.Head) error {
	s.head = head
	err := s.git.Prepare(ctx, head, s.start.Before, s.pool.opt.Fresh)
	if broken, ok := errors.AsType[*gitops.BrokenSlotError](err); ok {
		if err = s.pool.remake(ctx, s); err != nil {
			return fmt.Errorf("make slot %d again, since %w: %w", s.Number, broken, err)
		}
		err = s.git.Prepare(ctx, head, s.start.Before, s.pool.opt.Fresh)
	}
	if err != nil {
		return gitErr(fmt.Sprintf("prepare slot %d", s.Number), err)
	}
	if err := s.pool.furnish(ctx, s); err != nil {
		return err
	}
	s.fixed.remember(s.pool.fixed(s))
	return nil
}

// commit is a commit of the base, pinned by a ref: HEAD itself where it holds that tree.
func (s *Slot) commit(ctx context.Context, head string) (string, error) {
	repo := s.pool.opt.Repo
	tree, err := repo.CommitTree(head)
	if err != nil {
		return "", err
	}
	if tree == s.start.Base && head != "" {
		if s.pinned != head {
			if err := repo.PinCommit(ctx, s.ref("base"), head); err != nil {
				return "", err
			}
		}
		s.pinned = head
		return head, nil
	}
	var parents []string
	if head != "" {
		parents = []string{head}
	}
	s.pinned, err = repo.Keep(ctx, s.ref("base"), s.start.Base, parents, "descartes: verified so far\n\nWhat the finished tasks have changed. No branch names this commit.")
	return s.pinned, err
}

// Running does nothing: what an attempt does to its settings runs for nobody else.
func (s *Slot) Running() {}

// Repair collects the commits that the attempt made itself, and restores the files that it may not change. A slot
// that somebody deleted is made again at once, and the attempt has no result.
func (s *Slot) Repair(ctx context.Context, who string) ([]string, error) {
	if !s.git.There() {
		s.lost = fmt.Sprintf("slot %d was deleted during the %s, with what it had written there", s.Number, who)
		return []string{s.lost}, s.bring(ctx, s.head)
	}
	notes, err := s.fixed.PutBack(s.pool.opt.FS, who, s.start.Aside+".changed")
	if err != nil {
		return notes, err
	}
	tip, err := s.git.Commits(ctx, s.ref("commits"))
	switch {
	case errors.Is(err, gitops.ErrNoRepository):
		if !s.bare {
			s.bare = true
			notes = append(notes, "the "+who+" destroyed the .git of its slot, which is made again; its files are kept, but commits it made there may be lost")
		}
	case err != nil:
		return notes, gitErr("collect the commits of the "+who, err)
	case tip != "" && tip != s.commits:
		s.commits = tip
		notes = append(notes, fmt.Sprintf("the %s committed by itself, up to %.12s; its commits are kept under the attempt's ref, its work is taken as files", who, tip))
	}
	return notes, nil
}

// from is the tree that an attempt's work is measured against.
func (s *Slot) from() gitops.Tree {
	if s.start.Whole {
		return s.start.Base
	}
	return s.start.Before
}

// Look takes the snapshot when the agent has ended: what verification finds.
func (s *Slot) Look(ctx context.Context) (Result, error) {
	r := Result{Before: s.from(), Lost: s.lost}
	if err := s.look(ctx, &r); err != nil {
		return r, err
	}
	if r.Seen = r.After; s.start.Resumed != nil && s.start.Resumed.Seen != "" { // its verification may have begun
		r.Seen = s.start.Resumed.Seen
	}
	s.seen = r
	return r, nil
}

func (s *Slot) look(ctx context.Context, r *Result) (err error) {
	if r.After, err = s.git.Snapshot(ctx); err != nil {
		return gitErr("snapshot the work", err)
	}
	if r.Commits, r.Changed = s.commits, nil; r.After == r.Before {
		return nil
	}
	if r.Changed, err = s.git.Changed(ctx, r.Before, r.After); err != nil {
		return gitErr("compare the work", err)
	}
	return nil
}

// Result is what the attempt left in the end. verified says that commands ran after the agent: what they made that is new is no work.
func (s *Slot) Result(ctx context.Context, verified bool) (Result, error) {
	r := s.seen
	r.Lost = s.lost
	if verified {
		if err := s.look(ctx, &r); err != nil {
			return r, err
		}
	}
	if err := r.measure(ctx, s.git.Repo, s.start, verified); err != nil {
		return r, err
	}
	r.Old = unreported(s.told, r.Old)
	var err error
	if r.Nested, err = s.git.NestedEdits(ctx, s.began); err != nil {
		return r, gitErr("look at the submodules", err)
	}
	return r, nil
}

// Restore does nothing: the next Prepare does.
func (s *Slot) Restore(_ context.Context, to gitops.Tree, _ time.Time) (Restored, error) {
	return Restored{Tree: to}, nil
}

// Stale does nothing: nobody else works in a slot.
func (s *Slot) Stale() {}

// Close gives the slot back. Where an attempt is left open it stays as it is for the run that resumes it.
func (s *Slot) Close(bool) error {
	if s.lock == nil {
		return nil
	}
	err := errors.Join(s.git.Close(), s.lock.Close())
	s.lock = nil
	return err
}
