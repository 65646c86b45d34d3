package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
)

// summary is what a run came to, for a person who was not there.
type summary struct {
	*board
	run  ended
	step bool
	took time.Duration
	kept []gitops.Ref // of attempts; only looked up where tasks are blocked
}

// where says where the work on a blocked task is kept.
func (s *summary) where(id string) string {
	prefix := loop.RefPrefix(s.run.id, id)
	if !slices.ContainsFunc(s.kept, func(r gitops.Ref) bool { return strings.HasPrefix(r.Name, prefix) }) {
		return "; it left nothing"
	}
	return "; kept in " + prefix
}

func (s *summary) blocked() []blockedLine {
	var out []blockedLine
	for _, b := range s.run.state.BlockedTasks {
		out = append(out, blockedLine{b.Task.ID, b.Title, b.Reason})
	}
	return out
}

// print tells the end of a run: bars on a terminal, then what is done, blocked and held, the cost,
// and what to type next.
func (s *summary) print(p *printer) {
	p.say("")
	if p.box {
		p.text.Write([]byte(terminal.Box("SCUD Loop: "+terminal.Clean(s.file.Tag()), s.bars(p.paint, s.run.state.CurrentWave, "", s.blocked()))))
	}
	c := s.graph.Counts()
	head := fmt.Sprintf("done %d/%d", c.Done, c.Total)
	if c.Blocked > 0 {
		head += fmt.Sprintf(", blocked %d", c.Blocked)
	}
	if c.Held > 0 {
		head += fmt.Sprintf(", held %d", c.Held)
	}
	if n := c.Total - c.Done - c.Blocked - c.Other - c.Held; n > 0 {
		head += fmt.Sprintf(", left %d", n)
	}
	off, other := s.setAside()
	if other > 0 {
		head += fmt.Sprintf(", not run %d", other)
	}
	if off > 0 {
		head += fmt.Sprintf(", set aside %d", off)
	}
	p.say("%s (loop %s, %s, %s)", p.paint.In(terminal.Bold, head), s.run.id, terminal.Count(s.run.state.Iteration, "attempt"), terminal.Duration(s.took))
	for _, b := range s.run.state.BlockedTasks {
		p.say("blocked: %s %s: %s (%s%s)", terminal.Clean(b.Task.ID), terminal.Fit(terminal.Clean(b.Title), 60), why(b), terminal.Count(b.Attempts, "attempt"), s.where(b.Task.ID))
		for _, what := range b.Denied {
			p.say("  the sandbox refused %s", terminal.Clean(what))
		}
	}
	s.printHeld(p)
	fmt.Fprint(p.text, questionLines(s.questions(), s.named()))
	if m := s.run.outcome.Message; m != "" {
		p.say("stopped: %s", terminal.Clean(m))
	}
	if s.run.outcome.Ending == journal.GitRefused {
		p.say("kept: %s", s.keptWhere())
	}
	if text := s.uncommitted(); text != "" {
		p.say("not committed: %s", text)
	}
	p.verifyLeft(s.run.state)
	p.undone(s.run.state)
	p.say("sandbox: %s", terminal.Clean(inForce(s.run.state.Config)))
	p.say("cost: %s", costText(s.run.state.Cost))
	s.printCosts(p)
	if used := agentsText(s.run.state.Agents); used != "" {
		p.say("agents: %s", used)
	}
	if s.step {
		p.say("%s", s.nextStep())
	}
	p.say("next: %s", s.command())
}

// uncommitted names the tasks whose verified work is in the working tree only, and says why; "" for none.
func (s *summary) uncommitted() string {
	n := len(s.run.loose)
	if n == 0 {
		return ""
	}
	list, why := terminal.Clean(strings.Join(s.run.loose[:min(n, tasksPriced)], ", ")), "the run ended with an error; resuming commits it"
	word := "tasks"
	if n == 1 {
		word = "task"
	}
	if n > tasksPriced {
		list += fmt.Sprintf(" and %d more", n-tasksPriced)
	}
	switch {
	case !s.run.state.Config.Scud.AutoCommitWaves:
		why = "--no-commit"
	case s.run.outcome.Ending == journal.DiskFull:
		why = "the disk is full; resuming commits it"
	case s.run.outcome.Ending == journal.GitRefused:
		why = "git refused; resuming commits it"
	}
	return fmt.Sprintf("the verified work on %s %s is in the working tree (%s)", word, list, why)
}

