package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/stream"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/proc"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/verify"
	"descartes/view/notify"
)

func newDoctorCmd() *cobra.Command {
	s := &settings{}
	var clear bool
	cmd := &cobra.Command{
		Use:   "doctor [tag | file]",
		Short: "Check what is missing here, and say how to get it",
		Long: `Check what descartes needs here, and say how to get what is missing. Nothing is changed.

Given what run is given, it checks the run that this would start, and runs its verify command once
unless --baseline off is given.

Exit codes: 0 it could start, 2 it could not, 4 nothing can run on this system.`,
		Args: takes(0, 1, "one tag or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if clear {
				return forget(cmd.OutOrStdout())
			}
			root, err := findRoot(s.Dir)
			if err == nil {
				err = s.source(cmd, args)
			}
			if err != nil {
				return err
			}
			d := &doctor{w: cmd.OutOrStdout(), env: os.Environ(), root: root}
			d.paint = terminal.Colours(terminal.IsTerminal(d.w))
			_, err = s.load()
			d.git(cmd.Context(), root)
			if runtime.GOOS == "windows" {
				d.bad("system", noAgents, noLoops)
				return quiet(exitAgent)
			}
			d.check(cmd, s, err)
			if d.ill {
				return quiet(exitInput)
			}
			return nil
		},
	}
	s.register(cmd, ofStart)
	cmd.Flags().BoolVar(&clear, "clear", false, "forget which accounts are out of quota, and check nothing")
	return cmd
}

// doctor prints one line for each thing it checks.
type doctor struct {
	w     io.Writer
	paint terminal.Paint
	env   []string
	root  string
	ill   bool
	told  []string // what was bad
}

// good reports what is as it should be; where a run cannot start, that is said of nothing that it would do.
func (d *doctor) good(what, found string) {
	fmt.Fprintf(d.w, "%s %-12s %s\n", d.paint.In(terminal.Green, "ok "), what, terminal.Clean(found))
}

// bad reports something without which a loop cannot run; lacking something it can do without.
func (d *doctor) bad(what, found, fix string) {
	if slices.Contains(d.told, found) {
		return
	}
	d.ill, d.told = true, append(d.told, found)
	fmt.Fprintf(d.w, "%s %-12s %s\n", d.paint.In(terminal.Red, "bad"), what, terminal.Clean(found))
	d.fix(fix)
}

func (d *doctor) lacking(what, found, fix string) {
	fmt.Fprintf(d.w, "%s %-12s %s\n", d.paint.In(terminal.Yellow, "-- "), what, terminal.Clean(found))
	d.fix(fix)
}

func (d *doctor) fix(fix string) {
	if fix != "" {
		fmt.Fprintf(d.w, "    hint: %s\n", terminal.Clean(fix))
	}
}

func (d *doctor) git(ctx context.Context, root string) {
	path, version, err := gitops.FindGit(ctx, "", root, d.env)
	if err != nil {
		d.bad("git program", err.Error(), hintOf(err))
		return
	}
	d.good("git program", "git "+version.String()+" ("+path+")")
	if version.Before(gitops.OldestMerging) {
		d.lacking("slots", fmt.Sprintf("several tasks at the same time need git %s or newer", gitops.OldestMerging),
			"")
	}
}

func (d *doctor) repository(ctx context.Context) {
	repo, err := openRepo(ctx, d.root)
	if err != nil {
		d.bad("repository", err.Error(), hintOf(err))
		return
	}
	defer repo.Close()
	head, err := repo.Head(ctx)
	if err == nil {
		d.good("repository", repo.Root()+", branch "+cmp.Or(strings.TrimPrefix(head.Branch, "refs/heads/"), "none"))
		if head.Hash == "" {
			d.lacking("commit", "there is none yet, and agents work in copies of what is committed",
				`git add -A && git commit -m "Before descartes"`)
		}
		err = repo.Author()
	}
	if err != nil {
		d.bad("repository", err.Error(), hintOf(err))
	}
}

// agents reports on every client of the table but the chosen one, after what matters for this run, and on used-up
// accounts.
func (d *doctor) agents(cfg config.Config, chosen string) {
	defer d.limits()
	table, err := agent.NewTable(cfg.Backends)
	if err != nil {
		d.bad("agent", err.Error(), "correct it in the settings")
		return
	}
	var missing []string
	for _, name := range table.Names() {
		b, ok := table.Lookup(name)
		if !ok || len(b.Command) == 0 || name == chosen {
			continue
		}
		path, err := proc.Look(b.Command[0], d.root, d.env)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		d.good("agent", name+": "+path+", called as "+b.CommandLine(""))
		for _, l := range b.Preflight(launch.Host(cfg, b, d.root)) {
			d.lacking("agent", name+": "+l.What, l.Fix)
		}
	}
	if len(missing) > 0 {
		d.lacking("others", "not on PATH: "+strings.Join(missing, ", "),
			"descartes doctor --backend "+missing[0]+
				` says how to install that one; or give any program with --command "my-agent --flag"`)
	}
}

