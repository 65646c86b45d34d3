package tagrun

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/verify"
)

// remains are what git and the disk have of a run that went before.
type remains struct {
	trunk  trunkState
	kept   []gitops.Ref
	merged []*journal.Event // the lines of what the trunk has, and the journal does not
	ended  []*found         // attempts whose agents ended before that could be written down
	alive  []*journal.Event // that a fleet still makes
	cut    []*found         // attempts that were killed
}

// found is an attempt that a killed run left open.
type found struct {
	open    *journal.Event
	left    *left  // what its agent left; nil: it was killed
	ref     string // that keeps what its slot held, or ""
	tree    string
	changed int // how many files that changes
	note    string
}

// resume looks at what is left of an earlier run, and applies Resumed: the first event of every run.
func (r *Run) resume(ctx context.Context) func() error {
	rest, err := r.look(ctx)
	return func() error {
		if err != nil {
			return &startError{err}
		}
		return r.resumed(rest)
	}
}

// startError keeps a run from beginning: what git has could not be read.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// begins is the first line of the run.
func (r *Run) begins(branch string) *journal.Event {
	e := &journal.Event{Type: journal.LoopStarted, Branch: branch}
	if r.told.resumes {
		if e.Type = journal.LoopResumed; r.book.History.Seq > 0 {
			e.Reason = journal.ReasonTakeover
		}
	}
	return e
}

// look finds what is left. It is slow. Nothing else is at work, so it may read what the deciding goroutine owns.
func (r *Run) look(ctx context.Context) (rest remains, err error) {
	g := &r.ground
	if err := r.ground.home.Mask(r.ID(), r.ground.tools.Redact); err != nil {
		return rest, err
	}
	branch, err := r.branch(ctx)
	if err != nil {
		return rest, err
	}
	v := r.voice(journal.Unit{})
	b := begins{branch: branch, takes: r.options.Branch, files: r.list.files(g.repo, nil, nil), commit: r.book.History.WaveCommits,
		made: r.job.Made}
	if rest.trunk, err = readTrunk(ctx, g, b, v); err != nil {
		return rest, err
	}
	if rest.kept, err = r.keptRefs(ctx); err != nil {
		return rest, err
	}
	for _, open := range r.book.History.Left() {
		lines, err := mergedIn(g, open.Unit, rest.trunk.now.chain.Links)
		if err != nil {
			return rest, err
		}
		rest.merged = append(rest.merged, lines...)
		t := r.machine.Task(open.Task)
		if t == nil || t.Lane < 0 || t.Purpose == scheduler.Review {
			continue // its agent has ended
		}
		if g.tools.Away != nil {
			rest.alive = append(rest.alive, open)
			continue
		}
		f, err := r.found(ctx, open, rest.trunk.now.chain.Links)
		if err != nil {
			return rest, err
		}
		if f.left != nil {
			rest.ended = append(rest.ended, f)
		} else {
			rest.cut = append(rest.cut, f)
		}
	}
	return rest, nil
}