// keptWhere says what there is of a run that git ended.
func (s *summary) keptWhere() string {
	refs := "refs/descartes/" + s.run.id + "/"
	attempts := slices.ContainsFunc(s.kept, func(r gitops.Ref) bool { return r.Name != refs+"start" })
	switch {
	case attempts:
		return "what the agents wrote is in the working tree, and as commits under " + refs
	case s.run.state.Iteration == 0:
		return "the working tree is as it was, no agent ran"
	}
	return "what the agents wrote is in the working tree; no commit holds it"
}

// undone tells of which attempts something was undone, and what.
func (p *printer) undone(s *loop.State) {
	const most = 5
	for _, u := range s.Undone[:min(most, len(s.Undone))] {
		what := "task " + terminal.Clean(u.Task) + fmt.Sprintf(" attempt %d", u.Attempt)
		switch {
		case u.Task == "" && u.Iteration == 0:
			what = "before the first attempt"
		case u.Task == "":
			what = fmt.Sprintf("iteration %d attempt %d", u.Iteration, u.Attempt)
		}
		more := ""
		if n := len(u.Notes) - 1; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		p.say("undone: %s: %s%s", what, terminal.Clean(u.Notes[0]), more)
	}
	if n := len(s.Undone) - most; n > 0 {
		p.say("undone: of %s more, see undone in the state file", terminal.Count(n, "attempt"))
	}
}

// verifyLeft names the files that only the verify command made, and those that git ignored before an attempt.
func (p *printer) verifyLeft(s *loop.State) {
	if n := len(s.VerifyLeft); n > 0 {
		p.say("in no commit: %s (made by verify, or ignored before); have git ignore them", terminal.Clean(terminal.Few(s.VerifyLeft, 8)))
	}
}

const heldShown = 20

func (s *summary) printHeld(p *printer) {
	n := 0
	for _, w := range s.graph.Waves() {
		for _, id := range w.Tasks {
			state, cause := s.graph.State(id)
			if state != "held" && state != "other" {
				continue
			}
			if n++; n <= heldShown {
				t, _ := s.graph.Task(id)
				p.say("%s: %s %s: %s", heldWord(string(state)), terminal.Clean(id), terminal.Fit(terminal.Clean(t.Title), 60), terminal.Clean(cmp.Or(cause, "its status is "+string(t.Status))))
			}
		}
	}
	if n > heldShown {
		p.say("and %d more: descartes waves%s", n-heldShown, s.named())
	}
}

func heldWord(state string) string {
	if state == "other" {
		return "not run"
	}
	return "held"
}

func costText(c *journal.Cost) string {
	if c == nil || c.USD == nil && c.InputTokens == nil {
		return "unknown"
	}
	s := c.Dollars()
	if c.USD == nil {
		s = "dollars unknown"
	}
	if c.InputTokens == nil {
		return s
	}
	least := ""
	if c.UnknownTokens > 0 {
		least = "at least "
	}
	return s + fmt.Sprintf(", %s%d tokens in, %d out", least, *c.InputTokens, *c.OutputTokens)
}

const (
	wavesPriced = 20
	tasksPriced = 12
)

// printCosts tells what waves and tasks cost, where that is known of any.
func (s *summary) printCosts(p *printer) {
	shown := 0
	for _, w := range s.graph.Waves() {
		sum, ok := s.run.costs.Waves[w.Number]
		if !ok || sum.USD == nil {
			continue
		}
		if shown++; shown > wavesPriced {
			continue
		}
		var list []string
		for _, id := range w.Tasks {
			if c := s.run.costs.Tasks[id]; c.USD != nil {
				list = append(list, terminal.Clean(id)+": "+c.Dollars())
			}
		}
		more := ""
		if n := len(list) - tasksPriced; n > 0 {
			list, more = list[:tasksPriced], fmt.Sprintf(" and %d more", n)
		}
		p.say("  wave %d: %s (%s%s)", w.Number, sum.Dollars(), strings.Join(list, "; "), more)
	}
	if n := shown - wavesPriced; n > 0 {
		p.say("  and %s more", terminal.Count(n, "wave"))
	}
}

