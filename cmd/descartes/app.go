package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

// app is one call of a command: the project, list or loop that it is about, where it prints, and whether as JSON. A
// command's constructor declares one, binds its flags, and gives the command's work to does.
type app struct {
	settings
	json bool
	cmd  *cobra.Command
	root string
	home store.Home
	git  *gitops.Repo // nil until repo opens it
}

// flags binds --working-dir and, where asJSON says what it prints, --json.
func (a *app) flags(cmd *cobra.Command, asJSON string) {
	registerDir(cmd, &a.Dir)
	if asJSON != "" {
		cmd.Flags().BoolVar(&a.json, "json", false, asJSON)
	}
}

// does is a command's work in the project that --working-dir means.
func (a *app) does(work func(args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if a.root, err = findRoot(a.Dir); err != nil {
			return err
		}
		a.cmd, a.home = cmd, store.NewHome(a.root)
		defer func() {
			if a.git != nil {
				err = errors.Join(err, a.git.Close())
			}
		}()
		return work(args)
	}
}

func (a *app) ctx() context.Context { return a.cmd.Context() }
func (a *app) out() io.Writer       { return a.cmd.OutOrStdout() }

// show prints v as JSON, or the text for people.
func (a *app) show(v any, text string) error { return show(a.out(), a.json, v, text) }

func (a *app) print(text string) error { return write(a.out(), text) }

func (a *app) warn(text string) {
	fmt.Fprintf(a.cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(text))
}

// person is who can be asked; nil: nobody.
func (a *app) person() *person {
	if a.json {
		return nil
	}
	return a.asks(a.cmd)
}

// repo is the project's repository; does closes it.
func (a *app) repo() (_ *gitops.Repo, err error) {
	if a.git == nil {
		a.git, err = openRepo(a.ctx(), a.root)
	}
	return a.git, err
}

// kept is what loops keep in the repository, for a look at a list; nothing where there is no repository.
func (a *app) kept(list *tasks.File) (k view.Kept, err error) {
	repo, err := a.repo()
	if err != nil {
		return k, notRepo(err)
	}
	k.List = store.ListOf(list, repo.Root())
	k.Refs, err = repo.Refs(a.ctx(), "refs/descartes/")
	return k, err
}

// refsOf are the refs of loops with that name in front; none where there is no repository.
func refsOf(ctx context.Context, root, of string) ([]gitops.Ref, error) {
	repo, err := openRepo(ctx, root)
	if err != nil {
		return nil, nil
	}
	defer repo.Close()
	return repo.Refs(ctx, "refs/descartes/"+of)
}

// loop is the loop of that name; without one the last that began or, where it may run only once, the one that is
// running.
func (a *app) loop(name string) (*store.Saved, error) { return lookUp(a.root, a.Dir, name, "") }

// here is the flag that a command to type needs if it is typed in another project.
func (a *app) here() string { return fromHere(a.root) }

// lookUp is the loop that a command which looks at one means.
func lookUp(root, dir, name, stateFile string) (s *store.Saved, err error) {
	home := store.NewHome(root)
	switch {
	case stateFile != "":
		path := launch.Absolute(dir, stateFile)
		st, err := home.Load(path)
		return &store.Saved{Path: path, State: st}, err
	case name != "":
		s, err = home.Find(name)
	default:
		s, err = home.Last()
	}
	if err == nil && s == nil {
		err = noLoop(name, root)
	}
	return s, err
}

// accountOf is a saved loop as it is now, with commands that work where this one was typed.
func accountOf(root string, s store.Saved) (*view.Loop, error) {
	l, err := view.Of(root, s)
	if err == nil {
		l.From(fromHere(root, s.State.Config.Scud.TasksFile))
	}
	return l, err
}

// lookAround looks at what a run left for its user to bring back, and leaves out what is here already.
func lookAround(ctx context.Context, l *view.Loop) {
	repo, err := openRepo(ctx, l.Run.Root)
	if err != nil {
		return
	}
	defer repo.Close()
	head, err := repo.Head(ctx)
	if at, rerr := repo.RefCommit("refs/heads/" + l.Run.Outcome.Branch); err == nil && rerr == nil && at != "" &&
		l.Run.Outcome.Branch != "" && repo.LeadsTo(ctx, head.Hash, at) {
		l.Run.Outcome.Branch = ""
	}
}

func noLoop(name, root string) error {
	if name == "" {
		return badInput("descartes run --help", "no run was started in %s", root)
	}
	return badInput("descartes status --all"+fromHere(root), "no run %q", name)
}

// oneArg is the argument, or what the flag of the same meaning says.
func oneArg(args []string, flag string) string {
	if len(args) > 0 {
		return cmp.Or(flag, args[0])
	}
	return flag
}

// table sets rows, of which the first has the heads, in columns.
func table(rows [][]string) string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = terminal.Clean(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // into memory
	return s.String()
}