// found finds what is left of an attempt whose run was killed: all of it under its ref, or what its slot holds, which a
// ref keeps.
func (r *Run) found(ctx context.Context, open *journal.Event, links []trunk.Link) (*found, error) {
	g, f := &r.ground, &found{open: open}
	log := g.home.Log(g.id, open.Task, open.Attempt)
	ref := store.RefPrefix(g.id, open.Task) + strconv.Itoa(open.Attempt)
	commit, err := g.repo.RefCommit(ref)
	if err != nil {
		return nil, gitErr("look at what a killed run left", err)
	}
	if commit != "" {
		if f.left, err = leftIn(g, commit); err != nil {
			return nil, err
		}
	}
	slot, err := g.pool.Take(ctx, open.Slot)
	if err != nil || slot == nil { // another run has it
		return f, err
	}
	s, err := g.seat(slot)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(r.lanes, func(l *lane) bool { return l.seats == nil }); at >= 0 {
		r.lanes[at].seats = s
	}
	if err := s.runner.Killed(log); err != nil || f.left != nil {
		return f, err
	}
	work, err := slot.Holds(ctx, open.TS)
	switch {
	case err != nil && ctx.Err() == nil && !loop.DiskFull(err):
		f.note = fmt.Sprintf("what it left in slot %d cannot be kept: %v", open.Slot, err)
		return f, nil
	case err != nil || work.After == "" || string(work.After) == open.Tree && work.Commits == "":
		return f, err
	}
	from := ""
	for _, l := range links {
		if string(l.Tree) == cmp.Or(open.Base, open.Tree) {
			from = l.Hash
		}
	}
	parents := slices.DeleteFunc([]string{from, r.machine.Task(open.Task).Takes, work.Commits},
		func(p string) bool { return p == "" })
	k := source.Kept{Loop: g.id, Task: open.Task, Attempt: open.Attempt, Verdict: string(verify.Cancelled),
		Reason: journal.Killed}
	if _, err := g.repo.Keep(ctx, ref, work.After, slices.Compact(parents), g.tools.Redact.Text(k.Message(g.list))); err != nil {
		return nil, gitErr("keep the work on task "+open.Task, err)
	}
	f.ref, f.tree = ref, string(work.After)
	changes, err := g.repo.Changed(ctx, gitops.Tree(cmp.Or(open.Base, open.Tree)), work.After)
	if err != nil {
		return nil, gitErr("look at what a killed run left", err)
	}
	f.changed = len(changes)
	return f, nil
}

// mergedIn are the lines of an open attempt which the trunk has: the run was killed before it wrote them.
func mergedIn(g *ground, u journal.Unit, links []trunk.Link) ([]*journal.Event, error) {
	commit, err := g.repo.RefCommit(store.RefPrefix(g.id, u.Task) + strconv.Itoa(u.Attempt))
	at := slices.IndexFunc(links, func(l trunk.Link) bool { return l.Unit == u.Task && l.Brought == commit })
	if err != nil || commit == "" || at < 0 {
		return nil, wrapped("look at what a killed run left", err)
	}
	made, err := g.repo.ReadCommit(commit)
	if err != nil {
		return nil, gitErr("look at what a killed run left", err)
	}
	text := made.Trailers[passedTrailer]
	end := new(journal.Event)
	if len(text) == 0 || json.Unmarshal([]byte(text[0]), end) != nil { // masked in the middle
		return nil, nil
	}
	return []*journal.Event{end, integrated(u, string(links[at].Tree), links[at].Hash)}, nil
}

// leftIn is what an agent left by the message of the commit that keeps it; nil if it says nothing.
func leftIn(g *ground, commit string) (*left, error) {
	made, err := g.repo.ReadCommit(commit)
	if err != nil {
		return nil, gitErr("look at what a killed run left", err)
	}
	text := made.Trailers[leftTrailer]
	if len(text) == 0 {
		return nil, nil
	}
	var l left
	if json.Unmarshal([]byte(text[0]), &l) != nil || l.Detail == nil { // masked in the middle: it is made again
		return nil, nil
	}
	return &l, nil
}

// listedOn are the tasks that a branch's list calls blocked, and done: nothing more is owed to that list for them.
func (r *Run) listedOn(branch string) (blocked, done []string) {
	repo := r.ground.repo
	tip, err := repo.RefCommit(branch)
	if err != nil || tip == "" { // what keeps a branch from being read is said where it is to get a commit
		return nil, nil
	}
	for _, t := range trunk.ListAt(context.WithoutCancel(r.asks.Now), repo, r.job.File, tip) {
		switch {
		case t.Status == tasks.Blocked:
			blocked = append(blocked, t.ID)
		case !t.Status.Open():
			done = append(done, t.ID)
		}
	}
	return blocked, done
}

