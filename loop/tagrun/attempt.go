package tagrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/safename"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/verify"
)

// lane is a place for one attempt at a time: a slot, which is taken when it is first needed.
type lane struct {
	number int
	*seats
}

// open takes its slot.
func (l *lane) open(ctx context.Context, g *ground) error {
	if l.seats != nil {
		return nil
	}
	slot, err := g.pool.Take(ctx, 0)
	if err != nil {
		return err
	}
	l.seats, err = g.seat(slot)
	return err
}

// begun is what an attempt starts from.
type begun struct {
	scheduler.Attempt
	made
	with    config.Choice
	now     standing          // when the lane was given
	files   map[string][]byte // the list and its mirror, which no merge decides about
	base    gitops.Tree       // of its tip
	head    string            // commit that its agent sees as HEAD
	earlier string            // ref with what an earlier attempt left, or ""
	clashed bool              // that clashed with others' work: where it merges by now no agent runs
	since   time.Time
	before  gitops.Tree // base with what an earlier attempt left
	ours    bool        // the run added the task
	again   bool        // a run before this one ordered it from another machine,
	reports string      // of which reports what stands in the journal,
	steps   int         // and so many steps of it
	denied  []string
	stat    string // of what a failed one changed
}

// attempt starts an agent. again says that something came between.
func (r *Run) attempt(a scheduler.Attempt) (again bool, err error) {
	if met, err := r.metElsewhere(a.Task); met || err != nil {
		return true, err
	}
	if why := r.noRoom(); why != "" {
		r.ends.full = why
		return true, r.happened(scheduler.Trouble{Why: "disk", Code: 1})
	}
	if err := r.takesOver(a); err != nil {
		return true, err
	}
	if err := r.happened(scheduler.AttemptStarted{Task: a.Task, Lane: a.Lane, Account: a.Account,
		Purpose: a.Purpose}); err != nil {
		return true, err
	}
	if a.Purpose == scheduler.Review {
		return false, r.review(a)
	}
	b := r.beginning(a)
	g, ctx, ending, on, v := &r.ground, r.asks.Now, r.asks.Ending, r.lane(a.Lane), r.voice(b.unit)
	announce := func(s slot.Stand) error {
		return r.say(report{do: func() error { return r.announce(b, s) }})
	}
	r.start(func() func() error {
		var out ended
		var err error
		if g.tools.Away != nil {
			out, err = order(ctx, g, b, on, v, announce)
		} else {
			out, err = work(ctx, ending, g, b, on, v, announce)
		}
		return func() error { return r.attemptEnded(b, out, err) }
	})
	return false, nil
}

func (r *Run) lane(number int) *lane {
	return r.lanes[slices.IndexFunc(r.lanes, func(l *lane) bool { return l.number == number })]
}

// beginning is an attempt before its slot is prepared.
func (r *Run) beginning(a scheduler.Attempt) *begun {
	h := r.book.History.Task(a.Task)
	tip := r.now.chain.Links[len(r.now.chain.Links)-1]
	b := &begun{Attempt: a, made: made{task: r.taskOf(a.Task), unit: r.unit(a.Task), from: tip.Hash, base: tip.Tree,
		began: r.ground.tools.Now(), takes: r.machine.Task(a.Task).Takes}, base: tip.Tree, head: tip.Head, since: h.Started,
		now: r.now, files: r.list.files(r.ground.repo, nil, nil), ours: r.task(a.Task) == nil}
	b.with = r.choice(a.Task, a.Account)
	b.unit.Slot = 0
	b.ref = store.RefPrefix(r.ID(), a.Task) + strconv.Itoa(b.unit.Attempt)
	clashed := h.Failure.Verdict == journal.Clashed
	if ref := r.leftBy(a.Task); ref != "" && (h.Counted > 0 || clashed || h.CutShort.Verdict != "") {
		b.earlier, b.clashed = ref, clashed
	}
	b.in = r.input(&b.made, b.with)
	return b
}

// leftBy is the ref of the last attempt at a task that left something, "" for none. What took back earlier work left
// nothing.
func (r *Run) leftBy(id string) string {
	for _, a := range slices.Backward(r.book.History.Ended) {
		if a.Task == id && a.Ref != "" && (a.Before == "" || a.After != a.Before) {
			return a.Ref
		}
	}
	return ""
}

