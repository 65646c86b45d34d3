package view

import (
	"cmp"
	"fmt"
	"strings"

	"descartes/config"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// Next is what to do next. Its commands work as they stand, typed one after the other.
type Next struct {
	Where    string   // where they are typed; "" for there where the text is read
	First    string   // what no command does, and comes before them
	Commands []string // to type
	Or       string   // another command in place of the last
	Note     string   // what else there is to know
}

func do(commands ...string) Next { return Next{Commands: commands} }

// after is Next with something to do before.
func (n Next) after(what string) Next {
	n.First = what
	return n
}

// Lines is a line for each thing.
func (n Next) Lines() string {
	var b strings.Builder
	say := func(word, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", word, text)
		}
	}
	say("first", n.First)
	for i, c := range n.Commands {
		say([]string{"next", "then"}[min(i, 1)], c)
	}
	say("or", n.Or)
	say("note", n.Note)
	return b.String()
}

// Typed is the commands as one line for a shell.
func (n Next) Typed() string { return strings.Join(n.Commands, "; ") }

// OneLine is all of it in a sentence, with mark around what is to be typed.
func (n Next) OneLine(mark string) string {
	quoted := func(s string) string { return mark + strings.ReplaceAll(s, "`", "") + mark }
	text := quoted(n.Typed())
	if n.Where != "" {
		text = n.Where + ": " + text
	}
	if n.First != "" {
		text = n.First + ", then " + text
	}
	if n.Or != "" {
		text += ", or: " + quoted(n.Or)
	}
	if n.Note != "" {
		text += " (" + n.Note + ")"
	}
	return text
}

// Here is what to do now, there where the run was.
func (l *Loop) Here() Next {
	resume := l.Run.Resume()
	switch {
	case l.Prompt():
		return l.Run.afterPrompt(resume)
	case l.Board == nil && len(l.Commits) > 0:
		return do(l.Run.log(len(l.Commits)))
	case l.Board == nil: // its list is gone
		return do("descartes status " + l.ID + l.Run.Here)
	}
	state := l.Run.State
	tag := l.Board.Named()
	again, diff := "descartes start"+tag, "git diff HEAD "+store.TrunkRef(l.Run.ID)
	if len(state.BlockedTasks) > 0 {
		again = resume + " --retry-blocked"
	}
	switch l.Run.Outcome.Ending {
	case journal.AllDone:
		if n := len(state.WaveCommits); n > 0 {
			return do(l.Run.log(n))
		}
		if len(l.Run.Loose) > 0 {
			return do(diff, cmp.Or(l.Run.Outcome.Merging, "git merge "+store.TrunkRef(l.Run.ID)))
		}
		return do("git status")
	case journal.StepDone:
		if l.Board.Next() == "" {
			return do("descartes waves" + tag)
		}
		if l.Later && !l.Away {
			return do(resume + " --step")
		}
		return do("descartes step" + tag + state.Config.Typed.String())
	case journal.TasksBlocked:
		return l.unblock(tag, again, resume)
	case journal.TrunkGone:
		return do("descartes start" + tag + state.Config.Typed.String())
	case journal.LimitReached:
		return do(fmt.Sprintf("%s --max-iterations %d", resume, 2*max(1, state.Config.Scud.MaxTotalIterations)))
	case journal.BreakerOpen:
		if len(state.BlockedTasks) > 0 {
			resume = again
		}
		n := do(l.Run.logs(), resume)
		n.Note = "fix what made them fail before you resume"
		return n
	case journal.GateAsks: // the review of a wave
		n := do(diff, resume+" --yes")
		n.Note = "--yes commits the wave all the same"
		return n
	case journal.ChecksFail:
		if len(state.BlockedTasks) > 0 {
			return do(again)
		}
		n := do(l.Run.logs(), resume)
		n.Note = "fix what fails and commit it before you resume"
		return n
	case journal.BaselineFails:
		n := do(resume)
		n.First, n.Or = "look at .descartes/runs/"+l.Run.ID+"/logs/baseline.log and make verify pass",
			resume+" --baseline warn"
		if state.Completed {
			n.Commands = []string{"descartes start" + tag + state.Config.Typed.String()}
			n.Or = "descartes start" + tag + state.Config.Typed.And(map[string][]string{"baseline": {"warn"}}).String()
		}
		n.Note = "--baseline warn is for work before which nothing can pass"
		return n
	}
	return l.Run.next(resume)
}

// unblock is what to do after a run that left tasks blocked: answer, look, and try again.
func (l *Loop) unblock(tag, again, resume string) Next {
	var typed []string
	if asked := l.Questions; len(asked) > 0 {
		typed = append(typed, "descartes answer --edit "+terminal.Quote(terminal.Clean(asked[0].Task.ID))+tag)
	}
	for _, b := range l.Run.State.BlockedTasks {
		if b.Question == "" {
			return do(append(typed, "descartes why "+terminal.Quote(terminal.Clean(b.Task.ID))+tag, again)...)
		}
	}
	switch {
	case len(typed) > 0:
		return do(append(typed, resume)...)
	case l.Board.Graph.Counts().Blocked > 0: // by an earlier run
		return do("descartes why"+tag, again+l.Run.State.Config.Typed.Without("retry-blocked")+" --retry-blocked")
	}
	return do("descartes waves" + tag)
}

// Resume is the command that resumes this loop.
func (r *Run) Resume() string { return ResumeCommand(r.Root, r.ID, r.Path, r.Here) }

func (r *Run) logs() string { return "descartes logs --name " + r.ID + r.Here }

