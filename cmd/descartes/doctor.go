package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/loop"
	"descartes/tasks"
)

func newDoctorCmd() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what descartes needs here, and say how to mend what is missing",
		Long: `Check what descartes needs here, and say how to mend what is missing. Nothing is changed.

Given the flags of loop start, it checks the run that these would start, and runs its verify command once
unless --baseline off is given.

Exit codes: 0 it could start, 2 it could not.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := findRoot(s.Dir)
			if err != nil {
				return err
			}
			d := &doctor{w: cmd.OutOrStdout(), env: os.Environ(), root: root}
			d.paint = colours(isTerminal(d.w))
			wants := typed(cmd.Flags())
			_, err = s.load(cmd.Flags())
			switch prompt := wants.any("prompt", "prompt-file") != ""; {
			case prompt && err == nil:
				d.checkPrompt(cmd, s, wants)
			default:
				if err == nil {
					err = s.completeTag(cmd.Flags(), root)
				}
				d.check(cmd.Context(), s, cmd.Flags().Changed("plan"), err)
			}
			if d.ill {
				return quiet(exitInput)
			}
			return nil
		},
	}
	s.register(cmd, ofStart)
	return cmd
}

// doctor prints one line for each thing that it looks at.
type doctor struct {
	w     io.Writer
	paint paint
	env   []string
	root  string
	ill   bool
	told  []string // what was bad
}

func (d *doctor) good(what, found string) {
	fmt.Fprintf(d.w, "%s %-12s %s\n", d.paint.in(green, "ok "), what, clean(found))
}

// bad is something without which a loop cannot run; lacking is something that it may do without.
func (d *doctor) bad(what, found, fix string) {
	if slices.Contains(d.told, found) {
		return
	}
	d.ill, d.told = true, append(d.told, found)
	fmt.Fprintf(d.w, "%s %-12s %s\n", d.paint.in(red, "bad"), what, clean(found))
	d.fix(fix)
}

func (d *doctor) lacking(what, found, fix string) {
	fmt.Fprintf(d.w, "%s %-12s %s\n", d.paint.in(yellow, "-- "), what, clean(found))
	d.fix(fix)
}

func (d *doctor) fix(fix string) {
	if fix != "" {
		fmt.Fprintf(d.w, "    hint: %s\n", clean(fix))
	}
}

func (d *doctor) git(ctx context.Context, root string) {
	path, version, err := gitops.FindGit(ctx, "", root, d.env)
	if err != nil {
		d.bad("git program", err.Error(), hintOf(err))
		return
	}
	d.good("git program", "git "+version.String()+" ("+path+")")
}

func (d *doctor) repository(ctx context.Context, root string) {
	repo, err := openRepo(ctx, root, nil)
	if err != nil {
		d.bad("repository", err.Error(), hintOf(err))
		return
	}
	defer repo.Close()
	head, err := repo.Head(ctx)
	where := strings.TrimPrefix(head.Branch, "refs/heads/")
	switch {
	case err != nil:
		d.bad("repository", err.Error(), hintOf(err))
	case head.Hash == "":
		d.good("repository", repo.Root()+", branch "+where+", no commit yet")
	case where == "":
		d.good("repository", repo.Root()+", at commit "+short(head.Hash)+" of no branch")
	default:
		d.good("repository", repo.Root()+", branch "+where)
	}
	for _, n := range repo.Notes() {
		d.good("", n)
	}
	if path, ok := repo.Locked(); ok {
		d.bad("lock", path+" exists: git is at work here, or was killed in the middle of it", "wait for it to end; if no git process runs any more, remove the file")
	}
	name, email, err := repo.Author(ctx)
	if err != nil {
		d.bad("author", err.Error(), hintOf(err))
	} else {
		d.good("author", name+" <"+email+">")
	}
}

func (d *doctor) tags(root string) {
	dir := filepath.Join(".scud", "tasks")
	known := tasks.Known(root)
	if len(known) == 0 {
		d.bad("tasks", "no task files in "+dir, "write "+filepath.Join(dir, "<tag>.json"))
		return
	}
	for _, tag := range known {
		d.tag(loop.ScudConfig{Tag: tag}, false)
	}
}

// tag reads one list. With imports, one that is missing will be made from the plan, which the run's check reads.
func (d *doctor) tag(c loop.ScudConfig, imports bool) {
	f, err := loop.OpenTasks(d.root, c)
	var missing *tasks.NotFoundError
	switch {
	case errors.As(err, &missing) && imports:
		return
	case err != nil:
		d.bad("tag "+c.Tag, err.Error(), hintOf(err))
		return
	}
	text := fmt.Sprintf("%s in %s", count(len(f.Tasks()), "task"), shown(d.root, f.Path()))
	if n := len(f.Findings()); n > 0 {
		d.lacking("tag "+c.Tag, text+", "+count(n, "finding"), "descartes tasks check"+ofTag(c.Tag, c.TasksFile))
		return
	}
	d.good("tag "+c.Tag, text)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
