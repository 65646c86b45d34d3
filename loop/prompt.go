package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"descartes/agent"
	"descartes/agent/render"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

func (Plain) Before(*Iteration) *Outcome { return nil }

func (Plain) About() string { return "" }

func (Plain) Announce(*Iteration) []string { return nil }

func (Plain) Compose(*Iteration) (string, bool) { return "", false }

func (Plain) Checks(*Iteration) bool { return true }

func (Plain) Own(*Iteration) []gate.Item { return nil }

func (Plain) Facts(*Iteration) error { return nil }

func (Plain) Takes(string) bool { return true }

func (Plain) TakeBack(*Iteration) map[string][]byte { return nil }

func (Plain) Fails(*Iteration) Failure { return Failure{} }

func (Plain) Retries() int { return 0 }

func (Plain) Apart() bool { return false }

func (Plain) Subject(*Iteration) string { return "" }

// promptWork runs a prompt: a chain of iterations, each of which waits for the one before.
type promptWork struct {
	run      *Loop
	job      *PromptJob
	gate     *gating
	delivery *delivery
	hand     string // text of the handoff file
	large    bool   // it was said that the prompt is
}

// begin returns the job as the work of a run.
func (j *PromptJob) begin(l *Loop, opt StartOptions) work {
	l.config, l.dir = &j.Config, j.Dir
	l.fixed, _ = source.Protected(l.config, l.root, nil)
	if j.Rules == nil {
		j.Rules = Plain{}
	}
	w := &promptWork{run: l, job: j}
	w.gate, w.delivery = &gating{l, w}, &delivery{l, w}
	return w
}

// choose resumes the given loop, or starts another.
func (j *PromptJob) choose(ctx context.Context, l *Loop, opt StartOptions) (path string, err error) {
	if path = opt.Resume; path == "" {
		if path, err = fresh(l, opt); err != nil {
			return "", err
		}
	}
	if l.who.Loop = l.state.ID; l.who.Loop == "" {
		if s, err := store.LoadState(path); err == nil {
			l.who.Loop = s.ID
		}
	}
	if err := l.locks.take(ctx, store.LockOf(path)); err != nil {
		return "", err
	}
	if opt.Resume != "" { // read under its lock: another process may have resumed it meanwhile
		st, err := l.home.Load(path)
		if err != nil {
			return "", err
		}
		if st.Completed {
			return "", &source.StaleError{Path: path}
		}
		if *l.state, l.resumed = *st, true; l.state.ID == "" {
			if l.state.ID, err = l.home.NewID(opt.Command); err != nil {
				return "", err
			}
		}
	}
	l.state.Kind, l.who.Loop = j.Kind, l.state.ID
	return path, l.locks.all[0].Sign(l.who)
}

// replay takes in the journal of an earlier run.
func (w *promptWork) replay(ctx context.Context, events []journal.Event, start *journal.Event) (notes []*journal.Event,
	err error) {
	for i := range events {
		w.run.history.Apply(&events[i])
	}
	if p := w.run.config.PromptHandoff; p != "" {
		if w.hand, err = source.ReadText(w.run.root, p, store.MaxHandoff); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("handoff: %w", err)
		}
	}
	if err := w.gate.restore(); err != nil {
		return nil, err
	}
	w.gate.raise()
	if len(events) == 0 && w.run.resumed { // the state file is all there is
		start.Iteration = w.run.state.Iteration
	}
	note, err := w.gate.holdLoopFile(ctx)
	if note != "" {
		notes = append(notes, w.noted(note))
	}
	return notes, err
}

// noted is a warning that belongs to no single attempt; note records one, as a slow step.
func (w *promptWork) noted(message string) *journal.Event {
	return &journal.Event{Type: journal.Warning, Unit: journal.Unit{Iteration: w.run.history.Iteration},
		Message: message}
}

func (w *promptWork) note(message string) error { return w.run.tell(w.noted(message)) }

