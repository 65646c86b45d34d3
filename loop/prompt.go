package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/agent"
	"descartes/agent/render"
	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/crash"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/verify"
)

// Gate is the rule that ends a prompt loop: one of package gate, as a pointer. Its state encodes to JSON, is recorded in the journal with each
// iteration, and is restored when the loop is resumed.
type Gate interface {
	Decide(gate.Facts) gate.Decision
	Instructions() string
}

// Iteration is one iteration of a prompt loop, or one try of a repeated iteration.
type Iteration struct {
	Number  int // from 1
	Max     int
	Try     int    // from 1; higher if the iteration is repeated
	Next    string // what the iteration before it, or the gate, tells the agent
	Failing bool   // the last run of the verify command did not pass

	// set after it has ended
	Facts   gate.Facts
	Watched bool // Facts.Changed is known

	slot    *workspace.Slot // slot it runs in; nil: a folder without git
	seen    bool            // a sandbox mounts the slot at the project's path
	base    gitops.Tree     // the tree that its commit is compared with
	owed    gitops.Tree     // the tree that what its commit leaves out is compared with, or ""
	edits   map[string]int
	file    []byte // .loop/state.json as the agent left it
	commit  string
	apart   string // why its changes did not arrive in the user's tree, or ""
	own     bool   // the commits that its agent made are the branch's
	ref     string // of the checkpoint
	refused string // why git rejected the commit, if the iteration can be repeated
}

// At is the path of a project's file for the iteration, in its slot if it has one.
func (it *Iteration) At(path string) string {
	if it.slot == nil {
		return path
	}
	return it.slot.Host(path)
}

// Seen is At as the iteration's agent sees it.
func (it *Iteration) Seen(path string) string {
	if it.seen {
		return path
	}
	return it.At(path)
}

// Rules are what differs between the kinds of prompt loops. Plain has none of its own.
type Rules interface {
	Before(*Iteration) *Outcome                // may the iteration begin? An outcome ends the run
	About() string                             // the iteration's subject in one line, recorded with its start
	Announce(*Iteration) []string              // lines shown to people before it
	Compose(*Iteration) (text string, ok bool) // the prompt; not ok: use the settings' prompt with its iteration context
	Checks(*Iteration) bool                    // whether to run the verify command after it
	Facts(*Iteration) error                    // completes the facts for the gate
	TakeBack(*Iteration) map[string][]byte     // after a failure: files below the project as they are kept, without what only success may claim
	Fails(*Iteration) Failure                  // whether to repeat the iteration; failed work is not committed
	Retries() int                              // how often one iteration is repeated after a failure
	Apart() bool                               // commit its changes without those of earlier failed iterations
	Subject(*Iteration) (line string)          // first line of the commit message; "": the settings' template
}

// Plain are the rules of a prompt that is repeated as it is.
type Plain struct{}

func (Plain) Before(*Iteration) *Outcome            { return nil }
func (Plain) About() string                         { return "" }
func (Plain) Announce(*Iteration) []string          { return nil }
func (Plain) Compose(*Iteration) (string, bool)     { return "", false }
func (Plain) Checks(*Iteration) bool                { return true }
func (Plain) Facts(*Iteration) error                { return nil }
func (Plain) TakeBack(*Iteration) map[string][]byte { return nil }
func (Plain) Fails(*Iteration) Failure              { return Failure{} }
func (Plain) Retries() int                          { return 0 }
func (Plain) Apart() bool                           { return false }
func (Plain) Subject(*Iteration) string             { return "" }

// Failure is why an iteration is repeated, and how the run ends once it has been repeated often enough.
type Failure struct {
	Reason string // "" for none
	Ending journal.Ending
}

// PromptJob is a prompt ready to be repeated.
type PromptJob struct {
	Dir    string // where the agent works
	Kind   string // prompt, plan, build
	Config Config
	Gate   Gate  // nil: the first iteration that exits with status 0 ends the loop
	Rules  Rules // nil: Plain
	Watch  bool  // record what each iteration changes, even if nothing is committed
	Yes    bool  // a person's answer to the gate's question
}

// promptWork runs a prompt: a chain of iterations, each of which waits for the one before.
type promptWork struct {
	*Loop
	job   *PromptJob
	hand  string // text of the handoff file
	large bool   // it was said that the prompt is
}

// begin returns the job as the work of a run.
func (j *PromptJob) begin(l *Loop, opt StartOptions) work {
	l.config, l.dir = &j.Config, j.Dir
	l.fixed, _ = Protected(l.config, l.root, nil)
	if j.Rules == nil {
		j.Rules = Plain{}
	}
	return &promptWork{Loop: l, job: j}
}

// choose resumes the given loop, or starts another.
func (w *promptWork) choose(ctx context.Context, opt StartOptions) (path string, err error) {
	if path = opt.Resume; path == "" {
		if path, err = w.fresh(opt); err != nil {
			return "", err
		}
	}
	if w.who.Loop = w.state.ID; w.who.Loop == "" {
		if s, err := store.LoadState(path); err == nil {
			w.who.Loop = s.ID
		}
	}
	if err := w.lock(ctx, store.LockOf(path)); err != nil {
		return "", err
	}
	if opt.Resume != "" { // read under its lock: another process may have resumed it meanwhile
		st, err := store.LoadState(path)
		if err != nil {
			return "", err
		}
		if st.Completed {
			return "", &StaleError{Path: path}
		}
		if *w.state, w.resumed = *st, true; w.state.ID == "" {
			if w.state.ID, err = w.home.NewID(opt.Command); err != nil {
				return "", err
			}
		}
	}
	w.state.Kind, w.who.Loop = w.job.Kind, w.state.ID
	return path, w.locks[0].Sign(w.who)
}

