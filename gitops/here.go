package gitops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/crash"
	"descartes/internal/oneline"
)

// EditedError says that somebody else changed the user's folder while a run had it for itself. Nothing was touched.
type EditedError struct {
	Paths []string // none where HEAD was moved
	said  string
}

func (e *EditedError) Error() string { return e.said }

func editedPaths(paths []string) error {
	return &EditedError{paths, "somebody edited this folder, which the run has for itself: " + oneline.List(paths) +
		"; nothing was touched; commit, stash, move or undo that, then resume the run"}
}

func shortBranch(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// hereState is what is recorded about the user's folder while it is a slot.
type hereState struct {
	Loop string `json:"loop"` // that has it
	// what the folder had when the last command of the run had ended, or was brought to since
	Tree Tree `json:"tree"`
	Busy bool `json:"busy"` // the run may have changed it since
	Shut bool `json:"shut"` // and its commands could not write to .git
	Head Head `json:"head"` // where the user's HEAD has to be
	// Moved is where it was when a person was asked about that.
	Moved string `json:"moved,omitempty"`
	// Ignored is what no snapshot had when the run began, or was resumed after a kill: it is the user's, whatever an
	// attempt makes of the rules.
	Ignored []string `json:"ignored,omitempty"`
}

// HereFile is the file of a slot that exists while the user's folder is it.
func HereFile(dir string) string { return filepath.Join(dir, "here.json") }

func (s *Slot) state() (st hereState) {
	if b, err := os.ReadFile(HereFile(s.dir)); err == nil {
		_ = json.Unmarshal(b, &st) // a torn file counts as empty: what differs from HEAD is somebody's then
	}
	if st.Loop != s.opts.Loop {
		st = hereState{}
	}
	return st
}

func (s *Slot) setState(st hereState) error {
	st.Loop = s.opts.Loop
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	next := HereFile(s.dir) + ".new"
	if err := os.WriteFile(next, b, 0o644); err != nil {
		return err
	}
	return os.Rename(next, HereFile(s.dir))
}

// Leave gives the folder back.
func (s *Slot) Leave() error {
	if err := os.Remove(HereFile(s.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// seed takes the user's HEAD and index for ours: the index knows the times of the files.
func (s *Slot) seed(ctx context.Context) error {
	st := s.state()
	if st.Tree != "" && !s.user.has(ctx, string(st.Tree)) { // of another repository that was here
		if err := s.Leave(); err != nil {
			return err
		}
		st = hereState{}
	}
	if !s.New() && st.Busy {
		return nil
	}
	_, head, err := s.user.head(ctx)
	if err == nil {
		s.stands, err = "", s.setHead(ctx, head)
	}
	if err == nil {
		err = s.takeIndex(filepath.Join(s.user.l.gitDir, "index"))
	}
	return err
}

// takeIndex makes ours a copy of an index.
func (s *Slot) takeIndex(from string) error {
	index, err := s.cli.indexCopy(from)
	if err != nil || !exists(index) {
		return err
	}
	defer os.Remove(index) // where both names are one file already, a rename does nothing
	return os.Rename(index, filepath.Join(s.git, "index"))
}

// prepareHere is prepare in the user's own folder. The snapshot that it compares with what the run left becomes our
// index: so git writes what differs and nothing else, and removes what is too much. Files that attempts may not change
// stay as they are.
func (s *Slot) prepareHere(ctx context.Context, at Head, tree Tree) error {
	head, err := s.user.Head(ctx)
	if err != nil {
		return err
	}
	st := s.state()
	now, edited, odd, err := s.look(ctx, &st, head, tree)
	switch {
	case err != nil:
	case st.Busy && len(edited) > 0: // beside a check of what is verified
		err = s.keepEdits(ctx, head, st.Tree, now, edited)
	case !st.Busy && len(edited)+len(odd) > 0:
		err = editedPaths(append(edited, odd...))
	}
	if err == nil {
		var committed Tree
		if committed, err = s.CommitTree(head.Hash); err == nil {
			err = s.diff(ctx, tree, committed, func(name string, was, is treeItem) {
				// no commit has what is in it
				if is.mode == modeGitlink && was.mode != modeGitlink && !slices.Contains(st.Ignored, name+"/") {
					st.Ignored = append(st.Ignored, name+"/")
				}
			})
		}
	}
	if err != nil {
		return err
	}
	st.Busy, st.Tree, st.Shut, st.Head = true, tree, s.opts.Shut, head
	if err = s.setState(st); err == nil {
		err = s.takeIndex(s.cli.last)
	}
	crash.Point("git: folder started")
	if err == nil {
		err = s.stand(ctx, at.Hash)
	}
	if err == nil {
		err = s.bringHere(ctx, now, tree)
	}
	if err != nil {
		return err
	}
	if s.at = at; s.at.Branch == "" {
		s.at.Branch = head.Branch
	}
	if fi, err := os.Stat(filepath.Join(s.user.l.gitDir, "logs", "HEAD")); err == nil {
		s.logged = fi.Size()
	}
	return s.user.onIndex(ctx, func() error { // what an attempt staged
		_, err := s.user.cli.run(ctx, gitCall{args: []string{"reset", "-q", "--", "."}})
		return err
	})
}

// bringHere gives the folder the files of a tree but for those that git is not to touch: what the user had ignored,
// and what attempts may not change, whoever writes it meanwhile.
func (s *Slot) bringHere(ctx context.Context, now, tree Tree) error {
	users, set := newProtection(s.state().Ignored), map[string]treeItem{}
	err := s.diff(ctx, now, tree, func(name string, _, is treeItem) {
		if is.mode == 0 && users.covers(name) || s.guard.covers(name) {
			set[name] = is
		}
	})
	if err == nil {
		err = s.cli.setEntries(ctx, "", set)
	}
	var guarded []string
	if err == nil && len(s.guard) > 0 {
		var b []byte
		b, err = s.cli.run(ctx, gitCall{options: literally, args: append([]string{"ls-files", "-z", "--"},
			s.guard...)})
		guarded = nulSplit(b)
	}
	skip := func(as string) {
		if err == nil && len(guarded) > 0 {
			_, err = s.cli.run(ctx, gitCall{args: []string{"update-index", as, "-z", "--stdin"},
				stdin: nulJoin(guarded)})
		}
	}
	skip("--skip-worktree")
	if err == nil {
		err = s.checkOut(ctx, string(tree))
	}
	crash.Point("git: folder checked out")
	skip("--no-skip-worktree")
	if err == nil {
		err = s.removeRest(ctx, "")
	}
	return err
}

// Interrupted looks at what a killed run left in the user's folder, and at what happened there since, before anything
// is set back: a ref keeps what differs, and people are told. made is the run's own last commit. Where the branch
// moved, and the run's commands might have done that, it is an EditedError, once: the next call takes the commits for
// the user's.
func (s *Slot) Interrupted(ctx context.Context, made string) error {
	st := s.state()
	if !st.Busy {
		return nil
	}
	head, err := s.user.Head(ctx)
	if err != nil {
		return err
	}
	from := st.Head.Hash
	if made != "" && s.user.LeadsTo(ctx, head.Hash, made) {
		from = made
	}
	if head.Branch == st.Head.Branch && !slices.Contains([]string{from, st.Head.Hash, st.Moved}, head.Hash) &&
		!st.Shut {
		st.Moved = head.Hash
		return cmp.Or(s.setState(st), error(&EditedError{said: fmt.Sprintf(
			"%s moved to %s after the run was killed, or its agent did that; nothing was touched; resume the run to keep that, or type git reset %s first, which leaves the files as they are",
			shortBranch(cmp.Or(head.Branch, "HEAD")), shortHash(head.Hash), shortHash(from))}))
	}
	now, edited, odd, err := s.look(ctx, &st, head)
	if err == nil && len(odd) > 0 {
		err = editedPaths(odd)
	}
	if err == nil && len(edited) > 0 {
		err = s.keepEdits(ctx, head, st.Tree, now, edited)
	}
	if err != nil {
		return err
	}
	ignored, err := s.others(ctx, s.cli.last, "-i")
	if err != nil {
		return err
	}
	return s.setState(hereState{Tree: now, Head: head, Ignored: append(st.Ignored, ignored...)})
}

// look takes a snapshot and lists the paths at which it is like nothing that the run knows: HEAD, what it left, and
// trees. odd are those that no ref can keep. What is there before the run begins is the user's.
func (s *Slot) look(ctx context.Context, st *hereState, head Head, trees ...Tree) (now Tree, edited, odd []string,
	err error) {
	if st.Head != (Head{}) && st.Head.Branch != head.Branch {
		return "", nil, nil, &EditedError{
			said: "another branch was checked out in this folder, which the run has for itself; nothing was touched; git switch " + shortBranch(st.Head.Branch) + ", then resume the run"}
	}
	if now, err = s.Repo.Snapshot(ctx); err != nil {
		return now, nil, nil, err
	}
	committed, err := s.CommitTree(head.Hash)
	if err != nil {
		return now, nil, nil, err
	}
	if odd, err = s.others(ctx, s.cli.last); err != nil {
		return now, nil, nil, err
	}
	if st.Tree == "" {
		ignored, err := s.others(ctx, s.cli.last, "-i")
		if err != nil {
			return now, nil, nil, err
		}
		st.Ignored, odd, trees = append(ignored, odd...), nil, nil
	} else {
		trees = append(trees, st.Tree)
		odd = slices.DeleteFunc(odd, func(p string) bool { return slices.Contains(st.Ignored, p) })
	}
	var known []*Contents
	for _, t := range trees {
		known = append(known, s.view(t))
	}
	err = cmp.Or(s.diff(ctx, committed, now, func(name string, was, is treeItem) {
		if s.guard.covers(name) {
			return
		}
		repo := is.mode == modeGitlink
		for _, v := range known {
			at, verr := v.file(name)
			err = cmp.Or(err, verr)
			if at == is {
				return
			}
			repo = repo && at.mode != modeGitlink
		}
		if edited = append(edited, name); repo && was.mode != modeGitlink {
			odd = append(odd, name)
		}
	}), err)
	slices.Sort(edited)
	slices.Sort(odd)
	return now, edited, odd, err
}

// others lists what an index does not have: what git cannot take, such as a repository without a commit, or with "-i"
// what it ignores.
func (s *Slot) others(ctx context.Context, index string, which ...string) ([]string, error) {
	args := append([]string{"ls-files", "-o", "--exclude-standard", "--directory", "--no-empty-directory", "-z"},
		which...)
	b, err := s.cli.run(ctx, gitCall{args: args, index: index})
	return slices.DeleteFunc(nulSplit(b), func(p string) bool {
		return s.guard.covers(p) || s.guard.leads(strings.TrimSuffix(p, "/"))
	}), err
}

// removeRest removes what an attempt made and an index does not have: repositories without a commit and the like.
func (s *Slot) removeRest(ctx context.Context, index string) error {
	rest, err := s.others(ctx, index)
	users := newProtection(s.state().Ignored)
	rest = slices.DeleteFunc(rest, func(p string) bool {
		return users.covers(p) || users.leads(strings.TrimSuffix(p, "/"))
	})
	if err != nil || len(rest) == 0 {
		return err
	}
	_, err = s.cli.run(ctx, gitCall{options: literally, args: append([]string{"clean", "-ffdq", "--"}, rest...),
		index: index})
	return err
}

const setBack = "descartes: what was in the folder when a run set it back" // of the commit that keeps it

// NotBack says which files that a loop set back in this folder are not in it as they were, and what brings them back.
func (r *Repo) NotBack(ctx context.Context, loop string) (lines []string, err error) {
	refs, err := r.Refs(ctx, "refs/descartes/"+loop+"/set-back/")
	for _, ref := range refs {
		if strings.TrimSpace(ref.Message) != setBack {
			continue // commits, which are merged
		}
		args := []string{"diff", "--name-only", "--no-renames", "--diff-filter=d", "-z", ref.Name + "^", ref.Name, "--"}
		kept, err := r.cli.run(ctx, gitCall{args: args})
		if err != nil {
			return nil, err
		}
		paths := nulSplit(kept)
		for i, name := range paths {
			paths[i] = ":/" + name
		}
		if len(paths) == 0 {
			continue
		}
		args = append([]string{"diff", "--name-only", "--no-renames", "-z", ref.Name, "--"}, paths...)
		gone, err := r.cli.run(ctx, gitCall{args: args})
		if err != nil {
			return nil, err
		}
		var names, words []string
		for _, name := range nulSplit(gone) {
			names, words = append(names, name), append(words, shellWord(":/"+name))
		}
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("%s; to have them as they were: git checkout %s -- %s; "+
				"to forget them: git update-ref -d %[2]s", oneline.List(names), ref.Name, strings.Join(words, " ")))
		}
	}
	return lines, err
}

// keepEdits keeps what the folder has under a ref of its own, on top of what the run wants there, and says so.
func (s *Slot) keepEdits(ctx context.Context, head Head, want, now Tree, paths []string) error {
	on, err := s.link(ctx, Link{Tree: want, Message: "descartes: what this folder was to have", When: time.Now()},
		head.Hash)
	if err != nil {
		return err
	}
	ref, err := s.freeRef()
	if err == nil {
		_, err = s.keep(ctx, ref, now, []string{on}, setBack)
	}
	if err != nil {
		return err
	}
	crash.Point("git: folder kept")
	return s.opts.Say(fmt.Sprintf(
		"set back in this folder: %s. What the run's last command and you had changed there is kept together as %s: git diff %[2]s^ %[2]s shows it, "+
			"git checkout %[2]s -- PATH brings a file back once the run has ended", oneline.List(paths), ref))
}

// freeRef is a new ref for what is set back.
func (s *Slot) freeRef() (ref string, err error) {
	for n, at := 1, "x"; at != "" && err == nil; n++ {
		ref = fmt.Sprintf("refs/descartes/%s/set-back/%d", s.opts.Loop, n)
		at, err = s.user.RefCommit(ref)
	}
	return ref, err
}

// WasIgnored tells of which paths of the folder git ignored when the run began.
func (s *Slot) WasIgnored() func(path string) bool { return newProtection(s.state().Ignored).covers }

// NotClean lists what a commit of everything would change, sorted, and untracked files. Of protected paths it lists
// the tracked ones.
func (r *Repo) NotClean(ctx context.Context) ([]string, error) {
	return r.dirty(ctx, func(code, path string) bool { return code != "??" || !r.guard.covers(path) })
}

// Settle records what the user's folder has now, as a snapshot of it says: a later change is somebody else's.
func (s *Slot) Settle(ctx context.Context, now Tree) error {
	head, err := s.user.Head(ctx)
	if err == nil {
		err = s.removeRest(ctx, s.cli.last)
	}
	if err != nil {
		return err
	}
	return s.setState(hereState{Tree: now, Head: head, Ignored: s.state().Ignored})
}

// SetHeadBack sets HEAD and branch of the user's folder back to where the attempt found them. It returns the tip of
// what was committed, which a ref keeps, or "".
func (s *Slot) SetHeadBack(ctx context.Context) (tip string, err error) {
	found := s.state().Head
	branch, tip, err := s.user.head(ctx)
	if err != nil || branch == found.Branch && tip == found.Hash {
		return "", err
	}
	at, left := tip, shortHash(tip) // at: what is set back
	if branch != found.Branch {
		if branch != "" {
			left = "the branch " + shortBranch(branch)
		}
		at = found.Hash
		if found.Branch != "" {
			if at, err = s.user.RefCommit(found.Branch); err != nil {
				return "", err
			}
		}
	}
	if tip == found.Hash {
		tip = at
	}
	said := "the attempt left HEAD at " + left + ", which is set back"
	if tip == found.Hash {
		tip = ""
	} else if tip != "" && !s.user.LeadsTo(ctx, found.Hash, tip) {
		ref, err := s.freeRef()
		if err == nil {
			err = s.user.SetRef(ctx, ref, tip, "descartes: commits of an attempt")
		}
		if err != nil {
			return "", err
		}
		said += fmt.Sprintf("; its commits, or yours, are kept as %s: git merge %[1]s brings them back once the run has ended", ref)
	}
	if err := s.opts.Say(said); err != nil {
		return "", err
	}
	crash.Point("git: commits kept")
	const why = "descartes: set back after an attempt"
	if branch != found.Branch && found.Branch != "" {
		err = s.user.pointHead(ctx, found.Branch, why)
	}
	switch {
	case err != nil || branch == found.Branch && at == found.Hash:
	case found.Hash == "":
		err = s.user.removeRef(ctx, found.Branch)
	case found.Branch == "": // HEAD itself, and no branch that it names
		err = s.user.SetRef(ctx, "HEAD", found.Hash, why)
	default:
		err = s.user.MoveRef(ctx, found.Branch, at, found.Hash, why)
	}
	return tip, err
}
