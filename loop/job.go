package loop

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/tasks/plan"
	"descartes/verify"
	"descartes/verify/guard"
)

// Problem is something that prevents a run, and what to do about it if that is known.
type Problem struct {
	Message string
	Hint    string
	Err     error // the cause, for errors.As
}

// Job is a tag ready to run: everything is read, nothing is touched.
type Job struct {
	Root      string
	Config    Config
	File      *tasks.File
	Graph     *scheduler.Graph
	Import    *plan.Document  // Start makes the task file from it; nil if there is a task file
	Conflicts []tasks.Finding // where the plan contradicts the task file
	// what the branch to commit to, which is not checked out, has of tasks that are pending in the list here
	Ahead    map[string]tasks.Status
	all      []tasks.Task // as read; the file's own list changes with each save
	plan     *plan.Document
	checks   map[string]string           // which the plan beside the list has for its tasks
	settings string                      // digest of what descartes.yaml asks for, computed on first use
	stories  map[string]*specbuild.Story // of a spec-kit list, by their marks
	specs    []specbuild.File
	beside   *specbuild.Beside // documents in the list's folder; nil: none
	hand     string
	answers  []store.Answer
	more     map[string][]string // dependencies that only the plan states
}

const maxSpecFile = 4 << 20 // bytes of one spec file

// Load reads the tag's task file, the plan and the spec files below root. It returns every problem it finds; the job
// is nil if there is no task list to work with. The job's settings have the tag as the file names it, which may differ
// from Task Master's "master".
func Load(root string, cfg Config) (*Job, []Problem) { return load(root, cfg, false) }

// LoadOrImport is Load, but if no task file has the tag the tasks come from the plan: Start then makes the task file
// first.
func LoadOrImport(root string, cfg Config) (*Job, []Problem) { return load(root, cfg, true) }

func load(root string, cfg Config, imports bool) (*Job, []Problem) {
	var problems []Problem
	note := func(err error, hint string) {
		problems = append(problems, Problem{Message: err.Error(), Hint: hint, Err: err})
	}
	j := &Job{Root: root, Config: cfg}
	text, err := j.readPlan()
	if err != nil {
		note(err, "")
	}
	if err := j.open(text, imports && err == nil); err != nil {
		note(err, "")
	}
	if j.File != nil {
		if j.answers, err = store.NewHome(root).Answers(j.File.Tag()); err != nil {
			note(err, "fix it, or move it away: it has what was said with descartes answer")
		}
	}
	if err := j.overlay(); err != nil {
		note(err, "")
	}
	for _, p := range cfg.Scud.Spec.AdditionalSpecs {
		text, err := ReadText(root, p, maxSpecFile)
		if err != nil {
			note(fmt.Errorf("spec file: %w", err), "")
			continue
		}
		j.specs = append(j.specs, specbuild.File{Name: p, Text: text})
	}
	if p := cfg.Scud.HandoffPath; p != "" {
		if j.hand, err = ReadText(root, p, store.MaxHandoff); err != nil && !errors.Is(err, fs.ErrNotExist) {
			note(fmt.Errorf("handoff: %w", err), "") // a missing one is written when the loop stops
		}
	}
	if j.File == nil {
		return nil, problems
	}
	if err := j.readStories(); err != nil {
		note(err, "")
	}
	j.readBeside()
	var bad []error
	j.Config.MostCandidates, j.Config.ProvesSome, bad = j.survey(j.all)
	for _, err := range bad {
		note(err, "allow tests, checks, ci, secrets, all, or rules by their names")
	}
	return j, problems
}

// survey returns how many candidates the tasks ask for at most, 0 for none, whether one asks for a proof, and which
// allow what there is not.
func (j *Job) survey(list []tasks.Task) (candidates int, proves bool, bad []error) {
	for i := range list {
		t := &list[i]
		for _, name := range t.Allow {
			if !slices.Contains(guard.Names(), name) {
				bad = append(bad, fmt.Errorf("task %s allows %q, which is not a rule of the guard", t.ID, name))
			}
		}
		if n := j.Config.CandidatesOf(t); n > 1 && !t.Container() {
			candidates = max(candidates, n)
		}
		proves = proves || t.Prove != "" && j.Config.ProveOf(t)
	}
	return candidates, proves, bad
}

