package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"descartes/tasks"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
)

type Attempt struct {
	Loop    string    `json:"loop"`
	Attempt int       `json:"attempt"`
	Round   int       `json:"round,omitempty"`     // of several at the same time: the number of the first of them
	Nth     int       `json:"candidate,omitempty"` // and its own number among them
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	Ref     *string   `json:"ref"` // null where the attempt left nothing to keep
	Commit  *string   `json:"commit"`
	Backend string    `json:"backend,omitempty"` // what it was run with
	Model   string    `json:"model,omitempty"`
	Session string    `json:"session_of,omitempty"` // the task in whose session it went on
	Log     string    `json:"log"`
	At      time.Time `json:"at"`
	Cost    *costJSON `json:"cost"` // null where unknown
	dollars string
	before  string // tree
	checks  []*journal.Detail
}

// Done reports whether its work was taken, by the checks or by a person.
func (a *Attempt) Done() bool {
	return a.Verdict == string(journal.Verified) || a.Verdict == string(journal.Accepted)
}

// Attempts joins a task's attempts in the journals with the refs that keep them. A ref whose journal is gone is
// described by its own message.
func (b *Board) Attempts(id string, refs []gitops.Ref) ([]Attempt, error) {
	home := loop.NewHome(b.Root)
	all, err := home.List()
	if err != nil {
		return nil, err
	}
	kept := map[string]gitops.Ref{}
	for _, r := range refs {
		kept[r.Name] = r
	}
	out := []Attempt{}
	told := map[string]bool{}
	for _, s := range all {
		if s.State == nil || s.State.Tag != b.File.Tag() {
			continue
		}
		h, err := journal.Load(home.Events(s.State.ID))
		if err != nil {
			return nil, err
		}
		for _, one := range h.Ended {
			if one.Task != id {
				continue
			}
			a := Attempt{Loop: s.State.ID, Attempt: one.Number, Verdict: one.Outcome(), Reason: one.Reason, At: one.Ended,
				Log: Relative(b.Root, home.Log(s.State.ID, id, one.Number))}
			if d := one.Result; d != nil {
				a.Backend, a.Model = d.Backend, d.Model
			}
			a.checks, a.before = one.Checks, Short(one.Before)
			a.Round, a.Nth = one.Round, one.Candidate()
			if one.From != nil {
				a.Session = one.From.Task
			}
			name := loop.RefPrefix(s.State.ID, id) + strconv.Itoa(one.Number)
			if r, ok := kept[name]; ok {
				a.Ref, a.Commit = &r.Name, &r.Hash
			}
			told[name] = true
			if one.Cost.Runs > 0 {
				c := jsonCost(one.Cost)
				a.Cost, a.dollars = &c, one.Cost.Dollars()
			}
			out = append(out, a)
		}
	}
	for _, r := range refs {
		if k, ok := loop.ReadKept(r, b.File.Tag(), id); ok && !told[r.Name] {
			out = append(out, Attempt{Loop: k.Loop, Attempt: k.Attempt, Verdict: k.Verdict, Reason: k.Reason, Ref: &r.Name, Commit: &r.Hash, At: r.When})
		}
	}
	return out, nil
}

