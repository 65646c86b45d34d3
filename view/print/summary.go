package print

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// Summary is the end of a run: bars on a terminal, then what is done, blocked and held, the cost, and what to type
// next.
func Summary(l *view.Loop, paint terminal.Paint, boxed bool) string {
	t, out := &text{}, &l.Run.Outcome
	t.say("")
	if l.Board != nil && boxed {
		t.WriteString(bars(l, paint, true, false))
	}
	t.say("%s (run %s, %s, %s)", paint.In(terminal.Bold, l.Head()), l.ID, l.Counted(), terminal.Duration(l.Took))
	if l.Board != nil {
		t.facts("%s: %s", l.Stuck())
		t.WriteString(Questions(l.Questions))
		if out.Message != "" {
			t.say("stopped: %s", terminal.Clean(out.Message))
		}
	}
	if out.Ending == journal.GitRefused || out.Ending == journal.TrunkGone {
		kept, lost := l.KeptWork()
		for _, one := range [][2]string{{"kept", kept}, {"not kept", lost}} {
			if one[1] != "" {
				t.say("%s: %s", one[0], one[1])
			}
		}
	}
	t.facts("%s: %s", l.Facts())
	if l.Step {
		t.say("next step: %s", terminal.Clean(l.Board.NextStep()))
	}
	t.WriteString(l.Here().Lines())
	for _, text := range l.Update {
		t.say("then: %s", terminal.Clean(text))
	}
	if l.Pool != "" {
		t.say("slots: %s on disk; descartes cleanup removes those that no run used for a week", l.Pool)
	}
	return t.String()
}

// why is a task's account with its last attempts.
type why struct {
	*view.Why
	Earlier int
	Latest  []*view.Attempt
}

// Why is why a task is where it is.
func Why(w *view.Why) string {
	earlier := max(0, len(w.Attempts)-10)
	return draw("why", why{w, earlier, w.Attempts[earlier:]})
}

// status is a run with what its page shows besides.
type status struct {
	Lines, Facts, Underway, Gate, Config []view.Fact
	Questions, Bars                      string
	History                              []view.Past
}

// Status says how a run stands: what runs, how far it is and when it may end, then the wave bars of a tag, or the last
// iterations. The settings of a tag's run are for who asks for them.
func Status(l *view.Loop, p terminal.Paint, boxed, verbose bool) string {
	now := time.Now()
	s := status{Lines: l.Lines(now), Facts: l.Facts(), Questions: Questions(l.Questions), Underway: l.Underway(now)}
	if l.Board != nil {
		s.Bars = bars(l, p, boxed, true)
	}
	if l.Gate != nil {
		s.Gate = l.Gate.Facts()
	}
	if verbose || l.Prompt() {
		s.Config = l.Config()
	}
	if l.Prompt() {
		s.Lines = append(s.Lines, view.Fact{Name: "Progress",
			Text: fmt.Sprintf("%s %.0f%% (%d/%d iterations)", blocks(l.Share()), 100*l.Share(), l.Iteration,
				l.MaxIteration)})
		s.History = l.History(10)
	}
	return draw("status", s)
}

const barWidth = 16

func blocks(share float64) string {
	full := int(share*barWidth + 0.001)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// Loops are the runs of a project, the last one last. Of those that are over only the last are listed, unless all are
// asked for.
func Loops(list []view.Listed, all bool) string {
	if len(list) == 0 {
		return "no run was started here\n"
	}
	rows, hidden := [][]string{{"RUN", "KIND", "TAG", "STATE", "DONE", "LAST ACTIVITY"}}, 0
	for i, over := len(list)-1, 0; i >= 0; i-- {
		if list[i].Err == nil && list[i].State == "finished" {
			if over++; over > 10 && !all {
				hidden++
				continue
			}
		}
		rows = slices.Insert(rows, 1, list[i].Row())
	}
	text := table(rows)
	if hidden > 0 {
		text += fmt.Sprintf("and %s that ended before: descartes status --all\n", terminal.Count(hidden, "run"))
	}
	return text
}

// table is rows in columns as wide as their widest cell.
func table(rows [][]string) string {
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], terminal.Width(cell))
		}
	}
	t := &text{}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", wide[i]-terminal.Width(cell)+2)
		}
		t.say("%s", strings.TrimRight(line, " "))
	}
	return t.String()
}

// Questions shows questions with what to type; "" if there are none.
func Questions(list []view.Question) string {
	t := &text{}
	for _, q := range list {
		t.say("asks: %s %s\n%s  %s", terminal.Clean(q.Who()), terminal.Fit(terminal.Clean(q.Title), 60),
			terminal.Indent(q.Question), q.Command)
	}
	return t.String()
}
