package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/fleet/wire"
	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/oneline"
	"descartes/internal/supervise"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/view"
)

// tagRun is a run over a tag prepared to start: everything was read and checked, nothing was touched.
type tagRun struct {
	prepared
	job     *loop.Job
	front   []tasks.Finding // what is wrong with the plan's front matter
	lacks   []string        // what may keep the agent from its work
	nothing bool            // every task is done already
	dryRun  bool
	branch  bool // a branch that the settings name is made
	large   int  // specs over the budget
	largest int  // tokens of the largest of them
}

// prepare reads everything that a run needs and checks the ground. It names all that is wrong at once.
// imports says that the plan may stand in for a missing task list.
func prepare(ctx context.Context, root string, cfg loop.Config, opt loop.StartOptions, imports bool) (_ *tagRun, err error) {
	r := &tagRun{prepared: newPrepared(root, cfg, opt)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	var found problems
	note := func(err error, hint string) {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hint, Err: err})
	}
	if cfg.Scud.VerificationCommand == "" && len(cfg.Checks) == 0 {
		var ok bool
		if cfg.Scud.VerificationCommand, r.why, ok = detect(root); !ok {
			note(errors.New("no verify command given, and none found from the project's files"),
				`--verify "make test", or --verify none to take the agent's word`)
		}
	}
	wrong, resolved := r.resolve(&cfg)
	found = append(found, wrong...)
	load := loop.Load
	if imports && opt.Resume == "" {
		load = loop.LoadOrImport
	}
	job, unread := load(root, cfg)
	if r.job = job; job != nil {
		if job.Config.Scud.MaxTotalIterations == 0 {
			job.Config.Scud.MaxTotalIterations = loop.DefaultTotalIterations(job.Graph.Counts().Total)
		}
		job.Config.MaxIterations = job.Config.Scud.MaxTotalIterations
		if r.nothing, err = loop.NothingToDo(job); err != nil || r.nothing {
			return r, err
		}
	}
	found = append(found, unread...)
	found = append(found, r.openRepository(ctx)...)
	if resolved {
		found = append(found, r.specProblems(cfg)...)
	}
	if r.job != nil {
		r.sandbox, wrong = safety(ctx, root, root, &r.job.Config, r.backend)
		if found = append(found, wrong...); r.repo != nil {
			found = append(found, r.ground(ctx)...)
			found = append(found, loop.CheckLab(ctx, root, &r.job.Config, r.repo)...)
			found = append(found, r.fleetProblems(ctx)...)
			found = append(found, canSign(r.job.Config.Receipts, r.repo)...)
		}
		found = append(found, loop.CheckReview(&r.job.Config)...)
	}
	if len(found) > 0 {
		return r, found
	}
	return r, nil
}

// openRepository opens the repository and checks that a run is safe in it.
func (r *tagRun) openRepository(ctx context.Context) (found problems) {
	note := func(err error) {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: &failure{code: exitInput, err: err}})
	}
	repo, err := openRepo(ctx, r.root, r.job)
	if err != nil {
		note(err)
		return found
	}
	r.repo = repo
	r.notes = append(r.notes, repo.Notes()...)
	if r.job == nil {
		return found
	}
	if r.job.Config.Scud.AutoCommitWaves {
		if _, _, err := repo.Author(ctx); err != nil {
			note(err)
		}
	}
	if r.job.Import == nil {
		if err := r.job.File.Writable(); err != nil {
			note(err)
		}
	}
	return append(found, loop.Check(ctx, r.job, repo, r.opt)...)
}

// ground decides where agents work, and looks at what is not committed: no copy of the project has it, and in the project's own folder there may be
// none.
func (r *tagRun) ground(ctx context.Context) (found problems) {
	c := &r.job.Config
	r.brought = append([]string{c.Scud.PlanPath}, c.Scud.Spec.AdditionalSpecs...)
	var wrong error
	if r.here, wrong = inPlace(c, r.sandbox, c.Slots()); wrong != nil {
		return append(found, loop.Problem{Message: wrong.Error(), Hint: hintOf(wrong), Err: wrong})
	}
	if busy := r.beside(ctx, r.job.File.Tag()); busy != nil {
		return busy
	}
	note := func(err error) {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: &failure{code: exitInput, err: err}})
	}
	old, err := unfinished(r.root, r.job.File.Tag())
	if err != nil {
		note(err)
	}
	again := r.opt.Resume != "" || old != nil
	if !again {
		if err := r.begins(ctx, r.newBranch(), r.job.File.Tag(), func(id string) bool { return r.job.Graph.Status(id) == tasks.Done }); err != nil {
			note(err)
		}
	}
	switch {
	case r.here && again && workspace.Here(r.pool): // what is there is that run's, and it looks at it itself
	case r.here:
		if err := r.clean(ctx, r.job.File); err != nil {
			note(err)
		}
	case r.opt.Resume == "":
		missing, err := r.job.NotInSlots(ctx, r.repo)
		if err != nil {
			note(err)
		} else {
			r.notInSlots(missing)
		}
	}
	return found
}