// next is what to do after an end that every kind of loop knows.
func (r *Run) next(resume string) Next {
	n := do(resume)
	switch r.Outcome.Ending {
	case journal.DeadlinePast:
		return do(resume + " --deadline 8h")
	case journal.CostReached:
		return do(fmt.Sprintf("%s --max-cost %g", resume, 2*r.State.Config.MaxCostUSD))
	case journal.AgentUnusable:
		return n.after("log in or fix the agent")
	case journal.ProviderFails:
		return n.after("wait until the agent's provider answers again")
	case journal.QuotaUsedUp:
		if !r.Outcome.Until.IsZero() {
			n.Or, n.Note = resume+" --on-limit wait", "--on-limit wait asks the provider at once, and waits for it"
			return n.after("wait until " + terminal.Moment(r.Outcome.Until))
		}
	case journal.DiskFull:
		n.Note = "min_free_disk sets how much has to be free"
		return n.after("free some space")
	case journal.GitRefused:
		if r.Outcome.Merging != "" && r.Outcome.Branch == "" && r.State.Kind != store.KindTag {
			return do(r.Outcome.Merging, resume)
		}
		return n.after("fix what git refused")
	}
	return n
}

// afterPrompt is what to do after a loop over a prompt.
func (r *Run) afterPrompt(resume string) Next {
	c := r.State.Config
	n := do(resume)
	plan := "descartes plan" + c.Typed.Without("replan") + r.Here
	switch r.Outcome.Ending {
	case journal.PromiseSeen, journal.CommandSucceeded, journal.GateDone:
		if n := r.commits(); n > 0 {
			return do(r.log(n))
		}
		if r.State.Iteration == 0 { // nothing was left to do
			return do(plan)
		}
		return do(r.logs())
	case journal.LimitReached:
		return do(fmt.Sprintf("%s --max-iterations %d", resume, 2*c.MaxIterations))
	case journal.AgentUnusable:
		if n := len(r.State.Summaries); n > 0 && r.State.Summaries[n-1].ExitCode == 0 { // it ran, and did nothing
			return do(r.logs(), resume)
		}
	case journal.PlanMissing:
		return do(plan)
	case journal.GateBlocked:
		if g := gateOf(r.State); g != nil && g.criteria != nil && g.criteria.Waiting != "" {
			n.Or = resume + " --yes"
			n.Note = "--yes continues all the same"
		}
		return n.after("remove what blocks it")
	case journal.BreakerOpen:
		if r.Outcome.Until.IsZero() {
			return do(resume + " --yes").after("fix what went wrong")
		}
		n.Or = resume + " --yes"
		n.Note = "--yes lets it try now"
		return n.after("wait until " + r.Outcome.Until.Local().Format("2006-01-02 15:04:05") +
			", when one iteration may try")
	case journal.GateAsks:
		if r.Outcome.Question != "" {
			return do("descartes answer --edit --name "+r.ID+r.Here, resume)
		}
		return do(resume + " --yes")
	}
	return r.next(resume)
}

// Next is what to do now. Where the run was elsewhere, as a job's, it is what to do on the reader's machine.
func (l *Loop) Next() Next {
	if !l.Away {
		return l.Here()
	}
	c := &l.Run.State.Config
	n := Next{Where: "on your machine", Commands: []string{"git pull"}}
	if branch := cmp.Or(l.Run.Outcome.Branch, c.Git.Branch); branch != "" {
		n.Commands = []string{"git fetch", "git switch " + terminal.Quote(terminal.Clean(branch)), "git pull"}
	}
	if c.Git.Push {
		n.Commands = append(n.Commands, "git fetch origin 'refs/descartes/*:refs/descartes/*'")
	}
	typed := c.Typed.Without("ci", "junit", "summary", "ok-exit", "push", "branch", "deadline")
	if e := l.Run.Outcome.Ending; e.Final() && e != journal.TasksBlocked {
		n.Commands = append(n.Commands, l.Here().Commands...)
	} else if l.Board != nil {
		named := config.ListFlags(l.Board.File.Tag(), l.Board.Scud.TasksFile)
		start := "descartes start" + named + typed
		if l.Board.Graph.Counts().Blocked > 0 {
			start += " --retry-blocked"
		}
		for _, q := range l.Questions[:min(1, len(l.Questions))] {
			n.Commands = append(n.Commands, "descartes answer --edit "+terminal.Quote(terminal.Clean(q.Task.ID))+named)
		}
		n.Commands = append(n.Commands, start)
	} else if kind := l.Run.State.Kind; kind != store.KindPrompt {
		n.Commands = append(n.Commands, "descartes "+kind+typed)
	} else {
		n.Note = "then start the run again"
	}
	switch l.Run.Outcome.Ending {
	case journal.LimitReached, journal.DeadlinePast, journal.CostReached, journal.QuotaUsedUp:
		if c.Git.Push && l.Run.Outcome.Unpushed == "" {
			n.Where = "the next job continues; or on your machine"
		}
	}
	return n
}

// ResumeCommand is the command that resumes a loop, typed where the user is.
func ResumeCommand(root, id, path, here string) string {
	home := store.NewHome(root)
	switch path {
	case home.Default():
		return "descartes resume" + here
	case home.Named(id):
		return "descartes resume --name " + id + here
	}
	return "descartes resume --state-file " + terminal.Quote(path) + here
}

// log shows the run's commits, n by its own count.
func (r *Run) log(n int) string {
	return strings.TrimSuffix(fmt.Sprintf("git log --stat -%d %s", cmp.Or(r.Outcome.Commits, n), r.Outcome.Branch),
		" ")
}
