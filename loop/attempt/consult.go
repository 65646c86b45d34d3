package attempt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/slot"
)

// With is what an agent runs with.
type With struct {
	Backend string
	Model   string // "": the program's own choice
}

// Consult runs an agent that is only asked for words, in a prepared workspace; who names its purpose. In the sandbox
// it can only read the tree.
func (r *Runner) Consult(ctx context.Context, ws Workspace, in Input, who string,
	observe func(*Step) error) (agent.Result, error) {
	q := r.request(&in, who, filepath.Join(r.Dir, who+".md"))
	q.Dir, q.Reads = ws.Dir(), true
	res, err := r.Agent.Run(ctx, q)
	if err != nil {
		return res, fmt.Errorf("run the agent for a %s: %w", who, err)
	}
	if err := r.gather(q); err != nil {
		return res, err
	}
	a := &run{Runner: r, ws: ws, in: &in, observe: observe, res: Result{Agent: res}}
	return res, a.over(context.WithoutCancel(ctx), who)
}

// ErrRunEnds says that no agent can be asked any more, because the run ends.
var ErrRunEnds = errors.New("the run ends")

// Question is what a look asks an agent.
type Question struct {
	Who    string // its purpose in one word: for its prompt, its log and messages
	Among  []With // what it may run with, best first
	Prompt string
	Tree   gitops.Tree // the tree it is about
}

// Consult asks an agent for words about the work in the workspace. Its changes there are undone and reported. Its cost
// counts like any agent's. If its provider is out of quota or fails, the same agent or the next is asked, as the run's
// settings say. A request to stop is a context.Canceled.
func (s *Subject) Consult(ctx context.Context, q Question) (agent.Result, error) {
	if err := s.Working(); err != nil {
		return agent.Result{}, err
	}
	in := *s.Input
	in.Prompt, in.Session, in.Spent, in.Keep = q.Prompt, "", nil, false
	in.Log = s.Aside(q.Who)
	in.Env = append(in.Env[:len(in.Env):len(in.Env)], "DESCARTES_REVIEW=1") // for agents that are scripts
	for {
		with := q.Among[0]
		if s.Choose != nil {
			var err error
			if with, err = s.Choose(ctx, q.Among); err != nil {
				return agent.Result{}, err
			}
		}
		in.Backend, in.Model = with.Backend, with.Model
		res, err := s.untouched(ctx, q.Who, func() (agent.Result, error) {
			return s.Runner.Consult(ctx, s.Workspace, in, q.Who, s.run.observe)
		})
		if err != nil {
			return res, err
		}
		s.looked.Agent, s.looked.With = &res, with
		if err := s.run.tell(Step{Moment: Consulted, Who: s.looked.Name, Agent: &res, With: with, Tree: q.Tree,
			Log: in.Log}); err != nil {
			return res, err
		}
		switch {
		case res.End == agent.Cancelled:
			return res, context.Canceled
		case s.Choose != nil && (res.End == agent.Limited || res.End == agent.Refused || res.Cause == agent.Transient):
			continue // Choose waits, takes another one, or ends the run
		}
		return res, nil
	}
}

// Ask asks an agent for words in a prepared workspace, outside of any attempt. Its changes there are undone, and notes
// say so.
func (r *Runner) Ask(ctx context.Context, ws Workspace, in Input, q Question) (res agent.Result, notes []string,
	err error) {
	hear := func(s *Step) error {
		notes = append(notes, s.Lines...)
		return nil
	}
	a := &run{Runner: r, ws: ws, in: &in, observe: hear}
	s := &Subject{Runner: r, Workspace: ws, Input: &in, Result: &a.res, run: a, looked: &Looked{Name: q.Who}}
	res, err = s.Consult(ctx, q)
	return res, notes, err
}

// Aside is the path of a log beside the attempt's.
func (s *Subject) Aside(what string) string {
	return strings.TrimSuffix(s.Input.Log, ".log") + "." + what + ".log"
}

// untouched runs an agent that must not change anything, and restores what it changed anyway.
func (s *Subject) untouched(ctx context.Context, who string, run func() (agent.Result, error)) (agent.Result, error) {
	kctx, done := Linger(ctx)
	defer done()
	before, err := s.Workspace.Look(kctx)
	if err != nil {
		return agent.Result{}, err
	}
	res, err := run()
	if err != nil {
		return res, err
	}
	after, err := s.Workspace.Look(kctx)
	if err != nil || after.After == before.After {
		return res, err
	}
	changed, err := s.Repo.Changed(kctx, before.After, after.After)
	if err != nil {
		return res, err
	}
	if err := s.Workspace.Restore(kctx, before.After); err != nil {
		return res, err
	}
	return res, s.Note("the " + who + " changed files, which were put back: " + slot.Paths(changed))
}

// maxAnswers limits how many objects in an agent's last words are tried.
const maxAnswers = 2000

// Decode reads the last JSON object with the member from an agent's last words into v. The rest of the words does not
// matter.
func Decode(words, member string, v any) error {
	var last json.RawMessage
	for at, seen := strings.IndexByte(words, '{'), 0; at >= 0 && at < len(words) && seen < maxAnswers; seen++ {
		var raw json.RawMessage
		var object map[string]json.RawMessage
		d := json.NewDecoder(strings.NewReader(words[at:]))
		step := 1
		if d.Decode(&raw) == nil && json.Unmarshal(raw, &object) == nil {
			if step = int(d.InputOffset()); object[member] != nil {
				last = raw
			}
		}
		next := strings.IndexByte(words[at+step:], '{')
		if next < 0 {
			break
		}
		at += step + next
	}
	if last == nil {
		return errors.New("no JSON object with a " + member + " in its last words")
	}
	return json.Unmarshal(last, v)
}
