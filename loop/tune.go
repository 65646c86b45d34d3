package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
	"descartes/verify"
)

// A person may choose or write the text of a task's next attempt. It is used word for word, once: an
// attempt that came to a verdict has used it up.

// maxTuned bounds, in bytes, a text that a person chose or wrote.
const maxTuned = maxSpecFile

func (h Home) tunedDir(tag string) string { return filepath.Join(string(h), "tuned", fileName(tag)) }

func (h Home) tuned(tag, task string) string {
	return filepath.Join(h.tunedDir(tag), fileName(task)+".md")
}

// Tune keeps a text for the next attempt of a task. It replaces one that was kept before.
func (h Home) Tune(fsys atomicfile.FS, tag, task, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("the text for task %s is empty", task)
	case len(text) > maxTuned:
		return fmt.Errorf("the text for task %s has %d bytes, at most %d can be kept", task, len(text), maxTuned)
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("the text for task %s is not UTF-8 text", task)
	}
	if err := h.Make(fsys); err != nil {
		return err
	}
	if err := os.MkdirAll(h.tunedDir(tag), 0o755); err != nil {
		return fmt.Errorf("keep the text for task %s: %w", task, err)
	}
	if err := atomicfile.Write(fsys, h.tuned(tag, task), []byte(text), 0o600); err != nil {
		return fmt.Errorf("keep the text for task %s: %w", task, err)
	}
	return nil
}

// Untune forgets the text kept for a task's next attempt, if there is one.
func (h Home) Untune(fsys atomicfile.FS, tag, task string) error {
	if err := fsys.Remove(h.tuned(tag, task)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the text for task %s: %w", task, err)
	}
	return nil
}

// Tuned is the text kept for a task's next attempt; "" if there is none.
func (h Home) Tuned(tag, task string) (string, error) {
	b, err := plainfile.Read("", h.tuned(tag, task), maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the text chosen for task %s: %w", task, err)
	}
	return string(b), nil
}

// tunedNames lists the tasks of a tag that have a text, by the names of their files.
func (h Home) tunedNames(tag string) map[string]bool {
	entries, err := os.ReadDir(h.tunedDir(tag))
	if err != nil || len(entries) == 0 {
		return nil
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// keptSpec is where the text of an attempt that was not verified is kept.
func (h Home) keptSpec(id, task string, attempt int) string {
	return filepath.Join(h.Run(id), "specs", fmt.Sprintf("%s-%d.md", fileName(task), attempt))
}

// spent puts aside what an attempt was told, and the text that a person had chosen for it.
func (w *tagWork) spent(u *unit) {
	if u.res.Verdict != verify.Verified {
		to := w.home.keptSpec(w.state.ID, u.task.ID, u.number)
		putAside(u.lane.runner.PromptFile(), to)
	}
	if u.tuned && u.res.Verdict != verify.Limited && u.res.Verdict != verify.Cancelled {
		delete(w.tuned, fileName(u.task.ID)+".md")
		_ = os.Remove(w.home.tuned(w.state.Tag, u.task.ID)) // at worst it is used once more
	}
}

// putAside keeps what an attempt was told under another name. Where that fails loop tune shows less, or it is
// built again from the journal.
func putAside(from, to string) {
	if os.Rename(from, to) != nil && os.MkdirAll(filepath.Dir(to), 0o755) == nil {
		_ = os.Rename(from, to)
	}
}

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

// Variant is one attempt of a task, with all that is needed to judge its spec.
type Variant struct {
	Loop       string
	Attempt    int    // of a prompt loop its iteration
	Try        int    // of an iteration that was repeated; else 0
	Verdict    string // "" while it runs
	Reason     string
	At         time.Time // of its end
	Seconds    float64
	Tuned      bool   // a person chose its text
	Refinement string // what a second agent advised before it
	Words      string // the agent's last words
	Output     string // the end of what the verification printed
	DiffStat   string
	Before     gitops.Tree
	After      gitops.Tree
	Ref        string
	Cost       journal.Cost
	request    SpecRequest
}

// Variants are the attempts of a task in one loop, in their order.
func (h Home) Variants(id, task string) ([]Variant, error) {
	events, err := journal.ReadEvents(h.Events(id))
	if err != nil {
		return nil, err
	}
	b := journal.NewState()
	var requests []SpecRequest
	for i := range events {
		e := &events[i]
		if e.Type == journal.AttemptStarted && e.Task == task {
			r := request(b, task)
			r.Of, r.Before = e.Of, e.TS
			requests = append(requests, r)
		}
		b.Apply(e)
	}
	var out []Variant
	for _, a := range b.Attempts {
		if a.Task == task && len(out) < len(requests) {
			v := variantOf(id, a)
			v.request = requests[len(out)]
			out = append(out, v)
		}
	}
	return out, nil
}

func variantOf(loop string, a *journal.Attempt) Variant {
	v := Variant{Loop: loop, Attempt: a.Number, Before: gitops.Tree(a.Before), Refinement: a.Refinement, Tuned: a.Tuned, Cost: a.Cost}
	if a.Iteration > 0 {
		if v.Attempt = a.Iteration; a.Number > 1 {
			v.Try = a.Number
		}
	}
	if a.Agent != nil {
		v.Words = a.Agent.Words
	}
	if !a.Over() {
		return v
	}
	v.Verdict, v.Reason, v.At, v.Seconds, v.Ref = orElse(string(a.Verdict), string(a.Decision)), a.Reason, a.Ended, a.Seconds(), a.Ref
	v.After, v.DiffStat, v.Output = gitops.Tree(a.After), a.DiffStat, a.Next
	if a.Iteration == 0 && a.Result != nil {
		v.Output = a.Result.Output
	}
	return v
}

// Iterations are those of a prompt loop, each time that one was run.
func (h Home) Iterations(id string) ([]Variant, error) {
	b, err := journal.Load(h.Events(id))
	if err != nil {
		return nil, err
	}
	var out []Variant
	for _, a := range b.Attempts {
		out = append(out, variantOf(id, a))
	}
	return out, nil
}

// IterationPrompt is the text that an iteration was given; ok is false where it was not kept.
func (h Home) IterationPrompt(v Variant) (text string, ok bool) {
	b, err := plainfile.Read("", h.keptPrompt(v.Loop, v.Attempt, max(1, v.Try)), maxKept)
	return string(b), err == nil
}

// VariantSpec is the text that an attempt was given: as it was kept, or else as its loop's journal and
// the files of now make it again; kept tells which.
func (h Home) VariantSpec(j *Job, v Variant) (text string, kept bool, err error) {
	b, err := plainfile.Read("", h.keptSpec(v.Loop, v.request.Task, v.Attempt), maxKept)
	if err == nil {
		return string(b), true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read the spec of attempt %d: %w", v.Attempt, err)
	}
	spec, err := j.Spec(v.request)
	return spec.Text, false, err
}
