package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"descartes/agent"
	"descartes/agent/render"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/scheduler/prompt"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// try is the try of an iteration at hand: what it started from, and what became of it so far. A run that was killed
// makes it again from the journal and from the refs.
type try struct {
	prompt.Try
	from  prompt.Try
	plans bool
	ground
	it    *loop.Iteration
	in    attempt.Input
	began time.Time
	since time.Time // when the first try began whose work is in no commit
	hooks string    // the commit whose hooks run, where they lie in the working tree
	res   attempt.Result
	kept  kept
	notes []string // for people, not told yet

	answers []attempt.Known // of reviewers, to what is not judged yet
	// that a person has to answer before another agent is asked, or ""
	question string
}

// kept is where the work of a try is.
type kept struct {
	ref    string // "" for none
	commit string // that it names
	landed string // commit of the branch that has it
	own    bool   // the agent's own commits are the branch's
}

// unit is what lines of the journal say that they are about.
func (t *try) unit() journal.Unit {
	return journal.Unit{Iteration: t.Number, Attempt: t.Try.Try, Of: t.it.Max}
}

// changed reports whether its agent changed something that a commit can have, or that can arrive in the user's tree.
func (t *try) changed() bool { return t.res.Work.After != "" && t.res.Work.After != t.before }

// words are what a try's agent is told besides the prompt.
type words struct {
	next    string // by the gate, and how the last one failed
	hand    string // by an earlier session
	answers []specbuild.Answer
	denied  []string // by the sandbox, in the last one
	failing bool
	first   gitops.Tree // what the run began with
}

// prepare makes the place and the text ready for a try. An outcome says what it would need and is not there.
func prepare(ctx context.Context, p *place, job *loop.PromptJob, t *try, w words,
	shown bool) (*loop.Outcome, error) {
	err := p.takeBranch(ctx)
	if err != nil {
		return nil, err
	}
	if t.ground, err = p.prepare(ctx, t.from, t.since, t.in.Log); err != nil {
		return nil, err
	}
	t.it.Next, t.it.Failing, t.it.Slot, t.it.Mounted = w.next, w.failing, p.slot, shown
	t.it.Began = began(p, cmp.Or(w.first, t.before))
	if pl, ok := job.Rules.(planner); ok {
		pl.Planning(t.plans)
	}
	if out := job.Rules.Before(t.it); out != nil {
		return out, nil
	}
	t.in.Prompt = text(job, t.it, &w)
	return nil, nil
}

// planner are the rules of a build that may plan again.
type planner interface {
	Replans() bool
	First(*loop.Iteration) (bool, error)  // whether the first iteration plans
	Again(*loop.Iteration) (bool, string) // whether one plans after this one, and why
	Planning(bool)                        // the next one plans, or does not
}

