package run

import (
	"context"
	"errors"
	"fmt"

	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/scheduler/prompt"
)

// What the deciding goroutine does around each action, of whatever kind; each kind has a file of its own.

// begin begins what the machine wants begun.
func (r *Run) begin(a prompt.Action) error {
	if a.Account != "" {
		if met, err := r.metElsewhere(); met || err != nil {
			return err
		}
	}
	switch a.Do {
	case prompt.Iterate:
		return r.iterate(a)
	case prompt.Baseline:
		return r.baseline()
	case prompt.Check:
		return r.check()
	case prompt.Review:
		return r.review(a.Account)
	case prompt.Last:
		return r.last()
	case prompt.Deliver:
		return r.deliver()
	case prompt.Ask:
		return r.ask(a.What)
	case prompt.Precheck:
		return r.precheck(a.Account)
	}
	return fmt.Errorf("nothing does %q", a.Do)
}

// settled saves what people see once a try has ended, and keeps its prompt.
func (r *Run) settled() error {
	if r.machine.Stage != prompt.Idle || r.at == nil {
		return nil
	}
	putAside(r.place.runner.PromptFile(), r.home.KeptPrompt(r.ID(), r.at.Number, r.at.Try.Try))
	if err := r.book.Write(r.writeLoopFile()...); err != nil {
		return err
	}
	return r.book.Save()
}

// broke takes an error that left an action without a result. What git refused, and what a request to stop cut short, is
// no error of ours.
func (r *Run) broke(err error) error {
	if err == nil {
		return nil
	}
	r.ends.err = err
	why := prompt.OwnError
	switch asked := r.machine.Halt.Request; {
	case asked != "" && (errors.Is(err, context.Canceled) || isStopped(err)):
		why = map[prompt.Request]prompt.Why{prompt.Terminate: prompt.Terminated, prompt.Pause: prompt.Paused,
			prompt.PauseNow: prompt.Paused}[asked]
		if why == "" {
			why = prompt.Stopped
		}
	case isGit(err) && !loop.DiskFull(err):
		why = prompt.GitRefuses
	}
	return r.happened(prompt.Broken{Why: why})
}

// isStopped reports whether git was ended before it was done.
func isStopped(err error) bool {
	_, stopped := errors.AsType[*gitops.StoppedError](err)
	return stopped
}

// notes are what the pool has to say of the slots that it made.
func (r *Run) notes() error {
	if r.place.pool == nil {
		return nil
	}
	for _, note := range r.place.pool.Notes() {
		if err := r.book.Write(&journal.Event{Type: journal.Warning, Message: note}); err != nil {
			return err
		}
	}
	return nil
}

// warnings are lines that people should read of a try.
func (r *Run) warnings(t *try, texts []string) (lines []*journal.Event) {
	for _, text := range texts {
		lines = append(lines, book.Warning(t.unit(), text))
	}
	return lines
}
