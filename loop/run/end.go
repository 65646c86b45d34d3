package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/book"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
)

// endings is what the words of a run's end are made of, each as it was said last.
type endings struct {
	request  string // why a person or a signal asked it to end
	question string // an agent's
	asker    string // who asks it, if not the agent of the try
	plans    string // why the next iteration plans
	made     string // why the last one did
	lacks    *loop.Outcome
	failure  loop.Failure // of the last try that failed
	refused  error        // by git, of a commit
	apart    string       // why the user's tree did not take the work
	clash    *gitops.RefusedError
	message  string        // of a full disk
	full     bool          // the disk
	err      error         // that left an action without a result
	whole    *loop.Outcome // of checks of the untouched tree, or of the end, that fail
}

// outcome is how the run ends, in words.
func (r *Run) outcome(a *prompt.Action) loop.Outcome {
	d, n := r.voice.last, r.machine.At.Try.Number
	switch a.Why {
	case prompt.IsDone:
		out := loop.Outcome{Ending: journal.GateDone, Message: d.Reason}
		if r.job.Gate == nil {
			out.Ending = journal.CommandSucceeded
		} else if r.job.Config.Promised() {
			out.Ending = journal.PromiseSeen
		}
		return out
	case prompt.Nothing:
		return *r.ends.lacks
	case prompt.Stopped:
		return loop.Outcome{Ending: journal.UserCancelled, Message: cmp.Or(r.ends.request, "interrupted") + r.cutShort()}
	case prompt.Terminated:
		return loop.Outcome{Ending: journal.Interrupted, Message: loop.ErrTerminated.Error() + r.cutShort()}
	case prompt.Paused:
		if r.ends.request == "" && r.ends.err != nil {
			return loop.Outcome{Ending: journal.Paused, Message: r.ends.err.Error()}
		}
		return loop.Outcome{Ending: journal.Paused, Message: cmp.Or(r.ends.request, "paused by request")}
	case prompt.IsApart:
		out := loop.Outcome{Ending: journal.GitRefused, Message: r.ends.apart}
		out.Merging = r.tools.Repo.Taking(context.Background(), r.place.iterationRef(n))
		return out
	case prompt.IsClash:
		out := loop.Outcome{Ending: journal.GitRefused, Message: "what was committed meanwhile and the work do not go together"}
		if c := r.ends.clash; c != nil {
			out.Message = c.Reason + "; to fix it: " + c.Hint
		}
		return out
	case prompt.GitRefuses:
		return r.gitRefuses()
	case prompt.Quota:
		return r.known().UsedUp(r.machine.Among())
	case prompt.Crashing:
		if r.machine.At.Try.Number >= r.machine.Limits.Iterations && !r.machine.Rows.Crashes.IsOpen() {
			return loop.Outcome{Ending: journal.LimitReached, Crashed: true, Message: r.limitText()}
		}
		return loop.Outcome{Ending: journal.AgentUnusable, Message: fmt.Sprintf("the agent failed %d times in a row: %s",
			r.machine.Rows.Crashes.InRow(), r.lastReason())}
	case prompt.NobodyCan:
		return r.known().NobodyCan(r.machine.Among())
	case prompt.BaseFails, prompt.LastFails:
		return *r.ends.whole
	case prompt.AgentFails, prompt.TestsFail, prompt.NoPlan:
		if r.ends.lacks != nil && a.Why == prompt.NoPlan {
			return *r.ends.lacks
		}
		ending := map[prompt.Why]journal.Ending{prompt.AgentFails: journal.AgentUnusable,
			prompt.TestsFail: journal.TestsFailed, prompt.NoPlan: journal.PlanMissing}[a.Why]
		return loop.Outcome{Ending: ending, Message: r.failedTimes()}
	case prompt.AtLimit:
		if cmp.Or(d.Breaker, d.Gate) == gate.BreakIterations {
			return r.asksPerson(&d)
		}
		return loop.Outcome{Ending: journal.LimitReached, Message: r.limitText()}
	case prompt.AtCost, prompt.AtDeadline:
		if cmp.Or(d.Breaker, d.Gate) == gate.BreakBudget {
			return r.asksPerson(&d)
		}
		if out := loop.UsedUp(&r.job.Config, r.tools.Now(), r.book.History.Cost); out != nil {
			return *out
		}
		return loop.Outcome{Ending: journal.CostReached}
	case prompt.Asks:
		if r.machine.Say.What == prompt.OfAgent {
			q := cmp.Or(r.ends.question, r.lastQuestion())
			return loop.Outcome{Ending: journal.GateAsks, Message: "the " + cmp.Or(r.ends.asker, "agent") + " asks: " + oneline.Text(q), Question: q}
		}
		return r.asksPerson(&d)
	case prompt.IsBlocked:
		return loop.Outcome{Ending: journal.GateBlocked, Message: d.Reason}
	case prompt.IsOpen:
		return r.asksPerson(&d)
	}
	return r.error()
}