// replay takes in the journal of an earlier run.
func (w *promptWork) replay(ctx context.Context, events []journal.Event, start *journal.Event) (notes []*journal.Event, err error) {
	if n := int64(len(events)); n > 0 && n < w.state.Seq {
		return nil, &journal.DamageError{Path: w.journal.Path(), Line: len(events) + 1, Err: fmt.Errorf("it ends after event %d, the state file knows %d", n, w.state.Seq)}
	}
	for i := range events {
		w.history.Apply(&events[i])
	}
	if p := w.config.PromptHandoff; p != "" {
		if w.hand, err = readText(w.root, p, store.MaxHandoff); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("handoff: %w", err)
		}
	}
	if err := w.restoreGate(); err != nil {
		return nil, err
	}
	w.raise()
	if len(events) == 0 && w.resumed { // the state file is all there is
		start.Iteration = w.state.Iteration
	}
	note, err := w.holdLoopFile(ctx)
	if note != "" {
		notes = append(notes, w.noted(note))
	}
	return notes, err
}

// noted is a warning that belongs to no single attempt; note records one, as a slow step.
func (w *promptWork) noted(message string) *journal.Event {
	return &journal.Event{Type: journal.Warning, Unit: journal.Unit{Iteration: w.history.Iteration}, Message: message}
}

func (w *promptWork) note(message string) error { return w.tell(w.noted(message)) }

func (w *promptWork) testable() bool { return w.history.Iteration == 0 }

// killed ends an iteration that a killed run left open. It counts for nothing: a ref keeps what its slot holds, and it begins again from what it had
// started from. One whose commit was made is over.
func (w *promptWork) killed(ctx context.Context, ln *lane, open *journal.Event) error {
	u := &unit{lane: ln, it: &Iteration{Number: open.Iteration, Try: open.Attempt, Max: open.Of}, number: open.Attempt, before: gitops.Tree(open.Tree),
		log: w.home.IterationLog(w.state.ID, open.Iteration, open.Attempt)}
	if b := &w.history.Prompt; b.Owed != "" {
		u.before = gitops.Tree(b.Last.Tree)
	}
	end := w.event(journal.IterationFinished, u)
	end.Verdict, end.Reason, end.Tree, end.Detail = journal.Cancelled, journal.Killed, string(u.before), &journal.Detail{Exit: journal.Exit{End: string(agent.Cancelled)}, Client: journal.Client{Log: w.relative(u.log)}}
	work, err := w.holding(ctx, u, open)
	if err != nil {
		return err
	}
	if ln != nil {
		putAside(ln.runner.PromptFile(), w.home.KeptPrompt(w.state.ID, open.Iteration, open.Attempt))
	}
	made := ""
	if w.trunk != nil && w.config.Git.AutoCommit {
		made, err = w.published(ctx, open.Commit)
		if kept, kerr := w.tools.Repo.RefCommit(w.tryRef(u.it)); err == nil && made == "" && kerr == nil && kept != "" {
			if head, herr := w.trunk.head(ctx); herr == nil && w.tools.Repo.LeadsTo(ctx, head, kept) {
				made = head // merged by hand
			}
		}
		if err != nil {
			return gitErr("look for the commit of a killed iteration", err)
		}
	}
	switch {
	case made != "":
		tree, err := w.tools.Repo.CommitTree(made)
		if err != nil {
			return gitErr("read the commit of a killed iteration", err)
		}
		end.Reason, end.Commit, end.Tree = journal.Killed+" after its commit", made, string(tree)
	case work.After != "":
		if end.Ref, err = w.keepTry(ctx, u.it, open.Commit, &work, journal.Killed); err != nil {
			return err
		}
	}
	return w.ends(end)
}

// keepTry keeps what a try of an iteration left that counts for nothing.
func (w *promptWork) keepTry(ctx context.Context, it *Iteration, head string, work *workspace.Result, why string) (ref string, err error) {
	ref = w.tryRef(it)
	parents := slices.DeleteFunc([]string{head, work.Commits}, func(hash string) bool { return hash == "" })
	if _, err := w.tools.Repo.Keep(ctx, ref, work.After, slices.Compact(parents), fmt.Sprintf("loop %s: iteration %d: %s", w.state.ID, it.Number, why)); err != nil {
		return "", gitErr("keep what an iteration left", err)
	}
	return ref, nil
}

// uncommitted ends an iteration whose work could not be committed. It is made again: on top of what somebody committed meanwhile, else from its files.
func (w *promptWork) uncommitted(ctx context.Context, u *unit, why error) error {
	if !isGit(why) {
		return why
	}
	end, res := w.event(journal.IterationFinished, u), &u.res
	ref, err := w.keepTry(ctx, u.it, u.stand.Head.Hash, &res.Work, journal.NotCommitted)
	if err != nil {
		return errors.Join(why, err)
	}
	end.Verdict, end.Reason, end.Ref, end.Tree = journal.Cancelled, journal.NotCommitted, ref, string(res.Work.After)
	if _, meanwhile := errors.AsType[*apartError](why); meanwhile {
		end.Tree = string(u.before)
	}
	end.Detail = &journal.Detail{Exit: journal.Exit{End: string(res.Agent.End), Code: res.Agent.Code, Seconds: max(0, w.tools.Now().Sub(u.started).Seconds())}, Files: journal.Files{Changed: len(res.Work.Changed)}, Client: journal.Client{Log: w.relative(u.log)}}
	return errors.Join(why, w.ends(end))
}

// published is the last commit of this loop that is on the branch, if it was made on top of another one.
func (w *promptWork) published(ctx context.Context, base string) (string, error) {
	tip, err := w.trunk.head(ctx)
	if err != nil {
		return "", err
	}
	last, err := w.tools.Repo.RefCommit(w.trunk.last())
	if err != nil || last == "" || last == base || !w.tools.Repo.LeadsTo(ctx, tip, last) || base != "" && !w.tools.Repo.LeadsTo(ctx, last, base) {
		return "", err
	}
	return last, nil
}

// recover asks the gate before an iteration starts.
func (w *promptWork) recover() (*Outcome, error) { return w.beginGate(w.lanes[0]) }

// iteration returns the unit of an iteration.
func (w *promptWork) iteration(ln *lane, number, try int) *unit {
	b := &w.history.Prompt
	it := &Iteration{Number: number, Try: try, Max: w.config.MaxIterations, Next: joinText(b.Next...), Failing: b.Failing}
	u := &unit{lane: ln, it: it, number: try, log: w.home.IterationLog(w.state.ID, number, try)}
	if ln.slot == nil {
		return u
	}
	it.slot, it.seen = ln.slot, w.tools.Shown
	if w.loose() {
		u.from = w.asItIs
		return u
	}
	u.before = w.trunk.tree // or from what the last iteration left uncommitted, which is part of its work
	if b.Owed != "" {
		u.before = gitops.Tree(b.Last.Tree)
	}
	if u.base = u.before; w.config.Git.AutoCommit && b.Owed != "" {
		u.base, u.whole = gitops.Tree(b.Owed), true
	}
	if b.Base == string(u.base) {
		u.since = b.Since
	}
	return u
}

