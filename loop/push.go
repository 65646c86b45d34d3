package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/store"
	"descartes/loop/trunk"
)

// closing ends a run.
type closing struct{ run *Loop }

// push pushes the branch with the commits, and the refs of kept attempts, to the branch's remote. If it cannot, it
// warns with the command to type.
func (l *closing) push(out *Outcome) error {
	if !l.run.config.Git.Push || out.Ending == journal.BaselineFails || out.Ending == journal.DiskFull {
		return nil
	}
	branch := "refs/heads/" + l.run.branch
	if l.run.trunk != nil {
		branch = l.run.trunk.branch
	} else if l.run.branch == "" {
		head, err := l.run.tools.Repo.Head(context.WithoutCancel(l.run.ctx))
		if err != nil {
			return gitErr("read HEAD", err)
		}
		branch = head.Branch
	}
	p := trunk.Pushing{Branch: branch, Loops: []string{l.run.state.ID}}
	if l.run.trunk != nil {
		p.Trunk = store.TagTrunkRef(l.run.list.Key(), l.run.trunk.of)
	}
	specs := p.Specs(l.run.tools.Repo)
	remote, err := l.run.tools.Repo.Remote(branch)
	all := specs
	if trunk.HasNotes(l.run.tools.Repo) {
		all = append(slices.Clip(specs), receipt.NotesRef)
	}
	command := fmt.Sprintf("git push %s '%s'", cmp.Or(remote, "REMOTE"), strings.Join(all, "' '"))
	if err == nil {
		pctx, done := l.run.stop.committing(nil) // not ended by what ended the run
		defer done()
		var rest error
		if rest, err = p.Send(pctx, l.run.tools.Repo, remote); rest != nil {
			if err := l.run.Warn("the work of this run is pushed, " + rest.Error()); err != nil {
				return err
			}
		}
		if err == nil {
			if err := l.withdraw(pctx, remote); err != nil {
				return err
			}
			if l.run.job != nil {
				if serr := l.run.sayings().Push(pctx, remote); serr != nil {
					if err := l.run.Warn(fmt.Sprintf("the work of this run is pushed, what is asked and answered is not: %v",
						serr)); err != nil {
						return err
					}
				}
			}
			if notes := trunk.PushNotes(pctx, l.run.tools.Repo, remote); notes != nil {
				return l.run.Warn(fmt.Sprintf(
					"the work of this run is pushed, its receipts are not: %v; to push them: git push %s %s", notes,
					remote, receipt.NotesRef))
			}
		}
	}
	if err == nil {
		return nil
	}
	if moved, merr := l.run.tools.Repo.Moved(context.WithoutCancel(l.run.ctx), remote, branch); merr == nil && moved {
		name := strings.TrimPrefix(branch, "refs/heads/")
		if command = fmt.Sprintf("git pull --no-rebase %s %s && %s", remote, name, command); l.run.branch != "" &&
			l.run.state.Tag != "" {
			command = fmt.Sprintf("descartes run %s --branch %s --push", l.run.state.Tag, name)
		}
	}
	out.Unpushed = command
	return l.run.Warn(fmt.Sprintf("the work of this run is not pushed: %v; to push it: %s", err, command))
}

// withdraw removes from a remote the trunks whose work is committed by now: else the next clone would bring it back one
// day.
func (l *closing) withdraw(ctx context.Context, remote string) error {
	if l.run.trunk == nil {
		return nil
	}
	for _, ref := range l.run.trunk.merged {
		err := l.run.tools.Repo.Withdraw(ctx, remote, ref.Name, ref.Hash)
		if err == nil {
			continue
		}
		if err := l.run.Warn(fmt.Sprintf("%s keeps %s, whose work is committed by now: %v; to remove it: git push %s :%s",
			remote, ref.Name, err, remote, ref.Name)); err != nil {
			return err
		}
	}
	return nil
}