// sayElsewhere says where the work is that the branch lacks, although all is done.
func (r *tagRun) sayElsewhere(ctx context.Context, p *printer) {
	var err error
	if r.repo, err = openRepo(ctx, r.root, r.job); err != nil { // there was no run here
		return
	}
	branch, err := r.branchRef(ctx, r.newBranch())
	if err != nil {
		return
	}
	word := "tasks"
	switch ref, loose, err := loop.Elsewhere(ctx, r.repo, branch, r.job.File.Tag()); {
	case err != nil || ref == "":
	case len(loose) > 0:
		if len(loose) == 1 {
			word = "task"
		}
		p.say("not committed: the work done on %s %s is kept as %s; to bring it here: %s", word, terminal.Clean(oneline.List(loose)), ref, r.repo.Merging(ctx, ref))
	default:
		p.say("commits: on the branch %s; to bring them here: %s", terminal.Clean(ref), r.repo.Merging(ctx, ref))
	}
}

// inPlace reports whether the agent works in the project's own folder: where that is asked for, and where nothing can be mounted and it works alone.
func inPlace(c *loop.Config, box supervise.Sandbox, agents int) (bool, error) {
	switch {
	case c.InPlace && agents > 1:
		return false, badInput("leave --in-place out, or run one agent at a time: -j 1", "--in-place is for one agent, and %d are to work at a time", agents)
	case c.InPlace && c.Fleet != "":
		return false, badInput("leave one of the two out", "--in-place is for agents that work here, and --fleet has them work elsewhere")
	}
	return c.InPlace || !box.Mounts() && agents == 1 && c.Fleet == "", nil
}

// fleetProblems says what keeps the workers of a fleet from making the attempts.
func (r *tagRun) fleetProblems(ctx context.Context) (found problems) {
	c := &r.job.Config
	if c.Fleet == "" {
		return nil
	}
	note := func(err error) {
		found = append(found, loop.Problem{Message: "--fleet: " + err.Error(), Hint: hintOf(err), Err: &failure{code: exitInput, err: err}})
	}
	if _, err := findFleet(r.root); err != nil {
		note(err)
	}
	if c.Holdout.Run != "" {
		note(badInput("leave holdout out, or run here", "the held-out checks are on this machine alone, and no worker has them"))
	}
	for _, id := range r.job.Graph.Leaves() {
		if _, err := wire.Labels(r.job.Needs(id)); err != nil {
			note(badInput("a need of a task is a label that workers have: descartes-fleet worker --labels", "task %s needs labels that no worker can have: %w", id, err))
		}
	}
	if c.Scud.Chain {
		note(badInput("leave it out, or run here", "scud.chain needs every attempt on one machine"))
	}
	if real, err := filepath.EvalSymlinks(r.root); err == nil && real != r.repo.Root() && r.root != r.repo.Root() {
		note(badInput("start in "+r.repo.Root(), "a fleet works on whole repositories, and the project is a folder of one"))
	}
	remote := c.FleetRemote
	if _, login := gitops.WithoutLogin(remote); login {
		note(badInput("take it out; git's credential helpers keep it", "the URL of fleet_remote has a login in it"))
		return found
	}
	if remote == "" {
		head, err := r.repo.Head(ctx)
		if err == nil {
			remote, err = r.repo.Remote(cmp.Or(c.Git.Branch, head.Branch))
		}
		if err != nil {
			note(err)
			return found
		}
	}
	switch url, login, err := r.repo.RemoteURL(ctx, remote); {
	case err != nil:
		note(err)
	case len(url) > longestURL:
		note(badInput("git remote set-url "+remote+" URL", "the URL of the remote %s has %d characters; at most %d travel", remote, len(url), longestURL))
	case login:
		r.notes = append(r.notes, "the login in the URL of "+remote+" stays here: each worker needs its own")
	}
	return found
}

// longestURL is how long the URL of a remote may be.
const longestURL = 1000