// asItIs makes a unit start from the user's tree as it is. It is slow.
func (w *promptWork) asItIs(u *unit) error {
	err := w.inTree(w.ctx, func() (err error) {
		if err = w.tools.Repo.FinishArrival(w.ctx); err == nil {
			u.base, err = w.tools.Repo.Snapshot(w.ctx)
		}
		return err
	})
	if err != nil {
		return gitErr("take the working tree as it is", err)
	}
	if u.before = u.base; w.history.Prompt.Base == string(u.base) {
		u.since = w.history.Prompt.Since
	}
	return nil
}

// next starts the next iteration, or the last one again.
func (w *promptWork) next(ln *lane) (*Outcome, error) {
	if out := w.limits(); out != nil {
		return out, nil
	}
	if b := &w.history.Prompt; b.Again {
		return w.start(ln, w.iteration(ln, w.history.Iteration, b.Try+1))
	}
	return w.start(ln, w.iteration(ln, w.history.Iteration+1, 1))
}

func (w *promptWork) sleeps(u *unit, yes bool)               { u.lane.busy = yes }
func (w *promptWork) dropped(_ *unit, out *Outcome) *Outcome { return out }
func (w *promptWork) windUp()                                {}

// limit returns an outcome after too many iterations, or too many crashes in a row.
func (w *promptWork) limit() *Outcome {
	b := &w.history.Prompt
	switch n := w.config.MaxIterations; {
	case w.history.Iteration >= n && !b.Again:
		return &Outcome{Ending: journal.LimitReached, Message: "the limit of " + iterations(n) + " is reached", Crashed: b.Crashes >= n}
	case w.config.Breaker >= 0 && b.Crashes >= cmp.Or(w.config.Breaker, mostCrashes):
		return &Outcome{Ending: journal.AgentUnusable, Message: fmt.Sprintf("the agent failed %d times in a row: %s", b.Crashes, b.Last.Reason)}
	}
	return nil
}

// mostCrashes is how many iterations in a row may crash if the breaker's setting says nothing.
const mostCrashes = 5

func iterations(n int) string {
	if n == 1 {
		return "1 iteration"
	}
	return fmt.Sprintf("%d iterations", n)
}

// begin makes the text for an iteration's agent: the composed one with the handoff and a person's answers.
func (w *promptWork) begin(u *unit, _ bool) (s specbuild.Spec, _ []*journal.Event, _ *Outcome, err error) {
	if out := w.job.Rules.Before(u.it); out != nil { // the rules read the slot's files
		return s, nil, out, nil
	}
	if u.whole && w.job.Rules.Apart() {
		u.base, u.whole, u.moved = u.before, false, true
		return s, nil, nil, nil
	}
	s.Text = w.compose(u.it)
	more := ""
	if hand := strings.TrimSpace(w.hand); hand != "" {
		more = "## Handoff\n\nAn earlier session left this for you:\n\n" + hand
	}
	if answers, err := w.answers(); err != nil {
		return s, nil, nil, err
	} else if len(answers) > 0 {
		more = joinText(more, specbuild.Answered(answers))
	}
	if more != "" {
		s.Text = joinText(s.Text, more) + "\n"
	}
	if n, most := specbuild.Tokens(s.Text), w.config.Scud.Spec.MaxSpecTokens; most > 0 && n > most && !w.large {
		w.large = true
		w.recordWithNext(w.noted(fmt.Sprintf("the prompt has about %d tokens, over --max-spec-tokens %d", n, most)))
	}
	first := w.starts(journal.IterationStarted, u, &s)
	if u.it.base = u.base; u.it.base == "" {
		u.it.base = u.stand.Tree
	}
	first.Tree = string(u.it.base)
	first.Title, first.Lines = w.job.Rules.About(), w.job.Rules.Announce(u.it)
	if c := w.criteria(); c != nil {
		first.Lines = append(first.Lines, c.Before(u.it.Number, u.it.Max, w.costSoFar()))
		if err := w.putLoopFile(w.agentDir(), w.loopFileText(c)); err != nil { // the slot was cleaned
			w.held = append(w.held, &journal.Event{Type: journal.Warning, Unit: journal.Unit{Iteration: w.history.Iteration}, Message: err.Error()})
		}
	}
	return s, []*journal.Event{first}, nil, nil
}

// compose builds the text of an iteration from its rules, or from the settings' prompt.
func (w *promptWork) compose(it *Iteration) string {
	if text, ok := w.job.Rules.Compose(it); ok {
		return text
	}
	c := w.config
	parts := []string{c.Prompt}
	if it.Number > 1 && c.IterationContext {
		parts = append(parts, IterationContext(it.Number, it.Max, c.Promise()))
	}
	if w.job.Gate != nil && !c.Promised() {
		parts = append(parts, w.job.Gate.Instructions())
	}
	if last := w.history.Prompt.Last; last != nil && last.Detail != nil && len(last.Detail.Denied) > 0 {
		parts = append(parts, "What the sandbox refused in the last iteration; only a person can allow that, so do without it:\n- "+strings.Join(last.Detail.Denied, "\n- "))
	}
	if len(parts) == 1 && it.Next == "" {
		return c.Prompt // byte for byte
	}
	return joinText(append(parts, it.Next)...) + "\n"
}

// costSoFar is the loop's cost so far; nil if unknown.
func (w *promptWork) costSoFar() *float64 {
	if w.history.Cost.Runs == 0 {
		return new(float64)
	}
	return w.history.Cost.USD
}

