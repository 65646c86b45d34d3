package wire

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"descartes/gitops"
	"descartes/internal/lazyregexp"
)

// Project is a clean working tree whose tag can be submitted.
type Project struct {
	repo   *gitops.Repo
	remote string // its name
	head   gitops.Head
	URL    string
}

// InputError is a mistake in what a person asked for.
type InputError struct{ Message, Hint string }

func (e *InputError) Error() string { return e.Message }

// OpenProject opens the repository around dir, and finds the remote of its branch.
func OpenProject(ctx context.Context, dir string) (*Project, error) {
	repo, err := gitops.Open(ctx, gitops.Options{Dir: dir, Env: os.Environ(), Hooks: "skip", Protect: []string{".descartes/"}})
	if err != nil {
		return nil, &InputError{err.Error(), "start in a project: a git repository with a remote"}
	}
	p := &Project{repo: repo}
	if p.head, err = repo.Head(ctx); err == nil {
		p.remote, err = repo.Remote(p.head.Branch)
	}
	if err == nil {
		p.URL, _, err = repo.RemoteURL(ctx, p.remote)
	}
	if err != nil {
		return nil, errors.Join(input(err), repo.Close())
	}
	return p, nil
}

// input is an error that git's refusal makes one of a person.
func input(err error) error {
	if refused, ok := errors.AsType[*gitops.RefusedError](err); ok {
		return &InputError{refused.Reason, refused.Hint}
	}
	return err
}

// Close closes the repository.
func (p *Project) Close() error { return p.repo.Close() }

// Root is the top folder of the project.
func (p *Project) Root() string { return p.repo.Root() }

// Ready refuses what no worker could take over: work that is not committed, and commits on no branch.
func (p *Project) Ready(ctx context.Context) error {
	dirty, err := p.repo.Dirty(ctx)
	switch {
	case err != nil:
		return err
	case p.head.Hash == "":
		return &InputError{"nothing is committed yet", "git add -A && git commit"}
	case p.head.Branch == "":
		return &InputError{"no branch is checked out, so nothing could take the run's commits", "git switch BRANCH"}
	case len(dirty) > 0:
		more := ""
		if n := len(dirty) - 3; n > 0 {
			dirty, more = dirty[:3], fmt.Sprintf(" and %d more", n)
		}
		return &InputError{"uncommitted changes: " + strings.Join(dirty, ", ") + more, "commit or stash them: the run sees what is committed"}
	}
	return nil
}

// noID is what a run's id cannot have.
var noID = lazyregexp.New(`[^a-z0-9]+`)

// Give puts a run on the remote. list is the file of the tag's tasks, flags are those of descartes run.
func (p *Project) Give(ctx context.Context, tag, list string, flags []string) (s Submission, err error) {
	random := make([]byte, 2)
	if _, err := rand.Read(random); err != nil {
		return s, err
	}
	id := strings.Trim(cut(noID.ReplaceAllString(strings.ToLower(tag), "-"), 40), "-")
	s = Submission{Remote: p.URL, Tag: tag, Loop: strings.TrimPrefix(id+"-"+hex.EncodeToString(random), "-"), Branch: strings.TrimPrefix(p.head.Branch, "refs/heads/")}
	s.Host, _ = os.Hostname()
	a := Asked{Version: version, Head: p.head.Hash, List: list, Flags: flags}
	if a.Name, a.Email, err = p.repo.Author(ctx); err != nil {
		return s, input(err)
	}
	b, err := json.Marshal(a)
	if err != nil {
		return s, err
	}
	tree, err := p.repo.WithContent(ctx, p.repo.EmptyTree(), map[string][]byte{"submission.json": b})
	if err != nil {
		return s, err
	}
	ref, err := submittedRef(s.Loop, "start")
	if err != nil {
		return s, err
	}
	if s.Commit, err = p.repo.Keep(ctx, ref, tree, []string{a.Head}, "descartes: a submitted run"); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, p.repo.DeleteRefs(ctx, ref)) }()
	if err := p.repo.Send(ctx, p.remote, ref+":"+ref); err != nil {
		return s, fmt.Errorf("send the run to the remote %s: %w", p.remote, err)
	}
	return s, nil
}

// Output is what a submitted run printed so far, nil before it began.
func (p *Project) Output(ctx context.Context, loopID string) ([]byte, error) {
	ref, err := StateRef(loopID)
	if err != nil {
		return nil, &InputError{err.Error(), "descartes-fleet status lists runs"}
	}
	names, err := p.repo.RemoteRefs(ctx, p.remote, ref)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	here := strings.Replace(ref, "/state", "/followed", 1)
	if err := p.repo.Fetch(ctx, p.remote, "+"+ref+":"+here); err != nil {
		return nil, err
	}
	at, err := p.repo.RefCommit(here)
	if err != nil {
		return nil, err
	}
	b, err := p.repo.FileAt(ctx, at, outputFile, maxLog)
	return b, errors.Join(err, p.repo.DeleteRefs(ctx, here))
}