// specProblems says whether the agents can be run, and given every task's spec.
func (r *tagRun) specProblems(cfg loop.Config) (found problems) {
	found, r.lacks = r.agentProblems(cfg, r.root)
	if r.job == nil {
		return found
	}
	found = append(found, r.otherProblems(lookIn(r.root))...)
	return append(found, r.job.CheckSpecs(func(n int) error {
		r.weigh(n)
		for _, b := range r.backends() {
			if err := b.Check(known, n); err != nil {
				return err
			}
		}
		return nil
	})...)
}

// weigh counts a spec of n bytes that is over the budget.
func (r *tagRun) weigh(n int) {
	if most := r.job.Config.Scud.Spec.MaxSpecTokens; most > 0 && tokens(n) > most {
		r.large++
		r.largest = max(r.largest, tokens(n))
	}
}

// tokens is specbuild.Tokens of a text of n bytes.
func tokens(n int) int { return (n + 3) / 4 }

// warnings is what is odd about a list of which something can run.
func (r *tagRun) warnings() []string {
	var out []string
	for _, p := range r.job.Graph.Problems() {
		out = append(out, p.Message)
	}
	for _, f := range r.job.File.Findings() {
		if !slices.Contains(out, f.Message) && f.Kind != "duplicate" {
			out = append(out, placed(view.Relative(r.root, r.job.File.Path()), f))
		}
	}
	for _, f := range r.job.Conflicts {
		out = append(out, placed(r.job.Config.Scud.PlanPath, f))
	}
	odd := r.front
	if r.job.Import != nil {
		odd = slices.Concat(r.front, r.job.Import.Findings())
	}
	for _, f := range odd {
		out = append(out, placed(r.job.Config.Scud.PlanPath, f))
	}
	if shown := out[:min(10, len(out))]; len(shown) < len(out) {
		out = append(shown, fmt.Sprintf("and %d more: descartes tasks check%s", len(out)-len(shown), r.named()))
	}
	out = append(out, powerless(r.job.Config, r.backends(), chosen(r.job))...)
	if why := r.sandbox.Warning(); why != "" {
		out = append(out, why)
	}
	if r.large > 0 {
		out = append(out, fmt.Sprintf("%s over %d tokens, the largest has about %d; --set scud.spec.cut=true shortens them",
			terminal.Count(r.large, "spec"), r.job.Config.Scud.Spec.MaxSpecTokens, r.largest))
	}
	return out
}

// named is how another command names the list.
func (r *tagRun) named() string {
	return listFlags(r.root, r.job.File.Tag(), r.job.Config.Scud.TasksFile)
}

// placed is a finding with its place in the file, where it has one.
func placed(path string, f tasks.Finding) string {
	if f.Line > 0 {
		path += ":" + strconv.Itoa(f.Line)
	}
	return path + ": " + f.Message
}

// newBranch is the branch that a start makes: the one named, or for a loop that begins that of the template.
func (r *tagRun) newBranch() string {
	g, names := &r.job.Config.Git, config.Names{Tag: r.job.File.Tag(), At: time.Now()}
	if g.Branch != "" || !g.CreateBranch || r.opt.Resume != "" {
		g.Branch = names.Expand(g.Branch)
		return g.Branch
	}
	return names.Expand(cmp.Or(g.BranchTemplate, config.DefaultBranchTemplate))
}

// canRun says why a task cannot be the one of a step.
func (r *tagRun) canRun(id string) error {
	if _, ok := r.job.Graph.Task(id); !ok {
		return badInput("descartes tasks list"+r.named(), "tag %q has no task %q", r.job.File.Tag(), id)
	}
	state, cause := r.job.Graph.State(id)
	if r.job.Graph.Ready(id) || state == "blocked" && r.job.Config.Scud.RetryBlocked {
		return nil
	}
	hint := ""
	if state == "blocked" {
		hint = "--retry-blocked tries it again"
	}
	if cause != "" {
		cause = ": " + cause
	}
	return badInput(hint, "task %s cannot run now, it is %s%s", id, state, cause)
}

// willBe is "is" or "are", and for a dry run "would be".
func (r *tagRun) willBe(n int) string {
	switch {
	case r.dryRun:
		return "would be"
	case n == 1:
		return "is"
	}
	return "are"
}

// addedByPlan names the dependencies that only the plan states.
func (r *tagRun) addedByPlan() []string {
	added := r.job.Graph.Added()
	if len(added) == 0 {
		return nil
	}
	var list []string
	for _, d := range added[:min(10, len(added))] {
		list = append(list, d.Task+" waits for "+d.On)
	}
	if n := len(added) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	return []string{"dependencies that only " + r.job.Config.Scud.PlanPath + " states: " + strings.Join(list, ", ")}
}