// began reads files as they were when the run began; nil without git.
func began(p *place, tree gitops.Tree) func(string) []byte {
	if tree == "" {
		return nil
	}
	return func(name string) []byte {
		c, err := p.repo.Contents(tree)
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

// text is what a try's agent is given.
func text(job *loop.PromptJob, it *loop.Iteration, w *words) string {
	text, more := composed(job, it, w), ""
	if hand := strings.TrimSpace(w.hand); hand != "" {
		more = "## Handoff\n\nAn earlier session left this for you:\n\n" + hand
	}
	if len(w.answers) > 0 {
		more = loop.JoinText(more, specbuild.Answered(w.answers))
	}
	if more != "" {
		text = loop.JoinText(text, more) + "\n"
	}
	return text
}

// composed is the text of the job's rules, or the settings' prompt.
func composed(job *loop.PromptJob, it *loop.Iteration, w *words) string {
	if text, ok := job.Rules.Compose(it); ok {
		return text
	}
	c := &job.Config
	parts := []string{c.Prompt}
	if it.Number > 1 && c.IterationContext {
		parts = append(parts, loop.IterationContext(it.Number, it.Max, c.Promise()))
	}
	if job.Gate != nil && !c.Promised() {
		parts = append(parts, job.Gate.Instructions())
	}
	if len(w.denied) > 0 {
		parts = append(parts, "What the sandbox refused in the last iteration; only a person can allow that, so do without it:\n- "+
			strings.Join(w.denied, "\n- "))
	}
	if len(parts) == 1 && it.Next == "" {
		return c.Prompt // byte for byte
	}
	return loop.JoinText(append(parts, it.Next)...) + "\n"
}

// input is what an attempt needs to know, but its text.
func input(c *config.Config, p *place, home store.Home, t prompt.Try, with config.Choice) attempt.Input {
	in := attempt.Input{Name: fmt.Sprintf("iteration %d %d", t.Number, t.Try), All: c.AllChecks, Always: true,
		Backend: with.Backend, Model: with.Model, Promise: c.CompletionPromise,
		Log: home.IterationLog(p.id, t.Number, t.Try),
		Agent: attempt.Clocks{Timeout: seconds(c.TimeoutSecs), Idle: seconds(c.IdleTimeoutSecs),
			Start: seconds(c.StartTimeoutSecs), Exit: seconds(c.ExitGraceSecs), Spin: c.SpinLimit},
		Clocks:  attempt.Clocks{Timeout: seconds(c.VerifyTimeoutSecs), Idle: seconds(c.VerifyIdleSecs)},
		Guard:   &attempt.Guard{Levels: c.Guard, Protect: c.Protect},
		Prove:   c.ProveOf(nil),
		Mutants: c.Mutants}
	if h := c.Holdout; h.Run != "" {
		in.Holdout = &attempt.Holdout{Run: h.Run, Dir: h.Folder(p.root), Log: home.HeldOutLog(p.id, in.Log),
			Timeout: seconds(cmp.Or(h.Timeout, c.VerifyTimeoutSecs))}
	}
	in.Env = append([]string{"DESCARTES_LOOP_ID=" + p.id, "DESCARTES_ATTEMPT=" + strconv.Itoa(t.Try),
		"DESCARTES_ITERATION=" + strconv.Itoa(t.Number),
		// not those of a loop that started this one
		"DESCARTES_TAG=", "DESCARTES_TASK_ID=", "SCUD_TASK_ID=", "DESCARTES_WAVE="}, p.env()...)
	return in
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// checks are the commands that judge a try.
func checks(job *loop.PromptJob, it *loop.Iteration, history *journal.State, mask func(string) string) (list []attempt.Command) {
	c := &job.Config
	if job.Rules.Checks(it) {
		for _, one := range c.ChecksOf(false) {
			if one.At(verify.AtAttempt) || one.At(verify.AtMerge) || one.At(verify.AtWave) {
				list = append(list, attempt.Command{Check: one, Bar: loop.Bar(c, history, "", &one, mask)})
			}
		}
		for _, item := range job.Rules.Own(it) {
			for _, own := range source.OwnChecks(&tasks.Task{ID: item.Text, Verify: item.Verify}) {
				list = append(list, attempt.Command{Check: own})
			}
		}
	}
	if g, ok := loop.Deciding(job.Gate).(*gate.Criteria); ok { // commands bound to criteria outrank the agent's word
		for _, cmd := range g.Commands() {
			list = append(list, attempt.Command{Check: verify.Check{Name: cmd.Name, Run: cmd.Run}, Criterion: true})
		}
	}
	return list
}

// made runs a try's agent, and keeps what it left under the try's ref before anybody hears of its end.
func made(ctx context.Context, p *place, job *loop.PromptJob, t *try, usd *float64,
	mask func([]byte) []byte, tell func(*attempt.Step) error) (err error) {
	p.holds = t.Try
	if p.kind != prompt.Folder && checkpoints(job) && t.Try == (prompt.Try{Number: 1, Try: 1}) {
		if _, err := p.repo.Keep(ctx, p.iterationRef(0), t.base, parentsOf(&t.ground, &workspace.Result{}),
			"run "+p.id+": the start"); err != nil {
			return gitErr("keep a checkpoint", err)
		}
	}
	if t.res, err = p.runner.Make(ctx, p.ws, t.in, tell); err != nil {
		return err
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	if _, criteria := loop.Deciding(job.Gate).(*gate.Criteria); criteria {
		if t.it.Facts.Edits, err = edits(p, t.it, t.in.Log); err != nil { // what cannot be read is not counted
			if err := tell(&attempt.Step{Moment: attempt.Noted, Lines: []string{err.Error()}}); err != nil {
				return err
			}
		}
	}
	if err := keepWork(gctx, p, job, t, "made", mask); err != nil || t.checkable() {
		return err
	}
	return facts(job, t, usd)
}

// checkable reports whether the agent left something to check.
func (t *try) checkable() bool { return t.res.Agent.End == agent.Finished && t.res.Work.TookBack == "" }

// keepWork keeps the work of a try as it is now.
func keepWork(ctx context.Context, p *place, job *loop.PromptJob, t *try, why string, mask func([]byte) []byte) error {
	if p.kind == prompt.Folder {
		return nil
	}
	if err := withoutOurs(ctx, p, job, t); err != nil {
		return err
	}
	if t.res.Work.After == "" || t.res.Work.After == t.base && t.res.Work.Commits == "" && !checkpoints(job) {
		return nil
	}
	b, err := json.Marshal(leftOf(job, t))
	if err != nil {
		return fmt.Errorf("encode what an agent left: %w", err)
	}
	t.kept.ref, t.kept.commit, err = p.keep(ctx, t.Try, &t.ground, &t.res.Work, why, leftTrailer+": "+
		string(mask(b)))
	return err
}

// checkpoints reports whether the work is of a class that asks for a checkpoint at each step.
func checkpoints(job *loop.PromptJob) bool {
	g, ok := loop.Deciding(job.Gate).(*gate.Criteria)
	return ok && g.Class.Checkpoint()
}

// leftTrailer names, in the message of the commit that keeps a try, what its agent left: a run that is killed before it
// can write that down finds it there.
const leftTrailer = "Descartes-Left"

// left is what an agent left, as the commit that keeps its work has it.
type left struct {
	Machine  prompt.Left
	Detail   *journal.Detail
	TookBack string `json:",omitempty"`
}

func leftOf(job *loop.PromptJob, t *try) left {
	with := config.Choice{Backend: t.in.Backend, Model: t.in.Model}
	return left{Machine: machineLeft(job, t), Detail: agentLine(t, with).Detail, TookBack: t.res.Work.TookBack}
}

// agentLine is the line of an agent's end.
func agentLine(t *try, with config.Choice) *journal.Event {
	e := loop.AgentEnd(&journal.Event{Unit: t.unit()}, t.res.Agent, with, loop.MaxFinal)
	e.Detail.Changed = t.res.Changed
	return e
}

// machineLeft is what a try's agent left in the machine's words, but until when its account has to rest.
func machineLeft(job *loop.PromptJob, t *try) prompt.Left {
	r := &t.res.Agent
	l := prompt.Left{Verdict: verdictOf(r), Changed: t.changed() || t.res.Work.Named.Changed(), Bytes: int(r.Bytes),
		Until: r.Until, Idle: r.Idle, Undid: t.res.Work.TookBack != ""}
	l.Said = prompt.Said{Promise: r.Complete || gate.Promised(r.Final, job.Config.CompletionPromise),
		Signal: attempt.Claims(r), Blocked: r.Blocked != "", Question: r.Question != ""}
	for _, n := range t.it.Facts.Edits {
		l.Edits = max(l.Edits, n)
	}
	switch {
	case l.Verdict != prompt.Passed:
		l.Error = signature(cmp.Or(r.Reason, string(r.End)))
	case l.Undid:
		l.Error = signature(t.res.Work.TookBack)
	}
	if r.Cost != nil && r.Cost.USD != nil {
		l.USD = *r.Cost.USD
	}
	return l
}

// verdictOf is how an agent ended, in the machine's words.
func verdictOf(r *agent.Result) prompt.Verdict {
	switch r.End {
	case agent.Finished:
		return prompt.Passed
	case agent.Limited:
		return prompt.Limited
	case agent.Refused:
		return prompt.Refused
	case agent.Cancelled:
		return prompt.Cancelled
	case agent.Crashed:
		if r.Cause == agent.Transient && r.Signal == 0 {
			return prompt.Faulty
		}
		return prompt.Crashed
	}
	return prompt.Failed // out of time
}

// withoutOurs takes out of the work what a criteria loop and its agent write below .loop, and what the try's rules do
// not take, which a ref of its own keeps.
func withoutOurs(ctx context.Context, p *place, job *loop.PromptJob, t *try) error {
	work := &t.res.Work
	_, criteria := loop.Deciding(job.Gate).(*gate.Criteria)
	if work.After == "" {
		return nil
	}
	var out, beside []string
	rest := work.Changed[:0:0]
	for _, c := range work.Changed {
		switch {
		case criteria && loop.OfLoopFile(c.Path):
			out = append(out, c.Path)
		case !job.Rules.Takes(c.Path):
			beside = append(beside, c.Path)
		default:
			rest = append(rest, c)
		}
	}
	if len(out)+len(beside) == 0 {
		return nil
	}
	known := t.it.Beside // it was said when the agent had ended
	if t.it.Beside = known || len(beside) > 0; len(beside) > 0 && !known {
		code := *work
		if _, err := p.repo.Keep(ctx, p.tryRef(t.Try)+"-code", code.After, parentsOf(&t.ground, &code),
			fmt.Sprintf("run %s: iteration %d: what planning wrote", p.id, t.Number)); err != nil {
			return gitErr("keep what planning wrote", err)
		}
		t.notes = append(t.notes, fmt.Sprintf("iteration %d planned, and wrote what is no document (%s): "+
			"that is in no commit, but kept as %s-code", t.Number, oneline.List(beside), p.tryRef(t.Try)))
	}
	var err error
	work.Changed, work.Left = rest, append(work.Left, beside...)
	if work.After, err = p.repo.TreeWith(ctx, work.After, work.Before, append(out, beside...)); err != nil {
		return gitErr("take the work of an iteration", err)
	}
	return nil
}

func parentsOf(g *ground, work *workspace.Result) (list []string) {
	for _, hash := range []string{g.tip, work.Commits} {
		if hash != "" {
			list = append(list, hash)
		}
	}
	return list
}

// edits counts the edits of each file, by the paths that a person in the project's folder would type.
func edits(p *place, it *loop.Iteration, log string) (map[string]int, error) {
	list, err := render.Edits(log)
	if err != nil {
		return nil, err
	}
	for path, n := range list {
		if rel := relative(it.Seen(p.root), path); strings.HasPrefix(path, "/") && !strings.HasPrefix(rel, "..") {
			delete(list, path)
			list[rel] += n
		}
	}
	return list, nil
}
