package tagrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
)

// endings is what the words of a run's end are made of, each as it was said last.
type endings struct {
	request string // why a person or a signal asked it to end
	breaker string // what opened the breaker
	tip     string // that the untouched tip fails as a task did, which opens it
	half    bool   // the breaker was open when the run was resumed
	why     string // of an action at the trunk: what clashes, or fails
	full    string // that a disk is full
	base    *loop.Outcome
	err     error // that left an action without a result
	stopped error // by which a request cut git short
}

// outcome is how the run ends, in words.
func (r *Run) outcome(e scheduler.End) loop.Outcome {
	c := r.ground.config
	unusable := loop.Outcome{}
	if e.Why == "agent" {
		unusable = r.known().NobodyCan(r.accounts())
	}
	if e.Halt != "" && (e.Why == "blocked" || e.Why == "asks" || e.Why == "agent" && unusable.Message == "") {
		e.Why = e.Halt // a resume goes on with what is left
	}
	switch e.Why {
	case "done":
		if r.machine.Settings.Step && r.isOpen() {
			return loop.Outcome{Ending: journal.StepDone}
		}
		return loop.Outcome{Ending: journal.AllDone}
	case "blocked":
		return loop.Outcome{Ending: journal.TasksBlocked}
	case "asks":
		return loop.Outcome{Ending: journal.TasksBlocked, Asks: true}
	case "agent":
		if unusable.Message != "" {
			return unusable
		}
		return loop.Outcome{Ending: journal.TasksBlocked} // whether all of them crashed, the journal says
	case "stopped":
		return loop.Outcome{Ending: journal.UserCancelled, Message: cmp.Or(r.ends.request, "interrupted") + r.cutShort()}
	case "term":
		return loop.Outcome{Ending: journal.Interrupted, Message: loop.ErrTerminated.Error() + r.cutShort()}
	case "paused":
		return loop.Outcome{Ending: journal.Paused, Message: cmp.Or(r.ends.request, "paused by request")}
	case "quota":
		return r.known().UsedUp(r.accounts())
	case "limit":
		n := r.machine.Limits.Total
		word := fmt.Sprintf("%d attempts", n)
		if n == 1 {
			word = "1 attempt"
		}
		return loop.Outcome{Ending: journal.LimitReached, Message: fmt.Sprintf("the limit of %s in all is reached", word)}
	case "cost", "deadline":
		if out := loop.UsedUp(c, r.ground.tools.Now(), r.book.History.Cost); out != nil {
			return *out
		}
		return loop.Outcome{Ending: journal.CostReached}
	case "breaker":
		return loop.Outcome{Ending: journal.BreakerOpen, Message: r.ends.breaker}
	case "baseline":
		if r.ends.base != nil {
			return *r.ends.base
		}
		return loop.Outcome{Ending: journal.BaselineFails, Message: r.ends.why}
	case "lost":
		return loop.Outcome{Ending: journal.Paused, Lost: e.Tasks, Message: fmt.Sprintf("%s lost the work on %s, which this run had committed: "+
			"resume the run to have that done again; if you bring it back first (git revert, or git reflog has it), or it is "+
			"there in another form, set it to done: descartes tasks set %s done",
			cmp.Or(trunk.ShortRef(r.now.branch), "HEAD"), oneline.List(e.Tasks), e.Tasks[0])}
	case "aside":
		return loop.Outcome{Ending: journal.GitRefused, Message: cmp.Or(r.ends.why,
			"the commits are on "+trunk.ShortRef(r.now.branch))}
	case "push":
		return loop.Outcome{Ending: journal.AllDone}
	case "git":
		return r.gitRefuses()
	case "moves":
		return loop.Outcome{Ending: journal.GitRefused, Message: fmt.Sprintf("%s gets commits faster than the run can take "+
			"them in: %d times in a row it was another one when it was to get the run's", trunk.ShortRef(r.now.branch),
			r.machine.Trunk.Moved)}
	case "disk":
		return loop.Outcome{Ending: journal.DiskFull, Message: cmp.Or(r.ends.full, "the disk is full: "+errText(r.ends.err))}
	case "step":
		return loop.Outcome{Ending: journal.StepDone}
	case "left":
		return loop.Outcome{Ending: journal.OwnError, Message: "tasks are left, and nothing lets them come",
			Err: errors.New("tasks are left, and nothing lets them come")}
	}
	if r.ends.base != nil {
		return *r.ends.base
	}
	err := r.ends.err
	if err == nil {
		err = errors.New("it could not go on")
	}
	return loop.Outcome{Ending: journal.OwnError, Message: err.Error(), Err: err}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// isOpen reports whether a task is left that a later step does.
func (r *Run) isOpen() bool {
	return slices.ContainsFunc(r.machine.Tasks, func(t *scheduler.Task) bool { return t.Stage == scheduler.Pending })
}

// cutShort says what of git's a request to stop cut short, or "".
func (r *Run) cutShort() string {
	if r.ends.stopped == nil {
		return ""
	}
	return ": " + r.ends.stopped.Error() + keptWork
}

// keptWork is said of a commit that was cut short.
const keptWork = "; the work is kept, and resuming the run commits it"

func (r *Run) gitRefuses() loop.Outcome {
	out := loop.Outcome{Ending: journal.GitRefused, Message: errText(r.ends.err)}
	if refused, ok := errors.AsType[*gitops.RefusedError](r.ends.err); ok && refused.Hint != "" {
		out.Message += "; to fix it: " + refused.Hint
	}
	if isStopped(r.ends.err) {
		out.Message += keptWork
	}
	return out
}

// refused ends a run that could not begin.
func (r *Run) refused(err error) (loop.Outcome, error) {
	start, ok := errors.AsType[*startError](err)
	if !ok {
		return r.fail(err)
	}
	r.ends.err = start.err
	out := loop.Outcome{Ending: journal.OwnError, Message: start.Error(), Err: start.err}
	_, git := errors.AsType[*slot.GitError](start.err)
	_, gone := errors.AsType[*trunkGone](start.err)
	switch {
	case gone:
		out = loop.Outcome{Ending: journal.TrunkGone, Message: start.Error()}
	case loop.DiskFull(start.err):
		out = loop.Outcome{Ending: journal.DiskFull, Message: "the disk is full: " + start.Error()}
	case r.asks.Now.Err() != nil:
		out = loop.Outcome{Ending: journal.UserCancelled, Message: "interrupted"}
	case git:
		out = r.gitRefuses()
	}
	if err := r.book.Write(r.begins("")); err != nil {
		return r.fail(err)
	}
	return r.close(out, scheduler.End{Why: "git", Code: 5})
}

// fail ends a run that cannot write its journal any more.
func (r *Run) fail(err error) (loop.Outcome, error) {
	r.asks.Close()
	for r.busy > 0 {
		select {
		case <-r.did:
			r.busy--
		case s := <-r.said:
			s.done <- err
		}
	}
	if loop.DiskFull(err) {
		r.ends.full = "the disk is full: " + err.Error()
		return loop.Outcome{Ending: journal.DiskFull, Message: r.ends.full}, r.drop()
	}
	return loop.Outcome{Ending: journal.OwnError, Message: err.Error(), Err: err}, err
}

// drop removes the slots of a run that ends because their disk is full: what agents left there would fill it at each
// resume. Their work is under its refs.
func (r *Run) drop() (err error) {
	g := &r.ground
	if g.tools.Free == nil || loop.Room(g.tools.Free, max(g.config.MinFreeDisk, 1), g.tools.Pool) == "" {
		return nil
	}
	for _, s := range r.seats {
		err = errors.Join(err, s.slot.Drop())
	}
	return err
}

// end ends the run: what was made is named, pushed and written down.
func (r *Run) end(ctx context.Context, e scheduler.End) (loop.Outcome, error) {
	ctx = context.WithoutCancel(ctx)
	g := &r.ground
	out := r.outcome(e)
	if out.Ending == journal.DiskFull {
		if err := r.drop(); err != nil {
			return r.fail(err)
		}
	}
	if err := errors.Join(r.tellHeld(), r.shelve()); err != nil {
		return r.fail(err)
	}
	if e.Why == "lost" { // done is what the branch has
		open := map[string]string{}
		for _, id := range e.Tasks {
			open[id] = "pending"
		}
		if err := r.statuses(open); err != nil {
			return r.fail(err)
		}
	}
	var removed []gitops.Ref
	var ids []string
	for _, t := range r.machine.Tasks {
		ids = append(ids, t.ID)
	}
	by := r.verifiedBy(ids)
	if err := r.await(func(context.Context) func() error {
		commits, err := r.now.commits(g)
		if err == nil {
			err = writeReceipts(ctx, g, commits, by, r.voice(journal.Unit{}))
		}
		if err == nil {
			removed, err = leaveTrunk(ctx, g, r.now)
		}
		gctx, done := attempt.Linger(ctx)
		defer done()
		serr := r.share(gctx)
		return func() error { return errors.Join(err, serr) }
	}); err != nil && out.Ending.Final() {
		out = loop.Outcome{Ending: journal.GitRefused, Message: err.Error()}
	}
	if err := r.list.write(); err != nil {
		return r.fail(err)
	}
	if out.Ending == journal.BaselineFails && r.imported && r.book.History.Iteration == 0 {
		r.unmake()
	}
	if r.list.unread != nil && len(r.list.pending) > 0 && out.Ending.Final() {
		out = loop.Outcome{Ending: journal.Paused, Message: fmt.Sprintf(
			"the task list cannot be read, and lacks what is done: %v", r.list.unread)}
	}
	if head, err := g.repo.Head(ctx); err == nil && head.Branch != r.now.branch && r.now.branch != "" &&
		len(r.book.History.WaveCommits) > 0 {
		out.Branch = trunk.ShortRef(r.now.branch)
	}
	out.Commits = r.commits(ctx)
	if out.Branch != "" || len(r.now.chain.Units) > 0 {
		out.Merging = g.repo.Merging(ctx, cmp.Or(out.Branch, r.now.chain.Ref))
	}
	if g.config.Git.Push && out.Ending != journal.DiskFull && out.Ending != journal.BaselineFails {
		if err := r.await(func(context.Context) func() error {
			hooks, over := r.asks.Committing(nil) // not ended by what ended the run
			defer over()
			res, unpushed, err := push(hooks, g, r.now, removed, r.voice(journal.Unit{}))
			return func() error {
				if out.Unpushed = unpushed; err != nil {
					return err
				}
				return r.happened(res.event, res.lines...)
			}
		}); err != nil {
			return r.fail(err)
		}
		e = r.endAgain(e)
	}
	return r.close(out, e)
}

// endAgain asks the machine once more how it ends, which a push may have changed.
func (r *Run) endAgain(e scheduler.End) scheduler.End {
	if todo := r.machine.Next(r.ground.tools.Now()); len(todo) == 1 {
		if now, ok := todo[0].(scheduler.End); ok {
			return now
		}
	}
	return e
}

// close records the end, and saves everything.
func (r *Run) close(out loop.Outcome, e scheduler.End) (loop.Outcome, error) {
	g, h := &r.ground, r.book.History
	blocked := h.Blocked()
	blocked = slices.DeleteFunc(blocked, func(e *journal.Event) bool { return e.Spoken().Question != "" })
	out.Blocked = len(blocked)
	out.Crashed = out.Blocked > 0 && !slices.ContainsFunc(blocked,
		func(b *journal.Event) bool { return b.Verdict != journal.Crashed })
	counts := journal.TaskCounts(r.job.Graph.Counts())
	totals := journal.Totals{Tasks: &counts, Attempts: h.Iteration, Commits: len(h.WaveCommits), Cost: h.Cost}
	line := &journal.Event{Type: journal.LoopFinished, Reason: string(out.Ending), Message: out.Message,
		Branch: out.Branch, Detail: &journal.Detail{Exit: journal.Exit{End: string(out.Ending)}, Closing: journal.Closing{
			Totals: &totals, Unpushed: out.Unpushed, Merging: out.Merging, Commits: out.Commits,
			Lost: out.Lost}}}
	if out.Ending == journal.Paused {
		line.Type = journal.LoopPaused
	}
	if !out.Until.IsZero() {
		line.Detail.Until = &out.Until
	}
	if g.tools.Code != nil {
		line.Detail.Code = g.tools.Code(out)
	}
	handoff := ""
	if g.config.Scud.HandoffPath != "" && out.Ending != journal.AllDone {
		handoff = loop.TagHandoff(r.ID(), r.job, h, g.tools.Now(), &out)
	}
	gave := r.give() // an agent may have changed it; what a kill leaves of it half written goes with the resume
	err := r.happened(scheduler.Ended(e), line)
	if err == nil {
		err = r.list.write()
	}
	if err == nil && g.config.Scud.HandoffPath != "" { // where all is done, none is left in it
		err = store.WriteHandoff(g.tools.FS, g.root, g.config.Scud.HandoffPath, g.tools.Redact.Text(handoff))
	}
	if err == nil {
		err = errors.Join(gave, g.home.ClearRequest(r.ID()))
	}
	if out.Ending == journal.DiskFull && loop.DiskFull(err) {
		r.ends.full = cmp.Or(r.ends.full, "the disk is full")
		return out, nil // otherwise a resume finds a killed loop
	}
	if err == nil && out.Ending == journal.OwnError {
		err = out.Err
	}
	return out, err
}

// shelve returns half-done tasks to the list: nobody works on them now. The journal still knows how far they were.
func (r *Run) shelve() error {
	changes := map[string]string{}
	for _, open := range r.book.History.OpenTasks() {
		if t := r.machine.Task(open.ID); t != nil && t.Stage == scheduler.Merged {
			continue // it is in-progress until the branch has it
		}
		changes[open.ID] = "pending"
	}
	return r.statuses(changes)
}

// unmake removes the task list that this start made from the plan: a run that was refused leaves nothing behind.
func (r *Run) unmake() {
	path := r.job.File.Path()
	if os.Remove(path) == nil {
		_ = os.Remove(filepath.Dir(path)) // succeeds only if it is empty
		_ = os.Remove(filepath.Dir(filepath.Dir(path)))
	}
}

// share keeps what is blocked, and what is asked, with the answers: the next run has it, in any clone. It is slow;
// nothing else is at work.
func (r *Run) share(ctx context.Context) error {
	g := &r.ground
	of := map[string]*journal.Event{}
	for _, e := range r.book.History.Blocked() {
		of[e.Task] = e
	}
	var blocked []store.Asked
	tip, err := r.now.head(ctx, g)
	if err != nil {
		return err
	}
	err = g.home.EditSaid(ctx, g.tools.FS, r.book.State.Key(), func(s *store.Said) bool {
		for _, id := range r.job.Blocked() {
			if e := of[id]; e != nil {
				blocked = append(blocked, store.Asked{Loop: r.ID(), Task: id, Title: e.Title, Reason: e.Reason,
					Question: e.Spoken().Question, Attempts: e.Attempt, At: e.TS})
			} else if i := slices.IndexFunc(s.Asked, func(a store.Asked) bool { return a.Task == id }); i >= 0 {
				blocked = append(blocked, s.Asked[i])
			}
		}
		for _, t := range r.machine.Tasks {
			if e := of[t.ID]; t.Check != "" && e != nil {
				blocked = append(blocked, store.Asked{Loop: r.ID(), Task: t.ID, Title: e.Title, Reason: e.Reason,
					Question: e.Spoken().Question, Attempts: e.Attempt, At: e.TS, Check: t.Check,
					AtEnd: t.Wave == scheduler.EndWave, Tip: tip})
			}
		}
		for _, a := range s.Asked { // no check of the end came to say otherwise
			if a.AtEnd && r.machine.IsOwed(a.Check) && !slices.ContainsFunc(blocked, func(b store.Asked) bool { return b.Task == a.Task }) {
				blocked = append(blocked, a)
			}
		}
		if slices.EqualFunc(blocked, s.Asked, store.Asked.Same) && slices.Equal(s.Known, r.machine.Accepted) { // another commit would be in the way of a person's push
			return false
		}
		s.Asked, s.AskedAt, s.Known = blocked, g.tools.Now(), r.machine.Accepted
		return true
	})
	if err == nil {
		err = r.sayings().Share(ctx, "")
	}
	if err != nil && ctx.Err() == nil {
		err = r.voice(journal.Unit{}).note(fmt.Sprintf("what is asked reaches no other clone: %v", err))
	}
	return err
}

// commits is how many of the branch's newest commits have all of the run's; 0 if that is not known.
func (r *Run) commits(ctx context.Context) int {
	links := r.now.chain.Links
	head, err := r.now.head(ctx, &r.ground)
	if err != nil || head == "" || len(links) == 0 || links[0].Head == "" {
		return 0
	}
	all, err := r.ground.repo.News(ctx, links[0].Head, head, "", "")
	ours := slices.IndexFunc(all, func(c gitops.ChainLink) bool {
		return slices.Contains(c.Trailers["Descartes-Loop"], r.ID())
	})
	if err == nil && ours > 0 {
		all = all[ours:]
	}
	return len(all)
}

// lastLine is the last line of a text that says something.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