// dry tells what a run would do.
func (r *tagRun) dry(p *printer, cmd *cobra.Command, s *settings) error {
	b, err := view.NewBoard(r.job)
	if err != nil {
		return err
	}
	if s.JSON {
		return writeJSON(cmd.OutOrStdout(), b.Report())
	}
	p.say("")
	fmt.Fprint(p.text, b.Text(p.paint, p.width))
	p.say("\ndry run: nothing was touched")
	return nil
}

// runAndReport runs and tells how it ended.
func runAndReport(cmd *cobra.Command, r *tagRun, s *settings, p *printer) error {
	if r.branch {
		r.opt.Branch = r.newBranch()
	}
	j := job{Source: r.job, kind: store.KindTag, cfg: &r.job.Config, dir: r.root, person: atTerminal(cmd, p, s.CI),
		code: func(out loop.Outcome) int { return exitCode(out, out.Blocked) }}
	e, took, err := r.conduct(cmd, s, p, j)
	if e.State == nil {
		return err
	}
	sum := &view.Summary{Board: r.after(e), Run: e, Step: r.opt.Scope.Step, Took: took, Pool: r.occupied(), Later: !r.branch}
	if len(e.State.BlockedTasks) > 0 || e.Outcome.Ending == journal.GitRefused {
		refs, rerr := r.repo.Refs(context.WithoutCancel(cmd.Context()), "refs/descartes/"+e.ID+"/")
		if rerr != nil {
			p.warn(rerr.Error())
		}
		sum.Kept = refs
	}
	sum.Update = r.updates(cmd.Context(), e)
	if e.Outcome.Baseline == nil {
		p.tell(sum.Text(p.paint, p.box))
	}
	p.close()
	if err = errors.Join(err, s.report(sum, p, r.redact)); err != nil {
		return err
	}
	if code := j.code(e.Outcome); code != exitDone {
		return s.ends(code, p)
	}
	return nil
}

// after is the board when a run is over: the graph was kept up to date by the run itself.
func (r *tagRun) after(e view.Run) *view.Board {
	b := &view.Board{Root: r.root, Scud: r.job.Config.Scud, File: r.job.File, Graph: r.job.Graph, Commits: e.State.WaveCommits, Grades: e.State.Grades, Here: fromHere(r.root, r.job.Config.Scud.TasksFile)}
	return b
}

// otherProblems says which backends that tasks ask for cannot be run, and notes those of a fallback and the words of
// tasks that mean nothing.
func (r *tagRun) otherProblems(look func(string) (string, error)) (found problems) {
	cfg := r.job.Config
	asked := map[string]string{} // backend to the first task that asks for it
	var list []tasks.Task
	for _, id := range r.job.Runnable() {
		t, _ := r.job.Graph.Task(id)
		list = append(list, *t)
		if name := cfg.Choices(t)[0].Backend; asked[name] == "" {
			asked[name] = id
		}
	}
	for _, b := range r.others {
		if err := b.Check(look, 0); err != nil && asked[b.Name] != "" {
			err = fmt.Errorf("task %s: %w", asked[b.Name], err)
			found = append(found, loop.Problem{Message: err.Error(), Hint: "install it, or give agent_types another backend", Err: &failure{code: exitAgent, err: err}})
		} else if err == nil && asked[b.Name] != "" {
			more, warnings := lacking(cfg, b, r.root)
			found, r.lacks = append(found, more...), append(r.lacks, warnings...)
		}
	}
	found = append(found, r.reviewProblems(cfg, look)...)
	r.notes = append(r.notes, missingFallbacks(r.others, cfg, r.root, look)...)
	tiers, types := cfg.Unmapped(list)
	for _, words := range []struct {
		what, setting string
		list          []string
	}{{"model tier", "model_tiers", tiers}, {"agent type", "agent_types", types}} {
		if n := len(words.list); n > 0 {
			r.notes = append(r.notes, fmt.Sprintf("%s %s of tasks: %s does not set it, so the default model is used", words.what,
				strings.Join(words.list[:min(n, 10)], ", "), words.setting))
		}
	}
	return found
}

// chosen is all that the attempts of a job may be run with.
func chosen(job *loop.Job) (out []loop.Choice) {
	for _, id := range job.Runnable() {
		t, _ := job.Graph.Task(id)
		for _, c := range job.Config.Choices(t) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}