// resumed writes down that a run begins, with what was found.
func (r *Run) resumed(rest remains) error {
	h, t := r.book.History, &rest.trunk
	r.now, r.kept = t.now, rest.kept
	if r.machine.Ended == "lost" {
		r.told.lost = t.lost
	}
	first := r.begins(t.now.branch)
	var retried []string
	if r.ground.config.Scud.RetryBlocked {
		if retried = r.job.Blocked(); len(retried) > 0 || h.Seq > 0 {
			first.Reason, first.Tasks = journal.ReasonRetry, retried
		}
	}
	lines := []*journal.Event{first}
	if r.told.others {
		e := &journal.Event{Type: journal.Warning, Reason: journal.ReasonChecks,
			Message: "other checks decide than before: what is not done has all its attempts again"}
		for _, open := range h.OpenTasks() {
			e.Tasks = append(e.Tasks, open.ID)
		}
		if len(e.Tasks) > 0 {
			lines = append(lines, e)
		}
	}
	lines = append(lines, rest.merged...)
	lines = append(lines, t.lines...)
	blocked, done := r.listedOn(t.now.branch)
	if t.now.isAside() {
		r.takeBack(done)
	}
	e := scheduler.Resumed{Settings: r.settings(), Limits: r.limits(), List: r.listed(), Chain: t.chain, In: t.in,
		Branch: t.branch, Lost: t.lost, Aside: t.aside, Wave: t.wave, Listed: blocked, Unneeded: done,
		OtherChecks: r.told.others}
	said, err := r.ground.home.Said(r.book.State.Key())
	if err != nil {
		return err
	}
	r.told.asked = said.Asked
	if h.Seq == 0 { // else its journal knows
		e.Known = said.Known
		for _, a := range said.Asked {
			if a.AtEnd && slices.Contains(e.Settings.EndChecks, a.Check) {
				e.Owed = append(e.Owed, a.Check)
			}
		}
	}
	for _, open := range rest.alive {
		e.Alive = append(e.Alive, open.Task)
	}
	r.awayLanes(rest.alive)
	for _, l := range r.lanes {
		e.Lanes = append(e.Lanes, scheduler.Lane{Number: l.number})
	}
	for _, f := range rest.ended {
		u := f.open.Unit
		lines = append(lines, &journal.Event{Type: journal.AgentFinished, Unit: u, Detail: f.left.Detail})
		if f.left.Outcome == scheduler.Finished {
			e.Kept = append(e.Kept, scheduler.Kept{Task: u.Task, USD: f.left.USD})
			continue
		}
		lines = append(lines, &journal.Event{Type: journal.AttemptFinished, Unit: u, Verdict: journal.Cancelled,
			Reason: journal.Killed, Detail: f.left.Detail})
	}
	for _, f := range rest.cut {
		if f.note != "" {
			lines = append(lines, &journal.Event{Type: journal.Warning, Unit: f.open.Unit, Message: f.note})
		}
		lines = append(lines, &journal.Event{Type: journal.AttemptFinished, Unit: f.open.Unit,
			Verdict: journal.Cancelled, Reason: journal.Killed, Ref: f.ref, Tree: f.tree,
			Detail: &journal.Detail{Exit: journal.Exit{End: string(agent.Cancelled), Cause: journal.CauseKilled},
				Files: journal.Files{Changed: f.changed}, Client: journal.Client{
					Log: r.book.Relative(r.ground.home.Log(r.ID(), f.open.Task, f.open.Attempt))}}})
	}
	// the first line carries the event: a run that is folded again begins with it
	if err := r.happenedOn(0, e, lines...); err != nil {
		return err
	}
	for _, open := range rest.alive {
		if t := r.machine.Task(open.Task); t.Stage == scheduler.Running {
			r.goOn(open)
		}
	}
	r.writeAgain()
	if err := r.clearLimits(); err != nil {
		return err
	}
	for _, one := range r.machine.Tasks { // the run's own, and what a person opened meanwhile, or rewound
		if one.Stage == scheduler.Blocked && r.task(one.ID) == nil && r.ground.config.Scud.RetryBlocked {
			retried = append(retried, one.ID)
		}
		was := h.Task(one.ID).Blocked
		if one.Stage == scheduler.Blocked && r.task(one.ID) != nil && r.job.Graph.Status(one.ID).Open() &&
			(was == nil || !r.job.Answered(one.ID, was.TS)) {
			retried = append(retried, one.ID)
		}
	}
	for _, id := range retried {
		if one := r.machine.Task(id); one != nil && one.Stage == scheduler.Blocked {
			if err := r.happened(scheduler.Requested{Request: scheduler.Retry, Task: id}); err != nil {
				return err
			}
		}
	}
	if err := r.list.write(); err != nil {
		return err
	}
	if err := r.acceptsUsed(r.inTrunk()...); err != nil {
		return err
	}
	return r.takeAnswers()
}