func (w *promptWork) input(u *unit, in *attempt.Input) {
	number := 0 // for an agent that is asked before the first iteration
	if u.it != nil {
		number = u.it.Number
		in.Name = fmt.Sprintf("iteration %d %d", number, u.it.Try)
		if w.job.Rules.Checks(u.it) {
			in.Checks = w.commands(w.checksAt(verify.AtAttempt, verify.AtMerge, verify.AtWave), "", false)
		}
	}
	in.Always = true
	w.askReview(u, in)
	if u.it != nil && len(w.history.Attempts) > 0 { // what earlier iterations did to the checks counts, committed or not
		in.Base = gitops.Tree(w.history.Attempts[0].Before)
	}
	in.Env = append(in.Env, "DESCARTES_ITERATION="+strconv.Itoa(number), "DESCARTES_TAG=", "DESCARTES_TASK_ID=", "SCUD_TASK_ID=", "DESCARTES_WAVE=") // not those of a loop that started this one
	if in.Keep = w.config.ContinueSession; in.Keep && u.with.Backend == w.config.Backend.Type {                                                      // another backend does not know that conversation
		if in.Session = w.history.Prompt.Session; in.Session != "" {
			spent := agent.Tokens(w.history.Prompt.Spent)
			in.Spent = &spent
		}
	}
	if c := w.criteria(); c != nil { // commands bound to criteria outrank the agent's word
		for _, cmd := range c.Commands() {
			in.Checks = append(in.Checks, attempt.Command{Check: verify.Check{Name: cmd.Name, Run: cmd.Run}, Criterion: true})
		}
	}
}

// repair reads what the agent wrote into .loop/state.json, and restores the file from before the iteration, so that it is in no change and no commit,
// whatever git's settings say.
func (w *promptWork) repair(u *unit, who string) ([]string, error) {
	if w.criteria() == nil || u.it == nil {
		return nil, nil
	}
	if who == "attempt" {
		u.it.file = readLoopFile(w.agentDir())
	}
	return w.writeLoopFile(), nil
}

// conclude has the trunk commit what an iteration changed, asks the gate, and records the end.
func (w *promptWork) conclude(u *unit) (*Outcome, error) {
	var out *Outcome
	w.jobs = append(w.jobs, job{begin: func() func() error {
		return func() (err error) {
			out, err = w.finish(u)
			return err
		}
	}, then: func(err error) (*Outcome, error) {
		u.lane.busy = false
		return out, err
	}})
	return nil, nil
}

// finish commits what an iteration changed, asks the gate, records the end, and returns an outcome if the run ends. It is slow; nothing else goes on.
func (w *promptWork) finish(u *unit) (*Outcome, error) {
	ctx := w.ctx
	it, res := u.it, &u.res
	if err := w.checkIteration(ctx, u); err != nil {
		return nil, err
	}
	if v := res.Verify; v != nil && v.Cancelled { // it says nothing about the work
		res.Verify, res.Agent.End, res.Agent.Reason = nil, agent.Cancelled, v.Reason()
	} else if res.Verdict == verify.Cancelled && res.Agent.End == agent.Finished { // neither does a look that was stopped
		res.Agent.End, res.Agent.Reason = agent.Cancelled, res.Reason
	}
	if err := errors.Join(w.countEdits(u), w.withoutOurs(ctx, &res.Work)); err != nil {
		return nil, err
	}
	it.Facts, it.Watched = w.facts(u), res.Work.After != ""
	if out := res.Work.LeftOut; len(out) > 0 {
		if err := w.note(fmt.Sprintf("iteration %d left what no commit can contain: %s", it.Number, workspace.Reasons(out))); err != nil {
			return nil, err
		}
	}
	if err := w.job.Rules.Facts(it); err != nil { // of the slot as the iteration left it
		return nil, err
	}
	if err := w.takeBack(ctx, u); err != nil {
		return nil, err
	}
	if err := w.deliver(ctx, u); err != nil {
		return nil, err
	}
	if err := w.checkpoint(context.WithoutCancel(ctx), u); err != nil {
		return nil, err
	}
	if why := res.Work.TookBack; why != "" {
		if err := w.note(fmt.Sprintf("iteration %d is not taken: %s; it is kept as %s", it.Number, why, it.ref)); err != nil {
			return nil, err
		}
	}
	out, err := w.askGate(u)
	if it.apart != "" && err == nil {
		taking := w.tools.Repo.Taking(context.WithoutCancel(ctx), w.iterationRef(it.Number))
		err = w.note(it.apart + "; to bring it here: " + taking)
		out = &Outcome{Ending: journal.GitRefused, Message: it.apart, Merging: taking}
	}
	putAside(u.lane.runner.PromptFile(), w.home.KeptPrompt(w.state.ID, it.Number, it.Try))
	return out, err
}

// takeBack takes out of the work of a failed iteration what only success may claim.
func (w *promptWork) takeBack(ctx context.Context, u *unit) error {
	work := &u.res.Work
	if work.After == "" || w.fails(u).Reason == "" {
		return nil
	}
	files := map[string][]byte{}
	for name, data := range w.job.Rules.TakeBack(u.it) {
		rel, err := filepath.Rel(w.tools.Repo.Root(), filepath.Join(w.root, name))
		if err != nil || !filepath.IsLocal(rel) {
			return fmt.Errorf("take back %s: it is not below the repository", name)
		}
		if rel = filepath.ToSlash(rel); slices.ContainsFunc(work.Changed, func(c gitops.Change) bool { return c.Path == rel }) { // else it is in no commit anyway
			files[rel] = data
		}
	}
	if len(files) == 0 {
		return nil
	}
	after, err := w.tools.Repo.WithContent(ctx, work.After, files)
	if err != nil {
		return gitErr("take back what a failed iteration claimed", err)
	}
	work.After = after
	return nil
}

// putAside keeps an iteration's prompt under another name. If that fails, a view shows the loop's own prompt.
func putAside(from, to string) {
	if os.Rename(from, to) != nil && os.MkdirAll(filepath.Dir(to), 0o755) == nil {
		_ = os.Rename(from, to)
	}
}

// IterationPrompt returns the text an iteration's agent got, or gets now; if it was not kept, the loop's own prompt.
func IterationPrompt(h store.Home, pool string, s *store.State, a *journal.Attempt) (string, error) {
	path := h.KeptPrompt(s.ID, a.Iteration, a.Number)
	if !a.Over() {
		path = (&attempt.Runner{Dir: h.SlotFiles(pool, s.ID, a.Slot)}).PromptFile()
	}
	b, err := plainfile.Read("", path, store.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s.Config.Prompt, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the prompt of iteration %d: %w", a.Iteration, err)
	}
	return string(b), nil
}

