package run

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
	"descartes/verify"
)

// tidings are what people want to know of an event besides: that a try has ended, and what the gate says.
func (r *Run) tidings(was prompt.Stage, e prompt.Event, spoke []gate.Decision) (lines []*journal.Event, err error) {
	ended := was != prompt.Idle && was != prompt.Asking && was != prompt.CheckingAll && r.machine.Stage == prompt.Idle
	if ended && r.at != nil {
		end, err := r.endLine(e, spoke)
		if err != nil {
			return nil, err
		}
		lines = append(lines, end)
		for _, d := range spoke {
			lines = append(lines, r.warnings(r.at, d.Warnings)...)
		}
		if s, ok := e.(prompt.Resumed); !ok || s.Left != nil || len(spoke) == 0 {
			return lines, nil
		}
	}
	var said []string
	for _, d := range spoke {
		d.Show = slices.DeleteFunc(slices.Clone(d.Show), func(line string) bool { return slices.Contains(said, line) })
		said = append(said, d.Show...)
		state, err := r.voice.state()
		if err != nil {
			return nil, err
		}
		if d.Kind == gate.Continue && len(d.Show) == 0 && string(state) == string(r.told.gate) {
			continue
		}
		line := &journal.Event{Type: journal.GateSpoke, Unit: r.unit(), Verdict: journal.Verdict(d.Kind),
			Reason: cmp.Or(d.Gate, d.Breaker), Message: d.Reason, Next: d.Prompt, Lines: loop.EachLine(d.Show)}
		line.Attempt, line.Of = 0, 0
		if d.Kind == gate.Ask && d.Question != "" {
			line.Message = d.Question
		}
		line.Gate, r.told.gate = state, state
		lines = append(lines, line)
		for _, text := range d.Warnings {
			lines = append(lines, book.Warning(r.unit(), text))
		}
	}
	return lines, nil
}

// endLine is the line of a try's end.
func (r *Run) endLine(e prompt.Event, spoke []gate.Decision) (end *journal.Event, err error) {
	t, res := r.at, &r.at.res
	end = &journal.Event{Type: journal.IterationFinished, Unit: t.unit(), Tree: string(t.res.Work.After),
		Ref: t.kept.ref, Commit: t.kept.landed, Reason: res.Agent.Reason}
	if end.Ref != "" && end.Commit == "" {
		end.Ref = r.place.iterationRef(t.Number)
	}
	end.Detail = &journal.Detail{Client: journal.Client{Backend: t.in.Backend, Model: t.in.Model,
		Log: r.book.Relative(t.in.Log)}, Looks: loop.Looked(res),
		Files: journal.Files{Changed: len(res.Work.Changed), Left: res.Work.Left},
		Exit: journal.Exit{End: string(res.Agent.End), Cause: string(res.Agent.Cause), Code: res.Agent.Code,
			Signal: res.Agent.Signal, Seconds: max(0, r.tools.Now().Sub(t.began).Seconds())}}
	switch o, v := res.Objection, res.Verify; {
	case res.Work.TookBack != "":
		end.Reason, end.Tree = res.Work.TookBack, string(t.before)
	case o != nil:
		end.Reason = o.Reason
	case v != nil && !v.Passed:
		end.Reason = cmp.Or(end.Reason, v.Reason())
	}
	end.Detail.Passed, end.Detail.Words = res.Verify != nil && res.Passed(), store.Preview(res.Agent.Final)
	if res.Agent.End != agent.Finished || !res.Passed() {
		end.Detail.Denied = r.tools.Denied(&r.job.Config, r.root, nil, t.in.Log, r.tools.Hosts())
		end.Detail.Output = loop.Output(res)
	}
	for _, c := range res.Work.Changed[:min(len(res.Work.Changed), loop.MaxChanged)] {
		end.Paths = append(end.Paths, c.Path)
	}
	d := gate.Decision{Kind: gate.Continue}
	if len(spoke) > 0 {
		d = spoke[0]
	}
	end.Verdict, end.Message, end.Lines = journal.Verdict(d.Kind), d.Reason, loop.EachLine(d.Show)
	if r.machine.Then.Plans && !r.machine.At.Plans && r.machine.Say.Word == prompt.Continue {
		end.Lines = append(end.Lines, "the next iteration plans: "+r.ends.plans)
	} else if t.plans {
		end.Message = "the plan is made: " + r.ends.made
	}
	if x, ok := e.(prompt.Delivered); ok && x.Verdict == prompt.Failed {
		end.Detail.Passed, end.Detail.Refused, end.Reason = false, true, r.ends.failure.Reason
	}
	end.Next = loop.JoinText(d.Prompt, loop.FailureText(res), r.refusedText())
	if end.Gate, err = r.voice.state(); err != nil {
		return nil, err
	}
	r.told.gate = end.Gate
	r.verdict(e, end)
	return end, nil
}

