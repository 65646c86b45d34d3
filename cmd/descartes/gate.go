package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/launch"
	"descartes/verify"
	"descartes/verify/judge"
	"descartes/view/print"
)

func newGateCmd() *cobra.Command {
	g := gating{}
	cmd := &cobra.Command{
		Use:   "gate BRANCH|RANGE",
		Short: "Judge the commits of a branch, whoever made them: what do their checks say?",
		Long: `Judge the commits of a branch, whoever made them: run the checks on each in a copy of
the project, and the tests as they were before it on its code.

  descartes gate origin/main..HEAD        each commit since main, in CI
  descartes gate feature                  what feature has and HEAD has not
  descartes gate main..feature --whole    the branch as one change

A commit is refused that fails its checks, on which fewer tests run though no code is gone
and the old tests do not all pass, on which more tests stay red with the tests as they were than turn green, or whose code
has a test pass that must fail. What else changed in tests, settings of runners and CI
is named with the old line and the new one, and refuses nothing. A subject that asks to
delete, rename, move or skip tests turns refusals about tests into names, and so does
--allow-tests. The checks are those of --verify, else those that the settings and files
had where the branch began: nothing on the branch can change them. A failure that was there
before counts for nothing.

Exit codes: 0 nothing is refused, 3 a commit is refused, 2 there is nothing to judge,
5 git refused.`,
		Args: takes(1, 1, "a branch or a range A..B"),
		RunE: g.does(func(args []string) error { return g.run(args[0]) }),
	}
	more := []string{"verify", "sandbox", "config", "trust"}
	g.settings.register(cmd, func(one *config.Setting) bool {
		return one.Is("look") || slices.Contains(more, one.Flag)
	})
	f := cmd.Flags()
	f.Lookup("verify").Usage = "command to run instead of the settings' checks"
	f.BoolVar(&g.whole, "whole", false, "judge all commits together, as one change")
	f.BoolVar(&g.allow, "allow-tests", false, "name what would be refused about tests")
	f.StringVar(&g.junit, "junit", "", "write a JUnit report to this file")
	f.StringVar(&g.markdown, "markdown", "", "write a comment for a pull request to this file")
	f.BoolVar(&g.json, "json", false, "print it as JSON")
	return cmd
}

// gating is one call of the command. The checks are found as recheck finds them for a branch.
type gating struct {
	recheck
	whole, allow    bool
	junit, markdown string
	check           func(context.Context, gitops.Tree, verify.Check, verify.How) (verify.Result, error)
	ran             map[string]verify.Result // by tree and check, as they ran
}

// gateJSON is what gate --json prints.
type gateJSON struct {
	Verdict  string        `json:"verdict"`  // passes, named or refused: the worst
	Settings string        `json:"settings"` // where the checks come from
	Commits  []print.Gated `json:"commits"`
}

func (g *gating) run(what string) (err error) {
	ctx, stop := signal.NotifyContext(g.ctx(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	repo, err := g.repo()
	if err != nil {
		return err
	}
	if g.branch = what; !strings.Contains(what, "..") {
		g.branch = "HEAD.." + what
	}
	if err := g.ends(ctx); err != nil {
		return err
	}
	out := gateJSON{Verdict: print.Passes, Commits: []print.Gated{}}
	checks, from, err := g.checks(ctx)
	if err != nil {
		return err
	}
	if out.Settings = from; len(checks) == 0 {
		return badInput(`--verify "make test"`,
			"there are no checks to run: none in %s, and none found from the project's files", from)
	}
	list, err := g.changes(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return badInput("descartes gate main..HEAD", "there is nothing to judge: %s brings no commit", g.branch)
	}
	work, run, err := g.bench(ctx, &g.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	g.check, g.ran = run, map[string]verify.Result{}
	say := func(text string) error {
		if g.json {
			return nil
		}
		return g.print(text)
	}
	if err := say(print.RecheckHead(checks, from, false)); err != nil {
		return err
	}
	for _, one := range list {
		done, err := g.judge(ctx, repo, checks, one)
		if err != nil {
			return recheckError(ctx, err)
		}
		out.Commits = append(out.Commits, done)
		if done.Verdict == print.Refused || out.Verdict == print.Passes {
			out.Verdict = done.Verdict
		}
		if err := say(print.GateLine(&done)); err != nil {
			return err
		}
	}
	if err := errors.Join(g.show(out, print.GateEnd(out.Commits)), g.write(out.Commits)); err != nil {
		return err
	}
	if out.Verdict == print.Refused {
		return quiet(exitBlocked)
	}
	return nil
}

// proposed is one change that is judged.
type proposed struct {
	hash, parent, subject string
	titles                string // of all its commits
}

// changes are the commits of the branch, oldest first, without merges; with --whole all as one.
func (g *gating) changes(ctx context.Context) (list []proposed, err error) {
	news, err := g.git.News(ctx, g.from, g.to, "", "")
	if err != nil {
		return nil, err
	}
	var titles []string
	for _, c := range news {
		if titles = append(titles, c.Subject); len(c.Parents) == 1 {
			list = append(list, proposed{c.Hash, c.Parent(), c.Subject, c.Subject})
		}
	}
	if g.whole && len(news) > 0 {
		subject := titles[len(titles)-1]
		if n := len(titles) - 1; n > 0 {
			subject += fmt.Sprintf(" and %d more", n)
		}
		list = []proposed{{g.to, g.from, subject, strings.Join(titles, "\n")}}
	}
	return list, nil
}

// judge judges one change.
func (g *gating) judge(ctx context.Context, repo *gitops.Repo, checks []verify.Check, one proposed) (done print.Gated,
	err error) {
	base, err := repo.CommitTree(one.parent)
	if err != nil {
		return done, err
	}
	tree, err := repo.CommitTree(one.hash)
	if err != nil {
		return done, err
	}
	v, err := judge.Judge(ctx, judge.Case{Repo: repo, Base: base, New: tree, Title: one.titles, Allow: g.allow, Way: "--allow-tests",
		Checks: checks, Run: g.once})
	if err != nil {
		return done, err
	}
	done = print.Gated{Commit: one.hash, Base: one.parent, Subject: one.subject, Verdict: print.Passes, Facts: v.Facts,
		Says: v.Facts.Says(), Findings: append([]judge.Finding{}, v.Findings...), Seconds: v.Facts.Took, More: v.Facts.More}
	switch {
	case v.Refused():
		done.Verdict = print.Refused
	case len(v.Findings) > 0:
		done.Verdict = print.Named
	}
	return done, nil
}

// once runs a check on a tree, and remembers its result: the commit is the next one's base.
func (g *gating) once(ctx context.Context, tree gitops.Tree, c verify.Check, how verify.How) (r verify.Result, err error) {
	key := fmt.Sprint(tree, "\x00", c.Name, "\x00", how)
	r, ok := g.ran[key]
	if ok {
		r.Duration = 0
		return r, nil
	}
	if r, err = g.check(ctx, tree, c, how); err == nil && !r.Cancelled {
		g.ran[key] = r
	}
	return r, err
}

// write writes the files that were asked for.
func (g *gating) write(list []print.Gated) (err error) {
	for _, f := range []struct {
		path string
		text []byte
	}{{g.junit, print.GateJUnit(list)}, {g.markdown, []byte(print.GateMarkdown(list))}} {
		if f.path == "" {
			continue
		}
		if bad := atomicfile.Write(atomicfile.OS(), launch.Absolute(g.dirPath(), f.path), f.text, 0o644); bad != nil {
			err = errors.Join(err, bad)
		}
	}
	return err
}