// facts are what the gate sees.
func (w *promptWork) facts(u *unit) gate.Facts {
	res := &u.res
	f := gate.Facts{Iteration: u.it.Number, Final: res.Agent.Final, OutputBytes: res.Agent.Bytes, Now: w.tools.Now(), CostUSD: w.history.Cost.USD,
		Unwatched: res.Work.After == "", State: u.it.file, Edits: u.it.edits}
	for _, ran := range res.Checks {
		if ran.Command.Criterion {
			f.Checks = append(f.Checks, gate.Check{Name: ran.Command.Name, Passed: ran.Result.Passed, Output: ran.Result.Tail})
		}
	}
	for _, c := range res.Work.Changed {
		if !ours(c.Path) {
			f.Changed = append(f.Changed, c.Path)
		}
	}
	if n := &res.Work.Named; n.Changed() {
		f.Changed = append(f.Changed, n.Paths...)
	}
	if res.Agent.End != agent.Finished {
		f.Err = cmp.Or(res.Agent.Reason, string(res.Agent.End))
	}
	if v := res.Verify; v != nil {
		f.Verify = &gate.Check{Name: v.Command, Passed: v.Passed, Output: v.Tail, Why: v.Why}
		if !v.Passed && w.config.Promised() && f.Err == "" {
			f.Err = v.Reason()
		}
	}
	if why := res.Work.TookBack; why != "" {
		f.Err = cmp.Or(f.Err, why)
	}
	if o := res.Objection; o != nil { // as if the verification had failed
		f.Verify = &gate.Check{Name: o.By, Output: o.Detail, Objects: o.Reason}
		if w.config.Promised() && f.Err == "" {
			f.Err = o.Reason
		}
	}
	return f
}

// countEdits counts the edits of each file, for gates that use them. Unreadable files are not counted.
func (w *promptWork) countEdits(u *unit) error {
	if w.criteria() == nil {
		return nil
	}
	var err error
	if u.it.edits, err = render.Edits(u.log); err != nil {
		return w.note(err.Error())
	}
	for path, n := range u.it.edits { // as a person in the project's folder would type it
		rel, err := filepath.Rel(u.it.Seen(w.root), path)
		if err == nil && filepath.IsAbs(path) && filepath.IsLocal(rel) {
			delete(u.it.edits, path)
			u.it.edits[rel] += n
		}
	}
	return nil
}

// ours reports whether a path is .loop or below it, which belongs to the loop and is nobody's work.
func ours(path string) bool { return strings.Contains("/"+path+"/", "/"+loopDir+"/") }

// withoutOurs takes what a criteria loop and its agent write below .loop out of the work.
func (w *promptWork) withoutOurs(ctx context.Context, work *workspace.Result) error {
	if w.criteria() == nil || w.tools.Repo == nil {
		return nil
	}
	var paths []string
	work.Changed = slices.DeleteFunc(slices.Clone(work.Changed), func(c gitops.Change) bool {
		if ours(c.Path) {
			paths = append(paths, c.Path)
		}
		return ours(c.Path)
	})
	var err error
	if work.After, err = w.tools.Repo.TreeWith(ctx, work.After, work.Before, paths); err != nil {
		return gitErr("take the work of an iteration", err)
	}
	return nil
}

// loose reports whether iterations run in a slot and nobody commits them: each starts from the user's tree as it is, and its changes arrive there.
func (w *promptWork) loose() bool { return w.trunk != nil && !w.config.Git.AutoCommit }

// deliver commits what an iteration changed, or brings it into the user's tree.
func (w *promptWork) deliver(ctx context.Context, u *unit) error {
	work := &u.res.Work
	if work.TookBack != "" {
		return nil
	}
	if !w.loose() || work.After == "" || work.After == u.it.base {
		return w.commit(ctx, u)
	}
	why := ""
	gctx, done := attempt.Linger(ctx)
	defer done()
	err := w.inTree(gctx, func() (err error) {
		why, err = w.tools.Repo.Arrive(context.WithoutCancel(ctx), u.it.base, work.After)
		return err
	})
	if why != "" {
		u.it.apart = fmt.Sprintf("your working tree cannot take what iteration %d changed: %s; it is kept as %s", u.it.Number, why, w.iterationRef(u.it.Number))
	}
	if err != nil {
		return gitErr(fmt.Sprintf("bring the work of iteration %d into your tree", u.it.Number), err)
	}
	return nil
}

// tryRef keeps a try of an iteration that counts for nothing.
func (w *promptWork) tryRef(it *Iteration) string {
	return fmt.Sprintf("refs/descartes/%s/iteration-%d-%d", w.state.ID, it.Number, it.Try)
}

func (w *promptWork) iterationRef(n int) string {
	return fmt.Sprintf("refs/descartes/%s/iteration-%d", w.state.ID, n)
}

// commit commits what an iteration changed, and what a dead loop took in and did not commit, and nothing else.
func (w *promptWork) commit(ctx context.Context, u *unit) error {
	work := &u.res.Work
	if !w.config.Git.AutoCommit || work.After == "" {
		return nil
	}
	if w.fails(u).Reason != "" || u.res.Agent.End == agent.Cancelled && len(w.checks()) > 0 {
		return nil // the next iteration continues from it
	}
	if work.After == u.it.base && len(w.trunk.units) == 0 {
		return w.bringNamed(ctx, u)
	}
	if err := w.commitSlot(ctx, u); err != nil {
		return w.uncommitted(context.WithoutCancel(ctx), u, err)
	}
	return nil
}