// killed ends an iteration that a killed run left open. It counts for nothing: a ref keeps what its slot holds, and it
// begins again from what it had started from. One whose commit was made is over.
func (w *promptWork) killed(ctx context.Context, ln *lane, open *journal.Event) error {
	u := &unit{lane: ln, it: &Iteration{Number: open.Iteration, Try: open.Attempt, Max: open.Of}, number: open.Attempt,
		before: gitops.Tree(open.Tree),
		log:    w.run.home.IterationLog(w.run.state.ID, open.Iteration, open.Attempt)}
	if b := &w.run.history.Prompt; b.Owed != "" {
		u.before = gitops.Tree(b.Last.Tree)
	}
	end := w.run.event(journal.IterationFinished, u)
	end.Verdict, end.Reason, end.Tree, end.Detail = journal.Cancelled, journal.Killed, string(u.before),
		&journal.Detail{Exit: journal.Exit{End: string(agent.Cancelled)},
			Client: journal.Client{Log: w.run.relative(u.log)}}
	work, err := w.run.worker.holding(ctx, u, open)
	if err != nil {
		return err
	}
	if ln != nil {
		putAside(ln.runner.PromptFile(), w.run.home.KeptPrompt(w.run.state.ID, open.Iteration, open.Attempt))
	}
	made := ""
	if w.run.trunk != nil && w.run.config.Git.AutoCommit {
		made, err = w.delivery.published(ctx, open.Commit)
		if kept, kerr := w.run.tools.Repo.RefCommit(w.delivery.tryRef(u.it)); err == nil && made == "" &&
			kerr == nil && kept != "" {
			if head, herr := w.run.trunk.head(ctx); herr == nil && w.run.tools.Repo.LeadsTo(ctx, head, kept) {
				made = head // merged by hand
			}
		}
		if err == nil && made == "" {
			err = w.run.trunk.drop(ctx, trunk.IterationUnit(strconv.Itoa(open.Iteration)))
		}
		if err != nil {
			return gitErr("look for the commit of a killed iteration", err)
		}
	}
	switch {
	case made != "":
		tree, err := w.run.tools.Repo.CommitTree(made)
		if err != nil {
			return gitErr("read the commit of a killed iteration", err)
		}
		end.Reason, end.Commit, end.Tree = journal.Killed+" after its commit", made, string(tree)
	case work.After != "":
		if end.Ref, err = w.delivery.keepTry(ctx, u.it, open.Commit, &work, journal.Killed); err != nil {
			return err
		}
	}
	return w.gate.ends(end)
}

// recover asks the gate before an iteration starts.
func (w *promptWork) recover() (*Outcome, error) { return w.gate.begin(w.run.lanes.all[0]) }

// iteration returns the unit of an iteration.
func (w *promptWork) iteration(ln *lane, number, try int) *unit {
	b := &w.run.history.Prompt
	it := &Iteration{Number: number, Try: try, Max: w.run.config.MaxIterations, Next: JoinText(b.Next...),
		Failing: b.Failing}
	u := &unit{lane: ln, it: it, number: try, log: w.run.home.IterationLog(w.run.state.ID, number, try)}
	if ln.slot == nil {
		return u
	}
	it.Slot, it.Mounted = ln.slot, w.run.tools.Shown
	if w.delivery.loose() {
		u.from = w.asItIs
		return u
	}
	u.before = w.run.trunk.Tree // or from what the last iteration left uncommitted, which is part of its work
	if b.Owed != "" {
		u.before = gitops.Tree(b.Last.Tree)
	}
	if u.base = u.before; w.run.config.Git.AutoCommit && b.Owed != "" {
		u.base, u.whole = gitops.Tree(b.Owed), true
	}
	if b.Base == string(u.base) {
		u.since = b.Since
	}
	return u
}