// takeBack has the user's list say no longer that tasks are done which a person took back on the branch aside: the run
// wrote it there before. done are those of the branch's list.
func (r *Run) takeBack(done []string) {
	h := r.book.History
	for _, id := range r.job.Graph.Leaves() {
		if r.job.Graph.Status(id) == tasks.Done && h.Task(id).Stand == journal.StandIdle && !slices.Contains(done, id) &&
			slices.ContainsFunc(h.Attempts, func(a *journal.Attempt) bool {
				return a.Task == id && a.Verdict == journal.Verified
			}) {
			r.job.Graph.SetStatus(id, tasks.Pending)
			r.list.pending[id], r.list.unsaved = tasks.Pending, true
		}
	}
}

// writeAgain has the list say once more that tasks are done whose work the branch has: one that says otherwise is an
// older copy.
func (r *Run) writeAgain() {
	for _, t := range r.machine.Tasks {
		if t.Stage == scheduler.Done && !t.ByHand && r.task(t.ID) != nil && r.job.Graph.Status(t.ID).Open() {
			r.job.Graph.SetStatus(t.ID, tasks.Done)
			r.list.pending[t.ID], r.list.unsaved = tasks.Done, true
		}
	}
}

// madeOf is the work that is to be checked or reviewed of a task, found again after a kill.
func (r *Run) madeOf(id string) (*made, error) {
	if m := r.made[id]; m != nil {
		return m, nil
	}
	t := r.machine.Task(id)
	if a := store.Accepted(r.job.Answers, id); t.Accepted && a != nil {
		r.made[id] = r.acceptedOf(id, a)
		return r.made[id], nil
	}
	m := &made{task: r.taskOf(id), unit: r.unit(id), takes: t.Takes}
	number := t.Number
	if f := r.book.History.Task(id).Failure; f.Verdict == journal.Clashed &&
		r.book.History.Attempt(journal.Key{Task: id, Number: number}) == nil {
		number = f.Attempt // no agent ran: it merges by now
	}
	m.unit.Attempt = number
	m.ref = store.RefPrefix(r.ID(), id) + strconv.Itoa(number)
	commit, err := r.ground.repo.RefCommit(m.ref)
	if err == nil && commit == "" {
		err = &gitops.RefusedError{Reason: m.ref + ", which keeps the work on task " + id + ", is gone",
			Hint: "git fetch it from where it is, or start a new run"}
	}
	if err != nil {
		return nil, gitErr("take the work on task "+id, err)
	}
	was, err := r.ground.repo.ReadCommit(commit)
	if err != nil {
		return nil, gitErr("take the work on task "+id, err)
	}
	m.commit, m.from = commit, was.Parent()
	if m.base, err = r.ground.repo.CommitTree(m.from); err != nil {
		return nil, gitErr("take the work on task "+id, err)
	}
	with := config.Choice{}
	m.began = r.ground.tools.Now()
	if a := r.book.History.Attempt(journal.Key{Task: id, Number: number}); a != nil {
		with, m.began = config.Choice{Backend: a.Backend, Model: a.Model}, a.Started
		if a.Slot > 0 {
			m.unit.Slot = a.Slot
		}
		if d := a.Agent; d != nil {
			m.res.Agent = agent.Result{End: agent.End(d.End), Cause: agent.Cause(d.Cause), Code: d.Code,
				Signal: d.Signal, Complete: d.Claimed, Blocked: d.Blocked, Question: d.Question, Final: d.Words,
				Session: d.Session, Model: d.Model}
		}
	}
	m.in = r.input(m, with)
	w := &m.res.Work
	w.Before, w.Seen, w.After = m.base, was.Tree, was.Tree
	if n := len(was.Parents); n > 1 && was.Parents[n-1] != m.takes {
		w.Commits = was.Parents[n-1]
	}
	if w.Changed, err = r.ground.repo.Changed(r.asks.Now, m.base, was.Tree); err != nil {
		return nil, gitErr("take the work on task "+id, err)
	}
	if m.res.Changed = len(w.Changed); m.res.Agent.End == "" {
		m.res.Agent = agent.Result{End: agent.Finished, Complete: true}
	}
	r.made[id] = m
	return m, nil
}