// commitSlot commits what an iteration changed in its slot, and moves the user's branch.
func (w *promptWork) commitSlot(ctx context.Context, u *unit) error {
	t, gctx := w.trunk, context.WithoutCancel(ctx)
	t.unchecked = u.res.Agent.End != agent.Finished || !u.res.Passed() || !w.job.Rules.Checks(u.it)
	tree := u.res.Work.After
	was, unit := t.tree, iterationUnit(strconv.Itoa(u.it.Number))
	t.kept = w.tryRef(u.it)
	made, err := w.keepIteration(gctx, u, u.it.Number, tree)
	if err != nil {
		return err
	}
	from := t.at(u.it.base)
	if from.tree != u.it.base { // it began with what an earlier iteration left, which is not to be committed
		next, met, err := w.tools.Repo.MergeTrees(gctx, u.it.base, was, tree)
		if err == nil && len(met) > 0 {
			err = t.apart(ctx, &Fate{Conflicts: met})
		}
		if err == nil {
			made, err = w.tools.Repo.Link(gctx, t.tip, gitops.Link{Tree: next, Message: unit, When: w.tools.Now()})
		}
		if err != nil {
			return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), err)
		}
		tree = next
	}
	fates, err := t.fold(gctx, u.lane, []Candidate{{Unit: unit, Subject: unit, From: from.hash, Commit: made, Tree: tree}})
	if err != nil {
		return err
	}
	if fate := &fates[0]; !fate.Accepted() {
		return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), t.apart(ctx, fate))
	}
	if owed := w.history.Prompt.Owed; owed != "" && owed != string(u.it.base) {
		u.it.owed = t.tree
	}
	head, err := t.head(gctx)
	if err != nil {
		return gitErr("read the branch", err)
	}
	own, why, err := w.own(gctx, u, head)
	if err != nil {
		return gitErr("read the commits of an iteration", err)
	}
	crash.Point("before-iteration-commit")
	cctx, over := w.committing(w.config.Deadline)
	defer over()
	done, err := t.commit(cctx, u.lane, gitops.Wave{Message: w.tools.Redact.Text(w.message(u))}, own, nil)
	_, meanwhile := errors.AsType[*apartError](err)
	if err != nil && slices.Contains(t.units, unit) {
		if oerr := t.takeOut(gctx, was, "", unit); oerr != nil {
			return oerr
		}
	}
	switch {
	case err != nil && w.job.Rules.Retries() > 0 && cctx.Err() == nil && !meanwhile:
		u.it.refused = fmt.Sprintf("commit iteration %d: %s", u.it.Number, err)
		return nil
	case err != nil:
		return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), err)
	}
	crash.Point("iteration-committed")
	if tip := u.res.Work.Commits; tip != "" {
		if u.it.own = w.tools.Repo.LeadsTo(gctx, t.on, tip); !u.it.own {
			if err := w.note(fmt.Sprintf("iteration %d: one commit has what the agent committed by itself, which %s", u.it.Number, cmp.Or(why, "is not on top of what was committed meanwhile"))); err != nil {
				return err
			}
		}
	}
	return w.committed(gctx, u, done, nil)
}

// own is the tip of the agent's own commits if they can become the branch's as they are, or "" and why not.
func (w *promptWork) own(ctx context.Context, u *unit, tip string) (own, why string, err error) {
	repo, work := w.tools.Repo, &u.res.Work
	switch {
	case work.Commits == "":
		return "", "", nil
	case tip == "" || tip != u.stand.Head.Hash || !repo.LeadsTo(ctx, work.Commits, tip):
		return "", "is not on top of the branch", nil
	case repo.ByGit() != "":
		return "", "is neither signed nor seen by hooks (" + repo.ByGit() + ")", nil
	}
	paths, text, err := repo.Between(ctx, tip, work.Commits)
	if err != nil {
		return "", "", err
	}
	for _, path := range paths {
		if slices.Contains(work.Left, path) || slices.Contains(work.Named.Paths, path) || repo.Protects(path) || w.criteria() != nil && ours(path) {
			return "", "contains " + path + ", which is no work", nil
		}
	}
	if w.tools.Redact.Text(text) != text {
		return "", "has a secret in a message", nil
	}
	return work.Commits, "", nil
}

// committed records that a commit contains an iteration's work, from which the next one starts.
func (w *promptWork) committed(ctx context.Context, u *unit, made gitops.Commit, err error) error {
	if err != nil {
		return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), err)
	}
	t := w.trunk
	w.say(func() {
		w.recordWithNext(&journal.Event{Type: journal.Integrated, Unit: journal.Unit{Iteration: u.it.Number, Attempt: u.it.Try}, Tree: string(t.tree), Commit: t.on})
	})
	for _, n := range made.Notes {
		if err := w.note(n); err != nil {
			return err
		}
	}
	u.it.commit = cmp.Or(made.Hash, t.on)
	return w.bringNamed(ctx, u)
}

func (w *promptWork) message(u *unit) string {
	subject := w.job.Rules.Subject(u.it)
	if subject == "" {
		n := config.Names{Iteration: u.it.Number, Wave: u.it.Number, Tag: w.state.ID, At: w.tools.Now()}
		subject = n.Expand(cmp.Or(w.config.Git.CommitTemplate, config.DefaultCommitTemplate))
	}
	return fmt.Sprintf("%s\n\nDescartes-Loop: %s\nDescartes-Iteration: %d\n", strings.TrimSpace(oneline.Text(subject)), w.state.ID, u.it.Number)
}

// checkpoint keeps the tree after an iteration as a ref below refs/descartes/<loop>/, the start as iteration-0: if the work is of a class that asks
// for it, the agent committed by itself, or a slot has uncommitted work.
func (w *promptWork) checkpoint(ctx context.Context, u *unit) (err error) {
	c, work := w.criteria(), &u.res.Work
	class := c != nil && c.Class.Checkpoint()
	open := w.trunk != nil && u.it.commit == "" && work.After != u.it.base
	if !class && !open && (work.Commits == "" || u.it.own) || work.After == "" {
		return nil
	}
	if class && u.it.Number == 1 && u.it.Try == 1 {
		if _, err := w.keepIteration(ctx, u, 0, u.it.base); err != nil {
			return err
		}
	}
	if _, err = w.keepIteration(ctx, u, u.it.Number, work.After); err == nil {
		u.it.ref = w.iterationRef(u.it.Number)
	}
	return err
}