// chosen reports on the agent of the run, which is asked for its version if it is one that we know: any other program
// may do anything.
func (d *doctor) chosen(ctx context.Context, b agent.Backend, model string) {
	path, err := proc.Look(b.Command[0], d.root, d.env)
	if err != nil {
		return // which is among the problems
	}
	text := b.Name + ": " + path
	if b.Known() {
		text += " (" + cmp.Or(d.version(ctx, path), "version unknown") + ")"
	}
	if text += ", called as " + b.CommandLine(model); model != "" && len(b.ModelArgs) == 0 &&
		b.Format != stream.FormatACP {
		text += ", model " + model + " is not passed to it"
	}
	d.good("agent", text)
}

// version is the first line of a program's answer about its version. It runs in a folder of its own, which is also its
// home: a wrapper under a client's name may write where it stands, and clients leave settings and caches behind.
func (d *doctor) version(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "descartes-doctor-")
	if err != nil {
		return ""
	}
	defer os.RemoveAll(dir)
	env := slices.Clone(d.env)
	for _, name := range []string{"HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
		"XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"} {
		env = append(env, name+"="+dir)
	}
	reply, err := proc.Output(ctx, proc.Call{Argv: []string{path, "--version"}, Dir: dir, Env: env})
	line, _, _ := strings.Cut(strings.TrimSpace(string(reply.Stdout)), "\n")
	if err != nil || reply.Code != 0 {
		return ""
	}
	return terminal.Fit(line, 60)
}

// check reports on the run that these settings would start; wrong is why they cannot be used, or nil.
func (d *doctor) check(cmd *cobra.Command, s *settings, wrong error) {
	ctx, w := cmd.Context(), launch.Want{Root: d.root, Kind: store.KindTag, Anew: true}
	if s.IsTyped("prompt", "prompt-file") != "" {
		w.Kind = store.KindPrompt
	} else {
		d.repository(ctx)
	}
	if wrong != nil {
		d.bad("settings", wrong.Error(), cmp.Or(hintOf(wrong), "correct it, or run without it"))
		d.agents(config.Config{}, "")
		return
	}
	if len(s.file.Lines) > 0 {
		d.good("settings", s.file.Name)
	}
	d.trust(s)
	var err error
	if name := planHere(d.root); name != "" && len(tasks.Known(d.root)) == 0 && s.Scud.Tag == "" &&
		s.Scud.TasksFile == "" && w.Kind == store.KindTag {
		d.good("tasks", name+" has some; "+hintOfTasks(d.root))
		if err = s.source(cmd, []string{filepath.Join(d.root, name)}); err == nil {
			_, err = s.load()
		}
	}
	w.Imports = s.importsPlan()
	if err != nil {
	} else if w.Kind == store.KindPrompt {
		_, err = s.isPrompt(d.root)
	} else if err = chooseSource(io.Discard, d.root, &s.Scud); err == nil {
		var old *store.Saved
		if old, err = unfinished(d.root, s.Scud); old != nil {
			w.Options.Resume = old.Path
		}
	}
	if err != nil {
		d.bad("run", err.Error(), hintOf(err))
		d.agents(s.Config, "")
		return
	}
	r, found := launch.Prepare(ctx, s.want(cmd, w))
	defer r.Close()
	d.run(ctx, r, found)
	d.agents(*r.Config, r.Config.Backend.Type)
}

// run says what a run would do, and what keeps it from that.
func (d *doctor) run(ctx context.Context, r *launch.Run, found launch.Problems) {
	for _, p := range found {
		d.bad("run", p.Message, cmp.Or(p.Hint, hintOf(p.Err)))
	}
	if len(r.Backends) > 0 {
		d.chosen(ctx, r.Backends[0], r.Config.Backend.Model)
	}
	for _, l := range r.Lines() {
		if l.Name != "agent" {
			d.good(l.Name, l.Text)
		}
	}
	if r.Box.Mode != sandbox.Off && r.Box.Bwrap != "" {
		if answer := d.version(ctx, r.Box.Bwrap); sandbox.Old(answer) {
			d.lacking("bubblewrap", answer+": before 0.12 it makes files outside the sandbox where a link lies in its way (CVE-2026-87766); a run refuses such links",
				"install a newer one where your system has it")
		}
	}
	if n, err := notify.New(notify.Options{Targets: r.Config.Notify, On: r.Config.NotifyOn, Env: d.env}); err != nil {
		d.bad("notify", err.Error(), "")
	} else if n != nil {
		d.good("notify", n.String())
	}
	for _, w := range append(r.Notes, r.Warnings...) {
		d.lacking("", w, "")
	}
	if r.Repo != nil {
		d.pool(launch.Propose(ctx, r.Repo, d.root), &r.Config.Pool)
	}
	switch {
	case d.ill:
	case r.Idle:
		d.good("run", "nothing is left to do in tag "+r.Name())
	case r.Tag == nil:
		d.good("run", "the prompt can be repeated, "+terminal.Count(r.Config.MaxIterations, "iteration")+" at most")
	default:
		d.good("run", terminal.Count(len(r.Tag.Runnable()), "task")+" can run")
		if err := d.baseline(ctx, r); err != nil {
			d.bad("baseline", err.Error(), hintOf(err))
		}
	}
}

