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
)

// EditedError says that somebody else changed the user's folder while a run had it for itself. Nothing was touched.
type EditedError struct {
	Paths  []string // none where another branch was checked out, or where the run's moved
	Branch string   // then the one that the run works on
	From   string   // where it was, if it moved; "" for nowhere
	To     string   // where it is, if it moved
	News   []string // subjects of its new commits
}

func (e *EditedError) Error() string {
	list, drop := e.Paths, "git reset "+shortHash(e.From)
	if e.To != "" {
		list = e.News
	}
	n := min(len(list), 10)
	names := fmt.Sprintf("%q", list[:n])
	if n < len(list) {
		names += fmt.Sprintf(" and %d more", len(list)-n)
	}
	if e.From == "" {
		drop = "git update-ref -d HEAD"
	}
	switch {
	case e.To != "":
		return fmt.Sprintf("%s moved to %s (new commits: %s) after the run was killed, or its agent did that; nothing was touched; resume the loop to keep that, or type %s first, which leaves the files as they are",
			shortBranch(cmp.Or(e.Branch, "HEAD")), shortHash(e.To), names, drop)
	case n == 0:
		return "another branch was checked out in this folder, which the run has for itself; nothing was touched; git switch " + shortBranch(e.Branch) + ", then resume the loop"
	}
	return "somebody edited this folder, which the run has for itself: " + names + "; nothing was touched; commit, stash, move or undo that, then resume the loop"
}

