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
	"sync"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/stream"
	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/notify"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/verify"
	"descartes/verify/mutants"
	"descartes/view"
)

func newDoctorCmd() *cobra.Command {
	s := &settings{}
	var clear bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what is missing here, and say how to get it",
		Long: `Check what descartes needs here, and say how to get what is missing. Nothing is changed.

Given the flags of loop start, it checks the run that these would start, and runs its verify command once
unless --baseline off is given.

Exit codes: 0 it could start, 2 it could not, 4 no loop can run on this system.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if clear {
				return forget(cmd.OutOrStdout(), "")
			}
			root, err := findRoot(s.Dir)
			if err != nil {
				return err
			}
			d := &doctor{w: cmd.OutOrStdout(), env: os.Environ(), root: root}
			d.paint = terminal.Colours(terminal.IsTerminal(d.w))
			_, err = s.load()
			if runtime.GOOS == "windows" {
				d.bad("system", noAgents, noLoops)
				d.git(cmd.Context(), root)
				d.tags(root)
				return quiet(exitAgent)
			}
			switch prompt := s.IsTyped("prompt", "prompt-file") != ""; {
			case prompt && err == nil:
				d.checkPrompt(cmd, s)
			default:
				if err == nil {
					err = s.completeTag(root)
				}
				d.check(cmd.Context(), s, s.importsPlan(), err)
			}
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
		d.lacking("slots", fmt.Sprintf("several tasks at the same time need git %s or newer", gitops.OldestMerging), "")
	}
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
		d.good("repository", repo.Root()+", at commit "+view.Short(head.Hash)+" of no branch")
	default:
		d.good("repository", repo.Root()+", branch "+where)
	}
	for _, n := range repo.Notes() {
		d.good("", n)
	}
	if path, ok := repo.Locked(ctx); ok {
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
	known := tasks.Known(root)
	if len(known) == 0 {
		if name := planHere(root); name != "" {
			d.good("tasks", name+" has some; "+hintOfTasks(root))
			return
		}
		d.bad("tasks", "no task list", hintOfTasks(root))
		return
	}
	for _, tag := range known {
		d.tag(loop.ScudConfig{Tag: tag}, false)
	}
}

// tag reads one list. With imports, a missing one will be made from the plan, which the run's check reads.
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
	text := fmt.Sprintf("%s in %s", terminal.Count(len(f.Tasks()), "task"), view.Relative(d.root, f.Path()))
	if n := len(f.Findings()); n > 0 {
		d.lacking("tag "+c.Tag, text+", "+terminal.Count(n, "finding"), "descartes tasks check"+listFlags(d.root, c.Tag, c.TasksFile))
		return
	}
	d.good("tag "+c.Tag, text)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// backend reports on the agent that the settings choose, and returns it.
func (d *doctor) backend(ctx context.Context, cfg loop.Config) (b agent.Backend) {
	b, _, err := config.ResolveBackend(cfg)
	if err != nil {
		d.bad("agent", err.Error(), hintOf(err))
		return agent.Backend{}
	}
	look := lookIn(d.root)
	if err := b.Check(look, 0); err != nil {
		d.bad("agent", err.Error(), `install it`+inBrackets(b.Install())+`, or give any program with --command "my-agent --flag"`)
		return b
	}
	path, _ := look(b.Command[0]) // Check has found it
	c := &installed{b: b, path: path}
	c.ask(ctx, d)
	d.good("agent", c.text(cfg.Backend.Model))
	for _, l := range b.Preflight(placeOf(cfg, b, d.root, c.version)) {
		if l.Certain {
			d.bad("agent", b.Name+": "+l.What, l.Fix)
		} else {
			d.lacking("agent", b.Name+": "+l.What, l.Fix)
		}
	}
	return b
}

// agents reports on every other client of the table, after what matters for this run, and on used-up accounts.
func (d *doctor) agents(ctx context.Context, cfg loop.Config, chosen agent.Backend) {
	defer d.limits()
	table, err := agent.NewTable(cfg.Backends)
	if err != nil {
		d.bad("agent", err.Error(), "correct it in the settings")
		return
	}
	var found []*installed
	var missing []string
	for _, name := range table.Names() {
		b, ok := table.Lookup(name)
		if !ok || len(b.Command) == 0 || b.Name == chosen.Name {
			continue
		}
		path, err := proc.Look(b.Command[0], d.root, d.env)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		found = append(found, &installed{b: b, path: path})
	}
	var wg sync.WaitGroup // some need seconds to tell their version
	for _, c := range found {
		wg.Go(func() { c.ask(ctx, d) })
	}
	wg.Wait()
	for _, c := range found {
		d.good("agent", c.text(""))
		for _, l := range c.b.Preflight(placeOf(cfg, c.b, d.root, c.version)) {
			d.lacking("agent", c.b.Name+": "+l.What, l.Fix)
		}
	}
	if len(missing) > 0 {
		hint := "descartes doctor --backend " + missing[0] + " says how to install that one"
		if len(found) == 0 && len(chosen.Command) == 0 {
			hint += `; or give any program with --command "my-agent --flag"`
		}
		d.lacking("others", "not on PATH: "+strings.Join(missing, ", "), hint)
	}
}

// inBrackets formats a remark after a sentence, if there is one.
func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// installed is a backend whose program is there.
type installed struct {
	b       agent.Backend
	path    string
	version string // as the program tells it, "" where it did not or was not asked
}

// ask runs a known program to ask for its version: any other program may do anything.
func (c *installed) ask(ctx context.Context, d *doctor) {
	if c.b.Known() {
		c.version = d.version(ctx, c.path)
	}
}

// text is what is there, and how it is called.
func (c *installed) text(model string) string {
	version := c.version
	if version == "" && c.b.Known() {
		version = "version unknown"
	}
	s := c.b.Name + ": " + c.path + inBrackets(version) + ", called as " + c.b.CommandLine(model)
	if model != "" && len(c.b.ModelArgs) == 0 && c.b.Format != stream.FormatACP {
		s += ", model " + model + " is not passed to it"
	}
	return s
}

// version is the first line of a program's answer about its version. It runs in a folder of its own, which is also its home: a wrapper under a
// client's name may write where it stands, and clients leave settings and caches behind.
func (d *doctor) version(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "descartes-doctor-")
	if err != nil {
		return ""
	}
	defer os.RemoveAll(dir)
	env := slices.Clone(d.env)
	for _, name := range []string{"HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"} {
		env = append(env, name+"="+dir)
	}
	reply, err := proc.Output(ctx, proc.Call{Argv: []string{path, "--version"}, Dir: dir, Env: env})
	line, _, _ := strings.Cut(strings.TrimSpace(string(reply.Stdout)), "\n")
	if err != nil || reply.Code != 0 {
		return ""
	}
	return terminal.Fit(line, 60)
}

// placeOf describes where a client would run, with the variables that the settings pass on to it.
func placeOf(cfg loop.Config, b agent.Backend, root, version string) agent.Host {
	parted := supervise.Part(cfg, b, os.Environ())
	env := slices.Concat(parted.Base, parted.Agent)
	get := func(name string) string {
		for i := len(env) - 1; i >= 0; i-- { // the last one counts
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
	return agent.Host{Root: os.Geteuid() == 0, Env: get, Read: beginning, Dir: root, Version: version}
}

// lacking sorts what keeps a client from working into what stops a start and what is only a warning.
func lacking(cfg loop.Config, b agent.Backend, root string) (found problems, warnings []string) {
	for _, l := range b.Preflight(placeOf(cfg, b, root, "")) {
		what := b.Name + ": " + l.What
		if l.Certain {
			found = append(found, loop.Problem{Message: what, Hint: l.Fix, Err: &failure{code: exitAgent, err: fmt.Errorf("%s", what)}})
			continue
		}
		warnings = append(warnings, what+": "+l.Fix)
	}
	return found, warnings
}

// beginning returns the first bytes of a regular file: a client's settings are shorter.
func beginning(path string) []byte {
	b, err := plainfile.Read("", path, 4<<20)
	if err != nil {
		return nil
	}
	return b
}

// checkPrompt checks what a prompt loop needs.
func (d *doctor) checkPrompt(cmd *cobra.Command, s *settings) {
	ctx := cmd.Context()
	d.git(ctx, d.root)
	_, err := s.isPrompt(d.root)
	if err == nil {
		err = s.completePrompt(cmd, d.root)
	}
	if err != nil {
		d.bad("run", err.Error(), hintOf(err))
		return
	}
	chosen := d.backend(ctx, s.Config)
	defer func() { d.agents(ctx, s.Config, chosen) }()
	if s.VerificationCommand != "" || len(s.Checks) > 0 {
		s.Scud.VerificationCommand = s.VerificationCommand
		d.verify(ctx, s)
	}
	d.safety(ctx, s, false)
	d.notify(s.Config)
	r, err := preparePrompt(ctx, d.root, store.KindPrompt, s.Config, loop.StartOptions{Command: "loop"})
	var found problems
	switch {
	case errors.As(err, &found):
		for _, p := range found {
			d.bad("run", p.Message, cmp.Or(p.Hint, hintOf(p.Err)))
		}
		return
	case err != nil:
		d.bad("run", err.Error(), hintOf(err))
		return
	}
	defer r.close()
	if !d.ill {
		d.good("run", "the prompt can be repeated, "+terminal.Count(s.MaxIterations, "iteration")+" at most")
	}
	for _, n := range r.notes {
		d.lacking("", n, "")
	}
}

// check runs all checks. imports says that the plan may replace a missing list; wrong is why the settings cannot be used, or nil.
func (d *doctor) check(ctx context.Context, s *settings, imports bool, wrong error) {
	d.git(ctx, d.root)
	d.repository(ctx, d.root)
	if wrong != nil {
		d.bad("settings", wrong.Error(), cmp.Or(hintOf(wrong), "correct it, or run without it"))
		d.agents(ctx, loop.Config{}, agent.Backend{})
		d.tags(d.root)
		return
	}
	if path := filepath.Join(d.root, "descartes.yaml"); s.File == "" && exists(path) {
		d.good("settings", view.Relative(d.root, path))
	} else if s.File != "" {
		d.good("settings", s.File)
	}
	chosen := d.backend(ctx, s.Config)
	d.verify(ctx, s)
	d.safety(ctx, s, true)
	d.documents(s.Scud)
	d.notify(s.Config)
	d.run(ctx, s, imports)
	d.agents(ctx, s.Config, chosen)
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
		d.good("trust", s.file.Name+" asks for "+terminal.Count(len(all), "thing")+" that you have trusted or decided by flags")
	}
}

// notify says who gets notices, and about what. It sends none.
func (d *doctor) notify(cfg loop.Config) {
	n, err := notify.New(notify.Options{Targets: cfg.Notify, On: cfg.NotifyOn, Env: d.env})
	switch {
	case err != nil:
		d.bad("notify", err.Error(), "")
	case n != nil:
		d.good("notify", n.String())
	}
}

// verify says which command decides, and whether its program exists.
func (d *doctor) verify(ctx context.Context, s *settings) {
	command, why, ok := s.Scud.VerificationCommand, s.verifyFrom, true
	if command == "" && len(s.Checks) > 0 {
		d.checks(ctx, s.Checks)
		return
	}
	if command == "" {
		command, why, ok = detect(d.root)
	}
	switch {
	case !ok:
		d.bad("verify", "no verify command given, and none found from the project's files", `give --verify "make test", or --verify none`)
		return
	case command == loop.NoVerify:
		d.good("verify", "none, the agent's word is taken")
		return
	case why != "":
		why = " (found: " + why + ")"
	}
	if word, lacks := d.lacksProgram(ctx, command); lacks {
		d.bad("verify", command+why+": there is no command "+word, "install it, or name another command with --verify")
		return
	}
	d.good("verify", command+why)
}

// checks says whether the programs of named checks exist.
func (d *doctor) checks(ctx context.Context, list []verify.Check) {
	for _, c := range list {
		if word, lacks := d.lacksProgram(ctx, c.Run); lacks {
			d.bad("check "+c.Name, c.Run+": there is no command "+word, "install it, or correct verify in descartes.yaml")
			continue
		}
		d.good("check "+c.Name, c.Run)
	}
}

// lacksProgram reports whether the first word of a shell command is not a command. It only judges plain words.
func (d *doctor) lacksProgram(ctx context.Context, command string) (word string, lacks bool) {
	word = strings.Fields(command + " :")[0]
	if strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz0123456789_-+./") != "" {
		return "", false
	}
	reply, err := proc.Output(ctx, proc.Call{Argv: []string{"/bin/sh", "-c", `command -v -- "$0" >/dev/null`, word}, Dir: d.root, Env: d.env})
	return word, err == nil && reply.Code != 0
}

// documents checks the plan and the other texts of a spec.
func (d *doctor) documents(c loop.ScudConfig) {
	if c.PlanPath != "" {
		if _, err := loop.PlanText(d.root, c.PlanPath); err != nil {
			d.bad("plan", err.Error(), "correct --plan, or scud.plan_path in descartes.yaml")
		} else {
			d.good("plan", c.PlanPath)
		}
	}
}

// run checks what a start with these settings would check.
func (d *doctor) run(ctx context.Context, s *settings, imports bool) {
	if err := chooseSource(io.Discard, d.root, &s.Scud); err != nil {
		d.tags(d.root)
		if len(tasks.Known(d.root)) > 0 {
			d.bad("run", err.Error(), hintOf(err))
		}
		return
	}
	d.tag(s.Scud, imports)
	var opt loop.StartOptions
	old, err := unfinished(d.root, s.Scud.Tag)
	if err == nil && old != nil {
		opt.Resume = old.Path
	}
	var r *tagRun
	if err == nil {
		r, err = prepare(ctx, d.root, s.Config, opt, imports)
	}
	var found problems
	switch {
	case errors.As(err, &found):
		for _, p := range found {
			if p.Hint == "" && p.Err != nil {
				p.Hint = hintOf(p.Err)
			}
			d.bad("run", p.Message, p.Hint)
		}
		return
	case err != nil:
		d.bad("run", err.Error(), hintOf(err))
		return
	}
	defer r.close()
	switch {
	case r.nothing:
		d.good("run", "nothing is left to do in tag "+s.Scud.Tag)
	case d.ill:
	case old != nil:
		d.good("run", "loop "+old.State.ID+" can go on")
	default:
		d.good("run", terminal.Count(len(r.job.Runnable()), "task")+" can run")
	}
	for _, w := range r.warnings() {
		d.lacking("", w, "")
	}
	if !r.nothing && !d.ill {
		if err := d.baseline(ctx, r); err != nil {
			d.bad("baseline", err.Error(), hintOf(err))
		}
	}
}

// baseline runs the verify command like a start before its first attempt.
func (d *doctor) baseline(ctx context.Context, r *tagRun) (err error) {
	c := r.job.Config
	setting := cmp.Or(c.Baseline, loop.BaselineRequire)
	checks := slices.DeleteFunc(c.ChecksOf(true), func(one verify.Check) bool { return one.At(verify.AtEnd) })
	if setting == loop.BaselineOff || len(checks) == 0 {
		return nil
	}
	before, err := r.repo.Dirty(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "descartes-doctor-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var commands supervise.Commands
	if err := commands.Start(r.commands(c, dir, dir)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, commands.Close()) }()
	_, withheld := supervise.Withheld(c, r.backend, d.env)
	for i := range checks {
		b, err := loop.TryBaseline(ctx, commands.Verifier(), loop.Timed(&c, verify.Request{Label: "baseline", Dir: r.root, Log: filepath.Join(dir, "baseline.log"), Redact: r.redact}), &attempt.Command{Check: checks[i]}, withheld)
		if err != nil {
			return err
		}
		switch {
		case b.Known(setting) != "":
			d.good("baseline", checks[i].Title()+": "+b.Known(setting))
		case b.Result.Passed:
			d.good("baseline", checks[i].Title()+" passes before any task, in "+terminal.Duration(b.Result.Duration))
		case b.Stops(setting):
			d.bad("baseline", r.redact.Text(b.Reason()), "")
			d.output(r, b)
			d.fix(b.Hint())
		default:
			d.lacking("baseline", r.redact.Text(b.Reason()), "")
			d.output(r, b)
		}
	}
	after, err := r.repo.Dirty(ctx)
	if left := slices.DeleteFunc(after, func(p string) bool { return slices.Contains(before, p) }); len(left) > 0 {
		d.lacking("", "the verify command changed files: "+strings.Join(left[:min(8, len(left))], ", "), "add what it makes to .gitignore")
	}
	return err
}

func (d *doctor) output(r *tagRun, b *loop.Baseline) {
	for _, line := range b.Output() {
		fmt.Fprintf(d.w, "    %s\n", terminal.Clean(r.redact.Text(line)))
	}
}

// mutants says which mutation tools are missing for the project's languages.
func (d *doctor) mutants(cfg loop.Config) {
	if cfg.Mutants == 0 {
		return
	}
	for _, t := range mutants.Tools() {
		if found, _ := filepath.Glob(filepath.Join(d.root, t.Project)); len(found) == 0 {
			continue
		}
		if _, err := lookIn(d.root)(t.Name); err != nil && !exists(filepath.Join(d.root, "node_modules", ".bin", t.Name)) {
			d.lacking("mutants", t.Name+" is not installed: no small faults are tried", t.Install)
		}
	}
}

// safety says what is required of work beyond its verify command, what confines agents, and which of our variables they would get.
func (d *doctor) safety(ctx context.Context, s *settings, tag bool) {
	cfg := s.Config
	b, _, err := config.ResolveBackend(cfg)
	if err != nil {
		return // told with the agent
	}
	box, err := findSandbox(ctx, d.root, d.root, cfg, b)
	cfg.SandboxInForce = box.Note
	for _, l := range config.Policy(&cfg, tag) {
		d.good(l.Name, l.Text)
	}
	d.mutants(cfg)
	switch {
	case err != nil:
		d.bad("sandbox", err.Error(), hintOf(err))
	case box.Lacking != nil:
		d.lacking("sandbox", box.Note, box.Lacking.Fix)
	default:
		d.good("sandbox", box.Note)
	}
	cfg.SandboxInForce = box.Note
	d.trust(s)
	d.good("environment", supervise.EnvironmentText(cfg, b, d.env))
	if cfg.MaxMemory > 0 || cfg.MaxProcs > 0 {
		d.good("ceilings", "kept by "+proc.Ceilings())
	}
	if why := loop.Room(oscall.Free, cfg.MinFreeDisk, d.root, filepath.Join(d.root, ".descartes"), poolOf(d.root)); why != "" && cfg.MinFreeDisk > 0 {
		d.bad("disk", why, "free some, or start with --set min_free_disk=0")
	}
}
