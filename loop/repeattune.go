package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/specbuild"
)

// loopKey is under which a text for a prompt loop's next iteration is kept. No tag has a colon.
func loopKey(id string) string { return "loop:" + id }

// promptKey stands where a tag's text has its task.
const promptKey = "prompt"

// TunePrompt keeps a text for the next iteration of a prompt loop, which is given it word for word; ""
// forgets the one that was kept.
func (h Home) TunePrompt(fsys atomicfile.FS, id, text string) error {
	if text == "" {
		return h.Untune(fsys, loopKey(id), promptKey)
	}
	return h.Tune(fsys, loopKey(id), promptKey, text)
}

// TunedPrompt is the text kept for the next iteration of a prompt loop; "" if there is none.
func (h Home) TunedPrompt(id string) (string, error) { return h.Tuned(loopKey(id), promptKey) }

// keptPrompt is where the prompt of an iteration is kept.
func (h Home) keptPrompt(id string, iteration, try int) string {
	return h.keptSpec(id, fmt.Sprintf("iteration-%d", iteration), try)
}

// prompt is the text that an iteration's agent is given: what a person chose for it, else the composed
// one with the handoff and what reviews advise.
func (r *Repeat) prompt(t *turn) (string, error) {
	text, err := r.home.TunedPrompt(r.state.ID)
	if err != nil || text != "" {
		t.tuned = text != ""
		return text, err
	}
	if text, err = r.compose(t.Turn); err != nil {
		return "", err
	}
	more := ""
	if hand := strings.TrimSpace(r.hand); hand != "" {
		more = "## Handoff\n\nWhat an earlier session left for this one:\n\n" + hand
	}
	if list := r.history.Refinements[""]; len(list) > 0 {
		more = joinText(more, "## Advice from reviews of the earlier iterations", strings.Join(list, "\n\n"))
	}
	if more == "" {
		return text, nil
	}
	return joinText(text, more) + "\n", nil
}

