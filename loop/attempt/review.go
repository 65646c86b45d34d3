package attempt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/lazyregexp"
	"descartes/internal/oneline"
	"descartes/specbuild"
)

// Review is what to ask a second agent about an attempt that passed everything else.
type Review struct {
	Among   []With            // what it may run with, best first
	Opinion specbuild.Opinion // without the changes and the checks
	Team    []string          // what each of several reviewers focuses on; none: there is one reviewer
	Known   []Known           // its answers from before this loop was killed

	From   gitops.Tree // review what changed since then; "": since the work began
	Claims bool        // only review work that its agent calls done
}

// Known is an agent's answer to a look, from the journal.
type Known struct {
	Tree  string // the tree it is about
	Words string
}

// opinion is a reviewer's answer.
type opinion struct {
	Verdict  string
	Reasons  []string
	Criteria []struct {
		Text     string
		Met      bool
		Evidence string
	}
}

// The verdicts of a review.
const (
	Approve = "approve"
	Reject  = "reject"
	Unsure  = "unsure" // a person decides
)

// Limits of what is kept of an answer.
const (
	maxReasons = 20
	maxReason  = 600
	maxAbout   = 60
)

// readOpinion reads a reviewer's last words.
func readOpinion(words string) (o opinion, err error) {
	if err := Decode(words, "verdict", &o); err != nil {
		return o, err
	}
	o.Verdict = strings.ToLower(strings.TrimSpace(o.Verdict))
	if !slices.Contains([]string{Approve, Reject, Unsure}, o.Verdict) {
		return o, fmt.Errorf("its verdict is %.40q, not approve, reject or unsure", o.Verdict)
	}
	var reasons []string
	for _, r := range o.Reasons {
		if r = strings.TrimSpace(r); r != "" && len(reasons) < maxReasons {
			reasons = append(reasons, oneline.Clip(oneline.Text(r), maxReason))
		}
	}
	if o.Reasons = reasons; len(reasons) == 0 && o.Verdict != Approve {
		return o, fmt.Errorf("it says %s without a reason", o.Verdict)
	}
	return o, nil
}

// unmet returns the tasks' own criteria that the answer calls unmet, with what the reviewer saw.
func (o *opinion) unmet(of specbuild.Opinion) (list []string) {
	for _, c := range o.Criteria {
		own := slices.ContainsFunc(of.Tasks, func(t specbuild.Reviewed) bool {
			return slices.ContainsFunc(t.Criteria, func(k specbuild.Criterion) bool {
				return !k.Shared && oneline.Text(k.Text) == oneline.Text(c.Text)
			})
		})
		if !c.Met && own && len(list) < maxReasons {
			line := "not met: " + oneline.Clip(oneline.Text(c.Text), maxReason)
			if saw := oneline.Text(c.Evidence); saw != "" {
				line += " (" + oneline.Clip(saw, maxReason) + ")"
			}
			list = append(list, line)
		}
	}
	return list
}

// Judgement is the result of a review.
type Judgement struct {
	Verdict string   // Approve, Reject or Unsure
	Reasons []string // with the criteria that are not met
}

// judge asks every reviewer and combines the answers: one rejection rejects; without one, an unsure reviewer makes it
// a question.
func (r *Review) judge(o specbuild.Opinion, tree gitops.Tree,
	ask func(prompt string) (words, ended string, err error)) (Judgement, error) {
	known := slices.DeleteFunc(slices.Clone(r.Known), func(k Known) bool { return k.Tree != string(tree) })
	if len(r.Team) == 0 {
		return one(o, &known, ask)
	}
	all := Judgement{Verdict: Approve}
	var by = map[string][]string{}
	for _, about := range r.Team {
		mine := o
		mine.Ask = strings.TrimSpace(o.Ask + "\n\nOthers review the rest of it. You look at this alone: " + about)
		j, err := one(mine, &known, ask)
		if err != nil {
			return j, err
		}
		for _, reason := range j.Reasons {
			by[j.Verdict] = append(by[j.Verdict], oneline.Clip(oneline.Text(about), maxAbout)+": "+reason)
		}
		if j.Verdict == Reject || all.Verdict == Approve {
			all.Verdict = j.Verdict
		}
	}
	all.Reasons = slices.Concat(by[Reject], by[Unsure], by[Approve])
	return all, nil
}