// cutShort says what of git's a request to stop cut short, or "".
func (r *Run) cutShort() string {
	if !isStopped(r.ends.err) {
		return ""
	}
	return ": " + r.ends.err.Error() + "; the work is kept, and resuming the run commits it"
}

// asksPerson is the end of a run whose gate waits for a person.
func (r *Run) asksPerson(d *gate.Decision) loop.Outcome {
	out := loop.Outcome{Ending: journal.BreakerOpen, Message: d.Reason, Until: d.Until}
	switch cmp.Or(d.Breaker, d.Gate) {
	case gate.BreakBudget:
		out.Ending = journal.CostReached
	case gate.BreakIterations:
		out.Ending = journal.LimitReached
	default:
		if d.Kind == gate.Ask {
			out.Ending, out.Message = journal.GateAsks, cmp.Or(d.Question, d.Reason)
		}
	}
	return out
}

func (r *Run) gitRefuses() loop.Outcome {
	err := cmp.Or(r.ends.refused, r.ends.err)
	out := loop.Outcome{Ending: journal.GitRefused}
	if r.machine.Settings.Mode != prompt.Loop && r.machine.Rows.Cause == prompt.ByGit && r.ends.failure.Reason != "" {
		out.Message = r.failedTimes()
		return out
	}
	if err == nil {
		return out
	}
	out.Message = err.Error()
	if refused, ok := errors.AsType[*gitops.RefusedError](err); ok && refused.Hint != "" {
		out.Message += "; to fix it: " + refused.Hint
	}
	if _, stopped := errors.AsType[*gitops.StoppedError](err); stopped {
		out.Message += "; the work is kept, and resuming the run commits it"
	}
	return out
}

// failedTimes says that an iteration had all its tries.
func (r *Run) failedTimes() string {
	return fmt.Sprintf("iteration %d failed %d times: %s", r.machine.At.Try.Number, r.machine.Rows.Tries,
		cmp.Or(r.ends.failure.Reason, r.lastReason()))
}

func (r *Run) lastReason() string {
	if last := r.book.History.Prompt.Last; last != nil {
		return cmp.Or(last.Reason, last.Message)
	}
	return ""
}

func (r *Run) lastQuestion() string {
	if last := r.book.History.Prompt.Last; last != nil && last.Detail != nil {
		return last.Detail.Question
	}
	return ""
}

func (r *Run) limitText() string {
	return "the limit of " + iterations(r.machine.Limits.Iterations) + " is reached"
}

func iterations(n int) string {
	if n == 1 {
		return "1 iteration"
	}
	return fmt.Sprintf("%d iterations", n)
}

// error is the end of a run by an error of ours, or of the machine.
func (r *Run) error() loop.Outcome {
	err := r.ends.err
	switch {
	case r.ends.full:
		return loop.Outcome{Ending: journal.DiskFull, Message: r.ends.message}
	case loop.DiskFull(err):
		return loop.Outcome{Ending: journal.DiskFull, Message: "the disk is full: " + err.Error()}
	case r.ends.lacks != nil:
		return *r.ends.lacks
	case err == nil:
		err = errors.New("it could not go on")
	}
	return loop.Outcome{Ending: journal.OwnError, Message: err.Error(), Err: err}
}