// readHandoff reads the handoff file, which need not be there yet.
func (r *Repeat) readHandoff() (err error) {
	if p := r.job.Config.PromptHandoff; p != "" {
		if r.hand, err = readText(r.job.Root, p, maxSpecFile); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}

// spent puts aside what an iteration was told, and the text that a person had chosen for it.
func (r *Repeat) spent(t *turn) {
	to := r.home.keptPrompt(r.state.ID, t.Iteration, t.Try)
	putAside(r.promptFile(), to)
	if t.tuned && t.Result.End != agent.Limited && t.Result.End != agent.Cancelled {
		_ = r.home.TunePrompt(r.tools.FS, r.state.ID, "") // at worst it is used once more
	}
}

// refine has a second agent look at an iteration that failed, and keeps what it advises for all later
// ones. A review that comes to nothing costs the loop nothing.
func (r *Repeat) refine(ctx context.Context, stop *stopper) (ran bool, _ error) {
	b := &r.history.Prompt
	last := b.Last
	if !r.job.Config.AutoTune || last == nil || b.Reviewed == last.Iteration || !b.Troubled || stop.asked(ctx) != nil {
		return false, nil
	}
	t := &turn{started: r.tools.Now(), with: r.job.Config.Choices(nil)[0]}
	t.Iteration, t.Try, t.Max = last.Iteration, last.Attempt, r.job.Config.MaxIterations
	t.log = strings.TrimSuffix(r.home.TurnLog(r.state.ID, t.Iteration, t.Try), ".log") + ".tune.log"
	if err := r.lookBefore(ctx, t); err != nil {
		return false, err
	}
	var before gitops.Tree
	diff := ""
	if r.tools.Repo != nil {
		if _, err := r.inTree(ctx, func() (err error) {
			if before, err = r.tools.Repo.Snapshot(ctx); err == nil && b.Base != "" {
				diff, err = r.tools.Repo.Patch(ctx, gitops.Tree(b.Base), before, maxReviewDiff)
			}
			return err
		}); err != nil {
			return false, gitErr("look at the work of the last iteration", err)
		}
	}
	kept, _ := plainfile.Read("", r.home.keptPrompt(r.state.ID, t.Iteration, t.Try), maxKept) // without it the rest has to do
	prompt := specbuild.ReviewPrompt(specbuild.Review{Name: fmt.Sprintf("iteration %d of a prompt", t.Iteration), Spec: string(kept), Diff: diff,
		Earlier: r.history.Refinements[""], Failure: specbuild.Failure{Attempt: t.Iteration, Verdict: string(last.Decision), Reason: orElse(last.Reason, last.Message), Output: last.Next, Words: b.Words}})
	q := r.request(t, prompt)
	q.Label, q.PromptFile, q.Session = label(t, "review"), filepath.Join(r.home.Run(r.state.ID), "review.md"), ""
	q.Env = append(q.Env, "DESCARTES_REVIEW=1") // for agents that are scripts
	actx, done := stop.watch(ctx)
	defer done()
	res, err := r.tools.Agent.Run(actx, q)
	if err != nil {
		return false, fmt.Errorf("review iteration %d: %w", t.Iteration, err)
	}
	if err := errors.Join(r.gatherErrors(t.log), r.mend(t.log, "review"), r.repair(ctx, t, "review"), r.undoReview(context.WithoutCancel(ctx), before, t.started)); err != nil {
		return false, err
	}
	if res.End == agent.Cancelled || res.End == agent.Limited {
		return res.End == agent.Cancelled, nil
	}
	e := r.event(journal.SpecRefined, t)
	e.Detail = agentDetail(res, t.with, 0)
	if res.End == agent.Finished {
		e.Message = strings.TrimSpace(head(res.Final, maxRefinement))
	}
	if e.Message == "" {
		e.Reason = orElse(res.Reason, "it advised nothing")
	}
	return true, r.record(e)
}

// undoReview puts back what a review changed, which is asked for its words alone, and keeps it: a person
// may have saved a file meanwhile.
func (r *Repeat) undoReview(ctx context.Context, before gitops.Tree, since time.Time) error {
	if before == "" {
		return nil
	}
	ref := fmt.Sprintf("refs/descartes/%s/review-%d", r.state.ID, r.history.Prompt.Last.Iteration)
	var put gitops.Restored
	_, err := r.inTree(ctx, func() error {
		now, err := r.tools.Repo.Snapshot(ctx)
		if err != nil || now == before {
			return err
		}
		if _, err = r.tools.Repo.Keep(ctx, ref, now, nil, "what a review changed\n"); err == nil {
			put, err = r.tools.Repo.Restore(ctx, before, since)
		}
		return err
	})
	if err != nil {
		return gitErr("take back what a review changed", err)
	}
	touched := slices.Sorted(slices.Values(slices.Concat(put.Back, put.Removed)))
	if len(touched)+len(put.Left) == 0 {
		return nil
	}
	return r.warn("the review changed files, which is put back and kept as " + ref + ": " + oneline.List(touched) + workspace.NotRestored(put))
}

// handOff writes what a next session needs where a run ends with work left.
func (r *Repeat) handOff(out *Outcome) error {
	path := r.job.Config.PromptHandoff
	if path == "" {
		return nil
	}
	section := ""
	if !out.Ending.Final() {
		section = r.tools.Mask.Text(r.handoffText(out))
	}
	return WriteHandoff(r.tools.FS, r.job.Root, path, section)
}

func (r *Repeat) handoffText(out *Outcome) string {
	var b strings.Builder
	turns := &r.history.Prompt
	fmt.Fprintf(&b, "## Where loop %s stopped\n\n", r.state.ID)
	fmt.Fprintf(&b, "It stopped on %s after %s: %s.\n", r.tools.Now().Format(time.RFC1123Z), iterations(r.history.Iteration), oneline.Text(orElse(out.Message, out.Ending.Words())))
	if e := turns.Last; e != nil {
		fmt.Fprintf(&b, "\n### Iteration %d\n\n", e.Iteration)
		if text := oneline.Text(orElse(e.Reason, e.Message)); text != "" {
			fmt.Fprintf(&b, "- %s\n", text)
		}
		if len(e.Paths) > 0 {
			fmt.Fprintf(&b, "- it changed %s\n", oneline.Text(strings.Join(e.Paths[:min(maxHandoffTasks, len(e.Paths))], ", ")))
		}
		if words := lastWords(journal.Event{Detail: &journal.Detail{Words: turns.Words}}); words != "" {
			fmt.Fprintf(&b, "- its agent's last words: %s\n", words)
		}
		if next := strings.TrimSpace(e.Next); next != "" {
			fmt.Fprintf(&b, "\n%s\n", tail(next, maxWords))
		}
	}
	fmt.Fprintf(&b, "\n### Go on\n\n    descartes loop resume --name %s%s\n    descartes loop tune --name %s --edit     # change what the next iteration is told\n",
		r.state.ID, more(out, &r.job.Config, r.job.Config.MaxIterations), r.state.ID)
	return b.String()
}
