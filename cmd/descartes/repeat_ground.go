package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
)

// ground opens the repository where there is one.
func (r *repetition) ground(ctx context.Context, cfg *loop.Config) (found problems) {
	commits := cfg.Git.AutoCommit || cfg.Git.CreateBranch || cfg.Git.Branch != ""
	note := func(err error, hint string) {
		found = append(found, loop.Problem{Message: err.Error(), Hint: cmp.Or(hint, hintOf(err)), Err: &failure{code: exitInput, err: err}})
	}
	repo, err := openHooked(ctx, r.root, nil, cfg.Git, cfg.PromptHandoff)
	if err != nil {
		switch {
		case commits || r.mode != nil:
			note(err, "")
		case !errors.Is(err, gitops.ErrNotRepo) && !errors.Is(err, gitops.ErrBare):
			r.notes = append(r.notes, "what the agent does to git's hooks and settings, and to what you have not committed, is not looked at: "+err.Error())
		}
		return found
	}
	r.repo = repo
	if !commits {
		return nil
	}
	r.notes = append(r.notes, repo.Notes()...)
	if _, _, err := repo.Author(ctx); err != nil {
		note(err, "")
	}
	if who, live := loop.NewHome(r.root).Live(); live {
		note(fmt.Errorf("loop %s over tag %q commits in this working tree", who.Loop, who.Tag),
			"start without --auto-commit, work in a git worktree of its own, or wait until it has ended")
	}
	if r.opt.Resume != "" {
		return found
	}
	if r.opt.Branch = cfg.Git.Branch; r.opt.Branch == "" && cfg.Git.CreateBranch {
		n := loop.Names{Tag: cmp.Or(r.opt.Name, "loop"), At: time.Now()}
		r.opt.Branch = n.Expand(cmp.Or(cfg.Git.BranchTemplate, loop.DefaultBranchTemplate))
	}
	if dirty, err := repo.Dirty(ctx); err != nil {
		note(err, "")
	} else if len(dirty) > 0 && cfg.Git.AutoCommit {
		r.notes = append(r.notes, fmt.Sprintf("%s of yours: in no commit, but for files that the agent changes too", terminal.Count(len(dirty), "uncommitted change")))
		if id, path := leftBy(loop.NewHome(r.root), dirty); id != "" {
			r.notes = append(r.notes, fmt.Sprintf("loop %s left work among them that no commit holds; %s goes on with it instead", id, resumeOf(r.root, id, path)))
		}
	}
	return found
}

// besides tells of what else is going on in the project.
func (r *repetition) besides(cfg loop.Config) {
	home := loop.NewHome(r.root)
	if who, live := home.Live(); live && !cfg.Git.AutoCommit {
		r.notes = append(r.notes, fmt.Sprintf("loop %s over tag %s works in this tree: what this loop's agent changes may end up in its commits, or be put back by it", who.Loop, who.Tag))
	}
	if cfg.Git.AutoCommit {
		var others []string
		for _, s := range liveLoops(home) {
			if s.State.Kind != loop.KindTag && s.State.ID != r.opt.Name && s.Path != r.opt.Resume {
				others = append(others, s.State.ID)
			}
		}
		if len(others) > 0 {
			r.notes = append(r.notes, "in this tree too: "+strings.Join(others, ", ")+". A commit holds all that changed during its iteration, whoever changed it; a git worktree for each loop keeps them apart")
		}
	}
	if n := ralphNote(r.root); n != "" {
		r.notes = append(r.notes, n)
	}
}

// ralphNote tells a user of the Ralph plugin which of the two loops counts. The plugin's file is left alone.
func ralphNote(root string) string {
	if _, err := os.Lstat(filepath.Join(root, ".claude", "ralph-loop.local.md")); err != nil {
		return ""
	}
	return "this loop overrides Ralph Loop. The ralph-loop plugin's state file is unchanged; cancel the ralph loop separately if you want it gone."
}

// leftBy is the loop over a prompt that did something last, where it was to commit, did not commit its last iteration,
// and what that changed is still uncommitted.
func leftBy(home loop.Home, dirty []string) (id, path string) {
	all, _ := home.List() // what cannot be read is told of elsewhere
	var last *loop.Saved
	for i := range all {
		s := &all[i]
		if s.State == nil || s.State.Kind == loop.KindTag || !s.State.Config.Git.AutoCommit || home.IsLive(*s) {
			continue
		}
		if last == nil || home.Active(s).After(home.Active(last)) {
			last = s
		}
	}
	if last == nil || last.State.Completed {
		return "", ""
	}
	events, err := journal.ReadEvents(home.Events(last.State.ID))
	if err != nil {
		return "", ""
	}
	var paths []string
	if ended := journal.Fold(events).Ended; len(ended) > 0 && ended[len(ended)-1].Commit == "" {
		paths = ended[len(ended)-1].Paths
	}
	if !slices.ContainsFunc(paths, func(p string) bool { return slices.Contains(dirty, p) }) {
		return "", ""
	}
	return last.State.ID, last.Path
}