// verdict completes the line of a try that says nothing about the work, or that is repeated.
func (r *Run) verdict(e prompt.Event, end *journal.Event) {
	next := loop.JoinText(r.book.History.Prompt.Next...)
	switch x := e.(type) {
	case prompt.Resumed, prompt.Broken:
		if x, ok := e.(prompt.Resumed); ok && (x.Left != nil || x.Landed) {
			break
		}
		end.Verdict, end.Reason, end.Message, end.Lines = journal.Cancelled, journal.Killed, "", nil
		end.Ref = r.at.kept.ref
		if _, broken := e.(prompt.Broken); broken {
			end.Reason = "it could not be finished"
		} else {
			end.Detail.Cause = journal.CauseKilled
		}
		return
	case prompt.CheckEnded:
		if x.Verdict == prompt.Clashed {
			end.Verdict, end.Reason, end.Message, end.Lines = journal.Cancelled, journal.NotCommitted, "", nil
			end.Ref = r.at.kept.ref
			return
		}
	case prompt.AgentEnded:
		if !x.Left.Until.IsZero() {
			end.Detail.Until = &x.Left.Until
		}
		switch x.Left.Verdict {
		case prompt.Limited:
			end.Verdict, end.Next = journal.Limited, r.at.it.Next
			return
		case prompt.Faulty, prompt.Refused:
			end.Verdict, end.Next = journal.Retry, next
			return
		case prompt.Cancelled:
			end.Verdict = journal.Cancelled
			return
		}
	}
	m := r.machine
	switch {
	case m.Then.Again && m.Say.Word == prompt.Continue, m.Settings.Mode != prompt.Loop && m.Rows.Cause != "" && m.Say.Word == prompt.Continue && r.ends.failure.Reason != "":
		end.Verdict, end.Reason, end.Message = journal.Retry, cmp.Or(r.ends.failure.Reason, end.Reason), ""
		end.Next = loop.JoinText(loop.JoinText(r.book.History.Prompt.Kept...), loop.FailureText(&r.at.res),
			r.refusedText())
	case m.Say.Word == prompt.Wait && m.Say.What == prompt.OfAgent:
		end.Detail.Question, end.Message = r.at.question, verify.Asks+oneline.Text(r.at.question)
		r.ends.question = r.at.question
	}
}

// refusedText tells the next agent what git said to the last commit.
func (r *Run) refusedText() string {
	if r.ends.refused == nil || r.machine.Rows.Cause != prompt.ByGit {
		return ""
	}
	return "The commit of this iteration's last try was refused. Fix what it says:\n\n" +
		loop.Tail(r.ends.refused.Error(), loop.MaxWords) + "\n"
}