const stepShown = 10

// nextStep says what another step would do.
func (s *summary) nextStep() string {
	for _, w := range s.graph.Waves() {
		var names []string
		for _, id := range w.Tasks {
			if s.graph.Ready(id) {
				t, _ := s.graph.Task(id)
				names = append(names, terminal.Clean(id)+" "+terminal.Fit(terminal.Clean(t.Title), 40))
			}
		}
		if len(names) > 0 {
			more := ""
			if n := len(names) - stepShown; n > 0 {
				names, more = names[:stepShown], fmt.Sprintf(" and %d more", n)
			}
			return fmt.Sprintf("next step: wave %d: %s%s", w.Number, strings.Join(names, ", "), more)
		}
	}
	return "next step: nothing is left to run"
}

// resume is the command that goes on with this loop.
func (s *summary) resume() string { return resumeOf(s.root, s.run.id, s.run.path) }

// command is what a person would type now.
func (s *summary) command() string {
	tag := s.named()
	resume := s.resume()
	switch s.run.outcome.Ending {
	case journal.AllDone:
		if n := len(s.run.state.WaveCommits); n > 0 {
			return fmt.Sprintf("git log --stat -%d", n)
		}
		return "git status"
	case journal.StepDone:
		if s.board.next() == "" {
			return "descartes waves" + tag
		}
		return "descartes loop step" + tag
	case journal.TasksBlocked:
		if asked := s.questions(); len(asked) > 0 {
			return fmt.Sprintf("%s; then %s", answerCommand(asked[0].Task, tag), resume)
		}
		for _, b := range s.run.state.BlockedTasks {
			return fmt.Sprintf("descartes attempts %s%s; then %s --retry-blocked", terminal.Quote(terminal.Clean(b.Task.ID)), tag, resume)
		}
		return "descartes waves" + tag
	case journal.LimitReached:
		return fmt.Sprintf("%s --max-iterations %d", resume, 2*max(1, s.run.state.Config.Scud.MaxTotalIterations))
	case journal.DeadlinePast:
		return resume + " --deadline 8h"
	case journal.CostReached:
		return fmt.Sprintf("%s --max-cost %g", resume, 2*s.run.state.Config.MaxCostUSD)
	case journal.AgentUnusable:
		return "make the agent run, then " + resume
	case journal.BreakerOpen:
		if len(s.run.state.BlockedTasks) > 0 {
			resume += " --retry-blocked"
		}
		return "descartes loop logs --name " + s.run.id + fromHere(s.root) + " shows how the last one failed; see to that, then " + resume
	case journal.DiskFull:
		return "free some space, then " + resume + "; --min-free-disk sets how much is wanted"
	case journal.GitRefused:
		return "correct what git refused, then " + resume
	case journal.ProviderFails:
		return "when the agent's provider answers again, " + resume
	case journal.QuotaUsedUp:
		return resume + afterReset(s.run.outcome)
	case journal.BaselineFails:
		if s.run.state.Completed {
			resume = "descartes loop start" + tag
		}
		return "see .descartes/runs/" + s.run.id + "/logs/baseline.log; then " + resume + ", with --baseline warn where nothing can pass yet"
	case journal.Paused, journal.UserCancelled, journal.Interrupted, journal.OwnError:
	}
	return resume
}

// afterReset says when there is more of a quota, as the end of a command line.
func afterReset(out loop.Outcome) string {
	if out.Until.IsZero() {
		return ""
	}
	return "   (after " + terminal.Moment(out.Until) + "; with --on-limit wait it asks at once)"
}

// agentsText counts the attempts by what they were run with, where that was not always the same.
func agentsText(used []journal.AgentUse) string {
	if len(used) < 2 {
		return ""
	}
	words := make([]string, 0, len(used))
	for _, u := range used {
		name := u.Backend
		if u.Model != "" {
			name += " " + u.Model
		}
		words = append(words, terminal.Clean(name)+" "+terminal.Count(u.Attempts, "attempt"))
	}
	return strings.Join(words, ", ")
}