// asItIs makes a unit start from the user's tree as it is. It is slow.
func (w *promptWork) asItIs(u *unit) error {
	err := w.run.locks.inTree(w.run.ctx, func() (err error) {
		if err = w.run.tools.Repo.FinishArrival(w.run.ctx); err == nil {
			u.base, err = w.run.tools.Repo.Snapshot(w.run.ctx)
		}
		return err
	})
	if err != nil {
		return gitErr("take the working tree as it is", err)
	}
	if u.before = u.base; w.run.history.Prompt.Base == string(u.base) {
		u.since = w.run.history.Prompt.Since
	}
	return nil
}

// next starts the next iteration, or the last one again.
func (w *promptWork) next(ln *lane) (*Outcome, error) {
	if out := w.run.limits(); out != nil {
		return out, nil
	}
	if b := &w.run.history.Prompt; b.Again {
		return w.run.start(ln, w.iteration(ln, w.run.history.Iteration, b.Try+1))
	}
	return w.run.start(ln, w.iteration(ln, w.run.history.Iteration+1, 1))
}

func (w *promptWork) windUp() {}

// limit returns an outcome after too many iterations, or too many crashes in a row.
func (w *promptWork) limit() *Outcome {
	b := &w.run.history.Prompt
	switch n := w.run.config.MaxIterations; {
	case w.run.history.Iteration >= n && !b.Again:
		return &Outcome{Ending: journal.LimitReached, Message: "the limit of " + iterations(n) + " is reached",
			Crashed: b.Crashes >= n}
	case w.run.config.Breaker >= 0 && b.Crashes >= cmp.Or(w.run.config.Breaker, mostCrashes):
		return &Outcome{Ending: journal.AgentUnusable, Message: fmt.Sprintf("the agent failed %d times in a row: %s",
			b.Crashes, b.Last.Reason)}
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
	u.it.Began = w.was(u)
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
		more = JoinText(more, specbuild.Answered(answers))
	}
	if more != "" {
		s.Text = JoinText(s.Text, more) + "\n"
	}
	if n, most := specbuild.Tokens(s.Text), w.run.config.Scud.Spec.MaxSpecTokens; most > 0 && n > most && !w.large {
		w.large = true
		w.run.recordWithNext(w.noted(fmt.Sprintf("the prompt has about %d tokens, over --max-spec-tokens %d", n,
			most)))
	}
	first := w.run.worker.starts(journal.IterationStarted, u, &s)
	if u.it.base = u.base; u.it.base == "" {
		u.it.base = u.stand.Tree
	}
	first.Tree = string(u.it.base)
	first.Title, first.Lines = w.job.Rules.About(), w.job.Rules.Announce(u.it)
	if c := w.gate.criteria(); c != nil {
		first.Lines = append(first.Lines, c.Before(u.it.Number, u.it.Max, w.costSoFar()))
		if err := PutLoopFile(w.run.tools.FS, w.gate.agentDir(), w.gate.loopFileText(c)); err != nil { // the slot was cleaned
			w.run.held = append(w.run.held, &journal.Event{Type: journal.Warning,
				Unit: journal.Unit{Iteration: w.run.history.Iteration}, Message: err.Error()})
		}
	}
	return s, []*journal.Event{first}, nil, nil
}

// compose builds the text of an iteration from its rules, or from the settings' prompt.
func (w *promptWork) compose(it *Iteration) string {
	if text, ok := w.job.Rules.Compose(it); ok {
		return text
	}
	c := w.run.config
	parts := []string{c.Prompt}
	if it.Number > 1 && c.IterationContext {
		parts = append(parts, IterationContext(it.Number, it.Max, c.Promise()))
	}
	if w.job.Gate != nil && !c.Promised() {
		parts = append(parts, w.job.Gate.Instructions())
	}
	if last := w.run.history.Prompt.Last; last != nil && last.Detail != nil && len(last.Detail.Denied) > 0 {
		parts = append(parts, "What the sandbox refused in the last iteration; only a person can allow that, so do without it:\n- "+strings.Join(last.Detail.Denied, "\n- "))
	}
	if len(parts) == 1 && it.Next == "" {
		return c.Prompt // byte for byte
	}
	return JoinText(append(parts, it.Next)...) + "\n"
}