// reported writes down what an attempt reports while it goes on.
func (r *Run) reported(s *attempt.Step) error {
	unit := r.unit()
	switch s.Moment {
	case attempt.Ended:
		return r.heal(s.Who)
	case attempt.Started:
		e := &journal.Event{Type: journal.VerifyStarted, Unit: unit}
		loop.NameCheck(e, s.Command)
		return r.book.Write(e)
	case attempt.Checked:
		e := &journal.Event{Type: journal.VerifyFinished, Unit: unit, Detail: loop.VerifyDetail(s.Verify)}
		e.Detail.Check = ""
		if loop.NameCheck(e, s.Command); e.Detail.Check != "" && !s.Verify.Passed {
			e.Detail.Why, e.Detail.Output = s.Verify.Reason(), loop.Tail(s.Verify.Tail, loop.MaxWords)
		}
		if !s.Command.Criterion && (s.Command.Name != "" || s.Verify.Tests != nil) {
			e.Detail.Command = s.Command.Run
		}
		return r.book.Write(e)
	case attempt.Looking:
		return r.book.Write(&journal.Event{Type: journal.LookStarted, Unit: unit,
			Detail: &journal.Detail{Look: s.Who}})
	case attempt.Consulted:
		e := loop.AgentEnd(&journal.Event{Unit: unit}, *s.Agent, config.Choice(s.With), loop.MaxFinal)
		e.Type, e.Detail.Look, e.Detail.Tree, e.Detail.Log = journal.LookAnswered, s.Who, string(s.Tree),
			r.book.Relative(s.Log)
		return r.book.Write(loop.WithNotes(e)...)
	case attempt.Noted:
		for _, line := range s.Lines {
			if s.Who != "" && r.told.missing[line] { // what a look says about every attempt is reported once
				continue
			}
			r.told.missing[line] = s.Who != ""
			if err := r.book.Write(book.Warning(unit, line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal restores what is ours and an attempt changed: the journal, the locks, .loop/state.json. who names the part that
// did it.
func (r *Run) heal(who string) error {
	if _, criteria := loop.Deciding(r.job.Gate).(*gate.Criteria); criteria && r.at != nil {
		if who == "attempt" {
			r.at.it.Facts.State = loop.ReadLoopFile(r.agentDir())
		}
		if err := r.book.Write(r.writeLoopFile()...); err != nil {
			return err
		}
	}
	healed, err := r.book.Journal.Heal()
	locks, lost := store.Retake(r.locks.All)
	r.locks.All = locks
	if err = errors.Join(err, lost); err != nil || !healed {
		return err
	}
	if err := r.home.Make(r.tools.FS); err != nil {
		return err
	}
	return r.book.Write(book.Warning(r.unit(), "somebody changed "+r.book.Relative(r.book.Journal.Path())+" during the "+who+
		", which was put back"))
}

// agentDir is the folder the agent works in: in its slot, if it has one.
func (r *Run) agentDir() string {
	if r.place.slot == nil {
		return r.job.Dir
	}
	return r.place.slot.Host(r.job.Dir)
}

// writeLoopFile writes the state of a criteria loop for its agent and for other programs. An unwritable folder stops
// nothing, and is named.
func (r *Run) writeLoopFile() (lines []*journal.Event) {
	c, ok := loop.Deciding(r.job.Gate).(*gate.Criteria)
	if !ok {
		return nil
	}
	text := r.tools.Redact.Bytes(c.StateFile())
	for _, dir := range slices.Compact([]string{r.job.Dir, r.agentDir()}) {
		if err := loop.PutLoopFile(r.tools.FS, dir, text); err != nil {
			return []*journal.Event{book.Warning(journal.Unit{Iteration: r.book.History.Iteration}, err.Error())}
		}
	}
	return nil
}

// putAside keeps an iteration's prompt under another name. If that fails, a view shows the loop's own prompt.
func putAside(from, to string) {
	if os.Rename(from, to) != nil && os.MkdirAll(filepath.Dir(to), 0o755) == nil {
		_ = os.Rename(from, to)
	}
}

// noRoom says that the disk has too little room for another try, or "".
func (r *Run) noRoom() string {
	least := r.job.Config.MinFreeDisk
	if least <= 0 || r.tools.Free == nil {
		return ""
	}
	return loop.Room(r.tools.Free, least, r.root, filepath.Join(r.root, ".descartes"), r.tools.Pool)
}