// pool says what check trees would lack, and the lines that give it to them.
func (d *doctor) pool(p launch.Proposal, c *config.PoolConfig) {
	if c.Setup != "" {
		p.Setup, p.SetupOn = "", nil
	}
	kept := gitops.NewPatterns(c.Keep)
	p.Keep = slices.DeleteFunc(p.Keep, func(name string) bool { is, _ := kept.Match(name); return is })
	if p.Setup != "" {
		d.lacking("pool.setup", p.Why+" is in no commit: a check has it as you have it, whatever an attempt changes",
			"pool: {"+p.Settings()+"} in descartes.yaml makes it anew for each commit")
	}
	if len(p.Keep) > 0 {
		d.lacking("pool.keep", "git ignores "+terminal.Few(p.Keep, 8)+": no check has it",
			"pool: {keep: "+p.Kept(c.Keep)+"} in descartes.yaml, if a fresh clone would get it too")
	}
}

// trust says whether a start would refuse what the settings file wants.
func (d *doctor) trust(s *settings) {
	refused, err := s.untrusted(d.root)
	switch all := s.demands(d.root); {
	case err != nil:
		d.bad("trust", err.Error(), "")
	case refused != nil:
		d.bad("trust", refused.Error(), refused.hint())
	case len(all) > 0:
		d.good("trust", s.file.Name+" asks for "+terminal.Count(len(all), "thing")+
			" that you have trusted or decided by flags")
	}
}

// baseline runs the verify command like a start before its first attempt.
func (d *doctor) baseline(ctx context.Context, r *launch.Run) (err error) {
	c := r.Config
	setting := cmp.Or(c.Baseline, config.BaselineRequire)
	checks := slices.DeleteFunc(c.ChecksOf(true), func(one verify.Check) bool { return one.At(verify.AtEnd) })
	if setting == config.BaselineOff || len(checks) == 0 {
		return nil
	}
	before, err := r.Repo.Dirty(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "descartes-doctor-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var commands launch.Commands
	if err := commands.Start(r.Commands(dir, dir)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, commands.Close()) }()
	_, withheld := launch.Withheld(*c, r.Backends, d.env)
	for i := range checks {
		q := loop.Timed(c, verify.Request{Label: "baseline", Dir: r.Root, Log: filepath.Join(dir, "baseline.log"),
			Redact: r.Redact})
		b, err := loop.TryBaseline(ctx, commands.Verifier(), q, &attempt.Command{Check: checks[i]}, withheld)
		switch {
		case err != nil:
			return err
		case b.Known(setting) != "":
			d.good("baseline", checks[i].Title()+": "+b.Known(setting))
			continue
		case b.Result.Passed:
			d.good("baseline", checks[i].Title()+" passes before any task, in "+terminal.Duration(b.Result.Duration))
			if t := b.Result.Tests; t != nil {
				d.good("results", terminal.Count(t.Ran(), "test")+" by name")
			} else {
				d.lacking("results", checks[i].Title()+" names no tests: only its exit status counts",
					"call its runner by name and not by a path; or results: \"**/*.xml\" at the check, where it writes JUnit "+
						"reports; docs/verification.md has the runners that are known")
			}
			continue
		case b.Stops(setting):
			d.bad("baseline", r.Redact.Text(b.Reason()), "")
		default:
			d.lacking("baseline", r.Redact.Text(b.Reason()), "")
		}
		for _, line := range b.Output() {
			fmt.Fprintf(d.w, "    %s\n", terminal.Clean(r.Redact.Text(line)))
		}
		if b.Stops(setting) {
			d.fix(b.Hint())
		}
	}
	after, err := r.Repo.Dirty(ctx)
	if left := slices.DeleteFunc(after, func(p string) bool { return slices.Contains(before, p) }); len(left) > 0 {
		d.lacking("", "the verify command changed files: "+terminal.Few(left, 8), "add what it makes to .gitignore")
	}
	return err
}

// forget forgets which accounts are out of quota.
func forget(w io.Writer) error {
	cleared, err := launch.Accounts(nil, "").Clear()
	if err != nil {
		return err
	}
	return write(w, "forgotten: "+cmp.Or(terminal.Clean(strings.Join(cleared, ", ")), "nothing was remembered")+"\n")
}

// limits are the accounts that no loop asks before a time.
func (d *doctor) limits() {
	list, err := launch.Accounts(nil, "").List(time.Now())
	if err != nil {
		d.lacking("quota", err.Error(), "")
	}
	for _, l := range list {
		d.lacking("quota", fmt.Sprintf("%s is used up until %s: %s; remembered from %s", l.Account,
			terminal.Moment(l.Until), l.Reason, l.By()), "descartes doctor --clear forgets it")
	}
}