// costSoFar is the loop's cost so far; nil if unknown.
func (w *promptWork) costSoFar() *float64 {
	if w.run.history.Cost.Runs == 0 {
		return new(float64)
	}
	return w.run.history.Cost.USD
}

func (w *promptWork) input(u *unit, in *attempt.Input) {
	number := 0 // for an agent that is asked before the first iteration
	if u.it != nil {
		number = u.it.Number
		in.Name = fmt.Sprintf("iteration %d %d", number, u.it.Try)
		if w.job.Rules.Checks(u.it) {
			in.Checks = w.run.checks.commands(w.run.checks.at(verify.AtAttempt, verify.AtMerge, verify.AtWave), "",
				false)
			for _, item := range w.job.Rules.Own(u.it) {
				in.Checks = append(in.Checks, ownCheck(&tasks.Task{ID: item.Text, Verify: item.Verify})...)
			}
		}
	}
	in.Always = true
	w.askReview(u, in)
	// what earlier iterations did to the checks counts, committed or not
	if u.it != nil && len(w.run.history.Attempts) > 0 {
		in.Base = w.first()
	}
	// not those of a loop that started this one
	in.Env = append(in.Env, "DESCARTES_ITERATION="+strconv.Itoa(number), "DESCARTES_TAG=", "DESCARTES_TASK_ID=",
		"SCUD_TASK_ID=", "DESCARTES_WAVE=")
	// another backend does not know that conversation
	if in.Keep = w.run.config.ContinueSession; in.Keep && u.with.Backend == w.run.config.Backend.Type {
		if in.Session = w.run.history.Prompt.Session; in.Session != "" {
			spent := agent.Tokens(w.run.history.Prompt.Spent)
			in.Spent = &spent
		}
	}
	if c := w.gate.criteria(); c != nil { // commands bound to criteria outrank the agent's word
		for _, cmd := range c.Commands() {
			in.Checks = append(in.Checks, attempt.Command{Check: verify.Check{Name: cmd.Name, Run: cmd.Run},
				Criterion: true})
		}
	}
}

// first is the tree that the loop began with; "" before its first iteration.
func (w *promptWork) first() gitops.Tree {
	if list := w.run.history.Attempts; len(list) > 0 {
		return gitops.Tree(list[0].Before)
	}
	return ""
}

// was reads files as they were when the loop began; nil without git.
func (w *promptWork) was(u *unit) func(string) []byte {
	tree := cmp.Or(w.first(), u.before)
	if tree == "" || w.run.tools.Repo == nil {
		return nil
	}
	return func(name string) []byte {
		c, err := w.run.tools.Repo.Contents(tree)
		if err != nil {
			return nil
		}
		f, err := c.File(name, store.MaxHandoff)
		if err != nil || f == nil {
			return nil
		}
		return f.Data
	}
}

// repair reads what the agent wrote into .loop/state.json, and restores the file from before the iteration, so that it
// is in no change and no commit, whatever git's settings say.
func (w *promptWork) repair(u *unit, who string) ([]string, error) {
	if w.gate.criteria() == nil || u.it == nil {
		return nil, nil
	}
	if who == "attempt" {
		u.it.file = ReadLoopFile(w.gate.agentDir())
	}
	return w.gate.writeLoopFile(), nil
}