func shortBranch(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// hereState is what is recorded about the user's folder while it is a slot.
type hereState struct {
	Loop string `json:"loop"` // that has it
	Left Tree   `json:"left"` // what the folder had when the last command of the run had ended
	Busy bool   `json:"busy"` // the run may have changed it since
	Want Tree   `json:"want"` // and brought it to this
	Shut bool   `json:"shut"` // and its commands could not write to .git
	Head Head   `json:"head"` // where the user's HEAD has to be
	// Moved is where it was when a person was asked about that.
	Moved string `json:"moved,omitempty"`
	// Rest is what no snapshot has, ignored or not, in the state Left. Ignored is what of it is the user's, whatever an attempt makes of the rules: what was
	// there when the run began, and what came while none of its commands ran.
	Rest    []string `json:"rest,omitempty"`
	Ignored []string `json:"ignored,omitempty"`
}

// SetBack is what a run sets back in the user's folder without knowing whose it is: HEAD, or files.
type SetBack struct {
	Ref    string   // keeps it; files on top of what the run wants there
	Head   string   // where HEAD was
	Paths  []string // of files
	Staged bool     // the ref's second parent has what was staged, which is neither in HEAD nor in the files
}

func (s *Slot) stateFile() string { return HereFile(s.dir) }

// HereFile is the file of a slot that exists while the user's folder is it.
func HereFile(dir string) string { return filepath.Join(dir, "here.json") }

func (s *Slot) state() (st hereState) {
	if b, err := os.ReadFile(s.stateFile()); err == nil {
		_ = json.Unmarshal(b, &st) // a torn file counts as empty: what differs from HEAD is somebody's then
	}
	if st.Loop != s.own.Loop {
		st = hereState{}
	}
	return st
}

func (s *Slot) setState(st hereState) error {
	st.Loop = s.own.Loop
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	next := s.stateFile() + ".new"
	if err := os.WriteFile(next, b, 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.stateFile())
}

// seed takes the user's HEAD and index for ours: the index knows the times of the files.
func (s *Slot) seed(ctx context.Context) error {
	st := s.state()
	if st.Left != "" && !s.user.has(ctx, string(st.Left)) { // of another repository that was here
		if err := s.Leave(); err != nil {
			return err
		}
		st = hereState{}
	}
	own := filepath.Join(s.git, "index")
	if _, err := os.Lstat(own); err == nil && st.Busy {
		return nil
	}
	_, head, err := s.user.head(ctx)
	if err != nil {
		return err
	}
	if err := s.setHead(ctx, head); err != nil {
		return err
	}
	from := filepath.Join(s.user.l.gitDir, "index")
	b, err := readPlain(from, mostCopied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	fi, serr := os.Stat(from)
	if err = errors.Join(err, serr); err != nil {
		return err
	}
	next := own + ".new"
	if err := os.WriteFile(next, b, 0o666); err != nil {
		return err
	}
	if err := os.Chtimes(next, fi.ModTime(), fi.ModTime()); err != nil { // a newer time would hide changes
		return err
	}
	return os.Rename(next, own)
}

// prepareHere is prepare in the user's own folder. The snapshot that it compares with what the run left becomes our index: so git writes what
// differs and nothing else, and removes what is too much. Files that attempts may not change stay as they are.
func (s *Slot) prepareHere(ctx context.Context, at Head, tree Tree) error {
	head, err := s.user.Head(ctx)
	if err != nil {
		return err
	}
	if err := s.rules(ctx); err != nil {
		return err
	}
	if err := s.look(ctx, head, tree); err != nil {
		return err
	}
	crash.Point("git: folder started")
	if err := s.setHead(ctx, at.Hash); err != nil {
		return err
	}
	want, err := s.spare(ctx, tree)
	if err != nil {
		return err
	}
	none := map[string]treeItem{}
	for name := range want {
		none[name] = treeItem{}
	}
	rest, err := s.edit(ctx, tree, none)
	if err != nil {
		return err
	}
	if _, err = s.cli.run(ctx, gitCall{args: []string{"read-tree", "--reset", "-u", string(rest)}}); err != nil && ctx.Err() == nil {
		loosen(s.tree)
		_, err = s.cli.run(ctx, gitCall{args: []string{"read-tree", "--reset", "-u", string(rest)}})
	}
	if err != nil {
		return err
	}
	crash.Point("git: folder checked out")
	if err := s.cli.setEntries(ctx, "", want); err != nil {
		return err
	}
	if err := s.removeRest(ctx); err != nil {
		return err
	}
	if s.at = at; s.at.Branch == "" {
		s.at.Branch = head.Branch
	}
	if fi, err := os.Stat(filepath.Join(s.user.l.gitDir, "logs", "HEAD")); err == nil {
		s.logged = fi.Size()
	}
	return s.user.unstageAll(ctx, head.Hash)
}

// look compares the folder with what the run left, takes the snapshot's index for ours, and records that the run is at work.
func (s *Slot) look(ctx context.Context, head Head, tree Tree) error {
	st := s.state()
	if st.Head != (Head{}) && st.Head.Branch != head.Branch {
		return &EditedError{Branch: st.Head.Branch}
	}
	now, edited, odd, err := s.compare(ctx, &st, tree)
	switch {
	case err != nil:
		return err
	case st.Busy && len(edited) > 0: // beside a check of what is verified
		err = s.keepEdits(ctx, head, st.Want, now, edited)
	case !st.Busy && len(edited)+len(odd) > 0:
		err = &EditedError{Paths: append(edited, odd...)}
	}
	if err != nil {
		return err
	}
	committed, err := s.user.HeadTree(ctx)
	if err == nil {
		err = s.diff(ctx, tree, committed, func(name string, was, is treeItem) {
			if is.mode == modeGitlink && was.mode != modeGitlink && !slices.Contains(st.Ignored, name+"/") { // no commit has what is in it
				st.Ignored = append(st.Ignored, name+"/")
			}
		})
	}
	if err != nil {
		return err
	}
	st.Left, st.Busy, st.Want, st.Shut, st.Head = now, true, tree, s.own.Shut, head
	if err := s.setState(st); err != nil {
		return err
	}
	return s.takeIndex()
}

// Interrupted looks at what a killed run left in the user's folder, and at what happened there since, before anything is set back: a ref keeps what
// differs, and people are told. made is the run's own last commit. Where the branch moved, and the run's commands might have done that, it is an
// EditedError, once: the next call takes the commits for the user's.
func (s *Slot) Interrupted(ctx context.Context, made string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state()
	if !st.Busy {
		return nil
	}
	head, err := s.user.Head(ctx)
	if err != nil {
		return err
	}
	if head.Branch != st.Head.Branch {
		return &EditedError{Branch: st.Head.Branch}
	}
	from := st.Head.Hash
	if made != "" && s.user.LeadsTo(ctx, head.Hash, made) {
		from = made
	}
	if head.Hash != from && head.Hash != st.Head.Hash && head.Hash != st.Moved && !st.Shut {
		news, err := s.user.News(ctx, from, head.Hash, "")
		if err != nil {
			return err
		}
		e := &EditedError{Branch: head.Branch, From: from, To: head.Hash}
		for _, c := range news {
			e.News = append(e.News, c.Subject)
		}
		st.Moved = head.Hash
		return cmp.Or(s.setState(st), error(e))
	}
	if err := s.rules(ctx); err != nil {
		return err
	}
	now, edited, odd, err := s.compare(ctx, &st, st.Want)
	if err != nil {
		return err
	}
	if len(odd) > 0 {
		return &EditedError{Paths: odd}
	}
	if len(edited) > 0 {
		if err := s.keepEdits(ctx, head, st.Want, now, edited); err != nil {
			return err
		}
	}
	return s.setState(hereState{Left: now, Head: head, Rest: st.Rest, Ignored: st.Ignored})
}

// compare takes a snapshot and lists the paths at which it is like nothing that the run knows: HEAD, what it left, and trees. odd are those that came
// and that no ref can keep. What git ignores and nobody but the user can have made is his.
func (s *Slot) compare(ctx context.Context, st *hereState, trees ...Tree) (now Tree, edited, odd []string, err error) {
	if now, err = s.snapshot(ctx); err != nil {
		return now, nil, nil, err
	}
	committed, err := s.user.HeadTree(ctx)
	if err != nil {
		return now, nil, nil, err
	}
	known := []Tree{committed}
	if st.Left != "" {
		known = append(append(known, st.Left), trees...)
	}
	if edited, odd, err = s.differs(ctx, now, known); err != nil {
		return now, nil, nil, err
	}
	ignored, rest, err := s.rest(ctx)
	if err != nil {
		return now, nil, nil, err
	}
	for i, p := range append(ignored, rest...) {
		switch {
		case slices.Contains(st.Rest, p) || slices.Contains(st.Ignored, p):
		case st.Left == "" || i < len(ignored):
			st.Ignored = append(st.Ignored, p)
		default:
			odd = append(odd, p)
		}
	}
	st.Rest = append(ignored, rest...)
	return now, edited, odd, nil
}

// others lists what an index does not have: what git cannot take, such as a repository without a commit, or with "-i" what it ignores.
func (s *Slot) others(ctx context.Context, index string, which ...string) ([]string, error) {
	args := append([]string{"ls-files", "-o", "--exclude-standard", "--directory", "--no-empty-directory", "-z"}, which...)
	b, err := s.cli.run(ctx, gitCall{args: args, index: index})
	return slices.DeleteFunc(nulSplit(b), func(p string) bool { return s.guard.covers(p) || s.guard.leads(strings.TrimSuffix(p, "/")) }), err
}

// rest lists what the last snapshot does not have.
func (s *Slot) rest(ctx context.Context) (ignored, odd []string, err error) {
	if ignored, err = s.others(ctx, s.cli.cache, "-i"); err == nil {
		odd, err = s.others(ctx, s.cli.cache)
	}
	return ignored, odd, err
}

// keepEdits keeps what the folder has under a ref of its own, on top of what the run wants there, and says so.
func (s *Slot) keepEdits(ctx context.Context, head Head, want, now Tree, paths []string) error {
	back := SetBack{Paths: paths}
	committed, err := s.user.HeadTree(ctx)
	if err != nil {
		return err
	}
	staged, err := s.user.cli.word(ctx, "", "write-tree")
	if back.Staged = err == nil && Tree(staged) != now && Tree(staged) != committed; ctx.Err() != nil { // an unfinished merge has no tree
		return context.Cause(ctx)
	}
	commits := []string{}
	for _, tree := range []Tree{want, Tree(staged)} {
		if tree == "" || tree == Tree(staged) && !back.Staged || tree != s.EmptyTree() && !s.has(ctx, string(tree)) {
			continue
		}
		c, err := s.link(ctx, Link{Tree: tree, Message: "descartes: what this folder was to have", When: time.Now()}, head.Hash)
		if err != nil {
			return err
		}
		commits = append(commits, c)
	}
	if back.Ref, err = s.freeRef(); err != nil {
		return err
	}
	if _, err = s.keep(ctx, back.Ref, now, commits, "descartes: what was in the folder when a run set it back"); err != nil {
		return err
	}
	crash.Point("git: folder kept")
	return s.own.Say(back)
}

// freeRef is a new ref for what is set back.
func (s *Slot) freeRef() (ref string, err error) {
	for n, at := 1, "x"; at != "" && err == nil; n++ {
		ref = fmt.Sprintf("refs/descartes/%s/set-back/%d", s.own.Loop, n)
		at, err = s.user.refCommit(ref)
	}
	return ref, err
}

// differs lists the paths at which a tree is like none of others, and those of repositories that none of them has. Protected ones are nobody's.
func (s *Slot) differs(ctx context.Context, now Tree, others []Tree) (paths, repos []string, err error) {
	for i, other := range others {
		here, new := []string{}, []string{}
		if err := s.diff(ctx, other, now, func(name string, was, is treeItem) {
			if s.guard.covers(name) || i > 0 && !slices.Contains(paths, name) {
				return
			}
			here = append(here, name)
			if is.mode == modeGitlink && was.mode != modeGitlink && (i == 0 || slices.Contains(repos, name)) {
				new = append(new, name)
			}
		}); err != nil {
			return nil, nil, err
		}
		paths, repos = here, new
	}
	slices.Sort(paths)
	return paths, repos, nil
}

// takeIndex gives our index what the last snapshot found: all files with their times, untracked ones too.
func (s *Slot) takeIndex() error {
	index, err := s.cli.indexCopy(s.cli.cache)
	if err != nil {
		return err
	}
	defer os.Remove(index) // where both names are one file already, a rename does nothing
	return os.Rename(index, filepath.Join(s.git, "index"))
}

// WasIgnored tells of which paths of the folder git ignored when the run began.
func (s *Slot) WasIgnored() func(path string) bool { return newProtection(s.state().Ignored).covers }

// spare takes out of our index what git is not to touch: files that the user had ignored, and those that attempts may not change, whoever writes them
// meanwhile. It returns what a tree has of the latter.
func (s *Slot) spare(ctx context.Context, tree Tree) (map[string]treeItem, error) {
	st := s.state()
	ignored := newProtection(st.Ignored)
	var names []string
	err := s.diff(ctx, st.Left, tree, func(name string, _, is treeItem) {
		if is.mode == 0 && ignored.covers(name) {
			names = append(names, name)
		}
	})
	if err != nil {
		return nil, err
	}
	want := map[string]treeItem{}
	if len(s.guard) == 0 {
		return want, s.cli.forget(ctx, "", names)
	}
	args := []string{"ls-files", "-z", "--"}
	for _, p := range s.guard {
		args = append(args, strings.TrimSuffix(p, "/"))
	}
	b, err := s.cli.run(ctx, gitCall{options: literally, args: args})
	if err == nil {
		err = s.diff(ctx, s.EmptyTree(), tree, func(name string, _, is treeItem) {
			if s.guard.covers(name) {
				want[name] = is
			}
		})
	}
	if err != nil {
		return nil, err
	}
	return want, s.cli.forget(ctx, "", append(names, nulSplit(b)...))
}

// removeRest removes what an attempt made and no snapshot can have: repositories without a commit and the like.
func (s *Slot) removeRest(ctx context.Context) error {
	rest, err := s.others(ctx, "")
	if err != nil {
		return err
	}
	users := newProtection(s.state().Ignored)
	rest = slices.DeleteFunc(rest, func(p string) bool { return users.covers(p) || users.leads(strings.TrimSuffix(p, "/")) })
	if len(rest) == 0 {
		return nil
	}
	_, err = s.cli.run(ctx, gitCall{options: literally, args: append([]string{"clean", "-ffdq", "--"}, rest...)})
	return err
}

// NotClean lists what a commit of everything would change, sorted, and untracked files. Of protected paths it lists the tracked ones.
func (r *Repo) NotClean(ctx context.Context) ([]string, error) {
	return r.cli.dirty(ctx, func(code, path string) bool { return code != "??" || !r.guard.covers(path) })
}

// unstageAll makes the index that of a commit. No file changes.
func (r *Repo) unstageAll(ctx context.Context, commit string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	args := []string{"read-tree", "--empty"}
	if commit != "" {
		_, err := r.cli.run(ctx, gitCall{args: []string{"diff-index", "--cached", "--quiet", commit}})
		if err == nil || exitCode(err) != 1 {
			return err
		}
		args = []string{"read-tree", "--reset", commit}
	}
	_, err := r.cli.run(ctx, gitCall{args: args})
	return err
}

// Settle records what the user's folder has now, as a snapshot of it says: a later change is somebody else's.
func (s *Slot) Settle(ctx context.Context, now Tree) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	head, err := s.user.Head(ctx)
	if err != nil {
		return err
	}
	ignored, rest, err := s.rest(ctx)
	if err != nil {
		return err
	}
	return s.setState(hereState{Left: now, Head: head, Rest: append(ignored, rest...), Ignored: s.state().Ignored})
}

// Leave gives the folder back.
func (s *Slot) Leave() error {
	if err := os.Remove(s.stateFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SetHeadBack sets HEAD and branch of the user's folder back to where the attempt found them. It returns the tip of what was committed, which a ref
// keeps, or "".
func (s *Slot) SetHeadBack(ctx context.Context) (tip string, err error) {
	found := s.state().Head
	s.user.mu.Lock()
	defer s.user.mu.Unlock()
	branch, tip, err := s.user.head(ctx)
	if err != nil || branch == found.Branch && tip == found.Hash {
		return "", err
	}
	at, back := tip, SetBack{Head: shortHash(tip)}
	if branch != found.Branch && found.Branch != "" {
		if at, err = s.user.refCommit(found.Branch); err != nil {
			return "", err
		}
	}
	if branch != found.Branch && branch != "" {
		back.Head = "the branch " + shortBranch(branch)
	}
	if tip == found.Hash {
		tip = at
	}
	if tip == found.Hash {
		tip = ""
	} else if tip != "" && !s.user.LeadsTo(ctx, found.Hash, tip) {
		if back.Ref, err = s.freeRef(); err == nil {
			err = s.user.forceRef(ctx, back.Ref, tip, "descartes: commits of an attempt")
		}
		if err != nil {
			return "", err
		}
	}
	if err := s.own.Say(back); err != nil {
		return "", err
	}
	crash.Point("git: commits kept")
	const why = "descartes: set back after an attempt"
	switch {
	case branch != found.Branch && found.Branch != "":
		err = s.user.pointHead(ctx, found.Branch, why)
	case branch != found.Branch:
		_, err = s.user.cli.run(ctx, gitCall{args: []string{"update-ref", "--no-deref", "-m", why, "HEAD", found.Hash}})
		at = found.Hash
	}
	switch {
	case err != nil || at == found.Hash:
	case found.Hash == "":
		err = s.user.removeRef(ctx, found.Branch)
	default:
		err = s.user.setRef(ctx, cmp.Or(found.Branch, "HEAD"), at, found.Hash, why)
	}
	return tip, err
}
