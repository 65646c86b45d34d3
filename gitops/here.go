package gitops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/crash"
)

// EditedError says that somebody else changed the user's folder while a run had it for itself.
type EditedError struct {
	Paths  []string // none where another branch was checked out
	Branch string   // then the one that the run works on
}

func (e *EditedError) Error() string {
	if len(e.Paths) == 0 {
		return "another branch was checked out in this folder, which the run has for itself; git switch " + shortBranch(e.Branch) + ", then resume the loop"
	}
	n := min(len(e.Paths), 10)
	more := ""
	if n < len(e.Paths) {
		more = fmt.Sprintf(" and %d more", len(e.Paths)-n)
	}
	return fmt.Sprintf("somebody edited this folder, which the run has for itself: %q%s; nothing was touched; commit, stash or undo that, then resume the loop", e.Paths[:n], more)
}

func shortBranch(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// hereState is what is recorded about the user's folder while it is a slot.
type hereState struct {
	Left Tree `json:"left"` // what the folder had when the last command of the run had ended
	Busy bool `json:"busy"` // the run may have changed it since
	Head Head `json:"head"` // where the user's HEAD has to be
	// Ignored is what git ignored when the run began: the user's, whatever an attempt makes of the rules.
	Ignored []string `json:"ignored,omitempty"`
}

func (s *Slot) stateFile() string { return HereFile(s.dir) }

// HereFile is the file of a slot that exists while the user's folder is it.
func HereFile(dir string) string { return filepath.Join(dir, "here.json") }

func (s *Slot) state() (st hereState) {
	if b, err := os.ReadFile(s.stateFile()); err == nil {
		_ = json.Unmarshal(b, &st) // a torn file counts as empty: what differs from HEAD is somebody's then
	}
	return st
}

func (s *Slot) setState(st hereState) error {
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
	if _, err := s.boundRules(ctx); err != nil {
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

// look compares the folder with what the run left, takes the snapshot's index for ours, and records that the run is at work. What a killed run
// left half done is kept under a ref.
func (s *Slot) look(ctx context.Context, head Head, tree Tree) error {
	st := s.state()
	if st.Head != (Head{}) && st.Head.Branch != head.Branch && !st.Busy {
		return &EditedError{Branch: st.Head.Branch}
	}
	var err error
	if st.Head == (Head{}) {
		if st.Ignored, err = s.user.Ignored(ctx); err != nil {
			return err
		}
	}
	now, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	committed, err := s.user.HeadTree(ctx)
	if err != nil {
		return err
	}
	known := []Tree{committed, tree}
	if st.Left != "" {
		known = append(known, st.Left)
	} else if !st.Busy {
		known = known[:1]
	}
	edited, err := s.differs(ctx, now, known)
	switch {
	case err != nil:
		return err
	case len(edited) > 0 && !st.Busy:
		return &EditedError{Paths: edited}
	case len(edited) > 0:
		if _, err := s.keep(ctx, s.kept, now, nil, "descartes: what was in the folder when a run was interrupted"); err != nil {
			return err
		}
	}
	if err := s.setState(hereState{Left: now, Busy: true, Head: head, Ignored: st.Ignored}); err != nil {
		return err
	}
	return s.takeIndex()
}

// differs lists the paths at which a tree is like none of others. Protected ones are nobody's.
func (s *Slot) differs(ctx context.Context, now Tree, others []Tree) (paths []string, err error) {
	for i, other := range others {
		here := []string{}
		if err := s.diff(ctx, other, now, func(name string, _, _ treeItem) {
			if !s.guard.covers(name) && (i == 0 || slices.Contains(paths, name)) {
				here = append(here, name)
			}
		}); err != nil {
			return nil, err
		}
		paths = here
	}
	slices.Sort(paths)
	return paths, nil
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
	var dirs []string
	for _, p := range s.guard {
		dirs = append(dirs, strings.TrimSuffix(p, "/"))
	}
	b, err := s.cli.run(ctx, gitCall{args: append([]string{"ls-tree", "-r", "-z", "--full-tree", string(tree), "--"}, dirs...)})
	if err != nil {
		return nil, err
	}
	for _, line := range nulSplit(b) {
		about, name, _ := strings.Cut(line, "\t")
		var item treeItem
		var kind string
		if _, err := fmt.Sscanf(about, "%o %s %s", &item.mode, &kind, &item.id); err != nil {
			return nil, fmt.Errorf("git ls-tree says %q: %w", line, err)
		}
		want[name] = item
	}
	if b, err = s.cli.run(ctx, gitCall{options: literally, args: append([]string{"ls-files", "-z", "--"}, dirs...)}); err != nil {
		return nil, err
	}
	return want, s.cli.forget(ctx, "", append(names, nulSplit(b)...))
}

// removeRest removes what an attempt made and no snapshot can have: repositories without a commit and the like.
func (s *Slot) removeRest(ctx context.Context) error {
	b, err := s.cli.run(ctx, gitCall{args: []string{"ls-files", "-o", "--exclude-standard", "--directory", "--no-empty-directory", "-z"}})
	if err != nil {
		return err
	}
	spared := append(newProtection(s.state().Ignored), s.guard...)
	rest := slices.DeleteFunc(nulSplit(b), func(p string) bool { return spared.covers(p) || spared.leads(strings.TrimSuffix(p, "/")) })
	if len(rest) == 0 {
		return nil
	}
	_, err = s.cli.run(ctx, gitCall{options: literally, args: append([]string{"clean", "-ffdq", "--"}, rest...)})
	return err
}

// NotClean lists what a commit of everything would change, sorted, and untracked files. Of protected paths it lists the tracked ones.
func (r *Repo) NotClean(ctx context.Context) ([]string, error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"}})
	if err != nil {
		return nil, fmt.Errorf("look for uncommitted changes: %w", err)
	}
	var out []string
	for _, entry := range nulSplit(b) {
		if len(entry) > 3 && (entry[:2] != "??" || !r.guard.covers(entry[3:])) {
			out = append(out, entry[3:])
		}
	}
	slices.Sort(out)
	return out, nil
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

// Settle records what the folder has now: a later change is somebody else's.
func (s *Slot) Settle(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	large, err := s.boundRules(ctx)
	if err != nil {
		return err
	}
	s.large = append(s.large, large...)
	now, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	head, err := s.user.Head(ctx)
	if err != nil {
		return err
	}
	return s.setState(hereState{Left: now, Head: head, Ignored: s.state().Ignored})
}

// Leave gives the folder back.
func (s *Slot) Leave() error {
	if err := os.Remove(s.stateFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// setBack is Commits in the user's folder: ref keeps what the agent committed there, and HEAD and branch are set back.
func (s *Slot) setBack(ctx context.Context, ref string) (string, error) {
	found := s.state().Head
	s.user.mu.Lock()
	defer s.user.mu.Unlock()
	branch, tip, err := s.user.head(ctx)
	if err != nil {
		return "", err
	}
	at := tip
	if found.Branch != "" && branch != found.Branch {
		if at, err = s.user.refCommit(found.Branch); err != nil {
			return "", err
		}
	}
	if tip == found.Hash {
		tip = at
	}
	if tip != "" && tip != found.Hash {
		if err := s.user.forceRef(ctx, ref, tip, "descartes: commits of an attempt"); err != nil {
			return "", err
		}
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
	case found.Branch == "":
		err = s.user.setRef(ctx, "HEAD", at, found.Hash, why)
	default:
		err = s.user.setRef(ctx, found.Branch, at, found.Hash, why)
	}
	if tip == found.Hash {
		tip = ""
	}
	return tip, err
}

// Moved says where HEAD was left, "" where it is as the attempt found it.
func (s *Slot) Moved(ctx context.Context) string {
	found := s.state().Head
	now, err := s.user.Head(ctx)
	switch {
	case err != nil || now == found:
		return ""
	case now.Branch != found.Branch && now.Branch != "":
		return "the branch " + shortBranch(now.Branch)
	}
	return shortHash(now.Hash)
}