// conclude has the trunk commit what an iteration changed, asks the gate, and records the end.
func (w *promptWork) conclude(u *unit) (*Outcome, error) {
	if u.idle() {
		u.leave()
		return u.over, u.err
	}
	var out *Outcome
	w.run.jobs = append(w.run.jobs, job{begin: func() func() error {
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

// finish commits what an iteration changed, asks the gate, records the end, and returns an outcome if the run ends. It
// is slow; nothing else goes on.
func (w *promptWork) finish(u *unit) (*Outcome, error) {
	ctx := w.run.ctx
	it, res := u.it, &u.res
	if err := w.delivery.check(ctx, u); err != nil {
		return nil, err
	}
	if v := res.Verify; v != nil && v.Cancelled { // it says nothing about the work
		res.Verify, res.Agent.End, res.Agent.Reason = nil, agent.Cancelled, v.Reason()
	} else if res.Verdict == verify.Cancelled && res.Agent.End == agent.Finished { // neither does a look that was stopped
		res.Agent.End, res.Agent.Reason = agent.Cancelled, res.Reason
	}
	if err := errors.Join(w.countEdits(u), w.delivery.withoutOurs(ctx, u)); err != nil {
		return nil, err
	}
	it.Facts, it.Watched = w.facts(u), res.Work.After != ""
	it.Unfit = res.Unfit()
	if out := res.Work.LeftOut; len(out) > 0 {
		if err := w.note(fmt.Sprintf("iteration %d left what no commit can contain: %s", it.Number,
			workspace.Reasons(out))); err != nil {
			return nil, err
		}
	}
	if err := w.job.Rules.Facts(it); err != nil { // of the slot as the iteration left it
		return nil, err
	}
	if err := w.delivery.takeBack(ctx, u); err != nil {
		return nil, err
	}
	if err := w.delivery.deliver(ctx, u); err != nil {
		return nil, err
	}
	if err := w.delivery.checkpoint(context.WithoutCancel(ctx), u); err != nil {
		return nil, err
	}
	if why := res.Work.TookBack; why != "" {
		if err := w.note(fmt.Sprintf("iteration %d is not taken: %s; it is kept as %s", it.Number, why,
			it.ref)); err != nil {
			return nil, err
		}
	}
	out, err := w.gate.judge(u)
	if it.apart != "" && err == nil {
		taking := w.run.tools.Repo.Taking(context.WithoutCancel(ctx), w.delivery.iterationRef(it.Number))
		err = w.note(it.apart + "; to bring it here: " + taking)
		out = &Outcome{Ending: journal.GitRefused, Message: it.apart, Merging: taking}
	}
	putAside(u.lane.runner.PromptFile(), w.run.home.KeptPrompt(w.run.state.ID, it.Number, it.Try))
	return out, err
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
	if g, ok := Deciding(w.job.Gate).(blockable); ok && res.Agent.End == agent.Finished {
		res.Agent.Blocked = cmp.Or(res.Agent.Blocked, g.Blocked(res.Agent.Final))
	}
	f := gate.Facts{Iteration: u.it.Number, Final: res.Agent.Final, Blocked: res.Agent.Blocked, OutputBytes: res.Agent.Bytes,
		Now: w.run.tools.Now(), CostUSD: w.run.history.Cost.USD,
		Unwatched: res.Work.After == "", State: u.it.file, Edits: u.it.edits}
	for _, ran := range res.Checks {
		if ran.Command.Criterion {
			f.Checks = append(f.Checks, gate.Check{Name: ran.Command.Name, Passed: ran.Result.Passed,
				Output: ran.Result.Tail})
		}
	}
	for _, c := range res.Work.Changed {
		if !OfLoopFile(c.Path) {
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
		if !v.Passed && w.run.config.Promised() && f.Err == "" {
			f.Err = v.Reason()
		}
	}
	if why := res.Work.TookBack; why != "" {
		f.Err = cmp.Or(f.Err, why)
	}
	if o := res.Objection; o != nil { // as if the verification had failed
		f.Verify = &gate.Check{Name: o.By, Output: o.Detail, Objects: o.Reason}
		if w.run.config.Promised() && f.Err == "" {
			f.Err = o.Reason
		}
	}
	return f
}

// countEdits counts the edits of each file, for gates that use them. Unreadable files are not counted.
func (w *promptWork) countEdits(u *unit) error {
	if w.gate.criteria() == nil {
		return nil
	}
	var err error
	if u.it.edits, err = render.Edits(u.log); err != nil {
		return w.note(err.Error())
	}
	for path, n := range u.it.edits { // as a person in the project's folder would type it
		rel, err := filepath.Rel(u.it.Seen(w.run.root), path)
		if err == nil && filepath.IsAbs(path) && filepath.IsLocal(rel) {
			delete(u.it.edits, path)
			u.it.edits[rel] += n
		}
	}
	return nil
}

// OfLoopFile reports whether a path is .loop or below it, which belongs to the loop and is nobody's work.
func OfLoopFile(path string) bool { return strings.Contains("/"+path+"/", "/"+loopDir+"/") }

// judge asks the gate about an iteration, records its end, and returns an outcome if the run ends.
func (w *gating) judge(u *unit) (*Outcome, error) {
	res := &u.res
	end, troubled := w.ended(u)
	var err error
	if w.run.say(func() {
		end.Detail.Until, err = w.run.backoff.after(u.with, res.Agent, res.Agent.Reason, w.run.worker.teller(u))
	}); err != nil {
		return nil, err
	}
	switch res.Agent.End {
	case agent.Limited: // does not count as an iteration
		end.Verdict, end.Next = journal.Limited, u.it.Next
		return w.record(u, end)
	case agent.Cancelled:
		end.Verdict = journal.Cancelled
		return w.run.stop.outcome(), w.ends(end)
	case agent.Refused:
		end.Verdict = journal.Retry
		return w.record(u, end)
	}
	if troubled {
		if why := w.run.lanes.noRoom(); why != "" { // a full disk says nothing about the agent
			end.Verdict = journal.Cancelled
			return &Outcome{Ending: journal.DiskFull, Message: why}, w.ends(end)
		}
	}
	if note := w.run.tools.Withheld.Missed(w.run.worker.missing, res.Agent, res.Verify); note != "" {
		if err := w.prompt.note(note); err != nil {
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
		return &Outcome{Ending: journal.GateAsks, Message: who + " asks: " + oneline.Text(question),
			Question: question}, w.ends(end)
	}
	if err := w.ends(end); err != nil {
		return nil, err
	}
	for _, why := range w.writeLoopFile() {
		if err := w.prompt.note(why); err != nil {
			return nil, err
		}
	}
	return w.answered(d)
}

// ended is the event of an iteration's end, as far as the gate has no part in it. troubled says that its agent or a
// check failed.
func (w *gating) ended(u *unit) (end *journal.Event, troubled bool) {
	res := &u.res
	end = w.run.worker.ends(u)
	if end.Commit, end.Ref = u.it.commit, u.it.ref; end.Commit != "" {
		end.Base = string(u.it.owed)
	}
	end.Reason = res.Agent.Reason
	switch o, v := res.Objection, res.Verify; {
	case res.Work.TookBack != "":
		end.Reason = res.Work.TookBack
	case o != nil:
		end.Reason = o.Reason
	case v != nil && !v.Passed:
		end.Reason = cmp.Or(end.Reason, v.Reason())
	}
	end.Detail.Passed, end.Detail.Words = res.Verify != nil && res.Passed(), store.Preview(res.Agent.Final)
	troubled = res.Agent.End != agent.Finished || !res.Passed()
	if denied := w.run.tools.Denied(w.run.config, w.run.root, nil, u.log); troubled {
		end.Detail.Denied, end.Detail.Output = denied, Output(res)
	}
	for _, c := range res.Work.Changed[:min(len(res.Work.Changed), MaxChanged)] {
		end.Paths = append(end.Paths, c.Path)
	}
	return end, troubled
}

// MaxChanged limits the changed paths of an iteration in the journal.
const MaxChanged = 100

// question returns the agent's open question: it asks with TASK_QUESTION; or it ended well, claimed nothing and
// changed nothing, so running it again is useless. If changes are not recorded, it has to ask the latter twice in a
// row.
func (w *gating) question(u *unit) string {
	if o := u.res.Objection; o != nil && o.Ask {
		return Tail(o.Question(), MaxWords)
	}
	r, work := &u.res.Agent, &u.res.Work
	done := len(work.Changed) > 0 || work.Named.Changed() || work.After == "" && w.run.history.Prompt.Asked < 2
	if r.End != agent.Finished || r.Complete || done && r.Blocked == "" {
		return ""
	}
	return Tail(r.Question, MaxWords)
}

// ends records an iteration's end and saves the state.
func (w *gating) ends(end *journal.Event) error {
	if err := w.run.tell(end); err != nil {
		return err
	}
	return w.run.saveFiles()
}

// record notes an iteration's end, and returns an outcome if its provider ends the run.
func (w *gating) record(u *unit, end *journal.Event) (*Outcome, error) {
	if err := w.ends(end); err != nil {
		return nil, err
	}
	var out *Outcome
	var err error
	w.run.say(func() { out, err = w.run.backoff.over(w.run.config.Choices(nil), w.run.worker.teller(u)) })
	return out, err
}

// repeats repeats an iteration under the same number if the provider had a passing fault, or if its rules call it
// failed. done says that the iteration ends here.
func (w *gating) repeats(u *unit, end *journal.Event) (_ *Outcome, done bool, _ error) {
	f, most, failed := w.fails(u), w.prompt.job.Rules.Retries(), w.run.history.Prompt.Failed
	if end.Detail.Transient() { // the backoff decides how often
		f.Reason, most = u.res.Agent.Reason, math.MaxInt
	}
	if f.Reason == "" || failed >= most && f.Ending == "" {
		return nil, false, nil
	}
	refused := ""
	if u.it.refused != "" {
		refused = "The commit of this iteration's last try was refused. Fix what it says:\n\n" +
			Tail(u.it.refused, MaxWords) + "\n"
	}
	end.Verdict, end.Reason, end.Next = journal.Retry, f.Reason,
		JoinText(JoinText(w.run.history.Prompt.Kept...), FailureText(&u.res), refused)
	out, err := w.record(u, end)
	if out == nil && err == nil && failed >= most {
		out = &Outcome{Ending: f.Ending, Message: fmt.Sprintf("iteration %d failed %d times: %s", u.it.Number, most+1,
			f.Reason)}
	}
	return out, true, err
}

// fails is the rules' verdict on an iteration, or on git's rejection of its commit.
func (w *gating) fails(u *unit) Failure {
	if u.it.refused != "" {
		return Failure{u.it.refused, journal.GitRefused}
	}
	return w.prompt.job.Rules.Fails(u.it)
}

// unfit says why an iteration's work is in no commit: an attempt's reasons, or those of its rules.
func (w *gating) unfit(u *unit) string { return cmp.Or(u.res.Unfit(), w.fails(u).Reason) }

// FailureText tells the next iteration's agent how the verification failed, or what a look objects to.
func FailureText(res *attempt.Result) string {
	v := res.Verify
	if why := res.Work.TookBack; why != "" {
		return "The changes of the last iteration were not taken: " + why + "\n"
	}
	if o := res.Objection; o != nil {
		text := fmt.Sprintf("After the last iteration the %s objected: %s", o.By, o.Reason)
		if o.Detail == "" {
			return text + "\n"
		}
		return text + ":\n\n" + fenced(o.Detail)
	}
	if v == nil || v.Passed {
		return ""
	}
	return fmt.Sprintf("After the last iteration `%s` did not pass (%s). The end of its output:\n\n%s", v.Command,
		v.Reason(), fenced(v.Tail))
}

// fenced returns the end of a text as a block of code.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("%s\n%s\n%s\n", fence, strings.TrimRight(Tail(text, MaxWords), "\n"), fence)
}

// JoinText joins parts of a prompt with blank lines.
func JoinText(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimRight(p, "\n"); strings.TrimSpace(p) != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n")
}

// endRun says where a slot's uncommitted work is, and runs the checks for the end if the gate, or the promise, ended
// the run.
func (w *promptWork) endRun(out *Outcome, err error) error {
	if b := &w.run.history.Prompt; err == nil && w.run.trunk != nil && !w.delivery.loose() && b.Owed != "" &&
		b.Open == nil && b.Last.Ref != "" {
		err = w.note("what was done since the last commit was not verified and is in no commit: it is kept as " +
			b.Last.Ref + ", and resuming the run continues from it")
	}
	if err != nil || !out.Ending.Final() {
		return err
	}
	return w.run.checks.atEnd(out)
}

// finished names the ending in the words of a prompt loop's state file, which has one for all errors.
func (w *promptWork) finished(out *Outcome) (e *journal.Event, path, handoff string, err error) {
	word := out.Ending
	if word == journal.AgentUnusable || word == journal.GitRefused {
		word = journal.OwnError
	}
	if path = w.run.config.PromptHandoff; path != "" && !out.Ending.Final() {
		handoff = w.handoff(out)
	}
	h := w.run.history
	e = w.run.closing.end(out, string(word), journal.Totals{Iterations: new(h.Iteration), Attempts: len(h.Attempts),
		Commits: h.Prompt.Commits})
	e.Iteration = h.Iteration
	return e, path, handoff, w.gate.endLoopFile(out)
}

// handoff is what the next session needs to continue the prompt.
func (w *promptWork) handoff(out *Outcome) string {
	var b strings.Builder
	p := &w.run.history.Prompt
	fmt.Fprintf(&b, "## Where run %s stopped\n\n", w.run.state.ID)
	fmt.Fprintf(&b, "It stopped on %s after %s: %s.\n", w.run.tools.Now().Format(time.RFC1123Z),
		iterations(w.run.history.Iteration), oneline.Text(cmp.Or(out.Message, out.Ending.Words())))
	if e := p.Last; e != nil {
		fmt.Fprintf(&b, "\n### Iteration %d\n\n", e.Iteration)
		if text := oneline.Text(cmp.Or(e.Reason, e.Message)); text != "" {
			fmt.Fprintf(&b, "- %s\n", text)
		}
		if len(e.Paths) > 0 {
			fmt.Fprintf(&b, "- it changed %s\n", oneline.Text(
				strings.Join(e.Paths[:min(maxHandoffTasks, len(e.Paths))], ", ")))
		}
		if words := LastWords(w.run.history.Attempts[len(w.run.history.Attempts)-1].Agent); words != "" {
			fmt.Fprintf(&b, "- its agent's last words: %s\n", words)
		}
		if next := strings.TrimSpace(e.Next); next != "" {
			fmt.Fprintf(&b, "\n%s\n", Tail(next, MaxWords))
		}
	}
	fmt.Fprintf(&b, "\n### Continue\n\n    descartes resume --name %s%s\n    descartes answer --name %s --edit     # tell the next iteration's agent something\n",
		w.run.state.ID, More(out, w.run.config, w.run.config.MaxIterations), w.run.state.ID)
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

// MostBeside is the largest size, in bytes, of what is added to the settings' prompt: where the iteration stands, and
// how the verification failed. What a gate adds has no limit.
func MostBeside(c Config) int {
	n := 2
	if c.IterationContext {
		n += len(IterationContext(c.MaxIterations, c.MaxIterations, c.CompletionPromise)) + 2
	}
	longest := 0
	for _, one := range c.ChecksOf(false) {
		longest = max(longest, len(one.Run)+MaxWords+256)
	}
	n += longest
	if c.Confined() {
		n += attempt.MaxDenied*(attempt.MaxDeniedLine+4) + 128
	}
	return n
}