// keepIteration keeps a tree as that of an iteration, with the agent's own commits, and returns its commit.
func (w *promptWork) keepIteration(ctx context.Context, u *unit, n int, tree gitops.Tree) (string, error) {
	var parents []string
	from := u.stand.Head.Hash
	if !w.loose() && w.trunk != nil {
		from = w.trunk.at(u.it.base).hash
	}
	for _, p := range []string{from, u.res.Work.Commits} {
		if p != "" && !slices.Contains(parents, p) {
			parents = append(parents, p)
		}
	}
	commit, err := w.tools.Repo.Keep(ctx, w.iterationRef(n), tree, parents, fmt.Sprintf("loop %s: checkpoint of iteration %d", w.state.ID, n))
	if err != nil {
		return "", gitErr("keep a checkpoint", err)
	}
	return commit, nil
}

// askGate asks the gate about an iteration, records its end, and returns an outcome if the run ends.
func (w *promptWork) askGate(u *unit) (*Outcome, error) {
	res := &u.res
	end := w.event(journal.IterationFinished, u)
	end.Reason, end.Tree, end.Commit, end.Ref = res.Agent.Reason, string(res.Work.After), u.it.commit, u.it.ref
	if u.it.commit != "" {
		end.Base = string(u.it.owed)
	}
	if why := res.Work.TookBack; why != "" { // the next iteration does not build on that
		end.Reason, end.Tree = why, string(u.before)
	} else if o, v := res.Objection, res.Verify; o != nil {
		end.Reason = o.Reason
	} else if v != nil && !v.Passed {
		end.Reason = cmp.Or(end.Reason, v.Reason())
	}
	end.Detail = &journal.Detail{Exit: journal.Exit{End: string(res.Agent.End), Cause: string(res.Agent.Cause), Code: res.Agent.Code, Signal: res.Agent.Signal, Seconds: max(0, w.tools.Now().Sub(u.started).Seconds())}, Client: journal.Client{Backend: u.with.Backend, Model: u.with.Model, Log: w.relative(u.log)},
		Files: journal.Files{Changed: len(res.Work.Changed), Left: res.Work.Left}, Speech: journal.Speech{Words: store.Preview(res.Agent.Final)}}
	troubled := res.Agent.End != agent.Finished || !res.Passed()
	end.Detail.Passed, end.Detail.Looks = res.Verify != nil && res.Passed(), looked(res)
	if denied := w.tools.denied(w.config, w.root, nil, u.log); troubled {
		end.Detail.Denied, end.Detail.Output = denied, output(res)
	}
	for _, c := range res.Work.Changed[:min(len(res.Work.Changed), maxChanged)] {
		end.Paths = append(end.Paths, c.Path)
	}
	var err error
	if w.say(func() { end.Detail.Until, err = w.backoff.after(u.with, res.Agent, res.Agent.Reason, w.teller(u)) }); err != nil {
		return nil, err
	}
	switch res.Agent.End {
	case agent.Limited: // does not count as an iteration
		end.Verdict, end.Next = journal.Limited, u.it.Next
		return w.recordIteration(u, end)
	case agent.Cancelled:
		end.Verdict = journal.Cancelled
		return w.stop.outcome(), w.ends(end)
	case agent.Refused:
		end.Verdict = journal.Retry
		return w.recordIteration(u, end)
	}
	if troubled {
		if why := w.noRoom(); why != "" { // a full disk says nothing about the agent
			end.Verdict = journal.Cancelled
			return &Outcome{Ending: journal.DiskFull, Message: why}, w.ends(end)
		}
	}
	if note := w.tools.Withheld.Missed(w.missing, res.Agent, res.Verify); note != "" {
		if err := w.note(note); err != nil {
			return nil, err
		}
	}
	question := w.question(u)
	if question == "" {
		if out, done, err := w.repeats(u, end); done || err != nil {
			return out, err
		}
	}
	d, err := w.decide(u, end)
	if err != nil {
		return nil, err
	}
	if d.Kind == gate.Continue && question != "" {
		end.Detail.Question, end.Message = question, verify.Asks+oneline.Text(question)
		who := "the agent"
		if o := u.res.Objection; o != nil {
			who = "the " + o.By
		}
		return &Outcome{Ending: journal.GateAsks, Message: who + " asks: " + oneline.Text(question), Question: question}, w.ends(end)
	}
	if err := w.ends(end); err != nil {
		return nil, err
	}
	for _, why := range w.writeLoopFile() {
		if err := w.note(why); err != nil {
			return nil, err
		}
	}
	return w.answered(d)
}

// maxChanged limits the changed paths of an iteration in the journal.
const maxChanged = 100

// question returns the agent's open question: it asks with TASK_QUESTION; or it ended well, claimed nothing and changed nothing, so running it again is
// useless. If changes are not recorded, it has to ask the latter twice in a row.
func (w *promptWork) question(u *unit) string {
	if o := u.res.Objection; o != nil && o.Ask {
		return tail(o.Question(), maxWords)
	}
	r, work := &u.res.Agent, &u.res.Work
	done := len(work.Changed) > 0 || work.Named.Changed() || work.After == "" && w.history.Prompt.Asked < 2
	if r.End != agent.Finished || r.Complete || done && r.Blocked == "" {
		return ""
	}
	return tail(r.Question, maxWords)
}

// ends records an iteration's end and saves the state.
func (w *promptWork) ends(end *journal.Event) error {
	if err := w.tell(end); err != nil {
		return err
	}
	return w.saveFiles()
}

// recordIteration records an iteration's end, and returns an outcome if its provider ends the run.
func (w *promptWork) recordIteration(u *unit, end *journal.Event) (*Outcome, error) {
	if err := w.ends(end); err != nil {
		return nil, err
	}
	var out *Outcome
	var err error
	w.say(func() { out, err = w.backoff.over(w.config.Choices(nil), w.teller(u)) })
	return out, err
}

