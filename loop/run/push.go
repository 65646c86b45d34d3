package run

import (
	"context"
	"fmt"
	"strings"

	"descartes/config"
	"descartes/loop"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/trunk"
	"descartes/scheduler/prompt"
)

// push pushes the branch with the commits, and the refs that keep tries, to the branch's remote. If it cannot, it
// returns the command to type, with a line that says so.
func push(ctx context.Context, p *place) (unpushed string, line *journal.Event, err error) {
	branch := p.branch
	if p.kind != prompt.Branch {
		head, err := p.repo.Head(ctx)
		if err != nil {
			return "", nil, gitErr("read HEAD", err)
		}
		branch = head.Branch
	}
	pushing := trunk.Pushing{Branch: branch, Loops: []string{p.id}}
	remote, err := p.repo.Remote(branch)
	if err == nil {
		rest, perr := pushing.Send(ctx, p.repo, remote)
		if rest != nil {
			line = book.Warning(journal.Unit{}, "the work of this run is pushed, "+rest.Error())
		}
		if err = perr; err == nil {
			return "", line, nil
		}
	}
	if remote == "" {
		remote = "REMOTE"
	}
	unpushed = fmt.Sprintf("git push %s '%s'", remote, strings.Join(pushing.Specs(p.repo), "' '"))
	if moved, merr := p.repo.Moved(ctx, remote, branch); merr == nil && moved {
		unpushed = fmt.Sprintf("git pull --no-rebase %s %s && %s", remote, shortRef(branch), unpushed)
	}
	return unpushed, book.Warning(journal.Unit{}, fmt.Sprintf("the work of this run is not pushed: %v; to push it: %s", err,
		unpushed)), nil
}

// pushes reports whether the run pushes at an end.
func pushes(c *config.Config, out *loop.Outcome) bool {
	return c.Git.Push && out.Ending != journal.DiskFull && out.Ending != journal.BaselineFails
}