// fails ends a run that cannot write its journal any more.
func (r *Run) fails(_ context.Context, err error) (loop.Outcome, error) {
	for r.busy {
		select {
		case <-r.did:
			r.busy = false
		case s := <-r.said:
			s.done <- err
		}
	}
	r.ends.err = err
	out := r.error()
	if r.ends.full = out.Ending == journal.DiskFull; r.ends.full {
		err = r.place.drop(&r.tools, r.job.Config.MinFreeDisk)
	}
	return out, err
}

// end ends the run: what was made is named, pushed and written down.
func (r *Run) end(ctx context.Context, a prompt.Action) (loop.Outcome, error) {
	ctx = context.WithoutCancel(ctx)
	out := r.outcome(&a)
	var lines []*journal.Event
	if out.Ending == journal.DiskFull {
		if err := r.place.drop(&r.tools, r.job.Config.MinFreeDisk); err != nil {
			lines = append(lines, book.Warning(journal.Unit{}, err.Error()))
		}
	}
	if text := r.owed(ctx); text != "" {
		lines = append(lines, book.Warning(journal.Unit{Iteration: r.book.History.Iteration}, text))
	}
	if r.ends.apart != "" && a.Why == prompt.IsApart {
		lines = append(lines, book.Warning(r.unit(), r.ends.apart+"; to bring it here: "+out.Merging))
	}
	if r.place.kind == prompt.Branch {
		if out.Branch = r.place.elsewhere(ctx); out.Branch != "" {
			out.Merging = cmp.Or(out.Merging, r.tools.Repo.Merging(ctx, out.Branch))
		}
		out.Commits = r.commits(ctx)
	}
	if pushes(&r.job.Config, &out) {
		hooks, over := r.asks.Committing(nil) // not ended by what ended the run
		unpushed, line, err := push(hooks, r.place)
		if over(); err != nil {
			return out, err
		}
		if out.Unpushed = unpushed; line != nil {
			lines = append(lines, line)
		}
	}
	h := r.book.History
	word := out.Ending
	if word == journal.AgentUnusable || word == journal.GitRefused { // the state file has one word for all errors
		word = journal.OwnError
	}
	totals := journal.Totals{Iterations: new(h.Iteration), Attempts: len(h.Attempts), Commits: h.Prompt.Commits,
		Cost: h.Cost}
	line := &journal.Event{Type: journal.LoopFinished, Unit: journal.Unit{Iteration: h.Iteration},
		Reason: string(word), Message: out.Message, Branch: out.Branch, Detail: &journal.Detail{
			Exit: journal.Exit{End: string(out.Ending)}, Closing: journal.Closing{Totals: &totals,
				Unpushed: out.Unpushed, Merging: out.Merging, Commits: out.Commits}}}
	if out.Ending == journal.Paused {
		line.Type = journal.LoopPaused
	}
	if !out.Until.IsZero() {
		line.Detail.Until = &out.Until
	}
	if r.tools.Code != nil {
		line.Detail.Code = r.tools.Code(out)
	}
	err := errors.Join(r.book.Write(r.endLoopFile(&out)...), r.happened(prompt.Ended{Why: a.Why}, append(lines, line)...))
	if err == nil {
		err = r.book.Save()
	}
	if err == nil {
		if path := r.job.Config.PromptHandoff; path != "" && !out.Ending.Final() {
			err = store.WriteHandoff(r.tools.FS, r.root, path, r.tools.Redact.Text(r.handoff(&out)))
		}
	}
	if err == nil { // an agent may have changed it
		err = errors.Join(r.home.Give(r.tools.FS, r.book.State), r.home.ClearRequest(r.ID()))
	}
	if out.Ending == journal.DiskFull && loop.DiskFull(err) {
		r.ends.full = true
		return out, nil // otherwise a resume finds a killed loop
	}
	if err == nil && out.Ending == journal.OwnError {
		err = out.Err
	}
	return out, err
}