// repeats repeats an iteration under the same number if the provider had a passing fault, or if its rules call it failed. done says that the
// iteration ends here.
func (w *promptWork) repeats(u *unit, end *journal.Event) (_ *Outcome, done bool, _ error) {
	f, most, failed := w.fails(u), w.job.Rules.Retries(), w.history.Prompt.Failed
	if end.Detail.Transient() { // the backoff decides how often
		f.Reason, most = u.res.Agent.Reason, math.MaxInt
	}
	if f.Reason == "" || failed >= most && f.Ending == "" {
		return nil, false, nil
	}
	refused := ""
	if u.it.refused != "" {
		refused = "The commit of this iteration's last try was refused. Fix what it says:\n\n" + tail(u.it.refused, maxWords) + "\n"
	}
	end.Verdict, end.Reason, end.Next = journal.Retry, f.Reason, joinText(joinText(w.history.Prompt.Kept...), w.failureText(u), refused)
	out, err := w.recordIteration(u, end)
	if out == nil && err == nil && failed >= most {
		out = &Outcome{Ending: f.Ending, Message: fmt.Sprintf("iteration %d failed %d times: %s", u.it.Number, most+1, f.Reason)}
	}
	return out, true, err
}

// fails is the rules' verdict on an iteration, or on git's rejection of its commit.
func (w *promptWork) fails(u *unit) Failure {
	if u.it.refused != "" {
		return Failure{u.it.refused, journal.GitRefused}
	}
	return w.job.Rules.Fails(u.it)
}

// failureText tells the next iteration's agent how the verification failed, or what a look objects to.
func (w *promptWork) failureText(u *unit) string {
	v := u.res.Verify
	if why := u.res.Work.TookBack; why != "" {
		return "The changes of the last iteration were not taken: " + why + "\n"
	}
	if o := u.res.Objection; o != nil {
		text := fmt.Sprintf("After the last iteration the %s objected: %s", o.By, o.Reason)
		if o.Detail == "" {
			return text + "\n"
		}
		return text + ":\n\n" + fenced(o.Detail)
	}
	if v == nil || v.Passed {
		return ""
	}
	return fmt.Sprintf("After the last iteration `%s` did not pass (%s). The end of its output:\n\n%s", v.Command, v.Reason(), fenced(v.Tail))
}

// fenced returns the end of a text as a block of code.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("%s\n%s\n%s\n", fence, strings.TrimRight(tail(text, maxWords), "\n"), fence)
}

// joinText joins parts of a prompt with blank lines.
func joinText(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimRight(p, "\n"); strings.TrimSpace(p) != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n")
}

// endRun says where a slot's uncommitted work is, and runs the checks for the end if the gate, or the promise, ended the run.
func (w *promptWork) endRun(out *Outcome, err error) error {
	if b := &w.history.Prompt; err == nil && w.trunk != nil && !w.loose() && b.Owed != "" && b.Open == nil && b.Last.Ref != "" {
		err = w.note("what was done since the last commit was not verified and is in no commit: it is kept as " + b.Last.Ref + ", and resuming the loop continues from it")
	}
	if err != nil || !out.Ending.Final() {
		return err
	}
	return w.lastChecks(out)
}

func (w *promptWork) putBack(context.Context, *Fate, string, []string) (bool, error) {
	return false, nil
}

// finished names the ending in the words of a prompt loop's state file, which has one for all errors.
func (w *promptWork) finished(out *Outcome) (e *journal.Event, path, handoff string, err error) {
	word := out.Ending
	if word == journal.AgentUnusable || word == journal.GitRefused {
		word = journal.OwnError
	}
	if path = w.config.PromptHandoff; path != "" && !out.Ending.Final() {
		handoff = w.handoff(out)
	}
	h := w.history
	e = w.end(out, string(word), journal.Totals{Iterations: new(h.Iteration), Attempts: len(h.Attempts), Commits: h.Prompt.Commits})
	e.Iteration = h.Iteration
	return e, path, handoff, w.endLoopFile(out)
}

// handoff is what the next session needs to continue the prompt.
func (w *promptWork) handoff(out *Outcome) string {
	var b strings.Builder
	p := &w.history.Prompt
	fmt.Fprintf(&b, "## Where loop %s stopped\n\n", w.state.ID)
	fmt.Fprintf(&b, "It stopped on %s after %s: %s.\n", w.tools.Now().Format(time.RFC1123Z), iterations(w.history.Iteration), oneline.Text(cmp.Or(out.Message, out.Ending.Words())))
	if e := p.Last; e != nil {
		fmt.Fprintf(&b, "\n### Iteration %d\n\n", e.Iteration)
		if text := oneline.Text(cmp.Or(e.Reason, e.Message)); text != "" {
			fmt.Fprintf(&b, "- %s\n", text)
		}
		if len(e.Paths) > 0 {
			fmt.Fprintf(&b, "- it changed %s\n", oneline.Text(strings.Join(e.Paths[:min(maxHandoffTasks, len(e.Paths))], ", ")))
		}
		if words := lastWords(&journal.Detail{Speech: journal.Speech{Words: p.Words}}); words != "" {
			fmt.Fprintf(&b, "- its agent's last words: %s\n", words)
		}
		if next := strings.TrimSpace(e.Next); next != "" {
			fmt.Fprintf(&b, "\n%s\n", tail(next, maxWords))
		}
	}
	fmt.Fprintf(&b, "\n### Continue\n\n    descartes resume --name %s%s\n    descartes answer --name %s --edit     # tell the next iteration's agent something\n",
		w.state.ID, more(out, w.config, w.config.MaxIterations), w.state.ID)
	return b.String()
}

// IterationContext tells the agent of a later iteration where it stands. Without a promise it mentions none.
func IterationContext(iteration, most int, promise string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nITERATION CONTEXT:\n- This is iteration %d of %d\n", iteration, most)
	b.WriteString("- Your previous work persists in files and git history\n- Review what you've done and continue improving\n")
	if promise != "" {
		fmt.Fprintf(&b, "- Output <promise>%s</promise> when the task is completely finished\n", promise)
	}
	b.WriteString("---\n")
	return b.String()
}

// MostBeside is the largest size, in bytes, of what is added to the settings' prompt: where the iteration stands, and how the verification failed.
// What a gate adds has no limit.
func MostBeside(c Config) int {
	n := 2
	if c.IterationContext {
		n += len(IterationContext(c.MaxIterations, c.MaxIterations, c.CompletionPromise)) + 2
	}
	longest := 0
	for _, one := range c.ChecksOf(false) {
		longest = max(longest, len(one.Run)+maxWords+256)
	}
	n += longest
	if c.Confined() {
		n += attempt.MaxDenied*(attempt.MaxDeniedLine+4) + 128
	}
	return n
}
