package tagrun

import (
	"context"
	"fmt"
	"strings"

	"descartes/gitops"
	"descartes/loop/receipt"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
)

// push pushes the branch with the commits, the trunk if it has what the branch lacks, the refs of kept attempts, what
// is asked and answered, and receipts, to the branch's remote. If it cannot, it returns the command to type. removed
// are trunks whose work is committed by now.
func push(ctx context.Context, g *ground, now standing, removed []gitops.Ref, v voice) (r result, unpushed string, err error) {
	r.event = scheduler.Pushed{Result: scheduler.Passed}
	p := trunk.Pushing{Branch: now.branch, Trunk: store.TagTrunkRef(g.list.Key(), now.of), Loops: []string{g.id}}
	remote, err := g.repo.Remote(now.branch)
	var rest error
	if err == nil {
		rest, err = p.Send(ctx, g.repo, remote)
	}
	if err != nil {
		unpushed, nerr := notPushed(ctx, g, &now, p, remote, err, v)
		return result{event: scheduler.Pushed{Result: scheduler.Failed}}, unpushed, nerr
	}
	var notes []string
	if rest != nil {
		notes = append(notes, "the work of this run is pushed, "+rest.Error())
	}
	for _, ref := range removed { // else the next clone would bring it back one day
		if err := g.repo.Withdraw(ctx, remote, ref.Name, ref.Hash); err != nil {
			notes = append(notes, fmt.Sprintf("%s keeps %s, whose work is committed by now: %v; to remove it: "+
				"git push %s :%s", remote, ref.Name, err, remote, ref.Name))
		}
	}
	said := trunk.Sayings{Repo: g.repo, Home: g.home, FS: g.tools.FS, Tag: g.tag, List: g.list.Key(), Now: g.tools.Now}
	if err := said.Push(ctx, remote); err != nil {
		notes = append(notes, fmt.Sprintf("the work of this run is pushed, what is asked and answered is not: %v", err))
	}
	if err := trunk.PushNotes(ctx, g.repo, remote); err != nil {
		notes = append(notes, fmt.Sprintf("the work of this run is pushed, its receipts are not: %v; to push them: "+
			"git push %s %s", err, remote, receipt.NotesRef))
	}
	return r, "", v.note(notes...)
}

// notPushed warns with the command to type.
func notPushed(ctx context.Context, g *ground, now *standing, p trunk.Pushing, remote string, why error,
	v voice) (command string, err error) {
	specs := p.Specs(g.repo)
	if trunk.HasNotes(g.repo) {
		specs = append(specs, receipt.NotesRef)
	}
	to := remote
	if to == "" {
		to = "REMOTE"
	}
	command = fmt.Sprintf("git push %s '%s'", to, strings.Join(specs, "' '"))
	if moved, err := g.repo.Moved(context.WithoutCancel(ctx), remote, now.branch); err == nil && moved {
		name := trunk.ShortRef(now.branch)
		if command = fmt.Sprintf("git pull --no-rebase %s %s && %s", to, name, command); g.config.Git.Branch != "" {
			command = fmt.Sprintf("descartes run %s --branch %s --push", g.tag, name)
		}
	}
	return command, v.note(fmt.Sprintf("the work of this run is not pushed: %v; to push it: %s", why, command))
}