// owed says where the work is that did not pass, or "".
func (r *Run) owed(ctx context.Context) string {
	owed, p := r.machine.Then.Owed, r.place
	if owed == (prompt.Try{}) || p.kind == prompt.Folder {
		return ""
	}
	ref := p.tryRef(owed)
	if at, err := p.repo.RefCommit(p.iterationRef(owed.Number)); err == nil {
		if last, err := p.repo.RefCommit(ref); err == nil && at == last {
			ref = p.iterationRef(owed.Number)
		}
	}
	const kept, on = "it is kept as ", ", and resuming the run continues from it"
	switch {
	case r.machine.Rows.Cause == prompt.ByGit:
		return "what was done since the last commit is in no commit: " + kept + ref + on
	case p.kind == prompt.Branch:
		return "what was done since the last commit was not verified and is in no commit: " + kept + ref + on
	}
	return "what was done last was not verified and is not in your tree: " + kept + ref + on + "; to bring it here: " +
		p.repo.Taking(ctx, ref)
}

// commits is how many of the branch's newest commits have all of the run's; 0 if that is not known.
func (r *Run) commits(ctx context.Context) int {
	head, err := r.place.head(ctx)
	list := r.book.History.Attempts
	if err != nil || head == "" || len(list) == 0 || list[0].Begin == nil || list[0].Begin.Commit == "" {
		return 0
	}
	all, err := r.tools.Repo.News(ctx, list[0].Begin.Commit, head, "", "")
	if err != nil {
		return 0
	}
	return len(all)
}

// endLoopFile removes .loop/state.json if the settings say so, or if the loop was cancelled.
func (r *Run) endLoopFile(out *loop.Outcome) []*journal.Event {
	if _, criteria := loop.Deciding(r.job.Gate).(*gate.Criteria); !criteria {
		return nil
	}
	lines := r.writeLoopFile()
	asked, _ := r.home.Asked(r.ID())
	cancelled := asked == store.RequestCancel && out.Ending == journal.UserCancelled
	if loop.DropsLoopFile(r.job.Config, out.Ending.Final(), cancelled) {
		if err := errors.Join(loop.RemoveLoopFile(r.job.Dir), loop.RemoveLoopFile(r.agentDir())); err != nil {
			lines = append(lines, book.Warning(journal.Unit{}, err.Error()))
		}
	}
	return lines
}

// mostPaths limits the paths that a handoff names.
const mostPaths = 40

// handoff is what the next session needs to continue the prompt.
func (r *Run) handoff(out *loop.Outcome) string {
	var b strings.Builder
	h, id := r.book.History, r.ID()
	fmt.Fprintf(&b, "## Where run %s stopped\n\n", id)
	fmt.Fprintf(&b, "It stopped on %s after %s: %s.\n", r.tools.Now().Format(time.RFC1123Z), iterations(h.Iteration),
		oneline.Text(cmp.Or(out.Message, out.Ending.Words())))
	if e := h.Prompt.Last; e != nil {
		fmt.Fprintf(&b, "\n### Iteration %d\n\n", e.Iteration)
		if text := oneline.Text(cmp.Or(e.Reason, e.Message)); text != "" {
			fmt.Fprintf(&b, "- %s\n", text)
		}
		if len(e.Paths) > 0 {
			fmt.Fprintf(&b, "- it changed %s\n", oneline.Text(strings.Join(e.Paths[:min(mostPaths, len(e.Paths))], ", ")))
		}
		if words := loop.LastWords(h.Attempts[len(h.Attempts)-1].Agent); words != "" {
			fmt.Fprintf(&b, "- its agent's last words: %s\n", words)
		}
		if next := strings.TrimSpace(e.Next); next != "" {
			fmt.Fprintf(&b, "\n%s\n", loop.Tail(next, loop.MaxWords))
		}
	}
	fmt.Fprintf(&b, "\n### Continue\n\n    descartes resume --name %s%s\n    descartes answer --name %s --edit     # tell the next iteration's agent something\n",
		id, loop.More(out, &r.job.Config, r.job.Config.MaxIterations), id)
	return b.String()
}