// choice is what an account runs a task with.
func (r *Run) choice(task, account string) config.Choice {
	for _, c := range r.ground.config.Choices(r.task(task)) {
		if c.Backend == account {
			return c
		}
	}
	return config.Choice{Backend: account}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// input is what an attempt needs to know, but its text and its checks.
func (r *Run) input(m *made, with config.Choice) attempt.Input {
	c, id, h := r.ground.config, m.unit.Task, r.book.History
	in := attempt.Input{Name: fmt.Sprintf("%s %d", id, m.unit.Attempt), All: c.AllChecks, Backend: with.Backend,
		Model: with.Model, Promise: c.CompletionPromise, Log: r.ground.home.Log(r.ID(), id, m.unit.Attempt),
		Agent: attempt.Clocks{Timeout: seconds(c.TimeoutSecs), Idle: seconds(c.IdleTimeoutSecs),
			Start: seconds(c.StartTimeoutSecs), Exit: seconds(c.ExitGraceSecs), Spin: c.SpinLimit},
		Clocks: attempt.Clocks{Timeout: seconds(c.VerifyTimeoutSecs), Idle: seconds(c.VerifyIdleSecs)},
		Guard:  &attempt.Guard{Levels: c.Guard, Protect: c.Protect, Yes: r.job.Allowed(id)},
		Better: c.Verified(), Again: r.machine.RepeatsMute(id), Needs: r.job.Needs(id),
		Base: m.base}
	if m.task != nil {
		in.Guard.Allow, in.Guard.Title, in.Prove = m.task.Allow, m.task.Title, c.ProveOf(m.task)
		in.Careful = in.Prove && c.Careful()
	}
	if one := c.Holdout; one.Run != "" {
		in.Holdout = &attempt.Holdout{Run: one.Run, Dir: one.Folder(r.ground.root),
			Log: r.ground.home.HeldOutLog(r.ID(), in.Log), Timeout: seconds(cmp.Or(one.Timeout, c.VerifyTimeoutSecs))}
	}
	if len(h.Attempts) > 0 {
		in.First = gitops.Tree(h.Attempts[0].Before)
	}
	in.Env = []string{"DESCARTES_LOOP_ID=" + r.ID(), "DESCARTES_ATTEMPT=" + strconv.Itoa(m.unit.Attempt),
		"DESCARTES_TAG=" + r.ground.tag, "DESCARTES_TASK_ID=" + id, "SCUD_TASK_ID=" + id,
		"DESCARTES_WAVE=" + strconv.Itoa(m.unit.Wave), "DESCARTES_ITERATION=" + strconv.Itoa(h.Iteration+1)}
	return in
}

// errHalted says that no agent may start any more.
var errHalted = errors.New("no agent starts")

// announce writes that an attempt's agent starts, once its lane is prepared.
func (r *Run) announce(b *begun, s slot.Stand) error {
	if err := r.hear(); err != nil {
		return err
	}
	if r.machine.Halts(r.ground.tools.Now()) {
		return errHalted
	}
	h, id := r.book.History, b.Task
	text, err := r.text(b)
	if err != nil {
		return err
	}
	b.in.Prompt = text.Text
	var lines []*journal.Event
	if b.unit.Wave != r.told.wave {
		r.told.wave = b.unit.Wave
		lines = append(lines, &journal.Event{Type: journal.WaveStarted, Unit: journal.Unit{Wave: b.unit.Wave,
			Of: r.sizeOf(b.unit.Wave)}})
	}
	if !h.Task(id).Open() {
		e := &journal.Event{Type: journal.TaskStarted, Unit: b.unit, Base: string(b.base), Commit: s.Head.Hash}
		e.Attempt = 0
		lines = append(lines, e)
	}
	inputs := r.job.Inputs(id)
	inputs.Policy, inputs.Spec = receipt.PolicyDigest(source.PolicyLines(r.ground.config)),
		receipt.Digest([]byte(text.Text))
	e := &journal.Event{Type: journal.AttemptStarted, Unit: b.unit, Tree: string(b.before), Base: string(b.base),
		Branch: s.Head.Branch, Commit: s.Head.Hash, Detail: &journal.Detail{SpecTokens: text.Tokens, Inputs: &inputs,
			Client: journal.Client{Log: r.book.Relative(b.in.Log), Backend: b.with.Backend, Model: b.with.Model}}}
	return r.book.Write(append(lines, e)...)
}

// sizeOf is how many tasks a wave has.
func (r *Run) sizeOf(wave int) int {
	if waves := r.job.Graph.Waves(); wave > 0 && wave <= len(waves) {
		return len(waves[wave-1].Tasks)
	}
	return 0
}

// ended is what an attempt came to.
type ended struct {
	outcome scheduler.Outcome
	verdict verify.Verdict
	reason  string
	kept    bool
}

// work prepares the lane, unless the run is ending, runs the agent, and keeps what it left before anybody hears of its
// end.
func work(ctx, ending context.Context, g *ground, b *begun, on *lane, v voice,
	announce func(slot.Stand) error) (out ended, err error) {
	if err := on.open(ctx, g); err != nil {
		return out, err
	}
	b.unit.Slot = on.slot.Number
	b.in.Env = append(b.in.Env, on.slot.Env()...)
	g.repo.AwaitGC(ctx)
	clean, err := b.ground(ctx, g)
	if err != nil || clean {
		return ended{outcome: scheduler.Clean, kept: true}, err
	}
	stand, err := on.slot.Prepare(ending, slot.Start{Before: b.before, Base: b.base, At: b.head,
		Whole: b.before != b.base, Since: b.since, Named: g.tools.Named, Aside: strings.TrimSuffix(b.in.Log, ".log")})
	if err != nil {
		if ending.Err() != nil {
			return ended{outcome: scheduler.Cancelled, verdict: verify.Cancelled, reason: "cancelled"}, nil
		}
		return out, err
	}
	if err := v.noteRun(g.pool.Notes()...); err != nil { // of all slots
		return out, err
	}
	if err := announce(stand); errors.Is(err, errHalted) { // a person asked for the end while the lane was prepared
		return ended{outcome: scheduler.Cancelled, verdict: verify.Cancelled, reason: "cancelled"}, nil
	} else if err != nil {
		return out, err
	}
	if b.res, err = on.runner.Make(ctx, on.slot, b.in, v.tellMade); err != nil {
		return out, err
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	// what is no work, and what its own git took back, is known before its commit is made
	if b.res.Work, err = on.slot.Result(gctx, false); err != nil {
		return out, err
	}
	if out, err = b.judge(gctx, g); err != nil {
		return out, err
	}
	return out, b.keep(gctx, g, &out)
}

// ground finds what the agent gets: the trunk, with what an earlier attempt left, or with the branch's commits that it
// is to take in. clean says that an earlier attempt had clashed, and merges by now.
func (b *begun) ground(ctx context.Context, g *ground) (clean bool, err error) {
	b.before = b.base
	commit := ""
	if b.earlier != "" {
		if commit, err = g.repo.RefCommit(b.earlier); err != nil {
			return false, err
		}
	}
	if commit == "" {
		return false, b.taking(ctx, g)
	}
	tree, met, stands, err := b.onto(ctx, g, commit)
	if err != nil {
		return false, &slot.GitError{What: "bring together what is verified and the work on task " + b.Task, Err: err}
	}
	if b.clashed && len(met) == 0 && stands {
		return true, nil
	}
	b.before = tree
	return false, b.keepStart(ctx, g, commit)
}

// onto merges what an earlier attempt left onto the trunk. stands says that what it began at is still in there: where a
// person took that out, what the attempt changed is all that is its own.
func (b *begun) onto(ctx context.Context, g *ground, commit string) (tree gitops.Tree, met []gitops.Conflict, stands bool,
	err error) {
	made, err := g.repo.ReadCommit(commit)
	if err != nil {
		return "", nil, false, err
	}
	on := made.Parent()
	if stands = on == "" || g.repo.LeadsTo(ctx, b.from, on); stands {
		tree, met, err = g.repo.Merge(ctx, b.from, commit)
		return tree, met, true, err
	}
	was, err := g.repo.CommitTree(on)
	if err == nil {
		tree, met, err = g.repo.MergeTrees(ctx, was, b.base, made.Tree)
	}
	return tree, met, false, err
}

// taking merges the branch's commits that the task is to take in, with markers.
func (b *begun) taking(ctx context.Context, g *ground) error {
	if b.takes == "" {
		return nil
	}
	m, _, err := b.now.taking(ctx, g, b.takes, b.files)
	if err != nil {
		return gitErr("take in what was committed meanwhile", err)
	}
	b.before = m.Tree
	return b.keepStart(ctx, g, b.takes)
}

// keepStart keeps what the agent starts from, where that is more than the trunk.
func (b *begun) keepStart(ctx context.Context, g *ground, with string) error {
	_, err := g.repo.Keep(ctx, "refs/descartes/"+g.id+"/start/"+safename.Of(b.Task), b.before, []string{b.from, with},
		"descartes: start of attempt "+strconv.Itoa(b.unit.Attempt))
	return err
}

// maxShown is the largest file, in bytes, that may show that nothing had to be done.
const maxShown = 4 << 20

// leftTrailer names, in the message of the commit that keeps an attempt, what its agent left: a run that is killed
// before it can write that down finds it there.
const leftTrailer = "Descartes-Left"

// left is what an agent left, as the commit that keeps its work has it.
type left struct {
	Detail  *journal.Detail
	Outcome scheduler.Outcome
	USD     float64 `json:",omitempty"`
}

// keep keeps what the agent left under the attempt's ref, if that is anything, or anything was said.
func (b *begun) keep(ctx context.Context, g *ground, out *ended) error {
	work := &b.res.Work
	same := work.After == b.base && work.Commits == ""
	if work.After == "" || same && (out.verdict == verify.Verified || out.verdict == verify.Cancelled ||
		out.verdict == verify.Limited) {
		b.ref = ""
		return nil
	}
	k := source.Kept{Loop: g.id, Task: b.Task, Attempt: b.unit.Attempt, Verdict: string(out.verdict),
		Reason: out.reason, Same: same, Asks: out.outcome == scheduler.Asks}
	if out.verdict == verify.Verified {
		k.Verdict, k.Reason = source.Made, "its agent has ended"
	} else {
		k.Output = loop.Output(&b.res)
	}
	data, err := json.Marshal(left{Detail: agentLine(b).Detail, Outcome: out.outcome, USD: usd(&b.res.Agent)})
	if err != nil {
		return fmt.Errorf("encode what an agent left: %w", err)
	}
	parents := []string{b.from}
	for _, p := range []string{b.takes, work.Commits} {
		if p != "" && p != b.from {
			parents = append(parents, p)
		}
	}
	message := g.tools.Redact.Text(k.Message(g.list)) + leftTrailer + ": " + loop.Trailer(g.tools.Redact, data) + "\n"
	if b.commit, err = g.repo.Keep(ctx, b.ref, work.After, parents, message); err != nil {
		return &slot.GitError{What: "keep the work on task " + b.Task, Err: err}
	}
	if out.kept = !same; same {
		b.ref = ""
	}
	return nil
}

// agentLine is the line of an agent's end.
func agentLine(b *begun) *journal.Event {
	e := loop.AgentEnd(&journal.Event{Unit: b.unit}, b.res.Agent, b.with, loop.MaxWords)
	e.Detail.Changed = b.res.Changed
	return e
}

// usd is what an agent cost, 0 where that is not known.
func usd(r *agent.Result) float64 {
	if r.Cost == nil || r.Cost.USD == nil {
		return 0
	}
	return *r.Cost.USD
}

// attemptEnded takes what an attempt came to.
func (r *Run) attemptEnded(b *begun, out ended, err error) error {
	if err != nil {
		return r.broke(err, scheduler.AttemptEnded{Task: b.Task, Outcome: scheduler.Cancelled})
	}
	b.hosts = r.ground.tools.Hosts(b.unit.Slot)
	e := scheduler.AttemptEnded{Task: b.Task, Outcome: out.outcome, USD: usd(&b.res.Agent), Kept: out.kept}
	if out.outcome == scheduler.Clean || out.outcome == scheduler.Cancelled && b.res.Agent.End == "" {
		delete(r.made, b.Task) // what merges by now is that of the attempt which clashed
		return r.happened(e)
	}
	if why := r.noRoom(); why != "" && (out.verdict == verify.Failed || out.verdict == verify.Crashed ||
		out.verdict == verify.TimedOut) { // a full disk says nothing about the agent
		r.ends.full = why
		e.Outcome, out.verdict, out.reason = scheduler.Cancelled, verify.Cancelled, "the disk is full ("+out.reason+")"
	}
	var until *time.Time
	if !b.res.Paced { // else it is another machine's limit
		if until, err = r.rests(b.with, &b.res.Agent); err != nil {
			return err
		}
	}
	if until != nil {
		e.Until = *until
	}
	lines := loop.WithNotes(agentLine(b))
	if out.outcome == scheduler.Finished {
		m := b.made
		r.made[b.Task] = &m
		return errors.Join(r.happened(e, lines...), r.diskTrouble())
	}
	if out.outcome == scheduler.Crashed || out.outcome == scheduler.Nothing || out.outcome == scheduler.Mute ||
		out.outcome == scheduler.TimedOut && b.res.Changed == 0 {
		e.Signature = "agent"
	} else if out.verdict == verify.Failed || out.verdict == verify.TimedOut || out.outcome == scheduler.GaveUp ||
		out.outcome == scheduler.Asks {
		e.Signature = string(out.verdict) + " " + gate.Signature(out.reason)
	} else if out.outcome == scheduler.Unchanged {
		e.Signature = "agent"
	}
	b.denied = r.denied(&b.made)
	end := r.endLine(b, &out, until)
	lines = append(lines, end)
	if note := r.ground.tools.Withheld.Missed(r.told.once, b.res.Agent, nil); note != "" {
		if err := r.book.Write(&journal.Event{Type: journal.Warning, Unit: b.unit, Message: note}); err != nil {
			return err
		}
	}
	return errors.Join(r.happened(e, lines...), r.diskTrouble())
}

// denied is what the sandbox refused the agent of an attempt.
func (r *Run) denied(m *made) []string {
	return r.ground.tools.Denied(r.ground.config, r.ground.root, r.job.File, m.in.Log, m.hosts)
}

// diskTrouble lets a run end whose disk is full.
func (r *Run) diskTrouble() error {
	if r.ends.full == "" || r.machine.Stops.Trouble.Code > 0 {
		return nil
	}
	return r.happened(scheduler.Trouble{Why: "disk", Code: 1})
}

// endLine is the line of the end of an attempt that leaves nothing to check.
func (r *Run) endLine(b *begun, out *ended, until *time.Time) *journal.Event {
	res := &b.res
	e := &journal.Event{Type: journal.AttemptFinished, Unit: b.unit, Verdict: journal.Verdict(out.verdict),
		Reason: out.reason, Tree: string(res.Work.After), Ref: b.ref, Message: b.stat}
	if res.Work.TookBack != "" {
		e.Tree = string(b.before)
	}
	if out.outcome == scheduler.Unchanged && b.ours {
		e.Verdict, e.Reason = journal.Failed, "it changed nothing, and what it is to mend shows that something is left to do"
	} else if out.outcome == scheduler.Unchanged && b.Purpose == scheduler.Work {
		e.Verdict, e.Reason = journal.Unchanged, "it changed nothing and says that it is done: a second agent looks"
	} else if out.outcome == scheduler.Unchanged {
		e.Verdict, e.Reason = journal.Failed, "it changed nothing, and names nothing that shows that nothing had to be done"
	}
	e.Detail = &journal.Detail{Client: journal.Client{Backend: b.with.Backend, Model: cmp.Or(res.Agent.Model, b.with.Model),
		Log: r.book.Relative(b.in.Log)}, Files: journal.Files{Changed: len(res.Work.Changed), Left: res.Work.Left},
		Exit: journal.Exit{End: string(res.Agent.End), Cause: string(res.Agent.Cause), Code: res.Agent.Code,
			Signal: res.Agent.Signal, Until: until,
			Seconds: max(0, r.ground.tools.Now().Sub(b.began).Seconds())},
		Speech: journal.Speech{Claimed: res.Agent.Complete, Words: loop.Tail(res.Agent.Final, loop.MaxWords),
			Question: loop.Tail(res.Agent.Question, loop.MaxWords), Denied: b.denied}}
	switch {
	case out.outcome == scheduler.Shown && r.machine.Settings.Careful: // a person says whether that is so
		e.Verdict, e.Detail.Question = journal.Blocked, out.reason+": is it done as it is? "+
			"Then \"descartes tasks set "+b.Task+" done\"; else answer with what is to be done"
		e.Reason = agent.Asks + e.Detail.Question
	case out.outcome == scheduler.Shown:
		e.Detail.Grade = journal.NotNeeded
	}
	return e
}