// readPlan reads the plan for the specs and returns its text, "" without a plan.
func (j *Job) readPlan() (text string, err error) {
	path := j.Config.Scud.PlanPath
	if path == "" {
		return "", nil
	}
	if text, err = PlanText(j.Root, path); err != nil {
		return "", err
	}
	j.plan, err = plan.Parse(path, []byte(text))
	return text, err
}

// readStories reads the specification beside a spec-kit list whose tasks belong to user stories.
func (j *Job) readStories() error {
	if !slices.ContainsFunc(j.all, func(t tasks.Task) bool { return t.Story != "" }) {
		return nil
	}
	path := filepath.Join(filepath.Dir(j.File.Path()), "spec.md")
	text, err := ReadText(j.Root, path, maxSpecFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if rel, rerr := filepath.Rel(j.Root, path); rerr == nil && filepath.IsLocal(rel) {
		path = rel
	}
	if err == nil {
		j.stories, err = specbuild.ParseStories(path, []byte(text))
	}
	if err != nil {
		return fmt.Errorf("user stories: %w", err)
	}
	return nil
}

// besideNames returns the documents that lie beside a tasks.md of spec-kit, OpenSpec or Kiro in the folder rel, most
// important first, and the project-wide ones two folders above.
func besideNames(rel string) []string {
	names := []string{"spec.md", "requirements.md", "proposal.md", "plan.md", "design.md", "data-model.md",
		"research.md", "quickstart.md", "specs/*/spec.md", "contracts/*"}
	switch filepath.ToSlash(filepath.Dir(rel)) {
	case "specs":
		names = append(names, "../../.specify/memory/constitution.md")
	case "openspec/changes":
		names = append(names, "../../project.md")
	case ".kiro/specs":
		names = append(names, "../../steering/*.md")
	}
	return names
}

const maxBesideFiles = 40

// readBeside reads the documents beside a list in a folder of its own, except the plan from the settings.
func (j *Job) readBeside() {
	dir := filepath.Dir(j.File.Path())
	rel, err := filepath.Rel(j.Root, dir)
	if err != nil || rel == "." || !filepath.IsLocal(rel) || filepath.Base(j.File.Path()) != "tasks.md" {
		return
	}
	own := j.Config.Scud.PlanPath
	if !filepath.IsAbs(own) {
		own = filepath.Join(j.Root, own)
	}
	b := &specbuild.Beside{}
	for _, pattern := range besideNames(rel) {
		paths, _ := filepath.Glob(filepath.Join(globQuote(dir), filepath.FromSlash(pattern)))
		for _, path := range paths {
			if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || path == own ||
				len(b.Names) >= maxBesideFiles {
				continue
			}
			name, err := filepath.Rel(j.Root, path)
			if err != nil || !filepath.IsLocal(name) {
				continue
			}
			name = filepath.ToSlash(name)
			b.Names = append(b.Names, name)
			if filepath.Ext(path) != ".md" {
				continue
			}
			if text, err := ReadText(j.Root, path, maxSpecFile); err == nil { // otherwise only its name is mentioned
				if p, err := plan.Parse(name, []byte(text)); err == nil {
					b.Texts = append(b.Texts, p)
				}
			}
		}
	}
	if len(b.Names) > 0 {
		j.beside = b
	}
}

// globQuote escapes a path for use at the start of a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// PlanText reads a plan of bounded size. Its path is relative to root, or absolute.
func PlanText(root, path string) (string, error) {
	text, err := ReadText(root, path, maxSpecFile*2)
	if err != nil {
		return "", fmt.Errorf("plan: %w", err)
	}
	return text, nil
}

// ReadText reads a text file of bounded size. path is relative to root, or absolute.
func ReadText(root, path string, limit int64) (string, error) {
	b, err := plainfile.Read(root, path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &missingFile{path}
	}
	if err != nil {
		return "", err
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if err := specbuild.CheckText(b); err != nil {
		return "", fmt.Errorf("%s %w", path, err)
	}
	return string(b), nil
}

// missingFile is the error for a named file that does not exist.
type missingFile struct{ path string }

func (e *missingFile) Error() string { return e.path + ": no such file" }
func (e *missingFile) Unwrap() error { return fs.ErrNotExist }

// SpecRequest is what differs between the specs of a job.
type SpecRequest struct {
	Task      string
	Attempt   int // its number
	Of        int // the last attempt's number; 0: as the settings and Counted make it
	Counted   int // attempts before it that used up what the task is allowed
	Failure   *specbuild.Failure
	Cut       *specbuild.Failure     // a later attempt that the provider cut short, whose work is in the tree
	Delivered func(id string) string // nil: nothing is known
	Known     []string               // tests that failed before the first attempt, and still do
	Before    time.Time              // leave out answers given later; zero: none
}

// Spec builds the complete text for one attempt.
func (j *Job) Spec(r SpecRequest) (specbuild.Spec, error) {
	t, ok := j.Graph.Task(r.Task)
	if !ok {
		return specbuild.Spec{}, fmt.Errorf("tag %q has no task %q", j.File.Tag(), r.Task)
	}
	c := j.Config.Scud
	r.Attempt = max(1, r.Attempt)
	req := specbuild.Request{
		Tag: j.File.Tag(), Task: *t, Parents: j.Graph.Parents(r.Task), Plan: j.plan, Story: j.stories[t.Story],
		Beside: j.beside,
		Files:  j.specs, Handoff: j.hand, Answers: j.answersTo(r.Task, r.Before), Promise: j.Config.CompletionPromise,
		Template: c.Spec.SpecTemplate, Budget: specbuild.Budget{Tokens: c.Spec.MaxSpecTokens, Cut: c.Spec.Cut},
		Attempt: specbuild.Attempt{Number: r.Attempt, Max: cmp.Or(r.Of,
			j.Config.LastAttempt(t, r.Attempt-1, r.Counted)), Failure: r.Failure, CutShort: r.Cut},
	}
	if j.Config.Baseline == BaselineKnown {
		req.Known = r.Known
	}
	req.Verify, req.Checks = specChecks(checksOf(&j.Config, store.KindTag))
	req.Attempt.Failure = unasked(req.Attempt.Failure, req.Answers)
	req.NoTask, req.Alone = !c.Spec.IncludeTask, !c.UseSubAgents
	if !c.Spec.IncludePlanSection {
		req.Plan = nil
	}
	for _, id := range j.Graph.Deps(r.Task) {
		d, ok := j.Graph.Task(id)
		if !ok {
			continue
		}
		dep := specbuild.Dependency{ID: id, Title: d.Title}
		if r.Delivered != nil {
			dep.Delivered = r.Delivered(id)
		}
		req.Dependencies = append(req.Dependencies, dep)
	}
	s, err := specbuild.Build(req)
	if err != nil {
		return s, fmt.Errorf("spec of task %s: %w", r.Task, err)
	}
	return s, nil
}

// specChecks returns what decides, as a spec says it: one command, or several checks.
func specChecks(checks []verify.Check) (command string, list []specbuild.Check) {
	later := map[verify.When]string{verify.AtMerge: "on the work of several tasks together",
		verify.AtWave: "before the wave is committed", verify.AtEnd: "at the end of the run"}
	for _, c := range checks {
		if c.Name == "" {
			return c.Run, nil
		}
		list = append(list, specbuild.Check{Name: c.Name, Run: c.Run, Later: later[c.When]})
	}
	return "", list
}

// Inputs returns what receipts record about a task: its description, its section of the plan and the project's
// settings, as they are now.
func (j *Job) Inputs(id string) (in journal.Inputs) {
	t, ok := j.Graph.Task(id)
	if !ok {
		return in
	}
	if j.settings == "" {
		j.settings = settingsDigest(j.Root)
	}
	in.Task, in.Settings = receipt.TaskDigest(t), j.settings
	if j.plan != nil {
		in.PlanPath, in.Plan = j.Config.Scud.PlanPath, receipt.PlanDigest(j.plan, *t, j.Graph.Parents(id))
	}
	return in
}

// settingsDigest is the digest of descartes.yaml's own settings, "" if it is unreadable.
func settingsDigest(root string) string {
	f, err := config.ReadFile(filepath.Join(root, SettingsFile), false)
	if err != nil {
		return ""
	}
	return receipt.PolicyDigest(policyLines(&f.Config))
}

// policyLines describes the checks and looks in the settings, one per line.
func policyLines(c *Config) (lines []string) {
	for _, one := range c.ChecksOf(true) {
		at := ""
		if !one.At(verify.AtAttempt) {
			at = " (at " + string(one.When) + ")"
		}
		lines = append(lines, one.Title()+at+": "+one.Run)
	}
	for _, one := range config.Policy(c, true) {
		if one.Name != config.ReceiptsLine {
			lines = append(lines, one.String())
		}
	}
	return lines
}

// GoOn takes over the statuses that another version of the list has of tasks that are pending here.
func (j *Job) GoOn(there []tasks.Task) {
	if j.Ahead == nil {
		j.Ahead = map[string]tasks.Status{}
	}
	for _, t := range there {
		if now, ok := j.Graph.Task(t.ID); ok && !now.Container() && offList(t.Status) &&
			j.Graph.Status(t.ID) == tasks.Pending {
			j.Ahead[t.ID] = t.Status
			j.Graph.SetStatus(t.ID, t.Status)
		}
	}
}

// Runnable lists the leaves that a run would start now or once others are done, in wave order.
func (j *Job) Runnable() []string {
	var out []string
	for _, w := range j.Graph.Waves() {
		for _, id := range w.Tasks {
			if s := j.Graph.State(id); s.Open() || s == scheduler.StateBlocked && j.Config.Scud.RetryBlocked {
				out = append(out, id)
			}
		}
	}
	return out
}

// blockedTasks lists the leaves that the task file calls blocked or failed.
func (j *Job) blockedTasks() []string {
	var out []string
	for _, id := range j.Graph.Leaves() {
		if s := j.Graph.Status(id); s == tasks.Blocked || s == tasks.Failed {
			out = append(out, id)
		}
	}
	return out
}

// CheckSpecs builds the spec of every task that may run. fits, which may be nil, says whether the agent accepts a
// prompt of n bytes.
func (j *Job) CheckSpecs(fits func(n int) error) []Problem {
	var problems []Problem
	for _, id := range j.Runnable() {
		s, err := j.Spec(SpecRequest{Task: id})
		if err == nil && fits != nil {
			if err = fits(len(s.Text)); err != nil {
				err = fmt.Errorf("task %s: %w", id, err)
			}
		}
		if err != nil {
			problems = append(problems, Problem{Message: err.Error(), Err: err})
			if len(problems) == 5 {
				break
			}
		}
	}
	return problems
}

// ownPaths are the places, relative to the repository, where uncommitted changes never stop a loop: .scud, .descartes,
// the plan and the spec files, and more.
func (j *Job) ownPaths(repoRoot string, more ...string) []string {
	out := []string{}
	add := func(p string) {
		if !filepath.IsAbs(p) {
			p = filepath.Join(j.Root, p)
		}
		if rel, err := filepath.Rel(repoRoot, p); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	add(".scud")
	add(".descartes")
	add(cmp.Or(j.Config.SettingsFile, SettingsFile))
	add(j.File.Path())
	if mirror, ok := j.File.Mirror(); ok {
		add(mirror.Path())
	}
	c := j.Config.Scud
	for _, p := range slices.Concat([]string{c.PlanPath, c.HandoffPath}, c.Spec.AdditionalSpecs, more) {
		if p != "" {
			add(p)
		}
	}
	return out
}

// Foreign returns the paths outside our own ones.
func Foreign(paths, own []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return slices.ContainsFunc(own, func(o string) bool { return p == o || strings.HasPrefix(p, o+"/") })
	})
}

// open reads the task list and makes its graph. Dependencies that only the plan's text states are added; with imports,
// the plan replaces a missing list.
func (j *Job) open(text string, imports bool) error {
	c := &j.Config.Scud
	file, err := OpenTasks(j.Root, *c)
	var missing *tasks.NotFoundError
	imports = imports && c.TasksFile == "" && c.PlanPath != "" && errors.As(err, &missing)
	if err != nil && !imports {
		return err
	}
	if imports && strings.TrimSpace(text) == "" {
		return fmt.Errorf("plan: %s is empty", c.PlanPath)
	}
	var more map[string][]string
	if p := j.plan; p != nil {
		_, perr := p.Tasks()
		switch {
		case imports && perr != nil:
			return fmt.Errorf("%s; %w", err, perr)
		case imports && p.Boxed():
			c.TasksFile = c.PlanPath
			if file, err = OpenTasks(j.Root, *c); err != nil {
				return err
			}
		case file != nil && file.IsPlan() && p.Boxed(): // it is the list
		case imports:
			if file, err = p.List(j.Root, c.Tag); err != nil {
				return err
			}
			j.Import = p
		case perr == nil: // most plans have no tasks of their own
			more, j.Conflicts = p.Extra(file.Tasks())
			j.checks = p.Checks(file.Tasks())
		}
	}
	j.take(file, more)
	return nil
}

// take uses file as the job's list.
func (j *Job) take(file *tasks.File, more map[string][]string) {
	j.File, j.all, j.more = file, slices.Clone(file.Tasks()), more
	j.Config.Scud.Tag = file.Tag()
	j.Graph = j.graph(j.all)
}

// Tasks are those of the list, each with its check, which a plan beside the list may have.
func (j *Job) Tasks() []tasks.Task { return j.all }

// LeftOut says which lines of the list, or of the plan that it is made of, look like work and are no tasks; "" for none.
func (j *Job) LeftOut() string { return tasks.LeftOut(j.Account()) }

// Account is what the reader of the list had to say about it, or that of the plan from which all its tasks are.
func (j *Job) Account() []tasks.Finding {
	if j.plan == nil || j.Import == nil && !j.ofPlan() {
		return j.File.Findings()
	}
	return j.plan.Findings()
}

// ofPlan reports whether the list was made of the plan beside it.
func (j *Job) ofPlan() bool {
	list, err := j.plan.Tasks()
	return err == nil && !slices.ContainsFunc(list, func(t tasks.Task) bool {
		known, ok := j.File.Task(t.ID)
		return !ok || known.Title != t.Title
	})
}

// Unordered is how many tasks of a plan would run at the same time only because it says nothing about their order.
func (j *Job) Unordered() int {
	if j.Import == nil && !j.File.IsPlan() && (j.plan == nil || !j.ofPlan()) || len(j.Graph.Waves()) != 1 {
		return 0
	}
	return len(j.Runnable())
}

// graph is the graph of a list, which gets the plan's checks where it has none.
func (j *Job) graph(list []tasks.Task) *scheduler.Graph {
	c := &j.Config.Scud
	external, why := otherTags(j.Root, *c)
	for i := range list {
		list[i].Verify = cmp.Or(list[i].Verify, j.checks[list[i].ID])
	}
	return scheduler.New(list, scheduler.Options{External: external, ExternalErr: why, OpenInDone: c.OpenInDone,
		More: j.more})
}

// JobOf returns a job for a list that is not on disk, or differs from the one there.
func JobOf(root string, cfg Config, file *tasks.File) *Job {
	j := &Job{Root: root, Config: cfg}
	j.take(file, nil)
	return j
}

// OpenTasks opens the task list that the settings mean: the file they name, or the one that has the tag.
func OpenTasks(root string, c ScudConfig) (*tasks.File, error) {
	if c.TasksFile == "" {
		return tasks.Open(root, c.Tag)
	}
	f, err := plan.Open(tasksPath(&c, root), c.Tag, func(tag string) (was []tasks.Task) {
		last, _ := store.NewHome(root).LastOf(tag)
		if last == nil {
			return nil
		}
		for _, e := range last.State.Entries {
			was = append(was, tasks.Task{ID: e.ID, Title: e.Title})
		}
		return was
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("task file %s: %w", c.TasksFile, fs.ErrNotExist)
	}
	return f, err
}

func tasksPath(c *ScudConfig, root string) string {
	if filepath.IsAbs(c.TasksFile) {
		return c.TasksFile
	}
	return filepath.Join(root, c.TasksFile)
}

// overlay adds which tasks are blocked from the tag's last loop, if the task file has no word for that. One that a
// person has answered or accepted since is to be done.
func (j *Job) overlay() error {
	if j.File == nil || j.File.Holds(tasks.Blocked) {
		return nil
	}
	home := store.NewHome(j.Root)
	last, err := home.LastOf(j.File.Tag())
	if err != nil || last == nil {
		return err
	}
	v, err := home.View(*last, j.File)
	if err != nil {
		return err
	}
	for _, b := range v.State.BlockedTasks {
		if j.Graph.Status(b.Task.ID) == tasks.Pending && !j.answered(b.Task.ID, b.At) {
			j.Graph.SetStatus(b.Task.ID, tasks.Blocked)
		}
	}
	return nil
}

// otherTags looks up tasks of other tags in their own lists, each read once, and says why a list cannot be read. It
// tries a file named in the settings first.
func otherTags(root string, c ScudConfig) (external func(tag, id string) (tasks.Status, bool),
	why func(tag string) error) {
	type list struct {
		file *tasks.File
		err  error
	}
	lists := map[string]list{}
	open := func(tag string) list {
		l, seen := lists[tag]
		if !seen {
			l.file, l.err = otherTag(root, c, tag)
			lists[tag] = l
		}
		return l
	}
	external = func(tag, id string) (tasks.Status, bool) {
		l := open(tag)
		if l.file == nil {
			return "", false
		}
		return l.file.Outcome(id)
	}
	why = func(tag string) error {
		err := open(tag).err
		var missing *tasks.NotFoundError
		var invalid *tasks.TagError
		if errors.As(err, &missing) && len(missing.Broken) == 0 || errors.As(err, &invalid) {
			return nil
		}
		return err
	}
	return external, why
}

func otherTag(root string, c ScudConfig, tag string) (*tasks.File, error) {
	if c.TasksFile != "" {
		// A list without tags accepts any tag. Only a file with several tags can lack a tag that no file has.
		var missing *tasks.NotFoundError
		if _, err := tasks.OpenPath(tasksPath(&c, root), "?"); errors.As(err, &missing) &&
			slices.Contains(missing.Known, tag) {
			if f, err := tasks.OpenPath(tasksPath(&c, root), tag); err == nil {
				return f, nil
			}
		}
	}
	return tasks.Open(root, tag)
}

// Check reports whether the job can run safely here. It changes no file of the working tree.
func Check(ctx context.Context, j *Job, repo *gitops.Repo, opt StartOptions) []Problem {
	home := store.NewHome(j.Root)
	var problems []Problem
	old, err := home.Unfinished(j.File.Tag())
	if err != nil {
		return []Problem{{Message: err.Error(), Err: err}}
	}
	if len(j.Runnable()) == 0 && opt.Resume == "" && old == nil {
		problems = append(problems, noneRunnable(j))
		for _, p := range j.Graph.Problems() {
			if p.Kind == "duplicate" {
				problems = append(problems, Problem{Message: p.Message, Hint: "give each task its own id"})
			}
		}
	}
	// A lock left by the killed agent of an unfinished loop is handled when that loop is resumed.
	begins := old == nil && opt.Resume == ""
	path, locked := repo.Locked(ctx)
	// by a run that moves the branch
	for until := time.Now().Add(store.LockWait); begins && locked && time.Now().Before(until); path,
		locked = repo.Locked(ctx) {
		time.Sleep(10 * time.Millisecond)
	}
	if begins && locked {
		problems = append(problems,
			Problem{Message: path + " exists: git is at work here, or was killed in the middle of it",
				Hint: "wait for it to end; if no git process runs any more, remove the file"})
	}
	if err := repo.CanMerge(); err != nil && j.Config.Slots() > 1 {
		problems = append(problems, Problem{Message: err.Error(),
			Hint: "install a newer git, or run one agent at a time: -j 1", Err: err})
	}
	return problems
}

// NothingToDo reports whether every task of the job is done or set aside by a person, and no loop is left to resume.
func NothingToDo(j *Job) (bool, error) {
	done := 0
	for _, id := range j.Graph.Leaves() {
		switch s := j.Graph.State(id); {
		case s == "done":
			done++
		case !j.Graph.Status(id).SetAside():
			return false, nil
		}
	}
	if done == 0 {
		return false, nil
	}
	old, err := store.NewHome(j.Root).Unfinished(j.File.Tag())
	return old == nil, err
}

// NothingRunsError says that no task of a list can run.
type NothingRunsError struct {
	Tag           string
	Blocked, Held int      // Blocked is 0 if the list itself is at fault
	Faults        []string // the list's first cycles and missing dependencies
}

func (e *NothingRunsError) Error() string {
	s := fmt.Sprintf("tag %q has no task that can run", e.Tag)
	if e.Blocked > 0 {
		s += fmt.Sprintf(": %d blocked", e.Blocked)
	}
	if e.Blocked > 0 && e.Held > 0 {
		s += fmt.Sprintf(", %d held", e.Held)
	}
	if len(e.Faults) > 0 {
		s += ": " + strings.Join(e.Faults, "; ")
	}
	return s
}

// Faults returns the dependencies that can never be met until somebody corrects the list.
func (j *Job) Faults() (list []string) {
	for _, p := range j.Graph.Problems() {
		if slices.Contains([]string{"cycle", "missing", "self"}, p.Kind) {
			list = append(list, p.Message)
		}
	}
	return list
}

func noneRunnable(j *Job) Problem {
	e := &NothingRunsError{Tag: j.File.Tag(), Blocked: len(j.blockedTasks()), Held: j.Graph.Counts().Held,
		Faults: j.Faults()}
	e.Faults = e.Faults[:min(3, len(e.Faults))]
	p := Problem{Message: e.Error(), Hint: "descartes waves" +
		config.ListFlags(j.File.Tag(), j.Config.Scud.TasksFile) + " shows why", Err: e}
	if e.Blocked > 0 {
		p.Hint += "; --retry-blocked tries the blocked ones again"
	}
	return p
}

// NotInSlots returns the uncommitted changes that agents in slots will not see: a slot starts from the last commit.
func (j *Job) NotInSlots(ctx context.Context, repo *gitops.Repo) ([]string, error) {
	dirty, err := repo.Dirty(ctx)
	if err != nil {
		return nil, gitErr("look for uncommitted changes", err)
	}
	return Foreign(dirty, j.ownPaths(repo.Root())), nil
}

// Config is what a loop was asked to do; config has each setting with its flag, key and default.
type (
	Config        = config.Config
	RepeatConfig  = config.RepeatConfig
	GateConfig    = config.GateConfig
	SafetyConfig  = config.SafetyConfig
	BackendConfig = config.BackendConfig
	GitConfig     = config.GitConfig
	ScudConfig    = config.ScudConfig
	SpecConfig    = config.SpecConfig
	AgentType     = config.AgentType
	Models        = config.Models
	Choice        = config.Choice
)

// Timed sets the timeouts of a verify command.
func Timed(c *Config, q verify.Request) verify.Request {
	q.Timeout, q.Idle, q.Grace = seconds(c.VerifyTimeoutSecs), seconds(c.VerifyIdleSecs), attempt.Grace
	return q
}

// VerifyDetail is a result of the verify command for its event.
func VerifyDetail(res verify.Result) *journal.Detail {
	d := &journal.Detail{Checked: journal.Checked{Check: res.Name, Passed: res.Passed, Digest: res.Digest,
		Tries: res.Tries, Flaky: res.Flaky, Standing: res.Standing},
		Exit: journal.Exit{Code: res.Code, Signal: res.Signal, TimedOut: res.TimedOut,
			Seconds: res.Duration.Seconds()}}
	if t := res.Tests; t != nil {
		d.Tests = &journal.Tests{Ran: t.Ran(), Failed: len(t.Failed), Skipped: len(t.Skipped) + t.Omitted,
			Known: res.Known, More: t.More}
		if c := res.Change; c != nil {
			d.Tests.Fixed, d.Tests.Added, d.Tests.Extra, d.Tests.Broken, d.Tests.Gone = c.Fixed, c.Added, c.More,
				c.Broken, c.Gone
		}
	}
	return d
}

// NoVerify is the verification command that asks for none.
const NoVerify = config.NoVerify

// DefaultTotalIterations is the default limit of attempts for a tag of n tasks.
func DefaultTotalIterations(n int) int { return max(100, 3*n) }

// UsedUp returns the outcome if the deadline or the budget is used up, else nil.
func UsedUp(c *Config, now time.Time, cost journal.Cost) *Outcome {
	switch {
	case c.Deadline != nil && !now.Before(*c.Deadline):
		return &Outcome{Ending: journal.DeadlinePast, Message: "the deadline " + c.Deadline.Format(time.RFC3339) +
			" has passed"}
	case c.MaxCostUSD > 0 && cost.USD != nil && *cost.USD >= c.MaxCostUSD:
		return &Outcome{Ending: journal.CostReached, Message: "the agents cost " + cost.Dollars() + ", the limit is " +
			journal.Dollars(c.MaxCostUSD)}
	}
	return nil
}

// SettingsFile is the file with a project's settings.
const SettingsFile = "descartes.yaml"

// Protected are the paths that no attempt may change, be there a file or not. Nobody writes the fixed ones during a
// run: the settings, and lists that would be read instead of the run's own. Of the others the run itself writes some;
// a folder ends in a slash. list is nil for a prompt.
func Protected(c *Config, root string, list *tasks.File) (fixed, others []string) {
	fixed = []string{filepath.Join(root, SettingsFile)}
	if c.SettingsFile != "" && c.SettingsFile != fixed[0] {
		fixed = append(fixed, c.SettingsFile)
	}
	others = []string{filepath.Join(root, ".descartes") + "/"}
	handoff := c.PromptHandoff
	if list != nil {
		fixed = append(fixed, list.Ahead(root)...)
		others = append(others, list.Path(), filepath.Join(root, ".scud", "tasks")+"/")
		if mirror, ok := list.Mirror(); ok {
			others = append(others, mirror.Path())
		}
		handoff = c.Scud.HandoffPath
	}
	if handoff != "" {
		if !filepath.IsAbs(handoff) {
			handoff = filepath.Join(root, handoff)
		}
		others = append(others, handoff)
	}
	return fixed, others
}

// noRoom says that a disk has too little room for another attempt, or returns "". On a full disk an attempt would fail
// for nothing.
func (l *lanes) noRoom() string {
	if l.run.config.MinFreeDisk <= 0 || l.run.tools.Free == nil {
		return ""
	}
	return Room(l.run.tools.Free, l.run.config.MinFreeDisk, l.run.root, filepath.Join(l.run.root, ".descartes"),
		l.run.tools.Pool)
}

// drop removes the slots of a run that ends because their disk is full: what agents left there would fill it at each
// resume.
func (l *lanes) drop() (err error) {
	if l.run.trunk == nil || l.run.tools.Free == nil || Room(l.run.tools.Free, max(l.run.config.MinFreeDisk, 1),
		l.run.tools.Pool) == "" {
		return nil
	}
	for _, ln := range l.all {
		err = errors.Join(err, ln.slot.Drop())
	}
	return err
}

// DiskFull reports whether an error means a full disk; git only says so in words.
func DiskFull(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(strings.ToLower(err.Error()), syscall.ENOSPC.Error()))
}

// Room says which folder's file system has too little room, or returns "". One that does not report its free space is
// ignored.
func Room(free func(dir string) (int64, error), least int64, dirs ...string) string {
	for _, dir := range dirs {
		if n, err := free(dir); dir != "" && err == nil && n < least {
			return fmt.Sprintf("%s free on the disk of %s, and an attempt needs at least %s", mebibytes(n), dir,
				mebibytes(least))
		}
	}
	return ""
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// Denied lists what the sandbox refused the attempt with that log.
func (t *Tools) Denied(c *Config, root string, list *tasks.File, log string) []string {
	if !c.Confined() {
		return nil
	}
	var hosts []string
	if t.Refused != nil {
		hosts = t.Refused()
	}
	fixed, others := Protected(c, root, list)
	return attempt.Denied(root, append(fixed, others...), log, hosts)
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
