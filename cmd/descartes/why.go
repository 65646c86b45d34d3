package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/receipt"
	"descartes/tasks"
	"descartes/view"
	"descartes/view/print"
)

func newWhyCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use: "why [task]", Aliases: []string{"attempts", "receipt"},
		Short: "Say why a task is done, blocked or waiting, and what to type next",
		Long: `Say why a task is where it is: who did it and what verified it, why it was given up, what it
waits for. Below that are its attempts, the evidence (commit, kept work, log, journal),
and the next command. Without a task: of every blocked one.`,
		Args: takes(0, 1, "at most one task"),
		RunE: a.does(a.why),
	}
	a.register(cmd, "print it as JSON")
	a.registerGraph(cmd)
	return cmd
}

func (a *app) why(args []string) error {
	b, err := a.proven()
	if err != nil {
		return err
	}
	kept, err := a.kept(b.File)
	if err != nil {
		return err
	}
	var list []*tasks.Task
	for _, t := range b.File.Tasks() {
		if len(args) == 0 && b.Graph.Status(t.ID) == tasks.Blocked {
			list = append(list, &t)
		}
	}
	if len(args) == 0 {
		list = append(list, b.OwnBlocked()...)
	} else {
		t, err := need(b, args[0])
		if err != nil {
			return err
		}
		list = []*tasks.Task{t}
	}
	whys, texts := []view.Why{}, []string{}
	for _, t := range list {
		w, err := b.Why(t, kept, func(loop string) string {
			if a.git == nil {
				return ""
			}
			return commitOf(a.ctx(), a.git, b.File.Tag(), loop, t.ID)
		}, a.here())
		if err != nil {
			return err
		}
		whys, texts = append(whys, *w), append(texts, print.Why(w))
	}
	switch {
	case len(args) > 0:
		return a.show(whys[0], texts[0])
	case len(list) == 0:
		texts = []string{"no task is blocked: descartes waves" + b.Named() + " shows all\n"}
	}
	return a.show(whys, strings.Join(texts, "\n"))
}

// proven is the board with the receipts of its tasks, if a repository can be read.
func (a *app) proven() (*view.Board, error) {
	b, err := a.board()
	if err != nil {
		return nil, err
	}
	repo, err := a.repo()
	if err != nil {
		return b, nil
	}
	notes, err := readReceipts(a.ctx(), a.root, repo)
	if err != nil || len(notes) == 0 {
		return b, err
	}
	confirmed, err := receipt.ReadConfirmed(a.home.Receipts())
	if err == nil {
		b.MarkStale(notes, confirmed)
	}
	return b, err
}

// commitOf is the newest commit that claims to contain a loop's work on a task, or "". Without a loop it takes one of
// any loop over the tag; one of an earlier version, which names no tag, where its subject has the tag.
func commitOf(ctx context.Context, repo *gitops.Repo, tag, loop, task string) string {
	task, tag = oneline.Text(task), oneline.Text(tag)
	head, err := repo.Head(ctx)
	if err != nil || head.Hash == "" {
		return ""
	}
	found, err := repo.News(ctx, "", head.Hash, "", "")
	if err != nil {
		return ""
	}
	for _, c := range slices.Backward(found) {
		ours := slices.Contains(c.Trailers["Descartes-Loop"], loop)
		if loop != "" && !ours || !slices.ContainsFunc(c.Tasks(), func(n gitops.Named) bool {
			return n.Task == task && (n.Tag == tag || n.Tag == "" && (ours || strings.Contains(c.Subject, "("+tag+")")))
		}) {
			continue
		}
		return c.Hash
	}
	return ""
}
