package trunk

import (
	"bytes"
	"context"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop/store"
)

// Sayings are what is said about a tag's tasks. A ref beside the trunk keeps them, so that they reach the next run in
// any clone; a working tree has them in a file too, which people and runs change. Share and Push bring the two
// together.
type Sayings struct {
	Repo *gitops.Repo
	Home store.Home
	FS   atomicfile.FS
	Tag  string
	List string // names it in the repository, as gitops.Named.Key does
	Key  string // and among the files of the project, as store.Home.KeyOf does
	Now  func() time.Time
}

// saidName is the file in the commits of the ref.
const saidName = "said.json"

// ReadSaid is what a commit of the ref has; nothing for "".
func ReadSaid(ctx context.Context, repo *gitops.Repo, commit string) (store.Said, error) {
	if commit == "" {
		return store.Said{}, nil
	}
	b, err := repo.FileAt(ctx, commit, saidName, store.MaxSaid)
	if err != nil || b == nil {
		return store.Said{}, err
	}
	return store.DecodeSaid(b, saidName)
}

// Share brings together what the working tree has, what the ref has, and a commit of that ref that was fetched, "" for
// none.
func (s Sayings) Share(ctx context.Context, fetched string) error {
	theirs, err := ReadSaid(ctx, s.Repo, fetched)
	for try := 0; err == nil; try++ {
		var at string
		if at, err = s.Repo.RefCommit(store.SaidRef(s.List)); err != nil {
			break
		}
		if err = s.share(ctx, at, fetched, theirs); err == nil || try == 5 { // else somebody moved it meanwhile
			break
		}
		if now, rerr := s.Repo.RefCommit(store.SaidRef(s.List)); rerr != nil || now == at {
			break
		}
		err = nil
	}
	return err
}

// share is Share for a ref that is at a commit.
func (s Sayings) share(ctx context.Context, at, fetched string, theirs store.Said) error {
	ours, err := ReadSaid(ctx, s.Repo, at)
	if err != nil {
		return err
	}
	all, err := s.write(ctx, ours.With(theirs))
	if err != nil {
		return err
	}
	has, err := ours.Encode(s.Tag)
	if err != nil {
		return err
	}
	there, err := theirs.Encode(s.Tag)
	if err != nil {
		return err
	}
	knows := fetched == "" || at != "" && s.Repo.LeadsTo(ctx, at, fetched)
	switch {
	case bytes.Equal(all, has) && knows:
		return nil
	case bytes.Equal(all, there) && !knows && (at == "" || s.Repo.LeadsTo(ctx, fetched, at)):
		return s.Repo.MoveRef(ctx, store.SaidRef(s.List), at, fetched, "descartes: fetched")
	}
	tree, err := s.Repo.Bundle(ctx, map[string][]byte{saidName: all})
	if err != nil {
		return err
	}
	next := gitops.Link{Tree: tree, When: s.Now(),
		Message: "descartes: what is said about the tasks of " + s.Tag + "\n"}
	if !knows {
		next.Second = fetched
	}
	commit, err := s.Repo.Link(ctx, at, next)
	if err != nil {
		return err
	}
	return s.Repo.MoveRef(ctx, store.SaidRef(s.List), at, commit, "descartes: said")
}

// write adds to the working tree's file what others said, and returns what that has then.
func (s Sayings) write(ctx context.Context, others store.Said) (all []byte, err error) {
	var bad error
	err = s.Home.EditSaid(ctx, s.FS, s.Key, func(here *store.Said) bool {
		was, err := here.Encode(s.Tag)
		if err != nil {
			bad = err
			return false
		}
		*here = here.With(others)
		all, bad = here.Encode(s.Tag)
		return bad == nil && !bytes.Equal(was, all)
	})
	if err == nil {
		err = bad
	}
	return all, err
}

// Push sends them, together with what the remote has.
func (s Sayings) Push(ctx context.Context, remote string) error {
	ref := store.SaidRef(s.List)
	fetched, err := s.Repo.FetchRef(ctx, remote, ref)
	if err == nil {
		err = s.Share(ctx, fetched)
	}
	if err != nil {
		return err
	}
	if at, err := s.Repo.RefCommit(ref); err != nil || at == "" || at == fetched {
		return err
	}
	return s.Repo.Push(ctx, remote, []string{ref})
}