// one asks a reviewer up to twice until its opinion is readable; an unreadable opinion is unsure. Known answers are
// used first, in their order, instead of calling ask. An approval that calls one of the task's own criteria unmet is a
// rejection.
func one(o specbuild.Opinion, known *[]Known, ask func(prompt string) (words, ended string, err error)) (Judgement,
	error) {
	for range 2 {
		words, ended := "", ""
		if len(*known) > 0 {
			words, *known = (*known)[0].Words, (*known)[1:]
		} else {
			var err error
			if words, ended, err = ask(specbuild.OpinionPrompt(o)); err != nil {
				return Judgement{}, err
			}
		}
		read, err := readOpinion(words)
		if err != nil {
			if o.Unread = err.Error(); ended != "" {
				o.Unread = ended
			}
			continue
		}
		j := Judgement{Verdict: read.Verdict, Reasons: read.Reasons}
		if unmet := read.unmet(o); len(unmet) > 0 {
			if j.Reasons = append(j.Reasons, unmet...); j.Verdict == Approve {
				j.Verdict, j.Reasons = Reject, unmet
			}
		}
		return j, nil
	}
	return Judgement{Verdict: Unsure,
		Reasons: []string{"Is the work what was asked for? The reviewer's answer cannot be read: " +
			oneline.Text(o.Unread)}}, nil
}

// changes adds the difference between two trees to an opinion, and says if it is cut.
func changes(ctx context.Context, repo *gitops.Repo, o *specbuild.Opinion, from, to gitops.Tree) (cut bool,
	err error) {
	if o.DiffStat, err = repo.DiffStat(ctx, from, to); err != nil {
		return false, err
	}
	if o.Diff, err = repo.Patch(ctx, from, to, specbuild.OpinionDiff); err != nil {
		return false, err
	}
	// no line of a diff begins with a bracket
	o.Whole = o.Diff == "" || !strings.HasSuffix(o.Diff, " bytes of the diff left out]\n") && o.Diff != o.DiffStat
	return !o.Whole, nil
}

// review asks a second agent for its opinion. What it cannot decide becomes a question for a person.
func review(ctx context.Context, s *Subject) (*Objection, error) {
	r := s.Input.Review
	if r.Claims && !Claims(&s.Result.Agent) {
		return nil, nil
	}
	o := r.Opinion
	for _, c := range s.Result.Checks {
		if !c.Command.Criterion {
			o.Checks = append(o.Checks, specbuild.PassedCheck{Name: c.Command.Name, Command: c.Command.Run,
				Output: c.Result.Tail})
		}
	}
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, err
	}
	from := cmp.Or(r.From, s.base())
	if from == tree && !r.Claims && s.Input.Always { // an iteration with nothing to show
		return nil, nil
	}
	j, err := s.opinion(ctx, o, from, tree)
	if err != nil {
		return nil, err
	}
	for _, reason := range j.Reasons {
		s.Show(reason)
	}
	switch j.Verdict {
	case Approve:
		return nil, nil
	case Reject:
		return &Objection{Reason: "the review rejects it: " + j.Reasons[0], Detail: strings.Join(j.Reasons, "\n")}, nil
	}
	return &Objection{Ask: true, Reason: j.Reasons[0], Detail: strings.Join(j.Reasons[1:], "\n")}, nil
}

// signal is the line in a gate's block with which the agent says that everything is done.
var signal = lazyregexp.New(`(?mi)^\W*EXIT_SIGNAL\W+true\b`)

// Claims reports whether an agent says that everything is done.
func Claims(r *agent.Result) bool { return r.Complete || signal.MatchString(r.Final) }

// Review asks a second agent about the difference between two trees, in a prepared workspace that holds the second.
func (r *Runner) Review(ctx context.Context, ws Workspace, in Input, from, to gitops.Tree,
	observe func(*Step) error) (Judgement, error) {
	a := &run{Runner: r, ws: ws, in: &in, observe: observe}
	s := &Subject{Runner: r, Workspace: ws, Input: &in, Result: &a.res, run: a, looked: &Looked{Name: "review"}}
	return s.opinion(ctx, in.Review.Opinion, from, to)
}

// opinion is a second agent's judgement of the difference between two trees.
func (s *Subject) opinion(ctx context.Context, o specbuild.Opinion, from, to gitops.Tree) (Judgement, error) {
	r := s.Input.Review
	cut, err := changes(ctx, s.Repo, &o, from, to)
	if err != nil {
		return Judgement{}, err
	}
	if cut {
		if err := s.Note(fmt.Sprintf(
			"the diff is longer than the %d KiB that the reviewer is shown; it can read the files",
			specbuild.OpinionDiff>>10)); err != nil {
			return Judgement{}, err
		}
	}
	return r.judge(o, to, func(prompt string) (string, string, error) {
		res, err := s.Consult(ctx, Question{Who: "review", Among: r.Among, Prompt: prompt, Tree: to})
		return res.Final, res.Reason, err
	})
}
