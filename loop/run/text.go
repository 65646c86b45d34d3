package run

import (
	"strings"

	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/store"
	"descartes/specbuild"
)

// words are what a try's agent is told besides the prompt.
type words struct {
	next    string // by the gate, and how the last one failed
	hand    string // by an earlier session
	answers []specbuild.Answer
	denied  []string // by the sandbox, in the last one
	failing bool
	first   gitops.Tree // what the run began with
}

// words gathers what the next agent is told.
func (r *Run) words() (w words, err error) {
	b := &r.book.History.Prompt
	w = words{next: loop.JoinText(b.Next...), failing: b.Failing, first: r.first()}
	if b.Last != nil && b.Last.Detail != nil {
		w.denied = b.Last.Detail.Denied
	}
	if w.hand, err = r.hand(); err != nil {
		return w, err
	}
	answers, err := r.home.Answers(store.LoopKey(r.ID()))
	for _, a := range answers {
		w.answers = append(w.answers, specbuild.Answer{Question: a.Question, Text: a.Text})
	}
	return w, err
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