func AttemptTable(id string, list []Attempt) string {
	if len(list) == 0 {
		return "task " + terminal.Clean(id) + " has no attempts\n"
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	several := slices.ContainsFunc(list, func(a Attempt) bool { return a.Loop != list[0].Loop })
	if several {
		fmt.Fprint(w, "LOOP\t")
	}
	mixed := slices.ContainsFunc(list, func(a Attempt) bool { return a.Backend != list[0].Backend || a.Model != list[0].Model })
	with := func(a Attempt) string {
		if !mixed {
			return ""
		}
		return strings.TrimSpace(terminal.Clean(a.Backend)+" "+terminal.Clean(a.Model)) + "\t"
	}
	agent := ""
	if mixed {
		agent = "AGENT\t"
	}
	priced := slices.ContainsFunc(list, func(a Attempt) bool { return a.Cost != nil && a.Cost.USD != nil })
	raced := slices.ContainsFunc(list, func(a Attempt) bool { return a.Nth > 0 })
	fmt.Fprintln(w, "ATTEMPT\t"+column(raced, "CANDIDATE\t")+agent+"VERDICT\t"+column(priced, "COST\t")+"REF\tREASON")
	for _, a := range list {
		ref := "nothing to keep"
		if a.Ref != nil {
			ref = *a.Ref
		}
		if several {
			fmt.Fprintf(w, "%s\t", terminal.Clean(a.Loop))
		}
		nth := "-"
		if a.Nth > 0 {
			nth = strconv.Itoa(a.Nth)
		}
		fmt.Fprintf(w, "%d\t%s%s%s\t%s%s\t%s\n", a.Attempt, column(raced, nth+"\t"), with(a), terminal.Clean(a.Verdict), column(priced, cmp.Or(a.dollars, "unknown")+"\t"), ref, terminal.Fit(terminal.Clean(a.Reason), 80))
	}
	w.Flush() // into memory
	for _, a := range list {
		if a.Ref != nil {
			fmt.Fprintf(&s, "\nlook at one: git diff %s %s\n", cmp.Or(a.before, "HEAD"), *a.Ref)
			break
		}
	}
	return s.String()
}

// CompareSpecs says of attempts, in order, what each one's spec had that the previous one's did not.
func CompareSpecs(list []loop.PastAttempt) {
	for i := 1; i < len(list); i++ {
		if before, a := &list[i-1], &list[i]; before.Spec != "" && a.Spec != "" {
			a.SpecDiff = changes(before.Name(), before.Spec, a.Name(), a.Spec)
		}
	}
}

// changes is the difference of two texts without the two lines that name them.
func changes(oldName, old, newName, text string) string {
	d := string(diff.Diff(oldName, []byte(old), newName, []byte(text)))
	if at := strings.Index(d, "\n@@"); at >= 0 {
		return d[at+1:]
	}
	return d
}

// AttemptsText shows a task's attempts side by side, for a person or as Markdown. chosen is the text kept for the next one.
func (b *Board) AttemptsText(task *tasks.Task, list []loop.PastAttempt, chosen string, markdown bool) string {
	if len(list) == 0 {
		return "task " + terminal.Clean(task.ID) + " has no attempts in any loop known here\n"
	}
	s := sheet{markdown: markdown}
	s.heading(1, fmt.Sprintf("task %s  %s: %s, %s in loop %s", terminal.Clean(task.ID), terminal.Clean(task.Title), b.Graph.Status(task.ID), terminal.Count(len(list), "attempt"), terminal.Clean(list[0].Loop)))
	s.attempts(list)
	if chosen != "" {
		last := list[len(list)-1]
		s.heading(2, "next attempt: a chosen text")
		s.block("differs from that of attempt "+strconv.Itoa(last.Attempt), changes("", last.Spec, "", chosen))
	}
	if !markdown && b.Graph.Status(task.ID) != tasks.Done {
		tune := "descartes loop tune " + terminal.Quote(task.ID) + b.Named()
		fmt.Fprintf(&s, "\nnext: %s --edit\nor: %s --select %d\n", tune, tune, list[len(list)-1].Attempt)
	}
	return s.String()
}

// IterationsText shows the iterations of a prompt loop, as AttemptsText does.
func IterationsText(st *loop.State, list []loop.PastAttempt, chosen string, markdown bool) string {
	s := sheet{markdown: markdown}
	s.heading(1, fmt.Sprintf("loop %s: %s", st.ID, terminal.Count(len(list), "iteration")))
	s.attempts(list)
	if chosen != "" {
		s.heading(2, "next iteration: a chosen text")
		s.block("the text", chosen)
	}
	if !markdown && !st.Completed {
		tune := "descartes loop tune --name " + st.ID
		fmt.Fprintf(&s, "\nnext: %s --edit\nor: %s --select %d\n", tune, tune, list[len(list)-1].Attempt)
	}
	return s.String()
}

// sheet is a text with headings and blocks, plain or Markdown.
type sheet struct {
	strings.Builder
	markdown bool
}

func (s *sheet) attempts(list []loop.PastAttempt) {
	for i := range list {
		a := &list[i]
		line := fmt.Sprintf("%s  %s", a.Name(), terminal.Clean(a.Verdict))
		if a.Reason != "" {
			line += ": " + terminal.Clean(a.Reason)
		}
		s.heading(2, line)
		facts := fmt.Sprintf("took %s, cost %s", terminal.Duration(time.Duration(a.Seconds*float64(time.Second))), a.Cost.Text())
		if a.Tuned {
			facts += "; its text was chosen by hand"
		}
		if !a.Kept && a.Spec != "" {
			facts += "; its text is built again from the files as they are now"
		}
		if a.Ref != "" {
			facts += "; kept as " + a.Ref
		}
		fmt.Fprintf(s, "  %s\n", facts)
		if s.markdown {
			s.WriteString("\n")
		}
		s.block("a review advised", a.Refinement)
		s.block("the spec differs from that of the attempt before", a.SpecDiff)
		s.block("the agent's last words", a.Words)
		s.block("the verification printed", a.Output)
		s.block("it changed", cmp.Or(a.Diff, a.DiffStat))
	}
}

func (s *sheet) heading(level int, text string) {
	if s.Len() > 0 {
		s.WriteString("\n")
	}
	if s.markdown {
		fmt.Fprintf(s, "%s %s\n\n", strings.Repeat("#", level), text)
		return
	}
	s.WriteString(text + "\n")
}

// block shows foreign text: indented for a person, in a fence that it does not close for Markdown.
func (s *sheet) block(lead, text string) {
	text = strings.TrimRight(text, "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	if s.markdown {
		fence := "```"
		for strings.Contains(text, fence) {
			fence += "`"
		}
		fmt.Fprintf(s, "%s:\n\n%s\n%s\n%s\n\n", strings.ToUpper(lead[:1])+lead[1:], fence, text, fence)
		return
	}
	fmt.Fprintf(s, "  %s:\n", lead)
	for line := range strings.SplitSeq(text, "\n") {
		s.WriteString(strings.TrimRight("    "+terminal.Clean(strings.ReplaceAll(line, "\t", "    ")), " ") + "\n")
	}
}
